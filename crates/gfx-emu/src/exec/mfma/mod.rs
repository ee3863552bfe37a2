//! Matrix instructions: dense and sparse MFMA of every type, and gfx950's scaled forms.
//!
//! Layouts follow the general rule of AMD's ISA documents (see [`layout`]); what each type does with its products follows
//! [`numerics`](self): f32 and f64 are chains of fused multiply-adds in the order of k; gfx90a's f16 and bf16 add pairs; gfx942's
//! narrow types add groups of products aligned to their largest exponent (see [`fused`]), and gfx950 is taken to do as gfx942,
//! which is not published. All 64 lanes take part whatever EXEC says.

mod chain;
mod element;
mod fused;
mod layout;
mod scaled;
mod shape;
mod sparse;
#[cfg(target_arch = "x86_64")]
mod wide;

#[cfg(test)]
mod tests;

use super::constants::Inline;
use super::env::Env;
use super::levels::{leveled, pick};
use super::step::{Compiler, Flow, Handler, Src, Step, Unsupported};
use super::wave::{Vreg, Wave};
use crate::isa::{Arch, Encoding, Inst, Operand};
use element::Element;
use layout::Tile;
use shape::{Accumulator, Shape};

/// Most rows, columns and depth of any shape.
const SIDE: usize = 32;
const DEPTH: usize = 128;

// `aux`: 0 the A element, 1 the B element, 2 the arch.
const A_ELEMENT: usize = 0;
const B_ELEMENT: usize = 1;
const CDNA: usize = 2;

/// Makes a step of a matrix instruction; `None` for other encodings.
pub(super) fn compile(c: &Compiler, inst: &Inst) -> Option<Result<Step, Unsupported>> {
    matches!(inst.enc, Encoding::Mai | Encoding::MaiScale).then(|| build(c, inst)).flatten()
}

fn build(c: &Compiler, inst: &Inst) -> Option<Result<Step, Unsupported>> {
    let shape = Shape::of(inst.op)?;
    Some(step(c, inst, &shape))
}

/// Which handler, by arch and type.
fn handler(c: &Compiler, shape: &Shape) -> Handler {
    match (shape.accumulator, shape.a) {
        _ if shape.mixed => scaled::run,
        (Accumulator::F64, _) => pick!(c, multiply::<F64>),
        (Accumulator::I32, _) => pick!(c, multiply::<INTEGER>),
        (_, Element::F32) => pick!(c, multiply::<F32>),
        (_, Element::F16 | Element::Bf16) if c.arch == Arch::Gfx90a => pick!(c, multiply::<PAIRS>),
        _ => pick!(c, multiply::<FUSED>),
    }
}

// What becomes of the products.
const F32: u8 = 0;
const F64: u8 = 1;
const INTEGER: u8 = 2;
const PAIRS: u8 = 3;
const FUSED: u8 = 4;

fn step(c: &Compiler, inst: &Inst, shape: &Shape) -> Result<Step, Unsupported> {
    let [a, b] = if shape.mixed {
        let element = |code| Element::mixed(code).ok_or(Unsupported::NoHandler);
        [element(inst.mods.cbsz)?, element(inst.mods.blgp)?]
    } else {
        [shape.a, shape.b]
    };
    let mut step = Step::new(inst, handler(c, shape));
    #[cfg(target_arch = "x86_64")]
    if let Some(run) = wide::handler(c, inst, shape) {
        step.run = run;
    }
    step.aux[..3].copy_from_slice(&[a as u8, b as u8, c.arch as u8]);
    step.dst[0] = c.register(inst.dst[0], shape.d_registers())?;
    step.src[0] = Src::Vgpr(c.register(inst.src[0], shape.a_registers(a))?);
    step.src[1] = Src::Vgpr(c.register(inst.src[1], shape.b_registers(b))?);
    step.src[2] = match inst.src[2] {
        Operand::Vgpr(_) | Operand::Agpr(_) => {
            let width = if shape.sparse { 1 } else { shape.d_registers() };
            Src::Vgpr(c.register(inst.src[2], width)?)
        }
        Operand::Inline(code) => Src::Const(constant(code, shape.accumulator).ok_or(Unsupported::NoHandler)?),
        Operand::Literal(value) => Src::Const(value.into()),
        _ => return Err(Unsupported::NoHandler),
    };
    for operand in inst.scale {
        if let Operand::Vgpr(_) | Operand::Agpr(_) = operand {
            c.register(operand, 1)?;
        }
    }
    Ok(step)
}

/// An inline constant as C.
fn constant(code: u8, accumulator: Accumulator) -> Option<u64> {
    Inline::of(code).map(if accumulator == Accumulator::F64 { Inline::wide } else { Inline::narrow })
}

leveled!(multiply = body<const FAMILY: u8>);

/// Every dense and sparse form with one element type a side.
#[inline(always)]
unsafe fn body<const FAMILY: u8>(step: &Step, wave: &mut Wave, env: &mut Env<'_>) -> Flow {
    let Some(shape) = Shape::of(step.op) else { return Flow::Next };
    match shape.n {
        // SAFETY: this handler's.
        32 => unsafe { sized::<FAMILY, 32>(step, &shape, wave, env) },
        // SAFETY: this handler's.
        16 => unsafe { sized::<FAMILY, 16>(step, &shape, wave, env) },
        // SAFETY: this handler's.
        _ => unsafe { sized::<FAMILY, 4>(step, &shape, wave, env) },
    }
}

#[inline(always)]
unsafe fn sized<const FAMILY: u8, const N: usize>(
    step: &Step,
    shape: &Shape,
    wave: &mut Wave,
    env: &mut Env<'_>,
) -> Flow {
    // SAFETY: this handler's.
    unsafe {
        match FAMILY {
            F64 => chain::f64::<N>(step, shape, wave),
            F32 => chain::f32::<N>(step, shape, wave),
            INTEGER => chain::integer::<N>(step, shape, wave),
            PAIRS => chain::pairs::<N>(step, shape, wave),
            _ => fused::run::<N>(step, shape, wave),
        }
    }
    let _ = env;
    Flow::Next
}

/// A and B registers after CBSZ, ABID and BLGP: copies, where those move lanes.
struct Inputs {
    a: Vec<Vreg>,
    b: Vec<Vreg>,
}

/// The lane that lane `l` of B takes its data from (BLGP).
fn b_lane(blgp: u8, lane: usize) -> usize {
    match blgp {
        1 => lane % 32,
        2 => lane % 32 + 32,
        3 => (lane + 16) % 64,
        4 => lane % 16,
        5 => lane % 16 + 16,
        6 => lane % 16 + 32,
        7 => lane % 16 + 48,
        _ => lane,
    }
}

/// Copies of the inputs with their lanes moved; `None` when nothing moves them.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
unsafe fn moved(step: &Step, shape: &Shape, wave: &mut Wave) -> Option<Inputs> {
    let mods = &step.inst.mods;
    let moves = (mods.cbsz != 0 || mods.blgp != 0) && !shape.sparse && !shape.mixed;
    if !moves || shape.accumulator == Accumulator::F64 {
        return None;
    }
    // SAFETY: the caller's.
    Some(unsafe { move_lanes(step, shape, wave) })
}

#[cold]
unsafe fn move_lanes(step: &Step, shape: &Shape, wave: &mut Wave) -> Inputs {
    let mods = step.inst.mods;
    let span = 64 >> mods.cbsz.min(6);
    let a_lane = |lane: usize| (lane % span + span * usize::from(mods.abid)) % 64;
    let mut copy = |source: Src, count: u16, lane_of: &dyn Fn(usize) -> usize| -> Vec<Vreg> {
        let Src::Vgpr(number) = source else { return Vec::new() };
        // SAFETY: the caller's.
        let from = unsafe { std::slice::from_raw_parts(wave.registers(number), count.into()) };
        from.iter().map(|reg| Vreg(std::array::from_fn(|lane| reg.0[lane_of(lane)]))).collect()
    };
    Inputs {
        a: copy(step.src[0], shape.a_registers(shape.a), &a_lane),
        b: copy(step.src[1], shape.b_registers(shape.b), &|lane| b_lane(mods.blgp, lane)),
    }
}

/// Pointers to the A and B registers.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
unsafe fn inputs(step: &Step, wave: &mut Wave, moved: &Option<Inputs>) -> (*const Vreg, *const Vreg) {
    if let Some(inputs) = moved {
        return (inputs.a.as_ptr(), inputs.b.as_ptr());
    }
    let mut pointer = |source: Src| match source {
        // SAFETY: the caller's.
        Src::Vgpr(number) => unsafe { wave.registers(number).cast_const() },
        _ => std::ptr::null(),
    };
    (pointer(step.src[0]), pointer(step.src[1]))
}

/// `N` lanes of a register from `lane` on, around its end where there are not as many.
///
/// # Safety
/// The register exists.
#[inline(always)]
unsafe fn lanes<const N: usize>(from: *const Vreg, register: usize, lane: usize) -> [u32; N] {
    // SAFETY: the caller's.
    let row = unsafe { &(*from.add(register)).0 };
    match row.get(lane..lane + N).and_then(|lanes| <[u32; N]>::try_from(lanes).ok()) {
        Some(lanes) => lanes,
        None => std::array::from_fn(|j| row[(lane + j) & 63]),
    }
}

/// C of a block as 32-bit words, by row.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
unsafe fn load_c<const N: usize>(
    step: &Step,
    shape: &Shape,
    wave: &mut Wave,
    block: usize,
    out: &mut [[u32; N]; SIDE],
) {
    let source = if shape.sparse { Src::Vgpr(step.dst[0]) } else { step.src[2] };
    match source {
        Src::Vgpr(number) => {
            // SAFETY: the caller's.
            let from = unsafe { wave.registers(number) };
            for (row, words) in out.iter_mut().enumerate().take(shape.m) {
                let (item, lane) = Tile::accumulator(shape, block, row);
                // SAFETY: items are below the accumulator's registers.
                *words = unsafe { lanes::<N>(from, item, lane) };
            }
        }
        Src::Const(value) => *out = [[value as u32; N]; SIDE],
        _ => *out = [[0; N]; SIDE],
    }
}

/// Writes D of a block.
///
/// # Safety
/// The step's registers exist.
#[inline(always)]
unsafe fn store_d<const N: usize>(step: &Step, shape: &Shape, wave: &mut Wave, block: usize, rows: &[[u32; N]; SIDE]) {
    // SAFETY: the caller's.
    let to = unsafe { wave.registers(step.dst[0]) };
    for (row, words) in rows.iter().enumerate().take(shape.m) {
        let (item, lane) = Tile::accumulator(shape, block, row);
        // SAFETY: items are below the accumulator's registers.
        let row = unsafe { &mut (*to.add(item)).0 };
        if let Some(place) = row.get_mut(lane..lane + N) {
            place.copy_from_slice(words);
        }
    }
}
