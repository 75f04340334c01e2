//! Checkpoints of a run, taken between its rounds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use belljar_sim::{Span, Time};
use belljar_vmm::{Identity, KeptPages, PackWriter, PageMap, Snapshot};

use super::{Run, RunError};
use crate::checkpoint::{
    CheckpointError, FOLDER, Found, Keeper, NodeRecord, Record, Report, RunRecord, Tell, Work,
};
use crate::plan::Plan;
use crate::run_directory::RunDirectory;
use crate::stopwatch::Stopwatch;

/// How a run keeps checkpoints.
pub struct Checkpoints {
    /// Set from outside when one is wanted.
    pub wanted: Arc<AtomicBool>,
    /// Hears of each.
    pub tell: Tell,
}

/// What takes checkpoints of a run.
pub(super) struct Checkpointer {
    keeper: Keeper,
    wanted: Arc<AtomicBool>,
    tell: Tell,
    every: Option<Span>,
    /// When the next is due.
    next: Time,
    /// The host's table of pages, where it has one.
    map: Option<PageMap>,
    /// What is kept of each node's pages.
    pages: Vec<KeptPages>,
    /// Pages in each pack.
    packs: BTreeMap<u32, u64>,
    /// That of the last one.
    number: u32,
    identity: Identity,
    has_base: bool,
}

impl Checkpointer {
    /// Keeps what is there by now: the number of the last one, and how many pages are in each
    /// of its packs; 0 and none when there is nothing yet.
    pub(super) fn new(
        (number, packs): (u32, BTreeMap<u32, u64>),
        checkpoints: Checkpoints,
        directory: &RunDirectory,
        plan: &Plan,
        identity: Identity,
        base: Option<Snapshot>,
    ) -> Self {
        let last = (number, packs.keys().copied().collect());
        Self {
            has_base: base.is_some(),
            keeper: Keeper::start(
                directory.path().join(FOLDER),
                base,
                last,
                checkpoints.tell.clone(),
            ),
            wanted: checkpoints.wanted,
            tell: checkpoints.tell,
            every: plan.checkpoint_every,
            next: due_behind(Time::ZERO, plan.checkpoint_every),
            map: PageMap::open().ok(),
            pages: vec![KeptPages::default(); plan.nodes as usize],
            packs,
            number,
            identity,
        }
    }

    /// Keeps `found`, with the nodes' `pages`.
    pub(super) fn resume(
        checkpoints: Checkpoints,
        directory: &RunDirectory,
        plan: &Plan,
        found: &Found,
        pages: Vec<KeptPages>,
    ) -> Self {
        let identity = found.run.identity.clone();
        let last = (found.run.number, found.run.packs.iter().copied().collect());
        let base = found.base.clone();
        Self {
            next: due_behind(found.run.now, plan.checkpoint_every),
            pages,
            ..Self::new(last, checkpoints, directory, plan, identity, base)
        }
    }

    fn is_due(&self, now: Time) -> bool {
        now >= self.next || self.wanted.load(Ordering::Relaxed)
    }

    /// Forgets what was kept: the next one is whole.
    fn forget(&mut self) {
        self.pages.fill(KeptPages::default());
        self.packs.clear();
    }

    /// Forgets all where more than half of what stands in packs is of no use any more.
    fn tidy(&mut self) {
        let written: u64 = self.packs.values().sum();
        let used: u64 = self.used().values().sum();
        if written > 2 * used {
            self.forget();
        }
    }

    /// Pages in use, by pack.
    fn used(&self) -> BTreeMap<u32, u64> {
        let mut used = BTreeMap::new();
        self.pages.iter().for_each(|pages| pages.count(&mut used));
        used
    }
}

/// The first multiple of `every` behind `now`.
fn due_behind(now: Time, every: Option<Span>) -> Time {
    let next = |every: Span| {
        let count = now.as_ps() / every.as_ps() + 1;
        Time::from_ps(count.saturating_mul(every.as_ps()))
    };
    every.map_or(Time::MAX, next)
}

impl Run {
    /// Takes a checkpoint if one is due or wanted.
    pub(super) fn keep_if_due(&mut self) {
        let due = |checkpointer: &Checkpointer| checkpointer.is_due(self.now);
        if self.checkpointer.as_ref().is_some_and(due) {
            self.keep();
        }
    }

    /// Takes a checkpoint: its number, if checkpoints are kept at all. Should it fail, the run
    /// goes on all the same, and whoever hears of checkpoints hears of that.
    pub(super) fn keep(&mut self) -> Option<u32> {
        let mut checkpointer = self.checkpointer.take()?;
        checkpointer.wanted.store(false, Ordering::Relaxed);
        checkpointer.next = due_behind(self.now, checkpointer.every);
        checkpointer.number += 1;
        if let Err(error) = self.keep_with(&mut checkpointer) {
            checkpointer.forget();
            (checkpointer.tell)(checkpointer.number, Err(&error.to_string()));
        }
        let number = checkpointer.number;
        self.checkpointer = Some(checkpointer);
        Some(number)
    }

    fn keep_with(&mut self, checkpointer: &mut Checkpointer) -> Result<(), RunError> {
        let mut pause = Stopwatch::default();
        let since = pause.lap();
        let number = checkpointer.number;
        let (file, whole) = checkpointer.keeper.begin(number)?;
        if !whole {
            checkpointer.forget();
        }
        checkpointer.tidy();
        let mut pack = PackWriter::new(number, file);
        let written = |source| CheckpointError::Io {
            action: "write the pages of",
            path: format!("{FOLDER}/{number}").into(),
            source,
        };
        for (runner, kept) in self.crew.runners().zip(&mut checkpointer.pages) {
            let map = checkpointer.map.as_ref();
            kept.update(runner.node().ram(), map, &mut pack)
                .map_err(written)?;
        }
        let pages = u64::from(pack.pages());
        let pack = pack.finish().map_err(written)?;
        checkpointer.packs.insert(number, pages);
        let used = checkpointer.used();
        checkpointer.packs.retain(|pack, _| used.contains_key(pack));
        let record = self.record(checkpointer)?;
        pause.add(since);
        checkpointer.keeper.keep(Work {
            number,
            now: self.now,
            record,
            pack,
            pages,
            needed: used.into_keys().collect(),
            pause: pause.total(),
        });
        Ok(())
    }

    /// Everything but pages, the run's files having all that was written to them.
    fn record(&mut self, checkpointer: &Checkpointer) -> Result<Record, RunError> {
        let links = self.links.as_mut().map(|links| links.save());
        let run = RunRecord {
            number: checkpointer.number,
            identity: checkpointer.identity.clone(),
            has_base: checkpointer.has_base,
            packs: checkpointer.packs.clone().into_iter().collect(),
            now: self.now,
            rounds: self.rounds,
            typed: self.typed,
            input: self.input,
            closing: self.closing.clone(),
            fabric: self.fabric.save(),
            recorder: self.recorder.save().map_err(CheckpointError::from)?,
            captures: self.captures.save()?,
            links: links.transpose().map_err(RunError::Links)?,
        };
        let mut record = Record::new(&run).map_err(CheckpointError::from)?;
        for (mut runner, pages) in self.crew.runners().zip(&checkpointer.pages) {
            let node = NodeRecord {
                runner: runner.save().map_err(CheckpointError::from)?,
                pages: Cow::Borrowed(pages),
            };
            record.add(&node).map_err(CheckpointError::from)?;
        }
        Ok(record)
    }

    /// Waits until all checkpoints are on the disk, and takes no more: what was kept.
    pub fn finish_checkpoints(&mut self) -> Vec<Report> {
        let checkpointer = self.checkpointer.take();
        checkpointer.map_or_else(Vec::new, |checkpointer| checkpointer.keeper.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_due_at_each_multiple() {
        let every = Some(Span::from_ms(10));
        let at = |ms: u64| Time::from_ps(ms * 1_000_000_000);
        assert_eq!(due_behind(at(0), every), at(10));
        assert_eq!(due_behind(at(9), every), at(10));
        assert_eq!(due_behind(at(10), every), at(20));
        assert_eq!(due_behind(at(10), None), Time::MAX);
    }
}
