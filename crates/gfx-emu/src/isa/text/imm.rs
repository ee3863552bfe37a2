//! 16-bit immediates that have a syntax of their own.

mod gfx11;

use super::super::inst::Encoding;
use super::super::table::Imm;
use super::Text;

pub(super) fn write(out: &mut Text, value: u16, meaning: Imm, enc: Encoding) {
    match meaning {
        Imm::Optional if value == 0 => return,
        _ => {
            out.next();
        }
    }
    match meaning {
        Imm::Number if enc == Encoding::Sopk => out.push(format_args!("{value:#x}")),
        Imm::Number => number(out, value),
        Imm::Optional | Imm::Target => out.push(format_args!("{value}")),
        Imm::Hwreg => hwreg(out, value),
        Imm::Waitcnt => waitcnt(out, value),
        Imm::Message => message(out, value),
        Imm::GprIndex => gpr_index(out, value),
        Imm::Hex => out.push(format_args!("{value:#x}")),
        Imm::Version => gfx11::version(out, value),
        Imm::Delay => gfx11::delay(out, value),
        Imm::Depctr => gfx11::depctr(out, value),
    }
}

/// Small numbers in decimal, others in hexadecimal.
fn number(out: &mut Text, value: u16) {
    match value {
        0..=64 => out.push(format_args!("{value}")),
        _ => out.push(format_args!("{value:#x}")),
    }
}

/// Names of the hardware registers of gfx940 and later; gfx90a lacks the last five.
fn hwreg_name(id: u16, arch: super::Arch) -> Option<&'static str> {
    if arch.is_gfx11() {
        return gfx11::hwreg_name(id);
    }
    Some(match id {
        1 => "MODE",
        2 => "STATUS",
        3 => "TRAPSTS",
        4 => "HW_ID",
        5 => "GPR_ALLOC",
        6 => "LDS_ALLOC",
        7 => "IB_STS",
        15 => "SH_MEM_BASES",
        16 => "TBA_LO",
        17 => "TBA_HI",
        18 => "TMA_LO",
        19 => "TMA_HI",
        _ if arch == super::Arch::Gfx90a => return None,
        20 => "XCC_ID",
        21 => "SQ_PERF_SNAPSHOT_DATA",
        22 => "SQ_PERF_SNAPSHOT_DATA1",
        23 => "SQ_PERF_SNAPSHOT_PC_LO",
        24 => "SQ_PERF_SNAPSHOT_PC_HI",
        _ => return None,
    })
}

/// `hwreg(HW_REG_MODE, 0, 4)`; the range is left out where it is the whole register.
fn hwreg(out: &mut Text, value: u16) {
    let (id, offset, size) = (value & 63, value >> 6 & 31, (value >> 11) + 1);
    match hwreg_name(id, out.arch) {
        Some(name) => out.push(format_args!("hwreg(HW_REG_{name}")),
        None => out.push(format_args!("hwreg({id}")),
    }
    match (offset, size) {
        (0, 32) => out.push(format_args!(")")),
        _ => out.push(format_args!(", {offset}, {size})")),
    }
}

/// The counters that are waited for.
fn waitcnt(out: &mut Text, value: u16) {
    counters(
        out,
        match out.arch.is_gfx11() {
            true => [("vmcnt", value >> 10, 63), ("expcnt", value & 7, 7), ("lgkmcnt", value >> 4 & 63, 63)],
            false => [
                ("vmcnt", value & 15 | value >> 10 & 0x30, 63),
                ("expcnt", value >> 4 & 7, 7),
                ("lgkmcnt", value >> 8 & 15, 15),
            ],
        },
    );
}

/// Counters by name, value and maximum: those at their maximum are not waited for and left out, unless all are.
fn counters<const N: usize>(out: &mut Text, counters: [(&str, u16, u16); N]) {
    let none = counters.iter().all(|(_, count, max)| count == max);
    let mut separator = "";
    for (name, count, max) in counters {
        if count != max || none {
            out.push(format_args!("{separator}{name}({count})"));
            separator = " ";
        }
    }
}

/// `sendmsg(MSG_INTERRUPT)`: message, operation and stream by name where all of them are known, by number otherwise.
fn message(out: &mut Text, value: u16) {
    if out.arch.is_gfx11() {
        return gfx11::message(out, value);
    }
    let (id, op, stream) = (value & 15, value >> 4 & 7, value >> 8 & 3);
    let plain = match id {
        1 => "MSG_INTERRUPT",
        4 => "MSG_SAVEWAVE",
        5 => "MSG_STALL_WAVE_GEN",
        6 => "MSG_HALT_WAVES",
        7 => "MSG_ORDERED_PS_DONE",
        8 => "MSG_EARLY_PRIM_DEALLOC",
        9 => "MSG_GS_ALLOC_REQ",
        10 => "MSG_GET_DOORBELL",
        _ => "",
    };
    let gs_op = ["GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT"].get(usize::from(op));
    let sys_op = match op {
        1 => Some("SYSMSG_OP_ECC_ERR_INTERRUPT"),
        2 => Some("SYSMSG_OP_REG_RD"),
        4 => Some("SYSMSG_OP_TTRACE_PC"),
        _ => None,
    };
    match (id, gs_op, sys_op) {
        _ if !plain.is_empty() && op == 0 && stream == 0 => out.push(format_args!("sendmsg({plain})")),
        (2, Some(name), _) if op != 0 => out.push(format_args!("sendmsg(MSG_GS, {name}, {stream})")),
        (3, Some(name), _) if op != 0 => out.push(format_args!("sendmsg(MSG_GS_DONE, {name}, {stream})")),
        (3, Some(name), _) if stream == 0 => out.push(format_args!("sendmsg(MSG_GS_DONE, {name})")),
        (15, _, Some(name)) if stream == 0 => out.push(format_args!("sendmsg(MSG_SYSMSG, {name})")),
        _ if value & !0x37f != 0 => out.push(format_args!("{value}")),
        _ => out.push(format_args!("sendmsg({id}, {op}, {stream})")),
    }
}

/// Which operands are indexed by M0.
fn gpr_index(out: &mut Text, value: u16) {
    if value > 15 {
        return out.push(format_args!("{value:#x}"));
    }
    out.push(format_args!("gpr_idx("));
    let mut separator = "";
    for (bit, name) in ["SRC0", "SRC1", "SRC2", "DST"].into_iter().enumerate() {
        if value >> bit & 1 != 0 {
            out.push(format_args!("{separator}{name}"));
            separator = ",";
        }
    }
    out.push(format_args!(")"));
}
