//! rocprofiler-sdk as this process's profiler: configured before HIP, planned when the device is known, asked once a case.

use super::combine::in_sequence;
use super::request::{Request, RequestError};
use super::shared::{Shared, lock};
use crate::device::{DeviceError, Prepared};
use kbench_counters::catalog::DeviceCounter;
use kbench_counters::collect::wire::Record;
use kbench_counters::collect::{Collector, Launch, Reconciliation};
use kbench_counters::metric::{Entry, Kind, Measured, report};
use kbench_counters::plan::{Oracle, Plan, PlanError};
use kbench_counters::ring::{self, Reader, RingError, Summary};
use kbench_counters::{Catalog, Geometry, rocprofv3};
use rocprofiler_sdk_sys::session::{self, Agent, AgentKind, Context, CounterConfig, Dispatch, Patience};
use rocprofiler_sdk_sys::types::CounterId;
use rocprofiler_sdk_sys::{OpenError, Sdk};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::thread;

/// The name that the SDK knows this tool by.
const NAME: &std::ffi::CStr = c"kbench";

/// Why nothing is counted.
#[derive(Debug, thiserror::Error)]
pub enum ProfilerError {
    /// The SDK is not there, or of a version that is not known.
    #[error("rocprofiler-sdk cannot be used: {0}")]
    Open(#[from] OpenError),
    /// The SDK refuses.
    #[error("{0}")]
    Sdk(#[from] session::Error),
    /// The request.
    #[error("{0}")]
    Request(#[from] RequestError),
    /// The ring.
    #[error("{0}")]
    Ring(#[from] RingError),
    /// The device is none of the SDK's.
    #[error("rocprofiler-sdk lists no GPU at PCI {pci}; it has {known}. ROCR_VISIBLE_DEVICES hides devices from it")]
    NoAgent {
        /// HIP's address of the device.
        pci: String,
        /// The SDK's GPUs.
        known: String,
    },
    /// The SDK could not say what fits a pass.
    #[error("{0}")]
    Plan(String),
    /// Nothing that was asked for can be counted.
    #[error("none of the counters can be collected on this device: {0}")]
    Nothing(String),
    /// Launches gave no records at all.
    #[error(
        "rocprofiler-sdk was configured, and no record of {launched} counted launches arrived: the HIP or HSA library does not register \
         with it (Debian's packages are built without rocprofiler-register), or was initialised before it"
    )]
    Silent {
        /// Counted launches.
        launched: u64,
    },
    /// A replay of the case failed.
    #[error("a counted launch failed: {0}")]
    Replay(DeviceError),
    /// The thread that empties the ring.
    #[error("the thread that takes records out of the ring could not be started: {0}")]
    Thread(std::io::Error),
}

/// What was counted of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseCounters {
    /// Counters and metrics by name.
    pub entries: BTreeMap<String, Entry>,
    /// Counters of each pass.
    pub passes: Vec<Vec<String>>,
    /// The SDK agreed to every pass.
    pub confirmed: bool,
    /// Launches against records, all launches of the case's sequence together.
    pub reconciliation: Reconciliation,
    /// What became of the ring's records, in this case.
    pub ring: Summary,
    /// What is missing or doubtful, in sentences.
    pub incomplete: Vec<String>,
    /// Median duration of the counted launches, which run one by one, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_ns: Option<f64>,
    /// The dispatches, when they are to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<rocprofv3::Run>,
}

/// A counted launch: its place in the case's sequence, and what the SDK says of it.
struct Launched {
    step: usize,
    launch: Launch,
    dispatch: Dispatch,
}

/// Records that the writer took out of the ring and nobody has looked at.
type Taken = Arc<Mutex<Vec<Vec<u8>>>>;

/// The profiler, configured.
pub struct Profiler {
    sdk: &'static Sdk,
    context: Context,
    shared: &'static Shared,
    request: Request,
    taken: Taken,
    ring: RingWatch,
    attached: Option<Attached>,
}

/// Reads the ring's counts, of one case at a time.
struct RingWatch {
    producer: ring::Producer,
    before: Summary,
}

/// What is known once the device is.
struct Attached {
    catalog: Catalog,
    names: Vec<String>,
    plan: Plan,
    configs: Vec<CounterConfig>,
    /// Counters of all passes, in the order of the collection's list.
    counters: Vec<String>,
    geometry: Geometry,
    agent: Agent,
}

impl Profiler {
    /// Makes this process the SDK's tool. Before the first HIP call.
    ///
    /// # Errors
    /// [`ProfilerError`]: what the SDK says, or no memory for the ring.
    pub fn configure(sdk: Sdk, request: Request) -> Result<Self, ProfilerError> {
        // Callbacks may come until the process ends.
        let sdk: &'static Sdk = Box::leak(Box::new(sdk));
        let (producer, reader) = ring::ring(request.ring_size, request.ring_policy)?;
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(sdk, producer.clone())));
        let context = session::force_configure(sdk, NAME, move |setup| {
            let objects = setup.context()?;
            setup.code_objects(objects, |event| shared.loaded(&event))?;
            objects.start()?;
            let counting = setup.context()?;
            setup.count_dispatches(
                counting,
                |dispatch| shared.choose(dispatch),
                |dispatch, values| shared.counted(dispatch, values),
            )?;
            Ok(counting)
        })?;
        let taken = Taken::default();
        empty(reader, Arc::clone(&taken)).map_err(ProfilerError::Thread)?;
        let ring = RingWatch { before: producer.summary(), producer };
        Ok(Self { sdk, context, shared, request, taken, ring, attached: None })
    }

    /// Finds the device, plans the passes and has the SDK confirm them. `pci` is HIP's address (`0000:03:00.0`).
    ///
    /// # Errors
    /// [`ProfilerError`].
    pub fn attach(&mut self, pci: &str, arch: &str) -> Result<(), ProfilerError> {
        let (mut catalog, names) = self.request.resolve(arch)?;
        let agent = self.agent(pci)?;
        let known = session::supported_counters(self.sdk, agent.id)?;
        catalog.add(known.iter().map(|counter| DeviceCounter {
            name: &counter.name,
            block: &counter.block,
            description: &counter.description,
            expression: Some(counter.expression.as_str()).filter(|text| !text.is_empty()),
        }));
        let ids: HashMap<&str, CounterId> = known.iter().map(|counter| (counter.name.as_str(), counter.id)).collect();
        let mut oracle = AgentOracle { sdk: self.sdk, agent: &agent, ids: &ids };
        let plan = Plan::confirmed(&catalog, names.iter().map(String::as_str), &mut oracle);
        let plan = plan.map_err(|error: PlanError<session::Error>| ProfilerError::Plan(error.to_string()))?;
        let mut counters: Vec<String> = Vec::new();
        let mut configs = Vec::new();
        for pass in &plan.passes {
            let list: Vec<CounterId> = pass.counters.iter().filter_map(|name| sdk_id(&ids, name)).collect();
            configs.push(CounterConfig::new(self.sdk, agent.id, &list)?);
            for name in &pass.counters {
                if !counters.contains(name) {
                    counters.push(name.clone());
                }
            }
        }
        if configs.is_empty() {
            let why: Vec<String> = plan.placements.iter().map(|(name, place)| format!("{name}: {place:?}")).collect();
            return Err(ProfilerError::Nothing(why.join("; ")));
        }
        self.shared.set_counters(counters.iter().map(|name| sdk_id(&ids, name).map_or(u16::MAX, CounterId::base)));
        let geometry = Geometry {
            cus: agent.cus,
            simds_per_cu: agent.simds_per_cu,
            xccs: agent.xccs.max(1),
            wave_size: agent.wave_size,
            max_waves_per_cu: agent.max_waves_per_simd.saturating_mul(agent.simds_per_cu),
        };
        self.attached = Some(Attached { catalog, names, plan, configs, counters, geometry, agent });
        Ok(())
    }

    /// The SDK's agent at a PCI address: positions differ when devices are hidden from HIP.
    fn agent(&self, pci: &str) -> Result<Agent, ProfilerError> {
        let gpus: Vec<Agent> =
            session::agents(self.sdk)?.into_iter().filter(|agent| agent.kind == AgentKind::Gpu).collect();
        let known: Vec<String> = gpus.iter().map(|agent| address(agent.domain, agent.location)).collect();
        let found = known.iter().position(|known| known.eq_ignore_ascii_case(pci));
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        found
            .and_then(|index| gpus.into_iter().nth(index))
            .ok_or_else(|| ProfilerError::NoAgent { pci: pci.to_owned(), known })
    }

    /// What was asked for.
    pub fn request(&self) -> &Request {
        &self.request
    }

    /// Counts a case that is ready to run: for each pass its launches are replayed with restored inputs. `duration_ns` is the case's time, for rates; `kind` says how a counter's values come about.
    ///
    /// # Errors
    /// [`ProfilerError`]. What the case was timed with stays.
    pub fn collect(
        &mut self,
        prepared: &mut dyn Prepared,
        duration_ns: Option<f64>,
        kind: &dyn Fn(&str) -> Kind,
    ) -> Result<CaseCounters, ProfilerError> {
        let Some(attached) = &self.attached else {
            return Err(ProfilerError::Nothing("the profiler was not attached to the device".to_owned()));
        };
        lock(&self.taken).clear();
        self.ring.before = self.ring.producer.summary();
        self.context.start()?;
        let launched = self.launch_passes(attached, prepared);
        let launched = launched.and_then(|launched| {
            let complete = self.wait_for(&launched.0)?;
            Ok((launched, complete))
        });
        let stopped = self.context.stop();
        let ((launched, replayed), records) = launched?;
        stopped?;
        let ring = self.ring.of_this_case();
        if records.is_empty() && ring.received == 0 && replayed > 0 {
            return Err(ProfilerError::Silent { launched: replayed });
        }
        let counted = attached.evaluate(&launched, &records, duration_ns, kind, ring);
        let kept = self.request.keep_records.then(|| attached.keep(self.shared, &launched, &records));
        Ok(CaseCounters { records: kept, ..counted })
    }

    /// Replays the case for each pass; gives the launches that the SDK told of with their place in the sequence, and how many
    /// there were.
    fn launch_passes(
        &self,
        attached: &Attached,
        prepared: &mut dyn Prepared,
    ) -> Result<(Vec<Launched>, u64), ProfilerError> {
        let (mut launched, mut replayed) = (Vec::new(), 0);
        for (pass, config) in attached.configs.iter().enumerate() {
            for _ in 0..self.request.repeats.max(1) {
                prepared.restore().map_err(ProfilerError::Replay)?;
                self.shared.begin(*config);
                let waves = prepared.replay();
                let dispatches = self.shared.end();
                let waves = waves.map_err(ProfilerError::Replay)?;
                replayed += waves.len() as u64;
                for (step, dispatch) in dispatches.into_iter().enumerate() {
                    let expected_waves = waves.get(step).copied().flatten();
                    let launch = Launch { dispatch_id: dispatch.dispatch_id, pass, expected_waves };
                    launched.push(Launched { step, launch, dispatch });
                }
            }
        }
        Ok((launched, replayed))
    }

    /// Waits until every launch's records are here, or patience ends: the SDK writes them after the device was waited for.
    fn wait_for(&self, launched: &[Launched]) -> Result<Vec<Vec<u8>>, ProfilerError> {
        let arrivals = RefCell::new(Arrivals::default());
        let take = || -> Result<(), session::Error> {
            arrivals.borrow_mut().take(std::mem::take(&mut *lock(&self.taken)));
            Ok(())
        };
        Patience::default().wait(take, || arrivals.borrow().has_all(launched))?;
        Ok(arrivals.into_inner().records)
    }
}

/// Records of the case that have come.
#[derive(Default)]
struct Arrivals {
    records: Vec<Vec<u8>>,
    /// Values that came and that there are, by dispatch.
    values: HashMap<u64, (u32, u32)>,
}

impl Arrivals {
    fn take(&mut self, records: Vec<Vec<u8>>) {
        for record in records {
            if let Some(header) = Record::read(&record).map(|record| record.header) {
                let (got, total) = self.values.entry(header.dispatch_id).or_default();
                *got = got.saturating_add(header.count);
                *total = header.total;
            }
            self.records.push(record);
        }
    }

    fn has_all(&self, launched: &[Launched]) -> bool {
        launched.iter().all(|one| self.values.get(&one.launch.dispatch_id).is_some_and(|(got, total)| got >= total))
    }
}

impl RingWatch {
    /// The counts since the case began.
    fn of_this_case(&self) -> Summary {
        let (now, before) = (self.producer.summary(), &self.before);
        Summary {
            received: now.received - before.received,
            kept: now.kept.saturating_sub(before.kept),
            dropped: now.dropped - before.dropped,
            overwritten: now.overwritten - before.overwritten,
            oversize: now.oversize - before.oversize,
            waits: now.waits - before.waits,
            ..now
        }
    }
}

impl Attached {
    /// Values, metrics and what is missing, from the records of all launches.
    fn evaluate(
        &self,
        launched: &[Launched],
        records: &[Vec<u8>],
        duration_ns: Option<f64>,
        kind: &dyn Fn(&str) -> Kind,
        ring: Summary,
    ) -> CaseCounters {
        let steps = launched.iter().map(|one| one.step + 1).max().unwrap_or(1);
        let mut collectors: Vec<Collector> =
            (0..steps).map(|_| Collector::new(self.plan.clone(), self.counters.clone())).collect();
        let mut step_of = HashMap::new();
        for Launched { step, launch, .. } in launched {
            step_of.insert(launch.dispatch_id, *step);
            collectors[*step].launched(*launch);
        }
        for record in records {
            let dispatch = Record::read(record).map(|record| record.header.dispatch_id);
            // What belongs to no launch is counted as unknown, by the first.
            let step = dispatch.and_then(|id| step_of.get(&id)).copied().unwrap_or(0);
            collectors[step].take(record);
        }
        let mut reconciliation = Reconciliation::default();
        let mut incomplete = Vec::new();
        let mut parts: Vec<Measured> = Vec::new();
        for (step, collector) in collectors.into_iter().enumerate() {
            let collected = collector.finish(self.geometry, kind);
            let place = if steps > 1 { format!("launch {} of {steps}: ", step + 1) } else { String::new() };
            let told = collected.reconciliation.describe(Some(&ring));
            incomplete.extend(told.into_iter().map(|sentence| format!("{place}{sentence}")));
            add(&mut reconciliation, collected.reconciliation);
            parts.push(collected.measured);
        }
        let empty = || Measured {
            passes: Vec::new(),
            geometry: self.geometry,
            duration_ns: None,
            unavailable: BTreeMap::new(),
        };
        let measured = Measured { duration_ns, ..in_sequence(parts).unwrap_or_else(empty) };
        let guards = kbench_counters::plan::GUARDS.iter().copied();
        let names = self.names.iter().map(String::as_str).chain(guards.filter(|name| self.is_counted(name)));
        CaseCounters {
            entries: report(&self.catalog, &measured, names),
            passes: self.plan.passes.iter().map(|pass| pass.counters.clone()).collect(),
            confirmed: self.plan.confirmed,
            reconciliation,
            ring,
            incomplete,
            counted_ns: measured.passes.iter().find_map(|pass| pass.counted_ns),
            records: None,
        }
    }

    /// The dispatches as rocprofv3's files have them.
    fn keep(&self, shared: &Shared, launched: &[Launched], records: &[Vec<u8>]) -> rocprofv3::Run {
        let mut values: HashMap<u64, (u64, u64, BTreeMap<String, f64>)> = HashMap::new();
        for record in records.iter().filter_map(|record| Record::read(record)) {
            let (start, end, sums) = values.entry(record.header.dispatch_id).or_default();
            (*start, *end) = (record.header.start_ns, record.header.end_ns);
            for entry in record.entries() {
                if let Some(name) = self.counters.get(entry.counter as usize) {
                    *sums.entry(name.clone()).or_default() += entry.value;
                }
            }
        }
        let mut kernels: BTreeMap<u64, rocprofv3::Kernel> = BTreeMap::new();
        let mut dispatches = Vec::new();
        for Launched { dispatch, .. } in launched {
            let Some((start_ns, end_ns, counters)) = values.remove(&dispatch.dispatch_id) else { continue };
            if let Some(symbol) = shared.kernel(dispatch.kernel_id) {
                kernels.entry(dispatch.kernel_id).or_insert_with(|| rocprofv3::Kernel {
                    id: dispatch.kernel_id,
                    name: kbench_profile::names::demangle(&symbol.name).unwrap_or_else(|| symbol.name.clone()),
                    mangled: symbol.name,
                    sgprs: symbol.sgprs,
                    vgprs: symbol.vgprs,
                    agprs: symbol.agprs,
                    lds_bytes: symbol.group_segment_size,
                    scratch_bytes: symbol.private_segment_size,
                });
            }
            dispatches.push(rocprofv3::Dispatch {
                dispatch_id: dispatch.dispatch_id,
                correlation_id: dispatch.correlation,
                agent: self.agent.logical_node_id.max(0).cast_unsigned(),
                queue_id: dispatch.queue.handle,
                stream_id: 0,
                thread_id: dispatch.thread_id.unwrap_or(0),
                kernel_id: dispatch.kernel_id,
                start_ns,
                end_ns,
                workgroup: [dispatch.workgroup.x, dispatch.workgroup.y, dispatch.workgroup.z],
                grid: [dispatch.grid.x, dispatch.grid.y, dispatch.grid.z].map(u64::from),
                lds_bytes: dispatch.group_segment_size,
                scratch_bytes: dispatch.private_segment_size,
                counters,
            });
        }
        rocprofv3::Run {
            process: rocprofv3::Process { pid: std::process::id().into(), ..rocprofv3::Process::default() },
            agents: vec![agent_record(&self.agent)],
            kernels: kernels.into_values().collect(),
            dispatches,
        }
    }

    fn is_counted(&self, name: &str) -> bool {
        self.counters.iter().any(|counter| counter == name)
    }
}

/// The device as rocprofv3's agent_info has it.
fn agent_record(agent: &Agent) -> rocprofv3::Agent {
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
    rocprofv3::Agent {
        node_id: agent.node_id,
        logical_node_id: agent.logical_node_id.max(0).cast_unsigned(),
        kind: rocprofv3::AgentKind::Gpu,
        name: agent.name.clone(),
        vendor: agent.vendor_name.clone(),
        product: agent.product_name.clone(),
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

/// Takes records out of the ring until the process ends, so that no callback waits longer than it must.
fn empty(mut reader: Reader, taken: Taken) -> std::io::Result<()> {
    let run = move || {
        while let Some(batch) = reader.next_batch() {
            let records: Vec<Vec<u8>> = batch.map(<[u8]>::to_vec).collect();
            lock(&taken).extend(records);
        }
    };
    thread::Builder::new().name("counters".to_owned()).spawn(run).map(drop)
}

fn sdk_id(ids: &HashMap<&str, CounterId>, name: &str) -> Option<CounterId> {
    ids.get(name).copied()
}

/// `0000:03:00.0` from the SDK's numbers.
fn address(domain: u32, location: u32) -> String {
    format!("{domain:04x}:{:02x}:{:02x}.{:x}", location >> 8, location >> 3 & 0x1f, location & 7)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_hips() {
        // bus 3, device 0, function 0 as HIP and the SDK were seen to tell it.
        assert_eq!(address(0, 0x300), "0000:03:00.0");
        assert_eq!(address(1, 0xc1 << 8 | 2 << 3 | 1), "0001:c1:02.1");
    }
}
