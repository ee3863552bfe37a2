//! The vector ALU encodings.

use super::super::inst::{Arch, Dpp, Dpp8, Encoding, Inst, Mods, Operand, Sdwa};
use super::super::op::Op;
use super::super::table::{Form, Kind, OperandType, Row, Space};
use super::super::text::is_dpp_ctrl;
use super::{
    Bad, Fail, Literal, REGISTER, RESERVED, Words, bits, constant_or_scalar, is_special, registers, scalar, vector,
    vector_or_acc,
};

const VCC: Operand = Operand::Scalar(106);
const EXEC: Operand = Operand::Scalar(126);
/// Values of the 9-bit first source that select another second word.
const SDWA: u32 = 0xf9;
const DPP: u32 = 0xfa;
const DPP8: u32 = 0xe9;
const DPP8_FETCH_INACTIVE: u32 = 0xea;

/// Whether the 9-bit first source says that a DPP word follows.
fn is_dpp(arch: Arch, code: u32) -> bool {
    code == DPP || arch.is_gfx11() && matches!(code, DPP8 | DPP8_FETCH_INACTIVE)
}

/// VOP1, VOP2 and VOPC, with their SDWA and DPP forms.
pub(super) fn vop12c(words: &mut Words, w: u32, enc: Encoding) -> Result<Inst, Fail> {
    let (space, opcode) = match enc {
        Encoding::Vop1 => (Space::Vop1, bits(w, 9, 8)),
        Encoding::Vop2 => (Space::Vop2, bits(w, 25, 6)),
        _ => (Space::Vopc, bits(w, 17, 8)),
    };
    let row = words.row(space, opcode)?;
    let code = bits(w, 0, 9);
    match (code, row.src[0]) {
        (_, OperandType::None) => {
            // LLVM reads a DPP form of v_nop here, which does nothing more.
            if bits(w, 17, 8) != 0 || code == DPP && row.op == Op::VNop {
                return Err(RESERVED.into());
            }
            Ok(words.inst(row, enc))
        }
        (SDWA, _) if !words.arch.is_gfx11() => sdwa(words, w, row, enc),
        _ if is_dpp(words.arch, code) => dpp(words, w, row, enc),
        _ => plain(words, w, row, enc),
    }
}

fn plain(words: &mut Words, w: u32, row: &Row, enc: Encoding) -> Result<Inst, Fail> {
    let code = bits(w, 0, 9);
    let always = row.src.contains(&OperandType::Literal);
    let literal = match always {
        true => Literal::Given(words.next()?),
        false => Literal::Next,
    };
    let dst = dsts(words.arch, row, enc, bits(w, 17, 8))?;
    let mut src = [Operand::None; 4];
    for (i, (operand, &kind)) in src.iter_mut().zip(&row.src).enumerate() {
        *operand = match (i, kind) {
            (0, kind) => source(words, kind, code, literal)?,
            (_, kind) => second_source(words.arch, kind, bits(w, 9, 8), literal)?,
        };
    }
    let mut inst = words.inst(row, enc);
    (inst.dst, inst.src) = (dst, src);
    halves(words.arch, row, &inst)?;
    Ok(inst)
}

/// Where the 32-bit encodings of GFX11 have 16-bit operands, register numbers above 127 stand for upper halves, which are not
/// claimed.
fn halves(arch: Arch, row: &Row, inst: &Inst) -> Result<(), Bad> {
    let is_upper = |operand: &Operand| matches!(operand, Operand::Vgpr(128..));
    let is_dst = row.dst[0] == OperandType::Half && is_upper(&inst.dst[0]);
    match arch.is_gfx11() && (is_dst || row.is_half() && inst.src.iter().any(is_upper)) {
        true => Err(Bad("the upper half of a register")),
        false => Ok(()),
    }
}

/// What is not the first source in the encodings that have one register field for it.
pub(super) fn second_source(arch: Arch, kind: OperandType, code: u32, literal: Literal) -> Result<Operand, Bad> {
    Ok(match (kind, literal) {
        (OperandType::Literal, Literal::Given(value)) => Operand::Literal(value),
        (OperandType::Literal | OperandType::None, _) => Operand::None,
        (OperandType::Vcc, _) => VCC,
        _ => vector(arch, code, kind.registers())?,
    })
}

/// The destinations of the 32-bit encodings: an 8-bit register in the first word, and VCC.
fn dsts(arch: Arch, row: &Row, enc: Encoding, code: u32) -> Result<[Operand; 2], Bad> {
    let mut dst = [Operand::None; 2];
    for (operand, &kind) in dst.iter_mut().zip(&row.dst) {
        *operand = match kind {
            OperandType::Vcc => VCC,
            OperandType::Exec => EXEC,
            OperandType::Vector(n) if enc != Encoding::Vopc => vector(arch, code, n)?,
            OperandType::Half => vector(arch, code, 1)?,
            OperandType::Accumulator => vector_or_acc(arch, code, 1, true)?,
            OperandType::Scalar(n) => scalar(arch, code, n)?,
            _ => Operand::None,
        };
    }
    Ok(dst)
}

/// A 9-bit source.
pub(super) fn source(words: &mut Words, kind: OperandType, code: u32, literal: Literal) -> Result<Operand, Fail> {
    let is_vector = code >= 256;
    let mask = words.wave.mask_registers();
    Ok(match kind {
        OperandType::Source(kind) if is_vector => vector(words.arch, code - 256, registers(kind))?,
        OperandType::Source(Kind::B32 | Kind::I16 | Kind::F16) if code == 254 && !words.arch.is_gfx11() => {
            Operand::Special(254)
        }
        OperandType::Source(kind) => constant_or_scalar(words, code, registers(kind), literal)?,
        OperandType::Vector(n) if is_vector => vector(words.arch, code - 256, n)?,
        OperandType::Accumulator if is_vector => vector_or_acc(words.arch, code - 256, 1, true)?,
        OperandType::Lane if !is_vector => constant_or_scalar(words, code, 1, literal)?,
        OperandType::WaveMatrixC(_) if is_vector => vector(words.arch, code - 256, kind.registers_in(words.wave))?,
        OperandType::WaveMatrixC(n) if code >= 128 && !is_special(code) => constant_or_scalar(words, code, n, literal)?,
        // The mask of a carry or select in VOP3: scalar registers that are not EXEC.
        OperandType::Vcc if is_special(code) => Operand::Special(code as u8),
        OperandType::Vcc if code != 126 && code != 127 => scalar(words.arch, code, mask)?,
        _ => return Err(REGISTER.into()),
    })
}

fn sdwa(words: &mut Words, w: u32, row: &Row, enc: Encoding) -> Result<Inst, Fail> {
    let form = row.sdwa.ok_or(Bad("this operation has no SDWA form"))?;
    let wide = words.pair(w)?;
    check(wide, &form)?;
    let sources = row.src.iter().filter(|kind| !matches!(kind, OperandType::None | OperandType::Vcc)).count();
    if sources < 2 && wide >> 56 & 0xbf != 0 {
        return Err(RESERVED.into());
    }
    let mut dst = dsts(words.arch, row, enc, bits(w, 17, 8))?;
    if enc == Encoding::Vopc && bits(wide, 47, 1) == 1 {
        dst[0] = scalar(words.arch, bits(wide, 40, 7), 2)?;
    }
    let mut inst = words.inst(row, enc);
    inst.dst = dst;
    inst.src[0] = sdwa_source(words, bits(wide, 32, 8), bits(wide, 55, 1))?;
    if sources == 2 {
        inst.src[1] = sdwa_source(words, bits(w, 9, 8), bits(wide, 63, 1))?;
    }
    if row.src.get(sources) == Some(&OperandType::Vcc) {
        inst.src[sources] = VCC;
    }
    let selects = Sdwa {
        dst_sel: bits(wide & form.live, 40, 3) as u8,
        dst_unused: bits(wide & form.live, 43, 2) as u8,
        src_sel: [bits(wide, 48, 3) as u8, if sources == 2 { bits(wide, 56, 3) as u8 } else { 6 }],
        sext: [bits(wide & form.live, 51, 1) != 0, bits(wide & form.live, 59, 1) != 0],
    };
    // VOPC and the fp8 conversions have no destination select: the whole register is written.
    let selects = match form.acts(40) {
        true => selects,
        false => Sdwa { dst_sel: 6, ..selects },
    };
    if selects.dst_sel == 7 || selects.src_sel.contains(&7) || selects.dst_unused == 3 {
        return Err(Bad("reserved SDWA select").into());
    }
    inst.mods.sdwa = Some(selects);
    let wide = wide & form.live;
    inst.mods.clamp = bits(wide, 45, 1) != 0;
    inst.mods.omod = bits(wide, 46, 2) as u8;
    inst.mods.neg = (bits(wide, 52, 1) | bits(wide, 60, 1) << 1) as u8;
    inst.mods.abs = (bits(wide, 53, 1) | bits(wide, 61, 1) << 1) as u8;
    Ok(inst)
}

/// An SDWA source: a vector register, or where the bit says so a scalar one or an inline constant.
fn sdwa_source(words: &mut Words, code: u32, is_scalar: u32) -> Result<Operand, Fail> {
    match is_scalar {
        0 => Ok(vector(words.arch, code, 1)?),
        _ if matches!(code, 249 | 250 | 255) => Err(REGISTER.into()),
        _ => constant_or_scalar(words, code, 1, Literal::Forbidden),
    }
}

fn dpp(words: &mut Words, w: u32, row: &Row, enc: Encoding) -> Result<Inst, Fail> {
    let form = row.dpp.ok_or(Bad("this operation has no DPP form"))?;
    let wide = words.pair(w)?;
    let dst = dsts(words.arch, row, enc, bits(w, 17, 8))?;
    let mut inst = words.inst(row, enc);
    inst.dst = dst;
    inst.src[0] = vector(words.arch, bits(wide, 32, 8), row.src[0].registers())?;
    for (operand, &kind) in inst.src.iter_mut().zip(&row.src).skip(1) {
        *operand = second_source(words.arch, kind, bits(w, 9, 8), Literal::Forbidden)?;
    }
    halves(words.arch, row, &inst)?;
    lanes(words.arch, &mut inst.mods, bits(w, 0, 9), (wide >> 32) as u32)?;
    let Some(control) = inst.mods.dpp else {
        // DPP8 leaves no bits for modifiers.
        return Ok(inst);
    };
    check(wide, &form)?;
    // 64-bit operands know only row_newbcast.
    let is_mask = matches!(row.dst[0], OperandType::Vcc | OperandType::Exec);
    let is_64 = row.dst[0].registers() == 2 && !is_mask || row.src[0].registers() == 2;
    if is_64 && !(0x150..0x160).contains(&control.ctrl) {
        return Err(RESERVED_CONTROL.into());
    }
    let wide = wide & form.live;
    inst.mods.neg = (bits(wide, 52, 1) | bits(wide, 54, 1) << 1) as u8;
    inst.mods.abs = (bits(wide, 53, 1) | bits(wide, 55, 1) << 1) as u8;
    Ok(inst)
}

const RESERVED_CONTROL: Bad = Bad("reserved DPP control");

/// Which lanes the first source is read from: the DPP or DPP8 word that the source code asked for.
fn lanes(arch: Arch, mods: &mut Mods, code: u32, word: u32) -> Result<(), Bad> {
    if code != DPP {
        let lanes = std::array::from_fn(|lane| bits(word, 8 + 3 * lane as u32, 3) as u8);
        mods.dpp8 = Some(Dpp8 { lanes, fetch_inactive: code == DPP8_FETCH_INACTIVE });
        return Ok(());
    }
    let ctrl = bits(word, 8, 9) as u16;
    if !is_dpp_ctrl(arch, ctrl) {
        return Err(RESERVED_CONTROL);
    }
    mods.dpp = Some(Dpp {
        ctrl,
        row_mask: bits(word, 28, 4) as u8,
        bank_mask: bits(word, 24, 4) as u8,
        bound_ctrl: bits(word, 19, 1) != 0,
        fetch_inactive: arch.is_gfx11() && bits(word, 18, 1) != 0,
    });
    Ok(())
}

fn check(wide: u64, form: &Form) -> Result<(), Bad> {
    match wide & form.zero == 0 && wide & form.one == form.one {
        true => Ok(()),
        false => Err(RESERVED),
    }
}

/// VOP3 in both layouts.
pub(super) fn vop3(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let row = words.row(Space::Vop3, bits(first, 16, 10))?;
    let form = row.e64.ok_or(Bad("this operation has no VOP3 form"))?;
    let wide = words.pair(first)?;
    check(wide, &form)?;
    let has_scalar_dst = row.dst[1] != OperandType::None;
    let enc = if has_scalar_dst { Encoding::Vop3b } else { Encoding::Vop3 };
    let mut inst = words.inst(row, enc);
    let code = bits(first, 0, 8);
    inst.dst[0] = match row.dst[0] {
        OperandType::Exec => EXEC,
        OperandType::Vcc => scalar(words.arch, code, words.wave.mask_registers())?,
        OperandType::Scalar(n) => scalar(words.arch, code, n)?,
        OperandType::Vector(n) => vector(words.arch, code, n)?,
        OperandType::Half => vector(words.arch, code, 1)?,
        _ if code != 0 => return Err(RESERVED.into()),
        _ => Operand::None,
    };
    if has_scalar_dst {
        inst.dst[1] = scalar(words.arch, bits(first, 8, 7), words.wave.mask_registers())?;
    }
    three_sources(words, row, &mut inst, wide)?;
    let wide = wide & form.live;
    inst.mods.neg = bits(wide, 61, 3) as u8;
    inst.mods.omod = bits(wide, 59, 2) as u8;
    inst.mods.clamp = bits(wide, 15, 1) != 0;
    if !has_scalar_dst {
        inst.mods.abs = bits(wide, 8, 3) as u8;
        inst.mods.op_sel = bits(wide, 11, 4) as u8;
    }
    Ok(inst)
}

/// What the forms of VOP3 and VOP3P without DPP let pass: a negation that does not act, and in the mixed operations a second
/// source that is no vector register.
fn check_dpp(row: &Row, wide: u64) -> Result<(), Bad> {
    const NEGATIONS: u64 = 7 << 61;
    let acting = row.e64.map_or(0, |form| form.live);
    if wide & NEGATIONS & !acting != 0 {
        return Err(RESERVED);
    }
    match is_mix(row.op) && bits(wide, 41, 9) < 256 {
        true => Err(REGISTER),
        false => Ok(()),
    }
}

/// The operations that mix 16-bit and 32-bit sources.
pub(in super::super) fn is_mix(op: Op) -> bool {
    matches!(op, Op::VFmaMixF32 | Op::VFmaMixloF16 | Op::VFmaMixhiF16)
}

/// The sources of VOP3 and VOP3P, and what may follow the two words on GFX11: a DPP word, a literal.
fn three_sources(words: &mut Words, row: &Row, inst: &mut Inst, wide: u64) -> Result<(), Fail> {
    let first = bits(wide, 32, 9);
    let mut literal = if words.arch.is_gfx11() { Literal::Next } else { Literal::Forbidden };
    let has_dpp = row.e64_dpp && is_dpp(words.arch, first);
    let dpp_register = match has_dpp {
        true => {
            let word = words.next()?;
            lanes(words.arch, &mut inst.mods, first, word)?;
            check_dpp(row, wide)?;
            256 + bits(word, 0, 8)
        }
        false => first,
    };
    for (i, (operand, &kind)) in inst.src.iter_mut().zip(&row.src).take(3).enumerate() {
        let code = if i == 0 { dpp_register } else { bits(wide, 32 + 9 * i as u32, 9) };
        *operand = match kind {
            OperandType::None if code != 0 && words.arch != Arch::Gfx950 => return Err(RESERVED.into()),
            OperandType::None => Operand::None,
            kind => source(words, kind, code, literal)?,
        };
        if let Operand::Literal(value) = *operand {
            literal = Literal::Given(value);
        }
    }
    inst.size = words.len;
    Ok(())
}

/// Opcode of the first half of a scaled matrix instruction.
const LD_SCALE: u32 = 44;

/// VOP3P and the matrix instructions that share its space.
pub(super) fn vop3p(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let opcode = bits(first, 16, 7);
    if opcode == LD_SCALE {
        return mai_scale(words, first);
    }
    let row = words.row(Space::Vop3p, opcode)?;
    let wide = words.pair(first)?;
    if row.enc == Encoding::Mai {
        return mai(words, row, wide);
    }
    let form = row.e64.ok_or(Bad("this operation has no VOP3P form"))?;
    check(wide, &form)?;
    let mut inst = words.inst(row, Encoding::Vop3p);
    inst.dst[0] = vector(words.arch, bits(first, 0, 8), row.dst[0].registers_in(words.wave))?;
    three_sources(words, row, &mut inst, wide)?;
    let wide = wide & form.live;
    inst.mods.neg = bits(wide, 61, 3) as u8;
    inst.mods.abs = bits(wide, 8, 3) as u8;
    inst.mods.op_sel = bits(wide, 11, 3) as u8;
    inst.mods.op_sel_hi = (bits(wide, 59, 2) | bits(wide, 14, 1) << 2) as u8;
    inst.mods.clamp = bits(wide, 15, 1) != 0;
    Ok(inst)
}

/// A matrix operand by its 9 bits: a vector register, or an accumulation register where `acc` is set.
fn matrix(arch: Arch, code: u32, registers: u8, acc: bool) -> Result<Operand, Bad> {
    match code {
        256.. => vector_or_acc(arch, code - 256, registers, acc),
        _ => Err(REGISTER),
    }
}

fn mai(words: &mut Words, row: &Row, wide: u64) -> Result<Inst, Fail> {
    let mut inst = words.inst(row, Encoding::Mai);
    let acc_cd = bits(wide, 15, 1) != 0;
    let code = |i: u32| bits(wide, 32 + 9 * i, 9);
    if row.src[1] == OperandType::None {
        // v_accvgpr_read and v_accvgpr_write: the kind of register is in the operation, not in the bits.
        let sources = if words.arch == Arch::Gfx950 { 0 } else { 0x07ff_fe00_0000_0000 };
        if wide & (0xe000_0000_0000_3f00 | sources) != 0 {
            return Err(RESERVED.into());
        }
        (inst.dst[0], inst.src[0]) = match row.dst[0] {
            OperandType::Accumulator => {
                let source = source(words, row.src[0], code(0), Literal::Forbidden)?;
                (vector_or_acc(words.arch, bits(wide, 0, 8), 1, true)?, source)
            }
            _ => (vector(words.arch, bits(wide, 0, 8), 1)?, matrix(words.arch, code(0), 1, true)?),
        };
        return Ok(inst);
    }
    inst.dst[0] = vector_or_acc(words.arch, bits(wide, 0, 8), row.dst[0].registers(), acc_cd)?;
    let mods = &mut inst.mods;
    mods.cbsz = bits(wide, 8, 3) as u8;
    mods.abid = bits(wide, 11, 4) as u8;
    mods.blgp = bits(wide, 61, 3) as u8;
    let (a, b) = match is_f8f6f4(row) {
        true if mods.abid != 0 => return Err(RESERVED.into()),
        true => (format_registers(mods.cbsz), format_registers(mods.blgp)),
        false => (row.src[0].registers(), row.src[1].registers()),
    };
    inst.src[0] = matrix(words.arch, code(0), a, bits(wide, 59, 1) != 0)?;
    inst.src[1] = matrix(words.arch, code(1), b, bits(wide, 60, 1) != 0)?;
    inst.src[2] = match row.src[2] {
        // The index of a sparse operation is always a vector register.
        OperandType::Vector(n) if inst.mods.blgp == 0 => matrix(words.arch, code(2), n, false)?,
        OperandType::Vector(_) => return Err(RESERVED.into()),
        kind => matrix_c(words.arch, code(2), kind, acc_cd)?,
    };
    Ok(inst)
}

fn matrix_c(arch: Arch, code: u32, kind: OperandType, acc: bool) -> Result<Operand, Bad> {
    match code {
        128..=208 | 240..=248 => Ok(Operand::Inline(code as u8)),
        _ => matrix(arch, code, kind.registers(), acc),
    }
}

/// Whether the operand widths follow the formats in CBSZ and BLGP.
pub(in super::super) fn is_f8f6f4(row: &Row) -> bool {
    row.mnemonic.ends_with("f8f6f4")
}

/// Registers of an f8f6f4 operand of a format: 0, 1 8-bit, 2, 3 6-bit, 4 4-bit; the reserved ones are read as 8-bit.
pub(in super::super) fn format_registers(format: u8) -> u8 {
    match format {
        2 | 3 => 6,
        4 => 4,
        _ => 8,
    }
}

/// gfx950's scaled matrix instructions: two dwords of scales, then a matrix instruction with ABID 1.
fn mai_scale(words: &mut Words, first: u32) -> Result<Inst, Fail> {
    let scales = words.pair(first)?;
    let third = words.next()?;
    if third >> 23 != 0x1a7 {
        return Err(Bad("scales without a matrix instruction").into());
    }
    let row = words.row(Space::MaiScale, bits(third, 16, 7))?;
    let fourth = words.next()?;
    let wide = u64::from(third) | u64::from(fourth) << 32;
    if bits(wide, 11, 4) != 1 {
        return Err(RESERVED.into());
    }
    let mut inst = words.inst(row, Encoding::MaiScale);
    let acc_cd = bits(wide, 15, 1) != 0;
    inst.mods.cbsz = bits(wide, 8, 3) as u8;
    inst.mods.blgp = bits(wide, 61, 3) as u8;
    inst.dst[0] = vector_or_acc(words.arch, bits(wide, 0, 8), row.dst[0].registers(), acc_cd)?;
    inst.src[0] = matrix(words.arch, bits(wide, 32, 9), format_registers(inst.mods.cbsz), bits(wide, 59, 1) != 0)?;
    inst.src[1] = matrix(words.arch, bits(wide, 41, 9), format_registers(inst.mods.blgp), bits(wide, 60, 1) != 0)?;
    inst.src[2] = matrix_c(words.arch, bits(wide, 50, 9), row.src[2], acc_cd)?;
    for i in 0..2 {
        inst.scale[i] = matrix(words.arch, bits(scales, 32 + 9 * i as u32, 9), 1, false)?;
        // Byte of the scale: OP_SEL is its low bit, OP_SEL_HI the high one.
        inst.mods.scale_sel[i] = (bits(scales, 11 + i as u32, 1) | bits(scales, 59 + i as u32, 1) << 1) as u8;
    }
    Ok(inst)
}
