//! Flows and the links that they share, as plain values.
//!
//! A state may come from an untrusted file, so it is checked before use. Used for states of networks of flows.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Flow, FlowId, LEAST, Link, MOST, Sharing};

/// The mutable state of [`Sharing`] between two changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::flow) struct SharingState {
    links: Vec<LinkState>,
    /// The existing flows, by number.
    flows: Vec<(FlowId, FlowState)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct LinkState {
    /// In the order of their beginnings.
    flows: Vec<FlowId>,
    used: f64,
    carried: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct FlowState {
    over: Vec<u32>,
    rest: f64,
    since: u64,
    rate: f64,
}

impl SharingState {
    /// Returns the numbers of flows, in order.
    pub(in crate::flow) fn flows(&self) -> impl Iterator<Item = FlowId> {
        self.flows.iter().map(|(id, _)| *id)
    }

    /// True if it is a possible state with this number of links.
    fn is_sound(&self, links: usize) -> bool {
        let amount = |value: f64| value.is_finite() && value >= 0.0;
        let mut all = self.links.iter();
        let mut flows = self.flows.iter().map(|(_, flow)| flow);
        let over = self.flows.iter().flat_map(|(id, flow)| {
            let links = flow.over.iter();
            links.map(|link| (*link, *id))
        });
        let mut over: Vec<(u32, FlowId)> = over.collect();
        let carried = (0..).zip(&self.links).flat_map(|(number, link)| {
            let flows = link.flows.iter();
            flows.map(move |id| (number, *id))
        });
        let mut carried: Vec<(u32, FlowId)> = carried.collect();
        over.sort_unstable();
        carried.sort_unstable();
        self.links.len() == links
            && self.flows().is_sorted_by(|one, other| one < other)
            && over == carried
            && all.all(|link| link.used.is_finite() && amount(link.carried))
            && flows.all(|flow| amount(flow.rest) && (LEAST..=MOST).contains(&flow.rate))
    }
}

impl Sharing {
    /// Returns the mutable state; changed rates must have been taken before.
    pub(in crate::flow) fn save(&self) -> SharingState {
        let links = self.links.iter().map(|link| LinkState {
            flows: link.flows.clone(),
            used: link.used,
            carried: link.carried,
        });
        let flows = (0..).zip(&self.flows).filter_map(|(id, flow)| {
            let flow = flow.as_ref()?;
            let state = FlowState {
                over: flow.over.to_vec(),
                rest: flow.rest,
                since: flow.since,
                rate: flow.rate,
            };
            Some((id, state))
        });
        SharingState {
            links: links.collect(),
            flows: flows.collect(),
        }
    }

    /// Continues from `state`, and returns true if it fits these links. Otherwise, nothing has changed.
    pub(in crate::flow) fn restore(&mut self, state: SharingState) -> bool {
        if !state.is_sound(self.links.len()) {
            return false;
        }
        for (link, state) in self.links.iter_mut().zip(state.links) {
            // The counters of changes restart.
            *link = Link {
                flows: state.flows,
                used: state.used,
                carried: state.carried,
                change: 0,
                ..*link
            };
        }
        self.change = 0;
        let most = state.flows.last().map_or(0, |(id, _)| *id as usize + 1);
        self.flows = vec![None; most];
        for (id, state) in state.flows {
            self.flows[id as usize] = Some(Flow {
                over: Arc::from(state.over),
                rest: state.rest,
                since: state.since,
                rate: state.rate,
                change: 0,
                settled: false,
            });
        }
        true
    }
}
