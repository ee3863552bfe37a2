//! Where the results of a run go.

use super::super::{note, state_dir, write_whole};
use super::explain_case;
use crate::cli::RunArgs;
use crate::exit::{Failure, OrExit as _, Outcome, from_output};
use crate::plan::Planned;
use crate::report::{CaseResult, Format, RunDocument, csv, markdown, table};
use anyhow::Context as _;
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
}

impl<'a> Sinks<'a> {
    pub(super) fn new(args: &'a RunArgs, format: Format) -> Result<Self, Failure> {
        if let Some(dir) = &args.report {
            fs::create_dir_all(dir).with_context(|| format!("{} could not be made", dir.display())).or_usage()?;
        }
        // Nothing depends on the state folder: where it cannot be made, only the safety copy is missing.
        let last_run = state_dir().filter(|dir| fs::create_dir_all(dir).is_ok()).map(|dir| dir.join("last-run.json"));
        Ok(Self { format, output: args.output.as_deref(), report: args.report.as_deref(), last_run })
    }

    /// Where the journal of this run belongs: beside the output file, else in the state folder; `None` without either.
    pub(super) fn journal(&self) -> Option<PathBuf> {
        self.output.map(crate::journal::beside).or_else(|| Some(self.last_run.as_ref()?.with_extension("journal")))
    }

    /// True when table rows appear on stdout as cases end.
    fn streams(&self) -> bool {
        self.format == Format::Table && self.output.is_none()
    }

    pub(super) fn begin(&self) -> Outcome<()> {
        if self.streams() {
            table::head(&mut io::stdout().lock()).map_err(from_output)?;
        }
        Ok(())
    }

    pub(super) fn case(&self, result: &CaseResult, planned: &Planned, explain: bool) -> Outcome<()> {
        let mut out = io::stdout().lock();
        if self.streams() {
            table::row(&mut out, result).map_err(from_output)?;
            table::counted(&mut out, result).map_err(from_output)?;
            if explain {
                explain_case(&mut out, planned).map_err(from_output)?;
            }
            out.flush().map_err(from_output)?;
        }
        Ok(())
    }

    /// Writes the whole document everywhere it is to go.
    pub(super) fn finish(&self, document: &RunDocument) -> Outcome<()> {
        if let Some(path) = &self.last_run {
            // A full disk must not end a run whose results still reach stdout.
            let _ = write_whole(path, |out| whole(out, document, Format::Json));
        }
        let mut out = io::stdout().lock();
        match (self.output, self.format) {
            (None, Format::Table) => table::foot(&mut out, document).map_err(from_output)?,
            (None, format) => whole(&mut out, document, format).map_err(from_output)?,
            (Some(path), format) => {
                write_whole(path, |out| whole(out, document, format))?;
                note(&format!("{} cases written to {}", document.cases.len(), path.display()));
            }
        }
        if let Some(dir) = self.report {
            for (name, format) in [("run.json", Format::Json), ("cases.csv", Format::Csv), ("report.md", Format::Md)] {
                write_whole(&dir.join(name), |out| whole(out, document, format))?;
            }
        }
        Ok(())
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
            table::head(out)?;
            for case in &document.cases {
                table::row(out, case)?;
                table::counted(out, case)?;
            }
            table::foot(out, document)
        }
    }
}
