//! Reading bounded sizes and dtypes, so that no shape can overflow a count or ask for an absurd allocation.

use crate::families::checks;
use crate::{Dtype, Dtypes, Fp8Flavor, ShapeError, ShapeMap, TensorSpec};

/// A size that must be there, at least 1 and at most `most`.
pub(crate) fn need(
    shape: &ShapeMap,
    family: &'static str,
    key: &'static str,
    what: &'static str,
    most: u64,
) -> Result<u64, ShapeError> {
    bounded(key, shape.need(family, key, what)?, most)
}

/// A size that has a default, at least 1 and at most `most`.
pub(crate) fn optional(shape: &ShapeMap, key: &str, default: u64, most: u64) -> Result<u64, ShapeError> {
    bounded(key, shape.int(key)?.unwrap_or(default), most)
}

/// Checks 1 ≤ `value` ≤ `most`.
pub(crate) fn bounded(key: &str, value: u64, most: u64) -> Result<u64, ShapeError> {
    match value {
        0 => Err(ShapeError::invalid(key, value, "must be at least 1")),
        _ if value > most => Err(ShapeError::invalid(key, value, format!("must be at most {most}"))),
        _ => Ok(value),
    }
}

/// Refuses tensors too large to index.
pub(crate) fn check_tensors(specs: &[TensorSpec]) -> Result<(), ShapeError> {
    specs.iter().try_for_each(|spec| checks::bounded(spec.name, &spec.dims))
}

/// The dtype of a role, which must be one of `allowed`; `fallback` when nothing is said.
pub(crate) fn role(
    dtypes: &Dtypes,
    role: &str,
    fallback: Dtype,
    flavor: Fp8Flavor,
    allowed: fn(Dtype) -> bool,
    wanted: &str,
) -> Result<Dtype, ShapeError> {
    let dtype = dtypes.get(role).map_or(fallback, |tag| tag.resolve(flavor));
    if allowed(dtype) {
        return Ok(dtype);
    }
    Err(ShapeError::dtype(format!("{role}={dtype}"), format!("`{role}` must be {wanted}")))
}

/// The dtype of an output role: its own, else the default unless that is narrower than 16 bits, else bf16.
pub(crate) fn output_role(dtypes: &Dtypes, name: &str, flavor: Fp8Flavor) -> Result<Dtype, ShapeError> {
    let own = dtypes.roles().any(|(known, _)| known == name);
    let default_is_wide = dtypes.default_tag().is_some_and(|tag| is_wide(tag.resolve(flavor)));
    if !own && !default_is_wide {
        return Ok(Dtype::Bf16);
    }
    role(dtypes, name, Dtype::Bf16, flavor, is_wide, "bf16, f16 or f32")
}

/// True for the floats that activations have outside quantisation: bf16, f16, f32.
pub(crate) fn is_wide(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Bf16 | Dtype::F16 | Dtype::F32)
}

/// Dtypes as a document shows them: one name when all roles agree, else one a role.
pub(crate) fn shown(roles: &[(&str, Dtype)]) -> Dtypes {
    match roles {
        [(_, first), rest @ ..] if rest.iter().all(|(_, dtype)| dtype == first) => Dtypes::uniform(*first),
        _ => roles.iter().fold(Dtypes::default(), |all, (role, dtype)| all.with(role, *dtype)),
    }
}
