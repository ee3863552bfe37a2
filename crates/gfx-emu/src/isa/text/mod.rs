//! The assembler's text of a decoded instruction, as LLVM's disassembler prints it.

mod formats;
mod imm;
mod memory;
mod vector;

use std::fmt::Write;

use super::inst::{Arch, Encoding, Inst, Operand, WaveSize};
use super::table::{Kind, OperandType, Row, table};

pub(super) use vector::is_dpp_ctrl;

impl Inst {
    /// The instruction as assembler text: mnemonic, operands, modifiers, without a comment.
    ///
    /// `arch` is the one it was decoded for: spellings differ between them.
    pub fn text(&self, arch: Arch) -> String {
        self.text_wave(arch, arch.wave_size())
    }

    /// The same for waves of a size, which the instruction was decoded for: masks are named by it (`vcc_lo`, `vcc`).
    pub fn text_wave(&self, arch: Arch, wave: WaveSize) -> String {
        let Some(row) = table().op(arch, self.op, self.enc) else {
            // An instruction that another arch decoded.
            return self.op.name().to_owned();
        };
        let mut out = Text { out: String::with_capacity(64), operands: 0, arch, wave };
        out.out.push_str(row.mnemonic);
        match self.enc {
            Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc => vector::vop12c(&mut out, self, row),
            Encoding::Vop3 | Encoding::Vop3b => vector::vop3(&mut out, self, row),
            Encoding::Vop3p => vector::vop3p(&mut out, self, row),
            Encoding::Vopd => vector::vopd(&mut out, self, row),
            Encoding::Mai | Encoding::MaiScale => vector::mai(&mut out, self, row),
            Encoding::Smem => memory::smem(&mut out, self, row),
            Encoding::Ds => memory::ds(&mut out, self, row),
            Encoding::Flat | Encoding::Global | Encoding::Scratch => memory::flat(&mut out, self, row),
            Encoding::Mubuf | Encoding::Mtbuf => memory::buffer(&mut out, self, row),
            Encoding::Sop1 | Encoding::Sop2 | Encoding::Sopk | Encoding::Sopc | Encoding::Sopp => {
                scalar(&mut out, self, row);
            }
        }
        out.out
    }
}

/// A line being written.
struct Text {
    out: String,
    operands: u32,
    arch: Arch,
    wave: WaveSize,
}

impl Text {
    /// Starts an operand: a space before the first, a comma before the others.
    fn next(&mut self) -> &mut String {
        self.out.push_str(if self.operands == 0 { " " } else { ", " });
        self.operands += 1;
        &mut self.out
    }

    /// An operand of the type.
    fn operand(&mut self, operand: Operand, kind: OperandType) {
        if operand != Operand::None {
            self.next();
            self.bare(operand, kind);
        }
    }

    /// An operand of the type, without what separates it from the one before.
    fn bare(&mut self, operand: Operand, kind: OperandType) {
        write_operand(&mut self.out, operand, kind, self.arch, self.wave);
    }

    /// A modifier: a space and the text.
    fn flag(&mut self, text: &str, is_set: bool) {
        if is_set {
            self.out.push(' ');
            self.out.push_str(text);
        }
    }

    /// A modifier with a value, left out where that is 0.
    fn value(&mut self, name: &str, value: impl Into<i64>) {
        let value = value.into();
        if value != 0 {
            self.push(format_args!(" {name}:{value}"));
        }
    }

    fn push(&mut self, text: std::fmt::Arguments) {
        // Writing to a string does not fail.
        let _ = self.out.write_fmt(text);
    }
}

fn scalar(out: &mut Text, inst: &Inst, row: &Row) {
    out.operand(inst.dst[0], row.dst[0]);
    for (operand, kind) in inst.src.into_iter().zip(row.src) {
        match (operand, kind) {
            (Operand::Imm(value), OperandType::Imm(meaning)) => imm::write(out, value, meaning, inst.enc),
            (Operand::Literal(value), OperandType::Literal) => {
                // Always there, so that its encoding need not be shown.
                let _ = write_literal(out.next(), value, Kind::B32, Arch::Gfx942);
            }
            (operand, kind) => out.operand(operand, kind),
        }
    }
}

fn write_operand(out: &mut String, operand: Operand, kind: OperandType, arch: Arch, wave: WaveSize) {
    let registers = kind.registers_in(wave);
    let _ = match operand {
        Operand::None => Ok(()),
        Operand::Scalar(code) => {
            write_scalar(out, code, registers, arch);
            Ok(())
        }
        Operand::Vgpr(first) => write_group(out, 'v', first, registers),
        Operand::Agpr(first) => write_group(out, 'a', first, registers),
        Operand::Inline(code) => {
            write_inline(out, code, constant_kind(kind, wave));
            Ok(())
        }
        Operand::Literal(value) if kind == OperandType::Literal => write!(out, "{value:#x}"),
        Operand::Literal(value) => write_literal(out, value, constant_kind(kind, wave), arch),
        Operand::Special(code) => {
            out.push_str(special(code));
            Ok(())
        }
        Operand::Imm(value) => write!(out, "{value}"),
        Operand::Off => {
            out.push_str("off");
            Ok(())
        }
    };
}

fn constant_kind(kind: OperandType, wave: WaveSize) -> Kind {
    match kind {
        // The assembler reads the accumulator of wave32 as 64-bit values, whatever they are.
        OperandType::WaveMatrixC(_) if wave == WaveSize::W32 => Kind::F64,
        OperandType::Source(kind) | OperandType::MatrixC(_, kind) => kind,
        OperandType::ScalarSource(2) => Kind::B64,
        _ => Kind::B32,
    }
}

/// `v5`, `v[4:7]`.
fn write_group(out: &mut String, file: char, first: u8, count: u8) -> std::fmt::Result {
    match count {
        0 | 1 => write!(out, "{file}{first}"),
        n => write!(out, "{file}[{first}:{}]", u32::from(first) + u32::from(n) - 1),
    }
}

fn write_scalar(out: &mut String, code: u8, count: u8, arch: Arch) {
    let named = match (code, count) {
        (102..=105, _) if arch.is_gfx11() => "",
        (102, 2) => "flat_scratch",
        (104, 2) => "xnack_mask",
        (106, 2) => "vcc",
        (126, 2) => "exec",
        (102, _) => "flat_scratch_lo",
        (103, _) => "flat_scratch_hi",
        (104, _) => "xnack_mask_lo",
        (105, _) => "xnack_mask_hi",
        (106, _) => "vcc_lo",
        (107, _) => "vcc_hi",
        (124, _) => "m0",
        (125, _) => "null",
        (126, _) => "exec_lo",
        (127, _) => "exec_hi",
        _ => "",
    };
    out.push_str(named);
    if named.is_empty() {
        let (file, first) = if code >= 108 { ("ttmp", code - 108) } else { ("s", code) };
        let _ = match count {
            0 | 1 => write!(out, "{file}{first}"),
            n => write!(out, "{file}[{first}:{}]", u32::from(first) + u32::from(n) - 1),
        };
    }
}

fn special(code: u8) -> &'static str {
    match code {
        235 => "src_shared_base",
        236 => "src_shared_limit",
        237 => "src_private_base",
        238 => "src_private_limit",
        239 => "src_pops_exiting_wave_id",
        251 => "src_vccz",
        252 => "src_execz",
        253 => "src_scc",
        _ => "src_lds_direct",
    }
}

/// An inline constant: integers -16..=64, and floats that print by the width of the operand.
fn write_inline(out: &mut String, code: u8, kind: Kind) {
    let _ = match code {
        0..=192 => write!(out, "{}", i32::from(code) - 128),
        193..=239 => write!(out, "{}", 192 - i32::from(code)),
        _ if kind == Kind::I16 => write!(out, "{:#x}", half_bits(code)),
        248 => {
            write!(out, "{}", if matches!(kind, Kind::B64 | Kind::F64) { "0.15915494309189532" } else { "0.15915494" })
        }
        _ => write!(out, "{}", FLOATS.get(usize::from(code) - 240).copied().unwrap_or_default()),
    };
}

const FLOATS: [&str; 8] = ["0.5", "-0.5", "1.0", "-1.0", "2.0", "-2.0", "4.0", "-4.0"];

/// A float constant as half-precision bits.
fn half_bits(code: u8) -> u16 {
    match code {
        248 => 0x3118,
        _ => 0x3800 + 0x400 * (u16::from(code - 240) / 2) + 0x8000 * u16::from(code & 1),
    }
}

/// A literal. One with the value of an inline constant prints like it on the targets that LLVM 19 knows, and as `lit()`,
/// which keeps its encoding, on gfx950.
fn write_literal(out: &mut String, value: u32, kind: Kind, arch: Arch) -> std::fmt::Result {
    let low = value as u16;
    let (small, float) = match kind {
        Kind::F16 => (Some(i32::from(low as i16)), float_code(u64::from(low), half_bits)),
        Kind::B64 => (i32::try_from(value).ok(), None),
        Kind::PairF16 => (Some(value as i32), float_code(u64::from(value), half_bits)),
        Kind::PairBf16 => (Some(value as i32), float_code(u64::from(value), brain_bits)),
        Kind::Bf16 => (Some(i32::from(low as i16)), float_code(u64::from(low), brain_bits)),
        // The literal is the high half: only 0 is a small integer.
        Kind::F64 => ((value == 0).then_some(0), float_code(u64::from(value) << 32, double_bits)),
        Kind::I16 | Kind::B32 | Kind::Pair32 => (Some(value as i32), float_code(u64::from(value), single_bits)),
    };
    let small = small.filter(|n| (-16..=64).contains(n));
    match (small, float) {
        (Some(_), _) | (_, Some(_)) if arch == Arch::Gfx950 && kind != Kind::F64 => write!(out, "lit({value:#x})"),
        (Some(n), _) => write!(out, "{n}"),
        (_, Some(code)) => {
            write_inline(out, code, if kind == Kind::I16 { Kind::B32 } else { kind });
            Ok(())
        }
        _ if matches!(kind, Kind::I16 | Kind::F16) => write!(out, "{low:#x}"),
        _ => write!(out, "{value:#x}"),
    }
}

/// The code of the float constant with these bits.
fn float_code<T: Into<u64>>(bits: u64, of: fn(u8) -> T) -> Option<u8> {
    (240..=248).find(|&code| of(code).into() == bits)
}

/// A float constant's value; 1/(2π) in double precision.
fn float_value(code: u8) -> f64 {
    match code {
        248 => std::f64::consts::FRAC_1_PI / 2.0,
        _ => f64::from(1u8 << ((code - 240) / 2)) / 2.0 * if code & 1 == 0 { 1.0 } else { -1.0 },
    }
}

/// The upper half of the single-precision bits.
fn brain_bits(code: u8) -> u16 {
    (single_bits(code) >> 16) as u16
}

fn single_bits(code: u8) -> u32 {
    (float_value(code) as f32).to_bits()
}

fn double_bits(code: u8) -> u64 {
    float_value(code).to_bits()
}
