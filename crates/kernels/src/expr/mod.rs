//! The expression language of launch rules: small, typed, total. No loops, no state; every expression ends with a value
//! or an error that names the column.
//!
//! Whole numbers are i128 and checked; `/` truncates towards zero and `%` has the sign of the dividend, as in C. A
//! fractional operand makes an operation fractional (f64); results are finite or an error. `&&`, `||` and `select`
//! evaluate only what they need, so `k > 0 && n % k == 0` is safe. The grammar is in `docs/launch-descriptors.md`.

mod eval;
mod lexer;
mod parser;

use std::fmt;

pub use eval::Scope;

/// The longest expression, bytes.
pub const MAX_LENGTH: usize = 2000;
/// The deepest nesting of parentheses, calls and unary operators.
pub const MAX_DEPTH: usize = 40;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    text: String,
    /// Operands come before their operation; the last node is the whole expression.
    nodes: Vec<Node>,
}

/// An index into [`Expr::nodes`].
type NodeId = usize;

#[derive(Clone, Debug, PartialEq)]
struct Node {
    kind: NodeKind,
    /// Byte offset of the operator, name or literal in the text.
    at: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum NodeKind {
    Int(i128),
    Float(f64),
    Word(String),
    Name(String),
    Negate(NodeId),
    Not(NodeId),
    Binary(Binary, NodeId, NodeId),
    Call(Function, Vec<NodeId>),
    /// A property of a tensor: its arguments are the tensor's name and, for some, an axis. `has` takes any name.
    Tensor(Property, String, Option<NodeId>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binary {
    Or,
    And,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    CeilDiv,
    Min,
    Max,
    Sum,
    NextPow2,
    Log2,
    AlignUp,
    Sqrt,
    Floor,
    Ceil,
    Select,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Property {
    Bytes,
    Len,
    Dim,
    Stride,
    Bits,
    Has,
}

/// Functions with their least and greatest number of arguments.
const FUNCTIONS: &[(&str, Function, usize, usize)] = &[
    ("ceil_div", Function::CeilDiv, 2, 2),
    ("min", Function::Min, 1, 16),
    ("max", Function::Max, 1, 16),
    ("sum", Function::Sum, 1, 1),
    ("next_pow2", Function::NextPow2, 1, 1),
    ("log2", Function::Log2, 1, 1),
    ("align_up", Function::AlignUp, 2, 2),
    ("sqrt", Function::Sqrt, 1, 1),
    ("floor", Function::Floor, 1, 1),
    ("ceil", Function::Ceil, 1, 1),
    ("select", Function::Select, 3, 3),
];

/// Properties of tensors; true when an axis follows the name.
const PROPERTIES: &[(&str, Property, bool)] = &[
    ("bytes", Property::Bytes, false),
    ("len", Property::Len, false),
    ("dim", Property::Dim, true),
    ("stride", Property::Stride, true),
    ("bits", Property::Bits, false),
    ("has", Property::Has, false),
];

/// Names with a meaning of their own: neither a constant nor a loop variable may be called so.
pub const RESERVED: &[&str] = &["true", "false", "log2e", "cu_count", "wave_size", "lds_limit", "arch"];

/// True when a name is a function's, a property's or [`RESERVED`].
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
        || FUNCTIONS.iter().any(|(known, ..)| *known == name)
        || PROPERTIES.iter().any(|(known, ..)| *known == name)
}

/// True when text can be a name.
pub fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl Expr {
    /// Parses an expression.
    ///
    /// # Errors
    /// When the text is not one; the error holds the column.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        parser::parse(text)
    }

    /// The text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The tensors it asks about.
    pub fn tensors(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Tensor(property, name, _) if *property != Property::Has => Some(name.as_str()),
            _ => None,
        })
    }

    /// The names it uses, tensors aside.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().filter_map(|node| match &node.kind {
            NodeKind::Name(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// An expression that is not one, or that has no value for a case.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("column {}: {problem}", .at + 1)]
pub struct ExprError {
    /// Byte offset in the expression; columns count from 1.
    pub at: usize,
    /// What is wrong.
    pub problem: Problem,
}

impl ExprError {
    fn new(at: usize, problem: Problem) -> Self {
        Self { at, problem }
    }
}

/// What can be wrong with an expression.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Problem {
    #[error("the expression is empty")]
    Empty,
    #[error("the expression has {0} bytes; at most {MAX_LENGTH} are taken")]
    TooLong(usize),
    #[error("nested deeper than {MAX_DEPTH}")]
    TooDeep,
    #[error("the character {0:?} has no meaning here")]
    Character(char),
    #[error("the word that opens here has no closing quote")]
    OpenQuote,
    #[error("`{0}` is no number")]
    Number(String),
    #[error("{found} where {wanted} is needed")]
    Expected { wanted: &'static str, found: String },
    #[error("comparisons do not chain: join two of them with &&")]
    Chained,
    #[error("there is no function `{name}`; there are {known}")]
    UnknownFunction { name: String, known: String },
    #[error("`{name}` takes {wanted} arguments, not {found}")]
    Arguments { name: &'static str, wanted: String, found: usize },
    #[error("the name `{0}` is neither a shape key of this case nor a constant of the variant")]
    UnknownName(String),
    #[error("the case has no tensor `{0}`")]
    UnknownTensor(String),
    #[error("`{0}` is a function: call it with (...)")]
    NotCalled(String),
    #[error("the tensor `{name}` has {dims} dimensions, no dimension {axis}")]
    Axis { name: String, dims: usize, axis: i128 },
    #[error("the rows of `{name}` along dimension {axis} are no whole number of bytes")]
    SubByte { name: String, axis: i128 },
    #[error("{found} where {wanted} is needed")]
    Type { wanted: &'static str, found: &'static str },
    #[error("a list where one number is needed: take max(..), min(..), sum(..) or len(..) of it")]
    List,
    #[error("a {left} and a {right} cannot be compared")]
    Compare { left: &'static str, right: &'static str },
    #[error("division by zero")]
    ZeroDivision,
    #[error("the result does not fit 128 bits")]
    Overflow,
    #[error("the result is not a finite number")]
    NotFinite,
    #[error("{function} of {value} has no value: {wanted} is needed")]
    Domain { function: &'static str, value: String, wanted: &'static str },
    #[error("{value} does not fit {wanted}")]
    Range { value: i128, wanted: &'static str },
}
