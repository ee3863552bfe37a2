//! Ids of counters and of their instances, in the encodings of the SDK's versions.

use super::catalog::Counter;
use rocprofiler_sdk_sys::Version;
use rocprofiler_sdk_sys::types::{CounterId, dimension};

/// How ids are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// 1.0: counters are their number; instances have 16 bits of it above 8 fields of 6 bits.
    Plain,
    /// 1.1 and 1.2: the same, with the agent in bits 32 and up of a counter's id, and in the field of the agent's dimension.
    WithAgent,
    /// 1.3 and later: instances have fields as wide as the counter's dimensions need. The real fields are not public
    /// interface: these are this emulator's own.
    Variable,
}

/// Bits below the counter in ids of fixed fields.
const POSITION_BITS: u32 = 48;
/// Bits of a fixed field.
const FIELD_BITS: u64 = 6;
/// Where the agent stands in a counter's id.
const AGENT_SHIFT: u32 = 32;
/// Agents that can be told apart, with 0 for none.
const AGENT_MASK: u64 = 0x3f;
/// Variable fields begin here, above the counter and the agent.
const VARIABLE_SHIFT: u32 = 22;

impl Encoding {
    /// That of a version.
    pub(crate) fn of(version: Version) -> Self {
        match version {
            version if version < Version::new(1, 1, 0) => Encoding::Plain,
            version if version < Version::new(1, 3, 0) => Encoding::WithAgent,
            _ => Encoding::Variable,
        }
    }

    /// The id of a counter of the agent at a place among all agents.
    pub(crate) fn counter(self, number: u16, agent: u32) -> CounterId {
        let agent = if self == Encoding::Plain { 0 } else { u64::from(agent) + 1 };
        CounterId { handle: u64::from(number) | (agent & AGENT_MASK) << AGENT_SHIFT }
    }

    /// Counter number and agent place of a counter's id; no agent when the id has none.
    pub(crate) fn parts(self, id: CounterId) -> (u16, Option<u32>) {
        let agent = (id.handle >> AGENT_SHIFT) & AGENT_MASK;
        (id.base(), agent.checked_sub(1).map(|agent| agent as u32))
    }

    /// The id of an instance of a counter, instances counted with the counter's first dimension fastest.
    pub(crate) fn instance(self, counter: &Counter, agent: u32, index: usize) -> u64 {
        let positions = positions(counter, index);
        match self {
            Encoding::Plain | Encoding::WithAgent => {
                let fields = positions.map(|(id, position)| position << ((id - 1) * FIELD_BITS));
                let agent = if self == Encoding::Plain { 0 } else { (u64::from(agent) + 1) & AGENT_MASK };
                let agent = agent << ((dimension::AGENT - 1) * FIELD_BITS);
                fields.fold(agent, |bits, field| bits | field) | u64::from(counter.id) << POSITION_BITS
            }
            Encoding::Variable => {
                let mut bits = u64::from(counter.id) | ((u64::from(agent) + 1) & AGENT_MASK) << 16;
                let mut shift = VARIABLE_SHIFT;
                for (extent, (_, position)) in counter.extents.iter().zip(positions) {
                    bits |= position << shift;
                    shift += width(extent.size);
                }
                bits
            }
        }
    }

    /// Counter number and agent place of an instance's id.
    pub(crate) fn instance_counter(self, id: u64) -> (u16, Option<u32>) {
        let (number, agent) = match self {
            Encoding::Plain => (id >> POSITION_BITS, 0),
            Encoding::WithAgent => (id >> POSITION_BITS, (id >> ((dimension::AGENT - 1) * FIELD_BITS)) & AGENT_MASK),
            Encoding::Variable => (id & 0xffff, (id >> 16) & AGENT_MASK),
        };
        ((number & 0xffff) as u16, agent.checked_sub(1).map(|agent| agent as u32))
    }

    /// The position of an instance of a counter in a dimension; 0 in one that the counter does not have.
    pub(crate) fn position(self, id: u64, counter: Option<&Counter>, wanted: u64) -> u64 {
        match self {
            Encoding::Plain | Encoding::WithAgent => match wanted {
                dimension::NONE => id & ((1 << POSITION_BITS) - 1),
                wanted => (id >> ((wanted - 1) * FIELD_BITS)) & ((1 << FIELD_BITS) - 1),
            },
            Encoding::Variable => {
                let mut shift = VARIABLE_SHIFT;
                for extent in counter.map_or(&[][..], |counter| &counter.extents) {
                    let bits = width(extent.size);
                    if extent.id == wanted {
                        return (id >> shift) & ((1 << bits) - 1);
                    }
                    shift += bits;
                }
                0
            }
        }
    }
}

/// Dimensions and positions of an instance.
fn positions(counter: &Counter, index: usize) -> impl Iterator<Item = (u64, u64)> {
    counter.extents.iter().scan(index, |left, extent| {
        let position = *left % extent.size;
        *left /= extent.size;
        Some((extent.id, position as u64))
    })
}

/// Bits that positions of a dimension need.
fn width(size: usize) -> u32 {
    usize::BITS - size.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdk::catalog::counters;
    use kbench_gfx_emu::model::Model;
    use rocprofiler_sdk_sys::instance::FixedInstanceId;
    use std::collections::HashSet;

    #[test]
    fn ids_come_back_apart_in_every_version() {
        let list = counters(Model::named("mi300x").unwrap());
        for version in [Version::new(1, 0, 0), Version::new(1, 1, 0), Version::new(1, 3, 2)] {
            let encoding = Encoding::of(version);
            let mut seen = HashSet::new();
            for counter in &list {
                for index in 0..counter.instances() {
                    let id = encoding.instance(counter, 2, index);
                    assert!(seen.insert(id), "{version} {} {index}", counter.name);
                    let (number, agent) = encoding.instance_counter(id);
                    assert_eq!((number, agent.unwrap_or(2)), (counter.id, 2));
                    let read: Vec<u64> =
                        counter.extents.iter().map(|extent| encoding.position(id, Some(counter), extent.id)).collect();
                    let expected: Vec<u64> = positions(counter, index).map(|(_, position)| position).collect();
                    assert_eq!(read, expected);
                    if encoding != Encoding::Variable {
                        // What a tool that decodes by itself reads.
                        assert_eq!(FixedInstanceId(id).counter(), counter.id);
                        assert!(counter.extents.iter().all(|extent| {
                            FixedInstanceId(id).position(extent.id)
                                == Some(encoding.position(id, Some(counter), extent.id))
                        }));
                    }
                }
            }
        }
    }

    #[test]
    fn counters_have_their_agent_from_1_1_on() {
        assert_eq!(Encoding::Plain.counter(1005, 1), CounterId { handle: 1005 });
        assert_eq!(Encoding::WithAgent.counter(1005, 1), CounterId { handle: (2 << 32) | 1005 });
        assert_eq!(Encoding::WithAgent.parts(CounterId { handle: (2 << 32) | 1005 }), (1005, Some(1)));
        assert_eq!(Encoding::WithAgent.parts(CounterId { handle: 1005 }), (1005, None));
    }
}
