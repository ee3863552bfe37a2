//! Cuts rocprofv3's JSON into the elements that matter, chunk by chunk, without building a tree.
//!
//! The text is one object, `{"rocprofiler-sdk-tool": [process, ...]}`. Of a process, the lists of agents, kernel symbols, kernel dispatches and
//! counted dispatches are walked element by element, wherever they stand in it; every other value is stepped over unread. What the JSON standard
//! forbids (control characters, missing commas, a missing end) does no harm.

use crate::kineto::json::Walk;

/// An element larger than this is skipped and counted. Dispatches take some 600 bytes, symbols with long names some 100 KB.
pub(super) const MAX_ELEMENT: usize = 4 << 20;
/// A dispatch that has grown to this size never ended: the scanner looks for the start of another one.
pub(super) const MAX_DISPATCH: usize = 64 << 10;
/// Keys are cut to this length: none that matters is longer.
const MAX_KEY: usize = 64;
/// The longest start of a dispatch, white space included, that is recognised across chunks.
const LONGEST_START: usize = 64;

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// `metadata` of a process.
    Metadata,
    /// One of `agents`.
    Agent,
    /// One of `kernel_symbols`.
    Symbol,
    /// One of `buffer_records.kernel_dispatch`.
    Dispatch,
    /// One of `callback_records.counter_collection`; its text is empty.
    Counted,
}

/// Takes what the scanner finds.
pub(super) trait Sink {
    /// One element: the text from `{` to `}`.
    fn element(&mut self, part: Part, text: &[u8]);
    /// The process that the elements since the last call belong to has ended.
    fn process_end(&mut self);
}

/// What was found beside elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScanReport {
    /// The root object has the tool's key.
    pub(super) found_tool: bool,
    /// The text ended before its root did.
    pub(super) truncated: bool,
    /// Bytes seen.
    pub(super) bytes: u64,
    /// Elements that were too large or never ended.
    pub(super) damaged: u64,
}

/// The container that the scanner is directly in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the root object.
    Start,
    Root,
    /// The list of processes.
    Tools,
    Process,
    /// `buffer_records`.
    Buffers,
    /// `callback_records`.
    Callbacks,
    /// A list of elements.
    List(Part),
    /// Behind the root object, or in what is no JSON object.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Between members or elements.
    Between,
    /// In a key.
    Key,
    /// Between a key and its value.
    AfterKey,
    /// In a string that is no key.
    Text,
    /// In an element.
    Element(Part),
    /// In a container that is stepped over: its opening and closing bracket.
    Skip(u8, u8),
    /// Looking for the next start of a dispatch after damage.
    Lost,
}

/// The scanner. Feed it with [`push`](Self::push), close with [`finish`](Self::finish).
pub(super) struct Scanner {
    place: Place,
    mode: Mode,
    walk: Walk,
    /// The part of the current element or key that earlier chunks held.
    carry: Vec<u8>,
    /// The current element outgrew its limit: its bytes are no longer kept.
    dropping: bool,
    key: Vec<u8>,
    /// The root's value is one process instead of a list of them.
    is_bare: bool,
    report: ScanReport,
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self {
            place: Place::Start,
            mode: Mode::Between,
            walk: Walk::default(),
            carry: Vec::new(),
            dropping: false,
            key: Vec::new(),
            is_bare: false,
            report: ScanReport::default(),
        }
    }

    /// True as soon as the tool's key was found.
    pub(super) fn found_tool(&self) -> bool {
        self.report.found_tool
    }

    /// True when nothing more can come of further bytes.
    pub(super) fn is_done(&self) -> bool {
        self.place == Place::Done
    }

    /// The next bytes.
    pub(super) fn push(&mut self, chunk: &[u8], sink: &mut impl Sink) {
        self.report.bytes += chunk.len() as u64;
        self.feed(chunk, sink);
    }

    /// Bytes are missing before the next chunk.
    pub(super) fn gap(&mut self) {
        if !matches!(self.place, Place::Start | Place::Done) {
            self.lose();
        }
    }

    /// Ends the text.
    pub(super) fn finish(mut self, sink: &mut impl Sink) -> ScanReport {
        if self.place != Place::Done {
            self.report.truncated = true;
            sink.process_end();
        }
        self.report
    }

    fn forget(&mut self) {
        self.carry.clear();
        self.dropping = false;
        self.walk = Walk::default();
    }

    fn lose(&mut self) {
        self.report.damaged += 1;
        self.forget();
        self.mode = Mode::Lost;
    }

    fn feed(&mut self, chunk: &[u8], sink: &mut impl Sink) {
        let mut at = 0;
        while at < chunk.len() {
            at = match self.mode {
                Mode::Between => self.between(chunk, at, sink),
                Mode::Key => self.key(chunk, at),
                Mode::AfterKey => self.after_key(chunk, at),
                Mode::Text => self.text(chunk, at),
                Mode::Element(part) => self.element(part, chunk, at, sink),
                Mode::Skip(open, close) => self.skip(open, close, chunk, at),
                Mode::Lost => self.lost(chunk, at, sink),
            };
        }
    }

    fn between(&mut self, chunk: &[u8], at: usize, sink: &mut impl Sink) -> usize {
        match (self.place, chunk[at]) {
            (Place::Done, _) => return chunk.len(),
            (Place::Start, b' ' | b'\n' | b'\r' | b'\t' | 0xef | 0xbb | 0xbf) => {}
            (Place::Start, b'{') => self.place = Place::Root,
            (Place::Start, _) => self.place = Place::Done,
            (Place::Tools, b'{') => self.place = Place::Process,
            (Place::List(Part::Counted), b'{') => {
                sink.element(Part::Counted, b"");
                self.mode = Mode::Skip(b'{', b'}');
                return at;
            }
            (Place::List(part), b'{') => {
                self.mode = Mode::Element(part);
                return at;
            }
            (Place::Tools | Place::List(_), b'"') => self.mode = Mode::Text,
            (Place::Tools | Place::List(_), b'[') => {
                self.mode = Mode::Skip(b'[', b']');
                return at;
            }
            (Place::Tools | Place::List(_), b']') | (_, b'}') => self.leave(sink),
            (_, b'"') => {
                self.key.clear();
                self.mode = Mode::Key;
            }
            // Commas, scalars that were values, strays.
            _ => {}
        }
        at + 1
    }

    /// Goes to the container around the current one.
    fn leave(&mut self, sink: &mut impl Sink) {
        self.place = match self.place {
            Place::List(Part::Dispatch) => Place::Buffers,
            Place::List(Part::Counted) => Place::Callbacks,
            Place::List(_) | Place::Buffers | Place::Callbacks => Place::Process,
            Place::Process => {
                sink.process_end();
                if self.is_bare { Place::Root } else { Place::Tools }
            }
            Place::Tools => Place::Root,
            Place::Root | Place::Start | Place::Done => Place::Done,
        };
    }

    fn key(&mut self, chunk: &[u8], at: usize) -> usize {
        let end = self.walk.string_end(chunk, at);
        let inner = &chunk[at..end.map_or(chunk.len(), |end| end - 1)];
        self.key.extend_from_slice(&inner[..inner.len().min(MAX_KEY - self.key.len())]);
        if end.is_some() {
            self.mode = Mode::AfterKey;
        }
        end.unwrap_or(chunk.len())
    }

    fn after_key(&mut self, chunk: &[u8], at: usize) -> usize {
        let byte = chunk[at];
        self.mode = Mode::Between;
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' | b':' => self.mode = Mode::AfterKey,
            b'"' => self.mode = Mode::Text,
            b'{' | b'[' => match self.child(byte) {
                Some(place) => self.place = place,
                None if self.place == Place::Process && self.key == b"metadata" && byte == b'{' => {
                    self.mode = Mode::Element(Part::Metadata);
                    return at;
                }
                None => {
                    self.mode = Mode::Skip(byte, if byte == b'{' { b'}' } else { b']' });
                    return at;
                }
            },
            // The end of the object: it is looked at again.
            b'}' => return at,
            _ => {}
        }
        at + 1
    }

    /// The container that opens behind the current key, if it is one to look into.
    fn child(&mut self, open: u8) -> Option<Place> {
        let child = match (self.place, self.key.as_slice(), open) {
            (Place::Root, b"rocprofiler-sdk-tool", _) => {
                self.report.found_tool = true;
                self.is_bare = open == b'{';
                if self.is_bare { Place::Process } else { Place::Tools }
            }
            (Place::Process, b"agents", b'[') => Place::List(Part::Agent),
            (Place::Process, b"kernel_symbols", b'[') => Place::List(Part::Symbol),
            (Place::Process, b"buffer_records", b'{') => Place::Buffers,
            (Place::Process, b"callback_records", b'{') => Place::Callbacks,
            (Place::Buffers, b"kernel_dispatch", b'[') => Place::List(Part::Dispatch),
            (Place::Callbacks, b"counter_collection", b'[') => Place::List(Part::Counted),
            _ => return None,
        };
        Some(child)
    }

    fn text(&mut self, chunk: &[u8], at: usize) -> usize {
        match self.walk.string_end(chunk, at) {
            Some(end) => {
                self.mode = Mode::Between;
                end
            }
            None => chunk.len(),
        }
    }

    fn element(&mut self, part: Part, chunk: &[u8], at: usize, sink: &mut impl Sink) -> usize {
        let end = self.container_end(b'{', b'}', chunk, at);
        let stop = end.unwrap_or(chunk.len());
        let limit = if part == Part::Dispatch { MAX_DISPATCH } else { MAX_ELEMENT };
        let size = self.carry.len() + (stop - at);
        if part == Part::Dispatch && size > limit {
            // Everything up to the limit is given up; what follows may start a dispatch again.
            let given_up = at + limit.saturating_sub(self.carry.len()).min(stop - at);
            self.lose();
            return given_up;
        }
        match (end, self.dropping || size > limit) {
            (Some(_), true) => self.report.damaged += 1,
            (Some(_), false) if self.carry.is_empty() => sink.element(part, &chunk[at..stop]),
            (Some(_), false) => {
                self.carry.extend_from_slice(&chunk[at..stop]);
                sink.element(part, &self.carry);
            }
            (None, true) => {
                self.dropping = true;
                self.carry = Vec::new();
                return stop;
            }
            (None, false) => {
                self.carry.extend_from_slice(&chunk[at..stop]);
                return stop;
            }
        }
        self.forget();
        self.mode = Mode::Between;
        stop
    }

    fn skip(&mut self, open: u8, close: u8, chunk: &[u8], at: usize) -> usize {
        match self.container_end(open, close, chunk, at) {
            Some(end) => {
                self.forget();
                self.mode = Mode::Between;
                end
            }
            None => chunk.len(),
        }
    }

    fn lost(&mut self, chunk: &[u8], at: usize, sink: &mut impl Sink) -> usize {
        if let Some(start) = dispatch_start(&chunk[at..]).filter(|_| self.carry.is_empty()) {
            self.found();
            return at + start;
        }
        // A start may stand across two chunks: their seam is looked at by itself.
        let rest = &chunk[at..];
        let seam = rest.len().min(LONGEST_START);
        let before = self.carry.len();
        self.carry.extend_from_slice(&rest[..seam]);
        match dispatch_start(&self.carry) {
            Some(start) if start < before => {
                let pending = self.carry.split_off(start);
                self.found();
                self.feed(&pending, sink);
                at + seam
            }
            _ => match dispatch_start(rest) {
                Some(start) => {
                    self.found();
                    at + start
                }
                None => {
                    let tail = if rest.len() > seam { &rest[seam..] } else { &[] };
                    self.carry.extend_from_slice(&tail[tail.len().saturating_sub(LONGEST_START)..]);
                    let keep = self.carry.len().saturating_sub(LONGEST_START);
                    self.carry.drain(..keep);
                    chunk.len()
                }
            },
        }
    }

    /// A dispatch starts with the next byte.
    fn found(&mut self) {
        self.forget();
        self.place = Place::List(Part::Dispatch);
        self.mode = Mode::Between;
    }

    /// The index after the bracket that closes the current container. Only its own kind of bracket counts: a missing one of the other costs
    /// nothing.
    fn container_end(&mut self, open: u8, close: u8, chunk: &[u8], mut at: usize) -> Option<usize> {
        loop {
            if self.walk.in_string {
                at = self.walk.string_end(chunk, at)?;
                self.walk.in_string = false;
            }
            at += memchr::memchr3(b'"', open, close, chunk.get(at..)?)?;
            match chunk[at] {
                b'"' => self.walk.in_string = true,
                byte if byte == open => self.walk.depth = self.walk.depth.saturating_add(1),
                _ => {
                    self.walk.depth = self.walk.depth.saturating_sub(1);
                    if self.walk.depth == 0 {
                        return Some(at + 1);
                    }
                }
            }
            at += 1;
        }
    }
}

/// The index of the next `{` that starts a record: one whose first key is among those that records start with.
fn dispatch_start(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'{', bytes).find(|at| {
        let bytes = &bytes[at + 1..bytes.len().min(at + LONGEST_START)];
        let Some(inner) = bytes.trim_ascii_start().strip_prefix(b"\"") else { return false };
        [&b"size\""[..], b"kind\"", b"thread_id\""].iter().any(|key| inner.starts_with(key))
    })
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
