//! kbench as a library: commands, orchestration, reports. Parsing of foreign formats and access to devices live in the
//! crates below it; nothing here parses a profile or calls a driver.

pub mod cli;
pub mod command;
pub mod compare;
pub mod counters;
pub mod device;
pub mod exit;
pub mod journal;
pub mod kernels;
pub mod measure;
pub mod plan;
pub mod report;
pub mod runner;
pub mod worker;
