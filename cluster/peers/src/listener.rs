//! Accepts connections of peers, and rejects others.
//!
//! Only holders of the run's key are accepted. Silent connections cannot block others. Called by
//! [`Mesh`](crate::Mesh) while the hosts of a run connect.

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

/// Maximum number of connections without proof. A further one replaces the oldest, so that silent
/// connections cannot block others.
const MOST_UNPROVEN: usize = 64;
/// Interval of checks for new connections.
const NAP: Duration = Duration::from_millis(5);

/// The listening socket for hosts with lower numbers.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens on a free port of all addresses.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn open() -> io::Result<Self> {
        let any = |address: SocketAddr| TcpListener::bind(address);
        let listener = any((Ipv6Addr::UNSPECIFIED, 0).into())
            // The fallback for hosts without IPv6.
            .or_else(|_| any(([0, 0, 0, 0], 0).into()))?;
        listener.set_nonblocking(true)?;
        Ok(Self(listener))
    }

    /// The port.
    ///
    /// # Errors
    /// If the host does not report it.
    pub fn port(&self) -> io::Result<u16> {
        Ok(self.0.local_addr()?.port())
    }

    /// Sends authenticated connections to `proven`, until their number suffices.
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
                // A connection that was dropped meanwhile is unusable.
                let was_kept = unproven.leave(number);
                if let Some(secured) = secured.filter(|_| was_kept) {
                    // The receiver is gone once all peers are connected.
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
    /// Adds a connection, and drops the oldest if there are too many.
    fn enter(&self, number: u64, stream: &TcpStream) -> io::Result<()> {
        let stream = stream.try_clone()?;
        let mut waiting = self.lock();
        if waiting.len() >= MOST_UNPROVEN
            && let Some((_, oldest)) = waiting.pop_front()
        {
            tracing::warn!("too many silent connections; the oldest is dropped");
            // Its thread finds it closed.
            let _ = oldest.shutdown(Shutdown::Both);
        }
        waiting.push_back((number, stream));
        Ok(())
    }

    /// Removes a connection; returns true if it was still there.
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

/// The connection, if its peer has the run's key.
fn prove(stream: TcpStream, from: SocketAddr, key: &RunKey, own: u32) -> Option<Secured> {
    let answered = stream
        .set_nonblocking(false)
        .map_err(Into::into)
        .and_then(|()| answer(stream, key, own));
    answered
        .inspect_err(|why| tracing::warn!("a connection from {from} is dropped: {why}"))
        .ok()
}
