//! Arguments of `kbench doctor` and `kbench devices`.

use clap::{Args, ValueEnum};

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = DoctorFormat::Text, value_name = "FORMAT")]
    pub format: DoctorFormat,
    /// Ask HIP in this process and print the answer: what `doctor` and `devices` start themselves for
    #[arg(long, hide = true)]
    pub probe: bool,
}

/// Arguments of `devices`.
#[derive(Args, Debug)]
pub struct DevicesArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t = DoctorFormat::Text, value_name = "FORMAT")]
    pub format: DoctorFormat,
}

/// How `doctor` and `devices` print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DoctorFormat {
    /// For people.
    Text,
    /// A document (docs/doctor.md).
    Json,
}
