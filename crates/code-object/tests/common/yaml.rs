//! The block YAML that `llvm-readelf --notes` prints, flattened: `amdhsa.kernels/0/.args/1/.offset` → `8`.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

/// Flattens the metadata document of `llvm-readelf --notes`.
pub fn flatten_notes(text: &str) -> BTreeMap<String, String> {
    let start = text.find("---\n").unwrap() + 4;
    let document = &text[start..];
    let document = &document[..document.find("\n...").unwrap_or(document.len())];
    flatten(document)
}

struct Level {
    indent: usize,
    /// The key, or the index, that this level is at.
    at: String,
    items: usize,
}

fn flatten(document: &str) -> BTreeMap<String, String> {
    let mut flat = BTreeMap::new();
    let mut levels: Vec<Level> = Vec::new();
    for line in document.lines().filter(|line| !line.trim().is_empty()) {
        let mut indent = line.len() - line.trim_start().len();
        let mut rest = line.trim_start();
        // A sequence item: the dash is a level of its own, one column in from what follows it.
        while let Some(item) = rest.strip_prefix("- ") {
            pop_to(&mut levels, indent, true);
            match levels.last_mut() {
                Some(level) if level.indent == indent => {
                    level.items += 1;
                    level.at = (level.items - 1).to_string();
                }
                _ => levels.push(Level { indent, at: "0".into(), items: 1 }),
            }
            let inner = item.trim_start();
            indent += 2 + (item.len() - inner.len());
            rest = inner;
        }
        match split_key(rest) {
            Some((key, value)) => {
                pop_to(&mut levels, indent, false);
                levels.push(Level { indent, at: key.to_owned(), items: 0 });
                if !value.is_empty() {
                    flat.insert(path(&levels), unquote(value));
                }
            }
            None => {
                flat.insert(path(&levels), unquote(rest));
            }
        }
    }
    flat
}

/// Leaves the levels that `indent` ends; the next item of a sequence stays at its level.
fn pop_to(levels: &mut Vec<Level>, indent: usize, item: bool) {
    while let Some(last) = levels.last() {
        if last.indent > indent || (last.indent == indent && !item) {
            levels.pop();
        } else {
            break;
        }
    }
}

/// `key: value`, unless the text is a quoted scalar.
fn split_key(text: &str) -> Option<(&str, &str)> {
    if text.starts_with(['\'', '"']) {
        return None;
    }
    let (key, value) = text.split_once(':')?;
    (value.is_empty() || value.starts_with(' ')).then(|| (key, value.trim()))
}

fn path(levels: &[Level]) -> String {
    levels.iter().map(|level| level.at.as_str()).collect::<Vec<_>>().join("/")
}

fn unquote(text: &str) -> String {
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(inner) => inner.replace("''", "'"),
        None => text.trim_matches('"').to_owned(),
    }
}

#[test]
fn nested_lists_and_maps() {
    let flat =
        flatten("a:\n  - .x: 1\n    .y:\n      - 2\n      - 3\n    .z: q\n  - .x: 'it''s'\nb: [ ]\nv:\n  - 1\n  - 2\n");
    let expected = [
        ("a/0/.x", "1"),
        ("a/0/.y/0", "2"),
        ("a/0/.y/1", "3"),
        ("a/0/.z", "q"),
        ("a/1/.x", "it's"),
        ("b", "[ ]"),
        ("v/0", "1"),
        ("v/1", "2"),
    ];
    let expected: BTreeMap<String, String> = expected.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    assert_eq!(flat, expected);
}
