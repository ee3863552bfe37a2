//! Compiling small kernels and running them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code, unreachable_pub)]

pub mod asm;

use kbench_gfx_emu::isa::Arch;
use kbench_gfx_emu::launch::{Barriers, Launch, LaunchError, Module, Options, Outcome, launch};
use kbench_gfx_emu::mem::Memory;
use kbench_gfx_emu::traffic::Shape;
use std::process::Command;

/// The compiler of these tests, when it is there. In CI it has to be.
pub fn clang() -> Option<&'static str> {
    let found = Command::new("clang-19").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "clang-19 is missing");
        println!("skipped: no clang-19");
    }
    found.then_some("clang-19")
}

/// Device words that the kernels of these tests use.
const WORDS: &str = r#"
#define KERNEL extern "C" __attribute__((global))
#define SHARED __attribute__((shared))
#define DEVICE static __attribute__((device)) inline
typedef unsigned int u32;
typedef unsigned long u64;
DEVICE u32 tid() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 wg() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
"#;

/// Compiles HIP source for an arch.
pub fn compile(arch: Arch, source: &str) -> Option<Vec<u8>> {
    compile_with(arch, source, &["-O3"])
}

/// The same with options.
pub fn compile_with(arch: Arch, source: &str, options: &[&str]) -> Option<Vec<u8>> {
    let clang = clang()?;
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("k.hip"), folder.path().join("k.co"));
    std::fs::write(&input, format!("{WORDS}{source}")).unwrap();
    let result = Command::new(clang)
        .args(["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "-std=c++17"])
        .arg(format!("--offload-arch={}", arch.name()))
        .args(options)
        .arg("-o")
        .arg(&output)
        .arg(&input)
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    Some(std::fs::read(&output).unwrap())
}

pub fn options(arch: Arch) -> Options {
    Options {
        arch,
        xcds: if arch == Arch::Gfx90a { 1 } else { 8 },
        cus_per_xcd: 38,
        lds_per_cu: 65536,
        caches: Shape::CDNA3,
        threads: 2,
        instruction_limit: 200_000_000,
        time_limit: None,
        sample: None,
        barriers: Barriers::Hardware,
        lds_races: false,
        poison: None,
        level: None,
        trace: None,
    }
}

/// A device with one code object.
pub struct Device {
    pub arch: Arch,
    pub memory: Memory,
    pub module: Module,
    pub options: Options,
}

impl Device {
    pub fn new(arch: Arch, code: &[u8]) -> Self {
        let mut memory = Memory::new(1 << 34);
        let module = Module::load(&mut memory, arch, code).unwrap();
        Self { arch, memory, module, options: options(arch) }
    }

    pub fn buffer<T: Copy>(&mut self, name: &str, data: &[T]) -> u64 {
        let bytes = bytes_of(data);
        let address = self.memory.allocate(bytes.len() as u64, name).unwrap();
        self.memory.write(address, bytes).unwrap();
        address
    }

    pub fn read<T: Copy + Default>(&self, address: u64, count: usize) -> Vec<T> {
        let mut out = vec![T::default(); count];
        // SAFETY: `T` is a plain number in these tests.
        let bytes = unsafe { std::slice::from_raw_parts_mut(out.as_mut_ptr().cast::<u8>(), count * size_of::<T>()) };
        self.memory.read(address, bytes).unwrap();
        out
    }

    pub fn run(&mut self, kernel: &str, grid: u32, block: u32, kernarg: Vec<u8>) -> Result<Outcome, LaunchError> {
        let request =
            Launch { kernel: kernel.to_owned(), grid: [grid, 1, 1], block: [block, 1, 1], dynamic_lds: 0, kernarg };
        launch(&mut self.memory, &self.module, &request, &self.options)
    }
}

fn bytes_of<T: Copy>(data: &[T]) -> &[u8] {
    // SAFETY: `T` is a plain number in these tests.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), size_of_val(data)) }
}

/// Packs arguments at their natural alignment.
#[derive(Default)]
pub struct Args(Vec<u8>);

impl Args {
    pub fn u64(mut self, value: u64) -> Self {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn u32(mut self, value: u32) -> Self {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn f32(self, value: f32) -> Self {
        self.u32(value.to_bits())
    }

    pub fn done(self) -> Vec<u8> {
        self.0
    }
}
