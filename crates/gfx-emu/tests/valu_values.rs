//! Values of vector operations against independent computations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod valu_common;

use kbench_gfx_emu::exec::{Vreg, Wave};
use kbench_gfx_emu::isa::{Arch, Encoding, Inst, Operand};
use valu_common::*;

/// Runs an operation on lanes of given sources; the results.
fn lanes(arch: Arch, mode: u32, instruction: &Inst, sources: &[&[u32]]) -> Vec<u32> {
    let count = sources.iter().map(|s| s.len()).max().unwrap();
    let mut results = Vec::with_capacity(count);
    for first in (0..count).step_by(64) {
        let mut before = wave(mode);
        for (i, source) in sources.iter().enumerate() {
            before.vgpr[i] = Vreg(std::array::from_fn(|lane| source.get(first + lane).copied().unwrap_or(0)));
        }
        let after = run(arch, instruction, &before);
        results.extend_from_slice(&after.vgpr[usize::from(D)].0[..64.min(count - first)]);
    }
    results
}

fn registers(count: usize) -> Vec<Operand> {
    (0..count).map(|i| v(i as u8)).collect()
}

fn random_lanes(random: &mut Random, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.interesting()).collect()
}

fn unary(name: &str, a: &[u32]) -> Vec<u32> {
    lanes(Arch::Gfx942, DEFAULT_MODE, &vector(name, Encoding::Vop1, &registers(1)), &[a])
}

type Reference = fn(u32, u32, u32) -> u32;

fn bytes(x: u32) -> [i64; 4] {
    x.to_le_bytes().map(i64::from)
}

fn sad(a: u32, b: u32, skip_zero: bool) -> i64 {
    bytes(a).iter().zip(bytes(b)).map(|(a, b)| if skip_zero && b == 0 { 0 } else { (a - b).abs() }).sum()
}

fn s24(x: u32) -> i128 {
    let low = i128::from(x % (1 << 24));
    if low >= 1 << 23 { low - (1 << 24) } else { low }
}

fn permute_reference(a: u32, b: u32, selects: u32) -> u32 {
    let data = (u64::from(a) << 32 | u64::from(b)).to_le_bytes();
    let pick = |select: u8| match select {
        0..=7 => data[usize::from(select)],
        8..=11 => {
            if data[usize::from(2 * (select - 8) + 1)] >= 128 {
                255
            } else {
                0
            }
        }
        12 => 0,
        _ => 255,
    };
    u32::from_le_bytes(selects.to_le_bytes().map(pick))
}

#[test]
fn integers() {
    let cases: &[(&str, usize, Reference)] = &[
        ("v_add_u32", 2, |a, b, _| ((u64::from(a) + u64::from(b)) % (1 << 32)) as u32),
        ("v_sub_u32", 2, |a, b, _| (i64::from(a) - i64::from(b)).rem_euclid(1 << 32) as u32),
        ("v_subrev_u32", 2, |a, b, _| (i64::from(b) - i64::from(a)).rem_euclid(1 << 32) as u32),
        ("v_mul_i32_i24", 2, |a, b, _| (s24(a) * s24(b)).rem_euclid(1 << 32) as u32),
        ("v_mul_hi_i32_i24", 2, |a, b, _| (s24(a) * s24(b)).div_euclid(1 << 32).rem_euclid(1 << 32) as u32),
        ("v_mul_hi_u32_u24", 2, |a, b, _| ((u64::from(a % (1 << 24)) * u64::from(b % (1 << 24))) >> 32) as u32),
        ("v_mul_lo_u32", 2, |a, b, _| (u128::from(a) * u128::from(b) % (1 << 32)) as u32),
        ("v_mul_hi_u32", 2, |a, b, _| (u128::from(a) * u128::from(b) / (1 << 32)) as u32),
        ("v_mul_hi_i32", 2, |a, b, _| {
            (i128::from(a as i32) * i128::from(b as i32)).div_euclid(1 << 32).rem_euclid(1 << 32) as u32
        }),
        ("v_ashrrev_i32", 2, |a, b, _| i64::from(b as i32).div_euclid(1 << (a % 32)) as u32),
        ("v_lshlrev_b32", 2, |a, b, _| (u64::from(b) * (1 << (a % 32)) % (1 << 32)) as u32),
        ("v_bfm_b32", 2, |a, b, _| ((((1u64 << (a % 32)) - 1) << (b % 32)) % (1 << 32)) as u32),
        ("v_bcnt_u32_b32", 2, |a, b, _| (0..32).fold(b, |n, i| n.wrapping_add(a >> i & 1))),
        ("v_cvt_pk_i16_i32", 2, |a, b, _| {
            let one = |x: u32| i64::from(x as i32).clamp(-32768, 32767) as i16 as u16;
            u32::from(one(a)) | u32::from(one(b)) << 16
        }),
        ("v_mad_u32_u24", 3, |a, b, c| {
            ((u128::from(a % (1 << 24)) * u128::from(b % (1 << 24)) + u128::from(c)) % (1 << 32)) as u32
        }),
        ("v_mad_i32_i24", 3, |a, b, c| (s24(a) * s24(b) + i128::from(c)).rem_euclid(1 << 32) as u32),
        ("v_bfe_u32", 3, |a, b, c| ((u64::from(a) >> (b % 32)) % (1u64 << (c % 32))) as u32),
        ("v_bfe_i32", 3, |a, b, c| {
            let width = c % 32;
            let field = i64::from(a as i32).div_euclid(1 << (b % 32)).rem_euclid(1 << width);
            if width > 0 && field >= 1 << (width - 1) { (field - (1 << width)) as u32 } else { field as u32 }
        }),
        ("v_bfi_b32", 3, |a, b, c| (0..32).fold(0, |r, i| r | (if a >> i & 1 == 1 { b } else { c } & 1 << i))),
        ("v_alignbit_b32", 3, |a, b, c| ((u128::from(a) << 32 | u128::from(b)) >> (c % 32)) as u32),
        ("v_alignbyte_b32", 3, |a, b, c| ((u128::from(a) << 32 | u128::from(b)) >> (c % 4 * 8)) as u32),
        ("v_perm_b32", 3, permute_reference),
        ("v_lerp_u8", 3, |a, b, c| {
            let [a, b, c] = [a, b, c].map(u32::to_le_bytes);
            u32::from_le_bytes(std::array::from_fn(|i| {
                ((u32::from(a[i]) + u32::from(b[i]) + u32::from(c[i] & 1)) / 2) as u8
            }))
        }),
        ("v_sad_u8", 3, |a, b, c| c.wrapping_add(sad(a, b, false) as u32)),
        ("v_msad_u8", 3, |a, b, c| c.wrapping_add(sad(a, b, true) as u32)),
        ("v_sad_hi_u8", 3, |a, b, c| c.wrapping_add((sad(a, b, false) as u32) << 16)),
        ("v_med3_i32", 3, |a, b, c| {
            let mut all = [a as i32, b as i32, c as i32];
            all.sort_unstable();
            all[1] as u32
        }),
        ("v_lshl_add_u32", 3, |a, b, c| ((u128::from(a) << (b % 32)) + u128::from(c)) as u32),
        ("v_add_lshl_u32", 3, |a, b, c| ((u128::from(a) + u128::from(b)) << (c % 32)) as u32),
        ("v_xad_u32", 3, |a, b, c| ((u64::from(a) ^ u64::from(b)) + u64::from(c)) as u32),
        ("v_mad_i32_i16", 3, |a, b, c| {
            (i64::from(a as i16) * i64::from(b as i16) + i64::from(c)).rem_euclid(1 << 32) as u32
        }),
        ("v_add_u16", 2, |a, b, _| (a % 65536 + b % 65536) % 65536),
        ("v_mul_lo_u16", 2, |a, b, _| ((u64::from(a % 65536) * u64::from(b % 65536)) % 65536) as u32),
        ("v_ashrrev_i16", 2, |a, b, _| u32::from(i32::from(b as i16).div_euclid(1 << (a % 16)) as u16)),
    ];
    let mut random = Random(7);
    for (name, count, reference) in cases {
        let sources: Vec<Vec<u32>> = (0..*count).map(|_| random_lanes(&mut random, 1024)).collect();
        let slices: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
        let got = lanes(Arch::Gfx942, DEFAULT_MODE, &vector(name, Encoding::Vop3, &registers(*count)), &slices);
        for lane in 0..1024 {
            let [a, b, c] = [0, 1, 2].map(|i| sources.get(i).map_or(0, |s| s[lane]));
            let wanted = reference(a, b, c);
            assert_eq!(got[lane], wanted, "{name}({a:#x}, {b:#x}, {c:#x}) = {:#x}, not {wanted:#x}", got[lane]);
        }
    }
}

#[test]
fn integer_clamps() {
    let mut random = Random(11);
    let (a, b) = (random_lanes(&mut random, 256), random_lanes(&mut random, 256));
    type Exact = fn(u32, u32) -> i128;
    let cases: &[(&str, Exact, i128, i128)] = &[
        ("v_add_u32", |a, b| i128::from(a) + i128::from(b), 0, 0xffff_ffff),
        ("v_sub_u32", |a, b| i128::from(a) - i128::from(b), 0, 0xffff_ffff),
        ("v_add_i32", |a, b| i128::from(a as i32) + i128::from(b as i32), -(1 << 31), (1 << 31) - 1),
        ("v_sub_i32", |a, b| i128::from(a as i32) - i128::from(b as i32), -(1 << 31), (1 << 31) - 1),
    ];
    for (name, exact, low, high) in cases {
        let mut instruction = vector(name, Encoding::Vop3, &registers(2));
        instruction.mods.clamp = true;
        let got = lanes(Arch::Gfx942, DEFAULT_MODE, &instruction, &[&a, &b]);
        for lane in 0..256 {
            assert_eq!(got[lane], exact(a[lane], b[lane]).clamp(*low, *high) as u32, "{name}");
        }
    }
}

#[test]
fn halves_convert_exactly() {
    let all: Vec<u32> = (0..0x10000).collect();
    let wide = unary("v_cvt_f32_f16", &all);
    for (&h, &got) in all.iter().zip(&wide) {
        let value = half::f16::from_bits(h as u16);
        if value.is_nan() {
            assert_eq!(got, (h & 0x8000) << 16 | 0x7fc0_0000 | (h & 0x3ff) << 13);
        } else {
            assert_eq!(got, value.to_f32().to_bits(), "{h:#x}");
        }
    }
    // Every half, its neighbours between halves, and the ties.
    let singles: Vec<u32> = wide
        .iter()
        .filter(|x| **x & 0x7f80_0000 != 0x7f80_0000)
        .flat_map(|&x| [x, x + 1, x + 0xfff, x + 0x1000, x + 0x1001])
        .collect();
    let narrow = unary("v_cvt_f16_f32", &singles);
    let toward_zero = lanes(
        Arch::Gfx942,
        DEFAULT_MODE,
        &vector("v_cvt_pkrtz_f16_f32", Encoding::Vop3, &registers(2)),
        &[&singles, &singles],
    );
    for ((&x, &got), &cut) in singles.iter().zip(&narrow).zip(&toward_zero) {
        let value = f32::from_bits(x);
        assert_eq!(got, u32::from(half::f16::from_f32(value).to_bits()), "{value:e}");
        // Toward zero: the nearest half, or the one before it in magnitude.
        let mut expected = half::f16::from_f32(value);
        if expected.to_f32().abs() > value.abs() {
            expected = half::f16::from_bits(expected.to_bits() - 1);
        }
        assert_eq!(cut, u32::from(expected.to_bits()) * 0x10001, "{value:e}");
    }
}

fn half_operands(random: &mut Random, count: usize) -> Vec<u32> {
    (0..count).map(|_| random.next() as u32 & 0xffff).collect()
}

/// The half nearest to a number, ties to even, from the definition (the `half` crate's own conversion drops low bits).
fn nearest_half(x: f64) -> half::f16 {
    if x == 0.0 || x.abs() >= 65520.0 {
        return half::f16::from_f64(if x == 0.0 { x } else { f64::INFINITY.copysign(x) });
    }
    let exponent = (((x.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(-14);
    let unit = 2f64.powi(exponent - 10);
    half::f16::from_f64((x / unit).round_ties_even() * unit)
}

#[test]
fn half_arithmetic_rounds_once() {
    let mut random = Random(3);
    let [a, b, c] = [(); 3].map(|()| half_operands(&mut random, 65536));
    let f64_of = |h: u32| half::f16::from_bits(h as u16).to_f64();
    type Op = fn(f64, f64, f64) -> f64;
    let cases: &[(&str, usize, Op)] = &[
        ("v_add_f16", 2, |a, b, _| a + b),
        ("v_sub_f16", 2, |a, b, _| a - b),
        ("v_mul_f16", 2, |a, b, _| a * b),
        ("v_fma_f16", 3, |a, b, c| a * b + c),
    ];
    for (name, count, reference) in cases {
        let sources = [&a[..], &b[..], &c[..]];
        let got =
            lanes(Arch::Gfx942, DEFAULT_MODE, &vector(name, Encoding::Vop3, &registers(*count)), &sources[..*count]);
        for lane in 0..a.len() {
            let exact = reference(f64_of(a[lane]), f64_of(b[lane]), f64_of(c[lane]));
            if exact.is_nan() {
                assert!(half::f16::from_bits(got[lane] as u16).is_nan());
            } else {
                let wanted = u32::from(nearest_half(exact).to_bits());
                assert_eq!(got[lane] & 0xffff, wanted, "{name} {:#x} {:#x} {:#x}", a[lane], b[lane], c[lane]);
            }
        }
    }
}

/// One operation of the host under an MXCSR, as the reference of rounding modes and denormal flushing.
#[cfg(target_arch = "x86_64")]
mod host {
    use std::arch::asm;

    macro_rules! operation {
        ($name:ident, $ty:ty, $instruction:literal) => {
            pub(super) fn $name(control: u32, a: $ty, b: $ty) -> $ty {
                let mut saved = 0u32;
                let mut r = a;
                // SAFETY: MXCSR is put back before the block ends.
                unsafe {
                    asm!("stmxcsr [{s}]", "ldmxcsr [{c}]", concat!($instruction, " {r}, {b}"), "ldmxcsr [{s}]",
                        s = in(reg) &mut saved, c = in(reg) &control, r = inout(xmm_reg) r, b = in(xmm_reg) b);
                }
                r
            }
        };
    }
    operation!(add32, f32, "addss");
    operation!(mul32, f32, "mulss");
    operation!(add64, f64, "addsd");
    operation!(mul64, f64, "mulsd");

    pub(super) fn fma32(control: u32, a: f32, b: f32, c: f32) -> f32 {
        let mut saved = 0u32;
        let mut r = c;
        // SAFETY: MXCSR is put back before the block ends; the caller checked for FMA.
        unsafe {
            asm!("stmxcsr [{s}]", "ldmxcsr [{m}]", "vfmadd231ss {r}, {a}, {b}", "ldmxcsr [{s}]",
                s = in(reg) &mut saved, m = in(reg) &control, r = inout(xmm_reg) r, a = in(xmm_reg) a, b = in(xmm_reg) b);
        }
        r
    }

    pub(super) fn fma64(control: u32, a: f64, b: f64, c: f64) -> f64 {
        let mut saved = 0u32;
        let mut r = c;
        // SAFETY: as in `fma32`.
        unsafe {
            asm!("stmxcsr [{s}]", "ldmxcsr [{m}]", "vfmadd231sd {r}, {a}, {b}", "ldmxcsr [{s}]",
                s = in(reg) &mut saved, m = in(reg) &control, r = inout(xmm_reg) r, a = in(xmm_reg) a, b = in(xmm_reg) b);
        }
        r
    }
}

/// MXCSR of a GPU rounding mode (0 nearest, 1 up, 2 down, 3 zero), exceptions masked.
#[cfg(target_arch = "x86_64")]
fn mxcsr(round: u32, flush: bool) -> u32 {
    let direction = [0, 2, 1, 3][round as usize];
    0x1f80 | direction << 13 | if flush { 0x8040 } else { 0 }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn rounding_modes_match_the_host() {
    if !is_x86_feature_detected!("fma") {
        println!("skipped: the host has no FMA");
        return;
    }
    let mut random = Random(21);
    let [a, b, c] = [(); 3].map(|()| random_lanes(&mut random, 4096));
    for round in 0..4 {
        for flush in [false, true] {
            let mode = 0x300 | round | round << 2 | if flush { 0 } else { 0xf0 };
            let control = mxcsr(round, flush);
            let check = |name: &str, sources: &[&[u32]], reference: &dyn Fn(f32, f32, f32) -> f32| {
                let got = lanes(Arch::Gfx942, mode, &vector(name, Encoding::Vop3, &registers(sources.len())), sources);
                for lane in 0..a.len() {
                    let [x, y, z] = [a[lane], b[lane], c[lane]].map(f32::from_bits);
                    let wanted = reference(x, y, z);
                    if wanted.is_nan() {
                        assert!(f32::from_bits(got[lane]).is_nan(), "{name} {x:e} {y:e} {z:e}");
                    } else {
                        let place = format!("{name} {x:e} {y:e} {z:e}, round {round}, flush {flush}");
                        assert_eq!(got[lane], wanted.to_bits(), "{place}");
                    }
                }
            };
            check("v_add_f32", &[&a, &b], &|x, y, _| host::add32(control, x, y));
            check("v_sub_f32", &[&a, &b], &|x, y, _| host::add32(control, x, -y));
            check("v_mul_f32", &[&a, &b], &|x, y, _| host::mul32(control, x, y));
            check("v_fma_f32", &[&a, &b, &c], &|x, y, z| host::fma32(control, x, y, z));
        }
    }
}

/// Runs an operation on register pairs 0, 2, 4; the results of the pair 40.
fn wide(mode: u32, instruction: &Inst, sources: &[&[u64]]) -> Vec<u64> {
    let mut results = Vec::new();
    for first in (0..sources[0].len()).step_by(64) {
        let mut before = wave(mode);
        for (i, source) in sources.iter().enumerate() {
            before.vgpr[2 * i] = Vreg(std::array::from_fn(|lane| source[first + lane] as u32));
            before.vgpr[2 * i + 1] = Vreg(std::array::from_fn(|lane| (source[first + lane] >> 32) as u32));
        }
        let after = run(Arch::Gfx942, instruction, &before);
        let (low, high) = (&after.vgpr[usize::from(D)], &after.vgpr[usize::from(D) + 1]);
        results.extend((0..64).map(|lane| u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32));
    }
    results
}

fn doubles(random: &mut Random, count: usize) -> Vec<u64> {
    (0..count)
        .map(|_| match random.next() % 4 {
            0 => f64::from(f32::from_bits(random.interesting())).to_bits(),
            // Of like size, so that sums cancel.
            1 => random.next() & 0x800f_ffff_ffff_ffff | (0x3fe + random.next() % 4) << 52,
            2 => random.next() & 0x800f_ffff_ffff_ffff | (random.next() % 3) << 52,
            _ => random.next(),
        })
        .collect()
}

#[cfg(target_arch = "x86_64")]
#[test]
fn doubles_match_the_host() {
    if !is_x86_feature_detected!("fma") {
        println!("skipped: the host has no FMA");
        return;
    }
    let mut random = Random(5);
    let [a, b, c] = [(); 3].map(|()| doubles(&mut random, 4096));
    for round in 0..4 {
        let mode = 0x3f0 | round | round << 2;
        let control = mxcsr(round, false);
        let pairs = [v(0), v(2), v(4)];
        let check = |name: &str, sources: &[&[u64]], reference: &dyn Fn(f64, f64, f64) -> f64| {
            let got = wide(mode, &vector(name, Encoding::Vop3, &pairs[..sources.len()]), sources);
            for lane in 0..a.len() {
                let [x, y, z] = [a[lane], b[lane], c[lane]].map(f64::from_bits);
                let wanted = reference(x, y, z);
                if wanted.is_nan() {
                    assert!(f64::from_bits(got[lane]).is_nan(), "{name}");
                } else {
                    assert_eq!(got[lane], wanted.to_bits(), "{name} {x:e} {y:e} {z:e}, round {round}");
                }
            }
        };
        check("v_add_f64", &[&a, &b], &|x, y, _| host::add64(control, x, y));
        check("v_mul_f64", &[&a, &b], &|x, y, _| host::mul64(control, x, y));
        check("v_fma_f64", &[&a, &b, &c], &|x, y, z| host::fma64(control, x, y, z));
    }
}

#[test]
fn transcendentals_round_correctly() {
    let mut random = Random(13);
    let any: Vec<u32> = (0..65536).map(|_| random.next() as u32).collect();
    let moderate: Vec<u32> = (0..65536).map(|_| ((random.next() as i32 as f32) * 6e-8).to_bits()).collect();
    let turns = std::f64::consts::TAU;
    type Function = fn(f64) -> f64;
    let cases: &[(&str, Function)] = &[
        ("v_exp_f32", f64::exp2),
        ("v_log_f32", f64::log2),
        ("v_rcp_f32", |x| 1.0 / x),
        ("v_rsq_f32", |x| 1.0 / x.sqrt()),
        ("v_sqrt_f32", f64::sqrt),
    ];
    for (name, reference) in cases {
        for inputs in [&any, &moderate] {
            let got = unary(name, inputs);
            for (&x, &y) in inputs.iter().zip(&got) {
                let value = f32::from_bits(x);
                if value.is_subnormal() {
                    continue;
                }
                let wanted = reference(f64::from(value)) as f32;
                let result = f32::from_bits(y);
                if wanted.is_nan() {
                    assert!(result.is_nan(), "{name} {value:e}");
                } else if wanted.is_subnormal() {
                    assert_eq!(result, 0.0, "{name} {value:e}");
                } else {
                    // The reference's own rounding may differ in the last place on a near-tie.
                    let apart = (result.to_bits() as i32).abs_diff(wanted.to_bits() as i32);
                    assert!(
                        apart <= u32::from(*name != "v_rcp_f32" && *name != "v_sqrt_f32"),
                        "{name} {value:e}: {result:e}, {wanted:e}"
                    );
                }
            }
        }
    }
    for (&x, (&s, &c)) in moderate.iter().zip(unary("v_sin_f32", &moderate).iter().zip(&unary("v_cos_f32", &moderate)))
    {
        let value = f64::from(f32::from_bits(x));
        assert!((f64::from(f32::from_bits(s)) - (value.fract() * turns).sin()).abs() < 1e-7, "sin {value}");
        assert!((f64::from(f32::from_bits(c)) - (value.fract() * turns).cos()).abs() < 1e-7, "cos {value}");
    }
}

#[test]
fn special_values_of_transcendentals() {
    let inf = f32::INFINITY;
    let cases: &[(&str, f32, f32)] = &[
        ("v_exp_f32", -inf, 0.0),
        ("v_exp_f32", inf, inf),
        ("v_exp_f32", 128.0, inf),
        ("v_exp_f32", -127.0, 0.0),
        ("v_exp_f32", 3.0, 8.0),
        ("v_log_f32", 0.0, -inf),
        ("v_log_f32", inf, inf),
        ("v_log_f32", 1.0, 0.0),
        ("v_log_f32", 1e-40, -inf),
        ("v_rcp_f32", -0.0, -inf),
        ("v_rcp_f32", 1e-40, inf),
        ("v_rsq_f32", 0.0, inf),
        ("v_rsq_f32", -0.0, -inf),
        ("v_rsq_f32", inf, 0.0),
        ("v_sqrt_f32", -0.0, -0.0),
        ("v_sin_f32", 0.25, 1.0),
        ("v_cos_f32", 0.5, -1.0),
        ("v_sin_f32", 3e38, 0.0),
        ("v_cos_f32", 3e38, 1.0),
    ];
    for (name, x, y) in cases {
        assert_eq!(unary(name, &[x.to_bits()])[0], y.to_bits(), "{name} {x:e}");
    }
    for name in ["v_log_f32", "v_rsq_f32", "v_sqrt_f32"] {
        assert!(f32::from_bits(unary(name, &[(-1f32).to_bits()])[0]).is_nan());
    }
}

#[test]
fn minima_and_maxima() {
    let (quiet, signalling) = (0x7fc0_0001, 0x7f80_0001);
    let run2 = |name: &str, a: u32, b: u32| {
        lanes(Arch::Gfx942, DEFAULT_MODE, &vector(name, Encoding::Vop2, &registers(2)), &[&[a], &[b]])[0]
    };
    let one = 1f32.to_bits();
    assert_eq!(run2("v_min_f32", quiet, one), one);
    assert_eq!(run2("v_max_f32", one, quiet), one);
    assert_eq!(run2("v_max_f32", one, signalling), signalling | 0x0040_0000);
    assert_eq!(run2("v_min_f32", signalling, one), signalling | 0x0040_0000);
    assert_eq!(run2("v_min_f32", 0, 0x8000_0000), 0x8000_0000);
    assert_eq!(run2("v_max_f32", 0x8000_0000, 0), 0);
    let med = |a: f32, b: f32, c: f32| {
        let instruction = vector("v_med3_f32", Encoding::Vop3, &registers(3));
        f32::from_bits(
            lanes(Arch::Gfx942, DEFAULT_MODE, &instruction, &[&[a.to_bits()], &[b.to_bits()], &[c.to_bits()]])[0],
        )
    };
    assert_eq!(med(3.0, 1.0, 2.0), 2.0);
    assert_eq!(med(-1.0, 5.0, f32::INFINITY), 5.0);
    // A NaN gives the minimum of the others.
    assert_eq!(med(f32::NAN, 5.0, 3.0), 3.0);
}

/// LLVM's expansion of an f32 division, instruction by instruction.
fn divide32(numerators: &[u32], denominators: &[u32]) -> Vec<u32> {
    let mut results = Vec::new();
    for first in (0..numerators.len()).step_by(64) {
        let mut w: Wave = wave(DEFAULT_MODE);
        w.vgpr[0] = Vreg(std::array::from_fn(|lane| numerators[first + lane]));
        w.vgpr[1] = Vreg(std::array::from_fn(|lane| denominators[first + lane]));
        let vcc = s(106);
        let mut step = |name: &str, enc, dst: [Operand; 2], src: &[Operand], neg: u8| {
            let mut instruction = inst(name, enc, dst, src);
            instruction.mods.neg = neg;
            w = run(Arch::Gfx942, &instruction, &w);
        };
        let one = Operand::Inline(242);
        let none = Operand::None;
        step("v_div_scale_f32", Encoding::Vop3b, [v(2), s(10)], &[v(1), v(1), v(0)], 0);
        step("v_div_scale_f32", Encoding::Vop3b, [v(3), vcc], &[v(0), v(1), v(0)], 0);
        step("v_rcp_f32", Encoding::Vop1, [v(4), none], &[v(2)], 0);
        step("v_fma_f32", Encoding::Vop3, [v(5), none], &[v(2), v(4), one], 1);
        step("v_fma_f32", Encoding::Vop3, [v(4), none], &[v(5), v(4), v(4)], 0);
        step("v_mul_f32", Encoding::Vop2, [v(6), none], &[v(3), v(4)], 0);
        step("v_fma_f32", Encoding::Vop3, [v(7), none], &[v(2), v(6), v(3)], 1);
        step("v_fma_f32", Encoding::Vop3, [v(6), none], &[v(7), v(4), v(6)], 0);
        step("v_fma_f32", Encoding::Vop3, [v(7), none], &[v(2), v(6), v(3)], 1);
        step("v_div_fmas_f32", Encoding::Vop3, [v(8), none], &[v(7), v(4), v(6)], 0);
        step("v_div_fixup_f32", Encoding::Vop3, [v(9), none], &[v(8), v(1), v(0)], 0);
        results.extend_from_slice(&w.vgpr[9].0);
    }
    results
}

#[test]
fn compiled_division_is_exact() {
    let mut random = Random(99);
    let numerators = random_lanes(&mut random, 1 << 15);
    let denominators = random_lanes(&mut random, 1 << 15);
    let got = divide32(&numerators, &denominators);
    for lane in 0..numerators.len() {
        let (n, d) = (f32::from_bits(numerators[lane]), f32::from_bits(denominators[lane]));
        let wanted = n / d;
        let result = f32::from_bits(got[lane]);
        if wanted.is_nan() {
            assert!(result.is_nan(), "{n:e} / {d:e}");
        } else if wanted.is_subnormal() || wanted.abs() == f32::MIN_POSITIVE {
            // Scaled back from a normal result, a denormal may be rounded twice.
            assert!(result.to_bits().abs_diff(wanted.to_bits()) <= 1, "{n:e} / {d:e} = {result:e}, not {wanted:e}");
        } else {
            assert_eq!(result.to_bits(), wanted.to_bits(), "{n:e} / {d:e} = {result:e}, not {wanted:e}");
        }
    }
}
