//! Kernel manifests and launch descriptors: one schema, `kbench.kernels/1`, in TOML.
//!
//! A manifest beside a kernel's source says how kbench builds and launches it; a launch descriptor beside a code object
//! that somebody else built says how to launch that. Both hold *builds*. `docs/launch-descriptors.md` documents the schema.

mod check;
mod raw;

use crate::expr::{Expr, ExprError, Scope};
use std::collections::BTreeMap;
use std::fmt;

/// The schema's name.
pub const SCHEMA: &str = "kbench.kernels/1";
/// The largest manifest that is read, bytes.
pub const MAX_BYTES: usize = 1 << 20;
/// The most builds, launches, buffers or arguments in one list.
pub const MAX_ITEMS: usize = 512;

/// A parsed and checked manifest.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Its file, as errors name it.
    pub file: String,
    /// Its builds, in order. Names are unique.
    pub builds: Vec<Build>,
}

/// One way to run cases of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Build {
    /// Unique in its file.
    pub name: String,
    /// The family, by its name in documents.
    pub family: String,
    /// Where its code comes from.
    pub code: Code,
    /// Architectures, without feature suffixes.
    pub targets: Vec<String>,
    /// Role to the dtypes that it takes, any of which will do. Roles not listed are free.
    pub dtypes: BTreeMap<String, Vec<String>>,
    /// All must hold.
    pub when: Vec<Rule>,
    /// The highest that can run is taken.
    pub priority: i64,
    /// Variants, first that fits; never empty (a build without any has one with an empty name).
    pub variants: Vec<Variant>,
    /// Buffers beyond the family's tensors.
    pub buffers: Vec<Buffer>,
    /// Launches, in order; at least one.
    pub launches: Vec<Launch>,
    /// Words about it.
    pub doc: String,
    /// Where it stands in the file.
    pub line: usize,
}

/// Where code comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Code {
    /// HIP C++ that kbench compiles.
    Source {
        /// Path relative to the manifest, `/`-separated, without `..`.
        path: String,
        /// Macros. Builds with equal source and macros share one code object.
        defines: BTreeMap<String, String>,
    },
    /// A code object that kbench did not build: a path relative to the manifest.
    File(String),
}

/// A condition or size, with the place it was written at.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The expression.
    pub expr: Expr,
    /// Which key it is the value of: `build "x": launch 1: grid[0]`.
    pub place: String,
    /// Line in the file.
    pub line: usize,
}

/// A variant of a build.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variant {
    /// What `{variant}` stands for.
    pub name: String,
    /// All must hold.
    pub when: Vec<Rule>,
    /// Constants of the build's expressions.
    pub constants: BTreeMap<String, i128>,
    /// Words about it.
    pub doc: String,
}

/// A device buffer beyond the family's tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Buffer {
    /// Name; no tensor of the family may have it.
    pub name: String,
    /// Size and contents.
    pub content: Content,
    /// Zeroed before each launch sequence, outside the timed region.
    pub zero_before: bool,
    /// Present only when all hold.
    pub when: Vec<Rule>,
    /// Line in the file.
    pub line: usize,
}

/// What a buffer holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Bytes of a size that is an expression.
    Bytes {
        /// Size in bytes.
        bytes: Rule,
        /// First contents.
        init: Init,
    },
    /// A table of the device addresses of other buffers or tensors, 8 bytes each.
    Pointers(Vec<String>),
}

/// First contents of a buffer. Elements are little-endian and repeat, or are cut off, to fill the buffer where the
/// contents are shorter or longer, unless said otherwise.
#[derive(Clone, Debug, PartialEq)]
pub enum Init {
    /// As it comes.
    Uninitialised,
    /// Zeros.
    Zero,
    /// Every byte 0xff: a NaN in every floating-point format that has one, -1 as an integer.
    Poison,
    /// u32 0, 1, 2, ...
    IotaU32,
    /// One u32 everywhere.
    FillU32(Rule),
    /// One f32 everywhere.
    FillF32(Rule),
    /// These u32, then zeros.
    ValuesU32(Vec<Rule>),
    /// One u32 for each value of a list key, then zeros.
    ListU32 {
        /// The key.
        key: String,
        /// What is stored for a value, called `it`; the value itself when absent.
        each: Option<Rule>,
    },
    /// 0 and the running sums over a list key (`cu_seqlens`, `kv_indptr`), then zeros.
    PrefixSumU32 {
        /// The key.
        key: String,
        /// What is summed for a value, called `it`; the value itself when absent.
        each: Option<Rule>,
    },
    /// The bytes of a file, relative to the manifest; its size must be the buffer's.
    File(String),
}

/// How argument fields follow one another when they have no offset of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Each at the next multiple of its size, as C lays out a struct.
    #[default]
    Natural,
    /// Each at the start of the next 16-byte slot (AMD's hand-written gfx9 kernels).
    Slot16,
    /// Each right behind the one before it.
    Packed,
}

impl Layout {
    /// Name in a manifest.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Natural => "natural",
            Layout::Slot16 => "slot16",
            Layout::Packed => "packed",
        }
    }
}

/// One kernel launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// Symbol without `.kd`; may hold `{variant}`; `*` is the only kernel of the code object.
    pub kernel: String,
    /// Left out unless all hold.
    pub when: Vec<Rule>,
    /// Runs once when the data are there, before the others and outside what is timed and counted.
    pub setup: bool,
    /// Workgroups.
    pub grid: [Rule; 3],
    /// Work-items of a workgroup.
    pub block: [Rule; 3],
    /// Workgroups of a cluster (gfx1250).
    pub cluster: Option<[Rule; 3]>,
    /// Dynamic LDS, bytes.
    pub lds: Rule,
    /// Layout of fields without `at`.
    pub layout: Layout,
    /// Bytes passed; what fields and metadata need when absent.
    pub kernarg_size: Option<u32>,
    /// Arguments in order.
    pub args: Vec<Arg>,
    /// Line in the file.
    pub line: usize,
}

/// One field of the kernel arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// What messages call it: its `name`, else its source.
    pub name: String,
    /// Byte offset; laid out by [`Layout`] when absent.
    pub at: Option<u32>,
    /// Its value.
    pub source: ArgSource,
    /// Line in the file.
    pub line: usize,
}

/// Where an argument's value comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum ArgSource {
    /// The device address of a tensor or buffer.
    Pointer {
        /// Its name.
        target: String,
        /// Bytes added.
        offset: Option<Rule>,
        /// Null when the case has no such tensor.
        optional: bool,
    },
    /// A null pointer.
    Null,
    /// A number.
    Scalar(ScalarType, Rule),
}

/// The type of a number argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ScalarType {
    U8,
    U16,
    U32,
    I32,
    U64,
    I64,
    F32,
    F64,
}

impl ScalarType {
    /// Size and alignment in bytes.
    pub fn size(self) -> u32 {
        match self {
            ScalarType::U8 => 1,
            ScalarType::U16 => 2,
            ScalarType::U32 | ScalarType::I32 | ScalarType::F32 => 4,
            ScalarType::U64 | ScalarType::I64 | ScalarType::F64 => 8,
        }
    }

    /// Name in a manifest.
    pub fn name(self) -> &'static str {
        match self {
            ScalarType::U8 => "u8",
            ScalarType::U16 => "u16",
            ScalarType::U32 => "u32",
            ScalarType::I32 => "i32",
            ScalarType::U64 => "u64",
            ScalarType::I64 => "i64",
            ScalarType::F32 => "f32",
            ScalarType::F64 => "f64",
        }
    }
}

impl ArgSource {
    /// Size and alignment in bytes.
    pub fn size(&self) -> u32 {
        match self {
            ArgSource::Pointer { .. } | ArgSource::Null => 8,
            ArgSource::Scalar(kind, _) => kind.size(),
        }
    }
}

impl Manifest {
    /// Parses and checks a manifest; `file` names it in errors.
    ///
    /// # Errors
    /// When the text is not TOML, a key is unknown or missing, a value has the wrong type or meaning, or an expression
    /// cannot be parsed.
    pub fn parse(file: &str, text: &str) -> Result<Self, ManifestError> {
        check::manifest(file, text)
    }
}

impl Build {
    /// The kernel's symbol for a variant.
    pub fn kernel_name(launch: &Launch, variant: &Variant) -> String {
        launch.kernel.replace("{variant}", &variant.name)
    }
}

impl Rule {
    /// Evaluates with `how`, for instance `Expr::truth`, and names file, line, place and expression in an error.
    ///
    /// # Errors
    /// Those of the expression.
    pub fn eval<T>(&self, file: &str, how: impl FnOnce(&Expr) -> Result<T, ExprError>) -> Result<T, ManifestError> {
        how(&self.expr).map_err(|error| self.error(file, &error))
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// Those of the expression, and when it is no truth value.
    pub fn holds(&self, file: &str, scope: &Scope<'_>) -> Result<bool, ManifestError> {
        self.eval(file, |expr| expr.truth(scope))
    }

    fn error(&self, file: &str, error: &ExprError) -> ManifestError {
        let message = format!("{}: in \"{}\", {error}", self.place, self.expr);
        ManifestError { file: file.to_owned(), line: self.line, message }
    }
}

/// The first rule that does not hold.
///
/// # Errors
/// Those of the expressions before it.
pub fn first_failing<'a>(rules: &'a [Rule], file: &str, scope: &Scope<'_>) -> Result<Option<&'a Rule>, ManifestError> {
    for rule in rules {
        if !rule.holds(file, scope)? {
            return Ok(Some(rule));
        }
    }
    Ok(None)
}

/// A manifest that cannot be used: where and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ManifestError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}
