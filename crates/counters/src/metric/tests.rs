use super::*;
use crate::arch::Geometry;
use crate::catalog::Catalog;
use std::collections::BTreeMap;

/// MI300X: 304 CUs of 4 SIMDs, 8 XCCs, 32 wave slots a CU (facts section 5).
const MI300X: Geometry = Geometry { cus: 304, simds_per_cu: 4, xccs: 8, wave_size: 64, max_waves_per_cu: 32 };

fn reading(sum: f64, max: f64) -> Reading {
    Reading { sum, max, min: 0.0, mean: 0.0, per_xcc: vec![sum], launches: 3, kind: Kind::Exact }
}

fn measured(passes: &[&[(&str, f64)]]) -> Measured {
    let pass = |counters: &&[(&str, f64)]| PassReadings {
        counters: counters.iter().map(|(name, value)| ((*name).to_owned(), reading(*value, *value))).collect(),
        counted_ns: Some(2000.0),
        problem: None,
    };
    Measured {
        passes: passes.iter().map(pass).collect(),
        geometry: MI300X,
        duration_ns: Some(1000.0),
        unavailable: BTreeMap::new(),
    }
}

fn value(arch: Arch, id: &str, passes: &[&[(&str, f64)]]) -> Evaluated {
    let catalog = Catalog::new(arch).unwrap();
    evaluate(catalog.metric(id).unwrap(), &measured(passes))
}

#[test]
fn fetch_size_is_the_sdks_in_kib_and_ours_in_bytes() {
    // facts/real-rocm.md section 5: with every instance 1000 (128 TCC instances: sums of 128000) the real SDK gave FETCH_SIZE 12000 KiB.
    // 128*128000 + 64*(128000 - 128000 - 128000) + 32*128000 = 12288000 bytes; its 64-byte term is negative, which ours refuses.
    let sums: &[(&str, f64)] = &[("TCC_EA0_RDREQ", 128e3), ("TCC_EA0_RDREQ_32B", 128e3), ("TCC_BUBBLE", 128e3)];
    assert_eq!(value(Arch::Gfx942, "FETCH_SIZE", &[sums]).value(), Some(12000.0));
    let Outcome::Invalid(reason) = value(Arch::Gfx942, "fabric_read_bytes", &[sums]).outcome else { panic!() };
    assert!(reason.contains("#833"), "{reason}");
    let good: &[(&str, f64)] = &[("TCC_EA0_RDREQ", 10.0), ("TCC_EA0_RDREQ_32B", 2.0), ("TCC_BUBBLE", 3.0)];
    assert_eq!(value(Arch::Gfx942, "fabric_read_bytes", &[good]).value(), Some(3.0 * 128.0 + 5.0 * 64.0 + 2.0 * 32.0));
    assert_eq!(value(Arch::Gfx942, "fabric_read_gbps", &[good]).value(), Some(768.0 / 1000.0));
}

/// The same section: with 32 instances of SQ_WAVE_CYCLES at 1000 and GRBM 1000, the real SDK's OccupancyPercent was 1.31579 on a fake MI300X.
#[test]
fn occupancy_is_the_sdks() {
    let counters: &[(&str, f64)] = &[("SQ_WAVE_CYCLES", 32e3), ("GRBM_GUI_ACTIVE", 1000.0)];
    for id in ["OccupancyPercent", "occupancy"] {
        let found = value(Arch::Gfx942, id, &[counters]).value().unwrap();
        assert!((found - 1.31579).abs() < 1e-5, "{id}: {found}");
    }
}

#[test]
fn mops_are_512_operations_each_and_narrow_types_count() {
    let counters: &[(&str, f64)] = &[
        ("SQ_INSTS_VALU_MFMA_MOPS_F16", 1.0),
        ("SQ_INSTS_VALU_MFMA_MOPS_BF16", 2.0),
        ("SQ_INSTS_VALU_MFMA_MOPS_F32", 4.0),
        ("SQ_INSTS_VALU_MFMA_MOPS_F64", 8.0),
        ("SQ_INSTS_VALU_MFMA_MOPS_F8", 16.0),
        ("SQ_INSTS_VALU_MFMA_MOPS_F6F4", 32.0),
        ("SQ_INSTS_VALU_MFMA_MOPS_XF32", 64.0),
    ];
    assert_eq!(value(Arch::Gfx90a, "mfma_flops", &[counters]).value(), Some(512.0 * 15.0));
    assert_eq!(value(Arch::Gfx942, "mfma_flops", &[counters]).value(), Some(512.0 * 31.0));
    assert_eq!(value(Arch::Gfx950, "mfma_flops", &[counters]).value(), Some(512.0 * 127.0));
    assert_eq!(value(Arch::Gfx950, "mfma_flops_f6f4", &[counters]).value(), Some(512.0 * 32.0));
    // TFLOP/s: FLOP per ns, by a thousand.
    assert_eq!(value(Arch::Gfx942, "mfma_tflops_bf16", &[counters]).value(), Some(1024.0 * 1e-3 / 1000.0));
}

#[test]
fn hits_conflicts_and_clocks_by_hand() {
    assert_eq!(value(Arch::Gfx942, "l2_hit_rate", &[&[("TCC_HIT", 30.0), ("TCC_MISS", 10.0)]]).value(), Some(75.0));
    assert_eq!(value(Arch::Gfx1100, "l2_hit_rate", &[&[("GL2C_HIT", 1.0), ("GL2C_MISS", 3.0)]]).value(), Some(25.0));
    let lds: &[(&str, f64)] = &[("SQ_LDS_BANK_CONFLICT", 25.0), ("SQ_LDS_IDX_ACTIVE", 100.0)];
    assert_eq!(value(Arch::Gfx942, "lds_conflict_share", &[lds]).value(), Some(25.0));
    assert_eq!(value(Arch::Gfx942, "lds_bytes", &[lds]).value(), Some(75.0 * 128.0));
    // 4200 clocks in the counted launch's 2000 ns are 2100 MHz; the case's own duration has no part in it.
    assert_eq!(value(Arch::Gfx942, "clock_mhz", &[&[("GRBM_GUI_ACTIVE", 4200.0)]]).value(), Some(2100.0));
    let busy: &[(&str, f64)] = &[("SQ_VALU_MFMA_BUSY_CYCLES", 1216.0 * 50.0), ("GRBM_GUI_ACTIVE", 100.0)];
    assert_eq!(value(Arch::Gfx942, "mfma_util", &[busy]).value(), Some(50.0));
    let valu: &[(&str, f64)] = &[
        ("SQ_INSTS_VALU_ADD_F32", 1.0),
        ("SQ_INSTS_VALU_MUL_F32", 1.0),
        ("SQ_INSTS_VALU_TRANS_F32", 1.0),
        ("SQ_INSTS_VALU_FMA_F32", 1.0),
    ];
    assert_eq!(value(Arch::Gfx942, "valu_flops_f32", &[valu]).value(), Some(64.0 * 5.0));
}

#[test]
fn valu_util_agrees_with_the_sdks_formula() {
    let counters: &[(&str, f64)] = &[("SQ_ACTIVE_INST_VALU", 15200.0), ("GRBM_GUI_ACTIVE", 100.0)];
    assert_eq!(value(Arch::Gfx942, "VALUBusy", &[counters]).value(), Some(50.0));
    assert_eq!(value(Arch::Gfx942, "valu_util", &[counters]).value(), Some(50.0));
}

#[test]
fn impossible_values_are_invalid_and_missing_ones_unavailable() {
    // Facts section 6 row 21: 207 %.
    let found =
        value(Arch::Gfx942, "lds_conflict_share", &[&[("SQ_LDS_BANK_CONFLICT", 207.0), ("SQ_LDS_IDX_ACTIVE", 100.0)]]);
    assert!(matches!(&found.outcome, Outcome::Invalid(why) if why.contains("207")), "{found:?}");
    let found = value(Arch::Gfx942, "l2_hit_rate", &[&[("TCC_HIT", 1.0)]]);
    assert_eq!(found.outcome, Outcome::Unavailable("TCC_MISS was not counted".to_owned()));
    assert!(!found.cross_pass);
    let found = value(Arch::Gfx942, "l2_hit_rate", &[&[("TCC_HIT", 0.0), ("TCC_MISS", 0.0)]]);
    assert!(matches!(found.outcome, Outcome::Unavailable(why) if why.contains("denominator")));
    let mut measured = measured(&[&[("TCC_EA0_WRREQ", 1.0), ("TCC_EA0_WRREQ_64B", 1.0)]]);
    measured.duration_ns = None;
    let catalog = Catalog::new(Arch::Gfx942).unwrap();
    let found = evaluate(catalog.metric("fabric_write_gbps").unwrap(), &measured);
    assert!(matches!(found.outcome, Outcome::Unavailable(why) if why.contains("duration")));
}

#[test]
fn gfx12_reads_by_size_that_do_not_add_up_are_invalid() {
    // legacy-rocm-build#6613: the split counters read 0 while GL2C_EA_RDREQ counts.
    let zero: &[(&str, f64)] = &[
        ("GL2C_EA_RDREQ", 1000.0),
        ("GL2C_EA_RDREQ_32B", 0.0),
        ("GL2C_EA_RDREQ_64B", 0.0),
        ("GL2C_EA_RDREQ_128B", 0.0),
    ];
    assert!(matches!(value(Arch::Gfx1201, "fabric_read_bytes", &[zero]).outcome, Outcome::Invalid(_)));
}

#[test]
fn operands_come_from_one_pass_where_there_is_one() {
    let split: &[&[(&str, f64)]] = &[&[("TCC_HIT", 30.0)], &[("TCC_MISS", 10.0)]];
    let found = value(Arch::Gfx942, "l2_hit_rate", split);
    assert_eq!((found.value(), found.cross_pass), (Some(75.0), true));
    let both: &[&[(&str, f64)]] = &[&[("TCC_HIT", 99.0)], &[("TCC_HIT", 30.0), ("TCC_MISS", 10.0)]];
    let found = value(Arch::Gfx942, "l2_hit_rate", both);
    assert_eq!((found.value(), found.cross_pass), (Some(75.0), false));
}

#[test]
fn a_pass_with_a_problem_is_used_only_when_there_is_no_other() {
    let counters: &[(&str, f64)] = &[("TCC_HIT", 30.0), ("TCC_MISS", 10.0)];
    let catalog = Catalog::new(Arch::Gfx942).unwrap();
    let metric = catalog.metric("l2_hit_rate").unwrap();
    let mut both = measured(&[counters, counters]);
    both.passes[0].problem = Some("counters read zero".to_owned());
    assert_eq!(evaluate(metric, &both).value(), Some(75.0));
    both.passes[1].problem = Some("counters read zero".to_owned());
    assert_eq!(evaluate(metric, &both).outcome, Outcome::Invalid("counters read zero".to_owned()));
    let entries = report(&catalog, &both, ["l2_hit_rate"]);
    assert_eq!((entries["TCC_HIT"].kind, entries["TCC_HIT"].value), (Kind::Invalid, None));
}

#[test]
fn reports_have_raw_beside_derived() {
    let catalog = Catalog::new(Arch::Gfx942).unwrap();
    let measured = measured(&[&[("TCC_HIT", 30.0), ("TCC_MISS", 10.0), ("GRBM_GUI_ACTIVE", 7.0)]]);
    let entries = report(&catalog, &measured, ["l2_hit_rate", "GRBM_GUI_ACTIVE", "SQ_WAVES", "NONSENSE"]);
    let names: Vec<&str> = entries.keys().map(String::as_str).collect();
    assert_eq!(names, ["GRBM_GUI_ACTIVE", "NONSENSE", "SQ_WAVES", "TCC_HIT", "TCC_MISS", "l2_hit_rate"]);
    assert_eq!((entries["TCC_HIT"].value, entries["TCC_HIT"].kind), (Some(30.0), Kind::Exact));
    assert_eq!((entries["l2_hit_rate"].value, entries["l2_hit_rate"].kind), (Some(75.0), Kind::Derived));
    assert!(entries["l2_hit_rate"].formula.as_deref().unwrap().contains("TCC_MISS"));
    assert_eq!(entries["SQ_WAVES"].kind, Kind::Unavailable);
}

#[test]
fn values_are_held_against_the_compulsory_work() {
    let known = |value: f64| Entry {
        value: Some(value),
        unit: String::new(),
        kind: Kind::Derived,
        reason: None,
        cross_pass: false,
        suspicious: None,
        formula: None,
        passes: Vec::new(),
        launches: None,
    };
    let compulsory = Compulsory {
        bytes_read: 100_000_000,
        bytes_written: 1000,
        matrix_flops: BTreeMap::from([("bf16".to_owned(), 1_000_000)]),
    };
    let judge = |read: f64, flops: f64, cache| {
        let mut values = BTreeMap::from([
            ("fabric_read_bytes".to_owned(), known(read)),
            ("fabric_write_bytes".to_owned(), known(1e9)),
            ("mfma_flops_bf16".to_owned(), known(flops)),
        ]);
        check(&mut values, &compulsory, cache);
        let is = |name: &str| values[name].suspicious.is_some();
        // Writes of 1000 bytes are too small to judge.
        assert!(!is("fabric_write_bytes"));
        (is("fabric_read_bytes"), is("mfma_flops_bf16"))
    };
    assert_eq!(judge(1.1e8, 1.0e6, Cache::Cold), (false, false));
    assert_eq!(judge(0.4e8, 1.0e6, Cache::Cold), (true, false));
    assert_eq!(judge(5.0e8, 0.0, Cache::Cold), (true, true));
    assert_eq!(judge(0.0, 5.0e6, Cache::Warm), (false, true));
}

#[test]
fn cold_is_told_by_what_came_over_the_fabric() {
    let compulsory = Compulsory { bytes_read: 128_000_000, ..Compulsory::default() };
    let catalog = Catalog::new(Arch::Gfx942).unwrap();
    let with = |lines: f64| {
        let counters: &[(&str, f64)] = &[("TCC_EA0_RDREQ", lines), ("TCC_EA0_RDREQ_32B", 0.0), ("TCC_BUBBLE", lines)];
        verify_cold(&catalog, &measured(&[counters]), &compulsory)
    };
    assert_eq!(with(1_000_000.0), ColdVerdict::Cold { share: 1.0, memory_side_cache: true });
    assert_eq!(with(250_000.0), ColdVerdict::Warm { share: 0.25 });
    assert!(matches!(verify_cold(&catalog, &measured(&[&[]]), &compulsory), ColdVerdict::Unknown { .. }));
    let small = Compulsory { bytes_read: 100, ..Compulsory::default() };
    assert!(matches!(verify_cold(&catalog, &measured(&[&[]]), &small), ColdVerdict::Unknown { .. }));
}

/// A run of rocprofv3 with `--pmc FETCH_SIZE WRITE_SIZE` has KiB that the SDK derived.
#[test]
fn recorded_derived_counters_stand_in_for_their_operands() {
    let catalog = Catalog::new(Arch::Gfx942).unwrap();
    let measured = measured(&[&[("FETCH_SIZE", 2.0)], &[("WRITE_SIZE", 3.0)]]);
    let entries = report(&catalog, &measured, ["FETCH_SIZE", "fabric_read_bytes", "fabric_read_gbps", "fabric_gbps"]);
    assert_eq!(entries["FETCH_SIZE"].value, Some(2.0));
    assert_eq!(entries["fabric_read_bytes"].value, Some(2048.0));
    assert_eq!(entries["fabric_read_gbps"].value, Some(2.048));
    assert_eq!((entries["fabric_gbps"].value, entries["fabric_gbps"].cross_pass), (Some(5.12), true));
    assert!(entries["fabric_read_bytes"].formula.as_deref().unwrap().contains("FETCH_SIZE"));
}
