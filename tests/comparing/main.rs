//! Runs and profiles made here, compared by the library: verdicts, pairing, gates, outputs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod gates;

use kbench::compare::document::{Comparison, Method, Outcome};
use kbench::compare::gate::{Gate, GateError, Limit, matches};
use kbench::compare::pairing::Obstacle;
use kbench::compare::profiles::{Profile, compare_profiles};
use kbench::compare::read::{ReadError, Run};
use kbench::compare::*;
use kbench_profile::{Inventory, Location, Phase, Provenance, Row, Source};
use kbench_stats::{BetweenRuns, Correction, Probability, Rule};
use kbench_workload::Family;
use proptest::{prelude::*, test_runner::Config};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn settings(allow: &[Obstacle]) -> Settings {
    Settings {
        rule: Rule::new(0.01, 0.0, Probability::new(0.05).unwrap()).unwrap(),
        correction: Correction::Holm,
        between: BetweenRuns::Assumed { sd: 0.01 },
        between_source: "assumed".to_owned(),
        allow: allow.iter().copied().collect(),
        wanted: BTreeSet::new(),
    }
}

/// A measured case: median and 95 % interval of ±0.2 %.
fn timed(id: &str, share: f64, median_ns: f64) -> Value {
    json!({
        "id": id, "family": "gemm", "kernel": "k", "weight": {"calls": 10, "share": share, "phase": "decode"}, "status": "ok",
        "build": {"file": "a.co", "sha256": "aa"},
        "timing": {"source": "dispatch", "cache": "cold", "median_ns": median_ns,
                   "ci95_ns": [median_ns * 0.998, median_ns * 1.002]},
    })
}

fn emulated(id: &str, bound_ns: f64, instructions: u64, conflicts: f64) -> Value {
    json!({
        "id": id, "family": "gemm", "weight": {"calls": 10, "phase": "decode"}, "status": "ok",
        "bound": {"ns": bound_ns, "limiter": "valu", "by_resource": {"valu": bound_ns, "hbm": 3.0}},
        "counters": {"SQ_LDS_BANK_CONFLICT": {"value": conflicts, "unit": "cycles", "kind": "model"},
                     "SQ_INSTS_VALU": {"value": 5.0, "unit": "count", "kind": "exact"},
                     "FETCH_SIZE": {"value": 2.0, "unit": "KiB", "kind": "derived"},
                     "WRITE_SIZE": {"value": 1.0, "unit": "KiB", "kind": "derived"}},
        "launches": [{"instructions": instructions, "lds_bytes": 1024, "waves_per_simd": 8.0,
                      "resources": {"vgprs": 64, "scratch_bytes": 0}}],
    })
}

fn document(kind: &str, cases: Vec<Value>) -> Value {
    json!({"schema": "kbench.run/1", "tool": {"version": "1"}, "device": {"kind": kind, "name": "D", "arch": "gfx942"},
           "environment": {"rocm": "7.0"}, "options": {"seed": 1}, "cases": cases})
}

fn run_of(document: Value) -> Run {
    Run::of(document).unwrap()
}

fn run(cases: Vec<Value>) -> Run {
    run_of(document("hip", cases))
}

fn compared(base: &Run, candidate: &Run) -> Comparison {
    compare_runs(("base", base), ("cand", candidate), &settings(&[])).unwrap()
}

fn verdicts(comparison: &Comparison) -> Vec<(&str, &str)> {
    comparison.cases.iter().map(|case| (case.id.as_str(), case.verdict)).collect()
}

#[test]
fn separate_runs_get_the_words_that_their_distance_allows() {
    let base =
        run(vec![timed("a", 0.5, 100.0), timed("b", 0.3, 100.0), timed("c", 0.1, 100.0), timed("d", 0.1, 100.0)]);
    let candidate =
        run(vec![timed("a", 0.5, 110.0), timed("b", 0.3, 80.0), timed("c", 0.1, 100.5), timed("d", 0.1, 103.0)]);
    let found = compared(&base, &candidate);
    assert_eq!(found.method, Method::SeparateRuns);
    assert_eq!(verdicts(&found), [("a", "SLOWER"), ("b", "FASTER"), ("c", "SAME"), ("d", "INCONCLUSIVE")]);
    // 0.5·0.1 − 0.3·0.2 + 0.1·0.005 + 0.1·0.03
    let summary = found.summary.unwrap();
    let step = summary.step.unwrap();
    assert!((step.change + 0.0065).abs() < 1e-9, "{}", step.change);
    assert!((step.share - 1.0).abs() < 1e-9);
    // The error that all cases share: √2 · 1 % on Σ share·ratio = 0.9935; the cases' own errors add little.
    let half = (step.interval[1] - step.interval[0]) / 2.0;
    let z = 1.959_963_984_540_054;
    let (common, own) = (0.9935 * 0.01 * 2.0_f64.sqrt() * z, 0.002 * 2.0_f64.sqrt() * 0.65);
    assert!(half > common && half < common.hypot(own), "{half}");
    assert_eq!(summary.verdicts["SLOWER"], 1);
    assert!(found.cases[0].reason.as_deref().unwrap().contains("identical"));
}

#[test]
fn holm_takes_back_what_one_of_many_would_be() {
    let many =
        |last: f64| run((0..20).map(|i| timed(&format!("c{i}"), 0.05, if i == 19 { last } else { 100.0 })).collect());
    // 3.2 % is 2.2 errors: significant alone, not as one of twenty.
    let word = |settings: &Settings| {
        let found = compare_runs(("a", &many(100.0)), ("b", &many(103.2)), settings).unwrap();
        found.cases.iter().find(|case| case.id == "c19").unwrap().verdict
    };
    assert_eq!(word(&settings(&[])), "INCONCLUSIVE");
    assert_eq!(word(&Settings { correction: Correction::None, ..settings(&[]) }), "SLOWER");
}

#[test]
fn a_change_that_the_clock_explains_is_doubted() {
    let at = |median: f64, mhz: f64| {
        let mut case = timed("a", 1.0, median);
        case["timing"]["clock"] = json!({"median_mhz": mhz});
        run(vec![case])
    };
    let slower_clock = compared(&at(100.0, 2100.0), &at(110.0, 1910.0));
    assert_eq!(slower_clock.cases[0].verdict, "INCONCLUSIVE");
    assert!(slower_clock.cases[0].reason.as_deref().unwrap().contains("clocks"));
    assert_eq!(compared(&at(100.0, 2100.0), &at(110.0, 2100.0)).cases[0].verdict, "SLOWER");
    // A gate neither fails nor passes on it, whichever way the clocks moved.
    for (median, mhz) in [(110.0, 1910.0), (90.0, 2330.0)] {
        let mut found = compared(&at(100.0, 2100.0), &at(median, mhz));
        assert_eq!(found.cases[0].doubt, Some("clocks_differ"));
        let open = |name: &str| (name.to_owned(), Outcome::Inconclusive);
        assert_eq!(outcomes("time:+3%,step:+3%", &mut found), [open("time"), open("step")]);
    }
}

#[test]
fn without_an_interval_nothing_is_concluded() {
    let mut case = timed("a", 1.0, 200.0);
    case["timing"]["ci95_ns"] = Value::Null;
    let found = compared(&run(vec![timed("a", 1.0, 100.0)]), &run(vec![case]));
    assert_eq!((found.cases[0].verdict, found.cases[0].ratio.unwrap().interval), ("INCONCLUSIVE", None));
}

/// A case without an interval has an error that is not known, which must not look like none.
#[test]
fn what_has_no_interval_is_left_out_of_the_step() {
    let bare = |id: &str, share: f64, median: f64| {
        let mut case = timed(id, share, median);
        case["timing"]["ci95_ns"] = Value::Null;
        case
    };
    let base = run(vec![timed("a", 0.7, 100.0), timed("b", 0.3, 100.0)]);
    let mut found = compared(&base, &run(vec![timed("a", 0.7, 100.0), bare("b", 0.3, 200.0)]));
    let step = found.summary.as_ref().unwrap().step.unwrap();
    assert!(step.change.abs() < 1e-12 && (step.share - 0.7).abs() < 1e-12 && (step.left_out - 0.3).abs() < 1e-12);
    assert_eq!(step.cases, 1);
    assert_eq!(outcomes("step:+10%", &mut found), [("step".to_owned(), Outcome::Inconclusive)]);
    assert_eq!(outcomes("step:+10%", &mut compared(&base, &base)), [("step".to_owned(), Outcome::Pass)]);
    // What is known may be enough to fail.
    let mut found = compared(&base, &run(vec![timed("a", 0.7, 150.0), bare("b", 0.3, 100.0)]));
    assert_eq!(outcomes("step:+10%", &mut found), [("step".to_owned(), Outcome::Fail)]);
    // And where nothing is known there is no step.
    let mut found = compared(&base, &run(vec![bare("a", 0.7, 90.0), bare("b", 0.3, 90.0)]));
    assert!(found.summary.as_ref().unwrap().step.is_none());
    assert_eq!(outcomes("step:+10%", &mut found), [("step".to_owned(), Outcome::Inconclusive)]);
    let mut text = Vec::new();
    render_table::write(&mut text, &found, 40).unwrap();
    render_markdown::write(&mut text, &found, 40).unwrap();
    assert!(String::from_utf8(text).unwrap().contains("no case has an interval"));
}

#[test]
fn what_must_be_alike_is_refused_unless_allowed() {
    let base = document("hip", vec![timed("a", 1.0, 100.0)]);
    let changed = |pointer: &str, value: Value| {
        let mut document = base.clone();
        *document.pointer_mut(pointer).unwrap() = value;
        run_of(document)
    };
    let base_run = run_of(base.clone());
    for (other, obstacle) in [
        (changed("/device/name", json!("E")), Obstacle::Device),
        (changed("/device/kind", json!("host")), Obstacle::Device),
        (changed("/device/arch", json!("gfx950")), Obstacle::Arch),
        (changed("/cases/0/timing/source", json!("event")), Obstacle::TimeSource),
        (changed("/cases/0/timing/cache", json!("warm")), Obstacle::Cache),
    ] {
        let error = compare_runs(("x", &base_run), ("y", &other), &settings(&[])).unwrap_err();
        assert!(matches!(&error, CompareError::NotComparable { words, .. } if words == obstacle.word()), "{error}");
        let allowed = compare_runs(("x", &base_run), ("y", &other), &settings(&[obstacle])).unwrap();
        assert_eq!((allowed.cases.len(), allowed.allowed.len()), (1, 1));
    }
    let sampled = |ran: Option<u64>| {
        let mut case = emulated("a", 10.0, 5, 0.0);
        if let Some(ran) = ran {
            case["launches"][0]["sampled"] = json!({"ran": ran, "workgroups": 64});
        }
        run_of(document("emu", vec![case]))
    };
    assert!(compare_runs(("x", &sampled(Some(8))), ("y", &sampled(None)), &settings(&[])).is_err());
    assert!(compare_runs(("x", &sampled(Some(8))), ("y", &sampled(Some(8))), &settings(&[])).is_ok());
    let error = compare_runs(("x", &base_run), ("y", &run(vec![timed("z", 1.0, 1.0)])), &settings(&[])).unwrap_err();
    assert!(matches!(error, CompareError::NothingInCommon { .. }), "{error}");
}

#[test]
fn cases_are_paired_by_id_phase_and_cache_state() {
    let with = |id: &str, phase: &str, cache: &str, ns: f64| {
        let mut case = timed(id, 0.1, ns);
        case["weight"]["phase"] = json!(phase);
        case["timing"]["cache"] = json!(cache);
        case
    };
    let base = run(vec![
        with("a@cold", "decode", "cold", 100.0),
        with("a@warm", "decode", "warm", 50.0),
        with("b", "prefill", "cold", 10.0),
        with("b", "decode", "cold", 20.0),
    ]);
    let candidate = run(vec![
        with("b", "decode", "cold", 20.0),
        with("b", "prefill", "cold", 10.0),
        with("a", "decode", "warm", 50.0),
    ]);
    let found = compared(&base, &candidate);
    let mut ratios: Vec<_> = found.cases.iter().map(|case| (case.id.as_str(), case.ratio.unwrap().base_ns)).collect();
    ratios.sort_by(|a, b| a.1.total_cmp(&b.1));
    assert_eq!(ratios, [("b", 10.0), ("b", 20.0), ("a", 50.0)]);
    assert!(found.cases.iter().all(|case| case.ratio.unwrap().ratio == 1.0));
    assert_eq!(found.not_compared.len(), 1);
    assert!(found.not_compared[0].reason.contains("only in the base (cold)"));
    assert_eq!(found.summary.unwrap().by_phase.len(), 2);
}

/// With `--cache both` a case counts once, cold; a small one was measured warm both times, and its id says what was asked for.
#[test]
fn a_case_in_two_cache_modes_counts_once() {
    let with = |id: &str, cache: &str, ns: f64| {
        let mut case = timed(id, 0.0, ns);
        case["timing"]["cache"] = json!(cache);
        case
    };
    let side = |small: f64| {
        run(vec![
            with("small@warm", "warm", small * 0.5),
            with("small@cold", "warm", small),
            with("large@cold", "cold", 300.0),
            with("large@warm", "warm", 100.0),
        ])
    };
    let found = compared(&side(100.0), &side(120.0));
    let shares: Vec<_> = found.cases.iter().map(|case| (case.id.as_str(), case.share)).collect();
    // 100 of 400 and 300 of 400; the warm rows have the shares of their cases.
    assert_eq!(shares, [("large", 0.75), ("large", 0.75), ("small", 0.25), ("small", 0.25)]);
    let step = found.summary.as_ref().unwrap().step.unwrap();
    assert!((step.change - 0.25 * 0.2).abs() < 1e-9 && step.cases == 2, "{step:?}");
    let small: Vec<_> =
        found.cases[2..].iter().map(|case| (case.requested_cache.as_deref(), case.cache.as_deref())).collect();
    assert_eq!(small, [(Some("warm"), Some("warm")), (Some("cold"), Some("warm"))]);
    let mut gated = found;
    gate("time:+3%").check(&mut gated).unwrap();
    let checks = gated.gate.unwrap().checks;
    assert_eq!(checks.iter().map(|check| check.cache.as_deref().unwrap()).collect::<BTreeSet<_>>().len(), 2);
}

#[test]
fn allowed_cache_states_meet_only_where_no_equal_one_is() {
    let with = |id: &str, cache: &str, ns: f64| {
        let mut case = timed(id, 0.1, ns);
        case["timing"]["cache"] = json!(cache);
        case
    };
    let base = run(vec![with("a", "warm", 50.0), with("a", "cold", 100.0), with("b", "cold", 10.0)]);
    let candidate = run(vec![with("a", "cold", 100.0), with("a", "warm", 50.0), with("b", "warm", 20.0)]);
    let found = compare_runs(("x", &base), ("y", &candidate), &settings(&[Obstacle::Cache])).unwrap();
    let ratios: Vec<_> = found.cases.iter().map(|case| (case.id.as_str(), case.ratio.unwrap().ratio)).collect();
    let near = |ratio: f64, wanted: f64| (ratio - wanted).abs() < 1e-12;
    assert!(near(ratios[0].1, 1.0) && near(ratios[1].1, 1.0) && near(ratios[2].1, 2.0), "{ratios:?}");
}

#[test]
fn what_differs_around_the_runs_is_told() {
    let mut other = document("hip", vec![timed("a", 1.0, 100.0)]);
    other["environment"] = json!({"rocm": "7.1", "governor": "performance"});
    other["options"]["seed"] = json!(2);
    other["interrupted"] = json!(true);
    let found = compared(&run(vec![timed("a", 1.0, 100.0)]), &run_of(other));
    let told: Vec<_> = found.environment.iter().map(|difference| difference.what.as_str()).collect();
    assert_eq!(told, ["governor", "rocm", "option seed", "the candidate was interrupted"]);
    assert_eq!(found.environment[1].base.as_deref(), Some("7.0"));
}

#[test]
fn emulated_runs_are_compared_exactly() {
    let of = |case: Value| run_of(document("emu", vec![case]));
    let base = of(emulated("a", 100.0, 1000, 0.0));
    let same = compared(&base, &of(emulated("a", 100.0, 1000, 0.0)));
    assert_eq!((same.method, same.cases[0].verdict, same.cases[0].of), (Method::Exact, "SAME", "bound"));
    assert!(same.cases[0].why.is_empty() && same.cases[0].reason.is_none());
    let slower = compared(&base, &of(emulated("a", 105.0, 1100, 64.0)));
    let case = &slower.cases[0];
    assert_eq!(case.verdict, "SLOWER");
    assert_eq!(case.why[0], "valu 100 ns → 105 ns (+5.00 %)");
    assert!(case.why.contains(&"insts 1000 → 1100 (+10.0 %)".to_owned()), "{:?}", case.why);
    assert!(case.why.contains(&"conflicts 0 → 64 (new)".to_owned()), "{:?}", case.why);
    let bytes = case.metrics.iter().find(|metric| metric.name == "bytes").unwrap();
    assert_eq!((bytes.base, bytes.change), (3072.0, Some(0.0)));
    // Within the threshold of the bound: SAME, and that something changed is said.
    let near = compared(&base, &of(emulated("a", 100.5, 1001, 0.0)));
    assert_eq!(near.cases[0].verdict, "SAME");
    assert!(near.cases[0].reason.as_deref().unwrap().contains("other figures changed"));
    let json = serde_json::to_string(&slower).unwrap();
    assert_eq!(json, serde_json::to_string(&compared(&base, &of(emulated("a", 105.0, 1100, 64.0)))).unwrap());
}

/// A sample of the workgroups stands for all of them; another choice of them is not comparable.
#[test]
fn counts_of_a_sample_are_scaled() {
    let of = |ran: u64, workgroups: u64, instructions: u64| {
        let mut case = emulated("a", 100.0, instructions, 0.0);
        case["launches"][0]["sampled"] = json!({"ran": ran, "workgroups": workgroups});
        run_of(document("emu", vec![case]))
    };
    let found = compared(&of(10, 100, 500), &of(10, 200, 500));
    let insts = found.cases[0].metrics.iter().find(|metric| metric.name == "insts").unwrap();
    assert_eq!((insts.base, insts.candidate, insts.kind.as_str()), (5000.0, 10_000.0, "model"));
    assert!(found.cases[0].sampled && render_of(&found).contains("1 of 1 cases are scaled from a part"));
    for (one, other) in [(of(10, 100, 500), of(5, 100, 250)), (of(10, 100, 500), emulated_run())] {
        let error = compare_runs(("a", &one), ("b", &other), &settings(&[])).unwrap_err().to_string();
        assert!(error.contains("emu-sample"), "{error}");
    }
}

fn emulated_run() -> Run {
    run_of(document("emu", vec![emulated("a", 100.0, 1000, 0.0)]))
}

fn render_of(comparison: &Comparison) -> String {
    let mut out = Vec::new();
    render_table::write(&mut out, comparison, 10).unwrap();
    String::from_utf8(out).unwrap()
}

/// What is not known of both sides is not the same.
#[test]
fn a_side_without_a_time_is_not_the_same() {
    let without = |mut case: Value| {
        case.as_object_mut().unwrap().remove("timing");
        run(vec![case])
    };
    let timed_run = || run(vec![timed("a", 1.0, 100.0)]);
    let untimed = || without(timed("a", 1.0, 100.0));
    for (base, candidate, why) in [
        (timed_run(), untimed(), "only the base was timed"),
        (untimed(), timed_run(), "only the candidate was timed"),
        (untimed(), untimed(), "neither time nor bound nor counters are known"),
    ] {
        let found = compared(&base, &candidate);
        assert_eq!(verdicts(&found), [("a", "INCONCLUSIVE")], "{why}");
        assert_eq!((found.cases[0].reason.as_deref(), found.method), (Some(why), Method::SeparateRuns));
    }
}

fn gate(list: &str) -> Gate {
    let mut gate = Gate::default();
    gate.add_list(list).unwrap();
    gate
}

fn outcomes(list: &str, comparison: &mut Comparison) -> Vec<(String, Outcome)> {
    gate(list).check(comparison).unwrap();
    let checks = &comparison.gate.as_ref().unwrap().checks;
    checks.iter().map(|check| (check.metric.clone(), check.outcome)).collect()
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(500) })]

    #[test]
    fn a_pattern_matches_as_the_regular_expression_does(pattern in "[ab*]{0,6}", text in "[ab]{0,8}") {
        let expression = format!("^{}$", pattern.replace('*', ".*"));
        prop_assert_eq!(matches(&pattern, &text), regex::Regex::new(&expression).unwrap().is_match(&text), "{} {}", pattern, text);
    }

    #[test]
    fn no_text_harms_the_gate(text in "\\PC{0,40}") {
        let _ = Gate::default().add_list(&text);
        let _ = gate_file::parse(&text);
        let _ = text.parse::<Limit>();
    }

    /// Documents with any figures: an answer without NaN, or an error.
    #[test]
    fn no_figures_harm_a_comparison(
        medians in prop::collection::vec((any::<f64>(), any::<f64>(), 1.0..2.0_f64, any::<f64>()), 1..4),
    ) {
        let side = |of: fn(&(f64, f64, f64, f64)) -> f64| {
            let cases = medians.iter().enumerate().map(|(i, figures)| {
                let mut case = timed(&format!("c{i}"), figures.2 - 1.0, of(figures));
                case["bound"] = json!({"ns": figures.3, "limiter": "x"});
                case
            });
            Run::of(document("hip", cases.collect()))
        };
        if let (Ok(base), Ok(candidate)) = (side(|f| f.0.abs()), side(|f| f.1.abs()))
            && let Ok(mut found) = compare_runs(("a", &base), ("b", &candidate), &settings(&[]))
        {
            let _ = gate("time:+1%,step:+1%").check(&mut found);
            let text = serde_json::to_string(&found).unwrap();
            // serde_json writes a float that is not finite as null.
            prop_assert!(!text.contains("\"ratio\":null") && !text.contains("\"change\":null,\"interval\""));
            for render in [render_table::write, render_markdown::write] {
                render(&mut Vec::new(), &found, 3).unwrap();
            }
        }
    }
}

#[test]
fn wrong_documents_are_told_apart() {
    let with = |pointer: &str, value: Value| {
        let mut document = document("hip", vec![timed("a", 1.0, 100.0)]);
        *document.pointer_mut(pointer).unwrap() = value;
        Run::of(document).unwrap_err()
    };
    assert_eq!(with("/schema", json!("kbench.inventory/1")), ReadError::Schema("kbench.inventory/1".to_owned()));
    assert!(matches!(with("/schema", json!(1)), ReadError::Shape(_)));
    assert!(matches!(with("/cases", json!({})), ReadError::Shape(_)));
    for (pointer, value) in [
        ("/cases/0/timing/median_ns", json!(0.0)),
        ("/cases/0/timing/median_ns", json!(-1.0)),
        ("/cases/0/timing/ci95_ns", json!([2.0, 1.0])),
        ("/cases/0/weight/share", json!(7.0)),
    ] {
        assert!(matches!(with(pointer, value), ReadError::Value { .. }), "{pointer}");
    }
}

#[test]
fn foreign_text_cannot_break_the_outputs() {
    let hostile = "<x> & \"q\" | `c` *b*\u{1}\n[l](u)";
    let of = |ns: f64| run_of(document("emu", vec![emulated(hostile, ns, 10, 0.0)]));
    let mut found = compare_runs((hostile, &of(100.0)), ("b", &of(200.0)), &settings(&[])).unwrap();
    gate("bound:+1%").check(&mut found).unwrap();
    let text = |render: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        render(&mut out);
        String::from_utf8(out).unwrap()
    };
    let xml = text(&|out| render_junit::write(out, &found, false).unwrap());
    assert!(xml.contains("&lt;x&gt; &amp; &quot;q&quot;"), "{xml}");
    assert!(!xml.contains('\u{1}') && !xml.contains("<x>"));
    assert!(xml.contains("tests=\"1\" failures=\"1\""), "{xml}");
    assert_eq!(xml.matches("<testcase").count(), xml.matches("</testcase>").count());
    let markdown = text(&|out| render_markdown::write(out, &found, 10).unwrap());
    let row = markdown.lines().find(|line| line.starts_with("| SLOWER")).unwrap();
    // Six cells: every other bar is escaped.
    assert_eq!(row.replace("\\|", "").matches('|').count(), 7, "{row}");
    assert!(!markdown.contains("[l](u)\n"));
    let table = text(&|out| render_table::write(out, &found, 10).unwrap());
    assert!(table.contains("bound 100.0 ns → 200.0 ns"), "{table}");
    let rows = table.lines().filter(|line| line.contains('→'));
    assert!(rows.clone().count() > 1 && rows.clone().all(|line| !line.contains("time")), "a bound is no time: {table}");
    assert!(!table.contains('\u{1}'), "{table}");
}

fn row(kernel: &str, calls: u64, total_ns: u64) -> Row {
    Row {
        kernel: kernel.into(),
        kernel_raw: kernel.into(),
        family: Family::Gemm,
        category: "Dense GEMM (BF16)".into(),
        op: None,
        position: None,
        phase: Phase::Decode,
        calls,
        total_ns,
        share: 0.0,
        provenance: Provenance::None,
        shapes: Vec::new(),
        location: Location::default(),
    }
}

fn profile(steps: Option<u64>, rows: Vec<Row>) -> Profile {
    let mut inventory = Inventory { source: Source { steps, ..Source::default() }, rows, ..Inventory::default() };
    inventory.finish();
    Profile { label: "p".to_owned(), inventory, steps: None }
}

/// Launches in turn end in the same document: verdicts without an error between runs, corrected over cases, gated.
#[test]
fn builds_that_ran_in_turn_give_the_same_document() {
    let run = run(vec![timed("a", 0.6, 100.0), timed("b", 0.4, 100.0)]);
    let rule = settings(&[]).rule;
    let blocks = |ratio: f64| -> Vec<kbench_stats::Block> {
        // ±0.5 % about the ratio, neighbours far apart.
        let times = (0..60).map(|i| 100.0 * ratio * (1.0 + 0.01 * (f64::from(i * 23 % 60) / 59.0 - 0.5)));
        times.map(|ns| kbench_stats::Block { base: [100.0; 2], candidate: [ns; 2] }).collect()
    };
    let compared = [1.02, 1.0].iter().zip(&run.cases).map(|(ratio, case)| {
        let found = kbench_stats::compare_paired(&blocks(*ratio), None, &rule, kbench_stats::Look::ONLY, 1).unwrap();
        case::paired(case, case, "cold", [100.0, 100.0 * ratio], found, &BTreeSet::new())
    });
    let side = compared_side("builds");
    let parts = Parts {
        method: Method::Paired,
        base: side.clone(),
        candidate: side,
        environment: Vec::new(),
        allowed: Vec::new(),
        rule: compared_rule(&run),
        compared: compared.collect(),
        around: summary::Around {
            calls: vec![10, 10],
            one_sided: Vec::new(),
            reference: kbench_stats::Reference::Normal,
            common_error: 0.0,
        },
        not_compared: Vec::new(),
    };
    let mut found = assemble(parts, &rule, Correction::Holm).unwrap();
    assert_eq!(verdicts(&found), [("a", "SLOWER"), ("b", "SAME")]);
    let summary = found.summary.clone().unwrap();
    let step = summary.step.unwrap();
    assert!((step.change - 0.012).abs() < 1e-4, "{}", step.change);
    assert_eq!(
        outcomes("time:+1%", &mut found),
        [("time".to_owned(), Outcome::Fail), ("time".to_owned(), Outcome::Pass)]
    );
}

fn compared_side(label: &str) -> kbench::compare::document::SideDoc {
    kbench::compare::document::SideDoc {
        label: label.to_owned(),
        device: None,
        arch: None,
        steps: None,
        kernel_ns: None,
    }
}

fn compared_rule(run: &Run) -> kbench::compare::document::RuleDoc {
    kbench::compare::document::RuleDoc { between_runs: None, ..compared(run, run).rule }
}

#[test]
fn profiles_are_compared_per_step() {
    // Ten steps against five: the same kernel a step, one that is called twice as often, one that went, one that came.
    let base = profile(Some(10), vec![row("same", 100, 10_000), row("often", 10, 5_000), row("gone", 10, 1_000)]);
    let candidate = profile(Some(5), vec![row("same", 50, 5_000), row("often", 10, 5_000), row("came", 5, 100)]);
    let base_and = |other: &Profile| compare_profiles(&base, other, &settings(&[])).unwrap();
    let found = base_and(&candidate);
    assert_eq!(found.method, Method::Profiles);
    // What moved the step most comes first.
    assert_eq!(verdicts(&found), [("often", "SLOWER"), ("same", "SAME")]);
    let often = &found.cases[0];
    assert_eq!((often.ratio.unwrap().base_ns, often.ratio.unwrap().candidate_ns), (500.0, 1000.0));
    assert_eq!(often.why, ["calls 1 → 2 (+100.0 %)"]);
    assert!((often.share - 5.0 / 16.0).abs() < 1e-12);
    assert_eq!((found.base.kernel_ns, found.candidate.kernel_ns), (Some(1600.0), Some(2020.0)));
    let alone: Vec<_> = found.not_compared.iter().map(|case| (case.id.as_str(), case.reason.as_str())).collect();
    assert_eq!(alone[0], ("gone", "only in the base: 100 ns in 1 calls"));
    assert_eq!(alone[1].0, "came");
    // All of it is in the step: 2020 ns of 1600, what came (20 ns) and what went (100 ns) too; the whole of the candidate errs.
    let step = found.summary.as_ref().unwrap().step.unwrap();
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert!(near(step.change, 2020.0 / 1600.0 - 1.0) && near(step.share, 1.0), "{step:?}");
    assert!(near(step.added, 20.0 / 1600.0) && near(step.removed, 100.0 / 1600.0), "{step:?}");
    assert!(near(step.interval[1] - step.change, 2020.0 / 1600.0 * 0.01 * 2.0_f64.sqrt() * 1.959_963_984_540_054));
    let mut gated = found.clone();
    let outcomes = outcomes("step:+10%", &mut gated);
    let open = ("status".to_owned(), Outcome::Inconclusive);
    assert_eq!(outcomes, [("step".to_owned(), Outcome::Fail), open.clone(), open]);
    // A kernel that took no time before is one that only the candidate has.
    let (idle, busy) = (row("late", 1, 0), row("late", 1, 5_000));
    let before = profile(Some(10), vec![row("same", 100, 10_000), idle]);
    let found =
        compare_profiles(&before, &profile(Some(10), vec![row("same", 100, 10_000), busy]), &settings(&[])).unwrap();
    assert!(near(found.summary.unwrap().step.unwrap().change, 0.5));
    // Without steps on one side totals are compared, and that is said.
    let unknown = profile(None, vec![row("same", 100, 10_000)]);
    let found = base_and(&unknown);
    assert_eq!(found.cases[0].ratio.unwrap().ratio, 1.0);
    assert!(found.environment.iter().any(|difference| difference.what.contains("--base-steps")));
    assert!(compare_profiles(&base, &profile(None, vec![row("other", 1, 1)]), &settings(&[])).is_err());
}
