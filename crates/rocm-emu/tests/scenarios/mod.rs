//! What children of the SDK's tests do. Expectations are asserted here, in the child.

mod counting;
mod life;
mod tracing;

use super::support::{self, *};
use crate::ok;
use kbench_rocm_emu::sdk;
use rocprofiler_sdk_sys::session::{self, Agent, AgentKind, Counter};
use rocprofiler_sdk_sys::types::*;
use rocprofiler_sdk_sys::{OpenOptions, Sdk};

/// Runs a scenario by its name.
pub(crate) fn run(name: &str) {
    match name {
        "trace" => tracing::trace(),
        "late" => tracing::late(),
        "reordered" => tracing::reordered(),
        "lost" => tracing::lost(),
        "timeless" => tracing::timeless(),
        "hip_first_silent" => tracing::hip_first(0),
        "hip_first_heard" => tracing::hip_first(10),
        "silent" => tracing::silent(),
        "external" => tracing::external(),
        "count" => counting::count(),
        "count_buffered" => counting::count_buffered(),
        "every_counter" => counting::every_counter(),
        "identity" => life::identity(),
        "zero" => counting::scaled(0.0),
        "inflated" => counting::scaled(3.0),
        "limits_gfx942" => counting::limits_gfx942(),
        "limits_gfx90a" => counting::limits_gfx90a(),
        "device" => counting::device(),
        "conflicts" => counting::conflicts(),
        "both_forms" => counting::both_forms(),
        "permission" => counting::permission(),
        "unsupported" => counting::unsupported(),
        "statuses" => life::statuses(),
        "init_fails" => life::init_fails(),
        "null_configure" => life::null_configure(),
        "second_tool" => life::second_tool(),
        "shared" => life::shared(),
        "locked" => life::locked(),
        "finalize" => life::finalize(),
        "abort_buffer" => life::abort_buffer(),
        "abort_kind" => life::abort_kind(),
        "abort_config" => counting::abort_config(),
        "hang" => life::hang(),
        "no_agents" => life::no_agents(),
        "answers" => life::answers(),
        "missing" => life::missing(),
        "too_old" => life::too_old(),
        _ => panic!("no scenario {name}"),
    }
}

/// The emulated SDK through the loader.
fn open() -> &'static Sdk {
    // SAFETY: the emulated SDK's own functions.
    Box::leak(Box::new(unsafe { Sdk::from_symbols("the emulated SDK", sdk::symbol, OpenOptions::default()) }.unwrap()))
}

/// Architecture of the device code that the scenario was given.
fn arch() -> String {
    std::env::var("SDK_ARCH").unwrap_or_else(|_| "gfx942".to_owned())
}

/// The first GPU of an architecture.
fn gpu(sdk: &Sdk, arch: &str) -> Agent {
    let is_it = |agent: &Agent| agent.kind == AgentKind::Gpu && agent.name == arch;
    session::agents(sdk).unwrap().into_iter().find(is_it).unwrap()
}

/// Ids of counters by name.
fn ids(counters: &[Counter], names: &[&str]) -> Vec<CounterId> {
    names.iter().map(|name| counters.iter().find(|counter| counter.name == *name).expect(name).id).collect()
}

/// Kernels and a buffer to run them on.
struct Gpu {
    increment: support::Handle,
    buffer: support::Handle,
}

impl Gpu {
    /// Initialises HIP.
    fn new() -> Self {
        let code = std::fs::read(std::env::var_os("SDK_CODE").unwrap()).unwrap();
        let module = module(&code);
        Gpu { increment: function(module, "increment"), buffer: malloc(1 << 20) }
    }

    /// Launches so many workgroups of 64 of `increment`, a dispatch each.
    fn launch(&mut self, grids: impl IntoIterator<Item = u32>) {
        for grid in grids {
            assert_eq!(launch(self.increment, grid, 64, NULL, &mut [arg(&mut self.buffer)]), 0);
        }
    }

    /// Waits for the device.
    fn synchronize(&self) {
        ok!(hipDeviceSynchronize());
    }
}
