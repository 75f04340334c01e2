//! A receive as a library posts it, before it is matched.
//!
//! Made by the readers of each library's data, `ob1` and `ucx`; used by `receives`.

use super::posted::ReceiveCriteria;

/// A receive that a library posts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Posting {
    /// The library's request.
    pub(super) request: u64,
    /// The wanted source and tag, if the function has the parameter.
    pub(super) asked: Option<ReceiveCriteria>,
    /// The function that the transport calls with the match.
    pub(super) callback: Option<u64>,
    /// True if a call of the program may have caused it.
    pub(super) is_own: bool,
}
