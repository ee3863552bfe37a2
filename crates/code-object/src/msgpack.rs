//! MessagePack, as far as code object metadata uses it: a total reader over borrowed bytes.
//!
//! Every value takes at least one byte of input, so memory is linear in the input whatever counts it claims; nesting is
//! bounded.

use crate::error::{Error, Result};
use crate::raw::Raw;
use std::fmt;

/// Metadata nests five deep (root, kernels, kernel, args, arg).
const MAX_DEPTH: u32 = 32;

/// A value; strings and binaries borrow the input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'d> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Negative(i64),
    Float(f64),
    Text(&'d str),
    Binary(&'d [u8]),
    Array(Vec<Node<'d>>),
    Map(Vec<(Node<'d>, Node<'d>)>),
}

/// A value and where it begins in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node<'d> {
    pub(crate) value: Value<'d>,
    pub(crate) offset: u64,
}

impl<'d> Node<'d> {
    /// Reads one value from the start of `data`, which lies at `origin` of the file. What follows it is ignored.
    pub(crate) fn read(data: &'d [u8], origin: u64) -> Result<Self> {
        let mut reader = Reader { raw: Raw::with_origin(data, origin), at: 0, origin };
        reader.node(0)
    }

    pub(crate) fn map(&self, what: &str) -> Result<&[(Node<'d>, Node<'d>)]> {
        match &self.value {
            Value::Map(entries) => Ok(entries),
            other => Err(self.wrong(what, "a map", other)),
        }
    }

    pub(crate) fn array(&self, what: &str) -> Result<&[Node<'d>]> {
        match &self.value {
            Value::Array(items) => Ok(items),
            other => Err(self.wrong(what, "an array", other)),
        }
    }

    pub(crate) fn text(&self, what: &str) -> Result<&'d str> {
        match self.value {
            Value::Text(text) => Ok(text),
            ref other => Err(self.wrong(what, "a string", other)),
        }
    }

    pub(crate) fn bool(&self, what: &str) -> Result<bool> {
        match self.value {
            Value::Bool(value) => Ok(value),
            // Some assemblers write flags as numbers.
            Value::Unsigned(value @ (0 | 1)) => Ok(value == 1),
            ref other => Err(self.wrong(what, "a boolean", other)),
        }
    }

    /// An unsigned number that fits `T`.
    pub(crate) fn number<T: TryFrom<u64>>(&self, what: &str) -> Result<T> {
        match self.value {
            Value::Unsigned(value) => T::try_from(value)
                .map_err(|_| Error::damaged(self.offset, format!("{what} is {value}, which is out of range"))),
            ref other => Err(self.wrong(what, "an unsigned number", other)),
        }
    }

    fn wrong(&self, what: &str, expected: &str, found: &Value<'_>) -> Error {
        Error::damaged(self.offset, format!("metadata {what} is {}, but {expected} was expected", found.kind()))
    }
}

impl Value<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Bool(_) => "a boolean",
            Value::Unsigned(_) => "an unsigned number",
            Value::Negative(_) => "a negative number",
            Value::Float(_) => "a floating-point number",
            Value::Text(_) => "a string",
            Value::Binary(_) => "binary data",
            Value::Array(_) => "an array",
            Value::Map(_) => "a map",
        }
    }
}

/// Compact, for values that this crate has no field for.
impl fmt::Display for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Nil => f.write_str("nil"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Unsigned(value) => write!(f, "{value}"),
            Value::Negative(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Text(text) => f.write_str(text),
            Value::Binary(bytes) => write!(f, "{} bytes", bytes.len()),
            Value::Array(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            Value::Map(entries) => {
                f.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("}")
            }
        }
    }
}

struct Reader<'d> {
    raw: Raw<'d>,
    at: u64,
    origin: u64,
}

impl<'d> Reader<'d> {
    fn node(&mut self, depth: u32) -> Result<Node<'d>> {
        let offset = self.origin + self.at;
        if depth > MAX_DEPTH {
            return Err(Error::damaged(offset, format!("metadata nests deeper than {MAX_DEPTH} levels")));
        }
        let [tag] = self.take("a metadata value")?;
        let value = match tag {
            0x00..=0x7f => Value::Unsigned(u64::from(tag)),
            0x80..=0x8f => self.map(u64::from(tag & 0x0f), depth)?,
            0x90..=0x9f => self.array(u64::from(tag & 0x0f), depth)?,
            0xa0..=0xbf => self.text(u64::from(tag & 0x1f))?,
            0xc0 => Value::Nil,
            0xc2 => Value::Bool(false),
            0xc3 => Value::Bool(true),
            0xc4..=0xc6 => {
                let length = self.length(tag - 0xc4)?;
                Value::Binary(self.bytes(length)?)
            }
            // Extension types: their type byte and payload have no meaning here.
            0xc7..=0xc9 => {
                let length = self.length(tag - 0xc7)?;
                self.take::<1>("an extension type")?;
                Value::Binary(self.bytes(length)?)
            }
            0xca => Value::Float(f64::from(f32::from_le_bytes(self.big_endian()?))),
            0xcb => Value::Float(f64::from_le_bytes(self.big_endian()?)),
            0xcc => Value::Unsigned(u64::from(u8::from_le_bytes(self.big_endian()?))),
            0xcd => Value::Unsigned(u64::from(u16::from_le_bytes(self.big_endian()?))),
            0xce => Value::Unsigned(u64::from(u32::from_le_bytes(self.big_endian()?))),
            0xcf => Value::Unsigned(u64::from_le_bytes(self.big_endian()?)),
            0xd0 => signed(i64::from(i8::from_le_bytes(self.big_endian()?))),
            0xd1 => signed(i64::from(i16::from_le_bytes(self.big_endian()?))),
            0xd2 => signed(i64::from(i32::from_le_bytes(self.big_endian()?))),
            0xd3 => signed(i64::from_le_bytes(self.big_endian()?)),
            0xd4..=0xd8 => {
                self.take::<1>("an extension type")?;
                Value::Binary(self.bytes(1 << (tag - 0xd4))?)
            }
            0xd9..=0xdb => {
                let length = self.length(tag - 0xd9)?;
                self.text(length)?
            }
            0xdc | 0xdd => {
                let length = self.length(tag - 0xdc + 1)?;
                self.array(length, depth)?
            }
            0xde | 0xdf => {
                let length = self.length(tag - 0xde + 1)?;
                self.map(length, depth)?
            }
            0xe0..=0xff => Value::Negative(i64::from(tag as i8)),
            0xc1 => return Err(Error::damaged(offset, "the byte 0xc1 begins no MessagePack value")),
        };
        Ok(Node { value, offset })
    }

    fn array(&mut self, count: u64, depth: u32) -> Result<Value<'d>> {
        let mut items = Vec::with_capacity(self.plausible(count));
        for _ in 0..count {
            items.push(self.node(depth + 1)?);
        }
        Ok(Value::Array(items))
    }

    fn map(&mut self, count: u64, depth: u32) -> Result<Value<'d>> {
        let mut entries = Vec::with_capacity(self.plausible(count) / 2);
        for _ in 0..count {
            entries.push((self.node(depth + 1)?, self.node(depth + 1)?));
        }
        Ok(Value::Map(entries))
    }

    /// How many values to make room for: what was claimed, but no more than bytes are left, and never much at once,
    /// since nested claims add up.
    fn plausible(&self, count: u64) -> usize {
        let left = (self.raw.data.len() as u64).saturating_sub(self.at);
        count.min(left).min(64) as usize
    }

    fn text(&mut self, length: u64) -> Result<Value<'d>> {
        let offset = self.origin + self.at;
        let bytes = self.bytes(length)?;
        std::str::from_utf8(bytes)
            .map(Value::Text)
            .map_err(|_| Error::damaged(offset, format!("a metadata string of {length} bytes is not UTF-8")))
    }

    fn bytes(&mut self, length: u64) -> Result<&'d [u8]> {
        let bytes = self.raw.slice(self.at, length, "a metadata string")?;
        self.at += length;
        Ok(bytes)
    }

    /// A length field of 1, 2 or 4 bytes (`log2` 0, 1 or 2).
    fn length(&mut self, log2: u8) -> Result<u64> {
        Ok(match log2 {
            0 => u64::from(u8::from_le_bytes(self.big_endian()?)),
            1 => u64::from(u16::from_le_bytes(self.big_endian()?)),
            _ => u64::from(u32::from_le_bytes(self.big_endian()?)),
        })
    }

    /// The next bytes, last first, so that `from_le_bytes` reads a big-endian number.
    fn big_endian<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = self.take::<N>("a metadata number")?;
        bytes.reverse();
        Ok(bytes)
    }

    fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let bytes = self.raw.array(self.at, what)?;
        self.at += N as u64;
        Ok(bytes)
    }
}

fn signed(value: i64) -> Value<'static> {
    match u64::try_from(value) {
        Ok(value) => Value::Unsigned(value),
        Err(_) => Value::Negative(value),
    }
}
