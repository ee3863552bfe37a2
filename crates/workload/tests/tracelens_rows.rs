//! Every dense operator of the real TraceLens reports is recovered, and its work is what the report counted.
//!
//! The reports are not part of the project: without them (`$KBENCH_REAL_DATA`, or `shared/data` beside the workspace) the test
//! says that it skips.

#![allow(clippy::unwrap_used)]

use kbench_workload::{ArgDims, CaseOptions, Family, Fp8Flavor, OpArg, OpCall, Value, case, recover};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn real_data() -> Option<PathBuf> {
    let default = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("KBENCH_REAL_DATA").map_or(default, PathBuf::from);
    folder.is_dir().then_some(folder)
}

/// Parses a cell of Python literals: tuples, lists, dicts, strings, numbers, names.
fn python(text: &str) -> Value {
    let mut rest = text.trim();
    if rest.is_empty() { Value::None } else { literal(&mut rest) }
}

fn literal(rest: &mut &str) -> Value {
    *rest = rest.trim_start();
    let first = rest.chars().next().unwrap();
    match first {
        '(' | '[' => {
            let mut items = Vec::new();
            sequence(rest, |rest| items.push(literal(rest)));
            Value::List(items)
        }
        '{' => {
            let mut items = Vec::new();
            sequence(rest, |rest| {
                let key = literal(rest).as_text().unwrap().to_owned();
                *rest = rest.trim_start().strip_prefix(':').unwrap();
                items.push((key, literal(rest)));
            });
            Value::Map(items)
        }
        '\'' | '"' => {
            let (text, after) = rest[1..].split_once(first).unwrap();
            *rest = after;
            Value::Text(text.to_owned())
        }
        _ => {
            let end = rest.find([',', ')', ']', '}']).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            *rest = after;
            let word = word.trim();
            match word {
                "None" => Value::None,
                "True" | "False" => Value::Bool(word == "True"),
                _ => word.parse().map(Value::Int).unwrap_or_else(|_| Value::Text(word.to_owned())),
            }
        }
    }
}

fn sequence(rest: &mut &str, mut item: impl FnMut(&mut &str)) {
    *rest = rest[1..].trim_start();
    while !rest.starts_with([')', ']', '}']) {
        item(rest);
        *rest = rest.trim_start().trim_start_matches(',').trim_start();
    }
    *rest = &rest[1..];
}

fn sizes(value: &Value) -> Vec<u64> {
    value.as_list().unwrap().iter().map(|size| size.as_size().unwrap()).collect()
}

fn args(row: &BTreeMap<String, String>) -> Vec<OpArg> {
    let cell = |name: &str| {
        let cell = row.get(name).or_else(|| row.get(&format!("{name}_first")));
        cell.map_or(Vec::new(), |text| python(text).as_list().unwrap_or_default().to_vec())
    };
    let (dims, types) = (cell("Input Dims"), cell("Input type"));
    let (strides, concrete) = (cell("Input Strides"), cell("Concrete Inputs"));
    let text = |values: &[Value], index: usize| values.get(index).and_then(Value::as_text).unwrap_or("").to_owned();
    dims.iter()
        .enumerate()
        .map(|(index, dims)| OpArg {
            dims: match dims.as_list() {
                Some([Value::Int(_), ..]) => ArgDims::Tensor(sizes(dims)),
                _ => ArgDims::None,
            },
            dtype: text(&types, index),
            strides: match strides.get(index).and_then(Value::as_list) {
                Some(strides) => strides.iter().map(|stride| stride.as_size().unwrap() as i64).collect(),
                None => Vec::new(),
            },
            concrete: text(&concrete, index),
        })
        .collect()
}

fn params(row: &BTreeMap<String, String>) -> BTreeMap<String, Value> {
    let mut params = BTreeMap::new();
    if let Some(Value::Map(items)) = row.get("perf_params").map(|text| python(text)) {
        params.extend(items);
    }
    let columns = row.iter().filter_map(|(name, cell)| Some((name.strip_prefix("param: ")?, cell)));
    params.extend(columns.map(|(name, cell)| (name.to_owned(), python(cell))));
    params
}

/// Dense operators of the reports, each with the family that must recover it.
const OPERATORS: &[(&str, Family)] = &[
    ("aten::mm", Family::Gemm),
    ("aten::addmm", Family::Gemm),
    ("aten::bmm", Family::Gemm),
    ("vllm::rocm_unquantized_gemm", Family::Gemm),
    ("aiter::rms_norm", Family::Rmsnorm),
    ("aiter::rmsnorm2d_fwd_with_add_ck", Family::Rmsnorm),
    ("aten::silu", Family::Activation),
];

#[test]
fn every_dense_row_is_recovered_with_the_report_s_work() {
    let Some(folder) = real_data() else {
        println!("skipped: no real profiles (set KBENCH_REAL_DATA)");
        return;
    };
    let mut seen: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
    for report in ["mi300_qwen15", "mi300_vllm_gptoss20b_decode"] {
        for sheet in ["unified_perf_summary", "ops_unique_args", "GEMM", "RMSNorm_fwd", "UnaryElementwise"] {
            let Ok(mut reader) =
                csv::Reader::from_path(folder.join("tracelens").join(report).join(sheet).with_extension("csv"))
            else {
                continue;
            };
            for row in reader.deserialize::<BTreeMap<String, String>>() {
                let row = row.unwrap();
                let Some((name, family)) = OPERATORS.iter().find(|(name, _)| *name == row["name"]) else { continue };
                let op =
                    OpCall { name: (*name).to_owned(), args: args(&row), params: params(&row), kernels: Vec::new() };
                let flops = check(&op, *family, &row);
                // The same call from the report's parameters alone.
                let from_params = !op.params.is_empty();
                if from_params {
                    let bare = OpCall { args: Vec::new(), ..op };
                    assert_eq!(check(&bare, *family, &row), flops, "{name}");
                }
                let counts = seen.entry(name).or_default();
                *counts = (counts.0 + 1, counts.1 + usize::from(from_params), counts.2 + usize::from(flops.is_some()));
            }
        }
    }
    println!("rows, from parameters too, with counted work: {seen:?}");
    assert_eq!(seen.len(), OPERATORS.len());
    assert!(seen.values().all(|(rows, from_params, counted)| *rows > 0 && *from_params > 0 && *counted > 0));
}

/// Recovers a call and compares FLOPs and bytes with the report's. Returns the FLOPs when the report has them.
fn check(op: &OpCall, family: Family, row: &BTreeMap<String, String>) -> Option<u128> {
    let recovered = recover(op).unwrap().unwrap();
    assert_eq!(recovered.family, family, "{}", op.name);
    let options = CaseOptions { fp8: Fp8Flavor::Fnuz, seed: 0 };
    let work = case(family, &recovered.shape, &recovered.dtypes, options).unwrap().work();
    let number = |names: [&str; 2]| names.iter().find_map(|name| row.get(*name)?.parse::<f64>().ok());
    let gflops = number(["GFLOPS", "GFLOPS_first"])?;
    let mebibytes = number(["Data Moved (MB)", "Data Moved (MB)_first"])?;
    // The report counts one operation for a silu; kbench counts the four it has.
    let expected = if family == Family::Activation { 4.0 * gflops } else { gflops };
    let flops = work.total_flops() as f64 / 1e9;
    assert!((flops / expected - 1.0).abs() < 1e-9, "{} {}: {flops} {expected}", op.name, recovered.shape);
    let bytes = work.total_bytes() as f64 / 1024.0 / 1024.0;
    assert!((bytes / mebibytes - 1.0).abs() < 1e-9, "{} {}: {bytes} {mebibytes}", op.name, recovered.shape);
    Some(work.total_flops())
}
