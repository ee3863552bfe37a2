//! A build at one case: every size, offset and value of its launches as numbers.

use crate::expr::{Expr, Scope};
use crate::kernarg::{self, ArgValue, PlacedArg};
use crate::manifest::{
    Arg, ArgSource, Buffer, Build, Content, Init, Launch, ManifestError, Rule, ScalarType, Variant, first_failing,
};
use crate::symbols::{DeviceInfo, Symbols, Value};
use std::collections::BTreeMap;

/// The largest buffer, bytes: beyond any GPU's memory.
const MAX_BUFFER: u64 = 1 << 42;

/// What is launched for one case.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchPlan {
    /// The build's name.
    pub build: String,
    /// The variant's name; empty when the build has none.
    pub variant: String,
    /// Buffers beyond the family's tensors, in the order in which they can be made (tables of pointers last).
    pub buffers: Vec<PlannedBuffer>,
    /// Launches, in order, those that set up first; at least one is none of these.
    pub launches: Vec<PlannedLaunch>,
}

/// A buffer with its size.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedBuffer {
    /// Name.
    pub name: String,
    /// Bytes, at least 1.
    pub bytes: u64,
    /// First contents.
    pub fill: Fill,
    /// Zeroed before each launch sequence.
    pub zero_before: bool,
}

/// First contents of a planned buffer.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    /// As it comes.
    Uninitialised,
    /// This byte everywhere.
    Byte(u8),
    /// u32 0, 1, 2, ...
    IotaU32,
    /// This u32 everywhere (also the bits of an f32).
    Word(u32),
    /// These u32, then zeros; cut off at the buffer's end.
    Words(Vec<u32>),
    /// The bytes of a file, relative to the manifest.
    File(String),
    /// The device addresses of these, 8 bytes each.
    Pointers(Vec<String>),
}

/// A launch as numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedLaunch {
    /// Symbol without `.kd`; `*` for the only kernel of the code object.
    pub kernel: String,
    /// Workgroups, each at least 1.
    pub grid: [u32; 3],
    /// Work-items of a workgroup, each at least 1.
    pub block: [u32; 3],
    /// Workgroups of a cluster.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic LDS, bytes.
    pub dynamic_lds: u32,
    /// Arguments.
    pub args: Vec<PlacedArg>,
    /// Bytes to pass when the manifest says so.
    pub kernarg_size: Option<u32>,
    /// Runs once when the data are there, outside what is timed and counted.
    pub setup: bool,
    /// Its place in [`Build::launches`].
    pub index: usize,
}

impl Fill {
    /// Writes the contents; does nothing for what a host cannot know (`Uninitialised`, `File`, `Pointers`), which the
    /// caller handles, and returns false then.
    pub fn write(&self, bytes: &mut [u8]) -> bool {
        let words = |bytes: &mut [u8], word: &dyn Fn(usize) -> u32| {
            for (index, chunk) in bytes.chunks_mut(4).enumerate() {
                let value = word(index).to_le_bytes();
                for (place, byte) in chunk.iter_mut().zip(value) {
                    *place = byte;
                }
            }
        };
        match self {
            Fill::Uninitialised | Fill::File(_) | Fill::Pointers(_) => return false,
            Fill::Byte(byte) => bytes.fill(*byte),
            Fill::IotaU32 => words(bytes, &|index| index as u32),
            Fill::Word(word) => words(bytes, &|_| *word),
            Fill::Words(values) => words(bytes, &|index| values.get(index).copied().unwrap_or(0)),
        }
        true
    }
}

/// Evaluates a build's launches for a case.
///
/// # Errors
/// When an expression has no value, a size is out of range, a pointer names nothing, or nothing is left to launch. The
/// error names file, line, build, place and column.
pub fn plan(
    file: &str,
    build: &Build,
    variant: &Variant,
    symbols: &dyn Symbols,
    device: &DeviceInfo,
) -> Result<LaunchPlan, ManifestError> {
    let scope = Scope { symbols, constants: &variant.constants, device, local: None };
    let planner = Planner { file, build, variant, scope };
    let (buffers, present) = planner.buffers()?;
    let mut launches = Vec::new();
    for (index, launch) in build.launches.iter().enumerate() {
        if first_failing(&launch.when, file, &scope)?.is_none() {
            launches.push(planner.launch(index, launch, &present)?);
        }
    }
    if launches.iter().all(|launch: &PlannedLaunch| launch.setup) {
        return Err(planner.error(build.line, "every launch is left out for this case".to_owned()));
    }
    launches.sort_by_key(|launch| !launch.setup);
    Ok(LaunchPlan { build: build.name.clone(), variant: variant.name.clone(), buffers, launches })
}

struct Planner<'a> {
    file: &'a str,
    build: &'a Build,
    variant: &'a Variant,
    scope: Scope<'a>,
}

impl Planner<'_> {
    fn error(&self, line: usize, message: String) -> ManifestError {
        let message = format!("build \"{}\": {message}", self.build.name);
        ManifestError { file: self.file.to_owned(), line, message }
    }

    fn rule_error(&self, rule: &Rule, message: String) -> ManifestError {
        let message = format!("{}: \"{}\" {message}", rule.place, rule.expr);
        ManifestError { file: self.file.to_owned(), line: rule.line, message }
    }

    fn fit<T: TryFrom<i128>>(&self, rule: &Rule, wanted: &'static str) -> Result<T, ManifestError> {
        rule.eval(self.file, |expr| expr.fit(&self.scope, wanted))
    }

    /// The buffers of the case, and the names of all of them.
    fn buffers(&self) -> Result<(Vec<PlannedBuffer>, Vec<&str>), ManifestError> {
        let mut planned = Vec::new();
        let mut present = Vec::new();
        for buffer in &self.build.buffers {
            if first_failing(&buffer.when, self.file, &self.scope)?.is_none() {
                if self.scope.symbols.tensor(&buffer.name).is_some() {
                    let message = format!("buffer \"{}\" has the name of a tensor of the case", buffer.name);
                    return Err(self.error(buffer.line, message));
                }
                present.push(buffer.name.as_str());
                planned.push(self.buffer(buffer)?);
            }
        }
        for buffer in &planned {
            let Fill::Pointers(names) = &buffer.fill else { continue };
            if let Some(name) = names.iter().find(|name| !self.is_target(name, &present)) {
                let message = format!("buffer \"{}\": there is no tensor or buffer `{name}` to point to", buffer.name);
                return Err(self.error(self.build.line, message));
            }
        }
        planned.sort_by_key(|buffer| matches!(buffer.fill, Fill::Pointers(_)));
        Ok((planned, present))
    }

    fn is_target(&self, name: &str, buffers: &[&str]) -> bool {
        buffers.contains(&name) || self.scope.symbols.tensor(name).is_some()
    }

    fn buffer(&self, buffer: &Buffer) -> Result<PlannedBuffer, ManifestError> {
        let (bytes, fill) = match &buffer.content {
            Content::Pointers(names) => (8 * names.len() as u64, Fill::Pointers(names.clone())),
            Content::Bytes { bytes: rule, init } => {
                let bytes: u64 = self.fit(rule, "a size in bytes")?;
                if bytes > MAX_BUFFER {
                    return Err(self.rule_error(rule, format!("is {bytes} bytes; at most {MAX_BUFFER} are taken")));
                }
                // A launch may well need no scratch; a buffer of nothing has no address.
                let bytes = bytes.max(1);
                (bytes, self.fill(buffer, init, bytes)?)
            }
        };
        Ok(PlannedBuffer { name: buffer.name.clone(), bytes, fill, zero_before: buffer.zero_before })
    }

    fn fill(&self, buffer: &Buffer, init: &Init, bytes: u64) -> Result<Fill, ManifestError> {
        Ok(match init {
            Init::Uninitialised => Fill::Uninitialised,
            Init::Zero => Fill::Byte(0),
            Init::Poison => Fill::Byte(0xff),
            Init::IotaU32 => Fill::IotaU32,
            Init::FillU32(rule) => Fill::Word(self.fit(rule, "u32")?),
            Init::FillF32(rule) => {
                let value = rule.eval(self.file, |expr| expr.float(&self.scope))? as f32;
                Fill::Word(value.to_bits())
            }
            Init::ValuesU32(rules) => {
                Fill::Words(rules.iter().map(|rule| self.fit(rule, "u32")).collect::<Result<_, _>>()?)
            }
            Init::ListU32 { key, each } => Fill::Words(self.list(buffer, key, each.as_ref())?),
            Init::PrefixSumU32 { key, each } => {
                let mut sums = vec![0u32];
                let mut sum = 0u32;
                for value in self.list(buffer, key, each.as_ref())? {
                    sum = sum.checked_add(value).ok_or_else(|| {
                        self.error(buffer.line, format!("buffer \"{}\": the sums over {key} pass u32", buffer.name))
                    })?;
                    sums.push(sum);
                }
                Fill::Words(sums)
            }
            Init::File(path) => Fill::File(path.clone()),
        })
        .and_then(|fill| match &fill {
            Fill::Words(values) if 4 * values.len() as u64 > bytes => {
                let message = format!("buffer \"{}\": {} values do not fit {bytes} bytes", buffer.name, values.len());
                Err(self.error(buffer.line, message))
            }
            _ => Ok(fill),
        })
    }

    fn list(&self, buffer: &Buffer, key: &str, each: Option<&Rule>) -> Result<Vec<u32>, ManifestError> {
        let values = match self.scope.symbols.value(key) {
            Some(Value::List(values)) => values,
            Some(other) => {
                let message = format!("buffer \"{}\": {key} is {}, not a list", buffer.name, other.kind());
                return Err(self.error(buffer.line, message));
            }
            None => {
                let message = format!("buffer \"{}\": the case has no shape key {key}", buffer.name);
                return Err(self.error(buffer.line, message));
            }
        };
        values.iter().map(|value| self.element(buffer, *value, each)).collect()
    }

    fn element(&self, buffer: &Buffer, value: u64, each: Option<&Rule>) -> Result<u32, ManifestError> {
        match each {
            Some(rule) => {
                let scope = Scope { local: Some(("it", value.into())), ..self.scope };
                rule.eval(self.file, |expr| expr.fit(&scope, "u32"))
            }
            None => u32::try_from(value)
                .map_err(|_| self.error(buffer.line, format!("buffer \"{}\": {value} does not fit u32", buffer.name))),
        }
    }

    fn launch(&self, index: usize, launch: &Launch, buffers: &[&str]) -> Result<PlannedLaunch, ManifestError> {
        let grid = self.sizes(&launch.grid)?;
        let block = self.sizes(&launch.block)?;
        for ((grid, block), rule) in grid.iter().zip(block).zip(&launch.grid) {
            // HIP and the AQL packet count work-items in 32 bits.
            if u64::from(*grid) * u64::from(block) > u64::from(u32::MAX) {
                let message =
                    format!("times the block is {}: 2^32 work-items or more", u64::from(*grid) * u64::from(block));
                return Err(self.rule_error(rule, message));
            }
        }
        let cluster = match &launch.cluster {
            None => None,
            Some(rules) => {
                let sizes = self.sizes(rules)?;
                for ((size, grid), rule) in sizes.iter().zip(grid).zip(rules) {
                    if grid % size != 0 {
                        return Err(
                            self.rule_error(rule, format!("is {size}, which does not divide the grid's {grid}"))
                        );
                    }
                }
                Some(sizes)
            }
        };
        let dynamic_lds = self.fit(&launch.lds, "a number of bytes")?;
        let fields = kernarg::fields(launch).map_err(|index| {
            let message = format!("args[{index}] ends beyond {} bytes", kernarg::MAX_SIZE);
            self.error(launch.line, message)
        })?;
        let args = launch.args.iter().zip(fields).map(|(arg, field)| {
            let value = self.arg(arg, buffers)?;
            Ok(PlacedArg { field, value })
        });
        Ok(PlannedLaunch {
            kernel: Build::kernel_name(launch, self.variant),
            grid,
            block,
            cluster,
            dynamic_lds,
            args: args.collect::<Result<_, ManifestError>>()?,
            kernarg_size: launch.kernarg_size,
            setup: launch.setup,
            index,
        })
    }

    fn sizes(&self, rules: &[Rule; 3]) -> Result<[u32; 3], ManifestError> {
        let mut sizes = [0u32; 3];
        for (size, rule) in sizes.iter_mut().zip(rules) {
            *size = self.fit(rule, "u32")?;
            if *size == 0 {
                return Err(self.rule_error(rule, "is 0: there would be nothing to launch".to_owned()));
            }
        }
        Ok(sizes)
    }

    fn arg(&self, arg: &Arg, buffers: &[&str]) -> Result<ArgValue, ManifestError> {
        match &arg.source {
            ArgSource::Null => Ok(ArgValue::Bits(0)),
            ArgSource::Pointer { target, offset, optional } => {
                if !self.is_target(target, buffers) {
                    if *optional {
                        return Ok(ArgValue::Bits(0));
                    }
                    let message = format!(
                        "argument `{}`: the case has no tensor and the build no buffer `{target}`; \
                         with optional = true it would be null",
                        arg.name
                    );
                    return Err(self.error(arg.line, message));
                }
                let offset = offset.as_ref().map_or(Ok(0), |offset| self.fit(offset, "a number of bytes"))?;
                Ok(ArgValue::Address { target: target.clone(), offset })
            }
            ArgSource::Scalar(kind, rule) => self.scalar(*kind, rule).map(ArgValue::Bits),
        }
    }

    fn scalar(&self, kind: ScalarType, rule: &Rule) -> Result<u64, ManifestError> {
        Ok(match kind {
            ScalarType::U8 => self.fit::<u8>(rule, "u8")?.into(),
            ScalarType::U16 => self.fit::<u16>(rule, "u16")?.into(),
            ScalarType::U32 => self.fit::<u32>(rule, "u32")?.into(),
            ScalarType::I32 => u64::from(self.fit::<i32>(rule, "i32")?.cast_unsigned()),
            ScalarType::U64 => self.fit::<u64>(rule, "u64")?,
            ScalarType::I64 => self.fit::<i64>(rule, "i64")?.cast_unsigned(),
            ScalarType::F64 => rule.eval(self.file, |expr| expr.float(&self.scope))?.to_bits(),
            ScalarType::F32 => {
                let value = rule.eval(self.file, |expr: &Expr| expr.float(&self.scope))?;
                let narrow = value as f32;
                if !narrow.is_finite() {
                    return Err(self.rule_error(rule, format!("is {value}, which does not fit f32")));
                }
                u64::from(narrow.to_bits())
            }
        })
    }
}

/// Device addresses by name: what [`kernarg::pack`] needs.
pub type Addresses = BTreeMap<String, u64>;
