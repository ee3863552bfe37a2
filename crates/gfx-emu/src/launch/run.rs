//! One launch from start to end.

use super::engine::{Engine, Failed};
use super::kernarg;
use super::state::{Addresses, Setup, registers};
use super::{Launch, Module};
use crate::exec::{Compiler, Level, Limits, Wave};
use crate::fault::{Fault, FaultKind};
use crate::isa::{Arch, Class, Op};
use crate::mem::{Memory, MemoryError};
use crate::program::Program;
use crate::traffic::{Shape, Traffic};
use kbench_code_object::{Kernel, LaunchShape, Target};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What happens when waves end while others of their workgroup wait at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Barriers {
    /// What hardware does: ended waves no longer count. It is reported.
    #[default]
    Hardware,
    /// It is a fault: the barrier was not reached by all.
    Strict,
}

/// Called before each instruction with the wave, the program counter in dwords and the workgroup.
pub type Trace = Box<dyn Fn(&Wave, u32, [u32; 3]) + Sync + Send>;

/// How to run.
pub struct Options {
    /// Instruction set of the device.
    pub arch: Arch,
    /// XCDs; workgroups go to them in turn.
    pub xcds: u32,
    /// CUs of each.
    pub cus_per_xcd: u32,
    /// LDS of a CU, bytes.
    pub lds_per_cu: u32,
    /// Caches, for the traffic model.
    pub caches: Shape,
    /// Host threads; results do not depend on it.
    pub threads: usize,
    /// Wave instructions that the launch may take.
    pub instruction_limit: u64,
    /// Time that the launch may take.
    pub time_limit: Option<Duration>,
    /// Run only this many workgroups: the first, the last, and others evenly between.
    pub sample: Option<u64>,
    /// Barriers.
    pub barriers: Barriers,
    /// Makes a fault of LDS races: two waves of a workgroup that touch one byte, at least one of them writing, without a
    /// barrier between, unless it writes what is there. Slow.
    pub lds_races: bool,
    /// Fills what hardware leaves undefined (registers, LDS and scratch at the start of a workgroup) with this word instead
    /// of zeros. [`Memory::set_poison`] does the same for allocations.
    pub poison: Option<u32>,
    /// Vector units of the host to use; `None` takes the best.
    pub level: Option<Level>,
    /// Sees every instruction; the launch then runs on one thread.
    pub trace: Option<Trace>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("arch", &self.arch).field("xcds", &self.xcds).finish_non_exhaustive()
    }
}

/// Why a launch did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// No such kernel.
    #[error("the code object has no kernel `{name}`; it has {known}")]
    NoKernel {
        /// Asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// Sizes that no GPU launches.
    #[error("{0}")]
    Geometry(String),
    /// The code object was loaded for another GPU.
    #[error("the code object is for {found}, the launch asks for a {wanted}")]
    Arch {
        /// The code object's.
        found: String,
        /// The launch's.
        wanted: &'static str,
    },
    /// Device memory for the launch itself.
    #[error("{0}")]
    Memory(#[from] MemoryError),
    /// The kernel did something wrong.
    #[error("{0}")]
    Fault(Box<Fault>),
}

/// What is the same for all engines of a launch.
pub(super) struct Shared<'a> {
    pub(super) program: &'a Program,
    pub(super) setup: Setup,
    pub(super) addresses: Addresses,
    pub(super) code_base: u64,
    pub(super) lds_bytes: usize,
    /// Places for workgroups on an XCD.
    pub(super) resident: usize,
}

/// What a launch did.
#[derive(Debug)]
pub struct Outcome {
    /// Workgroups of the grid.
    pub workgroups: u64,
    /// Workgroups that ran: all, or the sample.
    pub ran: u64,
    /// The linear indices of the sample, in order; `None` when all ran.
    pub sample: Option<Vec<u64>>,
    /// Waves that ran.
    pub waves: u64,
    /// Executions of each dword of the code segment that starts an instruction.
    pub counts: Vec<u64>,
    /// Memory requests and modelled caches, all XCDs together.
    pub traffic: Traffic,
    /// Wave instructions by XCD.
    pub steps_by_xcd: Vec<u64>,
    /// Fewest and most wave instructions of a workgroup (and clocks slept).
    pub steps_per_workgroup: (u64, u64),
    /// Workgroups some of whose waves ended while others waited at a barrier.
    pub left_barriers: u64,
    /// Reads past an allocation inside its last page, when those are let pass.
    pub reads_beyond: u64,
    /// Workgroups that a CU holds at a time, as scheduled here.
    pub workgroups_per_cu: u32,
    /// The steps, for those who count by instruction.
    pub program: Program,
}

impl Outcome {
    /// Wave instructions executed.
    pub fn instructions(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Runs a kernel to its end.
///
/// # Errors
/// When there is no such kernel, the geometry is impossible, memory is short, or the kernel faults.
pub fn launch(
    memory: &mut Memory,
    module: &Module,
    launch: &Launch,
    options: &Options,
) -> Result<Outcome, LaunchError> {
    let kernel = module.kernel(&launch.kernel).ok_or_else(|| no_kernel(module, &launch.kernel))?;
    let found = module.object().arch().name();
    if found != options.arch.name() {
        return Err(LaunchError::Arch { found: found.to_string(), wanted: options.arch.name() });
    }
    let lds_bytes = check(kernel, launch, options)?;
    let (vgprs, agprs) = registers(kernel);
    let level = options.level.unwrap_or_else(Level::detect);
    let compiler = Compiler { arch: options.arch, level, limits: Limits { vgprs, agprs } };
    let first = module.code_start();
    let program = module.program(memory, compiler)?;
    let code_base = module.base() + first;
    let per_cu = occupancy(kernel, module.object().arch(), launch, options);
    let resident = options.cus_per_xcd.max(1) as usize * per_cu as usize;

    let mark = memory.mark();
    let mut temporary = Temporary { memory, mark, addresses: Vec::new() };
    let block = kernarg::block(kernel, launch);
    let kernarg_address = temporary.place(&block, "kernel arguments")?;
    let descriptor = module.base() + kernel.descriptor_address;
    let packet = temporary.place(&kernarg::packet(kernel, launch, descriptor, kernarg_address), "dispatch packet")?;
    let waves = launch.work_items().div_ceil(64);
    let scratch_size = u64::from(kernel.scratch_bytes) * 64 * waves * resident as u64 * u64::from(options.xcds);
    let scratch = if scratch_size == 0 { 0 } else { temporary.scratch(scratch_size, options.poison)? };
    let addresses = Addresses { packet, kernarg: kernarg_address, scratch, scratch_size };
    let entry = (kernel.entry_address.wrapping_sub(first) / 4) as u32;
    let setup = Setup::new(options, kernel, launch, &block, entry, addresses);
    let shared = Shared { program: &program, setup, addresses, code_base, lds_bytes, resident };

    let total = launch.workgroups();
    let sample = options.sample.filter(|count| *count < total).map(|count| spread(total, count));
    let mut engines = engines(&sample, total, options, resident, program.len());
    let threads = if options.trace.is_some() || orders_memory(&program, kernel, first) { 1 } else { options.threads };
    let memory_view: &Memory = temporary.memory;
    let beyond_before = memory_view.reads_beyond();
    let ran = run_engines(&mut engines, threads, memory_view, launch, options, &shared);
    let reads_beyond = memory_view.reads_beyond() - beyond_before;
    drop(temporary);
    ran.map_err(|(fault, workgroup)| {
        let offset = i64::from(fault.pc) * 4 - (kernel.entry_address.wrapping_sub(first)) as i64;
        LaunchError::Fault(Box::new(Fault {
            kind: fault.kind,
            kernel: kernel.name.clone(),
            offset,
            text: program.text(fault.pc),
            workgroup,
            wave: fault.wave,
            lane: fault.lane,
        }))
    })?;

    let mut counts = vec![0; program.len()];
    let mut traffic = Traffic::default();
    let reached = program.reached();
    for engine in &mut engines {
        let parts = counts.get_mut(reached.clone()).zip(engine.counts.get(reached.clone()));
        for (sum, count) in parts.into_iter().flat_map(|(sums, parts)| sums.iter_mut().zip(parts)) {
            *sum += count;
        }
        traffic.merge(&engine.traffic);
    }
    traffic.forget(scratch, scratch_size);
    let most = engines.iter().map(|engine| engine.most).max().unwrap_or(0);
    Ok(Outcome {
        workgroups: total,
        ran: engines.iter().map(|engine| engine.workgroups).sum(),
        sample,
        waves: engines.iter().map(|engine| engine.waves).sum(),
        counts,
        traffic,
        steps_by_xcd: engines.iter().map(|engine| engine.steps).collect(),
        steps_per_workgroup: (engines.iter().map(|engine| engine.least).min().unwrap_or(0).min(most), most),
        left_barriers: engines.iter().map(|engine| engine.left_barriers).sum(),
        reads_beyond,
        workgroups_per_cu: per_cu,
        program,
    })
}

fn no_kernel(module: &Module, name: &str) -> LaunchError {
    let mut known: Vec<_> = module.kernels().iter().map(|kernel| kernel.name.as_str()).take(12).collect();
    if module.kernels().len() > known.len() {
        known.push("...");
    }
    LaunchError::NoKernel { name: name.to_owned(), known: known.join(", ") }
}

/// Checks the geometry; gives the workgroup's LDS in bytes.
fn check(kernel: &Kernel, launch: &Launch, options: &Options) -> Result<usize, LaunchError> {
    let wrong = |text: String| Err(LaunchError::Geometry(text));
    let [bx, by, bz] = launch.block;
    if launch.grid.contains(&0) || launch.block.contains(&0) {
        return wrong(format!(
            "grid {:?} and block {:?} must be at least 1 in each dimension",
            launch.grid, launch.block
        ));
    }
    let limit = u64::from(kernel.max_workgroup.unwrap_or(1024).min(1024));
    if launch.work_items() > limit {
        return wrong(format!("a block of {bx}x{by}x{bz} is larger than the {limit} work-items of `{}`", kernel.name));
    }
    for axis in 0..3 {
        if u64::from(launch.grid[axis]) * u64::from(launch.block[axis]) > u64::from(u32::MAX) {
            return wrong(format!("grid {:?} times block {:?} exceeds 2^32 work-items", launch.grid, launch.block));
        }
    }
    if kernel.wave_size != 64 {
        return wrong(format!("`{}` runs in waves of {}, the emulator has 64", kernel.name, kernel.wave_size));
    }
    let lds = u64::from(kernel.lds_bytes) + u64::from(launch.dynamic_lds);
    if lds > u64::from(options.lds_per_cu) {
        return wrong(format!("{lds} B of LDS are more than the {} B of a CU", options.lds_per_cu));
    }
    Ok(lds as usize)
}

/// Workgroups that a CU holds at once: as many as the processor can, and as the device's LDS is for. One that passed [`check`]
/// runs in any case, also where a device file gives a CU more LDS than its processor has.
fn occupancy(kernel: &Kernel, target: &Target, launch: &Launch, options: &Options) -> u32 {
    let shape = LaunchShape { block: launch.work_items() as u32, dynamic_lds_bytes: launch.dynamic_lds };
    let by_processor = kernel.occupancy(target, shape).map_or(1, |occupancy| occupancy.workgroups);
    let by_lds = options.lds_per_cu.checked_div(kernel.lds_bytes + launch.dynamic_lds).unwrap_or(u32::MAX);
    by_processor.min(by_lds).max(1)
}

/// `count` indices of `0..total`: first, last, and others evenly between.
fn spread(total: u64, count: u64) -> Vec<u64> {
    let mut all: Vec<u64> = match count {
        0 | 1 => vec![0],
        _ => (0..count).map(|i| (u128::from(i) * u128::from(total - 1) / u128::from(count - 1)) as u64).collect(),
    };
    all.dedup();
    all
}

fn engines(sample: &Option<Vec<u64>>, total: u64, options: &Options, resident: usize, code: usize) -> Vec<Engine> {
    let xcds = u64::from(options.xcds.max(1));
    (0..xcds)
        .map(|xcc| {
            let pending: VecDeque<u64> = match sample {
                Some(sample) => sample.iter().copied().filter(|linear| linear % xcds == xcc).collect(),
                None => (xcc..total).step_by(xcds as usize).collect(),
            };
            let cus = options.cus_per_xcd.max(1);
            Engine::new(xcc as u32, pending, resident, cus as usize, code, Traffic::new(options.caches, cus))
        })
        .collect()
}

/// Whether an operation is an atomic on device memory.
fn is_atomic(op: Op) -> bool {
    op.class() == Class::VmemAtomic || op.class() == Class::Smem && op.name().contains("atomic")
}

/// True when results may depend on the order in which workgroups reach memory: the kernel has atomics on device memory.
/// Such launches run on one thread, XCD after XCD in turns, so that the order is the same on every host.
fn orders_memory(program: &Program, kernel: &Kernel, first: u64) -> bool {
    let start = (kernel.entry_address.wrapping_sub(first) / 4) as u32;
    let end = start.saturating_add((kernel.code_size / 4) as u32).min(program.len() as u32);
    program.once(start..end, || {
        let mut calls = false;
        let atomic = program.sweep(start, end).any(|(_, inst)| {
            calls |= matches!(inst.op, Op::SSwappcB64 | Op::SSetpcB64 | Op::SCallB64);
            is_atomic(inst.op)
        });
        atomic || (calls && program.sweep(0, program.len() as u32).any(|(_, inst)| is_atomic(inst.op)))
    })
}

fn run_engines(
    engines: &mut [Engine],
    threads: usize,
    memory: &Memory,
    launch: &Launch,
    options: &Options,
    shared: &Shared<'_>,
) -> Result<(), Failed> {
    let started = Instant::now();
    let steps = AtomicU64::new(0);
    // The turn of the first fault, in the order of one thread: all turns before it are taken, so that the same fault is told
    // whatever the number of threads.
    let end = AtomicU64::new(u64::MAX);
    let failed: Mutex<Option<(u64, Failed)>> = Mutex::new(None);
    let threads = threads.clamp(1, engines.len().max(1));
    let mut shares: Vec<Vec<&mut Engine>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, engine) in engines.iter_mut().enumerate() {
        shares[index % threads].push(engine);
    }
    let work = |share: &mut Vec<&mut Engine>| {
        let mut open = true;
        while open {
            open = false;
            for engine in share.iter_mut().filter(|engine| !engine.finished()) {
                let turn = engine.next_turn();
                if turn >= end.load(Ordering::Relaxed) {
                    continue;
                }
                open = true;
                let before = engine.steps;
                let outcome = engine.turn(memory, launch, options, shared);
                let total = steps.fetch_add(engine.steps - before, Ordering::Relaxed) + engine.steps - before;
                let outcome = outcome.and_then(|()| limits(total, started, launch, options, shared, engine));
                if let Err(fault) = outcome {
                    end.fetch_min(turn, Ordering::Relaxed);
                    let mut slot = failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    if slot.as_ref().is_none_or(|(first, _)| turn < *first) {
                        *slot = Some((turn, fault));
                    }
                }
            }
        }
        gather_traffic(share);
    };
    if let [share] = &mut shares[..] {
        work(share);
    } else {
        std::thread::scope(|scope| {
            for share in &mut shares {
                scope.spawn(|| work(share));
            }
        });
    }
    match failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        Some((_, fault)) => Err(fault),
        None => Ok(()),
    }
}

/// Adds up what the engines of a thread asked of the memory system, in the first of them: the maps of what each touched are large.
fn gather_traffic(engines: &mut [&mut Engine]) {
    let Some((first, others)) = engines.split_first_mut() else { return };
    first.traffic.flush();
    for engine in others {
        let mut traffic = std::mem::take(&mut engine.traffic);
        traffic.flush();
        first.traffic.merge(&traffic);
    }
}

/// The launch's limits on instructions and time.
fn limits(
    steps: u64,
    started: Instant,
    launch: &Launch,
    options: &Options,
    shared: &Shared<'_>,
    engine: &Engine,
) -> Result<(), Failed> {
    let over = |kind: FaultKind| Err(engine.blame(kind, launch, shared));
    if steps > options.instruction_limit && !engine.finished() {
        return over(FaultKind::InstructionLimit(options.instruction_limit));
    }
    match options.time_limit {
        Some(limit) if started.elapsed() > limit && !engine.finished() => {
            over(FaultKind::TimeLimit(limit.as_millis() as u64))
        }
        _ => Ok(()),
    }
}

/// Allocations that last as long as the launch.
struct Temporary<'m> {
    memory: &'m mut Memory,
    /// Launches give their addresses back: many of them would use up all there are.
    mark: u64,
    addresses: Vec<u64>,
}

impl Temporary<'_> {
    /// Scratch, whose contents nobody tracks: compilers copy padding and spill registers that hold nothing.
    fn scratch(&mut self, bytes: u64, poison: Option<u32>) -> Result<u64, MemoryError> {
        let address = self.memory.allocate_untracked(bytes, "scratch")?;
        self.addresses.push(address);
        if let Some(poison) = poison {
            self.memory.with_bytes(address, bytes, |bytes| super::engine::fill(bytes, poison))?;
        }
        Ok(address)
    }

    fn place(&mut self, bytes: &[u8], name: &str) -> Result<u64, MemoryError> {
        let address = self.memory.allocate(bytes.len() as u64, name)?;
        self.addresses.push(address);
        self.memory.write(address, bytes)?;
        Ok(address)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        for address in self.addresses.drain(..) {
            // It was allocated here and nothing else frees it.
            let _ = self.memory.free(address);
        }
        self.memory.rewind(self.mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_both_ends_and_no_index_twice() {
        assert_eq!(spread(10, 1), [0]);
        assert_eq!(spread(10, 2), [0, 9]);
        assert_eq!(spread(11, 3), [0, 5, 10]);
        let many = spread(u64::from(u32::MAX) * 1000, 64);
        assert!(many.is_sorted() && many.len() == 64 && many[63] == u64::from(u32::MAX) * 1000 - 1);
    }
}
