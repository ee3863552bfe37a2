//! The build pipeline with real compilers: clang with lld, and zig's.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::has_tool;
use kbench_kernels::compile::{self, Compiler, Kind, Options, StepResult};
use kbench_kernels::kernarg;
use kbench_kernels::symbols::NoSymbols;
use kbench_kernels::tree::KernelTree;
use kbench_kernels::{DeviceInfo, Library, ObjectInfo, Symbols, TensorInfo, Value, embed, plan, validate};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

const HEADER: &str = "\
#pragma once
#define KERNEL extern \"C\" __attribute__((global))
";
const SOURCE: &str = "\
#include \"words.h\"
#ifndef FACTOR
#define FACTOR 1
#endif
KERNEL void __attribute__((amdgpu_flat_work_group_size(1, 256))) kb_scale(float *out, const float *in, unsigned n, float a) {
  unsigned i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x();
  if (i < n) out[i] = in[i] * a * FACTOR;
}
";
const MANIFEST: &str = r#"schema = "kbench.kernels/1"
[[build]]
name = "scale"
family = "scale"
source = "scale.hip"
targets = ["gfx90a", "gfx942", "gfx950", "gfx1100"]
[[build.launch]]
kernel = "kb_scale"
grid = ["ceil_div(n, 256)", 1, 1]
block = [256, 1, 1]
args = [{ ptr = "out" }, { ptr = "x" }, { u32 = "n" }, { f32 = 0.5 }]
[[build]]
name = "scale_twice"
family = "scale"
source = "scale.hip"
targets = ["gfx90a", "gfx942", "gfx950"]
defines = { FACTOR = 2 }
priority = -1
[[build.launch]]
kernel = "kb_scale"
grid = ["ceil_div(n, 256)", 1, 1]
block = [256, 1, 1]
args = [{ ptr = "out" }, { ptr = "x" }, { u32 = "n" }, { f32 = 0.5 }]
"#;

fn env(name: &str) -> Option<OsString> {
    if name == "PATH" { std::env::var_os("PATH") } else { None }
}

fn clang() -> Option<Compiler> {
    if !has_tool("clang-19") || !has_tool("ld.lld-19") {
        return None;
    }
    Some(Compiler::find(Some("clang-19".as_ref()), &env).unwrap())
}

/// The `zig` of PyPI's ziglang, where `KBENCH_TEST_ZIG` or PATH has it.
fn zig() -> Option<Compiler> {
    let named = std::env::var("KBENCH_TEST_ZIG").unwrap_or_else(|_| "zig".to_owned());
    match Compiler::find(Some(format!("zig:{named}").as_ref()), &env) {
        Ok(compiler) => Some(compiler),
        Err(error) => {
            eprintln!("skipped: {error} (pip install ziglang, then KBENCH_TEST_ZIG=.../ziglang/zig)");
            None
        }
    }
}

fn tree(folder: &Path) -> KernelTree {
    for (path, text) in [("include/words.h", HEADER), ("scale/scale.hip", SOURCE), ("scale/scale.toml", MANIFEST)] {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    KernelTree::open(folder).unwrap()
}

fn build(tree: &KernelTree, out: &Path, compiler: &Compiler, archs: &[&str], flags: &[&str]) -> compile::Outcome {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    let (archs, flags) = (owned(archs), owned(flags));
    compile::build(tree, out, &Options { compiler, archs: &archs, flags: &flags, jobs: 2 }, &|_| {}).unwrap()
}

#[test]
fn only_what_changed_is_compiled() {
    let Some(compiler) = clang() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (root, out) = (folder.path().join("kernels"), folder.path().join("out"));
    let first = build(&tree(&root), &out, &compiler, &["gfx90a", "gfx942"], &[]);
    assert_eq!((first.compiled, first.reused, first.record.failures.len()), (4, 0, 0));
    assert_eq!(first.findings, []);
    let files: Vec<&str> = first.record.objects.iter().map(|object| object.file.as_str()).collect();
    let wanted = ["gfx90a/scale-scale_twice.co", "gfx90a/scale.co", "gfx942/scale-scale_twice.co", "gfx942/scale.co"];
    assert_eq!(files, wanted);
    let kernel = &first.record.objects[3].kernels[0];
    assert_eq!((kernel.name.as_str(), kernel.max_block, kernel.spills), ("kb_scale", 256, 0));
    let record = fs::read_to_string(out.join("build.json")).unwrap();
    for word in [compiler.version.as_str(), "-O3", "gfx942", "inputs_sha256", "vgprs", "FACTOR"] {
        assert!(record.contains(word), "{word}");
    }

    let again = build(&tree(&root), &out, &compiler, &["gfx90a", "gfx942"], &[]);
    assert_eq!((again.compiled, again.reused), (0, 4));
    assert_eq!(again.record, first.record);

    // Another architecture leaves the ones that are there alone.
    let third = build(&tree(&root), &out, &compiler, &["gfx1100"], &[]);
    assert_eq!((third.compiled, third.record.objects.len()), (1, 5));

    // A header, a flag, a damaged object.
    fs::write(root.join("include/words.h"), format!("{HEADER}// changed\n")).unwrap();
    let opened = KernelTree::open(&root).unwrap();
    let changed = build(&opened, &out, &compiler, &["gfx90a", "gfx942"], &[]);
    assert_eq!((changed.compiled, changed.reused, changed.record.objects.len()), (4, 0, 4));
    assert!(!out.join("gfx1100/scale.co").exists());
    assert_eq!(build(&opened, &out, &compiler, &["gfx942"], &["-DUNUSED"]).compiled, 2);
    fs::write(out.join("gfx942/scale.co"), b"damaged").unwrap();
    assert!(matches!(
        Library::open(&out).and_then(|library| {
            let (file, build) = library.builds().next().unwrap();
            library.code(file, build, "gfx942").map(|_| ())
        }),
        Err(kbench_kernels::LibraryError::Changed { .. })
    ));
    assert_eq!(build(&opened, &out, &compiler, &["gfx942"], &["-DUNUSED"]).compiled, 1);
}

#[test]
fn objects_do_not_know_where_they_were_built() {
    let Some(compiler) = clang() else { return };
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let a = build(&tree(one.path()), &one.path().join("out"), &compiler, &["gfx942"], &[]);
    let b = build(&tree(&other.path().join("deeper/kernels")), &other.path().join("o"), &compiler, &["gfx942"], &[]);
    assert_eq!(a.record, b.record);
    let bytes = fs::read(one.path().join("out/gfx942/scale.co")).unwrap();
    let place = one.path().to_str().unwrap().as_bytes();
    assert!(!bytes.windows(place.len()).any(|window| window == place));
}

#[test]
fn a_source_that_fails_is_reported_and_the_others_are_built() {
    let Some(compiler) = clang() else { return };
    let folder = tempfile::tempdir().unwrap();
    tree(folder.path());
    fs::create_dir(folder.path().join("bad")).unwrap();
    fs::write(folder.path().join("bad/bad.hip"), "int unused(int x) { return undeclared; }\n").unwrap();
    fs::write(folder.path().join("bad/bad.toml"), MANIFEST.replace("scale.hip", "bad.hip")).unwrap();
    fs::write(folder.path().join("scale/scale.hip"), format!("{SOURCE}static int unused;\n")).unwrap();
    let opened = KernelTree::open(folder.path()).unwrap();
    let out = folder.path().join("out");
    let steps = Mutex::new(Vec::new());
    let archs = ["gfx942".to_owned()];
    let options = Options { compiler: &compiler, archs: &archs, flags: &[], jobs: 3 };
    let outcome = compile::build(&opened, &out, &options, &|step| {
        steps.lock().unwrap().push((step.done, step.total, step.file.to_owned(), step.result.clone()));
    })
    .unwrap();
    assert_eq!((outcome.compiled, outcome.record.failures.len()), (2, 2));
    assert!(outcome.record.failures[0].message.contains("bad/bad.hip:1:"), "{:?}", outcome.record.failures);
    assert!(outcome.record.failures[0].message.contains("undeclared"));
    let steps = steps.into_inner().unwrap();
    assert_eq!(steps.iter().map(|step| (step.0, step.1)).collect::<Vec<_>>(), [(1, 4), (2, 4), (3, 4), (4, 4)]);
    let warned = steps.iter().any(|step| matches!(&step.3, StepResult::Compiled(_, words) if words.contains("unused")));
    assert!(warned, "{steps:?}");
    assert!(
        fs::read_dir(out.join("gfx942")).unwrap().all(|entry| entry
            .unwrap()
            .path()
            .extension()
            .is_some_and(|e| e == "co"))
    );
}

#[test]
fn an_unknown_architecture_is_told_before_anything_is_built() {
    let Some(compiler) = clang() else { return };
    let folder = tempfile::tempdir().unwrap();
    let opened = tree(&folder.path().join("kernels"));
    for (arch, words) in
        [("gfx950", "does not know gfx950; it knows gfx1100, gfx90a, gfx942"), ("gfx906", "no kernel is for gfx906")]
    {
        let archs = [arch.to_owned()];
        let options = Options { compiler: &compiler, archs: &archs, flags: &[], jobs: 1 };
        let error = compile::build(&opened, &folder.path().join("out"), &options, &|_| {}).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    assert!(!folder.path().join("out").exists());
}

#[test]
fn a_folder_of_something_else_is_left_alone() {
    let Some(compiler) = clang() else { return };
    let folder = tempfile::tempdir().unwrap();
    let opened = tree(&folder.path().join("kernels"));
    fs::write(folder.path().join("build.json"), "{\"name\": \"mine\"}").unwrap();
    let archs = ["gfx942".to_owned()];
    let options = Options { compiler: &compiler, archs: &archs, flags: &[], jobs: 1 };
    let error = compile::build(&opened, folder.path(), &options, &|_| {}).unwrap_err();
    assert!(error.to_string().contains("is no record of a build"), "{error}");
    assert_eq!(fs::read_to_string(folder.path().join("build.json")).unwrap(), "{\"name\": \"mine\"}");
}

#[test]
fn zig_gives_the_same_interface_and_knows_gfx950() {
    let Some(compiler) = zig() else { return };
    assert_eq!((compiler.kind, compiler.knows("gfx950")), (Kind::Zig, true));
    let folder = tempfile::tempdir().unwrap();
    let opened = tree(&folder.path().join("kernels"));
    let out = folder.path().join("out");
    let outcome = build(&opened, &out, &compiler, &["gfx942", "gfx950"], &[]);
    assert_eq!((outcome.compiled, outcome.record.failures.len()), (4, 0), "{:?}", outcome.record.failures);
    assert_eq!(outcome.findings, []);
    let info = ObjectInfo::read(&fs::read(out.join("gfx950/scale.co")).unwrap()).unwrap();
    assert_eq!(info.arch, "gfx950");
    if let Some(clang) = clang() {
        let other = folder.path().join("clang");
        build(&opened, &other, &clang, &["gfx942"], &[]);
        let read = |folder: &PathBuf| ObjectInfo::read(&fs::read(folder.join("gfx942/scale.co")).unwrap()).unwrap();
        let (zig, clang) = (read(&out), read(&other));
        assert_eq!(zig.kernels[0].explicit_size(), clang.kernels[0].explicit_size());
        assert_eq!(zig.kernels[0].args.len(), clang.kernels[0].args.len());
    }
}

struct Sizes;

impl Symbols for Sizes {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        (name == "n").then_some(Value::Int(1000))
    }

    fn tensor(&self, name: &str) -> Option<TensorInfo> {
        matches!(name, "x" | "out").then(|| TensorInfo { dims: vec![1000], bits: 32 })
    }
}

/// From the folder to the bytes of a launch: explicit arguments as C lays them out; hidden ones are the runtime's.
#[test]
fn the_argument_bytes_of_a_launch() {
    let Some(compiler) = clang() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    build(&tree(&folder.path().join("kernels")), &out, &compiler, &["gfx942"], &[]);
    let library = Library::open(&out).unwrap();
    let device = DeviceInfo::of_arch("gfx942", 304);
    let dtype = |_: &str| None;
    let case = kbench_kernels::Case { family: "scale", dtype: &dtype, symbols: &Sizes };
    let selection = kbench_kernels::select(library.builds(), &case, &device);
    let (_, build, variant) = selection.chosen.unwrap();
    assert_eq!(build.name, "scale");
    let file = library.builds().next().unwrap().0;
    let planned = plan(file, build, variant, &Sizes, &device).unwrap();
    let bytes = library.code(file, build, "gfx942").unwrap().unwrap().bytes.into_owned();
    let object = ObjectInfo::read(&bytes).unwrap();
    assert_eq!(validate::check_plan(file, build, &planned, &object, &device), []);
    let launch = &planned.launches[0];
    assert_eq!((launch.grid, launch.block), ([4, 1, 1], [256, 1, 1]));
    let kernel = object.kernel(&launch.kernel).unwrap();
    assert_eq!(validate::explicit_size(launch, kernel), 24);
    let addresses = BTreeMap::from([("x".to_owned(), 0x7f00_0000_1000), ("out".to_owned(), 0x7f00_0000_2000)]);
    let image = kernarg::pack(&launch.args, kernel.resources.kernarg_bytes, &addresses).unwrap();
    let mut wanted = Vec::new();
    wanted.extend(0x7f00_0000_2000u64.to_le_bytes());
    wanted.extend(0x7f00_0000_1000u64.to_le_bytes());
    wanted.extend(1000u32.to_le_bytes());
    wanted.extend(0.5f32.to_le_bytes());
    wanted.resize(kernel.resources.kernarg_bytes as usize, 0);
    assert_eq!(image, wanted);
    let missing = kernarg::pack(&launch.args, 24, &BTreeMap::new()).unwrap_err();
    assert!(missing.to_string().contains("no address for `out`"));
}

#[test]
fn why_nothing_runs_a_case() {
    let manifest = kbench_kernels::Manifest::parse("m.toml", MANIFEST).unwrap();
    let builds = || manifest.builds.iter().map(|build| ("m.toml", build));
    let dtype = |_: &str| None;
    let case = kbench_kernels::Case { family: "scale", dtype: &dtype, symbols: &NoSymbols };
    let selection = kbench_kernels::select(builds(), &case, &DeviceInfo::of_arch("gfx1201", 64));
    assert!(selection.chosen.is_none());
    let reasons: Vec<String> = selection.refused.iter().map(|(_, _, refusal)| refusal.to_string()).collect();
    assert_eq!(
        reasons,
        ["for gfx90a, gfx942, gfx950, gfx1100, not gfx1201", "for gfx90a, gfx942, gfx950, not gfx1201"]
    );
}

#[test]
fn the_program_s_objects_come_from_a_compiler_or_are_checked_in() {
    let Some(compiler) = clang() else { return };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("kernels");
    let archs = ["gfx942".to_owned()];
    let none = |_: &str| None::<OsString>;
    let asked = |name: &str| if name == "KBENCH_CLANG" { Some("clang-19".into()) } else { env(name) };
    fs::create_dir_all(&root).unwrap();
    assert!(embed::prepare(&root, &folder.path().join("o1"), &archs, &none).files.is_empty());

    let opened = tree(&root);
    let bare = embed::prepare(&root, &folder.path().join("o1"), &archs, &none);
    assert!(bare.folder.is_none() && !bare.warnings.is_empty());
    let built = embed::prepare(&root, &folder.path().join("o2"), &archs, &asked);
    assert_eq!(built.warnings, Vec::<String>::new());
    assert_eq!(built.files.len(), 4, "{:?}", built.files);

    build(&opened, &root.join("prebuilt"), &compiler, &["gfx942"], &[]);
    let prebuilt = embed::prepare(&root, &folder.path().join("o3"), &archs, &none);
    assert_eq!((prebuilt.folder.as_deref(), prebuilt.warnings.len()), (Some(root.join("prebuilt").as_path()), 0));
    // A compiler that would give what is checked in compiles nothing.
    let before = fs::read(root.join("prebuilt/build.json")).unwrap();
    let same = embed::prepare(&root, &folder.path().join("o4"), &archs, &asked);
    assert_eq!(fs::read(same.folder.unwrap().join("build.json")).unwrap(), before);

    // A source that no longer compiles falls back to what is checked in, with a warning.
    fs::write(root.join("scale/scale.hip"), "not C++\n").unwrap();
    let broken = embed::prepare(&root, &folder.path().join("o5"), &archs, &asked);
    assert!(broken.files.contains(&"gfx942/scale.co".to_owned()), "{broken:?}");
    assert!(broken.warnings.iter().any(|line| line.contains("scale/scale.hip for gfx942")), "{:?}", broken.warnings);
    let stale = embed::prepare(&root, &folder.path().join("o6"), &archs, &none);
    assert!(stale.warnings.iter().any(|line| line.contains("is not what scale/scale.hip gives now")), "{stale:?}");
}

#[test]
fn compilers_that_will_not_do_say_why() {
    let unusable = |asked: &str| Compiler::find(Some(asked.as_ref()), &env).unwrap_err().to_string();
    assert!(unusable("no-such-clang").contains("no such file, also not on PATH"));
    assert!(unusable("true").contains("does not call itself clang"));
    let none = Compiler::find(None, &|_| None).map(|compiler| compiler.path);
    // A machine with ROCm in its usual place has one even so.
    assert!(none.is_err_and(|error| error.to_string().contains("set KBENCH_CLANG")) || Path::new("/opt/rocm").exists());
}
