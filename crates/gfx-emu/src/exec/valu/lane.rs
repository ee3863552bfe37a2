//! Operations on lanes, and the handlers made of them.
//!
//! An operation says what one lane does ([`Lane32`], [`Lane64`]); it becomes a fast handler for plain operands (registers,
//! and uniform sources that stay in host registers) and a general one, which fetches sources into scratch registers with
//! modifiers applied, runs the operation over whole registers, and writes back under the mask.

use super::fp::{Any, Fp, Nearest, PLAIN_BITS, PLAIN_MASK, Plain};
use super::general::{Kernel32, Kernel64, Kernels, general32, general64};
use super::simd::{BASE, V3, V4, blend};
use crate::exec::{Env, Flow, Handler, Level, Mode, Src, Step, Vreg, Wave};

/// The type of an operand: how constants read, what |x| and -x mean, how a result is clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ty {
    B32,
    U32,
    I32,
    F32,
    U16,
    I16,
    F16,
    /// A bf16 in the low half.
    Bf16,
    /// Two 16-bit numbers.
    PU16,
    PI16,
    PF16,
    B64,
    U64,
    I64,
    F64,
}

impl Ty {
    /// 32-bit registers that hold it.
    pub(super) const fn width(self) -> u16 {
        match self {
            Ty::B64 | Ty::U64 | Ty::I64 | Ty::F64 => 2,
            _ => 1,
        }
    }

    pub(super) const fn is_float(self) -> bool {
        matches!(self, Ty::F32 | Ty::F16 | Ty::Bf16 | Ty::PF16 | Ty::F64)
    }

    /// True for 16-bit numbers in one half of a register.
    pub(super) const fn is_half(self) -> bool {
        matches!(self, Ty::U16 | Ty::I16 | Ty::F16)
    }

    pub(super) const fn is_packed(self) -> bool {
        matches!(self, Ty::PU16 | Ty::PI16 | Ty::PF16)
    }
}

/// MODE bits that send every vector instruction the general way: gpr-index mode and vector skip.
pub(super) const DIVERTED: u32 = 1 << 27 | 1 << 28;

/// What one lane does with sources of at most 32 bits.
pub(super) trait Lane32 {
    /// Number of sources.
    const N: u8;
    /// Their types.
    const SRC: [Ty; 3];
    /// The result's type.
    const DST: Ty;
    /// A 16-bit result leaves the register's other half alone; else it clears it.
    const KEEP: bool;
    /// Compilers write it often: it gets the fast handlers.
    const HOT: bool;
    /// [`Lane32::exact`] is there.
    const SATURATES: bool;
    /// The operation. Sources that are not there are 0; 16-bit sources lie in the low half, with anything above.
    fn lane<P: Fp>(p: P, s: [u32; 3]) -> u32;
    /// The integer result before it is cut to its type: what a clamp saturates.
    fn exact(s: [u32; 3]) -> i64;
}

/// What one lane does with 64-bit sources or a 64-bit result.
pub(super) trait Lane64 {
    /// Number of sources.
    const N: u8;
    /// Their types.
    const SRC: [Ty; 3];
    /// The result's type.
    const DST: Ty;
    /// As [`Lane32::HOT`].
    const HOT: bool;
    /// The operation; narrow sources are zero-extended.
    fn lane<P: Fp>(p: P, s: [u64; 3]) -> u64;
}

pub(super) const fn any_float(n: u8, src: [Ty; 3], dst: Ty) -> bool {
    dst.is_float() || n > 0 && src[0].is_float() || n > 1 && src[1].is_float() || n > 2 && src[2].is_float()
}

/// The value of a source that is the same for all lanes.
#[inline(always)]
pub(super) fn uniform(src: &Src, wave: &Wave) -> u32 {
    match *src {
        Src::Scalar(code) => wave.s32(code),
        Src::Const(value) => value as u32,
        _ => 0,
    }
}

/// A source of a fast handler: uniform, or a register.
#[derive(Clone, Copy)]
pub(super) enum In {
    Uniform(u32),
    Lanes(*const u32),
}

impl In {
    /// # Safety
    /// The register that a `Lanes` came from is there.
    #[inline(always)]
    pub(super) unsafe fn get(self, lane: usize) -> u32 {
        match self {
            In::Uniform(value) => value,
            // SAFETY: 64 lanes are behind the pointer.
            In::Lanes(first) => unsafe { *first.add(lane) },
        }
    }
}

/// # Safety
/// A `Vgpr` source names a register of the wave.
#[inline(always)]
pub(super) unsafe fn input<const UNIFORM: bool>(step: &Step, wave: &Wave, i: usize) -> In {
    if UNIFORM {
        return In::Uniform(uniform(&step.src[i], wave));
    }
    match step.src[i] {
        // SAFETY: register numbers were checked when the step was made.
        Src::Vgpr(number) => In::Lanes(unsafe { wave.vgpr.as_ptr().add(usize::from(number)).cast() }),
        // SAFETY: a form is chosen by the kinds of the step's sources: this one is a register.
        _ => unsafe { std::hint::unreachable_unchecked() },
    }
}

/// True when a lane of a float result is NaN.
#[inline(always)]
pub(super) fn any_nan(ty: Ty, result: &Vreg) -> bool {
    let mut found = 0u32;
    match ty {
        Ty::F32 => {
            for lane in 0..64 {
                found |= u32::from(result.0[lane] & 0x7fff_ffff > 0x7f80_0000);
            }
        }
        Ty::F16 => {
            for lane in 0..64 {
                found |= u32::from(result.0[lane] & 0x7fff > 0x7c00);
            }
        }
        Ty::PF16 => {
            for lane in 0..64 {
                let x = result.0[lane];
                found |= u32::from(x & 0x7fff > 0x7c00) | u32::from(x & 0x7fff_0000 > 0x7c00_0000);
            }
        }
        _ => {}
    }
    found != 0
}

/// Which sources of a fast handler are uniform is a constant `F`: bit i for source i.
#[inline(always)]
unsafe fn fast<O: Lane32, const F: u8, const L: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let float = const { any_float(O::N, O::SRC, O::DST) };
    let (mask, bits) = if float { (PLAIN_MASK | DIVERTED, PLAIN_BITS) } else { (DIVERTED, 0) };
    if wave.mode.0 & mask != bits {
        // SAFETY: the same step and level.
        return unsafe { general::<O, L>(step, wave, env) };
    }
    let exec = wave.exec();
    let mut result = Vreg([0; 64]);
    // SAFETY: register numbers were checked when the step was made, and the forms fit the step's sources.
    unsafe {
        let a = if F & 1 != 0 { input::<true>(step, wave, 0) } else { input::<false>(step, wave, 0) };
        let b = match O::N {
            0 | 1 => In::Uniform(0),
            _ if F & 2 != 0 => input::<true>(step, wave, 1),
            _ => input::<false>(step, wave, 1),
        };
        let c = match O::N {
            0..=2 => In::Uniform(0),
            _ if F & 4 != 0 => input::<true>(step, wave, 2),
            _ => input::<false>(step, wave, 2),
        };
        for lane in 0..64 {
            result.0[lane] = O::lane(Plain, [a.get(lane), b.get(lane), c.get(lane)]);
        }
        if O::DST.is_float() && any_nan(O::DST, &result) {
            return general::<O, L>(step, wave, env);
        }
        let to = wave.vgpr.as_mut_ptr().add(usize::from(step.dst[0]));
        if exec == !0 { *to = result } else { blend::<L>(to, &result, exec) }
    }
    Flow::Next
}

/// # Safety
/// As [`Handler`] asks.
pub(super) unsafe fn general<O: Lane32, const L: u8>(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    // SAFETY: the step's registers are checked; the kernels are of the step's level.
    unsafe { general32::<L>(step, wave, const { &kernels32::<O, L>() }) }
}

/// # Safety
/// As [`Handler`] asks.
pub(super) unsafe fn wide<O: Lane64, const L: u8>(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    // SAFETY: as in `general`.
    unsafe { general64::<L>(step, wave, const { &kernels64::<O, L>() }) }
}

pub(super) const fn kernels32<O: Lane32, const L: u8>() -> Kernels<Kernel32> {
    let float = any_float(O::N, O::SRC, O::DST);
    let plain = at_level::<O, Plain, L>();
    Kernels {
        n: O::N,
        src: O::SRC,
        dst: O::DST,
        keep: O::KEEP,
        plain,
        nearest: match (float, O::HOT) {
            (false, _) => plain,
            (true, true) => at_level::<O, Nearest, L>(),
            (true, false) => run_base::<O, Any>,
        },
        any: if float { run_base::<O, Any> } else { plain },
        saturate: if O::SATURATES { Some(saturate::<O>) } else { None },
    }
}

pub(super) const fn kernels64<O: Lane64, const L: u8>() -> Kernels<Kernel64> {
    let float = any_float(O::N, O::SRC, O::DST);
    let plain: Kernel64 = match L {
        #[cfg(target_arch = "x86_64")]
        V3 => wide_v3::<O>,
        #[cfg(target_arch = "x86_64")]
        V4 => wide_v4::<O>,
        _ => wide_base::<O, Plain>,
    };
    Kernels {
        n: O::N,
        src: O::SRC,
        dst: O::DST,
        keep: false,
        plain,
        nearest: if float { wide_base::<O, Any> } else { plain },
        any: if float { wide_base::<O, Any> } else { plain },
        saturate: None,
    }
}

/// What is known of MODE, made from it.
pub(super) trait FromMode: Fp {
    fn from_mode(mode: Mode) -> Self;
}

impl FromMode for Plain {
    fn from_mode(_: Mode) -> Self {
        Plain
    }
}

impl FromMode for Nearest {
    fn from_mode(mode: Mode) -> Self {
        Nearest(mode)
    }
}

impl FromMode for Any {
    fn from_mode(mode: Mode) -> Self {
        Any(mode)
    }
}

#[inline(always)]
fn run<O: Lane32, P: FromMode>(s: &[Vreg; 3], d: &mut Vreg, mode: Mode) {
    let p = P::from_mode(mode);
    for lane in 0..64 {
        d.0[lane] = O::lane(p, [s[0].0[lane], s[1].0[lane], s[2].0[lane]]);
    }
}

unsafe fn run_base<O: Lane32, P: FromMode>(s: &[Vreg; 3], d: &mut Vreg, mode: Mode) {
    run::<O, P>(s, d, mode);
}

const fn at_level<O: Lane32, P: FromMode, const L: u8>() -> Kernel32 {
    match L {
        #[cfg(target_arch = "x86_64")]
        V3 => run_v3::<O, P>,
        #[cfg(target_arch = "x86_64")]
        V4 => run_v4::<O, P>,
        _ => run_base::<O, P>,
    }
}

/// Clamps the exact result to the range of its type.
unsafe fn saturate<O: Lane32>(s: &[Vreg; 3], d: &mut Vreg, _: Mode) {
    let (low, high) = match O::DST {
        Ty::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Ty::U16 | Ty::PU16 => (0, i64::from(u16::MAX)),
        Ty::I16 | Ty::PI16 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        _ => (0, i64::from(u32::MAX)),
    };
    let one = |s| O::exact(s).clamp(low, high) as u32;
    for lane in 0..64 {
        let s = [s[0].0[lane], s[1].0[lane], s[2].0[lane]];
        d.0[lane] = match O::DST {
            Ty::PU16 => {
                let high = [s[0] >> 16, s[1] >> 16, s[2] >> 16];
                (one(s) & 0xffff) | one(high) << 16
            }
            Ty::PI16 => {
                let high = [s[0] >> 16, s[1] >> 16, s[2] >> 16];
                (one(s) & 0xffff) | one(high) << 16
            }
            Ty::U16 | Ty::I16 => one(s) & 0xffff,
            _ => one(s),
        };
    }
}

#[inline(always)]
fn run64<O: Lane64, P: FromMode>(s: &[[Vreg; 2]; 3], d: &mut [Vreg; 2], mode: Mode) {
    let p = P::from_mode(mode);
    let read = |i: usize, lane: usize| {
        if i >= usize::from(O::N) {
            0
        } else if O::SRC[i].width() == 2 {
            u64::from(s[i][0].0[lane]) | u64::from(s[i][1].0[lane]) << 32
        } else {
            u64::from(s[i][0].0[lane])
        }
    };
    for lane in 0..64 {
        let r = O::lane(p, [read(0, lane), read(1, lane), read(2, lane)]);
        d[0].0[lane] = r as u32;
        if O::DST.width() == 2 {
            d[1].0[lane] = (r >> 32) as u32;
        }
    }
}

unsafe fn wide_base<O: Lane64, P: FromMode>(s: &[[Vreg; 2]; 3], d: &mut [Vreg; 2], mode: Mode) {
    run64::<O, P>(s, d, mode);
}

/// The copies of the handlers and kernels for one level of the host's vector units.
macro_rules! level {
    ($features:literal, $level:expr, $fast:ident, $run:ident, $wide:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $fast<O: Lane32, const F: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
            // SAFETY: the caller vouches for the features and the step.
            unsafe { fast::<O, F, { $level }>(step, wave, env) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $run<O: Lane32, P: FromMode>(s: &[Vreg; 3], d: &mut Vreg, mode: Mode) {
            run::<O, P>(s, d, mode);
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $wide<O: Lane64>(s: &[[Vreg; 2]; 3], d: &mut [Vreg; 2], mode: Mode) {
            run64::<O, Plain>(s, d, mode);
        }
    };
}

level!("avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt", V3, fast_v3, run_v3, wide_v3);
level!("avx2,fma,f16c,bmi1,bmi2,popcnt,lzcnt,avx512f,avx512bw,avx512dq,avx512vl", V4, fast_v4, run_v4, wide_v4);

/// The fast handler for a form, where there is one.
pub(super) fn fast_handler<O: Lane32>(level: Level, form: u8) -> Option<Handler> {
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
    // Unary: lanes or uniform. Binary: one uniform source. Ternary: what compilers write.
    #[cfg(target_arch = "x86_64")]
    forms!(1 0, 1 1, 2 0, 2 1, 2 2, 3 0, 3 1, 3 2, 3 4, 3 6);
    let _ = (level, form);
    None
}

/// The general handler at a level.
pub(super) fn general_handler<O: Lane32>(level: Level) -> Handler {
    match level {
        Level::Base => general::<O, BASE>,
        Level::V3 => general::<O, V3>,
        Level::V4 => general::<O, V4>,
    }
}

/// The handler of an operation on 64-bit lanes.
pub(super) fn wide_handler<O: Lane64>(level: Level) -> Handler {
    match level {
        Level::Base => wide::<O, BASE>,
        Level::V3 => wide::<O, V3>,
        Level::V4 => wide::<O, V4>,
    }
}

/// An operation as [`super::compile`] wants it.
pub(super) struct Entry {
    pub(super) n: u8,
    pub(super) src: [Ty; 3],
    pub(super) dst: Ty,
    pub(super) keep: bool,
    pub(super) saturates: bool,
    /// The third source is the destination's old value.
    pub(super) accumulates: bool,
    pub(super) fast: fn(Level, u8) -> Option<Handler>,
    pub(super) general: fn(Level) -> Handler,
}

fn no_fast(_: Level, _: u8) -> Option<Handler> {
    None
}

pub(super) fn entry32<O: Lane32>(accumulates: bool) -> Entry {
    Entry {
        n: O::N,
        src: O::SRC,
        dst: O::DST,
        keep: O::KEEP,
        saturates: O::SATURATES,
        accumulates,
        fast: if O::HOT { fast_handler::<O> } else { no_fast },
        general: general_handler::<O>,
    }
}

pub(super) fn entry64<O: Lane64>(accumulates: bool) -> Entry {
    Entry {
        n: O::N,
        src: O::SRC,
        dst: O::DST,
        keep: false,
        saturates: false,
        accumulates,
        fast: if O::HOT { super::wide::fast_handler::<O> } else { no_fast },
        general: wide_handler::<O>,
    }
}

/// Pads a list of source types to three, and counts it.
macro_rules! types {
    () => {
        (0u8, [Ty::B32, Ty::B32, Ty::B32])
    };
    ($a:ident) => {
        (1u8, [Ty::$a, Ty::B32, Ty::B32])
    };
    ($a:ident, $b:ident) => {
        (2u8, [Ty::$a, Ty::$b, Ty::B32])
    };
    ($a:ident, $b:ident, $c:ident) => {
        (3u8, [Ty::$a, Ty::$b, Ty::$c])
    };
}

/// Defines a function from opcodes to entries of 32-bit lane operations. A row:
/// `Op(source types) -> type = |p, a, b| result;`, with `[keep]` after the type when a 16-bit result leaves the other half
/// alone, `[acc]` when the last source is the destination, `[hot]` for the fast handlers, and `=> exact result` for what a
/// clamp saturates.
macro_rules! lanes32 {
    ($name:ident: $($op:ident ($($ty:ident),*) -> $dst:ident $([$($flag:ident),*])? =
        |$p:ident $(, $s:ident)*| $body:expr $(=> $exact:expr)?;)*) => {
        /// The entry of an operation of this group.
        pub(super) fn $name(op: $crate::isa::Op) -> Option<$crate::exec::valu::lane::Entry> {
            use $crate::exec::valu::lane::{Lane32, Ty, entry32};
            match op {
                $($crate::isa::Op::$op => {
                    struct This;
                    impl Lane32 for This {
                        const N: u8 = types!($($ty),*).0;
                        const SRC: [Ty; 3] = types!($($ty),*).1;
                        const DST: Ty = Ty::$dst;
                        const KEEP: bool = flag!(keep $($($flag)*)?);
                        const SATURATES: bool = has_exact!($($exact)?);
                        const HOT: bool = flag!(hot $($($flag)*)?);
                        #[inline(always)]
                        fn lane<P: $crate::exec::valu::fp::Fp>($p: P, s: [u32; 3]) -> u32 {
                            let _ = $p;
                            let [$($s,)* ..] = s;
                            $body
                        }
                        #[inline(always)]
                        #[allow(unused_variables)]
                        fn exact(s: [u32; 3]) -> i64 {
                            let [$($s,)* ..] = s;
                            exact_or_zero!($($exact)?)
                        }
                    }
                    Some(entry32::<This>(flag!(acc $($($flag)*)?)))
                })*
                _ => None,
            }
        }
    };
}

/// The same for [`Lane64`].
macro_rules! lanes64 {
    ($name:ident: $($op:ident ($($ty:ident),*) -> $dst:ident $([$($flag:ident),*])? =
        |$p:ident $(, $s:ident)*| $body:expr;)*) => {
        /// The entry of an operation of this group.
        pub(super) fn $name(op: $crate::isa::Op) -> Option<$crate::exec::valu::lane::Entry> {
            use $crate::exec::valu::lane::{Lane64, Ty, entry64};
            match op {
                $($crate::isa::Op::$op => {
                    struct This;
                    impl Lane64 for This {
                        const N: u8 = types!($($ty),*).0;
                        const SRC: [Ty; 3] = types!($($ty),*).1;
                        const DST: Ty = Ty::$dst;
                        const HOT: bool = flag!(hot $($($flag)*)?);
                        #[inline(always)]
                        fn lane<P: $crate::exec::valu::fp::Fp>($p: P, s: [u64; 3]) -> u64 {
                            let _ = $p;
                            let [$($s,)* ..] = s;
                            $body
                        }
                    }
                    Some(entry64::<This>(flag!(acc $($($flag)*)?)))
                })*
                _ => None,
            }
        }
    };
}

/// True when the flag, the first word, is in the list.
macro_rules! flag {
    (keep $($given:ident)*) => { false $(|| flag!(@keep $given))* };
    (acc $($given:ident)*) => { false $(|| flag!(@acc $given))* };
    (hot $($given:ident)*) => { false $(|| flag!(@hot $given))* };
    (@keep keep) => { true };
    (@acc acc) => { true };
    (@hot hot) => { true };
    (@$wanted:ident $other:ident) => { false };
}

macro_rules! has_exact {
    () => {
        false
    };
    ($exact:expr) => {
        true
    };
}

macro_rules! exact_or_zero {
    () => {
        0
    };
    ($exact:expr) => {
        $exact
    };
}

pub(super) use {exact_or_zero, flag, has_exact, lanes32, lanes64, types};
