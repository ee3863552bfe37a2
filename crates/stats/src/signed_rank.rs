//! Wilcoxon's signed-rank test.

use crate::{Reference, Sample, StatsError, sample::check_values};

/// Up to this many differences the distribution is counted out, ties and all.
const EXACT: usize = 60;

/// Result of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignedRank {
    /// Differences that are not zero.
    pub used: usize,
    /// Sum of the ranks of the positive differences.
    pub w_plus: f64,
    /// Two-sided p-value: how often differences symmetric about zero would give a sum at least as far from its mean.
    pub p: f64,
    /// Whether `p` comes from the exact distribution, not from the normal approximation.
    pub exact: bool,
}

/// Signed-rank test that differences are symmetric about zero (Wilcoxon 1945). Zeros are dropped, ties share midranks.
/// Up to 60 differences `p` is exact, given the ties; beyond it is the normal approximation with the variance under the
/// ties (`Σ rank²/4`) and continuity correction (Hollander and Wolfe, Nonparametric Statistical Methods, 3.1).
///
/// It assumes independent differences: positive dependence makes `p` too small.
///
/// # Errors
/// When there are no differences, or one is not finite or of extreme magnitude.
pub fn wilcoxon_signed_rank(differences: &[f64]) -> Result<SignedRank, StatsError> {
    if differences.is_empty() {
        return Err(StatsError::TooFew { what: "a signed-rank test", needed: 1, got: 0 });
    }
    check_values(differences)?;
    let signed: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    if signed.is_empty() {
        return Ok(SignedRank { used: 0, w_plus: 0.0, p: 1.0, exact: true });
    }
    let magnitudes: Vec<f64> = signed.iter().map(|d| d.abs()).collect();
    let ranks = Sample::new(&magnitudes)?.ranks();
    let w_plus: f64 = signed.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, rank)| rank).sum();
    let exact = signed.len() <= EXACT;
    let p = if exact { exact_p(&ranks, w_plus) } else { normal_p(&ranks, w_plus) };
    Ok(SignedRank { used: signed.len(), w_plus, p, exact })
}

/// Counts the sums of all subsets of the ranks. Midranks are halves, so doubled ranks are whole.
fn exact_p(ranks: &[f64], w_plus: f64) -> f64 {
    let doubled: Vec<usize> = ranks.iter().map(|rank| (2.0 * rank) as usize).collect();
    let most: usize = doubled.iter().sum();
    let mut mass = vec![0.0; most + 1];
    mass[0] = 1.0;
    let mut reached = 0;
    for rank in doubled {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with = if sum >= rank { mass[sum - rank] } else { 0.0 };
            mass[sum] = 0.5 * (mass[sum] + with);
        }
    }
    let observed = (2.0 * w_plus) as usize;
    let below: f64 = mass[..=observed].iter().sum();
    let above: f64 = mass[observed..].iter().sum();
    (2.0 * below.min(above)).min(1.0)
}

fn normal_p(ranks: &[f64], w_plus: f64) -> f64 {
    let mean = ranks.iter().sum::<f64>() / 2.0;
    let variance = ranks.iter().map(|rank| rank * rank).sum::<f64>() / 4.0;
    let distance = ((w_plus - mean).abs() - 0.5).max(0.0);
    (2.0 * Reference::Normal.tail(distance / variance.sqrt())).min(1.0)
}
