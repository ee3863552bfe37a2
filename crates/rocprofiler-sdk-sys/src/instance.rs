//! The id of a counter record: which counter, and where in its dimensions.
//!
//! Up to 1.2 it is 16 bits of the counter above 8 fields of 6 bits, of which field *d* - 1 is dimension *d*. From 1.3 on
//! the fields have a width that only the SDK knows: [`InstanceIds`] then asks its query functions, and keeps the answers,
//! because a launch has thousands of records with the same few hundred ids.

use crate::session::{Error, check};
use crate::types::{CounterId, dimension};
use crate::{Sdk, Version};
use std::collections::HashMap;

/// The first version with fields of variable width.
const VARIABLE_SINCE: Version = Version::new(1, 3, 0);
/// Bits below the counter.
const POSITION_BITS: u32 = 48;
/// Bits of a dimension.
const FIELD_BITS: u32 = 6;

/// An id of versions 1.0 to 1.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedInstanceId(pub u64);

impl FixedInstanceId {
    /// The counter's number ([`CounterId::base`]).
    pub fn counter(self) -> u16 {
        (self.0 >> POSITION_BITS) as u16
    }

    /// The position in a dimension; `None` for a number that is no dimension. [`dimension::NONE`] gives all 48 bits.
    pub fn position(self, dimension: u64) -> Option<u64> {
        match dimension {
            dimension::NONE => Some(self.0 & ((1 << POSITION_BITS) - 1)),
            dimension::XCC..=dimension::INSTANCE => {
                Some((self.0 >> ((dimension - 1) * u64::from(FIELD_BITS))) & ((1 << FIELD_BITS) - 1))
            }
            _ => None,
        }
    }
}

/// Reads instance ids of one SDK.
#[derive(Debug)]
pub struct InstanceIds {
    sdk: &'static Sdk,
    counters: HashMap<u64, u16>,
    positions: HashMap<(u64, u64), u64>,
}

impl InstanceIds {
    /// A reader without answers yet.
    pub fn new(sdk: &'static Sdk) -> Self {
        Self { sdk, counters: HashMap::new(), positions: HashMap::new() }
    }

    /// Whether ids have the fixed fields of versions before 1.3.
    pub fn are_fixed(&self) -> bool {
        self.sdk.version() < VARIABLE_SINCE
    }

    /// The number of an id's counter ([`CounterId::base`]).
    ///
    /// # Errors
    /// When the SDK does not know the id.
    pub fn counter(&mut self, instance_id: u64) -> Result<u16, Error> {
        if self.are_fixed() {
            return Ok(FixedInstanceId(instance_id).counter());
        }
        if let Some(counter) = self.counters.get(&instance_id) {
            return Ok(*counter);
        }
        let query = self.sdk.query_record_counter_id()?;
        let mut counter = CounterId::NONE;
        // SAFETY: a valid pointer; the function takes any id.
        let status = unsafe { query(instance_id, &mut counter) };
        check(self.sdk, "rocprofiler_query_record_counter_id", status)?;
        self.counters.insert(instance_id, counter.base());
        Ok(counter.base())
    }

    /// The position of an id in one of [`dimension`].
    ///
    /// # Errors
    /// When the SDK does not know the id or the dimension.
    pub fn position(&mut self, instance_id: u64, dimension: u64) -> Result<u64, Error> {
        if self.are_fixed() {
            return FixedInstanceId(instance_id).position(dimension).ok_or(Error::NoDimension { dimension });
        }
        if let Some(position) = self.positions.get(&(instance_id, dimension)) {
            return Ok(*position);
        }
        let query = self.sdk.query_record_dimension_position()?;
        let mut position = 0_usize;
        // SAFETY: a valid pointer; the function takes any id and dimension.
        let status = unsafe { query(instance_id, dimension, &mut position) };
        check(self.sdk, "rocprofiler_query_record_dimension_position", status)?;
        let position = position as u64;
        self.positions.insert((instance_id, dimension), position);
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_fields() {
        // Seen with 1.0.0: the counter in the upper 16 bits, XCC in bits 0 to 5, SE in bits 12 to 17.
        let id = FixedInstanceId((0x1a7 << 48) | (3 << 12) | 5);
        assert_eq!(id.counter(), 0x1a7);
        assert_eq!(id.position(dimension::XCC), Some(5));
        assert_eq!(id.position(dimension::SHADER_ENGINE), Some(3));
        assert_eq!(id.position(dimension::AID), Some(0));
        assert_eq!(id.position(dimension::INSTANCE), Some(0));
        assert_eq!(id.position(dimension::NONE), Some((3 << 12) | 5));
        assert_eq!(id.position(8), None);
        assert_eq!(id.position(u64::MAX), None);
        assert_eq!(FixedInstanceId(0x3f << 36).position(dimension::INSTANCE), Some(63));
    }
}
