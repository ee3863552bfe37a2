//! The kernels of MLPs: dense, mixture of experts, shared experts.

use super::builder::{At, Builder, product};
use super::{ModelError, Moe, WeightGroup};
use kbench_workload::{Dtypes, Family, ShapeMap};

const SHARED_APART: &str = "two stages, shared experts apart";

impl Builder<'_> {
    pub(super) fn mlp(
        &mut self,
        roles: [&'static str; 3],
        inter: u64,
        bias: bool,
        at: At<'_>,
    ) -> Result<(), ModelError> {
        let (rows, hidden) = (self.rows.rows, self.model.hidden);
        let width = self.serving.share("MLP width", inter)?;
        self.gemm(roles[0], WeightGroup::Mlp, [rows, 2 * width, hidden], bias, at);
        let shape = ShapeMap::new()
            .with("rows", rows)
            .with("hidden", width)
            .with_word("kind", self.model.activation)
            .with_flag("mul", true);
        self.push(roles[1], Family::Activation, shape, self.plain(), at);
        self.gemm(roles[2], WeightGroup::Mlp, [rows, hidden, width], bias, at);
        Ok(())
    }

    pub(super) fn moe(&mut self, moe: &Moe, calls: u64) -> Result<(), ModelError> {
        let (rows, hidden) = (self.rows.rows, self.model.hidden);
        let at = At { layers: "moe", calls };
        self.gemm("router", WeightGroup::Kept, [rows, moe.experts, hidden], moe.router_bias, at);
        let routing = |experts, topk| ShapeMap::new().with("tokens", rows).with("experts", experts).with("topk", topk);
        self.push("moe_gate", Family::MoeGate, routing(moe.experts, moe.topk), self.plain(), at);
        self.experts(moe, 0, at)?;
        if let Some(shared_inter) = moe.shared_inter {
            let first = self.found.len();
            self.mlp(["shared_gate_up_proj", "shared_act_and_mul", "shared_down_proj"], shared_inter, false, at)?;
            if moe.shared_gate {
                self.gemm("shared_expert_gate", WeightGroup::Kept, [rows, 1, hidden], false, at);
            }
            // Shared experts of the routed width can run as further experts that every token is routed to.
            if shared_inter.is_multiple_of(moe.inter) {
                self.found[first..].iter_mut().for_each(|expected| expected.variant = Some(SHARED_APART));
                self.experts(moe, shared_inter / moe.inter, at)?;
            }
        }
        Ok(())
    }

    /// Sort and both GEMMs of the routed experts, with `fused` shared experts among them.
    fn experts(&mut self, moe: &Moe, fused: u64, at: At<'_>) -> Result<(), ModelError> {
        let experts = self.serving.experts(moe.experts) + fused;
        let inter = self.serving.expert_width(moe.inter)?;
        let topk = moe.topk + fused;
        let mut assumed = vec!["which experts tokens are routed to is not in the label".to_owned()];
        // A rank runs the rows routed to its own experts, from all groups that exchange tokens.
        let mut tokens = self.rows.rows;
        let topk = topk.min(experts);
        if self.serving.ep() > 1 {
            let groups = self.serving.data_groups();
            let routed = product(product(tokens, groups, "routed tokens")?, moe.topk + fused, "routed rows")?;
            tokens = routed.div_ceil(self.serving.ep()).div_ceil(topk);
            assumed.push(format!(
                "expert parallel over {} ranks: 1/{} of the routed rows of {} equal batches, as if routing were uniform",
                self.serving.ep(),
                self.serving.ep(),
                groups
            ));
        }
        let (two, one) = match (moe.shared_inter.is_some(), fused > 0) {
            (false, _) => ("two stages", "one stage"),
            (true, false) => (SHARED_APART, "one stage, shared experts apart"),
            (true, true) => ("two stages, shared experts fused", "one stage, shared experts fused"),
        };
        let sort = ShapeMap::new().with("tokens", self.rows.rows).with("experts", experts).with("topk", topk);
        self.push("moe_sort", Family::MoeSort, sort, Dtypes::default(), at);
        self.amend(|expected| expected.variant = (fused > 0).then_some(two));
        let operands = self.model.quant.operands(WeightGroup::Experts, self.model.dtype, ["x", "w"]);
        for (role, stage, variant) in
            [("moe_gate_up", "gate_up", two), ("moe_down", "down", two), ("moe_fused", "fused", one)]
        {
            let mut shape = ShapeMap::new()
                .with("tokens", tokens)
                .with("hidden", self.model.hidden)
                .with("inter", inter)
                .with("experts", experts)
                .with("topk", topk)
                .with_word("stage", stage);
            if stage != "down" {
                let act = if self.model.activation == "silu" { "silu" } else { "gelu" };
                shape = shape.with_flag("gated", true).with_word("act", act);
            }
            if let Some(quant) = operands.quant {
                shape = shape.with_word("quant", quant);
            }
            self.push(role, Family::MoeGemm, shape, operands.dtypes.clone(), at);
            let (missing, ragged) = (operands.missing, operands.quant.is_some_and(|quant| !fits(quant, inter)));
            self.amend(|expected| {
                expected.variant = Some(variant);
                expected.missing.extend(missing);
                if ragged {
                    expected.missing.push("inter");
                    expected
                        .assumed
                        .push(format!("a width of {inter} is no whole number of scale blocks: engines pad it"));
                }
                expected.assumed.extend(assumed.iter().cloned());
                if moe.expert_bias {
                    expected
                        .assumed
                        .push("the experts' biases and the clamp of their activation are left out".to_owned());
                }
            });
        }
        Ok(())
    }
}

/// True when a width is whole in blocks of the quantisation's scales, which engines otherwise pad.
fn fits(quant: &str, width: u64) -> bool {
    quant != "mx32" || width.is_multiple_of(32)
}
