//! A set-associative cache of line numbers.

use super::LdsBanks;

/// Size and organisation of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Bytes.
    pub bytes: u32,
    /// Bytes of a line.
    pub line: u32,
    /// Ways of a set.
    pub ways: u32,
}

/// The caches of an XCD, and its LDS banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Vector L1 of a CU.
    pub l1: CacheShape,
    /// Scalar data cache of two CUs.
    pub scalar: CacheShape,
    /// L2 of an XCD.
    pub l2: CacheShape,
    /// LDS.
    pub banks: LdsBanks,
}

impl Shape {
    /// MI200 (white paper): 16 KiB L1 of 64 B lines, 8 MiB L2 of 16 ways.
    pub const CDNA2: Shape = Shape {
        l1: CacheShape { bytes: 16 << 10, line: 64, ways: 64 },
        scalar: CacheShape { bytes: 16 << 10, line: 64, ways: 4 },
        l2: CacheShape { bytes: 8 << 20, line: 128, ways: 16 },
        banks: LdsBanks::Cdna3,
    };
    /// MI300 (white paper): 32 KiB L1 of 128 B lines, 64 ways; 4 MiB L2 of 16 ways an XCD.
    pub const CDNA3: Shape = Shape {
        l1: CacheShape { bytes: 32 << 10, line: 128, ways: 64 },
        scalar: CacheShape { bytes: 16 << 10, line: 64, ways: 4 },
        l2: CacheShape { bytes: 4 << 20, line: 128, ways: 16 },
        banks: LdsBanks::Cdna3,
    };
    /// MI350 (white paper): as MI300, with 64 LDS banks.
    pub const CDNA4: Shape = Shape { banks: LdsBanks::Cdna4, ..Shape::CDNA3 };
}

/// What a look-up found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Hit,
    /// The line is there now; `evicted` are the dirty sectors of the line that left.
    Miss {
        evicted: u8,
    },
}

/// No line has this tag: device addresses end far below.
const EMPTY: u32 = u32::MAX;

/// A cache. Tags are the low 32 bits of the line number: allocations of one device are never a multiple of 2^32 lines apart.
/// The line that was brought in first leaves first; which one hardware chooses is not public.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    ways: usize,
    set_mask: u32,
    tags: Vec<u32>,
    dirty: Vec<u8>,
    next: Vec<u16>,
    last: u32,
}

impl Cache {
    pub(super) fn new(shape: CacheShape) -> Self {
        let lines = (shape.bytes / shape.line.max(1)).max(1) as usize;
        let ways = (shape.ways.max(1) as usize).min(lines);
        let sets = (lines / ways).next_power_of_two();
        Self {
            ways,
            set_mask: sets as u32 - 1,
            tags: vec![EMPTY; sets * ways],
            dirty: vec![0; sets * ways],
            next: vec![0; sets],
            last: EMPTY,
        }
    }

    /// Looks a line up and brings it in; `sectors` become dirty.
    #[inline]
    pub(super) fn look(&mut self, line: u64, sectors: u8) -> Look {
        let tag = line as u32;
        if tag == self.last && sectors == 0 {
            return Look::Hit;
        }
        self.last = tag;
        let set = (tag & self.set_mask) as usize;
        let start = set * self.ways;
        let Some(ways) = self.tags.get_mut(start..start + self.ways) else { return Look::Miss { evicted: 0 } };
        if let Some(way) = position(ways, tag) {
            self.dirty[start + way] |= sectors;
            return Look::Hit;
        }
        let way = usize::from(self.next[set]);
        self.next[set] = ((way + 1) % self.ways) as u16;
        ways[way] = tag;
        Look::Miss { evicted: std::mem::replace(&mut self.dirty[start + way], sectors) }
    }

    /// Takes the dirty sectors of all lines.
    pub(super) fn drain_dirty(&mut self) -> Vec<u8> {
        self.dirty.iter_mut().map(std::mem::take).filter(|sectors| *sectors != 0).collect()
    }
}

/// Where a tag is. All ways are looked at without leaving early, which compiles to wide compares.
#[inline(always)]
fn position(ways: &[u32], tag: u32) -> Option<usize> {
    let mut found = u32::MAX;
    for (way, held) in ways.iter().enumerate() {
        found = if *held == tag { way as u32 } else { found };
    }
    (found != u32::MAX).then_some(found as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_lines_as_ways_stay_in_a_set() {
        let mut cache = Cache::new(CacheShape { bytes: 1024, line: 128, ways: 4 });
        let sets = 2;
        for line in 0..4 {
            assert_eq!(cache.look(line * sets, 0), Look::Miss { evicted: 0 });
        }
        for line in 0..4 {
            assert_eq!(cache.look(line * sets, 1), Look::Hit);
        }
        assert_eq!(cache.look(4 * sets, 0), Look::Miss { evicted: 1 });
        assert_eq!(cache.look(0, 0), Look::Miss { evicted: 1 });
        assert_eq!(cache.look(1, 0), Look::Miss { evicted: 0 });
        assert_eq!(cache.drain_dirty().len(), 2);
    }
}
