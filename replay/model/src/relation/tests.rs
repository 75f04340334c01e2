//! Relations found in what programs compute.

use super::*;

/// What is found for all ranks of several sizes, in so many turns each.
fn found(turns: fn(u32) -> u32, of: impl Fn(Place) -> Option<u32>) -> Option<Relation> {
    let mut samples = Vec::new();
    for ranks in [4, 8, 16] {
        for rank in 0..ranks {
            for turn in 0..turns(ranks) {
                let place = Place { rank, ranks, turn };
                samples.push((place, of(place)));
            }
        }
    }
    Relation::find(&samples)
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
    // In two columns both neighbours are one: what holds for four is of more.
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
    let rows = |it: Place| dimensions(it.ranks, 2)[1];
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
    // Of seven in three parts these are 0 to 2, 3 and 4, 5 and 6.
    let at = |rank, of: Relation| {
        let (ranks, turn) = (7, 0);
        of.at(Place { rank, ranks, turn })
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
