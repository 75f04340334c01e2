//! Traces for tests: ranks of MPICH, each on a separate node, that make scripted calls at given times.
//!
//! Their calls are observed and decoded like those of guests. Used by the tests of analyses.

use belljar_sim::Frequency;
use belljar_trace::{Event, TraceHeader};
use belljar_tracer::scripted::{Guest, int};
use belljar_tracer::{NodeTracer, Selection};

use belljar_job::{Collector, Communicators};

/// `MPI_COMM_WORLD`.
pub(crate) const WORLD: u64 = 0x4400_0000;
/// `MPI_BYTE`.
pub(crate) const BYTE: u64 = 0x4c00_010d;
/// `MPI_SUM`.
pub(crate) const SUM: u64 = 0x5800_0003;
/// An address that is never read.
pub(crate) const BUFFER: u64 = 0x5000;
/// `MPI_REQUEST_NULL`.
pub(crate) const NO_REQUEST: u64 = 0x2c00_0000;
/// `MPI_ANY_SOURCE`.
pub(crate) const ANY: i32 = -2;

/// A trace and its communicators.
pub(crate) struct Trace {
    /// The trace's header.
    pub(crate) header: TraceHeader,
    /// Its events, node by node.
    pub(crate) events: Vec<Event>,
    /// The members of communicators.
    pub(crate) communicators: Communicators,
}

/// Ranks, each on a separate node, of 1 GHz: a cycle is a nanosecond.
pub(crate) struct Ranks {
    tracers: Vec<NodeTracer>,
    /// Their memories.
    pub(crate) guests: Vec<Guest>,
}

impl Ranks {
    /// Creates `count` ranks of MPICH.
    pub(crate) fn new(count: u32) -> Self {
        let selection = Selection::default();
        let mut tracers: Vec<_> = (0..count)
            .map(|node| NodeTracer::new(node, &selection))
            .collect();
        let guests = (0..count).zip(&mut tracers);
        let guests = guests.map(|(rank, tracer)| Guest::mpich(tracer, rank.into()));
        let guests = guests.collect();
        Self { tracers, guests }
    }

    /// Makes a call of a rank from `entry` to `exit`.
    pub(crate) fn call(
        &mut self,
        rank: usize,
        entry: u64,
        exit: u64,
        name: &str,
        arguments: &[u64],
    ) {
        self.call_and(rank, entry, exit, name, arguments, |_| {});
    }

    /// Makes a call of a rank at `entry` that does not return.
    pub(crate) fn enter(&mut self, rank: usize, entry: u64, name: &str, arguments: &[u64]) {
        let (tracer, guest) = (&mut self.tracers[rank], &mut self.guests[rank]);
        guest.clock = entry - 10;
        guest.enter(tracer, name, arguments);
    }

    /// Makes the same call, with an action before it returns.
    pub(crate) fn call_and(
        &mut self,
        rank: usize,
        entry: u64,
        exit: u64,
        name: &str,
        arguments: &[u64],
        does: impl FnOnce(&mut Guest),
    ) {
        let (tracer, guest) = (&mut self.tracers[rank], &mut self.guests[rank]);
        let before = guest.stack;
        guest.clock = entry - 10;
        let slot = guest.enter(tracer, name, arguments);
        guest.clock = exit - 100;
        does(guest);
        guest.leave(tracer, slot, 0);
        guest.stack = before;
    }

    /// Sends a blocking message of four bytes.
    pub(crate) fn send(&mut self, rank: usize, times: (u64, u64), to: u32, tag: u32) {
        let arguments = [BUFFER, int(4), BYTE, int(to as i32), int(tag as i32), WORLD];
        self.call(rank, times.0, times.1, "MPI_Send", &arguments);
    }

    /// Receives a message from `source` with `tag`, in a blocking call that asks for `asks`.
    pub(crate) fn receive(
        &mut self,
        rank: usize,
        times: (u64, u64),
        asks: i32,
        source: u32,
        tag: u32,
    ) {
        let status = self.guests[rank].room(24);
        let arguments = [
            BUFFER,
            int(4),
            BYTE,
            int(asks),
            int(tag as i32),
            WORLD,
            status,
        ];
        self.call_and(rank, times.0, times.1, "MPI_Recv", &arguments, |guest| {
            guest.put_status(status, source as i32, tag as i32, 4);
        });
    }

    /// Returns the trace of all calls.
    pub(crate) fn trace(mut self) -> Trace {
        let rate = Frequency::from_hz(1_000_000_000).unwrap();
        let header = TraceHeader::new("ranks", &vec![rate; self.tracers.len()]);
        let events = self.tracers.iter_mut().flat_map(|tracer| {
            let open = tracer.open_calls();
            tracer.take_events().into_iter().chain(open)
        });
        let events: Vec<Event> = events.collect();
        let mut collector = Collector::new();
        for event in &events {
            collector.observe(event, &header);
        }
        Trace {
            communicators: collector.resolve(),
            header,
            events,
        }
    }
}
