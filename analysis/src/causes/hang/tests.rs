//! Traces of jobs that came to no end.

use belljar_trace::LostProcess;
use belljar_tracer::scripted::int;

use super::collect::HangCollector;
use super::{Hang, HangVerdict, JobRank, OneSided, RankState};
use crate::ranks::{ANY, BUFFER, BYTE, Ranks, SUM, WORLD};

/// The end of the runs, in nanoseconds.
const END: u64 = 50_000_000;
/// The entry of calls that do not return.
const LATE: u64 = 10_000;

impl Ranks {
    fn hang(self) -> Hang {
        self.hang_without(&[])
    }

    /// The hang of a job some of whose processes have ended.
    fn hang_without(self, lost: &[LostProcess]) -> Hang {
        self.hang_at(END, lost)
    }

    /// The same with another end of the run, in nanoseconds.
    fn hang_at(self, end: u64, lost: &[LostProcess]) -> Hang {
        let trace = self.trace();
        let mut collector = HangCollector::new(&trace.header, &trace.communicators);
        for event in &trace.events {
            collector.observe(event);
        }
        collector.finish(Some(end * 1000), lost, None)
    }

    /// Receives from a rank without an end.
    fn receives(&mut self, rank: usize, source: i32, tag: i32) {
        let arguments = [BUFFER, int(4), BYTE, int(source), int(tag), WORLD, 1];
        self.enter(rank, LATE, "MPI_Recv", &arguments);
    }

    /// Sends to a rank without an end.
    fn sends(&mut self, rank: usize, to: i32, tag: i32) {
        let arguments = [BUFFER, int(4), BYTE, int(to), int(tag), WORLD];
        self.enter(rank, LATE, "MPI_Ssend", &arguments);
    }
}

fn ranks(hang: &Hang) -> Vec<u32> {
    hang.chain.iter().map(|of| of.rank).collect()
}

fn stuck(hang: &Hang) -> Vec<u32> {
    let stuck = hang.ranks.iter().filter(|rank| rank.stuck);
    stuck.map(|rank| rank.of.rank).collect()
}

#[test]
fn receives_from_each_other_are_a_deadlock() {
    let mut job = Ranks::new(3);
    job.receives(0, 1, 5);
    job.receives(1, 0, 5);
    job.call(2, 1000, 2000, "MPI_Finalize", &[]);
    let hang = job.hang();
    assert_eq!(hang.verdict, HangVerdict::Deadlock);
    assert_eq!((ranks(&hang), stuck(&hang)), (vec![0, 1], vec![0, 1]));
    assert_eq!(
        hang.sentence().as_deref(),
        Some("deadlock: rank 0 in MPI_Recv waits for rank 1 in MPI_Recv waits for rank 0")
    );
    let first = &hang.ranks[0];
    assert_eq!(
        (first.state, first.function),
        (RankState::InCall, "MPI_Recv")
    );
    assert_eq!(first.since_ps, LATE * 1000);
    assert_eq!(first.for_ps, (END - LATE) * 1000);
    assert_eq!(first.waits_for, [JobRank { job: 0, rank: 1 }]);
    assert_eq!(hang.ranks[2].state, RankState::Ended);
    let receive = |from, to| OneSided {
        from: Some(JobRank { job: 0, rank: from }),
        to: JobRank { job: 0, rank: to },
        tag: Some(5),
        count: 1,
    };
    assert_eq!(hang.unsent, [receive(0, 1), receive(1, 0)]);
}

#[test]
fn synchronous_sends_in_a_ring_are_a_deadlock_of_all() {
    let mut job = Ranks::new(4);
    for rank in 0..4 {
        job.sends(rank, (rank as i32 + 1) % 4, 7);
    }
    let hang = job.hang();
    assert_eq!(hang.verdict, HangVerdict::Deadlock);
    assert_eq!(ranks(&hang), [0, 1, 2, 3]);
    assert_eq!(hang.unreceived.len(), 4);
}

#[test]
fn a_rank_that_computes_may_still_send() {
    let mut job = Ranks::new(3);
    job.receives(0, 1, 5);
    job.receives(1, 2, 5);
    job.call(2, 1000, 1100, "MPI_Wtime", &[]);
    let hang = job.hang();
    assert_eq!(
        (hang.verdict, hang.sentence()),
        (HangVerdict::NotStuck, None)
    );
    assert_eq!(stuck(&hang), Vec::<u32>::new());
    assert_eq!(hang.ranks[2].state, RankState::Outside);
}

#[test]
fn a_message_on_its_way_leaves_nobody_stuck() {
    let mut job = Ranks::new(2);
    job.send(1, (1000, 1100), 0, 5);
    job.receives(0, 1, 5);
    job.receives(1, 0, 6);
    assert_eq!(job.hang().verdict, HangVerdict::NotStuck);
}

#[test]
fn another_tag_is_not_the_message() {
    let mut job = Ranks::new(2);
    job.send(1, (1000, 1100), 0, 4);
    job.receives(0, 1, 5);
    job.receives(1, 0, 6);
    let hang = job.hang();
    assert_eq!(hang.verdict, HangVerdict::Deadlock);
    let lost = OneSided {
        from: Some(JobRank { job: 0, rank: 1 }),
        to: JobRank { job: 0, rank: 0 },
        tag: Some(4),
        count: 1,
    };
    assert_eq!(hang.unreceived, [lost]);
}

#[test]
fn who_waits_for_a_rank_that_has_ended_is_stuck() {
    let mut job = Ranks::new(3);
    job.call(0, 1000, 2000, "MPI_Finalize", &[]);
    job.receives(1, 0, 5);
    job.receives(2, 1, 5);
    let hang = job.hang();
    assert_eq!(hang.verdict, HangVerdict::WaitsForEnded);
    assert_eq!((ranks(&hang), stuck(&hang)), (vec![1, 0], vec![1, 2]));
    let sentence = "rank 1 in MPI_Recv waits for rank 0, which has ended MPI";
    assert_eq!(hang.sentence().as_deref(), Some(sentence));
}

#[test]
fn a_barrier_needs_all_and_a_broadcast_its_root() {
    let mut job = Ranks::new(3);
    job.enter(0, LATE, "MPI_Barrier", &[WORLD]);
    job.enter(1, LATE, "MPI_Barrier", &[WORLD]);
    job.receives(2, 1, 5);
    let hang = job.hang();
    assert_eq!(hang.verdict, HangVerdict::Deadlock);
    assert_eq!((ranks(&hang), stuck(&hang)), (vec![1, 2], vec![0, 1, 2]));

    // The root has called, so rank 1 may return and send.
    let mut job = Ranks::new(3);
    let root = [BUFFER, int(1), BYTE, int(0), WORLD];
    job.enter(0, LATE, "MPI_Bcast", &root);
    job.enter(1, LATE, "MPI_Bcast", &root);
    job.receives(2, 1, 5);
    assert_eq!(job.hang().verdict, HangVerdict::NotStuck);

    // The root needs all for a sum.
    let mut job = Ranks::new(3);
    let sum = [BUFFER, BUFFER, int(1), BYTE, SUM, int(0), WORLD];
    job.enter(0, LATE, "MPI_Reduce", &sum);
    job.enter(1, LATE, "MPI_Reduce", &sum);
    job.receives(2, 0, 5);
    let hang = job.hang();
    assert_eq!((ranks(&hang), stuck(&hang)), (vec![0, 2], vec![0, 2]));
}

#[test]
fn one_sender_of_any_suffices() {
    let mut job = Ranks::new(3);
    job.receives(0, ANY, 5);
    job.receives(1, 0, 5);
    job.call(2, 1000, 1100, "MPI_Wtime", &[]);
    assert_eq!(job.hang().verdict, HangVerdict::NotStuck);

    let mut job = Ranks::new(3);
    job.receives(0, ANY, 5);
    job.receives(1, 0, 5);
    job.receives(2, 0, 5);
    let hang = job.hang();
    assert_eq!(hang.verdict, HangVerdict::Deadlock);
    assert!(hang.ranks[0].any);
}

#[test]
fn a_wait_for_one_of_several_requests_is_stuck_if_all_are() {
    let receive = |job: &mut Ranks, source: u32| {
        let request = job.guests[0].handles(&[0]);
        let arguments = [BUFFER, int(4), BYTE, source.into(), int(5), WORLD, request];
        let entry = 1000 + u64::from(source) * 200;
        job.call_and(0, entry, entry + 150, "MPI_Irecv", &arguments, |guest| {
            guest.put_handle(request, 0xac00_0001 + u64::from(source));
        });
        request
    };
    let mut job = Ranks::new(3);
    let request = receive(&mut job, 1);
    receive(&mut job, 2);
    job.enter(0, LATE, "MPI_Wait", &[request, 1]);
    job.receives(1, 0, 5);
    job.call(2, 1000, 1100, "MPI_Wtime", &[]);
    assert_eq!(job.hang().verdict, HangVerdict::NotStuck);

    let mut job = Ranks::new(3);
    let request = receive(&mut job, 1);
    receive(&mut job, 2);
    job.enter(0, LATE, "MPI_Wait", &[request, 1]);
    job.receives(1, 0, 5);
    job.receives(2, 0, 5);
    assert_eq!(stuck(&job.hang()), [0, 1, 2]);
}

#[test]
fn a_call_that_has_just_begun_may_return() {
    let mut job = Ranks::new(2);
    job.receives(0, 1, 5);
    let arguments = [BUFFER, int(4), BYTE, int(0), int(5), WORLD, 1];
    job.enter(1, END - 100, "MPI_Recv", &arguments);
    assert_eq!(job.hang().verdict, HangVerdict::NotStuck);
}

#[test]
fn a_rank_that_waits_for_a_lost_process_is_stuck_and_the_process_is_named() {
    let wait = || {
        let mut job = Ranks::new(2);
        job.receives(0, 1, 5);
        job.call(1, 1000, 2000, "MPI_Comm_size", &[WORLD, BUFFER]);
        job
    };
    assert_eq!(wait().hang().verdict, HangVerdict::NotStuck);
    assert!(!wait().hang().is_total());
    let ended = |status| {
        let (node, process) = wait()
            .trace()
            .events
            .last()
            .map(|it| (it.node, it.process))
            .unwrap();
        let hang = wait().hang_without(&[LostProcess {
            node,
            process,
            status,
        }]);
        assert_eq!(
            (hang.verdict, hang.ranks[1].state),
            (HangVerdict::WaitsForEnded, RankState::Lost)
        );
        assert!(hang.is_total());
        hang.sentence().unwrap()
    };
    let waits = "rank 0 in MPI_Recv waits for rank 1, which";
    assert_eq!(
        ended(Some(0x300)),
        format!("{waits} exited with status 3 without ending MPI")
    );
    assert_eq!(
        ended(Some(0x8b)),
        format!("{waits} was ended by signal 11 (SIGSEGV) without ending MPI")
    );
    assert_eq!(
        ended(None),
        format!("{waits} has exited without ending MPI")
    );
}

#[test]
fn ranks_in_different_collective_operations_are_a_deadlock() {
    let sum = [BUFFER, BUFFER, int(1), BYTE, SUM, WORLD];
    let mut job = Ranks::new(3);
    job.enter(0, LATE, "MPI_Barrier", &[WORLD]);
    job.enter(1, LATE, "MPI_Allreduce", &sum);
    job.enter(2, LATE, "MPI_Barrier", &[WORLD]);
    let hang = job.hang();
    assert_eq!(hang.verdict, HangVerdict::Deadlock);
    assert_eq!((stuck(&hang), hang.is_total()), (vec![0, 1, 2], true));
    let sentence = hang.sentence().unwrap();
    let begin = "deadlock: different collective operations: ranks 0, 2 in MPI_Barrier(comm=MPI_COMM_WORLD); rank 1 in MPI_Allreduce(";
    assert!(sentence.starts_with(begin), "{sentence}");

    // One waits for an operation that it began earlier.
    let mut job = Ranks::new(2);
    let request = job.guests[0].handles(&[0]);
    let began = [BUFFER, BUFFER, int(1), BYTE, SUM, WORLD, request];
    job.call_and(0, 1000, 2000, "MPI_Iallreduce", &began, |guest| {
        guest.put_handle(request, 0xac00_0001);
    });
    job.enter(0, LATE, "MPI_Wait", &[request, 1]);
    job.enter(1, LATE, "MPI_Barrier", &[WORLD]);
    let sentence = job.hang().sentence().unwrap();
    assert!(sentence.contains("rank 0 in MPI_Wait("), "{sentence}");
    assert!(sentence.contains("rank 1 in MPI_Barrier("), "{sentence}");

    // The root of a broadcast may return, and call the barrier then.
    let root = |root| [BUFFER, int(1), BYTE, int(root), WORLD];
    let mut job = Ranks::new(2);
    job.enter(0, LATE, "MPI_Bcast", &root(0));
    job.enter(1, LATE, "MPI_Barrier", &[WORLD]);
    assert_eq!(job.hang().verdict, HangVerdict::NotStuck);
    let mut job = Ranks::new(2);
    job.call(0, 1000, 2000, "MPI_Bcast", &root(0));
    job.enter(0, LATE, "MPI_Barrier", &[WORLD]);
    job.enter(1, LATE, "MPI_Barrier", &[WORLD]);
    // Libraries complete this one, in which rank 1 calls the broadcast next.
    assert_eq!(job.hang().verdict, HangVerdict::NotStuck);
}

#[test]
fn a_scan_that_does_not_return_in_place_of_another_operation_waits() {
    let scan = [BUFFER, BUFFER, int(1), BYTE, SUM, WORLD];
    let gather = [BUFFER, int(1), BYTE, BUFFER, int(1), BYTE, WORLD];
    let job = || {
        let mut job = Ranks::new(2);
        job.enter(0, LATE, "MPI_Scan", &scan);
        job.enter(1, LATE, "MPI_Allgather", &gather);
        job
    };
    // The first rank of a scan needs no other one.
    assert_eq!(job().hang().verdict, HangVerdict::NotStuck);
    let hang = job().hang_at(10 * END, &[]);
    assert_eq!(
        (hang.verdict, stuck(&hang)),
        (HangVerdict::Deadlock, vec![0, 1])
    );
    let sentence = hang.sentence().unwrap();
    let begin = "deadlock: different collective operations: rank 0 in MPI_Scan(";
    assert!(sentence.starts_with(begin), "{sentence}");
    // It may return as long as another rank may.
    let mut job = Ranks::new(3);
    job.enter(0, LATE, "MPI_Scan", &scan);
    job.enter(1, LATE, "MPI_Allgather", &gather);
    job.call(2, LATE, LATE + 100, "MPI_Wtime", &[]);
    assert_eq!(job.hang_at(10 * END, &[]).verdict, HangVerdict::NotStuck);
}

#[test]
fn roots_that_differ_wait_for_each_other() {
    let root = |root| [BUFFER, int(1), BYTE, int(root), WORLD];
    let mut job = Ranks::new(3);
    job.enter(0, LATE, "MPI_Bcast", &root(1));
    job.enter(1, LATE, "MPI_Bcast", &root(0));
    job.enter(2, LATE, "MPI_Bcast", &root(1));
    let hang = job.hang();
    assert_eq!((ranks(&hang), stuck(&hang)), (vec![0, 1], vec![0, 1, 2]));
    // Some libraries implement one by the other.
    let sum = [BUFFER, BUFFER, int(1), BYTE, SUM, WORLD];
    let reduce = [BUFFER, BUFFER, int(1), BYTE, SUM, int(0), WORLD];
    let mut job = Ranks::new(2);
    job.enter(0, LATE, "MPI_Allreduce", &sum);
    job.enter(1, LATE, "MPI_Reduce", &reduce);
    assert_eq!(job.hang().verdict, HangVerdict::NotStuck);
}

#[test]
fn a_rank_in_finalize_comes_to_no_other_call() {
    let mut job = Ranks::new(2);
    job.enter(0, LATE, "MPI_Barrier", &[WORLD]);
    job.enter(1, LATE, "MPI_Finalize", &[]);
    let hang = job.hang();
    assert_eq!(hang.verdict, HangVerdict::WaitsForEnded);
    assert_eq!((ranks(&hang), stuck(&hang)), (vec![0, 1], vec![0]));
    assert_eq!(hang.ranks[1].state, RankState::Finalizing);
    assert!(hang.is_total());
    let sentence = "rank 0 in MPI_Barrier waits for rank 1, which is in MPI_Finalize";
    assert_eq!(hang.sentence().as_deref(), Some(sentence));

    // Its attributes' functions may still send.
    let mut job = Ranks::new(2);
    job.enter(0, LATE, "MPI_Barrier", &[WORLD]);
    job.call(1, 1000, 2000, "MPI_Comm_set_attr", &[WORLD, int(7), BUFFER]);
    job.enter(1, LATE, "MPI_Finalize", &[]);
    let hang = job.hang();
    assert_eq!(
        (hang.verdict, hang.is_total()),
        (HangVerdict::NotStuck, false)
    );

    // It has just entered.
    let mut job = Ranks::new(2);
    job.enter(0, LATE, "MPI_Barrier", &[WORLD]);
    job.enter(1, END - 100, "MPI_Finalize", &[]);
    assert_eq!(job.hang().verdict, HangVerdict::NotStuck);
}
