//! Delays that force an order.
//!
//! A choice gets a wanted message if the messages that would come first arrive after it. Frames of their senders wait in their
//! network cards from their sends until some time after the wanted message was sent. If a sender shares its node with the receiver
//! or with the wanted message's sender, its processor makes a detour instead. Both are delays that a real machine may have, so the
//! program's own reaction decides: the caller observes the run with the delays, and plans again until it has the order. Called for
//! each attempt of a target.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::choice::{Choice, ChoiceId, MessageId, ObservedRun};
use crate::search::Order;

/// The place of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DelayPlace {
    /// Frames from a node to another one wait in the sender's network card.
    Hold {
        /// Sending node.
        from: u32,
        /// Receiving node.
        to: u32,
    },
    /// A processor makes a detour.
    Detour {
        /// The node.
        node: u32,
        /// The processor's number in it.
        processor: u32,
    },
}

/// A delay, with its purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForcedDelay {
    /// Its place.
    pub place: DelayPlace,
    /// Start, in picoseconds.
    pub at_ps: u64,
    /// End, in picoseconds.
    pub until_ps: u64,
    /// The messages that come later by it, and the choices that get others.
    pub purpose: Vec<String>,
}

/// A reason that no delay forces an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForceError {
    /// The run does not reach a choice.
    NoChoice(ChoiceId),
    /// The run does not send the wanted message.
    NoMessage(MessageId),
    /// The sender of the wanted message and that of another one share a processor.
    SharedProcessor(MessageId, MessageId),
}

impl fmt::Display for ForceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoChoice(id) => write!(f, "the run does not reach the {id}"),
            Self::NoMessage(message) => write!(f, "the run does not send {message}"),
            Self::SharedProcessor(one, other) => {
                write!(f, "the senders of {one} and {other} share a processor")
            }
        }
    }
}

impl std::error::Error for ForceError {}

/// Plans delays by which the first choice of `run` that differs from `wanted` gets its message. They end `slack_ps` after the wanted
/// message was sent and its call was entered. Returns none if no choice differs.
///
/// # Errors
/// See [`ForceError`].
pub fn plan(
    run: &ObservedRun,
    wanted: &Order,
    slack_ps: u64,
) -> Result<Vec<ForcedDelay>, ForceError> {
    let differs = |choice: &&Choice| {
        let message = wanted.get(&choice.id);
        message.is_some_and(|message| *message != choice.matched)
    };
    let Some(choice) = run.choices.iter().find(differs) else {
        let missing = wanted.keys().find(|id| run.choice(**id).is_none());
        return missing.map_or(Ok(Vec::new()), |id| Err(ForceError::NoChoice(*id)));
    };
    let message = wanted[&choice.id];
    let sent = run
        .messages
        .get(&message)
        .ok_or(ForceError::NoMessage(message))?;
    let until_ps = sent.entry_ps.max(choice.entry_ps).saturating_add(slack_ps);
    let others = choice.alternatives.iter().chain([&choice.matched]);
    let others = others.filter(|other| other.from != message.from);
    let mut delays = Vec::new();
    for other in others {
        delays.extend(delay(run, choice, message, *other, until_ps)?);
    }
    Ok(merge(delays))
}

/// The delay of `other` until `until_ps`; none if it is sent later.
fn delay(
    run: &ObservedRun,
    choice: &Choice,
    wanted: MessageId,
    other: MessageId,
    until_ps: u64,
) -> Result<Option<ForcedDelay>, ForceError> {
    let sent = run
        .messages
        .get(&other)
        .ok_or(ForceError::NoMessage(other))?;
    if sent.entry_ps >= until_ps {
        return Ok(None);
    }
    let node = |rank| run.nodes.get(rank).copied().unwrap_or_default();
    let [from, to, first] = [&other.from, &other.to, &wanted.from].map(node);
    let vcpu_of = |message: MessageId| run.messages.get(&message).map(|sent| sent.vcpu);
    let place = if from != to && from != first {
        DelayPlace::Hold { from, to }
    } else if from == first && vcpu_of(wanted) == Some(sent.vcpu) {
        return Err(ForceError::SharedProcessor(wanted, other));
    } else {
        DelayPlace::Detour {
            node: from,
            processor: sent.vcpu,
        }
    };
    Ok(Some(ForcedDelay {
        place,
        at_ps: sent.entry_ps,
        until_ps,
        purpose: vec![format!(
            "{other} arrives after {wanted}, for the {}",
            choice.id
        )],
    }))
}

/// Joins delays of one place that overlap or touch. The result is in the order of places and starts.
pub fn merge(mut delays: Vec<ForcedDelay>) -> Vec<ForcedDelay> {
    delays.sort_by_key(|delay| (delay.place, delay.at_ps));
    let mut merged: Vec<ForcedDelay> = Vec::new();
    for delay in delays {
        match merged.last_mut() {
            Some(last) if last.place == delay.place && delay.at_ps <= last.until_ps => {
                last.until_ps = last.until_ps.max(delay.until_ps);
                for purpose in delay.purpose {
                    if !last.purpose.contains(&purpose) {
                        last.purpose.push(purpose);
                    }
                }
            }
            _ => merged.push(delay),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::{ChoiceKind, RankId, SentMessage};

    fn rank(rank: u32) -> RankId {
        RankId { job: 0, rank }
    }

    fn message(from: u32) -> MessageId {
        MessageId {
            from: rank(from),
            to: rank(0),
            number: 0,
        }
    }

    fn receive() -> ChoiceId {
        ChoiceId {
            rank: rank(0),
            kind: ChoiceKind::Receive,
            number: 0,
        }
    }

    /// Rank 0 gets the message of rank 1 and could have got those of 2 and 3, sent at 100, 200 and 300.
    fn run(nodes: [u32; 4], vcpus: [u32; 4]) -> ObservedRun {
        let sent = |from: u32| SentMessage {
            entry_ps: u64::from(from) * 100,
            vcpu: vcpus[from as usize],
            tag: 0,
            function: "MPI_Send".to_owned(),
        };
        ObservedRun {
            choices: vec![Choice {
                id: receive(),
                function: "MPI_Recv".to_owned(),
                entry_ps: 250,
                end_ps: 400,
                matched: message(1),
                alternatives: vec![message(2), message(3)],
                thread: 0,
                steps: [1, 1],
                clock: vec![1, 1, 0, 0],
            }],
            messages: (1..4).map(|from| (message(from), sent(from))).collect(),
            nodes: (0..)
                .zip(nodes)
                .map(|(own, node)| (rank(own), node))
                .collect(),
            unknown: Vec::new(),
        }
    }

    fn planned(run: &ObservedRun, from: u32) -> Vec<(DelayPlace, u64, u64)> {
        let wanted = Order::from([(receive(), message(from))]);
        let delays = plan(run, &wanted, 50).unwrap();
        delays
            .into_iter()
            .map(|delay| (delay.place, delay.at_ps, delay.until_ps))
            .collect()
    }

    #[test]
    fn messages_that_would_come_first_are_held_until_the_wanted_one_is_sent() {
        let run = run([0, 1, 2, 3], [0; 4]);
        let hold = |from| DelayPlace::Hold { from, to: 0 };
        assert_eq!(planned(&run, 2), [(hold(1), 100, 300)]);
        assert_eq!(planned(&run, 3), [(hold(1), 100, 350), (hold(2), 200, 350)]);
        assert_eq!(planned(&run, 1), []);
    }

    #[test]
    fn processors_make_detours_where_frames_cannot_be_told_apart() {
        // Rank 1 is on the receiver's node, and ranks 2 and 3 share one.
        let run = run([0, 0, 1, 1], [0, 1, 0, 1]);
        let detour = |node, processor| DelayPlace::Detour { node, processor };
        assert_eq!(
            planned(&run, 3),
            [(detour(0, 1), 100, 350), (detour(1, 0), 200, 350)]
        );
        let shared = self::run([0, 2, 1, 1], [0; 4]);
        let wanted = Order::from([(receive(), message(3))]);
        let error = plan(&shared, &wanted, 50).unwrap_err();
        assert_eq!(error, ForceError::SharedProcessor(message(3), message(2)));
    }

    #[test]
    fn choices_and_messages_that_do_not_exist_are_named() {
        let run = run([0, 1, 2, 3], [0; 4]);
        let other = ChoiceId {
            number: 7,
            ..receive()
        };
        let error = plan(&run, &Order::from([(other, message(1))]), 50).unwrap_err();
        assert_eq!(error, ForceError::NoChoice(other));
        let error = plan(&run, &Order::from([(receive(), message(9))]), 50).unwrap_err();
        assert_eq!(error, ForceError::NoMessage(message(9)));
        assert!(error.to_string().contains("message 1 of rank 9"), "{error}");
    }

    #[test]
    fn delays_of_one_place_that_touch_become_one() {
        let place = DelayPlace::Hold { from: 1, to: 0 };
        let delay = |at_ps, until_ps| ForcedDelay {
            place,
            at_ps,
            until_ps,
            purpose: vec![format!("{at_ps}")],
        };
        let merged = merge(vec![
            delay(30, 40),
            delay(10, 20),
            delay(20, 25),
            delay(12, 15),
        ]);
        let spans: Vec<(u64, u64, usize)> = merged
            .iter()
            .map(|delay| (delay.at_ps, delay.until_ps, delay.purpose.len()))
            .collect();
        assert_eq!(spans, [(10, 25, 3), (30, 40, 1)]);
    }
}
