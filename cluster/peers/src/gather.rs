//! Connects a host to all others of its run, at its start.
//!
//! A host dials the hosts with higher numbers and accepts the others, all at once and within a time limit. Called by [`Mesh`](crate::Mesh).
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
use crate::listener::Listener;
use crate::peer::Settings;

/// Time limit of a connection attempt.
const ANSWERING: Duration = Duration::from_secs(5);
/// Time between connection attempts.
const REDIAL: Duration = Duration::from_millis(50);

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

/// The connections to all others.
pub(crate) fn gather(
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
