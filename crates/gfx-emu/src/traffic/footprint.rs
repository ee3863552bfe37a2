//! Which memory a kernel touched at all: what has to come from memory, or go there, however large the caches are.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Lines of 128 bytes in a page of the map.
const PAGE_LINES: u64 = 512;
const LINE_BYTES: u64 = 128;
const SECTOR_BYTES: u64 = 32;

/// Distinct bytes of device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DistinctBytes {
    /// In 128-byte lines that were read, those apart whose first access on some XCD was a store.
    pub read: u64,
    /// In 32-byte sectors that were written.
    pub written: u64,
}

#[derive(Clone, Debug)]
struct Page {
    /// Lines that a read had to fetch.
    read: [u64; 8],
    /// Lines that were stored to before they were read.
    fresh: [u64; 8],
    /// Sectors stored to, four a line.
    written: [u64; 32],
}

/// Page numbers are far apart in few bits: a multiplication spreads them.
#[derive(Clone, Debug, Default)]
struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

/// The lines and sectors that one XCD, or all together, touched.
#[derive(Clone, Debug, Default)]
pub(super) struct Footprint {
    places: HashMap<u64, usize, BuildHasherDefault<PageHasher>>,
    pages: Vec<Page>,
    /// The page of the access before, which is mostly that of the next one.
    last: Option<(u64, usize)>,
}

impl Footprint {
    #[inline]
    fn page(&mut self, number: u64) -> Option<&mut Page> {
        let place = match self.last {
            Some((last, place)) if last == number => place,
            _ => self.find(number),
        };
        self.pages.get_mut(place)
    }

    #[inline(never)]
    fn find(&mut self, number: u64) -> usize {
        let next = self.pages.len();
        let place = *self.places.entry(number).or_insert(next);
        if place == next {
            self.pages.push(Page { read: [0; 8], fresh: [0; 8], written: [0; 32] });
        }
        self.last = Some((number, place));
        place
    }

    /// A read fetched a line.
    #[inline]
    pub(super) fn read(&mut self, line: u64) {
        let (word, bit) = split(line % PAGE_LINES);
        if let Some(page) = self.page(line / PAGE_LINES) {
            page.read[word] |= bit;
        }
    }

    /// A store or an atomic wrote sectors of a line.
    #[inline]
    pub(super) fn write(&mut self, line: u64, sectors: u8) {
        let (word, bit) = split(line % PAGE_LINES);
        let (sector_word, first) = ((line % PAGE_LINES / 16) as usize, line % 16 * 4);
        if let Some(page) = self.page(line / PAGE_LINES) {
            page.fresh[word] |= bit & !page.read[word];
            page.written[sector_word] |= u64::from(sectors & 15) << first;
        }
    }

    /// Adds what another XCD touched.
    pub(super) fn merge(&mut self, other: &Footprint) {
        for (number, place) in &other.places {
            let (Some(page), Some(more)) = (self.page(*number), other.pages.get(*place)) else { continue };
            let pairs = page.read.iter_mut().zip(&more.read).chain(page.fresh.iter_mut().zip(&more.fresh));
            for (sum, bits) in pairs.chain(page.written.iter_mut().zip(&more.written)) {
                *sum |= bits;
            }
        }
    }

    /// Takes lines `first..end` out.
    pub(super) fn forget(&mut self, first: u64, end: u64) {
        for (number, place) in &self.places {
            let start = number * PAGE_LINES;
            let Some(page) = self.pages.get_mut(*place) else { continue };
            for line in first.max(start)..end.min(start + PAGE_LINES) {
                let (word, bit) = split(line - start);
                page.read[word] &= !bit;
                page.fresh[word] &= !bit;
                page.written[((line - start) / 16) as usize] &= !(15 << (line % 16 * 4));
            }
        }
    }

    /// Bytes.
    pub(super) fn distinct(&self) -> DistinctBytes {
        let mut bytes = DistinctBytes::default();
        for page in &self.pages {
            let lines: u32 = page.read.iter().zip(&page.fresh).map(|(read, fresh)| (read & !fresh).count_ones()).sum();
            let sectors: u32 = page.written.iter().map(|bits| bits.count_ones()).sum();
            bytes.read += u64::from(lines) * LINE_BYTES;
            bytes.written += u64::from(sectors) * SECTOR_BYTES;
        }
        bytes
    }
}

fn split(line: u64) -> (usize, u64) {
    ((line / 64) as usize, 1 << (line % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        /// Against sets of lines and sectors, with two XCDs.
        #[test]
        fn bitmaps_equal_sets(
            accesses in prop::collection::vec((0_usize..2, 0_u64..3000, 0_u8..16, any::<bool>()), 0..200),
            first in 0_u64..111_000,
            count in 0_u64..20_000,
        ) {
            let mut parts = [Footprint::default(), Footprint::default()];
            let (mut read, mut fresh) = ([HashSet::new(), HashSet::new()], HashSet::new());
            let mut written = HashSet::new();
            for (xcd, line, sectors, is_read) in accesses {
                let line = line * 37;
                if is_read {
                    parts[xcd].read(line);
                    read[xcd].insert(line);
                } else {
                    parts[xcd].write(line, sectors);
                    written.extend((0..4).filter(|bit| sectors >> bit & 1 == 1).map(|bit| line * 4 + bit));
                    if !read[xcd].contains(&line) {
                        fresh.insert(line);
                    }
                }
            }
            let mut all = Footprint::default();
            all.merge(&parts[0]);
            all.merge(&parts[1]);
            let lines = read[0].union(&read[1]).filter(|line| !fresh.contains(*line)).count() as u64;
            let wanted = DistinctBytes { read: lines * 128, written: written.len() as u64 * 32 };
            prop_assert_eq!(all.distinct(), wanted);
            let forgotten = first..first + count;
            all.forget(forgotten.start, forgotten.end);
            let kept = |line: &u64| !fresh.contains(line) && !forgotten.contains(line);
            let lines = read[0].union(&read[1]).filter(|line| kept(line)).count() as u64;
            let sectors = written.iter().filter(|sector| !forgotten.contains(&(*sector / 4))).count() as u64;
            prop_assert_eq!(all.distinct(), DistinctBytes { read: lines * 128, written: sectors * 32 });
        }
    }
}
