//! GFX11: the encodings whose layout is not that of GFX9, dual issue among them.

use super::super::inst::{Dual, Encoding, Inst, Operand};
use super::super::table::{OperandType, Row, Space};
use super::memory::{ds_operands, plain_scalar, scalar_offset, segment, sign_extend};
use super::vector::{second_source, source, vop3, vop3p};
use super::{Bad, Fail, Literal, NULL, REGISTER, RESERVED, RESERVED_ENCODING, Words, bits, scalar, vector};
use crate::isa::WaveSize;

/// Everything that takes more than a word; `top` is the first word's upper six bits.
pub(super) fn wide(words: &mut Words, first: u32, top: u32) -> Result<Inst, Fail> {
    match top {
        0x32 => vopd(words, first),
        0x33 if first >> 23 == 0x198 => vop3p(words, first),
        0x35 => vop3(words, first),
        0x36 => ds(words, first),
        0x37 => flat(words, first),
        0x38 => mubuf(words, first),
        0x3a => mtbuf(words, first),
        0x3d => smem(words, first),
        _ => Err(RESERVED_ENCODING.into()),
    }
}

/// Dual issue: two operations of VOP1 and VOP2 kind.
fn vopd(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    if words.wave != WaveSize::W32 {
        return Err(Bad("dual issue is of wave32").into());
    }
    let rows = [words.row(Space::Vopd, bits(first, 22, 4))?, words.row(Space::Vopd, bits(first, 17, 5))?];
    let wide = words.pair(first)?;
    let has_constant = rows.iter().any(|row| row.src.contains(&OperandType::Literal));
    let mut literal = if has_constant { Literal::Given(words.next()?) } else { Literal::Next };
    let mut src = [Operand::None; 4];
    let codes = [(bits(wide, 0, 9), bits(wide, 9, 8)), (bits(wide, 32, 9), bits(wide, 41, 8))];
    for (i, (row, (code, register))) in rows.into_iter().zip(codes).enumerate() {
        src[2 * i] = source(words, row.src[0], code, literal)?;
        if let Operand::Literal(value) = src[2 * i] {
            literal = Literal::Given(value);
        }
        src[2 * i + 1] = match row.src[1] {
            OperandType::None if register != 0 => return Err(RESERVED.into()),
            OperandType::None => Operand::None,
            // The register beside a constant stands in the same field.
            _ => second_source(words.arch, OperandType::Vector(1), register, literal)?,
        };
    }
    let mut inst = words.inst(rows[0], Encoding::Vopd);
    let x = bits(wide, 56, 8);
    // One destination is even, the other odd.
    let y = bits(wide, 49, 7) << 1 | (!x & 1);
    inst.dst = [vector(words.arch, x, 1)?, vector(words.arch, y, 1)?];
    inst.src = src;
    let constant = match literal {
        Literal::Given(value) if has_constant => value,
        _ => 0,
    };
    inst.dual = Some(Dual { op: rows[1].op, constant });
    Ok(inst)
}

fn smem(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Smem, bits(first, 18, 8))?;
    let wide = words.pair(first)?;
    let mut inst = words.inst(row, Encoding::Smem);
    let data = bits(wide, 6, 7);
    let cache = (bits(wide, 14, 1) != 0, bits(wide, 13, 1) != 0);
    match row.dst[0] {
        OperandType::Scalar(n) => inst.dst[0] = plain_scalar(words.arch, data, n)?,
        OperandType::Imm(_) => inst.src[2] = Operand::Imm(data as u16),
        _ => {}
    }
    if !row.mem.glc && cache != (false, false) {
        return Err(RESERVED.into());
    }
    (inst.mods.sc0, inst.mods.sc1) = cache;
    let OperandType::Scalar(n) = row.src[0] else {
        return Ok(inst);
    };
    inst.src[0] = scalar(words.arch, bits(wide, 0, 6) << 1, n)?;
    inst.mods.offset = sign_extend(bits(wide, 32, 21), 21);
    match scalar(words.arch, bits(wide, 57, 7), 1)? {
        Operand::Scalar(NULL) => {}
        register => {
            inst.src[1] = register;
            inst.mods.offen = inst.mods.offset != 0;
        }
    }
    Ok(inst)
}

fn ds(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Ds, bits(first, 18, 8))?;
    let wide = words.pair(first)?;
    let gds = bits(wide, 17, 1) != 0;
    if gds && row.mem.nogds || !gds && row.mem.gws || row.mem.nooff && wide as u16 != 0 {
        return Err(RESERVED.into());
    }
    let mut inst = words.inst(row, Encoding::Ds);
    inst.mods.gds = gds;
    ds_operands(words, row, &mut inst, wide, false)?;
    Ok(inst)
}

/// FLAT, GLOBAL and SCRATCH.
fn flat(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let (space, enc) = segment(bits(first, 16, 2))?;
    let row = words.row(space, bits(first, 18, 7))?;
    let wide = words.pair(first)?;
    let mut inst = words.inst(row, enc);
    cache_bits(&mut inst, bits(wide, 13, 3));
    inst.mods.offset = match enc {
        Encoding::Flat => bits(wide, 0, 13) as i32,
        _ => sign_extend(bits(wide, 0, 13), 13),
    };
    if let OperandType::Vector(n) = row.dst[0]
        && (!row.mem.atomic || inst.mods.sc0)
    {
        inst.dst[0] = vector(words.arch, bits(wide, 56, 8), n)?;
    }
    if let OperandType::Vector(n) = row.src[0] {
        inst.src[1] = vector(words.arch, bits(wide, 40, 8), n)?;
    }
    let has_vaddr = bits(wide, 55, 1) != 0;
    if has_vaddr && !row.mem.sve {
        return Err(RESERVED.into());
    }
    let (vaddr, code) = (bits(wide, 32, 8), bits(wide, 48, 7));
    let has_saddr = scalar(words.arch, code, 2) != Ok(Operand::Scalar(NULL));
    let saddr = match (enc, has_saddr) {
        (_, false) => Operand::Off,
        (Encoding::Flat, _) => return Err(RESERVED.into()),
        (Encoding::Global, _) => scalar(words.arch, code, 2)?,
        // EXEC_HI cannot be an address.
        _ if code == 127 => return Err(REGISTER.into()),
        _ => scalar(words.arch, code, 1)?,
    };
    inst.src[2] = if enc == Encoding::Flat { Operand::None } else { saddr };
    inst.src[0] = match enc {
        _ if row.mem.noaddr => Operand::None,
        Encoding::Scratch if !has_vaddr => Operand::Off,
        Encoding::Scratch => vector(words.arch, vaddr, 1)?,
        _ => vector(words.arch, vaddr, if has_saddr { 1 } else { 2 })?,
    };
    Ok(inst)
}

/// DLC, GLC and SLC of FLAT, in the order of the bits.
fn cache_bits(inst: &mut Inst, bits: u32) {
    inst.mods.sc1 = bits & 1 != 0;
    inst.mods.sc0 = bits & 2 != 0;
    inst.mods.nt = bits & 4 != 0;
}

fn mubuf(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Mubuf, bits(first, 18, 8))?;
    let wide = words.pair(first)?;
    let mut inst = words.inst(row, Encoding::Mubuf);
    if row.mem.zero != 0 {
        // Cache control: no operands, no modes.
        return match row.mem.zero & first == 0 && bits(wide, 53, 3) == 0 {
            true => Ok(inst),
            false => Err(RESERVED.into()),
        };
    }
    buffer(words, row, &mut inst, wide)?;
    Ok(inst)
}

fn mtbuf(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Mtbuf, bits(first, 15, 4))?;
    let wide = words.pair(first)?;
    let mut inst = words.inst(row, Encoding::Mtbuf);
    inst.mods.format = bits(wide, 19, 7) as u8;
    buffer(words, row, &mut inst, wide)?;
    Ok(inst)
}

/// What MUBUF and MTBUF share.
fn buffer(words: &Words, row: &Row, inst: &mut Inst, wide: u64) -> Result<(), Bad> {
    let mods = &mut inst.mods;
    mods.offset = bits(wide, 0, 12) as i32;
    mods.nt = bits(wide, 12, 1) != 0;
    mods.sc1 = bits(wide, 13, 1) != 0;
    mods.sc0 = bits(wide, 14, 1) != 0;
    mods.tfe = bits(wide, 53, 1) != 0;
    mods.offen = bits(wide, 54, 1) != 0;
    mods.idxen = bits(wide, 55, 1) != 0;
    if mods.tfe && !row.mem.tfe {
        return Err(RESERVED);
    }
    let returns = !row.mem.atomic || mods.sc0;
    let status = u8::from(mods.tfe);
    let data = bits(wide, 40, 8);
    if returns && let OperandType::Vector(n) = row.dst[0] {
        inst.dst[0] = vector(words.arch, data, n + status)?;
    }
    if let OperandType::Vector(n) = row.src[0] {
        inst.src[1] = vector(words.arch, data, n + status)?;
    }
    inst.src[0] = match u8::from(mods.offen) + u8::from(mods.idxen) {
        0 => Operand::Off,
        n => vector(words.arch, bits(wide, 32, 8), n)?,
    };
    inst.src[2] = scalar(words.arch, bits(wide, 48, 5) << 2, 4)?;
    inst.src[3] = scalar_offset(words.arch, bits(wide, 56, 8))?;
    Ok(())
}
