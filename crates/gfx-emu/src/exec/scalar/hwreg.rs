//! `s_getreg` and `s_setreg`: hardware registers and bit fields of them.

use super::{read32, write32};
use crate::exec::{Env, Flow, Mode, Src, Step, Wave};
use crate::fault::FaultKind;

const MODE: u32 = 1;
const STATUS: u32 = 2;
const TRAPSTS: u32 = 3;
const HW_ID: u32 = 4;
const GPR_ALLOC: u32 = 5;
const LDS_ALLOC: u32 = 6;
const IB_STS: u32 = 7;
const XCC_ID: u32 = 20;

/// The field that the immediate names: register, first bit, mask of its width.
fn field(imm: i64) -> (u32, u32, u32) {
    let bits = imm as u16 as u32;
    let size = (bits >> 11 & 31) + 1;
    (bits & 63, bits >> 6 & 31, if size == 32 { u32::MAX } else { (1 << size) - 1 })
}

/// The value of a register; `None` for those that the emulator does not model.
fn value(register: u32, wave: &Wave, env: &Env<'_>) -> Option<u32> {
    Some(match register {
        MODE => wave.mode.0,
        STATUS => {
            let zero = |mask: u64, bit: u32| u32::from(mask == 0) << bit;
            // SCC 0, EXECZ 9, VCCZ 10, VALID 16.
            u32::from(wave.scc) | zero(wave.exec(), 9) | zero(wave.vcc(), 10) | 1 << 16
        }
        TRAPSTS | IB_STS => 0,
        HW_ID => (wave.id & 15) | (wave.simd & 3) << 4 | (env.cu & 15) << 8 | (env.cu >> 4 & 3) << 13,
        GPR_ALLOC => {
            let granules = |registers: usize| (registers.div_ceil(8).max(1) - 1) as u32;
            (granules(wave.vgpr.len() + wave.agpr.len()) & 63) << 6 | (granules(wave.vgpr.len()) & 63) << 12
        }
        LDS_ALLOC => (env.lds.len().div_ceil(512) as u32) << 12,
        XCC_ID => env.xcc & 15,
        _ => return None,
    })
}

pub(super) unsafe fn get(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (register, offset, mask) = field(step.imm);
    match value(register, wave, env) {
        Some(value) => {
            write32(step, wave, value >> offset & mask);
            Flow::Next
        }
        None => env.raise(FaultKind::Unsupported(format!("reads hardware register {register}")), None),
    }
}

/// `s_setreg_b32` (a register is the source) and `s_setreg_imm32_b32` (a literal is).
pub(super) unsafe fn set(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let (register, offset, mask) = field(step.imm);
    let Some(index) =
        step.src.iter().zip(&step.inst.src).position(|(source, operand)| {
            !matches!(source, Src::None) && !matches!(operand, crate::isa::Operand::Imm(_))
        })
    else {
        return env.raise(FaultKind::Unsupported("s_setreg without a source".to_owned()), None);
    };
    let value = (read32(step, wave, index) & mask) << offset;
    match register {
        MODE => wave.mode = Mode((wave.mode.0 & !(mask << offset)) | value),
        // Sticky exception bits: nothing reads them back.
        TRAPSTS => {}
        _ => return env.raise(FaultKind::Unsupported(format!("writes hardware register {register}")), None),
    }
    Flow::Mode
}
