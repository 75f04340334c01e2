//! What single calls are, by their functions: polls, accesses to windows, ways of sending, what waits for whom.
//!
//! Called by `extract`.

use belljar_mpi::{CallKind, Epoch, Object};
use belljar_trace::{Event, Fact, WORLD};

use super::tables::Sync;

/// Whether a call is a poll that found nothing, or several.
pub fn found_nothing(event: &Event) -> bool {
    let nothing = event.completed.is_empty() && event.status.is_none() && event.started.is_empty();
    let over = event.details.0.as_ref().is_some_and(|details| details.over);
    event.folded.0.is_some() || event.meaning().polls && nothing && !asks_time(event) && !over
}

/// Whether a call asks for the time.
pub fn asks_time(event: &Event) -> bool {
    event.meaning().kind == CallKind::Clock
}

/// Whom a call that is no collective operation of its own waits for. Libraries make communicators and windows by several reductions and
/// gatherings of a few bytes, one after the other; so many of them were counted in what MPICH takes longer where latency is longer.
pub(super) fn synchronizes(event: &Event, communicator: Option<u32>) -> Option<Sync> {
    use belljar_trace::Making;
    let on = |communicator: Option<u32>, times| {
        communicator.map(|communicator| Sync {
            communicator,
            times,
        })
    };
    match (event.meaning().kind, &event.fact) {
        (CallKind::Init | CallKind::Finalize, _) => on(Some(WORLD), 1),
        (_, Some(Fact::Communicator(new))) => match new.how {
            Making::CreateGroup { .. } => on(new.number, 2),
            Making::Split { .. } | Making::SplitByNode { .. } => on(new.parent, 3),
            Making::Intercomm { .. } => on(new.parent, 2),
            Making::Spawn { .. }
            | Making::Parent
            | Making::Meet { .. }
            | Making::IntercommGroups { .. }
            | Making::Unknown => None,
            _ => on(new.parent, 2),
        },
        (CallKind::Make(Object::Window), _) => on(communicator, 7),
        (CallKind::Epoch(Epoch::Fence) | CallKind::Free(Object::Window), _) => on(communicator, 1),
        _ => None,
    }
}
