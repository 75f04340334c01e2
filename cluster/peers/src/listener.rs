//! Taking connections of peers, and turning others away.
//!
//! Only who proves to have the run's key gets through; who connects and says nothing keeps nobody out.
//! Called by [`Mesh`](crate::Mesh) while the hosts of a run find each other.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::handshake::{Secured, answer};
use crate::key::RunKey;

/// Connections that may be without proof at a time: for another one the oldest is dropped,
/// so that those who connect and say nothing keep nobody out.
const MOST_UNPROVEN: usize = 64;
/// How often one looks whether anybody came.
const NAP: Duration = Duration::from_millis(5);

/// Where a host of a run can be reached by those with lower numbers.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens at a port that the host chooses, on all its addresses.
    ///
    /// # Errors
    /// When the host refuses.
    pub fn open() -> io::Result<Self> {
        let any = |address: SocketAddr| TcpListener::bind(address);
        let listener = any((Ipv6Addr::UNSPECIFIED, 0).into())
            // Hosts without IPv6.
            .or_else(|_| any(([0, 0, 0, 0], 0).into()))?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// The port.
    ///
    /// # Errors
    /// When the host does not tell.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.0.local_addr()?.port())
    }

    /// Sends connections of hosts that have the run's key to `proven`, until there are
    /// enough.
    pub(crate) fn take(
        self,
        key: &RunKey,
        own: u32,
        proven: &Sender<Secured>,
        enough: &AtomicBool,
    ) {
        let unproven = Unproven::default();
        for number in 0.. {
            if enough.load(Ordering::Relaxed) {
                return;
            }
            let Ok((stream, from)) = self.0.accept() else {
                thread::sleep(NAP);
                continue;
            };
            if let Err(why) = unproven.enter(number, &stream) {
                tracing::warn!("a connection from {from} is dropped: {why}");
                continue;
            }
            let (key, proven, unproven) = (key.clone(), proven.clone(), unproven.clone());
            thread::spawn(move || {
                let secured = prove(stream, from, &key, own);
                // One that was dropped meanwhile is of no use any more.
                let was_kept = unproven.leave(number);
                if let Some(secured) = secured.filter(|_| was_kept) {
                    // Nobody waits any more when all are there.
                    let _ = proven.send(secured);
                }
            });
        }
    }
}

/// Connections without proof, the oldest first, by their numbers.
#[derive(Clone, Default)]
struct Unproven(Arc<Mutex<VecDeque<(u64, TcpStream)>>>);

impl Unproven {
    /// Takes in a connection, in place of the oldest if there are too many.
    fn enter(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let mut waiting = self.lock();
        if waiting.len() >= MOST_UNPROVEN
            && let Some((_, oldest)) = waiting.pop_front()
        {
            tracing::warn!("too many connections at once say nothing; the oldest is dropped");
            // Its thread finds it closed.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        waiting.push_back((number, stream));
        Ok(())
    }

    /// Takes a connection out; whether it was still in.
    fn leave(&self, number: u64) -> bool {
        let mut waiting = self.lock();
        let before = waiting.len();
        waiting.retain(|(other, _)| *other != number);
        waiting.len() < before
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, TcpStream)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection, if a host that has the run's key is at its other end.
fn prove(stream: TcpStream, from: SocketAddr, key: &RunKey, own: u32) -> Option<Secured> {
    let answered = stream
        .set_nonblocking(false)
        .map_err(Into::into)
        .and_then(|()| answer(stream, key, own));
    answered
        .inspect_err(|why| tracing::warn!("a connection from {from} is dropped: {why}"))
        .ok()
}
