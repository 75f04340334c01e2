//! The end of a run: a point of virtual time that follows from the guests' actions.
//!
//! The earliest cause in virtual time wins, then the lowest node, independent of the order in which hosts and threads find
//! causes. The coordinator lets no node pass [`Closing::cap`](ending::Closing::cap), and several hosts compute the same end.

use std::fmt;

use belljar_sim::{Span, Time};
use belljar_vmm::NodeStop;
use serde::{Deserialize, Serialize};

use crate::run::runner::{Runner, Word};

/// The ending of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The workload ended with this exit code.
    Workload(i32),
    /// It was stopped by the user.
    Interrupted,
    /// A node ended before the workload did.
    NodeEnded {
        /// Number of the node.
        node: u32,
        /// The way in which it ended, in words.
        how: String,
        /// The end of its console.
        last_words: String,
    },
    /// The virtual time limit was reached.
    Limit,
    /// No node has an action left, and no frame is in flight.
    Deadlock,
    /// No rank of the workload can proceed, and nothing else can wake it: the verdict.
    Stuck(String),
    /// Another host of the run is lost, or cannot continue.
    HostLost {
        /// Its name.
        host: String,
        /// The reason.
        why: String,
    },
    /// No node advances, although actions are left: a defect of this program.
    Standstill {
        /// Descriptions of the waiting nodes.
        who: String,
    },
}

impl Ending {
    /// True for an interrupted run.
    pub(crate) fn is_broken_off(&self) -> bool {
        matches!(
            self,
            Self::Interrupted | Self::HostLost { .. } | Self::Standstill { .. }
        )
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload(0) => write!(f, "the workload ended well"),
            Self::Workload(code) => write!(f, "the workload ended with exit code {code}"),
            Self::Interrupted => write!(f, "interrupted"),
            Self::NodeEnded { node, how, .. } => {
                write!(f, "node {node} ended before the workload: {how}")
            }
            Self::Limit => write!(f, "the limit of virtual time was reached"),
            Self::Stuck(verdict) => write!(f, "no rank can proceed: {verdict}"),
            Self::Deadlock => write!(f, "no node has anything left to do"),
            Self::Standstill { who } => write!(
                f,
                "virtual time stands still, which is a fault of belljar's: {who}"
            ),
            Self::HostLost { host, why } => write!(f, "host {host} is lost: {why}"),
        }
    }
}

/// The cause of a run's end: its time, its node, and the ending.
pub(crate) type Cause = (Time, u32, Ending);

/// The stages of a run's end.
///
/// When the workload reports its end at `t`, other nodes may be somewhat before or after `t`. All nodes first run up to `t`,
/// in case one of them ends the run earlier. Then they run on to the time by which all of them could receive the news, which
/// none can have passed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Closing {
    cap: Time,
    /// Caps are multiples of this, if nodes can only be brought there by whole slices.
    slice: Option<Span>,
    /// The earliest known cause.
    cause: Option<Cause>,
    /// True when all nodes have reached the cause.
    certain: bool,
}

impl Closing {
    /// The end at `limit`, or at the end of the slices that begin before it, unless an earlier cause appears.
    pub(crate) fn at_limit(limit: Time, slice: Option<Span>) -> Self {
        Self {
            cap: reachable(limit, slice),
            slice,
            cause: None,
            certain: false,
        }
    }

    /// The same with another limit, if no cause is known yet.
    #[must_use]
    pub(crate) fn with_limit(self, limit: Time) -> Self {
        if self.is_open() {
            Self::at_limit(limit, self.slice)
        } else {
            self
        }
    }

    /// The end at `now`, which all nodes have reached.
    pub(crate) fn end_at(&mut self, now: Time) {
        *self = Self::at_limit(now, self.slice);
    }

    /// True if no cause before the limit is known.
    pub(crate) fn is_open(&self) -> bool {
        self.cause.is_none()
    }

    /// The first time from `at` on to which all nodes can be brought exactly.
    pub(crate) fn reachable(&self, at: Time) -> Time {
        reachable(at, self.slice)
    }

    /// The time that no node may pass for now.
    pub(crate) fn cap(&self) -> Time {
        self.cap
    }

    /// The time that the network may not pass.
    pub(crate) fn end_of_network(&self) -> Time {
        if self.certain || self.is_open() {
            self.cap
        } else {
            Time::MAX
        }
    }

    /// Checks whether a node's end, or its messages, are an earlier cause than the known one.
    pub(crate) fn consider(&mut self, runner: &Runner, words: &[Word]) -> bool {
        if self.certain || (runner.ended.is_none() && words.is_empty()) {
            return false;
        }
        let Some(ending) = ending_of(runner, words) else {
            return false;
        };
        self.learn((runner.node().now(), runner.index, ending))
    }

    /// Takes a cause if it is the earliest. Returns true if it is.
    pub(crate) fn learn(&mut self, cause: Cause) -> bool {
        let first = match &self.cause {
            Some((time, other, _)) => (cause.0, cause.1) < (*time, *other),
            None => cause.0 < self.cap,
        };
        if first && !self.certain {
            self.cap = reachable(cause.0, self.slice);
            self.cause = Some(cause);
            return true;
        }
        false
    }

    /// The earliest known cause before the limit.
    pub(crate) fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// Called when all nodes are at the cap. Returns the ending if this is the end; `longest` is the time in which news reach
    /// all nodes.
    pub(crate) fn pass(&mut self, longest: Span) -> Option<Ending> {
        match &self.cause {
            None => Some(Ending::Limit),
            Some((_, _, ending)) if self.certain => Some(ending.clone()),
            Some(_) => {
                self.certain = true;
                self.cap = reachable(self.cap + longest, self.slice);
                None
            }
        }
    }

    /// The final time of all nodes, unless the run is interrupted.
    pub(crate) fn end(&self) -> Option<Time> {
        (self.certain || self.is_open()).then_some(self.cap)
    }
}

/// The first end of a slice at or after `at`.
fn reachable(at: Time, slice: Option<Span>) -> Time {
    let end = slice.and_then(|slice| at.as_ps().checked_next_multiple_of(slice.as_ps()));
    end.map_or(at, Time::from_ps)
}

fn ending_of(runner: &Runner, words: &[Word]) -> Option<Ending> {
    let exit = words.iter().find_map(|word| match word {
        Word::Exit(code) => Some(*code),
        Word::Ready => None,
    });
    if let (Some(code), 0) = (exit, runner.index) {
        return Some(Ending::Workload(code));
    }
    let stop = runner.ended?;
    Some(Ending::NodeEnded {
        node: runner.index,
        how: describe_stop(stop, runner),
        last_words: runner.last_words(),
    })
}

fn describe_stop(stop: NodeStop, runner: &Runner) -> String {
    match stop {
        NodeStop::Reset => match &runner.panicked {
            Some(words) => format!("its kernel panicked: {words}"),
            None => "it reset itself".into(),
        },
        NodeStop::PoweredOff => "it switched itself off".into(),
        NodeStop::Exited(value) => format!("it ended through the exit device with {value}"),
        NodeStop::Hung => "it halted with interrupts off".into(),
        NodeStop::Shutdown(cause) => format!("its processor shut down: {cause}"),
        NodeStop::Paused => "it was stopped to be looked at".into(),
        NodeStop::Limit
        | NodeStop::Magic { .. }
        | NodeStop::Probe { .. }
        | NodeStop::Return { .. }
        | NodeStop::Watchpoint { .. }
        | NodeStop::Buffer { .. }
        | NodeStop::Sample { .. } => "it stopped".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_where_slices_end() {
        let limit = |slice| Closing::at_limit(Time::from_ps(1_001), slice).cap();
        assert_eq!(limit(None), Time::from_ps(1_001));
        assert_eq!(limit(Some(Span::from_ps(250))), Time::from_ps(1_250));
        assert_eq!(limit(Some(Span::from_ps(1_001))), Time::from_ps(1_001));
        let never = Closing::at_limit(Time::MAX, Some(Span::from_ps(250)));
        assert_eq!(never.cap(), Time::MAX);
        let mut closing = Closing::at_limit(Time::from_ps(500), Some(Span::from_ps(250)));
        closing.cause = Some((Time::from_ps(300), 0, Ending::Workload(0)));
        assert_eq!(closing.pass(Span::from_ps(1)), None);
        assert_eq!(closing.cap(), Time::from_ps(750));
    }
}
