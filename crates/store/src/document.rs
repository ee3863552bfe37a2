//! What the store takes out of a document: long arrays, and the keys that have columns.

use crate::{Numbers, StoreError, encode};
use serde_json::Value;

/// Arrays of at least this many numbers are kept apart and compressed.
const LONG: usize = 32;
/// Deepest nesting: what a JSON parser reads back.
const DEEPEST: usize = 120;

/// A document ready for the tables.
pub(crate) struct Parts {
    /// JSON text with `null` in the places of long arrays.
    pub(crate) text: String,
    /// JSON pointer and packed numbers of each of them.
    pub(crate) arrays: Vec<(String, Vec<u8>)>,
}

impl Parts {
    /// Takes a document apart.
    ///
    /// # Errors
    /// When it is no object, nested too deeply, or would not come back equal.
    pub(crate) fn of(document: &Value) -> Result<Self, StoreError> {
        let refused = |reason: &str| StoreError::Document { reason: reason.to_owned() };
        if !document.is_object() {
            return Err(refused("it is no JSON object"));
        }
        let mut skeleton = document.clone();
        let mut arrays = Vec::new();
        take_arrays(&mut skeleton, &mut String::new(), 0, &mut arrays)?;
        let text = skeleton.to_string();
        let read: Value = serde_json::from_str(&text).map_err(|error| refused(&error.to_string()))?;
        if read != skeleton {
            return Err(refused("it would not be read back as it is"));
        }
        Ok(Self { text, arrays })
    }
}

fn take_arrays(
    value: &mut Value,
    pointer: &mut String,
    depth: usize,
    arrays: &mut Vec<(String, Vec<u8>)>,
) -> Result<(), StoreError> {
    if depth > DEEPEST {
        return Err(StoreError::Document { reason: format!("it is nested more than {DEEPEST} deep") });
    }
    if let Some(numbers) = numbers(value) {
        let packed = encode(&numbers).map_err(|error| StoreError::Document { reason: error.to_string() })?;
        arrays.push((pointer.clone(), packed));
        *value = Value::Null;
        return Ok(());
    }
    let end = pointer.len();
    let mut visit = |key: &str, child: &mut Value| {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        let taken = take_arrays(child, pointer, depth + 1, arrays);
        pointer.truncate(end);
        taken
    };
    match value {
        Value::Array(items) => items.iter_mut().enumerate().try_for_each(|(i, item)| visit(&i.to_string(), item)),
        Value::Object(map) => map.iter_mut().try_for_each(|(key, item)| visit(key, item)),
        _ => Ok(()),
    }
}

/// A long array of numbers of one kind.
fn numbers(value: &Value) -> Option<Numbers> {
    let items = value.as_array().filter(|items| items.len() >= LONG)?;
    if items.iter().all(|item| item.is_f64()) {
        return items.iter().map(Value::as_f64).collect::<Option<_>>().map(Numbers::Floats);
    }
    items.iter().map(|item| item.as_i64()).collect::<Option<_>>().map(Numbers::Integers)
}

/// Puts an array back.
///
/// # Errors
/// The reason when its place is gone or taken, or a number has no JSON form.
pub(crate) fn put_back(document: &mut Value, pointer: &str, numbers: Numbers) -> Result<(), String> {
    let place = document.pointer_mut(pointer).filter(|place| place.is_null());
    let place = place.ok_or_else(|| format!("samples have no place at `{pointer}`"))?;
    let items: Option<Vec<Value>> = match numbers {
        Numbers::Integers(values) => Some(values.into_iter().map(Value::from).collect()),
        Numbers::Floats(values) => {
            values.into_iter().map(|v| serde_json::Number::from_f64(v).map(Value::Number)).collect()
        }
    };
    *place = Value::Array(items.ok_or_else(|| format!("samples at `{pointer}` hold what is no number"))?);
    Ok(())
}

/// A string at a pointer.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// A number at a pointer.
pub(crate) fn number(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer).and_then(Value::as_f64)
}

/// A whole number at a pointer; one beyond `i64` is left out.
pub(crate) fn whole(value: &Value, pointer: &str) -> Option<i64> {
    value.pointer(pointer).and_then(Value::as_i64)
}

/// The JSON text of what is at a pointer.
pub(crate) fn json(value: &Value, pointer: &str) -> Option<String> {
    value.pointer(pointer).filter(|found| !found.is_null()).map(Value::to_string)
}
