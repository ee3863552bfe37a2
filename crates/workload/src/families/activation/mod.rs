//! `activation`: silu or gelu of each element, by default gated: multiplied with the second half of the row.
//!
//! With `mul=true` the input is [rows, 2·hidden], gate then up, and out = act(gate) · up; without it the input is
//! [rows, hidden]. The output may be quantised as a norm's.
//!
//! Keys: `rows`, `hidden` (width of the output), `kind=silu|gelu|gelu_tanh`, `mul=true|false`,
//! `quant=none|per_token|group`, `group`. Dtype roles: `x`, `out`.

mod recover;
mod reference;
#[cfg(test)]
mod tests;

pub(crate) use recover::recover;

use crate::families::checks::{bounded, dtype_of, only_roles, own_dtype};
use crate::families::row_quant::{RowQuant, smallest_step};
use crate::{
    CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, TensorSet, TensorSpec, Tolerance, Work, Workload, narrow,
    random,
};

const FAMILY: &str = "activation";
const FLOATS: &[Dtype] = &[Dtype::Bf16, Dtype::F16, Dtype::F32];

/// The function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// x / (1 + e^−x).
    Silu,
    /// x/2 · (1 + erf(x/√2)).
    Gelu,
    /// x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³))).
    GeluTanh,
}

const KINDS: &[(Kind, &str)] = &[(Kind::Silu, "silu"), (Kind::Gelu, "gelu"), (Kind::GeluTanh, "gelu_tanh")];

impl Kind {
    /// Name in shapes.
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("?", |(_, name)| name)
    }

    /// Operations on one element; +, −, ·, ÷ and each of exp, erf and tanh count one, in the forms of [`Kind`]'s documentation
    /// (the cubic as x · (1 + c·x²) with √(2/π) multiplied in).
    pub fn flops(self) -> u64 {
        match self {
            Kind::Silu => 4,
            Kind::Gelu => 5,
            Kind::GeluTanh => 8,
        }
    }
}

/// A validated case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activation {
    /// Tokens.
    pub rows: u64,
    /// Width of the output.
    pub hidden: u64,
    /// The function.
    pub kind: Kind,
    /// Multiplies with the second half of the input's row.
    pub mul: bool,
    /// Quantisation of the output.
    pub quant: RowQuant,
    /// Dtype of the input.
    pub x: Dtype,
    /// Dtype of the output.
    pub out: Dtype,
}

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(Activation::new(shape, dtypes, options)?))
}

impl Activation {
    /// Validates a shape.
    ///
    /// # Errors
    /// On a missing, unknown or impossible key, or a dtype that the family does not take.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, &["rows", "hidden", "kind", "mul", "quant", "group"])?;
        only_roles(FAMILY, dtypes, &["x", "out"])?;
        let rows = shape.need(FAMILY, "rows", "tokens")?;
        let hidden = shape.need(FAMILY, "hidden", "width of the output")?;
        bounded("2,rows,hidden", &[2, rows, hidden])?;
        let word = shape.word("kind")?.unwrap_or("silu");
        let kind = KINDS.iter().find(|(_, name)| *name == word).map(|(kind, _)| *kind);
        let quant = RowQuant::parse(shape, hidden)?;
        let x = dtype_of(FAMILY, dtypes, "x", options.fp8, FLOATS)?;
        Ok(Self {
            rows,
            hidden,
            kind: kind.ok_or_else(|| ShapeError::invalid("kind", word, "silu, gelu or gelu_tanh is needed"))?,
            mul: shape.flag("mul")?.unwrap_or(true),
            quant,
            x,
            out: quant.out_dtype(FAMILY, own_dtype(dtypes, "out", options.fp8), x, FLOATS, options.fp8)?,
        })
    }

    /// Width of the input.
    fn width(&self) -> u64 {
        if self.mul { 2 * self.hidden } else { self.hidden }
    }
}

impl Workload for Activation {
    fn family(&self) -> Family {
        Family::Activation
    }

    fn shape(&self) -> ShapeMap {
        let shape = ShapeMap::new().with("rows", self.rows).with("hidden", self.hidden);
        self.quant.describe(shape.with_word("kind", self.kind.name()).with_flag("mul", self.mul))
    }

    fn dtypes(&self) -> Dtypes {
        let dtypes = Dtypes::uniform(self.x);
        if self.out == self.x { dtypes } else { dtypes.with("out", self.out) }
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let mut tensors = vec![
            TensorSpec::input("x", self.x, &[self.rows, self.width()]),
            TensorSpec::output("out", self.out, &[self.rows, self.hidden]),
        ];
        if let Some(dims) = self.quant.scale_dims(self.rows, self.hidden) {
            tensors.push(TensorSpec::output("scale", Dtype::F32, &dims));
        }
        tensors
    }

    /// FLOPs an output element: the function's, one for the gate, two for the quantisation (a comparison and a
    /// multiplication). All f32.
    fn work(&self) -> Work {
        let (rows, elements) = (u128::from(self.rows), u128::from(self.rows) * u128::from(self.hidden));
        let quant = if self.quant == RowQuant::None { 0 } else { 2 };
        let per_element = u128::from(self.kind.flops()) + u128::from(self.mul) + quant;
        let mut work = Work::default();
        work.add_flops(Dtype::F32, per_element * elements);
        let out = self.out.bytes(elements);
        let scales = Dtype::F32.bytes(rows * self.quant.scales_per_row(self.hidden) as u128);
        work.bytes_read = self.x.bytes(rows * u128::from(self.width()));
        work.bytes_written = out + scales;
        work.explain = vec![
            format!("FLOPs = {per_element}·rows·hidden = {} (f32)", work.total_flops()),
            format!("bytes read = x {}", work.bytes_read),
            format!("bytes written = out {out} + scales {scales}"),
        ];
        work
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        random::fill_normal(tensors.get_mut("x"), seed, 0.0, 2.0);
    }

    fn reference(&self, tensors: &mut TensorSet) {
        reference::reference(self, tensors);
    }

    fn naive(&self, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
        reference::naive(self, tensors, name, indices)
    }

    /// One unit of the output, half a unit of x where kernels round the activation before the gate, and 1e-5 for fast
    /// exponentials; the absolute part covers the tails of gelu, where 1 + erf cancels.
    fn tolerance(&self, name: &str) -> Tolerance {
        let inner = narrow::epsilon(self.x) + 1e-5;
        let (abs, rel) = match name {
            "scale" => (0.0, inner),
            _ if self.quant == RowQuant::None => (1e-5, narrow::epsilon(self.out) + inner),
            _ if self.out == Dtype::I8 => (1.0, inner),
            _ => (smallest_step(self.out), narrow::epsilon(self.out) + inner),
        };
        Tolerance { abs, rel, mismatch_share: 0.0 }
    }
}
