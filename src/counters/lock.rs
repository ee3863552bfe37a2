//! What rocprofiler-sdk tells only on standard error.

/// For results of a device that the SDK could not lock.
pub const DEVICE_NOT_LOCKED: &str = "the device could not be locked for profiling (an amdgpu driver that is too old for it, or no CAP_PERFMON): \
     counts are wrong where another profiler ran at the same time";

/// Whether a line of standard error is the SDK's on a device that it could not lock: it counts all the same, and no function tells
/// of it. 1.0 prints it for every failure of that driver call.
pub fn is_of_device_lock(line: &str) -> bool {
    line.contains("could not be locked") && line.contains("SYS_PERFMON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sdks_line_is_known() {
        assert!(is_of_device_lock(
            "rocprofiler-sdk: device could not be locked for profiling due to lack of permissions (capability SYS_PERFMON)"
        ));
        assert!(!is_of_device_lock("the file could not be locked"));
    }
}
