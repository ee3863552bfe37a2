//! `kbench counters import`: what rocprofv3 collected, as metrics.

use super::{json, plain_table};
use crate::cli::{CountersFormat, CountersImportArgs};
use crate::exit::{Exit, Failure, OrExit as _, Outcome, from_output, usage};
use crate::report::units;
use kbench_counters::metric::{self, Kind, evaluate, report};
use kbench_counters::rocprofv3::{self, Agent, AgentKind, Dispatch, ImportedCase, Run, rocpd};
use kbench_counters::{Arch, Catalog};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

/// First bytes of an SQLite file.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// A case, for output.
#[derive(Serialize)]
struct Imported {
    kernel: String,
    grid: [u64; 3],
    workgroup: [u32; 3],
    calls: u64,
    duration_ns: Option<f64>,
    /// On an emulated GPU, which has no durations.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound_ns: Option<f64>,
    counters: BTreeMap<String, metric::Entry>,
}

/// Reads files and prints their cases.
///
/// # Errors
/// When a file cannot be read, or the device it is of is not known.
pub(super) fn run(args: &CountersImportArgs) -> Outcome {
    let mut whole = Whole::default();
    let mut launches = Launches::default();
    for path in &args.files {
        launches.file(path)?;
        for run in read(path, args.agents.as_deref())? {
            whole.agents(path, &run.agents)?;
            launches.note(path, &run)?;
            whole.join(run);
        }
    }
    let whole = whole.run;
    let agent = choose(&whole, args.agent)?;
    let arch: Arch = agent.name.parse().or_usage()?;
    let geometry = agent.geometry().ok_or_else(|| {
        usage(format!("Agent {}: the numbers of its compute units, SIMDs and waves are not known; give the run's agent_info.csv (--agents)", agent.logical_node_id))
    })?;
    let catalog = Catalog::new(arch).or_device()?;
    let cases = rocprofv3::cases(&whole, Some(agent.logical_node_id), geometry);
    let mut rows: Vec<Imported> = cases.into_iter().map(|case| imported(case, &catalog)).collect();
    rows.sort_by(|a, b| total(b).total_cmp(&total(a)));
    let mut out = io::stdout().lock();
    if args.format == CountersFormat::Json {
        let emulated = agent.is_emulated();
        let device =
            serde_json::json!({ "arch": arch, "name": agent.product, "geometry": geometry, "emulated": emulated });
        return json(&mut out, &serde_json::json!({ "schema": "kbench.counters/1", "device": device, "cases": rows }));
    }
    print(&mut out, &rows, agent).map_err(from_output)?;
    Ok(Exit::Ok)
}

/// Time, or bound, of all launches, ns: the order of the cases.
fn total(case: &Imported) -> f64 {
    case.duration_ns.or(case.bound_ns).unwrap_or(0.0) * case.calls as f64
}

/// What tells a launch from every other: its number, when it ran, and a hash of its kernel and of what was counted (an emulated
/// GPU's clock is the same in each run).
type Identity = (u64, u64, u64, u64);

/// The launches of the files so far, with the file: one that comes again would count twice.
#[derive(Default)]
struct Launches {
    files: Vec<PathBuf>,
    known: HashMap<Identity, PathBuf>,
}

fn identity(dispatch: &Dispatch, kernel: &str) -> Identity {
    let mut hasher = DefaultHasher::new();
    (kernel, dispatch.agent).hash(&mut hasher);
    // Not their values, which CSV files round.
    dispatch.counters.keys().for_each(|name| name.hash(&mut hasher));
    (dispatch.dispatch_id, dispatch.start_ns, dispatch.end_ns, hasher.finish())
}

impl Launches {
    /// Notes a file.
    ///
    /// # Errors
    /// When it was given before.
    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.files.contains(&file) {
            return Err(usage(format!("{}: it is given twice, and its launches would count twice", path.display())));
        }
        self.files.push(file);
        Ok(())
    }

    /// Notes the launches of a run. Those without times (older versions of rocprofv3) cannot be told apart and are not noted.
    /// The same dispatches with other counters are another pass and no repetition.
    ///
    /// # Errors
    /// When any of them was in a run before: what is left over of a file would have to be chosen launch by launch.
    fn note(&mut self, path: &Path, run: &Run) -> Result<(), Failure> {
        let names: HashMap<u64, &str> = run.kernels.iter().map(|kernel| (kernel.id, kernel.name.as_str())).collect();
        let timed = run.dispatches.iter().filter(|dispatch| dispatch.start_ns > 0);
        let named = timed.map(|dispatch| (dispatch, names.get(&dispatch.kernel_id).copied().unwrap_or_default()));
        let found: Vec<(Identity, &Dispatch, &str)> =
            named.map(|(dispatch, kernel)| (identity(dispatch, kernel), dispatch, kernel)).collect();
        let mut again = found.iter().filter_map(|launch| Some((launch, self.known.get(&launch.0)?)));
        if let Some(((_, dispatch, kernel), earlier)) = again.next() {
            let some = if again.count() + 1 < found.len() { "some of " } else { "" };
            return Err(usage(format!(
                "{}: {some}its launches are those of {} and would count twice: dispatch {} ({kernel}) is in both, with the same times and \
                 counters; give each run once (the CSV file and the database of a run hold the same launches)",
                path.display(),
                earlier.display(),
                dispatch.dispatch_id
            )));
        }
        self.known.extend(found.into_iter().map(|(identity, ..)| (identity, path.to_owned())));
        Ok(())
    }
}

/// A file's runs, with agents.
fn read(path: &Path, agents: Option<&Path>) -> Result<Vec<Run>, Failure> {
    let mut head = [0_u8; 16];
    let is_database = File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == SQLITE;
    if is_database {
        return rocpd::read(path).or_usage();
    }
    let mut run = rocprofv3::read_counter_collection(path).or_usage()?;
    if let Some(agents) = agents.map(Path::to_owned).or_else(|| beside(path)) {
        run.agents = rocprofv3::read_agent_info(&agents).or_usage()?;
    }
    Ok(vec![run])
}

/// The `agent_info.csv` with the same prefix, where there is one.
fn beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let other = path.with_file_name(name.replace("counter_collection", "agent_info"));
    (other != path && other.exists()).then_some(other)
}

/// All files as one run.
#[derive(Default)]
struct Whole {
    run: Run,
    /// The file that each agent was first in, by `logical_node_id`.
    sources: HashMap<u32, PathBuf>,
}

impl Whole {
    /// Adds the agents of a file. A launch has only the number of its agent, so a number must stand for one device.
    ///
    /// # Errors
    /// When an earlier file has another device under the number.
    fn agents(&mut self, path: &Path, agents: &[Agent]) -> Result<(), Failure> {
        for agent in agents {
            let number = agent.logical_node_id;
            let Some(known) = self.run.agents.iter().find(|known| known.logical_node_id == number) else {
                self.sources.insert(number, path.to_owned());
                self.run.agents.push(agent.clone());
                continue;
            };
            if let Some(difference) = known.difference(agent) {
                let first = self.sources.get(&number).map_or(path, PathBuf::as_path);
                return Err(usage(format!(
                    "Agent {number} is one device in {} and another in {} ({difference}): their launches cannot be told apart, and one \
                     device's numbers would pass for the other's; import the files of each device by themselves",
                    first.display(),
                    path.display()
                )));
            }
        }
        Ok(())
    }

    /// Adds kernels and launches. Kernels of several files are one when they have the same name.
    fn join(&mut self, mut run: Run) {
        let whole = &mut self.run;
        let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
        for kernel in run.kernels {
            let found = whole.kernels.iter().find(|known| known.name == kernel.name).map(|known| known.id);
            let id = found.unwrap_or(whole.kernels.len() as u64 + 1);
            numbers.insert(kernel.id, id);
            if found.is_none() {
                whole.kernels.push(rocprofv3::Kernel { id, ..kernel });
            }
        }
        for dispatch in &mut run.dispatches {
            dispatch.kernel_id = numbers.get(&dispatch.kernel_id).copied().unwrap_or(0);
        }
        whole.dispatches.append(&mut run.dispatches);
    }
}

fn choose(run: &Run, wanted: Option<u32>) -> Result<&Agent, Failure> {
    if run.agents.is_empty() {
        return Err(usage(
            "the files do not say which device they are of: give the run's agent_info.csv with --agents, or put it beside counter_collection.csv",
        ));
    }
    let has_launches = |agent: &&Agent| run.dispatches.iter().any(|dispatch| dispatch.agent == agent.logical_node_id);
    let gpus = || run.agents.iter().filter(|agent| agent.kind == AgentKind::Gpu);
    match wanted {
        Some(number) => gpus().find(|agent| agent.logical_node_id == number),
        None => gpus().find(has_launches),
    }
    .ok_or_else(|| {
        let names: Vec<String> =
            gpus().map(|agent| format!("Agent {} ({})", agent.logical_node_id, agent.name)).collect();
        usage(format!("no GPU of the run was launched on, or none has that number; its GPUs are: {}", names.join(", ")))
    })
}

/// A case with all its counters, and every metric that they allow or forbid.
fn imported(case: ImportedCase, catalog: &Catalog) -> Imported {
    let measured = &case.measured;
    let is_told = |outcome: &metric::Outcome| !matches!(outcome, metric::Outcome::Unavailable(_));
    let metrics = catalog
        .metrics()
        .filter(|metric| is_told(&evaluate(metric, measured).outcome))
        .map(|metric| metric.id.as_str());
    let raw = measured.passes.iter().flat_map(|pass| pass.counters.keys()).map(String::as_str);
    let known = raw.filter(|name| catalog.find(name).is_ok());
    let counters = report(catalog, measured, metrics.chain(known));
    Imported {
        kernel: case.kernel,
        grid: case.grid,
        workgroup: case.workgroup,
        calls: case.calls,
        duration_ns: measured.duration_ns,
        bound_ns: case.bound_ns,
        counters: counters.into_iter().filter(|(_, entry)| entry.kind != Kind::Unavailable).collect(),
    }
}

fn print(out: &mut dyn Write, rows: &[Imported], agent: &Agent) -> io::Result<()> {
    writeln!(out, "{} ({}): {} cases; values are medians over launches", agent.product, agent.name, rows.len())?;
    if agent.is_emulated() {
        writeln!(
            out,
            "nothing was measured: counters are what an emulated GPU counts or models, durations are its bounds"
        )?;
    }
    for row in rows {
        let time = match (row.duration_ns, row.bound_ns) {
            (Some(ns), _) => format!("{} each", units::time(ns, 3)),
            (None, Some(ns)) => format!("bound {} each (no time)", units::time(ns, 3)),
            (None, None) => "no time".to_owned(),
        };
        writeln!(out, "\n{}\n  {} calls, {time}, grid {:?} of {:?}", row.kernel, row.calls, row.grid, row.workgroup)?;
        let mut table = plain_table(["", "value", "unit", "remark"]);
        for (name, entry) in &row.counters {
            let value = entry.value.map_or_else(|| "invalid".to_owned(), |value| units::significant(value, 5));
            let remark = match (&entry.reason, entry.cross_pass) {
                (Some(reason), _) => reason.clone(),
                (None, true) => "from different launches".to_owned(),
                (None, false) => String::new(),
            };
            table.add_row([format!("  {name}"), value, entry.unit.clone(), remark]);
        }
        writeln!(out, "{table}")?;
    }
    Ok(())
}
