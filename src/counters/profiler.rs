//! rocprofiler-sdk as this process's profiler: configured before HIP, planned when the device is known, asked once a case.

use super::attached::{Attached, Counted, Launched};
use super::request::{PatternError, Request, RequestError, Survey, Surveyed};
use super::shared::{Replayed, Shared, lock};
use crate::device::{DeviceError, Prepared};
use kbench_counters::collect::{Arrivals, Launch, Reconciliation};
use kbench_counters::metric::{Cache, ColdVerdict, Compulsory, Entry, Kind};
use kbench_counters::ring::{self, Reader, RingError, Summary};
use kbench_counters::rocprofv3;
use rocprofiler_sdk_sys::session::{self, Agent, AgentKind, Context, Patience};
use rocprofiler_sdk_sys::{OpenError, Sdk, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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
    #[error("{error}{}", advice(.error))]
    Sdk {
        /// Its answer.
        error: session::Error,
    },
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
    /// The SDK knows of the launches and gave no values.
    #[error(
        "rocprofiler-sdk saw {seen} launches of the case and delivered the counters of none: another profiler may hold the counters, or the \
         driver gave none. The kernel's log (dmesg) and the SDK's own messages (ROCPROFILER_LOG_LEVEL=info) tell more, and `kbench doctor` \
         shows the permissions"
    )]
    Undelivered {
        /// Launches that the SDK told of.
        seen: u64,
    },
    /// The kernels of a case are none that were asked for.
    #[error(
        "none of its {seen} launches is of a kernel that the input file's filters let through (kernel_include_regex, kernel_exclude_regex)"
    )]
    NotChosen {
        /// Launches that were looked at.
        seen: u64,
    },
    /// A replay of the case failed.
    #[error("a counted launch failed: {0}")]
    Replay(DeviceError),
    /// The thread that empties the ring.
    #[error("the thread that takes records out of the ring could not be started: {0}")]
    Thread(std::io::Error),
}

impl From<session::Error> for ProfilerError {
    fn from(error: session::Error) -> Self {
        ProfilerError::Sdk { error }
    }
}

impl From<PatternError> for ProfilerError {
    fn from(error: PatternError) -> Self {
        ProfilerError::Request(error.into())
    }
}

impl ProfilerError {
    /// True for a mistake of the user, not a failure of device or SDK.
    pub fn is_usage(&self) -> bool {
        matches!(self, ProfilerError::Request(_) | ProfilerError::Ring(RingError::Size(_)))
    }
}

/// What to do about an answer of the SDK, where it is known.
fn advice(error: &session::Error) -> &'static str {
    match error.status() {
        Some(Status::PERMISSION_DENIED) => {
            ". The driver lets only those count that have CAP_PERFMON, or everybody where kernel.perf_event_paranoid is at most 2: `sudo sysctl \
             kernel.perf_event_paranoid=2`, or give the container --cap-add=PERFMON (`kbench doctor` shows both)"
        }
        _ => "",
    }
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
    /// Whether a case that was to be cold was, by what its launches read from the fabric.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<ColdVerdict>,
    /// The dispatches, when they are to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<rocprofv3::Run>,
}

/// What the reader of the ring has reduced of the case's records.
type Taken = Arc<Mutex<Arrivals>>;

/// The profiler, configured.
pub struct Profiler {
    sdk: &'static Sdk,
    context: Context,
    shared: &'static Shared,
    request: Request,
    taken: Taken,
    ring: RingWatch,
    attached: Option<Attached>,
    /// Launches of the first case that the SDK saw nothing of: it will see nothing of later ones.
    unseen: Option<u64>,
}

/// What is known of a case that is to be counted.
#[derive(Clone, Debug, Default)]
pub struct CaseFacts {
    /// The case's time, ns, for rates.
    pub duration_ns: Option<f64>,
    /// What any build of it must do; `None` where counts do not tell of the whole case (a sample of its workgroups ran).
    pub compulsory: Option<Compulsory>,
    /// Whether its data was to be in no cache.
    pub cache: Option<Cache>,
}

/// Reads the ring's counts, of one case at a time.
struct RingWatch {
    producer: ring::Producer,
    before: Summary,
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
        let choice = request.kernels.choice()?;
        let shared: &'static Shared = Box::leak(Box::new(Shared::new(sdk, producer.clone(), choice)));
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
        Ok(Self { sdk, context, shared, request, taken, ring, attached: None, unseen: None })
    }

    /// Finds the device, plans the passes and has the SDK confirm them. `pci` is HIP's address (`0000:03:00.0`).
    ///
    /// # Errors
    /// [`ProfilerError`].
    pub fn attach(&mut self, pci: &str, arch: &str, is_emulated: bool) -> Result<(), ProfilerError> {
        let device = Counted::new(self.sdk, self.agent(pci)?, arch)?;
        self.attached = Some(Attached::new(device, &self.request.what, is_emulated, self.shared)?);
        Ok(())
    }

    /// Says what the device can count and plans requests, counting nothing.
    ///
    /// # Errors
    /// [`ProfilerError`].
    pub fn survey(&self, pci: &str, arch: &str, survey: &Survey) -> Result<Surveyed, ProfilerError> {
        let device = Counted::new(self.sdk, self.agent(pci)?, arch)?;
        let mut plans = Vec::with_capacity(survey.plans.len());
        for what in &survey.plans {
            plans.push(device.plan(what)?.0);
        }
        Ok(Surveyed { sdk: self.sdk.version().to_string(), counters: device.list(), plans })
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

    /// Counts a case that is ready to run: for each pass its launches are replayed with restored inputs. `kind` says how a
    /// counter's values come about; `replaying` is told before each replay which pass of how many it is of.
    ///
    /// # Errors
    /// [`ProfilerError`]. What the case was timed with stays.
    pub fn collect(
        &mut self,
        prepared: &mut dyn Prepared,
        facts: &CaseFacts,
        kind: &dyn Fn(&str) -> Kind,
        replaying: &mut dyn FnMut(usize, usize),
    ) -> Result<CaseCounters, ProfilerError> {
        if let Some(launched) = self.unseen {
            return Err(ProfilerError::Silent { launched });
        }
        let Some(attached) = &self.attached else {
            return Err(ProfilerError::Nothing("the profiler was not attached to the device".to_owned()));
        };
        *lock(&self.taken) = Arrivals::new(attached.counters.len());
        self.ring.before = self.ring.producer.summary();
        self.context.start()?;
        let replays = self.launch_passes(attached, prepared, replaying);
        let replays = replays.and_then(|replays| self.wait_for(&replays.launched).map(|_complete| replays));
        let stopped = self.context.stop();
        let replays = replays?;
        stopped?;
        let ring = self.ring.of_this_case();
        let arrivals = std::mem::take(&mut *lock(&self.taken));
        if replays.launched.is_empty() && replays.seen > 0 {
            return Err(ProfilerError::NotChosen { seen: replays.seen });
        }
        if arrivals.is_empty() && ring.received == 0 && replays.replayed > 0 {
            if replays.seen > 0 {
                return Err(ProfilerError::Undelivered { seen: replays.seen });
            }
            self.unseen = Some(replays.replayed);
            return Err(ProfilerError::Silent { launched: replays.replayed });
        }
        let kept = self.request.keep_records.then(|| attached.keep(self.shared, &replays.launched, &arrivals));
        // Of some kernels of a case no more can be expected than they do.
        let compulsory = facts.compulsory.clone().filter(|_| !self.request.kernels.chooses());
        let facts = CaseFacts { compulsory, ..*facts };
        let mut counted = attached.evaluate(&replays.launched, arrivals, &facts, kind, ring);
        if let Some((records, left_out @ 1..)) = &kept {
            counted.incomplete.push(not_in_files(*left_out, records.dispatches.len()));
        }
        Ok(CaseCounters { records: kept.map(|(records, _)| records), ..counted })
    }

    /// Replays the case for each pass.
    fn launch_passes(
        &self,
        attached: &Attached,
        prepared: &mut dyn Prepared,
        replaying: &mut dyn FnMut(usize, usize),
    ) -> Result<Replays, ProfilerError> {
        let mut all = Replays::default();
        for (pass, config) in attached.configs.iter().enumerate() {
            for _ in 0..self.request.repeats.max(1) {
                replaying(pass, attached.configs.len());
                prepared.restore().map_err(ProfilerError::Replay)?;
                self.shared.begin(*config);
                let waves = prepared.replay();
                let Replayed { seen, launched } = self.shared.end();
                let waves = waves.map_err(ProfilerError::Replay)?;
                all.replayed += waves.len() as u64;
                all.seen += seen as u64;
                for (step, dispatch) in launched {
                    let expected_waves = waves.get(step).copied().flatten();
                    let launch = Launch { dispatch_id: dispatch.dispatch_id, pass, expected_waves };
                    all.launched.push(Launched { step, launch, dispatch });
                }
                // The SDK tells of a launch before it runs: what it has not seen by now it never sees.
                if all.seen == 0 && all.replayed > 0 {
                    return Ok(all);
                }
            }
        }
        Ok(all)
    }

    /// Waits until every launch's records are here, or patience ends: the SDK writes them after the device was waited for.
    fn wait_for(&self, launched: &[Launched]) -> Result<bool, ProfilerError> {
        let has_all = || {
            let taken = lock(&self.taken);
            launched.iter().all(|one| taken.has_all_of(one.launch.dispatch_id))
        };
        Ok(Patience::default().wait(|| Ok::<(), session::Error>(()), has_all)?)
    }
}

/// Why rocprofv3's files have fewer launches than were counted.
fn not_in_files(left_out: usize, kept: usize) -> String {
    let all = left_out + kept;
    format!(
        "{left_out} of {all} counted launches are not in rocprofv3's files: not all of their values arrived, or some came twice"
    )
}

/// All replays of a case.
#[derive(Default)]
struct Replays {
    /// Counted launches.
    launched: Vec<Launched>,
    /// Launches that the case has said it made.
    replayed: u64,
    /// Launches that the SDK told of, counted or not.
    seen: u64,
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

/// Takes records out of the ring until the process ends, so that no callback waits longer than it must, and reduces each: what
/// stays of a case is a few numbers a launch and counter, however many values the SDK delivers.
fn empty(mut reader: Reader, taken: Taken) -> std::io::Result<()> {
    let run = move || {
        while let Some(batch) = reader.next_batch() {
            let mut taken = lock(&taken);
            batch.for_each(|record| taken.take(record));
        }
    };
    thread::Builder::new().name("counters".to_owned()).spawn(run).map(drop)
}

/// `0000:03:00.0` from the SDK's numbers.
fn address(domain: u32, location: u32) -> String {
    format!("{domain:04x}:{:02x}:{:02x}.{:x}", location >> 8, location >> 3 & 0x1f, location & 7)
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
