//! A profiler in C that has nothing but `dlopen`, against both shared libraries; and what the library exports.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const KERNEL: &str = r#"
extern "C" __attribute__((global)) void increment(unsigned int *p) {
    p[__builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x()] += 1;
}
"#;

/// The two shared libraries. Cargo builds none for a test, so it is asked to, with the settings of the test.
static LIBRARIES: LazyLock<[PathBuf; 2]> = LazyLock::new(|| {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args([
        "build",
        "--quiet",
        "--package",
        "kbench-rocm-emu-hip",
        "--package",
        "kbench-rocm-emu-sdk",
        "--target-dir",
    ]);
    cargo.arg(folder.parent().unwrap());
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success());
    ["librocprofiler_sdk.so", "libamdhip64.so"].map(|name| folder.join(name))
});

fn runs(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{tool} is missing");
        println!("skipped: no {tool}");
    }
    found
}

fn must(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_profiler_with_nothing_but_dlopen() {
    if !runs("cc") || !runs("clang-19") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let [sdk, hip] = &*LIBRARIES;
    std::fs::copy(sdk, at("librocprofiler-sdk.so.1")).unwrap();
    std::fs::copy(hip, at("libamdhip64.so.7")).unwrap();
    std::fs::write(at("k.hip"), KERNEL).unwrap();
    let flags = ["--cuda-device-only", "--no-gpu-bundle-output", "-nogpuinc", "-nogpulib", "--offload-arch=gfx942"];
    must(Command::new("clang-19").args(["-x", "hip", "-O2"]).args(flags).arg("-o").arg(at("k.co")).arg(at("k.hip")));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O1", "-I"]);
    cc.arg(own.join("../rocprofiler-sdk-sys/tests/abi"))
        .arg("-o")
        .arg(at("tool"))
        .arg(own.join("tests/programs/tool.c"));
    must(cc.arg("-ldl"));
    for (version, number) in [("1.0.0", "10000"), ("1.1.0", "10100"), ("1.3.5", "10305")] {
        for (fault, device, agent) in
            [("", "mi300x", "gfx942 304 CUs 8 XCCs"), ("late=20,reorder=6,busy=2", "mi300a", "gfx942 228 CUs 6 XCCs")]
        {
            let mut tool = Command::new(at("tool"));
            tool.args([at("librocprofiler-sdk.so.1"), at("libamdhip64.so.7"), at("k.co")]);
            tool.env("ROCM_EMU_SDK_VERSION", version).env("ROCM_EMU_SDK_FAULT", fault).env("ROCM_EMU_DEVICE", device);
            let lines = must(&mut tool);
            let expected = format!(
                "version {version}\nconfigure {number} {version} 0\nagent {agent} size 1\n\
                 traced 50 of the kernel, 1 of the runtime, last grid GRID\ncounted 1: 123 waves, active 1\nfinalized\n"
            );
            // The last record that came is that of the last launch only when records come in order.
            let grid = lines.split("last grid ").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
            assert!(fault.contains("reorder") || grid == "3200", "{lines}");
            assert_eq!(lines, expected.replace("GRID", grid));
        }
    }
}

/// Every function of the list is exported, under the SONAME that programs look for.
#[test]
fn exports_and_soname() {
    if !runs("llvm-readelf-19") {
        return;
    }
    let [library, _] = &*LIBRARIES;
    let text = must(Command::new("llvm-readelf-19").args(["--dynamic-table", "--dyn-syms", "--wide"]).arg(library));
    assert!(text.contains("[librocprofiler-sdk.so.1]"), "{text}");
    let exported: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("GLOBAL DEFAULT") && !line.contains(" UND "))
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    let interface =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../rocprofiler-sdk-sys/src/functions.rs"));
    let interface = interface.unwrap();
    // Names that the binding crate looks up, which is another list than the one the exports are made from.
    let names: Vec<&str> = interface.split("c\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() > 30, "{names:?}");
    let missing: Vec<&&str> = names.iter().filter(|name| !exported.contains(name)).collect();
    assert_eq!(missing, [&"rocprofiler_load_counter_definition"]);
    for name in ["rocprofiler_set_api_table", "rocm_emu_sdk_attach"] {
        assert!(exported.contains(&name), "{name}");
    }
    assert!(!exported.iter().any(|name| name.starts_with("hip")), "{exported:?}");
}
