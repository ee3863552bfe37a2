//! LDS banks: how long an instruction holds the LDS, by the groups of lanes that it serves together.

/// What kind of LDS operation asks: it decides in which groups of lanes the banks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LdsOp {
    /// Indexed read.
    Read,
    /// Indexed write.
    Write,
    /// Read-modify-write.
    Atomic,
    /// Lane crossing without memory (`ds_permute`, `ds_bpermute`, `ds_swizzle`).
    Crossbar,
}

/// Whose banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LdsBanks {
    /// gfx90a and gfx942: 32 banks of 4 bytes.
    #[default]
    Cdna3,
    /// gfx950: reads of 8 and 16 bytes see 64 banks.
    Cdna4,
}

/// Clocks that an instruction takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    /// Groups served, and the clocks that conflicts add.
    pub(super) active: u64,
    /// Clocks that conflicts add.
    pub(super) conflict: u64,
    /// Clocks of the wave's port: 64 B each, or `active` when that is more.
    pub(super) port: u64,
}

/// Clocks that a dword of each of 64 lanes takes through the wave's port.
pub(super) const CROSSBAR_CYCLES: u64 = 4;

/// Lane groups of 16-byte reads (published measurements on CDNA3): each row is served in one clock without conflicts.
const READ_B128: [[u8; 8]; 8] = [
    [0, 1, 2, 3, 20, 21, 22, 23],
    [32, 33, 34, 35, 52, 53, 54, 55],
    [4, 5, 6, 7, 16, 17, 18, 19],
    [36, 37, 38, 39, 48, 49, 50, 51],
    [8, 9, 10, 11, 28, 29, 30, 31],
    [40, 41, 42, 43, 60, 61, 62, 63],
    [12, 13, 14, 15, 24, 25, 26, 27],
    [44, 45, 46, 47, 56, 57, 58, 59],
];

/// The same on CDNA4: groups of 16 lanes over 64 banks.
const READ_B128_CDNA4: [[u8; 16]; 4] = [
    [0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27],
    [32, 33, 34, 35, 44, 45, 46, 47, 52, 53, 54, 55, 56, 57, 58, 59],
    [4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 28, 29, 30, 31],
    [36, 37, 38, 39, 40, 41, 42, 43, 48, 49, 50, 51, 60, 61, 62, 63],
];

const IN_ORDER: [u8; 64] = {
    let mut lanes = [0; 64];
    let mut lane = 0;
    while lane < 64 {
        lanes[lane] = lane as u8;
        lane += 1;
    }
    lanes
};

impl LdsBanks {
    /// The cost of one access of `bytes` a lane. Without an active lane the LDS is not touched.
    pub(super) fn cost(self, op: LdsOp, exec: u64, addresses: &[u32; 64], bytes: u32) -> Cost {
        let port = (u64::from(exec.count_ones()) * u64::from(bytes)).div_ceil(64);
        if op == LdsOp::Crossbar {
            return Cost { active: 0, conflict: 0, port: CROSSBAR_CYCLES };
        }
        let wide = self == LdsBanks::Cdna4 && op == LdsOp::Read && bytes != 12;
        let (size, banks) = match (bytes, wide) {
            (..=4, _) => (32, 32),
            (5..=8, false) => (16, 32),
            (5..=8, true) => (32, 64),
            (_, true) => (16, 64),
            _ => (8, 32),
        };
        let groups = 64 / size as u64;
        let simple =
            (exec == u64::MAX && is_linear(addresses, bytes)) || (op != LdsOp::Atomic && is_one(exec, addresses));
        if simple {
            return Cost { active: groups, conflict: 0, port: port.max(groups) };
        }
        let mut active = 0;
        for group in 0..groups as usize {
            let lanes = match (op, bytes, wide) {
                (LdsOp::Read, 9.., true) => &READ_B128_CDNA4[group][..],
                (LdsOp::Read, 9.., false) => &READ_B128[group][..],
                _ => &IN_ORDER[group * size..(group + 1) * size],
            };
            active += serve(op, exec, addresses, bytes, lanes, banks).max(1);
        }
        Cost { active, conflict: active - groups, port: port.max(active) }
    }
}

/// True when lane `i` is at `addresses[0] + i * bytes`.
fn is_linear(addresses: &[u32; 64], bytes: u32) -> bool {
    let first = addresses[0];
    let mut same = true;
    for lane in 0..64 {
        same &= addresses[lane] == first.wrapping_add(lane as u32 * bytes);
    }
    same && first.is_multiple_of(bytes.max(1))
}

/// True when all active lanes are at one address.
fn is_one(exec: u64, addresses: &[u32; 64]) -> bool {
    let first = addresses[exec.trailing_zeros() as usize & 63];
    let mut differ = 0_u64;
    for lane in 0..64 {
        differ |= u64::from(addresses[lane] != first) << lane;
    }
    differ & exec == 0
}

/// Words of a group at most: 32 lanes of two, or 16 of five where they straddle.
const WORDS: usize = 128;
/// The end of a bank's list.
const NONE: u8 = u8::MAX;

/// Clocks of one group of lanes: the most different words that one bank has to give. Atomics on one word wait for each other.
fn serve(op: LdsOp, exec: u64, addresses: &[u32; 64], bytes: u32, lanes: &[u8], banks: u32) -> u64 {
    let mut words = [0_u32; WORDS];
    let mut next = [NONE; WORDS];
    let mut head = [NONE; 64];
    let mut clocks = [0_u8; 64];
    let (mut used, mut most) = (0, 0);
    for lane in lanes.iter().filter(|lane| exec >> **lane & 1 == 1) {
        let address = addresses[usize::from(*lane)];
        for word in address / 4..=address.saturating_add(bytes.max(1) - 1) / 4 {
            let bank = (word % banks) as usize & 63;
            let mut at = head[bank];
            while at != NONE && words[usize::from(at)] != word {
                at = next[usize::from(at)];
            }
            if at != NONE && op != LdsOp::Atomic {
                continue;
            }
            if at == NONE && used < WORDS {
                (words[used], next[used]) = (word, head[bank]);
                head[bank] = used as u8;
                used += 1;
            }
            clocks[bank] += 1;
            most = most.max(clocks[bank]);
        }
    }
    most.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(op: LdsOp, exec: u64, bytes: u32, f: impl Fn(u32) -> u32) -> Cost {
        let addresses = std::array::from_fn(|lane| f(lane as u32));
        LdsBanks::Cdna3.cost(op, exec, &addresses, bytes)
    }

    /// The calibration of AMD's own counters (facts, section 1.4): lanes of one bank add a clock each.
    #[test]
    fn dword_reads_match_the_published_counter_calibration() {
        let read = |lanes: u32| cost(LdsOp::Read, (1 << lanes) - 1, 4, |lane| lane * 128);
        assert_eq!((read(1).active, read(1).conflict), (2, 0));
        assert_eq!((read(2).active, read(2).conflict), (3, 1));
        assert_eq!((read(5).active, read(5).conflict), (6, 4));
    }

    #[test]
    fn linear_accesses_are_free_of_conflicts_by_either_way() {
        for op in [LdsOp::Read, LdsOp::Write] {
            for bytes in [4, 8, 16] {
                let fast = cost(op, u64::MAX, bytes, |lane| lane * bytes);
                assert_eq!(fast.conflict, 0);
                // One inactive lane takes the general way.
                let slow = cost(op, u64::MAX >> 1, bytes, |lane| lane * bytes);
                assert_eq!((slow.active, slow.conflict), (fast.active, 0), "{op:?} {bytes}");
            }
        }
    }

    #[test]
    fn strides_conflict_and_broadcasts_do_not() {
        let same = cost(LdsOp::Read, u64::MAX, 4, |_| 64);
        assert_eq!((same.active, same.conflict), (2, 0));
        let stride = cost(LdsOp::Read, u64::MAX, 4, |lane| lane * 128);
        assert_eq!((stride.active, stride.conflict), (64, 62));
        let two = cost(LdsOp::Write, u64::MAX, 4, |lane| lane * 8);
        assert_eq!((two.active, two.conflict), (4, 2));
        let counter = cost(LdsOp::Atomic, u64::MAX, 4, |_| 0);
        assert_eq!((counter.active, counter.conflict), (64, 62));
        // 16-byte reads with rows of 128 bytes: all lanes of a group in the same banks.
        let rows = cost(LdsOp::Read, u64::MAX, 16, |lane| lane * 128);
        assert_eq!(rows.active, 64);
    }
}
