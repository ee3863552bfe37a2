//! Counters of dispatches and devices.

use super::*;
use rocprofiler_sdk_sys::Status;
use rocprofiler_sdk_sys::instance::InstanceIds;
use rocprofiler_sdk_sys::session::{
    BufferOptions, Context, CounterConfig, CounterGroups, Dispatch, Patience, counter_dimensions, counter_instances,
    fits, supported_counters,
};
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const NAMES: [&str; 9] = [
    "SQ_WAVES",
    "SQ_INSTS_VALU",
    "TCC_REQ",
    "TCC_REQ_sum",
    "TCP_TOTAL_ACCESSES_sum",
    "GRBM_GUI_ACTIVE",
    "WRITE_SIZE",
    "OccupancyPercent",
    "CU_NUM",
];

type Groups = Arc<Mutex<Vec<(Dispatch, Vec<CounterRecord>)>>>;

/// A tool that counts every dispatch with one configuration, into a callback or a buffer.
struct Counter {
    sdk: &'static Sdk,
    counters: Vec<session::Counter>,
    context: Context,
    buffer: Option<session::Buffer>,
    groups: Groups,
}

impl Counter {
    fn new(names: &'static [&'static str], is_buffered: bool) -> Self {
        let sdk = open();
        let agent = gpu(sdk, "gfx942").id;
        let counters = supported_counters(sdk, agent).unwrap();
        let wanted = super::ids(&counters, names);
        let groups: Groups = Arc::default();
        let kept = Arc::clone(&groups);
        let (context, buffer) = session::force_configure(sdk, c"a counter", move |setup| {
            let context = setup.context()?;
            let config = CounterConfig::new(setup.sdk(), agent, &wanted)?;
            if !is_buffered {
                setup.count_dispatches(
                    context,
                    move |_| Some(config),
                    move |dispatch, values| kept.lock().unwrap().push((*dispatch, values.to_vec())),
                )?;
                return Ok((context, None));
            }
            let joiner = Mutex::new(CounterGroups::default());
            let buffer = setup.buffer(context, BufferOptions::default(), move |batch| {
                let mut joiner = joiner.lock().unwrap();
                let done = batch.iter().filter_map(|record| joiner.push(&record));
                kept.lock().unwrap().extend(done.map(|group| (group.dispatch, group.values)));
            })?;
            setup.count_dispatches_buffered(context, buffer, move |_| Some(config))?;
            Ok((context, Some(buffer)))
        })
        .unwrap();
        Counter { sdk, counters, context, buffer, groups }
    }

    /// Waits for so many groups and gives them, ordered by dispatch.
    fn take(&self, count: usize) -> Vec<(Dispatch, Vec<CounterRecord>)> {
        let is_done = || self.groups.lock().unwrap().len() >= count;
        let done = match self.buffer {
            Some(buffer) => buffer.flush_until(Patience::default(), is_done),
            None => Patience::default().wait(|| Ok(()), is_done),
        };
        assert_eq!(done, Ok(true));
        let mut groups = std::mem::take(&mut *self.groups.lock().unwrap());
        groups.sort_by_key(|(dispatch, _)| dispatch.dispatch_id);
        groups
    }

    /// Values by counter's name.
    fn by_name(&self, values: &[CounterRecord]) -> BTreeMap<&str, Vec<f64>> {
        let mut ids = InstanceIds::new(self.sdk);
        let mut map: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for value in values {
            let number = ids.counter(value.instance_id).unwrap();
            let counter = self.counters.iter().find(|counter| counter.id.base() == number).unwrap();
            map.entry(counter.name.as_str()).or_default().push(value.value);
        }
        map
    }
}

/// The emulator's own counters of the launches since the last call.
fn own() -> Vec<BTreeMap<String, f64>> {
    let reports = reports();
    reports
        .iter()
        .map(|report| report.counters.iter().map(|(name, counter)| (name.clone(), counter.value)).collect())
        .collect()
}

fn check(counter: &Counter) {
    let agent = gpu(counter.sdk, "gfx942");
    let mut device = Gpu::new();
    counter.context.start().unwrap();
    own();
    device.launch([3, 5, 300]);
    device.synchronize();
    let groups = counter.take(3);
    let own = own();
    assert_eq!((groups.len(), own.len()), (3, 3));
    for ((dispatch, values), own) in groups.iter().zip(&own) {
        assert!(dispatch.duration_ns().is_some());
        assert!(values.iter().all(|value| value.dispatch_id == dispatch.dispatch_id && value.agent_id == agent.id));
        let ids: HashSet<u64> = values.iter().map(|value| value.instance_id).collect();
        assert_eq!(ids.len(), values.len());
        let map = counter.by_name(values);
        assert_eq!(map.keys().copied().collect::<HashSet<_>>(), NAMES.into_iter().collect());
        let sum = |name: &str| map[name].iter().sum::<f64>();
        assert_eq!(sum("SQ_WAVES"), f64::from(dispatch.grid.x / 64));
        for name in ["SQ_WAVES", "SQ_INSTS_VALU", "TCC_REQ", "WRITE_SIZE"] {
            assert_eq!(sum(name), own[name], "{name}");
        }
        assert_eq!(map["TCC_REQ_sum"], [own["TCC_REQ"]]);
        assert_eq!(map["TCP_TOTAL_ACCESSES_sum"], [own["TCP_TOTAL_ACCESSES"]]);
        assert_eq!(map["GRBM_GUI_ACTIVE"], vec![own["GRBM_GUI_ACTIVE"]; 8]);
        assert_eq!(map["CU_NUM"], [304.0]);
        let occupancy = 400.0 * own["SQ_WAVE_CYCLES"] / own["GRBM_GUI_ACTIVE"] / 304.0 / 32.0;
        assert!((map["OccupancyPercent"][0] - occupancy).abs() < 1e-9 * occupancy);
        for (name, values) in &map {
            let id = super::ids(&counter.counters, &[name])[0];
            assert_eq!(counter_instances(counter.sdk, agent.id, id), Ok(Some(values.len())), "{name}");
            let dimensions = counter_dimensions(counter.sdk, id).unwrap();
            assert_eq!(dimensions.iter().map(|dimension| dimension.size).product::<usize>(), values.len(), "{name}");
        }
        positions(counter, values);
    }
    counter.context.stop().unwrap();
    device.launch([1]);
    device.synchronize();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(counter.groups.lock().unwrap().is_empty(), "a stopped context counts nothing");
}

/// Waves of each XCC and shader engine are at the places that the ids say.
fn positions(counter: &Counter, values: &[CounterRecord]) {
    let mut ids = InstanceIds::new(counter.sdk);
    let waves = super::ids(&counter.counters, &["SQ_WAVES"])[0];
    let mut places = HashSet::new();
    for value in values {
        if ids.counter(value.instance_id) != Ok(waves.base()) {
            continue;
        }
        let mut at = |dimension| ids.position(value.instance_id, dimension).unwrap();
        let place = (at(dimension::XCC), at(dimension::SHADER_ENGINE), at(dimension::WGP));
        assert!(place.0 < 8 && place.1 < 4 && place.2 == 0, "{place:?}");
        places.insert(place);
    }
    assert_eq!(places.len(), 32);
}

pub(super) fn count() {
    check(&Counter::new(&NAMES, false));
}

pub(super) fn count_buffered() {
    check(&Counter::new(&NAMES, true));
}

/// Every counter that the agent supports has a value, when it is counted alone, and the emulator has no other.
pub(super) fn every_counter() {
    let sdk = open();
    let agent = gpu(sdk, &arch()).id;
    let counters = supported_counters(sdk, agent).unwrap();
    let configs: Vec<CounterConfig> =
        counters.iter().map(|counter| CounterConfig::new(sdk, agent, &[counter.id]).unwrap()).collect();
    let place = Arc::new(AtomicUsize::new(0));
    let groups: Groups = Arc::default();
    let (kept, chosen) = (Arc::clone(&groups), Arc::clone(&place));
    let context = session::force_configure(sdk, c"a counter", move |setup| {
        let context = setup.context()?;
        setup.count_dispatches(
            context,
            move |_| configs.get(chosen.fetch_add(1, Ordering::Relaxed)).copied(),
            move |dispatch, values| kept.lock().unwrap().push((*dispatch, values.to_vec())),
        )?;
        Ok(context)
    })
    .unwrap();
    let mut device = Gpu::new();
    context.start().unwrap();
    device.launch(counters.iter().map(|_| 2));
    device.synchronize();
    let done = || groups.lock().unwrap().len() >= counters.len();
    assert_eq!(Patience::default().wait(|| Ok::<(), ()>(()), done), Ok(true));
    let mut groups = std::mem::take(&mut *groups.lock().unwrap());
    groups.sort_by_key(|(dispatch, _)| dispatch.dispatch_id);
    for ((_, values), counter) in groups.iter().zip(&counters) {
        let expected = counter_instances(sdk, agent, counter.id).unwrap().unwrap();
        assert_eq!(values.len(), expected, "{}", counter.name);
        assert!(values.iter().all(|value| value.value.is_finite() && value.value >= 0.0), "{}", counter.name);
        assert!(!counter.description.is_empty() && counter.is_derived != counter.expression.is_empty(), "{counter:?}");
    }
    info_of_version_1(sdk, agent, counters[0].id);
    let names: HashSet<&str> = counters.iter().map(|counter| counter.name.as_str()).collect();
    for name in own().iter().flat_map(BTreeMap::keys) {
        // The emulator cannot tell the two kinds apart in every launch.
        assert!(names.contains(name.as_str()) || name.starts_with("TCP_TCC_ATOMIC_"), "{name}");
    }
}

/// Version 1 of the struct has as many bytes as version 1.0.0 wrote, and points to dimensions and instances.
fn info_of_version_1(sdk: &Sdk, agent: AgentId, counter: CounterId) {
    let mut words = [u64::MAX; 16];
    // SAFETY: room for 128 bytes, more than any version writes.
    let status = unsafe { sdk.query_counter_info().unwrap()(counter, COUNTER_INFO_V1, words.as_mut_ptr().cast()) };
    assert!(status.is_success());
    assert_eq!((words[0], words[1]), (88, counter.handle));
    assert_eq!(words[11], u64::MAX, "nothing behind 88 bytes");
    let (dimensions, instances) = (words[7], words[9]);
    assert_eq!(dimensions, counter_dimensions(sdk, counter).unwrap().len() as u64);
    assert_eq!(Some(instances as usize), counter_instances(sdk, agent, counter).unwrap());
    // SAFETY: as many pointers as said, to structs that live as long as the process.
    let ids: HashSet<u64> = unsafe {
        let list = std::slice::from_raw_parts(words[10] as *const *const [u64; 5], instances as usize);
        list.iter().map(|instance| (**instance)[1]).collect()
    };
    assert_eq!(ids.len() as u64, instances);
}

/// All counters read so many times what they should.
pub(super) fn scaled(factor: f64) {
    let counter = Counter::new(&["SQ_WAVES", "GRBM_GUI_ACTIVE"], false);
    let mut device = Gpu::new();
    counter.context.start().unwrap();
    device.launch([10]);
    device.synchronize();
    let groups = counter.take(1);
    let map = counter.by_name(&groups[0].1);
    assert_eq!(map["SQ_WAVES"].iter().sum::<f64>(), 10.0 * factor);
    assert_eq!(map["GRBM_GUI_ACTIVE"][0] == 0.0, factor == 0.0);
}

fn fit(sdk: &Sdk, arch: &str) -> impl Fn(&[&str]) -> bool {
    let agent = gpu(sdk, arch).id;
    let counters = supported_counters(sdk, agent).unwrap();
    let sdk: &'static Sdk = open();
    move |names| fits(sdk, agent, &super::ids(&counters, names)).unwrap()
}

const SQ: [&str; 9] = [
    "SQ_WAVES",
    "SQ_WAVE_CYCLES",
    "SQ_WAIT_INST_ANY",
    "SQ_INSTS_VALU",
    "SQ_INSTS_SALU",
    "SQ_VALU_MFMA_BUSY_CYCLES",
    "SQ_INSTS_LDS",
    "SQ_LDS_BANK_CONFLICT",
    "SQC_TC_DATA_READ_REQ",
];
const TCC: [&str; 5] = ["TCC_REQ", "TCC_HIT", "TCC_MISS", "TCC_EA0_WRREQ", "TCC_EA0_RDREQ"];

/// What the real SDK answered for a gfx942.
pub(super) fn limits_gfx942() {
    let sdk = open();
    let fits_in = fit(sdk, "gfx942");
    assert!(fits_in(&["FETCH_SIZE"]) && fits_in(&["WRITE_SIZE"]));
    assert!(!fits_in(&["FETCH_SIZE", "WRITE_SIZE"]));
    assert!(fits_in(&SQ[..8]) && !fits_in(&SQ));
    assert!(fits_in(&TCC[..4]) && !fits_in(&TCC));
    let sums = TCC.map(|name| format!("{name}_sum"));
    let sums: Vec<&str> = sums.iter().map(String::as_str).collect();
    assert!(fits_in(&sums[..4]) && !fits_in(&sums));
    // The sum is the same event, and a counter named twice is one.
    assert!(fits_in(&[&TCC[..4], &sums[..4], &TCC[..1]].concat()));
    assert!(fits_in(&[]) && fits_in(&["CU_NUM"]));
    // The second suggested pass: 8 of SQ, 4 of TCC, 1 of GRBM.
    assert!(fits_in(&[
        "GRBM_GUI_ACTIVE",
        "SQ_WAVES",
        "SQ_INSTS_VALU_MFMA_MOPS_F16",
        "SQ_INSTS_VALU_MFMA_MOPS_BF16",
        "SQ_INSTS_VALU_MFMA_MOPS_F8",
        "SQ_INSTS_VALU_MFMA_MOPS_I8",
        "SQ_INSTS_VALU_MFMA_MOPS_F32",
        "SQ_LDS_BANK_CONFLICT",
        "SQ_LDS_IDX_ACTIVE",
        "TCC_EA0_WRREQ",
        "TCC_EA0_WRREQ_64B",
        "TCC_HIT",
        "TCC_MISS",
    ]));
    let agent = gpu(sdk, "gfx942").id;
    let unknown = fits(sdk, agent, &[CounterId { handle: 60_000 }]).unwrap_err();
    assert_eq!(unknown.status(), Some(Status::COUNTER_NOT_FOUND));
    let others = session::agents(sdk).unwrap().into_iter().find(|agent| agent.name == "gfx90a");
    if let Some(other) = others {
        let theirs = super::ids(&supported_counters(sdk, other.id).unwrap(), &["SQ_WAVES"]);
        assert_eq!(fits(sdk, agent, &theirs).unwrap_err().status(), Some(Status::METRIC_NOT_VALID_FOR_AGENT));
    }
    assert_eq!(fits(sdk, AgentId { handle: 1 }, &[]).unwrap_err().status(), Some(Status::AGENT_NOT_FOUND));
}

/// And for a gfx90a.
pub(super) fn limits_gfx90a() {
    let sdk = open();
    let fits_in = fit(sdk, "gfx90a");
    assert!(fits_in(&["FETCH_SIZE", "WRITE_SIZE"]) && fits_in(&["L2CacheHit"]));
    assert!(fits_in(&SQ[..8]) && !fits_in(&SQ));
}

pub(super) fn device() {
    let sdk = open();
    let agent = gpu(sdk, "gfx942").id;
    let counters = supported_counters(sdk, agent).unwrap();
    let wanted = super::ids(&counters, &["SQ_WAVES", "SQ_INSTS_VALU"]);
    let (context, counting) = session::force_configure(sdk, c"a counter", move |setup| {
        let context = setup.context()?;
        let config = CounterConfig::new(setup.sdk(), agent, &wanted)?;
        Ok((context, setup.count_device(context, agent, config)?))
    })
    .unwrap();
    assert_eq!(context.start().unwrap_err().status(), Some(Status::HSA_NOT_LOADED));
    let mut device = Gpu::new();
    assert_eq!(counting.sample(64).unwrap_err().status(), Some(Status::CONTEXT_NOT_STARTED));
    context.start().unwrap();
    let waves = || {
        let values = counting.sample(64).unwrap();
        assert!(values.iter().all(|value| value.dispatch_id == 0 && value.agent_id == agent));
        // Without dispatches there are no totals, hence no values.
        values.iter().take(32).map(|value| value.value).sum::<f64>()
    };
    device.launch([4, 6]);
    device.synchronize();
    assert_eq!(waves(), 10.0);
    device.launch([90]);
    device.synchronize();
    assert_eq!(waves(), 100.0);
    assert_eq!(counting.sample(63).unwrap_err().status(), Some(Status::OUT_OF_RESOURCES));
    // A new start begins at nothing.
    context.stop().unwrap();
    context.start().unwrap();
    device.launch([7]);
    device.synchronize();
    assert_eq!(waves(), 7.0);
}

pub(super) fn conflicts() {
    let sdk = open();
    let agent = gpu(sdk, "gfx942").id;
    let (first, second) = session::force_configure(sdk, c"a counter", move |setup| {
        let (first, second) = (setup.context()?, setup.context()?);
        let config = CounterConfig::new(setup.sdk(), agent, &[])?;
        for context in [first, second] {
            setup.count_dispatches(context, move |_| Some(config), |_, _| ())?;
        }
        let conflict = setup.count_device(first, agent, config).unwrap_err();
        assert_eq!(conflict.status(), Some(Status::AGENT_DISPATCH_CONFLICT));
        Ok((first, second))
    })
    .unwrap();
    first.start().unwrap();
    first.start().expect("a second start is harmless");
    assert_eq!(second.start().unwrap_err().status(), Some(Status::CONTEXT_CONFLICT));
    first.stop().unwrap();
    second.start().unwrap();
}

/// Both forms in one context are accepted, and each asks for every dispatch.
pub(super) fn both_forms() {
    let sdk = open();
    let asked = Arc::new(AtomicUsize::new(0));
    let (one, other) = (Arc::clone(&asked), Arc::clone(&asked));
    let context = session::force_configure(sdk, c"a counter", move |setup| {
        let context = setup.context()?;
        let buffer = setup.buffer(context, BufferOptions::default(), |_| ())?;
        let ask = |count: Arc<AtomicUsize>| {
            move |_: &Dispatch| {
                count.fetch_add(1, Ordering::Relaxed);
                None
            }
        };
        setup.count_dispatches_buffered(context, buffer, ask(one))?;
        setup.count_dispatches(context, ask(other), |_, _| panic!("nothing was asked for"))?;
        context.start()?;
        Ok(context)
    })
    .unwrap();
    let mut device = Gpu::new();
    device.launch([1; 4]);
    device.synchronize();
    assert_eq!(asked.load(Ordering::Relaxed), 8);
    assert_eq!(context.is_active(), Ok(true));
}

pub(super) fn permission() {
    let counter = Counter::new(&["SQ_WAVES"], false);
    let error = counter.context.start().unwrap_err();
    assert_eq!(error.status(), Some(Status::PERMISSION_DENIED));
    assert!(error.to_string().contains("ROCPROFILER_STATUS_ERROR_PERMISSION_DENIED (40)"), "{error}");
}

pub(super) fn unsupported() {
    let sdk = open();
    let agents = session::agents(sdk).unwrap();
    assert_eq!(agents.len(), 2);
    for agent in agents {
        assert_eq!(supported_counters(sdk, agent.id).unwrap_err().status(), Some(Status::AGENT_ARCH_NOT_SUPPORTED));
    }
}

unsafe extern "C" fn unknown_config(
    _: DispatchCountingData,
    config: *mut CounterConfigId,
    _: *mut UserData,
    _: *mut std::ffi::c_void,
) {
    // SAFETY: the SDK's output.
    unsafe { (*config).handle = 0xbad };
}

/// A handle that the SDK did not make ends the process.
pub(super) fn abort_config() {
    let sdk = open();
    session::force_configure(sdk, c"a counter", move |setup| {
        let context = setup.context()?;
        let configure = sdk.configure_callback_dispatch_counting_service().unwrap();
        // SAFETY: a callback that does what must not be done.
        let status =
            unsafe { configure(context.id(), Some(unknown_config), std::ptr::null_mut(), None, std::ptr::null_mut()) };
        assert!(status.is_success());
        context.start()
    })
    .unwrap();
    Gpu::new().launch([1]);
}
