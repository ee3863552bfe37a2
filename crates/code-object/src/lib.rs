//! AMDGPU code objects: what GPUs load.
//!
//! - [`load`] finds code objects in a file: a code object itself, a clang offload bundle (plain or compressed), or a host
//!   ELF file with a `.hip_fatbin` section.
//! - [`CodeObject`] is one of them: [`Target`], segments, symbols, dynamic relocations, and [`Kernel`]s with arguments,
//!   resources and all fields of their [`KernelDescriptor`].
//!
//! Everything is read within the bounds of the file, in time and memory linear in its size (times the compression ratio,
//! which is bounded): no input panics, hangs or exhausts memory. The crate knows no device and never writes a file.

mod compressed;
mod container;
mod descriptor;
mod dynamic;
mod elf;
mod error;
mod kernel;
mod metadata;
mod msgpack;
mod object;
mod raw;
mod relocation;
mod symbol;
mod target;

pub use container::{BundleEntry, Compression, CompressionMethod, Content, Image, load};
pub use descriptor::{
    ComputePgmRsrc1, ComputePgmRsrc2, ComputePgmRsrc3, DESCRIPTOR_BYTES, DenormMode, KernargPreload,
    KernelCodeProperties, KernelDescriptor, RoundMode, WorkitemIds,
};
pub use error::{Error, Result};
pub use kernel::{Access, AddressSpace, Arg, Kernel, KernelKind, ValueKind};
pub use object::{CodeObject, Section, Segment};
pub use relocation::{Patch, Relocation, RelocationKind};
pub use symbol::{Binding, Symbol, SymbolKind, SymbolPlace};
pub use target::{CodeObjectVersion, Feature, Generation, Processor, Target};
