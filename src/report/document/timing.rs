//! Measured times of a case and what is said beside them.

use crate::measure::{Cache, Clock, Ended, Measurement, Reading, Stopped, TimeSource};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Times of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimingDoc {
    /// Where the median and its interval come from.
    pub source: TimeSource,
    /// Cache state that the samples were taken in.
    pub cache: Cache,
    /// Bytes that the samples rotated through.
    pub rotation_bytes: u128,
    /// Number of samples.
    pub samples: usize,
    /// Median, ns.
    pub median_ns: f64,
    /// 95 % interval of the median, ns; `null` when there were too few samples for one.
    pub ci95_ns: Option<[f64; 2]>,
    /// 5th percentile of the samples, ns.
    pub p05_ns: f64,
    /// 95th percentile of the samples, ns.
    pub p95_ns: f64,
    /// Why sampling ended.
    pub stopped: Stopped,
    /// Launches before the first sample.
    pub warmup_launches: u64,
    /// The warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<WarmupDoc>,
    /// Samples outside Tukey's fences: flagged, not dropped.
    pub outliers: usize,
    /// Durations that were refused as impossible (not positive or not finite).
    pub refused: usize,
    /// What may be wrong.
    pub warnings: Vec<WarningDoc>,
    /// Every time source that was measured, by name; absent where there is only one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<TimeSource, SourceDoc>,
    /// Clock readings beside the samples; absent where the device gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockDoc>,
    /// Samples in order, ns.
    pub samples_ns: Vec<f64>,
}

/// The warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WarmupDoc {
    /// Launches.
    pub launches: u64,
    /// Its length, ns.
    pub ns: u64,
    /// Why it ended.
    pub ended: Ended,
    /// Change of the launch time over the last window, relative to the median in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<f64>,
}

/// What one time source says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceDoc {
    /// One launch, ns: the median, or for `graph` the slope over the number of launches (kernel and gap).
    pub ns: f64,
    /// Its 95 % interval, ns.
    pub ci95_ns: Option<[f64; 2]>,
    /// `graph`: what a batch costs beside its launches, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead_ns: Option<f64>,
    /// 95 % interval of the overhead, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead_ci95_ns: Option<[f64; 2]>,
    /// `graph`: launches of the smallest batch; the others have 2, 4 and 8 times as many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n0: Option<u64>,
}

impl From<&Reading> for SourceDoc {
    fn from(reading: &Reading) -> Self {
        let ends = |interval: kbench_stats::Interval| [interval.lo(), interval.hi()];
        Self {
            ns: reading.ns,
            ci95_ns: reading.ci95_ns.map(ends),
            overhead_ns: reading.overhead.map(|overhead| overhead.ns),
            overhead_ci95_ns: reading.overhead.and_then(|overhead| overhead.ci95_ns).map(ends),
            n0: reading.overhead.map(|overhead| overhead.n0 as u64),
        }
    }
}

/// Clock readings beside the samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockDoc {
    /// The session's own sustained clock, MHz.
    pub sustained_mhz: f64,
    /// Median over the samples, MHz.
    pub median_mhz: f64,
    /// Lowest, MHz.
    pub min_mhz: f64,
    /// Samples with a reading.
    pub readings: usize,
    /// Samples that were taken below nine tenths of the sustained clock.
    pub throttled: usize,
}

impl From<&Clock> for ClockDoc {
    fn from(clock: &Clock) -> Self {
        let Clock { sustained_mhz, median_mhz, min_mhz, readings, throttled } = *clock;
        Self { sustained_mhz, median_mhz, min_mhz, readings, throttled }
    }
}

/// Something that limits what a time means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WarningDoc {
    /// Stable word.
    pub code: Cow<'static, str>,
    /// One sentence.
    pub message: String,
}

/// Rates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Achieved {
    /// Compulsory bytes over the median, GB/s.
    pub gbps: f64,
    /// Compulsory FLOPs over the median, TFLOP/s.
    pub tflops: f64,
    /// Floor over median, 0 to 1: how near to the bound the build is.
    pub of_peak: f64,
    /// What sets the floor: `memory` or `compute`.
    pub limiter: Cow<'static, str>,
}

impl TimingDoc {
    /// A measurement as the document shows it.
    pub fn new(measured: &Measurement, cache: Cache, rotation_bytes: u128) -> Self {
        let time = measured.time();
        let sources = match &measured.ladder {
            Some(ladder) => ladder.readings.iter().map(|reading| (reading.source, reading.into())).collect(),
            None => BTreeMap::new(),
        };
        Self {
            source: time.source,
            cache,
            rotation_bytes,
            samples: measured.samples_ns.len(),
            median_ns: time.ns,
            ci95_ns: time.ci95_ns.map(|interval| [interval.lo(), interval.hi()]),
            p05_ns: measured.p05_ns,
            p95_ns: measured.p95_ns,
            stopped: measured.stopped,
            warmup_launches: measured.warmup.launches as u64,
            warmup: Some(WarmupDoc {
                launches: measured.warmup.launches as u64,
                ns: measured.warmup.ns,
                ended: measured.warmup.ended,
                change: measured.warmup.change,
            }),
            outliers: measured.outliers.total(),
            refused: measured.refused.total(),
            warnings: measured
                .warnings
                .iter()
                .map(|warning| WarningDoc { code: warning.code().into(), message: warning.to_string() })
                .collect(),
            sources,
            clock: measured.clock.as_ref().map(ClockDoc::from),
            samples_ns: measured.samples_ns.clone(),
        }
    }
}
