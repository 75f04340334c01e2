//! Messages between hosts of a running simulation.
//!
//! Every host has the whole network, and receives every frame that any node sends. So each
//! computes the frames' arrivals at its own nodes, and the bounds of its nodes' turns
//! ([`Bounds`](crate::run::bounds::Bounds)): they run only until an unknown frame could reach
//! them. Its information about others' nodes may be old. These are then further than it
//! assumes, so its bounds are too early, never too late. Hosts agree on nothing, and wait only
//! for hosts whose frames could arrive in time.

use std::sync::Arc;
use std::time::Duration;

use belljar_fabric::Distances;
use belljar_peers::{Incoming, Mesh, TooLong};
use belljar_sim::{CodecError, Span, Time};
use belljar_trace::{ProbesEnd, StateError, save_events, save_probes};

use super::message::{DirectoryData, HostMessage, HostProgress, NetworkKind, NodeTold, Send};
use super::partition::Partition;
use super::remote::RemoteNodes;
use crate::results::stream::Stream;
use crate::run::ending::Closing;
use crate::run::recorder::Recorder;
use crate::run::workers::Workers;

/// The host that has the run directory.
pub(crate) const HEAD: u32 = 0;

/// Sleep while others receive too slowly.
const NAP: Duration = Duration::from_millis(1);

/// Errors of the exchange with other hosts.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// A message is too large or invalid.
    #[error("host {host} sent an invalid message: {source}")]
    Message {
        /// Its name.
        host: String,
        /// The reason.
        source: CodecError,
    },
    /// A message is longer than the limit.
    #[error("cannot send {what} to host {host}: {source}")]
    TooLong {
        /// Its name.
        host: String,
        /// Its kind.
        what: &'static str,
        /// Its length.
        source: TooLong,
    },
    /// Calls cannot be sent.
    #[error(transparent)]
    Calls(#[from] StateError),
    /// A message cannot be encoded.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// A received message.
#[derive(Debug)]
pub(crate) enum News {
    /// The progress of a host's nodes, with the host's number.
    Progress(u32, HostProgress),
    /// Data for the run directory, with the host's number.
    Record(u32, DirectoryData),
    /// Host 0 ends the run here.
    Stop,
    /// A host is lost, or cannot continue: its number, and the reason.
    Lost(u32, String),
    /// Host 0's order about a checkpoint.
    Keep(Option<(u32, bool)>),
    /// Messages to host 0: parts of checkpoints, and final data.
    Other(u32, HostMessage),
}

/// One host's part in a run of several.
pub struct Exchange {
    mesh: Mesh,
    partition: Arc<Partition>,
    own: u32,
    pub(crate) remote: RemoteNodes,
    /// Frames delivered to each own node.
    taken: Vec<[u64; NetworkKind::COUNT]>,
    /// The last progress sent for each own node.
    told: Vec<(Time, [u64; NetworkKind::COUNT])>,
    sends: Vec<Send>,
    /// Data of own nodes for the run directory.
    record: DirectoryData,
    /// True if the current cause was sent.
    cause_told: bool,
    /// Minimum latency from a node here to one elsewhere.
    lookahead: Span,
    /// Time of the first own node's next action, as last sent.
    first_told: Time,
    /// Hosts without further messages.
    done: Vec<bool>,
    /// Messages that arrived before they were expected.
    early: Vec<(u32, HostMessage)>,
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
            record: DirectoryData::default(),
            cause_told: true,
            lookahead: Span::MAX,
            first_told: Time::ZERO,
            early: Vec::new(),
        }
    }

    /// Keeps a message that arrived early.
    pub(crate) fn hold(&mut self, peer: u32, message: HostMessage) {
        self.early.push((peer, message));
    }

    /// Prepares for a run of `nodes` nodes from `start` on.
    pub(crate) fn begin(&mut self, nodes: u32, distances: &Distances, start: Time) {
        let is_own = |node: u32| self.partition.host_of(node) == Some(self.own);
        self.remote = RemoteNodes::new((0..nodes).map(|node| !is_own(node)), start);
        self.taken = vec![[0; NetworkKind::COUNT]; nodes as usize];
        // These values differ from any progress, so the first one is sent.
        self.told = vec![(Time::MAX, [u64::MAX; NetworkKind::COUNT]); nodes as usize];
        self.first_told = start;
        let crossing = self.partition.least_crossing(self.own, distances);
        self.lookahead = crossing.unwrap_or(Span::MAX);
    }

    /// The assignment of nodes to hosts.
    pub(crate) fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The nodes that run here.
    pub(crate) fn own_nodes(&self) -> Vec<u32> {
        self.partition.nodes_of(self.own).collect()
    }

    /// Number of this host.
    pub(crate) fn own(&self) -> u32 {
        self.own
    }

    /// True if this host has the run directory.
    pub(crate) fn is_head(&self) -> bool {
        self.own == HEAD
    }

    /// True if others receive so slowly that this host should pause.
    pub(crate) fn is_congested(&self) -> bool {
        self.mesh.is_congested()
    }

    /// Time since the last data of each other host.
    pub(crate) fn silences(&self) -> impl Iterator<Item = (u32, Duration)> {
        self.mesh.silences()
    }

    /// Records a frame sent by an own node.
    pub(crate) fn send(&mut self, send: Send) {
        self.sends.push(send);
    }

    /// Counts a frame or packet delivered to an own node.
    pub(crate) fn give(&mut self, node: u32, network: NetworkKind) {
        self.taken[node as usize][network.index()] += 1;
    }

    /// Marks the cause of the run's end as changed.
    pub(crate) fn tell_cause(&mut self) {
        self.cause_told = false;
    }

    /// True if the changes since the last message let others continue.
    pub(crate) fn is_worth_telling(&self, first: Time) -> bool {
        let half = Span::from_ps(self.lookahead.as_ps() / 2);
        !self.cause_told || first >= self.first_told + half
    }

    /// Sends the changes to the others.
    pub(crate) fn publish(
        &mut self,
        workers: &Workers,
        ready: u32,
        recorder: &mut Recorder,
        closing: &Closing,
    ) -> Result<(), ExchangeError> {
        self.relay(ready, recorder)?;
        let mut progress = HostProgress {
            sends: std::mem::take(&mut self.sends),
            ..HostProgress::default()
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
        self.tell_all(&HostMessage::Progress(progress))
    }

    /// Records outputs of an own node, for the host with the run directory.
    pub(crate) fn write(&mut self, node: u32, written: Vec<(Stream, Vec<u8>)>) {
        let outputs = written.into_iter();
        let outputs = outputs.map(|(stream, bytes)| (node, stream, bytes));
        self.record.outputs.extend(outputs);
    }

    /// Sends data for the run directory to its host.
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
        self.tell(HEAD, &HostMessage::Record(record))
    }

    /// Sends `message` to one host.
    pub(crate) fn tell(&self, host: u32, message: &HostMessage) -> Result<(), ExchangeError> {
        self.pass(host, message, message.encode()?)
    }

    fn pass(&self, host: u32, message: &HostMessage, bytes: Vec<u8>) -> Result<(), ExchangeError> {
        let passed = self.mesh.send(host, bytes);
        passed.map_err(|source| ExchangeError::TooLong {
            host: self.partition.name(host).to_owned(),
            what: message.what(),
            source,
        })
    }

    /// Sends `message` to one host, and waits while that host receives too slowly.
    pub(crate) fn tell_slowly(
        &self,
        host: u32,
        message: &HostMessage,
    ) -> Result<(), ExchangeError> {
        self.tell(host, message)?;
        while self.is_congested() {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Sends `message` to all others.
    pub(crate) fn tell_all(&self, message: &HostMessage) -> Result<(), ExchangeError> {
        let bytes = message.encode()?;
        let mut peers = self.mesh.peers();
        peers.try_for_each(|peer| self.pass(peer, message, bytes.clone()))
    }

    /// The next message, if one arrives within `patience`.
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
                let message =
                    HostMessage::decode(&bytes).map_err(|source| ExchangeError::Message {
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

    fn news(&mut self, peer: u32, message: HostMessage) -> Option<News> {
        match message {
            HostMessage::Progress(progress) => Some(News::Progress(peer, progress)),
            HostMessage::Record(record) => Some(News::Record(peer, record)),
            HostMessage::Stop => Some(News::Stop),
            HostMessage::Keep(order) => Some(News::Keep(order)),
            HostMessage::Failed(why) => {
                self.done[peer as usize] = true;
                Some(News::Lost(peer, why))
            }
            HostMessage::Missing(host, why) => {
                let by = self.partition.name(peer);
                Some(News::Lost(host, format!("{why}, says host {by}")))
            }
            HostMessage::Done => {
                self.done[peer as usize] = true;
                None
            }
            other => Some(News::Other(peer, other)),
        }
    }

    /// True if no other host will send more messages.
    pub(crate) fn all_done(&self) -> bool {
        self.mesh.peers().all(|peer| self.done[peer as usize])
    }
}
