//! Parser of Python's `repr`: the list cells of TraceLens CSVs are Python text, not JSON.
//!
//! It reads tuples, lists, sets, dicts, `None`, `True`, `False`, whole and real numbers (`nan` and `inf` too), strings in both
//! quote styles, dotted words (`torch.bfloat16`), and calls that wrap one value (`np.float64(1.5)`, `array([1, 2], dtype=int32)`),
//! which stand for that value. One pass, no backtracking; depth and number of values are bounded, so that no cell can
//! exhaust stack or memory.

use kbench_workload::Value;

/// Deepest nesting that is read; real cells are at most five deep.
pub const MAX_DEPTH: usize = 64;
/// Most values in one cell; the largest real cell (every kernel of a replayed graph) holds about ten thousand.
pub const MAX_VALUES: usize = 1 << 20;

/// Why a text is not a Python value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a Python value at byte {offset}: {reason}")]
pub struct ReprError {
    /// Byte offset into the text.
    pub offset: usize,
    /// What was expected or exceeded.
    pub reason: &'static str,
}

/// Parses one value; white space around it is allowed. Tuples, lists and sets become [`Value::List`]; dict keys that are no strings become
/// their text; a whole number beyond 128 bits becomes a float.
///
/// # Errors
/// When the text is not one complete value, or is nested deeper than [`MAX_DEPTH`] or holds more than [`MAX_VALUES`] values.
pub fn parse(text: &str) -> Result<Value, ReprError> {
    let mut parser = Parser { text, at: 0, values: 0 };
    let value = parser.value(0)?;
    parser.skip_space();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(parser.error("text after the end of the value")),
    }
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
    values: usize,
}

impl<'t> Parser<'t> {
    fn error(&self, reason: &'static str) -> ReprError {
        ReprError { offset: self.at, reason }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    /// Takes `byte` if it is next, after white space.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Value, ReprError> {
        if depth > MAX_DEPTH {
            return Err(self.error("nested too deeply"));
        }
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(self.error("too many values in one cell"));
        }
        self.skip_space();
        match self.peek() {
            None => Err(self.error("a value is missing")),
            Some(b'(') => self.tuple(depth),
            Some(b'[') => {
                self.at += 1;
                Ok(Value::List(self.items(depth, b']', Vec::new())?))
            }
            Some(b'{') => self.dict_or_set(depth),
            Some(b'\'' | b'"') => Ok(Value::Text(self.string()?)),
            Some(b'0'..=b'9' | b'+' | b'-' | b'.') => self.number(),
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => self.word(depth),
            Some(_) => Err(self.error("no value starts like this")),
        }
    }

    /// Values parted by commas up to `close`, the first ones being `items` already.
    fn items(&mut self, depth: usize, close: u8, mut items: Vec<Value>) -> Result<Vec<Value>, ReprError> {
        loop {
            if self.take(close) {
                return Ok(items);
            }
            if !items.is_empty() {
                if !self.take(b',') {
                    return Err(self.error("a comma or a closing bracket is missing"));
                }
                if self.take(close) {
                    return Ok(items);
                }
            }
            items.push(self.value(depth + 1)?);
        }
    }

    /// `()`, `(a,)`, `(a, b)`; `(a)` is `a`.
    fn tuple(&mut self, depth: usize) -> Result<Value, ReprError> {
        self.at += 1;
        if self.take(b')') {
            return Ok(Value::List(Vec::new()));
        }
        let first = self.value(depth + 1)?;
        if self.take(b')') {
            return Ok(first);
        }
        Ok(Value::List(self.items(depth, b')', vec![first])?))
    }

    fn dict_or_set(&mut self, depth: usize) -> Result<Value, ReprError> {
        self.at += 1;
        let mut pairs = Vec::new();
        if self.take(b'}') {
            return Ok(Value::Map(pairs));
        }
        loop {
            let key = self.value(depth + 1)?;
            if !self.take(b':') {
                return match pairs.is_empty() {
                    true => Ok(Value::List(self.items(depth, b'}', vec![key])?)),
                    false => Err(self.error("a dict key lacks its colon")),
                };
            }
            pairs.push((
                key_text(key).ok_or_else(|| self.error("a list cannot be a dict key"))?,
                self.value(depth + 1)?,
            ));
            if self.take(b'}') {
                return Ok(Value::Map(pairs));
            }
            if !self.take(b',') {
                return Err(self.error("a comma or a closing brace is missing"));
            }
            if self.take(b'}') {
                return Ok(Value::Map(pairs));
            }
        }
    }

    fn number(&mut self) -> Result<Value, ReprError> {
        let start = self.at;
        if matches!(self.peek(), Some(b'+' | b'-')) {
            self.at += 1;
        }
        let rest = &self.text[self.at..];
        if let Some(word) = ["inf", "nan"].into_iter().find(|word| rest.starts_with(word)) {
            self.at += word.len();
            return Ok(Value::Float(self.text[start..self.at].parse().unwrap_or(f64::NAN)));
        }
        let mut whole = true;
        while let Some(byte) = self.peek() {
            match byte {
                b'0'..=b'9' => {}
                b'.' | b'e' | b'E' => whole = false,
                // A sign belongs to the number only behind its exponent letter.
                b'+' | b'-' if matches!(self.text.as_bytes()[self.at - 1], b'e' | b'E') => {}
                _ => break,
            }
            self.at += 1;
        }
        let digits = &self.text[start..self.at];
        if whole && let Ok(number) = digits.parse() {
            return Ok(Value::Int(number));
        }
        digits.parse().map(Value::Float).map_err(|_| ReprError { offset: start, reason: "a malformed number" })
    }

    /// `None`, `True`, `False`, `nan`, `inf`, a dotted word, or a call around one value.
    fn word(&mut self, depth: usize) -> Result<Value, ReprError> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.')) {
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        match self.peek() {
            Some(b'(') => return self.call(depth),
            Some(b'\'' | b'"') if matches!(word, "b" | "u" | "r") => return Ok(Value::Text(self.string()?)),
            _ => {}
        }
        Ok(match word {
            "None" => Value::None,
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            "nan" => Value::Float(f64::NAN),
            "inf" => Value::Float(f64::INFINITY),
            _ => Value::Text(word.to_owned()),
        })
    }

    /// `name(value)` is the value; keyword arguments behind it are read and dropped; `name()` is an empty list.
    fn call(&mut self, depth: usize) -> Result<Value, ReprError> {
        self.at += 1;
        if self.take(b')') {
            return Ok(Value::List(Vec::new()));
        }
        let value = self.value(depth + 1)?;
        loop {
            if self.take(b')') {
                return Ok(value);
            }
            if !self.take(b',') {
                return Err(self.error("a call lacks its closing bracket"));
            }
            if self.take(b')') {
                return Ok(value);
            }
            self.value(depth + 1)?;
            if !self.take(b'=') {
                return Err(self.error("only calls around one value are known"));
            }
            self.value(depth + 1)?;
        }
    }

    fn string(&mut self) -> Result<String, ReprError> {
        let start = self.at;
        let quote = self.text.as_bytes()[start];
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let Some(length) = memchr::memchr2(quote, b'\\', rest) else {
                return Err(ReprError { offset: start, reason: "a string lacks its closing quote" });
            };
            out.push_str(&self.text[self.at..self.at + length]);
            self.at += length;
            if self.peek() == Some(quote) {
                self.at += 1;
                return Ok(out);
            }
            self.escape(&mut out)?;
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), ReprError> {
        let rest = &self.text[self.at + 1..];
        let Some(letter) = rest.chars().next() else {
            return Err(self.error("a string ends in the middle of an escape"));
        };
        let hex = |length: usize| {
            let digits = rest.get(1..1 + length).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            // Lone surrogates are legal in Python text, not in ours.
            digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()).map(|code| (code, 1 + length))
        };
        let (code, length) = match letter {
            'n' => (u32::from(b'\n'), 1),
            'r' => (u32::from(b'\r'), 1),
            't' => (u32::from(b'\t'), 1),
            'a' => (7, 1),
            'b' => (8, 1),
            'f' => (12, 1),
            'v' => (11, 1),
            '\\' | '\'' | '"' => (u32::from(letter), 1),
            '0'..='7' => {
                let length = rest.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                (u32::from_str_radix(&rest[..length], 8).unwrap_or(0), length)
            }
            'x' => hex(2).ok_or_else(|| self.error("\\x needs two hexadecimal digits"))?,
            'u' => hex(4).ok_or_else(|| self.error("\\u needs four hexadecimal digits"))?,
            'U' => hex(8).ok_or_else(|| self.error("\\U needs eight hexadecimal digits"))?,
            // As Python does: an unknown escape stands for itself.
            other => {
                out.push('\\');
                (u32::from(other), other.len_utf8())
            }
        };
        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        self.at += 1 + length;
        Ok(())
    }
}

fn key_text(key: Value) -> Option<String> {
    match key {
        Value::Text(text) => Some(text),
        Value::Int(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Bool(true) => Some("True".to_owned()),
        Value::Bool(false) => Some("False".to_owned()),
        Value::None => Some("None".to_owned()),
        Value::List(_) | Value::Map(_) => None,
    }
}

#[cfg(test)]
#[path = "pyrepr_tests.rs"]
mod tests;
