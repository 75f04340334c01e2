//! The pages of a node's RAM that contain code.
//!
//! A page has the node's own blocks, or code of the pool that runs there at some linear addresses;
//! `remove`, `leave` and `clear` return the pages that have neither any more and need not be
//! watched. `store` adds and removes blocks, `store/pooled` records the pool's pages.

use std::cell::Cell;
use std::collections::BTreeMap;

use belljar_cpu::PAGE_SIZE;
use belljar_translate::guest::mode::Origin;
use belljar_translate::host::exit_stub::BlockId;

use crate::code::pool::PageId;

/// The code of one page.
#[derive(Debug, Default)]
struct Page {
    /// The node's own blocks with bytes in it.
    blocks: Vec<BlockId>,
    /// For each linear page at which its code ran, its page in the pool, or `None`.
    pooled: Vec<(u64, Option<PageId>)>,
    /// True if the node has written to it while it contained code, so that it is never shared
    /// again.
    own: bool,
}

/// The largest number of linear pages that are recorded for a page.
const MOST_PLACES: usize = 8;

impl Page {
    fn holds_code(&self) -> bool {
        !self.blocks.is_empty() || self.is_shared()
    }

    fn is_shared(&self) -> bool {
        self.pooled.iter().any(|(_, id)| id.is_some())
    }
}

/// Number of cached lookups of pooled pages; a power of two.
const RECENT: usize = 2048;

/// A place of a pooled page: numbers of the page of RAM and of the linear page.
type Place = (u64, u64);

/// A page of the pool at a place.
type Recent = Cell<Option<(Place, PageId)>>;

/// Pages of RAM by their number.
#[derive(Debug)]
pub(crate) struct CodePages {
    pages: BTreeMap<u64, Page>,
    /// A cache of results of [`pooled`](Self::pooled); it is queried whenever the jump caches lack a RIP. Both page
    /// numbers index it: relative code is at linear page 0, and kernel code often has consecutive pages.
    recent: Box<[Recent]>,
}

impl Default for CodePages {
    fn default() -> Self {
        Self {
            pages: BTreeMap::new(),
            recent: vec![Cell::new(None); RECENT].into(),
        }
    }
}

impl CodePages {
    fn page(&self, physical: u64) -> Option<&Page> {
        self.pages.get(&(physical / PAGE_SIZE))
    }

    fn forget_recent(&mut self) {
        self.recent.fill_with(Cell::default);
    }

    /// Records that block `id` has bytes in these pages.
    pub(crate) fn add(&mut self, origin: Origin, id: BlockId) {
        for physical in origin.each() {
            let page = self.pages.entry(physical / PAGE_SIZE).or_default();
            page.blocks.push(id);
        }
    }

    /// Removes block `id` from these pages. Returns the pages that contain no code any more.
    pub(crate) fn remove(&mut self, origin: Origin, id: BlockId) -> Vec<u64> {
        let mut clean = Vec::new();
        for physical in origin.each() {
            let Some(page) = self.pages.get_mut(&(physical / PAGE_SIZE)) else {
                continue;
            };
            page.blocks.retain(|&other| other != id);
            if !page.holds_code() {
                clean.push(physical & !(PAGE_SIZE - 1));
                if !page.own {
                    self.pages.remove(&(physical / PAGE_SIZE));
                }
            }
        }
        clean
    }

    /// The node's own blocks with bytes in the page around `physical`.
    pub(crate) fn blocks(&self, physical: u64) -> &[BlockId] {
        self.page(physical).map_or(&[], |page| &page.blocks)
    }

    /// The page of the pool whose code runs in the page around `physical` at `rip`.
    pub(crate) fn pooled(&self, physical: u64, rip: u64) -> Option<PageId> {
        let place = (physical / PAGE_SIZE, rip / PAGE_SIZE);
        let recent = &self.recent[(place.0 ^ place.1) as usize % RECENT];
        if let Some((known, id)) = recent.get()
            && known == place
        {
            return Some(id);
        }
        let mut places = self.page(physical)?.pooled.iter();
        let id = places.find(|&&(linear, _)| linear == place.1)?.1?;
        recent.set(Some((place, id)));
        Some(id)
    }

    /// The pages of the pool whose code runs in the page around `physical`.
    pub(crate) fn pool_pages(&self, physical: u64) -> Vec<PageId> {
        let pooled = self.page(physical).map(|page| page.pooled.iter());
        pooled
            .into_iter()
            .flatten()
            .filter_map(|&(_, id)| id)
            .collect()
    }

    /// True if code of the pool runs there.
    pub(crate) fn is_shared(&self, physical: u64) -> bool {
        self.page(physical).is_some_and(Page::is_shared)
    }

    /// True if it is still unknown whether the code there at `rip` can be the pool's.
    pub(crate) fn may_share(&self, physical: u64, rip: u64) -> bool {
        self.page(physical).is_none_or(|page| {
            let mut places = page.pooled.iter();
            !page.own
                && page.pooled.len() < MOST_PLACES
                && places.all(|&(place, _)| place != rip / PAGE_SIZE)
        })
    }

    /// Records that the code there at `rip` is in page `id` of the pool, or not in the pool.
    pub(crate) fn share(&mut self, physical: u64, rip: u64, id: Option<PageId>) {
        let page = self.pages.entry(physical / PAGE_SIZE).or_default();
        page.pooled.push((rip / PAGE_SIZE, id));
    }

    /// Stops running the pool's code there; forever, if the page is now the node's `own`. Returns
    /// true if it contains no code any more.
    pub(crate) fn leave(&mut self, physical: u64, own: bool) -> bool {
        self.forget_recent();
        let Some(page) = self.pages.get_mut(&(physical / PAGE_SIZE)) else {
            return false;
        };
        page.pooled.clear();
        page.own |= own;
        let clean = page.blocks.is_empty();
        if clean && !page.own {
            self.pages.remove(&(physical / PAGE_SIZE));
        }
        clean
    }

    /// Excludes the page from the pool forever.
    pub(crate) fn keep_own(&mut self, physical: u64) {
        self.pages.entry(physical / PAGE_SIZE).or_default().own = true;
    }

    /// Drops everything; returns the pages that contained code.
    pub(crate) fn clear(&mut self) -> Vec<u64> {
        self.forget_recent();
        let pages = std::mem::take(&mut self.pages).into_iter();
        pages
            .filter(|(_, page)| page.holds_code())
            .map(|(number, _)| number * PAGE_SIZE)
            .collect()
    }
}
