//! Where and why runs end, from one run to the next.
//!
//! `run` goes by it; `find` notes what was seen of probes, `instructions` an interrupt that found no way in.

use belljar_cpu::{Probed, ShutdownCause};

use crate::processor::vcpu::left::Uncovered;

/// Ends of runs.
#[derive(Default)]
pub(crate) struct Stops {
    /// A run ends when an NMI could be taken.
    pub(crate) nmi_window_wanted: bool,
    /// An interrupt that could not be delivered at all: no instruction runs any more.
    pub(crate) shutdown: Option<ShutdownCause>,
    /// RIP of the block that the budget did not cover last, and the flags that are dead there.
    pub(crate) uncovered_at: Option<(u64, u32)>,
    /// The exit stub by which translated code was last left for that.
    pub(crate) uncovered: Option<Uncovered>,
    /// What the vCPU was at the probe of the last exit for one.
    pub(crate) probed: Option<Probed>,
    /// The watched return address at which it has just told that it stands there.
    pub(crate) passing: Option<u64>,
}
