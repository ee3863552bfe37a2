//! kbench as a library: commands, orchestration, reports. Parsing of foreign formats and device access live in the
//! crates below it.

pub mod measure;
