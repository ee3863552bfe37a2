//! From words to instructions.
//!
//! What is accepted is what LLVM's disassembler accepts: reserved bits must have their value, registers must exist.

mod gfx11;
mod memory;
mod vector;

pub(super) use vector::{format_registers, is_f8f6f4, is_mix};

use super::inst::{Arch, Encoding, Inst, Mods, Operand, WaveSize};
use super::table::{Kind, OperandType, Row, Space, table};

/// Why bytes are no instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The code ends inside the instruction.
    #[error("the code ends at byte {offset:#x}, inside an instruction")]
    Truncated {
        /// Where the instruction starts, in bytes.
        offset: usize,
    },
    /// No instruction of the arch has these bits.
    #[error("no {} instruction at byte {offset:#x}: words {:#010x} {:#010x} ({reason})", arch.name(), words[0], words[1])]
    Unknown {
        /// The instruction set.
        arch: Arch,
        /// Where the words stand, in bytes.
        offset: usize,
        /// The first two words; the second is 0 at the end of the code.
        words: [u32; 2],
        /// What is wrong with them.
        reason: &'static str,
    },
}

/// Reads one instruction, for waves of the size that the arch has where nothing else is said ([`Arch::wave_size`]).
///
/// `offset` is in bytes from the start of `code`; words are little-endian. The next instruction is at `offset + size`.
///
/// # Errors
/// [`DecodeError`] where the words are no instruction of the arch, or the code ends.
pub fn decode(arch: Arch, code: &[u8], offset: usize) -> Result<Inst, DecodeError> {
    decode_wave(arch, arch.wave_size(), code, offset)
}

/// Reads one instruction of a kernel whose waves have a size: masks of lanes are wider in wave64, and dual issue is of wave32
/// alone. The targets but GFX11 have waves of 64 only.
///
/// # Errors
/// As [`decode`].
pub fn decode_wave(arch: Arch, wave: WaveSize, code: &[u8], offset: usize) -> Result<Inst, DecodeError> {
    let mut words = Words { arch, wave, code, offset, len: 0 };
    let first = words.next()?;
    let inst = match first >> 26 {
        top if top < 0x20 => match first >> 25 {
            0x3f => vector::vop12c(&mut words, first, Encoding::Vop1),
            0x3e => vector::vop12c(&mut words, first, Encoding::Vopc),
            _ => vector::vop12c(&mut words, first, Encoding::Vop2),
        },
        top if top < 0x30 => match first >> 23 {
            0x17d => sop1(&mut words, first),
            0x17e => sopc(&mut words, first),
            0x17f => sopp(&mut words, first),
            _ if first >> 28 == 0xb => sopk(&mut words, first),
            _ => sop2(&mut words, first),
        },
        top if arch.is_gfx11() => gfx11::wide(&mut words, first, top),
        0x30 => memory::smem(&mut words, first),
        0x34 if first >> 23 == 0x1a7 => vector::vop3p(&mut words, first),
        0x34 => vector::vop3(&mut words, first),
        0x36 => memory::ds(&mut words, first),
        0x37 => memory::flat(&mut words, first),
        0x38 => memory::mubuf(&mut words, first),
        0x3a => memory::mtbuf(&mut words, first),
        _ => Err(RESERVED_ENCODING.into()),
    };
    inst.map_err(|fail| match fail {
        Fail::End => DecodeError::Truncated { offset },
        Fail::Bad(Bad(reason)) => {
            let word =
                |i: usize| Words { arch, wave, code, offset: offset.saturating_add(4 * i), len: 0 }.next().unwrap_or(0);
            DecodeError::Unknown { arch, offset, words: [word(0), word(1)], reason }
        }
    })
}

/// Why words are no instruction, in a few words.
#[derive(Debug, PartialEq)]
struct Bad(&'static str);

enum Fail {
    Bad(Bad),
    End,
}

impl From<Bad> for Fail {
    fn from(bad: Bad) -> Self {
        Fail::Bad(bad)
    }
}

impl From<DecodeError> for Fail {
    fn from(_: DecodeError) -> Self {
        Fail::End
    }
}

const UNKNOWN: Bad = Bad("unknown opcode");
const RESERVED: Bad = Bad("a reserved bit has the wrong value");
const REGISTER: Bad = Bad("no such register for this operand");
const RESERVED_ENCODING: Bad = Bad("reserved encoding");

/// The words of one instruction.
struct Words<'a> {
    arch: Arch,
    wave: WaveSize,
    code: &'a [u8],
    offset: usize,
    len: u8,
}

impl Words<'_> {
    fn next(&mut self) -> Result<u32, DecodeError> {
        let end = DecodeError::Truncated { offset: self.offset };
        let start = self.offset.checked_add(usize::from(self.len)).ok_or(end.clone())?;
        let bytes = self.code.get(start..).and_then(|rest| rest.first_chunk()).ok_or(end)?;
        self.len += 4;
        Ok(u32::from_le_bytes(*bytes))
    }

    /// The second word, above the first.
    fn pair(&mut self, first: u32) -> Result<u64, DecodeError> {
        Ok(u64::from(first) | u64::from(self.next()?) << 32)
    }

    fn row(&self, space: Space, opcode: u32) -> Result<&'static Row, Bad> {
        table().opcode(self.arch, space, opcode).ok_or(UNKNOWN)
    }

    fn inst(&self, row: &Row, enc: Encoding) -> Inst {
        Inst {
            op: row.op,
            enc,
            size: self.len,
            dst: [Operand::None; 2],
            src: [Operand::None; 4],
            scale: [Operand::None; 2],
            dual: None,
            mods: Mods::default(),
        }
    }
}

/// Bits `[lo, lo + len)` of a word or pair of words.
fn bits(word: impl Into<u64>, lo: u32, len: u32) -> u32 {
    (word.into() >> lo) as u32 & ((1u64 << len) - 1) as u32
}

/// `count` vector registers from the `first`.
///
/// Groups start at an even register on all CDNA targets. LLVM holds to it from version 20 on, so for gfx950, which older
/// versions do not know, and this does as it does.
fn vector(arch: Arch, first: u32, count: u8) -> Result<Operand, Bad> {
    let is_aligned = arch != Arch::Gfx950 || count < 2 || first.is_multiple_of(2);
    match u8::try_from(first) {
        Ok(v) if is_aligned && first + u32::from(count) <= 256 => Ok(Operand::Vgpr(v)),
        _ => Err(REGISTER),
    }
}

/// `count` vector or accumulation registers from the `first`.
fn vector_or_acc(arch: Arch, first: u32, count: u8, acc: bool) -> Result<Operand, Bad> {
    match vector(arch, first, count)? {
        Operand::Vgpr(v) if acc => Ok(Operand::Agpr(v)),
        other => Ok(other),
    }
}

/// Codes of special registers as [`Operand::Scalar`] has them.
const NULL: u8 = 125;
const M0: u8 = 124;

/// `count` scalar registers from the one with the hardware code `first`, which is rounded down to the group's alignment.
fn scalar(arch: Arch, first: u32, count: u8) -> Result<Operand, Bad> {
    let is_gfx11 = arch.is_gfx11();
    let (null, plain, end) = if is_gfx11 { (124, 105, 106) } else { (125, 101, 104) };
    let count = u32::from(count);
    let align = !(count.clamp(1, 4) - 1);
    let code = match first {
        _ if first == null => NULL.into(),
        125 if is_gfx11 && count == 1 => M0.into(),
        0..=127 if count == 1 => first,
        0..=105 if first <= plain && (first & align) + count <= end => first & align,
        108..=123 if 108 + ((first - 108) & align) + count <= 124 => 108 + ((first - 108) & align),
        102 | 104 if count == 2 && !is_gfx11 => first,
        106 | 126 if count == 2 => first,
        _ => return Err(REGISTER),
    };
    u8::try_from(code).map(Operand::Scalar).map_err(|_| REGISTER)
}

/// Whether the hardware code is one of the special sources that any scalar source may name.
fn is_special(code: u32) -> bool {
    matches!(code, 235..=239 | 251..=253)
}

/// A source by its 8 bits (scalar) or the lower half of its 9 bits; literals are read from `words`.
fn constant_or_scalar(words: &mut Words, code: u32, registers: u8, literal: Literal) -> Result<Operand, Fail> {
    Ok(match code {
        0..=127 => scalar(words.arch, code, registers)?,
        128..=208 | 240..=248 => Operand::Inline(code as u8),
        255 => match literal {
            Literal::Next => Operand::Literal(words.next()?),
            Literal::Given(value) => Operand::Literal(value),
            Literal::Forbidden => return Err(Bad("a literal is not possible here").into()),
        },
        _ if is_special(code) => Operand::Special(code as u8),
        _ => return Err(Bad("reserved source").into()),
    })
}

/// Where a literal comes from.
#[derive(Clone, Copy)]
enum Literal {
    /// The next word.
    Next,
    /// It has been read.
    Given(u32),
    /// The encoding has none.
    Forbidden,
}

fn scalar_source(words: &mut Words, kind: OperandType, code: u32, literal: &mut Literal) -> Result<Operand, Fail> {
    let operand = match kind {
        OperandType::ScalarSource(n) => constant_or_scalar(words, code, n, *literal)?,
        OperandType::Scalar(_) if is_special(code) => Operand::Special(code as u8),
        OperandType::Imm(_) => Operand::Imm(code as u16),
        OperandType::Scalar(n) => scalar(words.arch, code, n)?,
        _ => Operand::None,
    };
    if let Operand::Literal(value) = operand {
        *literal = Literal::Given(value);
    }
    Ok(operand)
}

fn scalar_dst(words: &Words, row: &Row, code: u32) -> Result<Operand, Bad> {
    match row.dst[0] {
        OperandType::Scalar(n) => scalar(words.arch, code, n),
        _ => Ok(Operand::None),
    }
}

fn sop2(words: &mut Words, w: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Sop2, bits(w, 23, 7))?;
    let mut literal = Literal::Next;
    let dst = scalar_dst(words, row, bits(w, 16, 7))?;
    let src0 = scalar_source(words, row.src[0], bits(w, 0, 8), &mut literal)?;
    let src1 = scalar_source(words, row.src[1], bits(w, 8, 8), &mut literal)?;
    let mut inst = words.inst(row, Encoding::Sop2);
    inst.dst[0] = dst;
    (inst.src[0], inst.src[1]) = (src0, src1);
    Ok(inst)
}

fn sop1(words: &mut Words, w: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Sop1, bits(w, 8, 8))?;
    let dst = scalar_dst(words, row, bits(w, 16, 7))?;
    let src = scalar_source(words, row.src[0], bits(w, 0, 8), &mut Literal::Next)?;
    let mut inst = words.inst(row, Encoding::Sop1);
    (inst.dst[0], inst.src[0]) = (dst, src);
    Ok(inst)
}

fn sopc(words: &mut Words, w: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Sopc, bits(w, 16, 7))?;
    let mut literal = Literal::Next;
    let src0 = scalar_source(words, row.src[0], bits(w, 0, 8), &mut literal)?;
    let src1 = match row.src[1] {
        OperandType::Imm(_) => Operand::Imm(bits(w, 8, 8) as u16),
        kind => scalar_source(words, kind, bits(w, 8, 8), &mut literal)?,
    };
    let mut inst = words.inst(row, Encoding::Sopc);
    (inst.src[0], inst.src[1]) = (src0, src1);
    Ok(inst)
}

fn sopk(words: &mut Words, w: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Sopk, bits(w, 23, 5))?;
    let register = bits(w, 16, 7);
    let dst = scalar_dst(words, row, register)?;
    let mut src = [Operand::None; 4];
    for (operand, kind) in src.iter_mut().zip(row.src) {
        *operand = match kind {
            OperandType::Imm(_) => Operand::Imm(w as u16),
            OperandType::Literal => Operand::Literal(words.next()?),
            OperandType::Scalar(n) => scalar(words.arch, register, n)?,
            _ => Operand::None,
        };
    }
    let mut inst = words.inst(row, Encoding::Sopk);
    inst.dst[0] = dst;
    inst.src = src;
    Ok(inst)
}

fn sopp(words: &mut Words, w: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Sopp, bits(w, 16, 7))?;
    let mut inst = words.inst(row, Encoding::Sopp);
    match row.src[0] {
        OperandType::Imm(_) => inst.src[0] = Operand::Imm(w as u16),
        _ if w as u16 != 0 => return Err(RESERVED.into()),
        _ => {}
    }
    Ok(inst)
}

/// Registers of a source of this kind.
fn registers(kind: Kind) -> u8 {
    OperandType::Source(kind).registers()
}
