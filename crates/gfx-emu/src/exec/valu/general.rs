//! The general way of a vector instruction: any modifier, any MODE, gpr-index mode.

use super::dpp;
use super::fp::{PLAIN_BITS, PLAIN_MASK, f};
pub(super) use super::index::{DESTINATION, Index};
use super::lane::{Ty, any_float, any_nan};
use super::simd::{BASE, V3, V4, blend, permute};
use super::wide::any_nan64;
use crate::exec::{APERTURE, Flow, Mode, PRIVATE_BASE, SHARED_BASE, Src, Step, Vreg, Wave};
use crate::isa::{Encoding, Sdwa};

/// Runs an operation over whole registers.
pub(super) type Kernel32 = unsafe fn(&[Vreg; 3], &mut Vreg, Mode);
/// The same for 64-bit lanes, each source and the result as low and high registers.
pub(super) type Kernel64 = unsafe fn(&[[Vreg; 2]; 3], &mut [Vreg; 2], Mode);

/// An operation's kernels, by what they assume of MODE.
pub(super) struct Kernels<K> {
    pub(super) n: u8,
    pub(super) src: [Ty; 3],
    pub(super) dst: Ty,
    pub(super) keep: bool,
    /// The usual MODE; a NaN in the result asks for `any`.
    pub(super) plain: K,
    /// Rounding to nearest even.
    pub(super) nearest: K,
    /// Everything.
    pub(super) any: K,
    /// What a clamp does to integers.
    pub(super) saturate: Option<K>,
}

/// The value of a special source.
pub(super) fn special(code: u8, wave: &Wave) -> u64 {
    match code {
        235 => SHARED_BASE,
        236 => SHARED_BASE + APERTURE - 1,
        237 => PRIVATE_BASE,
        238 => PRIVATE_BASE + APERTURE - 1,
        251 => u64::from(wave.vcc() == 0),
        252 => u64::from(wave.exec() == 0),
        253 => u64::from(wave.scc),
        _ => 0,
    }
}

/// Copies one register of a source; `part` 1 is the high half of a 64-bit source.
#[inline(always)]
pub(super) fn read_at(step: &Step, wave: &Wave, index: Index, i: usize, part: u16, to: &mut Vreg) {
    let value = match step.src[i] {
        Src::Vgpr(number) => {
            let accumulates = step.aux[AUX_ACCUMULATES] != 0 && i == 2;
            let which = if accumulates { DESTINATION } else { i };
            // Beyond the wave's registers gpr-index mode reads v0.
            let register = index.register(wave, number + part, which).unwrap_or(usize::from(part));
            if let Some(from) = wave.vgpr.get(register) {
                *to = *from;
            }
            return;
        }
        Src::Agpr(number) => {
            if let Some(from) = wave.agpr.get(usize::from(number + part)) {
                *to = *from;
            }
            return;
        }
        Src::Scalar(code) if part == 0 => wave.s32(code),
        Src::Scalar(code) => wave.s32(code.wrapping_add(1)),
        Src::Const(value) => (value >> (32 * part)) as u32,
        Src::Special(code) => (special(code, wave) >> (32 * part)) as u32,
        Src::None => 0,
    };
    *to = Vreg([value; 64]);
}

/// `Step::aux`: the third source is the destination.
pub(super) const AUX_ACCUMULATES: usize = 0;

/// Permutes a register as DPP says; returns the lanes that may be written.
///
/// # Safety
/// The host has the features of level `L`.
#[inline(always)]
pub(super) unsafe fn permute_at<const L: u8>(step: &Step, exec: u64, to: &mut Vreg) -> u64 {
    let Some(control) = step.inst.mods.dpp else { return !0 };
    let map = dpp::map_of(control.ctrl);
    // SAFETY: the caller vouches for the features.
    unsafe { permute::<L>(to, &map.from) };
    let mut active = !0u64;
    if exec != !0 {
        active = 0;
        for lane in 0..64 {
            active |= ((exec >> (map.from[lane] & 63)) & 1) << lane;
        }
    }
    let valid = map.valid & active;
    let allowed = dpp::row_bank(control.row_mask, control.bank_mask);
    if control.bound_ctrl {
        if valid != !0 {
            for lane in 0..64 {
                to.0[lane] &= 0u32.wrapping_sub(((valid >> lane) & 1) as u32);
            }
        }
        allowed
    } else {
        allowed & valid
    }
}

/// Selects a byte or word of each lane.
#[inline(always)]
fn select(sdwa: &Sdwa, i: usize, to: &mut Vreg) {
    let (shift, bits) = match sdwa.src_sel[i] {
        sel @ 0..=3 => (8 * u32::from(sel), 8),
        4 => (0, 16),
        5 => (16, 16),
        _ => return,
    };
    let up = 32 - bits;
    for lane in &mut to.0 {
        let part = (*lane >> shift) << up;
        *lane = if sdwa.sext[i] { (part as i32 >> up) as u32 } else { part >> up };
    }
}

/// Sets the sign bits of `ty` as |x| and -x say.
#[inline(always)]
fn sign(ty: Ty, abs: bool, neg: bool, to: &mut Vreg) {
    let bit = match ty {
        Ty::F32 => 0x8000_0000u32,
        Ty::F16 | Ty::Bf16 => 0x8000,
        _ => return,
    };
    let (clear, flip) = (if abs { !bit } else { !0 }, if neg { bit } else { 0 });
    for lane in &mut to.0 {
        *lane = (*lane & clear) ^ flip;
    }
}

/// Both halves of a packed source as `OP_SEL`, `OP_SEL_HI`, `NEG` and `NEG_HI` say.
#[inline(always)]
fn pack(ty: Ty, step: &Step, i: usize, to: &mut Vreg) {
    let mods = &step.inst.mods;
    let bit = |field: u8| field >> i & 1 != 0;
    let (low, high) = (if bit(mods.op_sel) { 16 } else { 0 }, if bit(mods.op_sel_hi) { 16 } else { 0 });
    let float = ty == Ty::PF16;
    let flip = if float && bit(mods.neg) { 0x8000 } else { 0 } | if float && bit(mods.abs) { 0x8000_0000 } else { 0 };
    for lane in &mut to.0 {
        *lane = ((*lane >> low) & 0xffff | (*lane >> high) << 16) ^ flip;
    }
}

/// Fetches source `i` with its modifiers; returns the lanes that may be written.
///
/// # Safety
/// The host has the features of level `L`.
#[inline(always)]
pub(super) unsafe fn fetch_at<const L: u8>(
    step: &Step,
    wave: &Wave,
    index: Index,
    ty: Ty,
    i: usize,
    to: &mut Vreg,
) -> u64 {
    let mods = &step.inst.mods;
    read_at(step, wave, index, i, 0, to);
    // SAFETY: the caller vouches for the features.
    let writable = if i == 0 { unsafe { permute_at::<L>(step, wave.exec(), to) } } else { !0 };
    if let Some(sdwa) = &mods.sdwa
        && i < 2
    {
        select(sdwa, i, to);
    }
    if step.inst.enc == Encoding::Vop3p {
        if ty.is_packed() {
            pack(ty, step, i, to);
        } else {
            sign(ty, false, mods.neg >> i & 1 != 0, to);
        }
        return writable;
    }
    if ty.is_half() && mods.op_sel >> i & 1 != 0 {
        for lane in &mut to.0 {
            *lane >>= 16;
        }
    }
    if (mods.abs | mods.neg) >> i & 1 != 0 {
        sign(ty, mods.abs >> i & 1 != 0, mods.neg >> i & 1 != 0, to);
    }
    writable
}

/// Fetches both halves of a 64-bit source.
///
/// # Safety
/// The host has the features of level `L`.
#[inline(always)]
pub(super) unsafe fn fetch64_at<const L: u8>(
    step: &Step,
    wave: &Wave,
    index: Index,
    ty: Ty,
    i: usize,
    to: &mut [Vreg; 2],
) -> u64 {
    if ty.width() == 1 {
        // SAFETY: the caller vouches for the features.
        return unsafe { fetch_at::<L>(step, wave, index, ty, i, &mut to[0]) };
    }
    let mods = &step.inst.mods;
    read_at(step, wave, index, i, 0, &mut to[0]);
    read_at(step, wave, index, i, 1, &mut to[1]);
    let mut writable = !0;
    if i == 0 {
        let [low, high] = to;
        // SAFETY: the caller vouches for the features.
        writable = unsafe { permute_at::<L>(step, wave.exec(), low) & permute_at::<L>(step, wave.exec(), high) };
    }
    if ty == Ty::F64 {
        sign(Ty::F32, mods.abs >> i & 1 != 0, mods.neg >> i & 1 != 0, &mut to[1]);
    }
    writable
}

/// ×2, ×4, ÷2 of a float result, where the output modifier counts; then the clamp to 0..1.
#[inline(always)]
pub(super) fn modify(ty: Ty, step: &Step, mode: Mode, r: &mut Vreg) {
    let mods = &step.inst.mods;
    let keeps = if ty == Ty::F32 { mode.denorm_out_f32() } else { mode.denorm_out_f16_f64() };
    if mods.omod != 0 && !mode.ieee() && !keeps && ty != Ty::PF16 {
        let factor: f32 = [1.0, 2.0, 4.0, 0.5][usize::from(mods.omod & 3)];
        for lane in &mut r.0 {
            *lane = match ty {
                Ty::F32 => super::fp::flush32((f(*lane) * factor).to_bits(), true),
                _ => super::fp::mul16(super::fp::Any(mode), *lane, super::fp::narrow16(factor.to_bits())),
            };
        }
    }
    if mods.clamp {
        for lane in &mut r.0 {
            *lane = match ty {
                Ty::F32 => clamp32(mode, *lane),
                Ty::F16 => clamp16(mode, *lane),
                _ => clamp16(mode, *lane) | clamp16(mode, *lane >> 16) << 16,
            };
        }
    }
}

#[inline(always)]
pub(super) fn clamp32(mode: Mode, x: u32) -> u32 {
    let value = f(x);
    if value.is_nan() {
        if mode.dx10_clamp() { 0 } else { x }
    } else if value > 0.0 {
        value.min(1.0).to_bits()
    } else {
        0
    }
}

#[inline(always)]
pub(super) fn clamp16(mode: Mode, x: u32) -> u32 {
    let x = x & 0xffff;
    match x {
        0x7c01..=0x7fff | 0xfc01.. => {
            if mode.dx10_clamp() {
                0
            } else {
                x
            }
        }
        0x8000.. => 0,
        _ => x.min(0x3c00),
    }
}

/// The same of an f64 result.
#[inline(always)]
pub(super) fn modify64(step: &Step, mode: Mode, r: &mut [Vreg; 2]) {
    let mods = &step.inst.mods;
    let scales = mods.omod != 0 && !mode.ieee() && !mode.denorm_out_f16_f64();
    if !scales && !mods.clamp {
        return;
    }
    let factor: f64 = if scales { [1.0, 2.0, 4.0, 0.5][usize::from(mods.omod & 3)] } else { 1.0 };
    for lane in 0..64 {
        let mut x = f64::from_bits(u64::from(r[0].0[lane]) | u64::from(r[1].0[lane]) << 32) * factor;
        if scales && x.is_subnormal() {
            x = 0f64.copysign(x);
        }
        if mods.clamp {
            x = match x {
                _ if x.is_nan() => {
                    if mode.dx10_clamp() {
                        0.0
                    } else {
                        x
                    }
                }
                _ if x > 0.0 => x.min(1.0),
                _ => 0.0,
            };
        }
        r[0].0[lane] = x.to_bits() as u32;
        r[1].0[lane] = (x.to_bits() >> 32) as u32;
    }
}

/// Writes a result: all 32 bits, or the part that `DST_SEL`, `OP_SEL` or the operation's width say.
pub(super) fn store(step: &Step, wave: &mut Wave, index: Index, ty: Ty, keep: bool, r: &mut Vreg, mask: u64) {
    // SAFETY: the base form needs no features.
    unsafe { store_at::<BASE>(step, wave, index, ty, keep, r, mask) }
}

/// [`store`] at a level.
///
/// # Safety
/// The host has the features of level `L`.
#[inline(always)]
unsafe fn store_at<const L: u8>(
    step: &Step,
    wave: &mut Wave,
    index: Index,
    ty: Ty,
    keep: bool,
    r: &mut Vreg,
    mask: u64,
) {
    let Some(register) = index.register(wave, step.dst[0], DESTINATION) else { return };
    let Some(old) = wave.vgpr.get_mut(register) else { return };
    let mods = &step.inst.mods;
    if let Some(sdwa) = &mods.sdwa {
        for lane in 0..64 {
            r.0[lane] = place(sdwa, old.0[lane], r.0[lane]);
        }
    } else if ty.is_half() {
        let high = mods.op_sel & 8 != 0;
        for lane in 0..64 {
            let value = r.0[lane] & 0xffff;
            r.0[lane] = match (high, keep) {
                (true, _) => old.0[lane] & 0xffff | value << 16,
                (false, true) => old.0[lane] & 0xffff_0000 | value,
                (false, false) => value,
            };
        }
    }
    // SAFETY: the caller vouches for the features.
    unsafe { put_at::<L>(old, r, mask) };
}

/// Copies the lanes of a mask.
pub(super) fn put(to: &mut Vreg, from: &Vreg, mask: u64) {
    // SAFETY: the base form needs no features.
    unsafe { put_at::<BASE>(to, from, mask) }
}

/// [`put`] at a level.
///
/// # Safety
/// The host has the features of level `L`.
#[inline(always)]
pub(super) unsafe fn put_at<const L: u8>(to: &mut Vreg, from: &Vreg, mask: u64) {
    if mask == !0 {
        *to = *from;
    } else {
        // SAFETY: `to` is a register; the caller vouches for the features.
        unsafe { blend::<L>(to, from, mask) };
    }
}

/// A result put into the byte or word that `DST_SEL` names, the rest as `DST_UNUSED` says.
#[inline(always)]
fn place(sdwa: &Sdwa, old: u32, value: u32) -> u32 {
    let (shift, bits) = match sdwa.dst_sel {
        sel @ 0..=3 => (8 * u32::from(sel), 8),
        4 => (0, 16),
        5 => (16, 16),
        _ => return value,
    };
    let field = (1u32 << bits) - 1;
    let part = (value & field) << shift;
    match sdwa.dst_unused {
        2 => old & !(field << shift) | part,
        1 => {
            let above = 32 - bits - shift;
            ((part << above) as i32 >> above) as u32
        }
        _ => part,
    }
}

#[inline(always)]
fn choose<K: Copy>(k: &Kernels<K>, step: &Step, mode: Mode) -> K {
    if let Some(saturate) = k.saturate
        && step.inst.mods.clamp
    {
        saturate
    } else if mode.0 & PLAIN_MASK == PLAIN_BITS {
        k.plain
    } else if mode.0 & 0xf == 0 {
        k.nearest
    } else {
        k.any
    }
}

/// Sources fetched, the operation run, modifiers of the result applied. Returns the lanes that may be written.
///
/// # Safety
/// The kernels are for vector units that the host has.
pub(super) unsafe fn evaluate(step: &Step, wave: &Wave, index: Index, k: &Kernels<Kernel32>, r: &mut Vreg) -> u64 {
    // SAFETY: the caller vouches for the kernels.
    unsafe { evaluate_at::<BASE>(step, wave, index, k, r) }
}

/// # Safety
/// As [`evaluate`].
#[inline(always)]
unsafe fn evaluate_at<const L: u8>(step: &Step, wave: &Wave, index: Index, k: &Kernels<Kernel32>, r: &mut Vreg) -> u64 {
    let mut s = [Vreg([0; 64]); 3];
    let mut writable = wave.exec();
    for i in 0..usize::from(k.n) {
        // SAFETY: the caller vouches for the features.
        writable &= unsafe { fetch_at::<L>(step, wave, index, k.src[i], i, &mut s[i]) };
    }
    let kernel = choose(k, step, wave.mode);
    // SAFETY: the caller vouches for the kernels.
    unsafe {
        kernel(&s, r, wave.mode);
        if any_float(k.n, k.src, k.dst) && any_nan(k.dst, r) {
            (k.any)(&s, r, wave.mode);
        }
    }
    if k.dst.is_float() {
        modify(k.dst, step, wave.mode, r);
    }
    writable
}

/// # Safety
/// As [`evaluate`].
#[inline(always)]
unsafe fn general32_at<const L: u8>(step: &Step, wave: &mut Wave, k: &Kernels<Kernel32>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let mut r = Vreg([0; 64]);
    // SAFETY: the caller vouches for the kernels and the features.
    unsafe {
        let mask = evaluate_at::<L>(step, wave, index, k, &mut r);
        store_at::<L>(step, wave, index, k.dst, k.keep, &mut r, mask);
    }
    Flow::Next
}

/// Sources fetched and a 64-bit operation run.
///
/// # Safety
/// As [`evaluate`].
pub(super) unsafe fn evaluate64(
    step: &Step,
    wave: &Wave,
    index: Index,
    k: &Kernels<Kernel64>,
    r: &mut [Vreg; 2],
) -> u64 {
    // SAFETY: the caller vouches for the kernels.
    unsafe { evaluate64_at::<BASE>(step, wave, index, k, r) }
}

/// # Safety
/// As [`evaluate`].
#[inline(always)]
unsafe fn evaluate64_at<const L: u8>(
    step: &Step,
    wave: &Wave,
    index: Index,
    k: &Kernels<Kernel64>,
    r: &mut [Vreg; 2],
) -> u64 {
    let mut s = [[Vreg([0; 64]); 2]; 3];
    let mut writable = wave.exec();
    for i in 0..usize::from(k.n) {
        // SAFETY: the caller vouches for the features.
        writable &= unsafe { fetch64_at::<L>(step, wave, index, k.src[i], i, &mut s[i]) };
    }
    let kernel = choose(k, step, wave.mode);
    // SAFETY: the caller vouches for the kernels.
    unsafe {
        kernel(&s, r, wave.mode);
        if any_nan64(k.dst, r) {
            (k.any)(&s, r, wave.mode);
        }
    }
    match k.dst {
        Ty::F64 => modify64(step, wave.mode, r),
        Ty::F32 => modify(Ty::F32, step, wave.mode, &mut r[0]),
        _ => {}
    }
    writable
}

/// # Safety
/// As [`evaluate`].
#[inline(always)]
unsafe fn general64_at<const L: u8>(step: &Step, wave: &mut Wave, k: &Kernels<Kernel64>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let mut r = [Vreg([0; 64]); 2];
    // SAFETY: the caller vouches for the kernels and the features.
    unsafe {
        let mask = evaluate64_at::<L>(step, wave, index, k, &mut r);
        store64_at::<L>(step, wave, index, k.dst, &r, mask);
    }
    Flow::Next
}

/// Writes one or two registers.
pub(super) fn store64(step: &Step, wave: &mut Wave, index: Index, ty: Ty, r: &[Vreg; 2], mask: u64) {
    // SAFETY: the base form needs no features.
    unsafe { store64_at::<BASE>(step, wave, index, ty, r, mask) }
}

/// [`store64`] at a level.
///
/// # Safety
/// The host has the features of level `L`.
#[inline(always)]
unsafe fn store64_at<const L: u8>(step: &Step, wave: &mut Wave, index: Index, ty: Ty, r: &[Vreg; 2], mask: u64) {
    if !index.reaches(wave, step.dst[0], ty.width()) {
        return;
    }
    for part in 0..ty.width() {
        let Some(register) = index.register(wave, step.dst[0] + part, DESTINATION) else { return };
        if let Some(to) = wave.vgpr.get_mut(register) {
            // SAFETY: the caller vouches for the features.
            unsafe { put_at::<L>(to, &r[usize::from(part)], mask) };
        }
    }
}

/// [`read_at`], not inlined.
pub(super) fn read(step: &Step, wave: &Wave, index: Index, i: usize, part: u16, to: &mut Vreg) {
    read_at(step, wave, index, i, part, to);
}

/// [`fetch_at`], not inlined.
pub(super) fn fetch(step: &Step, wave: &Wave, index: Index, ty: Ty, i: usize, to: &mut Vreg) -> u64 {
    // SAFETY: the base form needs no features.
    unsafe { fetch_at::<BASE>(step, wave, index, ty, i, to) }
}

/// [`fetch64_at`], not inlined.
pub(super) fn fetch64(step: &Step, wave: &Wave, index: Index, ty: Ty, i: usize, to: &mut [Vreg; 2]) -> u64 {
    // SAFETY: the base form needs no features.
    unsafe { fetch64_at::<BASE>(step, wave, index, ty, i, to) }
}

/// The general handlers' bodies for one level.
macro_rules! level {
    ($features:literal, $level:expr, $narrow:ident, $wide:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $narrow(step: &Step, wave: &mut Wave, k: &Kernels<Kernel32>) -> Flow {
            // SAFETY: the caller vouches for the features and the kernels.
            unsafe { general32_at::<{ $level }>(step, wave, k) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $wide(step: &Step, wave: &mut Wave, k: &Kernels<Kernel64>) -> Flow {
            // SAFETY: the caller vouches for the features and the kernels.
            unsafe { general64_at::<{ $level }>(step, wave, k) }
        }
    };
}

level!("avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt", V3, narrow_v3, wide_v3);
level!("avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl", V4, narrow_v4, wide_v4);

unsafe fn narrow_base(step: &Step, wave: &mut Wave, k: &Kernels<Kernel32>) -> Flow {
    // SAFETY: the caller vouches for the kernels.
    unsafe { general32_at::<BASE>(step, wave, k) }
}

unsafe fn wide_base(step: &Step, wave: &mut Wave, k: &Kernels<Kernel64>) -> Flow {
    // SAFETY: the caller vouches for the kernels.
    unsafe { general64_at::<BASE>(step, wave, k) }
}

/// The general way of a 32-bit operation at level `L`.
///
/// # Safety
/// The host has the features of the level and of the kernels.
pub(super) unsafe fn general32<const L: u8>(step: &Step, wave: &mut Wave, k: &Kernels<Kernel32>) -> Flow {
    // SAFETY: the caller vouches for both.
    unsafe {
        match L {
            #[cfg(target_arch = "x86_64")]
            V3 => narrow_v3(step, wave, k),
            #[cfg(target_arch = "x86_64")]
            V4 => narrow_v4(step, wave, k),
            _ => narrow_base(step, wave, k),
        }
    }
}

/// The same of a 64-bit operation.
///
/// # Safety
/// As [`general32`].
pub(super) unsafe fn general64<const L: u8>(step: &Step, wave: &mut Wave, k: &Kernels<Kernel64>) -> Flow {
    // SAFETY: the caller vouches for both.
    unsafe {
        match L {
            #[cfg(target_arch = "x86_64")]
            V3 => wide_v3(step, wave, k),
            #[cfg(target_arch = "x86_64")]
            V4 => wide_v4(step, wave, k),
            _ => wide_base(step, wave, k),
        }
    }
}
