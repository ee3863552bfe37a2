use super::*;
use crate::inventory::Severity;
use crate::{ReadOptions, read};
use kbench_workload::{Dtype, DtypeTag, ShapeValue};
use proptest::prelude::*;

fn read_text(text: &str) -> Result<Inventory, ReadError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inventory.csv");
    std::fs::write(&path, text).unwrap();
    read(&[path], &ReadOptions::default())
}

#[test]
fn the_shortest_inventory() {
    let inventory = read_text(
        "family,dtype,shape,calls\ngemm,bf16,\"m=16,n=2048,k=4096\",48\nrmsnorm,bf16,rows=16 hidden=4096,96\n",
    )
    .unwrap();
    assert_eq!(inventory.rows.len(), 2);
    let gemm = inventory.rows.iter().find(|row| row.family == Family::Gemm).unwrap();
    assert_eq!((gemm.calls, gemm.provenance, gemm.kernel.as_str()), (48, Provenance::Given, "gemm"));
    assert_eq!(gemm.shapes[0].shape, ShapeMap::new().with("m", 16).with("n", 2048).with("k", 4096));
    assert_eq!(gemm.shapes[0].dtypes, Dtypes::uniform(Dtype::Bf16));
    assert_eq!(gemm.location.line, 2);
    assert_eq!(inventory.source.dialect, "kbench inventory");
}

#[test]
fn lines_of_one_named_kernel_are_one_row() {
    let text = "shape,family,kernel,calls,total_us,phase\nm=1 n=2 k=3,gemm,k1,2,1.5,decode\nm=2 n=2 k=3,gemm,k1,1,0.5,decode\n\
                m=2 n=2 k=3,gemm,k1,1,0.5,prefill\n";
    let inventory = read_text(text).unwrap();
    assert_eq!(inventory.rows.len(), 2);
    let decode = &inventory.rows[0];
    assert_eq!((decode.calls, decode.total_ns, decode.shapes.len(), decode.phase), (3, 2000, 2, Phase::Decode));
}

#[test]
fn wrong_cells_are_named() {
    for (text, line, column, part) in [
        ("family,shape\ngem,m=1\n", 2, "family", "no such family"),
        ("family,shape\n\n# note\ngemm,m\n", 4, "shape", "key=value"),
        ("family,shape,calls\ngemm,m=1,x\n", 2, "calls", "whole number"),
        ("family,shape,calls\ngemm,m=1,-3\n", 2, "calls", "whole number"),
        ("family,dtype,shape\ngemm,bf17,m=1\n", 2, "dtype", "unknown name"),
        ("family,shape,calls\ngemm,m=1,n=2,k=3,4\n", 2, "calls", "quotes"),
        ("family,shape,phase\ngemm,m=1,deocde\n", 2, "phase", "no phase"),
        ("family,shape,provenance\ngemm,m=1,guess\n", 2, "provenance", "no provenance"),
        ("family,shape,total_us\ngemm,m=1,fast\n", 2, "total_us", "time in µs"),
        ("family,shape,assumed\ngemm,m=1,\"[1\"\n", 2, "assumed", "JSON list"),
        ("# kbench.inventory/2 {}\nfamily,shape\n", 1, "#", "kbench.inventory/1"),
        ("# kbench.inventory/1 {bad\nfamily,shape\n", 1, "#", "head"),
    ] {
        match read_text(text) {
            Err(error @ ReadError::Cell { .. }) => {
                let shown = error.to_string();
                assert!(shown.contains(&format!("inventory.csv:{line}: column `{column}`")), "{text}: {shown}");
                assert!(shown.contains(part), "{text}: {shown}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn misspelt_columns_are_told_not_swallowed() {
    let inventory = read_text("family,shape,call\ngemm,m=1,7\n").unwrap();
    assert_eq!(inventory.rows[0].calls, 1);
    assert!(
        inventory.health.iter().any(|finding| finding.code == "unknown_columns" && finding.message.contains("`call`"))
    );
}

#[test]
fn an_inventory_without_rows_is_an_error() {
    assert!(matches!(read_text("family,shape\n"), Err(ReadError::Empty { .. })));
}

fn shapes() -> impl Strategy<Value = ShapeMap> {
    let value = prop_oneof![
        any::<u64>().prop_map(ShapeValue::Int),
        prop::collection::vec(0_u64..5, 0..6).prop_map(ShapeValue::List),
        "[a-z][a-z0-9_.]{0,6}".prop_map(ShapeValue::Word),
    ];
    prop::collection::btree_map("[a-z_][a-z0-9_]{0,5}", value, 0..5)
        .prop_map(|pairs| pairs.into_iter().fold(ShapeMap::new(), |shape, (key, value)| shape.with_value(&key, value)))
}

fn dtypes() -> impl Strategy<Value = Dtypes> {
    let tag =
        prop_oneof![Just(DtypeTag::Fp8), Just(DtypeTag::Exact(Dtype::Bf16)), Just(DtypeTag::Exact(Dtype::Fp4E2m1))];
    (prop::option::of(tag.clone()), prop::collection::btree_map("[a-z]{1,4}", tag, 0..3)).prop_map(|(all, roles)| {
        let start = all.map_or_else(Dtypes::default, Dtypes::uniform);
        roles.into_iter().fold(start, |dtypes, (role, tag)| dtypes.with(&role, tag))
    })
}

fn provenances() -> impl Strategy<Value = Provenance> {
    use Provenance::{Capture, Eager, Exact, Given, LabelModel, Name, None};
    prop::sample::select(vec![Exact, Capture, Eager, LabelModel, Name, Given, None])
}

fn uses() -> impl Strategy<Value = ShapeUse> {
    (shapes(), dtypes(), 0..1_u64 << 40, 0..1_u64 << 40, provenances(), prop::collection::vec(any::<String>(), 0..3))
        .prop_map(|(shape, dtypes, calls, total_ns, provenance, assumed)| ShapeUse {
            shape,
            dtypes,
            calls,
            total_ns,
            provenance,
            assumed,
        })
}

fn rows() -> impl Strategy<Value = Row> {
    let families: Vec<Family> = Family::all().collect();
    let phases = vec![Phase::Prefill, Phase::Decode, Phase::Mixed, Phase::Unknown];
    let names =
        (".+", any::<String>(), any::<String>(), prop::option::of("(?s).+"), prop::option::of("[ \",#\r\n]{1,4}"));
    let numbers = (0..1_u64 << 40, 0..1_u64 << 40);
    let place = ("[a-z/:]{0,9}", any::<u64>());
    (
        names,
        prop::sample::select(families),
        prop::sample::select(phases),
        numbers,
        prop::collection::vec(uses(), 0..4),
        place,
    )
        .prop_map(
            |((kernel, raw, category, op, position), family, phase, (calls, total_ns), shapes, (file, line))| Row {
                kernel_raw: if raw.is_empty() { kernel.clone() } else { raw },
                kernel,
                family,
                category,
                op,
                position,
                phase,
                calls,
                total_ns,
                share: 0.0,
                provenance: Provenance::None,
                shapes,
                location: Location { file, line },
            },
        )
}

fn inventories() -> impl Strategy<Value = Inventory> {
    let finding = (any::<String>(), any::<bool>(), any::<String>()).prop_map(|(code, is_note, message)| Finding {
        code,
        severity: if is_note { Severity::Note } else { Severity::Warning },
        message,
    });
    let source = (any::<Vec<String>>(), ".+", prop::option::of(any::<u64>()), any::<String>()).prop_map(
        |(paths, dialect, steps, hint)| Source { paths, dialect, steps, hints: [("batch".to_owned(), hint)].into() },
    );
    (source, prop::collection::btree_map(any::<String>(), finding, 0..3), prop::collection::vec(rows(), 1..6)).prop_map(
        |(source, health, rows)| Inventory {
            source,
            health: health.into_values().collect(),
            rows,
            ..Inventory::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_is_read_back(mut inventory in inventories()) {
        inventory.finish();
        let mut bytes = Vec::new();
        inventory.write_csv(&mut bytes).unwrap();
        let read = read_text(&String::from_utf8(bytes).unwrap()).unwrap();
        prop_assert_eq!(read, inventory);
    }

    #[test]
    fn any_text_behind_a_header_is_rows_or_an_error(text in "[a-z0-9=,\" \n#\\[\\]*-]{0,120}") {
        let _ = read_text(&format!("family,shape,calls,kernel\ngemm,m=1,2,k\n{text}"));
    }
}

#[test]
fn the_document_has_the_keys_of_the_schema() {
    let inventory =
        read_text("family,dtype,shape,calls,total_ns\ngemm,bf16,m=1 n=2 k=3,4,100\nother,,,1,300\n").unwrap();
    let json = inventory.to_json();
    assert_eq!(json["schema"], "kbench.inventory/1");
    assert_eq!(json["kernel_ns"], 400);
    assert_eq!(json["coverage"]["by_provenance"]["given"], 0.25);
    assert_eq!(json["rows"][0]["family"], "other");
    assert_eq!(json["rows"][1]["shapes"][0]["shape"]["m"], 1);
    assert_eq!(json["rows"][1]["shapes"][0]["dtypes"]["default"], "bf16");
    for key in ["source", "health"] {
        assert!(json.get(key).is_some(), "{key}");
    }
}
