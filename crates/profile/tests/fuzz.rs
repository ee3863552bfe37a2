//! Mutated files of every dialect through the front door: no panic, no hang, and whatever is read adds up.

#![allow(clippy::unwrap_used, clippy::panic)]

use kbench_profile::{Provenance, ReadOptions, read};
use std::path::Path;

/// One small file of each dialect, in the columns of the tools that write them.
const SEEDS: &[&str] = &[
    "# kbench.inventory/1 {\"source\":{\"paths\":[],\"dialect\":\"x\"},\"health\":[]}\nrow,family,dtype,shape,calls,total_ns,assumed,kernel,location\n\
     1,gemm,\"bf16,b=fp8\",\"m=16,n=[1*3,2],k=word\",48,100,\"[\"\"a\"\"]\",\"k<1, 2>\",f.csv:3\n1,gemm,,,2,7,,\"k<1, 2>\",\n",
    "name,op category,Input Dims,Input type,Input Strides,Concrete Inputs,operation_count,Kernel Time (µs)_sum,kernel_details_summary,perf_params\n\
     aten::mm,GEMM,\"((8, 4), (4, 2))\",\"('c10::BFloat16', 'c10::BFloat16')\",\"((4, 1), (1, 4))\",\"('', '')\",48,5308.2,\
     \"[{'name': 'Cijk', 'count': 48, 'total_duration_us': np.float64(5308.2)}]\",\"{'M': 8, 'N': 2, 'K': 4, 'B': 1}\"\n",
    "name,Input Dims,Input type,operation_count,Kernel Time (µs)_sum,kernel_details_summary,perf_params\n\
     aten::_scaled_dot_product_flash_attention,\"((2, 4, 9, 8), (2, 2, 9, 8), (2, 2, 9, 8))\",\"('c10::Half', 'c10::Half', 'c10::Half')\",1,5.5,\
     \"[{'name': 'attn_fwd', 'count': 1, 'total_duration_us': 4.5}, {'name': 'Memset (Device)', 'count': 1, 'total_duration_us': 1.0}]\",\n\
     vllm::unified_attention_with_output,\"((4, 8, 8), (4, 2, 8), (4, 2, 8), (4, 8, 8))\",\"('float', 'float', 'float', 'float')\",2,3.0,\
     \"[{'name': 'kernel_unified_attention_2d', 'count': 2, 'total_duration_us': 3.0}]\",\"{'c_sq': 0, 'c_sk': 0, 'g_sq': 4, 'g_sk': 99, 'g_sqsq': 4, 'g_sqsk': 99}\"\n\
     pseudo_op::moe_triton_unfused_up,\"((4, 8), (4, 4), (), ())\",\"('c10::BFloat16', 'c10::BFloat16', '', '')\",1,3.0,\
     \"[{'name': '_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu', 'count': 1, 'total_duration_us': 3.0}]\",\
     \"{'num_tokens': 4, 'hidden_dim': 8, 'inter_dim': 8, 'num_experts': 4, 'topk': 2, 'gated': True, 'input_dtype': 'c10::BFloat16', 'weight_dtype': 'FP4'}\"\n",
    "name,Input Dims,operation_count,total_direct_kernel_time_sum,kernel_details_summary\nhipGraphLaunch,,1,9.5,\
     \"[{'name': 'a', 'count': 1, 'total_duration_us': 4.5}, {'name': \"\"b('c')\"\", 'count': 2, 'mean_duration_us': 2.5}]\"\n",
    "name,param: M,param: dtype_A_B,Input Dims_first,kernel_details__summarize_kernel_stats,Kernel Time (µs)_sum,name_count\n\
     aten::silu,8,\"('c10::BFloat16', None)\",\"[[16, 4], []]\",\"[{'name': 'k', 'count': 2, 'total_duration_us': 3.0}]\",3.0,2\n",
    "Parent op category,Parent cpu_op,Kernel name,Kernel duration (µs)_sum,Kernel duration (µs)_count\nGEMM,aten::mm,Cijk,5308.273,48\n,,\"void f<1, 2>()\",1.5,3\n",
    "name,Count,Mean Kernel Time (µs),Min Kernel Time (µs),Max Kernel Time (µs),Total Kernel Time (ms),Category\nk,270,100.5,7600,16836430,27018.547,COMM\n",
    "name,Kernel duration (µs),stream,dispatch_id,grid_x\nk,16836,3,1,256\nk,12.5,3,2,256\n",
    "layer_group,layer_count,module/tag,kernel,stream_id,time_us_per_layer,percent_of_current_layer,percent_of_decode_step\n\
     layers 0-46,43,m.op0,\"k<1, 2>\",1,17.585,8.4%,6.9%\n,,m.op1,z,\"1,3\",4.4,2.1%,1.7%\n,,__layer_total__,LAYER TOTAL,,21.985,100.000%,82%\n\
     unmatched: 2 kernels (should be ignored),,<unmatched>,x,,,,\n",
    "pos,short_name,kernel,avg_us,std_us,min_us,max_us,pct,count\n0,PA,pa_bf16,14.6,0.8,10.9,18.2,3.5%,2501\n1,GEMM,Cijk,9.1,0.1,9.0,9.2,96.5,2501\n",
    "cpu_module,gpu_kernel,duration_us,pct%\nlayer,k,5.5,10.0\n,z,3.25,4\nTOTAL,,8.75,\n",
    "gpu_kernel,calls,total_duration_us,avg_duration_us,pct%\nk,4,22.5,5.6,100\nTOTAL,4,22.5,,\n",
    "\"Kind\",\"Agent_Id\",\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\",\"Grid_Size_X\"\n\
     \"KERNEL_DISPATCH\",\"Agent 4\",\"void f<{l(\"a,b\")#1}>(operator\"\"_x)\",1550151853029637,1550151853042437,1024\n\
     \"KERNEL_DISPATCH\",4,\"g\",5,5,1\n\"KERNEL_DISPATCH\",4,\"g\",9,5,1\n",
    "\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\"\n\"void f(int, int)\",12,6096409,508034.083333\n\"hipMalloc\",1,5,5\n",
    "type,time ms,percent\ncomputation_time,5.3,89.3\n",
];

const BYTES: &[u8] = b"\",\n\r()[]{}'#:.;-+e%=*0189naN\xc2\xb5\xff\0 ";

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

fn mutate(seed: &str, other: &str, random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.as_bytes().to_vec();
    for _ in 0..=random.below(5) {
        let at = random.below(bytes.len());
        match random.below(7) {
            0 if at < bytes.len() => bytes[at] = BYTES[random.below(BYTES.len())],
            1 => bytes.insert(at, BYTES[random.below(BYTES.len())]),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            // A piece of the file, or of another dialect, again somewhere else.
            4 | 5 => {
                let from = if random.below(2) == 0 { bytes.clone() } else { other.as_bytes().to_vec() };
                let start = random.below(from.len());
                let end = start + random.below(from.len() - start);
                bytes.splice(at..at, from[start..end].iter().copied());
            }
            _ => {
                let digit = bytes.iter().skip(at).position(u8::is_ascii_digit).map(|offset| at + offset);
                let huge = [&b"99999999999999999999"[..], b"1e308", b"-1", b"0", b"18446744073709551615", b"nan"];
                if let Some(digit) = digit {
                    bytes.splice(digit..=digit, huge[random.below(huge.len())].iter().copied());
                }
            }
        }
    }
    bytes
}

/// Reads the file; what comes out must be consistent.
fn check(path: &Path) -> bool {
    match read(&[path], &ReadOptions::default()) {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
        Ok(inventory) => {
            assert!(!inventory.rows.is_empty());
            for row in &inventory.rows {
                let (calls, ns) = row.shaped();
                assert!(calls <= row.calls && ns <= row.total_ns, "{row:?}");
                assert!(row.share.is_finite() && (0.0..=1.0).contains(&row.share), "{row:?}");
                assert_eq!(row.shapes.is_empty(), row.provenance == Provenance::None && row.shapes.is_empty());
            }
            let coverage = inventory.coverage();
            let parts: f64 = coverage.by_provenance.values().sum();
            assert!(inventory.total_ns() == 0 || (parts - 1.0).abs() < 1e-6, "{coverage:?}");
            true
        }
    }
}

fn run(count: u64) {
    // In memory where Linux offers it: a disk takes milliseconds for each file.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = folder.path().join("conc16_kernel_trace.csv");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut accepted = 0;
    for round in 0..count {
        let seed = SEEDS[round as usize % SEEDS.len()];
        let bytes = mutate(seed, SEEDS[random.below(SEEDS.len())], &mut random);
        std::fs::write(&path, bytes).unwrap();
        accepted += u64::from(check(&path));
    }
    assert!(accepted > count / 20 && accepted < count, "{accepted} of {count} accepted");
}

/// The seeds themselves are read: the mutations start from what works.
#[test]
fn seeds_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seed.csv");
    for seed in &SEEDS[..SEEDS.len() - 1] {
        std::fs::write(&path, seed).unwrap();
        assert!(check(&path), "{seed}\n{:?}", read(&[&path], &ReadOptions::default()));
    }
}

#[test]
fn mutated_files_do_not_panic() {
    run(10_000);
}

#[test]
#[ignore = "a million mutated files take minutes"]
fn a_million_mutated_files_do_not_panic() {
    run(1_000_000);
}
