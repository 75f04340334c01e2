//! Collection of calls' instances from the runs.
//!
//! Each has its turns, the requests that it completes, and the sources of messages that it receives. Used for each rank of a class.

use belljar_trace::{Direction, Event, Peer};

use crate::model::call::Counter;
use crate::relation::RelationArguments;
use crate::run::{Run, RunCall};
use crate::structure::{ParsedSequence, Turns};
use crate::values::Sample;

/// One instance of a call.
#[derive(Clone, Debug)]
pub(in crate::model::learn) struct Instance<'r> {
    pub(super) run: &'r Run,
    pub(super) number: usize,
    pub(super) step: &'r RunCall,
    pub(super) rank: u32,
    pub(super) turn: u32,
    /// Turns of all loops around it.
    pub(super) around: Turns,
    /// The number of the previous call.
    pub(super) after: Option<u32>,
    /// The number of the instance, of this call and rank.
    pub(super) index: u32,
    pub(super) count: u32,
    /// The open requests that it completes, and the number of open ones.
    pub(super) completes: Vec<u32>,
    pub(super) open: u32,
    /// The source of the message of each wildcard receive, and the bytes of each receive.
    pub(super) sources: Vec<Option<Peer>>,
}

/// An open request: the call that began it, and the index of its transfer.
struct OpenRequest {
    request: u64,
    call: u32,
    at: usize,
    transfer: usize,
}

/// Adds the calls of a rank to `all`, by the number of the call.
pub(in crate::model::learn) fn gather<'r>(
    run: &'r Run,
    number: usize,
    rank: u32,
    reading: &ParsedSequence,
    all: &mut [Vec<Instance<'r>>],
) {
    let mut counts = vec![0; all.len()];
    for (call, _) in &reading.calls {
        counts[*call as usize] += 1;
    }
    let mut indices = vec![0; all.len()];
    let mut open: Vec<OpenRequest> = Vec::new();
    let mut after = None;
    let calls = reading.calls.iter().zip(&reading.around);
    for (step, ((call, turn), around)) in run.steps[rank as usize].iter().zip(calls) {
        let own = *call as usize;
        let event = &step.event;
        let completes = completed(event, &mut open, all);
        let still = completes.len() + open.len();
        let at = all[own].len();
        for (transfer, request) in event.started.iter().enumerate() {
            open.push(OpenRequest {
                request: *request,
                call: *call,
                at,
                transfer,
            });
        }
        let mut sources = vec![None; event.transfers.len()];
        if let Some(status) = event.status {
            let receive = event
                .transfers
                .iter()
                .position(|it| it.direction == Direction::Receive);
            if let Some(receive) = receive {
                sources[receive] = Some(status.source);
            }
        }
        all[own].push(Instance {
            run,
            number,
            step,
            rank,
            turn: *turn,
            around: *around,
            after: after.replace(*call),
            index: indices[own],
            count: counts[own],
            completes,
            open: still as u32,
            sources,
        });
        indices[own] += 1;
    }
}

/// Returns the positions of the open requests that a call completes; the contents of their statuses go to the calls that began them.
fn completed(
    event: &Event,
    open: &mut Vec<OpenRequest>,
    all: &mut [Vec<Instance<'_>>],
) -> Vec<u32> {
    let mut places = Vec::new();
    for completion in &event.completed {
        let Some(place) = open.iter().position(|it| it.request == completion.request) else {
            continue;
        };
        places.push(place);
        if let Some(status) = completion.status {
            let OpenRequest {
                call, at, transfer, ..
            } = open[place];
            let begun = all[call as usize].get_mut(at);
            if let Some(source) = begun.and_then(|it| it.sources.get_mut(transfer)) {
                *source = Some(status.source);
            }
        }
    }
    let mut number = 0;
    open.retain(|_| {
        number += 1;
        !places.contains(&(number - 1))
    });
    places.iter().map(|place| *place as u32).collect()
}

impl Instance<'_> {
    pub(super) fn event(&self) -> &Event {
        &self.step.event
    }

    /// Returns the rank's position in one of its communicators.
    pub(super) fn place(&self, communicator: Option<u32>, by: Counter) -> RelationArguments {
        let process = (self.event().node, self.event().process);
        let known = communicator.and_then(|number| {
            let of = &self.run.communicators;
            let remote = of.remote_members(process, number);
            let members = remote.or_else(|| of.members(process, number))?;
            Some((of.rank(process, number)?, members.len()))
        });
        let (rank, ranks) = known.unwrap_or((self.rank, self.run.ranks));
        let turn = self.counted(by);
        RelationArguments { rank, ranks, turn }
    }

    /// Returns the bytes of each of its messages with a peer.
    pub(in crate::model::learn) fn bytes(&self) -> Vec<Option<Sample>> {
        let all = self.event().transfers.iter();
        let all = all.map(|it| (it.peer != Peer::Null).then(|| self.sample(it.bytes as f64)));
        all.collect()
    }

    /// Returns a value of it as a sample.
    pub(super) fn sample(&self, value: f64) -> Sample {
        Sample {
            run: self.number,
            ranks: f64::from(self.run.ranks),
            size: self.run.size,
            instance: (self.index, self.count),
            turn: self.turn,
            place: self.place(self.communicator(), Counter::Turn),
            value,
        }
    }

    /// Returns the communicator of its first message or collective operation.
    pub(super) fn communicator(&self) -> Option<u32> {
        let event = self.event();
        let transfer = event.transfers.first().and_then(|it| it.communicator);
        transfer.or_else(|| event.collectives.first().and_then(|it| it.communicator))
    }

    pub(super) fn counted(&self, by: Counter) -> u32 {
        by.of(self.around, self.index)
    }
}
