//! Messages on a pipe: a header line with the protocol's version and the payload's length in bytes, the payload (one JSON
//! value), a line feed.
//!
//! ```text
//! kbench-worker/1 27
//! {"Stage":{"Built":{...}}}\n
//! ```
//!
//! Whatever else comes along the pipe is an error that shows its first bytes; nothing is searched for a next frame.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, Read as _, Write};

/// Version of the messages. Parent and child are the same program, so another one is refused, not translated.
pub const VERSION: u32 = 1;

/// Longest payload, bytes: a million samples as text are a tenth of it.
pub const MAX_PAYLOAD: u64 = 256 << 20;

const MAGIC: &str = "kbench-worker/1 ";

/// Longest header: magic, nine digits and the line feed, with some room.
const MAX_HEADER: u64 = 40;

/// Why no message could be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The bytes are no frame of this version.
    #[error("bytes that are no message of this kbench: `{start}`")]
    Garbage {
        /// The first bytes, made printable.
        start: String,
    },
    /// The header names a payload that is longer than any message.
    #[error("a message of {bytes} bytes was announced, more than the {MAX_PAYLOAD} that one may have")]
    TooLong {
        /// The announced length.
        bytes: u64,
    },
    /// The pipe ended inside a frame.
    #[error("the pipe ended in the middle of a message")]
    Torn,
    /// The payload is no message.
    #[error("a message could not be understood: {cause}")]
    Payload {
        /// What is wrong with it.
        cause: serde_json::Error,
    },
    /// The pipe failed.
    #[error("the pipe failed: {cause}")]
    Io {
        /// The system's words.
        cause: io::Error,
    },
}

impl From<serde_json::Error> for FrameError {
    fn from(cause: serde_json::Error) -> Self {
        FrameError::Payload { cause }
    }
}

impl From<io::Error> for FrameError {
    fn from(cause: io::Error) -> Self {
        FrameError::Io { cause }
    }
}

/// Writes one message and flushes.
///
/// # Errors
/// When the message cannot be put into JSON, is too long, or the pipe fails.
pub fn send<T: Serialize>(out: &mut dyn Write, message: &T) -> Result<(), FrameError> {
    let payload = serde_json::to_vec(message)?;
    let bytes = payload.len() as u64;
    if bytes > MAX_PAYLOAD {
        return Err(FrameError::TooLong { bytes });
    }
    writeln!(out, "{MAGIC}{bytes}")?;
    out.write_all(&payload)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// Reads the next message; `None` when the pipe has ended between two frames. Memory grows with the bytes that really
/// come, not with the length that is announced.
///
/// # Errors
/// [`FrameError`]; the pipe is of no further use then.
pub fn receive<T: DeserializeOwned>(input: &mut dyn BufRead) -> Result<Option<T>, FrameError> {
    let mut header = Vec::with_capacity(MAX_HEADER as usize);
    (&mut *input).take(MAX_HEADER).read_until(b'\n', &mut header)?;
    if header.is_empty() {
        return Ok(None);
    }
    let length = announced(&header)?;
    if length > MAX_PAYLOAD {
        return Err(FrameError::TooLong { bytes: length });
    }
    let mut payload = Vec::new();
    input.take(length + 1).read_to_end(&mut payload)?;
    match payload.pop() {
        _ if (payload.len() as u64) < length => Err(FrameError::Torn),
        Some(b'\n') => Ok(Some(serde_json::from_slice(&payload)?)),
        _ => Err(FrameError::Garbage { start: printable(&payload) }),
    }
}

/// The length in a header line.
fn announced(header: &[u8]) -> Result<u64, FrameError> {
    let garbage = || FrameError::Garbage { start: printable(header) };
    let text = std::str::from_utf8(header).map_err(|_| garbage())?;
    let Some(rest) = text.strip_prefix(MAGIC) else {
        // A header that was cut off is told from one that never was.
        return Err(if MAGIC.starts_with(text) { FrameError::Torn } else { garbage() });
    };
    let digits = rest.strip_suffix('\n').ok_or_else(|| if rest.len() < 12 { FrameError::Torn } else { garbage() })?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(garbage());
    }
    digits.parse().map_err(|_| garbage())
}

/// The first bytes of something, for an error.
fn printable(bytes: &[u8]) -> String {
    const SHOWN: usize = 40;
    bytes.iter().take(SHOWN).flat_map(|byte| std::ascii::escape_default(*byte)).map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn frame(value: &Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        send(&mut bytes, value).unwrap();
        bytes
    }

    #[test]
    fn messages_come_back_in_order_and_the_end_is_no_error() {
        let mut bytes = frame(&json!({"a": 1}));
        bytes.extend(frame(&json!("two")));
        let mut input = bytes.as_slice();
        assert_eq!(receive::<Value>(&mut input).unwrap(), Some(json!({"a": 1})));
        assert_eq!(receive::<Value>(&mut input).unwrap(), Some(json!("two")));
        assert!(receive::<Value>(&mut input).unwrap().is_none());
    }

    #[test]
    fn the_form_is_a_line_with_the_length_then_the_payload() {
        assert_eq!(frame(&json!([1, 2])), b"kbench-worker/1 5\n[1,2]\n");
    }

    #[test]
    fn every_cut_is_told() {
        let bytes = frame(&json!({"key": "value"}));
        for length in 1..bytes.len() {
            let error = receive::<Value>(&mut &bytes[..length]).unwrap_err();
            assert!(matches!(error, FrameError::Torn), "{length}: {error}");
        }
    }

    #[test]
    fn garbage_is_shown() {
        for (bytes, part) in [
            (&b"hello world\n"[..], "hello world"),
            (b"kbench-worker/2 3\nabc\n", "kbench-worker/2"),
            (b"kbench-worker/1 -3\nabc\n", "-3"),
            (b"kbench-worker/1 \nabc\n", "no message"),
            (b"\xff\x00\x01", "\\xff"),
            (b"kbench-worker/1 2\n[]]", "[]"),
            (b"kbench-worker/1 2\n[1\n", "understood"),
            (b"kbench-worker/1 999999999999\n", "999999999999"),
            (b"kbench-worker/1 99999999999999999999999999999999\n", "no message"),
        ] {
            let error = receive::<Value>(&mut &bytes[..]).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), framed in any::<bool>()) {
            let mut all = if framed { format!("{MAGIC}{}\n", bytes.len()).into_bytes() } else { Vec::new() };
            all.extend(&bytes);
            let _ = receive::<Value>(&mut all.as_slice());
        }

        #[test]
        fn any_text_comes_back(text in "\\PC{0,300}") {
            let bytes = frame(&json!(text));
            prop_assert_eq!(receive::<Value>(&mut bytes.as_slice()).unwrap(), Some(json!(text)));
        }
    }
}
