//! Bin packing with several capacities and items that share contents: groups of events into as few passes as possible.
//!
//! Greedy orders first; when they do not reach the lower bound, a search with a limit. Small requests are packed optimally (a property test
//! compares with all partitions), large ones nearly so.

use crate::catalog::Event;
use std::collections::HashMap;

/// Placements that the search tries at most.
const SEARCH_LIMIT: usize = 200_000;
/// Shuffled orders that are tried greedily.
const SHUFFLES: u64 = 32;

/// Blocks, their free capacity and the events that are in every pass.
pub(super) struct Problem<L> {
    limit: L,
    blocks: HashMap<String, usize>,
    /// Capacity beside what is in every pass, by block.
    free: Vec<u16>,
    events: HashMap<Event, usize>,
    /// Block of each event; `None` for those in every pass.
    block_of: Vec<Option<usize>>,
}

impl<L: Fn(&str) -> u16> Problem<L> {
    pub(super) fn new(limit: L) -> Self {
        Self { limit, blocks: HashMap::new(), free: Vec::new(), events: HashMap::new(), block_of: Vec::new() }
    }

    fn block(&mut self, name: &str) -> usize {
        if let Some(block) = self.blocks.get(name) {
            return *block;
        }
        self.free.push((self.limit)(name));
        self.blocks.insert(name.to_owned(), self.free.len() - 1);
        self.free.len() - 1
    }

    fn event(&mut self, event: &Event) -> usize {
        if let Some(index) = self.events.get(event) {
            return *index;
        }
        let block = self.block(&event.block);
        self.block_of.push(Some(block));
        self.events.insert(event.clone(), self.block_of.len() - 1);
        self.block_of.len() - 1
    }

    /// Puts events in every pass.
    pub(super) fn occupy(&mut self, events: &[Event]) {
        for event in events {
            let index = self.event(event);
            if let Some(block) = self.block_of.get_mut(index).and_then(Option::take)
                && let Some(free) = self.free.get_mut(block)
            {
                *free = free.saturating_sub(1);
            }
        }
    }

    /// True when a pass of its own could hold these.
    pub(super) fn fits(&mut self, events: &[Event]) -> bool {
        let item = self.item(events);
        let mut bin = Bin::new(self.free.len(), self.block_of.len());
        bin.extra(&item, &self.block_of, &self.free).is_some_and(|_| {
            bin.add(&item, &self.block_of);
            true
        })
    }

    /// Indices of events that take room, each once.
    fn item(&mut self, events: &[Event]) -> Vec<usize> {
        let mut item: Vec<usize> = events.iter().map(|event| self.event(event)).collect();
        item.retain(|index| self.block_of.get(*index).is_some_and(Option::is_some));
        item.sort_unstable();
        item.dedup();
        item
    }
}

/// The contents of a pass.
#[derive(Clone)]
struct Bin {
    used: Vec<u16>,
    /// Items that brought each event.
    holders: Vec<u32>,
}

impl Bin {
    fn new(blocks: usize, events: usize) -> Self {
        Self { used: vec![0; blocks], holders: vec![0; events] }
    }

    /// How many events an item would add; `None` when a block has no room for them.
    fn extra(&mut self, item: &[usize], block_of: &[Option<usize>], free: &[u16]) -> Option<usize> {
        let mut added = 0;
        let mut fits = true;
        for event in item {
            let (Some(0), Some(Some(block))) = (self.holders.get(*event), block_of.get(*event)) else { continue };
            added += 1;
            if let (Some(used), Some(free)) = (self.used.get_mut(*block), free.get(*block)) {
                *used += 1;
                fits &= *used <= *free;
            }
        }
        for event in item {
            if let (Some(0), Some(Some(block))) = (self.holders.get(*event), block_of.get(*event))
                && let Some(used) = self.used.get_mut(*block)
            {
                *used -= 1;
            }
        }
        fits.then_some(added)
    }

    fn add(&mut self, item: &[usize], block_of: &[Option<usize>]) {
        self.change(item, block_of, true);
    }

    fn remove(&mut self, item: &[usize], block_of: &[Option<usize>]) {
        self.change(item, block_of, false);
    }

    fn change(&mut self, item: &[usize], block_of: &[Option<usize>], adds: bool) {
        for event in item {
            let (Some(holders), Some(Some(block))) = (self.holders.get_mut(*event), block_of.get(*event)) else {
                continue;
            };
            let was = *holders;
            *holders = if adds { was + 1 } else { was.saturating_sub(1) };
            if let Some(used) = self.used.get_mut(*block) {
                match (was, *holders) {
                    (0, 1) => *used += 1,
                    (1, 0) => *used -= 1,
                    _ => {}
                }
            }
        }
    }
}

/// Packs items.
pub(super) struct Packer {
    free: Vec<u16>,
    block_of: Vec<Option<usize>>,
    /// Items that are not within another one; each fits a pass.
    items: Vec<Vec<usize>>,
    /// For each item of the caller: which of `items` holds it, or none when it takes no room.
    held_by: Vec<Option<usize>>,
}

impl Packer {
    pub(super) fn new<L: Fn(&str) -> u16>(problem: &Problem<L>, groups: &[Vec<Event>]) -> Self {
        let index = |event: &Event| problem.events.get(event).copied();
        let mut all: Vec<Vec<usize>> = groups.iter().map(|group| group.iter().filter_map(index).collect()).collect();
        for item in &mut all {
            item.retain(|event: &usize| problem.block_of.get(*event).is_some_and(Option::is_some));
            item.sort_unstable();
            item.dedup();
        }
        let is_within = |small: &[usize], large: &[usize]| small.iter().all(|event| large.binary_search(event).is_ok());
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(all.get(*index).map_or(0, Vec::len)));
        let mut items: Vec<Vec<usize>> = Vec::new();
        let mut held_by = vec![None; all.len()];
        for group in order {
            let Some(item) = all.get(group).filter(|item| !item.is_empty()) else { continue };
            let holder = items.iter().position(|large| is_within(item, large)).unwrap_or_else(|| {
                items.push(item.clone());
                items.len() - 1
            });
            if let Some(slot) = held_by.get_mut(group) {
                *slot = Some(holder);
            }
        }
        Self { free: problem.free.clone(), block_of: problem.block_of.clone(), items, held_by }
    }

    /// The caller's items by pass. Items that take no room are in no pass: they are in every one.
    pub(super) fn pack(&self) -> Vec<Vec<usize>> {
        let mut best = self.greedy(&(0..self.items.len()).collect::<Vec<_>>());
        let bound = self.lower_bound();
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..SHUFFLES {
            if count(&best) <= bound {
                break;
            }
            let mut order: Vec<usize> = (0..self.items.len()).collect();
            for last in (1..order.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                order.swap(last, (state >> 33) as usize % (last + 1));
            }
            let found = self.greedy(&order);
            if count(&found) < count(&best) {
                best = found;
            }
        }
        if count(&best) > bound {
            best = Search::run(self, best, bound);
        }
        self.by_pass(&best)
    }

    /// Passes in the order in which the caller's items first need them.
    fn by_pass(&self, bins: &[usize]) -> Vec<Vec<usize>> {
        let mut number: HashMap<usize, usize> = HashMap::new();
        let mut passes: Vec<Vec<usize>> = Vec::new();
        for (group, holder) in self.held_by.iter().enumerate() {
            let Some(bin) = holder.and_then(|holder| bins.get(holder)) else { continue };
            let pass = *number.entry(*bin).or_insert_with(|| {
                passes.push(Vec::new());
                passes.len() - 1
            });
            if let Some(pass) = passes.get_mut(pass) {
                pass.push(group);
            }
        }
        passes
    }

    /// Fewest passes that the fullest block allows.
    fn lower_bound(&self) -> usize {
        let mut wanted = vec![0_usize; self.free.len()];
        let mut seen = vec![false; self.block_of.len()];
        for event in self.items.iter().flatten() {
            if let (Some(seen), Some(Some(block))) = (seen.get_mut(*event), self.block_of.get(*event))
                && !std::mem::replace(seen, true)
                && let Some(wanted) = wanted.get_mut(*block)
            {
                *wanted += 1;
            }
        }
        let passes = wanted.iter().zip(&self.free).map(|(wanted, free)| wanted.div_ceil(usize::from(*free).max(1)));
        passes.max().unwrap_or(0)
    }

    /// Each item into the pass where it adds least, in an order; the pass of each item.
    fn greedy(&self, order: &[usize]) -> Vec<usize> {
        let mut bins: Vec<Bin> = Vec::new();
        let mut placed = vec![0; self.items.len()];
        for index in order {
            let Some(item) = self.items.get(*index) else { continue };
            let room = bins.iter_mut().enumerate();
            let found =
                room.filter_map(|(bin, contents)| Some((contents.extra(item, &self.block_of, &self.free)?, bin))).min();
            let bin = found.map_or(bins.len(), |(_, bin)| bin);
            if bin == bins.len() {
                bins.push(Bin::new(self.free.len(), self.block_of.len()));
            }
            if let (Some(contents), Some(slot)) = (bins.get_mut(bin), placed.get_mut(*index)) {
                contents.add(item, &self.block_of);
                *slot = bin;
            }
        }
        placed
    }
}

fn count(placed: &[usize]) -> usize {
    placed.iter().max().map_or(0, |last| last + 1)
}

/// Depth-first over all placements, cut where no better can follow.
struct Search<'p> {
    packer: &'p Packer,
    best: Vec<usize>,
    bound: usize,
    tries: usize,
    bins: Vec<Bin>,
    placed: Vec<usize>,
}

impl<'p> Search<'p> {
    fn run(packer: &'p Packer, best: Vec<usize>, bound: usize) -> Vec<usize> {
        let mut search = Search { packer, best, bound, tries: 0, bins: Vec::new(), placed: Vec::new() };
        search.place();
        search.best
    }

    fn is_over(&self) -> bool {
        self.tries >= SEARCH_LIMIT || count(&self.best) <= self.bound
    }

    /// Places the next item. Depth is the number of items, at most a few hundred.
    fn place(&mut self) {
        let packer = self.packer;
        let Some(item) = packer.items.get(self.placed.len()) else {
            if self.bins.len() < count(&self.best) {
                self.best = self.placed.clone();
            }
            return;
        };
        for bin in 0..=self.bins.len() {
            if self.is_over() || self.bins.len() >= count(&self.best) {
                return;
            }
            self.tries += 1;
            let is_new = bin == self.bins.len();
            if is_new {
                if self.bins.len() + 1 >= count(&self.best) {
                    return;
                }
                self.bins.push(Bin::new(packer.free.len(), packer.block_of.len()));
            }
            let Some(contents) = self.bins.get_mut(bin) else { return };
            if contents.extra(item, &packer.block_of, &packer.free).is_some() {
                contents.add(item, &packer.block_of);
                self.placed.push(bin);
                self.place();
                self.placed.pop();
                if let Some(contents) = self.bins.get_mut(bin) {
                    contents.remove(item, &packer.block_of);
                }
            }
            if is_new {
                self.bins.pop();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Fewest passes over all partitions of the groups.
    fn brute_force(
        groups: &[Vec<(u8, u8)>],
        capacity: &[u16],
        at: usize,
        bins: &mut Vec<Vec<usize>>,
        best: &mut usize,
    ) {
        if at == groups.len() {
            *best = (*best).min(bins.len());
            return;
        }
        for bin in 0..=bins.len() {
            if bin == bins.len() {
                bins.push(Vec::new());
            }
            bins[bin].push(at);
            let mut events: Vec<(u8, u8)> = bins[bin].iter().flat_map(|group| groups[*group].iter().copied()).collect();
            events.sort_unstable();
            events.dedup();
            let fits = (0..capacity.len()).all(|block| {
                events.iter().filter(|event| usize::from(event.0) == block).count() <= usize::from(capacity[block])
            });
            if fits {
                brute_force(groups, capacity, at + 1, bins, best);
            }
            bins[bin].pop();
            if bins[bin].is_empty() && bin + 1 == bins.len() {
                bins.pop();
            }
        }
    }

    fn event(&(block, name): &(u8, u8)) -> Event {
        Event { block: block.to_string(), name: format!("{block} {name}") }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn small_requests_are_packed_optimally(
            capacity in prop::collection::vec(2_u16..5, 3),
            groups in prop::collection::vec(prop::collection::btree_set((0_u8..3, 0_u8..6), 1..4), 1..7),
        ) {
            let mut problem = Problem::new(|block| capacity[block.parse::<usize>().unwrap()]);
            let groups: Vec<Vec<(u8, u8)>> = groups.into_iter().map(|group| group.into_iter().collect()).collect();
            let items: Vec<Vec<Event>> = groups.iter().map(|group| group.iter().map(event).collect()).collect();
            prop_assume!(items.iter().all(|item| problem.fits(item)));
            let passes = Packer::new(&problem, &items).pack();
            let mut best = groups.len();
            brute_force(&groups, &capacity, 0, &mut Vec::new(), &mut best);
            prop_assert_eq!(passes.len(), best);
            // Every group is in one pass, and every pass keeps the limits.
            let mut all: Vec<usize> = passes.iter().flatten().copied().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..groups.len()).collect::<Vec<_>>());
            for pass in &passes {
                let mut events: Vec<(u8, u8)> = pass.iter().flat_map(|group| groups[*group].iter().copied()).collect();
                events.sort_unstable();
                events.dedup();
                for (block, limit) in capacity.iter().enumerate() {
                    let used = events.iter().filter(|event| usize::from(event.0) == block).count();
                    prop_assert!(used <= usize::from(*limit));
                }
            }
        }
    }
}
