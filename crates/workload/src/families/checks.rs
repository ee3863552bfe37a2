//! Checks that families share: sizes that cannot overflow, dtypes by role.

use crate::{Dtype, Dtypes, Fp8Flavor, ShapeError};

/// The most elements a tensor may have: 2^48, far beyond any device's memory, so that counts of bytes and FLOPs fit 128 bits
/// and indices fit 64.
pub(crate) const MAX_ELEMENTS: u128 = 1 << 48;

/// Checks that a tensor of these dims is of a possible size. `key` names the dims in the error.
pub(crate) fn bounded(key: &str, dims: &[u64]) -> Result<(), ShapeError> {
    let mut elements = 1_u128;
    for dim in dims {
        elements *= u128::from(*dim);
        if elements > MAX_ELEMENTS {
            let text = dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
            return Err(ShapeError::invalid(key, text, "a tensor has at most 2^48 elements"));
        }
    }
    Ok(())
}

/// The dtype of a role, or the dtype that stands for all.
pub(crate) fn dtype_of(
    family: &str,
    dtypes: &Dtypes,
    role: &str,
    flavor: Fp8Flavor,
    allowed: &[Dtype],
) -> Result<Dtype, ShapeError> {
    let tag = dtypes.get(role).ok_or_else(|| {
        ShapeError::dtype(role, format!("{family} needs a dtype for `{role}`, such as bf16 or {role}=bf16"))
    })?;
    check_allowed(family, role, tag.resolve(flavor), allowed)
}

/// The dtype given for a role by its own name; the one that stands for all does not count.
pub(crate) fn own_dtype(dtypes: &Dtypes, role: &str, flavor: Fp8Flavor) -> Option<Dtype> {
    dtypes.roles().find(|(known, _)| *known == role).map(|(_, tag)| tag.resolve(flavor))
}

/// Passes a dtype that the role may have.
pub(crate) fn check_allowed(family: &str, role: &str, dtype: Dtype, allowed: &[Dtype]) -> Result<Dtype, ShapeError> {
    if allowed.contains(&dtype) {
        return Ok(dtype);
    }
    let names: Vec<&str> = allowed.iter().map(|dtype| dtype.name()).collect();
    Err(ShapeError::dtype(format!("{role}={dtype}"), format!("{family} takes {} here", names.join(", "))))
}

/// Refuses roles that the family does not know.
pub(crate) fn only_roles(family: &str, dtypes: &Dtypes, known: &[&str]) -> Result<(), ShapeError> {
    match dtypes.roles().find(|(role, _)| !known.contains(role)) {
        None => Ok(()),
        Some((role, tag)) => Err(ShapeError::dtype(
            format!("{role}={tag}"),
            format!("{family} has no such role; it knows {}", known.join(", ")),
        )),
    }
}
