//! Devices, memory, modules, functions: what real HIP was seen to give.
#![allow(unsafe_code, clippy::unwrap_used, clippy::panic, clippy::macro_metavars_in_unsafe)]

mod support;

use kbench_rocm_emu::{Config, configure, names, symbol};
use std::ffi::{CStr, CString};
use std::process::Command;
use support::*;

/// Two devices of different kinds with little memory.
fn machine() -> std::sync::MutexGuard<'static, ()> {
    let guard = alone();
    let devices = vec!["mi300x".to_owned(), "mi210".to_owned()];
    // Only the first test of the process can configure it, and all do it alike.
    let _ = configure(Config { devices, memory_bytes: Some(1 << 28), threads: 2, ..Config::default() });
    ok!(hipSetDevice(0));
    guard
}

#[test]
fn the_table_has_every_function_once() {
    let all: Vec<&str> = names().collect();
    let unique: std::collections::BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(all.len(), unique.len());
    for name in &all {
        assert!(symbol(&CString::new(*name).unwrap()).is_some(), "{name}");
    }
    let (plain, mangled) = (c"hipExtModuleLaunchKernel", all.iter().find(|name| name.starts_with("_Z24")).unwrap());
    assert_eq!(symbol(plain), symbol(&CString::new(*mangled).unwrap()));
    assert_eq!(symbol(c"hiprtcVersion"), None);
}

#[test]
fn devices_and_their_names() {
    let _guard = machine();
    let (mut number, mut text, mut uuid) = (0, [0x7f; 64], [0; 16]);
    ok!(hipGetDeviceCount(&mut number));
    assert_eq!(number, 2);
    for wrong in [-1, 2] {
        assert_eq!(code!(hipSetDevice(wrong)), 101);
        assert_eq!(code!(hipDeviceGetAttribute(&mut number, 63, wrong)), 101);
    }
    assert_eq!(code!(hipDeviceGetAttribute(&mut number, 4711, 0)), 1);
    assert_eq!(code!(hipGetDeviceCount(std::ptr::null_mut())), 1);
    ok!(hipDeviceGetUuid(&mut uuid, 1));
    assert!(uuid.iter().all(|digit| digit.is_ascii_hexdigit() && !digit.is_ascii_uppercase()), "{uuid:?}");
    assert_eq!(code!(hipDeviceGetPCIBusId(text.as_mut_ptr(), 12, 0)), 1);
    assert_eq!(text, [0x7f; 64]);
    ok!(hipDeviceGetPCIBusId(text.as_mut_ptr(), 13, 0));
    // SAFETY: the call has written a string.
    assert_eq!(unsafe { CStr::from_ptr(text.as_ptr()) }, c"0000:03:00.0");
    ok!(hipDeviceGetByPCIBusId(&mut number, c"0000:13:00".as_ptr()));
    assert_eq!(number, 1);
    ok!(hipDeviceGetName(text.as_mut_ptr(), 8, 1));
    // SAFETY: as above.
    assert_eq!(unsafe { CStr::from_ptr(text.as_ptr()) }, c"AMD Ins");
    // The structures are as large as the real ones: not a byte more is written.
    let (mut new, mut old) = ([0x66_u8; 1480], [0x66_u8; 800]);
    ok!(hipGetDevicePropertiesR0600(new.as_mut_ptr().cast(), 1));
    ok!(hipGetDeviceProperties(old.as_mut_ptr().cast(), 1));
    assert_eq!((&new[1472..], &old[792..]), (&[0x66; 8][..], &[0x66; 8][..]));
    assert!(
        new[1160..].starts_with(b"gfx90a:sramecc+:xnack-\0") && old[396..].starts_with(b"gfx90a:sramecc+:xnack-\0")
    );
    let peer = code!(hipDeviceCanAccessPeer(&mut number, 0, 1));
    assert_eq!((peer, number), (0, 0));
    assert_eq!(code!(hipDeviceEnablePeerAccess(1, 0)), 217);
}

#[test]
fn allocations() {
    let _guard = machine();
    let (mut free, mut total) = (0, 0);
    ok!(hipMemGetInfo(&mut free, &mut total));
    assert_eq!(total, 1 << 28);
    let mut pointer = 0x55 as Handle;
    assert_eq!(code!(hipMalloc(&mut pointer, free + 1)), 2);
    assert_eq!(pointer, 0x55 as Handle);
    assert_eq!((hipPeekAtLastError(), hipGetLastError(), hipGetLastError()), (2, 2, 0));
    ok!(hipMalloc(&mut pointer, 0));
    assert_eq!(pointer, NULL);
    ok!(hipFree(NULL));
    let buffer = malloc(1000);
    let mut after = 0;
    ok!(hipMemGetInfo(&mut after, &mut total));
    assert_eq!(free - after, 1000);
    let inside = buffer.wrapping_byte_add(10);
    assert_eq!(code!(hipFree(inside)), 1);
    let (mut base, mut size) = (NULL, 0);
    ok!(hipMemGetAddressRange(&mut base, &mut size, inside));
    assert_eq!((base, size), (buffer, 1000));
    ok!(hipFree(buffer));
    assert_eq!(code!(hipFree(buffer)), 1);
    assert_eq!(code!(hipMalloc(std::ptr::null_mut(), 8)), 1);
}

#[test]
fn copies_and_fills() {
    let _guard = machine();
    let data: Vec<u32> = (0..64).collect();
    let (a, b) = (upload(&data), malloc(256));
    ok!(hipMemcpy(b, a, 256, 3));
    assert_eq!(download(b, 64), data);
    // A range that leaves its allocation, a null pointer, a wrong direction, no bytes.
    assert_eq!(code!(hipMemcpy(b, a, 257, 3)), 1);
    assert_eq!(code!(hipMemcpy(NULL, a, 4, 3)), 1);
    assert_eq!(code!(hipMemcpy(b, a, 4, 9)), 21);
    assert_eq!(code!(hipMemcpy(b, data.as_ptr().cast(), 4, 3)), 1);
    ok!(hipMemcpy(b, a, 0, 3));
    ok!(hipMemcpyDtoD(b, a.wrapping_byte_add(4), 252));
    assert_eq!(download(b, 63), data[1..]);
    ok!(hipMemsetD32(b, 0x0102_0304, 3));
    ok!(hipMemsetD16(b.wrapping_byte_add(4), 0xabcd, 1));
    ok!(hipMemsetD8(b.wrapping_byte_add(8), 0xee, 3));
    assert_eq!(download(b, 3), [0x0102_0304, 0x0102_abcd, 0x01ee_eeee]);
    assert_eq!(code!(hipMemsetD32(b, 0, 65)), 1);
    // Between devices, by addresses alone.
    ok!(hipSetDevice(1));
    let other = malloc(256);
    ok!(hipMemcpy(other, a, 256, 4));
    assert_eq!(download(other, 64), data);
    ok!(hipFree(other));
    ok!(hipSetDevice(0));
    for buffer in [a, b] {
        ok!(hipFree(buffer));
    }
}

#[test]
fn kernels_reach_pinned_memory_at_its_host_address() {
    let _guard = machine();
    let Some(code) = compile("gfx942", SOURCE) else { return };
    let module = module(&code);
    let increment = function(module, "increment");
    for managed in [false, true] {
        let mut pinned = NULL;
        if managed {
            ok!(hipMallocManaged(&mut pinned, 256, 1));
        } else {
            ok!(hipHostMalloc(&mut pinned, 256, 0));
        }
        // SAFETY: the allocation holds 64 of them, and nothing else touches it.
        let words = unsafe { std::slice::from_raw_parts_mut(pinned.cast::<u32>(), 64) };
        words.copy_from_slice(&[41; 64]);
        let mut alias = NULL;
        ok!(hipHostGetDevicePointer(&mut alias, pinned, 0));
        assert_eq!(alias, pinned);
        assert_eq!(launch(increment, 1, 64, NULL, &mut [arg(&mut alias)]), 0);
        ok!(hipDeviceSynchronize());
        assert_eq!(words, [42; 64]);
        let mut attributes = [0_u32; 8];
        ok!(hipPointerGetAttributes(attributes.as_mut_ptr().cast(), pinned.wrapping_byte_add(8)));
        assert_eq!((attributes[0], attributes[6]), if managed { (3, 1) } else { (1, 0) });
        assert_eq!(code!(hipMemcpy(pinned, words.as_ptr().cast(), 257, 4)), 1);
        ok!(if managed { hipFree(pinned) } else { hipHostFree(pinned) });
        assert_eq!(code!(hipHostFree(pinned)), 1);
    }
    let local = 1_u32;
    assert_eq!(code!(hipPointerGetAttributes([0_u8; 32].as_mut_ptr().cast(), (&raw const local).cast())), 1);
    ok!(hipModuleUnload(module));
}

#[test]
fn modules_that_do_not_load() {
    let _guard = machine();
    let Some(code) = compile("gfx942", SOURCE) else { return };
    let load = |bytes: &[u8]| {
        let mut module = 0x55 as Handle;
        let code = code!(hipModuleLoadData(&mut module, bytes.as_ptr().cast()));
        assert_eq!(code != 0, module == 0x55 as Handle, "untouched by errors alone");
        code
    };
    for other in ["gfx90a", "gfx942:xnack+", "gfx942:sramecc-"] {
        assert_eq!(load(&compile(other, SOURCE).unwrap()), 209, "{other}");
    }
    assert_eq!(load(&[0x42; 4096]), 200);
    let mut damaged = code.clone();
    damaged[1] = b'X';
    assert_eq!(load(&damaged), 200);
    // Every single damaged byte of the header is an answer.
    for at in 4..64 {
        let mut damaged = code.clone();
        damaged[at] ^= 0xff;
        assert!([0, 200, 209].contains(&load(&damaged)), "{at}");
    }
    assert_eq!(code!(hipModuleLoad(&mut NULL.clone(), c"no/such/file.co".as_ptr())), 301);
    assert_eq!(code!(hipModuleUnload(0x99 as Handle)), 400);
}

#[test]
fn modules_from_files_and_bundles() {
    let _guard = machine();
    let Some(code) = compile("gfx942", SOURCE) else { return };
    let other = compile("gfx90a", SOURCE).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("host"), []).unwrap();
    std::fs::write(path("gfx942"), &code).unwrap();
    std::fs::write(path("gfx90a"), &other).unwrap();
    for (name, extra) in [("plain", &[][..]), ("compressed", &["-compress"][..])] {
        let result = Command::new("clang-offload-bundler-19")
            .args([
                "-type=o",
                "-targets=host-x86_64-unknown-linux,hipv4-amdgcn-amd-amdhsa--gfx90a,hipv4-amdgcn-amd-amdhsa--gfx942",
            ])
            .args(["host", "gfx90a", "gfx942"].map(|input| format!("-input={}", path(input).display())))
            .arg(format!("-output={}", path(name).display()))
            .args(extra)
            .output();
        let Ok(result) = result else {
            assert!(std::env::var_os("CI").is_none(), "clang-offload-bundler-19 is missing");
            println!("skipped: no clang-offload-bundler-19");
            return;
        };
        assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
        let bundle = std::fs::read(path(name)).unwrap();
        let file = CString::new(path(name).to_str().unwrap()).unwrap();
        let mut from_file = NULL;
        ok!(hipModuleLoad(&mut from_file, file.as_ptr()));
        for module in [from_file, module(&bundle)] {
            let out = malloc(256);
            let mut argument = out;
            assert_eq!(launch(function(module, "reads_table"), 1, 64, NULL, &mut [arg(&mut argument)]), 0);
            assert_eq!(download(out, 5), [10, 20, 30, 40, 10]);
            ok!(hipFree(out));
            ok!(hipModuleUnload(module));
        }
    }
}

#[test]
fn functions_globals_and_their_attributes() {
    let _guard = machine();
    let Some(code) = compile("gfx942", SOURCE) else { return };
    let module = module(&code);
    let mut handle = 0x55 as Handle;
    assert_eq!(code!(hipModuleGetFunction(&mut handle, module, c"absent".as_ptr())), 500);
    assert_eq!(code!(hipModuleGetFunction(&mut handle, module, c"".as_ptr())), 1);
    assert_eq!(code!(hipModuleGetFunction(&mut handle, NULL, c"add".as_ptr())), 400);
    assert_eq!(handle, 0x55 as Handle);
    let (mut address, mut size) = (NULL, 0);
    ok!(hipModuleGetGlobal(&mut address, &mut size, module, c"table".as_ptr()));
    assert_eq!((size, download(address, 4)), (16, vec![10, 20, 30, 40]));
    assert_eq!(code!(hipModuleGetGlobal(&mut address, &mut size, module, c"absent".as_ptr())), 500);
    // What the code object itself says.
    let object = kbench_code_object::CodeObject::parse(&code).unwrap();
    let target = object.arch();
    for name in ["add", "bounded", "scratchpad"] {
        let (kernel, handle) = (object.kernel(name).unwrap(), function(module, name));
        let attribute = |id| {
            let mut value = -1;
            ok!(hipFuncGetAttribute(&mut value, id, handle));
            value as u32
        };
        assert_eq!(attribute(0), kernel.max_workgroup.unwrap(), "{name}");
        assert_eq!((attribute(1), attribute(3), attribute(4)), (kernel.lds_bytes, kernel.scratch_bytes, kernel.vgprs));
        assert_eq!(attribute(8), 65536 - kernel.lds_bytes);
        for block in [64, 192, 256] {
            let shape = kbench_code_object::LaunchShape { block, dynamic_lds_bytes: 8192 };
            let mut blocks = -1;
            ok!(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, handle, block as i32, 8192));
            assert_eq!(blocks as u32, kernel.occupancy(target, shape).unwrap().workgroups, "{name} {block}");
        }
    }
    let mut value = 0;
    assert_eq!(code!(hipFuncGetAttribute(&mut value, 10, function(module, "add"))), 1);
    assert_eq!(code!(hipFuncGetAttribute(&mut value, 0, 0x99 as Handle)), 400);
    let (mut grid, mut block) = (0, 0);
    ok!(hipModuleOccupancyMaxPotentialBlockSize(&mut grid, &mut block, function(module, "bounded"), 0, 0));
    // 32 waves a CU, blocks of up to 4 waves, 304 CUs.
    assert_eq!((block, grid), (256, 8 * 304));
    ok!(hipModuleUnload(module));
}
