//! Tools: how they are configured, and how they end.

use super::state::{Client, Sdk, sdk};
use super::{Data, guarded};
use rocprofiler_sdk_sys::types::*;
use rocprofiler_sdk_sys::{Status, Version};
use std::cell::Cell;
use std::ffi::{CString, c_int};
use std::mem::size_of;
use std::sync::Once;
use std::sync::atomic::Ordering;

/// From this version on a tool may come after others.
const SEVERAL_TOOLS: Version = Version::new(1, 3, 2);

thread_local! {
    static IS_FINALIZING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in a tool's `finalize`.
pub(crate) fn is_finalizing() -> bool {
    IS_FINALIZING.get()
}

unsafe extern "C" {
    /// The C library's.
    fn atexit(function: unsafe extern "C" fn()) -> c_int;
}

impl Sdk {
    /// Configures a tool and has it initialise, at once.
    pub(crate) fn force_configure(&'static self, configure: Option<ConfigureFn>) -> Status {
        if self.has_ended() {
            return if self.version >= SEVERAL_TOOLS { Status::FINALIZED } else { Status::CONFIGURATION_LOCKED };
        }
        let state = self.initialized.load(Ordering::Acquire);
        if state < 0 || (state > 0 && self.version < SEVERAL_TOOLS) {
            return Status::CONFIGURATION_LOCKED;
        }
        // SAFETY: the caller is single-threaded here, as the interface demands of it.
        unsafe { std::env::set_var("ROCPROFILER_REGISTER_FORCE_LOAD", "1") };
        static EXIT: Once = Once::new();
        EXIT.call_once(|| {
            // SAFETY: a function that lives as long as the process.
            unsafe { atexit(at_exit) };
        });
        self.initialized.store(-1, Ordering::Release);
        self.run_tool(configure);
        self.initialized.store(1, Ordering::Release);
        self.replay();
        Status::SUCCESS
    }

    fn run_tool(&self, configure: Option<ConfigureFn>) {
        let others = self.lock().clients.len() + usize::from(self.faults.locked);
        let handle = 0x9e37_79b9_u32.wrapping_mul(std::process::id()).wrapping_add(others as u32);
        let mut client = ClientId { size: size_of::<ClientId>(), name: std::ptr::null(), handle };
        let runtime = CString::new(self.version.to_string()).unwrap_or_default();
        let (version, priority) = (self.version.packed().unwrap_or(0), others as u32);
        // SAFETY: the tool's own function, with what the interface says. The result may be NULL.
        let result = unsafe {
            configure.and_then(|function| function(version, runtime.as_ptr(), priority, &mut client).as_ref().copied())
        };
        let Some(result) = result else {
            // The tool does not want to; it counts as configured all the same.
            self.lock().clients.push(Client {
                handle,
                finalize: None,
                data: Data(std::ptr::null_mut()),
                has_ended: true,
            });
            return;
        };
        let data = Data(result.tool_data);
        self.lock().clients.push(Client { handle, finalize: result.finalize, data, has_ended: false });
        if let Some(initialize) = result.initialize {
            // Whatever it answers, contexts stay: so it was seen on this way of configuring.
            // SAFETY: the tool's own function and data.
            unsafe { initialize(Some(client_finalize), result.tool_data) };
        }
    }

    /// A tool that came late hears of what was loaded before.
    fn replay(&self) {
        if self.clock.get().is_some() {
            let objects = self.lock().objects.clone();
            for object in objects {
                self.announce(&self.active(), &object, true);
            }
        }
    }

    /// Ends one tool, or all.
    fn finalize(&self, only: Option<u32>) {
        let mut ending = Vec::new();
        for client in &mut self.lock().clients {
            if !client.has_ended && only.is_none_or(|handle| handle == client.handle) {
                client.has_ended = true;
                ending.push(*client);
            }
        }
        for client in ending {
            if let Some(finalize) = client.finalize {
                IS_FINALIZING.set(true);
                // SAFETY: the tool's own function and data.
                unsafe { finalize(client.data.0) };
                IS_FINALIZING.set(false);
            }
        }
    }
}

unsafe extern "C" fn client_finalize(client: ClientId) {
    guarded((), || {
        if !is_finalizing() {
            sdk().finalize(Some(client.handle));
        }
    });
}

/// Contexts end first: in `finalize` none is active any more.
unsafe extern "C" fn at_exit() {
    guarded((), || {
        let sdk = sdk();
        sdk.signals.drain();
        let contexts = sdk.lock().contexts.clone();
        for context in contexts {
            context.set_active(false);
        }
        sdk.finalized.store(-1, Ordering::Release);
        sdk.finalize(None);
        sdk.finalized.store(1, Ordering::Release);
    });
}
