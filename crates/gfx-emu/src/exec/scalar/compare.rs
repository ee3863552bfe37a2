//! SOPC compares, and SOPK forms with a 16-bit immediate.

use super::{read32, read64, write32};
use crate::exec::{Env, Flow, Handler, Step, Wave};
use crate::isa::Op;

macro_rules! compare {
    ($op:expr, $read:ident; $($name:ident($a:ident, $b:ident) => $value:expr;)*) => {
        match $op {
            $(Op::$name => {
                unsafe fn run(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
                    let ($a, $b) = ($read(step, wave, 0), $read(step, wave, 1));
                    wave.scc = $value;
                    Flow::Next
                }
                Some(run as Handler)
            })*
            _ => None,
        }
    };
}

/// The handler of a SOPC compare.
pub(super) fn handler(op: Op) -> Option<Handler> {
    let narrow = compare! { op, read32;
        SCmpEqI32(a, b) => a == b;
        SCmpLgI32(a, b) => a != b;
        SCmpGtI32(a, b) => (a as i32) > b as i32;
        SCmpGeI32(a, b) => (a as i32) >= b as i32;
        SCmpLtI32(a, b) => (a as i32) < b as i32;
        SCmpLeI32(a, b) => (a as i32) <= b as i32;
        SCmpEqU32(a, b) => a == b;
        SCmpLgU32(a, b) => a != b;
        SCmpGtU32(a, b) => a > b;
        SCmpGeU32(a, b) => a >= b;
        SCmpLtU32(a, b) => a < b;
        SCmpLeU32(a, b) => a <= b;
        SBitcmp0B32(a, b) => a >> (b & 31) & 1 == 0;
        SBitcmp1B32(a, b) => a >> (b & 31) & 1 == 1;
    };
    let wide = compare! { op, read64;
        SCmpEqU64(a, b) => a == b;
        SCmpLgU64(a, b) => a != b;
        SBitcmp0B64(a, b) => a >> (b & 63) & 1 == 0;
        SBitcmp1B64(a, b) => a >> (b & 63) & 1 == 1;
    };
    narrow.or(wide)
}

macro_rules! compare_immediate {
    ($op:expr; $($name:ident($a:ident, $k:ident) => $value:expr;)*) => {
        match $op {
            $(Op::$name => {
                unsafe fn run(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
                    let ($a, $k) = (read32(step, wave, 0), step.imm);
                    wave.scc = $value;
                    Flow::Next
                }
                Some(run as Handler)
            })*
            _ => None,
        }
    };
}

/// The handler of a SOPK operation that is no control. `step.imm` is the sign-extended immediate.
pub(super) fn immediate(op: Op) -> Option<Handler> {
    let compares = compare_immediate! { op;
        SCmpkEqI32(a, k) => i64::from(a as i32) == k;
        SCmpkLgI32(a, k) => i64::from(a as i32) != k;
        SCmpkGtI32(a, k) => i64::from(a as i32) > k;
        SCmpkGeI32(a, k) => i64::from(a as i32) >= k;
        SCmpkLtI32(a, k) => i64::from(a as i32) < k;
        SCmpkLeI32(a, k) => i64::from(a as i32) <= k;
        SCmpkEqU32(a, k) => a == u32::from(k as u16);
        SCmpkLgU32(a, k) => a != u32::from(k as u16);
        SCmpkGtU32(a, k) => a > u32::from(k as u16);
        SCmpkGeU32(a, k) => a >= u32::from(k as u16);
        SCmpkLtU32(a, k) => a < u32::from(k as u16);
        SCmpkLeU32(a, k) => a <= u32::from(k as u16);
    };
    compares.or(match op {
        Op::SMovkI32 => Some(movk as Handler),
        Op::SCmovkI32 => Some(cmovk),
        Op::SAddkI32 => Some(addk),
        Op::SMulkI32 => Some(mulk),
        _ => None,
    })
}

unsafe fn movk(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    write32(step, wave, step.imm as u32);
    Flow::Next
}

unsafe fn cmovk(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.scc {
        write32(step, wave, step.imm as u32);
    }
    Flow::Next
}

unsafe fn addk(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let old = wave.s32(step.dst[0] as u8) as i32;
    wave.scc = old.checked_add(step.imm as i32).is_none();
    write32(step, wave, old.wrapping_add(step.imm as i32) as u32);
    Flow::Next
}

unsafe fn mulk(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let old = wave.s32(step.dst[0] as u8);
    write32(step, wave, old.wrapping_mul(step.imm as u32));
    Flow::Next
}
