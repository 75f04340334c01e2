//! What one call of a class is, over all its instances.
//!
//! Called by `learn`.

/// Peers and roots as relations of ranks.
mod peers;
/// Who is in communicators that a call makes.
mod shape;

use std::cell::RefCell;
use std::collections::BTreeMap;

use belljar_trace::{Direction, Event, Peer};

use super::{LearnError, called};
use crate::model::call::{
    CallModel, CollectiveModel, Completes, Counter, Tags, Times, TransferModel,
};
use crate::relation::{Grid, Place};
use crate::run::{Run, Step};
use crate::structure::{Reading, Turns};
use crate::values::{Sample, Spread, Values};
use peers::Peers;

/// Instances of the longest list of tags or completions that is kept.
const LONGEST: usize = 1 << 12;

/// One instance of a call.
#[derive(Clone, Debug)]
pub(super) struct Instance<'r> {
    run: &'r Run,
    number: usize,
    step: &'r Step,
    rank: u32,
    turn: u32,
    /// Turns of all loops around it.
    around: Turns,
    /// The call before.
    after: Option<u32>,
    /// Which instance of this call and rank it is.
    index: u32,
    count: u32,
    /// Which of the open requests it completes, and how many are open.
    completes: Vec<u32>,
    open: u32,
    /// Whom the message of each receive with a wildcard came from, and what a receive got.
    sources: Vec<Option<Peer>>,
}

/// A request that is open: where it was begun, and which of that call's transfers it is.
struct Open {
    request: u64,
    call: u32,
    at: usize,
    transfer: usize,
}

/// Adds the calls of a rank to `all`, by the number of the call.
pub(super) fn gather<'r>(
    run: &'r Run,
    number: usize,
    rank: u32,
    reading: &Reading,
    all: &mut [Vec<Instance<'r>>],
) {
    let mut counts = vec![0; all.len()];
    for (call, _) in &reading.calls {
        counts[*call as usize] += 1;
    }
    let mut indices = vec![0; all.len()];
    let mut open: Vec<Open> = Vec::new();
    let mut after = None;
    let calls = reading.calls.iter().zip(&reading.around);
    for (step, ((call, turn), around)) in run.steps[rank as usize].iter().zip(calls) {
        let own = *call as usize;
        let event = &step.event;
        let completes = completed(event, &mut open, all);
        let still = completes.len() + open.len();
        let at = all[own].len();
        for (transfer, request) in event.started.iter().enumerate() {
            open.push(Open {
                request: *request,
                call: *call,
                at,
                transfer,
            });
        }
        let mut sources = vec![None; event.transfers.len()];
        if let Some(status) = event.status {
            let receive = event
                .transfers
                .iter()
                .position(|it| it.direction == Direction::Receive);
            if let Some(receive) = receive {
                sources[receive] = Some(status.source);
            }
        }
        all[own].push(Instance {
            run,
            number,
            step,
            rank,
            turn: *turn,
            around: *around,
            after: after.replace(*call),
            index: indices[own],
            count: counts[own],
            completes,
            open: still as u32,
            sources,
        });
        indices[own] += 1;
    }
}

/// Which of the open requests a call completes; what their statuses say goes to the calls that began them.
fn completed(event: &Event, open: &mut Vec<Open>, all: &mut [Vec<Instance<'_>>]) -> Vec<u32> {
    let mut places = Vec::new();
    for completion in &event.completed {
        let Some(place) = open.iter().position(|it| it.request == completion.request) else {
            continue;
        };
        places.push(place);
        if let Some(status) = completion.status {
            let Open {
                call, at, transfer, ..
            } = open[place];
            let begun = all[call as usize].get_mut(at);
            if let Some(source) = begun.and_then(|it| it.sources.get_mut(transfer)) {
                *source = Some(status.source);
            }
        }
    }
    let mut number = 0;
    open.retain(|_| {
        number += 1;
        !places.contains(&(number - 1))
    });
    places.iter().map(|place| *place as u32).collect()
}

/// Makes the template of a call from its instances, and adds findings about its rules.
pub(super) fn call_model(
    all: &[Instance<'_>],
    class: usize,
    (templates, grid, found): (&mut Vec<Event>, Option<Grid>, &mut Findings),
) -> Result<CallModel, LearnError> {
    let look = Look {
        all,
        class,
        grid,
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
    found.unsure.extend(look.unsure.into_inner());
    found.grids.extend(look.grids.into_inner());
    Ok(call)
}

/// Findings about rules of calls, apart from the rules.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Rules that the runs do not tell apart, in words.
    pub(super) unsure: Vec<String>,
    /// Grids of rules that they tell apart from others.
    pub(super) grids: Vec<Grid>,
}

/// All instances of a call.
struct Look<'l, 'r> {
    all: &'l [Instance<'r>],
    class: usize,
    /// The grid that other calls of the program have.
    grid: Option<Grid>,
    /// Grids of rules that the runs tell apart from others.
    grids: RefCell<Vec<Grid>>,
    /// Rules that the runs do not tell apart, in words.
    unsure: RefCell<Vec<String>>,
}

impl Instance<'_> {
    fn event(&self) -> &Event {
        &self.step.event
    }

    /// Where the rank is in a communicator of its own.
    fn place(&self, communicator: Option<u32>, by: Counter) -> Place {
        let process = (self.event().node, self.event().process);
        let known = communicator.and_then(|number| {
            let of = &self.run.communicators;
            let remote = of.remote_members(process, number);
            let members = remote.or_else(|| of.members(process, number))?;
            Some((of.rank(process, number)?, members.len()))
        });
        let (rank, ranks) = known.unwrap_or((self.rank, self.run.ranks));
        let turn = self.counted(by);
        Place { rank, ranks, turn }
    }

    fn counted(&self, by: Counter) -> u32 {
        by.of(self.around, self.index)
    }
}

impl Look<'_, '_> {
    /// Times by the call before.
    fn times(&self) -> Result<Vec<Times>, LearnError> {
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
                let values = self.fitted(what, false, &samples)?;
                let spread = Spread::of(&samples, &values);
                Ok::<_, LearnError>((values, spread))
            };
            let (before, before_spread) = of("the time before", |it| it.step.before)?;
            let (own, own_spread) = of("the time of its own", |it| it.step.own)?;
            Ok(Times {
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
        let samples = self.all.iter().filter_map(|it| {
            Some(Sample {
                run: it.number,
                ranks: f64::from(it.run.ranks),
                size: it.run.size,
                instance: (it.index, it.count),
                turn: it.turn,
                value: of(it)?,
            })
        });
        samples.collect()
    }

    /// Values of all instances that have one.
    fn values(
        &self,
        what: &'static str,
        exact: bool,
        of: impl Fn(&Instance<'_>) -> Option<f64>,
    ) -> Result<Values, LearnError> {
        self.fitted(what, exact, &self.samples(of))
    }

    fn fitted(
        &self,
        what: &'static str,
        exact: bool,
        samples: &[Sample],
    ) -> Result<Values, LearnError> {
        Values::of(samples, exact).map_err(|source| LearnError::Fit {
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
            // The order in which messages came to a wildcard is no rule of the program's.
            Err(_) if self.all.iter().all(any) => Peers::default(),
            found => found?,
        };
        let Peers { peer, by, phases } = found;
        let bytes = self.values("bytes", true, |it| {
            let transfer = it.event().transfers.get(at)?;
            (transfer.peer != Peer::Null).then_some(transfer.bytes as f64)
        })?;
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

    /// The instances of a rank that has most of them.
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
            sent: self.values("bytes", true, bytes(true))?,
            received: self.values("bytes", true, bytes(false))?,
        })
    }

    fn completes(&self) -> Completes {
        let all_of = |it: &Instance<'_>| it.completes.len() as u32 == it.open;
        // One request that is the only one open is all of them, or the first.
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
