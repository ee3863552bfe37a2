//! What a launch asks of each unit.

use super::BoundError;
use crate::counters::Mix;
use crate::isa::{Arithmetic, Class, FloatWidth, Op};
use crate::launch::Outcome;
use crate::model::{Machine, Model};
use crate::traffic::Counts;

/// Work of a whole launch, all CUs together. Clocks are those of one unit: of one SIMD, or of the one LDS of a CU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work {
    /// Workgroups of the grid.
    pub workgroups: u64,
    /// Waves of each.
    pub waves_per_workgroup: u64,
    /// Workgroups that a CU holds at a time.
    pub workgroups_per_cu: u64,
    /// All workgroups executed as many instructions.
    pub uniform: bool,
    /// Only a sample ran: see [`Work::of`].
    pub sampled: bool,
    /// Clocks of the matrix cores.
    pub matrix_clocks: f64,
    /// Clocks of the vector ALUs: their own instructions, and what matrix instructions take of their time.
    pub valu_clocks: f64,
    /// Scalar ALU and scalar memory instructions.
    pub scalar: f64,
    /// Branches.
    pub branches: f64,
    /// Instructions that any unit executed.
    pub issued: f64,
    /// Clocks of LDS banks, with conflicts.
    pub lds_bank_clocks: f64,
    /// Bytes through LDS ports; lanes that wait for a bank count as their port's width.
    pub lds_port_bytes: f64,
    /// Lines that vector L1s looked up.
    pub l1_lines: f64,
    /// Bytes that lanes loaded through vector L1s.
    pub l1_bytes_read: f64,
    /// Requests of up to 64 bytes that stores and atomics sent to the L2.
    pub l1_write_requests: f64,
    /// Bytes that L1s and scalar caches fetched from L2s.
    pub l2_bytes_read: f64,
    /// Bytes of write and atomic requests to L2s.
    pub l2_bytes_written: f64,
    /// Bytes that L2s fetched.
    pub fabric_bytes_read: f64,
    /// Bytes that L2s wrote back.
    pub fabric_bytes_written: f64,
    /// Distinct bytes read.
    pub distinct_bytes_read: f64,
    /// Distinct bytes written.
    pub distinct_bytes_written: f64,
}

impl Work {
    /// The work of a launch. When only a sample of the workgroups ran, instructions, LDS and L1 work are scaled to the grid;
    /// what lies behind the L1 stays that of the sample, since it may be shared by all.
    ///
    /// # Errors
    /// When the model lacks the cycles of an executed matrix instruction.
    pub fn of(outcome: &Outcome, model: &Model) -> Result<Self, BoundError> {
        let mix = Mix::of(outcome);
        let scale = outcome.workgroups as f64 / outcome.ran.max(1) as f64;
        let (least, most) = outcome.steps_per_workgroup;
        let mut work = Self {
            workgroups: outcome.workgroups,
            waves_per_workgroup: outcome.waves.div_ceil(outcome.ran.max(1)),
            workgroups_per_cu: u64::from(outcome.workgroups_per_cu),
            uniform: least == most,
            sampled: outcome.ran < outcome.workgroups,
            ..Self::default()
        };
        work.add_instructions(&mix, model)?;
        work.add_near_memory(&outcome.traffic.counts);
        work.scale(scale);
        work.add_far_memory(&outcome.traffic.counts, &model.machine);
        let distinct = outcome.traffic.distinct_bytes();
        work.distinct_bytes_read = distinct.read as f64;
        work.distinct_bytes_written = distinct.written as f64;
        Ok(work)
    }

    /// Adds instructions.
    ///
    /// # Errors
    /// When the model lacks the cycles of a matrix instruction.
    pub fn add_instructions(&mut self, mix: &Mix, model: &Model) -> Result<(), BoundError> {
        let machine = &model.machine;
        for (op, matrix, count) in mix.matrix() {
            let cycles = machine.matrix_cycles.cycles(op, matrix.input).ok_or_else(|| BoundError::NoCycles {
                model: model.marketing_name.clone(),
                operation: op.mnemonic(machine.arch).unwrap_or(op.name()).to_owned(),
            })?;
            let slot = match (machine.matrix.without_valu.value.contains(&matrix.input), matrix.sparse) {
                (true, _) => f64::from(cycles),
                (false, false) => machine.matrix.valu_slot_clocks.value,
                (false, true) => machine.matrix.valu_slot_clocks_sparse.value,
            };
            self.matrix_clocks += f64::from(cycles) * count as f64;
            self.valu_clocks += slot * count as f64;
        }
        for (kind, count) in &mix.executed {
            if kind.class() == Class::Valu {
                self.valu_clocks += 4.0 * quads(machine, kind.op) * *count as f64;
            }
        }
        self.scalar += mix.class(&[Class::Salu, Class::Smem]) as f64;
        self.branches += mix.class(&[Class::Branch]) as f64;
        self.issued += mix.total(|kind| kind.is_issued()) as f64;
        Ok(())
    }

    /// Adds LDS and vector L1.
    fn add_near_memory(&mut self, counts: &Counts) {
        self.lds_bank_clocks += counts.lds_idx_active as f64;
        self.lds_port_bytes += counts.lds_port_cycles as f64 * 64.0;
        self.l1_lines += counts.tcp_total_cache_accesses as f64;
        self.l1_bytes_read += counts.vector_bytes_read as f64;
        self.l1_write_requests += (counts.tcp_tcc_write_req + counts.tcp_tcc_atomic_req) as f64;
    }

    fn scale(&mut self, scale: f64) {
        let scaled = [
            &mut self.matrix_clocks,
            &mut self.valu_clocks,
            &mut self.scalar,
            &mut self.branches,
            &mut self.issued,
            &mut self.lds_bank_clocks,
            &mut self.lds_port_bytes,
            &mut self.l1_lines,
            &mut self.l1_bytes_read,
            &mut self.l1_write_requests,
        ];
        for value in scaled {
            *value *= scale;
        }
    }

    /// Adds what lies behind the L1.
    fn add_far_memory(&mut self, counts: &Counts, machine: &Machine) {
        let line = f64::from(machine.l1.line_bytes.value);
        let scalar_line = f64::from(machine.scalar_cache.line_bytes.value);
        self.l2_bytes_read += counts.tcp_tcc_read_req as f64 * line + counts.sqc_tc_data_read_req as f64 * scalar_line;
        self.l2_bytes_written += (counts.tcp_tcc_write_req + counts.tcp_tcc_atomic_req) as f64 * 64.0;
        self.fabric_bytes_read += counts.tcc_ea_rdreq as f64 * f64::from(machine.l2.line_bytes.value);
        let half = counts.tcc_ea_wrreq.saturating_sub(counts.tcc_ea_wrreq_64b);
        self.fabric_bytes_written += counts.tcc_ea_wrreq_64b as f64 * 64.0 + half as f64 * 32.0;
    }
}

/// Quad-cycles of a vector ALU instruction.
pub(crate) fn quads(machine: &Machine, op: Op) -> f64 {
    let costs = &machine.valu_quads;
    let is_product =
        |name: &str| ["v_mul_lo_u32", "v_mul_hi_u32", "v_mul_hi_i32", "v_mad_u64_u32", "v_mad_i64_i32"].contains(&name);
    let cost = match op.arithmetic() {
        Some(Arithmetic::Trans(FloatWidth::F64)) => &costs.transcendental_f64,
        Some(Arithmetic::Trans(_)) => &costs.transcendental,
        Some(Arithmetic::Cvt) if !op.name().contains("f64") => &costs.convert,
        _ if is_product(op.name()) => &costs.multiply_32,
        _ => &costs.full,
    };
    cost.value
}
