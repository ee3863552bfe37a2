//! Device memory: allocations at device addresses that are never used twice, with guard gaps between them, backed by host
//! pages that the OS provides when touched.
//!
//! Host memory that kernels may touch (pinned memory) is [`HostPages`], attached to each device that reaches it. Its device
//! address is its host address, as on systems with one address space, so a pointer to it means the same on both sides. These addresses
//! are the OS's choice: unlike all others they may come back, and differ from run to run.
//!
//! Every access is checked against the live allocations. Kernels run on several threads and may race as they may on a GPU,
//! so contents are only ever touched through raw pointers; a race gives some interleaving of the bytes, as on a GPU.

use crate::fault::{Access, FaultKind};
use memmap2::{MmapMut, MmapOptions};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Page size of the device, bytes.
pub const PAGE: u64 = 4096;
/// Addresses start here.
const FIRST_ADDRESS: u64 = 0x0010_0000_0000;
/// Allocations start at multiples of this, at which all modelled caches start over: what they do with a buffer does not depend on what was
/// allocated before it. Equal launches have equal counts.
const ALIGN: u64 = 1 << 21;
/// Nothing lies between two allocations for at least this many bytes.
const GUARD: u64 = 0x1_0000;
/// Addresses end here: below the LDS and scratch apertures.
const LAST_ADDRESS: u64 = 0x7fff_ffff_0000;
/// Freed allocations that fault messages can still name.
const REMEMBERED: usize = 4096;

/// How strictly accesses are held to allocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Bounds {
    /// A byte beyond the requested size is a fault.
    #[default]
    Exact,
    /// What hardware does: a read inside the allocation's last page passes, and is counted.
    Page,
}

/// Why memory could not be had or touched from the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// The device's memory is used up.
    #[error("out of device memory: {requested} B asked for, {free} B free of {capacity} B")]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes left.
        free: u64,
        /// Size of the device's memory.
        capacity: u64,
    },
    /// The host cannot back the allocation.
    #[error("the host cannot back {requested} B of device memory: {reason}")]
    Host {
        /// Bytes asked for.
        requested: u64,
        /// The OS's reason.
        reason: String,
    },
    /// No live allocation holds the range.
    #[error("{bytes} B at {address:#x} are not inside a live allocation: {nearest}")]
    NotAllocated {
        /// Device address.
        address: u64,
        /// Bytes.
        bytes: u64,
        /// Nearest allocation in words.
        nearest: String,
    },
}

/// Pages of the host, zeroed, that back allocations, or that several devices and the host share.
#[derive(Debug)]
pub struct HostPages {
    /// Kept for its pages; contents are touched through `start`.
    map: MmapMut,
    start: *mut u8,
    bytes: u64,
}

// SAFETY: `start` points into `map`, which does not move; contents are shared between threads like a GPU's memory, through
// raw pointers only.
unsafe impl Send for HostPages {}
// SAFETY: as above.
unsafe impl Sync for HostPages {}

impl HostPages {
    /// Whole pages for `bytes`; 0 takes one.
    ///
    /// # Errors
    /// When the host has no room.
    pub fn new(bytes: u64) -> Result<Self, MemoryError> {
        let host = |reason: String| MemoryError::Host { requested: bytes, reason };
        let mapped = bytes.max(1).checked_next_multiple_of(PAGE).ok_or_else(|| host("no such size".to_owned()))?;
        let length = usize::try_from(mapped).map_err(|error| host(error.to_string()))?;
        let mut map =
            MmapOptions::new().len(length).no_reserve_swap().map_anon().map_err(|error| host(error.to_string()))?;
        Ok(Self { start: map.as_mut_ptr(), map, bytes })
    }

    /// The first byte. It is valid for [`HostPages::bytes`] as long as `self`.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// The address of the first byte, on the host and on devices that it is attached to.
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    /// Bytes that were asked for.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// One live allocation.
#[derive(Debug)]
struct Region {
    address: u64,
    bytes: u64,
    pages: Arc<HostPages>,
    /// It takes device memory; host memory that is attached does not.
    is_own: bool,
    /// One bit a byte: written. Present while uninitialised reads are looked for.
    written: Option<Box<[AtomicU8]>>,
    name: String,
}

/// A part of an allocation that was touched lately.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    read_end: u64,
    write_end: u64,
    host: *mut u8,
}

const NO_RANGE: Range = Range { start: 1, read_end: 0, write_end: 0, host: std::ptr::null_mut() };

/// The allocations that one thread touched last, so that most accesses need no search. It must not outlive the set of
/// allocations it was used with: a launch makes a fresh one.
#[derive(Debug)]
pub struct Ranges {
    recent: [Range; 4],
    next: usize,
}

impl Default for Ranges {
    fn default() -> Self {
        Self { recent: [NO_RANGE; 4], next: 0 }
    }
}

/// The memory of a device.
#[derive(Debug)]
pub struct Memory {
    regions: Vec<Region>,
    freed: VecDeque<(u64, u64, String)>,
    next: u64,
    last: u64,
    used: u64,
    capacity: u64,
    bounds: Bounds,
    track: bool,
    poison: Option<u8>,
    beyond: AtomicU64,
}

impl Memory {
    /// Memory of `capacity` bytes.
    pub fn new(capacity: u64) -> Self {
        Self::within(FIRST_ADDRESS..LAST_ADDRESS, capacity)
    }

    /// Memory whose addresses are from this range: devices of one process have addresses that differ. Once it is used up nothing
    /// can be allocated any more.
    pub fn within(addresses: std::ops::Range<u64>, capacity: u64) -> Self {
        Self {
            regions: Vec::new(),
            freed: VecDeque::new(),
            next: addresses.start,
            last: addresses.end.min(LAST_ADDRESS),
            used: 0,
            capacity,
            bounds: Bounds::Exact,
            track: false,
            poison: None,
            beyond: AtomicU64::new(0),
        }
    }

    /// Sets how strictly accesses are checked.
    pub fn set_bounds(&mut self, bounds: Bounds) {
        self.bounds = bounds;
    }

    /// Looks for reads of memory that nothing has written, in allocations made from now on.
    pub fn track_uninitialised(&mut self, on: bool) {
        self.track = on;
    }

    /// Fills allocations made from now on with this byte instead of zeros.
    pub fn set_poison(&mut self, poison: Option<u8>) {
        self.poison = poison;
    }

    /// True when reads have to be checked for being initialised.
    #[inline(always)]
    pub fn tracks(&self) -> bool {
        self.track
    }

    /// Size, bytes.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes not allocated.
    pub fn free_bytes(&self) -> u64 {
        self.capacity - self.used
    }

    /// Reads that went past an allocation's size inside its last page ([`Bounds::Page`]).
    pub fn reads_beyond(&self) -> u64 {
        self.beyond.load(Ordering::Relaxed)
    }

    /// Allocates `bytes` (0 gives an address that nothing can be read from), zeroed by the OS. `name` is for messages.
    ///
    /// # Errors
    /// When the device or the host has no room.
    pub fn allocate(&mut self, bytes: u64, name: &str) -> Result<u64, MemoryError> {
        self.reserve(bytes, name, self.track)
    }

    /// The same where reads of bytes that nothing has written are fine.
    pub(crate) fn allocate_untracked(&mut self, bytes: u64, name: &str) -> Result<u64, MemoryError> {
        self.reserve(bytes, name, false)
    }

    fn reserve(&mut self, bytes: u64, name: &str, track: bool) -> Result<u64, MemoryError> {
        let free = self.free_bytes();
        let out = MemoryError::OutOfMemory { requested: bytes, free, capacity: self.capacity };
        if bytes > free {
            return Err(out);
        }
        let mapped = bytes.max(1).div_ceil(PAGE) * PAGE;
        let address = self.next.div_ceil(ALIGN) * ALIGN;
        let end = address.checked_add(mapped + GUARD).filter(|end| *end < self.last).ok_or(out)?;
        let pages = HostPages::new(bytes)?;
        if let Some(poison) = self.poison {
            // SAFETY: the pages are new and hold `bytes`.
            unsafe { pages.as_ptr().write_bytes(poison, bytes as usize) };
        }
        let written = track.then(|| (0..bytes.div_ceil(8)).map(|_| AtomicU8::new(0)).collect());
        let region = Region { address, bytes, pages: Arc::new(pages), is_own: true, written, name: name.to_owned() };
        self.insert(region);
        self.next = end;
        self.used += bytes;
        Ok(address)
    }

    fn insert(&mut self, region: Region) {
        let place = self.regions.partition_point(|other| other.address <= region.address);
        self.regions.insert(place, region);
    }

    /// Lets kernels touch host memory at its own address, until that is freed. It takes none of the device's memory.
    pub fn attach(&mut self, pages: &Arc<HostPages>, name: &str) {
        let (address, bytes) = (pages.address(), pages.bytes());
        // The OS gives addresses out again: what was freed there is no longer what lies there.
        self.freed.retain(|(start, freed, _)| start.wrapping_add(*freed) <= address || *start >= address + bytes);
        let pages = Arc::clone(pages);
        self.insert(Region { address, bytes, pages, is_own: false, written: None, name: name.to_owned() });
    }

    /// Frees the allocation that starts at `address`; its addresses are not used again.
    ///
    /// # Errors
    /// When no live allocation starts there.
    pub fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let Ok(index) = self.regions.binary_search_by_key(&address, |region| region.address) else {
            return Err(MemoryError::NotAllocated { address, bytes: 0, nearest: self.nearest(address) });
        };
        let region = self.regions.remove(index);
        if region.is_own {
            self.used -= region.bytes;
        }
        if self.freed.len() == REMEMBERED {
            self.freed.pop_front();
        }
        self.freed.push_back((region.address, region.bytes, region.name));
        Ok(())
    }

    /// Where the next allocation can start: what [`Memory::rewind`] takes.
    pub(crate) fn mark(&self) -> u64 {
        self.next
    }

    /// Lets addresses from `mark` on be given out again. Everything that was allocated since has been freed.
    pub(crate) fn rewind(&mut self, mark: u64) {
        self.next = mark;
        self.freed.retain(|(start, ..)| *start < mark || *start >= self.last);
    }

    /// Start and size of the live allocation that holds `address`.
    pub fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        self.region(address).map(|region| (region.address, region.bytes))
    }

    fn region(&self, address: u64) -> Option<&Region> {
        let after = self.regions.partition_point(|region| region.address <= address);
        let region = &self.regions[after.checked_sub(1)?];
        (address - region.address < region.bytes.max(1)).then_some(region)
    }

    /// What lies nearest to `address`, in words: for messages.
    pub fn nearest(&self, address: u64) -> String {
        let freed = self.freed.iter().rev().find(|(start, bytes, _)| address.wrapping_sub(*start) < *bytes);
        if let Some((start, bytes, name)) = freed {
            let offset = address - start;
            return format!("{offset} B into `{name}` ({bytes} B at {start:#x}), which has been freed");
        }
        let after = self.regions.partition_point(|region| region.address <= address);
        let below = after.checked_sub(1).map(|index| &self.regions[index]);
        let above = self.regions.get(after);
        if let Some(region) = below.filter(|region| address - region.address < region.bytes) {
            let Region { name, bytes, address: start, .. } = region;
            return format!("{} B into `{name}` ({bytes} B at {start:#x})", address - start);
        }
        let past = below.map(|region| address - region.address - region.bytes);
        let before = above.map(|region| region.address - address);
        match (below.zip(past), above.zip(before)) {
            (Some((region, past)), above) if above.is_none_or(|(_, before)| past <= before) => {
                let Region { name, bytes, address, .. } = region;
                format!("{past} B past the end of `{name}` ({bytes} B at {address:#x})")
            }
            (_, Some((region, before))) => {
                let Region { name, bytes, address, .. } = region;
                format!("{before} B before `{name}` ({bytes} B at {address:#x})")
            }
            _ => "nothing is allocated".to_owned(),
        }
    }

    /// The host pointer behind `bytes` at `address`, which lie inside one live allocation. It stays valid until that
    /// allocation is freed, which the borrow of `self` rules out while a kernel runs. Other threads may touch the same bytes.
    ///
    /// # Errors
    /// A memory fault when they do not.
    #[inline(always)]
    pub fn resolve(&self, ranges: &mut Ranges, access: Access, address: u64, bytes: u32) -> Result<*mut u8, FaultKind> {
        let end = address.wrapping_add(u64::from(bytes));
        for range in &ranges.recent {
            let limit = if access == Access::Read { range.read_end } else { range.write_end };
            if address >= range.start && end <= limit && end >= address {
                return Ok(range.host.wrapping_add((address - range.start) as usize));
            }
        }
        self.resolve_slowly(ranges, access, address, bytes)
    }

    #[cold]
    fn resolve_slowly(
        &self,
        ranges: &mut Ranges,
        access: Access,
        address: u64,
        bytes: u32,
    ) -> Result<*mut u8, FaultKind> {
        let end = address.checked_add(u64::from(bytes));
        let fault = || FaultKind::Memory { access, address, bytes, nearest: self.nearest(address) };
        let after = self.regions.partition_point(|region| region.address <= address);
        let region = after.checked_sub(1).map(|index| &self.regions[index]).ok_or_else(fault)?;
        let exact = region.address + region.bytes;
        let read_end = match self.bounds {
            Bounds::Exact => exact,
            Bounds::Page => region.address + region.pages.map.len() as u64,
        };
        let limit = if access == Access::Read { read_end } else { exact };
        let end = end.filter(|end| *end <= limit).ok_or_else(fault)?;
        if end > exact {
            self.beyond.fetch_add(1, Ordering::Relaxed);
        }
        // A read past the exact end has to come here each time, so that it is counted.
        let range = Range { start: region.address, read_end: exact, write_end: exact, host: region.pages.as_ptr() };
        ranges.recent[ranges.next] = range;
        ranges.next = (ranges.next + 1) % ranges.recent.len();
        Ok(region.pages.as_ptr().wrapping_add((address - region.address) as usize))
    }

    /// Marks bytes as written, when that is tracked.
    pub fn mark_written(&self, address: u64, bytes: u64) {
        let Some(region) = self.region(address) else { return };
        let Some(written) = &region.written else { return };
        let start = address - region.address;
        let end = start.saturating_add(bytes).min(region.bytes);
        let mut byte = start;
        while byte < end {
            // A whole byte of the map at a time where that is possible.
            let (bit, count) = (byte % 8, (8 - byte % 8).min(end - byte));
            let mask = (0xff_u32 >> (8 - count) << bit) as u8;
            written[(byte / 8) as usize].fetch_or(mask, Ordering::Relaxed);
            byte += count;
        }
    }

    /// A fault when some of the bytes were never written; only allocations made while tracking are looked at.
    ///
    /// # Errors
    /// [`FaultKind::Uninitialised`].
    pub fn check_written(&self, address: u64, bytes: u32) -> Result<(), FaultKind> {
        let Some(region) = self.region(address) else { return Ok(()) };
        let Some(written) = &region.written else { return Ok(()) };
        let start = address - region.address;
        let all = (start..(start + u64::from(bytes)).min(region.bytes))
            .all(|byte| written[(byte / 8) as usize].load(Ordering::Relaxed) & (1 << (byte % 8)) != 0);
        if all { Ok(()) } else { Err(FaultKind::Uninitialised { address, bytes, nearest: self.nearest(address) }) }
    }

    /// The host pointer behind `bytes` at `address`, for copies from and to the host. It stays valid until the allocation is freed.
    /// Whoever writes through it calls [`Memory::mark_written`].
    ///
    /// # Errors
    /// When the range is not inside one live allocation.
    pub fn host_pointer(&self, address: u64, bytes: u64) -> Result<*mut u8, MemoryError> {
        let wrong = || MemoryError::NotAllocated { address, bytes, nearest: self.nearest(address) };
        let after = self.regions.partition_point(|region| region.address <= address);
        let region = after.checked_sub(1).map(|index| &self.regions[index]).ok_or_else(wrong)?;
        let offset = address - region.address;
        offset.checked_add(bytes).filter(|end| *end <= region.bytes).ok_or_else(wrong)?;
        Ok(region.pages.as_ptr().wrapping_add(offset as usize))
    }

    /// Copies device memory to the host. No kernel runs meanwhile.
    ///
    /// # Errors
    /// When the range is not inside one live allocation.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let from = self.host_pointer(address, out.len() as u64)?;
        // SAFETY: `from` holds that many bytes, and no `&mut` slice can lie in them.
        unsafe { from.copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Bytes of device memory in place. No kernel runs meanwhile.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub(crate) fn bytes(&self, address: u64, bytes: u64) -> Result<&[u8], MemoryError> {
        let start = self.host_pointer(address, bytes)?;
        // SAFETY: `start` holds that many bytes as long as the allocation lives, which `&self` keeps, and no kernel writes meanwhile.
        Ok(unsafe { std::slice::from_raw_parts(start, bytes as usize) })
    }

    /// Copies host memory to the device.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<(), MemoryError> {
        self.with_bytes(address, data.len() as u64, |bytes| bytes.copy_from_slice(data))
    }

    /// Lets `edit` change bytes of device memory in place.
    ///
    /// # Errors
    /// As [`Memory::read`].
    pub fn with_bytes(&mut self, address: u64, bytes: u64, edit: impl FnOnce(&mut [u8])) -> Result<(), MemoryError> {
        let start = self.host_pointer(address, bytes)?;
        // SAFETY: `start` holds that many bytes, and `&mut self` keeps others that go through this memory out.
        edit(unsafe { std::slice::from_raw_parts_mut(start, bytes as usize) });
        self.mark_written(address, bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_an_allocation_and_no_other_resolves() {
        let mut memory = Memory::new(1 << 20);
        let a = memory.allocate(100, "a").unwrap();
        let b = memory.allocate(4096, "b").unwrap();
        let mut ranges = Ranges::default();
        let mut ok = |access, address, bytes| memory.resolve(&mut ranges, access, address, bytes).is_ok();
        for access in [Access::Read, Access::Write, Access::Atomic] {
            assert!(ok(access, a, 100) && ok(access, a + 96, 4) && ok(access, b, 4096) && ok(access, b + 4095, 1));
            assert!(!ok(access, a + 97, 4) && !ok(access, a - 1, 1) && !ok(access, b + 4096, 1) && !ok(access, 0, 1));
            assert!(!ok(access, u64::MAX, 4) && !ok(access, a, 101));
        }
    }

    #[test]
    fn page_bounds_let_reads_pass_and_count_them() {
        let mut memory = Memory::new(1 << 20);
        memory.set_bounds(Bounds::Page);
        let a = memory.allocate(100, "a").unwrap();
        let mut ranges = Ranges::default();
        for _ in 0..3 {
            memory.resolve(&mut ranges, Access::Read, a + 98, 4).unwrap();
        }
        assert!(memory.resolve(&mut ranges, Access::Read, a + 4094, 4).is_err());
        assert!(memory.resolve(&mut ranges, Access::Write, a + 98, 4).is_err());
        assert_eq!(memory.reads_beyond(), 3);
    }

    #[test]
    fn host_memory_is_reached_at_its_own_address() {
        let pages = Arc::new(HostPages::new(100).unwrap());
        let mut devices = [Memory::new(1 << 20), Memory::within(1 << 42..(1 << 42) + 2 * ALIGN, 1 << 20)];
        let own = devices.each_mut().map(|memory| memory.allocate(64, "own").unwrap());
        assert_eq!((own[0], own[1]), (FIRST_ADDRESS, 1 << 42));
        for memory in &mut devices {
            let free = memory.free_bytes();
            memory.attach(&pages, "pinned");
            assert_eq!(memory.free_bytes(), free);
            assert_eq!(memory.allocation(pages.address() + 99), Some((pages.address(), 100)));
            assert!(memory.resolve(&mut Ranges::default(), Access::Write, pages.address() + 100, 1).is_err());
        }
        // The second has addresses for two allocations.
        assert!(devices[1].allocate(1 << 18, "fits").is_ok() && devices[1].allocate(1 << 18, "does not").is_err());
        devices[0].write(pages.address() + 4, &[7; 4]).unwrap();
        let mut back = [0; 8];
        devices[1].read(pages.address(), &mut back).unwrap();
        assert_eq!(back, [0, 0, 0, 0, 7, 7, 7, 7]);
        devices[0].free(pages.address()).unwrap();
        assert!(devices[0].read(pages.address(), &mut back).is_err());
        devices[0].attach(&pages, "again");
        assert!(devices[0].nearest(pages.address() + 3).contains("into `again`"));
        assert!(devices[0].read(own[0], &mut back).is_ok());
    }

    #[test]
    fn freed_memory_is_named() {
        let mut memory = Memory::new(1 << 20);
        let a = memory.allocate(64, "weights").unwrap();
        memory.free(a).unwrap();
        assert!(memory.free(a).is_err());
        let fault = memory.resolve(&mut Ranges::default(), Access::Read, a + 8, 4).unwrap_err();
        assert!(fault.to_string().contains("8 B into `weights` (64 B at"), "{fault}");
        assert!(fault.to_string().contains("freed"), "{fault}");
        assert_ne!(memory.allocate(64, "again").unwrap(), a);
        assert!(matches!(memory.allocate(1 << 21, "big"), Err(MemoryError::OutOfMemory { .. })));
    }

    #[test]
    fn contents_survive_and_uninitialised_reads_are_found() {
        let mut memory = Memory::new(1 << 20);
        memory.track_uninitialised(true);
        let a = memory.allocate(16, "a").unwrap();
        memory.write(a + 4, &[1, 2, 3, 4]).unwrap();
        let mut back = [0; 4];
        memory.read(a + 4, &mut back).unwrap();
        assert_eq!(back, [1, 2, 3, 4]);
        assert!(memory.check_written(a + 4, 4).is_ok());
        assert!(memory.check_written(a + 4, 8).is_err());
        assert!(memory.write(a + 14, &[0; 4]).is_err());
        assert_eq!(memory.nearest(a + 20), format!("4 B past the end of `a` (16 B at {a:#x})"));
        assert_eq!(memory.nearest(a + 16), format!("0 B past the end of `a` (16 B at {a:#x})"));
        assert_eq!(memory.nearest(a + 15), format!("15 B into `a` (16 B at {a:#x})"));
        assert_eq!(memory.nearest(a - 1), format!("1 B before `a` (16 B at {a:#x})"));
    }
}
