//! hiprtc's calls. Handles are vouched for as in the calls of HIP.
#![allow(clippy::missing_safety_doc)]

use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;

use super::calls::text_of;
use super::error::HipError;
use super::library::Library;
use crate::sys::{self, hiprtcProgram};

/// hiprtc and its functions.
pub(crate) struct RtcApi {
    pub(crate) library: Library,
    functions: sys::Hiprtc,
}

/// Looks a function up, calls it, and turns its status into a result.
macro_rules! call {
    ($api:expr, $name:ident($($arg:expr),* $(,)?)) => {
        match $api.functions.$name(&$api.library) {
            // SAFETY: outputs are locals of the calling function; handles and addresses are vouched for by that function's caller.
            Ok(function) => $api.check(stringify!($name), unsafe { function($($arg),*) }),
            Err(missing) => Err($api.library.missing(missing)),
        }
    };
}

impl RtcApi {
    pub(crate) fn new(library: Library) -> Self {
        Self { library, functions: sys::Hiprtc::new() }
    }

    fn check(&self, function: &'static str, code: sys::hiprtcResult) -> Result<(), HipError> {
        if code == sys::HIPRTC_SUCCESS { Ok(()) } else { Err(self.error(function, code)) }
    }

    #[cold]
    fn error(&self, function: &'static str, code: sys::hiprtcResult) -> HipError {
        HipError::Call { function, code, name: self.status_name(code), text: Box::default(), context: Box::default() }
    }

    /// hiprtc's name of a status.
    fn status_name(&self, code: sys::hiprtcResult) -> Box<str> {
        let say = self.functions.hiprtcGetErrorString(&self.library).ok();
        // SAFETY: it takes a number and gives NULL (for a status it does not know) or a static string.
        say.and_then(|say| unsafe { text_of(say(code)) }).unwrap_or_else(|| "hiprtcResult".into())
    }

    pub(crate) fn version(&self) -> Result<(u32, u32), HipError> {
        let (mut major, mut minor) = (0, 0);
        call!(self, hiprtcVersion(&raw mut major, &raw mut minor))?;
        Ok((major.unsigned_abs(), minor.unsigned_abs()))
    }

    pub(crate) fn create(&self, source: &CStr, name: &CStr) -> Result<NonNull<sys::_hiprtcProgram>, HipError> {
        let mut program = std::ptr::null_mut();
        let (none, also_none) = (std::ptr::null_mut(), std::ptr::null_mut());
        call!(self, hiprtcCreateProgram(&raw mut program, source.as_ptr(), name.as_ptr(), 0, none, also_none))?;
        NonNull::new(program).ok_or_else(|| {
            self.error("hiprtcCreateProgram", sys::HIPRTC_ERROR_INTERNAL_ERROR).about(|| "it gave no program".into())
        })
    }

    pub(crate) unsafe fn compile(&self, program: hiprtcProgram, options: &mut [*const c_char]) -> Result<(), HipError> {
        let count = c_int::try_from(options.len()).map_err(|_| HipError::invalid("too many options".into()))?;
        call!(self, hiprtcCompileProgram(program, count, options.as_mut_ptr()))
    }

    /// The compiler's messages, without the NUL at their end.
    pub(crate) unsafe fn log(&self, program: hiprtcProgram) -> Result<String, HipError> {
        let mut bytes = 0;
        call!(self, hiprtcGetProgramLogSize(program, &raw mut bytes))?;
        let mut log = vec![0_u8; bytes];
        if bytes > 0 {
            call!(self, hiprtcGetProgramLog(program, log.as_mut_ptr().cast()))?;
        }
        let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }

    pub(crate) unsafe fn code(&self, program: hiprtcProgram) -> Result<Vec<u8>, HipError> {
        let mut bytes = 0;
        call!(self, hiprtcGetCodeSize(program, &raw mut bytes))?;
        let mut code = vec![0_u8; bytes];
        if bytes > 0 {
            call!(self, hiprtcGetCode(program, code.as_mut_ptr().cast()))?;
        }
        Ok(code)
    }

    pub(crate) unsafe fn destroy(&self, mut program: hiprtcProgram) -> Result<(), HipError> {
        call!(self, hiprtcDestroyProgram(&raw mut program))
    }
}
