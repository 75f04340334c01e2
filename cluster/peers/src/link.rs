//! The threads that serve the connection to one peer.
//!
//! Sending never waits: a writer thread takes messages from a queue. Receiving continues until the unread data reaches a limit.
//! Then the peer's writer stops, and the peer's [`Mesh`](crate::Mesh) reports its growing queue. So two hosts that send to each
//! other never deadlock, as long as both keep receiving.
//!
//! A peer is given up if it is silent, never because it reads slowly: it may be busy, and its messages wait.
//!
//! Host time decides when a peer is given up, and affects nothing else.
#![allow(clippy::disallowed_methods)]

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use snow::StatelessTransportState;

use crate::handshake::Secured;
use crate::peer::{Incoming, Lost, Settings};
use crate::record::{Opener, PeerRecord, Sealer};

/// Unread bytes at which reading stops.
const MOST_UNTAKEN: usize = 64 << 20;
/// Sleep of a reader at that limit.
const NAP: Duration = Duration::from_millis(1);
/// Minimum number of signs of life within the patience.
const BREATHS: u32 = 8;
/// Longest interval of signs of life.
const BREATH: Duration = Duration::from_secs(1);
/// Bytes that are combined into one system call.
const BUFFER: usize = 128 << 10;

/// State shared by both threads and the mesh.
#[derive(Debug)]
struct PeerState {
    began: Instant,
    /// Time of silence after which the peer is given up.
    patience: Duration,
    /// Time of the last data, read or waiting to be read, in milliseconds since the start.
    heard: AtomicU64,
    /// Bytes in the write queue.
    unsent: AtomicUsize,
    /// Bytes read but not yet received by the mesh's owner.
    untaken: AtomicUsize,
    /// True if no more data can be written.
    broken: AtomicBool,
    /// True if the connection is no longer needed.
    over: AtomicBool,
}

impl PeerState {
    fn hear(&self) {
        let heard = self.began.elapsed().as_millis() as u64;
        self.heard.store(heard, Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(heard)
    }
}

/// The connection to one peer.
#[derive(Debug)]
pub(crate) struct PeerLink {
    queue: Option<Sender<Vec<u8>>>,
    shared: Arc<PeerState>,
    stream: TcpStream,
    threads: Vec<JoinHandle<()>>,
}

impl PeerLink {
    /// Starts the threads; received messages go into `inbox`.
    pub(crate) fn start(
        secured: Secured,
        settings: Settings,
        inbox: Sender<(u32, Incoming)>,
    ) -> io::Result<Self> {
        let Secured {
            stream,
            state,
            peer,
        } = secured;
        stream.set_read_timeout(Some(settings.patience))?;
        stream.set_write_timeout(Some(settings.patience))?;
        let shared = Arc::new(PeerState {
            began: Instant::now(),
            patience: settings.patience,
            heard: AtomicU64::new(0),
            unsent: AtomicUsize::new(0),
            untaken: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        let state = Arc::new(state);
        let (queue, messages) = channel();
        let patient = Patient {
            stream: stream.try_clone()?,
            shared: shared.clone(),
        };
        let writer = LinkWriter {
            sealer: Sealer::new(BufWriter::with_capacity(BUFFER, patient)),
            state: state.clone(),
            shared: shared.clone(),
            breath: BREATH.min(settings.patience / BREATHS),
        };
        let reader = LinkReader {
            opener: Opener::new(BufReader::with_capacity(BUFFER, stream.try_clone()?)),
            state,
            shared: shared.clone(),
            inbox: inbox.clone(),
            peer,
        };
        let writing = thread::Builder::new().name(format!("to-{peer}")).spawn({
            let shared = shared.clone();
            move || {
                if let Err(error) = writer.work(&messages) {
                    shared.broken.store(true, Ordering::Relaxed);
                    let _ = inbox.send((peer, Incoming::Lost(Lost::of(&error))));
                }
            }
        })?;
        let reading = thread::Builder::new().name(format!("from-{peer}")).spawn({
            let half = stream.try_clone()?;
            move || {
                if reader.work() == Lost::Closed {
                    // The peer, which has finished sending, learns that all of its data was read.
                    let _ = half.shutdown(Shutdown::Write);
                }
            }
        })?;
        Ok(Self {
            queue: Some(queue),
            shared,
            stream,
            threads: vec![writing, reading],
        })
    }

    /// Queues `message` for writing. The reader reports a lost peer.
    pub(crate) fn send(&self, message: Vec<u8>) {
        let length = message.len();
        self.shared.unsent.fetch_add(length, Ordering::Relaxed);
        let sent = self.queue.as_ref().map(|queue| queue.send(message));
        if !matches!(sent, Some(Ok(()))) {
            self.shared.unsent.fetch_sub(length, Ordering::Relaxed);
        }
    }

    /// Bytes in the write queue; zero if no more data can be written.
    pub(crate) fn unsent(&self) -> usize {
        if self.shared.broken.load(Ordering::Relaxed) {
            return 0;
        }
        self.shared.unsent.load(Ordering::Relaxed)
    }

    /// Counts a received message of this length.
    pub(crate) fn taken(&self, length: usize) {
        self.shared.untaken.fetch_sub(length, Ordering::Relaxed);
    }

    /// Time since the last data.
    pub(crate) fn silence(&self) -> Duration {
        self.shared.silence()
    }
}

/// Writes the queue, then ends the connection. Until the peer has read it to its end, the peer's data is read and discarded, for
/// the patience at most. A connection that is closed with unread data is reset (RFC 1122, 4.2.2.13), and the peer would lose data
/// that it has not read.
impl Drop for PeerLink {
    fn drop(&mut self) {
        drop(self.queue.take());
        let mut threads = self.threads.drain(..);
        // The writer ends after its queue is empty, or the peer is silent too long.
        if let Some(writer) = threads.next() {
            let _ = writer.join();
        }
        self.shared.over.store(true, Ordering::Relaxed);
        let _ = self.stream.shutdown(Shutdown::Write);
        let written = Instant::now();
        for reader in threads {
            while !reader.is_finished() && written.elapsed() < self.shared.patience {
                thread::sleep(NAP);
            }
            let _ = self.stream.shutdown(Shutdown::Both);
            let _ = reader.join();
        }
    }
}

/// The stream to a peer, which may block as long as the peer sends signs of life.
struct Patient {
    stream: TcpStream,
    shared: Arc<PeerState>,
}

impl Write for Patient {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let written = self.stream.write(bytes);
            let is_full = written.as_ref().is_err_and(|error| {
                let kind = error.kind();
                matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
            });
            if !is_full || self.shared.silence() >= self.shared.patience {
                return written;
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

struct LinkWriter<W: Write> {
    sealer: Sealer<W>,
    state: Arc<StatelessTransportState>,
    shared: Arc<PeerState>,
    breath: Duration,
}

impl<W: Write> LinkWriter<W> {
    fn work(mut self, messages: &Receiver<Vec<u8>>) -> io::Result<()> {
        loop {
            match messages.recv_timeout(self.breath) {
                Ok(message) => {
                    self.write(&message)?;
                    for message in messages.try_iter() {
                        self.write(&message)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.sealer.alive(&self.state)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.sealer.flush()?;
        }
    }

    fn write(&mut self, message: &[u8]) -> io::Result<()> {
        self.sealer.message(&self.state, message)?;
        self.shared
            .unsent
            .fetch_sub(message.len(), Ordering::Relaxed);
        Ok(())
    }
}

struct LinkReader<R: Read> {
    opener: Opener<R>,
    state: Arc<StatelessTransportState>,
    shared: Arc<PeerState>,
    inbox: Sender<(u32, Incoming)>,
    peer: u32,
}

impl<R: Read> LinkReader<R> {
    /// Reads until the peer is lost, and gives the reason.
    fn work(mut self) -> Lost {
        loop {
            let incoming = match self.opener.next(&self.state) {
                Ok(PeerRecord::Alive) => None,
                Ok(PeerRecord::Message(message)) => {
                    let untaken = &self.shared.untaken;
                    untaken.fetch_add(message.len(), Ordering::Relaxed);
                    Some(Incoming::Message(message))
                }
                Err(error) => Some(Incoming::Lost(Lost::of(&error))),
            };
            self.shared.hear();
            let Some(incoming) = incoming else {
                continue;
            };
            let lost = match &incoming {
                Incoming::Lost(why) => Some(why.clone()),
                Incoming::Message(_) => None,
            };
            if !self.shared.over.load(Ordering::Relaxed) {
                // Without a receiver the mesh is about to end, so data is discarded.
                let _ = self.inbox.send((self.peer, incoming));
            }
            if let Some(why) = lost {
                return why;
            }
            while self.shared.untaken.load(Ordering::Relaxed) > MOST_UNTAKEN {
                if self.shared.over.load(Ordering::Relaxed) {
                    break;
                }
                // While reading is stopped, this host is the cause of the silence, not the peer.
                self.shared.hear();
                thread::sleep(NAP);
            }
        }
    }
}
