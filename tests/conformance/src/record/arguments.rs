//! Arguments and outputs of calls.
//!
//! Constants are those of the job's library. Used for each call before it is entered; its outputs are written before it is left.

use std::collections::BTreeMap;

use belljar_trace::Implementation;
use belljar_tracer::scripted::{Guest, int};

use super::library::Library;
use super::only;
use super::{collective, windows};
use crate::job::{
    Action, ActorId, Call, CommunicatorId, Form, Job, Making, OperationId, SendMode, Topology,
};
use crate::simulate::{Executed, Execution};

/// An address that nothing is read from.
pub(super) const BUFFER: u64 = 0x5000;
/// A pointer that stands for `MPI_UNWEIGHTED`; no reader uses neighbours' weights.
const UNWEIGHTED: u64 = 0x6000;
/// `MPI_ANY_TAG`.
const ANY_TAG: i32 = -1;
/// The handle of operation 0's request.
const REQUESTS: u64 = 0xac00_0000;
/// The handle of communicator 0, were it made.
const COMMUNICATORS: u64 = 0x8400_0000;

/// A call's function, argument words and outputs.
pub(super) struct Made {
    pub(super) name: &'static str,
    pub(super) words: Vec<u64>,
    pub(super) outputs: Vec<Output>,
}

/// Something that a call writes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Output {
    Handle(u64, u64),
    Int(u64, i32),
    Status {
        at: u64,
        source: i32,
        tag: i32,
        bytes: u64,
    },
    Cancelled(u64, Implementation),
}

impl Output {
    pub(super) fn write(self, guest: &mut Guest) {
        match self {
            Self::Handle(at, handle) => guest.put_handle(at, handle),
            Self::Int(at, value) => guest.put_ints(at, &[value]),
            Self::Status {
                at,
                source,
                tag,
                bytes,
            } => guest.put_status(at, source, tag, bytes),
            // MPICH: the lowest bit of the second word (MPIR_STATUS_SET_CANCEL_BIT).
            Self::Cancelled(at, Implementation::Mpich) => {
                guest.put_ints(at, &[0, 1, -2, ANY_TAG, 0])
            }
            Self::Cancelled(at, Implementation::OpenMpi) => {
                guest.put_ints(at, &[-1, ANY_TAG, 0, 1, 0, 0]);
            }
            Self::Cancelled(_, Implementation::StandardAbi(_)) => {
                unreachable!("random jobs are of MPICH or of Open MPI")
            }
        }
    }
}

/// Makes the arguments of a call.
pub(super) struct Arguments<'a> {
    pub(super) library: Library,
    pub(super) job: &'a Job,
    pub(super) execution: &'a Execution,
    pub(super) executed: &'a Executed,
    pub(super) guest: &'a mut Guest,
    /// By call of the job, the address of the requests that it completes.
    pub(super) polled: &'a mut BTreeMap<(ActorId, usize), u64>,
}

impl Arguments<'_> {
    /// The handle of a communicator.
    pub(super) fn handle_of(&self, communicator: CommunicatorId) -> u64 {
        match communicator {
            0 => self.library.world,
            other if self.job.communicators[other].own => self.library.own,
            other => self.library.made(COMMUNICATORS + other as u64),
        }
    }

    pub(super) fn of(mut self, call: &Call) -> Made {
        match call.form {
            Form::Blocking if call.operations.len() == 2 => self.exchange(call),
            Form::Blocking | Form::Fail => self.blocking(only(call)),
            Form::Probed if self.executed.probe => self.probe("MPI_Probe", only(call)),
            Form::Matched if self.executed.probe => self.probe("MPI_Mprobe", only(call)),
            Form::Probed => self.blocking(only(call)),
            Form::Matched => self.matched(only(call)),
            Form::Begin => self.begin(only(call), false),
            Form::Prepare => match self.job.operations[only(call)].partitions {
                Some(partitions) => self.partitioned(only(call), partitions),
                None => self.begin(only(call), true),
            },
            Form::Ready(partition) => Made {
                name: "MPI_Pready",
                words: vec![int(partition as i32), self.request(only(call))],
                outputs: Vec::new(),
            },
            Form::Start => self.start(call),
            Form::Wait => self.wait(call),
            Form::Each(each) => self.complete_each(call, each),
            Form::Test => self.test(call),
            Form::Cancel => self.on_request("MPI_Cancel", only(call), None),
            Form::Free => self.on_request(
                "MPI_Request_free",
                only(call),
                Some(self.library.no_request),
            ),
            Form::Window(window) => windows::call(self.guest, self.library, window),
            Form::Communicator(made, making) => self.communicator(made, making),
        }
    }

    pub(super) fn request(&self, operation: OperationId) -> u64 {
        let of = self.job.operations[operation].persistent;
        self.library.made(REQUESTS + of.unwrap_or(operation) as u64)
    }

    /// A peer's rank in the operation's communicator.
    pub(super) fn rank_in(&self, operation: OperationId, world: u32) -> i32 {
        let communicator = &self.job.communicators[self.job.operations[operation].communicator];
        communicator
            .rank_of(world)
            .map_or(self.library.any_source, u32::cast_signed)
    }

    /// A root for its operation: between groups, the root itself passes `MPI_ROOT`, and its group `MPI_PROC_NULL`.
    pub(super) fn root(&self, operation: OperationId, root: u32) -> i32 {
        let of = &self.job.operations[operation];
        let own = self.job.actors[of.actor].rank;
        let communicator = &self.job.communicators[of.communicator];
        match communicator.partners(own).contains(&root) {
            true => self.rank_in(operation, root),
            false if own == root => self.library.root,
            false => self.library.no_rank,
        }
    }

    /// Buffer, count, type, peer, tag of a side of a message.
    pub(super) fn side(&self, operation: OperationId) -> Vec<u64> {
        let (bytes, peer, tag) = match self.job.operations[operation].action {
            Action::Send { to, tag, bytes, .. } => (bytes, self.rank_in(operation, to), tag),
            Action::Receive {
                from, tag, room, ..
            } => {
                let peer = from.map_or(self.library.any_source, |from| {
                    self.rank_in(operation, from)
                });
                (room, peer, tag.unwrap_or(ANY_TAG))
            }
            Action::Nothing { .. } => (8, self.library.no_rank, 5),
            Action::Access { .. } | Action::Collective { .. } => (0, 0, 0),
        };
        vec![BUFFER, bytes, self.library.byte, int(peer), int(tag)]
    }

    pub(super) fn communicator_of(&self, operation: OperationId) -> u64 {
        self.handle_of(self.job.operations[operation].communicator)
    }

    fn asks(&self, operation: OperationId) -> bool {
        self.job.operations[operation].action.asks_for_status()
    }

    /// A status, and the outputs that fill it.
    pub(super) fn status(&mut self, operation: OperationId) -> (u64, Vec<Output>) {
        if !self.asks(operation) {
            return (self.library.ignore, Vec::new());
        }
        let at = self.guest.room(self.library.status);
        (at, self.filled(operation, at))
    }

    /// The outputs that fill the status of a receive.
    pub(super) fn filled(&self, operation: OperationId, at: u64) -> Vec<Output> {
        if self.execution.cancelled.contains(&operation) {
            return vec![Output::Cancelled(at, self.library.implementation)];
        }
        if let Action::Nothing { sends: false, .. } = self.job.operations[operation].action {
            return vec![Output::Status {
                at,
                source: self.library.no_rank,
                tag: ANY_TAG,
                bytes: 0,
            }];
        }
        let Some(send) = self.execution.send_of(operation) else {
            return Vec::new();
        };
        let of = &self.job.operations[send];
        let Action::Send { tag, bytes, .. } = of.action else {
            return Vec::new();
        };
        let source = self.rank_in(operation, self.job.actors[of.actor].rank);
        vec![Output::Status {
            at,
            source,
            tag,
            bytes,
        }]
    }

    /// A call that returns a request, persistent or not.
    fn begin(&mut self, operation: OperationId, persistent: bool) -> Made {
        let form = 1 + usize::from(persistent);
        let request = self.guest.handles(&[0]);
        let outputs = vec![Output::Handle(request, self.request(operation))];
        let mut words = self.side(operation);
        words.push(self.communicator_of(operation));
        let names = match self.job.operations[operation].action {
            Action::Send { mode, .. } => match mode {
                SendMode::Standard => ["", "MPI_Isend", "MPI_Send_init"],
                SendMode::Buffered => ["", "MPI_Ibsend", "MPI_Bsend_init"],
                SendMode::Synchronous => ["", "MPI_Issend", "MPI_Ssend_init"],
                SendMode::Ready => ["", "MPI_Irsend", "MPI_Rsend_init"],
            },
            Action::Nothing { sends: true, .. } => ["", "MPI_Isend", "MPI_Send_init"],
            Action::Receive { .. } | Action::Nothing { .. } => ["", "MPI_Irecv", "MPI_Recv_init"],
            Action::Access {
                access,
                target,
                bytes,
            } => {
                words = windows::access(self.library, access, target, bytes).words;
                ["", windows::names(access)[1], ""]
            }
            Action::Collective { .. } => {
                words = collective::words(self, operation);
                if persistent {
                    words.push(self.library.no_info);
                }
                collective::names(self.job, operation)
            }
        };
        words.push(request);
        Made {
            name: names[form],
            words,
            outputs,
        }
    }

    /// `MPI_Psend_init` or `MPI_Precv_init`.
    fn partitioned(&mut self, operation: OperationId, partitions: u64) -> Made {
        let side = self.side(operation);
        let request = self.guest.handles(&[0]);
        let communicator = self.communicator_of(operation);
        let words = vec![
            side[0],
            partitions,
            side[1] / partitions,
            side[2],
            side[3],
            side[4],
            communicator,
            self.library.no_info,
            request,
        ];
        let sends = matches!(self.job.operations[operation].action, Action::Send { .. });
        Made {
            name: if sends {
                "MPI_Psend_init"
            } else {
                "MPI_Precv_init"
            },
            words,
            outputs: vec![Output::Handle(request, self.request(operation))],
        }
    }

    fn start(&mut self, call: &Call) -> Made {
        let handles: Vec<u64> = call.operations.iter().map(|it| self.request(*it)).collect();
        let requests = self.guest.handles(&handles);
        let (name, words) = match handles.len() {
            1 => ("MPI_Start", vec![requests]),
            count => ("MPI_Startall", vec![count as u64, requests]),
        };
        Made {
            name,
            words,
            outputs: Vec::new(),
        }
    }

    fn on_request(
        &mut self,
        name: &'static str,
        operation: OperationId,
        after: Option<u64>,
    ) -> Made {
        let request = self.guest.handles(&[self.request(operation)]);
        let outputs = after.map(|handle| Output::Handle(request, handle));
        Made {
            name,
            words: vec![request],
            outputs: outputs.into_iter().collect(),
        }
    }

    /// `MPI_Cart_create` or `MPI_Dist_graph_create_adjacent`.
    fn topology(&mut self, made: CommunicatorId, out: u64) -> (&'static str, Vec<u64>) {
        let communicator = &self.job.communicators[made];
        let own = self.job.actors[self.executed.actor].rank;
        if let Some(Topology::Grid(sizes)) = &communicator.topology {
            let dimensions: Vec<i32> = sizes.iter().map(|(size, _)| size.cast_signed()).collect();
            let periods: Vec<i32> = sizes.iter().map(|(_, round)| i32::from(*round)).collect();
            let [dims, periods] = [dimensions, periods].map(|it| self.guest.ints(&it));
            let words = vec![
                self.library.world,
                sizes.len() as u64,
                dims,
                periods,
                int(0),
                out,
            ];
            return ("MPI_Cart_create", words);
        }
        let [sources, destinations] = communicator.neighbors(own).map(|ranks| {
            let ranks: Vec<i32> = ranks.into_iter().flatten().map(u32::cast_signed).collect();
            (ranks.len() as u64, self.guest.ints(&ranks))
        });
        let words = vec![
            self.library.world,
            sources.0,
            sources.1,
            UNWEIGHTED,
            destinations.0,
            destinations.1,
            UNWEIGHTED,
            self.library.no_info,
            int(0),
            out,
        ];
        ("MPI_Dist_graph_create_adjacent", words)
    }

    fn communicator(&mut self, made: CommunicatorId, making: Making) -> Made {
        let out = self.guest.handles(&[0]);
        let rank = self.job.actors[self.executed.actor].rank.cast_signed();
        let (name, words) = match making {
            Making::Copy => ("MPI_Comm_dup", vec![self.library.world, out]),
            Making::Split => (
                "MPI_Comm_split",
                vec![self.library.world, int(rank % 2), int(rank), out],
            ),
            Making::Topology => self.topology(made, out),
            // The parts' first members are ranks 0 and 1 of the world.
            Making::Between(part) => {
                let leader = int(1 - rank % 2);
                let words = vec![
                    self.handle_of(part),
                    int(0),
                    self.library.world,
                    leader,
                    int(12),
                    out,
                ];
                ("MPI_Intercomm_create", words)
            }
        };
        Made {
            name,
            words,
            outputs: vec![Output::Handle(out, self.handle_of(made))],
        }
    }
}
