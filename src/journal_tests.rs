//! Journals that are whole, torn, broken, locked, or of another run.

use super::*;
use crate::device::{DeviceInfo, Kind};
use crate::measure::Cache;
use crate::report::document::{CountingOptions, InventorySummary, LeftOut, Options, Schema, Tool};
use kbench_workload::Fp8Flavor;

/// A run of three cases, of which the last could not be built.
fn run() -> RunDocument {
    let text = "kernel,family,dtype,shape,calls,total_ns\n\
                a,rmsnorm,bf16,rows=4 hidden=64,2,30\n\
                b,rmsnorm,bf16,rows=8 hidden=64,1,20\n\
                c,rmsnorm,bf16,,1,10\n";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shapes.csv");
    fs::write(&path, text).unwrap();
    let inventory = kbench_profile::read(&[path], &kbench_profile::ReadOptions::default()).unwrap();
    let options = kbench_workload::CaseOptions { fp8: Fp8Flavor::Ocp, seed: 1 };
    let plan = crate::plan::Plan::new(&inventory, &crate::plan::Selection::default(), options);
    assert_eq!(plan.cases.len(), 3);
    let mut cases: Vec<CaseResult> = plan.cases.iter().map(CaseResult::new).collect();
    cases[0].status = Status::Ok;
    cases[1] = cases[1].clone().ended(Status::Failed, "signal 6");
    cases[2] = cases[2].clone().unfinished("the run was interrupted before its turn");
    RunDocument {
        schema: Schema,
        tool: Tool::this(),
        device: DeviceInfo {
            kind: Kind::Host,
            name: "this CPU".into(),
            arch: "x86_64".into(),
            units: 1,
            llc_bytes: Some(1),
            fp8: Fp8Flavor::Ocp,
            scripted: false,
        },
        environment: BTreeMap::new(),
        options: Options {
            seed: 1,
            precision: 0.005,
            time_budget_ns: 1,
            cache: vec![Cache::Cold],
            kernels: None,
            emu_sample: None,
            flush_icache: false,
            counting: None,
        },
        inventory: InventorySummary {
            left_out: LeftOut { cases: 0, share: 0.0 },
            ..InventorySummary::new(&inventory, &plan)
        },
        cases,
        interrupted: true,
    }
}

fn ids(run: &RunDocument) -> Vec<String> {
    run.cases.iter().map(|case| case.id.clone()).collect()
}

/// A journal with the first two cases, one taken over and one added.
fn journal(dir: &Path, run: &RunDocument) -> (PathBuf, Journal) {
    let path = dir.join("run.json.journal");
    let ended = BTreeMap::from([(0, run.cases[0].clone())]);
    let (mut journal, aside) = Journal::create(&path, run, &ids(run), &ended, false).unwrap();
    assert_eq!(aside, None);
    journal.add(1, &run.cases[1]).unwrap();
    (path, journal)
}

#[test]
fn a_journal_reads_back_and_resumes() {
    let (dir, run) = (tempfile::tempdir().unwrap(), run());
    let (path, journal) = journal(dir.path(), &run);
    let saved = Saved::read(&path).unwrap();
    assert_eq!(saved.run, RunDocument { cases: Vec::new(), ..run.clone() });
    assert_eq!(saved.cases, [Some(run.cases[0].clone()), Some(run.cases[1].clone()), None]);
    let taken = |retry| Saved::read(&path).unwrap().taken_over(&run, &ids(&run), retry).unwrap();
    assert_eq!(taken(false).into_keys().collect::<Vec<_>>(), [0, 1]);
    assert_eq!(taken(true).into_keys().collect::<Vec<_>>(), [0], "what failed runs again");
    journal.delete();
    assert!(!path.exists());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing else is left behind");
}

#[test]
fn a_document_resumes_too_without_what_had_no_turn() {
    let (dir, run) = (tempfile::tempdir().unwrap(), run());
    let path = dir.path().join("run.json");
    fs::write(&path, serde_json::to_vec_pretty(&run).unwrap()).unwrap();
    let saved = Saved::read(&path).unwrap();
    assert_eq!(saved.cases.len(), 3);
    let taken = saved.taken_over(&run, &ids(&run), false).unwrap();
    assert_eq!(taken.into_keys().collect::<Vec<_>>(), [0, 1]);
}

/// A kill can cut the file at any byte of what was written last.
#[test]
fn every_cut_loses_at_most_the_last_case() {
    let (dir, run) = (tempfile::tempdir().unwrap(), run());
    let (path, _journal) = journal(dir.path(), &run);
    let bytes = fs::read(&path).unwrap();
    let ends: Vec<usize> = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    assert_eq!(ends.len(), 3);
    let cut = dir.path().join("cut");
    for length in ends[0]..=bytes.len() {
        fs::write(&cut, &bytes[..length]).unwrap();
        let saved = Saved::read(&cut).unwrap();
        let ended = saved.cases.iter().flatten().count();
        // A whole last line without its line feed is a whole case.
        let whole = ends[1..].iter().filter(|end| length + 1 >= **end).count();
        assert_eq!(ended, whole, "cut at {length}");
    }
    fs::write(&cut, &bytes[..ends[0] / 2]).unwrap();
    assert!(Saved::read(&cut).is_err(), "half a header is no journal");
}

#[test]
fn a_broken_line_in_the_middle_is_named() {
    let (dir, run) = (tempfile::tempdir().unwrap(), run());
    let (path, _journal) = journal(dir.path(), &run);
    let text = fs::read_to_string(&path).unwrap().replacen("{\"index\":0", "{\"index\":x", 1);
    fs::write(&path, text).unwrap();
    let error = Saved::read(&path).unwrap_err().to_string();
    assert!(error.contains("run.json.journal:2"), "{error}");
}

#[test]
fn other_files_are_told_what_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    for (text, part) in [
        ("", "no kbench.run/1"),
        ("family,dtype\n", "no kbench.run/1"),
        ("{\"schema\": \"kbench.inventory/1\"}", "kbench.inventory/1"),
        ("{}", "without a `schema`"),
        ("{\"schema\": \"kbench.run/1\"}", "missing field"),
    ] {
        fs::write(&path, text).unwrap();
        let error = Saved::read(&path).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
    assert!(matches!(Saved::read(&dir.path().join("none")), Err(JournalError::Read { .. })));
}

#[test]
fn a_run_with_other_options_is_refused_with_the_reason() {
    let run = run();
    let saved = || Saved {
        file: "x".into(),
        ids: ids(&run),
        cases: run.cases.iter().cloned().map(Some).collect(),
        run: run.clone(),
    };
    let refusal = |now: &RunDocument, ids: &[String]| saved().taken_over(now, ids, false).unwrap_err().to_string();
    let with = |change: &dyn Fn(&mut RunDocument)| {
        let mut now = run.clone();
        change(&mut now);
        refusal(&now, &ids(&run))
    };
    assert!(with(&|now| now.options.seed = 2).contains("seed was 1, this run's is 2"));
    assert!(with(&|now| now.options.precision = 0.1).contains("--precision"));
    assert!(with(&|now| now.options.cache = vec![Cache::Warm]).contains("measured cold, this run warm"));
    assert!(with(&|now| now.options.kernels = Some("build".into())).contains("this run's are build"));
    assert!(with(&|now| now.options.emu_sample = Some(3)).contains("--emu-sample"));
    assert!(with(&|now| now.options.flush_icache = true).contains("--flush-icache"));
    let counting =
        || Some(CountingOptions { counters: "SQ_WAVES".into(), repeats: 3, only: true, include: None, exclude: None });
    let counted = with(&|now| now.options.counting = counting());
    assert!(
        counted.contains("counted nothing, this run counts SQ_WAVES in 3 launches a pass, without timing"),
        "{counted}"
    );
    assert!(with(&|now| now.device.name = "other".into()).contains("other"));
    assert!(with(&|now| now.inventory.total_ns += 1).contains("other kernels or times"));
    let mut other = ids(&run);
    other[1] = "gemm".into();
    assert!(refusal(&run, &other).contains("case 2"));
    assert!(refusal(&run, &other[..1]).contains("3 cases, this run has 1"));
    // What could not be counted is tried again with --retry, and only then.
    let mut uncounted = saved();
    uncounted.cases[0].as_mut().unwrap().set_not_counted("the profiler was busy");
    let again = Saved { cases: uncounted.cases.clone(), ..saved() };
    assert!(again.taken_over(&run, &ids(&run), false).unwrap().contains_key(&0));
    assert!(!uncounted.taken_over(&run, &ids(&run), true).unwrap().contains_key(&0));
    // Another budget is no other run.
    let mut now = run.clone();
    now.options.time_budget_ns = 7;
    assert!(saved().taken_over(&now, &ids(&run), false).is_ok());
}

#[test]
fn a_journal_with_cases_is_put_aside_and_a_locked_one_is_refused() {
    let (dir, run) = (tempfile::tempdir().unwrap(), run());
    let (path, first) = journal(dir.path(), &run);
    let again = |replaces| Journal::create(&path, &run, &ids(&run), &BTreeMap::new(), replaces);
    let error = again(false).unwrap_err();
    assert!(matches!(&error, JournalError::Busy { .. }), "{error}");
    drop(first);
    let (second, aside) = again(false).unwrap();
    let aside = aside.unwrap();
    assert_eq!(Saved::read(&aside).unwrap().cases.iter().flatten().count(), 2, "nothing is lost");
    drop(second);
    let (_third, aside) = again(false).unwrap();
    assert_eq!(aside, None, "a journal without cases is no loss");
}

proptest::proptest! {
    /// Any damage gives a journal or an error, never a panic, and never more cases than there were.
    #[test]
    fn damaged_journals_are_read_or_refused(
        damage in proptest::collection::vec((0.0..1.0_f64, proptest::num::u8::ANY), 1..6),
        keep in 0.0..1.0_f64,
    ) {
        let (dir, run) = (tempfile::tempdir().unwrap(), run());
        let (path, _journal) = journal(dir.path(), &run);
        let mut bytes = fs::read(&path).unwrap();
        let places = bytes.len();
        for (place, byte) in damage {
            bytes[(place * places as f64) as usize] = byte;
        }
        bytes.truncate((keep * places as f64) as usize);
        let other = dir.path().join("other");
        fs::write(&other, &bytes).unwrap();
        if let Ok(saved) = Saved::read(&other) {
            assert!(saved.cases.iter().flatten().count() <= 3);
        }
    }
}
