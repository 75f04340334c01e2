//! The other side of a call, as threads with equal graphs have it.
//!
//! `classes` finds it, and `signature` puts it into words.

use std::fmt;

use belljar_trace::Peer;

use crate::dump::words;

/// A partner of a call, as a class of threads has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Partner {
    /// There is none.
    None,
    /// So many ranks on from the process's own.
    Relative(i64),
    /// This rank, for all.
    Rank(u32),
    /// No rank: any, or none.
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
