//! Scalar memory, LDS, flat and buffer encodings.

use super::super::inst::{Arch, Encoding, Inst, Operand};
use super::super::table::{OperandType, Row, Space};
use super::{Bad, Fail, M0, REGISTER, RESERVED, Words, bits, scalar, vector, vector_or_acc};

/// A scalar register group that is neither M0 nor EXEC.
pub(super) fn plain_scalar(arch: Arch, code: u32, count: u8) -> Result<Operand, Bad> {
    match scalar(arch, code, count)? {
        Operand::Scalar(M0 | 126 | 127) => Err(REGISTER),
        register => Ok(register),
    }
}

pub(super) fn smem(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Smem, bits(first, 18, 8))?;
    let wide = words.pair(first)?;
    let mut inst = words.inst(row, Encoding::Smem);
    let (has_imm, has_soffset) = (bits(wide, 17, 1) != 0, bits(wide, 14, 1) != 0);
    let is_atomic = row.mnemonic.contains("atomic");
    inst.mods.sc0 = row.mem.glc && bits(wide, 16, 1) != 0;
    let data = bits(wide, 6, 7);
    match row.dst[0] {
        OperandType::Scalar(n) => {
            let data = plain_scalar(words.arch, data, n)?;
            let is_store = row.mnemonic.contains("store");
            if is_store || is_atomic {
                inst.src[2] = data;
            }
            if !is_store && (!is_atomic || inst.mods.sc0) {
                inst.dst[0] = data;
            }
        }
        OperandType::Imm(_) => inst.src[2] = Operand::Imm(data as u16),
        _ => {}
    }
    let OperandType::Scalar(n) = row.src[0] else {
        // Cache control and clocks: no address, and the immediate bit is clear.
        return match has_imm {
            true => Err(RESERVED.into()),
            false => Ok(inst),
        };
    };
    inst.src[0] = scalar(words.arch, bits(wide, 0, 6) << 1, n)?;
    let register = match (has_imm, has_soffset) {
        (true, false) => None,
        (_, true) => Some(bits(wide, 57, 7)),
        (false, false) => Some(bits(wide, 32, 7)),
    };
    if let Some(code) = register {
        inst.src[1] = scalar(words.arch, code, 1)?;
        inst.mods.offen = has_imm;
    }
    if has_imm {
        inst.mods.offset = sign_extend(bits(wide, 32, 21), 21);
    }
    Ok(inst)
}

pub(super) fn sign_extend(value: u32, width: u32) -> i32 {
    let shift = 32 - width;
    ((value << shift) as i32) >> shift
}

pub(super) fn ds(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Ds, bits(first, 17, 8))?;
    let wide = words.pair(first)?;
    let acc = bits(wide, 25, 1) != 0;
    let gds = bits(wide, 16, 1) != 0;
    if acc && row.mem.noacc || gds && row.mem.nogds || !gds && row.mem.gws || row.mem.nooff && wide as u16 != 0 {
        return Err(RESERVED.into());
    }
    let mut inst = words.inst(row, Encoding::Ds);
    inst.mods.gds = row.mem.gws;
    ds_operands(words, row, &mut inst, wide, acc)?;
    Ok(inst)
}

/// Offsets, address and data of LDS operations: the same bits on every arch.
pub(super) fn ds_operands(words: &Words, row: &Row, inst: &mut Inst, wide: u64, acc: bool) -> Result<(), Bad> {
    if row.mem.off2 {
        inst.mods.offset = bits(wide, 0, 8) as i32;
        inst.mods.offset1 = bits(wide, 8, 8) as u8;
    } else {
        inst.mods.offset = bits(wide, 0, 16) as i32;
    }
    inst.dst[0] = field(words.arch, row.dst[0], bits(wide, 56, 8), acc)?;
    match row.src[0] {
        OperandType::Address => inst.src[0] = vector(words.arch, bits(wide, 32, 8), 1)?,
        // GWS takes its one operand, a value, from the address field.
        kind => inst.src[1] = field(words.arch, kind, bits(wide, 32, 8), acc)?,
    }
    for i in 1..3 {
        match field(words.arch, row.src[i], bits(wide, 32 + 8 * i as u32, 8), acc)? {
            Operand::None => {}
            operand => inst.src[i] = operand,
        }
    }
    Ok(())
}

/// An 8-bit data register field, which must be 0 where there is no such operand.
fn field(arch: Arch, kind: OperandType, code: u32, acc: bool) -> Result<Operand, Bad> {
    match kind {
        OperandType::Vector(n) => vector_or_acc(arch, code, n, acc),
        _ if code != 0 => Err(RESERVED),
        _ => Ok(Operand::None),
    }
}

/// What the segment field of a flat instruction selects; it lies elsewhere in each generation.
pub(super) fn segment(field: u32) -> Result<(Space, Encoding), Fail> {
    match field {
        0 => Ok((Space::Flat, Encoding::Flat)),
        1 => Ok((Space::Scratch, Encoding::Scratch)),
        2 => Ok((Space::Global, Encoding::Global)),
        _ => Err(Bad("reserved segment").into()),
    }
}

/// FLAT, GLOBAL and SCRATCH.
pub(super) fn flat(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let (space, enc) = segment(bits(first, 14, 2))?;
    let row = words.row(space, bits(first, 18, 7))?;
    let wide = words.pair(first)?;
    let mut inst = words.inst(row, enc);
    let bit13 = bits(wide, 13, 1) != 0;
    let acc = bits(wide, 55, 1) != 0;
    let mods = &mut inst.mods;
    mods.sc0 = bits(wide, 16, 1) != 0;
    mods.nt = bits(wide, 17, 1) != 0;
    mods.sc1 = bits(wide, 25, 1) != 0;
    mods.lds = row.mem.lds && bit13;
    if bit13 && !row.mem.lds && !row.mem.sve || mods.sc1 && row.mem.noscc {
        return Err(RESERVED.into());
    }
    mods.offset = match enc {
        Encoding::Flat => bits(wide, 0, 13) as i32,
        _ => sign_extend(bits(wide, 0, 13), 13),
    };
    let returns = !mods.lds && (!row.mem.atomic || mods.sc0);
    if returns && let OperandType::Vector(n) = row.dst[0] {
        inst.dst[0] = vector_or_acc(words.arch, bits(wide, 56, 8), n, acc)?;
    }
    if let OperandType::Vector(n) = row.src[0] {
        inst.src[1] = vector_or_acc(words.arch, bits(wide, 40, 8), n, acc)?;
    }
    let has_data = row.src[0] != OperandType::None || row.dst[0] != OperandType::None && !inst.mods.lds;
    if acc && !has_data {
        return Err(RESERVED.into());
    }
    let (vaddr, saddr) = (bits(wide, 32, 8), bits(wide, 48, 7));
    let has_saddr = saddr != 0x7f;
    (inst.src[0], inst.src[2]) = match enc {
        Encoding::Flat if saddr != 0 => return Err(RESERVED.into()),
        Encoding::Flat => (vector(words.arch, vaddr, 2)?, Operand::None),
        Encoding::Global if saddr == 126 && words.arch == Arch::Gfx950 => return Err(REGISTER.into()),
        Encoding::Global if has_saddr => (vector(words.arch, vaddr, 1)?, scalar(words.arch, saddr, 2)?),
        Encoding::Global => (vector(words.arch, vaddr, 2)?, Operand::Off),
        _ => {
            // Without the VADDR bit an address is one register, vector or scalar.
            let has_vaddr = if row.mem.sve { bit13 } else { !has_saddr };
            let vaddr = if has_vaddr { vector(words.arch, vaddr, 1)? } else { Operand::Off };
            let saddr = if has_saddr { scalar(words.arch, saddr, 1)? } else { Operand::Off };
            (vaddr, saddr)
        }
    };
    Ok(inst)
}

pub(super) fn mubuf(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Mubuf, bits(first, 18, 7))?;
    let wide = words.pair(first)?;
    let mut inst = words.inst(row, Encoding::Mubuf);
    inst.mods.sc0 = bits(wide, 14, 1) != 0;
    inst.mods.sc1 = bits(wide, 15, 1) != 0;
    inst.mods.lds = bits(wide, 16, 1) != 0;
    inst.mods.nt = bits(wide, 17, 1) != 0;
    if row.mem.zero & first != 0 || inst.mods.lds && !row.mem.lds || inst.mods.sc1 && row.mem.noscc {
        return Err(RESERVED.into());
    }
    if row.dst[0] == OperandType::None && row.src[0] == OperandType::None {
        return cache_control(words.arch, inst, wide);
    }
    buffer(words.arch, row, &mut inst, wide)?;
    Ok(inst)
}

/// Cache write-back and invalidation: no operands. gfx90a has no scopes to select.
fn cache_control(arch: Arch, mut inst: Inst, wide: u64) -> Result<Inst, Fail> {
    if arch == Arch::Gfx90a {
        (inst.mods.sc0, inst.mods.sc1) = (false, false);
    }
    inst.mods.nt = false;
    match bits(wide, 55, 1) {
        0 => Ok(inst),
        _ => Err(RESERVED.into()),
    }
}

pub(super) fn mtbuf(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Mtbuf, bits(first, 15, 4))?;
    let wide = words.pair(first)?;
    let mut inst = words.inst(row, Encoding::Mtbuf);
    inst.mods.sc0 = bits(wide, 14, 1) != 0;
    inst.mods.sc1 = bits(wide, 53, 1) != 0;
    inst.mods.nt = bits(wide, 54, 1) != 0;
    inst.mods.format = bits(wide, 19, 7) as u8;
    buffer(words.arch, row, &mut inst, wide)?;
    Ok(inst)
}

/// What MUBUF and MTBUF share: offset, address, data, descriptor and scalar offset.
fn buffer(arch: Arch, row: &Row, inst: &mut Inst, wide: u64) -> Result<(), Bad> {
    let acc = bits(wide, 55, 1) != 0;
    let mods = &mut inst.mods;
    mods.offset = bits(wide, 0, 12) as i32;
    mods.offen = bits(wide, 12, 1) != 0;
    mods.idxen = bits(wide, 13, 1) != 0;
    let returns = !mods.lds && (!row.mem.atomic || mods.sc0);
    let data = bits(wide, 40, 8);
    if acc && mods.lds {
        return Err(RESERVED);
    }
    if returns && let OperandType::Vector(n) = row.dst[0] {
        inst.dst[0] = vector_or_acc(arch, data, n, acc)?;
    }
    if let OperandType::Vector(n) = row.src[0] {
        inst.src[1] = vector_or_acc(arch, data, n, acc)?;
    }
    inst.src[0] = match u8::from(mods.offen) + u8::from(mods.idxen) {
        0 => Operand::Off,
        // An index and an offset may stand in any two registers that follow each other.
        n => vector(Arch::Gfx942, bits(wide, 32, 8), n)?,
    };
    inst.src[2] = scalar(arch, bits(wide, 48, 5) << 2, 4)?;
    inst.src[3] = scalar_offset(arch, bits(wide, 56, 8))?;
    Ok(())
}

/// The scalar offset of MUBUF and MTBUF.
pub(super) fn scalar_offset(arch: Arch, code: u32) -> Result<Operand, Bad> {
    match code {
        0..=127 => scalar(arch, code, 1),
        128..=208 | 240..=248 => Ok(Operand::Inline(code as u8)),
        235..=239 | 251..=253 => Ok(Operand::Special(code as u8)),
        _ => Err(REGISTER),
    }
}
