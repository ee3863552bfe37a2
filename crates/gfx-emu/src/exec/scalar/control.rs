//! Control: branches, calls, barriers, waits, messages, and the modes that other instructions run under.

use super::hwreg;
use super::{read32, read64, write64};
use crate::exec::{Env, Flow, Handler, Mode, Step, Wave};
use crate::fault::FaultKind;
use crate::isa::Op;

const GPR_IDX_EN: u32 = 1 << 27;
const VSKIP: u32 = 1 << 28;

macro_rules! branches {
    ($op:expr; $($name:ident($wave:ident) => $taken:expr;)*) => {
        match $op {
            $(Op::$name => {
                unsafe fn run(step: &Step, $wave: &mut Wave, _: &mut Env<'_>) -> Flow {
                    if $taken {
                        $wave.pc = $wave.pc.wrapping_add(step.imm as u32);
                    }
                    Flow::Next
                }
                Some(run as Handler)
            })*
            _ => None,
        }
    };
}

/// The handler of a control operation. Waits need nothing: memory operations complete when they are issued.
pub(super) fn handler(op: Op) -> Option<Handler> {
    let branch = branches! { op;
        SBranch(wave) => true;
        SCbranchScc0(wave) => !wave.scc;
        SCbranchScc1(wave) => wave.scc;
        SCbranchVccz(wave) => wave.vcc() == 0;
        SCbranchVccnz(wave) => wave.vcc() != 0;
        SCbranchExecz(wave) => wave.exec() == 0;
        SCbranchExecnz(wave) => wave.exec() != 0;
    };
    branch.or(match op {
        Op::SNop
        | Op::SWaitcnt
        | Op::SSetprio
        | Op::SSendmsg
        | Op::SIcacheInv
        | Op::SIncperflevel
        | Op::SDecperflevel
        | Op::STtracedata => Some(nothing as Handler),
        Op::SSleep | Op::SWakeup => Some(sleep),
        Op::SBarrier => Some(barrier),
        Op::SEndpgm | Op::SEndpgmSaved => Some(end),
        Op::STrap => Some(trap),
        Op::SSethalt => Some(halt),
        Op::SGetpcB64 => Some(getpc),
        Op::SSetpcB64 => Some(setpc),
        Op::SSwappcB64 => Some(swappc),
        Op::SCallB64 => Some(call),
        Op::SGetregB32 => Some(hwreg::get),
        Op::SSetregB32 => Some(hwreg::set),
        Op::SSetregImm32B32 => Some(hwreg::set),
        Op::SSetvskip => Some(setvskip),
        Op::SSetGprIdxOn => Some(gpr_idx_on),
        Op::SSetGprIdxOff => Some(gpr_idx_off),
        Op::SSetGprIdxMode => Some(gpr_idx_mode),
        Op::SSetGprIdxIdx => Some(gpr_idx_idx),
        _ => None,
    })
}

unsafe fn nothing(_: &Step, _: &mut Wave, _: &mut Env<'_>) -> Flow {
    Flow::Next
}

unsafe fn sleep(_: &Step, _: &mut Wave, _: &mut Env<'_>) -> Flow {
    Flow::Yield
}

unsafe fn barrier(_: &Step, _: &mut Wave, _: &mut Env<'_>) -> Flow {
    Flow::Barrier
}

unsafe fn end(_: &Step, _: &mut Wave, _: &mut Env<'_>) -> Flow {
    Flow::End
}

unsafe fn trap(step: &Step, _: &mut Wave, env: &mut Env<'_>) -> Flow {
    env.raise(FaultKind::Trap(step.imm as u16), None)
}

unsafe fn halt(step: &Step, _: &mut Wave, env: &mut Env<'_>) -> Flow {
    if step.imm & 1 == 0 {
        return Flow::Next;
    }
    env.raise(FaultKind::Deadlock("the wave halted itself (s_sethalt)".to_owned()), None)
}

/// The device address of a program counter.
fn address(pc: u32, env: &Env<'_>) -> u64 {
    env.code_base.wrapping_add(u64::from(pc) * 4)
}

unsafe fn getpc(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    write64(step, wave, address(wave.pc, env));
    Flow::Next
}

fn jump(target: u64, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let offset = target.wrapping_sub(env.code_base);
    match u32::try_from(offset / 4) {
        Ok(pc) if offset % 4 == 0 => {
            wave.pc = pc;
            Flow::Next
        }
        _ => env.raise(FaultKind::ProgramCounter, None),
    }
}

unsafe fn setpc(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    jump(read64(step, wave, 0), wave, env)
}

unsafe fn swappc(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let target = read64(step, wave, 0);
    write64(step, wave, address(wave.pc, env));
    jump(target, wave, env)
}

unsafe fn call(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    write64(step, wave, address(wave.pc, env));
    wave.pc = wave.pc.wrapping_add(step.imm as u32);
    Flow::Next
}

fn set_mode(wave: &mut Wave, bit: u32, on: bool) {
    let bits = wave.mode.0;
    wave.mode = Mode(if on { bits | bit } else { bits & !bit });
}

unsafe fn setvskip(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let on = read32(step, wave, 0) >> (read32(step, wave, 1) & 31) & 1 == 1;
    set_mode(wave, VSKIP, on);
    Flow::Next
}

/// M0 gets the index (bits 7:0) and, from the immediate, which operands it moves (bits 15:12).
unsafe fn gpr_idx_on(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let index = read32(step, wave, 0) & 0xff;
    let enables = read32(step, wave, 1) & 0xf;
    let m0 = (wave.m0() & !0xf0ff) | index | enables << 12;
    wave.set_s32(crate::exec::code::M0, m0);
    set_mode(wave, GPR_IDX_EN, true);
    Flow::Next
}

unsafe fn gpr_idx_off(_: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    set_mode(wave, GPR_IDX_EN, false);
    Flow::Next
}

unsafe fn gpr_idx_mode(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let m0 = (wave.m0() & !0xf000) | (step.imm as u32 & 0xf) << 12;
    wave.set_s32(crate::exec::code::M0, m0);
    Flow::Next
}

unsafe fn gpr_idx_idx(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let m0 = (wave.m0() & !0xff) | (read32(step, wave, 0) & 0xff);
    wave.set_s32(crate::exec::code::M0, m0);
    Flow::Next
}
