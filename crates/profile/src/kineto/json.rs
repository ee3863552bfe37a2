//! Walking JSON text that may be damaged: no tree, no recursion without a limit, no error. A damaged part reads as
//! absent; what stands before it is kept.

use kbench_workload::Value;
use std::borrow::Cow;

/// Values nested deeper than this read as [`Value::None`]; traces nest at most 4 levels.
const DEEPEST: u32 = 32;

/// White space as exporters write it. Commas count too, so that doubled and missing ones do not matter.
fn is_gap(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',')
}

/// Where in a container or string a scanner stands that gets its text in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Walk {
    pub(crate) depth: u32,
    pub(crate) in_string: bool,
    /// The next chunk begins with a character behind a backslash.
    pub(crate) escaped: bool,
}

impl Walk {
    /// The index after the quote that closes the string the scanner is in; `None` when it goes on in the next chunk.
    pub(crate) fn string_end(&mut self, chunk: &[u8], mut at: usize) -> Option<usize> {
        if std::mem::take(&mut self.escaped) {
            at += 1;
        }
        loop {
            let found = at + memchr::memchr2(b'"', b'\\', chunk.get(at..)?)?;
            if chunk[found] == b'"' {
                return Some(found + 1);
            }
            at = found + 2;
            self.escaped = at > chunk.len();
        }
    }
}

/// The index of the first byte at or after `at` that is no white space or comma.
pub(crate) fn skip_gap(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|byte| is_gap(*byte)) {
        at += 1;
    }
    at
}

/// The index just after the string whose opening quote is at `at`; `None` when it never closes.
pub(crate) fn string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    // Names and keys are short: a plain loop beats a call for most of them.
    for _ in 0..24 {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        match bytes[found] {
            b'"' => return Some(found + 1),
            _ => at = found + 2,
        }
    }
}

/// The index just after the value that starts at `at`; the end of `bytes` when it never ends.
pub(crate) fn value_end(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at) {
        Some(b'"') => string_end(bytes, at).unwrap_or(bytes.len()),
        Some(b'{' | b'[') => balanced_end(bytes, at),
        _ => {
            let scalar = &bytes[at.min(bytes.len())..];
            let ends = |byte: &u8| is_gap(*byte) || matches!(byte, b'}' | b']' | b':' | b'"' | b'{' | b'[');
            at + scalar.iter().position(ends).unwrap_or(scalar.len())
        }
    }
}

/// The index just after the object or list that opens at `at`, strings respected.
fn balanced_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b'"' => {
                match string_end(bytes, at) {
                    Some(end) => at = end,
                    None => return bytes.len(),
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The members of an object's text: raw key (still escaped) and raw value.
pub(crate) struct Members<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Members<'a> {
    /// Members of the object that starts at the first `{` of `bytes`; none when there is no object.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let at = skip_gap(bytes, 0);
        let at = if bytes.get(at) == Some(&b'{') { at + 1 } else { bytes.len() };
        Self { bytes, at }
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let key_at = skip_gap(self.bytes, self.at);
            match self.bytes.get(key_at)? {
                b'"' => {}
                b'}' => return None,
                // A stray word or bracket where a key should stand: step over it.
                _ => {
                    self.at = value_end(self.bytes, key_at).max(key_at + 1);
                    continue;
                }
            }
            let key_end = string_end(self.bytes, key_at)?;
            let colon = skip_gap(self.bytes, key_end);
            if self.bytes.get(colon) != Some(&b':') {
                self.at = key_end;
                continue;
            }
            let value_at = skip_gap(self.bytes, colon + 1);
            let end = value_end(self.bytes, value_at);
            self.at = end;
            return Some((&self.bytes[key_at + 1..key_end - 1], &self.bytes[value_at..end]));
        }
    }
}

/// The elements of a list's text, raw.
pub(super) struct Elements<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Elements<'a> {
    /// Elements of the list that starts at the first `[` of `bytes`; none when there is no list.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let at = skip_gap(bytes, 0);
        let at = if bytes.get(at) == Some(&b'[') { at + 1 } else { bytes.len() };
        Self { bytes, at }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let at = skip_gap(self.bytes, self.at);
            match self.bytes.get(at)? {
                b']' => return None,
                b':' | b'}' => self.at = at + 1,
                _ => {
                    self.at = value_end(self.bytes, at).max(at + 1);
                    return Some(&self.bytes[at..self.at]);
                }
            }
        }
    }
}

/// The text of a raw value: what stands inside the quotes of a string, else the value itself.
pub(crate) fn unquoted(raw: &[u8]) -> &[u8] {
    match raw {
        [b'"', inner @ .., b'"'] => inner,
        [b'"', inner @ ..] => inner,
        _ => raw,
    }
}

/// The text of a string's raw inside: escapes resolved, lone surrogates and invalid UTF-8 replaced by U+FFFD, control
/// characters kept, unknown escapes kept as they stand.
pub(crate) fn text(raw: &[u8]) -> Cow<'_, str> {
    if memchr::memchr(b'\\', raw).is_none() {
        return String::from_utf8_lossy(raw);
    }
    let mut out = String::with_capacity(raw.len());
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &raw[at..]) {
        out.push_str(&String::from_utf8_lossy(&raw[at..at + found]));
        at += found;
        at += push_escape(&raw[at..], &mut out);
    }
    out.push_str(&String::from_utf8_lossy(&raw[at..]));
    Cow::Owned(out)
}

/// Appends the character of the escape that `raw` starts with; returns the bytes it took.
fn push_escape(raw: &[u8], out: &mut String) -> usize {
    let plain = match raw.get(1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return push_code_unit(raw, out),
        _ => {
            out.push('\\');
            return 1;
        }
    };
    out.push(plain);
    2
}

/// Appends the character of a `\uXXXX` escape, or of a pair of them; returns the bytes taken.
fn push_code_unit(raw: &[u8], out: &mut String) -> usize {
    let Some(unit) = code_unit(raw) else {
        out.push('\\');
        return 1;
    };
    let low = raw.get(6..).and_then(code_unit).filter(|low| (0xdc00..0xe000).contains(low));
    match (unit, low) {
        (0xd800..0xdc00, Some(low)) => {
            let scalar = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
            out.push(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
            12
        }
        _ => {
            out.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
            6
        }
    }
}

/// The number of a `\uXXXX` escape at the start of `raw`.
fn code_unit(raw: &[u8]) -> Option<u32> {
    let digits = raw.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + (*digit as char).to_digit(16)?))
}

/// A raw value as a tree. For metadata and operator arguments, which are small.
pub(super) fn value(raw: &[u8]) -> Value {
    nested_value(raw, 0)
}

fn nested_value(raw: &[u8], depth: u32) -> Value {
    if depth > DEEPEST {
        return Value::None;
    }
    match raw.first() {
        Some(b'"') => Value::Text(text(unquoted(raw)).into_owned()),
        Some(b'[') => Value::List(Elements::of(raw).map(|item| nested_value(item, depth + 1)).collect()),
        Some(b'{') => {
            let member = |(key, item)| (text(key).into_owned(), nested_value(item, depth + 1));
            Value::Map(Members::of(raw).map(member).collect())
        }
        _ => match raw {
            b"true" => Value::Bool(true),
            b"false" => Value::Bool(false),
            b"null" | b"" => Value::None,
            _ => number(&text(raw)),
        },
    }
}

fn number(word: &str) -> Value {
    if let Ok(whole) = word.parse() {
        return Value::Int(whole);
    }
    match word.parse::<f64>() {
        Ok(real) if real.is_finite() => Value::Float(real),
        _ => Value::Text(word.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(text: &str) -> Vec<(&str, &str)> {
        let show = |bytes| std::str::from_utf8(bytes).unwrap();
        Members::of(text.as_bytes()).map(|(key, value)| (show(key), show(value))).collect()
    }

    #[test]
    fn members_come_in_order_with_nested_values_whole() {
        let found = members(r#" {"a": 1, "b":{"x":"}"},"c" : [1,"]",{"y":2}], "d":"q\"}" }"#);
        assert_eq!(found, [("a", "1"), ("b", r#"{"x":"}"}"#), ("c", r#"[1,"]",{"y":2}]"#), ("d", r#""q\"}""#)]);
    }

    #[test]
    fn damaged_objects_keep_what_stands_before_the_damage() {
        assert_eq!(members(r#"{"a": 1, "b"#), [("a", "1")]);
        assert_eq!(members(r#"{"a": 1 junk ] "b": 2"#), [("a", "1"), ("b", "2")]);
        assert_eq!(members(r#"{"a" "b": 2}"#), [("b", "2")]);
        assert_eq!(members(r#"{"a": [1, 2"#), [("a", "[1, 2")]);
        assert_eq!(members("[1]"), []);
    }

    #[test]
    fn strings_survive_what_the_standard_forbids() {
        assert_eq!(text(b"a\nb\x01"), "a\nb\x01");
        assert_eq!(text(br"\ud83d\ude00"), "\u{1f600}");
        assert_eq!(text(br"\ud83d!"), "\u{fffd}!");
        assert_eq!(text(br"\ude00\ud83d"), "\u{fffd}\u{fffd}");
        assert_eq!(text(br"C:\xdir\u12"), r"C:\xdir\u12");
        assert_eq!(text(b"\xff\\n\xfe"), "\u{fffd}\n\u{fffd}");
        assert_eq!(text(br"end\"), r"end\");
    }

    #[test]
    fn hostile_nesting_neither_overflows_nor_costs_more_than_linear_time() {
        let deep = [vec![b'['; 4_000_000], vec![b']'; 4_000_000]].concat();
        assert_eq!(value_end(&deep, 0), deep.len());
        let mut inner = value(&deep[4_000_000 - 100..4_000_100]);
        let mut levels = 0;
        while let Value::List(items) = inner {
            levels += 1;
            inner = items.into_iter().next().unwrap_or(Value::None);
        }
        assert_eq!(levels, DEEPEST + 1);
    }

    proptest! {
        /// The standard parser is the oracle on valid text.
        #[test]
        fn valid_strings_read_as_the_standard_parser_reads_them(plain in ".*", number in any::<i64>()) {
            let object = serde_json::json!({ "k": plain, "n": number, "l": [plain, number] });
            let text_form = object.to_string();
            let found = value(text_form.as_bytes());
            let list = Value::List(vec![Value::Text(plain.clone()), Value::Int(number.into())]);
            let expected = vec![("k".into(), Value::Text(plain)), ("l".into(), list), ("n".into(), Value::Int(number.into()))];
            let Value::Map(mut found) = found else { panic!("not an object") };
            found.sort_by(|a, b| a.0.cmp(&b.0));
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn any_bytes_are_walked_to_an_end(bytes in proptest::collection::vec(
            prop_oneof![Just(b'"'), Just(b'\\'), Just(b'{'), Just(b'}'), Just(b'['), Just(b']'), Just(b':'), any::<u8>()], 0..200)) {
            let _ = value(&bytes);
            let _ = Members::of(&bytes).count();
            let _ = Elements::of(&bytes).count();
            let _ = text(&bytes);
        }
    }
}
