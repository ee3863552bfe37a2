//! The `kbench` binary.

fn main() -> std::process::ExitCode {
    kbench::cli::main().into()
}
