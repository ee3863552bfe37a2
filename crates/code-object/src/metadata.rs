//! The metadata note: a MessagePack map with the kernels' names, arguments and resources.
//!
//! Keys: LLVM "User Guide for AMDGPU Backend", "Code Object Metadata".

use crate::error::{Error, Result};
use crate::kernel::{Access, AddressSpace, Arg, KernelKind, ValueKind};
use crate::msgpack::Node;

/// What the note says, before descriptors are looked up.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    pub(crate) version: Option<[u32; 2]>,
    pub(crate) target: Option<String>,
    pub(crate) printf: Vec<String>,
    pub(crate) kernels: Vec<KernelMetadata>,
}

/// A kernel's metadata; what is missing stays `None` and is taken from the descriptor.
#[derive(Debug, Default)]
pub(crate) struct KernelMetadata {
    pub(crate) offset: u64,
    pub(crate) name: Option<String>,
    pub(crate) symbol: Option<String>,
    pub(crate) args: Vec<Arg>,
    pub(crate) kernarg_size: Option<u32>,
    pub(crate) kernarg_align: Option<u32>,
    pub(crate) lds_bytes: Option<u32>,
    pub(crate) scratch_bytes: Option<u32>,
    pub(crate) sgprs: Option<u32>,
    pub(crate) vgprs: Option<u32>,
    pub(crate) agprs: Option<u32>,
    pub(crate) sgpr_spills: Option<u32>,
    pub(crate) vgpr_spills: Option<u32>,
    pub(crate) wave_size: Option<u32>,
    pub(crate) max_workgroup: Option<u32>,
    pub(crate) reqd_workgroup: Option<[u32; 3]>,
    pub(crate) workgroup_hint: Option<[u32; 3]>,
    pub(crate) uniform_workgroup: Option<bool>,
    pub(crate) uses_dynamic_stack: Option<bool>,
    pub(crate) workgroup_processor_mode: Option<bool>,
    pub(crate) language: Option<String>,
    pub(crate) language_version: Option<[u32; 2]>,
    pub(crate) kind: KernelKind,
    pub(crate) other: Vec<(String, String)>,
}

impl Metadata {
    /// Reads the note's descriptor, which lies at `origin` of the code object.
    pub(crate) fn read(note: &[u8], origin: u64) -> Result<Self> {
        let root = Node::read(note, origin)?;
        let mut metadata = Metadata::default();
        for (key, value) in root.map("root")? {
            match key.text("key")? {
                "amdhsa.version" => metadata.version = Some(numbers(value, "amdhsa.version")?),
                "amdhsa.target" => metadata.target = Some(value.text("amdhsa.target")?.to_owned()),
                "amdhsa.printf" => {
                    for item in value.array("amdhsa.printf")? {
                        metadata.printf.push(item.text("amdhsa.printf")?.to_owned());
                    }
                }
                "amdhsa.kernels" => {
                    for kernel in value.array("amdhsa.kernels")? {
                        metadata.kernels.push(KernelMetadata::read(kernel)?);
                    }
                }
                _ => {}
            }
        }
        Ok(metadata)
    }
}

impl KernelMetadata {
    fn read(node: &Node<'_>) -> Result<Self> {
        let mut kernel = KernelMetadata { offset: node.offset, ..Self::default() };
        for (key, value) in node.map("of a kernel")? {
            let key = key.text("key")?;
            let number = || value.number(key).map(Some);
            let text = || value.text(key).map(|text| Some(text.to_owned()));
            let flag = || value.bool(key).map(Some);
            match key {
                ".name" => kernel.name = text()?,
                ".symbol" => kernel.symbol = text()?,
                ".language" => kernel.language = text()?,
                ".language_version" => kernel.language_version = Some(numbers(value, key)?),
                ".args" => {
                    kernel.args = value.array(key)?.iter().map(argument).collect::<Result<_>>()?;
                }
                ".kernarg_segment_size" => kernel.kernarg_size = number()?,
                ".kernarg_segment_align" => kernel.kernarg_align = number()?,
                ".group_segment_fixed_size" => kernel.lds_bytes = number()?,
                ".private_segment_fixed_size" => kernel.scratch_bytes = number()?,
                ".wavefront_size" => kernel.wave_size = Some(wave_size(value)?),
                ".sgpr_count" => kernel.sgprs = number()?,
                ".vgpr_count" => kernel.vgprs = number()?,
                ".agpr_count" => kernel.agprs = number()?,
                ".sgpr_spill_count" => kernel.sgpr_spills = number()?,
                ".vgpr_spill_count" => kernel.vgpr_spills = number()?,
                ".max_flat_workgroup_size" => kernel.max_workgroup = number()?,
                ".reqd_workgroup_size" => kernel.reqd_workgroup = Some(numbers(value, key)?),
                ".workgroup_size_hint" => kernel.workgroup_hint = Some(numbers(value, key)?),
                ".uniform_work_group_size" => kernel.uniform_workgroup = flag()?,
                ".uses_dynamic_stack" => kernel.uses_dynamic_stack = flag()?,
                ".workgroup_processor_mode" => kernel.workgroup_processor_mode = flag()?,
                ".kind" => {
                    kernel.kind = match value.text(key)? {
                        "normal" => KernelKind::Normal,
                        "init" => KernelKind::Init,
                        "fini" => KernelKind::Fini,
                        other => KernelKind::Other(other.to_owned()),
                    }
                }
                other => kernel.other.push((other.to_owned(), value.to_string())),
            }
        }
        Ok(kernel)
    }
}

fn argument(node: &Node<'_>) -> Result<Arg> {
    let (mut offset, mut size, mut kind) = (None, None, None);
    let mut arg = Arg {
        name: None,
        type_name: None,
        offset: 0,
        size: 0,
        kind: ValueKind::ByValue,
        address_space: None,
        access: None,
        actual_access: None,
        pointee_align: None,
        is_const: false,
        is_restrict: false,
        is_volatile: false,
        is_pipe: false,
    };
    for (key, value) in node.map("of an argument")? {
        let key = key.text("key")?;
        match key {
            ".name" => arg.name = Some(value.text(key)?.to_owned()),
            ".type_name" => arg.type_name = Some(value.text(key)?.to_owned()),
            ".offset" => offset = Some(value.number(key)?),
            ".size" => size = Some(value.number(key)?),
            ".value_kind" => kind = Some(ValueKind::from_word(value.text(key)?)),
            ".address_space" => arg.address_space = Some(AddressSpace::from_word(value.text(key)?)),
            ".access" => arg.access = Some(Access::from_word(value.text(key)?)),
            ".actual_access" => arg.actual_access = Some(Access::from_word(value.text(key)?)),
            ".pointee_align" => arg.pointee_align = Some(value.number(key)?),
            ".is_const" => arg.is_const = value.bool(key)?,
            ".is_restrict" => arg.is_restrict = value.bool(key)?,
            ".is_volatile" => arg.is_volatile = value.bool(key)?,
            ".is_pipe" => arg.is_pipe = value.bool(key)?,
            _ => {}
        }
    }
    let missing = |key: &str| Error::damaged(node.offset, format!("an argument has no {key} in the metadata"));
    arg.offset = offset.ok_or_else(|| missing(".offset"))?;
    arg.size = size.ok_or_else(|| missing(".size"))?;
    arg.kind = kind.ok_or_else(|| missing(".value_kind"))?;
    Ok(arg)
}

fn wave_size(node: &Node<'_>) -> Result<u32> {
    match node.number(".wavefront_size")? {
        lanes @ (32 | 64) => Ok(lanes),
        other => Err(Error::damaged(node.offset, format!(".wavefront_size is {other}, but 32 or 64 was expected"))),
    }
}

fn numbers<const N: usize>(node: &Node<'_>, what: &str) -> Result<[u32; N]> {
    let items = node.array(what)?.iter().map(|item| item.number(what)).collect::<Result<Vec<u32>>>()?;
    let count = items.len();
    items.try_into().map_err(|_| Error::damaged(node.offset, format!("{what} has {count} numbers, not {N}")))
}
