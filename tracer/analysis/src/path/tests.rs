//! Traces of which the critical path was worked out by hand.

use super::{CriticalPath, Finder, PathRank};
use crate::ranks::{Ranks, WORLD};

fn path(ranks: Ranks) -> CriticalPath {
    let trace = ranks.trace();
    let mut finder = Finder::new(&trace.header, &trace.communicators);
    for event in &trace.events {
        finder.observe(event);
    }
    let mut measure = finder.follow();
    for event in &trace.events {
        measure.observe(event, &trace.header);
    }
    measure.finish()
}

/// Ranks with their nanoseconds on the path, and those of them outside MPI.
fn parts(path: &CriticalPath) -> Vec<(u32, u64, u64)> {
    let part = |part: &PathRank| (part.rank, part.path_ps / 1000, part.compute_ps / 1000);
    path.ranks.iter().map(part).collect()
}

#[test]
fn it_goes_where_others_were_waited_for() {
    let mut ranks = Ranks::new(3);
    // Rank 0 computes until 3000 and sends; rank 1 waits for it, computes until 5000, and all wait for it at the barrier.
    for rank in 0..3 {
        ranks.call(rank, (1000, 1100), "MPI_Comm_get_parent", &[0x6000]);
    }
    ranks.send(0, (3000, 3100), 1, 1);
    ranks.receive(1, (1500, 3400), 0, 0, 1);
    for (rank, entry) in [(0, 3300), (1, 5000), (2, 2000)] {
        ranks.call(rank, (entry, 5200), "MPI_Barrier", &[WORLD]);
    }
    ranks.call(2, (5900, 6000), "MPI_Barrier", &[WORLD]);
    let found = path(ranks);
    assert_eq!((found.from_ps, found.to_ps), (1_000_000, 6_000_000));
    assert_eq!(found.changes, 2);
    // 0: from its first call to its send; 1: from then to the barrier; 2: from then to the end.
    let expected = [(0, 2000, 1900), (1, 2000, 1600), (2, 1000, 700)];
    assert_eq!(parts(&found), expected);
    let functions: Vec<_> = found
        .functions
        .iter()
        .map(|part| (part.function, part.calls, part.path_ps / 1000))
        .collect();
    let expected = [
        ("MPI_Recv", 1, 400),
        ("MPI_Barrier", 2, 300),
        ("MPI_Comm_get_parent", 1, 100),
    ];
    assert_eq!(functions, expected);
}

#[test]
fn one_process_is_its_own_path_and_no_process_has_none() {
    let mut ranks = Ranks::new(1);
    ranks.call(0, (1000, 1100), "MPI_Barrier", &[WORLD]);
    ranks.call(0, (2000, 2100), "MPI_Barrier", &[WORLD]);
    let found = path(ranks);
    assert_eq!(parts(&found), [(0, 1100, 900)]);
    assert_eq!(found.changes, 0);
    assert_eq!(path(Ranks::new(0)), CriticalPath::default());
    let mut text = Vec::new();
    found.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("Critical path: 1.100 us from"), "{text}");
}
