//! The counters of an emulated agent: those that the emulator counts or models, under rocprofiler's names, with the blocks and
//! dimensions that rocprofiler-sdk 1.0 was seen to give for the architecture.

use super::derived::{DERIVED, Derived, Values};
use kbench_gfx_emu::isa::Arch;
use kbench_gfx_emu::model::Model;
use rocprofiler_sdk_sys::types::dimension;

/// A hardware block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Block {
    /// Sequencer, its caches too.
    Sq,
    /// Address unit.
    Ta,
    /// Vector L1.
    Tcp,
    /// L2.
    Tcc,
    /// Graphics register bus manager.
    Grbm,
}

impl Block {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Block::Sq => "SQ",
            Block::Ta => "TA",
            Block::Tcp => "TCP",
            Block::Tcc => "TCC",
            Block::Grbm => "GRBM",
        }
    }

    /// Events that each of its instances counts at once: aqlprofile's block table for gfx9.
    pub fn limit(self) -> usize {
        match self {
            Block::Sq => 8,
            Block::Tcp | Block::Tcc => 4,
            Block::Ta | Block::Grbm => 2,
        }
    }

    /// Whether totals of it are counters of their own (`_sum`).
    fn has_sums(self) -> bool {
        matches!(self, Block::Ta | Block::Tcp | Block::Tcc)
    }
}

/// A dimension: one of [`dimension`] and its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Which.
    pub id: u64,
    /// Positions.
    pub size: usize,
}

/// What a counter is.
#[derive(Clone, Copy, Debug)]
pub enum Sort {
    /// Counted in a block.
    Basic(Block),
    /// The sum of a basic one over its instances.
    Sum(&'static str, Block),
    /// By a formula.
    Derived(&'static Derived),
    /// A property of the device.
    Constant(f64),
}

/// A counter of an agent.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Number among the counters of all architectures, from 1.
    pub id: u16,
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// What it is.
    pub sort: Sort,
    /// Its dimensions; a single value has [`dimension::INSTANCE`] of size 1.
    pub extents: Vec<Extent>,
}

impl Counter {
    /// Values that a dispatch gives.
    pub fn instances(&self) -> usize {
        self.extents.iter().map(|extent| extent.size).product()
    }

    /// The block's name; empty for those without one.
    pub fn block(&self) -> &'static str {
        match self.sort {
            Sort::Basic(block) => block.name(),
            _ => "",
        }
    }

    /// The formula; empty for counters that are counted.
    pub fn expression(&self) -> String {
        match self.sort {
            Sort::Sum(of, _) => format!("reduce({of},sum)"),
            Sort::Derived(derived) => derived.expression.to_owned(),
            _ => String::new(),
        }
    }

    /// The basic counters it needs.
    pub fn events(&self) -> Vec<&str> {
        match self.sort {
            Sort::Basic(_) => vec![self.name.as_str()],
            Sort::Sum(of, _) => vec![of],
            Sort::Derived(derived) => derived.needs.to_vec(),
            Sort::Constant(_) => Vec::new(),
        }
    }

    /// Its values, one an instance, from the totals of a dispatch. Totals are dealt out evenly, what is left over to the first
    /// instances, so that they add up to the total again; `GRBM` counts in each XCC. `None` when the dispatch has no such total.
    pub fn values(&self, totals: &Values<'_>) -> Option<Vec<f64>> {
        match self.sort {
            Sort::Basic(Block::Grbm) => Some(vec![totals.get(&self.name)?; self.instances()]),
            Sort::Basic(_) => Some(deal(totals.get(&self.name)?, self.instances())),
            Sort::Sum(of, _) => Some(vec![totals.get(of)?]),
            Sort::Derived(derived) => Some(vec![(derived.value)(totals)?]),
            Sort::Constant(value) => Some(vec![value]),
        }
    }
}

/// A total in whole parts that add up to it; a fraction goes to the first.
fn deal(total: f64, parts: usize) -> Vec<f64> {
    let whole = total.trunc();
    let each = (whole / parts as f64).trunc();
    let left = (whole - each * parts as f64) as usize;
    let part = |index: usize| each + if index < left { 1.0 } else { 0.0 };
    let mut list: Vec<f64> = (0..parts).map(part).collect();
    if let Some(first) = list.first_mut() {
        *first += total - whole;
    }
    list
}

/// Which architectures a counter is on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    All,
    Gfx90a,
    Gfx94x,
    Gfx950,
}

impl On {
    fn has(self, arch: Arch) -> bool {
        match self {
            On::All => true,
            On::Gfx90a => arch == Arch::Gfx90a,
            On::Gfx94x => matches!(arch, Arch::Gfx942 | Arch::Gfx950),
            On::Gfx950 => arch == Arch::Gfx950,
        }
    }
}

/// Counters that need the device's clock.
const TIMED: [&str; 4] = ["SQ_WAVE_CYCLES", "SQ_WAIT_INST_ANY", "SQ_WAIT_ANY", "GRBM_GUI_ACTIVE"];

/// Names and descriptions.
type Names = &'static [(&'static str, &'static str)];

/// What the emulator counts, by block. Atomic requests of the L1 are left out: it can tell the two kinds apart only in some launches.
const BASIC: &[(Block, On, Names)] = &[
    (
        Block::Sq,
        On::All,
        &[
            ("SQ_WAVES", "Waves started."),
            ("SQ_INSTS_VALU", "Vector ALU instructions issued, matrix instructions among them."),
            ("SQ_INSTS_MFMA", "Matrix instructions issued."),
            ("SQ_INSTS_SALU", "Scalar ALU instructions issued."),
            ("SQ_INSTS_SMEM", "Scalar memory instructions issued."),
            ("SQ_INSTS_LDS", "LDS instructions issued."),
            ("SQ_INSTS_VMEM_RD", "Vector memory reads issued."),
            ("SQ_INSTS_VMEM_WR", "Vector memory writes issued, atomics among them."),
            ("SQ_INSTS_VMEM", "Vector memory instructions issued."),
            ("SQ_INSTS_FLAT", "Flat, global and scratch instructions issued."),
            ("SQ_INSTS_BRANCH", "Branches issued."),
            ("SQ_INSTS_SENDMSG", "Messages sent, ends of waves among them."),
            ("SQ_INSTS_VALU_ADD_F16", "f16 additions issued."),
            ("SQ_INSTS_VALU_ADD_F32", "f32 additions issued."),
            ("SQ_INSTS_VALU_ADD_F64", "f64 additions issued."),
            ("SQ_INSTS_VALU_MUL_F16", "f16 products issued."),
            ("SQ_INSTS_VALU_MUL_F32", "f32 products issued."),
            ("SQ_INSTS_VALU_MUL_F64", "f64 products issued."),
            ("SQ_INSTS_VALU_FMA_F16", "f16 multiply-adds issued."),
            ("SQ_INSTS_VALU_FMA_F32", "f32 multiply-adds issued."),
            ("SQ_INSTS_VALU_FMA_F64", "f64 multiply-adds issued."),
            ("SQ_INSTS_VALU_TRANS_F16", "f16 transcendental instructions issued."),
            ("SQ_INSTS_VALU_TRANS_F32", "f32 transcendental instructions issued."),
            ("SQ_INSTS_VALU_TRANS_F64", "f64 transcendental instructions issued."),
            ("SQ_INSTS_VALU_INT32", "32-bit integer instructions issued."),
            ("SQ_INSTS_VALU_INT64", "64-bit integer instructions issued."),
            ("SQ_INSTS_VALU_CVT", "Conversions issued."),
            ("SQ_INSTS_VALU_MFMA_F16", "f16 matrix instructions issued."),
            ("SQ_INSTS_VALU_MFMA_BF16", "bf16 matrix instructions issued."),
            ("SQ_INSTS_VALU_MFMA_F32", "f32 matrix instructions issued."),
            ("SQ_INSTS_VALU_MFMA_F64", "f64 matrix instructions issued."),
            ("SQ_INSTS_VALU_MFMA_I8", "i8 matrix instructions issued."),
            ("SQ_INSTS_VALU_MFMA_MOPS_F16", "f16 matrix operations, in units of 512."),
            ("SQ_INSTS_VALU_MFMA_MOPS_BF16", "bf16 matrix operations, in units of 512."),
            ("SQ_INSTS_VALU_MFMA_MOPS_F32", "f32 matrix operations, in units of 512."),
            ("SQ_INSTS_VALU_MFMA_MOPS_F64", "f64 matrix operations, in units of 512."),
            ("SQ_INSTS_VALU_MFMA_MOPS_I8", "i8 matrix operations, in units of 512."),
            ("SQ_VALU_MFMA_BUSY_CYCLES", "Cycles in which matrix cores were busy."),
            ("SQ_ACTIVE_INST_VALU", "Quad-cycles of waves in vector ALU instructions."),
            ("SQ_ACTIVE_INST_ANY", "Quad-cycles of waves in any instruction."),
            ("SQ_LDS_IDX_ACTIVE", "Cycles in which the LDS served indexed accesses."),
            ("SQ_LDS_BANK_CONFLICT", "Cycles in which the LDS was held up by bank conflicts."),
            ("SQ_WAVE_CYCLES", "Quad-cycles that waves were resident."),
            ("SQ_WAIT_INST_ANY", "Quad-cycles of waves waiting for their turn to issue."),
            ("SQ_WAIT_ANY", "Quad-cycles of waves waiting for anything else."),
            ("SQC_TC_DATA_READ_REQ", "Reads that the scalar data cache asked the L2 for."),
        ],
    ),
    (
        Block::Sq,
        On::Gfx94x,
        &[
            ("SQ_INSTS_VALU_MFMA_F8", "f8 matrix instructions issued."),
            ("SQ_INSTS_VALU_MFMA_MOPS_F8", "f8 matrix operations, in units of 512."),
        ],
    ),
    (
        Block::Sq,
        On::Gfx950,
        &[
            ("SQ_INSTS_LDS_LOAD", "LDS reads issued."),
            ("SQ_INSTS_LDS_STORE", "LDS writes issued."),
            ("SQ_INSTS_LDS_ATOMIC", "LDS atomics issued."),
            ("SQ_INSTS_VALU_MFMA_F6F4", "f6 and f4 matrix instructions issued."),
            ("SQ_INSTS_VALU_MFMA_MOPS_F6F4", "f6 and f4 matrix operations, in units of 512."),
            ("SQ_INSTS_VALU_MFMA_MOPS_XF32", "xf32 matrix operations, in units of 512."),
        ],
    ),
    (
        Block::Ta,
        On::All,
        &[
            ("TA_TOTAL_WAVEFRONTS", "Vector memory instructions that reached the address unit."),
            ("TA_BUFFER_READ_WAVEFRONTS", "Buffer reads."),
            ("TA_BUFFER_WRITE_WAVEFRONTS", "Buffer writes."),
            ("TA_BUFFER_ATOMIC_WAVEFRONTS", "Buffer atomics."),
            ("TA_FLAT_READ_WAVEFRONTS", "Flat reads."),
            ("TA_FLAT_WRITE_WAVEFRONTS", "Flat writes."),
            ("TA_FLAT_ATOMIC_WAVEFRONTS", "Flat atomics."),
        ],
    ),
    (
        Block::Tcp,
        On::All,
        &[
            ("TCP_TOTAL_ACCESSES", "Lines that the vector L1 was asked for."),
            ("TCP_TOTAL_CACHE_ACCESSES", "Lines looked up in the vector L1."),
            ("TCP_TCC_READ_REQ", "Reads that the vector L1 asked the L2 for."),
            ("TCP_TCC_WRITE_REQ", "Writes that the vector L1 passed to the L2."),
        ],
    ),
    (
        Block::Tcc,
        On::All,
        &[
            ("TCC_REQ", "Requests to the L2."),
            ("TCC_HIT", "Requests that the L2 had the line of."),
            ("TCC_MISS", "Requests that the L2 lacked the line of."),
        ],
    ),
    (
        Block::Tcc,
        On::Gfx90a,
        &[
            ("TCC_EA_RDREQ", "Reads that the L2 asked the fabric for."),
            ("TCC_EA_RDREQ_32B", "Of these, of 32 bytes."),
            ("TCC_EA_WRREQ", "Writes that the L2 passed to the fabric."),
            ("TCC_EA_WRREQ_64B", "Of these, of 64 bytes."),
        ],
    ),
    (
        Block::Tcc,
        On::Gfx94x,
        &[
            ("TCC_EA0_RDREQ", "Reads that the L2 asked the fabric for."),
            ("TCC_EA0_RDREQ_32B", "Of these, of 32 bytes."),
            ("TCC_BUBBLE", "Of these, of 128 bytes."),
            ("TCC_EA0_WRREQ", "Writes that the L2 passed to the fabric."),
            ("TCC_EA0_WRREQ_64B", "Of these, of 64 bytes."),
        ],
    ),
    (
        Block::Tcc,
        On::Gfx950,
        &[
            ("TCC_EA0_RDREQ_64B", "Reads of 64 bytes that the L2 asked the fabric for."),
            ("TCC_EA0_RDREQ_128B", "Reads of 128 bytes that the L2 asked the fabric for."),
        ],
    ),
    (Block::Grbm, On::All, &[("GRBM_GUI_ACTIVE", "Clocks in which any work was under way.")]),
];

/// Distance between the numbers of the architectures' counters.
const IDS_OF_ARCH: u16 = 1000;

/// All counters of a device, ordered by their numbers.
pub fn counters(model: &Model) -> Vec<Counter> {
    let arch = model.arch();
    let has_clock = model.clock_mhz.is_some();
    let is_there = |name: &str| has_clock || !TIMED.contains(&name);
    let single = vec![Extent { id: dimension::INSTANCE, size: 1 }];
    let mut list: Vec<Counter> = Vec::new();
    let mut add = |name: String, description: String, sort: Sort, extents: Vec<Extent>| {
        list.push(Counter { id: 0, name, description, sort, extents });
    };
    for (block, on, names) in BASIC {
        for (name, description) in names.iter().filter(|(name, _)| on.has(arch) && is_there(name)) {
            add((*name).to_owned(), (*description).to_owned(), Sort::Basic(*block), extents(*block, model));
            if block.has_sums() {
                let words = format!("{} Summed over all instances.", description.trim_end());
                add(format!("{name}_sum"), words, Sort::Sum(name, *block), single.clone());
            }
        }
    }
    for derived in DERIVED.iter().filter(|derived| derived.archs.contains(&arch)) {
        if derived.needs.iter().all(|name| is_there(name)) {
            add(derived.name.to_owned(), derived.description.to_owned(), Sort::Derived(derived), single.clone());
        }
    }
    let simds = model.cus() * model.machine.simds_per_cu.value;
    add("CU_NUM".to_owned(), "CUs of the device.".to_owned(), Sort::Constant(model.cus().into()), single.clone());
    add("SIMD_NUM".to_owned(), "SIMDs of the device.".to_owned(), Sort::Constant(simds.into()), single);
    let first = IDS_OF_ARCH
        * match arch {
            Arch::Gfx90a => 0,
            Arch::Gfx942 => 1,
            Arch::Gfx950 => 2,
            Arch::Gfx1100 => 3,
        };
    for (place, counter) in (first + 1..).zip(&mut list) {
        counter.id = place;
    }
    list
}

/// Dimensions of a block. Those of gfx942 (SQ 4 shader engines, TCC 16, TCP 11 a shader engine, each in every XCC) and of gfx90a
/// (8 shader engines, TCC 32) are what the real SDK gave; elsewhere a shader engine has as many L1s as CUs. TA is as TCP.
fn extents(block: Block, model: &Model) -> Vec<Extent> {
    let extent = |id, size: u32| Extent { id, size: size.max(1) as usize };
    let engines = model.machine.shader_engines_per_xcd.value;
    let mut list = match block {
        Block::Grbm => Vec::new(),
        Block::Sq => vec![extent(dimension::SHADER_ENGINE, engines)],
        Block::Tcc => {
            vec![extent(dimension::INSTANCE, model.machine.rates.l2_channels_per_xcd.value as u32)]
        }
        Block::Ta | Block::Tcp => {
            let of_engine =
                if model.arch() == Arch::Gfx942 { 11 } else { model.cus_per_xcd.value.div_ceil(engines.max(1)) };
            vec![extent(dimension::INSTANCE, of_engine), extent(dimension::SHADER_ENGINE, engines)]
        }
    };
    if model.arch() != Arch::Gfx90a || list.is_empty() {
        list.push(extent(dimension::XCC, model.xcds.value));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn of(model: &str) -> Vec<Counter> {
        counters(Model::named(model).unwrap())
    }

    fn instances(list: &[Counter], name: &str) -> usize {
        list.iter().find(|counter| counter.name == name).expect(name).instances()
    }

    #[test]
    fn instances_as_the_real_sdk_gave_them() {
        let mi300x = of("mi300x");
        for (name, expected) in
            [("SQ_WAVES", 32), ("GRBM_GUI_ACTIVE", 8), ("TCC_HIT", 128), ("TCP_TCC_READ_REQ", 352), ("FETCH_SIZE", 1)]
        {
            assert_eq!(instances(&mi300x, name), expected, "{name}");
        }
        let mi210 = of("mi210");
        assert_eq!((instances(&mi210, "SQ_WAVES"), instances(&mi210, "TCC_HIT")), (8, 32));
    }

    #[test]
    fn numbers_and_names_are_unique() {
        let mut ids = HashSet::new();
        for model in ["mi210", "mi300x", "mi355x"] {
            let list = of(model);
            let names: HashSet<&str> = list.iter().map(|counter| counter.name.as_str()).collect();
            assert_eq!(names.len(), list.len(), "{model}");
            assert!(list.iter().all(|counter| ids.insert(counter.id)), "{model}");
            assert!(list.iter().all(|counter| counter.events().iter().all(|event| names.contains(event))), "{model}");
        }
        let gfx942: Vec<String> = of("mi300x").into_iter().map(|counter| counter.name).collect();
        assert!(!gfx942.iter().any(|name| name == "L2CacheHit"), "gfx942 has none");
        assert!(of("mi210").iter().any(|counter| counter.name == "L2CacheHit"));
    }

    #[test]
    fn parts_add_up() {
        for (total, parts) in [(0.0, 32), (5.0, 32), (100.0, 8), (1e15 + 7.0, 352), (10.25, 4), (0.5, 3)] {
            let list = deal(total, parts);
            assert_eq!(list.len(), parts);
            assert_eq!(list.iter().sum::<f64>(), total);
            let (least, most) = (list[parts - 1], list[0]);
            assert!(most - least < 2.0, "{total} over {parts}: {least} to {most}");
        }
    }
}
