use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::thread;

fn small(policy: Policy) -> (Producer, Reader) {
    ring(Size::from_bytes(4096), policy).unwrap()
}

fn drain(reader: &mut Reader) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(reader.take_ready().map(<[u8]>::to_vec));
        if all.len() == before {
            return all;
        }
    }
}

#[test]
fn sizes_out_of_range_are_refused() {
    for bytes in [0, 4095, MAX_SIZE + 1, u64::MAX] {
        assert!(ring(Size::from_bytes(bytes), Policy::Lossless).is_err(), "{bytes}");
    }
}

#[test]
fn memory_is_what_was_asked_for() {
    for bytes in [4096, 5000, 65536, 1 << 20, 64 << 20] {
        let (producer, reader) = ring(Size::from_bytes(bytes), Policy::Lossless).unwrap();
        let state = producer.shared.lock();
        assert_eq!((state.buffer.len() + reader.chunk.len()) as u64, bytes);
    }
}

#[test]
fn records_come_out_as_they_went_in() {
    let (producer, mut reader) = small(Policy::Lossless);
    assert_eq!(producer.push(b"one"), Pushed::Kept);
    assert_eq!(producer.push(b""), Pushed::Kept);
    assert_eq!(producer.push_parts(&[b"tw", b"", b"o"]), Pushed::Kept);
    assert_eq!(drain(&mut reader), [&b"one"[..], b"", b"two"]);
    drop(producer);
    assert!(reader.next_batch().is_none());
}

#[test]
fn a_record_larger_than_possible_is_counted_under_every_policy() {
    for policy in [Policy::Lossless, Policy::DropNewest, Policy::OverwriteOldest] {
        let (producer, mut reader) = small(policy);
        let largest = vec![7; producer.largest_record()];
        assert_eq!(producer.push(&largest), Pushed::Kept);
        assert_eq!(producer.push_parts(&[&largest, &[1]]), Pushed::Oversize);
        assert_eq!(drain(&mut reader), [largest]);
        let Summary { received, kept, dropped, oversize, .. } = reader.summary();
        assert_eq!((received, kept, dropped, oversize), (2, 1, 1, 1));
    }
}

#[test]
fn a_producer_does_not_wait_for_a_reader_that_is_gone() {
    let (producer, reader) = small(Policy::Lossless);
    let pushing = thread::spawn(move || {
        let mut last = Pushed::Kept;
        // More than the ring holds: it blocks until the reader goes.
        for _ in 0..1000 {
            last = producer.push(&[0; 100]);
        }
        (last, producer.summary())
    });
    thread::sleep(Duration::from_millis(20));
    drop(reader);
    let (last, summary) = pushing.join().unwrap();
    assert_eq!(last, Pushed::Closed);
    assert_eq!(summary.received, summary.kept + summary.dropped);
    assert!(summary.waits >= 1);
}

#[test]
fn what_a_reader_leaves_behind_is_not_kept() {
    let (producer, mut reader) = small(Policy::Lossless);
    (0..20).for_each(|_| assert_eq!(producer.push(&[0; 100]), Pushed::Kept));
    let taken = reader.take_ready().count() as u64;
    drop(reader);
    let Summary { received, kept, dropped, .. } = producer.summary();
    assert_eq!((received, kept, dropped), (20, taken, 20 - taken));
    assert!((1..20).contains(&taken));
}

/// The same pushes and takes on a list.
struct List {
    records: VecDeque<Vec<u8>>,
    capacity: usize,
    policy: Policy,
    dropped: u64,
    overwritten: u64,
}

impl List {
    fn used(&self) -> usize {
        self.records.iter().map(|record| record.len() + HEADER).sum()
    }

    fn push(&mut self, record: Vec<u8>) {
        while self.capacity - self.used() < record.len() + HEADER {
            if self.policy == Policy::DropNewest {
                self.dropped += 1;
                return;
            }
            self.records.pop_front();
            self.overwritten += 1;
        }
        self.records.push_back(record);
    }
}

proptest! {
    #[test]
    fn it_behaves_like_a_list(
        overwrites in any::<bool>(),
        steps in prop::collection::vec(prop_oneof![4 => (0_usize..300).prop_map(Some), 1 => Just(None)], 1..200),
    ) {
        let policy = if overwrites { Policy::OverwriteOldest } else { Policy::DropNewest };
        let (producer, mut reader) = small(policy);
        let mut list = List { records: VecDeque::new(), capacity: 3072, policy, dropped: 0, overwritten: 0 };
        let mut pushed = 0_u64;
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Some(length) => {
                    let record = vec![number as u8; length];
                    producer.push(&record);
                    list.push(record);
                    pushed += 1;
                }
                None => {
                    let found: Vec<Vec<u8>> = reader.take_ready().map(<[u8]>::to_vec).collect();
                    let expected: Vec<Vec<u8>> = list.records.drain(..found.len()).collect();
                    prop_assert_eq!(found, expected);
                }
            }
        }
        let left = drain(&mut reader);
        prop_assert_eq!(left, Vec::from(list.records));
        let summary = producer.summary();
        prop_assert_eq!((summary.received, summary.dropped, summary.overwritten), (pushed, list.dropped, list.overwritten));
        prop_assert_eq!(summary.received, summary.kept + summary.dropped + summary.overwritten);
    }
}
