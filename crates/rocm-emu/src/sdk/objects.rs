//! Code objects that the runtime loaded, and telling tools of them.

use super::services::Context;
use super::state::Sdk;
use crate::hooks;
use rocprofiler_sdk_sys::types::*;
use std::ffi::{CStr, CString, c_void};
use std::mem::size_of;
use std::sync::Arc;

/// A code object, kept.
#[derive(Debug)]
pub(crate) struct Object {
    id: u64,
    agent: u64,
    uri: CString,
    load_base: u64,
    load_size: u64,
    load_delta: i64,
    memory: (u64, u64),
    kernels: Vec<Kernel>,
}

#[derive(Debug)]
struct Kernel {
    name: CString,
    data: KernelNumbers,
}

/// The kernel's struct without its pointer.
#[derive(Clone, Copy, Debug)]
struct KernelNumbers {
    kernel_id: u64,
    kernel_object: u64,
    kernarg: (u32, u32),
    group_segment: u32,
    private_segment: u32,
    registers: [u32; 3],
    entry_offset: i64,
    entry_address: u64,
}

/// A copy of a string of the runtime's.
///
/// # Safety
/// NULL or terminated.
unsafe fn copy(text: *const std::ffi::c_char) -> CString {
    // SAFETY: not NULL, hence terminated.
    if text.is_null() { CString::default() } else { unsafe { CStr::from_ptr(text) }.to_owned() }
}

impl Object {
    /// Copies what the runtime tells.
    ///
    /// # Safety
    /// As [`hooks::CodeObject`] says.
    pub(crate) unsafe fn of(from: &hooks::CodeObject) -> Self {
        let mut kernels = Vec::new();
        let mut next = from.kernels;
        for _ in 0..from.kernels_len {
            // SAFETY: so many kernels, each as far from the last as its size says.
            unsafe {
                let kernel = &*next;
                kernels.push(Kernel {
                    name: copy(kernel.name),
                    data: KernelNumbers {
                        kernel_id: kernel.kernel_id,
                        kernel_object: kernel.kernel_object,
                        kernarg: (kernel.kernarg_size, kernel.kernarg_align),
                        group_segment: kernel.group_segment,
                        private_segment: kernel.private_segment,
                        registers: [kernel.sgprs, kernel.vgprs, kernel.agprs],
                        entry_offset: kernel.entry_offset,
                        entry_address: kernel.entry_address,
                    },
                });
                next = next.byte_add(kernel.size);
            }
        }
        Object {
            id: from.code_object_id,
            agent: from.agent,
            // SAFETY: as the contract says.
            uri: unsafe { copy(from.uri) },
            load_base: from.load_base,
            load_size: from.load_size,
            load_delta: from.load_delta,
            memory: (from.bytes as u64, from.bytes_len as u64),
            kernels,
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

/// Bytes of a kernel's struct.
const SYMBOL_SIZE: u64 = size_of::<KernelSymbolData>() as u64;

impl Sdk {
    /// Tells the contexts' services of an object and its kernels: kernels after it when it is loaded, before it when it leaves.
    pub(crate) fn announce(&self, contexts: &[Arc<Context>], object: &Object, is_loaded: bool) {
        for context in contexts {
            for service in context.services().code_objects {
                let Some(callback) = service.callback else { continue };
                let wants = |operation: i32| service.operations.is_empty() || service.operations.contains(&operation);
                let tell = |operation: i32, payload: *mut c_void| {
                    let record = CallbackTracingRecord {
                        context_id: ContextId { handle: context.id },
                        thread_id: super::thread_id(),
                        correlation_id: CorrelationId::default(),
                        kind: callback_tracing::CODE_OBJECT as u32,
                        operation,
                        phase: if is_loaded { phase::LOAD } else { phase::UNLOAD },
                        payload,
                    };
                    let mut user = UserData(0);
                    // SAFETY: the tool's callback and data; record and payload live during the call.
                    unsafe { callback(record, &mut user, service.data.0) };
                };
                let load = || {
                    if wants(code_object::LOAD) {
                        let mut data = load_data(object);
                        let data: *mut CodeObjectLoadData = &mut data;
                        tell(code_object::LOAD, data.cast());
                    }
                };
                if is_loaded {
                    load();
                }
                for kernel in object.kernels.iter().filter(|_| wants(code_object::DEVICE_KERNEL_SYMBOL_REGISTER)) {
                    let mut data = symbol_data(object.id, kernel);
                    let data: *mut KernelSymbolData = &mut data;
                    tell(code_object::DEVICE_KERNEL_SYMBOL_REGISTER, data.cast());
                }
                if !is_loaded {
                    load();
                }
            }
        }
    }
}

fn load_data(object: &Object) -> CodeObjectLoadData {
    let is_in_memory = object.memory.1 != 0;
    CodeObjectLoadData {
        size: size_of::<CodeObjectLoadData>() as u64,
        code_object_id: object.id,
        agent_id: AgentId { handle: object.agent },
        hsa_agent: object.agent,
        uri: object.uri.as_ptr(),
        load_base: object.load_base,
        load_size: object.load_size,
        load_delta: object.load_delta,
        storage_type: if is_in_memory { 2 } else { 0 },
        memory_base: object.memory.0,
        memory_size: object.memory.1,
    }
}

fn symbol_data(code_object_id: u64, kernel: &Kernel) -> KernelSymbolData {
    let data = kernel.data;
    let [sgpr_count, arch_vgpr_count, accum_vgpr_count] = data.registers;
    KernelSymbolData {
        size: SYMBOL_SIZE,
        kernel_id: data.kernel_id,
        code_object_id,
        kernel_name: kernel.name.as_ptr(),
        kernel_object: data.kernel_object,
        kernarg_segment_size: data.kernarg.0,
        kernarg_segment_alignment: data.kernarg.1,
        group_segment_size: data.group_segment,
        private_segment_size: data.private_segment,
        sgpr_count,
        arch_vgpr_count,
        accum_vgpr_count,
        kernel_code_entry_byte_offset: data.entry_offset,
        kernel_address: data.entry_address,
    }
}
