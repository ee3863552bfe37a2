//! Seeded data of known distributions, for simulations.
#![allow(dead_code)] // each test file uses some of it

pub(crate) mod clock;

use proptest::test_runner::Config;
use rand_pcg::{
    Pcg64,
    rand_core::{Rng, SeedableRng},
};

/// Property tests of this many cases; a failing one is printed, not written to a file.
pub(crate) fn config(cases: u32) -> Config {
    Config { failure_persistence: None, ..Config::with_cases(cases) }
}

/// A source of random numbers; a generator of another kind than the one under test.
pub(crate) struct Source(Pcg64);

impl Source {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64::seed_from_u64(seed))
    }

    /// Uniform in (0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal (Box–Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.uniform() * n as f64) as usize
    }

    /// `n` values of a first-order autoregression with coefficient `phi` and unit variance.
    pub(crate) fn autoregression(&mut self, phi: f64, n: usize) -> Vec<f64> {
        let mut state = self.normal();
        let shock = (1.0 - phi * phi).sqrt();
        (0..n)
            .map(|_| {
                state = phi * state + shock * self.normal();
                state
            })
            .collect()
    }
}
