//! The typed shape of `paged_attention`.

use crate::families::attention::{self, Heads, Mask, Span};
use crate::families::{checks, sizes};
use crate::shape::MAX_LIST;
use crate::{CaseOptions, Dtype, Dtypes, ShapeError, ShapeMap, ShapeValue, Workload, random};
use rand::Rng as _;

const FAMILY: &str = "paged_attention";
const KEYS: &[&str] = &[
    "batch",
    "q_len",
    "ctx",
    "ctx_total",
    "ctx_mean",
    "q_heads",
    "kv_heads",
    "head_dim",
    "block_size",
    "pages",
    "window",
    "layout",
    "kv_scale",
];
/// Context lengths and page numbers are i32.
const MOST: u64 = i32::MAX as u64;
const MOST_BLOCK: u64 = 1 << 16;
/// aiter's caches keep 16 bytes of a key together.
const CHUNK_BYTES: u64 = 16;

/// Order of the cache's dimensions; see the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Page, token, head, element.
    Flash,
    /// Page, head, then keys by 16-byte chunks of elements and values transposed.
    Aiter,
}

/// Quantisation scales of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvScale {
    /// None: the cache holds real values.
    None,
    /// One for all keys, one for all values.
    PerTensor,
    /// One a token and head.
    PerToken,
}

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Layout::Flash => "flash",
            Layout::Aiter => "aiter",
        }
    }
}

impl KvScale {
    fn name(self) -> &'static str {
        match self {
            KvScale::None => "none",
            KvScale::PerTensor => "per_tensor",
            KvScale::PerToken => "per_token",
        }
    }
}

/// A validated decode attention over a paged cache.
#[derive(Clone, Debug)]
pub struct PagedAttention {
    /// Queries and context of each sequence.
    pub(super) spans: Vec<Span>,
    pub(super) q_len: u64,
    pub(super) heads: Heads,
    pub(super) mask: Mask,
    pub(super) block_size: u64,
    pub(super) pages: u64,
    pub(super) layout: Layout,
    pub(super) kv_scale: KvScale,
    pub(super) q: Dtype,
    pub(super) kv: Dtype,
    pub(super) out: Dtype,
}

impl PagedAttention {
    /// Validates shape and dtypes; draws context lengths where the shape gives only their sum.
    ///
    /// # Errors
    /// On missing, unknown, contradictory or oversized keys and on dtypes that the family does not run.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, KEYS)?;
        checks::only_roles(FAMILY, dtypes, &["q", "kv", "out"])?;
        let q_len = sizes::optional(shape, "q_len", 1, MOST)?;
        let contexts = contexts(shape, q_len, options.seed)?;
        if let Some(short) = contexts.iter().find(|ctx| **ctx < q_len) {
            let reason = format!("a context includes its q_len={q_len} new tokens, so it is at least as long");
            return Err(ShapeError::invalid("ctx", short, reason));
        }
        let allowed = |dtype: Dtype| sizes::is_wide(dtype) || dtype.is_fp8();
        let kv = sizes::role(dtypes, "kv", Dtype::Bf16, options.fp8, allowed, "bf16, f16, f32 or an fp8")?;
        let block_size = sizes::optional(shape, "block_size", 16, MOST_BLOCK)?;
        let case = Self {
            spans: contexts.iter().map(|ctx| Span { q_len, kv_len: *ctx }).collect(),
            q_len,
            heads: attention::heads(shape, FAMILY)?,
            mask: attention::mask(shape, true)?,
            block_size,
            pages: pages(shape, &contexts, block_size)?,
            layout: layout(shape)?,
            kv_scale: kv_scale(shape, kv)?,
            q: sizes::output_role(dtypes, "q", options.fp8)?,
            kv,
            out: sizes::output_role(dtypes, "out", options.fp8)?,
        };
        if case.layout == Layout::Aiter && !case.heads.d_qk.is_multiple_of(case.chunk()) {
            let reason = format!("layout=aiter keeps {} elements together: a multiple of that is needed", case.chunk());
            return Err(ShapeError::invalid("head_dim", case.heads.d_qk, reason));
        }
        sizes::check_tensors(&case.tensors())?;
        Ok(case)
    }

    /// The complete shape.
    pub(super) fn canonical(&self) -> ShapeMap {
        ShapeMap::new()
            .with_list("ctx", self.spans.iter().map(|span| span.kv_len).collect())
            .with("q_len", self.q_len)
            .with("q_heads", self.heads.q_heads)
            .with("kv_heads", self.heads.kv_heads)
            .with("head_dim", self.heads.d_qk)
            .with("block_size", self.block_size)
            .with("pages", self.pages)
            .with("window", self.mask.window())
            .with_word("layout", self.layout.name())
            .with_word("kv_scale", self.kv_scale.name())
    }

    /// Elements of a key that `layout=aiter` keeps together.
    pub(super) fn chunk(&self) -> u64 {
        CHUNK_BYTES * 8 / self.kv.bits()
    }

    /// Entries of a row of the block table.
    pub(super) fn longest_table(&self) -> u64 {
        self.spans.iter().map(|span| span.kv_len.div_ceil(self.block_size)).max().unwrap_or(1)
    }

    pub(super) fn key_dims(&self) -> Vec<u64> {
        let (heads, d) = (self.heads.kv_heads, self.heads.d_qk);
        match self.layout {
            Layout::Flash => vec![self.pages, self.block_size, heads, d],
            Layout::Aiter => vec![self.pages, heads, d / self.chunk(), self.block_size, self.chunk()],
        }
    }

    pub(super) fn value_dims(&self) -> Vec<u64> {
        let (heads, d) = (self.heads.kv_heads, self.heads.d_v);
        match self.layout {
            Layout::Flash => vec![self.pages, self.block_size, heads, d],
            Layout::Aiter => vec![self.pages, heads, d, self.block_size],
        }
    }

    pub(super) fn scale_dims(&self) -> Option<Vec<u64>> {
        match (self.kv_scale, self.layout) {
            (KvScale::None, _) => None,
            (KvScale::PerTensor, _) => Some(vec![1]),
            (KvScale::PerToken, Layout::Flash) => Some(vec![self.pages, self.block_size, self.heads.kv_heads]),
            (KvScale::PerToken, Layout::Aiter) => Some(vec![self.pages, self.heads.kv_heads, self.block_size]),
        }
    }
}

/// Context lengths: listed, the same for all, or drawn.
fn contexts(shape: &ShapeMap, q_len: u64, seed: u64) -> Result<Vec<u64>, ShapeError> {
    let given = ["ctx", "ctx_total", "ctx_mean"].into_iter().filter(|key| shape.get(key).is_some()).count();
    if given > 1 {
        return Err(ShapeError::invalid("ctx", "", "give only one of ctx, ctx_total and ctx_mean"));
    }
    let batch = shape.int("batch")?.map(|batch| sizes::bounded("batch", batch, MAX_LIST as u64)).transpose()?;
    match (shape.get("ctx"), batch) {
        (Some(ShapeValue::Int(ctx)), batch) => {
            let ctx = sizes::bounded("ctx", *ctx, MOST)?;
            Ok(vec![ctx; batch.unwrap_or(1) as usize])
        }
        (Some(_), batch) => {
            let list = shape.list("ctx")?.unwrap_or_default();
            if list.is_empty() || list.len() > MAX_LIST || batch.is_some_and(|batch| batch != list.len() as u64) {
                let reason = format!("1 to {MAX_LIST} lengths are needed, and as many as `batch` when that is given");
                return Err(ShapeError::invalid("ctx", format!("{} lengths", list.len()), reason));
            }
            list.iter().try_for_each(|ctx| sizes::bounded("ctx", *ctx, MOST).map(|_| ()))?;
            Ok(list)
        }
        (None, None) if given > 0 => Err(ShapeError::Missing { family: FAMILY, key: "batch", what: "sequences" }),
        (None, None) => {
            Err(ShapeError::Missing { family: FAMILY, key: "ctx", what: "context length of each sequence" })
        }
        (None, Some(batch)) => {
            let what = "context length of each sequence, or ctx_total or ctx_mean";
            let total = match (shape.int("ctx_total")?, shape.int("ctx_mean")?) {
                (Some(total), _) => total,
                (None, Some(mean)) => mean.saturating_mul(batch),
                (None, None) => return Err(ShapeError::Missing { family: FAMILY, key: "ctx", what }),
            };
            draw_contexts(batch, q_len, total, seed)
        }
    }
}

/// Draws `batch` contexts of at least `q_len` whose sum is `total`; see the module's text.
fn draw_contexts(batch: u64, q_len: u64, total: u64, seed: u64) -> Result<Vec<u64>, ShapeError> {
    let least = batch.saturating_mul(q_len);
    if total < least || total > MOST {
        return Err(ShapeError::invalid("ctx_total", total, format!("must be batch·q_len={least} to {MOST}")));
    }
    let mut rng = random::rng(seed, "ctx");
    // Weights in units of 2^-32, so that shares are exact whole-number arithmetic: the same on every machine.
    let weights: Vec<u128> = (0..batch).map(|_| u128::from((1 << 31) + (rng.next_u64() >> 32))).collect();
    let sum: u128 = weights.iter().sum();
    let spare = u128::from(total - least);
    let mut contexts: Vec<u64> = weights.iter().map(|weight| q_len + (spare * weight / sum) as u64).collect();
    let left = total - contexts.iter().sum::<u64>();
    contexts.iter_mut().take(left as usize).for_each(|context| *context += 1);
    Ok(contexts)
}

/// Pages of the cache: given, or what the contexts need.
fn pages(shape: &ShapeMap, contexts: &[u64], block_size: u64) -> Result<u64, ShapeError> {
    let needed: u64 = contexts.iter().map(|ctx| ctx.div_ceil(block_size)).sum();
    let pages = shape.int("pages")?.unwrap_or(needed);
    if pages < needed || pages > MOST {
        return Err(ShapeError::invalid("pages", pages, format!("the contexts need {needed} pages; at most {MOST}")));
    }
    Ok(pages)
}

fn layout(shape: &ShapeMap) -> Result<Layout, ShapeError> {
    match shape.word("layout")? {
        None | Some("flash") => Ok(Layout::Flash),
        Some("aiter") => Ok(Layout::Aiter),
        Some(word) => Err(ShapeError::invalid("layout", word, "flash or aiter is needed")),
    }
}

fn kv_scale(shape: &ShapeMap, kv: Dtype) -> Result<KvScale, ShapeError> {
    match (shape.word("kv_scale")?, kv.is_fp8()) {
        (None, true) | (Some("per_tensor"), true) => Ok(KvScale::PerTensor),
        (Some("per_token"), true) => Ok(KvScale::PerToken),
        (None | Some("none"), false) => Ok(KvScale::None),
        (Some(word), true) => Err(ShapeError::invalid("kv_scale", word, "an fp8 cache needs per_tensor or per_token")),
        (Some(word), false) => {
            Err(ShapeError::invalid("kv_scale", word, format!("a {kv} cache holds real values: none is needed")))
        }
    }
}
