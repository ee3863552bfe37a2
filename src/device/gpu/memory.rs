//! A case's device memory: every tensor and buffer once a rotation set.

use super::hip_error;
use crate::device::DeviceError;
use kbench_hip::{Buffer, BufferSlice, Device, HipError};
use kbench_kernels::plan::{Addresses, Fill, PlannedBuffer};
use kbench_workload::{Role, TensorSet, TensorSpec};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What outputs and scratch hold before a launch, where the manifest says nothing: NaN in every float format that has one, a huge
/// number in the others. An output that is not written cannot pass, and a kernel that relies on zeros is found out.
pub(super) const POISON: u8 = 0xff;
/// Sets of one tensor stand at multiples of this many bytes in its buffer.
const ALIGN: u64 = 256;

/// One tensor or buffer in all sets.
struct Slot {
    buffer: Buffer,
    bytes: u64,
    /// From one set to the next.
    stride: u64,
}

/// Device memory of a case.
pub(super) struct CaseMemory {
    /// The case's tensors; two builds that are compared share them, so that where data lie is the same for both.
    tensors: Rc<BTreeMap<String, Slot>>,
    /// What the build needs beside them.
    buffers: BTreeMap<String, Slot>,
    planned: Vec<PlannedBuffer>,
    sets: u64,
}

impl Slot {
    /// The part of a set.
    fn part(&self, set: usize) -> Result<BufferSlice<'_>, DeviceError> {
        let begin = set as u64 * self.stride;
        self.buffer.slice(begin..begin + self.bytes).map_err(hip_error)
    }
}

/// An allocation that failed.
fn refused(device: &Device, bytes: u64, error: HipError) -> DeviceError {
    if error.out_of_memory() {
        let available_bytes = device.mem_info().map_or(0, |(free, _)| free);
        return DeviceError::OutOfMemory { needed_bytes: bytes.into(), available_bytes };
    }
    hip_error(error)
}

/// The bytes of a table of addresses.
fn table(names: &[String], addresses: &Addresses) -> Vec<u8> {
    names.iter().flat_map(|name| addresses.get(name).copied().unwrap_or(0).to_le_bytes()).collect()
}

/// Memory for `sets` sets of each.
fn slots<'n>(
    device: &Device,
    wanted: impl Iterator<Item = (&'n str, u64)>,
    sets: u64,
) -> Result<BTreeMap<String, Slot>, DeviceError> {
    let slot = |(name, bytes): (&str, u64)| {
        let stride = bytes.max(1).next_multiple_of(ALIGN);
        let all = stride * (sets - 1) + bytes.max(1);
        let buffer = device.alloc(all).map_err(|error| refused(device, all, error))?;
        Ok((name.to_owned(), Slot { buffer, bytes, stride }))
    };
    wanted.map(slot).collect()
}

/// Bytes that one set takes.
pub(super) fn set_bytes(specs: &[TensorSpec], buffers: &[PlannedBuffer]) -> u128 {
    let tensors: u128 = specs.iter().map(|spec| spec.bytes()).sum();
    tensors + buffers.iter().map(|buffer| u128::from(buffer.bytes)).sum::<u128>()
}

impl CaseMemory {
    /// Allocates `sets` sets. With one set every buffer has the size of its tensor, so that an emulated device sees an access
    /// one byte beyond it.
    pub(super) fn new(
        device: &Device,
        specs: &[TensorSpec],
        buffers: &[PlannedBuffer],
        sets: usize,
    ) -> Result<Self, DeviceError> {
        let sets = (sets as u64).max(1);
        let tensors = slots(device, specs.iter().map(|spec| (spec.name, spec.bytes() as u64)), sets)?;
        let own = slots(device, buffers.iter().map(|buffer| (buffer.name.as_str(), buffer.bytes)), sets)?;
        Ok(Self { tensors: Rc::new(tensors), buffers: own, planned: buffers.to_vec(), sets })
    }

    /// The tensors of another build of the same case, and buffers of one's own.
    pub(super) fn beside(&self, device: &Device, buffers: &[PlannedBuffer]) -> Result<Self, DeviceError> {
        let own = slots(device, buffers.iter().map(|buffer| (buffer.name.as_str(), buffer.bytes)), self.sets)?;
        Ok(Self { tensors: Rc::clone(&self.tensors), buffers: own, planned: buffers.to_vec(), sets: self.sets })
    }

    fn slots(&self) -> impl Iterator<Item = (&String, &Slot)> {
        self.tensors.iter().chain(&self.buffers)
    }

    /// Bytes of all sets.
    pub(super) fn total_bytes(&self) -> u128 {
        self.slots().map(|(_, slot)| u128::from(slot.bytes) * u128::from(self.sets)).sum()
    }

    /// Sets.
    pub(super) fn sets(&self) -> usize {
        self.sets as usize
    }

    /// Addresses of a set, by name.
    pub(super) fn addresses(&self, set: usize) -> Addresses {
        self.slots().map(|(name, slot)| (name.clone(), slot.buffer.address() + set as u64 * slot.stride)).collect()
    }

    fn slot(&self, name: &str) -> Result<&Slot, DeviceError> {
        self.tensors
            .get(name)
            .or_else(|| self.buffers.get(name))
            .ok_or_else(|| DeviceError::Failed(format!("the case has no buffer `{name}`")))
    }

    fn write(&self, name: &str, set: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        self.slot(name)?.part(set)?.copy_from_host(bytes).map_err(hip_error)
    }

    fn fill(&self, name: &str, set: usize, byte: u8) -> Result<(), DeviceError> {
        self.slot(name)?.part(set)?.fill_u8(byte).map_err(hip_error)
    }

    /// Puts tensors and first contents of buffers into a set; outputs are poisoned.
    pub(super) fn load(&self, set: usize, tensors: &TensorSet) -> Result<(), DeviceError> {
        for tensor in &tensors.tensors {
            match tensor.spec.role {
                Role::Out => self.fill(tensor.spec.name, set, POISON)?,
                _ => self.write(tensor.spec.name, set, tensor.bytes())?,
            }
        }
        let addresses = self.addresses(set);
        for buffer in &self.planned {
            match &buffer.fill {
                _ if buffer.zero_before => self.fill(&buffer.name, set, 0)?,
                Fill::Uninitialised => self.fill(&buffer.name, set, POISON)?,
                Fill::Byte(byte) => self.fill(&buffer.name, set, *byte)?,
                Fill::Pointers(names) => self.write(&buffer.name, set, &table(names, &addresses))?,
                Fill::File(name) => {
                    let reason = format!("buffer `{}`: {name} could not be read where cases are run", buffer.name);
                    return Err(DeviceError::Failed(reason));
                }
                other => {
                    let mut bytes = vec![0; buffer.bytes as usize];
                    other.write(&mut bytes);
                    self.write(&buffer.name, set, &bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the first set into all others, on the device, doubling what there is.
    pub(super) fn replicate(&self) -> Result<(), DeviceError> {
        for (_, slot) in self.slots() {
            let mut have = 1;
            while have < self.sets {
                let count = have.min(self.sets - have);
                // The last set has no padding behind it.
                let bytes = slot.stride * (count - 1) + slot.bytes;
                let to = slot.buffer.slice(have * slot.stride..have * slot.stride + bytes).map_err(hip_error)?;
                let from = slot.buffer.slice(..bytes).map_err(hip_error)?;
                to.copy_from_device(from).map_err(hip_error)?;
                have += count;
            }
        }
        // Tables of addresses point into their own set.
        let tables: Vec<_> = (self.planned.iter())
            .filter_map(|buffer| match &buffer.fill {
                Fill::Pointers(names) => Some((&buffer.name, names)),
                _ => None,
            })
            .collect();
        for set in (1..self.sets()).take_while(|_| !tables.is_empty()) {
            let addresses = self.addresses(set);
            for (name, names) in &tables {
                self.write(name, set, &table(names, &addresses))?;
            }
        }
        Ok(())
    }

    /// Zeroes what the manifest wants zeroed before each launch sequence.
    pub(super) fn zero(&self, set: usize) -> Result<(), DeviceError> {
        for buffer in self.planned.iter().filter(|buffer| buffer.zero_before) {
            self.fill(&buffer.name, set, 0)?;
        }
        Ok(())
    }

    /// Reads the tensors that kernels write.
    pub(super) fn read_outputs(&self, set: usize, tensors: &mut TensorSet) -> Result<(), DeviceError> {
        for tensor in tensors.tensors.iter_mut().filter(|tensor| tensor.spec.role != Role::In) {
            self.slot(tensor.spec.name)?.part(set)?.copy_to_host(tensor.bytes_mut()).map_err(hip_error)?;
        }
        Ok(())
    }
}
