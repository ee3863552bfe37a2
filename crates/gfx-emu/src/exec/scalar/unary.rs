//! SOP1: one scalar source.

use super::{read32, read64, write32, write64};
use crate::exec::{Env, Flow, Handler, Step, Wave};
use crate::isa::Op;

/// Position of the highest bit that differs from the sign, counted from the top; -1 when all are alike.
fn sign_bits(value: i64, bits: u32) -> u32 {
    let value = value << (64 - bits);
    let folded = (value ^ (value >> 63)) as u64;
    first_or_none(folded.leading_zeros(), bits)
}

fn first_or_none(position: u32, bits: u32) -> u32 {
    if position >= bits { u32::MAX } else { position }
}

/// Whole-quad mode: each quad with any bit set becomes all ones.
fn whole_quads(mask: u64) -> u64 {
    quads(mask).fold(0, |all, quad| all | 0xf << (quad * 4))
}

/// One bit a quad.
fn quad_mask(mask: u64) -> u64 {
    quads(mask).fold(0, |all, quad| all | 1 << quad)
}

fn quads(mask: u64) -> impl Iterator<Item = u32> {
    (0..16).filter(move |quad| mask >> (quad * 4) & 0xf != 0)
}

fn replicate(value: u32) -> u64 {
    (0..32).fold(0, |all, bit| all | (u64::from(value >> bit & 1) * 3) << (bit * 2))
}

macro_rules! unary {
    ($op:expr, $read:ident, $write:ident; $($name:ident($a:ident) => $value:expr, $scc:expr;)*) => {
        match $op {
            $(Op::$name => {
                unsafe fn run(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
                    let $a = $read(step, wave, 0);
                    let value = $value;
                    #[allow(clippy::redundant_closure_call)]
                    let scc: Option<bool> = ($scc)(value);
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

fn keep<T>(_: T) -> Option<bool> {
    None
}

fn set32(value: u32) -> Option<bool> {
    Some(value != 0)
}

fn set64(value: u64) -> Option<bool> {
    Some(value != 0)
}

/// The handler of a SOP1 operation that is no control.
pub(super) fn handler(op: Op) -> Option<Handler> {
    narrow(op).or_else(|| wide(op)).or_else(|| wide_to_narrow(op)).or_else(|| narrow_to_wide(op)).or_else(|| other(op))
}

fn narrow(op: Op) -> Option<Handler> {
    unary! { op, read32, write32;
        SMovB32(a) => a, keep;
        SNotB32(a) => !a, set32;
        SWqmB32(a) => whole_quads(a.into()) as u32, set32;
        SQuadmaskB32(a) => quad_mask(a.into()) as u32, set32;
        SBrevB32(a) => a.reverse_bits(), keep;
        SBcnt0I32B32(a) => a.count_zeros(), set32;
        SBcnt1I32B32(a) => a.count_ones(), set32;
        SFf0I32B32(a) => first_or_none(a.trailing_ones(), 32), keep;
        SFf1I32B32(a) => first_or_none(a.trailing_zeros(), 32), keep;
        SFlbitI32B32(a) => first_or_none(a.leading_zeros(), 32), keep;
        SFlbitI32(a) => sign_bits((a as i32).into(), 32), keep;
        SSextI32I8(a) => a as i8 as i32 as u32, keep;
        SSextI32I16(a) => a as i16 as i32 as u32, keep;
        SAbsI32(a) => (a as i32).wrapping_abs() as u32, set32;
    }
}

fn wide(op: Op) -> Option<Handler> {
    unary! { op, read64, write64;
        SMovB64(a) => a, keep;
        SNotB64(a) => !a, set64;
        SWqmB64(a) => whole_quads(a), set64;
        SQuadmaskB64(a) => quad_mask(a), set64;
        SBrevB64(a) => a.reverse_bits(), keep;
    }
}

fn wide_to_narrow(op: Op) -> Option<Handler> {
    unary! { op, read64, write32;
        SBcnt0I32B64(a) => a.count_zeros(), set32;
        SBcnt1I32B64(a) => a.count_ones(), set32;
        SFf0I32B64(a) => first_or_none(a.trailing_ones(), 64), keep;
        SFf1I32B64(a) => first_or_none(a.trailing_zeros(), 64), keep;
        SFlbitI32B64(a) => first_or_none(a.leading_zeros(), 64), keep;
        SFlbitI32I64(a) => sign_bits(a as i64, 64), keep;
    }
}

fn narrow_to_wide(op: Op) -> Option<Handler> {
    unary! { op, read32, write64;
        SBitreplicateB64B32(a) => replicate(a), keep;
    }
}

/// `D = combine(S0, EXEC)` goes to EXEC; `old` says whether the destination gets the old EXEC or the new.
macro_rules! exec_ops {
    ($op:expr; $($name:ident($s:ident, $exec:ident) => $value:expr, $old:literal;)*) => {
        match $op {
            $(Op::$name => {
                unsafe fn run(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
                    let ($s, $exec) = (read64(step, wave, 0), wave.exec());
                    let value: u64 = $value;
                    write64(step, wave, if $old { $exec } else { value });
                    wave.set_exec(value);
                    wave.scc = value != 0;
                    Flow::Next
                }
                Some(run as Handler)
            })*
            _ => None,
        }
    };
}

fn other(op: Op) -> Option<Handler> {
    let exec = exec_ops! { op;
        SAndSaveexecB64(s, exec) => s & exec, true;
        SOrSaveexecB64(s, exec) => s | exec, true;
        SXorSaveexecB64(s, exec) => s ^ exec, true;
        SAndn2SaveexecB64(s, exec) => s & !exec, true;
        SOrn2SaveexecB64(s, exec) => s | !exec, true;
        SNandSaveexecB64(s, exec) => !(s & exec), true;
        SNorSaveexecB64(s, exec) => !(s | exec), true;
        SXnorSaveexecB64(s, exec) => !(s ^ exec), true;
        SAndn1SaveexecB64(s, exec) => !s & exec, true;
        SOrn1SaveexecB64(s, exec) => !s | exec, true;
        SAndn1WrexecB64(s, exec) => !s & exec, false;
        SAndn2WrexecB64(s, exec) => s & !exec, false;
    };
    exec.or(match op {
        Op::SCmovB32 => Some(cmov32 as Handler),
        Op::SCmovB64 => Some(cmov64),
        Op::SBitset0B32 => Some(bitset32::<false>),
        Op::SBitset1B32 => Some(bitset32::<true>),
        Op::SBitset0B64 => Some(bitset64::<false>),
        Op::SBitset1B64 => Some(bitset64::<true>),
        Op::SMovrelsB32 => Some(movrels::<false>),
        Op::SMovrelsB64 => Some(movrels::<true>),
        Op::SMovreldB32 => Some(movreld::<false>),
        Op::SMovreldB64 => Some(movreld::<true>),
        _ => None,
    })
}

unsafe fn cmov32(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.scc {
        let value = read32(step, wave, 0);
        write32(step, wave, value);
    }
    Flow::Next
}

unsafe fn cmov64(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.scc {
        let value = read64(step, wave, 0);
        write64(step, wave, value);
    }
    Flow::Next
}

unsafe fn bitset32<const ON: bool>(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let bit = 1_u32 << (read32(step, wave, 0) & 31);
    let old = wave.s32(step.dst[0] as u8);
    write32(step, wave, if ON { old | bit } else { old & !bit });
    Flow::Next
}

unsafe fn bitset64<const ON: bool>(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let bit = 1_u64 << (read32(step, wave, 0) & 63);
    let old = wave.s64(step.dst[0] as u8);
    write64(step, wave, if ON { old | bit } else { old & !bit });
    Flow::Next
}

/// Register number `code` moved by M0; beyond s101 it is s0.
fn relative(code: u8, m0: u32, width: u32) -> u8 {
    let number = u32::from(code).saturating_add(m0 & 0xff);
    if number + width <= 102 { number as u8 } else { 0 }
}

unsafe fn movrels<const WIDE: bool>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let crate::exec::Src::Scalar(code) = step.src[0] else {
        let kind = crate::fault::FaultKind::Unsupported("s_movrels with a constant".to_owned());
        return env.raise(kind, None);
    };
    let from = relative(code, wave.m0(), 1 + u32::from(WIDE));
    if WIDE {
        write64(step, wave, wave.s64(from));
    } else {
        write32(step, wave, wave.s32(from));
    }
    Flow::Next
}

unsafe fn movreld<const WIDE: bool>(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let to = relative(step.dst[0] as u8, wave.m0(), 1 + u32::from(WIDE));
    if WIDE {
        wave.set_s64(to, read64(step, wave, 0));
    } else {
        wave.set_s32(to, read32(step, wave, 0));
    }
    Flow::Next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_from_the_sign() {
        assert_eq!(sign_bits(0, 32), u32::MAX);
        assert_eq!(sign_bits(-1, 32), u32::MAX);
        assert_eq!(sign_bits(1, 32), 31);
        assert_eq!(sign_bits(i64::from(i32::MIN), 32), 1);
        assert_eq!(sign_bits(i64::MAX, 64), 1);
        assert_eq!(sign_bits(-2, 64), 63);
    }

    #[test]
    fn quads_and_replication() {
        assert_eq!(whole_quads(0x8000_0000_0000_0010), 0xf000_0000_0000_00f0);
        assert_eq!(quad_mask(0x8000_0000_0000_0010), 0x8002);
        assert_eq!(replicate(0x8000_0005), 0xc000_0000_0000_0033);
    }
}
