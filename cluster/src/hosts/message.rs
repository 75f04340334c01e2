//! The messages of a run's hosts.
//!
//! All have one encoding with a limit: a peer's bytes are decoded completely or refused. Sent and received by `exchange` while
//! nodes run, and by `provision` before.

use belljar_sim::{CodecError, Time, check, decode, encode};
use serde::{Deserialize, Serialize};

use super::partition::Partition;
use crate::results::outputs::Word;
use crate::results::stream::Stream;
use crate::run::ending::Cause;
use crate::run::report::NodeReport;

/// A message between two hosts of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum HostMessage {
    /// From host 0 to another: its task.
    Task(Box<HostTask>),
    /// The answer: the missing files, by their indexes in the list.
    Want(Vec<u32>),
    /// The next piece of a requested file; an empty one ends it.
    Piece(u32, #[serde(with = "serde_bytes")] Vec<u8>),
    /// Between any two hosts: the progress of the sender's nodes.
    Progress(HostProgress),
    /// To host 0: data of the sender's nodes for the run directory.
    Record(DirectoryData),
    /// To host 0, after the run has ended on the sender: the final data of each node.
    Final(Vec<Final>),
    /// To all: no more messages follow, and there was no error.
    Done,
    /// To host 0: the sender cannot continue, or was stopped, with the reason.
    Failed(String),
    /// To host 0: the sender has lost the host with this number, for this reason.
    Missing(u32, String),
    /// From host 0 to all: keep your part for the checkpoint of this number; completely, if the previous one is lost. Without a
    /// number, this checkpoint is skipped.
    Keep(Option<(u32, bool)>),
    /// To host 0: the next bytes of this pack of pages.
    Pages(u32, #[serde(with = "serde_bytes")] Vec<u8>),
    /// To host 0: the next bytes of the part of this node in the checkpoint of this number.
    KeptNode(u32, u32, #[serde(with = "serde_bytes")] Vec<u8>),
    /// To host 0: the end of the sender's part of this checkpoint.
    Kept(Kept),
    /// To host 0: a node's answer to a request for files.
    Outputs(Word),
    /// From host 0 to all: stop.
    Stop,
    /// To host 0: no message has let the sender's nodes continue for a while; describes which nodes wait for which.
    Waiting(String),
}

/// Names of files in a [`HostTask`].
pub(crate) const KERNEL: &str = "kernel";
pub(crate) const INITRD: &str = "initrd";
pub(crate) const ROOT: &str = "root";
/// Only sent if nodes share a folder.
pub(crate) const NFS: &str = "nfs";
/// Only sent if nodes have InfiniBand cards.
pub(crate) const INFINIBAND: &str = "infiniband";
const SNAPSHOT: &str = "snapshot";

/// The name of the snapshot for clones of kind number `kind`.
pub(crate) fn snapshot_name(kind: usize) -> String {
    numbered(SNAPSHOT, kind)
}

/// The name of one of several files that are called `name`.
pub(crate) fn numbered(name: &str, number: usize) -> String {
    match number {
        0 => name.to_owned(),
        number => format!("{name}-{number}"),
    }
}

/// The task of a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HostTask {
    /// The scenario; the files that it names are next to it.
    pub(crate) scenario: String,
    /// These files, by their names.
    pub(crate) inputs: Vec<(String, FileOffer)>,
    /// The manifests of the plan's images, in their order.
    pub(crate) manifests: Vec<String>,
    /// Files of the images ([`KERNEL`], [`INITRD`], [`ROOT`], [`NFS`], [`INFINIBAND`], [with numbers](numbered)), the [snapshots](snapshot_name) that nodes are
    /// clones of, and those of the checkpoint that the run is resumed from, by their names in
    /// the run's folder.
    pub(crate) files: Vec<(String, FileOffer)>,
    /// The assignment of nodes to hosts.
    pub(crate) partition: Partition,
    /// True if threads that run guests are confined.
    pub(crate) sandboxed: bool,
    /// Threads on each host; by default one for each processor.
    pub(crate) threads: Option<usize>,
}

impl HostTask {
    /// All offered files: files of all runs, then files next to the scenario. A host may have some of them already.
    pub(crate) fn offers(&self) -> impl Iterator<Item = &FileOffer> {
        let named = self.files.iter().chain(&self.inputs);
        named.map(|(_, offer)| offer)
    }
}

/// A file that host 0 has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileOffer {
    /// Its path there.
    pub(crate) path: String,
    /// Its length in bytes.
    pub(crate) length: u64,
    /// Its 128-bit XXH3.
    pub(crate) hash: u128,
}

/// The progress of a host's nodes. All frames sent before the given times are in this message or an earlier one.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct HostProgress {
    /// Sent frames.
    pub(crate) sends: Vec<Send>,
    /// Changed nodes.
    pub(crate) nodes: Vec<NodeTold>,
    /// The cause of the run's end on this host's nodes.
    pub(crate) cause: Option<Cause>,
}

/// The networks of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NetworkKind {
    /// Frames of Ethernet.
    Ethernet,
    /// Packets of InfiniBand.
    Infiniband,
}

impl NetworkKind {
    /// The number of networks.
    pub(crate) const COUNT: usize = 2;

    /// Its index among them.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Ethernet => 0,
            Self::Infiniband => 1,
        }
    }
}

/// A frame or a packet.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Send {
    pub(crate) network: NetworkKind,
    pub(crate) time: Time,
    pub(crate) node: u32,
    pub(crate) sequence: u64,
    #[serde(with = "serde_bytes")]
    pub(crate) frame: Vec<u8>,
}

/// The progress of a node; see [`RemoteNodes`](super::remote::RemoteNodes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeTold {
    pub(crate) node: u32,
    /// The time of its next action.
    pub(crate) next: Time,
    /// Frames and packets delivered to it, by network.
    pub(crate) taken: [u64; NetworkKind::COUNT],
}

/// Data for the run directory.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DirectoryData {
    /// Encoded calls; empty without calls.
    #[serde(with = "serde_bytes")]
    pub(crate) events: Vec<u8>,
    /// Encoded records of the user's probes; empty without records.
    #[serde(with = "serde_bytes")]
    pub(crate) probes: Vec<u8>,
    /// Outputs of nodes.
    pub(crate) outputs: Vec<(u32, Stream, Vec<u8>)>,
    /// Number of nodes whose init has finished.
    pub(crate) ready: u32,
}

/// A host's part of a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The checkpoint's number.
    pub(crate) number: u32,
    /// Pages that were written for it.
    pub(crate) pages: u64,
    /// All packs with pages of its nodes, and the number of pages in each.
    pub(crate) packs: Vec<(u32, u64)>,
    /// The reason if it could not be kept.
    pub(crate) failed: Option<String>,
}

/// The final data of a node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Final {
    pub(crate) report: NodeReport,
    /// Encoded calls that did not return.
    #[serde(with = "serde_bytes")]
    pub(crate) open: Vec<u8>,
    /// The tracer's encoded summary.
    pub(crate) summary: Option<Vec<u8>>,
    /// Encoded remains of the user's probes.
    #[serde(with = "serde_bytes")]
    pub(crate) probes: Vec<u8>,
}

impl HostMessage {
    /// Its bytes.
    ///
    /// # Errors
    /// If they exceed the limit of [decoding](Self::decode).
    pub(crate) fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let bytes = encode(self)?;
        check::<Self>(&bytes)?;
        Ok(bytes)
    }

    /// Its kind in words.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Self::Task(_) | Self::Want(_) | Self::Piece(..) => "the task",
            Self::Progress(_) => "frames and times",
            Self::Record(_) => "calls and outputs of nodes",
            Self::Final(_) => "the final data of its nodes",
            Self::Keep(_) | Self::Pages(..) | Self::KeptNode(..) | Self::Kept(_) => {
                "a checkpoint's parts"
            }
            Self::Outputs(_) => "files of its nodes",
            Self::Waiting(_) => "the waiting nodes of a host",
            Self::Done | Self::Failed(_) | Self::Missing(..) | Self::Stop => "the run's end",
        }
    }

    /// Decodes a message.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        decode(bytes)
    }
}

/// Decodes and encodes a message, for tests of hostile hosts.
///
/// # Errors
/// If the bytes are no message.
pub fn reread(bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
    HostMessage::decode(bytes)?.encode()
}

/// Messages of most kinds, for the same tests.
pub fn samples() -> Vec<Vec<u8>> {
    let offer = FileOffer {
        path: "/images/kernel".to_owned(),
        length: 1 << 20,
        hash: 7,
    };
    let task = HostTask {
        scenario: "name = \"run\"".to_owned(),
        inputs: vec![("files/in.dat".to_owned(), offer.clone())],
        manifests: vec!["{}".to_owned()],
        files: vec![(KERNEL.to_owned(), offer)],
        partition: Partition::new(vec!["a".to_owned(), "b".to_owned()], vec![0, 1, 0, 1]),
        sandboxed: true,
        threads: Some(2),
    };
    let time = Time::from_ps(1_000_000);
    let progress = HostProgress {
        sends: vec![Send {
            network: NetworkKind::Infiniband,
            time,
            node: 1,
            sequence: 2,
            frame: vec![0xff; 60],
        }],
        nodes: vec![NodeTold {
            node: 1,
            next: time,
            taken: [3, 1],
        }],
        cause: None,
    };
    let record = DirectoryData {
        events: vec![1, 2, 3],
        probes: vec![4],
        outputs: vec![(0, Stream::Console, b"ready\n".to_vec())],
        ready: 1,
    };
    let kept = Kept {
        number: 1,
        pages: 2,
        packs: vec![(1, 2)],
        failed: None,
    };
    let messages = [
        HostMessage::Task(Box::new(task)),
        HostMessage::Want(vec![0, 2]),
        HostMessage::Piece(1, vec![7; 100]),
        HostMessage::Progress(progress),
        HostMessage::Record(record),
        HostMessage::Done,
        HostMessage::Failed("no memory".to_owned()),
        HostMessage::Missing(1, "silent".to_owned()),
        HostMessage::Keep(Some((1, true))),
        HostMessage::Pages(1, vec![7; 100]),
        HostMessage::KeptNode(0, 1, vec![7; 100]),
        HostMessage::Kept(kept),
        HostMessage::Outputs(Word::Bytes(1, b"files\n".to_vec())),
        HostMessage::Outputs(Word::End(1, Some("silent".to_owned()))),
        HostMessage::Stop,
        HostMessage::Waiting("node 0 for node 1".to_owned()),
    ];
    let bytes = messages.iter().map(|message| message.encode());
    bytes.map(|bytes| bytes.expect("a short message")).collect()
}
