//! Translated code that several guests share, probes and watchpoints.

mod buffers;
mod places;
mod pool;
mod probes;
mod saved;
mod vcpus;
mod watchpoints;
