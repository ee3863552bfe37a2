//! Cuts the text of a trace into its metadata and its events, chunk by chunk, without building a tree.
//!
//! The scanner only finds where an event starts and ends; its fields are read by [`event`](super::event) and only when
//! its category matters. It accepts what the JSON standard does not: control characters and invalid escapes in
//! strings, missing and doubled commas, a missing end. Where an event cannot end (an odd quote in a name, a damaged
//! stretch of the file) it looks for the next start of an event and goes on there.

use super::json::{self, Walk};

/// An event larger than this is skipped and counted.
pub(super) const MAX_EVENT: usize = 16 << 20;
/// A metadata value larger than this is skipped.
const MAX_METADATA: usize = 1 << 20;
/// An event that has grown to this size is looked at for the start of another event inside it, and again whenever it
/// has grown fourfold.
const PROBE: usize = 64 << 10;
/// Bytes that may be scanned a second time after damaged events, so that hostile input costs no quadratic time.
const RESCAN_BUDGET: usize = 64 << 20;
/// The longest start of an event, white space included, that is recognised across chunks.
const LONGEST_START: usize = 64;

/// Takes what the scanner finds.
pub(super) trait Sink {
    /// A member of the top-level object other than `traceEvents`: raw key and value.
    fn metadata(&mut self, key: &[u8], value: &[u8]);
    /// One event: the text from `{` to `}`.
    fn event(&mut self, event: &[u8]);
}

/// What was found beside events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScanReport {
    /// The first bytes that are not white space, when they start no JSON object or list.
    pub(super) not_json: Option<Vec<u8>>,
    /// The list of events was found.
    pub(super) found_events: bool,
    /// The top-level value is a bare list.
    pub(super) bare_list: bool,
    /// Events handed over.
    pub(super) events: u64,
    /// The text ended before the top-level value did.
    pub(super) truncated: bool,
    /// The byte after the last whole event or metadata value.
    pub(super) whole_until: u64,
    /// Bytes seen.
    pub(super) bytes: u64,
    /// Events larger than [`MAX_EVENT`].
    pub(super) oversized: u64,
    /// Events given up because they never ended, with the text continued at a later event.
    pub(super) damaged: u64,
    /// Where a second document starts, which is not read.
    pub(super) second_document: Option<u64>,
    /// The first document was cut short by the second one.
    pub(super) interrupted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the top-level value.
    Start,
    /// Between members of the top-level object.
    Object,
    /// In a key of the top-level object.
    Key,
    /// Between that key and its value.
    AfterKey,
    /// In a metadata value.
    Value,
    /// Between events.
    Events,
    /// In a string that stands between events, where none belongs.
    Stray,
    /// In an event.
    Event,
    /// Looking for the next start of an event after damage.
    Lost,
    /// After the top-level value.
    Done,
}

/// The scanner. Feed it with [`push`](Self::push), close with [`finish`](Self::finish).
pub(super) struct Scanner {
    state: State,
    walk: Walk,
    /// The part of the current event, key or value that earlier chunks held.
    carry: Vec<u8>,
    /// The current event or value outgrew its limit: its bytes are no longer kept.
    dropping: bool,
    key: Vec<u8>,
    /// Size at which the current event is looked at for damage.
    probe_at: usize,
    rescan_budget: usize,
    recovering: bool,
    /// The next chunk starts a gzip member, where another document may start.
    at_member: bool,
    report: ScanReport,
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self {
            state: State::Start,
            walk: Walk::default(),
            carry: Vec::new(),
            dropping: false,
            key: Vec::new(),
            probe_at: PROBE,
            rescan_budget: RESCAN_BUDGET,
            recovering: false,
            at_member: false,
            report: ScanReport::default(),
        }
    }

    /// True when nothing more can come of further bytes.
    pub(super) fn is_hopeless(&self) -> bool {
        self.report.not_json.is_some()
    }

    /// The next bytes.
    pub(super) fn push(&mut self, chunk: &[u8], sink: &mut impl Sink) {
        if std::mem::take(&mut self.at_member) && self.state != State::Done && starts_document(chunk) {
            self.interrupt();
        }
        let start = self.report.bytes;
        self.feed(chunk, start, sink);
        self.report.bytes = start + chunk.len() as u64;
    }

    /// The next chunk starts a gzip member.
    pub(super) fn member(&mut self) {
        self.at_member = true;
    }

    /// Bytes are missing before the next chunk.
    pub(super) fn gap(&mut self) {
        self.at_member = true;
        match self.state {
            State::Start | State::Done | State::Lost => return,
            State::Event => self.report.damaged += 1,
            _ => {}
        }
        self.forget();
        self.state = State::Lost;
    }

    /// Ends the text. What an unfinished event hid is looked for once more.
    pub(super) fn finish(mut self, sink: &mut impl Sink) -> ScanReport {
        if !matches!(self.state, State::Done | State::Start) {
            self.report.truncated = true;
        }
        while self.state == State::Event && self.recover(sink) {}
        self.report
    }

    fn forget(&mut self) {
        self.carry.clear();
        self.dropping = false;
        self.probe_at = PROBE;
        self.walk = Walk::default();
    }

    /// A second document starts before the first has ended: the first keeps what it has.
    fn interrupt(&mut self) {
        if self.state == State::Start {
            return;
        }
        self.forget();
        self.report.interrupted = true;
        self.report.second_document = Some(self.report.bytes);
        self.state = State::Done;
    }

    /// `base` is the offset of the chunk's first byte.
    fn feed(&mut self, chunk: &[u8], base: u64, sink: &mut impl Sink) {
        let mut at = 0;
        while at < chunk.len() {
            at = match self.state {
                State::Start => self.start(chunk, at),
                State::Object => self.object(chunk, at),
                State::Key => self.top_key(chunk, at),
                State::AfterKey => self.after_key(chunk, at),
                State::Value => self.metadata_value(chunk, at, base, sink),
                State::Events => self.between_events(chunk, at),
                State::Stray => self.stray_string(chunk, at),
                State::Event => self.event(chunk, at, base, sink),
                State::Lost => self.lost(chunk, at, base, sink),
                State::Done => self.done(chunk, at, base),
            };
        }
    }

    fn start(&mut self, chunk: &[u8], at: usize) -> usize {
        match chunk[at] {
            b' ' | b'\n' | b'\r' | b'\t' | 0xef | 0xbb | 0xbf => return at + 1,
            b'{' => self.state = State::Object,
            b'[' => {
                self.report.bare_list = true;
                self.report.found_events = true;
                self.state = State::Events;
            }
            _ => {
                let end = chunk.len().min(at + 32);
                self.report.not_json = Some(chunk[at..end].to_vec());
                self.state = State::Done;
            }
        }
        at + 1
    }

    fn object(&mut self, chunk: &[u8], at: usize) -> usize {
        match chunk[at] {
            b'"' => {
                self.forget();
                self.state = State::Key;
            }
            b'}' => self.state = State::Done,
            _ => {}
        }
        at + 1
    }

    fn top_key(&mut self, chunk: &[u8], at: usize) -> usize {
        let end = self.walk.string_end(chunk, at);
        let closed = end.is_some();
        let end = end.unwrap_or(chunk.len());
        self.keep(&chunk[at..end - usize::from(closed)], MAX_METADATA);
        if closed {
            std::mem::swap(&mut self.key, &mut self.carry);
            self.forget();
            self.state = State::AfterKey;
        }
        end
    }

    fn after_key(&mut self, chunk: &[u8], at: usize) -> usize {
        match chunk[at] {
            b' ' | b'\n' | b'\r' | b'\t' | b':' => return at + 1,
            b'[' if self.key == b"traceEvents" => {
                self.report.found_events = true;
                self.state = State::Events;
                return at + 1;
            }
            b',' => self.state = State::Object,
            b'}' => self.state = State::Done,
            _ => {
                self.forget();
                self.state = State::Value;
                return at;
            }
        }
        at + 1
    }

    fn metadata_value(&mut self, chunk: &[u8], at: usize, base: u64, sink: &mut impl Sink) -> usize {
        let end = self.value_end(chunk, at);
        let stop = end.unwrap_or(chunk.len());
        self.keep(&chunk[at..stop], MAX_METADATA);
        if end.is_some() {
            if !self.dropping {
                sink.metadata(&self.key, self.carry.trim_ascii());
            }
            self.forget();
            self.report.whole_until = base + stop as u64;
            self.state = State::Object;
        }
        stop
    }

    fn between_events(&mut self, chunk: &[u8], at: usize) -> usize {
        let at = json::skip_gap(chunk, at);
        match chunk.get(at) {
            None => return at,
            Some(b'{') => {
                self.forget();
                self.state = State::Event;
                return at;
            }
            Some(b']') => self.state = if self.report.bare_list { State::Done } else { State::Object },
            Some(b'"') => self.state = State::Stray,
            Some(_) => {}
        }
        at + 1
    }

    fn stray_string(&mut self, chunk: &[u8], at: usize) -> usize {
        match self.walk.string_end(chunk, at) {
            Some(end) => {
                self.state = State::Events;
                end
            }
            None => chunk.len(),
        }
    }

    fn event(&mut self, chunk: &[u8], at: usize, base: u64, sink: &mut impl Sink) -> usize {
        let end = self.event_end(chunk, at);
        let stop = end.unwrap_or(chunk.len());
        if end.is_some() && self.carry.is_empty() && !self.dropping {
            self.report.events += 1;
            sink.event(&chunk[at..stop]);
        } else {
            self.keep(&chunk[at..stop], MAX_EVENT);
            if end.is_none() {
                self.probe(sink);
                return stop;
            }
            if self.dropping {
                self.report.oversized += 1;
            } else {
                self.report.events += 1;
                sink.event(&self.carry);
            }
        }
        self.forget();
        self.report.whole_until = base + stop as u64;
        self.state = State::Events;
        stop
    }

    /// An event that outgrows the usual may be one that never ended: other events start inside it.
    fn probe(&mut self, sink: &mut impl Sink) {
        if self.recovering {
            return;
        }
        if self.carry.len() >= self.probe_at || (self.dropping && !self.carry.is_empty()) {
            self.probe_at = self.probe_at.saturating_mul(4);
            if !self.recover(sink) && self.dropping {
                self.carry = Vec::new();
            }
        }
    }

    /// Gives the event in `carry` up and goes on at the next start of an event inside it, as often as there is one and
    /// what is left is still larger than usual.
    fn recover(&mut self, sink: &mut impl Sink) -> bool {
        let mut recovered = false;
        while let Some(start) = self.carry.get(1..).and_then(event_start) {
            let Some(budget) = self.rescan_budget.checked_sub(self.carry.len()) else { break };
            self.rescan_budget = budget;
            self.report.damaged += 1;
            let pending = std::mem::take(&mut self.carry);
            self.forget();
            self.state = State::Events;
            self.recovering = true;
            // Offsets are those of the last chunk: near enough for a place that is damaged.
            self.feed(&pending[1 + start..], self.report.bytes.saturating_sub(pending.len() as u64), sink);
            self.recovering = false;
            recovered = true;
            if self.state != State::Event || self.carry.len() < PROBE {
                break;
            }
        }
        recovered
    }

    fn lost(&mut self, chunk: &[u8], at: usize, base: u64, sink: &mut impl Sink) -> usize {
        let before = self.carry.len();
        self.carry.extend_from_slice(&chunk[at..]);
        match event_start(&self.carry) {
            Some(start) => {
                let pending = std::mem::take(&mut self.carry);
                self.forget();
                self.report.found_events = true;
                self.state = State::Events;
                self.feed(&pending[start..], base.saturating_sub(before as u64), sink);
            }
            None => {
                let keep = self.carry.len().saturating_sub(LONGEST_START);
                self.carry.drain(..keep);
            }
        }
        chunk.len()
    }

    fn done(&mut self, chunk: &[u8], at: usize, base: u64) -> usize {
        let found = chunk[at..].iter().position(|byte| !byte.is_ascii_whitespace());
        if let (Some(found), None) = (found, self.report.second_document) {
            self.report.second_document = Some(base + (at + found) as u64);
        }
        chunk.len()
    }

    fn keep(&mut self, bytes: &[u8], limit: usize) {
        if !self.dropping && self.carry.len() + bytes.len() <= limit {
            self.carry.extend_from_slice(bytes);
        } else {
            self.dropping = true;
        }
    }

    /// The index after the brace that closes the current event. Only braces count: a missing bracket costs nothing.
    fn event_end(&mut self, chunk: &[u8], mut at: usize) -> Option<usize> {
        loop {
            if self.walk.in_string {
                at = self.walk.string_end(chunk, at)?;
                self.walk.in_string = false;
            }
            at += memchr::memchr3(b'"', b'{', b'}', chunk.get(at..)?)?;
            match chunk[at] {
                b'"' => self.walk.in_string = true,
                b'{' => self.walk.depth = self.walk.depth.saturating_add(1),
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

    /// The index of the `,` or `}` that follows the current metadata value.
    fn value_end(&mut self, chunk: &[u8], mut at: usize) -> Option<usize> {
        loop {
            if self.walk.in_string {
                at = self.walk.string_end(chunk, at)?;
                self.walk.in_string = false;
            }
            match chunk.get(at)? {
                b'"' => self.walk.in_string = true,
                b'{' | b'[' => self.walk.depth = self.walk.depth.saturating_add(1),
                b',' | b'}' if self.walk.depth == 0 => return Some(at),
                b'}' | b']' => self.walk.depth = self.walk.depth.saturating_sub(1),
                _ => {}
            }
            at += 1;
        }
    }
}

/// The index of the next `{` that starts an event: one whose first key is among those that events start with.
fn event_start(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'{', bytes)
        .find(|at| first_key(&bytes[*at..]).is_some_and(|key| matches!(key, b"ph" | b"cat")))
}

/// True when a chunk starts with an object whose first key is one of a whole trace.
fn starts_document(chunk: &[u8]) -> bool {
    const KEYS: [&[u8]; 6] =
        [b"schemaVersion", b"traceEvents", b"deviceProperties", b"metadata", b"displayTimeUnit", b"distributedInfo"];
    first_key(chunk.trim_ascii_start()).is_some_and(|key| KEYS.contains(&key))
}

/// The first key of the object that `bytes` starts with, if it stands within [`LONGEST_START`].
fn first_key(bytes: &[u8]) -> Option<&[u8]> {
    let bytes = &bytes[..bytes.len().min(LONGEST_START)];
    let inner = bytes.strip_prefix(b"{")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr(b'"', inner)?;
    inner[end + 1..].trim_ascii_start().starts_with(b":").then_some(&inner[..end])
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
