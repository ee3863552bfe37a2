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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{Parsed, parse};
    use crate::model::Serving;

    /// The order and the counts of `step_shapes` are made apart: each expectation must come as often as it counts.
    #[test]
    fn every_expectation_comes_as_often_as_it_is_called() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/models");
        let mut models = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let model = Model::read(&path).unwrap();
            for label in ["decode[bs=64 tok=64 d=64 sqsq=64 sqsk=65600 sk=65600]", "prefill[bs=1 tok=100 ctx=100]"] {
                let Parsed::Step(step) = parse(label) else { panic!("{label} is a step") };
                let expected = model.step_shapes(&step, &Serving::default()).unwrap().expected;
                let order = model.call_order(&expected);
                for (index, expected) in expected.iter().enumerate() {
                    let count = order.iter().filter(|call| **call == index).count() as u64;
                    assert_eq!(count, expected.calls, "{}: {} of {}", path.display(), expected.role, expected.layers);
                }
            }
            models += 1;
        }
        assert!(models >= 10, "{models}");
    }
}
