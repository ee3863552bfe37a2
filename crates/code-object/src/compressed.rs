//! Compressed offload bundles (`CCOB`), header versions 1 to 3.
//!
//! Layout (clang's documentation "Clang Offload Bundler"): magic, version u16, method u16 (0 zlib, 1 zstd); then the file
//! size (version 2: u32, version 3: u64, version 1: missing), the uncompressed size (u32, version 3: u64) and a hash u64 of
//! the uncompressed bundle. The hash names the contents for caches; the compressed stream has its own checksum.

use crate::container::{Compression, CompressionMethod};
use crate::error::{Error, Result};
use crate::raw::Raw;
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};

pub(crate) const MAGIC: &[u8] = b"CCOB";
/// Code for a dozen similar targets compresses to a fortieth or so; hostile streams claim a ten-thousandth.
const MAX_RATIO: u64 = 256;
const ALWAYS_ALLOWED: u64 = 64 << 20;

/// How many bytes all compressed bundles of a file may unpack to.
pub(crate) fn budget(file_bytes: usize) -> u64 {
    (file_bytes as u64).saturating_mul(MAX_RATIO).saturating_add(ALWAYS_ALLOWED)
}

pub(crate) struct Unpacked {
    pub(crate) bundle: Bytes,
    pub(crate) compression: Compression,
}

struct Prefix {
    version: u16,
    method: CompressionMethod,
    header_bytes: u64,
    /// Of the whole compressed bundle; `None` in version 1.
    total_bytes: Option<u64>,
    uncompressed_bytes: u64,
}

impl Prefix {
    fn read(raw: &Raw<'_>, offset: u64) -> Result<Self> {
        let version = raw.u16(4, "the compressed bundle's version")?;
        let method = match raw.u16(6, "the compressed bundle's method")? {
            0 => CompressionMethod::Zlib,
            1 => CompressionMethod::Zstd,
            other => {
                let problem = format!("compression method {other}, but 0 (zlib) or 1 (zstd) was expected");
                return Err(Error::damaged(offset + 6, problem));
            }
        };
        let (header_bytes, total_bytes, uncompressed_bytes) = match version {
            1 => (20, None, u64::from(raw.u32(8, "the uncompressed size")?)),
            2 => {
                let total = raw.u32(8, "the compressed bundle's size")?;
                (24, Some(u64::from(total)), u64::from(raw.u32(12, "the uncompressed size")?))
            }
            3 => (32, Some(raw.u64(8, "the compressed bundle's size")?), raw.u64(16, "the uncompressed size")?),
            other => {
                return Err(Error::Unsupported {
                    what: format!("compressed bundle version {other} (at offset {:#x})", offset + 4),
                    instead: "versions 1 to 3 are known: build with --no-offload-compress, or unbundle with the \
                              clang-offload-bundler of the compiler that made it",
                });
            }
        };
        Ok(Self { version, method, header_bytes, total_bytes, uncompressed_bytes })
    }
}

/// Unpacks the compressed bundle at the start of `data`, which lies at `offset` of the file.
pub(crate) fn unpack(data: &[u8], offset: u64, budget: &mut u64) -> Result<Unpacked> {
    let raw = Raw::with_origin(data, offset);
    let prefix = Prefix::read(&raw, offset)?;
    if prefix.uncompressed_bytes > *budget {
        return Err(Error::Unsupported {
            what: format!(
                "a compressed bundle (at offset {offset:#x}) that claims {} bytes, more than {MAX_RATIO} times the file",
                prefix.uncompressed_bytes
            ),
            instead: "unbundle it with clang-offload-bundler, if it is genuine",
        });
    }
    *budget -= prefix.uncompressed_bytes;
    let total = prefix.total_bytes.unwrap_or(data.len() as u64);
    let size = total.checked_sub(prefix.header_bytes).ok_or_else(|| {
        let problem = format!("a compressed bundle of {total} bytes, but its header alone has {}", prefix.header_bytes);
        Error::damaged(offset + 8, problem)
    })?;
    let stream = raw.slice(prefix.header_bytes, size, "a compressed bundle")?;
    let failed = |cause: String| Error::Decompression { offset, method: prefix.method.as_str(), cause };

    let expected = usize::try_from(prefix.uncompressed_bytes).map_err(|error| failed(error.to_string()))?;
    let mut bundle = Vec::new();
    bundle.try_reserve_exact(expected).map_err(|error| failed(error.to_string()))?;
    let consumed = match prefix.method {
        CompressionMethod::Zlib => inflate(stream, &mut bundle).map_err(failed)?,
        CompressionMethod::Zstd => decompress_zstd(stream, &mut bundle).map_err(failed)?,
    };
    if bundle.len() != expected {
        let cause = format!("{} bytes came out, but the header says {expected}", bundle.len());
        return Err(failed(cause));
    }
    let compression = Compression {
        method: prefix.method,
        version: prefix.version,
        compressed_bytes: prefix.total_bytes.unwrap_or(prefix.header_bytes + consumed),
        uncompressed_bytes: prefix.uncompressed_bytes,
    };
    Ok(Unpacked { bundle: bundle.into(), compression })
}

/// Fills `out` up to its capacity; how many bytes of `stream` that took.
fn inflate(stream: &[u8], out: &mut Vec<u8>) -> std::result::Result<u64, String> {
    let mut inflate = Decompress::new(true);
    match inflate.decompress_vec(stream, out, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) => Ok(inflate.total_in()),
        Ok(_) => Err("the stream ends early, or holds more than the header says".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// As [`inflate`], for one Zstandard frame.
fn decompress_zstd(stream: &[u8], out: &mut Vec<u8>) -> std::result::Result<u64, String> {
    let frame_bytes = zstd::zstd_safe::find_frame_compressed_size(stream)
        .map_err(|code| zstd::zstd_safe::get_error_name(code).to_owned())?;
    let frame = stream.get(..frame_bytes).ok_or("the frame is longer than the file")?;
    let mut decompressor = zstd::bulk::Decompressor::new().map_err(|error| error.to_string())?;
    decompressor.decompress_to_buffer(frame, out).map_err(|error| error.to_string())?;
    Ok(frame_bytes as u64)
}
