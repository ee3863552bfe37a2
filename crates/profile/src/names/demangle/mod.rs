//! Demangling that never fails hard: the Itanium C++ grammar where a name follows it, and otherwise as much of the
//! qualified name as can be read.
//!
//! The parser is this crate's own. Traces leave exactly those names mangled that usual demanglers reject (`__bf16`,
//! declared template parameters, assembly kernels with a wrong length), and general demanglers that try alternatives
//! take exponential time on names such as `_Z1fIS_IS_IS_I...`; this one decides by the next byte and is linear. The tests
//! hold it against `cpp_demangle` on well-formed names.

mod expr;
mod node;
mod parse;
mod print;
mod recover;
mod types;

use parse::Parser;
use print::Printer;

/// Longest mangled name that is parsed; the longest seen in traces has 867 bytes, 5,160 demangled.
const MAX_MANGLED: usize = 32 * 1024;

/// Longest demangled name. Substitutions can double a name with every three bytes, so this is a real limit.
const MAX_DEMANGLED: usize = 128 * 1024;

/// Demangles an Itanium-mangled name (`_Z...`), without clone suffix. `None` when `raw` is not mangled or nothing of it
/// can be read.
///
/// A name that the grammar does not accept gives its qualified name, with what follows left as it is in angle brackets so
/// that two kernels stay two: `_ZN5aiter9fmha_fwd_hd128E` (wrong length) is `aiter::fmha_fwd_hd128`.
///
/// Time is linear in the length of the result, which is bounded; no input panics.
pub fn demangle(raw: &str) -> Option<String> {
    if !raw.starts_with("_Z") || raw.len() > MAX_MANGLED || !raw.is_ascii() {
        return None;
    }
    let mut parser = Parser::new(raw);
    parser
        .mangled_name()
        .ok()
        .and_then(|id| Printer::print(&parser.arena, id, MAX_DEMANGLED).ok())
        .or_else(|| recover::recover(raw))
}
