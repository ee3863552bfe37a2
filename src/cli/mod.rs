//! The command line: what can be asked for, and how each answer ends.

mod ab;
mod args;
mod compare;
mod counters;
mod doctor;
mod emu;
mod kernels;
mod select;
mod store;

pub use ab::{AbArgs, PairArgs, SelfcheckArgs};
pub use args::{
    Cli, Command, CompletionsArgs, InspectArgs, InspectFormat, InventoryArgs, PeaksArgs, ReadArgs, RunArgs,
};
pub use compare::{CompareArgs, CompareFormat, CorrectionChoice, JudgeArgs};
pub use counters::{
    CountersArgs, CountersCommand, CountersFormat, CountersImportArgs, CountersListArgs, CountersPlanArgs,
    CountersRunArgs,
};
pub use doctor::{DevicesArgs, DoctorArgs, DoctorFormat};
pub use emu::{BoundsChoice, EmuArgs, EmuFormat};
pub use kernels::{BuildArgs, CheckArgs, KernelsArgs, KernelsCommand, KernelsFormat, ListArgs};
pub use select::{DeviceArgs, SelectArgs};
pub use store::{ExportArgs, HistoryArgs, HistoryFormat, ImportArgs, PruneArgs, ShowArgs, ShowFormat, StoreFile};

use crate::command;
use crate::exit::{Exit, Failure};
use clap::Parser;
use std::io::Write;

/// Parses the process's arguments, runs the command, reports a failure on stderr as one paragraph.
pub fn main() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to stdout and are no error; a closed pipe there is none either.
            let _ = error.print();
            return if error.use_stderr() { Exit::Usage } else { Exit::Ok };
        }
    };
    let outcome = match cli.command {
        None => command::run::run(&cli.run),
        Some(Command::Run(args)) => command::run::run(&args),
        Some(Command::Inventory(args)) => command::inventory::run(&args),
        Some(Command::Peaks(args)) => command::peaks::run(&args),
        Some(Command::Inspect(args)) => command::inspect::run(&args),
        Some(Command::Build(args)) => command::build::run(&args),
        Some(Command::Kernels(args)) => command::kernels::run(&args),
        Some(Command::Counters(args)) => command::counters::run(&args),
        Some(Command::Emu(args)) => command::emu::run(&args),
        Some(Command::Worker) => command::worker::run(),
        Some(Command::Ab(args)) => command::ab::run(&args),
        Some(Command::Selfcheck(args)) => command::selfcheck::run(&args),
        Some(Command::Compare(args)) => command::compare::run(&args),
        Some(Command::History(args)) => command::store::history(&args),
        Some(Command::Show(args)) => command::store::show(&args),
        Some(Command::Export(args)) => command::store::export(&args),
        Some(Command::Import(args)) => command::store::import(&args),
        Some(Command::Prune(args)) => command::store::prune(&args),
        Some(Command::Doctor(args)) => command::doctor::run(&args),
        Some(Command::Devices(args)) => command::devices::run(&args),
        Some(Command::Completions(args)) => command::completions::run(&args),
    };
    match outcome {
        Ok(exit) => exit,
        Err(Failure { exit: Exit::Ok, .. }) => Exit::Ok,
        Err(Failure { exit, error }) => {
            let _ = writeln!(std::io::stderr(), "kbench: {error:#}");
            exit
        }
    }
}
