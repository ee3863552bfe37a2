//! Every way a case can end, on a scripted device.

use super::*;
use crate::device::{Bandwidth, Build, DeviceInfo, Kind, Means, Prepared, Throughput};
use crate::plan::{Plan, Selection};
use kbench_profile::{Inventory, Location, Phase, Provenance, Row, ShapeUse};
use kbench_workload::{CaseOptions, Dtypes, Family, Fp8Flavor, ShapeMap, Tolerance, Verification, Workload};

/// What the scripted device does.
#[derive(Clone)]
struct Script {
    /// Duration of each launch, ns.
    launch_ns: f64,
    /// The launch, counted from 1, at which it fails.
    fails_at: Option<usize>,
    hangs: bool,
    /// Whether each verification passes, in order.
    verifies: Vec<bool>,
    out_of_memory: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self { launch_ns: 1e6, fails_at: None, hangs: false, verifies: vec![true, true], out_of_memory: false }
    }
}

struct Scripted {
    info: DeviceInfo,
    script: Script,
}

struct ScriptedCase {
    script: Script,
    now_ns: u64,
    launches: usize,
    verified: usize,
}

impl Device for Scripted {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn environment(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn peaks(&mut self) -> Result<Peaks, DeviceError> {
        Ok(peaks())
    }

    fn available_bytes(&self) -> u64 {
        1 << 30
    }

    fn prepare<'a>(
        &'a mut self,
        _case: &'a dyn Workload,
        _cache: Cache,
        _seed: u64,
    ) -> Result<Box<dyn Prepared + 'a>, DeviceError> {
        if self.script.out_of_memory {
            return Err(DeviceError::OutOfMemory { needed_bytes: 1 << 40, available_bytes: 1 << 30 });
        }
        Ok(Box::new(ScriptedCase { script: self.script.clone(), now_ns: 0, launches: 0, verified: 0 }))
    }
}

impl Prepared for ScriptedCase {
    fn build(&self) -> Build {
        let (file, arch) = ("scripted".into(), "none".into());
        Build { origin: "builtin", file, arch, sha256: None, kernels: Vec::new(), resources: None }
    }

    fn cache(&self) -> (Cache, Option<String>) {
        (Cache::Warm, Some("one set only".into()))
    }

    fn rotation_bytes(&self) -> u128 {
        64
    }

    fn verify(&mut self, _seed: u64) -> Result<Vec<(&'static str, Verification)>, DeviceError> {
        let passed = self.script.verifies.get(self.verified).copied().unwrap_or(true);
        self.verified += 1;
        let check = Verification {
            passed,
            max_abs_error: if passed { 0.001 } else { 7.0 },
            max_rel_error: 0.001,
            mismatches: u64::from(!passed),
            elements: 10,
            tolerance: Tolerance { abs: 0.01, rel: 0.01, mismatch_share: 0.0 },
        };
        Ok(vec![("out", check)])
    }

    fn means(&mut self) -> Means<'_> {
        Means::Timed(self)
    }
}

impl Launcher for ScriptedCase {
    fn launch(&mut self, _set: usize) -> Result<f64, LaunchError> {
        self.launches += 1;
        self.now_ns += self.script.launch_ns.max(1.0) as u64;
        match self.script.fails_at {
            Some(launch) if launch == self.launches && self.script.hangs => {
                Err(LaunchError::Hung { after_ns: 1_000_000 })
            }
            Some(launch) if launch == self.launches => Err(LaunchError::Failed("out of luck".into())),
            _ => Ok(self.script.launch_ns),
        }
    }

    fn sets(&self) -> usize {
        1
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }
}

/// 1 GB/s and 1 GFLOP/s: floors in ns are bytes or FLOPs.
fn peaks() -> Peaks {
    Peaks {
        bandwidth: vec![Bandwidth { working_set_bytes: 1 << 40, gbps: 1.0 }],
        gflops: vec![Throughput { dtype: "f32".into(), gflops: 1.0 }],
        source: "scripted".into(),
    }
}

/// One rmsnorm of 4 × 64 bf16: 3·2·… bytes and FLOPs, far below a millisecond at these peaks.
fn planned() -> Planned {
    let shape: ShapeMap = "rows=4,hidden=64".parse().unwrap();
    let dtypes: Dtypes = "bf16".parse().unwrap();
    let used = ShapeUse { shape, dtypes, calls: 1, total_ns: 10, provenance: Provenance::Given, assumed: vec![] };
    let row = Row {
        kernel: "k".into(),
        kernel_raw: "k".into(),
        family: Family::Rmsnorm,
        category: String::new(),
        op: None,
        position: None,
        phase: Phase::Unknown,
        calls: 1,
        total_ns: 10,
        share: 0.0,
        provenance: Provenance::Given,
        shapes: vec![used],
        location: Location::default(),
    };
    let mut inventory = Inventory { rows: vec![row], ..Inventory::default() };
    inventory.finish();
    let options = CaseOptions { fp8: Fp8Flavor::Ocp, seed: 1 };
    Plan::new(&inventory, &Selection::default(), options).cases.remove(0)
}

fn run(script: Script) -> CaseResult {
    run_with(script, Duration::from_secs(1), &AtomicBool::new(false))
}

fn device(script: Script) -> Scripted {
    let info = DeviceInfo {
        kind: Kind::Host,
        name: "scripted".into(),
        arch: "none".into(),
        units: 1,
        llc_bytes: None,
        fp8: Fp8Flavor::Ocp,
        scripted: false,
    };
    Scripted { info, script }
}

fn settings(left: Duration) -> Settings {
    Settings { cache: Cache::Cold, seed: 1, precision: 0.01, budget: left, left, pair: None }
}

fn run_with(script: Script, left: Duration, stop: &AtomicBool) -> CaseResult {
    run_case(
        &mut device(script),
        &planned(),
        &peaks(),
        &settings(left),
        &mut Counting::Off,
        &mut Recorder::default(),
        stop,
    )
}

/// Keeps what it is told.
#[derive(Default)]
struct Recorder {
    stages: Vec<&'static str>,
    forbids: bool,
}

impl Watch for Recorder {
    fn notice(&mut self, notice: Notice) {
        let doing = notice.stage().doing();
        if self.stages.last() != Some(&doing) {
            self.stages.push(doing);
        }
    }

    fn admits(&mut self, build: &BuildDoc) -> bool {
        assert_eq!(build.file, "scripted");
        !self.forbids
    }
}

#[test]
fn every_stage_is_told_in_order() {
    let mut recorder = Recorder::default();
    let settings = settings(Duration::from_secs(1));
    let stop = AtomicBool::new(false);
    let result = run_case(
        &mut device(Script::default()),
        &planned(),
        &peaks(),
        &settings,
        &mut Counting::Off,
        &mut recorder,
        &stop,
    );
    assert_eq!(result.status, Status::Ok, "{}", reason(&result));
    assert_eq!(
        recorder.stages,
        [
            "it was prepared",
            "its outputs were checked before timing",
            "samples were taken",
            "its outputs were checked after timing"
        ]
    );
}

#[test]
fn a_build_that_is_not_admitted_is_not_launched() {
    let mut recorder = Recorder { forbids: true, ..Recorder::default() };
    let script = Script { fails_at: Some(1), verifies: vec![false], ..Script::default() };
    let settings = settings(Duration::from_secs(1));
    let stop = AtomicBool::new(false);
    let result =
        run_case(&mut device(script), &planned(), &peaks(), &settings, &mut Counting::Off, &mut recorder, &stop);
    assert_eq!((result.status, reason(&result)), (Status::Skipped, "its build is quarantined"));
    assert_eq!(recorder.stages, ["it was prepared"]);
}

fn reason(result: &CaseResult) -> &str {
    result.reason.as_deref().unwrap_or("")
}

#[test]
fn a_good_case_has_time_rates_and_both_verifications() {
    let result = run(Script::default());
    assert_eq!(result.status, Status::Ok, "{}", reason(&result));
    let timing = result.timing.as_ref().unwrap();
    assert_eq!(timing.median_ns, 1e6);
    assert_eq!(timing.cache, Cache::Warm, "the cache state that really was");
    assert!(timing.warnings.iter().any(|warning| warning.code == "measured_warm"));
    assert_eq!(result.verify.as_ref().unwrap().rounds, 2);
    let rates = result.achieved.as_ref().unwrap();
    // GB/s are bytes per ns.
    assert_eq!(rates.gbps, result.work.as_ref().unwrap().total_bytes() as f64 / 1e6);
    assert_eq!(rates.of_peak, result.floor_ns.unwrap() / 1e6);
}

#[test]
fn a_time_below_the_floor_is_refused() {
    let result = run(Script { launch_ns: 100.0, ..Script::default() });
    assert_eq!(result.status, Status::Failed);
    assert!(reason(&result).contains("beats its floor"), "{}", reason(&result));
    assert!(result.achieved.is_none(), "no rate is printed for a time that cannot be true");
}

#[test]
fn a_wrong_output_is_wrong_before_and_after_timing() {
    let before = run(Script { verifies: vec![false], ..Script::default() });
    assert_eq!(before.status, Status::Wrong);
    assert!(reason(&before).starts_with("before timing"), "{}", reason(&before));
    assert!(before.timing.is_none());
    let after = run(Script { verifies: vec![true, false], ..Script::default() });
    assert_eq!(after.status, Status::Wrong);
    assert!(reason(&after).starts_with("after timing") && reason(&after).contains("7.000e0"), "{}", reason(&after));
    assert!(!after.verify.unwrap().passed);
}

#[test]
fn failures_keep_what_the_device_said() {
    let result = run(Script { fails_at: Some(2), ..Script::default() });
    assert_eq!(result.status, Status::Failed);
    assert!(reason(&result).contains("out of luck"), "{}", reason(&result));
    let late = run(Script { fails_at: Some(200), ..Script::default() });
    assert!(late.status == Status::Ok || reason(&late).contains("samples before it"), "{}", reason(&late));
    let hung = run(Script { fails_at: Some(3), hangs: true, ..Script::default() });
    assert_eq!(hung.status, Status::Hung);
}

#[test]
fn memory_and_budget_skip_with_numbers() {
    let memory = run(Script { out_of_memory: true, ..Script::default() });
    assert_eq!(memory.status, Status::Skipped);
    assert!(reason(&memory).contains("1099511627776"), "{}", reason(&memory));
    let none = AtomicBool::new(false);
    let spent = run_with(Script::default(), Duration::ZERO, &none);
    assert_eq!((spent.status, spent.unfinished), (Status::Skipped, true));
    let short = run_with(Script::default(), Duration::from_nanos(5), &none);
    assert!(reason(&short).contains("at this device's peak"), "{}", reason(&short));
}

#[test]
fn an_interrupt_skips_the_case_under_way() {
    let result = run_with(Script::default(), Duration::from_secs(1), &AtomicBool::new(true));
    assert_eq!((result.status, result.unfinished), (Status::Skipped, true));
    assert!(reason(&result).contains("interrupted"), "{}", reason(&result));
}
