//! Launching: a code object loaded into device memory, a kernel's initial state, and the scheduling of its workgroups.

mod engine;
mod group;
mod kernarg;
mod module;
mod run;
mod state;

pub use module::{LoadError, Module};
pub use run::{Barriers, LaunchError, Options, Outcome, Trace, launch};

/// A launch: grid in workgroups, as hardware counts them after the division.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Kernel name.
    pub kernel: String,
    /// Workgroups in x, y, z.
    pub grid: [u32; 3],
    /// Work-items of a workgroup in x, y, z.
    pub block: [u32; 3],
    /// Dynamic LDS, bytes, on top of what the kernel declares.
    pub dynamic_lds: u32,
    /// The kernel arguments' bytes. They may be longer or shorter than the metadata says; hidden arguments beyond them are
    /// filled in.
    pub kernarg: Vec<u8>,
}

impl Launch {
    /// Workgroups of the grid.
    pub fn workgroups(&self) -> u64 {
        self.grid.iter().map(|size| u64::from(*size)).product()
    }

    /// Work-items of a workgroup.
    pub fn work_items(&self) -> u64 {
        self.block.iter().map(|size| u64::from(*size)).product()
    }

    /// The workgroup of a linear index, x fastest.
    pub fn workgroup(&self, linear: u64) -> [u32; 3] {
        let (x, y) = (u64::from(self.grid[0].max(1)), u64::from(self.grid[1].max(1)));
        [(linear % x) as u32, (linear / x % y) as u32, (linear / x / y) as u32]
    }
}
