//! What memory instructions ask of the memory system. Requests, bytes and lines touched are exact; what the caches do with
//! them is a model of sizes and ways with the order in which the emulator runs waves, which is not the hardware's.

mod cache;
mod footprint;
mod lds;

use crate::exec::Level;
use crate::fault::Access;
pub use cache::{CacheShape, Shape};
use cache::{Caches, Look};
pub use footprint::DistinctBytes;
use footprint::Footprint;
use lds::CROSSBAR_CYCLES;
pub use lds::{LdsBanks, LdsOp};

/// Counts of the memory system. Fields named after rocprofiler's counters have their meaning, summed over instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that active lanes of vector loads asked for. Exact.
    pub vector_bytes_read: u64,
    /// Bytes that active lanes of vector stores asked for. Exact.
    pub vector_bytes_written: u64,
    /// Bytes that active lanes of atomics asked for. Exact.
    pub vector_bytes_atomic: u64,
    /// Bytes of scalar loads. Exact.
    pub scalar_bytes_read: u64,
    /// Scalar loads. Exact.
    pub scalar_requests: u64,
    /// `TCP_TOTAL_ACCESSES`: accesses of four lanes each, at least 16 a wave instruction; model of the coalescer.
    pub tcp_total_accesses: u64,
    /// `TCP_TOTAL_CACHE_ACCESSES`: lines touched, summed over instructions. Exact for the documented line size.
    pub tcp_total_cache_accesses: u64,
    /// `TCP_TCC_READ_REQ`: lines that the L1 model had not.
    pub tcp_tcc_read_req: u64,
    /// `TCP_TCC_WRITE_REQ`: 64-byte write requests. Exact.
    pub tcp_tcc_write_req: u64,
    /// `TCP_TCC_ATOMIC_*_REQ`: 64-byte atomic requests. Exact.
    pub tcp_tcc_atomic_req: u64,
    /// Lines that scalar loads asked the L2 for.
    pub sqc_tc_data_read_req: u64,
    /// `TCC_REQ`.
    pub tcc_req: u64,
    /// `TCC_HIT`.
    pub tcc_hit: u64,
    /// `TCC_MISS`.
    pub tcc_miss: u64,
    /// `TCC_EA0_RDREQ`: reads to the fabric, 128 bytes each here.
    pub tcc_ea_rdreq: u64,
    /// `TCC_EA0_WRREQ`: writes to the fabric.
    pub tcc_ea_wrreq: u64,
    /// Of them, whole 64 bytes.
    pub tcc_ea_wrreq_64b: u64,
    /// `SQ_LDS_IDX_ACTIVE`, cycles.
    pub lds_idx_active: u64,
    /// `SQ_LDS_BANK_CONFLICT`, cycles.
    pub lds_bank_conflict: u64,
    /// Bytes that active lanes asked of LDS. Exact.
    pub lds_bytes: u64,
    /// Clocks that LDS ports are taken: 64 B a clock each way, or conflicts.
    pub lds_port_cycles: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        let pairs: [(&mut u64, u64); 21] = [
            (&mut self.vector_bytes_read, other.vector_bytes_read),
            (&mut self.vector_bytes_written, other.vector_bytes_written),
            (&mut self.vector_bytes_atomic, other.vector_bytes_atomic),
            (&mut self.scalar_bytes_read, other.scalar_bytes_read),
            (&mut self.scalar_requests, other.scalar_requests),
            (&mut self.tcp_total_accesses, other.tcp_total_accesses),
            (&mut self.tcp_total_cache_accesses, other.tcp_total_cache_accesses),
            (&mut self.tcp_tcc_read_req, other.tcp_tcc_read_req),
            (&mut self.tcp_tcc_write_req, other.tcp_tcc_write_req),
            (&mut self.tcp_tcc_atomic_req, other.tcp_tcc_atomic_req),
            (&mut self.sqc_tc_data_read_req, other.sqc_tc_data_read_req),
            (&mut self.tcc_req, other.tcc_req),
            (&mut self.tcc_hit, other.tcc_hit),
            (&mut self.tcc_miss, other.tcc_miss),
            (&mut self.tcc_ea_rdreq, other.tcc_ea_rdreq),
            (&mut self.tcc_ea_wrreq, other.tcc_ea_wrreq),
            (&mut self.tcc_ea_wrreq_64b, other.tcc_ea_wrreq_64b),
            (&mut self.lds_idx_active, other.lds_idx_active),
            (&mut self.lds_bank_conflict, other.lds_bank_conflict),
            (&mut self.lds_bytes, other.lds_bytes),
            (&mut self.lds_port_cycles, other.lds_port_cycles),
        ];
        for (sum, value) in pairs {
            *sum += value;
        }
    }
}

/// Counts and cache models of one XCD.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// What was counted.
    pub counts: Counts,
    line_shift: u32,
    banks: LdsBanks,
    cu: usize,
    /// Tags are compared with AVX-512.
    wide: bool,
    l1: Caches,
    scalar: Caches,
    l2: Caches,
    footprint: Footprint,
}

impl Traffic {
    /// The memory system of an XCD with `cus` CUs.
    pub fn new(shape: Shape, cus: u32) -> Self {
        let cus = cus.max(1) as usize;
        Self {
            counts: Counts::default(),
            line_shift: shape.l1.line.max(1).ilog2(),
            banks: shape.banks,
            cu: 0,
            wide: Level::detect() == Level::V4,
            l1: Caches::new(shape.l1, cus),
            scalar: Caches::new(shape.scalar, cus.div_ceil(2)),
            l2: Caches::new(shape.l2, 1),
            footprint: Footprint::default(),
        }
    }

    /// The instructions that follow come from this CU.
    pub fn enter(&mut self, cu: u32) {
        self.cu = (cu as usize).min(self.l1.count().saturating_sub(1));
    }

    /// Adds another XCD's counts.
    pub fn merge(&mut self, other: &Traffic) {
        self.counts.add(&other.counts);
        self.footprint.merge(&other.footprint);
    }

    /// Takes a range out of the distinct bytes: scratch, which no launch has to bring from memory or leave there.
    pub fn forget(&mut self, address: u64, bytes: u64) {
        self.footprint.forget(address / 128, address.saturating_add(bytes).div_ceil(128));
    }

    /// Distinct bytes of device memory that were touched: the least that memory has to deliver and take, whatever the caches.
    pub fn distinct_bytes(&self) -> DistinctBytes {
        self.footprint.distinct()
    }

    /// Writes back what the L2 holds, as the end of a kernel does: dirty sectors become writes to the fabric.
    pub fn flush(&mut self) {
        let counts = &mut self.counts;
        self.l2.drain_dirty(|sectors, lines| write_back(counts, sectors, lines));
    }

    fn bytes(&mut self, access: Access, bytes: u64) {
        match access {
            Access::Read => self.counts.vector_bytes_read += bytes,
            Access::Write => self.counts.vector_bytes_written += bytes,
            Access::Atomic => self.counts.vector_bytes_atomic += bytes,
        }
    }

    /// A vector memory instruction: lane `i` of `exec` touches `bytes` at `addresses[i]`.
    pub fn vmem(&mut self, access: Access, exec: u64, addresses: &[u64; 64], bytes: u32) {
        if exec == 0 {
            return;
        }
        #[cfg(target_arch = "x86_64")]
        if self.wide {
            // SAFETY: `wide` says that the host has the features.
            return unsafe { self.lanes_wide(access, exec, addresses, bytes) };
        }
        // SAFETY: the plain form needs no features.
        unsafe { self.lanes::<false>(access, exec, addresses, bytes) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2,popcnt,lzcnt,avx512f")]
    unsafe fn lanes_wide(&mut self, access: Access, exec: u64, addresses: &[u64; 64], bytes: u32) {
        // SAFETY: the caller's.
        unsafe { self.lanes::<true>(access, exec, addresses, bytes) }
    }

    /// # Safety
    /// For `WIDE` the host has AVX-512 F.
    #[inline(always)]
    unsafe fn lanes<const WIDE: bool>(&mut self, access: Access, exec: u64, addresses: &[u64; 64], bytes: u32) {
        self.bytes(access, u64::from(exec.count_ones()) * u64::from(bytes));
        let shift = self.line_shift;
        let mut lines = [0_u64; 128];
        let mut count = 0;
        let mut accesses = 0;
        for quad in 0..16 {
            let active = exec >> (quad * 4) & 0xf;
            let before = count;
            let mut rest = active;
            while rest != 0 {
                let lane = quad * 4 + rest.trailing_zeros() as usize;
                rest &= rest - 1;
                let first = addresses[lane] >> shift;
                let last = addresses[lane].wrapping_add(u64::from(bytes.max(1)) - 1) >> shift;
                for line in [first, last] {
                    // Neighbouring lanes mostly share lines, so the newest ones are looked at first.
                    if count < lines.len() && !lines[..count].iter().rev().any(|seen| *seen == line) {
                        lines[count] = line;
                        count += 1;
                    }
                }
            }
            // A quad whose lanes lie together is one access; each further line it opens is another.
            accesses += (count - before).max(1) as u64;
        }
        self.counts.tcp_total_accesses += accesses.min(64);
        for line in &lines[..count] {
            let sectors = self.sectors(access, exec, addresses, bytes, *line);
            // SAFETY: the caller's.
            unsafe { self.line::<WIDE>(access, *line, sectors) };
        }
    }

    /// The 32-byte sectors of a line that a store touches.
    fn sectors(&self, access: Access, exec: u64, addresses: &[u64; 64], bytes: u32, line: u64) -> u8 {
        if access == Access::Read {
            return 0;
        }
        let mut sectors = 0;
        let mut rest = exec;
        while rest != 0 {
            let lane = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            sectors |= sector_mask(addresses[lane], u64::from(bytes), line, self.line_shift);
        }
        sectors
    }

    /// The same when all 64 lanes are active and lane `i` touches `bytes` at `first + i * bytes`.
    #[inline]
    pub fn vmem_linear(&mut self, access: Access, first: u64, bytes: u32) {
        #[cfg(target_arch = "x86_64")]
        if self.wide {
            // SAFETY: `wide` says that the host has the features.
            return unsafe { self.linear_wide(access, first, bytes) };
        }
        // SAFETY: the plain form needs no features.
        unsafe { self.linear::<false>(access, first, bytes) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "bmi1,bmi2,popcnt,lzcnt,avx512f")]
    unsafe fn linear_wide(&mut self, access: Access, first: u64, bytes: u32) {
        // SAFETY: the caller's.
        unsafe { self.linear::<true>(access, first, bytes) }
    }

    /// # Safety
    /// For `WIDE` the host has AVX-512 F.
    #[inline(always)]
    unsafe fn linear<const WIDE: bool>(&mut self, access: Access, first: u64, bytes: u32) {
        let total = 64 * u64::from(bytes);
        self.bytes(access, total);
        self.counts.tcp_total_accesses += 16;
        let shift = self.line_shift;
        for line in first >> shift..=(first + total - 1) >> shift {
            let sectors = if access == Access::Read { 0 } else { sector_mask(first, total, line, shift) };
            // SAFETY: the caller's.
            unsafe { self.line::<WIDE>(access, line, sectors) };
        }
    }

    /// One line of a vector instruction.
    ///
    /// # Safety
    /// For `WIDE` the host has AVX-512 F.
    #[inline(always)]
    unsafe fn line<const WIDE: bool>(&mut self, access: Access, line: u64, sectors: u8) {
        self.counts.tcp_total_cache_accesses += 1;
        match access {
            Access::Read => {
                // SAFETY: the caller's.
                if unsafe { self.l1.look::<WIDE>(self.cu, line, 0) } == Look::Hit {
                    return;
                }
                self.counts.tcp_tcc_read_req += 1;
                // SAFETY: the caller's.
                unsafe { self.second_level::<WIDE>(line, 0, true) };
            }
            Access::Write | Access::Atomic => {
                // Writes go through, 64 bytes a request; a line that the L1 holds keeps its new contents.
                let halves = u64::from(sectors & 3 != 0) + u64::from(sectors >> 2 & 3 != 0);
                match access {
                    Access::Atomic => self.counts.tcp_tcc_atomic_req += halves.max(1),
                    _ => self.counts.tcp_tcc_write_req += halves.max(1),
                }
                // SAFETY: the caller's.
                unsafe { self.second_level::<WIDE>(line, sectors, access == Access::Atomic) };
            }
        }
    }

    /// A request at the L2; a miss that `fills` reads the line from the fabric (whole-sector writes need not).
    ///
    /// # Safety
    /// For `WIDE` the host has AVX-512 F.
    #[inline(always)]
    unsafe fn second_level<const WIDE: bool>(&mut self, line: u64, sectors: u8, fills: bool) {
        // The L2's lines are 128 bytes: of two 64-byte lines the second is the upper half.
        let (line, sectors) = match self.line_shift {
            6 => (line >> 1, sectors << (line % 2 * 2)),
            _ => (line, sectors),
        };
        self.counts.tcc_req += 1;
        // SAFETY: the caller's.
        let found = unsafe { self.l2.look::<WIDE>(0, line, sectors) };
        if fills && found != Look::Hit {
            self.footprint.read(line);
        }
        if sectors != 0 {
            self.footprint.write(line, sectors);
        }
        match found {
            Look::Hit => self.counts.tcc_hit += 1,
            Look::Miss { evicted } => {
                self.counts.tcc_miss += 1;
                if fills {
                    self.counts.tcc_ea_rdreq += 1;
                }
                if evicted != 0 {
                    write_back(&mut self.counts, evicted, 1);
                }
            }
        }
    }

    /// A scalar load of `bytes` at `address`.
    pub fn smem(&mut self, address: u64, bytes: u32) {
        self.counts.scalar_requests += 1;
        self.counts.scalar_bytes_read += u64::from(bytes);
        for line in address >> 6..=(address + u64::from(bytes.max(1)) - 1) >> 6 {
            // SAFETY: the plain form needs no features; the sets are small.
            unsafe {
                if self.scalar.look::<false>(self.cu / 2, line, 0) != Look::Hit {
                    self.counts.sqc_tc_data_read_req += 1;
                    let line = if self.line_shift == 6 { line } else { line >> 1 };
                    self.second_level::<false>(line, 0, true);
                }
            }
        }
    }

    /// An instruction that moves a dword of each lane of `exec` through the LDS without its memory.
    #[inline]
    pub(crate) fn crossed(&mut self, exec: u64) {
        self.counts.lds_port_cycles += CROSSBAR_CYCLES;
        self.counts.lds_bytes += u64::from(exec.count_ones()) * 4;
    }

    /// An LDS instruction: lane `i` of `exec` touches `bytes` at `addresses[i]`. Two-address forms call once for each.
    pub fn lds(&mut self, op: LdsOp, exec: u64, addresses: &[u32; 64], bytes: u32) {
        let use_ = self.banks.cost(op, exec, addresses, bytes);
        self.counts.lds_idx_active += use_.active;
        self.counts.lds_bank_conflict += use_.conflict;
        self.counts.lds_port_cycles += use_.port;
        self.counts.lds_bytes += u64::from(exec.count_ones()) * u64::from(bytes);
    }
}

/// Counts `lines` lines with the same dirty sectors that leave the L2: halves of 64 bytes go to the fabric one by one.
fn write_back(counts: &mut Counts, sectors: u8, lines: u64) {
    for half in [sectors & 3, sectors >> 2 & 3] {
        if half != 0 {
            counts.tcc_ea_wrreq += lines;
        }
        if half == 3 {
            counts.tcc_ea_wrreq_64b += lines;
        }
    }
}

/// Which 32-byte sectors of `line` the bytes at `address` touch.
#[inline]
fn sector_mask(address: u64, bytes: u64, line: u64, shift: u32) -> u8 {
    let (start, size) = (line << shift, 1_u64 << shift);
    let (low, high) = (address.max(start), (address + bytes).min(start + size));
    if low >= high {
        return 0;
    }
    let (first, last) = ((low - start) / 32, (high - 1 - start) / 32);
    // Lines have at most four sectors.
    ((2_u16 << last.min(7)) - (1 << first.min(7))) as u8 & 15
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(f: impl Fn(u64) -> u64) -> [u64; 64] {
        std::array::from_fn(|lane| f(lane as u64))
    }

    #[test]
    fn coalesced_and_divergent_loads_touch_the_lines_they_should() {
        let mut traffic = Traffic::new(Shape::CDNA3, 1);
        traffic.vmem(Access::Read, u64::MAX, &lanes(|lane| 0x1000 + lane * 4), 4);
        // 256 B are two lines of 128 B, and 16 accesses of four lanes.
        assert_eq!((traffic.counts.tcp_total_cache_accesses, traffic.counts.tcp_total_accesses), (2, 16));
        assert_eq!((traffic.counts.tcp_tcc_read_req, traffic.counts.tcc_miss), (2, 2));
        traffic.vmem(Access::Read, u64::MAX, &lanes(|lane| 0x10_0000 + lane * 4096), 4);
        assert_eq!((traffic.counts.tcp_total_cache_accesses, traffic.counts.tcp_total_accesses), (66, 80));
        assert_eq!(traffic.counts.vector_bytes_read, 512);
    }

    #[test]
    fn linear_and_general_agree() {
        for access in [Access::Read, Access::Write, Access::Atomic] {
            for bytes in [1, 2, 4, 8, 16] {
                for first in [0x1000, 0x1004, 0x107c] {
                    let mut fast = Traffic::new(Shape::CDNA3, 1);
                    let mut slow = Traffic::new(Shape::CDNA3, 1);
                    fast.vmem_linear(access, first, bytes);
                    slow.vmem(access, u64::MAX, &lanes(|lane| first + lane * u64::from(bytes)), bytes);
                    slow.counts.tcp_total_accesses = fast.counts.tcp_total_accesses;
                    assert_eq!(fast.counts, slow.counts, "{access} {bytes} {first:x}");
                }
            }
        }
    }

    #[test]
    fn stores_come_out_as_write_requests_of_their_sectors() {
        let mut traffic = Traffic::new(Shape::CDNA3, 1);
        traffic.vmem_linear(Access::Write, 0x1000, 16);
        assert_eq!(traffic.counts.tcp_tcc_write_req, 16);
        traffic.vmem(Access::Write, 1, &lanes(|_| 0x8000), 4);
        traffic.flush();
        // 1024 B are 16 whole writes of 64 B; the lone dword is one of 32 B.
        assert_eq!((traffic.counts.tcc_ea_wrreq, traffic.counts.tcc_ea_wrreq_64b), (17, 16));
        assert_eq!(traffic.counts.tcc_ea_rdreq, 0);
    }

    /// Lines of 64 bytes meet in L2 lines of 128: what is written comes out whole, in either half.
    #[test]
    fn stores_of_64_byte_lines_keep_their_half() {
        let mut traffic = Traffic::new(Shape::CDNA2, 1);
        traffic.vmem_linear(Access::Write, 0x1000, 16);
        traffic.flush();
        assert_eq!((traffic.counts.tcc_ea_wrreq, traffic.counts.tcc_ea_wrreq_64b), (16, 16));
        assert_eq!(traffic.distinct_bytes(), DistinctBytes { read: 0, written: 1024 });
    }

    #[test]
    fn a_second_read_hits_where_the_line_is() {
        let mut traffic = Traffic::new(Shape::CDNA3, 2);
        traffic.vmem_linear(Access::Read, 0x1000, 4);
        traffic.vmem_linear(Access::Read, 0x1000, 4);
        assert_eq!((traffic.counts.tcp_tcc_read_req, traffic.counts.tcc_hit), (2, 0));
        traffic.enter(1);
        traffic.vmem_linear(Access::Read, 0x1000, 4);
        assert_eq!((traffic.counts.tcp_tcc_read_req, traffic.counts.tcc_hit), (4, 2));
    }
}
