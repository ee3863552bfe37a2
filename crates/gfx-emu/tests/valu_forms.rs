//! Every tabled operation: all levels, all operand forms, partial EXEC and the general way must agree.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod valu_common;

use kbench_gfx_emu::exec::Vreg;
use kbench_gfx_emu::isa::{Arch, Encoding, Operand};
use valu_common::*;

/// Operations by number of 32-bit sources.
const UNARY: &str = "v_mov_b32 v_not_b32 v_bfrev_b32 v_ffbh_u32 v_ffbl_b32 v_ffbh_i32 v_sat_pk_u8_i16 v_prng_b32 \
    v_fract_f32 v_trunc_f32 v_ceil_f32 v_rndne_f32 v_floor_f32 v_frexp_exp_i32_f32 v_frexp_mant_f32 v_floor_f16 v_ceil_f16 \
    v_trunc_f16 v_rndne_f16 v_fract_f16 v_frexp_mant_f16 v_frexp_exp_i16_f16 v_exp_f32 v_log_f32 v_rcp_f32 v_rcp_iflag_f32 \
    v_rsq_f32 v_sqrt_f32 v_sin_f32 v_cos_f32 v_exp_f16 v_log_f16 v_rcp_f16 v_rsq_f16 v_sqrt_f16 v_sin_f16 v_cos_f16 \
    v_exp_legacy_f32 v_log_legacy_f32 v_cvt_f32_i32 v_cvt_f32_u32 v_cvt_u32_f32 v_cvt_i32_f32 v_cvt_rpi_i32_f32 \
    v_cvt_flr_i32_f32 v_cvt_off_f32_i4 v_cvt_f32_ubyte0 v_cvt_f32_ubyte1 v_cvt_f32_ubyte2 v_cvt_f32_ubyte3 v_cvt_f16_f32 \
    v_cvt_f32_f16 v_cvt_f32_bf16 v_cvt_f16_u16 v_cvt_f16_i16 v_cvt_u16_f16 v_cvt_i16_f16 v_cvt_norm_i16_f16 \
    v_cvt_norm_u16_f16";
const BINARY: &str = "v_add_u32 v_sub_u32 v_subrev_u32 v_add_i32 v_sub_i32 v_mul_i32_i24 v_mul_hi_i32_i24 v_mul_u32_u24 \
    v_mul_hi_u32_u24 v_min_i32 v_max_i32 v_min_u32 v_max_u32 v_lshrrev_b32 v_ashrrev_i32 v_lshlrev_b32 v_and_b32 v_or_b32 \
    v_xor_b32 v_xnor_b32 v_mul_lo_u32 v_mul_hi_u32 v_mul_hi_i32 v_bcnt_u32_b32 v_bfm_b32 v_cvt_pk_u16_u32 \
    v_cvt_pk_i16_i32 v_add_u16 v_sub_u16 v_subrev_u16 v_mul_lo_u16 v_lshlrev_b16 v_lshrrev_b16 v_ashrrev_i16 v_max_u16 \
    v_min_u16 v_max_i16 v_min_i16 v_add_i16 v_sub_i16 v_add_f32 v_sub_f32 v_subrev_f32 v_mul_f32 v_mul_legacy_f32 \
    v_min_f32 v_max_f32 v_ldexp_f32 v_add_f16 v_sub_f16 v_subrev_f16 v_mul_f16 v_min_f16 v_max_f16 v_ldexp_f16 \
    v_pack_b32_f16 v_cvt_pkrtz_f16_f32 v_cvt_pk_f16_f32 v_cvt_pk_bf16_f32 v_cvt_pknorm_i16_f32 v_cvt_pknorm_u16_f32 \
    v_cvt_pknorm_i16_f16 v_cvt_pknorm_u16_f16 v_cndmask_b32";
const TERNARY: &str = "v_mad_i32_i24 v_mad_u32_u24 v_bfe_u32 v_bfe_i32 v_bfi_b32 v_lerp_u8 v_alignbit_b32 v_alignbyte_b32 \
    v_min3_i32 v_max3_i32 v_med3_i32 v_min3_u32 v_max3_u32 v_med3_u32 v_sad_u8 v_sad_hi_u8 v_msad_u8 v_sad_u16 v_sad_u32 \
    v_perm_b32 v_mad_u32_u16 v_mad_i32_i16 v_xad_u32 v_lshl_add_u32 v_add_lshl_u32 v_add3_u32 v_lshl_or_b32 v_and_or_b32 \
    v_or3_b32 v_ashr_pk_i8_i32 v_ashr_pk_u8_i32 v_mad_u16 v_mad_i16 v_mad_legacy_u16 v_mad_legacy_i16 v_min3_i16 v_max3_i16 \
    v_med3_i16 v_min3_u16 v_max3_u16 v_med3_u16 v_fma_f32 v_mad_f32 v_mad_legacy_f32 v_min3_f32 v_max3_f32 v_med3_f32 \
    v_minimum3_f32 v_maximum3_f32 v_div_fixup_f32 v_cubeid_f32 v_cubesc_f32 v_cubetc_f32 v_cubema_f32 v_mad_f16 \
    v_mad_legacy_f16 v_fma_f16 v_fma_legacy_f16 v_div_fixup_f16 v_div_fixup_legacy_f16 v_min3_f16 v_max3_f16 v_med3_f16 \
    v_cvt_pk_u8_f32";
const PACKED: &str = "v_pk_mad_i16 v_pk_mad_u16 v_pk_mul_lo_u16 v_pk_add_i16 v_pk_sub_i16 v_pk_add_u16 v_pk_sub_u16 \
    v_pk_lshlrev_b16 v_pk_lshrrev_b16 v_pk_ashrrev_i16 v_pk_max_i16 v_pk_min_i16 v_pk_max_u16 v_pk_min_u16 v_pk_fma_f16 \
    v_pk_add_f16 v_pk_mul_f16 v_pk_min_f16 v_pk_max_f16 v_pk_minimum3_f16 v_pk_maximum3_f16 v_dot2_f32_f16 v_dot2_f32_bf16 \
    v_dot2_i32_i16 v_dot2_u32_u16 v_dot4_i32_i8 v_dot4_u32_u8 v_dot8_i32_i4 v_dot8_u32_u4";

/// Runs one operation with every mix of register, scalar and constant sources.
fn forms(name: &str, enc: Encoding, sources: usize, random: &mut Random) {
    // Scalars only reach the lanes through these.
    let scalars = [random.interesting(), random.interesting(), random.interesting()];
    for form in 0..1u32 << sources {
        let mut before = wave(DEFAULT_MODE);
        for register in &mut before.vgpr {
            *register = Vreg(std::array::from_fn(|_| random.interesting()));
        }
        before.sgpr[..3].copy_from_slice(&scalars);
        before.set_vcc(random.next());
        let operands: Vec<Operand> =
            (0..sources).map(|i| if form >> i & 1 != 0 { s(i as u8) } else { v(i as u8) }).collect();
        // The same values all in registers, whole EXEC, the general way: gpr-index mode with nothing enabled.
        let mut spread = before.clone();
        for i in 0..sources {
            if form >> i & 1 != 0 {
                spread.vgpr[i] = Vreg([scalars[i]; 64]);
            }
        }
        spread.mode.0 |= 1 << 27;
        let plain: Vec<Operand> = (0..sources).map(|i| v(i as u8)).collect();
        let expected = run(Arch::Gfx950, &vector(name, enc, &plain), &spread).vgpr[usize::from(D)];
        for exec in [!0, random.next(), 0] {
            before.set_exec(exec);
            let after = run(Arch::Gfx950, &vector(name, enc, &operands), &before);
            for lane in 0..64 {
                let old = before.vgpr[usize::from(D)].0[lane];
                let wanted = if exec >> lane & 1 != 0 { expected.0[lane] } else { old };
                let got = after.vgpr[usize::from(D)].0[lane];
                assert_eq!(got, wanted, "{name} form {form:b} lane {lane}: {got:#x}, not {wanted:#x}");
            }
        }
        // Destination and source may be the same register.
        before.set_exec(!0);
        let mut same = vector(name, enc, &operands);
        same.dst[0] = v(0);
        spread.vgpr[usize::from(D)] = before.vgpr[0];
        let expected = run(Arch::Gfx950, &vector(name, enc, &plain), &spread).vgpr[usize::from(D)];
        assert_eq!(run(Arch::Gfx950, &same, &before).vgpr[0], expected, "{name}, in place");
    }
}

#[test]
fn forms_agree() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..3 {
        UNARY.split_whitespace().for_each(|name| forms(name, Encoding::Vop1, 1, &mut random));
        BINARY.split_whitespace().for_each(|name| forms(name, Encoding::Vop3, 2, &mut random));
        TERNARY.split_whitespace().for_each(|name| forms(name, Encoding::Vop3, 3, &mut random));
        for name in PACKED.split_whitespace() {
            let sources =
                if name.contains("fma") || name.contains("mad") || name.contains("imum3") || name.contains("dot") {
                    3
                } else {
                    2
                };
            forms(name, Encoding::Vop3p, sources, &mut random);
        }
    }
}
