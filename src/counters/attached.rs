//! A device that is counted: what it can count, the passes, and what the arrivals of a case say.

use super::combine::{Nature, in_sequence, is_sum};
use super::profiler::{CaseCounters, CaseFacts, ProfilerError};
use super::request::{OwnCounter, What, catalog};
use super::shared::{Shared, demangled};
use kbench_counters::collect::{Arrivals, Collector, Launch, Reconciliation, Sums};
use kbench_counters::metric::{self, Cache, ColdVerdict, Kind, Measured, check, report, verify_cold};
use kbench_counters::plan::{GUARDS, Oracle, Plan, PlanError};
use kbench_counters::ring::Summary;
use kbench_counters::{Catalog, Geometry, rocprofv3};
use rocprofiler_sdk_sys::Sdk;
use rocprofiler_sdk_sys::session::{self, Agent, CounterConfig, Dispatch};
use rocprofiler_sdk_sys::types::CounterId;
use std::collections::{BTreeMap, HashMap};

/// A counted launch: its place in the case's sequence, and what the SDK says of it.
pub(super) struct Launched {
    pub(super) step: usize,
    pub(super) launch: Launch,
    pub(super) dispatch: Dispatch,
}

/// A device as the SDK knows it, and what can be asked of it.
pub(super) struct Counted {
    sdk: &'static Sdk,
    agent: Agent,
    known: Vec<session::Counter>,
    /// The built-in catalogue with what only the device knows.
    catalog: Catalog,
}

impl Counted {
    /// Asks the SDK for the device's own list.
    pub(super) fn new(sdk: &'static Sdk, agent: Agent, arch: &str) -> Result<Self, ProfilerError> {
        let mut catalog = catalog(arch)?;
        let known = session::supported_counters(sdk, agent.id)?;
        let own: Vec<OwnCounter> = known.iter().map(own).collect();
        catalog.add(own.iter().map(OwnCounter::described));
        Ok(Self { sdk, agent, known, catalog })
    }

    /// Its own list.
    pub(super) fn list(&self) -> Vec<OwnCounter> {
        self.known.iter().map(own).collect()
    }

    /// Passes for a request, confirmed by the SDK, and the names that were asked for.
    pub(super) fn plan(&self, what: &What) -> Result<(Plan, Vec<String>), ProfilerError> {
        let names = what.names(&self.catalog)?;
        let ids = self.ids();
        let mut oracle = AgentOracle { sdk: self.sdk, agent: &self.agent, ids: &ids };
        let plan = Plan::confirmed(&self.catalog, names.iter().map(String::as_str), &mut oracle);
        let plan = plan.map_err(|error: PlanError<session::Error>| ProfilerError::Plan(error.to_string()))?;
        Ok((plan, names))
    }

    fn ids(&self) -> HashMap<&str, CounterId> {
        self.known.iter().map(|counter| (counter.name.as_str(), counter.id)).collect()
    }

    /// The counters that several launches' values do not add up of.
    fn natures(&self) -> BTreeMap<String, Nature> {
        let is_count =
            |name: &str| self.known.iter().any(|known| known.name == name && !known.is_derived && !known.is_constant);
        let of = |counter: &session::Counter| {
            if counter.is_constant {
                Nature::Constant
            } else if counter.is_derived && !is_sum(&counter.expression, is_count) {
                Nature::Derived
            } else {
                Nature::Count
            }
        };
        self.known.iter().map(|counter| (counter.name.clone(), of(counter))).collect()
    }
}

fn own(counter: &session::Counter) -> OwnCounter {
    OwnCounter {
        name: counter.name.clone(),
        block: counter.block.clone(),
        description: counter.description.clone(),
        expression: counter.expression.clone(),
    }
}

/// What is known once the device is.
pub(super) struct Attached {
    catalog: Catalog,
    names: Vec<String>,
    pub(super) plan: Plan,
    pub(super) configs: Vec<CounterConfig>,
    /// Counters of all passes, in the order of the collection's list.
    pub(super) counters: Vec<String>,
    geometry: Geometry,
    agent: Agent,
    is_emulated: bool,
    /// Counters that are no counts.
    natures: BTreeMap<String, Nature>,
}

impl Attached {
    /// Plans a request on a device, and makes the configurations of its passes. The callbacks are told which counters they hand over.
    pub(super) fn new(device: Counted, what: &What, is_emulated: bool, shared: &Shared) -> Result<Self, ProfilerError> {
        let (plan, names) = device.plan(what)?;
        let ids = device.ids();
        let mut counters: Vec<String> = Vec::new();
        let mut configs = Vec::new();
        for pass in &plan.passes {
            let list: Vec<CounterId> = pass.counters.iter().filter_map(|name| sdk_id(&ids, name)).collect();
            configs.push(CounterConfig::new(device.sdk, device.agent.id, &list)?);
            for name in &pass.counters {
                if !counters.contains(name) {
                    counters.push(name.clone());
                }
            }
        }
        if configs.is_empty() {
            let refused = plan.placements.iter().map(|(name, place)| match place.refusal() {
                Some(why) => format!("{name}: {why}"),
                None => format!("{name}: no pass has it"),
            });
            return Err(ProfilerError::Nothing(refused.collect::<Vec<_>>().join("; ")));
        }
        shared.set_counters(counters.iter().map(|name| sdk_id(&ids, name).map_or(u16::MAX, CounterId::base)));
        let natures = device.natures();
        let Counted { agent, catalog, .. } = device;
        let geometry = Geometry {
            cus: agent.cus,
            simds_per_cu: agent.simds_per_cu,
            xccs: agent.xccs.max(1),
            wave_size: agent.wave_size,
            max_waves_per_cu: agent.max_waves_per_simd.saturating_mul(agent.simds_per_cu),
        };
        Ok(Self { catalog, names, plan, configs, counters, geometry, agent, is_emulated, natures })
    }

    /// Values, metrics and what is missing, from what arrived of all launches, held against what the case must do.
    pub(super) fn evaluate(
        &self,
        launched: &[Launched],
        mut arrivals: Arrivals,
        facts: &CaseFacts,
        kind: &dyn Fn(&str) -> Kind,
        ring: Summary,
    ) -> CaseCounters {
        let mut by_step: BTreeMap<usize, Vec<Launch>> = BTreeMap::new();
        for Launched { step, launch, .. } in launched {
            by_step.entry(*step).or_default().push(*launch);
        }
        let parts: Vec<Arrivals> = by_step
            .values()
            .map(|launches| arrivals.split_off(launches.iter().map(|launch| launch.dispatch_id)))
            .collect();
        let steps = by_step.len();
        let mut reconciliation = Reconciliation::default();
        let mut incomplete = Vec::new();
        let mut measured: Vec<Measured> = Vec::new();
        for ((step, launches), part) in by_step.into_iter().zip(parts) {
            let mut collector = Collector::with(self.plan.clone(), self.counters.clone(), part);
            launches.into_iter().for_each(|launch| collector.launched(launch));
            let collected = collector.finish(self.geometry, kind);
            let place = if steps > 1 { format!("launch {} of the case: ", step + 1) } else { String::new() };
            let told = collected.reconciliation.describe(Some(&ring));
            incomplete.extend(told.into_iter().map(|sentence| format!("{place}{sentence}")));
            add(&mut reconciliation, collected.reconciliation);
            measured.push(collected.measured);
        }
        // What is left belongs to no launch, or is none.
        let strange = Collector::with(self.plan.clone(), self.counters.clone(), arrivals);
        let strange = strange.finish(self.geometry, kind).reconciliation;
        incomplete.extend(strange.describe(Some(&ring)));
        add(&mut reconciliation, strange);
        let empty = || Measured {
            passes: Vec::new(),
            geometry: self.geometry,
            duration_ns: None,
            unavailable: BTreeMap::new(),
        };
        let together = in_sequence(measured, &|name| self.nature(name)).unwrap_or_else(empty);
        let measured = Measured { duration_ns: facts.duration_ns, ..together };
        let guards = GUARDS.iter().copied();
        let names = self.names.iter().map(String::as_str).chain(guards.filter(|name| self.is_counted(name)));
        let mut entries = report(&self.catalog, &measured, names);
        let cold = self.compare(&mut entries, &measured, facts);
        CaseCounters {
            entries,
            passes: self.plan.passes.iter().map(|pass| pass.counters.clone()).collect(),
            confirmed: self.plan.confirmed,
            reconciliation,
            ring,
            incomplete,
            counted_ns: measured.passes.iter().find_map(|pass| pass.counted_ns),
            cold,
            records: None,
        }
    }

    /// Marks what disagrees with what the case must do; whether a case that was to be cold was.
    fn compare(
        &self,
        entries: &mut BTreeMap<String, metric::Entry>,
        measured: &Measured,
        facts: &CaseFacts,
    ) -> Option<ColdVerdict> {
        let (compulsory, cache) = (facts.compulsory.as_ref()?, facts.cache?);
        check(entries, compulsory, cache);
        (cache == Cache::Cold).then(|| verify_cold(&self.catalog, measured, compulsory))
    }

    /// The dispatches as rocprofv3's files have them, and how many are left out because not each of their values arrived, once.
    pub(super) fn keep(&self, shared: &Shared, launched: &[Launched], arrivals: &Arrivals) -> (rocprofv3::Run, usize) {
        let mut kernels: BTreeMap<u64, rocprofv3::Kernel> = BTreeMap::new();
        let mut dispatches = Vec::new();
        for Launched { dispatch, .. } in launched {
            let Some(sums) = arrivals.sums(dispatch.dispatch_id) else { continue };
            if let Some(symbol) = shared.kernel(dispatch.kernel_id) {
                kernels.entry(dispatch.kernel_id).or_insert_with(|| rocprofv3::Kernel {
                    id: dispatch.kernel_id,
                    name: demangled(&symbol.name),
                    mangled: symbol.name,
                    sgprs: symbol.sgprs,
                    vgprs: symbol.vgprs,
                    agprs: symbol.agprs,
                    lds_bytes: symbol.group_segment_size,
                    scratch_bytes: symbol.private_segment_size,
                });
            }
            dispatches.push(self.dispatch(dispatch, sums));
        }
        let left_out = launched.len() - dispatches.len();
        let run = rocprofv3::Run {
            process: rocprofv3::Process { pid: std::process::id().into(), ..rocprofv3::Process::default() },
            agents: vec![agent_record(&self.agent, self.is_emulated)],
            kernels: kernels.into_values().collect(),
            dispatches,
        };
        (run, left_out)
    }

    /// One dispatch, with the sums of its counters.
    fn dispatch(&self, dispatch: &Dispatch, sums: Sums) -> rocprofv3::Dispatch {
        let named = |(index, sum): (u32, f64)| Some((self.counters.get(index as usize)?.clone(), sum));
        rocprofv3::Dispatch {
            dispatch_id: dispatch.dispatch_id,
            correlation_id: dispatch.correlation,
            agent: self.agent.logical_node_id.max(0).cast_unsigned(),
            queue_id: dispatch.queue.handle,
            stream_id: 0,
            thread_id: dispatch.thread_id.unwrap_or(0),
            kernel_id: dispatch.kernel_id,
            start_ns: sums.start_ns,
            end_ns: sums.end_ns,
            workgroup: [dispatch.workgroup.x, dispatch.workgroup.y, dispatch.workgroup.z],
            grid: [dispatch.grid.x, dispatch.grid.y, dispatch.grid.z].map(u64::from),
            lds_bytes: dispatch.group_segment_size,
            scratch_bytes: dispatch.private_segment_size,
            counters: sums.counters.into_iter().filter_map(named).collect(),
        }
    }

    fn nature(&self, name: &str) -> Nature {
        self.natures.get(name).copied().unwrap_or(Nature::Count)
    }

    fn is_counted(&self, name: &str) -> bool {
        self.counters.iter().any(|counter| counter == name)
    }
}

/// The device as rocprofv3's agent_info has it; an emulated one is marked, because nothing else in the files shows it.
fn agent_record(agent: &Agent, is_emulated: bool) -> rocprofv3::Agent {
    let numbers = [
        ("Cu_Count", agent.cus.into()),
        ("Simd_Count", agent.simds.into()),
        ("Simd_Per_Cu", agent.simds_per_cu.into()),
        ("Num_Xcc", agent.xccs.into()),
        ("Num_Shader_Banks", agent.shader_engines.into()),
        ("Wave_Front_Size", agent.wave_size.into()),
        ("Max_Waves_Per_Simd", agent.max_waves_per_simd.into()),
        ("Lds_Size_In_Kb", agent.lds_kib.into()),
        ("Max_Engine_Clk_Fcompute", u64::from(agent.max_clock_mhz)),
        ("Gfx_Target_Version", agent.gfx_target_version.into()),
        ("Vendor_Id", agent.pci_ids.0.into()),
        ("Device_Id", agent.pci_ids.1.into()),
        ("Location_Id", agent.location.into()),
        ("Domain", u64::from(agent.domain)),
    ];
    let mark = if is_emulated { rocprofv3::EMULATED } else { "" };
    rocprofv3::Agent {
        node_id: agent.node_id,
        logical_node_id: agent.logical_node_id.max(0).cast_unsigned(),
        kind: rocprofv3::AgentKind::Gpu,
        name: agent.name.clone(),
        vendor: agent.vendor_name.clone(),
        product: format!("{}{mark}", agent.product_name),
        model: agent.model_name.clone(),
        numbers: numbers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}

/// Adds the launches and records of another part of the case.
fn add(sum: &mut Reconciliation, part: Reconciliation) {
    sum.launched += part.launched;
    sum.recorded += part.recorded;
    sum.missing += part.missing;
    sum.partial += part.partial;
    sum.rejected += part.rejected;
    sum.unknown += part.unknown;
    sum.malformed += part.malformed;
    sum.bad_times += part.bad_times;
    sum.lost.extend(part.lost);
    sum.rejections.extend(part.rejections);
}

fn sdk_id(ids: &HashMap<&str, CounterId>, name: &str) -> Option<CounterId> {
    ids.get(name).copied()
}

/// The SDK's own check of a pass.
struct AgentOracle<'a> {
    sdk: &'static Sdk,
    agent: &'a Agent,
    ids: &'a HashMap<&'a str, CounterId>,
}

impl Oracle for AgentOracle<'_> {
    type Error = session::Error;

    fn fits(&mut self, counters: &[&str]) -> Result<bool, session::Error> {
        let list: Option<Vec<CounterId>> = counters.iter().map(|name| sdk_id(self.ids, name)).collect();
        match list {
            Some(list) => session::fits(self.sdk, self.agent.id, &list),
            // The device does not have one of them.
            None => Ok(false),
        }
    }
}
