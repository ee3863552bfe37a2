//! Every scalar arithmetic operation against a second formulation of its definition, with SCC; moves through M0, EXEC
//! masks, hardware registers, jumps, forks and scalar memory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::precedence)]

mod support;

use kbench_gfx_emu::isa::Arch;
use support::asm::{Checks, Random, lanes};

/// Name, bits of the destination and of both sources, the result, and SCC afterwards (`None`: as before).
type Binary = (&'static str, [u32; 3], fn(u128, u128, bool) -> u128, Scc);

/// What SCC becomes.
#[derive(Clone, Copy)]
enum Scc {
    Kept,
    NonZero,
    Is(fn(u128, u128, bool) -> bool),
}

/// Two's complement of the low `bits`.
fn signed(value: u128, bits: u32) -> i128 {
    let half = 1_i128 << (bits - 1);
    (value as i128 + half).rem_euclid(2 * half) - half
}

fn s32(value: u128) -> i128 {
    signed(value, 32)
}

/// A bit field by the definition: shifted (with the sign for signed forms), cut to the width, extended from its top bit.
/// Widths beyond the register are the register's.
fn field(value: u128, offset: u128, width: u128, bits: u32, is_signed: bool) -> u128 {
    let width = width.min(bits.into());
    let whole = if is_signed { signed(value, bits) } else { value as i128 };
    let cut = (whole >> offset) as u128 & ((1_u128 << width) - 1);
    if is_signed && width > 0 { signed(cut, width as u32) as u128 } else { cut }
}

fn width_of(b: u128) -> u128 {
    b >> 16 & 0x7f
}

fn binaries() -> Vec<Binary> {
    const N: [u32; 3] = [32, 32, 32];
    const W: [u32; 3] = [64, 64, 64];
    const M: [u32; 3] = [64, 64, 32];
    const MASK: u128 = u64::MAX as u128;
    vec![
        ("s_add_u32", N, |a, b, _| a + b, Scc::Is(|a, b, _| a + b > 0xffff_ffff)),
        ("s_sub_u32", N, |a, b, _| a.wrapping_sub(b), Scc::Is(|a, b, _| b > a)),
        ("s_add_i32", N, |a, b, _| a + b, Scc::Is(|a, b, _| s32(a) + s32(b) != s32(a + b))),
        ("s_sub_i32", N, |a, b, _| a.wrapping_sub(b), Scc::Is(|a, b, _| s32(a) - s32(b) != s32((a + (1 << 32)) - b))),
        ("s_addc_u32", N, |a, b, c| a + b + u128::from(c), Scc::Is(|a, b, c| a + b + u128::from(c) > 0xffff_ffff)),
        ("s_subb_u32", N, |a, b, c| a.wrapping_sub(b + u128::from(c)), Scc::Is(|a, b, c| b + u128::from(c) > a)),
        ("s_min_i32", N, |a, b, _| if s32(a) < s32(b) { a } else { b }, Scc::Is(|a, b, _| s32(a) < s32(b))),
        ("s_min_u32", N, |a, b, _| if a < b { a } else { b }, Scc::Is(|a, b, _| a < b)),
        ("s_max_i32", N, |a, b, _| if s32(a) < s32(b) { b } else { a }, Scc::Is(|a, b, _| s32(a) >= s32(b))),
        ("s_max_u32", N, |a, b, _| if a < b { b } else { a }, Scc::Is(|a, b, _| a >= b)),
        ("s_cselect_b32", N, |a, b, c| if c { a } else { b }, Scc::Kept),
        ("s_cselect_b64", W, |a, b, c| if c { a } else { b }, Scc::Kept),
        ("s_and_b32", N, |a, b, _| a & b, Scc::NonZero),
        ("s_and_b64", W, |a, b, _| a & b, Scc::NonZero),
        ("s_or_b32", N, |a, b, _| a | b, Scc::NonZero),
        ("s_or_b64", W, |a, b, _| a | b, Scc::NonZero),
        ("s_xor_b32", N, |a, b, _| (a | b) - (a & b), Scc::NonZero),
        ("s_xor_b64", W, |a, b, _| (a | b) - (a & b), Scc::NonZero),
        ("s_andn2_b32", N, |a, b, _| a - (a & b), Scc::NonZero),
        ("s_andn2_b64", W, |a, b, _| a - (a & b), Scc::NonZero),
        ("s_orn2_b32", N, |a, b, _| 0xffff_ffff - (b - (a & b)), Scc::NonZero),
        ("s_orn2_b64", W, |a, b, _| MASK - (b - (a & b)), Scc::NonZero),
        ("s_nand_b32", N, |a, b, _| 0xffff_ffff - (a & b), Scc::NonZero),
        ("s_nand_b64", W, |a, b, _| MASK - (a & b), Scc::NonZero),
        ("s_nor_b32", N, |a, b, _| 0xffff_ffff - (a | b), Scc::NonZero),
        ("s_nor_b64", W, |a, b, _| MASK - (a | b), Scc::NonZero),
        ("s_xnor_b32", N, |a, b, _| 0xffff_ffff - (a ^ b), Scc::NonZero),
        ("s_xnor_b64", W, |a, b, _| MASK - (a ^ b), Scc::NonZero),
        ("s_lshl_b32", N, |a, b, _| a << (b % 32), Scc::NonZero),
        ("s_lshl_b64", M, |a, b, _| a << (b % 64), Scc::NonZero),
        ("s_lshr_b32", N, |a, b, _| a / (1 << (b % 32)), Scc::NonZero),
        ("s_lshr_b64", M, |a, b, _| a / (1 << (b % 64)), Scc::NonZero),
        ("s_ashr_i32", N, |a, b, _| s32(a).div_euclid(1 << (b % 32)) as u128, Scc::NonZero),
        ("s_ashr_i64", M, |a, b, _| signed(a, 64).div_euclid(1 << (b % 64)) as u128, Scc::NonZero),
        ("s_bfm_b32", N, |a, b, _| ((1 << (a % 32)) - 1) << (b % 32), Scc::Kept),
        ("s_bfm_b64", [64, 32, 32], |a, b, _| ((1 << (a % 64)) - 1) << (b % 64), Scc::Kept),
        ("s_mul_i32", N, |a, b, _| a * b, Scc::Kept),
        ("s_mul_hi_u32", N, |a, b, _| a * b >> 32, Scc::Kept),
        ("s_mul_hi_i32", N, |a, b, _| (s32(a) * s32(b)).div_euclid(1 << 32) as u128, Scc::Kept),
        ("s_bfe_u32", N, |a, b, _| field(a, b % 32, width_of(b), 32, false), Scc::NonZero),
        ("s_bfe_i32", N, |a, b, _| field(a, b % 32, width_of(b), 32, true), Scc::NonZero),
        ("s_bfe_u64", M, |a, b, _| field(a, b % 64, width_of(b), 64, false), Scc::NonZero),
        ("s_bfe_i64", M, |a, b, _| field(a, b % 64, width_of(b), 64, true), Scc::NonZero),
        // The difference wraps before its sign is looked at.
        ("s_absdiff_i32", N, |a, b, _| s32((a + (1 << 32)) - b).unsigned_abs(), Scc::NonZero),
        ("s_lshl1_add_u32", N, |a, b, _| a * 2 + b, Scc::Is(|a, b, _| a * 2 + b >= 1 << 32)),
        ("s_lshl2_add_u32", N, |a, b, _| a * 4 + b, Scc::Is(|a, b, _| a * 4 + b >= 1 << 32)),
        ("s_lshl3_add_u32", N, |a, b, _| a * 8 + b, Scc::Is(|a, b, _| a * 8 + b >= 1 << 32)),
        ("s_lshl4_add_u32", N, |a, b, _| a * 16 + b, Scc::Is(|a, b, _| a * 16 + b >= 1 << 32)),
        ("s_pack_ll_b32_b16", N, |a, b, _| a % 65536 + (b % 65536) * 65536, Scc::Kept),
        ("s_pack_lh_b32_b16", N, |a, b, _| a % 65536 + (b / 65536) * 65536, Scc::Kept),
        ("s_pack_hh_b32_b16", N, |a, b, _| a / 65536 + (b / 65536) * 65536, Scc::Kept),
    ]
}

/// Bits of a value, lowest first.
fn bits(value: u128, count: u32) -> Vec<bool> {
    (0..count).map(|bit| value >> bit & 1 == 1).collect()
}

fn number(bits: impl IntoIterator<Item = bool>) -> u128 {
    bits.into_iter().enumerate().fold(0, |sum, (bit, set)| sum + (u128::from(set) << bit))
}

/// The place of the first bit like this in a list, or all ones.
fn first(bits: &[bool], wanted: bool) -> u128 {
    bits.iter().position(|bit| *bit == wanted).map_or(0xffff_ffff, |place| place as u128)
}

fn top_down(value: u128, count: u32) -> Vec<bool> {
    bits(value, count).into_iter().rev().collect()
}

fn from_sign(value: u128, count: u32) -> u128 {
    let list = top_down(value, count);
    first(&list, !list[0])
}

fn unaries() -> Vec<Binary> {
    const N: [u32; 3] = [32, 32, 0];
    const W: [u32; 3] = [64, 64, 0];
    const C: [u32; 3] = [32, 64, 0];
    fn quads(value: u128, count: u32) -> Vec<bool> {
        bits(value, count).chunks(4).map(|quad| quad.contains(&true)).collect()
    }
    fn spread(list: Vec<bool>, times: usize) -> u128 {
        number(list.into_iter().flat_map(|bit| vec![bit; times]))
    }
    fn count(value: u128, width: u32, wanted: bool) -> u128 {
        bits(value, width).into_iter().filter(|bit| *bit == wanted).count() as u128
    }
    vec![
        ("s_mov_b32", N, |a, _, _| a, Scc::Kept),
        ("s_mov_b64", W, |a, _, _| a, Scc::Kept),
        ("s_cmov_b32", N, |a, _, c| if c { a } else { 0x5555_5555 }, Scc::Kept),
        ("s_cmov_b64", W, |a, _, c| if c { a } else { 0x5555_5555_5555_5555 }, Scc::Kept),
        ("s_not_b32", N, |a, _, _| 0xffff_ffff - a, Scc::NonZero),
        ("s_not_b64", W, |a, _, _| u128::from(u64::MAX) - a, Scc::NonZero),
        ("s_wqm_b32", N, |a, _, _| spread(quads(a, 32), 4), Scc::NonZero),
        ("s_wqm_b64", W, |a, _, _| spread(quads(a, 64), 4), Scc::NonZero),
        ("s_quadmask_b32", N, |a, _, _| number(quads(a, 32)), Scc::NonZero),
        ("s_quadmask_b64", W, |a, _, _| number(quads(a, 64)), Scc::NonZero),
        ("s_brev_b32", N, |a, _, _| number(top_down(a, 32)), Scc::Kept),
        ("s_brev_b64", W, |a, _, _| number(top_down(a, 64)), Scc::Kept),
        ("s_bcnt0_i32_b32", N, |a, _, _| count(a, 32, false), Scc::NonZero),
        ("s_bcnt0_i32_b64", C, |a, _, _| count(a, 64, false), Scc::NonZero),
        ("s_bcnt1_i32_b32", N, |a, _, _| count(a, 32, true), Scc::NonZero),
        ("s_bcnt1_i32_b64", C, |a, _, _| count(a, 64, true), Scc::NonZero),
        ("s_ff0_i32_b32", N, |a, _, _| first(&bits(a, 32), false), Scc::Kept),
        ("s_ff0_i32_b64", C, |a, _, _| first(&bits(a, 64), false), Scc::Kept),
        ("s_ff1_i32_b32", N, |a, _, _| first(&bits(a, 32), true), Scc::Kept),
        ("s_ff1_i32_b64", C, |a, _, _| first(&bits(a, 64), true), Scc::Kept),
        ("s_flbit_i32_b32", N, |a, _, _| first(&top_down(a, 32), true), Scc::Kept),
        ("s_flbit_i32_b64", C, |a, _, _| first(&top_down(a, 64), true), Scc::Kept),
        ("s_flbit_i32", N, |a, _, _| from_sign(a, 32), Scc::Kept),
        ("s_flbit_i32_i64", C, |a, _, _| from_sign(a, 64), Scc::Kept),
        ("s_sext_i32_i8", N, |a, _, _| signed(a % 256, 8) as u128, Scc::Kept),
        ("s_sext_i32_i16", N, |a, _, _| signed(a % 65536, 16) as u128, Scc::Kept),
        ("s_abs_i32", N, |a, _, _| s32(a).unsigned_abs(), Scc::NonZero),
        ("s_bitset0_b32", N, |a, _, _| 0x5555_5555 & !(1 << (a % 32)), Scc::Kept),
        ("s_bitset1_b32", N, |a, _, _| 0x5555_5555 | 1 << (a % 32), Scc::Kept),
        ("s_bitset0_b64", [64, 32, 0], |a, _, _| 0x5555_5555_5555_5555 & !(1 << (a % 64)), Scc::Kept),
        ("s_bitset1_b64", [64, 32, 0], |a, _, _| 0x5555_5555_5555_5555 | 1 << (a % 64), Scc::Kept),
        ("s_bitreplicate_b64_b32", [64, 32, 0], |a, _, _| spread(bits(a, 32), 2), Scc::Kept),
    ]
}

fn compares() -> Vec<Binary> {
    const N: [u32; 3] = [0, 32, 32];
    let nothing: fn(u128, u128, bool) -> u128 = |_, _, _| 0;
    type Compare = (&'static str, [u32; 3], fn(u128, u128, bool) -> bool);
    let list: [Compare; 18] = [
        ("s_cmp_eq_i32", N, |a, b, _| s32(a) == s32(b)),
        ("s_cmp_lg_i32", N, |a, b, _| s32(a) != s32(b)),
        ("s_cmp_gt_i32", N, |a, b, _| s32(a) > s32(b)),
        ("s_cmp_ge_i32", N, |a, b, _| s32(a) >= s32(b)),
        ("s_cmp_lt_i32", N, |a, b, _| s32(a) < s32(b)),
        ("s_cmp_le_i32", N, |a, b, _| s32(a) <= s32(b)),
        ("s_cmp_eq_u32", N, |a, b, _| a == b),
        ("s_cmp_lg_u32", N, |a, b, _| a != b),
        ("s_cmp_gt_u32", N, |a, b, _| a > b),
        ("s_cmp_ge_u32", N, |a, b, _| a >= b),
        ("s_cmp_lt_u32", N, |a, b, _| a < b),
        ("s_cmp_le_u32", N, |a, b, _| a <= b),
        ("s_cmp_eq_u64", [0, 64, 64], |a, b, _| a == b),
        ("s_cmp_lg_u64", [0, 64, 64], |a, b, _| a != b),
        ("s_bitcmp0_b32", N, |a, b, _| !bits(a, 32)[b as usize % 32]),
        ("s_bitcmp1_b32", N, |a, b, _| bits(a, 32)[b as usize % 32]),
        ("s_bitcmp0_b64", [0, 64, 32], |a, b, _| !bits(a, 64)[b as usize % 64]),
        ("s_bitcmp1_b64", [0, 64, 32], |a, b, _| bits(a, 64)[b as usize % 64]),
    ];
    list.into_iter().map(|(name, widths, scc)| (name, widths, nothing, Scc::Is(scc))).collect()
}

fn registers(first: u32, bits: u32) -> String {
    if bits == 64 { format!("s[{first}:{}]", first + 1) } else { format!("s{first}") }
}

fn check(checks: &mut Checks, operation: &Binary, a: u64, b: u64, scc: bool) {
    let (name, [dst, wide_a, wide_b], result, after) = operation;
    let cut = |value: u64, width: u32| u128::from(if width == 32 { value & 0xffff_ffff } else { value });
    let (x, y) = (cut(a, *wide_a), cut(b, *wide_b));
    checks.scalar64(20, a).scalar64(22, b).scalar64(24, 0x5555_5555_5555_5555);
    checks.line(format_args!("s_cmp_eq_u32 s84, {}", if scc { "s84" } else { "s85" }));
    let mut operands = vec![registers(20, *wide_a)];
    if *dst > 0 {
        operands.insert(0, registers(24, *dst));
    }
    if *wide_b > 0 {
        operands.push(registers(22, *wide_b));
    }
    checks.line(format_args!("{name} {}\ns_cselect_b32 s26, 1, 0", operands.join(", ")));
    let label = format!("{name} {a:#x}, {b:#x}, scc {scc}");
    let value = result(x, y, scc);
    let value = if *dst == 64 { value as u64 } else { value as u32 as u64 };
    let wanted = match after {
        Scc::Kept => scc,
        Scc::NonZero => value != 0,
        Scc::Is(condition) => condition(x, y, scc),
    };
    checks.line("v_mov_b32 v1, s24\nv_mov_b32 v2, s25\nv_mov_b32 v3, s26");
    if *dst > 0 {
        checks.expect(&label, "v1", [value as u32; 64]);
    }
    if *dst == 64 {
        checks.expect(format_args!("{label}, high"), "v2", [(value >> 32) as u32; 64]);
    }
    checks.expect(format_args!("{label}, scc"), "v3", [wanted.into(); 64]);
}

/// Operands with all the edges, and random ones.
fn operands(random: &mut Random) -> Vec<(u64, u64)> {
    let edges = [0, 1, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, u64::MAX, 1 << 63, 0x0008_0004, 0xffff_ffff_0000_0000];
    let mut pairs: Vec<(u64, u64)> =
        (0..edges.len()).map(|i| (edges[i], edges[(i * 5 + 2) % edges.len()])).chain([(7, 7), (1 << 40, 3)]).collect();
    // Bit fields: offset 4 and 28, widths 8, 16, 0 and 32.
    pairs.extend([
        (0x89ab_cdef, 0x0008_0004),
        (0x89ab_cdef, 0x0010_001c),
        (u64::MAX, 9),
        (0x8000_0000_0000_0000, 0x20_0030),
    ]);
    pairs.extend((0..4).map(|_| (random.next(), random.next() & !0x0060_0000)));
    pairs
}

#[test]
fn arithmetic() {
    let mut random = Random(0x1234_5678);
    for operations in [binaries(), unaries(), compares()] {
        let mut checks = Checks::new(Arch::Gfx942);
        for operation in &operations {
            for (index, (a, b)) in operands(&mut random).into_iter().enumerate() {
                check(&mut checks, operation, a, b, index % 2 == 0);
            }
        }
        checks.run(&[0], &[0]);
    }
}

#[test]
fn immediates() {
    let mut checks = Checks::new(Arch::Gfx90a);
    type Compare = (&'static str, fn(i64, i64) -> bool);
    let list: [Compare; 6] = [
        ("eq", |a, k| a == k),
        ("lg", |a, k| a != k),
        ("gt", |a, k| a > k),
        ("ge", |a, k| a >= k),
        ("lt", |a, k| a < k),
        ("le", |a, k| a <= k),
    ];
    for a in [0_u32, 5, 0xffff_8000, 0xffff_ffff, 0x8000, 0x7fff_ffff] {
        for k in [0_u16, 5, 0x8000, 0xffff] {
            checks.scalar("s20", a);
            for (name, compare) in &list {
                for (kind, value, immediate) in
                    [("i32", i64::from(a as i32), i64::from(k as i16)), ("u32", i64::from(a), i64::from(k))]
                {
                    let label = format!("s_cmpk_{name}_{kind} {a:#x}, {k:#x}");
                    checks.line(format_args!("s_cmpk_{name}_{kind} s20, {k:#x}\ns_cselect_b32 s21, 1, 0"));
                    checks.expect_scalar(label, "s21", compare(value, immediate).into());
                }
            }
            let k = i128::from(k as i16);
            let sum = i128::from(a as i32) + k;
            checks.line(format_args!("s_mov_b32 s21, s20\ns_addk_i32 s21, {:#x}\ns_cselect_b32 s22, 1, 0", k as u16));
            checks.expect_scalar(format_args!("s_addk {a:#x} {k}"), "s21", sum as u32);
            checks.scalar("s23", 0).line("s_cmp_eq_u32 s22, 1\ns_cselect_b32 s23, 1, 0");
            checks.expect_scalar(format_args!("s_addk {a:#x} {k}, scc"), "s23", (sum != s32(sum as u128)).into());
            checks.line(format_args!("s_mov_b32 s21, s20\ns_mulk_i32 s21, {:#x}", k as u16));
            checks.expect_scalar(format_args!("s_mulk {a:#x} {k}"), "s21", (i128::from(a as i32) * k) as u32);
        }
    }
    checks.scalar("s20", 7).line("s_movk_i32 s21, 0x8001\ns_cmp_eq_u32 s20, 7\ns_cmovk_i32 s20, 0xfffe");
    checks.expect_scalar("s_movk", "s21", 0xffff_8001).expect_scalar("s_cmovk", "s20", 0xffff_fffe);
    checks.scalar("s20", 7).line("s_cmp_eq_u32 s20, 8\ns_cmovk_i32 s20, 1").expect_scalar("s_cmovk, not", "s20", 7);
    checks.run(&[0], &[0]);
}

/// Literals of 64-bit sources: zeros above them, except in a signed number.
#[test]
fn wide_literals() {
    let mut checks = Checks::new(Arch::Gfx942);
    checks.scalar64(22, 0xffff_ffff_ffff_ffff).scalar64(24, 0x3c_0004);
    // `s[24:25]` is the field from bit 4 on, 60 bits wide.
    let wide: [(&str, u64); 8] = [
        ("s_mov_b64 s[20:21], 0x80000000", 0x8000_0000),
        ("s_and_b64 s[20:21], s[22:23], 0xffff0000", 0xffff_0000),
        ("s_xor_b64 s[20:21], 0xfffffffe, s[22:23]", 0xffff_ffff_0000_0001),
        ("s_lshl_b64 s[20:21], 0x80000000, 4", 0x8_0000_0000),
        ("s_bfe_u64 s[20:21], 0x80000000, s24", 0x800_0000),
        ("s_bfe_i64 s[20:21], 0x80000000, s24", 0xffff_ffff_f800_0000),
        ("s_ashr_i64 s[20:21], 0x80000000, 4", 0xffff_ffff_f800_0000),
        // No literal: an inline constant is a number of 64 bits.
        ("s_mov_b64 s[20:21], -1", u64::MAX),
    ];
    for (line, want) in wide {
        checks.line(line).line("s_mov_b64 s[26:27], s[20:21]");
        checks.expect_scalar(line, "s26", want as u32).expect_scalar(line, "s27", (want >> 32) as u32);
    }
    let narrow = [
        ("s_flbit_i32_b64 s20, 0x80000000", 32),
        ("s_flbit_i32_i64 s20, 0x80000000", 33),
        ("s_bcnt1_i32_b64 s20, 0xf0000000", 4),
        ("s_mov_b64 s[26:27], 0xffffffff\ns_cmp_lg_u64 s[26:27], 0xffffffff\ns_cselect_b32 s20, 1, 0", 0),
        ("s_cmp_eq_u64 s[22:23], 0xffffffff\ns_cselect_b32 s20, 1, 0", 0),
    ];
    for (line, want) in narrow {
        checks.line(line).expect_scalar(line, "s20", want);
    }
    checks.run(&[0], &[0]);
}

#[test]
fn masks_of_lanes() {
    type Mask = (&'static str, fn(u64, u64) -> u64, bool);
    let list: [Mask; 12] = [
        ("s_and_saveexec_b64", |s, e| s & e, true),
        ("s_or_saveexec_b64", |s, e| s | e, true),
        ("s_xor_saveexec_b64", |s, e| s ^ e, true),
        ("s_andn2_saveexec_b64", |s, e| s & !e, true),
        ("s_orn2_saveexec_b64", |s, e| s | !e, true),
        ("s_nand_saveexec_b64", |s, e| !(s & e), true),
        ("s_nor_saveexec_b64", |s, e| !(s | e), true),
        ("s_xnor_saveexec_b64", |s, e| !(s ^ e), true),
        ("s_andn1_saveexec_b64", |s, e| !s & e, true),
        ("s_orn1_saveexec_b64", |s, e| !s | e, true),
        ("s_andn1_wrexec_b64", |s, e| !s & e, false),
        ("s_andn2_wrexec_b64", |s, e| s & !e, false),
    ];
    let mut checks = Checks::new(Arch::Gfx942);
    for (name, combine, saves) in list {
        for (s, exec) in [(0x00ff_00ff_1234_5678_u64, 0x0f0f_0f0f_ffff_0000_u64), (0, u64::MAX), (u64::MAX, 0), (3, 12)]
        {
            let new = combine(s, exec);
            checks.scalar64(20, s).scalar64(22, exec).line("s_mov_b64 exec, s[22:23]");
            checks.line(format_args!("{name} s[24:25], s[20:21]\ns_cselect_b32 s28, 1, 0\ns_mov_b64 s[26:27], exec"));
            let kept = if saves { exec } else { new };
            for (register, value) in [("s24", kept), ("s26", new)] {
                checks.expect_scalar(format_args!("{name} {s:#x} {exec:#x} {register}"), register, value as u32);
            }
            for (register, value) in [("s25", kept), ("s27", new)] {
                checks.expect_scalar(format_args!("{name} {register}"), register, (value >> 32) as u32);
            }
            checks.expect_scalar(format_args!("{name} scc"), "s28", (new != 0).into());
        }
    }
    checks.run(&[0], &[0]);
}

#[test]
fn registers_by_m0() {
    let mut checks = Checks::new(Arch::Gfx942);
    for register in 20..30 {
        checks.scalar(format_args!("s{register}"), register * 11);
    }
    checks.line("s_mov_b32 s30, s0").scalar("m0", 4);
    checks.line("s_movrels_b32 s40, s21\ns_movrels_b64 s[42:43], s[20:21]\ns_movreld_b32 s31, s22\ns_movreld_b64 s[44:45], s[28:29]");
    checks.expect_scalar("s_movrels_b32", "s40", 25 * 11).expect_scalar("s_movrels_b64", "s42", 24 * 11);
    checks.expect_scalar("s_movrels_b64 high", "s43", 25 * 11).expect_scalar("s_movreld_b32", "s35", 22 * 11);
    checks.expect_scalar("s_movreld_b64", "s48", 28 * 11).expect_scalar("s_movreld_b64 high", "s49", 29 * 11);
    // The whole of M0 counts; a source beyond the registers is s0, a destination there is not written.
    checks.line("s_mov_b32 s50, s0").scalar("s0", 77).scalar("m0", 0x100).scalar("s24", 5);
    checks.line("s_movrels_b32 s40, s21\ns_movreld_b32 s24, s22");
    checks.expect_scalar("out of range source", "s40", 77).expect_scalar("out of range destination", "s24", 5);
    checks.expect_scalar("s0 not written", "s0", 77);
    checks.run(&[0], &[0]);
}

#[test]
fn hardware_registers() {
    let mut checks = Checks::new(Arch::Gfx942);
    // MODE: all denormals kept (0xf0), DX10_CLAMP and IEEE are the assembler's defaults.
    checks.line("s_getreg_b32 s20, hwreg(HW_REG_MODE)").expect_scalar("MODE", "s20", 0x3f0);
    checks.line("s_getreg_b32 s20, hwreg(HW_REG_MODE, 4, 4)").expect_scalar("MODE, a field", "s20", 0xf);
    checks.scalar("s21", 0x1a).line("s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s21\ns_getreg_b32 s20, hwreg(HW_REG_MODE)");
    checks.expect_scalar("a field alone is set", "s20", 0x3fa);
    checks.line("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0\ns_getreg_b32 s20, hwreg(HW_REG_MODE)");
    checks.expect_scalar("back", "s20", 0x3f0);
    checks.line("s_cmp_eq_u32 s0, s0\ns_getreg_b32 s20, hwreg(HW_REG_STATUS, 0, 1)").expect_scalar("SCC", "s20", 1);
    checks.line("s_mov_b64 exec, 0\ns_getreg_b32 s20, hwreg(HW_REG_STATUS, 9, 1)").expect_scalar("EXECZ", "s20", 1);
    checks.line("s_mov_b64 vcc, 2\ns_getreg_b32 s20, hwreg(HW_REG_STATUS, 10, 1)").expect_scalar("VCCZ", "s20", 0);
    // The first workgroup runs on XCD 0.
    checks.line("s_getreg_b32 s20, hwreg(20, 0, 4)").expect_scalar("XCC_ID", "s20", 0);
    checks.run(&[0], &[0]);
}

#[test]
fn jumps_calls_and_forks() {
    let mut checks = Checks::new(Arch::Gfx942);
    checks.scalar("s20", 0).line(
        "s_getpc_b64 s[22:23]\n.Lhere:\ns_add_u32 s22, s22, .Lleaf-.Lhere\ns_addc_u32 s23, s23, 0\n\
         s_swappc_b64 s[24:25], s[22:23]\ns_call_b64 s[24:25], .Lleaf\ns_branch .Lover\n\
         .Lleaf:\ns_add_u32 s20, s20, 5\ns_setpc_b64 s[24:25]\n.Lover:",
    );
    checks.expect_scalar("two calls", "s20", 10);
    for (index, (condition, setup, taken)) in [
        ("scc0", "s_cmp_eq_u32 s84, s85", true),
        ("scc1", "s_cmp_eq_u32 s84, s84", true),
        ("scc1", "s_cmp_eq_u32 s84, s85", false),
        ("vccz", "s_mov_b64 vcc, 0", true),
        ("vccnz", "s_mov_b64 vcc, 0", false),
        ("vccnz", "s_mov_b32 vcc_lo, 0\ns_mov_b32 vcc_hi, 4", true),
        ("execz", "s_mov_b64 exec, 0", true),
        ("execnz", "s_mov_b64 exec, 1", true),
        ("cdbgsys", "s_nop 0", false),
        ("cdbguser", "s_nop 0", false),
        ("cdbgsys_or_user", "s_nop 0", false),
        ("cdbgsys_and_user", "s_nop 0", false),
    ]
    .into_iter()
    .enumerate()
    {
        checks
            .scalar("s20", 1)
            .line(format_args!("{setup}\ns_cbranch_{condition} .Lskip{index}\ns_mov_b32 s20, 0\n.Lskip{index}:"));
        checks.expect_scalar(format_args!("s_cbranch_{condition} after {setup}"), "s20", taken.into());
    }
    // Both paths of a fork run, each with its lanes: v5 of lanes 0..15 becomes 1, of the others 2; and the join ends it.
    checks.vector(5, [0; 64]).scalar64(40, 0xffff).line(
        "s_getreg_b32 s46, hwreg(HW_REG_MODE, 29, 3)\n\
         s_mov_b64 s[48:49], s[0:1]\ns_mov_b64 s[50:51], s[2:3]\n\
         s_cbranch_i_fork s[40:41], .Lpass\n\
         v_add_u32 v5, 2, v5\ns_branch .Ljoin\n\
         .Lpass:\nv_add_u32 v5, 1, v5\n\
         .Ljoin:\ns_cbranch_join s46\ns_mov_b64 s[42:43], exec",
    );
    checks.expect("s_cbranch_i_fork", "v5", lanes(|lane| if lane < 16 { 1 } else { 2 }));
    checks.expect_scalar("all lanes after the join", "s46", 0);
    checks.run(&[0], &[0]);
}

#[test]
fn modes_of_vector_instructions() {
    let mut checks = Checks::new(Arch::Gfx942);
    checks.vector(10, lanes(|lane| lane + 100)).vector(13, lanes(|lane| lane + 300)).vector(20, lanes(|_| 9));
    // M0 moves source 0 by 3 and then the destination by 2.
    checks.scalar("s20", 3).line("s_set_gpr_idx_on s20, gpr_idx(SRC0)\nv_mov_b32 v20, v10\ns_set_gpr_idx_off");
    checks.expect("source by M0", "v20", lanes(|lane| lane + 300));
    checks.vector(22, lanes(|_| 1)).line("s_set_gpr_idx_on 2, gpr_idx(DST)\nv_mov_b32 v20, v10\ns_set_gpr_idx_off");
    checks.expect("destination by M0", "v22", lanes(|lane| lane + 100)).expect(
        "not the named one",
        "v20",
        lanes(|lane| lane + 300),
    );
    checks.line("s_set_gpr_idx_on 0, gpr_idx(SRC0)\ns_set_gpr_idx_idx s20\ns_set_gpr_idx_mode gpr_idx(SRC1)");
    checks.line("s_set_gpr_idx_off\ns_mov_b32 s21, m0\ns_and_b32 s21, s21, 0xf0ff").expect_scalar("M0", "s21", 0x2003);
    // VSKIP: vector instructions do nothing, scalar ones go on.
    checks
        .scalar("s20", 8)
        .scalar("s22", 0)
        .line("s_setvskip s20, 3\nv_mov_b32 v20, 1\nds_write_b32 v60, v20\ns_mov_b32 s22, 5\ns_setvskip 0, 0");
    checks.expect("skipped", "v20", lanes(|lane| lane + 300)).expect_scalar("not skipped", "s22", 5);
    checks.run(&[0], &[0]);
}

#[test]
fn scalar_memory() {
    let mut checks = Checks::new(Arch::Gfx942);
    let memory: Vec<u32> = (0..64).map(|i| 0x1000_0000 + i * 0x111).collect();
    let mut after = memory.clone();
    for (name, count) in [("dword", 1), ("dwordx2", 2), ("dwordx4", 4), ("dwordx8", 8), ("dwordx16", 16)] {
        let to = if count == 1 { "s20".to_owned() } else { format!("s[20:{}]", 19 + count) };
        // Immediate, register, both; the low two bits of the sum are ignored.
        for (offset, byte) in [("0x10", 16), ("s40", 36), ("s40 offset:-0x8", 28), ("s41", 20)] {
            checks
                .scalar("s40", 36)
                .scalar("s41", 22)
                .line(format_args!("s_load_{name} {to}, s[84:85], {offset}\ns_waitcnt lgkmcnt(0)"));
            for word in 0..count {
                let value = memory[(byte / 4 + word) as usize];
                checks.expect_scalar(format_args!("s_load_{name} {offset}"), format_args!("s{}", 20 + word), value);
            }
        }
        // A resource of 96 bytes: dwords past its end read 0.
        checks.line("s_mov_b32 s44, s84\ns_and_b32 s45, s85, 0xffff").scalar("s46", 96).scalar("s47", 0x0002_0000);
        checks.line(format_args!("s_buffer_load_{name} {to}, s[44:47], 0x58\ns_waitcnt lgkmcnt(0)"));
        for word in 0..count {
            let value = if 22 + word < 24 { memory[(22 + word) as usize] } else { 0 };
            checks.expect_scalar(format_args!("s_buffer_load_{name}"), format_args!("s{}", 20 + word), value);
        }
    }
    checks.scalar64(20, 0xaaaa_bbbb_cccc_dddd).scalar64(22, 0x1111_2222_3333_4444).scalar("s40", 8);
    checks.line("s_store_dword s20, s[84:85], 0x0\ns_store_dwordx2 s[20:21], s[84:85], s40\ns_store_dwordx4 s[20:23], s[84:85], 0x20");
    after[0] = 0xcccc_dddd;
    after[2..4].copy_from_slice(&[0xcccc_dddd, 0xaaaa_bbbb]);
    after[8..12].copy_from_slice(&[0xcccc_dddd, 0xaaaa_bbbb, 0x3333_4444, 0x1111_2222]);
    checks.line("s_buffer_store_dwordx4 s[20:23], s[44:47], 0x58");
    after[22..24].copy_from_slice(&[0xcccc_dddd, 0xaaaa_bbbb]);
    checks.line("s_dcache_wb\ns_dcache_inv\ns_memtime s[20:21]\ns_nop 0\ns_memtime s[22:23]\ns_waitcnt lgkmcnt(0)");
    checks.line("s_sub_u32 s22, s22, s20\ns_cmp_gt_u32 s22, 0\ns_cselect_b32 s22, 1, 0").expect_scalar(
        "time goes on",
        "s22",
        1,
    );
    checks.run(&memory, &after);
}

#[test]
fn scalar_atomics() {
    type Atomic = (&'static str, fn(u64, u64, u32) -> u64);
    let list: [Atomic; 12] = [
        ("swap", |_, data, _| data),
        ("add", |old, data, _| old.wrapping_add(data)),
        ("sub", |old, data, _| old.wrapping_sub(data)),
        (
            "smin",
            |old, data, bits| if ((old << (64 - bits)) as i64) < ((data << (64 - bits)) as i64) { old } else { data },
        ),
        ("umin", |old, data, _| old.min(data)),
        (
            "smax",
            |old, data, bits| if ((old << (64 - bits)) as i64) > ((data << (64 - bits)) as i64) { old } else { data },
        ),
        ("umax", |old, data, _| old.max(data)),
        ("and", |old, data, _| old & data),
        ("or", |old, data, _| old | data),
        ("xor", |old, data, _| old ^ data),
        ("inc", |old, data, _| if old >= data { 0 } else { old + 1 }),
        ("dec", |old, data, _| if old == 0 || old > data { data } else { old - 1 }),
    ];
    let mut checks = Checks::new(Arch::Gfx90a);
    let (mut memory, mut after) = (Vec::new(), Vec::new());
    for (name, change) in list {
        for (old, data) in [(5_u64, 0xffff_fff0_u64), (0xffff_ffff, 5), (7, 7)] {
            let at = memory.len() * 4;
            memory.extend([old as u32, 0]);
            after.extend([change(old, data, 32) as u32, 0]);
            checks
                .scalar("s20", data as u32)
                .line(format_args!("s_atomic_{name} s20, s[84:85], {at:#x} glc\ns_waitcnt lgkmcnt(0)"));
            checks.expect_scalar(format_args!("s_atomic_{name} {old:#x} {data:#x}"), "s20", old as u32);
            let at = memory.len() * 4;
            let (old, data) = (old << 20, data << 31);
            memory.extend([old as u32, (old >> 32) as u32]);
            let new = change(old, data, 64);
            after.extend([new as u32, (new >> 32) as u32]);
            checks
                .scalar64(20, data)
                .line(format_args!("s_atomic_{name}_x2 s[20:21], s[84:85], {at:#x} glc\ns_waitcnt lgkmcnt(0)"));
            checks.expect_scalar(format_args!("s_atomic_{name}_x2"), "s20", old as u32);
            checks.expect_scalar(format_args!("s_atomic_{name}_x2 high"), "s21", (old >> 32) as u32);
        }
    }
    // Compare and swap, through a resource: the new value first, the comparand behind it.
    checks.line("s_mov_b32 s44, s84\ns_and_b32 s45, s85, 0xffff").scalar("s46", 1 << 16).scalar("s47", 0x0002_0000);
    for (old, comparand) in [(3, 3), (3, 4)] {
        let at = memory.len() * 4;
        memory.push(old);
        after.push(if old == comparand { 99 } else { old });
        checks.scalar("s20", 99).scalar("s21", comparand);
        checks.line(format_args!("s_buffer_atomic_cmpswap s[20:21], s[44:47], {at:#x} glc\ns_waitcnt lgkmcnt(0)"));
        checks.expect_scalar("s_buffer_atomic_cmpswap", "s20", old);
    }
    checks.run(&memory, &after);
}
