//! Accesses of the program to buffers of operations in progress, and to its windows.

use belljar_trace::Site;
use belljar_tracer::scripted::int;

use super::message;
use crate::check::FindingKind;
use crate::check::buffers::accesses::{Accesses, MemoryRole, ProgramAccess};
use crate::ranks::{BUFFER, Ranks, WORLD};

/// A store of rank 0 to the first four bytes of its memory at `BUFFER`.
fn store(at: u64, role: MemoryRole) -> ProgramAccess {
    ProgramAccess {
        node: 0,
        process: 0,
        rank: 0,
        thread: Some(0),
        at,
        role,
        address: BUFFER,
        bytes: 4,
        is_store: true,
        window: Some(0),
        start: BUFFER,
        site: Site::default(),
    }
}

#[test]
fn an_access_is_named_with_its_operation() {
    let mut job = Ranks::started(1);
    let request = job.begin(0, 3000, "MPI_Isend", &message(4, 0, 5));
    job.wait(0, 5000, request);
    let role = MemoryRole::Send;
    let accesses = Accesses::to_buffers(((0, 0), 0, 3000), vec![store(4000, role)]);
    let check = job.check_with(accesses);
    let findings = check.findings.iter();
    let found = findings.filter(|it| it.kind == FindingKind::BufferConflict);
    let found: Vec<_> = found.collect();
    let [finding] = found[..] else {
        panic!("{:?}", check.findings)
    };
    let text = "a store of rank 0 into the send buffer of MPI_Isend, which is in progress";
    assert_eq!(finding.text, text);
    let mut calls = finding
        .calls
        .iter()
        .map(|call| (call.function, &call.arguments[..]));
    assert_eq!(calls.next_back(), Some(("store", "offset=0, bytes=4")));
    assert!(
        !check
            .unchecked
            .iter()
            .any(|it| it.check.contains("of the program"))
    );
}

/// The kinds of findings of a job with these accesses, other than leaks and missing ends.
fn found(job: Ranks, accesses: Vec<ProgramAccess>) -> Vec<FindingKind> {
    let check = job.check_with(Accesses::to_windows(accesses));
    let kinds = check.findings.iter().map(|finding| finding.kind);
    kinds
        .filter(|kind| *kind != FindingKind::NoFinalize)
        .collect()
}

/// Rank 1 puts to rank 0 between the second and the third of four fences.
#[test]
fn fences_order_accesses_to_a_window() {
    let conflicts = |at: u64| {
        let mut job = Ranks::started(2);
        job.window(2);
        for (number, fence) in [4000, 6000, 8000, 10_000].into_iter().enumerate() {
            for rank in 0..2 {
                job.fence(rank, fence);
            }
            if number == 1 {
                job.put(1, 7000, 0x9000, 0);
            }
        }
        found(job, vec![store(at, MemoryRole::Window)])
    };
    assert_eq!(conflicts(5000), []);
    assert_eq!(conflicts(7500), [FindingKind::WindowConflict]);
    assert_eq!(conflicts(9000), []);
}

#[test]
fn accesses_to_other_bytes_and_loads_of_what_others_load_are_no_conflict() {
    let conflicts = |change: fn(&mut ProgramAccess), puts: bool| {
        let mut job = Ranks::started(2);
        job.window(2);
        for rank in 0..2 {
            job.fence(rank, 4000);
        }
        match puts {
            true => job.put(1, 5000, 0x9000, 0),
            false => {
                let get = [
                    0x9000,
                    int(4),
                    super::INT,
                    int(0),
                    0,
                    int(4),
                    super::INT,
                    0xa000_0000,
                ];
                job.call(1, 5000, 5150, "MPI_Get", &get);
            }
        }
        for rank in 0..2 {
            job.fence(rank, 6000);
        }
        let mut access = store(5500, MemoryRole::Window);
        change(&mut access);
        found(job, vec![access])
    };
    let conflict = [FindingKind::WindowConflict];
    assert_eq!(conflicts(|access| access.address += 15, true), conflict);
    assert_eq!(conflicts(|access| access.address += 16, true), []);
    assert_eq!(conflicts(|access| access.is_store = false, true), conflict);
    assert_eq!(conflicts(|_| (), false), conflict);
    assert_eq!(conflicts(|access| access.is_store = false, false), []);
    assert_eq!(conflicts(|access| access.thread = None, true), []);
}

/// Without an order, the times of the run do not matter. A message after the unlock orders the accesses.
#[test]
fn locks_need_a_message_or_a_lock_of_the_target() {
    let conflicts = |tells: bool, locks: bool| {
        let mut job = Ranks::started(2);
        job.window(2);
        let exclusive = 234;
        let lock = |kind| [int(kind), int(0), 0, 0xa000_0000];
        job.call(1, 4000, 4150, "MPI_Win_lock", &lock(exclusive));
        job.put(1, 5000, 0x9000, 0);
        job.call(1, 6000, 6150, "MPI_Win_unlock", &[int(0), 0xa000_0000]);
        if tells {
            let send = [0x9100, int(1), super::INT, int(0), int(5), WORLD];
            job.call(1, 7000, 7150, "MPI_Send", &send);
            let receive = [
                0x9100,
                int(1),
                super::INT,
                int(1),
                int(5),
                WORLD,
                super::IGNORE,
            ];
            job.call(0, 7000, 7250, "MPI_Recv", &receive);
        }
        if locks {
            job.call(0, 8000, 8150, "MPI_Win_lock", &lock(exclusive));
        }
        let access = store(9000, MemoryRole::Window);
        job.call(0, 10_000, 10_150, "MPI_Win_unlock", &[int(0), 0xa000_0000]);
        let mut kinds = found(job, vec![access]);
        kinds.retain(|kind| *kind == FindingKind::WindowConflict);
        kinds
    };
    assert_eq!(conflicts(false, false), [FindingKind::WindowConflict]);
    assert_eq!(conflicts(true, false), []);
    assert_eq!(conflicts(false, true), []);
}
