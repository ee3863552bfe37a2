//! Executions by source line, where the code object was compiled with `-g`.

use crate::launch::Outcome;
use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian};
use kbench_code_object::CodeObject;
use std::collections::HashMap;

/// Why lines cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum LinesError {
    /// The debug information is damaged.
    #[error("the code object's debug information cannot be read: {0}; rebuild it, or leave the source lines out")]
    Damaged(String),
}

/// What a source line executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineCount {
    /// Source file, as the compiler knew it; empty for code of no known line.
    pub file: String,
    /// Line, from 1; 0 for code of no known line.
    pub line: u32,
    /// Wave instructions executed.
    pub executions: u64,
}

/// Wave instructions by source line, most executed first; `None` when the code object has no line information. `object` is the
/// one that was launched ([`crate::launch::Module::object`]).
///
/// # Errors
/// When there is debug information but it cannot be read.
pub fn by_line(object: &CodeObject, outcome: &Outcome) -> Result<Option<Vec<LineCount>>, LinesError> {
    if object.section(".debug_line").is_none() {
        return Ok(None);
    }
    let damaged = |error: addr2line::gimli::Error| LinesError::Damaged(error.to_string());
    let section = |name: &str| object.section(name).map_or(&[][..], |section| object.section_bytes(section));
    let dwarf = Dwarf::load(|id| Ok::<_, addr2line::gimli::Error>(EndianSlice::new(section(id.name()), LittleEndian)))
        .map_err(damaged)?;
    let context = Context::from_dwarf(dwarf).map_err(damaged)?;
    let executable = object.segments().iter().filter(|segment| segment.executable);
    let start = executable.map(|segment| segment.address).min().unwrap_or(0) & !3;
    let mut lines: HashMap<(&str, u32), u64> = HashMap::new();
    let counts = outcome.counts.iter().enumerate().filter(|(_, count)| **count != 0);
    for (slot, count) in counts {
        let location = context.find_location(start + slot as u64 * 4).map_err(damaged)?;
        let place = location.map_or(("", 0), |at| (at.file.unwrap_or_default(), at.line.unwrap_or(0)));
        *lines.entry(place).or_default() += count;
    }
    let mut lines: Vec<LineCount> = lines
        .into_iter()
        .map(|((file, line), executions)| LineCount { file: file.to_owned(), line, executions })
        .collect();
    lines.sort_by(|a, b| (b.executions, &a.file, a.line).cmp(&(a.executions, &b.file, b.line)));
    Ok(Some(lines))
}
