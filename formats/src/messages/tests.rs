use std::convert::Infallible;

use belljar_collectives::{Algorithm, Operation};
use belljar_program::{Builder, Participation};

use super::*;

/// The steps of each rank.
fn steps<'m>(messages: &'m Messages<'m>) -> Vec<Vec<Step<'m>>> {
    let of = |rank| {
        let mut steps = Vec::new();
        let Ok(()) = messages.rank(rank, |step| {
            steps.push(step);
            Ok::<(), Infallible>(())
        });
        steps
    };
    (0..messages.ranks()).map(of).collect()
}

#[test]
fn both_ends_know_a_message_by_the_same_tag() {
    let mut builder = Builder::new(2);
    for bytes in [10, 20] {
        let sent = builder.send(0, 1, 5, bytes);
        builder.wait(0, sent);
        builder.call(0, "MPI_Send", 1);
    }
    let slots = [builder.receive(1, 0, 5), builder.receive(1, 0, 5)];
    builder.call(1, "MPI_Irecv", 1);
    builder.work(1, 700);
    for slot in slots {
        builder.wait(1, slot);
    }
    builder.call(1, "MPI_Waitall", 1);
    let program = builder.finish();
    let messages = Messages::new(&program, true);
    let all = steps(&messages);
    let message = |number: usize| match all[0][2 * number] {
        Step::Send(message) => message,
        other => panic!("{other:?}"),
    };
    let [first, second] = [message(0), message(1)];
    assert_ne!(first.tag, second.tag);
    assert_eq!((first.bytes, second.bytes), (10, 20));
    let works = |step: &&Step<'_>| !matches!(step, Step::Work(_));
    let received: Vec<Step<'_>> = all[1].iter().filter(works).copied().collect();
    let expected = [
        Step::Receive(first),
        Step::Receive(second),
        Step::Received(first),
        Step::Received(second),
    ];
    assert_eq!(received, expected);
    assert!(all[1].contains(&Step::Work(700)));
    assert_eq!(messages.left_out(), LeftOut::default());
}

#[test]
fn what_nobody_receives_is_left_out() {
    let mut builder = Builder::new(2);
    let sent = builder.send(0, 1, 5, 10);
    builder.wait(0, sent);
    builder.call(0, "MPI_Send", 1);
    builder.call(1, "MPI_Comm_rank", 1);
    let program = builder.finish();
    let messages = Messages::new(&program, true);
    assert_eq!(messages.left_out().alone, 1);
    let mut all = steps(&messages).into_iter().flatten();
    assert!(all.all(|step| matches!(step, Step::Work(_))));
}

#[test]
fn collective_operations_are_whole_or_messages_that_pair() {
    let mut builder = Builder::new(4);
    for rank in 0..4 {
        let part = Participation::Library {
            algorithm: Algorithm::BarrierDissemination,
            call: Call::new(Operation::Barrier, 4, rank),
            stages: Vec::new(),
            times: 1,
        };
        let slot = builder.take_part(rank, part);
        builder.wait(rank, slot);
        builder.call(rank, "MPI_Barrier", 1);
    }
    let program = builder.finish();
    let whole = Messages::new(&program, true);
    for own in steps(&whole) {
        let together = own.iter().filter(|it| matches!(it, Step::Together(_)));
        assert_eq!(together.count(), 1);
    }
    let messages = Messages::new(&program, false);
    let all = steps(&messages);
    let mut sent = Vec::new();
    let mut received = Vec::new();
    for step in all.iter().flatten() {
        match step {
            Step::Send(message) => sent.push(*message),
            Step::Receive(message) => received.push(*message),
            Step::Together(_) => panic!("{step:?}"),
            _ => {}
        }
    }
    sent.sort_unstable();
    received.sort_unstable();
    // Two rounds of four messages.
    assert_eq!(sent.len(), 8);
    assert_eq!(sent, received);
}
