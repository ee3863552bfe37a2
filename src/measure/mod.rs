//! The measuring protocol.
