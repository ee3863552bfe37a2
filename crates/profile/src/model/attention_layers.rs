//! The kernels of attention layers: projections, norms of queries and keys, attention itself.

use super::attention::mask_name;
use super::builder::{At, Builder, product};
use super::{Gqa, Linear, Mask, Mla, ModelError, QkNorm, WeightGroup};
use crate::inventory::Phase;
use crate::labels::{Part, Runs, Step};
use kbench_workload::shape::MAX_LIST;
use kbench_workload::{Family, ShapeMap};

impl Builder<'_> {
    pub(super) fn gqa(&mut self, gqa: &Gqa, calls: u64) -> Result<(), ModelError> {
        let (rows, hidden) = (self.rows.rows, self.model.hidden);
        let heads = self.serving.share("query heads", gqa.heads)?;
        let kv_heads = self.serving.kv_heads(gqa.kv_heads)?;
        let name = mask_name(Some(gqa.mask));
        let at = At { layers: &name, calls };
        let query_heads = if gqa.gate { 2 * heads } else { heads };
        let qkv = (query_heads + kv_heads) * gqa.head_dim + kv_heads * gqa.v_head_dim;
        self.gemm("qkv_proj", WeightGroup::Attention, [rows, qkv, hidden], gqa.qkv_bias, at);
        match gqa.qk_norm {
            QkNorm::No => {}
            QkNorm::PerHead => {
                self.norm("q_norm", product(rows, heads, "rows of q_norm")?, gqa.head_dim, Some(false), at);
                self.norm("k_norm", product(rows, kv_heads, "rows of k_norm")?, gqa.head_dim, Some(false), at);
            }
            QkNorm::AllHeads => {
                self.norm("q_norm", rows, heads * gqa.head_dim, Some(false), at);
                self.norm("k_norm", rows, kv_heads * gqa.head_dim, Some(false), at);
            }
        }
        let sizes = ShapeMap::new().with("q_heads", heads).with("kv_heads", kv_heads).with("head_dim", gqa.head_dim);
        let rope = ShapeMap::new().with("tokens", rows);
        let rope = sizes.iter().fold(rope, |shape, (key, value)| shape.with_value(key, value.clone()));
        self.push("rope", Family::Rope, rope, self.plain(), at);
        self.kv_cache(kv_heads, gqa.head_dim, at);
        for (phase, part) in phases(self.step) {
            match phase {
                Phase::Prefill => self.prefill_attention(sizes.clone(), gqa.mask, part, at),
                _ => {
                    self.decode_attention("paged_attention", Family::PagedAttention, sizes.clone(), gqa.mask, part, at)
                }
            }
            self.amend(|expected| expected.phase = phase);
        }
        self.gemm("o_proj", WeightGroup::Attention, [rows, hidden, heads * gqa.v_head_dim], gqa.out_bias, at);
        Ok(())
    }

    pub(super) fn mla(&mut self, mla: &Mla, calls: u64) -> Result<(), ModelError> {
        let (rows, hidden) = (self.rows.rows, self.model.hidden);
        let heads = self.serving.share("query heads", mla.heads)?;
        let name = mask_name(Some(mla.mask));
        let at = At { layers: &name, calls };
        let (qk, latent) = (mla.nope + mla.rope, mla.kv_lora + mla.rope);
        let group = WeightGroup::Attention;
        match mla.q_lora {
            Some(q_lora) => {
                self.gemm("qkv_a_proj", group, [rows, q_lora + latent, hidden], false, at);
                self.amend(|expected| expected.variant = Some("q_a and kv_a fused"));
                for (role, n) in [("q_a_proj", q_lora), ("kv_a_proj", latent)] {
                    self.gemm(role, group, [rows, n, hidden], false, at);
                    self.amend(|expected| expected.variant = Some("q_a and kv_a apart"));
                }
                self.norm("q_a_norm", rows, q_lora, Some(false), at);
                self.gemm("q_b_proj", group, [rows, heads * qk, q_lora], false, at);
            }
            None => {
                self.gemm("q_proj", group, [rows, heads * qk, hidden], false, at);
                self.gemm("kv_a_proj", group, [rows, latent, hidden], false, at);
            }
        }
        self.norm("kv_a_norm", rows, mla.kv_lora, Some(false), at);
        if let (Some(indexer), Some(q_lora)) = (&mla.indexer, mla.q_lora) {
            self.gemm("indexer_q_proj", group, [rows, indexer.heads * indexer.head_dim, q_lora], false, at);
            self.gemm("indexer_k_proj", group, [rows, indexer.head_dim, hidden], false, at);
            self.gemm("indexer_weights_proj", WeightGroup::Kept, [rows, indexer.heads, hidden], false, at);
        }
        let rope =
            ShapeMap::new().with("tokens", rows).with("q_heads", heads).with("kv_heads", 1).with("head_dim", mla.rope);
        self.push("rope", Family::Rope, rope, self.plain(), at);
        self.kv_cache(1, latent, at);
        let absorbed = ShapeMap::new()
            .with("q_heads", heads)
            .with("kv_heads", 1)
            .with("head_dim", latent)
            .with("v_head_dim", mla.kv_lora);
        for (phase, part) in phases(self.step) {
            // Sparse layers pick latents per query, so they run absorbed in both phases.
            let expanded = phase == Phase::Prefill && mla.mask == Mask::Full;
            let part_rows = if self.step.phase == Phase::Mixed { part.tokens } else { Some(rows) };
            if expanded {
                if let Some(tokens) = part_rows {
                    let n = heads * (mla.nope + mla.v_head_dim);
                    self.gemm("kv_b_proj", group, [tokens, n, mla.kv_lora], false, at);
                    self.amend(|expected| {
                        expected
                            .assumed
                            .push("rows of the step's own tokens; latents read back from the cache come on top".into());
                    });
                }
                let sizes = ShapeMap::new()
                    .with("q_heads", heads)
                    .with("kv_heads", heads)
                    .with("head_dim", qk)
                    .with("v_head_dim", mla.v_head_dim);
                self.prefill_attention(sizes, mla.mask, part, at);
            } else {
                if let Some(tokens) = part_rows {
                    self.bmm("q_absorb", heads, [tokens, mla.kv_lora, mla.nope], at);
                    self.bmm("v_absorb", heads, [tokens, mla.v_head_dim, mla.kv_lora], at);
                }
                self.decode_attention("mla", Family::Mla, absorbed.clone(), mla.mask, part, at);
            }
            self.amend(|expected| expected.phase = phase);
        }
        self.gemm("o_proj", group, [rows, hidden, heads * mla.v_head_dim], false, at);
        Ok(())
    }

    pub(super) fn linear(&mut self, linear: &Linear, calls: u64) -> Result<(), ModelError> {
        let (rows, hidden) = (self.rows.rows, self.model.hidden);
        let k_heads = self.serving.share("key heads of linear attention", linear.k_heads)?;
        let v_heads = self.serving.share("value heads of linear attention", linear.v_heads)?;
        let (keys, values) = (k_heads * linear.k_dim, v_heads * linear.v_dim);
        let at = At { layers: "linear", calls };
        let group = WeightGroup::Attention;
        self.gemm("in_proj_qkvz", group, [rows, 2 * (keys + values), hidden], false, at);
        self.gemm("in_proj_ba", group, [rows, 2 * v_heads, hidden], false, at);
        let mut shape = ShapeMap::new()
            .with("rows", self.rows.tokens)
            .with("k_heads", k_heads)
            .with("v_heads", v_heads)
            .with("k_dim", linear.k_dim)
            .with("v_dim", linear.v_dim)
            .with("conv", linear.conv);
        if let Some(batch) = self.step.batch() {
            shape = shape.with("batch", batch);
        }
        self.push("gated_delta_net", Family::LinearAttention, shape, self.plain(), at);
        self.norm("gated_norm", product(rows, v_heads, "rows of gated_norm")?, linear.v_dim, Some(false), at);
        self.amend(|expected| expected.assumed.push("the norm also multiplies with a gate".to_owned()));
        self.gemm("out_proj", group, [rows, hidden, values], false, at);
        Ok(())
    }

    /// Attention of prompts: dense queries of the step against the whole context.
    fn prefill_attention(&mut self, mut shape: ShapeMap, mask: Mask, part: &Part, at: At<'_>) {
        let lengths = part.lengths();
        let mut missing = Vec::new();
        match lengths.pairs().as_deref() {
            Some([(queries, context, count)]) => {
                shape = shape.with("batch", *count).with("q_len", *queries).with("kv_len", *context);
            }
            Some(sequences) if total_count(sequences.iter().map(|run| run.2)) <= MAX_LIST as u64 => {
                let spread = |pick: fn(&(u64, u64, u64)) -> u64| {
                    sequences.iter().flat_map(|run| std::iter::repeat_n(pick(run), run.2 as usize)).collect()
                };
                shape = shape.with_list("q_lens", spread(|run| run.0)).with_list("kv_lens", spread(|run| run.1));
            }
            _ => {
                if let Some(seqs) = part.seqs {
                    shape = shape.with("batch", seqs);
                }
                match lengths.queries.as_deref() {
                    Some([(queries, _)]) => shape = shape.with("q_len", *queries),
                    _ => missing.push("q_lens"),
                }
                missing.push("kv_lens");
            }
        }
        shape = shape.with_flag("causal", true);
        self.push("prefill_attention", Family::Fmha, shape, self.plain(), at);
        self.masked(mask, part, missing);
    }

    /// Attention over the paged cache.
    fn decode_attention(
        &mut self,
        role: &'static str,
        family: Family,
        mut shape: ShapeMap,
        mask: Mask,
        part: &Part,
        at: At<'_>,
    ) {
        let lengths = part.lengths();
        let mut missing = Vec::new();
        match (&lengths.contexts, part.seqs, part.sums.nkv) {
            (Some(contexts), ..) if listable(contexts) => match contexts[..] {
                [(context, count)] => shape = shape.with("batch", count).with("ctx", context),
                _ => {
                    let spread = contexts.iter().flat_map(|run| std::iter::repeat_n(run.0, run.1 as usize));
                    shape = shape.with_list("ctx", spread.collect());
                }
            },
            (_, Some(seqs), Some(nkv)) if u64::try_from(nkv).is_ok() => {
                shape = shape.with("batch", seqs).with("ctx_total", nkv as u64);
            }
            (_, seqs, _) => {
                shape = seqs.into_iter().fold(shape, |shape, seqs| shape.with("batch", seqs));
                missing.push("ctx");
            }
        }
        let q_len = match lengths.queries.as_deref() {
            Some([(queries, _)]) => Some(*queries),
            _ => self.rows.q_len,
        };
        match q_len {
            Some(q_len) => shape = shape.with("q_len", q_len),
            None => missing.push("q_len"),
        }
        if let Some(block_size) = self.serving.block_size {
            shape = shape.with("block_size", block_size);
        }
        let (kv_dtype, assumed) = (self.serving.kv_dtype, self.serving.kv_dtype.is_none());
        let dtypes = self.plain().with("kv", kv_dtype.unwrap_or(self.model.dtype));
        self.push(role, family, shape, dtypes, at);
        self.masked(mask, part, missing);
        self.amend(|expected| {
            if assumed {
                expected.assumed.push("a KV cache in the model's dtype".to_owned());
            } else if expected.dtypes.get("kv") != expected.dtypes.default_tag() {
                expected.assumed.push("a quantised KV cache with one scale for all of it".to_owned());
            }
        });
    }

    /// Adds the mask and what is missing to the attention that was pushed last.
    fn masked(&mut self, mask: Mask, part: &Part, missing: Vec<&'static str>) {
        let longest = part.lengths().contexts.and_then(|runs| runs.iter().map(|run| run.0).max());
        let reaches = |limit: u64| longest.is_none_or(|longest| longest > limit);
        self.amend(|expected| {
            expected.missing.extend(missing);
            // The families replay full and windowed attention; within one chunk or top-k both are full.
            let (key, limit) = match mask {
                Mask::Full => return,
                Mask::Window(window) => ("window", window),
                Mask::TopK(topk) => ("topk", topk),
                Mask::Chunk(chunk) => ("chunk", chunk),
            };
            let special = key != "window" && expected.family != Family::Mla;
            if special && !reaches(limit) {
                return;
            }
            if special {
                expected.missing.push("mask");
            }
            expected.shape = std::mem::take(&mut expected.shape).with(key, limit);
        });
    }

    fn kv_cache(&mut self, kv_heads: u64, head_dim: u64, at: At<'_>) {
        let shape =
            ShapeMap::new().with("tokens", self.rows.rows).with("kv_heads", kv_heads).with("head_dim", head_dim);
        let dtypes = self.plain().with("kv", self.serving.kv_dtype.unwrap_or(self.model.dtype));
        self.push("kv_cache_write", Family::KvCache, shape, dtypes, at);
    }
}

/// The phases that a step has, with their sequences.
fn phases(step: &Step) -> Vec<(Phase, &Part)> {
    let both = [(Phase::Prefill, &step.prefill), (Phase::Decode, &step.decode)];
    both.into_iter().filter(|(_, part)| !part.is_none() && step.phase != Phase::Unknown).collect()
}

fn listable(runs: &Runs) -> bool {
    runs.len() == 1 || total_count(runs.iter().map(|run| run.1)) <= MAX_LIST as u64
}

fn total_count(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}
