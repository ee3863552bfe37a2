//! Packed f32, mixed-precision multiply-add, and the wide masked sum of differences.

use super::fp::*;
use super::general::{DESTINATION, Index, clamp16, clamp32, put, put_at, read, special};
use super::int::masked_sad;
use super::lane::{DIVERTED, FromMode, In, Ty, any_nan};
use super::simd::{BASE, V3, V4, blend};
use super::{source, step, uniform_sources};
use crate::exec::Env;
use crate::exec::step::{Compiler, Flow, Handler, Level, Src, Step, Unsupported};
use crate::exec::wave::{Mode, Vreg, Wave};
use crate::isa::{Inst, Op};

pub(super) fn compile(c: &Compiler, inst: &Inst) -> Option<Result<Step, Unsupported>> {
    Some(match inst.op {
        Op::VPkFmaF32 => pairs::<Fma>(c, inst, 3),
        Op::VPkMulF32 => pairs::<Mul>(c, inst, 2),
        Op::VPkAddF32 => pairs::<Add>(c, inst, 2),
        Op::VPkMovB32 => pair_step(c, inst, move_pair, 2),
        Op::VFmaMixF32 => mix(c, inst, mix_single, Ty::F32),
        Op::VFmaMixloF16 => mix(c, inst, mix_low, Ty::F16),
        Op::VFmaMixhiF16 => mix(c, inst, mix_high, Ty::F16),
        Op::VMqsadU32U8 => quad(c, inst),
        _ => return None,
    })
}

/// A packed f32 operation.
trait Pair {
    fn lane<P: Fp>(p: P, a: u32, b: u32, c: u32) -> u32;
}

struct Fma;
struct Mul;
struct Add;

impl Pair for Fma {
    #[inline(always)]
    fn lane<P: Fp>(p: P, a: u32, b: u32, c: u32) -> u32 {
        fma32(p, a, b, c)
    }
}

impl Pair for Mul {
    #[inline(always)]
    fn lane<P: Fp>(p: P, a: u32, b: u32, _: u32) -> u32 {
        mul32(p, a, b)
    }
}

impl Pair for Add {
    #[inline(always)]
    fn lane<P: Fp>(p: P, a: u32, b: u32, _: u32) -> u32 {
        add32(p, a, b)
    }
}

/// `Step::aux`: number of sources.
const AUX_N: usize = 1;

/// The step of a packed operation: the fast handler where no sign is changed and nothing is clamped.
fn pairs<O: Pair>(c: &Compiler, inst: &Inst, n: u8) -> Result<Step, Unsupported> {
    let mut step = pair_step(c, inst, pair_handler::<O>(c.level), n)?;
    let mods = &inst.mods;
    if (mods.neg | mods.abs) == 0
        && !mods.clamp
        && let Some(run) = fast_handler::<O>(c.level, n, uniform_sources(&step, n))
    {
        step.run = run;
    }
    Ok(step)
}

fn pair_step(c: &Compiler, inst: &Inst, run: Handler, n: u8) -> Result<Step, Unsupported> {
    let types = [Ty::B64; 3];
    let mut step = step(c, inst, run, &[], Some(Ty::B64))?;
    for i in 0..usize::from(n) {
        // Constants are one f32 for both halves.
        step.src[i] = match source(c, inst.src[i], types[i])? {
            Src::Const(_) => source(c, inst.src[i], Ty::F32)?,
            other => other,
        };
    }
    step.aux[AUX_N] = n;
    Ok(step)
}

/// The register of source `i` that half `high` of the result reads, negated as the modifiers say.
#[inline(always)]
fn half_source<'a>(step: &Step, wave: &'a Wave, index: Index, i: usize, high: bool, scratch: &'a mut Vreg) -> &'a Vreg {
    let mods = &step.inst.mods;
    let (select, negate) = if high { (mods.op_sel_hi, mods.abs) } else { (mods.op_sel, mods.neg) };
    let part = u16::from(select >> i & 1 != 0);
    let sign = if negate >> i & 1 != 0 { 0x8000_0000 } else { 0 };
    match step.src[i] {
        Src::Vgpr(number) => {
            let register = index.register(wave, number + part, i).unwrap_or(0);
            if let Some(from) = wave.vgpr.get(register) {
                if sign == 0 {
                    return from;
                }
                for lane in 0..64 {
                    scratch.0[lane] = from.0[lane] ^ sign;
                }
            }
        }
        Src::Scalar(code) => *scratch = Vreg([wave.s32(code.wrapping_add(part as u8)) ^ sign; 64]),
        Src::Const(value) => *scratch = Vreg([value as u32 ^ sign; 64]),
        Src::Special(code) => *scratch = Vreg([(special(code, wave) >> (32 * part)) as u32 ^ sign; 64]),
        _ => *scratch = Vreg([0; 64]),
    }
    scratch
}

#[inline(always)]
fn compute<O: Pair, P: FromMode>(s: [&Vreg; 3], mode: Mode, r: &mut Vreg) {
    let p = P::from_mode(mode);
    for lane in 0..64 {
        r.0[lane] = O::lane(p, s[0].0[lane], s[1].0[lane], s[2].0[lane]);
    }
}

#[inline(never)]
fn compute_any<O: Pair>(s: [&Vreg; 3], mode: Mode, r: &mut Vreg) {
    compute::<O, Any>(s, mode, r);
}

/// Source `i` of half `high`.
///
/// # Safety
/// As [`input`].
#[inline(always)]
unsafe fn half_input<const UNIFORM: bool>(step: &Step, wave: &Wave, i: usize, high: usize) -> In {
    let mods = &step.inst.mods;
    let part = [mods.op_sel, mods.op_sel_hi][high] >> i & 1;
    if UNIFORM {
        return In::Uniform(match step.src[i] {
            Src::Scalar(code) => wave.s32(code.wrapping_add(part)),
            Src::Const(value) => value as u32,
            _ => 0,
        });
    }
    match step.src[i] {
        Src::Vgpr(number) => {
            // SAFETY: both registers of the pair were checked when the step was made.
            In::Lanes(unsafe { wave.vgpr.as_ptr().add(usize::from(number) + usize::from(part)).cast() })
        }
        // SAFETY: a form is chosen by the kinds of the step's sources: this one is a register.
        _ => unsafe { std::hint::unreachable_unchecked() },
    }
}

/// Plain registers and uniform sources under the usual MODE; `F` has bit i for a uniform source i, `N` is how many there are.
#[inline(always)]
unsafe fn fast<O: Pair, const N: u8, const F: u8, const L: u8>(step: &Step, wave: &mut Wave) -> Flow {
    if wave.mode.0 & (PLAIN_MASK | DIVERTED) != PLAIN_BITS {
        // SAFETY: the same step and level.
        return unsafe { pair_at::<O, L>(step, wave) };
    }
    let exec = wave.exec();
    let mut r = [Vreg([0; 64]), Vreg([0; 64])];
    // SAFETY: register pairs were checked when the step was made, and the forms fit the step's sources.
    unsafe {
        for (high, r) in r.iter_mut().enumerate() {
            let a = if F & 1 != 0 {
                half_input::<true>(step, wave, 0, high)
            } else {
                half_input::<false>(step, wave, 0, high)
            };
            let b = if F & 2 != 0 {
                half_input::<true>(step, wave, 1, high)
            } else {
                half_input::<false>(step, wave, 1, high)
            };
            let c = match N {
                ..=2 => In::Uniform(0),
                _ if F & 4 != 0 => half_input::<true>(step, wave, 2, high),
                _ => half_input::<false>(step, wave, 2, high),
            };
            for lane in 0..64 {
                r.0[lane] = O::lane(Plain, a.get(lane), b.get(lane), c.get(lane));
            }
        }
        if any_nan(Ty::F32, &r[0]) || any_nan(Ty::F32, &r[1]) {
            return pair_at::<O, L>(step, wave);
        }
        let to = wave.vgpr.as_mut_ptr().add(usize::from(step.dst[0]));
        for (part, r) in r.iter().enumerate() {
            let to = to.add(part);
            if exec == !0 { *to = *r } else { blend::<L>(to, r, exec) }
        }
    }
    Flow::Next
}

#[inline(always)]
unsafe fn pair_at<O: Pair, const L: u8>(step: &Step, wave: &mut Wave) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let plain = wave.mode.0 & PLAIN_MASK == PLAIN_BITS;
    let mut r = [Vreg([0; 64]), Vreg([0; 64])];
    for (high, r) in [false, true].into_iter().zip(&mut r) {
        let mut scratch = [Vreg([0; 64]); 3];
        let [x, y, z] = &mut scratch;
        let a = half_source(step, wave, index, 0, high, x);
        let b = half_source(step, wave, index, 1, high, y);
        let c = if step.aux[AUX_N] == 3 { half_source(step, wave, index, 2, high, z) } else { z };
        if plain {
            compute::<O, Plain>([a, b, c], wave.mode, r);
        }
        if !plain || any_nan(Ty::F32, r) {
            compute_any::<O>([a, b, c], wave.mode, r);
        }
        if step.inst.mods.clamp {
            r.0.iter_mut().for_each(|lane| *lane = clamp32(wave.mode, *lane));
        }
    }
    // SAFETY: the caller vouches for the features.
    unsafe { write_pair::<L>(step, wave, index, &r) };
    Flow::Next
}

#[inline(always)]
unsafe fn write_pair<const L: u8>(step: &Step, wave: &mut Wave, index: Index, r: &[Vreg; 2]) {
    let exec = wave.exec();
    if !index.reaches(wave, step.dst[0], 2) {
        return;
    }
    for (part, value) in (0..).zip(r) {
        if let Some(register) = index.register(wave, step.dst[0] + part, DESTINATION)
            && let Some(to) = wave.vgpr.get_mut(register)
        {
            // SAFETY: the caller vouches for the features.
            unsafe { put_at::<L>(to, value, exec) };
        }
    }
}

/// A copy of the fast handlers for one level of the host's vector units.
macro_rules! level {
    ($features:literal, $level:expr, $fast:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $fast<O: Pair, const N: u8, const F: u8>(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
            // SAFETY: the caller vouches for the features and the step.
            unsafe { fast::<O, N, F, { $level }>(step, wave) }
        }
    };
}

level!("avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt", V3, fast_v3);
level!("avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl", V4, fast_v4);

/// The fast handler for a number of sources and a form, where there is one.
fn fast_handler<O: Pair>(level: Level, n: u8, form: u8) -> Option<Handler> {
    #[cfg(target_arch = "x86_64")]
    macro_rules! forms {
        ($($n:literal $form:literal),*) => {
            match (level, n, form) {
                $((Level::V3, $n, $form) => return Some(fast_v3::<O, $n, $form>),
                (Level::V4, $n, $form) => return Some(fast_v4::<O, $n, $form>),)*
                _ => {}
            }
        };
    }
    #[cfg(target_arch = "x86_64")]
    forms!(2 0, 2 1, 2 2, 3 0, 3 1, 3 2, 3 4, 3 6);
    let _ = (level, n, form);
    None
}

unsafe fn pair_base<O: Pair>(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    // SAFETY: the caller vouches for the features.
    unsafe { pair_at::<O, BASE>(step, wave) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt")]
unsafe fn pair_v3<O: Pair>(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    // SAFETY: the caller vouches for the features.
    unsafe { pair_at::<O, V3>(step, wave) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pair_v4<O: Pair>(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    // SAFETY: the caller vouches for the features.
    unsafe { pair_at::<O, V4>(step, wave) }
}

/// The handler of a packed operation at a level.
fn pair_handler<O: Pair>(level: Level) -> Handler {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::V3 => pair_v3::<O>,
        #[cfg(target_arch = "x86_64")]
        Level::V4 => pair_v4::<O>,
        _ => pair_base::<O>,
    }
}

/// `v_pk_mov_b32`: the low result is a half of source 0, the high one a half of source 1.
unsafe fn move_pair(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let mut r = [Vreg([0; 64]), Vreg([0; 64])];
    for (i, r) in r.iter_mut().enumerate() {
        let part = u16::from(step.inst.mods.op_sel >> i & 1);
        match step.src[i] {
            Src::Const(value) => *r = Vreg([value as u32; 64]),
            _ => read(step, wave, index, i, part, r),
        }
    }
    // SAFETY: the base form needs no features.
    unsafe { write_pair::<BASE>(step, wave, index, &r) };
    Flow::Next
}

fn mix(c: &Compiler, inst: &Inst, run: Handler, dst: Ty) -> Result<Step, Unsupported> {
    let mut step = step(c, inst, run, &[], Some(dst))?;
    for i in 0..3 {
        let half = inst.mods.op_sel_hi >> i & 1 != 0;
        step.src[i] = source(c, inst.src[i], if half { Ty::F16 } else { Ty::F32 })?;
    }
    Ok(step)
}

/// Source `i` of a mixed operation as f32 bits: `OP_SEL_HI` says half or single, `OP_SEL` which half; `NEG_HI` is |x|.
fn mix_source(step: &Step, wave: &Wave, index: Index, i: usize, to: &mut Vreg) {
    let mods = &step.inst.mods;
    read(step, wave, index, i, 0, to);
    let bit = |field: u8| field >> i & 1 != 0;
    for lane in &mut to.0 {
        let wide = match (bit(mods.op_sel_hi), bit(mods.op_sel)) {
            (false, _) => in32(Any(wave.mode), *lane),
            (true, false) => widen16(in16(Any(wave.mode), *lane)),
            (true, true) => widen16(in16(Any(wave.mode), *lane >> 16)),
        };
        let magnitude = if bit(mods.abs) { wide & 0x7fff_ffff } else { wide };
        *lane = if bit(mods.neg) { magnitude ^ 0x8000_0000 } else { magnitude };
    }
}

/// `fma(a, b, c)` in f32 with one rounding, to `to`; the operands already are as MODE has them.
fn mixed(step: &Step, wave: &Wave, index: Index, to: &mut Vreg) {
    let mut s = [Vreg([0; 64]); 3];
    for (i, source) in s.iter_mut().enumerate() {
        mix_source(step, wave, index, i, source);
    }
    for lane in 0..64 {
        to.0[lane] = fma32(Any(wave.mode), s[0].0[lane], s[1].0[lane], s[2].0[lane]);
    }
}

unsafe fn mix_single(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let mut r = Vreg([0; 64]);
    mixed(step, wave, index, &mut r);
    if step.inst.mods.clamp {
        r.0.iter_mut().for_each(|lane| *lane = clamp32(wave.mode, *lane));
    }
    let exec = wave.exec();
    if let Some(register) = index.register(wave, step.dst[0], DESTINATION)
        && let Some(to) = wave.vgpr.get_mut(register)
    {
        put(to, &r, exec);
    }
    Flow::Next
}

/// The f16 forms round the f32 result again and write one half of the register.
fn mix_half(step: &Step, wave: &mut Wave, high: bool) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let mut r = Vreg([0; 64]);
    mixed(step, wave, index, &mut r);
    let (exec, mode) = (wave.exec(), wave.mode);
    let Some(register) = index.register(wave, step.dst[0], DESTINATION) else { return Flow::Next };
    let Some(to) = wave.vgpr.get_mut(register) else { return Flow::Next };
    for lane in 0..64 {
        let wide = r.0[lane];
        let infinite = wide & 0x7fff_ffff == 0x7f80_0000;
        let half = if is_nan32(wide) {
            narrow16(wide)
        } else {
            finish16(Any(mode), wide, [if infinite { 0x7c00 } else { 0 }, 0, 0])
        };
        let half = if step.inst.mods.clamp { clamp16(mode, half) } else { half };
        let old = to.0[lane];
        r.0[lane] = if high { old & 0xffff | half << 16 } else { old & 0xffff_0000 | half };
    }
    put(to, &r, exec);
    Flow::Next
}

unsafe fn mix_low(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    mix_half(step, wave, false)
}

unsafe fn mix_high(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    mix_half(step, wave, true)
}

/// `v_mqsad_u32_u8`: four 32-bit sums, in four registers.
fn quad(c: &Compiler, inst: &Inst) -> Result<Step, Unsupported> {
    // What a clamp of the sums would be is not documented.
    if inst.mods.clamp || inst.mods.omod != 0 {
        return Err(Unsupported::NoHandler);
    }
    let mut step = step(c, inst, quad_sums, &[Ty::B64, Ty::B32], None)?;
    step.dst[0] = c.vreg(inst.dst[0], 4)?.0;
    step.src[2] = match c.vreg(inst.src[2], 4)? {
        (number, false) => Src::Vgpr(number),
        _ => return Err(Unsupported::NoHandler),
    };
    Ok(step)
}

unsafe fn quad_sums(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let mut window = [Vreg([0; 64]), Vreg([0; 64])];
    let mut reference = Vreg([0; 64]);
    let mut sums = [Vreg([0; 64]); 4];
    read(step, wave, index, 0, 0, &mut window[0]);
    read(step, wave, index, 0, 1, &mut window[1]);
    read(step, wave, index, 1, 0, &mut reference);
    for (part, sum) in (0..).zip(&mut sums) {
        read(step, wave, index, 2, part, sum);
        for lane in 0..64 {
            let bytes = u64::from(window[0].0[lane]) | u64::from(window[1].0[lane]) << 32;
            sum.0[lane] = sum.0[lane].wrapping_add(masked_sad(bytes, reference.0[lane], u32::from(part)));
        }
    }
    let exec = wave.exec();
    if !index.reaches(wave, step.dst[0], 4) {
        return Flow::Next;
    }
    for (part, sum) in (0..).zip(&sums) {
        if let Some(register) = index.register(wave, step.dst[0] + part, DESTINATION)
            && let Some(to) = wave.vgpr.get_mut(register)
        {
            put(to, sum, exec);
        }
    }
    Flow::Next
}
