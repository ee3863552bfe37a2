//! Estimators, intervals, tests and stopping rules for timing samples.
//!
//! Pure functions over slices: no I/O, no clock, no device. Randomness (bootstrap) comes from an explicit seed.
