//! Counting a case's launches through rocprofiler-sdk: the collection in the device's process.
//!
//! [`Counting::configure`] must run before the first HIP call, [`Counting::attach`] when the device is open, [`Counting::count`]
//! once a case. Which counters there are, passes, formulas, the ring and rocprofv3's files are `kbench-counters`'; the SDK is
//! `rocprofiler-sdk-sys`'. docs/counters.md describes it for users.

mod attached;
mod combine;
mod counting;
mod lock;
mod profiler;
mod request;
mod shared;

pub use counting::{Counting, NotCounted};
pub use lock::{DEVICE_NOT_LOCKED, is_of_device_lock};
pub use profiler::{CaseCounters, CaseFacts, Profiler, ProfilerError};
pub use request::{
    DEFAULT_REPEATS, KernelFilter, OwnCounter, PatternError, Request, RequestError, Survey, Surveyed, What,
};
