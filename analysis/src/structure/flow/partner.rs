//! The peer of a call, as threads with equal graphs have it.
//!
//! Found by `classes`, formatted by `signature`.

use std::fmt;

use belljar_trace::Peer;

use crate::dump::words;

/// The peer of a call for a class of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Partner {
    /// No peer.
    None,
    /// A rank at this distance from the process's own.
    Relative(i64),
    /// The same rank for all threads.
    Rank(u32),
    /// No rank: any, or `MPI_PROC_NULL`.
    Named(Peer),
}

impl fmt::Display for Partner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Relative(by) => write!(f, "{by:+}"),
            Self::Rank(rank) => write!(f, "{rank}"),
            Self::Named(Peer::Any) => write!(f, "any"),
            Self::Named(peer) => write!(f, "{}", words::peer(*peer)),
        }
    }
}
