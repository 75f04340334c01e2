//! Functions of collective operations, and their arguments.

use belljar_tracer::scripted::int;

use super::arguments::{Arguments, BUFFER, BYTE, handle_of};
use crate::job::{Action, Collective, Job, OperationId};

/// `MPI_SUM`.
const SUM: u64 = 0x5800_0003;

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
    }
}

/// The arguments up to the communicator.
pub(super) fn words(arguments: &Arguments<'_>, operation: OperationId) -> Vec<u64> {
    let of = &arguments.job.operations[operation];
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
    let communicator = handle_of(of.communicator);
    let from = [BUFFER, bytes, BYTE];
    let to = [BUFFER + 0x1000, bytes, BYTE];
    let reduced = [BUFFER, BUFFER + 0x1000, bytes, BYTE, SUM];
    let mut words = match kind {
        Collective::Barrier => Vec::new(),
        Collective::Bcast => [&from[..], &[root]].concat(),
        Collective::Reduce => [&reduced[..], &[root]].concat(),
        Collective::Gather | Collective::Scatter => [&from[..], &to, &[root]].concat(),
        Collective::Allgather | Collective::Alltoall => [from, to].concat(),
        _ => reduced.to_vec(),
    };
    words.push(communicator);
    words
}
