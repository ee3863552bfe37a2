//! The first bytes of a PyTorch trace: enough to know it as one, and whose it is.

use flate2::read::MultiGzDecoder;
use memchr::memmem;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Text that is looked at. The metadata in front of the events is a few KB on a machine of eight GPUs.
const HEAD: u64 = 256 << 10;
/// Words of which a trace has one near its start.
const MARKS: [&[u8]; 4] = [b"\"traceEvents\"", b"\"schemaVersion\"", b"\"deviceProperties\"", b"\"ph\""];

/// The start of a trace's text.
pub(crate) struct TraceHead(Vec<u8>);

/// The head of a file when it is a trace, plain or gzip; `None` for anything else.
pub(crate) fn of(path: &Path) -> io::Result<Option<TraceHead>> {
    let mut file = File::open(path)?;
    let mut start = Vec::new();
    file.by_ref().take(2).read_to_end(&mut start)?;
    let whole = io::Cursor::new(start.clone()).chain(file);
    let mut text = Vec::new();
    if start == b"\x1f\x8b" {
        // What a damaged file still gives may be enough; the reader says what is wrong with it.
        let _cut_short = MultiGzDecoder::new(whole).take(HEAD).read_to_end(&mut text);
    } else {
        let mut whole = whole;
        whole.by_ref().take(512).read_to_end(&mut text)?;
        if !is_json(&text) {
            return Ok(None);
        }
        whole.take(HEAD).read_to_end(&mut text)?;
    }
    let is_trace = is_json(&text) && MARKS.iter().any(|mark| memmem::find(&text, mark).is_some());
    Ok(is_trace.then_some(TraceHead(text)))
}

fn is_json(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    text.starts_with(b"{") || text.starts_with(b"[")
}

impl TraceHead {
    /// The rank that the trace names (`distributedInfo`), when that stands in front of the events.
    pub(crate) fn rank(&self) -> Option<u64> {
        let info = &self.0[memmem::find(&self.0, b"\"distributedInfo\"")?..];
        let info = &info[..memchr::memchr(b'}', info).unwrap_or(info.len())];
        let value = &info[memmem::find(info, b"\"rank\"")? + b"\"rank\"".len()..];
        let value = value.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&value[..digits]).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn head(bytes: &[u8]) -> Option<TraceHead> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        std::fs::write(&path, bytes).unwrap();
        of(&path).unwrap()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn traces_are_known_by_their_content() {
        let trace = br#" {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 5, "world_size": 8}, "traceEvents": []}"#;
        assert_eq!(head(trace).unwrap().rank(), Some(5));
        assert_eq!(head(&gzip(trace)).unwrap().rank(), Some(5));
        // Cut inside the compressed data.
        let cut = gzip(trace);
        assert!(head(&cut[..cut.len() - 6]).is_some());
        let bare = br#"[{"ph": "X", "name": "k", "args": {"rank": 3}}]"#;
        assert_eq!(head(bare).unwrap().rank(), None);
        for other in [&b"{\"a\": 1}"[..], b"[1]", b"", b"family,shape\n\"traceEvents\",\n", b"\x1f\x8b\x08\0"] {
            assert!(head(other).is_none());
        }
        assert!(head(&gzip(b"family,shape\n")).is_none());
    }
}
