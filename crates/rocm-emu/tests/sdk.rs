//! The emulated SDK as a tool sees it. A process has one SDK, so each scenario runs in a child process: this same test binary, which
//! then runs only [`child`].

#![allow(unsafe_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::macro_metavars_in_unsafe)]

mod scenarios;
mod support;

use std::collections::HashMap;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Device code for children by architecture, compiled once; `None` without the compiler. The compiler does not know gfx950: what is
/// compiled for gfx942 says that it is for gfx950, in the ELF header and the metadata; the few instructions have the same code.
static CODE: LazyLock<Option<HashMap<&str, tempfile::NamedTempFile>>> = LazyLock::new(|| {
    let gfx942 = support::compile("gfx942", support::SOURCE)?;
    let gfx90a = support::compile("gfx90a", support::SOURCE)?;
    let mut gfx950 = gfx942.clone();
    let (old, new) = (0x4c_u8, 0x4f_u8);
    // e_flags of an ELF64 header: the low byte is the machine.
    assert_eq!(std::mem::replace(&mut gfx950[48], new), old);
    let name = gfx950.windows(6).position(|window| window == b"gfx942").unwrap();
    gfx950[name..name + 6].copy_from_slice(b"gfx950");
    let file = |code: Vec<u8>| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), code).unwrap();
        file
    };
    Some([("gfx942", gfx942), ("gfx90a", gfx90a), ("gfx950", gfx950)].map(|(arch, code)| (arch, file(code))).into())
});

/// How a child ended.
struct Ended {
    status: Option<ExitStatus>,
    text: String,
}

/// A child that is to run a scenario with settings, and where its output goes; `None` without the device compiler.
fn child_of(scenario: &str, settings: &[(&str, &str)]) -> Option<(Child, tempfile::NamedTempFile)> {
    let arch = settings.iter().find(|(name, _)| *name == "SDK_ARCH").map_or("gfx942", |(_, arch)| arch);
    let code = CODE.as_ref()?.get(arch).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--nocapture", "--test-threads=1"]);
    for variable in
        ["ROCM_EMU_SDK_VERSION", "ROCM_EMU_SDK_FAULT", "ROCM_EMU_DEVICE", "ROCM_EMU_CLOCK", "ROCM_EMU_FAULT"]
    {
        command.env_remove(variable);
    }
    command.env("SDK_SCENARIO", scenario).env("SDK_CODE", code.path()).env("ROCM_EMU_THREADS", "2");
    command.envs(settings.iter().copied()).stdin(Stdio::null());
    // Both streams append to one file.
    let output = tempfile::NamedTempFile::new().unwrap();
    let file = std::fs::OpenOptions::new().append(true).open(output.path()).unwrap();
    command.stdout(file.try_clone().unwrap()).stderr(file);
    Some((command.spawn().unwrap(), output))
}

fn text(output: &tempfile::NamedTempFile) -> String {
    String::from_utf8_lossy(&std::fs::read(output.path()).unwrap()).into_owned()
}

/// Runs a scenario with settings to its end.
fn run(scenario: &str, settings: &[(&str, &str)]) -> Option<Ended> {
    let (child, output) = child_of(scenario, settings)?;
    let status = wait(child, Duration::from_secs(120));
    Some(Ended { status, text: text(&output) })
}

/// Waits so long; a child that takes longer is ended and has no status.
fn wait(mut child: Child, limit: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

/// A scenario that must hold.
fn holds(scenario: &str, settings: &[(&str, &str)]) {
    if let Some(ended) = run(scenario, settings) {
        assert!(ended.status.is_some_and(|status| status.success()), "{scenario} {settings:?}\n{}", ended.text);
    }
}

/// A scenario in which the SDK ends the process with words.
fn aborts(scenario: &str, settings: &[(&str, &str)], words: &str) {
    use std::os::unix::process::ExitStatusExt;
    if let Some(ended) = run(scenario, settings) {
        let signal = ended.status.and_then(|status| status.signal());
        assert_eq!(signal, Some(6), "{scenario} {settings:?}\n{}", ended.text);
        assert!(ended.text.contains(words), "{words}\n{}", ended.text);
    }
}

/// What a child does.
#[test]
fn child() {
    if let Ok(scenario) = std::env::var("SDK_SCENARIO") {
        scenarios::run(&scenario);
    }
}

const VERSIONS: [&str; 4] = ["1.0.0", "1.1.0", "1.3.2", "1.3.5"];

#[test]
fn traces_have_every_dispatch() {
    for version in VERSIONS {
        holds("trace", &[("ROCM_EMU_SDK_VERSION", version)]);
    }
}

#[test]
fn traces_that_are_late_out_of_order_and_longer_are_complete_all_the_same() {
    for fault in ["late=30", "reorder=8", "grow=24", "busy=3", "late=7,reorder=5,grow=8,busy=1"] {
        holds("trace", &[("ROCM_EMU_SDK_FAULT", fault)]);
    }
    holds("late", &[("ROCM_EMU_SDK_FAULT", "late=5")]);
    holds("reordered", &[("ROCM_EMU_SDK_FAULT", "reorder=10")]);
}

#[test]
fn lost_records_and_records_without_times() {
    holds("lost", &[("ROCM_EMU_SDK_FAULT", "lose=4")]);
    holds("timeless", &[("ROCM_EMU_SDK_FAULT", "zero-time=4")]);
}

#[test]
fn hip_before_the_sdk_is_heard_of_only_by_1_3() {
    for version in ["1.0.0", "1.1.0"] {
        holds("hip_first_silent", &[("ROCM_EMU_SDK_VERSION", version)]);
    }
    holds("hip_first_heard", &[("ROCM_EMU_SDK_VERSION", "1.3.0")]);
    holds("silent", &[("ROCM_EMU_SDK_FAULT", "unregistered")]);
}

#[test]
fn counters_of_a_dispatch_are_the_emulators() {
    for version in VERSIONS {
        holds("count", &[("ROCM_EMU_SDK_VERSION", version)]);
        holds("count_buffered", &[("ROCM_EMU_SDK_VERSION", version)]);
    }
    holds("count_buffered", &[("ROCM_EMU_SDK_FAULT", "split")]);
    holds("count_buffered", &[("ROCM_EMU_SDK_FAULT", "split,reorder=4,late=3")]);
}

#[test]
fn an_agent_has_the_emulators_counters_and_no_others() {
    for (device, arch) in [("mi300x", "gfx942"), ("mi300a", "gfx942"), ("mi210", "gfx90a"), ("mi355x", "gfx950")] {
        holds("every_counter", &[("ROCM_EMU_DEVICE", device), ("SDK_ARCH", arch)]);
    }
}

#[test]
fn agents_are_hips_devices() {
    holds("identity", &[("ROCM_EMU_DEVICE", "mi300x,mi210")]);
}

#[test]
fn counters_that_read_wrong() {
    holds("zero", &[("ROCM_EMU_SDK_FAULT", "zero-counters")]);
    holds("inflated", &[("ROCM_EMU_SDK_FAULT", "inflate=3")]);
}

#[test]
fn configurations_have_the_hardwares_limits() {
    holds("limits_gfx942", &[]);
    holds("limits_gfx90a", &[("ROCM_EMU_DEVICE", "mi210")]);
    holds("limits_gfx942", &[("ROCM_EMU_DEVICE", "mi210,mi300x"), ("ROCM_EMU_SDK_VERSION", "1.1.0")]);
}

#[test]
fn device_counting() {
    holds("device", &[]);
}

#[test]
fn life_cycle_of_a_tool() {
    holds("statuses", &[]);
    holds("init_fails", &[]);
    holds("null_configure", &[]);
    holds("second_tool", &[("ROCM_EMU_SDK_VERSION", "1.0.0")]);
    holds("second_tool", &[("ROCM_EMU_SDK_VERSION", "1.3.2")]);
    holds("locked", &[("ROCM_EMU_SDK_FAULT", "locked")]);
    holds("shared", &[("ROCM_EMU_SDK_FAULT", "locked"), ("ROCM_EMU_SDK_VERSION", "1.3.2")]);
}

#[test]
fn finalisation() {
    if let Some(ended) = run("finalize", &[]) {
        assert!(ended.status.is_some_and(|status| status.success()), "{}", ended.text);
        assert!(
            ended.text.contains("finalize: is_finalized -1, flush SUCCESS, stop CONTEXT_NOT_FOUND"),
            "{}",
            ended.text
        );
    }
    // A tool that calls the SDK from its finalizer waits for itself, as reported of later versions.
    if let Some(ended) = run_briefly("finalize", &[("ROCM_EMU_SDK_FAULT", "finalize-lock")]) {
        assert!(ended.status.is_none(), "{}", ended.text);
        assert!(!ended.text.contains("finalize: "), "{}", ended.text);
    }
}

/// [`run`], for a child that is expected not to end: it is given a second after it has said that it is about to do what never ends.
fn run_briefly(scenario: &str, settings: &[(&str, &str)]) -> Option<Ended> {
    let (mut child, output) = child_of(scenario, settings)?;
    let start = Instant::now();
    while !text(&output).contains("child: ready") && start.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_secs(1));
    let status = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    Some(Ended { status, text: text(&output) })
}

#[test]
fn what_is_not_checked_ends_the_process() {
    aborts("abort_buffer", &[], "errno 22");
    aborts("abort_kind", &[], "std::out_of_range");
    aborts("abort_config", &[], "Callback threw");
    aborts("trace", &[("ROCM_EMU_SDK_FAULT", "agents-short")], "Found 0 rocprofiler agents and 1 HSA agents");
    aborts("trace", &[("ROCM_EMU_SDK_FAULT", "abort@flush_buffer")], "rocprofiler_flush_buffer: fatal error");
}

#[test]
fn a_function_that_never_returns() {
    if let Some(ended) = run_briefly("hang", &[("ROCM_EMU_SDK_FAULT", "hang@start_context")]) {
        assert!(ended.status.is_none(), "{}", ended.text);
    }
}

#[test]
fn refusals() {
    holds("permission", &[("ROCM_EMU_SDK_FAULT", "permission-denied")]);
    holds("unsupported", &[("ROCM_EMU_SDK_FAULT", "unsupported-agent")]);
    holds("no_agents", &[("ROCM_EMU_SDK_FAULT", "no-driver")]);
    holds("answers", &[("ROCM_EMU_SDK_FAULT", "status@start_context=29")]);
    holds("missing", &[("ROCM_EMU_SDK_FAULT", "missing@sample_device_counting_service")]);
    holds("too_old", &[("ROCM_EMU_SDK_VERSION", "0.6.0")]);
    if let Some(ended) = run("count", &[("ROCM_EMU_SDK_FAULT", "device-lock")]) {
        assert!(ended.status.is_some_and(|status| status.success()), "{}", ended.text);
        assert!(ended.text.contains("SYS_PERFMON"), "{}", ended.text);
    }
}

#[test]
fn conflicts_between_services() {
    holds("conflicts", &[]);
    holds("both_forms", &[]);
}

#[test]
fn correlation_ids_of_the_tool() {
    holds("external", &[]);
}
