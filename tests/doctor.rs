//! `kbench doctor` and `kbench devices`, driven as a user drives them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Bench, built};
use serde_json::Value;
use std::path::Path;

/// The document that a command prints, and its exit code.
fn document(arguments: &[&str], variables: &[(&str, &str)]) -> (Value, Option<i32>) {
    let bench = Bench::new();
    let mut command = bench.kbench();
    command.args(arguments).args(["--format", "json"]).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")), output.status.code())
}

/// Whether this machine has a GPU: then what these tests say of its absence does not hold.
fn has_gpu() -> bool {
    Path::new("/dev/kfd").exists()
}

#[test]
fn a_machine_without_a_gpu_is_examined_and_not_called_broken() {
    if has_gpu() {
        println!("skipped: this machine has a GPU");
        return;
    }
    let (report, exit) = document(&["doctor"], &[]);
    assert_eq!(exit, Some(0));
    assert_eq!(report["schema"], "kbench.doctor/1");
    assert_eq!(report["system"]["permissions"]["kfd"]["access"]["state"], "missing");
    let advice: Vec<&str> =
        report["findings"].as_array().unwrap().iter().map(|f| f["advice"].as_str().unwrap()).collect();
    assert!(advice.iter().any(|advice| advice.contains("kbench takes the emulated MI300X")), "{advice:?}");
}

#[test]
fn debians_hip_is_reported_with_its_version_and_why_it_has_no_device() {
    if has_gpu() {
        println!("skipped: this machine has a GPU");
        return;
    }
    let (report, _) = document(&["doctor"], &[]);
    let hip = &report["hip"]["answered"];
    if hip["library"].is_null() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "libamdhip64-5 is missing: {}", hip["error"]);
        println!("skipped: no HIP library");
        return;
    }
    let library = hip["library"].as_str().unwrap();
    assert!(Path::new(library).is_absolute(), "{library}");
    let version = hip["runtime_version"].as_str().unwrap();
    // The file's own name ends in its version.
    assert!(!library.ends_with(".so.5.2.21153") || version == "5.2.21153", "{library} {version}");
    assert_eq!(hip["no_device"], true);
    assert!(hip["error"].as_str().unwrap().contains("hipErrorNoDevice (100)"));
    assert!(hip["hiprtc_version"].as_str().is_some());
}

#[test]
fn a_library_that_is_named_and_not_there_is_the_reason_given() {
    let (report, _) = document(&["doctor"], &[("KBENCH_HIP_LIB", "/nonexistent/libamdhip64.so")]);
    let error = report["hip"]["answered"]["error"].as_str().unwrap();
    assert!(error.contains("/nonexistent/libamdhip64.so (cannot open shared object file"), "{error}");
    let variables = report["system"]["environment"]["variables"].as_array().unwrap();
    assert!(variables.iter().any(|variable| variable["name"] == "KBENCH_HIP_LIB"));
}

#[test]
fn attached_profilers_are_named() {
    let (report, _) = document(&["doctor"], &[("ROCP_TOOL_LIBRARIES", "/opt/rocm/lib/librocprofiler-sdk-tool.so")]);
    let attachments = report["system"]["environment"]["attachments"].as_array().unwrap();
    assert_eq!(attachments.len(), 1);
    assert_eq!(
        (&attachments[0]["kind"], &attachments[0]["variable"]),
        (&"profiler".into(), &"ROCP_TOOL_LIBRARIES".into())
    );
}

#[test]
fn the_text_has_the_same_findings() {
    let bench = Bench::new();
    let output = bench.kbench().arg("doctor").env("KBENCH_HIP_LIB", "/nonexistent/x.so").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["machine", "libraries and tools", "findings", "/nonexistent/x.so", "/dev/kfd"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn devices_are_listed_as_the_device_option_takes_them() {
    let (list, exit) = document(&["devices"], &[]);
    assert_eq!((exit, list["schema"].as_str()), (Some(0), Some("kbench.devices/1")));
    let devices = list["devices"].as_array().unwrap();
    let by_name = |name: &str| devices.iter().find(|device| device["device"] == name).unwrap();
    // AMD's data sheets: 304 CUs at 2100 MHz; MI355X has 256 at 2400 MHz.
    let mi300x = by_name("emu:mi300x");
    assert_eq!(
        (&mi300x["units"], &mi300x["clock_mhz"], &mi300x["arch"]),
        (&304.into(), &2100.0.into(), &"gfx942".into())
    );
    let mi355x = by_name("emu:mi355x");
    assert_eq!((&mi355x["units"], &mi355x["clock_mhz"]), (&256.into(), &2400.0.into()));
    assert_eq!(by_name("host")["kind"], "host");
    if !has_gpu() {
        assert!(devices.iter().all(|device| device["kind"] != "hip"));
        assert!(list["hip_error"].is_string(), "the list says why there is no GPU");
    }
}

/// hiprtc is looked for in the HIP that was named and beside it: the search brings no second HIP into the process.
#[test]
fn a_hip_that_is_named_stays_the_only_one() {
    let Some(library) = built("libamdhip64.so") else { return };
    let (report, _) = document(&["doctor"], &[("KBENCH_HIP_LIB", library.to_str().unwrap())]);
    let hip = &report["hip"]["answered"];
    assert_eq!(hip["library"].as_str(), library.canonicalize().unwrap().to_str());
    assert_eq!(hip["duplicates"].as_array().map(Vec::len), Some(0), "{hip:#}");
}
