//! Shapes and dtypes in the width of a table: what tells cases apart, without what every case has.

use super::document::CaseResult;
use crate::device::DeviceInfo;
use kbench_workload::{Dtypes, ShapeMap, ShapeValue};

/// Keys of how a case is laid out or tiled rather than how large it is; the document has them.
const LAYOUT_KEYS: [&str; 6] = ["layout", "trans_a", "trans_b", "block_m", "pages", "eps"];

/// A shape without layouts, switched-off options, and a batch of one: `m=32 n=5120 k=2880 bias`.
pub fn shape(shape: &ShapeMap) -> String {
    let parts: Vec<String> = shape
        .iter()
        .filter(|(key, _)| !LAYOUT_KEYS.contains(key))
        .filter_map(|(key, value)| match value {
            ShapeValue::Int(1) if matches!(key, "batch" | "q_len") => None,
            ShapeValue::Int(0) if key == "window" => None,
            ShapeValue::Word(word) => match word.as_str() {
                "none" | "false" => None,
                "true" => Some(key.to_owned()),
                word => Some(word.to_owned()),
            },
            ShapeValue::List(values) => Some(format!("{key}={}", list(value, values))),
            ShapeValue::Int(number) => Some(format!("{key}={number}")),
        })
        .collect();
    parts.join(" ")
}

/// What the column is called that says how long a case takes: a bound is no time, and a script's time no measured one.
pub fn time_heading(device: &DeviceInfo) -> &'static str {
    match (device.is_timed(), device.scripted) {
        (false, _) => "bound",
        (true, true) => "scripted time",
        (true, false) => "time",
    }
}

/// ` cold` or ` warm` of a case that ran both ways, which its id says.
pub fn mode(case: &CaseResult) -> String {
    case.id.rsplit_once('@').map_or_else(String::new, |(_, mode)| format!(" {mode}"))
}

/// How many of an emulated case's workgroups ran, when not all did.
pub fn sampled(case: &CaseResult) -> Option<String> {
    let sampled = case.sampled()?;
    Some(format!(
        "{} of {} workgroups ran: counters are scaled to the whole grid, and those of caches are crude",
        sampled.ran, sampled.workgroups
    ))
}

/// A list as it is when short, else its length and sum: `[32: Σ55086]`.
fn list(value: &ShapeValue, values: &[u64]) -> String {
    const SHORT: usize = 16;
    let text = value.to_string();
    if text.len() <= SHORT {
        return text;
    }
    let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
    format!("[{}: Σ{sum}]", values.len())
}

/// Dtypes by the shortest names that stay clear: `bf16`, `x=bf16 w=fp4`.
pub fn dtypes(dtypes: &Dtypes) -> String {
    let short = |name: String| match name.as_str() {
        "fp4_e2m1" => "fp4".to_owned(),
        name => name.strip_prefix("fp8_").map_or_else(|| name.to_owned(), str::to_owned),
    };
    let mut roles: Vec<(&str, String)> = dtypes.roles().map(|(role, tag)| (role, short(tag.to_string()))).collect();
    let default = dtypes.default_tag().map(|tag| short(tag.to_string()));
    let most = default.or_else(|| {
        let count = |name: &String| roles.iter().filter(|(_, other)| other == name).count();
        let best = roles.iter().map(|(_, name)| name).max_by_key(|name| count(name))?;
        (count(best) > 1 || roles.len() == 1).then(|| best.clone())
    });
    if let Some(most) = &most {
        roles.retain(|(_, name)| name != most);
    }
    let named = roles.into_iter().map(|(role, name)| format!("{role}={name}"));
    most.clone().into_iter().chain(named).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_show_what_tells_cases_apart() {
        let of = |text: &str| shape(&text.parse().unwrap());
        assert_eq!(of("batch=1,m=32,n=5120,k=2880,bias=true,quant=none,trans_b=true"), "m=32 n=5120 k=2880 bias");
        assert_eq!(of("tokens=32,stage=down,routing=uniform,quant=mx32,block_m=32"), "tokens=32 down uniform mx32");
        assert_eq!(of("ctx=[100,17],q_len=1,window=0"), "ctx=[100,17]");
        assert_eq!(of("ctx=[1000,1001,1002,1003],window=128"), "ctx=[4: Σ4006] window=128");
        assert_eq!(of("batch=2,q_len=64"), "batch=2 q_len=64");
    }

    #[test]
    fn dtypes_say_only_what_differs() {
        let of = |text: &str| dtypes(&text.parse().unwrap());
        assert_eq!(of("bf16"), "bf16");
        assert_eq!(of("a=bf16,b=bf16,out=bf16"), "bf16");
        assert_eq!(of("x=bf16,w=fp4_e2m1,out=bf16"), "bf16 w=fp4");
        assert_eq!(of("a=fp8_e4m3fn,b=fp8_e4m3fn,out=bf16"), "e4m3fn out=bf16");
        assert_eq!(of("x=bf16"), "bf16");
    }
}
