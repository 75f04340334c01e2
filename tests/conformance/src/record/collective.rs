//! Functions of collective operations, and their arguments.
//!
//! Amounts follow from the operation's size alone, so that all members pass what fits together. Called for each part.

use belljar_tracer::scripted::int;

use super::arguments::{Arguments, BUFFER, BYTE, SUM, handle_of};
use crate::job::{Action, Collective, Job, OperationId};

/// The blocking, the nonblocking and the persistent function.
pub(super) fn names(job: &Job, operation: OperationId) -> [&'static str; 3] {
    let Action::Collective { operation, .. } = job.operations[operation].action else {
        return [""; 3];
    };
    match operation {
        Collective::Barrier => ["MPI_Barrier", "MPI_Ibarrier", "MPI_Barrier_init"],
        Collective::Bcast => ["MPI_Bcast", "MPI_Ibcast", "MPI_Bcast_init"],
        Collective::Reduce => ["MPI_Reduce", "MPI_Ireduce", "MPI_Reduce_init"],
        Collective::Allreduce => ["MPI_Allreduce", "MPI_Iallreduce", "MPI_Allreduce_init"],
        Collective::Gather => ["MPI_Gather", "MPI_Igather", "MPI_Gather_init"],
        Collective::Scatter => ["MPI_Scatter", "MPI_Iscatter", "MPI_Scatter_init"],
        Collective::Allgather => ["MPI_Allgather", "MPI_Iallgather", "MPI_Allgather_init"],
        Collective::Alltoall => ["MPI_Alltoall", "MPI_Ialltoall", "MPI_Alltoall_init"],
        Collective::ReduceScatterBlock => [
            "MPI_Reduce_scatter_block",
            "MPI_Ireduce_scatter_block",
            "MPI_Reduce_scatter_block_init",
        ],
        Collective::Scan => ["MPI_Scan", "MPI_Iscan", "MPI_Scan_init"],
        Collective::Exscan => ["MPI_Exscan", "MPI_Iexscan", "MPI_Exscan_init"],
        Collective::Gatherv => ["MPI_Gatherv", "MPI_Igatherv", "MPI_Gatherv_init"],
        Collective::Scatterv => ["MPI_Scatterv", "MPI_Iscatterv", "MPI_Scatterv_init"],
        Collective::Allgatherv => ["MPI_Allgatherv", "MPI_Iallgatherv", "MPI_Allgatherv_init"],
        Collective::Alltoallv => ["MPI_Alltoallv", "MPI_Ialltoallv", "MPI_Alltoallv_init"],
        Collective::Alltoallw => ["MPI_Alltoallw", "MPI_Ialltoallw", "MPI_Alltoallw_init"],
        Collective::ReduceScatter => [
            "MPI_Reduce_scatter",
            "MPI_Ireduce_scatter",
            "MPI_Reduce_scatter_init",
        ],
    }
}

/// The arguments up to the communicator.
pub(super) fn words(arguments: &mut Arguments<'_>, operation: OperationId) -> Vec<u64> {
    let of = arguments.job.operations[operation];
    let Action::Collective {
        operation: kind,
        root,
        bytes,
        ..
    } = of.action
    else {
        return Vec::new();
    };
    let root = int(arguments.rank_in(operation, root));
    let from = [BUFFER, bytes, BYTE];
    let to = [BUFFER + 0x1000, bytes, BYTE];
    let reduced = [BUFFER, BUFFER + 0x1000, bytes, BYTE, SUM];
    let members = arguments.job.communicators[of.communicator].members.len();
    let counts = arguments.guest.ints(&vec![bytes as i32; members]);
    let types = arguments.guest.handles(&vec![BYTE; members]);
    // Nothing reads where pieces are: displacements are the counts.
    let several = [BUFFER, counts, counts, BYTE];
    let typed = [BUFFER, counts, counts, types];
    let mut words = match kind {
        Collective::Barrier => Vec::new(),
        Collective::Bcast => [&from[..], &[root]].concat(),
        Collective::Reduce => [&reduced[..], &[root]].concat(),
        Collective::Gather | Collective::Scatter => [&from[..], &to, &[root]].concat(),
        Collective::Allgather | Collective::Alltoall => [from, to].concat(),
        Collective::Gatherv => [&from[..], &several, &[root]].concat(),
        Collective::Scatterv => [&several[..], &to, &[root]].concat(),
        Collective::Allgatherv => [&from[..], &several].concat(),
        Collective::Alltoallv => [several, several].concat(),
        Collective::Alltoallw => [typed, typed].concat(),
        Collective::ReduceScatter => vec![BUFFER, BUFFER + 0x1000, counts, BYTE, SUM],
        _ => reduced.to_vec(),
    };
    words.push(handle_of(arguments.job, of.communicator));
    words
}
