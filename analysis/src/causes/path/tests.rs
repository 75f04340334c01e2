//! Traces whose critical paths were computed by hand.

use belljar_job::{Collector, Communicators};
use belljar_trace::{Event, TraceHeader};
use belljar_tracer::scripted::int;

use super::{CriticalPath, Finder, PathRank, RankSlack};
use crate::generated::Stencil;
use crate::ranks::{BUFFER, BYTE, NO_REQUEST, Ranks, SUM, WORLD};
use crate::sums::sites::number::SiteNumbers;

fn path(ranks: Ranks) -> CriticalPath {
    let trace = ranks.trace();
    path_of(&trace.header, &trace.communicators, &trace.events)
}

fn path_of(header: &TraceHeader, communicators: &Communicators, events: &[Event]) -> CriticalPath {
    let mut finder = Finder::new(header, communicators);
    for event in events {
        finder.observe(event, 0, Default::default()).unwrap();
    }
    let sites = SiteNumbers::new(0);
    let (mut measure, _) = finder.follow(None, sites).unwrap();
    for event in events {
        measure.observe(event);
    }
    measure.finish()
}

/// Returns ranks with their nanoseconds on the path, and the part outside MPI.
fn parts(path: &CriticalPath) -> Vec<(u32, u64, u64)> {
    let part = |part: &PathRank| (part.rank, part.path_ps / 1000, part.compute_ps / 1000);
    path.ranks.iter().map(part).collect()
}

#[test]
fn it_goes_where_others_were_waited_for() {
    let mut ranks = Ranks::new(3);
    // Rank 0 computes until 3000 and sends; rank 1 waits for it, computes until 5000, and all wait for it at the barrier.
    for rank in 0..3 {
        ranks.call(rank, 1000, 1100, "MPI_Comm_get_parent", &[0x6000]);
    }
    ranks.send(0, (3000, 3100), 1, 1);
    ranks.receive(1, (1500, 3400), 0, 0, 1);
    for (rank, entry) in [(0, 3300), (1, 5000), (2, 2000)] {
        ranks.call(rank, entry, 5200, "MPI_Barrier", &[WORLD]);
    }
    ranks.call(2, 5900, 6000, "MPI_Barrier", &[WORLD]);
    let found = path(ranks);
    assert_eq!((found.from_ps, found.to_ps), (1_000_000, 6_000_000));
    assert_eq!(found.changes, 2);
    // Rank 0: from its first call to its send; rank 1: from then to the barrier; rank 2: from then to the end.
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
    let stretches = found.stretches.iter();
    let stretches: Vec<_> = stretches
        .map(|own| (own.rank, own.from_ps / 1000, own.to_ps / 1000))
        .collect();
    assert_eq!(
        stretches,
        [(0, 1000, 3000), (1, 3000, 5000), (2, 5000, 6000)]
    );
}

#[test]
fn it_covers_the_run_where_the_first_rank_on_it_starts_late() {
    let mut ranks = Ranks::new(2);
    // Rank 1 starts 2000 after rank 0 and is never waited for; it ends last.
    ranks.call(0, 1000, 1100, "MPI_Comm_get_parent", &[0x6000]);
    ranks.call(0, 1200, 1300, "MPI_Finalize", &[]);
    ranks.call(1, 3000, 3100, "MPI_Comm_get_parent", &[0x6000]);
    ranks.call(1, 5000, 5400, "MPI_Finalize", &[]);
    let found = path(ranks);
    assert_eq!((found.from_ps, found.to_ps), (1_000_000, 5_400_000));
    assert_eq!(
        (found.before_ps, found.start_and_end_ps),
        (2_000_000, 400_000)
    );
    assert_eq!(parts(&found), [(1, 4400, 3900)]);
    let stretches = found.stretches.iter().map(|own| own.to_ps - own.from_ps);
    assert_eq!(stretches.sum::<u64>(), found.to_ps - found.from_ps);
    let mut text = Vec::new();
    found.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = "between start and end of MPI: 2.000 us; start and end: 400.0 ns; before the first call of its first rank: 2.000 us";
    assert!(text.contains(line), "{text}");
    assert!(text.contains(", 0 changes of rank;"), "{text}");
}

#[test]
fn one_process_is_its_own_path_and_no_process_has_none() {
    let mut ranks = Ranks::new(1);
    ranks.call(0, 1000, 1100, "MPI_Barrier", &[WORLD]);
    ranks.call(0, 2000, 2100, "MPI_Barrier", &[WORLD]);
    let found = path(ranks);
    assert_eq!(parts(&found), [(0, 1100, 900)]);
    assert_eq!(found.changes, 0);
    assert_eq!(path(Ranks::new(0)), CriticalPath::default());
    let mut text = Vec::new();
    found.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("Critical path: 1.100 us from"), "{text}");
}

/// Returns ranks' minimum, mean and maximum slack, and their time without slack, in nanoseconds.
fn slack(path: &CriticalPath) -> Vec<[u64; 4]> {
    let of = |rank: &RankSlack| {
        let figures = [rank.least_ps, rank.mean_ps, rank.most_ps, rank.critical_ps];
        figures.map(|ps| ps / 1000)
    };
    path.slack.iter().map(of).collect()
}

#[test]
fn slack_is_what_others_wait_less() {
    let mut ranks = Ranks::new(3);
    // All need the barrier until 5000, for which rank 1 is the last, 2000 after rank 0 and 3000 after rank 2.
    for (rank, entry) in [(0, 3000), (1, 5000), (2, 2000)] {
        ranks.call(rank, 1000, 1100, "MPI_Comm_get_parent", &[0x6000]);
        ranks.call(rank, entry, 5200, "MPI_Barrier", &[WORLD]);
    }
    // After it rank 2 has 500 of work, and the others have none.
    ranks.call(2, 5600, 5700, "MPI_Comm_get_parent", &[0x6000]);
    let found = path(ranks);
    // After the barrier: rank 2 has no slack, the others the 500. Before it: rank 1 has none as rank 2 needs it, and the others have the time
    // by which they came before it.
    assert_eq!(
        slack(&found),
        [
            [500, (2000 * 2000 + 200 * 500) / 2200, 2000, 0],
            [0, 200 * 500 / 4200, 500, 4000],
            [0, 1000 * 3000 / 1700, 3000, 700],
        ]
    );
}

#[test]
fn a_message_that_came_early_has_the_time_until_it_is_asked_for() {
    let mut ranks = Ranks::new(2);
    for rank in 0..2 {
        ranks.call(rank, 1000, 1100, "MPI_Comm_get_parent", &[0x6000]);
    }
    // Sent at 2000, requested at 6000 by rank 1, which ends last.
    ranks.send(0, (2000, 2100), 1, 1);
    ranks.receive(1, (6000, 6100), 0, 0, 1);
    ranks.call(1, 9000, 9100, "MPI_Comm_get_parent", &[0x6000]);
    // Rank 0 has no other work: 7000 at its end, 4000 before its send.
    let found = path(ranks);
    assert_eq!(
        slack(&found),
        [
            [4000, (1000 * 4000 + 100 * 7000) / 1100, 7000, 0],
            [0, 0, 0, 8100]
        ]
    );
}

#[test]
fn a_delay_passes_through_a_request_and_a_root() {
    let mut ranks = Ranks::new(3);
    for rank in 0..3 {
        ranks.call(rank, 1000, 1100, "MPI_Comm_get_parent", &[0x6000]);
    }
    // Rank 1 posts a receive at 1500 for the message that rank 0 sends at 3000, and waits for it from 2500 to 3000. The reduction at rank 2
    // needs rank 1 at 4000 and rank 0 at 3200, and rank 2 itself enters at 3500.
    let request = ranks.guests[1].room(8);
    let arguments = [BUFFER, int(4), BYTE, int(0), int(1), WORLD, request];
    ranks.call_and(1, 1500, 1600, "MPI_Irecv", &arguments, |guest| {
        guest.put_handle(request, 0x9800_0001);
    });
    ranks.send(0, (3000, 3100), 1, 1);
    ranks.call_and(1, 2500, 3300, "MPI_Wait", &[request, 1], |guest| {
        guest.put_handle(request, NO_REQUEST);
    });
    for (rank, times) in [(0, (3200, 3300)), (1, (4000, 4100)), (2, (3500, 4500))] {
        let arguments = [BUFFER, BUFFER, int(1), BYTE, SUM, int(2), WORLD];
        ranks.call(rank, times.0, times.1, "MPI_Reduce", &arguments);
    }
    let found = path(ranks);
    let [first, second, third] = slack(&found)[..] else {
        panic!("{found:?}");
    };
    // Rank 1 has none from the message on, and could have been 500 later before.
    assert_eq!((second[0], second[2]), (0, 500));
    // Rank 0 has none until its send, 800 until the reduction, 1200 at its end.
    assert_eq!((first[0], first[2], first[3]), (0, 1200, 2000));
    // The root could come 500 later.
    assert_eq!((third[0], third[2]), (0, 500));
    assert_eq!(found.changes, 2);
}

#[test]
fn what_is_on_the_path_has_no_slack_and_something_always_is() {
    let stencil = Stencil {
        width: 3,
        height: 2,
        steps: 5,
        rounds: 2,
        report: 2,
    };
    let header = stencil.header();
    let events: Vec<Event> = stencil.events().collect();
    let mut collector = Collector::new();
    for event in &events {
        collector.observe(event, &header);
    }
    let found = path_of(&header, &collector.resolve(), &events);
    let on_path: u64 = found.ranks.iter().map(|rank| rank.path_ps).sum();
    assert_eq!(on_path, found.to_ps - found.from_ps, "without a gap");
    assert_eq!(found.slack.len(), 6);
    let first = found.stretches.first().map(|stretch| stretch.rank);
    for part in &found.ranks {
        // Before its first call, a rank's slack is unknown.
        let before = match first == Some(part.rank) {
            true => found.before_ps,
            false => 0,
        };
        let rank = found.slack.iter().find(|rank| rank.rank == part.rank);
        let rank = rank.unwrap();
        assert!(
            rank.critical_ps + before >= part.path_ps,
            "{part:?}, {rank:?}"
        );
    }
    assert!(found.slack.iter().any(|rank| rank.most_ps > 0), "{found:?}");
}
