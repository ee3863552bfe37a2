//! Words that cover every opcode of GFX11.
#![allow(clippy::precedence)]

use super::Random;

/// Words of every encoding and opcode number, with random operands and modifiers; `rounds` of each.
pub fn words(random: &mut Random, rounds: u32) -> Vec<Vec<u32>> {
    let mut out = Vec::new();
    let mut put = |words: &[u64]| {
        out.push(words.iter().flat_map(|wide| [*wide as u32, (*wide >> 32) as u32]).collect());
    };
    for _ in 0..rounds {
        let r = &mut *random;
        scalar(&mut put, r);
        for op in 0..256u64 {
            vop(&mut put, r, |r, first| 0x7e00_0000 | r.vector() << 17 | op << 9 | first);
            vop(&mut put, r, |r, first| 0x7c00_0000 | op << 17 | r.vector() << 9 | first);
            if op < 62 {
                vop(&mut put, r, |r, first| op << 25 | r.vector() << 17 | r.vector() << 9 | first);
            }
        }
        for op in 0..0x400u64 {
            let dst = if r.once_in(2) { r.vector() } else { r.below(106) };
            vop3(&mut put, r, 0xd400_0000 | op << 16 | dst, 0);
        }
        for op in 0..128u64 {
            let high = u64::from(!r.once_in(3)) * (3 << 27);
            let first = 0xcc00_0000 | op << 16 | r.vector() | u64::from(!r.once_in(3)) << 14;
            vop3(&mut put, r, first, high);
            // Matrix operands are registers.
            let sources = (256 + r.vector()) | (256 + r.vector()) << 9;
            let c = if r.once_in(3) { 128 + r.below(81) } else { 256 + r.vector() };
            put(&[0xcc00_4000
                | op << 16
                | r.few(7) << 8
                | r.vector()
                | (sources | c << 18 | 3 << 27 | r.few(3) << 29) << 32]);
        }
        for op in 0..512u64 {
            let second = |r: &mut Random| if r.once_in(4) { 0 } else { r.vector() };
            let x = op << 17 | source(r) | second(r) << 9;
            let y = source(r) | second(r) << 9 | r.below(128) << 17 | r.vector() << 24;
            put(&[0xc800_0000 | x | y << 32, r.literal()]);
        }
        memory(&mut put, r);
    }
    out
}

/// As [`Random::scalar`], and M0, whose code differs from that of GFX9.
fn scalar_code(r: &mut Random) -> u64 {
    if r.once_in(12) { 125 } else { r.scalar() }
}

/// As [`Random::source`].
fn source(r: &mut Random) -> u64 {
    if r.once_in(30) { 125 } else { r.source() }
}

fn scalar(put: &mut impl FnMut(&[u64]), r: &mut Random) {
    for op in 0..128u64 {
        let low = scalar_code(r) | scalar_code(r) << 8;
        put(&[0x8000_0000 | op << 23 & 0x7f80_0000 | (scalar_code(r) & 127) << 16 | low | r.literal() << 32]);
        put(&[0xbf00_0000 | op << 16 | low | r.literal() << 32]);
        let small = r.below(2) * r.below(0x10000);
        put(&[0xbf80_0000 | op << 16 | small]);
        put(&[0xb000_0000 | (op & 31) << 23 | (scalar_code(r) & 127) << 16 | r.below(0x10000) | r.literal() << 32]);
    }
    for op in 0..256u64 {
        put(&[0xbe80_0000 | (scalar_code(r) & 127) << 16 | op << 8 | scalar_code(r) | r.literal() << 32]);
        let registers = (r.below(13) * 8) << 6 | r.pick(&[2, 4, 8, 51, 52, 53, 54, 62]);
        let offset = r.few(21) | r.pick(&[5, 7, 105, 106, 124, 124, 124, 125]) << 25;
        put(&[0xf400_0000 | op << 18 | r.few(2) << 13 | registers | offset << 32]);
    }
}

fn memory(put: &mut impl FnMut(&[u64]), r: &mut Random) {
    for op in 0..256u64 {
        let data = r.vector() | r.vector() << 8 | r.vector() << 16 | r.vector() << 24;
        let present = r.pick(&[0xffff_ffff, 0xff00_ffff, 0xff00_00ff, 0xffff, 0xff, 0xff_ffff, 0xff00_0000, 0xff00, 0]);
        let offset = if present == 0 && r.once_in(2) { 0 } else { r.few(16) };
        put(&[0xd800_0000 | op << 18 | offset | u64::from(r.once_in(3)) << 17 | (data & present) << 32]);
        let registers = r.vector() | r.vector() << 8 | r.below(32) << 16;
        let soffset = r.pick(&[0, 7, 106, 124, 125, 128, 129, 193, 240]) << 24;
        let modes = r.pick(&[0, 0, 1, 2, 3]) << 22 | u64::from(r.once_in(8)) << 21;
        let low = r.few(12) | r.few(3) << 12;
        put(&[0xe000_0000 | op << 18 | low | (registers | modes | soffset) << 32]);
        put(&[0xe800_0000 | (op & 15) << 15 | r.below(128) << 19 | low | (registers | modes | soffset) << 32]);
    }
    for op in 0..128u64 {
        for segment in 0..3u64 {
            let offset = r.few(12) | u64::from(segment != 0 && r.once_in(3)) << 12;
            let saddr = if segment == 0 { 124 } else { r.pick(&[124, 124, 4, 20, 105, 106]) };
            let has_vaddr = u64::from(segment == 1 && r.once_in(2));
            let registers = r.vector() | r.vector() << 8 | saddr << 16 | has_vaddr << 23 | r.vector() << 24;
            put(&[0xdc00_0000 | op << 18 | segment << 16 | r.few(3) << 13 | offset | registers << 32]);
        }
    }
}

/// A DPP word: register, control, flags, modifiers, masks.
fn dpp(r: &mut Random) -> u64 {
    let ctrl = match r.below(4) {
        0 => r.below(256),
        1 => 0x150 + r.below(32),
        2 => r.pick(&[0x101, 0x10f, 0x112, 0x11f, 0x121, 0x12f, 0x140, 0x141]),
        _ => r.pick(&[0x130, 0x138, 0x142, 0x143, 0x110, 0x16f]),
    };
    let masks = if r.once_in(2) { 0xff } else { r.below(256) };
    r.vector() | ctrl << 8 | r.below(4) << 18 | r.few(4) << 20 | masks << 24
}

/// A DPP8 word.
fn dpp8(r: &mut Random) -> u64 {
    r.vector() | r.below(1 << 24) << 8
}

/// A 32-bit vector word in its plain, DPP and DPP8 forms.
fn vop(put: &mut impl FnMut(&[u64]), r: &mut Random, word: impl Fn(&mut Random, u64) -> u64) {
    let first = source(r);
    put(&[word(r, first) & 0xffff_ffff | r.literal() << 32]);
    put(&[word(r, 0xfa) & 0xffff_ffff | dpp(r) << 32]);
    let code = r.pick(&[0xe9, 0xea]);
    put(&[word(r, code) & 0xffff_ffff | dpp8(r) << 32]);
}

/// VOP3 and VOP3P: plain, with a literal, DPP and DPP8.
fn vop3(put: &mut impl FnMut(&[u64]), r: &mut Random, first: u64, high: u64) {
    let present = r.pick(&[0x7ff_ffff, 0x7ff_ffff, 0x3_ffff, 0x1ff, 0]);
    let sources = source(r) | source(r) << 9 | source(r) << 18;
    put(&[first | r.few(8) << 8 | (sources & present | high | r.few(5) << 27) << 32, r.literal()]);
    let others = 256 + r.vector() | 256 + r.vector() << 9;
    let present = r.pick(&[0x3_ffff, 0x1ff, 0]);
    let (code, word) = match r.below(3) {
        0 => (0xe9, dpp8(r)),
        1 => (0xea, dpp8(r)),
        _ => (0xfa, dpp(r)),
    };
    put(&[first | r.few(8) << 8 | (code | (others & present) << 9 | high | r.few(5) << 27) << 32, word]);
}
