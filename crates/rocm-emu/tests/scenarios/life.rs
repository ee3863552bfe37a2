//! How tools begin and end, and what the SDK answers when they do it wrong. Expectations are those that rocprofiler-sdk 1.0.0 was seen to
//! meet.

use super::*;
use kbench_rocm_emu::sdk::api::*;
use rocprofiler_sdk_sys::Status;
use rocprofiler_sdk_sys::session::{BufferOptions, Error};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering};

static CONTEXT: AtomicU64 = AtomicU64::new(0);
static BUFFER: AtomicU64 = AtomicU64::new(0);

/// 0 no, 1 yes, -1 under way.
fn state(query: unsafe extern "C" fn(*mut c_int) -> Status) -> c_int {
    let mut answer = 7;
    // SAFETY: a valid pointer.
    assert!(unsafe { query(&mut answer) }.is_success());
    answer
}

unsafe extern "C" fn configure(
    version: u32,
    runtime: *const c_char,
    priority: u32,
    client: *mut ClientId,
) -> *mut ConfigureResult {
    // SAFETY: what the SDK gives.
    let (runtime, client) = unsafe { (CStr::from_ptr(runtime), &*client) };
    assert_eq!((version, runtime, priority), (10_000, c"1.0.0", 0));
    assert_eq!((client.size, client.name.is_null()), (24, true));
    assert_eq!(state(rocprofiler_is_initialized), -1);
    static mut RESULT: ConfigureResult = ConfigureResult {
        size: size_of::<ConfigureResult>(),
        initialize: Some(initialize),
        finalize: Some(finalized),
        tool_data: null_mut(),
    };
    &raw mut RESULT
}

unsafe extern "C" fn initialize(_: Option<ClientFinalizeFn>, _: *mut c_void) -> c_int {
    assert_eq!(state(rocprofiler_is_initialized), -1);
    let mut context = ContextId::NONE;
    let mut buffer = BufferId::NONE;
    // SAFETY: valid pointers; what is wrong is what the real SDK accepts.
    unsafe {
        assert!(rocprofiler_create_context(&mut context).is_success());
        assert_eq!(rocprofiler_create_context(&mut context), Status::CONTEXT_ID_NOT_ZERO);
        // An unknown context, an unknown policy and no callback are not looked at.
        let bogus = ContextId { handle: 999 };
        assert!(rocprofiler_create_buffer(bogus, 100, 50, 7, None, null_mut(), &mut buffer).is_success());
        // Nor is the buffer of a tracing service, or an operation.
        let nowhere = BufferId { handle: 999 };
        assert!(rocprofiler_configure_buffer_tracing_service(context, 11, null(), 0, nowhere).is_success());
        assert!(
            rocprofiler_configure_callback_tracing_service(context, 10, [77].as_ptr(), 1, None, null_mut())
                .is_success()
        );
        let again = rocprofiler_configure_buffer_tracing_service(context, 11, null(), 0, buffer);
        assert_eq!(again, Status::SERVICE_ALREADY_CONFIGURED);
    }
    CONTEXT.store(context.handle, Ordering::Relaxed);
    BUFFER.store(buffer.handle, Ordering::Relaxed);
    0
}

unsafe extern "C" fn finalized(_: *mut c_void) {
    let (context, buffer) =
        (ContextId { handle: CONTEXT.load(Ordering::Relaxed) }, BufferId { handle: BUFFER.load(Ordering::Relaxed) });
    let ended = state(rocprofiler_is_finalized);
    // SAFETY: handles of the SDK; that they are used here is the point.
    let (flush, stop) = unsafe { (rocprofiler_flush_buffer(buffer), rocprofiler_stop_context(context)) };
    eprintln!("finalize: is_finalized {ended}, flush {flush:?}, stop {stop:?}");
}

unsafe extern "C" fn agents(_: c_int, _: *const *const c_void, count: usize, out: *mut c_void) -> Status {
    // SAFETY: the caller's number.
    unsafe { *out.cast::<usize>() = count };
    Status::SUCCESS
}

pub(super) fn statuses() {
    let (mut context, mut buffer, mut thread) = (ContextId::NONE, BufferId::NONE, CallbackThread::NONE);
    let mut count = 0_usize;
    let out: *mut usize = &mut count;
    // SAFETY: valid pointers, or NULL where it is allowed.
    unsafe {
        // Before any tool is there.
        assert!(rocprofiler_get_version(null_mut(), null_mut(), null_mut()).is_success());
        assert_eq!(state(rocprofiler_is_initialized), 0);
        assert_eq!(rocprofiler_create_context(&mut context), Status::CONFIGURATION_LOCKED);
        assert_eq!(rocprofiler_query_available_agents(1, Some(agents), 296, out.cast()), Status::SUCCESS);
        assert_eq!(count, 2, "the CPU and a GPU");
        for (size, status) in [(8, Status::SUCCESS), (312, Status::SUCCESS), (313, Status::INCOMPATIBLE_ABI)] {
            assert_eq!(rocprofiler_query_available_agents(1, Some(agents), size, out.cast()), status);
        }
        for version in [0, 2] {
            let status = rocprofiler_query_available_agents(version, Some(agents), 296, out.cast());
            assert_eq!(status, Status::INVALID_ARGUMENT);
        }
        assert!(rocprofiler_force_configure(Some(configure)).is_success());
        assert_eq!(std::env::var("ROCPROFILER_REGISTER_FORCE_LOAD").as_deref(), Ok("1"));
        assert_eq!(state(rocprofiler_is_initialized), 1);
        assert_eq!(state(rocprofiler_is_finalized), 0);
        // After it.
        assert_eq!(rocprofiler_force_configure(Some(configure)), Status::CONFIGURATION_LOCKED);
        assert_eq!(rocprofiler_force_configure(None), Status::CONFIGURATION_LOCKED);
        assert_eq!(rocprofiler_create_context(&mut context), Status::CONFIGURATION_LOCKED);
        assert_eq!(rocprofiler_create_callback_thread(&mut thread), Status::CONFIGURATION_LOCKED);
        let status = rocprofiler_create_buffer(context, 4096, 1, 2, None, null_mut(), &mut buffer);
        assert_eq!(status, Status::CONFIGURATION_LOCKED);
        context.handle = CONTEXT.load(Ordering::Relaxed);
        let late = rocprofiler_configure_buffer_tracing_service(context, 11, null(), 0, buffer);
        assert_eq!(late, Status::CONFIGURATION_LOCKED);
        let unknown = ContextId { handle: 999 };
        assert_eq!(rocprofiler_start_context(unknown), Status::CONTEXT_NOT_FOUND);
        assert_eq!([0, 1].map(|_| rocprofiler_start_context(context)), [Status::SUCCESS; 2]);
        assert_eq!(rocprofiler_stop_context(context), Status::SUCCESS);
        assert_eq!(rocprofiler_stop_context(context), Status::CONTEXT_NOT_FOUND);
        assert_eq!(rocprofiler_flush_buffer(BufferId { handle: 999 }), Status::BUFFER_NOT_FOUND);
        for status in [-1, 41, 999] {
            assert!(rocprofiler_get_status_name(Status(status)).is_null(), "{status}");
            assert!(rocprofiler_get_status_string(Status(status)).is_null(), "{status}");
        }
        let name = CStr::from_ptr(rocprofiler_get_status_name(Status::EXCEEDS_HW_LIMIT));
        assert_eq!(name, c"ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT");
    }
}

/// An `initialize` that fails: the configuring succeeds and the contexts stay.
pub(super) fn init_fails() {
    let sdk = open();
    let kept = std::sync::Arc::new(std::sync::Mutex::new(None));
    let out = std::sync::Arc::clone(&kept);
    let error = session::force_configure(sdk, c"a tool", move |setup| -> Result<(), Error> {
        *out.lock().unwrap() = Some(setup.context()?);
        Err(Error::NoBuffer)
    });
    assert_eq!(error, Err(Error::NoBuffer));
    let context = kept.lock().unwrap().take().unwrap();
    assert_eq!(context.is_valid(), Ok(true));
    context.start().unwrap();
}

unsafe extern "C" fn no_tool(_: u32, _: *const c_char, _: u32, _: *mut ClientId) -> *mut ConfigureResult {
    null_mut()
}

/// A configure function that does not want to: it succeeds, and nobody else can.
pub(super) fn null_configure() {
    // SAFETY: a function of the right type.
    unsafe {
        assert!(rocprofiler_force_configure(Some(no_tool)).is_success());
        assert_eq!(rocprofiler_force_configure(Some(configure)), Status::CONFIGURATION_LOCKED);
    }
    let error = session::force_configure(open(), c"a tool", |_| Ok(())).unwrap_err();
    assert!(matches!(error, Error::Taken { in_progress: false, .. }), "{error:?}");
}

/// Up to 1.3.1 there is one tool; later more.
pub(super) fn second_tool() {
    let is_new = std::env::var("ROCM_EMU_SDK_VERSION").unwrap() == "1.3.2";
    // SAFETY: a function of the right type.
    let (first, second) =
        unsafe { (rocprofiler_force_configure(Some(no_tool)), rocprofiler_force_configure(Some(no_tool))) };
    assert_eq!(first, Status::SUCCESS);
    assert_eq!(second, if is_new { Status::SUCCESS } else { Status::CONFIGURATION_LOCKED });
}

pub(super) fn locked() {
    let error = session::force_configure(open(), c"a tool", |_| Ok(())).unwrap_err();
    assert!(error.to_string().contains("another tool has it in this process"), "{error}");
}

/// From 1.3.2 on a tool may come after another.
pub(super) fn shared() {
    let context = session::force_configure(open(), c"a tool", |setup| setup.context()).unwrap();
    context.start().unwrap();
}

/// Says that the next thing may never return.
fn ready() {
    eprintln!("child: ready");
}

pub(super) fn finalize() {
    // SAFETY: a function of the right type.
    assert!(unsafe { rocprofiler_force_configure(Some(configure)) }.is_success());
    ready();
}

/// Runs `body` in `initialize`.
fn in_initialize(body: impl FnOnce(&session::Setup) + 'static) {
    let _ = session::force_configure(open(), c"a tool", move |setup| {
        body(setup);
        Ok(())
    });
}

pub(super) fn abort_buffer() {
    in_initialize(|setup| {
        let mut buffer = BufferId::NONE;
        let context = setup.context().unwrap().id();
        // SAFETY: a valid pointer; the size is what must not be.
        unsafe { rocprofiler_create_buffer(context, 0, 0, 2, None, null_mut(), &mut buffer) };
    });
}

pub(super) fn abort_kind() {
    in_initialize(|setup| {
        let context = setup.context().unwrap().id();
        // SAFETY: the kind is what must not be.
        unsafe { rocprofiler_configure_buffer_tracing_service(context, 99, null(), 0, BufferId { handle: 1 }) };
    });
}

pub(super) fn hang() {
    let context = session::force_configure(open(), c"a tool", |setup| setup.context()).unwrap();
    ready();
    let _ = context.start();
    panic!("it returned");
}

/// An agent is found again among HIP's devices by PCI address and by unique id.
pub(super) fn identity() {
    let agents = session::agents(open()).unwrap();
    let gpus: Vec<&Agent> = agents.iter().filter(|agent| agent.kind == AgentKind::Gpu).collect();
    let mut count = 0;
    ok!(hipGetDeviceCount(&mut count));
    assert_eq!((gpus.len(), count), (2, 2));
    for (gpu, device) in gpus.iter().zip(0..) {
        let (mut uuid, mut text) = ([0_u8; 16], [0_u8; 32]);
        ok!(hipDeviceGetUuid(&mut uuid, device));
        ok!(hipDeviceGetPCIBusId(text.as_mut_ptr().cast(), 32, device));
        // HIP has the number's digits, the SDK its bytes.
        let number = u64::from_le_bytes(gpu.uuid[..8].try_into().unwrap());
        assert_eq!(std::str::from_utf8(&uuid).unwrap(), format!("{number:016x}"));
        let (bus, slot, function) = (gpu.location >> 8, (gpu.location >> 3) & 31, gpu.location & 7);
        let expected = format!("{:04x}:{bus:02x}:{slot:02x}.{function:x}", gpu.domain);
        assert_eq!(CStr::from_bytes_until_nul(&text).unwrap().to_str().unwrap(), expected);
        let (mut cus, mut clock) = (0, 0);
        ok!(hipDeviceGetAttribute(&mut cus, 63, device));
        ok!(hipDeviceGetAttribute(&mut clock, 5, device));
        assert_eq!((gpu.cus, gpu.max_clock_mhz), (cus as u32, clock as u32 / 1000));
        assert_eq!(gpu.simds, gpu.cus * gpu.simds_per_cu);
    }
}

pub(super) fn no_agents() {
    assert_eq!(session::agents(open()), Ok(Vec::new()));
}

pub(super) fn answers() {
    let context = session::force_configure(open(), c"a tool", |setup| {
        let context = setup.context()?;
        setup.buffer(context, BufferOptions::default(), |_| ())?;
        Ok(context)
    })
    .unwrap();
    assert_eq!(context.start().unwrap_err().status(), Some(Status::OUT_OF_RESOURCES));
}

fn refused() -> String {
    // SAFETY: the emulated SDK's own functions.
    unsafe { Sdk::from_symbols("the emulated SDK", sdk::symbol, OpenOptions::default()) }.unwrap_err().to_string()
}

pub(super) fn missing() {
    let text = refused();
    assert!(text.contains("lacks the function rocprofiler_sample_device_counting_service"), "{text}");
}

/// The version is what is told, although functions of other names are missing too.
pub(super) fn too_old() {
    assert!(sdk::symbol(c"rocprofiler_configure_buffer_dispatch_counting_service").is_none());
    assert!(sdk::symbol(c"rocprofiler_configure_buffered_dispatch_counting_service").is_some());
    let text = refused();
    assert!(text.contains("rocprofiler-sdk 0.6.0 (ROCm older than 7.0) is too old"), "{text}");
}
