//! The model files as they are read, and what is made of them.

use super::banks;
use super::matrix::{MatrixInput, MatrixOp};
use crate::isa::{Arch, Class, Op};
use crate::traffic::LdsBanks;
use serde::Deserialize;
use std::collections::HashMap;

/// A figure and where it comes from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure<T> {
    /// The figure, in the unit that its name says.
    pub value: T,
    /// The document that has it, or how it was chosen.
    pub source: String,
}

/// A cache.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheFigures {
    /// Size.
    pub bytes: Figure<u32>,
    /// Line.
    pub line_bytes: Figure<u32>,
    /// Ways of a set.
    pub ways: Figure<u32>,
}

/// What units can do in a clock.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// Scalar ALU and scalar memory instructions that a CU issues in a clock.
    pub salu_per_clock_per_cu: Figure<f64>,
    /// Branches that a CU issues in a clock.
    pub branches_per_clock_per_cu: Figure<f64>,
    /// Clocks between two instructions of one wave.
    pub wave_issue_clocks: Figure<f64>,
    /// Waves that a shader engine can start in a clock.
    pub waves_launched_per_clock_per_se: Figure<f64>,
    /// Ports of a CU's LDS that work at the same time.
    pub lds_ports_per_cu: Figure<f64>,
    /// Bytes that one of them moves in a clock.
    pub lds_bytes_per_clock_per_port: Figure<f64>,
    /// Bytes that a vector L1 hands to its CU in a clock.
    pub l1_bytes_per_clock_per_cu: Figure<f64>,
    /// Lines that a vector L1 looks up in a clock.
    pub l1_lines_per_clock_per_cu: Figure<f64>,
    /// Write and atomic requests of up to 64 bytes that a vector L1 passes on in a clock.
    pub l1_write_requests_per_clock_per_cu: Figure<f64>,
    /// Channels of an XCD's L2.
    pub l2_channels_per_xcd: Figure<f64>,
    /// Bytes that a channel delivers in a clock.
    pub l2_read_bytes_per_clock_per_channel: Figure<f64>,
    /// Bytes that a channel takes in a clock.
    pub l2_write_bytes_per_clock_per_channel: Figure<f64>,
    /// Bytes that the fabric brings to an XCD in a clock.
    pub fabric_read_bytes_per_clock_per_xcd: Option<Figure<f64>>,
    /// Bytes that the fabric takes from an XCD in a clock.
    pub fabric_write_bytes_per_clock_per_xcd: Option<Figure<f64>>,
}

/// Quad-cycles (4 clocks) for which a vector ALU instruction of a wave holds its SIMD.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValuQuads {
    /// Everything that is not below: f64 too, and packed f32 with two results a lane.
    pub full: Figure<f64>,
    /// exp, log, rcp, rsq, sqrt, sin and cos of f16 and f32.
    pub transcendental: Figure<f64>,
    /// rcp, rsq and sqrt of f64.
    pub transcendental_f64: Figure<f64>,
    /// Conversions.
    pub convert: Figure<f64>,
    /// 32-bit integer products (`v_mul_lo_u32`, `v_mul_hi_u32`, `v_mad_u64_u32` and kin).
    pub multiply_32: Figure<f64>,
}

/// Peak FLOP a clock and CU; a fused multiply-add is two. Matrix figures are dense.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlopRates {
    /// Vector f64.
    pub vector_f64: Option<Figure<f64>>,
    /// Vector f32 without packed instructions.
    pub vector_f32: Option<Figure<f64>>,
    /// Vector f32 with them.
    pub vector_f32_packed: Option<Figure<f64>>,
    /// Vector f16, packed.
    pub vector_f16_packed: Option<Figure<f64>>,
    /// Matrix f64.
    pub matrix_f64: Option<Figure<f64>>,
    /// Matrix f32.
    pub matrix_f32: Option<Figure<f64>>,
    /// Matrix xf32.
    pub matrix_xf32: Option<Figure<f64>>,
    /// Matrix f16.
    pub matrix_f16: Option<Figure<f64>>,
    /// Matrix bf16.
    pub matrix_bf16: Option<Figure<f64>>,
    /// Matrix i8 (operations).
    pub matrix_i8: Option<Figure<f64>>,
    /// Matrix fp8 and bf8.
    pub matrix_f8: Option<Figure<f64>>,
    /// Matrix fp6, bf6 and fp4.
    pub matrix_f6f4: Option<Figure<f64>>,
}

impl FlopRates {
    /// The matrix rate of an input type.
    pub fn matrix(&self, input: MatrixInput) -> Option<f64> {
        let figure = match input {
            MatrixInput::F64 => &self.matrix_f64,
            MatrixInput::F32 => &self.matrix_f32,
            MatrixInput::Xf32 => &self.matrix_xf32,
            MatrixInput::F16 => &self.matrix_f16,
            MatrixInput::Bf16 => &self.matrix_bf16,
            MatrixInput::I8 => &self.matrix_i8,
            MatrixInput::F8 => &self.matrix_f8,
            MatrixInput::F6f4 => &self.matrix_f6f4,
        };
        figure.as_ref().map(|figure| figure.value)
    }
}

/// How matrix instructions and the vector ALU share a SIMD.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixFigures {
    /// Clocks of the vector ALU's issue that a dense matrix instruction takes.
    pub valu_slot_clocks: Figure<f64>,
    /// The same of a sparse one.
    pub valu_slot_clocks_sparse: Figure<f64>,
    /// Input types during whose matrix instructions the vector ALU of the SIMD stands still.
    pub without_valu: Figure<Vec<MatrixInput>>,
    /// Where the cycles of each matrix instruction come from.
    pub cycles_source: String,
}

/// Clocks of one matrix instruction on one SIMD.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatrixCost {
    /// Clocks until the next independent one can start.
    pub cycles: u32,
    /// The same of an `f8f6f4` instruction one of whose operands is f8.
    pub f8_cycles: Option<u32>,
}

/// Clocks of every matrix instruction that the instruction set has.
#[derive(Clone, Debug, Default)]
pub struct MatrixCosts(HashMap<Op, MatrixCost>);

impl MatrixCosts {
    /// The clocks of an instruction; `None` when the instruction set lacks it.
    pub fn cycles(&self, op: Op, input: MatrixInput) -> Option<u32> {
        let cost = self.0.get(&op)?;
        Some(if input == MatrixInput::F8 { cost.f8_cycles.unwrap_or(cost.cycles) } else { cost.cycles })
    }
}

/// What every device of an instruction set has.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Instruction set.
    pub arch: Arch,
    /// Shader engines of an XCD.
    pub shader_engines_per_xcd: Figure<u32>,
    /// SIMDs of a CU.
    pub simds_per_cu: Figure<u32>,
    /// Places for waves of a SIMD.
    pub waves_per_simd: Figure<u32>,
    /// LDS of a CU.
    pub lds_bytes_per_cu: Figure<u32>,
    /// How its banks are organised.
    pub lds_banks: LdsBanks,
    /// Vector L1 of a CU.
    pub l1: CacheFigures,
    /// Scalar data cache of two CUs.
    pub scalar_cache: CacheFigures,
    /// L2 of an XCD.
    pub l2: CacheFigures,
    /// What units can do in a clock.
    pub rates: Rates,
    /// Vector ALU.
    pub valu_quads: ValuQuads,
    /// Peaks.
    pub flops_per_clock_per_cu: FlopRates,
    /// Matrix cores beside the vector ALU.
    pub matrix: MatrixFigures,
    /// Matrix cores.
    pub matrix_cycles: MatrixCosts,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArchFile {
    arch: String,
    shader_engines_per_xcd: Figure<u32>,
    simds_per_cu: Figure<u32>,
    waves_per_simd: Figure<u32>,
    lds_bytes_per_cu: Figure<u32>,
    lds_banks: String,
    l1: CacheFigures,
    scalar_cache: CacheFigures,
    l2: CacheFigures,
    rates: Rates,
    valu_quads: ValuQuads,
    flops_per_clock_per_cu: FlopRates,
    matrix: MatrixFigures,
    matrix_cycles: Vec<MatrixGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MatrixGroup {
    cycles: u32,
    f8_cycles: Option<u32>,
    operations: Vec<String>,
}

impl Machine {
    pub(super) fn from_file(arch: Arch, file: ArchFile) -> Result<Self, String> {
        if file.arch != arch.name() {
            return Err(format!("it says it is for {}", file.arch));
        }
        let mut costs = HashMap::new();
        for group in file.matrix_cycles {
            for name in group.operations {
                let op = Op::from_name(&name).filter(|op| op.class() == Class::Mfma && op.is_on(arch));
                let op = op.ok_or_else(|| format!("{} has no matrix instruction `{name}`", arch.name()))?;
                if MatrixOp::of(op).is_none() || group.cycles == 0 {
                    return Err(format!("`{name}` has no shape or no cycles"));
                }
                if costs.insert(op, MatrixCost { cycles: group.cycles, f8_cycles: group.f8_cycles }).is_some() {
                    return Err(format!("`{name}` is listed twice"));
                }
            }
        }
        Ok(Self {
            arch,
            shader_engines_per_xcd: file.shader_engines_per_xcd,
            simds_per_cu: file.simds_per_cu,
            waves_per_simd: file.waves_per_simd,
            lds_bytes_per_cu: file.lds_bytes_per_cu,
            lds_banks: banks(&file.lds_banks).ok_or_else(|| format!("no LDS has banks `{}`", file.lds_banks))?,
            l1: file.l1,
            scalar_cache: file.scalar_cache,
            l2: file.l2,
            rates: file.rates,
            valu_quads: file.valu_quads,
            flops_per_clock_per_cu: file.flops_per_clock_per_cu,
            matrix: file.matrix,
            matrix_cycles: MatrixCosts(costs),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceFile {
    pub(super) name: String,
    pub(super) marketing_name: String,
    pub(super) arch: String,
    pub(super) pci_device_id: Option<Figure<u16>>,
    pub(super) xcds: Figure<u32>,
    pub(super) cus_per_xcd: Figure<u32>,
    pub(super) clock_mhz: Option<Figure<f64>>,
    pub(super) hbm_bytes: Option<Figure<u64>>,
    pub(super) hbm_bytes_per_second: Option<Figure<f64>>,
    pub(super) mall_bytes: Option<Figure<u64>>,
    pub(super) mall_bytes_per_second: Option<Figure<f64>>,
    pub(super) max_achievable_flops: Option<Achievable>,
}

impl DeviceFile {
    /// Refuses what no device has: nothing of it, or rates that are no number from 1.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(1..=64).contains(&self.xcds.value) || !(1..=1024).contains(&self.cus_per_xcd.value) {
            return Err(format!("{} XCDs of {} CUs are no device", self.xcds.value, self.cus_per_xcd.value));
        }
        let rates = [
            ("clock_mhz", &self.clock_mhz),
            ("hbm_bytes_per_second", &self.hbm_bytes_per_second),
            ("mall_bytes_per_second", &self.mall_bytes_per_second),
        ];
        for (name, figure) in rates {
            if figure.as_ref().is_some_and(|figure| !figure.value.is_finite() || figure.value < 1.0) {
                return Err(format!("`{name}` must be a number from 1; leave it out when it is not known"));
            }
        }
        Ok(())
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Achievable {
    f16: Option<Figure<f64>>,
    bf16: Option<Figure<f64>>,
    f8: Option<Figure<f64>>,
}

impl Achievable {
    pub(super) fn list(self) -> Vec<(MatrixInput, Figure<f64>)> {
        let all = [(MatrixInput::F16, self.f16), (MatrixInput::Bf16, self.bf16), (MatrixInput::F8, self.f8)];
        all.into_iter().filter_map(|(input, figure)| Some((input, figure?))).collect()
    }
}
