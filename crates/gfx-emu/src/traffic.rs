//! What memory instructions ask of the memory system: exact requests, and modelled caches.

use crate::fault::Access;

/// What kind of LDS operation asks: it decides in which groups of lanes the banks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LdsOp {
    /// Indexed read.
    Read,
    /// Indexed write.
    Write,
    /// Read-modify-write.
    Atomic,
    /// Lane crossing without memory (`ds_permute`, `ds_bpermute`, `ds_swizzle`).
    Crossbar,
}

/// Counts of one thread's share of a launch.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// Bytes that active lanes of vector loads asked for.
    pub vector_bytes_read: u64,
    /// Bytes that active lanes of vector stores and atomics asked for.
    pub vector_bytes_written: u64,
}

impl Traffic {
    /// A vector memory instruction: lane `i` of `exec` touches `bytes` at `addresses[i]`.
    pub fn vmem(&mut self, access: Access, exec: u64, addresses: &[u64; 64], bytes: u32) {
        let _ = addresses;
        let total = u64::from(exec.count_ones()) * u64::from(bytes);
        match access {
            Access::Read => self.vector_bytes_read += total,
            Access::Write | Access::Atomic => self.vector_bytes_written += total,
        }
    }

    /// The same when all 64 lanes are active and lane `i` touches `bytes` at `first + i * bytes`.
    pub fn vmem_linear(&mut self, access: Access, first: u64, bytes: u32) {
        let _ = first;
        let total = 64 * u64::from(bytes);
        match access {
            Access::Read => self.vector_bytes_read += total,
            Access::Write | Access::Atomic => self.vector_bytes_written += total,
        }
    }

    /// A scalar load of `bytes` at `address`.
    pub fn smem(&mut self, address: u64, bytes: u32) {
        let _ = (address, bytes);
    }

    /// An LDS instruction: lane `i` of `exec` touches `bytes` at `addresses[i]`. Two-address forms call once for each.
    pub fn lds(&mut self, op: LdsOp, exec: u64, addresses: &[u32; 64], bytes: u32) {
        let _ = (op, exec, addresses, bytes);
    }
}
