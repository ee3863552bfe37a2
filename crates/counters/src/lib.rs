//! Hardware counters: planning passes, derived metrics, the ring, rocprofv3 formats.
