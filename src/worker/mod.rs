//! Child processes that own a device, and the parent's side of them.
//!
//! A driver that hangs, faults or aborts must cost one case and not the run, and after a fault the context of the process
//! that had it is good for nothing. So the parent never opens a device: `kbench worker` ([`serve`]) opens one and runs
//! cases on it, the [`Supervisor`] hands out cases over pipes ([`frame`], [`message`]), watches each stage against a limit
//! ([`Limits`]), kills what hangs together with its process group, and starts it again.

mod child;
pub mod frame;
mod limits;
pub mod message;
mod pool;
mod process;
mod supervisor;
mod tasks;

pub use child::serve;
pub use limits::Limits;
pub use pool::WorkerError;
pub use process::Program;
pub use supervisor::Supervisor;
pub use tasks::{Task, Watcher};
