//! Fast handlers of operations on 64-bit lanes: plain operands, the usual MODE.

use super::fp::{PLAIN_BITS, PLAIN_MASK, Plain};
use super::lane::{DIVERTED, Lane64, Ty, any_float, any_nan, wide};
use super::simd::{V3, V4, blend};
use crate::exec::{Env, Flow, Handler, Level, Src, Step, Vreg, Wave};

/// A source of a fast handler.
#[derive(Clone, Copy)]
enum In {
    Uniform(u64),
    Narrow(*const u32),
    /// Low and high registers.
    Wide(*const u32, *const u32),
}

impl In {
    /// # Safety
    /// The registers that it came from are there.
    #[inline(always)]
    unsafe fn get(self, lane: usize) -> u64 {
        // SAFETY: 64 lanes are behind the pointers.
        unsafe {
            match self {
                In::Uniform(value) => value,
                In::Narrow(first) => u64::from(*first.add(lane)),
                In::Wide(low, high) => u64::from(*low.add(lane)) | u64::from(*high.add(lane)) << 32,
            }
        }
    }
}

/// # Safety
/// A `Vgpr` source names a register of the wave.
#[inline(always)]
unsafe fn input<O: Lane64, const UNIFORM: bool>(step: &Step, wave: &Wave, i: usize) -> In {
    if i >= usize::from(O::N) {
        return In::Uniform(0);
    }
    let wide = O::SRC[i].width() == 2;
    if UNIFORM {
        return In::Uniform(match step.src[i] {
            Src::Scalar(code) if wide => u64::from(wave.s32(code)) | u64::from(wave.s32(code.wrapping_add(1))) << 32,
            Src::Scalar(code) => wave.s32(code).into(),
            Src::Const(value) if wide => value,
            Src::Const(value) => u64::from(value as u32),
            _ => 0,
        });
    }
    match step.src[i] {
        // SAFETY: register numbers were checked when the step was made.
        Src::Vgpr(number) => unsafe {
            let low = wave.vgpr.as_ptr().add(usize::from(number));
            if wide { In::Wide(low.cast(), low.add(1).cast()) } else { In::Narrow(low.cast()) }
        },
        // SAFETY: a form is chosen by the kinds of the step's sources: this one is a register.
        _ => unsafe { std::hint::unreachable_unchecked() },
    }
}

/// Which sources are uniform is a constant `F`: bit i for source i.
#[inline(always)]
unsafe fn fast<O: Lane64, const F: u8, const L: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let float = const { any_float(O::N, O::SRC, O::DST) };
    let (mask, bits) = if float { (PLAIN_MASK | DIVERTED, PLAIN_BITS) } else { (DIVERTED, 0) };
    if wave.mode.0 & mask != bits {
        // SAFETY: the same step and level.
        return unsafe { wide::<O, L>(step, wave, env) };
    }
    let exec = wave.exec();
    let mut result = [Vreg([0; 64]); 2];
    // SAFETY: register numbers were checked when the step was made, and the forms fit the step's sources.
    unsafe {
        let a = if F & 1 != 0 { input::<O, true>(step, wave, 0) } else { input::<O, false>(step, wave, 0) };
        let b = if F & 2 != 0 { input::<O, true>(step, wave, 1) } else { input::<O, false>(step, wave, 1) };
        let c = if F & 4 != 0 { input::<O, true>(step, wave, 2) } else { input::<O, false>(step, wave, 2) };
        for lane in 0..64 {
            let r = O::lane(Plain, [a.get(lane), b.get(lane), c.get(lane)]);
            result[0].0[lane] = r as u32;
            result[1].0[lane] = (r >> 32) as u32;
        }
        if O::DST.is_float() && any_nan64(O::DST, &result) {
            return wide::<O, L>(step, wave, env);
        }
        let to = wave.vgpr.as_mut_ptr().add(usize::from(step.dst[0]));
        for (part, result) in result.iter().enumerate().take(usize::from(O::DST.width())) {
            let to = to.add(part);
            if exec == !0 { *to = *result } else { blend::<L>(to, result, exec) }
        }
    }
    Flow::Next
}

/// True when a lane of a float result of a 64-bit operation is NaN.
#[inline(always)]
pub(super) fn any_nan64(ty: Ty, result: &[Vreg; 2]) -> bool {
    match ty {
        Ty::F64 => {
            let mut found = 0u32;
            for lane in 0..64 {
                let high = result[1].0[lane] & 0x7fff_ffff;
                // A low part above 0 is worth one unit of the high part.
                found |= u32::from(high + u32::from(result[0].0[lane] != 0) > 0x7ff0_0000);
            }
            found != 0
        }
        Ty::F32 => any_nan(Ty::F32, &result[0]),
        _ => false,
    }
}

/// A copy of the fast handlers for one level of the host's vector units.
macro_rules! level {
    ($features:literal, $level:expr, $fast:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $fast<O: Lane64, const F: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
            // SAFETY: the caller vouches for the features and the step.
            unsafe { fast::<O, F, { $level }>(step, wave, env) }
        }
    };
}

level!("avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt", V3, fast_v3);
level!("avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl", V4, fast_v4);

/// The fast handler of an operation on 64-bit lanes for a form, where there is one.
pub(super) fn fast_handler<O: Lane64>(level: Level, form: u8) -> Option<Handler> {
    #[cfg(target_arch = "x86_64")]
    macro_rules! forms {
        ($($n:literal $form:literal),*) => {
            match (level, O::N, form) {
                $((Level::V3, $n, $form) => return Some(fast_v3::<O, $form>),
                (Level::V4, $n, $form) => return Some(fast_v4::<O, $form>),)*
                _ => {}
            }
        };
    }
    // What address arithmetic has: `v_lshl_add_u64` of a register or a scalar base, shifted by a constant.
    #[cfg(target_arch = "x86_64")]
    forms!(1 0, 2 0, 2 1, 2 2, 3 0, 3 1, 3 2, 3 3, 3 4, 3 6);
    let _ = (level, form);
    None
}
