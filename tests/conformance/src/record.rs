//! Events of a simulated job, by the tracer's own decoding.
//!
//! Each rank is a scripted process of MPICH or Open MPI on a node of 1 GHz, which it may share with others. Calls are entered and left in the order of time, so threads overlap as
//! they did. Events come in the order of a trace: by exit, then by node.

/// Arguments and outputs of calls.
mod arguments;
/// Calls that begin operations and wait for them.
mod blocking;
/// Functions of collective operations.
mod collective;
/// Calls that complete requests.
mod completing;
/// Constants of MPI libraries.
mod library;
/// Calls on windows.
mod windows;

use std::collections::BTreeMap;
use std::convert::Infallible;

use belljar_sim::Frequency;
use belljar_trace::{Event, Folder, TraceHeader};
use belljar_tracer::scripted::Guest;
use belljar_tracer::{NodeTracer, Selection};

use crate::job::{Action, ActorId, Call, Form, Job, OperationId};
use crate::simulate::{Executed, Execution};
use arguments::{Arguments, Output};
use library::Library;

/// The trace of a job.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) header: TraceHeader,
    pub(crate) events: Vec<Event>,
}

/// `MPI_ERR_RANK` of MPICH.
const ERROR: i32 = 6;
/// The thread pointer of a rank's first thread, and its distance to the next one's.
const THREAD: u64 = 0x7f22_0000_0000;
const THREADS_APART: u64 = 0x10_0000;
/// The distance from one thread's stack to the next one's.
const STACKS_APART: u64 = 0x4000;

/// One rank: its process.
struct Rank {
    /// Its node, by which its tracer is found.
    node: usize,
    guest: Guest,
    library: Library,
    /// By thread, the stack pointer between calls.
    stacks: [u64; 2],
    /// By call of the job, the address of the requests that it completes.
    polled: BTreeMap<(ActorId, usize), u64>,
    /// True if its first thread is in a call that never returns.
    is_stuck: bool,
}

/// A call that was entered and not left.
struct Inside {
    slot: u64,
    outputs: Vec<Output>,
    failed: bool,
}

/// The moments of an execution: entries and exits of its calls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    at: u64,
    leaves: bool,
    call: usize,
}

/// Records all calls of an execution.
pub(crate) fn record(job: &Job, execution: &Execution) -> Recorded {
    let nodes = job.nodes.iter().max().map_or(0, |last| last + 1);
    let mut tracers: Vec<NodeTracer> = (0..nodes)
        .map(|node| NodeTracer::new(node, &Selection::default()))
        .collect();
    let ranks = (0..job.ranks).map(|rank| Rank::new(job, rank, &mut tracers));
    let mut ranks: Vec<Rank> = ranks.collect();
    let mut moments = Vec::new();
    for (call, executed) in execution.calls.iter().enumerate() {
        moments.push(Moment {
            at: executed.entry,
            leaves: false,
            call,
        });
        moments.extend(executed.exit.map(|at| Moment {
            at,
            leaves: true,
            call,
        }));
    }
    moments.sort_unstable();
    for rank in &mut ranks {
        rank.introduce(&mut tracers, job);
    }
    let mut inside: Vec<Option<Inside>> = execution.calls.iter().map(|_| None).collect();
    for moment in moments {
        let executed = &execution.calls[moment.call];
        let rank = job.actors[executed.actor].rank as usize;
        match inside[moment.call].take() {
            Some(call) => ranks[rank].leave(&mut tracers, job, executed, call),
            None => {
                inside[moment.call] =
                    Some(ranks[rank].enter(&mut tracers, job, execution, executed))
            }
        }
    }
    let last = execution
        .calls
        .iter()
        .map(|call| call.exit.unwrap_or(call.entry))
        .max()
        .unwrap_or(0);
    let mut events = Vec::new();
    for rank in &mut ranks {
        rank.finalize(&mut tracers, last, job.is_cut);
    }
    for tracer in &mut tracers {
        events.extend(tracer.take_events());
    }
    events.sort_by_key(|event| (event.end(), event.node));
    // Calls that never returned are the end of a trace.
    events.extend(tracers.iter().flat_map(NodeTracer::open_calls));
    if job.folded {
        events = folded(events);
    }
    let rate = Frequency::from_hz(1_000_000_000).expect("a frequency");
    Recorded {
        header: TraceHeader::new("conformance", &vec![rate; nodes as usize]),
        events,
    }
}

/// The events with polls that follow one another as one.
fn folded(events: Vec<Event>) -> Vec<Event> {
    let mut folder = Folder::default();
    let mut out = Vec::new();
    let mut next = |event| -> Result<(), Infallible> {
        out.push(event);
        Ok(())
    };
    for event in events {
        let Ok(()) = folder.take(event, &mut next);
    }
    let Ok(()) = folder.finish(&mut next);
    out
}

impl Rank {
    fn new(job: &Job, rank: u32, tracers: &mut [NodeTracer]) -> Self {
        let node = job.nodes[rank as usize] as usize;
        let (guest, library) = match job.open_mpi {
            true => {
                let guest = Guest::open_mpi(&mut tracers[node], rank.into());
                let library = Library::open_mpi(&guest);
                (guest, library)
            }
            false => {
                let guest = Guest::mpich(&mut tracers[node], rank.into());
                (guest, Library::MPICH)
            }
        };
        let stacks = [guest.stack, guest.stack - STACKS_APART];
        Self {
            node,
            guest,
            library,
            stacks,
            polled: BTreeMap::new(),
            is_stuck: false,
        }
    }

    /// The calls with which each rank begins.
    fn introduce(&mut self, tracers: &mut [NodeTracer], job: &Job) {
        self.plain(tracers, "MPI_Init", &[0, 0], 2000);
        let size = self.guest.ints(&[job.ranks.cast_signed()]);
        self.plain(tracers, "MPI_Comm_size", &[self.library.world, size], 3000);
        let group = self.guest.handles(&[self.library.made(windows::ALL)]);
        self.plain(
            tracers,
            "MPI_Comm_group",
            &[self.library.world, group],
            4000,
        );
    }

    /// The call with which each rank ends. It waits for all ranks, so in a job that is cut off it never returns, and ranks that
    /// are blocked in a call do not reach it.
    fn finalize(&mut self, tracers: &mut [NodeTracer], last: u64, is_cut: bool) {
        let tracer = &mut tracers[self.node];
        self.guest.thread = THREAD;
        self.guest.clock = last + 5000;
        match is_cut {
            false => self.guest.call_with(tracer, "MPI_Finalize", &[], |_, _| {}),
            true if !self.is_stuck => {
                self.guest.stack = self.stacks[0];
                self.guest.enter(tracer, "MPI_Finalize", &[]);
            }
            true => {}
        }
    }

    /// A call of the first thread that waits for nothing.
    fn plain(&mut self, tracers: &mut [NodeTracer], name: &str, arguments: &[u64], at: u64) {
        self.guest.thread = THREAD;
        self.guest.clock = at;
        self.guest
            .call_with(&mut tracers[self.node], name, arguments, |_, _| {});
    }

    fn enter(
        &mut self,
        tracers: &mut [NodeTracer],
        job: &Job,
        execution: &Execution,
        executed: &Executed,
    ) -> Inside {
        let actor = &job.actors[executed.actor];
        let thread = actor.thread as usize;
        self.guest.thread = THREAD + THREADS_APART * u64::from(actor.thread);
        self.guest.stack = self.stacks[thread];
        // Entering and leaving take the guest 10 and 100 cycles.
        self.guest.clock = executed.entry - 10;
        self.is_stuck |= executed.exit.is_none() && thread == 0;
        let call = &actor.calls[executed.call];
        let made = Arguments {
            library: self.library,
            job,
            execution,
            executed,
            guest: &mut self.guest,
            polled: &mut self.polled,
        }
        .of(call);
        let slot = self
            .guest
            .enter(&mut tracers[self.node], made.name, &made.words);
        Inside {
            slot,
            outputs: made.outputs,
            failed: call.form == Form::Fail,
        }
    }

    fn leave(&mut self, tracers: &mut [NodeTracer], job: &Job, executed: &Executed, call: Inside) {
        let actor = &job.actors[executed.actor];
        self.guest.thread = THREAD + THREADS_APART * u64::from(actor.thread);
        for output in &call.outputs {
            output.write(&mut self.guest);
        }
        self.guest.clock = executed.exit.unwrap_or(executed.entry) - 100;
        let result = if call.failed { ERROR } else { 0 };
        self.guest.leave(&mut tracers[self.node], call.slot, result);
    }
}

/// The operation that a call begins, prepares or completes alone.
fn only(call: &Call) -> OperationId {
    call.operations[0]
}

/// True if any of a call's receives requests a status.
fn asks_for_status(job: &Job, call: &Call) -> bool {
    let mut actions = call
        .operations
        .iter()
        .map(|operation| job.operations[*operation].action);
    actions.any(Action::asks_for_status)
}
