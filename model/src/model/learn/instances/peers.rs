//! Peers and roots as relations of ranks.
//!
//! There is one relation for all instances, or one for each phase: in a wavefront with changing direction, the phase is the turn of an outer loop. Used for each call's
//! model.

use std::collections::BTreeSet;

use belljar_sim::figures::counted;
use belljar_trace::Peer;

use super::super::LearnError;
use super::{CallInstances, Instance, called};
use crate::model::call::{Counter, phase};
use crate::relation::{Preference, Relation, RelationArguments};

/// Most turns of a loop whose peers may have separate relations.
const MOST_TURNS: u32 = 64;

/// Longest cycle of phases: a sweep has one from each of eight corners.
const MOST_PHASES: u32 = 8;

/// Most samples of a relation that are used: those of some ranks of each run.
const MOST_SAMPLES: usize = 1 << 16;

/// Advice for runs without call sites.
const WITHOUT_SITES: &str = "the runs have no call sites, so calls of a function at several places are taken for one: run with `trace.frames = 1`";

/// Advice for ranks that answer messages of any source.
const MASTER: &str = "the rank receives from any source, and answers in the order in which messages came, as a master with workers does: such programs are not modelled";

/// Most ranks and peers in a message.
const NAMED: usize = 8;

/// The peers of a message. Without a relation, a wildcard takes any message that arrives.
#[derive(Default)]
pub(super) struct Peers {
    /// One relation, or one for each phase.
    pub(super) peer: Vec<Relation>,
    /// The turn of these relations.
    pub(super) by: Counter,
    /// Counters of the phase, each with its period.
    pub(super) phases: Vec<(Counter, u32)>,
}

/// Positions of ranks, and the number of each.
type Samples = Vec<(RelationArguments, Option<u32>)>;

fn distinct(mut samples: Samples) -> Samples {
    samples.sort_unstable();
    samples.dedup();
    samples
}

impl<'r> CallInstances<'_, 'r> {
    pub(super) fn no_rule(&self, what: &'static str, example: String) -> LearnError {
        let first = self.all.first().map(Instance::event);
        let wildcards = |it: &Instance<'_>| {
            let steps = it.run.steps[it.rank as usize].iter();
            let mut transfers = steps.flat_map(|step| &step.event.transfers);
            transfers.any(|it| it.peer == Peer::Any)
        };
        let answers = what == "peers" && self.all.first().is_some_and(wildcards);
        let advice = match first.is_some_and(|event| event.site.0.is_some()) {
            _ if answers => MASTER,
            true => "`belljar trace sites` shows the line of the call",
            false => WITHOUT_SITES,
        };
        LearnError::NoRule {
            what,
            function: first.map_or("?".to_owned(), called),
            count: self.all.len(),
            class: self.class,
            ranks: self.ranks(),
            example: format!("{example}; {advice}"),
        }
    }

    /// Describes the ranks that make the call in the largest run.
    fn ranks(&self) -> String {
        let Some(most) = self.all.iter().map(|it| it.run.ranks).max() else {
            return "no rank".to_owned();
        };
        let own = self.all.iter().filter(|it| it.run.ranks == most);
        let own: BTreeSet<u32> = own.map(|it| it.rank).collect();
        let first: Vec<String> = own.iter().take(NAMED).map(u32::to_string).collect();
        let more = if own.len() > NAMED { " ..." } else { "" };
        let all = counted(u64::from(most), "rank");
        match first.as_slice() {
            [one] => format!("rank {one} of {all}"),
            first => format!("ranks {}{more} of {all}", first.join(", ")),
        }
    }

    fn preference(&self, back: bool) -> Preference {
        let grids = self.all.first().is_some_and(|it| it.run.grids);
        let grid = self.facts.likely.map(|it| it.grid);
        Preference { grids, grid, back }
    }

    fn samples_by(
        &self,
        by: Counter,
        of: impl Fn(&Instance<'r>) -> Option<(Option<u32>, Option<u32>)>,
    ) -> Samples {
        let all = self.all.iter().filter_map(|it| {
            let (communicator, number) = of(it)?;
            Some((it.place(communicator, by), number))
        });
        let mut samples = distinct(all.collect());
        samples.truncate(MOST_SAMPLES);
        samples
    }

    /// Returns the relation of a number in all instances; `of` returns the communicator and the number.
    pub(super) fn relation(
        &self,
        what: &'static str,
        of: impl Fn(&Instance<'r>) -> Option<(Option<u32>, Option<u32>)>,
    ) -> Result<(Relation, Counter), LearnError> {
        let found = self.single(what, self.preference(false), &of);
        found.ok_or_else(|| self.no_rule(what, self.example(&of)))
    }

    fn single(
        &self,
        what: &'static str,
        prefer: Preference,
        of: &impl Fn(&Instance<'r>) -> Option<(Option<u32>, Option<u32>)>,
    ) -> Option<(Relation, Counter)> {
        Counter::ALL.into_iter().find_map(|by| {
            let samples = self.samples_by(by, of);
            let found = Relation::find(&samples, prefer)?;
            self.judge(what, found, &samples, prefer);
            Some((found, by))
        })
    }

    /// Records the grid of a relation as unambiguous in the runs, or as not distinguished.
    fn judge(&self, what: &'static str, found: Relation, samples: &Samples, prefer: Preference) {
        match found.rival(samples, prefer) {
            // Other calls determine the grid.
            Some(_)
                if self
                    .facts
                    .likely
                    .is_some_and(|it| it.sure && found.grid() == Some(it.grid)) => {}
            Some(rival) => self.unsure(what, found, rival),
            None => self.grids.borrow_mut().extend(found.grid()),
        }
    }

    /// Returns a relation for each of several parts of the instances; `None` if one has none.
    fn each(&self, parts: Vec<Samples>, prefer: Preference) -> Option<Vec<Relation>> {
        let parts: Vec<Samples> = parts.into_iter().map(distinct).collect();
        let found: Option<Vec<Relation>> =
            parts.iter().map(|it| Relation::find(it, prefer)).collect();
        let found = found?;
        for (relation, samples) in found.iter().zip(&parts) {
            self.judge("peers", *relation, samples, prefer);
        }
        Some(found)
    }

    /// Records that the runs do not distinguish two rules.
    fn unsure(&self, what: &'static str, found: Relation, rival: Relation) {
        let function = self.all.first().map(Instance::event);
        let function = function.map_or("?".to_owned(), called);
        let words = format!("{what} of {function}: {found}, or {rival}");
        self.unsure.borrow_mut().push(words);
    }

    /// Formats examples: the numbers of some ranks, those of the largest run first.
    fn example(&self, of: &impl Fn(&Instance<'r>) -> Option<(Option<u32>, Option<u32>)>) -> String {
        let mut samples = self.samples_by(Counter::Turn, of);
        samples.sort_by_key(|(place, _)| (std::cmp::Reverse(place.ranks), place.turn, place.rank));
        let some = samples.iter().take(NAMED).map(|(place, number)| {
            let number = number.map_or("nobody".to_owned(), |it| it.to_string());
            let RelationArguments { rank, ranks, turn } = place;
            format!("{rank} of {ranks} (turn {turn}): {number}")
        });
        some.collect::<Vec<_>>().join(", ")
    }

    /// Returns the peers of a message, of a receive or of a send.
    pub(super) fn peers(
        &self,
        receives: bool,
        of: impl Fn(&Instance<'r>) -> Option<(Option<u32>, Option<u32>)>,
    ) -> Result<Peers, LearnError> {
        let prefer = self.preference(receives);
        if let Some((peer, by)) = self.single("peers", prefer, &of) {
            return Ok(Peers {
                peer: vec![peer],
                by,
                phases: Vec::new(),
            });
        }
        if let Some(peer) = self.by_turn(prefer, &of) {
            return Ok(Peers {
                peer,
                by: Counter::Turn,
                phases: Vec::new(),
            });
        }
        let phases = self.phases(prefer, &of);
        phases.ok_or_else(|| self.no_rule("peers", self.example(&of)))
    }

    /// Returns a relation for each of a few phases, of one counter or of two. Two occur where the sends in both dimensions of a sweep are one loop and its direction
    /// changes with another.
    fn phases(
        &self,
        prefer: Preference,
        of: &impl Fn(&Instance<'r>) -> Option<(Option<u32>, Option<u32>)>,
    ) -> Option<Peers> {
        let periods = self.periods();
        let singles = periods.iter().map(|it| vec![*it]);
        let pairs = periods.iter().flat_map(|a| {
            let others = periods.iter().filter(move |b| a.0 < b.0);
            others.map(move |b| vec![*b, *a])
        });
        singles
            .chain(pairs)
            .find_map(|phases| self.phased(phases, prefer, of))
    }

    /// Returns counters with periods that occur at least twice; the last turn of a loop is a separate phase.
    fn periods(&self) -> Vec<(Counter, u32)> {
        let mut all = vec![(Counter::Last, 2)];
        for counter in Counter::ALL {
            let most = self.all.iter().map(|it| it.counted(counter)).max();
            let seen = most.unwrap_or(0).saturating_add(1);
            // The innermost loop may always have the same few turns.
            let longest = match counter {
                Counter::Turn => seen,
                _ => seen / 2,
            };
            all.extend((2..=longest.min(MOST_PHASES)).map(|period| (counter, period)));
        }
        all
    }

    fn phased(
        &self,
        phases: Vec<(Counter, u32)>,
        prefer: Preference,
        of: &impl Fn(&Instance<'r>) -> Option<(Option<u32>, Option<u32>)>,
    ) -> Option<Peers> {
        let count: u32 = phases.iter().map(|(_, period)| *period).product();
        let mut parts: Vec<Samples> = vec![Vec::new(); count as usize];
        for it in self.all {
            if let Some((communicator, number)) = of(it) {
                let part = phase(&phases, it.around, it.index);
                parts[part as usize].push((it.place(communicator, Counter::Turn), number));
            }
        }
        if parts.iter().any(Vec::is_empty) {
            return None;
        }
        Some(Peers {
            peer: self.each(parts, prefer)?,
            by: Counter::Turn,
            phases,
        })
    }

    /// Returns a relation for each turn of the loop around the call; `None` if there are too many, or one has none.
    fn by_turn(
        &self,
        prefer: Preference,
        of: &impl Fn(&Instance<'r>) -> Option<(Option<u32>, Option<u32>)>,
    ) -> Option<Vec<Relation>> {
        let most = self.all.iter().map(|it| it.turn).max()?;
        if most == 0 || most >= MOST_TURNS {
            return None;
        }
        let mut turns = vec![Vec::new(); most as usize + 1];
        for it in self.all {
            if let Some((communicator, number)) = of(it) {
                turns[it.turn as usize].push((it.place(communicator, Counter::Turn), number));
            }
        }
        self.each(turns, prefer)
    }
}
