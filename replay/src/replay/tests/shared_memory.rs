//! Processes of one host exchange messages in memory, on every network alike.

use super::*;

/// Settings in which both processes are on the first of two hosts.
fn together(latency: Span) -> [Setting; 3] {
    settings(2, latency).map(|setting| Setting {
        hosts: vec![0, 0],
        ..setting
    })
}

/// Returns the picoseconds of the send and of the receive of a message with this many bytes, by model. Calls of the trace
/// took no time.
fn took(bytes: u64, late: u64, latency: Span) -> [(u64, u64); 3] {
    let program = message(bytes, late, [0, 0]);
    together(latency).map(|setting| {
        let nothing = Calibration::nothing(&program);
        let outcome = replay(&program, &nothing, &setting, || true).unwrap();
        assert!(outcome.stuck.is_empty());
        let of = |thread: usize, call: usize| {
            let (entry, exit) = outcome.times[thread][call];
            exit - entry
        };
        (of(0, 0), of(1, 1))
    })
}

/// Converts cycles to picoseconds.
fn ps(cycles: f64) -> u64 {
    (cycles * 1e12 / 2.6e9) as u64
}

#[test]
fn a_small_message_is_copied_twice() {
    let costs = Costs::of(Implementation::Mpich);
    let memory = costs.shared_memory;
    let copy = memory.copy * 8_000.0;
    for (send, receive) in took(8_000, 0, Span::from_us(500)) {
        assert!(send.abs_diff(ps(memory.send + copy)) < 10, "{send}");
        // The receiver begins after a call of no time, so that it waits for the whole message.
        let all = memory.send + memory.latency + memory.receive + 2.0 * copy + costs.begin;
        assert!(
            receive.abs_diff(ps(all)) < ps(2.0 * costs.begin),
            "{receive}"
        );
    }
}

#[test]
fn a_large_message_is_copied_once_when_its_receiver_wants_it() {
    let costs = Costs::of(Implementation::Mpich);
    let memory = costs.shared_memory;
    let copy = memory.get + memory.copy * 100_000.0;
    for (send, receive) in took(100_000, 300, Span::from_us(500)) {
        assert!(
            receive.abs_diff(ps(copy)) < ps(2.0 * costs.begin),
            "{receive}"
        );
        let answer = 300 * US + receive + ps(memory.latency + memory.receive);
        assert!(send.abs_diff(answer) < ps(2.0 * costs.begin), "{send}");
    }
}

#[test]
fn the_network_does_not_matter() {
    for bytes in [10, 100_000] {
        let [near, far] = [1, 1000].map(|us| took(bytes, 0, Span::from_us(us)));
        assert_eq!(near, far);
        assert_eq!(near[0], near[1]);
        assert_eq!(near[0], near[2]);
    }
}

#[test]
fn large_pieces_that_are_there_before_their_receiver_comes_are_copied() {
    let mut builder = Builder::new(2);
    for rank in [0, 1] {
        builder.work(rank, u64::from(rank) * 100 * US);
        let call =
            Call::new(Operation::Alltoallv, 2, rank).pieces(vec![50_000; 2], vec![50_000; 2]);
        let part = Participation::Library {
            algorithm: Algorithm::AlltoallvScattered,
            call,
            stages: Vec::new(),
            times: 1,
        };
        let slot = builder.take_part(rank, part);
        builder.wait(rank, slot);
        builder.call(rank, "MPI_Alltoallv", 0);
    }
    let program = builder.finish();
    for setting in together(Span::from_us(1)) {
        let nothing = Calibration::nothing(&program);
        let outcome = replay(&program, &nothing, &setting, || true).unwrap();
        assert!(outcome.stuck.is_empty(), "{:?}", outcome.stuck);
        let costs = Costs::of(Implementation::Mpich);
        let memory = costs.shared_memory;
        // The late process copies the other's piece, and its own.
        let copies = ps(memory.get + (memory.copy + costs.copy) * 50_000.0);
        let (entry, exit) = outcome.times[1][0];
        assert!(exit - entry >= copies, "{}", exit - entry);
        assert!(exit - entry < copies + 20 * US, "{}", exit - entry);
    }
}
