//! Speed and memory of the trace reader, against `zcat` of the same file in the same run, and on a generated 1 GB trace.
//!
//! Not run by default: `cargo test --release -p kbench-profile --test kineto_speed -- --ignored --nocapture --test-threads 1`.

// Helpers of tests may fail like tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kbench_profile::kineto;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TRACE: &str = "KBENCH_SPEED_TRACE";
const MIB: u64 = 1 << 20;

fn traces() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let data = std::env::var_os("KBENCH_REAL_DATA").map_or_else(|| "../shared/data".into(), PathBuf::from);
    let folder = root.join(data).join("traces");
    let found = folder.is_dir().then_some(folder);
    if found.is_none() {
        eprintln!("skipped, no real traces (set KBENCH_REAL_DATA)");
    }
    found
}

/// What one reading in a process of its own took.
struct Cost {
    seconds: f64,
    peak_bytes: u64,
    text_bytes: u64,
    kernels: usize,
}

/// Reads the trace named by the environment and prints what it took. Runs in a child, so that the peak of resident
/// memory is that of this reading alone.
#[test]
#[ignore = "the child of the measurements below"]
fn child_reads_one_trace() {
    let Some(path) = std::env::var_os(TRACE) else { return };
    let started = Instant::now();
    let trace = kineto::read(PathBuf::from(path)).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    assert!(!trace.health.iter().any(|finding| finding.code.contains("times") || finding.code.contains("durations")));
    let joined = trace.joined();
    let linked = joined.kernels().filter(|kernel| kernel.op().is_some()).count();
    assert!(linked <= trace.kernels.len());
    println!("COST {seconds} {} {} {}", peak_resident_bytes(), trace.stats.bytes, trace.kernels.len());
}

fn peak_resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn cost(path: &Path) -> Cost {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "child_reads_one_trace", "--nocapture"])
        .env(TRACE, path)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = text.split("COST ").nth(1).unwrap().split_whitespace().collect();
    Cost {
        seconds: words[0].parse().unwrap(),
        peak_bytes: words[1].parse().unwrap(),
        text_bytes: words[2].parse().unwrap(),
        kernels: words[3].parse().unwrap(),
    }
}

fn zcat(path: &Path) -> Duration {
    let started = Instant::now();
    let status = Command::new("zcat").arg(path).stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    started.elapsed()
}

/// The best of several, which is what the machine can do.
fn best<T>(times: usize, mut run: impl FnMut() -> T, seconds: impl Fn(&T) -> f64) -> T {
    let mut best = run();
    for _ in 1..times {
        let next = run();
        if seconds(&next) < seconds(&best) {
            best = next;
        }
    }
    best
}

#[test]
#[ignore = "measures: run it alone and with --release"]
fn large_traces_are_read_in_less_than_twice_the_time_of_zcat() {
    let Some(folder) = traces() else { return };
    for file in [
        "mi300_capture_vllm_gptoss20b_bs32_FULL.json.gz",
        "mi300_eager_timesformer.json.gz",
        "mi300_capture_sglang_qwen3_8b_bs32.json.gz",
        "mi300_eager_sglang_qwen3_8b_prefill.json.gz",
        "mi300_eager_qwen15_0p5b.json.gz",
    ] {
        let path = folder.join(file);
        let zcat = best(5, || zcat(&path), Duration::as_secs_f64).as_secs_f64();
        let cost = best(5, || cost(&path), |cost| cost.seconds);
        println!(
            "{file}: {:.1} MB of text, zcat {:.0} ms, read {:.0} ms ({:.2} x zcat, {:.0} MB/s), peak {:.1} MiB",
            cost.text_bytes as f64 / 1e6,
            zcat * 1e3,
            cost.seconds * 1e3,
            cost.seconds / zcat,
            cost.text_bytes as f64 / 1e6 / cost.seconds,
            cost.peak_bytes as f64 / MIB as f64
        );
        assert!(cost.seconds < 2.0 * zcat, "{file}");
        assert!(cost.peak_bytes < 100 * MIB, "{file}");
    }
}

/// A text cut where it holds a time or an id, so that copies with new ones can be written.
struct Template {
    parts: Vec<(Vec<u8>, Field)>,
    tail: Vec<u8>,
    kernels: usize,
}

enum Field {
    /// Microseconds in nanoseconds.
    Time(u64),
    /// External id, correlation or flow id.
    Id(u64),
}

impl Template {
    /// The events of a real trace.
    fn of(path: &Path) -> Self {
        let mut text = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()), &mut text)
            .unwrap();
        let start = memchr::memmem::find(&text, b"\"traceEvents\"").unwrap();
        let open = start + memchr::memchr(b'[', &text[start..]).unwrap() + 1;
        let behind = memchr::memmem::rfind(&text, b"\"traceName\"").unwrap();
        let last = memchr::memmem::rfind(&text[..behind], b"\"ph\"").unwrap();
        let end = regex::bytes::Regex::new(r"\}\s*\]\s*,").unwrap().find(&text[last..]).unwrap();
        let close = last + end.start() + 1;
        let events = std::str::from_utf8(&text[open..close]).unwrap();
        let fields = regex::Regex::new(r#""(ts|External id|correlation|id)"\s*:\s*(\d+)(?:\.(\d{1,3}))?"#).unwrap();
        let mut parts = Vec::new();
        let mut at = 0;
        for found in fields.captures_iter(events) {
            let whole = found.get(2).unwrap();
            let number: u64 = whole.as_str().parse().unwrap();
            let field = match (&found[1], found.get(3)) {
                ("ts", fraction) => {
                    let digits = fraction.map_or("", |digits| digits.as_str());
                    Field::Time(number * 1000 + format!("{digits:0<3}").parse::<u64>().unwrap())
                }
                _ => Field::Id(number),
            };
            parts.push((events.as_bytes()[at..whole.start()].to_vec(), field));
            at = found.get(3).unwrap_or(whole).end();
        }
        let kernels = memchr::memmem::find_iter(events.as_bytes(), b"\"kernel\",").count();
        Self { parts, tail: events.as_bytes()[at..].to_vec(), kernels }
    }

    fn write(&self, copy: u64, out: &mut impl Write) {
        for (text, field) in &self.parts {
            out.write_all(text).unwrap();
            match field {
                // Copies are an hour apart; ids of copies do not meet.
                Field::Time(ns) => {
                    let ns = ns + copy * 3_600_000_000_000;
                    write!(out, "{}.{:03}", ns / 1000, ns % 1000).unwrap();
                }
                Field::Id(id) => write!(out, "{}", id + copy * 100_000_000).unwrap(),
            }
        }
        out.write_all(&self.tail).unwrap();
    }
}

/// Writes copies of real events until the text has a size.
fn generate(sources: &[PathBuf], bytes: u64, path: &Path) -> usize {
    let templates: Vec<Template> = sources.iter().map(|source| Template::of(source)).collect();
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path).unwrap());
    out.write_all(b"{\"schemaVersion\": 1, \"roctracer_version\": 4.1, \"traceEvents\": [\n").unwrap();
    let mut kernels = 0;
    for copy in 0.. {
        let template = &templates[copy as usize % templates.len()];
        template.write(copy, &mut out);
        kernels += template.kernels;
        if std::io::Seek::stream_position(&mut out).unwrap() > bytes {
            break;
        }
        out.write_all(b",\n").unwrap();
    }
    out.write_all(b"], \"traceName\": \"generated\"}").unwrap();
    out.flush().unwrap();
    kernels
}

#[test]
#[ignore = "writes more than 1 GB to the temporary folder; run it alone and with --release"]
fn a_gigabyte_takes_bounded_memory() {
    let Some(folder) = traces() else { return };
    let scratch = tempfile::tempdir().unwrap();
    for (kind, files) in [
        ("eager", &["mi300_eager_qwen15_0p5b.json.gz", "mi300_eager_sglang_qwen3_8b_prefill.json.gz"][..]),
        ("graph", &["mi300_graph_sglang_qwen3_30b_a3b_decode_bs16.json.gz"]),
    ] {
        let sources: Vec<PathBuf> = files.iter().map(|file| folder.join(file)).collect();
        let plain = scratch.path().join(format!("{kind}.json"));
        let kernels = generate(&sources, 1_000_000_000, &plain);
        assert!(Command::new("gzip").arg("-1").arg("-k").arg(&plain).status().unwrap().success());
        let gzip = plain.with_extension("json.gz");
        let zcat = zcat(&gzip).as_secs_f64();
        for path in [&plain, &gzip] {
            let cost = best(2, || cost(path), |cost| cost.seconds);
            let rate = cost.text_bytes as f64 / 1e6 / cost.seconds;
            println!(
                "{}: {:.0} MB of text, {} kernels, zcat {zcat:.2} s, read {:.2} s ({rate:.0} MB/s), peak {:.1} MiB",
                path.file_name().unwrap().display(),
                cost.text_bytes as f64 / 1e6,
                cost.kernels,
                cost.seconds,
                cost.peak_bytes as f64 / MIB as f64
            );
            assert_eq!(cost.kernels, kernels);
            assert!(rate >= 100.0 && cost.peak_bytes < 200 * MIB);
        }
        std::fs::remove_file(&plain).unwrap();
        std::fs::remove_file(&gzip).unwrap();
    }
}
