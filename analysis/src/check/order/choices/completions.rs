//! Calls that complete one of several requests, such as `MPI_Waitany`.
//!
//! A trace does not have the requests that were passed to such a call. All open receives of the thread count as passed, so an
//! alternative may not exist; the search then finds that no delay forces it. Called once for a run.

use std::collections::BTreeMap;

use belljar_job::ReceiveSelector;
use belljar_orders::ChoiceKind;

use super::{Asking, Observer, Place};
use crate::check::order::OrderedKind;

/// A receive that got a message.
#[derive(Clone, Copy, Debug)]
struct Received {
    operation: u32,
    place: Place,
    wanted: ReceiveSelector,
    send: u32,
}

impl Observer<'_> {
    /// Calls that completed a receive, and could have completed another one.
    pub(super) fn completions(&mut self) {
        for (thread, steps) in (0..).zip(&self.order.steps) {
            for (number, step) in (1..).zip(steps) {
                let mut done = step.ends.iter().filter(|_| step.selects);
                let Some(done) = done.find_map(|operation| self.received(*operation)) else {
                    continue;
                };
                let id = self.next_id(done.place.1, ChoiceKind::Completion);
                let asking = Asking {
                    place: done.place,
                    wanted: ReceiveSelector {
                        from: None,
                        tag: None,
                    },
                    end: (thread, number),
                    posted: number,
                    operation: None,
                };
                let mut by_sender = BTreeMap::new();
                for other in self.open(thread, number) {
                    if self.is_free(other, asking) {
                        by_sender.entry(self.ids[&other].from).or_insert(other);
                    }
                }
                by_sender.remove(&self.ids[&done.send].from);
                let found = by_sender.into_values().collect();
                let clock = self.replay.completion_of(done.operation);
                self.push(id, asking, done.send, clock, found);
            }
        }
    }

    fn received(&self, operation: u32) -> Option<Received> {
        let own = &self.order.operations[operation as usize];
        let OrderedKind::Receive {
            communicator,
            to,
            wanted,
        } = own.what
        else {
            return None;
        };
        Some(Received {
            operation,
            place: (communicator, to),
            wanted,
            send: own.partner?,
        })
    }

    /// The sends of a thread's receives that were open at call `number`, and that could be the first to complete there.
    fn open(&self, thread: u32, number: u32) -> Vec<u32> {
        let steps = &self.order.steps[thread as usize];
        let begun = steps[..number as usize].iter();
        let open = begun.flat_map(|step| &step.begins).filter(|operation| {
            let end = self.replay.end_of(**operation);
            end.is_none_or(|(_, call)| call >= number)
        });
        let open = open.filter_map(|operation| self.received(*operation));
        let open: Vec<Received> = open.collect();
        let is_first = |at: &usize| {
            let own = open[*at];
            let mut earlier = open[..*at].iter();
            !earlier.any(|other| other.place == own.place && self.takes(other.wanted, own.send))
        };
        let first = (0..open.len()).filter(is_first);
        first.map(|at| open[at].send).collect()
    }

    /// True if a receive would take this message.
    fn takes(&self, wanted: ReceiveSelector, send: u32) -> bool {
        match self.order.operations[send as usize].what {
            OrderedKind::Send { from, tag, .. } => {
                wanted.from.is_none_or(|own| own == from) && wanted.tag.is_none_or(|own| own == tag)
            }
            _ => false,
        }
    }
}
