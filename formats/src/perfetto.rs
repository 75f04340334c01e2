//! The protobuf format of Perfetto (`perfetto.protos.Trace`).
//!
//! A process is a process track, a thread a thread track in it, a call a slice with arguments. A message begins a flow at the
//! slice that sends it, and ends it at an instant when its receive is complete. Names are written once and referenced by number.
//! Used by `belljar trace export`.

/// Protocol buffers.
mod proto;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use self::proto::ProtoMessage;
use crate::records::calls::ExportedCall;
use crate::records::described::{self, NAMES, Value};
use crate::records::places::ExportedThread;
use crate::records::source::Source;

/// The sequence of all packets.
const SEQUENCE: u64 = 1;
/// Flags for the beginning of the sequence, and for packets that need earlier names.
const CLEARED: u64 = 1;
const NEEDS_NAMES: u64 = 2;
/// Types of events.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
/// Number of the name of instants, above the numbers of all functions.
const RECEIVED: u64 = 1 << 20;
/// Number of the first thread's track, above the numbers of all processes.
const THREADS: u64 = 1 << 32;

/// Fields, by message.
mod field {
    pub(super) const PACKET: u32 = 1;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED: u32 = 12;
    pub(super) const FLAGS: u32 = 13;
    pub(super) const TRACK: u32 = 60;
    pub(super) const NAMES: u32 = 2;
    pub(super) const ANNOTATION_NAMES: u32 = 3;
    pub(super) const EVENT_ANNOTATIONS: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const EVENT_NAME: u32 = 10;
    pub(super) const EVENT_TRACK: u32 = 11;
    pub(super) const EVENT_FLOWS: u32 = 47;
    pub(super) const EVENT_ENDING_FLOWS: u32 = 48;
}

/// Writes packets.
struct Packets<'a> {
    out: &'a mut dyn Write,
    functions: BTreeSet<u16>,
    /// The track of each thread.
    threads: BTreeMap<ExportedThread, u64>,
    processes: BTreeSet<u32>,
    begun: bool,
}

/// Writes the trace to `out`.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write(source: &mut Source, out: &mut dyn Write) -> io::Result<()> {
    let mut packets = Packets {
        out,
        functions: BTreeSet::new(),
        threads: BTreeMap::new(),
        processes: BTreeSet::new(),
        begun: false,
    };
    packets.begin()?;
    while let Some(call) = source.next_call() {
        let track = packets.track(source, &call)?;
        packets.call(source, &call, track)?;
    }
    Ok(())
}

/// Returns a process's track.
fn process_track(process: u32) -> u64 {
    u64::from(process) + 1
}

/// Creates a name with its number.
fn named(number: u64, name: &str) -> ProtoMessage {
    let mut message = ProtoMessage::default();
    message.number(1, number).text(2, name);
    message
}

impl Packets<'_> {
    fn put(&mut self, packet: &mut ProtoMessage) -> io::Result<()> {
        packet.number(field::SEQUENCE, SEQUENCE);
        let flags = if self.begun { NEEDS_NAMES } else { CLEARED };
        packet.number(field::FLAGS, flags);
        self.begun = true;
        let mut trace = ProtoMessage::default();
        trace.message(field::PACKET, packet);
        self.out.write_all(trace.as_bytes())
    }

    /// Writes the names that all traces have.
    fn begin(&mut self) -> io::Result<()> {
        let mut names = ProtoMessage::default();
        names.message(field::NAMES, &named(RECEIVED, "message received"));
        for (number, name) in (1..).zip(NAMES) {
            names.message(field::ANNOTATION_NAMES, &named(number, name));
        }
        let mut packet = ProtoMessage::default();
        packet.message(field::INTERNED, &names);
        self.put(&mut packet)
    }

    /// Returns the track of a call's thread. The thread and its process are written if they are new.
    fn track(&mut self, source: &Source, call: &ExportedCall) -> io::Result<u64> {
        let thread = ExportedThread {
            process: call.process,
            thread: call.event.thread,
        };
        let pid = u64::from(call.process) + 1;
        if self.processes.insert(call.process) {
            let of = source.places().processes().get(call.process as usize);
            let name = of.map_or_else(String::new, |(member, node)| match member.job {
                0 => format!("rank {} on node{node}", member.rank),
                job => format!("job {job}, rank {} on node{node}", member.rank),
            });
            let mut process = ProtoMessage::default();
            process.number(1, pid).text(6, &name);
            let mut track = ProtoMessage::default();
            track
                .number(1, process_track(call.process))
                .message(3, &process);
            self.put(ProtoMessage::default().message(field::TRACK, &track))?;
        }
        let next = THREADS + self.threads.len() as u64;
        if let Some(known) = self.threads.get(&thread) {
            return Ok(*known);
        }
        self.threads.insert(thread, next);
        let (tid, name) = match thread.thread {
            0 => (pid, "main thread".to_owned()),
            number => (next, format!("thread {number}")),
        };
        let mut of = ProtoMessage::default();
        of.number(1, pid).number(2, tid).text(5, &name);
        let mut own = ProtoMessage::default();
        own.number(1, next).message(4, &of);
        own.number(5, process_track(call.process));
        self.put(ProtoMessage::default().message(field::TRACK, &own))?;
        Ok(next)
    }

    fn call(&mut self, source: &Source, call: &ExportedCall, track: u64) -> io::Result<()> {
        let name = u64::from(call.event.function) + 1;
        let mut packet = ProtoMessage::default();
        if self.functions.insert(call.event.function) {
            let mut names = ProtoMessage::default();
            names.message(field::NAMES, &named(name, call.event.name()));
            packet.message(field::INTERNED, &names);
        }
        let mut event = event(BEGIN, track);
        event.number(field::EVENT_NAME, name);
        described::call(call, &mut |name, value| annotate(&mut event, name, value));
        for part in call.begun.iter().filter_map(described::sent) {
            if let Some(message) = part.message {
                event.fixed(field::EVENT_FLOWS, message);
            }
        }
        let entry = source.picoseconds(call.entry) / 1000;
        self.event(packet, entry, &event)?;
        let Some(exit) = call.exit else {
            return Ok(());
        };
        let exit = source.picoseconds(exit) / 1000;
        for part in call.done.iter().filter_map(described::received) {
            let mut event = self::event(INSTANT, track);
            event.number(field::EVENT_NAME, RECEIVED);
            described::message("from", part, &mut |name, value| {
                annotate(&mut event, name, value);
            });
            if let Some(message) = part.message {
                event.fixed(field::EVENT_ENDING_FLOWS, message);
            }
            self.event(ProtoMessage::default(), exit, &event)?;
        }
        self.event(ProtoMessage::default(), exit, &self::event(END, track))
    }

    /// Writes an event at a time in nanoseconds.
    fn event(&mut self, mut packet: ProtoMessage, at: u64, event: &ProtoMessage) -> io::Result<()> {
        packet.number(field::TIMESTAMP, at);
        packet.message(field::TRACK_EVENT, event);
        self.put(&mut packet)
    }
}

fn event(kind: u64, track: u64) -> ProtoMessage {
    let mut event = ProtoMessage::default();
    event.number(field::EVENT_TYPE, kind);
    event.number(field::EVENT_TRACK, track);
    event
}

/// Adds an argument to a slice.
fn annotate(event: &mut ProtoMessage, name: &'static str, value: Value) {
    let mut annotation = ProtoMessage::default();
    if let Some(number) = NAMES.iter().position(|own| *own == name) {
        annotation.number(1, number as u64 + 1);
    }
    match value {
        Value::Number(number) => annotation.number(4, number as u64),
        Value::Word(word) => annotation.text(6, word),
    };
    debug_assert!(!annotation.is_empty());
    event.message(field::EVENT_ANNOTATIONS, &annotation);
}
