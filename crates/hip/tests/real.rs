//! The real library, as far as it goes without a GPU: Debian's libamdhip64-5. Skipped with a line where none is installed, unless `CI=true`.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use kbench_hip::{Compiler, HipError, Runtime};

/// What was opened, or nothing (said on standard error) when the machine has none.
fn required<T>(what: &str, opened: Result<T, HipError>) -> Option<T> {
    match opened {
        Ok(found) => Some(found),
        Err(error) => {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{what} is required in CI: {error}");
            eprintln!("skipped: no {what}: {error}");
            None
        }
    }
}

#[test]
fn the_library_opens_and_tells_its_version() {
    let Some(runtime) = required("HIP", Runtime::open()) else { return };
    let file = runtime.library();
    assert!(file.is_absolute() && file.exists(), "the file behind the name: {}", file.display());
    let version = runtime.runtime_version().unwrap();
    assert!((5..=9).contains(&version.major()), "{version}");
    // The file's own name ends in its version: libamdhip64.so.5.2.21153.
    let name = file.to_string_lossy().into_owned();
    if let Some((_, suffix)) = name.split_once(".so.").filter(|(_, suffix)| suffix.matches('.').count() == 2) {
        assert_eq!(version.to_string(), suffix);
    }
    assert!(runtime.extension(c"hipMalloc").is_some());
    assert!(runtime.extension(c"hipNoSuchFunction").is_none());
    assert!(runtime.has_launch_timed(), "HIP 5 has it under its C++ name, later ones under both");
}

#[test]
fn without_a_gpu_there_is_a_clear_error() {
    if Path::new("/dev/kfd").exists() {
        eprintln!("skipped: this machine has a GPU");
        return;
    }
    let Some(runtime) = required("HIP", Runtime::open()) else { return };
    for error in [runtime.init().unwrap_err(), runtime.device_count().unwrap_err(), runtime.device(0).unwrap_err()] {
        assert!(error.no_device(), "{error}");
        let text = error.to_string();
        assert!(
            ["hipInit failed: hipErrorNoDevice (100)", "hipGetDeviceCount failed: hipErrorNoDevice (100)"]
                .iter()
                .any(|start| text.starts_with(start))
        );
    }
}

#[test]
fn another_library_is_not_taken_for_hip() {
    let error = Runtime::open_file(Path::new("libc.so.6")).unwrap_err();
    assert!(error.to_string().contains("libc.so.6 (it has no function hipInit)"), "{error}");
    let error = Runtime::open_file(Path::new("/nonexistent/libamdhip64.so")).unwrap_err();
    assert!(error.to_string().contains("/nonexistent/libamdhip64.so (cannot open"), "{error}");
}

#[test]
fn hiprtc_compiles_without_a_gpu() {
    let Some(compiler) = required("hiprtc", Compiler::open()) else { return };
    let (major, minor) = compiler.version().unwrap();
    assert!(major > 0 || minor > 0);
    let source = "extern \"C\" __global__ void scale(float* x, float a) { x[threadIdx.x] *= a; }";
    let compiled = compiler.compile(source, "scale.hip", &["--offload-arch=gfx90a", "-O3"]).unwrap();
    assert!(compiled.code.starts_with(b"\x7fELF"), "{:x?}", &compiled.code.get(..16));
    // The machine of an AMDGPU object and the flags of gfx90a (0x3f), from LLVM's AMDGPU documentation.
    assert_eq!(compiled.code[18..20], 224_u16.to_le_bytes());
    assert_eq!(compiled.code[48], 0x3f);
}

#[test]
fn hiprtc_says_what_is_wrong_with_a_source() {
    let Some(compiler) = required("hiprtc", Compiler::open()) else { return };
    let error = compiler.compile("__global__ void k() { nonsense; }", "k.hip", &["--offload-arch=gfx90a"]).unwrap_err();
    let HipError::Compile { program, code, log, .. } = &error else { panic!("{error}") };
    assert_eq!((&**program, *code), ("k.hip", 6));
    assert!(log.contains("nonsense"), "{log}");
}
