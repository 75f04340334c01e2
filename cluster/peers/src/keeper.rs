//! The thread that keeps connections alive while their owner computes.
//!
//! It sends signs of life, writes messages that a socket did not take at once, reads while the owner does not, and gives up peers that are silent for too long.
//! Two hosts that send to each other thus never deadlock, and a host that computes for long does not count as silent. At the end it closes all connections.
//!
//! Host time decides when a peer is given up, and affects nothing else.
#![allow(clippy::disallowed_methods)]

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use crate::link::PeerLink;

/// Longest sleep of the keeper.
const TICK: Duration = Duration::from_millis(20);
/// Time without a look of the owner at the sockets after which the keeper reads.
const OWNER_IS_BUSY: Duration = Duration::from_millis(10);
/// Minimum number of signs of life within the patience.
const BREATHS: u32 = 8;
/// Longest interval of signs of life.
const BREATH: Duration = Duration::from_secs(1);

/// The connections to all peers, and the state that the owner and the keeper share.
#[derive(Debug)]
pub(crate) struct Links {
    /// The connections, by number of the peer.
    pub(crate) all: Vec<PeerLink>,
    began: Instant,
    /// Time of the owner's last look at the sockets, in microseconds since the start.
    looked: AtomicU64,
    /// Events that were read but not received.
    pub(crate) ready: AtomicUsize,
}

impl Links {
    /// Shares these connections.
    pub(crate) fn new(all: Vec<PeerLink>) -> Self {
        Self {
            all,
            began: Instant::now(),
            looked: AtomicU64::new(0),
            ready: AtomicUsize::new(0),
        }
    }

    /// Notes that the owner looks at the sockets.
    pub(crate) fn note_look(&self) {
        let now = self.began.elapsed().as_micros() as u64;
        self.looked.store(now, Ordering::Relaxed);
    }

    /// True if an event was read but not received.
    pub(crate) fn has_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) > 0
    }

    fn is_owner_busy(&self) -> bool {
        let looked = Duration::from_micros(self.looked.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(looked) >= OWNER_IS_BUSY
    }

    /// Waits until a socket has one of its connection's `flags`, for `limit` at most.
    pub(crate) fn wait(&self, limit: Duration, flags: impl Fn(&PeerLink) -> PollFlags) {
        let wanted = self.all.iter().map(|link| (link, flags(link)));
        let mut sockets: Vec<PollFd<'_>> = wanted
            .filter(|(_, flags)| !flags.is_empty())
            .map(|(link, flags)| PollFd::from_borrowed_fd(link.stream().as_fd(), flags))
            .collect();
        let limit = limit.try_into().ok();
        // An interrupted wait is a short one.
        let _ = poll(&mut sockets, limit.as_ref());
    }
}

/// The keeper's thread; it ends, and the connections are closed, when this is dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    links: Arc<Links>,
    patience: Duration,
    quit: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread, which gives up a peer after silence for `patience`.
    ///
    /// # Errors
    /// If the host refuses the thread.
    pub(crate) fn start(links: &Arc<Links>, patience: Duration) -> io::Result<Self> {
        let quit = Arc::new(AtomicBool::new(false));
        let thread = thread::Builder::new().name("peers".to_owned()).spawn({
            let (links, quit) = (links.clone(), quit.clone());
            move || keep(&links, patience, &quit)
        })?;
        Ok(Self {
            links: links.clone(),
            patience,
            quit,
            thread: Some(thread),
        })
    }

    /// Wakes the thread for messages that a socket did not take.
    pub(crate) fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

fn keep(links: &Links, patience: Duration, quit: &AtomicBool) {
    let breath = BREATH.min(patience / BREATHS);
    while !quit.load(Ordering::Acquire) {
        let is_busy = links.is_owner_busy();
        let mut is_full = false;
        for link in &links.all {
            link.write_queue();
            is_full |= link.unsent() > 0;
            link.breathe(breath);
            if is_busy || link.silence() >= patience {
                link.read_ahead(links);
            }
            link.judge(patience, links);
        }
        match is_full {
            true => links.wait(TICK, |link| match link.unsent() > 0 {
                true => PollFlags::OUT,
                false => PollFlags::empty(),
            }),
            false => thread::park_timeout(TICK),
        }
    }
}

/// Writes the queues, then ends the connections. Until a peer has read its queue to the end, its data is read and discarded, for the patience at most. A
/// connection that is closed with unread data is reset (RFC 1122, 4.2.2.13), and the peer would lose data that it has not read.
impl Drop for Keeper {
    fn drop(&mut self) {
        self.quit.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        loop {
            let links = self.links.all.iter();
            // Each link is served, so no evaluation may stop at the first that is open.
            let open = links.filter(|link| !link.close(self.patience)).count();
            if open == 0 {
                return;
            }
            self.links.wait(TICK, PeerLink::wanted_at_end);
        }
    }
}
