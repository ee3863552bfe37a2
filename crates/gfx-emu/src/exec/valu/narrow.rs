//! Conversions to and from the narrow formats: fp8 and bf8 (FNUZ on gfx942, OCP on gfx950), and gfx950's scaled family.

use super::cvt::to_brain;
use super::fp::{Any, f, in32, narrow16, out16, widen16};
use super::general::{DESTINATION, Index, fetch, put, read};
use super::lane::Ty;
use super::small::{BF6, BF8, BF8_FNUZ, FP4, FP6, FP8, FP8_FNUZ, Small};
use super::{soft, source, step};
use crate::exec::Env;
use crate::exec::step::{Compiler, Flow, Handler, Src, Step, Unsupported};
use crate::exec::wave::{Mode, Vreg, Wave};
use crate::isa::{Arch, Inst, Op};

/// An item of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    F32,
    F16,
    Bf16,
    Small(Small),
}

impl Item {
    fn bits(self) -> u32 {
        match self {
            Item::F32 => 32,
            Item::F16 | Item::Bf16 => 16,
            Item::Small(format) => format.bits,
        }
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "f32" => Item::F32,
            "f16" => Item::F16,
            "bf16" => Item::Bf16,
            "fp8" => Item::Small(FP8),
            "bf8" => Item::Small(BF8),
            "fp6" => Item::Small(FP6),
            "bf6" => Item::Small(BF6),
            "fp4" => Item::Small(FP4),
            _ => return None,
        })
    }

    /// The exact value of the item.
    fn value(self, bits: u32) -> f64 {
        match self {
            Item::F32 => f64::from(f(bits)),
            Item::F16 => f64::from(f(widen16(bits))),
            Item::Bf16 => f64::from(f(bits << 16)),
            Item::Small(format) => format.decode(bits),
        }
    }

    /// The item nearest to a value.
    fn nearest(self, value: f64, random: Option<u32>, mode: Mode) -> u32 {
        let rounded = |format, nan| {
            if value.is_nan() {
                nan
            } else if value.is_infinite() {
                soft::round(value < 0.0, 1, 2000, format, soft::NEAREST) as u32
            } else {
                soft::round_f64(value, format, soft::NEAREST) as u32
            }
        };
        match self {
            Item::F32 => rounded(soft::F32, 0x7fc0_0000),
            Item::F16 => rounded(soft::F16, 0x7e00),
            Item::Bf16 => rounded(soft::BF16, 0x7fc0),
            Item::Small(format) => format.encode(value, random, mode.fp16_ovfl()),
        }
    }
}

/// A scaled conversion, as its mnemonic says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scaled {
    from: Item,
    to: Item,
    /// Items converted.
    count: u32,
    stochastic: bool,
    /// The items alternate between sources 0 and 1.
    alternate: bool,
}

impl Scaled {
    /// Reads a mnemonic of the family.
    fn of(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("v_cvt_scalef32_")?;
        let (stochastic, rest) = rest.strip_prefix("sr_").map_or((false, rest), |rest| (true, rest));
        let (count, doubled, rest) = if let Some(rest) = rest.strip_prefix("2xpk16_") {
            (32, true, rest)
        } else if let Some(rest) = rest.strip_prefix("pk32_") {
            (32, false, rest)
        } else if let Some(rest) = rest.strip_prefix("pk_") {
            (2, false, rest)
        } else {
            (1, false, rest)
        };
        let (to, from) = rest.split_once('_')?;
        let (to, from) = (Item::named(to)?, Item::named(from)?);
        // Two f32 to be packed come from two sources, unless the second is the random number.
        let alternate = doubled || (count == 2 && from == Item::F32 && !stochastic);
        Some(Self { from, to, count, stochastic, alternate })
    }

    fn narrows(self) -> bool {
        matches!(self.to, Item::Small(_))
    }

    /// Registers of source 0 (and 1 when both hold items).
    fn source_registers(self) -> u32 {
        let items = if self.alternate { self.count / 2 } else { self.count };
        (items * self.from.bits()).div_ceil(32)
    }

    fn result_bits(self) -> u32 {
        self.count * self.to.bits()
    }

    /// Index of the source that holds the scale.
    fn scale_source(self) -> usize {
        if self.stochastic || self.alternate { 2 } else { 1 }
    }
}

/// `Step::aux`: which format pair `v_cvt_*_fp8` and its kin use.
const AUX_BF8: usize = 1;

pub(super) fn compile(c: &Compiler, inst: &Inst) -> Option<Result<Step, Unsupported>> {
    let fnuz = c.arch != Arch::Gfx950;
    Some(match inst.op {
        Op::VCvtPkFp8F32 => to_eight(c, inst, if fnuz { FP8_FNUZ } else { FP8 }, pack_eight),
        Op::VCvtPkBf8F32 => to_eight(c, inst, if fnuz { BF8_FNUZ } else { BF8 }, pack_eight),
        Op::VCvtSrFp8F32 => to_eight(c, inst, if fnuz { FP8_FNUZ } else { FP8 }, stochastic_eight),
        Op::VCvtSrBf8F32 => to_eight(c, inst, if fnuz { BF8_FNUZ } else { BF8 }, stochastic_eight),
        Op::VCvtSrF16F32 | Op::VCvtSrBf16F32 => step(c, inst, stochastic_half, &[Ty::F32, Ty::B32], Some(Ty::B32)),
        Op::VCvtF32Fp8 => from_eight(c, inst, if fnuz { FP8_FNUZ } else { FP8 }, 1),
        Op::VCvtF32Bf8 => from_eight(c, inst, if fnuz { BF8_FNUZ } else { BF8 }, 1),
        Op::VCvtPkF32Fp8 => from_eight(c, inst, if fnuz { FP8_FNUZ } else { FP8 }, 2),
        Op::VCvtPkF32Bf8 => from_eight(c, inst, if fnuz { BF8_FNUZ } else { BF8 }, 2),
        op => scaled(c, inst, Scaled::of(op.name())?),
    })
}

/// The eight-bit format of a step.
fn format(step: &Step) -> Small {
    [FP8_FNUZ, BF8_FNUZ, FP8, BF8][usize::from(step.aux[AUX_BF8] & 3)]
}

fn set_format(step: &mut Step, format: Small) {
    step.aux[AUX_BF8] = [FP8_FNUZ, BF8_FNUZ, FP8, BF8].iter().position(|&f| f == format).unwrap_or(0) as u8;
}

fn to_eight(c: &Compiler, inst: &Inst, format: Small, run: Handler) -> Result<Step, Unsupported> {
    let mut step = step(c, inst, run, &[Ty::F32, Ty::F32], Some(Ty::B32))?;
    set_format(&mut step, format);
    Ok(step)
}

fn from_eight(c: &Compiler, inst: &Inst, format: Small, count: u16) -> Result<Step, Unsupported> {
    let mut step = step(c, inst, if count == 1 { one_eight } else { two_eight }, &[Ty::B32], None)?;
    let (number, acc) = c.vreg(inst.dst[0], count)?;
    let sdwa = inst.mods.sdwa.is_some_and(|sdwa| sdwa.dst_sel != 6);
    if acc || sdwa || inst.mods.clamp || inst.mods.omod != 0 {
        return Err(Unsupported::NoHandler);
    }
    step.dst[0] = number;
    set_format(&mut step, format);
    Ok(step)
}

/// Writes `bits` of each lane, from bit `shift` of the destination on, and leaves the rest.
fn insert(step: &Step, wave: &mut Wave, index: Index, r: &mut Vreg, shift: u32, bits: u32) {
    let exec = wave.exec();
    let Some(register) = index.register(wave, step.dst[0], DESTINATION) else { return };
    let Some(to) = wave.vgpr.get_mut(register) else { return };
    let field = if bits == 32 { !0 } else { ((1u32 << bits) - 1) << shift };
    for lane in 0..64 {
        r.0[lane] = to.0[lane] & !field | (r.0[lane] << shift) & field;
    }
    put(to, r, exec);
}

/// Two f32 to two bytes, in the half that `OP_SEL[3]` names.
unsafe fn pack_eight(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let (mut a, mut b) = (Vreg([0; 64]), Vreg([0; 64]));
    fetch(step, wave, index, Ty::F32, 0, &mut a);
    fetch(step, wave, index, Ty::F32, 1, &mut b);
    let (format, ovfl) = (format(step), wave.mode.fp16_ovfl());
    let one = |x: u32| format.encode(f64::from(f(in32(Any(wave.mode), x))), None, ovfl);
    for lane in 0..64 {
        a.0[lane] = one(a.0[lane]) | one(b.0[lane]) << 8;
    }
    let shift = if step.inst.mods.op_sel & 8 != 0 { 16 } else { 0 };
    insert(step, wave, index, &mut a, shift, 16);
    Flow::Next
}

/// One f32 to a byte, stochastically, in the byte that `OP_SEL[3:2]` names.
unsafe fn stochastic_eight(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let (mut a, mut random) = (Vreg([0; 64]), Vreg([0; 64]));
    fetch(step, wave, index, Ty::F32, 0, &mut a);
    read(step, wave, index, 1, 0, &mut random);
    let (format, ovfl) = (format(step), wave.mode.fp16_ovfl());
    for lane in 0..64 {
        a.0[lane] = format.encode(f64::from(f(in32(Any(wave.mode), a.0[lane]))), Some(random.0[lane]), ovfl);
    }
    insert(step, wave, index, &mut a, 8 * u32::from(step.inst.mods.op_sel >> 2 & 3), 8);
    Flow::Next
}

/// f32 to f16 or bf16: the top random bits are added to the bits that are dropped, and the sum is truncated.
unsafe fn stochastic_half(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let (mut a, mut random) = (Vreg([0; 64]), Vreg([0; 64]));
    fetch(step, wave, index, Ty::F32, 0, &mut a);
    read(step, wave, index, 1, 0, &mut random);
    let brain = step.op == Op::VCvtSrBf16F32;
    for lane in 0..64 {
        let (x, bits) = (in32(Any(wave.mode), a.0[lane]), random.0[lane]);
        let finite = x & 0x7f80_0000 != 0x7f80_0000;
        a.0[lane] = match (brain, finite) {
            (true, true) => x.wrapping_add(bits >> 16) >> 16,
            (true, false) => to_brain(x),
            (false, true) => under_mode16(wave.mode, stochastic16(x, bits)),
            (false, false) => narrow16(x),
        };
    }
    let shift = if step.inst.mods.op_sel & 8 != 0 { 16 } else { 0 };
    insert(step, wave, index, &mut a, shift, 16);
    Flow::Next
}

/// The f16 of a finite number as MODE has results: overflow is the largest number under FP16_OVFL, denormals may be flushed.
fn under_mode16(mode: Mode, r: u32) -> u32 {
    let overflows = mode.fp16_ovfl() && r & 0x7fff == 0x7c00;
    out16(Any(mode), if overflows { r - 1 } else { r })
}

/// A finite f32 as f16 by adding 13 random bits below the last place.
fn stochastic16(x: u32, random: u32) -> u32 {
    let value = f64::from(f(x & 0x7fff_ffff));
    let exponent = (((x >> 23) & 0xff) as i32 - 127).max(-14);
    let unit = f64::from_bits(((10 - exponent + 1023) as u64) << 52);
    let scaled = (value * unit * 8192.0) as u64 + u64::from(random >> 19);
    let code = (scaled >> 13) as u32 + (((exponent + 14) as u32) << 10);
    (x >> 16) & 0x8000 | code.min(0x7c00)
}

/// The byte or word of source 0 that `OP_SEL` names (SDWA has selected already).
fn eight_at(step: &Step, wave: &Wave, index: Index, word: bool, to: &mut Vreg) -> u64 {
    let writable = fetch(step, wave, index, Ty::B32, 0, to);
    let select = u32::from(step.inst.mods.op_sel);
    let shift = if step.inst.mods.sdwa.is_some() {
        0
    } else if word {
        16 * (select & 1)
    } else {
        8 * (select & 3)
    };
    to.0.iter_mut().for_each(|lane| *lane >>= shift);
    writable
}

unsafe fn one_eight(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    convert_eight(step, wave, 1)
}

unsafe fn two_eight(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    convert_eight(step, wave, 2)
}

/// One or two bytes to f32.
fn convert_eight(step: &Step, wave: &mut Wave, count: u16) -> Flow {
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let index = Index::of(wave);
    let mut codes = Vreg([0; 64]);
    let writable = wave.exec() & eight_at(step, wave, index, count == 2, &mut codes);
    let format = format(step);
    if !index.reaches(wave, step.dst[0], count) {
        return Flow::Next;
    }
    for part in 0..count {
        let mut r = Vreg([0; 64]);
        for lane in 0..64 {
            r.0[lane] = (format.decode(codes.0[lane] >> (8 * part) & 0xff) as f32).to_bits();
        }
        if let Some(register) = index.register(wave, step.dst[0] + part, DESTINATION)
            && let Some(to) = wave.vgpr.get_mut(register)
        {
            put(to, &r, writable);
        }
    }
    Flow::Next
}

/// The step of a scaled conversion.
fn scaled(c: &Compiler, inst: &Inst, conversion: Scaled) -> Result<Step, Unsupported> {
    let mut step = step(c, inst, convert_scaled, &[], None)?;
    let mods = &inst.mods;
    if (mods.abs | mods.neg | mods.omod) != 0 || mods.clamp || mods.dpp.is_some() || mods.sdwa.is_some() {
        return Err(Unsupported::NoHandler);
    }
    let registers = conversion.source_registers() as u16;
    for i in 0..=conversion.scale_source() {
        let holds_items = i == 0 || (i == 1 && conversion.alternate);
        step.src[i] = if holds_items && registers > 1 {
            match c.vreg(inst.src[i], registers)? {
                (number, false) => Src::Vgpr(number),
                (_, true) => return Err(Unsupported::NoHandler),
            }
        } else {
            source(c, inst.src[i], Ty::F32)?
        };
    }
    let (number, acc) = c.vreg(inst.dst[0], conversion.result_bits().div_ceil(32) as u16)?;
    if acc {
        return Err(Unsupported::NoHandler);
    }
    step.dst[0] = number;
    Ok(step)
}

/// The next number of `v_prng_b32`.
fn next_random(x: u32) -> u32 {
    (x << 1) ^ if x >> 31 != 0 { 197 } else { 0 }
}

/// Bits `at..at + bits` of consecutive registers of a lane.
fn take(words: &[u32; 33], at: u32, bits: u32) -> u32 {
    let word = (at / 32) as usize;
    let pair = u64::from(words[word]) | u64::from(words[word + 1]) << 32;
    (pair >> (at % 32)) as u32 & if bits == 32 { !0 } else { (1 << bits) - 1 }
}

/// Sets bits of consecutive words.
fn give(words: &mut [u32; 33], at: u32, value: u32) {
    let word = (at / 32) as usize;
    let pair = u64::from(value) << (at % 32);
    words[word] |= pair as u32;
    words[word + 1] |= (pair >> 32) as u32;
}

unsafe fn convert_scaled(step: &Step, wave: &mut Wave, _: &mut Env<'_>) -> Flow {
    let Some(conversion) = Scaled::of(step.op.name()) else { return Flow::Next };
    if wave.mode.vskip() {
        return Flow::Next;
    }
    let exec = wave.exec();
    for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
        convert_lane(step, wave, conversion, lane);
    }
    Flow::Next
}

/// One register of a source, one lane.
fn word_of(step: &Step, wave: &Wave, i: usize, part: u16, lane: usize) -> u32 {
    match step.src[i] {
        Src::Vgpr(number) => {
            let register = Index::of(wave).register(wave, number + part, i).unwrap_or(0);
            wave.vgpr.get(register).map_or(0, |from| from.0[lane])
        }
        Src::Scalar(code) => wave.s32(code),
        Src::Const(value) => value as u32,
        _ => 0,
    }
}

fn convert_lane(step: &Step, wave: &mut Wave, conversion: Scaled, lane: usize) {
    let mut items = [[0u32; 33]; 2];
    for (i, words) in items.iter_mut().enumerate().take(if conversion.alternate { 2 } else { 1 }) {
        for part in 0..conversion.source_registers() {
            words[part as usize] = word_of(step, wave, i, part as u16, lane);
        }
    }
    let select = u32::from(step.inst.mods.op_sel);
    let in_bits = conversion.count * conversion.from.bits();
    // A narrow source of less than a register is the byte or word that OP_SEL names.
    let start = match in_bits {
        _ if conversion.narrows() => 0,
        8 => 8 * (select & 3),
        16 => 16 * (select & 1),
        _ => 0,
    };
    let scale = (word_of(step, wave, conversion.scale_source(), 0, lane) >> 23) & 0xff;
    let exponent = scale as i32 - 127;
    let factor = match scale {
        0xff => f64::NAN,
        _ => f64::from_bits(((1023 + if conversion.narrows() { -exponent } else { exponent }) as u64) << 52),
    };
    let mut random = if conversion.stochastic { word_of(step, wave, 1, 0, lane) } else { 0 };
    let mut result = [0u32; 33];
    for n in 0..conversion.count {
        let (words, at) = if conversion.alternate { (&items[n as usize & 1], n / 2) } else { (&items[0], n) };
        let bits = take(words, start + at * conversion.from.bits(), conversion.from.bits());
        let value = conversion.from.value(bits) * factor;
        let code = conversion.to.nearest(value, conversion.stochastic.then_some(random), wave.mode);
        random = next_random(random);
        give(&mut result, n * conversion.to.bits(), code);
    }
    let index = Index::of(wave);
    let bits = conversion.result_bits();
    if !index.reaches(wave, step.dst[0], bits.div_ceil(32) as u16) {
        return;
    }
    // A result of less than a register goes to the byte or half that OP_SEL names, and leaves the rest.
    let shift = match bits {
        8 => 8 * (select >> 2 & 3),
        16 => 16 * (select >> 3 & 1),
        _ => 0,
    };
    for part in 0..bits.div_ceil(32) {
        let Some(register) = index.register(wave, step.dst[0] + part as u16, DESTINATION) else { return };
        let Some(to) = wave.vgpr.get_mut(register) else { return };
        let field = if bits >= 32 { !0 } else { ((1u32 << bits) - 1) << shift };
        to.0[lane] = to.0[lane] & !field | (result[part as usize] << shift) & field;
    }
}
