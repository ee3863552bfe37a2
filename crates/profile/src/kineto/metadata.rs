//! What a trace says about itself outside of its events.

use super::json;
use super::number;
use kbench_workload::Value;

/// The profiler that made the trace. What its records hold differs; see [`Metadata::profiler`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profiler {
    /// kineto over roctracer: launches name their kernels, replayed kernels are `Dispatch Task`.
    Roctracer,
    /// kineto over rocprofiler-sdk: kernel names end in `.kd`, launches do not name kernels.
    RocprofilerSdk,
    /// kineto over CUPTI (NVIDIA).
    Cupti,
    /// No marker: old libkineto, or a file that is not kineto's own.
    #[default]
    Unmarked,
}

impl Profiler {
    /// Words for output.
    pub fn name(self) -> &'static str {
        match self {
            Profiler::Roctracer => "kineto (roctracer)",
            Profiler::RocprofilerSdk => "kineto (rocprofiler-sdk)",
            Profiler::Cupti => "kineto (CUPTI)",
            Profiler::Unmarked => "kineto (no profiler marker)",
        }
    }
}

/// A GPU as the trace describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TraceDevice {
    /// Index that kernels refer to.
    pub id: u64,
    /// Marketing name; empty in some containers.
    pub name: String,
    /// Compute units (SMs on NVIDIA).
    pub compute_units: Option<u64>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Lanes of a wave.
    pub wave_size: Option<u64>,
}

/// What a trace says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// Which profiler wrote it.
    pub profiler: Profiler,
    /// HIP runtime as a number: major · 10^7 + minor · 10^5 + patch.
    pub hip_runtime_version: Option<u64>,
    /// CUDA runtime as a number.
    pub cuda_runtime_version: Option<u64>,
    /// Devices of the machine, used or not.
    pub devices: Vec<TraceDevice>,
    /// Rank in a distributed run.
    pub rank: Option<u64>,
    /// Ranks in all.
    pub world_size: Option<u64>,
    /// Shapes were recorded.
    pub record_shapes: bool,
    /// Python frames were recorded.
    pub with_stack: bool,
    /// Unix time that the timestamps count from, ns.
    pub base_time_ns: Option<u64>,
    /// Names of all top-level members in order, the first 64.
    pub keys: Vec<String>,
}

impl Metadata {
    /// HIP version as text, such as `7.2.53211`.
    pub fn hip_version(&self) -> Option<String> {
        let number = self.hip_runtime_version?;
        let (major, minor, patch) = (number / 10_000_000, number / 100_000 % 100, number % 100_000);
        Some(format!("{major}.{minor}.{patch}"))
    }

    /// Takes one member of the top-level object.
    pub(super) fn take(&mut self, key: &[u8], raw: &[u8]) {
        const MOST_KEYS: usize = 64;
        if self.keys.len() < MOST_KEYS {
            self.keys.push(json::text(key).chars().take(80).collect());
        }
        let flag = || number::id(raw).is_some_and(|number| number != 0) || raw == b"true";
        match key {
            b"roctracer_version" => self.profiler = Profiler::Roctracer,
            b"rocprofiler-sdk_version" => self.profiler = Profiler::RocprofilerSdk,
            b"cupti_version" => self.profiler = Profiler::Cupti,
            b"hip_runtime_version" => self.hip_runtime_version = number::id(raw),
            b"cuda_runtime_version" => self.cuda_runtime_version = number::id(raw),
            b"record_shapes" => self.record_shapes = flag(),
            b"with_stack" => self.with_stack = flag(),
            b"baseTimeNanoseconds" => self.base_time_ns = number::id(raw),
            b"deviceProperties" => self.devices = json::Elements::of(raw).map(device).collect(),
            b"distributedInfo" => {
                let info = json::value(raw);
                self.rank = size(&info, "rank");
                self.world_size = size(&info, "world_size");
            }
            _ => {}
        }
    }
}

fn field<'v>(object: &'v Value, key: &str) -> Option<&'v Value> {
    match object {
        Value::Map(members) => members.iter().find(|(name, _)| name == key).map(|(_, value)| value),
        _ => None,
    }
}

fn size(object: &Value, key: &str) -> Option<u64> {
    field(object, key).and_then(Value::as_size)
}

fn device(raw: &[u8]) -> TraceDevice {
    let object = json::value(raw);
    TraceDevice {
        id: size(&object, "id").unwrap_or_default(),
        name: field(&object, "name").and_then(Value::as_text).unwrap_or_default().to_owned(),
        compute_units: size(&object, "numSms"),
        memory_bytes: size(&object, "totalGlobalMem"),
        wave_size: size(&object, "warpSize"),
    }
}
