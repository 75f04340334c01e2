//! Ways to peers: neighbours in grids, across a diagonal, by bits.
//!
//! The program's grid is the first one in which all messages have a way. Used by `sequences`.

use std::collections::BTreeSet;

use belljar_trace::{Event, Peer, Transfer};

use super::messages;
use crate::relation::{Grid, Relation, RelationArguments};
use crate::run::Run;

/// Most pairs of ranks and peers of a run that are used.
const MOST_PAIRS: usize = 1 << 14;

/// Most bits of a position that may differ.
const MOST_BITS: u32 = 20;

/// The relation of a rank to a peer.
#[derive(Clone, Debug)]
enum PeerRelation {
    /// By a relation.
    One(Relation),
    /// By one bit of the place along a dimension.
    Bit(Grid, u8),
}

impl PeerRelation {
    fn leads(&self, place: RelationArguments, to: u32) -> bool {
        match self {
            Self::One(relation) => relation.at(place) == Some(to),
            Self::Bit(grid, dimension) => (0..MOST_BITS).any(|turn| {
                let relation = Relation::FlipAlong {
                    grid: *grid,
                    dimension: *dimension,
                    halves: false,
                };
                let length = grid
                    .lengths(place.ranks)
                    .get(usize::from(*dimension))
                    .copied();
                let within = length.is_some_and(|length| 1_u64 << turn < u64::from(length));
                within && relation.at(RelationArguments { turn, ..place }) == Some(to)
            }),
        }
    }
}

/// The relations of ranks and peers in a program's messages.
pub(in crate::model::learn) struct PeerRelations {
    all: Vec<PeerRelation>,
    /// True if each message has a way.
    whole: bool,
}

impl PeerRelations {
    /// Returns the simplest ways that lead to most peers of all runs.
    pub(in crate::model::learn) fn of(runs: &[Run]) -> Self {
        let pairs = runs
            .iter()
            .flat_map(pairs)
            .collect::<Vec<(RelationArguments, u32)>>();
        let mut best: (usize, Vec<PeerRelation>) = (0, Vec::new());
        for ways in schemes() {
            let led = |(place, to): &&(RelationArguments, u32)| {
                ways.iter().any(|way| way.leads(*place, *to))
            };
            let count = pairs.iter().filter(led).count();
            if count > best.0 {
                best = (count, ways);
            }
            if best.0 == pairs.len() {
                break;
            }
        }
        let used = |way: &PeerRelation| pairs.iter().any(|(place, to)| way.leads(*place, *to));
        Self {
            whole: best.0 == pairs.len(),
            all: best.1.into_iter().filter(used).collect(),
        }
    }

    /// Returns the grid of all ways, if each message has one.
    pub(in crate::model::learn) fn grid(&self) -> Option<Grid> {
        let of = |way: &PeerRelation| match way {
            PeerRelation::One(relation) => relation.grid(),
            PeerRelation::Bit(grid, _) => Some(*grid),
        };
        let grid = self.whole.then(|| self.all.iter().find_map(of)).flatten();
        grid.filter(|it| it.dimensions > 1)
    }

    /// Returns words that distinguish a call: the way to the peer of each message. There are several if several ways
    /// lead there.
    pub(super) fn of_event(&self, run: &Run, event: &Event) -> Vec<Vec<u64>> {
        let mut all = vec![Vec::new()];
        for transfer in messages(event) {
            let known = peer(run, event, transfer);
            let mut own: Vec<u64> = match known {
                None => Vec::new(),
                Some((place, to)) => (0..)
                    .zip(&self.all)
                    .filter(|(_, way)| way.leads(place, to))
                    .map(|(number, _)| number)
                    .collect(),
            };
            if own.is_empty() {
                own.push(u64::MAX);
            }
            let longer = |words: Vec<u64>| {
                let of = own.iter();
                of.map(|way| [words.clone(), vec![*way]].concat())
                    .collect::<Vec<_>>()
            };
            all = all.into_iter().flat_map(longer).collect();
        }
        all
    }
}

/// Returns the position of a message's sender or receiver, and the other one.
fn peer(run: &Run, event: &Event, transfer: &Transfer) -> Option<(RelationArguments, u32)> {
    let Peer::Rank(to) = transfer.peer else {
        return None;
    };
    let process = (event.node, event.process);
    let of = &run.communicators;
    let number = transfer.communicator?;
    let place = RelationArguments {
        rank: of.rank(process, number)?,
        ranks: of.members(process, number)?.len(),
        turn: 0,
    };
    Some((place, to))
}

/// Returns all distinct pairs of ranks that exchange messages.
fn pairs(run: &Run) -> Vec<(RelationArguments, u32)> {
    let mut all = BTreeSet::new();
    for step in run.steps.iter().flatten() {
        let known = messages(&step.event).filter_map(|it| peer(run, &step.event, it));
        all.extend(known);
        if all.len() > MOST_PAIRS {
            break;
        }
    }
    all.into_iter().collect()
}

/// Returns sets of common ways, the simplest first.
fn schemes() -> Vec<Vec<PeerRelation>> {
    let grids: Vec<Grid> = (2..=4)
        .flat_map(|dimensions| {
            [false, true].map(|ascending| Grid {
                dimensions,
                ascending,
            })
        })
        .collect();
    let ring = [false, true].map(|wraps| {
        let all = [1, -1].map(|by| PeerRelation::One(Relation::Shift { by, wraps }));
        all.to_vec()
    });
    let mut all: Vec<Vec<PeerRelation>> = ring.to_vec();
    let flat = |it: &&Grid| it.dimensions < 4;
    let deep = |it: &&Grid| it.dimensions == 4;
    for grid in grids.iter().filter(flat) {
        all.extend([false, true].map(|wraps| neighbors(*grid, wraps)));
    }
    let line = Grid {
        dimensions: 1,
        ascending: false,
    };
    // Before corners: with length two along many dimensions, all ways are neighbours.
    for grid in [line].iter().chain(grids.iter().filter(flat)) {
        let bits = |dimension| PeerRelation::Bit(*grid, dimension);
        let mut ways = vec![PeerRelation::One(Relation::Transpose)];
        ways.extend((0..grid.dimensions).map(bits));
        all.push(ways);
    }
    let corners = |grid: &Grid| {
        [false, true].map(|wraps| [neighbors(*grid, wraps), offsets(*grid, wraps)].concat())
    };
    all.extend(grids.iter().filter(flat).flat_map(corners));
    for grid in grids.iter().filter(deep) {
        all.extend([false, true].map(|wraps| neighbors(*grid, wraps)));
        all.extend(corners(grid));
    }
    // Messages to the first rank come last: they are often separate from the others.
    for ways in &mut all {
        ways.push(PeerRelation::One(Relation::Fixed(0)));
    }
    all
}

fn neighbors(grid: Grid, wraps: bool) -> Vec<PeerRelation> {
    let all = (0..grid.dimensions).flat_map(|dimension| {
        [1, -1].map(|by| {
            PeerRelation::One(Relation::Neighbor {
                grid,
                dimension,
                by,
                wraps,
            })
        })
    });
    all.collect()
}

/// Returns ways across edges and corners of a grid.
fn offsets(grid: Grid, wraps: bool) -> Vec<PeerRelation> {
    let count = usize::from(grid.dimensions);
    let all = (0..3_u32.pow(u32::from(grid.dimensions))).map(|number| {
        let mut by = [0_i8; 4];
        for (at, by) in by.iter_mut().enumerate().take(count) {
            *by = (number / 3_u32.pow(at as u32) % 3) as i8 - 1;
        }
        by
    });
    let all = all.filter(|by| by.iter().filter(|it| **it != 0).count() > 1);
    all.map(|by| PeerRelation::One(Relation::Offset { grid, by, wraps }))
        .collect()
}
