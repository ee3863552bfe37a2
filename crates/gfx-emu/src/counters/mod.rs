//! What a launch counts, under rocprofiler's names.
//!
//! Instruction counts are exact; what caches and LDS banks do is a model (see [`crate::traffic`]), and so is every count of time, which
//! takes the [bound](mod@crate::bound) for the time. Each counter says which it is. Values are sums over all instances (`_sum` may be
//! added to the names of cache and address units); `GRBM_*` are those of one XCD.
//!
//! All `SQ_INSTS_*` count once a wave and instruction, whatever EXEC is and however many lanes there are, and packed instructions
//! once: what the hardware documentation says.

mod fidelity;
mod lines;
mod list;
mod mix;

pub use fidelity::{Fidelity, FidelityReport, FidelityRow};
pub use lines::{LineCount, LinesError, by_line};
pub use mix::{Executed, Mix};

use crate::launch::Outcome;
use crate::model::Model;
use std::fmt;

/// How a value came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counted as the hardware is documented to count.
    Exact,
    /// By a model of the hardware, or by a reading of a definition that is not public in full.
    Model,
    /// By rocprofiler's formula from other counters.
    Derived,
}

impl Kind {
    /// Its word in documents and tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Exact => "exact",
            Kind::Model => "model",
            Kind::Derived => "derived",
        }
    }
}

/// Unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Instructions, waves or requests.
    Count,
    /// Engine clocks.
    Cycles,
    /// Four engine clocks.
    QuadCycles,
    /// 1024 bytes.
    Kibibytes,
    /// Hundredths.
    Percent,
    /// Floating-point operations.
    Flops,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Count => "count",
            Unit::Cycles => "cycles",
            Unit::QuadCycles => "quad-cycles",
            Unit::Kibibytes => "KiB",
            Unit::Percent => "%",
            Unit::Flops => "FLOP",
        })
    }
}

/// One counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// rocprofiler's name.
    pub name: &'static str,
    /// The value; counts are whole numbers unless scaled.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
    /// How it came about.
    pub kind: Kind,
}

/// How much of a grid ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Workgroups that ran.
    pub ran: u64,
    /// Workgroups of the grid.
    pub workgroups: u64,
}

/// The counters of a launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Counters {
    /// In the order of the blocks: SQ, TA, TCP, TCC, GRBM, derived.
    pub list: Vec<Counter>,
    /// There when only a sample of the workgroups ran: all values are then scaled to the grid, and none is exact.
    pub sample: Option<Sample>,
}

impl Counters {
    /// The counters of a launch. Those of time are left out when the device's clock is not known.
    pub fn of(outcome: &Outcome, model: &Model) -> Self {
        list::counters(outcome, model)
    }

    /// A counter by its name; `_sum` may stand behind names of TA, TCP and TCC counters.
    pub fn get(&self, name: &str) -> Option<&Counter> {
        let base = name
            .strip_suffix("_sum")
            .filter(|base| ["TA_", "TCP_", "TCC_"].iter().any(|block| base.starts_with(block)));
        self.list.iter().find(|counter| counter.name == base.unwrap_or(name))
    }

    /// A value by name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.get(name).map(|counter| counter.value)
    }
}

#[cfg(test)]
mod tests;
