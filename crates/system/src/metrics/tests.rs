//! Tables made by hand, byte by byte, at the offsets that a C compiler gives the kernel's structs on x86-64.

use super::*;
use crate::throttle::ThrottleReason::{Power, Thermal, Unknown};
use proptest::prelude::*;

/// A table of ones (as the driver begins it) with a header.
fn table(size: u16, format: u8, content: u8) -> Vec<u8> {
    let mut table = vec![0xff; usize::from(size)];
    table[..2].copy_from_slice(&size.to_le_bytes());
    table[2..4].copy_from_slice(&[format, content]);
    table
}

fn put<const N: usize>(table: &mut [u8], at: usize, bytes: [u8; N]) {
    table[at..at + N].copy_from_slice(&bytes);
}

/// Offsets in one revision: size, hot spot, memory temperature, power, activity, memory activity, engine clock, memory clock.
type Offsets = ((u8, u8), u16, [usize; 7]);

/// From the kernel's header: discrete GPUs.
const DISCRETE: [Offsets; 9] = [
    ((1, 0), 80, [18, 20, 34, 28, 30, 54, 58]),
    ((1, 1), 96, [6, 8, 22, 16, 18, 54, 58]),
    ((1, 2), 104, [6, 8, 22, 16, 18, 54, 58]),
    ((1, 3), 120, [6, 8, 22, 16, 18, 54, 58]),
    ((1, 4), 288, [4, 6, 10, 12, 14, 240, 280]),
    ((1, 5), 328, [4, 6, 10, 12, 14, 280, 320]),
    ((1, 6), 1664, [4, 6, 10, 12, 14, 264, 304]),
    ((1, 7), 2208, [4, 6, 10, 12, 14, 296, 336]),
    ((1, 8), 3360, [4, 6, 10, 12, 14, 296, 336]),
];

#[test]
fn every_revision_has_its_figures_where_the_kernel_puts_them() {
    for ((format, content), size, offsets) in DISCRETE {
        let mut table = table(size, format, content);
        for (value, at) in (101_u16..).zip(offsets) {
            put(&mut table, at, value.to_le_bytes());
        }
        let metrics = GpuMetrics::parse(&table).unwrap();
        let found = [
            metrics.hotspot_c,
            metrics.memory_c,
            metrics.power_w,
            metrics.busy_percent,
            metrics.memory_busy_percent,
            metrics.slowest_engine_clock_mhz(),
            metrics.memory_clock_mhz,
        ];
        assert_eq!(found, [101, 102, 103, 104, 105, 106, 107].map(Some), "{format}.{content}");
        assert_eq!(metrics.revision, (format, content));
    }
}

#[test]
fn apus_have_clocks_and_units_only_where_they_are_stated() {
    for (content, size, clock) in [(0, 120, 80), (1, 120, 76), (2, 128, 76), (3, 152, 76), (4, 168, 76)] {
        let mut table = table(size, 2, content);
        put(&mut table, clock, 2000_u16.to_le_bytes());
        put(&mut table, clock + 4, 1600_u16.to_le_bytes());
        put(&mut table, 4, 6512_u16.to_le_bytes());
        put(&mut table, 40, 15_000_u16.to_le_bytes());
        put(&mut table, 28, 9900_u16.to_le_bytes());
        let metrics = GpuMetrics::parse(&table).unwrap();
        assert_eq!((metrics.slowest_engine_clock_mhz(), metrics.memory_clock_mhz), (Some(2000), Some(1600)));
        let expected = if content == 4 { (Some(65), Some(15), Some(99)) } else { (None, None, None) };
        assert_eq!((metrics.hotspot_c, metrics.power_w, metrics.busy_percent), expected, "2.{content}");
    }
}

#[test]
fn ones_are_unknown_and_never_figures() {
    for ((format, content), size, _) in DISCRETE {
        let metrics = GpuMetrics::parse(&table(size, format, content)).unwrap();
        assert_eq!(
            (metrics.hotspot_c, metrics.power_w, metrics.memory_clock_mhz, metrics.slowest_engine_clock_mhz()),
            (None, None, None, None)
        );
        assert_eq!((metrics.throttle, metrics.residency), (None, None), "{format}.{content}");
    }
}

#[test]
fn the_slowest_xcd_counts_and_absent_ones_do_not() {
    let mut table = table(1664, 1, 6);
    for (xcd, clock) in [2100_u16, 1980, 0, 2050].into_iter().enumerate() {
        put(&mut table, 264 + 2 * xcd, clock.to_le_bytes());
    }
    let metrics = GpuMetrics::parse(&table).unwrap();
    assert_eq!(metrics.slowest_engine_clock_mhz(), Some(1980));
    assert_eq!(metrics.engine_clocks_mhz[3..5], [Some(2050), None]);
}

#[test]
fn throttling_is_read_in_each_revisions_own_way() {
    // 1.2: bits of the GPU's own; 1.3: TEMP_GPU (32) at 112; 1.4: PPT (1) at 40; 1.5: PPT at 72.
    let mut old = table(104, 1, 2);
    put(&mut old, 68, 4_u32.to_le_bytes());
    let mut mi200 = table(120, 1, 3);
    put(&mut mi200, 112, (1_u64 << 32).to_le_bytes());
    let mut mi300 = table(288, 1, 4);
    put(&mut mi300, 40, 2_u32.to_le_bytes());
    let mut newer = table(328, 1, 5);
    put(&mut newer, 72, 2_u32.to_le_bytes());
    let reasons = |table: &[u8]| GpuMetrics::parse(table).unwrap().throttle.unwrap().iter().collect::<Vec<_>>();
    assert_eq!(reasons(&old), [Unknown]);
    assert_eq!(reasons(&mi200), [Thermal]);
    assert_eq!(reasons(&mi300), [Power]);
    assert_eq!(reasons(&newer), [Power]);
    put(&mut newer, 72, 0_u32.to_le_bytes());
    assert_eq!(reasons(&newer), []);

    for (size, content, at) in [(1664, 6, 32), (2208, 7, 40), (3360, 8, 40)] {
        let mut counting = table(size, 1, content);
        for (value, field) in (1_u32..).zip(0..6) {
            put(&mut counting, at + 4 * field, value.to_le_bytes());
        }
        let residency = GpuMetrics::parse(&counting).unwrap().residency.unwrap();
        assert_eq!((residency.accumulated, residency.prochot, residency.power), (1, Some(2), Some(3)));
        assert_eq!(
            (residency.thermal, residency.regulator_thermal, residency.memory_thermal),
            (Some(4), Some(5), Some(6))
        );
    }
}

#[test]
fn tables_that_are_not_known_are_refused() {
    let parse = |bytes: &[u8]| GpuMetrics::parse(bytes).unwrap_err();
    assert_eq!(parse(&[]), MetricsError::Short { found: 0 });
    assert_eq!(parse(&table(288, 1, 4)[..287]), MetricsError::Short { found: 287 });
    assert_eq!(parse(&table(1000, 1, 9)), MetricsError::Unknown { format: 1, content: 9, size: 1000 });
    assert_eq!(parse(&table(289, 1, 4)), MetricsError::Unknown { format: 1, content: 4, size: 289 });
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..4000), revision in 0_usize..14) {
        let _either = GpuMetrics::parse(&bytes);
        // The same bytes under a header that is known.
        let all = [(80, 1, 0), (96, 1, 1), (104, 1, 2), (120, 1, 3), (288, 1, 4), (328, 1, 5), (1664, 1, 6), (2208, 1, 7), (3360, 1, 8),
            (120, 2, 0), (120, 2, 1), (128, 2, 2), (152, 2, 3), (168, 2, 4)];
        let (size, format, content) = all[revision];
        let mut known = table(size, format, content);
        let length = known.len().min(bytes.len());
        if length > 4 {
            known[4..length].copy_from_slice(&bytes[4..length]);
        }
        prop_assert!(GpuMetrics::parse(&known).is_ok());
    }
}
