//! Text of the memory encodings.

use super::super::inst::{Arch, Encoding, Inst, Operand};
use super::super::op::Op;
use super::super::table::{OperandType, Row};
use super::{Text, formats};

/// The names of the cache bits: sc0, nt, sc1 from gfx940 on, glc, slc, scc before; the third is dlc on GFX11.
fn cache_bits(out: &mut Text, inst: &Inst) {
    let [sc0, nt, sc1] = match out.arch {
        Arch::Gfx90a => ["glc", "slc", "scc"],
        Arch::Gfx1100 => ["glc", "slc", "dlc"],
        _ => ["sc0", "nt", "sc1"],
    };
    out.flag(sc0, inst.mods.sc0);
    out.flag(nt, inst.mods.nt);
    out.flag(sc1, inst.mods.sc1);
}

pub(super) fn smem(out: &mut Text, inst: &Inst, row: &Row) {
    let data = if inst.dst[0] == Operand::None { inst.src[2] } else { inst.dst[0] };
    match data {
        Operand::Imm(value) => {
            let text = out.next();
            let _ = match value {
                0..=64 => std::fmt::Write::write_fmt(text, format_args!("{value}")),
                _ => std::fmt::Write::write_fmt(text, format_args!("{value:#x}")),
            };
        }
        data => out.operand(data, row.dst[0]),
    }
    if inst.src[0] == Operand::None {
        return;
    }
    out.operand(inst.src[0], row.src[0]);
    let offset = inst.mods.offset;
    let hex = |value: i32| match value {
        0.. => format!("{value:#x}"),
        _ => format!("-{:#x}", value.unsigned_abs()),
    };
    match inst.src[1] {
        // GFX11 has a register field in every load, which may name none.
        Operand::None if offset == 0 && out.arch.is_gfx11() => out.next().push_str("null"),
        Operand::None => out.next().push_str(&hex(offset)),
        register => {
            out.operand(register, OperandType::Scalar(1));
            if inst.mods.offen {
                out.push(format_args!(" offset:{}", hex(offset)));
            }
        }
    }
    out.flag("glc", inst.mods.sc0);
    out.flag("dlc", inst.mods.sc1);
}

pub(super) fn ds(out: &mut Text, inst: &Inst, row: &Row) {
    out.operand(inst.dst[0], row.dst[0]);
    out.operand(inst.src[0], OperandType::Address);
    let data = match row.src[0] {
        OperandType::Address | OperandType::None => row.src[1],
        // GWS: its value stands in the first position.
        kind => kind,
    };
    out.operand(inst.src[1], data);
    out.operand(inst.src[2], row.src[2]);
    let mods = &inst.mods;
    if inst.op == Op::DsSwizzleB32 {
        if mods.offset != 0 {
            swizzle(out, mods.offset as u32);
        }
    } else if row.mem.off2 {
        out.value("offset0", mods.offset);
        out.value("offset1", mods.offset1);
    } else {
        out.value("offset", mods.offset);
    }
    out.flag("gds", mods.gds);
}

/// The modes of `ds_swizzle_b32`.
fn swizzle(out: &mut Text, offset: u32) {
    out.push(format_args!(" offset:"));
    if offset & 0xff00 == 0x8000 {
        let lane = |i: u32| offset >> (2 * i) & 3;
        return out.push(format_args!("swizzle(QUAD_PERM,{},{},{},{})", lane(0), lane(1), lane(2), lane(3)));
    }
    let (and, or, xor) = (offset & 31, offset >> 5 & 31, offset >> 10 & 31);
    if offset & 0x8000 != 0 {
        return out.push(format_args!("{offset}"));
    }
    let is_power = |n: u32| n.is_power_of_two();
    match (and, or, xor) {
        (31, 0, x) if is_power(x) => out.push(format_args!("swizzle(SWAP,{x})")),
        (31, 0, x) if x != 0 && is_power(x + 1) => out.push(format_args!("swizzle(REVERSE,{})", x + 1)),
        (a, o, 0) if is_power(32 - a) && 32 - a > 1 && o < 32 - a => {
            out.push(format_args!("swizzle(BROADCAST,{},{o})", 32 - a));
        }
        _ => bitmask(out, and, or, xor),
    }
}

/// What the masks do to each of the five bits of a lane number: 0, 1, p(reserve), i(nvert).
fn bitmask(out: &mut Text, and: u32, or: u32, xor: u32) {
    out.push(format_args!("swizzle(BITMASK_PERM,\""));
    for bit in (0..5).rev() {
        let of = |start: u32| ((start >> bit & and >> bit | or >> bit) ^ xor >> bit) & 1;
        let c = match (of(0), of(31)) {
            (0, 0) => '0',
            (1, 1) => '1',
            (0, _) => 'p',
            _ => 'i',
        };
        out.out.push(c);
    }
    out.push(format_args!("\")"));
}

pub(super) fn flat(out: &mut Text, inst: &Inst, row: &Row) {
    out.operand(inst.dst[0], row.dst[0]);
    let is_wide = inst.enc == Encoding::Flat || inst.enc == Encoding::Global && inst.src[2] == Operand::Off;
    out.operand(inst.src[0], OperandType::Vector(if is_wide { 2 } else { 1 }));
    out.operand(inst.src[1], row.src[0]);
    if inst.enc != Encoding::Flat {
        out.operand(inst.src[2], OperandType::Scalar(if inst.enc == Encoding::Global { 2 } else { 1 }));
    }
    out.value("offset", inst.mods.offset);
    cache_bits(out, inst);
    out.flag("lds", inst.mods.lds);
}

/// MUBUF and MTBUF.
pub(super) fn buffer(out: &mut Text, inst: &Inst, row: &Row) {
    let mods = &inst.mods;
    if inst.src[2] != Operand::None {
        let (data, kind) = match row.src[0] {
            OperandType::None => (inst.dst[0], row.dst[0]),
            kind => (inst.src[1], kind),
        };
        let kind = match kind {
            OperandType::Vector(n) => OperandType::Vector(n + u8::from(mods.tfe)),
            other => other,
        };
        out.operand(data, kind);
        let addresses = u8::from(mods.offen) + u8::from(mods.idxen);
        out.operand(inst.src[0], OperandType::Vector(addresses));
        out.operand(inst.src[2], OperandType::Scalar(4));
        out.operand(inst.src[3], OperandType::ScalarSource(1));
    }
    if inst.enc == Encoding::Mtbuf {
        formats::write(out, mods.format);
    }
    out.flag("idxen", mods.idxen);
    out.flag("offen", mods.offen);
    out.value("offset", mods.offset);
    cache_bits(out, inst);
    out.flag("lds", mods.lds);
    out.flag("tfe", mods.tfe);
}
