//! Each shape against a plain matrix product through the documented layout, and the numbers that groups lose.

use super::*;
use crate::exec::Mode;
use crate::exec::{Level, Limits};
use crate::isa::{Mods, Op};
use crate::mem::Memory;
use crate::traffic::Traffic;

/// Where value `(row, k)` of A, `(k, column)` of B and `(row, column)` of D sit, straight from the ISA document's formulas.
mod documented {
    pub(super) fn operand(
        side: usize,
        depth: usize,
        blocks: usize,
        block: usize,
        i: usize,
        k: usize,
    ) -> (usize, usize) {
        let k_l = depth / (64 / (side * blocks));
        (k % k_l, i + side * (block + blocks * (k / k_l)))
    }

    pub(super) fn result(m: usize, n: usize, h: usize, block: usize, i: usize, j: usize) -> (usize, usize) {
        let b_i = (64_f64 / (n * m / h) as f64).ceil().max(1.0) as usize;
        let m_i = 64 / b_i / n;
        let g = m / (h * m_i);
        let item = i % h + h * (i / (h * m_i) + g * (block / b_i));
        (item, j + n * ((i / h) % m_i + m_i * (block % b_i)))
    }
}

fn inst(op: Op) -> Inst {
    Inst {
        op,
        enc: Encoding::Mai,
        size: 8,
        dst: [Operand::Vgpr(96), Operand::None],
        src: [Operand::Vgpr(0), Operand::Vgpr(32), Operand::Vgpr(64), Operand::None],
        scale: [Operand::None; 2],
        dual: None,
        mods: Mods::default(),
    }
}

/// Runs an instruction over registers.
fn execute(arch: Arch, level: Level, inst: &Inst, wave: &mut Wave) {
    let compiler = Compiler { arch, level, limits: Limits { vgprs: 256, agprs: 256 } };
    let step = compile(&compiler, inst).unwrap().unwrap();
    let memory = Memory::new(0);
    let mut traffic = Traffic::default();
    let mut env = Env::new(arch, &memory, &mut [], &mut traffic);
    // SAFETY: the level is one of this host's, and all registers exist.
    assert_eq!(unsafe { (step.run)(&step, wave, &mut env) }, Flow::Next);
}

fn wave() -> Wave {
    Wave { vgpr: vec![Vreg([0; 64]); 256], agpr: vec![Vreg([0; 64]); 256], ..Wave::default() }
}

fn put(wave: &mut Wave, first: usize, bits: usize, item: usize, lane: usize, code: u64) {
    if bits == 64 {
        wave.vgpr[first + 2 * item].0[lane] = code as u32;
        wave.vgpr[first + 2 * item + 1].0[lane] = (code >> 32) as u32;
    } else {
        wave.vgpr[first + item * bits / 32].0[lane] |= (code as u32) << (item * bits % 32);
    }
}

/// The code of a small integer in an element type.
fn encode(element: Element, ocp: bool, value: i32) -> u64 {
    match element {
        Element::F64 => f64::from(value).to_bits(),
        Element::F32 | Element::Xf32 => u64::from((value as f32).to_bits()),
        Element::I8 => u64::from(value as i8 as u8),
        _ => {
            // Small integers are normal numbers of every type here: the exponent is that of the highest bit.
            let layout = element.float(ocp);
            let magnitude = value.unsigned_abs();
            if magnitude == 0 {
                return 0;
            }
            let exponent = magnitude.ilog2();
            let fraction = (magnitude << layout.mantissa >> exponent) & ((1 << layout.mantissa) - 1);
            let field = (exponent as i32 + layout.bias) as u32;
            let code =
                u32::from(value < 0) << (layout.exponent + layout.mantissa) | field << layout.mantissa | fraction;
            assert_eq!(layout.value(code), value as f32);
            code.into()
        }
    }
}

/// Every dense shape of every arch with small integers: the result is exact whatever the order, so the layout alone decides.
#[test]
fn every_dense_shape_multiplies_through_the_documented_layout() {
    let archs = [
        (Arch::Gfx90a, ["f32", "f64", "f16", "bf16", "i8"].as_slice()),
        (Arch::Gfx942, ["f32", "f64", "f16", "bf16", "i8", "xf32", "fp8", "bf8"].as_slice()),
        (Arch::Gfx950, ["f32", "f64", "f16", "bf16", "i8", "fp8", "bf8"].as_slice()),
    ];
    let mut tried = 0;
    for (arch, types) in archs {
        let ocp = arch == Arch::Gfx950;
        for op in Op::all() {
            let Some(shape) = Shape::of(op).filter(|shape| !shape.sparse && !shape.mixed) else { continue };
            let name = op.name().rsplit('_').next().unwrap();
            if !types.contains(&name) {
                continue;
            }
            tried += 1;
            for &level in Level::available() {
                dense(arch, level, op, &shape, ocp);
            }
        }
    }
    assert!(tried > 60, "{tried}");
}

fn dense(arch: Arch, level: Level, op: Op, shape: &Shape, ocp: bool) {
    let Shape { m, n, k, blocks, .. } = *shape;
    let wide = shape.accumulator == Accumulator::F64;
    let h = if wide { 1 } else { 4 };
    let value = |x: usize, y: usize, seed: usize| ((x * 7 + y * 13 + seed * 5) % 9) as i32 - 4;
    let mut wave = wave();
    // With no lane active all the same: matrix instructions ignore EXEC.
    wave.set_exec(0);
    for block in 0..blocks {
        for kk in 0..k {
            for i in 0..m {
                let (item, lane) = documented::operand(m, k, blocks, block, i, kk);
                put(&mut wave, 0, shape.a.bits(), item, lane, encode(shape.a, ocp, value(i, kk, block)));
            }
            for j in 0..n {
                let (item, lane) = documented::operand(n, k, blocks, block, j, kk);
                put(&mut wave, 32, shape.b.bits(), item, lane, encode(shape.b, ocp, value(j, kk, block + 3)));
            }
        }
        for i in 0..m {
            for j in 0..n {
                let (item, lane) = documented::result(m, n, h, block, i, j);
                let c = value(i, j, block + 5);
                let code = match shape.accumulator {
                    Accumulator::F64 => f64::from(c).to_bits(),
                    Accumulator::F32 => u64::from((c as f32).to_bits()),
                    Accumulator::I32 => u64::from(c as u32),
                };
                put(&mut wave, 64, if wide { 64 } else { 32 }, item, lane, code);
            }
        }
    }
    execute(arch, level, &inst(op), &mut wave);
    for block in 0..blocks {
        for i in 0..m {
            for j in 0..n {
                let dot: i32 = (0..k).map(|kk| value(i, kk, block) * value(j, kk, block + 3)).sum();
                let want = dot + value(i, j, block + 5);
                let (item, lane) = documented::result(m, n, h, block, i, j);
                let low = wave.vgpr[96 + if wide { 2 * item } else { item }].0[lane];
                let got = match shape.accumulator {
                    Accumulator::F64 => {
                        let high = wave.vgpr[96 + 2 * item + 1].0[lane];
                        f64::from_bits(u64::from(low) | u64::from(high) << 32)
                    }
                    Accumulator::F32 => f64::from(f32::from_bits(low)),
                    Accumulator::I32 => f64::from(low as i32),
                };
                assert_eq!(got, f64::from(want), "{} {arch:?} {level:?} block {block} ({i}, {j})", op.name());
            }
        }
    }
}

/// The group sum by its description, in exact 128-bit integers: an independent form for one element of f16 or bf16.
fn described(products: &[(i128, i32)], c: f32) -> f32 {
    // Products are (significand, exponent of its last bit + fraction bits), as (s, e, f) with value s * 2^(e - f).
    let top = products.iter().filter(|(s, _)| *s != 0).map(|(_, e)| *e).max();
    let Some(top) = top else { return c };
    let mut sum: i128 = 0;
    for (s, e) in products.iter().filter(|(s, _)| *s != 0) {
        // `s` has 40 fraction bits: cut to 24 below `top`.
        let shift = (top - e) + 16;
        let magnitude = if shift > 120 { 0 } else { s.abs() >> shift };
        sum += if *s < 0 { -magnitude } else { magnitude };
    }
    let bits = c.to_bits();
    let c_exponent = if c == 0.0 { -9999 } else { ((bits >> 23 & 0xff) as i32).max(1) - 127 };
    let c_significand = i128::from(bits & 0x7f_ffff) | if bits >> 23 & 0xff != 0 { 1 << 23 } else { 0 };
    let high = top.max(c_exponent);
    // In units of 2^(high - 31).
    let down = (high - top) - 7;
    let total = if down <= 0 { sum << -down } else { sum >> down.min(120) };
    let signed = if c < 0.0 { -c_significand } else { c_significand };
    let addend = if c == 0.0 { 0 } else { ((signed << 1) >> (high - c_exponent).min(120)) << 7 };
    ((total + addend) as f64 * 2_f64.powi(high - 31)) as f32
}

#[test]
fn groups_of_cdna3_lose_what_they_should() {
    let mut state = 12345_u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    for (op, layout_of) in [
        (Op::from_name("v_mfma_f32_16x16x16_bf16").unwrap(), Element::Bf16),
        (Op::from_name("v_mfma_f32_16x16x16_f16").unwrap(), Element::F16),
    ] {
        let layout = layout_of.float(false);
        for round in 0..40 {
            let mut code = || {
                // Finite codes of a span of exponents that makes alignment matter.
                let span = [1, 6, 20][round % 3];
                let exponent = (layout.bias as u32 - span.min(layout.bias as u32 - 1) + random() % (2 * span))
                    .min((1 << layout.exponent) - 2);
                let exponent = if random() % 50 == 0 { 0 } else { exponent };
                (random() & 1) << (layout.exponent + layout.mantissa)
                    | exponent << layout.mantissa
                    | random() & ((1 << layout.mantissa) - 1)
            };
            let a: Vec<[u32; 16]> = (0..16).map(|_| std::array::from_fn(|_| code())).collect();
            let b: Vec<[u32; 16]> = (0..16).map(|_| std::array::from_fn(|_| code())).collect();
            let c: Vec<[f32; 16]> = (0..16).map(|_| std::array::from_fn(|_| layout.value(code()) * 3.0)).collect();
            let parts = |code: u32| {
                let field = code >> layout.mantissa & ((1 << layout.exponent) - 1);
                let fraction =
                    i128::from(code & ((1 << layout.mantissa) - 1)) | if field != 0 { 1 << layout.mantissa } else { 0 };
                let sign = code >> (layout.exponent + layout.mantissa) & 1;
                (if sign == 1 { -fraction } else { fraction }, field.max(1) as i32 - layout.bias)
            };
            for &level in Level::available() {
                let mut wave = wave();
                for k in 0..16 {
                    for i in 0..16 {
                        let (item, lane) = documented::operand(16, 16, 1, 0, i, k);
                        put(&mut wave, 0, 16, item, lane, a[k][i].into());
                        put(&mut wave, 32, 16, item, lane, b[k][i].into());
                    }
                }
                for i in 0..16 {
                    for j in 0..16 {
                        let (item, lane) = documented::result(16, 16, 4, 0, i, j);
                        wave.vgpr[64 + item].0[lane] = c[i][j].to_bits();
                    }
                }
                execute(Arch::Gfx942, level, &inst(op), &mut wave);
                for i in 0..16 {
                    for j in 0..16 {
                        let mut want = c[i][j];
                        for group in 0..2 {
                            let products: Vec<(i128, i32)> = (group * 8..group * 8 + 8)
                                .map(|k| {
                                    let ((sa, ea), (sb, eb)) = (parts(a[k][i]), parts(b[k][j]));
                                    ((sa * sb) << (40 - 2 * layout.mantissa), ea + eb)
                                })
                                .collect();
                            want = described(&products, want);
                        }
                        let (item, lane) = documented::result(16, 16, 4, 0, i, j);
                        let got = f32::from_bits(wave.vgpr[96 + item].0[lane]);
                        assert_eq!(got, want, "{} round {round} {level:?} ({i}, {j})", op.name());
                    }
                }
            }
        }
    }
}

#[test]
fn infinities_and_nan_come_through() {
    let op = Op::from_name("v_mfma_f32_16x16x16_f16").unwrap();
    for &level in Level::available() {
        let mut wave = wave();
        let (item, lane) = documented::operand(16, 16, 1, 0, 2, 5);
        put(&mut wave, 0, 16, item, lane, 0x7c00);
        for j in 0..16 {
            let (item, lane) = documented::operand(16, 16, 1, 0, j, 5);
            put(
                &mut wave,
                32,
                16,
                item,
                lane,
                if j == 0 {
                    0
                } else if j < 8 {
                    0x3c00
                } else {
                    0xbc00
                },
            );
        }
        execute(Arch::Gfx942, level, &inst(op), &mut wave);
        let at = |j: usize| {
            let (item, lane) = documented::result(16, 16, 4, 0, 2, j);
            f32::from_bits(wave.vgpr[96 + item].0[lane])
        };
        assert!(at(0).is_nan());
        assert_eq!((at(1), at(9)), (f32::INFINITY, f32::NEG_INFINITY));
        let (item, lane) = documented::result(16, 16, 4, 0, 3, 1);
        assert_eq!(wave.vgpr[96 + item].0[lane], 0);
    }
}

/// Sparse forms: a random choice of two in four, against the dense product.
#[test]
fn sparse_shapes_pick_the_indexed_values() {
    for op in Op::all() {
        let Some(shape) = Shape::of(op).filter(|shape| shape.sparse) else { continue };
        let arch = if shape.b_registers(shape.b) == 8 { Arch::Gfx950 } else { Arch::Gfx942 };
        let ocp = arch == Arch::Gfx950;
        let Shape { m, n, k, .. } = shape;
        let value = |x: usize, y: usize| ((x * 5 + y * 11) % 7) as i32 - 3;
        let bits = 2 * shape.a_items();
        let sets = if bits < 32 { 32 / bits } else { 1 };
        for set in 0..sets {
            let mut wave = wave();
            let mut instruction = inst(op);
            instruction.mods.abid = set as u8;
            // By the layout's description: a lane group holds a run of k, in two halves where there are 8 registers of B.
            let halves = if shape.b_registers(shape.b) == 8 { 2 } else { 1 };
            let run = shape.b_items() / halves;
            let mut dense = vec![vec![0_i32; k]; m];
            for lane in 0..64 {
                let (row, group) = (lane % m, lane / m);
                for item in 0..shape.a_items() {
                    let pick = [[0, 1], [0, 3], [1, 2], [2, 3], [1, 3], [0, 2]][(lane + item / 2) % 6][item % 2];
                    wave.vgpr[64].0[lane] |= (pick as u32) << (2 * item + set * bits);
                    let local = item / 2 * 4 + pick;
                    let kk = local / run * (k / halves) + group * run + local % run;
                    dense[row][kk] = value(row, kk);
                    put(&mut wave, 0, shape.a.bits(), item, lane, encode(shape.a, ocp, value(row, kk)));
                }
                for item in 0..shape.b_items() {
                    let (column, group) = (lane % n, lane / n);
                    let kk = item / run * (k / halves) + group * run + item % run;
                    put(&mut wave, 32, shape.b.bits(), item, lane, encode(shape.b, ocp, value(kk, column)));
                }
            }
            execute(arch, Level::detect(), &instruction, &mut wave);
            for (i, row) in dense.iter().enumerate() {
                for j in 0..n {
                    let want: i32 = (0..k).map(|kk| row[kk] * value(kk, j)).sum();
                    let (item, lane) = documented::result(m, n, 4, 0, i, j);
                    let word = wave.vgpr[96 + item].0[lane];
                    let got =
                        if shape.accumulator == Accumulator::I32 { word as i32 as f32 } else { f32::from_bits(word) };
                    assert_eq!(got, want as f32, "{} set {set} ({i}, {j})", op.name());
                }
            }
        }
    }
}

/// Every level gives the bits of the plain one: small and large exponents, zeros, denormals, infinities and NaN, in A, B and C.
#[test]
fn levels_agree_on_every_kind_of_number() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 32) as u32
    };
    let mut tried = 0;
    for arch in [Arch::Gfx942, Arch::Gfx950] {
        for op in Op::all().filter(|op| op.is_on(arch)) {
            let Some(shape) = Shape::of(op).filter(|shape| !shape.sparse && !shape.mixed) else { continue };
            let types = [Element::F16, Element::Bf16, Element::Xf32, Element::Fp8, Element::Bf8];
            if shape.n < 16 || !types.contains(&shape.a) {
                continue;
            }
            tried += 1;
            for round in 0..24 {
                // Exponents of f32 patterns: around 1, over ranges of ordinary size, at either end, and all there are.
                let (low, span) = [(124, 6), (105, 40), (100, 60), (1, 60), (200, 54), (0, 256)][round % 6];
                let ordinary = round % 6 == 0 || round % 6 == 1 && matches!(shape.a, Element::Bf16 | Element::Xf32);
                let zeros = [0, 3, 16][round % 3 * usize::from(round >= 6)];
                let mut number = |bits: usize| -> u32 {
                    let mut one = || {
                        let sign = random() << 31;
                        let exponent = low + random() % span;
                        let fraction = random() & 0x7f_ffff;
                        match (random() % 16 < zeros, random() % 64) {
                            (true, _) => sign,
                            (_, 0) if !ordinary => random(),
                            _ => sign | exponent << 23 | fraction,
                        }
                    };
                    match (bits, shape.a) {
                        (32, _) => one(),
                        (16, Element::Bf16) => one() >> 16 | one() & 0xffff_0000,
                        // Codes of the narrow types as they come: half of them near 1.
                        _ => {
                            let codes = random();
                            if round % 2 == 0 { codes & 0xbfbf_bfbf | 0x3030_3030 } else { codes }
                        }
                    }
                };
                let mut before = wave();
                for register in 0..32 {
                    for lane in 0..64 {
                        before.vgpr[register].0[lane] = number(shape.a.bits());
                        before.vgpr[32 + register].0[lane] = number(shape.b.bits());
                        let c = number(32);
                        before.vgpr[64 + register].0[lane] = if ordinary && c << 1 == 0 { 0 } else { c };
                    }
                }
                before.mode = Mode(if round % 7 == 6 { 0xf0 | 1 << 23 } else { 0xf0 });
                let mut instruction = inst(op);
                // In place, and with constants as C.
                instruction.dst[0] = if round % 4 == 1 { Operand::Vgpr(64) } else { Operand::Vgpr(96) };
                instruction.src[2] = match round % 8 {
                    2 => Operand::Inline(128),
                    4 => Operand::Inline(242),
                    _ => Operand::Vgpr(64),
                };
                #[cfg(target_arch = "x86_64")]
                if ordinary && Level::detect() == Level::V4 {
                    let compiler = Compiler { arch, level: Level::V4, limits: Limits { vgprs: 256, agprs: 256 } };
                    let step = compile(&compiler, &instruction).unwrap().unwrap();
                    // SAFETY: the host has the level, and all registers exist.
                    assert!(unsafe { wide::alone(&step, &mut before.clone()) }, "{} round {round}", op.name());
                }
                let mut wanted = before.clone();
                execute(arch, Level::Base, &instruction, &mut wanted);
                for &level in Level::available() {
                    let mut got = before.clone();
                    execute(arch, level, &instruction, &mut got);
                    assert!(got.vgpr == wanted.vgpr, "{} {arch:?} {level:?} round {round}", op.name());
                }
            }
        }
    }
    assert!(tried > 20, "{tried}");
}

/// The scaled forms' results: infinities under FP16_OVFL, and NaN.
#[test]
fn scaled_results_are_clamped_as_others() {
    let mut before = wave();
    for register in 0..64 {
        // 1.0 in E4M3; the scales of A are 2^127 and those of B 1: each sum of 32 products overflows.
        before.vgpr[register] = Vreg([0x3838_3838; 64]);
    }
    (before.vgpr[20], before.vgpr[21]) = (Vreg([254; 64]), Vreg([127; 64]));
    let mut instruction = inst(Op::from_name("v_mfma_scale_f32_16x16x128_f8f6f4").unwrap());
    instruction.enc = Encoding::MaiScale;
    instruction.scale = [Operand::Vgpr(20), Operand::Vgpr(21)];
    instruction.src[2] = Operand::Inline(128);
    let result = |instruction: &Inst, mode: u32| {
        let mut after = before.clone();
        after.mode = Mode(mode);
        execute(Arch::Gfx950, Level::Base, instruction, &mut after);
        after.vgpr[96].0[0]
    };
    assert_eq!(result(&instruction, 0x3f0), 0x7f80_0000);
    assert_eq!(result(&instruction, 0x3f0 | 1 << 23), 0x7f7f_ffff);
    instruction.src[2] = Operand::Literal(0xffc1_2345);
    assert_eq!(result(&instruction, 0x3f0), 0x7fc0_0000);
}
