//! Which build and variant runs a case, and why the others do not.

use crate::expr::Scope;
use crate::manifest::{Build, ManifestError, Rule, Variant, first_failing};
use crate::symbols::{DeviceInfo, Symbols};
use std::cmp::Reverse;
use std::fmt;

/// A case as choosing sees it.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    /// The family, by its name in documents.
    pub family: &'a str,
    /// The dtype of a role, by its name in documents; `None` when the case does not say.
    pub dtype: &'a dyn Fn(&str) -> Option<String>,
    /// Sizes and tensors.
    pub symbols: &'a dyn Symbols,
}

/// Why a build cannot run a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// It is for other architectures.
    Arch {
        /// Those that it is for.
        targets: Vec<String>,
        /// The device's.
        found: String,
    },
    /// A dtype does not fit.
    Dtype {
        /// The role.
        role: String,
        /// What it takes.
        wanted: Vec<String>,
        /// What the case has.
        found: Option<String>,
    },
    /// A condition does not hold.
    When {
        /// The condition as written.
        rule: String,
        /// Line in the manifest.
        line: usize,
    },
    /// No variant fits: the condition of each that does not hold.
    NoVariant(Vec<(String, String)>),
    /// An expression has no value for this case.
    Error(ManifestError),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Arch { targets, found } => write!(f, "for {}, not {found}", targets.join(", ")),
            Refusal::Dtype { role, wanted, found } => {
                let found = found.as_deref().unwrap_or("unknown");
                write!(f, "takes {} for {role}, the case has {found}", wanted.join(" or "))
            }
            Refusal::When { rule, .. } => write!(f, "needs {rule}"),
            Refusal::NoVariant(variants) => {
                f.write_str("no variant fits:")?;
                for (index, (name, rule)) in variants.iter().enumerate() {
                    write!(f, "{} {name} needs {rule}", if index == 0 { "" } else { ";" })?;
                }
                Ok(())
            }
            Refusal::Error(error) => error.fmt(f),
        }
    }
}

/// True when a case's dtype is one that a build takes. `fp8` and `bf8` stand for either flavour, as in an inventory.
pub fn dtype_fits(wanted: &str, found: &str) -> bool {
    wanted == found
        || match wanted {
            "fp8" => matches!(found, "fp8_e4m3fn" | "fp8_e4m3fnuz"),
            "bf8" => matches!(found, "fp8_e5m2" | "fp8_e5m2fnuz"),
            _ => false,
        }
}

/// The variant of a build that runs a case. The family is not looked at.
///
/// # Errors
/// Why it does not run it.
pub fn variant_for<'b>(
    file: &str,
    build: &'b Build,
    case: &Case<'_>,
    device: &DeviceInfo,
) -> Result<&'b Variant, Refusal> {
    if !build.targets.contains(&device.arch) {
        return Err(Refusal::Arch { targets: build.targets.clone(), found: device.arch.clone() });
    }
    for (role, wanted) in &build.dtypes {
        let found = (case.dtype)(role);
        if !found.as_ref().is_some_and(|found| wanted.iter().any(|wanted| dtype_fits(wanted, found))) {
            return Err(Refusal::Dtype { role: role.clone(), wanted: wanted.clone(), found });
        }
    }
    let failing = |rules: &'b [Rule], variant: &Variant| {
        let scope = Scope { symbols: case.symbols, constants: &variant.constants, device, local: None };
        first_failing(rules, file, &scope).map_err(Refusal::Error)
    };
    if let Some(rule) = failing(&build.when, &Variant::default())? {
        return Err(Refusal::When { rule: rule.expr.text().to_owned(), line: rule.line });
    }
    let mut refused = Vec::new();
    for variant in &build.variants {
        match failing(&variant.when, variant)? {
            None => return Ok(variant),
            Some(rule) => refused.push((variant.name.clone(), rule.expr.text().to_owned())),
        }
    }
    Err(Refusal::NoVariant(refused))
}

/// What [`select`] found.
#[derive(Debug)]
pub struct Selection<'b> {
    /// The build and variant that run the case, with the index of the build among those offered.
    pub chosen: Option<(usize, &'b Build, &'b Variant)>,
    /// The builds of the family that do not run it and were asked before, in the order of asking.
    pub refused: Vec<(usize, &'b Build, Refusal)>,
}

/// Chooses among builds, each with the file it stands in: highest priority first, then the order offered. Builds of other
/// families are passed over.
pub fn select<'b>(
    builds: impl IntoIterator<Item = (&'b str, &'b Build)>,
    case: &Case<'_>,
    device: &DeviceInfo,
) -> Selection<'b> {
    let mut candidates: Vec<_> =
        builds.into_iter().enumerate().filter(|(_, (_, build))| build.family == case.family).collect();
    candidates.sort_by_key(|(_, (_, build))| Reverse(build.priority));
    let mut refused = Vec::new();
    for (index, (file, build)) in candidates {
        match variant_for(file, build, case, device) {
            Ok(variant) => return Selection { chosen: Some((index, build, variant)), refused },
            Err(refusal) => refused.push((index, build, refusal)),
        }
    }
    Selection { chosen: None, refused }
}
