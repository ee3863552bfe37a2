//! Plans: buffers and their contents, launches left out, optional and null pointers, layouts, hidden arguments.
#![allow(clippy::unwrap_used, clippy::panic)]

use kbench_kernels::kernarg::ArgValue;
use kbench_kernels::plan::Fill;
use kbench_kernels::select::dtype_fits;
use kbench_kernels::tree::KernelTree;
use kbench_kernels::{DeviceInfo, LaunchPlan, Manifest, Symbols, TensorInfo, Value, plan};
use std::borrow::Cow;
use std::fs;

struct Case;

impl Symbols for Case {
    fn value(&self, name: &str) -> Option<Value<'_>> {
        match name {
            "ctx" => Some(Value::List(Cow::Borrowed(&[17, 16, 1]))),
            "q_len" => Some(Value::Int(2)),
            "big" => Some(Value::List(Cow::Borrowed(&[u64::MAX]))),
            "causal" => Some(Value::Bool(false)),
            _ => None,
        }
    }

    fn tensor(&self, name: &str) -> Option<TensorInfo> {
        (name == "q").then(|| TensorInfo { dims: vec![6, 8, 128], bits: 16 })
    }
}

fn planned(build: &str) -> Result<LaunchPlan, String> {
    let text = format!(
        "schema = \"kbench.kernels/1\"\n[[build]]\nname = \"b\"\nfamily = \"f\"\nfile = \"b.co\"\ntargets = [\"gfx942\"]\n{build}"
    );
    let manifest = Manifest::parse("p.toml", &text).map_err(|error| error.to_string())?;
    let build = &manifest.builds[0];
    plan("p.toml", build, &build.variants[0], &Case, &DeviceInfo::of_arch("gfx942", 304)).map_err(|e| e.to_string())
}

const LAUNCH: &str = "[[build.launch]]\nkernel = \"k\"\ngrid = [1, 1, 1]\nblock = [64, 1, 1]\n";

fn buffer(init: &str, bytes: u64) -> Result<Fill, String> {
    let text = format!("[[build.buffer]]\nname = \"x\"\nbytes = {bytes}\ninit = {init}\n{LAUNCH}");
    planned(&text).map(|plan| plan.buffers[0].fill.clone())
}

#[test]
fn contents_of_buffers() {
    let bytes_of = |init: &str, bytes: u64| {
        let mut memory = vec![0xaa; bytes as usize];
        assert!(buffer(init, bytes).unwrap().write(&mut memory), "{init}");
        memory
    };
    let words = |values: &[u32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(bytes_of("\"zero\"", 3), [0, 0, 0]);
    assert_eq!(bytes_of("\"poison\"", 2), [0xff, 0xff]);
    assert_eq!(bytes_of("\"iota_u32\"", 10), [0, 0, 0, 0, 1, 0, 0, 0, 2, 0]);
    assert_eq!(bytes_of("{ fill_u32 = \"q_len + 1\" }", 8), words(&[3, 3]));
    assert_eq!(bytes_of("{ fill_f32 = \"1 / 4.0\" }", 4), 0.25f32.to_le_bytes());
    assert_eq!(bytes_of("{ values_u32 = [1, \"len(ctx)\"] }", 12), words(&[1, 3, 0]));
    // Pages of 16 of contexts 17, 16 and 1: 2, 1 and 1.
    assert_eq!(bytes_of("{ prefix_sum_u32 = \"ctx\", each = \"ceil_div(it, 16)\" }", 16), words(&[0, 2, 3, 4]));
    assert_eq!(bytes_of("{ prefix_sum_u32 = \"ctx\" }", 20), words(&[0, 17, 33, 34, 0]));
    assert_eq!(bytes_of("{ list_u32 = \"ctx\", each = \"(it - 1) % 16 + 1\" }", 12), words(&[1, 16, 1]));
    assert!(!Fill::Uninitialised.write(&mut [0]));
    for (init, bytes, words) in [
        ("{ prefix_sum_u32 = \"ctx\" }", 12, "4 values do not fit 12 bytes"),
        ("{ list_u32 = \"q_len\" }", 12, "q_len is a whole number, not a list"),
        ("{ list_u32 = \"absent\" }", 12, "no shape key absent"),
        ("{ list_u32 = \"big\" }", 12, "18446744073709551615 does not fit u32"),
        ("{ prefix_sum_u32 = \"ctx\", each = \"it * 200000000\" }", 16, "the sums over ctx pass u32"),
        ("{ fill_u32 = 1, file = \"x\" }", 4, "is needed"),
        ("{ file = \"../x\" }", 4, "below the folder"),
    ] {
        let said = buffer(init, bytes).unwrap_err();
        assert!(said.contains(words), "{init}: {said}");
    }
}

#[test]
fn tables_of_pointers_come_last_and_need_their_targets() {
    let table = "[[build.buffer]]\nname = \"table\"\npointers = [\"a\", \"q\"]\n";
    let a = "[[build.buffer]]\nname = \"a\"\nbytes = 0\nwhen = [\"!causal\"]\n";
    let plan = planned(&format!("{table}{a}{LAUNCH}")).unwrap();
    let names: Vec<(&str, u64)> = plan.buffers.iter().map(|buffer| (buffer.name.as_str(), buffer.bytes)).collect();
    assert_eq!(names, [("a", 1), ("table", 16)]);
    let said = planned(&format!("{table}{}{LAUNCH}", a.replace("!causal", "causal"))).unwrap_err();
    assert!(said.contains("no tensor or buffer `a` to point to"), "{said}");
}

#[test]
fn launches_and_arguments() {
    let launch =
        |when: &str, args: &str| format!("{LAUNCH}when = [\"{when}\"]\nlayout = \"packed\"\nargs = [{args}]\n");
    let args = "{ u16 = 7 }, { ptr = \"q\", offset = \"stride(q, 0)\" }, { ptr = \"bias\", optional = true }, { at = 64, i64 = -1 }, { u8 = 1 }";
    let plan = planned(&(launch("causal", "") + &launch("!causal", args))).unwrap();
    assert_eq!(plan.launches.len(), 1);
    assert_eq!(plan.launches[0].index, 1);
    let found: Vec<(u32, u32, ArgValue)> =
        plan.launches[0].args.iter().map(|arg| (arg.field.offset, arg.field.size, arg.value.clone())).collect();
    let address = ArgValue::Address { target: "q".to_owned(), offset: 2048 };
    let bits = ArgValue::Bits;
    assert_eq!(found, [(0, 2, bits(7)), (2, 8, address), (10, 8, bits(0)), (64, 8, bits(u64::MAX)), (72, 1, bits(1))]);
    assert!(planned(&launch("causal", "")).unwrap_err().contains("every launch is left out"));
    let cluster = planned(&format!("{LAUNCH}cluster = [2, 1, 1]\n")).unwrap_err();
    assert!(cluster.contains("does not divide the grid's 1"), "{cluster}");
}

#[test]
fn launches_that_set_up_come_first_and_are_not_all() {
    let setup = format!("{LAUNCH}setup = true\n");
    let plan = planned(&format!("{LAUNCH}{setup}")).unwrap();
    let order: Vec<(usize, bool)> = plan.launches.iter().map(|launch| (launch.index, launch.setup)).collect();
    assert_eq!(order, [(1, true), (0, false)]);
    assert!(planned(&setup).unwrap_err().contains("every launch is left out"));
}

#[test]
fn fp8_fits_either_flavour() {
    for (wanted, found, fits) in [
        ("bf16", "bf16", true),
        ("bf16", "f16", false),
        ("fp8", "fp8_e4m3fnuz", true),
        ("fp8", "fp8_e4m3fn", true),
        ("fp8", "fp8_e5m2", false),
        ("bf8", "fp8_e5m2fnuz", true),
        ("fp8_e4m3fn", "fp8_e4m3fnuz", false),
    ] {
        assert_eq!(dtype_fits(wanted, found), fits, "{wanted} {found}");
    }
}

#[test]
fn builds_of_one_source_and_macros_share_an_object() {
    let folder = tempfile::tempdir().unwrap();
    let build = |name: &str, rest: &str| format!("[[build]]\nname = \"{name}\"\nfamily = \"f\"\n{rest}\n{LAUNCH}");
    let text = [
        build("a", "source = \"f.hip\"\ntargets = [\"gfx942\"]"),
        build("b", "source = \"f.hip\"\ntargets = [\"gfx90a\"]"),
        build("c", "source = \"f.hip\"\ntargets = [\"gfx942\"]\ndefines = { N = 2 }"),
        build("d", "source = \"g.hip\"\ntargets = [\"gfx942\"]"),
    ];
    fs::create_dir(folder.path().join("f")).unwrap();
    fs::write(folder.path().join("f/f.toml"), format!("schema = \"kbench.kernels/1\"\n{}", text.join("\n"))).unwrap();
    let units = KernelTree::open(folder.path()).unwrap().units().unwrap();
    let names: Vec<(&str, usize)> = units.iter().map(|unit| (unit.name.as_str(), unit.builds.len())).collect();
    assert_eq!(names, [("f", 2), ("f-c", 1), ("f.g", 1)]);
    assert_eq!(units[0].targets, ["gfx942", "gfx90a"]);
}
