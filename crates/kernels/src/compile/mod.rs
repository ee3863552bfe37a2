//! From a kernel folder to a build folder: in parallel, and only what changed.

mod compiler;

pub use compiler::{CompileFailure, Compiler, CompilerError, Kind};

use crate::object::ObjectInfo;
use crate::record::{self, BuildRecord, CompilerRecord, FailureRecord, ManifestRecord, ObjectRecord};
use crate::source::{self, SourceFile};
use crate::tree::{KernelTree, TreeError, Unit};
use crate::validate::{self, Finding};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Flags of every compilation, before those of the user.
pub const FLAGS: &[&str] = &["-O3", "-std=c++17", "-Wall", "-Wextra"];
/// Folder of a build folder with copies of the manifests.
const MANIFESTS: &str = "manifests";

/// What to build.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The compiler.
    pub compiler: &'a Compiler,
    /// Architectures.
    pub archs: &'a [String],
    /// Flags behind [`FLAGS`].
    pub flags: &'a [String],
    /// Compilations at the same time, at least 1.
    pub jobs: usize,
}

/// One code object done, for progress.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// How many are done, this one included.
    pub done: usize,
    /// How many there are.
    pub total: usize,
    /// Object file, relative to the build folder.
    pub file: &'a str,
    /// What became of it.
    pub result: &'a StepResult,
}

/// What became of a code object.
#[derive(Clone, Debug)]
pub enum StepResult {
    /// It was there and nothing changed.
    Reused,
    /// Compiled, in this time; with the compiler's warnings.
    Compiled(Duration, String),
    /// Not compiled; the compiler's words.
    Failed(String),
}

/// What was built.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The record, as written.
    pub record: BuildRecord,
    /// Code objects compiled now.
    pub compiled: usize,
    /// Code objects that were there.
    pub reused: usize,
    /// Manifests that do not fit the kernels.
    pub findings: Vec<Finding>,
}

/// A build that cannot be done at all. Sources that do not compile are in the record instead.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The kernel folder.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A source.
    #[error(transparent)]
    Source(#[from] source::SourceError),
    /// The compiler does not know an architecture.
    #[error("{compiler} ({version}) does not know {arch}; it knows {known}")]
    Arch {
        /// The compiler.
        compiler: String,
        /// Its version.
        version: String,
        /// The architecture.
        arch: String,
        /// Those it knows, those of GPUs that kbench has kernels for.
        known: String,
    },
    /// No kernel is for an architecture.
    #[error("no kernel is for {arch}; there are kernels for {known}")]
    NoTarget {
        /// The architecture.
        arch: String,
        /// Those that there are kernels for.
        known: String,
    },
    /// A file cannot be written or read.
    #[error("{path} could not be written or read")]
    Io {
        /// It.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The folder holds something else.
    #[error("{path} is no record of a build ({reason}); choose another folder or remove it")]
    Record {
        /// The record's file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> BuildError {
    let path = path.to_owned();
    move |source| BuildError::Io { path, source }
}

/// SHA-256 as hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A compilation to do or to reuse.
struct Task<'a> {
    unit: &'a Unit,
    arch: String,
    file: String,
    flags: Vec<String>,
    inputs: String,
}

/// Builds the code objects of a kernel folder into a build folder, which is made, or brought up to date: what has not
/// changed is kept, objects of other architectures as well; what no source gives any more is removed.
///
/// # Errors
/// When an architecture cannot be built for, or a file cannot be read or written.
pub fn build(
    tree: &KernelTree,
    out: &Path,
    options: &Options<'_>,
    progress: &(dyn Fn(&Step<'_>) + Sync),
) -> Result<Outcome, BuildError> {
    let units = tree.units()?;
    check_archs(&units, options)?;
    let out = std::path::absolute(out).map_err(at(out))?;
    let before = previous(&out)?;
    let sources = sources(&tree.root, &units)?;
    let mut tasks = Vec::new();
    for unit in &units {
        for arch in options.archs.iter().filter(|arch| unit.targets.contains(arch)) {
            let flags: Vec<String> =
                FLAGS.iter().map(|flag| (*flag).to_owned()).chain(options.flags.iter().cloned()).collect();
            let inputs = inputs(&sources[&unit.source], unit, arch, &flags, &options.compiler.record());
            let file = format!("{arch}/{}.co", unit.name);
            tasks.push(Task { unit, arch: arch.clone(), file, flags, inputs });
        }
    }
    for arch in options.archs {
        let folder = out.join(arch);
        fs::create_dir_all(&folder).map_err(at(&folder))?;
    }
    let mut results = run(tree, &out, options, &tasks, &before, progress)?;
    let mut kept = keep_others(&out, &before, options, &units, &sources);
    let mut record = BuildRecord::empty();
    let (mut compiled, mut reused) = (0, 0);
    for (task, result) in tasks.iter().zip(&mut results) {
        match result.take() {
            Some(Done::Object(object, fresh)) => {
                if fresh {
                    compiled += 1
                } else {
                    reused += 1
                }
                record.objects.push(*object);
            }
            Some(Done::Failed(message)) => {
                let (source, arch) = (task.unit.source.clone(), task.arch.clone());
                record.failures.push(FailureRecord { source, arch, message });
            }
            None => {}
        }
    }
    record.objects.append(&mut kept);
    record.objects.sort_by(|a, b| a.file.cmp(&b.file));
    let findings = check(tree, &out, &record)?;
    write(tree, &out, &mut record, &before)?;
    Ok(Outcome { record, compiled, reused, findings })
}

fn check_archs(units: &[Unit], options: &Options<'_>) -> Result<(), BuildError> {
    let mut known: Vec<&str> = units.iter().flat_map(|unit| &unit.targets).map(String::as_str).collect();
    known.sort_unstable();
    known.dedup();
    for arch in options.archs {
        if !known.contains(&arch.as_str()) {
            return Err(BuildError::NoTarget { arch: arch.clone(), known: known.join(", ") });
        }
        if !options.compiler.knows(arch) {
            let known: Vec<&str> = known.into_iter().filter(|arch| options.compiler.knows(arch)).collect();
            return Err(BuildError::Arch {
                compiler: options.compiler.path.display().to_string(),
                version: options.compiler.version.clone(),
                arch: arch.clone(),
                known: known.join(", "),
            });
        }
    }
    Ok(())
}

impl Compiler {
    /// As recorded.
    pub fn record(&self) -> CompilerRecord {
        CompilerRecord {
            path: self.path.display().to_string(),
            kind: self.kind.name().to_owned(),
            version: self.version.clone(),
        }
    }
}

fn previous(out: &Path) -> Result<BuildRecord, BuildError> {
    let path = out.join(record::FILE);
    match fs::read_to_string(&path) {
        Ok(text) => BuildRecord::parse(&text).map_err(|reason| BuildError::Record { path, reason }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BuildRecord::empty()),
        Err(source) => Err(BuildError::Io { path, source }),
    }
}

fn sources(root: &Path, units: &[Unit]) -> Result<BTreeMap<String, Vec<SourceFile>>, BuildError> {
    let mut sources = BTreeMap::new();
    for unit in units {
        if !sources.contains_key(&unit.source) {
            sources.insert(unit.source.clone(), source::with_includes(root, &unit.source)?);
        }
    }
    Ok(sources)
}

/// The hash of everything that decides a code object.
fn inputs(files: &[SourceFile], unit: &Unit, arch: &str, flags: &[String], compiler: &CompilerRecord) -> String {
    let mut hash = Sha256::new();
    // Each part with its length before it: no two inputs give the same stream.
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(b"kbench inputs 1");
    for text in [compiler.kind.as_str(), &compiler.version, arch] {
        part(text.as_bytes());
    }
    part(&flags.len().to_le_bytes());
    for flag in flags {
        part(flag.as_bytes());
    }
    part(&unit.defines.len().to_le_bytes());
    for (name, value) in &unit.defines {
        part(name.as_bytes());
        part(value.as_bytes());
    }
    for file in files {
        part(file.path.as_bytes());
        part(file.text.as_bytes());
    }
    hex(&hash.finalize())
}

enum Done {
    /// The object, and whether it was compiled now.
    Object(Box<ObjectRecord>, bool),
    Failed(String),
}

/// Runs the tasks on `jobs` threads; results are in the order of the tasks.
fn run(
    tree: &KernelTree,
    out: &Path,
    options: &Options<'_>,
    tasks: &[Task<'_>],
    before: &BuildRecord,
    progress: &(dyn Fn(&Step<'_>) + Sync),
) -> Result<Vec<Option<Done>>, BuildError> {
    let queue: Mutex<VecDeque<usize>> = Mutex::new((0..tasks.len()).collect());
    let results: Mutex<Vec<Option<Done>>> = Mutex::new(tasks.iter().map(|_| None).collect());
    let finished = Mutex::new((0usize, None::<BuildError>));
    let worker = || {
        loop {
            let Some(index) = lock(&queue).pop_front() else { return };
            let task = &tasks[index];
            let outcome = one(tree, out, options, task, before);
            let mut finished = lock(&finished);
            match outcome {
                Ok((done, result)) => {
                    finished.0 += 1;
                    progress(&Step { done: finished.0, total: tasks.len(), file: &task.file, result: &result });
                    lock(&results)[index] = Some(done);
                }
                Err(error) => {
                    finished.1.get_or_insert(error);
                    lock(&queue).clear();
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.clamp(1, 64).min(tasks.len()) {
            scope.spawn(worker);
        }
    });
    let failed = finished.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).1;
    match failed {
        Some(error) => Err(error),
        None => Ok(results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn one(
    tree: &KernelTree,
    out: &Path,
    options: &Options<'_>,
    task: &Task<'_>,
    before: &BuildRecord,
) -> Result<(Done, StepResult), BuildError> {
    let path = out.join(&task.file);
    let old = before.objects.iter().find(|object| object.file == task.file && object.inputs_sha256 == task.inputs);
    if let Some(old) = old
        && is_intact(&path, &old.sha256)
    {
        let object = ObjectRecord { builds: task.unit.builds.clone(), ..old.clone() };
        return Ok((Done::Object(Box::new(object), false), StepResult::Reused));
    }
    let start = Instant::now();
    let work = out.join(&task.arch).join(format!(".{}.work", task.unit.name));
    fs::create_dir_all(&work).map_err(at(&work))?;
    let part = work.join("unit.co");
    let mut flags = task.flags.clone();
    flags.extend(task.unit.defines.iter().map(|(name, value)| format!("-D{name}={value}")));
    let compiled = options.compiler.compile(&tree.root, &task.unit.source, &task.arch, &flags, &part, &work);
    let outcome = match compiled {
        Err(failure) => Err(failure.to_string()),
        Ok(warnings) => {
            let bytes = fs::read(&part).map_err(at(&part))?;
            match ObjectInfo::read(&bytes) {
                Err(error) => Err(format!("the compiler's output is no code object that kbench can read: {error}")),
                Ok(info) => {
                    fs::rename(&part, &path).map_err(at(&path))?;
                    Ok((object_record(task, options, &bytes, &info, warnings.clone()), warnings))
                }
            }
        }
    };
    fs::remove_dir_all(&work).map_err(at(&work))?;
    Ok(match outcome {
        Ok((object, warnings)) => {
            (Done::Object(Box::new(object), true), StepResult::Compiled(start.elapsed(), warnings))
        }
        Err(message) => (Done::Failed(message.clone()), StepResult::Failed(message)),
    })
}

fn object_record(
    task: &Task<'_>,
    options: &Options<'_>,
    bytes: &[u8],
    info: &ObjectInfo,
    warnings: String,
) -> ObjectRecord {
    ObjectRecord {
        file: task.file.clone(),
        arch: task.arch.clone(),
        source: task.unit.source.clone(),
        defines: task.unit.defines.clone(),
        flags: task.flags.clone(),
        compiler: options.compiler.record(),
        inputs_sha256: task.inputs.clone(),
        sha256: sha256(bytes),
        bytes: bytes.len() as u64,
        builds: task.unit.builds.clone(),
        kernels: info.kernels.iter().map(|kernel| kernel.resources.clone()).collect(),
        warnings,
    }
}

fn is_intact(path: &Path, wanted: &str) -> bool {
    fs::read(path).is_ok_and(|bytes| sha256(&bytes) == wanted)
}

/// Objects of architectures that are not built now, where today's sources would give them again with their own compiler
/// and flags.
fn keep_others(
    out: &Path,
    before: &BuildRecord,
    options: &Options<'_>,
    units: &[Unit],
    sources: &BTreeMap<String, Vec<SourceFile>>,
) -> Vec<ObjectRecord> {
    let others = before.objects.iter().filter(|object| !options.archs.contains(&object.arch));
    others
        .filter_map(|object| {
            let unit = units.iter().find(|unit| format!("{}/{}.co", object.arch, unit.name) == object.file)?;
            let inputs = inputs(sources.get(&unit.source)?, unit, &object.arch, &object.flags, &object.compiler);
            let current = inputs == object.inputs_sha256
                && unit.targets.contains(&object.arch)
                && is_intact(&out.join(&object.file), &object.sha256);
            current.then(|| ObjectRecord { builds: unit.builds.clone(), ..object.clone() })
        })
        .collect()
}

/// Every manifest against the objects that its builds use.
fn check(tree: &KernelTree, out: &Path, record: &BuildRecord) -> Result<Vec<Finding>, BuildError> {
    let mut findings = Vec::new();
    for manifest in &tree.manifests {
        for build in &manifest.builds {
            findings.extend(validate::check_build(&manifest.file, build));
        }
    }
    for object in &record.objects {
        let path = out.join(&object.file);
        let bytes = fs::read(&path).map_err(at(&path))?;
        let Ok(info) = ObjectInfo::read(&bytes) else { continue };
        for manifest in &tree.manifests {
            for build in &manifest.builds {
                let uses = object.builds.iter().any(|(file, name)| *file == manifest.file && *name == build.name);
                if uses && build.targets.contains(&object.arch) {
                    findings.extend(validate::check_object(&manifest.file, build, &info));
                }
            }
        }
    }
    Ok(findings)
}

/// Writes manifests and record, and removes what the record named before and names no more.
fn write(tree: &KernelTree, out: &Path, record: &mut BuildRecord, before: &BuildRecord) -> Result<(), BuildError> {
    let folder = out.join(MANIFESTS);
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    for manifest in &tree.manifests {
        let original = tree.root.join(&manifest.file);
        let text = fs::read(&original).map_err(at(&original))?;
        let file = format!("{MANIFESTS}/{}", manifest.file.replace('/', "."));
        let path = out.join(&file);
        if fs::read(&path).is_ok_and(|old| old == text) {
            record.manifests.push(ManifestRecord { file, source: manifest.file.clone(), sha256: sha256(&text) });
            continue;
        }
        fs::write(&path, &text).map_err(at(&path))?;
        record.manifests.push(ManifestRecord { file, source: manifest.file.clone(), sha256: sha256(&text) });
    }
    let named = |record: &BuildRecord| -> Vec<String> {
        let objects = record.objects.iter().map(|object| object.file.clone());
        objects.chain(record.manifests.iter().map(|manifest| manifest.file.clone())).collect()
    };
    let now = named(record);
    for file in named(before).iter().filter(|file| !now.contains(file)) {
        // It may be gone already.
        let _ = fs::remove_file(out.join(file));
    }
    let path = out.join(record::FILE);
    let text = record.text().map_err(|error| BuildError::Io { path: path.clone(), source: error.into() })?;
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(&path, text).map_err(at(&path))
}

/// What of a build folder today's sources would not give again with the recorded compilers and flags, one line each.
/// Nothing is compiled.
pub fn stale(tree: &KernelTree, folder: &Path) -> Vec<String> {
    let text = match fs::read_to_string(folder.join(record::FILE)) {
        Ok(text) => text,
        Err(error) => return vec![format!("{}: {error}", folder.join(record::FILE).display())],
    };
    let record = match BuildRecord::parse(&text) {
        Ok(record) => record,
        Err(reason) => return vec![format!("{}: {reason}", folder.join(record::FILE).display())],
    };
    let units = match tree.units() {
        Ok(units) => units,
        Err(error) => return vec![error.to_string()],
    };
    let sources = match sources(&tree.root, &units) {
        Ok(sources) => sources,
        Err(error) => return vec![error.to_string()],
    };
    let mut lines = Vec::new();
    for object in &record.objects {
        let unit = units.iter().find(|unit| format!("{}/{}.co", object.arch, unit.name) == object.file);
        let current = unit.and_then(|unit| {
            let files = sources.get(&unit.source)?;
            Some(inputs(files, unit, &object.arch, &object.flags, &object.compiler) == object.inputs_sha256)
        });
        if current != Some(true) {
            lines.push(format!("kernels: {} is not what {} gives now", object.file, object.source));
        }
    }
    let archs: std::collections::BTreeSet<&String> = record.objects.iter().map(|object| &object.arch).collect();
    for arch in archs {
        for unit in units.iter().filter(|unit| unit.targets.contains(arch)) {
            let file = format!("{arch}/{}.co", unit.name);
            if !record.objects.iter().any(|object| object.file == file) {
                lines.push(format!("kernels: there is no checked-in {file}"));
            }
        }
    }
    for manifest in &tree.manifests {
        let text = fs::read(tree.root.join(&manifest.file)).unwrap_or_default();
        let current = record.manifests.iter().any(|old| old.source == manifest.file && old.sha256 == sha256(&text));
        if !current {
            lines.push(format!("kernels: {} is not what was checked in with the code objects", manifest.file));
        }
    }
    lines
}
