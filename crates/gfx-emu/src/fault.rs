//! What a kernel did wrong, or what the emulator does not know: always named, never guessed.

use std::fmt;

/// How memory was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// A read-modify-write.
    Atomic,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Read => "read",
            Access::Write => "write",
            Access::Atomic => "atomic access",
        })
    }
}

/// The kind of a fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// Device memory outside every live allocation.
    #[error("memory fault: {access} of {bytes} B at {address:#x}, {nearest}")]
    Memory {
        /// How.
        access: Access,
        /// Device address.
        address: u64,
        /// Bytes that one lane touched.
        bytes: u32,
        /// Where the nearest allocation lies, in words.
        nearest: String,
    },
    /// A read of device memory that nothing has written.
    #[error("read of {bytes} B of uninitialised memory at {address:#x}, {nearest}")]
    Uninitialised {
        /// Device address.
        address: u64,
        /// Bytes that one lane read.
        bytes: u32,
        /// Which allocation, in words.
        nearest: String,
    },
    /// LDS beyond what the workgroup was given.
    #[error("LDS {access} of {bytes} B at {address:#x}, the workgroup has {size} B")]
    LdsRange {
        /// How.
        access: Access,
        /// LDS address.
        address: u32,
        /// Bytes.
        bytes: u32,
        /// LDS bytes of the workgroup.
        size: u32,
    },
    /// An address that the access's size needs aligned.
    #[error("misaligned {space} address {address:#x}: {bytes} B accesses need a multiple of {align}")]
    Misaligned {
        /// `LDS` or `global`.
        space: &'static str,
        /// Address.
        address: u64,
        /// Bytes.
        bytes: u32,
        /// Alignment needed.
        align: u32,
    },
    /// Two lanes of different waves touched the same LDS word without a barrier between.
    #[error("LDS race at {address:#x} with wave {other}")]
    LdsRace {
        /// LDS address.
        address: u32,
        /// The other wave of the workgroup.
        other: u32,
    },
    /// Bits that are no instruction.
    #[error("unknown instruction {words:#010x?}")]
    UnknownInstruction {
        /// The words at the program counter.
        words: Vec<u32>,
    },
    /// An instruction that the emulator decodes but does not execute.
    #[error("the emulator does not execute this instruction: {0}")]
    Unsupported(String),
    /// A register beyond the kernel's allocation.
    #[error("register {0} lies beyond what the kernel allocates")]
    Register(String),
    /// The program counter left the code.
    #[error("the program counter left the code object")]
    ProgramCounter,
    /// `s_trap`.
    #[error("s_trap {0}")]
    Trap(u16),
    /// Waves that wait for a barrier which can never complete, or a workgroup that cannot go on.
    #[error("deadlock: {0}")]
    Deadlock(String),
    /// More instructions than the launch may execute.
    #[error("the limit of {0} wave instructions was reached: an endless loop?")]
    InstructionLimit(u64),
    /// More time than the launch may take.
    #[error("the limit of {0} ms of run time was reached")]
    TimeLimit(u64),
}

/// A fault with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// Kernel.
    pub kernel: String,
    /// Byte offset of the instruction from the kernel's entry (negative outside it).
    pub offset: i64,
    /// The instruction's text; empty when it could not be decoded.
    pub text: String,
    /// Workgroup.
    pub workgroup: [u32; 3],
    /// Wave of the workgroup.
    pub wave: u32,
    /// Lane, when one lane is to blame.
    pub lane: Option<u8>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.workgroup;
        write!(f, "{} in `{}` at {:+#x}", self.kind, self.kernel, self.offset)?;
        if !self.text.is_empty() {
            write!(f, " (`{}`)", self.text)?;
        }
        write!(f, ", workgroup ({x}, {y}, {z}), wave {}", self.wave)?;
        self.lane.map_or(Ok(()), |lane| write!(f, ", lane {lane}"))
    }
}

impl std::error::Error for Fault {}
