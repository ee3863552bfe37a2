//! A gate as a TOML file. It is strict: a key that is not known is an error, not a limit that nobody checks.

use super::gate::{Gate, GateError, Limits};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Largest file that is read, bytes.
pub const LARGEST: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    default: BTreeMap<String, String>,
    #[serde(default)]
    family: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(default)]
    case: Vec<CaseEntry>,
    #[serde(default)]
    step: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseEntry {
    #[serde(rename = "match")]
    pattern: String,
    limits: BTreeMap<String, String>,
}

/// Reads a gate file's text into a gate that lists on the command line may then add to.
///
/// # Errors
/// When it is no TOML, has a key that is not known, or holds what is no metric, family or limit.
pub fn parse(text: &str) -> Result<Gate, GateError> {
    if text.len() as u64 > LARGEST {
        return Err(GateError::File("it is larger than 1 MiB".to_owned()));
    }
    let file: File = toml::from_str(text).map_err(|error| GateError::File(error.to_string().trim_end().to_owned()))?;
    let mut gate = Gate::default();
    fill(&mut gate.default, &file.default)?;
    for (family, limits) in &file.family {
        fill(gate.family_mut(family)?, limits)?;
    }
    for entry in file.case {
        let mut limits = Limits::default();
        fill(&mut limits, &entry.limits)?;
        gate.case.push((entry.pattern, limits));
    }
    if let Some(limit) = file.step {
        gate.set_step(limit.parse()?)?;
    }
    Ok(gate)
}

fn fill(limits: &mut Limits, given: &BTreeMap<String, String>) -> Result<(), GateError> {
    given.iter().try_for_each(|(name, limit)| limits.set(name, limit.parse()?))
}
