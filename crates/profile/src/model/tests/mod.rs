//! Models of the known kinds against published figures and against what real traces recorded.
//!
//! The configs in `testdata/models` are written for these tests from public figures, with the keys that matter here.

mod config;
mod hostile;
mod published;
mod recorded;

use super::*;
use crate::labels::{Parsed, Step, parse};
use kbench_workload::{Family, ShapeMap};

pub(super) const CONFIGS: &[(&str, &str)] = &[
    ("deepseek-v3", include_str!("../../../testdata/models/deepseek-v3.json")),
    ("glm-4.7", include_str!("../../../testdata/models/glm-4.7.json")),
    ("gpt-oss-120b", include_str!("../../../testdata/models/gpt-oss-120b.json")),
    ("gpt-oss-20b", include_str!("../../../testdata/models/gpt-oss-20b.json")),
    ("kimi-k2", include_str!("../../../testdata/models/kimi-k2.json")),
    ("llama-3-70b", include_str!("../../../testdata/models/llama-3-70b.json")),
    ("llama-3-8b", include_str!("../../../testdata/models/llama-3-8b.json")),
    ("llama-3.1-405b", include_str!("../../../testdata/models/llama-3.1-405b.json")),
    ("llama-4-maverick", include_str!("../../../testdata/models/llama-4-maverick.json")),
    ("minimax-m2", include_str!("../../../testdata/models/minimax-m2.json")),
    ("mixtral-8x7b", include_str!("../../../testdata/models/mixtral-8x7b.json")),
    ("qwen3-235b-a22b", include_str!("../../../testdata/models/qwen3-235b-a22b.json")),
    ("qwen3-30b-a3b", include_str!("../../../testdata/models/qwen3-30b-a3b.json")),
    ("qwen3-8b", include_str!("../../../testdata/models/qwen3-8b.json")),
    ("qwen3-next-80b", include_str!("../../../testdata/models/qwen3-next-80b.json")),
];

fn text(name: &str) -> &'static str {
    CONFIGS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).expect(name)
}

fn model(name: &str) -> Model {
    Model::from_json(text(name)).expect(name)
}

/// A config with one key replaced (or removed, by `null`).
fn changed(name: &str, key: &str, value: &str) -> Result<Model, ModelError> {
    let mut json: serde_json::Value = serde_json::from_str(text(name)).unwrap();
    json[key] = serde_json::from_str(value).unwrap();
    Model::from_json(&json.to_string())
}

fn step(label: &str) -> Step {
    match parse(label) {
        Parsed::Step(step) => *step,
        other => panic!("{label}: {other:?}"),
    }
}

fn shapes(name: &str, label: &str, tp: u64, ep: u64) -> StepShapes {
    model(name).step_shapes(&step(label), &Serving::new(tp, ep).unwrap()).unwrap()
}

/// `role calls shape` of a family, sorted.
fn lines(shapes: &StepShapes, family: Family) -> Vec<String> {
    let of_family = shapes.expected.iter().filter(|expected| expected.family == family);
    let mut lines: Vec<String> =
        of_family.map(|expected| format!("{} {} {}", expected.role, expected.calls, expected.shape)).collect();
    lines.sort();
    lines
}

fn role<'a>(shapes: &'a StepShapes, role: &str) -> &'a Expected {
    shapes.expected.iter().find(|expected| expected.role == role).unwrap_or_else(|| panic!("no {role}"))
}

fn shape(text: &str) -> ShapeMap {
    text.parse().unwrap()
}
