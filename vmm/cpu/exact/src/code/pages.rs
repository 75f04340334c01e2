//! What a node knows of its pages of RAM that hold code.
//!
//! A page has the node's own blocks, or code of the pool that runs there for some linear addresses;
//! `remove`, `leave` and `clear` tell which pages have neither any more and need not be watched.
//! `store` adds and removes, `store/pooled` says which pages are the pool's.

use std::cell::Cell;
use std::collections::BTreeMap;

use belljar_cpu::PAGE_SIZE;
use belljar_translate::guest::mode::Origin;
use belljar_translate::host::exit_stub::BlockId;

use crate::code::pool::PageId;

/// The code of one page.
#[derive(Debug, Default)]
struct Page {
    /// The node's own blocks that hold bytes of it.
    blocks: Vec<BlockId>,
    /// What it is in the pool, for each linear page at which its code ran; or that it is
    /// not there.
    pooled: Vec<(u64, Option<PageId>)>,
    /// The node has written to it while it was code, so it shares it no more.
    own: bool,
}

/// Linear pages of which a page remembers what it is in the pool.
const MOST_PLACES: usize = 8;

impl Page {
    fn holds_code(&self) -> bool {
        !self.blocks.is_empty() || self.is_shared()
    }

    fn is_shared(&self) -> bool {
        self.pooled.iter().any(|(_, id)| id.is_some())
    }
}

/// Pages of the pool that are remembered of those looked for last; a power of two.
const RECENT: usize = 512;

/// Where a page of the pool runs: numbers of the page of RAM and of the linear page.
type Place = (u64, u64);

/// A page of the pool where it was found.
type Recent = Cell<Option<(Place, PageId)>>;

/// Pages of RAM by their number.
#[derive(Debug)]
pub(crate) struct CodePages {
    pages: BTreeMap<u64, Page>,
    /// What [`pooled`](Self::pooled) found last, each where the linear page tells; it is
    /// asked whenever the jump caches do not know a RIP.
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

    /// Block `id` holds bytes of these pages.
    pub(crate) fn add(&mut self, origin: Origin, id: BlockId) {
        for physical in origin.each() {
            let page = self.pages.entry(physical / PAGE_SIZE).or_default();
            page.blocks.push(id);
        }
    }

    /// Block `id` does so no more. Returns those of the pages that hold no code any more.
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

    /// The node's own blocks that hold bytes of the page around `physical`.
    pub(crate) fn blocks(&self, physical: u64) -> &[BlockId] {
        self.page(physical).map_or(&[], |page| &page.blocks)
    }

    /// The page of the pool whose code runs in the page around `physical` at `rip`.
    pub(crate) fn pooled(&self, physical: u64, rip: u64) -> Option<PageId> {
        let place = (physical / PAGE_SIZE, rip / PAGE_SIZE);
        let recent = &self.recent[place.1 as usize % RECENT];
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

    /// Whether any code of the pool's runs there.
    pub(crate) fn is_shared(&self, physical: u64) -> bool {
        self.page(physical).is_some_and(Page::is_shared)
    }

    /// Whether it is not known yet if the code there at `rip` may be the pool's.
    pub(crate) fn may_share(&self, physical: u64, rip: u64) -> bool {
        self.page(physical).is_none_or(|page| {
            let mut places = page.pooled.iter();
            !page.own
                && page.pooled.len() < MOST_PLACES
                && places.all(|&(place, _)| place != rip / PAGE_SIZE)
        })
    }

    /// From now on the code there at `rip` is that of page `id` of the pool, or not the
    /// pool's.
    pub(crate) fn share(&mut self, physical: u64, rip: u64, id: Option<PageId>) {
        let page = self.pages.entry(physical / PAGE_SIZE).or_default();
        page.pooled.push((rip / PAGE_SIZE, id));
    }

    /// From now on the pool's code does not run there, nor again where the node keeps the
    /// page as its `own`. Returns whether it holds no code any more.
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

    /// The pool's code never runs there.
    pub(crate) fn keep_own(&mut self, physical: u64) {
        self.pages.entry(physical / PAGE_SIZE).or_default().own = true;
    }

    /// Forgets all; returns the pages that held code.
    pub(crate) fn clear(&mut self) -> Vec<u64> {
        self.forget_recent();
        let pages = std::mem::take(&mut self.pages).into_iter();
        pages
            .filter(|(_, page)| page.holds_code())
            .map(|(number, _)| number * PAGE_SIZE)
            .collect()
    }
}
