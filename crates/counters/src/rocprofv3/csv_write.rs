//! CSV files with the columns of rocprofv3 1.0 and later.
//!
//! Strings stand in quotes and numbers do not, as rocprofv3 writes them. rocprofv3 escapes nothing, so a kernel name with a quote in it breaks its
//! files; here quotes are doubled, and when a run has such a name the whole file is written with quotes only where they are needed: that is how
//! readers that know rocprofv3 tell escaped files from its own.

use super::{Agent, Dispatch, FileError, Kernel, Run};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Granule of LDS in the column `LDS_Block_Size`.
const LDS_GRANULE: u32 = 512;

/// Columns of `agent_info.csv`.
pub const AGENT_COLUMNS: [&str; 53] = [
    "Node_Id",
    "Logical_Node_Id",
    "Agent_Type",
    "Cpu_Cores_Count",
    "Simd_Count",
    "Cpu_Core_Id_Base",
    "Simd_Id_Base",
    "Max_Waves_Per_Simd",
    "Lds_Size_In_Kb",
    "Gds_Size_In_Kb",
    "Num_Gws",
    "Wave_Front_Size",
    "Num_Xcc",
    "Cu_Count",
    "Array_Count",
    "Num_Shader_Banks",
    "Simd_Arrays_Per_Engine",
    "Cu_Per_Simd_Array",
    "Simd_Per_Cu",
    "Max_Slots_Scratch_Cu",
    "Gfx_Target_Version",
    "Vendor_Id",
    "Device_Id",
    "Location_Id",
    "Domain",
    "Drm_Render_Minor",
    "Num_Sdma_Engines",
    "Num_Sdma_Xgmi_Engines",
    "Num_Sdma_Queues_Per_Engine",
    "Num_Cp_Queues",
    "Max_Engine_Clk_Ccompute",
    "Max_Engine_Clk_Fcompute",
    "Sdma_Fw_Version",
    "Fw_Version",
    "Capability",
    "Cu_Per_Engine",
    "Max_Waves_Per_Cu",
    "Family_Id",
    "Workgroup_Max_Size",
    "Grid_Max_Size",
    "Local_Mem_Size",
    "Hive_Id",
    "Gpu_Id",
    "Workgroup_Max_Dim_X",
    "Workgroup_Max_Dim_Y",
    "Workgroup_Max_Dim_Z",
    "Grid_Max_Dim_X",
    "Grid_Max_Dim_Y",
    "Grid_Max_Dim_Z",
    "Name",
    "Vendor_Name",
    "Product_Name",
    "Model_Name",
];

const COUNTER_COLUMNS: [&str; 19] = [
    "Correlation_Id",
    "Dispatch_Id",
    "Agent_Id",
    "Queue_Id",
    "Process_Id",
    "Thread_Id",
    "Grid_Size",
    "Kernel_Id",
    "Kernel_Name",
    "Workgroup_Size",
    "LDS_Block_Size",
    "Scratch_Size",
    "VGPR_Count",
    "Accum_VGPR_Count",
    "SGPR_Count",
    "Counter_Name",
    "Counter_Value",
    "Start_Timestamp",
    "End_Timestamp",
];

const TRACE_COLUMNS: [&str; 22] = [
    "Kind",
    "Agent_Id",
    "Queue_Id",
    "Stream_Id",
    "Thread_Id",
    "Dispatch_Id",
    "Kernel_Id",
    "Kernel_Name",
    "Correlation_Id",
    "Start_Timestamp",
    "End_Timestamp",
    "LDS_Block_Size",
    "Scratch_Size",
    "VGPR_Count",
    "Accum_VGPR_Count",
    "SGPR_Count",
    "Workgroup_Size_X",
    "Workgroup_Size_Y",
    "Workgroup_Size_Z",
    "Grid_Size_X",
    "Grid_Size_Y",
    "Grid_Size_Z",
];

/// Rows of one file.
struct Table {
    out: BufWriter<File>,
    quotes_all: bool,
    is_first: bool,
    row: String,
}

impl Table {
    fn create(path: &Path, columns: &[&str], quotes_all: bool) -> std::io::Result<Self> {
        let mut table =
            Self { out: BufWriter::new(File::create(path)?), quotes_all, is_first: true, row: String::new() };
        for column in columns {
            table.text(column);
        }
        table.end()?;
        Ok(table)
    }

    fn separate(&mut self) {
        if !std::mem::replace(&mut self.is_first, false) {
            self.row.push(',');
        }
    }

    fn text(&mut self, text: &str) {
        self.separate();
        if self.quotes_all || text.contains([',', '"', '\n', '\r']) {
            self.row.push('"');
            self.row.push_str(&text.replace('"', "\"\""));
            self.row.push('"');
        } else {
            self.row.push_str(text);
        }
    }

    fn number(&mut self, number: impl Into<u64>) {
        self.separate();
        self.row.push_str(&number.into().to_string());
    }

    /// A value as rocprofv3 prints it: six decimals from 1 on, scientific below.
    fn real(&mut self, value: f64) {
        self.separate();
        let text = if value.abs() >= 1.0 { format!("{value:.6}") } else { scientific(value) };
        self.row.push_str(&text);
    }

    fn end(&mut self) -> std::io::Result<()> {
        self.row.push('\n');
        self.out.write_all(self.row.as_bytes())?;
        self.row.clear();
        self.is_first = true;
        Ok(())
    }
}

/// C's `%.8e`: at least two digits of exponent.
fn scientific(value: f64) -> String {
    let text = format!("{value:.8e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// rocprofv3's way of quoting, unless a name has a quote.
fn quotes_all(run: &Run) -> bool {
    let texts = run.agents.iter().flat_map(|agent| [&agent.name, &agent.vendor, &agent.product, &agent.model]);
    !run.kernels.iter().map(|kernel| &kernel.name).chain(texts).any(|text| text.contains('"'))
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> FileError + '_ {
    move |cause| FileError::Io { path: path.to_owned(), cause }
}

/// Kernels by number, and the check that every dispatch has one.
fn kernels(run: &Run) -> Result<HashMap<u64, &Kernel>, FileError> {
    let kernels: HashMap<u64, &Kernel> = run.kernels.iter().map(|kernel| (kernel.id, kernel)).collect();
    match run.dispatches.iter().find(|dispatch| !kernels.contains_key(&dispatch.kernel_id)) {
        Some(dispatch) => run.kernel(dispatch).map(|_| kernels),
        None => Ok(kernels),
    }
}

fn lds_block(dispatch: &Dispatch, kernel: &Kernel) -> u32 {
    dispatch.lds_bytes.max(kernel.lds_bytes).checked_next_multiple_of(LDS_GRANULE).unwrap_or(u32::MAX)
}

/// Writes `*_counter_collection.csv`: a row for each dispatch and counter.
///
/// # Errors
/// The operating system's, or a dispatch of a kernel that the run does not hold.
pub fn write_counter_collection(path: &Path, run: &Run) -> Result<(), FileError> {
    let kernels = kernels(run)?;
    let write = || -> std::io::Result<()> {
        let mut table = Table::create(path, &COUNTER_COLUMNS, quotes_all(run))?;
        for dispatch in &run.dispatches {
            let Some(kernel) = kernels.get(&dispatch.kernel_id) else { continue };
            for (name, value) in &dispatch.counters {
                table.number(dispatch.correlation_id);
                table.number(dispatch.dispatch_id);
                table.text(&format!("Agent {}", dispatch.agent));
                table.number(dispatch.queue_id);
                table.number(run.process.pid);
                table.number(dispatch.thread_id);
                table.number(dispatch.grid.iter().fold(1_u64, |product, size| product.saturating_mul(*size)));
                table.number(dispatch.kernel_id);
                table.text(&kernel.name);
                table.number(
                    dispatch.workgroup.iter().fold(1_u64, |product, size| product.saturating_mul(u64::from(*size))),
                );
                table.number(lds_block(dispatch, kernel));
                table.number(dispatch.scratch_bytes);
                table.number(kernel.vgprs);
                table.number(kernel.agprs);
                table.number(kernel.sgprs);
                table.text(name);
                table.real(*value);
                table.number(dispatch.start_ns);
                table.number(dispatch.end_ns);
                table.end()?;
            }
        }
        table.out.flush()
    };
    write().map_err(io(path))
}

/// Writes `*_kernel_trace.csv`: a row for each dispatch.
///
/// # Errors
/// As [`write_counter_collection`].
pub fn write_kernel_trace(path: &Path, run: &Run) -> Result<(), FileError> {
    let kernels = kernels(run)?;
    let write = || -> std::io::Result<()> {
        let mut table = Table::create(path, &TRACE_COLUMNS, quotes_all(run))?;
        for dispatch in &run.dispatches {
            let Some(kernel) = kernels.get(&dispatch.kernel_id) else { continue };
            table.text("KERNEL_DISPATCH");
            table.text(&format!("Agent {}", dispatch.agent));
            table.number(dispatch.queue_id);
            table.number(dispatch.stream_id);
            table.number(dispatch.thread_id);
            table.number(dispatch.dispatch_id);
            table.number(dispatch.kernel_id);
            table.text(&kernel.name);
            table.number(dispatch.correlation_id);
            table.number(dispatch.start_ns);
            table.number(dispatch.end_ns);
            table.number(lds_block(dispatch, kernel));
            table.number(dispatch.scratch_bytes);
            table.number(kernel.vgprs);
            table.number(kernel.agprs);
            table.number(kernel.sgprs);
            dispatch.workgroup.iter().for_each(|size| table.number(*size));
            dispatch.grid.iter().for_each(|size| table.number(*size));
            table.end()?;
        }
        table.out.flush()
    };
    write().map_err(io(path))
}

/// Writes `*_agent_info.csv`: a row for each agent; numbers that are not known are 0, as in rocprofv3.
///
/// # Errors
/// The operating system's.
pub fn write_agent_info(path: &Path, run: &Run) -> Result<(), FileError> {
    let write = || -> std::io::Result<()> {
        let mut table = Table::create(path, &AGENT_COLUMNS, quotes_all(run))?;
        for agent in &run.agents {
            AGENT_COLUMNS.iter().for_each(|column| agent_cell(&mut table, agent, column));
            table.end()?;
        }
        table.out.flush()
    };
    write().map_err(io(path))
}

fn agent_cell(table: &mut Table, agent: &Agent, column: &str) {
    match column {
        "Node_Id" => table.number(agent.node_id),
        "Logical_Node_Id" => table.number(agent.logical_node_id),
        "Agent_Type" => table.text(agent.kind.name()),
        "Name" => table.text(&agent.name),
        "Vendor_Name" => table.text(&agent.vendor),
        "Product_Name" => table.text(&agent.product),
        "Model_Name" => table.text(&agent.model),
        other => table.number(agent.numbers.get(other).copied().unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures that rocprofv3's own files show (facts section 4.2), and C's `%.8e` of others.
    #[test]
    fn values_look_as_rocprofv3_prints_them() {
        assert_eq!(scientific(0.0), "0.00000000e+00");
        assert_eq!(scientific(0.5), "5.00000000e-01");
        assert_eq!(scientific(1.25e-12), "1.25000000e-12");
        assert_eq!(format!("{:.6}", 16384.0), "16384.000000");
    }
}
