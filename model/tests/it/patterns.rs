//! Patterns of communication of real programs, learned from small runs and generated at other sizes.

use std::path::Path;

use crate::programs::{call, learned, written};
use belljar_archive::TraceReader;
use belljar_collectives::Tables;
use belljar_model::{MOST_CALLS, Model, extra_p, generate};
use belljar_mpi::SendMode;
use belljar_program::{Algorithms, extract};
use belljar_trace::{
    Datatype, Direction, Event, Peer, Phase, Status, Transfer, TransferKind, WORLD,
};

/// A program: a rank's calls, out of a number of ranks.
type Program = fn(u32, u32) -> Vec<Event>;

/// A blocking message of eight bytes.
fn message(direction: Direction, peer: Option<u32>) -> Event {
    let name = match direction {
        Direction::Send => "MPI_Send",
        Direction::Receive => "MPI_Recv",
    };
    let bytes = if peer.is_some() { 8 } else { 0 };
    let transfer = Transfer {
        kind: TransferKind::Message(SendMode::default()),
        direction,
        phase: Phase::Done,
        communicator: Some(WORLD),
        peer: peer.map_or(Peer::Null, Peer::Rank),
        tag: Some(1),
        count: bytes,
        datatype: Datatype::Predefined(0),
        bytes,
        exact: true,
    };
    Event {
        transfers: vec![transfer],
        ..call(name)
    }
}

fn barrier() -> Event {
    call("MPI_Barrier")
}

/// The sides of a grid of two dimensions, the longer one first, for powers of two.
fn sides(ranks: u32) -> (u32, u32) {
    let columns = 1 << (ranks.ilog2() / 2);
    (ranks / columns, columns)
}

/// A wavefront over a grid without joined borders, whose direction changes with each sweep. Both dimensions use the same calls.
fn sweep(rank: u32, ranks: u32) -> Vec<Event> {
    let (rows, columns) = sides(ranks);
    let (row, column) = (rank / columns, rank % columns);
    let before = [
        (row > 0).then(|| rank - columns),
        (column > 0).then(|| rank - 1),
    ];
    let after = [
        (row + 1 < rows).then(|| rank + columns),
        (column + 1 < columns).then(|| rank + 1),
    ];
    let mut all = Vec::new();
    for turn in 0..4 {
        let (from, to) = if turn % 2 == 0 {
            (before, after)
        } else {
            (after, before)
        };
        for _ in 0..5 {
            all.extend(from.map(|it| message(Direction::Receive, it)));
            all.extend(to.map(|it| message(Direction::Send, it)));
        }
        all.push(barrier());
    }
    all
}

/// Conjugate gradients: exchanges by halves along a row, then with the other side of the diagonal, by the same calls.
fn gradients(rank: u32, ranks: u32) -> Vec<Event> {
    let rows = 1 << (ranks.ilog2() / 2);
    let columns = ranks / rows;
    let (row, column) = (rank / columns, rank % columns);
    let mut peers = Vec::new();
    let mut width = columns;
    while width > 1 {
        peers.push(row * columns + (column ^ (width / 2)));
        width /= 2;
    }
    peers.push(match rows == columns {
        true => rank % rows * rows + rank / rows,
        false => 2 * (rank / 2 % rows * rows + rank / 2 / rows) + rank % 2,
    });
    let mut all = Vec::new();
    for _ in 0..4 {
        for peer in &peers {
            all.push(message(Direction::Send, Some(*peer)));
            all.push(message(Direction::Receive, Some(*peer)));
        }
        all.push(barrier());
    }
    all
}

/// Faces, edges and corners of a cube; ranks at its borders make fewer calls.
fn corners(rank: u32, ranks: u32) -> Vec<Event> {
    let side = (1..=ranks).find(|it| it.pow(3) >= ranks).unwrap_or(1) as i32;
    let at = [1, side, side * side].map(|step| rank as i32 / step % side);
    let steps = (0..27).filter(|it| *it != 13);
    let by = steps.map(|it| [it % 3 - 1, it / 3 % 3 - 1, it / 9 - 1]);
    let peers = by.filter_map(|by| {
        let to = [at[0] + by[0], at[1] + by[1], at[2] + by[2]];
        to.iter()
            .all(|to| (0..side).contains(to))
            .then(|| (to[0] + side * (to[1] + side * to[2])) as u32)
    });
    let peers: Vec<u32> = peers.collect();
    let mut all = Vec::new();
    for _ in 0..3 {
        all.extend(peers.iter().map(|to| message(Direction::Send, Some(*to))));
        all.extend(
            peers
                .iter()
                .map(|from| message(Direction::Receive, Some(*from))),
        );
        all.push(barrier());
    }
    all
}

/// Returns names and peers of the calls of each rank.
fn peers(trace: &Path, ranks: u32) -> Vec<Vec<(&'static str, Option<Peer>)>> {
    let mut all = vec![Vec::new(); ranks as usize];
    for event in TraceReader::open(trace).unwrap() {
        let peer = event.transfers.first().map(|it| it.peer);
        all[event.rank as usize].push((event.name(), peer));
    }
    all
}

#[test]
fn peers_of_real_programs_are_those_of_other_sizes() {
    let programs: [(Program, &[u32], u32); 4] = [
        (sweep, &[4, 8, 16], 64),
        (gradients, &[4, 8, 16], 32),
        (gradients, &[4, 16, 64], 256),
        (corners, &[8, 27], 64),
    ];
    for (number, (program, sizes, ranks)) in programs.into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        let model = learned(folder.path(), program, sizes);
        let model = model.unwrap_or_else(|error| panic!("program {number}: {error}"));
        let model = Model::load(&model.save().unwrap()).unwrap();
        let made = generate(&model, ranks, 1.0, MOST_CALLS).unwrap();
        let path = folder.path().join("made.bjt");
        made.write(&path).unwrap();
        let should = written(folder.path(), program, ranks);
        let (is, should) = (peers(&path, ranks), peers(&should, ranks));
        for (rank, (is, should)) in is.iter().zip(&should).enumerate() {
            assert_eq!(is, should, "program {number}, rank {rank}");
        }
        let (program, _) = extract(&path, Algorithms::By(&Tables::open_mpi())).unwrap();
        assert_eq!(program.unknown, Default::default());
    }
}

#[test]
fn sizes_that_never_ran_are_said_from_the_first_one_on() {
    let folder = tempfile::tempdir().unwrap();
    let model = learned(folder.path(), gradients, &[4, 8, 16]).unwrap();
    for (ranks, beyond) in [(4, false), (16, false), (32, true), (2, true)] {
        let doubts = model.doubts(f64::from(ranks), 1.0);
        let said = doubts.iter().any(|it| it.contains("beyond the runs"));
        assert_eq!(said, beyond, "{ranks}: {doubts:?}");
    }
    assert_eq!(
        model.origin(32.0, 1.0),
        "never ran: generated by a model fitted to runs of 4, 8 and 16 ranks, extrapolated to 32 ranks"
    );
    let single = learned(folder.path(), gradients, &[8]).unwrap();
    let doubts = single.doubts(8.0, 1.0);
    assert!(
        doubts.iter().any(|it| it.contains("errors are unknown")),
        "{doubts:?}"
    );
    let functions = single.functions();
    let mut errors = functions.iter().flat_map(|it| it.values.functions());
    assert!(errors.all(|it| it.error.is_none()));
}

/// The first rank receives messages of all others by a wildcard, in the order of arrival.
fn collects(rank: u32, ranks: u32) -> Vec<Event> {
    if rank > 0 {
        return vec![message(Direction::Send, Some(0)); 3];
    }
    let mut all = Vec::new();
    for round in 0..3 {
        for turn in 1..ranks {
            // An irregular order.
            let from = 1 + (turn * turn * 5 + round * 3 + turn) % (ranks - 1);
            let mut event = message(Direction::Receive, Some(from));
            event.transfers[0].peer = Peer::Any;
            event.status = Some(Status {
                source: Peer::Rank(from),
                tag: 1,
                bytes: 8,
                cancelled: false,
                observed: true,
            });
            all.push(event);
        }
    }
    all
}

#[test]
fn a_wildcard_that_takes_messages_in_any_order_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let model = learned(folder.path(), collects, &[4, 8, 16]).unwrap();
    let made = generate(&model, 32, 1.0, MOST_CALLS).unwrap();
    let receives = made.events().iter().filter(|it| it.name() == "MPI_Recv");
    let receives: Vec<&Event> = receives.collect();
    assert_eq!(receives.len(), 3 * 31);
    for event in receives {
        assert_eq!((event.transfers[0].peer, event.status), (Peer::Any, None));
        assert_eq!(event.transfers[0].bytes, 8);
    }
}

/// A program with only a barrier.
fn waits(_rank: u32, _ranks: u32) -> Vec<Event> {
    vec![barrier(); 5]
}

#[test]
fn runs_of_programs_that_call_other_functions_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let mixed: Program = |rank, ranks| match ranks {
        4 => waits(rank, ranks),
        _ => gradients(rank, ranks),
    };
    // These traces have no call sites: only names of the scenario and functions.
    let model = learned(folder.path(), mixed, &[4, 8]).unwrap();
    let warnings = &model.warnings;
    assert!(
        warnings[0].contains("different programs")
            && warnings[0].contains("8.bjt alone calls MPI_Recv, MPI_Send"),
        "{warnings:?}"
    );
}

#[test]
fn measurements_for_extra_p_follow_its_grammar() {
    let folder = tempfile::tempdir().unwrap();
    let model = learned(folder.path(), gradients, &[4, 8, 16]).unwrap();
    let measured = extra_p(&Model::load(&model.save().unwrap()).unwrap());
    let text = measured.text;
    let mut turns = Vec::new();
    for line in text.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let object = line.as_object().unwrap();
        let keys: Vec<&str> = object.keys().map(String::as_str).collect();
        assert_eq!(keys, ["callpath", "metric", "params", "value"]);
        let ranks = line["params"]["ranks"].as_f64().unwrap();
        let value = line["value"].as_f64().unwrap();
        assert_eq!(line["params"].as_object().unwrap().len(), 1);
        if line["callpath"] == "main->class 0->loop (loop 1)" {
            assert_eq!(line["metric"], "turns");
            turns.push((ranks, value));
        }
    }
    // Exchanges along a row of two, four and four, and the one across the diagonal.
    assert_eq!(turns, [(4.0, 2.0), (8.0, 3.0), (16.0, 3.0)]);
}
