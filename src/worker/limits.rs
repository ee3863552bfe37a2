//! How long each stage of a case may take before it counts as hung.

use super::message::Stage;
use crate::device::Kind;
use crate::runner::Settings;
use kbench_workload::Work;
use std::time::Duration;

/// Limits of the stages. They are there to end what would never end, so each is many times what a slow machine needs; they
/// grow with the case's work at the rates below (docs/protocol.md has the table).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Opening a device, up to the child's first message.
    pub open: Duration,
    /// Reading or measuring peaks.
    pub peaks: Duration,
    /// What every stage may take, whatever the case.
    pub stage: Duration,
    /// What a child has to end in after an interrupt, before it is killed.
    pub interrupt: Duration,
    /// All limits but that of the interrupt are this many times as long (`--watchdog`).
    pub scale: f64,
}

/// The slowest rates that are still taken for work: a debug build on a shared core.
struct Rates {
    /// Making, copying and comparing tensors, bytes a second.
    bytes: f64,
    /// Running the kernel (emulated, where it is) and its reference, FLOP a second.
    flops: f64,
}

/// Emulated launches beyond this work are sampled: more FLOPs do not make them longer.
const MOST_EMULATED_FLOPS: f64 = 6e9;

/// Beyond this work a GPU's outputs are checked in chosen elements.
const MOST_REFERENCE_FLOPS: f64 = 1e11;

impl Default for Limits {
    fn default() -> Self {
        Self {
            open: Duration::from_secs(120),
            peaks: Duration::from_secs(180),
            stage: Duration::from_secs(30),
            interrupt: Duration::from_secs(3),
            scale: 1.0,
        }
    }
}

impl Limits {
    /// The limit of opening a device.
    pub fn of_open(&self) -> Duration {
        scaled(self.open, self.scale)
    }

    /// The limit of its peaks.
    pub fn of_peaks(&self) -> Duration {
        scaled(self.peaks, self.scale)
    }

    /// The limit of a stage, counted from the last notice of it.
    pub fn of_stage(&self, stage: Stage, kind: Kind, work: &Work, settings: &Settings) -> Duration {
        let bytes = work.total_bytes() as f64;
        let flops = work.total_flops() as f64;
        let rates = match kind {
            Kind::Host | Kind::Hip => Rates { bytes: 2e7, flops: 1e8 },
            Kind::Emu => Rates { bytes: 5e6, flops: 1e7 },
        };
        let (moved, computed) = (bytes / rates.bytes, flops / rates.flops);
        // A single launch: on a GPU a thousand times slower than that is hung already.
        let launch = match kind {
            Kind::Hip => (moved + computed) / 1e3,
            Kind::Host | Kind::Emu => moved + computed,
        };
        let budget = settings.budget.as_secs_f64();
        let seconds = match (stage, kind) {
            // The rotation sets are at most four fifths of memory, copied from the first one.
            (Stage::Prepare, _) => 60.0 + moved,
            (Stage::Verify | Stage::VerifyAgain, Kind::Emu) => {
                300.0 + moved + flops.min(MOST_EMULATED_FLOPS) / rates.flops
            }
            (Stage::Verify | Stage::VerifyAgain, Kind::Host) => 60.0 + moved + computed,
            (Stage::Verify | Stage::VerifyAgain, Kind::Hip) => {
                60.0 + moved + flops.min(MOST_REFERENCE_FLOPS) / rates.flops
            }
            // A notice comes before each pass.
            (Stage::Count, Kind::Emu) => 600.0 + 3.0 * (moved + flops.min(MOST_EMULATED_FLOPS) / rates.flops),
            (Stage::Count, _) => 60.0 + moved + 10.0 * launch,
            // Notices come a few times a window, then after each look; a launch is not interrupted.
            (Stage::Warmup, _) => budget + 5.0 * launch,
            (Stage::Sample, _) => 1.2 * budget + 3.0 * launch,
        };
        scaled(self.stage + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4), self.scale)
    }
}

fn scaled(limit: Duration, scale: f64) -> Duration {
    Duration::try_from_secs_f64(limit.as_secs_f64() * scale).unwrap_or(Duration::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Cache;
    use kbench_workload::Dtype;

    fn settings(seconds: u64) -> Settings {
        let budget = Duration::from_secs(seconds);
        Settings { cache: Cache::Cold, seed: 1, precision: 0.005, budget, left: budget, pair: None }
    }

    fn limit(stage: Stage, kind: Kind, flops: u128, bytes: u128, budget: u64) -> f64 {
        let mut work = Work { bytes_read: bytes, ..Work::default() };
        work.add_flops(Dtype::Bf16, flops);
        Limits::default().of_stage(stage, kind, &work, &settings(budget)).as_secs_f64()
    }

    #[test]
    fn limits_grow_with_the_work_and_the_budget() {
        // 30 s for every stage, 60 s for a check, 1 GFLOP at 0.1 GFLOP/s.
        assert_eq!(limit(Stage::Verify, Kind::Host, 1_000_000_000, 0, 1), 100.0);
        assert!(limit(Stage::Prepare, Kind::Host, 0, 1 << 34, 1) > 800.0);
        assert_eq!(limit(Stage::Sample, Kind::Hip, 0, 0, 10), 42.0);
        assert_eq!(limit(Stage::Warmup, Kind::Host, 1_000_000_000, 0, 1), 81.0);
    }

    #[test]
    fn a_sampled_emulation_has_a_bounded_limit() {
        let all = limit(Stage::Verify, Kind::Emu, 6_000_000_000, 0, 1);
        assert_eq!(all, limit(Stage::Verify, Kind::Emu, 1 << 60, 0, 1));
        // The emulator gives a launch up by itself after 240 s.
        assert!(limit(Stage::Verify, Kind::Emu, 0, 0, 1) > 240.0);
    }

    #[test]
    fn absurd_work_and_scales_do_not_overflow() {
        let longest = limit(Stage::Sample, Kind::Host, u128::MAX, u128::MAX / 4, u64::MAX / 8);
        assert!(longest.is_finite());
        let limits = Limits { scale: f64::MAX, ..Limits::default() };
        assert!(limits.of_open() > Duration::from_secs(1 << 40));
    }
}
