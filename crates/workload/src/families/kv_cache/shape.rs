//! The typed shape of `kv_cache`.

use super::slots;
use crate::families::checks::{check_allowed, dtype_of, only_roles, own_dtype};
use crate::families::row_quant::largest_code;
use crate::families::sizes;
use crate::{CaseOptions, Dtype, DtypeTag, Dtypes, ShapeError, ShapeMap, Workload};

pub(super) const FAMILY: &str = "kv_cache";
const KEYS: &[&str] = &[
    "tokens",
    "kv_heads",
    "head_dim",
    "kv_lora",
    "rope_dim",
    "block_size",
    "pages",
    "layout",
    "quant",
    "batch",
    "padding",
];
const FLOATS: &[Dtype] = &[Dtype::Bf16, Dtype::F16, Dtype::F32];
const QUANTISED: &[Dtype] = &[Dtype::Fp8E4m3fn, Dtype::Fp8E4m3fnuz, Dtype::Fp8E5m2, Dtype::Fp8E5m2fnuz, Dtype::I8];
/// Slots are drawn when a case is built: this bounds their memory.
const MOST_TOKENS: u64 = 1 << 22;
const MOST_HEADS: u64 = 1 << 12;
const MOST_HEAD_DIM: u64 = 1 << 12;
const MOST_BLOCK: u64 = 1 << 16;
/// Kernels index slots with 32 bits; pages are permuted when a case is built.
const MOST_SLOTS: u64 = i32::MAX as u64;
const MOST_PAGES: u64 = 1 << 26;
/// aiter's caches keep 16 bytes together.
const CHUNK_BITS: u64 = 128;

/// Order of the cache's dimensions; see the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Page, token, head, element.
    Flash,
    /// Page, head, then keys by 16-byte chunks of elements and values transposed.
    Aiter,
    /// As `Aiter`, with values by 16-byte chunks of tokens.
    Shuffled,
    /// One latent vector and one rotary key a token.
    Mla,
}

/// How the cache is quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvQuant {
    /// Not at all.
    None,
    /// By a given scale for all keys and one for all values.
    PerTensor,
    /// By a scale a token and head, written beside the cache.
    PerToken,
}

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Layout::Flash => "flash",
            Layout::Aiter => "aiter",
            Layout::Shuffled => "shuffled",
            Layout::Mla => "mla",
        }
    }
}

impl KvQuant {
    fn name(self) -> &'static str {
        match self {
            KvQuant::None => "none",
            KvQuant::PerTensor => "per_tensor",
            KvQuant::PerToken => "per_token",
        }
    }
}

/// The magnitude that the largest value of a scaled run is stored as.
pub(super) fn largest(dtype: Dtype) -> f32 {
    largest_code(dtype)
}

/// One tensor that is written into a cache.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) source: &'static str,
    pub(super) source_dims: Vec<u64>,
    pub(super) cache: &'static str,
    pub(super) scale: &'static str,
    /// First element of it in a token's place, where several share a cache.
    pub(super) first: u64,
}

impl Part {
    /// Elements of a token.
    pub(super) fn width(&self) -> u64 {
        self.source_dims.iter().skip(1).product()
    }
}

/// A validated case with its slots.
#[derive(Clone, Debug, PartialEq)]
pub struct KvCache {
    /// Tokens of the step, padding included.
    pub tokens: u64,
    /// Trailing tokens that go nowhere.
    pub padding: u64,
    /// Heads; 1 for `Layout::Mla`.
    pub kv_heads: u64,
    /// Elements of a head; of the latent for `Layout::Mla`.
    pub head_dim: u64,
    /// Elements of the rotary key of `Layout::Mla`, else 0.
    pub rope_dim: u64,
    /// Tokens of a page.
    pub block_size: u64,
    /// Pages of the cache.
    pub pages: u64,
    /// Order of the cache.
    pub layout: Layout,
    /// Quantisation.
    pub quant: KvQuant,
    /// Sequences.
    pub batch: u64,
    /// Dtype of what is written.
    pub x: Dtype,
    /// Dtype of the cache.
    pub kv: Dtype,
    /// Slot of each token.
    pub(super) slots: Vec<i64>,
}

impl KvCache {
    /// Validates a shape and draws the slots from the options' seed.
    ///
    /// # Errors
    /// On a missing, unknown, contradictory or impossible key, or a dtype that the family does not take.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, KEYS)?;
        only_roles(FAMILY, dtypes, &["x", "kv"])?;
        let layout = layout(shape)?;
        let quant = quant(shape, layout)?;
        let tokens = sizes::need(shape, FAMILY, "tokens", "tokens of the step", MOST_TOKENS)?;
        let (kv_heads, head_dim, rope_dim) = widths(shape, layout)?;
        let block_size = sizes::optional(shape, "block_size", 16, MOST_BLOCK)?;
        let padding = shape.int("padding")?.unwrap_or(0);
        if padding >= tokens {
            return Err(ShapeError::invalid("padding", padding, format!("must be less than tokens={tokens}")));
        }
        let written = tokens - padding;
        let batch = sizes::optional(shape, "batch", written, written)?;
        let needed = slots::pages_needed(written, batch, block_size);
        let pages = sizes::optional(shape, "pages", needed, MOST_PAGES)?;
        if pages < needed {
            let reason = format!("{batch} sequences of {written} tokens together need {needed} pages");
            return Err(ShapeError::invalid("pages", pages, reason));
        }
        if pages * block_size > MOST_SLOTS {
            let reason = format!("with pages of {block_size} tokens the cache has more than {MOST_SLOTS} slots");
            return Err(ShapeError::invalid("pages", pages, reason));
        }
        let x = dtype_of(FAMILY, dtypes, "x", options.fp8, FLOATS)?;
        let kv = cache_dtype(dtypes, x, quant, options)?;
        check_chunks(layout, kv, head_dim, block_size)?;
        let slots = slots::draw(written, padding, batch, block_size, pages, options.seed);
        let case = Self {
            tokens,
            padding,
            kv_heads,
            head_dim,
            rope_dim,
            block_size,
            pages,
            layout,
            quant,
            batch,
            x,
            kv,
            slots,
        };
        sizes::check_tensors(&case.tensors())?;
        Ok(case)
    }

    /// The complete canonical shape.
    pub(super) fn canonical(&self) -> ShapeMap {
        let shape = ShapeMap::new().with("tokens", self.tokens);
        let shape = match self.layout {
            Layout::Mla => shape.with("kv_lora", self.head_dim).with("rope_dim", self.rope_dim),
            _ => shape.with("kv_heads", self.kv_heads).with("head_dim", self.head_dim),
        };
        shape
            .with("block_size", self.block_size)
            .with("pages", self.pages)
            .with_word("layout", self.layout.name())
            .with_word("quant", self.quant.name())
            .with("batch", self.batch)
            .with("padding", self.padding)
    }

    /// Tokens that have a slot.
    pub(super) fn written(&self) -> u64 {
        self.tokens - self.padding
    }

    /// Elements that layouts by chunks keep together.
    pub(super) fn chunk(&self) -> u64 {
        CHUNK_BITS / self.kv.bits()
    }

    /// What is written where.
    pub(super) fn parts(&self) -> [Part; 2] {
        let heads = vec![self.tokens, self.kv_heads, self.head_dim];
        let part = |source, source_dims, cache, scale, first| Part { source, source_dims, cache, scale, first };
        match self.layout {
            Layout::Mla => [
                part("kv_c", vec![self.tokens, self.head_dim], "kv_cache", "kv_scale", 0),
                part("k_pe", vec![self.tokens, self.rope_dim], "kv_cache", "kv_scale", self.head_dim),
            ],
            _ => [part("key", heads.clone(), "k_cache", "k_scale", 0), part("value", heads, "v_cache", "v_scale", 0)],
        }
    }

    /// Caches with their dims.
    pub(super) fn caches(&self) -> Vec<(&'static str, Vec<u64>)> {
        let Self { pages, block_size, kv_heads, head_dim, .. } = *self;
        let x = self.chunk();
        let keys = vec![pages, kv_heads, head_dim / x, block_size, x];
        match self.layout {
            Layout::Flash => {
                ["k_cache", "v_cache"].map(|name| (name, vec![pages, block_size, kv_heads, head_dim])).into()
            }
            Layout::Aiter => vec![("k_cache", keys), ("v_cache", vec![pages, kv_heads, head_dim, block_size])],
            Layout::Shuffled => {
                vec![("k_cache", keys), ("v_cache", vec![pages, kv_heads, block_size / x, head_dim, x])]
            }
            Layout::Mla => vec![("kv_cache", vec![pages, block_size, head_dim + self.rope_dim])],
        }
    }

    /// Names of the scales.
    pub(super) fn scales(&self) -> &'static [&'static str] {
        match (self.quant, self.layout) {
            (KvQuant::None, _) => &[],
            (_, Layout::Mla) => &["kv_scale"],
            _ => &["k_scale", "v_scale"],
        }
    }

    /// Scales that a token has with `KvQuant::PerToken`.
    pub(super) fn scales_per_token(&self) -> u64 {
        2 * self.kv_heads
    }

    /// Dims of the scales of `KvQuant::PerToken`.
    pub(super) fn token_scale_dims(&self) -> [u64; 3] {
        match self.layout {
            Layout::Flash | Layout::Mla => [self.pages, self.block_size, self.kv_heads],
            Layout::Aiter | Layout::Shuffled => [self.pages, self.kv_heads, self.block_size],
        }
    }
}

fn layout(shape: &ShapeMap) -> Result<Layout, ShapeError> {
    match shape.word("layout")? {
        None | Some("flash") => Ok(Layout::Flash),
        Some("aiter") => Ok(Layout::Aiter),
        Some("shuffled") => Ok(Layout::Shuffled),
        Some("mla") => Ok(Layout::Mla),
        Some(other) => Err(ShapeError::invalid("layout", other, "flash, aiter, shuffled or mla is needed")),
    }
}

fn quant(shape: &ShapeMap, layout: Layout) -> Result<KvQuant, ShapeError> {
    match shape.word("quant")? {
        None | Some("none") => Ok(KvQuant::None),
        Some("per_tensor") => Ok(KvQuant::PerTensor),
        Some("per_token") if layout == Layout::Mla => {
            Err(ShapeError::invalid("quant", "per_token", "a latent cache has one scale for all: per_tensor or none"))
        }
        Some("per_token") => Ok(KvQuant::PerToken),
        Some(other) => Err(ShapeError::invalid("quant", other, "none, per_tensor or per_token is needed")),
    }
}

/// Heads, elements of a head, elements of the rotary key.
fn widths(shape: &ShapeMap, layout: Layout) -> Result<(u64, u64, u64), ShapeError> {
    let (other, reason) = match layout {
        Layout::Mla => (["kv_heads", "head_dim"], "layout=mla has kv_lora and rope_dim instead"),
        _ => (["kv_lora", "rope_dim"], "has a meaning with layout=mla only"),
    };
    if let Some((key, value)) = other.iter().find_map(|key| Some((key, shape.get(key)?))) {
        return Err(ShapeError::invalid(key, value, reason));
    }
    match layout {
        Layout::Mla => {
            let latent = sizes::optional(shape, "kv_lora", 512, MOST_HEAD_DIM)?;
            Ok((1, latent, sizes::optional(shape, "rope_dim", 64, MOST_HEAD_DIM)?))
        }
        _ => {
            let heads = sizes::need(shape, FAMILY, "kv_heads", "key/value heads", MOST_HEADS)?;
            Ok((heads, sizes::need(shape, FAMILY, "head_dim", "elements of a head", MOST_HEAD_DIM)?, 0))
        }
    }
}

fn cache_dtype(dtypes: &Dtypes, x: Dtype, quant: KvQuant, options: CaseOptions) -> Result<Dtype, ShapeError> {
    let own = own_dtype(dtypes, "kv", options.fp8);
    match quant {
        KvQuant::None => match own {
            Some(kv) if kv != x => Err(ShapeError::dtype(
                format!("kv={kv}"),
                format!(
                    "without quant the cache has the dtype of what is written ({x}); give quant=per_tensor or per_token"
                ),
            )),
            _ => Ok(x),
        },
        _ => check_allowed(FAMILY, "kv", own.unwrap_or(DtypeTag::Fp8.resolve(options.fp8)), QUANTISED),
    }
}

/// Layouts by 16-byte chunks need whole ones.
fn check_chunks(layout: Layout, kv: Dtype, head_dim: u64, block_size: u64) -> Result<(), ShapeError> {
    let x = CHUNK_BITS / kv.bits();
    let by_chunks = matches!(layout, Layout::Aiter | Layout::Shuffled);
    if by_chunks && !head_dim.is_multiple_of(x) {
        return Err(ShapeError::invalid("head_dim", head_dim, format!("must be a multiple of {x} ({kv} in 16 bytes)")));
    }
    if layout == Layout::Shuffled && !block_size.is_multiple_of(x) {
        return Err(ShapeError::invalid(
            "block_size",
            block_size,
            format!("must be a multiple of {x} ({kv} in 16 bytes)"),
        ));
    }
    Ok(())
}
