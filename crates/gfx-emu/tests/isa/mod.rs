//! What the tests of the instruction sets share: the LLVM tools, and words that cover every opcode.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::precedence)]

mod gfx11;

use std::io::Write;
use std::process::{Command, Stdio};

use kbench_gfx_emu::isa::Arch;

/// Whether a tool can be run; where it cannot, says that the test skips, and fails on CI.
pub fn has_tool(name: &str) -> bool {
    let found = Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{name} is required on CI");
        eprintln!("skipped: {name} is not on PATH");
    }
    found
}

/// Runs a tool on an input; its status, stdout and stderr.
pub fn run(command: &mut Command, input: &str) -> (bool, String, String) {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("ends");
    // A tool that crashes does not read to the end.
    let _ = writer.join().expect("no panic");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// A small deterministic generator (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// True once in `n`.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// An 8-bit scalar source: registers, special registers, every kind of constant, rarely a literal.
    fn scalar(&mut self) -> u64 {
        match self.below(8) {
            0..=3 => self.below(13) * 8,
            4 => self.pick(&[102, 104, 106, 108, 112, 124, 126]),
            5 => 128 + self.below(81),
            6 => 240 + self.below(9),
            _ => self.pick(&[235, 236, 237, 238, 251, 252, 253, 255, 255, 255]),
        }
    }

    /// A vector register that any group may start at, low and high ones.
    fn vector(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => 254,
            2 => 2 * self.below(128),
            3 => self.below(256),
            _ => 4 * self.below(56),
        }
    }

    /// A 9-bit vector ALU source.
    fn source(&mut self) -> u64 {
        match self.below(3) {
            0 => self.scalar(),
            _ => 256 + self.vector(),
        }
    }

    /// Modifier bits: mostly none or one.
    fn few(&mut self, width: u32) -> u64 {
        match self.below(4) {
            0 | 1 => 0,
            2 => 1 << self.below(u64::from(width)),
            _ => self.next() & ((1 << width) - 1),
        }
    }

    fn literal(&mut self) -> u64 {
        match self.below(4) {
            0 => self.pick(&[0, 1, 64, 65, 0xffff_ffff, 0xffff_fff0, 0x3f80_0000, 0xbf00_0000, 0x3c00, 0x3e22_f983]),
            _ => self.next() & 0xffff_ffff,
        }
    }
}

/// The bytes of words.
pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Words of every encoding and opcode number, with random operands and modifiers; `rounds` of each.
pub fn words(arch: Arch, random: &mut Random, rounds: u32) -> Vec<Vec<u32>> {
    if arch.is_gfx11() {
        return gfx11::words(random, rounds);
    }
    let mut out = Vec::new();
    let mut put = |words: &[u64]| {
        out.push(words.iter().flat_map(|wide| [*wide as u32, (*wide >> 32) as u32]).collect());
    };
    for _ in 0..rounds {
        let r = &mut *random;
        for op in 0..128u64 {
            let low = r.scalar() | r.scalar() << 8;
            put(&[0x8000_0000 | op << 23 & 0x7f80_0000 | (r.scalar() & 127) << 16 | low | r.literal() << 32]);
            put(&[0xbf00_0000 | op << 16 | low | r.literal() << 32]);
            let small = r.below(2) * r.below(0x10000);
            put(&[0xbf80_0000 | op << 16 | small]);
            put(&[0xb000_0000 | (op & 31) << 23 | (r.scalar() & 127) << 16 | r.below(0x10000) | r.literal() << 32]);
        }
        for op in 0..256u64 {
            put(&[0xbe80_0000 | (r.scalar() & 127) << 16 | op << 8 | r.scalar() | r.literal() << 32]);
            let registers = (r.below(13) * 8) << 6 | r.pick(&[2, 4, 8, 51, 53, 54]);
            let offset = r.few(21) | r.pick(&[5, 7, 106, 124]) << 25;
            put(&[0xc000_0000 | op << 18 | r.below(4) << 16 | r.below(2) << 14 | registers | offset << 32]);
            vop(&mut put, r, |r, first| 0x7e00_0000 | r.vector() << 17 | op << 9 | first);
            vop(&mut put, r, |r, first| 0x7c00_0000 | op << 17 | r.vector() << 9 | first);
            if op < 62 {
                vop(&mut put, r, |r, first| op << 25 | r.vector() << 17 | r.vector() << 9 | first);
            }
            let data = r.vector() | r.vector() << 8 | r.vector() << 16 | r.vector() << 24;
            let present =
                r.pick(&[0xffff_ffff, 0xff00_ffff, 0xff00_00ff, 0xffff, 0xff, 0xff_ffff, 0xff00_0000, 0xff00, 0]);
            let flags = r.few(16) | r.below(2) << 16 | u64::from(r.once_in(4)) << 25;
            let flags = if present == 0 && r.once_in(2) { 0 } else { flags };
            put(&[0xd800_0000 | op << 17 | flags | (data & present) << 32]);
        }
        for op in 0..0x380u64 {
            let sources = r.source() | r.source() << 9 | r.source() << 18;
            let sources = sources & r.pick(&[0x7ff_ffff, 0x3_ffff, 0x1ff]);
            let dst = if r.once_in(2) { r.vector() } else { r.below(13) * 8 };
            put(&[0xd000_0000 | op << 16 | r.few(8) << 8 | dst | (sources | r.few(5) << 27) << 32]);
        }
        for op in 0..128u64 {
            let sources = r.source() | r.source() << 9 | r.source() << 18;
            let sources = sources & r.pick(&[0x7ff_ffff, 0x3_ffff, 0x1ff]);
            let flags = r.few(8) << 8 | u64::from(!r.once_in(3)) << 14;
            let high = r.few(5) << 27 | u64::from(!r.once_in(3)) * (3 << 27);
            put(&[0xd380_0000 | op << 16 | flags | r.vector() | (sources | high) << 32]);
            // Matrix operands are registers.
            let sources = (256 + r.vector()) | (256 + r.vector()) << 9;
            let c = if r.once_in(3) { 128 + r.below(81) } else { 256 + r.vector() };
            let flags = u64::from(r.once_in(2)) << 15 | r.few(7) << 8;
            let word = 0xd380_0000 | op << 16 | flags | r.vector() | (sources | c << 18 | r.few(5) << 27) << 32;
            put(&[word]);
            let scales = 0xd3ac_0000 | r.below(4) << 11 | (0x100 + r.vector() | (0x100 + r.vector()) << 9) << 32;
            put(&[scales | r.below(4) << 59, word & !(15 << 11) | 1 << 11]);
            for segment in 0..3u64 {
                let flags = segment << 14 | u64::from(r.once_in(3)) << 25 | r.below(4) << 16;
                let offset = r.few(12) | u64::from(segment != 0 && r.once_in(3)) << 12 | u64::from(r.once_in(3)) << 13;
                let saddr = if segment == 0 { 0 } else { r.pick(&[0x7f, 0x7f, 4, 20, 106]) };
                let registers = r.vector() | r.vector() << 8 | saddr << 16 | r.below(2) << 23 | r.vector() << 24;
                put(&[0xdc00_0000 | op << 18 | flags | offset | registers << 32]);
            }
            let registers = r.vector() | r.vector() << 8 | r.below(24) << 16 | r.below(2) << 23;
            let soffset = r.pick(&[0, 7, 106, 124, 128, 129, 193, 240]) << 24;
            let modes = r.few(12) | r.below(4) << 12;
            let flags = r.few(4) << 14;
            put(&[0xe000_0000 | op << 18 | flags | modes | (registers | soffset) << 32]);
            let format = r.below(128) << 19;
            let cache = r.few(2) << 21;
            put(&[0xe800_0000
                | (op & 15) << 15
                | format
                | r.below(2) << 14
                | modes
                | (registers | cache | soffset) << 32]);
        }
    }
    out
}

/// A 32-bit vector word in its plain, SDWA and DPP forms.
fn vop(put: &mut impl FnMut(&[u64]), r: &mut Random, word: impl Fn(&mut Random, u64) -> u64) {
    let first = r.source();
    put(&[word(r, first) & 0xffff_ffff | r.literal() << 32]);
    let selects = r.below(7) << 8 | r.below(3) << 11 | r.below(7) << 16 | r.below(7) << 24;
    let selects = if r.once_in(2) { selects } else { selects & !0x1f07_0700 | 0x0006_0600 };
    let scalar = r.once_in(4);
    let source = if scalar { r.below(100) | 1 << 23 } else { r.vector() };
    let sdwa = selects | source | r.few(3) << 13 | r.few(3) << 19 | r.pick(&[0, 0, 1]) * (r.few(3) << 27);
    let sdwa = if r.once_in(3) { sdwa & 0x00ff_ffff } else { sdwa };
    put(&[word(r, 0xf9) & 0xffff_ffff | sdwa << 32]);
    let ctrl = match r.below(4) {
        // The only control of 64-bit operands.
        3 => 0x150 + r.below(16),
        0 => r.below(256),
        1 => r.pick(&[0x101, 0x10f, 0x112, 0x11f, 0x121, 0x12f, 0x150, 0x15f, 0x155]),
        _ => r.pick(&[0x130, 0x134, 0x138, 0x13c, 0x140, 0x141, 0x142, 0x143, 0x151]),
    };
    let masks = if r.once_in(2) { 0xff } else { r.below(256) };
    put(&[
        word(r, 0xfa) & 0xffff_ffff | (r.vector() | ctrl << 8 | r.below(2) << 19 | r.few(4) << 20 | masks << 24) << 32
    ]);
}
