//! The `kbench` binary.

fn main() {}
