//! The last resort for a GPU that there is no build for: the program's own source of a kernel, compiled by hiprtc.

use crate::kernels;
use kbench_hip::Compiler;
use kbench_kernels::source;
use kbench_kernels::tree::{KernelTree, Unit};

/// A code object that hiprtc made.
#[derive(Debug)]
pub(super) struct Compiled {
    pub(super) bytes: Vec<u8>,
    /// What made it, for results.
    pub(super) file: String,
}

/// Compiles the source of one of the program's own builds for an architecture (`gfx942:sramecc+:xnack-`).
///
/// # Errors
/// A sentence: no such source, or the compiler's words.
pub(super) fn compile(compiler: &Compiler, build: &str, arch: &str) -> Result<Compiled, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("there is no temporary folder: {error}"))?;
    kernels::write_sources(folder.path()).map_err(|error| format!("the sources could not be written: {error}"))?;
    let tree = KernelTree::open(folder.path()).map_err(|error| error.to_string())?;
    let units = tree.units().map_err(|error| error.to_string())?;
    let unit = units.iter().find(|unit| has(unit, build)).ok_or_else(|| format!("no source makes `{build}`"))?;
    let defines: String = unit.defines.iter().map(|(name, value)| format!("#define {name} {value}\n")).collect();
    let text = source::single(&tree.root, &unit.source).map_err(|error| error.to_string())?;
    let target = format!("--offload-arch={arch}");
    let options = [target.as_str(), "-O3", "-std=c++17"];
    let compiled = compiler.compile(&(defines + &text), &unit.source, &options).map_err(|error| error.to_string())?;
    let file = format!("{} compiled by {}", unit.source, compiler.library().display());
    Ok(Compiled { bytes: compiled.code, file })
}

fn has(unit: &Unit, build: &str) -> bool {
    unit.builds.iter().any(|(_, name)| name == build)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kbench_kernels::ObjectInfo;

    /// The system's hiprtc; `None` (and a line) without one.
    fn compiler() -> Option<Compiler> {
        let opened = Compiler::open();
        if let Err(reason) = &opened {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "hiprtc is needed in CI: {reason}");
            eprintln!("skipped: {reason}");
        }
        opened.ok()
    }

    /// Debian's HIP 5.2 carries a hiprtc that compiles for gfx90a without a GPU.
    #[test]
    fn a_build_is_compiled_for_an_architecture_that_the_program_has_none_for() {
        let Some(compiler) = compiler() else { return };
        let compiled = compile(&compiler, "rmsnorm_bf16", "gfx90a").unwrap();
        let info = ObjectInfo::read(&compiled.bytes).unwrap();
        assert_eq!(info.arch, "gfx90a");
        assert!(info.kernel("kb_rmsnorm_bf16_v1").is_some());
        assert!(compiled.file.contains("rmsnorm/rmsnorm.hip"), "{}", compiled.file);
    }

    #[test]
    fn a_build_that_is_not_ours_is_an_error() {
        let Some(compiler) = compiler() else { return };
        assert!(compile(&compiler, "nobodys", "gfx90a").unwrap_err().contains("nobodys"));
    }
}
