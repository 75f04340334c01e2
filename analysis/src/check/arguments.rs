//! Arguments that no call may have: null handles, negative counts, ranks and tags out of range, null buffers.
//!
//! Arguments that MPI ignores at a rank are not checked: those of the root alone, and datatypes of `MPI_IN_PLACE`. Null handles
//! are constants in MPICH and in the standard ABI; with Open MPI they follow from the library's message. Called for each event.

/// Arguments of calls that make objects.
mod making;

use std::rc::Rc;

use belljar_job::Communicators;
use belljar_mpi::{Base, CallKind, Object, Operation, Parameter};
use belljar_trace::{Datatype, Event, Implementation, Peer};

use super::finding::{FindingKind, Findings};
use super::signature::{constant_datatype, integer, word};

/// Null handles of MPICH's interface: communicator, datatype, operator.
const MPICH_NULL: [u64; 3] = [0x0400_0000, 0x0c00_0000, 0x1800_0000];
/// The same of the standard ABI.
const STANDARD_NULL: [u64; 3] = [0x100, 0x200, 0x20];

/// True if a handle is the null handle of its kind.
fn is_null(implementation: Implementation, base: Base, handle: u64) -> bool {
    let kind = match base {
        Base::Comm => 0,
        Base::Datatype => 1,
        Base::Op => 2,
        _ => return false,
    };
    match implementation {
        Implementation::Mpich => MPICH_NULL[kind] == handle,
        Implementation::StandardAbi(_) => STANDARD_NULL[kind] == handle,
        Implementation::OpenMpi => false,
    }
}

/// A call, and where it stands in its communicator.
struct CheckedArguments<'a> {
    call: &'a Rc<Event>,
    communicators: &'a Communicators,
    kind: CallKind,
}

/// Checks the arguments of a call.
pub(super) fn take(call: &Rc<Event>, communicators: &Communicators, findings: &mut Findings) {
    making::take(call, findings);
    let kind = call.meaning().kind;
    let is_checked = matches!(
        kind,
        CallKind::Send(_)
            | CallKind::Receive
            | CallKind::SendReceive
            | CallKind::SendPartitioned
            | CallKind::ReceivePartitioned
            | CallKind::Probe
            | CallKind::ProbeMatched
            | CallKind::Collective(_)
            | CallKind::Access(_)
            | CallKind::MakeCommunicator(_)
            | CallKind::Make(Object::Window)
    );
    if !is_checked {
        return;
    }
    let own = CheckedArguments {
        call,
        communicators,
        kind,
    };
    let parameters = call.description().parameters.iter();
    for (parameter, word) in parameters.zip(&call.arguments) {
        if let Some((kind, text)) = own.fault(parameter, *word) {
            let text = format!("{} has {text}", call.name());
            findings.add(kind, &[call], text);
        }
    }
}

impl CheckedArguments<'_> {
    /// The fault of an argument, if it has one.
    fn fault(&self, parameter: &Parameter, word: u64) -> Option<(FindingKind, String)> {
        let name = parameter.name;
        match (parameter.base, parameter.pointer) {
            (Base::Comm | Base::Datatype | Base::Op, 0) => self.null_handle(parameter, word),
            (Base::Int | Base::Count, 0) => match name {
                "dest" | "source" | "target_rank" => self.rank(name, word),
                "root" => self.root(word),
                "tag" | "sendtag" | "recvtag" => self.tag(name, word),
                _ if is_count(name) && word.cast_signed() < 0 => Some((
                    FindingKind::InvalidCount,
                    format!("{name}={}; counts are not negative", word.cast_signed()),
                )),
                _ => None,
            },
            (Base::Void, 1) => self.buffer(name, word),
            _ => None,
        }
    }

    fn null_handle(&self, parameter: &Parameter, word: u64) -> Option<(FindingKind, String)> {
        let name = parameter.name;
        if !is_null(self.call.implementation, parameter.base, word) || !self.is_significant(name) {
            return None;
        }
        Some(match parameter.base {
            Base::Comm if name == "peer_comm" => return None,
            Base::Comm => (
                FindingKind::InvalidCommunicator,
                format!("{name}=MPI_COMM_NULL"),
            ),
            Base::Datatype => (
                FindingKind::InvalidDatatype,
                format!("{name}=MPI_DATATYPE_NULL"),
            ),
            _ => (FindingKind::InvalidOperator, format!("{name}=MPI_OP_NULL")),
        })
    }

    /// True if MPI reads the argument at this rank.
    fn is_significant(&self, name: &str) -> bool {
        let sends = matches!(name, "sendbuf" | "sendcount" | "sendtype");
        let receives = matches!(name, "recvbuf" | "recvcount" | "recvtype");
        if !sends && !receives {
            return true;
        }
        let buffer = if sends { "sendbuf" } else { "recvbuf" };
        let in_place =
            word(self.call, buffer).is_some_and(|buffer| self.call.implementation.in_place(buffer));
        if in_place && name != buffer {
            return false;
        }
        let of_root = match self.kind {
            CallKind::Collective(Operation::Gather | Operation::Gatherv | Operation::Reduce) => {
                receives
            }
            CallKind::Collective(Operation::Scatter | Operation::Scatterv) => sends,
            _ => false,
        };
        !of_root || self.is_root()
    }

    /// True if this rank is the root; false if that is unknown.
    fn is_root(&self) -> bool {
        let root = integer(self.call, "root");
        let own = self.communicator().and_then(|number| {
            let process = (self.call.node, self.call.process);
            self.communicators.rank(process, number)
        });
        root.zip(own)
            .is_some_and(|(root, own)| root == i64::from(own))
    }

    fn communicator(&self) -> Option<u32> {
        self.call.communicator
    }

    /// The number of ranks that a peer may have.
    fn peers(&self) -> Option<u32> {
        let process = (self.call.node, self.call.process);
        let transfer = self.call.transfers.first();
        let number = self.communicator();
        let number = number.or_else(|| transfer.and_then(|transfer| transfer.communicator))?;
        let remote = self.communicators.remote_members(process, number);
        let members = remote.or_else(|| self.communicators.members(process, number))?;
        Some(members.len())
    }

    fn rank(&self, name: &str, word: u64) -> Option<(FindingKind, String)> {
        let rank = word as i32;
        let size = self.peers();
        let is_valid = match self.call.implementation.peer(rank) {
            Peer::Rank(rank) => size.is_none_or(|size| rank < size),
            Peer::Any => name == "source",
            Peer::Null => true,
            Peer::Root | Peer::Invalid(_) => false,
        };
        let range = size.map_or_else(String::new, |size| {
            format!(
                "; ranks of the communicator are 0 to {}",
                size.saturating_sub(1)
            )
        });
        (!is_valid).then(|| (FindingKind::InvalidRank, format!("{name}={rank}{range}")))
    }

    fn root(&self, word: u64) -> Option<(FindingKind, String)> {
        let process = (self.call.node, self.call.process);
        let number = self.communicator()?;
        if self.communicators.remote_members(process, number).is_some() {
            return None;
        }
        let size = self.communicators.members(process, number)?.len();
        let root = word as i32;
        let is_valid = u32::try_from(root).is_ok_and(|root| root < size);
        let last = size.saturating_sub(1);
        (!is_valid).then(|| {
            let text = format!("root={root}; ranks of the communicator are 0 to {last}");
            (FindingKind::InvalidRoot, text)
        })
    }

    fn tag(&self, name: &str, word: u64) -> Option<(FindingKind, String)> {
        let tag = word as i32;
        let takes_any = name == "recvtag"
            || (name == "tag"
                && matches!(
                    self.kind,
                    CallKind::Receive | CallKind::Probe | CallKind::ProbeMatched
                ));
        let is_any = self.call.implementation.tag(tag).is_none();
        let is_valid = tag >= 0 || (takes_any && is_any);
        let is_message = !matches!(self.kind, CallKind::MakeCommunicator(_));
        (!is_valid && is_message).then(|| {
            let text = format!("{name}={tag}; tags are not negative");
            (FindingKind::InvalidTag, text)
        })
    }

    /// A null buffer with data. Derived datatypes may have absolute addresses.
    fn buffer(&self, name: &str, word: u64) -> Option<(FindingKind, String)> {
        if word != 0 || !self.is_significant(name) {
            return None;
        }
        if name == "base" && self.kind == CallKind::Make(Object::Window) {
            let size = integer(self.call, "size").filter(|size| *size > 0)?;
            let text = format!("base=NULL for a window of {size} B");
            return Some((FindingKind::InvalidBuffer, text));
        }
        let (count, datatype) = described_by(name)?;
        let count = integer(self.call, count).filter(|count| *count > 0)?;
        let predefined = match constant_datatype(self.call, datatype) {
            Some(datatype) => Some(datatype),
            None => self
                .call
                .transfers
                .first()
                .map(|transfer| transfer.datatype),
        };
        let size = match predefined {
            Some(datatype @ Datatype::Predefined(_)) => datatype.size()?,
            _ => return None,
        };
        let reads = match self.kind {
            CallKind::Send(_) | CallKind::Receive | CallKind::SendReceive | CallKind::Access(_) => {
                // MPI_PROC_NULL moves no data.
                let mut transfers = self.call.transfers.iter();
                !transfers.any(|transfer| transfer.peer == Peer::Null)
            }
            CallKind::Collective(_) => true,
            _ => false,
        };
        (size > 0 && reads).then(|| {
            let text = format!("{name}=NULL with {count} elements");
            (FindingKind::InvalidBuffer, text)
        })
    }
}

/// The parameters with the count and the datatype of a buffer.
pub(super) fn described_by(buffer: &str) -> Option<(&'static str, &'static str)> {
    Some(match buffer {
        "buf" | "buffer" => ("count", "datatype"),
        "sendbuf" => ("sendcount", "sendtype"),
        "recvbuf" => ("recvcount", "recvtype"),
        "origin_addr" => ("origin_count", "origin_datatype"),
        _ => return None,
    })
}

fn is_count(name: &str) -> bool {
    matches!(
        name,
        "count"
            | "sendcount"
            | "recvcount"
            | "origin_count"
            | "target_count"
            | "result_count"
            | "partitions"
    )
}
