//! `--arg`: values and buffers of a kernel on the emulated GPU.

use anyhow::{Context as _, Result, bail, ensure};
use kbench_code_object::Kernel;
use kbench_gfx_emu::mem::Memory;
use std::fs;
use std::num::ParseFloatError;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The largest argument block.
const MAX_KERNARG: u32 = 1 << 16;

/// One `--arg`.
#[derive(Clone, Debug, PartialEq)]
struct Argument {
    /// The byte it is put at; `None` follows the kernel's order.
    offset: Option<u32>,
    value: Value,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// The low bytes of a number, and how many.
    Bits(u64, u32),
    /// A buffer of a file's bytes, written back to another when that is given.
    File(PathBuf, Option<PathBuf>),
    /// A zeroed buffer, written to a file when that is given.
    Zeroed(u64, Option<PathBuf>),
}

impl Value {
    fn bytes(&self) -> u32 {
        if let Value::Bits(_, bytes) = self { *bytes } else { 8 }
    }
}

impl Argument {
    fn parse(text: &str) -> Result<Self> {
        let wrong = || format!("--arg {text}");
        let (offset, rest) = match text.strip_prefix('@') {
            Some(rest) => {
                let (offset, rest) =
                    rest.split_once('=').with_context(|| format!("--arg {text}: `=` after @OFFSET is missing"))?;
                let offset = number(offset).with_context(wrong)?;
                let offset = u32::try_from(offset).ok().filter(|offset| *offset <= MAX_KERNARG);
                (
                    Some(
                        offset
                            .with_context(|| format!("--arg {text}: an argument block ends at byte {MAX_KERNARG}"))?,
                    ),
                    rest,
                )
            }
            None => (None, text),
        };
        let (kind, value) = rest.split_once(':').unwrap_or((rest, ""));
        let value = match kind {
            "u32" => Value::Bits(u32::try_from(number(value).with_context(wrong)?).with_context(wrong)?.into(), 4),
            "i32" => Value::Bits(u64::from(value.parse::<i32>().with_context(wrong)? as u32), 4),
            "u64" => Value::Bits(number(value).with_context(wrong)?, 8),
            "i64" => Value::Bits(value.parse::<i64>().with_context(wrong)? as u64, 8),
            "f32" => Value::Bits(u64::from(float::<f32>(value).with_context(wrong)?.to_bits()), 4),
            "f64" => Value::Bits(float::<f64>(value).with_context(wrong)?.to_bits(), 8),
            "null" => Value::Bits(0, 8),
            "in" => Value::File(PathBuf::from(value), None),
            "inout" => {
                let (from, to) =
                    value.split_once(':').with_context(|| format!("--arg {text}: inout needs FILE:OUT"))?;
                Value::File(PathBuf::from(from), Some(PathBuf::from(to)))
            }
            "out" => {
                let (bytes, file) =
                    value.split_once(':').with_context(|| format!("--arg {text}: out needs BYTES:FILE"))?;
                Value::Zeroed(number(bytes).with_context(wrong)?, Some(PathBuf::from(file)))
            }
            "zero" => Value::Zeroed(number(value).with_context(wrong)?, None),
            _ => bail!(
                "--arg {text}: `{kind}` is no kind of argument; known are u32, i32, u64, i64, f32, f64, in, out, inout, zero and null"
            ),
        };
        Ok(Self { offset, value })
    }
}

/// A whole number, in decimal or with 0x.
fn number(text: &str) -> Result<u64> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.with_context(|| format!("`{text}` is no whole number"))
}

/// A number with a fraction. One that is too large for its kind would become infinity: that has to be asked for (`inf`).
fn float<T: FromStr<Err = ParseFloatError> + Copy + Into<f64>>(text: &str) -> Result<T> {
    let value: T = text.parse().with_context(|| format!("`{text}` is no number"))?;
    let asks_for_infinity = text.to_ascii_lowercase().contains("inf");
    ensure!(!value.into().is_infinite() || asks_for_infinity, "`{text}` is out of the range of its kind");
    Ok(value)
}

/// The arguments in device memory, and what is written to files afterwards.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) kernarg: Vec<u8>,
    outputs: Vec<(u64, u64, PathBuf)>,
}

impl Arguments {
    /// Parses, places and packs.
    ///
    /// # Errors
    /// When an argument is wrong, a file cannot be read, memory is short, or the arguments do not fit the kernel.
    pub(super) fn new(texts: &[String], kernel: &Kernel, size: Option<u32>, memory: &mut Memory) -> Result<Self> {
        let arguments = texts.iter().map(|text| Argument::parse(text)).collect::<Result<Vec<_>>>()?;
        let offsets = offsets(&arguments, kernel)?;
        let end = offsets.iter().zip(&arguments).map(|(offset, arg)| offset.saturating_add(arg.value.bytes())).max();
        let size = size.unwrap_or_else(|| end.unwrap_or(0));
        ensure!(
            size <= MAX_KERNARG,
            "an argument block of {size} B is larger than the {MAX_KERNARG} B that are possible"
        );
        let mut all = Self { kernarg: vec![0; size as usize], outputs: Vec::new() };
        for (index, (offset, argument)) in offsets.into_iter().zip(arguments).enumerate() {
            let bytes = argument.value.bytes() as usize;
            let bits = all.place(index, argument.value, memory)?;
            let at = offset as usize..offset as usize + bytes;
            let place = all.kernarg.get_mut(at).with_context(|| {
                format!("argument {index} ends at byte {}, the argument block has {size}", offset as usize + bytes)
            })?;
            place.copy_from_slice(&bits.to_le_bytes()[..bytes]);
        }
        Ok(all)
    }

    /// The bits of an argument; buffers are made.
    fn place(&mut self, index: usize, value: Value, memory: &mut Memory) -> Result<u64> {
        let name = format!("argument {index}");
        Ok(match value {
            Value::Bits(bits, _) => bits,
            Value::File(file, out) => {
                let data = fs::read(&file).with_context(|| format!("{} could not be read", file.display()))?;
                let address = memory.allocate(data.len() as u64, &name)?;
                memory.write(address, &data)?;
                self.outputs.extend(out.map(|out| (address, data.len() as u64, out)));
                address
            }
            Value::Zeroed(bytes, out) => {
                let address = memory.allocate(bytes, &name)?;
                memory.with_bytes(address, bytes, |bytes| bytes.fill(0))?;
                self.outputs.extend(out.map(|out| (address, bytes, out)));
                address
            }
        })
    }

    /// Writes the buffers that have a file.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(super) fn write_outputs(&self, memory: &Memory) -> Result<Vec<(&Path, u64)>> {
        let mut written = Vec::new();
        for (address, bytes, file) in &self.outputs {
            let mut data = vec![0; *bytes as usize];
            memory.read(*address, &mut data)?;
            fs::write(file, data).with_context(|| format!("{} could not be written", file.display()))?;
            written.push((file.as_path(), *bytes));
        }
        Ok(written)
    }
}

/// Where each argument goes: all explicit, or all in the kernel's order.
fn offsets(arguments: &[Argument], kernel: &Kernel) -> Result<Vec<u32>> {
    let explicit: Vec<u32> = arguments.iter().filter_map(|argument| argument.offset).collect();
    if !explicit.is_empty() {
        ensure!(
            explicit.len() == arguments.len(),
            "some arguments have an @OFFSET and some have none; give all of them one"
        );
        check_overlaps(arguments)?;
        return Ok(explicit);
    }
    let wanted: Vec<_> = kernel.explicit_args().collect();
    ensure!(
        wanted.len() == arguments.len(),
        "`{}` takes {} arguments ({}), {} were given",
        kernel.name,
        wanted.len(),
        describe(kernel),
        arguments.len()
    );
    for (index, (argument, wanted)) in arguments.iter().zip(&wanted).enumerate() {
        let (given, takes) = (argument.value.bytes(), wanted.size);
        ensure!(given == takes, "argument {index} of `{}` has {takes} B, a value of {given} B was given", kernel.name);
    }
    Ok(wanted.iter().map(|arg| arg.offset).collect())
}

/// Refuses two arguments at the same bytes: the later one would quietly win.
fn check_overlaps(arguments: &[Argument]) -> Result<()> {
    let mut places: Vec<(u32, u32, usize)> = arguments
        .iter()
        .enumerate()
        .filter_map(|(index, argument)| Some((argument.offset?, argument.value.bytes(), index)))
        .collect();
    places.sort_unstable();
    for pair in places.windows(2) {
        if let [(start, bytes, first), (next, _, second)] = pair {
            let end = start.saturating_add(*bytes);
            ensure!(
                end <= *next,
                "argument {first} (bytes {start} to {}) and argument {second} (from byte {next}) overlap",
                end - 1
            );
        }
    }
    Ok(())
}

/// A kernel's arguments in words.
fn describe(kernel: &Kernel) -> String {
    let args: Vec<String> = kernel
        .explicit_args()
        .map(|arg| {
            let what = if arg.kind.is_pointer() { "pointer".to_owned() } else { format!("{} B", arg.size) };
            arg.name.as_ref().map_or(what.clone(), |name| format!("{name}: {what}"))
        })
        .collect();
    args.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_places() {
        let parse = |text: &str| Argument::parse(text).unwrap();
        assert_eq!(parse("u32:0x10"), Argument { offset: None, value: Value::Bits(16, 4) });
        assert_eq!(parse("i32:-1"), Argument { offset: None, value: Value::Bits(u32::MAX.into(), 4) });
        assert_eq!(parse("@128=f32:1.5").offset, Some(128));
        assert_eq!(parse("null").value, Value::Bits(0, 8));
        assert_eq!(parse("out:64:o.bin").value, Value::Zeroed(64, Some(PathBuf::from("o.bin"))));
        assert_eq!(parse("inout:a:b").value, Value::File(PathBuf::from("a"), Some(PathBuf::from("b"))));
        assert_eq!(parse("f32:-inf").value, Value::Bits(f32::NEG_INFINITY.to_bits().into(), 4));
        for wrong in ["u32:", "u32:-1", "u32:4294967296", "f32:x", "out:5", "inout:a", "@8:u32:1", "what:1", "@x=null"]
        {
            assert!(Argument::parse(wrong).is_err(), "{wrong}");
        }
        // Neither may an offset wrap around 2^32, nor a number become infinity.
        for wrong in ["@4294967296=null", "@65537=null", "f32:1e40", "f64:1e999"] {
            assert!(Argument::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn explicit_arguments_do_not_overlap() {
        let check = |texts: &[&str]| {
            let arguments: Vec<Argument> = texts.iter().map(|text| Argument::parse(text).unwrap()).collect();
            check_overlaps(&arguments).map_err(|error| error.to_string())
        };
        assert_eq!(check(&["@8=u32:1", "@0=null", "@12=u32:2"]), Ok(()));
        let error = check(&["@4=u32:1", "@0=null"]).unwrap_err();
        assert!(error.contains("argument 1 (bytes 0 to 7) and argument 0 (from byte 4)"), "{error}");
        assert!(check(&["@0=u32:1", "@0=u32:2"]).is_err());
    }
}
