//! Variables of the environment: those that change how GPU programs run, and what they attach to this process.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The variables that are recorded with a result. A list of names, so that nothing else of a user's environment gets into a report.
pub const RECORDED_VARIABLES: &[&str] = &[
    "AMD_DIRECT_DISPATCH",
    "AMD_LOG_LEVEL",
    "AMD_LOG_MASK",
    "AMD_OCL_WAIT_COMMAND",
    "AMD_SERIALIZE_COPY",
    "AMD_SERIALIZE_KERNEL",
    "CUDA_VISIBLE_DEVICES",
    "DEBUG_CLR_GRAPH_PACKET_CAPTURE",
    "DEBUG_CLR_LIMIT_BLIT_WG",
    "GPU_DEVICE_ORDINAL",
    "GPU_ENABLE_COOP_GROUPS",
    "GPU_ENABLE_WGP_MODE",
    "GPU_FORCE_QUEUE_PROFILING",
    "GPU_MAX_ALLOC_PERCENT",
    "GPU_MAX_HEAP_SIZE",
    "GPU_MAX_HW_QUEUES",
    "GPU_PINNED_MIN_XFER_SIZE",
    "GPU_SINGLE_ALLOC_PERCENT",
    "HIP_FORCE_DEV_KERNARG",
    "HIP_HIDDEN_FREE_MEM",
    "HIP_INITIAL_DM_SIZE",
    "HIP_LAUNCH_BLOCKING",
    "HIP_PLATFORM",
    "HIP_VISIBLE_DEVICES",
    "HSA_CU_MASK",
    "HSA_CU_MASK_SKIP_INIT",
    "HSA_DISABLE_CACHE",
    "HSA_ENABLE_DEBUG",
    "HSA_ENABLE_INTERRUPT",
    "HSA_ENABLE_SCRATCH_ASYNC_RECLAIM",
    "HSA_ENABLE_SDMA",
    "HSA_FORCE_FINE_GRAIN_PCIE",
    "HSA_KMT_DEBUG_LEVEL",
    "HSA_MODEL_LIB",
    "HSA_MODEL_TOPOLOGY",
    "HSA_NO_SCRATCH_RECLAIM",
    "HSA_OVERRIDE_GFX_VERSION",
    "HSA_SCRATCH_SINGLE_LIMIT",
    "HSA_TOOLS_LIB",
    "HSA_TOOLS_REPORT_LOAD_FAILURE",
    "HSA_USERPTR_FOR_PAGED_MEM",
    "HSA_XNACK",
    "KBENCH_CLANG",
    "KBENCH_HIPRTC_LIB",
    "KBENCH_HIP_LIB",
    "LD_PRELOAD",
    "ROCM_PATH",
    "ROCPROFILER_DEVICE_LOCK_AT_START",
    "ROCPROFILER_KFD_DISPATCH_LOG",
    "ROCPROFILER_LIBRARY_CTOR",
    "ROCPROFILER_LOG_LEVEL",
    "ROCPROFILER_METRICS_PATH",
    "ROCPROFILER_QUEUE_INTERPOSITION",
    "ROCPROFILER_REGISTER_FORCE_LOAD",
    "ROCPROFILER_REGISTER_LIBRARY",
    "ROCP_TOOL_LIBRARIES",
    "ROCR_VISIBLE_DEVICES",
    "ROC_ACTIVE_WAIT_TIMEOUT",
    "ROC_AQL_QUEUE_SIZE",
    "ROC_GLOBAL_CU_MASK",
    "ROC_SIGNAL_POOL_SIZE",
    "ROC_USE_FGS_KERNARG",
];

/// Recorded variables that are set, and what they attach.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Environment {
    /// By name.
    pub variables: Vec<Variable>,
    /// Profilers and emulators.
    pub attachments: Vec<Attachment>,
}

/// A variable that is set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Something that the environment attaches to this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// What kind.
    pub kind: AttachmentKind,
    /// The variable that does it.
    pub variable: String,
    /// The entry in it, such as the library.
    pub entry: String,
}

/// Kinds of attachments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentKind {
    /// A profiler: times and counters are disturbed or taken by it.
    Profiler,
    /// An emulated GPU under the real libraries: times mean nothing.
    Emulator,
}

impl Environment {
    /// The environment of this process.
    #[must_use]
    pub fn current() -> Self {
        Self::of(std::env::vars_os())
    }

    /// Any environment.
    #[must_use]
    pub fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut environment = Self::default();
        for (name, value) in variables {
            let Some(name) = name.to_str().filter(|_| !value.is_empty()) else { continue };
            environment.attachments.extend(attachments(name, &value));
            if RECORDED_VARIABLES.contains(&name) {
                environment
                    .variables
                    .push(Variable { name: name.to_owned(), value: value.to_string_lossy().into_owned() });
            }
        }
        environment.variables.sort_by(|a, b| a.name.cmp(&b.name));
        environment.attachments.sort_by(|a, b| (&a.variable, &a.entry).cmp(&(&b.variable, &b.entry)));
        environment
    }

    /// Attached profilers.
    pub fn profilers(&self) -> impl Iterator<Item = &Attachment> {
        self.attachments.iter().filter(|attachment| attachment.kind == AttachmentKind::Profiler)
    }

    /// Attached emulators.
    pub fn emulators(&self) -> impl Iterator<Item = &Attachment> {
        self.attachments.iter().filter(|attachment| attachment.kind == AttachmentKind::Emulator)
    }
}

/// What one variable attaches.
fn attachments(name: &str, value: &OsStr) -> Vec<Attachment> {
    let value = value.to_string_lossy();
    let attach = |kind, entry: &str| Attachment { kind, variable: name.to_owned(), entry: entry.to_owned() };
    match name {
        // The loader takes blanks and colons between entries.
        "LD_PRELOAD" => {
            let entries = value.split([' ', ':']).filter(|entry| !entry.is_empty());
            entries.filter_map(|entry| preloaded(entry).map(|kind| attach(kind, entry))).collect()
        }
        "ROCP_TOOL_LIBRARIES" | "HSA_TOOLS_LIB" => {
            let entries = value.split([' ', ':']).filter(|entry| !entry.is_empty());
            entries.map(|entry| attach(AttachmentKind::Profiler, entry)).collect()
        }
        "HSA_MODEL_LIB" => vec![attach(AttachmentKind::Emulator, &value)],
        // rocprofv3 sets it so that the SDK is taken before the program begins.
        "ROCPROFILER_LIBRARY_CTOR" if value != "0" => vec![attach(AttachmentKind::Profiler, &value)],
        _ => Vec::new(),
    }
}

/// What kind of library a preloaded one is, by its file name.
fn preloaded(entry: &str) -> Option<AttachmentKind> {
    let file = Path::new(entry).file_name()?.to_str()?;
    if file.starts_with("librocjitsu_kmd.so") {
        return Some(AttachmentKind::Emulator);
    }
    let profilers = [
        "librocprofiler",
        "libroctracer",
        "librocprof-sys",
        "librocprofsys",
        "libomnitrace",
        "librpd_tracer",
        "librocm-trace",
    ];
    profilers.iter().any(|profiler| file.starts_with(profiler)).then_some(AttachmentKind::Profiler)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Environment {
        Environment::of(variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))))
    }

    #[test]
    fn rocprofv3_is_recognised_by_what_it_sets() {
        let environment = of(&[
            ("LD_PRELOAD", "/opt/rocm/lib/librocprofiler-sdk-tool.so:/opt/rocm/lib/librocprofiler-sdk.so libc.so"),
            ("ROCP_TOOL_LIBRARIES", "/opt/rocm/lib/librocprofiler-sdk-tool.so"),
            ("ROCPROFILER_LIBRARY_CTOR", "1"),
        ]);
        let found: Vec<_> = environment.profilers().map(|a| (a.variable.as_str(), a.entry.as_str())).collect();
        let expected = [
            ("LD_PRELOAD", "/opt/rocm/lib/librocprofiler-sdk-tool.so"),
            ("LD_PRELOAD", "/opt/rocm/lib/librocprofiler-sdk.so"),
            ("ROCPROFILER_LIBRARY_CTOR", "1"),
            ("ROCP_TOOL_LIBRARIES", "/opt/rocm/lib/librocprofiler-sdk-tool.so"),
        ];
        assert_eq!(found, expected);
        assert_eq!(environment.emulators().count(), 0);
    }

    #[test]
    fn emulators_under_the_real_libraries_are_recognised() {
        let environment = of(&[("LD_PRELOAD", "/x/librocjitsu_kmd.so"), ("HSA_MODEL_LIB", "model.so")]);
        assert_eq!(environment.emulators().count(), 2);
        assert_eq!(environment.profilers().count(), 0);
    }

    #[test]
    fn only_listed_variables_are_recorded() {
        let environment = of(&[
            ("HSA_XNACK", "1"),
            ("AWS_SECRET", "x"),
            ("HIP_SECRET_TOKEN", "y"),
            ("ROCM_PATH", ""),
            ("LD_PRELOAD", "libjemalloc.so"),
        ]);
        let names: Vec<_> = environment.variables.iter().map(|v| v.name.as_str()).collect();
        assert_eq!(names, ["HSA_XNACK", "LD_PRELOAD"]);
        assert_eq!(environment.attachments, []);
        assert!(RECORDED_VARIABLES.is_sorted(), "so that the list is easy to check");
    }
}
