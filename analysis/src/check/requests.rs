//! Requests from their start to their completion.
//!
//! A request that is active when its process ends MPI is an error; a persistent request that is not freed is a leak. The trace
//! numbers requests; `MPI_Request_free` and calls that did not return name them by the address of the variable alone, which
//! creating calls have, too. Called for each event.

use std::collections::BTreeMap;
use std::rc::Rc;

use belljar_job::ProcessKey;
use belljar_mpi::{Base, CallKind, Completes, Phase};
use belljar_trace::Event;

use super::finding::{FindingKind, Findings};
use super::signature::word;

/// Limit on requests of a process that are followed.
const MOST_REQUESTS: usize = 1 << 16;

/// A persistent request.
#[derive(Debug)]
struct PersistentRequest {
    prepared: Rc<Event>,
    variable: u64,
    was_started: bool,
    /// The number of its active request.
    active: Option<u64>,
}

/// Requests of a process.
#[derive(Debug, Default)]
struct OwnRequests {
    active: BTreeMap<u64, (Rc<Event>, u64)>,
    persistent: BTreeMap<u32, PersistentRequest>,
    /// Requests that were freed by a variable that no call filled in.
    freed_elsewhere: usize,
    is_crowded: bool,
}

/// Requests of all processes.
#[derive(Debug, Default)]
pub(super) struct RequestStates(BTreeMap<ProcessKey, OwnRequests>);

/// The address of the first variable that holds a request.
fn variable(call: &Event) -> Option<u64> {
    let parameters = call.description().parameters.iter().zip(&call.arguments);
    let mut requests = parameters.filter(|(parameter, _)| {
        parameter.base == Base::Request && parameter.pointer == 1 && !parameter.is_const
    });
    requests.next().map(|(_, address)| *address)
}

impl RequestStates {
    /// The call that prepared the persistent request with this number.
    pub(super) fn prepared(&self, process: ProcessKey, number: u32) -> Option<&Rc<Event>> {
        let own = self.0.get(&process)?.persistent.get(&number)?;
        Some(&own.prepared)
    }

    pub(super) fn take(&mut self, call: &Rc<Event>, findings: &mut Findings) {
        let own = self.0.entry((call.node, call.process)).or_default();
        match call.meaning().kind {
            CallKind::Start => own.start(call, findings),
            CallKind::FreeRequest if call.exit.is_some() && !call.failed() => {
                own.free(call, findings);
            }
            CallKind::Complete(Completes::One) => own.wait(call, findings),
            _ => own.begin(call),
        }
        for completion in &call.completed {
            own.active.remove(&completion.request);
            let mut persistent = own.persistent.values_mut();
            if let Some(own) = persistent.find(|own| own.active == Some(completion.request)) {
                own.active = None;
            }
        }
    }

    /// Adds the requests that are left when a process ends MPI.
    pub(super) fn end_of(&mut self, process: ProcessKey, findings: &mut Findings) {
        let Some(mut own) = self.0.remove(&process).filter(|own| !own.is_crowded) else {
            return;
        };
        let active = own.active.len().saturating_sub(own.freed_elsewhere);
        own.freed_elsewhere = own.freed_elsewhere.saturating_sub(own.active.len());
        for (call, _) in own.active.values().take(active) {
            let text = format!(
                "a request of {} is not complete at MPI_Finalize",
                call.name()
            );
            findings.add(FindingKind::PendingRequest, &[call], text);
        }
        let left = own.persistent.len().saturating_sub(own.freed_elsewhere);
        for persistent in own.persistent.values().take(left) {
            let call = &persistent.prepared;
            let text = format!("a persistent request of {} is not freed", call.name());
            findings.add(FindingKind::RequestLeak, &[call], text);
        }
    }
}

impl OwnRequests {
    fn begin(&mut self, call: &Rc<Event>) {
        let variable = variable(call).unwrap_or(0);
        if call.meaning().phase == Phase::Prepared {
            let numbers = call.details.0.as_ref().map(|details| &details.persistent);
            for number in numbers.into_iter().flatten() {
                let persistent = PersistentRequest {
                    prepared: Rc::clone(call),
                    variable,
                    was_started: false,
                    active: None,
                };
                self.persistent.insert(*number, persistent);
            }
            self.is_crowded |= self.persistent.len() > MOST_REQUESTS;
            return;
        }
        for request in &call.started {
            self.active.insert(*request, (Rc::clone(call), variable));
        }
        self.is_crowded |= self.active.len() > MOST_REQUESTS;
    }

    /// A start of persistent requests. One that did not return names them by the variable.
    fn start(&mut self, call: &Rc<Event>, findings: &mut Findings) {
        let active = |own: &PersistentRequest| own.active.is_some();
        let again = |prepared: &Rc<Event>, findings: &mut Findings| {
            let text = format!("{} starts a request that is active", call.name());
            findings.add(FindingKind::ActiveStart, &[call, prepared], text);
        };
        if call.exit.is_none() {
            let variable = variable(call);
            let mut all = self.persistent.values();
            let own = all.find(|own| Some(own.variable) == variable && active(own));
            if let Some(own) = own.filter(|_| word(call, "request").is_some()) {
                again(&own.prepared, findings);
            }
            return;
        }
        let numbers = call
            .details
            .0
            .as_ref()
            .map_or(&[][..], |details| &details.persistent);
        for (number, request) in numbers.iter().zip(&call.started) {
            self.active.insert(*request, (Rc::clone(call), 0));
            if let Some(own) = self.persistent.get_mut(number) {
                if active(own) && !call.failed() {
                    again(&own.prepared, findings);
                }
                own.was_started = true;
                own.active = Some(*request);
            }
        }
        self.is_crowded |= self.active.len() > MOST_REQUESTS;
    }

    fn free(&mut self, call: &Rc<Event>, findings: &mut Findings) {
        let active = |begun: &Rc<Event>, findings: &mut Findings| {
            let text = format!("an active request of {} is freed", begun.name());
            findings.add(FindingKind::ActiveFree, &[call, begun], text);
        };
        let Some(variable) = variable(call) else {
            return;
        };
        let mut persistent = self.persistent.iter();
        let number = persistent.find(|(_, own)| own.variable == variable);
        if let Some(number) = number.map(|(number, _)| *number) {
            let request = self.persistent.remove(&number).and_then(|own| own.active);
            if let Some(request) = request
                && let Some((begun, _)) = self.active.remove(&request)
            {
                active(&begun, findings);
            }
            return;
        }
        let mut all = self.active.iter();
        let request = all.find(|(_, (_, own))| *own == variable);
        match request.map(|(request, _)| *request) {
            Some(request) => {
                if let Some((begun, _)) = self.active.remove(&request) {
                    active(&begun, findings);
                }
            }
            None => self.freed_elsewhere += 1,
        }
    }

    /// A wait for one request that is persistent and was never started.
    fn wait(&mut self, call: &Rc<Event>, findings: &mut Findings) {
        let waits = call.meaning().base == "Wait";
        let variable = variable(call);
        let mut persistent = self.persistent.values();
        let own = persistent.find(|own| Some(own.variable) == variable && !own.was_started);
        if let Some(own) = own.filter(|_| waits && call.completed.is_empty()) {
            let text = format!(
                "{} waits for a persistent request that was never started",
                call.name()
            );
            findings.add(FindingKind::InactiveWait, &[call, &own.prepared], text);
        }
    }
}
