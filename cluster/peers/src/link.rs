//! The connection to one peer: a socket that never blocks, and queues in both directions.
//!
//! Sending never waits: what the socket does not take stays in a queue. Reading ahead of the owner continues until the unread data reaches a limit. Then the peer's
//! queue grows, and its [`Mesh`](crate::Mesh) reports that. The owner of the mesh and the [`keeper`](crate::keeper) call all functions, each from its thread.
//!
//! A peer is given up if it is silent, never because it reads slowly: it may be busy, and its messages wait.
//!
//! Host time decides when a peer is given up, and affects nothing else.
#![allow(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use snow::StatelessTransportState;

use crate::handshake::Secured;
use crate::keeper::Links;
use crate::peer::{Incoming, Lost};
use crate::record::{Opener, PeerRecord, Sealer};

/// Unread bytes at which reading ahead stops.
const MOST_UNTAKEN: usize = 64 << 20;
/// Bytes of queued messages up to which the sender writes them itself; the keeper encrypts longer ones.
const DIRECT: usize = 64 << 10;
/// Encrypted bytes that wait for the socket, at which no more messages are encrypted.
const MOST_SEALED: usize = 256 << 10;

/// The connection to one peer.
#[derive(Debug)]
pub(crate) struct PeerLink {
    peer: u32,
    stream: TcpStream,
    state: StatelessTransportState,
    began: Instant,
    /// Messages that are not encrypted yet.
    queue: Mutex<VecDeque<Vec<u8>>>,
    outgoing: Mutex<Outgoing>,
    incoming: Mutex<IncomingQueue>,
    /// Bytes of messages that are not written yet.
    unsent: AtomicUsize,
    /// Time of the last data read, in milliseconds since the start.
    heard: AtomicU64,
    /// True if no more data can be written.
    broken: AtomicBool,
    /// True after the last event of the peer.
    over: AtomicBool,
}

/// The writing side.
#[derive(Debug)]
struct Outgoing {
    sealer: Sealer,
    /// True if a sign of life is due.
    alive: bool,
    /// Time of the last write.
    written: Instant,
    /// Time of the end of writing.
    closed: Option<Instant>,
}

/// The reading side.
#[derive(Debug)]
struct IncomingQueue {
    opener: Opener,
    /// Events that the owner has not received.
    ready: VecDeque<Incoming>,
    /// Bytes of these events.
    untaken: usize,
}

impl PeerLink {
    /// Takes over an authenticated connection.
    ///
    /// # Errors
    /// If the host refuses the socket's mode.
    pub(crate) fn new(secured: Secured) -> io::Result<Self> {
        let Secured {
            stream,
            state,
            peer,
        } = secured;
        stream.set_nonblocking(true)?;
        Ok(Self {
            peer,
            stream,
            state,
            began: Instant::now(),
            queue: Mutex::default(),
            outgoing: Mutex::new(Outgoing {
                sealer: Sealer::default(),
                alive: false,
                written: Instant::now(),
                closed: None,
            }),
            incoming: Mutex::new(IncomingQueue {
                opener: Opener::default(),
                ready: VecDeque::new(),
                untaken: 0,
            }),
            unsent: AtomicUsize::new(0),
            heard: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            over: AtomicBool::new(false),
        })
    }

    /// The peer's number.
    pub(crate) fn peer(&self) -> u32 {
        self.peer
    }

    /// The socket.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// True after the last event of the peer.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Bytes of messages that are not written yet; zero if no more data can be written.
    pub(crate) fn unsent(&self) -> usize {
        match self.broken.load(Ordering::Relaxed) {
            true => 0,
            false => self.unsent.load(Ordering::Acquire),
        }
    }

    /// Time since the last data.
    pub(crate) fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(heard)
    }

    fn hear(&self) {
        let heard = self.began.elapsed().as_millis() as u64;
        self.heard.store(heard, Ordering::Relaxed);
    }

    /// Sends `message`. Returns false if the keeper has to continue.
    pub(crate) fn send(&self, message: Vec<u8>) -> bool {
        if self.broken.load(Ordering::Relaxed) {
            return true;
        }
        let owed = owed(&message);
        let unsent = self.unsent.fetch_add(owed, Ordering::AcqRel) + owed;
        lock(&self.queue).push_back(message);
        if unsent > DIRECT {
            return false;
        }
        // The keeper has the lock while it writes a longer queue.
        let Ok(mut outgoing) = self.outgoing.try_lock() else {
            return false;
        };
        self.write(&mut outgoing);
        self.unsent() == 0
    }

    /// Writes as much of the queue as the socket takes.
    pub(crate) fn write_queue(&self) {
        if self.unsent() > 0 {
            self.write(&mut lock(&self.outgoing));
        }
    }

    /// Sends a sign of life if nothing was written for `interval`.
    pub(crate) fn breathe(&self, interval: Duration) {
        let mut outgoing = lock(&self.outgoing);
        let is_due = outgoing.written.elapsed() >= interval;
        if is_due && outgoing.sealer.sealed() == 0 && !self.broken.load(Ordering::Relaxed) {
            self.unsent.fetch_add(1, Ordering::AcqRel);
            outgoing.alive = true;
            self.write(&mut outgoing);
        }
    }

    fn write(&self, outgoing: &mut Outgoing) {
        let written = self.write_until_full(outgoing);
        if let Err(error) = written {
            // What the peer sent before it closed the connection can still be read, and so can the reason.
            tracing::debug!("cannot write to host {}: {error}", self.peer);
            self.broken.store(true, Ordering::Relaxed);
            lock(&self.queue).clear();
        }
    }

    fn write_until_full(&self, outgoing: &mut Outgoing) -> io::Result<()> {
        if std::mem::take(&mut outgoing.alive) {
            outgoing.sealer.alive(&self.state, 1)?;
        }
        loop {
            while outgoing.sealer.sealed() < MOST_SEALED {
                let Some(message) = lock(&self.queue).pop_front() else {
                    break;
                };
                let owed = owed(&message);
                outgoing.sealer.message(&self.state, &message, owed)?;
            }
            if outgoing.sealer.sealed() == 0 {
                return Ok(());
            }
            match rustix::io::write(&self.stream, outgoing.sealer.bytes()) {
                Ok(count) => {
                    outgoing.written = Instant::now();
                    let paid = outgoing.sealer.written(count);
                    self.unsent.fetch_sub(paid, Ordering::AcqRel);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The peer's next event, if it is there.
    pub(crate) fn receive(&self, links: &Links) -> Option<Incoming> {
        let mut incoming = lock(&self.incoming);
        if incoming.ready.is_empty() {
            self.read(&mut incoming, links, 1);
        }
        let event = incoming.ready.pop_front()?;
        links.ready.fetch_sub(1, Ordering::AcqRel);
        if let Incoming::Message(message) = &event {
            incoming.untaken -= message.len();
        }
        Some(event)
    }

    /// Reads all that is there, up to the limit of unread data.
    pub(crate) fn read_ahead(&self, links: &Links) {
        let mut incoming = lock(&self.incoming);
        if incoming.untaken > MOST_UNTAKEN {
            // This host is the cause of the silence, not the peer.
            self.hear();
            return;
        }
        self.read(&mut incoming, links, usize::MAX);
    }

    /// Gives the peer up if it is silent for too long.
    pub(crate) fn judge(&self, patience: Duration, links: &Links) {
        if self.silence() >= patience && !self.is_over() {
            let mut incoming = lock(&self.incoming);
            self.end(&mut incoming, links, Lost::Silent);
        }
    }

    /// Reads until there are `wanted` events, the socket is empty, or the limit of unread data is reached.
    fn read(&self, incoming: &mut IncomingQueue, links: &Links, wanted: usize) {
        while !self.is_over() && incoming.untaken <= MOST_UNTAKEN {
            match incoming.opener.next(&self.state) {
                Ok(Some(PeerRecord::Alive)) => {}
                Ok(Some(PeerRecord::Message(message))) => {
                    incoming.untaken += message.len();
                    incoming.ready.push_back(Incoming::Message(message));
                    links.ready.fetch_add(1, Ordering::AcqRel);
                }
                Ok(None) if incoming.ready.len() >= wanted => return,
                Ok(None) => match incoming.opener.fill(&self.stream) {
                    Ok(()) => self.hear(),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                    Err(error) => return self.end(incoming, links, Lost::of(&error)),
                },
                Err(error) => return self.end(incoming, links, Lost::of(&error)),
            }
        }
    }

    /// Adds the peer's last event.
    fn end(&self, incoming: &mut IncomingQueue, links: &Links, why: Lost) {
        if why == Lost::Closed {
            // The peer, which has finished sending, learns that all of its data was read.
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        self.broken.store(true, Ordering::Relaxed);
        self.over.store(true, Ordering::Release);
        incoming.ready.push_back(Incoming::Lost(why));
        links.ready.fetch_add(1, Ordering::AcqRel);
    }

    /// Continues to close the connection: writes the rest of the queue, then reads and discards until the peer has read all of it. Returns true if there is nothing
    /// more to do.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        let mut outgoing = lock(&self.outgoing);
        self.write(&mut outgoing);
        let is_written = self.unsent() == 0;
        if is_written && outgoing.closed.is_none() {
            outgoing.closed = Some(Instant::now());
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        let is_read = self.is_over()
            || lock(&self.incoming)
                .opener
                .discard(&self.stream, || self.hear());
        if is_read {
            // A socket at its end always has something to read, and would end every wait.
            self.over.store(true, Ordering::Release);
        }
        let limit = outgoing
            .closed
            .map_or(self.silence(), |closed| closed.elapsed());
        is_read || limit >= patience
    }

    /// Events of the socket that continue the closing.
    pub(crate) fn wanted_at_end(&self) -> PollFlags {
        match self.unsent() > 0 {
            _ if self.is_over() => PollFlags::empty(),
            true => PollFlags::IN | PollFlags::OUT,
            false => PollFlags::IN,
        }
    }
}

/// Unsent bytes of a message; an empty one counts, too.
fn owed(message: &[u8]) -> usize {
    message.len() + 1
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
