//! Versions of the SDK, and which of them have the layouts declared here.

use std::fmt;

/// A version of the SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Changes with the ABI from 1 on.
    pub major: u32,
    /// Grows with each ROCm release that adds to the interface.
    pub minor: u32,
    /// Fixes.
    pub patch: u32,
}

impl Version {
    /// The first version whose structs passed by value have the layouts declared here (ROCm 7.0).
    pub const MINIMUM: Version = Version::new(1, 0, 0);
    /// The only known major version.
    pub const KNOWN_MAJOR: u32 = 1;

    /// A version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch }
    }

    /// The number that `rocprofiler_configure` is given: 10000 x major + 100 x minor + patch; `None` when it does not fit.
    pub fn packed(self) -> Option<u32> {
        let major = self.major.checked_mul(10_000)?;
        major.checked_add(self.minor.checked_mul(100)?)?.checked_add(self.patch)
    }

    /// Whether this crate's layouts are those of the version.
    ///
    /// # Errors
    /// [`VersionError::TooOld`] below 1.0.0; [`VersionError::UnknownMajor`] from 2.0.0 on, unless `allow_unknown_major`.
    pub fn check(self, allow_unknown_major: bool) -> Result<(), VersionError> {
        if self < Version::MINIMUM {
            return Err(VersionError::TooOld(self));
        }
        if self.major != Version::KNOWN_MAJOR && !allow_unknown_major {
            return Err(VersionError::UnknownMajor(self));
        }
        Ok(())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// Why a version is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// Before 1.0.0.
    #[error(
        "rocprofiler-sdk {0} (ROCm older than 7.0) is too old: 1.0.0 or later is needed, because records that go by value \
         through callbacks had other sizes before. Install ROCm 7.0 or later to collect counters"
    )]
    TooOld(Version),
    /// A major version that did not exist when the layouts were declared.
    #[error(
        "rocprofiler-sdk {0} has a major version whose layouts are unknown here: only 1.x is supported. Use a ROCm \
         with rocprofiler-sdk 1.x to collect counters"
    )]
    UnknownMajor(Version),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_layouts_pass() {
        for old in [Version::new(0, 4, 0), Version::new(0, 7, 0), Version::new(0, 99, 99)] {
            assert_eq!(old.check(false), Err(VersionError::TooOld(old)));
            assert_eq!(old.check(true), Err(VersionError::TooOld(old)));
        }
        for known in [Version::new(1, 0, 0), Version::new(1, 1, 0), Version::new(1, 3, 5), Version::new(1, 4, 1)] {
            assert_eq!(known.check(false), Ok(()));
        }
        let next = Version::new(2, 0, 0);
        assert_eq!(next.check(false), Err(VersionError::UnknownMajor(next)));
        // What only a program can choose is no advice to its user.
        assert!(!VersionError::UnknownMajor(next).to_string().contains("allow"));
        assert_eq!(next.check(true), Ok(()));
    }

    #[test]
    fn packed_as_configure_gets_it() {
        // 1.0.0 was seen to give 10000.
        assert_eq!(Version::new(1, 0, 0).packed(), Some(10_000));
        assert_eq!(Version::new(1, 3, 2).packed(), Some(10_302));
        assert_eq!(Version::new(u32::MAX, 0, 0).packed(), None);
        assert_eq!(Version::new(429_496, u32::MAX / 100, 99).packed(), None);
    }
}
