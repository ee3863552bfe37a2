//! kbench's own inventory, `kbench.inventory/1`, as CSV: lossless, and short enough to write by hand (`docs/formats.md`).
//!
//! One line is one shape of one kernel. Lines with the same `row` are one kernel; a line without a shape carries the calls and time of the kernel
//! that no shape accounts for, so that a column's sum is always the total.

use crate::error::ReadError;
use crate::header::{Header, digits, real, us_to_ns};
use crate::health::Issue;
use crate::inventory::{Finding, Inventory, Location, Phase, Provenance, Row, ShapeUse, Source};
use crate::ledger::Ledger;
use crate::names::canonical;
use crate::records::{Record, Records};
use crate::sniff::{Dialect, read_header};
use kbench_workload::{Dtypes, Family, ShapeMap};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::path::Path;

/// Name and version of the format.
pub const SCHEMA: &str = "kbench.inventory/1";

/// Columns in the order in which they are written.
const COLUMNS: [&str; 16] = [
    "row",
    "family",
    "dtype",
    "shape",
    "calls",
    "total_ns",
    "provenance",
    "assumed",
    "kernel",
    "category",
    "op",
    "position",
    "phase",
    "share",
    "kernel_raw",
    "location",
];
/// Other names of columns, and one whose content is read as another unit.
const ALIASES: [&str; 4] = ["dtypes", "total_us", "file", "line"];

/// What stands behind `# kbench.inventory/1` in the first line.
#[derive(Default, Serialize, Deserialize)]
struct Head {
    #[serde(default)]
    source: Source,
    #[serde(default)]
    health: Vec<Finding>,
}

impl Inventory {
    /// Writes the inventory as CSV; [`crate::read`] gives it back as it is. Call [`Inventory::finish`] before when rows were changed.
    ///
    /// # Errors
    /// When `out` refuses.
    pub fn write_csv(&self, mut out: impl io::Write) -> io::Result<()> {
        let head = serde_json::to_string(&serde_json::json!({ "source": self.source, "health": self.health }))?;
        writeln!(out, "# {SCHEMA} {head}")?;
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(COLUMNS)?;
        for (index, row) in self.rows.iter().enumerate() {
            for used in &row.shapes {
                let shape = [used.dtypes.to_string(), used.shape.to_string()];
                let assumed =
                    if used.assumed.is_empty() { String::new() } else { serde_json::to_string(&used.assumed)? };
                write_line(&mut writer, index, row, shape, (used.calls, used.total_ns), used.provenance, assumed)?;
            }
            let shaped = row.shaped();
            let rest = (row.calls.saturating_sub(shaped.0), row.total_ns.saturating_sub(shaped.1));
            if rest != (0, 0) || row.shapes.is_empty() {
                write_line(&mut writer, index, row, Default::default(), rest, Provenance::None, String::new())?;
            }
        }
        writer.flush()
    }

    /// The document `kbench.inventory/1`.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "schema": SCHEMA,
            "source": self.source,
            "window": self.window,
            "kernel_ns": u64::try_from(self.total_ns()).unwrap_or(u64::MAX),
            "coverage": self.coverage(),
            "health": self.health,
            "rows": self.rows,
        })
    }
}

fn write_line(
    writer: &mut csv::Writer<impl io::Write>,
    index: usize,
    row: &Row,
    [dtype, shape]: [String; 2],
    (calls, total_ns): (u64, u64),
    provenance: Provenance,
    assumed: String,
) -> io::Result<()> {
    let location = match (row.location.file.as_str(), row.location.line) {
        ("", 0) => String::new(),
        (file, line) => format!("{file}:{line}"),
    };
    Ok(writer.write_record([
        (index + 1).to_string().as_str(),
        row.family.name(),
        &dtype,
        &shape,
        &calls.to_string(),
        &total_ns.to_string(),
        provenance.name(),
        &assumed,
        &row.kernel,
        &row.category,
        row.op.as_deref().unwrap_or_default(),
        row.position.as_deref().unwrap_or_default(),
        row.phase.name(),
        &format!("{:.6}", row.share),
        if row.kernel_raw == row.kernel { "" } else { &row.kernel_raw },
        &location,
    ])?)
}

/// Columns of an inventory; those a person need not write are optional.
struct Columns {
    family: usize,
    shape: usize,
    by_name: HashMap<&'static str, usize>,
}

impl Columns {
    fn new(header: &Header, path: &Path, ledger: &mut Ledger) -> Result<Self, ReadError> {
        for index in 0..header.len() {
            let name = header.name(index).to_ascii_lowercase();
            if !name.is_empty() && !COLUMNS.contains(&name.as_str()) && !ALIASES.contains(&name.as_str()) {
                ledger.health.count(Issue::UnknownColumns, || format!("{}: `{name}`", path.display()));
            }
        }
        let by_name = COLUMNS.into_iter().chain(ALIASES).filter_map(|name| Some((name, header.find(name)?))).collect();
        Ok(Self {
            family: header.need("family", path, Dialect::Inventory)?,
            shape: header.need("shape", path, Dialect::Inventory)?,
            by_name,
        })
    }
}

/// One line with its place, for errors that name the cell.
struct Line<'a> {
    path: &'a Path,
    record: Record<'a>,
    columns: &'a Columns,
}

impl Line<'_> {
    /// A cell's text; nothing when the column or the text is missing.
    fn text(&self, column: &str) -> Option<String> {
        let text = self.record.text(*self.columns.by_name.get(column)?);
        (!text.is_empty()).then(|| text.into_owned())
    }

    fn error(&self, column: &str, reason: impl ToString) -> ReadError {
        ReadError::Cell {
            path: self.path.to_owned(),
            line: self.record.line,
            column: column.to_owned(),
            reason: reason.to_string(),
        }
    }

    fn parse<T: std::str::FromStr<Err: ToString>>(&self, column: &str) -> Result<Option<T>, ReadError> {
        let text = self.text(column).filter(|text| !text.trim().is_empty());
        text.map(|text| text.trim().parse().map_err(|reason: T::Err| self.error(column, reason))).transpose()
    }

    fn number(&self, column: &str) -> Result<Option<u64>, ReadError> {
        let Some(text) = self.text(column).filter(|text| !text.trim().is_empty()) else { return Ok(None) };
        let number = digits(text.as_bytes());
        number.map(Some).ok_or_else(|| self.error(column, format!("`{text}` is not a whole number of 0 or more")))
    }

    fn total_ns(&self) -> Result<u64, ReadError> {
        if let Some(ns) = self.number("total_ns")? {
            return Ok(ns);
        }
        let Some(text) = self.text("total_us").filter(|text| !text.trim().is_empty()) else { return Ok(0) };
        let ns = real(text.as_bytes()).and_then(us_to_ns);
        ns.ok_or_else(|| self.error("total_us", format!("`{text}` is not a time in µs")))
    }

    fn location(&self) -> Result<Location, ReadError> {
        let here = || Location { file: self.path.display().to_string(), line: self.record.line };
        if let Some(text) = self.text("location") {
            let place = text.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
            let (file, line) = place.ok_or_else(|| self.error("location", format!("`{text}` is not file:line")))?;
            return Ok(Location { file: file.to_owned(), line });
        }
        Ok(match self.text("file") {
            Some(file) => Location { file, line: self.number("line")?.unwrap_or(0) },
            // A line of a file that kbench wrote has its place written, empty when there is none.
            None if self.columns.by_name.contains_key("location") => Location::default(),
            None => here(),
        })
    }

    /// The shape of the line; nothing when it only carries calls and time.
    fn shape(&self, calls: u64, total_ns: u64) -> Result<Option<ShapeUse>, ReadError> {
        let cell = self.record.text(self.columns.shape);
        let shape: ShapeMap = cell.parse().map_err(|reason| self.error("shape", reason))?;
        let dtype_column = if self.columns.by_name.contains_key("dtype") { "dtype" } else { "dtypes" };
        let dtypes: Dtypes = self.parse(dtype_column)?.unwrap_or_default();
        let provenance: Option<Provenance> = self.parse("provenance")?;
        let provenance = match (provenance, shape.is_empty()) {
            (None | Some(Provenance::None), true) => return Ok(None),
            (Some(provenance), _) => provenance,
            (None, false) => Provenance::Given,
        };
        let assumed = match self.text("assumed") {
            None => Vec::new(),
            Some(text) if text.trim_start().starts_with('[') => serde_json::from_str(&text)
                .map_err(|error| self.error("assumed", format!("not a JSON list of texts: {error}")))?,
            Some(text) => vec![text],
        };
        Ok(Some(ShapeUse { shape, dtypes, calls, total_ns, provenance, assumed }))
    }
}

/// What makes lines one row.
#[derive(PartialEq, Eq, Hash)]
enum RowKey {
    /// The same `row` cell.
    Id(String),
    /// Without one: the same named kernel.
    Kernel { kernel: String, family: Family, phase: Phase, position: Option<String> },
    /// Neither: a line by itself.
    Line(u64),
}

/// Reads an inventory. Unlike a profiler's file it is refused as a whole when a line is wrong: a person wrote that line for a reason.
pub(crate) fn read(path: &Path, ledger: &mut Ledger) -> Result<Vec<Row>, ReadError> {
    let mut records = Records::open(path)?;
    let header = read_header(&mut records)?;
    let columns = Columns::new(&header, path, ledger)?;
    let head = read_head(path)?;
    let has_head = head.is_some();
    let mut rows: Vec<Row> = Vec::new();
    let mut by_key: HashMap<RowKey, usize> = HashMap::new();
    while let Some(record) = records.next()? {
        let line = Line { path, record, columns: &columns };
        if record.len() > header.len() {
            let reason = format!(
                "{} cells under {} columns; a shape with commas needs quotes (\"m=16,n=32\") or blanks instead (m=16 n=32)",
                record.len(),
                header.len()
            );
            return Err(line.error(header.name(header.len().saturating_sub(1)), reason));
        }
        if record.iter().all(|cell| cell.trim_ascii().is_empty()) {
            continue;
        }
        let row = read_row(&line, has_head)?;
        let key = match (line.text("row"), line.text("kernel")) {
            (Some(id), _) => RowKey::Id(id),
            (None, Some(_)) => RowKey::Kernel {
                kernel: row.kernel.clone(),
                family: row.family,
                phase: row.phase,
                position: row.position.clone(),
            },
            (None, None) => RowKey::Line(record.line),
        };
        match by_key.get(&key) {
            Some(index) => {
                let known = &mut rows[*index];
                known.calls = known.calls.saturating_add(row.calls);
                known.total_ns = known.total_ns.saturating_add(row.total_ns);
                known.shapes.extend(row.shapes);
            }
            None => {
                by_key.insert(key, rows.len());
                rows.push(row);
            }
        }
    }
    if let Some(head) = head {
        ledger.source = head.source;
        for finding in head.health {
            ledger.health.tell(finding.severity, &finding.code, finding.message);
        }
    }
    Ok(rows)
}

fn read_row(line: &Line<'_>, has_head: bool) -> Result<Row, ReadError> {
    let cell = line.record.text(line.columns.family);
    let family: Family = cell.parse().map_err(|reason| line.error("family", reason))?;
    let calls = line.number("calls")?.unwrap_or(1);
    let total_ns = line.total_ns()?;
    let shapes: Vec<ShapeUse> = line.shape(calls, total_ns)?.into_iter().collect();
    let named = line.text("kernel");
    // What kbench wrote is canonical already.
    let kernel = match &named {
        Some(name) if has_head => name.clone(),
        Some(name) => canonical(name),
        None => family.name().to_owned(),
    };
    Ok(Row {
        kernel_raw: line.text("kernel_raw").or(named).unwrap_or_else(|| kernel.clone()),
        kernel,
        family,
        category: line
            .text("category")
            .unwrap_or_else(|| if has_head { String::new() } else { family.name().to_owned() }),
        op: line.text("op"),
        position: line.text("position"),
        phase: line.parse("phase")?.unwrap_or_default(),
        calls,
        total_ns,
        share: 0.0,
        provenance: Provenance::None,
        shapes,
        location: line.location()?,
    })
}

/// The first comment line, when it is kbench's own.
fn read_head(path: &Path) -> Result<Option<Head>, ReadError> {
    let mut first = None;
    Records::open(path)?.next_with(|line, text| {
        if first.is_none() {
            first = Some((line, String::from_utf8_lossy(text).trim().to_owned()));
        }
    })?;
    let Some((line, text)) = first.filter(|(_, text)| text.starts_with("kbench.")) else { return Ok(None) };
    let error = |reason: String| ReadError::Cell { path: path.to_owned(), line, column: "#".to_owned(), reason };
    match text.strip_prefix(SCHEMA) {
        Some(json) if json.trim().is_empty() => Ok(Some(Head::default())),
        Some(json) if json.starts_with(' ') => {
            let head = serde_json::from_str(json)
                .map_err(|bad| error(format!("not the JSON of an inventory's head: {bad}")))?;
            Ok(Some(head))
        }
        _ => Err(error(format!(
            "`{}` is not known; this kbench reads {SCHEMA}",
            text.split(' ').next().unwrap_or_default()
        ))),
    }
}

#[cfg(test)]
#[path = "csv_inventory_tests.rs"]
mod tests;
