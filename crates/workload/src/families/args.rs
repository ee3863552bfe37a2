//! Reading operator calls: what families share when they recover shapes.

use crate::families::checks::MAX_ELEMENTS;
use crate::{DtypeTag, OpCall, ShapeError, Value};

/// An error about a call, naming the operator.
pub(crate) fn unclear(op: &OpCall, what: &str, found: impl ToString, reason: impl Into<String>) -> ShapeError {
    ShapeError::invalid(&format!("{} {what}", op.base_name()), found, reason)
}

/// The operator without its namespace and overload: `aten::mm.out` is `mm`.
pub(crate) fn local_name(op: &OpCall) -> &str {
    let name = op.base_name();
    let local = name.rsplit("::").next().unwrap_or(name);
    local.split('.').next().unwrap_or(local)
}

/// Dims of a tensor argument that must be there.
pub(crate) fn tensor<'a>(op: &'a OpCall, index: usize, what: &str) -> Result<&'a [u64], ShapeError> {
    op.tensor(index).ok_or_else(|| unclear(op, what, format!("argument {index}"), "is no tensor"))
}

/// The dtype of a tensor argument. One that kbench does not know is an error naming it.
pub(crate) fn dtype(op: &OpCall, index: usize, what: &str) -> Result<DtypeTag, ShapeError> {
    let text = op.args.get(index).map_or("", |arg| arg.dtype.as_str());
    text.parse().map_err(|_| {
        let found = if text.is_empty() { "no type" } else { text };
        ShapeError::dtype(found, format!("of argument {index} ({what}) of {} is not known", op.base_name()))
    })
}

/// The dtype at `index` of a derived tuple such as `dtype_A_B`.
pub(crate) fn derived_dtype(op: &OpCall, key: &str, index: usize) -> Result<DtypeTag, ShapeError> {
    let value = op.params.get(key);
    let text = match value {
        Some(Value::List(items)) => items.get(index).and_then(Value::as_text),
        Some(Value::Text(text)) if index == 0 => Some(text.as_str()),
        _ => None,
    };
    let text = text.ok_or_else(|| unclear(op, key, "nothing", "neither arguments nor parameters give a dtype"))?;
    text.parse().map_err(|_| ShapeError::dtype(text, format!("of `{key}` of {} is not known", op.base_name())))
}

/// All dims but the last, multiplied, and the last.
pub(crate) fn rows_and_width(op: &OpCall, what: &str, dims: &[u64]) -> Result<(u64, u64), ShapeError> {
    let Some((width, leading)) = dims.split_last() else {
        return Err(unclear(op, what, "()", "has no dimensions"));
    };
    let rows = elements(op, what, leading)?;
    if rows == 0 || *width == 0 {
        return Err(unclear(op, what, format!("{dims:?}"), "is empty: nothing to compute"));
    }
    Ok((rows, *width))
}

/// The number of elements, when it is a possible one.
pub(crate) fn elements(op: &OpCall, what: &str, dims: &[u64]) -> Result<u64, ShapeError> {
    let mut count = 1_u128;
    for dim in dims {
        count *= u128::from(*dim);
        if count > MAX_ELEMENTS {
            return Err(unclear(op, what, format!("{dims:?}"), "a tensor has at most 2^48 elements"));
        }
    }
    Ok(count as u64)
}

/// Refuses a derived parameter that says something else than the arguments.
pub(crate) fn agree(op: &OpCall, key: &str, from_args: u64) -> Result<(), ShapeError> {
    match op.size(key) {
        Some(derived) if derived != from_args => Err(unclear(
            op,
            key,
            derived,
            format!("the arguments say {from_args}; the report and its arguments do not belong together"),
        )),
        _ => Ok(()),
    }
}

/// A derived tuple of sizes such as `op_shape`.
pub(crate) fn derived_dims(op: &OpCall, key: &str) -> Option<Vec<u64>> {
    op.params.get(key)?.as_list()?.iter().map(Value::as_size).collect()
}

/// The value of a scalar argument as a number.
pub(crate) fn number(op: &OpCall, index: usize) -> Option<f64> {
    op.args.get(index).filter(|arg| arg.tensor().is_none())?.concrete.trim().parse().ok()
}
