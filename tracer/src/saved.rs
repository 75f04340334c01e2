//! A tracer's state as bytes, for runs that continue later.
//!
//! A restored tracer behaves like the saved one. The bytes are untrusted: invalid or inconsistent state is refused.
//! Used for checkpoints.

use std::collections::BTreeMap;

use belljar_trace::{
    Counters, ProcessInfo, SavedSites, StateError, Unencoded, codec, give_back, load_events,
    load_sites, save_events, save_sites, unencoded,
};
use belljar_unwind::Mappings;
use bincode::Decode;

use crate::calls::{OpenCalls, Space};
use crate::launch::Launched;
use crate::node::NodeTracer;
use crate::own::OwnProbes;
use crate::own::buffers::NodeBuffers;
use crate::process::Process;
use crate::selection::Selection;

#[derive(Decode)]
struct NodeState {
    started: u32,
    known: Vec<ProcessInfo>,
    processes: BTreeMap<Space, Process>,
    open: OpenCalls,
    open_sums: Vec<Unencoded>,
    events: Vec<u8>,
    counters: Counters,
    launched: BTreeMap<Space, Launched>,
    silent: BTreeMap<(String, u32), u64>,
    open_sites: SavedSites,
    mappings: BTreeMap<Space, Mappings>,
    own: OwnProbes,
    changed: u64,
    gone: BTreeMap<u32, Option<u32>>,
    buffers: NodeBuffers,
}

impl NodeTracer {
    /// Returns its whole state, for [`restore`](Self::restore) with the same node and selection.
    ///
    /// # Errors
    /// Fails if there is more of it than can be read again.
    pub fn save(&self) -> Result<Vec<u8>, StateError> {
        let sums: Vec<Unencoded> = self.open.all().map(|it| unencoded(&it.event)).collect();
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
        let open = self.open.all().map(|call| &call.event);
        codec::encode(&save_sites(open), &mut bytes)?;
        codec::encode(&self.sites.mappings, &mut bytes)?;
        codec::encode(&self.own, &mut bytes)?;
        codec::encode(&self.changed, &mut bytes)?;
        codec::encode(&self.gone, &mut bytes)?;
        codec::encode(&self.buffers, &mut bytes)?;
        codec::check::<NodeState>(&bytes)?;
        Ok(bytes)
    }

    /// Restores the tracer of node number `node` from a [saved](Self::save) state.
    ///
    /// # Errors
    /// Fails if `saved` is not the state of a tracer.
    pub fn restore(node: u32, selection: &Selection, saved: &[u8]) -> Result<Self, StateError> {
        let state: NodeState = codec::decode(saved)?;
        let mut open = state.open;
        let sound = state.processes.values().all(Process::is_sound)
            && state.mappings.values().all(Mappings::is_sound)
            && state.own.is_sound();
        if !sound || open.all().count() != state.open_sums.len() {
            return Err(StateError::contradiction());
        }
        for (event, sums) in open.events_mut().zip(state.open_sums) {
            give_back(event, sums);
        }
        load_sites(open.events_mut(), &state.open_sites)?;
        let mut tracer = Self::new(node, selection);
        tracer.started = state.started;
        tracer.known = state.known;
        tracer.processes = state.processes;
        tracer.open = open;
        tracer.events = load_events(&state.events)?;
        tracer.counters = state.counters;
        tracer.launched = state.launched;
        tracer.silent = state.silent;
        tracer.sites.mappings = state.mappings;
        tracer.own = state.own;
        tracer.changed = state.changed;
        tracer.gone = state.gone;
        tracer.buffers = state.buffers;
        Ok(tracer)
    }
}

#[cfg(test)]
mod tests;
