//! Traces of programs with known errors, and of correct ones.

/// Arguments, order and data of calls.
mod calls;
/// Choices of a run.
mod choices;
/// Objects, requests, epochs and buffers.
mod resources;
/// Message races, and sends that need buffering.
mod runs;
/// Accesses of the program to buffers and windows.
mod touched;

use super::buffers::accesses::Accesses;
use super::collect::CheckCollector;
use super::{FindingKind, JobEnd, MpiCheck, RunFacts};
use crate::causes::hang::Hang;
use crate::ranks::{BUFFER, Ranks, WORLD};

use belljar_tracer::scripted::int;

/// `MPI_INT` of MPICH.
const INT: u64 = 0x4c00_0405;
/// `MPI_FLOAT` of MPICH.
const FLOAT: u64 = 0x4c00_040a;
/// `MPI_STATUS_IGNORE` of MPICH.
const IGNORE: u64 = 1;

impl Ranks {
    /// Ranks that have started MPI.
    fn started(count: u32) -> Self {
        let mut job = Self::new(count);
        for rank in 0..count as usize {
            job.call(rank, 1000, 2000, "MPI_Init", &[0, 0]);
        }
        job
    }

    /// Ends MPI in all ranks.
    fn finalized(mut self, count: usize) -> Self {
        for rank in 0..count {
            self.call(rank, 1_000_000, 1_001_000, "MPI_Finalize", &[]);
        }
        self
    }

    fn check(self) -> MpiCheck {
        self.check_with(Accesses::default())
    }

    /// Checks a job that ended in this way.
    fn check_ended(self, end: JobEnd) -> MpiCheck {
        let run = RunFacts {
            end: Some(end),
            ..RunFacts::default()
        };
        self.check_of(Accesses::default(), &run)
    }

    /// Checks a job whose program made these accesses.
    fn check_with(self, accesses: Accesses) -> MpiCheck {
        self.check_of(accesses, &RunFacts::default())
    }

    fn check_of(self, accesses: Accesses, run: &RunFacts) -> MpiCheck {
        let trace = self.trace();
        let mut collector =
            CheckCollector::new(&trace.header, &trace.communicators, accesses, false);
        for event in &trace.events {
            collector.observe(event);
        }
        collector.finish(run, true, &Hang::default(), None)
    }

    /// The kinds of findings, after the end of MPI.
    fn kinds(self, count: usize) -> Vec<FindingKind> {
        let check = self.finalized(count).check();
        check.findings.iter().map(|finding| finding.kind).collect()
    }

    /// Starts an operation with a request; its handle is at the address that this returns.
    fn begin(&mut self, rank: usize, at: u64, name: &str, arguments: &[u64]) -> u64 {
        let request = self.guests[rank].handles(&[0]);
        let arguments = [arguments, &[request]].concat();
        self.call_and(rank, at, at + 150, name, &arguments, |guest| {
            guest.put_handle(request, 0xac00_0000 + at);
        });
        request
    }

    /// Waits for a request, which becomes null.
    fn wait(&mut self, rank: usize, at: u64, request: u64) {
        self.call_and(
            rank,
            at,
            at + 150,
            "MPI_Wait",
            &[request, IGNORE],
            |guest| {
                guest.put_handle(request, crate::ranks::NO_REQUEST);
            },
        );
    }
}

/// The arguments of a message of `count` integers.
fn message(count: i32, peer: i32, tag: i32) -> [u64; 6] {
    [BUFFER, int(count), INT, int(peer), int(tag), WORLD]
}

#[test]
fn a_correct_job_has_no_findings() {
    let mut job = Ranks::started(2);
    job.call(0, 3000, 3100, "MPI_Send", &message(4, 1, 5));
    let receive = [&message(4, 0, 5)[..], &[IGNORE]].concat();
    job.call(1, 3000, 3200, "MPI_Recv", &receive);
    for rank in 0..2 {
        let root = [BUFFER, int(1), INT, int(0), WORLD];
        job.call(rank, 4000, 4200, "MPI_Bcast", &root);
        job.call(rank, 5000, 5200, "MPI_Barrier", &[WORLD]);
    }
    let check = job.finalized(2).check();
    assert_eq!(check.findings, []);
    assert!(!check.has_errors());
    assert_eq!((check.calls, check.processes), (10, 2));
}
