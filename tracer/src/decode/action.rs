//! The effect of each function, as far as it concerns the tracer.
//!
//! It follows from each function's meaning, computed once for all functions of the table. Used at each call's entry and
//! return, by `process`.

use std::sync::LazyLock;

use belljar_mpi::{
    Access, Base, CallKind, Completes, Creation, Epoch, FUNCTIONS, Function, Meaning, Object,
    Operation, Phase, meaning,
};

use crate::objects::datatypes::is_datatype_constructor;

/// The effect of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// No effect beyond its arguments.
    Plain,
    /// Transfers messages.
    Message {
        /// Sends to `dest`.
        sends: bool,
        /// Receives from `source`.
        receives: bool,
        /// Its progress.
        phase: Phase,
    },
    /// Receives a message that a matched probe removed from the queue.
    ReceiveMatched(Phase),
    /// Probes for a message: `flag`, if there is one, says whether it was found.
    Probe,
    /// A collective operation.
    Collective(Operation, Phase),
    /// Accesses another process's memory, in one direction or, when fetching, in both.
    OneSided {
        /// Writes origin data there.
        puts: bool,
        /// Reads data from there.
        gets: bool,
        /// Its progress: with a request, its end is reported later.
        phase: Phase,
    },
    /// Completes requests.
    Complete(Completes),
    /// Starts persistent requests.
    Start,
    /// `MPI_Request_free`.
    FreeRequest,
    /// `MPI_Init`, `MPI_Init_thread`, `MPI_Session_init`.
    Initialise,
    /// Creates a communicator.
    MakeCommunicator,
    /// `MPI_Comm_free`, `MPI_Comm_disconnect`.
    FreeCommunicator,
    /// `MPI_Comm_size`, `MPI_Comm_remote_size`, `MPI_Comm_rank`, `MPI_Dist_graph_neighbors_count`.
    AskCommunicator,
    /// Creates a group.
    MakeGroup,
    /// `MPI_Group_free`.
    FreeGroup,
    /// Creates a datatype.
    MakeDatatype,
    /// `MPI_Type_free`.
    FreeDatatype,
    /// `MPI_Type_size`, `MPI_Type_get_extent` and their variants.
    AskDatatype,
    /// Creates a window.
    MakeWindow,
    /// `MPI_Win_test`, `MPI_Parrived`: queries whether an operation is complete.
    AskIfOver,
    /// `MPI_Win_free`.
    FreeWindow,
}

impl Action {
    /// Returns the action of the function with this number.
    pub(crate) fn of(function: u16) -> Self {
        ACTIONS
            .get(usize::from(function))
            .copied()
            .unwrap_or(Self::Plain)
    }

    /// True if a call must be followed to its end even when it is not recorded.
    pub(crate) fn changes_state(self, function: &Function) -> bool {
        // A handle behind a non-const pointer is created or freed.
        let hands_over = function.parameters.iter().any(|parameter| {
            let handle = matches!(
                parameter.base,
                Base::Request
                    | Base::Message
                    | Base::Comm
                    | Base::Group
                    | Base::Datatype
                    | Base::Win
            );
            handle && parameter.pointer > 0 && !parameter.is_const
        });
        (self != Self::Plain && hands_over)
            || matches!(
                self,
                Self::AskCommunicator | Self::AskDatatype | Self::Initialise
            )
    }
}

static ACTIONS: LazyLock<Vec<Action>> = LazyLock::new(|| {
    let numbers = 0..FUNCTIONS.len() as u16;
    numbers.map(|number| classify(meaning(number))).collect()
});

fn classify(meaning: &Meaning) -> Action {
    let phase = meaning.phase;
    let message = |sends, receives| Action::Message {
        sends,
        receives,
        phase,
    };
    match meaning.kind {
        CallKind::Send(_) | CallKind::SendPartitioned => message(true, false),
        CallKind::Receive | CallKind::ReceivePartitioned => message(false, true),
        CallKind::SendReceive => message(true, true),
        CallKind::ReceiveMatched => Action::ReceiveMatched(phase),
        CallKind::Probe | CallKind::ProbeMatched => Action::Probe,
        CallKind::Collective(operation) => Action::Collective(operation, phase),
        CallKind::Access(access) => one_sided(access, phase),
        CallKind::Complete(how) => Action::Complete(how),
        CallKind::Start => Action::Start,
        CallKind::FreeRequest => Action::FreeRequest,
        CallKind::Init | CallKind::Make(Object::Session) => Action::Initialise,
        CallKind::Epoch(Epoch::Test) | CallKind::Arrived => Action::AskIfOver,
        _ => object_action(meaning),
    }
}

/// Returns actions on communicators, groups, datatypes and windows.
fn object_action(meaning: &Meaning) -> Action {
    match meaning.kind {
        CallKind::MakeCommunicator(
            Creation::OfParent | Creation::OfMembers | Creation::Across | Creation::Existing,
        ) => Action::MakeCommunicator,
        CallKind::Free(Object::Communicator) => Action::FreeCommunicator,
        CallKind::Make(Object::Group) => Action::MakeGroup,
        CallKind::Free(Object::Group) => Action::FreeGroup,
        CallKind::Make(Object::Datatype) if is_datatype_constructor(meaning.base) => {
            Action::MakeDatatype
        }
        CallKind::Free(Object::Datatype) => Action::FreeDatatype,
        CallKind::Make(Object::Window) => Action::MakeWindow,
        CallKind::Free(Object::Window) => Action::FreeWindow,
        CallKind::Ask(_) => match meaning.base {
            "Comm_size" | "Comm_remote_size" | "Comm_rank" | "Dist_graph_neighbors_count" => {
                Action::AskCommunicator
            }
            "Type_size" | "Type_size_x" | "Type_get_extent" | "Type_get_extent_x" => {
                Action::AskDatatype
            }
            _ => Action::Plain,
        },
        _ => Action::Plain,
    }
}

fn one_sided(access: Access, phase: Phase) -> Action {
    Action::OneSided {
        puts: access.puts(),
        gets: access.gets(),
        phase,
    }
}
