//! Counters against the work that a case is known to do.

use super::{Entry, Measured, Outcome, evaluate};
use crate::catalog::Catalog;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Below this part of the compulsory work a counter cannot be right (rocm-systems#3100 and others: units, halves).
const LEAST: f64 = 0.5;
/// Above this multiple of the compulsory work the build, or the counter, deserves a look.
const MOST: f64 = 4.0;
/// Cases below this many bytes are not judged: page tables, code and arguments weigh as much as the data.
const SMALL_BYTES: f64 = 1_048_576.0;
/// Part of the compulsory reads that must have come over the fabric for a cold launch.
const COLD: f64 = 0.9;

/// What the case's data had to be before the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// In no cache.
    Cold,
    /// Where the launch before it left it.
    Warm,
}

/// The least work that any build of a case must do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compulsory {
    /// Bytes that must be read at least once.
    pub bytes_read: u128,
    /// Bytes that must be written.
    pub bytes_written: u128,
    /// FLOPs on matrix inputs by type: `f16`, `bf16`, `f8`, `f6f4`, `f32`, `f64`, `i8`.
    pub matrix_flops: BTreeMap<String, u128>,
}

/// Marks entries of a case that disagree with its compulsory work. Only those with a value are judged; reads and writes only when the case
/// was cold and moves at least 1 MiB.
pub fn check(values: &mut BTreeMap<String, Entry>, compulsory: &Compulsory, cache: Cache) {
    if cache == Cache::Cold {
        for (name, bytes) in
            [("fabric_read_bytes", compulsory.bytes_read), ("fabric_write_bytes", compulsory.bytes_written)]
        {
            if bytes as f64 >= SMALL_BYTES {
                judge(values, name, bytes as f64, "bytes");
            }
        }
    }
    for (dtype, flops) in &compulsory.matrix_flops {
        let name = if dtype == "i8" { "mfma_ops_i8".to_owned() } else { format!("mfma_flops_{dtype}") };
        if *flops > 0 {
            judge(values, &name, *flops as f64, "FLOPs");
        }
    }
}

fn judge(values: &mut BTreeMap<String, Entry>, name: &str, least: f64, what: &str) {
    let Some(entry) = values.get_mut(name) else { return };
    let Some(value) = entry.value else { return };
    let ratio = value / least;
    if ratio < LEAST {
        entry.suspicious = Some(format!(
            "{value:.0} counted, but the case cannot be done with fewer than {least:.0} {what} ({ratio:.2} of it): the counter's unit or \
             instances, or work that this counter does not see"
        ));
    } else if ratio > MOST {
        entry.suspicious = Some(format!(
            "{value:.0} counted, {ratio:.1} times the {least:.0} {what} that the case needs: data fetched again, padding, or a counter that \
             counts more than this launch"
        ));
    }
}

/// Whether launches that were meant to be cold were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "verdict")]
pub enum ColdVerdict {
    /// What had to be read came over the fabric. Behind it an Infinity Cache may still have had it, which L2's counters cannot tell: see
    /// `memory_side_cache`.
    Cold {
        /// Fabric reads over compulsory reads.
        share: f64,
        /// A cache between the fabric and HBM is there: cold with respect to L2 only.
        memory_side_cache: bool,
    },
    /// A part of it was in L2.
    Warm {
        /// Fabric reads over compulsory reads.
        share: f64,
    },
    /// It cannot be told: why.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// Whether the counted launches found their data in L2, by what they read from the fabric.
pub fn verify_cold(catalog: &Catalog, measured: &Measured, compulsory: &Compulsory) -> ColdVerdict {
    let unknown = |reason: String| ColdVerdict::Unknown { reason };
    let least = compulsory.bytes_read as f64;
    if least < SMALL_BYTES {
        return unknown("the case reads less than 1 MiB, which page tables, code and arguments outweigh".to_owned());
    }
    let Some(metric) = catalog.metric("fabric_read_bytes") else {
        return unknown(format!("{} has no counters of fabric reads", catalog.arch()));
    };
    match evaluate(metric, measured).outcome {
        Outcome::Known(bytes) if bytes >= COLD * least => {
            ColdVerdict::Cold { share: bytes / least, memory_side_cache: catalog.arch().has_memory_side_cache() }
        }
        Outcome::Known(bytes) => ColdVerdict::Warm { share: bytes / least },
        Outcome::Invalid(reason) | Outcome::Unavailable(reason) => unknown(reason),
    }
}
