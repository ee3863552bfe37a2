//! The opcode table: `opcodes.tsv` and `opcodes_gfx11.tsv`, parsed once.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::inst::{Arch, Encoding, WaveSize};
use super::op::{OPS, Op};

/// How the constants of a source are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// 16-bit integer: float constants appear by their bits, literals have 16 bits.
    I16,
    /// 16-bit float: literals have 16 bits.
    F16,
    /// 32 bits of any type.
    B32,
    /// 64-bit integer or untyped; a literal is its low half.
    B64,
    /// 64-bit float; a literal is its high half.
    F64,
    /// Two 32-bit values in a register pair; constants are 32-bit.
    Pair32,
    /// Two 16-bit floats; a literal is both.
    PairF16,
    /// Two bf16; a literal is both.
    PairBf16,
    /// One bf16.
    Bf16,
}

/// What may stand in one operand position, and how wide it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum OperandType {
    /// Nothing.
    #[default]
    None,
    /// So many vector registers (in vector memory and LDS: accumulation registers too).
    Vector(u8),
    /// One accumulation register.
    Accumulator,
    /// So many vector or accumulation registers (matrix A and B).
    Matrix(u8),
    /// So many vector or accumulation registers, or a constant of the kind (matrix C).
    MatrixC(u8, Kind),
    /// The low half of a vector register; the 32-bit encodings of GFX11 reach v0 to v127 alone.
    Half,
    /// So many vector registers in wave32, half of them in wave64.
    WaveVector(u8),
    /// The same, or a constant.
    WaveMatrixC(u8),
    /// VCC, or in VOP3 the scalar registers in its place.
    Vcc,
    /// EXEC, which is not in the text.
    Exec,
    /// A vector instruction's source: vector or scalar registers or a constant.
    Source(Kind),
    /// A scalar source or constant of so many registers.
    ScalarSource(u8),
    /// So many scalar registers, no constant.
    Scalar(u8),
    /// A scalar register or constant that selects a lane.
    Lane,
    /// A 32-bit literal that is always there.
    Literal,
    /// The LDS byte address: one vector register.
    Address,
    /// 16-bit immediates, by what they mean.
    Imm(Imm),
}

/// What a 16-bit immediate means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Imm {
    /// A number.
    Number,
    /// A branch distance in dwords.
    Target,
    /// A hardware register and a bit range.
    Hwreg,
    /// Counters of `s_waitcnt`.
    Waitcnt,
    /// A message.
    Message,
    /// Which operands are indexed.
    GprIndex,
    /// A number that is left out where it is 0.
    Optional,
    /// A number that is always hexadecimal.
    Hex,
    /// A hardware version.
    Version,
    /// Which instructions the next ones depend on.
    Delay,
    /// Counters of `s_waitcnt_depctr`.
    Depctr,
}

impl OperandType {
    /// The same for waves of a size: masks and the accumulators of WMMA depend on it.
    pub(super) fn registers_in(self, wave: WaveSize) -> u8 {
        match (self, wave) {
            (OperandType::Vcc | OperandType::Exec, _) => wave.mask_registers(),
            (OperandType::WaveVector(n) | OperandType::WaveMatrixC(n), WaveSize::W64) => n / 2,
            _ => self.registers(),
        }
    }

    /// Registers that the operand takes where it is a register.
    pub(super) fn registers(self) -> u8 {
        match self {
            OperandType::None | OperandType::Imm(_) | OperandType::Literal => 0,
            OperandType::Vector(n) | OperandType::Matrix(n) | OperandType::MatrixC(n, _) => n,
            OperandType::WaveVector(n) | OperandType::WaveMatrixC(n) => n,
            OperandType::ScalarSource(n) | OperandType::Scalar(n) => n,
            OperandType::Accumulator | OperandType::Lane | OperandType::Address | OperandType::Half => 1,
            OperandType::Vcc | OperandType::Exec => 2,
            OperandType::Source(Kind::B64 | Kind::F64 | Kind::Pair32) => 2,
            OperandType::Source(_) => 1,
        }
    }

    fn parse(token: &str) -> Option<Self> {
        let source = |kind| Some(OperandType::Source(kind));
        match token {
            "-" => return Some(OperandType::None),
            "b32" | "f32" => return source(Kind::B32),
            "b64" => return source(Kind::B64),
            "f64" => return source(Kind::F64),
            "i16" => return source(Kind::I16),
            "f16" => return source(Kind::F16),
            "p32" => return source(Kind::Pair32),
            "pf16" => return source(Kind::PairF16),
            "pbf16" => return source(Kind::PairBf16),
            "bf16" => return source(Kind::Bf16),
            "s32" => return Some(OperandType::ScalarSource(1)),
            "s64" => return Some(OperandType::ScalarSource(2)),
            "S32" => return Some(OperandType::Scalar(1)),
            "S64" => return Some(OperandType::Scalar(2)),
            "A1" => return Some(OperandType::Accumulator),
            "h1" => return Some(OperandType::Half),
            "l32" => return Some(OperandType::Lane),
            "vcc" => return Some(OperandType::Vcc),
            "exec" => return Some(OperandType::Exec),
            "K" | "lit" => return Some(OperandType::Literal),
            "addr" => return Some(OperandType::Address),
            "simm" => return Some(OperandType::Imm(Imm::Number)),
            "target" => return Some(OperandType::Imm(Imm::Target)),
            "hwreg" => return Some(OperandType::Imm(Imm::Hwreg)),
            "waitcnt" => return Some(OperandType::Imm(Imm::Waitcnt)),
            "msg" => return Some(OperandType::Imm(Imm::Message)),
            "gpridx" => return Some(OperandType::Imm(Imm::GprIndex)),
            "opt" => return Some(OperandType::Imm(Imm::Optional)),
            "hex" => return Some(OperandType::Imm(Imm::Hex)),
            "ver" => return Some(OperandType::Imm(Imm::Version)),
            "delay" => return Some(OperandType::Imm(Imm::Delay)),
            "depctr" => return Some(OperandType::Imm(Imm::Depctr)),
            _ => {}
        }
        let n = token.get(1..)?.parse().ok()?;
        match token.get(..1)? {
            "v" => Some(OperandType::Vector(n)),
            "W" => Some(OperandType::WaveVector(n)),
            "C" => Some(OperandType::WaveMatrixC(n)),
            "s" => Some(OperandType::Scalar(n)),
            "a" => Some(OperandType::Matrix(n)),
            "c" => Some(OperandType::MatrixC(n, Kind::B32)),
            "d" => Some(OperandType::MatrixC(n, Kind::F64)),
            _ => None,
        }
    }
}

/// Modifier bits of one form, at their places in the 64-bit instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Form {
    /// The mnemonic carries the form's suffix.
    pub(super) suffix: bool,
    /// Bits that must be 0.
    pub(super) zero: u64,
    /// Bits that must be 1.
    pub(super) one: u64,
    /// Bits that act.
    pub(super) live: u64,
}

impl Form {
    /// Whether a modifier bit acts.
    pub(super) fn acts(&self, bit: u32) -> bool {
        self.live >> bit & 1 != 0
    }

    fn parse(pattern: &str, places: &[&[u32]], suffix: bool) -> Option<Self> {
        let mut form = Form { suffix, ..Form::default() };
        let mut groups = pattern.split('.');
        for places in places {
            let group = groups.next()?;
            if group.len() != places.len() {
                return None;
            }
            for (c, &bit) in group.chars().zip(*places) {
                // The two-bit output modifier and the selects are given by their first bit.
                let field = match bit {
                    59 if places.len() == 1 => 3u64 << 59,
                    41 => 7 << 40,
                    43 => 3 << 43,
                    46 => 3 << 46,
                    _ => 1 << bit,
                };
                match c {
                    '0' => form.zero |= field,
                    '1' => {
                        form.one |= 6 << 40;
                        form.zero |= 1 << 40;
                    }
                    '-' => {}
                    _ => form.live |= field,
                }
            }
        }
        groups.next().is_none().then_some(form)
    }
}

const E64: &[&[u32]] = &[&[61, 62, 63], &[8, 9, 10], &[11, 12, 13, 14], &[15], &[59]];
const E64_SCALAR_DST: &[&[u32]] = &[&[61, 62, 63], &[15], &[59]];
const PACKED: &[&[u32]] = &[&[61, 62, 63], &[8, 9, 10], &[11, 12, 13], &[59, 60, 14], &[15]];
const SDWA: &[&[u32]] = &[&[41, 43, 45, 46], &[51, 52, 53], &[59, 60, 61]];
const DPP: &[&[u32]] = &[&[52, 53], &[54, 55]];

/// Flags of memory rows; see the head of `opcodes.tsv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct MemFlags {
    pub(super) off2: bool,
    pub(super) nooff: bool,
    pub(super) gws: bool,
    pub(super) nogds: bool,
    pub(super) noacc: bool,
    pub(super) lds: bool,
    pub(super) sve: bool,
    pub(super) noscc: bool,
    pub(super) atomic: bool,
    pub(super) glc: bool,
    pub(super) noaddr: bool,
    pub(super) tfe: bool,
    pub(super) zero: u32,
}

/// One row of the table.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) enc: Encoding,
    pub(super) opcode: u16,
    archs: u8,
    pub(super) op: Op,
    pub(super) mnemonic: &'static str,
    pub(super) dst: [OperandType; 2],
    pub(super) src: [OperandType; 4],
    /// The 32-bit form carries `_e32`.
    pub(super) e32_suffix: bool,
    pub(super) e64: Option<Form>,
    pub(super) sdwa: Option<Form>,
    pub(super) dpp: Option<Form>,
    /// VOP3 and VOP3P have DPP forms.
    pub(super) e64_dpp: bool,
    pub(super) mem: MemFlags,
}

impl Row {
    pub(super) fn has(&self, arch: Arch) -> bool {
        self.archs & bit(arch) != 0
    }

    /// Whether the first source has 16 bits.
    pub(super) fn is_half(&self) -> bool {
        matches!(self.src[0], OperandType::Source(Kind::F16 | Kind::I16))
    }

    /// Parses a line that is no comment.
    fn parse(line: &'static str, ops: &HashMap<&str, Op>) -> Option<Row> {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        let enc = match next()? {
            "SOP1" => Encoding::Sop1,
            "SOP2" => Encoding::Sop2,
            "SOPK" => Encoding::Sopk,
            "SOPC" => Encoding::Sopc,
            "SOPP" => Encoding::Sopp,
            "SMEM" => Encoding::Smem,
            "VOP1" => Encoding::Vop1,
            "VOP2" => Encoding::Vop2,
            "VOPC" => Encoding::Vopc,
            "VOP3" => Encoding::Vop3,
            "VOP3P" => Encoding::Vop3p,
            "VOPD" => Encoding::Vopd,
            "MAI" => Encoding::Mai,
            "MAISCALE" => Encoding::MaiScale,
            "DS" => Encoding::Ds,
            "FLAT" => Encoding::Flat,
            "GLOBAL" => Encoding::Global,
            "SCRATCH" => Encoding::Scratch,
            "MUBUF" => Encoding::Mubuf,
            "MTBUF" => Encoding::Mtbuf,
            _ => return None,
        };
        let opcode = next()?.parse().ok()?;
        let archs = match next()? {
            "*" => 7,
            list => list.split('+').try_fold(0, |bits, name| {
                let arch = [("90a", Arch::Gfx90a), ("942", Arch::Gfx942), ("950", Arch::Gfx950), ("11", Arch::Gfx1100)];
                arch.iter().find(|(n, _)| *n == name).map(|(_, a)| bits | bit(*a))
            })?,
        };
        let mnemonic = next()?;
        let canonical = match next()? {
            "=" => mnemonic.to_owned(),
            other => other.to_owned(),
        };
        let canonical = match canonical.strip_prefix("global_").or(canonical.strip_prefix("scratch_")) {
            Some(rest) => format!("flat_{rest}"),
            None => canonical,
        };
        let op = *ops.get(canonical.as_str())?;
        let dst = operands(next()?)?;
        let src = operands(next()?)?;
        let mut row = Row {
            enc,
            opcode,
            archs,
            op,
            mnemonic,
            dst,
            src,
            e32_suffix: false,
            e64: None,
            sdwa: None,
            dpp: None,
            e64_dpp: false,
            mem: MemFlags::default(),
        };
        for form in next()?.split(' ') {
            row.parse_form(form)?;
        }
        next().is_none().then_some(row)
    }

    fn parse_form(&mut self, form: &str) -> Option<()> {
        let e64 = if self.dst[1] == OperandType::None { E64 } else { E64_SCALAR_DST };
        match form.split_once('=') {
            Some(("e64", pattern)) => self.e64 = Some(Form::parse(pattern, e64, true)?),
            Some(("e64plain", pattern)) => self.e64 = Some(Form::parse(pattern, e64, false)?),
            Some(("sdwa", pattern)) => self.sdwa = Some(Form::parse(pattern, SDWA, true)?),
            Some(("dpp", pattern)) => self.dpp = Some(Form::parse(pattern, DPP, true)?),
            Some(("p", pattern)) => self.e64 = Some(Form::parse(pattern, PACKED, false)?),
            Some(("zero", bits)) => self.mem.zero = u32::from_str_radix(bits, 16).ok()?,
            Some(_) => return None,
            None => match form {
                "-" | "plain" => {}
                "e32" => self.e32_suffix = true,
                "e64dpp" => self.e64_dpp = true,
                "off2" => self.mem.off2 = true,
                "nooff" => self.mem.nooff = true,
                "gws" => self.mem.gws = true,
                "nogds" => self.mem.nogds = true,
                "noacc" => self.mem.noacc = true,
                "lds" => self.mem.lds = true,
                "sve" => self.mem.sve = true,
                "noscc" => self.mem.noscc = true,
                "atomic" => self.mem.atomic = true,
                "glc" => self.mem.glc = true,
                "noaddr" => self.mem.noaddr = true,
                "tfe" => self.mem.tfe = true,
                _ => return None,
            },
        }
        Some(())
    }
}

fn operands<const N: usize>(list: &str) -> Option<[OperandType; N]> {
    let mut types = [OperandType::None; N];
    for (i, token) in list.split(',').enumerate() {
        *types.get_mut(i)? = OperandType::parse(token)?;
    }
    Some(types)
}

fn bit(arch: Arch) -> u8 {
    1 << arch as u8
}

/// Encodings with an opcode space of their own, as indices.
#[derive(Clone, Copy)]
pub(super) enum Space {
    Sop1,
    Sop2,
    Sopk,
    Sopc,
    Sopp,
    Smem,
    Vop1,
    Vop2,
    Vopc,
    Vop3,
    Vop3p,
    Vopd,
    MaiScale,
    Ds,
    Flat,
    Global,
    Scratch,
    Mubuf,
    Mtbuf,
}

const SPACES: usize = Space::Mtbuf as usize + 1;
const ARCHS: usize = Arch::ALL.len();
const SEGMENTS: usize = 4;
const NO_ROW: u16 = u16::MAX;

/// The rows, by opcode and by operation.
pub(super) struct Table {
    rows: Vec<Row>,
    /// `[arch][space][opcode]`: row.
    by_opcode: [[Vec<u16>; SPACES]; ARCHS],
    /// `[arch][segment][op]`: row. Segment 1 is GLOBAL, 2 SCRATCH, 3 halves of VOPD, 0 everything else.
    by_op: [[Vec<u16>; SEGMENTS]; ARCHS],
}

impl Table {
    fn parse(texts: [&'static str; 2]) -> Table {
        let lines = texts.into_iter().flat_map(str::lines).filter(|line| !line.starts_with('#') && !line.is_empty());
        let ops = OPS.iter().map(|op| (op.name(), *op)).collect();
        // A row that does not parse would be left out; a test holds that there is none.
        let rows: Vec<Row> = lines.filter_map(|line| Row::parse(line, &ops)).collect();
        let mut by_opcode: [[Vec<u16>; SPACES]; ARCHS] = Default::default();
        let mut by_op: [[Vec<u16>; SEGMENTS]; ARCHS] = Default::default();
        for arch in Arch::ALL {
            for (id, row) in rows.iter().enumerate().filter(|(_, row)| row.has(arch)) {
                let id = id as u16;
                let spaces = &mut by_opcode[arch as usize];
                let mut put = |space: Space, opcode: u16| set(&mut spaces[space as usize], opcode, id);
                put(space_of(row.enc), row.opcode);
                if row.e64.is_some() {
                    match row.enc {
                        Encoding::Vopc => put(Space::Vop3, row.opcode),
                        Encoding::Vop2 => put(Space::Vop3, row.opcode + 0x100),
                        Encoding::Vop1 => put(Space::Vop3, row.opcode + if arch.is_gfx11() { 0x180 } else { 0x140 }),
                        _ => {}
                    }
                }
                set(&mut by_op[arch as usize][segment(row.enc)], row.op as u16, id);
            }
        }
        Table { rows, by_opcode, by_op }
    }

    /// The row of an opcode of an arch.
    pub(super) fn opcode(&self, arch: Arch, space: Space, opcode: u32) -> Option<&Row> {
        let id = self.by_opcode[arch as usize][space as usize].get(opcode as usize)?;
        self.rows.get(usize::from(*id))
    }

    /// The row of an operation of an arch in an encoding.
    pub(super) fn op(&self, arch: Arch, op: Op, enc: Encoding) -> Option<&Row> {
        let id = self.by_op[arch as usize][segment(enc)].get(op as usize)?;
        self.rows.get(usize::from(*id))
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }
}

fn set(list: &mut Vec<u16>, at: u16, id: u16) {
    let at = usize::from(at);
    if list.len() <= at {
        list.resize(at + 1, NO_ROW);
    }
    list[at] = id;
}

fn segment(enc: Encoding) -> usize {
    match enc {
        Encoding::Global => 1,
        Encoding::Scratch => 2,
        Encoding::Vopd => 3,
        _ => 0,
    }
}

fn space_of(enc: Encoding) -> Space {
    match enc {
        Encoding::Sop1 => Space::Sop1,
        Encoding::Sop2 => Space::Sop2,
        Encoding::Sopk => Space::Sopk,
        Encoding::Sopc => Space::Sopc,
        Encoding::Sopp => Space::Sopp,
        Encoding::Smem => Space::Smem,
        Encoding::Vop1 => Space::Vop1,
        Encoding::Vop2 => Space::Vop2,
        Encoding::Vopc => Space::Vopc,
        Encoding::Vop3 | Encoding::Vop3b => Space::Vop3,
        Encoding::Vop3p | Encoding::Mai => Space::Vop3p,
        Encoding::Vopd => Space::Vopd,
        Encoding::MaiScale => Space::MaiScale,
        Encoding::Ds => Space::Ds,
        Encoding::Flat => Space::Flat,
        Encoding::Global => Space::Global,
        Encoding::Scratch => Space::Scratch,
        Encoding::Mubuf => Space::Mubuf,
        Encoding::Mtbuf => Space::Mtbuf,
    }
}

const TEXTS: [&str; 2] = [include_str!("opcodes.tsv"), include_str!("opcodes_gfx11.tsv")];
static TABLE: LazyLock<Table> = LazyLock::new(|| Table::parse(TEXTS));

/// The opcode table.
pub(super) fn table() -> &'static Table {
    &TABLE
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_row_parses_and_is_the_only_one_of_its_opcode() {
        let lines: Vec<_> = TEXTS.into_iter().flat_map(str::lines).filter(|line| !line.starts_with('#')).collect();
        let ops = OPS.iter().map(|op| (op.name(), *op)).collect();
        for line in &lines {
            assert!(Row::parse(line, &ops).is_some(), "{line}");
        }
        assert_eq!(table().rows().len(), lines.len());
        for arch in Arch::ALL {
            for row in table().rows().iter().filter(|row| row.has(arch)) {
                let found = table().opcode(arch, space_of(row.enc), row.opcode.into()).unwrap();
                assert!(std::ptr::eq(found, row), "{arch:?}: {} and {}", row.mnemonic, found.mnemonic);
                let found = table().op(arch, row.op, row.enc).unwrap();
                assert!(std::ptr::eq(found, row), "{arch:?}: {} and {}", row.mnemonic, found.mnemonic);
            }
        }
    }

    #[test]
    fn every_operation_has_a_row() {
        for op in OPS {
            assert!(table().rows().iter().any(|row| row.op == op), "{op:?}");
        }
    }
}
