//! `--device`: which device to run on.

use std::fmt;
use std::str::FromStr;

/// A device as the command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceSpec {
    /// The best device this build of kbench can drive.
    Auto,
    /// This machine's CPU.
    Host,
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceSpec::Auto => "auto",
            DeviceSpec::Host => "host",
        })
    }
}

impl FromStr for DeviceSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, _) = text.split_once(':').unwrap_or((text, ""));
        match kind {
            "auto" => Ok(DeviceSpec::Auto),
            "host" => Ok(DeviceSpec::Host),
            "hip" | "emu" => Err(format!(
                "this version of kbench cannot drive `{kind}` devices yet; `--device host` runs the CPU references"
            )),
            _ => Err(format!("`{text}` is no device; known are auto and host")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_explained() {
        for spec in [DeviceSpec::Auto, DeviceSpec::Host] {
            assert_eq!(spec.to_string().parse::<DeviceSpec>(), Ok(spec));
        }
        assert!("hip:0".parse::<DeviceSpec>().unwrap_err().contains("yet"));
        assert!("gpu".parse::<DeviceSpec>().unwrap_err().contains("no device"));
    }
}
