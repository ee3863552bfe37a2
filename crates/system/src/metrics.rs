//! `gpu_metrics`: the table of the GPU's firmware that amdgpu passes on in binary.
//!
//! Layouts are those of the kernel's `kgd_pp_interface.h`, in natural C alignment, little-endian. A table begins with its size (16 bits), its format and its content
//! revision; each pair of these has a layout of its own, and only the very same size is taken for it. The driver fills with ones what it does not know.

use serde::{Deserialize, Serialize};

use crate::throttle::{ThrottleReasons, ThrottleResidency};

/// The most clocks of XCDs in a table.
const XCDS: usize = 8;

/// The figures of a table that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuMetrics {
    /// Format and content revision of the table.
    pub revision: (u8, u8),
    /// Temperature of the hottest spot, °C.
    pub hotspot_c: Option<u16>,
    /// Temperature of the memory, °C.
    pub memory_c: Option<u16>,
    /// Power of the socket, W.
    pub power_w: Option<u16>,
    /// Share of time in which the shaders were busy, %.
    pub busy_percent: Option<u16>,
    /// Share of time in which the memory controller was busy, %.
    pub memory_busy_percent: Option<u16>,
    /// Current engine clocks, MHz: one an XCD, or a single one.
    pub engine_clocks_mhz: [Option<u16>; XCDS],
    /// Current memory clock, MHz.
    pub memory_clock_mhz: Option<u16>,
    /// What holds the GPU back now; `None` in tables that count residencies instead.
    pub throttle: Option<ThrottleReasons>,
    /// How long limits held it back, in tables that count it.
    pub residency: Option<ThrottleResidency>,
}

/// A table that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetricsError {
    /// Shorter than its own header says.
    #[error("the gpu_metrics table is cut off: {found} bytes")]
    Short {
        /// Bytes there are.
        found: usize,
    },
    /// A revision without a known layout, or with another size than that revision has.
    #[error("gpu_metrics tables of revision {format}.{content} and {size} bytes are not known")]
    Unknown {
        /// Format revision.
        format: u8,
        /// Content revision.
        content: u8,
        /// Size in the header.
        size: u16,
    },
}

/// Where the figures of one revision are; offset 0 (the header) stands for "not in it".
struct Layout {
    size: u16,
    hotspot: usize,
    memory_temperature: usize,
    power: usize,
    activity: usize,
    memory_activity: usize,
    /// First engine clock, and how many there are.
    engine_clocks: (usize, usize),
    memory_clock: usize,
    throttle: Throttle,
    /// Divides temperatures, activities: 100 where they are in hundredths.
    hundredths: bool,
    /// Power is in mW.
    milliwatts: bool,
}

/// How a revision says what holds the GPU back.
enum Throttle {
    /// 32 bits that depend on the GPU.
    Dependent(usize),
    /// 32 bits with MI300's meaning.
    Mi300(usize),
    /// 64 bits with the same meaning everywhere.
    Independent(usize),
    /// Six counters.
    Residency(usize),
}

impl Layout {
    /// The layout of a revision.
    fn of(format: u8, content: u8) -> Option<Self> {
        let v1 = Self {
            size: 120,
            hotspot: 6,
            memory_temperature: 8,
            power: 22,
            activity: 16,
            memory_activity: 18,
            engine_clocks: (54, 1),
            memory_clock: 58,
            throttle: Throttle::Dependent(68),
            hundredths: false,
            milliwatts: false,
        };
        // From 1.4 on, as MI300 writes it.
        let multi = |size, clocks: usize, throttle| Self {
            size,
            hotspot: 4,
            memory_temperature: 6,
            power: 10,
            activity: 12,
            memory_activity: 14,
            engine_clocks: (clocks, XCDS),
            // Behind the engine clocks lie four clocks each of SOC, VCLK0 and DCLK0.
            memory_clock: clocks + 2 * XCDS + 3 * 8,
            throttle,
            hundredths: false,
            milliwatts: false,
        };
        // APUs. The units of temperature, power and activity are stated only for 2.4, so only that one's are read.
        let apu = |size, clocks, throttle| Self {
            size,
            hotspot: 0,
            memory_temperature: 0,
            power: 0,
            activity: 0,
            memory_activity: 0,
            engine_clocks: (clocks, 1),
            memory_clock: clocks + 4,
            throttle,
            hundredths: true,
            milliwatts: true,
        };
        Some(match (format, content) {
            (1, 0) => Self {
                size: 80,
                hotspot: 18,
                memory_temperature: 20,
                power: 34,
                activity: 28,
                memory_activity: 30,
                ..v1
            },
            (1, 1) => Self { size: 96, ..v1 },
            (1, 2) => Self { size: 104, ..v1 },
            (1, 3) => Self { throttle: Throttle::Independent(112), ..v1 },
            (1, 4) => multi(288, 240, Throttle::Mi300(40)),
            (1, 5) => multi(328, 280, Throttle::Mi300(72)),
            (1, 6) => multi(1664, 264, Throttle::Residency(32)),
            (1, 7) => multi(2208, 296, Throttle::Residency(40)),
            (1, 8) => multi(3360, 296, Throttle::Residency(40)),
            (2, 0) => apu(120, 80, Throttle::Dependent(112)),
            (2, 1) => apu(120, 76, Throttle::Dependent(108)),
            (2, 2) => apu(128, 76, Throttle::Independent(120)),
            (2, 3) => apu(152, 76, Throttle::Independent(120)),
            (2, 4) => Self { hotspot: 4, power: 40, activity: 28, ..apu(168, 76, Throttle::Independent(120)) },
            _ => return None,
        })
    }
}

impl GpuMetrics {
    /// Reads a table.
    ///
    /// # Errors
    /// [`MetricsError`] for tables that are cut off or of an unknown revision.
    pub fn parse(table: &[u8]) -> Result<Self, MetricsError> {
        let short = MetricsError::Short { found: table.len() };
        let [low, high, format, content] = *table.first_chunk::<4>().ok_or(short)?;
        let size = u16::from_le_bytes([low, high]);
        let unknown = MetricsError::Unknown { format, content, size };
        let layout = Layout::of(format, content).filter(|layout| layout.size == size).ok_or(unknown)?;
        let table = table.get(..usize::from(size)).ok_or(short)?;

        let hundredths = |value: u16| if layout.hundredths { value / 100 } else { value };
        let (first_clock, clocks) = layout.engine_clocks;
        let clock = |xcd: usize| if xcd < clocks { half(table, first_clock + 2 * xcd) } else { None };
        let (throttle, residency) = match layout.throttle {
            Throttle::Dependent(at) => (word(table, at).map(ThrottleReasons::from_dependent), None),
            Throttle::Mi300(at) => (word(table, at).map(ThrottleReasons::from_mi300), None),
            Throttle::Independent(at) => (double(table, at).map(ThrottleReasons::from_independent), None),
            Throttle::Residency(at) => (None, residency(table, at)),
        };
        Ok(Self {
            revision: (format, content),
            hotspot_c: half(table, layout.hotspot).map(hundredths),
            memory_c: half(table, layout.memory_temperature).map(hundredths),
            power_w: half(table, layout.power).map(|power| if layout.milliwatts { power / 1000 } else { power }),
            busy_percent: half(table, layout.activity).map(hundredths),
            memory_busy_percent: half(table, layout.memory_activity).map(hundredths),
            engine_clocks_mhz: std::array::from_fn(clock),
            memory_clock_mhz: half(table, layout.memory_clock),
            throttle,
            residency,
        })
    }

    /// The slowest XCD's clock, MHz: the one that a kernel spread over all of them waits for. Clocks of 0 are XCDs that are not there.
    #[must_use]
    pub fn slowest_engine_clock_mhz(&self) -> Option<u16> {
        self.engine_clocks_mhz.iter().flatten().copied().filter(|&clock| clock > 0).min()
    }
}

/// A number of `N` bytes; nothing at offset 0, and nothing for all ones.
fn bytes<const N: usize>(table: &[u8], at: usize) -> Option<[u8; N]> {
    let bytes = *table.get(at..)?.first_chunk::<N>()?;
    (at != 0 && bytes != [0xff; N]).then_some(bytes)
}

fn half(table: &[u8], at: usize) -> Option<u16> {
    bytes(table, at).map(u16::from_le_bytes)
}

fn word(table: &[u8], at: usize) -> Option<u32> {
    bytes(table, at).map(u32::from_le_bytes)
}

fn double(table: &[u8], at: usize) -> Option<u64> {
    bytes(table, at).map(u64::from_le_bytes)
}

/// The time base, then PROCHOT, power, socket, regulator and memory.
fn residency(table: &[u8], at: usize) -> Option<ThrottleResidency> {
    Some(ThrottleResidency {
        accumulated: word(table, at)?,
        prochot: word(table, at + 4),
        power: word(table, at + 8),
        thermal: word(table, at + 12),
        regulator_thermal: word(table, at + 16),
        memory_thermal: word(table, at + 20),
    })
}

#[cfg(test)]
mod tests;
