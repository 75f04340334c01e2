//! A program played twice: calibrated by its trace, then on the network in question.
//!
//! `calibrate` finds what each call took that hosts' costs and the network on which it was traced do not explain; `replay` plays the program with that on any
//! network. Called by `belljar replay`.

use belljar_fabric::{RoutingError, Settings, Topology};
use belljar_networks::{FlowNetwork, LogGops, MOST_BYTES, Network, PacketNetwork, Parameters};
use belljar_program::{Operation, Part, Program};
use belljar_sim::Frequency;

use crate::calibration::Calibration;
use crate::costs::Costs;
use crate::engine::{Engine, LAST_PS, Played, Timing};
use crate::outcome::Outcome;

/// What a network is, for a replay.
#[derive(Clone, Debug, PartialEq)]
pub enum NetworkModel {
    /// Frames through the fabric of live runs.
    Packet(Topology, Settings),
    /// Messages that share links fairly.
    Flow(Topology, Settings),
    /// Formulas, for so many hosts.
    LogGops(u32, Parameters),
}

impl NetworkModel {
    /// Hosts that there are.
    pub fn hosts(&self) -> u32 {
        match self {
            Self::Packet(topology, _) | Self::Flow(topology, _) => topology.hosts(),
            Self::LogGops(hosts, _) => *hosts,
        }
    }

    /// Bits per second of a host's link.
    fn bandwidth_of(&self, host: u32) -> u64 {
        match self {
            Self::Packet(topology, _) | Self::Flow(topology, _) => {
                topology.links()[topology.link_of(host) as usize]
                    .spec
                    .bandwidth
            }
            Self::LogGops(_, parameters) => parameters.bandwidth,
        }
    }
}

/// On what a program is played.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The network.
    pub network: NetworkModel,
    /// What hosts do for messages.
    pub costs: Costs,
    /// The clock of each process's processor, by the program's order; the last one is that of all further processes.
    pub clocks: Vec<Frequency>,
    /// The host of each process, by the program's order.
    pub hosts: Vec<u32>,
    /// What processors' own work is multiplied by: 0.5 for processors that are twice as fast.
    pub scale: f64,
}

/// Why a program cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The routing does not fit the topology.
    #[error(transparent)]
    Routing(#[from] RoutingError),
    /// A process is placed on a host that is not there.
    #[error("rank {rank} is placed on host {host}, and the network has {hosts} hosts")]
    Host {
        /// The process's rank.
        rank: u32,
        /// The host.
        host: u32,
        /// How many there are.
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
    /// The model has no places that differ.
    #[error(
        "LogGOPS knows no places, all are alike: search placements with the model packet or flow"
    )]
    NoPlaces,
    /// The job lasts longer than there are times.
    #[error(
        "the replay lasts for more than {} days, which is all that is played: the trace's times are damaged, or its work is in another unit",
        LAST_PS / 86_400_000_000_000_000
    )]
    Late,
    /// A message is larger than any that there is.
    #[error(
        "a message of {bytes} bytes is more than replay takes, {MOST_BYTES}: the trace is damaged, or made up"
    )]
    Message {
        /// Its bytes.
        bytes: u64,
    },
}

/// Plays a program as it was traced, in the setting in which it was traced.
///
/// # Errors
/// [`ReplayError`] when the setting does not fit.
pub fn calibrate(program: &Program, setting: &Setting) -> Result<Calibration, ReplayError> {
    let threads = program.threads.iter();
    let mut residuals: Vec<Vec<i64>> = threads.map(|thread| vec![0; thread.calls.len()]).collect();
    let played = play(program, setting, Timing::Traced(&mut residuals), || true)?;
    let lost = played.network.loads().iter().map(|load| load.dropped).sum();
    Ok(Calibration {
        residuals,
        lost,
        setting: Some(Box::new(setting.clone())),
    })
}

/// Plays a program in a setting. On the network of the trace, calls keep the times of the trace if that network loses frames. `each` is told of each call that is entered, and says whether to continue; if not, the outcome is of the calls that returned until then.
///
/// # Errors
/// [`ReplayError`] when the setting does not fit.
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

/// An engine for a program in a setting.
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
    };
    let place = (setting.hosts.as_slice(), setting.scale);
    Ok(Engine::new(program, network, spans, place, timing))
}

/// Bytes of the largest message that a program sends, and of the largest piece of a collective operation.
pub(crate) fn largest(program: &Program) -> Option<u64> {
    let operations = program.threads.iter().flat_map(|thread| &thread.operations);
    let messages = operations.filter_map(|operation| match operation {
        Operation::Send { bytes, .. } | Operation::SendPartitioned { bytes, .. } => Some(*bytes),
        Operation::Access { sent, received, .. } => Some(*sent.max(received)),
        _ => None,
    });
    let parts = program.parts.iter().filter_map(|part| match part {
        Part::Direct { sends } => sends.iter().map(|(_, bytes)| *bytes).max(),
        Part::Library { call, .. } => {
            let pieces = call.sent.iter().chain(&call.received);
            let all = pieces.fold(0, |sum: u64, piece| sum.saturating_add(*piece));
            Some(all.max(call.bytes().saturating_mul(call.members.into())))
        }
    });
    messages.chain(parts).max()
}

#[cfg(test)]
mod tests;
