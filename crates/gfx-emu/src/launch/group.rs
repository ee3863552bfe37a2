//! One workgroup: its waves take short turns, so that waves which wait for each other through LDS or memory all progress.

use super::run::Barriers;
use crate::exec::{Env, Flow, Races, Wave};
use crate::fault::FaultKind;
use crate::isa::Class;
use crate::program::Steps;

/// Steps of a wave's turn.
const TURN: u32 = 128;
/// What a turn given up by `s_sleep` counts against the workgroup's time slice.
const SLEEP_COST: u64 = 8192;

/// What a wave does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Running,
    AtBarrier,
    Ended,
}

/// A workgroup on a CU.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) workgroup: [u32; 3],
    pub(super) waves: Vec<Wave>,
    pub(super) status: Vec<Status>,
    pub(super) lds: Vec<u8>,
    /// Which of the engine's places it holds: CU and scratch follow from it.
    pub(super) slot: usize,
    /// A wave left the kernel while others waited at a barrier.
    pub(super) left_barrier: bool,
    /// Steps taken, and clocks slept.
    pub(super) steps: u64,
    /// Accesses to the LDS since the last barrier, when races are looked for.
    pub(super) races: Option<Box<Races>>,
}

/// How a time slice ended.
#[derive(Debug)]
pub(super) enum Slice {
    Done,
    Unfinished,
    Fault(GroupFault),
}

/// A fault and who had it.
#[derive(Debug)]
pub(super) struct GroupFault {
    pub(super) kind: FaultKind,
    pub(super) lane: Option<u8>,
    pub(super) wave: u32,
    pub(super) pc: u32,
}

/// What a group needs to run.
pub(super) struct Context<'a, 'm> {
    pub(super) steps: Steps<'a>,
    pub(super) env: Env<'m>,
    /// Executions of each step: as many as `steps` has slots.
    pub(super) counts: &'a mut [u64],
    pub(super) barriers: Barriers,
    pub(super) trace: Option<&'a super::run::Trace>,
}

impl Group {
    /// Runs until all waves have ended or about `slice` steps were taken or slept; gives the steps taken.
    pub(super) fn run(&mut self, slice: u64, context: &mut Context<'_, '_>) -> (Slice, u64) {
        let (mut spent, mut executed) = (0_u64, 0_u64);
        while spent < slice {
            let mut alive = false;
            for index in 0..self.waves.len() {
                if self.status[index] != Status::Running {
                    continue;
                }
                alive = true;
                let before = self.waves[index].executed;
                context.env.turn_began = before;
                let flow = run_wave(&mut self.waves[index], self.workgroup, context);
                let taken = self.waves[index].executed - before;
                spent += taken;
                executed += taken;
                context.env.clock += taken;
                match flow {
                    Ok(Flow::End) => self.status[index] = Status::Ended,
                    Ok(Flow::Barrier) => self.status[index] = Status::AtBarrier,
                    Ok(Flow::Yield) => spent += SLEEP_COST / self.waves.len() as u64,
                    Ok(_) => {}
                    Err(fault) => return (Slice::Fault(fault), executed),
                }
            }
            if !alive {
                match self.release(context) {
                    Ok(true) => return (Slice::Done, executed),
                    Ok(false) => {}
                    Err(fault) => return (Slice::Fault(fault), executed),
                }
            }
        }
        (Slice::Unfinished, executed)
    }

    /// Opens the barrier when every wave that has not ended waits at it; true when all have ended.
    fn release(&mut self, context: &mut Context<'_, '_>) -> Result<bool, GroupFault> {
        let waiting = self.status.iter().position(|status| *status == Status::AtBarrier);
        let Some(first) = waiting else { return Ok(true) };
        if self.status.contains(&Status::Ended) {
            self.left_barrier = true;
            if context.barriers == Barriers::Strict {
                let ended = self.status.iter().filter(|status| **status == Status::Ended).count();
                let kind = FaultKind::Deadlock(format!(
                    "barrier mismatch: {ended} of {} waves had ended while the others waited at a barrier",
                    self.waves.len()
                ));
                let (wave, pc) = (first as u32, self.waves[first].pc.wrapping_sub(1));
                return Err(GroupFault { kind, lane: None, wave, pc });
            }
        }
        if let Some(races) = &mut context.env.races {
            races.barrier();
        }
        for status in &mut self.status {
            if *status == Status::AtBarrier {
                *status = Status::Running;
            }
        }
        Ok(false)
    }
}

/// One turn of a wave.
fn run_wave(wave: &mut Wave, workgroup: [u32; 3], context: &mut Context<'_, '_>) -> Result<Flow, GroupFault> {
    let (steps, env) = (context.steps, &mut context.env);
    let counts = &mut context.counts[..steps.len()];
    let mut skips = wave.mode.vskip();
    for _ in 0..TURN {
        let pc = wave.pc;
        let step = match steps.step(pc) {
            Ok(step) => step,
            Err(kind) => return Err(GroupFault { kind: *kind, lane: None, wave: wave.id, pc }),
        };
        // SAFETY: there is a step, so the counter is below the number of slots.
        unsafe { *counts.get_unchecked_mut(pc as usize) += 1 };
        wave.executed += 1;
        wave.pc = pc + u32::from(step.len);
        if let Some(trace) = context.trace {
            trace(wave, pc, workgroup);
        }
        if skips && is_vector(step.op.class()) {
            continue;
        }
        // SAFETY: the program was compiled for a level that this host has and for this kernel's register allocation, which
        // is what the wave was given.
        match unsafe { (step.run)(step, wave, env) } {
            Flow::Next => {}
            Flow::Mode => skips = wave.mode.vskip(),
            Flow::Fault => {
                let (kind, lane) = env.fault.take().unwrap_or((FaultKind::ProgramCounter, None));
                return Err(GroupFault { kind, lane, wave: wave.id, pc });
            }
            flow => return Ok(flow),
        }
    }
    Ok(Flow::Next)
}

/// What VSKIP skips.
fn is_vector(class: Class) -> bool {
    matches!(
        class,
        Class::Valu
            | Class::Mfma
            | Class::Lds
            | Class::VmemRead
            | Class::VmemWrite
            | Class::VmemAtomic
            | Class::CacheControl
    )
}
