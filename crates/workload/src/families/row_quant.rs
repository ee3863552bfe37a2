//! Dynamic quantisation of output rows, as fused behind a norm or an activation: scale = max |y| / largest value of the
//! dtype, stored f32; out = y / scale, rounded to the dtype.

use crate::families::checks::check_allowed;
use crate::{Dtype, DtypeTag, Fp8Flavor, ShapeError, ShapeMap, narrow};

/// The output dtypes of quantisation.
const QUANTISED: &[Dtype] = &[Dtype::Fp8E4m3fn, Dtype::Fp8E4m3fnuz, Dtype::Fp8E5m2, Dtype::Fp8E5m2fnuz, Dtype::I8];

/// How output rows share their scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowQuant {
    /// Not quantised.
    None,
    /// One scale a row: f32 \[rows\].
    PerToken,
    /// One scale for each run of this many elements of a row: f32 [rows, hidden / group].
    Group(u64),
}

impl RowQuant {
    /// Reads `quant=none|per_token|group` and `group` (128 unless given, and a divisor of `hidden`).
    pub(crate) fn parse(shape: &ShapeMap, hidden: u64) -> Result<Self, ShapeError> {
        let group = shape.int("group")?;
        let quant = match shape.word("quant")? {
            None | Some("none") => RowQuant::None,
            Some("per_token") => RowQuant::PerToken,
            Some("group") => RowQuant::Group(group.unwrap_or(128)),
            Some(other) => return Err(ShapeError::invalid("quant", other, "none, per_token or group is needed")),
        };
        match (quant, group) {
            (RowQuant::Group(group), _) if !hidden.is_multiple_of(group) => {
                Err(ShapeError::invalid("group", group, format!("must divide hidden={hidden}")))
            }
            (RowQuant::None | RowQuant::PerToken, Some(group)) => {
                Err(ShapeError::invalid("group", group, "has a meaning with quant=group only"))
            }
            _ => Ok(quant),
        }
    }

    /// Adds its keys to a canonical shape.
    pub(crate) fn describe(self, shape: ShapeMap) -> ShapeMap {
        match self {
            RowQuant::None => shape.with_word("quant", "none"),
            RowQuant::PerToken => shape.with_word("quant", "per_token"),
            RowQuant::Group(group) => shape.with_word("quant", "group").with("group", group),
        }
    }

    /// Dims of the scales; `None` when there are none.
    pub(crate) fn scale_dims(self, rows: u64, hidden: u64) -> Option<Vec<u64>> {
        match self {
            RowQuant::None => None,
            RowQuant::PerToken => Some(vec![rows]),
            RowQuant::Group(group) => Some(vec![rows, hidden / group]),
        }
    }

    /// Scales of one row.
    pub(crate) fn scales_per_row(self, hidden: u64) -> usize {
        self.scale_dims(1, hidden).map_or(0, |dims| dims.iter().product::<u64>() as usize)
    }

    /// Elements that share a scale.
    pub(crate) fn run(self, hidden: u64) -> usize {
        match self {
            RowQuant::Group(group) => group as usize,
            RowQuant::None | RowQuant::PerToken => hidden as usize,
        }
    }

    /// The dtype of `out`: its own role; else `input`'s without quantisation and e4m3 in the device's flavour with it.
    pub(crate) fn out_dtype(
        self,
        family: &str,
        own: Option<Dtype>,
        input: Dtype,
        allowed: &[Dtype],
        flavor: Fp8Flavor,
    ) -> Result<Dtype, ShapeError> {
        match self {
            RowQuant::None => match own {
                Some(out) if QUANTISED.contains(&out) => Err(ShapeError::dtype(
                    format!("out={out}"),
                    format!("{family} writes it with quant=per_token or quant=group only"),
                )),
                own => check_allowed(family, "out", own.unwrap_or(input), allowed),
            },
            _ => check_allowed(family, "out", own.unwrap_or(DtypeTag::Fp8.resolve(flavor)), QUANTISED),
        }
    }

    /// Encodes a finished row into `out`, and its scales.
    pub(crate) fn encode_row(self, values: &mut [f32], dtype: Dtype, out: &mut [u8], scales: &mut [f32]) {
        if self != RowQuant::None {
            let run = self.run(values.len() as u64);
            for (run, scale) in values.chunks_mut(run).zip(scales) {
                let largest = run.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
                *scale = largest / largest_code(dtype);
                // A row of zeros has no scale to divide by and stays zero.
                let inverse = if *scale > 0.0 { 1.0 / *scale } else { 0.0 };
                run.iter_mut().for_each(|value| *value *= inverse);
            }
        }
        narrow::encode_slice(dtype, values, 0, out);
    }
}

/// The spacing of a quantised dtype's smallest values: its subnormals', or 1.
pub(crate) fn smallest_step(dtype: Dtype) -> f64 {
    narrow::decode(dtype, 1).into()
}

/// The largest magnitude of a quantised dtype, which the largest value of a run becomes.
pub(crate) fn largest_code(dtype: Dtype) -> f32 {
    narrow::max_finite(dtype).map_or(127.0, |largest| largest as f32)
}
