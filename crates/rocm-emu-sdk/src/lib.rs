//! The emulated rocprofiler-sdk as a shared library.
