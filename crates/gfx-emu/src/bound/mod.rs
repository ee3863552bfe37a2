//! The time below which a launch cannot be, at peak clock, given the instructions and bytes that it really executed.
//!
//! Every unit of the device is taken alone and perfectly fed: no latency, no stall, no other unit in its way. The time of the
//! busiest unit is the bound, and that unit the limiter. Where the sources conflict or are silent, the figure that gives the
//! lower time is used; all of them are in the [`Model`], each with its source. Nothing here is a measured time.
//!
//! # Formulas
//! Clocks are engine clocks. "A CU" is the busiest one: workgroups go to the XCDs in turn (AMD GPU driver documentation), so one
//! XCD has `ceil(W / XCDs)` of `W` workgroups and one of its CUs at least `ceil(ceil(W / XCDs) / CUs)`. Where all workgroups
//! executed the same number of instructions, that CU has that many shares of `1 / W` of the work: the tail effect. Where they
//! differ (causal attention, ragged batches) the work is taken to be spread evenly over the CUs that can have any, which is what the best
//! schedule could reach.
//!
//! | resource | clocks | sources |
//! |---|---|---|
//! | matrix cores | sum of each instruction's cycles / SIMDs | AMD matrix instruction calculator, ISA documents |
//! | vector ALU | (4 x quads of each vector instruction + what each matrix instruction takes of the ALU's time) / SIMDs | LLVM SISchedule.td, white papers; co-execution: matrix instruction calculator |
//! | scalar ALU | scalar ALU and scalar memory instructions / 1 | rocprofiler-compute, pipeline descriptions |
//! | branches | branches / 1 | the same |
//! | LDS | the more of: clocks of the banks with conflicts; bytes / (2 ports x 64 B, gfx950 128 B) | rocprofiler-compute, LDS; published bank measurements (see `traffic`) |
//! | vector L1 | the most of: lines looked up / rate; bytes read / 64 or 128; requests of 64 B written / 1 or 2 | white papers, rocprofiler-compute |
//! | wave issue | the more of: instructions of an average wave x 4; instructions of all waves x 4 / waves resident. With equal workgroups: rounds x average wave x 4 | rocprofiler-compute: a SIMD's turn comes every 4 clocks, one instruction a wave |
//! | wave launch | waves of the busiest XCD / shader engines | assumed, one a clock |
//! | L2 | the more of: bytes read / (channels x 128 B); bytes written / (channels x 64 B), over the XCDs in use | white papers |
//! | fabric | the more of: bytes read / 1024 B; bytes written / 1024 B an XCD (MI300 and later) | CDNA 3 and 4 white papers |
//! | memory-side cache | the more of bytes read and written by the L2s / its bandwidth | CDNA 3 white paper |
//! | HBM | (distinct bytes read + distinct bytes written) / bandwidth | white papers, product pages |
//!
//! A SIMD needs a wave: with fewer waves on a CU than SIMDs, the first two are divided by the waves. Of the bytes to and from the
//! fabric and memory nothing is taken off when the caches are cold; warm, what the L2s or the last-level cache can hold. Scratch
//! is not among the distinct bytes. A launch of which only a sample ran has its instructions and
//! LDS and L1 work scaled to the grid; what lies behind the L1 is not, because workgroups share it in ways that a sample
//! does not show.

mod work;

pub use work::Work;
pub(crate) use work::quads;

use crate::launch::Outcome;
use crate::model::Model;

/// What the caches hold when the kernel starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CacheState {
    /// Nothing of the kernel's data, and its results leave them: the steady state of launches over more data than they hold.
    #[default]
    Cold,
    /// As much of its data as each can hold.
    Warm,
}

impl CacheState {
    /// Bytes that need not pass a cache of this size.
    fn kept(self, cache_bytes: u64) -> f64 {
        match self {
            CacheState::Cold => 0.0,
            CacheState::Warm => cache_bytes as f64,
        }
    }
}

/// A unit of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// Matrix cores.
    MatrixCores,
    /// Vector ALUs, and the issue that matrix instructions take from them.
    VectorAlu,
    /// Scalar ALU and scalar memory issue.
    ScalarAlu,
    /// Branch unit.
    Branch,
    /// LDS banks and ports.
    Lds,
    /// Vector L1: look-ups, data path, write requests.
    VectorL1,
    /// The turn of each wave: one instruction every four clocks.
    WaveIssue,
    /// Starting waves.
    WaveLaunch,
    /// L2.
    L2,
    /// Links between XCDs and memory.
    Fabric,
    /// Memory-side cache.
    Mall,
    /// Memory.
    Hbm,
}

impl Resource {
    /// Every resource.
    pub const ALL: [Resource; 12] = [
        Resource::MatrixCores,
        Resource::VectorAlu,
        Resource::ScalarAlu,
        Resource::Branch,
        Resource::Lds,
        Resource::VectorL1,
        Resource::WaveIssue,
        Resource::WaveLaunch,
        Resource::L2,
        Resource::Fabric,
        Resource::Mall,
        Resource::Hbm,
    ];

    /// The name that outputs carry.
    pub fn name(self) -> &'static str {
        match self {
            Resource::MatrixCores => "matrix_cores",
            Resource::VectorAlu => "valu",
            Resource::ScalarAlu => "salu",
            Resource::Branch => "branch",
            Resource::Lds => "lds",
            Resource::VectorL1 => "vector_l1",
            Resource::WaveIssue => "wave_issue",
            Resource::WaveLaunch => "wave_launch",
            Resource::L2 => "l2",
            Resource::Fabric => "fabric",
            Resource::Mall => "mall",
            Resource::Hbm => "hbm",
        }
    }
}

/// Why there is no bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
    /// The clock of the device is not public.
    #[error(
        "no bound for {0}: its peak engine clock is not known; give one in a model of your own (`clock_mhz`; `kbench emu --device FILE.toml`)"
    )]
    NoClock(String),
    /// An executed matrix instruction has no cycles in the model.
    #[error("no bound for {model}: it has no cycles for `{operation}`")]
    NoCycles {
        /// The model.
        model: String,
        /// The instruction.
        operation: String,
    },
}

/// How the workgroups fill the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fill {
    /// CUs that can have a workgroup.
    pub cus_used: u64,
    /// Workgroups of the busiest CU, over the whole launch.
    pub busiest_cu: u64,
    /// Workgroups that a CU holds at a time.
    pub workgroups_per_cu: u64,
    /// Rounds in which the busiest CU works them off.
    pub rounds: u64,
    /// Waves of a CU that is full, of the 32 or so that it has places for.
    pub waves_per_cu: u64,
    /// Workgroups / (workgroups of the busiest CU x CUs): what the last round and idle CUs leave of the device.
    pub efficiency: f64,
}

impl Fill {
    /// The fill of a device by a launch's workgroups.
    pub fn of(work: &Work, model: &Model) -> Self {
        let (xcds, cus) = (u64::from(model.xcds.value), u64::from(model.cus_per_xcd.value));
        let workgroups = work.workgroups.max(1);
        let (least, more) = (workgroups / xcds, workgroups % xcds);
        let busiest_cu = workgroups.div_ceil(xcds).div_ceil(cus);
        let workgroups_per_cu = work.workgroups_per_cu.max(1);
        Self {
            cus_used: more * (least + 1).min(cus) + (xcds - more) * least.min(cus),
            busiest_cu,
            workgroups_per_cu,
            rounds: busiest_cu.div_ceil(workgroups_per_cu),
            waves_per_cu: workgroups_per_cu * work.waves_per_workgroup.max(1),
            efficiency: workgroups as f64 / (busiest_cu as f64 * (xcds * cus) as f64),
        }
    }
}

/// A lower bound on time.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The bound.
    pub ns: f64,
    /// The resource that sets it.
    pub limiter: Resource,
    /// The time of each resource alone, ns. One whose figures are not public is not here.
    pub by_resource: Vec<(Resource, f64)>,
    /// The workgroups' fill of the device.
    pub fill: Fill,
    /// All workgroups executed as many instructions, so the tail effect is part of the bound.
    pub uniform: bool,
    /// Only a sample ran: instructions are scaled, what lies behind the L1 is that of the sample.
    pub sampled: bool,
    /// Peak engine clock that was assumed, Hz.
    pub clock_hz: f64,
}

impl Bound {
    /// The bound in engine clocks.
    pub fn clocks(&self) -> f64 {
        self.ns * 1e-9 * self.clock_hz
    }

    /// The time of a resource, ns.
    pub fn of(&self, resource: Resource) -> Option<f64> {
        self.by_resource.iter().find(|(of, _)| *of == resource).map(|(_, ns)| *ns)
    }
}

/// The bound of a launch.
///
/// # Errors
/// When the model has no clock, or lacks an executed matrix instruction.
pub fn bound(outcome: &Outcome, model: &Model, caches: CacheState) -> Result<Bound, BoundError> {
    bound_of(&Work::of(outcome, model)?, model, caches)
}

/// The bound of given work.
///
/// # Errors
/// When the model has no clock.
pub fn bound_of(work: &Work, model: &Model, caches: CacheState) -> Result<Bound, BoundError> {
    let clock_hz = model.clock_hz().ok_or_else(|| BoundError::NoClock(model.marketing_name.clone()))?;
    let fill = Fill::of(work, model);
    let from_clocks = |clocks: f64| clocks / clock_hz * 1e9;
    let mut by_resource: Vec<(Resource, f64)> = clocks_of_cu(work, model, &fill)
        .into_iter()
        .map(|(resource, clocks)| (resource, from_clocks(clocks)))
        .collect();
    by_resource.extend(
        clocks_of_xcd(work, model, caches).into_iter().map(|(resource, clocks)| (resource, from_clocks(clocks))),
    );
    by_resource.extend(seconds_of_memory(work, model, caches).into_iter().map(|(resource, s)| (resource, s * 1e9)));
    let (limiter, ns) = by_resource
        .iter()
        .copied()
        .fold((Resource::WaveLaunch, 0.0), |most, one| if one.1 > most.1 { one } else { most });
    Ok(Bound { ns, limiter, by_resource, fill, uniform: work.uniform, sampled: work.sampled, clock_hz })
}

/// Units of a CU, on the busiest one.
fn clocks_of_cu(work: &Work, model: &Model, fill: &Fill) -> Vec<(Resource, f64)> {
    let (machine, rates) = (&model.machine, &model.machine.rates);
    let workgroups = work.workgroups.max(1) as f64;
    let waves_per_workgroup = work.waves_per_workgroup.max(1) as f64;
    let simds = f64::from(machine.simds_per_cu.value);
    let (busiest, used) = (fill.busiest_cu as f64, fill.cus_used.max(1) as f64);
    // The clocks that a CU needs of the clocks that all need together.
    let per_cu = |total: f64| if work.uniform { total / workgroups * busiest } else { total / used };
    let per_simd = |total: f64| match work.uniform {
        true => total / workgroups * busiest / simds.min(busiest * waves_per_workgroup),
        false => total / (used * simds).min(workgroups * waves_per_workgroup),
    };
    let lds_ports = rates.lds_ports_per_cu.value * rates.lds_bytes_per_clock_per_port.value;
    let lds = work.lds_bank_clocks.max(work.lds_port_bytes / lds_ports);
    let l1 = (work.l1_lines / rates.l1_lines_per_clock_per_cu.value)
        .max(work.l1_bytes_read / rates.l1_bytes_per_clock_per_cu.value)
        .max(work.l1_write_requests / rates.l1_write_requests_per_clock_per_cu.value);
    let turn = rates.wave_issue_clocks.value;
    let average_wave = work.issued / (workgroups * waves_per_workgroup) * turn;
    let wave_issue = match work.uniform {
        true => average_wave * fill.rounds as f64,
        false => average_wave.max(work.issued * turn / (used * fill.waves_per_cu as f64)),
    };
    vec![
        (Resource::MatrixCores, per_simd(work.matrix_clocks)),
        (Resource::VectorAlu, per_simd(work.valu_clocks)),
        (Resource::ScalarAlu, per_cu(work.scalar / rates.salu_per_clock_per_cu.value)),
        (Resource::Branch, per_cu(work.branches / rates.branches_per_clock_per_cu.value)),
        (Resource::Lds, per_cu(lds)),
        (Resource::VectorL1, per_cu(l1)),
        (Resource::WaveIssue, wave_issue),
    ]
}

/// Units of an XCD. Their traffic is taken to be even over the XCDs that have workgroups.
fn clocks_of_xcd(work: &Work, model: &Model, caches: CacheState) -> Vec<(Resource, f64)> {
    let rates = &model.machine.rates;
    let xcds = u64::from(model.xcds.value);
    let used = work.workgroups.clamp(1, xcds) as f64;
    let waves = work.workgroups.div_ceil(xcds) as f64 * work.waves_per_workgroup as f64;
    let engines = f64::from(model.machine.shader_engines_per_xcd.value);
    let channels = rates.l2_channels_per_xcd.value;
    let l2_read = work.l2_bytes_read / (channels * rates.l2_read_bytes_per_clock_per_channel.value);
    let l2_write = work.l2_bytes_written / (channels * rates.l2_write_bytes_per_clock_per_channel.value);
    let mut clocks = vec![
        (Resource::WaveLaunch, waves / (engines * rates.waves_launched_per_clock_per_se.value)),
        (Resource::L2, l2_read.max(l2_write) / used),
    ];
    let fabric = (&rates.fabric_read_bytes_per_clock_per_xcd, &rates.fabric_write_bytes_per_clock_per_xcd);
    if let (Some(read), Some(write)) = fabric {
        let crossing = |bytes: f64| (bytes - caches.kept(model.l2_bytes())).max(0.0);
        let both =
            (crossing(work.fabric_bytes_read) / read.value).max(crossing(work.fabric_bytes_written) / write.value);
        clocks.push((Resource::Fabric, both / used));
    }
    clocks
}

/// Memory, and the cache before it.
fn seconds_of_memory(work: &Work, model: &Model, caches: CacheState) -> Vec<(Resource, f64)> {
    let mut seconds = Vec::new();
    if let Some(rate) = &model.mall_bytes_per_second {
        let bytes = work.fabric_bytes_read.max(work.fabric_bytes_written);
        seconds.push((Resource::Mall, (bytes - caches.kept(model.l2_bytes())).max(0.0) / rate.value));
    }
    if let Some(rate) = &model.hbm_bytes_per_second {
        let bytes = work.distinct_bytes_read + work.distinct_bytes_written;
        seconds.push((Resource::Hbm, (bytes - caches.kept(model.last_level_bytes())).max(0.0) / rate.value));
    }
    seconds
}

#[cfg(test)]
mod tests;
