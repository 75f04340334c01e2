//! Choices of a run, and their messages.
//!
//! Identifiers count within a rank or a pair of ranks, so a choice and a message have the same ones in runs of other orders, as
//! long as the program does the same up to there. Filled by whoever observes a run.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A process by its job and its rank in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RankId {
    /// The job, from 0 in the order of starts.
    pub job: u32,
    /// The rank in the job.
    pub rank: u32,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MessageId {
    /// Sender.
    pub from: RankId,
    /// Receiver.
    pub to: RankId,
    /// Number of messages from this sender to this receiver before it.
    pub number: u32,
}

/// The kind of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChoiceKind {
    /// A receive from any source.
    Receive,
    /// A probe of any source that found a message.
    Probe,
    /// A call that completes one of several requests, such as `MPI_Waitany`.
    Completion,
}

/// A choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ChoiceId {
    /// The receiver.
    pub rank: RankId,
    /// The kind.
    pub kind: ChoiceKind,
    /// Number of choices of this kind of the rank before it.
    pub number: u32,
}

/// A choice in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// Its identifier.
    pub id: ChoiceId,
    /// The function of the call.
    pub function: String,
    /// Entry of the call, in picoseconds.
    pub entry_ps: u64,
    /// Completion, in picoseconds.
    pub end_ps: u64,
    /// The message that it got.
    pub matched: MessageId,
    /// Messages of other ranks that it could have got, one for each rank.
    pub alternatives: Vec<MessageId>,
    /// Its thread, by a number in the run.
    pub thread: u32,
    /// Numbers of the thread's calls that posted and that completed it, from 1.
    pub steps: [u32; 2],
    /// By thread, the number of calls that happened before the completion, with the completing one.
    pub clock: Vec<u32>,
}

/// A message that was sent in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentMessage {
    /// Entry of the sending call, in picoseconds.
    pub entry_ps: u64,
    /// The processor that entered the call, of the sender's node.
    pub vcpu: u32,
    /// The tag.
    pub tag: i32,
    /// The function of the call.
    pub function: String,
}

/// A run, as far as its orders are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedRun {
    /// Its choices, in the order of their completion.
    pub choices: Vec<Choice>,
    /// The messages of choices.
    pub messages: BTreeMap<MessageId, SentMessage>,
    /// The node of each rank.
    pub nodes: BTreeMap<RankId, u32>,
    /// Choices whose alternatives are unknown, with the reason.
    pub unknown: Vec<String>,
}

impl ObservedRun {
    /// The choice with this identifier.
    pub fn choice(&self, id: ChoiceId) -> Option<&Choice> {
        self.choices.iter().find(|choice| choice.id == id)
    }
}

impl fmt::Display for RankId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.job {
            0 => write!(f, "rank {}", self.rank),
            job => write!(f, "rank {} of job {job}", self.rank),
        }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {} of {}", self.number + 1, self.from)
    }
}

impl fmt::Display for ChoiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            ChoiceKind::Receive => "wildcard receive",
            ChoiceKind::Probe => "wildcard probe",
            ChoiceKind::Completion => "completion of several",
        };
        write!(f, "{kind} {} of {}", self.number + 1, self.rank)
    }
}
