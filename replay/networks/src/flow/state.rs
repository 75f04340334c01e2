//! The state of a network of flows, as plain values.
//!
//! It is the state between two events; with the topology and the hosts' pace it determines all further events. A state may come from an untrusted file, so it is checked
//! before use. Used for states of simulations.

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use super::ends::FlowEnds;
use super::fair::SharingState;
use super::streams::Streams;
use super::{Flow, FlowNetwork, Queued, Stream};
use crate::message::{MOST_BYTES, MessageId};

/// A message behind others: its number, its bytes, the time from its last byte to its arrival, and its links.
type QueuedState = (MessageId, u64, Span, Vec<u32>);

/// The mutable state of a [`FlowNetwork`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowState {
    /// By message: the time at which its last byte leaves, the time from then to its arrival, and its stream.
    flows: Vec<Option<(Time, Span, Stream)>>,
    /// Streams with a message in flight, and the messages behind it: numbers, bytes, time after the last byte, links.
    streams: Vec<(Stream, Vec<QueuedState>)>,
    sharing: SharingState,
    small: Vec<u64>,
}

impl FlowNetwork {
    pub(super) fn save(&self) -> FlowState {
        let flows = self.flows.iter();
        FlowState {
            flows: flows
                .map(|flow| flow.map(|flow| (flow.ends, flow.after, self.streams.of(flow.stream))))
                .collect(),
            streams: self
                .streams
                .busy()
                .map(|(stream, behind)| (stream, behind.map(Queued::save).collect()))
                .collect(),
            sharing: self.sharing.save(),
            small: self.small.clone(),
        }
    }

    /// Continues from `state`, and returns true if it fits this network. Otherwise, nothing has changed.
    pub(super) fn restore(&mut self, state: FlowState) -> bool {
        let own = (0..).zip(&state.flows);
        let own = own.filter_map(|(id, flow)| flow.map(|_| id));
        let sound = state.small.len() == self.small.len()
            && self.are_sound(&state)
            && own.eq(state.sharing.flows())
            && self.sharing.restore(state.sharing);
        if !sound {
            return false;
        }
        self.streams = Streams::of_hosts(self.topology.hosts());
        for (stream, behind) in state.streams {
            let behind = behind.into_iter().map(Queued::load).collect();
            self.streams.occupy(stream, behind);
        }
        self.ends = FlowEnds::default();
        self.flows = vec![None; state.flows.len()];
        for (id, flow) in (0..).zip(state.flows) {
            let Some((ends, after, stream)) = flow else {
                continue;
            };
            let stream = self.streams.number(stream);
            self.ends.set(id, ends);
            self.flows[id as usize] = Some(Flow {
                ends,
                after,
                stream,
            });
        }
        self.small = state.small;
        true
    }

    /// True if each stream is between hosts and has one message in flight, and each message has links of this network.
    fn are_sound(&self, state: &FlowState) -> bool {
        let links = self.small.len() + 2 * self.topology.hosts() as usize;
        let mut queued = state.streams.iter().flat_map(|(_, behind)| behind);
        let under_way = state.flows.iter().flatten();
        let mut under_way: Vec<Stream> = under_way.map(|(.., stream)| *stream).collect();
        under_way.sort_unstable();
        let hosts = self.topology.hosts();
        let known = |(from, to, _): &Stream| *from < hosts && *to < hosts;
        let streams = state.streams.iter().map(|(stream, _)| *stream);
        under_way.iter().all(known)
            && streams.eq(under_way)
            && queued.all(|(_, bytes, _, over)| {
                *bytes <= 2 * MOST_BYTES && over.iter().all(|link| (*link as usize) < links)
            })
    }
}

impl Queued {
    fn save(&self) -> QueuedState {
        (self.id, self.bytes, self.after, self.over.to_vec())
    }

    fn load((id, bytes, after, over): QueuedState) -> Self {
        Self {
            id,
            bytes,
            after,
            over: over.into(),
        }
    }
}
