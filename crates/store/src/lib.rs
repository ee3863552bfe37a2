//! Runs kept in an embedded SQLite file.
