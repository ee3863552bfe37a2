//! What launching needs to know of a code object.

use crate::record::KernelRecord;
use kbench_code_object::CodeObject;

/// A code object's architecture and kernels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Architecture without feature suffixes: `gfx942`.
    pub arch: String,
    /// Kernels in the order of the metadata.
    pub kernels: Vec<KernelInfo>,
}

/// A kernel's interface and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Name, resources.
    pub resources: KernelRecord,
    /// Arguments, hidden ones included, by offset.
    pub args: Vec<ArgInfo>,
    /// The block that it must be launched with.
    pub reqd_block: Option<[u32; 3]>,
}

/// An argument of the metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgInfo {
    /// Name, when the metadata has one.
    pub name: Option<String>,
    /// Byte offset.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// The metadata's `.value_kind`.
    pub kind: String,
}

impl ArgInfo {
    /// The first byte behind it.
    pub fn end(&self) -> u32 {
        self.offset.saturating_add(self.size)
    }

    /// True when the driver fills it in.
    pub fn is_hidden(&self) -> bool {
        self.kind.starts_with("hidden_")
    }

    /// True when it is an address that the launch passes.
    pub fn is_pointer(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "global_buffer" | "dynamic_shared_pointer" | "image" | "sampler" | "pipe" | "queue"
        )
    }
}

impl KernelInfo {
    /// Bytes up to the end of the last explicit argument.
    pub fn explicit_size(&self) -> u32 {
        self.args.iter().filter(|arg| !arg.is_hidden()).map(ArgInfo::end).max().unwrap_or(0)
    }
}

impl ObjectInfo {
    /// Reads a code object (a bare ELF file).
    ///
    /// # Errors
    /// When it is none.
    pub fn read(bytes: &[u8]) -> Result<Self, kbench_code_object::Error> {
        CodeObject::parse(bytes).map(|object| Self::of(&object))
    }

    /// From a parsed code object.
    pub fn of(object: &CodeObject) -> Self {
        let kernels = object.kernels().iter().map(KernelInfo::of).collect();
        Self { arch: object.arch().name().to_owned(), kernels }
    }

    /// A kernel by its symbol without `.kd`; `*` is the only one.
    pub fn kernel(&self, name: &str) -> Option<&KernelInfo> {
        match (name, self.kernels.as_slice()) {
            ("*", [only]) => Some(only),
            ("*", _) => None,
            _ => self.kernels.iter().find(|kernel| kernel.resources.name == name),
        }
    }
}

impl KernelInfo {
    fn of(kernel: &kbench_code_object::Kernel) -> Self {
        let mut args: Vec<ArgInfo> = kernel
            .args
            .iter()
            .map(|arg| ArgInfo {
                name: arg.name.clone(),
                offset: arg.offset,
                size: arg.size,
                kind: arg.kind.as_str().to_owned(),
            })
            .collect();
        args.sort_by_key(|arg| arg.offset);
        let resources = KernelRecord {
            // Launches and the HIP runtime go by the descriptor's symbol; `.name` can be a source name.
            name: kernel.symbol.strip_suffix(".kd").unwrap_or(&kernel.name).to_owned(),
            vgprs: kernel.vgprs,
            agprs: kernel.agprs,
            sgprs: kernel.sgprs,
            lds_bytes: kernel.lds_bytes,
            scratch_bytes: kernel.scratch_bytes,
            spills: kernel.vgpr_spills.unwrap_or(0).saturating_add(kernel.sgpr_spills.unwrap_or(0)),
            kernarg_bytes: kernel.kernarg_size,
            max_block: kernel.max_workgroup.unwrap_or(1024),
            wave_size: kernel.wave_size,
            code_bytes: kernel.code_size,
        };
        Self { resources, args, reqd_block: kernel.reqd_workgroup }
    }
}
