//! Arguments of `kbench emu`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// One kernel of a code object on an emulated GPU.
#[derive(Args, Debug)]
pub struct EmuArgs {
    /// Code object, or offload bundle with one for the device
    #[arg(value_name = "FILE.co")]
    pub file: PathBuf,
    /// Kernel name as `kbench inspect` shows it; may be left out when there is only one
    #[arg(long, value_name = "NAME")]
    pub kernel: Option<String>,
    /// Workgroups: X, X,Y or X,Y,Z
    #[arg(long, value_name = "X,Y,Z", value_parser = dimensions)]
    pub grid: [u32; 3],
    /// Work-items of a workgroup: X, X,Y or X,Y,Z
    #[arg(long, value_name = "X,Y,Z", value_parser = dimensions)]
    pub block: [u32; 3],
    /// Which GPU: a model's name, or a file with a model of your own (docs/emulated-gpu.md); by default one that the code object is for
    #[arg(long, value_name = "MODEL|FILE.toml")]
    pub device: Option<String>,
    /// Argument, in the order of the kernel's: u32:N, i32:N, u64:N, i64:N, f32:X, f64:X, in:FILE (a buffer with a file's bytes),
    /// out:BYTES:FILE (a zeroed buffer, written to a file afterwards), inout:FILE:OUT, zero:BYTES, null; with @OFFSET= before it,
    /// at that byte of the argument block (all arguments then). Repeatable
    #[arg(long = "arg", value_name = "KIND:VALUE", allow_hyphen_values = true)]
    pub args: Vec<String>,
    /// Bytes of the argument block; by default what the arguments and the kernel need
    #[arg(long, value_name = "N")]
    pub kernarg_size: Option<u32>,
    /// Dynamic LDS, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub lds: u32,
    /// Run only N workgroups, spread over the grid
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub sample: Option<u64>,
    /// How accesses are held to buffers: exact, or page as hardware does (reads inside a buffer's last page pass)
    #[arg(long, value_enum, default_value_t = BoundsChoice::Exact, value_name = "HOW")]
    pub bounds: BoundsChoice,
    /// Stop at reads of device memory that nothing has written (buffers of out and zero are written)
    #[arg(long)]
    pub check_uninitialised: bool,
    /// Stop when waves end while others of their workgroup wait at a barrier
    #[arg(long)]
    pub strict_barriers: bool,
    /// Wave instructions that the launch may take
    #[arg(long, value_name = "N", default_value_t = 10_000_000_000)]
    pub limit: u64,
    /// Host threads; results do not depend on it. By default all
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Print each instruction before it runs: workgroup, wave, offset, text, EXEC
    #[arg(long)]
    pub trace: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = EmuFormat::Table, value_name = "FORMAT")]
    pub format: EmuFormat,
}

/// `--bounds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BoundsChoice {
    /// A byte beyond a buffer is a fault.
    Exact,
    /// Reads inside the last page pass and are counted.
    Page,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EmuFormat {
    /// Counters as a table.
    Table,
    /// One JSON object.
    Json,
}

fn dimensions(text: &str) -> Result<[u32; 3], String> {
    let mut sizes = [1; 3];
    let parts: Vec<&str> = text.split([',', 'x']).collect();
    if parts.len() > 3 {
        return Err(format!("`{text}` has more than three dimensions"));
    }
    for (size, part) in sizes.iter_mut().zip(parts) {
        *size = part
            .trim()
            .parse()
            .ok()
            .filter(|size| *size > 0)
            .ok_or_else(|| format!("`{part}` is no size; sizes are whole numbers from 1 to {}", u32::MAX))?;
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fill_up_with_ones() {
        assert_eq!(dimensions("7"), Ok([7, 1, 1]));
        assert_eq!(dimensions("7, 2"), Ok([7, 2, 1]));
        assert_eq!(dimensions("7x2x3"), Ok([7, 2, 3]));
        for wrong in ["", "0", "1,0", "1,2,3,4", "-1", "4294967296"] {
            assert!(dimensions(wrong).is_err(), "{wrong}");
        }
    }
}
