//! Each counter's definition.

use super::mix::{Executed, Mix};
use super::{Counter, Counters, Kind, Sample, Unit};
use crate::bound::{Bound, CacheState, Resource, bound, quads};
use crate::isa::{Arch, Arithmetic, Class, FloatWidth};
use crate::launch::Outcome;
use crate::model::{MatrixInput, Model};

/// Collects counters of one launch.
struct List<'a> {
    mix: &'a Mix,
    scale: f64,
    exact: Kind,
    list: Vec<Counter>,
}

impl List<'_> {
    fn push(&mut self, name: &'static str, value: f64, unit: Unit, kind: Kind) {
        let kind = if kind == Kind::Exact { self.exact } else { kind };
        self.list.push(Counter { name, value, unit, kind });
    }

    /// A counted value, scaled to the grid.
    fn count(&mut self, name: &'static str, value: u64, kind: Kind) {
        self.push(name, value as f64 * self.scale, Unit::Count, kind);
    }

    fn cycles(&mut self, name: &'static str, value: f64, unit: Unit) {
        self.push(name, value * self.scale, unit, Kind::Model);
    }

    fn instructions(&mut self, name: &'static str, kind: Kind, is_counted: impl Fn(&Executed) -> bool) {
        self.count(name, self.mix.total(is_counted), kind);
    }

    fn value(&self, name: &str) -> f64 {
        self.list.iter().find(|counter| counter.name == name).map_or(0.0, |counter| counter.value)
    }
}

pub(super) fn counters(outcome: &Outcome, model: &Model) -> Counters {
    let mix = Mix::of(outcome);
    let sampled = outcome.ran < outcome.workgroups;
    let scale = outcome.workgroups as f64 / outcome.ran.max(1) as f64;
    let exact = if sampled { Kind::Model } else { Kind::Exact };
    let mut list = List { mix: &mix, scale: if sampled { scale } else { 1.0 }, exact, list: Vec::new() };
    let bound = bound(outcome, model, CacheState::Cold).ok();
    instructions(&mut list, outcome);
    if model.arch() == Arch::Gfx950 {
        lds_of_gfx950(&mut list);
    }
    arithmetic(&mut list);
    matrix(&mut list, model);
    time_in_units(&mut list, outcome, model, bound.as_ref());
    memory(&mut list, outcome, model);
    if let Some(bound) = &bound {
        list.push("GRBM_GUI_ACTIVE", bound.clocks(), Unit::Cycles, Kind::Model);
    }
    derived(&mut list, model, bound.as_ref());
    Counters { list: list.list, sample: sampled.then_some(Sample { ran: outcome.ran, workgroups: outcome.workgroups }) }
}

/// What waves issue. Vector atomics count as writes, which no document says; cache control counts as neither.
fn instructions(list: &mut List<'_>, outcome: &Outcome) {
    let has_atomics = list.mix.class(&[Class::VmemAtomic]) != 0;
    let vmem = if has_atomics { Kind::Model } else { Kind::Exact };
    list.count("SQ_WAVES", outcome.waves, Kind::Exact);
    list.instructions("SQ_INSTS_VALU", Kind::Exact, |kind| matches!(kind.class(), Class::Valu | Class::Mfma));
    list.instructions("SQ_INSTS_MFMA", Kind::Exact, |kind| kind.class() == Class::Mfma);
    list.instructions("SQ_INSTS_SALU", Kind::Exact, |kind| kind.class() == Class::Salu);
    list.instructions("SQ_INSTS_SMEM", Kind::Exact, |kind| kind.class() == Class::Smem);
    list.instructions("SQ_INSTS_LDS", Kind::Exact, |kind| kind.class() == Class::Lds);
    list.instructions("SQ_INSTS_VMEM_RD", vmem, |kind| kind.class() == Class::VmemRead);
    list.instructions("SQ_INSTS_VMEM_WR", vmem, |kind| matches!(kind.class(), Class::VmemWrite | Class::VmemAtomic));
    list.instructions("SQ_INSTS_VMEM", Kind::Exact, |kind| is_vmem(kind.class()));
    list.instructions("SQ_INSTS_FLAT", Kind::Exact, |kind| kind.is_flat() && is_vmem(kind.class()));
    list.instructions("SQ_INSTS_BRANCH", Kind::Exact, |kind| kind.class() == Class::Branch);
    // The end of a wave is a message too.
    list.instructions("SQ_INSTS_SENDMSG", Kind::Exact, |kind| matches!(kind.class(), Class::Message | Class::End));
}

/// gfx950 counts LDS instructions by what they do. Lane crossing is none of them.
fn lds_of_gfx950(list: &mut List<'_>) {
    let is = |kind: &Executed, part: &str| kind.class() == Class::Lds && kind.op.name().starts_with(part);
    let others = ["ds_read", "ds_write", "ds_permute", "ds_bpermute", "ds_swizzle", "ds_nop", "ds_gws"];
    list.instructions("SQ_INSTS_LDS_LOAD", Kind::Exact, |kind| is(kind, "ds_read"));
    list.instructions("SQ_INSTS_LDS_STORE", Kind::Exact, |kind| is(kind, "ds_write"));
    list.instructions("SQ_INSTS_LDS_ATOMIC", Kind::Model, |kind| {
        kind.class() == Class::Lds && !others.iter().any(|part| is(kind, part))
    });
}

fn is_vmem(class: Class) -> bool {
    matches!(class, Class::VmemRead | Class::VmemWrite | Class::VmemAtomic)
}

/// Classes of vector arithmetic. Which integer operations and conversions the hardware counts is not published.
fn arithmetic(list: &mut List<'_>) {
    use Arithmetic::{Add, Cvt, Fma, Int32, Int64, Mul, Trans};
    use FloatWidth::{F16, F32, F64};
    let floats = [
        ("SQ_INSTS_VALU_ADD_F16", Add(F16)),
        ("SQ_INSTS_VALU_ADD_F32", Add(F32)),
        ("SQ_INSTS_VALU_ADD_F64", Add(F64)),
        ("SQ_INSTS_VALU_MUL_F16", Mul(F16)),
        ("SQ_INSTS_VALU_MUL_F32", Mul(F32)),
        ("SQ_INSTS_VALU_MUL_F64", Mul(F64)),
        ("SQ_INSTS_VALU_FMA_F16", Fma(F16)),
        ("SQ_INSTS_VALU_FMA_F32", Fma(F32)),
        ("SQ_INSTS_VALU_FMA_F64", Fma(F64)),
        ("SQ_INSTS_VALU_TRANS_F16", Trans(F16)),
        ("SQ_INSTS_VALU_TRANS_F32", Trans(F32)),
        ("SQ_INSTS_VALU_TRANS_F64", Trans(F64)),
    ];
    let others = [("SQ_INSTS_VALU_INT32", Int32), ("SQ_INSTS_VALU_INT64", Int64), ("SQ_INSTS_VALU_CVT", Cvt)];
    for (name, wanted) in floats {
        list.instructions(name, Kind::Exact, |kind| kind.op.arithmetic() == Some(wanted));
    }
    for (name, wanted) in others {
        list.instructions(name, Kind::Model, |kind| kind.op.arithmetic() == Some(wanted));
    }
}

/// Matrix instructions by input type, and their operations in units of 512. Uncertain and so a model: xf32 on gfx942, which has
/// no counter of its own and is taken as f32; sparse instructions, taken as the dense product they stand for; mixes of
/// f8 with f6 or f4, taken as f8.
fn matrix(list: &mut List<'_>, model: &Model) {
    use MatrixInput::{Bf16, F6f4, F8, F16, F32, F64, I8, Xf32};
    let arch = model.arch();
    let all = [
        (F16, "SQ_INSTS_VALU_MFMA_F16", "SQ_INSTS_VALU_MFMA_MOPS_F16", true),
        (Bf16, "SQ_INSTS_VALU_MFMA_BF16", "SQ_INSTS_VALU_MFMA_MOPS_BF16", true),
        (F32, "SQ_INSTS_VALU_MFMA_F32", "SQ_INSTS_VALU_MFMA_MOPS_F32", true),
        (F64, "SQ_INSTS_VALU_MFMA_F64", "SQ_INSTS_VALU_MFMA_MOPS_F64", true),
        (I8, "SQ_INSTS_VALU_MFMA_I8", "SQ_INSTS_VALU_MFMA_MOPS_I8", true),
        (F8, "SQ_INSTS_VALU_MFMA_F8", "SQ_INSTS_VALU_MFMA_MOPS_F8", arch != Arch::Gfx90a),
        (F6f4, "SQ_INSTS_VALU_MFMA_F6F4", "SQ_INSTS_VALU_MFMA_MOPS_F6F4", arch == Arch::Gfx950),
    ];
    for (input, instructions, mops, _) in all.into_iter().filter(|(.., is_there)| *is_there) {
        let counts_as = |of: MatrixInput| of == input || (input == F32 && of == Xf32);
        let (mut count, mut operations) = (0_u64, 0_u64);
        let (mut count_kind, mut mops_kind) = (Kind::Exact, Kind::Exact);
        for (_, matrix, executions) in list.mix.matrix().filter(|(_, matrix, _)| counts_as(matrix.input)) {
            count += executions;
            operations += matrix.flops() / 512 * executions;
            if matrix.input == Xf32 || !matrix.pure {
                (count_kind, mops_kind) = (Kind::Model, Kind::Model);
            }
            if matrix.sparse {
                mops_kind = Kind::Model;
            }
        }
        list.count(instructions, count, count_kind);
        list.count(mops, operations, mops_kind);
    }
    if arch == Arch::Gfx950 {
        list.count("SQ_INSTS_VALU_MFMA_MOPS_XF32", 0, Kind::Exact);
    }
}

/// Time that units are busy, and how waves spend theirs. Resident waves live as long as the bound; for as long as the slowest unit
/// of the CU needs they issue or wait for their turn, and for the rest they wait for what is behind it (memory, the launch).
fn time_in_units(list: &mut List<'_>, outcome: &Outcome, model: &Model, bound: Option<&Bound>) {
    let mix = list.mix;
    let counts = outcome.traffic.counts;
    let matrix: f64 = mix
        .matrix()
        .filter_map(|(op, matrix, count)| {
            Some(f64::from(model.machine.matrix_cycles.cycles(op, matrix.input)?) * count as f64)
        })
        .sum();
    let vector: f64 = mix
        .executed
        .iter()
        .map(|(kind, count)| match kind.class() {
            Class::Valu => quads(&model.machine, kind.op) * *count as f64,
            Class::Mfma => *count as f64,
            _ => 0.0,
        })
        .sum();
    let issued = mix.total(|kind| kind.is_issued() && !matches!(kind.class(), Class::Valu | Class::Mfma)) as f64;
    list.cycles("SQ_VALU_MFMA_BUSY_CYCLES", matrix, Unit::Cycles);
    list.cycles("SQ_ACTIVE_INST_VALU", vector, Unit::QuadCycles);
    list.cycles("SQ_ACTIVE_INST_ANY", vector + issued, Unit::QuadCycles);
    list.cycles("SQ_LDS_IDX_ACTIVE", counts.lds_idx_active as f64, Unit::Cycles);
    list.cycles("SQ_LDS_BANK_CONFLICT", counts.lds_bank_conflict as f64, Unit::Cycles);
    let Some(bound) = bound else { return };
    let waves = outcome.waves as f64 * list.scale;
    let resident = waves.min((bound.fill.cus_used * bound.fill.waves_per_cu) as f64);
    let active = (vector + issued) * list.scale;
    let in_cu = IN_CU.iter().filter_map(|resource| bound.of(*resource)).fold(0.0, f64::max) * 1e-9 * bound.clock_hz;
    let turns = (in_cu / 4.0 * resident).max(active);
    let lives = (bound.clocks() / 4.0 * resident).max(turns);
    list.push("SQ_WAVE_CYCLES", lives, Unit::QuadCycles, Kind::Model);
    list.push("SQ_WAIT_INST_ANY", turns - active, Unit::QuadCycles, Kind::Model);
    list.push("SQ_WAIT_ANY", lives - turns, Unit::QuadCycles, Kind::Model);
}

/// Units that a CU's waves take turns at.
const IN_CU: [Resource; 7] = [
    Resource::MatrixCores,
    Resource::VectorAlu,
    Resource::ScalarAlu,
    Resource::Branch,
    Resource::Lds,
    Resource::VectorL1,
    Resource::WaveIssue,
];

/// Address units, L1, L2 and fabric.
fn memory(list: &mut List<'_>, outcome: &Outcome, model: &Model) {
    let counts = outcome.traffic.counts;
    let arch = model.arch();
    list.instructions("TA_TOTAL_WAVEFRONTS", Kind::Exact, |kind| is_vmem(kind.class()));
    let waves = [
        ("TA_BUFFER_READ_WAVEFRONTS", "TA_FLAT_READ_WAVEFRONTS", Class::VmemRead),
        ("TA_BUFFER_WRITE_WAVEFRONTS", "TA_FLAT_WRITE_WAVEFRONTS", Class::VmemWrite),
        ("TA_BUFFER_ATOMIC_WAVEFRONTS", "TA_FLAT_ATOMIC_WAVEFRONTS", Class::VmemAtomic),
    ];
    for (buffer, flat, class) in waves {
        list.instructions(buffer, Kind::Exact, |kind| kind.class() == class && kind.is_buffer());
        list.instructions(flat, Kind::Exact, |kind| kind.class() == class && !kind.is_buffer());
    }
    list.count("TCP_TOTAL_ACCESSES", counts.tcp_total_accesses, Kind::Model);
    list.count("TCP_TOTAL_CACHE_ACCESSES", counts.tcp_total_cache_accesses, Kind::Model);
    list.count("TCP_TCC_READ_REQ", counts.tcp_tcc_read_req, Kind::Model);
    list.count("TCP_TCC_WRITE_REQ", counts.tcp_tcc_write_req, Kind::Model);
    // Atomics of both kinds are counted together; they can be told apart when only one kind ran.
    let returning = list.mix.total(|kind| kind.class() == Class::VmemAtomic && kind.returns);
    let silent = list.mix.total(|kind| kind.class() == Class::VmemAtomic && !kind.returns);
    if returning == 0 || silent == 0 {
        let (with, without) =
            if returning == 0 { (0, counts.tcp_tcc_atomic_req) } else { (counts.tcp_tcc_atomic_req, 0) };
        list.count("TCP_TCC_ATOMIC_WITH_RET_REQ", with, Kind::Model);
        list.count("TCP_TCC_ATOMIC_WITHOUT_RET_REQ", without, Kind::Model);
    }
    list.count("SQC_TC_DATA_READ_REQ", counts.sqc_tc_data_read_req, Kind::Model);
    list.count("TCC_REQ", counts.tcc_req, Kind::Model);
    list.count("TCC_HIT", counts.tcc_hit, Kind::Model);
    list.count("TCC_MISS", counts.tcc_miss, Kind::Model);
    // The model's L2 fetches whole lines of 128 bytes. gfx90a has requests of 64 bytes at most.
    if arch == Arch::Gfx90a {
        list.count("TCC_EA_RDREQ", counts.tcc_ea_rdreq * 2, Kind::Model);
        list.count("TCC_EA_RDREQ_32B", 0, Kind::Model);
        list.count("TCC_EA_WRREQ", counts.tcc_ea_wrreq, Kind::Model);
        list.count("TCC_EA_WRREQ_64B", counts.tcc_ea_wrreq_64b, Kind::Model);
    } else {
        list.count("TCC_EA0_RDREQ", counts.tcc_ea_rdreq, Kind::Model);
        list.count("TCC_EA0_RDREQ_32B", 0, Kind::Model);
        list.count("TCC_BUBBLE", counts.tcc_ea_rdreq, Kind::Model);
        list.count("TCC_EA0_WRREQ", counts.tcc_ea_wrreq, Kind::Model);
        list.count("TCC_EA0_WRREQ_64B", counts.tcc_ea_wrreq_64b, Kind::Model);
    }
    if arch == Arch::Gfx950 {
        list.count("TCC_EA0_RDREQ_64B", 0, Kind::Model);
        list.count("TCC_EA0_RDREQ_128B", counts.tcc_ea_rdreq, Kind::Model);
    }
}

/// rocprofiler's own formulas (counter definitions of the SDK), for those who compare with its output.
fn derived(list: &mut List<'_>, model: &Model, bound: Option<&Bound>) {
    let arch = model.arch();
    let (read, read_32, write, write_64) = match arch {
        Arch::Gfx90a => ("TCC_EA_RDREQ", "TCC_EA_RDREQ_32B", "TCC_EA_WRREQ", "TCC_EA_WRREQ_64B"),
        _ => ("TCC_EA0_RDREQ", "TCC_EA0_RDREQ_32B", "TCC_EA0_WRREQ", "TCC_EA0_WRREQ_64B"),
    };
    // Without a counter of 128-byte reads its term is 0.
    let (all, small, large) = (list.value(read), list.value(read_32), list.value("TCC_BUBBLE"));
    let fetched = (large * 128.0 + (all - large - small) * 64.0 + small * 32.0) / 1024.0;
    list.push("FETCH_SIZE", fetched, Unit::Kibibytes, Kind::Derived);
    let (all, whole) = (list.value(write), list.value(write_64));
    list.push("WRITE_SIZE", ((all - whole) * 32.0 + whole * 64.0) / 1024.0, Unit::Kibibytes, Kind::Derived);
    let (hit, miss) = (list.value("TCC_HIT"), list.value("TCC_MISS"));
    if arch == Arch::Gfx90a && hit + miss > 0.0 {
        list.push("L2CacheHit", 100.0 * hit / (hit + miss), Unit::Percent, Kind::Derived);
    }
    let mops: f64 =
        ["F16", "BF16", "F32", "F64"].iter().map(|of| list.value(&format!("SQ_INSTS_VALU_MFMA_MOPS_{of}"))).sum();
    list.push("MfmaFlops", 512.0 * mops, Unit::Flops, Kind::Derived);
    let active = list.value("GRBM_GUI_ACTIVE");
    if bound.is_none() || active <= 0.0 {
        return;
    }
    let cus = f64::from(model.cus());
    let simds = cus * f64::from(model.machine.simds_per_cu.value);
    let (conflicts, busy) = (list.value("SQ_LDS_BANK_CONFLICT"), list.value("SQ_VALU_MFMA_BUSY_CYCLES"));
    let vector = list.value("SQ_ACTIVE_INST_VALU");
    list.push("LDSBankConflict", 100.0 * conflicts / active / cus, Unit::Percent, Kind::Derived);
    list.push("MfmaUtil", 100.0 * busy / (active * simds), Unit::Percent, Kind::Derived);
    list.push("VALUBusy", 100.0 * vector / cus / active, Unit::Percent, Kind::Derived);
}
