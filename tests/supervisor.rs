//! The supervisor against children that are shell scripts: they speak the frames, and hang, abort or write garbage.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kbench::device::{Bandwidth, DeviceInfo, DeviceSpec, Kind, Peaks};
use kbench::exit::Failure;
use kbench::measure::Cache;
use kbench::plan::{Plan, Selection};
use kbench::report::{CaseResult, Status};
use kbench::runner::{PairResult, Settings};
use kbench::worker::message::{Hello, Notice, Open, ToParent};
use kbench::worker::{Limits, Program, Supervisor, Task, Watcher, WorkerError, frame};
use kbench_workload::{CaseOptions, Fp8Flavor};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What every script begins with: `say JSON` writes a frame, `hear` reads one into `$payload`, `result` answers the job,
/// `built NAME` says which build it has.
const PRELUDE: &str = r#"
LC_ALL=C; export LC_ALL
say() { printf 'kbench-worker/1 %d\n%s\n' "${#1}" "$1"; }
hear() { read -r header && read -r payload; }
number() { rest=${payload#*'"number":'}; printf %s "${rest%%,*}"; }
result() { say "{\"Result\":{\"number\":$(number),\"case\":$(cat case.json)}}"; }
built() { say "{\"Stage\":{\"Built\":{\"origin\":\"file\",\"file\":\"$1\",\"arch\":\"gfx942\"}}}"; }
avoided() { say "{\"Avoided\":{\"number\":$(number),\"build\":{\"origin\":\"file\",\"file\":\"$1\",\"arch\":\"gfx942\"}}}"; }
echo $$ >> pids
hear
"#;

/// Says hello, then answers each job by what `$ON_JOB` is replaced with; ends at the end of the pipe.
const LOOP: &str = r#"
say "$(cat hello.json)"
while hear; do
  case "$payload" in
    *'"Job"'*) ON_JOB ;;
    '"Stop"') exit 0 ;;
  esac
done
"#;

/// A folder with the script's files, and the cases of a run.
struct Bench {
    dir: TempDir,
    plan: Plan,
    device: DeviceSpec,
}

/// What a run told.
#[derive(Default)]
struct Told {
    results: BTreeMap<usize, CaseResult>,
    order: Vec<usize>,
    lines: Vec<String>,
    notices: Vec<Notice>,
    wasted: Duration,
    /// Set when a case checks its outputs for the second time.
    stop: Option<Arc<AtomicBool>>,
}

impl Watcher for Told {
    fn settings(&mut self, _task: &Task<'_>, _waiting: usize, _devices: usize) -> Settings {
        let budget = Duration::from_secs(1);
        Settings { cache: Cache::Cold, seed: 1, precision: 0.01, budget, left: budget, pair: None }
    }

    fn notice(&mut self, _task: &Task<'_>, notice: &Notice) {
        self.notices.push(notice.clone());
        if let (Notice::VerifyAgain, Some(stop)) = (notice, &self.stop) {
            stop.store(true, Ordering::SeqCst);
        }
    }

    fn wasted(&mut self, time: Duration) {
        self.wasted += time;
    }

    fn line(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    fn done(&mut self, task: &Task<'_>, result: CaseResult, _pair: Option<PairResult>) -> Result<(), Failure> {
        assert!(self.results.insert(task.index, result).is_none(), "one result a case");
        self.order.push(task.index);
        Ok(())
    }
}

impl Told {
    fn statuses(&self) -> Vec<Status> {
        self.results.values().map(|case| case.status).collect()
    }

    fn reason(&self, index: usize) -> &str {
        self.results[&index].reason.as_deref().unwrap_or("")
    }
}

impl Bench {
    /// Cases `rows=1` to `rows=count`; the script answers each with an `ok` case.
    fn new(count: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let rows: String =
            (1..=count).map(|row| format!("rmsnorm,bf16,rows={row} hidden=64,1,{}\n", 1000 - row)).collect();
        let path = dir.path().join("shapes.csv");
        std::fs::write(&path, format!("family,dtype,shape,calls,total_ns\n{rows}")).unwrap();
        let inventory = kbench_profile::read(&[path], &kbench_profile::ReadOptions::default()).unwrap();
        let plan = Plan::new(&inventory, &Selection::default(), CaseOptions { fp8: Fp8Flavor::Ocp, seed: 1 });
        assert_eq!(plan.cases.len(), count);
        let mut case = CaseResult::new(&plan.cases[0]);
        case.status = Status::Ok;
        std::fs::write(dir.path().join("case.json"), serde_json::to_vec(&case).unwrap()).unwrap();
        let bench = Self { dir, plan, device: DeviceSpec::Host };
        bench.hello(frame::VERSION, &[]);
        bench
    }

    /// What the script says when it is asked to open.
    fn hello(&self, version: u32, others: &[&str]) {
        let info = DeviceInfo {
            kind: Kind::Hip,
            name: "scripted".into(),
            arch: "gfx942".into(),
            units: 1,
            llc_bytes: None,
            fp8: Fp8Flavor::Ocp,
            scripted: false,
        };
        let others = others.iter().map(|&other| other.to_owned()).collect();
        let hello = Hello { version, info, environment: BTreeMap::new(), others, surveyed: None };
        let text = serde_json::to_vec(&ToParent::Hello(Box::new(hello))).unwrap();
        std::fs::write(self.dir.path().join("hello.json"), text).unwrap();
    }

    /// Opens a child that runs a script.
    fn open(&self, script: &str) -> Result<Supervisor<'_>, WorkerError> {
        let folder = self.dir.path().display();
        let text = format!("cd '{folder}' || exit 9\n{PRELUDE}{script}");
        let program = Program { path: "/bin/sh".into(), arguments: vec!["-c".into(), text.into()] };
        let open = Open::new(&self.device, Fp8Flavor::Ocp, None, None);
        Supervisor::open(program, open, limits(), &mut |_| {})
    }

    /// Runs all cases on a child that answers jobs with `on_job`.
    fn run(&self, on_job: &str) -> Told {
        self.run_with(on_job, Told::default(), &AtomicBool::new(false))
    }

    fn run_with(&self, on_job: &str, mut told: Told, stop: &AtomicBool) -> Told {
        self.run_script(&LOOP.replace("ON_JOB", on_job), &mut told, stop);
        told
    }

    fn run_script(&self, script: &str, told: &mut Told, stop: &AtomicBool) {
        self.run_all(self.open(script).unwrap(), told, stop);
    }

    fn run_all<'a>(&'a self, mut supervisor: Supervisor<'a>, told: &mut Told, stop: &AtomicBool) {
        let tasks: Vec<Task<'_>> = self
            .plan
            .cases
            .iter()
            .enumerate()
            .map(|(index, planned)| Task { index, planned, cache: Cache::Cold })
            .collect();
        let peaks = Peaks {
            bandwidth: vec![Bandwidth { working_set_bytes: 1, gbps: 1.0 }],
            gflops: Vec::new(),
            source: "test".into(),
        };
        supervisor.run(&tasks, &peaks, stop, told).unwrap();
        drop(supervisor);
        self.assert_nobody_survives();
    }

    /// Processes whose number a script wrote into `pids`.
    fn pids(&self) -> Vec<u32> {
        let text = std::fs::read_to_string(self.dir.path().join("pids")).unwrap();
        text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    fn assert_nobody_survives(&self) {
        for pid in self.pids() {
            let begin = Instant::now();
            // A grandchild that was killed is a zombie until init has seen it.
            while is_running(pid) && begin.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(!is_running(pid), "process {pid} survives");
        }
    }
}

/// Whether a process runs (a zombie does not).
fn is_running(pid: u32) -> bool {
    let Ok(text) = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) else { return false };
    let state = text.rsplit(')').next().unwrap_or("").trim_start().chars().next();
    !matches!(state, Some('Z' | 'X') | None)
}

/// A stage may take some seconds: the scripts answer at once, but the machine may be busy.
fn limits() -> Limits {
    Limits {
        open: Duration::from_secs(30) * 10,
        peaks: Duration::from_secs(2) * 10,
        stage: Duration::ZERO,
        interrupt: Duration::from_millis(300),
        scale: 0.1,
    }
}

#[test]
fn cases_run_in_order_and_the_child_ends_with_the_supervisor() {
    let bench = Bench::new(4);
    let told = bench.run(r#"say '{"Stage":"Prepare"}'; built a; say '{"Stage":"Verify"}'; result"#);
    assert_eq!(told.statuses(), [Status::Ok; 4]);
    assert_eq!(told.order, [0, 1, 2, 3]);
    assert_eq!(told.notices.len(), 12);
    assert_eq!(bench.pids().len(), 1, "one child ran them all");
}

#[test]
fn a_hung_case_is_killed_with_its_group_and_the_others_go_on() {
    let bench = Bench::new(3);
    // The script's own child would outlive it.
    let told = bench.run(
        r#"say '{"Stage":"Verify"}'
           case "$payload" in *'rows=2,'*) sleep 1000 & echo $! >> pids; wait ;; esac
           result"#,
    );
    assert_eq!(told.statuses(), [Status::Ok, Status::Hung, Status::Ok]);
    assert!(told.reason(1).contains("its outputs were checked before timing"), "{}", told.reason(1));
    assert!(told.reason(1).contains("SIGKILL"), "{}", told.reason(1));
    assert!(told.wasted > Duration::ZERO, "the others do not pay for it");
    assert_eq!(bench.pids().len(), 3, "the child, what it started, and the next child");
}

#[test]
fn an_abort_is_told_with_its_signal_and_last_words() {
    let bench = Bench::new(3);
    let told = bench.run(
        r#"case "$payload" in *'rows=1,'*) echo 'HSA_STATUS_ERROR: memory fault' >&2; kill -ABRT $$ ;; esac
           result"#,
    );
    assert_eq!(told.statuses(), [Status::Failed, Status::Ok, Status::Ok]);
    let reason = told.reason(0);
    assert!(reason.contains("signal 6 (SIGABRT)") && reason.contains("memory fault"), "{reason}");
    assert!(told.lines.iter().any(|line| line.contains("memory fault")), "stderr is passed through: {:?}", told.lines);
}

#[test]
fn an_exit_in_the_middle_is_told_with_its_code() {
    let bench = Bench::new(2);
    let told = bench.run(r#"case "$payload" in *'rows=2,'*) exit 101 ;; esac; result"#);
    assert_eq!(told.statuses(), [Status::Ok, Status::Failed]);
    assert!(told.reason(1).contains("exit code 101"), "{}", told.reason(1));
}

#[test]
fn garbage_and_torn_messages_cost_one_case() {
    let bench = Bench::new(5);
    let told = bench.run(
        r#"case "$payload" in
             *'rows=1,'*) echo 'Loading libfoo 1.2'; sleep 1000 ;;
             *'rows=2,'*) printf 'kbench-worker/1 500\n{"Result"'; exit 0 ;;
             *'rows=3,'*) say '{"Nonsense":1}'; sleep 1000 ;;
             *'rows=4,'*) say '{"Peaks":{"bandwidth":[],"gflops":[],"source":""}}'; sleep 1000 ;;
           esac
           result"#,
    );
    assert_eq!(told.statuses(), [Status::Failed, Status::Failed, Status::Failed, Status::Failed, Status::Ok]);
    for (index, part) in [(0, "Loading libfoo"), (1, "middle of a message"), (2, "Nonsense"), (3, "out of turn")] {
        assert!(told.reason(index).contains(part), "{}", told.reason(index));
    }
}

/// After one strike the other cases of a build wait for the end; after two they do not run.
#[test]
fn a_build_that_kills_is_quarantined() {
    let bench = Bench::new(6);
    // Cases 1, 2, 4 and 6 have the bad build; it aborts in every case but the last.
    let told = bench.run(
        r#"case "$payload" in
             *'rows=3,'*|*'rows=5,'*) built good; result ;;
             *'"avoid":["bad.co@gfx942#"]'*) avoided bad.co ;;
             *'rows=6,'*) built bad.co; result ;;
             *) built bad.co; kill -SEGV $$ ;;
           esac"#,
    );
    // Case 1 dies; 2, 4 and 6 wait; 3 and 5 run; 2 dies; 4 and 6 never run.
    assert_eq!(
        told.statuses(),
        [Status::Failed, Status::Failed, Status::Ok, Status::Skipped, Status::Ok, Status::Skipped]
    );
    assert_eq!(told.order, [0, 2, 4, 1, 3, 5]);
    assert_eq!(told.results[&0].build.as_ref().unwrap().file, "bad.co");
    assert!(told.reason(3).contains("rows=1,") && told.reason(3).contains("rows=2,"), "{}", told.reason(3));
    assert!(!told.results[&3].unfinished, "a resumed run does not try it again by itself");
    assert!(told.lines.iter().any(|line| line.contains("bad.co is quarantined")), "{:?}", told.lines);
}

#[test]
fn an_interrupt_ends_the_run_and_kills_what_does_not_end() {
    let bench = Bench::new(4);
    let stop = Arc::new(AtomicBool::new(false));
    let told = Told { stop: Some(Arc::clone(&stop)), ..Told::default() };
    let begin = Instant::now();
    let on_job = r#"case "$payload" in *'rows=2,'*) say '{"Stage":"VerifyAgain"}'; sleep 1000 ;; esac; result"#;
    let told = bench.run_with(on_job, told, &stop);
    assert_eq!(told.order.first(), Some(&0));
    assert!(begin.elapsed() < Duration::from_secs(60));
    assert_eq!(told.statuses(), [Status::Ok, Status::Skipped, Status::Skipped, Status::Skipped]);
    assert!((1..4).all(|index| told.results[&index].unfinished), "all of them run when the run is resumed");
}

#[test]
fn two_devices_share_the_cases() {
    let bench = Bench::new(6);
    bench.hello(frame::VERSION, &["emu:mi300x"]);
    // Each job waits until both children have one: a single child would hang.
    let told = bench.run(
        r#"touch "busy.$$"
           until [ "$(ls busy.* | wc -l)" -ge 2 ]; do sleep 0.05; done
           result"#,
    );
    assert_eq!(told.statuses(), [Status::Ok; 6]);
    assert_eq!(bench.pids().len(), 2);
    let ran_on = |device: &str| told.results.values().filter(|case| case.device.as_deref() == Some(device)).count();
    assert!(ran_on("host") > 0 && ran_on("emu:mi300x") > 0 && ran_on("host") + ran_on("emu:mi300x") == 6);
}

/// What a child begins with that is not the first one: `ELSE` is what it says instead of the first one's hello.
const SECOND: &str = r#"if [ "$(wc -l < pids)" -ge 2 ]; then ELSE; fi"#;

/// The first child's answer to a question for peaks, which it gives when the second child speaks.
const PEAKS: &str = r#"
say "$(cat hello.json)"
hear
until [ -e spoken ]; do sleep 0.05; done; sleep 0.5
say '{"Peaks":{"bandwidth":[],"gflops":[],"source":""}}'
while hear; do case "$payload" in *'"Job"'*) result ;; '"Stop"') exit 0 ;; esac; done
"#;

/// The second child is of a device with another name.
const OTHER: &str = r#"touch spoken; say "$(sed 's/scripted"/other"/' hello.json)"; hear; exit 0"#;

/// The second child's device cannot be opened; it ends as the worker does.
const REFUSED: &str = r#"touch spoken; say '{"Refused":{"usage":false,"message":"no such GPU"}}'; exit 0"#;

/// Asserts that the first device ran every case, and that the second one was told of in one line with these words and not
/// started again.
fn assert_left_out_once(bench: &Bench, told: &Told, words: &str) {
    assert!(told.results.values().all(|case| case.device.as_deref() == Some("host")));
    let about: Vec<&String> = told.lines.iter().filter(|line| line.contains("emu:mi300x")).collect();
    assert!(about.len() == 1 && about[0].contains(words), "{:?}", told.lines);
    assert_eq!(bench.pids().len(), 2, "it is not started again");
}

#[test]
fn a_device_unlike_the_first_is_left_out_once() {
    for (second, words) in [(OTHER, "other (gfx942, 1 units)"), (REFUSED, "no such GPU")] {
        let bench = Bench::new(4);
        bench.hello(frame::VERSION, &["emu:mi300x"]);
        let mut told = Told::default();
        // Each job waits until the second child has been refused, and for what would be started after it.
        let on_job = r#"until [ -e spoken ]; do sleep 0.05; done; sleep 0.3; result"#;
        let script = format!("{}\n{}", SECOND.replace("ELSE", second), LOOP.replace("ON_JOB", on_job));
        bench.run_script(&script, &mut told, &AtomicBool::new(false));
        assert_eq!(told.statuses(), [Status::Ok; 4]);
        assert_left_out_once(&bench, &told, words);
    }
}

/// While the first child's peaks are waited for, too.
#[test]
fn a_device_that_answers_while_peaks_are_measured_is_looked_at_like_any_other() {
    for (second, words) in [(OTHER, "other (gfx942, 1 units)"), (REFUSED, "no such GPU")] {
        let bench = Bench::new(3);
        bench.hello(frame::VERSION, &["emu:mi300x"]);
        let mut supervisor = bench.open(&format!("{}\n{PEAKS}", SECOND.replace("ELSE", second))).unwrap();
        supervisor.peaks(&mut |_| {}).unwrap();
        let mut told = Told::default();
        bench.run_all(supervisor, &mut told, &AtomicBool::new(false));
        assert_eq!(told.statuses(), [Status::Ok; 3]);
        assert_left_out_once(&bench, &told, words);
    }
}

/// `hip:all` is no device that ran a case.
#[test]
fn the_first_of_all_devices_goes_by_its_own_number() {
    let bench = Bench { device: DeviceSpec::HipAll, ..Bench::new(4) };
    bench.hello(frame::VERSION, &["hip:1"]);
    // Each child keeps what it was opened with. The first one dies when both have a case; the second one answers when the
    // one that followed the first has a case too.
    let script = format!(
        "printf '%s\\n' \"$payload\" | sed 's/.*\"device\":\"\\([^\"]*\\)\".*/\\1/' >> opened\n{}",
        LOOP.replace(
            "ON_JOB",
            r#"touch "busy.$$"
               [ "$(head -n 1 pids)" = $$ ] && most=2 || most=3
               until [ "$(ls busy.* | wc -l)" -ge $most ]; do sleep 0.05; done
               [ $most = 2 ] && kill -ABRT $$
               result"#
        )
    );
    let mut told = Told::default();
    bench.run_script(&script, &mut told, &AtomicBool::new(false));
    let opened = std::fs::read_to_string(bench.dir.path().join("opened")).unwrap();
    assert_eq!(opened.lines().collect::<Vec<_>>(), ["hip:all", "hip:1", "hip:0"]);
    let devices: Vec<&str> = told.results.values().filter_map(|case| case.device.as_deref()).collect();
    assert!(devices.contains(&"hip:0") && devices.iter().all(|device| *device != "hip:all"), "{devices:?}");
}

#[test]
fn a_case_that_is_interrupted_while_it_is_counted_keeps_its_time_and_runs_again() {
    let bench = Bench::new(2);
    let stop = Arc::new(AtomicBool::new(false));
    let told = Told { stop: Some(Arc::clone(&stop)), ..Told::default() };
    let on_job = r#"say "{\"Stage\":{\"Count\":$(cat case.json)}}"; say '{"Stage":"VerifyAgain"}'; sleep 1000"#;
    let told = bench.run_with(on_job, told, &stop);
    assert_eq!(told.statuses(), [Status::Ok, Status::Skipped]);
    assert!(told.results[&0].counting.as_ref().unwrap().failed.is_some() && told.results[&0].unfinished);
}

#[test]
fn a_device_that_cannot_be_opened_again_leaves_the_rest_unfinished() {
    let bench = Bench::new(3);
    let script = format!("[ -e opened ] && exit 7\ntouch opened\n{}", LOOP.replace("ON_JOB", "kill -ABRT $$"));
    let mut supervisor = bench.open(&script).unwrap();
    let tasks: Vec<Task<'_>> = bench
        .plan
        .cases
        .iter()
        .enumerate()
        .map(|(index, planned)| Task { index, planned, cache: Cache::Cold })
        .collect();
    let peaks = Peaks { bandwidth: Vec::new(), gflops: Vec::new(), source: "test".into() };
    let mut told = Told::default();
    supervisor.run(&tasks, &peaks, &AtomicBool::new(false), &mut told).unwrap();
    assert_eq!(told.statuses(), [Status::Failed, Status::Skipped, Status::Skipped]);
    assert!(told.results[&1].unfinished && told.reason(2).contains("could not be opened again"));
    assert!(told.lines.iter().any(|line| line.contains("exit code 7")), "{:?}", told.lines);
    drop(supervisor);
    bench.assert_nobody_survives();
}

#[test]
fn a_flood_of_stderr_neither_blocks_nor_is_lost_at_the_end() {
    let bench = Bench::new(1);
    let told = bench.run(
        r#"i=0; while [ $i -lt 3000 ]; do echo "line $i"; i=$((i+1)); done >&2
           echo 'the last one' >&2; kill -BUS $$"#,
    );
    assert_eq!(told.statuses(), [Status::Failed]);
    assert!(told.reason(0).contains("the last one"), "{}", told.reason(0));
}

#[test]
fn what_cannot_be_opened_is_one_paragraph() {
    let bench = Bench::new(1);
    let error = |script: &str| bench.open(script).err().unwrap();
    let refused = error(r#"say '{"Refused":{"usage":true,"message":"no such model"}}'; sleep 1000"#);
    assert!(refused.is_usage() && refused.to_string() == "no such model", "{refused}");
    let died = error("echo 'libamdhip64.so: cannot open' >&2; exit 1");
    assert!(!died.is_usage());
    assert!(died.to_string().contains("exit code 1") && died.to_string().contains("cannot open"), "{died}");
    let garbage = error("echo hello; sleep 1000");
    assert!(garbage.to_string().contains("hello"), "{garbage}");
    bench.hello(frame::VERSION + 1, &[]);
    let version = error(r#"say "$(cat hello.json)"; sleep 1000"#);
    assert!(matches!(version, WorkerError::Version { found } if found == frame::VERSION + 1), "{version}");
    bench.assert_nobody_survives();
}

#[test]
fn peaks_that_do_not_come_are_an_error_with_the_limit() {
    let bench = Bench::new(1);
    let mut supervisor = bench.open(&LOOP.replace("ON_JOB", "result")).unwrap();
    let error = supervisor.peaks(&mut |_| {}).unwrap_err();
    assert!(matches!(error, WorkerError::Hung { after, .. } if after == Duration::from_secs(2)), "{error}");
    drop(supervisor);
    bench.assert_nobody_survives();
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let program = Program { path: "/nonexistent/kbench".into(), arguments: Vec::new() };
    let open = Open::new(&DeviceSpec::Host, Fp8Flavor::Ocp, None, None);
    let error = Supervisor::open(program, open, limits(), &mut |_| {}).err().unwrap();
    assert!(error.to_string().contains("/nonexistent/kbench"), "{error}");
}
