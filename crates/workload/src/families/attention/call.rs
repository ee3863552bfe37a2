//! Reading attention operator calls of profiles.

use crate::dtype::DtypeTag;
use crate::op::OpCall;
use crate::{ShapeError, Value};

/// Sums over the sequences of one phase of a step, as TraceLens derives them from a step label: Σq, Σk, Σq², Σq·k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) q: u64,
    pub(crate) k: u64,
    pub(crate) qq: u64,
    pub(crate) qk: u64,
}

impl Sums {
    /// The sums of `phase` (`c`: prefill chunks, `g`: generation), when the call has all four.
    pub(crate) fn of(op: &OpCall, phase: &str) -> Option<Self> {
        let sum = |name: &str| op.size(&format!("{phase}_{name}"));
        Some(Self { q: sum("sq")?, k: sum("sk")?, qq: sum("sqsq")?, qk: sum("sqsk")? })
    }
}

/// Decode steps of one token a sequence: (sequences, sum of their context lengths). `None` unless the sums prove it.
///
/// Σn² = Σn over whole numbers holds only when every n is 0 or 1, and a sequence without a query is not in the sums.
pub(crate) fn plain_decode(op: &OpCall) -> Option<(u64, u64)> {
    let (prefill, decode) = (Sums::of(op, "c")?, Sums::of(op, "g")?);
    let proven =
        prefill.q == 0 && decode.q > 0 && decode.qq == decode.q && decode.qk == decode.k && decode.k >= decode.q;
    proven.then_some((decode.q, decode.k))
}

/// A prefill of sequences that all have the same lengths: (q_len, kv_len) of each. `sequences` when the call says how many.
/// `None` unless the sums prove it.
///
/// Σn² · B = (Σn)² holds only when all B lengths are equal (Cauchy and Schwarz); with B = 1 it is the case of one sequence.
pub(crate) fn even_prefill(op: &OpCall, sequences: Option<u64>) -> Option<(u64, u64)> {
    let (prefill, decode) = (Sums::of(op, "c")?, Sums::of(op, "g")?);
    let count = u128::from(sequences.unwrap_or(1));
    let (q, k) = (u128::from(prefill.q), u128::from(prefill.k));
    let even = count > 0 && q > 0 && k >= q && q.is_multiple_of(count) && k.is_multiple_of(count);
    let equal_queries = u128::from(prefill.qq).checked_mul(count)? == q.checked_mul(q)?;
    let consistent = u128::from(prefill.qk).checked_mul(count)? == q.checked_mul(k)?;
    // Equal q_len fix only Σk; the kv_len of several sequences may still differ unless there is no past at all.
    let equal_keys = count == 1 || k == q;
    if decode.q != 0 || !even || !equal_queries || !consistent || !equal_keys {
        return None;
    }
    Some(((q / count) as u64, (k / count) as u64))
}

/// A concrete truth value.
pub(crate) fn flag(op: &OpCall, index: usize) -> Option<bool> {
    match op.args.get(index)?.concrete.trim() {
        "True" | "true" => Some(true),
        "False" | "false" => Some(false),
        _ => None,
    }
}

/// A concrete whole number.
pub(crate) fn int(op: &OpCall, index: usize) -> Option<i64> {
    op.args.get(index)?.concrete.trim().parse().ok()
}

/// A tensor argument of exactly `N` dimensions.
pub(crate) fn tensor<const N: usize>(op: &OpCall, index: usize) -> Option<[u64; N]> {
    op.tensor(index)?.try_into().ok()
}

/// The dtype of an argument.
pub(crate) fn dtype(op: &OpCall, index: usize) -> Result<DtypeTag, ShapeError> {
    let name = op.args.get(index).map_or("", |arg| arg.dtype.as_str());
    name.parse().map_err(|_| ShapeError::dtype(name, format!("argument {index} of {} has no known dtype", op.name)))
}

/// A derived parameter that names a dtype: text, or the first of a tuple.
pub(crate) fn dtype_param(op: &OpCall, key: &str) -> Option<DtypeTag> {
    let value = op.params.get(key)?;
    let first = value.as_list().and_then(<[Value]>::first).unwrap_or(value);
    first.as_text()?.parse().ok()
}

/// Dims that contradict each other: an error, never a guess.
pub(crate) fn contradiction(op: &OpCall, what: &str) -> ShapeError {
    let dims: Vec<String> = op.args.iter().filter_map(|arg| arg.tensor()).map(|dims| format!("{dims:?}")).collect();
    ShapeError::invalid(&op.name, dims.join(" "), what)
}
