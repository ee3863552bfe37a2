use super::*;
use crate::counters::{Executed, Mix};
use crate::isa::{Encoding, Op};
use crate::model::{MatrixInput, MatrixOp};
use proptest::prelude::*;

fn model(name: &str) -> &'static Model {
    Model::named(name).unwrap()
}

/// Work of `workgroups` equal workgroups of `waves` waves; each wave executes each operation so often.
fn work(model: &Model, workgroups: u64, waves: u64, each: &[(&str, u64)]) -> Work {
    let kinds = each.iter().map(|(name, count)| {
        let op = Op::from_name(name).unwrap_or_else(|| panic!("no {name}"));
        let kind = Executed { op, encoding: Encoding::Vop3, returns: false, matrix: MatrixOp::of(op) };
        (kind, count * workgroups * waves)
    });
    let mut work =
        Work { workgroups, waves_per_workgroup: waves, workgroups_per_cu: 8, uniform: true, ..Work::default() };
    work.add_instructions(&Mix::from_kinds(kinds.collect()), model).unwrap();
    work
}

fn cold(work: &Work, model: &Model) -> Bound {
    bound_of(work, model, CacheState::Cold).unwrap()
}

#[track_caller]
fn close(value: f64, wanted: f64) {
    assert!((value - wanted).abs() <= wanted.abs() * 1e-12, "{value} is not {wanted}");
}

/// A loop of nothing but matrix instructions on a full device reaches AMD's published peak (facts/aiter-kernels.md 7.2).
#[test]
fn pure_matrix_loops_reach_the_peak() {
    let cases = [
        ("mi210", "v_mfma_f32_32x32x8_f16", 181.0),
        ("mi300x", "v_mfma_f32_32x32x8_f16", 1307.4),
        ("mi300x", "v_mfma_f32_16x16x16_bf16", 1307.4),
        ("mi300x", "v_mfma_f32_16x16x32_fp8_fp8", 2614.9),
        ("mi300a", "v_mfma_f32_32x32x16_fp8_bf8", 1961.2),
        ("mi355x", "v_mfma_f32_32x32x16_bf16", 2516.6),
        ("mi350x", "v_mfma_f32_16x16x128_f8f6f4", 4613.7),
    ];
    for (name, operation, published) in cases {
        let model = model(name);
        let (count, workgroups) = (1000, u64::from(model.cus()) * 3);
        let work = work(model, workgroups, 4, &[(operation, count)]);
        let bound = cold(&work, model);
        let matrix = MatrixOp::of(Op::from_name(operation).unwrap()).unwrap();
        let flops = matrix.flops() as f64 * (count * workgroups * 4) as f64;
        assert_eq!(bound.limiter, Resource::MatrixCores, "{name} {operation}");
        close(flops / (bound.ns * 1e-9), model.peak_matrix_flops(matrix.input).unwrap());
        assert!((flops / bound.ns / 1e3 - published).abs() < 0.1, "{name} {operation}: {}", flops / bound.ns / 1e3);
    }
}

/// fp6 and fp4 run at twice f8's rate; either operand in f8 is enough to lose that.
#[test]
fn narrow_formats_of_gfx950() {
    let machine = &model("mi355x").machine;
    let op = Op::from_name("v_mfma_f32_32x32x64_f8f6f4").unwrap();
    assert_eq!(machine.matrix_cycles.cycles(op, MatrixInput::F6f4), Some(32));
    assert_eq!(machine.matrix_cycles.cycles(op, MatrixInput::F8), Some(64));
}

/// Vector peaks: 64 lanes on 4 SIMDs in 4 clocks, times what an instruction does for a lane.
#[test]
fn vector_alu_rates() {
    let model = model("mi300x");
    let clocks = |operation: &str| {
        let bound = cold(&work(model, 304, 16, &[(operation, 100)]), model);
        assert_eq!(bound.limiter, Resource::VectorAlu, "{operation}");
        bound.clocks()
    };
    // 1600 wave instructions on a CU, a quarter on each SIMD, 4 clocks each: 128 FLOP a clock and CU.
    close(clocks("v_fma_f32"), 1600.0);
    close(
        1600.0 * 64.0 * 2.0 / clocks("v_fma_f32"),
        model.machine.flops_per_clock_per_cu.vector_f32.as_ref().unwrap().value,
    );
    close(clocks("v_pk_fma_f32"), 1600.0);
    close(clocks("v_fma_f64"), 1600.0);
    close(clocks("v_exp_f32"), 6400.0);
    close(clocks("v_rcp_f64"), 6400.0);
    close(clocks("v_mul_lo_u32"), 1600.0);
    let gfx950 = super::tests::model("mi355x");
    close(cold(&work(gfx950, 256, 16, &[("v_exp_f32", 100)]), gfx950).clocks(), 3200.0);
}

/// rocprofiler-compute's calibration on MI250: a loop of 64-clock matrix instructions keeps the vector ALU 4/64 busy. And the
/// co-execution table of the matrix instruction calculator.
#[test]
fn matrix_instructions_and_the_vector_alu_share_a_simd() {
    let mi210 = model("mi210");
    let bound = cold(&work(mi210, 104, 4, &[("v_mfma_f32_32x32x8_f16", 50)]), mi210);
    close(bound.of(Resource::VectorAlu).unwrap() / bound.of(Resource::MatrixCores).unwrap(), 4.0 / 64.0);
    // f32 on MI300X stops the vector ALU: 64 + 4 * 10 clocks; f16 does not: the longer of 32 and 4 + 4 * 5.
    let mi300x = model("mi300x");
    let clocks = |model: &Model, matrix: &str, vector: u64| {
        let each = [(matrix, 100), ("v_add_f32", vector * 100)];
        let bound = cold(&work(model, u64::from(model.cus()), 4, &each), model);
        let of = |resource| bound.of(resource).unwrap() * 1e-9 * bound.clock_hz / 100.0;
        assert!(bound.limiter == Resource::MatrixCores || bound.limiter == Resource::VectorAlu);
        (of(Resource::MatrixCores), of(Resource::VectorAlu))
    };
    let check = |model: &Model, matrix: &str, vector: u64, wanted: (f64, f64)| {
        let (cores, alu) = clocks(model, matrix, vector);
        close(cores, wanted.0);
        close(alu, wanted.1);
    };
    check(mi300x, "v_mfma_f32_32x32x2_f32", 10, (64.0, 104.0));
    check(mi300x, "v_mfma_f32_32x32x8_f16", 5, (32.0, 24.0));
    // A sparse instruction takes two slots.
    check(mi300x, "v_smfmac_f32_16x16x32_f16", 5, (16.0, 28.0));
    // f64 stops it on MI200 too, f32 does not.
    check(mi210, "v_mfma_f64_16x16x4_f64", 5, (32.0, 52.0));
    check(mi210, "v_mfma_f32_32x32x2_f32", 5, (64.0, 24.0));
}

/// One scalar ALU for the four SIMDs: 16 waves of 100 scalar instructions are 1600 clocks; so are branches.
#[test]
fn scalar_and_branch_units_are_one_a_cu() {
    let model = model("mi300x");
    let bound = cold(&work(model, 304, 16, &[("s_add_u32", 60), ("s_load_dword", 40), ("s_cbranch_scc1", 90)]), model);
    assert_eq!(bound.limiter, Resource::ScalarAlu);
    close(bound.clocks(), 1600.0);
    close(bound.of(Resource::Branch).unwrap() * 2.1, 1440.0);
}

/// A wave has a turn every 4 clocks whatever it executes: few waves cannot fill the units.
#[test]
fn a_single_wave_issues_once_in_four_clocks() {
    let model = model("mi300x");
    let bound = cold(&work(model, 1, 1, &[("v_add_f32", 500), ("s_add_u32", 500), ("s_waitcnt", 50)]), model);
    assert_eq!(bound.limiter, Resource::WaveIssue);
    close(bound.clocks(), 4000.0);
    // Its matrix instructions have one SIMD.
    let bound = cold(&work(model, 1, 1, &[("v_mfma_f32_32x32x8_f16", 10)]), model);
    close(bound.clocks(), 320.0);
    // 16 workgroups a CU where 8 fit: two rounds.
    let bound = cold(&work(model, 304 * 16, 1, &[("v_add_f32", 100)]), model);
    assert_eq!((bound.fill.rounds, bound.fill.busiest_cu), (2, 16));
    close(bound.of(Resource::WaveIssue).unwrap() * 2.1, 800.0);
}

/// One workgroup more than there are CUs is a second round; workgroups of unequal length might fit beside each other.
#[test]
fn tail_effect() {
    let model = model("mi300x");
    let time = |workgroups, uniform| {
        let work = Work { uniform, ..work(model, workgroups, 4, &[("v_mfma_f32_32x32x8_f16", 100)]) };
        cold(&work, model).clocks()
    };
    close(time(304, true), 3200.0);
    close(time(305, true), 6400.0);
    close(time(608, true), 6400.0);
    close(time(305, false), 3200.0 * 305.0 / 304.0);
    let fill = Fill::of(&work(model, 305, 4, &[]), model);
    close(fill.efficiency, 305.0 / 608.0);
    // 8 workgroups, one an XCD; 12 of them: four XCDs have two.
    assert_eq!(Fill::of(&work(model, 8, 1, &[]), model).cus_used, 8);
    assert_eq!(Fill::of(&work(model, 12, 1, &[]), model).cus_used, 12);
    // 39 workgroups an XCD on one XCD more than the others: the 39th shares a CU.
    assert_eq!(Fill::of(&work(model, 305, 1, &[]), model).cus_used, 304);
}

/// A stream takes its bytes / the bandwidth (white papers).
#[test]
fn memory_streams() {
    for (name, rate) in [("mi300x", 5.3e12), ("mi210", 1.6384e12), ("mi355x", 8e12), ("mi325x", 6e12)] {
        let model = model(name);
        let bytes = 4e9;
        let mut work =
            Work { distinct_bytes_read: bytes * 0.75, distinct_bytes_written: bytes * 0.25, ..Work::default() };
        work.workgroups = 100_000;
        let bound = cold(&work, model);
        assert_eq!(bound.limiter, Resource::Hbm);
        close(bound.ns, bytes / rate * 1e9);
        let warm = bound_of(&work, model, CacheState::Warm).unwrap();
        let kept = if name == "mi210" { 8_388_608.0 } else { 268_435_456.0 };
        close(warm.of(Resource::Hbm).unwrap(), (bytes - kept) / rate * 1e9);
        // What the L2s can hold need not cross the fabric when they are warm.
        work.fabric_bytes_read = 1e9;
        let crossing = |caches| bound_of(&work, model, caches).unwrap().of(Resource::Fabric);
        if let (Some(cold), Some(warm)) = (crossing(CacheState::Cold), crossing(CacheState::Warm)) {
            close(warm / cold, (1e9 - 8.0 * 4_194_304.0) / 1e9);
        }
        work.fabric_bytes_read = 0.0;
        work.distinct_bytes_read = 1e6;
        work.distinct_bytes_written = 0.0;
        close(bound_of(&work, model, CacheState::Warm).unwrap().of(Resource::Hbm).unwrap(), 0.0);
    }
}

/// LDS: 128 B a clock and CU; a conflict-free `ds_read_b128` of 64 lanes is 8 clocks, with all lanes of a group in one bank 64.
/// L2 of MI300X: 34.4 TB/s, fabric 17.2 TB/s (CDNA 3 white paper).
#[test]
fn near_memories() {
    let model = model("mi300x");
    let base =
        || Work { workgroups: 304, waves_per_workgroup: 4, workgroups_per_cu: 1, uniform: true, ..Work::default() };
    let lds = |bank: f64, port: f64| {
        let work = Work { lds_bank_clocks: bank * 304.0, lds_port_bytes: port * 304.0, ..base() };
        cold(&work, model).of(Resource::Lds).unwrap() * 2.1
    };
    close(lds(8.0, 1024.0), 8.0);
    close(lds(64.0, 4096.0), 64.0);
    let l1 = |lines: f64, bytes: f64, writes: f64| {
        let work =
            Work { l1_lines: lines * 304.0, l1_bytes_read: bytes * 304.0, l1_write_requests: writes * 304.0, ..base() };
        cold(&work, model).of(Resource::VectorL1).unwrap() * 2.1
    };
    // 16 bytes a lane: 1024 B, 8 lines. 64 lanes in 64 lines. Four stores of 8 bytes a lane to 8 lines: 32
    // requests, two a clock.
    close(l1(8.0, 1024.0, 0.0), 8.0);
    close(l1(64.0, 256.0, 0.0), 64.0);
    close(l1(8.0, 0.0, 32.0), 16.0);
    let rate = |work: Work, bytes: f64| bytes / (cold(&work, model).ns * 1e-9) / 1e12;
    let bytes = 1e9;
    assert!((rate(Work { l2_bytes_read: bytes, ..base() }, bytes) - 34.4).abs() < 0.05);
    assert!((rate(Work { l2_bytes_written: bytes, ..base() }, bytes) - 17.2).abs() < 0.05);
    assert!((rate(Work { fabric_bytes_read: bytes, ..base() }, bytes) - 17.2).abs() < 0.05);
    // Published measurements stay below: MI300X L1 38.8 TB/s, L2 27.5 TB/s.
    assert!(rate(Work { l1_bytes_read: bytes, ..base() }, bytes) > 38.8);
    assert!(rate(Work { l2_bytes_read: bytes, ..base() }, bytes) > 27.5);
    // MI210 measured 10.5 and 5.1 TB/s, peaks 11.3 and 6.96 TB/s (white paper).
    let mi210 = super::tests::model("mi210");
    let work = Work { workgroups: 104, waves_per_workgroup: 4, workgroups_per_cu: 1, uniform: true, ..Work::default() };
    let l1 = cold(&Work { l1_bytes_read: bytes, ..work.clone() }, mi210).ns;
    let l2 = cold(&Work { l2_bytes_read: bytes, ..work }, mi210).ns;
    assert!((bytes / l1 / 1e3 - 11.3).abs() < 0.05 && (bytes / l2 / 1e3 - 6.96).abs() < 0.01);
}

/// 32 shader engines of MI300X start a wave a clock each.
#[test]
fn starting_waves() {
    let model = model("mi300x");
    close(cold(&work(model, 80_000, 4, &[]), model).of(Resource::WaveLaunch).unwrap() * 2.1, 10_000.0);
}

#[test]
fn without_a_clock_there_is_no_bound() {
    let error = bound_of(&Work::default(), model("mi308x"), CacheState::Cold).unwrap_err();
    assert!(error.to_string().contains("MI308X") && error.to_string().contains("clock_mhz"));
    let mi210 = model("mi210");
    let op = Op::from_name("v_mfma_f32_16x16x32_fp8_fp8").unwrap();
    let kind = Executed { op, encoding: Encoding::Mai, returns: false, matrix: MatrixOp::of(op) };
    let error = Work::default().add_instructions(&Mix::from_kinds(vec![(kind, 1)]), mi210).unwrap_err();
    assert!(matches!(error, BoundError::NoCycles { .. }));
}

fn fields(work: &mut Work) -> [&mut f64; 16] {
    [
        &mut work.matrix_clocks,
        &mut work.valu_clocks,
        &mut work.scalar,
        &mut work.branches,
        &mut work.issued,
        &mut work.lds_bank_clocks,
        &mut work.lds_port_bytes,
        &mut work.l1_lines,
        &mut work.l1_bytes_read,
        &mut work.l1_write_requests,
        &mut work.l2_bytes_read,
        &mut work.l2_bytes_written,
        &mut work.fabric_bytes_read,
        &mut work.fabric_bytes_written,
        &mut work.distinct_bytes_read,
        &mut work.distinct_bytes_written,
    ]
}

proptest! {
    /// More work of any kind never lowers the bound; the bound is the largest of its parts, finite and not negative; work spread
    /// evenly is never slower than the same work with a tail; warm caches never slower than cold ones.
    #[test]
    fn more_work_never_lowers_the_bound(
        amounts in prop::array::uniform16(0.0..1e12_f64),
        more in 0.0..1e12_f64,
        which in 0_usize..16,
        workgroups in 1_u64..5000,
        waves in 1_u64..17,
        resident in 1_u64..33,
        uniform: bool,
        device in 0_usize..8,
    ) {
        let model = &Model::all()[device];
        let mut work = Work {
            workgroups, waves_per_workgroup: waves, workgroups_per_cu: resident, uniform, ..Work::default()
        };
        for (field, amount) in fields(&mut work).into_iter().zip(amounts) {
            *field = amount;
        }
        let Ok(before) = bound_of(&work, model, CacheState::Cold) else {
            prop_assert!(model.clock_mhz.is_none());
            return Ok(());
        };
        prop_assert!(before.by_resource.iter().all(|(_, ns)| ns.is_finite() && *ns >= 0.0 && *ns <= before.ns));
        prop_assert_eq!(before.of(before.limiter), Some(before.ns));
        let warm = bound_of(&work, model, CacheState::Warm).unwrap();
        prop_assert!(warm.ns <= before.ns);
        let even = bound_of(&Work { uniform: false, ..work.clone() }, model, CacheState::Cold).unwrap();
        let tail = bound_of(&Work { uniform: true, ..work.clone() }, model, CacheState::Cold).unwrap();
        prop_assert!(even.ns <= tail.ns * (1.0 + 1e-12));
        *fields(&mut work)[which] += more;
        prop_assert!(bound_of(&work, model, CacheState::Cold).unwrap().ns >= before.ns);
    }

    /// CUs used and the busiest CU against handing out workgroups one by one.
    #[test]
    fn fill_equals_handing_out_one_by_one(workgroups in 1_u64..4000, device in 0_usize..8) {
        let model = &Model::all()[device];
        let (xcds, cus) = (model.xcds.value as usize, model.cus_per_xcd.value as usize);
        let mut held = vec![vec![0_u64; cus]; xcds];
        for linear in 0..workgroups as usize {
            held[linear % xcds][linear / xcds % cus] += 1;
        }
        let work = Work { workgroups, waves_per_workgroup: 1, workgroups_per_cu: 1, ..Work::default() };
        let fill = Fill::of(&work, model);
        prop_assert_eq!(fill.cus_used, held.iter().flatten().filter(|count| **count > 0).count() as u64);
        prop_assert_eq!(fill.busiest_cu, held.iter().flatten().copied().max().unwrap());
    }
}
