//! Candidate relations of a sample, the simplest first.
//!
//! Most have parameters that follow from the sample itself. Used by `relation`.

use super::{Grid, Preference, Relation, RelationArguments};

/// Most steps along each dimension to an edge or a corner.
const MOST_STEPS: i32 = 2;

/// Both values of a flag.
const WAYS: [bool; 2] = [false, true];

/// Returns relations that yield `to` at a position or might, the simplest first.
pub(super) fn candidates(place: RelationArguments, to: u32, prefer: Preference) -> Vec<Relation> {
    let mut all = Vec::new();
    // In the grid of other calls, corners come before rules of other grids.
    if let Some(grid) = prefer.grid {
        neighbors(&[grid], place, to, prefer, &mut all);
    }
    all.push(Relation::Fixed(to));
    all.extend((place.ranks.checked_sub(to.saturating_add(1))).map(Relation::FromEnd));
    let grids = grids(prefer.grid);
    if prefer.grids || prefer.grid.is_some() {
        neighbors(&grids, place, to, prefer, &mut all);
    }
    shifts(place, to, prefer, &mut all);
    shares(place, prefer, &mut all);
    all.push(Relation::Transpose);
    if !prefer.grids && prefer.grid.is_none() {
        neighbors(&grids, place, to, prefer, &mut all);
    }
    by_turn(&grids, place, to, prefer, &mut all);
    of_places(&grids, &mut all);
    all
}

/// Returns all grids, the preferred one first.
fn grids(first: Option<Grid>) -> Vec<Grid> {
    let all = WAYS.into_iter().flat_map(|ascending| {
        (2..=4).map(move |dimensions| Grid {
            dimensions,
            ascending,
        })
    });
    let mut all: Vec<Grid> = all.collect();
    all.sort_by_key(|grid| Some(*grid) != first);
    all
}

fn shifts(place: RelationArguments, to: u32, prefer: Preference, all: &mut Vec<Relation>) {
    let by = i64::from(to) - i64::from(place.rank);
    let ranks = i64::from(place.ranks);
    let turned = if by > 0 { by - ranks } else { by + ranks };
    let mut both = [by, turned];
    // The shorter way; in a tie the preferred one.
    both.sort_by_key(|by| (by.abs(), (*by < 0) != prefer.back));
    for by in both {
        all.extend(WAYS.map(|wraps| Relation::Shift { by, wraps }));
    }
}

fn shares(place: RelationArguments, prefer: Preference, all: &mut Vec<Relation>) {
    all.push(Relation::Half);
    if prefer.back {
        all.pop();
        all.push(Relation::Share {
            parts: 2,
            back: true,
        });
    }
    all.push(Relation::FlipShare(1));
    for parts in 2..=8.min(place.ranks) {
        let both = [prefer.back, !prefer.back];
        all.extend(both.map(|back| Relation::Share { parts, back }));
    }
    all.extend((2..=4).map(Relation::FlipShare));
}

/// Adds neighbours in grids: across several dimensions after those of one.
fn neighbors(
    grids: &[Grid],
    place: RelationArguments,
    to: u32,
    prefer: Preference,
    all: &mut Vec<Relation>,
) {
    let mut corners = Vec::new();
    for grid in grids {
        let (lengths, from) = grid.coordinates(place);
        let (_, there) = grid.coordinates(RelationArguments { rank: to, ..place });
        // Steps along each dimension forward, and around the end.
        let steps: Vec<[i32; 2]> = from
            .iter()
            .zip(&there)
            .zip(&lengths)
            .map(|((from, to), length)| {
                let by = *to as i32 - *from as i32;
                let around = if by > 0 {
                    by - *length as i32
                } else {
                    by + *length as i32
                };
                let first =
                    by.abs() < around.abs() || by.abs() == around.abs() && (by < 0) == prefer.back;
                if by == 0 {
                    [0, 0]
                } else if first {
                    [by, around]
                } else {
                    [around, by]
                }
            })
            .collect();
        let moved: Vec<usize> = (0..steps.len()).filter(|at| steps[*at][0] != 0).collect();
        match moved.as_slice() {
            [] => {}
            [dimension] => {
                for by in steps[*dimension] {
                    all.extend(WAYS.map(|wraps| Relation::Neighbor {
                        grid: *grid,
                        dimension: *dimension as u8,
                        by,
                        wraps,
                    }));
                }
            }
            moved => corners_of(*grid, &steps, moved, &mut corners),
        }
    }
    all.append(&mut corners);
}

/// Adds neighbours across edges and corners.
fn corners_of(grid: Grid, steps: &[[i32; 2]], moved: &[usize], all: &mut Vec<Relation>) {
    for way in 0..1_u32 << moved.len() {
        let mut by = [0_i8; 4];
        let mut near = true;
        for (bit, dimension) in moved.iter().enumerate() {
            let step = steps[*dimension][(way >> bit & 1) as usize];
            near &= step.abs() <= MOST_STEPS;
            by[*dimension] = step.clamp(-MOST_STEPS, MOST_STEPS) as i8;
        }
        if near {
            all.extend(WAYS.map(|wraps| Relation::Offset { grid, by, wraps }));
        }
    }
}

/// Adds relations that depend on the turn of a loop.
fn by_turn(
    grids: &[Grid],
    place: RelationArguments,
    to: u32,
    prefer: Preference,
    all: &mut Vec<Relation>,
) {
    let by = i64::from(to) - i64::from(place.rank);
    all.extend([
        Relation::Flip(place.rank ^ to),
        Relation::FlipTurn,
        Relation::FlipHalves,
    ]);
    let backs = [prefer.back, !prefer.back];
    let ranks = i64::from(place.ranks.max(1));
    for wraps in WAYS {
        all.extend(backs.map(|back| Relation::Doubling { back, wraps }));
        for from in 0..3 {
            all.extend(backs.map(|back| Relation::Stepping { back, from, wraps }));
        }
    }
    // A longer first step.
    for back in backs {
        let from = if back { -by } else { by } - i64::from(place.turn);
        let from = from.rem_euclid(ranks) as u32;
        all.push(Relation::Stepping {
            back,
            from,
            wraps: true,
        });
    }
    all.extend((0..2).map(Relation::FlipStep));
    // Of all ranks: consecutive exchanges.
    let ring = Grid {
        dimensions: 1,
        ascending: false,
    };
    for grid in [ring].iter().chain(grids) {
        for dimension in 0..grid.dimensions {
            let grid = *grid;
            all.extend(WAYS.map(|halves| Relation::FlipAlong {
                grid,
                dimension,
                halves,
            }));
            for wraps in WAYS {
                all.extend(backs.map(|back| Relation::DoublingAlong {
                    grid,
                    dimension,
                    back,
                    wraps,
                }));
            }
        }
    }
    rotating(place, to, all);
}

/// Adds ranks that rotate with the turn, the same for all ranks.
fn rotating(place: RelationArguments, to: u32, all: &mut Vec<Relation>) {
    let (turn, to) = (i64::from(place.turn), i64::from(to));
    let ranks = i64::from(place.ranks.max(1));
    // With few ranks, a larger first turn is equivalent to a smaller one.
    for round in 0..4 {
        let from = |by: i64, of: i64| (by.rem_euclid(of) + round * of) as u32;
        all.push(Relation::Turn(from(to - turn, ranks)));
        all.push(Relation::TurnBack(from(to + turn, ranks)));
        if ranks > 1 && to > 0 {
            all.push(Relation::TurnOfOthers(from(to - 1 - turn, ranks - 1)));
        }
    }
}

/// Adds numbers that give the position of a rank: colours, keys, first members.
fn of_places(grids: &[Grid], all: &mut Vec<Relation>) {
    for grid in grids {
        for dimension in 0..grid.dimensions {
            let grid = *grid;
            all.push(Relation::Coordinate { grid, dimension });
            all.push(Relation::Others { grid, dimension });
        }
    }
    all.extend((2..=64).map(Relation::Quotient));
    all.extend((2..=64).map(Relation::Remainder));
    for of in 1..=4 {
        all.push(Relation::Parent(of));
        all.extend((1..=of).map(|which| Relation::Child { of, which }));
    }
    for grid in grids {
        let along = |dimension| Relation::Along {
            grid: *grid,
            dimension,
        };
        all.extend((0..grid.dimensions).map(along));
    }
    for of in 2..=64 {
        all.extend([
            Relation::Floor(of),
            Relation::PartStart(of),
            Relation::Part(of),
        ]);
    }
}
