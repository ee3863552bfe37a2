//! Becoming the SDK's tool.

use super::{Error, catch, check, guard, keep};
use crate::types::{ClientFinalizeFn, ClientId, ConfigureResult};
use crate::{Sdk, Status, Version};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicBool, Ordering};

/// This program as a tool of the SDK. It exists once it was configured, and as long as the process.
#[derive(Debug)]
pub struct Tool {
    pub(crate) sdk: &'static Sdk,
    name: &'static CStr,
    ended: AtomicBool,
}

impl Tool {
    /// The SDK, as long as it may be called.
    pub(crate) fn sdk(&self) -> Result<&'static Sdk, Error> {
        if self.has_ended() { Err(Error::Finalized) } else { Ok(self.sdk) }
    }

    /// Whether the SDK has told the tool that the process is ending. Nothing may be called from then on, and nothing is: every
    /// function of this module gives [`Error::Finalized`].
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// The time inside `initialize`, in which contexts, buffers and services can be made. No call of HIP or HSA may be made
/// while it exists.
#[derive(Debug)]
pub struct Setup {
    pub(crate) tool: &'static Tool,
}

impl Setup {
    /// The SDK: agents, counters and configurations can be had already.
    pub fn sdk(&self) -> &'static Sdk {
        self.tool.sdk
    }

    /// The tool.
    pub fn tool(&self) -> &'static Tool {
        self.tool
    }
}

type Initialize = Box<dyn FnOnce(&Setup) -> bool>;

struct Job {
    tool: &'static Tool,
    initialize: Initialize,
}

thread_local! {
    /// `force_configure` takes a function without data and calls it, and what it returns, in the same thread.
    static JOB: Cell<Option<Job>> = const { Cell::new(None) };
    /// What a panic in `initialize` said.
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
}

/// The first version that takes a tool after others.
const SEVERAL_TOOLS: Version = Version::new(1, 3, 2);

/// Makes this program the SDK's tool: `initialize` runs before this returns, and its value is given. Once a process.
///
/// Call it before HIP is initialised and before threads are started: the SDK sets environment variables. When `initialize` fails,
/// the SDK may keep the contexts made so far, which are then never started.
///
/// # Errors
/// [`Error::Taken`] when another tool has the SDK (from 1.3.2 on tools share it, and only what they count may conflict); what `initialize` gives; [`Error::Panicked`]; [`Error::Status`]
/// (`CONFIGURATION_LOCKED` when a tool was configured before).
pub fn force_configure<T: 'static>(
    sdk: &'static Sdk,
    name: &'static CStr,
    initialize: impl FnOnce(&Setup) -> Result<T, Error> + 'static,
) -> Result<T, Error> {
    let mut state: c_int = 0;
    // SAFETY: a valid pointer; allowed at any time.
    let status = unsafe { sdk.is_initialized()?(&mut state) };
    check(sdk, "rocprofiler_is_initialized", status)?;
    if state < 0 || (state > 0 && sdk.version() < SEVERAL_TOOLS) {
        return Err(Error::Taken { in_progress: state < 0, environment: tools_in_environment() });
    }
    let tool = keep(Tool { sdk, name, ended: AtomicBool::new(false) });
    let outcome: std::rc::Rc<Cell<Option<Result<T, Error>>>> = std::rc::Rc::default();
    let result = std::rc::Rc::clone(&outcome);
    let run: Initialize = Box::new(move |setup| {
        let value = initialize(setup);
        let is_ok = value.is_ok();
        result.set(Some(value));
        is_ok
    });
    JOB.set(Some(Job { tool, initialize: run }));
    PANIC.set(None);
    let force_configure = sdk.force_configure()?;
    // SAFETY: the function keeps to the contract of a configure function and lives as long as the process.
    let status = unsafe { force_configure(Some(configure)) };
    let was_started = JOB.take().is_none();
    if let Err(error) = check(sdk, "rocprofiler_force_configure", status) {
        return Err(match (status, outcome.take()) {
            (_, Some(Err(cause))) => cause,
            (Status::CONFIGURATION_LOCKED, _) if !tools_in_environment().is_empty() => {
                Error::Taken { in_progress: false, environment: tools_in_environment() }
            }
            _ => error,
        });
    }
    match (outcome.take(), PANIC.take()) {
        (Some(result), _) => result,
        (None, Some(message)) => Err(Error::Panicked(message)),
        (None, None) => Err(Error::NotCalled { what: if was_started { "initialize" } else { "configure function" } }),
    }
}

/// Variables with which rocprofv3 and others put a tool into a process.
fn tools_in_environment() -> Vec<String> {
    let names = ["ROCP_TOOL_LIBRARIES", "ROCPROFILER_LIBRARY_CTOR", "ROCPROFILER_REGISTER_LIBRARY"];
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut found: Vec<String> = names.iter().filter(|name| is_set(name)).map(|name| (*name).to_owned()).collect();
    if std::env::var_os("LD_PRELOAD").is_some_and(|value| value.to_string_lossy().contains("rocprofiler")) {
        found.push("LD_PRELOAD".to_owned());
    }
    found
}

unsafe extern "C" fn configure(
    _version: u32,
    _runtime: *const c_char,
    _priority: u32,
    client: *mut ClientId,
) -> *mut ConfigureResult {
    guard(std::ptr::null_mut(), || {
        let Some(job) = JOB.take() else { return std::ptr::null_mut() };
        // SAFETY: the SDK gives a client that starts with its size; the name is written only when it lies inside.
        unsafe {
            if !client.is_null() && (*client).size >= offset_of!(ClientId, name) + size_of::<*const c_char>() {
                (*client).name = job.tool.name.as_ptr();
            }
        }
        let tool: *const Tool = job.tool;
        JOB.set(Some(job));
        Box::leak(Box::new(ConfigureResult {
            size: size_of::<ConfigureResult>(),
            initialize: Some(run_initialize),
            finalize: Some(run_finalize),
            tool_data: tool.cast_mut().cast(),
        }))
    })
}

unsafe extern "C" fn run_initialize(_finalize: Option<ClientFinalizeFn>, _tool: *mut c_void) -> c_int {
    let outcome = catch(|| JOB.take().is_some_and(|job| (job.initialize)(&Setup { tool: job.tool })));
    let is_kept = outcome.unwrap_or_else(|message| {
        PANIC.set(Some(message));
        false
    });
    c_int::from(!is_kept)
}

/// Only remembers: the SDK holds a lock that is not recursive while it calls this.
unsafe extern "C" fn run_finalize(tool: *mut c_void) {
    // SAFETY: what `configure` gave, which is never freed.
    if let Some(tool) = unsafe { tool.cast::<Tool>().as_ref() } {
        tool.ended.store(true, Ordering::Release);
    }
}
