//! Equal collective calls of a process, counted.
//!
//! Computing the traffic between all pairs of members takes time with the square of the members. Programs repeat the same calls, so a
//! few kinds of calls are kept for each process and counted, and each kind is computed once. Each call is in exactly one of the
//! returned kinds, independent of the kinds that are kept. Used by `collect` for collective calls as the program makes them.

use std::collections::BTreeMap;

use belljar_mpi::Operation;
use belljar_trace::Collective;

use belljar_job::{Member, ProcessKey};

/// Kinds of calls that are kept for a process.
const KINDS: usize = 16;

/// Most pieces of a kept call, which bounds the memory. A call with more is computed at once: it has a piece for each member, so
/// reading it takes as long.
const PIECES: usize = 64;

/// Equal calls of a process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Repeated {
    pub(super) process: ProcessKey,
    /// The process, as its calls name it.
    pub(super) own: Member,
    pub(super) operation: Operation,
    pub(super) collective: Collective,
    /// The number of calls.
    pub(super) calls: u64,
}

/// Counted calls.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// By process, with the latest kind at the end.
    kinds: BTreeMap<ProcessKey, Vec<Repeated>>,
}

impl Repeats {
    /// Adds a call. Returns a kind that is dropped, or a call that is not kept, and that is to be computed now.
    pub(super) fn take(
        &mut self,
        process: ProcessKey,
        own: Member,
        operation: Operation,
        collective: &Collective,
    ) -> Option<Repeated> {
        let fresh = || Repeated {
            process,
            own,
            operation,
            collective: collective.clone(),
            calls: 1,
        };
        if collective.sent.pieces.len() + collective.received.pieces.len() > PIECES {
            return Some(fresh());
        }
        let kinds = self.kinds.entry(process).or_default();
        let same = |kind: &Repeated| {
            kind.own == own && kind.operation == operation && kind.collective == *collective
        };
        if let Some(place) = kinds.iter().rposition(same) {
            kinds[place].calls = kinds[place].calls.saturating_add(1);
            kinds[place..].rotate_left(1);
            return None;
        }
        let forgotten = (kinds.len() >= KINDS).then(|| kinds.remove(0));
        kinds.push(fresh());
        forgotten
    }

    /// Returns the kept kinds, in the order of processes.
    pub(super) fn finish(self) -> impl Iterator<Item = Repeated> {
        self.kinds.into_values().flatten()
    }
}

#[cfg(test)]
mod tests {
    use belljar_trace::{Amount, Event, Phase};

    use super::super::sums::Pairs;
    use super::super::{TrafficCollector, TrafficOf};
    use super::*;
    use crate::generated::Stencil;
    use belljar_job::Collector;
    use belljar_job::Expansion;

    fn collective(bytes: u64, pieces: usize) -> Collective {
        let amount = Amount {
            bytes: Some(bytes),
            pieces: vec![bytes; pieces],
            ..Amount::NOTHING
        };
        Collective {
            operation: Some(Operation::Allreduce),
            phase: Phase::Done,
            communicator: Some(0),
            root: None,
            sent: amount.clone(),
            received: amount,
        }
    }

    #[test]
    fn every_call_comes_out_once() {
        const OPERATION: Operation = Operation::Allreduce;
        const CALLER: (ProcessKey, Member) = ((0, 0), Member { job: 0, rank: 0 });
        let mut repeats = Repeats::default();
        let mut counted = BTreeMap::<u64, u64>::new();
        let mut out = |repeated: Repeated| {
            let bytes = repeated.collective.sent.bytes.unwrap();
            *counted.entry(bytes).or_default() += repeated.calls;
        };
        for turn in 0..400u64 {
            let bytes = if turn % 2 == 0 { 8 } else { turn % 50 };
            let forgotten = repeats.take(CALLER.0, CALLER.1, OPERATION, &collective(bytes, 0));
            forgotten.into_iter().for_each(&mut out);
        }
        // Calls with many pieces are not kept.
        let large = repeats.take(CALLER.0, CALLER.1, OPERATION, &collective(1000, PIECES));
        assert_eq!(large.as_ref().map(|it| it.calls), Some(1));
        out(large.unwrap());
        let left: Vec<Repeated> = repeats.finish().collect();
        assert_eq!(left.len(), KINDS);
        left.into_iter().for_each(&mut out);
        assert_eq!(counted.values().sum::<u64>(), 401);
        assert_eq!((counted[&8], counted[&7], counted[&1000]), (200, 8, 1));
    }

    const STENCIL: Stencil = Stencil {
        width: 3,
        height: 2,
        steps: 20,
        rounds: 5,
        report: 5,
    };

    /// The stencil's collective calls: repeated ones of some kinds, more kinds than are kept, and some with unknown bytes.
    fn events() -> Vec<Event> {
        let mut events: Vec<Event> = STENCIL.events().collect();
        for (turn, event) in (0u64..).zip(&mut events) {
            event.transfers.clear();
            for collective in &mut event.collectives {
                let bytes = [Some(8), Some(turn), Some(turn % 5), None];
                collective.sent.bytes = bytes[turn as usize % bytes.len()];
            }
        }
        events
    }

    #[test]
    fn calls_that_are_alike_add_up_to_what_each_of_them_says() {
        let (header, events) = (STENCIL.header(), events());
        let mut collector = Collector::new();
        events
            .iter()
            .for_each(|event| collector.observe(event, &header));
        let communicators = collector.resolve();
        let expansion = Expansion::new(&communicators, None);
        let (mut pairs, mut unknown) = (Pairs::default(), 0);
        let of = TrafficOf::default();
        let mut traffic = TrafficCollector::new(&header, &communicators, of, None);
        for event in &events {
            traffic.observe(event, true);
            let rank = event.rank;
            let own = Member { job: 0, rank };
            for collective in &event.collectives {
                let each = |to, bytes| pairs.add(own, to, 1, bytes);
                let stated = expansion.stated(event, collective, each);
                unknown += u64::from(stated.is_err());
            }
        }
        let matrix = traffic.finish();
        assert!(unknown > 0 && !matrix.pairs.is_empty());
        assert_eq!(matrix.pairs, pairs.traffic());
        let counted: u64 = matrix.unknown.iter().map(|it| it.count).sum();
        assert_eq!(counted, unknown);
    }
}
