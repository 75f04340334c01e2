//! Functions of collective operations, and their arguments.
//!
//! Amounts follow from the operation's size alone, so that all members pass matching ones. Called for each part.

use belljar_tracer::scripted::int;

use super::arguments::{Arguments, BUFFER};
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
        Collective::NeighborAllgather => [
            "MPI_Neighbor_allgather",
            "MPI_Ineighbor_allgather",
            "MPI_Neighbor_allgather_init",
        ],
        Collective::NeighborAllgatherv => [
            "MPI_Neighbor_allgatherv",
            "MPI_Ineighbor_allgatherv",
            "MPI_Neighbor_allgatherv_init",
        ],
        Collective::NeighborAlltoall => [
            "MPI_Neighbor_alltoall",
            "MPI_Ineighbor_alltoall",
            "MPI_Neighbor_alltoall_init",
        ],
        Collective::NeighborAlltoallv => [
            "MPI_Neighbor_alltoallv",
            "MPI_Ineighbor_alltoallv",
            "MPI_Neighbor_alltoallv_init",
        ],
        Collective::NeighborAlltoallw => [
            "MPI_Neighbor_alltoallw",
            "MPI_Ineighbor_alltoallw",
            "MPI_Neighbor_alltoallw_init",
        ],
        Collective::ReduceScatter => [
            "MPI_Reduce_scatter",
            "MPI_Ireduce_scatter",
            "MPI_Reduce_scatter_init",
        ],
    }
}

/// The arguments up to the communicator.
pub(super) fn words(arguments: &mut Arguments<'_>, operation: OperationId) -> Vec<u64> {
    let library = arguments.library;
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
    let own = arguments.job.actors[of.actor].rank;
    let communicator = &arguments.job.communicators[of.communicator];
    let everyone = communicator.partners(own).iter().copied().map(Some);
    let [sources, destinations] = match kind.is_neighborhood() {
        true => communicator.neighbors(own),
        false => [everyone.clone().collect(), everyone.collect()],
    };
    let piece = |from, to| kind.piece(bytes, from, to);
    let is_root = own == root;
    let root = int(arguments.root(operation, root));
    let given = [BUFFER, piece(own, own), library.byte];
    let to = [BUFFER + 0x1000, piece(own, own), library.byte];
    let reduced = [BUFFER, BUFFER + 0x1000, bytes, library.byte, library.sum];
    // A neighbour `MPI_PROC_NULL` has a count, too.
    let mut counts = |others: &[Option<u32>], piece: &dyn Fn(u32) -> u64| {
        let counts = others
            .iter()
            .map(|other| other.map_or(3, piece) as i32)
            .collect::<Vec<i32>>();
        arguments.guest.ints(&counts)
    };
    let sent = counts(&destinations, &|other| piece(own, other));
    let received = counts(&sources, &|other| piece(other, own));
    let most = sources.len().max(destinations.len());
    let types = arguments.guest.handles(&vec![library.byte; most]);
    // Only the root has a count for each.
    let [sent_by_root, received_by_root] = [sent, received].map(|it| if is_root { it } else { 0 });
    // Nothing reads where pieces are: displacements are the counts.
    let several = |counts| [BUFFER, counts, counts, library.byte];
    let typed = |counts| [BUFFER, counts, counts, types];
    let mut words = match kind {
        Collective::Barrier => Vec::new(),
        Collective::Bcast => [&given[..], &[root]].concat(),
        Collective::Reduce => [&reduced[..], &[root]].concat(),
        Collective::Gather | Collective::Scatter => [&given[..], &to, &[root]].concat(),
        Collective::Allgather
        | Collective::Alltoall
        | Collective::NeighborAllgather
        | Collective::NeighborAlltoall => [given, to].concat(),
        Collective::Gatherv => [&given[..], &several(received_by_root), &[root]].concat(),
        Collective::Scatterv => [&several(sent_by_root)[..], &to, &[root]].concat(),
        Collective::Allgatherv | Collective::NeighborAllgatherv => {
            [&given[..], &several(received)].concat()
        }
        Collective::Alltoallv | Collective::NeighborAlltoallv => {
            [several(sent), several(received)].concat()
        }
        Collective::Alltoallw | Collective::NeighborAlltoallw => {
            [typed(sent), typed(received)].concat()
        }
        Collective::ReduceScatter => vec![BUFFER, BUFFER + 0x1000, sent, library.byte, library.sum],
        _ => reduced.to_vec(),
    };
    words.push(arguments.handle_of(of.communicator));
    words
}
