//! Device compilers: finding one, asking what it can do, the commands that it is run with.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The oldest upstream clang that is taken.
const OLDEST_CLANG: u32 = 19;
/// The oldest of AMD's own builds of clang (ROCm 6.0) that is taken.
const OLDEST_AMD_CLANG: u32 = 17;

/// How a compiler makes a code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One driver command that also links (clang, amdclang++, hipcc).
    Driver,
    /// Three commands of one `zig` executable: HIP to LLVM IR, IR to an object, the link. Its driver cannot run the
    /// linker for this target itself.
    Zig,
}

impl Kind {
    /// Name in a build's record.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Driver => "driver",
            Kind::Zig => "zig",
        }
    }
}

/// A device compiler that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    /// The executable.
    pub path: PathBuf,
    /// How it is used.
    pub kind: Kind,
    /// The first line of its `--version`.
    pub version: String,
    /// The processors it knows for the AMDGPU target, sorted.
    pub archs: Vec<String>,
}

/// No usable compiler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompilerError {
    /// The one that was asked for does not do.
    #[error("the device compiler {path} cannot be used: {reason}")]
    Unusable {
        /// It.
        path: String,
        /// Why.
        reason: String,
    },
    /// None was found.
    #[error(
        "there is no device compiler; tried {}. Install clang {OLDEST_CLANG} or later with lld, or set KBENCH_CLANG to one",
        tried.join(", ")
    )]
    None {
        /// What was tried, with why it was not taken.
        tried: Vec<String>,
    },
}

impl Compiler {
    /// Finds a compiler: the one asked for (a path, a name, or `zig:` before the path of a zig executable), else
    /// `$KBENCH_CLANG`, `$ROCM_PATH/llvm/bin`, `/opt/rocm/llvm/bin`, `amdclang++`, `hipcc`, `clang-22` to `clang-19`,
    /// `clang`. `env` gives environment variables.
    ///
    /// # Errors
    /// When the one asked for, or named by the environment, cannot be used; or when there is none.
    pub fn find(asked: Option<&OsStr>, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, CompilerError> {
        let named = asked.map(OsStr::to_owned).or_else(|| env("KBENCH_CLANG").filter(|value| !value.is_empty()));
        if let Some(named) = named {
            return Self::named(&named, env);
        }
        let mut tried = Vec::new();
        for candidate in candidates(env) {
            let Some(path) = resolve(candidate.as_os_str(), env) else { continue };
            match Self::probe(&path, Kind::Driver) {
                Ok(compiler) => return Ok(compiler),
                Err(reason) => tried.push(format!("{} ({reason})", path.display())),
            }
        }
        if tried.is_empty() {
            tried.push("amdclang++, hipcc and clang in ROCm's folder and on PATH".to_owned());
        }
        Err(CompilerError::None { tried })
    }

    fn named(named: &OsStr, env: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, CompilerError> {
        let text = named.to_string_lossy();
        let (name, kind) = match text.strip_prefix("zig:") {
            Some(path) => (OsString::from(path), Kind::Zig),
            None => (named.to_owned(), kind_of(Path::new(named))),
        };
        let unusable = |reason: String| CompilerError::Unusable { path: name.to_string_lossy().into_owned(), reason };
        let path = resolve(&name, env).ok_or_else(|| unusable("there is no such file, also not on PATH".to_owned()))?;
        Self::probe(&path, kind).map_err(unusable)
    }

    /// Asks an executable what it is.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn probe(path: &Path, kind: Kind) -> Result<Self, String> {
        let run = |args: &[&str]| -> Result<String, String> {
            let mut command = Command::new(path);
            if kind == Kind::Zig {
                command.arg("clang");
            }
            let output = command.args(args).output().map_err(|error| format!("it could not be run: {error}"))?;
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.push_str(&String::from_utf8_lossy(&output.stderr));
            if output.status.success() { Ok(text) } else { Err(format!("{} failed", args.join(" "))) }
        };
        let version = run(&["--version"])?;
        // hipcc prints HIP's version first.
        let line = version.lines().find(|line| line.contains("clang version "));
        let Some(line) = line else { return Err("it does not call itself clang".to_owned()) };
        let (vendor, number) = line.split_once("clang version ").unwrap_or_default();
        let major: u32 = number.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        let oldest = if vendor.contains("AMD") { OLDEST_AMD_CLANG } else { OLDEST_CLANG };
        if major < oldest {
            return Err(format!("it is clang {major}; {oldest} or later is needed"));
        }
        let cpus = run(&["--target=amdgcn-amd-amdhsa", "-nogpulib", "--print-supported-cpus"])
            .map_err(|_| "it has no AMDGPU target".to_owned())?;
        let mut archs: Vec<String> =
            cpus.split_whitespace().filter(|word| word.starts_with("gfx")).map(str::to_owned).collect();
        archs.sort();
        archs.dedup();
        if archs.is_empty() {
            return Err("it has no AMDGPU target".to_owned());
        }
        Ok(Self { path: path.to_owned(), kind, version: line.trim().to_owned(), archs })
    }

    /// True when it can compile for an architecture.
    pub fn knows(&self, arch: &str) -> bool {
        self.archs.iter().any(|known| known == arch)
    }

    /// Compiles one source to a code object. `root` is the kernel folder, `source` and all include paths are relative to
    /// it, so that no path of the machine gets into the object; `work` is a folder for what lies between.
    ///
    /// # Errors
    /// The compiler's words.
    pub fn compile(
        &self,
        root: &Path,
        source: &str,
        arch: &str,
        flags: &[String],
        output: &Path,
        work: &Path,
    ) -> Result<String, CompileFailure> {
        let mut words = String::new();
        let mut run = |mut command: Command| -> Result<(), CompileFailure> {
            command.current_dir(root);
            let Output { status, stdout, stderr } = command
                .output()
                .map_err(|error| CompileFailure { command: shown(&command), words: error.to_string() })?;
            words.push_str(&String::from_utf8_lossy(&stdout));
            words.push_str(&String::from_utf8_lossy(&stderr));
            if status.success() {
                return Ok(());
            }
            let words = if words.trim().is_empty() { status.to_string() } else { words.clone() };
            Err(CompileFailure { command: shown(&command), words })
        };
        match self.kind {
            Kind::Driver => {
                let mut command = Command::new(&self.path);
                command.args(front_end(arch)).args(flags);
                command.arg("--no-gpu-bundle-output").arg("-o").arg(output).arg(source);
                run(command)?;
            }
            Kind::Zig => {
                let (ir, object) = (work.join("unit.ll"), work.join("unit.o"));
                let mut command = Command::new(&self.path);
                command.arg("clang").args(front_end(arch)).args(flags);
                command.args(["-S", "-emit-llvm", "-o"]).arg(&ir).arg(source);
                run(command)?;
                let mut command = Command::new(&self.path);
                command.args(["clang", "--target=amdgcn-amd-amdhsa", "-nogpulib", "-mcode-object-version=5"]);
                command.arg(format!("-mcpu={arch}")).arg(optimisation(flags));
                command.args(["-x", "ir", "-c", "-o"]).arg(&object).arg(&ir);
                run(command)?;
                let mut command = Command::new(&self.path);
                command.args(["ld.lld", "--no-undefined", "-shared", "-o"]).arg(output).arg(&object);
                run(command)?;
            }
        }
        Ok(words)
    }
}

/// A compiler's refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{words}\n  command: {command}")]
pub struct CompileFailure {
    /// The command line.
    pub command: String,
    /// What it said.
    pub words: String,
}

/// What every compilation has: device code only, no headers or libraries of ROCm, code object v5, no identifier derived
/// from paths in the object.
fn front_end(arch: &str) -> Vec<String> {
    let mut args: Vec<String> = ["-x", "hip", "--cuda-device-only"].map(str::to_owned).to_vec();
    args.push(format!("--offload-arch={arch}"));
    args.extend(
        ["-nogpuinc", "-nogpulib", "-mcode-object-version=5", "-fuse-cuid=none", "-Iinclude"].map(str::to_owned),
    );
    args
}

fn optimisation(flags: &[String]) -> &str {
    flags.iter().rev().find(|flag| flag.starts_with("-O")).map_or("-O3", String::as_str)
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn kind_of(path: &Path) -> Kind {
    let name = path.file_stem().and_then(OsStr::to_str).unwrap_or_default();
    if name == "zig" || name.starts_with("zig-") { Kind::Zig } else { Kind::Driver }
}

fn candidates(env: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut candidates = Vec::new();
    let folders = [env("ROCM_PATH").map(PathBuf::from), Some(PathBuf::from("/opt/rocm"))];
    for folder in folders.into_iter().flatten() {
        let bin = folder.join("llvm/bin");
        candidates.extend(["amdclang++", "clang++", "clang"].map(|name| bin.join(name)));
    }
    let names = ["amdclang++", "hipcc", "clang-22", "clang-21", "clang-20", "clang-19", "clang"];
    candidates.extend(names.map(PathBuf::from));
    candidates
}

/// A path as it is, a bare name on PATH.
fn resolve(name: &OsStr, env: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = Path::new(name);
    if path.components().count() > 1 {
        return path.is_file().then(|| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    }
    let folders = env("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|path| path.is_file())
}
