//! rocprofv3's files: what a run holds, its CSV files and its rocpd database, written and read.
//!
//! Writers give the columns of rocprofv3 1.0 and later, so that what reads those reads ours. Readers take every version's columns by name and
//! give the same [`Run`] back, from which [`cases`] makes readings for [`crate::metric`].

mod csv_read;
mod csv_write;
mod import;
pub mod rocpd;

pub use csv_read::{read_agent_info, read_counter_collection, read_kernel_trace};
pub use csv_write::{AGENT_COLUMNS, write_agent_info, write_counter_collection, write_kernel_trace};
pub use import::{ImportedCase, cases};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a run holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The process that launched.
    pub process: Process,
    /// Agents, CPUs among them.
    pub agents: Vec<Agent>,
    /// Kernels that were launched.
    pub kernels: Vec<Kernel>,
    /// Dispatches, in the order of the file.
    pub dispatches: Vec<Dispatch>,
}

/// A profiled process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process.
    pub pid: u64,
    /// Its host.
    pub hostname: String,
    /// Its command line.
    pub command: String,
}

/// Kinds of agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum AgentKind {
    /// A host processor.
    #[default]
    Cpu,
    /// A device.
    Gpu,
}

impl AgentKind {
    /// rocprofv3's word.
    pub const fn name(self) -> &'static str {
        match self {
            AgentKind::Cpu => "CPU",
            AgentKind::Gpu => "GPU",
        }
    }
}

/// An agent. Of its many numbers, those that are known are kept by rocprofv3's column name ([`AGENT_COLUMNS`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Agent {
    /// Node of the driver's topology.
    pub node_id: u32,
    /// Number among the nodes that the process sees: the N of `Agent N`.
    pub logical_node_id: u32,
    /// Processor or device.
    pub kind: AgentKind,
    /// Architecture, such as `gfx942`.
    pub name: String,
    /// Vendor.
    pub vendor: String,
    /// Product, such as `AMD Instinct MI300X`.
    pub product: String,
    /// The driver's model name.
    pub model: String,
    /// Other columns by name, such as `Cu_Count`.
    pub numbers: BTreeMap<String, u64>,
}

/// Stands behind the product's name of an agent that is emulated: the durations in its files are bounds and no times.
pub const EMULATED: &str = " (emulated)";

impl Agent {
    /// True when the agent was marked as emulated ([`EMULATED`]): nothing of it was measured.
    pub fn is_emulated(&self) -> bool {
        self.product.ends_with(EMULATED)
    }
}

/// A kernel as it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// The profiler's number.
    pub id: u64,
    /// Name for people: demangled.
    pub name: String,
    /// Name of the symbol, where it is known.
    pub mangled: String,
    /// Scalar registers.
    pub sgprs: u32,
    /// Vector registers.
    pub vgprs: u32,
    /// Accumulation registers.
    pub agprs: u32,
    /// LDS of the kernel itself, bytes.
    pub lds_bytes: u32,
    /// Scratch a work-item, bytes.
    pub scratch_bytes: u32,
}

/// A dispatch and what was counted of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The profiler's number.
    pub dispatch_id: u64,
    /// Joins it with the API call.
    pub correlation_id: u64,
    /// `logical_node_id` of the agent.
    pub agent: u32,
    /// Queue.
    pub queue_id: u64,
    /// Stream; 0 where the file has none.
    pub stream_id: u64,
    /// Thread that launched.
    pub thread_id: u64,
    /// [`Kernel::id`].
    pub kernel_id: u64,
    /// Start, ns.
    pub start_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Work-items a workgroup; `[n, 1, 1]` where the file has only the product.
    pub workgroup: [u32; 3],
    /// Work-items (not workgroups) of the grid, as rocprofv3 has them; `[n, 1, 1]` where the file has only the product.
    pub grid: [u64; 3],
    /// LDS that the dispatch was given, bytes.
    pub lds_bytes: u32,
    /// Scratch a work-item, bytes.
    pub scratch_bytes: u32,
    /// Counters by name: sums over all instances.
    pub counters: BTreeMap<String, f64>,
}

/// A duration in ns, where the times make one.
impl Dispatch {
    /// End minus start, ns; `None` when the end is not after the start.
    pub fn duration_ns(&self) -> Option<u64> {
        self.end_ns.checked_sub(self.start_ns).filter(|ns| *ns > 0)
    }
}

/// Why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused.
    #[error("{path}: {cause}")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why; part of the message, and so no further source of it.
        cause: std::io::Error,
    },
    /// A CSV file has another form than was expected.
    #[error("{path}{}: {what}", at(.line))]
    Csv {
        /// The file.
        path: PathBuf,
        /// Line, from 1, where it is known.
        line: Option<u64>,
        /// What is wrong and what would be right.
        what: String,
    },
    /// SQLite refused.
    #[error("{path}: {what}")]
    Database {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        what: String,
    },
    /// A run cannot be written because it does not hold together.
    #[error("the run cannot be written: dispatch {dispatch_id} is of {what}, which the run does not hold")]
    Dangling {
        /// The dispatch.
        dispatch_id: u64,
        /// What is missing.
        what: String,
    },
}

fn at(line: &Option<u64>) -> String {
    line.map(|line| format!(":{line}")).unwrap_or_default()
}

impl Run {
    /// The kernel of a dispatch.
    fn kernel(&self, dispatch: &Dispatch) -> Result<&Kernel, FileError> {
        self.kernels.iter().find(|kernel| kernel.id == dispatch.kernel_id).ok_or_else(|| FileError::Dangling {
            dispatch_id: dispatch.dispatch_id,
            what: format!("kernel {}", dispatch.kernel_id),
        })
    }
}
