//! Paraver's traces: records (`.prv`), names of their values (`.pcf`), names of rows (`.row`).
//!
//! A job is an application, a process a task. Records must be ordered by time, and their heads contain data known only at the end, so they go
//! through a sorter on disk. Times are in nanoseconds. Used by `belljar trace export`.

/// Names of values and rows.
mod names;
/// Sorting of records by time.
mod sorter;

use belljar_collectives::Operation;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use self::sorter::{Entry, Sorter, WIDTH};
use crate::records::calls::{ExportedCall, ExportedMessage};
use crate::records::collective::operation;
use crate::records::described;
use crate::records::places::{ExportedThread, Places};
use crate::records::source::Source;
use crate::records::{ExportError, failed};

/// Kinds of records.
const STATE: u64 = 1;
const EVENT: u64 = 2;
const MESSAGE: u64 = 3;
/// States as in Extrae's traces.
const RUNNING: u64 = 1;
const WAITING_FOR_MESSAGE: u64 = 3;
const SENDING: u64 = 4;
const SYNCHRONIZING: u64 = 5;
const TESTING: u64 = 6;
const WAITING: u64 = 8;
const BEGINNING_TO_SEND: u64 = 10;
const BEGINNING_TO_RECEIVE: u64 = 11;
const TOGETHER: u64 = 13;
const OTHERS: u64 = 15;

/// The location of a record: process, thread, node, vCPU.
type Row = [u64; 4];

/// One side of a communication record: its location, the call, and the completion.
#[derive(Clone, Copy, Debug)]
struct CommunicationSide {
    row: Row,
    logical: u64,
    physical: u64,
}

/// The data collected from calls for a Paraver trace.
struct ParaverCollector {
    sorter: Sorter,
    /// Each thread's number in its process, in the order of first calls, and the end of its last call.
    threads: BTreeMap<ExportedThread, (u64, u64)>,
    /// Number of threads of each process.
    counts: BTreeMap<u32, u64>,
    /// Messages with only one side so far, by number; true for the sender's side.
    sides: BTreeMap<u64, (bool, CommunicationSide)>,
    /// vCPUs of each node.
    vcpus: Vec<u64>,
    functions: BTreeMap<u16, &'static str>,
    alone: u64,
    end: u64,
}

/// Writes `trace.prv`, `trace.pcf` and `trace.row` into the existing folder `out`.
///
/// # Errors
/// Returns [`ExportError`] if a file cannot be written.
pub fn write(source: &mut Source, out: &Path) -> Result<(), ExportError> {
    let mut gathered = ParaverCollector {
        sorter: Sorter::new(out.to_owned()),
        threads: BTreeMap::new(),
        counts: BTreeMap::new(),
        sides: BTreeMap::new(),
        vcpus: vec![1; source.header().nodes()],
        functions: BTreeMap::new(),
        alone: 0,
        end: 0,
    };
    let path = out.join("trace.prv");
    while let Some(call) = source.next_call() {
        gathered.call(source, &call).map_err(failed(&path))?;
    }
    source.left_out().alone += gathered.alone + gathered.sides.len() as u64;
    let places = source.places();
    let rows = ObjectNumbers::new(&gathered, places);
    let write = |name: &str, content: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
        let path = out.join(name);
        let written = File::create(&path).and_then(|file| {
            let mut file = BufWriter::new(file);
            content(&mut file)?;
            file.flush()
        });
        written.map_err(failed(&path))
    };
    write("trace.pcf", &|out| names::values(&gathered.functions, out))?;
    write("trace.row", &|out| names::rows(&rows, places, out))?;
    let sorter = std::mem::replace(&mut gathered.sorter, Sorter::new(out.to_owned()));
    let written = File::create(&path).and_then(|file| {
        let mut file = BufWriter::new(file);
        rows.head(&gathered, places, &mut file)?;
        sorter.finish(|entry| rows.record(entry, &mut file))?;
        file.flush()
    });
    written.map_err(failed(&path))
}

impl ParaverCollector {
    /// Returns a call's thread and its row, and the end of the previous call.
    fn row(&mut self, call: &ExportedCall) -> (ExportedThread, Row, Option<u64>) {
        let thread = ExportedThread {
            process: call.process,
            thread: call.event.thread,
        };
        let (node, vcpu) = (call.event.node, call.event.vcpu);
        if let Some(vcpus) = self.vcpus.get_mut(node as usize) {
            *vcpus = (*vcpus).max(u64::from(vcpu) + 1);
        }
        let known = self.threads.get(&thread).copied();
        let number = match known {
            Some((number, _)) => number,
            None => {
                let count = self.counts.entry(thread.process).or_default();
                *count += 1;
                *count - 1
            }
        };
        let row = [thread.process.into(), number, node.into(), vcpu.into()];
        (thread, row, known.map(|(_, ended)| ended))
    }

    fn call(&mut self, source: &Source, call: &ExportedCall) -> io::Result<()> {
        let (thread, row, before) = self.row(call);
        let name = call.event.name();
        self.functions.insert(call.event.function, name);
        let entry = source.picoseconds(call.entry) / 1000;
        self.threads.insert(thread, (row[1], entry));
        if let Some(before) = before.filter(|before| *before < entry) {
            self.state(row, before, entry, RUNNING)?;
        }
        let (group, value) = (names::group(name), u64::from(call.event.function) + 1);
        self.put(entry, EVENT, row, &[group, value])?;
        let Some(exit) = call.exit else {
            return Ok(());
        };
        let exit = source.picoseconds(exit) / 1000;
        self.end = self.end.max(exit);
        self.threads.insert(thread, (row[1], exit));
        if entry < exit {
            self.state(row, entry, exit, state(name))?;
        }
        self.put(exit, EVENT, row, &[group, 0])?;
        for (sends, records, at) in [(true, &call.begun, entry), (false, &call.done, exit)] {
            let part = if sends {
                described::sent
            } else {
                described::received
            };
            for part in records.iter().filter_map(part) {
                let side = CommunicationSide {
                    row,
                    logical: entry,
                    physical: at,
                };
                self.side(sends, part, side)?;
            }
        }
        Ok(())
    }

    fn put(&mut self, time: u64, kind: u64, row: Row, rest: &[u64]) -> io::Result<()> {
        self.end = self.end.max(time);
        let mut entry = [0; WIDTH];
        (entry[0], entry[1]) = (time, kind);
        entry[2..6].copy_from_slice(&row);
        entry[6..6 + rest.len()].copy_from_slice(rest);
        self.sorter.push(entry)
    }

    fn state(&mut self, row: Row, from: u64, to: u64, state: u64) -> io::Result<()> {
        self.put(from, STATE, row, &[to, state])
    }

    /// Adds one side of a message; with the other one it becomes a record.
    fn side(
        &mut self,
        sends: bool,
        part: &ExportedMessage,
        side: CommunicationSide,
    ) -> io::Result<()> {
        let Some(number) = part.message else {
            self.alone += 1;
            return Ok(());
        };
        let Some((other_sends, other)) = self.sides.remove(&number) else {
            self.sides.insert(number, (sends, side));
            return Ok(());
        };
        if other_sends == sends {
            self.alone += 2;
            return Ok(());
        }
        let (send, receive) = if sends { (side, other) } else { (other, side) };
        let [process, thread, node, vcpu] = receive.row;
        let tag = u64::from(part.tag as u32);
        self.put(
            send.logical,
            MESSAGE,
            send.row,
            &[
                send.physical,
                process,
                thread,
                node,
                vcpu,
                receive.logical,
                receive.physical,
                part.bytes,
                tag,
            ],
        )
    }
}

/// Returns the state of a thread in a call.
fn state(function: &str) -> u64 {
    let name = function.to_ascii_lowercase();
    match operation(function) {
        Some(Operation::Barrier) => SYNCHRONIZING,
        Some(_) => TOGETHER,
        None if name.contains("wait") => WAITING,
        None if name.contains("test") || name.contains("probe") => TESTING,
        None if name.contains("isend") || name.contains("irsend") => BEGINNING_TO_SEND,
        None if name.contains("irecv") || name.contains("imrecv") => BEGINNING_TO_RECEIVE,
        None if name.contains("recv") => WAITING_FOR_MESSAGE,
        None if name.contains("send") => SENDING,
        None => OTHERS,
    }
}

/// Numbers of processes, threads and vCPUs in records.
struct ObjectNumbers {
    /// Each process's application and task, from 1.
    tasks: Vec<(u64, u64)>,
    /// Most threads of each process.
    threads: Vec<u64>,
    /// Number of vCPUs of the nodes before each.
    first_vcpu: Vec<u64>,
}

impl ObjectNumbers {
    fn new(gathered: &ParaverCollector, places: &Places) -> Self {
        let mut tasks: Vec<(u64, u64)> = Vec::new();
        for (member, _) in places.processes() {
            // Jobs without a process in the trace have no application.
            let last = tasks.last().copied().unwrap_or((0, 0));
            let before = tasks.len().checked_sub(1);
            let before = before.and_then(|it| places.processes().get(it));
            tasks.push(match before {
                Some((other, _)) if other.job == member.job => (last.0, last.1 + 1),
                _ => (last.0 + 1, 1),
            });
        }
        let threads = (0..tasks.len() as u32).map(|process| {
            let count = gathered.counts.get(&process);
            count.copied().unwrap_or(1)
        });
        let threads = threads.collect();
        let mut sum = 0;
        let first_vcpu = gathered.vcpus.iter().map(|vcpus| {
            let first = sum;
            sum += vcpus;
            first
        });
        Self {
            first_vcpu: first_vcpu.collect(),
            tasks,
            threads,
        }
    }

    /// Writes the first line, and one for each communicator.
    fn head(
        &self,
        gathered: &ParaverCollector,
        places: &Places,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let list =
            |numbers: &mut dyn Iterator<Item = String>| numbers.collect::<Vec<_>>().join(",");
        let nodes = list(&mut gathered.vcpus.iter().map(u64::to_string));
        let applications = self.tasks.last().map_or(0, |(application, _)| *application);
        // The calendar time of the run is omitted, as it would differ between runs.
        write!(
            out,
            "#Paraver (01/01/00 at 00:00):{}_ns:{}({nodes}):{applications}",
            gathered.end,
            gathered.vcpus.len()
        )?;
        for application in 1..=applications {
            let own = self.tasks.iter().zip(&self.threads).zip(places.processes());
            let own = own.filter(|((task, _), _)| task.0 == application);
            let tasks: Vec<String> = own
                .map(|((_, threads), (_, node))| format!("{threads}:{}", node + 1))
                .collect();
            write!(out, ":{}({})", tasks.len(), tasks.join(","))?;
        }
        let lines = self.communicators(places);
        writeln!(out, ",{}", lines.len())?;
        lines.iter().try_for_each(|line| writeln!(out, "{line}"))
    }

    /// Returns the communicators within one application.
    fn communicators(&self, places: &Places) -> Vec<String> {
        let mut lines = Vec::new();
        for (number, group) in (1..).zip(places.groups()) {
            let members = group.members.iter().filter_map(|it| places.process(it));
            let tasks = members.filter_map(|process| self.tasks.get(process as usize));
            let tasks: Vec<(u64, u64)> = tasks.copied().collect();
            let Some((application, _)) = tasks.first().copied() else {
                continue;
            };
            if group.remote.is_none() && tasks.iter().all(|task| task.0 == application) {
                let list = tasks.iter().map(|(_, task)| format!(":{task}"));
                let list: String = list.collect();
                lines.push(format!("c:{application}:{number}:{}{list}", tasks.len()));
            }
        }
        lines
    }

    /// Formats a location for records: processor, application, task, thread.
    fn place(&self, row: &[u64]) -> String {
        let [process, thread, node, vcpu] = *row else {
            return String::new();
        };
        let task = self.tasks.get(process as usize).copied();
        let (application, task) = task.unwrap_or((0, 0));
        let first = self.first_vcpu.get(node as usize);
        let processor = first.map_or(0, |first| first + vcpu + 1);
        format!("{processor}:{application}:{task}:{}", thread + 1)
    }

    /// Writes a record's line.
    fn record(&self, entry: &Entry, out: &mut dyn Write) -> io::Result<()> {
        let (time, place) = (entry[0], self.place(&entry[2..6]));
        match entry[1] {
            STATE => writeln!(out, "1:{place}:{time}:{}:{}", entry[6], entry[7]),
            EVENT => writeln!(out, "2:{place}:{time}:{}:{}", entry[6], entry[7]),
            _ => {
                let [physical, .., logical, received, bytes, tag] = entry[6..15] else {
                    return Ok(());
                };
                let to = self.place(&entry[7..11]);
                writeln!(
                    out,
                    "3:{place}:{time}:{physical}:{to}:{logical}:{received}:{bytes}:{tag}"
                )
            }
        }
    }
}
