//! Routes of a job's flows.
//!
//! A job has up to millions of flows, so their routes share one list of links. Used by routers and the simulation.

use std::ops::Range;

/// The routes of a job's flows, by their links as numbered by [`Loads`](crate::Loads).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// Each route's place in `links`.
    places: Vec<Range<usize>>,
    links: Vec<u32>,
}

impl Ways {
    /// Creates empty routes, as within a host, for this many flows.
    pub fn new(flows: usize) -> Self {
        Self {
            places: vec![0..0; flows],
            links: Vec::new(),
        }
    }

    /// Sets the route of a flow below the number of flows.
    pub fn set(&mut self, flow: usize, way: &[u32]) {
        let Some(place) = self.places.get_mut(flow) else {
            return;
        };
        // A route that replaces the last one takes its place.
        if place.end == self.links.len() {
            self.links.truncate(place.start);
        }
        let start = self.links.len();
        self.links.extend_from_slice(way);
        *place = start..self.links.len();
    }

    /// Returns the route of a flow.
    pub fn of(&self, flow: usize) -> &[u32] {
        let place = self.places.get(flow).cloned();
        place.map_or(&[], |place| &self.links[place])
    }

    /// Returns the routes in the order of flows.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        self.places.iter().map(|place| &self.links[place.clone()])
    }
}

impl FromIterator<Vec<u32>> for Ways {
    fn from_iter<T: IntoIterator<Item = Vec<u32>>>(ways: T) -> Self {
        let mut own = Self::default();
        for way in ways {
            let start = own.links.len();
            own.links.extend(way);
            own.places.push(start..own.links.len());
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_are_set_in_any_order() {
        let mut ways = Ways::new(3);
        ways.set(2, &[7, 8]);
        ways.set(0, &[9]);
        ways.set(3, &[1]);
        assert!(ways.iter().eq([&[9][..], &[], &[7, 8]]));
        ways.set(0, &[5, 6]);
        assert_eq!(
            (ways.of(0), ways.of(2), ways.links.len()),
            (&[5, 6][..], &[7, 8][..], 4)
        );
        let again: Ways = ways.iter().map(<[u32]>::to_vec).collect();
        assert!(again.iter().eq(ways.iter()));
    }
}
