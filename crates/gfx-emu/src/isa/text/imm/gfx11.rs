//! Immediates of GFX11.

use super::super::Text;
use super::counters;

/// Names of the hardware registers.
pub(super) fn hwreg_name(id: u16) -> Option<&'static str> {
    Some(match id {
        1 => "MODE",
        2 => "STATUS",
        3 => "TRAPSTS",
        5 => "GPR_ALLOC",
        6 => "LDS_ALLOC",
        7 => "IB_STS",
        15 => "SH_MEM_BASES",
        18 => "PERF_SNAPSHOT_PC_LO",
        19 => "PERF_SNAPSHOT_PC_HI",
        20 => "FLAT_SCR_LO",
        21 => "FLAT_SCR_HI",
        23 => "HW_ID1",
        24 => "HW_ID2",
        27 => "PERF_SNAPSHOT_DATA",
        29 => "SHADER_CYCLES",
        _ => return None,
    })
}

/// `sendmsg(MSG_DEALLOC_VGPRS)`: messages have neither operations nor streams.
pub(super) fn message(out: &mut Text, value: u16) {
    let id = value & 0xff;
    let name = match id {
        1 => "MSG_INTERRUPT",
        2 => "MSG_HS_TESSFACTOR",
        3 => "MSG_DEALLOC_VGPRS",
        5 => "MSG_STALL_WAVE_GEN",
        6 => "MSG_HALT_WAVES",
        9 => "MSG_GS_ALLOC_REQ",
        128 => "MSG_RTN_GET_DOORBELL",
        129 => "MSG_RTN_GET_DDID",
        130 => "MSG_RTN_GET_TMA",
        131 => "MSG_RTN_GET_REALTIME",
        132 => "MSG_RTN_SAVE_WAVE",
        133 => "MSG_RTN_GET_TBA",
        134 => "MSG_RTN_GET_TBA_TO_PC",
        _ if value > 0xff => return out.push(format_args!("{value}")),
        _ => return out.push(format_args!("sendmsg({id}, 0, 0)")),
    };
    out.push(format_args!("sendmsg({name})"));
}

/// `UC_VERSION_GFX11|UC_VERSION_W32_BIT`.
pub(super) fn version(out: &mut Text, value: u16) {
    if value & 0x1f00 != 0 {
        return out.push(format_args!("{value:#x}"));
    }
    let flags = [(13, "W64"), (14, "W32"), (15, "MDP")];
    let set: Vec<&str> = flags.iter().filter(|(bit, _)| value >> bit & 1 != 0).map(|(_, name)| *name).collect();
    out.out.push_str(&"(".repeat(set.len().saturating_sub(1)));
    match value & 0xff {
        0 => out.push(format_args!("UC_VERSION_GFX7")),
        4 => out.push(format_args!("UC_VERSION_GFX10")),
        6 => out.push(format_args!("UC_VERSION_GFX11")),
        9 => out.push(format_args!("UC_VERSION_GFX12")),
        other => out.push(format_args!("{other}")),
    }
    for (i, name) in set.iter().enumerate() {
        let end = if i == 0 { "" } else { ")" };
        out.push(format_args!("{end}|UC_VERSION_{name}_BIT"));
    }
}

/// `instid0(VALU_DEP_1) | instskip(NEXT) | instid1(VALU_DEP_3)`: what the next instruction, and one some places on, wait for.
pub(super) fn delay(out: &mut Text, value: u16) {
    let (first, skip, second) = (value & 15, value >> 4 & 7, value >> 7 & 15);
    let parts = [
        ("instid0", first, DEPENDENCIES.get(usize::from(first)).copied().unwrap_or("/* invalid instid value */")),
        ("instskip", skip, SKIPS.get(usize::from(skip)).copied().unwrap_or("/* invalid instskip value */")),
        ("instid1", second, DEPENDENCIES.get(usize::from(second)).copied().unwrap_or("/* invalid instid value */")),
    ];
    let mut separator = "";
    for (part, _, name) in parts.into_iter().filter(|(_, value, _)| *value != 0) {
        out.push(format_args!("{separator}{part}({name})"));
        separator = " | ";
    }
    if separator.is_empty() {
        out.out.push('0');
    }
}

const DEPENDENCIES: [&str; 12] = [
    "NO_DEP",
    "VALU_DEP_1",
    "VALU_DEP_2",
    "VALU_DEP_3",
    "VALU_DEP_4",
    "TRANS32_DEP_1",
    "TRANS32_DEP_2",
    "TRANS32_DEP_3",
    "FMA_ACCUM_CYCLE_1",
    "SALU_CYCLE_1",
    "SALU_CYCLE_2",
    "SALU_CYCLE_3",
];
const SKIPS: [&str; 6] = ["SAME", "NEXT", "SKIP_1", "SKIP_2", "SKIP_3", "SKIP_4"];

/// The counters of `s_waitcnt_depctr`; a number where a bit of none of them is set.
pub(super) fn depctr(out: &mut Text, value: u16) {
    if value & 0x60 != 0 {
        return out.push(format_args!("{value:#x}"));
    }
    counters(
        out,
        [
            ("depctr_hold_cnt", value >> 7 & 1, 1),
            ("depctr_sa_sdst", value & 1, 1),
            ("depctr_va_vdst", value >> 12, 15),
            ("depctr_va_sdst", value >> 9 & 7, 7),
            ("depctr_va_ssrc", value >> 8 & 1, 1),
            ("depctr_va_vcc", value >> 1 & 1, 1),
            ("depctr_vm_vsrc", value >> 2 & 7, 7),
        ],
    );
}
