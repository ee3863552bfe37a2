//! This project's kernels: manifests fit sources, prebuilt code objects are what the sources give, no spills, and a
//! run-time compiler takes them too.
#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{has_tool, kernels};
use kbench_kernels::compile::{self, Compiler, Options};
use kbench_kernels::record::BuildRecord;
use kbench_kernels::tree::KernelTree;
use kbench_kernels::{Library, source};
use std::ffi::OsString;
use std::fs;

fn env(name: &str) -> Option<OsString> {
    if name == "PATH" { std::env::var_os("PATH") } else { None }
}

/// The checked-in objects are those of the sources beside them, byte for byte. Refresh them with
/// `kbench build --arch gfx942 --compiler clang-19 -o kernels/prebuilt`.
#[test]
fn prebuilt_objects_are_what_the_sources_give() {
    let tree = KernelTree::open(&kernels()).unwrap();
    let prebuilt = kernels().join("prebuilt");
    assert_eq!(compile::stale(&tree, &prebuilt), Vec::<String>::new());
    let library = Library::open(&prebuilt).unwrap();
    for (file, build) in library.builds() {
        if build.targets.contains(&"gfx942".to_owned()) {
            assert!(library.code(file, build, "gfx942").unwrap().is_some(), "{file}: {}", build.name);
        }
    }
    if !has_tool("clang-19") || !has_tool("ld.lld-19") {
        return;
    }
    let compiler = Compiler::find(Some("clang-19".as_ref()), &env).unwrap();
    let recorded = BuildRecord::parse(&fs::read_to_string(prebuilt.join("build.json")).unwrap()).unwrap();
    if recorded.objects.iter().any(|object| object.compiler.version != compiler.version) {
        eprintln!("skipped: the checked-in objects are of {}", recorded.objects[0].compiler.version);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let archs = ["gfx942".to_owned()];
    let options = Options { compiler: &compiler, archs: &archs, flags: &[], jobs: 2 };
    let outcome = compile::build(&tree, folder.path(), &options, &|_| {}).unwrap();
    assert_eq!(outcome.record.failures, []);
    assert_eq!(outcome.findings, []);
    for object in &outcome.record.objects {
        let (new, old) = (fs::read(folder.path().join(&object.file)), fs::read(prebuilt.join(&object.file)));
        assert!(new.unwrap() == old.unwrap(), "{} differs", object.file);
        for kernel in &object.kernels {
            assert_eq!((kernel.spills, kernel.scratch_bytes), (0, 0), "{}: {}", object.file, kernel.name);
        }
    }
    let files = |record: &BuildRecord| record.objects.iter().map(|object| object.file.clone()).collect::<Vec<_>>();
    assert_eq!(files(&outcome.record), files(&recorded));
}

/// Debian's HIP 5.2 carries hiprtc and compiles for gfx90a without a GPU; newer ones have a library of its own.
mod hiprtc {
    use std::ffi::{CString, c_char, c_int, c_void};

    type Program = *mut c_void;

    /// Compiles one source text; the code object, or the compiler's words.
    ///
    /// The library stays loaded: HIP's does not unload cleanly.
    #[allow(unsafe_code)]
    pub(super) fn compile(source: &str, arch: &str) -> Option<Result<Vec<u8>, String>> {
        let names = ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so", "libamdhip64.so.5"];
        // SAFETY: these libraries' initialisers have no requirements of their own.
        let library = names.into_iter().find_map(|name| unsafe { libloading::Library::new(name) }.ok())?;
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        let source = CString::new(source).unwrap();
        let options: Vec<CString> = [format!("--offload-arch={arch}"), "-O3".into(), "-std=c++17".into()]
            .map(|o| CString::new(o).unwrap())
            .into();
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the signatures are hiprtc's of ROCm 5 to 7 (hiprtc.h); pointers live through the calls, sizes are those
        // that the library gives.
        unsafe {
            let create: libloading::Symbol<
                '_,
                unsafe extern "C" fn(
                    *mut Program,
                    *const c_char,
                    *const c_char,
                    c_int,
                    *const *const c_char,
                    *const *const c_char,
                ) -> c_int,
            > = library.get(b"hiprtcCreateProgram").ok()?;
            let compile: libloading::Symbol<'_, unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int> =
                library.get(b"hiprtcCompileProgram").ok()?;
            let size_of = |name: &[u8], program: Program| -> usize {
                let get: libloading::Symbol<'_, unsafe extern "C" fn(Program, *mut usize) -> c_int> =
                    library.get(name).unwrap();
                let mut size = 0usize;
                assert_eq!(get(program, &mut size), 0);
                size
            };
            let bytes_of = |name: &[u8], program: Program, size: usize| -> Vec<u8> {
                let get: libloading::Symbol<'_, unsafe extern "C" fn(Program, *mut c_char) -> c_int> =
                    library.get(name).unwrap();
                let mut bytes = vec![0u8; size];
                assert_eq!(get(program, bytes.as_mut_ptr().cast()), 0);
                bytes
            };
            let mut program: Program = std::ptr::null_mut();
            let name = c"kernels.hip";
            let (none, no_names) = (std::ptr::null(), std::ptr::null());
            assert_eq!(create(&mut program, source.as_ptr(), name.as_ptr(), 0, none, no_names), 0);
            let code = compile(program, options.len() as c_int, options.as_ptr());
            if code != 0 {
                let size = size_of(b"hiprtcGetProgramLogSize", program);
                let log = bytes_of(b"hiprtcGetProgramLog", program, size);
                return Some(Err(format!("{code}: {}", String::from_utf8_lossy(&log))));
            }
            let size = size_of(b"hiprtcGetCodeSize", program);
            Some(Ok(bytes_of(b"hiprtcGetCode", program, size)))
        }
    }
}

#[test]
fn hiprtc_compiles_every_source() {
    let tree = KernelTree::open(&kernels()).unwrap();
    let mut compiled = 0;
    for unit in tree.units().unwrap() {
        if !unit.targets.contains(&"gfx90a".to_owned()) {
            continue;
        }
        let defines: String = unit.defines.iter().map(|(name, value)| format!("#define {name} {value}\n")).collect();
        let text = defines + &source::single(&tree.root, &unit.source).unwrap();
        match hiprtc::compile(&text, "gfx90a") {
            None => {
                assert!(std::env::var("CI").as_deref() != Ok("true"), "hiprtc is needed in CI");
                eprintln!("skipped: there is no hiprtc");
                return;
            }
            Some(Err(words)) => panic!("{}: {words}", unit.source),
            Some(Ok(bytes)) => {
                let images = kbench_code_object::load(bytes).unwrap();
                let object = images.iter().find_map(|image| image.code_object().ok()).unwrap();
                assert_eq!(object.arch().name(), "gfx90a");
                assert!(!object.kernels().is_empty(), "{}", unit.source);
                compiled += 1;
            }
        }
    }
    assert!(compiled > 0);
}
