//! What a tracer and a trace being written know, as bytes: for runs that continue later.
//!
//! A tracer that is restored does what the saved one would have done. Bytes may come from anybody: those
//! that are no such state, or contradict themselves, are refused. Called for checkpoints and for what hosts
//! of a run send each other.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};

use crate::account::Account;
use crate::calls::{OpenCalls, Space};
use crate::codec;
use crate::counters::{Counters, NodeSummary, ProcessInfo};
use crate::event::Event;
use crate::launch::Launched;
use crate::node::NodeTracer;
use crate::process::Process;
use crate::selection::Selection;

/// State that cannot be saved, or bytes that are not such state.
#[derive(Debug, thiserror::Error)]
#[error("the state of a tracer: {0}")]
pub struct StateError(String);

impl From<codec::CodecError> for StateError {
    fn from(error: codec::CodecError) -> Self {
        Self(error.to_string())
    }
}

/// What is not encoded with an event.
type Sums = Option<[Account; 2]>;

#[derive(Decode)]
struct NodeState {
    started: u32,
    known: Vec<ProcessInfo>,
    processes: BTreeMap<Space, Process>,
    open: OpenCalls,
    open_sums: Vec<Sums>,
    events: Vec<u8>,
    counters: Counters,
    launched: BTreeMap<Space, Launched>,
    silent: BTreeMap<(String, u32), u64>,
}

impl NodeTracer {
    /// All that it knows, to be [restored](Self::restore) with the same node and selection.
    ///
    /// # Errors
    /// When there is more of it than can be read again.
    pub fn save(&self) -> Result<Vec<u8>, StateError> {
        let sums: Vec<Sums> = self.open.all().map(|call| call.event.accounts.0).collect();
        let mut bytes = Vec::new();
        // The fields of `NodeState`, in order.
        codec::encode(&self.started, &mut bytes)?;
        codec::encode(&self.known, &mut bytes)?;
        codec::encode(&self.processes, &mut bytes)?;
        codec::encode(&self.open, &mut bytes)?;
        codec::encode(&sums, &mut bytes)?;
        codec::encode(&save_events(&self.events)?, &mut bytes)?;
        codec::encode(&self.counters, &mut bytes)?;
        codec::encode(&self.launched, &mut bytes)?;
        codec::encode(&self.silent, &mut bytes)?;
        codec::check::<NodeState>(&bytes)?;
        Ok(bytes)
    }

    /// The tracer of node number `node` that continues where another one was
    /// [saved](Self::save).
    ///
    /// # Errors
    /// When `saved` is not the state of a tracer.
    pub fn restore(node: u32, selection: &Selection, saved: &[u8]) -> Result<Self, StateError> {
        let state: NodeState = codec::decode(saved)?;
        let mut open = state.open;
        let sound = state.processes.values().all(Process::is_sound);
        if !sound || open.all().count() != state.open_sums.len() {
            return Err(StateError("its parts do not fit together".to_owned()));
        }
        for (event, sums) in open.events_mut().zip(state.open_sums) {
            event.accounts.0 = sums;
        }
        let mut tracer = Self::new(node, selection);
        tracer.started = state.started;
        tracer.known = state.known;
        tracer.processes = state.processes;
        tracer.open = open;
        tracer.events = load_events(&state.events)?;
        tracer.counters = state.counters;
        tracer.launched = state.launched;
        tracer.silent = state.silent;
        Ok(tracer)
    }
}

/// Events as bytes, with what their nodes' time went into.
///
/// # Errors
/// When there are more than can be read again.
pub fn save_events(events: &[Event]) -> Result<Vec<u8>, StateError> {
    let mut bytes = Vec::new();
    codec::encode(&events, &mut bytes)?;
    let sums: Vec<Sums> = events.iter().map(|event| event.accounts.0).collect();
    codec::encode(&sums, &mut bytes)?;
    codec::check::<(Vec<Event>, Vec<Sums>)>(&bytes)?;
    Ok(bytes)
}

/// The events that were [saved](save_events).
///
/// # Errors
/// When the bytes are something else.
pub fn load_events(saved: &[u8]) -> Result<Vec<Event>, StateError> {
    let (mut events, sums): (Vec<Event>, Vec<Sums>) = codec::decode(saved)?;
    if events.len() != sums.len() {
        return Err(StateError("its parts do not fit together".to_owned()));
    }
    for (event, sums) in events.iter_mut().zip(sums) {
        event.accounts.0 = sums;
    }
    Ok(events)
}

/// What tracers say at a run's end, as bytes.
///
/// # Errors
/// When there is more of it than can be read again.
pub fn save_summaries(summaries: &[NodeSummary]) -> Result<Vec<u8>, StateError> {
    let mut bytes = Vec::new();
    codec::encode(&summaries, &mut bytes)?;
    codec::check::<Vec<NodeSummary>>(&bytes)?;
    Ok(bytes)
}

/// What was [saved](save_summaries).
///
/// # Errors
/// When the bytes are something else.
pub fn load_summaries(saved: &[u8]) -> Result<Vec<NodeSummary>, StateError> {
    Ok(codec::decode(saved)?)
}

/// How far a trace is written, and what waits to be: see [`TraceWriter::save`].
///
/// [`TraceWriter::save`]: crate::TraceWriter::save
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct WriterState {
    /// Bytes of the file.
    pub(crate) length: u64,
    /// Events in it.
    pub(crate) events: u64,
    /// Chunks of events in it.
    pub(crate) chunks: u64,
    /// Events that will be in the next chunk, [saved](save_events).
    pub(crate) pending: Vec<u8>,
}

#[cfg(test)]
mod tests;
