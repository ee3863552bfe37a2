//! Where the results of a run go.

use super::super::{note, state_dir, write_whole};
use super::explain_case;
use crate::cli::RunArgs;
use crate::device::DeviceInfo;
use crate::exit::{Failure, OrExit as _, Outcome, from_output};
use crate::plan::Planned;
use crate::report::{CaseResult, Format, RunDocument, csv, markdown, table};
use anyhow::Context as _;
use std::cell::Cell;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Where results go.
pub(super) struct Sinks<'a> {
    format: Format,
    output: Option<&'a Path>,
    report: Option<&'a Path>,
    /// The last run, kept whatever the options.
    last_run: Option<PathBuf>,
    device: DeviceInfo,
    /// Results go elsewhere too: nobody reading stdout any more does not end the run.
    keeps: bool,
    /// Nobody reads stdout any more.
    silent: Cell<bool>,
}

impl<'a> Sinks<'a> {
    /// For results of this device; `keeps` says that files beside these are written at the end.
    pub(super) fn new(args: &'a RunArgs, format: Format, keeps: bool, device: DeviceInfo) -> Result<Self, Failure> {
        if let Some(dir) = &args.report {
            fs::create_dir_all(dir).with_context(|| format!("{} could not be made", dir.display())).or_usage()?;
        }
        // Nothing depends on the state folder: where it cannot be made, only the safety copy is missing.
        let last_run = state_dir().filter(|dir| fs::create_dir_all(dir).is_ok()).map(|dir| dir.join("last-run.json"));
        Ok(Self {
            format,
            output: args.output.as_deref(),
            report: args.report.as_deref(),
            last_run,
            device,
            keeps: keeps || args.report.is_some() || args.save.is_some(),
            silent: Cell::new(false),
        })
    }

    /// Where the journal of this run belongs: beside the output file, else in the state folder; `None` without either.
    pub(super) fn journal(&self) -> Option<PathBuf> {
        self.output.map(crate::journal::beside).or_else(|| Some(self.last_run.as_ref()?.with_extension("journal")))
    }

    /// True when table rows appear on stdout as cases end.
    fn streams(&self) -> bool {
        self.format == Format::Table && self.output.is_none()
    }

    /// Prints to stdout. When nobody reads it any more and there are other places for the results, the run goes on in silence.
    fn print(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Outcome<()> {
        if self.silent.get() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        match write(&mut out).and_then(|()| out.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.keeps => {
                self.silent.set(true);
                Ok(())
            }
            written => written.map_err(from_output),
        }
    }

    pub(super) fn begin(&self) -> Outcome<()> {
        if !self.streams() {
            return Ok(());
        }
        self.print(|out| table::head(out, &self.device))
    }

    pub(super) fn case(&self, result: &CaseResult, planned: &Planned, explain: bool) -> Outcome<()> {
        if !self.streams() {
            return Ok(());
        }
        self.print(|out| {
            table::row(out, result)?;
            table::counted(out, result)?;
            if explain { explain_case(out, planned) } else { Ok(()) }
        })
    }

    /// Writes the whole document everywhere it is to go.
    pub(super) fn finish(&self, document: &RunDocument) -> Outcome<()> {
        if let Some(path) = &self.last_run {
            // A full disk must not end a run whose results still reach stdout.
            let _ = write_whole(path, |out| whole(out, document, Format::Json));
        }
        if let Some(dir) = self.report {
            for (name, format) in [("run.json", Format::Json), ("cases.csv", Format::Csv), ("report.md", Format::Md)] {
                write_whole(&dir.join(name), |out| whole(out, document, format))?;
            }
        }
        match (self.output, self.format) {
            (None, Format::Table) => self.print(|out| table::foot(out, document)),
            (None, format) => self.print(|out| whole(out, document, format)),
            (Some(path), format) => {
                write_whole(path, |out| whole(out, document, format))?;
                note(&format!("{} cases written to {}", document.cases.len(), path.display()));
                Ok(())
            }
        }
    }
}

/// A whole document in a format.
fn whole(out: &mut dyn Write, document: &RunDocument, format: Format) -> io::Result<()> {
    match format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, document)?;
            writeln!(out)
        }
        Format::Csv => csv::write(out, document),
        Format::Md => markdown::write(out, document),
        Format::Table => {
            table::head(out, &document.device)?;
            for case in &document.cases {
                table::row(out, case)?;
                table::counted(out, case)?;
            }
            table::foot(out, document)
        }
    }
}
