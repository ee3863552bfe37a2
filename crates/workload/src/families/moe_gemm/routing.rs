//! Which experts a token goes to.

use crate::random::{self, Generator};
use crate::{ShapeError, ShapeMap};
use rand::Rng as _;

/// How tokens are spread over experts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routing {
    /// Counts as equal as they can be: slots take experts in turn.
    Balanced,
    /// Every token draws `topk` different experts, all equally likely.
    Uniform,
    /// As uniform, but the r-th most popular expert has weight 1/r; which expert is how popular is drawn too.
    Zipf,
    /// Tokens of each expert, given.
    Given(Vec<u64>),
}

impl Routing {
    /// Name in shapes.
    pub fn name(&self) -> &'static str {
        match self {
            Routing::Balanced => "balanced",
            Routing::Uniform => "uniform",
            Routing::Zipf => "zipf",
            Routing::Given(_) => "given",
        }
    }

    /// Reads `routing` (default uniform) or `expert_tokens`.
    pub(crate) fn from_shape(shape: &ShapeMap, tokens: u64, topk: u64, experts: u64) -> Result<Self, ShapeError> {
        let Some(counts) = shape.list("expert_tokens")? else {
            return match shape.word("routing")? {
                None | Some("uniform") => Ok(Routing::Uniform),
                Some("balanced") => Ok(Routing::Balanced),
                Some("zipf") => Ok(Routing::Zipf),
                Some(word) => Err(ShapeError::invalid(
                    "routing",
                    word,
                    "balanced, uniform or zipf is needed, or expert_tokens=[..]",
                )),
            };
        };
        if let Some(word) = shape.word("routing")? {
            return Err(ShapeError::invalid("routing", word, "give either routing or expert_tokens"));
        }
        let shown = |counts: &[u64]| format!("{} counts", counts.len());
        if counts.len() as u64 != experts {
            return Err(ShapeError::invalid(
                "expert_tokens",
                shown(&counts),
                format!("experts={experts} counts are needed"),
            ));
        }
        if let Some(count) = counts.iter().find(|count| **count > tokens) {
            let reason = format!("a token goes to an expert once, so at most tokens={tokens}");
            return Err(ShapeError::invalid("expert_tokens", count, reason));
        }
        let sum: u128 = counts.iter().map(|count| u128::from(*count)).sum();
        if sum != u128::from(tokens) * u128::from(topk) {
            let reason = format!("their sum {sum} must be tokens·topk = {}", u128::from(tokens) * u128::from(topk));
            return Err(ShapeError::invalid("expert_tokens", shown(&counts), reason));
        }
        Ok(Routing::Given(counts))
    }

    /// The experts of every token, [tokens × topk]; within a token all differ.
    pub(crate) fn draw(&self, tokens: usize, topk: usize, experts: usize, seed: u64) -> Vec<u32> {
        let mut rng = random::rng(seed, "routing");
        match self {
            Routing::Balanced => (0..tokens * topk).map(|slot| (slot % experts) as u32).collect(),
            Routing::Uniform => draw_each(tokens, topk, &vec![1.0; experts], &mut rng),
            Routing::Zipf => {
                let mut ranks: Vec<usize> = (1..=experts).collect();
                for last in (1..experts).rev() {
                    ranks.swap(last, below(&mut rng, last + 1));
                }
                let weights: Vec<f64> = ranks.iter().map(|rank| 1.0 / *rank as f64).collect();
                draw_each(tokens, topk, &weights, &mut rng)
            }
            Routing::Given(counts) => deal(counts, tokens, topk),
        }
    }
}

/// Deals each expert's count to consecutive tokens, going round: at most `tokens` in a row are all different.
fn deal(counts: &[u64], tokens: usize, topk: usize) -> Vec<u32> {
    let mut ids = vec![0; tokens * topk];
    let experts =
        counts.iter().enumerate().flat_map(|(expert, count)| std::iter::repeat_n(expert as u32, *count as usize));
    for (turn, expert) in experts.enumerate() {
        ids[turn % tokens * topk + turn / tokens] = expert;
    }
    ids
}

/// A whole number below `limit`.
fn below(rng: &mut Generator, limit: usize) -> usize {
    ((u128::from(rng.next_u64()) * limit as u128) >> 64) as usize
}

/// A number in (0, 1).
fn unit(rng: &mut Generator) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// Draws `topk` different experts for each token, one after another in proportion to the weights of those left.
fn draw_each(tokens: usize, topk: usize, weights: &[f64], rng: &mut Generator) -> Vec<u32> {
    let mut total = 0.0;
    let cumulative: Vec<f64> = weights
        .iter()
        .map(|weight| {
            total += weight;
            total
        })
        .collect();
    let mut ids = Vec::with_capacity(tokens * topk);
    for token in 0..tokens {
        let start = token * topk;
        // Drawing again after a repeat is drawing from those left. When repeats are many, the rest is drawn at once.
        let mut tries = 4 * topk + 16;
        while ids.len() < start + topk && tries > 0 {
            tries -= 1;
            let at = unit(rng) * total;
            let expert = cumulative.partition_point(|sum| *sum <= at).min(weights.len() - 1) as u32;
            if !ids[start..].contains(&expert) {
                ids.push(expert);
            }
        }
        if ids.len() < start + topk {
            draw_rest(&mut ids, start, topk, weights, rng);
        }
    }
    ids
}

/// The rest of one token's experts: those with the smallest −ln(u)/weight, which is the same distribution as drawing one
/// after another (Efraimidis and Spirakis 2006).
fn draw_rest(ids: &mut Vec<u32>, start: usize, topk: usize, weights: &[f64], rng: &mut Generator) {
    let mut left: Vec<(f64, u32)> = (0..weights.len() as u32)
        .filter(|expert| !ids[start..].contains(expert))
        .map(|expert| (-unit(rng).ln() / weights[expert as usize], expert))
        .collect();
    left.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let missing = start + topk - ids.len();
    ids.extend(left.iter().take(missing).map(|(_, expert)| *expert));
}

/// Slots (token · topk + choice) in the order of their experts: what a device's sort tables (`sorted_token_ids`,
/// `sorted_expert_ids`) are made from, without their padding.
#[derive(Clone, Debug)]
pub(crate) struct Sorted {
    /// Slots by expert.
    pub(crate) slots: Vec<u32>,
    /// First of each expert's slots, and their number.
    pub(crate) starts: Vec<usize>,
}

impl Sorted {
    /// Sorts by counting.
    pub(crate) fn new(ids: &[u32], experts: usize) -> Self {
        let mut starts = vec![0; experts + 1];
        ids.iter().for_each(|expert| starts[*expert as usize + 1] += 1);
        for expert in 0..experts {
            starts[expert + 1] += starts[expert];
        }
        let mut next = starts.clone();
        let mut slots = vec![0; ids.len()];
        for (slot, expert) in ids.iter().enumerate() {
            slots[next[*expert as usize]] = slot as u32;
            next[*expert as usize] += 1;
        }
        Self { slots, starts }
    }

    /// Routed tokens of each expert.
    pub(crate) fn counts(&self) -> impl Iterator<Item = u64> {
        self.starts.windows(2).map(|pair| (pair[1] - pair[0]) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn distinct(ids: &[u32], topk: usize, experts: usize) -> bool {
        ids.chunks(topk).all(|token| {
            token.iter().collect::<std::collections::BTreeSet<_>>().len() == topk
                && token.iter().all(|expert| (*expert as usize) < experts)
        })
    }

    proptest! {
        #[test]
        fn experts_of_a_token_differ(tokens in 1usize..40, experts in 1usize..40, part in 0.0f64..1.0, seed: u64) {
            let topk = 1 + (part * (experts - 1) as f64) as usize;
            for routing in [Routing::Balanced, Routing::Uniform, Routing::Zipf] {
                let ids = routing.draw(tokens, topk, experts, seed);
                prop_assert_eq!(ids.len(), tokens * topk);
                prop_assert!(distinct(&ids, topk, experts), "{:?}", routing);
                let sorted = Sorted::new(&ids, experts);
                let counts: Vec<u64> = sorted.counts().collect();
                let given = Routing::Given(counts.clone()).draw(tokens, topk, experts, seed);
                prop_assert!(distinct(&given, topk, experts));
                prop_assert_eq!(Sorted::new(&given, experts).counts().collect::<Vec<_>>(), counts.clone());
                for (expert, pair) in sorted.starts.windows(2).enumerate() {
                    prop_assert!(sorted.slots[pair[0]..pair[1]].iter().all(|slot| ids[*slot as usize] as usize == expert));
                }
                if routing == Routing::Balanced {
                    prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
                }
            }
        }
    }

    #[test]
    fn uniform_hits_as_many_experts_as_expected() {
        // E·(1 − ((E − K)/E)^T) experts are hit on average: 128 experts, top 8, 16 tokens.
        let draws = 400;
        let hit: usize = (0..draws)
            .map(|seed| {
                Sorted::new(&Routing::Uniform.draw(16, 8, 128, seed), 128).counts().filter(|count| *count > 0).count()
            })
            .sum();
        let expected = 128.0 * (1.0 - (120.0f64 / 128.0).powi(16));
        assert!((hit as f64 / f64::from(draws as u32) - expected).abs() < 1.0, "{hit}");
    }

    #[test]
    fn zipf_is_skewed_as_its_weights() {
        // With one choice a token, the most popular of 16 experts gets 1/H(16) = 29.6 % of the tokens, the second half of that.
        let ids = Routing::Zipf.draw(200_000, 1, 16, 3);
        let mut counts: Vec<u64> = Sorted::new(&ids, 16).counts().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        assert!((counts[0] as f64 / 200_000.0 - 0.2958).abs() < 0.005, "{counts:?}");
        assert!((counts[1] as f64 / 200_000.0 - 0.1479).abs() < 0.005, "{counts:?}");
    }
}
