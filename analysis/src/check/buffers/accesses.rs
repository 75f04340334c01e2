//! Accesses of programs to memory that operations own, as runs with `trace.buffers` record them.
//!
//! The records are in the file of probes next to the trace, and name the call of their operation by its process, thread and
//! entry. Read before the calls.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use belljar_archive::ProbesReader;
use belljar_job::ProcessKey;
use belljar_mpi::CallKind;
use belljar_trace::{
    BufferAccessWord, Event, PROBES_FILE, ProbePurpose, ProbeRecord, Site, TRACE_FILE, TraceError,
};

use crate::check::finding::{FindingKind, Findings};
use crate::check::requests::RequestStates;

/// Limit on accesses.
const MOST_ACCESSES: usize = 1 << 20;

/// A call of a run: its process, its thread, and its entry in cycles.
type CallKey = (ProcessKey, u32, u64);

/// The role of memory that a program accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::check) enum MemoryRole {
    Send,
    Receive,
    Origin,
    Result,
    Window,
}

impl MemoryRole {
    fn of(number: u64) -> Option<Self> {
        let roles = [
            Self::Send,
            Self::Receive,
            Self::Origin,
            Self::Result,
            Self::Window,
        ];
        usize::try_from(number)
            .ok()
            .and_then(|at| roles.get(at).copied())
    }

    fn words(self) -> &'static str {
        match self {
            Self::Send => "send buffer",
            Self::Receive => "receive buffer",
            Self::Origin => "origin buffer",
            Self::Result => "result buffer",
            Self::Window => "window",
        }
    }
}

/// An access of a program to memory that an operation owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::check) struct ProgramAccess {
    pub(in crate::check) node: u32,
    pub(in crate::check) process: u32,
    pub(in crate::check) rank: u32,
    /// The thread that accessed, by the process's number; `None` if it has not called MPI.
    pub(in crate::check) thread: Option<u32>,
    /// Its time, in cycles.
    pub(in crate::check) at: u64,
    pub(in crate::check) role: MemoryRole,
    pub(in crate::check) address: u64,
    pub(in crate::check) bytes: u64,
    pub(in crate::check) is_store: bool,
    /// The window, by the process's number.
    pub(in crate::check) window: Option<u32>,
    /// Address of the first byte of the buffer or window.
    pub(in crate::check) start: u64,
    pub(in crate::check) site: Site,
}

impl ProgramAccess {
    fn of(record: &ProbeRecord) -> Option<Self> {
        let word = |word| record.buffer_access(word);
        let number = |value: u64| u32::try_from(value).ok().filter(|it| *it != u32::MAX);
        Some(Self {
            node: record.node,
            process: record.process?,
            rank: record.rank?,
            thread: number(word(BufferAccessWord::By)?),
            at: record.entry,
            role: MemoryRole::of(word(BufferAccessWord::Role)?)?,
            address: word(BufferAccessWord::Address)?,
            bytes: word(BufferAccessWord::Bytes)?,
            is_store: word(BufferAccessWord::Store)? != 0,
            window: number(word(BufferAccessWord::Window)?),
            start: word(BufferAccessWord::Start)?,
            site: record.site.clone(),
        })
    }

    /// The name of the access, in the place of a function.
    pub(in crate::check) fn function(&self) -> &'static str {
        match self.is_store {
            true => "store",
            false => "load",
        }
    }

    /// Its place in the buffer, in the place of arguments.
    pub(in crate::check) fn arguments(&self) -> String {
        let offset = self.address.wrapping_sub(self.start).cast_signed();
        format!("offset={offset}, bytes={}", self.bytes)
    }
}

/// The accesses of a run.
#[derive(Debug, Default)]
pub(in crate::check) struct Accesses {
    by_call: BTreeMap<CallKey, Vec<Rc<ProgramAccess>>>,
    pub(in crate::check) of_windows: Vec<Rc<ProgramAccess>>,
    /// True if the run recorded accesses.
    pub(in crate::check) are_recorded: bool,
    /// True if some buffers were not watched, or records are left out.
    pub(in crate::check) is_crowded: bool,
}

impl Accesses {
    /// Reads the accesses of the run whose trace is at `path`.
    ///
    /// # Errors
    /// Returns [`TraceError`] if there is a file of probes that is none.
    pub(in crate::check) fn beside(path: &Path) -> Result<Self, TraceError> {
        let probes = path.with_file_name(PROBES_FILE);
        let is_of_run = path.file_name().is_some_and(|name| name == TRACE_FILE);
        if !is_of_run || !probes.exists() {
            return Ok(Self::default());
        }
        let mut reader = ProbesReader::open(&probes)?;
        let all = (0..).zip(&reader.header().probes);
        let own = all.filter(|(_, probe)| probe.purpose == ProbePurpose::BufferAccess);
        let numbers: Vec<u32> = own.map(|(number, _)| number).collect();
        let mut accesses = Self {
            are_recorded: !numbers.is_empty(),
            ..Self::default()
        };
        let records = reader.by_ref().filter(|it| numbers.contains(&it.probe));
        for (count, record) in records.enumerate() {
            match ProgramAccess::of(&record) {
                Some(access) if count < MOST_ACCESSES => accesses.add(&record, access),
                _ => accesses.is_crowded = true,
            }
        }
        Ok(accesses)
    }

    /// The accesses to windows alone.
    #[cfg(test)]
    pub(in crate::check) fn to_windows(all: Vec<ProgramAccess>) -> Self {
        Self {
            of_windows: all.into_iter().map(Rc::new).collect(),
            are_recorded: true,
            ..Self::default()
        }
    }

    /// Accesses to the buffers of one call.
    #[cfg(test)]
    pub(in crate::check) fn to_buffers(call: CallKey, all: Vec<ProgramAccess>) -> Self {
        let all = all.into_iter().map(Rc::new).collect();
        Self {
            by_call: BTreeMap::from([(call, all)]),
            are_recorded: true,
            ..Self::default()
        }
    }

    fn add(&mut self, record: &ProbeRecord, access: ProgramAccess) {
        let access = Rc::new(access);
        if access.role == MemoryRole::Window {
            self.of_windows.push(access);
            return;
        }
        let word = |word| record.buffer_access(word).unwrap_or(0);
        let thread = u32::try_from(word(BufferAccessWord::Thread)).unwrap_or(u32::MAX);
        let process = (access.node, access.process);
        let key = (process, thread, word(BufferAccessWord::Entry));
        self.by_call.entry(key).or_default().push(access);
    }

    /// Adds the accesses to memory that the operations of a call owned.
    pub(in crate::check) fn take(
        &mut self,
        call: &Rc<Event>,
        requests: &RequestStates,
        findings: &mut Findings,
    ) {
        let process = (call.node, call.process);
        let Some(own) = self.by_call.remove(&(process, call.thread, call.entry)) else {
            return;
        };
        let numbers = call
            .details
            .0
            .as_ref()
            .map(|details| &details.persistent[..]);
        let prepared = match (call.meaning().kind, numbers) {
            (CallKind::Start, Some([number])) => requests.prepared(process, *number),
            _ => None,
        };
        for access in own {
            let (how, of) = match access.is_store {
                true => ("store", "into"),
                false => ("load", "from"),
            };
            let text = format!(
                "a {how} of rank {} {of} the {} of {}, which is in progress",
                access.rank,
                access.role.words(),
                prepared.unwrap_or(call).name()
            );
            let calls: Vec<&Rc<Event>> = [call].into_iter().chain(prepared).collect();
            findings.add_access(FindingKind::BufferConflict, &calls, &access, text);
        }
    }
}
