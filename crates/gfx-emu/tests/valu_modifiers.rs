//! DPP, SDWA, half selects, masks, lane operations, narrow floats, and the modes that redirect registers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod valu_common;

use kbench_gfx_emu::exec::{Level, Vreg, Wave, compile};
use kbench_gfx_emu::isa::{Arch, Dpp, Encoding, Operand, Sdwa};
use std::cmp::Ordering::{Equal, Greater, Less};
use valu_common::*;

fn lane_numbers() -> Vreg {
    Vreg(std::array::from_fn(|lane| 100 + lane as u32))
}

/// `v_mov_b32` with a DPP control: v1 holds lane numbers, v40 all ones.
fn dpp(ctrl: u16, row_mask: u8, bank_mask: u8, bound_ctrl: bool, exec: u64) -> [u32; 64] {
    let mut before = wave(DEFAULT_MODE);
    before.vgpr[1] = lane_numbers();
    before.vgpr[usize::from(D)] = Vreg([!0; 64]);
    before.set_exec(exec);
    let mut instruction = vector("v_mov_b32", Encoding::Vop1, &[v(1)]);
    instruction.mods.dpp = Some(Dpp { ctrl, row_mask, bank_mask, bound_ctrl, fetch_inactive: false });
    run(Arch::Gfx942, &instruction, &before).vgpr[usize::from(D)].0
}

#[test]
fn dpp_controls() {
    // Where each control reads, from the names of the controls in the assembler's documentation.
    let check = |ctrl: u16, from: &dyn Fn(i32) -> Option<i32>| {
        let bounded = dpp(ctrl, 15, 15, true, !0);
        let kept = dpp(ctrl, 15, 15, false, !0);
        for lane in 0..64 {
            let source = from(lane);
            let value = source.map(|from| 100 + from as u32);
            assert_eq!(bounded[lane as usize], value.unwrap_or(0), "ctrl {ctrl:#x} lane {lane}, bound_ctrl");
            assert_eq!(kept[lane as usize], value.unwrap_or(!0), "ctrl {ctrl:#x} lane {lane}");
        }
    };
    // quad_perm:[3,2,1,0] and [1,1,3,0].
    check(0x1b, &|lane| Some(lane / 4 * 4 + 3 - lane % 4));
    check(0b00_11_01_01, &|lane| Some(lane / 4 * 4 + [1, 1, 3, 0][lane as usize % 4]));
    for n in 1..16 {
        check(0x100 + n as u16, &|lane| (lane % 16 + n < 16).then_some(lane + n));
        check(0x110 + n as u16, &|lane| (lane % 16 - n >= 0).then_some(lane - n));
        check(0x120 + n as u16, &|lane| Some(lane / 16 * 16 + (lane % 16 - n).rem_euclid(16)));
        check(0x150 + n as u16, &|lane| Some(lane / 16 * 16 + n));
    }
    check(0x130, &|lane| (lane < 63).then_some(lane + 1));
    check(0x134, &|lane| Some((lane + 1) % 64));
    check(0x138, &|lane| (lane > 0).then_some(lane - 1));
    check(0x13c, &|lane| Some((lane + 63) % 64));
    check(0x140, &|lane| Some(lane / 16 * 16 + 15 - lane % 16));
    check(0x141, &|lane| Some(lane / 8 * 8 + 7 - lane % 8));
    check(0x142, &|lane| (lane >= 16).then_some(lane / 16 * 16 - 1));
    check(0x143, &|lane| (lane >= 32).then_some(31));
}

#[test]
fn dpp_masks_and_inactive_sources() {
    let rows = dpp(0xe4, 0b0101, 15, true, !0);
    let banks = dpp(0xe4, 15, 0b0010, true, !0);
    for lane in 0..64 {
        let value = 100 + lane as u32;
        assert_eq!(rows[lane], if lane / 16 % 2 == 0 { value } else { !0 });
        assert_eq!(banks[lane], if lane / 4 % 4 == 1 { value } else { !0 });
    }
    // row_shl:1 with odd lanes off: even lanes have no source.
    let even = 0x5555_5555_5555_5555;
    let zero = dpp(0x101, 15, 15, true, even);
    let kept = dpp(0x101, 15, 15, false, even);
    for lane in 0..64 {
        assert_eq!(zero[lane], if lane % 2 == 0 { 0 } else { !0 }, "lane {lane}");
        assert_eq!(kept[lane], !0);
    }
    // Controls that do not exist are refused.
    let mut instruction = vector("v_mov_b32", Encoding::Vop1, &[v(1)]);
    instruction.mods.dpp =
        Some(Dpp { ctrl: 0x145, row_mask: 15, bank_mask: 15, bound_ctrl: false, fetch_inactive: false });
    assert!(compile(&compiler(Arch::Gfx942, Level::Base), &instruction).is_err());
}

#[test]
fn sdwa_selects() {
    let mut before = wave(DEFAULT_MODE);
    before.vgpr[0] = Vreg([0x8899_aabb; 64]);
    before.vgpr[1] = Vreg([0x0102_0304; 64]);
    before.vgpr[usize::from(D)] = Vreg([0xdead_beef; 64]);
    let run1 = |sel: [u8; 2], sext: [bool; 2], dst_sel: u8, dst_unused: u8| {
        let mut instruction = vector("v_add_u32", Encoding::Vop2, &[v(0), v(1)]);
        instruction.mods.sdwa = Some(Sdwa { dst_sel, dst_unused, src_sel: sel, sext });
        run(Arch::Gfx942, &instruction, &before).vgpr[usize::from(D)].0[17]
    };
    let no = [false, false];
    assert_eq!(run1([0, 3], no, 6, 0), 0xbb + 0x01);
    assert_eq!(run1([3, 0], no, 6, 0), 0x88 + 0x04);
    assert_eq!(run1([5, 4], no, 6, 0), 0x8899 + 0x0304);
    assert_eq!(run1([0, 6], [true, false], 6, 0), 0xffff_ffbbu32.wrapping_add(0x0102_0304));
    // Destination: byte 2, padded, sign-extended, preserved.
    assert_eq!(run1([0, 3], no, 2, 0), 0x00bc_0000);
    assert_eq!(run1([0, 3], no, 2, 1), 0xffbc_0000);
    assert_eq!(run1([0, 3], no, 2, 2), 0xdebc_beef);
    assert_eq!(run1([0, 3], no, 5, 2), 0x00bc_beef);
    assert_eq!(run1([0, 3], no, 4, 1), 0x0000_00bc);
}

#[test]
fn half_selects_and_upper_halves() {
    let mut before = wave(DEFAULT_MODE);
    before.vgpr[0] = Vreg([0x4000_3c00; 64]);
    before.vgpr[1] = Vreg([0x4200_4400; 64]);
    before.vgpr[2] = Vreg([0x0000_3c00; 64]);
    before.vgpr[usize::from(D)] = Vreg([0xdead_beef; 64]);
    let fma = |op_sel: u8| {
        let mut instruction = vector("v_fma_f16", Encoding::Vop3, &[v(0), v(1), v(2)]);
        instruction.mods.op_sel = op_sel;
        run(Arch::Gfx942, &instruction, &before).vgpr[usize::from(D)].0[0]
    };
    // 1 · 4 + 1 = 5 and 2 · 3 + 1 = 7; the other half stays.
    assert_eq!(fma(0), 0xdead_4500);
    assert_eq!(fma(0b1011), 0x4700_beef);
    // Most 16-bit operations clear the upper half.
    let add = run(Arch::Gfx942, &vector("v_add_f16", Encoding::Vop2, &[v(0), v(1)]), &before);
    assert_eq!(add.vgpr[usize::from(D)].0[0], 0x4500);
    // Packed: low from high halves and the other way round, negated apart.
    let mut packed = vector("v_pk_add_f16", Encoding::Vop3p, &[v(0), v(1)]);
    packed.mods.op_sel = 0b01;
    packed.mods.op_sel_hi = 0b10;
    packed.mods.neg = 0b10;
    // 2 - 4 = -2; 1 + 3 = 4.
    assert_eq!(run(Arch::Gfx942, &packed, &before).vgpr[usize::from(D)].0[5], 0x4400_c000);
    // A constant half in both places: 1 + 1 and 2 + 1.
    let mut constant = vector("v_pk_add_f16", Encoding::Vop3p, &[v(0), Operand::Inline(242)]);
    constant.mods.op_sel_hi = 0b01;
    assert_eq!(run(Arch::Gfx942, &constant, &before).vgpr[usize::from(D)].0[5], 0x4200_4000);
}

#[test]
fn signs_and_clamps() {
    let mut before = wave(DEFAULT_MODE);
    before.vgpr[0] = Vreg([(-3f32).to_bits(); 64]);
    before.vgpr[1] = Vreg([2f32.to_bits(); 64]);
    let mut instruction = vector("v_mul_f32", Encoding::Vop3, &[v(0), v(1)]);
    let result = |instruction| f32::from_bits(run(Arch::Gfx942, &instruction, &before).vgpr[usize::from(D)].0[3]);
    instruction.mods.abs = 1;
    assert_eq!(result(instruction), 6.0);
    instruction.mods.neg = 3;
    assert_eq!(result(instruction), 6.0);
    instruction.mods.neg = 1;
    assert_eq!(result(instruction), -6.0);
    instruction.mods.clamp = true;
    assert_eq!(result(instruction), 0.0);
    instruction.mods.neg = 0;
    assert_eq!(result(instruction), 1.0);
    // Output modifiers count only without IEEE and output denormals.
    instruction.mods.clamp = false;
    instruction.mods.omod = 2;
    assert_eq!(result(instruction), 6.0);
    before.mode.0 = 0;
    let scaled = run(Arch::Gfx942, &instruction, &before).vgpr[usize::from(D)].0[3];
    assert_eq!(f32::from_bits(scaled), 24.0);
}

#[test]
fn carries() {
    let mut random = Random(17);
    let mut before = wave(DEFAULT_MODE);
    before.vgpr[0] = Vreg(std::array::from_fn(|_| random.interesting()));
    before.vgpr[1] = Vreg(std::array::from_fn(|_| random.interesting()));
    before.set_s64(10, random.next());
    before.set_s64(12, !0);
    for exec in [!0, random.next()] {
        before.set_exec(exec);
        for (name, sign) in [("v_add_co_u32", 1i64), ("v_addc_co_u32", 1), ("v_sub_co_u32", -1), ("v_subb_co_u32", -1)]
        {
            let carries = name.contains("addc") || name.contains("subb");
            let sources = if carries { vec![v(0), v(1), s(10)] } else { vec![v(0), v(1)] };
            let after = run(Arch::Gfx942, &inst(name, Encoding::Vop3b, [v(D), s(12)], &sources), &before);
            for lane in 0..64 {
                let (a, b) = (i64::from(before.vgpr[0].0[lane]), i64::from(before.vgpr[1].0[lane]));
                let carry = if carries { (before.s64(10) >> lane & 1) as i64 } else { 0 };
                let exact = a + sign * (b + carry);
                let active = exec >> lane & 1 == 1;
                let wanted = if active { exact.rem_euclid(1 << 32) as u32 } else { 0 };
                assert_eq!(after.vgpr[usize::from(D)].0[lane], wanted, "{name}");
                let out = active && !(0..1 << 32).contains(&exact);
                assert_eq!(after.s64(12) >> lane & 1 == 1, out, "{name} carry, lane {lane}");
            }
        }
    }
}

#[test]
fn wide_multiply_add() {
    let mut random = Random(23);
    let mut before = wave(DEFAULT_MODE);
    for register in &mut before.vgpr[..4] {
        *register = Vreg(std::array::from_fn(|_| random.interesting()));
    }
    for (name, signed) in [("v_mad_u64_u32", false), ("v_mad_i64_i32", true)] {
        let after = run(Arch::Gfx942, &inst(name, Encoding::Vop3b, [v(D), s(12)], &[v(0), v(1), v(2)]), &before);
        for lane in 0..64 {
            let [a, b, low, high] = [0, 1, 2, 3].map(|r: usize| before.vgpr[r].0[lane]);
            let addend = u64::from(low) | u64::from(high) << 32;
            let exact = if signed {
                i128::from(a as i32) * i128::from(b as i32) + i128::from(addend as i64)
            } else {
                i128::from(a) * i128::from(b) + i128::from(addend)
            };
            let d = usize::from(D);
            let got = u64::from(after.vgpr[d].0[lane]) | u64::from(after.vgpr[d + 1].0[lane]) << 32;
            assert_eq!(got, exact as u64, "{name}");
            assert_eq!(after.s64(12) >> lane & 1, (exact >> 64) as u64 & 1, "{name} carry");
        }
    }
}

#[test]
fn compares() {
    let mut random = Random(29);
    let mut before = wave(DEFAULT_MODE);
    for register in &mut before.vgpr[..2] {
        *register = Vreg(std::array::from_fn(|_| random.interesting()));
    }
    let equal = before.vgpr[0];
    before.vgpr[1].0[..8].copy_from_slice(&equal.0[..8]);
    let exec = random.next() | 0xff;
    before.set_exec(exec);
    let (a, b) = (before.vgpr[0], before.vgpr[1]);
    type Test = fn(u32, u32) -> bool;
    let cases: &[(&str, Test)] = &[
        ("lt_f32", |a, b| f32::from_bits(a) < f32::from_bits(b)),
        ("eq_f32", |a, b| f32::from_bits(a) == f32::from_bits(b)),
        ("le_f32", |a, b| f32::from_bits(a) <= f32::from_bits(b)),
        ("gt_f32", |a, b| f32::from_bits(a) > f32::from_bits(b)),
        ("lg_f32", |a, b| f32::from_bits(a) < f32::from_bits(b) || f32::from_bits(a) > f32::from_bits(b)),
        ("ge_f32", |a, b| f32::from_bits(a) >= f32::from_bits(b)),
        ("o_f32", |a, b| !f32::from_bits(a).is_nan() && !f32::from_bits(b).is_nan()),
        ("u_f32", |a, b| f32::from_bits(a).is_nan() || f32::from_bits(b).is_nan()),
        ("nge_f32", |a, b| !matches!(f32::from_bits(a).partial_cmp(&f32::from_bits(b)), Some(Greater | Equal))),
        ("nlt_f32", |a, b| f32::from_bits(a).partial_cmp(&f32::from_bits(b)) != Some(Less)),
        ("neq_f32", |a, b| f32::from_bits(a) != f32::from_bits(b)),
        ("tru_f32", |_, _| true),
        ("lt_i32", |a, b| (a as i32) < b as i32),
        ("ge_u32", |a, b| a >= b),
        ("ne_i16", |a, b| a as u16 != b as u16),
        ("gt_u16", |a, b| a as u16 > b as u16),
        ("lt_f16", |a, b| half::f16::from_bits(a as u16) < half::f16::from_bits(b as u16)),
    ];
    for (condition, test) in cases {
        let wanted = (0..64).filter(|&i| exec >> i & 1 == 1 && test(a.0[i], b.0[i])).fold(0u64, |m, i| m | 1 << i);
        let plain = format!("v_cmp_{condition}");
        let vcc = run(Arch::Gfx942, &inst(&plain, Encoding::Vopc, [s(106), Operand::None], &[v(0), v(1)]), &before);
        assert_eq!(vcc.vcc(), wanted, "{plain}");
        assert_eq!(vcc.exec(), exec);
        let exclusive = format!("v_cmpx_{condition}");
        let both = run(Arch::Gfx942, &inst(&exclusive, Encoding::Vop3, [s(20), Operand::None], &[v(0), v(1)]), &before);
        assert_eq!((both.s64(20), both.exec()), (wanted, wanted), "{exclusive}");
    }
}

#[test]
fn classes() {
    // One number of each class, in the order of the mask's bits.
    let classes = [
        0x7f80_0001,
        0x7fc0_0000,
        0xff80_0000,
        0xbf80_0000,
        0x8000_0001,
        0x8000_0000,
        0,
        1,
        0x3f80_0000,
        0x7f80_0000u32,
    ];
    let mut before = wave(DEFAULT_MODE);
    before.vgpr[0] = Vreg(std::array::from_fn(|lane| classes[lane % 10]));
    for bit in 0..10 {
        before.vgpr[1] = Vreg([1 << bit; 64]);
        let instruction = inst("v_cmp_class_f32", Encoding::Vopc, [s(106), Operand::None], &[v(0), v(1)]);
        let after = run(Arch::Gfx942, &instruction, &before);
        for lane in 0..64 {
            assert_eq!(after.vcc() >> lane & 1 == 1, lane % 10 == bit, "class {bit} lane {lane}");
        }
    }
}

#[test]
fn lanes_are_read_written_and_counted() {
    let mut before = wave(DEFAULT_MODE);
    before.vgpr[1] = lane_numbers();
    before.set_exec(0xff00);
    let scalar = |name: &str, src: &[Operand], before: &Wave| {
        run(Arch::Gfx942, &inst(name, Encoding::Vop3, [s(5), Operand::None], src), before).sgpr[5]
    };
    assert_eq!(scalar("v_readfirstlane_b32", &[v(1)], &before), 108);
    before.sgpr[7] = 64 + 33;
    assert_eq!(scalar("v_readlane_b32", &[v(1), s(7)], &before), 133);
    let written =
        run(Arch::Gfx942, &vector("v_writelane_b32", Encoding::Vop3, &[s(7), Operand::Inline(128 + 2)]), &before);
    assert_eq!(written.vgpr[usize::from(D)].0[2], 97);
    before.set_exec(0);
    assert_eq!(scalar("v_readfirstlane_b32", &[v(1)], &before), 100);
    before.set_exec(!0);
    let mut random = Random(31);
    let mask = random.next();
    before.set_s64(8, mask);
    let low = run(Arch::Gfx942, &vector("v_mbcnt_lo_u32_b32", Encoding::Vop3, &[s(8), Operand::Inline(128)]), &before);
    let both = run(Arch::Gfx942, &vector("v_mbcnt_hi_u32_b32", Encoding::Vop3, &[s(9), v(D)]), &low);
    for lane in 0..64 {
        assert_eq!(both.vgpr[usize::from(D)].0[lane], (mask & ((1 << lane) - 1)).count_ones());
    }
}

#[test]
fn swaps_and_accumulation_registers() {
    let mut before = wave(DEFAULT_MODE);
    before.vgpr[usize::from(D)] = lane_numbers();
    before.vgpr[1] = Vreg(std::array::from_fn(|lane| 200 + lane as u32));
    let halves = run(Arch::Gfx950, &vector("v_permlane32_swap_b32", Encoding::Vop1, &[v(1)]), &before);
    let rows = run(Arch::Gfx950, &vector("v_permlane16_swap_b32", Encoding::Vop1, &[v(1)]), &before);
    for lane in 0..64usize {
        let (d, s) = (100 + lane as u32, 200 + lane as u32);
        assert_eq!(halves.vgpr[usize::from(D)].0[lane], if lane >= 32 { s - 32 } else { d });
        assert_eq!(halves.vgpr[1].0[lane], if lane < 32 { d + 32 } else { s });
        assert_eq!(rows.vgpr[usize::from(D)].0[lane], if lane / 16 % 2 == 1 { s - 16 } else { d });
        assert_eq!(rows.vgpr[1].0[lane], if lane / 16 % 2 == 0 { d + 16 } else { s });
    }
    before.set_exec(0xff);
    let acc = [Operand::Agpr(3), Operand::None];
    let moved = run(Arch::Gfx942, &inst("v_accvgpr_write_b32", Encoding::Vop3p, acc, &[v(1)]), &before);
    assert_eq!((moved.agpr[3].0[7], moved.agpr[3].0[8]), (207, 0));
    let back = run(Arch::Gfx942, &vector("v_accvgpr_read_b32", Encoding::Vop3p, &[Operand::Agpr(3)]), &moved);
    assert_eq!((back.vgpr[usize::from(D)].0[7], back.vgpr[usize::from(D)].0[8]), (207, 108));
}

#[test]
fn index_mode_and_skip() {
    let mut before = wave(DEFAULT_MODE | 1 << 27);
    before.vgpr[7] = lane_numbers();
    // Offset 6, for source 0 only.
    before.sgpr[124] = 6 | 1 << 12;
    let mov = vector("v_mov_b32", Encoding::Vop1, &[v(1)]);
    assert_eq!(run(Arch::Gfx942, &mov, &before).vgpr[usize::from(D)], lane_numbers());
    // For the destination only, and beyond the registers: nothing is written.
    before.vgpr[1] = lane_numbers();
    before.sgpr[124] = 3 | 8 << 12;
    assert_eq!(run(Arch::Gfx942, &mov, &before).vgpr[usize::from(D) + 3], lane_numbers());
    before.sgpr[124] = 250 | 8 << 12;
    assert_eq!(run(Arch::Gfx942, &mov, &before).vgpr, before.vgpr);
    // A source beyond the registers reads v0.
    before.vgpr[0] = Vreg([77; 64]);
    before.sgpr[124] = 250 | 1 << 12;
    assert_eq!(run(Arch::Gfx942, &mov, &before).vgpr[usize::from(D)].0[9], 77);
    before.mode.0 = DEFAULT_MODE | 1 << 28;
    assert_eq!(run(Arch::Gfx942, &mov, &before).vgpr, before.vgpr);
}

#[test]
fn packed_singles() {
    let mut before = wave(DEFAULT_MODE);
    for (register, value) in [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0].iter().enumerate() {
        before.vgpr[register] = Vreg([value.to_bits(); 64]);
    }
    let pair = |w: &Wave| [0, 1].map(|i| f32::from_bits(w.vgpr[usize::from(D) + i].0[11]));
    let mut fma = vector("v_pk_fma_f32", Encoding::Vop3p, &[v(0), v(2), v(4)]);
    assert_eq!(pair(&run(Arch::Gfx942, &fma, &before)), [1.0 * 3.0 + 5.0, 2.0 * 4.0 + 6.0]);
    // Low of source 0 in both, halves of source 1 exchanged, high addend negated.
    fma.mods.op_sel = 0b010;
    fma.mods.op_sel_hi = 0b100;
    fma.mods.abs = 0b100;
    assert_eq!(pair(&run(Arch::Gfx942, &fma, &before)), [1.0 * 4.0 + 5.0, 1.0 * 3.0 - 6.0]);
    before.sgpr[20] = 10f32.to_bits();
    before.sgpr[21] = 20f32.to_bits();
    let mul = vector("v_pk_mul_f32", Encoding::Vop3p, &[v(0), s(20)]);
    assert_eq!(pair(&run(Arch::Gfx942, &mul, &before)), [10.0, 40.0]);
    let mut half = vector("v_pk_mul_f32", Encoding::Vop3p, &[v(0), Operand::Inline(240)]);
    half.mods.op_sel_hi = 0b01;
    assert_eq!(pair(&run(Arch::Gfx942, &half, &before)), [0.5, 1.0]);
    let mut mov = vector("v_pk_mov_b32", Encoding::Vop3p, &[v(0), v(2)]);
    mov.mods.op_sel = 0b01;
    assert_eq!(pair(&run(Arch::Gfx942, &mov, &before)), [2.0, 3.0]);
}

#[test]
fn mixed_multiply_add() {
    let mut before = wave(DEFAULT_MODE);
    before.vgpr[0] = Vreg([0x4200_4000; 64]);
    before.vgpr[1] = Vreg([1.5f32.to_bits(); 64]);
    before.vgpr[2] = Vreg([0.25f32.to_bits(); 64]);
    before.vgpr[usize::from(D)] = Vreg([0xdead_beef; 64]);
    let mut mix = vector("v_fma_mix_f32", Encoding::Vop3p, &[v(0), v(1), v(2)]);
    mix.mods.op_sel_hi = 0b001;
    let value = |w: &Wave| w.vgpr[usize::from(D)].0[0];
    assert_eq!(f32::from_bits(value(&run(Arch::Gfx942, &mix, &before))), 2.0 * 1.5 + 0.25);
    mix.mods.op_sel = 0b001;
    mix.mods.neg = 0b001;
    assert_eq!(f32::from_bits(value(&run(Arch::Gfx942, &mix, &before))), -3.0 * 1.5 + 0.25);
    let mut high = mix;
    high.op = op("v_fma_mixhi_f16");
    assert_eq!(value(&run(Arch::Gfx942, &high, &before)), 0xc440_beef);
}

/// The value of an eight-bit code by the definition of its format.
fn eight(code: u32, exponent_bits: u32, bias: i32, fnuz: bool) -> Option<f64> {
    let fraction_bits = 7 - exponent_bits;
    let field = (code >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
    let fraction = f64::from(code & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
    let sign = if code & 0x80 != 0 { -1.0 } else { 1.0 };
    if fnuz && code == 0x80 {
        return None;
    }
    if !fnuz && exponent_bits == 4 && code & 0x7f == 0x7f {
        return None;
    }
    if !fnuz && exponent_bits == 5 && field == 31 {
        return (fraction == 0.0).then_some(sign * f64::INFINITY);
    }
    Some(sign * if field == 0 { fraction * 2f64.powi(1 - bias) } else { (1.0 + fraction) * 2f64.powi(field - bias) })
}

#[test]
fn eight_bit_floats() {
    for (arch, fnuz) in [(Arch::Gfx942, true), (Arch::Gfx950, false)] {
        for (kind, exponent_bits, ocp_bias) in [("fp8", 4, 7), ("bf8", 5, 15)] {
            let bias = ocp_bias + i32::from(fnuz);
            let value = |code| eight(code, exponent_bits, bias, fnuz);
            // Every code to f32.
            for first in (0..256).step_by(64) {
                let mut before = wave(DEFAULT_MODE);
                before.vgpr[0] = Vreg(std::array::from_fn(|lane| first + lane as u32));
                let after = run(arch, &vector(&format!("v_cvt_f32_{kind}"), Encoding::Vop1, &[v(0)]), &before);
                for lane in 0..64 {
                    let got = f32::from_bits(after.vgpr[usize::from(D)].0[lane]);
                    match value(first + lane as u32) {
                        None => assert!(got.is_nan()),
                        Some(wanted) => assert_eq!(f64::from(got).to_bits(), wanted.to_bits(), "{kind} {first}+{lane}"),
                    }
                }
            }
            // f32 to the nearest code, ties to even, by search over all finite codes.
            let finite: Vec<(u32, f64)> =
                (0..256).filter_map(|c| value(c).filter(|x| x.is_finite()).map(|x| (c, x))).collect();
            let largest = finite.iter().map(|x| x.1).fold(0.0, f64::max);
            let mut random = Random(41);
            for round in 0..64 {
                let inputs: [u32; 64] = std::array::from_fn(|lane| {
                    if round < 8 {
                        // Codes and the middles between codes.
                        let (a, b) = (
                            finite[(round * 64 + lane) % finite.len()].1,
                            finite[(round * 64 + lane + 1) % finite.len()].1,
                        );
                        (if round % 2 == 0 { a as f32 } else { ((a + b) / 2.0) as f32 }).to_bits()
                    } else {
                        ((random.next() as f32 / u64::MAX as f32 * 2.0 - 1.0) * 2f32.powi(random.next() as i32 % 20))
                            .to_bits()
                    }
                });
                let mut before = wave(DEFAULT_MODE);
                before.vgpr[0] = Vreg(inputs);
                before.vgpr[usize::from(D)] = Vreg([0xdead_beef; 64]);
                let name = format!("v_cvt_pk_{kind}_f32");
                let after = run(arch, &vector(&name, Encoding::Vop3, &[v(0), v(0)]), &before);
                for lane in 0..64 {
                    let x = f64::from(f32::from_bits(inputs[lane]));
                    let got = after.vgpr[usize::from(D)].0[lane];
                    assert_eq!(got >> 16, 0xdead);
                    assert_eq!(got >> 8 & 0xff, got & 0xff);
                    // Only what is less than half a step beyond the largest number is a number.
                    let step = largest / f64::from(if exponent_bits == 4 { if fnuz { 15 } else { 14 } } else { 7 });
                    let code = got & 0xff;
                    if x.abs() > largest + step / 2.0 {
                        assert!(value(code).is_none_or(f64::is_infinite), "{name} {x:e}: {code:#x}");
                    } else if x.abs() < largest {
                        let best = finite
                            .iter()
                            .filter(|(c, y)| (c & 0x80 != 0) == (x < 0.0) || (fnuz && *y == 0.0))
                            .min_by(|p, q| {
                                let (d, e) = ((p.1 - x).abs(), (q.1 - x).abs());
                                d.total_cmp(&e).then((p.0 & 1).cmp(&(q.0 & 1)))
                            });
                        let wanted = if fnuz && value(best.unwrap().0) == Some(0.0) { 0 } else { best.unwrap().0 };
                        let same_zero = value(code) == Some(0.0) && best.unwrap().1 == 0.0;
                        assert!(code == wanted || same_zero, "{name} {x:e}: {code:#x}, not {wanted:#x}");
                    }
                }
            }
            // Saturation with FP16_OVFL, also of infinity.
            let mut before = wave(DEFAULT_MODE | 1 << 23);
            before.vgpr[0] = Vreg([0x7f80_0000; 64]);
            before.vgpr[1] = Vreg([0xc87a_0000; 64]);
            let after = run(arch, &vector(&format!("v_cvt_pk_{kind}_f32"), Encoding::Vop3, &[v(0), v(1)]), &before);
            let got = after.vgpr[usize::from(D)].0[0];
            assert_eq!([value(got & 0xff), value(got >> 8 & 0xff)], [Some(largest), Some(-largest)]);
        }
    }
}

#[test]
fn stochastic_rounding_truncates_after_adding() {
    let mut before = wave(DEFAULT_MODE);
    // 1 + 3/32 lies 3/4 of the way from 1 to 1.125 in E4M3: it is rounded up when the random number is at least a quarter.
    before.vgpr[0] = Vreg([(1.0f32 + 3.0 / 32.0).to_bits(); 64]);
    before.vgpr[1] = Vreg(std::array::from_fn(|lane| (lane as u32) << 26));
    before.vgpr[usize::from(D)] = Vreg([0; 64]);
    let mut instruction = vector("v_cvt_sr_fp8_f32", Encoding::Vop3, &[v(0), v(1)]);
    instruction.mods.op_sel = 0b1000;
    let after = run(Arch::Gfx942, &instruction, &before);
    for lane in 0..64 {
        let code = after.vgpr[usize::from(D)].0[lane] >> 16;
        assert_eq!(code, if lane >= 16 { 0x41 } else { 0x40 }, "lane {lane}");
    }
}

#[test]
fn scaled_conversions() {
    let mut before = wave(DEFAULT_MODE);
    before.vgpr[0] = Vreg([12.0f32.to_bits(); 64]);
    before.vgpr[1] = Vreg([(-4.0f32).to_bits(); 64]);
    // The scale is the exponent: 2^2.
    before.vgpr[2] = Vreg([5.0f32.to_bits(); 64]);
    before.vgpr[usize::from(D)] = Vreg([0; 64]);
    let run3 = |name: &str, src: &[Operand], op_sel: u8, before: &Wave| {
        let mut instruction = vector(name, Encoding::Vop3, src);
        instruction.mods.op_sel = op_sel;
        run(Arch::Gfx950, &instruction, before)
    };
    // 3 is 0x44 in OCP E4M3, -1 is 0xb8; in E2M1 they are 5 and 0xa.
    let fp8 = run3("v_cvt_scalef32_pk_fp8_f32", &[v(0), v(1), v(2)], 0b1000, &before);
    assert_eq!(fp8.vgpr[usize::from(D)].0[0], 0xb844_0000);
    let fp4 = run3("v_cvt_scalef32_pk_fp4_f32", &[v(0), v(1), v(2)], 0b0100, &before);
    assert_eq!(fp4.vgpr[usize::from(D)].0[0], 0xa500);
    // And back: times 2^2.
    let mut packed = wave(DEFAULT_MODE);
    packed.vgpr[0] = Vreg([0xa5b8_4400; 64]);
    packed.vgpr[2] = before.vgpr[2];
    let wide = run3("v_cvt_scalef32_pk_f32_fp4", &[v(0), v(2)], 0b0011, &packed);
    assert_eq!([0, 1].map(|i| f32::from_bits(wide.vgpr[usize::from(D) + i].0[63])), [12.0, -4.0]);
    let half = run3("v_cvt_scalef32_f16_fp8", &[v(0), v(2)], 0b0001, &packed);
    assert_eq!(half.vgpr[usize::from(D)].0[1], 0x4a00);
    // Thirty-two f32 to fp6 and back through the interleaving form.
    let mut many = wave(DEFAULT_MODE);
    let values =
        |n: usize| [0.0, 0.125, 0.5, 1.0, 1.75, 2.0, 4.5, 7.5][n % 8] * if n.is_multiple_of(3) { -1.0f32 } else { 1.0 };
    for n in 0..16 {
        many.vgpr[n] = Vreg([values(2 * n).to_bits(); 64]);
        many.vgpr[16 + n] = Vreg([values(2 * n + 1).to_bits(); 64]);
    }
    many.vgpr[63] = Vreg([1f32.to_bits(); 64]);
    let mut small = run3("v_cvt_scalef32_2xpk16_fp6_f32", &[v(0), v(16), v(63)], 0, &many);
    for n in 0..6 {
        small.vgpr[n] = small.vgpr[usize::from(D) + n];
    }
    let mut back = vector("v_cvt_scalef32_pk32_f32_fp6", Encoding::Vop3, &[v(0), v(63)]);
    back.dst[0] = v(8);
    let back = run(Arch::Gfx950, &back, &small);
    for n in 0..32 {
        assert_eq!(f32::from_bits(back.vgpr[8 + n].0[5]), values(n), "item {n}");
    }
}

#[test]
fn three_input_tables() {
    let mut random = Random(47);
    let mut before = wave(DEFAULT_MODE);
    for register in &mut before.vgpr[..3] {
        *register = Vreg(std::array::from_fn(|_| random.next() as u32));
    }
    for table in [0u8, 0xff, 0x96, 0xe8, 0xca, 0x1d] {
        let mut instruction = vector("v_bitop3_b32", Encoding::Vop3, &registers3());
        (instruction.mods.omod, instruction.mods.abs, instruction.mods.neg) = (table >> 6, table >> 3 & 7, table & 7);
        let after = run(Arch::Gfx950, &instruction, &before);
        for bit in 0..32 {
            let [a, b, c] = [0, 1, 2].map(|i: usize| before.vgpr[i].0[9] >> bit & 1);
            assert_eq!(after.vgpr[usize::from(D)].0[9] >> bit & 1, u32::from(table) >> (4 * a + 2 * b + c) & 1);
        }
    }
}

fn registers3() -> [Operand; 3] {
    [v(0), v(1), v(2)]
}

#[test]
fn argument_reduction_segments() {
    // Segments 0, 1 and 2 for 1.0 sum to 2/π.
    let mut before = wave(DEFAULT_MODE);
    before.vgpr[1] = Vreg([(1f64.to_bits() >> 32) as u32; 64]);
    before.vgpr[2] = Vreg(std::array::from_fn(|lane| lane as u32 % 3));
    let after = run(Arch::Gfx942, &vector("v_trig_preop_f64", Encoding::Vop3, &[v(0), v(2)]), &before);
    let d = usize::from(D);
    let part =
        |lane: usize| f64::from_bits(u64::from(after.vgpr[d].0[lane]) | u64::from(after.vgpr[d + 1].0[lane]) << 32);
    assert!(part(0) < std::f64::consts::FRAC_2_PI && part(0) + part(1) == std::f64::consts::FRAC_2_PI);
    assert!(part(2) < part(1) * 2f64.powi(-40));
}
