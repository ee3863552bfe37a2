//! Helpers of the tests: tools by name, sources, a scratch folder.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The fixture: `data/small.s`, assembled and linked.
pub const SMALL: &[u8] = include_bytes!("../data/small.co");

/// Device words without ROCm's headers.
const PREFIX: &str = "\
#define GLOBAL __attribute__((global))
#define DEVICE __attribute__((device))
#define SHARED __attribute__((shared))
#define LAUNCH_BOUNDS(n) __attribute__((amdgpu_flat_work_group_size(1, n)))
#define LANE __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()
#define GROUP_SIZE __builtin_amdgcn_workgroup_size_x()
";

/// Kernels that differ in what they need: hidden arguments, relocated data, LDS, many registers, scratch, dynamic stack.
pub const KERNELS: &str = r#"
DEVICE int table[64] = {1, 2, 3};
DEVICE int *where = &table[3];
DEVICE float zeros[1000];
extern "C" GLOBAL void scale(float *out, const float *__restrict in, float a, int n) {
  int i = GROUP * GROUP_SIZE + LANE;
  if (i < n) out[i] = a * in[i] + *where + zeros[LANE];
}
template <int N> GLOBAL void LAUNCH_BOUNDS(N) reverse(int *p) {
  SHARED int buffer[N];
  buffer[LANE] = p[LANE];
  __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");
  __builtin_amdgcn_s_barrier();
  p[LANE] = buffer[N - 1 - LANE];
}
template GLOBAL void reverse<64>(int *);
template GLOBAL void reverse<256>(int *);
extern "C" GLOBAL void LAUNCH_BOUNDS(256) wide(float *p, int stride) {
  float v[150];
  for (int i = 0; i < 150; i++) v[i] = p[i * stride + LANE];
  for (int r = 0; r < 3; r++)
    for (int i = 0; i < 150; i++) v[i] = v[i] * v[(i * 7 + 1) % 150] + v[(i * 11 + 5) % 150];
  for (int i = 0; i < 150; i++) p[i * stride + LANE] = v[i];
}
extern "C" GLOBAL void LAUNCH_BOUNDS(1024) crowded(float *p, int stride) {
  float v[200];
  for (int i = 0; i < 200; i++) v[i] = p[i * stride + LANE];
  __builtin_amdgcn_s_barrier();
  for (int i = 0; i < 200; i++) p[i * stride + LANE] = v[i] + v[199 - i];
}
extern "C" GLOBAL void indexed(int *p) {
  int x[100];
  for (int i = 0; i < 100; i++) x[i] = p[i * 3];
  p[0] = x[p[7]];
}
typedef int (*Function)(int);
extern "C" GLOBAL void indirect(int *p, Function f) { p[LANE] = f(p[LANE]); }
"#;

/// A scratch folder with what the tests build.
pub struct Bench {
    pub dir: TempDir,
}

impl Bench {
    /// `None`, with a line that says so, when one of the tools is not installed; with `CI=true` that is a failure.
    pub fn with(tools: &[&str]) -> Option<Self> {
        for tool in tools {
            if Command::new(tool).arg("--version").output().is_err() {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "{tool} is needed in CI");
                eprintln!("skipped: {tool} is not installed");
                return None;
            }
        }
        Some(Self { dir: tempfile::tempdir().unwrap() })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// Runs a tool in the scratch folder; its standard output.
    pub fn run(&self, tool: &str, args: &[&str]) -> String {
        let output = Command::new(tool).args(args).current_dir(self.dir.path()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tool} {args:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Compiles HIP device code to a bare code object; its path.
    pub fn hip(&self, name: &str, source: &str, arch: &str, flags: &[&str]) -> PathBuf {
        self.write(&format!("{name}.hip"), format!("{PREFIX}{source}"));
        let (input, output) = (format!("{name}.hip"), format!("{name}.co"));
        let arch = format!("--cuda-gpu-arch={arch}");
        let mut args = vec!["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib"];
        args.extend(["-O3", &arch]);
        args.extend(flags);
        args.extend([input.as_str(), "-o", &output]);
        self.run("clang-19", &args);
        self.path(&output)
    }

    /// Assembles and links; the path of the code object.
    pub fn assemble(&self, name: &str, source: &str, cpu: &str, flags: &[&str]) -> PathBuf {
        self.write(&format!("{name}.s"), source);
        let (input, object, output) = (format!("{name}.s"), format!("{name}.o"), format!("{name}.co"));
        let cpu = format!("-mcpu={cpu}");
        let mut args = vec!["-triple=amdgcn-amd-amdhsa", cpu.as_str(), "-filetype=obj"];
        args.extend(flags);
        args.extend([input.as_str(), "-o", &object]);
        self.run("llvm-mc-19", &args);
        self.run("ld.lld-19", &["-shared", "--strip-all", "--nmagic", &object, "-o", &output]);
        self.path(&output)
    }
}

pub fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}
