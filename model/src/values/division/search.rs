//! Divisions that explain samples, the simplest first.
//!
//! Factors without a number of points are tried first, with a unit and an offset determined by two samples. Then numbers of points are tried, one after the other. Used
//! by `division`.

use std::collections::BTreeMap;

use super::{Division, Factor, Lie, Rounding};
use crate::relation::{Grid, RelationArguments};

/// Most points along a dimension.
const MOST_POINTS: u32 = 1 << 11;

/// Most samples that are used: some of each run.
const MOST_SAMPLES: usize = 1 << 12;

/// Most divisions of a family that are compared.
const MOST_FOUND: usize = 4;

/// Smaller relative differences are numerical noise.
const SAME: f64 = 1e-9;

/// A position, the problem's size there, and the value.
pub(in crate::values) type Known = (RelationArguments, f64, f64);

/// A sample with its position in a grid.
struct PlacedSample {
    lie: Lie,
    size: f64,
    value: f64,
}

/// Returns the simplest division that reproduces all of these values; `prefer` is the program's grid.
pub(in crate::values) fn find(known: &[Known], prefer: Option<Grid>) -> Option<Division> {
    let known = distinct(known)?;
    // The program's own grid comes first, then others: by lengths, by parts of points, by their bounds.
    let own = prefer
        .into_iter()
        .flat_map(|grid| FAMILIES.map(|family| (grid, family)));
    let others = FAMILIES.into_iter().flat_map(|family| {
        let grids = grids()
            .into_iter()
            .filter(move |grid| Some(*grid) != prefer);
        grids.map(move |grid| (grid, family))
    });
    // With two numbers of ranks and equal values within each run, the number of points is ambiguous.
    let enough = numbers(&known) > 2 || varying(&known);
    let mut first: Option<Division> = None;
    for (grid, family) in own.chain(others) {
        // Other grids are no rivals of the program's own.
        if first.is_some() && prefer.is_some_and(|it| it != grid) {
            break;
        }
        let own = prefer == Some(grid) && grid.dimensions > 1;
        if family != Family::Lengths && !(own || enough) {
            continue;
        }
        for found in of_grid(&known, grid, family) {
            match &mut first {
                None => first = Some(found),
                Some(first) if differ(first, &found, &known) => {
                    first.unsure = true;
                    return Some(first.clone());
                }
                Some(_) => {}
            }
        }
    }
    first
}

/// Returns the count of distinct numbers of ranks.
fn numbers(known: &[Known]) -> usize {
    let mut all: Vec<u32> = known.iter().map(|it| it.0.ranks).collect();
    all.dedup();
    all.len()
}

/// True if ranks of a run have several values.
fn varying(known: &[Known]) -> bool {
    known.windows(2).any(|pair| match pair {
        [a, b] => a.0.ranks == b.0.ranks && a.1 == b.1 && !same(a.2, b.2),
        _ => false,
    })
}

/// Kinds of divisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// Only lengths of dimensions.
    Lengths,
    /// A rank's part of a number of points.
    Parts,
    /// Lengths of dimensions, and an offset.
    Offsets,
    /// The smallest or the largest part.
    Bounds,
}

/// All families, the simplest first.
const FAMILIES: [Family; 4] = [
    Family::Lengths,
    Family::Parts,
    Family::Offsets,
    Family::Bounds,
];

/// Returns each position once; `None` if a position has several values, or there is only one number of ranks.
fn distinct(known: &[Known]) -> Option<Vec<Known>> {
    let mut all: BTreeMap<(u32, u32, u64), Known> = BTreeMap::new();
    for it in known {
        let (place, size, value) = *it;
        let own = all
            .entry((place.ranks, place.rank, size.to_bits()))
            .or_insert(*it);
        if !same(own.2, value) {
            return None;
        }
    }
    let ranks = |it: &Known| it.0.ranks;
    let all: Vec<Known> = all.into_values().collect();
    let first = all.first().map(ranks)?;
    let several = all.iter().any(|it| ranks(it) != first);
    let step = all.len().div_ceil(MOST_SAMPLES);
    several.then(|| all.into_iter().step_by(step).collect())
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME * a.abs().max(b.abs()).max(1.0)
}

/// Returns grids of one to four dimensions.
fn grids() -> Vec<Grid> {
    let all = (1..=4).flat_map(|dimensions| {
        [false, true].map(|ascending| Grid {
            dimensions,
            ascending,
        })
    });
    all.filter(|it| it.dimensions > 1 || !it.ascending)
        .collect()
}

/// True if two divisions differ at twice or four times as many ranks as the largest run.
fn differ(a: &Division, b: &Division, known: &[Known]) -> bool {
    let most = known.iter().map(|it| it.0.ranks).max().unwrap_or(1);
    let size = known.first().map_or(1.0, |it| it.1);
    [2, 4].into_iter().any(|by| {
        let ranks = most.saturating_mul(by);
        [0, ranks / 2, ranks - 1].into_iter().any(|rank| {
            let turn = 0;
            let place = RelationArguments { rank, ranks, turn };
            !same(a.at(place, size), b.at(place, size))
        })
    })
}

/// Returns divisions of a family over a grid.
fn of_grid(known: &[Known], grid: Grid, family: Family) -> Vec<Division> {
    let seen = known.iter().map(|(place, size, value)| PlacedSample {
        lie: grid.lie(*place),
        size: *size,
        value: *value,
    });
    let seen: Vec<PlacedSample> = seen.collect();
    let dimensions = grid.dimensions;
    let mut all = match family {
        Family::Lengths | Family::Offsets => lengths(dimensions),
        Family::Parts => parts(dimensions, &[Rounding::First]),
        // Values that differ within a run are of ranks that have one more.
        Family::Bounds if varying(known) => Vec::new(),
        Family::Bounds => parts(dimensions, &[Rounding::Down, Rounding::Up]),
    };
    // A message to a neighbour is as large as the other dimensions: a face.
    let face = usize::from(dimensions.max(2)) - 1;
    all.sort_by_key(|it| it.len().abs_diff(face));
    let all = all.into_iter().filter_map(|factors| match family {
        Family::Lengths | Family::Offsets => by_lengths(&seen, grid, factors)
            .filter(|it| (it.offset != 0.0) == (family == Family::Offsets)),
        _ => by_parts(&seen, grid, factors),
    });
    all.take(MOST_FOUND).collect()
}

/// Returns products of lengths of dimensions.
fn lengths(dimensions: u8) -> Vec<Vec<Factor>> {
    let kinds: [fn(u8) -> Factor; 4] = [
        Factor::PerLength,
        Factor::Doublings,
        Factor::Length,
        Factor::Gaps,
    ];
    let single = kinds
        .iter()
        .flat_map(|kind| (0..dimensions).map(move |it| vec![kind(it)]));
    let pairs = [Factor::PerLength, Factor::Length].into_iter();
    let pairs = pairs.flat_map(|kind| {
        (0..dimensions).flat_map(move |a| (a + 1..dimensions).map(move |b| vec![kind(a), kind(b)]))
    });
    // Faces between the cells that each rank of a square has: one less than its side.
    let cells = (0..dimensions).flat_map(|a| {
        let own = vec![Factor::Gaps(a), Factor::PerLength(a)];
        let others = (0..dimensions).filter(move |b| *b != a);
        let longer =
            others.map(move |b| vec![Factor::Gaps(a), Factor::PerLength(a), Factor::PerLength(b)]);
        std::iter::once(own).chain(longer)
    });
    single.chain(pairs).chain(cells).collect()
}

/// Returns products of parts of one to three dimensions.
fn parts(dimensions: u8, roundings: &[Rounding]) -> Vec<Vec<Factor>> {
    // Grids of more dimensions are tried without numbers of points.
    let sets = 1_u32..if dimensions > 3 { 1 } else { 1 << dimensions };
    let sets = sets.map(|set| (0..dimensions).filter(|it| set >> it & 1 == 1).collect());
    let mut sets: Vec<Vec<u8>> = sets.collect();
    sets.sort_by_key(Vec::len);
    let mut all = Vec::new();
    for rounding in roundings {
        for set in &sets {
            for more in layers(set.len()) {
                let both = set.iter().zip(more);
                let part = both.map(|(dimension, more)| Factor::Part {
                    dimension: *dimension,
                    more,
                    rounding: *rounding,
                });
                all.push(part.collect());
            }
        }
    }
    all
}

/// Returns the points added to a part along each dimension: none, one, or two for layers on both sides.
fn layers(count: usize) -> Vec<Vec<i8>> {
    let mut all = vec![vec![0; count], vec![1; count], vec![2; count]];
    let mixed = (1..(1_u32 << count) - 1).map(|set| {
        let of = |at| if set >> at & 1 == 1 { 2 } else { 0 };
        (0..count).map(of).collect()
    });
    all.extend(mixed);
    all
}

/// Returns a unit and an offset by which a product of lengths reproduces all values.
fn by_lengths(seen: &[PlacedSample], grid: Grid, factors: Vec<Factor>) -> Option<Division> {
    let first = seen.first()?;
    let x = product(&factors, first, 0);
    let other = seen.iter().find(|it| product(&factors, it, 0) != x)?;
    let unit = (other.value - first.value) / (product(&factors, other, 0) - x);
    let offset = first.value - unit * x;
    let division = Division {
        grid,
        factors: factors.clone(),
        points: Vec::new(),
        unit,
        offset: if offset.abs() < SAME * first.value.abs().max(1.0) {
            0.0
        } else {
            offset
        },
        unsure: false,
    };
    // An offset needs a third number of ranks as confirmation.
    let mut ranks: Vec<u32> = seen.iter().map(|it| all_of(&it.lie)).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let enough = division.offset == 0.0 || ranks.len() > 2 && unit > 0.0;
    let holds = |it: &PlacedSample| same(division.value(&it.lie, 0), it.value);
    (enough && seen.iter().all(holds)).then_some(division)
}

/// Returns the product of factors; 0 if the grid lacks a dimension.
fn product(factors: &[Factor], of: &PlacedSample, points: u32) -> f64 {
    let factors = factors.iter();
    factors.fold(1.0, |product, it| {
        product * it.at(&of.lie, points).unwrap_or(0.0)
    })
}

fn all_of(lie: &[(u32, u32)]) -> u32 {
    lie.iter().map(|it| it.0).product()
}

/// Returns numbers of points, one for each size, by whose parts a unit reproduces all values.
fn by_parts(seen: &[PlacedSample], grid: Grid, factors: Vec<Factor>) -> Option<Division> {
    let mut sizes: Vec<f64> = seen.iter().map(|it| it.size).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let fits = |size: f64, points: u32, unit: f64| {
        let own = seen.iter().filter(|it| it.size == size);
        let mut own = own.map(|it| (product(&factors, it, points), it.value));
        own.all(|(product, value)| same(product * unit, value))
    };
    let start = seen.first()?;
    // Samples that differ most are tried first.
    let other = seen.iter().filter(|it| it.size == start.size);
    let other = other.max_by(|a, b| {
        let far = |it: &PlacedSample| (it.value - start.value).abs();
        far(a).total_cmp(&far(b))
    })?;
    // Each rank has at least one point.
    let longest = seen.iter().flat_map(|it| &it.lie).map(|it| it.0).max()?;
    (longest.max(2)..MOST_POINTS).find_map(|points| {
        let own = product(&factors, start, points);
        let unit = start.value / own;
        let near = own > 0.0 && same(product(&factors, other, points) * unit, other.value);
        // Units are integers: bytes of a number of values.
        let whole = same(unit, unit.round()) && unit >= 1.0;
        (near && whole && fits(start.size, points, unit)).then_some(())?;
        let others = sizes.iter().map(|size| {
            let mut all = 1..MOST_POINTS;
            let of = match *size == start.size {
                true => Some(points),
                false => all.find(|points| fits(*size, *points, unit)),
            };
            of.map(|points| (*size, points))
        });
        let all: Option<Vec<(f64, u32)>> = others.collect();
        Some(Division {
            grid,
            factors: factors.clone(),
            points: all?,
            unit,
            offset: 0.0,
            unsure: false,
        })
    })
}
