//! Max-min fair rates, by filling: all flows' rates grow equally, until a link on the flow's route is full.
//!
//! When a flow begins or ends, the rates of the flows that share a link with it are recomputed from the capacity that all others leave. The others keep their rates until
//! a change on one of their own links. The cost of a change therefore depends on the sharing of links, and not on the number of flows in the network. Links never carry
//! more than their capacity. Rates are bytes a picosecond. All steps are in the order of numbers, so sums are reproducible. Used by networks of flows.

/// Flows and links as plain values.
mod state;

use std::sync::Arc;

pub(super) use state::SharingState;

/// The number of a flow.
type FlowId = u32;

#[derive(Clone, Debug)]
struct Flow {
    over: Arc<[u32]>,
    /// Bytes that have not left at `since`.
    rest: f64,
    since: u64,
    rate: f64,
    /// The last change that involved it.
    change: u64,
    /// True if its rate is settled in that change.
    settled: bool,
}

/// A link, and the rates of its flows.
#[derive(Clone, Debug)]
struct Link {
    /// Bytes a picosecond.
    capacity: f64,
    flows: Vec<FlowId>,
    /// Sum of its flows' rates.
    used: f64,
    /// Bytes that it has carried or will carry for the current flows.
    carried: f64,
    /// The last change that involved it.
    change: u64,
    /// The remaining capacity for flows of that change that are not settled, and their number.
    left: f64,
    open: u32,
}

/// Flows and the links that they share.
#[derive(Clone, Debug)]
pub(super) struct Sharing {
    links: Vec<Link>,
    flows: Vec<Option<Flow>>,
    change: u64,
    /// Flows whose rates changed.
    changed: Vec<FlowId>,
    /// Flows and links of the current change, kept to reuse their memory.
    among: Vec<FlowId>,
    touched: Vec<u32>,
}

/// Lowest rate: one byte a second.
const LEAST: f64 = 1e-12;
/// The rate of an unbounded flow: a kilobyte a picosecond.
const MOST: f64 = 1e3;

impl Sharing {
    /// Returns the number of flows on a link.
    pub(super) fn flows_on(&self, link: u32) -> u64 {
        let link = self.links.get(link as usize);
        link.map_or(0, |link| link.flows.len() as u64)
    }

    /// Creates links of these capacities, in bytes a picosecond.
    pub(super) fn new(capacities: Vec<f64>) -> Self {
        let link = |capacity| Link {
            capacity,
            flows: Vec::new(),
            used: 0.0,
            carried: 0.0,
            change: 0,
            left: 0.0,
            open: 0,
        };
        Self {
            links: capacities.into_iter().map(link).collect(),
            flows: Vec::new(),
            change: 0,
            changed: Vec::new(),
            among: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Begins a flow of `bytes`.
    pub(super) fn begin(&mut self, now: u64, id: FlowId, over: Arc<[u32]>, bytes: f64) {
        for link in over.iter() {
            let link = &mut self.links[*link as usize];
            link.flows.push(id);
            link.carried += bytes;
        }
        if self.flows.len() <= id as usize {
            self.flows.resize(id as usize + 1, None);
        }
        self.flows[id as usize] = Some(Flow {
            over: Arc::clone(&over),
            rest: bytes,
            since: now,
            rate: 0.0,
            change: 0,
            settled: false,
        });
        self.share(now, &over);
    }

    /// Ends a flow.
    pub(super) fn end(&mut self, now: u64, id: FlowId) {
        let Some(flow) = self.flows.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        for link in flow.over.iter() {
            let link = &mut self.links[*link as usize];
            link.flows.retain(|other| *other != id);
            link.used = match link.flows.is_empty() {
                // Resets the sum, so that it never drifts.
                true => 0.0,
                false => link.used - flow.rate,
            };
        }
        self.share(now, &flow.over);
    }

    /// Reports the flows whose rates changed since the last call: their numbers, their remaining bytes, and their rates.
    pub(super) fn changed(&mut self, mut tell: impl FnMut(FlowId, f64, f64)) {
        for id in self.changed.drain(..) {
            if let Some(Some(flow)) = self.flows.get(id as usize) {
                tell(id, flow.rest, flow.rate);
            }
        }
    }

    /// Returns the bytes that each link carried.
    pub(super) fn carried(&self) -> impl Iterator<Item = f64> {
        self.links.iter().map(|link| link.carried)
    }

    /// Recomputes the rates of the flows on these links.
    fn share(&mut self, now: u64, over: &[u32]) {
        self.change += 1;
        self.among.clear();
        self.touched.clear();
        for link in over {
            for id in &self.links[*link as usize].flows {
                if let Some(Some(flow)) = self.flows.get_mut(*id as usize)
                    && flow.change != self.change
                {
                    flow.change = self.change;
                    flow.settled = false;
                    self.among.push(*id);
                }
            }
        }
        for id in &self.among {
            let Some(Some(flow)) = self.flows.get(*id as usize) else {
                continue;
            };
            for number in flow.over.iter() {
                let link = &mut self.links[*number as usize];
                if link.capacity.is_infinite() {
                    continue;
                }
                if link.change != self.change {
                    link.change = self.change;
                    link.left = link.capacity - link.used;
                    link.open = 0;
                    self.touched.push(*number);
                }
                link.left += flow.rate;
                link.open += 1;
            }
        }
        self.fill(now);
    }

    /// Settles the flows of the current change, those with the lowest rates first.
    fn fill(&mut self, now: u64) {
        let mut open = self.among.len();
        while open > 0 {
            let mut least: Option<(f64, u32)> = None;
            for number in &self.touched {
                let link = &self.links[*number as usize];
                let share = link.left / f64::from(link.open);
                if link.open > 0 && least.is_none_or(|(other, _)| share < other) {
                    least = Some((share, *number));
                }
            }
            let Some((share, full)) = least else {
                // Nothing bounds the remaining flows.
                for at in 0..self.among.len() {
                    self.settle(now, self.among[at], MOST);
                }
                return;
            };
            for at in 0..self.links[full as usize].flows.len() {
                let id = self.links[full as usize].flows[at];
                open -= usize::from(self.settle(now, id, share.max(LEAST)));
            }
        }
    }

    /// Sets the rate of a flow of the current change. Returns true if it was not settled yet.
    fn settle(&mut self, now: u64, id: FlowId, rate: f64) -> bool {
        let Some(Some(flow)) = self.flows.get_mut(id as usize) else {
            return false;
        };
        if flow.change != self.change || flow.settled {
            return false;
        }
        flow.settled = true;
        let more = rate - flow.rate;
        for link in flow.over.iter() {
            let link = &mut self.links[*link as usize];
            link.used += more;
            if link.change == self.change {
                link.left = (link.left - rate).max(0.0);
                link.open -= 1;
            }
        }
        if more != 0.0 {
            let gone = now.saturating_sub(flow.since) as f64 * flow.rate;
            flow.rest = (flow.rest - gone).max(0.0);
            flow.since = now;
            flow.rate = rate;
            self.changed.push(id);
        }
        true
    }
}
