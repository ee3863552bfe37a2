//! What has arrived of dispatches, reduced record by record: raw values are not kept.

use super::wire::{Entry, Position, Record};
use std::collections::{BTreeMap, HashMap};

/// Most XCCs of a device, beyond what exists.
const MAX_XCCS: usize = 64;

/// A counter of one launch, reduced over its instances.
#[derive(Clone, Debug)]
pub(super) struct Reduced {
    pub(super) sum: f64,
    pub(super) max: f64,
    pub(super) min: f64,
    pub(super) instances: u32,
    pub(super) per_xcc: Vec<f64>,
}

impl Reduced {
    fn add(&mut self, entry: &Entry) {
        self.sum += entry.value;
        self.max = self.max.max(entry.value);
        self.min = self.min.min(entry.value);
        self.instances = self.instances.saturating_add(1);
        let xcc = usize::from(entry.position.xcc).min(MAX_XCCS - 1);
        if self.per_xcc.len() <= xcc {
            self.per_xcc.resize(xcc + 1, 0.0);
        }
        if let Some(slot) = self.per_xcc.get_mut(xcc) {
            *slot += entry.value;
        }
    }
}

impl Default for Reduced {
    fn default() -> Self {
        Self { sum: 0.0, max: f64::NEG_INFINITY, min: f64::INFINITY, instances: 0, per_xcc: Vec::new() }
    }
}

/// What arrived of a dispatch.
#[derive(Debug, Default)]
pub(super) struct Arrived {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) total: u32,
    /// Values that came, those that are none and those that came before included: by it the waiting for more ends.
    received: u32,
    /// Values that were reduced.
    used: u32,
    /// Values that are none.
    malformed: u32,
    pub(super) counters: BTreeMap<u32, Reduced>,
    /// One bit for each place of [`Arrivals::places`]: its value is here.
    seen: Vec<u64>,
    pub(super) has_repeats: bool,
}

impl Arrived {
    /// True when every value came and could be used.
    pub(super) fn is_whole(&self) -> bool {
        self.used >= self.total
    }

    /// Notes a place; false when it was noted before.
    fn see(&mut self, place: usize) -> bool {
        let (word, bit) = (place / 64, 1_u64 << (place % 64));
        if self.seen.len() <= word {
            self.seen.resize(word + 1, 0);
        }
        let Some(word) = self.seen.get_mut(word) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

/// A dispatch's counters, each summed over its instances.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    /// Start, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Counters by index in the collection's list.
    pub counters: Vec<(u32, f64)>,
}

/// What has arrived of the dispatches of a collection.
///
/// Each record is reduced when it is taken: of a dispatch there remain its times, a few numbers a counter, and a bit an instance, by which a value that
/// is delivered twice is known. So memory grows with the dispatches, not with the values, which may be thousands a dispatch.
#[derive(Debug, Default)]
pub struct Arrivals {
    /// Counters of the collection.
    counters: usize,
    arrived: HashMap<u64, Arrived>,
    /// Instances of counters that were ever seen, numbered.
    places: HashMap<(u32, Position), usize>,
    malformed: u64,
}

impl Arrivals {
    /// Nothing yet, of a collection with so many counters.
    pub fn new(counters: usize) -> Self {
        Self { counters, ..Self::default() }
    }

    /// Takes a record out of the ring. What is no record, and values that are none, are counted and left aside.
    pub fn take(&mut self, bytes: &[u8]) {
        let Some(record) = Record::read(bytes) else {
            self.malformed += 1;
            return;
        };
        let header = record.header;
        let arrived = self.arrived.entry(header.dispatch_id).or_default();
        (arrived.start_ns, arrived.end_ns, arrived.total) = (header.start_ns, header.end_ns, header.total);
        for entry in record.entries() {
            arrived.received = arrived.received.saturating_add(1);
            if !entry.value.is_finite() || entry.value < 0.0 || entry.counter as usize >= self.counters {
                arrived.malformed = arrived.malformed.saturating_add(1);
                continue;
            }
            let next = self.places.len();
            let place = *self.places.entry((entry.counter, entry.position)).or_insert(next);
            if !arrived.see(place) {
                arrived.has_repeats = true;
                continue;
            }
            arrived.used = arrived.used.saturating_add(1);
            arrived.counters.entry(entry.counter).or_default().add(&entry);
        }
    }

    /// True when nothing has arrived.
    pub fn is_empty(&self) -> bool {
        self.arrived.is_empty() && self.malformed == 0
    }

    /// True when nothing more is to come of a dispatch. Its values may be of no use all the same.
    pub fn has_all_of(&self, dispatch_id: u64) -> bool {
        self.arrived.get(&dispatch_id).is_some_and(|arrived| arrived.received >= arrived.total)
    }

    /// The sums of a dispatch; `None` unless each of its values arrived, and arrived once: a sum of some is no sum.
    pub fn sums(&self, dispatch_id: u64) -> Option<Sums> {
        let arrived = self.arrived.get(&dispatch_id).filter(|arrived| arrived.is_whole() && !arrived.has_repeats)?;
        let counters = arrived.counters.iter().map(|(index, reduced)| (*index, reduced.sum)).collect();
        Some(Sums { start_ns: arrived.start_ns, end_ns: arrived.end_ns, counters })
    }

    /// Takes out some dispatches, for a collection of their own. Records that could not be read stay here.
    #[must_use]
    pub fn split_off(&mut self, dispatches: impl IntoIterator<Item = u64>) -> Self {
        let moved = dispatches.into_iter().filter_map(|id| self.arrived.remove_entry(&id)).collect();
        Self { counters: self.counters, arrived: moved, places: HashMap::new(), malformed: 0 }
    }

    pub(super) fn get(&self, dispatch_id: u64) -> Option<&Arrived> {
        self.arrived.get(&dispatch_id)
    }

    pub(super) fn dispatches(&self) -> impl Iterator<Item = u64> {
        self.arrived.keys().copied()
    }

    pub(super) fn malformed(&self) -> u64 {
        self.malformed + self.arrived.values().map(|arrived| u64::from(arrived.malformed)).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{self, Header};
    use super::*;

    /// A record with one value for each of so many instances of counter 0.
    fn record(dispatch_id: u64, instances: u16) -> Vec<u8> {
        let at = |instance| Position { instance, ..Position::default() };
        let entries: Vec<Entry> =
            (0..instances).map(|instance| Entry { counter: 0, position: at(instance), value: 2.0 }).collect();
        let header = Header { dispatch_id, start_ns: 1, end_ns: 3, total: u32::from(instances), count: 0 };
        let mut bytes = Vec::new();
        wire::write(&mut bytes, &header, &entries);
        bytes
    }

    #[test]
    fn of_a_dispatch_only_its_reduced_values_are_kept() {
        let mut all = Arrivals::new(1);
        for dispatch in 0..1000 {
            all.take(&record(dispatch, 640));
        }
        assert!((0..1000).all(|dispatch| all.has_all_of(dispatch)));
        assert_eq!(all.sums(999).unwrap().counters, [(0, 1280.0)]);
        // 640 values of 20 bytes each came; one reduced counter and ten words of bits stay, and the places are shared.
        assert_eq!(all.places.len(), 640);
        assert!(all.arrived.values().all(|one| one.counters.len() == 1 && one.seen.len() == 10));
    }

    #[test]
    fn a_value_that_comes_twice_is_told_also_after_the_last_one() {
        let mut all = Arrivals::new(1);
        all.take(&record(1, 70));
        assert!(all.has_all_of(1) && !all.get(1).unwrap().has_repeats);
        all.take(&record(1, 3));
        assert!(all.get(1).unwrap().has_repeats);
        assert_eq!(all.sums(1), None);
    }

    /// Waiting ends when everything came, whatever it is worth.
    #[test]
    fn values_that_are_none_or_came_before_were_received() {
        let mut all = Arrivals::new(1);
        let entry =
            |counter, instance| Entry { counter, position: Position { instance, ..Position::default() }, value: 1.0 };
        let header = |dispatch_id| Header { dispatch_id, start_ns: 1, end_ns: 3, total: 2, count: 0 };
        for (dispatch, second) in [(1, entry(u32::MAX, 0)), (2, entry(0, 0)), (3, entry(0, 1))] {
            let mut bytes = Vec::new();
            wire::write(&mut bytes, &header(dispatch), &[entry(0, 0), second]);
            all.take(&bytes);
        }
        assert!((1..=3).all(|dispatch| all.has_all_of(dispatch)));
        assert_eq!([1, 2, 3].map(|dispatch| all.sums(dispatch).is_some()), [false, false, true]);
        let part = all.split_off([1]);
        assert_eq!((part.malformed(), all.malformed()), (1, 0));
    }

    #[test]
    fn dispatches_are_split_off_and_the_rest_stays() {
        let mut all = Arrivals::new(1);
        all.take(&[1, 2, 3]);
        (1..4).for_each(|dispatch| all.take(&record(dispatch, 2)));
        let part = all.split_off([1, 3, 9]);
        assert!(part.has_all_of(1) && part.has_all_of(3) && !part.has_all_of(2) && part.malformed() == 0);
        assert!(all.has_all_of(2) && all.sums(1).is_none() && all.malformed() == 1 && !all.is_empty());
    }
}
