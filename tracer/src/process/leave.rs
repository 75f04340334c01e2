//! A call's outputs at its return.
//!
//! The process's objects change only here, after a call has returned; a call that never returns has no effect on them. Used
//! by `node` with the handles that were read at entry.

use belljar_mpi::Base;
use belljar_trace::{
    Bounds, Completion, DatatypeContents, Detailed, Details, Direction, Event, Fact, Folded,
    MpiLibrary, Peer, Phase, Polls, Status, WORLD,
};

use super::datatypes::datatype_details;
use super::{Matched, Process, Window};
use crate::decode::action::Action;
use crate::decode::arguments::Arguments;
use crate::guest::memory::Reader;
use crate::objects::communicators::Communicator;
use crate::objects::requests::Requested;
use crate::receives::posted::PostedReceive;

/// The additions to a call's event at its end.
#[derive(Default)]
struct ExitDetails {
    started: Vec<u64>,
    completed: Vec<Completion>,
    status: Option<Status>,
    fact: Option<Fact>,
    /// The bounds of the datatype in the fact.
    bounds: Option<Bounds>,
    /// The contents of the datatype in the fact, if it is new.
    made: Option<DatatypeContents>,
    /// The transfers and operations of started persistent requests.
    moved: Option<Event>,
    /// The partitioned requests that it prepared or started.
    partitioned: Vec<Option<u32>>,
    /// The persistent requests that it prepared or started.
    persistent: Vec<u32>,
    /// True if the queried operation is complete.
    over: bool,
    bad: Option<u8>,
}

/// True if a call created a window.
fn action_makes_window(event: &Event) -> bool {
    Action::of(event.function) == Action::MakeWindow && event.result == Some(0)
}

/// True if a call by which a program polls did not end the loop.
fn found_nothing(event: &Event, memory: Reader<'_>) -> bool {
    let told = event.bad.is_some() || event.fact.is_some() || event.status.is_some();
    if told || event.failed() || !event.completed.is_empty() || !event.texts.is_empty() {
        return false;
    }
    let mut arguments = Arguments::new(event, memory);
    let mut says_no = |name: &str, no: fn(i64) -> bool| {
        !arguments.has(name) || arguments.integer(name).is_some_and(no)
    };
    says_no("flag", |flag| flag == 0) && says_no("outcount", |count| count <= 0)
}

/// Returns a poll of the requests `handles`.
fn poll(event: &Event, handles: &[u64]) -> Folded {
    // FNV-1a, by words: requests may change while arguments stay the same.
    let mix = |hash: u64, handle: &u64| (hash ^ handle).wrapping_mul(0x100_0000_01b3);
    let subject = handles.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    let cycles = event.duration().unwrap_or(0);
    let account = event.accounts.0.map(|[entered, left]| left.since(&entered));
    let polls = Polls::one(cycles, account.unwrap_or_default(), subject);
    Folded(Some(Box::new(polls)))
}

impl Process {
    /// Reads a call's outputs, fills the event and updates the process's objects. `handles` is the result of
    /// [`enter`](Self::enter), and `posted` the receives that the library posted meanwhile.
    pub(crate) fn leave(
        &mut self,
        event: &mut Event,
        handles: &[u64],
        posted: &[PostedReceive],
        memory: Reader<'_>,
    ) {
        // A constant argument may have been on a page not yet touched before the call, which is mapped now.
        if event.bad.is_some() && handles.is_empty() {
            event.bad = None;
            self.enter(event, memory);
        }
        let outcome = self.outcome(event, handles, posted, memory);
        event.bad = outcome.bad;
        if action_makes_window(event) {
            self.name_window(event, memory);
        }
        if outcome.bounds.is_some() || outcome.made.is_some() {
            event.details = datatype_details(outcome.bounds, outcome.made);
        }
        if !outcome.persistent.is_empty() {
            let details = event.details.0.get_or_insert_default();
            details.partitioned = outcome.partitioned;
            details.persistent = outcome.persistent;
        }
        if outcome.over {
            event.details.0.get_or_insert_default().over = true;
        }
        event.started = outcome.started;
        event.completed = outcome.completed;
        event.status = outcome.status;
        event.fact = outcome.fact.or_else(|| event.fact.take());
        if event.failed() {
            event.transfers.clear();
            event.collectives.clear();
        }
        if let Some(moved) = outcome.moved {
            event.transfers = moved.transfers;
            event.collectives = moved.collectives;
        }
        let receives = event
            .transfers
            .iter_mut()
            .find(|transfer| transfer.direction == Direction::Receive && !transfer.exact);
        if let (Some(status), Some(transfer)) = (event.status, receives) {
            transfer.bytes = if status.cancelled { 0 } else { status.bytes };
            transfer.exact = true;
        }
        if event.meaning().polls && found_nothing(event, memory) {
            event.folded = poll(event, handles);
        }
    }

    /// Adds the number of the window that a call created.
    fn name_window(&self, event: &mut Event, memory: Reader<'_>) {
        let handle = Arguments::new(event, memory).pointed_handle(Base::Win);
        let window = handle.and_then(|handle| self.windows.get(handle));
        event.details = Detailed::of(Details {
            window: window.map(|window| window.number),
            ..Details::default()
        });
    }

    fn outcome(
        &mut self,
        event: &Event,
        handles: &[u64],
        posted: &[PostedReceive],
        memory: Reader<'_>,
    ) -> ExitDetails {
        let action = Action::of(event.function);
        let mut arguments = Arguments::new(event, memory);
        let mut outcome = ExitDetails::default();
        let result = event.result.unwrap_or(0);
        if let Action::Complete(how) = action {
            outcome.completed = self.complete(how, handles, result, &mut arguments);
        } else if result == 0 {
            match action {
                Action::Message { phase, .. }
                | Action::Collective(_, phase)
                | Action::OneSided { phase, .. } => {
                    self.end_operation(event, phase, posted, &mut arguments, &mut outcome);
                }
                Action::ReceiveMatched(phase) => {
                    for handle in handles {
                        self.messages.remove(*handle);
                    }
                    self.end_operation(event, phase, posted, &mut arguments, &mut outcome);
                }
                Action::AskIfOver => {
                    outcome.over = arguments.integer("flag").is_some_and(|flag| flag != 0);
                }
                Action::Probe => outcome.status = self.probe(event, &mut arguments),
                Action::Start => self.start(event, handles, posted, &mut outcome),
                Action::MakeDatatype | Action::AskDatatype => {
                    if let Some((fact, bounds, made)) = self.learn_datatype(action, &mut arguments)
                    {
                        (outcome.fact, outcome.bounds) = (Some(fact), bounds);
                        outcome.made = made;
                    }
                }
                _ => {
                    outcome.fact =
                        self.object(action, handles, event, &mut arguments, &mut outcome.started)
                }
            }
        }
        outcome.bad = arguments.bad();
        outcome
    }

    /// Ends a call that moves data: reads the request that it returned, or its status.
    fn end_operation(
        &mut self,
        event: &Event,
        phase: Phase,
        posted: &[PostedReceive],
        arguments: &mut Arguments<'_>,
        outcome: &mut ExitDetails,
    ) {
        let mut operation = self.requested(event, posted, arguments);
        match phase {
            Phase::Done => outcome.status = self.received(&operation, arguments),
            Phase::Begun => {
                if let Some(handle) = arguments.pointed_handle(Base::Request) {
                    if self.implementation.library() == MpiLibrary::OpenMpi {
                        // Its handles are its requests.
                        let mut own = posted.iter().filter(|it| it.request == handle);
                        operation.receive = operation.receive.and(own.next().copied());
                    }
                    let number = self.requests.begin(handle, operation);
                    outcome.started.push(number);
                }
            }
            Phase::Prepared => {
                operation.receive = None;
                let handle = arguments.pointed_handle(Base::Request);
                if let (Some(handle), true) = (handle, arguments.has("partitions")) {
                    let (prepared, number) = self.requests.prepare_partitioned(handle, operation);
                    outcome.persistent.push(prepared);
                    outcome.partitioned.push(Some(number));
                } else if let Some(handle) = handle {
                    let prepared = self.requests.prepare(handle, operation);
                    outcome.persistent.push(prepared);
                }
            }
        }
    }

    /// Returns the operation of a call that moves data, with the library's receive.
    fn requested(
        &self,
        event: &Event,
        posted: &[PostedReceive],
        arguments: &Arguments<'_>,
    ) -> Requested {
        let receive = event.transfers.iter().find(|transfer| {
            transfer.direction == Direction::Receive && transfer.peer != Peer::Null
        });
        let mut posted = posted.iter();
        let known = self.communicator(arguments);
        Requested {
            receive: receive.and_then(|receive| posted.find(|it| it.is_of(receive)).copied()),
            partners: known.and_then(Communicator::partners),
            transfers: event.transfers.clone(),
            collectives: event.collectives.clone(),
        }
    }

    /// Returns the status of a completed receive: as the library wrote it, or as observed if the program ignores it.
    fn received(&mut self, operation: &Requested, arguments: &mut Arguments<'_>) -> Option<Status> {
        let mut transfers = operation.transfers.iter();
        let transfer = transfers.find(|transfer| transfer.direction == Direction::Receive)?;
        let observed = operation.receive.and_then(|receive| {
            let memory = arguments.memory();
            self.receives.take(
                receive,
                transfer,
                operation.partners,
                self.implementation.library(),
                memory,
            )
        });
        match arguments.ignores_status("status") {
            // No program can cancel it: MPICH cancels the request of a transport when another one has the message.
            true => observed.filter(|status| !status.cancelled),
            false => arguments.status("status", 0),
        }
    }

    fn probe(&mut self, event: &Event, arguments: &mut Arguments<'_>) -> Option<Status> {
        if arguments.has("flag") && arguments.integer("flag").unwrap_or(0) == 0 {
            return None;
        }
        // A probe never cancels: MPICH leaves that bit of the program's status unchanged.
        let status = arguments.status("status", 0).map(|status| Status {
            cancelled: false,
            ..status
        });
        if arguments.has("message") {
            let handle = arguments.handles("message", 1)?.first().copied()?;
            let implementation = arguments.implementation;
            let source = arguments.int("source").unwrap_or(i32::MIN);
            let tag = arguments.int("tag").and_then(|tag| implementation.tag(tag));
            let matched = Matched {
                communicator: event.communicator,
                source: status.map_or(implementation.peer(source), |status| status.source),
                tag: status.map_or(tag, |status| Some(status.tag)),
            };
            self.messages.insert(handle, matched);
        }
        status
    }

    fn start(
        &mut self,
        event: &Event,
        handles: &[u64],
        posted: &[PostedReceive],
        outcome: &mut ExitDetails,
    ) {
        let mut moved = event.clone();
        let mut posted = posted.to_vec();
        // Transfers come before collective operations in an event, and so do their requests.
        let collective = |handle: &&u64| self.requests.is_collective(**handle);
        let (last, first): (Vec<u64>, Vec<u64>) = handles.iter().partition(collective);
        for handle in first.iter().chain(&last) {
            if let Some((number, transfers, collectives)) =
                self.requests.start(*handle, &mut posted)
            {
                outcome.started.push(number);
                outcome.persistent.extend(self.requests.prepared(*handle));
                let partitioned = self.requests.partitioned(*handle);
                outcome
                    .partitioned
                    .extend(transfers.iter().map(|_| partitioned));
                moved.transfers.extend(transfers);
                moved.collectives.extend(collectives);
            }
        }
        if outcome.partitioned.iter().all(Option::is_none) {
            outcome.partitioned.clear();
        }
        outcome.moved = Some(moved);
    }

    /// Handles calls that create, free or query objects. Requests that they start are added to `started`.
    fn object(
        &mut self,
        action: Action,
        handles: &[u64],
        event: &Event,
        arguments: &mut Arguments<'_>,
        started: &mut Vec<u64>,
    ) -> Option<Fact> {
        let freed = handles.first().copied();
        match action {
            Action::FreeRequest => self.requests.free(freed?),
            Action::FreeCommunicator => self.communicators.free(freed?),
            Action::FreeGroup => self.communicators.free_group(freed?),
            Action::FreeDatatype => self.datatypes.free(freed?),
            Action::FreeWindow => {
                self.windows.remove(freed?);
            }
            Action::MakeCommunicator => {
                let handle = arguments.pointed_handle(Base::Comm)?;
                let parent = arguments.first_handle(Base::Comm);
                let new = self.communicators.make(parent, handle, arguments);
                if arguments.has("request") {
                    let request = arguments.pointed_handle(Base::Request)?;
                    started.push(self.requests.begin(request, Requested::default()));
                }
                return Some(Fact::Communicator(new));
            }
            Action::AskCommunicator => return self.ask_communicator(arguments),
            Action::MakeGroup => {
                let handle = arguments.pointed_handle(Base::Group)?;
                let window = arguments.first_handle(Base::Win);
                let window = window.and_then(|handle| self.windows.get(handle));
                let on = window.and_then(|window| window.communicator);
                return Some(self.communicators.make_group(handle, on, arguments));
            }
            Action::MakeWindow => {
                let handle = arguments.pointed_handle(Base::Win)?;
                let window = Window {
                    number: self.windows_made,
                    communicator: event.communicator,
                };
                self.windows_made = self.windows_made.wrapping_add(1);
                self.windows.insert(handle, window);
            }
            _ => {}
        }
        None
    }

    fn ask_communicator(&mut self, arguments: &mut Arguments<'_>) -> Option<Fact> {
        let handle = arguments.first_handle(Base::Comm)?;
        let fact = self.communicators.ask(handle, arguments)?;
        if let Fact::Rank { communicator, rank } = fact
            && communicator == WORLD
            && !self.rank_is_told
        {
            self.rank = rank;
            self.rank_is_told = true;
        }
        Some(fact)
    }
}
