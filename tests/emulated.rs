//! Every kernel of this project on the emulated GPU, against its family's CPU reference: gfx942 as built into the program,
//! gfx90a compiled here. The cases are in `tests/emulated/cases.txt`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kbench::device::gpu::{Gpu, GpuOptions};
use kbench::device::{Device, DeviceError, Means};
use kbench::measure::Cache;
use kbench_kernels::compile::{self, Compiler, Options};
use kbench_kernels::tree::KernelTree;
use kbench_kernels::{Library, ObjectInfo};
use kbench_workload::{CaseOptions, Dtypes, Family, ShapeMap, Workload};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

/// Seed of data, routing and page tables.
const SEED: u64 = 1;

/// Kernels that the program has for MI300X (304 CUs) and the cases all run.
#[test]
fn gfx942_kernels_match_their_references() {
    run_all("mi300x", kbench::kernels::builtin().unwrap());
}

/// The same sources for MI210 (104 CUs, no fp8 in hardware), compiled here.
#[test]
fn gfx90a_kernels_match_their_references() {
    if std::process::Command::new("clang-19").arg("--version").output().is_err() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "clang-19 is needed in CI");
        eprintln!("skipped: there is no clang-19");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let compiler = Compiler::find(Some(OsStr::new("clang-19")), &|name| std::env::var_os(name)).unwrap();
    let tree = KernelTree::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")).unwrap();
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let archs = ["gfx90a".to_owned()];
    let options = Options { compiler: &compiler, archs: &archs, flags: &[], jobs };
    let outcome = compile::build(&tree, folder.path(), &options, &|_| ()).unwrap();
    assert!(outcome.record.failures.is_empty(), "{:?}", outcome.record.failures);
    run_all("mi210", Library::open(folder.path()).unwrap());
}

/// Runs every case; fails with the list of those that are not right, or of the kernels that none of them ran.
fn run_all(model: &str, library: Library) {
    let mut device = Gpu::emulated(model, Some(library.clone()), GpuOptions::default()).unwrap();
    let arch = device.info().arch.clone();
    let mut ran = BTreeSet::new();
    let mut wrong = Vec::new();
    let mut count = 0;
    for case in cases(&device) {
        count += 1;
        match run(&mut device, case.as_ref()) {
            Ok(kernels) => ran.extend(kernels),
            Err(reason) => {
                wrong.push(format!("{} [{}] {}: {reason}", case.family(), case.dtypes(), case.shape()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} cases on {arch}:\n{}", wrong.len(), wrong.join("\n"));
    let all = kernels(&library, &arch);
    let missed: Vec<&String> = all.difference(&ran).filter(|name| !is_for_waves_of_32(name)).collect();
    assert!(missed.is_empty(), "{arch}: no case runs {missed:?}");
    println!("{arch}: {count} cases ran {} kernels", ran.len());
}

/// Runs a case whole and compares all outputs; gives the kernels that ran.
fn run(device: &mut Gpu, case: &dyn Workload) -> Result<Vec<String>, String> {
    let say = |error: DeviceError| error.to_string();
    let mut prepared = device.prepare(case, Cache::Cold, SEED).map_err(say)?;
    for (output, verification) in prepared.verify(SEED).map_err(say)? {
        if !verification.passed || verification.elements == 0 {
            return Err(format!("{output}: {verification:?}"));
        }
    }
    match prepared.means() {
        Means::Emulated(emulated) => {
            let findings: Vec<&str> =
                emulated.launches.iter().flat_map(|launch| &launch.findings).map(String::as_str).collect();
            if !findings.is_empty() {
                return Err(findings.join("; "));
            }
            if emulated.launches.iter().any(|launch| launch.sampled.is_some()) {
                return Err("too large: only a sample of its workgroups ran".to_owned());
            }
            Ok(emulated.launches.iter().map(|launch| launch.kernel.clone()).collect())
        }
        Means::Timed(_) | Means::Nothing => Err("it did not run on the emulator".to_owned()),
    }
}

/// Both architectures here have waves of 64 lanes, of which 16 experts a lane are the 1024 that the family takes at most: 32
/// experts a lane are for waves of 32 alone.
fn is_for_waves_of_32(kernel: &str) -> bool {
    kernel.starts_with("kb_moe_gate_") && kernel.ends_with("_s32")
}

/// Names of all kernels of the library's code objects for an architecture.
fn kernels(library: &Library, arch: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let of_a_family = |build: &kbench_kernels::Build| build.family.parse::<Family>().is_ok();
    let for_arch = |build: &kbench_kernels::Build| build.targets.iter().any(|target| target == arch);
    for (file, build) in library.builds().filter(|(_, build)| of_a_family(build) && for_arch(build)) {
        let code = library.code(file, build, arch).unwrap();
        let code = code.unwrap_or_else(|| panic!("{file}: `{}` has no code object for {arch}", build.name));
        let info = ObjectInfo::read(&code.bytes).unwrap();
        names.extend(info.kernels.iter().map(|kernel| kernel.resources.name.clone()));
    }
    assert!(!names.is_empty(), "no kernels for {arch}");
    names
}

/// The cases of the table for a device's fp8.
fn cases(device: &Gpu) -> Vec<Box<dyn Workload>> {
    let lines = include_str!("emulated/cases.txt").lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.flat_map(alternatives).map(|line| case(device, &line)).collect()
}

fn case(device: &Gpu, line: &str) -> Box<dyn Workload> {
    let fields: Vec<&str> = line.split(';').map(str::trim).collect();
    let [family, dtypes, shape] = fields[..] else { panic!("{line}: not family; dtypes; shape") };
    let bad = |error: kbench_workload::ShapeError| -> ! { panic!("{line}: {error}") };
    let family: Family = family.parse().unwrap_or_else(|error| bad(error));
    let dtypes: Dtypes = dtypes.parse().unwrap_or_else(|error| bad(error));
    let shape: ShapeMap = shape.parse().unwrap_or_else(|error| bad(error));
    let options = CaseOptions { fp8: device.info().fp8, seed: SEED };
    kbench_workload::case(family, &shape, &dtypes, options).unwrap_or_else(|error| bad(error))
}

/// Every combination of the alternatives `{a|b}` of a line.
fn alternatives(line: &str) -> Vec<String> {
    let Some((before, rest)) = line.split_once('{') else { return vec![line.to_owned()] };
    let (inside, after) = rest.split_once('}').unwrap_or_else(|| panic!("{line}: an alternative is not closed"));
    let tails = alternatives(after);
    inside.split('|').flat_map(|word| tails.iter().map(move |tail| format!("{before}{word}{tail}"))).collect()
}

#[test]
fn alternatives_are_all_combined() {
    assert_eq!(alternatives("a={1|2},b={3|4}"), ["a=1,b=3", "a=1,b=4", "a=2,b=3", "a=2,b=4"]);
    assert_eq!(alternatives("plain"), ["plain"]);
}
