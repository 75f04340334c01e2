//! The threads that serve the connection to one peer.
//!
//! Sending never waits: a writer thread takes messages from a queue. Receiving continues until
//! what nobody took yet has a size; then the peer's writer comes to a stop, and its queue
//! grows, which its [`Mesh`](crate::Mesh) tells. So two hosts that send to each other
//! never wait for each other in a circle, as long as both keep taking.
//!
//! Host time decides when a peer is given up; nothing else depends on it.
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
use crate::mesh::{Incoming, Lost, Settings};
use crate::record::{Opener, Record, Sealer};

/// Bytes read and not taken at which reading stops.
const MOST_UNTAKEN: usize = 64 << 20;
/// How long a reader sleeps then.
const NAP: Duration = Duration::from_millis(1);
/// How often one says that one is there, at least this many times within the patience.
const BREATHS: u32 = 8;
/// Longest time between two.
const BREATH: Duration = Duration::from_secs(1);
/// Bytes that are put together for one call to the host.
const BUFFER: usize = 128 << 10;

/// What both threads and the mesh look at.
#[derive(Debug)]
struct Shared {
    began: Instant,
    /// When something came last, in milliseconds since then.
    heard: AtomicU64,
    /// Bytes that wait to be written.
    unsent: AtomicUsize,
    /// Bytes that were read and that nobody took.
    untaken: AtomicUsize,
    /// Nobody wants the connection any more.
    over: AtomicBool,
}

/// The connection to one peer.
#[derive(Debug)]
pub(crate) struct Link {
    queue: Option<Sender<Vec<u8>>>,
    shared: Arc<Shared>,
    stream: TcpStream,
    threads: Vec<JoinHandle<()>>,
}

impl Link {
    /// Starts the threads; what comes goes into `inbox`.
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
        let shared = Arc::new(Shared {
            began: Instant::now(),
            heard: AtomicU64::new(0),
            unsent: AtomicUsize::new(0),
            untaken: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        });
        let state = Arc::new(state);
        let (queue, messages) = channel();
        let writer = Writer {
            sealer: Sealer::new(BufWriter::with_capacity(BUFFER, stream.try_clone()?)),
            state: state.clone(),
            shared: shared.clone(),
            breath: BREATH.min(settings.patience / BREATHS),
        };
        let reader = Reader {
            opener: Opener::new(BufReader::with_capacity(BUFFER, stream.try_clone()?)),
            state,
            shared: shared.clone(),
            inbox: inbox.clone(),
            peer,
        };
        let writing = thread::Builder::new().name(format!("to-{peer}")).spawn({
            move || {
                if let Err(error) = writer.work(&messages) {
                    let _ = inbox.send((peer, Incoming::Lost(Lost::of(&error))));
                }
            }
        })?;
        let reading = thread::Builder::new()
            .name(format!("from-{peer}"))
            .spawn(move || reader.work())?;
        Ok(Self {
            queue: Some(queue),
            shared,
            stream,
            threads: vec![writing, reading],
        })
    }

    /// Has `message` written. Should the peer be lost, its reader tells.
    pub(crate) fn send(&self, message: Vec<u8>) {
        let length = message.len();
        self.shared.unsent.fetch_add(length, Ordering::Relaxed);
        let sent = self.queue.as_ref().map(|queue| queue.send(message));
        if !matches!(sent, Some(Ok(()))) {
            self.shared.unsent.fetch_sub(length, Ordering::Relaxed);
        }
    }

    /// Bytes that wait to be written.
    pub(crate) fn unsent(&self) -> usize {
        self.shared.unsent.load(Ordering::Relaxed)
    }

    /// A message of this length was taken.
    pub(crate) fn taken(&self, length: usize) {
        self.shared.untaken.fetch_sub(length, Ordering::Relaxed);
    }

    /// For how long nothing came.
    pub(crate) fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.shared.heard.load(Ordering::Relaxed));
        self.shared.began.elapsed().saturating_sub(heard)
    }
}

/// Writes what is in the queue, then ends the connection.
impl Drop for Link {
    fn drop(&mut self) {
        drop(self.queue.take());
        self.shared.over.store(true, Ordering::Relaxed);
        let mut threads = self.threads.drain(..);
        // The writer ends when its queue is empty, or the peer takes nothing for long.
        if let Some(writer) = threads.next() {
            let _ = writer.join();
        }
        let _ = self.stream.shutdown(Shutdown::Both);
        for reader in threads {
            let _ = reader.join();
        }
    }
}

struct Writer<W: Write> {
    sealer: Sealer<W>,
    state: Arc<StatelessTransportState>,
    shared: Arc<Shared>,
    breath: Duration,
}

impl<W: Write> Writer<W> {
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

struct Reader<R: Read> {
    opener: Opener<R>,
    state: Arc<StatelessTransportState>,
    shared: Arc<Shared>,
    inbox: Sender<(u32, Incoming)>,
    peer: u32,
}

impl<R: Read> Reader<R> {
    fn work(mut self) {
        loop {
            let incoming = match self.opener.next(&self.state) {
                Ok(Record::Alive) => None,
                Ok(Record::Message(message)) => {
                    let untaken = &self.shared.untaken;
                    untaken.fetch_add(message.len(), Ordering::Relaxed);
                    Some(Incoming::Message(message))
                }
                Err(error) => Some(Incoming::Lost(Lost::of(&error))),
            };
            let heard = self.shared.began.elapsed().as_millis() as u64;
            self.shared.heard.store(heard, Ordering::Relaxed);
            let Some(incoming) = incoming else {
                continue;
            };
            let is_lost = matches!(incoming, Incoming::Lost(_));
            if self.inbox.send((self.peer, incoming)).is_err() || is_lost {
                return;
            }
            while self.shared.untaken.load(Ordering::Relaxed) > MOST_UNTAKEN {
                if self.shared.over.load(Ordering::Relaxed) {
                    return;
                }
                thread::sleep(NAP);
            }
        }
    }
}
