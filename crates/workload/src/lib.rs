//! Kernel families: what a kernel computes, at which shape, on which data, and how much work that is.
//!
//! A *case* is a family plus a typed shape plus dtypes ([`Workload`]). It knows its tensors, fills them with seeded
//! realistic data, counts its compulsory FLOPs and bytes exactly, computes its own result on the CPU twice (a fast
//! reference and a naive second form that checks it), and states how far a correct kernel may be from it.
//!
//! This crate knows no device, reads no file and prints nothing: it will never launch a kernel or parse a profile.

pub mod dtype;
pub mod error;
pub mod families;
pub mod family;
mod matmul;
pub mod narrow;
pub mod op;
pub mod random;
pub mod shape;
mod simd;
pub mod tensor;
pub mod verify;
pub mod work;

pub use dtype::{Dtype, DtypeTag, Dtypes, Fp8Flavor};
pub use error::ShapeError;
pub use family::{CaseOptions, Family, Workload, case, recover};
pub use op::{ArgDims, OpArg, OpCall, Recovered, Value};
pub use shape::{ShapeMap, ShapeValue};
pub use tensor::{Role, Tensor, TensorSet, TensorSpec};
pub use verify::{Tolerance, Verification};
pub use work::Work;
