//! Checkpoints of a run on several hosts.
//!
//! All hosts bring their nodes exactly to the time of a checkpoint. When no node acts before it,
//! every host knows all earlier frames, and all hosts' networks have the same state. Host 0 then
//! announces the checkpoint's number and continues at once; other hosts send it the states of their
//! nodes. When all parts have arrived, the checkpoint is stored. It is independent of the number of
//! hosts, except for the numbers of its packs.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_sim::Time;

use super::checkpoint::{PageKeeper, due_behind, written};
use super::{Run, RunError};
use crate::hosts::{Exchange, HEAD, HostMessage, Kept};
use crate::run::checkpoint::{
    CheckpointError, CheckpointRecord, LONGEST, MOST_HOSTS, RunRecord, Work, pack_of,
};
use crate::run::ending::Ending;
use crate::run::stopwatch::Stopwatch;
use crate::run::stuck::StuckWatch;

/// Bytes of pages, or of a node's part, in a message.
const PIECE: usize = 1 << 20;

/// A checkpoint that awaits other hosts' parts, on the host with the run directory.
pub(super) struct PendingCheckpoint {
    run: RunRecord,
    pack: std::fs::File,
    pages: u64,
    packs: BTreeMap<u32, u64>,
    /// Nodes' parts by node.
    parts: BTreeMap<u32, Vec<u8>>,
    /// Number of hosts without a complete part, and the number of the last host.
    awaited: u32,
    hosts: u32,
    failed: Option<String>,
    pause: Duration,
}

/// The times of checkpoints, and the orders for the next ones.
#[derive(Default)]
pub(super) struct Cuts {
    /// No node passes this time without a checkpoint; [`Time::MAX`] without checkpoints.
    pub(super) next: Time,
    /// Host 0's orders: the number, and whether the checkpoint must be complete; or `None` for a
    /// skipped one.
    pub(super) orders: VecDeque<Option<(u32, bool)>>,
    pub(super) pending: Option<PendingCheckpoint>,
    /// The saved pages of this host's nodes, on hosts without the run directory.
    pub(super) pages: Option<PageKeeper>,
}

impl Run {
    /// The time that no node passes for now.
    pub(super) fn cap(&self) -> Time {
        let cut = self.others.as_ref().map(|others| others.cuts.next);
        let look = self
            .stuck_watch
            .as_ref()
            .map_or(Time::MAX, StuckWatch::hold);
        let cap = self.closing.cap().min(self.hold).min(look);
        cut.map_or(cap, |cut| cut.min(cap))
    }

    /// Makes a checkpoint, after all nodes of all hosts have reached its time.
    pub(super) fn cut(&mut self, stop: &AtomicBool) -> Result<Option<Ending>, RunError> {
        let at = self.cap();
        self.advance_fabric(at, at)?;
        self.now = at;
        self.tell(true)?;
        // An earlier cause of the run's end is known to all by now, and makes the checkpoint
        // useless.
        if self.closing.is_open() {
            let ending = if self.checkpointer.is_some() {
                self.keep_here(stop)?
            } else {
                self.keep_for_head(stop)?
            };
            if ending.is_some() {
                return Ok(ending);
            }
        }
        let every = self.checkpoint_every;
        if let Some(others) = &mut self.others {
            others.cuts.next = self.closing.reachable(due_behind(at, every));
        }
        Ok(None)
    }

    /// Starts a checkpoint on the host with the run directory, and requests the others' parts.
    fn keep_here(&mut self, stop: &AtomicBool) -> Result<Option<Ending>, RunError> {
        while self
            .others
            .as_ref()
            .is_some_and(|others| others.cuts.pending.is_some())
        {
            if stop.load(Ordering::Relaxed) {
                return Ok(Some(Ending::Interrupted));
            }
            if let Some(ending) = self.hear(true)? {
                return Ok(Some(ending));
            }
        }
        let Some(mut checkpointer) = self.checkpointer.take() else {
            return Ok(None);
        };
        checkpointer.number += 1;
        let mut watch = Stopwatch::default();
        let since = watch.lap();
        let begun = self.begin_cut(&mut checkpointer);
        watch.add(since);
        match begun {
            Ok(mut pending) => {
                pending.pause = watch.total();
                if let Some(others) = &mut self.others {
                    others.cuts.pending = Some(pending);
                }
            }
            Err(error) => {
                checkpointer.pages.forget();
                (checkpointer.tell)(checkpointer.number, Err(&error.to_string()));
                if let Some(others) = &self.others {
                    others.exchange.tell_all(&HostMessage::Keep(None))?;
                }
            }
        }
        self.checkpointer = Some(checkpointer);
        Ok(None)
    }

    fn begin_cut(
        &mut self,
        checkpointer: &mut super::checkpoint::Checkpointer,
    ) -> Result<PendingCheckpoint, RunError> {
        let number = checkpointer.number;
        let (file, whole) = checkpointer.keeper.begin(number)?;
        if !whole {
            checkpointer.pages.forget();
        }
        let written = written(number);
        let (pages, pack) = checkpointer
            .pages
            .write(&self.workers, number, file)
            .map_err(written)?;
        let parts = self.node_parts(&checkpointer.pages)?;
        let run = self.run_record(checkpointer, BTreeMap::new())?;
        let Some(others) = &mut self.others else {
            return Err(CheckpointError::Failed("there are no other hosts".to_owned()).into());
        };
        others.flush()?;
        let hosts = others.exchange.partition().names().len() as u32 - 1;
        if hosts > MOST_HOSTS {
            let why = format!("a checkpoint has parts of {MOST_HOSTS} other hosts at most");
            return Err(CheckpointError::Failed(why).into());
        }
        others
            .exchange
            .tell_all(&HostMessage::Keep(Some((number, !whole))))?;
        Ok(PendingCheckpoint {
            run,
            pack,
            pages,
            packs: checkpointer.pages.packs.clone(),
            parts: self.workers.numbers().zip(parts).collect(),
            awaited: hosts,
            hosts,
            failed: None,
            pause: Duration::ZERO,
        })
    }

    /// Sends the states of this host's nodes to the host with the run directory, on its order.
    fn keep_for_head(&mut self, stop: &AtomicBool) -> Result<Option<Ending>, RunError> {
        let order = loop {
            let order = self
                .others
                .as_mut()
                .and_then(|others| others.cuts.orders.pop_front());
            if let Some(order) = order {
                break order;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Some(Ending::Interrupted));
            }
            if let Some(ending) = self.hear(true)? {
                return Ok(Some(ending));
            }
        };
        let Some(others) = &mut self.others else {
            return Ok(None);
        };
        let pages = others.cuts.pages.take();
        if let (Some((number, whole)), Some(mut pages)) = (order, pages) {
            if whole {
                pages.forget();
            }
            self.send_parts(number, &mut pages)?;
            if let Some(others) = &mut self.others {
                others.cuts.pages = Some(pages);
            }
        }
        Ok(None)
    }

    fn send_parts(&mut self, number: u32, pages: &mut PageKeeper) -> Result<(), RunError> {
        let Some(others) = &self.others else {
            return Ok(());
        };
        let pack = pack_of(number, others.exchange.own());
        let stream = PageStream {
            exchange: &others.exchange,
            pack,
        };
        let outcome = pages.write(&self.workers, pack, stream);
        let outcome = outcome.map(|(count, _)| count).map_err(written(number));
        let mut kept = Kept {
            number,
            pages: 0,
            packs: pages.packs.clone().into_iter().collect(),
            failed: None,
        };
        let parts = outcome
            .map_err(RunError::from)
            .and_then(|count| Ok((count, self.node_parts(pages)?)));
        let Some(others) = &self.others else {
            return Ok(());
        };
        match parts {
            Ok((count, parts)) => {
                kept.pages = count;
                for (node, part) in self.workers.numbers().zip(parts) {
                    for piece in part.chunks(PIECE) {
                        let piece = HostMessage::KeptNode(number, node, piece.to_vec());
                        others.exchange.tell_slowly(HEAD, &piece)?;
                    }
                }
            }
            Err(error) => kept.failed = Some(error.to_string()),
        }
        Ok(others.exchange.tell(HEAD, &HostMessage::Kept(kept))?)
    }

    /// Takes in another host's part of a checkpoint.
    pub(super) fn take_part(&mut self, host: u32, message: HostMessage) {
        let (Some(others), Some(checkpointer)) = (&mut self.others, &mut self.checkpointer) else {
            return;
        };
        let Some(pending) = &mut others.cuts.pending else {
            return;
        };
        match message {
            HostMessage::Pages(pack, bytes) if pack == pack_of(pending.run.number, host) => {
                checkpointer.keeper.append(pack, bytes);
            }
            HostMessage::KeptNode(number, node, part)
                if number == pending.run.number
                    && others.exchange.partition().host_of(node) == Some(host) =>
            {
                let whole = pending.parts.entry(node).or_default();
                if whole.len() + part.len() <= LONGEST {
                    whole.extend_from_slice(&part);
                } else {
                    let why = format!("the state of node {node} is too large for a checkpoint");
                    pending.failed.get_or_insert(why);
                }
            }
            HostMessage::Kept(kept) if kept.number == pending.run.number => {
                pending.pages += kept.pages;
                pending.packs.extend(kept.packs);
                pending.awaited = pending.awaited.saturating_sub(1);
                if let Some(why) = kept.failed {
                    let name = others.exchange.partition().name(host);
                    pending.failed.get_or_insert(format!("host {name}: {why}"));
                }
            }
            _ => {}
        }
        if pending.awaited == 0
            && let Some(pending) = others.cuts.pending.take()
        {
            let number = pending.run.number;
            if let Err(why) = pending.make_last(checkpointer) {
                checkpointer.pages.forget();
                (checkpointer.tell)(number, Err(&why));
            }
        }
    }
}

impl PendingCheckpoint {
    /// Stores it; returns the reason of a failure in words.
    fn make_last(mut self, checkpointer: &super::checkpoint::Checkpointer) -> Result<(), String> {
        if let Some(why) = self.failed {
            return Err(why);
        }
        self.run.packs = self
            .packs
            .iter()
            .map(|(&pack, &pages)| (pack, pages))
            .collect();
        let mut record = CheckpointRecord::new(&self.run).map_err(|error| error.to_string())?;
        for part in self.parts.into_values() {
            record.add(part);
        }
        checkpointer.keeper.keep(Work {
            number: self.run.number,
            now: self.run.now,
            record,
            pack: self.pack,
            pages: self.pages,
            hosts: self.hosts,
            needed: self.packs.into_keys().collect(),
            pause: self.pause,
        });
        Ok(())
    }
}

/// Sends a pack of pages to the host with the run directory.
struct PageStream<'a> {
    exchange: &'a Exchange,
    pack: u32,
}

impl Write for PageStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIECE)];
        let message = HostMessage::Pages(self.pack, piece.to_vec());
        self.exchange
            .tell_slowly(HEAD, &message)
            .map_err(io::Error::other)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
