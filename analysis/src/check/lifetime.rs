//! Calls before the start and after the end of MPI, and processes that end without ending MPI.
//!
//! Functions that MPI permits at any time are left out (MPI-4.0, 11.4.1). A process that exited by itself is reported. If its exit is not known,
//! and a rank of the job did not return from a call, others may have ended it, so it is not reported; neither is a job without any end of MPI.
//! Called for each event, and at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use belljar_job::{Communicators, ProcessKey};
use belljar_mpi::{Boundary, CallKind, Object};
use belljar_trace::Event;

use super::JobEnd;
use super::finding::{FindingKind, Findings};

/// The state of a process.
#[derive(Debug, Default)]
struct ProcessState {
    is_started: bool,
    is_ended: bool,
    /// Its last call, and true if it returned.
    last: Option<Rc<Event>>,
    aborts: bool,
    /// A call before the start of MPI, until MPI is started.
    early: Option<Rc<Event>>,
}

/// States of all processes.
#[derive(Debug, Default)]
pub(super) struct Lifetimes(BTreeMap<ProcessKey, ProcessState>);

/// True for calls that need no initialised MPI.
fn is_free(call: &Event) -> bool {
    let meaning = call.meaning();
    matches!(
        meaning.kind,
        CallKind::Local
            | CallKind::Clock
            | CallKind::Init
            | CallKind::Abort
            | CallKind::Make(Object::Session | Object::Other)
            | CallKind::Free(Object::Session | Object::Other)
            | CallKind::Set(Object::Session | Object::Other)
            | CallKind::Ask(_)
    )
}

impl Lifetimes {
    pub(super) fn take(&mut self, call: &Rc<Event>, findings: &mut Findings) {
        let state = self.0.entry((call.node, call.process)).or_default();
        let kind = call.meaning().kind;
        match call.meaning().boundary() {
            Some(Boundary::Start) => {
                if state.is_ended && kind == CallKind::Init {
                    let text = "MPI is started again after its end";
                    findings.add(FindingKind::AfterFinalize, &[call], text);
                }
                state.is_started = true;
                if let Some(early) = state.early.take() {
                    let text = format!("{} is called before MPI_Init", early.name());
                    findings.add(FindingKind::BeforeInit, &[&early], text);
                }
            }
            Some(Boundary::End) if kind == CallKind::Finalize => state.is_ended = true,
            _ if is_free(call) => {}
            _ if state.is_ended => {
                let text = format!("{} is called after MPI_Finalize", call.name());
                findings.add(FindingKind::AfterFinalize, &[call], text);
            }
            // Traces of other tools may lack the start of MPI.
            _ if !state.is_started => {
                state.early.get_or_insert_with(|| Rc::clone(call));
            }
            _ => {}
        }
        state.aborts |= kind == CallKind::Abort;
        state.last = Some(Rc::clone(call));
    }

    /// Adds processes that ended without ending MPI. If the trace is not whole, only those whose exit was observed.
    pub(super) fn finish(
        &self,
        (end, is_whole): (Option<&JobEnd>, bool),
        communicators: &Communicators,
        findings: &mut Findings,
    ) {
        // Of a job that ended well, all processes have ended.
        let is_over = end.is_some_and(|end| end.exit_code == Some(0));
        let exited: BTreeSet<ProcessKey> = end.map(exited).unwrap_or_default();
        let mut broken = BTreeSet::new();
        for (process, state) in &self.0 {
            let is_open = state.last.as_ref().is_some_and(|last| last.exit.is_none());
            if is_open || state.aborts {
                broken.insert(communicators.job(*process));
            }
        }
        let ended = self.0.iter().filter(|(_, state)| state.is_ended);
        let ended: BTreeSet<_> = ended.map(|(of, _)| communicators.job(*of)).collect();
        for (process, state) in &self.0 {
            let is_lost = state.is_started && !state.is_ended;
            let job = communicators.job(*process);
            let is_sure = exited.contains(process) && !state.aborts;
            let is_broken = !is_whole || broken.contains(&job) || !is_over && !ended.contains(&job);
            let last = state.last.as_ref().filter(|last| last.exit.is_some());
            if let Some(last) = last.filter(|_| is_lost && (is_sure || !is_broken)) {
                let text = format!("rank {} ended without MPI_Finalize", last.rank);
                findings.add(FindingKind::NoFinalize, &[last], text);
            }
        }
    }
}

/// The processes that exited, and were not ended by a signal.
fn exited(end: &JobEnd) -> BTreeSet<ProcessKey> {
    let ended = end.ended.iter();
    let exited = ended.filter(|of| of.status.is_some_and(|status| status & 0x7f == 0));
    exited.map(|of| (of.node, of.process)).collect()
}
