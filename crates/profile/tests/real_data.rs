//! Every real CSV of the shared data: an inventory whose totals agree with the source, or the right refusal.
//!
//! The data is third-party and not part of the project: `KBENCH_REAL_DATA`, by default `shared/data` beside the workspace. Without it these tests say so and pass.

#![allow(clippy::unwrap_used, clippy::panic)]

use kbench_profile::{Dialect, Inventory, Phase, Provenance, ReadError, ReadOptions, read, sniff};
use kbench_workload::Family;
use std::path::{Path, PathBuf};

/// The folder of real data, or a line that says that the test skips.
fn data() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("KBENCH_REAL_DATA").map_or(default, PathBuf::from);
    let found = folder.is_dir();
    if !found {
        println!("skipped: no real profiles at {} (set KBENCH_REAL_DATA)", folder.display());
    }
    found.then_some(folder)
}

fn inventory(path: PathBuf) -> Inventory {
    read(&[&path], &ReadOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Kernel time in µs.
fn kernel_us(inventory: &Inventory) -> f64 {
    inventory.total_ns() as f64 / 1000.0
}

fn assert_close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= expected * 1e-3, "{what}: {found} µs, expected {expected}");
}

fn has_finding(inventory: &Inventory, code: &str) -> bool {
    inventory.health.iter().any(|finding| finding.code == code)
}

/// Totals of R12 of the shared facts (profile-formats.md, section 8), and of gpu_timeline where the report has no unlinked kernels.
#[test]
fn report_folders_have_the_known_kernel_time() {
    let Some(data) = data() else { return };
    for (folder, us) in [
        ("mi300_qwen15", 43_062.0),
        ("mi300_vllm_gptoss20b_decode", 10_675.0),
        ("mi210_gpu_only", 5_343.0),
        // gpu_timeline: 31197.578 ms of kernels; the sheet itself says 31197578 "ms".
        ("rocprof_report_256thread", 31_197_578.0),
    ] {
        let inventory = inventory(data.join("tracelens").join(folder));
        assert_close(kernel_us(&inventory), us, folder);
        assert!(!has_finding(&inventory, "totals_disagree"), "{folder}: {:?}", inventory.health);
        assert!(!has_finding(&inventory, "bad_rows"), "{folder}: {:?}", inventory.health);
        let shares: f64 = inventory.rows.iter().map(|row| row.share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{folder}: shares sum to {shares}");
        assert_eq!(has_finding(&inventory, "units_fixed"), folder.starts_with("rocprof"), "{folder}");
    }
}

#[test]
fn single_sheets_have_their_own_total() {
    let Some(data) = data() else { return };
    // Sums of the sheets' own time columns, by Python's csv module; memory transfers (0.76 and 43.19 µs) taken off.
    for (file, us) in [
        ("mi300_qwen15/unified_perf_summary.csv", 29_743.168),
        ("mi300_qwen15/ops_unique_args.csv", 29_743.168),
        ("mi300_qwen15/kernel_summary.csv", 43_062.042),
        ("mi300_vllm_gptoss20b_decode/unified_perf_summary.csv", 10_674.507),
        ("mi300_vllm_gptoss20b_decode/ops_unique_args.csv", 10_674.507),
        ("mi210_gpu_only/kernel_summary.csv", 5_343.422),
        ("rocprof_report_256thread/kernel_summary.csv", 31_197_578.595),
        ("rocprof_report_256thread/kernel_details.csv", 26_854_992.799),
        ("mi300_qwen15/GEMM.csv", 11_645.720),
        ("mi300_qwen15/SDPA_fwd.csv", 4_016.343),
        // 2461 µs as written: every row stands there twice, once as vllm::rocm_unquantized_gemm and once as the aten op inside.
        ("mi300_vllm_gptoss20b_decode/GEMM.csv", 1_230.560),
        ("mi300_vllm_gptoss20b_decode/InferenceAttention_fwd.csv", 724.360),
    ] {
        assert_close(kernel_us(&inventory(data.join("tracelens").join(file))), us, file);
    }
}

#[test]
fn qwen15_has_shapes_for_what_has_operators() {
    let Some(data) = data() else { return };
    let folder = data.join("tracelens/mi300_qwen15");
    let alone = inventory(folder.join("unified_perf_summary.csv"));
    let coverage = alone.coverage();
    assert!(coverage.with_shape > 0.9, "{coverage:?}");
    let whole = inventory(folder);
    // 30.9 % of the time was launched before the window (facts, section 1): it stays, without a shape.
    let unlinked = whole.coverage().by_provenance["none"];
    assert!((0.30..0.32).contains(&unlinked), "{unlinked}");
    assert!(has_finding(&whole, "unlinked_kernels"));
    let gemm = whole.rows.iter().filter(|row| row.family == Family::Gemm).flat_map(|row| &row.shapes);
    let wanted = gemm.filter(|used| {
        let size = |key| used.shape.int(key).ok().flatten();
        (size("m"), size("n"), size("k")) == (Some(8944), Some(2816), Some(1024))
    });
    // The two projections of each of 24 layers: 48 calls, 5308.273 µs.
    let wanted: Vec<_> = wanted.collect();
    assert_eq!(wanted.len(), 1);
    assert_eq!((wanted[0].calls, wanted[0].total_ns, wanted[0].provenance), (48, 5_308_273, Provenance::Exact));
    for row in &whole.rows {
        assert_eq!(row.shapes.is_empty(), row.provenance == Provenance::None, "{}", row.kernel);
        assert!(row.location.line > 1 && !row.location.file.is_empty(), "{}", row.kernel);
    }
}

#[test]
fn the_decode_report_keeps_both_attention_variants() {
    let Some(data) = data() else { return };
    // unified_perf_summary merges 24 calls and lists only the 12 of kernel_unified_attention_2d; ops_unique_args has the other 12.
    let folder = inventory(data.join("tracelens/mi300_vllm_gptoss20b_decode"));
    for (kernel, calls, ns) in [
        ("kernel_unified_attention_2d", 12, 161_786),
        ("kernel_unified_attention_3d", 12, 493_906),
        ("reduce_segments", 12, 68_668),
    ] {
        let row = folder.rows.iter().find(|row| row.kernel == kernel).unwrap_or_else(|| panic!("{kernel}"));
        assert_eq!((row.calls, row.total_ns), (calls, ns), "{kernel}");
    }
    let sheet = inventory(data.join("tracelens/mi300_vllm_gptoss20b_decode/unified_perf_summary.csv"));
    assert!(has_finding(&sheet, "unlisted_kernels"));
    // Copies of the runtime are in the list and not in the total.
    assert_eq!(folder.transfer_ns(), 43_191);
    assert!(folder.rows.iter().filter(|row| row.is_transfer()).all(|row| row.share == 0.0));
}

#[test]
fn what_is_no_inventory_is_refused_by_name() {
    let Some(data) = data() else { return };
    for (file, dialect) in [
        ("tracelens/mi300_qwen15/ops_summary.csv", Dialect::OpsSummary),
        ("tracelens/mi300_vllm_gptoss20b_decode/ops_summary.csv", Dialect::OpsSummary),
        ("tracelens/mi300_qwen15/ops_summary_by_category.csv", Dialect::CategorySummary),
        ("tracelens/rocprof_report_256thread/kernel_summary_by_category.csv", Dialect::CategorySummary),
        ("tracelens/mi300_qwen15/gpu_timeline.csv", Dialect::GpuTimeline),
        ("tracelens/mi300_qwen15/short_kernels_summary.csv", Dialect::ShortKernels),
        ("tracelens/mi210_gpu_only/short_kernels_summary.csv", Dialect::ShortKernels),
        ("tracelens/mi210_gpu_only/short_kernel_histogram.csv", Dialect::ShortKernelHistogram),
        ("rocprofv3/counter_collection.csv", Dialect::CounterCollection),
        ("rocprofv3/kernel_names.csv", Dialect::CounterCollection),
        ("rocprofv3/memory_copy_trace.csv", Dialect::MemoryCopyTrace),
        ("rocprofv3/rocprof_compute_MI300X_A1_pmc_perf.csv", Dialect::PmcPerf),
        ("rocprofv3/rocprof_compute_MI300X_A1_pmc_dispatch_info.csv", Dialect::PmcDispatchInfo),
        ("rocprofv3/rocprof_compute_MI300X_A1_sysinfo.csv", Dialect::SysInfo),
    ] {
        let error = read(&[data.join(file)], &ReadOptions::default()).unwrap_err();
        assert!(
            matches!(&error, ReadError::NoInventory { dialect: found, .. } if *found == dialect),
            "{file}: {error}"
        );
        assert!(error.to_string().contains("Give "), "{error}");
    }
    for file in ["hip_api_stats.csv", "hip_domain_stats.csv"] {
        let error = read(&[data.join("rocprofv3").join(file)], &ReadOptions::default()).unwrap_err();
        assert!(matches!(error, ReadError::Empty { dialect: Dialect::KernelStats, .. }), "{file}: {error}");
    }
}

/// Whatever is in the data folder, every file ends in an inventory or an error that says what to do.
#[test]
fn every_real_file_is_read_or_refused() {
    let Some(data) = data() else { return };
    let (mut read_files, mut refused) = (0, 0);
    for folder in [
        "tracelens/mi210_gpu_only",
        "tracelens/mi300_qwen15",
        "tracelens/mi300_vllm_gptoss20b_decode",
        "tracelens/rocprof_report_256thread",
        "atom",
        "rocprofv3",
        "traces",
    ] {
        for entry in std::fs::read_dir(data.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            match read(&[&path], &ReadOptions::default()) {
                Ok(inventory) => {
                    read_files += 1;
                    assert!(inventory.total_ns() > 0, "{}", path.display());
                    assert!(sniff(&path).unwrap().is_readable());
                }
                Err(error) => {
                    refused += 1;
                    let text = error.to_string();
                    assert!(text.contains(&path.display().to_string()) && !text.contains('\n'), "{text}");
                    assert!(text.contains("ive ") || text.contains("Convert") || text.contains("Unpack"), "{text}");
                }
            }
        }
    }
    println!("{read_files} files read, {refused} refused");
    // All 14 traces are read; the 16 files of `what_is_no_inventory_is_refused_by_name` are refused.
    assert!(read_files >= 34 && refused >= 16);
}

#[test]
fn atom_tables() {
    let Some(data) = data() else { return };
    let layer = inventory(data.join("atom/conc16_layer.csv"));
    assert_eq!(layer.source.hints["batch"], "16");
    // Sum of avg_us × count over the 16 positions, by Python's csv module.
    assert_close(kernel_us(&layer), 8_956.9, "conc16_layer");
    assert_eq!(layer.rows.len(), 16);
    assert!(layer.rows.iter().all(|row| row.position.is_some() && row.calls == 43));
    let step = inventory(data.join("atom/decode_breakdown.csv"));
    // LAYER TOTAL 208.397 µs × 43 layers.
    assert_close(kernel_us(&step), 208.397 * 43.0, "decode_breakdown");
    assert!(step.rows.iter().all(|row| row.phase == Phase::Decode));
    assert_eq!(step.source.steps, Some(1));
    for code in ["unmatched_kernels", "layers_summed"] {
        assert!(has_finding(&step, code), "{code}");
    }
    assert!(!has_finding(&step, "totals_disagree"), "{:?}", step.health);
    // The MoE GEMM stands twice in a layer: two rows, told apart by position.
    let moe = step.rows.iter().filter(|row| row.kernel.contains("kernel_moe_gemm")).count();
    assert_eq!(moe, 2);
}

#[test]
fn rocprofv3_traces() {
    let Some(data) = data() else { return };
    let trace = inventory(data.join("rocprofv3/kernel_trace.csv"));
    // Sum of End_Timestamp − Start_Timestamp by Python's csv module.
    assert_eq!(trace.total_ns(), 96_160);
    assert!(!has_finding(&trace, "truncated_names"));
    let truncated = inventory(data.join("rocprofv3/kernel_trace_truncated.csv"));
    assert_eq!(truncated.total_ns(), 44_840);
    assert!(has_finding(&truncated, "truncated_names"));
}

/// What kbench writes of a real profile is read back as it was, findings and all.
#[test]
fn real_inventories_survive_the_csv() {
    let Some(data) = data() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.csv");
    for source in [
        "tracelens/mi300_qwen15",
        "tracelens/mi300_vllm_gptoss20b_decode",
        "tracelens/mi210_gpu_only",
        "tracelens/rocprof_report_256thread",
        "atom/conc16_layer.csv",
        "atom/decode_breakdown.csv",
        "rocprofv3/kernel_trace.csv",
    ] {
        let inventory = inventory(data.join(source));
        inventory.write_csv(std::fs::File::create(&path).unwrap()).unwrap();
        let again = read(&[&path], &ReadOptions::default()).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(again, inventory, "{source}");
    }
}
