//! One call of a class, over all its instances.
//!
//! Used by `learn`.

/// Collection of calls' instances.
mod gather;
/// Peers and roots as relations of ranks.
mod peers;
/// Members of communicators that a call creates.
mod shape;

use std::cell::RefCell;
use std::collections::BTreeMap;

use belljar_trace::{Direction, Event, Peer};

use super::kinds::called;
use super::{LearnError, ProgramFacts};
use crate::model::call::{
    CallModel, CallTimeModel, CollectiveModel, Completes, Counter, Tags, TransferModel,
};
use crate::relation::Grid;
use crate::values::{Hint, Sample, Spread, Values};
pub(super) use gather::{Instance, gather};
use peers::Peers;

/// Longest list of tags or completions that is kept.
const LONGEST: usize = 1 << 12;

/// Creates the model of a call from its instances, and adds findings about its rules.
pub(super) fn call_model(
    all: &[Instance<'_>],
    class: usize,
    token: u32,
    facts: ProgramFacts<'_>,
    templates: &mut Vec<Event>,
    findings: &mut Findings,
) -> Result<CallModel, LearnError> {
    let look = CallInstances {
        all,
        class,
        token,
        facts,
        grids: RefCell::default(),
        unsure: RefCell::default(),
    };
    let largest = all.iter().max_by_key(|it| it.run.ranks);
    let Some(largest) = largest else {
        return Err(look.no_rule("instances", String::new()));
    };
    let template = templates.len() as u32;
    templates.push(largest.step.event.clone());
    let event = &largest.step.event;
    let mut transfers = Vec::new();
    for at in 0..event.transfers.len() {
        transfers.push(look.transfer(at)?);
    }
    let mut collectives = Vec::new();
    for at in 0..event.collectives.len() {
        collectives.push(look.collective(at)?);
    }
    let call = CallModel {
        template,
        times: look.times()?,
        transfers,
        collectives,
        completes: look.completes(),
        shape: look.shape(event)?,
    };
    findings.unsure.extend(look.unsure.into_inner());
    findings.grids.extend(look.grids.into_inner());
    Ok(call)
}

/// Findings about rules of calls, separate from the rules.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Rules that the runs do not distinguish, in words.
    pub(super) unsure: Vec<String>,
    /// Grids of rules that are unambiguous in the runs.
    pub(super) grids: Vec<Grid>,
}

/// All instances of a call.
struct CallInstances<'l, 'r> {
    all: &'l [Instance<'r>],
    class: usize,
    facts: ProgramFacts<'l>,
    /// The token of the call.
    token: u32,
    /// Grids of rules that are unambiguous in the runs.
    grids: RefCell<Vec<Grid>>,
    /// Rules that the runs do not distinguish, in words.
    unsure: RefCell<Vec<String>>,
}

impl CallInstances<'_, '_> {
    /// Returns the times by the previous call.
    fn times(&self) -> Result<Vec<CallTimeModel>, LearnError> {
        let mut counts: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        for it in self.all {
            *counts.entry(it.after).or_default() += 1;
        }
        let mut befores: Vec<_> = counts.into_iter().collect();
        befores.sort_by_key(|(after, count)| (std::cmp::Reverse(*count), *after));
        let times = befores.into_iter().map(|(after, _)| {
            let of = |what, time: fn(&Instance<'_>) -> f64| {
                let own = |it: &Instance<'_>| (it.after == after).then(|| time(it));
                let samples = self.samples(own);
                let values = self.fitted(what, false, &samples, Hint::default())?;
                let spread = Spread::of(&samples, &values);
                Ok::<_, LearnError>((values, spread))
            };
            let (before, before_spread) = of("the time before", |it| it.step.before)?;
            let (own, own_spread) = of("the time of its own", |it| it.step.own)?;
            Ok(CallTimeModel {
                after,
                before,
                before_spread,
                own,
                own_spread,
            })
        });
        times.collect()
    }

    fn samples(&self, of: impl Fn(&Instance<'_>) -> Option<f64>) -> Vec<Sample> {
        let samples = self.all.iter();
        let samples = samples.filter_map(|it| Some(it.sample(of(it)?)));
        samples.collect()
    }

    /// Returns the values of all instances that have one.
    fn values(
        &self,
        what: &'static str,
        hint: Hint,
        of: impl Fn(&Instance<'_>) -> Option<f64>,
    ) -> Result<Values, LearnError> {
        self.fitted(what, true, &self.samples(of), hint)
    }

    fn fitted(
        &self,
        what: &'static str,
        exact: bool,
        samples: &[Sample],
        hint: Hint,
    ) -> Result<Values, LearnError> {
        Values::of(samples, exact, hint).map_err(|source| LearnError::Fit {
            what,
            function: self
                .all
                .first()
                .map_or("?", |it| it.event().name())
                .to_owned(),
            source,
        })
    }

    fn transfer(&self, at: usize) -> Result<TransferModel, LearnError> {
        let peer = |it: &Instance<'_>| {
            let transfer = it.event().transfers.get(at)?;
            let peer = match transfer.peer {
                Peer::Any => it.sources.get(at).copied().flatten()?,
                peer => peer,
            };
            match peer {
                Peer::Rank(rank) => Some((transfer.communicator, Some(rank))),
                Peer::Null => Some((transfer.communicator, None)),
                _ => None,
            }
        };
        let receives = self.all.first().and_then(|it| it.event().transfers.get(at));
        let receives = receives.is_some_and(|it| it.direction == Direction::Receive);
        let any = |it: &Instance<'_>| {
            let transfer = it.event().transfers.get(at);
            transfer.is_none_or(|it| it.peer == Peer::Any)
        };
        let found = match self.peers(receives, peer) {
            // The order in which messages arrived at a wildcard is not a rule of the program.
            Err(_) if self.all.iter().all(any) => Peers::default(),
            found => found?,
        };
        let Peers { peer, by, phases } = found;
        let bytes = match self.facts.pools.bytes(self.token, at) {
            Some(values) => values.clone(),
            None => self.values("bytes", Hint::faces(self.facts.data), |it| {
                let transfer = it.event().transfers.get(at)?;
                (transfer.peer != Peer::Null).then_some(transfer.bytes as f64)
            })?,
        };
        Ok(TransferModel {
            peer,
            by,
            phases,
            tag: self.tags(at),
            bytes,
        })
    }

    fn tags(&self, at: usize) -> Tags {
        let tag = |it: &Instance<'_>| it.event().transfers.get(at).and_then(|it| it.tag);
        let Some(first) = self.all.iter().find_map(tag) else {
            return Tags::None;
        };
        let by = |of: fn(&Instance<'_>) -> u32| {
            let from = self
                .all
                .iter()
                .find_map(|it| Some(tag(it)?.wrapping_sub(of(it) as i32)))?;
            let holds = |it: &Instance<'_>| {
                tag(it).is_none_or(|tag| tag == from.wrapping_add(of(it) as i32))
            };
            self.all.iter().all(holds).then_some(from)
        };
        if self
            .all
            .iter()
            .all(|it| tag(it).is_none_or(|tag| tag == first))
        {
            return Tags::Same(first);
        }
        if let Some(from) = by(|it| it.turn) {
            return Tags::Turn(from);
        }
        if let Some(from) = by(|it| it.index) {
            return Tags::Instance(from);
        }
        let longest = self.longest();
        Tags::List(
            longest
                .iter()
                .take(LONGEST)
                .map(|it| tag(it).unwrap_or(0))
                .collect(),
        )
    }

    /// Returns the instances of the rank with the most instances.
    fn longest(&self) -> Vec<&Instance<'_>> {
        let key = |it: &Instance<'_>| (it.number, it.rank);
        let most = self.all.iter().max_by_key(|it| (it.count, it.run.ranks));
        let most = most.map(key);
        self.all.iter().filter(|it| Some(key(it)) == most).collect()
    }

    fn collective(&self, at: usize) -> Result<CollectiveModel, LearnError> {
        let has_root = self.all.iter().any(|it| {
            let collective = it.event().collectives.get(at);
            collective.is_some_and(|it| matches!(it.root, Some(Peer::Rank(_))))
        });
        let (root, by) = match has_root {
            true => {
                let (root, by) = self.relation("roots", |it| {
                    let collective = it.event().collectives.get(at)?;
                    match collective.root? {
                        Peer::Rank(root) => Some((collective.communicator, Some(root))),
                        _ => None,
                    }
                })?;
                (Some(root), by)
            }
            false => (None, Counter::Turn),
        };
        let bytes = |sent: bool| {
            move |it: &Instance<'_>| {
                let collective = it.event().collectives.get(at)?;
                let amount = if sent {
                    &collective.sent
                } else {
                    &collective.received
                };
                let pieces = amount
                    .pieces
                    .iter()
                    .fold(0_u64, |sum, it| sum.saturating_add(*it));
                Some(amount.bytes.unwrap_or(pieces) as f64)
            }
        };
        Ok(CollectiveModel {
            root,
            by,
            sent: self.values("bytes", Hint::of(self.facts.data), bytes(true))?,
            received: self.values("bytes", Hint::of(self.facts.data), bytes(false))?,
        })
    }

    fn completes(&self) -> Completes {
        let all_of = |it: &Instance<'_>| it.completes.len() as u32 == it.open;
        // A single open request could be both all of them and the first.
        let several = self.all.iter().any(|it| it.completes.len() > 1);
        if let Some(first) = self.all.first()
            && self.all.iter().all(|it| it.completes == first.completes)
            && !(several && self.all.iter().all(all_of))
        {
            return Completes::These(first.completes.clone());
        }
        if self.all.iter().all(all_of) {
            return Completes::All;
        }
        let mut by_turn: BTreeMap<u32, &Vec<u32>> = BTreeMap::new();
        for it in self.longest().into_iter().take(LONGEST) {
            by_turn.insert(it.index, &it.completes);
        }
        Completes::InTurn(by_turn.into_values().cloned().collect())
    }
}
