//! The HIP and rocprofiler-sdk C interfaces over the emulated GPU, as tables of functions.

pub mod hooks;
