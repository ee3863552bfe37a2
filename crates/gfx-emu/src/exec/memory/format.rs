//! Typed buffer data: component layouts and number formats.

use crate::exec::Vreg;
use crate::fault::FaultKind;
use crate::isa::Op;
use half::f16;

/// Where 16-bit components sit in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Half {
    /// Components are 32 bits.
    None,
    /// Two to a register, low half first.
    Packed,
    /// One, in the high half.
    High,
}

/// What a typed opcode moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Components {
    pub(super) count: u8,
    pub(super) half: Half,
    pub(super) store: bool,
}

/// The components of a typed opcode.
pub(super) fn components(op: Op) -> Option<Components> {
    let load = |count, half| Some(Components { count, half, store: false });
    let store = |count, half| Some(Components { count, half, store: true });
    match op {
        Op::BufferLoadFormatX | Op::TbufferLoadFormatX => load(1, Half::None),
        Op::BufferLoadFormatXy | Op::TbufferLoadFormatXy => load(2, Half::None),
        Op::BufferLoadFormatXyz | Op::TbufferLoadFormatXyz => load(3, Half::None),
        Op::BufferLoadFormatXyzw | Op::TbufferLoadFormatXyzw => load(4, Half::None),
        Op::BufferLoadFormatD16X | Op::TbufferLoadFormatD16X => load(1, Half::Packed),
        Op::BufferLoadFormatD16Xy | Op::TbufferLoadFormatD16Xy => load(2, Half::Packed),
        Op::BufferLoadFormatD16Xyz | Op::TbufferLoadFormatD16Xyz => load(3, Half::Packed),
        Op::BufferLoadFormatD16Xyzw | Op::TbufferLoadFormatD16Xyzw => load(4, Half::Packed),
        Op::BufferLoadFormatD16HiX => load(1, Half::High),
        Op::BufferStoreFormatX | Op::TbufferStoreFormatX => store(1, Half::None),
        Op::BufferStoreFormatXy | Op::TbufferStoreFormatXy => store(2, Half::None),
        Op::BufferStoreFormatXyz | Op::TbufferStoreFormatXyz => store(3, Half::None),
        Op::BufferStoreFormatXyzw | Op::TbufferStoreFormatXyzw => store(4, Half::None),
        Op::BufferStoreFormatD16X | Op::TbufferStoreFormatD16X => store(1, Half::Packed),
        Op::BufferStoreFormatD16Xy | Op::TbufferStoreFormatD16Xy => store(2, Half::Packed),
        Op::BufferStoreFormatD16Xyz | Op::TbufferStoreFormatD16Xyz => store(3, Half::Packed),
        Op::BufferStoreFormatD16Xyzw | Op::TbufferStoreFormatD16Xyzw => store(4, Half::Packed),
        Op::BufferStoreFormatD16HiX => store(1, Half::High),
        _ => None,
    }
}

/// Data and number format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) data: u8,
    pub(super) number: u8,
}

const UNORM: u8 = 0;
const SNORM: u8 = 1;
const USCALED: u8 = 2;
const SSCALED: u8 = 3;
const UINT: u8 = 4;
const SINT: u8 = 5;
const FLOAT: u8 = 7;

impl Format {
    /// Bits of each component, x first from the lowest bit (the formats' names start at the highest); empty for formats that these GPUs lack.
    fn widths(self) -> &'static [u32] {
        match self.data {
            1 => &[8],
            2 => &[16],
            3 => &[8, 8],
            4 => &[32],
            5 => &[16, 16],
            6 => &[11, 11, 10],
            7 => &[10, 11, 11],
            8 => &[2, 10, 10, 10],
            9 => &[10, 10, 10, 2],
            10 => &[8, 8, 8, 8],
            11 => &[32, 32],
            12 => &[16, 16, 16, 16],
            13 => &[32, 32, 32],
            14 => &[32, 32, 32, 32],
            _ => &[],
        }
    }

    /// Bytes of an element; `None` for unknown formats.
    pub(super) fn bytes(self) -> Option<u32> {
        let bits: u32 = self.widths().iter().sum();
        let known = matches!(self.number, UNORM..=SINT | FLOAT);
        (bits > 0 && known && (self.number != FLOAT || self.widths().iter().all(|bits| *bits != 8))).then_some(bits / 8)
    }

    pub(super) fn unknown(self) -> FaultKind {
        FaultKind::Unsupported(format!("buffer data format {} with number format {}", self.data, self.number))
    }

    fn is_integer(self) -> bool {
        matches!(self.number, UINT | SINT)
    }

    /// The constant 1 of a component select.
    pub(super) fn one(self) -> u32 {
        if self.is_integer() { 1 } else { 1.0_f32.to_bits() }
    }

    /// Components as 32-bit registers; absent ones are 0, w is 1.
    pub(super) fn unpack(self, raw: [u32; 4]) -> [u32; 4] {
        let mut out = [0, 0, 0, self.one()];
        let mut bit = 0;
        for (value, width) in out.iter_mut().zip(self.widths()) {
            let word = raw[(bit / 32) as usize] >> (bit % 32);
            let field = if *width == 32 { word } else { word & ((1 << width) - 1) };
            *value = self.decode(field, *width);
            bit += width;
        }
        out
    }

    fn decode(self, field: u32, width: u32) -> u32 {
        let signed = ((field << (32 - width)) as i32) >> (32 - width);
        let most = ((1_u64 << width) - 1) as f32;
        let most_signed = ((1_u64 << (width - 1)) - 1) as f32;
        match self.number {
            UNORM => (field as f32 / most).to_bits(),
            SNORM => (signed as f32 / most_signed).max(-1.0).to_bits(),
            USCALED => (field as f32).to_bits(),
            SSCALED => (signed as f32).to_bits(),
            SINT => signed as u32,
            FLOAT if width == 16 => f16::from_bits(field as u16).to_f32().to_bits(),
            FLOAT if width == 11 => f16::from_bits((field << 4) as u16).to_f32().to_bits(),
            FLOAT if width == 10 => f16::from_bits((field << 5) as u16).to_f32().to_bits(),
            _ => field,
        }
    }

    /// Components to memory.
    pub(super) fn pack(self, values: [u32; 4]) -> [u32; 4] {
        let mut out = [0; 4];
        let mut bit = 0;
        for (value, width) in values.iter().zip(self.widths()) {
            let field = self.encode(*value, *width);
            out[(bit / 32) as usize] |= field << (bit % 32);
            bit += width;
        }
        out
    }

    fn encode(self, value: u32, width: u32) -> u32 {
        let mask = if width == 32 { u32::MAX } else { (1 << width) - 1 };
        let float = f32::from_bits(value);
        let most = ((1_u64 << width) - 1) as f32;
        let most_signed = ((1_u64 << (width - 1)) - 1) as f32;
        let field = match self.number {
            UNORM => (float.clamp(0.0, 1.0) * most).round_ties_even() as u32,
            SNORM => (float.clamp(-1.0, 1.0) * most_signed).round_ties_even() as i32 as u32,
            USCALED => float.clamp(0.0, most) as u32,
            SSCALED => float.clamp(-most_signed - 1.0, most_signed) as i32 as u32,
            UINT => value.min(mask),
            SINT => {
                let low = -(1_i64 << (width - 1));
                i64::from(value as i32).clamp(low, -low - 1) as u32
            }
            FLOAT if width == 16 => u32::from(f16::from_f32(float).to_bits()),
            // The small floats have no sign: negative numbers are 0. They are cut, as their f16 form with fewer bits.
            FLOAT if width == 11 => u32::from(f16::from_f32(float.max(0.0)).to_bits() >> 4),
            FLOAT if width == 10 => u32::from(f16::from_f32(float.max(0.0)).to_bits() >> 5),
            _ => value,
        };
        field & mask
    }
}

/// Puts component `index` of a lane into registers.
///
/// # Safety
/// `to` is good for the components' registers.
pub(super) unsafe fn place(to: *mut Vreg, lane: usize, index: usize, value: u32, format: Format, half: u8) {
    let narrow =
        if format.is_integer() { value & 0xffff } else { u32::from(f16::from_f32(f32::from_bits(value)).to_bits()) };
    // SAFETY: the caller's.
    unsafe {
        match half {
            0 => (*to.add(index)).0[lane] = value,
            2 => (*to).0[lane] = narrow << 16,
            _ => {
                let word = &mut (*to.add(index / 2)).0[lane];
                *word = if index.is_multiple_of(2) { narrow } else { (*word & 0xffff) | narrow << 16 };
            }
        }
    }
}

/// Takes component `index` of a lane from registers, as 32 bits.
///
/// # Safety
/// As [`place`].
pub(super) unsafe fn take(from: *const Vreg, lane: usize, index: usize, format: Format, half: u8) -> u32 {
    // SAFETY: the caller's.
    let narrow = unsafe {
        match half {
            0 => return (*from.add(index)).0[lane],
            2 => (*from).0[lane] >> 16,
            _ => (*from.add(index / 2)).0[lane] >> (index % 2 * 16),
        }
    };
    match format.number {
        SINT => narrow as u16 as i16 as i32 as u32,
        UINT => narrow & 0xffff,
        _ => f16::from_bits(narrow as u16).to_f32().to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let bits = |values: [f32; 4]| values.map(f32::to_bits);
        let rgba8 = Format { data: 10, number: UNORM };
        assert_eq!(rgba8.pack(bits([0.0, 1.0, 0.5, 2.0]))[0], 0xff80_ff00);
        assert_eq!(rgba8.unpack([0xff00_00ff, 0, 0, 0]), bits([1.0, 0.0, 0.0, 1.0]));
        let signed = Format { data: 5, number: SINT };
        assert_eq!(signed.unpack([0xffff_0001, 0, 0, 0]), [1, u32::MAX, 0, 1]);
        assert_eq!(signed.pack([40000, 0x8000_0000, 0, 0])[0], 0x8000_7fff);
        let half = Format { data: 12, number: FLOAT };
        let values = bits([1.0, -2.0, 0.5, 65504.0]);
        assert_eq!(half.unpack(half.pack(values)), values);
        let small = Format { data: 6, number: FLOAT };
        assert_eq!(small.unpack(small.pack(bits([1.5, 2.0, 0.25, 0.0]))), bits([1.5, 2.0, 0.25, 1.0]));
    }
}
