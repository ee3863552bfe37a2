//! Our declarations against installed HIP headers, read by libclang: every constant, every function's types, sizes and offsets of structs.
//!
//! Runs with `--features bindgen`. Skipped with a line where HIP's headers are not installed, unless `CI=true`.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::OnceLock;

use kbench_hip::sys;

/// Not in the headers of every version from 5.2 to 7.2, so their absence is no difference.
const NOT_IN_ALL: [&str; 8] = [
    "hipEventDisableSystemFence",
    "hipDeviceAttributeWallClockRate",
    "hipDeviceAttributeNumberOfXccs",
    "hipDeviceAttributeMaxAvailableVgprsPerThread",
    "hipDeviceAttributePciChipId",
    // HIP 5 declares the last of these only; from HIP 6 on that is a macro for the second.
    "hipGetDevicePropertiesR0000",
    "hipGetDevicePropertiesR0600",
    "hipGetDeviceProperties",
];

/// What libclang says of the installed headers, as Rust without blanks; nothing when there are none.
fn headers() -> Option<&'static str> {
    static READ: OnceLock<Option<String>> = OnceLock::new();
    READ.get_or_init(read_headers).as_deref()
}

fn read_headers() -> Option<String> {
    let places = ["/opt/rocm/include", "/usr/include"];
    let rocm = std::env::var("ROCM_PATH").map(|path| format!("{path}/include"));
    let include =
        rocm.iter().map(String::as_str).chain(places).find(|dir| Path::new(dir).join("hip/hip_runtime_api.h").exists());
    let Some(include) = include else {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "HIP's headers are required in CI (libamdhip64-dev)");
        eprintln!("skipped: no hip/hip_runtime_api.h in $ROCM_PATH/include, {}", places.join(", "));
        return None;
    };
    // As C++, because `hip_ext.h` has default arguments; what it pulls in only needs a few host words of HIP's compiler.
    let bindings = bindgen::builder()
        .header_contents(
            "all.hpp",
            "#include <hip/hip_runtime_api.h>\n#include <hip/hiprtc.h>\n#include <hip/hip_ext.h>\n",
        )
        .clang_args(["-x", "c++", "-std=c++17", "-D__HIP_PLATFORM_AMD__", "-Wno-everything", "-I", include])
        .allowlist_function("hip.*")
        .allowlist_type("hip.*")
        .allowlist_var("hip.*")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .use_core()
        .formatter(bindgen::Formatter::None)
        .generate()
        .unwrap();
    Some(without_blanks(&bindings.to_string()))
}

fn without_blanks(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// A type in one spelling: without bindgen's paths, names of HIP that stand for one struct, and `const` (versions differ in it, and a call does not).
fn plain(ty: &str) -> String {
    let ty = without_blanks(ty).replace("::core::ffi::", "").replace("*const", "*mut");
    ty.replace("hipDeviceProp_tR0600", "hipDeviceProp_t").replace("hipDeviceProp_tR0000", "hipDeviceProp_t")
}

/// Functions in bindgen's output: name, then the types of parameters and result.
fn functions(bindings: &str) -> HashMap<&str, (Vec<String>, String)> {
    let found = bindings.split("pubfn").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once('(')?;
        let (parameters, rest) = rest.split_once(')')?;
        let result = rest.strip_prefix("->")?.split(';').next()?;
        // `name:type`, where the type's path may begin with colons of its own.
        let types =
            parameters.split(',').filter_map(|parameter| parameter.split_once(':')).map(|(_, ty)| plain(ty)).collect();
        Some((name, (types, plain(result))))
    });
    found.collect()
}

/// The number behind `text` in bindgen's assertions of layouts.
fn layout(bindings: &str, text: &str) -> Option<usize> {
    let (_, rest) = bindings.split_once(&format!("[\"{}\"]", without_blanks(text)))?;
    let (check, _) = rest.split_once("usize]")?;
    check.rsplit_once('-')?.1.parse().ok()
}

#[test]
fn constants_have_the_values_of_the_headers() {
    let Some(bindings) = headers() else { return };
    let value_of = |name: &str| {
        let (_, rest) = bindings.split_once(&format!("pubconst{name}:"))?;
        let (_, rest) = rest.split_once('=')?;
        rest.split(';').next()?.parse::<u64>().ok()
    };
    let mut absent = HashSet::new();
    for &(name, ours) in sys::CONSTANTS {
        match value_of(name) {
            Some(theirs) => assert_eq!(ours, theirs, "{name}"),
            None => _ = absent.insert(name),
        }
    }
    absent.retain(|name| !NOT_IN_ALL.contains(name));
    assert!(absent.is_empty(), "not in the headers: {absent:?}");
}

#[test]
fn functions_have_the_types_of_the_headers() {
    let Some(bindings) = headers() else { return };
    let theirs = functions(bindings);
    let mut absent = HashSet::new();
    for ours in sys::Hip::PROTOTYPES.iter().chain(sys::Hiprtc::PROTOTYPES) {
        let types: Vec<String> = ours.parameters.iter().map(|ty| plain(ty)).collect();
        match theirs.get(ours.name) {
            Some(theirs) => assert_eq!((types, plain(ours.result)), *theirs, "{}", ours.name),
            None => _ = absent.insert(ours.name),
        }
    }
    absent.retain(|name| !NOT_IN_ALL.contains(name));
    assert!(absent.is_empty(), "not in the headers: {absent:?}");
}

#[test]
fn structs_have_the_layout_of_the_headers() {
    let Some(bindings) = headers() else { return };
    let uuid = layout(bindings, "Size of hipUUID_t").or_else(|| layout(bindings, "Size of hipUUID"));
    assert_eq!(uuid, Some(size_of::<sys::hipUUID>()));
    let of_version_6 = layout(bindings, "Size of hipDeviceProp_tR0600");
    let (size, offset, name) = if of_version_6.is_some() {
        let offset = std::mem::offset_of!(sys::hipDeviceProp_tR0600, gcnArchName);
        (size_of::<sys::hipDeviceProp_tR0600>(), offset, "hipDeviceProp_tR0600")
    } else {
        let offset = std::mem::offset_of!(sys::hipDeviceProp_tR0000, gcnArchName);
        (size_of::<sys::hipDeviceProp_tR0000>(), offset, "hipDeviceProp_t")
    };
    assert_eq!(layout(bindings, &format!("Size of {name}")), Some(size));
    assert_eq!(layout(bindings, &format!("Offset of field: {name}::name")), Some(0));
    assert_eq!(layout(bindings, &format!("Offset of field: {name}::gcnArchName")), Some(offset));
}
