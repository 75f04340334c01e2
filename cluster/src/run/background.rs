//! Background jobs of a run, and the network that they share with the nodes.
//!
//! Nodes receive no frames of jobs, and jobs no frames of nodes: they interact only in the queues of switches. Their behaviour
//! depends on the scenario and on the nodes' frames, so it is the same on every host of a run. Each host simulates all jobs.
//! Called by the coordinator when the network advances.

use belljar_fabric::{Delivery, Fabric, RoutingError, Topology, TrafficClass};
use belljar_networks::Sent;
use belljar_replay::{
    Background, BackgroundFigures, BackgroundSetting, BackgroundState, BackgroundStateError,
};
use belljar_sim::{Span, Time};

use crate::plan::Plan;
use crate::run::stopwatch::Stopwatch;

/// Bytes of the shortest frame.
const SHORTEST: usize = 60;

/// All background jobs of a run.
pub struct Backgrounds {
    jobs: Vec<Background>,
    /// Number of nodes; hosts of jobs follow them.
    nodes: u32,
    /// The job of each host, from the first host after the nodes.
    owners: Vec<u32>,
    /// The minimum time of a frame on the last link to a job's host.
    tail: Span,
    sent: Vec<Sent>,
    /// Host time of all background jobs.
    watch: Stopwatch,
}

impl Backgrounds {
    /// The jobs of a plan whose nodes begin at `first`.
    ///
    /// # Errors
    /// If the routing does not fit the topology.
    pub(super) fn begin(plan: &Plan, first: Time) -> Result<Self, RoutingError> {
        let routes = plan.network.routes();
        let jobs = plan.background.iter().map(|own| {
            let setting = BackgroundSetting {
                hosts: own.hosts.clone().collect(),
                start: first + own.start,
                scale: own.scale,
                times: own.times,
            };
            Background::new(own.job.clone(), &setting, &plan.topology, &routes)
        });
        let jobs = jobs.collect::<Result<_, _>>()?;
        let owners = (0..).zip(&plan.background);
        let owners = owners.flat_map(|(job, own)| own.hosts.clone().map(move |_| job));
        Ok(Self {
            jobs,
            nodes: plan.nodes,
            owners: owners.collect(),
            tail: tail(&plan.topology, plan.nodes),
            sent: Vec::new(),
            watch: Stopwatch::default(),
        })
    }

    /// Figures of each job, in the scenario's order.
    pub(super) fn figures(&self) -> Vec<BackgroundFigures> {
        self.jobs.iter().map(Background::figures).collect()
    }

    /// Host seconds for the jobs and the network, if there are any jobs.
    pub(super) fn seconds(&self) -> Option<f64> {
        let total = self.watch.total();
        (!self.jobs.is_empty()).then_some(total.as_secs_f64())
    }

    /// All their changing state.
    pub(super) fn save(&mut self) -> Vec<BackgroundState> {
        self.jobs.iter_mut().map(Background::save).collect()
    }

    /// Restores `states`, which are untrusted.
    ///
    /// # Errors
    /// If they do not belong to these jobs.
    pub(super) fn restore(
        &mut self,
        states: Vec<BackgroundState>,
    ) -> Result<(), BackgroundStateError> {
        if states.len() != self.jobs.len() {
            return Err(BackgroundStateError);
        }
        let mut pairs = self.jobs.iter_mut().zip(states);
        pairs.try_for_each(|(job, state)| job.restore(state))
    }

    /// Advances the network and all jobs up to `end`. Deliveries to nodes are added to `deliveries`.
    pub(super) fn advance(
        &mut self,
        fabric: &mut Fabric,
        end: Time,
        deliveries: &mut Vec<Delivery>,
    ) {
        if self.jobs.is_empty() {
            return deliveries.extend(fabric.advance(end));
        }
        let lap = self.watch.lap();
        // A frame's last hop takes effect one link later: until then jobs know all frames that they could receive.
        while let Some(next) = self.next_time(fabric).filter(|next| *next < end) {
            let stop = end.min(next + self.tail);
            for job in &mut self.jobs {
                job.advance(stop, &mut self.sent);
            }
            for own in self.sent.drain(..) {
                fabric.send_background(own.time, own.host, own.sequence, own.frame);
            }
            for delivery in fabric.advance(stop) {
                self.deliver(delivery, deliveries);
            }
        }
        self.watch.add(lap);
    }

    fn deliver(&mut self, delivery: Delivery, deliveries: &mut Vec<Delivery>) {
        let Delivery {
            time,
            host,
            traffic,
            ref frame,
        } = delivery;
        match host.checked_sub(self.nodes) {
            None => deliveries.push(delivery),
            Some(place) if traffic == TrafficClass::Background => {
                let job = self.owners.get(place as usize).copied();
                if let Some(job) = job.and_then(|job| self.jobs.get_mut(job as usize)) {
                    job.hand_in(time, host, frame.clone());
                }
            }
            // Nodes' broadcasts reach all hosts.
            Some(_) => {}
        }
    }

    fn next_time(&self, fabric: &Fabric) -> Option<Time> {
        let jobs = self.jobs.iter().filter_map(Background::next_time);
        jobs.chain(fabric.next_time()).min()
    }
}

/// The minimum time of a frame on the last link to a host after the nodes.
fn tail(topology: &Topology, nodes: u32) -> Span {
    let hosts = nodes..topology.hosts();
    let links = hosts.map(|host| topology.links()[topology.link_of(host) as usize].spec);
    let least = links.map(|link| link.latency + link.transmission(SHORTEST));
    least.min().unwrap_or(Span::MAX).max(Span::from_ps(1))
}
