//! Records the commit that kbench is built from, and puts the kernels into the program: compiled when a device compiler is
//! there, else the checked-in code objects.
//!
//! `KBENCH_BUILD_ARCHS=gfx942,gfx90a` says for which architectures to compile; `KBENCH_CLANG` names a compiler.

use kbench_kernels::embed;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    commit();
    kernels();
    println!("cargo::rerun-if-changed=build.rs");
}

fn commit() {
    // A source archive has no git; the version then stands alone.
    let commit = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned());
    println!("cargo::rustc-env=KBENCH_COMMIT={commit}");
    for path in [".git/HEAD", ".git/logs/HEAD"] {
        if Path::new(path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

#[allow(clippy::expect_used)]
fn kernels() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("kernels");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let archs = env::var("KBENCH_BUILD_ARCHS").unwrap_or_else(|_| embed::DEFAULT_ARCHS.join(","));
    let archs: Vec<String> =
        archs.split(',').map(str::trim).filter(|arch| !arch.is_empty()).map(str::to_owned).collect();
    let embedded = embed::prepare(&root, &out.join("kernels"), &archs, &|name| env::var_os(name));
    for warning in &embedded.warnings {
        println!("cargo::warning={warning}");
    }
    let objects = embed::table(&embedded);
    let sources = embed::table(&embed::sources(&root));
    fs::write(out.join("kernels.objects.rs"), objects).expect("OUT_DIR can be written");
    fs::write(out.join("kernels.sources.rs"), sources).expect("OUT_DIR can be written");
    println!("cargo::rerun-if-changed=kernels");
    for name in ["KBENCH_BUILD_ARCHS", "KBENCH_CLANG", "ROCM_PATH"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
}
