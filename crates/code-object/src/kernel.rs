//! Kernels: metadata and descriptor together.

use crate::descriptor::KernelDescriptor;
use serde::Serialize;

/// A kernel of a code object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Kernel {
    /// Name (`.name` of the metadata, mangled where the source language mangles): what a launch asks for.
    pub name: String,
    /// Symbol of the descriptor, by convention the name with `.kd`.
    pub symbol: String,
    /// Virtual address of the descriptor, relative to where the code object is loaded.
    pub descriptor_address: u64,
    /// Virtual address of the first instruction.
    pub entry_address: u64,
    /// Machine code in bytes: the entry symbol's size, or up to the next function or the section's end when it says 0.
    pub code_size: u64,
    /// The descriptor.
    pub descriptor: KernelDescriptor,
    /// Arguments in order, hidden ones included.
    pub args: Vec<Arg>,
    /// Argument block in bytes (metadata, else descriptor).
    pub kernarg_size: u32,
    /// Alignment of the argument block in bytes.
    pub kernarg_align: u32,
    /// Static LDS of a workgroup in bytes.
    pub lds_bytes: u32,
    /// Scratch of a work-item in bytes; a lower bound when [`uses_dynamic_stack`](Self::uses_dynamic_stack).
    pub scratch_bytes: u32,
    /// SGPRs used, with VCC and other special ones (metadata, else what the descriptor allocates).
    pub sgprs: u32,
    /// VGPRs used by a lane (metadata, else what the descriptor allocates). On unified register files (gfx90a, gfx94x,
    /// gfx950) with AGPRs, and with [`Kernel::accum_offset`].
    pub vgprs: u32,
    /// AGPRs used by a lane (metadata, else 0).
    pub agprs: u32,
    /// SGPRs spilled, where the metadata says so.
    pub sgpr_spills: Option<u32>,
    /// VGPRs spilled, where the metadata says so.
    pub vgpr_spills: Option<u32>,
    /// Lanes of a wave: 32 or 64.
    pub wave_size: u32,
    /// Most work-items of a workgroup that the kernel was compiled for, where the metadata says so.
    pub max_workgroup: Option<u32>,
    /// Workgroup that the kernel needs, x y z.
    pub reqd_workgroup: Option<[u32; 3]>,
    /// Workgroup that the kernel is meant for, x y z.
    pub workgroup_hint: Option<[u32; 3]>,
    /// The grid must be a whole number of workgroups.
    pub uniform_workgroup: Option<bool>,
    /// Stack size is not known at compile time.
    pub uses_dynamic_stack: bool,
    /// A workgroup may spread over both CUs of a work-group processor (metadata; the descriptor has it too).
    pub workgroup_processor_mode: Option<bool>,
    /// Source language, such as `OpenCL C` or `HIP`.
    pub language: Option<String>,
    /// Its version, major and minor.
    pub language_version: Option<[u32; 2]>,
    /// `normal`, `init` or `fini`.
    pub kind: KernelKind,
    /// Metadata keys that have no field above, with their values as text.
    pub other: Vec<(String, String)>,
}

impl Kernel {
    /// First AGPR in the unified register file; `None` where there is no such file.
    pub fn accum_offset(&self) -> Option<u16> {
        self.descriptor.rsrc3.accum_offset
    }

    /// The explicit arguments: what a launch passes.
    pub fn explicit_args(&self) -> impl Iterator<Item = &Arg> {
        self.args.iter().filter(|arg| !arg.kind.is_hidden())
    }

    /// Bytes of the argument block up to the end of the last explicit argument.
    pub fn explicit_kernarg_size(&self) -> u32 {
        self.explicit_args().map(|arg| arg.offset.saturating_add(arg.size)).max().unwrap_or(0)
    }
}

/// When a kernel is run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KernelKind {
    /// By a launch.
    #[default]
    Normal,
    /// Once, when the code object is loaded.
    Init,
    /// Once, when the code object is unloaded.
    Fini,
    /// Another word.
    Other(String),
}

/// A kernel argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Arg {
    /// Name, when the compiler kept it.
    pub name: Option<String>,
    /// Type in the source language, when the compiler kept it.
    pub type_name: Option<String>,
    /// Offset in the argument block, bytes.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// What it is.
    pub kind: ValueKind,
    /// Address space of what a pointer points to.
    pub address_space: Option<AddressSpace>,
    /// Declared access of an image, pipe or pointer.
    pub access: Option<Access>,
    /// Access that the compiler found.
    pub actual_access: Option<Access>,
    /// Alignment of what a dynamic LDS pointer points to, bytes.
    pub pointee_align: Option<u32>,
    /// `const` pointee.
    pub is_const: bool,
    /// `restrict`.
    pub is_restrict: bool,
    /// `volatile` pointee.
    pub is_volatile: bool,
    /// An OpenCL pipe.
    pub is_pipe: bool,
}

/// Declares an enum whose variants are words of the metadata, with one variant for unknown words.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$variant_meta])* $variant,)*
            /// A word that this version does not know.
            Other(String),
        }

        impl $name {
            /// From the metadata's word.
            pub fn from_word(word: &str) -> Self {
                match word {
                    $($word => $name::$variant,)*
                    other => $name::Other(other.to_owned()),
                }
            }

            /// The metadata's word.
            pub fn as_str(&self) -> &str {
                match self {
                    $($name::$variant => $word,)*
                    $name::Other(word) => word,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }
    };
}

words! {
    /// What an argument is (`.value_kind`).
    ValueKind {
        /// A value, copied.
        ByValue = "by_value",
        /// A pointer to global memory.
        GlobalBuffer = "global_buffer",
        /// A pointer to LDS whose size the launch gives.
        DynamicSharedPointer = "dynamic_shared_pointer",
        /// An OpenCL sampler.
        Sampler = "sampler",
        /// An image.
        Image = "image",
        /// An OpenCL pipe.
        Pipe = "pipe",
        /// An OpenCL device queue.
        Queue = "queue",
        /// Grid offset X, i64.
        HiddenGlobalOffsetX = "hidden_global_offset_x",
        /// Grid offset Y, i64.
        HiddenGlobalOffsetY = "hidden_global_offset_y",
        /// Grid offset Z, i64.
        HiddenGlobalOffsetZ = "hidden_global_offset_z",
        /// A hole.
        HiddenNone = "hidden_none",
        /// Buffer of `printf`.
        HiddenPrintfBuffer = "hidden_printf_buffer",
        /// Buffer of host calls.
        HiddenHostcallBuffer = "hidden_hostcall_buffer",
        /// Queue for device-side enqueue.
        HiddenDefaultQueue = "hidden_default_queue",
        /// Completion of device-side enqueue.
        HiddenCompletionAction = "hidden_completion_action",
        /// Synchronisation over several grids.
        HiddenMultigridSyncArg = "hidden_multigrid_sync_arg",
        /// Device-side heap.
        HiddenHeapV1 = "hidden_heap_v1",
        /// Workgroups of the grid in X, u32.
        HiddenBlockCountX = "hidden_block_count_x",
        /// Workgroups of the grid in Y, u32.
        HiddenBlockCountY = "hidden_block_count_y",
        /// Workgroups of the grid in Z, u32.
        HiddenBlockCountZ = "hidden_block_count_z",
        /// Work-items of a whole workgroup in X, u16.
        HiddenGroupSizeX = "hidden_group_size_x",
        /// Work-items of a whole workgroup in Y, u16.
        HiddenGroupSizeY = "hidden_group_size_y",
        /// Work-items of a whole workgroup in Z, u16.
        HiddenGroupSizeZ = "hidden_group_size_z",
        /// Work-items of the last, partial workgroup in X, u16.
        HiddenRemainderX = "hidden_remainder_x",
        /// Work-items of the last, partial workgroup in Y, u16.
        HiddenRemainderY = "hidden_remainder_y",
        /// Work-items of the last, partial workgroup in Z, u16.
        HiddenRemainderZ = "hidden_remainder_z",
        /// Dimensions of the grid, u16.
        HiddenGridDims = "hidden_grid_dims",
        /// Dynamic LDS in bytes, u32.
        HiddenDynamicLdsSize = "hidden_dynamic_lds_size",
        /// High half of the scratch aperture, u32.
        HiddenPrivateBase = "hidden_private_base",
        /// High half of the LDS aperture, u32.
        HiddenSharedBase = "hidden_shared_base",
        /// Address of the queue.
        HiddenQueuePtr = "hidden_queue_ptr",
    }
}

impl ValueKind {
    /// Whether the runtime fills it in.
    pub fn is_hidden(&self) -> bool {
        self.as_str().starts_with("hidden_")
    }

    /// Whether it is an address that the launch passes.
    pub fn is_pointer(&self) -> bool {
        matches!(self, ValueKind::GlobalBuffer | ValueKind::DynamicSharedPointer)
    }
}

words! {
    /// Where a pointer points to (`.address_space`).
    AddressSpace {
        /// Scratch.
        Private = "private",
        /// Device memory.
        Global = "global",
        /// Device memory, read only.
        Constant = "constant",
        /// LDS.
        Local = "local",
        /// Any of them.
        Generic = "generic",
        /// GDS.
        Region = "region",
    }
}

words! {
    /// How an argument is accessed (`.access`, `.actual_access`).
    Access {
        /// Only read.
        ReadOnly = "read_only",
        /// Only written.
        WriteOnly = "write_only",
        /// Both.
        ReadWrite = "read_write",
    }
}
