//! Little-endian numbers at byte offsets, with errors that name the offset and the field.

use crate::error::{Error, Result};
use std::ops::Range;

/// Bytes with checked access; offsets in errors are relative to `origin`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'d> {
    pub(crate) data: &'d [u8],
    origin: u64,
}

impl<'d> Raw<'d> {
    pub(crate) fn new(data: &'d [u8]) -> Self {
        Self { data, origin: 0 }
    }

    pub(crate) fn with_origin(data: &'d [u8], origin: u64) -> Self {
        Self { data, origin }
    }

    /// The `N` bytes at `offset`.
    pub(crate) fn array<const N: usize>(&self, offset: u64, field: &str) -> Result<[u8; N]> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.data.get(start..start.checked_add(N)?));
        bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| self.short(offset, N as u64, field))
    }

    pub(crate) fn u16(&self, offset: u64, field: &str) -> Result<u16> {
        self.array(offset, field).map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&self, offset: u64, field: &str) -> Result<u32> {
        self.array(offset, field).map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&self, offset: u64, field: &str) -> Result<u64> {
        self.array(offset, field).map(u64::from_le_bytes)
    }

    /// The range `offset .. offset + size`, when it lies inside.
    pub(crate) fn range(&self, offset: u64, size: u64, field: &str) -> Result<Range<usize>> {
        let end = offset.checked_add(size).filter(|&end| end <= self.data.len() as u64);
        match (usize::try_from(offset), end.map(usize::try_from)) {
            (Ok(start), Some(Ok(end))) => Ok(start..end),
            _ => Err(self.short(offset, size, field)),
        }
    }

    /// The bytes `offset .. offset + size`.
    pub(crate) fn slice(&self, offset: u64, size: u64, field: &str) -> Result<&'d [u8]> {
        let range = self.range(offset, size, field)?;
        self.data.get(range).ok_or_else(|| self.short(offset, size, field))
    }

    fn short(&self, offset: u64, size: u64, field: &str) -> Error {
        let length = self.data.len();
        Error::damaged(
            self.origin.saturating_add(offset),
            format!("{field} needs {size} bytes here, but the data ends at {:#x}", self.origin + length as u64),
        )
    }
}

/// The `N` bytes at `offset` of a slice that is known to be long enough, else zeros.
pub(crate) fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes.get(offset..offset + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
}

/// `value` rounded up to a multiple of `granule` (not zero), saturating.
pub(crate) fn align_up(value: u64, granule: u64) -> u64 {
    value.div_ceil(granule).saturating_mul(granule)
}
