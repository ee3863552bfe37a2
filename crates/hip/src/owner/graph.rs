//! Graphs.

use std::ptr::NonNull;
use std::sync::Arc;

use super::Handle;
use super::device::Device;
use super::module::LoadedModule;
use super::stream::Stream;
use crate::api::HipError;
use crate::sys;

/// Captured work.
pub struct Graph {
    device: Device,
    handle: Handle<sys::ihipGraph>,
    /// The code objects of its kernels.
    modules: Vec<Arc<LoadedModule>>,
}

/// A graph made ready to launch, any number of times.
pub struct GraphExec {
    device: Device,
    handle: Handle<sys::hipGraphExec>,
    /// The code objects of its kernels, which must stay loaded.
    _modules: Vec<Arc<LoadedModule>>,
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Graph")
            .field("device", &self.device.index())
            .field("modules", &self.modules.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for GraphExec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GraphExec").field("device", &self.device.index()).finish_non_exhaustive()
    }
}

impl Graph {
    pub(super) fn new(device: &Device, handle: NonNull<sys::ihipGraph>, modules: Vec<Arc<LoadedModule>>) -> Self {
        Self { device: device.clone(), handle: Handle(handle), modules }
    }

    /// How many nodes it has; an empty one cannot be instantiated.
    ///
    /// # Errors
    /// What HIP says.
    pub fn nodes(&self) -> Result<usize, HipError> {
        // SAFETY: the handle is live.
        unsafe { self.device.api().graph_nodes(self.handle.raw()) }
    }

    /// Makes it ready to launch.
    ///
    /// # Errors
    /// What HIP says.
    pub fn instantiate(&self) -> Result<GraphExec, HipError> {
        self.device.make_current()?;
        // SAFETY: the handle is live.
        let handle = unsafe { self.device.api().graph_instantiate(self.handle.raw()) }?;
        Ok(GraphExec { device: self.device.clone(), handle: Handle(handle), _modules: self.modules.clone() })
    }
}

impl GraphExec {
    /// Puts all of its work into a stream.
    ///
    /// # Errors
    /// [`HipError::Invalid`] for a stream of another device, or what HIP says.
    pub fn launch(&self, stream: &Stream) -> Result<(), HipError> {
        stream.same_device(&self.device, "a graph")?;
        // SAFETY: both handles are live, and so are the code objects of the graph's kernels, which it holds.
        unsafe { self.device.api().graph_launch(self.handle.raw(), stream.raw()) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and not used after this; instantiated graphs do not need it.
        let result = unsafe { self.device.api().graph_destroy(self.handle.raw()) };
        self.device.runtime().released(result);
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        // SAFETY: the handle is live, and not used after this.
        let result = unsafe { self.device.api().graph_exec_destroy(self.handle.raw()) };
        self.device.runtime().released(result);
    }
}
