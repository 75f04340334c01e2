//! Records of `belljar_formats`: the numbers that both sides of a message have, and operations of collective calls.
//!
//! Both sides of a pair have one number; a receive without a number is counted by the export. Called by the
//! comparison of a trace.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_formats::{ExportedCall, ExportedMessage, Record, Source};
use belljar_trace::TraceError;

use super::{Difference, Differences, is};
use crate::job::OperationId;
use crate::truth::{CallKey, Truth};

/// The messages of the records.
struct Sides<'a> {
    truth: &'a Truth,
    /// Sends and receives by their number.
    numbered: BTreeMap<u64, (Vec<OperationId>, Vec<OperationId>)>,
    /// Operations that have no number.
    unnumbered: Vec<OperationId>,
    /// Active receives, by rank and request.
    requests: BTreeMap<(u32, u64), OperationId>,
    differences: Differences,
}

pub(super) fn check(truth: &Truth, path: &Path) -> Result<Vec<Difference>, TraceError> {
    let mut source = Source::open(path)?;
    let mut sides = Sides {
        truth,
        numbered: BTreeMap::new(),
        unnumbered: Vec::new(),
        requests: BTreeMap::new(),
        differences: Differences::new("export"),
    };
    while let Some(call) = source.next_call() {
        sides.take(&call);
    }
    let left_out = source.left_out();
    let unnumbered = left_out.unnumbered + left_out.untold;
    let unreturned = (source.left_out().unreturned, truth.unfinished());
    sides.differences.unless(unreturned.0 == unreturned.1, || {
        format!("(found, expected) calls never return: {unreturned:?}")
    });
    Ok(sides.compare(unnumbered))
}

impl Sides<'_> {
    fn take(&mut self, call: &ExportedCall) {
        let key = (call.event.rank, call.event.thread, call.event.entry);
        let (sends, receives) = self.truth.sides(key);
        let mut sends = sends.into_iter();
        let mut receives = receives.into_iter();
        for record in call.begun.iter().chain(&call.done) {
            match record {
                Record::Send(part) | Record::SendBegun(part, _) => match sends.next() {
                    Some(send) => self.side(*part, send),
                    None => self
                        .differences
                        .push(format!("{key:?} sends a message that it does not send")),
                },
                Record::Receive(part) => match receives.next() {
                    Some(receive) => self.side(*part, receive),
                    None => self.differences.push(format!(
                        "{key:?} receives a message that it does not receive"
                    )),
                },
                Record::ReceiveBegun(request) => {
                    self.requests
                        .extend(receives.next().map(|receive| ((key.0, *request), receive)));
                }
                Record::ReceiveCompleted(part, request) => {
                    match self.requests.get(&(key.0, *request)) {
                        Some(receive) => self.side(*part, *receive),
                        None => self
                            .differences
                            .push(format!("{key:?} completes the unknown request {request}")),
                    }
                }
                _ => {}
            }
        }
        for send in sends {
            self.differences
                .push(format!("{} has no record", self.truth.named(send)));
        }
        self.collectives(key, call);
        let accesses = call.begun.iter().filter_map(|record| match record {
            Record::Accessed {
                other,
                sent,
                received,
                ..
            } => Some((other.member.rank, *sent, *received)),
            _ => None,
        });
        let (accesses, expected) = (accesses.collect::<Vec<_>>(), self.truth.accesses(key));
        self.differences.unless(accesses == expected, || {
            format!("{key:?} accesses {accesses:?} instead of {expected:?}")
        });
    }

    /// Operations that the call's parts are of.
    fn collectives(&mut self, key: CallKey, call: &ExportedCall) {
        let mut expected = self.truth.collectives(key);
        // Formats have no operations of neighbours.
        expected.retain(|operation| !operation.is_neighborhood());
        let records = call.begun.iter();
        let begun = records.filter(|record| {
            matches!(
                record,
                Record::CollectiveEntered | Record::CollectiveBegun(_)
            )
        });
        let begun = begun.count();
        self.differences.unless(begun == expected.len(), || {
            format!(
                "{key:?} begins {begun} collective operations instead of {}",
                expected.len()
            )
        });
        for (record, expected) in call.done.iter().zip(&expected) {
            if let Record::Collective(collected) = record {
                let found = collected.operation;
                self.differences.unless(is(*expected, found), || {
                    format!("{key:?} is {found:?} instead of {expected:?}")
                });
            }
        }
    }

    fn side(&mut self, part: ExportedMessage, operation: OperationId) {
        let Some(number) = part.message else {
            self.unnumbered.push(operation);
            return;
        };
        let pair = self.numbered.entry(number).or_default();
        match self.truth.is_send(operation) {
            true => pair.0.push(operation),
            false => pair.1.push(operation),
        }
    }

    /// Compares the pairs of numbers; `unnumbered` receives have none, as the export reports.
    fn compare(mut self, unnumbered: u64) -> Vec<Difference> {
        let truth = self.truth;
        let mut missing = 0;
        for (number, (sends, receives)) in &self.numbered {
            let ([send], receives) = (sends.as_slice(), receives.as_slice()) else {
                self.differences
                    .push(format!("message {number} has the sends {sends:?}"));
                continue;
            };
            let expected = truth
                .pairs()
                .find(|(own, _)| own == send)
                .map(|(_, receive)| receive);
            match receives {
                [receive] => self.differences.unless(Some(*receive) == expected, || {
                    format!(
                        "{} went to receive #{receive} instead of {expected:?}",
                        truth.named(*send)
                    )
                }),
                [] => missing += u64::from(!truth.is_open(*send) && expected.is_some()),
                _ => self.differences.push(format!(
                    "{} has the receives {receives:?}",
                    truth.named(*send)
                )),
            }
        }
        let counted = self.unnumbered.iter();
        let counted = counted
            .filter(|operation| !truth.is_send(**operation))
            .count() as u64;
        self.differences.unless(
            missing <= unnumbered && counted <= unnumbered.max(missing),
            || format!("{missing} sends have no receive, and {unnumbered} receives are counted"),
        );
        for operation in &self.unnumbered {
            if !truth.is_send(*operation) && unnumbered > 0 {
                continue;
            }
            let send = truth.sends.get(operation).copied().unwrap_or(*operation);
            self.differences
                .unless(truth.is_open(send) || !truth.is_send(send), || {
                    format!(
                        "operation #{operation} has no number, of {}",
                        truth.named(send)
                    )
                });
        }
        self.differences.all
    }
}
