//! How a run ends: at a point of virtual time that follows from what the guests did.
//!
//! The earliest cause in virtual time wins, then the lowest node, whatever order hosts and threads found
//! them in. The coordinator lets no node go beyond [`Closing::cap`](ending::Closing::cap), and on several hosts each works out
//! the same end.

use std::fmt;

use belljar_sim::{Span, Time};
use belljar_vmm::NodeStop;
use serde::{Deserialize, Serialize};

use crate::run::runner::{Runner, Word};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// The workload ended with this exit code.
    Workload(i32),
    /// It was stopped by the user.
    Interrupted,
    /// A node ended before the workload did.
    NodeEnded {
        /// Which.
        node: u32,
        /// How, in words.
        how: String,
        /// The end of its console.
        last_words: String,
    },
    /// The virtual time limit was reached.
    Limit,
    /// No node has anything left to do, and no frame is on its way.
    Deadlock,
    /// Another host of the run is not there any more, or cannot continue.
    HostLost {
        /// Its name.
        host: String,
        /// What became of it.
        why: String,
    },
    /// Nobody gets anywhere, though something is left to do: a fault of this program.
    Standstill {
        /// Who waits for whom, in words.
        who: String,
    },
}

impl Ending {
    /// The run did not get to an end of its own.
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
            Self::Deadlock => write!(f, "no node has anything left to do"),
            Self::Standstill { who } => write!(
                f,
                "virtual time stands still, which is a fault of belljar's: {who}"
            ),
            Self::HostLost { host, why } => write!(f, "host {host} is lost: {why}"),
        }
    }
}

/// What ends a run: when, at which node, and how.
pub(crate) type Cause = (Time, u32, Ending);

/// The way to a run's end.
///
/// When the workload says at `t` that it is through, other nodes may be somewhat before
/// or after `t`. All first run up to `t`, in case one of them ends the run earlier, then
/// on to the time by which they could all have heard of it, which none can be beyond.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Closing {
    cap: Time,
    /// Caps lie at multiples of this, where nodes have to be brought there by whole slices.
    slice: Option<Span>,
    /// What ends the run, when, and at which node.
    cause: Option<Cause>,
    /// All nodes got to the cause.
    certain: bool,
}

impl Closing {
    /// The way to the end at `limit`, or where slices end that have begun before it,
    /// unless something ends the run before.
    pub(crate) fn at_limit(limit: Time, slice: Option<Span>) -> Self {
        Self {
            cap: reachable(limit, slice),
            slice,
            cause: None,
            certain: false,
        }
    }

    /// The same, but with another limit if nothing is known yet that ends the run before.
    #[must_use]
    pub(crate) fn with_limit(self, limit: Time) -> Self {
        if self.is_open() {
            Self::at_limit(limit, self.slice)
        } else {
            self
        }
    }

    /// Nothing is known that ends the run before its limit.
    pub(crate) fn is_open(&self) -> bool {
        self.cause.is_none()
    }

    /// The first time from `at` on to which all nodes can be brought exactly.
    pub(crate) fn reachable(&self, at: Time) -> Time {
        reachable(at, self.slice)
    }

    /// No node goes further for now.
    pub(crate) fn cap(&self) -> Time {
        self.cap
    }

    /// The network does not go beyond this.
    pub(crate) fn end_of_network(&self) -> Time {
        if self.certain || self.is_open() {
            self.cap
        } else {
            Time::MAX
        }
    }

    /// Looks whether what a node did and said ends the run, before anything else that is
    /// known does.
    pub(crate) fn consider(&mut self, runner: &Runner, words: &[Word]) -> bool {
        if self.certain || (runner.ended.is_none() && words.is_empty()) {
            return false;
        }
        let Some(ending) = ending_of(runner, words) else {
            return false;
        };
        self.learn((runner.node().now(), runner.index, ending))
    }

    /// Takes what would end the run, if nothing is known that does so before.
    /// Whether that is so.
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

    /// What ends the run before its limit, as far as is known.
    pub(crate) fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// To be called when all nodes are at the cap. How the run ended, if that was its end;
    /// `longest` is the time in which all can hear of each other.
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

    /// The time to which all are brought in the end, unless the run is broken off.
    pub(crate) fn end(&self) -> Option<Time> {
        (self.certain || self.is_open()).then_some(self.cap)
    }
}

/// The first end of a slice that is not before `at`.
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
