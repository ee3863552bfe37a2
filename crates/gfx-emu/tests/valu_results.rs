//! Results at the edges: numbers that are none, overflow and flushed denormals of halves, modifiers of division steps, signs
//! of bf16, and destinations beyond the registers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod valu_common;

use kbench_gfx_emu::exec::{Level, Vreg, Wave, compile};
use kbench_gfx_emu::isa::{Arch, Encoding, Inst, Operand, Sdwa};
use valu_common::*;

/// MODE without IEEE and with all denormals flushed: output modifiers count.
const SCALING_MODE: u32 = 0x100;

/// Lane 7 of the result of an instruction.
fn result(arch: Arch, instruction: &Inst, before: &Wave) -> u32 {
    run(arch, instruction, before).vgpr[usize::from(D)].0[7]
}

fn result64(arch: Arch, instruction: &Inst, before: &Wave) -> f64 {
    let after = run(arch, instruction, before);
    let [low, high] = [0, 1].map(|part| u64::from(after.vgpr[usize::from(D) + part].0[7]));
    f64::from_bits(low | high << 32)
}

fn compiles(arch: Arch, instruction: &Inst) -> bool {
    compile(&compiler(arch, Level::Base), instruction).is_ok()
}

/// A wave whose first registers hold f32 values.
fn singles(mode: u32, values: &[f32]) -> Wave {
    let mut wave = wave(mode);
    for (register, value) in wave.vgpr.iter_mut().zip(values) {
        *register = Vreg([value.to_bits(); 64]);
    }
    wave
}

/// The same of f64 values in register pairs.
fn doubles(mode: u32, values: &[f64]) -> Wave {
    let mut wave = wave(mode);
    for (pair, value) in wave.vgpr.chunks_mut(2).zip(values) {
        pair[0] = Vreg([value.to_bits() as u32; 64]);
        pair[1] = Vreg([(value.to_bits() >> 32) as u32; 64]);
    }
    wave
}

#[test]
fn fractions_of_halves() {
    // Infinities have no fraction; NaN keep their payload; -2^-24 is just below 1, 1.5 has a half.
    let cases = [
        (0x7c00, 0xfe00),
        (0xfc00, 0xfe00),
        (0x7e01, 0x7e01),
        (0xfd01, 0xff01),
        (0x8001, 0x3bff),
        (0x3e00, 0x3800),
        (0xc000, 0),
    ];
    for mode in [DEFAULT_MODE, DEFAULT_MODE | 1 << 23] {
        for (x, want) in cases {
            let mut before = wave(mode);
            before.vgpr[0] = Vreg([x; 64]);
            let got = result(Arch::Gfx942, &vector("v_fract_f16", Encoding::Vop1, &[v(0)]), &before);
            assert_eq!(got, want, "{x:#x}: {got:#x}");
        }
    }
}

#[test]
fn signs_of_bf16() {
    let convert = |x: u32, abs: u8, neg: u8, word: Option<u8>| {
        let mut before = wave(DEFAULT_MODE);
        before.vgpr[0] = Vreg([x; 64]);
        let enc = if word.is_some() { Encoding::Vop1 } else { Encoding::Vop3 };
        let mut instruction = vector("v_cvt_f32_bf16", enc, &[v(0)]);
        (instruction.mods.abs, instruction.mods.neg) = (abs, neg);
        let sdwa = |sel| Sdwa { dst_sel: 6, dst_unused: 0, src_sel: [sel, 6], sext: [false; 2] };
        instruction.mods.sdwa = word.map(sdwa);
        f32::from_bits(result(Arch::Gfx950, &instruction, &before))
    };
    // 1.5 is 0x3fc0, -1.5 is 0xbfc0; the other half is of no account.
    assert_eq!(convert(0xffff_3fc0, 0, 0, None), 1.5);
    assert_eq!(convert(0xffff_3fc0, 0, 1, None), -1.5);
    assert_eq!(convert(0xffff_bfc0, 1, 0, None), 1.5);
    assert_eq!(convert(0x0000_bfc0, 1, 1, None), -1.5);
    assert_eq!(convert(0xbfc0_0000, 1, 0, Some(5)), 1.5);
    assert_eq!(convert(0xbfc0_0000, 0, 1, Some(5)), 1.5);
    let one = vector("v_cvt_f32_bf16", Encoding::Vop1, &[Operand::Inline(242)]);
    assert_eq!(result(Arch::Gfx950, &one, &wave(DEFAULT_MODE)), 1f32.to_bits());
}

#[test]
fn undocumented_modifiers_are_refused() {
    for (arch, name) in
        [(Arch::Gfx942, "v_dot2c_f32_f16"), (Arch::Gfx950, "v_dot2c_f32_bf16"), (Arch::Gfx942, "v_pk_fmac_f16")]
    {
        let mut instruction = vector(name, Encoding::Vop3, &[v(0), v(1)]);
        assert!(compiles(arch, &instruction), "{name}");
        instruction.mods.neg = 1;
        assert!(!compiles(arch, &instruction), "{name} -x");
        (instruction.mods.neg, instruction.mods.abs) = (0, 2);
        assert!(!compiles(arch, &instruction), "{name} |x|");
    }
    let mut sums = vector("v_mqsad_u32_u8", Encoding::Vop3, &[v(0), v(2), v(4)]);
    assert!(compiles(Arch::Gfx942, &sums));
    sums.mods.clamp = true;
    assert!(!compiles(Arch::Gfx942, &sums));
}

#[test]
fn division_steps_are_clamped_and_scaled() {
    // 2 · 3 + 0.5 and the scaled 3: above 1; times 2 where output modifiers count.
    let fmas32 = vector("v_div_fmas_f32", Encoding::Vop3, &[v(0), v(1), v(2)]);
    let fmas64 = vector("v_div_fmas_f64", Encoding::Vop3, &[v(0), v(2), v(4)]);
    let scale32 = inst("v_div_scale_f32", Encoding::Vop3b, [v(D), s(12)], &[v(1), v(1), v(0)]);
    let scale64 = inst("v_div_scale_f64", Encoding::Vop3b, [v(D), s(12)], &[v(2), v(2), v(0)]);
    for (mode, clamp, omod, fmas, scale) in [
        (DEFAULT_MODE, false, 0, 6.5, 3.0),
        (DEFAULT_MODE, false, 1, 6.5, 3.0),
        (DEFAULT_MODE, true, 0, 1.0, 1.0),
        (SCALING_MODE, false, 1, 13.0, 6.0),
        (SCALING_MODE, false, 3, 3.25, 1.5),
        (SCALING_MODE, true, 1, 1.0, 1.0),
    ] {
        let modified = |mut instruction: Inst| {
            (instruction.mods.clamp, instruction.mods.omod) = (clamp, omod);
            instruction
        };
        let narrow = singles(mode, &[2.0, 3.0, 0.5]);
        let wide = doubles(mode, &[2.0, 3.0, 0.5]);
        let single = |instruction| f64::from(f32::from_bits(result(Arch::Gfx942, &modified(instruction), &narrow)));
        let double = |instruction| result64(Arch::Gfx942, &modified(instruction), &wide);
        assert_eq!([single(fmas32), double(fmas64)], [fmas; 2], "{mode:#x} {clamp} {omod}");
        assert_eq!([single(scale32), double(scale64)], [scale; 2], "{mode:#x} {clamp} {omod}");
    }
    // The first 53 bits of 2/π, times 4; clamped to 1.
    let mut segment = vector("v_trig_preop_f64", Encoding::Vop3, &[v(0), Operand::Inline(128)]);
    segment.mods.omod = 2;
    let before = doubles(SCALING_MODE, &[1.0]);
    let got = result64(Arch::Gfx942, &segment, &before);
    assert!((got - 8.0 / std::f64::consts::PI).abs() < 1e-12, "{got}");
    segment.mods.clamp = true;
    assert_eq!(result64(Arch::Gfx942, &segment, &before), 1.0);
}

#[test]
fn halves_that_overflow_or_underflow() {
    let overflow = DEFAULT_MODE | 1 << 23;
    let flushed = DEFAULT_MODE & !0x80;
    // MODE, x, and x and -x as halves; 2^-20 is 16 units of 2^-24.
    let cases = [
        (DEFAULT_MODE, 1e6, 0xfc00_7c00),
        (overflow, 1e6, 0xfbff_7bff),
        (overflow, f32::INFINITY, 0xfc00_7c00),
        (DEFAULT_MODE, 2f32.powi(-20), 0x8010_0010),
        (flushed, 2f32.powi(-20), 0x8000_0000),
        (flushed, 1.5, 0xbe00_3e00_u32),
    ];
    for (mode, x, want) in cases {
        let mut before = singles(mode, &[x, -x, 0.0]);
        let pack = vector("v_cvt_pk_f16_f32", Encoding::Vop3, &[v(0), v(1)]);
        assert_eq!(result(Arch::Gfx950, &pack, &before), want, "{mode:#x} {x:e}");
        // Without random bits the stochastic form truncates.
        before.vgpr[usize::from(D)] = Vreg([0xdead_beef; 64]);
        for (register, half) in [(0, want & 0xffff), (1, want >> 16)] {
            let stochastic = vector("v_cvt_sr_f16_f32", Encoding::Vop3, &[v(register), v(2)]);
            assert_eq!(result(Arch::Gfx950, &stochastic, &before), 0xdead_0000 | half, "{mode:#x} {x:e}, stochastic");
        }
    }
    // 1 + 3 · 2^-12 rounds to 1 + 2^-10, and toward zero to 1.
    let pack = vector("v_cvt_pk_f16_f32", Encoding::Vop3, &[v(0), v(0)]);
    for (mode, want) in [(DEFAULT_MODE, 0x3c01_3c01), (DEFAULT_MODE | 3 << 2, 0x3c00_3c00)] {
        assert_eq!(result(Arch::Gfx950, &pack, &singles(mode, &[1.0 + 3.0 / 4096.0])), want);
    }
}

/// In gpr-index mode an instruction one of whose destinations is beyond the registers writes nothing.
#[test]
fn nothing_is_written_beyond_the_registers() {
    let carry = |name, src: &[Operand]| inst(name, Encoding::Vop3b, [v(D), s(12)], src);
    // Registers of the destination.
    let instructions = [
        (1, carry("v_add_co_u32", &[v(0), v(1)])),
        (1, carry("v_div_scale_f32", &[v(0), v(0), v(1)])),
        (2, carry("v_div_scale_f64", &[v(0), v(0), v(2)])),
        (2, carry("v_mad_u64_u32", &[v(0), v(1), v(2)])),
        (2, vector("v_add_f64", Encoding::Vop3, &[v(0), v(2)])),
        (2, vector("v_pk_add_f32", Encoding::Vop3p, &[v(0), v(2)])),
        (2, vector("v_pk_mov_b32", Encoding::Vop3p, &[v(0), v(2)])),
        (2, vector("v_cvt_pk_f32_fp8", Encoding::Vop1, &[v(0)])),
        (2, vector("v_cvt_scalef32_pk_f32_fp4", Encoding::Vop3, &[v(0), v(1)])),
        (4, vector("v_mqsad_u32_u8", Encoding::Vop3, &[v(0), v(2), v(4)])),
    ];
    let mut random = Random(0x1d);
    let mut before = wave(DEFAULT_MODE | 1 << 27);
    for register in &mut before.vgpr {
        *register = Vreg(std::array::from_fn(|_| random.next() as u32 & 0xbfff_ffff));
    }
    (before.sgpr[12], before.sgpr[13]) = (0x1234_5678, 0x9abc_def0);
    for (registers, instruction) in instructions {
        let last = u32::from(VGPRS) - u32::from(D) - registers;
        before.sgpr[124] = last | 8 << 12;
        let inside = run(Arch::Gfx950, &instruction, &before);
        assert!(inside.vgpr != before.vgpr, "{:?}", instruction.op);
        before.sgpr[124] = (last + 1) | 8 << 12;
        let beyond = run(Arch::Gfx950, &instruction, &before);
        assert!(beyond.vgpr == before.vgpr, "{:?}", instruction.op);
        assert_eq!(beyond.sgpr, before.sgpr, "{:?}", instruction.op);
    }
}

/// A literal is the high half of an f64.
#[test]
fn literals_of_doubles() {
    let three = vector("v_cvt_f32_f64", Encoding::Vop1, &[Operand::Literal(0x4008_0000)]);
    assert_eq!(result(Arch::Gfx942, &three, &wave(DEFAULT_MODE)), 3f32.to_bits());
}
