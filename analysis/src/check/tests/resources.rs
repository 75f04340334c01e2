//! Errors with objects, requests, epochs and buffers.

use belljar_tracer::scripted::int;

use super::{INT, message};
use crate::check::FindingKind;
use crate::ranks::{BUFFER, Ranks, WORLD};

/// `MPI_INFO_NULL`, and a window.
const NO_INFO: u64 = 0x1c00_0000;
const WINDOW: u64 = 0xa000_0000;
/// `MPI_LOCK_SHARED` of MPICH.
const SHARED: i32 = 235;
/// Bytes of the windows.
const SIZE: u64 = 64;

#[test]
fn objects_that_are_not_freed_are_leaks() {
    let mut job = Ranks::started(1);
    let kept = job.guests[0].handles(&[0]);
    let freed = job.guests[0].handles(&[0]);
    for (at, variable) in [(3000, kept), (4000, freed)] {
        job.call_and(
            0,
            at,
            at + 150,
            "MPI_Comm_dup",
            &[WORLD, variable],
            |guest| {
                guest.put_handle(variable, 0x8400_0000 + at);
            },
        );
    }
    job.call(0, 5000, 5100, "MPI_Comm_free", &[freed]);
    let datatype = job.guests[0].handles(&[0]);
    job.call_and(
        0,
        6000,
        6150,
        "MPI_Type_contiguous",
        &[int(2), INT, datatype],
        |guest| {
            guest.put_handle(datatype, 0x8c00_0010);
        },
    );
    assert_eq!(
        job.kinds(1),
        [FindingKind::CommunicatorLeak, FindingKind::DatatypeLeak]
    );
}

#[test]
fn a_free_by_another_variable_excuses_one_object() {
    let mut job = Ranks::started(1);
    let variable = job.guests[0].handles(&[0]);
    let copy = job.guests[0].handles(&[0x8400_3000]);
    job.call_and(0, 3000, 3150, "MPI_Comm_dup", &[WORLD, variable], |guest| {
        guest.put_handle(variable, 0x8400_3000);
    });
    job.call(0, 5000, 5100, "MPI_Comm_free", &[copy]);
    assert_eq!(job.kinds(1), []);
}

#[test]
fn requests_must_be_complete_at_the_end() {
    let mut job = Ranks::started(1);
    let request = job.begin(0, 3000, "MPI_Isend", &message(4, 0, 5));
    let other = [BUFFER + 64, int(4), INT, int(0), int(5), WORLD];
    job.begin(0, 4000, "MPI_Irecv", &other);
    job.wait(0, 5000, request);
    let check = job.finalized(1).check();
    let [finding] = &check.findings[..] else {
        panic!("{:?}", check.findings)
    };
    assert_eq!(finding.kind, FindingKind::PendingRequest);
    assert_eq!(finding.calls[0].function, "MPI_Irecv");
}

#[test]
fn a_persistent_request_is_started_before_a_wait_and_freed() {
    let mut job = Ranks::started(1);
    let request = job.begin(0, 3000, "MPI_Send_init", &message(4, 0, 5));
    job.call(0, 4000, 4150, "MPI_Wait", &[request, super::IGNORE]);
    assert_eq!(
        job.kinds(1),
        [FindingKind::InactiveWait, FindingKind::RequestLeak]
    );
}

#[test]
fn buffers_of_operations_in_progress_must_not_overlap() {
    let receives = |distance: u64| {
        let mut job = Ranks::started(1);
        let mut second = message(4, 0, 6);
        second[0] += distance;
        let requests = [
            job.begin(0, 3000, "MPI_Irecv", &message(4, 0, 5)),
            job.begin(0, 4000, "MPI_Irecv", &second),
        ];
        for (at, request) in (5000..).step_by(1000).zip(requests) {
            job.wait(0, at, request);
        }
        job.kinds(1)
    };
    assert_eq!(receives(15), [FindingKind::BufferConflict]);
    assert_eq!(receives(16), []);

    // Two sends may read the same buffer, and a buffer is free after the wait.
    let mut job = Ranks::started(1);
    let first = job.begin(0, 3000, "MPI_Isend", &message(4, 0, 5));
    let second = job.begin(0, 4000, "MPI_Isend", &message(4, 0, 6));
    job.wait(0, 5000, first);
    job.wait(0, 6000, second);
    for (at, tag) in [(7000, 5), (9000, 6)] {
        let request = job.begin(0, at, "MPI_Irecv", &message(4, 0, tag));
        job.wait(0, at + 1000, request);
    }
    // Both sends need buffering, as their receives are posted later.
    assert_eq!(job.kinds(1), [FindingKind::UnsafeSend]);
}

impl Ranks {
    /// Creates a window of 64 bytes at `BUFFER` in all ranks.
    pub(super) fn window(&mut self, count: usize) {
        for rank in 0..count {
            let variable = self.guests[rank].handles(&[0]);
            let arguments = [BUFFER, SIZE, int(1), NO_INFO, WORLD, variable];
            self.call_and(rank, 3000, 3200, "MPI_Win_create", &arguments, |guest| {
                guest.put_handle(variable, WINDOW);
            });
        }
    }

    pub(super) fn fence(&mut self, rank: usize, at: u64) {
        self.call(rank, at, at + 150, "MPI_Win_fence", &[0, WINDOW]);
    }

    /// Puts four integers at an offset of the window of rank 0, whose calls are the first of the trace.
    pub(super) fn put(&mut self, rank: usize, at: u64, from: u64, offset: u64) {
        let arguments = [from, int(4), INT, int(0), offset, int(4), INT, WINDOW];
        self.call(rank, at, at + 150, "MPI_Put", &arguments);
    }

    /// The kinds of findings other than leaks, without the end of MPI.
    fn found(self) -> Vec<FindingKind> {
        let check = self.check();
        let kinds = check.findings.iter().map(|finding| finding.kind);
        kinds
            .filter(|kind| *kind != FindingKind::NoFinalize)
            .collect()
    }
}

#[test]
fn accesses_need_an_epoch() {
    let mut job = Ranks::started(2);
    job.window(2);
    job.put(0, 5000, 0x9000, 0);
    assert_eq!(job.found(), [FindingKind::MissingEpoch]);

    let mut job = Ranks::started(2);
    job.window(2);
    job.fence(0, 4000);
    job.put(0, 5000, 0x9000, 0);
    job.fence(0, 6000);
    assert_eq!(job.found(), []);

    let mut job = Ranks::started(2);
    job.window(2);
    let lock = [int(SHARED), int(0), 0, WINDOW];
    job.call(0, 4000, 4150, "MPI_Win_lock", &lock);
    job.put(0, 5000, 0x9000, 0);
    job.call(0, 6000, 6150, "MPI_Win_lock", &lock);
    assert_eq!(job.found(), [FindingKind::NestedEpoch]);

    let mut job = Ranks::started(2);
    job.window(2);
    job.call(0, 4000, 4150, "MPI_Win_unlock", &[int(1), WINDOW]);
    assert_eq!(job.found(), [FindingKind::MissingEpoch]);
}

#[test]
fn accesses_of_one_epoch_must_not_overlap() {
    let both = |offset: u64| {
        let mut job = Ranks::started(2);
        job.window(2);
        for rank in 0..2 {
            job.fence(rank, 4000);
        }
        job.put(0, 5000, 0x9000, 0);
        job.put(0, 6000, 0x9100, offset);
        job.found()
    };
    assert_eq!(both(12), [FindingKind::WindowConflict]);
    assert_eq!(both(16), []);
}
