//! Sensitivities of a replay: its duration if one cost were zero.
//!
//! The program is played again in settings without one of the costs: latency, the time of bytes on links, processors' work for messages, processors' work in
//! general. The costs that shorten it bound the run; parts may overlap, so they do not add up to the whole. Used by `belljar replay`.

use belljar_fabric::{LinkSpec, SwitchSpec, Topology};
use belljar_networks::{Cards, InfinibandModel, Parameters};
use belljar_program::Program;
use belljar_sim::Span;
use serde::Serialize;

use crate::calibration::Calibration;
use crate::costs::Costs;
use crate::replay::{NetworkModel, ReplayError, Setting, replay};

/// A cost that can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// Latency of links and switches.
    Latency,
    /// Time of bytes on links, including waiting for shared links.
    Bandwidth,
    /// Processors' work for messages, according to the costs.
    Messages,
    /// Half of processors' own work, within MPI and outside.
    HalfOfWork,
}

impl Cost {
    /// All costs.
    pub const ALL: [Self; 4] = [
        Self::Latency,
        Self::Bandwidth,
        Self::Messages,
        Self::HalfOfWork,
    ];

    /// Describes the setting without it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Latency => "without latency",
            Self::Bandwidth => "with unlimited bandwidth",
            Self::Messages => "without work for messages",
            Self::HalfOfWork => "with processors twice as fast",
        }
    }
}

/// A program's duration without a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Without {
    /// The cost.
    pub cost: Cost,
    /// Time from the first call's entry to the last's return, in picoseconds.
    pub total_ps: u64,
    /// The main part, between start and end of MPI.
    pub main_ps: u64,
}

/// Effectively unlimited bandwidth: a terabyte takes ten microseconds.
pub(crate) const UNLIMITED: u64 = 1_000_000_000_000_000_000;

/// Computes the program's duration in the setting without each cost.
///
/// # Errors
/// The same as for [`replay`].
pub fn without(
    program: &Program,
    calibration: &Calibration,
    setting: &Setting,
) -> Result<Vec<Without>, ReplayError> {
    let of = |cost| {
        let outcome = replay(program, calibration, &lacking(setting, cost), || true)?;
        Ok(Without {
            cost,
            total_ps: outcome.total_ps,
            main_ps: outcome.main_ps,
        })
    };
    Cost::ALL.into_iter().map(of).collect()
}

/// Returns the setting without a cost.
fn lacking(setting: &Setting, cost: Cost) -> Setting {
    let setting = setting.clone();
    match cost {
        Cost::Latency => Setting {
            network: changed(setting.network, no_latency, no_delay, at_once),
            ..setting
        },
        Cost::Bandwidth => Setting {
            network: changed(setting.network, unlimited, |switch| switch, no_bus),
            ..setting
        },
        Cost::Messages => Setting {
            costs: Costs::none(&setting.costs),
            ..setting
        },
        Cost::HalfOfWork => Setting {
            scale: setting.scale / 2.0,
            ..setting
        },
    }
}

fn no_latency(link: LinkSpec) -> LinkSpec {
    LinkSpec {
        latency: Span::ZERO,
        ..link
    }
}

fn no_delay(switch: SwitchSpec) -> SwitchSpec {
    SwitchSpec {
        latency: Span::ZERO,
        ..switch
    }
}

fn at_once(cards: Cards) -> Cards {
    Cards {
        send: Span::ZERO,
        receive: Span::ZERO,
        answer: Span::ZERO,
        fetch: Span::ZERO,
        ..cards
    }
}

fn no_bus(cards: Cards) -> Cards {
    Cards {
        bus: UNLIMITED,
        ..cards
    }
}

fn unlimited(link: LinkSpec) -> LinkSpec {
    LinkSpec {
        bandwidth: UNLIMITED,
        ..link
    }
}

fn changed(
    network: NetworkModel,
    link: impl Fn(LinkSpec) -> LinkSpec,
    switch: impl Fn(SwitchSpec) -> SwitchSpec,
    cards: impl Fn(Cards) -> Cards,
) -> NetworkModel {
    let of = |topology: Topology| topology.with_links(&link).with_switches(&switch);
    match network {
        NetworkModel::Packet(topology, settings) => NetworkModel::Packet(of(topology), settings),
        NetworkModel::Flow(topology, settings) => NetworkModel::Flow(of(topology), settings),
        NetworkModel::Infiniband(model) => NetworkModel::Infiniband(Box::new(InfinibandModel {
            topology: of(model.topology),
            cards: cards(model.cards),
            ..*model
        })),
        NetworkModel::LogGops(hosts, parameters) => {
            let of = link(LinkSpec {
                bandwidth: parameters.bandwidth,
                latency: parameters.latency,
            });
            let parameters = Parameters {
                latency: of.latency,
                bandwidth: of.bandwidth,
                ..parameters
            };
            NetworkModel::LogGops(hosts, parameters)
        }
    }
}
