//! Counters by formula: those of rocprofiler-sdk 1.0 whose operands the emulator has.

use kbench_gfx_emu::isa::Arch;
use std::collections::HashMap;

/// Totals of basic counters by name; `GRBM_*` are those of one XCC.
#[derive(Clone, Debug, Default)]
pub struct Values<'a>(HashMap<&'a str, f64>);

impl<'a> Values<'a> {
    /// From names and totals.
    pub fn new(values: impl IntoIterator<Item = (&'a str, f64)>, cus: u32, simds: u32) -> Self {
        let mut map: HashMap<&str, f64> = values.into_iter().collect();
        map.insert("CU_NUM", cus.into());
        map.insert("SIMD_NUM", simds.into());
        Values(map)
    }

    /// A total.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }
}

/// A counter by formula.
#[derive(Debug)]
pub struct Derived {
    /// Name.
    pub name: &'static str,
    /// Description.
    pub description: &'static str,
    /// Architectures that have it in this form.
    pub archs: &'static [Arch],
    /// Formula in the SDK's notation.
    pub expression: &'static str,
    /// Basic counters it needs.
    pub needs: &'static [&'static str],
    /// Its value; `None` when an operand is missing or would divide by zero.
    pub value: fn(&Values<'_>) -> Option<f64>,
}

const GFX90A: &[Arch] = &[Arch::Gfx90a];
const GFX94X: &[Arch] = &[Arch::Gfx942, Arch::Gfx950];
const ALL: &[Arch] = &[Arch::Gfx90a, Arch::Gfx942, Arch::Gfx950];

fn ratio(above: f64, below: f64) -> Option<f64> {
    (below != 0.0).then(|| above / below)
}

/// All of them.
pub const DERIVED: &[Derived] = &[
    Derived {
        name: "FETCH_SIZE",
        description: "KiB that the L2 read from the fabric.",
        archs: GFX90A,
        expression: "(reduce(TCC_EA_RDREQ_32B,sum)*32+(reduce(TCC_EA_RDREQ,sum)-reduce(TCC_EA_RDREQ_32B,sum))*64)/1024",
        needs: &["TCC_EA_RDREQ_32B", "TCC_EA_RDREQ"],
        value: |of| {
            let (small, all) = (of.get("TCC_EA_RDREQ_32B")?, of.get("TCC_EA_RDREQ")?);
            Some((small * 32.0 + (all - small) * 64.0) / 1024.0)
        },
    },
    Derived {
        name: "FETCH_SIZE",
        description: "KiB that the L2 read from the fabric.",
        archs: GFX94X,
        expression: "(reduce(TCC_BUBBLE,sum)*128+(reduce(TCC_EA0_RDREQ,sum)-reduce(TCC_BUBBLE,sum)-reduce(TCC_EA0_RDREQ_32B,sum))*64\
                     +reduce(TCC_EA0_RDREQ_32B,sum)*32)/1024",
        needs: &["TCC_BUBBLE", "TCC_EA0_RDREQ", "TCC_EA0_RDREQ_32B"],
        value: |of| {
            let (large, all, small) = (of.get("TCC_BUBBLE")?, of.get("TCC_EA0_RDREQ")?, of.get("TCC_EA0_RDREQ_32B")?);
            Some((large * 128.0 + (all - large - small) * 64.0 + small * 32.0) / 1024.0)
        },
    },
    Derived {
        name: "WRITE_SIZE",
        description: "KiB that the L2 wrote to the fabric.",
        archs: GFX90A,
        expression: "((reduce(TCC_EA_WRREQ,sum)-reduce(TCC_EA_WRREQ_64B,sum))*32+reduce(TCC_EA_WRREQ_64B,sum)*64)/1024",
        needs: &["TCC_EA_WRREQ", "TCC_EA_WRREQ_64B"],
        value: |of| {
            let (all, whole) = (of.get("TCC_EA_WRREQ")?, of.get("TCC_EA_WRREQ_64B")?);
            Some(((all - whole) * 32.0 + whole * 64.0) / 1024.0)
        },
    },
    Derived {
        name: "WRITE_SIZE",
        description: "KiB that the L2 wrote to the fabric.",
        archs: GFX94X,
        expression: "((reduce(TCC_EA0_WRREQ,sum)-reduce(TCC_EA0_WRREQ_64B,sum))*32+reduce(TCC_EA0_WRREQ_64B,sum)*64)/1024",
        needs: &["TCC_EA0_WRREQ", "TCC_EA0_WRREQ_64B"],
        value: |of| {
            let (all, whole) = (of.get("TCC_EA0_WRREQ")?, of.get("TCC_EA0_WRREQ_64B")?);
            Some(((all - whole) * 32.0 + whole * 64.0) / 1024.0)
        },
    },
    Derived {
        name: "L2CacheHit",
        description: "Share of the L2's requests that hit, in percent.",
        archs: GFX90A,
        expression: "100*reduce(TCC_HIT,sum)/(reduce(TCC_HIT,sum)+reduce(TCC_MISS,sum))",
        needs: &["TCC_HIT", "TCC_MISS"],
        value: |of| {
            let (hit, miss) = (of.get("TCC_HIT")?, of.get("TCC_MISS")?);
            ratio(100.0 * hit, hit + miss)
        },
    },
    Derived {
        name: "MfmaFlops",
        description: "Floating-point operations of matrix instructions of f16, bf16, f32 and f64.",
        archs: ALL,
        expression: "512*(reduce(SQ_INSTS_VALU_MFMA_MOPS_F16,sum)+reduce(SQ_INSTS_VALU_MFMA_MOPS_BF16,sum)\
                     +reduce(SQ_INSTS_VALU_MFMA_MOPS_F32,sum)+reduce(SQ_INSTS_VALU_MFMA_MOPS_F64,sum))",
        needs: &[
            "SQ_INSTS_VALU_MFMA_MOPS_F16",
            "SQ_INSTS_VALU_MFMA_MOPS_BF16",
            "SQ_INSTS_VALU_MFMA_MOPS_F32",
            "SQ_INSTS_VALU_MFMA_MOPS_F64",
        ],
        value: |of| {
            let kinds = ["F16", "BF16", "F32", "F64"];
            let sum: Option<f64> = kinds.iter().map(|kind| of.get(&format!("SQ_INSTS_VALU_MFMA_MOPS_{kind}"))).sum();
            Some(512.0 * sum?)
        },
    },
    Derived {
        name: "LDSBankConflict",
        description: "Time that LDS accesses were held up by bank conflicts, in percent of the kernel's.",
        archs: ALL,
        expression: "100*reduce(SQ_LDS_BANK_CONFLICT,sum)/reduce(GRBM_GUI_ACTIVE,max)/CU_NUM",
        needs: &["SQ_LDS_BANK_CONFLICT", "GRBM_GUI_ACTIVE"],
        value: |of| ratio(100.0 * of.get("SQ_LDS_BANK_CONFLICT")?, of.get("GRBM_GUI_ACTIVE")? * of.get("CU_NUM")?),
    },
    Derived {
        name: "MfmaUtil",
        description: "Time that matrix cores were busy, in percent of the kernel's.",
        archs: ALL,
        expression: "100*reduce(SQ_VALU_MFMA_BUSY_CYCLES,sum)/(reduce(GRBM_GUI_ACTIVE,max)*SIMD_NUM)",
        needs: &["SQ_VALU_MFMA_BUSY_CYCLES", "GRBM_GUI_ACTIVE"],
        value: |of| {
            ratio(100.0 * of.get("SQ_VALU_MFMA_BUSY_CYCLES")?, of.get("GRBM_GUI_ACTIVE")? * of.get("SIMD_NUM")?)
        },
    },
    Derived {
        name: "VALUBusy",
        description: "Time that vector ALUs were busy, in percent of the kernel's.",
        archs: ALL,
        expression: "100*reduce(SQ_ACTIVE_INST_VALU,sum)/CU_NUM/reduce(GRBM_GUI_ACTIVE,max)",
        needs: &["SQ_ACTIVE_INST_VALU", "GRBM_GUI_ACTIVE"],
        value: |of| ratio(100.0 * of.get("SQ_ACTIVE_INST_VALU")?, of.get("GRBM_GUI_ACTIVE")? * of.get("CU_NUM")?),
    },
    Derived {
        name: "OccupancyPercent",
        description: "Places for waves that were taken, in percent.",
        archs: ALL,
        expression: "400*reduce(SQ_WAVE_CYCLES,sum)/reduce(GRBM_GUI_ACTIVE,max)/CU_NUM/32",
        needs: &["SQ_WAVE_CYCLES", "GRBM_GUI_ACTIVE"],
        value: |of| ratio(400.0 * of.get("SQ_WAVE_CYCLES")?, of.get("GRBM_GUI_ACTIVE")? * of.get("CU_NUM")? * 32.0),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, arch: Arch, values: &Values<'_>) -> Option<f64> {
        let derived = DERIVED.iter().find(|derived| derived.name == name && derived.archs.contains(&arch)).expect(name);
        (derived.value)(values)
    }

    /// The real SDK 1.0.0 over a device of 304 CUs whose every counter instance read 1000: SQ 32 instances, TCC 128, GRBM 8.
    #[test]
    fn as_the_real_sdk_computed_them() {
        let totals = [
            ("TCC_BUBBLE", 128e3),
            ("TCC_EA0_RDREQ", 128e3),
            ("TCC_EA0_RDREQ_32B", 128e3),
            ("SQ_WAVE_CYCLES", 32e3),
            ("GRBM_GUI_ACTIVE", 1e3),
        ];
        let values = Values::new(totals, 304, 1216);
        assert_eq!(value("FETCH_SIZE", Arch::Gfx942, &values), Some(12000.0));
        let occupancy = value("OccupancyPercent", Arch::Gfx942, &values).unwrap();
        assert!((occupancy - 1.31579).abs() < 1e-5, "{occupancy}");
    }

    #[test]
    fn without_operands_there_is_no_value() {
        let values = Values::new([("TCC_HIT", 0.0), ("TCC_MISS", 0.0), ("SQ_WAVE_CYCLES", 1.0)], 104, 416);
        assert_eq!(value("L2CacheHit", Arch::Gfx90a, &values), None);
        assert_eq!(value("OccupancyPercent", Arch::Gfx90a, &values), None);
        assert_eq!(value("FETCH_SIZE", Arch::Gfx90a, &values), None);
    }
}
