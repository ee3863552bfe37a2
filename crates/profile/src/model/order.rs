//! The order in which a forward pass calls what is expected of it.

use super::attention::mask_name;
use super::{Attention, Expected, Mlp, Model};

/// Norms outside of attention and MLP, by where they stand.
const BEFORE_ATTENTION: &[&str] = &["input_layernorm"];
const BEFORE_MLP: &[&str] = &["post_attention_layernorm", "pre_feedforward_layernorm"];
const AFTER_MLP: &[&str] = &["post_feedforward_layernorm"];

impl Model {
    /// The calls of one forward pass in order, as indices into `expected` (the answer of [`Model::step_shapes`]). Each expectation
    /// comes once for every layer that it belongs to; all variants of a kernel come, one behind the other.
    pub fn call_order(&self, expected: &[Expected]) -> Vec<usize> {
        let mut order = Vec::new();
        let mut add = |takes: &dyn Fn(&Expected) -> bool| {
            order.extend(expected.iter().enumerate().filter(|(_, expected)| takes(expected)).map(|(index, _)| index));
        };
        add(&|expected| expected.role == "embedding");
        for (number, layer) in self.layers.iter().enumerate() {
            let attention = match &layer.attention {
                Attention::Gqa(gqa) => mask_name(Some(gqa.mask)),
                Attention::Mla(mla) => mask_name(Some(mla.mask)),
                Attention::Linear(_) => mask_name(None),
            };
            let mlp = match &layer.mlp {
                Mlp::Dense { .. } => "dense",
                Mlp::Moe(_) => "moe",
            };
            let place = if number == 0 { "first" } else { "all but first" };
            let is_norm = |expected: &Expected, roles: &[&str]| {
                roles.contains(&expected.role) && (expected.layers == "all" || expected.layers == place)
            };
            add(&|expected| is_norm(expected, BEFORE_ATTENTION));
            add(&|expected| expected.layers == attention);
            add(&|expected| is_norm(expected, BEFORE_MLP));
            add(&|expected| expected.layers == mlp);
            add(&|expected| is_norm(expected, AFTER_MLP));
        }
        add(&|expected| expected.layers == "none" && expected.role != "embedding");
        order
    }
}
