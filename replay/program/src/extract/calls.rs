//! What single calls are, by their functions: polls, accesses to windows, ways of sending, what waits for whom.
//!
//! Called by `extract`.

use belljar_abi::Base;
use belljar_trace::{Event, Fact, WORLD, is_poll};

use super::tables::Sync;
use crate::program::Mode;

/// Whether a call is a poll that found nothing, or several.
pub fn found_nothing(event: &Event) -> bool {
    let nothing = event.completed.is_empty() && event.status.is_none() && event.started.is_empty();
    let over = event.details.0.as_ref().is_some_and(|details| details.over);
    event.folded.0.is_some() || is_poll(event.name()) && nothing && !asks_time(event) && !over
}

/// Whether a call asks for the time.
pub fn asks_time(event: &Event) -> bool {
    matches!(event.name(), "MPI_Wtime" | "MPI_Wtick")
}

pub(super) fn is_one_sided(event: &Event) -> bool {
    let mut parameters = event.description().parameters.iter();
    parameters.any(|parameter| parameter.base == Base::Win)
}

/// Whether a call of this name returns when accesses to other processes' memory are over.
pub(super) fn ends_accesses(name: &str) -> bool {
    const ENDS: [&str; 8] = [
        "MPI_Win_fence",
        "MPI_Win_unlock",
        "MPI_Win_unlock_all",
        "MPI_Win_flush",
        "MPI_Win_flush_all",
        "MPI_Win_flush_local",
        "MPI_Win_flush_local_all",
        "MPI_Win_complete",
    ];
    ENDS.contains(&name)
}

/// How a function of this name sends.
pub(super) fn mode(name: &str) -> Mode {
    match name.strip_prefix("MPI_").unwrap_or(name) {
        name if name.starts_with("Ssend") || name.starts_with("Issend") => Mode::Synchronous,
        name if name.starts_with("Bsend") || name.starts_with("Ibsend") => Mode::Buffered,
        name if name.starts_with("Rsend") || name.starts_with("Irsend") => Mode::Ready,
        _ => Mode::Standard,
    }
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
    match (event.name(), &event.fact) {
        ("MPI_Init" | "MPI_Init_thread" | "MPI_Finalize", _) => on(Some(WORLD), 1),
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
        (name, _) if name.starts_with("MPI_Win_create") || name.starts_with("MPI_Win_allocate") => {
            on(communicator, 7)
        }
        ("MPI_Win_fence" | "MPI_Win_free", _) => on(communicator, 1),
        _ => None,
    }
}
