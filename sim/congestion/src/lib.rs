//! Congestion control of InfiniBand networks.
//!
//! A switch marks packets of a long queue, the receiver of a marked packet notifies the sender, and the sender's queue pair delays its packets.
//! Two methods: InfiniBand's own with a table of delays (InfiniBand Architecture Specification volume 1, annex A10), and DCQCN with a rate (Zhu
//! and others, "Congestion Control for Large-Scale RDMA Deployments", SIGCOMM 2015). All states are values, and depend on virtual time alone:
//! timers have no events, their effects are computed when a queue pair sends or is notified. Fabrics use [`Marker`], cards [`Throttle`] and
//! [`Notifier`].

use belljar_sim::{Random, Seed, Span, Time};
use serde::{Deserialize, Serialize};

/// DCQCN's reaction: a rate.
mod rate;
/// InfiniBand's reaction: an index into a table of delays.
mod table;

pub use rate::{RateSettings, RateState};
pub use table::{DELAY_UNITS, TableSettings, TableState};

/// The method of a network, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// InfiniBand's own.
    Iba(IbaControl),
    /// DCQCN.
    Dcqcn(DcqcnControl),
}

/// Parameters of annex A10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IbaControl {
    /// Bytes of an output's queue from which its packets may be marked: of the code `Threshold`.
    pub threshold: u64,
    /// Bytes of the shortest packet that is marked (`Packet_Size`).
    pub shortest: u64,
    /// Packets that may be marked between two marks (`Marking_Rate`).
    pub between: u32,
    /// Reaction of queue pairs.
    pub table: TableSettings,
}

/// Parameters of DCQCN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DcqcnControl {
    /// Bytes of an output's queue up to which no packet is marked (`Kmin`).
    pub low: u64,
    /// Bytes of the queue from which every packet is marked (`Kmax`).
    pub high: u64,
    /// The probability of a mark just below `high`, in units of 2^-32 (`Pmax`).
    pub probability: u64,
    /// Seed of the marks.
    pub seed: Seed,
    /// The least time between two notifications of one flow (`N`).
    pub interval: Span,
    /// Reaction of queue pairs.
    pub rate: RateSettings,
}

/// A packet that leaves a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// Number of the output in its network, and virtual lane.
    pub output: (u32, u8),
    /// Its bytes.
    pub bytes: u64,
    /// Bytes that still wait for the output on this lane.
    pub queue: u64,
    /// True if the output had credits as soon as its wire was idle: the congestion begins here, not behind it.
    pub is_root: bool,
}

/// The marks of one lane of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marker {
    /// Packets that the method considered.
    considered: u64,
}

impl Marker {
    /// True if the switch marks a packet.
    pub fn marks(&mut self, control: &CongestionControl, packet: &Leaving) -> bool {
        match control {
            CongestionControl::Iba(of) => {
                let is_long = packet.queue > of.threshold && packet.bytes >= of.shortest;
                if !packet.is_root || !is_long {
                    return false;
                }
                self.considered += 1;
                (self.considered - 1).is_multiple_of(u64::from(of.between) + 1)
            }
            CongestionControl::Dcqcn(of) => self.draws(of, packet),
        }
    }

    /// Random early detection: the probability grows with the queue from `low` to `high`.
    fn draws(&mut self, of: &DcqcnControl, packet: &Leaving) -> bool {
        if packet.queue <= of.low {
            return false;
        }
        if packet.queue > of.high {
            return true;
        }
        let (above, range) = (packet.queue - of.low, (of.high - of.low).max(1));
        let share = u128::from(of.probability) * u128::from(above) / u128::from(range);
        let (port, lane) = packet.output;
        let stream = u64::from(port) << 8 | u64::from(lane);
        let mut random = Random::new(of.seed, "congestion-marks", stream);
        random.seek(self.considered);
        self.considered += 1;
        u128::from(random.next_u64() >> 32) < share
    }
}

/// Notifications of one receiver: a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notifier {
    /// The last sender that was notified at its own time, and the time.
    last: Option<((u16, u32), Time)>,
}

impl Notifier {
    /// True if the receiver of a marked packet sends a notification at `now` to a sender, which is a port and a queue pair of it. DCQCN
    /// notifies a sender once in an interval.
    pub fn notifies(&mut self, control: &CongestionControl, sender: (u16, u32), now: Time) -> bool {
        let CongestionControl::Dcqcn(of) = control else {
            return true;
        };
        let is_recent = self
            .last
            .is_some_and(|(other, at)| other == sender && now.since(at) < of.interval);
        if !is_recent {
            self.last = Some((sender, now));
        }
        !is_recent
    }
}

/// The delay of a queue pair's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttle {
    state: Reaction,
}

/// The state by method. A queue pair that was never notified has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Reaction {
    #[default]
    None,
    Table(TableState),
    Rate(RateState),
}

impl Throttle {
    /// The peer, or the network in between, is congested. `line` is the link's rate in bits per second.
    pub fn notify(&mut self, control: &CongestionControl, now: Time, line: u64) {
        match control {
            CongestionControl::Iba(of) => {
                if !matches!(self.state, Reaction::Table(_)) {
                    self.state = Reaction::Table(TableState::new(&of.table, now));
                }
                if let Reaction::Table(state) = &mut self.state {
                    state.notify(&of.table, now);
                }
            }
            CongestionControl::Dcqcn(of) => {
                if !matches!(self.state, Reaction::Rate(_)) {
                    self.state = Reaction::Rate(RateState::new(&of.rate, now, line));
                }
                if let Reaction::Rate(state) = &mut self.state {
                    state.notify(&of.rate, now, line);
                }
            }
        }
    }

    /// The time that passes between the last bit of a packet of `bytes`, which begins at `now`, and the next packet.
    pub fn delay(&mut self, control: &CongestionControl, now: Time, bytes: u64, line: u64) -> Span {
        match (control, &mut self.state) {
            (CongestionControl::Iba(of), Reaction::Table(state)) => {
                state.delay(&of.table, now, Span::of_transfer(bytes, line))
            }
            (CongestionControl::Iba(of), _) => {
                let own = Span::of_transfer(bytes, line);
                TableState::new(&of.table, now).delay(&of.table, now, own)
            }
            (CongestionControl::Dcqcn(of), Reaction::Rate(state)) => {
                state.delay(&of.rate, now, bytes, line)
            }
            (CongestionControl::Dcqcn(_), _) => Span::ZERO,
        }
    }
}

#[cfg(test)]
mod tests;
