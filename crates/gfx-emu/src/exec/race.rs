//! LDS races: two waves of a workgroup that touch one byte, at least one of them writing, without a barrier between.

use crate::traffic::LdsOp;

/// Who touched a byte since the last barrier: bit i is wave i.
#[derive(Clone, Copy, Debug, Default)]
struct Byte {
    /// The barrier count that the masks belong to.
    epoch: u32,
    readers: u16,
    writers: u16,
    atomics: u16,
}

/// The accesses of a workgroup to its LDS since its last barrier. Bytes are looked at, not words: waves that write
/// neighbouring bytes of a word do not race. Atomics do not race with one another.
#[derive(Debug, Default)]
pub struct Races {
    epoch: u32,
    bytes: Vec<Byte>,
}

impl Races {
    /// Nothing touched yet, in an LDS of `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { epoch: 1, bytes: vec![Byte::default(); bytes] }
    }

    /// All waves have passed a barrier.
    pub(crate) fn barrier(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Notes an access of `bytes` a lane; gives the address of the first race, the other wave and the lane.
    pub(crate) fn touch(
        &mut self,
        wave: u32,
        op: LdsOp,
        exec: u64,
        at: &[u32; 64],
        bytes: u32,
    ) -> Option<(u32, u32, u8)> {
        if op == LdsOp::Crossbar {
            return None;
        }
        let me = 1_u16 << (wave & 15);
        for lane in (0..64_u8).filter(|lane| exec >> lane & 1 == 1) {
            let first = at[usize::from(lane)];
            for address in first..first.saturating_add(bytes) {
                let Some(byte) = self.bytes.get_mut(address as usize) else { continue };
                if byte.epoch != self.epoch {
                    *byte = Byte { epoch: self.epoch, ..Byte::default() };
                }
                let others = !me
                    & match op {
                        LdsOp::Read => byte.writers | byte.atomics,
                        LdsOp::Write => byte.writers | byte.atomics | byte.readers,
                        _ => byte.writers | byte.readers,
                    };
                if others != 0 {
                    return Some((address, others.trailing_zeros(), lane));
                }
                match op {
                    LdsOp::Read => byte.readers |= me,
                    LdsOp::Write => byte.writers |= me,
                    _ => byte.atomics |= me,
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(races: &mut Races, wave: u32, op: LdsOp, address: u32, bytes: u32) -> Option<(u32, u32, u8)> {
        races.touch(wave, op, 1 << 5, &[address; 64], bytes)
    }

    #[test]
    fn a_byte_with_a_writer_belongs_to_one_wave_until_a_barrier() {
        let mut races = Races::new(64);
        assert_eq!(touch(&mut races, 0, LdsOp::Write, 8, 4), None);
        assert_eq!(touch(&mut races, 0, LdsOp::Read, 8, 4), None);
        assert_eq!(touch(&mut races, 3, LdsOp::Read, 4, 4), None);
        assert_eq!(touch(&mut races, 3, LdsOp::Read, 4, 8), Some((8, 0, 5)));
        races.barrier();
        assert_eq!(touch(&mut races, 3, LdsOp::Read, 8, 4), None);
        assert_eq!(touch(&mut races, 1, LdsOp::Read, 8, 4), None);
        assert_eq!(touch(&mut races, 2, LdsOp::Write, 11, 1), Some((11, 1, 5)));
    }

    #[test]
    fn atomics_race_with_plain_accesses_alone() {
        let mut races = Races::new(64);
        assert_eq!(touch(&mut races, 0, LdsOp::Atomic, 0, 4), None);
        assert_eq!(touch(&mut races, 1, LdsOp::Atomic, 0, 4), None);
        assert_eq!(touch(&mut races, 1, LdsOp::Read, 0, 4), Some((0, 0, 5)));
        assert_eq!(touch(&mut races, 0, LdsOp::Crossbar, 0, 4), None);
    }
}
