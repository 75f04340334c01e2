//! Random detours of processors, which change the order of a node's processors and threads.
//!
//! A draw has a few detours of single processors. Half of them begin at any time between the ranks' first and last calls, the others in a random part of a rank, so that
//! short parts are found as often as long ones. Lengths are distributed over several orders of magnitude. A failure that needs `d` detours is found by draws with few
//! detours, as in the search by random priorities. Drawn by `belljar explore`.

use std::collections::BTreeMap;

use crate::force::{DelayPlace, ForcedDelay, merge};

/// Most detours of a draw.
const MOST_DETOURS: u64 = 3;
/// Lengths are up to twice the time between the first and the last call, and down to this power of two less.
const MAGNITUDES: u64 = 6;
/// The shortest detour, in picoseconds.
const SHORTEST_PS: u64 = 1_000_000;

/// A part of a rank: a call, or the program between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPart {
    /// The rank's node.
    pub node: u32,
    /// Start, in picoseconds.
    pub begin_ps: u64,
    /// End, in picoseconds.
    pub end_ps: u64,
}

/// The parts of a run's ranks, and their processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DetourRange {
    parts: Vec<RankPart>,
    /// Number of processors, by node.
    processors: BTreeMap<u32, u32>,
}

impl DetourRange {
    /// The range of these parts; `processors` returns the number of processors of a node.
    pub fn new(parts: Vec<RankPart>, processors: impl Fn(u32) -> u32) -> Self {
        let parts: Vec<RankPart> = parts
            .into_iter()
            .filter(|part| part.begin_ps < part.end_ps)
            .collect();
        let nodes = parts.iter().map(|part| (part.node, processors(part.node)));
        Self {
            processors: nodes.collect(),
            parts,
        }
    }

    /// True if there is no part.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Draws detours, with random numbers of `draw`; none without parts.
    pub fn draw(&self, mut draw: impl FnMut() -> u64) -> Vec<ForcedDelay> {
        let begin = self.parts.iter().map(|part| part.begin_ps).min();
        let end = self.parts.iter().map(|part| part.end_ps).max();
        let (Some(begin), Some(end)) = (begin, end) else {
            return Vec::new();
        };
        let number = 1 + draw() % MOST_DETOURS;
        let detours = (0..number).map(|_| {
            let chosen = (draw() % self.parts.len() as u64) as usize;
            let part = self.parts[chosen];
            let (from, to) = match draw() % 2 {
                0 => (begin, end),
                _ => (part.begin_ps, part.end_ps),
            };
            let processors = self.processors.get(&part.node).copied().unwrap_or(1).max(1);
            let longest = ((2 * (end - begin)) >> (draw() % (MAGNITUDES + 1))).max(2);
            let length = longest / 2 + draw() % (longest - longest / 2);
            let at_ps = from + draw() % (to - from);
            ForcedDelay {
                place: DelayPlace::Detour {
                    node: part.node,
                    processor: (draw() % u64::from(processors)) as u32,
                },
                at_ps,
                until_ps: at_ps.saturating_add(length.max(SHORTEST_PS)),
                purpose: Vec::new(),
            }
        });
        merge(detours.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(node: u32, begin_ps: u64, end_ps: u64) -> RankPart {
        RankPart {
            node,
            begin_ps,
            end_ps,
        }
    }

    #[test]
    fn detours_are_of_all_processors_lengths_and_parts() {
        const US: u64 = 1_000_000;
        let long = part(4, 1000 * US, 9000 * US);
        let short = part(7, 9000 * US, 9010 * US);
        let empty = part(9, 5 * US, 5 * US);
        let range = DetourRange::new(vec![long, short, empty], |node| 2 + u32::from(node == 7));
        let mut state = 1_u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state >> 33
        };
        let drawn: Vec<Vec<ForcedDelay>> = (0..2000).map(|_| range.draw(&mut draw)).collect();
        assert!(drawn.iter().all(|one| (1..=3).contains(&one.len())));
        let all: Vec<&ForcedDelay> = drawn.iter().flatten().collect();
        let mut places: Vec<DelayPlace> = all.iter().map(|detour| detour.place).collect();
        places.sort();
        places.dedup();
        let detour = |node, processor| DelayPlace::Detour { node, processor };
        let of_seven = (0..3).map(|processor| detour(7, processor));
        let wanted: Vec<_> = (0..2).map(|it| detour(4, it)).chain(of_seven).collect();
        assert_eq!(places, wanted);
        assert!(
            all.iter()
                .all(|it| (1000 * US..9010 * US).contains(&it.at_ps))
        );
        // A quarter begins in the short part, which is a thousandth of the time.
        let in_short = all.iter().filter(|it| it.at_ps >= short.begin_ps).count();
        assert!(in_short * 5 > all.len(), "{in_short} of {}", all.len());
        let lengths = || all.iter().map(|it| it.until_ps - it.at_ps);
        assert!(lengths().all(|length| length >= US));
        let brief = lengths().filter(|length| *length < 500 * US).count();
        assert!((all.len() / 8..all.len() / 3).contains(&brief), "{brief}");
        assert!(lengths().any(|length| length > 14_000 * US));
        assert!(DetourRange::new(vec![empty], |_| 1).draw(draw).is_empty());
    }
}
