//! `kbench devices`: what `--device` takes.

use super::probe::{self, HipProbe};
use crate::cli::{DevicesArgs, DoctorFormat};
use crate::device::{DEFAULT_MODEL, Device as _};
use crate::exit::{Exit, OrExit as _, Outcome, from_output};
use crate::report::units;
use comfy_table::{ContentArrangement, Table, presets};
use kbench_gfx_emu::model::Model;
use kbench_workload::Fp8Flavor;
use serde::Serialize;
use std::io::{self, Write as _};

/// The document.
#[derive(Serialize)]
struct Document {
    schema: &'static str,
    devices: Vec<Row>,
    /// Why there is no GPU among them.
    hip_error: Option<String>,
}

/// One device.
#[derive(Serialize)]
struct Row {
    /// What `--device` takes.
    device: String,
    kind: &'static str,
    name: String,
    arch: String,
    /// CUs of a GPU, threads of the host.
    units: Option<u64>,
    memory_bytes: Option<u64>,
    clock_mhz: Option<f64>,
    pci: Option<String>,
    /// `--device auto` takes it.
    auto: bool,
}

/// Lists devices.
///
/// # Errors
/// When the list cannot be printed.
pub fn run(args: &DevicesArgs) -> Outcome {
    let (hip, hip_error) = match probe::ask() {
        Ok(answer) => (gpus(&answer), answer.error),
        Err(why) => (Vec::new(), Some(why)),
    };
    let devices: Vec<Row> = hip.into_iter().chain(emulated()).chain([host()]).collect();
    let document = Document { schema: "kbench.devices/1", devices, hip_error };
    let mut out = io::stdout().lock();
    match args.format {
        DoctorFormat::Json => {
            let text = serde_json::to_string_pretty(&document).or_device()?;
            writeln!(out, "{text}").map_err(from_output)?;
        }
        DoctorFormat::Text => {
            writeln!(out, "{}", table(&document.devices)).map_err(from_output)?;
            if let Some(error) = &document.hip_error {
                writeln!(out, "\nno GPU: {error}").map_err(from_output)?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn gpus(answer: &HipProbe) -> Vec<Row> {
    let row = |device: &probe::HipDevice| Row {
        device: format!("hip:{}", device.index),
        kind: "hip",
        name: device.name.clone().unwrap_or_default(),
        arch: device.arch.clone().unwrap_or_default(),
        units: device.compute_units.map(u64::from),
        memory_bytes: device.memory_total_bytes,
        clock_mhz: device.clock_khz.map(|khz| f64::from(khz) / 1e3),
        pci: device.pci.clone(),
        auto: false,
    };
    answer.devices.iter().map(row).collect()
}

fn emulated() -> impl Iterator<Item = Row> {
    Model::all().iter().map(|model| Row {
        device: format!("emu:{}", model.name),
        kind: "emu",
        name: model.marketing_name.clone(),
        arch: model.arch().name().to_owned(),
        units: Some(u64::from(model.cus())),
        memory_bytes: model.hbm_bytes.as_ref().map(|bytes| bytes.value),
        clock_mhz: model.clock_mhz.as_ref().map(|clock| clock.value),
        pci: None,
        auto: model.name == DEFAULT_MODEL,
    })
}

fn host() -> Row {
    let host = super::open_host(Fp8Flavor::Ocp);
    let info = host.info();
    Row {
        device: "host".to_owned(),
        kind: "host",
        name: info.name.clone(),
        arch: info.arch.clone(),
        units: Some(info.units),
        memory_bytes: None,
        clock_mhz: None,
        pci: None,
        auto: false,
    }
}

fn table(devices: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["device", "name", "arch", "units", "memory", "clock", "PCI"]);
    for row in devices {
        let or_nothing = |text: Option<String>| text.unwrap_or_default();
        table.add_row([
            format!("{}{}", row.device, if row.auto { " (auto)" } else { "" }),
            row.name.clone(),
            row.arch.clone(),
            or_nothing(row.units.map(|units| units.to_string())),
            or_nothing(row.memory_bytes.map(|bytes| units::bytes(u128::from(bytes)))),
            or_nothing(row.clock_mhz.map(|mhz| format!("{mhz} MHz"))),
            or_nothing(row.pci.clone()),
        ]);
    }
    table
}
