//! `kbench peaks`.

use crate::cli::PeaksArgs;
use crate::device::gpu::{GpuOptions, NO_GPU};
use crate::device::{Device as _, DeviceSpec, Peaks};
use crate::exit::{Exit, OrExit as _, Outcome, from_output};
use crate::report::units;
use kbench_workload::Fp8Flavor;
use std::io::{self, Write};

/// Measures (or shows the kept) peaks.
///
/// # Errors
/// When they cannot be measured or printed.
pub fn run(args: &PeaksArgs) -> Outcome {
    let peaks = match &args.device {
        // Nothing can be measured on an emulated device: its data sheet is shown.
        DeviceSpec::Emu(_) | DeviceSpec::Hip(_) | DeviceSpec::HipAll => {
            let mut device = super::open_device(&args.device, Fp8Flavor::Ocp, None, None, GpuOptions::default())?;
            let no_gpu = device.environment().iter().any(|(name, _)| name == NO_GPU);
            super::announce(&args.device, device.info(), no_gpu);
            device.peaks().or_device()?
        }
        DeviceSpec::Auto | DeviceSpec::Host => {
            let mut host = super::open_host(Fp8Flavor::Ocp);
            if args.kept { host.peaks() } else { host.measure_peaks() }.or_device()?
        }
    };
    let mut out = io::stdout().lock();
    if args.json {
        let text = serde_json::to_string_pretty(&peaks).or_device()?;
        writeln!(out, "{text}").map_err(from_output)?;
    } else {
        print(&mut out, &peaks).map_err(from_output)?;
    }
    Ok(Exit::Ok)
}

fn print(out: &mut dyn Write, peaks: &Peaks) -> io::Result<()> {
    writeln!(out, "{}\n", peaks.source)?;
    writeln!(out, "streaming bandwidth (the best of read, copy and triad, all threads)")?;
    for entry in &peaks.bandwidth {
        let set = units::bytes(u128::from(entry.working_set_bytes));
        writeln!(out, "  {set:>10} working set  {:>8} GB/s", units::significant(entry.gbps, 3))?;
    }
    writeln!(out, "\nfused multiply-adds by operand dtype")?;
    for entry in &peaks.gflops {
        writeln!(out, "  {:<14} {:>8} GFLOP/s", entry.dtype, units::significant(entry.gflops, 3))?;
    }
    Ok(())
}
