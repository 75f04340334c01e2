//! The calls of one rank.
//!
//! Each is its template with the differing parts: ranks, bytes, tags, requests, times. Used by `generate`.

/// Facts of calls about MPI objects.
mod facts;

use belljar_sim::{Frequency, Time};
use belljar_trace::{
    Accounts, Amount, Completion, Direction, Ending, Event, Fact, Folded, GivenUp, GroupMembers,
    Peer, Status, Transfer,
};

use super::groups::Groups;
use super::plan::Planned;
use crate::model::{
    CallModel, Class, CollectiveModel, Completes, Counter, Tags, TransferModel, phase,
};
use crate::relation::{Relation, RelationArguments};
use crate::structure::Turns;
use crate::values::{EvaluationPoint, Spread, Values};
use facts::MadeGroups;

/// Latest end of a run, in picoseconds: later times indicate damage.
const LATEST: f64 = 1e18;

/// Largest deviation of a call's own time from its mean, in picoseconds, as caused by interrupts. Larger deviations are waiting that no cost explains, in which ranks
/// depend on each other: as independent delays of each rank they would add up from step to step.
const NOISE: f64 = 20e6;

/// An open request.
#[derive(Clone, Copy, Debug)]
struct OpenRequest {
    request: u64,
    direction: Option<Direction>,
    /// The status of its message: source, tag and length.
    status: Status,
}

/// Generates the calls of one rank.
pub(super) struct RankCalls<'m> {
    rank: u32,
    ranks: u32,
    size: f64,
    templates: &'m [Event],
    class: &'m Class,
    groups: &'m Groups,
    per_node: u32,
    /// Groups that are the members of a communicator created from them.
    made: MadeGroups<'m>,
    open: Vec<OpenRequest>,
    requests: u64,
}

/// The instance of a call.
#[derive(Clone, Copy, Debug)]
struct At {
    turns: Turns,
    index: u32,
    count: u32,
}

impl<'m> RankCalls<'m> {
    pub(super) fn new(
        rank: u32,
        ranks: u32,
        size: f64,
        templates: &'m [Event],
        class: &'m Class,
        groups: &'m Groups,
        per_node: u32,
    ) -> Self {
        Self {
            rank,
            ranks,
            size,
            templates,
            class,
            groups,
            per_node,
            made: MadeGroups::of(templates, class),
            open: Vec::new(),
            requests: 0,
        }
    }

    /// Generates the calls of a plan, from a start time on.
    pub(super) fn make(
        mut self,
        plan: &[Planned],
        start: f64,
        clock: Frequency,
        events: &mut Vec<Event>,
    ) {
        let mut counts = vec![0; self.class.calls.len()];
        for planned in plan {
            counts[planned.call as usize] += 1;
        }
        let mut indices = vec![0; counts.len()];
        let mut now = start;
        let world = RelationArguments {
            rank: self.rank,
            ranks: self.ranks,
            turn: 0,
        };
        for (number, planned) in plan.iter().enumerate() {
            let call = planned.call as usize;
            let at = At {
                turns: planned.turns,
                index: indices[call],
                count: counts[call],
            };
            indices[call] += 1;
            let model = &self.class.calls[call];
            // A number that differs for each call of each rank.
            let of = u64::from(self.rank) << 40 ^ (number as u64) << 1;
            let span = |values: &Values, spread: &Spread, of: u64, most: f64| {
                let value = self.value(values, at, world);
                let away = (value * (spread.at(of) - 1.0)).clamp(-most, most);
                (value + away).clamp(0.0, LATEST)
            };
            let after = number.checked_sub(1).map(|before| plan[before].call);
            let known = model.times.iter().find(|times| times.after == after);
            let Some(times) = known.or(model.times.first()) else {
                continue;
            };
            let entry = match number {
                0 => now,
                _ => now + span(&times.before, &times.before_spread, of, LATEST),
            };
            let exit = (entry + span(&times.own, &times.own_spread, of | 1, NOISE)).min(LATEST);
            now = exit;
            let cycle = |ps: f64| clock.cycle_at(Time::from_ps(ps.min(LATEST) as u64));
            let mut event = self.call(model, at);
            event.entry = cycle(entry);
            // A call without duration has no room for the time that a replay adds.
            event.exit = Some(cycle(exit).max(event.entry.saturating_add(1)));
            events.push(event);
        }
    }

    fn value(&self, values: &Values, at: At, place: RelationArguments) -> f64 {
        values.at(EvaluationPoint {
            ranks: f64::from(self.ranks),
            size: self.size,
            instance: (at.index, at.count),
            turn: at.turns.turn,
            place,
        })
    }

    /// Returns a nonnegative count.
    fn bytes(&self, values: &Values, at: At, place: RelationArguments) -> u64 {
        self.value(values, at, place)
            .round()
            .clamp(0.0, 2_f64.powi(62)) as u64
    }

    fn place(&self, communicator: Option<u32>, at: At, by: Counter) -> RelationArguments {
        let (rank, ranks) = self.groups.place(self.rank, communicator);
        let turn = by.of(at.turns, at.index);
        RelationArguments { rank, ranks, turn }
    }

    fn call(&mut self, model: &CallModel, at: At) -> Event {
        let mut event = self.templates[model.template as usize].clone();
        (event.node, event.process) = (self.rank / self.per_node, self.rank % self.per_node);
        (event.vcpu, event.thread, event.rank) = (0, 0, self.rank);
        event.accounts = Accounts(None);
        event.folded = Folded(None);
        event.given_up = GivenUp(None);
        let mut statuses = Vec::new();
        for (transfer, of) in event.transfers.iter_mut().zip(&model.transfers) {
            statuses.push(self.transfer(transfer, of, at));
        }
        for (collective, of) in event.collectives.iter_mut().zip(&model.collectives) {
            self.collective(collective, of, at);
        }
        if let (Some(status), Some((_, told))) = (
            &mut event.status,
            statuses
                .iter()
                .find(|(direction, _)| *direction == Direction::Receive),
        ) {
            if told.source == Peer::Any {
                event.status = None;
            } else {
                *status = Status {
                    cancelled: status.cancelled,
                    observed: status.observed,
                    ..*told
                };
            }
        }
        self.requests(&mut event, model, &statuses, at);
        if let Some(fact) = event.fact.take() {
            event.fact = Some(self.fact(fact, &model.shape, at));
        }
        self.arguments(&mut event);
        event
    }

    /// Fills in a message, and returns the contents of its status.
    fn transfer(&self, transfer: &mut Transfer, of: &TransferModel, at: At) -> (Direction, Status) {
        let place = self.place(transfer.communicator, at, of.by);
        let phase = match of.phases.as_slice() {
            [] => at.turns.turn,
            phases => phase(phases, at.turns, at.index),
        };
        // One for all instances, or one for each phase.
        let relation = of.peer.get(phase as usize).or(of.peer.last());
        let peer = relation.and_then(|it| it.at(place));
        let peer = peer.map_or(Peer::Null, Peer::Rank);
        let wildcard = transfer.peer == Peer::Any;
        // A replay chooses the message of a wildcard.
        let peer = if wildcard && of.peer.is_empty() {
            Peer::Any
        } else {
            peer
        };
        if !wildcard {
            transfer.peer = peer;
        }
        let tag = match &of.tag {
            Tags::None => transfer.tag,
            Tags::Same(tag) => Some(*tag),
            Tags::Turn(from) => Some(from.saturating_add_unsigned(at.turns.turn)),
            Tags::Instance(from) => Some(from.saturating_add_unsigned(at.index)),
            Tags::List(all) => all.get(at.index as usize % all.len().max(1)).copied(),
        };
        transfer.tag = transfer.tag.and(tag);
        transfer.bytes = match peer {
            Peer::Null => 0,
            _ => self.bytes(&of.bytes, at, place),
        };
        if let Some(size) = transfer.datatype.size().filter(|size| *size > 0) {
            transfer.count = transfer.bytes / size;
        }
        let status = Status {
            source: peer,
            tag: tag.unwrap_or(0),
            bytes: transfer.bytes,
            cancelled: false,
            observed: false,
        };
        (transfer.direction, status)
    }

    fn collective(&self, collective: &mut belljar_trace::Collective, of: &CollectiveModel, at: At) {
        let place = self.place(collective.communicator, at, of.by);
        let root = |relation: &Relation| relation.at(place).map(Peer::Rank);
        if let (Some(Peer::Rank(_)), Some(relation)) = (collective.root, &of.root) {
            collective.root = root(relation).or(collective.root);
        }
        let fill = |amount: &mut Amount, values: &Values| {
            let bytes = self.bytes(values, at, place);
            if amount.bytes.is_some() {
                amount.bytes = Some(bytes);
            }
            if !amount.pieces.is_empty() {
                let count = u64::from(place.ranks);
                // As evenly as possible.
                let piece = |at: u64| bytes / count + u64::from(at < bytes % count);
                amount.pieces = (0..count).map(piece).collect();
            }
        };
        fill(&mut collective.sent, &of.sent);
        fill(&mut collective.received, &of.received);
    }

    /// Adds the requests that the call begins and completes.
    fn requests(
        &mut self,
        event: &mut Event,
        model: &CallModel,
        statuses: &[(Direction, Status)],
        at: At,
    ) {
        let positions: Vec<usize> = match &model.completes {
            Completes::All => (0..self.open.len()).collect(),
            Completes::These(all) => all.iter().map(|it| *it as usize).collect(),
            Completes::InTurn(all) => {
                let own = all.get(at.index as usize % all.len().max(1));
                own.into_iter().flatten().map(|it| *it as usize).collect()
            }
        };
        let told = event.completed.iter().any(|it| it.status.is_some());
        let done = positions
            .iter()
            .filter_map(|it| self.open.get(*it).copied());
        event.completed = done
            .map(|open| {
                let receives = open.direction == Some(Direction::Receive);
                let told = told && open.status.source != Peer::Any;
                Completion {
                    request: open.request,
                    status: (told && receives).then_some(open.status),
                    received: if receives { open.status.bytes } else { 0 },
                    exact: told || !receives,
                    ending: Ending::Well,
                }
            })
            .collect();
        let mut number = 0;
        self.open.retain(|_| {
            number += 1;
            !positions.contains(&(number - 1))
        });
        for (index, request) in event.started.iter_mut().enumerate() {
            *request = self.requests;
            self.requests += 1;
            let of = statuses.get(index);
            let nothing = Status {
                source: Peer::Null,
                tag: 0,
                bytes: 0,
                cancelled: false,
                observed: false,
            };
            self.open.push(OpenRequest {
                request: *request,
                direction: of.map(|(direction, _)| *direction),
                status: of.map_or(nothing, |(_, status)| *status),
            });
        }
    }

    /// Updates argument words of changed values.
    fn arguments(&self, event: &mut Event) {
        let rank = |peer: Peer| match peer {
            Peer::Rank(rank) => Some(u64::from(rank)),
            _ => None,
        };
        let of = |direction: Direction| {
            let mut transfers = event.transfers.iter();
            transfers.find(|it| it.direction == direction).cloned()
        };
        let (sent, received) = (of(Direction::Send), of(Direction::Receive));
        let either = sent.as_ref().or(received.as_ref());
        let root = event
            .collectives
            .first()
            .and_then(|it| it.root)
            .and_then(rank);
        let included = match &event.fact {
            Some(Fact::Group {
                members: GroupMembers::Include(_, ranks),
                ..
            }) => Some(ranks.len() as u64),
            _ => None,
        };
        let parameters = event.description().parameters.iter();
        for (word, parameter) in event.arguments.iter_mut().zip(parameters) {
            let new = match (parameter.name, parameter.pointer) {
                ("dest", 0) => sent.as_ref().and_then(|it| rank(it.peer)),
                ("source", 0) => received.as_ref().and_then(|it| rank(it.peer)),
                ("root", 0) => root,
                ("n", 0) => included,
                ("count", 0) if !event.transfers.is_empty() => either.map(|it| it.count),
                ("sendcount", 0) => sent.as_ref().map(|it| it.count),
                ("recvcount", 0) => received.as_ref().map(|it| it.count),
                ("tag", 0) => either
                    .and_then(|it| it.tag)
                    .map(|tag| i64::from(tag) as u64),
                _ => None,
            };
            *word = new.unwrap_or(*word);
        }
    }
}
