//! How a model's weights are quantised, and what that makes of the dtypes of its GEMMs.

use super::ModelError;
use super::keys::Keys;
use kbench_workload::{Dtype, DtypeTag, Dtypes};
use serde_json::Value;

/// Quantisation of a model's weights (`quantization_config`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Quant {
    /// None: all weights have the model's dtype.
    #[default]
    None,
    /// fp8 weights and activations (`quant_method: fp8`).
    Fp8 {
        /// Rows and columns of a weight block with one scale; `None`: coarser scales that the config does not name.
        block: Option<(u64, u64)>,
        /// The attention projections are left in the model's dtype.
        keep_attention: bool,
    },
    /// MXFP4 weights of the routed experts, other weights in the model's dtype (gpt-oss).
    Mxfp4Experts,
    /// Another method, by its name: dtypes of quantised GEMMs must be given by the user.
    Other(String),
}

/// Weights that are quantised together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightGroup {
    /// Projections of attention.
    Attention,
    /// Dense MLPs and shared experts.
    Mlp,
    /// Routed experts.
    Experts,
    /// Router, embedding, output head, absorbed projections: not quantised by any of the known methods.
    Kept,
}

/// Dtypes of a GEMM's operands, as far as the config tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operands {
    /// Dtypes by role; empty when not known.
    pub(super) dtypes: Dtypes,
    /// The family's `quant` key.
    pub(super) quant: Option<&'static str>,
    /// What the config leaves open: shape keys, or `dtypes`.
    pub(super) missing: &'static [&'static str],
}

impl Quant {
    pub(super) fn parse(keys: &Keys<'_>) -> Result<Self, ModelError> {
        let Some(config) = keys.get("quantization_config") else { return Ok(Quant::None) };
        let method = config.get("quant_method").and_then(Value::as_str).unwrap_or("not named");
        match method {
            "fp8" => {
                let block = match config.get("weight_block_size") {
                    None | Some(Value::Null) => None,
                    Some(value) => match value.as_array().map(Vec::as_slice) {
                        Some([rows, columns]) => rows.as_u64().zip(columns.as_u64()),
                        _ => None,
                    },
                };
                Ok(Quant::Fp8 { block, keep_attention: keeps_attention(config) })
            }
            "mxfp4" if keeps_attention(config) => Ok(Quant::Mxfp4Experts),
            other => Ok(Quant::Other(other.to_owned())),
        }
    }

    /// Operands of a dense GEMM (roles `a`, `b`, `out`) or of a grouped one (`x`, `w`, `out`).
    pub(super) fn operands(&self, group: WeightGroup, dtype: DtypeTag, roles: [&str; 2]) -> Operands {
        let plain = Operands { dtypes: Dtypes::uniform(dtype), quant: None, missing: &[] };
        match (self, group) {
            (Quant::None, _) | (_, WeightGroup::Kept) => plain,
            (Quant::Fp8 { keep_attention: true, .. }, WeightGroup::Attention) => plain,
            (Quant::Fp8 { block, .. }, _) => {
                let dtypes = Dtypes::uniform(dtype).with(roles[0], DtypeTag::Fp8).with(roles[1], DtypeTag::Fp8);
                match block {
                    Some((128, 128)) => Operands { dtypes, quant: Some("block128"), missing: &[] },
                    _ => Operands { dtypes, quant: None, missing: &["quant"] },
                }
            }
            (Quant::Mxfp4Experts, WeightGroup::Experts) => {
                let dtypes = Dtypes::uniform(dtype).with(roles[1], Dtype::Fp4E2m1);
                Operands { dtypes, quant: Some("mx32"), missing: &[] }
            }
            (Quant::Mxfp4Experts, _) => plain,
            (Quant::Other(_), _) => Operands { dtypes: Dtypes::default(), quant: None, missing: &["dtypes"] },
        }
    }
}

/// True when the list of modules that are not converted names all of attention, not single layers of it.
fn keeps_attention(config: &Value) -> bool {
    let lists = ["modules_to_not_convert", "ignored_layers", "ignore"];
    lists
        .iter()
        .filter_map(|key| config.get(*key)?.as_array())
        .flatten()
        .filter_map(Value::as_str)
        .any(|module| module.ends_with("self_attn") && !module.chars().any(|c| c.is_ascii_digit()))
}
