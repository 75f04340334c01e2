//! A traced run as sequences of calls, one for each rank.
//!
//! Unsuccessful polls are left out, as their number depends on the waiting time. Each call has the thread's own time before it and the processor's own work in it, from
//! the calibration of a replay; both exclude waiting. Used by models.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::{Communicators, communicators};
use belljar_program::{Thread, asks_time, found_nothing};
use belljar_replay::Calibration;
use belljar_trace::{Event, Fact, Peer, TRACE_FILE, TraceError, TraceHeader};

/// A run from which a model is learned.
#[derive(Clone, Copy, Debug)]
pub struct Traced<'a> {
    /// Its trace.
    pub trace: &'a Path,
    /// The program of its processes.
    pub program: &'a belljar_program::Program,
    /// The calibration of its calls, which separates work from waiting.
    pub calibration: &'a Calibration,
    /// The problem's size, as the user counts it.
    pub size: f64,
}

/// An error in a run for a model.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// It has several programs, or none.
    #[error("the trace has {0} MPI jobs; a model is of one")]
    Jobs(u32),
    /// Several threads of a process call MPI.
    #[error("rank {0} calls MPI from several threads; models are of programs in which one does")]
    Threads(u32),
    /// A rank is not in the trace.
    #[error("rank {0} left no call in the trace")]
    Absent(u32),
    /// Calls of the trace and of the program extracted from it differ.
    #[error(
        "call {call} of rank {rank} is not the one that a replay has there: the trace is damaged"
    )]
    Differs {
        /// The rank.
        rank: u32,
        /// The call, from 0.
        call: usize,
    },
}

/// A call of a rank in a run.
#[derive(Clone, Debug)]
pub(crate) struct RunCall {
    pub(crate) event: Event,
    /// The number of its class of equivalent calls.
    pub(crate) token: u32,
    /// Picoseconds of the thread's own time before it.
    pub(crate) before: f64,
    /// Picoseconds of its own work inside.
    pub(crate) own: f64,
}

/// A run.
#[derive(Debug)]
pub(crate) struct Run {
    /// Its directory, or its trace.
    pub(crate) name: String,
    pub(crate) ranks: u32,
    pub(crate) size: f64,
    pub(crate) communicators: Communicators,
    pub(crate) header: TraceHeader,
    /// Calls by rank.
    pub(crate) steps: Vec<Vec<RunCall>>,
    /// The begin of each rank's first call, in picoseconds.
    pub(crate) starts: Vec<u64>,
    /// True for a program that creates an MPI grid.
    pub(crate) grids: bool,
    /// Ranks on the node of rank 0.
    pub(crate) per_node: u32,
}

/// Numbers of classes of equivalent calls, the same in all runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tokens(BTreeMap<Vec<u64>, u32>);

impl Tokens {
    fn of(&mut self, event: &Event) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(likeness(event)).or_insert(next)
    }
}

/// Returns the common properties of equivalent calls: all except peers, amounts and tags.
fn likeness(event: &Event) -> Vec<u64> {
    let mut words = vec![u64::from(event.function), event.started.len() as u64];
    words.push(event.communicator.map_or(u64::MAX, u64::from));
    for transfer in &event.transfers {
        words.push(0x1000 + transfer.direction as u64 * 8 + transfer.phase as u64);
        words.push(u64::from(transfer.peer == Peer::Any));
        words.push(transfer.communicator.map_or(u64::MAX, u64::from));
    }
    for collective in &event.collectives {
        words.push(0x2000 + collective.phase as u64);
        words.push(u64::from(collective.root.is_some()));
        words.push(collective.communicator.map_or(u64::MAX, u64::from));
    }
    words.push(match &event.fact {
        None => 0,
        Some(Fact::Communicator(new)) => 1 + (u64::from(new.number.is_some()) << 8),
        Some(Fact::Group { .. }) => 2,
        Some(Fact::Datatype(_)) => 3,
        Some(Fact::Launch(_)) => 4,
        Some(Fact::Size { .. }) => 5,
        Some(Fact::Rank { .. }) => 6,
        Some(Fact::Scheduled(_)) => 7,
    });
    if let Some(stack) = &event.site.0 {
        for frame in &stack.0 {
            let file = frame.file.as_ref().map_or(0, |file| file.path.len() as u64);
            words.extend([frame.address, file]);
        }
    }
    words
}

impl Run {
    /// Reads a run.
    pub(crate) fn read(traced: &Traced<'_>, tokens: &mut Tokens) -> Result<Self, RunError> {
        let communicators = communicators(traced.trace)?;
        if communicators.jobs() != 1 {
            return Err(RunError::Jobs(communicators.jobs()));
        }
        let ranks = communicators.job_size(0);
        let mut threads = BTreeMap::new();
        for (number, thread) in traced.program.threads.iter().enumerate() {
            let rank = traced.program.processes[thread.process as usize].rank;
            if threads.insert(rank, (number, thread)).is_some() {
                return Err(RunError::Threads(rank));
            }
        }
        let mut reader = TraceReader::open(traced.trace)?;
        let header = reader.header().clone();
        let mut events: BTreeMap<u32, Vec<Event>> = BTreeMap::new();
        for event in reader.by_ref() {
            // Unsuccessful polls are not part of a program's work; clock readings are.
            let polls = found_nothing(&event) && !asks_time(&event);
            if event.depth == 0 && event.exit.is_some() && !polls {
                events.entry(event.rank).or_default().push(event);
            }
        }
        let named = match traced.trace.file_name() {
            Some(name) if name == TRACE_FILE => traced.trace.parent(),
            _ => None,
        };
        let mut run = Self {
            name: named.unwrap_or(traced.trace).display().to_string(),
            ranks,
            size: traced.size,
            communicators,
            header,
            steps: Vec::new(),
            starts: Vec::new(),
            grids: false,
            per_node: 0,
        };
        let first = traced.program.processes.first().map(|process| process.node);
        let on_first = |process: &&belljar_program::Process| Some(process.node) == first;
        run.per_node = traced.program.processes.iter().filter(on_first).count() as u32;
        let asks = |event: &Event| belljar_mpi::lays_out_grids(event.function);
        run.grids = events.values().flatten().any(asks);
        for rank in 0..ranks {
            let (Some((number, thread)), Some(own)) = (threads.get(&rank), events.remove(&rank))
            else {
                return Err(RunError::Absent(rank));
            };
            let residuals = traced.calibration.of_thread(*number);
            run.starts.push(thread.start);
            run.steps
                .push(steps(own, thread, residuals, rank, &mut *tokens)?);
        }
        Ok(run)
    }
}

/// Returns the calls of a rank with their times, taken from the program.
fn steps(
    events: Vec<Event>,
    thread: &Thread,
    residuals: &[i64],
    rank: u32,
    tokens: &mut Tokens,
) -> Result<Vec<RunCall>, RunError> {
    let mut calls = thread.calls.iter().zip(residuals).peekable();
    let mut steps = Vec::with_capacity(events.len());
    let mut polled = 0.0;
    for (call, event) in events.into_iter().enumerate() {
        let differs = RunError::Differs { rank, call };
        // Polls that no call ended are the program's own time.
        let (own, residual) = loop {
            let Some((own, residual)) = calls.next() else {
                return Err(differs);
            };
            if own.function == event.function {
                break (own, residual);
            }
            if !belljar_mpi::meaning(own.function).polls {
                return Err(differs);
            }
            polled += own.before as f64 + own.inside as f64;
        };
        steps.push(RunCall {
            token: tokens.of(&event),
            event,
            before: std::mem::take(&mut polled) + own.before as f64,
            own: (*residual).max(0) as f64,
        });
    }
    Ok(steps)
}
