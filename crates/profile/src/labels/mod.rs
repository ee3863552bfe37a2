//! Labels of steps: what a serving engine writes around a forward pass, and what it says about the batch.
//!
//! [`parse`] takes the text of one profiler annotation. Labels of ATOM, vLLM and SGLang in all their forms become a
//! [`Step`]; graph captures, drafters, dummies and module tags are told apart; a label that looks like a step but does
//! not follow the grammar is [`Parsed::Unknown`], so that callers can report it. `docs/labels.md` lists the forms.
//!
//! Parsing takes linear time, never panics, and never computes with a number that does not fit.

mod atom;
mod check;
mod engines;
mod fields;
pub mod lengths;
mod step;
#[cfg(test)]
mod tests;

use fields::Cursor;
pub use lengths::{Lengths, Runs, runs_sum};
pub use step::{Contexts, DENSE_SUMS_CAVEAT, Launch, Padding, Part, Problem, Rows, Source, Step, Sums};

/// What an annotation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A forward pass of the model over a real batch.
    Step(Box<Step>),
    /// A forward pass over no real batch: warm-up, or an idle rank that keeps collectives aligned. Never counted.
    Dummy(Box<Step>),
    /// A pass of the drafter of speculative decoding.
    Draft(Draft),
    /// The capture of a graph.
    Capture(Capture),
    /// A module or compiled graph inside a step.
    Module(Module),
    /// Anything that does not look like a step; the number when it is the profiler's own `ProfilerStep#N`.
    NotAStep {
        /// N of `ProfilerStep#N`.
        profiler_step: Option<u64>,
    },
    /// It looks like a step, but does not follow any known form: to be reported, not skipped.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// What a drafter's pass does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DraftRole {
    /// Proposes tokens.
    Propose,
    /// Writes the drafter's KV cache.
    KvWrite,
    /// Decides how many tokens to verify.
    Schedule,
}

/// A pass of a drafter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Which drafter: `draft`, `eagle`, `dspark`, … (without `propose_`).
    pub drafter: String,
    /// What the pass does.
    pub role: DraftRole,
    /// Step i of k, from 0.
    pub step: Option<(u64, u64)>,
    /// Real sequences.
    pub batch: Option<u64>,
    /// Sequences that the pass ran, on passes that can pad.
    pub padded_batch: Option<u64>,
    /// Rows of the forward pass.
    pub tokens: Option<u64>,
    /// Tokens of a block draft (`T`).
    pub block: Option<u64>,
    /// True when it ran as a graph replay.
    pub graph: bool,
    /// Other fields, as found.
    pub other: Vec<(String, String)>,
}

/// What the size of a capture counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureSize {
    /// Sequences.
    Batch,
    /// Tokens (rows); equal to sequences for graphs of one token a sequence.
    Tokens,
}

/// The capture of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Its size.
    pub size: u64,
    /// What the size counts.
    pub measure: CaptureSize,
    /// Mode as found: `DECODE`, `FULL`, `PIECEWISE`; empty for ATOM's.
    pub mode: String,
}

/// A module or compiled graph inside a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Module {
    /// A module path such as `model.layers.3.self_attn`, with its layer number.
    Path {
        /// The path.
        path: String,
        /// Layer, counted from 0.
        layer: Option<u64>,
    },
    /// A call of a graph compiled by Inductor.
    CompiledGraph {
        /// Its hash.
        hash: String,
    },
}

/// A capture trace's file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureFile {
    /// Batch of the captured graph.
    pub batch: u64,
    /// Largest query length of the graph, when named.
    pub q_len: Option<u64>,
    /// Rank.
    pub rank: Option<u64>,
}

/// Parses an annotation. Linear in its length.
pub fn parse(label: &str) -> Parsed {
    let label = label.trim();
    let forms = [atom::parse, engines::sglang, engines::execute, engines::capture];
    match forms.iter().find_map(|form| form(label)) {
        Some(Ok(parsed)) => parsed,
        Some(Err(reason)) => Parsed::Unknown { reason },
        None => other(label),
    }
}

/// Parses the name of a capture trace: `bs_128_q_4_rank0.json.gz`, `bs_32_rank0`. `None` for any other name.
pub fn capture_file(name: &str) -> Option<CaptureFile> {
    let mut cursor = Cursor::new(name.strip_prefix("bs_")?);
    let batch = cursor.count().ok()?;
    let q_len = if cursor.eat("_q_") { Some(cursor.count().ok()?) } else { None };
    let rank = if cursor.eat("_rank") { Some(cursor.count().ok()?) } else { None };
    let ends = cursor.rest().is_empty() || cursor.rest().starts_with('.');
    ends.then_some(CaptureFile { batch, q_len, rank })
}

/// Annotations that are no step form: the profiler's own, compiled graphs, module paths, and what only looks like a step.
fn other(label: &str) -> Parsed {
    if let Some(number) = label.strip_prefix("ProfilerStep#") {
        return Parsed::NotAStep { profiler_step: number.parse().ok() };
    }
    if let Some(rest) = label.strip_prefix("## Call CompiledFxGraph ") {
        let hash = rest.trim_end_matches('#').trim().to_owned();
        return Parsed::Module(Module::CompiledGraph { hash });
    }
    if let Some(module) = module_path(label) {
        return Parsed::Module(module);
    }
    match label.split_once('[') {
        Some((head, body)) if is_word(head) && (body.starts_with("bs=") || body.contains(" bs=")) => {
            Parsed::Unknown { reason: format!("the kind `{}` is not known", fields::shortened(head)) }
        }
        _ => Parsed::NotAStep { profiler_step: None },
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `model.layers.3.mlp`: dotted words that start at `model` or name a layer.
fn module_path(label: &str) -> Option<Module> {
    if !label.split('.').all(is_word) {
        return None;
    }
    let mut words = label.split('.');
    let mut layer = None;
    while let Some(word) = words.next() {
        if word == "layers" {
            layer = words.next().and_then(|number| number.parse().ok());
            break;
        }
    }
    let is_module = layer.is_some() || label.starts_with("model.") || label.starts_with("language_model.");
    is_module.then(|| Module::Path { path: label.to_owned(), layer })
}
