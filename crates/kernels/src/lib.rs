//! Kernels to run: manifests of own ones, launch descriptors of others', and all between them and a launch.
//!
//! - [`manifest`]: the schema `kbench.kernels/1` with its [`expr`]ession language.
//! - [`select`](mod@select): which build and variant runs a case, and why the others do not.
//! - [`plan`](mod@plan): a build at one case, as numbers; [`kernarg`]: its arguments as bytes.
//! - [`validate`]: a build against itself, its code object and a device.
//! - [`compile`]: from a kernel folder ([`tree`]) to a build folder ([`record`]), in parallel and only what changed;
//!   [`source`]: sources with their includes, also as one text for run-time compilers.
//! - [`library`]: builds that can be run, from the program, a build folder or a descriptor; [`embed`]: how they get into
//!   the program.
//!
//! Shapes come in through the trait [`Symbols`]: this crate knows no kernel family and no device runtime, and it never
//! launches anything.

pub mod compile;
pub mod embed;
pub mod expr;
pub mod kernarg;
pub mod library;
pub mod manifest;
pub mod object;
pub mod plan;
pub mod record;
pub mod select;
pub mod source;
pub mod symbols;
pub mod tree;
pub mod validate;

pub use library::{Library, LibraryError, Origin};
pub use manifest::{Build, Manifest, ManifestError};
pub use object::ObjectInfo;
pub use plan::{LaunchPlan, plan};
pub use select::{Case, Refusal, select};
pub use symbols::{DeviceInfo, NoSymbols, Symbols, TensorInfo, Value};
