//! What hosts of a run tell each other.
//!
//! One encoding for all of them, with a limit on what a message may hold: a peer's bytes are decoded whole
//! or refused. Sent and taken in by `exchange` while nodes run and by `provision` before.

use belljar_sim::{CodecError, Time, check, decode, encode};
use serde::{Deserialize, Serialize};

use super::partition::Partition;
use crate::results::outputs::Word;
use crate::results::stream::Stream;
use crate::run::ending::Cause;
use crate::run::report::NodeReport;

/// A message between two hosts of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Message {
    /// Host 0 to another: what to do.
    Task(Box<Task>),
    /// An answer to that: these of the files are not here, by their places in the list.
    Want(Vec<u32>),
    /// The next piece of a file that is wanted; an empty one ends it.
    Piece(u32, #[serde(with = "serde_bytes")] Vec<u8>),
    /// Any host to any other: how far its nodes are.
    Progress(Progress),
    /// To host 0: what its nodes did that goes into the run directory.
    Record(Record),
    /// To host 0, when the run has ended there: what is left to say of each node.
    Final(Vec<Final>),
    /// To all: nothing will come any more, and nothing is wrong.
    Done,
    /// To host 0: a host cannot continue, or was told to stop; in words.
    Failed(String),
    /// To host 0: that host, by its number, is lost to the one that says so; why.
    Missing(u32, String),
    /// Host 0 to all: keep what is of you for the checkpoint of this number; whole, if what
    /// was kept before is lost. With no number, this one is left out.
    Keep(Option<(u32, bool)>),
    /// To host 0: the next bytes of this pack of pages.
    Pages(u32, #[serde(with = "serde_bytes")] Vec<u8>),
    /// To host 0: the next bytes of the part of this node in the checkpoint of this number.
    KeptNode(u32, u32, #[serde(with = "serde_bytes")] Vec<u8>),
    /// To host 0: that was all for this checkpoint.
    Kept(Kept),
    /// To host 0: what a node answers that is asked for files.
    Outputs(Word),
    /// Host 0 to all: no further.
    Stop,
    /// To host 0: nothing was heard for a while that a host's nodes could get on by; who waits for
    /// whom as it sees it.
    Waiting(String),
}

/// Names of files in a [`Task`].
pub(crate) const KERNEL: &str = "kernel";
pub(crate) const INITRD: &str = "initrd";
pub(crate) const ROOT: &str = "root";
const SNAPSHOT: &str = "snapshot";

/// The name of the snapshot that nodes of kind number `kind` are clones of.
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

/// What a host is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    /// The scenario, which names files next to it only.
    pub(crate) scenario: String,
    /// These files, by their names.
    pub(crate) inputs: Vec<(String, FileOffer)>,
    /// The manifests of the plan's images, in their order.
    pub(crate) manifests: Vec<String>,
    /// Files of the images ([`KERNEL`], [`INITRD`], [`ROOT`], [with numbers](numbered)), the [snapshots](snapshot_name) that nodes are
    /// clones of, and those of the checkpoint that the run is resumed from, by their names in
    /// the run's folder.
    pub(crate) files: Vec<(String, FileOffer)>,
    /// Who runs what.
    pub(crate) partition: Partition,
    /// Threads that run guests are kept from everything else.
    pub(crate) sandboxed: bool,
    /// Threads on each host; one for each processor otherwise.
    pub(crate) threads: Option<usize>,
}

impl Task {
    /// All files, of which each host says whether it has them: those that all runs have, then
    /// those next to the scenario.
    pub(crate) fn offers(&self) -> impl Iterator<Item = &FileOffer> {
        let named = self.files.iter().chain(&self.inputs);
        named.map(|(_, offer)| offer)
    }
}

/// A file that host 0 has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileOffer {
    /// Where it is there.
    pub(crate) path: String,
    /// Its length in bytes.
    pub(crate) length: u64,
    /// Its XXH3 of 128 bits.
    pub(crate) hash: u128,
}

/// How far a host's nodes are. All frames sent before the times told of are in this message or
/// an earlier one.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Frames that were sent.
    pub(crate) sends: Vec<Send>,
    /// Nodes of which something changed.
    pub(crate) nodes: Vec<NodeTold>,
    /// What ends the run, by what this host's nodes did.
    pub(crate) cause: Option<Cause>,
}

/// A frame.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Send {
    pub(crate) time: Time,
    pub(crate) node: u32,
    pub(crate) sequence: u64,
    #[serde(with = "serde_bytes")]
    pub(crate) frame: Vec<u8>,
}

/// What is told of a node; see [`RemoteNodes`](super::remote::RemoteNodes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeTold {
    pub(crate) node: u32,
    /// When it does anything next.
    pub(crate) next: Time,
    /// Frames that it had been given.
    pub(crate) taken: u64,
}

/// What goes into the run directory.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Calls, as the tracer saves them; of none, nothing.
    #[serde(with = "serde_bytes")]
    pub(crate) events: Vec<u8>,
    /// What probes of the user's saw, as it is saved; of none, nothing.
    #[serde(with = "serde_bytes")]
    pub(crate) probes: Vec<u8>,
    /// What nodes wrote.
    pub(crate) outputs: Vec<(u32, Stream, Vec<u8>)>,
    /// How many nodes' inits are through.
    pub(crate) ready: u32,
}

/// What a host kept for a checkpoint.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The checkpoint's number.
    pub(crate) number: u32,
    /// Pages that were written for it.
    pub(crate) pages: u64,
    /// All packs that its nodes' parts speak of, with the number of pages in each.
    pub(crate) packs: Vec<(u32, u64)>,
    /// Why it could not be kept.
    pub(crate) failed: Option<String>,
}

/// What is left to say of a node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Final {
    pub(crate) report: NodeReport,
    /// Calls that did not return, as the tracer saves them.
    #[serde(with = "serde_bytes")]
    pub(crate) open: Vec<u8>,
    /// What the tracer has to say, as it saves that.
    pub(crate) summary: Option<Vec<u8>>,
    /// What the user's probes have left, as it is saved.
    #[serde(with = "serde_bytes")]
    pub(crate) probes: Vec<u8>,
}

impl Message {
    /// Its bytes.
    ///
    /// # Errors
    /// When there are more than can be [decoded](Self::decode).
    pub(crate) fn encode(&self) -> Result<Vec<u8>, CodecError> {
        let bytes = encode(self)?;
        check::<Self>(&bytes)?;
        Ok(bytes)
    }

    /// What it is about, in words.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Self::Task(_) | Self::Want(_) | Self::Piece(..) => "what is to be run",
            Self::Progress(_) => "frames and times",
            Self::Record(_) => "calls and what nodes wrote",
            Self::Final(_) => "what is left of its nodes",
            Self::Keep(_) | Self::Pages(..) | Self::KeptNode(..) | Self::Kept(_) => {
                "a checkpoint's parts"
            }
            Self::Outputs(_) => "files of its nodes",
            Self::Waiting(_) => "what a host waits for",
            Self::Done | Self::Failed(_) | Self::Missing(..) | Self::Stop => "the run's end",
        }
    }

    /// The message that these bytes are.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        decode(bytes)
    }
}

/// The bytes of the message that these bytes are, written anew; for those who test what hosts may
/// send.
///
/// # Errors
/// When they are none.
pub fn reread(bytes: &[u8]) -> Result<Vec<u8>, CodecError> {
    Message::decode(bytes)?.encode()
}

/// A message of most kinds, for the same.
pub fn samples() -> Vec<Vec<u8>> {
    let offer = FileOffer {
        path: "/images/kernel".to_owned(),
        length: 1 << 20,
        hash: 7,
    };
    let task = Task {
        scenario: "name = \"run\"".to_owned(),
        inputs: vec![("files/in.dat".to_owned(), offer.clone())],
        manifests: vec!["{}".to_owned()],
        files: vec![(KERNEL.to_owned(), offer)],
        partition: Partition::new(vec!["a".to_owned(), "b".to_owned()], vec![0, 1, 0, 1]),
        sandboxed: true,
        threads: Some(2),
    };
    let time = Time::from_ps(1_000_000);
    let progress = Progress {
        sends: vec![Send {
            time,
            node: 1,
            sequence: 2,
            frame: vec![0xff; 60],
        }],
        nodes: vec![NodeTold {
            node: 1,
            next: time,
            taken: 3,
        }],
        cause: None,
    };
    let record = Record {
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
        Message::Task(Box::new(task)),
        Message::Want(vec![0, 2]),
        Message::Piece(1, vec![7; 100]),
        Message::Progress(progress),
        Message::Record(record),
        Message::Done,
        Message::Failed("no memory".to_owned()),
        Message::Missing(1, "silent".to_owned()),
        Message::Keep(Some((1, true))),
        Message::Pages(1, vec![7; 100]),
        Message::KeptNode(0, 1, vec![7; 100]),
        Message::Kept(kept),
        Message::Outputs(Word::Bytes(1, b"files\n".to_vec())),
        Message::Outputs(Word::End(1, Some("silent".to_owned()))),
        Message::Stop,
        Message::Waiting("node 0 for node 1".to_owned()),
    ];
    let bytes = messages.iter().map(|message| message.encode());
    bytes.map(|bytes| bytes.expect("a short message")).collect()
}
