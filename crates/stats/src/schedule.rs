//! The order in which two builds are launched.

use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arm {
    /// The build that is compared with.
    Base,
    /// The build under test.
    Candidate,
}

/// Order of the four launches of a block. Either cancels a linear drift inside the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockOrder {
    /// Base, candidate, candidate, base.
    Abba,
    /// Candidate, base, base, candidate.
    Baab,
}

impl BlockOrder {
    /// The four launches in order.
    pub fn arms(self) -> [Arm; 4] {
        use Arm::{Base, Candidate};
        match self {
            BlockOrder::Abba => [Base, Candidate, Candidate, Base],
            BlockOrder::Baab => [Candidate, Base, Base, Candidate],
        }
    }
}

/// Endless blocks, chosen by seed. Of each two neighbours one is ABBA and one BAAB, in random order: what a curved drift
/// leaves in one (launches at the ends against launches in the middle) has the opposite sign in the other.
#[derive(Clone, Debug)]
pub struct Schedule {
    rng: Pcg64Mcg,
    second: Option<BlockOrder>,
}

impl Schedule {
    /// The schedule of a seed: the same on every machine.
    pub fn new(seed: u64) -> Self {
        Self { rng: Pcg64Mcg::seed_from_u64(seed), second: None }
    }
}

impl Iterator for Schedule {
    type Item = BlockOrder;

    fn next(&mut self) -> Option<BlockOrder> {
        Some(self.second.take().unwrap_or_else(|| {
            let abba_first = self.rng.next_u64() >> 63 == 0;
            let (first, second) =
                if abba_first { (BlockOrder::Abba, BlockOrder::Baab) } else { (BlockOrder::Baab, BlockOrder::Abba) };
            self.second = Some(second);
            first
        }))
    }
}
