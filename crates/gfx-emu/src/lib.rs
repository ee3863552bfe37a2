//! The emulated GPU: decodes and executes AMDGPU code objects on the CPU, exactly, with counters and a lower bound on time.
//! It knows nothing of HIP, of profiles or of kernels' meaning, and it never reports a measured time.

pub mod bound;
pub mod counters;
pub mod exec;
pub mod fault;
pub mod isa;
pub mod launch;
pub mod mem;
pub mod model;
pub mod program;
pub mod traffic;
