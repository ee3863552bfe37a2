//! Documents to store.
#![allow(dead_code)] // each test file uses some of it

use kbench_store::{RunName, Selector};
use rand_pcg::{
    Pcg64Mcg,
    rand_core::{Rng, SeedableRng},
};
use serde_json::{Value, json};

pub(crate) fn name(text: &str) -> RunName {
    text.parse().unwrap()
}

pub(crate) fn which(text: &str) -> Selector {
    text.parse().unwrap()
}

/// A run with `cases` measured cases of 100 samples, one emulated and one skipped case.
pub(crate) fn document(seed: u64, cases: usize) -> Value {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut uniform = || (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let mut list: Vec<Value> = (0..cases)
        .map(|i| {
            // Half of the cases with whole nanoseconds, half with fractions.
            let samples: Vec<f64> = (0..100)
                .map(|_| {
                    let ns = 10_000.0 * (1.0 + i as f64) * (1.0 + 0.01 * uniform());
                    if i % 2 == 0 { ns.round() } else { ns }
                })
                .collect();
            json!({
                "id": format!("gemm bf16 m={i} n=2048 k=4096"), "family": "gemm", "kernel": "Cijk_Ailk",
                "shape": {"m": i, "n": 2048, "k": 4096}, "dtypes": {"a": "bf16"}, "status": "ok",
                "weight": {"calls": 48, "total_ns": 480_000, "share": 0.1, "phase": "decode", "provenance": "given"},
                "build": {"origin": "file", "file": "gemm.co", "arch": "gfx942", "sha256": format!("{:064x}", i % 2),
                          "resources": {"vgprs": 128, "lds_bytes": 65536}},
                "timing": {"source": "dispatch", "cache": "cold", "samples": samples.len(), "median_ns": samples[50],
                           "ci95_ns": [samples[50] * 0.99, samples[50] * 1.01], "samples_ns": samples,
                           "clocks_mhz": (0..100).map(|k| 2100 - k).collect::<Vec<i64>>()},
            })
        })
        .collect();
    list.push(json!({
        "id": "rmsnorm bf16 rows=16", "family": "rmsnorm", "status": "ok", "weight": {"phase": "decode"},
        "bound": {"ns": 1234.5678901234567, "limiter": "hbm", "by_resource": {"hbm": 1234.5678901234567}},
        "counters": {"SQ_INSTS_VALU": {"value": 18446744073709551615_u64, "unit": "count", "kind": "exact"}},
    }));
    list.push(json!({"id": "moe_gemm", "status": "skipped", "reason": "no shape", "odd/key~": vec![0.1; 40]}));
    json!({
        "schema": "kbench.run/1", "tool": {"version": "0.1.0", "commit": "abc"},
        "device": {"kind": "hip", "name": "AMD Instinct MI300X", "arch": "gfx942"},
        "environment": {"rocm": "7.0"}, "options": {"seed": 1, "precision": 0.005}, "cases": list, "interrupted": false,
    })
}
