//! Counter sets by name, and free lists.

use crate::catalog::{Catalog, CatalogError};
use crate::nearest::nearest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Longest list of names that is read.
const MAX_NAMES: usize = 4096;

/// What to collect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CounterSet {
    /// Name of the set; `pmc` for a free list.
    pub name: String,
    /// Counters and metrics, each once.
    pub names: Vec<String>,
}

/// Why a set or a list cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// No set has this name.
    #[error("there is no counter set `{name}`; sets are default, memory, compute, lds, occupancy and all{}", hint(.nearest))]
    UnknownSet {
        /// The name, shortened to what a message can hold.
        name: String,
        /// Sets with names like it.
        nearest: Vec<String>,
    },
    /// The list has no names.
    #[error("the list of counters is empty; give names with commas or blanks between them (SQ_WAVES,TCC_HIT_sum)")]
    Empty,
    /// The list is longer than any device's.
    #[error("the list of counters has more than {MAX_NAMES} names")]
    TooMany,
    /// rocprofv3's `NAME:device=N`.
    #[error(
        "`{0}`: counters of single devices (`:device=`) are not collected here; choose the device with --device, and give the counter's name alone"
    )]
    Device(String),
    /// A name is not known.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
}

fn hint(nearest: &[String]) -> String {
    nearest.first().map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}

impl CounterSet {
    /// The set of a name on a catalogue's architecture; what the architecture lacks is left out. `all` is the union of the others.
    ///
    /// # Errors
    /// [`SetError::UnknownSet`], or a damaged built-in table.
    pub fn named(name: &str, catalog: &Catalog) -> Result<Self, SetError> {
        let rows = rows(name)?;
        let mut seen = BTreeSet::new();
        let items = rows.iter().flat_map(|row| &row.items);
        let names = items.filter(|item| catalog.find(item).is_ok() && seen.insert(item.as_str())).cloned().collect();
        Ok(Self { name: name.to_owned(), names })
    }

    /// A free list as `--pmc` takes it: names with commas or blanks between them.
    ///
    /// # Errors
    /// An empty list, a name that is not known (with names like it), or a form that is not supported.
    pub fn list(text: &str, catalog: &Catalog) -> Result<Self, SetError> {
        Self::of(names(text), catalog)
    }

    /// Whether there is a set of a name, on whatever architecture.
    ///
    /// # Errors
    /// [`SetError::UnknownSet`], or a damaged built-in table.
    pub fn check_name(name: &str) -> Result<(), SetError> {
        rows(name).map(|_| ())
    }

    /// Whether a text is a free list; which of its names there are, only a catalogue knows.
    ///
    /// # Errors
    /// An empty or endless list, or a form that is not supported.
    pub fn check_list(text: &str) -> Result<(), SetError> {
        listed(names(text)).map(|_| ())
    }

    /// A free list of single names.
    ///
    /// # Errors
    /// As [`CounterSet::list`].
    pub fn of<'n>(names: impl IntoIterator<Item = &'n str>, catalog: &Catalog) -> Result<Self, SetError> {
        let list = listed(names)?;
        for name in &list {
            catalog.find(name)?;
        }
        Ok(Self { name: "pmc".to_owned(), names: list })
    }

    /// Names of the sets and what they are for, `all` last.
    ///
    /// # Errors
    /// A damaged built-in table.
    pub fn descriptions() -> Result<Vec<(&'static str, &'static str)>, SetError> {
        let rows = table()?.set.iter().map(|row| (row.name.as_str(), row.text.as_str()));
        Ok(rows.chain([("all", "All of the above.")]).collect())
    }
}

/// The names of a free list.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ', '\t', '\n', '\r']).filter(|name| !name.is_empty())
}

/// Names that may be asked for, each once.
fn listed<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Vec<String>, SetError> {
    let mut seen = BTreeSet::new();
    let mut list = Vec::new();
    for name in names {
        if name.contains(":device=") {
            return Err(SetError::Device(name.chars().take(80).collect()));
        }
        if seen.insert(name) {
            list.push(name.to_owned());
        }
        if list.len() > MAX_NAMES {
            return Err(SetError::TooMany);
        }
    }
    if list.is_empty() { Err(SetError::Empty) } else { Ok(list) }
}

/// The rows of a set: one, or all.
fn rows(name: &str) -> Result<Vec<&'static Row>, SetError> {
    let table = table()?;
    let rows: Vec<&Row> = table.set.iter().filter(|row| name == "all" || row.name == name).collect();
    if rows.is_empty() {
        let known = table.set.iter().map(|row| row.name.as_str()).chain(["all"]);
        let shortened = name.chars().take(40).collect();
        return Err(SetError::UnknownSet { name: shortened, nearest: nearest(name, known) });
    }
    Ok(rows)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    set: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    text: String,
    items: Vec<String>,
}

static TABLE: LazyLock<Result<Table, CatalogError>> = LazyLock::new(|| {
    toml::from_str(include_str!("../data/sets.toml")).map_err(|error| CatalogError::Table(error.to_string()))
});

fn table() -> Result<&'static Table, SetError> {
    TABLE.as_ref().map_err(|error| SetError::Catalog(error.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Arch;

    #[test]
    fn every_item_of_a_set_is_known_on_some_architecture() {
        let catalogs: Vec<Catalog> = Arch::ALL.into_iter().map(|arch| Catalog::new(arch).unwrap()).collect();
        for row in &table().unwrap().set {
            for item in &row.items {
                assert!(catalogs.iter().any(|catalog| catalog.find(item).is_ok()), "{}: {item}", row.name);
            }
            for catalog in &catalogs {
                assert!(
                    !CounterSet::named(&row.name, catalog).unwrap().names.is_empty(),
                    "{} {}",
                    row.name,
                    catalog.arch()
                );
            }
        }
    }

    #[test]
    fn sets_leave_out_what_an_architecture_lacks() {
        let names = |arch| CounterSet::named("compute", &Catalog::new(arch).unwrap()).unwrap().names;
        let has = |arch, name: &str| names(arch).iter().any(|known| known == name);
        assert!(has(Arch::Gfx950, "mfma_flops_f6f4") && !has(Arch::Gfx942, "mfma_flops_f6f4"));
        assert!(has(Arch::Gfx942, "mfma_flops_f8") && !has(Arch::Gfx90a, "mfma_flops_f8"));
        assert!(!has(Arch::Gfx1100, "mfma_util"));
    }

    #[test]
    fn lists_are_read_with_commas_and_blanks_and_checked() {
        let catalog = Catalog::new(Arch::Gfx942).unwrap();
        let set = CounterSet::list("SQ_WAVES, TCC_HIT_sum FETCH_SIZE,SQ_WAVES", &catalog).unwrap();
        assert_eq!(set.names, ["SQ_WAVES", "TCC_HIT_sum", "FETCH_SIZE"]);
        assert!(CounterSet::list("SQ_WAVEZ", &catalog).unwrap_err().to_string().contains("SQ_WAVES"));
        assert_eq!(CounterSet::list(" , ", &catalog), Err(SetError::Empty));
        assert!(matches!(CounterSet::list("SQ_WAVES:device=0", &catalog), Err(SetError::Device(_))));
        assert_eq!(CounterSet::check_list(","), Err(SetError::Empty));
        assert_eq!(CounterSet::check_list("ANY_NAME,OTHER"), Ok(()));
        assert!(CounterSet::check_name("all").is_ok() && CounterSet::check_name("nope").is_err());
        let error = CounterSet::named("memroy", &catalog).unwrap_err();
        assert!(error.to_string().contains("did you mean memory"), "{error}");
    }
}
