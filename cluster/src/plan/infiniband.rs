//! The nodes' InfiniBand cards and their network, resolved.
//!
//! Node n has local identifier n + 1, as a subnet manager would assign, and a GUID of its own. Called by `Plan::resolve`; the coordinator builds
//! the network, and `parts` the cards.

use std::path::Path;
use std::sync::Arc;

use belljar_congestion::CongestionControl;
use belljar_fabric::{Routes, Routing, RoutingError, Topology};
use belljar_lossless::{CardDelays, Flow, Lossless};
use belljar_sim::{Seed, Span};
use belljar_vmm::{CardIdentity, Delays, HcaConfig, InfinibandConfig, Speed};

use super::network::{build_shape, error::NetworkError};
use crate::plan::error::PlanError;
use crate::plan::images::ImagePlan;
use crate::scenario::engine::Engine;
use crate::scenario::{Infiniband, RoutingName, Scenario, SpeedName};

/// Congestion control.
mod congestion;
/// Drivers on the run disk.
pub(super) mod drivers;
/// Buffers and virtual lanes.
mod flow;

/// Nodes have local identifiers below those of multicast groups.
const MOST_NODES: u32 = 0xbfff;
/// The prefix of the cards' GUIDs: a locally administered identifier.
const GUID_PREFIX: u64 = 0x0262_6a00_0000_0000;
/// The least rate of a link, in bits per second.
const LEAST_RATE: u64 = 1_000_000;
/// The longest delay of a card.
const LONGEST_DELAY: Span = Span::from_ms(1);

/// Cards and network.
#[derive(Clone, Debug)]
pub struct InfinibandPlan {
    /// The network.
    pub topology: Topology,
    /// Its routes.
    pub routes: Routes,
    /// Delays of the cards.
    pub delays: Delays,
    /// Buffers and virtual lanes.
    pub flow: Flow,
    /// Congestion control of switches and cards.
    congestion: Option<Arc<CongestionControl>>,
    /// True if nodes have an interface of IP over InfiniBand.
    pub ipoib: bool,
    speed: SpeedName,
    rate: u64,
    /// Doubts about the network, for users.
    pub warnings: Vec<String>,
    /// The least time from one node to another.
    lookahead: Span,
    /// In words.
    pub words: String,
}

impl InfinibandPlan {
    /// The plan of a scenario; `None` without cards.
    ///
    /// # Errors
    /// If the network is invalid, or the engine or a kernel has no cards.
    pub(super) fn resolve(
        scenario: &Scenario,
        folder: &Path,
        engine: Engine,
        images: &[ImagePlan],
    ) -> Result<Option<Self>, PlanError> {
        if scenario.infiniband.is_some() {
            check_engine(scenario, engine)?;
        }
        let plan = Self::of_network(scenario, folder)?;
        if let Some(plan) = &plan {
            plan.check_images(images)?;
        }
        Ok(plan)
    }

    /// The same without a look at images.
    ///
    /// # Errors
    /// If the network is invalid.
    pub(super) fn of_network(
        scenario: &Scenario,
        folder: &Path,
    ) -> Result<Option<Self>, PlanError> {
        let Some(table) = &scenario.infiniband else {
            return Ok(None);
        };
        let delays = Delays {
            send: table.card.send.0,
            receive: table.card.receive.0,
            answer: table.card.answer.0,
            fetch: table.card.fetch.0,
            bus: table.speed.bus(),
        };
        check_delays(&delays, table.cable.0)?;
        check_bandwidths(table)?;
        let shape = table.shape();
        let routing = routing(table)?;
        let nodes = scenario.nodes.count();
        let topology = build_shape(&shape, nodes, folder).map_err(PlanError::Infiniband)?;
        let routes = Routes {
            routing,
            seed: scenario.seed,
            tables: None,
        };
        if routing == Routing::Adaptive && !topology.has_levels() {
            return Err(PlanError::Range {
                key: "infiniband.routing",
                value: format!("adaptive in a {}", shape.topology),
                limits: "shortest, d-mod-k, s-mod-k or random there: adaptive routing is for fat trees and k-ary n-trees, where links cannot wait for each other in a circle",
            });
        }
        let (flow, warnings) = flow::resolve(table, &topology, &routes)?;
        let seed = Seed(scenario.seed);
        let congestion = congestion::resolve(&table.congestion, flow.buffer, seed)?;
        let mut plan = Self {
            lookahead: Span::MAX,
            words: format!(
                "{:?} {}, {} of cable, {} a switch, {}{}{}",
                table.speed,
                shape.topology,
                table.cable.0,
                shape.switch_latency.0,
                flow::words(flow),
                congestion::words(congestion.as_deref()),
                if table.ipoib {
                    ", IP over InfiniBand"
                } else {
                    ""
                }
            ),
            ipoib: table.ipoib,
            congestion,
            flow,
            warnings,
            topology,
            routes,
            delays,
            speed: table.speed,
            rate: table.bandwidth(),
        };
        let network = plan.network();
        let network = network.map_err(|error| PlanError::Infiniband(NetworkError::from(error)))?;
        plan.lookahead = network.distances().nearest(0);
        Ok(Some(plan))
    }

    /// Refuses images whose kernels have no drivers.
    fn check_images(&self, images: &[ImagePlan]) -> Result<(), PlanError> {
        for image in images {
            let recipe = || image.image.manifest.recipe.clone();
            let Some(drivers) = &image.image.infiniband else {
                return Err(PlanError::NoInfiniband { image: recipe() });
            };
            if self.ipoib && !drivers::has_ipoib(drivers) {
                return Err(PlanError::NoIpoib { image: recipe() });
            }
        }
        Ok(())
    }

    /// True if switches and cards have congestion control.
    pub fn has_congestion_control(&self) -> bool {
        self.congestion.is_some()
    }

    /// The line of a plan about it.
    pub(super) fn line(&self) -> String {
        format!("infiniband {}\n", self.words)
    }

    /// The network at time zero.
    ///
    /// # Errors
    /// If the topology does not fit the routing.
    pub(crate) fn network(&self) -> Result<Lossless, RoutingError> {
        let delays = CardDelays {
            before: self.delays.send.min(self.delays.answer),
            after: self.delays.receive,
            bus: self.delays.bus,
        };
        let network = Lossless::new(self.topology.clone(), &self.routes, delays, self.flow)?;
        Ok(network.with_control(self.congestion.clone()))
    }

    /// The card of node `index`.
    pub(crate) fn card(&self, index: u32) -> InfinibandConfig {
        let identity = CardIdentity {
            guid: GUID_PREFIX | u64::from(index + 1),
            lid: index as u16 + 1,
            description: format!("node{index} mlx4_0"),
            speed: match self.speed {
                SpeedName::Fdr => Speed::Fdr,
                _ => Speed::Edr,
            },
            rate: self.rate,
            ports: u16::try_from(self.topology.hosts()).unwrap_or(u16::MAX),
        };
        InfinibandConfig {
            card: HcaConfig {
                identity,
                delays: self.delays,
                congestion: self.congestion.clone(),
            },
            link: self.speed.express(),
        }
    }
}

/// Adds the doubts about the cards' network to those about Ethernet.
pub(super) fn add_warnings(mut all: Vec<String>, cards: Option<&InfinibandPlan>) -> Vec<String> {
    all.extend(cards.iter().flat_map(|cards| cards.warnings.clone()));
    all
}

/// The least time from one node to another in any network.
pub(super) fn lookahead(cards: Option<&InfinibandPlan>, topology: &Topology) -> Span {
    let by_cards = cards.map_or(Span::MAX, |cards| cards.lookahead);
    by_cards.min(topology.lookahead())
}

/// Refuses an engine without cards, and more nodes than local identifiers.
fn check_engine(scenario: &Scenario, engine: Engine) -> Result<(), PlanError> {
    if engine != Engine::Exact {
        return Err(PlanError::Range {
            key: "infiniband",
            value: format!("given with engine \"{engine}\""),
            limits: "engine \"exact\", whose clock does not advance while a card works",
        });
    }
    let nodes = scenario.nodes.count();
    if nodes > MOST_NODES {
        return Err(PlanError::Range {
            key: "nodes.count",
            value: format!("{nodes} with [infiniband]"),
            limits: "49151 at most, the number of local identifiers of one subnet",
        });
    }
    Ok(())
}

/// The routing: the given one, or the topology's default.
fn routing(table: &Infiniband) -> Result<Routing, PlanError> {
    let routing = match (table.routing, table.shape().routing()) {
        (None, Routing::Ecmp) => Routing::Shortest,
        (_, routing) => routing,
    };
    match routing {
        Routing::Shortest
        | Routing::DModK
        | Routing::SModK
        | Routing::Random
        | Routing::Adaptive => Ok(routing),
        other => Err(PlanError::Range {
            key: "infiniband.routing",
            value: RoutingName(other).to_string(),
            limits: "shortest, d-mod-k, s-mod-k, random, or adaptive in trees",
        }),
    }
}

/// Refuses links on which one packet takes longer than any timer.
fn check_bandwidths(table: &Infiniband) -> Result<(), PlanError> {
    let named = [
        ("infiniband.bandwidth", table.bandwidth),
        ("infiniband.uplink-bandwidth", table.uplink_bandwidth),
    ];
    let given = named
        .into_iter()
        .filter_map(|(key, rate)| Some((key, rate?)));
    match given.into_iter().find(|(_, rate)| rate.0 < LEAST_RATE) {
        Some((key, rate)) => Err(PlanError::Range {
            key,
            value: rate.to_string(),
            limits: "1 Mb/s or more, at which the largest packet takes 33 ms",
        }),
        None => Ok(()),
    }
}

fn check_delays(delays: &Delays, cable: Span) -> Result<(), PlanError> {
    let named = [
        ("infiniband.card.send", delays.send),
        ("infiniband.card.receive", delays.receive),
        ("infiniband.card.answer", delays.answer),
        ("infiniband.card.fetch", delays.fetch),
        ("infiniband.cable", cable),
    ];
    match named.into_iter().find(|(_, delay)| *delay > LONGEST_DELAY) {
        Some((key, delay)) => Err(PlanError::Range {
            key,
            value: delay.to_string(),
            limits: "1 ms at most",
        }),
        None => Ok(()),
    }
}
