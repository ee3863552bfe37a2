//! The table from kernel names to families and categories.

use super::pattern::{self, PatternError, Subject};
use super::short;
use kbench_workload::Family;
use regex::bytes::{RegexSet, RegexSetBuilder};
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
    /// The patterns together are too large.
    #[error("{file}: the patterns of the kernel table are too large together: {reason}; use fewer regular expressions")]
    TooLarge {
        /// File name as given.
        file: String,
        /// The regular expression library's message.
        reason: String,
    },
}

/// An ordered list of patterns with what they mean; the first match wins. Cloning is cheap.
///
/// The format is described in `docs/names.md`. Classifying takes time linear in the name, independent of how many
/// patterns there are.
#[derive(Clone, Debug, Default)]
pub struct Table {
    layers: Vec<Arc<Layer>>,
}

/// The entries of one file.
#[derive(Debug)]
struct Layer {
    entries: Vec<Entry>,
    whole: Patterns,
    base: Patterns,
    op: Patterns,
}

#[derive(Debug)]
struct Entry {
    class: Class,
    is_weak: bool,
}

/// Patterns over one text, each with the entry it stands for, in the order of the entries.
#[derive(Debug)]
struct Patterns {
    set: RegexSet,
    entries: Vec<usize>,
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
    // The file is part of the program and parsed by every test run; an empty table is only a way not to panic.
    Table::parse(include_str!("../../data/kernels.toml"), "kernels.toml").unwrap_or_default()
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
        let file: File = toml::from_str(text).map_err(|error| TableError::Syntax {
            file: file_name.to_owned(),
            reason: error.to_string().trim_end().to_owned(),
        })?;
        let layer = Layer::build(file, &Source { text, file_name })?;
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
        let mut entries = Vec::new();
        let (mut whole, mut base, mut op) = (Vec::new(), Vec::new(), Vec::new());
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
            for name in &entry.names {
                match source.pattern(name)? {
                    (Subject::Whole, expression) => whole.push((expression, index)),
                    (Subject::Base, expression) => base.push((expression, index)),
                }
            }
            for name in &entry.op {
                op.push((source.pattern(name)?.1, index));
            }
            let family = entry
                .family
                .get_ref()
                .parse()
                .map_err(|error| source.error(entry.family.span().start, format!("{error}")))?;
            let FileEntry { category, provider, note, weak, .. } = entry;
            entries.push(Entry { class: Class { family, category, provider, note }, is_weak: weak });
        }
        let set = |patterns| {
            Patterns::build(patterns)
                .map_err(|reason| TableError::TooLarge { file: source.file_name.to_owned(), reason })
        };
        Ok(Layer { entries, whole: set(whole)?, base: set(base)?, op: set(op)? })
    }

    fn by_name(&self, whole: &str, base: &str) -> Option<&Entry> {
        let first = self.whole.first(whole).into_iter().chain(self.base.first(base)).min()?;
        self.entries.get(first)
    }

    fn by_op(&self, op: &str) -> Option<&Entry> {
        self.entries.get(self.op.first(op)?)
    }
}

impl Patterns {
    fn build(patterns: Vec<(String, usize)>) -> Result<Patterns, String> {
        let (expressions, entries): (Vec<String>, Vec<usize>) = patterns.into_iter().unzip();
        let set = RegexSetBuilder::new(&expressions)
            .unicode(false)
            .size_limit(64 << 20)
            .dfa_size_limit(16 << 20)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Patterns { set, entries })
    }

    /// The first entry with a pattern that matches.
    fn first(&self, text: &str) -> Option<usize> {
        let first = self.set.matches(text.as_bytes()).iter().next()?;
        self.entries.get(first).copied()
    }
}

/// Text of a table, for the line of an error.
struct Source<'a> {
    text: &'a str,
    file_name: &'a str,
}

impl Source<'_> {
    fn error(&self, offset: usize, reason: String) -> TableError {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        TableError::Entry { file: self.file_name.to_owned(), line, reason }
    }

    fn pattern(&self, pattern: &Spanned<String>) -> Result<(Subject, String), TableError> {
        pattern::compile(pattern.get_ref())
            .map_err(|error: PatternError| self.error(pattern.span().start, error.to_string()))
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
