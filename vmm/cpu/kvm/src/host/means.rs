//! The choice between alternative mechanisms of a host.
//!
//! There are alternatives for the breakpoints at traced calls and for adjusting the time stamp
//! counter. A mechanism that the user requests is used or refused, never replaced. `probe` chooses
//! once for a run, for all of its vCPUs.

use crate::host::breakpoints::Breakpoints;
use crate::host::tsc::TscControl;
use crate::host::{Host, HostError};

/// The mechanisms by which guests are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// The breakpoints at traced calls.
    pub breakpoints: Breakpoints,
    /// The way to adjust its time stamp counter.
    pub tsc: TscControl,
}

/// Requested mechanisms; `None` selects the best one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestedMeans {
    /// The breakpoints at traced calls.
    pub breakpoints: Option<Breakpoints>,
    /// The way to adjust its time stamp counter.
    pub tsc: Option<TscControl>,
}

impl Means {
    /// Combines `breakpoints` with the other `wanted` mechanisms, or the best ones of `host`.
    ///
    /// # Errors
    /// If the host lacks a requested mechanism.
    pub(crate) fn on(
        host: &Host,
        breakpoints: Breakpoints,
        wanted: RequestedMeans,
    ) -> Result<Self, HostError> {
        Ok(Self {
            breakpoints,
            tsc: TscControl::on(host, wanted.tsc)?,
        })
    }
}
