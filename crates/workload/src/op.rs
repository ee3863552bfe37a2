//! An operator call as a profile recorded it, and the shape recovered from it.

use crate::dtype::Dtypes;
use crate::family::Family;
use crate::shape::ShapeMap;
use std::collections::BTreeMap;

/// A value of a profile's cell or argument: what Python's `repr` or JSON can say.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `None`, `null` or nothing.
    None,
    /// `True` / `False`.
    Bool(bool),
    /// A whole number.
    Int(i128),
    /// A real number (`np.float64(1.5)` too).
    Float(f64),
    /// A quoted string, or a bare word of a CSV cell.
    Text(String),
    /// A tuple or list.
    List(Vec<Value>),
    /// A dict, in order.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// The value as a size, when it is a whole number ≥ 0 (floats without a fraction count).
    pub fn as_size(&self) -> Option<u64> {
        match self {
            Value::Int(number) => u64::try_from(*number).ok(),
            Value::Float(number) if *number >= 0.0 && number.fract() == 0.0 && *number < 9e15 => Some(*number as u64),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// The value as a truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            Value::Text(text) if text == "True" => Some(true),
            Value::Text(text) if text == "False" => Some(false),
            _ => None,
        }
    }

    /// The value as text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of a tuple or list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(items) => Some(items),
            _ => None,
        }
    }
}

/// The dims of one argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ArgDims {
    /// A scalar, `None` or an absent tensor: `()`.
    #[default]
    None,
    /// A tensor: `(8944, 1024)`. A 0-dimensional tensor reads as [`ArgDims::None`].
    Tensor(Vec<u64>),
    /// A list of tensors, nested one level deeper.
    List(Vec<Vec<u64>>),
}

/// One argument of an operator call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpArg {
    /// Its dims.
    pub dims: ArgDims,
    /// Its type as found: `c10::BFloat16`, `Scalar`, `''`.
    pub dtype: String,
    /// Its strides in elements, empty when unknown.
    pub strides: Vec<i64>,
    /// Its value as text when it is no tensor: `0.125`, `True`, `[-1]`.
    pub concrete: String,
}

impl OpArg {
    /// The dims when it is a tensor with at least one dimension.
    pub fn tensor(&self) -> Option<&[u64]> {
        match &self.dims {
            ArgDims::Tensor(dims) => Some(dims),
            _ => None,
        }
    }
}

/// One operator call: its name, arguments, and whatever a report derived from them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpCall {
    /// Operator name: `aten::mm`, `vllm::unified_attention_with_output`.
    pub name: String,
    /// Arguments in order; empty when unknown.
    pub args: Vec<OpArg>,
    /// Parameters a report derived (TraceLens `perf_params` and `param: X` columns): `M`, `N`, `K`, `H_Q`, `causal`, ...
    pub params: BTreeMap<String, Value>,
    /// Names of the kernels it launched, when known: they settle what arguments leave open (a sliding window, a split).
    pub kernels: Vec<String>,
}

impl OpCall {
    /// Dims of argument `index` when it is a tensor.
    pub fn tensor(&self, index: usize) -> Option<&[u64]> {
        self.args.get(index).and_then(OpArg::tensor)
    }

    /// The operator name without a `_<number>` layer suffix and without TraceLens's `->kernel (Synthetic Op)` tail.
    pub fn base_name(&self) -> &str {
        let name = self.name.split("->").next().unwrap_or(&self.name).trim();
        match name.rsplit_once('_') {
            Some((head, digits))
                if name.starts_with("sglang_profiler::")
                    && !digits.is_empty()
                    && digits.chars().all(|c| c.is_ascii_digit()) =>
            {
                head
            }
            _ => name,
        }
    }

    /// A derived parameter as a size.
    pub fn size(&self, key: &str) -> Option<u64> {
        self.params.get(key).and_then(Value::as_size)
    }
}

/// What a family made of an operator call.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// The family of the call.
    pub family: Family,
    /// Its shape in the family's keys.
    pub shape: ShapeMap,
    /// Its dtypes.
    pub dtypes: Dtypes,
    /// What the call did not say and was assumed, one sentence each (shown with `--explain`, never silent).
    pub assumed: Vec<String>,
}
