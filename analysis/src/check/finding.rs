//! Findings of checks, and the calls that they name.
//!
//! Findings of one kind at the same call sites are one finding with a count; the first occurrence is kept. Filled by the checks.

use std::collections::BTreeMap;
use std::rc::Rc;

use belljar_job::{Communicators, ProcessKey};
use belljar_trace::{Event, Site, TraceHeader};
use serde::Serialize;

use super::buffers::accesses::ProgramAccess;
use super::{CheckedCall, Finding};
use crate::argument_words;
use crate::causes::hang::JobRank;
use crate::dump::frames::FrameNames;

/// Limit on findings at different call sites.
const MOST_FINDINGS: usize = 1000;

/// The weight of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// MPI forbids it.
    Error,
    /// MPI permits it; it may fail in another run, or loses memory.
    Warning,
    /// The result may depend on the order of messages.
    Note,
}

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// Ranks call collective operations of a communicator in different orders.
    CallOrder,
    /// Ranks call one collective operation, or send and receive, on different communicators.
    CommunicatorMismatch,
    /// A sender and a receiver that cannot go on have different tags.
    TagMismatch,
    /// Ranks give a collective operation different roots.
    RootMismatch,
    /// Ranks give a collective operation different reduction operators.
    OperatorMismatch,
    /// Both sides of an operation have different datatypes.
    DatatypeMismatch,
    /// Both sides of a collective operation have different numbers of bytes.
    SizeMismatch,
    /// A receive is smaller than its message.
    Truncation,
    /// A message that no receive took before the end of MPI.
    LostMessage,
    /// Null, freed or unknown communicator.
    InvalidCommunicator,
    /// Null, freed or uncommitted datatype.
    InvalidDatatype,
    /// Null reduction operator, or one that does not fit the datatype.
    InvalidOperator,
    /// A rank outside of the communicator.
    InvalidRank,
    /// A root outside of the communicator.
    InvalidRoot,
    /// A tag outside of the permitted range.
    InvalidTag,
    /// A negative count.
    InvalidCount,
    /// A null buffer, or buffers that must be distinct.
    InvalidBuffer,
    /// Another argument that MPI forbids.
    InvalidArgument,
    /// An error that the MPI library reported, of another kind.
    LibraryError,
    /// Calls before the start of MPI.
    BeforeInit,
    /// Calls after the end of MPI.
    AfterFinalize,
    /// A process that ended without ending MPI.
    NoFinalize,
    /// A request that is active when MPI ends.
    PendingRequest,
    /// A wait for a persistent request that was never started.
    InactiveWait,
    /// An active request that is freed, so that its completion stays unknown.
    ActiveFree,
    /// A start of a persistent request that is active.
    ActiveStart,
    /// A communicator that was not freed.
    CommunicatorLeak,
    /// A group that was not freed.
    GroupLeak,
    /// A datatype that was not freed.
    DatatypeLeak,
    /// A reduction operator that was not freed.
    OperatorLeak,
    /// A window that was not freed.
    WindowLeak,
    /// A persistent request that was not freed.
    RequestLeak,
    /// An info object, error handler or file that was not freed or closed.
    ObjectLeak,
    /// A call on a window without the epoch that it needs, or an epoch that is not closed.
    MissingEpoch,
    /// An epoch inside of another one.
    NestedEpoch,
    /// Buffers of two operations in progress overlap.
    BufferConflict,
    /// Accesses to a window conflict.
    WindowConflict,
    /// A receive from any source could have got another message, which another receive needs.
    MessageRace,
    /// A job that deadlocks if the MPI library does not buffer messages.
    UnsafeSend,
    /// Ranks that cannot go on.
    Deadlock,
}

impl FindingKind {
    /// Returns its severity.
    pub fn severity(self) -> Severity {
        match self {
            Self::CommunicatorLeak
            | Self::GroupLeak
            | Self::DatatypeLeak
            | Self::OperatorLeak
            | Self::WindowLeak
            | Self::RequestLeak
            | Self::ObjectLeak
            | Self::InactiveWait
            | Self::ActiveFree
            | Self::MessageRace
            | Self::UnsafeSend
            | Self::LibraryError => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

/// A call site of a finding: the function and its stack.
type PlaceKey = (u16, Site);

/// The kind and the places of a finding: its calls, and an access of the program with its kind.
type FindingKey = (FindingKind, Severity, Vec<PlaceKey>, Option<(bool, Site)>);

/// A finding before its call sites are named.
#[derive(Debug)]
struct RawFinding {
    kind: FindingKind,
    severity: Severity,
    text: String,
    calls: Vec<Rc<Event>>,
    access: Option<Rc<ProgramAccess>>,
    count: u64,
}

/// All findings, in the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct Findings {
    numbers: BTreeMap<FindingKey, usize>,
    all: Vec<RawFinding>,
}

impl Findings {
    /// Adds a finding of the usual severity of its kind.
    pub(super) fn add(&mut self, kind: FindingKind, calls: &[&Rc<Event>], text: impl Into<String>) {
        self.add_as(kind, kind.severity(), calls, text);
    }

    /// Adds a finding on an access of the program, besides calls.
    pub(super) fn add_access(
        &mut self,
        kind: FindingKind,
        calls: &[&Rc<Event>],
        access: &Rc<ProgramAccess>,
        text: impl Into<String>,
    ) {
        self.insert(kind, kind.severity(), calls, Some(access), text.into());
    }

    /// Adds a finding.
    pub(super) fn add_as(
        &mut self,
        kind: FindingKind,
        severity: Severity,
        calls: &[&Rc<Event>],
        text: impl Into<String>,
    ) {
        self.insert(kind, severity, calls, None, text.into());
    }

    fn insert(
        &mut self,
        kind: FindingKind,
        severity: Severity,
        calls: &[&Rc<Event>],
        access: Option<&Rc<ProgramAccess>>,
        text: String,
    ) {
        let places = calls.iter().map(|call| (call.function, call.site.clone()));
        let accessed = access.map(|access| (access.is_store, access.site.clone()));
        let key = (kind, severity, places.collect::<Vec<PlaceKey>>(), accessed);
        if let Some(number) = self.numbers.get(&key) {
            self.all[*number].count += 1;
            return;
        }
        if self.all.len() >= MOST_FINDINGS {
            return;
        }
        self.numbers.insert(key, self.all.len());
        self.all.push(RawFinding {
            kind,
            severity,
            text,
            calls: calls.iter().map(|call| Rc::clone(call)).collect(),
            access: access.cloned(),
            count: 1,
        });
    }

    /// True if there is a finding of this kind that names a call of this rank and function.
    pub(super) fn has(&self, kind: FindingKind, rank: u32, function: &str) -> bool {
        let of_kind = self.all.iter().filter(|finding| finding.kind == kind);
        let mut calls = of_kind.flat_map(|finding| &finding.calls);
        calls.any(|call| call.rank == rank && call.name() == function)
    }

    /// Converts all, with named call sites.
    pub(super) fn finish(
        mut self,
        header: &TraceHeader,
        communicators: &Communicators,
        mut names: Option<FrameNames<'_>>,
    ) -> Vec<Finding> {
        self.all.sort_by_key(|finding| finding.severity);
        let place = |(node, process): ProcessKey, rank, at| {
            let job = communicators.job((node, process)).unwrap_or(0);
            let time = header.frequency(node).time_of(at).as_ps();
            (JobRank { job, rank }, time)
        };
        let mut sides = |raw: &RawFinding| {
            let mut site = |site: &Site| {
                let names = names.as_mut();
                names.map_or_else(Vec::new, |names| names.frames(site))
            };
            let calls = raw.calls.iter().map(|event| {
                let (of, entry_ps) = place((event.node, event.process), event.rank, event.entry);
                CheckedCall {
                    of,
                    node: event.node,
                    function: event.name(),
                    arguments: argument_words(event),
                    entry_ps,
                    site: site(&event.site),
                }
            });
            let mut sides: Vec<CheckedCall> = calls.collect();
            sides.extend(raw.access.as_ref().map(|access| {
                let (of, entry_ps) = place((access.node, access.process), access.rank, access.at);
                CheckedCall {
                    of,
                    node: access.node,
                    function: access.function(),
                    arguments: access.arguments(),
                    entry_ps,
                    site: site(&access.site),
                }
            }));
            sides
        };
        let all = self.all.iter().map(|raw| Finding {
            severity: raw.severity,
            kind: raw.kind,
            text: raw.text.clone(),
            calls: sides(raw),
            count: raw.count,
        });
        all.collect()
    }
}
