//! The declarations against C: sizes and offsets as `_Static_assert`s, structs by value through C and back.

#![allow(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use libloading::os::unix::Library;
use rocprofiler_sdk_sys::layout::LAYOUTS;
use rocprofiler_sdk_sys::types::*;
use std::fmt::Write;

/// A C program text that asserts each layout of the crate about the header's types.
fn assertions() -> String {
    let mut text = String::from("#include \"rocprofiler_abi.h\"\n");
    for layout in LAYOUTS {
        writeln!(text, "_Static_assert(sizeof({0}) == {1}, \"size of {0}\");", layout.name, layout.size).unwrap();
        for field in layout.fields {
            let (name, of, offset) = (field.name, layout.name, field.offset);
            writeln!(text, "_Static_assert(offsetof({of}, {name}) == {offset}, \"offset of {of}.{name}\");").unwrap();
        }
    }
    text
}

fn compiles(text: &str) -> Option<Result<(), String>> {
    let compiler = common::compiler()?;
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("layout.c");
    std::fs::write(&source, text).unwrap();
    let output = common::run(&compiler, &["-fsyntax-only", source.to_str().unwrap()]);
    Some(if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) })
}

#[test]
fn c_agrees_about_every_size_and_offset() {
    let text = assertions();
    assert!(text.lines().count() > 150, "{} assertions", text.lines().count());
    if let Some(result) = compiles(&text) {
        result.unwrap();
    }
}

/// That the assertions can fail: one that is off by a byte does.
#[test]
fn a_wrong_size_does_not_compile() {
    let text =
        assertions().replacen("sizeof(rocprofiler_agent_v0_t) == 312", "sizeof(rocprofiler_agent_v0_t) == 313", 1);
    if let Some(result) = compiles(&text) {
        assert!(result.unwrap_err().contains("size of rocprofiler_agent_v0_t"));
    }
}

/// The figures that the headers of the versions were measured to have, without the detour over this crate's list.
#[test]
fn sizes_as_measured_from_the_headers() {
    let size = |name: &str| LAYOUTS.iter().find(|layout| layout.name == name).expect(name).size;
    assert_eq!(size("rocprofiler_record_header_t"), 16);
    assert_eq!(size("rocprofiler_correlation_id_t"), 24);
    assert_eq!(size("rocprofiler_kernel_dispatch_info_t"), 128);
    assert_eq!(size("rocprofiler_buffer_tracing_kernel_dispatch_record_t"), 184);
    assert_eq!(size("rocprofiler_dispatch_counting_service_data_t"), 168);
    assert_eq!(size("rocprofiler_dispatch_counting_service_record_t"), 176);
    assert_eq!(size("rocprofiler_counter_record_t"), 40);
    assert_eq!(size("rocprofiler_callback_tracing_record_t"), 64);
    assert_eq!(size("rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t"), 88);
    assert_eq!(size("rocprofiler_counter_info_v0_t"), 48);
    assert_eq!(size("rocprofiler_client_id_t"), 24);
    assert_eq!(size("rocprofiler_tool_configure_result_t"), 32);
    assert_eq!(size("rocprofiler_agent_v0_t"), 312);
}

fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x100_0000_01b3)
}

const START: u64 = 1_469_598_103_934_665_603;

fn fold(values: &[u64]) -> u64 {
    values.iter().fold(START, |hash, value| mix(hash, *value))
}

unsafe extern "C" fn hash_tracing(record: CallbackTracingRecord) -> u64 {
    let id = record.correlation_id;
    fold(&[
        record.context_id.handle,
        record.thread_id,
        id.internal,
        id.external.0,
        id.ancestor,
        u64::from(record.kind),
        u64::from(record.operation as u32),
        u64::from(record.phase),
        record.payload as u64,
    ])
}

unsafe extern "C" fn hash_counting(data: DispatchCountingData, config: CounterConfigId) -> u64 {
    let info = data.dispatch_info;
    let (workgroup, grid) = (info.workgroup_size, info.grid_size);
    fold(&[
        data.size,
        data.correlation_id.internal,
        data.correlation_id.external.0,
        data.start_timestamp,
        data.end_timestamp,
        info.size,
        info.agent_id.handle,
        info.queue_id.handle,
        info.kernel_id,
        info.dispatch_id,
        u64::from(info.private_segment_size),
        u64::from(info.group_segment_size),
        u64::from(workgroup.x),
        u64::from(workgroup.y),
        u64::from(workgroup.z),
        u64::from(grid.x),
        u64::from(grid.y),
        u64::from(grid.z),
        u64::from(info.reserved[0]),
        u64::from(info.reserved[55]),
        config.handle,
    ])
}

type PassTracing =
    unsafe extern "C" fn(CallbackTracingRecord, unsafe extern "C" fn(CallbackTracingRecord) -> u64) -> u64;
type PassCounting = unsafe extern "C" fn(
    DispatchCountingData,
    CounterConfigId,
    unsafe extern "C" fn(DispatchCountingData, CounterConfigId) -> u64,
) -> u64;
type PassClient = unsafe extern "C" fn(ClientId) -> u64;

#[test]
fn structs_by_value_survive_the_way_through_c() {
    let folder = tempfile::tempdir().unwrap();
    let Some(path) = common::shared_library(folder.path(), "round_trip.so", "round_trip.c", &[]) else { return };
    // SAFETY: a library made for this test, with functions of these types.
    unsafe {
        let library = Library::new(&path).unwrap();
        let record = CallbackTracingRecord {
            context_id: ContextId { handle: 0x0102_0304_0506_0708 },
            thread_id: 0x1112_1314_1516_1718,
            correlation_id: CorrelationId { internal: 0x21, external: UserData(0xffff_ffff_ffff_fffe), ancestor: 0x23 },
            kind: 10,
            operation: -2,
            phase: 2,
            payload: 0x5152_5354_5556_5758 as *mut _,
        };
        let pass_tracing = library.get::<PassTracing>(b"pass_tracing\0").unwrap();
        assert_eq!(pass_tracing(record, hash_tracing), hash_tracing(record));
        let mut reserved = [0_u8; 56];
        (reserved[0], reserved[55]) = (0x99, 0x77);
        let data = DispatchCountingData {
            size: 168,
            correlation_id: AsyncCorrelationId { internal: 1 << 63, external: UserData(7) },
            start_timestamp: u64::MAX,
            end_timestamp: 3,
            dispatch_info: KernelDispatchInfo {
                size: 72,
                agent_id: AgentId { handle: 0xa },
                queue_id: QueueId { handle: 0xb },
                kernel_id: 0xc,
                dispatch_id: 0xd,
                private_segment_size: 0xe,
                group_segment_size: 0xf,
                workgroup_size: Dim3 { x: 1, y: 2, z: 3 },
                grid_size: Dim3 { x: u32::MAX, y: 5, z: 6 },
                reserved,
            },
        };
        let config = CounterConfigId { handle: 0xabc };
        let pass_counting = library.get::<PassCounting>(b"pass_counting\0").unwrap();
        assert_eq!(pass_counting(data, config, hash_counting), hash_counting(data, config));
        let client = ClientId { size: 24, name: 0x777 as *const _, handle: u32::MAX };
        let pass_client = library.get::<PassClient>(b"pass_client\0").unwrap();
        assert_eq!(pass_client(client), fold(&[24, 0x777, u64::from(u32::MAX)]));
    }
}
