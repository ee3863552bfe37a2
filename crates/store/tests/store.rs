//! What is saved comes back; lists, histories, names and removal.

#![allow(clippy::unwrap_used)] // helpers outside of test functions, too

mod common;

use common::{document, name, which};
use kbench_store::{HistoryFilter, Prune, RunName, Selector, Store, StoreError};
use proptest::{prelude::*, test_runner::Config};
use serde_json::{Value, json};
use tempfile::TempDir;

fn store() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("deep/er/kbench.db")).unwrap();
    (folder, store)
}

#[test]
fn an_exported_document_equals_the_saved_one() {
    let (_folder, mut store) = store();
    let saved: Vec<Value> = (0..4).map(|seed| document(seed, 5)).collect();
    for (i, document) in saved.iter().enumerate() {
        store.save(&name(&format!("run {i}")), 1_000 + i as i64, document).unwrap();
    }
    for (i, document) in saved.iter().enumerate() {
        assert_eq!(&store.export(&which(&format!("run {i}"))).unwrap(), document);
        // Also as text: no digit changes.
        assert_eq!(store.export(&which(&format!("#{}", i + 1))).unwrap().to_string(), document.to_string());
    }
    store.check().unwrap();
}

#[test]
fn samples_are_not_in_the_document_and_take_less_room() {
    let (_folder, mut store) = store();
    let document = document(1, 40);
    store.save(&name("a"), 0, &document).unwrap();
    let sqlite = rusqlite::Connection::open(store.path()).unwrap();
    let (text, arrays, packed): (String, i64, i64) = sqlite
        .query_row(
            "SELECT document, (SELECT count(*) FROM arrays), (SELECT sum(length(data)) FROM arrays) FROM runs",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    // Samples and clocks of forty cases, and the one under an odd key.
    assert_eq!(arrays, 81);
    let skeleton: Value = serde_json::from_str(&text).unwrap();
    assert!(skeleton.pointer("/cases/0/timing/samples_ns").unwrap().is_null());
    let taken = document.to_string().len() - text.len();
    assert!((packed as usize) * 2 < taken, "{packed} bytes for {taken}");
}

#[test]
fn runs_are_listed_newest_first_and_found_by_name_and_number() {
    let (_folder, mut store) = store();
    for (label, created) in [("main", 10), ("topic", 20), ("main", 30)] {
        store.save(&name(label), created, &document(created as u64, 2)).unwrap();
    }
    let listed: Vec<_> =
        store.list(None).unwrap().into_iter().map(|run| (run.id.get(), run.name.to_string(), run.created_ms)).collect();
    assert_eq!(listed, [(3, "main".to_owned(), 30), (2, "topic".to_owned(), 20), (1, "main".to_owned(), 10)]);
    assert_eq!(store.list(Some(&name("topic"))).unwrap().len(), 1);
    for (selector, id) in [("main", 3), ("main~0", 3), ("main~1", 1), ("#2", 2), ("topic", 2)] {
        assert_eq!(store.resolve(&which(selector)).unwrap().get(), id, "{selector}");
    }
    let run = store.run(&which("main")).unwrap();
    assert_eq!((run.cases, run.ok), (4, 3));
    assert_eq!((run.device_name.as_deref(), run.arch.as_deref()), (Some("AMD Instinct MI300X"), Some("gfx942")));
    for missing in ["main~2", "#9", "other"] {
        let error = store.export(&which(missing)).unwrap_err();
        assert!(matches!(error, StoreError::NoSuchRun { .. }), "{error}");
        assert!(error.to_string().contains("main (2 runs), topic"), "{error}");
    }
}

#[test]
fn cases_have_their_columns() {
    let (_folder, mut store) = store();
    let document = document(3, 1);
    store.save(&name("a"), 5, &document).unwrap();
    let cases = store.cases(&which("a")).unwrap();
    let timing = &document["cases"][0]["timing"];
    assert_eq!(cases[0].case_id, "gemm bf16 m=0 n=2048 k=4096");
    assert_eq!(cases[0].median_ns, timing["median_ns"].as_f64());
    assert_eq!(cases[0].ci95_ns.unwrap().1, timing["ci95_ns"][1].as_f64().unwrap());
    assert_eq!((cases[0].cache.as_deref(), cases[0].samples), (Some("cold"), Some(100)));
    assert_eq!((cases[1].bound_ns, cases[1].limiter.as_deref()), (Some(1234.5678901234567), Some("hbm")));
    assert_eq!(cases[2].status.as_deref(), Some("skipped"));
    let builds = store.builds().unwrap();
    assert_eq!(builds.len(), 1);
    assert_eq!(builds[0].resources, Some(json!({"vgprs": 128, "lds_bytes": 65536})));
}

#[test]
fn history_is_oldest_first_and_filtered() {
    let (_folder, mut store) = store();
    for (label, created) in [("main", 10), ("topic", 20), ("main", 30)] {
        store.save(&name(label), created, &document(created as u64, 3)).unwrap();
    }
    let ask = |case: Option<&str>, run: Option<&str>, newest| {
        let filter = HistoryFilter { case: case.map(str::to_owned), name: run.map(name), device: None, newest };
        let points = store.history(&filter).unwrap();
        points.into_iter().map(|point| (point.run.get(), point.case.case_id)).collect::<Vec<_>>()
    };
    let m1 = "gemm bf16 m=1 n=2048 k=4096".to_owned();
    assert_eq!(ask(Some("m=1 "), None, None), [(1, m1.clone()), (2, m1.clone()), (3, m1.clone())]);
    assert_eq!(ask(Some("*m=1*k=4096"), Some("main"), None), [(1, m1.clone()), (3, m1.clone())]);
    assert_eq!(ask(Some(&m1), None, Some(1)), [(3, m1)]);
    assert_eq!(ask(None, Some("topic"), None).len(), 5);
    assert_eq!(ask(Some("m=7"), None, None), []);
    let other = HistoryFilter { device: Some("MI250X".to_owned()), ..HistoryFilter::default() };
    assert!(store.history(&other).unwrap().is_empty());
}

#[test]
fn renaming_deleting_and_pruning() {
    let (_folder, mut store) = store();
    for (label, created) in [("main", 10), ("main", 20), ("topic", 15), ("main", 30)] {
        store.save(&name(label), created, &document(created as u64, 2)).unwrap();
    }
    // Nothing without a limit.
    assert_eq!(store.prune(&Prune::default(), false).unwrap().runs, []);
    let gone = |pruned: kbench_store::Pruned| pruned.runs.into_iter().map(|run| run.0.get()).collect::<Vec<_>>();
    let keep = |keep, older_than_ms| Prune { keep, older_than_ms };
    assert_eq!(gone(store.prune(&keep(Some(1), None), true).unwrap()), [1, 2]);
    assert_eq!(gone(store.prune(&keep(None, Some(16)), true).unwrap()), [1, 3]);
    assert_eq!(gone(store.prune(&keep(Some(2), Some(16)), true).unwrap()), [1]);
    assert_eq!(store.list(None).unwrap().len(), 4, "a dry run removes nothing");
    assert_eq!(gone(store.prune(&keep(Some(1), None), false).unwrap()), [1, 2]);

    assert_eq!(store.rename(&which("topic"), &name("other")).unwrap().get(), 3);
    assert!(store.rename(&which("topic"), &name("x")).is_err());
    assert_eq!(store.export(&which("other")).unwrap(), document(15, 2));
    store.delete(&which("other")).unwrap();
    assert!(store.delete(&which("other")).is_err());
    // The builds of the run that is left stay; with it they go.
    assert_eq!(store.builds().unwrap().len(), 2);
    store.delete(&which("main")).unwrap();
    assert!(store.builds().unwrap().is_empty() && store.list(None).unwrap().is_empty());
    // Numbers are not used again.
    assert_eq!(store.save(&name("main"), 0, &document(1, 1)).unwrap().get(), 5);
    store.check().unwrap();
}

#[test]
fn documents_that_cannot_be_kept_are_refused_whole() {
    let (_folder, mut store) = store();
    let mut deep = json!([]);
    for _ in 0..130 {
        deep = json!([deep]);
    }
    for bad in [json!([1]), json!(null), json!({ "a": deep })] {
        assert!(matches!(store.save(&name("bad"), 0, &bad), Err(StoreError::Document { .. })));
    }
    assert!(store.list(None).unwrap().is_empty());
    // A document that is no run is kept too; it has no cases.
    store.save(&name("odd"), 0, &json!({"cases": 3})).unwrap();
    assert_eq!(store.export(&which("odd")).unwrap(), json!({"cases": 3}));
}

#[test]
fn names() {
    for good in ["main", "nightly 2026-11-29", "a/b", "ÄÖ"] {
        assert_eq!(good.parse::<RunName>().unwrap().as_str(), good);
        assert_eq!(good.parse::<Selector>().unwrap().to_string(), good);
    }
    for bad in ["", " a", "a ", "#1", "a~1", "-a", "a\nb", &"x".repeat(201)] {
        assert!(bad.parse::<RunName>().is_err(), "{bad:?}");
    }
    assert_eq!("main~3".parse::<Selector>().unwrap(), Selector::Name(name("main"), 3));
    for bad in ["#", "#x", "main~", "main~-1", "~1", "a~b~1"] {
        assert!(bad.parse::<Selector>().is_err(), "{bad:?}");
    }
}

/// JSON of any form, with arrays that are long enough to be taken out.
fn any_json() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<f64>().prop_filter("JSON has no NaN", |v| v.is_finite()).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
    ];
    let floats = prop::collection::vec(any::<f64>().prop_filter("finite", |v| v.is_finite()), 30..40);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number.clone(),
        "[ -~/\u{e4}]{0,8}".prop_map(Value::from),
        floats.prop_map(Value::from),
        prop::collection::vec(any::<i64>(), 30..40).prop_map(Value::from),
        prop::collection::vec(number, 30..40).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map("[ -~]{0,6}", inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(60) })]

    #[test]
    fn any_document_comes_back(values in prop::collection::vec(any_json(), 1..6)) {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::open(&folder.path().join("a.db")).unwrap();
        for value in values {
            let document = json!({"cases": [value.clone()], "x": value});
            let id = store.save(&name("a"), 0, &document).unwrap();
            prop_assert_eq!(store.export(&Selector::Id(id.get())).unwrap(), document);
        }
    }
}
