//! `kbench inspect`: the fixture of crates/code-object in every form a user has it in, and what clang builds here.
#![allow(clippy::unwrap_used)]

mod common;

use common::Bench;
use predicates::str::contains;
use serde_json::Value;
use std::process::Command;

/// One kernel for gfx942:sramecc+:xnack-, assembled from crates/code-object/tests/data/small.s.
const SMALL: &[u8] = include_bytes!("../crates/code-object/tests/data/small.co");

fn json(bench: &Bench, args: &[&str]) -> Value {
    let output = bench.kbench().arg("inspect").args(args).args(["--format", "json"]).assert().success();
    serde_json::from_slice(&output.get_output().stdout).unwrap()
}

fn fixture() -> Bench {
    let bench = Bench::new();
    std::fs::write(bench.dir.path().join("small.co"), SMALL).unwrap();
    bench
}

#[test]
fn the_document_says_what_the_source_says() {
    let bench = fixture();
    let document = json(&bench, &["small.co"]);
    assert_eq!(document["schema"], "kbench.inspect/1");
    let image = &document["images"][0];
    assert_eq!(image["target"], "gfx942:sramecc+:xnack-");
    assert_eq!(image["code_object_version"], 5);
    let kernel = &image["kernels"][0];
    assert_eq!(kernel["name"], "add_one");
    assert_eq!(kernel["args"][0]["kind"], "global_buffer");
    assert_eq!(kernel["descriptor"]["rsrc3"]["accum_offset"], 36);
    // Workgroups of 64 x 2: two waves, so 16 barriers are what stops the next one, with all 8 slots of each SIMD filled.
    let occupancy = &kernel["occupancy"];
    assert_eq!((occupancy["block"].as_u64(), occupancy["workgroups"].as_u64()), (Some(128), Some(16)));
    assert_eq!(occupancy["waves_per_simd"], 8.0);
}

#[test]
fn block_and_lds_decide_the_occupancy() {
    let bench = fixture();
    // 512 bytes of its own and 20480 more: 64 KiB hold three.
    let document = json(&bench, &["small.co", "--block", "256", "--lds", "20480"]);
    let occupancy = &document["images"][0]["kernels"][0]["occupancy"];
    assert_eq!((occupancy["workgroups"].as_u64(), occupancy["limiter"].as_str()), (Some(3), Some("lds")));
    let table = bench.kbench().args(["inspect", "small.co", "--lds", "65536"]).assert().success();
    table.stdout(contains("66048 bytes of LDS does not fit"));
}

#[test]
fn a_chosen_kernel_is_shown_in_full() {
    let bench = fixture();
    let output = bench.kbench().args(["inspect", "small.co", "--kernel", "^add"]).assert().success();
    output
        .stdout(contains("global_buffer words (global)"))
        .stdout(contains("first AGPR at"))
        .stdout(contains("64 x 2 x 1"));
    bench.kbench().args(["inspect", "small.co", "--kernel", "mul"]).assert().code(2).stderr(contains("add_one"));
}

#[test]
fn a_file_compared_with_itself_and_with_a_changed_one() {
    let bench = fixture();
    let output = bench.kbench().args(["inspect", "small.co", "--compare", "small.co"]).assert().success();
    output.stdout(contains("nothing differs"));
    let mut changed = SMALL.to_vec();
    // The last instruction word before s_endpgm's padding: the code is at the executable segment.
    let code = kbench_code_object::CodeObject::parse(SMALL).unwrap();
    let entry = &code.kernels()[0];
    let place = code.bytes().windows(4).position(|word| word == &code.code(entry).unwrap()[..4]).unwrap();
    changed[place] ^= 1;
    std::fs::write(bench.dir.path().join("changed.co"), changed).unwrap();
    let document = json(&bench, &["changed.co", "--compare", "small.co"]);
    let compared = &document["comparison"]["code_objects"][0];
    assert_eq!((compared["same"].as_bool(), compared["kernels"][0]["code"].as_str()), (Some(false), Some("different")));
}

#[test]
fn bad_files_are_one_paragraph() {
    let bench = fixture();
    bench.file("text.co", "kernel void f() {}");
    std::fs::write(bench.dir.path().join("cut.co"), &SMALL[..700]).unwrap();
    for (args, words) in [
        (&["text.co"][..], "text.co: a text file, but an AMDGPU code object"),
        (&["cut.co"], "cut.co: damaged at offset"),
        (&["absent.co"], "absent.co could not be read"),
        (&["small.co", "--target", "gfx90a"], "no code object for gfx90a; there are: gfx942:sramecc+:xnack-"),
    ] {
        let output = bench.kbench().arg("inspect").args(args).assert().code(2).stderr(contains(words));
        assert_eq!(output.get_output().stderr.iter().filter(|&&byte| byte == b'\n').count(), 1);
    }
}

#[test]
fn bundles_of_the_compiler() {
    let bench = Bench::new();
    if Command::new("clang-19").arg("--version").output().is_err() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "clang-19 is needed in CI");
        eprintln!("skipped: clang-19 is not installed");
        return;
    }
    bench.file(
        "k.hip",
        "template <int N> __attribute__((global)) void set(int *p) { *p = N; }\n\
         template __attribute__((global)) void set<1>(int *);\n",
    );
    let built = Command::new("clang-19")
        .args(["-x", "hip", "--cuda-device-only", "--cuda-gpu-arch=gfx90a", "--cuda-gpu-arch=gfx1100", "-nogpuinc"])
        .args(["-nogpulib", "-O3", "--offload-compress", "k.hip", "-o", "k.hipfb"])
        .current_dir(bench.dir.path())
        .status()
        .unwrap();
    assert!(built.success());
    let document = json(&bench, &["k.hipfb"]);
    let targets: Vec<_> = document["images"].as_array().unwrap().iter().map(|image| image["target"].clone()).collect();
    // clang orders the entries by their ids.
    assert_eq!(targets, ["gfx1100", "gfx90a"]);
    assert_eq!(document["images"][0]["entry"]["id"], "hipv4-amdgcn-amd-amdhsa--gfx1100");
    let one = json(&bench, &["k.hipfb", "--target", "gfx1100"]);
    assert_eq!(one["images"].as_array().unwrap().len(), 1);
    assert_eq!(one["images"][0]["kernels"][0]["wave_size"], 32);
    bench.kbench().args(["inspect", "k.hipfb"]).assert().success().stdout(contains("set<1>"));
    // A pattern finds the demangled name, too.
    let found = json(&bench, &["k.hipfb", "--kernel", "set<1>"]);
    assert_eq!(found["images"][0]["kernels"][0]["name"], "_Z3setILi1EEvPi");
}
