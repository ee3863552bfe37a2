//! Shapes from operator calls: aiter's sampling and PyTorch's argmax.

use super::FLOATS;
use crate::families::args::{dtype, elements, local_name, number, rows_and_width, tensor, unclear};
use crate::{Dtype, DtypeTag, Dtypes, Family, OpCall, Recovered, ShapeError, ShapeMap};

/// Recovers a shape of this family from an operator call (`aiter/ops/sample.py`, `aten::argmax`).
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    match local_name(op) {
        // (out, input)
        "greedy_sample" => Some(from_out(op, "greedy")),
        // (out, input, exponentials, temperatures, eps)
        "random_sample_outer_exponential" => Some(from_noise(op, "random")),
        "mixed_sample_outer_exponential" => Some(from_noise(op, "mixed")),
        local @ ("random_sample" | "mixed_sample") if op.base_name().starts_with("aiter::") => {
            Some(Err(unclear(op, "call", local, "no case can be made of it: it draws its noise itself")))
        }
        // (self, dim, keepdim)
        "argmax" if op.base_name().starts_with("aten::") => Some(argmax(op)),
        _ => None,
    }
}

fn argmax(op: &OpCall) -> Result<Recovered, ShapeError> {
    let dims = tensor(op, 0, "input")?;
    let last = dims.len() as f64 - 1.0;
    match number(op, 1) {
        Some(dim) if dim == -1.0 || dim == last => {}
        None if dims.len() == 1 => {}
        dim => {
            let found = dim.map_or("no dim".to_owned(), |dim| format!("dim {dim}"));
            return Err(unclear(op, "dim", found, "only the largest along the last dimension is a greedy sample"));
        }
    }
    let (batch, vocab) = rows_and_width(op, "input", dims)?;
    built(op, "greedy", batch, vocab, 0, DtypeTag::Exact(Dtype::I64))
}

/// Calls with the output first and logits second.
fn from_out(op: &OpCall, mode: &str) -> Result<Recovered, ShapeError> {
    let dims = tensor(op, 1, "logits")?;
    let (batch, vocab) = rows_and_width(op, "logits", dims)?;
    let out_dims = tensor(op, 0, "output")?;
    if elements(op, "output", out_dims)? != batch {
        return Err(unclear(
            op,
            "output",
            format!("{out_dims:?}"),
            format!("one token for each of {batch} rows is expected"),
        ));
    }
    let out = dtype(op, 0, "output")?;
    built(op, mode, batch, vocab, 1, out)
}

fn from_noise(op: &OpCall, mode: &str) -> Result<Recovered, ShapeError> {
    let mut recovered = from_out(op, mode)?;
    let dims = tensor(op, 2, "exponentials")?;
    if elements(op, "exponentials", dims)? != elements(op, "logits", tensor(op, 1, "logits")?)? {
        return Err(unclear(op, "exponentials", format!("{dims:?}"), "one for each logit is expected"));
    }
    if mode == "mixed" {
        recovered.assumed.push("every second row is greedy: the call does not record its temperatures".to_owned());
    }
    Ok(recovered)
}

fn built(
    op: &OpCall,
    mode: &str,
    batch: u64,
    vocab: u64,
    logits: usize,
    out: DtypeTag,
) -> Result<Recovered, ShapeError> {
    let logits = dtype(op, logits, "logits")?;
    if !matches!(logits, DtypeTag::Exact(logits) if FLOATS.contains(&logits)) {
        return Err(ShapeError::dtype(
            logits,
            format!("is not what {} samples from: bf16, f16 or f32", op.base_name()),
        ));
    }
    if !matches!(out, DtypeTag::Exact(Dtype::I32 | Dtype::I64)) {
        return Err(ShapeError::dtype(out, format!("of the tokens of {}: i32 or i64 is needed", op.base_name())));
    }
    Ok(Recovered {
        family: Family::Sampling,
        shape: ShapeMap::new().with("batch", batch).with("vocab", vocab).with_word("mode", mode),
        dtypes: Dtypes::uniform(logits).with("out", out),
        assumed: Vec::new(),
    })
}
