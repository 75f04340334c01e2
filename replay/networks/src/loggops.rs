//! A network of formulas: LogGOPS without the processor's part, which replay models itself.
//!
//! A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman, "LogGP" (1995), and T. Hoefler, T. Schneider, A. Lumsdaine, "LogGOPSim" (2010): a message of `s`
//! bytes that begins to leave at `t` arrives at `t + L + (s - 1) G`; a host sends its next one `g`, and no sooner than `(s - 1) G`, after. Messages share
//! no links, so the arrival is known when a message leaves.

use belljar_sim::{Span, Time};

use crate::message::{Arrival, Message, frames_of, on_wire};
use crate::network::{LinkLoad, Network};
use crate::pace::{Paces, times, within};

/// The model's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// `L`: from a message's first bit at one host to its first bit at another.
    pub latency: Span,
    /// `g`: from the beginning of a host's message to the beginning of its next.
    pub gap: Span,
    /// `1 / G`: bits a second.
    pub bandwidth: u64,
}

/// A network of formulas.
#[derive(Clone, Debug)]
pub struct LogGops {
    parameters: Parameters,
    paces: Paces,
    /// The time at which each host can send its next message.
    free: Vec<Time>,
}

impl LogGops {
    /// Creates a network of this many hosts.
    pub fn new(hosts: u32, parameters: Parameters, paces: impl Into<Paces>) -> Self {
        Self {
            parameters,
            paces: paces.into(),
            free: vec![Time::ZERO; hosts as usize],
        }
    }
}

impl Network for LogGops {
    fn send(&mut self, time: Time, message: Message) -> Option<Time> {
        let Parameters {
            latency,
            gap,
            bandwidth,
        } = self.parameters;
        if message.from == message.to {
            return Some(time + within(self.paces.of(message.from), message.bytes));
        }
        let transfer = Span::of_transfer(on_wire(message.bytes), bandwidth);
        let beyond = frames_of(message.bytes) - 1;
        let slowest = transfer
            .max(times(self.paces.of(message.from).sends, beyond))
            .max(times(self.paces.of(message.to).receives, beyond));
        let free = self.free.get_mut(message.from as usize)?;
        let begins = time.max(*free);
        *free = begins + transfer.max(gap);
        Some(begins + latency + slowest)
    }

    fn next_time(&self) -> Option<Time> {
        None
    }

    fn advance(&mut self, _: &mut Vec<Arrival>) {}

    fn loads(&self, _until: Time) -> Vec<LinkLoad> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Pace;

    fn network(pace: Pace) -> LogGops {
        let parameters = Parameters {
            latency: Span::from_us(2),
            gap: Span::from_us(1),
            bandwidth: 10_000_000_000,
        };
        LogGops::new(2, parameters, pace)
    }

    fn message(bytes: u64) -> Message {
        Message {
            id: 0,
            from: 0,
            to: 1,
            bytes,
            stream: 0,
        }
    }

    #[test]
    fn arrival_is_latency_and_bytes_over_bandwidth() {
        let mut network = network(Pace::default());
        // 1538 bytes on the wire at 10 Gb/s are 1230.4 ns.
        let first = network.send(Time::ZERO, message(1448));
        assert_eq!(first, Some(Time::from_ps(2_000_000 + 1_230_400)));
        // The next one waits until the first has left.
        let second = network.send(Time::ZERO, message(1448));
        assert_eq!(second, Some(Time::from_ps(2_000_000 + 2 * 1_230_400)));
    }

    #[test]
    fn hosts_bound_what_goes_through() {
        let pace = Pace {
            receives: Span::from_us(2),
            ..Pace::default()
        };
        let mut network = network(pace);
        let arrival = network.send(Time::ZERO, message(4 * 1448));
        assert_eq!(arrival, Some(Time::from_ps(2_000_000 + 3 * 2_000_000)));
    }
}
