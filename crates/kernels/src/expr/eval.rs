//! Nodes to values.

use super::{Binary, Expr, ExprError, Function, NodeId, NodeKind, Problem, Property};
use crate::symbols::{DeviceInfo, Symbols, Value};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What an expression is evaluated against. Names are looked up in this order: the language's own (`cu_count`, ...),
/// the local value, the constants, the shape.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Sizes and tensors of the case.
    pub symbols: &'a dyn Symbols,
    /// Constants of the variant.
    pub constants: &'a BTreeMap<String, i128>,
    /// The device.
    pub device: &'a DeviceInfo,
    /// A value with a name of its own (`it` in `each`).
    pub local: Option<(&'a str, i128)>,
}

impl Expr {
    /// The value.
    ///
    /// # Errors
    /// When a name is unknown, a type does not fit, or the arithmetic has no result.
    pub fn value<'a>(&self, scope: &Scope<'a>) -> Result<Value<'a>, ExprError> {
        self.node(self.root(), scope)
    }

    /// A truth value.
    ///
    /// # Errors
    /// As [`Expr::value`], and when it is something else.
    pub fn truth(&self, scope: &Scope<'_>) -> Result<bool, ExprError> {
        self.bool_at(self.root(), scope)
    }

    /// A whole number.
    ///
    /// # Errors
    /// As [`Expr::value`], and when it is something else.
    pub fn int(&self, scope: &Scope<'_>) -> Result<i128, ExprError> {
        self.int_at(self.root(), scope)
    }

    /// A number.
    ///
    /// # Errors
    /// As [`Expr::value`], and when it is something else.
    pub fn float(&self, scope: &Scope<'_>) -> Result<f64, ExprError> {
        let root = self.root();
        let value = self.node(root, scope)?;
        self.number(root, value).map(Number::to_f64)
    }

    /// A whole number of a narrower type, named `wanted` in the error.
    ///
    /// # Errors
    /// As [`Expr::int`], and when it does not fit.
    pub fn fit<T: TryFrom<i128>>(&self, scope: &Scope<'_>, wanted: &'static str) -> Result<T, ExprError> {
        let value = self.int(scope)?;
        T::try_from(value).map_err(|_| ExprError::new(0, Problem::Range { value, wanted }))
    }

    fn root(&self) -> NodeId {
        self.nodes.len() - 1
    }

    fn error(&self, id: NodeId, problem: Problem) -> ExprError {
        ExprError::new(self.nodes[id].at, problem)
    }

    fn node<'a>(&self, id: NodeId, scope: &Scope<'a>) -> Result<Value<'a>, ExprError> {
        match &self.nodes[id].kind {
            NodeKind::Int(value) => Ok(Value::Int(*value)),
            NodeKind::Float(value) => Ok(Value::Float(*value)),
            NodeKind::Word(word) => Ok(Value::Word(Cow::Owned(word.clone()))),
            NodeKind::Name(name) => self.name(id, name, scope),
            NodeKind::Not(operand) => self.bool_at(*operand, scope).map(|value| Value::Bool(!value)),
            NodeKind::Negate(operand) => match self.number_at(*operand, scope)? {
                Number::Int(value) => self.checked(id, value.checked_neg()),
                Number::Float(value) => Ok(Value::Float(-value)),
            },
            NodeKind::Binary(Binary::And, left, right) => {
                Ok(Value::Bool(self.bool_at(*left, scope)? && self.bool_at(*right, scope)?))
            }
            NodeKind::Binary(Binary::Or, left, right) => {
                Ok(Value::Bool(self.bool_at(*left, scope)? || self.bool_at(*right, scope)?))
            }
            NodeKind::Binary(operator, left, right) => self.binary(id, *operator, *left, *right, scope),
            NodeKind::Call(function, arguments) => self.call(id, *function, arguments, scope),
            NodeKind::Tensor(property, name, axis) => self.property(id, *property, name, *axis, scope),
        }
    }

    fn name<'a>(&self, id: NodeId, name: &str, scope: &Scope<'a>) -> Result<Value<'a>, ExprError> {
        let value = match name {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "log2e" => Value::Float(std::f64::consts::LOG2_E),
            "cu_count" => Value::Int(scope.device.cu_count.into()),
            "wave_size" => Value::Int(scope.device.wave_size.into()),
            "lds_limit" => Value::Int(scope.device.lds_bytes.into()),
            "arch" => Value::Word(Cow::Borrowed(&scope.device.arch)),
            _ => match scope.local {
                Some((local, value)) if local == name => Value::Int(value),
                _ => match scope.constants.get(name) {
                    Some(value) => Value::Int(*value),
                    None => scope
                        .symbols
                        .value(name)
                        .ok_or_else(|| self.error(id, Problem::UnknownName(name.to_owned())))?,
                },
            },
        };
        Ok(value)
    }

    fn bool_at(&self, id: NodeId, scope: &Scope<'_>) -> Result<bool, ExprError> {
        match self.node(id, scope)? {
            Value::Bool(value) => Ok(value),
            other => Err(self.error(id, Problem::Type { wanted: "a truth value", found: other.kind() })),
        }
    }

    fn int_at(&self, id: NodeId, scope: &Scope<'_>) -> Result<i128, ExprError> {
        match self.number_at(id, scope)? {
            Number::Int(value) => Ok(value),
            Number::Float(_) => {
                Err(self.error(id, Problem::Type { wanted: "a whole number", found: "a fractional number" }))
            }
        }
    }

    fn number_at(&self, id: NodeId, scope: &Scope<'_>) -> Result<Number, ExprError> {
        let value = self.node(id, scope)?;
        self.number(id, value)
    }

    fn number(&self, id: NodeId, value: Value<'_>) -> Result<Number, ExprError> {
        match value {
            Value::Int(value) => Ok(Number::Int(value)),
            Value::Float(value) => Ok(Number::Float(value)),
            Value::List(_) => Err(self.error(id, Problem::List)),
            other => Err(self.error(id, Problem::Type { wanted: "a number", found: other.kind() })),
        }
    }

    fn checked<'a>(&self, id: NodeId, value: Option<i128>) -> Result<Value<'a>, ExprError> {
        value.map(Value::Int).ok_or_else(|| self.error(id, Problem::Overflow))
    }

    fn finite<'a>(&self, id: NodeId, value: f64) -> Result<Value<'a>, ExprError> {
        if value.is_finite() { Ok(Value::Float(value)) } else { Err(self.error(id, Problem::NotFinite)) }
    }

    fn binary<'a>(
        &self,
        id: NodeId,
        operator: Binary,
        left: NodeId,
        right: NodeId,
        scope: &Scope<'a>,
    ) -> Result<Value<'a>, ExprError> {
        let (a, b) = (self.node(left, scope)?, self.node(right, scope)?);
        let ordering = match operator {
            Binary::Eq | Binary::Ne => {
                let equal = self.equal(id, &a, &b)?;
                return Ok(Value::Bool(equal == (operator == Binary::Eq)));
            }
            Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge => self.number(left, a)?.compare(&self.number(right, b)?),
            _ => return self.arithmetic(id, operator, self.number(left, a)?, self.number(right, b)?),
        };
        Ok(Value::Bool(match operator {
            Binary::Lt => ordering == Ordering::Less,
            Binary::Le => ordering != Ordering::Greater,
            Binary::Gt => ordering == Ordering::Greater,
            _ => ordering != Ordering::Less,
        }))
    }

    fn equal(&self, id: NodeId, a: &Value<'_>, b: &Value<'_>) -> Result<bool, ExprError> {
        match (a, b) {
            (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
            (Value::Word(a), Value::Word(b)) => Ok(a == b),
            (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => {
                let (a, b) = (self.number(id, a.clone())?, self.number(id, b.clone())?);
                Ok(a.compare(&b) == Ordering::Equal)
            }
            (Value::List(_), _) | (_, Value::List(_)) => Err(self.error(id, Problem::List)),
            _ => {
                let short = |value: &Value<'_>| value.kind().trim_start_matches("a ");
                Err(self.error(id, Problem::Compare { left: short(a), right: short(b) }))
            }
        }
    }

    fn arithmetic<'a>(&self, id: NodeId, operator: Binary, a: Number, b: Number) -> Result<Value<'a>, ExprError> {
        if matches!(operator, Binary::Div | Binary::Rem) && b.is_zero() {
            return Err(self.error(id, Problem::ZeroDivision));
        }
        if let (Number::Int(a), Number::Int(b)) = (a, b) {
            let value = match operator {
                Binary::Add => a.checked_add(b),
                Binary::Sub => a.checked_sub(b),
                Binary::Mul => a.checked_mul(b),
                Binary::Div => a.checked_div(b),
                _ => a.checked_rem(b),
            };
            return self.checked(id, value);
        }
        let (a, b) = (a.to_f64(), b.to_f64());
        let value = match operator {
            Binary::Add => a + b,
            Binary::Sub => a - b,
            Binary::Mul => a * b,
            Binary::Div => a / b,
            _ => a % b,
        };
        self.finite(id, value)
    }

    fn call<'a>(
        &self,
        id: NodeId,
        function: Function,
        arguments: &[NodeId],
        scope: &Scope<'a>,
    ) -> Result<Value<'a>, ExprError> {
        let domain = |function, value: &dyn std::fmt::Display, wanted| {
            self.error(id, Problem::Domain { function, value: value.to_string(), wanted })
        };
        match (function, arguments) {
            (Function::Select, [condition, yes, no]) => {
                let chosen = if self.bool_at(*condition, scope)? { yes } else { no };
                self.node(*chosen, scope)
            }
            (Function::Min | Function::Max | Function::Sum, [only]) => match self.node(*only, scope)? {
                Value::List(values) => {
                    let value = match function {
                        Function::Min => values.iter().min().map(|value| i128::from(*value)),
                        Function::Max => values.iter().max().map(|value| i128::from(*value)),
                        // At most 2^64 values below 2^64.
                        _ => Some(values.iter().map(|value| i128::from(*value)).sum()),
                    };
                    value.map(Value::Int).ok_or_else(|| domain("min or max", &"an empty list", "a value"))
                }
                other => self.number(*only, other).map(Number::value),
            },
            (Function::Min | Function::Max, _) => {
                let mut best = None;
                for argument in arguments {
                    let value = self.number_at(*argument, scope)?;
                    let wanted = if function == Function::Min { Ordering::Less } else { Ordering::Greater };
                    if best.is_none_or(|best| value.compare(&best) == wanted) {
                        best = Some(value);
                    }
                }
                best.map(Number::value).ok_or_else(|| domain("min or max", &"nothing", "a value"))
            }
            (Function::CeilDiv | Function::AlignUp, [value, unit]) => {
                let (value, unit) = (self.int_at(*value, scope)?, self.int_at(*unit, scope)?);
                if unit == 0 {
                    return Err(self.error(id, Problem::ZeroDivision));
                }
                if unit < 0 || value < 0 {
                    let name = if function == Function::CeilDiv { "ceil_div" } else { "align_up" };
                    return Err(domain(name, &format!("{value} and {unit}"), "a size and a positive unit"));
                }
                let count = value / unit + i128::from(value % unit != 0);
                if function == Function::CeilDiv {
                    return Ok(Value::Int(count));
                }
                self.checked(id, count.checked_mul(unit))
            }
            (Function::NextPow2, [value]) => {
                let value = self.int_at(*value, scope)?;
                match value.max(1).unsigned_abs().checked_next_power_of_two().and_then(|power| power.try_into().ok()) {
                    Some(power) if value >= 0 => Ok(Value::Int(power)),
                    Some(_) => Err(domain("next_pow2", &value, "a size")),
                    None => Err(self.error(id, Problem::Overflow)),
                }
            }
            (Function::Log2, [value]) => match self.number_at(*value, scope)? {
                Number::Int(value) if value > 0 => Ok(Value::Int(value.ilog2().into())),
                Number::Float(value) if value > 0.0 => self.finite(id, value.log2()),
                other => Err(domain("log2", &other.value(), "a positive number")),
            },
            (Function::Sqrt, [value]) => match self.number_at(*value, scope)?.to_f64() {
                value if value >= 0.0 => self.finite(id, value.sqrt()),
                value => Err(domain("sqrt", &value, "a number that is not negative")),
            },
            (Function::Floor | Function::Ceil, [value]) => match self.number_at(*value, scope)? {
                Number::Int(value) => Ok(Value::Int(value)),
                Number::Float(value) => {
                    let whole = if function == Function::Floor { value.floor() } else { value.ceil() };
                    // The largest f64 below 2^127 converts exactly.
                    let fits = whole.abs() < 2f64.powi(127);
                    self.checked(id, fits.then_some(whole as i128))
                }
            },
            // The parser has counted the arguments.
            _ => Err(self.error(id, Problem::Empty)),
        }
    }

    fn property<'a>(
        &self,
        id: NodeId,
        property: Property,
        name: &str,
        axis: Option<NodeId>,
        scope: &Scope<'a>,
    ) -> Result<Value<'a>, ExprError> {
        if property == Property::Has {
            let known = scope.symbols.tensor(name).is_some()
                || scope.symbols.value(name).is_some()
                || scope.constants.contains_key(name);
            return Ok(Value::Bool(known));
        }
        let Some(tensor) = scope.symbols.tensor(name) else {
            if property == Property::Len
                && let Some(Value::List(values)) = scope.symbols.value(name)
            {
                return Ok(Value::Int(values.len() as i128));
            }
            return Err(self.error(id, Problem::UnknownTensor(name.to_owned())));
        };
        let axis = axis.map(|axis| self.int_at(axis, scope)).transpose()?;
        let no_axis = |axis| Problem::Axis { name: name.to_owned(), dims: tensor.dims.len(), axis };
        let index = match axis {
            None => 0,
            Some(axis) => usize::try_from(axis)
                .ok()
                .filter(|index| *index < tensor.dims.len())
                .ok_or_else(|| self.error(id, no_axis(axis)))?,
        };
        let value = match property {
            Property::Bits | Property::Has => Some(i128::from(tensor.bits)),
            Property::Len => tensor.elements(),
            Property::Bytes => tensor.bytes(),
            Property::Dim => tensor.dims.get(index).map(|dim| i128::from(*dim)),
            Property::Stride => {
                let stride = tensor.stride(index);
                if stride.is_none() && tensor.bytes().is_some() {
                    let problem = Problem::SubByte { name: name.to_owned(), axis: index as i128 };
                    return Err(self.error(id, problem));
                }
                stride
            }
        };
        self.checked(id, value)
    }
}

#[derive(Clone, Copy, Debug)]
enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    fn to_f64(self) -> f64 {
        match self {
            Number::Int(value) => value as f64,
            Number::Float(value) => value,
        }
    }

    fn value<'a>(self) -> Value<'a> {
        match self {
            Number::Int(value) => Value::Int(value),
            Number::Float(value) => Value::Float(value),
        }
    }

    fn is_zero(self) -> bool {
        match self {
            Number::Int(value) => value == 0,
            Number::Float(value) => value == 0.0,
        }
    }

    /// Fractional numbers are finite, so there is always an order.
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a.cmp(b),
            (a, b) => a.to_f64().partial_cmp(&b.to_f64()).unwrap_or(Ordering::Equal),
        }
    }
}
