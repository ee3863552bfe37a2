//! A folder of traces: one of each rank of a distributed run.

use super::capture_files;
use crate::health::Health;
use crate::inventory::Severity;
use crate::kineto;
use crate::trace_head;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most other ranks that are read to compare them.
const MAX_COMPARED: usize = 7;
/// Ranks do the same work: their kernel times differ by less than this part.
const AGREE: f64 = 0.1;

/// The traces of one run.
#[derive(Debug)]
pub(crate) struct RankTraces {
    /// The trace of the first rank: the one that is read.
    pub(crate) first: PathBuf,
    /// Those of the other ranks.
    others: Vec<PathBuf>,
    /// Plain files beside a gzip trace of the same rank.
    orphans: Vec<PathBuf>,
}

/// Data-parallel group and rank in it, as far as names or the trace tell.
type Rank = (u64, Option<u64>);

impl RankTraces {
    /// The run that the traces of a folder are of; `None` without traces. Capture traces belong to the graphs of a run and are left out.
    ///
    /// # Errors
    /// With the files when a rank has several: they are of several runs or windows.
    pub(crate) fn of_folder(root: &Path, traces: Vec<PathBuf>) -> Result<Option<Self>, Vec<PathBuf>> {
        let is_capture = |path: &Path| path.iter().any(|part| part == capture_files::FOLDER);
        let traces: Vec<PathBuf> =
            traces.into_iter().filter(|path| !is_capture(path.strip_prefix(root).unwrap_or(path))).collect();
        let mut by_rank: BTreeMap<Rank, Vec<PathBuf>> = BTreeMap::new();
        for path in traces {
            let rank = rank_of(path.strip_prefix(root).unwrap_or(&path))
                .unwrap_or_else(|| (0, trace_head::of(&path).ok().flatten().and_then(|head| head.rank())));
            by_rank.entry(rank).or_default().push(path);
        }
        let mut orphans = Vec::new();
        for paths in by_rank.values_mut() {
            let zipped = paths.iter().filter(|path| is_gzip(path)).count();
            if zipped == 1 && paths.len() > 1 {
                orphans.extend(paths.iter().filter(|path| !is_gzip(path)).cloned());
                paths.retain(|path| is_gzip(path));
            }
        }
        if let Some(several) = by_rank.values().find(|paths| paths.len() > 1) {
            return Err(several.clone());
        }
        let mut traces = by_rank.into_values().flatten();
        Ok(traces.next().map(|first| Self { first, others: traces.collect(), orphans }))
    }

    /// Tells of the files that were not read, and compares the other ranks with the first: kernels and kernel time (ns).
    pub(crate) fn compare(&self, kernels: u64, ns: u128, health: &mut Health) {
        for orphan in &self.orphans {
            let text = format!(
                "{} lies unpacked beside the finished trace: the profiler writes it first and packs it last, so it is of an export that did \
                 not end; it was not read",
                orphan.display()
            );
            health.tell(Severity::Warning, "orphan_json", text);
        }
        if self.others.is_empty() {
            return;
        }
        let mut differ = Vec::new();
        for path in self.others.iter().take(MAX_COMPARED) {
            match kineto::read(path) {
                Ok(trace) => {
                    let (count, time) = (trace.kernels.len() as u64, trace.kernel_ns());
                    if count != kernels || (time as f64 - ns as f64).abs() > AGREE * ns as f64 {
                        differ.push(format!("{}: {count} kernels, {:.3} ms", path.display(), time as f64 / 1e6));
                    }
                }
                Err(error) => differ.push(error.to_string()),
            }
        }
        let names: Vec<String> = self.others.iter().map(|path| path.display().to_string()).collect();
        let text = format!(
            "one rank stands for all: {} was read; of the same run are {}",
            self.first.display(),
            names.join(", ")
        );
        health.tell(Severity::Note, "ranks", text);
        if !differ.is_empty() {
            let text = format!(
                "ranks disagree: {} has {kernels} kernels, {:.3} ms; {}",
                self.first.display(),
                ns as f64 / 1e6,
                differ.join("; ")
            );
            health.tell(Severity::Warning, "ranks_disagree", text);
        }
    }
}

fn is_gzip(path: &Path) -> bool {
    let mut start = [0; 2];
    std::fs::File::open(path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start)).is_ok()
        && start == *b"\x1f\x8b"
}

/// The rank that a path names: `rank_3/`, `dp1_tp0/`, `...-TP-2.trace.json.gz`, `..._rank0.json`; the innermost part that names one.
fn rank_of(path: &Path) -> Option<Rank> {
    path.iter().rev().find_map(|part| {
        let part = part.to_str()?.to_ascii_lowercase();
        let rank = number_after(&part, "rank").or_else(|| number_after(&part, "tp"));
        let group = number_after(&part, "dp");
        (rank.is_some() || group.is_some()).then_some((group.unwrap_or(0), rank))
    })
}

/// The number after a word, which no letter stands before and at most one `_` or `-` behind.
fn number_after(text: &str, word: &str) -> Option<u64> {
    text.match_indices(word).find_map(|(at, _)| {
        let is_start = !text[..at].ends_with(|c: char| c.is_ascii_alphabetic());
        let rest = &text[at + word.len()..];
        let rest = rest.strip_prefix(['_', '-']).unwrap_or(rest);
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if is_start { rest[..digits].parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_stand_in_paths() {
        for (path, rank) in [
            ("rank_3/m_ts_20260101_010101_1.pt.trace.json.gz", Some((0, Some(3)))),
            ("dp1_tp2/m.pt.trace.json.gz", Some((1, Some(2)))),
            ("1764000000.5-TP-7.trace.json.gz", Some((0, Some(7)))),
            ("1764000000.5-TP-7-DP-1-EP-0.trace.json.gz", Some((1, Some(7)))),
            ("trace_rank0.json", Some((0, Some(0)))),
            ("host_123.1764.pt.trace.json.gz", None),
            ("http1/franks2.json", None),
            ("rank_/tp.json", None),
            ("rank_99999999999999999999999/x.json", None),
        ] {
            assert_eq!(rank_of(Path::new(path)), rank, "{path}");
        }
    }
}
