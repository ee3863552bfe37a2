//! The emulator's own functions beside HIP's: reports of launches, sampling, the last fault.

#![allow(unsafe_code)]

use crate::error::{HipError, Result};
use crate::put;
use crate::state::runtime;
use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering;

/// Writes a text of any length with its NUL; without room only its size, NUL included, to `needed`. True when the text was written.
///
/// # Safety
/// `out` is null or has room for `capacity` bytes; `needed` is null or valid.
unsafe fn give(text: &str, out: *mut c_char, capacity: usize, needed: *mut usize) -> Result<bool> {
    let size = text.len() + 1;
    if !needed.is_null() {
        // SAFETY: not null, the caller's pointer.
        unsafe { put(needed, size)? };
    }
    if out.is_null() {
        return Ok(false);
    }
    if capacity < size {
        return Err(HipError::InvalidValue);
    }
    // SAFETY: there is room for all of it.
    unsafe {
        out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        out.add(text.len()).write(0);
    }
    Ok(true)
}

pub(crate) unsafe fn take_reports(out: *mut c_char, capacity: usize, needed: *mut usize) -> Result {
    let mut state = runtime()?.state();
    let text = state.untaken.json();
    // SAFETY: the caller's buffer.
    if unsafe { give(&text, out, capacity, needed)? } {
        state.untaken.clear();
    }
    Ok(())
}

pub(crate) unsafe fn last_fault(out: *mut c_char, capacity: usize, needed: *mut usize) -> Result {
    let runtime = runtime()?;
    let device = runtime.current()?.index;
    let text = runtime.state().queues.get(device).and_then(|queue| queue.fault.clone()).unwrap_or_default();
    // SAFETY: the caller's buffer.
    unsafe { give(&text, out, capacity, needed).map(|_| ()) }
}

pub(crate) unsafe fn set_sample(workgroups: u64) -> Result {
    runtime()?.sample.store(workgroups, Ordering::Relaxed);
    Ok(())
}

pub(crate) unsafe fn set_reports(on: c_int) -> Result {
    runtime()?.reports.store(on != 0, Ordering::Relaxed);
    Ok(())
}
