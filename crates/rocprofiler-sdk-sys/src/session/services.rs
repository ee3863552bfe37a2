//! Services of a context: code objects, dispatches, counters.

use super::buffer::Buffer;
use super::context::Context;
use super::query::CounterConfig;
use super::records::Dispatch;
use super::tool::Setup;
use super::{Error, Plain, check, guard, keep, read_sized, text};
use crate::types::*;
use std::ffi::c_void;

// SAFETY: integers, handles and raw pointers only.
unsafe impl Plain for KernelSymbolData {
    // Up to accum_vgpr_count, where early versions end.
    const LEAST: usize = 68;
    const NAME: &'static str = "kernel symbol";
}
// SAFETY: as above.
unsafe impl Plain for CodeObjectLoadData {
    const LEAST: usize = 68;
    const NAME: &'static str = "code object";
}

/// A code object on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeObject {
    /// Its number.
    pub id: u64,
    /// The device.
    pub agent: AgentId,
    /// Where it came from.
    pub uri: String,
    /// Device address.
    pub load_base: u64,
    /// Bytes there.
    pub load_size: u64,
}

/// A kernel of a code object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbol {
    /// Its number, as in [`Dispatch::kernel_id`].
    pub kernel_id: u64,
    /// Its code object.
    pub code_object_id: u64,
    /// Mangled name, without the descriptor's `.kd`.
    pub name: String,
    /// Bytes of arguments.
    pub kernarg_size: u32,
    /// Static LDS, bytes a workgroup.
    pub group_segment_size: u32,
    /// Scratch, bytes a work-item.
    pub private_segment_size: u32,
    /// SGPRs, rounded to the descriptor's granules: a code object's metadata has the exact count.
    pub sgprs: u32,
    /// VGPRs, rounded likewise.
    pub vgprs: u32,
    /// AGPRs, rounded likewise; not always 0 for a kernel without.
    pub agprs: u32,
}

impl KernelSymbol {
    /// Whether it is one of the runtime's own kernels (fills and copies), whose dispatches are records too.
    pub fn is_of_runtime(&self) -> bool {
        self.name.starts_with("__amd_rocclr_")
    }
}

/// What happens to code objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeObjectEvent {
    /// One was loaded.
    Loaded(CodeObject),
    /// One leaves.
    Unloaded(CodeObject),
    /// A kernel of a loaded one.
    Kernel(KernelSymbol),
    /// A kernel leaves.
    KernelUnloaded(KernelSymbol),
}

type OnCodeObject = Box<dyn Fn(CodeObjectEvent) + Send + Sync>;
type Choose = Box<dyn Fn(&Dispatch) -> Option<CounterConfig> + Send + Sync>;
type OnCounted = Box<dyn Fn(&Dispatch, &[CounterRecord]) + Send + Sync>;

/// Counting of what a device does in a span of time, whichever kernels run.
#[derive(Clone, Copy, Debug)]
pub struct DeviceCounting {
    context: Context,
}

impl Setup {
    /// Tells `on_event` of every code object and kernel from now on, in the thread that loads them. Start the context in
    /// `initialize` and do not stop it: names of kernels come no other way.
    ///
    /// # Errors
    /// What the SDK answers.
    pub fn code_objects(
        &self,
        context: Context,
        on_event: impl Fn(CodeObjectEvent) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let sdk = self.tool.sdk()?;
        let state: &'static OnCodeObject = keep(Box::new(on_event));
        let operations = [code_object::LOAD, code_object::DEVICE_KERNEL_SYMBOL_REGISTER];
        let configure = sdk.configure_callback_tracing_service()?;
        // SAFETY: a known kind and operations; the callback and its data live as long as the process.
        let status = unsafe {
            let (kind, count) = (callback_tracing::CODE_OBJECT, operations.len());
            configure(context.id, kind, operations.as_ptr(), count, Some(code_object_event), pointer(state))
        };
        check(sdk, "rocprofiler_configure_callback_tracing_service", status)
    }

    /// Traces dispatches into a buffer.
    ///
    /// # Errors
    /// What the SDK answers.
    pub fn trace_dispatches(&self, context: Context, buffer: Buffer) -> Result<(), Error> {
        let sdk = self.tool.sdk()?;
        let configure = sdk.configure_buffer_tracing_service()?;
        // SAFETY: a known kind with all its operations, and a buffer of the SDK.
        let status =
            unsafe { configure(context.id, buffer_tracing::KERNEL_DISPATCH, std::ptr::null(), 0, buffer.id()) };
        check(sdk, "rocprofiler_configure_buffer_tracing_service", status)
    }

    /// Counts dispatches: `choose` says what for each, in the launching thread, and `on_counted` gets the values, on other threads
    /// and late. Kernels run one after the other meanwhile. One such service a process can be active; do not
    /// have a buffered one in the same context.
    ///
    /// # Errors
    /// What the SDK answers.
    pub fn count_dispatches(
        &self,
        context: Context,
        choose: impl Fn(&Dispatch) -> Option<CounterConfig> + Send + Sync + 'static,
        on_counted: impl Fn(&Dispatch, &[CounterRecord]) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let sdk = self.tool.sdk()?;
        let choose: &'static Choose = keep(Box::new(choose));
        let on_counted: &'static OnCounted = keep(Box::new(on_counted));
        let configure = sdk.configure_callback_dispatch_counting_service()?;
        // SAFETY: callbacks and their data live as long as the process.
        let status =
            unsafe { configure(context.id, Some(choose_config), pointer(choose), Some(counted), pointer(on_counted)) };
        check(sdk, "rocprofiler_configure_callback_dispatch_counting_service", status)
    }

    /// [`Setup::count_dispatches`] into a buffer: values come as [`super::Record`]s, to be joined by [`super::CounterGroups`].
    ///
    /// # Errors
    /// What the SDK answers.
    pub fn count_dispatches_buffered(
        &self,
        context: Context,
        buffer: Buffer,
        choose: impl Fn(&Dispatch) -> Option<CounterConfig> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let sdk = self.tool.sdk()?;
        let choose: &'static Choose = keep(Box::new(choose));
        let configure = sdk.configure_buffer_dispatch_counting_service()?;
        // SAFETY: a buffer of the SDK; the callback and its data live as long as the process.
        let status = unsafe { configure(context.id, buffer.id(), Some(choose_config), pointer(choose)) };
        check(sdk, "rocprofiler_configure_buffer_dispatch_counting_service", status)
    }

    /// Counts what an agent does while the context is started. HIP must be initialised before the context is started, and the
    /// context must not count dispatches.
    ///
    /// # Errors
    /// What the SDK answers.
    pub fn count_device(
        &self,
        context: Context,
        agent: AgentId,
        config: CounterConfig,
    ) -> Result<DeviceCounting, Error> {
        let sdk = self.tool.sdk()?;
        let config: &'static CounterConfig = keep(config);
        let configure = sdk.configure_device_counting_service()?;
        // SAFETY: no buffer, which is allowed; the callback and its data live as long as the process.
        let status = unsafe { configure(context.id, BufferId::NONE, agent, Some(set_device_config), pointer(config)) };
        check(sdk, "rocprofiler_configure_device_counting_service", status)?;
        Ok(DeviceCounting { context })
    }
}

impl DeviceCounting {
    /// Reads the counters since the context was started.
    ///
    /// # Errors
    /// `OUT_OF_RESOURCES` when there are more than `capacity` values; whatever else the SDK answers.
    pub fn sample(&self, capacity: usize) -> Result<Vec<CounterRecord>, Error> {
        let sdk = self.context.tool.sdk()?;
        let mut records = vec![CounterRecord::default(); capacity];
        let mut count = capacity;
        let sample = sdk.sample_device_counting_service()?;
        // SAFETY: room for `count` records.
        let status =
            unsafe { sample(self.context.id, UserData(0), counter_flag::NONE, records.as_mut_ptr(), &mut count) };
        check(sdk, "rocprofiler_sample_device_counting_service", status)?;
        records.truncate(count);
        Ok(records)
    }
}

fn pointer<T>(state: &'static T) -> *mut c_void {
    let state: *const T = state;
    state.cast_mut().cast()
}

unsafe extern "C" fn code_object_event(record: CallbackTracingRecord, _user: *mut UserData, data: *mut c_void) {
    guard((), || {
        // SAFETY: the data is the leaked closure.
        let Some(on_event) = (unsafe { data.cast::<OnCodeObject>().as_ref() }) else { return };
        // SAFETY: the record's kind and operation say what the payload is, valid during the callback.
        if let Some(event) = unsafe { read_event(&record) } {
            on_event(event);
        }
    });
}

/// # Safety
/// The payload is what kind and operation say.
unsafe fn read_event(record: &CallbackTracingRecord) -> Option<CodeObjectEvent> {
    if record.kind != callback_tracing::CODE_OBJECT as u32 || record.payload.is_null() {
        return None;
    }
    let is_load = record.phase == phase::LOAD;
    match record.operation {
        code_object::LOAD => {
            // SAFETY: the operation's payload; the string is terminated.
            let (data, uri) = unsafe {
                let data = read_sized::<CodeObjectLoadData>(record.payload).ok()?;
                (data, text(data.uri).unwrap_or_default())
            };
            let object = CodeObject {
                id: data.code_object_id,
                agent: data.agent_id,
                uri,
                load_base: data.load_base,
                load_size: data.load_size,
            };
            Some(if is_load { CodeObjectEvent::Loaded(object) } else { CodeObjectEvent::Unloaded(object) })
        }
        code_object::DEVICE_KERNEL_SYMBOL_REGISTER => {
            // SAFETY: the operation's payload; the string is terminated.
            let (data, name) = unsafe {
                let data = read_sized::<KernelSymbolData>(record.payload).ok()?;
                (data, text(data.kernel_name).unwrap_or_default())
            };
            let name = name.strip_suffix(".kd").map(str::to_owned).unwrap_or(name);
            let kernel = KernelSymbol {
                kernel_id: data.kernel_id,
                code_object_id: data.code_object_id,
                name,
                kernarg_size: data.kernarg_segment_size,
                group_segment_size: data.group_segment_size,
                private_segment_size: data.private_segment_size,
                sgprs: data.sgpr_count,
                vgprs: data.arch_vgpr_count,
                agprs: data.accum_vgpr_count,
            };
            Some(if is_load { CodeObjectEvent::Kernel(kernel) } else { CodeObjectEvent::KernelUnloaded(kernel) })
        }
        _ => None,
    }
}

unsafe extern "C" fn choose_config(
    data: DispatchCountingData,
    config: *mut CounterConfigId,
    _user: *mut UserData,
    state: *mut c_void,
) {
    // SAFETY: the state is the leaked closure.
    let choose = unsafe { state.cast::<Choose>().as_ref() };
    let choice = guard(None, || choose.and_then(|choose| choose(&Dispatch::of_data(&data))));
    // A configuration for another agent would be an error inside the SDK, after which nothing is counted any more.
    let choice = choice.filter(|choice| choice.agent() == data.dispatch_info.agent_id);
    if let (Some(choice), false) = (choice, config.is_null()) {
        // SAFETY: not NULL, hence the SDK's output. The handle is one that the SDK made and still has.
        unsafe { *config = choice.id() };
    }
}

unsafe extern "C" fn counted(
    data: DispatchCountingData,
    records: *mut CounterRecord,
    count: usize,
    _user: UserData,
    state: *mut c_void,
) {
    guard((), || {
        // SAFETY: the state is the leaked closure, and there are so many records.
        let (on_counted, values) = unsafe {
            let values = if records.is_null() { &[][..] } else { std::slice::from_raw_parts(records, count) };
            (state.cast::<OnCounted>().as_ref(), values)
        };
        if let Some(on_counted) = on_counted {
            on_counted(&Dispatch::of_data(&data), values);
        }
    });
}

unsafe extern "C" fn set_device_config(
    context: ContextId,
    _agent: AgentId,
    set: Option<SetConfigFn>,
    config: *mut c_void,
) {
    guard((), || {
        // SAFETY: the state is the leaked configuration; the SDK gives its own function, to be called now.
        unsafe {
            if let (Some(set), Some(config)) = (set, config.cast::<CounterConfig>().as_ref()) {
                set(context, config.id());
            }
        }
    });
}
