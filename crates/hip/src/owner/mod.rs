//! Safe owners of what HIP gives out.
//!
//! Each owner holds what it depends on (a stream its device, a kernel its module), so nothing is released too early, and releases its own
//! handle when dropped. HIP's calls may come from any thread, so owners can be sent and shared.

mod attribute;
mod buffer;
mod compiler;
mod device;
mod event;
mod graph;
mod image;
mod module;
mod runtime;
mod stream;
mod wait;

use std::ptr::NonNull;

pub use attribute::{Attribute, FunctionAttribute};
pub use buffer::{Buffer, BufferSlice};
pub use compiler::{Compiled, Compiler};
pub use device::{Device, Uuid};
pub use event::{Event, EventOptions};
pub use graph::{Graph, GraphExec};
pub use module::{Dim3, Function, Module};
pub use runtime::{DropErrors, Runtime};
pub use stream::Stream;

/// A handle of HIP: an address that only HIP looks behind.
struct Handle<T>(NonNull<T>);

impl<T> Handle<T> {
    fn raw(&self) -> *mut T {
        self.0.as_ptr()
    }
}

// SAFETY: HIP's functions may be called with any handle from any thread, at the same time; nothing is read through the pointer here.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}
