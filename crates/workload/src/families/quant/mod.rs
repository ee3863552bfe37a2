//! `quant`: dynamic quantisation of rows to fp8 or int8.
//!
//! scale = max |x| / largest value of the dtype, over a row (`quant=per_token`) or over each run of `group` elements of a row
//! (`quant=group`), stored f32 as \[rows\] or \[rows, hidden / group\]; out = x / scale, rounded to the dtype. A run of zeros has
//! the scale 0 and stays zero.
//!
//! Keys: `rows`, `hidden`, `quant=per_token|group` (default `per_token`), `group` (default 128). Dtype roles: `x`, `out`.

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

const FAMILY: &str = "quant";
const FLOATS: &[Dtype] = &[Dtype::Bf16, Dtype::F16, Dtype::F32];

/// A validated case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quant {
    /// Tokens.
    pub rows: u64,
    /// Elements of a row.
    pub hidden: u64,
    /// How rows share scales; never [`RowQuant::None`].
    pub quant: RowQuant,
    /// Dtype of the input.
    pub x: Dtype,
    /// Dtype of the output.
    pub out: Dtype,
}

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(Quant::new(shape, dtypes, options)?))
}

impl Quant {
    /// Validates a shape.
    ///
    /// # Errors
    /// On a missing, unknown or impossible key, or a dtype that the family does not take.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, &["rows", "hidden", "quant", "group"])?;
        only_roles(FAMILY, dtypes, &["x", "out"])?;
        let rows = shape.need(FAMILY, "rows", "tokens")?;
        let hidden = shape.need(FAMILY, "hidden", "elements of a row")?;
        bounded("rows,hidden", &[rows, hidden])?;
        let quant = match shape.get("quant") {
            None => RowQuant::parse(&shape.clone().with_word("quant", "per_token"), hidden)?,
            Some(_) => RowQuant::parse(shape, hidden)?,
        };
        if quant == RowQuant::None {
            return Err(ShapeError::invalid("quant", "none", "per_token or group is needed"));
        }
        let x = dtype_of(FAMILY, dtypes, "x", options.fp8, FLOATS)?;
        let out = quant.out_dtype(FAMILY, own_dtype(dtypes, "out", options.fp8), x, FLOATS, options.fp8)?;
        Ok(Self { rows, hidden, quant, x, out })
    }
}

impl Workload for Quant {
    fn family(&self) -> Family {
        Family::Quant
    }

    fn shape(&self) -> ShapeMap {
        self.quant.describe(ShapeMap::new().with("rows", self.rows).with("hidden", self.hidden))
    }

    fn dtypes(&self) -> Dtypes {
        Dtypes::uniform(self.x).with("out", self.out)
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let matrix = [self.rows, self.hidden];
        let scales = self.quant.scale_dims(self.rows, self.hidden).unwrap_or_default();
        vec![
            TensorSpec::input("x", self.x, &matrix),
            TensorSpec::output("out", self.out, &matrix),
            TensorSpec::output("scale", Dtype::F32, &scales),
        ]
    }

    /// FLOPs: a comparison and a multiplication an element, as f32.
    fn work(&self) -> Work {
        let (rows, elements) = (u128::from(self.rows), u128::from(self.rows) * u128::from(self.hidden));
        let mut work = Work::default();
        work.add_flops(Dtype::F32, 2 * elements);
        let out = self.out.bytes(elements);
        let scales = Dtype::F32.bytes(rows * self.quant.scales_per_row(self.hidden) as u128);
        work.bytes_read = self.x.bytes(elements);
        work.bytes_written = out + scales;
        work.explain = vec![
            format!("FLOPs = 2·rows·hidden = {} (f32)", work.total_flops()),
            format!("bytes read = x {}", work.bytes_read),
            format!("bytes written = out {out} + scales {scales}"),
        ];
        work
    }

    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        random::fill_normal(tensors.get_mut("x"), seed, 0.0, 1.0);
    }

    fn reference(&self, tensors: &mut TensorSet) {
        reference::reference(self, tensors);
    }

    fn naive(&self, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
        reference::naive(self, tensors, name, indices)
    }

    /// The quotient is right to a few f32 units in any form of it, which moves a value across a rounding boundary by one code.
    fn tolerance(&self, name: &str) -> Tolerance {
        let (abs, rel) = match name {
            "scale" => (0.0, 1e-6),
            _ if self.out == Dtype::I8 => (1.0, 1e-6),
            _ => (smallest_step(self.out), narrow::epsilon(self.out) + 1e-6),
        };
        Tolerance { abs, rel, mismatch_share: 0.0 }
    }
}
