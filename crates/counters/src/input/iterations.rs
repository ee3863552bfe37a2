//! Which launches of a kernel are counted.

use super::kind;
use serde_json::Value;

/// Most ranges that are read.
const MAX_RANGES: usize = 4096;

/// Ranges of launches, from 1, both ends included; empty for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Iterations {
    ranges: Vec<(u64, u64)>,
}

impl Iterations {
    /// The ranges as they were given.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    /// True when a kernel's launch of this number, from 1, is meant.
    pub fn contains(&self, launch: u64) -> bool {
        self.ranges.is_empty() || self.ranges.iter().any(|(first, last)| (*first..=*last).contains(&launch))
    }

    /// `"[1-2],[3-4]"`, `"[1, 3, [8-12]]"`, or a list of such strings and numbers.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        let mut ranges = Vec::new();
        match value {
            Value::Null => {}
            Value::Array(list) => {
                for item in list {
                    one(item, &mut ranges)?;
                }
            }
            other => one(other, &mut ranges)?,
        }
        if ranges.len() > MAX_RANGES {
            return Err(format!("`kernel_iteration_range` has more than {MAX_RANGES} ranges"));
        }
        Ok(Self { ranges })
    }
}

fn one(value: &Value, ranges: &mut Vec<(u64, u64)>) -> Result<(), String> {
    match value {
        Value::String(text) => ranges.extend(parse(text).ok_or_else(|| {
            let shortened: String = text.chars().take(60).collect();
            format!(
                "`kernel_iteration_range` is numbers and ranges from 1, such as \"[1-2],[5]\", and not `{shortened}`"
            )
        })?),
        Value::Number(number) => match number.as_u64().filter(|number| *number > 0) {
            Some(number) => ranges.push((number, number)),
            None => return Err(format!("`kernel_iteration_range` counts from 1: {number} is no launch")),
        },
        other => return Err(format!("`kernel_iteration_range` must be a string or a list, and is {}", kind(other))),
    }
    Ok(())
}

/// Brackets only group: what counts are the numbers and ranges between them.
fn parse(text: &str) -> Option<Vec<(u64, u64)>> {
    let mut depth = 0_u32;
    for byte in text.bytes() {
        match byte {
            b'[' => depth += 1,
            b']' => depth = depth.checked_sub(1)?,
            b'0'..=b'9' | b'-' | b',' | b' ' => {}
            _ => return None,
        }
    }
    if depth != 0 {
        return None;
    }
    let parts = text.split(['[', ']', ',']).map(str::trim).filter(|part| !part.is_empty());
    let mut ranges = Vec::new();
    for part in parts {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first == 0 || last < first {
            return None;
        }
        ranges.push((first, last));
    }
    Some(ranges)
}
