//! One XCD: the workgroups that hardware would send to it, in order, and what they count. An XCD's results do not depend on
//! which thread runs it or on how many threads there are.

use super::Launch;
use super::group::{Context, Group, GroupFault, Slice, Status};
use super::run::{Options, Shared};
use super::state::Place;
use crate::exec::{Env, Races, Wave};
use crate::fault::FaultKind;
use crate::mem::Memory;
use crate::traffic::Traffic;
use std::collections::VecDeque;

/// Steps of a workgroup's time slice. A workgroup that has not ended by then may wait for another one's flag: the others
/// that fit on the XCD get their turn.
const SLICE: u64 = 1 << 20;

/// Fills bytes with the words of a pattern.
pub(super) fn fill(bytes: &mut [u8], pattern: u32) {
    for word in bytes.chunks_mut(4) {
        word.copy_from_slice(&pattern.to_le_bytes()[..word.len()]);
    }
}

/// An XCD. Neighbours in a list may run on different threads: they share no cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Engine {
    xcc: u32,
    /// Workgroups still to start, as linear indices.
    pending: VecDeque<u64>,
    active: VecDeque<Group>,
    idle: Vec<Group>,
    free_slots: Vec<usize>,
    cus: usize,
    clock: u64,
    /// Executions of each step.
    pub(super) counts: Vec<u64>,
    pub(super) traffic: Traffic,
    pub(super) workgroups: u64,
    pub(super) waves: u64,
    pub(super) steps: u64,
    pub(super) left_barriers: u64,
    /// Fewest and most steps of a workgroup.
    pub(super) least: u64,
    pub(super) most: u64,
    turns: u64,
}

/// A fault and the workgroup that had it.
pub(super) type Failed = (GroupFault, [u32; 3]);

impl Engine {
    /// An engine with `resident` places for workgroups, on `cus` CUs.
    pub(super) fn new(
        xcc: u32,
        pending: VecDeque<u64>,
        resident: usize,
        cus: usize,
        code: usize,
        traffic: Traffic,
    ) -> Self {
        Self {
            xcc,
            pending,
            active: VecDeque::new(),
            idle: Vec::new(),
            free_slots: (0..resident.max(1)).rev().collect(),
            cus: cus.max(1),
            clock: 0,
            counts: vec![0; code],
            traffic,
            workgroups: 0,
            waves: 0,
            steps: 0,
            left_barriers: 0,
            least: u64::MAX,
            most: 0,
            turns: 0,
        }
    }

    /// True when nothing is left to run.
    pub(super) fn finished(&self) -> bool {
        self.pending.is_empty() && self.active.is_empty()
    }

    /// Gives one workgroup a time slice: a fresh one while there is room and one waits, so that all that fit are resident
    /// before any is looked at again; else the one that has waited longest.
    pub(super) fn turn(
        &mut self,
        memory: &Memory,
        launch: &Launch,
        options: &Options,
        shared: &Shared<'_>,
    ) -> Result<(), Failed> {
        self.turns += 1;
        let mut group = match self.start(launch, options, shared) {
            Some(group) => group,
            None => match self.active.pop_front() {
                Some(group) => group,
                None => return Ok(()),
            },
        };
        let cu = (group.slot % self.cus) as u32;
        self.traffic.enter(cu);
        let mut lds = std::mem::take(&mut group.lds);
        let env = Env {
            code_base: shared.code_base,
            xcc: self.xcc,
            cu,
            clock: self.clock,
            races: group.races.take(),
            ..Env::new(options.arch, memory, &mut lds, &mut self.traffic)
        };
        let mut context = Context {
            steps: shared.program.steps(),
            env,
            counts: &mut self.counts,
            barriers: options.barriers,
            trace: options.trace.as_ref(),
        };
        let (slice, executed) = group.run(SLICE, &mut context);
        self.clock = context.env.clock;
        self.steps += executed;
        group.steps += executed;
        group.races = context.env.races.take();
        group.lds = lds;
        match slice {
            Slice::Done => self.retire(group),
            Slice::Unfinished => self.active.push_back(group),
            Slice::Fault(fault) => return Err((fault, group.workgroup)),
        }
        Ok(())
    }

    fn start(&mut self, launch: &Launch, options: &Options, shared: &Shared<'_>) -> Option<Group> {
        let slot = *self.free_slots.last()?;
        let linear = self.pending.pop_front()?;
        self.free_slots.pop();
        let mut group = self.idle.pop().unwrap_or_default();
        group.workgroup = launch.workgroup(linear);
        group.slot = slot;
        group.left_barrier = false;
        group.steps = 0;
        group.lds.clear();
        group.lds.resize(shared.lds_bytes, 0);
        if let Some(poison) = options.poison {
            fill(&mut group.lds, poison);
        }
        group.races = options.lds_races.then(|| Box::new(Races::new(&group.lds)));
        let count = shared.setup.waves();
        group.waves.resize_with(count as usize, Wave::default);
        group.status.clear();
        group.status.resize(count as usize, Status::Running);
        let slots_before = u64::from(self.xcc) * shared.resident as u64 + slot as u64;
        for (index, wave) in group.waves.iter_mut().enumerate() {
            let scratch = (slots_before * u64::from(count) + index as u64) * shared.setup.wave_scratch();
            let scratch = shared.addresses.scratch + scratch;
            let place = Place { workgroup: group.workgroup, wave: index as u32, scratch };
            shared.setup.start(wave, place, shared.addresses);
        }
        self.workgroups += 1;
        self.waves += u64::from(count);
        Some(group)
    }

    /// Orders turns as one thread would take them: by turn, then by XCD.
    pub(super) fn next_turn(&self) -> u64 {
        self.turns << 8 | u64::from(self.xcc & 0xff)
    }

    /// Blames the workgroup that waits longest for a limit that was reached, or the one that would start next.
    pub(super) fn blame(&self, kind: FaultKind, launch: &Launch, shared: &Shared<'_>) -> Failed {
        let running = self.active.front().and_then(|group| {
            let index = group.status.iter().position(|status| *status != Status::Ended)?;
            Some((index as u32, group.waves[index].pc, group.workgroup))
        });
        let next = || (0, shared.setup.entry(), launch.workgroup(self.pending.front().copied().unwrap_or_default()));
        let (wave, pc, workgroup) = running.unwrap_or_else(next);
        (GroupFault { kind, lane: None, wave, pc }, workgroup)
    }

    fn retire(&mut self, group: Group) {
        self.left_barriers += u64::from(group.left_barrier);
        self.least = self.least.min(group.steps);
        self.most = self.most.max(group.steps);
        self.free_slots.push(group.slot);
        self.idle.push(group);
    }
}
