//! A card's changing figures: where they are read from, how throttling is told, and what the background sampler keeps.
#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::{Tree, metrics_1_6};
use kbench_system::{
    PciAddress, Range, Reading, Sampler, Summary, Telemetry, TelemetryError, ThrottleReason, ThrottleReasons,
};

const METRICS: &str = "sys/class/drm/card1/device/gpu_metrics";

fn pci() -> PciAddress {
    "0000:c3:00.0".parse().unwrap()
}

#[test]
fn without_the_firmware_table_sensors_and_clock_levels_are_read() {
    let tree = Tree::mi300x();
    let mut telemetry = Telemetry::open(&tree.root(), pci()).unwrap();
    let reading = telemetry.read();
    assert_eq!((reading.engine_clock_mhz, reading.memory_clock_mhz), (Some(132), Some(900)));
    assert_eq!((reading.power_w, reading.hotspot_c, reading.memory_c), (Some(137.0), Some(41.5), Some(38.0)));
    assert_eq!((reading.busy_percent, reading.throttle), (Some(7), None));
    tree.change("sys/class/drm/card1/device/pp_dpm_sclk", "0: 132Mhz\n1: 2100Mhz *\n");
    tree.change("sys/class/drm/card1/device/hwmon/hwmon7/power1_input", "612000000\n");
    let reading = telemetry.read();
    assert_eq!((reading.engine_clock_mhz, reading.power_w), (Some(2100), Some(612.0)), "files are read anew each time");
}

#[test]
fn the_firmware_table_comes_first_and_sensors_fill_its_gaps() {
    let tree = Tree::mi300x();
    let clocks = [2100, 2050, 2100, 2100, 1995, 2100, 2100, 2100];
    tree.put(METRICS, metrics_1_6(clocks, 700, 83, [1, 0, 0, 0, 0, 0]));
    let reading = Telemetry::open(&tree.root(), pci()).unwrap().read();
    assert_eq!((reading.engine_clock_mhz, reading.power_w, reading.hotspot_c), (Some(1995), Some(700.0), Some(83.0)));
    // The table's memory clock, memory temperature and activity are all ones: unknown.
    assert_eq!((reading.memory_clock_mhz, reading.memory_c, reading.busy_percent), (Some(900), Some(38.0), Some(7)));
}

#[test]
fn throttling_is_told_from_counters_that_grew() {
    let tree = Tree::mi300x();
    let table = |counters| metrics_1_6([2100; 8], 700, 83, counters);
    tree.put(METRICS, table([100, 0, 50, 0, 0, 0]));
    let mut telemetry = Telemetry::open(&tree.root(), pci()).unwrap();
    assert_eq!(telemetry.read().throttle, None, "one reading is no difference");
    tree.change(METRICS, table([200, 0, 50, 0, 0, 0]));
    assert_eq!(telemetry.read().throttle, Some(ThrottleReasons::NONE));
    tree.change(METRICS, table([300, 0, 58, 0, 0, 2]));
    let both: ThrottleReasons = [ThrottleReason::Power, ThrottleReason::MemoryThermal].into_iter().collect();
    assert_eq!(telemetry.read().throttle, Some(both));
    assert_eq!(telemetry.read().throttle, Some(both), "the table was not renewed: what it said last stands");
    tree.change(METRICS, table([400, 0, 58, 0, 0, 2]));
    assert_eq!(telemetry.read().throttle, Some(ThrottleReasons::NONE));
}

#[test]
fn partitions_share_the_card_of_function_0() {
    let tree = Tree::mi300x();
    let partition = PciAddress { function: 3, ..pci() };
    assert_eq!(Telemetry::open(&tree.root(), partition).unwrap().read().power_w, Some(137.0));
}

#[test]
fn a_missing_card_and_an_empty_one_are_told_apart() {
    let tree = Tree::mi300x();
    let elsewhere: PciAddress = "0000:01:00.0".parse().unwrap();
    let error = Telemetry::open(&tree.root(), elsewhere).unwrap_err();
    assert_eq!(error, TelemetryError::NoCard(elsewhere));
    assert!(error.to_string().contains("0000:01:00.0"));
    let other_vendor: PciAddress = "0000:03:00.0".parse().unwrap();
    assert_eq!(Telemetry::open(&tree.root(), other_vendor).unwrap_err(), TelemetryError::NothingToRead(other_vendor));
}

fn reading(engine_clock_mhz: Option<u32>, throttle: Option<ThrottleReasons>) -> Reading {
    Reading {
        at: Instant::now(),
        engine_clock_mhz,
        memory_clock_mhz: None,
        power_w: None,
        hotspot_c: None,
        memory_c: None,
        busy_percent: None,
        throttle,
    }
}

#[test]
fn a_summary_has_lowest_middle_and_highest_of_what_is_known() {
    let clocks = [Some(2100), None, Some(1900), Some(2000), Some(2050)];
    let power = ThrottleReasons::NONE.with(ThrottleReason::Power);
    let throttle = [None, Some(power), Some(ThrottleReasons::NONE), Some(ThrottleReasons::NONE), Some(power)];
    let readings: Vec<Reading> =
        clocks.into_iter().zip(throttle).map(|(clock, throttle)| reading(clock, throttle)).collect();
    let summary = Summary::of(&readings);
    assert_eq!(summary.readings, 5);
    assert_eq!(summary.engine_clock_mhz, Some(Range { min: 1900.0, median: 2025.0, max: 2100.0 }));
    assert_eq!(Summary::of(&readings[..3]).engine_clock_mhz.unwrap().median, 2000.0);
    assert_eq!(Summary::of(&readings[..1]).engine_clock_mhz, Some(Range { min: 2100.0, median: 2100.0, max: 2100.0 }));
    assert_eq!((summary.power_w, Summary::of(&[]).engine_clock_mhz), (None, None));
    assert_eq!(summary.reasons().collect::<Vec<_>>(), [ThrottleReason::Power]);
    assert_eq!(summary.throttled_share, Some(0.5), "of the four readings that tell");
    assert_eq!(Summary::of(&readings[..1]).throttle, None);
}

#[test]
fn the_sampler_reads_in_the_background_and_keeps_the_newest() {
    let tree = Tree::mi300x();
    let telemetry = Telemetry::open(&tree.root(), pci()).unwrap();
    let begin = Instant::now();
    let sampler = Sampler::start(telemetry, Duration::from_millis(1), 8).unwrap();
    assert!(sampler.latest().is_some(), "the first reading is there at once");
    let wait = |done: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !done() {
            assert!(Instant::now() < deadline, "the sampler stands still");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait(&|| sampler.summary(begin, Instant::now()).dropped >= 4);
    let summary = sampler.summary(begin, Instant::now());
    assert_eq!(summary.readings, 8, "bounded");
    assert_eq!(summary.engine_clock_mhz, Some(Range { min: 132.0, median: 132.0, max: 132.0 }));
    tree.change("sys/class/drm/card1/device/pp_dpm_sclk", "1: 2100Mhz *\n");
    let changed = Instant::now();
    wait(&|| sampler.summary(changed, Instant::now()).engine_clock_mhz.is_some_and(|clock| clock.max == 2100.0));
    assert_eq!(sampler.summary(begin, begin).readings, 0, "before the first reading");
}

#[test]
fn a_sampler_stops_at_once_when_dropped() {
    let tree = Tree::mi300x();
    let telemetry = Telemetry::open(&tree.root(), pci()).unwrap();
    let sampler = Sampler::start(telemetry, Duration::from_secs(3600), 8).unwrap();
    let begin = Instant::now();
    drop(sampler);
    assert!(begin.elapsed() < Duration::from_secs(60), "it does not wait for its interval");
}
