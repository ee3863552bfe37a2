//! What the program's own build script does: code objects for the program, compiled here or checked in.

use crate::compile::{self, Compiler, Options};
use crate::record::{self, BuildRecord, ObjectRecord};
use crate::tree::{KernelTree, TreeError};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folder of checked-in code objects below the kernel folder.
pub const PREBUILT: &str = "prebuilt";
/// Architectures that are compiled for when nothing else is asked.
pub const DEFAULT_ARCHS: &[&str] = &["gfx942"];

/// What goes into the program.
#[derive(Clone, Debug, Default)]
pub struct Embedded {
    /// The build folder that it is taken from; none when there is nothing.
    pub folder: Option<PathBuf>,
    /// Its files, relative to it.
    pub files: Vec<String>,
    /// What whoever builds the program should know, one line each.
    pub warnings: Vec<String>,
}

/// Makes the code objects of the program in `out` and says what to embed. Nothing that goes wrong with a kernel is an
/// error: the checked-in object stands in, and a warning says so.
///
/// `archs` are those to compile for. `env` gives environment variables (for the search of a compiler).
pub fn prepare(root: &Path, out: &Path, archs: &[String], env: &dyn Fn(&str) -> Option<OsString>) -> Embedded {
    let mut warnings = Vec::new();
    let prebuilt = root.join(PREBUILT);
    let tree = match KernelTree::open(root) {
        Ok(tree) => tree,
        Err(TreeError::Empty(_)) => return Embedded::default(),
        Err(error) => {
            warnings.push(format!("kernels: {}; the checked-in code objects are used", chain(&error)));
            return of_folder(&prebuilt, warnings);
        }
    };
    let compiler = match Compiler::find(None, env) {
        Ok(compiler) => compiler,
        Err(compile::CompilerError::None { .. }) => {
            warnings.extend(compile::stale(&tree, &prebuilt));
            return of_folder(&prebuilt, warnings);
        }
        Err(error) => {
            warnings.push(format!("kernels: {error}; the checked-in code objects are used"));
            warnings.extend(compile::stale(&tree, &prebuilt));
            return of_folder(&prebuilt, warnings);
        }
    };
    let known: Vec<String> = archs.iter().filter(|arch| compiler.knows(arch)).cloned().collect();
    for arch in archs.iter().filter(|arch| !known.contains(arch)) {
        warnings.push(format!("kernels: {} does not know {arch}", compiler.version));
    }
    // Checked-in objects that this compiler would give are taken as they are.
    if !out.join(record::FILE).exists()
        && let Err(error) = copy(&prebuilt, out)
    {
        warnings.push(format!("kernels: {error}"));
    }
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options { compiler: &compiler, archs: &known, flags: &[], jobs };
    match compile::build(&tree, out, &options, &|_| {}) {
        Ok(outcome) => {
            for failure in &outcome.record.failures {
                let words = failure.message.lines().find(|line| line.contains("error")).unwrap_or(&failure.message);
                warnings.push(format!("kernels: {} for {}: {words}", failure.source, failure.arch));
            }
            warnings.extend(outcome.findings.iter().map(|finding| format!("kernels: {finding}")));
            if let Err(error) = fill(out, &prebuilt, outcome.record) {
                warnings.push(format!("kernels: {error}"));
            }
            of_folder(out, warnings)
        }
        Err(error) => {
            warnings.push(format!("kernels: {}; the checked-in code objects are used", chain(&error)));
            of_folder(&prebuilt, warnings)
        }
    }
}

/// The source text of a table of the files: `&[("name", include_bytes!("path")), ...]`.
pub fn table(embedded: &Embedded) -> String {
    let mut text = String::from("&[\n");
    for file in &embedded.files {
        let path = embedded.folder.as_deref().unwrap_or(Path::new("")).join(file);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    ({file:?}, include_bytes!({:?})),", path.display().to_string());
    }
    text.push_str("]\n");
    text
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text.replace('\n', " ")
}

fn read_record(folder: &Path) -> Option<BuildRecord> {
    BuildRecord::parse(&fs::read_to_string(folder.join(record::FILE)).ok()?).ok()
}

fn of_folder(folder: &Path, mut warnings: Vec<String>) -> Embedded {
    let Some(record) = read_record(folder) else {
        warnings.push("kernels: there are neither a device compiler nor checked-in code objects".to_owned());
        return Embedded { warnings, ..Embedded::default() };
    };
    let mut files = vec![record::FILE.to_owned()];
    files.extend(record.manifests.into_iter().map(|manifest| manifest.file));
    files.extend(record.objects.into_iter().map(|object| object.file));
    Embedded { folder: Some(folder.to_owned()), files, warnings }
}

/// Copies a build folder; nothing when there is none.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let embedded = of_folder(from, Vec::new());
    for file in &embedded.files {
        let target = to.join(file);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(from.join(file), target)?;
    }
    Ok(())
}

/// Takes checked-in objects for those that could not be compiled, where their builds are the same.
fn fill(out: &Path, prebuilt: &Path, mut record: BuildRecord) -> io::Result<()> {
    let Some(checked_in) = read_record(prebuilt) else { return Ok(()) };
    let wanted = |object: &&ObjectRecord| {
        let failed =
            record.failures.iter().any(|failure| failure.source == object.source && failure.arch == object.arch);
        failed && !record.objects.iter().any(|built| built.file == object.file)
    };
    let taken: Vec<ObjectRecord> = checked_in.objects.iter().filter(wanted).cloned().collect();
    if taken.is_empty() {
        return Ok(());
    }
    for object in &taken {
        fs::copy(prebuilt.join(&object.file), out.join(&object.file))?;
    }
    record.objects.extend(taken);
    record.objects.sort_by(|a, b| a.file.cmp(&b.file));
    fs::write(out.join(record::FILE), record.text()?)
}

/// The kernel folder's sources, headers and manifests (no descriptors, no code objects): with them the program can build
/// kernels where there is no checkout.
pub fn sources(root: &Path) -> Embedded {
    let mut files = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(root.join(&folder)) else { continue };
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if entry.path().is_dir() {
                if path != PREBUILT && path != "descriptors" && !name.starts_with('.') {
                    folders.push(path);
                }
            } else if [".hip", ".h", ".toml"].iter().any(|ending| name.ends_with(ending)) {
                files.push(path);
            }
        }
    }
    files.sort();
    Embedded { folder: Some(root.to_owned()), files, warnings: Vec::new() }
}
