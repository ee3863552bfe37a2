//! rocprofv3's input files: which counters of which kernels.

use crate::command::note;
use crate::counters::{KernelFilter, What};
use crate::exit::{Failure, OrExit as _, Outcome, usage};
use anyhow::Context as _;
use kbench_counters::input::{self, Format, Job};
use std::fs;
use std::path::Path;

/// Counters that a job collects together.
pub(super) struct Group {
    /// Number of the job, from 1.
    pub(super) job: usize,
    /// The counters.
    pub(super) what: What,
}

/// The groups of a file's jobs. What of the jobs is not used is said on stderr.
///
/// # Errors
/// When it cannot be read, or no job collects counters.
pub(super) fn groups(path: &Path) -> Outcome<Vec<Group>> {
    let groups: Vec<Group> = (1..)
        .zip(&read(path)?)
        .flat_map(|(number, job)| {
            job.groups.iter().map(move |group| Group { job: number, what: What::List(group.join(",")) })
        })
        .collect();
    if groups.is_empty() { Err(no_counters(path)) } else { Ok(groups) }
}

/// The counters of all jobs, or of the one with this number (from 1), each once, and the kernels that they are counted of.
///
/// # Errors
/// When the file cannot be read, has no such job, no job collects counters, or the jobs do not agree on the kernels: one replay
/// of a case is for all of them.
pub(super) fn request(path: &Path, only: Option<u32>) -> Outcome<(What, KernelFilter)> {
    let jobs = read(path)?;
    if let Some(number) = only.filter(|number| *number as usize > jobs.len()) {
        return Err(usage(format!("{}: there is no job {number}; it has {}", path.display(), jobs.len())));
    }
    let is_asked = |number: usize| only.is_none_or(|only| only as usize == number);
    let counting: Vec<(usize, &Job)> =
        (1..).zip(&jobs).filter(|(number, job)| is_asked(*number) && !job.groups.is_empty()).collect();
    let mut names: Vec<&str> = Vec::new();
    for name in counting.iter().flat_map(|(_, job)| job.groups.iter().flatten()) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let Some((first, job)) = counting.first().filter(|_| !names.is_empty()) else { return Err(no_counters(path)) };
    let kernels = filter(job);
    if let Some((other, _)) = counting.iter().find(|(_, job)| filter(job) != kernels) {
        return Err(usage(format!(
            "{}: jobs {first} and {other} choose different kernels (kernel_include_regex, kernel_exclude_regex), and a run counts those of all \
             jobs in the same launches: run them one by one (--job {first}, --job {other})",
            path.display()
        )));
    }
    kernels.check().with_context(|| format!("{}: job {first}", path.display())).or_usage()?;
    Ok((What::List(names.join(",")), kernels))
}

fn filter(job: &Job) -> KernelFilter {
    KernelFilter { include: job.kernel_include.clone(), exclude: job.kernel_exclude.clone() }
}

fn read(path: &Path) -> Outcome<Vec<Job>> {
    let name = path.display().to_string();
    let format = Format::of(&name).or_usage()?;
    let text = fs::read_to_string(path).with_context(|| format!("{name} cannot be read")).or_usage()?;
    let jobs = input::parse(&name, format, &text).or_usage()?;
    for (number, job) in (1..).zip(&jobs) {
        tell_unused(&name, number, job);
    }
    Ok(jobs)
}

fn tell_unused(name: &str, number: usize, job: &Job) {
    let mut unused = job.unused.clone();
    if !job.iterations.ranges().is_empty() {
        unused.push("kernel_iteration_range".to_owned());
    }
    if !unused.is_empty() {
        note(&format!("{name}: job {number}: not used here: {}", unused.join(", ")));
    }
}

fn no_counters(path: &Path) -> Failure {
    usage(format!("{}: none of its jobs collects counters (pmc)", path.display()))
}
