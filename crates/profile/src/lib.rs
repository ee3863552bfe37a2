//! Reads GPU profiles of every dialect into an [`Inventory`]: which kernels ran, how long, at which shapes, and how
//! each shape became known.
//!
//! This crate reads and classifies; it will never launch a kernel, time anything, or invent a shape.

pub mod inventory;
pub mod kineto;

pub use inventory::{Coverage, Finding, Inventory, Location, Phase, Provenance, Row, Severity, ShapeUse, Source};
