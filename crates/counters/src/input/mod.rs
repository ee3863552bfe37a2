//! rocprofv3's input files: `pmc:` lines as text, and `jobs` as YAML or JSON.
//!
//! Read strictly: a mistyped key or a line that means nothing is an error, where rocprofv3 passes over it in silence. Keys that rocprofv3 knows and
//! that have no meaning here (traces, output formats) are kept by name, so that the caller can say that they were not used.

mod iterations;
mod text;
mod yaml;

pub use iterations::Iterations;

use crate::nearest::nearest;
use serde_json::Value;
use std::path::Path;

/// Largest file that is read.
const MAX_BYTES: usize = 1 << 20;
/// Most jobs of a file.
const MAX_JOBS: usize = 4096;

/// Keys of a job with a meaning here.
const USED: [&str; 6] =
    ["pmc", "pmc_groups", "kernel_include_regex", "kernel_exclude_regex", "kernel_iteration_range", "sub_directory"];
/// Keys of a job that rocprofv3 knows and that have none.
const UNUSED: [&str; 53] = [
    "advanced_thread_trace",
    "agent_index",
    "att_activity",
    "att_buffer_size",
    "att_library_path",
    "att_perfcounter_ctrl",
    "att_perfcounters",
    "att_serialize_all",
    "att_shader_engine_mask",
    "att_simd_select",
    "att_target_cu",
    "collection_period",
    "collection_period_unit",
    "disable_signal_handlers",
    "extra_counters",
    "hip_compiler_trace",
    "hip_runtime_trace",
    "hip_trace",
    "hsa_amd_trace",
    "hsa_core_trace",
    "hsa_finalize_trace",
    "hsa_image_trace",
    "hsa_trace",
    "kernel_rename",
    "kernel_trace",
    "kokkos_trace",
    "list_avail",
    "list_metrics",
    "log_level",
    "mangled_kernels",
    "marker_trace",
    "memory_allocation_trace",
    "memory_copy_trace",
    "minimum_output_data",
    "output_config",
    "output_directory",
    "output_file",
    "output_format",
    "pc_sampling_interval",
    "pc_sampling_method",
    "pc_sampling_unit",
    "perfetto_backend",
    "perfetto_buffer_fill_policy",
    "perfetto_buffer_size",
    "perfetto_shmem_size_hint",
    "pmc_group_interval",
    "preload",
    "rccl_trace",
    "runtime_trace",
    "scratch_memory_trace",
    "stats",
    "sys_trace",
    "truncate_kernels",
];

/// One job: a run of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// Counters to collect together. One list for `pmc`, several for `pmc_groups`. May be empty: a job that only traces.
    pub groups: Vec<Vec<String>>,
    /// Only kernels whose name matches this regular expression.
    pub kernel_include: Option<String>,
    /// Not those whose name matches this one.
    pub kernel_exclude: Option<String>,
    /// Which launches of each kernel, from 1; all when empty.
    pub iterations: Iterations,
    /// Keys of rocprofv3 that were there and have no meaning here.
    pub unused: Vec<String>,
}

/// Forms of input files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `pmc: A B` lines.
    Text,
    /// `jobs:` in YAML.
    Yaml,
    /// `{"jobs": [...]}`.
    Json,
}

/// Why an input file cannot be used. Each says where, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {what}", place(.line))]
pub struct InputError {
    /// File name as given.
    pub file: String,
    /// Line, from 1, where it is known.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
}

fn place(line: &Option<usize>) -> String {
    line.map(|line| format!(":{line}")).unwrap_or_default()
}

impl Format {
    /// The form that a file name's end stands for, as rocprofv3 tells it.
    ///
    /// # Errors
    /// For another end.
    pub fn of(file: &str) -> Result<Self, InputError> {
        let end = Path::new(file).extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
        match end.as_str() {
            "txt" => Ok(Format::Text),
            "yaml" | "yml" => Ok(Format::Yaml),
            "json" => Ok(Format::Json),
            _ => Err(InputError {
                file: file.to_owned(),
                line: None,
                what: "an input file ends in .txt (pmc: lines), .yaml, .yml or .json (jobs)".to_owned(),
            }),
        }
    }
}

/// Reads an input file's text; `file` is its name for messages.
///
/// # Errors
/// [`InputError`], with the line where it is known.
pub fn parse(file: &str, format: Format, text: &str) -> Result<Vec<Job>, InputError> {
    let error = |line, what| InputError { file: file.to_owned(), line, what };
    if text.len() > MAX_BYTES {
        return Err(error(None, "it is larger than 1 MiB".to_owned()));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let jobs = match format {
        Format::Text => text::parse(text).map_err(|(line, what)| error(Some(line), what))?,
        Format::Yaml => {
            let document = yaml::parse(text).map_err(|(line, what)| error(Some(line), what))?;
            jobs(&document).map_err(|what| error(None, what))?
        }
        Format::Json => {
            let document = serde_json::from_str(text)
                .map_err(|problem| error(Some(problem.line()), format!("this is no JSON: {problem}")))?;
            jobs(&document).map_err(|what| error(None, what))?
        }
    };
    if jobs.is_empty() {
        return Err(error(None, "it has no jobs".to_owned()));
    }
    Ok(jobs)
}

fn jobs(document: &Value) -> Result<Vec<Job>, String> {
    let Value::Object(keys) = document else {
        return Err("it must be an object with a key `jobs`".to_owned());
    };
    if let Some(other) = keys.keys().find(|key| *key != "jobs") {
        return Err(format!(
            "the key `{}` is not known; it must be an object with the one key `jobs`",
            shortened(other)
        ));
    }
    let list = match keys.get("jobs") {
        Some(Value::Array(list)) => list,
        Some(other) => return Err(format!("`jobs` must be a list of jobs, and is {}", kind(other))),
        None => return Err("it has no `jobs`".to_owned()),
    };
    if list.len() > MAX_JOBS {
        return Err(format!("it has more than {MAX_JOBS} jobs"));
    }
    let read = |(index, value): (usize, &Value)| job(value).map_err(|what| format!("job {}: {what}", index + 1));
    list.iter().enumerate().map(read).collect()
}

fn job(value: &Value) -> Result<Job, String> {
    let Value::Object(keys) = value else {
        return Err(format!("a job is an object with keys such as `pmc`, and this is {}", kind(value)));
    };
    let mut job = Job::default();
    for (key, value) in keys {
        match key.as_str() {
            "pmc" => job.groups.push(names(key, value)?),
            "pmc_groups" => match value {
                Value::Array(groups) => {
                    for group in groups {
                        job.groups.push(names(key, group)?);
                    }
                }
                other => {
                    return Err(format!("`pmc_groups` must be a list of lists of counters, and is {}", kind(other)));
                }
            },
            "kernel_include_regex" => job.kernel_include = pattern(key, value)?,
            "kernel_exclude_regex" => job.kernel_exclude = pattern(key, value)?,
            "kernel_iteration_range" => job.iterations = Iterations::read(value)?,
            known if USED.contains(&known) || UNUSED.contains(&known) => job.unused.push(known.to_owned()),
            other => {
                let near = nearest(other, USED.into_iter().chain(UNUSED));
                let near = near.first().map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default();
                return Err(format!("the key `{}` is not known to rocprofv3{near}", shortened(other)));
            }
        }
    }
    Ok(job)
}

/// A list of counter names, or one string of them.
fn names(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let split = |text: &str| text.split([' ', ',', '\t']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    match value {
        Value::String(text) => Ok(split(text)),
        Value::Array(list) => {
            let mut all = Vec::with_capacity(list.len());
            for item in list {
                match item {
                    Value::String(text) => all.extend::<Vec<String>>(split(text)),
                    other => return Err(format!("`{key}` holds names of counters, and one entry is {}", kind(other))),
                }
            }
            Ok(all)
        }
        other => Err(format!("`{key}` must be a list of counters, and is {}", kind(other))),
    }
}

/// A regular expression; an empty one is none.
fn pattern(key: &str, value: &Value) -> Result<Option<String>, String> {
    match value {
        Value::String(text) if text.is_empty() => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Null => Ok(None),
        other => Err(format!("`{key}` must be a regular expression, and is {}", kind(other))),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests;
