//! Read-modify-write operations. Lanes act in order, lane 0 first; a workgroup's turn is not interrupted inside one.

use super::lanes::{self, Space};
use crate::exec::{Env, Src, Step, Wave};
use crate::fault::{Access, FaultKind};
use crate::isa::Op;
use half::{bf16, f16};

/// What is done to the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Change {
    Swap,
    CompareSwap,
    /// Compares as floats: -0 equals +0, NaN nothing.
    CompareSwapFloat,
    Add,
    Sub,
    /// Data minus old.
    ReverseSub,
    SMin,
    UMin,
    SMax,
    UMax,
    And,
    Or,
    Xor,
    /// `(old & !data) | data2`.
    MaskOr,
    Inc,
    Dec,
    /// `old >= data ? old - data : old + data2`.
    Wrap,
    AddFloat,
    MinFloat,
    MaxFloat,
    PackedAddF16,
    PackedAddBf16,
}

/// A change with its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec) struct Atomic {
    pub(in crate::exec) change: Change,
    /// 64 bits instead of 32.
    pub(in crate::exec) wide: bool,
}

impl Atomic {
    /// The atomic of a FLAT, GLOBAL or buffer opcode.
    pub(super) fn of(op: Op) -> Option<Self> {
        let narrow = |change| Some(Self { change, wide: false });
        let wide = |change| Some(Self { change, wide: true });
        match op {
            Op::FlatAtomicSwap | Op::BufferAtomicSwap => narrow(Change::Swap),
            Op::FlatAtomicCmpswap | Op::BufferAtomicCmpswap => narrow(Change::CompareSwap),
            Op::FlatAtomicAdd | Op::BufferAtomicAdd => narrow(Change::Add),
            Op::FlatAtomicSub | Op::BufferAtomicSub => narrow(Change::Sub),
            Op::FlatAtomicSmin | Op::BufferAtomicSmin => narrow(Change::SMin),
            Op::FlatAtomicUmin | Op::BufferAtomicUmin => narrow(Change::UMin),
            Op::FlatAtomicSmax | Op::BufferAtomicSmax => narrow(Change::SMax),
            Op::FlatAtomicUmax | Op::BufferAtomicUmax => narrow(Change::UMax),
            Op::FlatAtomicAnd | Op::BufferAtomicAnd => narrow(Change::And),
            Op::FlatAtomicOr | Op::BufferAtomicOr => narrow(Change::Or),
            Op::FlatAtomicXor | Op::BufferAtomicXor => narrow(Change::Xor),
            Op::FlatAtomicInc | Op::BufferAtomicInc => narrow(Change::Inc),
            Op::FlatAtomicDec | Op::BufferAtomicDec => narrow(Change::Dec),
            Op::FlatAtomicAddF32 | Op::BufferAtomicAddF32 => narrow(Change::AddFloat),
            Op::FlatAtomicPkAddF16 | Op::BufferAtomicPkAddF16 => narrow(Change::PackedAddF16),
            Op::FlatAtomicPkAddBf16 | Op::BufferAtomicPkAddBf16 => narrow(Change::PackedAddBf16),
            Op::FlatAtomicAddF64 | Op::BufferAtomicAddF64 => wide(Change::AddFloat),
            Op::FlatAtomicMinF64 | Op::BufferAtomicMinF64 => wide(Change::MinFloat),
            Op::FlatAtomicMaxF64 | Op::BufferAtomicMaxF64 => wide(Change::MaxFloat),
            Op::FlatAtomicSwapX2 | Op::BufferAtomicSwapX2 => wide(Change::Swap),
            Op::FlatAtomicCmpswapX2 | Op::BufferAtomicCmpswapX2 => wide(Change::CompareSwap),
            Op::FlatAtomicAddX2 | Op::BufferAtomicAddX2 => wide(Change::Add),
            Op::FlatAtomicSubX2 | Op::BufferAtomicSubX2 => wide(Change::Sub),
            Op::FlatAtomicSminX2 | Op::BufferAtomicSminX2 => wide(Change::SMin),
            Op::FlatAtomicUminX2 | Op::BufferAtomicUminX2 => wide(Change::UMin),
            Op::FlatAtomicSmaxX2 | Op::BufferAtomicSmaxX2 => wide(Change::SMax),
            Op::FlatAtomicUmaxX2 | Op::BufferAtomicUmaxX2 => wide(Change::UMax),
            Op::FlatAtomicAndX2 | Op::BufferAtomicAndX2 => wide(Change::And),
            Op::FlatAtomicOrX2 | Op::BufferAtomicOrX2 => wide(Change::Or),
            Op::FlatAtomicXorX2 | Op::BufferAtomicXorX2 => wide(Change::Xor),
            Op::FlatAtomicIncX2 | Op::BufferAtomicIncX2 => wide(Change::Inc),
            Op::FlatAtomicDecX2 | Op::BufferAtomicDecX2 => wide(Change::Dec),
            _ => None,
        }
    }

    /// Bytes of the value.
    pub(super) fn bytes(self) -> u8 {
        if self.wide { 8 } else { 4 }
    }

    /// Registers of the data operand: a compare-and-swap has the comparand behind the new value.
    pub(super) fn data_registers(self) -> u16 {
        let values = if self.change == Change::CompareSwap { 2 } else { 1 };
        values * u16::from(self.bytes() / 4)
    }

    /// The new value. `second` is the comparand of swaps and the further operand of others; `flush` says whether f32
    /// denormals of inputs and results become zero.
    pub(super) fn apply(self, old: u64, data: u64, second: u64, flush: bool) -> u64 {
        if let Change::MinFloat | Change::MaxFloat = self.change {
            return select_float(self.wide, self.change == Change::MaxFloat, old, data, flush && !self.wide);
        }
        if self.wide {
            // The packed changes have no 64-bit form, and the order of floats was dealt with.
            return wide(self.change, old, data, second, f64::from_bits).unwrap_or(old);
        }
        let (old, data) = (old as u32, data as u32);
        let float = |bits: u32| {
            let value = f32::from_bits(bits);
            if flush && value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
        };
        let new = narrow(self.change, old, data, second as u32, float);
        new.unwrap_or_else(|| packed(self.change, old, data)).into()
    }
}

/// The smaller or larger float by the ISA's rules for atomics, the old value being their first source: a signalling NaN wins,
/// quieted, the old one first; a quiet NaN loses to any number; -0 lies below +0. Denormals are flushed for the comparison
/// alone: the operand itself is kept, and the old value where both compare equal.
fn select_float(wide: bool, max: bool, old: u64, data: u64, flush: bool) -> u64 {
    let (sign, exponent, quiet) =
        if wide { (1_u64 << 63, 0x7ff << 52, 1_u64 << 51) } else { (1 << 31, 0xff << 23, 1 << 22) };
    let is_nan = |x: u64| x & !sign > exponent;
    for x in [old, data] {
        if is_nan(x) && x & quiet == 0 {
            return x | quiet;
        }
    }
    if is_nan(data) {
        return old;
    }
    if is_nan(old) {
        return data;
    }
    // Integers in the order of the numbers.
    let key = |x: u64| {
        let x = if flush && x & exponent == 0 { x & sign } else { x };
        if x & sign == 0 { x as i64 } else { -1 - (x ^ sign) as i64 }
    };
    let better = if max { key(data) > key(old) } else { key(data) < key(old) };
    if better { data } else { old }
}

/// Makes the function of one width: the new value, or nothing for the changes that are made elsewhere. `float` reads a value as a float.
macro_rules! change_of_width {
    ($name:ident, $unsigned:ty, $signed:ty, $float:ty) => {
        fn $name(
            change: Change,
            old: $unsigned,
            data: $unsigned,
            second: $unsigned,
            float: impl Fn($unsigned) -> $float,
        ) -> Option<$unsigned> {
            let choose = |new: bool| if new { data } else { old };
            Some(match change {
                Change::Swap => data,
                Change::CompareSwap => choose(old == second),
                Change::CompareSwapFloat => choose(float(old) == float(second)),
                Change::Add => old.wrapping_add(data),
                Change::Sub => old.wrapping_sub(data),
                Change::ReverseSub => data.wrapping_sub(old),
                Change::SMin => (old as $signed).min(data as $signed) as $unsigned,
                Change::UMin => old.min(data),
                Change::SMax => (old as $signed).max(data as $signed) as $unsigned,
                Change::UMax => old.max(data),
                Change::And => old & data,
                Change::Or => old | data,
                Change::Xor => old ^ data,
                Change::MaskOr => (old & !data) | second,
                Change::Inc if old >= data => 0,
                Change::Inc => old + 1,
                Change::Dec if old == 0 || old > data => data,
                Change::Dec => old - 1,
                Change::Wrap if old >= data => old - data,
                Change::Wrap => old.wrapping_add(second),
                Change::AddFloat => float((float(old) + float(data)).to_bits()).to_bits(),
                Change::MinFloat | Change::MaxFloat | Change::PackedAddF16 | Change::PackedAddBf16 => return None,
            })
        }
    };
}

change_of_width!(narrow, u32, i32, f32);
change_of_width!(wide, u64, i64, f64);

/// Two 16-bit sums.
fn packed(change: Change, old: u32, data: u32) -> u32 {
    halves(old, data, |a, b| match change {
        Change::PackedAddF16 => f16::from_f32(f16::from_bits(a).to_f32() + f16::from_bits(b).to_f32()).to_bits(),
        _ => bf16::from_f32(bf16::from_bits(a).to_f32() + bf16::from_bits(b).to_f32()).to_bits(),
    })
}

fn halves(a: u32, b: u32, add: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(add(a as u16, b as u16)) | u32::from(add((a >> 16) as u16, (b >> 16) as u16)) << 16
}

/// A register pair or single register of one lane.
///
/// # Safety
/// The registers exist.
unsafe fn value(wave: &mut Wave, number: u16, wide: bool, lane: usize) -> u64 {
    // SAFETY: the caller's.
    unsafe {
        let first = wave.registers(number);
        let low = u64::from((*first).0[lane]);
        if wide { low | u64::from((*first.add(1)).0[lane]) << 32 } else { low }
    }
}

/// Runs the atomic of a FLAT, GLOBAL or buffer step for the active lanes; lanes that `place` gives nothing for do nothing
/// and return 0. `src[1]` is the data, `dst[0]` the returned old value.
///
/// # Safety
/// The step's registers exist.
pub(super) unsafe fn run(
    step: &Step,
    wave: &mut Wave,
    env: &mut Env<'_>,
    exec: u64,
    place: impl Fn(usize) -> Option<(Space, u64)>,
) -> Result<(), (FaultKind, usize)> {
    let (Some(atomic), Src::Vgpr(data)) = (Atomic::of(step.op), step.src[1]) else {
        return Err((FaultKind::Unsupported("atomic without data".to_owned()), 0));
    };
    let (wide, bytes) = (atomic.wide, u32::from(atomic.bytes()));
    let returns = step.aux[super::flat::RETURNS] != 0;
    lanes::for_lanes(exec, |lane| {
        let old = match place(lane) {
            None => 0,
            Some((Space::Scratch, _)) => return Err(FaultKind::Unsupported("atomic on scratch".to_owned())),
            Some((space, address)) => {
                if address % u64::from(bytes) != 0 {
                    let space = if space == Space::Lds { "LDS" } else { "global" };
                    return Err(FaultKind::Misaligned { space, address, bytes, align: bytes });
                }
                let host = lanes::locate(env, space, Access::Atomic, address, bytes)?;
                // SAFETY: the step's registers exist.
                let (operand, second) = unsafe {
                    let operand = value(wave, data, wide, lane);
                    let compares = atomic.change == Change::CompareSwap;
                    let second = if compares { value(wave, data + 1 + u16::from(wide), wide, lane) } else { 0 };
                    (operand, second)
                };
                // SAFETY: `locate` vouches for the bytes.
                unsafe { change(host, atomic, operand, second, space == Space::Global || !wave.mode.denorm_in_f32()) }
            }
        };
        if returns {
            // SAFETY: the step's registers exist.
            unsafe { put(wave, step.dst[0], wide, lane, old) };
        }
        Ok(())
    })
}

/// Changes the value behind `host` and gives the old one.
///
/// # Safety
/// `host` is good for the atomic's bytes.
pub(in crate::exec) unsafe fn change(host: *mut u8, atomic: Atomic, data: u64, second: u64, flush: bool) -> u64 {
    // SAFETY: the caller's.
    unsafe {
        if atomic.wide {
            let old = host.cast::<u64>().read_unaligned();
            host.cast::<u64>().write_unaligned(atomic.apply(old, data, second, flush));
            old
        } else {
            let old = u64::from(host.cast::<u32>().read_unaligned());
            host.cast::<u32>().write_unaligned(atomic.apply(old, data, second, flush) as u32);
            old
        }
    }
}

/// Sets a register or a pair of one lane.
///
/// # Safety
/// The registers exist.
pub(super) unsafe fn put(wave: &mut Wave, number: u16, wide: bool, lane: usize, value: u64) {
    // SAFETY: the caller's.
    unsafe {
        let first = wave.registers(number);
        (*first).0[lane] = value as u32;
        if wide {
            (*first.add(1)).0[lane] = (value >> 32) as u32;
        }
    }
}

/// As [`value`], for the LDS forms.
///
/// # Safety
/// The registers exist.
pub(super) unsafe fn operand(wave: &mut Wave, source: Src, wide: bool, lane: usize) -> u64 {
    match source {
        // SAFETY: the caller's.
        Src::Vgpr(number) => unsafe { value(wave, number, wide, lane) },
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(change: Change, old: u32, data: u32) -> u32 {
        Atomic { change, wide: false }.apply(old.into(), data.into(), 7, false) as u32
    }

    #[test]
    fn integers() {
        assert_eq!(apply(Change::Inc, 5, 5), 0);
        assert_eq!(apply(Change::Inc, 4, 5), 5);
        assert_eq!(apply(Change::Dec, 0, 5), 5);
        assert_eq!(apply(Change::Dec, 6, 5), 5);
        assert_eq!(apply(Change::Dec, 3, 5), 2);
        assert_eq!(apply(Change::SMin, u32::MAX, 1), u32::MAX);
        assert_eq!(apply(Change::UMin, u32::MAX, 1), 1);
        assert_eq!(apply(Change::CompareSwap, 7, 1), 1);
        assert_eq!(apply(Change::CompareSwap, 8, 1), 8);
        assert_eq!(apply(Change::Wrap, 9, 4), 5);
        assert_eq!(apply(Change::Wrap, 3, 4), 10);
        assert_eq!(apply(Change::MaskOr, 0xff, 0xf0), 0x0f);
    }

    #[test]
    fn floats() {
        let f = f32::to_bits;
        assert_eq!(apply(Change::AddFloat, f(1.5), f(2.25)), f(3.75));
        assert_eq!(apply(Change::MaxFloat, f(-0.0), f(0.0)), f(0.0));
        assert_eq!(apply(Change::MaxFloat, f(-1.0), f(0.0)), f(0.0));
        assert_eq!(apply(Change::MinFloat, f(f32::NAN), f(1.0)), f(1.0));
        let flushed = Atomic { change: Change::AddFloat, wide: false }.apply(1, 1, 0, true);
        assert_eq!(flushed, 0);
        assert_eq!(apply(Change::AddFloat, 1, 1), 2);
        let packed = apply(Change::PackedAddF16, 0x3c00_4000, 0x3c00_3c00);
        assert_eq!(packed, 0x4000_4200);
        let packed = apply(Change::PackedAddBf16, 0x3f80_3f80, 0x3f80_4000);
        assert_eq!(packed, 0x4000_4040);
    }

    /// Every pair out of a list that is written in the documents' order: signalling NaN first, then the numbers from the
    /// smallest on; of a quiet NaN and a number the number comes out.
    #[test]
    fn float_order() {
        let narrow = [0xff80_0000_u32, 0xbf80_0000, 0x8000_0001, 0x8000_0000, 0, 1, 0x3f80_0000, 0x7f80_0000];
        let wide: [u64; 6] = [0xfff0 << 48, 0xbff0 << 48, 1 << 63, 0, 0x3ff0 << 48, 0x7ff0 << 48];
        let both = |wide, old, data, flush| {
            [Change::MinFloat, Change::MaxFloat].map(|change| Atomic { change, wide }.apply(old, data, 0, flush))
        };
        for (is_wide, list) in [(false, narrow.map(u64::from).as_slice()), (true, wide.as_slice())] {
            for i in 0..list.len() {
                for j in 0..list.len() {
                    let want = [list[i.min(j)], list[i.max(j)]];
                    assert_eq!(both(is_wide, list[i], list[j], false), want, "{:x} {:x}", list[i], list[j]);
                }
            }
            let [quiet, signal, quieted] = if is_wide {
                [0x7ff8_0000_0000_0007, 0xfff0_0000_0000_0003, 0xfff8_0000_0000_0003]
            } else {
                [0x7fc0_0007, 0xff80_0003, 0xffc0_0003_u64]
            };
            for &number in list {
                assert_eq!(both(is_wide, quiet, number, false), [number; 2]);
                assert_eq!(both(is_wide, number, quiet, false), [number; 2]);
                assert_eq!(both(is_wide, signal, number, false), [quieted; 2]);
                assert_eq!(both(is_wide, number, signal, false), [quieted; 2]);
            }
            assert_eq!(both(is_wide, quiet, signal, false), [quieted; 2]);
        }
        // Flushed, denormals are zeros of their sign; what comes out is the operand itself.
        assert_eq!(both(false, 1, 2, true), [1, 1]);
        assert_eq!(both(false, 0x8000_0001, 1, true), [0x8000_0001, 1]);
        // f64 denormals stay.
        assert_eq!(both(true, 1, 2, true), [1, 2]);
    }
}
