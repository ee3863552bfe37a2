//! CSV files of every version of rocprofv3, by column name.
//!
//! Old and new files differ in columns, in quotes around the header, and in how agents are named (`4`, `"Agent 4"`). rocprofv3 does not escape
//! quotes inside kernel names; where a line has more fields than columns, or a quote in the middle of a field, it is split around the name.

use super::{Agent, AgentKind, Dispatch, FileError, Kernel, Run};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line that is read: kernel names of a megabyte do not exist.
const MAX_LINE: u64 = 1 << 20;
/// Most dispatches of a file that are kept.
const MAX_DISPATCHES: usize = 20_000_000;

/// Lines of a file as fields.
struct Rows<'p> {
    path: &'p Path,
    reader: BufReader<File>,
    columns: HashMap<String, usize>,
    width: usize,
    /// Column of the kernel's name, around which broken lines are split.
    name: Option<usize>,
    line: u64,
    buffer: Vec<u8>,
    fields: Vec<String>,
}

impl<'p> Rows<'p> {
    fn open(path: &'p Path) -> Result<Self, FileError> {
        let file = File::open(path).map_err(|cause| FileError::Io { path: path.to_owned(), cause })?;
        let mut rows = Self {
            path,
            reader: BufReader::new(file),
            columns: HashMap::new(),
            width: 0,
            name: None,
            line: 0,
            buffer: Vec::new(),
            fields: Vec::new(),
        };
        if !rows.read_line()? {
            return Err(rows.error("it is empty: rocprofv3 writes no rows when nothing was collected"));
        }
        let text = String::from_utf8_lossy(&rows.buffer).into_owned();
        split(text.trim_start_matches('\u{feff}'), &mut rows.fields);
        let names = rows.fields.iter().enumerate().map(|(index, name)| (name.trim().to_ascii_lowercase(), index));
        rows.columns = names.collect();
        rows.width = rows.fields.len();
        rows.name = rows.columns.get("kernel_name").copied();
        Ok(rows)
    }

    fn error(&self, what: impl Into<String>) -> FileError {
        FileError::Csv { path: self.path.to_owned(), line: Some(self.line).filter(|line| *line > 0), what: what.into() }
    }

    fn read_line(&mut self) -> Result<bool, FileError> {
        self.buffer.clear();
        let read = self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|cause| FileError::Io { path: self.path.to_owned(), cause })?;
        self.line += 1;
        if read as u64 == MAX_LINE {
            return Err(self.error("a line is longer than 1 MiB: this is no file of rocprofv3"));
        }
        while self.buffer.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            self.buffer.pop();
        }
        Ok(read > 0)
    }

    /// The next row; `None` at the end.
    fn next(&mut self) -> Result<Option<()>, FileError> {
        loop {
            if !self.read_line()? {
                return Ok(None);
            }
            if self.buffer.is_empty() {
                continue;
            }
            let text = String::from_utf8_lossy(&self.buffer).into_owned();
            let is_clean = split(&text, &mut self.fields);
            if !is_clean || self.fields.len() != self.width {
                let around = self.name.is_some_and(|name| split_around(&text, name, self.width, &mut self.fields));
                if !around {
                    return Err(self.error(format!(
                        "it has {} fields and the header {} columns",
                        self.fields.len(),
                        self.width
                    )));
                }
            }
            return Ok(Some(()));
        }
    }

    fn need(&self, column: &str, kind: &str) -> Result<(), FileError> {
        if self.columns.contains_key(&column.to_ascii_lowercase()) {
            return Ok(());
        }
        let error = format!("this is no {kind} of rocprofv3: it has no column `{column}`");
        Err(FileError::Csv { path: self.path.to_owned(), line: None, what: error })
    }

    fn text(&self, column: &str) -> &str {
        self.columns.get(column).and_then(|index| self.fields.get(*index)).map_or("", String::as_str)
    }

    /// A whole number; 0 where the version has no such column.
    fn number(&self, column: &str) -> Result<u64, FileError> {
        let text = self.text(column).trim();
        if text.is_empty() {
            return Ok(0);
        }
        text.parse()
            .map_err(|_| self.error(format!("`{}` in the column `{column}` is no whole number", shortened(text))))
    }

    fn small(&self, column: &str) -> Result<u32, FileError> {
        let number = self.number(column)?;
        u32::try_from(number).map_err(|_| self.error(format!("{number} in the column `{column}` is too large")))
    }

    /// `4` or `Agent 4`.
    fn agent(&self) -> Result<u32, FileError> {
        let text = self.text("agent_id").trim();
        let number = text.rsplit(' ').next().unwrap_or_default();
        number.parse().map_err(|_| self.error(format!("`{}` is no agent (4, or \"Agent 4\")", shortened(text))))
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Splits by RFC 4180; false when a quote stands where it may not, as in names that rocprofv3 does not escape.
fn split(text: &str, fields: &mut Vec<String>) -> bool {
    fields.clear();
    let mut is_clean = true;
    let mut rest = text;
    loop {
        let mut field = String::new();
        if let Some(mut inner) = rest.strip_prefix('"') {
            loop {
                let Some((before, behind)) = inner.split_once('"') else {
                    field.push_str(inner);
                    fields.push(field);
                    return false;
                };
                field.push_str(before);
                match behind.strip_prefix('"') {
                    Some(after) => {
                        field.push('"');
                        inner = after;
                    }
                    None => {
                        rest = behind;
                        break;
                    }
                }
            }
            let end = rest.find(',').unwrap_or(rest.len());
            let (behind, after) = rest.split_at(end);
            is_clean &= behind.is_empty();
            field.push_str(behind);
            rest = after;
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            let (plain, after) = rest.split_at(end);
            is_clean &= !plain.contains('"');
            field.push_str(plain);
            rest = after;
        }
        fields.push(field);
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None => return is_clean,
        }
    }
}

/// Splits around the name: the other columns hold no commas, so they are counted from both ends and the name is what is left.
fn split_around(text: &str, name: usize, width: usize, fields: &mut Vec<String>) -> bool {
    fields.clear();
    let unquoted =
        |field: &str| field.strip_prefix('"').and_then(|field| field.strip_suffix('"')).unwrap_or(field).to_owned();
    let mut rest = text;
    for _ in 0..name {
        let Some((field, after)) = rest.split_once(',') else { return false };
        fields.push(unquoted(field));
        rest = after;
    }
    let mut behind = Vec::new();
    for _ in name + 1..width {
        let Some((before, field)) = rest.rsplit_once(',') else { return false };
        behind.push(unquoted(field));
        rest = before;
    }
    fields.push(unquoted(rest));
    fields.extend(behind.into_iter().rev());
    true
}

/// Kernels of a file: by number where it has one, by name in all versions.
#[derive(Default)]
struct Kernels {
    list: Vec<Kernel>,
    by_name: HashMap<(u64, String), usize>,
}

impl Kernels {
    fn of(&mut self, rows: &Rows<'_>) -> Result<u64, FileError> {
        let name = rows.text("kernel_name");
        let id = rows.number("kernel_id")?;
        if let Some(index) = self.by_name.get(&(id, name.to_owned())) {
            return Ok(self.list.get(*index).map_or(0, |kernel| kernel.id));
        }
        // Versions without numbers get them in the order of appearance; so does a number that stands for two names.
        let is_taken = id == 0 || self.list.iter().any(|kernel| kernel.id == id);
        let next = self.list.iter().map(|kernel| kernel.id).max().unwrap_or(0).saturating_add(1);
        let kernel = Kernel {
            id: if is_taken { next } else { id },
            name: name.to_owned(),
            mangled: String::new(),
            sgprs: rows.small("sgpr_count")?,
            vgprs: rows.small("vgpr_count")?,
            agprs: rows.small("accum_vgpr_count")?,
            lds_bytes: 0,
            scratch_bytes: 0,
        };
        self.by_name.insert((id, name.to_owned()), self.list.len());
        let id = kernel.id;
        self.list.push(kernel);
        Ok(id)
    }
}

fn dispatch(rows: &Rows<'_>, kernel_id: u64) -> Result<Dispatch, FileError> {
    Ok(Dispatch {
        dispatch_id: rows.number("dispatch_id")?,
        correlation_id: rows.number("correlation_id")?,
        agent: rows.agent()?,
        queue_id: rows.number("queue_id")?,
        stream_id: rows.number("stream_id")?,
        thread_id: rows.number("thread_id")?,
        kernel_id,
        start_ns: rows.number("start_timestamp")?,
        end_ns: rows.number("end_timestamp")?,
        lds_bytes: rows.small("lds_block_size")?.max(rows.small("group_segment_size")?),
        scratch_bytes: rows.small("scratch_size")?.max(rows.small("private_segment_size")?),
        ..Dispatch::default()
    })
}

/// Reads `*_counter_collection.csv`.
///
/// # Errors
/// The operating system's; a file of another form; a row that is none, with its line.
pub fn read_counter_collection(path: &Path) -> Result<Run, FileError> {
    let mut rows = Rows::open(path)?;
    for column in ["Dispatch_Id", "Kernel_Name", "Counter_Name", "Counter_Value"] {
        rows.need(column, "counter_collection")?;
    }
    let mut run = Run::default();
    let mut kernels = Kernels::default();
    // Process, agent and dispatch tell dispatches apart in files of several processes.
    let mut places: HashMap<(u64, u32, u64), usize> = HashMap::new();
    while rows.next()?.is_some() {
        let text = rows.text("counter_value").trim();
        let value: f64 = text
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
            .ok_or_else(|| rows.error(format!("`{}` is no value of a counter", shortened(text))))?;
        let kernel_id = kernels.of(&rows)?;
        let found = dispatch(&rows, kernel_id)?;
        let pid = rows.number("process_id")?;
        if run.dispatches.is_empty() {
            run.process.pid = pid;
        }
        let place = *places.entry((pid, found.agent, found.dispatch_id)).or_insert(run.dispatches.len());
        if place == run.dispatches.len() {
            if place >= MAX_DISPATCHES {
                return Err(rows.error(format!("it has more than {MAX_DISPATCHES} dispatches")));
            }
            let product = (rows.number("grid_size")?, rows.small("workgroup_size")?);
            run.dispatches.push(Dispatch { grid: [product.0, 1, 1], workgroup: [product.1, 1, 1], ..found });
        }
        let name = rows.text("counter_name").to_owned();
        if let Some(dispatch) = run.dispatches.get_mut(place) {
            *dispatch.counters.entry(name).or_insert(0.0) += value;
        }
    }
    run.kernels = kernels.list;
    Ok(run)
}

/// Reads `*_kernel_trace.csv`.
///
/// # Errors
/// As [`read_counter_collection`].
pub fn read_kernel_trace(path: &Path) -> Result<Run, FileError> {
    let mut rows = Rows::open(path)?;
    for column in ["Dispatch_Id", "Kernel_Name", "Start_Timestamp", "End_Timestamp"] {
        rows.need(column, "kernel_trace")?;
    }
    let mut run = Run::default();
    let mut kernels = Kernels::default();
    while rows.next()?.is_some() {
        let kernel_id = kernels.of(&rows)?;
        let mut found = dispatch(&rows, kernel_id)?;
        found.workgroup =
            [rows.small("workgroup_size_x")?, rows.small("workgroup_size_y")?, rows.small("workgroup_size_z")?];
        found.grid = [rows.number("grid_size_x")?, rows.number("grid_size_y")?, rows.number("grid_size_z")?];
        if run.dispatches.len() >= MAX_DISPATCHES {
            return Err(rows.error(format!("it has more than {MAX_DISPATCHES} dispatches")));
        }
        run.dispatches.push(found);
    }
    run.kernels = kernels.list;
    Ok(run)
}

/// Reads `*_agent_info.csv`.
///
/// # Errors
/// As [`read_counter_collection`].
pub fn read_agent_info(path: &Path) -> Result<Vec<Agent>, FileError> {
    let mut rows = Rows::open(path)?;
    for column in ["Node_Id", "Agent_Type", "Name"] {
        rows.need(column, "agent_info")?;
    }
    let mut agents = Vec::new();
    while rows.next()?.is_some() {
        let kind = match rows.text("agent_type") {
            "GPU" => AgentKind::Gpu,
            "CPU" => AgentKind::Cpu,
            other => return Err(rows.error(format!("`{}` is no type of agent (CPU, GPU)", shortened(other)))),
        };
        let mut agent = Agent {
            node_id: rows.small("node_id")?,
            logical_node_id: rows.small("logical_node_id")?,
            kind,
            name: rows.text("name").to_owned(),
            vendor: rows.text("vendor_name").to_owned(),
            product: rows.text("product_name").to_owned(),
            model: rows.text("model_name").to_owned(),
            ..Agent::default()
        };
        for column in super::AGENT_COLUMNS {
            let key = column.to_ascii_lowercase();
            let is_own = matches!(
                column,
                "Node_Id" | "Logical_Node_Id" | "Agent_Type" | "Name" | "Vendor_Name" | "Product_Name" | "Model_Name"
            );
            // Some versions print capabilities and versions as words: those are not kept.
            if !is_own
                && let Ok(number) = rows.text(&key).trim().parse::<u64>()
                && number > 0
            {
                agent.numbers.insert(column.to_owned(), number);
            }
        }
        agents.push(agent);
    }
    Ok(agents)
}
