//! Links that begin least-cost paths, by switch and destination's switch.
//!
//! They are looked up for each frame at each switch, so lists are cached. Switches mostly have one list for many destinations, such as all links up; successive
//! equal lists of a switch are stored once. Used by routers.

use crate::topology::LinkId;

/// A list's range among all links of all lists: its start and its end.
type Place = (u32, u32);

/// The range of a list that was not found yet.
const UNKNOWN: Place = (u32::MAX, u32::MAX);

/// Lists of links, each in ascending order.
#[derive(Clone, Debug)]
pub(super) struct Candidates {
    /// By destination's switch, then by switch.
    places: Vec<Option<Box<[Place]>>>,
    /// By switch: the list that was found last.
    last: Vec<Place>,
    links: Vec<LinkId>,
}

impl Candidates {
    /// Creates an empty cache for this number of switches.
    pub(super) fn of_switches(switches: usize) -> Self {
        Self {
            places: vec![None; switches],
            last: vec![UNKNOWN; switches],
            links: Vec::new(),
        }
    }

    /// Removes all lists.
    pub(super) fn clear(&mut self) {
        self.places.fill(None);
        self.last.fill(UNKNOWN);
        self.links.clear();
    }

    /// The links at a switch towards another, if they were found.
    pub(super) fn of(&self, switch: u32, target: u32) -> Option<&[LinkId]> {
        let places = self.places[target as usize].as_deref()?;
        self.at(places[switch as usize])
    }

    fn at(&self, (first, end): Place) -> Option<&[LinkId]> {
        self.links.get(first as usize..end as usize)
    }

    /// Stores the links at a switch towards another.
    pub(super) fn insert(&mut self, switch: u32, target: u32, links: &[LinkId]) {
        let mut place = self.last[switch as usize];
        if self.at(place) != Some(links) {
            let first = self.links.len() as u32;
            self.links.extend(links);
            place = (first, self.links.len() as u32);
            self.last[switch as usize] = place;
        }
        let switches = self.last.len();
        let places = self.places[target as usize]
            .get_or_insert_with(|| vec![UNKNOWN; switches].into_boxed_slice());
        places[switch as usize] = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_those_that_were_found_and_equal_ones_are_one() {
        let mut candidates = Candidates::of_switches(3);
        assert_eq!(candidates.of(0, 1), None);
        candidates.insert(0, 1, &[4, 5]);
        candidates.insert(0, 2, &[4, 5]);
        candidates.insert(2, 1, &[]);
        candidates.insert(1, 2, &[6]);
        assert_eq!(candidates.of(0, 1), Some(&[4, 5][..]));
        assert_eq!(candidates.of(0, 2), Some(&[4, 5][..]));
        assert_eq!(candidates.of(2, 1), Some(&[][..]));
        assert_eq!(candidates.of(1, 2), Some(&[6][..]));
        assert_eq!(candidates.of(1, 0), None);
        assert_eq!(candidates.links, [4, 5, 6]);
        candidates.clear();
        assert_eq!(candidates.of(0, 1), None);
    }
}
