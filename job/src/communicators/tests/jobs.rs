//! Assignment of processes to jobs, by launchers' variables.

use belljar_abi::{IMPLEMENTATION_MPICH, fact};
use belljar_sim::Frequency;
use belljar_trace::{Implementation, TraceHeader, WORLD};
use belljar_tracer::scripted::Guest;
use belljar_tracer::{NodeTracer, Selection};

use super::super::{Collector, Communicators};
use super::{Cluster, members};

/// Processes on one node, in the order of their starts: each its rank and its environment.
fn resolve(processes: &[(u64, &[&str])]) -> Communicators {
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let mut collector = Collector::new();
    let header = TraceHeader::new("test", &[Frequency::from_hz(1_000_000_000).unwrap()]);
    for (index, (rank, variables)) in (0u64..).zip(processes) {
        let mut guest = Guest::new(Implementation::Mpich, index);
        guest.clock += 1000 * index;
        guest.tell(&mut tracer, fact::PROCESS, *rank, IMPLEMENTATION_MPICH);
        let environment = guest.environment(variables);
        guest.tell(&mut tracer, fact::ENVIRONMENT, environment, 0);
        guest.call(&mut tracer, "MPI_Init", &[0, 0]);
        guest.call(&mut tracer, "MPI_Barrier", &[0x4400_0000]);
    }
    assert_eq!(tracer.counters().warnings.bad_pointers, 0);
    for event in tracer.take_events() {
        collector.observe(&event, &header);
    }
    collector.resolve()
}

/// Each process's job, and that job's size.
fn jobs(resolved: &Communicators, processes: u32) -> Vec<(u32, u32)> {
    let jobs = (0..processes).map(|process| resolved.job((0, process)).unwrap());
    jobs.map(|job| (job, resolved.job_size(job))).collect()
}

#[test]
fn launches_of_different_sizes_are_different_jobs() {
    let (one, two): (&[&str], &[&str]) = (&["PMI_SIZE=1"], &["PMI_SIZE=2"]);
    let resolved = resolve(&[(0, one), (0, two), (1, two), (0, two), (1, two)]);
    let expected = [(0, 1), (1, 2), (1, 2), (2, 2), (2, 2)];
    assert_eq!(jobs(&resolved, 5), expected);
    assert_eq!(resolved.members((0, 2), WORLD).unwrap().len(), 2);
}

#[test]
fn launches_at_once_are_told_apart_by_their_names() {
    let first: &[&str] = &["PMIX_NAMESPACE=17", "OMPI_COMM_WORLD_SIZE=2"];
    let second: &[&str] = &["PMIX_NAMESPACE=18", "OMPI_COMM_WORLD_SIZE=2"];
    let resolved = resolve(&[(1, second), (0, first), (0, second), (1, first)]);
    let expected = [(0, 2), (1, 2), (0, 2), (1, 2)];
    assert_eq!(jobs(&resolved, 4), expected);
}

#[test]
fn processes_without_a_launcher_are_jobs_of_their_own() {
    let resolved = resolve(&[(0, &[]), (0, &["HOME=/"]), (0, &["PMI_SIZE=1"])]);
    assert_eq!(jobs(&resolved, 3), [(0, 1), (1, 1), (2, 1)]);
}

#[test]
fn processes_that_another_librarys_launcher_started_are_singletons() {
    let resolved = |sizes: [i32; 3]| {
        let mut tracer = NodeTracer::new(0, &Selection::default());
        let mut collector = Collector::new();
        let header = TraceHeader::new("test", &[Frequency::from_hz(1_000_000_000).unwrap()]);
        for (rank, size) in (0u64..).zip(sizes) {
            let mut guest = Guest::new(Implementation::Mpich, rank);
            guest.tell(&mut tracer, fact::PROCESS, rank, IMPLEMENTATION_MPICH);
            let environment = guest.environment(&["PMI_SIZE=3"]);
            guest.tell(&mut tracer, fact::ENVIRONMENT, environment, 0);
            guest.call(&mut tracer, "MPI_Init", &[0, 0]);
            let answer = guest.ints(&[size]);
            guest.call(&mut tracer, "MPI_Comm_size", &[0x4400_0000, answer]);
        }
        for event in tracer.take_events() {
            collector.observe(&event, &header);
        }
        collector.resolve()
    };
    assert_eq!(resolved([3, 3, 3]).singletons(), 0);
    assert_eq!(resolved([1, 1, 1]).singletons(), 3);
}

#[test]
fn sizes_that_mpi_returned_distinguish_jobs_of_launchers_that_name_none() {
    // A program without a launcher, and then a job of three processes.
    let sizes = [1, 3, 3, 3];
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let mut collector = Collector::new();
    let header = TraceHeader::new("test", &[Frequency::from_hz(1_000_000_000).unwrap()]);
    for (index, (rank, size)) in (0u64..).zip([0, 0, 1, 2].into_iter().zip(sizes)) {
        let mut guest = Guest::new(Implementation::Mpich, index);
        guest.clock += 1000 * index;
        guest.tell(&mut tracer, fact::PROCESS, rank, IMPLEMENTATION_MPICH);
        guest.call(&mut tracer, "MPI_Init", &[0, 0]);
        let answer = guest.ints(&[size]);
        guest.call(&mut tracer, "MPI_Comm_size", &[0x4400_0000, answer]);
    }
    for event in tracer.take_events() {
        collector.observe(&event, &header);
    }
    let expected = [(0, 1), (1, 3), (1, 3), (1, 3)];
    assert_eq!(jobs(&collector.resolve(), 4), expected);
}

#[test]
fn communicators_of_sessions_join_their_process_sets() {
    let mut cluster = Cluster::new(3);
    let mut of_set = |name: &str| {
        let (group, _) = cluster.all(
            "MPI_Group_from_session_pset",
            |guest, _| vec![0x3800_0000, guest.text(name)],
            |_| true,
        );
        let (_, numbers) = cluster.all(
            "MPI_Comm_create_from_group",
            |guest, _| vec![group, guest.text("org.example"), 0x1c00_0000, 0],
            |_| true,
        );
        numbers
    };
    let (world, alone) = (of_set("mpi://WORLD"), of_set("mpi://SELF"));
    let other = of_set("app://others");
    let resolved = cluster.resolve();
    assert_eq!(members(&resolved, 2, world[2]), [0, 1, 2]);
    assert_eq!(members(&resolved, 2, alone[2]), [2]);
    assert_eq!(resolved.members(super::key(1), other[1].unwrap()), None);
}
