//! A writer on a separate thread, so that a run continues while its calls are encoded.
//!
//! Calls are passed in batches through a bounded queue, and a caller faster than the writer waits when it is full. The
//! bytes depend only on the calls and their order, as without a queue. An error is returned by the next call here. Used
//! by the run's recorder.

use std::mem;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use belljar_trace::{Event, Fact, GroupMembers, Making, StateError, TraceError};

use super::TraceWriter;

/// Most calls of a batch, and approximately most bytes.
const BATCH: usize = 1 << 10;
const BATCH_WEIGHT: usize = 1 << 20;

/// Most batches in the queue.
const WAITING: usize = 16;

/// An order to the writer.
enum Order {
    Write(Vec<Event>),
    /// Returns the writer's state.
    Save(SyncSender<Result<Vec<u8>, StateError>>),
}

/// Writes a trace on a separate thread.
#[derive(Debug)]
pub struct QueuedWriter {
    path: PathBuf,
    batch: Vec<Event>,
    weight: usize,
    /// Both are `None` once the writer has failed or was taken back.
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<Result<TraceWriter, TraceError>>>,
}

impl QueuedWriter {
    /// Moves a writer, of the file at `path`, to a separate thread.
    ///
    /// # Errors
    /// Returns [`TraceError::Io`] if no thread can be created.
    pub fn of(writer: TraceWriter, path: &Path) -> Result<Self, TraceError> {
        let (orders, received) = sync_channel(WAITING);
        let work = move || write(writer, &received);
        let thread = thread::Builder::new().name("trace writer".to_owned());
        let thread = thread.spawn(work);
        let thread = thread.map_err(|source| crate::failed("write", path, source))?;
        Ok(Self {
            path: path.to_owned(),
            batch: Vec::new(),
            weight: 0,
            orders: Some(orders),
            thread: Some(thread),
        })
    }

    /// Adds a call, as [`TraceWriter::push`] does; waits if the writer is far behind.
    ///
    /// # Errors
    /// Returns the error of this call or of earlier ones; the calls after them are lost.
    pub fn push(&mut self, event: Event) -> Result<(), TraceError> {
        self.weight += weight(&event);
        self.batch.push(event);
        if self.batch.len() >= BATCH || self.weight >= BATCH_WEIGHT {
            self.hand_over()?;
        }
        Ok(())
    }

    /// Returns its state with all added calls, as [`TraceWriter::save`] does. The file then contains all data that the
    /// state refers to.
    ///
    /// # Errors
    /// The same as for [`push`](Self::push), and an error if there is more of the state than can be read again.
    pub fn save(&mut self) -> Result<Vec<u8>, TraceError> {
        self.hand_over()?;
        let (answer, answered) = sync_channel(1);
        self.order(Order::Save(answer))?;
        match answered.recv() {
            Ok(saved) => saved.map_err(|error| TraceError::State {
                path: self.path.clone(),
                reason: error.to_string(),
            }),
            Err(_) => Err(self.failure()),
        }
    }

    /// Returns the writer with all added calls, to end the file.
    ///
    /// # Errors
    /// The same as for [`push`](Self::push).
    pub fn into_writer(mut self) -> Result<TraceWriter, TraceError> {
        self.hand_over()?;
        self.join()
    }

    fn hand_over(&mut self) -> Result<(), TraceError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        self.weight = 0;
        let batch = mem::take(&mut self.batch);
        self.order(Order::Write(batch))
    }

    fn order(&mut self, order: Order) -> Result<(), TraceError> {
        let taken = self.orders.as_ref().map(|orders| orders.send(order));
        match taken {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failure()),
        }
    }

    /// Returns the error that stopped the writer.
    fn failure(&mut self) -> TraceError {
        match self.join() {
            Err(error) => error,
            // Without an error, the thread only ends when the queue is closed.
            Ok(_) => self.lost(),
        }
    }

    fn lost(&self) -> TraceError {
        TraceError::State {
            path: self.path.clone(),
            reason: "its writer has failed before".to_owned(),
        }
    }

    /// Waits until the writer has executed all orders.
    fn join(&mut self) -> Result<TraceWriter, TraceError> {
        self.orders = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(written)) => written,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Err(self.lost()),
        }
    }
}

impl Drop for QueuedWriter {
    /// The batches in the queue are written even if a run ends with an error.
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // Nothing is left to report the error to.
            let _ = thread.join();
        }
    }
}

fn write(mut writer: TraceWriter, orders: &Receiver<Order>) -> Result<TraceWriter, TraceError> {
    for order in orders {
        match order {
            Order::Write(batch) => batch.into_iter().try_for_each(|event| writer.push(event))?,
            // The receiver may be gone.
            Order::Save(answer) => drop(answer.send(writer.save())),
        }
    }
    Ok(writer)
}

/// Returns an event's approximate size in bytes, which bounds a batch of large events.
fn weight(event: &Event) -> usize {
    let fact = match &event.fact {
        Some(Fact::Group {
            members: GroupMembers::Include(_, ranks) | GroupMembers::Exclude(_, ranks),
            ..
        }) => ranks.len(),
        Some(Fact::Communicator(new)) => match &new.how {
            Making::Cart { dimensions, .. } => 2 * dimensions.len(),
            Making::Graph { degrees } => degrees.len(),
            Making::DistGraph { edges } => 2 * edges.len(),
            Making::CartSub { remain } => remain.len(),
            _ => 0,
        },
        _ => 0,
    };
    let pieces = event.collectives.iter();
    let pieces = pieces.map(|it| it.sent.pieces.len() + it.received.pieces.len());
    let texts: usize = event.texts.iter().map(|text| text.text.len()).sum();
    let details = event.details.0.as_deref();
    let displacements = details.map_or(0, |it| {
        it.send_displacements.len() + it.receive_displacements.len()
    });
    32 + 9 * event.arguments.len()
        + 9 * displacements
        + 40 * event.transfers.len()
        + 30 * event.collectives.len()
        + 9 * event.started.len()
        + 30 * event.completed.len()
        + 5 * fact
        + 9 * pieces.sum::<usize>()
        + texts
}
