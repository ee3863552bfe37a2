//! Sums that cannot be: old ATOM builds multiplied in 32-bit integers and wrapped beyond 46,340 tokens.

use super::step::{Part, Problem, Sums};

/// Drops the sums that contradict the counts, and says so.
pub(super) fn sums(part: &mut Part, problems: &mut Vec<Problem>) {
    let Some(tokens) = part.tokens.map(u128::from) else { return };
    let square = tokens * tokens;
    let least_square = match part.seqs {
        Some(seqs) if seqs > 0 => square.div_ceil(u128::from(seqs)),
        _ => tokens,
    };
    let Sums { nq2, nq_nkv, nkv } = &mut part.sums;
    let mut keep = |slot: &mut Option<u128>, field, least: u128, most: Option<u128>| {
        let Some(value) = *slot else { return };
        if value >= least && most.is_none_or(|most| value <= most) {
            return;
        }
        *slot = None;
        let range = match most {
            Some(most) => format!("between {least} and {most}"),
            None => format!("at least {least}"),
        };
        problems.push(Problem {
            field,
            message: format!(
                "{field}={value} cannot be: with {tokens} tokens it is {range}; it was not used (an overflow of 32-bit \
                 integers in the program that wrote the label looks like this)"
            ),
        });
    };
    // Σ N_Q² is least when all sequences run the same number of tokens, and N_KV ≥ N_Q for each.
    keep(nq2, "sqsq", least_square, Some(square));
    keep(nkv, "sk", tokens, None);
    keep(nq_nkv, "sqsk", nq2.unwrap_or(least_square), nkv.and_then(|nkv| tokens.checked_mul(nkv)));
}
