//! Arrays of numbers as bytes.
//!
//! Layout: version (1), kind (0 floats that are whole numbers, 1 floats, 2 integers), count (LEB128), one zstd frame. Whole
//! numbers (durations in ns, counter values) are kept as the differences between neighbours, zigzag and LEB128; other floats
//! as their bits, all first bytes, then all second bytes and so on, because neighbours share their high bytes.

use std::io::Read as _;

const VERSION: u8 = 1;
const WHOLE: u8 = 0;
const FLOATS: u8 = 1;
const INTEGERS: u8 = 2;

/// Most numbers of an array: 128 MiB of them.
const MOST: u64 = 1 << 24;
/// zstd's level: beyond it samples shrink by a percent and take ten times as long.
const LEVEL: i32 = 6;
/// Bytes of the longest LEB128 form of 64 bits.
const LONGEST: u64 = 10;
/// Up to here every whole number has an `f64` of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// An array of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Numbers with a fraction or an exponent.
    Floats(Vec<f64>),
    /// Numbers without.
    Integers(Vec<i64>),
}

impl Numbers {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Numbers::Floats(values) => values.len(),
            Numbers::Integers(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bytes that are no array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// A version or kind that this kbench does not know.
    #[error("samples of an unknown form ({version}, {kind})")]
    Unknown {
        /// First byte.
        version: u8,
        /// Second byte.
        kind: u8,
    },
    /// The bytes end early, go on too long, or do not decompress.
    #[error("damaged samples: {0}")]
    Damaged(String),
    /// More numbers than are kept in one array.
    #[error("{0} numbers in one array are more than the 16777216 that are kept")]
    TooMany(u64),
}

/// Packs an array.
///
/// # Errors
/// [`CodecError::TooMany`] beyond 16 million numbers.
pub fn encode(numbers: &Numbers) -> Result<Vec<u8>, CodecError> {
    if numbers.len() as u64 > MOST {
        return Err(CodecError::TooMany(numbers.len() as u64));
    }
    let (kind, payload) = match numbers {
        Numbers::Integers(values) => (INTEGERS, differences(values.iter().copied())),
        Numbers::Floats(values) if values.iter().all(|v| is_whole(*v)) => {
            (WHOLE, differences(values.iter().map(|v| *v as i64)))
        }
        Numbers::Floats(values) => {
            let planes = (0..8).flat_map(|byte| values.iter().map(move |v| v.to_bits().to_le_bytes()[byte]));
            (FLOATS, planes.collect())
        }
    };
    let mut bytes = vec![VERSION, kind];
    write_leb128(&mut bytes, numbers.len() as u64);
    let frame = zstd::bulk::compress(&payload, LEVEL).map_err(|error| CodecError::Damaged(error.to_string()))?;
    bytes.extend(frame);
    Ok(bytes)
}

/// Unpacks an array. Memory is bounded by what the bytes themselves say, and that by 16 million numbers.
///
/// # Errors
/// When the bytes are not what [`encode`] writes.
pub fn decode(bytes: &[u8]) -> Result<Numbers, CodecError> {
    let damaged = |what: &str| CodecError::Damaged(what.to_owned());
    let [version, kind, rest @ ..] = bytes else { return Err(damaged("less than a header")) };
    if *version != VERSION || *kind > INTEGERS {
        return Err(CodecError::Unknown { version: *version, kind: *kind });
    }
    let mut rest = rest;
    let count = read_leb128(&mut rest).ok_or_else(|| damaged("no count"))?;
    if count > MOST {
        return Err(CodecError::TooMany(count));
    }
    let failed = |error: std::io::Error| CodecError::Damaged(error.to_string());
    let mut payload = Vec::new();
    let mut decoder = zstd::stream::read::Decoder::new(rest).map_err(failed)?.take(count * LONGEST + 1);
    decoder.read_to_end(&mut payload).map_err(failed)?;
    let count = count as usize;
    match *kind {
        FLOATS => {
            if payload.len() != count * 8 {
                return Err(damaged("a length that is not the count's"));
            }
            let planes: Vec<&[u8]> = payload.chunks(count.max(1)).collect();
            let bits = (0..count).map(|i| planes.iter().rev().fold(0, |bits, plane| bits << 8 | u64::from(plane[i])));
            Ok(Numbers::Floats(bits.map(f64::from_bits).collect()))
        }
        kind => {
            let values = sums(&payload, count).ok_or_else(|| damaged("a length that is not the count's"))?;
            match kind {
                INTEGERS => Ok(Numbers::Integers(values)),
                _ => Ok(Numbers::Floats(values.into_iter().map(|v| v as f64).collect())),
            }
        }
    }
}

/// Whether a float comes back from `i64` bit by bit: −0 does not.
fn is_whole(value: f64) -> bool {
    value.abs() <= EXACT && (value as i64 as f64).to_bits() == value.to_bits()
}

fn differences(values: impl Iterator<Item = i64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut last = 0_i64;
    for value in values {
        let step = value.wrapping_sub(last);
        write_leb128(&mut bytes, (step << 1 ^ step >> 63) as u64);
        last = value;
    }
    bytes
}

/// The values whose differences these are; `None` unless there are exactly `count`.
fn sums(mut bytes: &[u8], count: usize) -> Option<Vec<i64>> {
    // A difference takes at least a byte, so this allocates no more than was read.
    let mut values = Vec::with_capacity(count.min(bytes.len()));
    let mut last = 0_i64;
    while !bytes.is_empty() {
        let zigzag = read_leb128(&mut bytes)?;
        last = last.wrapping_add((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
        values.push(last);
    }
    (values.len() == count).then_some(values)
}

fn write_leb128(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn read_leb128(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
