//! Each replay of a case is announced before it begins: the parent's limit of the stage is per replay.
#![allow(clippy::unwrap_used)]

mod common;

use common::Bench;
use kbench::counters::{Counting, Request, What};
use kbench::device::gpu::{Gpu, GpuOptions};
use kbench::device::{Device as _, DeviceSpec};
use kbench::measure::Cache;
use kbench::plan::{Plan, Selection};
use kbench::report::document::BuildDoc;
use kbench::runner::{Settings, Watch, run_case};
use kbench::worker::message::{Notice, Stage};
use kbench_profile::ReadOptions;
use kbench_workload::{CaseOptions, Fp8Flavor};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Keeps the notices of counting.
#[derive(Default)]
struct Kept(Vec<Notice>);

impl Watch for Kept {
    fn notice(&mut self, notice: Notice) {
        if notice.stage() == Stage::Count {
            self.0.push(notice);
        }
    }

    fn admits(&mut self, _build: &BuildDoc) -> bool {
        true
    }
}

#[test]
fn every_replay_is_announced() {
    let bench = Bench::new();
    let file = bench.file("shapes.csv", "family,dtype,shape,calls\nrmsnorm,bf16,rows=4 hidden=256,20\n");
    let read = kbench_profile::read(&[file], &ReadOptions::default()).unwrap();
    let options = CaseOptions { fp8: Fp8Flavor::Fnuz, seed: 1 };
    let plan = Plan::new(&read, &Selection::default(), options);
    // Two passes of two launches.
    let request = Request { repeats: 2, ..Request::new(What::List("FETCH_SIZE,WRITE_SIZE".to_owned())) };
    let mut counting = Counting::configure(Some(request), &DeviceSpec::Emu("mi300x".to_owned()));
    let mut device = Gpu::emulated("mi300x", None, GpuOptions::default()).unwrap();
    counting.attach(&device);
    assert_eq!(counting.failure(), None);
    let budget = Duration::from_secs(60);
    let settings = Settings { cache: Cache::Cold, seed: 1, precision: 0.005, budget, left: budget, pair: None };
    let (peaks, stop) = (device.peaks().unwrap(), AtomicBool::new(false));
    let mut kept = Kept::default();
    let result = run_case(&mut device, &plan.cases[0], &peaks, &settings, &mut counting, &mut kept, &stop);
    assert!(result.counting.unwrap().failed.is_none());
    let passes: Vec<(usize, usize)> = kept
        .0
        .iter()
        .filter_map(|notice| match notice {
            Notice::CountPass { pass, of } => Some((*pass, *of)),
            _ => None,
        })
        .collect();
    assert_eq!(passes, [(0, 2), (0, 2), (1, 2), (1, 2)]);
    assert!(matches!(kept.0.first(), Some(Notice::Count(_))), "what the case has comes first");
}
