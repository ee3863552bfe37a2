//! The profiler's half of the interface sees every code object and dispatch.
#![allow(unsafe_code, clippy::unwrap_used, clippy::panic, clippy::macro_metavars_in_unsafe)]

mod support;

use kbench_rocm_emu::hooks::{self, CodeObject, Dispatch, Runtime, Tool};
use kbench_rocm_emu::{Config, configure};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;
use support::*;

/// Id, bytes, and the kernels' ids and names.
type Object = (u64, usize, Vec<(u64, String)>);
/// Kernel id, name, grid, start and end.
type Completed = (u64, String, [u32; 3], u64, u64);

#[derive(Debug, Default)]
struct Seen {
    attached: u32,
    objects: Vec<Object>,
    unloaded: Vec<u64>,
    enqueued: Vec<u64>,
    completed: Vec<Completed>,
    counters: BTreeMap<String, f64>,
}

static SEEN: Mutex<Option<Seen>> = Mutex::new(None);

fn see(note: impl FnOnce(&mut Seen)) {
    note(SEEN.lock().unwrap().get_or_insert_with(Seen::default));
}

unsafe extern "C" fn attach(runtime: *const Runtime, tool: *mut Tool) -> c_int {
    // SAFETY: the contract of the interface.
    let (runtime, tool) = unsafe { (&*runtime, &mut *tool) };
    assert_eq!((runtime.abi_version, runtime.devices), (hooks::ABI_VERSION, 1));
    // SAFETY: as above.
    assert_eq!(unsafe { (runtime.now_ns)() }, hooks::CLOCK_START_NS);
    tool.code_object_loaded = Some(loaded);
    tool.code_object_unloaded = Some(unloaded);
    tool.dispatch_enqueued = Some(enqueued);
    tool.dispatch_completed = Some(completed);
    see(|seen| seen.attached += 1);
    0
}

unsafe extern "C" fn loaded(_: *mut c_void, object: *const CodeObject) {
    // SAFETY: the contract of the interface.
    let (object, kernels) = unsafe { (&*object, std::slice::from_raw_parts((*object).kernels, (*object).kernels_len)) };
    // SAFETY: as above.
    let name = |kernel: &hooks::KernelSymbol| unsafe { CStr::from_ptr(kernel.name) }.to_str().unwrap().to_owned();
    let kernels = kernels.iter().map(|kernel| (kernel.kernel_id, name(kernel))).collect();
    see(|seen| seen.objects.push((object.code_object_id, object.bytes_len, kernels)));
}

unsafe extern "C" fn unloaded(_: *mut c_void, object: *const CodeObject) {
    // SAFETY: the contract of the interface.
    see(|seen| seen.unloaded.push(unsafe { (*object).code_object_id }));
}

unsafe extern "C" fn enqueued(_: *mut c_void, dispatch: *const Dispatch) -> c_int {
    // SAFETY: the contract of the interface.
    let dispatch = unsafe { &*dispatch };
    assert_eq!((dispatch.start_ns, dispatch.end_ns, dispatch.counters_len), (0, 0, 0));
    see(|seen| seen.enqueued.push(dispatch.dispatch_id));
    1
}

unsafe extern "C" fn completed(_: *mut c_void, dispatch: *const Dispatch) {
    // SAFETY: the contract of the interface.
    let dispatch = unsafe { &*dispatch };
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(dispatch.name) }.to_str().unwrap().to_owned();
    see(|seen| {
        for index in 0..dispatch.counters_len {
            // SAFETY: as above.
            let (name, value) = unsafe {
                let counter = &*dispatch.counters.add(index);
                (CStr::from_ptr(counter.name).to_str().unwrap().to_owned(), counter.value)
            };
            *seen.counters.entry(name).or_default() += value;
        }
        seen.completed.push((dispatch.kernel_id, name, dispatch.grid, dispatch.start_ns, dispatch.end_ns));
    });
}

#[test]
fn a_tool_sees_code_objects_and_dispatches() {
    let Some(code) = compile("gfx942", SOURCE) else { return };
    hooks::register(Some(attach));
    configure(Config { threads: 2, ..Config::default() }).unwrap();
    let module = module(&code);
    let increment = function(module, "increment");
    let mut buffer = malloc(1024);
    ok!(hipMemset(buffer, 0, 1024));
    for grid in 1..=3 {
        assert_eq!(launch(increment, grid, 64, NULL, &mut [arg(&mut buffer)]), 0);
    }
    ok!(hipDeviceSynchronize());
    ok!(hipModuleUnload(module));
    let seen = SEEN.lock().unwrap().take().unwrap();
    assert_eq!(seen.attached, 1);
    let [own, ours] = &seen.objects[..] else { panic!("{:?}", seen.objects) };
    assert_eq!(own.1, 0);
    assert_eq!((ours.1, ours.2.len()), (code.len(), 7));
    let (kernel_id, _) = ours.2.iter().find(|(_, name)| name == "increment.kd").unwrap();
    assert_eq!(seen.unloaded, [ours.0]);
    assert_eq!(seen.enqueued, [1, 2, 3, 4]);
    let names: Vec<&str> = seen.completed.iter().map(|row| row.1.as_str()).collect();
    assert_eq!(names, ["__amd_rocclr_fillBufferAligned", "increment", "increment", "increment"]);
    assert!(own.2.iter().any(|(id, name)| *id == seen.completed[0].0 && name == "__amd_rocclr_fillBufferAligned.kd"));
    for (grid, row) in (1..).zip(&seen.completed[1..]) {
        assert_eq!((row.0, row.2), (*kernel_id, [grid * 64, 1, 1]), "work-items");
        assert!(row.3 >= hooks::CLOCK_START_NS && row.4 > row.3);
    }
    assert_eq!(seen.counters["SQ_WAVES"], 6.0);
    assert!(hooks::agent_handle(0) != hooks::agent_handle(1));
}
