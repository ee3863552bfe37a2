//! Compiles C for tests. Without a C compiler tests say that they skip; where `CI` is `true` they fail.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `cc` of this machine, or `None` with a line that says so.
pub(crate) fn compiler() -> Option<String> {
    let name = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if Command::new(&name).arg("--version").output().is_ok() {
        return Some(name);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "CI needs a C compiler, and `{name}` is none");
    eprintln!("skipped: no C compiler `{name}`");
    None
}

/// The folder of the C sources.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi")
}

/// Runs the compiler.
pub(crate) fn run(compiler: &str, arguments: &[&str]) -> Output {
    Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(sources())
        .args(arguments)
        .output()
        .expect("the compiler runs")
}

/// Makes a shared library of one of the C sources; `None` without a compiler.
pub(crate) fn shared_library(folder: &Path, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let compiler = compiler()?;
    let library = folder.join(name);
    let source = sources().join(source);
    let mut arguments = vec!["-shared", "-fPIC", "-O1", "-fvisibility=default"];
    arguments.extend(flags);
    arguments.extend(["-o", library.to_str().unwrap(), source.to_str().unwrap()]);
    let output = run(&compiler, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(library)
}
