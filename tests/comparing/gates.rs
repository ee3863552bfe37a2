//! Gates: limits on changes, in lists and files.

use super::*;

#[test]
fn a_gate_on_exact_figures() {
    let of = |case: Value| run_of(document("emu", vec![case]));
    let mut found = compared(&of(emulated("a", 100.0, 1000, 0.0)), &of(emulated("a", 101.0, 1030, 4.0)));
    let one = |name: &str, outcome| vec![(name.to_owned(), outcome)];
    for (list, outcome) in [
        ("bound:+1%", Outcome::Pass),
        ("bound:+0.9%", Outcome::Fail),
        ("insts:+30", Outcome::Pass),
        ("insts:+29", Outcome::Fail),
        ("conflicts:+0", Outcome::Fail),
        ("conflicts:+100%", Outcome::Fail),
        ("conflicts:+4", Outcome::Pass),
        ("waves:-0", Outcome::Pass),
        ("waves:-5%", Outcome::Pass),
    ] {
        let name = list.split(':').next().unwrap();
        assert_eq!(outcomes(list, &mut found), one(name, outcome), "{list}");
    }
    assert_eq!(outcomes("step:+0.5%", &mut found), one("step", Outcome::Fail));
    assert_eq!(outcomes("step:+1%", &mut found), one("step", Outcome::Pass));
    // A metric that is nowhere would be a gate that is always open.
    let error = gate("time:+1%").check(&mut found).unwrap_err();
    assert_eq!(error, GateError::Nowhere("time".to_owned()));
    assert_eq!(gate("SQ_NO_SUCH:+1%").check(&mut found).unwrap_err(), GateError::Nowhere("SQ_NO_SUCH".to_owned()));
}

/// A counter that did not change is in a gate's reach all the same.
#[test]
fn a_gate_on_an_unchanged_counter_passes() {
    let run = run_of(document("emu", vec![emulated("a", 100.0, 1000, 0.0)]));
    let wanted = gate("SQ_INSTS_VALU:+0%").metrics();
    let mut found = compare_runs(("a", &run), ("b", &run), &Settings { wanted, ..settings(&[]) }).unwrap();
    assert_eq!(outcomes("SQ_INSTS_VALU:+0%", &mut found), [("SQ_INSTS_VALU".to_owned(), Outcome::Pass)]);
}

#[test]
fn a_gate_on_time_fails_passes_or_stays_open() {
    let base = run(vec![timed("a", 1.0, 100.0)]);
    for (median, limit, outcome) in [
        // The error of two runs is 1.4 %, so the interval reaches 2.8 % to both sides.
        (110.0, "time:+3%", Outcome::Fail),
        (104.0, "time:+3%", Outcome::Fail),
        (102.0, "time:+3%", Outcome::Inconclusive),
        (100.0, "time:+3%", Outcome::Pass),
        (100.0, "time:+1%", Outcome::Inconclusive),
        (90.0, "time:+1%", Outcome::Pass),
    ] {
        let mut found = compared(&base, &run(vec![timed("a", 1.0, median)]));
        assert_eq!(outcomes(limit, &mut found), [("time".to_owned(), outcome)], "{median} {limit}");
    }
}

#[test]
fn what_does_not_run_any_more_fails_a_gate() {
    let base = run(vec![timed("a", 0.5, 100.0), timed("b", 0.5, 100.0)]);
    for (status, outcome) in [
        ("failed", Outcome::Fail),
        ("hung", Outcome::Fail),
        ("wrong", Outcome::Fail),
        ("skipped", Outcome::Inconclusive),
    ] {
        let mut lost = timed("b", 0.5, 100.0);
        lost["status"] = json!(status);
        lost["reason"] = json!("it broke");
        let mut found = compared(&base, &run(vec![timed("a", 0.5, 100.0), lost]));
        assert_eq!(outcomes("time:+5%", &mut found)[1], ("status".to_owned(), outcome), "{status}");
        assert!(found.not_compared[0].reason.contains("it broke"));
    }
    let mut found = compared(&base, &run(vec![timed("a", 0.5, 100.0)]));
    assert_eq!(outcomes("time:+5%", &mut found)[1].1, Outcome::Inconclusive);
}

/// Whatever the base says: `ab` calls a base skipped whose candidate is not right.
#[test]
fn a_candidate_that_is_not_right_fails_a_gate_and_what_did_not_run_leaves_it_open() {
    let with = |status: &str, has_times: bool| {
        let mut case = timed("b", 0.5, 100.0);
        case["status"] = json!(status);
        if !has_times {
            case.as_object_mut().unwrap().remove("timing");
        }
        case
    };
    let ok = || timed("a", 0.5, 100.0);
    for (base, candidate, outcome) in [
        (with("skipped", false), with("wrong", false), Outcome::Fail),
        (with("skipped", false), with("failed", false), Outcome::Fail),
        (with("wrong", false), with("hung", false), Outcome::Fail),
        (with("ok", true), with("failed", false), Outcome::Fail),
        (with("skipped", false), with("skipped", false), Outcome::Inconclusive),
        (with("failed", false), with("ok", true), Outcome::Inconclusive),
        (with("ok", true), with("skipped", false), Outcome::Inconclusive),
    ] {
        let (base, candidate) = (run(vec![ok(), base]), run(vec![ok(), candidate]));
        let mut found = compared(&base, &candidate);
        assert_eq!(found.not_compared.len(), 1, "{:?}", found.not_compared);
        let expected = [("time".to_owned(), Outcome::Pass), ("status".to_owned(), outcome)];
        assert_eq!(outcomes("time:+5%", &mut found), expected);
    }
    // A new case has nothing to be compared with.
    let mut found = compared(&run(vec![ok()]), &run(vec![ok(), with("ok", true)]));
    assert_eq!(outcomes("time:+5%", &mut found).len(), 1);
    // Where nothing was compared, what became of the cases is the answer, not that a metric is nowhere.
    let mut found = compared(&run(vec![with("ok", true)]), &run(vec![with("wrong", false)]));
    let expected = [("step".to_owned(), Outcome::Inconclusive), ("status".to_owned(), Outcome::Fail)];
    assert_eq!(outcomes("bound:+1%,step:+1%", &mut found), expected);
}

#[test]
fn a_metric_that_the_candidate_has_lost_leaves_the_gate_open() {
    let of = |case: Value| run_of(document("emu", vec![case]));
    let mut lost = emulated("a", 100.0, 1000, 0.0);
    lost["counters"]["SQ_INSTS_VALU"] = json!({"value": null, "unit": "count", "kind": "unavailable"});
    lost["launches"][0].as_object_mut().unwrap().remove("instructions");
    let wanted = gate("SQ_INSTS_VALU:+0%").metrics();
    let settings = Settings { wanted, ..settings(&[]) };
    let mut found = compare_runs(("a", &of(emulated("a", 100.0, 1000, 0.0))), ("b", &of(lost)), &settings).unwrap();
    assert_eq!(found.cases[0].lost, ["SQ_INSTS_VALU", "insts"]);
    let open = |name: &str| (name.to_owned(), Outcome::Inconclusive);
    assert_eq!(outcomes("insts:+1%,SQ_INSTS_VALU:+0%", &mut found), [open("SQ_INSTS_VALU"), open("insts")]);
}

#[test]
fn a_pattern_that_no_case_has_is_an_error() {
    let gate =
        gate_file::parse("[default]\nbound = '+1%'\n[[case]]\nmatch = 'b*'\nlimits = { bound = '+0%' }").unwrap();
    let of = |id: &str| run_of(document("emu", vec![emulated(id, 100.0, 10, 0.0)]));
    assert_eq!(gate.check(&mut compared(&of("a"), &of("a"))), Err(GateError::NoCase("b*".to_owned())));
    assert_eq!(gate.check(&mut compared(&of("b"), &of("b"))), Ok(()));
}

#[test]
fn a_gate_file_has_families_cases_and_a_step() {
    let file = "
        step = '+2%'
        [default]
        bound = '+1%'
        insts = '+0'
        [family.gemm]
        bound = '+10%'
        [[case]]
        match = 'special*'
        limits = { bound = '+0%' }
    ";
    let gate = gate_file::parse(file).unwrap();
    let of = |ns: f64| {
        let mut norm = emulated("norm", ns, 10, 0.0);
        norm["family"] = json!("rmsnorm");
        run_of(document("emu", vec![emulated("plain", ns, 10, 0.0), emulated("special:1", ns, 10, 0.0), norm]))
    };
    let mut found = compared(&of(100.0), &of(105.0));
    gate.check(&mut found).unwrap();
    let checks = found.gate.unwrap().checks;
    let outcome =
        |case: &str, metric: &str| checks.iter().find(|c| c.case == case && c.metric == metric).unwrap().outcome;
    assert_eq!(outcome("plain", "bound"), Outcome::Pass);
    assert_eq!(outcome("special:1", "bound"), Outcome::Fail);
    assert_eq!(outcome("norm", "bound"), Outcome::Fail);
    assert_eq!(outcome("norm", "insts"), Outcome::Pass);
    assert_eq!(outcome("step", "step"), Outcome::Fail);
    for wrong in [
        "defaults = {}",
        "[default]\nbond = '+1%'",
        "[default]\nbound = '1%'",
        "[family.gem]\nbound = '+1%'",
        "[[case]]\npattern = 'a'",
        "[[case]]\nmatch = 'a'\nlimits = {}\nmore = 1",
        "[default]\ntime = '-3%'",
        "step = '+8'",
        "[default]\nbound = 1",
        "[",
    ] {
        assert!(gate_file::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn limits_are_read_and_written() {
    for text in ["+1%", "+0.5%", "-3%", "+8", "-0", "+0%", "+12.125%"] {
        assert_eq!(text.parse::<Limit>().unwrap().to_string(), text);
    }
    for bad in ["", "1%", "+", "+%", "+-1%", "++1", "+nan", "+inf%", "+1 %%", "±1%", "+1e300"] {
        assert!(bad.parse::<Limit>().is_err(), "{bad}");
    }
    for bad in ["bound", "bound+1%", "bond:+1%", "step:-1%", "time:+3", ":+1%"] {
        assert!(Gate::default().add_list(bad).is_err(), "{bad}");
    }
    assert!(gate(" , ").is_empty());
}

#[test]
fn an_open_check_is_a_failure_of_a_strict_gate() {
    let mut found = compared(&run(vec![timed("a", 1.0, 100.0)]), &run(vec![timed("a", 1.0, 102.0)]));
    gate("time:+3%").check(&mut found).unwrap();
    for (strict, counts) in
        [(false, "failures=\"0\" errors=\"0\" skipped=\"1\""), (true, "failures=\"1\" errors=\"0\" skipped=\"0\"")]
    {
        let mut out = Vec::new();
        render_junit::write(&mut out, &found, strict).unwrap();
        assert!(String::from_utf8(out).unwrap().contains(counts));
    }
}

/// A limit that met nothing is no limit that held.
#[test]
fn what_is_not_known_on_both_sides_leaves_a_gate_open() {
    let counted = |id: &str, value: Option<f64>| {
        let mut case = emulated(id, 100.0, 1000, 0.0);
        if let Some(value) = value {
            case["counters"]["SQ_X"] = json!({"value": value, "unit": "count", "kind": "exact"});
        }
        case
    };
    let side = |second: Option<f64>| run_of(document("emu", vec![counted("a", Some(7.0)), counted("b", second)]));
    let wanted = gate("SQ_X:+5%").metrics();
    let settings = Settings { wanted, ..settings(&[]) };
    for candidate in [None, Some(99_999.0)] {
        let mut found = compare_runs(("a", &side(None)), ("b", &side(candidate)), &settings).unwrap();
        let one = |outcome| ("SQ_X".to_owned(), outcome);
        assert_eq!(outcomes("SQ_X:+5%", &mut found), [one(Outcome::Pass), one(Outcome::Inconclusive)]);
    }
    let mut found = compared(&side(None), &side(None));
    let gate = gate_file::parse("[default]\ninsts = \"+1%\"\n[family.fmha]\ninsts = \"+0%\"\n").unwrap();
    gate.check(&mut found).unwrap();
    let open: Vec<_> =
        found.gate.unwrap().checks.into_iter().filter(|check| check.outcome == Outcome::Inconclusive).collect();
    assert_eq!((open.len(), open[0].case.as_str()), (1, "family.fmha"));
}

/// What only the wrong case would have is no mistake of the gate: the case is what fails.
#[test]
fn a_metric_of_a_wrong_case_is_not_missing() {
    let side = |status: &str| {
        let mut case = emulated("b", 100.0, 1000, 0.0);
        case["counters"]["SQ_X"] = json!({"value": 1.0, "unit": "count", "kind": "exact"});
        case["status"] = json!(status);
        run_of(document("emu", vec![emulated("a", 100.0, 1000, 0.0), case]))
    };
    let mut found = compared(&side("ok"), &side("wrong"));
    gate("SQ_X:+5%").check(&mut found).unwrap();
    let gate = found.gate.unwrap();
    assert!(!gate.passed && gate.checks.iter().any(|check| check.metric == "status"));
}

/// What a gate of one limit says of two runs.
fn first_outcome(list: &str, base: &Run, candidate: &Run, settings: &Settings) -> Outcome {
    let mut found = compare_runs(("a", base), ("b", candidate), settings).unwrap();
    outcomes(list, &mut found)[0].1
}

#[test]
fn a_change_below_the_noise_floor_fails_no_gate() {
    let rule = Rule::new(0.01, 0.3, Probability::new(0.05).unwrap()).unwrap();
    let noisy = Settings { rule, ..settings(&[]) };
    let (base, candidate) = (run(vec![timed("a", 1.0, 100.0)]), run(vec![timed("a", 1.0, 120.0)]));
    for list in ["time:+1%", "step:+1%"] {
        let outcome = |settings| first_outcome(list, &base, &candidate, settings);
        assert_eq!((outcome(&settings(&[])), outcome(&noisy)), (Outcome::Fail, Outcome::Inconclusive), "{list}");
    }
}

/// The interval of the step is at the level that was asked for, like those of the cases.
#[test]
fn the_step_is_judged_at_the_level_that_was_asked_for() {
    let rule = Rule::new(0.01, 0.0, Probability::new(0.001).unwrap()).unwrap();
    let strict = Settings { rule, ..settings(&[]) };
    // 3.5 % is 2.5 errors of two runs.
    let (base, candidate) = (run(vec![timed("a", 1.0, 100.0)]), run(vec![timed("a", 1.0, 103.5)]));
    let outcome = |settings| first_outcome("step:+1%", &base, &candidate, settings);
    assert_eq!((outcome(&settings(&[])), outcome(&strict)), (Outcome::Fail, Outcome::Inconclusive));
}

#[test]
fn whole_counts_are_compared_exactly() {
    let holds = |limit: &str, base: f64, candidate: f64| limit.parse::<Limit>().unwrap().holds(base, candidate);
    assert!(holds("+0", 5e9, 5e9) && !holds("+0", 5e9, 5e9 + 4.0) && !holds("+0%", 5e9, 5e9 + 1.0));
    assert!(holds("+4", 5e9, 5e9 + 4.0) && !holds("-0", 5e9, 5e9 - 1.0));
    // 101.00000000000001 is what 1 % more of 100.00000000000001 came to.
    assert!(holds("+1%", 100.0 / 3.0, 101.0 / 3.0));
    assert!(gate_file::parse(&format!("# {}\n", "x".repeat(1 << 20))).is_err());
}
