//! Threads of schedules: calls that begin when their conditions hold.

use belljar_program::{Conditions, Slot, Thread};

use super::*;
use crate::ideal::ideal;

const PS: u64 = 1_000_000;

/// A call of a schedule: its operation, its work in microseconds, and its conditions.
#[derive(Clone, Copy)]
enum Does {
    Nothing,
    Send(u32, i32),
    Receive(u32, i32),
}

/// An operation, its work in microseconds, and the points that it waits for.
type Call<'a> = (Does, u64, &'a [u32]);

/// Threads of rank 0 with their processors, and one thread of rank 1: for each call its operation, its work, and its conditions. The point of a call is its
/// index among all calls of rank 0.
fn schedule(own: &[(u32, &[Call<'_>])], other: &[(Does, u64)]) -> Program {
    let mut builder = Builder::new(2);
    let mut all: Vec<(Does, u64)> = Vec::new();
    all.extend(
        own.iter()
            .flat_map(|(_, calls)| calls.iter().map(|it| (it.0, it.1))),
    );
    let ranks = [(0, all.as_slice()), (1, other)];
    for (rank, calls) in ranks {
        for (does, work) in calls {
            if rank == 1 {
                builder.work(rank, work * PS);
            }
            let slot: Option<Slot> = match does {
                Does::Nothing => None,
                Does::Send(to, tag) => Some(builder.send(rank, *to, *tag, 8)),
                Does::Receive(from, tag) => Some(builder.receive(rank, *from, *tag)),
            };
            slot.into_iter().for_each(|slot| builder.wait(rank, slot));
            builder.call(rank, "MPI_Pcontrol", 0);
        }
    }
    let mut program = builder.finish();
    let whole = program.threads.remove(0);
    let mut operations = whole.operations.iter().copied();
    let mut calls = whole.calls.iter().copied();
    let mut point = 0;
    for (number, (processor, links)) in (0..).zip(own) {
        let mut thread = Thread {
            thread: number,
            slots: whole.slots,
            ..Thread::default()
        };
        for ((_, work, after), call) in links.iter().zip(&mut calls) {
            thread.calls.push(call);
            thread
                .operations
                .extend(operations.by_ref().take(call.operations as usize));
            thread.conditions.push(Conditions {
                processor: *processor,
                work: work * PS,
                after: after.to_vec(),
                started: None,
                complete: Some(point),
            });
            point += 1;
        }
        program.threads.push(thread);
    }
    program
}

/// Returns the exit of each call of rank 0's threads, in microseconds.
fn exits(program: &Program) -> Vec<Vec<u64>> {
    let outcome = ideal(program).unwrap();
    assert_eq!(outcome.stuck, []);
    let threads = program.threads.iter().zip(&outcome.times);
    let own = threads.filter(|(thread, _)| thread.process == 0);
    own.map(|(_, times)| times.iter().map(|(_, exit)| exit / PS).collect())
        .collect()
}

#[test]
fn answers_do_not_wait_for_one_another() {
    use Does::{Nothing, Receive, Send};
    // Rank 1 sends to the second thread first, and needs its answer to send to the first.
    let other = [
        (Send(0, 3), 0),
        (Receive(0, 4), 0),
        (Send(0, 1), 0),
        (Receive(0, 2), 0),
    ];
    let program = schedule(
        &[
            (
                0,
                &[
                    (Receive(1, 1), 0, &[]),
                    (Nothing, 5, &[]),
                    (Send(1, 2), 0, &[]),
                ],
            ),
            (
                0,
                &[
                    (Receive(1, 3), 0, &[]),
                    (Nothing, 7, &[]),
                    (Send(1, 4), 0, &[]),
                ],
            ),
        ],
        &other,
    );
    assert_eq!(exits(&program), [[7, 12, 12], [0, 7, 7]]);
    for setting in settings(2, Span::from_us(1)) {
        let outcome = replay(&program, &Calibration::own(&program), &setting, || true).unwrap();
        assert_eq!(outcome.stuck, []);
    }
}

#[test]
fn a_processor_does_one_work_at_a_time() {
    use Does::Nothing;
    let works = |processors: [u32; 2]| {
        let [first, second] = processors;
        let of = schedule(
            &[
                (first, &[(Nothing, 10, &[]), (Nothing, 1, &[])]),
                (second, &[(Nothing, 10, &[]), (Nothing, 4, &[0])]),
            ],
            &[],
        );
        exits(&of)
    };
    // Work is done in the order in which it becomes available.
    assert_eq!(works([0, 0]), [[10, 21], [20, 25]]);
    assert_eq!(works([0, 1]), [[10, 11], [10, 14]]);
}

#[test]
fn a_point_that_is_never_reached_keeps_its_threads() {
    use Does::Nothing;
    let program = schedule(&[(0, &[(Nothing, 1, &[]), (Nothing, 1, &[9])])], &[]);
    let outcome = ideal(&program).unwrap();
    let stuck: Vec<(u32, u32)> = outcome.stuck.iter().map(|it| (it.rank, it.call)).collect();
    assert_eq!(stuck, [(0, 1)]);
}

#[test]
fn the_end_of_time_is_an_error() {
    let mut program = message(100_000, 50, [5, 6]);
    program.threads[0].start = u64::MAX - 1_000_000;
    for setting in settings(2, Span::from_us(1)) {
        let ended = replay(&program, &Calibration::own(&program), &setting, || true);
        let error = ended.unwrap_err().to_string();
        assert!(error.contains("more than 106 days"), "{error}");
    }
}
