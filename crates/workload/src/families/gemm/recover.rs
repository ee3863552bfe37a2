//! Shapes from operator calls: PyTorch's, vLLM's, SGLang's and aiter's matrix products.

use super::{OPERANDS, Quant, WIDE, is_narrow};
use crate::families::args::{agree, derived_dtype, dtype, elements, local_name, rows_and_width, tensor, unclear};
use crate::{Dtype, DtypeTag, Dtypes, Family, Fp8Flavor, OpArg, OpCall, Recovered, ShapeError, ShapeMap, Value};

/// Where an operator has its arguments, and how it stores the second operand.
#[derive(Clone, Copy)]
struct Signature {
    a: usize,
    b: usize,
    b_dims: Stored,
    quant: Scaling,
    bias: Option<usize>,
    out: Option<usize>,
    /// Argument that holds the output's dtype as PyTorch's number or name.
    out_dtype: Option<usize>,
}

/// What the dims of the second operand are.
#[derive(Clone, Copy, PartialEq)]
enum Stored {
    /// (n, k): weights as they lie.
    Nk,
    /// (k, n): the strides tell how they lie.
    Kn,
}

/// Where the scales are, and what may be asked of them.
#[derive(Clone, Copy)]
enum Scaling {
    No,
    /// Scales of `a` and `b`; their number of elements tells the scheme.
    At(usize, usize),
    /// Scales of 32-element blocks of packed fp4, padded in ways of each kernel's own.
    Mx32,
}

const fn signature(a: usize, b: usize, b_dims: Stored, quant: Scaling) -> Signature {
    Signature { a, b, b_dims, quant, bias: None, out: None, out_dtype: None }
}

impl Signature {
    const fn bias(mut self, index: usize) -> Self {
        self.bias = Some(index);
        self
    }

    const fn out(mut self, index: usize) -> Self {
        self.out = Some(index);
        self
    }

    const fn out_dtype(mut self, index: usize) -> Self {
        self.out_dtype = Some(index);
        self
    }
}

/// Signatures from the operator schemas of PyTorch, vLLM (`csrc/torch_bindings.cpp`, `csrc/rocm/torch_bindings.cpp`,
/// `vllm/_aiter_ops.py`), SGLang's kernels and aiter (`aiter/ops/gemm_op_*.py`, `aiter/ops/gradlib.py`).
fn find_signature(op: &OpCall) -> Option<Signature> {
    use Scaling::{At, Mx32, No};
    use Stored::{Kn, Nk};
    let local = local_name(op);
    if op.base_name().starts_with("aten::") {
        return match local {
            "mm" | "bmm" | "matmul" => Some(signature(0, 1, Kn, No)),
            "addmm" | "addmm_" | "baddbmm" | "baddbmm_" | "_addmm_activation" => Some(signature(1, 2, Kn, No).bias(0)),
            "linear" => Some(signature(0, 1, Nk, No).bias(2)),
            "_scaled_mm" => Some(signature(0, 1, Kn, At(2, 3)).bias(4).out_dtype(6)),
            _ => None,
        };
    }
    let local = local.strip_suffix("_impl").unwrap_or(local);
    let local = local.strip_prefix("rocm_aiter_").unwrap_or(local);
    let local = local.strip_prefix("triton_").unwrap_or(local);
    match local {
        _ if local.starts_with("rocm_unquantized_gemm") => Some(signature(0, 1, Nk, No).bias(2)),
        "gemm_a16w16" => Some(signature(0, 1, Nk, No).bias(2).out_dtype(3)),
        "gemm_a16w16_asm" => Some(signature(0, 1, Nk, No).out(2).bias(3)),
        "hipb_mm" => {
            let scaling = if op.tensor(5).is_some() { At(5, 6) } else { No };
            Some(signature(0, 1, Kn, scaling).bias(3).out_dtype(4))
        }
        "rocb_mm" => Some(signature(0, 1, Kn, No)),
        // The skinny products take the weights first.
        "wvSplitK" => Some(signature(1, 0, Nk, No).bias(2)),
        "LLMM1" | "LLZZ" => Some(signature(1, 0, Nk, No)),
        "wvSpltK" | "wv_splitk_small_fp16_bf16" => Some(signature(1, 0, Nk, No).out(2)),
        // (weights, x, out, scales, CUs), later with a bias in third place.
        "wvSplitKQ" if op.args.len() >= 7 => Some(signature(1, 0, Nk, At(5, 4)).bias(2).out(3)),
        "wvSplitKQ" => Some(signature(1, 0, Nk, At(4, 3)).out(2)),
        "gemm_a8w8" | "gemm_w8a8" | "gemm_a8w8_CK" | "gemm_a8w8_bpreshuffle" => {
            Some(signature(0, 1, Nk, At(2, 3)).bias(4).out_dtype(5))
        }
        "gemm_a8w8_blockscale" | "gemm_w8a8_blockscale" | "gemm_a8w8_blockscale_bpreshuffle" => {
            Some(signature(0, 1, Nk, At(2, 3)).out(4).out_dtype(4))
        }
        "gemm_a8w8_blockscale_bpreshuffle_asm" => Some(signature(0, 1, Nk, At(3, 4)).out(2).bias(5)),
        "gemm_a8w8_asm" => Some(signature(0, 1, Nk, At(2, 3)).out(4).bias(6)),
        "gemm_a8w8_ck" => Some(signature(0, 1, Nk, At(2, 3)).out(4).bias(5)),
        _ if local.starts_with("gemm_a8w8_") || local == "flatmm_a8w8_blockscale_asm" => {
            Some(signature(0, 1, Nk, At(2, 3)).out(4))
        }
        "batched_gemm_a8w8" | "batched_gemm_a8w8_CK" => Some(signature(0, 1, Nk, At(2, 3)).out(4).bias(5)),
        "batched_gemm_bf16" | "batched_gemm_bf16_CK" => Some(signature(0, 1, Nk, No).out(2).bias(3)),
        _ if local.starts_with("gemm_a4w4") || local.starts_with("gemm_afp4wfp4") => {
            Some(signature(0, 1, Nk, Mx32).out(4))
        }
        "cutlass_scaled_mm" => Some(signature(1, 2, Kn, At(3, 4)).out(0).bias(5)),
        "fp8_scaled_mm" | "int8_scaled_mm" => Some(signature(0, 1, Kn, At(2, 3)).out_dtype(4).bias(5)),
        "fp8_blockwise_scaled_mm" => Some(signature(0, 1, Kn, At(2, 3)).out_dtype(4)),
        "w8a8_triton_block_scaled_mm_func" | "w8a8_block_fp8_matmul" | "w8a8_block_fp8_matmul_triton" => {
            Some(signature(0, 1, Nk, At(2, 3)).out_dtype(5))
        }
        "rocm_per_tensor_float_w8a8_scaled_mm" => Some(signature(0, 1, Kn, At(3, 4)).out_dtype(2).bias(5)),
        _ => None,
    }
}

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    let signature = with_out_for_bias(op, find_signature(op)?);
    Some(if op.args.iter().any(|arg| arg.tensor().is_some()) {
        Call { op, signature, assumed: Vec::new() }.recover()
    } else {
        from_params(op, signature)
    })
}

/// Some operators of one name exist in two forms: with the output as an argument, the bias comes after it.
fn with_out_for_bias(op: &OpCall, signature: Signature) -> Signature {
    let Some(bias) = signature.bias.filter(|bias| *bias > signature.b && signature.out.is_none()) else {
        return signature;
    };
    match op.tensor(bias) {
        Some([.., rows, _]) if *rows > 1 => signature.out(bias).bias(bias + 1),
        _ => signature,
    }
}

/// Sizes of a product.
#[derive(Clone, Copy)]
struct Sizes {
    batch: u64,
    m: u64,
    n: u64,
    k: u64,
}

/// A call that is being understood.
struct Call<'a> {
    op: &'a OpCall,
    signature: Signature,
    assumed: Vec<String>,
}

impl Call<'_> {
    fn recover(mut self) -> Result<Recovered, ShapeError> {
        let op = self.op;
        let packed = matches!(self.signature.quant, Scaling::Mx32);
        let sizes = self.sizes(packed)?;
        for (key, size) in [("M", sizes.m), ("N", sizes.n), ("K", sizes.k), ("B", sizes.batch)] {
            agree(op, key, size)?;
        }
        let (a, b) = (self.operand(self.signature.a, "a", packed)?, self.operand(self.signature.b, "b", packed)?);
        let mut shape = ShapeMap::new().with("batch", sizes.batch);
        shape = shape.with("m", sizes.m).with("n", sizes.n).with("k", sizes.k);
        let quant = self.quant(sizes)?;
        let (trans_a, trans_b) = self.layout(sizes)?;
        if quant == Quant::None {
            if trans_a {
                shape = shape.with_flag("trans_a", true);
            }
            shape = shape.with_flag("trans_b", trans_b);
        } else {
            if trans_a || !trans_b {
                self.assumed.push("operands with scales lie [m, k] and [n, k]: the strides say otherwise".to_owned());
            }
            shape = shape.with_word("quant", quant.name());
        }
        let out = self.out_dtype(a)?;
        let mut dtypes = Dtypes::default().with("a", a).with("b", b).with("out", out);
        if let Some((bias, bias_dtype)) = self.bias(sizes)? {
            shape = shape.with_word("bias", bias);
            if bias_dtype != out {
                dtypes = dtypes.with("bias", bias_dtype);
            }
        }
        if a == b && a == out && dtypes.roles().count() == 3 {
            dtypes = Dtypes::uniform(a);
        }
        Ok(Recovered { family: Family::Gemm, shape, dtypes, assumed: self.assumed })
    }

    /// Batch, m, n and k from the dims of both operands.
    fn sizes(&self, packed: bool) -> Result<Sizes, ShapeError> {
        let op = self.op;
        let (a, b) = (tensor(op, self.signature.a, "a")?, tensor(op, self.signature.b, "b")?);
        let [b_leading @ .., b_rows, b_columns] = b else {
            return Err(unclear(op, "b", format!("{b:?}"), "a matrix is needed"));
        };
        let (n, b_k) = match self.signature.b_dims {
            Stored::Nk => (*b_rows, *b_columns),
            Stored::Kn => (*b_columns, *b_rows),
        };
        let (rows, a_k) = rows_and_width(op, "a", a)?;
        if a_k != b_k {
            return Err(unclear(op, "a and b", format!("{a:?} and {b:?}"), format!("k is {a_k} in a and {b_k} in b")));
        }
        if n == 0 {
            return Err(unclear(op, "b", format!("{b:?}"), "is empty: nothing to compute"));
        }
        let batch = elements(op, "b", b_leading)?;
        let (batch, m) = match a {
            // A matrix of weights is shared by all leading dims of the activations, which are rows.
            _ if batch == 1 => (1, rows),
            [a_leading @ .., m, _] if a_leading == b_leading => (batch, *m),
            _ => {
                let reason = "batched operands have the same leading dims; kbench does not broadcast";
                return Err(unclear(op, "a and b", format!("{a:?} and {b:?}"), reason));
            }
        };
        let k = if packed { a_k.checked_mul(2) } else { Some(a_k) };
        let k = k.ok_or_else(|| unclear(op, "a", format!("{a:?}"), "a tensor has at most 2^48 elements"))?;
        Ok(Sizes { batch, m, n, k })
    }

    /// The dtype of an operand. Packed fp4 is recorded as bytes.
    fn operand(&self, index: usize, what: &str, packed: bool) -> Result<DtypeTag, ShapeError> {
        let tag = dtype(self.op, index, what)?;
        match tag {
            DtypeTag::Exact(Dtype::U8 | Dtype::Fp4E2m1) if packed => Ok(DtypeTag::Exact(Dtype::Fp4E2m1)),
            DtypeTag::Exact(known) if !OPERANDS.contains(&known) || known == Dtype::Fp4E2m1 => Err(ShapeError::dtype(
                known,
                format!("of argument {index} ({what}) of {} is not one that kbench multiplies", self.op.base_name()),
            )),
            tag => Ok(tag),
        }
    }

    /// The scheme of the scales, from how many there are.
    fn quant(&mut self, sizes: Sizes) -> Result<Quant, ShapeError> {
        let (a_index, b_index) = match self.signature.quant {
            Scaling::No => return Ok(Quant::None),
            Scaling::Mx32 => return Ok(Quant::Mx32),
            Scaling::At(a, b) => (a, b),
        };
        // A 0-dimensional scale reads as no tensor.
        let count = |index, what| self.op.tensor(index).map_or(Ok(1), |dims| elements(self.op, what, dims));
        let (a, b) = (count(a_index, "scales of a")?, count(b_index, "scales of b")?);
        let Sizes { batch, m, n, k } = sizes;
        let k_blocks = k.div_ceil(128);
        match () {
            () if a == 1 && b == 1 => Ok(Quant::PerTensor),
            () if a == batch * m && b == batch * n => Ok(Quant::PerToken),
            () if (a == 1 && b == batch * n) || (a == batch * m && b == 1) => {
                self.assumed.push(format!("both operands have a scale a row: the call has {a} and {b} scales"));
                Ok(Quant::PerToken)
            }
            () if a == batch * m * k_blocks && b == batch * n.div_ceil(128) * k_blocks => Ok(Quant::Block128),
            () => Err(unclear(
                self.op,
                "scales",
                format!("{a} and {b}"),
                format!("m={m}, n={n}, k={k} have 1 and 1, m and n, or 1x128 and 128x128 blocks; no other is known"),
            )),
        }
    }

    /// Whether `a` lies [k, m] and `b` [n, k], from dims and strides.
    fn layout(&mut self, sizes: Sizes) -> Result<(bool, bool), ShapeError> {
        let a = self.order(self.signature.a, "a", sizes.k, sizes.m);
        let b = match self.signature.b_dims {
            Stored::Nk => self.order(self.signature.b, "b", sizes.k, sizes.n),
            Stored::Kn => self.order(self.signature.b, "b", sizes.n, sizes.k).reversed(),
        };
        if b == Order::Unknown {
            self.assumed.push("b lies [n, k], as weights do: its strides are not recorded".to_owned());
        }
        Ok((a == Order::Columns, b != Order::Columns))
    }

    /// How the last two dims of an argument lie, `rows` by `width`.
    fn order(&mut self, index: usize, what: &str, width: u64, rows: u64) -> Order {
        let strides = self.op.args.get(index).map_or(&[][..], |arg| &arg.strides);
        let &[.., row, element] = strides else {
            return if strides.is_empty() { Order::Unknown } else { Order::Rows };
        };
        let (order, distance, dense) = match (row, element) {
            (row, 1) => (Order::Rows, row, width),
            (1, element) => (Order::Columns, element, rows),
            _ => {
                self.assumed.push(format!("{what} is dense: its strides ({row}, {element}) are not contiguous"));
                return Order::Unknown;
            }
        };
        let lines = if order == Order::Rows { rows } else { width };
        if lines > 1 && u64::try_from(distance) != Ok(dense) && !matches!(self.signature.quant, Scaling::Mx32) {
            self.assumed
                .push(format!("{what} is dense: the call's is {distance} elements from line to line, of {dense}"));
        }
        order
    }

    fn bias(&mut self, sizes: Sizes) -> Result<Option<(&'static str, DtypeTag)>, ShapeError> {
        let Some(index) = self.signature.bias else { return Ok(None) };
        let Some(dims) = self.op.tensor(index) else { return Ok(None) };
        // addmm(c, a, b, beta, alpha) and baddbmm: with beta = 0 the matrix is not read.
        if index == 0 && self.op.args.get(3).is_some_and(|beta| is_zero(&beta.concrete)) {
            return Ok(None);
        }
        let tag = dtype(self.op, index, "bias")?;
        let count = elements(self.op, "bias", dims)?;
        match () {
            () if count == sizes.n && dims.last() == Some(&sizes.n) => Ok(Some(("true", tag))),
            () if count == sizes.batch * sizes.m * sizes.n && dims.last() == Some(&sizes.n) => Ok(Some(("full", tag))),
            () => Err(unclear(
                self.op,
                "bias",
                format!("{dims:?}"),
                format!("[{}] or [{}, {}] is expected", sizes.n, sizes.m, sizes.n),
            )),
        }
    }

    fn out_dtype(&mut self, a: DtypeTag) -> Result<DtypeTag, ShapeError> {
        let recorded = match (self.signature.out, self.signature.out_dtype) {
            (Some(index), _) if self.op.tensor(index).is_some() => Some(dtype(self.op, index, "out")?),
            (_, Some(index)) => self.op.args.get(index).and_then(torch_dtype),
            _ => None,
        };
        match recorded {
            Some(DtypeTag::Exact(out)) if !WIDE.contains(&out) => {
                Err(ShapeError::dtype(out, format!("is not an output that kbench writes for {}", self.op.base_name())))
            }
            Some(out) => Ok(out),
            None if is_narrow(a.resolve(Fp8Flavor::Ocp)) => {
                self.assumed.push("out is bf16: the call does not record it".to_owned());
                Ok(DtypeTag::Exact(Dtype::Bf16))
            }
            // Without another wish these operators write what they read.
            None => Ok(a),
        }
    }
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// The last dim is contiguous.
    Rows,
    /// The last but one is.
    Columns,
    Unknown,
}

impl Order {
    /// The order of the same matrix with its dims exchanged.
    fn reversed(self) -> Self {
        match self {
            Order::Rows => Order::Columns,
            Order::Columns => Order::Rows,
            Order::Unknown => Order::Unknown,
        }
    }
}

fn is_zero(text: &str) -> bool {
    text.trim().parse::<f64>() == Ok(0.0)
}

/// A dtype argument: `15`, as PyTorch's `ScalarType` counts, or `torch.bfloat16`.
fn torch_dtype(arg: &OpArg) -> Option<DtypeTag> {
    let number = |dtype: Dtype| Some(DtypeTag::Exact(dtype));
    match arg.concrete.trim() {
        "5" => number(Dtype::F16),
        "6" => number(Dtype::F32),
        "15" => number(Dtype::Bf16),
        name => name.parse().ok(),
    }
}

/// A report's derived parameters alone.
fn from_params(op: &OpCall, signature: Signature) -> Result<Recovered, ShapeError> {
    if !matches!(signature.quant, Scaling::No) {
        return Err(unclear(op, "call", "no arguments", "its scales are told by its arguments only"));
    }
    let size = |key| {
        let size = op.size(key).filter(|size| *size > 0);
        size.ok_or_else(|| unclear(op, key, "nothing", "neither arguments nor parameters give it"))
    };
    let (m, n, k) = (size("M")?, size("N")?, size("K")?);
    let mut assumed = vec!["out has the dtype of a: the report does not give it".to_owned()];
    let stride = op.params.get("stride_B").and_then(Value::as_list).unwrap_or_default();
    // The strides are those of the argument as it was passed.
    let trans_b = match (stride, signature.b_dims) {
        ([.., row, element], stored) => {
            let contiguous = if stored == Stored::Kn { row } else { element };
            contiguous.as_size() == Some(1)
        }
        _ => {
            assumed.push("b lies [n, k], as weights do: its strides are not recorded".to_owned());
            true
        }
    };
    let bias = op.params.get("bias").and_then(Value::as_bool).unwrap_or(false);
    let (a, b) = (derived_dtype(op, "dtype_A_B", 0)?, derived_dtype(op, "dtype_A_B", 1)?);
    let shape = ShapeMap::new().with("batch", op.size("B").unwrap_or(1)).with("m", m).with("n", n).with("k", k);
    let dtypes = if a == b { Dtypes::uniform(a) } else { Dtypes::default().with("a", a).with("b", b).with("out", a) };
    Ok(Recovered {
        family: Family::Gemm,
        shape: shape.with_flag("trans_b", trans_b).with_flag("bias", bias),
        dtypes,
        assumed,
    })
}
