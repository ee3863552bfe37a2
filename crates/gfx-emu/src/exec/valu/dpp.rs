//! Where DPP takes a lane's first source from.

/// A lane map: where each lane reads, and which lanes have a source at all.
#[derive(Clone, Copy)]
pub(super) struct Map {
    /// Source lane of each lane.
    pub(super) from: [u8; 64],
    /// Lanes that have a source.
    pub(super) valid: u64,
}

/// The source lane of `lane` under `DPP_CTRL`, when there is one. Rows are 16 lanes.
const fn source(ctrl: u16, lane: u32) -> Option<u32> {
    let row = lane & 0x30;
    let at = lane & 15;
    let n = ctrl as u32 & 15;
    match ctrl {
        // quad_perm: two bits for each lane of a quad.
        0..=0xff => Some((lane & !3) + ((ctrl as u32 >> (2 * (lane & 3))) & 3)),
        // row_shl, row_shr, row_ror.
        0x101..=0x10f => {
            if at + n < 16 {
                Some(lane + n)
            } else {
                None
            }
        }
        0x111..=0x11f => {
            if at >= n {
                Some(lane - n)
            } else {
                None
            }
        }
        0x121..=0x12f => Some(row + ((at + 16 - n) & 15)),
        // wave_shl, wave_rol, wave_shr, wave_ror by one lane.
        0x130 => {
            if lane < 63 {
                Some(lane + 1)
            } else {
                None
            }
        }
        0x134 => Some((lane + 1) & 63),
        0x138 => {
            if lane > 0 {
                Some(lane - 1)
            } else {
                None
            }
        }
        0x13c => Some((lane + 63) & 63),
        // row_mirror, row_half_mirror.
        0x140 => Some(row + 15 - at),
        0x141 => Some((lane & !7) + 7 - (lane & 7)),
        // row_bcast:15 gives each row the last lane of the row before; row_bcast:31 gives rows 2 and 3 lane 31.
        0x142 => {
            if row > 0 {
                Some(row - 1)
            } else {
                None
            }
        }
        0x143 => {
            if lane >= 32 {
                Some(31)
            } else {
                None
            }
        }
        // row_newbcast.
        0x150..=0x15f => Some(row + n),
        _ => None,
    }
}

const fn map(ctrl: u16) -> Map {
    let mut map = Map { from: [0; 64], valid: 0 };
    let mut lane = 0;
    while lane < 64 {
        if let Some(from) = source(ctrl, lane) {
            map.from[lane as usize] = from as u8;
            map.valid |= 1 << lane;
        }
        lane += 1;
    }
    map
}

/// Controls with an entry in the table.
const CONTROLS: usize = 0x160;

static MAPS: [Map; CONTROLS] = {
    let mut maps = [Map { from: [0; 64], valid: 0 }; CONTROLS];
    let mut ctrl = 0;
    while ctrl < CONTROLS {
        maps[ctrl] = map(ctrl as u16);
        ctrl += 1;
    }
    maps
};

/// True for the controls that exist.
pub(super) fn known(ctrl: u16) -> bool {
    matches!(ctrl,
        0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x130 | 0x134 | 0x138 | 0x13c | 0x140..=0x143
        | 0x150..=0x15f)
}

/// The map of a control.
pub(super) fn map_of(ctrl: u16) -> &'static Map {
    &MAPS[usize::from(ctrl) % CONTROLS]
}

/// Lanes that the row and bank masks let through: a bank is four lanes of each row.
pub(super) fn row_bank(row_mask: u8, bank_mask: u8) -> u64 {
    let spread = |bits: u8, copies: u64| {
        (0..4).filter(|i| bits & (1 << i) != 0).fold(0u64, |mask, i| mask | copies << (copies.count_ones() * i))
    };
    let row = spread(bank_mask, 0xf);
    let rows = row | row << 16 | row << 32 | row << 48;
    rows & spread(row_mask, 0xffff)
}
