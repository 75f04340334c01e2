//! Costs in picoseconds on the processors of a program's processes.
//!
//! Used by the engine for each leg of a message.

use belljar_networks::{Pace, Paces};
use belljar_program::ProcessId;
use belljar_sim::Span;

use super::Costs;

/// The medium of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// The network.
    Network,
    /// The shared memory of the host of both processes.
    Memory,
}

/// Costs in picoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    pub(crate) costs: Costs,
    /// Picoseconds of a cycle, by process.
    pub(super) ps: Vec<f64>,
    /// Bytes from which on a message is large, by its sender; the library's value for senders without a link.
    pub(super) rendezvous: Vec<u64>,
}

impl Spans {
    /// Returns the costs for processes whose hosts' links have these bandwidths, in bits per second.
    pub(crate) fn over(self, bandwidths: impl Iterator<Item = u64>) -> Self {
        Self {
            rendezvous: bandwidths.map(|bits| self.costs.large(bits)).collect(),
            ..self
        }
    }

    /// True if a message of a process is sent by the rendezvous protocol.
    pub(crate) fn is_large(&self, process: ProcessId, medium: Medium, bytes: u64) -> bool {
        if medium == Medium::Memory {
            return bytes >= self.costs.shared_memory.rendezvous;
        }
        let own = self.rendezvous.get(process as usize);
        bytes >= own.copied().unwrap_or_else(|| self.costs.large(u64::MAX))
    }

    fn of(&self, process: ProcessId, cycles: f64) -> u64 {
        let own = self.ps.get(process as usize).or(self.ps.last());
        (cycles * own.copied().unwrap_or(0.0)) as u64
    }

    /// Returns the time until the first part of a message leaves: its first frame, or all of it if it is copied into shared
    /// memory.
    pub(crate) fn first(&self, process: ProcessId, medium: Medium, bytes: u64) -> u64 {
        match medium {
            Medium::Network => self.of(process, self.costs.send.first),
            Medium::Memory => self.send(process, medium, bytes),
        }
    }

    /// Returns the time until all of it has been handed over.
    pub(crate) fn send(&self, process: ProcessId, medium: Medium, bytes: u64) -> u64 {
        let shared = &self.costs.shared_memory;
        let cycles = match medium {
            Medium::Network => self.costs.send.cycles(bytes),
            Medium::Memory => shared.send + shared.copy * bytes as f64,
        };
        self.of(process, cycles)
    }

    pub(crate) fn receive(&self, process: ProcessId, medium: Medium, bytes: u64) -> u64 {
        let shared = &self.costs.shared_memory;
        let cycles = match medium {
            Medium::Network => self.costs.receive.cycles(bytes),
            Medium::Memory => shared.receive + shared.copy * bytes as f64,
        };
        self.of(process, cycles)
    }

    /// Returns the time in which a receiver copies a message from its sender's memory.
    pub(crate) fn get(&self, process: ProcessId, bytes: u64) -> u64 {
        let shared = &self.costs.shared_memory;
        self.of(process, shared.get + shared.copy * bytes as f64)
    }

    /// Returns the time for a control message of the protocol.
    pub(crate) fn control(&self, process: ProcessId, medium: Medium) -> u64 {
        let cycles = match medium {
            Medium::Network => self.costs.control,
            Medium::Memory => self.costs.shared_memory.receive,
        };
        self.of(process, cycles)
    }

    pub(crate) fn contact(&self, process: ProcessId) -> u64 {
        self.of(process, self.costs.contact)
    }

    pub(crate) fn begin(&self, process: ProcessId) -> u64 {
        self.of(process, self.costs.begin)
    }

    pub(crate) fn combine(&self, process: ProcessId, bytes: u64) -> u64 {
        self.of(process, self.costs.combine * bytes as f64)
    }

    pub(crate) fn copy(&self, process: ProcessId, bytes: u64) -> u64 {
        self.of(process, self.costs.copy * bytes as f64)
    }

    /// Returns hosts' work for each frame, at the speed of a host's first process; hosts without a process use the last
    /// process's speed.
    pub(crate) fn paces(&self, hosts: &[u32]) -> Paces {
        let last = self.ps.len().saturating_sub(1) as ProcessId;
        let paces = Paces::from(self.pace(last));
        let processes = hosts.iter().enumerate().rev();
        processes.fold(paces, |paces, (process, host)| {
            paces.with(*host, self.pace(process as ProcessId))
        })
    }

    fn pace(&self, process: ProcessId) -> Pace {
        let span = |cycles| Span::from_ps(self.of(process, cycles));
        Pace {
            sends: span(self.costs.send.frame),
            receives: span(self.costs.take_in),
            within: span(self.costs.shared_memory.latency),
            // Copies are work of the processes.
            copies: Span::ZERO,
        }
    }
}
