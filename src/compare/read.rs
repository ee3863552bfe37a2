//! Runs as they are compared: the keys of `kbench.run/1` that matter, whatever else a document holds.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The schema whose documents are read.
const SCHEMA: &str = "kbench.run/1";
/// Endings that `--cache both` adds to case ids.
const CACHE_ENDINGS: [&str; 2] = ["@cold", "@warm"];

/// A run.
#[derive(Clone, Debug, Deserialize)]
pub struct Run {
    /// What made it.
    #[serde(default)]
    pub tool: BTreeMap<String, Value>,
    /// What ran it.
    pub device: Device,
    /// Facts about the surroundings.
    #[serde(default)]
    pub environment: BTreeMap<String, Value>,
    /// Options.
    #[serde(default)]
    pub options: BTreeMap<String, Value>,
    /// Cases.
    pub cases: Vec<Case>,
    /// True when it ended early.
    #[serde(default)]
    pub interrupted: bool,
}

/// A device.
#[derive(Clone, Debug, Deserialize)]
pub struct Device {
    /// `hip`, `emu` or `host`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its architecture.
    pub arch: String,
}

/// A case.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Its id as in the document.
    pub id: String,
    /// Family.
    pub family: String,
    /// Kernel of the profile.
    #[serde(default)]
    pub kernel: String,
    /// What it stands for.
    #[serde(default)]
    pub weight: Weight,
    /// `ok`, `skipped`, `wrong`, `failed` or `hung`.
    pub status: String,
    /// Why it is not `ok`.
    #[serde(default)]
    pub reason: Option<String>,
    /// The build.
    #[serde(default)]
    pub build: Option<Build>,
    /// Measured times.
    #[serde(default)]
    pub timing: Option<Timing>,
    /// Bound of an emulated case.
    #[serde(default)]
    pub bound: Option<Bound>,
    /// Counters by name.
    #[serde(default)]
    pub counters: BTreeMap<String, Counter>,
    /// Launches.
    #[serde(default)]
    pub launches: Vec<Launch>,
    /// The cache state asked for, where the document tells: small cases may have been measured in another.
    #[serde(skip)]
    pub requested: Option<String>,
}

/// A case's weight.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Weight {
    /// Calls in the profile.
    #[serde(default)]
    pub calls: u64,
    /// Share of the profile's kernel time.
    #[serde(default)]
    pub share: f64,
    /// Phase.
    #[serde(default)]
    pub phase: String,
}

/// A build.
#[derive(Clone, Debug, Deserialize)]
pub struct Build {
    /// Where it came from.
    #[serde(default)]
    pub file: String,
    /// Architecture it is built for.
    #[serde(default)]
    pub arch: String,
    /// SHA-256 of its code object.
    #[serde(default)]
    pub sha256: Option<String>,
    /// Kernels that a run of the case launches, in order.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// Registers, LDS and scratch by name.
    #[serde(default)]
    pub resources: BTreeMap<String, Value>,
}

/// Times.
#[derive(Clone, Debug, Deserialize)]
pub struct Timing {
    /// Time source.
    pub source: String,
    /// Cache state.
    pub cache: String,
    /// Median, ns.
    pub median_ns: f64,
    /// Its 95 % interval, ns.
    #[serde(default)]
    pub ci95_ns: Option<[f64; 2]>,
    /// Clock readings.
    #[serde(default)]
    pub clock: Option<Clock>,
}

/// Clock readings beside the samples.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Clock {
    /// Median over the samples, MHz.
    pub median_mhz: f64,
}

/// A bound.
#[derive(Clone, Debug, Deserialize)]
pub struct Bound {
    /// All launches, ns.
    pub ns: f64,
    /// What sets it.
    pub limiter: String,
    /// Each resource alone, ns.
    #[serde(default)]
    pub by_resource: BTreeMap<String, f64>,
}

/// A counter.
#[derive(Clone, Debug, Deserialize)]
pub struct Counter {
    /// Its value; `null` when it could not be read.
    pub value: Option<f64>,
    /// Its unit.
    #[serde(default)]
    pub unit: String,
    /// `measured`, `exact`, `model`, `derived`, `invalid` or `unavailable`.
    #[serde(default)]
    pub kind: String,
}

/// A launch.
#[derive(Clone, Debug, Deserialize)]
pub struct Launch {
    /// Kernel.
    #[serde(default)]
    pub kernel: String,
    /// Registers and scratch.
    #[serde(default)]
    pub resources: BTreeMap<String, u64>,
    /// LDS of a workgroup, bytes.
    #[serde(default)]
    pub lds_bytes: u64,
    /// Waves on a SIMD.
    #[serde(default)]
    pub waves_per_simd: Option<f64>,
    /// Wave instructions.
    #[serde(default)]
    pub instructions: Option<u64>,
    /// There when a part of the workgroups ran.
    #[serde(default)]
    pub sampled: Option<Sampled>,
}

/// How much of a grid ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Sampled {
    /// Workgroups that ran.
    pub ran: u64,
    /// Workgroups of the grid.
    pub workgroups: u64,
}

/// A document that cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Another kind of document.
    #[error("it is a `{0}`, and runs (`kbench.run/1`) are compared")]
    Schema(String),
    /// A key is missing or of a wrong type.
    #[error("it is no run as kbench writes them: {0}")]
    Shape(String),
    /// A number that cannot be.
    #[error("case `{id}`: {what}")]
    Value {
        /// The case.
        id: String,
        /// What is wrong.
        what: String,
    },
}

impl Run {
    /// Reads a document.
    ///
    /// # Errors
    /// When it has another schema, lacks a key, or holds a time that is not above zero.
    pub fn of(document: Value) -> Result<Self, ReadError> {
        match document.get("schema").and_then(Value::as_str) {
            Some(SCHEMA) => {}
            Some(other) => return Err(ReadError::Schema(other.to_owned())),
            None => return Err(ReadError::Shape("there is no `schema`".to_owned())),
        }
        let mut run: Self = serde_json::from_value(document).map_err(|error| ReadError::Shape(error.to_string()))?;
        run.cases.iter().try_for_each(Case::check)?;
        let only = match run.options.get("cache").and_then(Value::as_array).map(Vec::as_slice) {
            Some([mode]) => mode.as_str().map(str::to_owned),
            _ => None,
        };
        for case in &mut run.cases {
            case.requested = split_cache(&case.id).1.map(str::to_owned).or_else(|| only.clone());
        }
        Ok(run)
    }
}

impl Case {
    /// Whether a part of its workgroups was emulated, so that its counts are scaled.
    pub fn is_sampled(&self) -> bool {
        self.launches.iter().any(|launch| launch.sampled.is_some())
    }

    fn check(&self) -> Result<(), ReadError> {
        let wrong = |what: &str| Err(ReadError::Value { id: self.id.clone(), what: what.to_owned() });
        let time = |ns: f64| ns > 1e-9 && ns < 1e30;
        if let Some(timing) = &self.timing {
            let ends = timing.ci95_ns.unwrap_or([timing.median_ns; 2]);
            if !time(timing.median_ns) || !ends.iter().all(|ns| time(*ns)) || ends[0] > ends[1] {
                return wrong("its median or interval is no time above zero");
            }
            if timing.clock.is_some_and(|clock| !(clock.median_mhz > 0.0 && clock.median_mhz < 1e9)) {
                return wrong("its clock is no frequency above zero");
            }
        }
        match self.weight.share {
            share if (0.0..=1.000_001).contains(&share) => Ok(()),
            _ => wrong("its share is not between 0 and 1"),
        }
    }

    /// The id without the ending that `--cache both` adds.
    pub fn plain_id(&self) -> &str {
        split_cache(&self.id).0
    }

    /// The cache state it was measured in; from the id where nothing was measured.
    pub fn cache(&self) -> Option<&str> {
        self.timing.as_ref().map(|timing| timing.cache.as_str()).or_else(|| split_cache(&self.id).1)
    }

    /// Whether it ran and was right.
    pub fn is_ok(&self) -> bool {
        self.status == "ok"
    }
}

/// An id and the cache mode that `--cache both` added to it.
pub fn split_cache(id: &str) -> (&str, Option<&str>) {
    let found = CACHE_ENDINGS.iter().find_map(|ending| Some((id.strip_suffix(ending)?, &ending[1..])));
    found.map_or((id, None), |(plain, mode)| (plain, Some(mode)))
}

/// The text of a value, without quotes around strings.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
