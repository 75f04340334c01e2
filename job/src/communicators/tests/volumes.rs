//! Volumes of collective operations that a process alone does not know.

use super::super::Communicators;
use super::{Cluster, MPICH_WORLD};
use belljar_trace::Event;
use belljar_tracer::scripted::{Guest, int};
use belljar_tracer::{NodeTracer, Selection};

const CHAR: u64 = 0x4c00_0101;

impl Cluster {
    /// The same call on all ranks: the events by rank.
    fn call(
        &mut self,
        name: &str,
        arguments: impl Fn(&mut Guest, usize) -> Vec<u64>,
    ) -> Vec<Event> {
        for (node, tracer) in (0..).zip(&mut self.tracers) {
            let saved = tracer.save().unwrap();
            *tracer = NodeTracer::restore(node, &Selection::default(), &saved).unwrap();
        }
        let ranks = 0..self.guests.len();
        ranks
            .map(|rank| {
                let tracer = &mut self.tracers[rank / 2];
                let arguments = arguments(&mut self.guests[rank], rank);
                self.guests[rank].call(tracer, name, &arguments);
                tracer.take_events().pop().unwrap()
            })
            .collect()
    }
}

fn volumes(resolved: &Communicators, events: &[Event]) -> Vec<(Option<u64>, Option<u64>)> {
    let events = events.iter();
    events
        .map(|event| resolved.volume(event, &event.collectives[0]))
        .collect()
}

fn both(amounts: &[u64]) -> Vec<(Option<u64>, Option<u64>)> {
    let amounts = amounts.iter();
    amounts.map(|it| (Some(*it), Some(*it))).collect()
}

#[test]
fn sizes_and_ranks_nobody_asked_for_are_worked_out() {
    let mut cluster = Cluster::new(4);
    let (half, _) = cluster.all(
        "MPI_Comm_split",
        |_, rank| vec![MPICH_WORLD, int(rank as i32 % 2), int(0)],
        |_| true,
    );
    let all = cluster.call("MPI_Alltoallv", |guest, _| {
        // Entries after the two counts are ignored.
        let counts = guest.ints(&[8, 24, 7777, -1]);
        vec![
            0x5000, counts, counts, CHAR, 0x6000, counts, counts, CHAR, half,
        ]
    });
    let gather = cluster.call("MPI_Gatherv", |guest, rank| {
        // Except at the root, the array may not exist.
        let counts = if rank / 2 == 1 {
            guest.ints(&[8, 24])
        } else {
            0xdead_0000
        };
        vec![
            0x5000,
            int(8),
            CHAR,
            0x6000,
            counts,
            counts,
            CHAR,
            int(1),
            half,
        ]
    });
    let scatter = cluster.call("MPI_Reduce_scatter", |guest, _| {
        let counts = guest.ints(&[8, 24]);
        vec![0x5000, 0x6000, counts, CHAR, 0, half]
    });
    let resolved = cluster.resolve();
    assert_eq!(volumes(&resolved, &all), both(&[32; 4]));
    let at_root: Vec<_> = volumes(&resolved, &gather)
        .into_iter()
        .map(|it| it.1)
        .collect();
    assert_eq!(at_root, [Some(0), Some(0), Some(32), Some(32)]);
    assert!(gather.iter().all(|event| event.bad.is_none()));
    let own: Vec<_> = volumes(&resolved, &scatter)
        .into_iter()
        .map(|it| it.1)
        .collect();
    assert_eq!(own, [Some(8), Some(8), Some(24), Some(24)]);
}

#[test]
fn arrays_that_end_early_are_unknown() {
    let mut cluster = Cluster::new(2);
    let (copy, _) = cluster.all("MPI_Comm_dup", |_, _| vec![MPICH_WORLD], |_| true);
    let all = cluster.call("MPI_Alltoallv", |guest, _| {
        // The last entry of a page without a following page.
        let counts = belljar_tracer::scripted::HEAP + 0x40000 - 4;
        guest.put_ints(counts, &[8]);
        vec![
            0x5000, counts, counts, CHAR, 0x6000, counts, counts, CHAR, copy,
        ]
    });
    let resolved = cluster.resolve();
    assert_eq!(volumes(&resolved, &all), [(None, None); 2]);
}

#[test]
fn nothing_goes_over_the_edge_of_a_grid() {
    let mut cluster = Cluster::new(6);
    let (grid, _) = cluster.all(
        "MPI_Cart_create",
        |guest, _| {
            let (dims, periods) = (guest.ints(&[3, 2]), guest.ints(&[0, 1]));
            vec![MPICH_WORLD, int(2), dims, periods, int(0)]
        },
        |_| true,
    );
    let even = cluster.call("MPI_Neighbor_alltoall", |_, _| {
        vec![0x5000, int(16), CHAR, 0x6000, int(16), CHAR, grid]
    });
    let odd = cluster.call("MPI_Neighbor_alltoallv", |guest, _| {
        let counts = guest.ints(&[1, 2, 4, 8]);
        vec![
            0x5000, counts, counts, CHAR, 0x6000, counts, counts, CHAR, grid,
        ]
    });
    let resolved = cluster.resolve();
    assert_eq!(volumes(&resolved, &even), both(&[48, 48, 64, 64, 48, 48]));
    assert_eq!(volumes(&resolved, &odd), both(&[14, 14, 15, 15, 13, 13]));
}

#[test]
fn graphs_tell_each_members_neighbours() {
    let mut cluster = Cluster::new(4);
    let (path, _) = cluster.all(
        "MPI_Graph_create",
        |guest, _| {
            let (index, edges) = (guest.ints(&[1, 3, 5, 6]), guest.ints(&[1, 0, 2, 1, 3, 2]));
            vec![MPICH_WORLD, int(4), index, edges, int(0)]
        },
        |_| true,
    );
    let gather = cluster.call("MPI_Neighbor_allgather", |_, _| {
        vec![0x5000, int(16), CHAR, 0x6000, int(16), CHAR, path]
    });
    let resolved = cluster.resolve();
    assert_eq!(volumes(&resolved, &gather), both(&[16, 32, 32, 16]));
}

#[test]
fn edges_of_a_distributed_graph_may_be_told_by_anyone() {
    let mut cluster = Cluster::new(3);
    // Rank 2 passes all edges: 0 to 1, 0 to 2, 1 to 2.
    let (graph, _) = cluster.all(
        "MPI_Dist_graph_create",
        |guest, rank| {
            let (sources, degrees) = (guest.ints(&[0, 1]), guest.ints(&[2, 1]));
            let (destinations, count) = (guest.ints(&[1, 2, 2]), if rank == 2 { 2 } else { 0 });
            vec![
                MPICH_WORLD,
                int(count),
                sources,
                degrees,
                destinations,
                1,
                0,
                int(0),
            ]
        },
        |_| true,
    );
    let gather = cluster.call("MPI_Neighbor_alltoallv", |guest, _| {
        let counts = guest.ints(&[1, 2]);
        vec![
            0x5000, counts, counts, CHAR, 0x6000, counts, counts, CHAR, graph,
        ]
    });
    let resolved = cluster.resolve();
    let expected = [(Some(3), Some(0)), (Some(1), Some(1)), (Some(0), Some(3))];
    assert_eq!(volumes(&resolved, &gather), expected);
}

/// An intercommunicator of a first group of one process, and a second of three.
fn one_and_three(cluster: &mut Cluster) -> u64 {
    let first = |rank: usize| rank == 0;
    let (half, _) = cluster.all(
        "MPI_Comm_split",
        |_, rank| vec![MPICH_WORLD, int(first(rank).into()), int(0)],
        |_| true,
    );
    let leader = |rank| int(first(rank).into());
    let (between, _) = cluster.all(
        "MPI_Intercomm_create",
        |_, rank| vec![half, int(0), MPICH_WORLD, leader(rank), int(1)],
        |_| true,
    );
    between
}

#[test]
fn a_group_scatters_what_it_reduces_among_the_other() {
    let mut cluster = Cluster::new(4);
    let between = one_and_three(&mut cluster);
    // Each group passes its own shares of the other group's data; both totals are equal.
    let even = cluster.call("MPI_Reduce_scatter_block", |_, rank| {
        let count = if rank == 0 { 6 } else { 2 };
        vec![0x5000, 0x6000, int(count), CHAR, 0, between]
    });
    let odd = cluster.call("MPI_Reduce_scatter", |guest, rank| {
        let counts = if rank == 0 { &[6][..] } else { &[1, 2, 3] };
        let counts = guest.ints(counts);
        vec![0x5000, 0x6000, counts, CHAR, 0, between]
    });
    let resolved = cluster.resolve();
    let told = |shares: [u64; 4]| shares.map(|share| (Some(6), Some(share)));
    assert_eq!(volumes(&resolved, &even), told([6, 2, 2, 2]));
    assert_eq!(volumes(&resolved, &odd), told([6, 1, 2, 3]));
}

#[test]
fn the_root_between_groups_has_one_side_only() {
    const ROOT: i32 = -3;
    let mut cluster = Cluster::new(4);
    let between = one_and_three(&mut cluster);
    let root = |rank| int(if rank == 0 { ROOT } else { 0 });
    let reduce = cluster.call("MPI_Reduce", |_, rank| {
        vec![0x5000, 0x6000, int(8), CHAR, 0, root(rank), between]
    });
    // Arguments that the root ignores may be anything.
    let gather = cluster.call("MPI_Gather", |_, rank| {
        let count = int(if rank == 0 { 99 } else { 8 });
        vec![
            0x5000,
            count,
            CHAR,
            0x6000,
            int(8),
            CHAR,
            root(rank),
            between,
        ]
    });
    let scatter = cluster.call("MPI_Scatter", |_, rank| {
        let count = int(if rank == 0 { 99 } else { 8 });
        vec![
            0x5000,
            int(8),
            CHAR,
            0x6000,
            count,
            CHAR,
            root(rank),
            between,
        ]
    });
    let resolved = cluster.resolve();
    let given = |root| {
        [
            root,
            (Some(8), Some(0)),
            (Some(8), Some(0)),
            (Some(8), Some(0)),
        ]
    };
    assert_eq!(volumes(&resolved, &reduce), given((Some(0), Some(8))));
    assert_eq!(volumes(&resolved, &gather), given((Some(0), Some(24))));
    let taken = (Some(0), Some(8));
    let expected = [(Some(24), Some(0)), taken, taken, taken];
    assert_eq!(volumes(&resolved, &scatter), expected);
}
