//! `kbench build`.

use crate::cli::BuildArgs;
use crate::exit::{Exit, Failure, OrExit as _, Outcome, usage};
use crate::kernels;
use anyhow::Context as _;
use kbench_kernels::compile::{self, Compiler, Options, Step, StepResult};
use kbench_kernels::tree::{KernelTree, TreeError};
use kbench_kernels::validate::Severity;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Compiles the kernels; each code object is reported on stderr as it is done.
///
/// # Errors
/// When there is no compiler, an architecture cannot be built for, or the folder cannot be written.
pub fn run(args: &BuildArgs) -> Outcome {
    let compiler = Compiler::find(args.compiler.as_deref(), &|name| std::env::var_os(name)).or_usage()?;
    note(&format!("compiler: {} ({})", compiler.path.display(), compiler.version));
    let (mut tree, scratch) = sources(args)?;
    if !args.family.is_empty() {
        let wanted = |family: &str| args.family.iter().any(|wanted| wanted.name() == family);
        tree.manifests.retain(|manifest| manifest.builds.iter().any(|build| wanted(&build.family)));
        if tree.manifests.is_empty() {
            return Err(usage(format!("{}: no kernel is of the families asked for", tree.root.display())));
        }
    }
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let options = Options { compiler: &compiler, archs: &args.arch, flags: &args.flags, jobs };
    let outcome = compile::build(&tree, &args.output, &options, &report).or_usage();
    if let Some(scratch) = scratch {
        // What lies in the temporary folder hurts nobody.
        let _ = fs::remove_dir_all(scratch);
    }
    let outcome = outcome?;
    for finding in &outcome.findings {
        note(&finding.to_string());
    }
    let kernels: usize = outcome.record.objects.iter().map(|object| object.kernels.len()).sum();
    note(&format!(
        "{}: {} code objects with {kernels} kernels ({} compiled, {} up to date, {} failed)",
        args.output.display(),
        outcome.record.objects.len(),
        outcome.compiled,
        outcome.reused,
        outcome.record.failures.len()
    ));
    let wrong = outcome.findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    if outcome.record.failures.is_empty() && wrong == 0 {
        return Ok(Exit::Ok);
    }
    let message = format!(
        "{} of the kernels did not compile and {wrong} launch rules do not fit; the messages are above",
        outcome.record.failures.len()
    );
    Err(Failure { exit: Exit::Device, error: anyhow::anyhow!(message) })
}

/// The kernel folder: the one asked for, `./kernels`, or the program's own sources in a temporary folder to be removed.
fn sources(args: &BuildArgs) -> Result<(KernelTree, Option<PathBuf>), Failure> {
    if let Some(folder) = &args.sources {
        return Ok((KernelTree::open(folder).or_usage()?, None));
    }
    let local = Path::new("kernels");
    match KernelTree::open(local) {
        Ok(tree) => return Ok((tree, None)),
        Err(TreeError::Empty(_) | TreeError::Read { .. }) => {}
        Err(error) => return Err(usage(error)),
    }
    let scratch = std::env::temp_dir().join(format!("kbench-sources-{}", std::process::id()));
    kernels::write_sources(&scratch)
        .with_context(|| format!("the kernel sources could not be written to {}", scratch.display()))
        .or_device()?;
    let tree = KernelTree::open(&scratch).or_usage()?;
    Ok((tree, Some(scratch)))
}

fn report(step: &Step<'_>) {
    let place = format!("[{}/{}] {}", step.done, step.total, step.file);
    match step.result {
        StepResult::Reused => {}
        StepResult::Compiled(time, words) => {
            note(&format!("{place} {:.1} s", time.as_secs_f64()));
            if !words.trim().is_empty() {
                note(words.trim_end());
            }
        }
        StepResult::Failed(words) => note(&format!("{place} failed:\n{}", words.trim_end())),
    }
}

/// A line on stderr.
fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
