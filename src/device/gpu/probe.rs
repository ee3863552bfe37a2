//! Kernels that run beside a timed launch (`kernels/probe`): stamps of the device's clocks, and forgetting cached instructions.

use crate::kernels;
use kbench_hip::{Buffer, Device, Dim3, Function, HipError, Stream};

/// Rate of the constant clock that `s_memrealtime` reads, MHz (CDNA 3 ISA, 7.4; the same on gfx90a and gfx950).
const CONSTANT_MHZ: f64 = 100.0;
/// Two clocks of 8 bytes.
const STAMP_BYTES: u64 = 16;
/// One wave a workgroup.
const BLOCK: Dim3 = Dim3::x(64);
/// Workgroups a CU that flush its instruction cache, so that the dispatcher leaves none out.
const FLUSHES_PER_CU: u32 = 8;

/// The probe kernels on a device.
pub(super) struct Probe {
    stamp: Function,
    flush: Function,
    /// Stamps of each XCD before and behind a launch.
    before: Buffer,
    behind: Buffer,
    xccs: u32,
    cus: u32,
}

impl Probe {
    /// Loads the program's probe kernels; `None` for a device that they were not built for: it is measured without them.
    pub(super) fn open(device: &Device, arch: &str, xccs: u32, cus: u32) -> Option<Self> {
        let library = kernels::builtin().ok()?;
        let (file, build) = library.builds().find(|(_, build)| build.name == "probe_stamp")?;
        let code = library.code(file, build, arch).ok()??;
        let module = device.load(&code.bytes).ok()?;
        let bytes = u64::from(xccs) * STAMP_BYTES;
        Some(Self {
            stamp: module.function("kb_probe_stamp").ok()?,
            flush: module.function("kb_probe_flush_icache").ok()?,
            before: device.alloc(bytes).ok()?,
            behind: device.alloc(bytes).ok()?,
            xccs,
            cus,
        })
    }

    /// Enqueues the stamp before a launch.
    pub(super) fn stamp_before(&self, stream: &Stream) -> Result<(), HipError> {
        self.stamp.launch(stream, Dim3::x(self.xccs), BLOCK, 0, &self.before.address().to_le_bytes())
    }

    /// Enqueues the stamp behind it.
    pub(super) fn stamp_behind(&self, stream: &Stream) -> Result<(), HipError> {
        self.stamp.launch(stream, Dim3::x(self.xccs), BLOCK, 0, &self.behind.address().to_le_bytes())
    }

    /// Enqueues a launch that forgets the instructions in every CU's cache.
    pub(super) fn flush_icache(&self, stream: &Stream) -> Result<(), HipError> {
        self.flush.launch(stream, Dim3::x(self.cus.saturating_mul(FLUSHES_PER_CU)), BLOCK, 0, &[])
    }

    /// The core clock between the last two stamps, MHz: the median over the XCDs.
    pub(super) fn clock_mhz(&self) -> Option<f64> {
        let mut stamps = [vec![0; self.before.len() as usize], vec![0; self.behind.len() as usize]];
        self.before.copy_to_host(&mut stamps[0]).ok()?;
        self.behind.copy_to_host(&mut stamps[1]).ok()?;
        clock_between(&stamps[0], &stamps[1])
    }
}

/// The core clock from stamps (core clock, constant clock; u64 each, one pair an XCD), MHz.
fn clock_between(before: &[u8], behind: &[u8]) -> Option<f64> {
    let word = |stamp: &[u8], at: usize| stamp.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let clock = |(before, behind): (&[u8], &[u8])| {
        let core = word(behind, 0)?.checked_sub(word(before, 0)?)?;
        let constant = word(behind, 8)?.checked_sub(word(before, 8)?)?;
        (core > 0 && constant > 0).then(|| core as f64 / constant as f64 * CONSTANT_MHZ)
    };
    let pairs = before.chunks_exact(STAMP_BYTES as usize).zip(behind.chunks_exact(STAMP_BYTES as usize));
    let mut clocks: Vec<f64> = pairs.filter_map(clock).collect();
    clocks.sort_by(f64::total_cmp);
    clocks.get(clocks.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(pairs: &[(u64, u64)]) -> Vec<u8> {
        pairs.iter().flat_map(|(core, constant)| [core.to_le_bytes(), constant.to_le_bytes()].concat()).collect()
    }

    #[test]
    fn the_clock_is_cycles_over_ticks() {
        // 21 000 core cycles in 1000 ticks of 10 ns are 2100 MHz.
        let before = stamps(&[(5, 100), (0, 100), (7, 100)]);
        let behind = stamps(&[(21_005, 1100), (20_000, 1100), (21_007, 1100)]);
        assert_eq!(clock_between(&before, &behind), Some(2100.0));
    }

    #[test]
    fn clocks_that_stood_still_or_ran_back_are_none() {
        assert_eq!(clock_between(&stamps(&[(5, 100)]), &stamps(&[(5, 100)])), None);
        assert_eq!(clock_between(&stamps(&[(5, 100)]), &stamps(&[(4, 200)])), None);
        assert_eq!(clock_between(&[], &[]), None);
    }
}
