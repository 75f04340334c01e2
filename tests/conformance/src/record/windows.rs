//! Calls on the job's window, and their arguments.
//!
//! The window exists from its creation to its freeing, in every rank. Called for each call that names it.

use belljar_tracer::scripted::{Guest, int};

use super::arguments::{BUFFER, Made, Output};
use super::library::Library;
use crate::job::{Access, Window};

/// The window's handle.
const WINDOW: u64 = 0xa000_0001;
/// The group of all ranks.
pub(super) const ALL: u64 = 0x8800_0001;
/// The handle of the group of rank 0 alone.
const GROUPS: u64 = 0x8800_0010;

/// A call that makes, synchronises or frees the window.
pub(super) fn call(guest: &mut Guest, library: Library, window: Window) -> Made {
    let mut outputs = Vec::new();
    let rank = |rank: u32| int(rank.cast_signed());
    let (name, words) = match window {
        Window::Create(_) => {
            let out = guest.handles(&[0]);
            outputs.push(Output::Handle(out, library.made(WINDOW)));
            (
                "MPI_Win_create",
                vec![BUFFER, 0x1000, int(1), library.no_info, library.world, out],
            )
        }
        Window::Allocate(_) => {
            let base = guest.words(&[0]);
            let out = guest.handles(&[0]);
            outputs.push(Output::Handle(out, library.made(WINDOW)));
            (
                "MPI_Win_allocate",
                vec![0x1000, int(1), library.no_info, library.world, base, out],
            )
        }
        Window::Free(_) => {
            let own = guest.handles(&[library.made(WINDOW)]);
            outputs.push(Output::Handle(own, library.no_window));
            ("MPI_Win_free", vec![own])
        }
        Window::Fence(_) => ("MPI_Win_fence", vec![int(0), library.made(WINDOW)]),
        Window::Lock(target, exclusive) => {
            let kind = if exclusive {
                library.exclusive
            } else {
                library.shared
            };
            (
                "MPI_Win_lock",
                vec![int(kind), rank(target), int(0), library.made(WINDOW)],
            )
        }
        Window::LockAll => ("MPI_Win_lock_all", vec![int(0), library.made(WINDOW)]),
        Window::FlushAll => ("MPI_Win_flush_all", vec![library.made(WINDOW)]),
        Window::UnlockAll => ("MPI_Win_unlock_all", vec![library.made(WINDOW)]),
        Window::Group(member) => {
            let ranks = guest.ints(&[member.cast_signed()]);
            let out = guest.handles(&[0]);
            outputs.push(Output::Handle(
                out,
                library.made(GROUPS + u64::from(member)),
            ));
            let words = vec![library.made(ALL), int(1), ranks, out];
            ("MPI_Group_incl", words)
        }
        Window::Post(origin, _) => {
            let group = library.made(GROUPS + u64::from(origin));
            ("MPI_Win_post", vec![group, int(0), library.made(WINDOW)])
        }
        Window::Start(target, _) => {
            let group = library.made(GROUPS + u64::from(target));
            ("MPI_Win_start", vec![group, int(0), library.made(WINDOW)])
        }
        Window::Complete(_) => ("MPI_Win_complete", vec![library.made(WINDOW)]),
        Window::Wait(_) => ("MPI_Win_wait", vec![library.made(WINDOW)]),
        Window::Flush(target) => ("MPI_Win_flush", vec![rank(target), library.made(WINDOW)]),
        Window::Unlock(target) => ("MPI_Win_unlock", vec![rank(target), library.made(WINDOW)]),
    };
    Made {
        name,
        words,
        outputs,
    }
}

/// The function of an access, and the one that returns a request.
pub(super) fn names(access: Access) -> [&'static str; 2] {
    match access {
        Access::Put => ["MPI_Put", "MPI_Rput"],
        Access::Get => ["MPI_Get", "MPI_Rget"],
        Access::Accumulate => ["MPI_Accumulate", "MPI_Raccumulate"],
    }
}

/// An access to the window at a rank.
pub(super) fn access(library: Library, access: Access, target: u32, bytes: u64) -> Made {
    let name = names(access)[0];
    let target = int(target.cast_signed());
    let mut words = vec![BUFFER, bytes, library.byte, target, 0, bytes, library.byte];
    if access == Access::Accumulate {
        words.push(library.sum);
    }
    words.push(library.made(WINDOW));
    Made {
        name,
        words,
        outputs: Vec::new(),
    }
}
