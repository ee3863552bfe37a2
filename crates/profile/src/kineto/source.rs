//! The bytes of a trace: plain or gzip, read and inflated on a thread of their own into recycled buffers, so that
//! scanning overlaps inflating and memory stays constant. Damaged gzip gives what can be had, and says what was lost.

use flate2::{Decompress, FlushDecompress, Status};
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes of one buffer.
const CHUNK: usize = 256 << 10;
/// Buffers that wait to be scanned; with one at each end, six exist at a time.
const QUEUE: usize = 4;
/// Damaged places remembered one by one.
const MAX_DAMAGE: usize = 8;
/// Tries to find a readable member after a damaged one.
const MAX_SALVAGES: u32 = 64;
/// What a gzip member starts with: magic and the only method there is.
const GZIP_START: [u8; 3] = [0x1f, 0x8b, 8];

/// What the thread hands over.
pub(crate) enum Piece {
    /// The next bytes.
    Bytes(Vec<u8>),
    /// A further gzip member starts with the next bytes.
    Member,
    /// Bytes are missing here: a damaged member ended early and another follows.
    Gap,
}

/// How the reading went.
#[derive(Debug, Default)]
pub(crate) struct SourceReport {
    /// True for gzip.
    pub(crate) compressed: bool,
    /// Gzip members with data.
    pub(crate) members: u64,
    /// Bytes of the file that were read.
    pub(crate) bytes_read: u64,
    /// Bytes handed over.
    pub(crate) bytes_out: u64,
    /// Damaged places, the first few.
    pub(crate) damage: Vec<Damage>,
    /// Why the system stopped the reading.
    pub(crate) error: Option<io::Error>,
}

/// A damaged place of a gzip file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    /// Member, counted from 1.
    pub(crate) member: u64,
    /// Byte of the compressed file.
    pub(crate) offset: u64,
    /// What is wrong.
    pub(crate) kind: DamageKind,
}

/// What is wrong with a gzip file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DamageKind {
    /// The file ends inside the member.
    Truncated,
    /// The compressed data is invalid.
    Corrupt,
    /// The checksum or length at the member's end does not match its data.
    Checksum,
    /// Bytes that are no gzip follow the last member.
    Trailing,
}

/// The receiving end: pieces in order, then the report.
pub(crate) struct Pieces {
    pieces: Receiver<Piece>,
    recycled: SyncSender<Vec<u8>>,
    thread: JoinHandle<SourceReport>,
}

impl Pieces {
    /// Starts reading `reader` on a new thread.
    pub(crate) fn start(reader: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, pieces) = sync_channel(QUEUE);
        let (recycled, spare) = sync_channel(QUEUE + 2);
        let producer = Producer {
            reader,
            input: vec![0; CHUNK],
            used: 0,
            filled: 0,
            at_end: false,
            output: Output { sender, spare, buffer: vec![0; CHUNK], filled: 0 },
            report: SourceReport::default(),
        };
        let thread = std::thread::Builder::new().name("trace-reader".into()).spawn(move || producer.run())?;
        Ok(Self { pieces, recycled, thread })
    }

    /// The next piece; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<Piece> {
        self.pieces.recv().ok()
    }

    /// Gives a buffer back.
    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        // A full queue only means that the buffer is dropped.
        let _ = self.recycled.try_send(buffer);
    }

    /// Stops the thread and takes its report.
    pub(crate) fn finish(self) -> SourceReport {
        drop(self.pieces);
        self.thread.join().unwrap_or_else(|_| SourceReport {
            error: Some(io::Error::other("the thread that reads the file stopped unexpectedly")),
            ..SourceReport::default()
        })
    }
}

/// The receiver is gone: nobody wants more.
struct Closed;

/// The sending end with the buffer that is being filled.
struct Output {
    sender: SyncSender<Piece>,
    spare: Receiver<Vec<u8>>,
    buffer: Vec<u8>,
    filled: usize,
}

impl Output {
    fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    fn advance(&mut self, bytes: usize) -> Result<(), Closed> {
        self.filled += bytes;
        if self.filled == self.buffer.len() { self.flush() } else { Ok(()) }
    }

    /// Sends what is there, if anything.
    fn flush(&mut self) -> Result<(), Closed> {
        if self.filled == 0 {
            return Ok(());
        }
        let mut fresh = self.spare.try_recv().unwrap_or_default();
        fresh.resize(CHUNK, 0);
        let mut full = std::mem::replace(&mut self.buffer, fresh);
        full.truncate(self.filled);
        self.filled = 0;
        self.send(Piece::Bytes(full))
    }

    fn send(&self, piece: Piece) -> Result<(), Closed> {
        self.sender.send(piece).map_err(|_| Closed)
    }
}

/// Reads and inflates.
struct Producer<R> {
    reader: R,
    input: Vec<u8>,
    used: usize,
    filled: usize,
    at_end: bool,
    output: Output,
    report: SourceReport,
}

/// How a member ended.
enum MemberEnd {
    Whole,
    Damaged(DamageKind),
}

/// What follows a whole member.
enum Next {
    End,
    Member,
    Garbage,
}

impl<R: Read> Producer<R> {
    fn run(mut self) -> SourceReport {
        // A receiver that hung up wants no more data; the report stands all the same.
        let _: Result<(), Closed> = self.pump();
        self.report
    }

    fn pump(&mut self) -> Result<(), Closed> {
        self.fill(GZIP_START.len());
        if self.pending().starts_with(&GZIP_START[..2]) {
            self.report.compressed = true;
            self.inflate_members()?;
        } else {
            self.copy()?;
        }
        self.output.flush()
    }

    fn pending(&self) -> &[u8] {
        &self.input[self.used..self.filled]
    }

    /// Offset in the file of the next byte to be used.
    fn offset(&self) -> u64 {
        self.report.bytes_read - self.pending().len() as u64
    }

    /// Reads until `wanted` bytes are pending or the file ends.
    fn fill(&mut self, wanted: usize) {
        if self.pending().len() >= wanted || self.at_end {
            return;
        }
        self.input.copy_within(self.used..self.filled, 0);
        self.filled -= self.used;
        self.used = 0;
        while self.filled < wanted.min(self.input.len()) && !self.at_end {
            match self.reader.read(&mut self.input[self.filled..]) {
                Ok(0) => self.at_end = true,
                Ok(bytes) => {
                    self.filled += bytes;
                    self.report.bytes_read += bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.report.error = Some(error);
                    self.at_end = true;
                }
            }
        }
    }

    fn copy(&mut self) -> Result<(), Closed> {
        loop {
            self.fill(1);
            let room = self.output.room();
            let bytes = room.len().min(self.filled - self.used);
            if bytes == 0 {
                return Ok(());
            }
            room[..bytes].copy_from_slice(&self.input[self.used..self.used + bytes]);
            self.used += bytes;
            self.report.bytes_out += bytes as u64;
            self.output.advance(bytes)?;
        }
    }

    fn inflate_members(&mut self) -> Result<(), Closed> {
        let mut salvages = 0;
        loop {
            let (start, out_before) = (self.offset(), self.report.bytes_out);
            let mut end = self.inflate_member()?;
            self.output.flush()?;
            let gave_data = self.report.bytes_out > out_before;
            if gave_data || self.report.members == 0 {
                self.report.members += 1;
            }
            let mut from = start + 1;
            if matches!(end, MemberEnd::Whole) {
                match self.next_member() {
                    Next::End => return Ok(()),
                    Next::Member => {
                        self.output.send(Piece::Member)?;
                        continue;
                    }
                    Next::Garbage => {
                        from = self.offset();
                        end = MemberEnd::Damaged(DamageKind::Trailing);
                    }
                }
            }
            let MemberEnd::Damaged(kind) = end else { return Ok(()) };
            let in_sequence = matches!(kind, DamageKind::Checksum | DamageKind::Trailing);
            // A false start that salvaging tried is no damage of its own.
            if gave_data || salvages == 0 {
                self.note_damage(kind);
            }
            salvages += 1;
            if salvages > MAX_SALVAGES || !self.seek_member(from) {
                return Ok(());
            }
            self.output.send(if in_sequence { Piece::Member } else { Piece::Gap })?;
        }
    }

    fn note_damage(&mut self, kind: DamageKind) {
        if self.report.damage.len() < MAX_DAMAGE {
            let (member, offset) = (self.report.members, self.offset());
            self.report.damage.push(Damage { member, offset, kind });
        }
    }

    fn inflate_member(&mut self) -> Result<MemberEnd, Closed> {
        let mut inflate = Decompress::new_gzip(15);
        loop {
            self.fill(1);
            let (in_before, out_before) = (inflate.total_in(), inflate.total_out());
            let pending = &self.input[self.used..self.filled];
            let result = inflate.decompress(pending, self.output.room(), FlushDecompress::None);
            let taken = (inflate.total_in() - in_before) as usize;
            let given = (inflate.total_out() - out_before) as usize;
            self.used += taken;
            self.report.bytes_out += given as u64;
            self.output.advance(given)?;
            match result {
                Ok(Status::StreamEnd) => return Ok(MemberEnd::Whole),
                Ok(_) if taken + given > 0 => {}
                Ok(_) if self.at_end && self.pending().is_empty() => {
                    return Ok(MemberEnd::Damaged(DamageKind::Truncated));
                }
                // No progress with input and room at hand cannot be valid data.
                Ok(_) => return Ok(MemberEnd::Damaged(DamageKind::Corrupt)),
                Err(error) => {
                    let check = error.message().is_some_and(|message| message.contains("check"));
                    let checksum = check && inflate.total_out() > 0;
                    let kind = if checksum { DamageKind::Checksum } else { DamageKind::Corrupt };
                    return Ok(MemberEnd::Damaged(kind));
                }
            }
        }
    }

    /// What follows a whole member; zero padding is allowed between members and after the last.
    fn next_member(&mut self) -> Next {
        loop {
            self.fill(GZIP_START.len());
            let zeros = self.pending().iter().take_while(|byte| **byte == 0).count();
            if zeros == 0 {
                break;
            }
            self.used += zeros;
        }
        match self.pending() {
            [] => Next::End,
            pending if pending.starts_with(&GZIP_START) => Next::Member,
            _ => Next::Garbage,
        }
    }

    /// Goes to the next place that looks like the start of a member, at `from` or later as far as the buffer reaches
    /// back. A damaged stream may have run over the start of the next member before it was noticed.
    fn seek_member(&mut self, from: u64) -> bool {
        let buffer_start = self.report.bytes_read - self.filled as u64;
        self.used = (from.saturating_sub(buffer_start) as usize).min(self.used);
        loop {
            if let Some(found) = memchr::memmem::find(self.pending(), &GZIP_START) {
                self.used += found;
                return true;
            }
            if self.at_end {
                return false;
            }
            self.used = self.filled.saturating_sub(GZIP_START.len() - 1).max(self.used);
            self.fill(GZIP_START.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::{Cursor, Write};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Bytes that do not compress to nothing, so that damage in the middle is damage in the middle.
    fn noise(bytes: usize, seed: u64) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            b'a' + ((state >> 33) % 26) as u8
        };
        (0..bytes).map(|_| next()).collect()
    }

    /// Everything handed over (`|` for a further member, `#` for a gap), and the report.
    fn drain(file: Vec<u8>) -> (Vec<u8>, SourceReport) {
        let mut pieces = Pieces::start(Cursor::new(file)).unwrap();
        let mut all = Vec::new();
        while let Some(piece) = pieces.next() {
            match piece {
                Piece::Bytes(bytes) => {
                    all.extend_from_slice(&bytes);
                    pieces.recycle(bytes);
                }
                Piece::Member => all.push(b'|'),
                Piece::Gap => all.push(b'#'),
            }
        }
        (all, pieces.finish())
    }

    #[test]
    fn plain_and_gzip_give_the_same_bytes() {
        for size in [0, 1, CHUNK - 1, CHUNK, 3 * CHUNK + 17] {
            let bytes = noise(size, 1);
            let (plain, report) = drain(bytes.clone());
            assert_eq!((plain, report.compressed, report.bytes_out), (bytes.clone(), false, size as u64));
            let (inflated, report) = drain(gzip(&bytes));
            assert!(report.compressed && report.damage.is_empty() && inflated == bytes, "{size}");
        }
    }

    #[test]
    fn members_follow_each_other_with_padding_allowed() {
        let file = [gzip(b"one"), gzip(b"two"), vec![0; 700], gzip(b"three"), vec![0; 3]].concat();
        let (all, report) = drain(file);
        assert_eq!(all, b"one|two|three");
        assert_eq!((report.members, report.damage), (3, vec![]));
    }

    #[test]
    fn what_follows_the_last_member_is_reported() {
        let first = gzip(b"one");
        let (all, report) = drain([first.clone(), b"garbage".to_vec()].concat());
        assert_eq!(all, b"one");
        assert_eq!(report.damage, [Damage { member: 1, offset: first.len() as u64, kind: DamageKind::Trailing }]);
    }

    #[test]
    fn a_file_cut_anywhere_gives_a_prefix() {
        let bytes = noise(100_000, 2);
        let file = gzip(&bytes);
        let mut longest = 0;
        for cut in (2..file.len()).step_by(997).chain([file.len() - 1]) {
            let (all, report) = drain(file[..cut].to_vec());
            assert!(bytes.starts_with(&all), "cut at {cut}");
            assert!(all.len() >= longest, "a later cut gives no less");
            longest = all.len();
            assert_eq!(report.damage, [Damage { member: 1, offset: cut as u64, kind: DamageKind::Truncated }]);
        }
        assert_eq!(longest, bytes.len(), "only the checksum was cut");
    }

    #[test]
    fn a_corrupt_member_costs_no_other_member() {
        let (first, second, third) = (noise(60_000, 3), noise(60_000, 4), noise(60_000, 5));
        let (a, mut b, c) = (gzip(&first), gzip(&second), gzip(&third));
        let middle = b.len() / 2;
        b[middle..middle + 40].fill(0xff);
        let (all, report) = drain([a, b, c].concat());
        assert!(all.starts_with(&[&first[..], b"|"].concat()));
        assert!(all.ends_with(&third), "the third member is whole");
        assert!(all.contains(&b'#') || report.damage[0].kind == DamageKind::Checksum);
        assert_eq!(report.damage[0].member, 2);
    }

    #[test]
    fn a_wrong_checksum_keeps_the_data() {
        let mut file = gzip(b"whole");
        let at = file.len() - 6;
        file[at] ^= 1;
        let (all, report) = drain([file, gzip(b"next")].concat());
        assert_eq!(all, b"whole|next");
        assert_eq!(report.damage.len(), 1);
        assert_eq!(report.damage[0].kind, DamageKind::Checksum);
    }

    #[test]
    fn a_reader_that_fails_reports_the_error() {
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("the disk is gone"))
            }
        }
        let mut pieces = Pieces::start(Failing).unwrap();
        assert!(pieces.next().is_none());
        assert_eq!(pieces.finish().error.map(|error| error.to_string()).as_deref(), Some("the disk is gone"));
    }

    #[test]
    fn a_receiver_that_stops_early_stops_the_thread() {
        let mut pieces = Pieces::start(io::repeat(b' ')).unwrap();
        assert!(pieces.next().is_some());
        assert!(pieces.finish().bytes_out > 0);
    }

    #[test]
    fn file_of_false_member_starts_ends_soon() {
        let file = [gzip(b"x"), GZIP_START.repeat(1 << 18)].concat();
        let started = std::time::Instant::now();
        let (_, report) = drain(file);
        assert!(!report.damage.is_empty());
        assert!(started.elapsed().as_secs() < 20);
    }
}
