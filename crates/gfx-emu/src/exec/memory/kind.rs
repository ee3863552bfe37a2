//! What a vector memory opcode does with the bytes of a lane.

use super::atomic::Atomic;
use crate::isa::Op;

/// How loaded bytes become registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Extend {
    /// Whole dwords, or zero-extended.
    Zero,
    /// A sign-extended byte.
    Sign8,
    /// A sign-extended half.
    Sign16,
    /// Into the low half of the register.
    Low,
    /// Into the high half.
    High,
    /// A sign-extended byte into the low half.
    LowSign8,
    /// A sign-extended byte into the high half.
    HighSign8,
}

impl Extend {
    pub(super) fn from_u8(value: u8) -> Self {
        match value {
            1 => Extend::Sign8,
            2 => Extend::Sign16,
            3 => Extend::Low,
            4 => Extend::High,
            5 => Extend::LowSign8,
            6 => Extend::HighSign8,
            _ => Extend::Zero,
        }
    }

    /// The register's new value. The other half of a 16-bit load becomes zero: these GPUs have SRAM with ECC, where such
    /// loads write the whole register.
    #[inline(always)]
    pub(super) fn apply(self, raw: u32) -> u32 {
        match self {
            Extend::Zero | Extend::Low => raw,
            Extend::Sign8 => raw as u8 as i8 as i32 as u32,
            Extend::Sign16 => raw as u16 as i16 as i32 as u32,
            Extend::High => raw << 16,
            Extend::LowSign8 => raw as u8 as i8 as i16 as u16 as u32,
            Extend::HighSign8 => (raw as u8 as i8 as i16 as u16 as u32) << 16,
        }
    }
}

/// What an opcode does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Loads `bytes` a lane.
    Load(u8, Extend),
    /// Stores `bytes` a lane; `true`: from the high half of the register.
    Store(u8, bool),
    /// Loads `bytes` a lane into LDS.
    ToLds(u8, Extend),
    /// Read-modify-write.
    Atomic(Atomic),
}

/// The kind of a FLAT, GLOBAL, SCRATCH or untyped buffer opcode.
pub(super) fn kind(op: Op) -> Option<Kind> {
    use self::Extend::{High, HighSign8, Low, LowSign8, Sign8, Sign16, Zero};
    use Kind::{Load, Store, ToLds};
    Some(match op {
        Op::FlatLoadUbyte | Op::BufferLoadUbyte => Load(1, Zero),
        Op::FlatLoadSbyte | Op::BufferLoadSbyte => Load(1, Sign8),
        Op::FlatLoadUshort | Op::BufferLoadUshort => Load(2, Zero),
        Op::FlatLoadSshort | Op::BufferLoadSshort => Load(2, Sign16),
        Op::FlatLoadDword | Op::BufferLoadDword => Load(4, Zero),
        Op::FlatLoadDwordx2 | Op::BufferLoadDwordx2 => Load(8, Zero),
        Op::FlatLoadDwordx3 | Op::BufferLoadDwordx3 => Load(12, Zero),
        Op::FlatLoadDwordx4 | Op::BufferLoadDwordx4 => Load(16, Zero),
        Op::FlatLoadUbyteD16 | Op::BufferLoadUbyteD16 => Load(1, Low),
        Op::FlatLoadUbyteD16Hi | Op::BufferLoadUbyteD16Hi => Load(1, High),
        Op::FlatLoadSbyteD16 | Op::BufferLoadSbyteD16 => Load(1, LowSign8),
        Op::FlatLoadSbyteD16Hi | Op::BufferLoadSbyteD16Hi => Load(1, HighSign8),
        Op::FlatLoadShortD16 | Op::BufferLoadShortD16 => Load(2, Low),
        Op::FlatLoadShortD16Hi | Op::BufferLoadShortD16Hi => Load(2, High),
        Op::FlatStoreByte | Op::BufferStoreByte => Store(1, false),
        Op::FlatStoreByteD16Hi | Op::BufferStoreByteD16Hi => Store(1, true),
        Op::FlatStoreShort | Op::BufferStoreShort => Store(2, false),
        Op::FlatStoreShortD16Hi | Op::BufferStoreShortD16Hi => Store(2, true),
        Op::FlatStoreDword | Op::BufferStoreDword => Store(4, false),
        Op::FlatStoreDwordx2 | Op::BufferStoreDwordx2 => Store(8, false),
        Op::FlatStoreDwordx3 | Op::BufferStoreDwordx3 => Store(12, false),
        Op::FlatStoreDwordx4 | Op::BufferStoreDwordx4 => Store(16, false),
        Op::FlatLoadLdsUbyte => ToLds(1, Zero),
        Op::FlatLoadLdsSbyte => ToLds(1, Sign8),
        Op::FlatLoadLdsUshort => ToLds(2, Zero),
        Op::FlatLoadLdsSshort => ToLds(2, Sign16),
        Op::FlatLoadLdsDword => ToLds(4, Zero),
        Op::FlatLoadLdsDwordx3 => ToLds(12, Zero),
        Op::FlatLoadLdsDwordx4 => ToLds(16, Zero),
        _ => return Atomic::of(op).map(Kind::Atomic),
    })
}
