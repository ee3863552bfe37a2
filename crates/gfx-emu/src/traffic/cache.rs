//! Set-associative caches of line numbers.

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

/// Some caches of one shape. Tags are the low 32 bits of the line number: allocations of one device are never a multiple of
/// 2^32 lines apart. The line that was brought in first leaves first; which one hardware chooses is not public.
///
/// Storage is had with the first look and zeroed by the OS, so that caches which are not used cost nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Caches {
    ways: usize,
    /// Sets of one cache: a power of two.
    sets: usize,
    count: usize,
    /// Set by set, cache by cache: one more than the tag, or 0 where no line is.
    tags: Vec<u32>,
    /// The way of each set that is replaced next.
    next: Vec<u16>,
    /// Dirty sectors of each line, and how many lines have which.
    dirty: Vec<u8>,
    by_sectors: [u64; 16],
}

impl Caches {
    pub(super) fn new(shape: CacheShape, count: usize) -> Self {
        let lines = (shape.bytes / shape.line.max(1)).max(1) as usize;
        let ways = (shape.ways.max(1) as usize).min(lines);
        Self { ways, sets: (lines / ways).next_power_of_two(), count, ..Self::default() }
    }

    /// Caches there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Looks a line up in cache `which` and brings it in; `sectors` (below 16) become dirty. `WIDE` compares tags with
    /// AVX-512.
    ///
    /// # Safety
    /// For `WIDE` the host has AVX-512 F.
    #[inline(always)]
    pub(super) unsafe fn look<const WIDE: bool>(&mut self, which: usize, line: u64, sectors: u8) -> Look {
        let tag = (line as u32).wrapping_add(1);
        let set = which * self.sets + (line as u32 as usize & self.sets.wrapping_sub(1));
        let start = set * self.ways;
        if start + self.ways > self.tags.len() && !self.allocate(which) {
            return Look::Miss { evicted: 0 };
        }
        let Some(ways) = self.tags.get_mut(start..start + self.ways) else { return Look::Miss { evicted: 0 } };
        // SAFETY: the caller's.
        if let Some(way) = unsafe { position::<WIDE>(ways, tag) } {
            if sectors != 0 {
                self.soil(start + way, |old| old | sectors);
            }
            return Look::Hit;
        }
        let Some(next) = self.next.get_mut(set) else { return Look::Miss { evicted: 0 } };
        let way = usize::from(*next);
        *next = if way + 1 == ways.len() { 0 } else { *next + 1 };
        if let Some(slot) = ways.get_mut(way) {
            *slot = tag;
        }
        // Caches that nothing was written to keep no dirty sectors.
        let evicted = if sectors == 0 && self.dirty.is_empty() { 0 } else { self.soil(start + way, |_| sectors) };
        Look::Miss { evicted }
    }

    /// Changes the dirty sectors of a line; gives those it had.
    #[inline(always)]
    fn soil(&mut self, line: usize, change: impl Fn(u8) -> u8) -> u8 {
        if self.dirty.is_empty() {
            self.dirty = vec![0; self.tags.len()];
        }
        let Some(sectors) = self.dirty.get_mut(line) else { return 0 };
        let old = *sectors;
        let new = change(old) & 15;
        *sectors = new;
        self.by_sectors[usize::from(old & 15)] = self.by_sectors[usize::from(old & 15)].wrapping_sub(1);
        self.by_sectors[usize::from(new)] = self.by_sectors[usize::from(new)].wrapping_add(1);
        old
    }

    /// Makes the storage; false when there is no such cache.
    #[cold]
    #[inline(never)]
    fn allocate(&mut self, which: usize) -> bool {
        if which >= self.count {
            return false;
        }
        self.tags = vec![0; self.count * self.sets * self.ways];
        self.next = vec![0; self.count * self.sets];
        true
    }

    /// Takes the dirty sectors of all lines: calls `each` with sectors and the number of lines that have just these.
    pub(super) fn drain_dirty(&mut self, mut each: impl FnMut(u8, u64)) {
        for (sectors, lines) in (0..).zip(std::mem::take(&mut self.by_sectors)).skip(1).filter(|(_, lines)| *lines != 0)
        {
            each(sectors, lines);
        }
        self.dirty = Vec::new();
    }
}

/// Where a tag is: it is there once at most.
///
/// # Safety
/// For `WIDE` the host has AVX-512 F.
#[inline(always)]
unsafe fn position<const WIDE: bool>(ways: &[u32], tag: u32) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if WIDE && ways.len().is_multiple_of(16) {
        use std::arch::x86_64::{_mm512_cmpeq_epi32_mask, _mm512_loadu_si512, _mm512_set1_epi32};
        let mut start = 0;
        while start < ways.len() {
            // SAFETY: 16 ways are behind `start`; the caller vouches for the features.
            let hit = unsafe {
                let held = _mm512_loadu_si512(ways.as_ptr().add(start).cast());
                _mm512_cmpeq_epi32_mask(held, _mm512_set1_epi32(tag as i32))
            };
            if hit != 0 {
                return Some(start + hit.trailing_zeros() as usize);
            }
            start += 16;
        }
        return None;
    }
    // Compares without leaving early are vector code; only a hit looks for its place.
    let mut found = false;
    for held in ways {
        found |= *held == tag;
    }
    if found { ways.iter().position(|held| *held == tag) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Level;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// A look by the plain way, and the same by AVX-512 where the host has it.
    fn look(cache: &mut Caches, wide: bool, which: usize, line: u64, sectors: u8) -> Look {
        // SAFETY: `wide` is only set where the host has AVX-512.
        unsafe {
            if wide { cache.look::<true>(which, line, sectors) } else { cache.look::<false>(which, line, sectors) }
        }
    }

    fn drained(cache: &mut Caches) -> Vec<(u8, u64)> {
        let mut all = Vec::new();
        cache.drain_dirty(|sectors, lines| all.push((sectors, lines)));
        all
    }

    #[test]
    fn as_many_lines_as_ways_stay_in_a_set() {
        let mut cache = Caches::new(CacheShape { bytes: 1024, line: 128, ways: 4 }, 1);
        let sets = 2;
        for line in 0..4 {
            assert_eq!(look(&mut cache, false, 0, line * sets, 0), Look::Miss { evicted: 0 });
        }
        for line in 0..4 {
            assert_eq!(look(&mut cache, false, 0, line * sets, 1), Look::Hit);
        }
        assert_eq!(look(&mut cache, false, 0, 4 * sets, 0), Look::Miss { evicted: 1 });
        assert_eq!(look(&mut cache, false, 0, 0, 0), Look::Miss { evicted: 1 });
        assert_eq!(look(&mut cache, false, 0, 1, 0), Look::Miss { evicted: 0 });
        assert_eq!(drained(&mut cache), [(1, 2)]);
        assert_eq!(drained(&mut cache), []);
    }

    #[test]
    fn a_cache_that_is_not_there_has_nothing() {
        assert_eq!(look(&mut Caches::default(), false, 0, 7, 1), Look::Miss { evicted: 0 });
        let mut one = Caches::new(Shape::CDNA3.l1, 1);
        for _ in 0..2 {
            assert_eq!(look(&mut one, false, 1, 7, 0), Look::Miss { evicted: 0 });
        }
    }

    /// Sets as queues of lines with their dirty sectors.
    struct Queues {
        sets: Vec<VecDeque<(u64, u8)>>,
        ways: usize,
    }

    impl Queues {
        fn look(&mut self, line: u64, sectors: u8) -> Look {
            let count = self.sets.len() as u64;
            let set = &mut self.sets[(line % count) as usize];
            if let Some(held) = set.iter_mut().find(|held| held.0 == line) {
                held.1 |= sectors;
                return Look::Hit;
            }
            set.push_back((line, sectors));
            let evicted = if set.len() > self.ways { set.pop_front().map_or(0, |held| held.1) } else { 0 };
            Look::Miss { evicted }
        }
    }

    proptest! {
        /// Two caches against queues, with and without AVX-512.
        #[test]
        fn caches_equal_queues(
            accesses in prop::collection::vec((0_usize..2, 0_u64..200, 0_u8..16), 0..600),
            ways in prop::sample::select(vec![4_u32, 16, 32]),
        ) {
            let wides: &[bool] = if Level::detect() == Level::V4 { &[false, true] } else { &[false] };
            for wide in wides {
                let shape = CacheShape { bytes: 128 * 2 * ways, line: 128, ways };
                let mut caches = Caches::new(shape, 2);
                let mut queues = [0, 1].map(|_| Queues { sets: vec![VecDeque::new(); 2], ways: ways as usize });
                for (which, line, sectors) in &accesses {
                    let wanted = queues[*which].look(*line, *sectors);
                    prop_assert_eq!(look(&mut caches, *wide, *which, *line, *sectors), wanted);
                }
                let mut lines = [0_u64; 16];
                queues.iter().flat_map(|queue| queue.sets.iter().flatten()).for_each(|held| lines[usize::from(held.1)] += 1);
                let wanted: Vec<_> = (0..16).zip(lines).skip(1).filter(|(_, lines)| *lines != 0).collect();
                prop_assert_eq!(drained(&mut caches), wanted);
            }
        }
    }
}
