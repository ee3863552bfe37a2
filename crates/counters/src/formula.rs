//! Formulas over counters: what is printed is what is computed.
//!
//! Grammar: numbers, counters, constants, `+ - * /`, parentheses, `max(a, b)`, `min(a, b)` and rocprofiler-sdk's `reduce(X, sum|max|min|avr)`.
//! `accumulate(...)`, `select(...)` and `reduce` over anything but a counter are understood for what they count, but only the SDK can compute them.
//! A formula is kept as a program for a stack machine, so that hostile ones cannot exhaust the stack.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Longest formula that is read, in bytes. The SDK's longest has about 600.
const MAX_LENGTH: usize = 16 << 10;
/// Deepest nesting of parentheses and calls.
const MAX_DEPTH: usize = 64;

/// How the instances of a counter become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// The sum of all instances.
    Sum,
    /// The largest instance.
    Max,
    /// The smallest instance.
    Min,
    /// The mean of all instances.
    Mean,
}

impl Reduction {
    /// What a counter stands for without a word on it: the largest XCC for `GRBM_*`, which count time; the sum for all others.
    pub fn usual(counter: &str) -> Self {
        if counter.starts_with("GRBM_") { Reduction::Max } else { Reduction::Sum }
    }
}

/// What is not counted but known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Constant {
    /// Compute units.
    CuNum,
    /// SIMDs.
    SimdNum,
    /// XCCs.
    XccNum,
    /// Lanes of a wave.
    WaveSize,
    /// Wave slots a compute unit.
    MaxWavesPerCu,
    /// Duration that the case is reported with, ns.
    DurationNs,
    /// Duration of the counted launches, ns.
    CountedNs,
}

impl Constant {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "CU_NUM" => Constant::CuNum,
            "SIMD_NUM" => Constant::SimdNum,
            "XCC_NUM" => Constant::XccNum,
            "WAVE_SIZE" | "MAX_WAVE_SIZE" => Constant::WaveSize,
            "MAX_WAVES_PER_CU" => Constant::MaxWavesPerCu,
            "DURATION_NS" => Constant::DurationNs,
            "COUNTED_NS" => Constant::CountedNs,
            _ => return None,
        })
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Constant::CuNum => "CU_NUM",
            Constant::SimdNum => "SIMD_NUM",
            Constant::XccNum => "XCC_NUM",
            Constant::WaveSize => "WAVE_SIZE",
            Constant::MaxWavesPerCu => "MAX_WAVES_PER_CU",
            Constant::DurationNs => "DURATION_NS",
            Constant::CountedNs => "COUNTED_NS",
        })
    }
}

/// What a formula asks its surroundings for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand<'f> {
    /// A counter, reduced.
    Counter(&'f str, Reduction),
    /// A constant.
    Constant(Constant),
}

/// Why a text is no formula.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the formula is not understood at column {column}: {what}")]
pub struct FormulaError {
    /// Column, from 1, in bytes.
    pub column: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// Why a formula has no value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EvalError<E> {
    /// It uses what only rocprofiler-sdk can compute.
    #[error("only rocprofiler-sdk can compute it (accumulation over time, or a selection of instances)")]
    SdkOnly,
    /// An operand is not there.
    #[error(transparent)]
    Operand(E),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Number(f64),
    Counter(u16, Reduction),
    Constant(Constant),
    Negate,
    Add,
    Subtract,
    Multiply,
    Divide,
    Max,
    Min,
}

/// A formula.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula {
    text: String,
    counters: Vec<String>,
    /// Empty when only the SDK can compute it.
    steps: Vec<Step>,
    accumulations: u16,
}

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    /// Where and what is not understood; also when it is longer than 16 KiB or nested deeper than 64.
    pub fn parse(text: &str) -> Result<Self, FormulaError> {
        let mut parser = Parser { text: text.as_bytes(), at: 0, depth: 0, out: Output::default() };
        if text.len() > MAX_LENGTH {
            return Err(parser.error("it is longer than 16 KiB"));
        }
        parser.sum()?;
        parser.blanks();
        if parser.at < text.len() {
            return Err(parser.error("an operator or the end was expected"));
        }
        let Output { counters, steps, sdk_only, accumulations } = parser.out;
        Ok(Self { text: text.to_owned(), counters, steps: if sdk_only { Vec::new() } else { steps }, accumulations })
    }

    /// The text it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Names of counters in it, each once, as they appear. Other metrics may be among them where the text is the SDK's.
    pub fn counters(&self) -> &[String] {
        &self.counters
    }

    /// How many accumulations over time it holds: each takes another SQ counter while it runs.
    pub fn accumulations(&self) -> u16 {
        self.accumulations
    }

    /// True when only rocprofiler-sdk can compute it.
    pub fn is_sdk_only(&self) -> bool {
        self.steps.is_empty()
    }

    /// True when it asks for this constant.
    pub fn uses(&self, constant: Constant) -> bool {
        self.steps.contains(&Step::Constant(constant))
    }

    /// Computes it. Division by 0 gives an infinity or NaN, as in arithmetic.
    ///
    /// # Errors
    /// The first operand that `lookup` refuses, or [`EvalError::SdkOnly`].
    pub fn eval<E>(&self, mut lookup: impl FnMut(Operand<'_>) -> Result<f64, E>) -> Result<f64, EvalError<E>> {
        if self.is_sdk_only() {
            return Err(EvalError::SdkOnly);
        }
        let mut stack: Vec<f64> = Vec::with_capacity(8);
        for step in &self.steps {
            let value = match *step {
                Step::Number(value) => value,
                Step::Counter(index, reduction) => {
                    let name = self.counters.get(usize::from(index)).map_or("", String::as_str);
                    lookup(Operand::Counter(name, reduction)).map_err(EvalError::Operand)?
                }
                Step::Constant(constant) => lookup(Operand::Constant(constant)).map_err(EvalError::Operand)?,
                Step::Negate => -stack.pop().unwrap_or(f64::NAN),
                binary => {
                    let right = stack.pop().unwrap_or(f64::NAN);
                    let left = stack.pop().unwrap_or(f64::NAN);
                    binary.apply(left, right)
                }
            };
            stack.push(value);
        }
        Ok(stack.pop().unwrap_or(f64::NAN))
    }
}

impl Step {
    fn apply(self, left: f64, right: f64) -> f64 {
        match self {
            Step::Add => left + right,
            Step::Subtract => left - right,
            Step::Multiply => left * right,
            Step::Divide => left / right,
            Step::Max => left.max(right),
            Step::Min => left.min(right),
            Step::Number(_) | Step::Counter(..) | Step::Constant(_) | Step::Negate => f64::NAN,
        }
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Default)]
struct Output {
    counters: Vec<String>,
    steps: Vec<Step>,
    sdk_only: bool,
    accumulations: u16,
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
    out: Output,
}

impl<'t> Parser<'t> {
    fn error(&self, what: &'static str) -> FormulaError {
        FormulaError { column: self.at + 1, what }
    }

    fn blanks(&mut self) {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn sum(&mut self) -> Result<(), FormulaError> {
        self.product()?;
        while let Some(step) = match self.peek() {
            Some(b'+') => Some(Step::Add),
            Some(b'-') => Some(Step::Subtract),
            _ => None,
        } {
            self.at += 1;
            self.product()?;
            self.out.steps.push(step);
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), FormulaError> {
        self.factor()?;
        while let Some(step) = match self.peek() {
            Some(b'*') => Some(Step::Multiply),
            Some(b'/') => Some(Step::Divide),
            _ => None,
        } {
            self.at += 1;
            self.factor()?;
            self.out.steps.push(step);
        }
        Ok(())
    }

    fn factor(&mut self) -> Result<(), FormulaError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("it is nested deeper than 64"));
        }
        match self.peek() {
            Some(b'-') => {
                self.at += 1;
                self.factor()?;
                self.out.steps.push(Step::Negate);
            }
            Some(b'(') => {
                self.at += 1;
                self.sum()?;
                self.close()?;
            }
            Some(byte) if byte.is_ascii_digit() || byte == b'.' => self.number()?,
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => self.name()?,
            Some(_) => return Err(self.error("a number, a name or `(` was expected")),
            None => return Err(self.error("it ends where a number, a name or `(` was expected")),
        }
        self.depth -= 1;
        Ok(())
    }

    fn close(&mut self) -> Result<(), FormulaError> {
        if self.take(b')') { Ok(()) } else { Err(self.error("`)` was expected")) }
    }

    fn number(&mut self) -> Result<(), FormulaError> {
        let start = self.at;
        while let Some(byte) = self.text.get(self.at) {
            let after_e = self.at > start && matches!(self.text.get(self.at - 1), Some(b'e' | b'E'));
            let is_part =
                byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E') || after_e && matches!(byte, b'+' | b'-');
            if !is_part {
                break;
            }
            self.at += 1;
        }
        let text = self.text.get(start..self.at).and_then(|bytes| std::str::from_utf8(bytes).ok());
        match text.and_then(|text| text.parse::<f64>().ok()).filter(|value| value.is_finite()) {
            Some(value) => self.out.steps.push(Step::Number(value)),
            None => return Err(FormulaError { column: start + 1, what: "this is no number" }),
        }
        Ok(())
    }

    fn word(&mut self) -> &'t str {
        self.blanks();
        let start = self.at;
        while self.text.get(self.at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
            self.at += 1;
        }
        self.text.get(start..self.at).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    fn name(&mut self) -> Result<(), FormulaError> {
        let word = self.word();
        if self.peek() != Some(b'(') {
            return match Constant::of(word) {
                Some(constant) => {
                    self.out.steps.push(Step::Constant(constant));
                    Ok(())
                }
                None => self.counter(word, Reduction::usual(word)),
            };
        }
        self.at += 1;
        match word {
            "max" => self.pair(Step::Max),
            "min" => self.pair(Step::Min),
            "reduce" => self.reduce(),
            "accumulate" => {
                self.out.accumulations = self.out.accumulations.saturating_add(1);
                self.foreign()
            }
            "select" => self.foreign(),
            _ => Err(self.error("this function is not known (max, min, reduce, accumulate, select)")),
        }
    }

    fn pair(&mut self, step: Step) -> Result<(), FormulaError> {
        self.sum()?;
        if !self.take(b',') {
            return Err(self.error("`,` was expected"));
        }
        self.sum()?;
        self.out.steps.push(step);
        self.close()
    }

    /// `reduce(X, how)`, and its forms over calls or by dimension, which only the SDK has.
    fn reduce(&mut self) -> Result<(), FormulaError> {
        let start = self.at;
        let name = self.word();
        if name.is_empty() || self.peek() != Some(b',') {
            self.at = start;
            return self.foreign();
        }
        self.at += 1;
        let reduction = match self.word() {
            "sum" => Reduction::Sum,
            "max" => Reduction::Max,
            "min" => Reduction::Min,
            "avr" | "avg" => Reduction::Mean,
            _ => return Err(self.error("`sum`, `max`, `min` or `avr` was expected")),
        };
        if self.peek() == Some(b',') {
            self.at = start;
            return self.foreign();
        }
        self.counter(name, reduction)?;
        self.close()
    }

    /// Arguments of a call that only the SDK can compute: the counters in it are noted, up to its `)`.
    fn foreign(&mut self) -> Result<(), FormulaError> {
        self.out.sdk_only = true;
        let mut open = 1_usize;
        loop {
            match self.peek() {
                Some(b'(') => {
                    open += 1;
                    self.at += 1;
                }
                Some(b')') => {
                    open -= 1;
                    self.at += 1;
                    if open == 0 {
                        return Ok(());
                    }
                }
                Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                    let word = self.word();
                    match word {
                        "accumulate" => self.out.accumulations = self.out.accumulations.saturating_add(1),
                        // Keywords, dimensions and reductions are lower case or known; counters have a block before an underscore.
                        "HIGH_RES" | "LOW_RES" | "NONE" => {}
                        _ if is_dimension(word) || !word.contains('_') => {}
                        _ => {
                            self.note(word)?;
                        }
                    }
                }
                Some(_) => self.at += 1,
                None => return Err(self.error("`)` was expected")),
            }
        }
    }

    fn counter(&mut self, name: &str, reduction: Reduction) -> Result<(), FormulaError> {
        let index = self.note(name)?;
        self.out.steps.push(Step::Counter(index, reduction));
        Ok(())
    }

    fn note(&mut self, name: &str) -> Result<u16, FormulaError> {
        let found = self.out.counters.iter().position(|known| known == name);
        let index = found.unwrap_or_else(|| {
            self.out.counters.push(name.to_owned());
            self.out.counters.len() - 1
        });
        u16::try_from(index).map_err(|_| self.error("it has too many counters"))
    }
}

fn is_dimension(word: &str) -> bool {
    word.starts_with("DIMENSION_")
}

#[cfg(test)]
mod tests;
