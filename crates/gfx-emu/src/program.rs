//! A kernel's code as steps, made when they are first reached.

use crate::exec::{self, Compiler, Step, Unsupported};
use crate::fault::FaultKind;
use crate::isa::{self, Inst};
use std::collections::HashMap;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The code that a kernel can reach: one slot a dword of the code segment. Slots are filled by whichever thread comes first;
/// what they hold depends on the bits alone. Clones share their slots.
#[derive(Clone, Debug)]
pub struct Program {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    compiler: Compiler,
    code: Arc<[u8]>,
    slots: Slots,
    /// What was asked of ranges of the code before.
    answers: Mutex<HashMap<Range<u32>, bool>>,
}

/// Steps by program counter in dwords: null where none has been made.
#[derive(Debug)]
struct Slots {
    steps: Box<[AtomicPtr<Step>]>,
    /// The first and the last slot that were filled.
    first: AtomicU32,
    last: AtomicU32,
}

impl Slots {
    /// Slots for a code segment. They are zeroed by the OS: code that is not reached takes no memory here.
    fn new(count: usize) -> Self {
        // SAFETY: a null pointer is all zeros.
        let steps = unsafe { Box::<[AtomicPtr<Step>]>::new_zeroed_slice(count).assume_init() };
        Self { steps, first: AtomicU32::new(u32::MAX), last: AtomicU32::new(0) }
    }

    /// The dwords between which all filled slots lie.
    fn filled(&self) -> Range<usize> {
        let (first, last) = (self.first.load(Ordering::Acquire), self.last.load(Ordering::Acquire));
        if first > last { 0..0 } else { first as usize..last as usize + 1 }
    }

    /// Puts a step into its slot, unless another thread did it before.
    fn fill(&self, pc: u32, slot: &AtomicPtr<Step>, step: Step) -> *mut Step {
        self.first.fetch_min(pc, Ordering::AcqRel);
        self.last.fetch_max(pc, Ordering::AcqRel);
        let made = Box::into_raw(Box::new(step));
        match slot.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(theirs) => {
                // SAFETY: it was made above and nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                theirs
            }
        }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for slot in self.steps.get_mut(self.filled()).unwrap_or_default() {
            let step = std::mem::replace(slot.get_mut(), null_mut());
            if !step.is_null() {
                // SAFETY: `fill` made it from a box, and slots are filled once.
                drop(unsafe { Box::from_raw(step) });
            }
        }
    }
}

impl Program {
    /// The program of a code segment, for a kernel with these registers.
    pub fn new(compiler: Compiler, code: impl Into<Arc<[u8]>>) -> Self {
        let code = code.into();
        let slots = Slots::new(code.len() / 4);
        Self { inner: Arc::new(Inner { compiler, code, slots, answers: Mutex::default() }) }
    }

    /// What its steps were made for.
    pub(crate) fn compiler(&self) -> &Compiler {
        &self.inner.compiler
    }

    /// The code's bytes.
    pub(crate) fn code(&self) -> &Arc<[u8]> {
        &self.inner.code
    }

    /// Dwords of code.
    pub fn len(&self) -> usize {
        self.inner.slots.steps.len()
    }

    /// True when there is no code.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A range of dwords outside of which no step was ever asked for.
    pub(crate) fn reached(&self) -> Range<usize> {
        self.inner.slots.filled()
    }

    /// The steps as they are now, for a loop that asks for one after another.
    pub(crate) fn steps(&self) -> Steps<'_> {
        Steps { slots: &self.inner.slots.steps, program: self }
    }

    /// The step at a program counter in dwords.
    ///
    /// # Errors
    /// When the counter is outside the code, the bits are no instruction, or the executor lacks it.
    pub fn step(&self, pc: u32) -> Result<&Step, Box<FaultKind>> {
        self.steps().step(pc)
    }

    #[cold]
    #[inline(never)]
    fn make(&self, pc: u32) -> Result<&Step, Box<FaultKind>> {
        let slots = &self.inner.slots;
        let slot = slots.steps.get(pc as usize).ok_or_else(|| Box::new(FaultKind::ProgramCounter))?;
        let step = slots.fill(pc, slot, self.compile(pc)?);
        // SAFETY: steps live as long as the slots.
        Ok(unsafe { &*step })
    }

    fn compile(&self, pc: u32) -> Result<Step, FaultKind> {
        let inst = self.inst(pc).ok_or_else(|| FaultKind::UnknownInstruction { words: self.words(pc, 2) })?;
        exec::compile(&self.inner.compiler, &inst).map_err(|missing| match missing {
            Unsupported::NoHandler | Unsupported::Arch(_) => {
                FaultKind::Unsupported(inst.text(self.inner.compiler.arch))
            }
            Unsupported::Register(name) => FaultKind::Register(name),
        })
    }

    /// The answer to one question about a range of dwords: `find` is called once for each range.
    pub(crate) fn once(&self, range: Range<u32>, find: impl FnOnce() -> bool) -> bool {
        let mut answers = self.inner.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry(range).or_insert_with(find)
    }

    /// The instruction at a program counter.
    pub fn inst(&self, pc: u32) -> Option<Inst> {
        isa::decode(self.inner.compiler.arch, &self.inner.code, pc as usize * 4).ok()
    }

    /// Its text; empty when there is none.
    pub fn text(&self, pc: u32) -> String {
        self.inst(pc).map(|inst| inst.text(self.inner.compiler.arch)).unwrap_or_default()
    }

    /// Up to `count` words from a program counter.
    pub fn words(&self, pc: u32, count: usize) -> Vec<u32> {
        let start = (pc as usize * 4).min(self.inner.code.len());
        let words = self.inner.code[start..].chunks_exact(4).take(count);
        words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
    }

    /// Every instruction of a range of dwords, read one after another; words that are none are stepped over.
    pub fn sweep(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, Inst)> {
        let mut pc = from;
        std::iter::from_fn(move || {
            while pc < to {
                let at = pc;
                match self.inst(at) {
                    Some(inst) => {
                        pc += u32::from(inst.size / 4).max(1);
                        return Some((at, inst));
                    }
                    None => pc += 1,
                }
            }
            None
        })
    }
}

/// The steps of a program, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'a> {
    slots: &'a [AtomicPtr<Step>],
    program: &'a Program,
}

impl<'a> Steps<'a> {
    /// Dwords of code.
    pub(crate) fn len(self) -> usize {
        self.slots.len()
    }

    /// As [`Program::step`].
    #[inline(always)]
    pub(crate) fn step(self, pc: u32) -> Result<&'a Step, Box<FaultKind>> {
        if let Some(slot) = self.slots.get(pc as usize) {
            let step = slot.load(Ordering::Acquire);
            if !step.is_null() {
                // SAFETY: steps live as long as the slots.
                return Ok(unsafe { &*step });
            }
        }
        self.program.make(pc)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::{Level, Limits};
    use crate::isa::Arch;

    #[test]
    fn steps_are_made_once_and_shared_by_clones() {
        let compiler = Compiler { arch: Arch::Gfx942, level: Level::Base, limits: Limits { vgprs: 8, agprs: 0 } };
        // s_nop 0, v_mov_b32 v0, 0, v_mov_b32 v9, 0 (beyond the registers), and no instruction.
        let words = [0xbf80_0000_u32, 0x7e00_0280, 0x7e12_0280, 0xffff_ffff];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let program = Program::new(compiler, code);
        assert!(program.reached().is_empty());
        let clone = program.clone();
        let first = std::thread::scope(|scope| {
            let steps = [0, 1].map(|_| scope.spawn(|| std::ptr::from_ref(program.step(1).unwrap()) as usize));
            steps.map(|step| step.join().unwrap())
        });
        assert_eq!(first[0], first[1]);
        assert_eq!(std::ptr::from_ref(clone.step(1).unwrap()) as usize, first[0]);
        assert_eq!(program.step(0).unwrap().len, 1);
        assert_eq!(program.reached(), 0..2);
        assert_eq!(*program.step(2).unwrap_err(), FaultKind::Register("v9".to_owned()));
        assert!(matches!(*program.step(3).unwrap_err(), FaultKind::UnknownInstruction { .. }));
        assert_eq!(*program.step(4).unwrap_err(), FaultKind::ProgramCounter);
        assert!(program.once(0..2, || true) && program.once(0..2, || false) && !program.once(0..3, || false));
    }
}
