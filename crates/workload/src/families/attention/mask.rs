//! Which keys a query sees, and exact counts of it.

use std::num::NonZeroU64;
use std::ops::Range;

/// Lengths of one sequence: its queries are the last `q_len` of its `kv_len` positions (bottom-right alignment), so that
/// chunked prefill, prefill without a past and decode are one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Queries.
    pub q_len: u64,
    /// Keys.
    pub kv_len: u64,
}

/// The mask of an attention call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// Every query sees every key.
    Full,
    /// The query at position p sees keys 0..=p.
    Causal,
    /// The query at position p sees keys in (p − window, p].
    Window(NonZeroU64),
}

/// 1 + 2 + … + n, and 0 for n ≤ 0.
fn triangle(n: i128) -> u128 {
    let n = n.max(0) as u128;
    n * (n + 1) / 2
}

impl Mask {
    /// True unless every query sees every key.
    pub fn is_causal(self) -> bool {
        self != Mask::Full
    }

    /// The window, 0 for none.
    pub fn window(self) -> u64 {
        match self {
            Mask::Window(window) => window.get(),
            _ => 0,
        }
    }

    /// Keys that query `index` of the sequence sees; empty when there is none.
    pub fn visible(self, span: Span, index: u64) -> Range<u64> {
        // One past the query's position; queries beyond the keys' start (q_len > kv_len) have none.
        let end = (span.kv_len + index + 1).saturating_sub(span.q_len).min(span.kv_len);
        match self {
            Mask::Full => 0..span.kv_len,
            Mask::Causal => 0..end,
            Mask::Window(window) => end.saturating_sub(window.get())..end,
        }
    }

    /// Query/key pairs of one head: Σ over queries of the keys each sees, in closed form.
    pub fn pairs(self, span: Span) -> u128 {
        let (q_len, kv_len) = (i128::from(span.q_len), i128::from(span.kv_len));
        // Σ of max(0, p + 1 − start) over the query positions p, which are kv_len − q_len .. kv_len.
        let ramp = |start: i128| triangle(kv_len - start) - triangle(kv_len - q_len - start);
        match self {
            Mask::Full => u128::from(span.q_len) * u128::from(span.kv_len),
            Mask::Causal => ramp(0),
            Mask::Window(window) => ramp(0) - ramp(i128::from(window.get())),
        }
    }

    /// Keys that at least one query sees: one range, since neighbouring queries' ranges overlap or touch.
    pub fn touched_keys(self, span: Span) -> Range<u64> {
        let first = self.visible(span, span.q_len.saturating_sub(self.seeing_queries(span)));
        if span.q_len == 0 { 0..0 } else { first.start..span.kv_len }
    }

    /// Queries that see at least one key; they are the last ones.
    pub fn seeing_queries(self, span: Span) -> u64 {
        if self.is_causal() || span.kv_len == 0 { span.q_len.min(span.kv_len) } else { span.q_len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, pair by pair, in signed positions.
    fn sees(mask: Mask, span: Span, query: i64, key: i64) -> bool {
        let position = span.kv_len as i64 - span.q_len as i64 + query;
        match mask {
            Mask::Full => true,
            Mask::Causal => key <= position,
            Mask::Window(window) => key <= position && key > position - window.get() as i64,
        }
    }

    fn any_mask() -> impl Strategy<Value = Mask> {
        prop_oneof![
            Just(Mask::Full),
            Just(Mask::Causal),
            (1u64..40).prop_map(|window| Mask::Window(NonZeroU64::new(window).unwrap()))
        ]
    }

    proptest! {
        #[test]
        fn counts_equal_enumeration(mask in any_mask(), q_len in 1u64..24, kv_len in 1u64..40) {
            let span = Span { q_len, kv_len };
            let (mut pairs, mut seeing, mut touched) = (0u128, 0, vec![false; kv_len as usize]);
            for query in 0..q_len {
                let visible: Vec<u64> = (0..kv_len).filter(|key| sees(mask, span, query as i64, *key as i64)).collect();
                prop_assert_eq!(mask.visible(span, query).collect::<Vec<_>>(), visible.clone());
                pairs += visible.len() as u128;
                seeing += u64::from(!visible.is_empty());
                visible.iter().for_each(|key| touched[*key as usize] = true);
            }
            prop_assert_eq!(mask.pairs(span), pairs);
            prop_assert_eq!(mask.seeing_queries(span), seeing);
            let touched: Vec<u64> = (0..kv_len).filter(|key| touched[*key as usize]).collect();
            prop_assert_eq!(mask.touched_keys(span).collect::<Vec<_>>(), touched);
        }
    }

    #[test]
    fn nothing_wraps() {
        // 46341² is the first square beyond i32; 2^31 queries squared is far beyond u64's triangle.
        let square = |n| Span { q_len: n, kv_len: n };
        assert_eq!(Mask::Causal.pairs(square(46_341)), 46_341 * 46_342 / 2);
        assert_eq!(Mask::Causal.pairs(square(1 << 40)), (1u128 << 40) * ((1 << 40) + 1) / 2);
    }
}
