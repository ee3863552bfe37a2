//! `paged_attention`.

use crate::{CaseOptions, Dtypes, Family, OpCall, Recovered, ShapeError, ShapeMap, Workload};

/// Builds a case of this family.
pub(crate) fn build(
    _shape: &ShapeMap,
    _dtypes: &Dtypes,
    _options: CaseOptions,
) -> Result<Box<dyn Workload>, ShapeError> {
    Err(ShapeError::NoWorkload(Family::PagedAttention.name()))
}

/// Recovers a shape of this family from an operator call.
pub(crate) fn recover(_op: &OpCall) -> Option<Result<Recovered, ShapeError>> {
    None
}
