//! Texts stored once: names of kernels, operators and labels, and the argument lists of operators, which repeat.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Bytes of text kept in one table. What comes after reads as [`Interner::FULL`]; real traces need a few MB.
const MAX_BYTES: usize = 64 << 20;
/// No further text with the same hash.
const END: u32 = u32::MAX;

/// A table of distinct texts with numbers from 0. Number 0 is the empty text.
#[derive(Clone, Debug)]
pub(super) struct Interner {
    bytes: String,
    /// Where each text ends in `bytes`; it starts where the one before ends.
    ends: Vec<u32>,
    /// The latest text with this hash, and for each text the one before it with the same hash.
    by_hash: HashMap<u64, u32>,
    previous: Vec<u32>,
    hasher: RandomState,
    refused: u64,
}

impl Interner {
    /// The text that stands for one that found no room.
    pub(super) const FULL: &str = "(one of too many different texts)";

    pub(super) fn new() -> Self {
        let mut table = Self {
            bytes: String::new(),
            ends: Vec::new(),
            by_hash: HashMap::new(),
            previous: Vec::new(),
            hasher: RandomState::new(),
            refused: 0,
        };
        table.insert(table.hasher.hash_one(""), "");
        table
    }

    /// The number of `text`, new or known.
    pub(super) fn intern(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let hash = self.hasher.hash_one(text);
        if let Some(known) = self.find(hash, text) {
            return known;
        }
        let room = self.bytes.len() + text.len() <= MAX_BYTES;
        if !room && text != Self::FULL {
            self.refused += 1;
            return self.intern(Self::FULL);
        }
        self.insert(hash, text)
    }

    fn find(&self, hash: u64, text: &str) -> Option<u32> {
        let mut at = *self.by_hash.get(&hash)?;
        while at != END {
            if self.get(at) == text {
                return Some(at);
            }
            at = self.previous[at as usize];
        }
        None
    }

    fn insert(&mut self, hash: u64, text: &str) -> u32 {
        // Every text but the empty one takes a byte of `bytes`, which stays far below 2^32.
        let number = self.ends.len() as u32;
        self.bytes.push_str(text);
        self.ends.push(self.bytes.len() as u32);
        self.previous.push(self.by_hash.insert(hash, number).unwrap_or(END));
        number
    }

    /// The text with a number; empty for a number of another table.
    pub(super) fn get(&self, number: u32) -> &str {
        let number = number as usize;
        let end = self.ends.get(number).map_or(0, |end| *end as usize);
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |end| *end as usize);
        self.bytes.get(start..end).unwrap_or("")
    }

    /// Texts that found no room.
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_texts_share_a_number_and_come_back(texts in proptest::collection::vec("[ab]{0,3}", 0..60)) {
            let mut table = Interner::new();
            let numbers: Vec<u32> = texts.iter().map(|text| table.intern(text)).collect();
            for (text, number) in texts.iter().zip(&numbers) {
                prop_assert_eq!(table.get(*number), text);
                prop_assert_eq!(table.intern(text), *number);
            }
            let distinct = texts.iter().filter(|text| !text.is_empty()).collect::<std::collections::HashSet<_>>();
            prop_assert_eq!(table.ends.len(), distinct.len() + 1);
        }
    }

    #[test]
    fn a_full_table_refuses_and_counts() {
        let mut table = Interner::new();
        let half = "x".repeat(MAX_BYTES / 2 + 1);
        let first = table.intern(&half);
        let second = table.intern(&half.replace('x', "y"));
        assert_eq!(table.get(second), Interner::FULL);
        assert_eq!(table.get(first).len(), half.len());
        assert_eq!(table.refused(), 1);
        assert_eq!(table.get(1234), "");
    }
}
