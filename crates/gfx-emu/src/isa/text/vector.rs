//! Text of the vector ALU and matrix encodings.

use super::super::decode::{format_registers, is_f8f6f4, is_mix};
use super::super::inst::{Arch, Dpp, Encoding, Inst, Mods, Operand, Sdwa};
use super::super::op::Op;
use super::super::table::{Form, OperandType, Row, table};
use super::Text;

/// A source with its modifiers: `-v1`, `|v1|`, `-|v1|`, `neg(0.5)`.
fn modified(out: &mut Text, operand: Operand, kind: OperandType, neg: bool, abs: bool) {
    let text = out.next();
    // A minus before a constant would be read as part of it.
    let by_name = neg && !abs && matches!(operand, Operand::Inline(_) | Operand::Literal(_));
    text.push_str(match (neg, by_name) {
        (true, true) => "neg(",
        (true, false) => "-",
        _ => "",
    });
    if abs {
        text.push('|');
    }
    out.bare(operand, kind);
    if abs {
        out.out.push('|');
    }
    if by_name {
        out.out.push(')');
    }
}

/// Whether a source that may be negated is an integer: it has no ABS bit then, and NEG reads as a sign-extension.
fn is_integer(form: Option<Form>, neg: [u32; 3], abs: [u32; 3], source: usize) -> bool {
    let places = neg.get(source).zip(abs.get(source));
    form.zip(places).is_some_and(|(form, (&neg, &abs))| neg < 64 && form.acts(neg) && !form.acts(abs))
}

fn sign_extended(out: &mut Text, operand: Operand, kind: OperandType) {
    out.next().push_str("sext(");
    out.bare(operand, kind);
    out.out.push(')');
}

/// VOP1, VOP2, VOPC: plain, SDWA and DPP.
pub(super) fn vop12c(out: &mut Text, inst: &Inst, row: &Row) {
    let has_dpp = has_dpp(&inst.mods);
    let suffix = match inst.mods.sdwa {
        Some(_) => "_sdwa",
        // Compares of GFX11 go without.
        None if has_dpp && inst.enc == Encoding::Vopc => "",
        None if has_dpp => "_dpp",
        None if row.e32_suffix => "_e32",
        None => "",
    };
    out.out.push_str(suffix);
    destinations(out, inst, row);
    for (i, (operand, kind)) in inst.src.into_iter().zip(row.src).enumerate() {
        if operand == Operand::None {
            continue;
        }
        let (neg, abs) = (inst.mods.neg >> i & 1 != 0, inst.mods.abs >> i & 1 != 0);
        match inst.mods.sdwa {
            Some(sdwa) if sdwa.sext.get(i) == Some(&true) => {
                sign_extended(out, operand, kind);
            }
            _ if neg && is_integer(row.dpp, [52, 54, 64], [53, 55, 64], i) => sign_extended(out, operand, kind),
            _ => modified(out, operand, kind, neg, abs),
        }
    }
    if let Some(sdwa) = inst.mods.sdwa {
        out.flag("clamp", inst.mods.clamp);
        omod(out, inst.mods.omod);
        selects(out, inst, row, sdwa);
    }
    lanes(out, &inst.mods);
}

/// The destinations, EXEC of `v_cmpx` on GFX11 apart.
fn destinations(out: &mut Text, inst: &Inst, row: &Row) {
    for (operand, kind) in inst.dst.into_iter().zip(row.dst) {
        if kind != OperandType::Exec {
            out.operand(operand, kind);
        }
    }
}

fn has_dpp(mods: &Mods) -> bool {
    mods.dpp.is_some() || mods.dpp8.is_some()
}

/// DPP and DPP8 controls.
fn lanes(out: &mut Text, mods: &Mods) {
    if let Some(dpp) = mods.dpp {
        dpp_controls(out, dpp);
    }
    if let Some(dpp8) = mods.dpp8 {
        let lanes = dpp8.lanes.map(|lane| lane.to_string()).join(",");
        out.push(format_args!(" dpp8:[{lanes}]"));
        out.flag("fi:1", dpp8.fetch_inactive);
    }
}

/// The halves of dual issue, with `::` between them.
pub(super) fn vopd(out: &mut Text, inst: &Inst, row: &Row) {
    let Some([x, y]) = inst.halves() else { return };
    half(out, &x, row);
    // An operation of another arch has no row.
    if let Some(row) = table().op(out.arch, y.op, inst.enc) {
        out.out.push_str(" :: ");
        out.out.push_str(row.mnemonic);
        out.operands = 0;
        half(out, &y, row);
    }
}

fn half(out: &mut Text, half: &Inst, row: &Row) {
    out.operand(half.dst[0], row.dst[0]);
    for (operand, kind) in half.src.into_iter().zip(row.src) {
        if kind != OperandType::Vcc {
            out.operand(operand, kind);
        }
    }
}

fn omod(out: &mut Text, omod: u8) {
    match omod {
        1 => out.flag("mul:2", true),
        2 => out.flag("mul:4", true),
        3 => out.flag("div:2", true),
        _ => {}
    }
}

fn selects(out: &mut Text, inst: &Inst, row: &Row, sdwa: Sdwa) {
    let name = |sel: u8| {
        ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"].get(usize::from(sel)).unwrap_or(&"?")
    };
    if row.sdwa.is_some_and(|form| form.acts(40)) {
        out.push(format_args!(" dst_sel:{}", name(sdwa.dst_sel)));
        let unused = ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"].get(usize::from(sdwa.dst_unused));
        out.push(format_args!(" dst_unused:{}", unused.unwrap_or(&"?")));
    }
    let sources = 1 + usize::from(!matches!(row.src[1], OperandType::None | OperandType::Vcc));
    for (i, sel) in sdwa.src_sel.into_iter().enumerate().take(sources) {
        if inst.src[i] != Operand::None {
            out.push(format_args!(" src{i}_sel:{}", name(sel)));
        }
    }
}

/// Whether a DPP control is one that the hardware knows.
pub(in super::super) fn is_dpp_ctrl(arch: Arch, ctrl: u16) -> bool {
    match ctrl {
        // Whole waves and broadcasts over rows are gone, other permutations within rows have come.
        0x130 | 0x134 | 0x138 | 0x13c | 0x142 | 0x143 if arch.is_gfx11() => false,
        0x160..=0x16f => arch.is_gfx11(),
        0..=0xff | 0x130 | 0x134 | 0x138 | 0x13c | 0x140..=0x143 | 0x150..=0x15f => true,
        0x101..=0x12f => ctrl & 15 != 0,
        _ => false,
    }
}

fn dpp_controls(out: &mut Text, dpp: Dpp) {
    let n = dpp.ctrl & 15;
    match dpp.ctrl {
        0..=0xff => {
            let lane = |i: u16| dpp.ctrl >> (2 * i) & 3;
            out.push(format_args!(" quad_perm:[{},{},{},{}]", lane(0), lane(1), lane(2), lane(3)));
        }
        0x101..=0x10f => out.push(format_args!(" row_shl:{n}")),
        0x111..=0x11f => out.push(format_args!(" row_shr:{n}")),
        0x121..=0x12f => out.push(format_args!(" row_ror:{n}")),
        0x130 => out.flag("wave_shl:1", true),
        0x134 => out.flag("wave_rol:1", true),
        0x138 => out.flag("wave_shr:1", true),
        0x13c => out.flag("wave_ror:1", true),
        0x140 => out.flag("row_mirror", true),
        0x141 => out.flag("row_half_mirror", true),
        0x142 => out.flag("row_bcast:15", true),
        0x143 => out.flag("row_bcast:31", true),
        0x150..=0x15f if out.arch.is_gfx11() => out.push(format_args!(" row_share:{n}")),
        0x150..=0x15f => out.push(format_args!(" row_newbcast:{n}")),
        _ => out.push(format_args!(" row_xmask:{n}")),
    }
    out.push(format_args!(" row_mask:{:#x} bank_mask:{:#x}", dpp.row_mask, dpp.bank_mask));
    out.flag("bound_ctrl:1", dpp.bound_ctrl);
    out.flag("fi:1", dpp.fetch_inactive);
}

/// A list of bits: ` op_sel:[0,1,0]`.
fn bit_list(out: &mut Text, name: &str, bits: u8, places: &[u8]) {
    out.push(format_args!(" {name}:["));
    for (i, place) in places.iter().enumerate() {
        let separator = if i == 0 { "" } else { "," };
        out.push(format_args!("{separator}{}", bits >> place & 1));
    }
    out.push(format_args!("]"));
}

/// Bit numbers of the sources.
fn source_places(row: &Row) -> &'static [u8] {
    match row.src.iter().position(|kind| *kind == OperandType::None) {
        Some(1) => &[0],
        Some(2) => &[0, 1],
        _ => &[0, 1, 2],
    }
}

pub(super) fn vop3(out: &mut Text, inst: &Inst, row: &Row) {
    let mods = &inst.mods;
    out.out.push_str(match has_dpp(mods) {
        true => "_e64_dpp",
        false if row.e64.is_some_and(|form| form.suffix) => "_e64",
        false => "",
    });
    destinations(out, inst, row);
    let is_bitop3 = matches!(inst.op, Op::VBitop3B16 | Op::VBitop3B32);
    for (i, (operand, kind)) in inst.src.into_iter().zip(row.src).enumerate() {
        if operand != Operand::None {
            let (neg, abs) = (mods.neg >> i & 1 != 0, mods.abs >> i & 1 != 0);
            let is_integer = inst.enc == Encoding::Vop3 && is_integer(row.e64, [61, 62, 63], [8, 9, 10], i);
            match is_integer && neg && !is_bitop3 {
                true => sign_extended(out, operand, kind),
                false => modified(out, operand, kind, neg && !is_bitop3, abs && !is_bitop3),
            }
        }
    }
    if is_bitop3 {
        let table = truth_table(inst);
        if table != 0 {
            match table {
                0..=10 => out.push(format_args!(" bitop3:{table}")),
                _ => out.push(format_args!(" bitop3:{table:#x}")),
            }
        }
    }
    if matches!(inst.op, Op::VPermlane16SwapB32 | Op::VPermlane32SwapB32) {
        out.flag("bound_ctrl:1", mods.op_sel & 2 != 0);
        out.flag("fi:1", mods.op_sel & 1 != 0);
        return;
    }
    if mods.op_sel != 0 {
        // The destination's bit follows those of the sources; some conversions use that of the absent third one too.
        // An accumulator counts as a third source.
        let acts = |bit| row.e64.is_some_and(|form| form.acts(bit));
        let has_third = acts(13) || inst.op == Op::VFmacF16;
        let places: &[u8] = match source_places(row).len() {
            1 => &[0, 3],
            3 if !acts(13) && !acts(14) => &[0, 1],
            2 if !has_third => &[0, 1, 3],
            _ => &[0, 1, 2, 3],
        };
        bit_list(out, "op_sel", mods.op_sel, places);
    }
    out.flag("clamp", mods.clamp);
    if !is_bitop3 {
        omod(out, mods.omod);
    }
    lanes(out, mods);
}

/// The truth table of `v_bitop3`: it takes the place of OMOD, ABS and NEG.
pub(super) fn truth_table(inst: &Inst) -> u8 {
    inst.mods.omod << 6 | (inst.mods.abs & 7) << 3 | inst.mods.neg & 7
}

pub(super) fn vop3p(out: &mut Text, inst: &Inst, row: &Row) {
    let mods = &inst.mods;
    let is_mix = is_mix(inst.op);
    if has_dpp(mods) {
        out.out.push_str("_e64_dpp");
    }
    out.operand(inst.dst[0], row.dst[0]);
    for (i, (operand, kind)) in inst.src.into_iter().zip(row.src).enumerate() {
        if operand != Operand::None {
            // The mixed operations use the bits of NEG_HI as ABS.
            let (neg, abs) = (mods.neg >> i & 1 != 0, mods.abs >> i & 1 != 0);
            modified(out, operand, kind, neg && is_mix, abs && is_mix);
        }
    }
    let places = source_places(row);
    let mask = (1u8 << places.len()) - 1;
    if mods.op_sel & mask != 0 {
        bit_list(out, "op_sel", mods.op_sel, places);
    }
    let high = mods.op_sel_hi & mask;
    let default = if is_mix { 0 } else { mask };
    let has_op_sel = row.e64.is_some_and(|form| form.acts(59));
    if has_op_sel && high != default {
        bit_list(out, "op_sel_hi", high, places);
    }
    if !is_mix {
        for (name, bits) in [("neg_lo", mods.neg), ("neg_hi", mods.abs)] {
            if bits & mask != 0 {
                bit_list(out, name, bits, places);
            }
        }
    }
    out.flag("clamp", mods.clamp);
    lanes(out, mods);
}

pub(super) fn mai(out: &mut Text, inst: &Inst, row: &Row) {
    let mods = &inst.mods;
    out.operand(inst.dst[0], row.dst[0]);
    let formats = [mods.cbsz, mods.blgp];
    for (i, (operand, kind)) in inst.src.into_iter().zip(row.src).enumerate() {
        let kind = match formats.get(i) {
            Some(&format) if is_f8f6f4(row) => OperandType::Vector(format_registers(format)),
            _ => kind,
        };
        out.operand(operand, kind);
    }
    if inst.enc == Encoding::MaiScale {
        for scale in inst.scale {
            out.operand(scale, OperandType::Vector(1));
        }
        let (low, high) = (mods.scale_sel.map(|sel| sel & 1), mods.scale_sel.map(|sel| sel >> 1 & 1));
        if low != [0, 0] {
            bit_list(out, "op_sel", low[0] | low[1] << 1, &[0, 1, 2]);
        }
        bit_list(out, "op_sel_hi", high[0] | high[1] << 1, &[0, 1, 2]);
    }
    out.value("cbsz", mods.cbsz);
    out.value("abid", mods.abid);
    // From gfx940 on, the f64 operations read BLGP as negations.
    let is_f64 = matches!(inst.op, Op::VMfmaF6416x16x4F64 | Op::VMfmaF644x4x44bF64);
    if is_f64 && out.arch != Arch::Gfx90a {
        if mods.blgp != 0 {
            bit_list(out, "neg", mods.blgp, &[0, 1, 2]);
        }
    } else {
        out.value("blgp", mods.blgp);
    }
}
