//! What follows from what was found out.

use super::{DeviceCompiler, Hip};
use kbench_system::{Access, DeviceNode, System};
use serde::Serialize;

/// One conclusion, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub severity: Severity,
    /// What is so.
    pub what: String,
    /// What to do; empty when nothing need be done.
    pub advice: String,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// Something is there and cannot be used.
    Problem,
    /// Something works, and results may be worse for it.
    Warning,
    /// Something that is good to know.
    Note,
}

fn finding(severity: Severity, what: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { severity, what: what.into(), advice: advice.into() }
}

/// All conclusions, the gravest first.
pub(super) fn findings(system: &System, hip: &Hip, compiler: &DeviceCompiler) -> Vec<Finding> {
    let mut found = Vec::new();
    driver(system, &mut found);
    runtime(system, hip, &mut found);
    attachments(system, &mut found);
    counters(system, &mut found);
    cards(system, &mut found);
    if let DeviceCompiler::Missing(why) = compiler {
        let advice = "The kernels in the program run without one; `kbench build` needs it.";
        found.push(finding(Severity::Note, why, advice));
    }
    found.sort_by_key(|finding| finding.severity as u8);
    found
}

/// Whether the kernel shows a GPU and lets this process at it.
fn driver(system: &System, found: &mut Vec<Finding>) {
    let permissions = &system.permissions;
    let in_container = system.container.likely();
    let kfd = &permissions.kfd;
    if kfd.access == Access::Missing {
        let what = match (system.topology.gpus().count(), system.cards.len()) {
            (0, 0) => "There is no AMD GPU here that compute programs could use: /dev/kfd does not exist.",
            _ => "There is an AMD GPU, but no /dev/kfd, through which compute programs use it.",
        };
        let advice = if in_container {
            "This looks like a container: start it with --device=/dev/kfd --device=/dev/dri --group-add render --security-opt \
             seccomp=unconfined. Without a GPU, kbench takes the emulated MI300X."
        } else if system.software.amdgpu_loaded {
            "The amdgpu driver is loaded: see `dmesg | grep -i -e kfd -e amdgpu` for why it offers no compute."
        } else {
            "With a GPU in the machine, load the driver: `modprobe amdgpu`. Without one, kbench takes the emulated MI300X."
        };
        let severity = if system.cards.is_empty() { Severity::Note } else { Severity::Problem };
        found.push(finding(severity, what, advice));
    } else {
        found.extend(refused(kfd, in_container));
    }
    found.extend(permissions.render_nodes.iter().filter_map(|node| refused(node, in_container)));
    if kfd.access == Access::ReadWrite && permissions.render_nodes.is_empty() {
        let advice = "In a container, add --device=/dev/dri; else see `dmesg | grep -i amdgpu`.";
        found.push(finding(Severity::Problem, "There is /dev/kfd but no /dev/dri/renderD*.", advice));
    }
    let hidden = system.topology.nodes.iter().filter(|node| node.hidden).count();
    if hidden > 0 {
        let what = format!("KFD hides the properties of {hidden} node(s) from this process.");
        found.push(finding(
            Severity::Note,
            what,
            "They belong to GPUs whose render nodes this container was not given.",
        ));
    }
}

/// A device node that is there and does not open.
fn refused(node: &DeviceNode, in_container: bool) -> Option<Finding> {
    let path = node.path.display();
    let advice = match (node.owner_gid, in_container) {
        (Some(gid), true) => {
            format!(
                "Start the container with --device={path} and --group-add {gid} (the group that owns it on the host)."
            )
        }
        (Some(gid), false) => format!(
            "Become a member of its group (number {gid}, mostly `render`): `sudo usermod -aG render $USER`, then log in again."
        ),
        (None, _) => String::new(),
    };
    match &node.access {
        Access::Denied => Some(finding(Severity::Problem, format!("{path} is there, but may not be opened."), advice)),
        Access::Failed(why) => Some(finding(Severity::Problem, format!("{path} cannot be opened: {why}."), advice)),
        Access::Missing | Access::ReadWrite => None,
    }
}

/// Whether HIP works.
fn runtime(system: &System, hip: &Hip, found: &mut Vec<Finding>) {
    // Without a GPU nothing is broken when HIP is not there either.
    let severity = if system.permissions.kfd.access == Access::Missing { Severity::Note } else { Severity::Problem };
    let answer = match hip {
        Hip::Answered(answer) => answer,
        Hip::Failed(why) => {
            let advice = "Look at `dmesg` and at the versions of driver and ROCm; `AMD_LOG_LEVEL=3 kbench doctor --probe` shows HIP's log.";
            return found.push(finding(Severity::Problem, format!("{why}."), advice));
        }
    };
    if let Some(error) = &answer.error {
        let advice = match &answer.library {
            None => "In Debian it is the package libamdhip64-5.",
            Some(_) if answer.no_device => "HIP works and sees no GPU; the lines on /dev/kfd say why.",
            Some(_) => "",
        };
        found.push(finding(severity, format!("{error}."), advice));
    } else if answer.devices.is_empty() {
        let hides = ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];
        let set = system.environment.variables.iter().filter(|variable| hides.contains(&variable.name.as_str()));
        let set: Vec<String> = set.map(|variable| format!("{}={}", variable.name, variable.value)).collect();
        let advice =
            if set.is_empty() { String::new() } else { format!("These variables hide GPUs: {}.", set.join(", ")) };
        found.push(finding(severity, "HIP works and shows no GPU.", advice));
    }
    for device in answer.devices.iter().filter(|device| device.error.is_some()) {
        let why = device.error.as_deref().unwrap_or_default();
        found.push(finding(Severity::Problem, format!("hip:{} does not answer everything: {why}.", device.index), ""));
    }
    if let Some(error) = &answer.hiprtc_error {
        let advice = "kbench compiles kernels at run time only for GPUs it has no code for.";
        found.push(finding(Severity::Note, format!("{error}."), advice));
    }
    for duplicate in answer.duplicates.iter().chain(&system.duplicates) {
        let paths: Vec<String> = duplicate.paths.iter().map(|path| path.display().to_string()).collect();
        let what = format!("Two files of {} are in one process: {}.", duplicate.library, paths.join(" and "));
        let advice = "They keep separate states, and profilers miss calls or hang. Leave one in LD_LIBRARY_PATH, or set ROCM_PATH to its installation.";
        found.push(finding(Severity::Problem, what, advice));
    }
}

/// Profilers and emulators that the environment attaches.
fn attachments(system: &System, found: &mut Vec<Finding>) {
    for profiler in system.environment.profilers() {
        let what = format!("A profiler is attached to kbench: {}={}.", profiler.variable, profiler.entry);
        found.push(finding(
            Severity::Warning,
            what,
            "It disturbs times and takes the counters: run kbench without it.",
        ));
    }
    for emulator in system.environment.emulators() {
        let what = format!("An emulated GPU lies under HIP: {}={}.", emulator.variable, emulator.entry);
        found.push(finding(Severity::Warning, what, "No time measured on it means anything, and kbench reports none."));
    }
}

/// Whether hardware counters can be read.
fn counters(system: &System, found: &mut Vec<Finding>) {
    // None of this matters without a GPU.
    if system.permissions.kfd.access == Access::Missing {
        return;
    }
    let level = system.permissions.perf_event_paranoid;
    if system.permissions.counters_allowed() == Some(false) {
        let what = format!(
            "Hardware counters are not allowed: perf_event_paranoid is {} and CAP_PERFMON is missing.",
            level.unwrap_or(3)
        );
        let advice = "`sudo sysctl kernel.perf_event_paranoid=2`, or give the container --cap-add=PERFMON.";
        found.push(finding(Severity::Warning, what, advice));
    }
    let packages = [("librocprofiler-sdk.so", "rocprofiler-sdk"), ("libhsa-amd-aqlprofile64.so", "hsa-amd-aqlprofile")];
    for (library, package) in packages {
        let installed = system.installed.iter().any(|known| known.library == library && !known.paths.is_empty());
        if !installed {
            let what = format!("{library} is not installed in the usual places: hardware counters cannot be read.");
            found.push(finding(Severity::Note, what, format!("Install the package {package}.")));
        }
    }
}

/// What clocks and links say.
fn cards(system: &System, found: &mut Vec<Finding>) {
    for card in &system.cards {
        let reasons = card.metrics.and_then(|metrics| metrics.throttle).unwrap_or_default();
        if !reasons.is_empty() {
            let names: Vec<&str> = reasons.iter().map(|reason| reason.name()).collect();
            let what = format!("The GPU at {} is held back right now: {}.", card.pci, names.join(", "));
            found.push(finding(Severity::Warning, what, "Check cooling and power limits, and what else runs on it."));
        }
        if let Some(level) =
            card.performance_level.as_deref().filter(|level| matches!(*level, "low" | "manual" | "profile_min_sclk"))
        {
            let what = format!("The GPU at {} runs at the performance level `{level}`.", card.pci);
            found.push(finding(
                Severity::Warning,
                what,
                "Its clocks are below what it could do: `amd-smi set -l auto` undoes it.",
            ));
        }
        if let (Some(width), Some(most)) = (card.link.width, card.link.max_width)
            && width < most
        {
            let what = format!("The PCIe link of {} has {width} of {most} lanes.", card.pci);
            found.push(finding(Severity::Warning, what, "Reseat the card; it matters for copies, not for kernels."));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::probe::{HipDevice, HipProbe};
    use super::*;
    use kbench_system::{Environment, Root};
    use std::ffi::OsString;
    use std::fs;

    /// A machine from files.
    fn machine(files: &[(&str, &str)], variables: &[(&str, &str)]) -> System {
        let tree = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let environment =
            Environment::of(variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))));
        System::read(&Root::at(tree.path()), environment, &|_| None)
    }

    const CARD: [(&str, &str); 4] = [
        ("sys/class/drm/card0/device/vendor", "0x1002"),
        ("sys/class/drm/card0/device/uevent", "PCI_SLOT_NAME=0000:c3:00.0"),
        ("sys/class/drm/card0/device/current_link_width", "8"),
        ("sys/class/drm/card0/device/max_link_width", "16"),
    ];

    fn no_gpu() -> Hip {
        let error = Some("hipGetDeviceCount failed: hipErrorNoDevice (100)".to_owned());
        Hip::Answered(HipProbe {
            library: Some("/lib/libamdhip64.so.5".into()),
            no_device: true,
            error,
            ..HipProbe::default()
        })
    }

    fn one_gpu() -> Hip {
        Hip::Answered(HipProbe { devices: vec![HipDevice::default()], ..HipProbe::default() })
    }

    fn compiler() -> DeviceCompiler {
        DeviceCompiler::Found { path: "/usr/bin/clang-19".into(), version: "clang 19".into() }
    }

    fn problems(found: &[Finding]) -> Vec<&str> {
        found
            .iter()
            .filter(|finding| finding.severity == Severity::Problem)
            .map(|finding| finding.what.as_str())
            .collect()
    }

    #[test]
    fn a_machine_without_a_gpu_is_not_broken() {
        let found = findings(&machine(&[], &[]), &no_gpu(), &compiler());
        assert_eq!(problems(&found), [""; 0]);
        assert!(found.iter().any(|finding| finding.what.contains("hipErrorNoDevice (100)")));
        assert!(found.iter().any(|finding| finding.advice.contains("modprobe amdgpu")));
    }

    #[test]
    fn a_container_is_told_how_to_get_the_gpu() {
        let found = findings(&machine(&[(".dockerenv", "")], &[]), &no_gpu(), &compiler());
        assert!(found.iter().any(|finding| finding.advice.contains("--device=/dev/kfd")), "{found:?}");
    }

    #[test]
    fn a_card_without_kfd_is_a_problem() {
        let found = findings(&machine(&CARD, &[]), &no_gpu(), &compiler());
        assert_eq!(problems(&found).len(), 1);
        assert!(found.iter().any(|finding| finding.what.contains("8 of 16 lanes")));
    }

    #[test]
    fn a_working_gpu_leaves_only_what_is_missing_for_counters() {
        let files = [
            ("dev/kfd", ""),
            ("dev/dri/renderD128", ""),
            ("proc/sys/kernel/perf_event_paranoid", "3"),
            ("proc/self/status", "CapEff:\t0"),
        ];
        let found = findings(&machine(&files, &[]), &one_gpu(), &compiler());
        assert_eq!(problems(&found), [""; 0]);
        let texts: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[0].contains("perf_event_paranoid is 3"), "warnings come before notes");
    }

    #[test]
    fn a_driver_that_aborts_is_a_problem_everywhere() {
        let hip = Hip::Failed("HIP's library was ended by signal 6".into());
        assert_eq!(problems(&findings(&machine(&[], &[]), &hip, &compiler())).len(), 1);
    }

    #[test]
    fn hidden_gpus_are_explained_by_the_variables_that_hide_them() {
        let hip = Hip::Answered(HipProbe::default());
        let found = findings(&machine(&[], &[("HIP_VISIBLE_DEVICES", "-1")]), &hip, &compiler());
        assert!(found.iter().any(|finding| finding.advice.contains("HIP_VISIBLE_DEVICES=-1")));
    }

    #[test]
    fn profilers_and_emulators_are_named() {
        let variables = [("LD_PRELOAD", "/x/librocprofiler-sdk-tool.so"), ("HSA_MODEL_LIB", "model.so")];
        let found = findings(&machine(&[], &variables), &one_gpu(), &compiler());
        assert!(found.iter().any(|finding| finding.what.contains("LD_PRELOAD=/x/librocprofiler-sdk-tool.so")));
        assert!(found.iter().any(|finding| finding.what.contains("HSA_MODEL_LIB=model.so")));
    }
}
