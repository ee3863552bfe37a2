//! Kernels in assembly whose registers and memory are compared with expected values. One kernel holds many checks; it runs
//! once for each level of the host's vector units.

#![allow(clippy::unwrap_used, clippy::panic, dead_code)]

use super::{Args, Device, clang};
use kbench_gfx_emu::exec::Level;
use kbench_gfx_emu::isa::Arch;
use std::fmt::{Display, Write};
use std::process::Command;

/// Resources and the rest of a kernel's descriptor.
#[derive(Clone, Debug, Default)]
pub struct Kernel {
    pub lds: u32,
    pub scratch: u32,
    /// Further lines of the `.amdhsa_kernel` block.
    pub descriptor: String,
}

/// Assembles one kernel `k`: 64 architectural and 64 accumulation registers, the kernel arguments' address in s[0:1], the
/// workgroup's number in s2.
pub fn assemble(arch: Arch, body: &str, kernel: &Kernel) -> Option<Vec<u8>> {
    let (Kernel { lds, scratch, descriptor }, arch_name) = (kernel, assembled_as(arch).name());
    let private = if *scratch == 0 { "" } else { ".amdhsa_enable_private_segment 1" };
    // gfx90a has no architected flat scratch: its base comes in two further registers.
    let private = if arch == Arch::Gfx90a {
        private.replace("enable_private_segment", "system_sgpr_private_segment_wavefront_offset")
    } else {
        private.into()
    };
    let text = format!(
        r#"
.amdgcn_target "amdgcn-amd-amdhsa--{arch_name}"
.text
.globl k
.p2align 8
.type k,@function
k:
{body}
s_endpgm
.Lkernel_end:
.size k, .Lkernel_end-k
.section .rodata,"a",@progbits
.p2align 6
.amdhsa_kernel k
  .amdhsa_group_segment_fixed_size {lds}
  .amdhsa_private_segment_fixed_size {scratch}
  .amdhsa_kernarg_size 64
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_sgpr_workgroup_id_x 1
  .amdhsa_next_free_vgpr 128
  .amdhsa_accum_offset 64
  .amdhsa_next_free_sgpr 96
  .amdhsa_float_denorm_mode_32 3
  {private}
  {descriptor}
.end_amdhsa_kernel
.amdgpu_metadata
---
amdhsa.version: [1, 2]
amdhsa.target: amdgcn-amd-amdhsa--{arch_name}
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 64
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: {scratch}
    .wavefront_size: 64
    .sgpr_count: 96
    .vgpr_count: 64
    .agpr_count: 64
    .max_flat_workgroup_size: 1024
...
.end_amdgpu_metadata
"#
    );
    assemble_file(arch, &text)
}

/// What an arch is assembled as: clang 19 does not know gfx950. Its instructions are written as words, and the file's
/// machine number is changed afterwards.
fn assembled_as(arch: Arch) -> Arch {
    if arch == Arch::Gfx950 { Arch::Gfx942 } else { arch }
}

/// Assembles and links a whole file.
pub fn assemble_file(arch: Arch, text: &str) -> Option<Vec<u8>> {
    let clang = clang()?;
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("k.s"), folder.path().join("k.co"));
    std::fs::write(&input, text).unwrap();
    let result = Command::new(clang)
        .args(["-x", "assembler", "-target", "amdgcn-amd-amdhsa", "-mcode-object-version=5"])
        .arg(format!("-mcpu={}", assembled_as(arch).name()))
        .arg("-o")
        .arg(&output)
        .arg(&input)
        .output()
        .unwrap();
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    let mut code = std::fs::read(&output).unwrap();
    if arch == Arch::Gfx950 {
        // e_flags of an ELF64 file: EF_AMDGPU_MACH_AMDGCN_GFX950.
        assert_eq!(code[48], 0x4c);
        code[48] = 0x4f;
    }
    Some(code)
}

/// Values of the 64 lanes.
pub type Lanes = [u32; 64];

pub fn lanes(value: impl Fn(u32) -> u32) -> Lanes {
    std::array::from_fn(|lane| value(lane as u32))
}

/// A sequence of numbers that look random.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn lanes(&mut self) -> Lanes {
        std::array::from_fn(|_| (self.next() >> 32) as u32)
    }
}

/// Builds a kernel of checks. Registers that checks must leave alone: s[80:91], v[60:63]. `s[84:85]` is the address of
/// the memory given to [`Checks::run`], v60 the lane times 4. One wave runs, with all lanes on when a check begins.
pub struct Checks {
    arch: Arch,
    body: String,
    inputs: Vec<Lanes>,
    expected: Vec<(String, u64, Lanes)>,
    pub kernel: Kernel,
}

impl Checks {
    pub fn new(arch: Arch) -> Self {
        Self { arch, body: String::new(), inputs: Vec::new(), expected: Vec::new(), kernel: Kernel::default() }
    }

    pub fn line(&mut self, line: impl Display) -> &mut Self {
        writeln!(self.body, "{line}").unwrap();
        self
    }

    /// Sets a scalar register.
    pub fn scalar(&mut self, register: impl Display, value: u32) -> &mut Self {
        self.line(format_args!("s_mov_b32 {register}, {value:#x}"))
    }

    /// Sets a pair of scalar registers.
    pub fn scalar64(&mut self, low: u32, value: u64) -> &mut Self {
        self.scalar(format_args!("s{low}"), value as u32).scalar(format_args!("s{}", low + 1), (value >> 32) as u32)
    }

    /// Sets a vector register.
    pub fn vector(&mut self, number: u32, values: Lanes) -> &mut Self {
        let offset = self.inputs.len() * 256;
        self.inputs.push(values);
        self.line(format_args!("s_add_u32 s88, s82, {offset}\ns_addc_u32 s89, s83, 0"));
        self.line(format_args!("global_load_dword v{number}, v60, s[88:89]\ns_waitcnt vmcnt(0)"))
    }

    /// Expects a vector register to hold values in the lanes of a mask. All lanes are on afterwards.
    pub fn expect_in(&mut self, label: impl Display, register: impl Display, mask: u64, values: Lanes) -> &mut Self {
        self.expected.push((label.to_string(), mask, values));
        self.line(format_args!("s_waitcnt vmcnt(0) lgkmcnt(0)\ns_mov_b64 exec, -1"));
        self.line(format_args!("global_store_dword v60, {register}, s[80:81]"));
        self.line("s_add_u32 s80, s80, 256\ns_addc_u32 s81, s81, 0")
    }

    pub fn expect(&mut self, label: impl Display, register: impl Display, values: Lanes) -> &mut Self {
        self.expect_in(label, register, u64::MAX, values)
    }

    /// Expects a scalar register to hold a value.
    pub fn expect_scalar(&mut self, label: impl Display, register: impl Display, value: u32) -> &mut Self {
        self.line(format_args!("s_waitcnt lgkmcnt(0)\ns_mov_b64 exec, -1\nv_mov_b32 v63, {register}"));
        self.expect(label, "v63", [value; 64])
    }

    /// Runs the checks at every level with `memory` at s[84:85], and compares it afterwards with `after`.
    pub fn run(self, memory: &[u32], after: &[u32]) {
        let prologue = "s_load_dwordx4 s[80:83], s[0:1], 0\ns_load_dwordx2 s[84:85], s[0:1], 16\n\
            v_mbcnt_lo_u32_b32 v60, -1, 0\nv_mbcnt_hi_u32_b32 v60, -1, v60\nv_lshlrev_b32 v60, 2, v60\n\
            s_waitcnt lgkmcnt(0)\n";
        let Some(code) = assemble(self.arch, &format!("{prologue}{}", self.body), &self.kernel) else { return };
        for &level in Level::available() {
            let mut device = Device::new(self.arch, &code);
            device.options.level = Some(level);
            let inputs: Vec<u32> = self.inputs.iter().flatten().copied().chain([0]).collect();
            let out = device.buffer("out", &vec![0xdead_beef_u32; (self.expected.len() * 64).max(1)]);
            let input = device.buffer("in", &inputs);
            let mem = device.buffer("mem", memory);
            let args = Args::default().u64(out).u64(input).u64(mem).done();
            device.run("k", 1, 64, args).unwrap_or_else(|error| panic!("{:?} {level:?}: {error}", self.arch));
            let found = device.read::<u32>(out, self.expected.len() * 64);
            for ((label, mask, want), have) in self.expected.iter().zip(found.chunks(64)) {
                for lane in (0..64).filter(|lane| mask >> lane & 1 == 1) {
                    let (want, have) = (want[lane], have[lane]);
                    assert!(
                        want == have,
                        "{:?} {level:?} {label}, lane {lane}: {have:#x}, expected {want:#x}",
                        self.arch
                    );
                }
            }
            let found = device.read::<u32>(mem, memory.len());
            for (index, (have, want)) in found.iter().zip(after).enumerate() {
                assert!(have == want, "{:?} {level:?} memory {index}: {have:#x}, expected {want:#x}", self.arch);
            }
        }
    }
}
