//! What probes are for: the user's own, and those by which a run sees messages.
//!
//! A library hands each message to one function of its layer for point-to-point messages, or of the transport below. What that
//! function is given tells tag and bytes; to whom it goes it tells by the library's own names of processes, which are numbers here, and whose
//! such a name is other records tell. Made where a plan is, read by the tracer and by whoever counts messages.

use bincode::{Decode, Encode};

use super::{ProbeRecord, ValueKind};

/// Whose a probe is, and what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum ProbePurpose {
    /// The user's own.
    #[default]
    User,
    /// `ucp_worker_get_address` of UCX: its argument is the name of the process that calls, which is the UUID of its worker.
    UcxAddress,
    /// `ucp_ep_create` of UCX: tells whom an endpoint leads to; not recorded.
    UcxEndpoint,
    /// `ucp_tag_send_nbx` and its like, which MPICH sends messages by.
    UcxSend,
    /// `mca_pml_ob1_send` of Open MPI.
    OpenMpiSend,
    /// `mca_pml_ob1_isend` of Open MPI.
    OpenMpiIsend,
    /// `mca_pml_ob1_isend_init` of Open MPI: tells what a persistent request will send; not recorded.
    OpenMpiPrepare,
    /// `mca_pml_ob1_start` of Open MPI, which sends what was prepared.
    OpenMpiStart,
}

/// A word of a message's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageWord {
    /// The sender, by its library's name for it.
    From,
    /// The receiver, likewise.
    To,
    /// The library's number of the communicator, which MPICH has one more of for collective operations.
    Context,
    /// The tag.
    Tag,
    /// Bytes of data.
    Bytes,
}

/// What a message's record has, in order.
pub const MESSAGE: [(MessageWord, &str, ValueKind); 5] = [
    (MessageWord::From, "from", ValueKind::Pointer),
    (MessageWord::To, "to", ValueKind::Pointer),
    (MessageWord::Context, "context", ValueKind::Unsigned(4)),
    (MessageWord::Tag, "tag", ValueKind::Signed(4)),
    (MessageWord::Bytes, "bytes", ValueKind::Unsigned(8)),
];

impl ProbePurpose {
    /// Whether what it sees is recorded when it is wanted; otherwise it is learned from, always.
    pub fn is_recorded(self) -> bool {
        self == Self::User || self.is_message()
    }

    /// Whether its records are messages, of the words of [`MESSAGE`].
    pub fn is_message(self) -> bool {
        self.is_open_mpi() || self == Self::UcxSend
    }

    /// Whether its records are messages of Open MPI.
    pub fn is_open_mpi(self) -> bool {
        matches!(
            self,
            Self::OpenMpiSend | Self::OpenMpiIsend | Self::OpenMpiStart
        )
    }

    /// What an argument is called, where that is known.
    pub fn argument(self, number: usize) -> Option<&'static str> {
        let word = MESSAGE.get(number).filter(|_| self.is_message());
        word.map(|(_, name, _)| *name)
    }
}

impl ProbeRecord {
    /// A word of a message; `None` where it could not be read.
    pub fn message(&self, word: MessageWord) -> Option<u64> {
        let index = MESSAGE.iter().position(|(own, ..)| *own == word)?;
        self.arguments.get(index)?.word()
    }
}
