//! The report for people.

use super::findings::Severity;
use super::{DeviceCompiler, Hip, Report};
use crate::report::units;
use kbench_system::{Access, Card, DeviceNode};
use std::io::{self, Write};

/// Prints the report.
pub(super) fn print(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    writeln!(out, "kbench {} ({})", report.tool.version, report.tool.commit)?;
    machine(out, report)?;
    libraries(out, report)?;
    gpus(out, report)?;
    writeln!(out, "\nfindings")?;
    if report.findings.is_empty() {
        writeln!(out, "  nothing is missing")?;
    }
    for finding in &report.findings {
        let severity = match finding.severity {
            Severity::Problem => "problem",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        writeln!(out, "  {severity:<8} {}", finding.what)?;
        if !finding.advice.is_empty() {
            writeln!(out, "           {}", finding.advice)?;
        }
    }
    Ok(())
}

fn line(out: &mut dyn Write, what: &str, value: &str) -> io::Result<()> {
    writeln!(out, "  {what:<16} {value}")
}

fn machine(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let system = &report.system;
    let software = &system.software;
    writeln!(out, "\nmachine")?;
    line(out, "kernel", software.kernel.as_deref().unwrap_or("unknown"))?;
    let driver = match (&software.amdgpu_version, software.amdgpu_loaded) {
        (Some(version), _) => format!("amdgpu {version}"),
        (None, true) => "amdgpu of the kernel".to_owned(),
        (None, false) => "amdgpu is not loaded".to_owned(),
    };
    line(out, "driver", &driver)?;
    line(out, "/dev/kfd", &node(&system.permissions.kfd))?;
    if system.permissions.render_nodes.is_empty() {
        line(out, "render nodes", "none")?;
    }
    for found in &system.permissions.render_nodes {
        line(out, "render node", &format!("{} {}", found.path.display(), node(found)))?;
    }
    let groups = system.permissions.groups.iter().map(|group| match (group.gid, group.member) {
        (None, _) => format!("{}: no such group", group.name),
        (Some(gid), Some(true)) => format!("{} ({gid}): member", group.name),
        (Some(gid), _) => format!("{} ({gid}): not a member", group.name),
    });
    line(out, "groups", &groups.collect::<Vec<_>>().join(", "))?;
    let level = system.permissions.perf_event_paranoid.map_or_else(|| "unknown".to_owned(), |level| level.to_string());
    let perfmon = match system.permissions.capabilities.perfmon {
        Some(true) => "held",
        Some(false) => "not held",
        None => "unknown",
    };
    line(out, "counters", &format!("perf_event_paranoid {level}, CAP_PERFMON {perfmon}"))?;
    if system.container.likely() {
        line(out, "container", &system.container.signs.join(", "))?;
    }
    for variable in &system.environment.variables {
        line(out, "variable", &format!("{}={}", variable.name, variable.value))?;
    }
    Ok(())
}

fn node(node: &DeviceNode) -> String {
    match &node.access {
        Access::Missing => "missing".to_owned(),
        Access::Denied => "may not be opened".to_owned(),
        Access::Failed(why) => format!("cannot be opened: {why}"),
        Access::ReadWrite => "can be used".to_owned(),
    }
}

fn libraries(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    writeln!(out, "\nlibraries and tools")?;
    if let Some(version) = &report.system.software.rocm {
        line(out, "ROCm", &format!("{version} in /opt/rocm"))?;
    }
    let or_unknown = |version: &Option<String>| version.clone().unwrap_or_else(|| "of unknown version".to_owned());
    match &report.hip {
        Hip::Answered(hip) => {
            let loaded =
                hip.library.as_ref().map(|file| format!("{}  {}", or_unknown(&hip.runtime_version), file.display()));
            line(out, "HIP", loaded.as_deref().unwrap_or("not loaded"))?;
            let loaded =
                hip.hiprtc.as_ref().map(|file| format!("{}  {}", or_unknown(&hip.hiprtc_version), file.display()));
            line(out, "hiprtc", loaded.as_deref().unwrap_or("not loaded"))?;
        }
        Hip::Failed(_) => line(out, "HIP", "did not answer")?,
    }
    for library in &report.system.installed {
        for path in &library.paths {
            line(out, "installed", &path.display().to_string())?;
        }
    }
    match &report.compiler {
        DeviceCompiler::Found { path, version } => {
            line(out, "device compiler", &format!("{}  {version}", path.display()))?
        }
        DeviceCompiler::Missing(_) => line(out, "device compiler", "none")?,
    }
    for compiler in &report.system.compilers {
        line(out, "compiler", &format!("{}  ({})", compiler.path.display(), compiler.found_by))?;
    }
    Ok(())
}

fn gpus(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let devices = match &report.hip {
        Hip::Answered(hip) => hip.devices.as_slice(),
        Hip::Failed(_) => &[],
    };
    if devices.is_empty() && report.system.cards.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nGPUs")?;
    for device in devices {
        let units = device.compute_units.map(|units| format!("{units} CUs"));
        let memory = device.memory_total_bytes.map(|bytes| units::bytes(u128::from(bytes)));
        let parts = [device.name.clone(), device.arch.clone(), units, memory, device.pci.clone()];
        line(out, &format!("hip:{}", device.index), &parts.into_iter().flatten().collect::<Vec<_>>().join(", "))?;
    }
    for card in &report.system.cards {
        line(out, &format!("card{}", card.number), &state(card))?;
    }
    Ok(())
}

/// Clocks, power and temperature of a card, as far as they are known.
fn state(card: &Card) -> String {
    let clock = card.engine_clock.map(|clock| {
        let now = clock.current_mhz.map_or_else(|| "?".to_owned(), |mhz| mhz.to_string());
        format!("engine {now} of {} MHz", clock.max_mhz)
    });
    let memory = card.memory_clock.map(|clock| {
        let now = clock.current_mhz.map_or_else(|| "?".to_owned(), |mhz| mhz.to_string());
        format!("memory {now} of {} MHz", clock.max_mhz)
    });
    let power = card.metrics.and_then(|metrics| metrics.power_w).map(|watts| match card.power_cap_w {
        Some(cap) => format!("{watts} of {cap} W"),
        None => format!("{watts} W"),
    });
    let hotspot = card.metrics.and_then(|metrics| metrics.hotspot_c).map(|degrees| format!("{degrees} °C"));
    let busy = card.busy_percent.map(|busy| format!("{busy} % busy"));
    let partitions = card.compute_partition.as_ref().zip(card.memory_partition.as_ref());
    let partitions = partitions.map(|(compute, memory)| format!("{compute}/{memory}"));
    let vbios = card.vbios.as_ref().map(|vbios| format!("VBIOS {vbios}"));
    let parts = [Some(card.pci.to_string()), clock, memory, power, hotspot, busy, partitions, vbios];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
