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
