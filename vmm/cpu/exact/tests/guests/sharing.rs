//! Translated code that several guests share, and probes.

mod places;
mod pool;
mod probes;
mod saved;
mod vcpus;
