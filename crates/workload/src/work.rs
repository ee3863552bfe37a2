//! Compulsory work: what any correct kernel must compute and move.

use crate::dtype::Dtype;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// FLOPs and bytes of one call, counted exactly. Nothing wraps: counts are `u128`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// FLOPs by the dtype of the multiplied operands (a fused multiply-add is two).
    pub flops: BTreeMap<Dtype, u128>,
    /// Bytes that must be read at least once.
    pub bytes_read: u128,
    /// Bytes that must be written at least once.
    pub bytes_written: u128,
    /// FLOPs that the usual tiling executes beyond the useful ones (padding of MoE blocks), by dtype; empty when equal.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub padding_flops: BTreeMap<Dtype, u128>,
    /// What the totals are made of, for `--explain`: formula with numbers, one line each.
    #[serde(skip)]
    pub explain: Vec<String>,
}

impl Work {
    /// FLOPs of every dtype together.
    pub fn total_flops(&self) -> u128 {
        self.flops.values().sum()
    }

    /// Bytes read and written.
    pub fn total_bytes(&self) -> u128 {
        self.bytes_read + self.bytes_written
    }

    /// Adds FLOPs of a dtype.
    pub fn add_flops(&mut self, dtype: Dtype, flops: u128) {
        *self.flops.entry(dtype).or_default() += flops;
    }
}
