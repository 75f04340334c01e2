//! Properties of single calls, by their functions: polls, and the rounds of meetings.
//!
//! A call without a property here only waits for its operations. Used by `extract` for each call.

use belljar_mpi::{CallKind, Epoch, Object};
use belljar_trace::{Event, Fact};

/// True for an unsuccessful poll, and for a record of several.
pub fn found_nothing(event: &Event) -> bool {
    let nothing = event.completed.is_empty() && event.status.is_none() && event.started.is_empty();
    let over = event.details.0.as_ref().is_some_and(|details| details.over);
    event.folded.0.is_some() || event.meaning().polls && nothing && !asks_time(event) && !over
}

/// True for a call that reads the clock.
pub fn asks_time(event: &Event) -> bool {
    event.meaning().kind == CallKind::Clock
}

/// Returns the number of communication rounds in a meeting. Libraries create communicators and windows with several
/// reductions and gatherings of a few bytes, one after the other. The numbers were derived from MPICH's additional time on
/// a network of longer latency. `None` for a call without rounds.
pub(super) fn meeting_times(event: &Event) -> Option<u32> {
    use belljar_trace::Making;
    match (event.meaning().kind, &event.fact) {
        (CallKind::Init | CallKind::Finalize, _) => Some(1),
        (_, Some(Fact::Communicator(new))) => match new.how {
            Making::Split { .. } | Making::SplitByNode { .. } => Some(3),
            Making::Spawn { .. }
            | Making::Parent
            | Making::Meet { .. }
            | Making::IntercommGroups { .. }
            | Making::Unknown => None,
            _ => Some(2),
        },
        (CallKind::Make(Object::Window), _) => Some(window_times(event)),
        (CallKind::Epoch(Epoch::Fence) | CallKind::Free(Object::Window), _) => Some(1),
        _ => None,
    }
}

/// Returns the rounds that create a window, counted with 2, 4 and 8 processes of MPICH. Windows that allocate their memory
/// agree on an address; dynamic ones exchange neither addresses nor keys. The first window of two processes takes one or
/// two more rounds, in which UCX prepares its endpoints, and later ones take one less.
fn window_times(event: &Event) -> u32 {
    let parameters = &event.description().parameters;
    let has = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
    match ["baseptr", "size"].map(has) {
        [true, _] => 12,
        [false, true] => 8,
        [false, false] => 4,
    }
}
