//! Which of a host's ways to do the same thing guests are run by.
//!
//! They are the breakpoints at traced calls, and what moves the time stamp counter. What is
//! insisted on is taken or refused, never replaced by something else. `probe` chooses them once for
//! a run, and all of its vCPUs have the same.

use crate::host::breakpoints::Breakpoints;
use crate::host::tsc::TscControl;
use crate::host::{Host, HostError};

/// By which means guests are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Means {
    /// What stops a guest at traced calls.
    pub breakpoints: Breakpoints,
    /// What moves its time stamp counter.
    pub tsc: TscControl,
}

/// Means that somebody insists on; `None` for what works best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// What stops a guest at traced calls.
    pub breakpoints: Option<Breakpoints>,
    /// What moves its time stamp counter.
    pub tsc: Option<TscControl>,
}

impl Means {
    /// Those with `breakpoints`, and what else is `wanted` or does best on `host`.
    ///
    /// # Errors
    /// When the host has not got what is wanted.
    pub(crate) fn on(
        host: &Host,
        breakpoints: Breakpoints,
        wanted: Wanted,
    ) -> Result<Self, HostError> {
        Ok(Self {
            breakpoints,
            tsc: TscControl::on(host, wanted.tsc)?,
        })
    }
}
