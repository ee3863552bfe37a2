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
        // The conditional-debug bits of STATUS are clear: no debugger sets them.
        SCbranchCdbgsys(wave) => false;
        SCbranchCdbguser(wave) => false;
        SCbranchCdbgsysOrUser(wave) => false;
        SCbranchCdbgsysAndUser(wave) => false;
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
        Op::SEndpgm | Op::SEndpgmSaved | Op::SEndpgmOrderedPsDone => Some(end),
        Op::SSetkill => Some(setkill),
        Op::STrap => Some(trap),
        Op::SSethalt | Op::SSendmsghalt => Some(halt),
        Op::SGetpcB64 => Some(getpc),
        Op::SSetpcB64 => Some(setpc),
        Op::SSwappcB64 => Some(swappc),
        Op::SCallB64 => Some(call),
        Op::SCbranchIFork => Some(fork_immediate),
        Op::SCbranchGFork => Some(fork_register),
        Op::SCbranchJoin => Some(join),
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

/// The KILL bit ends the wave.
unsafe fn setkill(step: &Step, _: &mut Wave, _: &mut Env<'_>) -> Flow {
    if step.imm & 1 == 1 { Flow::End } else { Flow::Next }
}

unsafe fn trap(step: &Step, _: &mut Wave, env: &mut Env<'_>) -> Flow {
    env.raise(FaultKind::Trap(step.imm as u16), None)
}

/// `s_sethalt 0` wakes nobody; the others stop the wave for good, since no host wakes it.
unsafe fn halt(step: &Step, _: &mut Wave, env: &mut Env<'_>) -> Flow {
    if step.op == Op::SSethalt && step.imm & 1 == 0 {
        return Flow::Next;
    }
    env.raise(FaultKind::Deadlock("the wave halted itself".to_owned()), None)
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
        Ok(pc) if offset.is_multiple_of(4) => {
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

/// `MODE.CSP`: how many pairs of paths wait on the fork stack, four scalar registers each.
const CSP_SHIFT: u32 = 29;

/// Forks: lanes with a set bit of the mask go to `target`, the others go on. When both have lanes the path with more of
/// them is pushed (target and mask), and the other runs first.
fn fork(mask: u64, target: u64, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let exec = wave.exec();
    let (pass, fail) = (mask & exec, !mask & exec);
    if pass == exec {
        return jump(target, wave, env);
    }
    if fail == exec {
        return Flow::Next;
    }
    let csp = wave.mode.0 >> CSP_SHIFT;
    let slot = (csp * 4) as u8;
    wave.mode = Mode((wave.mode.0 & !(7 << CSP_SHIFT)) | ((csp + 1) & 7) << CSP_SHIFT);
    if fail.count_ones() < pass.count_ones() {
        wave.set_s64(slot, pass);
        wave.set_s64(slot + 2, target);
        wave.set_exec(fail);
        return Flow::Next;
    }
    wave.set_s64(slot, fail);
    wave.set_s64(slot + 2, address(wave.pc, env));
    wave.set_exec(pass);
    jump(target, wave, env)
}

/// `s_cbranch_i_fork`: the target is relative.
unsafe fn fork_immediate(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let target = address(wave.pc.wrapping_add(step.imm as u32), env);
    fork(read64(step, wave, 0), target, wave, env)
}

/// `s_cbranch_g_fork`: the target is an address.
unsafe fn fork_register(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    fork(read64(step, wave, 0), read64(step, wave, 1), wave, env)
}

/// `s_cbranch_join`: goes on when the stack is as deep as the source says, else runs the path on its top.
unsafe fn join(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let csp = wave.mode.0 >> CSP_SHIFT;
    if csp == read32(step, wave, 0) & 7 {
        return Flow::Next;
    }
    let csp = csp.wrapping_sub(1) & 7;
    wave.mode = Mode((wave.mode.0 & !(7 << CSP_SHIFT)) | csp << CSP_SHIFT);
    let slot = (csp * 4) as u8;
    wave.set_exec(wave.s64(slot));
    jump(wave.s64(slot + 2), wave, env)
}

fn set_mode(wave: &mut Wave, bit: u32, on: bool) {
    let bits = wave.mode.0;
    wave.mode = Mode(if on { bits | bit } else { bits & !bit });
}

unsafe fn setvskip(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let on = read32(step, wave, 0) >> (read32(step, wave, 1) & 31) & 1 == 1;
    set_mode(wave, VSKIP, on);
    Flow::Mode
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
