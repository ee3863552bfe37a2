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
/// neighbouring bytes of a word do not race. Atomics do not race with one another. A write that leaves a byte as it is does
/// not race: compilers let all waves that hold copies of one value store it.
#[derive(Debug, Default)]
pub struct Races {
    epoch: u32,
    bytes: Vec<Byte>,
    /// What the LDS held after the last access.
    contents: Vec<u8>,
}

impl Races {
    /// Nothing touched yet, in an LDS that holds this.
    pub(crate) fn new(lds: &[u8]) -> Self {
        Self { epoch: 1, bytes: vec![Byte::default(); lds.len()], contents: lds.to_vec() }
    }

    /// All waves have passed a barrier.
    pub(crate) fn barrier(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Notes an access of `bytes` a lane, which has left `lds` behind; gives the address of the first race, the other wave
    /// and the lane.
    pub(crate) fn touch(
        &mut self,
        wave: u32,
        op: LdsOp,
        exec: u64,
        at: &[u32; 64],
        bytes: u32,
        lds: &[u8],
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
                let place = address as usize;
                let same = self.contents.get(place) == lds.get(place);
                let others = !me
                    & match op {
                        LdsOp::Read => byte.writers | byte.atomics,
                        LdsOp::Write if same => 0,
                        LdsOp::Write => byte.writers | byte.atomics | byte.readers,
                        _ => byte.writers | byte.readers,
                    };
                if others != 0 {
                    return Some((address, others.trailing_zeros(), lane));
                }
                match op {
                    LdsOp::Read => byte.readers |= me,
                    LdsOp::Write if same => {}
                    LdsOp::Write => byte.writers |= me,
                    _ => byte.atomics |= me,
                }
                if let (Some(old), Some(new)) = (self.contents.get_mut(place), lds.get(place)) {
                    *old = *new;
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
        // Each write changes what is there.
        let lds: Vec<u8> = races.contents.iter().map(|byte| byte.wrapping_add(u8::from(op == LdsOp::Write))).collect();
        races.touch(wave, op, 1 << 5, &[address; 64], bytes, &lds)
    }

    #[test]
    fn a_byte_with_a_writer_belongs_to_one_wave_until_a_barrier() {
        let mut races = Races::new(&[0; 64]);
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
    fn copies_of_one_value_do_not_race() {
        let mut races = Races::new(&[0; 8]);
        let mut write = |wave, value| races.touch(wave, LdsOp::Write, 1, &[4; 64], 1, &[0, 0, 0, 0, value, 0, 0, 0]);
        assert_eq!((write(0, 7), write(1, 7), write(2, 8)), (None, None, Some((4, 0, 0))));
    }

    #[test]
    fn atomics_race_with_plain_accesses_alone() {
        let mut races = Races::new(&[0; 64]);
        assert_eq!(touch(&mut races, 0, LdsOp::Atomic, 0, 4), None);
        assert_eq!(touch(&mut races, 1, LdsOp::Atomic, 0, 4), None);
        assert_eq!(touch(&mut races, 1, LdsOp::Read, 0, 4), Some((0, 0, 5)));
        assert_eq!(touch(&mut races, 0, LdsOp::Crossbar, 0, 4), None);
    }
}
