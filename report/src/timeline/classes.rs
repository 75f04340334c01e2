//! Classes of rows with similar calls and times, so that a picture of many ranks shows one of each class.
//!
//! A row is represented by its shares of time (in each function, and outside MPI) and its shares of calls. The distance of two rows is the
//! larger of the total variation distances of both. This is the part of its time that one row spends differently from the other, or of its
//! calls. Classes are found by farthest-first traversal (T. Gonzalez, "Clustering to minimize the maximum intercluster distance", 1985): the
//! row that is farthest from all representatives becomes one, until none is far. Then each class is represented by its row nearest to the mean,
//! and rows go to the nearest representative, as in k-medoids. In a tie the first counts, so the classes of a trace are reproducible. Used by
//! `timeline`.

use std::collections::BTreeMap;

use serde::Serialize;

/// The unit of shares: the whole.
const WHOLE: u64 = 1 << 16;
/// Largest distance of a row from its representative.
const FAR: u64 = WHOLE / 10;
/// Most classes: as many as can be distinguished at a glance.
const MOST: usize = 12;
/// Most rounds in which representatives are chosen anew.
const ROUNDS: usize = 4;

/// Calls and time by row and function.
pub(super) type Sums = BTreeMap<(usize, u8), (u64, u64)>;

/// A class of similar rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct RowClass {
    /// The row that represents the others.
    pub(crate) representative: usize,
    /// All of them, as ranges of consecutive rows, each by the first and the last.
    pub(crate) rows: Vec<(usize, usize)>,
}

/// Shares by function, in the order of functions; for time, the part outside MPI is function 0.
type Shares = Vec<(u8, u64)>;

/// The properties of a row that are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RowProfile {
    time: Shares,
    calls: Shares,
}

fn share(part: u64, whole: u64) -> u64 {
    let share = u128::from(part) * u128::from(WHOLE) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(WHOLE).min(WHOLE)
}

/// Returns half of the sum of differences: the share of one that is elsewhere in the other.
fn variation(a: &Shares, b: &Shares) -> u64 {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut sum = 0;
    loop {
        sum += match (a.peek(), b.peek()) {
            (None, None) => return sum / 2,
            (Some((one, left)), Some((other, right))) if one == other => {
                let apart = left.abs_diff(*right);
                a.next();
                b.next();
                apart
            }
            (Some((one, left)), other) if other.is_none_or(|(other, _)| one < other) => {
                let apart = *left;
                a.next();
                apart
            }
            (_, Some((_, right))) => {
                let apart = *right;
                b.next();
                apart
            }
            (Some(_), None) => return sum / 2,
        };
    }
}

impl RowProfile {
    fn distance(&self, other: &Self) -> u64 {
        let time = variation(&self.time, &other.time);
        time.max(variation(&self.calls, &other.calls))
    }

    /// Returns the mean of several profiles.
    fn mean<'a>(of: impl Iterator<Item = &'a Self>) -> Self {
        let (mut count, mut sums) = (0, [BTreeMap::new(), BTreeMap::new()]);
        for own in of {
            count += 1;
            for (sum, shares) in sums.iter_mut().zip([&own.time, &own.calls]) {
                for (function, share) in shares {
                    *sum.entry(*function).or_insert(0) += *share;
                }
            }
        }
        let [time, calls] = sums.map(|sum| {
            let shares = sum.into_iter();
            shares.map(|(key, sum)| (key, sum / count)).collect()
        });
        Self { time, calls }
    }
}

/// Returns profiles of rows, by their sums and durations.
fn profiles(sums: &Sums, lengths: &[u64]) -> Vec<RowProfile> {
    let rows = lengths.iter().enumerate();
    let of = |row| sums.range((row, 0)..=(row, u8::MAX));
    let profiles = rows.map(|(row, length)| {
        let all = of(row).fold(0u64, |all, (_, (calls, _))| all.saturating_add(*calls));
        let inside = of(row).fold(0u64, |all, (_, (_, time))| all.saturating_add(*time));
        let length = (*length).max(inside);
        let outside = (0, share(length - inside, length));
        let times = of(row).map(|((_, function), (_, time))| (*function, share(*time, length)));
        let calls = of(row).map(|((_, function), (calls, _))| (*function, share(*calls, all)));
        RowProfile {
            time: std::iter::once(outside).chain(times).collect(),
            calls: calls.collect(),
        }
    });
    profiles.collect()
}

/// Returns classes of rows, by their sums and durations; in the order of their first rows.
pub(super) fn classes(sums: &Sums, lengths: &[u64]) -> Vec<RowClass> {
    let profiles = profiles(sums, lengths);
    let mut representatives = traversed(&profiles);
    let mut nearest = assigned(&profiles, &representatives);
    for _ in 0..ROUNDS {
        let chosen = chosen(&profiles, &representatives, &nearest);
        if chosen == representatives {
            break;
        }
        representatives = chosen;
        nearest = assigned(&profiles, &representatives);
    }
    let mut classes: Vec<RowClass> = Vec::new();
    for (class, representative) in representatives.iter().enumerate() {
        let rows = (0..nearest.len()).filter(|row| nearest[*row] == class);
        let rows = ranges(rows);
        if !rows.is_empty() {
            classes.push(RowClass {
                representative: *representative,
                rows,
            });
        }
    }
    classes.sort_by_key(|class| class.rows.first().copied());
    classes
}

/// Returns rows far from each other, by farthest-first traversal.
fn traversed(profiles: &[RowProfile]) -> Vec<usize> {
    let Some(first) = profiles.first() else {
        return Vec::new();
    };
    let mut found = vec![0];
    let mut distances: Vec<u64> = profiles.iter().map(|own| own.distance(first)).collect();
    while found.len() < MOST {
        let farthest = (0..distances.len()).max_by_key(|row| (distances[*row], usize::MAX - row));
        let Some(row) = farthest.filter(|row| distances[*row] > FAR) else {
            break;
        };
        found.push(row);
        for (distance, own) in distances.iter_mut().zip(profiles) {
            *distance = (*distance).min(own.distance(&profiles[row]));
        }
    }
    found
}

/// Returns each row's class, by the nearest representative.
fn assigned(profiles: &[RowProfile], representatives: &[usize]) -> Vec<usize> {
    let of = |own: &RowProfile| {
        let classes = 0..representatives.len();
        let nearest = classes.min_by_key(|class| own.distance(&profiles[representatives[*class]]));
        nearest.unwrap_or(0)
    };
    profiles.iter().map(of).collect()
}

/// Returns each class's row that is nearest to its mean.
fn chosen(profiles: &[RowProfile], before: &[usize], nearest: &[usize]) -> Vec<usize> {
    let classes = before.iter().enumerate().map(|(class, before)| {
        let members = || (0..profiles.len()).filter(move |row| nearest[*row] == class);
        let mean = RowProfile::mean(members().map(|row| &profiles[row]));
        let best = members().min_by_key(|row| profiles[*row].distance(&mean));
        best.unwrap_or(*before)
    });
    classes.collect()
}

/// Returns rows as ranges of consecutive ones, each by the first and the last.
fn ranges(rows: impl Iterator<Item = usize>) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for row in rows {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == row => *last = row,
            _ => ranges.push((row, row)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_spend_their_time_alike_are_a_class() {
        // Rows 0, 3, 6: in function 1 for a tenth; the others in function 2 for a half, and a little more or less.
        let mut sums = Sums::new();
        for row in 0..9 {
            let own = match row % 3 {
                0 => (1, (10, 100)),
                _ => (2, (10, 500 + 5 * row as u64)),
            };
            sums.insert((row, own.0), own.1);
        }
        let found = classes(&sums, &[1000; 9]);
        let rows: Vec<_> = found.iter().map(|class| class.rows.clone()).collect();
        assert_eq!(
            rows,
            [vec![(0, 0), (3, 3), (6, 6)], vec![(1, 2), (4, 5), (7, 8)]]
        );
        // The one in the middle of 505 to 540.
        assert!([4, 5].contains(&found[1].representative), "{found:?}");
        assert_eq!(classes(&sums, &[1000; 9]), found);
    }

    #[test]
    fn rows_with_other_calls_are_other_classes_though_time_is_alike() {
        let mut sums = Sums::new();
        for row in 0..4 {
            sums.insert((row, 1), (10, 100));
            if row == 2 {
                sums.insert((row, 2), (10, 1));
            }
        }
        let found = classes(&sums, &[1000; 4]);
        assert_eq!(found.len(), 2);
        assert_eq!(found[1].rows, [(2, 2)]);
    }

    #[test]
    fn there_are_only_so_many_classes_and_each_row_is_in_one() {
        let mut sums = Sums::new();
        for row in 0..40 {
            sums.insert((row, row as u8 + 1), (1, 900));
        }
        let found = classes(&sums, &[1000; 40]);
        assert_eq!(found.len(), MOST);
        let rows = found.iter().flat_map(|class| &class.rows);
        let mut rows: Vec<usize> = rows.flat_map(|(first, last)| *first..=*last).collect();
        rows.sort_unstable();
        assert!(rows.into_iter().eq(0..40));
        for class in &found {
            let inside =
                |(first, last): &(usize, usize)| (*first..=*last).contains(&class.representative);
            assert!(class.rows.iter().any(inside), "{class:?}");
        }
    }

    #[test]
    fn nothing_has_no_classes_and_broken_times_have_some() {
        assert!(classes(&Sums::new(), &[]).is_empty());
        let sums = Sums::from([((0, 255), (u64::MAX, u64::MAX)), ((0, 1), (1, u64::MAX))]);
        assert_eq!(classes(&sums, &[0, u64::MAX]).len(), 2);
    }
}
