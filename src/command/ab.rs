//! `kbench ab`: two builds in turn on one device.

use super::compare::{exit_of, format_of, gate, write};
use super::pairs::{self, Ran};
use super::probe;
use crate::cli::AbArgs;
use crate::compare::Comparison;
use crate::compare::pairs::{Pair, compare_pairs};
use crate::compare::read::Device;
use crate::device::{DeviceInfo, DeviceSpec};
use crate::exit::{Exit, Failure, OrExit as _, Outcome, usage};
use crate::report::Status;
use crate::runner::PairRule;
use anyhow::Context as _;
use kbench_kernels::compile::{self, Compiler, Options};
use kbench_kernels::record;
use kbench_kernels::tree::KernelTree;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The smallest change that is called one: a threshold of 1 % would miss half of all changes of 1 %.
pub(super) const MIN_EFFECT: f64 = 0.005;

/// Runs both builds in turn, case by case, and compares.
///
/// # Errors
/// On bad input, a build that cannot be had, a device that cannot be opened, an output that cannot be written.
pub fn run(args: &AbArgs) -> Outcome {
    let gate = gate(&args.judge)?;
    let format = format_of(&args.judge)?;
    let rule = PairRule {
        min_effect: args.judge.min_effect.unwrap_or(MIN_EFFECT),
        noise_floor: args.noise_floor.unwrap_or(0.0),
        alpha: args.judge.alpha,
        cases: 1,
    };
    rule.rule().context("--min-effect, --noise-floor, --alpha").or_usage()?;
    let builds = Builds::new(args)?;
    let correction = args.judge.correction.into();
    let asked = pairs::Builds { base: &builds.base, candidate: &builds.candidate, rule, correction, times: 1 };
    let Ran { info, mut pairs, rule, not_made, interrupted } = pairs::run(&args.pair, &asked, |_| Ok(()))?;
    pairs.extend(not_made);
    let (labels, judged) = ([args.base.as_str(), &args.cand], (&rule, correction));
    let mut comparison = compare_pairs(labels, &device(&info)?, &pairs, judged, &gate.metrics()).or_device()?;
    let checked = if gate.is_empty() { Ok(()) } else { gate.check(&mut comparison) };
    write(&args.judge, usize::MAX, format, &comparison)?;
    if interrupted {
        // What the gate asks for may be in the cases that had no turn.
        let _ = checked.inspect_err(|error| super::note(&error.to_string()));
        return Ok(Exit::Interrupted);
    }
    checked.or_usage()?;
    Ok(exit(&comparison, &pairs, args.judge.strict))
}

/// A wrong side goes before everything; a failed one before what the comparison says of the others.
fn exit(comparison: &Comparison, pairs: &[Pair], strict: bool) -> Exit {
    let statuses =
        || pairs.iter().flat_map(|pair| [Some(pair.base.status), pair.pair.as_ref().map(|pair| pair.candidate.status)]);
    let any = |wanted: &[Status]| statuses().flatten().any(|status| wanted.contains(&status));
    match () {
        () if any(&[Status::Wrong]) => Exit::Wrong,
        () if any(&[Status::Failed, Status::Hung]) => Exit::Device,
        () => exit_of(comparison, strict),
    }
}

fn device(info: &DeviceInfo) -> Result<Device, Failure> {
    serde_json::to_value(info).and_then(serde_json::from_value).or_device()
}

/// Where the two builds are, sources built; what was built in a temporary folder goes with it.
struct Builds {
    base: String,
    candidate: String,
    _scratch: Vec<TempDir>,
}

impl Builds {
    fn new(args: &AbArgs) -> Result<Self, Failure> {
        let mut resolver = Resolver { args, arch: None, scratch: Vec::new() };
        let base = resolver.resolve(&args.base)?;
        let candidate = resolver.resolve(&args.cand)?;
        Ok(Self { base, candidate, _scratch: resolver.scratch })
    }
}

/// Finds builds, and builds sources.
struct Resolver<'a> {
    args: &'a AbArgs,
    /// What sources are built for, once asked.
    arch: Option<String>,
    /// Where they were built.
    scratch: Vec<TempDir>,
}

impl Resolver<'_> {
    /// A build as the device takes it. A folder without a record of a build holds sources.
    fn resolve(&mut self, given: &str) -> Result<String, Failure> {
        let path = Path::new(given);
        if self.args.pair.on.device == DeviceSpec::Host || given == "builtin" {
            return Ok(given.to_owned());
        }
        if path.is_file() {
            return descriptor_of(path);
        }
        if !path.is_dir() {
            return Err(usage(format!(
                "`{given}` is no build: give builtin, a folder of `kbench build`, a launch descriptor (.toml) or the code object beside it, or a folder of kernel sources"
            )));
        }
        if path.join(record::FILE).is_file() {
            return Ok(absolute(path)?.display().to_string());
        }
        let folder = tempfile::tempdir().context("a temporary folder for the build").or_device()?;
        let compiler = Compiler::find(self.args.compiler.as_deref(), &|name| std::env::var_os(name)).or_usage()?;
        let tree = KernelTree::open(path).or_usage()?;
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let archs = [self.arch()?];
        super::note(&format!("{given}: building for {} with {}", archs[0], compiler.version));
        let options = Options { compiler: &compiler, archs: &archs, flags: &[], jobs };
        let outcome = compile::build(&tree, folder.path(), &options, &|_| ()).or_usage()?;
        if let Some(failure) = outcome.record.failures.first() {
            return Err(usage(format!("{given}: {} does not compile: {}", failure.source, failure.message)));
        }
        let built = folder.path().display().to_string();
        self.scratch.push(folder);
        Ok(built)
    }

    /// The architecture that sources are built for: the device's, asked once.
    fn arch(&mut self) -> Result<String, Failure> {
        let arch = match self.arch.take() {
            Some(arch) => arch,
            None => arch_of(&self.args.pair.on.device)?,
        };
        Ok(self.arch.insert(arch).clone())
    }
}

/// A file as `--kernels` takes it: a launch descriptor, or the one beside a code object.
fn descriptor_of(path: &Path) -> Result<String, Failure> {
    let beside = path.with_extension("toml");
    if path.extension().is_some_and(|ending| ending == "toml") {
        return Ok(path.display().to_string());
    }
    if beside.is_file() {
        return Ok(beside.display().to_string());
    }
    Err(usage(format!(
        "{}: how its kernels are launched is not known: write a launch descriptor beside it ({}; docs/launch-descriptors.md), or give a folder of `kbench build`",
        path.display(),
        beside.display()
    )))
}

/// The architecture of a device.
fn arch_of(spec: &DeviceSpec) -> Result<String, Failure> {
    let index = match spec {
        DeviceSpec::Emu(model) => return arch_of_model(model),
        DeviceSpec::Hip(index) => *index,
        DeviceSpec::Auto | DeviceSpec::HipAll | DeviceSpec::Host => 0,
    };
    let (gpu, reason) = match probe::ask() {
        Ok(found) => (found.devices.into_iter().find(|gpu| gpu.index == index).and_then(|gpu| gpu.arch), found.error),
        Err(reason) => (None, Some(reason)),
    };
    match gpu {
        // Features such as `:sramecc+:xnack-` come after the name.
        Some(arch) => Ok(arch.split(':').next().unwrap_or_default().to_owned()),
        None if *spec == DeviceSpec::Auto => arch_of_model(crate::device::DEFAULT_MODEL),
        None => {
            let reason = reason.unwrap_or_else(|| format!("HIP sees no GPU {index}"));
            Err(anyhow::anyhow!("the sources cannot be built for `{spec}`: {reason}")).or_device()
        }
    }
}

fn arch_of_model(model: &str) -> Result<String, Failure> {
    Ok(kbench_gfx_emu::model::Model::named(model).or_usage()?.arch().name().to_owned())
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize().with_context(|| path.display().to_string()).or_usage()
}
