//! The form in which counter values of a dispatch travel through the ring.
//!
//! A record is a header of 32 bytes and entries of 20, little-endian. A dispatch whose values do not fit one record of the ring travels in
//! several; each header says how many values the dispatch has in all.

use serde::{Deserialize, Serialize};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 32;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 20;

/// Where in the device an instance counts. What an architecture or a counter does not tell apart is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// Die of compute units.
    pub xcc: u8,
    /// I/O die.
    pub aid: u8,
    /// Shader engine.
    pub se: u8,
    /// Agent.
    pub agent: u8,
    /// Shader array.
    pub shader_array: u8,
    /// Workgroup processor.
    pub wgp: u8,
    /// Instance of the block.
    pub instance: u16,
}

impl Position {
    /// Sets the coordinate of one of rocprofiler-sdk's dimensions (1 XCC, 2 AID, 3 SE, 4 AGENT, 5 SHADER_ARRAY, 6 WGP, 7 INSTANCE). `None` for another
    /// dimension, or a coordinate that no device has.
    pub fn with(mut self, dimension: u64, at: usize) -> Option<Self> {
        let narrow = || u8::try_from(at).ok();
        match dimension {
            1 => self.xcc = narrow()?,
            2 => self.aid = narrow()?,
            3 => self.se = narrow()?,
            4 => self.agent = narrow()?,
            5 => self.shader_array = narrow()?,
            6 => self.wgp = narrow()?,
            7 => self.instance = u16::try_from(at).ok()?,
            _ => return None,
        }
        Some(self)
    }

    fn to_bytes(self) -> [u8; 8] {
        let [low, high] = self.instance.to_le_bytes();
        [self.xcc, self.aid, self.se, self.agent, self.shader_array, self.wgp, low, high]
    }

    fn from_bytes([xcc, aid, se, agent, shader_array, wgp, low, high]: [u8; 8]) -> Self {
        Self { xcc, aid, se, agent, shader_array, wgp, instance: u16::from_le_bytes([low, high]) }
    }
}

/// What is known about a dispatch beside its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The profiler's number of the dispatch.
    pub dispatch_id: u64,
    /// Start, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Values of the dispatch, in this record and its siblings.
    pub total: u32,
    /// Values in this record.
    pub count: u32,
}

impl Header {
    /// As bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let fields = [
            &self.dispatch_id.to_le_bytes()[..],
            &self.start_ns.to_le_bytes(),
            &self.end_ns.to_le_bytes(),
            &self.total.to_le_bytes(),
            &self.count.to_le_bytes(),
        ];
        let mut rest = &mut bytes[..];
        for field in fields {
            let (place, behind) = rest.split_at_mut(field.len());
            place.copy_from_slice(field);
            rest = behind;
        }
        bytes
    }
}

/// A counter's value of one instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Index of the counter in the collection's list.
    pub counter: u32,
    /// The instance.
    pub position: Position,
    /// The value.
    pub value: f64,
}

impl Entry {
    /// As bytes.
    pub fn to_bytes(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        let (counter, rest) = bytes.split_at_mut(4);
        let (position, value) = rest.split_at_mut(8);
        counter.copy_from_slice(&self.counter.to_le_bytes());
        position.copy_from_slice(&self.position.to_bytes());
        value.copy_from_slice(&self.value.to_le_bytes());
        bytes
    }
}

/// A record out of the ring.
#[derive(Clone, Copy, Debug)]
pub struct Record<'r> {
    /// The dispatch.
    pub header: Header,
    entries: &'r [u8],
}

impl<'r> Record<'r> {
    /// Reads a record; `None` when it is not one.
    pub fn read(bytes: &'r [u8]) -> Option<Self> {
        let (dispatch_id, rest) = bytes.split_first_chunk::<8>()?;
        let (start, rest) = rest.split_first_chunk::<8>()?;
        let (end, rest) = rest.split_first_chunk::<8>()?;
        let (total, rest) = rest.split_first_chunk::<4>()?;
        let (count, entries) = rest.split_first_chunk::<4>()?;
        let header = Header {
            dispatch_id: u64::from_le_bytes(*dispatch_id),
            start_ns: u64::from_le_bytes(*start),
            end_ns: u64::from_le_bytes(*end),
            total: u32::from_le_bytes(*total),
            count: u32::from_le_bytes(*count),
        };
        let is_whole = (header.count as usize).checked_mul(ENTRY_BYTES) == Some(entries.len());
        is_whole.then_some(Self { header, entries })
    }

    /// Its values.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + 'r {
        self.entries.chunks_exact(ENTRY_BYTES).filter_map(|bytes| {
            let (counter, rest) = bytes.split_first_chunk::<4>()?;
            let (position, rest) = rest.split_first_chunk::<8>()?;
            let value = rest.first_chunk::<8>()?;
            Some(Entry {
                counter: u32::from_le_bytes(*counter),
                position: Position::from_bytes(*position),
                value: f64::from_le_bytes(*value),
            })
        })
    }
}

/// Appends a whole record to a buffer, which keeps its memory from call to call.
pub fn write(buffer: &mut Vec<u8>, header: &Header, entries: &[Entry]) {
    let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    buffer.extend_from_slice(&Header { count, ..*header }.to_bytes());
    for entry in entries {
        buffer.extend_from_slice(&entry.to_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_are_read_as_written(
            ids in any::<(u64, u64, u64, u32)>(),
            entries in prop::collection::vec((any::<u32>(), any::<[u8; 8]>(), -1e18_f64..1e18), 0..20),
        ) {
            let (dispatch_id, start_ns, end_ns, total) = ids;
            let entries: Vec<Entry> = entries
                .into_iter()
                .map(|(counter, position, value)| Entry { counter, position: Position::from_bytes(position), value })
                .collect();
            let header = Header { dispatch_id, start_ns, end_ns, total, count: entries.len() as u32 };
            let mut bytes = Vec::new();
            write(&mut bytes, &header, &entries);
            let record = Record::read(&bytes).unwrap();
            prop_assert_eq!(record.header, header);
            prop_assert_eq!(record.entries().collect::<Vec<_>>(), entries);
            prop_assert!(Record::read(&bytes[..bytes.len() - 1]).is_none());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(record) = Record::read(&bytes) {
                prop_assert_eq!(record.entries().count(), record.header.count as usize);
            }
        }
    }

    #[test]
    fn positions_follow_the_sdks_dimensions() {
        let position =
            Position::default().with(1, 7).and_then(|at| at.with(3, 2)).and_then(|at| at.with(7, 351)).unwrap();
        assert_eq!(position, Position { xcc: 7, se: 2, instance: 351, ..Position::default() });
        assert_eq!(Position::default().with(8, 0), None);
        assert_eq!(Position::default().with(1, 256), None);
    }
}
