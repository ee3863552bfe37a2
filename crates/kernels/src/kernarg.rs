//! Kernel arguments as bytes: where each field lies, and the image that a launch passes.

use crate::manifest::{ArgSource, Launch, Layout};
use std::collections::BTreeMap;

/// The largest kernel argument segment that is built, bytes.
pub const MAX_SIZE: u32 = 64 << 10;
/// Bytes of a slot of [`Layout::Slot16`].
const SLOT: u32 = 16;

/// Where one argument lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// What messages call it.
    pub name: String,
    /// Byte offset from the start of the segment.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// True for an address, also a null one.
    pub is_pointer: bool,
    /// Line in the manifest.
    pub line: usize,
}

impl Field {
    /// The first byte behind it.
    pub fn end(&self) -> u32 {
        self.offset + self.size
    }
}

/// The fields of a launch, in the order of its arguments. Offsets do not depend on the case.
///
/// A field with `at` lies there and the next one without follows it. Overlaps are found by [`crate::validate`], not here.
///
/// # Errors
/// The index of the first argument that ends beyond [`MAX_SIZE`].
pub fn fields(launch: &Launch) -> Result<Vec<Field>, usize> {
    let mut fields = Vec::with_capacity(launch.args.len());
    let mut free = 0u32;
    for (index, arg) in launch.args.iter().enumerate() {
        let size = arg.source.size();
        let offset = arg.at.unwrap_or_else(|| match launch.layout {
            Layout::Natural => free.next_multiple_of(size),
            Layout::Slot16 => free.next_multiple_of(SLOT),
            Layout::Packed => free,
        });
        // `at` and `free` are at most MAX_SIZE, far from wrapping.
        free = offset + size;
        if free > MAX_SIZE {
            return Err(index);
        }
        let is_pointer = matches!(arg.source, ArgSource::Pointer { .. } | ArgSource::Null);
        fields.push(Field { name: arg.name.clone(), offset, size, is_pointer, line: arg.line });
    }
    Ok(fields)
}

/// Bytes that hold every field: the end of the last one.
pub fn fields_end(fields: &[Field]) -> u32 {
    fields.iter().map(Field::end).max().unwrap_or(0)
}

/// The value of an argument for one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgValue {
    /// The address of a tensor or buffer plus bytes.
    Address {
        /// Its name.
        target: String,
        /// Bytes added.
        offset: u64,
    },
    /// The low [`Field::size`] bytes of a number; a null pointer is 0.
    Bits(u64),
}

/// A placed argument with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedArg {
    /// Where.
    pub field: Field,
    /// What.
    pub value: ArgValue,
}

/// An argument image that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum PackError {
    #[error("argument `{field}`: there is no address for `{target}`")]
    NoAddress { field: String, target: String },
    #[error("argument `{field}`: the address of `{target}` plus {offset} wraps around")]
    Wraps { field: String, target: String, offset: u64 },
    #[error("argument `{field}` ends at byte {end}, the segment has {size}")]
    Beyond { field: String, end: u32, size: u32 },
}

/// The explicit arguments as bytes: little-endian, zeros between the fields.
///
/// # Errors
/// When a name has no address, an address wraps around, or a field lies beyond `size`.
pub fn pack(args: &[PlacedArg], size: u32, addresses: &BTreeMap<String, u64>) -> Result<Vec<u8>, PackError> {
    let mut image = vec![0u8; size as usize];
    for arg in args {
        let field = || arg.field.name.clone();
        let bits = match &arg.value {
            ArgValue::Bits(bits) => *bits,
            ArgValue::Address { target, offset } => {
                let base = addresses
                    .get(target)
                    .ok_or_else(|| PackError::NoAddress { field: field(), target: target.clone() })?;
                base.checked_add(*offset).ok_or_else(|| PackError::Wraps {
                    field: field(),
                    target: target.clone(),
                    offset: *offset,
                })?
            }
        };
        let (start, end) = (arg.field.offset as usize, arg.field.end() as usize);
        let beyond = PackError::Beyond { field: field(), end: arg.field.end(), size };
        let bytes = bits.to_le_bytes();
        let (place, value) = image.get_mut(start..end).zip(bytes.get(..arg.field.size as usize)).ok_or(beyond)?;
        place.copy_from_slice(value);
    }
    Ok(image)
}

/// An argument that the compiler added behind the explicit ones (code object v5, LLVM's AMDGPU usage guide).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Hidden {
    /// Complete workgroups along a dimension, u32.
    BlockCount(usize),
    /// Work-items of a complete workgroup along a dimension, u16.
    GroupSize(usize),
    /// Work-items of the partial workgroup at the end of a dimension, u16.
    Remainder(usize),
    GlobalOffset(usize),
    /// Dimensions of the dispatch, u16.
    GridDims,
    DynamicLdsSize,
    PrivateBase,
    SharedBase,
    /// Known to the driver alone (printf, hostcall, heap, queues): zero here.
    Driver,
}

impl Hidden {
    /// From the metadata's `.value_kind`; `None` when it is no hidden argument.
    pub fn of_kind(kind: &str) -> Option<Self> {
        let name = kind.strip_prefix("hidden_")?;
        let axis = match name.as_bytes() {
            [.., b'_', b'x'] => 0,
            [.., b'_', b'y'] => 1,
            [.., b'_', b'z'] => 2,
            _ => 3,
        };
        Some(match name.trim_end_matches(['x', 'y', 'z']).trim_end_matches('_') {
            "block_count" if axis < 3 => Hidden::BlockCount(axis),
            "group_size" if axis < 3 => Hidden::GroupSize(axis),
            "remainder" if axis < 3 => Hidden::Remainder(axis),
            "global_offset" if axis < 3 => Hidden::GlobalOffset(axis),
            _ => match name {
                "grid_dims" => Hidden::GridDims,
                "dynamic_lds_size" => Hidden::DynamicLdsSize,
                "private_base" => Hidden::PrivateBase,
                "shared_base" => Hidden::SharedBase,
                _ => Hidden::Driver,
            },
        })
    }

    /// The value for a dispatch of whole workgroups. Grid dimensions are 3, as HIP always launches.
    pub fn value(self, dispatch: &Dispatch) -> u64 {
        match self {
            Hidden::BlockCount(axis) => dispatch.grid.get(axis).copied().unwrap_or(1).into(),
            Hidden::GroupSize(axis) => dispatch.block.get(axis).copied().unwrap_or(1).into(),
            Hidden::Remainder(_) | Hidden::GlobalOffset(_) | Hidden::Driver => 0,
            Hidden::GridDims => 3,
            Hidden::DynamicLdsSize => dispatch.dynamic_lds.into(),
            Hidden::PrivateBase => (dispatch.private_base >> 32) & 0xffff_ffff,
            Hidden::SharedBase => (dispatch.shared_base >> 32) & 0xffff_ffff,
        }
    }
}

/// What hidden arguments depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dispatch {
    /// Workgroups.
    pub grid: [u32; 3],
    /// Work-items of a workgroup.
    pub block: [u32; 3],
    /// Dynamic LDS, bytes.
    pub dynamic_lds: u32,
    /// Flat address of the private aperture; the argument holds its high half.
    pub private_base: u64,
    /// Flat address of the LDS aperture; the argument holds its high half.
    pub shared_base: u64,
}

/// Writes a hidden argument into a segment; nothing when it lies beyond (a caller that passes only explicit bytes).
pub fn put_hidden(segment: &mut [u8], offset: u64, size: u64, hidden: Hidden, dispatch: &Dispatch) {
    let bytes = hidden.value(dispatch).to_le_bytes();
    let range = usize::try_from(offset).ok().zip(usize::try_from(offset.saturating_add(size)).ok());
    if let Some((start, end)) = range
        && let Some(place) = segment.get_mut(start..end)
    {
        for (index, byte) in place.iter_mut().enumerate() {
            *byte = bytes.get(index).copied().unwrap_or(0);
        }
    }
}
