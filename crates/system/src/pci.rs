//! PCI addresses: by these the same GPU is recognised in HIP, sysfs and KFD.

use serde::{Deserialize, Serialize};

/// Domain, bus, device and function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PciAddress {
    /// Domain (segment).
    pub domain: u32,
    /// Bus.
    pub bus: u8,
    /// Device, below 32.
    pub device: u8,
    /// Function, below 8. Partitions of one GPU may differ in it alone.
    pub function: u8,
}

/// A text that is no PCI address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no PCI address; one looks like 0000:c1:00.0")]
pub struct PciAddressError(String);

impl PciAddress {
    /// From KFD's `domain` and `location_id` (bus, device and function in one number).
    #[must_use]
    pub fn from_location(domain: u32, location_id: u32) -> Self {
        let [function_bits, bus, ..] = location_id.to_le_bytes();
        Self { domain, bus, device: function_bits >> 3, function: function_bits & 7 }
    }
}

impl std::fmt::Display for PciAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{:x}", self.domain, self.bus, self.device, self.function)
    }
}

impl std::str::FromStr for PciAddress {
    type Err = PciAddressError;

    /// Reads `dddd:bb:dd.f`; a missing domain is 0.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || PciAddressError(text.chars().take(40).collect());
        let hexadecimal = |digits: &str, most: usize| {
            let plain = !digits.is_empty() && digits.len() <= most && digits.bytes().all(|b| b.is_ascii_hexdigit());
            if plain { u32::from_str_radix(digits, 16).ok() } else { None }
        };
        let (rest, function) = text.rsplit_once('.').ok_or_else(wrong)?;
        let (rest, device) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
        let byte =
            |digits, most| hexadecimal(digits, most).and_then(|value| u8::try_from(value).ok()).ok_or_else(wrong);
        let address = Self {
            domain: hexadecimal(domain, 8).ok_or_else(wrong)?,
            bus: byte(bus, 2)?,
            device: byte(device, 2)?,
            function: byte(function, 1)?,
        };
        if address.device < 32 && address.function < 8 { Ok(address) } else { Err(wrong()) }
    }
}

impl TryFrom<String> for PciAddress {
    type Error = PciAddressError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PciAddress> for String {
    fn from(address: PciAddress) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_read_as_sysfs_and_hip_write_them() {
        let address: PciAddress = "0000:C3:1f.7".parse().unwrap();
        assert_eq!(address, PciAddress { domain: 0, bus: 0xc3, device: 31, function: 7 });
        assert_eq!(address.to_string(), "0000:c3:1f.7");
        assert_eq!("10000:01:00.0".parse::<PciAddress>().unwrap().domain, 0x10000);
        assert_eq!("01:00.0".parse::<PciAddress>().unwrap().domain, 0);
        // A location of a real KFD tree: 49920 = 0xc300.
        assert_eq!(PciAddress::from_location(0, 49920).to_string(), "0000:c3:00.0");
        for wrong in
            ["", "0000:c3:00", "0000:c3:20.0", "0000:c3:00.8", "0000:+3:00.0", "0000:c3c:00.0", "x:c3:00.0", ":c3:00.0"]
        {
            assert!(wrong.parse::<PciAddress>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(domain: u32, location in 0_u32..0x10000) {
            let address = PciAddress::from_location(domain, location);
            prop_assert_eq!(address.to_string().parse::<PciAddress>().unwrap(), address);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _either = text.parse::<PciAddress>();
        }
    }
}
