//! Conditions that end runs, kept from one run to the next.
//!
//! `run` uses it; `find` records probes, `instructions` an interrupt that could not be delivered.

use belljar_cpu::{Probed, ShutdownCause};

use crate::processor::vcpu::left::Uncovered;

/// Conditions that end runs.
#[derive(Default)]
pub(crate) struct Stops {
    /// A run ends when an NMI can be delivered.
    pub(crate) nmi_window_wanted: bool,
    /// The cause if an interrupt could not be delivered at all: no further instruction runs.
    pub(crate) shutdown: Option<ShutdownCause>,
    /// RIP of the last block that the budget did not cover, and its dead flags.
    pub(crate) uncovered_at: Option<(u64, u32)>,
    /// Data on the exit stub of the last such block.
    pub(crate) uncovered: Option<Uncovered>,
    /// The vCPU's state at the probe of the last probe exit.
    pub(crate) probed: Option<Probed>,
    /// The watched return address that the last exit reported.
    pub(crate) passing: Option<u64>,
}
