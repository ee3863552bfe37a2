//! gpr-index mode: vector register numbers that are offset by M0.

use crate::exec::Wave;

/// Offsets that gpr-index mode adds to vector register numbers.
#[derive(Clone, Copy)]
pub(super) struct Index {
    offset: usize,
    enabled: u32,
}

/// The destination's bit among the enables.
pub(super) const DESTINATION: usize = 3;

impl Index {
    pub(super) fn of(wave: &Wave) -> Self {
        if wave.mode.gpr_idx() {
            let m0 = wave.m0();
            Self { offset: (m0 & 0xff) as usize, enabled: (m0 >> 12) & 15 }
        } else {
            Self { offset: 0, enabled: 0 }
        }
    }

    /// True when the wave has all registers of the destination, `count` from `number` on. An instruction for which it has not
    /// writes nothing at all: neither the registers that are there nor a scalar result.
    #[inline(always)]
    pub(super) fn reaches(self, wave: &Wave, number: u16, count: u16) -> bool {
        self.register(wave, number + count.max(1) - 1, DESTINATION).is_some()
    }

    /// The register that operand `which` (0..3 sources, [`DESTINATION`]) names; `None` beyond the wave's registers.
    pub(super) fn register(self, wave: &Wave, number: u16, which: usize) -> Option<usize> {
        let offset = if self.enabled & (1 << which) != 0 { self.offset } else { 0 };
        let register = usize::from(number) + offset;
        (register < wave.vgpr.len()).then_some(register)
    }
}
