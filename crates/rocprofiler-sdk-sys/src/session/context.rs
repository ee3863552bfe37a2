//! Contexts.

use super::tool::{Setup, Tool};
use super::{Error, check};
use crate::Status;
use crate::types::ContextId;
use std::ffi::c_int;

/// Services that are started and stopped together.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    pub(crate) tool: &'static Tool,
    pub(crate) id: ContextId,
}

impl Setup {
    /// A new context.
    ///
    /// # Errors
    /// When the SDK refuses.
    pub fn context(&self) -> Result<Context, Error> {
        let sdk = self.tool.sdk()?;
        let mut id = ContextId::NONE;
        // SAFETY: a valid pointer to 0.
        let status = unsafe { sdk.create_context()?(&mut id) };
        check(sdk, "rocprofiler_create_context", status)?;
        Ok(Context { tool: self.tool, id })
    }
}

impl Context {
    /// The SDK's handle.
    pub fn id(&self) -> ContextId {
        self.id
    }

    /// Starts its services; once more does nothing. Allowed in `initialize` too.
    ///
    /// # Errors
    /// `CONTEXT_CONFLICT` when another context counts dispatches, `HSA_NOT_LOADED` for device counting before HIP is initialised,
    /// and whatever else the SDK answers.
    pub fn start(&self) -> Result<(), Error> {
        let sdk = self.tool.sdk()?;
        // SAFETY: the SDK made the context.
        let status = unsafe { sdk.start_context()?(self.id) };
        check(sdk, "rocprofiler_start_context", status)
    }

    /// Stops its services; of one that is stopped already nothing. Records under way still arrive, after it: wait for them before
    /// ([`super::Buffer::flush_until`]) when it matters that they arrived.
    ///
    /// # Errors
    /// What the SDK answers.
    pub fn stop(&self) -> Result<(), Error> {
        let sdk = self.tool.sdk()?;
        // SAFETY: the SDK made the context.
        let status = unsafe { sdk.stop_context()?(self.id) };
        // What 1.0 answers for a context that is not active.
        if status == Status::CONTEXT_NOT_FOUND && !self.is_active()? {
            return Ok(());
        }
        check(sdk, "rocprofiler_stop_context", status)
    }

    /// Whether it is started.
    ///
    /// # Errors
    /// What the SDK answers.
    pub fn is_active(&self) -> Result<bool, Error> {
        let sdk = self.tool.sdk()?;
        let mut answer: c_int = 0;
        // SAFETY: a valid pointer, and a context of the SDK.
        let status = unsafe { sdk.context_is_active()?(self.id, &mut answer) };
        check(sdk, "rocprofiler_context_is_active", status)?;
        Ok(answer != 0)
    }

    /// Whether its services can be started: an SDK finds here that one contradicts another.
    ///
    /// # Errors
    /// What the SDK answers.
    pub fn is_valid(&self) -> Result<bool, Error> {
        let sdk = self.tool.sdk()?;
        let mut answer: c_int = 0;
        // SAFETY: a valid pointer, and a context of the SDK.
        let status = unsafe { sdk.context_is_valid()?(self.id, &mut answer) };
        check(sdk, "rocprofiler_context_is_valid", status)?;
        Ok(answer != 0)
    }
}
