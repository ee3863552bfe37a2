//! `moe_gemm` shapes from operator calls of aiter, vLLM and SGLang, and from the parameters that TraceLens derives for its
//! `pseudo_op::moe_*` rows.
//!
//! An operator that computes the whole layer becomes `stage=fused`. No profile holds the routing: it is assumed uniform.

use crate::dtype::{Dtype, DtypeTag};
use crate::families::attention::call;
use crate::op::OpCall;
use crate::{Dtypes, Family, Recovered, ShapeError, ShapeMap};

/// Where an operator keeps its operands; indices count its arguments from 0.
struct Signature {
    names: &'static [&'static str],
    stage: &'static str,
    x: usize,
    w1: usize,
    w2: usize,
    topk: Topk,
    /// Index of aiter's numeric `QuantType`.
    quant_type: Option<usize>,
    quant: Option<&'static str>,
}

#[derive(Clone, Copy)]
enum Topk {
    /// A concrete number.
    Number(usize),
    /// The last dim of [tokens, topk].
    Columns(usize),
}

const SIGNATURES: &[Signature] = &[
    Signature {
        names: &["aiter::fmoe_fp8_blockscale_g1u1"],
        stage: "fused",
        x: 1,
        w1: 2,
        w2: 3,
        topk: Topk::Number(8),
        quant_type: None,
        quant: Some("block128"),
    },
    Signature {
        names: &["aiter::fmoe", "aiter::fmoe_g1u1", "aiter::fmoe_g1u1_tkw1", "aiter::fmoe_int8_g1u0"],
        stage: "fused",
        x: 1,
        w1: 2,
        w2: 3,
        topk: Topk::Number(8),
        quant_type: None,
        quant: None,
    },
    Signature {
        names: &["aiter::ck_moe_stage1", "aiter::ck_moe_stage1_fwd"],
        stage: "gate_up",
        x: 0,
        w1: 1,
        w2: 2,
        topk: Topk::Number(7),
        quant_type: Some(13),
        quant: None,
    },
    Signature {
        names: &["aiter::ck_moe_stage2", "aiter::ck_moe_stage2_fwd"],
        stage: "down",
        x: 0,
        w1: 1,
        w2: 2,
        topk: Topk::Number(7),
        quant_type: Some(13),
        quant: None,
    },
    Signature {
        names: &[
            "vllm::rocm_aiter_fused_moe",
            "vllm::fused_moe",
            "vllm::inplace_fused_experts",
            "vllm::outplace_fused_experts",
            "sglang::inplace_fused_experts",
            "sglang::outplace_fused_experts",
            "aiter::fused_moe",
            "aiter::fused_moe_",
        ],
        stage: "fused",
        x: 0,
        w1: 1,
        w2: 2,
        topk: Topk::Columns(3),
        quant_type: None,
        quant: None,
    },
];

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let name = op.base_name();
    if let Some(signature) = SIGNATURES.iter().find(|signature| signature.names.contains(&name)) {
        if !op.args.is_empty() {
            return Some(from_args(op, signature));
        }
        return from_params(op, signature.stage, signature.quant);
    }
    let stage = pseudo_stage(name)?;
    from_params(op, stage, name.contains("blockscale").then_some("block128"))
}

/// TraceLens's pseudo operators, one a stage of a layer.
fn pseudo_stage(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix("pseudo_op::moe_")?;
    match name {
        _ if name.contains("finalize") => None,
        _ if name.contains("unfused_up") || name.contains("stage1") => Some("gate_up"),
        _ if name.contains("unfused_down") || name.contains("stage2") => Some("down"),
        _ if name.contains("fused") => Some("fused"),
        _ => None,
    }
}

/// Sizes before they become a shape.
struct Found {
    tokens: u64,
    hidden: u64,
    inter: u64,
    experts: u64,
    topk: u64,
    gated: bool,
}

impl Found {
    /// Puts shape and dtypes together. `quant` is what the call says, if it does.
    fn finish(
        self,
        op: &OpCall,
        stage: &'static str,
        (x, w): (DtypeTag, DtypeTag),
        quant: Option<&'static str>,
    ) -> Result<Recovered, ShapeError> {
        let mut assumed = vec!["uniform routing: a profile does not hold it".to_owned()];
        let is_fp8 = |tag: DtypeTag| tag.resolve(Default::default()).is_fp8();
        let quant = match (quant, w) {
            (Some(quant), _) => quant,
            (None, DtypeTag::Exact(Dtype::Fp4E2m1)) => "mx32",
            (None, w) if is_fp8(w) => {
                assumed.push("one scale a row (per_token): the call does not say how fp8 is scaled".to_owned());
                "per_token"
            }
            (None, _) => "none",
        };
        let mut x = x;
        if matches!(quant, "per_token" | "block128") && !is_fp8(x) {
            assumed.push(format!("x is quantised to the dtype of w before the product; the operator takes {x}"));
            x = w;
        }
        if quant == "mx32" && !crate::families::sizes::is_wide(x.resolve(Default::default())) {
            assumed.push(format!("bf16 x: {x} beside fp4 weights has no workload"));
            x = DtypeTag::Exact(Dtype::Bf16);
        }
        let mut shape = ShapeMap::new()
            .with("tokens", self.tokens)
            .with("hidden", self.hidden)
            .with("inter", self.inter)
            .with("experts", self.experts)
            .with("topk", self.topk)
            .with_word("stage", stage);
        if stage != "down" {
            shape = shape.with_flag("gated", self.gated).with_word("act", "silu");
            let clamped = op.kernels.iter().any(|kernel| kernel.contains("swiglu"));
            assumed
                .push(if clamped { "silu for the clamped swiglu of the kernel" } else { "silu activation" }.to_owned());
        }
        if op.base_name().ends_with("triton_unfused_down") {
            assumed
                .push("the sum over a token's experts is part of it, though a kernel of its own may do it".to_owned());
        }
        let shape = shape.with_word("routing", "uniform").with_word("quant", quant);
        let dtypes = if x == w { Dtypes::uniform(x) } else { Dtypes::default().with("x", x).with("w", w) };
        Ok(Recovered { family: Family::MoeGemm, shape, dtypes, assumed })
    }
}

/// From the parameters of a report. `None` when they are not there.
fn from_params(op: &OpCall, stage: &'static str, quant: Option<&'static str>) -> Option<Result<Recovered, ShapeError>> {
    let found = Found {
        tokens: op.size("num_tokens")?,
        hidden: op.size("hidden_dim")?,
        inter: op.size("inter_dim")?,
        experts: op.size("num_experts")?,
        topk: op.size("topk")?,
        gated: op.params.get("gated")?.as_bool()?,
    };
    let dtype = |key: &'static str| {
        call::dtype_param(op, key).ok_or_else(|| {
            let shown = op.params.get(key).map_or_else(|| "nothing".to_owned(), |value| format!("{value:?}"));
            ShapeError::dtype(key, format!("{} says {shown}, which is no dtype", op.name))
        })
    };
    Some(match (dtype("input_dtype"), dtype("weight_dtype")) {
        (Ok(x), Ok(w)) => found.finish(op, stage, (x, w), quant),
        (Err(error), _) | (_, Err(error)) => Err(error),
    })
}

/// From dims: x [tokens, hidden] ([tokens, topk, inter] for down), w1 [experts, inter or 2·inter, hidden], w2 [experts, hidden,
/// inter]; packed fp4 has half the elements in its last dim.
fn from_args(op: &OpCall, signature: &Signature) -> Result<Recovered, ShapeError> {
    let (Some(x), Some(w1), Some(w2)) =
        (op.tensor(signature.x), call::tensor::<3>(op, signature.w1), call::tensor::<3>(op, signature.w2))
    else {
        return Err(call::contradiction(op, "x and the two weight tensors are needed"));
    };
    let topk = match signature.topk {
        Topk::Number(index) => call::int(op, index).and_then(|topk| u64::try_from(topk).ok()),
        Topk::Columns(index) => call::tensor::<2>(op, index).map(|dims| dims[1]),
    };
    let topk = topk.filter(|topk| *topk > 0).ok_or_else(|| call::contradiction(op, "topk is not in the call"))?;
    let hidden = w2[1];
    let packing = if w1[2].checked_mul(2) == Some(hidden) { 2 } else { 1 };
    let inter = w2[2].saturating_mul(packing);
    let gated = w1[1] == inter.saturating_mul(2);
    let consistent = w1[0] == w2[0] && w1[2].saturating_mul(packing) == hidden && (gated || w1[1] == inter);
    if !consistent {
        return Err(call::contradiction(
            op,
            "w1 [experts, inter or 2·inter, hidden] and w2 [experts, hidden, inter] disagree",
        ));
    }
    let x_dtype = call::dtype(op, signature.x)?;
    let x_packing = if x_dtype == DtypeTag::Exact(Dtype::Fp4E2m1) { packing } else { 1 };
    let width = if signature.stage == "down" { inter } else { hidden };
    let tokens = match *x {
        [tokens, columns] if signature.stage != "down" && columns.saturating_mul(x_packing) == width => tokens,
        [tokens, choices, columns] if choices == topk && columns.saturating_mul(x_packing) == width => tokens,
        [rows, columns] if rows.is_multiple_of(topk) && columns.saturating_mul(x_packing) == width => rows / topk,
        _ => return Err(call::contradiction(op, "x does not fit the weights")),
    };
    let stored = call::dtype(op, if signature.stage == "down" { signature.w2 } else { signature.w1 })?;
    let w = if packing == 2 { DtypeTag::Exact(Dtype::Fp4E2m1) } else { stored };
    let quant = match signature.quant_type.and_then(|index| call::int(op, index)) {
        _ if packing == 2 => Some("mx32"),
        Some(0) => Some("none"),
        Some(2) => Some("per_token"),
        Some(4 | 5) => Some("block128"),
        _ => signature.quant,
    };
    Found { tokens, hidden, inter, experts: w1[0], topk, gated }.finish(op, signature.stage, (x_dtype, w), quant)
}
