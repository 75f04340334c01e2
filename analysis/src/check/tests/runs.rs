//! Message races, and sends that need buffering.

use crate::check::{FindingKind, MpiCheck, Severity};
use crate::ranks::{ANY, Ranks, WORLD};

/// The severities of message races.
fn races(check: &MpiCheck) -> Vec<Severity> {
    let races = check.findings.iter();
    let races = races.filter(|finding| finding.kind == FindingKind::MessageRace);
    races.map(|finding| finding.severity).collect()
}

/// Rank 0 receives from any source, which is rank 1, and then by `asks` from rank 2. The barrier is between both receives if
/// `apart`.
fn two_senders(asks: i32, apart: bool) -> MpiCheck {
    let mut job = Ranks::started(3);
    job.send(1, (3000, 3100), 0, 5);
    if !apart {
        job.send(2, (3000, 3100), 0, 5);
    }
    job.receive(0, (3000, 4000), ANY, 1, 5);
    for rank in 0..3 {
        job.call(rank, 5000, 6000, "MPI_Barrier", &[WORLD]);
    }
    if apart {
        job.send(2, (7000, 7100), 0, 5);
    }
    job.receive(0, (7000, 8000), asks, 2, 5);
    job.finalized(3).check()
}

#[test]
fn a_message_that_a_later_receive_needs_is_a_race() {
    let check = two_senders(2, false);
    assert_eq!(races(&check), [Severity::Warning]);
    let race = &check.findings[0];
    let sides = race.calls.iter().map(|call| (call.of.rank, call.function));
    let expected = [
        (0, "MPI_Recv"),
        (1, "MPI_Send"),
        (2, "MPI_Send"),
        (0, "MPI_Recv"),
    ];
    assert_eq!(sides.collect::<Vec<_>>(), expected);
    assert!(!check.has_errors());
}

#[test]
fn receives_from_any_source_alone_are_a_note() {
    assert_eq!(races(&two_senders(ANY, false)), [Severity::Note]);
}

#[test]
fn a_barrier_after_the_receive_orders_the_sends() {
    assert_eq!(races(&two_senders(2, true)), []);
    assert_eq!(races(&two_senders(ANY, true)), []);
}

#[test]
fn sends_before_receives_need_buffering() {
    let mut job = Ranks::started(2);
    for rank in 0..2_u32 {
        job.send(rank as usize, (3000, 3100), 1 - rank, 5);
        let source = 1 - rank as i32;
        job.receive(rank as usize, (4000, 4100), source, 1 - rank, 5);
    }
    let check = job.finalized(2).check();
    let [finding] = &check.findings[..] else {
        panic!("{:?}", check.findings)
    };
    assert_eq!(
        (finding.kind, finding.severity),
        (FindingKind::UnsafeSend, Severity::Warning)
    );
    let text = "without buffering of messages, rank 0 in MPI_Send and rank 1 in MPI_Send wait for each other";
    assert_eq!(finding.text, text);
}

#[test]
fn a_receive_that_is_posted_first_needs_no_buffering() {
    let mut job = Ranks::started(2);
    job.send(0, (3000, 3100), 1, 5);
    job.receive(1, (3000, 3200), 0, 0, 5);
    job.send(1, (4000, 4100), 0, 5);
    job.receive(0, (4000, 4200), 1, 1, 5);
    assert_eq!(job.finalized(2).check().findings, []);
}

#[test]
fn a_send_to_itself_needs_buffering() {
    let mut job = Ranks::started(1);
    job.send(0, (3000, 3100), 0, 5);
    job.receive(0, (4000, 4100), 0, 0, 5);
    let kinds = job.kinds(1);
    assert_eq!(kinds, [FindingKind::UnsafeSend]);
}
