//! Runs single vector instructions at every level of the host.
#![allow(dead_code, missing_docs, unreachable_pub)]

use kbench_gfx_emu::exec::{Compiler, Env, Level, Limits, Mode, Vreg, Wave, compile};
use kbench_gfx_emu::isa::{Arch, Encoding, Inst, Mods, Op, Operand};
use kbench_gfx_emu::mem::Memory;
use kbench_gfx_emu::traffic::Traffic;

/// Registers of a test wave.
pub const VGPRS: u16 = 64;

/// MODE as HIP compiles kernels: all denormals, nearest even, DX10_CLAMP and IEEE.
pub const DEFAULT_MODE: u32 = 0x3f0;

/// Deterministic numbers (xorshift64*).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// 32 bits that are often interesting as integers and as floats of any size.
    pub fn interesting(&mut self) -> u32 {
        const SPECIAL: [u32; 24] = [
            0,
            1,
            2,
            31,
            0x7fff_ffff,
            0x8000_0000,
            0x8000_0001,
            0xffff_ffff,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0001,
            0x7f80_0001,
            0x3f80_0000,
            0xbf80_0000,
            0x0080_0000,
            0x007f_ffff,
            0x7f7f_ffff,
            0x3c00_0400,
            0x7c00_7bff,
            0x7e01_fc00,
            0x7d01_8000,
            0x03ff_8001,
            0x0000_ffff,
            0xffff_0000,
        ];
        let r = self.next();
        match r % 4 {
            0 => SPECIAL[(r >> 8) as usize % SPECIAL.len()],
            // A number of moderate size.
            1 => ((r >> 32) as u32 & 0x807f_ffff) | (0x3a00_0000 + ((r >> 8) as u32 % 12) * 0x0080_0000),
            _ => (r >> 32) as u32,
        }
    }
}

pub fn op(name: &str) -> Op {
    Op::from_name(name).unwrap_or_else(|| panic!("no operation {name}"))
}

/// An instruction without modifiers.
pub fn inst(name: &str, enc: Encoding, dst: [Operand; 2], src: &[Operand]) -> Inst {
    let mut sources = [Operand::None; 4];
    sources[..src.len()].copy_from_slice(src);
    let mods = Mods { op_sel_hi: if enc == Encoding::Vop3p { 7 } else { 0 }, ..Mods::default() };
    Inst { op: op(name), enc, size: 4, dst, src: sources, scale: [Operand::None; 2], dual: None, mods }
}

/// Destination register of [`vector`].
pub const D: u8 = 40;

/// `name v40, src...`.
pub fn vector(name: &str, enc: Encoding, src: &[Operand]) -> Inst {
    inst(name, enc, [Operand::Vgpr(D), Operand::None], src)
}

pub fn v(number: u8) -> Operand {
    Operand::Vgpr(number)
}

pub fn s(number: u8) -> Operand {
    Operand::Scalar(number)
}

pub fn wave(mode: u32) -> Wave {
    let mut wave = Wave {
        sgpr: [0; 128],
        vgpr: vec![Vreg([0; 64]); usize::from(VGPRS)],
        agpr: vec![Vreg([0; 64]); 8],
        scc: false,
        pc: 0,
        mode: Mode(mode),
        id: 0,
        scratch_base: 0,
        scratch_bytes: 0,
        simd: 0,
        executed: 0,
    };
    wave.set_exec(!0);
    wave
}

pub fn compiler(arch: Arch, level: Level) -> Compiler {
    Compiler { arch, level, limits: Limits { vgprs: VGPRS, agprs: 8 } }
}

/// The wave after one instruction, which all levels must agree on.
pub fn run(arch: Arch, instruction: &Inst, before: &Wave) -> Wave {
    let mut results = Level::available().iter().map(|&level| (level, run_at(arch, level, instruction, before)));
    let (_, first) = results.next().unwrap();
    for (level, other) in results {
        for (number, (a, b)) in first.vgpr.iter().zip(&other.vgpr).enumerate() {
            for lane in 0..64 {
                assert_eq!(
                    a.0[lane], b.0[lane],
                    "{:?} at {level:?}: v{number} lane {lane}: base {:#x}, level {:#x}",
                    instruction.op, a.0[lane], b.0[lane]
                );
            }
        }
        assert_eq!(first.sgpr, other.sgpr, "{:?} at {level:?}", instruction.op);
        assert_eq!(first.agpr, other.agpr, "{:?} at {level:?}", instruction.op);
    }
    first
}

pub fn run_at(arch: Arch, level: Level, instruction: &Inst, before: &Wave) -> Wave {
    let step = compile(&compiler(arch, level), instruction)
        .unwrap_or_else(|e| panic!("{:?} does not compile: {e}", instruction.op));
    let mut after = before.clone();
    let memory = Memory::new(0);
    let mut traffic = Traffic::default();
    let mut env = Env::new(arch, &memory, &mut [], &mut traffic);
    // SAFETY: the step is of a level that the host has, and its registers were checked against the wave's number.
    unsafe { (step.run)(&step, &mut after, &mut env) };
    after
}
