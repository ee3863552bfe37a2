//! The typed shape of `fmha`.

use super::Tokens;
use crate::families::attention::naive::Place;
use crate::families::attention::{self, Heads, Mask, Span};
use crate::families::{checks, sizes};
use crate::shape::MAX_LIST;
use crate::{Dtype, Dtypes, Fp8Flavor, ShapeError, ShapeMap, Workload};

const FAMILY: &str = "fmha";
const KEYS: &[&str] = &[
    "batch",
    "q_len",
    "kv_len",
    "q_lens",
    "kv_lens",
    "q_heads",
    "kv_heads",
    "head_dim",
    "v_head_dim",
    "causal",
    "window",
    "layout",
];
/// Offsets of packed sequences are i32.
const MOST_TOKENS: u64 = i32::MAX as u64;

/// Order of the dimensions of q, k, v and out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Batch, sequence, head, element.
    Bshd,
    /// Batch, head, sequence, element.
    Bhsd,
    /// Packed tokens, head, element, with offsets in `cu_seqlens`.
    Thd,
}

impl Layout {
    /// Name in shapes.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Bshd => "bshd",
            Layout::Bhsd => "bhsd",
            Layout::Thd => "thd",
        }
    }
}

/// A validated prefill attention.
#[derive(Clone, Debug)]
pub struct Fmha {
    pub(super) spans: Vec<Span>,
    /// First query of each sequence among all, and their number.
    pub(super) q_starts: Vec<u64>,
    /// First key of each sequence among all, and their number.
    pub(super) kv_starts: Vec<u64>,
    pub(super) layout: Layout,
    pub(super) heads: Heads,
    pub(super) mask: Mask,
    pub(super) operands: Dtype,
    pub(super) out: Dtype,
}

impl Fmha {
    /// Validates shape and dtypes.
    ///
    /// # Errors
    /// On missing, unknown, contradictory or oversized keys and on dtypes that the family does not run.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, flavor: Fp8Flavor) -> Result<Self, ShapeError> {
        shape.only(FAMILY, KEYS)?;
        checks::only_roles(FAMILY, dtypes, &["q", "k", "v", "out"])?;
        let (spans, packed) = spans(shape)?;
        let layout = layout(shape, packed)?;
        let allowed = |dtype: Dtype| sizes::is_wide(dtype) || dtype.is_fp8();
        let operand = |role| sizes::role(dtypes, role, Dtype::Bf16, flavor, allowed, "bf16, f16, f32 or an fp8");
        let operands = operand("q")?;
        for role in ["k", "v"] {
            let other = operand(role)?;
            if other != operands {
                let reason = format!("q, k and v must have one dtype, and q is {operands}");
                return Err(ShapeError::dtype(format!("{role}={other}"), reason));
            }
        }
        let starts = |length: fn(&Span) -> u64| {
            let mut total = 0;
            let ends = spans.iter().map(|span| {
                total += length(span);
                total
            });
            std::iter::once(0).chain(ends).collect::<Vec<u64>>()
        };
        let case = Self {
            q_starts: starts(|span| span.q_len),
            kv_starts: starts(|span| span.kv_len),
            spans,
            layout,
            heads: attention::heads(shape, FAMILY)?,
            mask: attention::mask(shape, true)?,
            operands,
            out: sizes::output_role(dtypes, "out", flavor)?,
        };
        for (key, starts) in [("q_len", &case.q_starts), ("kv_len", &case.kv_starts)] {
            let total = starts.last().copied().unwrap_or(0);
            if total > MOST_TOKENS {
                return Err(ShapeError::invalid(key, total, format!("tokens of all sequences: at most {MOST_TOKENS}")));
            }
        }
        sizes::check_tensors(&case.tensors())?;
        Ok(case)
    }

    /// The complete shape.
    pub(super) fn canonical(&self) -> ShapeMap {
        let first = self.spans.first().copied().unwrap_or(Span { q_len: 1, kv_len: 1 });
        let shape = match self.layout {
            Layout::Thd => ShapeMap::new()
                .with_list("q_lens", self.spans.iter().map(|span| span.q_len).collect())
                .with_list("kv_lens", self.spans.iter().map(|span| span.kv_len).collect()),
            Layout::Bshd | Layout::Bhsd => ShapeMap::new()
                .with("batch", self.spans.len() as u64)
                .with("q_len", first.q_len)
                .with("kv_len", first.kv_len),
        };
        shape
            .with("q_heads", self.heads.q_heads)
            .with("kv_heads", self.heads.kv_heads)
            .with("head_dim", self.heads.d_qk)
            .with("v_head_dim", self.heads.d_v)
            .with_flag("causal", self.mask.is_causal())
            .with("window", self.mask.window())
            .with_word("layout", self.layout.name())
    }

    /// Dims of a tensor with `count` heads of `d` elements.
    pub(super) fn dims(&self, tokens: Tokens, count: u64, d: u64) -> Vec<u64> {
        let batch = self.spans.len() as u64;
        let starts = match tokens {
            Tokens::Queries => &self.q_starts,
            Tokens::Keys => &self.kv_starts,
        };
        let total = starts.last().copied().unwrap_or(0);
        match self.layout {
            Layout::Bshd => vec![batch, total / batch, count, d],
            Layout::Bhsd => vec![batch, count, total / batch, d],
            Layout::Thd => vec![total, count, d],
        }
    }

    /// Where element `index` (row-major) of the output stands.
    pub(super) fn place(&self, index: u64) -> Place {
        let Heads { q_heads, d_v, .. } = self.heads;
        let (row, d) = (index / d_v, index % d_v);
        if self.layout == Layout::Bhsd {
            let q_len = self.spans[0].q_len;
            let (sequence, head) = (row / q_len / q_heads, row / q_len % q_heads);
            return Place { sequence: sequence as usize, index: row % q_len, head, d };
        }
        let (token, head) = (row / q_heads, row % q_heads);
        let sequence = self.q_starts.partition_point(|start| *start <= token) - 1;
        Place { sequence, index: token - self.q_starts[sequence], head, d }
    }
}

/// The lengths of all sequences, and whether they were given one by one.
fn spans(shape: &ShapeMap) -> Result<(Vec<Span>, bool), ShapeError> {
    let Some(q_lens) = shape.list("q_lens")? else {
        if shape.get("kv_lens").is_some() {
            return Err(ShapeError::Missing { family: FAMILY, key: "q_lens", what: "queries of each sequence" });
        }
        let batch = sizes::need(shape, FAMILY, "batch", "sequences", MAX_LIST as u64)?;
        let q_len = sizes::need(shape, FAMILY, "q_len", "queries of each sequence", MOST_TOKENS)?;
        let kv_len = sizes::optional(shape, "kv_len", q_len, MOST_TOKENS)?;
        return Ok((vec![Span { q_len, kv_len }; batch as usize], false));
    };
    if let Some(key) = ["batch", "q_len", "kv_len"].into_iter().find(|key| shape.get(key).is_some()) {
        let value = shape.get(key).map(ToString::to_string).unwrap_or_default();
        return Err(ShapeError::invalid(key, value, "give either batch, q_len, kv_len or q_lens, kv_lens"));
    }
    let kv_lens = shape.list("kv_lens")?.unwrap_or_else(|| q_lens.clone());
    if q_lens.is_empty() || q_lens.len() != kv_lens.len() || q_lens.len() > MAX_LIST {
        let reason = format!("as many lengths as in q_lens ({}) are needed, 1 to {MAX_LIST}", q_lens.len());
        return Err(ShapeError::invalid("kv_lens", format!("{} lengths", kv_lens.len()), reason));
    }
    let pairs = q_lens.into_iter().zip(kv_lens);
    let spans = pairs.map(|(q_len, kv_len)| {
        sizes::bounded("q_lens", q_len, MOST_TOKENS)?;
        sizes::bounded("kv_lens", kv_len, MOST_TOKENS)?;
        Ok(Span { q_len, kv_len })
    });
    Ok((spans.collect::<Result<_, ShapeError>>()?, true))
}

fn layout(shape: &ShapeMap, packed: bool) -> Result<Layout, ShapeError> {
    match (shape.word("layout")?, packed) {
        (None | Some("thd"), true) | (Some("thd"), false) => Ok(Layout::Thd),
        (None | Some("bshd"), false) => Ok(Layout::Bshd),
        (Some("bhsd"), false) => Ok(Layout::Bhsd),
        (Some(word @ ("bshd" | "bhsd")), true) => {
            Err(ShapeError::invalid("layout", word, "sequences of lengths of their own are packed: thd"))
        }
        (Some(word), _) => Err(ShapeError::invalid("layout", word, "bshd, bhsd or thd is needed")),
    }
}
