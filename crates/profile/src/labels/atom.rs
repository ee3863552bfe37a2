//! ATOM's labels: steps, dummies, drafters and module tags, old forms and new.

use super::fields::{Cursor, Field, bracketed, fields, shortened};
use super::step::{Contexts, Launch, Part, Source, Step};
use super::{Draft, DraftRole, Parsed, check};
use crate::inventory::Phase;

/// Kinds of `kind[bs=…]`: name, dummy, launch, prefill.
const KINDS: &[(&str, bool, Launch, bool)] = &[
    ("prefill", false, Launch::Eager, true),
    ("decode", false, Launch::Graph, false),
    ("eager_decode", false, Launch::Eager, false),
    ("dummy_prefill", true, Launch::Eager, true),
    ("dummy_decode", true, Launch::Graph, false),
    ("dummy_eager_decode", true, Launch::Eager, false),
];

/// Drafter passes by name. A `propose_…` that is not here is a proposal too.
const DRAFTERS: &[(&str, DraftRole)] = &[
    ("draft", DraftRole::Propose),
    ("dspark", DraftRole::Propose),
    ("dspark_ctx_kv", DraftRole::KvWrite),
    ("draft_kv", DraftRole::KvWrite),
    ("dspark_sched", DraftRole::Schedule),
];

/// Parses an ATOM label; `None` when it is none, `Err` with the reason when it starts like one but does not follow.
pub(super) fn parse(label: &str) -> Option<Result<Parsed, String>> {
    if let Some(rest) = label.strip_prefix("prefill_bs_") {
        return Some(prefill_history(rest));
    }
    if let Some(rest) = label.strip_prefix("decode_step_bs_") {
        return Some(decode_history(rest));
    }
    let head = &label[..label.find('[')?];
    let is_kind = KINDS.iter().any(|(name, ..)| *name == head);
    let is_drafter = head.starts_with("propose_") || DRAFTERS.iter().any(|(name, _)| *name == head);
    if !is_kind && !is_drafter {
        return None;
    }
    let Some((_, body, tail)) = bracketed(label) else {
        return Some(Err("the closing bracket is missing: the label was cut".to_owned()));
    };
    let found = match (fields(body), fields(tail)) {
        (Ok(body), Ok(tail)) => body.into_iter().chain(tail).collect::<Vec<_>>(),
        (Err(reason), _) | (_, Err(reason)) => return Some(Err(reason)),
    };
    if let Some((_, dummy, launch, prefill)) = KINDS.iter().find(|(name, ..)| *name == head) {
        let step = step(&found, *launch, *prefill).map(Box::new);
        return Some(step.map(|step| if *dummy { Parsed::Dummy(step) } else { Parsed::Step(step) }));
    }
    Some(draft(head, &found).map(Parsed::Draft))
}

fn step(found: &[Field<'_>], launch: Launch, prefill: bool) -> Result<Step, String> {
    let mut step = Step::new(Source::Atom, launch);
    let (mut prefill_seqs, mut decode_seqs) = (None, None);
    for field in found {
        let (key, value) = match field {
            Field::Pair(key, value) => (*key, *value),
            Field::Word(word) => {
                step.other.push(((*word).to_owned(), String::new()));
                continue;
            }
        };
        match key {
            "bs" => {
                let (real, graph) = slashed(value)?;
                step.total.seqs = Some(real);
                step.graph_batch = graph;
            }
            "tok" => step.total.tokens = Some(count(key, value)?),
            "ctx" => step.total.contexts = Some(contexts(value)?),
            "p" => prefill_seqs = Some(count(key, value)?),
            "d" => decode_seqs = Some(count(key, value)?),
            "spec" => step.spec = Some(count(key, value)?),
            "tbo" => step.two_batch_overlap = value != "0",
            "sqsq" | "nq2" | "attn_sum_nq2" => step.total.sums.nq2 = sum(&mut step, "sqsq", value),
            "sqsk" | "nqnkv" | "attn_sum_nq_nkv" => step.total.sums.nq_nkv = sum(&mut step, "sqsk", value),
            "sk" | "nkv" | "attn_sum_nkv" => step.total.sums.nkv = sum(&mut step, "sk", value),
            _ => step.other.push((key.to_owned(), value.to_owned())),
        }
    }
    let Some(batch) = step.total.seqs else { return Err("it has no bs field".to_owned()) };
    if launch == Launch::Graph {
        settle_graph_batch(&mut step, batch);
    } else if step.graph_batch.take().is_some() {
        step.problem("bs", "a graph batch on an eager step was not used");
    }
    check::sums(&mut step.total, &mut step.problems);
    check_contexts(&mut step, batch, prefill);
    if prefill {
        step.phase = Phase::Prefill;
        step.prefill = step.total.clone();
        step.decode = Part::none();
    } else {
        split(&mut step, batch, prefill_seqs.unwrap_or(0), decode_seqs);
    }
    Ok(step)
}

/// The single number of a graph step is what ran; with a slash the second one is.
fn settle_graph_batch(step: &mut Step, real: u64) {
    let graph = step.graph_batch.unwrap_or(real);
    if graph < real {
        step.problem("bs", format!("a graph of batch {graph} cannot have run {real} sequences; it was not used"));
        step.graph_batch = None;
    } else {
        step.graph_batch = Some(graph);
    }
}

fn check_contexts(step: &mut Step, batch: u64, prefill: bool) {
    let Some(contexts) = &step.total.contexts else { return };
    let named = contexts.more.checked_add(contexts.listed.len() as u64);
    let sum = contexts.listed.iter().map(|length| u128::from(*length)).sum::<u128>();
    let complete = contexts.more == 0;
    if named != Some(batch) {
        step.problem("ctx", format!("it names other than {batch} sequences; it was not used"));
        step.total.contexts = None;
    } else if complete && prefill && step.total.tokens.is_some_and(|tokens| sum < u128::from(tokens)) {
        step.problem("ctx", "its contexts are shorter than the tokens run; it was not used");
        step.total.contexts = None;
    } else if complete && step.total.sums.nkv.is_none() {
        step.total.sums.nkv = Some(sum);
    }
}

/// Divides a step of the decode path into its prefill and decode sequences (`p=`, `d=`).
fn split(step: &mut Step, batch: u64, prefill_seqs: u64, decode_seqs: Option<u64>) {
    let decode_seqs = decode_seqs.unwrap_or(batch.saturating_sub(prefill_seqs));
    if prefill_seqs.checked_add(decode_seqs) != Some(batch) {
        step.problem("d", format!("p={prefill_seqs} and d={decode_seqs} do not add up to bs={batch}"));
    }
    let whole = step.total.clone();
    let (phase, prefill, decode) = match (prefill_seqs, decode_seqs) {
        (0, _) => (Phase::Decode, Part::none(), whole),
        (_, 0) => (Phase::Prefill, whole, Part::none()),
        (prefill, decode) => {
            let of = |seqs| Part { seqs: Some(seqs), ..Part::default() };
            (Phase::Mixed, of(prefill), of(decode))
        }
    };
    (step.phase, step.prefill, step.decode) = (phase, prefill, decode);
}

fn draft(name: &str, found: &[Field<'_>]) -> Result<Draft, String> {
    let role = DRAFTERS.iter().find(|(known, _)| *known == name).map_or(DraftRole::Propose, |(_, role)| *role);
    let mut draft = Draft {
        drafter: name.strip_prefix("propose_").unwrap_or(name).to_owned(),
        role,
        step: None,
        batch: None,
        padded_batch: None,
        tokens: None,
        block: None,
        graph: false,
        other: Vec::new(),
    };
    for field in found {
        match *field {
            Field::Word("graph") => draft.graph = true,
            Field::Word(word) => match word.split_once('/') {
                Some((step, of)) => draft.step = Some((count("step", step)?, count("steps", of)?)),
                None => draft.other.push((word.to_owned(), String::new())),
            },
            Field::Pair("bs", value) => {
                let (real, padded) = slashed(value)?;
                draft.batch = Some(real);
                draft.padded_batch = padded;
            }
            Field::Pair("tok", value) => draft.tokens = Some(count("tok", value)?),
            Field::Pair("T", value) => draft.block = Some(count("T", value)?),
            Field::Pair(key, value) => draft.other.push((key.to_owned(), value.to_owned())),
        }
    }
    Ok(draft)
}

/// `{bs}_ctxlens_{repr}`, where the repr is numpy's or torch's: `[7803 6918]`, `tensor([7803, 6918], device='cuda:0')`.
fn prefill_history(rest: &str) -> Result<Parsed, String> {
    let mut cursor = Cursor::new(rest);
    let batch = cursor.count()?;
    let mut step = Step::new(Source::AtomHistory, Launch::Eager);
    step.phase = Phase::Prefill;
    step.total.seqs = Some(batch);
    if cursor.eat("_ctxlens_") {
        let text = cursor.rest();
        let list = match text.find('[') {
            Some(open) => text[open + 1..].split(']').next().unwrap_or_default(),
            None => text.trim_start_matches(|c: char| !c.is_ascii_digit()).split([',', ')']).next().unwrap_or_default(),
        };
        let mut listed = Vec::new();
        let mut shown_whole = true;
        for item in list.split([',', ' ', '\n']).map(str::trim).filter(|item| !item.is_empty()) {
            match item {
                "..." => shown_whole = false,
                number => listed.push(count("ctxlens", number)?),
            }
        }
        let more = if shown_whole { 0 } else { batch.saturating_sub(listed.len() as u64).max(1) };
        step.total.contexts = Some(Contexts { listed, more });
    }
    check_contexts(&mut step, batch, true);
    step.prefill = step.total.clone();
    step.decode = Part::none();
    Ok(Parsed::Step(Box::new(step)))
}

fn decode_history(rest: &str) -> Result<Parsed, String> {
    let mut cursor = Cursor::new(rest);
    let mut step = Step::new(Source::AtomHistory, Launch::NotTold);
    step.phase = Phase::Decode;
    step.total.seqs = Some(cursor.count()?);
    if !cursor.rest().is_empty() {
        step.other.push((cursor.rest().to_owned(), String::new()));
    }
    step.decode = step.total.clone();
    step.prefill = Part::none();
    Ok(Parsed::Step(Box::new(step)))
}

/// `7803`, `[7803, 6918]`, `[4096, 4096, 4096]...+3`.
fn contexts(value: &str) -> Result<Contexts, String> {
    let Some(rest) = value.strip_prefix('[') else {
        return Ok(Contexts { listed: vec![count("ctx", value)?], more: 0 });
    };
    let (list, after) = rest.split_once(']').ok_or_else(|| "the list of `ctx` is not closed".to_owned())?;
    let items = list.split([',', ' ']).filter(|item| !item.is_empty());
    let listed = items.map(|item| count("ctx", item)).collect::<Result<Vec<_>, _>>()?;
    let more = match after {
        "" => 0,
        after => count("ctx", after.strip_prefix("...+").unwrap_or(after))?,
    };
    Ok(Contexts { listed, more })
}

/// `117` or `117/128`.
fn slashed(value: &str) -> Result<(u64, Option<u64>), String> {
    match value.split_once('/') {
        Some((real, padded)) => Ok((count("bs", real)?, Some(count("bs", padded)?))),
        None => Ok((count("bs", value)?, None)),
    }
}

/// A count; the reason when it is none.
pub(super) fn count(key: &str, value: &str) -> Result<u64, String> {
    let mut cursor = Cursor::new(value);
    match cursor.count() {
        Ok(count) if cursor.rest().is_empty() => Ok(count),
        _ => Err(format!("{}={} is not a count of 64 bits", shortened(key), shortened(value))),
    }
}

/// A sum. A negative or malformed one is a finding, not a reason to drop the step.
pub(super) fn sum(step: &mut Step, key: &'static str, value: &str) -> Option<u128> {
    let mut cursor = Cursor::new(value);
    match cursor.sum() {
        Ok(sum) if cursor.rest().is_empty() => Some(sum),
        _ => {
            let overflow =
                if value.starts_with('-') { " (an overflow of 32-bit integers looks like this)" } else { "" };
            step.problem(key, format!("{key}={} is not a sum{overflow}; it was not used", shortened(value)));
            None
        }
    }
}
