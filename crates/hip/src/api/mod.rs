//! The library: found and loaded, and its calls checked.
//!
//! Every status is turned into a [`HipError`] that carries the function, the code, and what the library itself says about it.

mod calls;
mod error;
mod library;
mod rtc_calls;

pub(crate) use calls::Api;
pub use error::{HipError, Tried};
pub use library::{HIP_LIBRARY_VARIABLE, HIPRTC_LIBRARY_VARIABLE, Library, SymbolTable};
pub(crate) use rtc_calls::RtcApi;

/// A version of HIP as one number: `major * 10_000_000 + minor * 100_000 + patch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u32);

impl Version {
    /// The major version: 5, 6, 7.
    #[must_use]
    pub fn major(self) -> u32 {
        self.0 / 10_000_000
    }

    /// The minor version.
    #[must_use]
    pub fn minor(self) -> u32 {
        self.0 / 100_000 % 100
    }

    /// The patch number, a build count.
    #[must_use]
    pub fn patch(self) -> u32 {
        self.0 % 100_000
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major(), self.minor(), self.patch())
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn versions_of_real_libraries_are_split() {
        // Debian's 5.2.3 (file name libamdhip64.so.5.2.21153) and 7.2.4 (HIP_VERSION_PATCH 53211).
        assert_eq!(Version(50_221_153).to_string(), "5.2.21153");
        assert_eq!(Version(70_253_211).to_string(), "7.2.53211");
        assert_eq!((Version(70_253_211).major(), Version(70_253_211).minor()), (7, 2));
    }
}
