//! Labels of vLLM, SGLang and diffusion servers, and the names of graph captures.

use super::atom::{count, sum};
use super::fields::{Cursor, Field, bracketed, fields, shortened};
use super::step::{Launch, Part, Source, Step, Sums};
use super::{Capture, CaptureSize, Draft, DraftRole, Parsed, check};
use crate::inventory::Phase;

/// Parses `execute_…`; `None` when it does not go on like a step.
pub(super) fn execute(label: &str) -> Option<Result<Parsed, String>> {
    let rest = label.strip_prefix("execute_")?;
    if rest.starts_with("context_") {
        return Some(vllm_native(rest));
    }
    if let Some(rest) = rest.strip_prefix("new_") {
        return Some(vllm_old(rest));
    }
    if let Some(rest) = rest.strip_prefix("diffusion_") {
        return Some(diffusion(rest));
    }
    rest.starts_with(|c: char| c.is_ascii_digit()).then(|| vllm_detailed(rest))
}

/// `8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)`: tokens of the step,
/// then for each phase its requests and sums.
fn vllm_detailed(rest: &str) -> Result<Parsed, String> {
    let mut cursor = Cursor::new(rest);
    let tokens = cursor.count()?;
    let mut step = Step::new(Source::VllmDetailed, Launch::NotTold);
    cursor.need("_")?;
    step.prefill = vllm_sums(&mut cursor, "context_")?;
    cursor.need("_")?;
    step.decode = vllm_sums(&mut cursor, "generation_")?;
    finish(&mut step, cursor.rest());
    if step.total.tokens != Some(tokens) {
        step.problem("tokens", format!("the label starts with {tokens} tokens, its parts hold another number"));
    }
    Ok(Parsed::Step(Box::new(step)))
}

fn vllm_sums(cursor: &mut Cursor<'_>, name: &str) -> Result<Part, String> {
    cursor.need(name)?;
    let seqs = Some(cursor.count()?);
    cursor.need("(sq")?;
    let tokens = Some(cursor.count()?);
    cursor.need("sk")?;
    let nkv = Some(cursor.sum()?);
    cursor.need("sqsq")?;
    let nq2 = Some(cursor.sum()?);
    cursor.need("sqsk")?;
    let nq_nkv = Some(cursor.sum()?);
    cursor.need(")")?;
    Ok(Part { seqs, tokens, sums: Sums { nq2, nq_nkv, nkv }, contexts: None })
}

/// `context_2(14721)_generation_0(0)`: requests and tokens; some builds write Σ tokens and Σ tokens², `(888_788544)`.
fn vllm_native(rest: &str) -> Result<Parsed, String> {
    let mut cursor = Cursor::new(rest);
    let mut step = Step::new(Source::VllmNative, Launch::NotTold);
    step.prefill = vllm_counts(&mut cursor, "context_")?;
    cursor.need("_")?;
    step.decode = vllm_counts(&mut cursor, "generation_")?;
    finish(&mut step, cursor.rest());
    Ok(Parsed::Step(Box::new(step)))
}

fn vllm_counts(cursor: &mut Cursor<'_>, name: &str) -> Result<Part, String> {
    cursor.need(name)?;
    let seqs = cursor.count()?;
    cursor.need("(")?;
    let tokens = cursor.count()?;
    let nq2 = if cursor.eat("_") { Some(cursor.sum()?) } else { None };
    cursor.need(")")?;
    if seqs == 0 && tokens == 0 {
        return Ok(Part::none());
    }
    Ok(Part { seqs: Some(seqs), tokens: Some(tokens), sums: Sums { nq2, ..Sums::default() }, contexts: None })
}

/// `{new}_cached_{cached}`: requests scheduled for the first time, and again. A request scheduled again may be decoding
/// or in a later chunk of its prompt, so the phase does not show.
fn vllm_old(rest: &str) -> Result<Parsed, String> {
    let mut cursor = Cursor::new(rest);
    let new = cursor.count()?;
    cursor.need("_cached_")?;
    let cached = cursor.count()?;
    let mut step = Step::new(Source::VllmOld, Launch::NotTold);
    step.total.seqs = new.checked_add(cached);
    step.other = vec![("new".to_owned(), new.to_string()), ("cached".to_owned(), cached.to_string())];
    if cached == 0 && new > 0 {
        step.phase = Phase::Prefill;
        step.prefill = step.total.clone();
        step.decode = Part::none();
    }
    Ok(Parsed::Step(Box::new(step)))
}

/// `1_256x256`: a number (kept as found) and the size of the image.
fn diffusion(rest: &str) -> Result<Parsed, String> {
    let mut cursor = Cursor::new(rest);
    let number = cursor.count()?;
    let mut step = Step::new(Source::Diffusion, Launch::NotTold);
    step.other.push(("number".to_owned(), number.to_string()));
    if cursor.eat("_") {
        let height = cursor.count()?;
        cursor.need("x")?;
        let width = cursor.count()?;
        step.other.push(("size".to_owned(), format!("{height}x{width}")));
    }
    if !cursor.rest().is_empty() {
        step.other.push((cursor.rest().to_owned(), String::new()));
    }
    Ok(Parsed::Step(Box::new(step)))
}

/// Checks both parts, adds them up and names the phase.
fn finish(step: &mut Step, rest: &str) {
    check::sums(&mut step.prefill, &mut step.problems);
    check::sums(&mut step.decode, &mut step.problems);
    let (prefill, decode) = (&step.prefill, &step.decode);
    let add = |a: Option<u64>, b: Option<u64>| a?.checked_add(b?);
    step.total = Part {
        seqs: add(prefill.seqs, decode.seqs),
        tokens: add(prefill.tokens, decode.tokens),
        sums: prefill.sums.plus(&decode.sums).unwrap_or_default(),
        contexts: None,
    };
    step.phase = match (prefill.is_none(), decode.is_none()) {
        (false, true) => Phase::Prefill,
        (true, false) => Phase::Decode,
        (false, false) => Phase::Mixed,
        (true, true) => Phase::Unknown,
    };
    if !rest.is_empty() {
        step.other.push((rest.to_owned(), String::new()));
    }
}

/// Parses SGLang's `step[MODE bs=… toks=… c=… g=… c_sq=… g_sq=…]`.
pub(super) fn sglang(label: &str) -> Option<Result<Parsed, String>> {
    label.strip_prefix("step[")?;
    let Some((_, body, tail)) = bracketed(label) else {
        return Some(Err("the closing bracket is missing: the label was cut".to_owned()));
    };
    let found = match (fields(body), fields(tail)) {
        (Ok(body), Ok(tail)) => body.into_iter().chain(tail).collect::<Vec<_>>(),
        (Err(reason), _) | (_, Err(reason)) => return Some(Err(reason)),
    };
    let Some(Field::Word(mode)) = found.first() else { return Some(Err("it has no forward mode".to_owned())) };
    Some(sglang_step(mode, &found[1..]))
}

fn sglang_step(mode: &str, found: &[Field<'_>]) -> Result<Parsed, String> {
    let mut step = Step::new(Source::Sglang, Launch::NotTold);
    let (mut batch, mut toks, mut prefill, mut decode) = (None, None, Part::default(), Part::default());
    for field in found {
        let (key, value) = match field {
            Field::Pair(key, value) => (*key, *value),
            Field::Word(word) => {
                step.other.push(((*word).to_owned(), String::new()));
                continue;
            }
        };
        match key {
            "bs" => batch = Some(count(key, value)?),
            "toks" => toks = Some(count(key, value)?),
            "c" => prefill.seqs = Some(count(key, value)?),
            "g" => decode.seqs = Some(count(key, value)?),
            "c_sq" => prefill.tokens = Some(count(key, value)?),
            "g_sq" => decode.tokens = Some(count(key, value)?),
            "c_sqsq" => prefill.sums.nq2 = sum(&mut step, "c_sqsq", value),
            "c_sqsk" => prefill.sums.nq_nkv = sum(&mut step, "c_sqsk", value),
            "c_sk" => prefill.sums.nkv = sum(&mut step, "c_sk", value),
            "g_sqsq" => decode.sums.nq2 = sum(&mut step, "g_sqsq", value),
            "g_sqsk" => decode.sums.nq_nkv = sum(&mut step, "g_sqsk", value),
            "g_sk" => decode.sums.nkv = sum(&mut step, "g_sk", value),
            _ => step.other.push((key.to_owned(), value.to_owned())),
        }
    }
    let batch = batch.ok_or_else(|| "it has no bs field".to_owned())?;
    match mode.to_ascii_uppercase().as_str() {
        "DECODE" | "TARGET_VERIFY" => {
            // The label's first detailed form left Σ N_Q out because each sequence runs one token then.
            let one_each = decode.sums.nq2 == Some(u128::from(batch));
            decode.tokens = decode.tokens.or(toks).or_else(|| one_each.then_some(batch));
            (step.prefill, step.decode) = (Part::none(), Part { seqs: Some(batch), ..decode });
        }
        "EXTEND" | "SPLIT_PREFILL" | "DLLM_EXTEND" => {
            prefill.tokens = prefill.tokens.or(toks);
            (step.prefill, step.decode) = (Part { seqs: Some(batch), ..prefill }, Part::none());
        }
        "MIXED" => (step.prefill, step.decode) = (prefill, decode),
        "IDLE" => {
            step.total.seqs = Some(batch);
            return Ok(Parsed::Dummy(Box::new(step)));
        }
        "DRAFT_EXTEND" | "DRAFT_EXTEND_V2" => {
            return Ok(Parsed::Draft(Draft {
                drafter: mode.to_ascii_lowercase(),
                role: DraftRole::Propose,
                step: None,
                batch: Some(batch),
                padded_batch: None,
                tokens: toks.or(prefill.tokens),
                block: None,
                graph: false,
                other: step.other,
            }));
        }
        _ => return Err(format!("the forward mode `{}` is not known", shortened(mode))),
    }
    finish(&mut step, "");
    if step.total.seqs.is_some_and(|seqs| seqs != batch) {
        step.problem("bs", format!("c and g do not add up to bs={batch}"));
    }
    step.total.seqs = Some(batch);
    if step.total.tokens.is_none() && step.phase == Phase::Mixed {
        step.total.tokens = toks;
    }
    Ok(Parsed::Step(Box::new(step)))
}

/// Parses `capture_32_DECODE`, `capture_8192_PIECEWISE`, `capture_graph_bs_128`.
pub(super) fn capture(label: &str) -> Option<Result<Parsed, String>> {
    let rest = label.strip_prefix("capture_")?;
    if let Some(rest) = rest.strip_prefix("graph_bs_") {
        let mut cursor = Cursor::new(rest);
        return Some(cursor.count().map(|size| {
            Parsed::Capture(Capture { size, measure: CaptureSize::Batch, mode: cursor.rest().to_owned() })
        }));
    }
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut cursor = Cursor::new(rest);
    Some(cursor.count().and_then(|size| {
        cursor.need("_")?;
        let mode = cursor.rest().to_owned();
        let measure = match mode.to_ascii_uppercase().as_str() {
            "" => return Err("it names no mode".to_owned()),
            "DECODE" => CaptureSize::Batch,
            _ => CaptureSize::Tokens,
        };
        Ok(Parsed::Capture(Capture { size, measure, mode }))
    }))
}
