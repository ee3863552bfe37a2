//! What a step can reach beyond its wave.

use super::Flow;
use super::race::Races;
use super::wave::Wave;
use crate::fault::FaultKind;
use crate::isa::Arch;
use crate::mem::{Memory, Ranges};
use crate::traffic::{LdsOp, Traffic};

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
    /// Instructions that the XCD's workgroups had executed when the wave's turn began: a deterministic stand-in for time.
    pub clock: u64,
    /// Instructions that the wave itself had executed then.
    pub turn_began: u64,
    /// Looks for LDS races, when asked to.
    pub races: Option<Box<Races>>,
    /// The fault that ended the wave.
    pub fault: Option<(FaultKind, Option<u8>)>,
}

impl<'a> Env<'a> {
    /// Surroundings at place and time 0, without LDS races being looked for.
    pub fn new(arch: Arch, memory: &'a Memory, lds: &'a mut [u8], traffic: &'a mut Traffic) -> Self {
        Self {
            arch,
            memory,
            ranges: Ranges::default(),
            lds,
            code_base: 0,
            traffic,
            xcc: 0,
            cu: 0,
            clock: 0,
            turn_began: 0,
            races: None,
            fault: None,
        }
    }
}

impl Env<'_> {
    /// What `s_memtime` reads: it grows by one an instruction.
    pub fn now(&self, wave: &Wave) -> u64 {
        self.clock + wave.executed.saturating_sub(self.turn_began)
    }

    /// Counts an LDS instruction that has been done, and looks for races when that is asked for.
    #[inline(always)]
    pub(crate) fn lds_done(&mut self, wave: u32, op: LdsOp, exec: u64, at: &[u32; 64], bytes: u32) -> Flow {
        self.traffic.lds(op, exec, at, bytes);
        if self.races.is_some() { self.race(wave, op, exec, at, bytes) } else { Flow::Next }
    }

    #[cold]
    fn race(&mut self, wave: u32, op: LdsOp, exec: u64, at: &[u32; 64], bytes: u32) -> Flow {
        let found = self.races.as_mut().and_then(|races| races.touch(wave, op, exec, at, bytes, self.lds));
        match found {
            Some((address, other, lane)) => self.raise(FaultKind::LdsRace { address, other }, Some(lane)),
            None => Flow::Next,
        }
    }

    /// Notes a fault; handlers return what this returns.
    #[cold]
    pub fn raise(&mut self, kind: FaultKind, lane: Option<u8>) -> Flow {
        self.fault = Some((kind, lane));
        Flow::Fault
    }
}
