//! Relations found in computations of programs.

use super::grid::dimensions;
use super::*;

/// Returns the relation found for all ranks of several sizes, with this number of turns each.
fn found(turns: fn(u32) -> u32, of: impl Fn(RelationArguments) -> Option<u32>) -> Option<Relation> {
    let mut samples = Vec::new();
    for ranks in [4, 8, 16] {
        for rank in 0..ranks {
            for turn in 0..turns(ranks) {
                let place = RelationArguments { rank, ranks, turn };
                samples.push((place, of(place)));
            }
        }
    }
    Relation::find(&samples, Preference::default())
}

#[test]
fn what_programs_compute_from_ranks_is_found() {
    let once = |_| 1;
    let halving = |ranks: u32| ranks.ilog2();
    assert_eq!(found(once, |_| Some(0)), Some(Relation::Fixed(0)));
    assert_eq!(
        found(once, |it| Some(it.ranks - 1)),
        Some(Relation::FromEnd(0))
    );
    let ring = found(once, |it| Some((it.rank + it.ranks - 1) % it.ranks));
    assert_eq!(
        ring,
        Some(Relation::Shift {
            by: -1,
            wraps: true
        })
    );
    let chain = found(once, |it| (it.rank + 1 < it.ranks).then(|| it.rank + 1));
    assert_eq!(
        chain,
        Some(Relation::Shift {
            by: 1,
            wraps: false
        })
    );
    assert_eq!(
        found(halving, |it| Some(it.rank ^ 1 << it.turn)),
        Some(Relation::FlipTurn)
    );
    let doubling = found(halving, |it| Some((it.rank + (1 << it.turn)) % it.ranks));
    assert_eq!(
        doubling,
        Some(Relation::Doubling {
            back: false,
            wraps: true
        })
    );
    let all = found(
        |ranks| ranks - 1,
        |it| Some((it.rank + it.turn + 1) % it.ranks),
    );
    assert_eq!(
        all,
        Some(Relation::Stepping {
            back: false,
            from: 1,
            wraps: true
        })
    );
    let up = found(once, |it| it.rank.checked_sub(1).map(|it| it / 2));
    assert_eq!(up, Some(Relation::Parent(2)));
    let odd = found(once, |it| Some(it.rank * it.rank % 3));
    assert_eq!(odd, None);
}

#[test]
fn neighbors_in_grids_are_found_with_and_without_borders() {
    let rows = |ranks: u32| dimensions(ranks, 2);
    let below = found(
        |_| 1,
        |it| {
            let columns = rows(it.ranks)[1];
            (it.rank + columns < it.ranks).then_some(it.rank + columns)
        },
    );
    let grid = Grid {
        dimensions: 2,
        ascending: false,
    };
    let expected = Relation::Neighbor {
        grid,
        dimension: 0,
        by: 1,
        wraps: false,
    };
    assert_eq!(below, Some(expected));
    let left = found(
        |_| 1,
        |it| {
            let columns = rows(it.ranks)[1];
            Some(it.rank / columns * columns + (it.rank + columns - 1) % columns)
        },
    );
    // In two columns both neighbours coincide: a relation that holds for four is of more.
    let Some(Relation::Neighbor {
        dimension: 1,
        wraps: true,
        ..
    }) = left
    else {
        panic!("{left:?}");
    };
    assert_eq!(
        found(|_| 1, |it| Some(it.rank / rows(it.ranks)[1])),
        Some(Relation::Coordinate { grid, dimension: 0 })
    );
}

#[test]
fn the_first_of_a_group_is_found() {
    let rows = |it: RelationArguments| dimensions(it.ranks, 2)[1];
    assert_eq!(
        found(|_| 1, |it| Some(it.rank / 4 * 4)),
        Some(Relation::Floor(4))
    );
    let row = found(|_| 1, |it| Some(it.rank / rows(it) * rows(it)));
    let grid = Grid {
        dimensions: 2,
        ascending: false,
    };
    let expected = Relation::Along { grid, dimension: 1 };
    assert_eq!(row, Some(expected));
    let half = found(|_| 1, |it| Some(it.rank / (it.ranks / 2) * (it.ranks / 2)));
    assert_eq!(half, Some(Relation::PartStart(2)));
    // With seven in three parts these are 0 to 2, 3 and 4, 5 and 6.
    let at = |rank, of: Relation| {
        let (ranks, turn) = (7, 0);
        of.at(RelationArguments { rank, ranks, turn })
    };
    let starts: Vec<Option<u32>> = (0..7).map(|it| at(it, Relation::PartStart(3))).collect();
    assert_eq!(starts, [0, 0, 0, 3, 3, 5, 5].map(Some));
    assert_eq!(at(0, Relation::PartStart(0)), None);
}

#[test]
fn grids_are_those_of_mpi() {
    for (ranks, count, expected) in [
        (64, 2, &[8, 8][..]),
        (32, 2, &[8, 4]),
        (16, 3, &[4, 2, 2]),
        (32, 3, &[4, 4, 2]),
        (12, 2, &[4, 3]),
        (7, 2, &[7, 1]),
        (60, 3, &[5, 4, 3]),
        (1, 3, &[1, 1, 1]),
    ] {
        assert_eq!(dimensions(ranks, count), expected);
    }
}

/// Finds relations for numbers of ranks, and checks their values at another number.
fn predicts(
    grid: Option<Grid>,
    fitted: &[u32],
    asked: u32,
    turns: fn(u32) -> u32,
    back: bool,
    of: fn(RelationArguments) -> Option<u32>,
) {
    let places = |ranks: u32| {
        (0..ranks).flat_map(move |rank| {
            (0..turns(ranks)).map(move |turn| RelationArguments { rank, ranks, turn })
        })
    };
    let samples = fitted.iter().flat_map(|ranks| places(*ranks));
    let samples: Vec<(RelationArguments, Option<u32>)> =
        samples.map(|place| (place, of(place))).collect();
    let prefer = Preference {
        back,
        grid,
        ..Preference::default()
    };
    let found = Relation::find(&samples, prefer);
    let found = found.unwrap_or_else(|| panic!("no relation for {samples:?}"));
    for place in places(asked) {
        assert_eq!(found.at(place), of(place), "{found:?} at {place:?}");
    }
}

/// Rows and columns of NPB's CG: as many of both, or twice as many columns.
fn rows(ranks: u32) -> (u32, u32) {
    let rows = 1 << (ranks.ilog2() / 2);
    (rows, ranks / rows)
}

#[test]
fn partners_of_conjugate_gradients_are_found() {
    let reduce = |it: RelationArguments| {
        let columns = rows(it.ranks).1;
        let (row, column) = (it.rank / columns, it.rank % columns);
        let width = columns >> it.turn;
        let other = (column + width / 2) % width + column / width * width;
        Some(row * columns + other)
    };
    predicts(
        None,
        &[4, 8, 16],
        64,
        |ranks| rows(ranks).1.ilog2(),
        false,
        reduce,
    );
    let transpose = |it: RelationArguments| {
        let (rows, columns) = rows(it.ranks);
        Some(match rows == columns {
            true => it.rank % rows * rows + it.rank / rows,
            false => 2 * (it.rank / 2 % rows * rows + it.rank / 2 / rows) + it.rank % 2,
        })
    };
    for asked in [32, 64] {
        predicts(None, &[4, 8, 16], asked, |_| 1, false, transpose);
    }
}

#[test]
fn neighbors_of_a_multipartition_are_found() {
    // Along the third dimension the cells of a rank are on a diagonal.
    let third: fn(RelationArguments) -> Option<u32> = |it| {
        let p = it.ranks.isqrt();
        let (i, j) = (it.rank % p, it.rank / p);
        Some((i + 1) % p + p * ((j + p - 1) % p))
    };
    predicts(None, &[4, 9, 16], 36, |_| 1, false, third);
    let first: fn(RelationArguments) -> Option<u32> = |it| {
        let p = it.ranks.isqrt();
        Some((it.rank % p + p - 1) % p + p * (it.rank / p))
    };
    predicts(None, &[4, 9, 16], 36, |_| 1, false, first);
}

#[test]
fn neighbors_across_faces_edges_and_corners_of_a_cube_are_found() {
    // Faces alone might be those of a plane: edges and corners show that it is a cube.
    let cube = Some(Grid {
        dimensions: 3,
        ascending: true,
    });
    // The first dimension is the fastest one, and there are no neighbours beyond the borders.
    fn across(it: RelationArguments, by: [i32; 3]) -> Option<u32> {
        let side = (1..).find(|side| side * side * side >= it.ranks)? as i32;
        let at = [1, side, side * side].map(|step| it.rank as i32 / step % side);
        let to = [at[0] + by[0], at[1] + by[1], at[2] + by[2]];
        to.iter()
            .all(|to| (0..side).contains(to))
            .then(|| (to[0] + side * (to[1] + side * to[2])) as u32)
    }
    predicts(cube, &[8, 27], 64, |_| 1, false, |it| across(it, [1, 0, 0]));
    predicts(
        cube,
        &[8, 27],
        64,
        |_| 1,
        false,
        |it| across(it, [0, -1, 1]),
    );
    predicts(
        cube,
        &[8, 27],
        64,
        |_| 1,
        false,
        |it| across(it, [-1, -1, -1]),
    );
    predicts(
        cube,
        &[8, 27],
        64,
        |_| 1,
        false,
        |it| across(it, [1, -1, 1]),
    );
}

#[test]
fn ranks_half_way_round_are_found_from_both_sides() {
    let to = |it: RelationArguments| Some((it.rank + it.ranks / 2) % it.ranks);
    let from = |it: RelationArguments| Some((it.rank + it.ranks - it.ranks / 2) % it.ranks);
    for asked in [16, 9] {
        predicts(None, &[4, 6, 8, 5], asked, |_| 1, false, to);
        predicts(None, &[4, 6, 8, 5], asked, |_| 1, true, from);
    }
    predicts(None, &[4, 6, 8], 16, |_| 1, true, from);
    predicts(
        None,
        &[4, 8],
        16,
        |_| 1,
        false,
        |it| Some(it.rank ^ (it.ranks / 2)),
    );
    predicts(
        None,
        &[4, 8, 16],
        64,
        |_| 1,
        false,
        |it| Some(it.rank ^ (it.ranks / 4)),
    );
}

#[test]
fn distances_along_a_dimension_double_with_the_turn() {
    // Multigrid: the neighbour of each level is twice as far.
    let far: fn(RelationArguments) -> Option<u32> = |it| {
        let columns = dimensions(it.ranks, 2)[1];
        let (row, column) = (it.rank / columns, it.rank % columns);
        Some(row * columns + (column + (1 << it.turn)) % columns)
    };
    predicts(
        None,
        &[16, 64],
        256,
        |ranks| dimensions(ranks, 2)[1].ilog2(),
        false,
        far,
    );
}

#[test]
fn roots_go_round_with_the_turn() {
    predicts(
        None,
        &[4],
        16,
        |_| 12,
        false,
        |it| Some((it.turn + 2) % it.ranks),
    );
    predicts(
        None,
        &[4, 8],
        16,
        |_| 12,
        false,
        |it| Some((it.turn + 6) % it.ranks),
    );
    let down: fn(RelationArguments) -> Option<u32> = |it| Some((5 * it.ranks - it.turn) % it.ranks);
    predicts(None, &[4, 8], 16, |_| 12, false, down);
    let workers: fn(RelationArguments) -> Option<u32> = |it| Some(1 + it.turn % (it.ranks - 1));
    predicts(None, &[4, 8], 16, |_| 12, false, workers);
}

#[test]
fn rules_that_runs_do_not_tell_apart_have_a_rival() {
    let of = |all: &[u32]| -> Vec<(RelationArguments, Option<u32>)> {
        let places = all.iter().flat_map(|ranks| {
            (0..*ranks).map(|rank| RelationArguments {
                rank,
                ranks: *ranks,
                turn: 0,
            })
        });
        places
            .map(|it| (it, Some((it.rank + it.ranks / 2) % it.ranks)))
            .collect()
    };
    let rival = |all: &[u32]| {
        let samples = of(all);
        let found = Relation::find(&samples, Preference::default()).unwrap();
        found.rival(&samples, Preference::default())
    };
    assert!(rival(&[4]).is_some());
    assert_eq!(rival(&[4, 5, 6, 8, 16]), None);
}
