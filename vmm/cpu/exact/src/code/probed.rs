//! The probes of a node, and the pages of code that contain some.
//!
//! A part of the store; `find::probed` queries it when it looks up the code at a RIP.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use belljar_cpu::{PAGE_SIZE, Probes};

use crate::code::recent::RecentResults;

/// Number of pages without places that are kept for fast lookups.
const RECENT_PLAIN: usize = 1024;

/// The probes of a node, as a part of its code, which all of its vCPUs run.
#[derive(Debug, Default)]
pub(crate) struct ProbedCode {
    pub(crate) set: Option<Arc<Probes>>,
    /// Compared pages of users' code, and pages of a kernel's code with probes, by number, with their probes.
    pages: BTreeMap<u64, Box<[(u16, u32)]>>,
    /// Compared pages without probes and breakpoints, by number.
    plain: RecentResults<(), RECENT_PLAIN>,
    /// Return addresses of traced calls.
    pub(crate) returns: BTreeSet<u64>,
    /// A debugger's breakpoints: linear addresses, in all address spaces.
    pub(crate) breakpoints: BTreeSet<u64>,
}

/// The number of a place with a breakpoint and without a probe.
pub(crate) const BREAKPOINT: u32 = u32::MAX;

impl ProbedCode {
    /// True if there are probes or watched return addresses.
    pub(crate) fn is_active(&self) -> bool {
        self.set.is_some() || !self.returns.is_empty() || !self.breakpoints.is_empty()
    }

    /// True if there are probes or breakpoints in a kernel.
    pub(crate) fn has_kernel(&self) -> bool {
        let broken = self.breakpoints.last().is_some_and(|at| at >> 63 != 0);
        broken || self.set.as_ref().is_some_and(|set| set.has_kernel())
    }

    /// True if a watched return address or a breakpoint is in the page around linear address `rip`.
    pub(crate) fn watches_page(&self, rip: u64) -> bool {
        let page = rip & !(PAGE_SIZE - 1)..=rip | (PAGE_SIZE - 1);
        let returns = self.returns.range(page.clone()).next();
        returns.or(self.breakpoints.range(page).next()).is_some()
    }

    /// The places that the page at `linear`, number `number` in RAM, lacks for its breakpoints, together with
    /// those that it has; `None` if it lacks none.
    pub(crate) fn with_breakpoints(&self, number: u64, linear: u64) -> Option<Box<[(u16, u32)]>> {
        if self.breakpoints.is_empty() {
            return None;
        }
        let known = self.pages.get(&number);
        let mut places: Vec<(u16, u32)> = known.map_or_else(Vec::new, |known| known.to_vec());
        let before = places.len();
        for at in self.breakpoints.range(linear..=linear | (PAGE_SIZE - 1)) {
            let offset = (at % PAGE_SIZE) as u16;
            if let Err(index) = places.binary_search_by_key(&offset, |place| place.0) {
                places.insert(index, (offset, BREAKPOINT));
            }
        }
        (places.len() > before).then(|| places.into())
    }

    /// The places of page number `page`, if it was compared.
    pub(crate) fn places(&self, page: u64) -> Option<&[(u16, u32)]> {
        self.pages.get(&page).map(|places| &**places)
    }

    /// Records the places of page number `page`, after a comparison or for breakpoints.
    pub(crate) fn set_places(&mut self, page: u64, places: Box<[(u16, u32)]>) {
        self.plain.change();
        self.pages.insert(page, places);
    }

    /// True if the page around `physical` was compared and has no places.
    pub(crate) fn is_plain(&self, physical: u64) -> bool {
        let number = physical / PAGE_SIZE;
        let compared = || self.places(number).filter(|places| places.is_empty());
        self.breakpoints.is_empty()
            && self
                .plain
                .find((number, 0, 0), || compared().map(|_| ()))
                .is_some()
    }

    /// Invalidates the comparison of page number `page`.
    pub(crate) fn forget(&mut self, page: u64) {
        if self.pages.remove(&page).is_some() {
            self.plain.change();
        }
    }

    /// Invalidates the comparisons of all pages.
    pub(crate) fn forget_pages(&mut self) {
        self.plain.change();
        self.pages.clear();
    }

    pub(crate) fn probe_at(&self, physical: u64) -> Option<u32> {
        let places = self.pages.get(&(physical / PAGE_SIZE))?;
        let offset = (physical % PAGE_SIZE) as u16;
        let at = places.binary_search_by_key(&offset, |place| place.0).ok()?;
        Some(places[at].1).filter(|number| *number != BREAKPOINT)
    }

    /// True if code must not continue at `physical` without the dispatcher: there is a probe, or a breakpoint of
    /// some mapping of the page.
    pub(crate) fn is_place(&self, physical: u64) -> bool {
        let places = self.pages.get(&(physical / PAGE_SIZE));
        let offset = (physical % PAGE_SIZE) as u16;
        places.is_some_and(|places| {
            places
                .binary_search_by_key(&offset, |place| place.0)
                .is_ok()
        })
    }

    /// Distances in bytes from `physical` to the places after it in its page, ascending.
    pub(crate) fn bytes_to_next(&self, physical: u64) -> impl Iterator<Item = usize> {
        let places = self.pages.get(&(physical / PAGE_SIZE));
        let places = places.map_or(&[][..], |places| places);
        let offset = (physical % PAGE_SIZE) as u16;
        let next = places.partition_point(|place| place.0 <= offset);
        places[next..]
            .iter()
            .map(move |place| usize::from(place.0 - offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_plain_only_after_a_comparison_without_places() {
        let mut probed = ProbedCode::default();
        assert!(!probed.is_plain(0x5000));
        probed.set_places(5, Box::new([]));
        assert!(probed.is_plain(0x5000) && probed.is_plain(0x5fff));
        assert!(!probed.is_plain(0x6000));
        probed.set_places(5, Box::new([(8, 1)]));
        assert!(!probed.is_plain(0x5000));
        probed.set_places(5, Box::new([]));
        probed.forget(5);
        assert!(!probed.is_plain(0x5000));
        probed.set_places(5, Box::new([]));
        probed.breakpoints.insert(0x7000_5004);
        assert!(!probed.is_plain(0x5000));
    }
}
