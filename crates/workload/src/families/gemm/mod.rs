//! `gemm`: out[m, n] = Σ_k a[m, k] · b[n, k], with optional bias, batch and scales.
//!
//! The layout is the one that serving stacks call "TN": activations `a` [m, k] and weights `b` [n, k], both contiguous along k.
//! `trans_b=false` stores b as [k, n], `trans_a=true` stores a as [k, m]; both are for unscaled operands. With `batch` > 1 every
//! tensor but the bias has a leading batch dimension.
//!
//! Keys: `batch`, `m`, `n`, `k`, `bias=false|true|full` (`true`: \[n\], `full`: [m, n], as `addmm` with a matrix),
//! `quant=none|per_tensor|per_token|block128|mx32`, `trans_a`, `trans_b`. Dtype roles: `a`, `b`, `out`, `bias`.
//!
//! An operand of 8 bits or fewer has scales, one of 16 or 32 bits has none:
//!
//! | quant | a_scale | b_scale | operands |
//! |---|---|---|---|
//! | `per_tensor` | f32 \[1\] | f32 \[1\] | fp8, i8 |
//! | `per_token` | f32 \[m\] | f32 \[n\] | fp8, i8 |
//! | `block128` | f32 [m, ⌈k/128⌉] | f32 [⌈n/128⌉, ⌈k/128⌉] | fp8 |
//! | `mx32` | e8m0 [m, k/32] | e8m0 [n, k/32] | fp8, fp4 |
//!
//! The output of narrow operands is bf16 unless `out` says otherwise.

mod quant;
mod recover;
mod reference;
#[cfg(test)]
mod tests;

pub use quant::Quant;
pub(crate) use recover::recover;

use crate::families::checks::{bounded, check_allowed, dtype_of, only_roles, own_dtype};
use crate::{
    CaseOptions, Dtype, Dtypes, Family, ShapeError, ShapeMap, ShapeValue, TensorSet, TensorSpec, Tolerance, Work,
    Workload, narrow, random,
};

const FAMILY: &str = "gemm";
const WIDE: &[Dtype] = &[Dtype::Bf16, Dtype::F16, Dtype::F32];
const OPERANDS: &[Dtype] = &[
    Dtype::Bf16,
    Dtype::F16,
    Dtype::F32,
    Dtype::Fp8E4m3fn,
    Dtype::Fp8E4m3fnuz,
    Dtype::Fp8E5m2,
    Dtype::Fp8E5m2fnuz,
    Dtype::I8,
    Dtype::Fp4E2m1,
];

/// What is added to the product, and its dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bias {
    /// Nothing.
    None,
    /// \[n\], the same for every row and batch.
    Row(Dtype),
    /// [m, n], with the batch dimension.
    Full(Dtype),
}

/// A validated case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// Independent products.
    pub batch: u64,
    /// Rows of `a` and of the output.
    pub m: u64,
    /// Columns of the output.
    pub n: u64,
    /// Length of the sums.
    pub k: u64,
    /// What is added.
    pub bias: Bias,
    /// Scales of narrow operands.
    pub quant: Quant,
    /// `a` is stored [k, m].
    pub trans_a: bool,
    /// `b` is stored [n, k].
    pub trans_b: bool,
    /// Dtype of `a`.
    pub a: Dtype,
    /// Dtype of `b`.
    pub b: Dtype,
    /// Dtype of `out`.
    pub out: Dtype,
}

/// Builds a case of this family.
pub(crate) fn build(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Box<dyn Workload>, ShapeError> {
    Ok(Box::new(Gemm::new(shape, dtypes, options)?))
}

/// Operands that need scales.
fn is_narrow(dtype: Dtype) -> bool {
    dtype.bits() <= 8
}

impl Gemm {
    /// Validates a shape.
    ///
    /// # Errors
    /// On a missing, unknown or impossible key, or dtypes that do not go with the scales.
    pub fn new(shape: &ShapeMap, dtypes: &Dtypes, options: CaseOptions) -> Result<Self, ShapeError> {
        shape.only(FAMILY, &["batch", "m", "n", "k", "bias", "quant", "trans_a", "trans_b"])?;
        only_roles(FAMILY, dtypes, &["a", "b", "out", "bias"])?;
        let a = dtype_of(FAMILY, dtypes, "a", options.fp8, OPERANDS)?;
        let b = dtype_of(FAMILY, dtypes, "b", options.fp8, OPERANDS)?;
        let usual_out = if is_narrow(a) { Dtype::Bf16 } else { a };
        let out = own_dtype(dtypes, "out", options.fp8).unwrap_or(usual_out);
        let out = check_allowed(FAMILY, "out", out, WIDE)?;
        let case = Self {
            batch: if shape.get("batch").is_some() { shape.need(FAMILY, "batch", "products")? } else { 1 },
            m: shape.need(FAMILY, "m", "rows of a and of the output")?,
            n: shape.need(FAMILY, "n", "columns of the output")?,
            k: shape.need(FAMILY, "k", "length of the sums")?,
            bias: bias(shape, own_dtype(dtypes, "bias", options.fp8), out)?,
            quant: Quant::parse(shape)?,
            trans_a: shape.flag("trans_a")?.unwrap_or(false),
            trans_b: shape.flag("trans_b")?.unwrap_or(true),
            a,
            b,
            out,
        };
        bounded("batch,m,k", &[case.batch, case.m, case.k])?;
        bounded("batch,n,k", &[case.batch, case.n, case.k])?;
        bounded("batch,m,n", &[case.batch, case.m, case.n])?;
        case.quant.check(&case)?;
        Ok(case)
    }

    /// Dims of a tensor, with the batch in front when there is one.
    fn batched(&self, dims: [u64; 2]) -> Vec<u64> {
        if self.batch > 1 { vec![self.batch, dims[0], dims[1]] } else { dims.to_vec() }
    }

    /// The dtype whose rate bounds the multiplications: the wider operand's.
    fn compute_dtype(&self) -> Dtype {
        if self.b.bits() > self.a.bits() { self.b } else { self.a }
    }
}

/// Reads `bias`; its dtype is the output's unless it has its own.
fn bias(shape: &ShapeMap, own: Option<Dtype>, out: Dtype) -> Result<Bias, ShapeError> {
    let dtype = check_allowed(FAMILY, "bias", own.unwrap_or(out), WIDE)?;
    if matches!(shape.get("bias"), Some(ShapeValue::Word(word)) if word == "full") {
        return Ok(Bias::Full(dtype));
    }
    match (shape.flag("bias")?.unwrap_or(false), own) {
        (true, _) => Ok(Bias::Row(dtype)),
        (false, None) => Ok(Bias::None),
        (false, Some(own)) => Err(ShapeError::dtype(format!("bias={own}"), "the case has no bias: bias=true or full")),
    }
}

impl Workload for Gemm {
    fn family(&self) -> Family {
        Family::Gemm
    }

    fn shape(&self) -> ShapeMap {
        let shape = ShapeMap::new().with("batch", self.batch).with("m", self.m).with("n", self.n).with("k", self.k);
        let shape = match self.bias {
            Bias::None => shape.with_flag("bias", false),
            Bias::Row(_) => shape.with_flag("bias", true),
            Bias::Full(_) => shape.with_word("bias", "full"),
        };
        let shape = shape.with_word("quant", self.quant.name());
        shape.with_flag("trans_a", self.trans_a).with_flag("trans_b", self.trans_b)
    }

    fn dtypes(&self) -> Dtypes {
        let dtypes = Dtypes::default().with("a", self.a).with("b", self.b).with("out", self.out);
        match self.bias {
            Bias::None => dtypes,
            Bias::Row(dtype) | Bias::Full(dtype) => dtypes.with("bias", dtype),
        }
    }

    fn tensors(&self) -> Vec<TensorSpec> {
        let a = if self.trans_a { [self.k, self.m] } else { [self.m, self.k] };
        let b = if self.trans_b { [self.n, self.k] } else { [self.k, self.n] };
        let mut tensors =
            vec![TensorSpec::input("a", self.a, &self.batched(a)), TensorSpec::input("b", self.b, &self.batched(b))];
        let scale = self.quant.scale_dtype();
        if is_narrow(self.a) {
            tensors.push(TensorSpec::input("a_scale", scale, &self.batched_scales(self.quant.a_grid(self))));
        }
        if is_narrow(self.b) {
            tensors.push(TensorSpec::input("b_scale", scale, &self.batched_scales(self.quant.b_grid(self))));
        }
        match self.bias {
            Bias::None => {}
            Bias::Row(dtype) => tensors.push(TensorSpec::input("bias", dtype, &[self.n])),
            Bias::Full(dtype) => tensors.push(TensorSpec::input("bias", dtype, &self.batched([self.m, self.n]))),
        }
        tensors.push(TensorSpec::output("out", self.out, &self.batched([self.m, self.n])));
        tensors
    }

    /// 2·m·n·k a product, one addition an element for a bias (all counted at the operands' dtype); every tensor once.
    fn work(&self) -> Work {
        let [batch, m, n, k] = [self.batch, self.m, self.n, self.k].map(u128::from);
        let bias = if self.bias == Bias::None { 0 } else { batch * m * n };
        let mut work = Work::default();
        work.add_flops(self.compute_dtype(), 2 * batch * m * n * k + bias);
        let mut read = Vec::new();
        for tensor in self.tensors() {
            if tensor.name == "out" {
                work.bytes_written = tensor.bytes();
            } else {
                work.bytes_read += tensor.bytes();
                read.push(format!("{} {}", tensor.name, tensor.bytes()));
            }
        }
        let flops = work.total_flops();
        work.explain = vec![
            format!("FLOPs = 2·batch·m·n·k + bias {bias} = {flops} ({})", self.compute_dtype()),
            format!("bytes read = {}", read.join(" + ")),
            format!("bytes written = out {}", work.bytes_written),
        ];
        work
    }

    /// Normal operands. Scales are such that outputs come out near √k, as without scales.
    fn fill(&self, seed: u64, tensors: &mut TensorSet) {
        for (name, scale, dtype) in [("a", "a_scale", self.a), ("b", "b_scale", self.b)] {
            if dtype == Dtype::I8 {
                random::fill_uniform_int(tensors.get_mut(name), seed, -127, 127);
                random::fill_scales(tensors.get_mut(scale), seed, 1.0 / 64.0);
            } else {
                // Narrow floats are used over much of their range, as quantisation leaves them.
                let spread = if is_narrow(dtype) { quant::usual_spread(dtype) } else { 1.0 };
                random::fill_normal(tensors.get_mut(name), seed, 0.0, spread);
                if is_narrow(dtype) {
                    random::fill_scales(tensors.get_mut(scale), seed, 1.0 / spread);
                }
            }
        }
        if self.bias != Bias::None {
            random::fill_normal(tensors.get_mut("bias"), seed, 0.0, 1.0);
        }
    }

    fn reference(&self, tensors: &mut TensorSet) {
        reference::reference(self, tensors);
    }

    fn naive(&self, tensors: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
        debug_assert_eq!(name, "out");
        reference::naive(self, tensors, indices)
    }

    /// One unit of the output, and for the sums an absolute part: adding k products of unit variance one by one in f32 errs by
    /// about k·2^-25, which k·1e-6 covers in any order and over millions of outputs; ·16 for narrow operands, whose matrix
    /// units keep shorter partial sums. Sums that cancel to near zero need it.
    fn tolerance(&self, _name: &str) -> Tolerance {
        let per_term = if is_narrow(self.compute_dtype()) { 1.6e-5 } else { 1e-6 };
        Tolerance { abs: self.k as f64 * per_term + 1e-6, rel: narrow::epsilon(self.out) + 1e-5, mismatch_share: 0.0 }
    }
}

impl Gemm {
    /// Dims of scales in a grid, with the batch in front when there is one; a column of scales is a vector.
    fn batched_scales(&self, grid: [u64; 2]) -> Vec<u64> {
        let dims = if grid[1] == 1 { vec![grid[0]] } else { grid.to_vec() };
        if self.batch > 1 { [vec![self.batch], dims].concat() } else { dims }
    }
}
