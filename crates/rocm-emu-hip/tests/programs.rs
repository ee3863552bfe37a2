//! C programs that know nothing of the emulator, against the shared library: linked and by dlopen, with faults and clock scripts.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const KERNELS: &str = r#"
#define KERNEL extern "C" __attribute__((global))
typedef unsigned int u32;
static __attribute__((device)) inline u32 id() {
    return __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
}
KERNEL void add(const u32 *a, const u32 *b, u32 *c, u32 n) { u32 i = id(); if (i < n) c[i] = a[i] + b[i]; }
KERNEL void increment(u32 *p) { p[id()] += 1; }
"#;

/// The shared library, which cargo puts beside the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folders = [test.parent().unwrap().to_owned(), test.parent().unwrap().parent().unwrap().to_owned()];
    let found = folders.iter().map(|folder| folder.join("libamdhip64.so")).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("no libamdhip64.so in {folders:?}"))
}

fn runs(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "{tool} is missing");
        println!("skipped: no {tool}");
    }
    found
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A folder with the library under its real name and the kernels; `None` without compilers.
struct Bench(TempDir);

impl Bench {
    fn new() -> Option<Self> {
        if !runs("cc") || !runs("clang-19") {
            return None;
        }
        let bench = Self(tempfile::tempdir().unwrap());
        std::fs::copy(library(), bench.path("libamdhip64.so.7")).unwrap();
        std::fs::write(bench.path("k.hip"), KERNELS).unwrap();
        let flags = ["--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "--offload-arch=gfx942"];
        let mut clang = Command::new("clang-19");
        clang.args(["-x", "hip", "-std=c++17", "-O2"]).args(flags);
        done(&clang.arg("-o").arg(bench.path("k.co")).arg(bench.path("k.hip")).output().unwrap());
        Some(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Compiles a program, linked or for dlopen.
    fn compile(&self, program: &str, by_dlopen: bool) -> PathBuf {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let output = self.path(&format!("{program}-{by_dlopen}"));
        let mut cc = Command::new("cc");
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-pedantic", "-D_GNU_SOURCE"]);
        cc.arg("-o").arg(&output).arg(sources.join(format!("{program}.c")));
        if by_dlopen {
            cc.args(["-DBY_DLOPEN", "-rdynamic", "-ldl"]);
        } else {
            cc.arg(self.path("libamdhip64.so.7")).arg(format!("-Wl,-rpath,{}", self.0.path().display()));
        }
        done(&cc.output().unwrap());
        output
    }

    /// A program with the kernels' file as its first argument.
    fn command(&self, program: &Path, environment: &[(&str, &str)]) -> Command {
        let mut command = Command::new(program);
        command.arg(self.path("k.co")).env("HIP_LIBRARY", self.path("libamdhip64.so.7")).env("ROCM_EMU_THREADS", "1");
        command.envs(environment.iter().copied());
        command
    }

    fn text(&self, program: &Path, environment: &[(&str, &str)], arguments: &[&str]) -> String {
        let output = self.command(program, environment).args(arguments).output().unwrap();
        done(&output);
        String::from_utf8(output.stdout).unwrap()
    }

    fn times(&self, program: &Path, clock: &str, count: &str) -> Vec<f64> {
        let text = self.text(program, &[("ROCM_EMU_CLOCK", clock)], &[count]);
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

#[test]
fn programs_run_unchanged_linked_and_by_dlopen() {
    let Some(bench) = Bench::new() else { return };
    for by_dlopen in [false, true] {
        let text = bench.text(&bench.compile("vector_add", by_dlopen), &[], &[]);
        assert_eq!(text, "AMD Instinct MI300X: 1000 sums are right\n");
        assert_eq!(bench.text(&bench.compile("graph_replay", by_dlopen), &[], &[]), "3 replays are right\n");
        let times = bench.times(&bench.compile("timed_loop", by_dlopen), "", "5");
        assert!(times.len() == 5 && times[0] > 3000.0 && times.iter().all(|time| *time == times[0]), "{times:?}");
    }
}

#[test]
fn the_device_is_the_one_asked_for() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("vector_add", false);
    let with = |device| bench.command(&program, &[("ROCM_EMU_DEVICE", device)]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(text(&with("mi325x").stdout).starts_with("AMD Instinct MI325X: "));
    // Code for gfx942 on a gfx90a; no device; a device that nobody makes.
    assert!(text(&with("mi210").stderr).contains("hipModuleLoad(&module, argv[1]): 209"));
    assert_eq!(text(&with("none").stderr), "hipInit(0): 100\n");
    let unknown = text(&with("mi9000x").stderr);
    assert!(
        unknown.contains("ROCM_EMU_DEVICE=mi9000x: there is no device model") && unknown.contains("hipInit(0): 100")
    );
}

#[test]
fn faults_on_purpose() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("codes", true);
    let lines = |fault: &str| {
        let text = bench.text(&program, &[("ROCM_EMU_FAULT", fault)], &[]);
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let healthy = ["init 0", "load 0", "malloc 0", "malloc 0", "malloc 0"];
    let fine = ["increment 0 0 0 0", "add 0 0 0 0", "increment 0 0 0 0", "add 0 0 0 0", "sync 0"];
    assert_eq!(lines(""), [healthy, fine].concat());
    assert_eq!(lines("oom@2")[2..5], ["malloc 0", "malloc 2", "malloc 0"]);
    assert_eq!(lines("launch-fail@2")[5..], ["increment 0 0 0 0", "add 719 0 0 0", fine[2], fine[3], "sync 0"]);
    let faulted =
        ["increment 0 0 0 0", "add 0 700 700 700", "increment 700 700 700 700", "add 700 700 700 700", "sync 700"];
    assert_eq!(lines("fault@add")[5..], faulted);
    let lost = ["increment 0 0 0 0", "add 0 0 0 0", "increment 709 709 709 709", "add 709 709 709 709", "sync 709"];
    assert_eq!(lines("lost-device@3")[5..], lost);
    let aborted = bench.command(&program, &[("ROCM_EMU_FAULT", "abort@add")]).output().unwrap();
    let signal = std::os::unix::process::ExitStatusExt::signal(&aborted.status);
    assert_eq!(signal, Some(6));
    assert!(String::from_utf8_lossy(&aborted.stderr).contains("aborted in kernel `add`"));
}

/// Ends a child whatever happens to the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_hang_answers_questions_and_blocks_waits() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("codes", true);
    let mut command = bench.command(&program, &[("ROCM_EMU_FAULT", "hang@add")]);
    let out = bench.path("out");
    let mut child = Ended(command.stdout(std::fs::File::create(&out).unwrap()).stderr(Stdio::null()).spawn().unwrap());
    let read = || std::fs::read_to_string(&out).unwrap();
    let started = Instant::now();
    while read().lines().count() < 9 && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // It waits for the stream now, and does not come back.
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.0.try_wait().unwrap().is_none());
    let text = read();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[5..], ["increment 0 0 0 0", "add 0 0 600 600", "increment 0 0 600 600", "add 0 0 600 600"]);
}

#[test]
fn clock_scripts_shape_what_events_tell() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("timed_loop", false);
    let plain = bench.times(&program, "", "1")[0];
    // Between the events lie 3000 ns that no script touches.
    let kernel = plain - 3000.0;
    assert!((bench.times(&program, "scale=3x", "1")[0] - (3000.0 + 3.0 * kernel)).abs() <= 2.0);
    let noisy = bench.times(&program, "cv=5%,seed=1", "60");
    assert_eq!(noisy, bench.times(&program, "cv=5%,seed=1", "60"));
    assert!(noisy.iter().any(|time| *time > plain) && noisy.iter().any(|time| *time < plain));
    let negative = bench.times(&program, "negative=p:50%,seed=2", "40");
    let wrong = negative.iter().filter(|time| **time < 0.0).count();
    // Binomial: 20 with a deviation of 3.2.
    assert!((8..=32).contains(&wrong), "{wrong}");
    let ramp = bench.times(&program, "ramp=100us:2x", "60");
    assert!(ramp[0] > ramp[20] && ramp[59] == plain, "{ramp:?}");
    let refused = bench.command(&program, &[("ROCM_EMU_CLOCK", "wobble=1%")]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`wobble=1%` is no clock item"));
}

/// The shared library finds a profiler in the global scope, and tells it through C structures.
#[test]
fn a_profiler_in_the_process_is_found() {
    let Some(bench) = Bench::new() else { return };
    let text = bench.text(&bench.compile("profiled", true), &[], &[]);
    let want = "tool: loaded: none, 2 kernels\ntool: loaded: ELF, 2 kernels\nincrement grid 256 waves -1 ok\nincrement grid 512 waves 8 ok\n";
    assert_eq!(text, want);
}
