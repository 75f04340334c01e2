//! All connections of one host of a run.
//!
//! Host time limits the waiting for others, and affects nothing else.
#![allow(clippy::disallowed_methods)]

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::handshake::{HandshakeError, Secured, dial};
use crate::key::RunKey;
use crate::link::PeerLink;
use crate::listener::Listener;
use crate::peer::{Incoming, Settings};
use crate::record::LONGEST_MESSAGE;

/// Bytes in the queue of one peer at which the mesh counts as congested.
const CONGESTED: usize = 64 << 20;
/// Time limit of a connection attempt.
const ANSWERING: Duration = Duration::from_secs(5);
/// Time between connection attempts.
const REDIAL: Duration = Duration::from_millis(50);

/// A message over the limit of peers; no part of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0} bytes exceed the limit of {LONGEST_MESSAGE} for a message between hosts; please report it"
)]
pub struct TooLong(pub usize);

/// Reasons of missing peers.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// A peer cannot be reached.
    #[error(
        "cannot reach host {peer} at {address} within {patience:?}: {source}; see whether a firewall is between the hosts"
    )]
    Unreachable {
        /// Its index.
        peer: u32,
        /// Its address.
        address: String,
        /// Duration of the attempts.
        patience: Duration,
        /// The reason.
        source: HandshakeError,
    },
    /// Peers did not connect to this host.
    #[error("hosts {missing:?} did not connect within {patience:?}")]
    Missing {
        /// Their indexes.
        missing: Vec<u32>,
        /// Duration of the wait.
        patience: Duration,
    },
    /// The host refuses threads or options of connections.
    #[error("cannot serve the connections between hosts: {0}")]
    Io(#[from] io::Error),
    /// The user stopped it.
    #[error("interrupted")]
    Cancelled,
}

/// One host's connections to all others of a run.
#[derive(Debug)]
pub struct Mesh {
    links: Vec<Option<PeerLink>>,
    inbox: Receiver<(u32, Incoming)>,
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
        let (inbox_of_links, inbox) = channel();
        let mut links: Vec<Option<PeerLink>> = addresses.iter().map(|_| None).collect();
        for secured in gather(own, key, listener, addresses, settings, cancelled)? {
            let place = secured.peer as usize;
            links[place] = Some(PeerLink::start(secured, settings, inbox_of_links.clone())?);
        }
        Ok(Self { links, inbox })
    }

    /// The peers' numbers.
    pub fn peers(&self) -> impl Iterator<Item = u32> {
        let links = (0..).zip(&self.links);
        links.filter_map(|(peer, link)| link.as_ref().map(|_| peer))
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
        if let Some(Some(link)) = self.links.get(peer as usize) {
            link.send(message);
        }
        Ok(())
    }

    /// True if a queue is so long that the caller should pause.
    pub fn is_congested(&self) -> bool {
        let mut links = self.links.iter().flatten();
        links.any(|link| link.unsent() > CONGESTED)
    }

    /// The next event of any peer, if one comes within `patience`.
    pub fn receive(&self, patience: Duration) -> Option<(u32, Incoming)> {
        let (peer, incoming) = if patience.is_zero() {
            self.inbox.try_recv().ok()?
        } else {
            self.inbox.recv_timeout(patience).ok()?
        };
        if let (Some(Some(link)), Incoming::Message(message)) =
            (self.links.get(peer as usize), &incoming)
        {
            link.taken(message.len());
        }
        Some((peer, incoming))
    }

    /// Time since the last data of each peer.
    pub fn silences(&self) -> impl Iterator<Item = (u32, Duration)> {
        let links = (0..).zip(&self.links);
        links.filter_map(|(peer, link)| Some((peer, link.as_ref()?.silence())))
    }
}

/// The connections to all others.
fn gather(
    own: u32,
    key: &RunKey,
    listener: Option<Listener>,
    addresses: &[String],
    settings: Settings,
    cancelled: &AtomicBool,
) -> Result<Vec<Secured>, PeerError> {
    let until = Instant::now() + settings.gathering;
    let enough = AtomicBool::new(false);
    let enough = &enough;
    thread::scope(|scope| {
        let (proven, accepted) = channel();
        if let Some(listener) = listener.filter(|_| own > 0) {
            scope.spawn(move || listener.take(key, own, &proven, enough));
        }
        let dialled: Vec<_> = (0..)
            .zip(addresses)
            .skip(own as usize + 1)
            .map(|(peer, address)| {
                scope.spawn(move || {
                    let reach = || reach(own, key, peer, address, until, cancelled);
                    reach().map_err(|source| PeerError::Unreachable {
                        peer,
                        address: address.clone(),
                        patience: settings.gathering,
                        source,
                    })
                })
            })
            .collect();
        let lower = await_lower(own, &accepted, until, settings.gathering, cancelled);
        enough.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for thread in dialled {
            let dialled = thread.join();
            all.push(dialled.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(PeerError::Cancelled);
        }
        let mut all: Vec<Secured> = all.into_iter().collect::<Result<_, _>>()?;
        all.extend(lower?);
        Ok(all)
    })
}

/// Dials until the peer answers.
fn reach(
    own: u32,
    key: &RunKey,
    peer: u32,
    address: &str,
    until: Instant,
    cancelled: &AtomicBool,
) -> Result<Secured, HandshakeError> {
    loop {
        let stream = connect(address).map_err(HandshakeError::from);
        let secured = stream.and_then(|stream| dial(stream, key, own, peer));
        let may_come = matches!(secured, Err(HandshakeError::Io(_)));
        if !may_come || Instant::now() >= until || cancelled.load(Ordering::Relaxed) {
            return secured;
        }
        thread::sleep(REDIAL);
    }
}

/// Tries all addresses of `address` with a short time limit each, as a host without power
/// never answers.
fn connect(address: &str) -> io::Result<TcpStream> {
    let mut why = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, ANSWERING) {
            Ok(stream) => return Ok(stream),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// The connections from hosts with lower numbers, one for each.
fn await_lower(
    own: u32,
    accepted: &Receiver<Secured>,
    until: Instant,
    patience: Duration,
    cancelled: &AtomicBool,
) -> Result<Vec<Secured>, PeerError> {
    let mut lower: Vec<Secured> = Vec::new();
    while lower.len() < own as usize {
        match accepted.recv_timeout(REDIAL) {
            Ok(secured) if lower.iter().any(|one| one.peer == secured.peer) => {
                tracing::warn!("a second connection of host {} is dropped", secured.peer);
            }
            Ok(secured) => lower.push(secured),
            Err(RecvTimeoutError::Timeout) if cancelled.load(Ordering::Relaxed) => {
                return Err(PeerError::Cancelled);
            }
            Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
            Err(_) => {
                let is_there = |peer: &u32| lower.iter().any(|one| one.peer == *peer);
                return Err(PeerError::Missing {
                    missing: (0..own).filter(|peer| !is_there(peer)).collect(),
                    patience,
                });
            }
        }
    }
    Ok(lower)
}
