//! Processors, and the target that a code object was compiled for.

use crate::error::{Error, Result};
use serde::{Serialize, Serializer};
use std::fmt;

/// A processor of LLVM's AMDGPU back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// LLVM's name, such as `gfx942` or `gfx11-generic`.
    pub name: &'static str,
    /// `EF_AMDGPU_MACH` value in `e_flags`.
    pub mach: u8,
    /// What it is built like.
    pub generation: Generation,
    /// Whether XNACK (retry after a page fault) can be switched.
    pub supports_xnack: bool,
    /// Whether SRAM-ECC can be switched.
    pub supports_sramecc: bool,
}

/// Groups of processors with the same register files, limits and descriptor layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Generation {
    /// GCN 1 to 3: gfx600 to gfx810.
    Gfx6To8,
    /// Vega, and CDNA 1 (gfx908): separate accumulation registers, if any.
    Gfx9,
    /// CDNA 2: gfx90a. Vector and accumulation registers share one file from here on.
    Gfx90a,
    /// CDNA 3: gfx940, gfx941, gfx942.
    Gfx94x,
    /// CDNA 4: gfx950.
    Gfx950,
    /// RDNA 1: gfx1010 to gfx1013.
    Gfx101,
    /// RDNA 2: gfx1030 to gfx1036.
    Gfx103,
    /// RDNA 3 and 3.5 with a vector register file of 1024 per SIMD (wave32).
    Gfx11,
    /// RDNA 3 and 3.5 with a vector register file of 1536 per SIMD (wave32): gfx1100, gfx1101, gfx1151.
    Gfx11Large,
    /// RDNA 4: gfx1200, gfx1201.
    Gfx120,
    /// gfx1250, gfx1251.
    Gfx125,
    /// gfx1310.
    Gfx13,
}

impl Generation {
    /// Vector and accumulation registers in one file, `accum_offset` in the descriptor.
    pub fn has_unified_registers(self) -> bool {
        matches!(self, Generation::Gfx90a | Generation::Gfx94x | Generation::Gfx950)
    }

    /// gfx10 and later: wave32, work-group processors, no SGPR allocation.
    pub fn is_rdna(self) -> bool {
        self >= Generation::Gfx101
    }
}

const fn processor(name: &'static str, mach: u8, generation: Generation) -> Processor {
    Processor { name, mach, generation, supports_xnack: false, supports_sramecc: false }
}

const fn xnack(base: Processor) -> Processor {
    Processor { supports_xnack: true, ..base }
}

const fn sramecc(base: Processor) -> Processor {
    Processor { supports_sramecc: true, ..base }
}

use Generation::{Gfx6To8, Gfx9, Gfx11, Gfx11Large, Gfx13, Gfx90a, Gfx94x, Gfx101, Gfx103, Gfx120, Gfx125, Gfx950};

/// Source: LLVM "User Guide for AMDGPU Backend", tables of processors and of `EF_AMDGPU_MACH` values; values of
/// processors that LLVM 19 knows are checked against its assembler.
const PROCESSORS: &[Processor] = &[
    processor("gfx600", 0x20, Gfx6To8),
    processor("gfx601", 0x21, Gfx6To8),
    processor("gfx602", 0x3a, Gfx6To8),
    processor("gfx700", 0x22, Gfx6To8),
    processor("gfx701", 0x23, Gfx6To8),
    processor("gfx702", 0x24, Gfx6To8),
    processor("gfx703", 0x25, Gfx6To8),
    processor("gfx704", 0x26, Gfx6To8),
    processor("gfx705", 0x3b, Gfx6To8),
    xnack(processor("gfx801", 0x28, Gfx6To8)),
    processor("gfx802", 0x29, Gfx6To8),
    processor("gfx803", 0x2a, Gfx6To8),
    processor("gfx805", 0x3c, Gfx6To8),
    xnack(processor("gfx810", 0x2b, Gfx6To8)),
    xnack(processor("gfx900", 0x2c, Gfx9)),
    xnack(processor("gfx902", 0x2d, Gfx9)),
    xnack(processor("gfx904", 0x2e, Gfx9)),
    sramecc(xnack(processor("gfx906", 0x2f, Gfx9))),
    sramecc(xnack(processor("gfx908", 0x30, Gfx9))),
    xnack(processor("gfx909", 0x31, Gfx9)),
    xnack(processor("gfx90c", 0x32, Gfx9)),
    sramecc(xnack(processor("gfx90a", 0x3f, Gfx90a))),
    sramecc(xnack(processor("gfx940", 0x40, Gfx94x))),
    sramecc(xnack(processor("gfx941", 0x4b, Gfx94x))),
    sramecc(xnack(processor("gfx942", 0x4c, Gfx94x))),
    sramecc(xnack(processor("gfx950", 0x4f, Gfx950))),
    xnack(processor("gfx1010", 0x33, Gfx101)),
    xnack(processor("gfx1011", 0x34, Gfx101)),
    xnack(processor("gfx1012", 0x35, Gfx101)),
    xnack(processor("gfx1013", 0x42, Gfx101)),
    processor("gfx1030", 0x36, Gfx103),
    processor("gfx1031", 0x37, Gfx103),
    processor("gfx1032", 0x38, Gfx103),
    processor("gfx1033", 0x39, Gfx103),
    processor("gfx1034", 0x3e, Gfx103),
    processor("gfx1035", 0x3d, Gfx103),
    processor("gfx1036", 0x45, Gfx103),
    processor("gfx1100", 0x41, Gfx11Large),
    processor("gfx1101", 0x46, Gfx11Large),
    processor("gfx1102", 0x47, Gfx11),
    processor("gfx1103", 0x44, Gfx11),
    processor("gfx1150", 0x43, Gfx11),
    processor("gfx1151", 0x4a, Gfx11Large),
    processor("gfx1152", 0x55, Gfx11),
    processor("gfx1153", 0x58, Gfx11),
    processor("gfx1154", 0x57, Gfx11),
    processor("gfx1170", 0x5d, Gfx11),
    processor("gfx1171", 0x5e, Gfx11),
    processor("gfx1172", 0x5c, Gfx11),
    processor("gfx1200", 0x48, Gfx120),
    processor("gfx1201", 0x4e, Gfx120),
    sramecc(xnack(processor("gfx1250", 0x49, Gfx125))),
    sramecc(xnack(processor("gfx1251", 0x5a, Gfx125))),
    processor("gfx1310", 0x50, Gfx13),
    xnack(processor("gfx9-generic", 0x51, Gfx9)),
    sramecc(xnack(processor("gfx9-4-generic", 0x5f, Gfx94x))),
    xnack(processor("gfx10-1-generic", 0x52, Gfx101)),
    processor("gfx10-3-generic", 0x53, Gfx103),
    processor("gfx11-generic", 0x54, Gfx11),
    processor("gfx11-7-generic", 0x62, Gfx11),
    processor("gfx12-generic", 0x59, Gfx120),
    sramecc(xnack(processor("gfx12-5-generic", 0x5b, Gfx125))),
    processor("gfx13-generic", 0x63, Gfx13),
];

/// Which processors run code for a generic one (LLVM's table of generic processors).
const GENERIC: &[(&str, &[&str])] = &[
    ("gfx9-generic", &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"]),
    ("gfx9-4-generic", &["gfx940", "gfx941", "gfx942", "gfx950"]),
    ("gfx10-1-generic", &["gfx1010", "gfx1011", "gfx1012", "gfx1013"]),
    ("gfx10-3-generic", &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"]),
    (
        "gfx11-generic",
        &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1154"],
    ),
    ("gfx11-7-generic", &["gfx1170", "gfx1171", "gfx1172"]),
    ("gfx12-generic", &["gfx1200", "gfx1201"]),
    ("gfx12-5-generic", &["gfx1250", "gfx1251"]),
    ("gfx13-generic", &["gfx1310"]),
];

impl Processor {
    /// All processors known.
    pub fn all() -> &'static [Processor] {
        PROCESSORS
    }

    /// By LLVM's name.
    pub fn named(name: &str) -> Option<&'static Processor> {
        PROCESSORS.iter().find(|processor| processor.name == name)
    }

    fn by_mach(mach: u8) -> Option<&'static Processor> {
        PROCESSORS.iter().find(|processor| processor.mach == mach)
    }

    /// Whether a device with processor `device` runs code for this one: the same, or a generic one that covers it.
    pub fn runs_on(&self, device: &Processor) -> bool {
        self.name == device.name
            || GENERIC.iter().any(|(generic, members)| *generic == self.name && members.contains(&device.name))
    }
}

/// The setting of a target feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Feature {
    /// The processor has no such switch.
    Unsupported,
    /// The code runs with the feature on or off.
    Any,
    /// The code needs the feature off.
    Off,
    /// The code needs the feature on.
    On,
}

impl Feature {
    fn accepts(self, device: Feature) -> bool {
        matches!(self, Feature::Any | Feature::Unsupported) || self == device
    }

    /// Bits of code objects v4 and later: 0 unsupported, 1 any, 2 off, 3 on.
    fn from_bits(bits: u32) -> Self {
        match bits & 3 {
            0 => Feature::Unsupported,
            1 => Feature::Any,
            2 => Feature::Off,
            _ => Feature::On,
        }
    }

    /// The one bit of code object v3, which knows no "any".
    fn from_v3(set: bool, supported: bool) -> Self {
        match (set, supported) {
            (true, _) => Feature::On,
            (false, true) => Feature::Off,
            (false, false) => Feature::Unsupported,
        }
    }

    fn suffix(self, name: &str) -> String {
        match self {
            Feature::On => format!(":{name}+"),
            Feature::Off => format!(":{name}-"),
            Feature::Any | Feature::Unsupported => String::new(),
        }
    }
}

/// What a code object was compiled for, or what a device is. Its text form is LLVM's target ID: `gfx942:sramecc+:xnack-`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The processor.
    pub processor: &'static Processor,
    /// SRAM-ECC.
    pub sramecc: Feature,
    /// XNACK.
    pub xnack: Feature,
    /// Version of a generic processor (code object v6), 0 for others.
    pub generic_version: u8,
}

impl Target {
    /// From `e_flags` and the code object version.
    pub(crate) fn from_flags(flags: u32, version: CodeObjectVersion) -> Result<Self> {
        let mach = (flags & 0xff) as u8;
        let processor = Processor::by_mach(mach).ok_or_else(|| Error::Unsupported {
            what: format!("processor {mach:#04x} (EF_AMDGPU_MACH of e_flags {flags:#x} at offset 0x30)"),
            instead: "this version of kbench knows gfx6 to gfx13 processors of LLVM's AMDGPU back end",
        })?;
        let (xnack, sramecc) = if version == CodeObjectVersion::V3 {
            (
                Feature::from_v3(flags & 0x100 != 0, processor.supports_xnack),
                Feature::from_v3(flags & 0x200 != 0, processor.supports_sramecc),
            )
        } else {
            (Feature::from_bits(flags >> 8), Feature::from_bits(flags >> 10))
        };
        let generic_version = if version == CodeObjectVersion::V6 { (flags >> 24) as u8 } else { 0 };
        Ok(Self { processor, sramecc, xnack, generic_version })
    }

    /// Reads a target ID such as `gfx942:sramecc+:xnack-`; features that are not named are `Any` where the processor has
    /// the switch. `None` when the processor or a feature is unknown.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let processor = Processor::named(parts.next()?)?;
        let unnamed = |supported: bool| if supported { Feature::Any } else { Feature::Unsupported };
        let mut target = Self {
            processor,
            sramecc: unnamed(processor.supports_sramecc),
            xnack: unnamed(processor.supports_xnack),
            generic_version: 0,
        };
        for part in parts {
            match part {
                "sramecc+" => target.sramecc = Feature::On,
                "sramecc-" => target.sramecc = Feature::Off,
                "xnack+" => target.xnack = Feature::On,
                "xnack-" => target.xnack = Feature::Off,
                _ => return None,
            }
        }
        Some(target)
    }

    /// The processor's name: `gfx942`.
    pub fn name(&self) -> &'static str {
        self.processor.name
    }

    /// What the processor is built like.
    pub fn generation(&self) -> Generation {
        self.processor.generation
    }

    /// Whether a device runs code for this target: the processor fits, and no feature contradicts.
    pub fn runs_on(&self, device: &Target) -> bool {
        self.processor.runs_on(device.processor)
            && self.xnack.accepts(device.xnack)
            && self.sramecc.accepts(device.sramecc)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.processor.name, self.sramecc.suffix("sramecc"), self.xnack.suffix("xnack"))
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The version of the code object ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(into = "u8")]
pub enum CodeObjectVersion {
    /// v3: metadata as msgpack, features as single bits.
    V3,
    /// v4: features can be "any".
    V4,
    /// v5: hidden arguments of 256 bytes.
    V5,
    /// v6: generic processors have versions.
    V6,
}

impl CodeObjectVersion {
    /// From `e_ident[EI_ABIVERSION]`.
    pub(crate) fn from_abi(abi_version: u8) -> Result<Self> {
        match abi_version {
            1 => Ok(CodeObjectVersion::V3),
            2 => Ok(CodeObjectVersion::V4),
            3 => Ok(CodeObjectVersion::V5),
            4 => Ok(CodeObjectVersion::V6),
            0 => Err(Error::Unsupported {
                what: "code object version 2".into(),
                instead: "compile again with a compiler of ROCm 3.0 or later (code object v3 to v6)",
            }),
            other => Err(Error::Unsupported {
                what: format!("AMDGPU HSA ABI version {other} (at offset 0x8)"),
                instead: "versions 1 to 4 (code object v3 to v6) are known: compile with -mcode-object-version=5",
            }),
        }
    }
}

impl From<CodeObjectVersion> for u8 {
    fn from(version: CodeObjectVersion) -> Self {
        match version {
            CodeObjectVersion::V3 => 3,
            CodeObjectVersion::V4 => 4,
            CodeObjectVersion::V5 => 5,
            CodeObjectVersion::V6 => 6,
        }
    }
}

impl fmt::Display for CodeObjectVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", u8::from(*self))
    }
}
