//! A case in host memory: rotation sets, the timed reference, and its check against the naive form.

use super::super::rotation::rotation;
use super::super::{Build, DeviceError, DeviceInfo, Means, Prepared};
use crate::measure::{Cache, LaunchError, Launcher};
use kbench_workload::{Role, TensorSet, Verification, Workload, narrow, random, verify};
use rand::RngExt as _;
use rayon::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

/// Elements of an output that are checked at most, and multiplications the naive form may spend on them.
const MAX_CHECKED: usize = 2048;
const NAIVE_FLOPS: u128 = 10_000_000;

/// The rotation sets.
struct Sets {
    all: Vec<TensorSet>,
    /// The seed whose untouched data the last set holds, until a launch may have changed it.
    pristine: Option<u64>,
}

/// A case with its tensors.
pub(super) struct HostPrepared<'a> {
    case: &'a dyn Workload,
    arch: String,
    /// Two builds that are compared share them, so that where data lie is the same for both.
    sets: Rc<RefCell<Sets>>,
    cache: (Cache, Option<String>),
    /// Share of its own time that a launch is made longer by, for comparisons with a known answer.
    slow: f64,
    begin: Instant,
}

impl<'a> HostPrepared<'a> {
    /// Fills the first set from `seed` and copies it as often as the cache mode needs and memory allows.
    pub(super) fn new(
        case: &'a dyn Workload,
        info: &DeviceInfo,
        cache: Cache,
        llc_bytes: u64,
        available_bytes: u64,
        seed: u64,
    ) -> Result<Self, DeviceError> {
        let specs = case.tensors();
        let set_bytes: u128 = specs.iter().map(|spec| spec.bytes()).sum();
        let (sets, cache) = rotation(set_bytes, cache, llc_bytes, available_bytes)?;
        let out_of_memory = || DeviceError::OutOfMemory { needed_bytes: set_bytes, available_bytes };
        let mut first = TensorSet::zeroed(&specs).ok_or_else(out_of_memory)?;
        case.fill(seed, &mut first);
        let mut all = Vec::with_capacity(sets);
        for _ in 1..sets {
            all.push(first.clone());
        }
        all.push(first);
        let sets = Rc::new(RefCell::new(Sets { all, pristine: Some(seed) }));
        Ok(Self { case, arch: info.arch.clone(), sets, cache, slow: 0.0, begin: Instant::now() })
    }
}

impl<'a> HostPrepared<'a> {
    /// The same, made longer by a share of its own time.
    pub(super) fn slowed(self, slow: f64) -> Self {
        Self { slow, ..self }
    }

    /// Another build of the case, on the same sets.
    pub(super) fn beside(&self, slow: f64) -> Self {
        let (arch, sets, cache) = (self.arch.clone(), Rc::clone(&self.sets), self.cache.clone());
        Self { case: self.case, arch, sets, cache, slow, begin: self.begin }
    }
}

impl Prepared for HostPrepared<'_> {
    fn build(&self) -> Build {
        Build {
            origin: "builtin",
            file: if self.slow > 0.0 {
                format!("CPU reference of {}, slowed down by {} %", self.case.family(), self.slow * 100.0)
            } else {
                format!("CPU reference of {}", self.case.family())
            },
            arch: self.arch.clone(),
            sha256: None,
            kernels: Vec::new(),
            resources: None,
        }
    }

    fn cache(&self) -> (Cache, Option<String>) {
        self.cache.clone()
    }

    fn rotation_bytes(&self) -> u128 {
        self.sets.borrow().all.iter().map(TensorSet::total_bytes).sum()
    }

    fn verify(&mut self, seed: u64) -> Result<Vec<(&'static str, Verification)>, DeviceError> {
        // The last set: on a cold rotation it is the one whose data has waited longest.
        let mut sets = self.sets.borrow_mut();
        let fresh = sets.pristine.take() == Some(seed);
        let Some(set) = sets.all.last_mut() else {
            return Err(DeviceError::Failed("the case has no tensors".into()));
        };
        if !fresh {
            self.case.fill(seed, set);
        }
        for tensor in &mut set.tensors {
            if tensor.spec.role == Role::Out {
                // All ones is NaN in every float format that has one, and a huge number in the others: an output that
                // is not written cannot pass.
                tensor.bytes_mut().fill(0xff);
            }
        }
        let chosen = choose_elements(self.case, set, seed);
        let expected: Vec<Vec<f64>> =
            chosen.iter().map(|(name, indices)| naive_in_parallel(self.case, set, name, indices)).collect();
        self.case.reference(set);
        Ok(chosen
            .iter()
            .zip(expected)
            .map(|((name, indices), expected)| {
                let tensor = set.get(name);
                let actual: Vec<f64> =
                    indices.iter().map(|&index| narrow::get(tensor.spec.dtype, tensor.bytes(), index)).collect();
                (*name, verify::compare(&expected, &actual, self.case.tolerance(name)))
            })
            .collect())
    }

    fn means(&mut self) -> Means<'_> {
        Means::Timed(self)
    }
}

/// The naive form of many elements, on all threads.
fn naive_in_parallel(case: &dyn Workload, set: &TensorSet, name: &str, indices: &[usize]) -> Vec<f64> {
    const AT_ONCE: usize = 32;
    indices.par_chunks(AT_ONCE).flat_map_iter(|some| case.naive(set, name, some)).collect()
}

/// Elements of each written tensor to check: all of a small one; of a large one the first, the last and a seeded choice
/// as large as the naive form can afford.
fn choose_elements(case: &dyn Workload, set: &TensorSet, seed: u64) -> Vec<(&'static str, Vec<usize>)> {
    let written: Vec<_> = set.tensors.iter().filter(|tensor| tensor.spec.role != Role::In).collect();
    let flops_each = case.naive_flops().max(1);
    let affordable = (NAIVE_FLOPS / flops_each / written.len().max(1) as u128).clamp(64, MAX_CHECKED as u128) as usize;
    written
        .iter()
        .map(|tensor| {
            let elements = tensor.spec.elements() as usize;
            if elements <= affordable {
                return (tensor.spec.name, (0..elements).collect());
            }
            let mut rng = random::rng(seed, tensor.spec.name);
            let mut indices: Vec<usize> = (0..affordable).map(|_| rng.random_range(0..elements)).collect();
            indices.extend([0, elements - 1]);
            indices.sort_unstable();
            indices.dedup();
            (tensor.spec.name, indices)
        })
        .collect()
}

impl Launcher for HostPrepared<'_> {
    fn sets(&self) -> usize {
        self.sets.borrow().all.len()
    }

    fn sets_touched(&self) -> bool {
        true
    }

    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    fn launch(&mut self, set: usize) -> Result<f64, LaunchError> {
        let mut sets = self.sets.borrow_mut();
        sets.pristine = None;
        let count = sets.all.len().max(1);
        let Some(set) = sets.all.get_mut(set % count) else {
            return Err(LaunchError::Failed("the case has no tensors".into()));
        };
        let begin = Instant::now();
        self.case.reference(set);
        let alone = begin.elapsed();
        if self.slow > 0.0 {
            let until = alone.mul_f64(1.0 + self.slow);
            while begin.elapsed() < until {
                std::hint::spin_loop();
            }
        }
        Ok(begin.elapsed().as_nanos() as f64)
    }
}
