//! Code objects made by clang, and the C functions with a little less ceremony.
#![allow(dead_code, unreachable_pub)]

pub use kbench_rocm_emu::c::*;
use kbench_rocm_emu::report::LaunchReport;
use std::ffi::{CString, c_void};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub type Handle = *mut c_void;
pub const NULL: Handle = std::ptr::null_mut();

/// Device code of these tests.
pub const SOURCE: &str = r#"
#define KERNEL extern "C" __attribute__((global))
typedef unsigned int u32;
static __attribute__((device)) inline u32 id() {
    return __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
}
__attribute__((device)) u32 table[4] = {10, 20, 30, 40};
KERNEL void add(const u32 *a, const u32 *b, u32 *c, u32 n) { u32 i = id(); if (i < n) c[i] = a[i] + b[i]; }
KERNEL __attribute__((amdgpu_flat_work_group_size(1, 256))) void bounded(u32 *out) { out[id()] = 1; }
KERNEL void increment(u32 *p) { p[id()] += 1; }
KERNEL void mixed(u32 *out, unsigned char a, double b, unsigned short c, u32 d) {
    if (id() == 0) { out[0] = a; out[1] = (u32)b; out[2] = c; out[3] = d; out[4] = __builtin_amdgcn_workgroup_size_x(); }
}
KERNEL void scratchpad(u32 *out, u32 which) {
    __attribute__((shared)) static u32 lds[1024];
    u32 t = __builtin_amdgcn_workitem_id_x();
    lds[t & 1023] = t; __builtin_amdgcn_s_barrier(); out[id()] = lds[which & 1023];
}
KERNEL void wild(u32 *p) { p[1 << 28] = 1; }
KERNEL void reads_table(u32 *out) { out[id()] = table[id() & 3]; }
"#;

/// Compiles device code for a target such as `gfx942:xnack+`; `None`, with a line that says so, without the compiler.
pub fn compile(target: &str, source: &str) -> Option<Vec<u8>> {
    compile_with(target, source, &[])
}

/// The same with more options.
pub fn compile_with(target: &str, source: &str, options: &[&str]) -> Option<Vec<u8>> {
    let found = Command::new("clang-19").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "clang-19 is missing");
        println!("skipped: no clang-19");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("k.hip"), folder.path().join("k.co"));
    std::fs::write(&input, source).unwrap();
    let result = Command::new("clang-19")
        .args([
            "-x",
            "hip",
            "--cuda-device-only",
            "--no-gpu-bundle-output",
            "-nogpuinc",
            "-nogpulib",
            "-std=c++17",
            "-O2",
        ])
        .arg(format!("--offload-arch={target}"))
        .args(options)
        .arg("-o")
        .arg(&output)
        .arg(&input)
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    Some(std::fs::read(&output).unwrap())
}

/// Tests of one process share its devices: each has them for itself meanwhile.
pub fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls a C function that has to succeed.
#[macro_export]
macro_rules! ok {
    ($call:expr) => {{
        // SAFETY: the arguments are what the interface asks for.
        let code = unsafe { $call };
        assert_eq!(code, 0, "{} gives {code}", stringify!($call));
    }};
}

/// The code that a C function gives.
#[macro_export]
macro_rules! code {
    ($call:expr) => {{
        // SAFETY: the arguments are what the interface asks for, or wrong in a way that it has to see.
        unsafe { $call }
    }};
}

pub fn malloc(bytes: usize) -> Handle {
    let mut pointer = NULL;
    ok!(hipMalloc(&mut pointer, bytes));
    pointer
}

pub fn upload<T: Copy>(data: &[T]) -> Handle {
    let bytes = std::mem::size_of_val(data);
    let pointer = malloc(bytes);
    ok!(hipMemcpy(pointer, data.as_ptr().cast(), bytes, 1));
    pointer
}

pub fn download(pointer: Handle, count: usize) -> Vec<u32> {
    let mut data = vec![0_u32; count];
    ok!(hipMemcpy(data.as_mut_ptr().cast(), pointer, count * 4, 2));
    data
}

pub fn module(code: &[u8]) -> Handle {
    let mut module = NULL;
    ok!(hipModuleLoadData(&mut module, code.as_ptr().cast()));
    module
}

pub fn function(module: Handle, name: &str) -> Handle {
    let (mut function, name) = (NULL, CString::new(name).unwrap());
    ok!(hipModuleGetFunction(&mut function, module, name.as_ptr()));
    function
}

pub fn stream() -> Handle {
    let mut stream = NULL;
    ok!(hipStreamCreateWithFlags(&mut stream, 1));
    stream
}

pub fn event(flags: u32) -> Handle {
    let mut event = NULL;
    ok!(hipEventCreateWithFlags(&mut event, flags));
    event
}

/// Launches with arguments through `params`; gives the code.
pub fn launch(function: Handle, grid: u32, block: u32, stream: Handle, params: &mut [Handle]) -> i32 {
    code!(hipModuleLaunchKernel(
        function,
        grid,
        1,
        1,
        block,
        1,
        1,
        0,
        stream,
        params.as_mut_ptr(),
        std::ptr::null_mut()
    ))
}

/// An argument's address, as `params` wants it.
pub fn arg<T>(value: &mut T) -> Handle {
    std::ptr::from_mut(value).cast()
}

pub fn reports() -> Vec<LaunchReport> {
    let mut needed = 0;
    ok!(rocmEmuTakeReports(std::ptr::null_mut(), 0, &mut needed));
    let mut text = vec![0_u8; needed];
    ok!(rocmEmuTakeReports(text.as_mut_ptr().cast(), text.len(), std::ptr::null_mut()));
    serde_json::from_slice(&text[..needed - 1]).unwrap()
}
