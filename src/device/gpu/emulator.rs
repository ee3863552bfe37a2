//! What an emulated runtime tells beyond HIP (docs/emulated-hip.md): what its launches executed, how much of a grid it runs, and
//! what a faulting kernel did.

// Functions of a C interface that the crate of HIP does not know.
#![allow(unsafe_code)]

use crate::device::DeviceError;
use kbench_hip::Runtime;
use kbench_rocm_emu::report::LaunchReport;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::NonNull;

/// Writes a text of up to `capacity` bytes, its NUL included; `needed` tells how many there are.
type TakeText = unsafe extern "C" fn(out: *mut c_char, capacity: usize, needed: *mut usize) -> c_int;
type SetSample = unsafe extern "C" fn(workgroups: u64) -> c_int;

/// The functions of an emulated runtime that no real one has.
pub(super) struct Emulator {
    take_reports: TakeText,
    last_fault: TakeText,
    set_sample: SetSample,
}

impl Emulator {
    /// Of a runtime; `None` when it is a real one.
    pub(super) fn of(runtime: &Runtime) -> Option<Self> {
        let find = |name: &CStr| runtime.extension(name).map(NonNull::as_ptr);
        let reports = find(c"rocmEmuTakeReports")?;
        let fault = find(c"rocmEmuLastFault")?;
        let sample = find(c"rocmEmuSetSample")?;
        // SAFETY: functions of these names are the emulator's, with these signatures (crates/rocm-emu/src/extension.rs); a library
        // stays loaded as long as the process.
        unsafe {
            Some(Self {
                take_reports: std::mem::transmute::<*mut c_void, TakeText>(reports),
                last_fault: std::mem::transmute::<*mut c_void, TakeText>(fault),
                set_sample: std::mem::transmute::<*mut c_void, SetSample>(sample),
            })
        }
    }

    /// The reports of the launches since the last call.
    ///
    /// # Errors
    /// When the runtime gives something else.
    pub(super) fn reports(&self) -> Result<Vec<LaunchReport>, DeviceError> {
        let text = text(self.take_reports)?;
        serde_json::from_slice(&text).map_err(|error| {
            DeviceError::Failed(format!(
                "the emulated runtime's report of its launches cannot be read ({error}): it is of another version"
            ))
        })
    }

    /// Drops the reports so far.
    ///
    /// # Errors
    /// As [`Emulator::reports`].
    pub(super) fn forget(&self) -> Result<(), DeviceError> {
        text(self.take_reports).map(drop)
    }

    /// How many workgroups of each later launch run; all without a number.
    ///
    /// # Errors
    /// When the runtime refuses.
    pub(super) fn sample(&self, workgroups: Option<u64>) -> Result<(), DeviceError> {
        // SAFETY: the function takes any number.
        match unsafe { (self.set_sample)(workgroups.unwrap_or(0)) } {
            0 => Ok(()),
            code => Err(refused(code)),
        }
    }

    /// What the last fault was; `None` when there was none.
    pub(super) fn fault(&self) -> Option<String> {
        let text = text(self.last_fault).ok().filter(|text| !text.is_empty())?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

fn refused(code: c_int) -> DeviceError {
    DeviceError::Failed(format!("the emulated runtime refused a request of its own interface (error {code})"))
}

/// A text of unknown length: asked for its length, then taken. A launch between the two cannot be: one thread drives a device.
fn text(take: TakeText) -> Result<Vec<u8>, DeviceError> {
    let mut needed = 0;
    // SAFETY: with no capacity nothing is written but the length.
    let code = unsafe { take(std::ptr::null_mut(), 0, &raw mut needed) };
    if code != 0 {
        return Err(refused(code));
    }
    let mut bytes = vec![0u8; needed];
    // SAFETY: there are `needed` bytes to write to.
    let code = unsafe { take(bytes.as_mut_ptr().cast(), bytes.len(), &raw mut needed) };
    if code != 0 {
        return Err(refused(code));
    }
    bytes.truncate(needed);
    // The text ends with a NUL.
    while bytes.pop_if(|byte| *byte == 0).is_some() {}
    Ok(bytes)
}
