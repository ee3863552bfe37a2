//! Seeded data, the same bytes whatever the number of threads.
