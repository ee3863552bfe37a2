//! The typed shape of `moe_gemm`.

use super::routing::{Routing, Sorted};
use crate::families::{checks, sizes};
use crate::{CaseOptions, Dtype, DtypeTag, Dtypes, ShapeError, ShapeMap, Workload};

const FAMILY: &str = "moe_gemm";
const KEYS: &[&str] = &[
    "tokens",
    "hidden",
    "inter",
    "experts",
    "topk",
    "stage",
    "gated",
    "act",
    "routing",
    "expert_tokens",
    "quant",
    "block_m",
];
const MOST_TOKENS: u64 = 1 << 22;
const MOST_SIZE: u64 = 1 << 20;
const MOST_EXPERTS: u64 = 1 << 14;
/// Routing is drawn when a case is built: this bounds its memory and time.
const MOST_SLOTS: u64 = 1 << 24;
const BLOCK: u64 = 128;
const MX_BLOCK: u64 = 32;

/// Which products of the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// hidden → inter, with the activation.
    GateUp,
    /// inter → hidden, summed over a token's experts.
    Down,
    /// Both.
    Fused,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::GateUp => "gate_up",
            Stage::Down => "down",
            Stage::Fused => "fused",
        }
    }

    /// True when it sums over a token's experts.
    pub(super) fn sums(self) -> bool {
        self != Stage::GateUp
    }

    fn activates(self) -> bool {
        self != Stage::Down
    }
}

/// The activation between the products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// x·σ(x).
    Silu,
    /// x·Φ(x), the exact form.
    Gelu,
}

/// How operands are quantised; see the module's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quant {
    /// Not at all.
    None,
    /// fp8, one scale a row of x and a row of w.
    PerToken,
    /// fp8, one scale per 128 elements of x and per 128×128 of w.
    Block128,
    /// fp4 weights, one power of two per 32 elements.
    Mx32,
}

impl Quant {
    fn name(self) -> &'static str {
        match self {
            Quant::None => "none",
            Quant::PerToken => "per_token",
            Quant::Block128 => "block128",
            Quant::Mx32 => "mx32",
        }
    }

    /// True when x has scales.
    pub(super) fn scales_input(self) -> bool {
        matches!(self, Quant::PerToken | Quant::Block128)
    }

    /// Dims of `x_scale`.
    pub(super) fn input_scale_dims(self, rows: u64, k: u64) -> Option<Vec<u64>> {
        match self {
            Quant::None | Quant::Mx32 => None,
            Quant::PerToken => Some(vec![rows]),
            Quant::Block128 => Some(vec![rows, k.div_ceil(BLOCK)]),
        }
    }

    /// Dtype and dims of the scales of `experts` weight matrices.
    pub(super) fn weight_scale(self, experts: u64, product: &Product) -> Option<(Dtype, Vec<u64>)> {
        let Product { n, k, .. } = *product;
        match self {
            Quant::None => None,
            Quant::PerToken => Some((Dtype::F32, vec![experts, n])),
            Quant::Block128 => Some((Dtype::F32, vec![experts, n.div_ceil(BLOCK), k.div_ceil(BLOCK)])),
            Quant::Mx32 => Some((Dtype::E8m0, vec![experts, n, k / MX_BLOCK])),
        }
    }
}

/// One grouped product: w [experts, n, k].
#[derive(Clone, Copy, Debug)]
pub(super) struct Product {
    pub(super) name: &'static str,
    pub(super) scale_name: &'static str,
    pub(super) n: u64,
    pub(super) k: u64,
}

/// A validated mixture-of-experts product with its routing.
#[derive(Clone, Debug)]
pub struct MoeGemm {
    pub(super) tokens: u64,
    pub(super) hidden: u64,
    pub(super) inter: u64,
    pub(super) experts: u64,
    pub(super) topk: u64,
    pub(super) stage: Stage,
    pub(super) gated: bool,
    pub(super) act: Activation,
    pub(super) quant: Quant,
    pub(super) block_m: u64,
    pub(super) routing: Routing,
    pub(super) x: Dtype,
    pub(super) w: Dtype,
    pub(super) out: Dtype,
    /// The one product, or gate_up and down.
    products: Vec<Product>,
    /// Experts of each token, [tokens × topk].
    pub(super) ids: Vec<u32>,
    pub(super) sorted: Sorted,
}

impl MoeGemm {
    /// Validates shape and dtypes and draws the routing from the options' seed.
    ///
    /// # Errors
    /// On missing, unknown, contradictory or oversized keys and on dtypes that the family does not run.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, KEYS)?;
        checks::only_roles(FAMILY, dtypes, &["x", "w", "out"])?;
        let need = |key, what, most| sizes::need(shape, FAMILY, key, what, most);
        let tokens = need("tokens", "tokens of the step", MOST_TOKENS)?;
        let hidden = need("hidden", "model width", MOST_SIZE)?;
        let inter = need("inter", "expert width of this rank", MOST_SIZE)?;
        let experts = need("experts", "experts of this rank", MOST_EXPERTS)?;
        let topk = need("topk", "experts of a token", experts)?;
        if tokens * topk > MOST_SLOTS {
            return Err(ShapeError::invalid("tokens", tokens, format!("tokens·topk must be at most {MOST_SLOTS}")));
        }
        let stage = stage(shape)?;
        let (gated, act) = activation(shape, stage)?;
        let quant = quant(shape, dtypes, options)?;
        let (x, w) = operands(dtypes, quant, options)?;
        let routing = Routing::from_shape(shape, tokens, topk, experts)?;
        let up = inter * if gated { 2 } else { 1 };
        let product = |name, scale_name, n, k| Product { name, scale_name, n, k };
        let products = match stage {
            Stage::GateUp => vec![product("w", "w_scale", up, hidden)],
            Stage::Down => vec![product("w", "w_scale", hidden, inter)],
            Stage::Fused => vec![product("w1", "w1_scale", up, hidden), product("w2", "w2_scale", hidden, inter)],
        };
        if let Some(product) =
            products.iter().find(|product| quant == Quant::Mx32 && !product.k.is_multiple_of(MX_BLOCK))
        {
            let key = if product.k == hidden { "hidden" } else { "inter" };
            return Err(ShapeError::invalid(key, product.k, format!("mx32 needs a multiple of {MX_BLOCK}")));
        }
        let mut case = Self {
            tokens,
            hidden,
            inter,
            experts,
            topk,
            stage,
            gated,
            act,
            quant,
            block_m: sizes::optional(shape, "block_m", 32, 1 << 12)?,
            routing,
            x,
            w,
            out: sizes::output_role(dtypes, "out", options.fp8)?,
            products,
            ids: Vec::new(),
            sorted: Sorted::new(&[], 0),
        };
        sizes::check_tensors(&case.tensors())?;
        case.ids = case.routing.draw(tokens as usize, topk as usize, experts as usize, options.seed);
        case.sorted = Sorted::new(&case.ids, experts as usize);
        Ok(case)
    }

    /// The complete shape.
    pub(super) fn canonical(&self) -> ShapeMap {
        let mut shape = ShapeMap::new()
            .with("tokens", self.tokens)
            .with("hidden", self.hidden)
            .with("inter", self.inter)
            .with("experts", self.experts)
            .with("topk", self.topk)
            .with_word("stage", self.stage.name());
        if self.stage.activates() {
            let act = match self.act {
                Activation::Silu => "silu",
                Activation::Gelu => "gelu",
            };
            shape = shape.with_flag("gated", self.gated).with_word("act", act);
        }
        shape = match &self.routing {
            Routing::Given(counts) => shape.with_list("expert_tokens", counts.clone()),
            drawn => shape.with_word("routing", drawn.name()),
        };
        shape.with_word("quant", self.quant.name()).with("block_m", self.block_m)
    }

    /// The one product, or gate_up and down.
    pub(super) fn products(&self) -> &[Product] {
        &self.products
    }

    /// Rows of x.
    pub(super) fn input_rows(&self) -> u64 {
        if self.stage == Stage::Down { self.tokens * self.topk } else { self.tokens }
    }

    /// Dims of the output.
    pub(super) fn output_dims(&self) -> [u64; 2] {
        if self.stage.sums() { [self.tokens, self.hidden] } else { [self.tokens * self.topk, self.inter] }
    }
}

fn stage(shape: &ShapeMap) -> Result<Stage, ShapeError> {
    match shape.word("stage")? {
        Some("gate_up") => Ok(Stage::GateUp),
        Some("down") => Ok(Stage::Down),
        Some("fused") => Ok(Stage::Fused),
        Some(word) => Err(ShapeError::invalid("stage", word, "gate_up, down or fused is needed")),
        None => Err(ShapeError::Missing { family: FAMILY, key: "stage", what: "gate_up, down or fused" }),
    }
}

fn activation(shape: &ShapeMap, stage: Stage) -> Result<(bool, Activation), ShapeError> {
    if let Some(key) = ["gated", "act"].into_iter().find(|key| !stage.activates() && shape.get(key).is_some()) {
        let value = shape.get(key).map(ToString::to_string).unwrap_or_default();
        return Err(ShapeError::invalid(key, value, "stage=down has no activation"));
    }
    let act = match shape.word("act")? {
        None | Some("silu") => Activation::Silu,
        Some("gelu") => Activation::Gelu,
        Some(word) => return Err(ShapeError::invalid("act", word, "silu or gelu is needed")),
    };
    Ok((stage.activates() && shape.flag("gated")?.unwrap_or(true), act))
}

/// The quantisation: given, or what the weights' dtype leaves as the only one.
fn quant(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Quant, ShapeError> {
    match (shape.word("quant")?, dtypes.get("w").map(|tag| tag.resolve(options.fp8))) {
        (Some("none"), _) => Ok(Quant::None),
        (Some("per_token"), _) => Ok(Quant::PerToken),
        (Some("block128"), _) => Ok(Quant::Block128),
        (Some("mx32"), _) | (None, Some(Dtype::Fp4E2m1)) => Ok(Quant::Mx32),
        (Some(word), _) => Err(ShapeError::invalid("quant", word, "none, per_token, block128 or mx32 is needed")),
        (None, Some(w)) if w.is_fp8() => {
            Err(ShapeError::Missing { family: FAMILY, key: "quant", what: "per_token or block128 for fp8 weights" })
        }
        (None, _) => Ok(Quant::None),
    }
}

/// Dtypes of x and w. A default dtype that a quantisation rules out gives way to the one it has; a role's own does not.
fn operands(dtypes: &Dtypes, quant: Quant, options: CaseOptions) -> Result<(Dtype, Dtype), ShapeError> {
    let own = |role: &str| dtypes.roles().any(|(known, _)| known == role);
    let flavor = options.fp8;
    match quant {
        Quant::None => {
            let x = sizes::role(dtypes, "x", Dtype::Bf16, flavor, sizes::is_wide, "bf16, f16 or f32 with quant=none")?;
            let w = sizes::role(dtypes, "w", x, flavor, sizes::is_wide, "bf16, f16 or f32 with quant=none")?;
            if x == w {
                return Ok((x, w));
            }
            Err(ShapeError::dtype(format!("w={w}"), format!("without quantisation w has the dtype of x, {x}")))
        }
        Quant::PerToken | Quant::Block128 => {
            let operand = |role: &str| {
                let default = dtypes.default_tag().map(|tag| tag.resolve(flavor)).filter(|dtype| dtype.is_fp8());
                match own(role) {
                    true => sizes::role(dtypes, role, Dtype::Bf16, flavor, Dtype::is_fp8, "an fp8 with this quant"),
                    false => Ok(default.unwrap_or(DtypeTag::Fp8.resolve(flavor))),
                }
            };
            Ok((operand("x")?, operand("w")?))
        }
        Quant::Mx32 => {
            let is_fp4 = |dtype: Dtype| dtype == Dtype::Fp4E2m1;
            let w = match own("w") {
                true => sizes::role(dtypes, "w", Dtype::Fp4E2m1, flavor, is_fp4, "fp4_e2m1 with quant=mx32")?,
                false => Dtype::Fp4E2m1,
            };
            Ok((sizes::output_role(dtypes, "x", flavor)?, w))
        }
    }
}
