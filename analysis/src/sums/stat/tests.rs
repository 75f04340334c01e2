//! A trace with all figures computed by hand.

use belljar_job::Collector;
use belljar_sim::Frequency;
use belljar_trace::{Event, Phase, TraceHeader};
use belljar_tracer::scripted::{Guest, int};
use belljar_tracer::{NodeTracer, Selection};

use super::{
    FunctionStat, IntervalStat, RankStat, SizeStat, StatCollector, Statistics, TrafficStat,
};

const WORLD: u64 = 0x4400_0000;
const DOUBLE: u64 = 0x4c00_080b;

/// A call that is entered at `entry` and returns at `exit`.
fn call(
    tracer: &mut NodeTracer,
    guest: &mut Guest,
    entry: u64,
    exit: u64,
    name: &str,
    arguments: &[u64],
) {
    let before = guest.stack;
    guest.clock = entry - 10;
    let slot = guest.enter(tracer, name, arguments);
    guest.clock = exit - 100;
    guest.leave(tracer, slot, 0);
    guest.stack = before;
}

/// Two ranks on two nodes of 1 and 2 GHz.
fn events() -> (TraceHeader, Vec<Event>) {
    let rate = |hz| Frequency::from_hz(hz).unwrap();
    let header = TraceHeader::new("two", &[rate(1_000_000_000), rate(2_000_000_000)]);
    let selection = Selection::default();
    let mut tracers = [0, 1].map(|node| NodeTracer::new(node, &selection));
    let mut events = Vec::new();
    let [first, second] = &mut tracers;

    let mut guest = Guest::mpich(first, 0);
    // 1000 ns, gap 1000, 500 ns, gap 250, 700 ns, gap 500, 100 ns; then a call that aborts.
    call(first, &mut guest, 1000, 2000, "MPI_Barrier", &[WORLD]);
    let send = |count, peer| [0x5000, int(count), DOUBLE, int(peer), int(0), WORLD];
    call(first, &mut guest, 3000, 3500, "MPI_Send", &send(4, 1));
    call(first, &mut guest, 3750, 4450, "MPI_Send", &send(5, 1));
    let bcast = [0x5000, int(3), DOUBLE, int(0), WORLD];
    call(first, &mut guest, 4950, 5050, "MPI_Bcast", &bcast);
    events.extend(first.take_events());
    guest.clock = 6000;
    guest.enter(first, "MPI_Abort", &[WORLD, 0]);
    events.extend(first.open_calls());

    let mut guest = Guest::mpich(second, 1);
    // In nanoseconds: 1000, gap 1000, 500.
    let receive = |count| [0x5000, int(count), DOUBLE, int(0), int(0), WORLD, 1];
    guest.clock = 1990;
    let slot = guest.enter(second, "MPI_Recv", &receive(4));
    let before = guest.stack;
    // A call made by the implementation.
    call(second, &mut guest, 2500, 3000, "MPI_Barrier", &[WORLD]);
    guest.stack = before;
    guest.clock = 3900;
    guest.leave(second, slot, 0);
    call(second, &mut guest, 6000, 7000, "MPI_Bcast", &bcast);
    events.extend(second.take_events());
    (header, events)
}

fn statistics() -> Statistics {
    let (header, events) = events();
    let mut collector = Collector::new();
    for event in &events {
        collector.observe(event, &header);
    }
    let communicators = collector.resolve();
    let mut collector = StatCollector::new(&header, &communicators);
    for event in &events {
        collector.observe(event);
    }
    collector.finish(None)
}

#[test]
fn functions_have_their_times_and_bytes() {
    let found = statistics();
    let row = |name: &str| {
        let stat = found.functions.iter().find(|it| it.function == name);
        let stat = stat.unwrap_or_else(|| panic!("{name}"));
        (
            (stat.calls, stat.nested, stat.sent, stat.received),
            [
                stat.min_ps,
                stat.median_ps,
                stat.mean_ps,
                stat.max_ps,
                stat.total_ps,
            ]
            .map(|ps| ps / 1000),
        )
    };
    assert_eq!(row("MPI_Barrier"), ((1, 1, 0, 0), [1000; 5]));
    assert_eq!(row("MPI_Send"), ((2, 0, 72, 0), [500, 500, 600, 700, 1200]));
    assert_eq!(row("MPI_Recv"), ((1, 0, 0, 32), [1000; 5]));
    assert_eq!(
        row("MPI_Bcast"),
        ((2, 0, 24, 24), [100, 100, 300, 500, 600])
    );
    assert_eq!(row("MPI_Abort"), ((1, 0, 0, 0), [0; 5]));
    let order: Vec<_> = found.functions.iter().map(|it| it.function).collect();
    let expected = [
        "MPI_Send",
        "MPI_Barrier",
        "MPI_Recv",
        "MPI_Bcast",
        "MPI_Abort",
    ];
    assert_eq!(order, expected);
    assert_eq!((found.unfinished, found.bad), (1, 0));
    assert_eq!(found.inexact_received, 32);
}

#[test]
fn ranks_have_their_shares_and_harmonic_means() {
    let found = statistics();
    let [first, second] = found.ranks.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((first.rank, first.node, first.calls), (0, 0, 5));
    // The last gap, of 960 ns, ends at the abort.
    assert_eq!(first.compute_ps / 1000, 1000 + 250 + 500 + 960);
    assert_eq!(first.mpi_ps / 1000, 1000 + 500 + 700 + 100);
    assert_eq!((first.sent, first.received), (72 + 24, 0));
    let harmonic = 4.0 / (1.0 / 1000.0 + 1.0 / 250.0 + 1.0 / 500.0 + 1.0 / 960.0);
    assert_eq!(first.intervals.count, 4);
    assert!((first.intervals.harmonic_mean_cycles - harmonic).abs() < 1e-9);
    assert!((first.intervals.harmonic_mean_s - harmonic * 1e-9).abs() < 1e-18);
    assert_eq!((second.rank, second.node, second.calls), (1, 1, 2));
    assert_eq!(second.compute_ps / 1000, 1000);
    assert_eq!(second.mpi_ps / 1000, 1500);
    assert!((second.intervals.harmonic_mean_cycles - 2000.0).abs() < 1e-9);
    assert!((second.intervals.harmonic_mean_s - 1e-6).abs() < 1e-15);
    assert_eq!(found.intervals.count, 5);
}

#[test]
fn messages_have_sizes_and_ways() {
    let found = statistics();
    let sizes = [SizeStat {
        from: 32,
        to: 63,
        messages: 2,
        bytes: 72,
    }];
    assert_eq!(found.sizes, sizes);
    let traffic = [TrafficStat {
        job: 0,
        from: 0,
        to_job: 0,
        to: 1,
        messages: 2,
        bytes: 72,
    }];
    assert_eq!(found.traffic, traffic);
    assert_eq!(
        (found.unresolved_messages, found.unresolved_collectives),
        (0, 0)
    );
}

#[test]
fn prepared_messages_do_not_count() {
    let (header, mut events) = events();
    for event in &mut events {
        for transfer in &mut event.transfers {
            transfer.phase = Phase::Prepared;
        }
    }
    let communicators = Collector::new().resolve();
    let mut collector = StatCollector::new(&header, &communicators);
    for event in &events {
        collector.observe(event);
    }
    let found = collector.finish(None);
    assert!(found.traffic.is_empty() && found.sizes.is_empty());
    let bcast = found.functions.iter().find(|it| it.function == "MPI_Bcast");
    assert_eq!(bcast.unwrap().sent, 0, "who is root is not known");
    assert_eq!(found.unresolved_collectives, 2);
}

#[test]
fn text_fits_its_columns_and_json_is_whole() {
    let found = statistics();
    let mut text = Vec::new();
    found.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(text.contains("MPI_Send         2  72 B"), "{text}");
    let mut json = Vec::new();
    found.write_json(&mut json).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(value["ranks"][1]["mpi_ps"], 1_500_000);
    assert_eq!(value["functions"][0]["function"], "MPI_Send");
}

#[test]
fn a_page_of_many_jobs_is_a_page() {
    let function = FunctionStat {
        function: "MPI_Send",
        calls: 3,
        nested: 0,
        seen: Some(9),
        sent: 1,
        received: 0,
        returned: 3,
        min_ps: 1,
        median_ps: 1,
        mean_ps: 1,
        max_ps: 1,
        total_ps: 3,
    };
    let rank = |number: u32| RankStat {
        job: number / 4,
        rank: number % 4,
        node: 0,
        calls: 1,
        compute_ps: 1,
        mpi_ps: 1,
        start_and_end_ps: 0,
        sent: 1,
        received: 1,
        intervals: IntervalStat::default(),
    };
    let traffic = |number: u32| TrafficStat {
        job: number / 4,
        from: number % 4,
        to_job: number / 4,
        to: 0,
        messages: 2,
        bytes: 10,
    };
    let statistics = Statistics {
        functions: vec![function; 60],
        ranks: (0..80).map(rank).collect(),
        traffic: (0..80).map(traffic).collect(),
        unresolved_messages: 1,
        unfinished: 1,
        ..Statistics::default()
    };
    let mut page = Vec::new();
    statistics.write_page(&mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(page.lines().count() <= 50, "{page}");
    assert!(page.contains("and 48 more functions"), "{page}");
    let sum = "Messages: 160 of 800 B between 80 pairs of ranks in 20 jobs";
    assert!(page.contains(sum), "{page}");
    let mut all = Vec::new();
    statistics.write(&mut all).unwrap();
    assert!(
        String::from_utf8(all)
            .unwrap()
            .contains("Messages of job 19")
    );
}
