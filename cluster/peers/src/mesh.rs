//! All connections of one host of a run.
//!
//! The owner's thread writes messages to the sockets and reads them, so that a message wakes no thread but the one that waits for it. A second thread, the
//! [`keeper`](crate::keeper), does what cannot wait for the owner: signs of life, messages that a socket did not take at once, and reading while the owner computes.
//!
//! Host time limits the waiting for others, and affects nothing else.
#![allow(clippy::disallowed_methods)]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::gather::{PeerError, gather};
use crate::keeper::{Keeper, Links};
use crate::key::RunKey;
use crate::link::PeerLink;
use crate::listener::Listener;
use crate::peer::{Incoming, Settings};
use crate::record::LONGEST_MESSAGE;

/// Bytes in the queue of one peer at which the mesh counts as congested.
const CONGESTED: usize = 64 << 20;
/// Time after a look at the sockets in which [`Mesh::receive`] without patience does not look again: a look takes a system call for each peer, and rounds
/// take microseconds.
const LOOK_EVERY: Duration = Duration::from_micros(5);
/// Time of a wait that looks at the sockets again and again before it sleeps.
const SPIN: Duration = Duration::from_micros(20);
/// Waits that end within this time count as short.
const SHORT: Duration = Duration::from_micros(40);
/// Short waits, less the long ones, from which on a wait begins awake.
const SPINS_PAY: u32 = 4;
/// Maximum of that number.
const MOST_CREDIT: u32 = 8;

/// A message over the limit of peers; no part of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} bytes exceed the limit of {LONGEST_MESSAGE} for a message between hosts; please report it"
)]
pub struct TooLong(pub usize);

/// One host's connections to all others of a run.
#[derive(Debug)]
pub struct Mesh {
    links: Arc<Links>,
    keeper: Keeper,
    /// Index of the link that the next look begins with.
    turn: Cell<usize>,
    looked: Cell<Instant>,
    /// Short waits, less the long ones.
    credit: Cell<u32>,
}

impl Mesh {
    /// Connects host `own` to all others: it dials hosts with higher numbers at
    /// `addresses` (`host:port`, by number), and accepts the others at `listener`.
    ///
    /// # Errors
    /// See [`PeerError`].
    pub fn connect(
        own: u32,
        key: &RunKey,
        listener: Option<Listener>,
        addresses: &[String],
        settings: Settings,
        cancelled: &AtomicBool,
    ) -> Result<Self, PeerError> {
        let mut secured = gather(own, key, listener, addresses, settings, cancelled)?;
        secured.sort_by_key(|secured| secured.peer);
        let links = secured.into_iter().map(PeerLink::new);
        let links = Arc::new(Links::new(links.collect::<Result<_, _>>()?));
        Ok(Self {
            keeper: Keeper::start(&links, settings.patience)?,
            links,
            turn: Cell::new(0),
            looked: Cell::new(Instant::now()),
            credit: Cell::new(0),
        })
    }

    /// The peers' numbers, in order.
    pub fn peers(&self) -> impl Iterator<Item = u32> {
        self.links.all.iter().map(PeerLink::peer)
    }

    /// Sends `message` to `peer` without waiting. A message to a lost peer is dropped;
    /// [`receive`](Self::receive) reports the loss.
    ///
    /// # Errors
    /// [`TooLong`] for more than 256 MiB.
    pub fn send(&self, peer: u32, message: Vec<u8>) -> Result<(), TooLong> {
        if message.len() > LONGEST_MESSAGE {
            return Err(TooLong(message.len()));
        }
        if let Some(link) = self.links.all.iter().find(|link| link.peer() == peer)
            && !link.send(message)
        {
            self.keeper.wake();
        }
        Ok(())
    }

    /// True if a queue is so long that the caller should pause.
    pub fn is_congested(&self) -> bool {
        self.links.all.iter().any(|link| link.unsent() > CONGESTED)
    }

    /// The next event of any peer, if one comes within `patience`. Messages of a peer come in their order.
    pub fn receive(&self, patience: Duration) -> Option<(u32, Incoming)> {
        let begin = Instant::now();
        if patience.is_zero() && begin.duration_since(self.looked.get()) < LOOK_EVERY {
            return self.links.has_ready().then(|| self.look()).flatten();
        }
        self.looked.set(begin);
        self.links.note_look();
        let found = self.look();
        if found.is_some() || patience.is_zero() {
            return found;
        }
        let found = self.await_any(begin, patience);
        self.looked.set(Instant::now());
        self.links.note_look();
        found
    }

    /// Time since the last data of each peer.
    pub fn silences(&self) -> impl Iterator<Item = (u32, Duration)> {
        let links = self.links.all.iter();
        links.map(|link| (link.peer(), link.silence()))
    }

    /// An event that is there, of each peer in turn.
    fn look(&self) -> Option<(u32, Incoming)> {
        let links = &self.links.all;
        let first = self.turn.get();
        (0..links.len()).find_map(|offset| {
            let place = (first + offset) % links.len();
            let incoming = links[place].receive(&self.links)?;
            self.turn.set((place + 1) % links.len());
            Some((links[place].peer(), incoming))
        })
    }

    /// Waits for an event: awake, if waits have been short, then asleep.
    fn await_any(&self, begin: Instant, patience: Duration) -> Option<(u32, Incoming)> {
        let credit = self.credit.get();
        let mut found = None;
        while credit >= SPINS_PAY && found.is_none() && begin.elapsed() < SPIN.min(patience) {
            found = self.look();
        }
        while found.is_none() {
            let left = patience.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            self.links.wait(left, |link| match link.is_over() {
                true => PollFlags::empty(),
                false => PollFlags::IN,
            });
            found = self.look();
        }
        self.credit.set(match begin.elapsed() < SHORT {
            true => (credit + 1).min(MOST_CREDIT),
            false => credit.saturating_sub(1),
        });
        found
    }
}
