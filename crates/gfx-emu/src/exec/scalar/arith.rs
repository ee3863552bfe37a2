//! SOP2: two scalar sources, one result.

use super::{read32, read64, write32, write64};
use crate::exec::{Env, Flow, Handler, Step, Wave};
use crate::isa::Op;

/// A result with the condition code it leaves: `None` keeps SCC.
type Outcome<T> = (T, Option<bool>);

/// A result whose SCC says that it is not zero.
fn flagged<T: PartialEq + Default>(value: T) -> Outcome<T> {
    let set = value != T::default();
    (value, Some(set))
}

fn add_carry(a: u32, b: u32, carry: bool) -> Outcome<u32> {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, Some(sum >> 32 != 0))
}

fn sub_borrow(a: u32, b: u32, borrow: bool) -> Outcome<u32> {
    let difference = i64::from(a) - i64::from(b) - i64::from(borrow);
    (difference as u32, Some(difference < 0))
}

fn shifted_add(a: u32, b: u32, shift: u32) -> Outcome<u32> {
    let sum = (u64::from(a) << shift) + u64::from(b);
    (sum as u32, Some(sum >> 32 != 0))
}

/// `S1[4:0]` is the offset, `S1[22:16]` the width.
fn bfe_u32(a: u32, b: u32) -> u32 {
    let width = (b >> 16) & 0x7f;
    let shifted = a >> (b & 31);
    if width >= 32 { shifted } else { shifted & ((1 << width) - 1) }
}

fn bfe_i32(a: u32, b: u32) -> u32 {
    let width = (b >> 16) & 0x7f;
    if width == 0 {
        return 0;
    }
    let field = bfe_u32(a, b);
    let unused = 32 - width.min(32).min(32 - (b & 31));
    ((field << unused) as i32 >> unused) as u32
}

/// `S1[5:0]` is the offset, `S1[22:16]` the width.
fn bfe_u64(a: u64, b: u32) -> u64 {
    let width = (b >> 16) & 0x7f;
    let shifted = a >> (b & 63);
    if width >= 64 { shifted } else { shifted & ((1 << width) - 1) }
}

fn bfe_i64(a: u64, b: u32) -> u64 {
    let width = (b >> 16) & 0x7f;
    if width == 0 {
        return 0;
    }
    let field = bfe_u64(a, b);
    let unused = 64 - width.min(64).min(64 - (b & 63));
    ((field << unused) as i64 >> unused) as u64
}

fn pack(low: u32, high: u32) -> u32 {
    (low & 0xffff) | high << 16
}

/// Handlers of operations with two sources and a result, each read and written at its own width.
macro_rules! binary {
    ($op:expr, $read_a:ident, $read_b:ident, $write:ident; $($name:ident($a:ident, $b:ident, $scc:ident) => $value:expr;)*) => {
        match $op {
            $(Op::$name => {
                unsafe fn run(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
                    let ($a, $b, $scc) = ($read_a(step, wave, 0), $read_b(step, wave, 1), wave.scc);
                    let _ = $scc;
                    let (value, scc) = $value;
                    $write(step, wave, value);
                    wave.scc = scc.unwrap_or(wave.scc);
                    Flow::Next
                }
                Some(run as Handler)
            })*
            _ => None,
        }
    };
}

/// The handler of a SOP2 operation.
pub(super) fn handler(op: Op) -> Option<Handler> {
    narrow(op).or_else(|| wide(op)).or_else(|| wide_by_narrow(op)).or_else(|| masks(op))
}

fn narrow(op: Op) -> Option<Handler> {
    binary! { op, read32, read32, write32;
        SAddU32(a, b, scc) => add_carry(a, b, false);
        SSubU32(a, b, scc) => sub_borrow(a, b, false);
        SAddI32(a, b, scc) => (a.wrapping_add(b), Some((a as i32).checked_add(b as i32).is_none()));
        SSubI32(a, b, scc) => (a.wrapping_sub(b), Some((a as i32).checked_sub(b as i32).is_none()));
        SAddcU32(a, b, scc) => add_carry(a, b, scc);
        SSubbU32(a, b, scc) => sub_borrow(a, b, scc);
        SMinI32(a, b, scc) => ((a as i32).min(b as i32) as u32, Some((a as i32) < b as i32));
        SMinU32(a, b, scc) => (a.min(b), Some(a < b));
        SMaxI32(a, b, scc) => ((a as i32).max(b as i32) as u32, Some((a as i32) >= b as i32));
        SMaxU32(a, b, scc) => (a.max(b), Some(a >= b));
        SCselectB32(a, b, scc) => (if scc { a } else { b }, None);
        SAndB32(a, b, scc) => flagged(a & b);
        SOrB32(a, b, scc) => flagged(a | b);
        SXorB32(a, b, scc) => flagged(a ^ b);
        SAndn2B32(a, b, scc) => flagged(a & !b);
        SOrn2B32(a, b, scc) => flagged(a | !b);
        SNandB32(a, b, scc) => flagged(!(a & b));
        SNorB32(a, b, scc) => flagged(!(a | b));
        SXnorB32(a, b, scc) => flagged(!(a ^ b));
        SLshlB32(a, b, scc) => flagged(a << (b & 31));
        SLshrB32(a, b, scc) => flagged(a >> (b & 31));
        SAshrI32(a, b, scc) => flagged(((a as i32) >> (b & 31)) as u32);
        SBfmB32(a, b, scc) => (((1_u32 << (a & 31)) - 1) << (b & 31), None);
        SMulI32(a, b, scc) => (a.wrapping_mul(b), None);
        SMulHiU32(a, b, scc) => (((u64::from(a) * u64::from(b)) >> 32) as u32, None);
        SMulHiI32(a, b, scc) => (((i64::from(a as i32) * i64::from(b as i32)) >> 32) as u32, None);
        SBfeU32(a, b, scc) => flagged(bfe_u32(a, b));
        SBfeI32(a, b, scc) => flagged(bfe_i32(a, b));
        SAbsdiffI32(a, b, scc) => flagged((a as i32).wrapping_sub(b as i32).unsigned_abs());
        SLshl1AddU32(a, b, scc) => shifted_add(a, b, 1);
        SLshl2AddU32(a, b, scc) => shifted_add(a, b, 2);
        SLshl3AddU32(a, b, scc) => shifted_add(a, b, 3);
        SLshl4AddU32(a, b, scc) => shifted_add(a, b, 4);
        SPackLlB32B16(a, b, scc) => (pack(a, b), None);
        SPackLhB32B16(a, b, scc) => (pack(a, b >> 16), None);
        SPackHhB32B16(a, b, scc) => (pack(a >> 16, b >> 16), None);
    }
}

fn wide(op: Op) -> Option<Handler> {
    binary! { op, read64, read64, write64;
        SCselectB64(a, b, scc) => (if scc { a } else { b }, None);
        SAndB64(a, b, scc) => flagged(a & b);
        SOrB64(a, b, scc) => flagged(a | b);
        SXorB64(a, b, scc) => flagged(a ^ b);
        SAndn2B64(a, b, scc) => flagged(a & !b);
        SOrn2B64(a, b, scc) => flagged(a | !b);
        SNandB64(a, b, scc) => flagged(!(a & b));
        SNorB64(a, b, scc) => flagged(!(a | b));
        SXnorB64(a, b, scc) => flagged(!(a ^ b));
    }
}

fn wide_by_narrow(op: Op) -> Option<Handler> {
    binary! { op, read64, read32, write64;
        SLshlB64(a, b, scc) => flagged(a << (b & 63));
        SLshrB64(a, b, scc) => flagged(a >> (b & 63));
        SAshrI64(a, b, scc) => flagged(((a as i64) >> (b & 63)) as u64);
        SBfeU64(a, b, scc) => flagged(bfe_u64(a, b));
        SBfeI64(a, b, scc) => flagged(bfe_i64(a, b));
    }
}

/// `s_bfm_b64`: a 64-bit mask from two 32-bit sources.
fn masks(op: Op) -> Option<Handler> {
    unsafe fn bfm(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
        let (width, offset) = (read32(step, wave, 0) & 63, read32(step, wave, 1) & 63);
        write64(step, wave, ((1_u64 << width) - 1) << offset);
        Flow::Next
    }
    (op == Op::SBfmB64).then_some(bfm as Handler)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit fields by the definition, bit by bit.
    fn field(value: u128, offset: u32, width: u32, bits: u32, signed: bool) -> u128 {
        let mut out = 0;
        let mut last = 0;
        for bit in 0..width.min(bits) {
            let set = if offset + bit < bits { (value >> (offset + bit)) & 1 } else { 0 };
            if offset + bit < bits {
                last = set;
            }
            out |= set << bit;
        }
        if signed && width > 0 && last == 1 {
            let held = width.min(bits - offset);
            out |= !0_u128 << held;
        }
        out & ((1 << bits) - 1)
    }

    #[test]
    fn bit_fields_match_the_definition() {
        for value in [0_u64, 1, 0x8000_0000_8000_0001, 0x1234_5678_9abc_def0, u64::MAX] {
            for offset in 0..64 {
                for width in 0..=70 {
                    let b = offset | width << 16;
                    assert_eq!(u128::from(bfe_u64(value, b)), field(value.into(), offset, width, 64, false));
                    assert_eq!(
                        u128::from(bfe_i64(value, b)),
                        field(value.into(), offset, width, 64, true),
                        "{value:x} {offset} {width}"
                    );
                    let low = value as u32;
                    assert_eq!(u128::from(bfe_u32(low, b)), field(low.into(), offset & 31, width, 32, false));
                    assert_eq!(u128::from(bfe_i32(low, b)), field(low.into(), offset & 31, width, 32, true));
                }
            }
        }
    }

    #[test]
    fn carries_and_overflows() {
        assert_eq!(add_carry(u32::MAX, 0, true), (0, Some(true)));
        assert_eq!(add_carry(u32::MAX, 0, false), (u32::MAX, Some(false)));
        assert_eq!(sub_borrow(0, u32::MAX, true), (0, Some(true)));
        assert_eq!(sub_borrow(5, 4, true), (0, Some(false)));
        assert_eq!(shifted_add(0x8000_0000, 1, 1), (1, Some(true)));
    }
}
