//! What is known of counters, and configurations of them.

use super::agents::{AgentEntry, leak};
use super::catalog::{Block, Counter, Extent, Sort};
use super::state::{Config, Sdk};
use rocprofiler_sdk_sys::types::*;
use rocprofiler_sdk_sys::{Status, Version};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Arc, Mutex, PoisonError};

/// Structs of version 1 of what is known of a counter, made once for each.
static INFOS: Mutex<Option<HashMap<u64, CounterStrings>>> = Mutex::new(None);

/// Strings of a counter as C has them, and what version 1 points to; all of it lives as long as the process.
#[derive(Clone, Copy)]
struct CounterStrings {
    name: *const c_char,
    description: *const c_char,
    block: *const c_char,
    expression: *const c_char,
    dimensions: (usize, *const *const DimensionInfo),
    instances: (usize, *const *const InstanceInfo),
}

// SAFETY: pointers to leaked, unchanging data.
unsafe impl Send for CounterStrings {}

/// Where an instance is in a dimension (24 bytes).
#[repr(C)]
struct PositionInfo {
    size: u64,
    dimension_name: *const c_char,
    index: usize,
}

/// An instance of a counter (40 bytes).
#[repr(C)]
struct InstanceInfo {
    size: u64,
    instance_id: u64,
    counter_id: u64,
    dimensions_count: u64,
    dimensions: *const *const PositionInfo,
}

/// Version 1 of what is known of a counter: 88 bytes in 1.0, with the last 8 from 1.3.2 on.
#[repr(C)]
#[derive(Clone, Copy)]
struct CounterInfoV1 {
    size: u64,
    id: CounterId,
    name: *const c_char,
    description: *const c_char,
    block: *const c_char,
    expression: *const c_char,
    flags: u64,
    dimensions_count: u64,
    dimensions: *const *const DimensionInfo,
    instances_count: u64,
    instances: *const *const InstanceInfo,
    spm_support: u64,
}

const _: () =
    assert!(size_of::<CounterInfoV1>() == 96 && size_of::<InstanceInfo>() == 40 && size_of::<PositionInfo>() == 24);

/// Name of a dimension.
fn dimension_name(id: u64) -> &'static CStr {
    match id {
        dimension::XCC => c"DIMENSION_XCC",
        dimension::AID => c"DIMENSION_AID",
        dimension::SHADER_ENGINE => c"DIMENSION_SHADER_ENGINE",
        dimension::AGENT => c"DIMENSION_AGENT",
        dimension::SHADER_ARRAY => c"DIMENSION_SHADER_ARRAY",
        dimension::WGP => c"DIMENSION_WGP",
        dimension::INSTANCE => c"DIMENSION_INSTANCE",
        _ => c"DIMENSION_NONE",
    }
}

fn dimension_info(extent: &Extent) -> DimensionInfo {
    DimensionInfo { name: dimension_name(extent.id).as_ptr(), instance_size: extent.size, id: extent.id }
}

/// Leaks a list and a list of pointers to its entries.
fn pointers<T: 'static>(list: Vec<T>) -> (usize, *const *const T) {
    let list: &'static [T] = Vec::leak(list);
    let pointers: &'static [*const T] = Vec::leak(list.iter().map(std::ptr::from_ref).collect());
    (list.len(), pointers.as_ptr())
}

impl Sdk {
    /// A counter by its id: the agent's that the id names, or the first that has the number.
    pub(crate) fn counter(&self, id: CounterId) -> Option<(usize, usize, &Counter)> {
        let (number, agent) = self.encoding.parts(id);
        self.counter_of(number, agent)
    }

    /// The same for a number and an agent's place.
    pub(crate) fn counter_of(&self, number: u16, agent: Option<u32>) -> Option<(usize, usize, &Counter)> {
        let of = |(place, entry): (usize, &'_ AgentEntry)| -> Option<(usize, usize)> {
            let index = entry.counters.iter().position(|counter| counter.id == number)?;
            Some((place, index))
        };
        let agents = self.agents();
        let (place, index) = match agent {
            Some(agent) => of((agent as usize, agents.get(agent as usize)?))?,
            None => agents.iter().enumerate().find_map(of)?,
        };
        Some((place, index, agents.get(place)?.counters.get(index)?))
    }

    fn strings(&self, id: CounterId, place: usize, counter: &Counter) -> CounterStrings {
        let mut infos = INFOS.lock().unwrap_or_else(PoisonError::into_inner);
        *infos.get_or_insert_default().entry(id.handle).or_insert_with(|| {
            let positions = |instance: u64| -> Vec<PositionInfo> {
                let position = |extent: &Extent| PositionInfo {
                    size: size_of::<PositionInfo>() as u64,
                    dimension_name: dimension_name(extent.id).as_ptr(),
                    index: self.encoding.position(instance, Some(counter), extent.id) as usize,
                };
                counter.extents.iter().map(position).collect()
            };
            let instances = (0..counter.instances()).map(|index| {
                let instance_id = self.encoding.instance(counter, place as u32, index);
                let (count, dimensions) = pointers(positions(instance_id));
                let size = size_of::<InstanceInfo>() as u64;
                InstanceInfo { size, instance_id, counter_id: id.handle, dimensions_count: count as u64, dimensions }
            });
            CounterStrings {
                name: leak(&counter.name),
                description: leak(&counter.description),
                block: leak(counter.block()),
                expression: leak(&counter.expression()),
                dimensions: pointers(counter.extents.iter().map(dimension_info).collect()),
                instances: pointers(instances.collect()),
            }
        })
    }

    /// Fills a struct of one of the versions.
    ///
    /// # Safety
    /// Room for as many bytes as this version of the SDK writes.
    pub(crate) unsafe fn counter_info(&self, id: CounterId, version: i32, info: *mut c_void) -> Status {
        if ![COUNTER_INFO_V0, COUNTER_INFO_V1].contains(&version) {
            return Status::INCOMPATIBLE_ABI;
        }
        let Some((place, _, counter)) = self.counter(id) else { return Status::COUNTER_NOT_FOUND };
        let strings = self.strings(id, place, counter);
        let constant = if matches!(counter.sort, Sort::Constant(_)) { COUNTER_IS_CONSTANT } else { 0 };
        let derived = if matches!(counter.sort, Sort::Sum(..) | Sort::Derived(_)) { COUNTER_IS_DERIVED } else { 0 };
        let CounterStrings { name, description, block, expression, dimensions, instances } = strings;
        if version == COUNTER_INFO_V0 {
            let flags = constant | derived;
            // SAFETY: room for this struct.
            unsafe {
                info.cast::<CounterInfoV0>().write_unaligned(CounterInfoV0 {
                    id,
                    name,
                    description,
                    block,
                    expression,
                    flags,
                })
            };
            return Status::SUCCESS;
        }
        let size = if self.version >= Version::new(1, 3, 2) { 96 } else { 88 };
        let whole = CounterInfoV1 {
            size: size as u64,
            id,
            name,
            description,
            block,
            expression,
            flags: u64::from(constant | derived),
            dimensions_count: dimensions.0 as u64,
            dimensions: dimensions.1,
            instances_count: instances.0 as u64,
            instances: instances.1,
            spm_support: 0,
        };
        let from: *const CounterInfoV1 = &whole;
        // SAFETY: room for the bytes of this version.
        unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), info.cast::<u8>(), size) };
        Status::SUCCESS
    }

    /// A counter's dimensions.
    pub(crate) fn dimensions(&self, id: CounterId) -> Option<Vec<DimensionInfo>> {
        let (_, _, counter) = self.counter(id)?;
        Some(counter.extents.iter().map(dimension_info).collect())
    }

    /// Makes a configuration of counters, after those of `base`.
    pub(crate) fn create_config(
        &self,
        agent: AgentId,
        wanted: &[CounterId],
        base: u64,
    ) -> Result<CounterConfigId, Status> {
        let (place, entry) = self.agent(agent).ok_or(Status::AGENT_NOT_FOUND)?;
        let mut counters: Vec<usize> = Vec::new();
        if base != 0 {
            let base = self.lock().configs.get(&base).cloned().ok_or(Status::CONFIG_NOT_FOUND)?;
            if base.agent != place {
                return Err(Status::AGENT_MISMATCH);
            }
            counters.extend_from_slice(&base.counters);
        }
        for id in wanted {
            let (number, of) = self.encoding.parts(*id);
            let is_there = of.is_none_or(|of| of as usize == place);
            match self.counter_of(number, Some(place as u32)).filter(|_| is_there) {
                Some((_, index, _)) if counters.contains(&index) => {}
                Some((_, index, _)) => counters.push(index),
                None if self.counter(*id).is_some() => return Err(Status::METRIC_NOT_VALID_FOR_AGENT),
                None => return Err(Status::COUNTER_NOT_FOUND),
            }
        }
        if !fits(entry, &counters) {
            return Err(Status::EXCEEDS_HW_LIMIT);
        }
        let mut inner = self.lock();
        let handle = inner.next_id();
        inner.configs.insert(handle, Arc::new(Config { agent: place, counters }));
        Ok(CounterConfigId { handle })
    }
}

/// Whether every block has registers enough for its distinct events.
fn fits(entry: &AgentEntry, counters: &[usize]) -> bool {
    let mut events: BTreeMap<&'static str, (usize, BTreeSet<&str>)> = BTreeMap::new();
    for counter in counters.iter().filter_map(|counter| entry.counters.get(*counter)) {
        for event in counter.events() {
            let Some(block) = block_of(entry, event) else { continue };
            events.entry(block.name()).or_insert_with(|| (block.limit(), BTreeSet::new())).1.insert(event);
        }
    }
    events.values().all(|(limit, events)| events.len() <= *limit)
}

fn block_of(entry: &AgentEntry, event: &str) -> Option<Block> {
    entry.counters.iter().find_map(|counter| match counter.sort {
        Sort::Basic(block) if counter.name == event => Some(block),
        _ => None,
    })
}
