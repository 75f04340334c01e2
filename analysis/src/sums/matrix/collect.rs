//! Conversion of calls to traffic, call by call in the order of the trace.
//!
//! A message counts at its send, a collective operation at each member's call for the data that this member sends. Calls therefore need
//! not wait for others; only pairs and the counts of equal collective calls are kept. Used by [`traffic`](crate::traffic).

use std::collections::BTreeMap;

use belljar_collectives::Tables;
use belljar_job::{Communicators, Expansion, Member, UnknownCall as Unknown, each_given};
use belljar_trace::{Collective, Direction, Event, Peer, Phase, TraceHeader, Transfer};

use super::messages::Expander;
use super::repeats::{Repeated, Repeats};
use super::sums::Pairs;
use super::{Matrix, TrafficBy, TrafficOf, UnknownTraffic};

/// Collects a [`Matrix`] from the events of a trace, in its order.
#[derive(Debug)]
pub struct TrafficCollector<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    of: TrafficOf,
    pairs: Pairs,
    unknown: BTreeMap<Unknown, u64>,
    /// Begin and end, in picoseconds.
    span: Option<(u64, u64)>,
    expansion: Expansion<'a>,
    /// Collective calls that do not become messages.
    repeats: Repeats,
    /// Present if messages are counted.
    expander: Option<Expander>,
}

impl<'a> TrafficCollector<'a> {
    /// Creates an empty collector for the trace with this header and `communicators`. With `tables`, collective operations become
    /// messages.
    pub fn new(
        header: &'a TraceHeader,
        communicators: &'a Communicators,
        of: TrafficOf,
        tables: Option<&'a Tables>,
    ) -> Self {
        Self {
            header,
            communicators,
            of,
            pairs: Pairs::default(),
            unknown: BTreeMap::new(),
            span: None,
            expansion: Expansion::new(communicators, tables),
            repeats: Repeats::default(),
            expander: tables.map(|_| Expander::default()),
        }
    }

    /// Adds an event. Its traffic counts if it is `wanted`, selected and made by the program itself.
    pub fn observe(&mut self, event: &Event, wanted: bool) {
        self.expansion.learn(event);
        if !wanted || !event.selected || event.depth > 0 {
            return;
        }
        let process = (event.node, event.process);
        let Some(job) = self.communicators.job(process) else {
            return;
        };
        let Some(exit) = event.exit else {
            return;
        };
        if self.of.job.is_some_and(|own| own != job) {
            return;
        }
        let rank = event.rank;
        let own = Member { job, rank };
        let mut counts = false;
        for transfer in &event.transfers {
            if self.wants(transfer.communicator) {
                counts = true;
                self.message(event, own, transfer);
            }
        }
        for collective in &event.collectives {
            if self.wants(collective.communicator) && collective.phase != Phase::Prepared {
                counts = true;
                if let Err(why) = self.collective(event, own, collective) {
                    self.count(why);
                }
            }
        }
        if counts {
            let rate = self.header.frequency(event.node);
            let [entry, exit] = [event.entry, exit].map(|at| rate.time_of(at).as_ps());
            let (first, last) = self.span.unwrap_or((entry, exit));
            self.span = Some((first.min(entry), last.max(exit)));
        }
    }

    fn wants(&self, communicator: Option<u32>) -> bool {
        let of = self.of.communicator;
        of.is_none() || of == communicator
    }

    fn count(&mut self, why: Unknown) {
        *self.unknown.entry(why).or_default() += 1;
    }

    /// Adds a message that the call sends, or an access to another process's memory.
    fn message(&mut self, event: &Event, own: Member, transfer: &Transfer) {
        let absent = matches!(transfer.peer, Peer::Null | Peer::Invalid(_));
        let receives = transfer.direction == Direction::Receive;
        if absent || transfer.phase == Phase::Prepared || receives && !transfer.is_access() {
            return;
        }
        let process = (event.node, event.process);
        let peer = transfer
            .communicator
            .and_then(|number| self.communicators.peer(process, number, transfer.peer));
        let Some(peer) = peer else {
            return self.count(Unknown::Peer);
        };
        let (from, to) = if receives { (peer, own) } else { (own, peer) };
        self.pairs.add(from, to, 1, transfer.bytes);
    }

    fn collective(
        &mut self,
        event: &Event,
        own: Member,
        collective: &Collective,
    ) -> Result<(), Unknown> {
        let (_, operation) = self.expansion.called(event, collective)?;
        // Neighbours exchange exactly the specified messages.
        if let (Some(expander), false) = (&mut self.expander, operation.is_neighborhood()) {
            let process = (event.node, event.process);
            if let Some(expanded) = self.expansion.expand(event, collective)?
                && let Some(number) = collective.communicator
                && let Some(members) = self.communicators.members(process, number)
            {
                expander.take(expanded, members, &mut self.pairs);
            }
            return Ok(());
        }
        let caller = (event.node, event.process);
        let repeated = self.repeats.take(caller, own, operation, collective);
        repeated.into_iter().for_each(|it| self.repeated(&it));
        Ok(())
    }

    /// Adds the traffic of a process in equal calls.
    fn repeated(&mut self, of: &Repeated) {
        let pairs = &mut self.pairs;
        let stated = each_given(
            self.communicators,
            of.process,
            of.operation,
            &of.collective,
            |to, bytes| pairs.add(of.own, to, of.calls, bytes.saturating_mul(of.calls)),
        );
        if let Err(why) = stated {
            let unknown = self.unknown.entry(why).or_default();
            *unknown = unknown.saturating_add(of.calls);
        }
    }

    /// Returns the matrix.
    pub fn finish(mut self) -> Matrix {
        let repeats = std::mem::take(&mut self.repeats);
        repeats.finish().for_each(|it| self.repeated(&it));
        let mut algorithms = Vec::new();
        let by = match self.expander {
            Some(_) => TrafficBy::Message,
            None => TrafficBy::Call,
        };
        if let Some(expander) = &mut self.expander {
            expander.expand(&mut self.pairs);
            algorithms = expander.algorithms();
        }
        if self.pairs.left_out > 0 {
            self.unknown.insert(Unknown::Pairs, self.pairs.left_out);
        }
        let unknown = self.unknown.into_iter().map(|(why, count)| UnknownTraffic {
            what: why.words(),
            count,
        });
        Matrix {
            by,
            span_ps: self.span.map_or(0, |(first, last)| last - first),
            pairs: self.pairs.traffic(),
            algorithms,
            calls: Vec::new(),
            unknown: unknown.collect(),
        }
    }
}
