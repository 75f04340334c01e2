//! Choices of a run: messages, alternatives, dependence.

use belljar_orders::{ChoiceKind, ObservedRun};

use crate::check::order::observed;
use crate::ranks::{ANY, NO_REQUEST, Ranks, WORLD};

use super::{IGNORE, message};

fn run(job: Ranks) -> ObservedRun {
    let trace = job.trace();
    observed(
        &trace.header,
        &trace.communicators,
        trace.events.into_iter(),
    )
}

/// Of each choice, the sender of its message and of its alternatives.
fn senders(run: &ObservedRun) -> Vec<(u32, Vec<u32>)> {
    let choices = run.choices.iter();
    let of = choices.map(|choice| {
        let others = choice.alternatives.iter().map(|other| other.from.rank);
        (choice.matched.from.rank, others.collect())
    });
    of.collect()
}

#[test]
fn a_receive_from_any_source_has_the_messages_of_other_ranks_as_alternatives() {
    let mut job = Ranks::started(4);
    for rank in 1..4 {
        job.send(rank, (3000, 3100), 0, 5);
    }
    for (from, entry) in [(1, 3000), (2, 4000), (3, 5000)] {
        job.receive(0, (entry, entry + 500), ANY, from, 5);
    }
    let run = run(job.finalized(4));
    assert_eq!(senders(&run), [(1, vec![2, 3]), (2, vec![3]), (3, vec![])]);
    let numbers: Vec<u32> = run.choices.iter().map(|choice| choice.id.number).collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert!(
        run.choices
            .iter()
            .all(|choice| choice.id.kind == ChoiceKind::Receive)
    );
    assert!(run.unknown.is_empty());
    assert_eq!((run.messages.len(), run.nodes.len()), (3, 4));
}

#[test]
fn messages_that_depend_on_the_choice_or_fit_no_receive_are_no_alternatives() {
    // Rank 2 sends after a barrier that follows the receive.
    let mut job = Ranks::started(3);
    job.send(1, (3000, 3100), 0, 5);
    job.receive(0, (3000, 4000), ANY, 1, 5);
    for rank in 0..3 {
        job.call(rank, 5000, 6000, "MPI_Barrier", &[WORLD]);
    }
    job.send(2, (7000, 7100), 0, 5);
    job.receive(0, (7000, 8000), ANY, 2, 5);
    assert_eq!(senders(&run(job.finalized(3))), [(1, vec![]), (2, vec![])]);
    // A message of another tag, and one that a receive got that was posted before.
    let mut job = Ranks::started(4);
    job.send(2, (3000, 3100), 0, 5);
    job.receive(0, (3000, 3500), 2, 2, 5);
    job.send(1, (3000, 3100), 0, 5);
    job.send(3, (3000, 3100), 0, 6);
    job.receive(0, (4000, 4500), ANY, 1, 5);
    job.receive(0, (5000, 5500), 3, 3, 6);
    assert_eq!(senders(&run(job.finalized(4))), [(1, vec![])]);
}

#[test]
fn a_message_that_no_receive_got_is_an_alternative() {
    let mut job = Ranks::started(3);
    job.send(1, (3000, 3100), 0, 5);
    job.send(2, (3000, 3100), 0, 5);
    job.receive(0, (3000, 4000), ANY, 1, 5);
    assert_eq!(senders(&run(job.finalized(3))), [(1, vec![2])]);
}

/// Rank 0 starts receives from ranks 1, 2 and 3 with tags 5, 6 and 7, completes the first by `MPI_Waitany` and the others by
/// `MPI_Wait`.
fn waitany() -> ObservedRun {
    let mut job = Ranks::started(4);
    for (rank, tag) in [(1, 5), (2, 6), (3, 7)] {
        job.send(rank, (3000, 3100), 0, tag);
    }
    let guest = &mut job.guests[0];
    let requests = guest.handles(&[NO_REQUEST; 3]);
    let index = guest.ints(&[0]);
    for (at, (from, tag)) in (0..).zip([(1, 5), (2, 6), (3, 7)]) {
        let own = requests + 4 * at;
        let arguments = [&message(1, from, tag)[..], &[own]].concat();
        let entry = 4000 + 1000 * at;
        job.call_and(0, entry, entry + 150, "MPI_Irecv", &arguments, |guest| {
            guest.put_handle(own, 0xac00_0000 + at);
        });
    }
    let status = job.guests[0].ints(&[0; 8]);
    let arguments = [3, requests, index, status];
    job.call_and(0, 8000, 8500, "MPI_Waitany", &arguments, |guest| {
        guest.put_ints(index, &[0]);
        guest.put_handle(requests, NO_REQUEST);
        guest.put_status(status, 1, 5, 4);
    });
    for at in 1..3 {
        let entry = 9000 + 1000 * at;
        let own = requests + 4 * at;
        job.call_and(0, entry, entry + 150, "MPI_Wait", &[own, IGNORE], |guest| {
            guest.put_handle(own, NO_REQUEST);
        });
    }
    run(job.finalized(4))
}

#[test]
fn a_call_that_completes_one_request_could_have_completed_each_open_one() {
    // Whatever completes the others later.
    let run = waitany();
    assert_eq!(senders(&run), [(1, vec![2, 3])]);
    assert_eq!(run.choices[0].id.kind, ChoiceKind::Completion);
}
