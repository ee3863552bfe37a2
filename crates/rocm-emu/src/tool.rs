//! The HIP half of [`crate::hooks`]: the profiler's callbacks, and what they are given.

#![allow(unsafe_code)]

use crate::hooks::{self, CodeObject, CounterKind, CounterValue, Dispatch, KernelSymbol, Tool, agent_handle};
use crate::module::Loaded;
use crate::state::{Gpu, Runtime, describe};
use kbench_gfx_emu::counters::{Counters, Kind};
use std::ffi::{CStr, CString};
use std::mem::size_of;
use std::sync::OnceLock;

/// The runtime's own kernels: fills and copies on a device. Their names are those of the real runtime.
pub(crate) const OWN_KERNELS: [&CStr; 2] = [c"__amd_rocclr_fillBufferAligned.kd", c"__amd_rocclr_copyBuffer.kd"];

static TOOL: OnceLock<Option<Tool>> = OnceLock::new();

/// Connects the profiler that waits for the runtime; only the first call does anything.
pub(crate) fn connect(runtime: &'static Runtime) {
    TOOL.get_or_init(|| {
        let attach = hooks::find()?;
        // It outlives the call, as the contract says.
        let description = Box::leak(Box::new(describe(runtime)));
        let mut tool = Tool::empty();
        // SAFETY: both structures are whole and live; the function keeps to the contract.
        let answer = unsafe { attach(description, &mut tool) };
        if answer != 0 {
            return None;
        }
        for gpu in &runtime.gpus {
            own_code_object(&tool, gpu);
        }
        Some(tool)
    });
}

fn tool() -> Option<&'static Tool> {
    TOOL.get().and_then(Option::as_ref)
}

/// True when a profiler listens.
pub(crate) fn is_connected() -> bool {
    tool().is_some()
}

/// Ids of the runtime's own code object on a device: code object, then kernels. They are far from those that modules get.
fn own_id(device: usize, place: u64) -> u64 {
    (1 << 32) + (device as u64) * 16 + place
}

fn own_code_object(tool: &Tool, gpu: &Gpu) {
    let kernel = |(place, name): (u64, &CStr)| KernelSymbol {
        size: size_of::<KernelSymbol>(),
        kernel_id: own_id(gpu.index, place),
        name: name.as_ptr(),
        kernel_object: 0,
        entry_address: 0,
        entry_offset: 0,
        kernarg_size: 0,
        kernarg_align: 8,
        group_segment: 0,
        private_segment: 0,
        sgprs: 16,
        vgprs: 8,
        agprs: 0,
        reserved: 0,
    };
    let kernels: Vec<KernelSymbol> = (1..).zip(OWN_KERNELS).map(kernel).collect();
    let object = CodeObject {
        size: size_of::<CodeObject>(),
        code_object_id: own_id(gpu.index, 0),
        agent: agent_handle(gpu.index as u32),
        bytes: std::ptr::null(),
        bytes_len: 0,
        load_base: 0,
        load_size: 0,
        load_delta: 0,
        uri: c"memory://rocm-emu".as_ptr(),
        kernels: kernels.as_ptr(),
        kernels_len: kernels.len(),
    };
    if let Some(loaded) = tool.code_object_loaded {
        // SAFETY: the structure and what it points to live during the call.
        unsafe { loaded(tool.data, &object) };
    }
}

/// Tells of a module that was loaded or is about to be unloaded.
pub(crate) fn code_object(loaded: &Loaded, is_loaded: bool) {
    let Some(tool) = tool() else { return };
    let callback = if is_loaded { tool.code_object_loaded } else { tool.code_object_unloaded };
    let Some(callback) = callback else { return };
    let (base, object) = (loaded.module.base(), loaded.module.object());
    let names: Vec<CString> =
        object.kernels().iter().map(|kernel| CString::new(kernel.symbol.as_str()).unwrap_or_default()).collect();
    let symbols = object.kernels().iter().zip(&names).zip(&loaded.kernel_ids);
    let kernels: Vec<KernelSymbol> = symbols
        .map(|((kernel, name), id)| {
            let (vgprs, agprs) = match kernel.accum_offset() {
                Some(offset) => (u32::from(offset), kernel.descriptor.allocated_vgprs().saturating_sub(offset.into())),
                None => (kernel.descriptor.allocated_vgprs(), 0),
            };
            KernelSymbol {
                size: size_of::<KernelSymbol>(),
                kernel_id: *id,
                name: name.as_ptr(),
                kernel_object: base.wrapping_add(kernel.descriptor_address),
                entry_address: base.wrapping_add(kernel.entry_address),
                entry_offset: kernel.entry_address.wrapping_sub(kernel.descriptor_address) as i64,
                kernarg_size: kernel.kernarg_size,
                kernarg_align: kernel.kernarg_align,
                group_segment: kernel.lds_bytes,
                private_segment: kernel.scratch_bytes,
                sgprs: kernel.descriptor.allocated_sgprs().unwrap_or(kernel.sgprs),
                vgprs,
                agprs,
                reserved: 0,
            }
        })
        .collect();
    let uri = CString::new(loaded.uri.as_str()).unwrap_or_default();
    let bytes = object.bytes();
    let object = CodeObject {
        size: size_of::<CodeObject>(),
        code_object_id: loaded.code_object_id,
        agent: agent_handle(loaded.device as u32),
        bytes: bytes.as_ptr(),
        bytes_len: bytes.len(),
        load_base: base,
        load_size: object.memory_size(),
        load_delta: base as i64,
        uri: uri.as_ptr(),
        kernels: kernels.as_ptr(),
        kernels_len: kernels.len(),
    };
    // SAFETY: the structure and what it points to live during the call.
    unsafe { callback(tool.data, &object) };
}

/// A dispatch on its way.
#[derive(Debug)]
pub(crate) struct Announced {
    dispatch: Dispatch,
    name: CString,
    wants_counters: bool,
}

/// What a dispatch is, before it runs.
#[derive(Clone, Debug)]
pub(crate) struct About<'a> {
    pub(crate) dispatch_id: u64,
    pub(crate) correlation_id: u64,
    pub(crate) kernel_id: u64,
    pub(crate) code_object_id: u64,
    pub(crate) device: usize,
    pub(crate) queue: u64,
    pub(crate) name: &'a str,
    /// Work-items.
    pub(crate) grid: [u32; 3],
    pub(crate) workgroup: [u32; 3],
    pub(crate) group_segment: u32,
    pub(crate) private_segment: u32,
    pub(crate) enqueued_ns: u64,
}

impl<'a> About<'a> {
    /// A dispatch of one of the runtime's own kernels over `bytes`: 16 bytes a work-item, 256 work-items a workgroup.
    pub(crate) fn own(is_copy: bool, bytes: u64, device: usize, queue: u64) -> Self {
        let place = u64::from(is_copy);
        let items = u32::try_from(bytes.div_ceil(16).next_multiple_of(256)).unwrap_or(u32::MAX - 255);
        let name = if is_copy { "__amd_rocclr_copyBuffer" } else { "__amd_rocclr_fillBufferAligned" };
        Self {
            dispatch_id: 0,
            correlation_id: 0,
            kernel_id: own_id(device, 1 + place),
            code_object_id: own_id(device, 0),
            device,
            queue,
            name,
            grid: [items.max(256), 1, 1],
            workgroup: [256, 1, 1],
            group_segment: 0,
            private_segment: 0,
            enqueued_ns: 0,
        }
    }
}

/// Tells of a dispatch that is about to run; `None` when nobody listens.
pub(crate) fn enqueued(about: &About<'_>) -> Option<Announced> {
    let tool = tool()?;
    let name = CString::new(about.name).unwrap_or_default();
    let mut dispatch = Dispatch {
        size: size_of::<Dispatch>(),
        dispatch_id: about.dispatch_id,
        correlation_id: about.correlation_id,
        kernel_id: about.kernel_id,
        code_object_id: about.code_object_id,
        agent: agent_handle(about.device as u32),
        queue: about.queue,
        thread: thread_number(),
        name: name.as_ptr(),
        grid: about.grid,
        workgroup: about.workgroup,
        group_segment: about.group_segment,
        private_segment: about.private_segment,
        enqueued_ns: about.enqueued_ns,
        start_ns: 0,
        end_ns: 0,
        counters: std::ptr::null(),
        counters_len: 0,
    };
    // SAFETY: the structure and what it points to live during the call.
    let wants_counters = tool.dispatch_enqueued.is_some_and(|callback| unsafe { callback(tool.data, &dispatch) } != 0);
    dispatch.name = std::ptr::null();
    Some(Announced { dispatch, name, wants_counters })
}

impl Announced {
    /// True when the tool wants the dispatch's counters.
    pub(crate) fn wants_counters(&self) -> bool {
        self.wants_counters
    }

    /// Tells that it has ended.
    pub(crate) fn completed(mut self, start_ns: u64, end_ns: u64, counters: Option<&Counters>) {
        let Some(tool) = tool() else { return };
        let Some(callback) = tool.dispatch_completed else { return };
        let list =
            counters.filter(|_| self.wants_counters).map(|counters| counters.list.as_slice()).unwrap_or_default();
        let names: Vec<CString> = list.iter().map(|counter| CString::new(counter.name).unwrap_or_default()).collect();
        let kind = |kind| match kind {
            Kind::Exact => CounterKind::Exact,
            Kind::Model => CounterKind::Model,
            Kind::Derived => CounterKind::Derived,
        };
        let values: Vec<CounterValue> = list
            .iter()
            .zip(&names)
            .map(|(counter, name)| CounterValue {
                name: name.as_ptr(),
                value: counter.value,
                kind: kind(counter.kind) as u32,
                reserved: 0,
            })
            .collect();
        self.dispatch.name = self.name.as_ptr();
        self.dispatch.start_ns = start_ns;
        self.dispatch.end_ns = end_ns;
        if self.wants_counters {
            self.dispatch.counters = values.as_ptr();
            self.dispatch.counters_len = values.len();
        }
        // SAFETY: the structure and what it points to live during the call.
        unsafe { callback(tool.data, &self.dispatch) };
    }
}

/// The OS's number of the calling thread, where it has one that can be read without C.
fn thread_number() -> u64 {
    let link = std::fs::read_link("/proc/thread-self").ok();
    let number = link.as_deref().and_then(|path| path.file_name()?.to_str()?.parse().ok());
    number.unwrap_or_else(|| std::process::id().into())
}
