//! Outputs of C functions.

#![allow(unsafe_code)]

use crate::error::{self, HipError};
use std::ffi::{c_char, c_int};

/// Writes an output of a C function.
///
/// # Errors
/// `hipErrorInvalidValue` when the pointer is null.
///
/// # Safety
/// The pointer is null or valid for a write; it need not be aligned.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> error::Result {
    if out.is_null() {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: not null, so it is valid.
    unsafe { out.write_unaligned(value) };
    Ok(())
}

/// Writes as much of a text as fits into a buffer, with its NUL.
///
/// # Errors
/// `hipErrorInvalidValue` when the pointer is null or there is no room at all.
///
/// # Safety
/// The pointer is null or valid for writes of `length` bytes.
pub(crate) unsafe fn put_text(out: *mut c_char, length: c_int, text: &str) -> error::Result {
    let room = usize::try_from(length).ok().filter(|room| *room > 0 && !out.is_null()).ok_or(HipError::InvalidValue)?;
    let bytes = text.len().min(room - 1);
    // SAFETY: at most `room` bytes are written.
    unsafe {
        out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), bytes);
        out.add(bytes).write(0);
    }
    Ok(())
}
