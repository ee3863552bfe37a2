//! What a step can reach beyond its wave.

use crate::fault::FaultKind;
use crate::isa::Arch;
use crate::mem::{Memory, Ranges};
use crate::traffic::Traffic;

/// Surroundings of a running wave: device memory, the workgroup's LDS, what is counted.
#[derive(Debug)]
pub struct Env<'a> {
    /// Instruction set.
    pub arch: Arch,
    /// Device memory.
    pub memory: &'a Memory,
    /// Allocations that this thread touched last.
    pub ranges: Ranges,
    /// The workgroup's LDS, as long as it was given.
    pub lds: &'a mut [u8],
    /// Device address of dword 0 of the code: the base of program counters.
    pub code_base: u64,
    /// Memory requests seen.
    pub traffic: &'a mut Traffic,
    /// XCD that the workgroup runs on (hwreg XCC_ID).
    pub xcc: u32,
    /// CU inside the XCD (hwreg HW_ID).
    pub cu: u32,
    /// What `s_memtime` reads: instructions that this thread's workgroups have executed, a deterministic stand-in for time.
    pub clock: u64,
    /// The fault that ended the wave.
    pub fault: Option<(FaultKind, Option<u8>)>,
}

impl Env<'_> {
    /// Notes a fault; handlers return what this returns.
    #[cold]
    pub fn raise(&mut self, kind: FaultKind, lane: Option<u8>) -> super::Flow {
        self.fault = Some((kind, lane));
        super::Flow::Fault
    }
}
