//! The readers on small files in the columns of the tools that write them; expected values are computed by hand from the lines above them.

#![allow(clippy::unwrap_used, clippy::panic)]

use kbench_profile::{Dialect, Inventory, Phase, Provenance, ReadError, ReadOptions, Row, read};
use kbench_workload::{Family, ShapeMap};
use std::path::PathBuf;
use tempfile::TempDir;

/// A folder of files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn read_text(text: &str) -> Result<Inventory, ReadError> {
    let folder = folder(&[("some.csv", text)]);
    read(&[folder.path().join("some.csv")], &ReadOptions::default())
}

fn row<'i>(inventory: &'i Inventory, kernel: &str) -> &'i Row {
    inventory
        .rows
        .iter()
        .find(|row| row.kernel_raw == kernel)
        .unwrap_or_else(|| panic!("no {kernel} in {inventory:#?}"))
}

fn finding(inventory: &Inventory, code: &str) -> String {
    let found = inventory.health.iter().find(|finding| finding.code == code);
    found.unwrap_or_else(|| panic!("no {code} in {:?}", inventory.health)).message.clone()
}

fn has(inventory: &Inventory, code: &str) -> bool {
    inventory.health.iter().any(|finding| finding.code == code)
}

const TRACE: &str =
    "\"Kind\",\"Agent_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\",\"Grid_Size_X\"\n";

#[test]
fn kernel_trace_survives_quotes_and_counts_what_it_drops() {
    let text = TRACE.to_owned()
        + "\"KERNEL_DISPATCH\",\"Agent 4\",\"f<{lambda(\"a,b\", \"c\")#1}>(operator\"\"_x)\",1,100,160,64\n\
           \"KERNEL_DISPATCH\",4,\"f<{lambda(\"a,b\", \"c\")#1}>(operator\"\"_x)\",2,200,240,64\r\n\
           \"KERNEL_DISPATCH\",4,\"g(int)\",3,300,300,64\n\
           \"KERNEL_DISPATCH\",4,\"g(int)\",4,400,390,64\n\
           \n\
           \"KERNEL_DISPATCH\",4,\"g(int)\",5,x,500,64\n\
           \"KERNEL_DISPATCH\",4,\"g(int)\",6,600,611,64\n\
           \"KERNEL_DISPATCH\",4,\"cut off";
    let inventory = read_text(&text).unwrap();
    let lambda = row(&inventory, "f<{lambda(\"a,b\", \"c\")#1}>(operator\"\"_x)");
    assert_eq!((lambda.calls, lambda.total_ns, lambda.location.line), (2, 100, 2));
    assert_eq!((row(&inventory, "g(int)").calls, inventory.total_ns()), (1, 111));
    assert!(finding(&inventory, "zero_durations").contains("some.csv:4"));
    assert!(finding(&inventory, "negative_durations").contains("some.csv:5"));
    let bad = finding(&inventory, "bad_rows");
    assert!(bad.starts_with("2 lines") && bad.contains("some.csv:7"), "{bad}");
    assert!(!has(&inventory, "truncated_names"));
}

#[test]
fn kernel_trace_of_other_versions() {
    // <= 0.7: no Stream_Id, bare header; rocpd: Guid and Duration; a spreadsheet in between: quotes doubled.
    for text in [
        "Kind,Agent_Id,Queue_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp\n\"KERNEL_DISPATCH\",1,1,\"k(\"\"a\")\",7,10,35\n",
        "\"Guid\",\"Kind\",\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\",\"Duration\"\n\"0-1\",\"KERNEL_DISPATCH\",\"k(\"\"a\")\",10,35,25\n",
        "End_Timestamp,Kernel_Name,Kind,Start_Timestamp\n35,\"k(\"\"\"\"a\"\")\",KERNEL_DISPATCH,10\n",
    ] {
        let inventory = read_text(text).unwrap();
        assert_eq!(
            (row(&inventory, "k(\"\"a\")").total_ns, inventory.source.dialect.as_str()),
            (25, "rocprofv3 kernel_trace"),
            "{text}"
        );
    }
    let old = read_text("\"Index\",\"KernelName\",\"gpu-id\",\"DurationNs\"\n0,\"k(int) [clone .kd]\",1,25\n").unwrap();
    assert_eq!(old.total_ns(), 25);
}

#[test]
fn kernel_stats_tell_kernels_from_api_calls() {
    let head = "\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\",\"Percentage\"\n";
    let inventory = read_text(&format!(
        "{head}\"f(int, int)\",12,6096409,508034.083333,1.98\n\"g(int)\",2,10,5.0,0.0\n\"hipMalloc\",1,5,5,0\n"
    ))
    .unwrap();
    assert_eq!((row(&inventory, "f(int, int)").calls, inventory.total_ns()), (12, 6_096_419));
    assert!(finding(&inventory, "api_rows").contains("hipMalloc"));
    let error = read_text(&format!("{head}\"hipMalloc\",1,5,5,0\n\"hipFree\",1,5,5,0\n")).unwrap_err().to_string();
    assert!(error.contains("API calls") && error.contains("kernel_trace.csv"), "{error}");
}

#[test]
fn a_file_without_kernels_says_what_to_check() {
    let error = read_text(TRACE).unwrap_err().to_string();
    assert!(error.contains("without a single kernel") && error.contains("traced kernels"), "{error}");
    let error = read_text(&format!("{TRACE}nonsense\nmore\n")).unwrap_err().to_string();
    assert!(error.contains("none of its 2 lines"), "{error}");
}

#[test]
fn rocprofv3_folders_add_up_processes_and_prefer_traces() {
    let line = |ns: u64| format!("{TRACE}\"KERNEL_DISPATCH\",4,\"k(int)\",1,100,{},64\n", 100 + ns);
    let stats = "\"Name\",\"Calls\",\"TotalDurationNs\"\n\"k(int)\",1,999\n";
    let folder = folder(&[
        ("node7/11_kernel_trace.csv", &line(5)),
        ("node7/12_kernel_trace.csv", &line(7)),
        ("node7/11_kernel_stats.csv", stats),
        ("node7/11_hip_api_stats.csv", "\"Name\",\"Calls\",\"TotalDurationNs\"\n\"hipFree\",1,999\n"),
        ("node7/11_agent_info.csv", "\"Node_Id\",\"Agent_Type\"\n0,\"CPU\"\n"),
    ]);
    let inventory = read(&[folder.path()], &ReadOptions::default()).unwrap();
    assert_eq!((row(&inventory, "k(int)").calls, inventory.total_ns()), (2, 12));
    assert!(has(&inventory, "merged"));
}

/// An operator row of `unified_perf_summary` with one kernel; times in µs.
fn op(name: &str, dims: &str, calls: u64, us: f64, kernels: &[(&str, u64, f64)]) -> String {
    let kernels: Vec<String> = kernels
        .iter()
        .map(|(name, calls, us)| {
            format!("{{'name': '{name}', 'stream': 0, 'count': {calls}, 'total_duration_us': np.float64({us})}}")
        })
        .collect();
    format!("{name},\"{dims}\",{calls},{us},\"[{}]\"\n", kernels.join(", "))
}

const UNIFIED: &str = "name,Input Dims,operation_count,Kernel Time (µs)_sum,kernel_details_summary\n";
const UNIQUE: &str = "name,Input Dims,operation_count,total_direct_kernel_time_sum,kernel_details_summary\n";
const SUMMARY: &str =
    "Parent op category,Parent cpu_op,Kernel name,Kernel stream,Kernel duration (µs)_sum,Kernel duration (µs)_count\n";

#[test]
fn a_report_folder_counts_everything_once() {
    let unified = UNIFIED.to_owned()
        + &op("aten::add", "((16, 4), (16, 1), ())", 3, 9.0, &[("add_kernel", 3, 9.0)])
        + &op("vllm::attention", "((2, 8),)", 4, 10.0, &[("attention_2d", 2, 4.0)])
        + &op("aten::copy_", "((5,), (5,))", 1, 2.0, &[("Memcpy DtoD (Device -> Device)", 1, 2.0)]);
    let unique = UNIQUE.to_owned()
        + &op("aten::add", "((16, 4), (16, 1), ())", 3, 9.0, &[("add_kernel", 3, 9.0)])
        + &op("vllm::attention", "((2, 8),)", 2, 4.0, &[("attention_2d", 2, 4.0)])
        + &op("vllm::attention", "((2, 9),)", 2, 6.0, &[("attention_3d", 2, 5.0), ("reduce", 2, 1.0)]);
    let summary = SUMMARY.to_owned()
        + "elementwise,aten::add,add_kernel,0,9.0,3\n,,add_kernel,1,4.5,2\nother,vllm::attention,attention_2d,0,4.0,2\n\
           other,vllm::attention,attention_3d,0,5.0,2\nother,vllm::attention,reduce,0,1.0,2\ngraph,hipGraphLaunch,replayed,0,7.0,1\n";
    let timeline = "type,time ms,percent\ncomputation_time,0.019,50\ntotal_time,1,100\n";
    let category = "name,param: M,Kernel Time (µs)_sum,name_count\naten::mm,1,500.0,1\n";
    let folder = folder(&[
        ("unified_perf_summary.csv", &unified),
        ("ops_unique_args.csv", &unique),
        ("kernel_summary.csv", &summary),
        ("gpu_timeline.csv", timeline),
        ("GEMM.csv", category),
        ("ops_summary.csv", "name,total_direct_kernel_time_sum,Count\naten::add,9,3\n"),
    ]);
    let inventory = read(&[folder.path()], &ReadOptions::default()).unwrap();
    // 9 + 4.5 + 4 + 5 + 1 + 7; the copy is no kernel time.
    assert_eq!((inventory.total_ns(), inventory.transfer_ns()), (30_500, 2_000));
    let add = row(&inventory, "add_kernel");
    assert_eq!((add.calls, add.total_ns, add.op.as_deref()), (5, 13_500, Some("aten::add")));
    // The part that was launched before the window has no shape, and does not borrow one.
    assert_eq!(add.shaped(), (3, 9_000));
    assert_eq!(add.shapes[0].shape.to_string(), "in0=[16,4],in1=[16,1]");
    assert_eq!(add.provenance, Provenance::Exact);
    assert_eq!(row(&inventory, "attention_3d").shapes[0].shape.to_string(), "in0=[2,9]");
    assert_eq!(row(&inventory, "replayed").provenance, Provenance::None);
    let covered = inventory.coverage();
    assert!((covered.with_shape - 19.0 / 30.5).abs() < 1e-9, "{covered:?}");
    assert!(finding(&inventory, "unlinked_kernels").contains("37.7 %"));
    assert!(!has(&inventory, "totals_disagree"), "{:?}", inventory.health);

    // The same files by name, as a shell's `*.csv` gives them, are the same report.
    let names = [
        "GEMM.csv",
        "gpu_timeline.csv",
        "kernel_summary.csv",
        "ops_summary.csv",
        "ops_unique_args.csv",
        "unified_perf_summary.csv",
    ];
    let paths: Vec<PathBuf> = names.iter().map(|name| folder.path().join(name)).collect();
    let listed = read(&paths, &ReadOptions::default()).unwrap();
    assert_eq!(listed.rows, inventory.rows);
    assert!(finding(&listed, "ignored_files").contains("ops_summary.csv"));
}

#[test]
fn one_sheet_says_what_it_does_not_list() {
    let inventory =
        read_text(&(UNIFIED.to_owned() + &op("vllm::attention", "((2, 8),)", 4, 10.0, &[("attention_2d", 2, 4.0)])))
            .unwrap();
    assert_eq!(inventory.total_ns(), 10_000);
    let rest = row(&inventory, "vllm::attention (kernels not listed)");
    assert_eq!((rest.calls, rest.total_ns, rest.shaped()), (2, 6_000, (2, 6_000)));
    assert!(has(&inventory, "unlisted_kernels"));
    // Older sheets have no kernel list at all.
    let inventory =
        read_text("name,Input Dims,operation_count,Kernel Time (µs)_mean\naten::add,\"((3,), ())\",5,2.0\n").unwrap();
    assert_eq!((row(&inventory, "aten::add").calls, inventory.total_ns()), (5, 10_000));
    assert!(has(&inventory, "no_kernel_names"));
}

#[test]
fn graph_rows_have_no_shape_and_say_why() {
    let text = UNIFIED.to_owned()
        + &op("hipGraphLaunch->k1 (Synthetic Op)", "", 1, 3.0, &[("k1", 1, 3.0)])
        + &op("aten::add", "((4,),)", 1, 1.0, &[("k2", 1, 1.0)]);
    let inventory = read_text(&text).unwrap();
    assert_eq!(row(&inventory, "k1").shapes, []);
    assert_eq!(row(&inventory, "k1").op.as_deref(), Some("hipGraphLaunch"));
    assert!(finding(&inventory, "graph_replay").contains("75.0 %"));
}

#[test]
fn impossible_arguments_leave_the_time() {
    let text = UNIFIED.to_owned()
        + &op("aten::add", "((4, -1),)", 1, 1.0, &[("k2", 1, 1.0)])
        + "aten::x,,1,1.0,not a list\nshort,row\n";
    let inventory = read_text(&text).unwrap();
    assert_eq!((row(&inventory, "k2").total_ns, inventory.total_ns()), (1_000, 2_000));
    assert!(finding(&inventory, "shape_errors").contains("some.csv:2: aten::add"));
    assert!(finding(&inventory, "bad_kernel_lists").contains("some.csv:3"));
    assert!(finding(&inventory, "bad_rows").contains("some.csv:4"));
}

#[test]
fn category_sheets_are_never_added_up() {
    let sheet = "name,param: M,Kernel Time (µs)_sum,name_count\naten::mm,1,500.0,1\n";
    let folder = folder(&[("GEMM.csv", sheet), ("SDPA_fwd.csv", sheet)]);
    let both = [folder.path().join("GEMM.csv"), folder.path().join("SDPA_fwd.csv")];
    for error in [read(&[folder.path()], &ReadOptions::default()), read(&both, &ReadOptions::default())] {
        let error = error.unwrap_err();
        assert!(matches!(error, ReadError::CategorySheets { .. }), "{error}");
    }
    assert_eq!(read(&both[..1], &ReadOptions::default()).unwrap().total_ns(), 500_000);
}

#[test]
fn a_folder_is_one_profile() {
    let report = UNIFIED.to_owned() + &op("aten::add", "((4,),)", 1, 1.0, &[("k", 1, 1.0)]);
    let folder = folder(&[("rank0/unified_perf_summary.csv", &report), ("rank1/unified_perf_summary.csv", &report)]);
    let error = read(&[folder.path()], &ReadOptions::default()).unwrap_err();
    assert!(matches!(&error, ReadError::Several { .. }) && error.to_string().contains("rank1"), "{error}");
    let added = read(&[folder.path().join("rank0"), folder.path().join("rank1")], &ReadOptions::default()).unwrap();
    assert_eq!((row(&added, "k").calls, added.total_ns()), (2, 2_000));
}

#[test]
fn a_folder_without_profiles_lists_what_is_there() {
    let folder = folder(&[("a.json", "{}"), ("b/gpu_timeline.csv", "type,time ms\n"), ("notes.txt", "hello\n")]);
    let error = read(&[folder.path()], &ReadOptions::default()).unwrap_err().to_string();
    for part in ["JSON (1)", "gpu_timeline CSV (1)", "no known CSV (1)"] {
        assert!(error.contains(part), "{error}");
    }
    let missing = read(&[folder.path().join("nowhere")], &ReadOptions::default()).unwrap_err();
    assert!(matches!(missing, ReadError::Io { .. }) && missing.to_string().contains("nowhere"));
}

#[test]
fn rocprof_reports_with_and_without_their_bug() {
    let head = "name,Count,Min Kernel Time (µs),Max Kernel Time (µs),Total Kernel Time (ms)\n";
    // As TraceLens writes them: ns under (µs), µs under (ms).
    let broken = read_text(&format!("{head}k,2,7600,9000,16.6\n")).unwrap();
    assert_eq!(broken.total_ns(), 16_600);
    assert!(has(&broken, "units_fixed") && has(&broken, "truncated_names"));
    // Fractions of a µs: the units mean what they say.
    let right = read_text(&format!("{head}k,2,7.6,9.0,0.0166\n")).unwrap();
    assert_eq!(right.total_ns(), 16_600);
    assert!(!has(&right, "units_fixed"));
}

#[test]
fn compare_sheets_are_named() {
    let error =
        read_text("Kernel name,Kernel duration (µs)_sum__a_diff,h100::Kernel duration (µs)_sum\nk,1,2\n").unwrap_err();
    assert!(matches!(error, ReadError::NoInventory { dialect: Dialect::Comparison, .. }), "{error}");
}

const BREAKDOWN: &str = "layer_group,layer_count,module/tag,kernel,stream_id,time_us_per_layer,percent_of_current_layer,percent_of_decode_step\n";

#[test]
fn atom_breakdowns_fill_forward_and_multiply() {
    let text = BREAKDOWN.to_owned()
        + "layers 0-2,3,model.layers.*.attn,k1,1,10.000,50.000%,20.000%\n,,,k2,\"1,3\",5.000,25.000%,1%\n,,model.layers.*.mlp,k1,1,5.000,25.000%,1%\n\
           ,,__layer_total__,LAYER TOTAL,,20.000,100.000%,60%\nlayer 3,1,model.layers.*.attn,k1,1,7.500,100.000%,10%\n\
           ,,__layer_total__,LAYER TOTAL,,9.000,100.000%,10%\nunmatched: 1 kernels (should be ignored),,<unmatched>,x,,,,\n";
    let inventory = read_text(&text).unwrap();
    // 3 × (10 + 5 + 5) + 7.5
    assert_eq!(inventory.total_ns(), 67_500);
    let positions: Vec<(&str, &str, u64)> =
        inventory.rows.iter().map(|row| (row.position.as_deref().unwrap(), row.kernel.as_str(), row.calls)).collect();
    assert!(positions.contains(&("layers 0-2/model.layers.*.attn", "k2", 3)), "{positions:?}");
    assert!(positions.contains(&("layers 0-2/model.layers.*.mlp", "k1", 3)), "{positions:?}");
    assert!(positions.contains(&("layer 3/model.layers.*.attn", "k1", 1)), "{positions:?}");
    assert!(inventory.rows.iter().all(|row| row.phase == Phase::Decode));
    assert!(finding(&inventory, "totals_disagree").contains("layer 3"));
    assert!(finding(&inventory, "unmatched_kernels").contains("some.csv:8"));
}

#[test]
fn atom_layers_keep_positions_and_both_percent_forms() {
    for percent in ["", "%"] {
        let text = format!(
            "pos,short_name,kernel,avg_us,std_us,min_us,max_us,pct,count\n0,PA,pa_bf16,15.0,0,0,0,75.0{percent},10\n\
             1,MoE,kernel_moe_gemm,3.0,0,0,0,15.0{percent},10\n2,MoE,kernel_moe_gemm,2.0,0,0,0,10.0{percent},10\n"
        );
        let folder = folder(&[("conc32_layer.csv", &text)]);
        let inventory = read(&[folder.path().join("conc32_layer.csv")], &ReadOptions::default()).unwrap();
        assert_eq!((inventory.rows.len(), inventory.total_ns()), (3, 200_000));
        assert_eq!(inventory.source.hints["batch"], "32");
        assert!(!has(&inventory, "totals_disagree"));
    }
    let cut = "pos,short_name,kernel,avg_us,std_us,min_us,max_us,pct,count\n0,PA,pa_bf16,15.0,0,0,0,50.0,10\n";
    assert!(has(&read_text(cut).unwrap(), "totals_disagree"));
}

#[test]
fn older_atom_tables() {
    let inventory =
        read_text("cpu_module,gpu_kernel,duration_us,pct%\nattn,k1,1.5,30\n,k2,2.5,50\nmlp,k1,1.0,20\nTOTAL,,5.0,\n")
            .unwrap();
    assert_eq!((inventory.rows.len(), inventory.total_ns()), (3, 5_000));
    let inventory =
        read_text("gpu_kernel,calls,total_duration_us,avg_duration_us\nk1,4,8.0,2.0\nTOTAL,4,8.0,\n").unwrap();
    assert_eq!((row(&inventory, "k1").calls, inventory.total_ns()), (4, 8_000));
}

#[test]
fn kernel_summary_drops_nothing_but_zeros() {
    // A GPU-only trace has no parent operators.
    let text = "Parent op category,Kernel name,Kernel duration (µs)_sum,Kernel duration (µs)_count\nruntime,\"f<1, 2>(int)\",844.938,20\nruntime,z,0.0,1\n";
    let inventory = read_text(text).unwrap();
    assert_eq!((row(&inventory, "f<1, 2>(int)").calls, inventory.total_ns()), (20, 844_938));
    assert!(has(&inventory, "zero_durations") && !has(&inventory, "unlinked_kernels"));
}

#[test]
fn inventories_of_several_files_add_up() {
    let folder = folder(&[
        ("a.csv", "family,shape,calls,total_ns\ngemm,m=1 n=2 k=3,4,100\n"),
        ("b.csv", "family,shape,calls,total_ns\nrmsnorm,rows=1 hidden=8,1,300\n"),
    ]);
    let inventory = read(&[folder.path().join("a.csv"), folder.path().join("b.csv")], &ReadOptions::default()).unwrap();
    assert_eq!((inventory.rows.len(), inventory.total_ns()), (2, 400));
    assert_eq!(inventory.rows[0].family, Family::Rmsnorm);
    assert_eq!(inventory.rows[1].shapes[0].shape, ShapeMap::new().with("m", 1).with("n", 2).with("k", 3));
    assert_eq!(inventory.source.paths.len(), 2);
}
