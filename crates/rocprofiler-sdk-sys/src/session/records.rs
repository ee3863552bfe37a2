//! Records as they come, read as far as they go.

use super::{Plain, read_sized};
use crate::types::*;
use std::marker::PhantomData;

// SAFETY: integers, handles and raw pointers only.
unsafe impl Plain for KernelDispatchRecord {
    const LEAST: usize = 56 + 72;
    const NAME: &'static str = "kernel dispatch record";
}
// SAFETY: as above.
unsafe impl Plain for DispatchCountingRecord {
    const LEAST: usize = 48 + 72;
    const NAME: &'static str = "dispatch counting record";
}

/// A dispatch of a kernel, of a trace or of counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// Number in the process, in order of enqueueing; records come in order of completion, or none: sort by this.
    pub dispatch_id: u64,
    /// The kernel: its name came as [`super::KernelSymbol`].
    pub kernel_id: u64,
    /// Where it ran.
    pub agent: AgentId,
    /// Its queue.
    pub queue: QueueId,
    /// Work-items of a workgroup.
    pub workgroup: Dim3,
    /// Grid in **work-items**.
    pub grid: Dim3,
    /// Scratch, bytes a work-item.
    pub private_segment_size: u32,
    /// LDS, bytes a workgroup.
    pub group_segment_size: u32,
    /// The SDK's number of the launching call.
    pub correlation: u64,
    /// What the tool pushed for the launching thread.
    pub external: UserData,
    /// The launching thread, where the record has it.
    pub thread_id: Option<u64>,
    /// Start, ns on CLOCK_BOOTTIME; 0 before it ran, and in faulty records.
    pub start_ns: u64,
    /// End, ns; not always after the start.
    pub end_ns: u64,
}

impl Dispatch {
    /// Time between start and end, ns; `None` unless the end is after a start that was recorded.
    pub fn duration_ns(&self) -> Option<u64> {
        if self.start_ns == 0 { None } else { self.end_ns.checked_sub(self.start_ns).filter(|ns| *ns > 0) }
    }

    fn new(info: &KernelDispatchInfo, correlation: AsyncCorrelationId, start_ns: u64, end_ns: u64) -> Self {
        Dispatch {
            dispatch_id: info.dispatch_id,
            kernel_id: info.kernel_id,
            agent: info.agent_id,
            queue: info.queue_id,
            workgroup: info.workgroup_size,
            grid: info.grid_size,
            private_segment_size: info.private_segment_size,
            group_segment_size: info.group_segment_size,
            correlation: correlation.internal,
            external: correlation.external,
            thread_id: None,
            start_ns,
            end_ns,
        }
    }

    pub(crate) fn of_trace(record: &KernelDispatchRecord) -> Self {
        let (start, end) = (record.start_timestamp, record.end_timestamp);
        let dispatch = Dispatch::new(&record.dispatch_info, record.correlation_id, start, end);
        Dispatch { thread_id: Some(record.thread_id), ..dispatch }
    }

    pub(crate) fn of_data(data: &DispatchCountingData) -> Self {
        Dispatch::new(&data.dispatch_info, data.correlation_id, data.start_timestamp, data.end_timestamp)
    }

    pub(crate) fn of_header(record: &DispatchCountingRecord) -> Self {
        let (start, end) = (record.start_timestamp, record.end_timestamp);
        Dispatch::new(&record.dispatch_info, record.correlation_id, start, end)
    }
}

/// A record of a buffer, copied out of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Record {
    /// A traced dispatch.
    Dispatch(Dispatch),
    /// So many values of a dispatch follow, in this batch or the next.
    CounterHeader {
        /// The dispatch.
        dispatch: Dispatch,
        /// Values that belong to it.
        values: u64,
    },
    /// A value.
    Counter(CounterRecord),
    /// Anything else.
    Other {
        /// Its category.
        category: u32,
        /// Its kind.
        kind: u32,
    },
    /// A record that says it is smaller than the first version of its kind.
    Truncated {
        /// Its category.
        category: u32,
        /// Its kind.
        kind: u32,
    },
}

/// What a buffer hands over at once.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    headers: *const *mut RecordHeader,
    len: usize,
    drop_count: u64,
    lifetime: PhantomData<&'a RecordHeader>,
}

impl<'a> Batch<'a> {
    /// # Safety
    /// `headers` points to `len` pointers to headers of valid records, all valid for `'a`; it may be NULL when `len` is 0.
    pub(crate) unsafe fn new(headers: *const *mut RecordHeader, len: usize, drop_count: u64) -> Self {
        Batch { headers, len: if headers.is_null() { 0 } else { len }, drop_count, lifetime: PhantomData }
    }

    /// Records.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Records that the SDK says it dropped since the buffer was made. It counts only those of a buffer that discards, and of them
    /// not those after the first flush.
    pub fn drop_count(&self) -> u64 {
        self.drop_count
    }

    /// The records, in the order of the buffer. Nothing is allocated.
    pub fn iter(&self) -> impl Iterator<Item = Record> + 'a {
        let batch = *self;
        (0..batch.len).filter_map(move |index| {
            // SAFETY: so many pointers, each to a header or NULL, whose payload is a record of its kind.
            unsafe { (*batch.headers.add(index)).as_ref().map(|header| read(header)) }
        })
    }
}

/// # Safety
/// The payload is a record of the header's category and kind, or NULL.
unsafe fn read(header: &RecordHeader) -> Record {
    let (category, kind, payload) = (header.category, header.kind, header.payload);
    let truncated = Record::Truncated { category, kind };
    if payload.is_null() {
        return truncated;
    }
    // SAFETY: the category and kind say what the payload is.
    unsafe {
        match (category, kind) {
            (category::TRACING, kind) if kind == buffer_tracing::KERNEL_DISPATCH as u32 => {
                read_sized::<KernelDispatchRecord>(payload)
                    .map_or(truncated, |record| Record::Dispatch(Dispatch::of_trace(&record)))
            }
            (category::COUNTERS, counter_record::DISPATCH_HEADER) => read_sized::<DispatchCountingRecord>(payload)
                .map_or(truncated, |record| Record::CounterHeader {
                    dispatch: Dispatch::of_header(&record),
                    values: record.num_records,
                }),
            (category::COUNTERS, counter_record::VALUE) => {
                Record::Counter(payload.cast::<CounterRecord>().read_unaligned())
            }
            (category, kind) => Record::Other { category, kind },
        }
    }
}
