//! Purposes of probes: the user's, and a run's own for seeing messages.
//!
//! A library hands each message to one function of its layer for point-to-point messages, or of the transport below. The function's arguments
//! contain the tag and the number of bytes. They identify the receiver by a name internal to the library, which is a number here; other
//! records map such names to processes. Created with the plan, read by the tracer and by analyses that count messages.

use bincode::{Decode, Encode};

use super::{ProbeRecord, ValueKind};

/// A probe's owner and purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum ProbePurpose {
    /// A user's probe.
    #[default]
    User,
    /// `ucp_worker_get_address` of UCX: its argument is the name of the calling process, the UUID of its worker.
    UcxAddress,
    /// `ucp_ep_create` of UCX: gives an endpoint's destination; not recorded.
    UcxEndpoint,
    /// `ucp_tag_send_nbx` and similar functions, by which MPICH sends messages.
    UcxSend,
    /// `mca_pml_ob1_send` of Open MPI.
    OpenMpiSend,
    /// `mca_pml_ob1_isend` of Open MPI.
    OpenMpiIsend,
    /// `mca_pml_ob1_isend_init` of Open MPI: gives the message that a persistent request will send; not recorded.
    OpenMpiPrepare,
    /// `mca_pml_ob1_start` of Open MPI, which sends a prepared message.
    OpenMpiStart,
    /// No function: accesses of the program to memory that MPI operations own, with the words of [`BUFFER_ACCESS`].
    BufferAccess,
}

/// A word of a message's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageWord {
    /// The sender, by its library's name for it.
    From,
    /// The receiver, by its library's name for it.
    To,
    /// The library's number of the communicator; MPICH has an additional number for collective operations.
    Context,
    /// The tag.
    Tag,
    /// Bytes of data.
    Bytes,
}

/// The words of a message's record, in order.
pub const MESSAGE: [(MessageWord, &str, ValueKind); 5] = [
    (MessageWord::From, "from", ValueKind::Pointer),
    (MessageWord::To, "to", ValueKind::Pointer),
    (MessageWord::Context, "context", ValueKind::Unsigned(4)),
    (MessageWord::Tag, "tag", ValueKind::Signed(4)),
    (MessageWord::Bytes, "bytes", ValueKind::Unsigned(8)),
];

/// A word of the record of an access to memory that an MPI operation owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferAccessWord {
    /// The role of the memory: 0 send buffer, 1 receive buffer, 2 origin of an access to a window, 3 its result, 4 memory of a
    /// window. 5 is no access: some buffers of the process were not watched, because there were too many.
    Role,
    /// Entry of the operation's call, in cycles of its node.
    Entry,
    /// The call's thread, by the process's number.
    Thread,
    /// The thread that accessed, by the process's number; 2^32 - 1 if it has not called MPI.
    By,
    /// Address of the first byte that was accessed.
    Address,
    /// Bytes that were accessed; for a window, by all accesses of the instruction between two calls.
    Bytes,
    /// 1 for a store, 0 for a load.
    Store,
    /// Address of the instruction.
    Instruction,
    /// The window, by the process's number; 2^32 - 1 if there is none.
    Window,
    /// Address of the first byte of the buffer, or of the window; 0 for memory that `MPI_Win_attach` attached.
    Start,
}

/// The words of such a record, in order.
pub const BUFFER_ACCESS: [(BufferAccessWord, &str, ValueKind); 10] = [
    (BufferAccessWord::Role, "role", ValueKind::Unsigned(1)),
    (BufferAccessWord::Entry, "entry", ValueKind::Unsigned(8)),
    (BufferAccessWord::Thread, "thread", ValueKind::Unsigned(4)),
    (BufferAccessWord::By, "by", ValueKind::Unsigned(4)),
    (BufferAccessWord::Address, "address", ValueKind::Pointer),
    (BufferAccessWord::Bytes, "bytes", ValueKind::Unsigned(8)),
    (BufferAccessWord::Store, "store", ValueKind::Unsigned(1)),
    (
        BufferAccessWord::Instruction,
        "instruction",
        ValueKind::Pointer,
    ),
    (BufferAccessWord::Window, "window", ValueKind::Unsigned(4)),
    (BufferAccessWord::Start, "start", ValueKind::Pointer),
];

impl ProbePurpose {
    /// True if its calls are recorded on request; other probes are always active, and only update the tracer's tables.
    pub fn is_recorded(self) -> bool {
        matches!(self, Self::User | Self::BufferAccess) || self.is_message()
    }

    /// True if its records are messages, with the words of [`MESSAGE`].
    pub fn is_message(self) -> bool {
        self.is_open_mpi() || self == Self::UcxSend
    }

    /// True if its records are messages of Open MPI.
    pub fn is_open_mpi(self) -> bool {
        matches!(
            self,
            Self::OpenMpiSend | Self::OpenMpiIsend | Self::OpenMpiStart
        )
    }

    /// Returns an argument's name, if known.
    pub fn argument(self, number: usize) -> Option<&'static str> {
        if self == Self::BufferAccess {
            return BUFFER_ACCESS.get(number).map(|(_, name, _)| *name);
        }
        let word = MESSAGE.get(number).filter(|_| self.is_message());
        word.map(|(_, name, _)| *name)
    }
}

impl ProbeRecord {
    /// Returns a word of an access to memory that an MPI operation owns.
    pub fn buffer_access(&self, word: BufferAccessWord) -> Option<u64> {
        let index = BUFFER_ACCESS.iter().position(|(own, ..)| *own == word)?;
        self.arguments.get(index)?.word()
    }

    /// Returns a word of a message; `None` if it could not be read.
    pub fn message(&self, word: MessageWord) -> Option<u64> {
        let index = MESSAGE.iter().position(|(own, ..)| *own == word)?;
        self.arguments.get(index)?.word()
    }
}
