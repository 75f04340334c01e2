//! Completions of the program's operations: each call completes the requests that it completed.
//!
//! A slot stands for an operation from its beginning until it is waited for. Operations that the program lacks have no slot and are not
//! compared. Called by the comparison of programs.

use std::collections::BTreeMap;

use belljar_program::{Operation, Program, Slot};

use super::Differences;
use super::program::is_of_epochs;
use crate::job::{Action, OperationId};
use crate::truth::{CallKey, Truth};

/// Active operations of a thread, by their slots.
pub(super) struct Completions<'a> {
    truth: &'a Truth,
    program: &'a Program,
    slots: BTreeMap<Slot, OperationId>,
}

impl<'a> Completions<'a> {
    pub(super) fn new(truth: &'a Truth, program: &'a Program) -> Self {
        Self {
            truth,
            program,
            slots: BTreeMap::new(),
        }
    }

    /// Takes the operations of a thread's next call into account.
    pub(super) fn take(
        &mut self,
        key: CallKey,
        operations: &[Operation],
        differences: &mut Differences,
    ) {
        self.begin(key, operations);
        let begun = self.truth.begun.get(&key).into_iter().flatten();
        let completed = self.truth.completed.get(&key).into_iter().flatten();
        let mut expected: Vec<OperationId> = begun.chain(completed).copied().collect();
        // Polls that follow one another closely are one call of the program, from the first one on.
        expected.extend(self.truth.polled_for(key));
        for operation in operations {
            let Operation::Wait { slot } = operation else {
                continue;
            };
            if let Some(found) = self.slots.remove(slot) {
                // The end of an epoch and a flush complete accesses, too.
                let access = matches!(self.truth.action(found), Action::Access { .. });
                differences.unless(access || expected.contains(&found), || {
                    format!("{key:?} completes operation #{found}")
                });
            }
        }
        let completed = self.truth.completed.get(&key).into_iter().flatten();
        for operation in completed {
            let left = self.slots.values().any(|own| own == operation);
            differences.unless(!left, || {
                format!("{key:?} does not complete operation #{operation}")
            });
        }
    }

    /// Gives the operations that a call begins their slots.
    fn begin(&mut self, key: CallKey, operations: &[Operation]) {
        let (sends, receives) = self.truth.sides(key);
        let (mut sends, mut receives) = (sends.into_iter(), receives.into_iter());
        let mut parts = self.of_kind(key, |action| matches!(action, Action::Collective { .. }));
        let mut accesses = self.of_kind(key, |action| matches!(action, Action::Access { .. }));
        for operation in operations {
            let begun = match operation {
                _ if is_of_epochs(self.program, operation) => None,
                Operation::Send { slot, .. } | Operation::SendPartitioned { slot, .. } => {
                    sends.next().map(|send| (slot, send))
                }
                Operation::Receive { slot, .. } | Operation::Nothing { slot } => {
                    receives.next().map(|receive| (slot, receive))
                }
                Operation::Collective { slot, .. } => parts.next().map(|part| (slot, part)),
                Operation::Access { slot, .. } => accesses.next().map(|access| (slot, access)),
                _ => None,
            };
            self.slots
                .extend(begun.map(|(slot, operation)| (*slot, operation)));
        }
    }

    /// The operations of a kind that a call begins, as far as the trace has them.
    fn of_kind(&self, key: CallKey, is: fn(Action) -> bool) -> std::vec::IntoIter<OperationId> {
        let begun = self.truth.begun.get(&key).into_iter().flatten().copied();
        let own = begun.filter(|it| is(self.truth.action(*it)) && self.truth.is_told(*it));
        own.collect::<Vec<_>>().into_iter()
    }
}
