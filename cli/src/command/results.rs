//! Commands that read run directories.
//!
//! They change no run directory, except for profiles and reports that they are asked to write. Called by `main`.

/// `belljar profile`: the functions that processors were running.
pub(crate) mod profile;
/// `belljar report`: a run as an HTML page.
pub(crate) mod report;
/// `belljar runs`: an index of run directories.
pub(crate) mod runs;
/// `belljar trace`, and the table that ends a run.
pub(crate) mod trace;
