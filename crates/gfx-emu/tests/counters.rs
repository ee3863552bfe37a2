//! Counters and bounds of small compiled kernels, against counts from their disassembly by LLVM and against hand counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// Its functions are for every test file, each of which is a crate of its own.
mod support;

use kbench_gfx_emu::bound::{CacheState, Resource, bound};
use kbench_gfx_emu::counters::{Counters, FidelityReport, Kind, Mix, by_line};
use kbench_gfx_emu::isa::Arch;
use kbench_gfx_emu::launch::Outcome;
use kbench_gfx_emu::model::Model;
use std::collections::HashMap;
use std::process::Command;
use support::{Args, Device, clang, compile, compile_with};

const BOTH: [(Arch, &str); 2] = [(Arch::Gfx942, "mi300x"), (Arch::Gfx90a, "mi210")];

/// The disassembly of kernel `k`: address, source line when it was asked for, and mnemonic without encoding suffix.
fn disassembly(code: &[u8], lines: bool) -> Option<Vec<(u64, u32, String)>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.co");
    std::fs::write(&path, code).unwrap();
    let mut command = Command::new("llvm-objdump-19");
    command.args(["-d", "--disassemble-symbols=k"]);
    if lines {
        command.arg("-l");
    }
    let Ok(output) = command.arg(&path).output() else {
        assert!(std::env::var_os("CI").is_none(), "llvm-objdump-19 is missing");
        println!("skipped: no llvm-objdump-19");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let (mut line, mut found) = (0, Vec::new());
    for row in text.lines() {
        if let Some(place) = row.strip_prefix("; ") {
            if let Some(number) = place.rsplit(':').next().and_then(|number| number.parse().ok()) {
                line = number;
            }
        } else if let Some((left, right)) = row.split_once("// ") {
            let address = u64::from_str_radix(right.split(':').next().unwrap().trim(), 16).unwrap();
            let mnemonic = left.split_whitespace().next().unwrap();
            let short = ["_e32", "_e64", "_dpp", "_sdwa"].iter().fold(mnemonic, |name, end| name.trim_end_matches(end));
            found.push((address, line, short.to_owned()));
        }
    }
    Some(found)
}

/// Runs `k` of a device model over `grid` workgroups.
fn run(name: &str, code: &[u8], grid: u32, block: u32, args: impl FnOnce(&mut Device) -> Vec<u8>) -> Outcome {
    let model = Model::named(name).unwrap();
    let mut device = Device::new(model.arch(), code);
    device.options = model.launch_options();
    device.options.threads = 2;
    let args = args(&mut device);
    device.run("k", grid, block, args).unwrap()
}

#[track_caller]
fn check(counters: &Counters, wanted: &[(&str, u64)]) {
    for (name, value) in wanted {
        let counter = counters.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(counter.value, *value as f64, "{name}");
    }
}

/// Every wave of a kernel without branches executes each instruction once, so LLVM's disassembly counts for us.
#[test]
fn instruction_counters_equal_the_disassembly() {
    let source = r#"
    typedef float f4 __attribute__((ext_vector_type(4)));
    typedef _Float16 h4 __attribute__((ext_vector_type(4)));
    KERNEL void k(const float *x, float *y, const double *d, u32 *c) {
        SHARED float s[256];
        u32 t = tid(), i = wg() * 256 + t;
        float a = x[i];
        s[t ^ 1] = a;
        barrier();
        float b = __builtin_amdgcn_exp2f(s[t]) + a * 3.0f;
        double e = d[i] * d[i] + 1.0;
        h4 h = {(_Float16)a, (_Float16)b, (_Float16)1, (_Float16)2};
        f4 m = {0, 0, 0, 0};
        m = __builtin_amdgcn_mfma_f32_16x16x16f16(h, h, m, 0, 0, 0);
        y[i] = b + (float)e + m[0] + m[1] + __builtin_amdgcn_rcpf(a);
        __atomic_fetch_add(c + (t & 3), 1, __ATOMIC_RELAXED);
    }"#;
    for (arch, name) in BOTH {
        let Some(code) = compile_with(arch, source, &["-O3", "-munsafe-fp-atomics"]) else { return };
        let Some(listing) = disassembly(&code, false) else { return };
        let end = listing.iter().position(|(.., name)| name == "s_endpgm").unwrap();
        let body = &listing[..=end];
        assert!(!body.iter().any(|(.., name)| name.starts_with("s_cbranch")), "the kernel must not branch");
        let outcome = run(name, &code, 10, 256, |device| {
            let x: Vec<f32> = (0..2560).map(|i| i as f32 / 512.0 + 0.5).collect();
            let d: Vec<f64> = (0..2560).map(f64::from).collect();
            let (x, y) = (device.buffer("x", &x), device.buffer("y", &[0_f32; 2560]));
            let (d, c) = (device.buffer("d", &d), device.buffer("c", &[0_u32; 4]));
            Args::default().u64(x).u64(y).u64(d).u64(c).done()
        });
        let waves = 40;
        let counters = Counters::of(&outcome, Model::named(name).unwrap());
        let count = |is: &dyn Fn(&str) -> bool| body.iter().filter(|(.., name)| is(name)).count() as u64 * waves;
        let starts = |prefixes: &[&str]| count(&|name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        let not_salu = ["s_load", "s_waitcnt", "s_nop", "s_barrier", "s_endpgm", "s_branch", "s_cbranch", "s_setprio"];
        let memory = |name: &str| name.starts_with("global_") || name.starts_with("flat_");
        let is_vmem = |name: &str| memory(name) && !name.contains("_inv") && !name.contains("wb");
        check(
            &counters,
            &[
                ("SQ_WAVES", waves),
                ("SQ_INSTS_VALU", starts(&["v_"])),
                ("SQ_INSTS_MFMA", starts(&["v_mfma"])),
                (
                    "SQ_INSTS_SALU",
                    count(&|name| name.starts_with("s_") && !not_salu.iter().any(|no| name.starts_with(no))),
                ),
                ("SQ_INSTS_SMEM", starts(&["s_load"])),
                ("SQ_INSTS_LDS", starts(&["ds_"])),
                ("SQ_INSTS_VMEM", count(&is_vmem)),
                ("SQ_INSTS_VMEM_RD", count(&|name| is_vmem(name) && name.contains("_load"))),
                ("SQ_INSTS_FLAT", starts(&["flat_"])),
                ("SQ_INSTS_BRANCH", 0),
                ("SQ_INSTS_SENDMSG", waves),
                ("SQ_INSTS_VALU_TRANS_F32", starts(&["v_exp_f32", "v_rcp_f32"])),
                (
                    "SQ_INSTS_VALU_FMA_F32",
                    starts(&["v_fma_f32", "v_fmac_f32", "v_fmamk", "v_fmaak", "v_pk_fma_f32", "v_fma_mix"]),
                ),
                ("SQ_INSTS_VALU_ADD_F32", starts(&["v_add_f32", "v_sub_f32", "v_pk_add_f32"])),
                ("SQ_INSTS_VALU_FMA_F64", starts(&["v_fma_f64", "v_fmac_f64"])),
                ("SQ_INSTS_VALU_CVT", starts(&["v_cvt_"])),
                ("SQ_INSTS_VALU_MFMA_F16", waves),
                ("SQ_INSTS_VALU_MFMA_MOPS_F16", 16 * waves),
                ("SQ_INSTS_VALU_MFMA_MOPS_BF16", 0),
                ("TA_FLAT_ATOMIC_WAVEFRONTS_sum", starts(&["global_atomic"])),
            ],
        );
        assert!(counters.value("SQ_INSTS_MFMA").unwrap() > 0.0 && counters.value("SQ_INSTS_LDS").unwrap() > 0.0);
        // 64-clock f16 instructions on MI200's 16x16x16 are 32 clocks, on MI300 16.
        let cycles = if arch == Arch::Gfx90a { 32 } else { 16 };
        check(&counters, &[("SQ_VALU_MFMA_BUSY_CYCLES", cycles * waves)]);
        assert_eq!(counters.get("SQ_WAVES").unwrap().kind, Kind::Exact);
        assert_eq!(counters.get("SQ_INSTS_VALU_INT32").unwrap().kind, Kind::Model);
        let mix = Mix::of(&outcome);
        let mut wanted: HashMap<String, u64> = HashMap::new();
        for (.., name) in body {
            *wanted.entry(name.clone()).or_default() += waves;
        }
        let histogram: HashMap<String, u64> = mix.histogram(arch).into_iter().collect();
        assert_eq!(histogram, wanted);
        let report = FidelityReport::of(&mix, arch);
        assert_eq!(report.exact + report.others.iter().map(|row| row.executions).sum::<u64>(), outcome.instructions());
        assert!(report.others.iter().any(|row| row.mnemonic == "v_exp_f32"));
    }
}

const SCALE: &str = "KERNEL void k(const float *x, float *y) { u32 i = wg() * 256 + tid(); y[i] = x[i] * 2.0f; }";

/// Requests by hand: a wave loads and stores 256 bytes, in lines of 64 bytes (MI210) or 128 (MI300X).
#[test]
fn memory_counters_of_a_stream() {
    for (arch, name) in BOTH {
        let Some(code) = compile(arch, SCALE) else { return };
        let (groups, n) = (512_u32, 512 * 256_usize);
        let outcome = run(name, &code, groups, 256, |device| {
            let (x, y) = (device.buffer("x", &vec![1_f32; n]), device.buffer("y", &vec![0_f32; n]));
            Args::default().u64(x).u64(y).done()
        });
        let model = Model::named(name).unwrap();
        let counters = Counters::of(&outcome, model);
        let (waves, bytes) = (u64::from(groups) * 4, n as u64 * 4);
        let lines = if arch == Arch::Gfx90a { 4 } else { 2 };
        check(
            &counters,
            &[
                ("SQ_INSTS_VMEM_RD", waves),
                ("SQ_INSTS_VMEM_WR", waves),
                ("TCP_TOTAL_ACCESSES", waves * 32),
                ("TCP_TOTAL_CACHE_ACCESSES", waves * lines * 2),
                ("TCP_TCC_READ_REQ", waves * lines),
                ("TCP_TCC_WRITE_REQ", waves * 4),
                ("WRITE_SIZE", bytes / 1024),
            ],
        );
        // Reads are the stream and, on each XCD, the kernel arguments, in lines of 128 bytes.
        let fetched = counters.value("FETCH_SIZE").unwrap() * 1024.0 - bytes as f64;
        let most = 128.0 * 3.0 * f64::from(model.xcds.value);
        assert!((128.0..=most).contains(&fetched), "{name}: {fetched} B beside the stream");
        let prefix = if arch == Arch::Gfx90a { "TCC_EA_" } else { "TCC_EA0_" };
        check(&counters, &[(&format!("{prefix}WRREQ"), bytes / 64), (&format!("{prefix}WRREQ_64B_sum"), bytes / 64)]);
        assert_eq!(counters.get("TCC_EA_RDREQ").is_some(), arch == Arch::Gfx90a);
        let (hit, miss) = (counters.value("TCC_HIT").unwrap(), counters.value("TCC_MISS").unwrap());
        assert_eq!(hit + miss, counters.value("TCC_REQ").unwrap());

        let distinct = outcome.traffic.distinct_bytes();
        assert_eq!(distinct.written, bytes);
        assert!((bytes + 64..=bytes + 384).contains(&distinct.read), "{}", distinct.read);
        let bound = bound(&outcome, model, CacheState::Cold).unwrap();
        let rate = model.hbm_bytes_per_second.as_ref().unwrap().value;
        let wanted = (distinct.read + distinct.written) as f64 / rate * 1e9;
        assert!((bound.of(Resource::Hbm).unwrap() - wanted).abs() < 1e-6);
        assert!(bound.uniform && !bound.sampled);
        assert_eq!(counters.value("GRBM_GUI_ACTIVE").unwrap(), bound.clocks());
        // rocprofiler-compute: a wave issues, waits for its turn, or waits for something else. Here memory is what it waits for.
        let of = |name: &str| counters.value(name).unwrap();
        let parts = of("SQ_ACTIVE_INST_ANY") + of("SQ_WAIT_INST_ANY") + of("SQ_WAIT_ANY");
        assert!((parts - of("SQ_WAVE_CYCLES")).abs() < parts * 1e-12);
        assert_eq!(bound.limiter, Resource::Hbm);
        assert!(of("SQ_WAIT_ANY") > of("SQ_WAIT_INST_ANY"));
    }
}

/// A sample of a uniform grid gives the counts of the whole, marked as scaled, and the same bound but for what lies behind the L1.
#[test]
fn a_sampled_launch_is_scaled_and_marked() {
    let Some(code) = compile(Arch::Gfx942, SCALE) else { return };
    let model = Model::named("mi300x").unwrap();
    let launch = |sample: Option<u64>| {
        let mut device = Device::new(Arch::Gfx942, &code);
        device.options = model.launch_options();
        device.options.sample = sample;
        let n = 1024 * 256;
        let (x, y) = (device.buffer("x", &vec![1_f32; n]), device.buffer("y", &vec![0_f32; n]));
        device.run("k", 1024, 256, Args::default().u64(x).u64(y).done()).unwrap()
    };
    let (all, some) = (launch(None), launch(Some(64)));
    let (full, scaled) = (Counters::of(&all, model), Counters::of(&some, model));
    assert!(full.sample.is_none());
    assert_eq!(scaled.sample.map(|sample| (sample.ran, sample.workgroups)), Some((64, 1024)));
    assert!(scaled.list.iter().all(|counter| counter.kind != Kind::Exact));
    for name in ["SQ_WAVES", "SQ_INSTS_VALU", "SQ_INSTS_VMEM_RD", "TCP_TOTAL_CACHE_ACCESSES", "WRITE_SIZE"] {
        assert_eq!(scaled.value(name), full.value(name), "{name}");
    }
    let bound_of = |outcome: &Outcome| bound(outcome, model, CacheState::Cold).unwrap();
    let (whole, part) = (bound_of(&all), bound_of(&some));
    assert!(part.sampled && part.ns <= whole.ns);
    for resource in [Resource::VectorAlu, Resource::VectorL1, Resource::WaveIssue, Resource::WaveLaunch] {
        let (whole, part) = (whole.of(resource).unwrap(), part.of(resource).unwrap());
        assert!((whole - part).abs() <= whole * 1e-12, "{resource:?}");
    }
}

/// A compiled loop of matrix instructions on every CU: the bound is that of the published peak, and one workgroup more is a round
/// more.
#[test]
fn a_matrix_loop_is_bound_by_the_peak() {
    let source = r#"
    typedef float f4 __attribute__((ext_vector_type(4)));
    typedef _Float16 h4 __attribute__((ext_vector_type(4)));
    KERNEL void k(float *y, u32 n) {
        h4 a = {(_Float16)tid(), 1, 2, 3};
        f4 m[4] = {};
        for (u32 j = 0; j < n; j++)
            for (u32 i = 0; i < 4; i++) m[i] = __builtin_amdgcn_mfma_f32_16x16x16f16(a, a, m[i], 0, 0, 0);
        y[wg() * 256 + tid()] = m[0][0] + m[1][1] + m[2][2] + m[3][3];
    }"#;
    for (arch, name, tflops) in [(Arch::Gfx942, "mi300x", 1307.4), (Arch::Gfx90a, "mi210", 181.0)] {
        let Some(code) = compile(arch, source) else { return };
        let model = Model::named(name).unwrap();
        let time = |workgroups: u32| {
            let outcome = run(name, &code, workgroups, 256, |device| {
                let y = device.buffer("y", &vec![0_f32; workgroups as usize * 256]);
                Args::default().u64(y).u32(8).done()
            });
            let bound = bound(&outcome, model, CacheState::Cold).unwrap();
            let flops = Counters::of(&outcome, model).value("MfmaFlops").unwrap();
            (bound.limiter, bound.ns, flops)
        };
        let (limiter, full, flops) = time(model.cus());
        assert_eq!(limiter, Resource::MatrixCores);
        assert_eq!(flops, f64::from(model.cus()) * 4.0 * 32.0 * 8192.0);
        assert!((flops / full / 1e3 - tflops).abs() < 0.1, "{name}: {} TFLOP/s", flops / full / 1e3);
        let (_, two_rounds, _) = time(model.cus() + 1);
        assert!((two_rounds / full - 2.0).abs() < 1e-9, "{name}");
    }
}

/// Scratch is traffic of the caches, but no byte of it has to come from memory.
#[test]
fn scratch_is_no_compulsory_traffic() {
    let source = r#"KERNEL void k(const u32 *x, u32 *y) {
        u32 v[32], i = wg() * 64 + tid();
        for (u32 j = 0; j < 32; j++) v[(j * 7 + x[i]) % 32] = x[i] + j;
        y[i] = v[x[i] % 32];
    }"#;
    let Some(code) = compile(Arch::Gfx942, source) else { return };
    let outcome = run("mi300x", &code, 16, 64, |device| {
        let (x, y) = (device.buffer("x", &[3_u32; 1024]), device.buffer("y", &[0_u32; 1024]));
        Args::default().u64(x).u64(y).done()
    });
    let counts = outcome.traffic.counts;
    assert!(counts.vector_bytes_written >= 1024 * 4 * 33, "the array must be in scratch");
    let distinct = outcome.traffic.distinct_bytes();
    assert_eq!(distinct.written, 4096);
    assert!((4096..=4096 + 384).contains(&distinct.read), "{}", distinct.read);
}

/// LDS by hand: 64 lanes in one bank are 64 clocks instead of 2.
#[test]
fn bank_conflicts() {
    let source = r#"KERNEL void k(float *y, u32 stride) {
        SHARED float s[2048];
        for (u32 i = tid(); i < 2048; i += 64) s[i] = i;
        barrier();
        y[tid()] = s[tid() * stride % 2048];
    }"#;
    let Some(code) = compile(Arch::Gfx942, source) else { return };
    let model = Model::named("mi300x").unwrap();
    let conflicts = |stride: u32| {
        let outcome = run("mi300x", &code, 1, 64, |device| {
            let y = device.buffer("y", &[0_f32; 64]);
            Args::default().u64(y).u32(stride).done()
        });
        let counters = Counters::of(&outcome, model);
        (counters.value("SQ_LDS_BANK_CONFLICT").unwrap(), counters.value("SQ_LDS_IDX_ACTIVE").unwrap())
    };
    let (none, active) = conflicts(1);
    assert_eq!(none, 0.0);
    assert_eq!(conflicts(32), (62.0, active + 62.0));
    assert_eq!(conflicts(2), (2.0, active + 2.0));
}

/// Executions by source line, against the lines that LLVM's disassembler prints beside the instructions.
#[test]
fn source_lines_equal_llvms() {
    let source = r#"
    KERNEL void k(const float *x, float *y, u32 n) {
        u32 i = wg() * 64 + tid();
        float sum = 0;
        for (u32 j = 0; j < n; j++)
            sum += x[i * n + j] * 0.5f;
        y[i] = sum;
    }"#;
    let Some(code) = compile_with(Arch::Gfx942, source, &["-O1", "-g"]) else { return };
    let Some(listing) = disassembly(&code, true) else { return };
    let model = Model::named("mi300x").unwrap();
    let mut device = Device::new(Arch::Gfx942, &code);
    device.options = model.launch_options();
    let (x, y) = (device.buffer("x", &[1_f32; 2 * 64 * 20]), device.buffer("y", &[0_f32; 128]));
    let outcome = device.run("k", 2, 64, Args::default().u64(x).u64(y).u32(20).done()).unwrap();
    let lines = by_line(device.module.object(), &outcome).unwrap().unwrap();
    assert_eq!(lines.iter().map(|line| line.executions).sum::<u64>(), outcome.instructions());
    let object = device.module.object();
    let start =
        object.segments().iter().filter(|segment| segment.executable).map(|segment| segment.address).min().unwrap();
    let mut wanted: HashMap<u32, u64> = HashMap::new();
    for (address, line, _) in &listing {
        *wanted.entry(*line).or_default() += outcome.counts[(address - start) as usize / 4];
    }
    wanted.retain(|_, count| *count != 0);
    let mut found: HashMap<u32, u64> = HashMap::new();
    for line in lines.iter().filter(|line| line.file.ends_with("k.hip")) {
        *found.entry(line.line).or_default() += line.executions;
    }
    assert!(found.len() > 3, "{found:?}");
    assert_eq!(found, wanted);
    let Some(plain) = compile(Arch::Gfx942, source) else { return };
    let device = Device::new(Arch::Gfx942, &plain);
    assert!(by_line(device.module.object(), &outcome).unwrap().is_none());
    assert!(clang().is_some());
}

/// Damaged debug information is refused or read as something else, never a panic.
#[test]
fn damaged_line_tables_do_no_harm() {
    let Some(code) = compile_with(Arch::Gfx942, SCALE, &["-O1", "-g"]) else { return };
    let outcome = run("mi300x", &code, 2, 256, |device| {
        let (x, y) = (device.buffer("x", &[1_f32; 512]), device.buffer("y", &[0_f32; 512]));
        Args::default().u64(x).u64(y).done()
    });
    let object = kbench_code_object::CodeObject::parse(&code).unwrap();
    let sections = object.sections().iter().filter(|section| section.name.starts_with(".debug"));
    let places: Vec<usize> = sections
        .flat_map(|section| {
            let bytes = object.section_bytes(section);
            let start = bytes.as_ptr() as usize - object.bytes().as_ptr() as usize;
            start..start + bytes.len()
        })
        .collect();
    assert!(places.len() > 100);
    let (mut state, mut readable) = (0x2545_f491_4f6c_dd1d_u64, 0);
    for _ in 0..2000 {
        let mut damaged = code.clone();
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            damaged[places[(state >> 33) as usize % places.len()]] = (state >> 20) as u8;
        }
        if let Ok(object) = kbench_code_object::CodeObject::parse(&damaged) {
            readable += u32::from(by_line(&object, &outcome).is_ok());
        }
    }
    assert!(readable > 0);
}
