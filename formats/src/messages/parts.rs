//! Collective operations: whole, or as their messages.
//!
//! For an operation as messages, each member sends and receives the messages of the library's algorithm, or directly the messages that the program requested.
//! Used by `messages` and `tally`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use belljar_collectives::{Action, Call};
use belljar_program::{Participation, Program};

use super::MessageEnd;
use super::tally::Tally;

/// Most parts whose steps are kept.
const MOST_KEPT: usize = 1 << 10;

/// A message of a part: its end, its peer, and its bytes.
pub(super) type PartStep = (MessageEnd, u32, u64);

/// Steps, each with the number of messages from the first on that must be complete before it begins.
pub(super) type PartSteps = Arc<[(PartStep, u32)]>;

/// A cache of the steps of recently used parts.
#[derive(Debug, Default)]
pub(super) struct PartStepsCache {
    kept: BTreeMap<u32, PartSteps>,
    order: VecDeque<u32>,
}

/// Returns the arguments of a part by the library.
pub(super) fn call_of(program: &Program, part: u32) -> Option<&Call> {
    match program.parts.get(part as usize)? {
        Participation::Library { call, .. } => Some(call),
        Participation::Direct { .. } => None,
    }
}

impl PartStepsCache {
    /// Returns the messages of a member's part in a collective operation.
    pub(super) fn steps(
        &mut self,
        tally: &Tally<'_>,
        program: &Program,
        collective: u32,
        part: u32,
        place: u32,
    ) -> PartSteps {
        match &program.parts[part as usize] {
            Participation::Direct { sends } => {
                let sends = sends
                    .iter()
                    .map(|(to, bytes)| (MessageEnd::Sends, *to, *bytes));
                let receives = tally.straight_to(collective, place);
                let receives = receives.map(|(from, bytes)| (MessageEnd::Receives, from, bytes));
                let others = sends.chain(receives).filter(|step| step.1 != place);
                others.map(|step| (step, 0)).collect()
            }
            Participation::Library { .. } => {
                if let Some(kept) = self.kept.get(&part) {
                    return Arc::clone(kept);
                }
                let steps = scheduled(program, part);
                if self.order.len() >= MOST_KEPT
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.kept.remove(&oldest);
                }
                self.order.push_back(part);
                self.kept.insert(part, Arc::clone(&steps));
                steps
            }
        }
    }
}

/// Returns the messages of a part by a library's algorithm.
pub(super) fn scheduled(program: &Program, part: u32) -> PartSteps {
    let Some(schedule) = program
        .parts
        .get(part as usize)
        .map(Participation::schedule)
    else {
        return Arc::new([]);
    };
    let mut steps = Vec::new();
    // The number of messages among the steps before each.
    let mut messages = Vec::with_capacity(schedule.steps().len() + 1);
    for step in schedule.steps() {
        messages.push(steps.len() as u32);
        let needs = step.needs.end as usize;
        let needs = messages.get(needs).copied().unwrap_or(0);
        match step.action {
            Action::Send { to, bytes } => steps.push(((MessageEnd::Sends, to, bytes), needs)),
            Action::Receive { from, bytes } => {
                steps.push(((MessageEnd::Receives, from, bytes), needs))
            }
            Action::Combine { .. } | Action::Copy { .. } => {}
        }
    }
    steps.into()
}
