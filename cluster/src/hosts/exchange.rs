//! What a host tells the others while the run is under way, and what it hears.
//!
//! Every host has the whole network, and is told of every frame that any node sends. So
//! each works out by itself when frames arrive at its own nodes, and how far it may run
//! them ([`Bounds`](crate::run::bounds::Bounds)): as far as no frame that it has not heard
//! of can reach them. What it knows of others' nodes may be old; then they are further than
//! it knows, and it runs less far than it might, never too far. Nothing is agreed on,
//! and nobody waits for a host from which nothing can come in time.

use std::sync::Arc;
use std::time::Duration;

use belljar_fabric::Distances;
use belljar_peers::{Incoming, Mesh, TooLong};
use belljar_sim::{CodecError, Span, Time};
use belljar_trace::{ProbesEnd, StateError, save_events, save_probes};

use super::message::{Message, NodeTold, Progress, Record, Send};
use super::partition::Partition;
use super::remote::RemoteNodes;
use crate::results::stream::Stream;
use crate::run::ending::Closing;
use crate::run::recorder::Recorder;
use crate::run::workers::Workers;

/// The host that has the run directory.
pub(crate) const HEAD: u32 = 0;

/// How long one sleeps where others take too little.
const NAP: Duration = Duration::from_millis(1);

/// Why a host cannot continue with the others.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// A message is larger than can be read, or is none.
    #[error("host {host} says something that is no message of this program: {source}")]
    Message {
        /// Its name.
        host: String,
        /// What is wrong with it.
        source: CodecError,
    },
    /// There is more to say at once than can be.
    #[error("cannot tell host {host} of {what}: {source}")]
    TooLong {
        /// Its name.
        host: String,
        /// What of.
        what: &'static str,
        /// How much it is.
        source: TooLong,
    },
    /// Calls cannot be passed on.
    #[error(transparent)]
    Calls(#[from] StateError),
    /// Something cannot be passed on.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// What was heard.
#[derive(Debug)]
pub(crate) enum News {
    /// How far another host's nodes are, and which.
    Progress(u32, Progress),
    /// Something for the run directory, of which host.
    Record(u32, Record),
    /// The run ends here, as host 0 says.
    Stop,
    /// A host is not there any more, or cannot continue: its number, and why.
    Lost(u32, String),
    /// What host 0 says of a checkpoint.
    Keep(Option<(u32, bool)>),
    /// What host 0 awaits of others: parts of checkpoints, and what is left to say at the end.
    Other(u32, Message),
}

/// One host's part in a run of several.
pub struct Exchange {
    mesh: Mesh,
    partition: Arc<Partition>,
    own: u32,
    pub(crate) remote: RemoteNodes,
    /// Frames that each node was given; of own ones.
    taken: Vec<u64>,
    /// What was told of each last.
    told: Vec<(Time, u64)>,
    sends: Vec<Send>,
    /// What own nodes did that goes into the run directory.
    record: Record,
    /// The cause that was told last is the one that holds.
    cause_told: bool,
    /// Least time from a node here to one elsewhere.
    lookahead: Span,
    /// When the first own node acts next, as told last.
    first_told: Time,
    /// Hosts of which nothing is to come.
    done: Vec<bool>,
    /// What came before it was asked for.
    early: Vec<(u32, Message)>,
}

impl Exchange {
    /// The part of host `own`, which is connected to all others by `mesh`.
    pub fn new(mesh: Mesh, partition: Arc<Partition>, own: u32) -> Self {
        Self {
            done: vec![false; partition.names().len()],
            mesh,
            partition,
            own,
            remote: RemoteNodes::new(std::iter::empty(), Time::ZERO),
            taken: Vec::new(),
            told: Vec::new(),
            sends: Vec::new(),
            record: Record::default(),
            cause_told: true,
            lookahead: Span::MAX,
            first_told: Time::ZERO,
            early: Vec::new(),
        }
    }

    /// Keeps a message that came early.
    pub(crate) fn hold(&mut self, peer: u32, message: Message) {
        self.early.push((peer, message));
    }

    /// Makes ready for a run of `nodes` nodes from `start` on.
    pub(crate) fn begin(&mut self, nodes: u32, distances: &Distances, start: Time) {
        let is_own = |node: u32| self.partition.host_of(node) == Some(self.own);
        self.remote = RemoteNodes::new((0..nodes).map(|node| !is_own(node)), start);
        self.taken = vec![0; nodes as usize];
        // Nothing is told yet: whatever it is, it is news.
        self.told = vec![(Time::MAX, u64::MAX); nodes as usize];
        self.first_told = start;
        let crossing = self.partition.least_crossing(self.own, distances);
        self.lookahead = crossing.unwrap_or(Span::MAX);
    }

    /// Who runs what.
    pub(crate) fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The nodes that run here.
    pub(crate) fn own_nodes(&self) -> Vec<u32> {
        self.partition.nodes_of(self.own).collect()
    }

    /// Which host this is.
    pub(crate) fn own(&self) -> u32 {
        self.own
    }

    /// Whether this host has the run directory.
    pub(crate) fn is_head(&self) -> bool {
        self.own == HEAD
    }

    /// Whether others take so little that no more should be made for now.
    pub(crate) fn is_congested(&self) -> bool {
        self.mesh.is_congested()
    }

    /// For how long nothing was heard of each of the others.
    pub(crate) fn silences(&self) -> impl Iterator<Item = (u32, Duration)> {
        self.mesh.silences()
    }

    /// An own node sends a frame.
    pub(crate) fn send(&mut self, send: Send) {
        self.sends.push(send);
    }

    /// An own node is given a frame.
    pub(crate) fn give(&mut self, node: u32) {
        self.taken[node as usize] += 1;
    }

    /// What ends the run is another thing than was known before.
    pub(crate) fn tell_cause(&mut self) {
        self.cause_told = false;
    }

    /// Whether enough happened since the last time for others to get on by.
    pub(crate) fn is_worth_telling(&self, first: Time) -> bool {
        let half = Span::from_ps(self.lookahead.as_ps() / 2);
        !self.cause_told || first >= self.first_told + half
    }

    /// Tells the others what is new.
    pub(crate) fn publish(
        &mut self,
        workers: &Workers,
        ready: u32,
        recorder: &mut Recorder,
        closing: &Closing,
    ) -> Result<(), ExchangeError> {
        self.relay(ready, recorder)?;
        let mut progress = Progress {
            sends: std::mem::take(&mut self.sends),
            ..Progress::default()
        };
        self.first_told = Time::MAX;
        for node in workers.numbers() {
            let (next, taken) = (workers.next(node), self.taken[node as usize]);
            self.first_told = self.first_told.min(next);
            if self.told[node as usize] != (next, taken) {
                self.told[node as usize] = (next, taken);
                progress.nodes.push(NodeTold { node, next, taken });
            }
        }
        if !std::mem::replace(&mut self.cause_told, true) {
            progress.cause = closing.cause().cloned();
        }
        let nothing =
            progress.nodes.is_empty() && progress.sends.is_empty() && progress.cause.is_none();
        if nothing {
            return Ok(());
        }
        self.tell_all(&Message::Progress(progress))
    }

    /// What an own node wrote, for the host that has the run directory.
    pub(crate) fn write(&mut self, node: u32, written: Vec<(Stream, Vec<u8>)>) {
        let outputs = written.into_iter();
        let outputs = outputs.map(|(stream, bytes)| (node, stream, bytes));
        self.record.outputs.extend(outputs);
    }

    /// Passes what belongs into the run directory on to who has it.
    pub(crate) fn relay(
        &mut self,
        ready: u32,
        recorder: &mut Recorder,
    ) -> Result<(), ExchangeError> {
        let mut record = std::mem::take(&mut self.record);
        let events = recorder.take_relayed();
        let probes = recorder.take_relayed_probes();
        let is_empty = events.is_empty() && probes.is_empty() && record.outputs.is_empty();
        if self.is_head() || is_empty {
            return Ok(());
        }
        if !events.is_empty() {
            record.events = save_events(&events)?;
        }
        if !probes.is_empty() {
            record.probes = save_probes(&probes, ProbesEnd::default())?;
        }
        record.ready = ready;
        self.tell(HEAD, &Message::Record(record))
    }

    /// Sends `message` to one host.
    pub(crate) fn tell(&self, host: u32, message: &Message) -> Result<(), ExchangeError> {
        self.pass(host, message, message.encode()?)
    }

    fn pass(&self, host: u32, message: &Message, bytes: Vec<u8>) -> Result<(), ExchangeError> {
        let passed = self.mesh.send(host, bytes);
        passed.map_err(|source| ExchangeError::TooLong {
            host: self.partition.name(host).to_owned(),
            what: message.what(),
            source,
        })
    }

    /// Sends `message` to one host, waiting as long as that takes too little and is not lost.
    pub(crate) fn tell_slowly(&self, host: u32, message: &Message) -> Result<(), ExchangeError> {
        self.tell(host, message)?;
        while self.is_congested() {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Sends `message` to all others.
    pub(crate) fn tell_all(&self, message: &Message) -> Result<(), ExchangeError> {
        let bytes = message.encode()?;
        let mut peers = self.mesh.peers();
        peers.try_for_each(|peer| self.pass(peer, message, bytes.clone()))
    }

    /// The next that is heard, if it is heard within `patience`.
    pub(crate) fn hear(&mut self, patience: Duration) -> Result<Option<News>, ExchangeError> {
        if !self.early.is_empty() {
            let (peer, message) = self.early.remove(0);
            return Ok(self.news(peer, message));
        }
        let Some((peer, incoming)) = self.mesh.receive(patience) else {
            return Ok(None);
        };
        match incoming {
            Incoming::Message(bytes) => {
                let message = Message::decode(&bytes).map_err(|source| ExchangeError::Message {
                    host: self.partition.name(peer).to_owned(),
                    source,
                })?;
                Ok(self.news(peer, message))
            }
            Incoming::Lost(_) if self.done[peer as usize] => Ok(None),
            Incoming::Lost(why) => {
                self.done[peer as usize] = true;
                Ok(Some(News::Lost(peer, why.to_string())))
            }
        }
    }

    fn news(&mut self, peer: u32, message: Message) -> Option<News> {
        match message {
            Message::Progress(progress) => Some(News::Progress(peer, progress)),
            Message::Record(record) => Some(News::Record(peer, record)),
            Message::Stop => Some(News::Stop),
            Message::Keep(order) => Some(News::Keep(order)),
            Message::Failed(why) => {
                self.done[peer as usize] = true;
                Some(News::Lost(peer, why))
            }
            Message::Missing(host, why) => {
                let by = self.partition.name(peer);
                Some(News::Lost(host, format!("{why}, says host {by}")))
            }
            Message::Done => {
                self.done[peer as usize] = true;
                None
            }
            other => Some(News::Other(peer, other)),
        }
    }

    /// Whether nothing is to come of any other host.
    pub(crate) fn all_done(&self) -> bool {
        self.mesh.peers().all(|peer| self.done[peer as usize])
    }
}
