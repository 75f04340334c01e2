//! Checkpoints of a run on several hosts.
//!
//! All hosts bring their nodes to the time of a checkpoint and no further; when nobody does
//! anything before it any more, everything that was sent before is known everywhere, and every
//! host's network stands at the same point. Host 0 then says under which number the
//! checkpoint is kept, and continues at once; other hosts send it the states of their nodes. When it
//! has all of that, the checkpoint is made to last. It does not tell how many hosts there
//! were, but for the numbers of its packs.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belljar_sim::Time;

use super::checkpoint::{PageKeeper, due_behind, written};
use super::{Run, RunError};
use crate::hosts::{Exchange, HEAD, Kept, Message};
use crate::run::checkpoint::{
    CheckpointError, LONGEST, MOST_HOSTS, Record, RunRecord, Work, pack_of,
};
use crate::run::ending::Ending;
use crate::run::stopwatch::Stopwatch;

/// Bytes of pages, or of a node's part, in a message.
const PIECE: usize = 1 << 20;

/// A checkpoint of which other hosts' parts are awaited, where the run directory is.
pub(super) struct Pending {
    run: RunRecord,
    pack: std::fs::File,
    pages: u64,
    packs: BTreeMap<u32, u64>,
    /// Nodes' parts by node.
    parts: BTreeMap<u32, Vec<u8>>,
    /// Hosts that are not through, and the last of them all.
    awaited: u32,
    hosts: u32,
    failed: Option<String>,
    pause: Duration,
}

/// When checkpoints are due, and what was said of the one at hand.
#[derive(Default)]
pub(super) struct Cuts {
    /// Nobody goes beyond this without one; [`Time::MAX`] when there are to be none.
    pub(super) next: Time,
    /// What host 0 says of each: the number, and whether it must be whole; or that there is
    /// none.
    pub(super) orders: VecDeque<Option<(u32, bool)>>,
    pub(super) pending: Option<Pending>,
    /// What is kept of the pages of this host's nodes, where the run directory is not.
    pub(super) pages: Option<PageKeeper>,
}

impl Run {
    /// The time that nobody goes beyond for now.
    pub(super) fn cap(&self) -> Time {
        let cut = self.others.as_ref().map(|others| others.cuts.next);
        cut.map_or(self.closing.cap(), |cut| cut.min(self.closing.cap()))
    }

    /// Keeps a checkpoint, all nodes of all hosts having come to the time of one.
    pub(super) fn cut(&mut self, stop: &AtomicBool) -> Result<Option<Ending>, RunError> {
        let at = self.cap();
        self.advance_fabric(at, at)?;
        self.now = at;
        self.tell(true)?;
        // What ends the run before is known to all by now: then nobody needs another one.
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

    /// Begins a checkpoint where the run directory is, and has the others send their parts.
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
                    others.exchange.tell_all(&Message::Keep(None))?;
                }
            }
        }
        self.checkpointer = Some(checkpointer);
        Ok(None)
    }

    fn begin_cut(
        &mut self,
        checkpointer: &mut super::checkpoint::Checkpointer,
    ) -> Result<Pending, RunError> {
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
            .tell_all(&Message::Keep(Some((number, !whole))))?;
        Ok(Pending {
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

    /// Sends what is of the nodes here to the host with the run directory, when that says so.
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
                        let piece = Message::KeptNode(number, node, piece.to_vec());
                        others.exchange.tell_slowly(HEAD, &piece)?;
                    }
                }
            }
            Err(error) => kept.failed = Some(error.to_string()),
        }
        Ok(others.exchange.tell(HEAD, &Message::Kept(kept))?)
    }

    /// Takes in what another host says of a checkpoint.
    pub(super) fn take_part(&mut self, host: u32, message: Message) {
        let (Some(others), Some(checkpointer)) = (&mut self.others, &mut self.checkpointer) else {
            return;
        };
        let Some(pending) = &mut others.cuts.pending else {
            return;
        };
        match message {
            Message::Pages(pack, bytes) if pack == pack_of(pending.run.number, host) => {
                checkpointer.keeper.append(pack, bytes);
            }
            Message::KeptNode(number, node, part)
                if number == pending.run.number
                    && others.exchange.partition().host_of(node) == Some(host) =>
            {
                let whole = pending.parts.entry(node).or_default();
                if whole.len() + part.len() <= LONGEST {
                    whole.extend_from_slice(&part);
                } else {
                    let why = format!("what is of node {node} is too large to be kept");
                    pending.failed.get_or_insert(why);
                }
            }
            Message::Kept(kept) if kept.number == pending.run.number => {
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

impl Pending {
    /// Has it kept; why not, in words.
    fn make_last(mut self, checkpointer: &super::checkpoint::Checkpointer) -> Result<(), String> {
        if let Some(why) = self.failed {
            return Err(why);
        }
        self.run.packs = self
            .packs
            .iter()
            .map(|(&pack, &pages)| (pack, pages))
            .collect();
        let mut record = Record::new(&self.run).map_err(|error| error.to_string())?;
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
        let message = Message::Pages(self.pack, piece.to_vec());
        self.exchange
            .tell_slowly(HEAD, &message)
            .map_err(io::Error::other)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
