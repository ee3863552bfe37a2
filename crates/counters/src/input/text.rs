//! `pmc:` lines.

use super::{Job, MAX_JOBS};

/// One job a line.
pub(super) fn parse(text: &str) -> Result<Vec<Job>, (usize, String)> {
    let mut jobs = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let error = |what: String| (index + 1, what);
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let Some((key, names)) = line.split_once(':') else {
            return Err(error("a line is `pmc: COUNTER COUNTER ...` or a comment (#)".to_owned()));
        };
        match key.trim() {
            "pmc" => {}
            "gpu" | "range" | "kernel" => {
                let what = format!(
                    "`{}:` belongs to rocprof's first version; rocprofv3 has kernel_include_regex and kernel_iteration_range in YAML or JSON",
                    key.trim()
                );
                return Err(error(what));
            }
            other => {
                let shortened: String = other.chars().take(40).collect();
                return Err(error(format!("a line starts with `pmc:`, not with `{shortened}:`")));
            }
        }
        let names: Vec<String> =
            names.split([' ', '\t', ',']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        if names.is_empty() {
            return Err(error("`pmc:` has no counters".to_owned()));
        }
        if jobs.len() >= MAX_JOBS {
            return Err(error(format!("it has more than {MAX_JOBS} lines of counters")));
        }
        jobs.push(Job { groups: vec![names], ..Job::default() });
    }
    Ok(jobs)
}
