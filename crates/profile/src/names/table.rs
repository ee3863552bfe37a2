//! The table from kernel names to families and categories.

use super::pattern::{Pattern, PatternError};
use super::short;
use kbench_workload::Family;
use serde::Deserialize;
use std::sync::{Arc, LazyLock};
use toml::Spanned;

/// What a kernel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// What it computes.
    pub family: Family,
    /// Category for reports: `Dense GEMM (BF16)`, `MoE Sort`, ...
    pub category: String,
    /// Who wrote the kernel: `aiter`, `rocBLAS`, `PyTorch`, ...; empty when the name does not tell.
    pub provider: String,
    /// A remark on the classification.
    pub note: Option<String>,
}

impl Class {
    /// A kernel that no table knows.
    pub fn other() -> Self {
        Class { family: Family::Other, category: "Other".to_owned(), provider: String::new(), note: None }
    }
}

/// A table cannot be used. The text names file and line and says what would be right.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file is no TOML of the table's form.
    #[error("{file}: the kernel table cannot be read: {reason}")]
    Syntax {
        /// File name as given.
        file: String,
        /// The parser's message, with line and column.
        reason: String,
    },
    /// An entry is well-formed but wrong.
    #[error("{file}:{line}: {reason}")]
    Entry {
        /// File name as given.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong and what would be right.
        reason: String,
    },
}

/// An ordered list of patterns with what they mean; the first match wins. Cloning is cheap.
///
/// The format is described in `docs/names.md`. Patterns are tried in order; a regular expression is compiled when the first name needs it, so
/// that a start costs nothing for those that no name of a profile comes near.
#[derive(Clone, Debug, Default)]
pub struct Table {
    layers: Vec<Arc<Layer>>,
}

/// The entries of one file.
#[derive(Debug)]
struct Layer {
    entries: Vec<Entry>,
    /// Patterns over kernel names, each with the entry it stands for, in the order of the entries.
    names: Vec<(Pattern, usize)>,
    /// The same over operator names.
    ops: Vec<(Pattern, usize)>,
}

#[derive(Debug)]
struct Entry {
    class: Class,
    is_weak: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    kernel: Vec<Spanned<FileEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    #[serde(default, rename = "match")]
    names: Vec<Spanned<String>>,
    #[serde(default)]
    op: Vec<Spanned<String>>,
    family: Spanned<String>,
    category: String,
    #[serde(default)]
    provider: String,
    #[serde(default)]
    weak: bool,
    note: Option<String>,
}

static BUILTIN: LazyLock<Table> = LazyLock::new(|| {
    // The file is part of the program, and a test checks all of it; an empty table is only a way not to panic.
    let text = include_str!("../../data/kernels.toml");
    Table::read(&Source { text, file_name: "kernels.toml", is_checked: false }).unwrap_or_default()
});

impl Table {
    /// The table that comes with kbench (`crates/profile/data/kernels.toml`).
    pub fn builtin() -> Table {
        BUILTIN.clone()
    }

    /// Reads a table; `file_name` is for messages only.
    ///
    /// # Errors
    /// When the text is no TOML of the documented form, a family is unknown, a pattern is no regular expression or would
    /// match every name, or an entry has no pattern.
    pub fn parse(text: &str, file_name: &str) -> Result<Table, TableError> {
        Self::read(&Source { text, file_name, is_checked: true })
    }

    fn read(source: &Source<'_>) -> Result<Table, TableError> {
        let file: File = toml::from_str(source.text).map_err(|error| TableError::Syntax {
            file: source.file_name.to_owned(),
            reason: error.to_string().trim_end().to_owned(),
        })?;
        let layer = Layer::build(file, source)?;
        Ok(Table { layers: vec![Arc::new(layer)] })
    }

    /// This table with the user's in front of it: what the user's names decide, this one is not asked.
    #[must_use]
    pub fn with_user(&self, user: Table) -> Table {
        Table { layers: user.layers.into_iter().chain(self.layers.iter().cloned()).collect() }
    }

    /// What the kernel of a canonical name is.
    ///
    /// The first entry whose name pattern matches decides. Only when there is none, or it is marked `weak`, the name of
    /// the operator that launched the kernel is looked up.
    pub fn classify(&self, canonical_name: &str, op: Option<&str>) -> Class {
        let base = short::kernel(canonical_name).base;
        let by_name = self.layers.iter().find_map(|layer| layer.by_name(canonical_name, base));
        if let Some(entry) = by_name.filter(|entry| !entry.is_weak) {
            return entry.class.clone();
        }
        let by_op = op.and_then(|op| self.layers.iter().find_map(|layer| layer.by_op(op)));
        by_op.or(by_name).map_or_else(Class::other, |entry| entry.class.clone())
    }
}

impl Layer {
    fn build(file: File, source: &Source<'_>) -> Result<Layer, TableError> {
        let (mut entries, mut names, mut ops) = (Vec::new(), Vec::new(), Vec::new());
        for spanned in file.kernel {
            let start = spanned.span().start;
            let entry = spanned.into_inner();
            let index = entries.len();
            if entry.names.is_empty() && entry.op.is_empty() {
                return Err(source.error(start, "an entry needs `match` or `op` with at least one pattern".to_owned()));
            }
            if entry.category.trim().is_empty() {
                return Err(source.error(start, "an entry's `category` must not be empty".to_owned()));
            }
            for (patterns, list) in [(&entry.names, &mut names), (&entry.op, &mut ops)] {
                for pattern in patterns {
                    list.push((source.pattern(pattern)?, index));
                }
            }
            let family = entry
                .family
                .get_ref()
                .parse()
                .map_err(|error| source.error(entry.family.span().start, format!("{error}")))?;
            let FileEntry { category, provider, note, weak, .. } = entry;
            entries.push(Entry { class: Class { family, category, provider, note }, is_weak: weak });
        }
        Ok(Layer { entries, names, ops })
    }

    fn by_name(&self, whole: &str, base: &str) -> Option<&Entry> {
        self.first(&self.names, whole, base)
    }

    fn by_op(&self, op: &str) -> Option<&Entry> {
        self.first(&self.ops, op, op)
    }

    /// The entry of the first pattern that matches.
    fn first(&self, patterns: &[(Pattern, usize)], whole: &str, base: &str) -> Option<&Entry> {
        let (_, entry) = patterns.iter().find(|(pattern, _)| pattern.is_match(whole, base))?;
        self.entries.get(*entry)
    }
}

/// Text of a table, for the line of an error.
struct Source<'a> {
    text: &'a str,
    file_name: &'a str,
    /// Compile every expression to see that it can be.
    is_checked: bool,
}

impl Source<'_> {
    fn error(&self, offset: usize, reason: String) -> TableError {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        TableError::Entry { file: self.file_name.to_owned(), line, reason }
    }

    fn pattern(&self, pattern: &Spanned<String>) -> Result<Pattern, TableError> {
        let wrong = |error: PatternError| self.error(pattern.span().start, error.to_string());
        let found = Pattern::parse(pattern.get_ref()).map_err(wrong)?;
        if self.is_checked {
            found.check().map_err(wrong)?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USER: &str = r#"
# A kernel of our own.
[[kernel]]
match = ["=my_attention*"]
family = "paged_attention"
category = "Our Attention"
provider = "us"

[[kernel]]
match = ["Cijk_"]
family = "other"
category = "Hidden"
note = "for a test"

[[kernel]]
match = ["generic_kernel"]
op = ["our::norm"]
family = "elementwise"
category = "Generic"
weak = true

[[kernel]]
op = ["our::gemm*"]
family = "gemm"
category = "Our GEMM"
"#;

    #[test]
    fn the_builtin_table_is_well_formed() {
        let text = include_str!("../../data/kernels.toml");
        let table = Table::parse(text, "kernels.toml").unwrap();
        assert!(table.layers[0].entries.len() > 100);
        assert_eq!(Table::builtin().layers[0].entries.len(), table.layers[0].entries.len());
    }

    #[test]
    fn a_user_table_stands_before_the_builtin() {
        let table = Table::builtin().with_user(Table::parse(USER, "mine.toml").unwrap());
        let class = table.classify("ns::my_attention_v2<4>(int)", None);
        assert_eq!((class.family, class.category.as_str()), (Family::PagedAttention, "Our Attention"));
        assert_eq!(class.provider, "us");
        let class = table.classify("Cijk_Alik_Bljk_BBS", None);
        assert_eq!((class.category.as_str(), class.note.as_deref()), ("Hidden", Some("for a test")));
        // What the user's table does not know is the builtin's.
        assert_eq!(table.classify("attn_fwd", None).family, Family::Fmha);
        assert_eq!(Table::builtin().classify("Cijk_Alik_Bljk_BBS", None).family, Family::Gemm);
    }

    #[test]
    fn operators_decide_where_names_do_not() {
        let table = Table::parse(USER, "mine.toml").unwrap();
        let category = |name, op| table.classify(name, op).category;
        assert_eq!(category("unheard_of", Some("our::gemm_fp8")), "Our GEMM");
        assert_eq!(category("unheard_of", None), "Other");
        assert_eq!(category("unheard_of", Some("their::gemm")), "Other");
        assert_eq!(category("my_attention", Some("our::gemm")), "Our Attention");
        assert_eq!(category("generic_kernel", Some("our::gemm")), "Our GEMM");
        assert_eq!(category("generic_kernel", Some("our::unknown")), "Generic");
        assert_eq!(category("generic_kernel", None), "Generic");
    }

    proptest! {
        #[test]
        fn any_table_and_name_are_accepted_or_refused(
            text in prop::collection::vec(prop::sample::select(vec![
                "[[kernel]]\n", "match = [", "\"re:(\"", "\"x*y\"", "\"re:x|[a-c]+y\"", "]\n", ",", "family = \"gemm\"\n",
                "category = \"c\"\n", "op = [\"=o\"]\n", "weak = true\n", "\n", "[", "\"", "é",
            ]), 0..20),
            name in any::<String>(),
        ) {
            let table = Table::parse(&text.concat(), "t.toml").unwrap_or_default();
            Table::builtin().with_user(table).classify(&name, Some(&name));
        }
    }

    #[test]
    fn errors_name_the_line_and_say_what_is_right() {
        let cases: &[(&str, &[&str])] = &[
            (
                "[[kernel]]\nmatch = [\"x\"]\nfamily = \"gem\"\ncategory = \"c\"\n",
                &["t.toml:3:", "no such family", "gemm"],
            ),
            ("[[kernel]]\nfamily = \"gemm\"\ncategory = \"c\"\n", &["t.toml:1:", "needs `match` or `op`"]),
            (
                "[[kernel]]\nmatch = [\n\"x\",\n\"*\"]\nfamily = \"gemm\"\ncategory = \"c\"\n",
                &["t.toml:4:", "matches every name"],
            ),
            (
                "[[kernel]]\nmatch = [\"re:(\"]\nfamily = \"gemm\"\ncategory = \"c\"\n",
                &["t.toml:2:", "no regular expression"],
            ),
            ("[[kernel]]\nmatch = [\"x\"]\nfamily = \"gemm\"\ncategory = \" \"\n", &["t.toml:1:", "category"]),
            ("[[kernel]]\nmatches = [\"x\"]\nfamily = \"gemm\"\n", &["t.toml", "line 2", "matches"]),
            ("[[kernel]\n", &["t.toml", "line 1"]),
        ];
        for (text, parts) in cases {
            let message = Table::parse(text, "t.toml").unwrap_err().to_string();
            for part in *parts {
                assert!(message.contains(part), "{message} lacks {part}");
            }
        }
    }
}
