//! `kbench doctor`: what is there for driving GPUs, what is missing, what to do.

mod findings;
mod print;

use super::probe::{self, HipProbe};
use crate::cli::{DoctorArgs, DoctorFormat};
use crate::exit::{Exit, OrExit as _, Outcome, from_output};
use findings::{Finding, Severity, findings};
use kbench_kernels::compile::Compiler;
use kbench_system::System;
use serde::Serialize;
use std::io::{self, Write as _};

/// Everything that was found out.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    tool: Tool,
    system: System,
    hip: Hip,
    compiler: DeviceCompiler,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Tool {
    version: &'static str,
    commit: &'static str,
}

/// HIP's answer, or what became of the process that asked.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Hip {
    Answered(HipProbe),
    Failed(String),
}

/// The compiler that builds take, or why there is none.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum DeviceCompiler {
    Found { path: std::path::PathBuf, version: String },
    Missing(String),
}

/// Examines this machine.
///
/// # Errors
/// When the report cannot be printed.
pub fn run(args: &DoctorArgs) -> Outcome {
    if args.probe {
        return probe::answer().map(|()| Exit::Ok).map_err(from_output);
    }
    let system = System::current();
    let hip = match probe::ask() {
        Ok(answer) => Hip::Answered(answer),
        Err(why) => Hip::Failed(why),
    };
    let compiler = match Compiler::find(None, &|name| std::env::var_os(name)) {
        Ok(compiler) => DeviceCompiler::Found { path: compiler.path, version: compiler.version },
        Err(error) => DeviceCompiler::Missing(error.to_string()),
    };
    let findings = findings(&system, &hip, &compiler);
    let broken = findings.iter().any(|finding| finding.severity == Severity::Problem);
    let tool = Tool { version: env!("CARGO_PKG_VERSION"), commit: env!("KBENCH_COMMIT") };
    let report = Report { schema: "kbench.doctor/1", tool, system, hip, compiler, findings };
    let mut out = io::stdout().lock();
    match args.format {
        DoctorFormat::Json => {
            let text = serde_json::to_string_pretty(&report).or_device()?;
            writeln!(out, "{text}").map_err(from_output)?;
        }
        DoctorFormat::Text => print::print(&mut out, &report).map_err(from_output)?,
    }
    Ok(if broken { Exit::Device } else { Exit::Ok })
}
