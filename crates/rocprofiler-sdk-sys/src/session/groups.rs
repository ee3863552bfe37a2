//! Values of one dispatch put together again: a buffer may hand a group over in two batches, and groups out of order.

use super::records::{Dispatch, Record};
use crate::types::CounterRecord;
use std::collections::HashMap;

/// All values of a dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct CounterGroup {
    /// The dispatch.
    pub dispatch: Dispatch,
    /// One value an instance of each counter.
    pub values: Vec<CounterRecord>,
}

#[derive(Debug, Default)]
struct Partial {
    header: Option<(Dispatch, u64)>,
    values: Vec<CounterRecord>,
}

/// Joins records by their dispatch.
#[derive(Debug, Default)]
pub struct CounterGroups {
    open: HashMap<u64, Partial>,
}

impl CounterGroups {
    /// Takes a record; gives a group when it is the last of one. Records that are no counters are ignored.
    pub fn push(&mut self, record: &Record) -> Option<CounterGroup> {
        let id = match record {
            Record::CounterHeader { dispatch, values } => {
                self.open.entry(dispatch.dispatch_id).or_default().header = Some((*dispatch, *values));
                dispatch.dispatch_id
            }
            Record::Counter(value) => {
                self.open.entry(value.dispatch_id).or_default().values.push(*value);
                value.dispatch_id
            }
            _ => return None,
        };
        let partial = self.open.get(&id)?;
        let (dispatch, wanted) = partial.header?;
        if (partial.values.len() as u64) < wanted {
            return None;
        }
        let values = self.open.remove(&id)?.values;
        Some(CounterGroup { dispatch, values })
    }

    /// Dispatches of which something has come, but not all.
    pub fn incomplete(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::*;

    fn dispatch(id: u64) -> Dispatch {
        Dispatch {
            dispatch_id: id,
            kernel_id: 1,
            agent: AgentId { handle: 1 },
            queue: QueueId { handle: 1 },
            workgroup: Dim3 { x: 64, y: 1, z: 1 },
            grid: Dim3 { x: 64, y: 1, z: 1 },
            private_segment_size: 0,
            group_segment_size: 0,
            correlation: id,
            external: UserData(0),
            thread_id: None,
            start_ns: 10,
            end_ns: 20,
        }
    }

    fn value(id: u64, value: f64) -> Record {
        Record::Counter(CounterRecord { dispatch_id: id, value, ..CounterRecord::default() })
    }

    #[test]
    fn interleaved_and_split_groups() {
        let mut groups = CounterGroups::default();
        let header = |id, values| Record::CounterHeader { dispatch: dispatch(id), values };
        assert_eq!(groups.push(&header(2, 2)), None);
        assert_eq!(groups.push(&value(2, 1.0)), None);
        // Values may come before their header.
        assert_eq!(groups.push(&value(1, 5.0)), None);
        assert_eq!(groups.push(&Record::Other { category: 9, kind: 9 }), None);
        assert_eq!(groups.incomplete(), 2);
        let second = groups.push(&value(2, 2.0)).expect("the last value of dispatch 2");
        assert_eq!(second.dispatch.dispatch_id, 2);
        assert_eq!(second.values.iter().map(|value| value.value).collect::<Vec<_>>(), [1.0, 2.0]);
        let first = groups.push(&header(1, 1)).expect("the header after its value");
        assert_eq!(first.values.len(), 1);
        // A dispatch without counters is a group of nothing.
        assert_eq!(groups.push(&header(3, 0)).map(|group| group.values.len()), Some(0));
        assert_eq!(groups.incomplete(), 0);
    }
}
