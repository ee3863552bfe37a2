//! Packed samples: what goes in comes out, and no bytes do harm.

#![allow(clippy::unwrap_used)]

use kbench_store::{CodecError, Numbers, decode, encode};
use proptest::{prelude::*, test_runner::Config};

fn config(cases: u32) -> Config {
    Config { failure_persistence: None, ..Config::with_cases(cases) }
}

fn bits(numbers: &Numbers) -> Vec<u64> {
    match numbers {
        Numbers::Floats(values) => values.iter().map(|v| v.to_bits()).collect(),
        Numbers::Integers(values) => values.iter().map(|v| *v as u64).collect(),
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn floats_come_back_bit_by_bit(values in prop::collection::vec(any::<u64>().prop_map(f64::from_bits), 0..200)) {
        let numbers = Numbers::Floats(values);
        let found = decode(&encode(&numbers).unwrap()).unwrap();
        prop_assert!(matches!(found, Numbers::Floats(_)));
        prop_assert_eq!(bits(&found), bits(&numbers));
    }

    #[test]
    fn whole_floats_come_back_bit_by_bit(values in prop::collection::vec(-9_007_199_254_740_992_i64..=9_007_199_254_740_992, 0..200)) {
        let numbers = Numbers::Floats(values.into_iter().map(|v| v as f64).collect());
        prop_assert_eq!(bits(&decode(&encode(&numbers).unwrap()).unwrap()), bits(&numbers));
    }

    #[test]
    fn integers_come_back(values in prop::collection::vec(any::<i64>(), 0..200)) {
        let numbers = Numbers::Integers(values);
        prop_assert_eq!(decode(&encode(&numbers).unwrap()).unwrap(), numbers);
    }

    #[test]
    fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    /// Bytes that begin as they should, and true ones with a change.
    #[test]
    fn nearly_right_bytes_do_no_harm(
        kind in 0_u8..4, tail in prop::collection::vec(any::<u8>(), 0..60),
        values in prop::collection::vec(-1000_i64..1000, 0..60), at in any::<prop::sample::Index>(), change in 1_u8..=255,
    ) {
        let mut forged = vec![1, kind, tail.len() as u8];
        forged.extend(zstd::bulk::compress(&tail, 1).unwrap());
        let _ = decode(&forged);
        let mut bytes = encode(&Numbers::Integers(values)).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= change;
        let _ = decode(&bytes);
        let _ = decode(&bytes[..at]);
    }
}

#[test]
fn special_values_come_back() {
    let values = vec![-0.0, 0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE, 5e-324, f64::MAX, 9.1e15, -1.0];
    let numbers = Numbers::Floats(values);
    assert_eq!(bits(&decode(&encode(&numbers).unwrap()).unwrap()), bits(&numbers));
    let extremes = Numbers::Integers(vec![i64::MIN, i64::MAX, 0, i64::MIN]);
    assert_eq!(decode(&encode(&extremes).unwrap()).unwrap(), extremes);
    assert!(decode(&encode(&Numbers::Floats(vec![])).unwrap()).unwrap().is_empty());
}

/// A count or a frame that promises more than there is costs no memory and no time.
#[test]
fn promises_are_not_believed() {
    // LEB128 of 2^24, and of 2^24 + 1.
    let most = [1, 1, 0x80, 0x80, 0x80, 0x08];
    let frame = zstd::bulk::compress(&[0; 8], 1).unwrap();
    assert!(matches!(decode(&[&most[..], &frame].concat()), Err(CodecError::Damaged(_))));
    assert_eq!(decode(&[1, 1, 0x81, 0x80, 0x80, 0x08]), Err(CodecError::TooMany((1 << 24) + 1)));
    // A frame of 64 MiB of zeros behind a count of 2: no more than 21 bytes of it are unpacked.
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap();
    assert!(bomb.len() < 10_000);
    assert!(matches!(decode(&[&[1, 2, 2][..], &bomb].concat()), Err(CodecError::Damaged(_))));
    assert_eq!(decode(&[2, 0, 0]), Err(CodecError::Unknown { version: 2, kind: 0 }));
    assert!(decode(&[]).is_err() && decode(&[1, 0]).is_err());
}

/// Durations of a 100 MHz clock (10 ns steps) with a spread of 1 % take at most two bytes each.
#[test]
fn durations_are_small() {
    let samples: Vec<f64> = (0..10_000_u64).map(|i| (10_000 + i * 7919 % 20) as f64 * 10.0).collect();
    let packed = encode(&Numbers::Floats(samples)).unwrap();
    assert!(packed.len() < 20_000, "{}", packed.len());
}
