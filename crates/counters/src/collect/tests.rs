use super::*;
use crate::arch::Arch;
use crate::catalog::Catalog;
use crate::metric::{Outcome, evaluate};

const GEOMETRY: Geometry = Geometry { cus: 16, simds_per_cu: 4, xccs: 2, wave_size: 64, max_waves_per_cu: 32 };

fn plan(names: &[&str]) -> Plan {
    Plan::offline(&Catalog::new(Arch::Gfx942).unwrap(), names.iter().copied()).unwrap()
}

fn collector(names: &[&str]) -> Collector {
    let plan = plan(names);
    let mut all: Vec<String> = plan.passes.iter().flat_map(|pass| pass.counters.clone()).collect();
    all.sort();
    all.dedup();
    Collector::new(plan, all)
}

/// A record of a launch: counters with one value for each of two XCCs.
fn record(collector: &Collector, id: u64, values: &[(&str, [f64; 2])]) -> Vec<u8> {
    let entries: Vec<Entry> = values
        .iter()
        .flat_map(|(name, both)| {
            let counter = collector.names.iter().position(|known| known == name).unwrap() as u32;
            both.iter().zip(0..).map(move |(value, xcc)| Entry {
                counter,
                position: Position { xcc, ..Position::default() },
                value: *value,
            })
        })
        .collect();
    let header = Header { dispatch_id: id, start_ns: 1000, end_ns: 3000, total: entries.len() as u32, count: 0 };
    let mut bytes = Vec::new();
    wire::write(&mut bytes, &header, &entries);
    bytes
}

fn launch(id: u64, pass: usize) -> Launch {
    Launch { dispatch_id: id, pass, expected_waves: Some(8) }
}

const GOOD: [(&str, [f64; 2]); 2] = [("GRBM_GUI_ACTIVE", [90.0, 100.0]), ("SQ_WAVES", [4.0, 4.0])];

#[test]
fn instances_are_reduced_and_launches_have_medians() {
    let mut collector = collector(&["l2_hit_rate"]);
    for (id, hits) in [(3, 40.0), (1, 10.0), (2, 20.0)] {
        collector.launched(launch(id, 0));
        let values = [GOOD[0], GOOD[1], ("TCC_HIT", [hits, hits / 2.0]), ("TCC_MISS", [5.0, 5.0])];
        collector.take(&record(&collector, id, &values));
    }
    assert_eq!(collector.complete(), 3);
    let Collected { measured, reconciliation } = collector.finish(GEOMETRY, |_| Kind::Exact);
    assert!(reconciliation.is_complete() && reconciliation.describe(None).is_empty());
    let hit = &measured.passes[0].counters["TCC_HIT"];
    assert_eq!((hit.sum, hit.max, hit.min, hit.mean, hit.launches), (30.0, 20.0, 10.0, 15.0, 3));
    assert_eq!(hit.per_xcc, [20.0, 10.0]);
    assert_eq!(measured.passes[0].counted_ns, Some(2000.0));
    let metric = Catalog::new(Arch::Gfx942).unwrap().metric("l2_hit_rate").unwrap().clone();
    assert_eq!(evaluate(&metric, &measured).value(), Some(75.0));
}

#[test]
fn a_dispatch_in_several_records_is_joined() {
    let mut collector = collector(&["SQ_INSTS_LDS"]);
    collector.launched(launch(1, 0));
    let whole = record(&collector, 1, &[GOOD[0], GOOD[1], ("SQ_INSTS_LDS", [1.0, 2.0])]);
    let parsed = Record::read(&whole).unwrap();
    let entries: Vec<Entry> = parsed.entries().collect();
    for part in entries.chunks(4) {
        let mut bytes = Vec::new();
        wire::write(&mut bytes, &parsed.header, part);
        assert_eq!(collector.complete(), 0);
        collector.take(&bytes);
    }
    assert_eq!(collector.complete(), 1);
    let measured = collector.finish(GEOMETRY, |_| Kind::Measured).measured;
    assert_eq!(measured.passes[0].counters["SQ_INSTS_LDS"].sum, 3.0);
}

#[test]
fn missing_partial_unknown_and_broken_records_are_told() {
    let mut collector = collector(&["SQ_INSTS_LDS"]);
    for id in 1..=3 {
        collector.launched(launch(id, 0));
    }
    let values = [GOOD[0], GOOD[1], ("SQ_INSTS_LDS", [1.0, 2.0])];
    collector.take(&record(&collector, 1, &values));
    let mut half = record(&collector, 2, &values);
    half.truncate(wire::HEADER_BYTES + 2 * wire::ENTRY_BYTES);
    half[wire::HEADER_BYTES - 4..wire::HEADER_BYTES].copy_from_slice(&2_u32.to_le_bytes());
    collector.take(&half);
    collector.take(&record(&collector, 77, &values));
    collector.take(b"nonsense");
    collector.take(&record(&collector, 1, &[("SQ_INSTS_LDS", [f64::NAN, -1.0])]));
    let found = collector.finish(GEOMETRY, |_| Kind::Exact).reconciliation;
    assert_eq!((found.launched, found.missing, found.partial, found.unknown, found.malformed), (3, 1, 1, 1, 3));
    assert!(!found.is_complete());
    let text = found.describe(None).join("\n");
    assert!(text.contains("dispatch 2 of pass 1") && text.contains("could not be understood"), "{text}");
    let (producer, _reader) = crate::ring::ring("4KiB".parse().unwrap(), crate::ring::Policy::DropNewest).unwrap();
    while producer.push(&[0; 100]) == crate::ring::Pushed::Kept {}
    let text = found.describe(Some(&producer.summary())).join("\n");
    assert!(text.contains("--ring-size"), "{text}");
}

/// Facts section 6 row 4: all zero until the power profile is fixed.
#[test]
fn zero_guards_make_a_pass_invalid_and_say_why() {
    let mut collector = collector(&["l2_hit_rate"]);
    collector.launched(launch(1, 0));
    let zero =
        [("GRBM_GUI_ACTIVE", [0.0, 0.0]), ("SQ_WAVES", [0.0, 0.0]), ("TCC_HIT", [0.0, 0.0]), ("TCC_MISS", [0.0, 0.0])];
    collector.take(&record(&collector, 1, &zero));
    let Collected { measured, reconciliation } = collector.finish(GEOMETRY, |_| Kind::Measured);
    assert!(measured.passes[0].problem.as_deref().unwrap().contains("gated"));
    assert_eq!(reconciliation.rejected, 1);
    let metric = Catalog::new(Arch::Gfx942).unwrap().metric("clock_mhz").unwrap().clone();
    assert!(matches!(evaluate(&metric, &measured).outcome, Outcome::Invalid(why) if why.contains("gated")));
}

#[test]
fn launches_with_the_wrong_number_of_waves_are_left_out() {
    let mut collector = collector(&["SQ_INSTS_LDS"]);
    for (id, waves) in [(1, 4.0), (2, 2.0), (3, 4.0)] {
        collector.launched(launch(id, 0));
        let values = [GOOD[0], ("SQ_WAVES", [waves, 4.0]), ("SQ_INSTS_LDS", [waves, 0.0])];
        collector.take(&record(&collector, id, &values));
    }
    let Collected { measured, reconciliation } = collector.finish(GEOMETRY, |_| Kind::Measured);
    assert_eq!((reconciliation.rejected, measured.passes[0].problem.clone()), (1, None));
    let reading = &measured.passes[0].counters["SQ_INSTS_LDS"];
    assert_eq!((reading.launches, reading.sum), (2, 4.0));
    assert!(reconciliation.describe(None)[0].contains("SQ_WAVES is 6, but the launch has 8 waves"));
}

#[test]
fn values_delivered_twice_are_not_added() {
    let mut collector = collector(&["SQ_INSTS_LDS"]);
    collector.launched(launch(1, 0));
    let values = [GOOD[0], GOOD[1], ("SQ_INSTS_LDS", [1.0, 2.0])];
    for _ in 0..2 {
        collector.take(&record(&collector, 1, &values));
    }
    let found = collector.finish(GEOMETRY, |_| Kind::Exact);
    assert!(found.measured.passes[0].problem.as_deref().unwrap().contains("twice"));
}

#[test]
fn counters_that_never_arrive_are_unavailable_with_the_pass() {
    let mut collector = collector(&["l2_hit_rate"]);
    collector.launched(launch(1, 0));
    collector.take(&record(&collector, 1, &GOOD));
    let measured = collector.finish(GEOMETRY, |_| Kind::Exact).measured;
    assert!(measured.unavailable["TCC_HIT"].contains("pass 1"));
}

/// What is collected of a launch in whose record something was changed; the offset is that of its last value.
fn damaged(damage: impl FnOnce(&mut [u8], usize)) -> Collected {
    let mut collector = collector(&["SQ_INSTS_LDS"]);
    collector.launched(launch(1, 0));
    let mut bytes = record(&collector, 1, &[GOOD[0], GOOD[1], ("SQ_INSTS_LDS", [1.0, 2.0])]);
    let last = bytes.len() - wire::ENTRY_BYTES;
    damage(&mut bytes, last);
    collector.take(&bytes);
    assert_eq!(collector.complete(), 1);
    collector.finish(GEOMETRY, |_| Kind::Measured)
}

/// One instance reported under another's place: as many values as there should be, but not those.
#[test]
fn a_value_that_replaces_another_is_told_as_repeated() {
    let Collected { measured, reconciliation } =
        damaged(|bytes, last| bytes.copy_within(last - wire::ENTRY_BYTES..last, last));
    assert_eq!((reconciliation.partial, reconciliation.rejected), (0, 1));
    assert!(measured.passes[0].problem.as_deref().unwrap().contains("twice"));
}

/// A value whose instance could not be told.
#[test]
fn a_launch_with_a_value_that_is_none_is_partial() {
    let found = damaged(|bytes, last| bytes[last..last + 4].copy_from_slice(&u32::MAX.to_le_bytes())).reconciliation;
    assert_eq!((found.recorded, found.partial, found.malformed), (0, 1, 1));
    assert!(!found.is_complete() && found.describe(None)[0].contains("could not be understood"));
}
