//! Architectures whose counters are known, and the sizes of a device that formulas need.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An architecture's counters. Siblings with the same blocks and names share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// CDNA 2: MI210, MI250, MI250X.
    Gfx90a,
    /// CDNA 3: MI300A, MI300X, MI325X (and gfx940, gfx941).
    Gfx942,
    /// CDNA 4: MI350X, MI355X.
    Gfx950,
    /// RDNA 3: gfx1100 to gfx1103.
    Gfx1100,
    /// RDNA 4: gfx1200, gfx1201.
    Gfx1201,
}

/// A name that is none of the architectures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no counters are known for the architecture `{name}`. Known are gfx90a, gfx942, gfx950, gfx1100 and gfx1201 (and siblings with the same \
     counters); on a device, its own list can still be used"
)]
pub struct UnknownArch {
    /// The name, shortened to what a message can hold.
    pub name: String,
}

impl Arch {
    /// All of them.
    pub const ALL: [Arch; 5] = [Arch::Gfx90a, Arch::Gfx942, Arch::Gfx950, Arch::Gfx1100, Arch::Gfx1201];

    /// Name as LLVM writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::Gfx90a => "gfx90a",
            Arch::Gfx942 => "gfx942",
            Arch::Gfx950 => "gfx950",
            Arch::Gfx1100 => "gfx1100",
            Arch::Gfx1201 => "gfx1201",
        }
    }

    /// True for CDNA, whose waves have 64 lanes and whose matrix instructions are counted.
    pub const fn is_cdna(self) -> bool {
        matches!(self, Arch::Gfx90a | Arch::Gfx942 | Arch::Gfx950)
    }

    /// True when a cache lies between L2 and memory, so that reads of memory need not reach HBM (Infinity Cache).
    pub const fn has_memory_side_cache(self) -> bool {
        !matches!(self, Arch::Gfx90a)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arch {
    type Err = UnknownArch;

    /// Accepts target names with features (`gfx942:sramecc+:xnack-`) and siblings.
    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        let base = text.split(':').next().unwrap_or_default().trim();
        Ok(match base {
            "gfx90a" => Arch::Gfx90a,
            "gfx940" | "gfx941" | "gfx942" => Arch::Gfx942,
            "gfx950" => Arch::Gfx950,
            "gfx1100" | "gfx1101" | "gfx1102" | "gfx1103" => Arch::Gfx1100,
            "gfx1200" | "gfx1201" => Arch::Gfx1201,
            _ => return Err(UnknownArch { name: base.chars().take(40).collect() }),
        })
    }
}

/// Sizes of a device (or of the partition of it that is used) that formulas need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geometry {
    /// Compute units, of all XCCs.
    pub cus: u32,
    /// SIMDs a compute unit.
    pub simds_per_cu: u32,
    /// XCCs (dies of compute units); 1 where there is nothing to tell apart.
    pub xccs: u32,
    /// Lanes of a wave.
    pub wave_size: u32,
    /// Wave slots a compute unit.
    pub max_waves_per_cu: u32,
}

impl Geometry {
    /// SIMDs of all compute units.
    pub const fn simds(&self) -> u64 {
        self.cus as u64 * self.simds_per_cu as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_features_and_siblings_are_read() {
        assert_eq!("gfx942:sramecc+:xnack-".parse(), Ok(Arch::Gfx942));
        assert_eq!("gfx1200".parse(), Ok(Arch::Gfx1201));
        for arch in Arch::ALL {
            assert_eq!(arch.name().parse(), Ok(arch));
        }
        assert_eq!("gfx803".parse::<Arch>().unwrap_err().name, "gfx803");
    }
}
