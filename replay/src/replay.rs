//! Calibration and replay of a program: by its trace, then on the network in question.
//!
//! `calibrate` finds the time of each call that hosts' costs and the traced network do not explain; `replay` plays the program with these residuals on any network. Used
//! by `belljar replay`.

/// Independent plays on all processors.
pub(crate) mod parallel;

use belljar_fabric::{Routes, RoutingError, Settings, Topology};
use belljar_networks::{
    FlowNetwork, InfinibandModel, InfinibandNetwork, LogGops, MOST_BYTES, Network, PacketNetwork,
    Parameters,
};
use belljar_program::{Operation, Participation, Program};
use belljar_sim::Frequency;

use crate::calibration::Calibration;
use crate::costs::Costs;
use crate::engine::{Engine, LAST_PS, Played, Timing};
use crate::outcome::Outcome;

/// A network for a replay.
#[derive(Clone, Debug, PartialEq)]
pub enum NetworkModel {
    /// Frames through the fabric of live runs.
    Packet(Topology, Settings),
    /// Messages that share links fairly.
    Flow(Topology, Settings),
    /// Formulas, for this many hosts.
    LogGops(u32, Parameters),
    /// Packets of InfiniBand cards.
    Infiniband(Box<InfinibandModel>),
}

impl NetworkModel {
    /// Returns the number of hosts.
    pub fn hosts(&self) -> u32 {
        match self {
            Self::Packet(topology, _) | Self::Flow(topology, _) => topology.hosts(),
            Self::LogGops(hosts, _) => *hosts,
            Self::Infiniband(model) => model.topology.hosts(),
        }
    }

    /// Returns the topology and the routes; `None` if the model does not distinguish hosts.
    pub fn paths(&self) -> Option<(&Topology, Routes)> {
        match self {
            Self::Packet(topology, settings) | Self::Flow(topology, settings) => {
                Some((topology, settings.routes()))
            }
            Self::Infiniband(model) => Some((&model.topology, model.routes())),
            Self::LogGops(..) => None,
        }
    }

    /// Returns the bits per second of a host's link.
    fn bandwidth_of(&self, host: u32) -> u64 {
        if let Self::LogGops(_, parameters) = self {
            return parameters.bandwidth;
        }
        let link =
            |(topology, _): (&Topology, _)| topology.links()[topology.link_of(host) as usize].spec;
        self.paths().map(link).map_or(0, |spec| spec.bandwidth)
    }
}

/// The setting in which a program is played.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The network.
    pub network: NetworkModel,
    /// Hosts' costs of messages.
    pub costs: Costs,
    /// The clock of each process's processor, by the program's order; the last one applies to all further processes.
    pub clocks: Vec<Frequency>,
    /// The host of each process, by the program's order.
    pub hosts: Vec<u32>,
    /// The factor of processors' own work: 0.5 for processors that are twice as fast.
    pub scale: f64,
}

/// An error in playing a program.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The routing does not fit the topology.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// A process is placed on a host that does not exist.
    #[error("rank {rank} is placed on host {host}, and the network has {hosts} hosts")]
    Host {
        /// The process's rank.
        rank: u32,
        /// The host.
        host: u32,
        /// The number of hosts.
        hosts: u32,
    },
    /// There are fewer slots than processes.
    #[error(
        "{processes} processes need as many slots, and the network has {slots}: allow more on each host, or take a larger network"
    )]
    Slots {
        /// Processes.
        processes: usize,
        /// Slots of all hosts together.
        slots: u64,
    },
    /// There is no process to place.
    #[error("the run has no MPI calls, so there are no ranks to place")]
    NoCalls,
    /// The model does not distinguish hosts.
    #[error(
        "LogGOPS knows no places, all are alike: search placements with the model packet or flow"
    )]
    NoPlaces,
    /// The job lasts longer than the last time that is played.
    #[error(
        "the replay lasts for more than {} days, which is all that is played: the trace's times are damaged, or its work is in another unit",
        LAST_PS / 86_400_000_000_000_000
    )]
    Late,
    /// A message is larger than the limit.
    #[error(
        "a message of {bytes} bytes is more than replay takes, {MOST_BYTES}: the trace is damaged, or made up"
    )]
    Message {
        /// Its bytes.
        bytes: u64,
    },
}

/// Plays a program as it was traced, in the setting of the trace.
///
/// # Errors
/// Returns [`ReplayError`] if the setting does not fit.
pub fn calibrate(program: &Program, setting: &Setting) -> Result<Calibration, ReplayError> {
    let threads = program.threads.iter();
    let mut residuals: Vec<Vec<i64>> = threads.map(|thread| vec![0; thread.calls.len()]).collect();
    let played = play(program, setting, Timing::Traced(&mut residuals), || true)?;
    let lost = played
        .network
        .loads(played.until)
        .iter()
        .map(|load| load.dropped)
        .sum();
    Ok(Calibration {
        residuals,
        lost,
        setting: Some(Box::new(setting.clone())),
    })
}

/// Plays a program in a setting. On the traced network, calls keep the times of the trace if that network loses frames. `each` is called at each entry of a call, and
/// returns whether to continue; if not, the outcome is of the calls that returned by then.
///
/// # Errors
/// Returns [`ReplayError`] if the setting does not fit.
pub fn replay(
    program: &Program,
    calibration: &Calibration,
    setting: &Setting,
    each: impl FnMut() -> bool,
) -> Result<Outcome, ReplayError> {
    let as_traced = calibration.is_lossy() && calibration.setting.as_deref() == Some(setting);
    let played = match as_traced {
        true => {
            let mut residuals = calibration.residuals.clone();
            play(program, setting, Timing::Traced(&mut residuals), each)?
        }
        false => {
            let carried = calibration.carried(program);
            play(program, setting, Timing::Replayed(&carried), each)?
        }
    };
    Ok(Outcome {
        as_traced,
        lost_in_trace: calibration.lost,
        ..Outcome::of(program, &played)
    })
}

fn play(
    program: &Program,
    setting: &Setting,
    timing: Timing<'_>,
    each: impl FnMut() -> bool,
) -> Result<Played, ReplayError> {
    let played = engine(program, setting, timing)?.play(each);
    match played.late {
        true => Err(ReplayError::Late),
        false => Ok(played),
    }
}

/// Creates an engine for a program in a setting.
pub(crate) fn engine<'p, 'r>(
    program: &'p Program,
    setting: &'p Setting,
    timing: Timing<'r>,
) -> Result<Engine<'p, 'r>, ReplayError> {
    let spans = setting.costs.at(&setting.clocks, setting.scale);
    let paces = spans.paces(&setting.hosts);
    let hosts = setting.network.hosts();
    for (process, host) in program.processes.iter().zip(&setting.hosts) {
        if *host >= hosts {
            return Err(ReplayError::Host {
                rank: process.rank,
                host: *host,
                hosts,
            });
        }
    }
    if let Some(bytes) = largest(program).filter(|bytes| *bytes > MOST_BYTES) {
        return Err(ReplayError::Message { bytes });
    }
    let placed = setting.hosts.iter().take(program.processes.len());
    let spans = spans.over(placed.map(|host| setting.network.bandwidth_of(*host)));
    let network: Box<dyn Network> = match &setting.network {
        NetworkModel::Packet(topology, settings) => {
            Box::new(PacketNetwork::new(topology.clone(), settings, paces)?)
        }
        NetworkModel::Flow(topology, settings) => Box::new(FlowNetwork::new(
            topology.clone(),
            &settings.routes(),
            paces,
        )?),
        NetworkModel::LogGops(hosts, parameters) => {
            Box::new(LogGops::new(*hosts, *parameters, paces))
        }
        NetworkModel::Infiniband(model) => Box::new(InfinibandNetwork::new(model, paces)?),
    };
    let place = (setting.hosts.as_slice(), setting.scale);
    Ok(Engine::new(
        program, network, spans, place.0, place.1, timing,
    ))
}

/// Returns the bytes of the largest message that a program sends, and of the largest piece of a collective operation.
pub(crate) fn largest(program: &Program) -> Option<u64> {
    let operations = program.threads.iter().flat_map(|thread| &thread.operations);
    let messages = operations.filter_map(|operation| match operation {
        Operation::Send { bytes, .. } | Operation::SendPartitioned { bytes, .. } => Some(*bytes),
        Operation::Access { sent, received, .. } => Some(*sent.max(received)),
        _ => None,
    });
    let parts = program.parts.iter().filter_map(|part| match part {
        Participation::Direct { sends } => sends.iter().map(|(_, bytes)| *bytes).max(),
        Participation::Library { call, .. } => {
            let pieces = call.sent.iter().chain(&call.received);
            let all = pieces.fold(0, |sum: u64, piece| sum.saturating_add(*piece));
            Some(all.max(call.bytes().saturating_mul(call.members.into())))
        }
    });
    messages.chain(parts).max()
}

#[cfg(test)]
mod tests;
