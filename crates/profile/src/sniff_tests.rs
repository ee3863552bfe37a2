use super::*;

fn header(line: &str) -> Header {
    Header::of(line.split(',').map(|name| name.trim_matches('"').to_owned()).collect())
}

/// Header lines as the tools write them: shared facts, profile-formats 3.2 to 3.11 and rocprofiler-sdk 4.2; aiter-kernels 5.1, 5.2.
#[test]
fn headers_of_all_dialects_and_versions() {
    for (line, dialect) in [
        ("family,dtype,shape,calls", Dialect::Inventory),
        (
            "name,op category,Input Dims,operation_count,Kernel Time (µs)_sum,kernel_details_summary",
            Dialect::UnifiedPerfSummary,
        ),
        ("operation_count,Kernel Time (µs)_mean,name", Dialect::UnifiedPerfSummary),
        ("name,Input Dims,operation_count,total_direct_kernel_time_sum,kernel_details_summary", Dialect::OpsUniqueArgs),
        (
            "name,param: M,param: N,GFLOPS_first,kernel_details__summarize_kernel_stats,name_count",
            Dialect::CategorySheet,
        ),
        ("name,param: op_shape,Kernel Time (µs)_sum", Dialect::CategorySheet),
        (
            "Parent op category,Kernel name,Kernel stream,Kernel duration (µs)_sum,Kernel duration (µs)_count",
            Dialect::KernelSummary,
        ),
        ("Kernel name,Kernel duration (µs)_sum__mi300_diff,h100::Kernel duration (µs)_sum", Dialect::Comparison),
        (
            "name,Count,Mean Kernel Time (µs),Min Kernel Time (µs),Total Kernel Time (ms),Category",
            Dialect::RocprofKernelSummary,
        ),
        ("name,Kernel duration (µs),stream,dispatch_id,grid_x", Dialect::RocprofKernelDetails),
        ("layer_group,layer_count,module/tag,kernel,stream_id,time_us_per_layer", Dialect::AtomBreakdown),
        ("pos,short_name,kernel,avg_us,std_us,min_us,max_us,pct,count", Dialect::AtomLayer),
        ("cpu_module,gpu_kernel,duration_us,pct%,sum per module", Dialect::AtomModules),
        ("gpu_kernel,calls,total_duration_us,avg_duration_us,pct%", Dialect::AtomKernels),
        (
            "Kind,Agent_Id,Queue_Id,Thread_Id,Dispatch_Id,Kernel_Id,Kernel_Name,Correlation_Id,Start_Timestamp,End_Timestamp",
            Dialect::KernelTrace,
        ),
        ("\"Guid\",\"Kind\",\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\",\"Duration\"", Dialect::KernelTrace),
        ("Index,KernelName,gpu-id,DurationNs", Dialect::KernelTrace),
        ("\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\",\"Percentage\"", Dialect::KernelStats),
        ("Correlation_Id,Dispatch_Id,Agent_Id,Kernel_Name,Counter_Name,Counter_Value", Dialect::CounterCollection),
        ("Pid,Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp", Dialect::CounterCollection),
        ("name,total_direct_kernel_time_sum,total_subtree_kernel_time_sum,Count,Categories", Dialect::OpsSummary),
        ("op category,Count,total_direct_kernel_time_ms,Percentage (%)", Dialect::CategorySummary),
        ("type,time ms,percent", Dialect::GpuTimeline),
        ("Kernel name,Short Kernel duration (µs) sum,Short Kernel count", Dialect::ShortKernels),
        ("bin_start,bin_end,count", Dialect::ShortKernelHistogram),
        ("rank,Process Group Name,Collective name,Group size,dur_sum", Dialect::Collectives),
        (
            "Kind,Direction,Stream_Id,Source_Agent_Id,Destination_Agent_Id,Correlation_Id,Start_Timestamp,End_Timestamp",
            Dialect::MemoryCopyTrace,
        ),
        ("Domain,Function,Process_Id,Thread_Id,Correlation_Id,Start_Timestamp,End_Timestamp", Dialect::ApiTrace),
        ("Node_Id,Logical_Node_Id,Agent_Type,Cpu_Cores_Count", Dialect::AgentInfo),
        ("Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,Kernel_Name,TCC_ATOMIC[0]", Dialect::PmcPerf),
        ("Dispatch_ID,Kernel_Name,GPU_ID", Dialect::PmcDispatchInfo),
        ("workload_name,command,hostname,gpu_arch", Dialect::SysInfo),
    ] {
        assert_eq!(Dialect::of_header(&header(line)), Some(dialect), "{line}");
    }
    for line in ["a,b,c", "name,count", "family,dtype", "kernel"] {
        assert_eq!(Dialect::of_header(&header(line)), None, "{line}");
    }
}

fn sniff_bytes(bytes: &[u8]) -> Result<Dialect, ReadError> {
    let folder = tempfile::tempdir().unwrap();
    // The name lies on purpose: it must not matter.
    let path = folder.path().join("kernel_trace.csv");
    std::fs::write(&path, bytes).unwrap();
    sniff(&path)
}

#[test]
fn other_files_are_named() {
    for (bytes, part) in [
        (&b"\x1f\x8b\x08\0"[..], "gzip"),
        (b"PK\x03\x04", "XLSX"),
        (b"SQLite format 3\0", "SQLite"),
        (b"\x7fELF\x02", "ELF"),
        (b"  {\"spans\": []}", "JSON"),
        (b"\xef\xbb\xbf[1]", "JSON"),
        (b"", "empty"),
        (b"\n \n", "empty"),
        (b"\xff\xfea\0", "UTF-16"),
        (b"ab\0c", "binary"),
        (b"# only a comment\n", "without a header"),
    ] {
        match sniff_bytes(bytes) {
            Err(error @ ReadError::NotCsv { .. }) => assert!(error.to_string().contains(part), "{part}: {error}"),
            other => panic!("{part}: {other:?}"),
        }
    }
}

#[test]
fn unknown_headers_come_with_a_hint() {
    for (bytes, part) in [
        (&b"family;dtype;shape\n"[..], "parted by `;`"),
        (b"family\tdtype\tshape\n", "tabs"),
        (b"family,m,n\n", "both columns"),
        (b"gemm,16,32\n", "header is missing"),
        (b"a,b\n1,2\n", "these columns: a,b"),
    ] {
        let error = sniff_bytes(bytes).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn marks_and_line_ends_do_not_matter() {
    assert_eq!(sniff_bytes(b"\xef\xbb\xbffamily,shape\r\n").unwrap(), Dialect::Inventory);
    assert_eq!(sniff_bytes(b" {\"traceEvents\": []}").unwrap(), Dialect::KinetoTrace);
    assert_eq!(sniff_bytes(b"# kbench.inventory/1\n\nfamily,shape\n").unwrap(), Dialect::Inventory);
}
