//! Streaming CSV records: one line in memory at a time, fields as slices of it.
//!
//! Two rules of quoting are in use. TraceLens, pandas and kbench follow RFC 4180 (`""` inside quotes is one quote).
//! rocprofv3 puts strings between quotes and escapes nothing, so that a kernel `operator""_x` or a lambda with a string in its name cannot be
//! split by quotes at all; [`split_around`] finds its one wild column from both ends of the line instead.

use crate::error::ReadError;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The longest line, or quoted record of several lines, that is read. Real ones reach 0.7 MB.
pub(crate) const MAX_RECORD: usize = 64 << 20;
/// Block read from the file at a time.
const BLOCK: usize = 1 << 16;

/// Lines of a file, without their ends; a byte order mark at the start is dropped.
pub(crate) struct Lines {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    line: u64,
    buffer: Vec<u8>,
    /// The last line read ended in CR LF.
    carriage: bool,
}

impl Lines {
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|source| ReadError::io(path, source))?;
        Ok(Self::over(path, Box::new(BufReader::with_capacity(BLOCK, file))))
    }

    pub(crate) fn over(path: &Path, reader: Box<dyn BufRead>) -> Self {
        Self { path: path.to_owned(), reader, line: 0, buffer: Vec::new(), carriage: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The next line and its number from 1; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &[u8])>, ReadError> {
        self.buffer.clear();
        if !self.append()? {
            return Ok(None);
        }
        Ok(Some((self.line, &self.buffer)))
    }

    /// The line that [`Lines::next`] gave last.
    pub(crate) fn current(&self) -> (u64, &[u8]) {
        (self.line, &self.buffer)
    }

    /// Reads one more line to the end of the buffer; false at the end of the file.
    fn append(&mut self) -> Result<bool, ReadError> {
        let start = self.buffer.len();
        let too_long = |line| ReadError::TooLong { path: self.path.clone(), line, limit: MAX_RECORD };
        if start >= MAX_RECORD {
            return Err(too_long(self.line));
        }
        let left = (MAX_RECORD - start) as u64;
        let read = self.reader.by_ref().take(left).read_until(b'\n', &mut self.buffer);
        if read.map_err(|source| ReadError::io(&self.path, source))? == 0 {
            return Ok(false);
        }
        self.line += 1;
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            self.carriage = self.buffer.len() > start && self.buffer.last() == Some(&b'\r');
            if self.carriage {
                self.buffer.pop();
            }
        } else if self.buffer.len() >= MAX_RECORD {
            return Err(too_long(self.line));
        }
        if self.line == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
            self.buffer.drain(..3);
        }
        Ok(true)
    }
}

/// RFC 4180 records over lines. Blank lines are skipped, as are lines that start with `#` (comments of kbench's own CSV; no
/// profiler's record starts so).
pub(crate) struct Records {
    lines: Lines,
    text: Vec<u8>,
    fields: Vec<Range<usize>>,
}

/// One record: its fields, unquoted.
#[derive(Clone, Copy)]
pub(crate) struct Record<'r> {
    /// Line on which it starts.
    pub(crate) line: u64,
    text: &'r [u8],
    fields: &'r [Range<usize>],
}

impl<'r> Record<'r> {
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// A field as bytes; empty when the record is too short.
    pub(crate) fn bytes(&self, index: usize) -> &'r [u8] {
        self.fields.get(index).map_or(&[], |range| &self.text[range.clone()])
    }

    /// A field as text; what is not UTF-8 becomes replacement characters.
    pub(crate) fn text(&self, index: usize) -> std::borrow::Cow<'r, str> {
        String::from_utf8_lossy(self.bytes(index))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &'r [u8]> + '_ {
        (0..self.len()).map(|index| self.bytes(index))
    }
}

impl Records {
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        Ok(Self::over(Lines::open(path)?))
    }

    pub(crate) fn over(lines: Lines) -> Self {
        Self { lines, text: Vec::new(), fields: Vec::new() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.lines.path()
    }

    /// The first bytes of the file, at most 512; to be asked before any record is read.
    pub(crate) fn head(&mut self) -> Result<&[u8], ReadError> {
        let path = &self.lines.path;
        let block = self.lines.reader.fill_buf().map_err(|source| ReadError::io(path, source))?;
        Ok(&block[..block.len().min(512)])
    }

    /// The next record; `None` at the end of the file. Comment lines go to `comment`, without their `#`.
    pub(crate) fn next_with(&mut self, mut comment: impl FnMut(u64, &[u8])) -> Result<Option<Record<'_>>, ReadError> {
        loop {
            let Some((line, bytes)) = self.lines.next()? else { return Ok(None) };
            match bytes.first() {
                None => continue,
                Some(b'#') => comment(line, &bytes[1..]),
                Some(_) => {
                    self.split()?;
                    return Ok(Some(Record { line, text: &self.text, fields: &self.fields }));
                }
            }
        }
    }

    /// The next record, comments skipped.
    pub(crate) fn next(&mut self) -> Result<Option<Record<'_>>, ReadError> {
        self.next_with(|_, _| {})
    }

    /// Splits the line in the buffer, reading on while a quote is open.
    fn split(&mut self) -> Result<(), ReadError> {
        self.text.clear();
        self.fields.clear();
        let mut at = 0;
        loop {
            let start = self.text.len();
            let blanks = self.lines.buffer[at..].iter().take_while(|byte| **byte == b' ').count();
            if self.lines.buffer.get(at + blanks) == Some(&b'"') {
                at = self.quoted(at + blanks + 1)?;
            }
            // Plain field, or whatever follows a closing quote.
            let rest = &self.lines.buffer[at..];
            let length = memchr::memchr(b',', rest).unwrap_or(rest.len());
            self.text.extend_from_slice(&rest[..length]);
            self.fields.push(start..self.text.len());
            at += length;
            if at >= self.lines.buffer.len() {
                return Ok(());
            }
            at += 1;
        }
    }

    /// Copies a quoted field whose content starts at `at`; returns the place behind its closing quote.
    fn quoted(&mut self, mut at: usize) -> Result<usize, ReadError> {
        loop {
            let rest = &self.lines.buffer[at..];
            match memchr::memchr(b'"', rest) {
                Some(length) => {
                    self.text.extend_from_slice(&rest[..length]);
                    at += length + 1;
                    if self.lines.buffer.get(at) != Some(&b'"') {
                        return Ok(at);
                    }
                    self.text.push(b'"');
                    at += 1;
                }
                None => {
                    self.text.extend_from_slice(rest);
                    let end: &[u8] = if self.lines.carriage { b"\r\n" } else { b"\n" };
                    self.lines.buffer.extend_from_slice(end);
                    at = self.lines.buffer.len();
                    if !self.lines.append()? {
                        // The file ends inside a quote: what is there is the field.
                        return Ok(at);
                    }
                    self.text.extend_from_slice(end);
                }
            }
        }
    }
}

/// Splits a line that has one wild column, whose text may hold quotes and commas alike: `before` plain fields, the wild one, `after` plain
/// fields. Plain fields may be quoted but hold no comma. Field places go to `fields`, without their quotes. False when the line has fewer fields.
pub(crate) fn split_around(line: &[u8], before: usize, after: usize, fields: &mut Vec<Range<usize>>) -> bool {
    fields.clear();
    let mut start = 0;
    for _ in 0..before {
        let Some(length) = memchr::memchr(b',', &line[start..]) else { return false };
        fields.push(unquote(line, start..start + length));
        start += length + 1;
    }
    let mut end = line.len();
    let wild = fields.len();
    for _ in 0..after {
        let Some(comma) = memchr::memrchr(b',', &line[start..end]) else { return false };
        fields.push(unquote(line, start + comma + 1..end));
        end = start + comma;
    }
    fields[wild..].reverse();
    fields.insert(wild, unquote(line, start..end));
    true
}

/// The range without one pair of quotes around it.
fn unquote(line: &[u8], range: Range<usize>) -> Range<usize> {
    let field = &line[range.clone()];
    match field.len() >= 2 && field.first() == Some(&b'"') && field.last() == Some(&b'"') {
        true => range.start + 1..range.end - 1,
        false => range,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn records(bytes: &[u8]) -> Vec<Vec<String>> {
        let reader: Box<dyn BufRead> = Box::new(std::io::Cursor::new(bytes.to_vec()));
        let mut records = Records::over(Lines::over(Path::new("test.csv"), reader));
        let mut all = Vec::new();
        while let Some(record) = records.next().unwrap() {
            all.push((0..record.len()).map(|index| record.text(index).into_owned()).collect());
        }
        all
    }

    #[test]
    fn quotes_blanks_line_ends_and_marks() {
        assert_eq!(
            records(b"\xef\xbb\xbfa,b\r\n\r\n# note\n1,\"x, \"\"y\"\"\"\r\n, \"m=1,n=2\" ,\n\"p\nq\",2"),
            [vec!["a", "b"], vec!["1", "x, \"y\""], vec!["", "m=1,n=2 ", ""], vec!["p\nq", "2"]]
        );
    }

    #[test]
    fn an_open_quote_ends_with_the_file() {
        assert_eq!(records(b"a,\"bc\nd"), [vec!["a", "bc\nd"]]);
        assert_eq!(records(b"\""), [vec![""]]);
    }

    #[test]
    fn a_line_without_end_is_an_error_not_memory() {
        let endless: Box<dyn BufRead> = Box::new(BufReader::new(std::io::repeat(b'x')));
        let mut lines = Lines::over(Path::new("x"), endless);
        assert!(matches!(lines.next(), Err(ReadError::TooLong { line: 1, .. })));
        let quote: Box<dyn BufRead> = Box::new(BufReader::new(b"\"".chain(BufReader::new(Newlines))));
        let mut records = Records::over(Lines::over(Path::new("x"), quote));
        assert!(matches!(records.next().err(), Some(ReadError::TooLong { .. })));
    }

    struct Newlines;
    impl Read for Newlines {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            buffer.fill(b'\n');
            Ok(buffer.len())
        }
    }

    #[test]
    fn unescaped_quotes_do_not_move_columns() {
        let line = br#""KERNEL_DISPATCH",7,"void f<{lambda("a,b", "c")#1}>(operator""_x)",12,34"#;
        let mut fields = Vec::new();
        assert!(split_around(line, 2, 2, &mut fields));
        let texts: Vec<&[u8]> = fields.iter().map(|field| &line[field.clone()]).collect();
        let expected: [&[u8]; 5] =
            [b"KERNEL_DISPATCH", b"7", br#"void f<{lambda("a,b", "c")#1}>(operator""_x)"#, b"12", b"34"];
        assert_eq!(texts, expected);
        assert!(!split_around(b"a,b,c", 2, 2, &mut fields));
    }

    proptest! {
        /// What the csv crate writes is read back field by field: it is the independent reader and writer here.
        #[test]
        fn agrees_with_the_csv_crate(rows in prop::collection::vec(prop::collection::vec("[ a\",\r\nµ#x]{0,6}", 3), 1..6)) {
            let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
            for row in &rows {
                // A first field that is bare `#...` would be a comment; kbench's own files start with a number.
                writer.write_record(std::iter::once("7").chain(row.iter().map(String::as_str))).unwrap();
            }
            let bytes = writer.into_inner().unwrap();
            let read: Vec<Vec<String>> = records(&bytes).into_iter().map(|row| row[1..].to_vec()).collect();
            prop_assert_eq!(read, rows);
        }

        #[test]
        fn any_bytes_split_or_err(bytes in prop::collection::vec(prop_oneof![Just(b'"'), Just(b','), Just(b'\n'), any::<u8>()], 0..200)) {
            let fields: usize = records(&bytes).iter().flatten().map(String::len).sum();
            prop_assert!(fields <= 3 * bytes.len());
            let mut places = Vec::new();
            if split_around(&bytes, 2, 3, &mut places) {
                prop_assert_eq!(places.len(), 6);
                for place in places {
                    prop_assert!(bytes.get(place).is_some());
                }
            }
        }
    }
}
