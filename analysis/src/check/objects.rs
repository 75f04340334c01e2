//! Objects that are never freed: communicators, groups, datatypes, operators, windows, infos, error handlers, files.
//!
//! Traces have no handle of most objects, but the address of the variable that a call filled in, by which a later free is
//! assigned to it. Frees by another address are counted and excuse as many objects. Called for each event that returned.

use std::collections::BTreeMap;
use std::rc::Rc;

use belljar_job::ProcessKey;
use belljar_mpi::{Base, CallKind, Creation, Object};
use belljar_trace::{Datatype, Event, Fact};

use super::finding::{FindingKind, Findings};

/// Limit on objects of a process that are followed.
const MOST_OBJECTS: usize = 1 << 16;

/// Objects of one kind and process.
#[derive(Debug, Default)]
struct Live {
    /// The creating call and the address of the variable with the handle, in the order of creation.
    made: Vec<(Rc<Event>, u64)>,
    /// Objects that were freed by a variable that no call filled in.
    freed_elsewhere: usize,
    /// True if objects were not followed.
    is_crowded: bool,
}

/// Objects of all processes.
#[derive(Debug, Default)]
pub(super) struct Objects(BTreeMap<(ProcessKey, FindingKind), Live>);

impl Objects {
    pub(super) fn take(&mut self, call: &Rc<Event>) {
        if call.exit.is_none() || call.failed() {
            return;
        }
        let process = (call.node, call.process);
        if let Some((kind, variable)) = made(call) {
            let live = self.0.entry((process, kind)).or_default();
            match live.made.len() < MOST_OBJECTS {
                true => live.made.push((Rc::clone(call), variable)),
                false => live.is_crowded = true,
            }
        } else if let Some((kind, variable)) = freed(call) {
            let live = self.0.entry((process, kind)).or_default();
            let place = live.made.iter().rposition(|(_, own)| *own == variable);
            match place {
                Some(place) => {
                    live.made.remove(place);
                }
                None => live.freed_elsewhere += 1,
            }
        }
    }

    /// Adds the objects that are left when a process ends MPI.
    pub(super) fn end_of(&mut self, process: ProcessKey, findings: &mut Findings) {
        let own = self.0.extract_if(
            (process, FindingKind::CallOrder)..=(process, FindingKind::Deadlock),
            |_, _| true,
        );
        for ((_, kind), live) in own {
            let left = live.made.len().saturating_sub(live.freed_elsewhere);
            if live.is_crowded {
                continue;
            }
            // Which of them were freed by another variable is unknown; the last ones are the least certain.
            for (call, _) in live.made.iter().take(left) {
                let text = format!("{} of {} is not freed", noun(kind), call.name());
                findings.add(kind, &[call], text);
            }
        }
    }
}

fn noun(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::CommunicatorLeak => "a communicator",
        FindingKind::GroupLeak => "a group",
        FindingKind::DatatypeLeak => "a datatype",
        FindingKind::OperatorLeak => "an operator",
        FindingKind::WindowLeak => "a window",
        _ => "an object",
    }
}

/// The kind of the objects behind handles of this type.
fn kind_of(base: Base) -> Option<FindingKind> {
    Some(match base {
        Base::Comm => FindingKind::CommunicatorLeak,
        Base::Group => FindingKind::GroupLeak,
        Base::Datatype => FindingKind::DatatypeLeak,
        Base::Op => FindingKind::OperatorLeak,
        Base::Win => FindingKind::WindowLeak,
        Base::Info | Base::Errhandler | Base::File => FindingKind::ObjectLeak,
        _ => return None,
    })
}

/// The kind of the object that a call made, and the address of its handle.
fn made(call: &Event) -> Option<(FindingKind, u64)> {
    let is_made = match call.meaning().kind {
        CallKind::MakeCommunicator(Creation::Existing) => false,
        CallKind::MakeCommunicator(_) => match &call.fact {
            Some(Fact::Communicator(new)) => new.number.is_some(),
            _ => false,
        },
        CallKind::Make(Object::Datatype) => {
            matches!(call.fact, Some(Fact::Datatype(Datatype::Derived { .. })))
                && !call.meaning().base.contains("f90")
        }
        CallKind::Make(_) => true,
        _ => false,
    };
    is_made.then(|| variable(call)).flatten()
}

/// The kind of the object that a call freed, and the address of its handle.
fn freed(call: &Event) -> Option<(FindingKind, u64)> {
    matches!(call.meaning().kind, CallKind::Free(_))
        .then(|| variable(call))
        .flatten()
}

/// The last parameter through which a call returns a handle.
fn variable(call: &Event) -> Option<(FindingKind, u64)> {
    let parameters = call.description().parameters.iter().zip(&call.arguments);
    let mut handles = parameters.rev().filter(|(parameter, _)| {
        parameter.pointer == 1 && !parameter.is_const && kind_of(parameter.base).is_some()
    });
    let (parameter, address) = handles.next()?;
    Some((kind_of(parameter.base)?, *address))
}
