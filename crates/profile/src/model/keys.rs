//! Typed access to a config's keys.

use super::ModelError;
use serde_json::{Map, Value};

/// The largest value of any size: far above every model, and products of three sizes fit 64 bits.
const MOST: u64 = 1 << 20;
/// The largest vocabulary and expert width times count.
const MOST_WIDE: u64 = 1 << 28;
/// The longest list of layer numbers.
const LONGEST_LIST: usize = 4096;

/// A config: the text model's keys, then the keys of the whole (multimodal configs nest the text model).
pub(super) struct Keys<'a> {
    pub(super) architecture: String,
    text: &'a Map<String, Value>,
    whole: &'a Map<String, Value>,
}

impl<'a> Keys<'a> {
    pub(super) fn new(whole: &'a Map<String, Value>) -> Self {
        let nested =
            ["text_config", "llm_config", "language_config"].iter().find_map(|key| whole.get(*key)?.as_object());
        let text = if whole.contains_key("hidden_size") { whole } else { nested.unwrap_or(whole) };
        Self { architecture: String::new(), text, whole }
    }

    /// The value of a key; JSON's null counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.text.get(key).or_else(|| self.whole.get(key)).filter(|value| !value.is_null())
    }

    /// A size that may be absent; at least 1.
    pub(super) fn size(&self, key: &str) -> Result<Option<u64>, ModelError> {
        self.bounded(key, 1, MOST)
    }

    /// A vocabulary-like size that may be absent; at least 1.
    pub(super) fn wide(&self, key: &str) -> Result<Option<u64>, ModelError> {
        self.bounded(key, 1, MOST_WIDE)
    }

    /// A count that may be absent or 0.
    pub(super) fn number(&self, key: &str) -> Result<Option<u64>, ModelError> {
        self.bounded(key, 0, MOST)
    }

    fn bounded(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, ModelError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_u64() {
            Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
            _ => Err(invalid(key, value, format!("a whole number from {least} to {most} is needed"))),
        }
    }

    /// A size that must be there.
    pub(super) fn need(&self, key: &'static str, what: &'static str) -> Result<u64, ModelError> {
        self.size(key)?.ok_or_else(|| self.missing(key, what))
    }

    /// The first of several spellings of a size that must be there.
    pub(super) fn need_any(&self, keys: &[&'static str], what: &'static str) -> Result<u64, ModelError> {
        for key in keys {
            if let Some(size) = self.size(key)? {
                return Ok(size);
            }
        }
        Err(self.missing(keys.first().copied().unwrap_or_default(), what))
    }

    pub(super) fn missing(&self, key: &'static str, what: &'static str) -> ModelError {
        ModelError::Missing { architecture: self.architecture.clone(), key, what }
    }

    /// A truth value that may be absent.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ModelError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(invalid(key, other, "true or false is needed")),
        }
    }

    /// A text that may be absent.
    pub(super) fn text(&self, key: &str) -> Result<Option<&'a str>, ModelError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(invalid(key, other, "a text is needed")),
        }
    }

    /// A list with one entry a layer that may be absent.
    pub(super) fn per_layer(&self, key: &str, layers: usize) -> Result<Option<&'a [Value]>, ModelError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(items)) if items.len() == layers => Ok(Some(items)),
            Some(Value::Array(items)) => {
                let found = format!("a list of {}", items.len());
                let reason = format!("it needs one entry for each of the {layers} layers");
                Err(ModelError::Invalid { key: key.to_owned(), found, reason })
            }
            Some(other) => Err(invalid(key, other, "a list with one entry a layer is needed")),
        }
    }

    fn bad_list(&self, key: &str) -> ModelError {
        ModelError::Invalid {
            key: key.to_owned(),
            found: "something else".to_owned(),
            reason: format!("a list of at most {LONGEST_LIST} whole numbers is needed"),
        }
    }

    /// A list of whole numbers that may be absent.
    pub(super) fn numbers(&self, key: &str) -> Result<Option<Vec<u64>>, ModelError> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Array(items)) if items.len() <= LONGEST_LIST => {
                let numbers = items.iter().map(Value::as_u64).collect::<Option<Vec<_>>>();
                numbers.map(Some).ok_or_else(|| self.bad_list(key))
            }
            Some(_) => Err(self.bad_list(key)),
        }
    }
}

pub(super) fn invalid(key: &str, found: &Value, reason: impl Into<String>) -> ModelError {
    let text = found.to_string();
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    ModelError::Invalid { key: key.to_owned(), found: short, reason: reason.into() }
}
