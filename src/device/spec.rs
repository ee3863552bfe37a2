//! `--device`: which device to run on.

use kbench_gfx_emu::model::Model;
use std::fmt;
use std::str::FromStr;

/// A device as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    /// The first real GPU, else the emulated MI300X.
    Auto,
    /// A real GPU, by HIP's number.
    Hip(u32),
    /// Every real GPU: cases are handed to the one that is free.
    HipAll,
    /// An emulated GPU, by its model's name.
    Emu(String),
    /// This machine's CPU.
    Host,
}

/// The model that `auto` and a plain `emu` take.
pub const DEFAULT_MODEL: &str = "mi300x";

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceSpec::Auto => f.write_str("auto"),
            DeviceSpec::Hip(ordinal) => write!(f, "hip:{ordinal}"),
            DeviceSpec::HipAll => f.write_str("hip:all"),
            DeviceSpec::Emu(model) => write!(f, "emu:{model}"),
            DeviceSpec::Host => f.write_str("host"),
        }
    }
}

impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, which) = text.split_once(':').unwrap_or((text, ""));
        match (kind, which) {
            ("auto", "") => Ok(DeviceSpec::Auto),
            ("host", "") => Ok(DeviceSpec::Host),
            ("emu", "") => Ok(DeviceSpec::Emu(DEFAULT_MODEL.to_owned())),
            ("emu", model) => match Model::named(model) {
                Ok(_) => Ok(DeviceSpec::Emu(model.to_owned())),
                Err(error) => Err(error.to_string()),
            },
            ("hip", "") => Ok(DeviceSpec::Hip(0)),
            ("hip", "all") => Ok(DeviceSpec::HipAll),
            ("hip", which) => which.parse().map(DeviceSpec::Hip).map_err(|_| {
                format!(
                    "`{which}` is no number of a GPU: hip:0 is the first, hip:all are all (`kbench devices` lists them)"
                )
            }),
            _ => Err(format!("`{text}` is no device; known are auto, hip[:N|:all], emu[:MODEL] and host")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_explained() {
        let emu = DeviceSpec::Emu("mi300x".to_owned());
        for spec in
            [DeviceSpec::Auto, DeviceSpec::Hip(0), DeviceSpec::Hip(7), DeviceSpec::HipAll, emu, DeviceSpec::Host]
        {
            assert_eq!(spec.to_string().parse::<DeviceSpec>(), Ok(spec));
        }
        assert_eq!("hip".parse::<DeviceSpec>(), Ok(DeviceSpec::Hip(0)));
        assert!("hip:first".parse::<DeviceSpec>().unwrap_err().contains("hip:0"));
        assert_eq!("emu".parse::<DeviceSpec>().unwrap().to_string(), "emu:mi300x");
        assert!("emu:mi1".parse::<DeviceSpec>().is_err());
        assert!("gpu".parse::<DeviceSpec>().unwrap_err().contains("no device"));
    }
}
