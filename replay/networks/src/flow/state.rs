//! The state of a network of flows, as plain values.
//!
//! It is that between two events; with the topology and the hosts' pace it says everything that is to come. A state may come from a file that anybody wrote, so it is checked before it is used. Called for states of simulations.

use std::collections::BTreeSet;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use super::fair::SharingState;
use super::{Flow, FlowNetwork};

/// All that changes of a [`FlowNetwork`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FlowState {
    /// By message, when its last byte will have left, and from there to its arrival.
    flows: Vec<Option<(Time, Span)>>,
    sharing: SharingState,
    small: Vec<u64>,
}

impl FlowNetwork {
    pub(super) fn save(&self) -> FlowState {
        let flows = self.flows.iter();
        FlowState {
            flows: flows
                .map(|flow| flow.map(|flow| (flow.ends, flow.after)))
                .collect(),
            sharing: self.sharing.save(),
            small: self.small.clone(),
        }
    }

    /// Continues from `state`; whether it can be one of this network. If not, nothing has changed.
    pub(super) fn restore(&mut self, state: FlowState) -> bool {
        let own = (0..).zip(&state.flows);
        let own = own.filter_map(|(id, flow)| flow.map(|_| id));
        let sound = state.small.len() == self.small.len()
            && own.eq(state.sharing.flows())
            && self.sharing.restore(state.sharing);
        if !sound {
            return false;
        }
        let flows = state.flows.into_iter();
        self.flows = flows
            .map(|flow| flow.map(|(ends, after)| Flow { ends, after }))
            .collect();
        let ends = (0..).zip(&self.flows);
        self.ends = ends
            .filter_map(|(id, flow)| flow.map(|flow| (flow.ends, id)))
            .collect::<BTreeSet<_>>();
        self.small = state.small;
        true
    }
}
