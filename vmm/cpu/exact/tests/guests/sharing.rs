//! Translated code that several guests share, probes and watchpoints.

mod places;
mod pool;
mod probes;
mod vcpus;
mod watchpoints;
