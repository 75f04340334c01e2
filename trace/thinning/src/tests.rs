//! Programs with known loops.

use belljar_mpi::FUNCTIONS;
use belljar_trace::{
    Accounts, Amount, Collective, Completion, Direction, Ending, Event, Implementation, Peer,
    Phase, Transfer,
};

use super::*;

/// A call of `rank` that takes 10 cycles, `at` cycles after the start.
fn call(name: &str, rank: u32, at: u64) -> Event {
    let function = FUNCTIONS.iter().position(|of| of.name == name);
    let of_all = Collective {
        operation: Some(belljar_mpi::Operation::Allreduce),
        phase: Phase::Done,
        communicator: Some(0),
        root: None,
        sent: Amount::NOTHING,
        received: Amount::NOTHING,
    };
    let is_of_all = name == "MPI_Allreduce";
    Event {
        node: rank,
        vcpu: 0,
        process: 0,
        thread: 0,
        rank,
        implementation: Implementation::Mpich,
        function: function.unwrap() as u16,
        entry: at,
        exit: Some(at + 10),
        result: Some(0),
        depth: 0,
        selected: true,
        bad: None,
        arguments: Vec::new(),
        texts: Vec::new(),
        communicator: Some(0),
        transfers: Vec::new(),
        collectives: is_of_all.then_some(of_all).into_iter().collect(),
        started: Vec::new(),
        completed: Vec::new(),
        status: None,
        fact: None,
        accounts: Accounts::default(),
        site: Default::default(),
        details: Default::default(),
        folded: Default::default(),
        given_up: Default::default(),
    }
}

/// Calls of these names, made by each of `ranks` at the same time.
fn program(names: &[&str], ranks: u32) -> Vec<Event> {
    let made = (0..).step_by(100).zip(names);
    made.flat_map(|(at, name)| (0..ranks).map(move |rank| call(name, rank, at)))
        .collect()
}

fn repeated<'a>(body: &[&'a str], times: usize) -> Vec<&'a str> {
    body.repeat(times)
}

fn collect(events: Vec<Event>, iterations: u64) -> (Vec<Event>, Collected) {
    let mut collector = Collector::new(iterations);
    let kept = feed(&mut collector, events);
    (kept, collector.collected())
}

fn feed(collector: &mut Collector, events: Vec<Event>) -> Vec<Event> {
    let mut kept = Vec::new();
    for event in events {
        let mut next = |event| {
            kept.push(event);
            Ok::<_, ()>(())
        };
        collector.take(event, &mut next).unwrap();
    }
    kept
}

fn names(events: &[Event], rank: u32) -> Vec<&'static str> {
    let own = events.iter().filter(|event| event.rank == rank);
    own.map(Event::name).collect()
}

#[test]
fn a_loop_is_kept_in_part_and_counted_whole() {
    let body = ["MPI_Send", "MPI_Recv", "MPI_Allreduce"];
    let text = [
        vec!["MPI_Barrier"],
        repeated(&body, 1000),
        vec!["MPI_Bcast", "MPI_Finalize"],
    ];
    let events = program(&text.concat(), 3);
    let (all, (kept, collected)) = (events.len() as u64, collect(events, 10));
    let (whole, iterations) = collected.iterations();
    assert!((10..50).contains(&whole), "{whole} of {iterations}");
    assert!((960..=1000).contains(&iterations), "{iterations}");
    let counts = collected.functions();
    let calls = counts
        .values()
        .map(|it| it.cycles.kept.count + it.cycles.dropped.count);
    assert_eq!(calls.sum::<u64>(), all);
    assert_eq!(
        counts["MPI_Send"].cycles.kept.count + counts["MPI_Send"].cycles.dropped.count,
        3000
    );
    assert_eq!(
        counts["MPI_Send"].cycles.dropped.sum,
        10 * counts["MPI_Send"].cycles.dropped.count
    );
    // The kept calls of one rank match those of the others, and the calls after the loop are present.
    let first = names(&kept, 0);
    assert!(first.len() < 200, "{}", first.len());
    assert_eq!(first[first.len() - 2..], ["MPI_Bcast", "MPI_Finalize"]);
    assert_eq!(first, names(&kept, 1));
    assert_eq!(first, names(&kept, 2));
}

#[test]
fn what_does_not_repeat_enough_is_kept() {
    let events = program(&repeated(&["MPI_Send", "MPI_Recv"], 9), 2);
    let (kept, collected) = collect(events.clone(), 10);
    assert_eq!(kept, events);
    assert_eq!(collected.iterations().0, collected.iterations().1);
}

#[test]
fn the_outer_loop_of_two_is_found_and_its_inner_one_dropped_with_it() {
    let inner = repeated(&["MPI_Send", "MPI_Recv"], 4);
    let body = [inner, vec!["MPI_Allreduce"]].concat();
    let (kept, collected) = collect(program(&repeated(&body, 500), 2), 5);
    assert_eq!(names(&kept, 0), names(&kept, 1));
    let sends = collected.functions()["MPI_Send"];
    assert_eq!(sends.cycles.kept.count + sends.cycles.dropped.count, 4000);
    assert!(sends.cycles.kept.count < 400, "{sends:?}");
}

#[test]
fn a_body_that_changes_ends_the_dropping() {
    let one = repeated(&["MPI_Send", "MPI_Recv"], 300);
    let other = repeated(&["MPI_Bcast", "MPI_Reduce"], 300);
    let (kept, collected) = collect(program(&[one, other].concat(), 2), 5);
    let counts = collected.functions();
    for name in ["MPI_Send", "MPI_Recv", "MPI_Bcast", "MPI_Reduce"] {
        let own = counts[name];
        assert_eq!(
            own.cycles.kept.count + own.cycles.dropped.count,
            600,
            "{name}"
        );
        assert!(
            own.cycles.kept.count >= 10 && own.cycles.dropped.count > 400,
            "{name}: {own:?}"
        );
    }
    assert_eq!(names(&kept, 0), names(&kept, 1));
}

#[test]
fn a_collector_goes_on_in_the_middle_of_a_loop_as_if_never_saved() {
    let body = ["MPI_Send", "MPI_Recv", "MPI_Allreduce"];
    let events = program(&repeated(&body, 200), 2);
    let (kept, collected) = collect(events.clone(), 5);
    for cut in [7, 40, 90, 700] {
        let mut first = Collector::new(5);
        let mut both = feed(&mut first, events[..cut].to_vec());
        let mut second = Collector::load(&first.save().unwrap()).unwrap();
        both.extend(feed(&mut second, events[cut..].to_vec()));
        assert_eq!(both, kept);
        assert_eq!(second.collected(), collected);
    }
    assert!(Collector::load(&[255, 1, 2]).is_err());
}

#[test]
fn what_others_need_is_kept() {
    let mut events = program(&repeated(&["MPI_Send", "MPI_Comm_dup"], 200), 1);
    let request = |event: &mut Event| {
        event.completed.push(Completion {
            request: 7,
            status: None,
            received: 0,
            exact: true,
            ending: Ending::Well,
        });
    };
    events[0].started.push(7);
    request(&mut events[300]);
    let (kept, _) = collect(events.clone(), 5);
    let duplicates = names(&kept, 0)
        .iter()
        .filter(|it| **it == "MPI_Comm_dup")
        .count();
    assert_eq!(duplicates, 200);
    assert!(kept.contains(&events[300]) && !kept.contains(&events[302]));
}

#[test]
fn what_was_dropped_is_read_back_and_nonsense_is_refused() {
    let (_, collected) = collect(program(&repeated(&["MPI_Send", "MPI_Recv"], 100), 1), 5);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join(belljar_trace::TRACE_FILE);
    assert_eq!(Collected::of_trace(&trace).unwrap(), None);
    let file = folder.path().join(COLLECTED_FILE);
    std::fs::write(&file, collected.text()).unwrap();
    let read = Collected::of_trace(&trace).unwrap().unwrap();
    assert_eq!(read.calls(), collected.calls());
    assert_eq!(read.iterations(), collected.iterations());
    let told =
        |of: &Collected| -> u64 { of.transitions().into_values().map(|it| it.all().sum).sum() };
    assert_eq!(told(&read), 17_910_u64);
    assert_eq!(told(&collected), 17_910);
    assert_eq!(
        Collected::of_trace(&folder.path().join("other.bjt")).unwrap(),
        None
    );
    let more = read
        .text()
        .replace("\"dropped_iterations\":94", "\"dropped_iterations\":100");
    for text in ["{\"wanted\": 5", &more] {
        std::fs::write(&file, text).unwrap();
        assert!(Collected::of_trace(&trace).is_err());
    }
}

#[test]
fn sums_make_what_the_trace_has_of_time_and_bytes_whole_again() {
    let body = ["MPI_Send", "MPI_Recv", "MPI_Allreduce"];
    let text = [repeated(&body, 300), vec!["MPI_Barrier", "MPI_Finalize"]];
    let mut events = program(&text.concat(), 2);
    for event in &mut events {
        for operation in &mut event.collectives {
            operation.sent = Amount::whole(Some(event.entry));
        }
    }
    let (kept, collected) = collect(events.clone(), 5);
    let between = |events: &[Event], rank| {
        let own: Vec<&Event> = events.iter().filter(|it| it.rank == rank).collect();
        let pairs = own.windows(2);
        let each = pairs.map(|pair| pair[1].entry - pair[0].exit.unwrap());
        (own.len() as u64 - 1, each.sum::<u64>())
    };
    let sent = |events: &[Event], rank| {
        let own = events.iter().filter(|it| it.rank == rank);
        let amounts = own.flat_map(|it| &it.collectives).map(|it| it.sent.bytes);
        amounts.map(Option::unwrap_or_default).sum::<u64>()
    };
    assert!(kept.len() < events.len() / 4);
    for of in &collected.threads {
        let ((count, sum), whole) = (between(&kept, of.rank), between(&events, of.rank));
        let (gaps, intervals) = (of.gaps, of.intervals);
        assert_eq!(gaps.count, 1);
        assert_eq!(count - gaps.count + intervals.count, whole.0);
        assert_eq!(sum - gaps.sum + intervals.sum, whole.1);
        let moved: u64 = of
            .moved
            .iter()
            .map(|it| it.as_one().sent.bytes.unwrap())
            .sum();
        assert_eq!(sent(&kept, of.rank) + moved, sent(&events, of.rank));
    }
}

#[test]
fn states_that_were_tampered_with_are_refused_or_continued() {
    let body = ["MPI_Send", "MPI_Recv", "MPI_Allreduce"];
    let events = program(&repeated(&body, 40), 2);
    let mut collector = Collector::new(5);
    feed(&mut collector, events[..60].to_vec());
    let saved = collector.save().unwrap();
    for place in 0..saved.len() {
        for value in [0, 251, 253, 255] {
            let mut hostile = saved.clone();
            hostile[place] = value;
            if let Ok(mut collector) = Collector::load(&hostile) {
                feed(&mut collector, events[60..].to_vec());
                let _ = collector.collected().calls();
            }
        }
    }
}

/// A pipeline: the first rank has no predecessor, the last one no successor, and each is ahead of the next.
#[test]
fn ranks_of_a_pipeline_drop_the_same_messages() {
    let (ranks, steps) = (4_u32, 400_u64);
    let message = |name: &str, rank: u32, peer: Option<u32>, at| {
        let mut event = call(name, rank, at);
        let receives = name == "MPI_Recv";
        event.transfers.push(Transfer {
            kind: belljar_trace::TransferKind::Message(Default::default()),
            direction: if receives {
                Direction::Receive
            } else {
                Direction::Send
            },
            phase: Phase::Done,
            communicator: Some(0),
            peer: peer.map_or(Peer::Null, Peer::Rank),
            tag: Some(0),
            count: 1,
            datatype: belljar_trace::Datatype::Predefined(0),
            bytes: 8,
            exact: true,
        });
        event
    };
    let mut events: Vec<Event> = (0..ranks).map(|rank| call("MPI_Init", rank, 0)).collect();
    for step in 0..steps {
        for rank in 0..ranks {
            let at = 100 * (1 + step + 7 * u64::from(rank));
            // The first rank receives twice without a peer, where others receive once.
            for _ in 0..=u32::from(rank == 0) {
                events.push(message("MPI_Recv", rank, rank.checked_sub(1), at));
            }
            let next = Some(rank + 1).filter(|next| *next < ranks);
            events.push(message("MPI_Send", rank, next, at + 20));
        }
    }
    events.sort_by_key(|event| (event.entry, event.rank));
    let (kept, collected) = collect(events.clone(), 5);
    let threads = &collected.threads;
    let counts = threads
        .iter()
        .map(|it| (it.iterations, it.dropped_iterations));
    let counts: Vec<_> = counts.collect();
    assert!(
        kept.len() < events.len() / 4,
        "{} kept: {counts:?}",
        kept.len()
    );
    assert_eq!(collected.halved_messages(), 0, "{collected:?}");
    let sides = |of: Direction| {
        let all = kept.iter().flat_map(|it| &it.transfers);
        all.filter(|it| it.direction == of && it.peer != Peer::Null)
            .count()
    };
    assert_eq!(sides(Direction::Send), sides(Direction::Receive));
}
