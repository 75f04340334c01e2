//! Arguments of calls that make communicators, groups, datatypes and windows.
//!
//! MPI libraries accept some of them. Called for each event.

use std::rc::Rc;

use belljar_mpi::{Base, CallKind, Object};
use belljar_trace::{Event, Fact, Making, UNDEFINED};

use crate::check::finding::{FindingKind, Findings};

/// Checks the arguments of a call.
pub(super) fn take(call: &Rc<Event>, findings: &mut Findings) {
    let makes = matches!(
        call.meaning().kind,
        CallKind::Make(Object::Datatype | Object::Window) | CallKind::MakeCommunicator(_)
    );
    if !makes {
        return;
    }
    let parameters = call.description().parameters.iter();
    for (parameter, word) in parameters.zip(&call.arguments) {
        let is_number = matches!(parameter.base, Base::Int | Base::Count | Base::Aint);
        if !is_number || parameter.pointer != 0 {
            continue;
        }
        if let Some((kind, rule)) = fault(parameter.name, word.cast_signed()) {
            let (name, value) = (parameter.name, word.cast_signed());
            let text = format!("{} has {name}={value}; {rule}", call.name());
            findings.add(kind, &[call], text);
        }
    }
    let Some(Fact::Communicator(new)) = &call.fact else {
        return;
    };
    if let Making::Cart { dimensions, .. } = &new.how
        && let Some(at) = dimensions.iter().position(|length| *length == 0)
    {
        let text = format!(
            "{} has no positive length of dimension {at}; dimensions are positive",
            call.name()
        );
        findings.add(FindingKind::InvalidArgument, &[call], text);
    }
}

/// The rule that a number violates (MPI-4.0, 5.1.2, 7.4.2, 8.5.1 and 12.2.1).
fn fault(name: &str, value: i64) -> Option<(FindingKind, &'static str)> {
    let argument = FindingKind::InvalidArgument;
    match name {
        "color" if value < 0 && value != UNDEFINED => {
            Some((argument, "colors are not negative, or MPI_UNDEFINED"))
        }
        "ndims" | "nnodes" | "indegree" | "outdegree" if value < 0 => {
            Some((argument, "numbers are not negative"))
        }
        "disp_unit" if value <= 0 => Some((argument, "units are positive")),
        "count" | "blocklength" if value < 0 => {
            Some((FindingKind::InvalidCount, "counts are not negative"))
        }
        _ => None,
    }
}
