//! Continuing from saved state. That nothing is lost of what a tracer knows is seen by
//! every call of every test's guest: see [`Guest::call_with`](crate::guest::Guest).

use std::fs;
use std::io::Write;

use belljar_sim::Frequency;

use super::*;
use crate::guest::{Guest, int};
use crate::trace::{TraceHeader, TraceWriter};
use crate::{Accounts, TraceSummary};

/// Calls of two functions, with sums.
fn events(count: u64) -> Vec<Event> {
    let mut tracer = NodeTracer::new(3, &Selection::default());
    let mut guest = Guest::mpich(&mut tracer, 1);
    let send = [0x5000, int(100), 0x4c00_080b, int(3), int(1), 0x4400_0000];
    guest.call(&mut tracer, "MPI_Send", &send);
    guest.call(&mut tracer, "MPI_Barrier", &[0x4400_0000]);
    let two = tracer.take_events();
    let calls = (0..count).map(|call| {
        let sum = |instructions| Account {
            instructions,
            ..Account::default()
        };
        let mut event = two[call as usize % 2].clone();
        event.entry += call.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        event.accounts = Accounts(Some([sum(event.entry), sum(event.entry + call)]));
        event
    });
    calls.collect()
}

#[test]
fn events_come_back_with_their_sums() {
    let events = events(5);
    let saved = save_events(&events).unwrap();
    assert_eq!(load_events(&saved).unwrap(), events);
    for length in 0..saved.len() {
        assert!(load_events(&saved[..length]).is_err());
    }
}

#[test]
fn a_damaged_state_is_refused_or_harmless() {
    let mut tracer = NodeTracer::new(3, &Selection::default());
    let mut guest = Guest::mpich(&mut tracer, 1);
    let request = [0x5000, int(1), 0x4c00_080b, int(3), int(0), 0x4400_0000];
    guest.make(&mut tracer, "MPI_Isend", &request, 77);
    guest.enter(&mut tracer, "MPI_Barrier", &[0x4400_0000]);
    let saved = tracer.save().unwrap();
    for at in 0..saved.len() {
        let mut damaged = saved.clone();
        damaged[at] ^= 1 << (at % 8);
        if let Ok(mut other) = NodeTracer::restore(3, &Selection::default(), &damaged) {
            guest
                .clone()
                .call(&mut other, "MPI_Barrier", &[0x4400_0000]);
        }
        assert!(NodeTracer::restore(3, &Selection::default(), &saved[..at]).is_err());
    }
}

#[test]
fn a_trace_that_is_gone_on_with_is_the_one_that_was_never_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let clock = Frequency::from_hz(1_000_000_000).unwrap();
    let header = TraceHeader::new("resume", &[clock]);
    // More than a chunk before, and more than one after.
    let events = events(20_000);
    let (before, behind) = events.split_at(9_500);
    for accounted in [false, true] {
        let create = |name: &str| {
            let create = [TraceWriter::create, TraceWriter::create_accounted];
            create[usize::from(accounted)](&path(name), &header).unwrap()
        };
        let mut whole = create("whole");
        whole.append(&events).unwrap();
        whole.finish(&TraceSummary::default()).unwrap();

        let mut broken = create("broken");
        broken.append(before).unwrap();
        let saved = broken.save().unwrap();
        broken.append(behind).unwrap();
        broken.flush().unwrap();
        // Killed in the middle of a chunk.
        let mut file = fs::File::options()
            .append(true)
            .open(path("broken"))
            .unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        let resume = |name: &str| {
            let file = fs::File::options().write(true).open(path(name)).unwrap();
            TraceWriter::resume(file, &path(name), accounted, &saved)
        };
        let mut resumed = resume("broken").unwrap();
        assert_eq!(resumed.events(), before.len() as u64);
        resumed.append(behind).unwrap();
        resumed.finish(&TraceSummary::default()).unwrap();
        assert!(fs::read(path("broken")).unwrap() == fs::read(path("whole")).unwrap());

        fs::write(path("short"), b"BelljarT").unwrap();
        let error = resume("short").unwrap_err();
        assert!(error.to_string().contains("it has 8 bytes"), "{error}");
    }
}
