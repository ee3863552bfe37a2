//! `rmsnorm`: root-mean-square normalisation of rows, optionally of a sum with the residual stream, optionally quantised.
//!
//! y = s · weight / √(mean(s²) + eps), with s = x, or s = x + residual in f32 when `add=true`; then the residual is replaced by
//! s rounded to x's dtype, while the norm uses the unrounded s (as aiter's `add_rmsnorm_quant_kernel` does; vLLM's own kernel
//! norms the rounded sum, which the tolerance covers).
//!
//! Keys: `rows`, `hidden`, `add=true|false`, `quant=none|per_token|group`, `group`, `eps`. Dtype roles: `x`, `weight`, `out`.

mod recover;
mod reference;
#[cfg(test)]
mod tests;

pub(crate) use recover::recover;

use crate::families::checks::{bounded, check_allowed, dtype_of, only_roles, own_dtype};
use crate::families::row_quant::{RowQuant, smallest_step};
use crate::{
    CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, ShapeValue, TensorSet, TensorSpec, Tolerance, Work,
    Workload, narrow, random,
};

const FAMILY: &str = "rmsnorm";
const FLOATS: &[Dtype] = &[Dtype::Bf16, Dtype::F16, Dtype::F32];

/// A validated case.
#[derive(Clone, Debug, PartialEq)]
pub struct Rmsnorm {
    /// Tokens.
    pub rows: u64,
    /// Elements of a row.
    pub hidden: u64,
    /// Adds the residual stream, and writes it.
    pub add: bool,
    /// Quantisation of the output.
    pub quant: RowQuant,
    /// Added to the mean square.
    pub eps: f64,
    /// Dtype of `x` and `residual`.
    pub x: Dtype,
    /// Dtype of `weight`.
    pub weight: Dtype,
    /// Dtype of `out`.
    pub out: Dtype,
}

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(Rmsnorm::new(shape, dtypes, options)?))
}

impl Rmsnorm {
    /// Validates a shape.
    ///
    /// # Errors
    /// On a missing, unknown or impossible key, or a dtype that the family does not take.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, &["rows", "hidden", "add", "quant", "group", "eps"])?;
        only_roles(FAMILY, dtypes, &["x", "weight", "out"])?;
        let rows = shape.need(FAMILY, "rows", "tokens")?;
        let hidden = shape.need(FAMILY, "hidden", "elements of a row")?;
        bounded("rows,hidden", &[rows, hidden])?;
        let quant = RowQuant::parse(shape, hidden)?;
        let x = dtype_of(FAMILY, dtypes, "x", options.fp8, FLOATS)?;
        let weight = own_dtype(dtypes, "weight", options.fp8).unwrap_or(x);
        let own_out = own_dtype(dtypes, "out", options.fp8);
        Ok(Self {
            rows,
            hidden,
            add: shape.flag("add")?.unwrap_or(false),
            quant,
            eps: eps(shape)?,
            x,
            weight: check_allowed(FAMILY, "weight", weight, FLOATS)?,
            out: quant.out_dtype(FAMILY, own_out, x, FLOATS, options.fp8)?,
        })
    }
}

/// Reads `eps`: 1e-6 unless given.
fn eps(shape: &ShapeMap) -> Result<f64, ShapeError> {
    let text = match shape.get("eps") {
        None => return Ok(1e-6),
        Some(ShapeValue::List(_)) => String::new(),
        Some(value) => value.to_string(),
    };
    match text.parse::<f64>() {
        Ok(eps) if (0.0..=1.0).contains(&eps) => Ok(eps),
        _ => Err(ShapeError::invalid("eps", text, "a number from 0 to 1 such as 1e-5 is needed")),
    }
}

impl Workload for Rmsnorm {
    fn family(&self) -> Family {
        Family::Rmsnorm
    }

    fn shape(&self) -> ShapeMap {
        let shape = ShapeMap::new().with("rows", self.rows).with("hidden", self.hidden).with_flag("add", self.add);
        let shape = self.quant.describe(shape);
        match self.eps {
            eps if eps.fract() == 0.0 => shape.with("eps", eps as u64),
            eps => shape.with_word("eps", &format!("{eps:e}")),
        }
    }

    fn dtypes(&self) -> Dtypes {
        let mut dtypes = Dtypes::uniform(self.x);
        for (role, dtype) in [("weight", self.weight), ("out", self.out)] {
            if dtype != self.x {
                dtypes = dtypes.with(role, dtype);
            }
        }
        dtypes
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let matrix = [self.rows, self.hidden];
        let mut tensors = vec![TensorSpec::input("x", self.x, &matrix)];
        if self.add {
            tensors.push(TensorSpec::inout("residual", self.x, &matrix));
        }
        tensors.push(TensorSpec::input("weight", self.weight, &[self.hidden]));
        tensors.push(TensorSpec::output("out", self.out, &matrix));
        if let Some(dims) = self.quant.scale_dims(self.rows, self.hidden) {
            tensors.push(TensorSpec::output("scale", Dtype::F32, &dims));
        }
        tensors
    }

    /// FLOPs of a row of N: N squares, N − 1 additions, ·1/N, +eps, 1/√ make 2N + 2; two multiplications an element; one
    /// addition an element for the residual; a comparison and a multiplication an element for the quantisation. All f32.
    fn work(&self) -> Work {
        let (rows, hidden) = (u128::from(self.rows), u128::from(self.hidden));
        let elements = rows * hidden;
        let per_element = 2 + u128::from(self.add) + if self.quant == RowQuant::None { 0 } else { 2 };
        let mut work = Work::default();
        work.add_flops(Dtype::F32, rows * (2 * hidden + 2) + per_element * elements);
        let matrix = self.x.bytes(elements);
        let residual = if self.add { matrix } else { 0 };
        let weight = self.weight.bytes(hidden);
        let out = self.out.bytes(elements);
        let scales = Dtype::F32.bytes(rows * self.quant.scales_per_row(self.hidden) as u128);
        work.bytes_read = matrix + residual + weight;
        work.bytes_written = out + residual + scales;
        work.explain = vec![
            format!("FLOPs = rows·(2·hidden + 2) + {per_element}·rows·hidden = {} (f32)", work.total_flops()),
            format!("bytes read = x {matrix} + residual {residual} + weight {weight}"),
            format!("bytes written = out {out} + residual {residual} + scales {scales}"),
        ];
        work
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        random::fill_normal(tensors.get_mut("x"), seed, 0.0, 1.0);
        if self.add {
            random::fill_normal(tensors.get_mut("residual"), seed, 0.0, 1.0);
        }
        random::fill_normal(tensors.get_mut("weight"), seed, 1.0, 0.2);
    }

    fn reference(&self, tensors: &mut TensorSet) {
        reference::reference(self, tensors);
    }

    fn naive(&self, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
        reference::naive(self, tensors, name, indices)
    }

    /// Values differ by the rounding of the output (one unit), of the sum and of the normed value before the weight (half a
    /// unit of x each, in kernels that round there), and by f32 sums in another order.
    fn tolerance(&self, name: &str) -> Tolerance {
        let inner = narrow::epsilon(self.x) + 1e-5;
        let (abs, rel) = match name {
            "residual" => (1e-6, narrow::epsilon(self.x)),
            "scale" => (0.0, inner),
            _ if self.quant == RowQuant::None => (1e-6, narrow::epsilon(self.out) + inner),
            // One unit of the quantised dtype, in its subnormals and integers too.
            _ if self.out == Dtype::I8 => (1.0, inner),
            _ => (smallest_step(self.out), narrow::epsilon(self.out) + inner),
        };
        Tolerance { abs, rel, mismatch_share: 0.0 }
    }
}
