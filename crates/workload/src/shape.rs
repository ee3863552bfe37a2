//! The sizes of one call: ordered `key=value` pairs, the same in CSV, JSON and launch rules.

use crate::error::ShapeError;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The longest list a shape may hold: what one step can batch is far below it, and a hostile file cannot ask for memory.
pub const MAX_LIST: usize = 1 << 20;

/// One value of a shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ShapeValue {
    /// A size: `m=16`.
    Int(u64),
    /// One size per sequence, in order: `ctx=[1024*31,77]`, where `a*n` is n times a.
    List(Vec<u64>),
    /// A choice: `causal=true`, `routing=zipf`.
    Word(String),
}

impl fmt::Display for ShapeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShapeValue::Int(value) => write!(f, "{value}"),
            ShapeValue::Word(word) => f.write_str(word),
            ShapeValue::List(values) => {
                f.write_str("[")?;
                for (index, run) in values.chunk_by(|a, b| a == b).enumerate() {
                    let separator = if index == 0 { "" } else { "," };
                    match run.len() {
                        1 => write!(f, "{separator}{}", run[0])?,
                        count => write!(f, "{separator}{}*{count}", run[0])?,
                    }
                }
                f.write_str("]")
            }
        }
    }
}

/// An ordered map of shape keys. Keys are short lower-case words and unique.
///
/// Text form: `m=16,n=2048,k=4096`; pairs may also be parted by blanks or `;` so that a hand-written CSV needs no quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShapeMap(Vec<(String, ShapeValue)>);

impl ShapeMap {
    /// An empty shape.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a size.
    #[must_use]
    pub fn with(self, key: &str, value: u64) -> Self {
        self.with_value(key, ShapeValue::Int(value))
    }

    /// Adds or replaces a word.
    #[must_use]
    pub fn with_word(self, key: &str, value: &str) -> Self {
        self.with_value(key, ShapeValue::Word(value.to_owned()))
    }

    /// Adds or replaces `key=true|false`.
    #[must_use]
    pub fn with_flag(self, key: &str, value: bool) -> Self {
        self.with_word(key, if value { "true" } else { "false" })
    }

    /// Adds or replaces a list.
    #[must_use]
    pub fn with_list(self, key: &str, values: Vec<u64>) -> Self {
        self.with_value(key, ShapeValue::List(values))
    }

    /// Adds or replaces a value of any kind.
    #[must_use]
    pub fn with_value(mut self, key: &str, value: ShapeValue) -> Self {
        match self.0.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
        self
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&ShapeValue> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ShapeValue)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// True when there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A size, if the key is there.
    ///
    /// # Errors
    /// When the value is not a whole number.
    pub fn int(&self, key: &str) -> Result<Option<u64>, ShapeError> {
        match self.get(key) {
            None => Ok(None),
            Some(ShapeValue::Int(value)) => Ok(Some(*value)),
            Some(other) => Err(ShapeError::invalid(key, other, "a whole number is needed")),
        }
    }

    /// A truth value (`true`, `false`, `1`, `0`), if the key is there.
    ///
    /// # Errors
    /// When the value is anything else.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, ShapeError> {
        match self.get(key) {
            None => Ok(None),
            Some(ShapeValue::Int(0)) => Ok(Some(false)),
            Some(ShapeValue::Int(1)) => Ok(Some(true)),
            Some(ShapeValue::Word(word)) if word == "true" => Ok(Some(true)),
            Some(ShapeValue::Word(word)) if word == "false" => Ok(Some(false)),
            Some(other) => Err(ShapeError::invalid(key, other, "true or false is needed")),
        }
    }

    /// A word, if the key is there.
    ///
    /// # Errors
    /// When the value is a number or a list.
    pub fn word(&self, key: &str) -> Result<Option<&str>, ShapeError> {
        match self.get(key) {
            None => Ok(None),
            Some(ShapeValue::Word(word)) => Ok(Some(word)),
            Some(other) => Err(ShapeError::invalid(key, other, "a word is needed")),
        }
    }

    /// A list, if the key is there; a single number is a list of one.
    ///
    /// # Errors
    /// When the value is a word.
    pub fn list(&self, key: &str) -> Result<Option<Vec<u64>>, ShapeError> {
        match self.get(key) {
            None => Ok(None),
            Some(ShapeValue::List(values)) => Ok(Some(values.clone())),
            Some(ShapeValue::Int(value)) => Ok(Some(vec![*value])),
            Some(other) => Err(ShapeError::invalid(key, other, "a list such as [128,256] is needed")),
        }
    }

    /// A size that the family cannot do without; must be at least 1.
    ///
    /// # Errors
    /// When it is missing, not a number, or 0.
    pub fn need(&self, family: &'static str, key: &'static str, what: &'static str) -> Result<u64, ShapeError> {
        match self.int(key)? {
            None => Err(ShapeError::Missing { family, key, what }),
            Some(0) => Err(ShapeError::invalid(key, 0, format!("{what}: must be at least 1"))),
            Some(value) => Ok(value),
        }
    }

    /// Refuses keys that the family does not know, so that a misspelt one is not silently ignored.
    ///
    /// # Errors
    /// On the first unknown key.
    pub fn only(&self, family: &'static str, known: &[&str]) -> Result<(), ShapeError> {
        match self.0.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some((key, _)) => Err(ShapeError::Unknown { family, key: key.clone(), known: known.join(", ") }),
        }
    }
}

impl fmt::Display for ShapeMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{key}={value}")?;
        }
        Ok(())
    }
}

impl FromStr for ShapeMap {
    type Err = ShapeError;

    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let mut shape = ShapeMap::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (key, after) =
                rest.split_once('=').ok_or_else(|| ShapeError::grammar(rest, "`key=value` pairs are needed"))?;
            let key = key.trim();
            let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            if key.is_empty() || !key.chars().all(is_word) {
                return Err(ShapeError::grammar(text, format!("`{key}` is not a key (lower-case letters, digits, _)")));
            }
            let (value, remaining) = parse_value(text, after.trim_start())?;
            if shape.get(key).is_some() {
                return Err(ShapeError::grammar(text, format!("`{key}` is given twice")));
            }
            shape.0.push((key.to_owned(), value));
            rest = remaining.trim_start().trim_start_matches([',', ';']).trim_start();
        }
        Ok(shape)
    }
}

/// Parses the value at the head of `rest`; returns it and what follows.
fn parse_value<'a>(whole: &str, rest: &'a str) -> Result<(ShapeValue, &'a str), ShapeError> {
    if let Some(inner) = rest.strip_prefix('[') {
        let (list, after) =
            inner.split_once(']').ok_or_else(|| ShapeError::grammar(whole, "a list lacks its closing bracket"))?;
        return Ok((ShapeValue::List(parse_list(whole, list)?), after));
    }
    let end = rest.find(|c: char| c == ',' || c == ';' || c.is_whitespace()).unwrap_or(rest.len());
    let (value, after) = rest.split_at(end);
    if value.is_empty() {
        return Err(ShapeError::grammar(whole, "a key has no value"));
    }
    if value.starts_with(|c: char| c.is_ascii_digit()) && value.chars().all(|c| c.is_ascii_digit()) {
        let number = value.parse().map_err(|_| ShapeError::grammar(whole, format!("{value} does not fit 64 bits")))?;
        return Ok((ShapeValue::Int(number), after));
    }
    if value.chars().any(|c| c == '=' || c == '[' || c == ']' || c.is_control()) || value.starts_with('-') {
        return Err(ShapeError::grammar(whole, format!("`{value}` is not a value")));
    }
    Ok((ShapeValue::Word(value.to_owned()), after))
}

fn parse_list(whole: &str, list: &str) -> Result<Vec<u64>, ShapeError> {
    let mut values = Vec::new();
    for item in list.split([',', ';']).flat_map(str::split_whitespace) {
        let (value, count) = item.split_once('*').unwrap_or((item, "1"));
        let number = |text: &str| {
            text.parse::<u64>().map_err(|_| ShapeError::grammar(whole, format!("`{item}` is not a number or a*n")))
        };
        let (value, count) = (number(value)?, number(count)?);
        if values.len() as u64 + count.min(MAX_LIST as u64 + 1) > MAX_LIST as u64 {
            return Err(ShapeError::grammar(whole, format!("a list holds at most {MAX_LIST} values")));
        }
        values.extend(std::iter::repeat_n(value, count as usize));
    }
    Ok(values)
}

impl Serialize for ShapeMap {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

impl<'de> Deserialize<'de> for ShapeMap {
    /// Reads the object that [`Serialize`] writes, keys in the order of the document.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> serde::de::Visitor<'de> for Pairs {
            type Value = ShapeMap;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of sizes")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut pairs: A) -> Result<ShapeMap, A::Error> {
                use serde::de::Error as _;
                let mut shape = ShapeMap::new();
                while let Some((key, value)) = pairs.next_entry::<String, ShapeValue>()? {
                    if shape.get(&key).is_some() {
                        return Err(A::Error::custom(format!("the shape has `{key}` twice")));
                    }
                    if matches!(&value, ShapeValue::List(values) if values.len() > MAX_LIST) {
                        return Err(A::Error::custom(format!("`{key}` holds more than {MAX_LIST} values")));
                    }
                    shape.0.push((key, value));
                }
                Ok(shape)
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn separators_are_comma_blank_and_semicolon() {
        let shape: ShapeMap = "m=16,n=2048,k=4096".parse().unwrap();
        for text in ["m=16 n=2048 k=4096", "m=16; n=2048 ;k=4096", " m=16 , n=2048,k = 4096 "] {
            assert_eq!(text.parse::<ShapeMap>(), Ok(shape.clone()), "{text}");
        }
        assert_eq!(shape.to_string(), "m=16,n=2048,k=4096");
    }

    #[test]
    fn lists_use_runs() {
        let shape: ShapeMap = "ctx=[1024*3,77],causal=true".parse().unwrap();
        assert_eq!(shape.list("ctx").unwrap().unwrap(), [1024, 1024, 1024, 77]);
        assert_eq!(shape.flag("causal").unwrap(), Some(true));
        assert_eq!(shape.to_string(), "ctx=[1024*3,77],causal=true");
    }

    #[test]
    fn hostile_lists_do_not_allocate() {
        for text in ["a=[1*18446744073709551615]", "a=[1*1048577]", "a=[1*1048576,1]"] {
            assert!(text.parse::<ShapeMap>().is_err(), "{text}");
        }
    }

    #[test]
    fn errors_name_the_trouble() {
        for (text, part) in [
            ("m", "key=value"),
            ("m=", "no value"),
            ("M=1", "not a key"),
            ("m=1,m=2", "twice"),
            ("m=[1", "closing"),
            ("m=99999999999999999999", "64 bits"),
            ("m=-1", "not a value"),
        ] {
            let error = text.parse::<ShapeMap>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_errs(text in "\\PC{0,60}") {
            let _ = text.parse::<ShapeMap>();
        }

        #[test]
        fn text_round_trips(
            pairs in prop::collection::btree_map("[a-z_][a-z0-9_]{0,6}", prop_oneof![
                any::<u64>().prop_map(ShapeValue::Int),
                prop::collection::vec(0u64..4, 0..9).prop_map(ShapeValue::List),
                "[a-z][a-z0-9_.:]{0,8}".prop_map(ShapeValue::Word),
            ], 0..6)
        ) {
            let shape = pairs.iter().fold(ShapeMap::new(), |s, (k, v)| s.with_value(k, v.clone()));
            prop_assert_eq!(&shape.to_string().parse::<ShapeMap>().unwrap(), &shape);
            let json = serde_json::to_string(&shape).unwrap();
            prop_assert_eq!(serde_json::from_str::<ShapeMap>(&json).unwrap(), shape);
        }
    }
}
