//! Shapes from operator calls: PyTorch's embedding and the row selection that it runs.

use super::TABLES;
use crate::families::args::{dtype, elements, local_name, number, tensor, unclear};
use crate::{Dtype, DtypeTag, Dtypes, Family, OpCall, Recovered, ShapeError, ShapeMap};

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    if !op.base_name().starts_with("aten::") {
        return None;
    }
    match local_name(op) {
        // (weight, indices, padding_idx, scale_grad_by_freq, sparse)
        "embedding" => Some(from_args(op, 0, 1)),
        // (self, dim, index): only whole rows of a matrix are an embedding.
        "index_select" if number(op, 1) == Some(0.0) && op.tensor(0).is_some_and(|dims| dims.len() == 2) => {
            Some(from_args(op, 0, 2))
        }
        _ => None,
    }
}

fn from_args(op: &OpCall, table: usize, ids: usize) -> Result<Recovered, ShapeError> {
    let dims = tensor(op, table, "table")?;
    let &[vocab, hidden] = dims else {
        return Err(unclear(op, "table", format!("{dims:?}"), "a matrix [vocab, hidden] is needed"));
    };
    let ids_dims = tensor(op, ids, "ids")?;
    let tokens = elements(op, "ids", ids_dims)?;
    if tokens == 0 || vocab == 0 || hidden == 0 {
        return Err(unclear(op, "call", format!("{dims:?} {ids_dims:?}"), "is empty: nothing to compute"));
    }
    let tag = dtype(op, table, "table")?;
    if !matches!(tag, DtypeTag::Exact(table) if TABLES.contains(&table)) {
        return Err(ShapeError::dtype(tag, format!("is not what {} picks rows of: bf16, f16 or f32", op.base_name())));
    }
    let index = dtype(op, ids, "ids")?;
    if !matches!(index, DtypeTag::Exact(Dtype::I32 | Dtype::I64)) {
        return Err(ShapeError::dtype(index, format!("of the ids of {}: i32 or i64 is needed", op.base_name())));
    }
    let shape = ShapeMap::new().with("tokens", tokens).with("vocab", vocab).with("hidden", hidden);
    Ok(Recovered {
        family: Family::Embedding,
        shape: shape.with_word("ids", "zipf"),
        dtypes: Dtypes::uniform(tag).with("ids", index),
        assumed: vec!["ids are log-uniform: the call does not record them".to_owned()],
    })
}
