//! Instructions made ready to run.

use super::env::Env;
use super::wave::{ARCHITECTURAL, Wave};
use crate::isa::{Arch, Inst, NotExecuted, Op, Operand};

/// What happens after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Flow {
    /// The next step follows; a branch has already set the program counter.
    Next,
    /// The wave gives up its turn (`s_sleep`, a branch that spins).
    Yield,
    /// VSKIP may have changed: the next steps have to look at it.
    Mode,
    /// The wave waits at a barrier.
    Barrier,
    /// The wave is done.
    End,
    /// [`Env::fault`] says what went wrong.
    Fault,
}

/// Runs one step. The program counter already points behind the instruction.
///
/// It is unsafe to call since a handler may be compiled for vector units that the host lacks: the caller makes sure that
/// the step was made for a [`Level`] that the host has, and that the registers named in the step exist in the wave.
pub type Handler = unsafe fn(&Step, &mut Wave, &mut Env<'_>) -> Flow;

/// What vector units handlers are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Any host.
    Base,
    /// x86-64 with AVX2, FMA, F16C and BMI.
    V3,
    /// x86-64 with AVX-512 F, BW, DQ and VL.
    V4,
}

impl Level {
    /// The levels that this host has, least first.
    pub fn available() -> &'static [Level] {
        const ALL: [Level; 3] = [Level::Base, Level::V3, Level::V4];
        let best = Level::detect();
        let count = ALL.iter().take_while(|level| **level != best).count() + 1;
        ALL.get(..count).unwrap_or(&ALL)
    }

    /// The best level of this host.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let v3 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("lzcnt");
            let v4 = v3
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            match (v4, v3) {
                (true, _) => Level::V4,
                (_, true) => Level::V3,
                _ => Level::Base,
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Level::Base
    }
}

/// A source, resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Src {
    /// Not there.
    None,
    /// An architectural vector register.
    Vgpr(u16),
    /// An accumulation register.
    Agpr(u16),
    /// A scalar register by hardware code.
    Scalar(u8),
    /// A constant: inline or literal, already widened to the operand's type.
    Const(u64),
    /// vccz (251), execz (252), scc (253), and what else has to be read when the step runs.
    Special(u8),
}

/// A step. What handlers look at comes first, on as few of the host's cache lines as it takes.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Step {
    /// Its handler.
    pub run: Handler,
    /// An immediate: offset, branch target (a dword index), bit field.
    pub imm: i64,
    /// What it is; handlers that serve several operations look here.
    pub op: Op,
    /// Dwords of the instruction.
    pub len: u8,
    /// Small per-handler choices made when the step was built (widths, modes, counts).
    pub aux: [u8; 5],
    /// Destination registers: vector register numbers or scalar codes, as the handler takes them.
    pub dst: [u16; 2],
    /// Sources.
    pub src: [Src; 4],
    /// The instruction, for handlers that want its modifiers, and for messages.
    pub inst: Inst,
}

/// Four cache lines a step: the instruction that it keeps has room to grow in the last of them, and no more.
const _: () = assert!(size_of::<Step>() <= 256);

impl Step {
    /// A step of an instruction that names no operand yet.
    pub fn new(inst: &Inst, run: Handler) -> Self {
        Self {
            run,
            op: inst.op,
            len: inst.size / 4,
            aux: [0; 5],
            dst: [0; 2],
            src: [Src::None; 4],
            imm: 0,
            inst: *inst,
        }
    }
}

/// Registers that a kernel may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Architectural vector registers allocated.
    pub vgprs: u16,
    /// Accumulation registers allocated.
    pub agprs: u16,
}

/// Why an instruction cannot be made a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The executor has no handler for it.
    #[error("no handler for this instruction or this combination of modifiers")]
    NoHandler,
    /// The executor lacks the whole instruction set.
    #[error("{0}")]
    Arch(#[from] NotExecuted),
    /// It names a register beyond the allocation.
    #[error("register {0} is beyond the allocation")]
    Register(String),
}

/// Makes steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// Instruction set.
    pub arch: Arch,
    /// Vector units to use.
    pub level: Level,
    /// The kernel's registers.
    pub limits: Limits,
}

impl Compiler {
    /// Number of a vector register operand that spans `width` registers, checked against the allocation; accumulation
    /// registers are told by the second value.
    ///
    /// # Errors
    /// When it is no vector register, or lies beyond the allocation.
    pub fn vreg(&self, operand: Operand, width: u16) -> Result<(u16, bool), Unsupported> {
        let (number, limit, acc) = match operand {
            Operand::Vgpr(number) => (u16::from(number), self.limits.vgprs, false),
            Operand::Agpr(number) => (u16::from(number), self.limits.agprs, true),
            _ => return Err(Unsupported::NoHandler),
        };
        if number + width > limit {
            let name = if acc { 'a' } else { 'v' };
            return Err(Unsupported::Register(format!("{name}{}", number + width - 1)));
        }
        Ok((number, acc))
    }

    /// The number by which `Wave::registers` finds a vector register operand: accumulation registers follow the 256
    /// architectural ones.
    ///
    /// # Errors
    /// As [`Compiler::vreg`].
    pub fn register(&self, operand: Operand, width: u16) -> Result<u16, Unsupported> {
        let (number, acc) = self.vreg(operand, width)?;
        Ok(if acc { number + ARCHITECTURAL } else { number })
    }
}
