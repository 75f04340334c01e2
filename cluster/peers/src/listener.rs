//! Taking connections of peers, and turning others away.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use crate::handshake::{Secured, answer};
use crate::key::RunKey;

/// Connections that may be without proof at a time; more are dropped.
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
        let unproven = Arc::new(AtomicUsize::new(0));
        while !enough.load(Ordering::Relaxed) {
            let Ok((stream, from)) = self.0.accept() else {
                thread::sleep(NAP);
                continue;
            };
            if unproven.load(Ordering::Relaxed) >= MOST_UNPROVEN {
                tracing::warn!("too many connections at once; that of {from} is dropped");
                continue;
            }
            unproven.fetch_add(1, Ordering::Relaxed);
            let guest = Guest(unproven.clone());
            let (key, proven) = (key.clone(), proven.clone());
            thread::spawn(move || {
                prove(stream, from, &key, own, &proven);
                drop(guest);
            });
        }
    }
}

/// A connection that is counted as long as it is without proof.
struct Guest(Arc<AtomicUsize>);

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn prove(stream: TcpStream, from: SocketAddr, key: &RunKey, own: u32, proven: &Sender<Secured>) {
    let answered = stream
        .set_nonblocking(false)
        .map_err(Into::into)
        .and_then(|()| answer(stream, key, own));
    match answered {
        // Nobody waits any more when all are there.
        Ok(secured) => drop(proven.send(secured)),
        Err(why) => tracing::warn!("a connection from {from} is dropped: {why}"),
    }
}
