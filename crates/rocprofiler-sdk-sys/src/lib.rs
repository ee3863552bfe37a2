//! rocprofiler-sdk, loaded at run time.
