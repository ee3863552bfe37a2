//! What is emulated: devices, threads, limits, and the mishaps that were asked for.

use crate::clock::ClockScript;
use crate::fault::FaultPlan;
use kbench_gfx_emu::mem::Bounds;
use kbench_gfx_emu::model::Model;
use std::sync::Mutex;
use std::time::Duration;

/// Devices that a process can have.
pub const MAX_DEVICES: usize = 16;

/// The emulated machine. [`Config::from_env`] reads it from the environment.
#[derive(Clone, Debug)]
pub struct Config {
    /// Model names of the devices in order (`mi300x`, ...); none is a machine without a GPU.
    pub devices: Vec<String>,
    /// Host threads that execute a launch; results do not depend on it.
    pub threads: usize,
    /// Size of each device's memory in bytes, where it is not to be the model's.
    pub memory_bytes: Option<u64>,
    /// Workgroups to run of each launch; 0 runs all. See `rocmEmuSetSample`.
    pub sample: u64,
    /// Whether launches are reported. See `rocmEmuSetReports`.
    pub reports: bool,
    /// How strictly kernels' accesses are held to allocations.
    pub bounds: Bounds,
    /// Wave instructions after which a launch is ended.
    pub instruction_limit: u64,
    /// Real time after which a launch is ended.
    pub time_limit: Option<Duration>,
    /// Faults on purpose.
    pub faults: FaultPlan,
    /// Noise on the virtual clock.
    pub clock: ClockScript,
}

impl Default for Config {
    /// One MI300X, all host threads, nothing that goes wrong.
    fn default() -> Self {
        Self {
            devices: vec!["mi300x".to_owned()],
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: None,
            sample: 0,
            reports: true,
            bounds: Bounds::Exact,
            instruction_limit: u64::MAX,
            time_limit: None,
            faults: FaultPlan::default(),
            clock: ClockScript::default(),
        }
    }
}

/// Why a machine cannot be emulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// HIP has been initialised already.
    #[error("the emulated GPU is in use already: configure it before the first HIP call")]
    InUse,
    /// A variable's value is no good.
    #[error("{variable}={value}: {reason}")]
    Variable {
        /// The environment variable, or the field.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

impl Config {
    /// The machine that the environment describes: `ROCM_EMU_DEVICE`, `ROCM_EMU_THREADS`, `ROCM_EMU_MEMORY`, `ROCM_EMU_SAMPLE`, `ROCM_EMU_REPORTS`,
    /// `ROCM_EMU_BOUNDS`, `ROCM_EMU_TIME_LIMIT`, `ROCM_EMU_FAULT`, `ROCM_EMU_CLOCK` (`docs/emulated-hip.md`).
    ///
    /// # Errors
    /// When a variable's value is no good.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_variables(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// The same from any source of variables.
    ///
    /// # Errors
    /// When a variable's value is no good.
    pub fn from_variables(get: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        let set = |variable: &'static str| {
            get(variable).filter(|value| !value.trim().is_empty()).map(|value| (variable, value))
        };
        let wrong = |(variable, value): (&'static str, String), reason: String| ConfigError::Variable {
            variable,
            value,
            reason,
        };
        let number = |set: (&'static str, String)| {
            set.1.trim().parse::<u64>().map_err(|_| wrong(set, "it is not a whole number".to_owned()))
        };
        if let Some((_, value)) = set("ROCM_EMU_DEVICE") {
            config.devices = match value.trim() {
                "none" => Vec::new(),
                names => names.split(',').map(|name| name.trim().to_owned()).collect(),
            };
        }
        if let Some(threads) = set("ROCM_EMU_THREADS") {
            config.threads = number(threads)?.clamp(1, 1024) as usize;
        }
        if let Some(memory) = set("ROCM_EMU_MEMORY") {
            let bytes =
                bytes(&memory.1).ok_or_else(|| wrong(memory, "it is not a size such as 8GiB or 500MB".to_owned()))?;
            config.memory_bytes = Some(bytes);
        }
        if let Some(sample) = set("ROCM_EMU_SAMPLE") {
            config.sample = number(sample)?;
        }
        if let Some(reports) = set("ROCM_EMU_REPORTS") {
            config.reports = number(reports)? != 0;
        }
        if let Some(limit) = set("ROCM_EMU_TIME_LIMIT") {
            config.time_limit = Some(Duration::from_secs(number(limit)?));
        }
        if let Some(bounds) = set("ROCM_EMU_BOUNDS") {
            config.bounds = match bounds.1.trim() {
                "exact" => Bounds::Exact,
                "page" => Bounds::Page,
                _ => return Err(wrong(bounds, "it is `exact` or `page`".to_owned())),
            };
        }
        if let Some(faults) = set("ROCM_EMU_FAULT") {
            config.faults =
                faults.1.parse().map_err(|error: crate::fault::FaultPlanError| wrong(faults, error.to_string()))?;
        }
        if let Some(clock) = set("ROCM_EMU_CLOCK") {
            config.clock =
                clock.1.parse().map_err(|error: crate::clock::ClockScriptError| wrong(clock, error.to_string()))?;
        }
        config.models()?;
        Ok(config)
    }

    /// The models of the devices.
    ///
    /// # Errors
    /// When there is none of a name, or there are too many.
    pub fn models(&self) -> Result<Vec<&'static Model>, ConfigError> {
        let wrong = |reason: String| ConfigError::Variable {
            variable: "ROCM_EMU_DEVICE",
            value: self.devices.join(","),
            reason,
        };
        if self.devices.len() > MAX_DEVICES {
            return Err(wrong(format!("{MAX_DEVICES} devices are the most")));
        }
        self.devices.iter().map(|name| Model::named(name).map_err(|error| wrong(error.to_string()))).collect()
    }
}

/// `8GiB`, `500MB`, `4096`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let units = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("B", 1),
    ];
    let found = units.iter().find_map(|(unit, size)| Some((text.strip_suffix(unit)?, *size)));
    let (digits, unit): (&str, u64) = found.unwrap_or((text, 1));
    digits.trim().parse::<u64>().ok()?.checked_mul(unit)
}

static WANTED: Mutex<Option<Config>> = Mutex::new(None);

/// Describes the machine for this process, before its first HIP call. Without it the environment does.
///
/// # Errors
/// When HIP has been initialised, or a model does not exist.
pub fn configure(config: Config) -> Result<(), ConfigError> {
    config.models()?;
    let mut wanted = WANTED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if crate::state::is_initialised() {
        return Err(ConfigError::InUse);
    }
    *wanted = Some(config);
    Ok(())
}

/// The configuration that HIP is initialised with, or a machine without devices and the reason on standard error.
pub(crate) fn wanted() -> Config {
    described().unwrap_or_else(|error| {
        eprintln!("rocm-emu: {error}. No device is emulated.");
        nothing()
    })
}

/// The machine as it is, or as it will be once HIP is initialised, without a word on standard error.
pub(crate) fn current() -> Config {
    match crate::state::config() {
        Some(config) => config.clone(),
        None => described().unwrap_or_else(|_| nothing()),
    }
}

/// What [`configure`] was given, else what the environment says.
fn described() -> Result<Config, ConfigError> {
    let wanted = WANTED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    wanted.map_or_else(Config::from_env, Ok)
}

/// A machine without devices.
fn nothing() -> Config {
    Config { devices: Vec::new(), ..Config::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from_variables(|name| pairs.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn variables_say_what_they_mean() {
        let config = read(&[
            ("ROCM_EMU_DEVICE", "mi300x, mi210"),
            ("ROCM_EMU_THREADS", "3"),
            ("ROCM_EMU_MEMORY", "8GiB"),
            ("ROCM_EMU_BOUNDS", "page"),
            ("ROCM_EMU_TIME_LIMIT", "5"),
        ])
        .unwrap();
        assert_eq!((config.devices.len(), config.threads, config.memory_bytes), (2, 3, Some(8 << 30)));
        assert_eq!((config.bounds, config.time_limit), (Bounds::Page, Some(Duration::from_secs(5))));
        assert_eq!(read(&[]).unwrap().devices, ["mi300x"]);
        assert!(read(&[("ROCM_EMU_DEVICE", "none")]).unwrap().devices.is_empty());
    }

    #[test]
    fn wrong_values_name_their_variable() {
        for (variable, value) in [
            ("ROCM_EMU_DEVICE", "mi9000x"),
            (
                "ROCM_EMU_DEVICE",
                "mi210,mi210,mi210,mi210,mi210,mi210,mi210,mi210,mi210,mi210,mi210,mi210,mi210,mi210,mi210,mi210,mi210",
            ),
            ("ROCM_EMU_THREADS", "many"),
            ("ROCM_EMU_MEMORY", "8 bananas"),
            ("ROCM_EMU_BOUNDS", "loose"),
            ("ROCM_EMU_FAULT", "melt@1"),
            ("ROCM_EMU_CLOCK", "wobble"),
        ] {
            let error = read(&[(variable, value)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{variable}={value}: ")), "{error}");
        }
        assert_eq!(
            ["1KiB", "2 MB", "7", "9B", "99999999999GiB"].map(bytes),
            [Some(1024), Some(2_000_000), Some(7), Some(9), None]
        );
    }
}
