//! What each function does, as far as the tracer cares.
//!
//! Worked out once, for all functions of the table, from their names and parameters. Called at each call's
//! entry and return, by `process`.

/// Families of collective operations, by names.
mod operation;

use std::sync::LazyLock;

use belljar_abi::{Base, FUNCTIONS, Function};
use belljar_trace::Phase;

pub(crate) use operation::Operation;

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing beyond its arguments.
    Plain,
    /// Moves messages: which sides the call has.
    Message {
        /// Sends with `dest`.
        sends: bool,
        /// Receives with `source`.
        receives: bool,
        /// How far it goes.
        phase: Phase,
    },
    /// Receives a message that a probe took off the queue.
    ReceiveMatched(Phase),
    /// Looks for a message: `flag` tells whether there is one, if it has that.
    Probe,
    /// A collective operation.
    Collective(Operation, Phase),
    /// Accesses another process's memory; in one direction or, fetching, both.
    OneSided {
        /// Puts origin data there.
        puts: bool,
        /// Gets data from there.
        gets: bool,
        /// Whether a request tells of the end.
        phase: Phase,
    },
    /// Completes requests.
    Complete(Completing),
    /// Starts persistent requests.
    Start,
    /// `MPI_Request_free`.
    FreeRequest,
    /// `MPI_Init`, `MPI_Init_thread`, `MPI_Session_init`.
    Initialise,
    /// Makes a communicator.
    MakeCommunicator,
    /// `MPI_Comm_free`, `MPI_Comm_disconnect`.
    FreeCommunicator,
    /// `MPI_Comm_size`, `MPI_Comm_remote_size`, `MPI_Comm_rank`, `MPI_Dist_graph_neighbors_count`.
    AskCommunicator,
    /// Makes a group.
    MakeGroup,
    /// `MPI_Group_free`.
    FreeGroup,
    /// Makes a datatype.
    MakeDatatype,
    /// `MPI_Type_free`.
    FreeDatatype,
    /// `MPI_Type_size`, `MPI_Type_get_extent` and their variants.
    AskDatatype,
    /// Makes a window.
    MakeWindow,
    /// `MPI_Win_test`, `MPI_Parrived`: whether something is over.
    AskIfOver,
    /// `MPI_Win_free`.
    FreeWindow,
}

/// How a function tells which requests it completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completing {
    /// One request, `flag` permitting where there is one.
    One,
    /// All of an array, `flag` permitting where there is one.
    All,
    /// The one at `indx`, `flag` permitting where there is one.
    Any,
    /// `outcount` of them, at `array_of_indices`.
    Some,
}

impl Action {
    /// The action of the function with this number.
    pub(crate) fn of(function: u16) -> Self {
        ACTIONS
            .get(usize::from(function))
            .copied()
            .unwrap_or(Self::Plain)
    }

    /// Whether a call must be followed to its end although it is not recorded.
    pub(crate) fn changes_state(self, function: &Function) -> bool {
        // A handle that a pointer that is not const points to comes out, or goes away.
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

static ACTIONS: LazyLock<Vec<Action>> = LazyLock::new(|| FUNCTIONS.iter().map(classify).collect());

fn classify(function: &Function) -> Action {
    let name = function.name.strip_prefix("MPI_").unwrap_or(function.name);
    let name = name.strip_suffix("_c").unwrap_or(name);
    if let Some(action) = object_action(name) {
        return action;
    }
    let (name, phase) = phase(name);
    let message = |sends, receives| Action::Message {
        sends,
        receives,
        phase,
    };
    match name.as_str() {
        "Send" | "Bsend" | "Ssend" | "Rsend" | "Psend" => message(true, false),
        "Recv" | "Precv" => message(false, true),
        "Sendrecv" | "Sendrecv_replace" => message(true, true),
        "Mrecv" => Action::ReceiveMatched(phase),
        "Probe" | "Mprobe" => Action::Probe,
        _ => match Operation::named(&name) {
            Some(operation) => Action::Collective(operation, phase),
            None => Action::Plain,
        },
    }
}

/// Takes the marks of nonblocking and persistent operations off a name:
/// `Isend` is a `Send` that is begun, `Send_init` one that is prepared.
fn phase(name: &str) -> (String, Phase) {
    if let Some(name) = name.strip_suffix("_init") {
        return (name.to_owned(), Phase::Prepared);
    }
    let mut letters = name.chars();
    match (letters.next(), letters.next()) {
        // The probes' I is no request: they are over when they return.
        (Some('I'), Some(second)) => {
            let base = second.to_uppercase().chain(letters).collect::<String>();
            let phase = match base.as_str() {
                "Probe" | "Mprobe" => Phase::Done,
                _ => Phase::Begun,
            };
            (base, phase)
        }
        _ => (name.to_owned(), Phase::Done),
    }
}

/// Actions on requests, communicators, groups, datatypes, windows.
fn object_action(name: &str) -> Option<Action> {
    Some(match name {
        "Init" | "Init_thread" | "Session_init" => Action::Initialise,
        "Wait" | "Test" => Action::Complete(Completing::One),
        "Waitall" | "Testall" => Action::Complete(Completing::All),
        "Waitany" | "Testany" => Action::Complete(Completing::Any),
        "Waitsome" | "Testsome" => Action::Complete(Completing::Some),
        "Start" | "Startall" => Action::Start,
        "Request_free" => Action::FreeRequest,
        "Comm_size" | "Comm_remote_size" | "Comm_rank" | "Dist_graph_neighbors_count" => {
            Action::AskCommunicator
        }
        "Comm_free" | "Comm_disconnect" => Action::FreeCommunicator,
        "Comm_dup"
        | "Comm_dup_with_info"
        | "Comm_idup"
        | "Comm_idup_with_info"
        | "Comm_split"
        | "Comm_split_type"
        | "Comm_create"
        | "Comm_create_group"
        | "Comm_create_from_group"
        | "Comm_spawn"
        | "Comm_spawn_multiple"
        | "Comm_accept"
        | "Comm_connect"
        | "Comm_join"
        | "Comm_get_parent"
        | "Cart_create"
        | "Cart_sub"
        | "Graph_create"
        | "Dist_graph_create"
        | "Dist_graph_create_adjacent"
        | "Intercomm_create"
        | "Intercomm_create_from_groups"
        | "Intercomm_merge" => Action::MakeCommunicator,
        "Group_free" => Action::FreeGroup,
        "Comm_group"
        | "Comm_remote_group"
        | "Group_incl"
        | "Group_excl"
        | "Group_range_incl"
        | "Group_range_excl"
        | "Group_union"
        | "Group_intersection"
        | "Group_difference"
        | "Group_from_session_pset"
        | "Win_get_group"
        | "File_get_group" => Action::MakeGroup,
        "Type_free" => Action::FreeDatatype,
        "Type_size" | "Type_size_x" | "Type_get_extent" | "Type_get_extent_x" => {
            Action::AskDatatype
        }
        "Win_test" | "Parrived" => Action::AskIfOver,
        "Win_free" => Action::FreeWindow,
        "Win_create" | "Win_create_dynamic" | "Win_allocate" | "Win_allocate_shared" => {
            Action::MakeWindow
        }
        "Put" | "Accumulate" => one_sided(true, false, Phase::Done),
        "Get" => one_sided(false, true, Phase::Done),
        "Get_accumulate" | "Fetch_and_op" | "Compare_and_swap" => {
            one_sided(true, true, Phase::Done)
        }
        "Rput" | "Raccumulate" => one_sided(true, false, Phase::Begun),
        "Rget" => one_sided(false, true, Phase::Begun),
        "Rget_accumulate" => one_sided(true, true, Phase::Begun),
        _ if crate::objects::datatypes::is_datatype_constructor(name) => Action::MakeDatatype,
        _ => return None,
    })
}

fn one_sided(puts: bool, gets: bool, phase: Phase) -> Action {
    Action::OneSided { puts, gets, phase }
}
