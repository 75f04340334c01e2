//! The kinds of functions that have colours in a timeline.
//!
//! A kind follows from the meaning of the function. The page's script has names and colours in the same order
//! (`page/script/data/colours.js`). Used by `timeline`.

use belljar_mpi::{CallKind, Meaning, Operation};

/// Kinds, by their numbers on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FunctionKind {
    StartAndEnd,
    Barrier,
    WaitAndTest,
    AllToAll,
    Rooted,
    Send,
    Receive,
    Other,
}

impl FunctionKind {
    /// Returns the kind of a function with this meaning.
    pub(super) fn of(meaning: &Meaning) -> Self {
        if meaning.boundary().is_some() {
            return Self::StartAndEnd;
        }
        match meaning.kind {
            CallKind::Complete(_)
            | CallKind::Probe
            | CallKind::ProbeMatched
            | CallKind::Arrived => Self::WaitAndTest,
            CallKind::Send(_)
            | CallKind::SendReceive
            | CallKind::SendPartitioned
            | CallKind::Start
            | CallKind::Ready => Self::Send,
            CallKind::Receive | CallKind::ReceiveMatched | CallKind::ReceivePartitioned => {
                Self::Receive
            }
            CallKind::Collective(operation) => Self::of_operation(operation),
            _ => Self::Other,
        }
    }

    fn of_operation(operation: Operation) -> Self {
        match operation {
            Operation::Barrier => Self::Barrier,
            Operation::Broadcast
            | Operation::Gather
            | Operation::Gatherv
            | Operation::Scatter
            | Operation::Scatterv
            | Operation::Reduce
            | Operation::Scan
            | Operation::Exscan => Self::Rooted,
            operation if operation.is_neighborhood() => Self::Other,
            _ => Self::AllToAll,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FunctionKind::*;

    #[test]
    fn kinds_follow_from_meanings() {
        for (kind, names) in [
            (
                StartAndEnd,
                ["MPI_Init", "MPI_Session_init", "MPI_Finalize"],
            ),
            (
                Other,
                ["MPI_Initialized", "MPI_Finalized", "MPI_Comm_split"],
            ),
            (Barrier, ["MPI_Barrier", "MPI_Ibarrier", "MPI_Barrier_init"]),
            (WaitAndTest, ["MPI_Waitall", "MPI_Test", "MPI_Improbe"]),
            (
                AllToAll,
                ["MPI_Allreduce", "MPI_Ialltoallv", "MPI_Reduce_scatter"],
            ),
            (Rooted, ["MPI_Bcast", "MPI_Ireduce", "MPI_Gatherv"]),
            (Send, ["MPI_Isend", "MPI_Sendrecv", "MPI_Start"]),
            (Receive, ["MPI_Irecv", "MPI_Mrecv", "MPI_Recv_init"]),
        ] {
            for name in names {
                let meaning = belljar_mpi::meaning_of(name).unwrap();
                assert_eq!(FunctionKind::of(meaning), kind, "{name}");
            }
        }
    }
}
