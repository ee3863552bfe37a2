//! Why a GPU runs slower than it could.

use serde::{Deserialize, Serialize};

/// One kind of reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThrottleReason {
    /// A power limit (PPT).
    Power,
    /// A current limit (TDC, EDC).
    Current,
    /// The GPU's temperature.
    Thermal,
    /// The memory's temperature.
    MemoryThermal,
    /// A voltage regulator's temperature.
    RegulatorThermal,
    /// The board pulled its emergency line (PROCHOT).
    Prochot,
    /// Something else that the driver names: reliability limits (FIT, PPM).
    Other,
    /// Bits whose meaning depends on the GPU and is not known here.
    Unknown,
}

impl ThrottleReason {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Power,
        Self::Current,
        Self::Thermal,
        Self::MemoryThermal,
        Self::RegulatorThermal,
        Self::Prochot,
        Self::Other,
        Self::Unknown,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Power => "power",
            Self::Current => "current",
            Self::Thermal => "thermal",
            Self::MemoryThermal => "memory_thermal",
            Self::RegulatorThermal => "regulator_thermal",
            Self::Prochot => "prochot",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

/// A set of reasons; empty when nothing holds the GPU back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<ThrottleReason>", into = "Vec<ThrottleReason>")]
pub struct ThrottleReasons(u8);

impl ThrottleReasons {
    /// No reason.
    pub const NONE: Self = Self(0);

    /// Whether nothing holds the GPU back.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a reason is among them.
    #[must_use]
    pub fn contains(self, reason: ThrottleReason) -> bool {
        self.0 & 1 << reason as u8 != 0
    }

    /// These and another one.
    #[must_use]
    pub fn with(self, reason: ThrottleReason) -> Self {
        Self(self.0 | 1 << reason as u8)
    }

    /// The reasons of either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// One by one.
    pub fn iter(self) -> impl Iterator<Item = ThrottleReason> {
        ThrottleReason::ALL.into_iter().filter(move |&reason| self.contains(reason))
    }

    /// From `indep_throttle_status` of `gpu_metrics`, whose bits the driver defines for all GPUs alike (`SMU_THROTTLER_*_BIT`): 0-7 power, 16-23 current, from 32 on
    /// temperatures, 46-47 PROCHOT, 56-57 reliability.
    #[must_use]
    pub(crate) fn from_independent(status: u64) -> Self {
        let reason = |bit| match bit {
            0..=7 => ThrottleReason::Power,
            16..=23 => ThrottleReason::Current,
            32 | 33 | 35..=37 | 42 | 43 => ThrottleReason::Thermal,
            34 => ThrottleReason::MemoryThermal,
            38..=41 | 44 | 45 => ThrottleReason::RegulatorThermal,
            46 | 47 => ThrottleReason::Prochot,
            56 | 57 => ThrottleReason::Other,
            _ => ThrottleReason::Unknown,
        };
        Self::from_bits(status, reason)
    }

    /// From `throttle_status` of tables 1.4 and 1.5, which only MI300 writes (`THROTTLER_*_BIT` of its firmware interface).
    #[must_use]
    pub(crate) fn from_mi300(status: u32) -> Self {
        let reason = |bit| match bit {
            0 => ThrottleReason::Prochot,
            1 => ThrottleReason::Power,
            2 => ThrottleReason::Thermal,
            3 => ThrottleReason::RegulatorThermal,
            4 => ThrottleReason::MemoryThermal,
            _ => ThrottleReason::Unknown,
        };
        Self::from_bits(u64::from(status), reason)
    }

    /// From a `throttle_status` whose bits depend on the GPU.
    #[must_use]
    pub(crate) fn from_dependent(status: u32) -> Self {
        Self::from_bits(u64::from(status), |_| ThrottleReason::Unknown)
    }

    fn from_bits(status: u64, reason: impl Fn(u32) -> ThrottleReason) -> Self {
        (0..64).filter(|bit| status >> bit & 1 == 1).fold(Self::NONE, |reasons, bit| reasons.with(reason(bit)))
    }
}

impl From<Vec<ThrottleReason>> for ThrottleReasons {
    fn from(reasons: Vec<ThrottleReason>) -> Self {
        reasons.into_iter().collect()
    }
}

impl From<ThrottleReasons> for Vec<ThrottleReason> {
    fn from(reasons: ThrottleReasons) -> Self {
        reasons.iter().collect()
    }
}

impl FromIterator<ThrottleReason> for ThrottleReasons {
    fn from_iter<I: IntoIterator<Item = ThrottleReason>>(reasons: I) -> Self {
        reasons.into_iter().fold(Self::NONE, Self::with)
    }
}

/// Counters of how long each limit held the GPU back, as tables from 1.6 on have them: only differences mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottleResidency {
    /// Counts on at a fixed rate: the time base of the others.
    pub accumulated: u32,
    /// PROCHOT.
    pub prochot: Option<u32>,
    /// Power limit (PPT).
    pub power: Option<u32>,
    /// Socket temperature.
    pub thermal: Option<u32>,
    /// Regulator temperature.
    pub regulator_thermal: Option<u32>,
    /// Memory temperature.
    pub memory_thermal: Option<u32>,
}

impl ThrottleResidency {
    /// What held the GPU back between an earlier reading and this one. `None` when the counters did not move in between (the table was not renewed).
    #[must_use]
    pub fn reasons_since(&self, earlier: &Self) -> Option<ThrottleReasons> {
        if self.accumulated == earlier.accumulated {
            return None;
        }
        let pairs = [
            (self.prochot, earlier.prochot, ThrottleReason::Prochot),
            (self.power, earlier.power, ThrottleReason::Power),
            (self.thermal, earlier.thermal, ThrottleReason::Thermal),
            (self.regulator_thermal, earlier.regulator_thermal, ThrottleReason::RegulatorThermal),
            (self.memory_thermal, earlier.memory_thermal, ThrottleReason::MemoryThermal),
        ];
        // Counters wrap, so any difference is an increase.
        let grown =
            pairs.into_iter().filter(|(now, before, _)| now.zip(*before).is_some_and(|(now, before)| now != before));
        Some(grown.map(|(_, _, reason)| reason).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThrottleReason::*;

    #[test]
    fn independent_bits_have_the_drivers_meaning() {
        let reasons = |bit: u32| ThrottleReasons::from_independent(1 << bit).iter().collect::<Vec<_>>();
        // Bit numbers of SMU_THROTTLER_{PPT0, TDC_GFX, TEMP_GPU, TEMP_MEM, TEMP_HOTSPOT, TEMP_VR_GFX, VRHOT0, PROCHOT_GFX, FIT} in the driver's amdgpu_smu.h.
        let expected = [
            (0, Power),
            (16, Current),
            (32, Thermal),
            (34, MemoryThermal),
            (36, Thermal),
            (38, RegulatorThermal),
            (44, RegulatorThermal),
            (47, Prochot),
            (57, Other),
            (63, Unknown),
        ];
        for (bit, reason) in expected {
            assert_eq!(reasons(bit), [reason], "bit {bit}");
        }
        assert!(ThrottleReasons::from_independent(0).is_empty());
    }

    #[test]
    fn sets_are_written_as_lists_of_names() {
        let reasons: ThrottleReasons = [Thermal, Power].into_iter().collect();
        let text = serde_json::to_string(&reasons).unwrap();
        assert_eq!(text, r#"["power","thermal"]"#);
        assert_eq!(serde_json::from_str::<ThrottleReasons>(&text).unwrap(), reasons);
        for reason in ThrottleReason::ALL {
            assert_eq!(serde_json::to_string(&reason).unwrap(), format!("\"{}\"", reason.name()));
        }
    }

    #[test]
    fn residencies_mean_something_only_as_differences() {
        let earlier = ThrottleResidency {
            accumulated: 100,
            prochot: Some(0),
            power: Some(u32::MAX),
            thermal: Some(7),
            regulator_thermal: None,
            memory_thermal: None,
        };
        let later = ThrottleResidency { accumulated: 200, power: Some(3), regulator_thermal: Some(5), ..earlier };
        assert_eq!(
            later.reasons_since(&earlier),
            Some([Power].into_iter().collect()),
            "across a wrap; what was unknown stays so"
        );
        assert_eq!(earlier.reasons_since(&earlier), None);
    }
}
