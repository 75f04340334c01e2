//! Checkpoints of a run, taken between its rounds.
//!
//! A checkpoint does not affect the run, and a failed one does not end it. Pages and records are
//! collected here; the keeper's thread stores them. Called by the coordinator when one is due or
//! requested.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use belljar_sim::{Span, Time};
use belljar_vmm::{Identity, KeptPages, PackWriter, PageMap, Snapshot};

use super::{Run, RunError};
use crate::plan::Plan;
use crate::results::run_directory::RunDirectory;
use crate::run::checkpoint::{
    CheckpointError, CheckpointRecord, FOLDER, IntactCheckpoint, Keeper, LEAST_KEPT, NodeRecord,
    Report, RunRecord, Tell, Work,
};
use crate::run::stopwatch::Stopwatch;
use crate::run::workers::Workers;

/// Settings of checkpoints.
pub struct Checkpoints {
    /// Set by other threads to request one.
    pub wanted: Arc<AtomicBool>,
    /// Receives the result of each.
    pub tell: Tell,
}

/// Makes checkpoints of a run.
pub(super) struct Checkpointer {
    pub(super) keeper: Keeper,
    wanted: Arc<AtomicBool>,
    pub(super) tell: Tell,
    every: Option<Span>,
    /// True while no program has called MPI and automatic checkpoints wait for that.
    waits_for_calls: bool,
    /// Number of checkpoints that stay, and of those since the interval was last doubled.
    keep: usize,
    made: usize,
    /// Time of the next one.
    next: Time,
    pub(super) pages: PageKeeper,
    /// Number of the last one.
    pub(super) number: u32,
    identity: Identity,
    bases: u32,
}

/// The saved pages of nodes.
pub(super) struct PageKeeper {
    /// The host's page map, if it has one.
    map: Option<PageMap>,
    /// Of each node of this host, in order.
    pub(super) nodes: Vec<KeptPages>,
    /// Pages in each pack of this host.
    pub(super) packs: BTreeMap<u32, u64>,
}

impl PageKeeper {
    /// Continues with the saved pages of `nodes`.
    pub(super) fn new(nodes: Vec<KeptPages>) -> Self {
        let mut keeper = Self {
            map: PageMap::open().ok(),
            nodes,
            packs: BTreeMap::new(),
        };
        keeper.packs = keeper.used();
        keeper
    }

    /// Discards the saved pages: the next checkpoint is complete.
    pub(super) fn forget(&mut self) {
        self.nodes.fill(KeptPages::default());
        self.packs.clear();
    }

    /// Discards all pages if packs mostly contain unused ones.
    fn tidy(&mut self) {
        let written: u64 = self.packs.values().sum();
        let used: u64 = self.used().values().sum();
        if written > 2 * used {
            self.forget();
        }
    }

    /// Pages in use, by pack.
    pub(super) fn used(&self) -> BTreeMap<u32, u64> {
        let mut used = BTreeMap::new();
        self.nodes.iter().for_each(|pages| pages.count(&mut used));
        used
    }

    /// Writes the nodes' changed pages to a new pack; returns their number and the writer.
    pub(super) fn write<W: Write>(
        &mut self,
        workers: &Workers,
        number: u32,
        to: W,
    ) -> io::Result<(u64, W)> {
        self.tidy();
        let mut pack = PackWriter::new(number, to);
        for (mut runner, kept) in workers.runners().zip(&mut self.nodes) {
            if runner.take_is_new() {
                *kept = KeptPages::default();
            }
            kept.update(runner.node().ram(), self.map.as_ref(), &mut pack)?;
        }
        let pages = u64::from(pack.pages());
        let to = pack.finish()?;
        self.packs.insert(number, pages);
        let used = self.used();
        self.packs.retain(|pack, _| used.contains_key(pack));
        Ok((pages, to))
    }
}

impl Checkpointer {
    /// Continues after `last`, the number of the last checkpoint and its packs; 0 and none before the
    /// first. The caller adds the pages of this host's nodes.
    pub(super) fn new(
        last: (u32, BTreeSet<u32>),
        checkpoints: Checkpoints,
        directory: &RunDirectory,
        plan: &Plan,
        identity: Identity,
        bases: Vec<Snapshot>,
    ) -> Self {
        let number = last.0;
        let keep = plan
            .checkpoints_kept
            .map_or(LEAST_KEPT, |kept| LEAST_KEPT.max(kept as usize));
        Self {
            keep,
            made: 0,
            bases: bases.len() as u32,
            keeper: Keeper::start(
                directory.path().to_owned(),
                bases,
                last,
                keep,
                checkpoints.tell.clone(),
            ),
            wanted: checkpoints.wanted,
            tell: checkpoints.tell,
            every: plan.checkpoint_every,
            waits_for_calls: plan.checkpoints_after_init,
            next: Time::MAX,
            pages: PageKeeper::new(Vec::new()),
            number,
            identity,
        }
    }

    /// Continues `found`, with the nodes' `pages`.
    pub(super) fn resume(
        checkpoints: Checkpoints,
        directory: &RunDirectory,
        plan: &Plan,
        found: &IntactCheckpoint,
        pages: Vec<KeptPages>,
    ) -> Self {
        let identity = found.run.identity.clone();
        let packs = found.run.packs.iter().map(|(pack, _)| *pack);
        let last = (found.run.number, packs.collect());
        let bases = found.bases.clone();
        Self {
            pages: PageKeeper::new(pages),
            ..Self::new(last, checkpoints, directory, plan, identity, bases)
        }
    }

    /// No node acts before `first`, so no checkpoint is due earlier.
    pub(super) fn begin_at(&mut self, first: Time) {
        self.next = due_behind(first, self.every);
    }

    /// Counts a checkpoint. When every other one goes, the interval doubles.
    fn count(&mut self) {
        self.made += 1;
        if self.keep > LEAST_KEPT && self.made > self.keep {
            self.made = (self.keep + 1).div_ceil(2);
            self.every = self
                .every
                .map(|every| Span::from_ps(every.as_ps().saturating_mul(2)));
        }
    }

    fn is_due(&self, now: Time) -> bool {
        now >= self.next || self.wanted.load(Ordering::Relaxed)
    }
}

/// The first multiple of `every` after `now`.
pub(super) fn due_behind(now: Time, every: Option<Span>) -> Time {
    let next = |every: Span| {
        let count = now.as_ps() / every.as_ps() + 1;
        Time::from_ps(count.saturating_mul(every.as_ps()))
    };
    every.map_or(Time::MAX, next)
}

impl Run {
    /// Makes a checkpoint if one is due or requested.
    pub(super) fn keep_if_due(&mut self) {
        let elsewhere =
            "a run on several hosts makes checkpoints at regular times only; set checkpoint.every";
        if self.others.is_some() {
            self.refuse_to_keep(elsewhere);
            return;
        }
        let due = |checkpointer: &Checkpointer| checkpointer.is_due(self.now);
        if self.checkpointer.as_ref().is_some_and(due) && !self.postpones() {
            self.keep();
        }
    }

    /// Postpones an automatic checkpoint before the first call of MPI; true if it did.
    fn postpones(&mut self) -> bool {
        let Some(checkpointer) = &mut self.checkpointer else {
            return false;
        };
        if !checkpointer.waits_for_calls || checkpointer.wanted.load(Ordering::Relaxed) {
            return false;
        }
        let mut runners = self.workers.runners();
        let calls = runners.any(|runner| {
            let tracer = runner.tracer();
            tracer.is_some_and(|tracer| !tracer.processes().is_empty())
        });
        drop(runners);
        checkpointer.waits_for_calls = !calls;
        if !calls {
            checkpointer.next = due_behind(self.now, checkpointer.every);
        }
        !calls
    }

    /// Makes a checkpoint and returns its number, if checkpoints are enabled. After a failure the run
    /// continues, and the failure is reported.
    pub(super) fn keep(&mut self) -> Option<u32> {
        if self.others.is_some() {
            return None;
        }
        let mut checkpointer = self.checkpointer.take()?;
        checkpointer.wanted.store(false, Ordering::Relaxed);
        checkpointer.count();
        checkpointer.next = due_behind(self.now, checkpointer.every);
        checkpointer.number += 1;
        if let Err(error) = self.keep_with(&mut checkpointer) {
            checkpointer.pages.forget();
            (checkpointer.tell)(checkpointer.number, Err(&error.to_string()));
        }
        let number = checkpointer.number;
        self.checkpointer = Some(checkpointer);
        Some(number)
    }

    /// Refuses a request for a checkpoint between the regular ones of a run on several hosts.
    fn refuse_to_keep(&mut self, why: &str) {
        let Some(checkpointer) = &self.checkpointer else {
            return;
        };
        if checkpointer.wanted.swap(false, Ordering::Relaxed) {
            (checkpointer.tell)(checkpointer.number + 1, Err(why));
        }
    }

    fn keep_with(&mut self, checkpointer: &mut Checkpointer) -> Result<(), RunError> {
        let mut pause = Stopwatch::default();
        let since = pause.lap();
        let number = checkpointer.number;
        let (file, whole) = checkpointer.keeper.begin(number)?;
        if !whole {
            checkpointer.pages.forget();
        }
        let (pages, pack) = checkpointer
            .pages
            .write(&self.workers, number, file)
            .map_err(written(number))?;
        let packs = checkpointer.pages.packs.clone();
        let needed = packs.keys().copied().collect();
        let run = self.run_record(checkpointer, packs)?;
        let mut record = CheckpointRecord::new(&run).map_err(CheckpointError::from)?;
        for part in self.node_parts(&checkpointer.pages)? {
            record.add(part);
        }
        pause.add(since);
        checkpointer.keeper.keep(Work {
            number,
            now: self.now,
            record,
            pack,
            pages,
            hosts: 0,
            needed,
            pause: pause.total(),
        });
        Ok(())
    }

    /// The state of the whole run, after its files were flushed.
    pub(super) fn run_record(
        &mut self,
        checkpointer: &Checkpointer,
        packs: BTreeMap<u32, u64>,
    ) -> Result<RunRecord, RunError> {
        let links = self.links.as_mut().map(|links| links.save());
        Ok(RunRecord {
            number: checkpointer.number,
            identity: checkpointer.identity.clone(),
            bases: checkpointer.bases,
            packs: packs.into_iter().collect(),
            now: self.now,
            rounds: self.rounds,
            typed: self.typed,
            input: self.input,
            closing: self.closing.clone(),
            stuck: self
                .stuck_watch
                .as_ref()
                .map(crate::run::stuck::StuckWatch::save),
            fabric: self.fabric.save(),
            infiniband: self
                .infiniband
                .as_ref()
                .map(belljar_lossless::Lossless::save),
            backgrounds: self.backgrounds.save(),
            recorder: self.recorder.save()?,
            captures: self.captures.save()?,
            links: links.transpose().map_err(RunError::Links)?,
        })
    }

    /// The states of this host's nodes without their pages, in order.
    pub(super) fn node_parts(&mut self, pages: &PageKeeper) -> Result<Vec<Vec<u8>>, RunError> {
        let runners = self.workers.runners().zip(&pages.nodes);
        let parts = runners.map(|(mut runner, pages)| {
            let node = NodeRecord {
                runner: runner.save()?,
                pages: Cow::Borrowed(pages),
            };
            Ok(node.encode()?)
        });
        let parts: Result<_, CheckpointError> = parts.collect();
        Ok(parts?)
    }

    /// Waits until all checkpoints are on the disk, and makes no more; returns them.
    pub fn finish_checkpoints(&mut self) -> Vec<Report> {
        let checkpointer = self.checkpointer.take();
        checkpointer.map_or_else(Vec::new, |checkpointer| checkpointer.keeper.finish())
    }
}

/// A pack of this checkpoint cannot be written.
pub(super) fn written(number: u32) -> impl FnOnce(io::Error) -> CheckpointError {
    move |source| CheckpointError::Io {
        action: "write the pages of",
        path: format!("{FOLDER}/{number}").into(),
        source,
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
