//! What this machine is, from `/proc` and `/sys`. Everything is optional: a missing file is a missing fact.

use std::fs;
use std::path::Path;

/// The last-level cache assumed when the system does not tell its size: larger than most, so that "cold" stays cold.
pub(super) const ASSUMED_LLC_BYTES: u64 = 64 << 20;

/// Memory that is left to the rest of the system.
const RESERVED_BYTES: u64 = 512 << 20;

/// The CPU.
#[derive(Clone, Debug)]
pub(super) struct Cpu {
    /// Model name.
    pub(super) model: String,
    /// Size of the last-level cache.
    pub(super) llc_bytes: Option<u64>,
    /// Operating system kernel release.
    pub(super) kernel: String,
}

impl Cpu {
    /// Reads what there is.
    pub(super) fn read() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "Model")).unwrap_or("unknown CPU");
        Self {
            model: model.to_owned(),
            llc_bytes: llc_bytes(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            kernel: read_line("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into()),
        }
    }

    /// Facts that change results.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        let facts = [
            ("os_kernel", Some(self.kernel.clone())),
            ("threads", Some(rayon::current_num_threads().to_string())),
            ("llc_bytes", self.llc_bytes.map(|bytes| bytes.to_string())),
            ("cpu_governor", read_line(governor)),
            ("load_average_1min", read_line("/proc/loadavg").and_then(|line| Some(line.split(' ').next()?.to_owned()))),
            ("memory_available_bytes", Some(available_bytes().to_string())),
        ];
        facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// Memory that may be used now: what the system calls available, less a reserve.
pub(super) fn available_bytes() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = field(&meminfo, "MemAvailable").and_then(|value| value.split(' ').next()?.parse::<u64>().ok());
    // Without the figure, 4 GiB is what any machine that serves as a bench has.
    let available = kib.map_or(4 << 30, |kib| kib.saturating_mul(1024));
    available.min(cgroup_room().unwrap_or(u64::MAX)).saturating_sub(RESERVED_BYTES)
}

/// Room under a container's memory limit, when there is one.
fn cgroup_room() -> Option<u64> {
    let limit = read_line("/sys/fs/cgroup/memory.max")?.parse::<u64>().ok()?;
    let used = read_line("/sys/fs/cgroup/memory.current")?.parse::<u64>().ok()?;
    Some(limit.saturating_sub(used))
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn read_line(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The largest data or unified cache of the highest level under a sysfs cache folder.
fn llc_bytes(folder: &Path) -> Option<u64> {
    let mut best: Option<(u64, u64)> = None;
    for index in fs::read_dir(folder).ok()?.flatten() {
        let read = |name: &str| read_line(index.path().join(name));
        if read("type").is_none_or(|kind| kind == "Instruction") {
            continue;
        }
        let (Some(level), Some(size)) =
            (read("level").and_then(|l| l.parse().ok()), read("size").and_then(|s| size_bytes(&s)))
        else {
            continue;
        };
        best = best.max(Some((level, size)));
    }
    best.map(|(_, size)| size)
}

/// `307200K` or `32M` as bytes.
fn size_bytes(text: &str) -> Option<u64> {
    let (digits, factor) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_have_suffixes() {
        assert_eq!(size_bytes("307200K"), Some(300 << 20));
        assert_eq!(size_bytes("32M"), Some(32 << 20));
        assert_eq!(size_bytes("512"), Some(512));
        assert_eq!(size_bytes("lots"), None);
    }

    #[test]
    fn the_highest_level_that_holds_data_is_the_llc() {
        let dir = tempfile::tempdir().unwrap();
        for (name, level, kind, size) in [
            ("index0", "1", "Data", "48K"),
            ("index1", "1", "Instruction", "32K"),
            ("index2", "2", "Unified", "2048K"),
            ("index3", "3", "Unified", "32M"),
            ("index4", "3", "Instruction", "64M"),
        ] {
            let folder = dir.path().join(name);
            fs::create_dir(&folder).unwrap();
            for (file, text) in [("level", level), ("type", kind), ("size", size)] {
                fs::write(folder.join(file), format!("{text}\n")).unwrap();
            }
        }
        assert_eq!(llc_bytes(dir.path()), Some(32 << 20));
        assert_eq!(llc_bytes(&dir.path().join("absent")), None);
    }

    #[test]
    fn fields_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: A: CPU @ 2 GHz\n";
        assert_eq!(field(text, "model name"), Some("A: CPU @ 2 GHz"));
        assert_eq!(field(text, "absent"), None);
    }
}
