//! Calls that complete one of several requests, such as `MPI_Waitany`.
//!
//! Only requests of receives from given ranks count: those of receives from any source are choices themselves. A request is an
//! alternative if it was open, and if another such call completed it later, or none. Called once for a run.

use std::collections::BTreeMap;

use belljar_job::ReceiveSelector;
use belljar_orders::ChoiceKind;

use super::{Asking, Observer, Place};
use crate::check::order::OrderedKind;

impl Observer<'_> {
    /// Calls that complete one of several requests, of which the completed one receives from a given rank.
    pub(super) fn completions(&mut self) {
        for (thread, steps) in (0..).zip(&self.order.steps) {
            for (number, step) in (1..).zip(steps) {
                let named = |operation: &&u32| self.named(**operation).is_some();
                let Some(&done) = step.ends.iter().find(named).filter(|_| step.selects) else {
                    continue;
                };
                let Some((place, send)) = self.named(done) else {
                    continue;
                };
                let id = self.next_id(place.1, ChoiceKind::Completion);
                let others = self.pending(thread, number, done);
                let clock = self.replay.completion_of(done);
                let asking = Asking {
                    place,
                    wanted: ReceiveSelector {
                        from: None,
                        tag: None,
                    },
                    end: (thread, number),
                    posted: number,
                    operation: None,
                };
                let alternatives = others
                    .into_iter()
                    .filter(|other| self.is_free(*other, asking));
                let mut by_sender = BTreeMap::new();
                for other in alternatives {
                    by_sender.entry(self.ids[&other].from).or_insert(other);
                }
                by_sender.remove(&self.ids[&send].from);
                let found = by_sender.into_values().collect();
                self.push(id, asking, send, clock, found);
            }
        }
    }

    /// Receiver and send of a receive from a given rank.
    fn named(&self, operation: u32) -> Option<(Place, u32)> {
        let own = &self.order.operations[operation as usize];
        match own.what {
            OrderedKind::Receive {
                communicator,
                to,
                wanted,
            } if wanted.from.is_some() => Some(((communicator, to), own.partner?)),
            _ => None,
        }
    }

    /// The sends of a thread's receives from given ranks that were posted before call `number`, and that another such call
    /// completed later, or none.
    fn pending(&self, thread: u32, number: u32, done: u32) -> Vec<u32> {
        let steps = &self.order.steps[thread as usize];
        let begun = steps[..number as usize]
            .iter()
            .flat_map(|step| &step.begins);
        let open = begun.filter(|operation| {
            let end = self.replay.end_of(**operation);
            let is_open = end.is_none_or(|(_, call)| call > number);
            let selects = end.and_then(|(_, call)| steps.get(call as usize - 1));
            **operation != done && is_open && selects.is_none_or(|step| step.selects)
        });
        open.filter_map(|operation| Some(self.named(*operation)?.1))
            .collect()
    }
}
