//! A rank's operations as threads that wait for one another.
//!
//! Each thread is a chain: an operation requires its predecessor. All other dependences become conditions of calls ([`ScheduledCall`](belljar_trace::ScheduledCall)):
//! points of the process that must be reached before a call begins. Operations that do not depend on one another therefore only wait for a shared processor. Used for
//! ranks without a sequence.

use std::collections::VecDeque;

use belljar_trace::ScheduledCall;

use super::schedule::{GoalOperationKind, RankSchedule};

/// An operation in its chain, as one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The message; `None` for work without a following message in the chain.
    pub(super) message: Option<u32>,
    /// The begin of the work before the call, in nanoseconds, if messages took no time.
    pub(super) begins: u64,
    /// Its conditions, and the work.
    pub(super) scheduled: ScheduledCall,
}

/// Returns the chains of a rank.
pub(super) fn threads(rank: &RankSchedule) -> Vec<Vec<Link>> {
    // Readers refuse ranks with cycles.
    let order = rank.order().unwrap_or_default();
    let chains = Chains::of(rank, &order);
    let times = begins(rank, &order);
    let waited = Waited::of(rank, &chains);
    let links = |chain: &Vec<u32>| links(rank, chain, &chains, &waited, &times);
    chains.chains.iter().map(links).collect()
}

/// A chain that joined another one, and may be continued after that.
#[derive(Clone, Copy, Debug)]
struct Spare {
    chain: u32,
    /// Its last operation at the join.
    last: u32,
    /// The position of the joining operation in its chain.
    place: u32,
}

/// Operations by chains.
struct Chains {
    chains: Vec<Vec<u32>>,
    /// The chain of each operation, and its position there.
    places: Vec<(u32, u32)>,
    /// By chain, in the order of positions.
    spare: Vec<VecDeque<Spare>>,
}

impl Chains {
    fn of(rank: &RankSchedule, order: &[u32]) -> Self {
        let mut own = Self {
            chains: Vec::new(),
            places: vec![(0, 0); rank.operations.len()],
            spare: Vec::new(),
        };
        for number in order {
            let after = &rank.operations[*number as usize].after;
            let chain = own.continued(after).unwrap_or_else(|| {
                own.chains.push(Vec::new());
                own.spare.push(VecDeque::new());
                own.chains.len() as u32 - 1
            });
            own.append(*number, chain, after);
        }
        own
    }

    fn last(&self, chain: u32) -> Option<u32> {
        self.chains[chain as usize].last().copied()
    }

    /// Returns the chain that an operation with these prerequisites continues.
    fn continued(&mut self, after: &[u32]) -> Option<u32> {
        let mut chains = after.iter().map(|it| (*it, self.places[*it as usize].0));
        if let Some((_, chain)) = chains.find(|(it, chain)| self.last(*chain) == Some(*it)) {
            return Some(chain);
        }
        for before in after {
            let (chain, place) = self.places[*before as usize];
            while let Some(spare) = self.spare[chain as usize].front().copied() {
                if spare.place > place {
                    break;
                }
                self.spare[chain as usize].pop_front();
                if self.last(spare.chain) == Some(spare.last) {
                    return Some(spare.chain);
                }
            }
        }
        None
    }

    fn append(&mut self, number: u32, chain: u32, after: &[u32]) {
        let place = self.chains[chain as usize].len() as u32;
        for before in after {
            let joined = self.places[*before as usize].0;
            if joined != chain && self.last(joined) == Some(*before) {
                self.spare[chain as usize].push_back(Spare {
                    chain: joined,
                    last: *before,
                    place,
                });
            }
        }
        self.chains[chain as usize].push(number);
        self.places[number as usize] = (chain, place);
    }

    /// Returns the operation before one in its chain.
    fn before(&self, number: u32) -> Option<u32> {
        let (chain, place) = self.places[number as usize];
        let at = place.checked_sub(1)?;
        self.chains[chain as usize].get(at as usize).copied()
    }
}

/// Operations whose begin or end is awaited by operations of other chains.
struct Waited {
    begin: Vec<bool>,
    end: Vec<bool>,
}

impl Waited {
    fn of(rank: &RankSchedule, chains: &Chains) -> Self {
        let count = rank.operations.len();
        let mut own = Self {
            begin: vec![false; count],
            end: vec![false; count],
        };
        for (number, operation) in (0u32..).zip(&rank.operations) {
            let previous = chains.before(number);
            for before in operation.after.iter().filter(|it| Some(**it) != previous) {
                own.end[*before as usize] = true;
            }
            for before in &operation.after_start {
                own.begin[*before as usize] = true;
            }
        }
        own
    }
}

/// Returns the begin of each operation, in nanoseconds, if messages take no time and each processor does one work at a time.
fn begins(rank: &RankSchedule, order: &[u32]) -> Vec<u64> {
    let mut begins = vec![0u64; rank.operations.len()];
    let mut free = [0u64; 256];
    for number in order {
        let operation = &rank.operations[*number as usize];
        let end = |before: u32, begins: &[u64]| {
            let span = match rank.operations[before as usize].kind {
                GoalOperationKind::Work(span) => span,
                GoalOperationKind::Message { .. } => 0,
            };
            begins[before as usize].saturating_add(span)
        };
        let over = operation.after.iter().map(|it| end(*it, &begins));
        let begun = operation.after_start.iter().map(|it| begins[*it as usize]);
        let mut at = over.chain(begun).max().unwrap_or(0);
        if let GoalOperationKind::Work(span) = operation.kind {
            let free = &mut free[usize::from(operation.processor)];
            at = at.max(*free);
            *free = at.saturating_add(span);
        }
        begins[*number as usize] = at;
    }
    begins
}

/// Returns the points that are reached when an operation begins, and when it is complete.
fn points(number: u32) -> [u32; 2] {
    [number * 2, number * 2 + 1]
}

/// Returns the calls of a chain. Work is part of the message that follows it, if no other operation waits for it.
fn links(
    rank: &RankSchedule,
    chain: &[u32],
    chains: &Chains,
    waited: &Waited,
    times: &[u64],
) -> Vec<Link> {
    let mut links: Vec<Link> = Vec::new();
    let mut carried: Option<u32> = None;
    for (at, number) in chain.iter().enumerate() {
        let operation = &rank.operations[*number as usize];
        let index = *number as usize;
        let first = carried.unwrap_or(*number);
        let beginning = &rank.operations[first as usize];
        let previous = chains.before(first);
        let over = beginning.after.iter().filter(|it| Some(**it) != previous);
        let mut after: Vec<u32> = over.map(|it| points(*it)[1]).collect();
        after.extend(beginning.after_start.iter().map(|it| points(*it)[0]));
        after.sort_unstable();
        after.dedup();
        let next = chain
            .get(at + 1)
            .map(|next| (*next, &rank.operations[*next as usize]));
        let alone = next.is_some_and(|(follower, next)| {
            matches!(next.kind, GoalOperationKind::Message { .. })
                && next.before().eq([*number])
                && next.processor == operation.processor
                && !waited.begin[follower as usize]
        });
        let (message, work) = match operation.kind {
            GoalOperationKind::Work(_) if alone && !waited.begin[index] && !waited.end[index] => {
                carried = Some(*number);
                continue;
            }
            GoalOperationKind::Work(span) => (None, span),
            GoalOperationKind::Message { .. } => match beginning.kind {
                GoalOperationKind::Work(span) => (Some(*number), span),
                GoalOperationKind::Message { .. } => (Some(*number), 0),
            },
        };
        carried = None;
        let [begin, end] = points(*number);
        links.push(Link {
            message,
            begins: times[first as usize],
            scheduled: ScheduledCall {
                processor: u32::from(operation.processor),
                work,
                after,
                started: waited.begin[index].then_some(begin),
                complete: waited.end[index].then_some(end),
            },
        });
    }
    links
}

#[cfg(test)]
mod tests {
    use belljar_trace::Direction;

    use super::super::schedule::GoalOperation;
    use super::*;

    fn operation(kind: GoalOperationKind, after: &[u32]) -> GoalOperation {
        GoalOperation {
            after: after.to_vec(),
            ..GoalOperation::new(kind, 0, 0)
        }
    }

    const MESSAGE: GoalOperationKind = GoalOperationKind::Message {
        direction: Direction::Send,
        peer: Some(0),
        tag: Some(0),
        bytes: 1,
    };

    #[test]
    fn chains_are_taken_up_again_after_they_joined() {
        // Three times: three messages after one work, and work after all of them.
        let mut operations = vec![operation(GoalOperationKind::Work(1), &[])];
        for _ in 0..3 {
            let base = operations.len() as u32 - 1;
            operations.extend([(); 3].map(|()| operation(MESSAGE, &[base])));
            operations.push(operation(
                GoalOperationKind::Work(1),
                &[base + 1, base + 2, base + 3],
            ));
        }
        let threads = threads(&RankSchedule { operations });
        assert_eq!(threads.len(), 3);
        let calls: usize = threads.iter().map(Vec::len).sum();
        assert_eq!(calls, 13);
    }

    #[test]
    fn conditions_are_the_dependences_of_other_chains() {
        // Two messages, and an answer to each; the second answer also waits for the begin of the first.
        let mut operations = vec![
            operation(MESSAGE, &[]),
            operation(MESSAGE, &[]),
            operation(GoalOperationKind::Work(7), &[0]),
            operation(MESSAGE, &[2]),
            operation(MESSAGE, &[1]),
        ];
        operations[4].after_start = vec![3];
        let threads = threads(&RankSchedule { operations });
        // For each call its message, its work, the points that it awaits, and the one that it reaches.
        type Seen = (Option<u32>, u64, Vec<u32>, Option<u32>);
        let seen: Vec<Vec<Seen>> = threads
            .iter()
            .map(|links| {
                let of = |link: &Link| {
                    let own = &link.scheduled;
                    (link.message, own.work, own.after.clone(), own.started)
                };
                links.iter().map(of).collect()
            })
            .collect();
        let expected = [
            vec![
                (Some(0), 0, vec![], None),
                (None, 7, vec![], None),
                (Some(3), 0, vec![], Some(6)),
            ],
            vec![(Some(1), 0, vec![], None), (Some(4), 0, vec![6], None)],
        ];
        assert_eq!(seen, expected);
    }
}
