//! A kernel's code as steps, made when they are first reached.

use crate::exec::{self, Compiler, Step, Unsupported};
use crate::fault::FaultKind;
use crate::isa::{self, Inst};
use std::sync::OnceLock;

/// Why there is no step at a program counter.
type Missing = Box<FaultKind>;

/// The code that a kernel can reach: one slot a dword of the code segment. Slots are filled by whichever thread comes first;
/// what they hold depends on the bits alone.
#[derive(Debug)]
pub struct Program {
    compiler: Compiler,
    code: Vec<u8>,
    slots: Vec<OnceLock<Result<Box<Step>, Missing>>>,
}

impl Program {
    /// The program of a code segment, for a kernel with these registers.
    pub fn new(compiler: Compiler, code: Vec<u8>) -> Self {
        let slots = (0..code.len() / 4).map(|_| OnceLock::new()).collect();
        Self { compiler, code, slots }
    }

    /// Dwords of code.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True when there is no code.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The step at a program counter in dwords.
    ///
    /// # Errors
    /// When the counter is outside the code, the bits are no instruction, or the executor lacks it.
    #[inline(always)]
    pub fn step(&self, pc: u32) -> Result<&Step, &FaultKind> {
        match self.slots.get(pc as usize) {
            Some(slot) => match slot.get() {
                Some(Ok(step)) => Ok(step),
                _ => self.make(pc, slot),
            },
            None => Err(&FaultKind::ProgramCounter),
        }
    }

    #[cold]
    fn make<'a>(&'a self, pc: u32, slot: &'a OnceLock<Result<Box<Step>, Missing>>) -> Result<&'a Step, &'a FaultKind> {
        let made = slot.get_or_init(|| self.compile(pc).map(Box::new).map_err(Box::new));
        made.as_deref().map_err(|missing| &**missing)
    }

    fn compile(&self, pc: u32) -> Result<Step, FaultKind> {
        let inst = self.inst(pc).ok_or_else(|| FaultKind::UnknownInstruction { words: self.words(pc, 2) })?;
        exec::compile(&self.compiler, &inst).map_err(|missing| match missing {
            Unsupported::NoHandler => FaultKind::Unsupported(inst.text(self.compiler.arch)),
            Unsupported::Register(name) => FaultKind::Register(name),
        })
    }

    /// The instruction at a program counter.
    pub fn inst(&self, pc: u32) -> Option<Inst> {
        isa::decode(self.compiler.arch, &self.code, pc as usize * 4).ok()
    }

    /// Its text; empty when there is none.
    pub fn text(&self, pc: u32) -> String {
        self.inst(pc).map(|inst| inst.text(self.compiler.arch)).unwrap_or_default()
    }

    /// Up to `count` words from a program counter.
    pub fn words(&self, pc: u32, count: usize) -> Vec<u32> {
        let start = (pc as usize * 4).min(self.code.len());
        let words = self.code[start..].chunks_exact(4).take(count);
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
