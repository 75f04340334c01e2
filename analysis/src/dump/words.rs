//! Names of values: ranks, communicators, datatypes, operations, arguments.
//!
//! A value without a name is shown as its number. Both formats use the same words. Used by `text` and `json`.

use belljar_mpi::{Base, Parameter};
use belljar_trace::datatypes::{PREDEFINED, by_handle};
use belljar_trace::{Datatype, Event, Implementation, Peer, SELF, UNDEFINED, WORLD, standard_abi};

/// MPICH's built-in operations, by the low byte of their handles.
const MPICH_OPERATIONS: [&str; 15] = [
    "MPI_OP_NULL",
    "MPI_MAX",
    "MPI_MIN",
    "MPI_SUM",
    "MPI_PROD",
    "MPI_LAND",
    "MPI_BAND",
    "MPI_LOR",
    "MPI_BOR",
    "MPI_LXOR",
    "MPI_BXOR",
    "MPI_MINLOC",
    "MPI_MAXLOC",
    "MPI_REPLACE",
    "MPI_NO_OP",
];

/// Formats a peer: a rank is a number.
pub(crate) fn peer(peer: Peer) -> String {
    match peer {
        Peer::Rank(rank) => rank.to_string(),
        Peer::Any => "MPI_ANY_SOURCE".to_owned(),
        Peer::Null => "MPI_PROC_NULL".to_owned(),
        Peer::Root => "MPI_ROOT".to_owned(),
        Peer::Invalid(rank) => rank.to_string(),
    }
}

/// Formats a communicator, by its process's own number.
pub(crate) fn communicator(number: u32) -> String {
    match number {
        WORLD => "MPI_COMM_WORLD".to_owned(),
        SELF => "MPI_COMM_SELF".to_owned(),
        number => format!("comm#{number}"),
    }
}

/// Formats a datatype.
pub(crate) fn datatype(datatype: Datatype) -> String {
    match datatype {
        Datatype::Predefined(index) => PREDEFINED
            .get(usize::from(index))
            .map_or("MPI_?", |row| row.name)
            .to_owned(),
        Datatype::Derived { number, size } => format!("type#{number}({size} B)"),
        Datatype::Unknown => "type?".to_owned(),
    }
}

/// Formats an argument.
pub(crate) fn argument(event: &Event, index: usize, parameter: &Parameter, word: u64) -> String {
    let text = event
        .texts
        .iter()
        .find(|text| usize::from(text.argument) == index);
    if let Some(text) = text {
        return format!("{:?}", text.text);
    }
    if parameter.pointer > 0 {
        return pointer(event, parameter, word);
    }
    match parameter.base {
        Base::Int | Base::Fint => integer(event, parameter.name, word as i32),
        Base::Aint | Base::Count | Base::Offset => word.cast_signed().to_string(),
        Base::Comm => event
            .communicator
            .filter(|_| is_first(event, index, Base::Comm))
            .map_or_else(|| format!("{word:#x}"), communicator),
        Base::Datatype => datatype_argument(event, parameter.name, word),
        Base::Op => operation(event, word).map_or_else(|| format!("{word:#x}"), str::to_owned),
        _ => format!("{word:#x}"),
    }
}

/// True if an argument is the first of its kind, which the event describes.
fn is_first(event: &Event, index: usize, base: Base) -> bool {
    let mut parameters = event.description().parameters.iter();
    let first = parameters.position(|parameter| parameter.base == base && parameter.pointer == 0);
    first == Some(index)
}

fn pointer(event: &Event, parameter: &Parameter, word: u64) -> String {
    let implementation = event.implementation;
    match parameter.base {
        Base::Void if implementation.in_place(word) => "MPI_IN_PLACE".to_owned(),
        Base::Status if implementation.ignores_status(word) => {
            if parameter.name == "array_of_statuses" {
                "MPI_STATUSES_IGNORE".to_owned()
            } else {
                "MPI_STATUS_IGNORE".to_owned()
            }
        }
        _ if word == 0 => "NULL".to_owned(),
        _ => format!("{word:#x}"),
    }
}

fn integer(event: &Event, name: &str, value: i32) -> String {
    match name {
        "dest" | "source" | "root" | "target_rank" => peer(event.implementation.peer(value)),
        "tag" | "sendtag" | "recvtag" if event.implementation.tag(value).is_none() => {
            "MPI_ANY_TAG".to_owned()
        }
        "color" | "split_type" if i64::from(value) == UNDEFINED => "MPI_UNDEFINED".to_owned(),
        _ => value.to_string(),
    }
}

fn datatype_argument(event: &Event, name: &str, word: u64) -> String {
    if let Some(index) = by_handle(event.implementation, word) {
        return datatype(Datatype::Predefined(index));
    }
    // Calls with one message have one datatype; calls with two name them by side.
    let side = match name {
        "recvtype" | "result_datatype" => event.transfers.last(),
        _ => event.transfers.first(),
    };
    let known = side.map(|transfer| transfer.datatype);
    match known.or_else(|| collective_datatype(event, name)) {
        Some(known) if known != Datatype::Unknown && name != "target_datatype" => datatype(known),
        _ => format!("{word:#x}"),
    }
}

/// Returns the datatype of a collective operation's data that the trace has for an argument.
pub(crate) fn collective_datatype(event: &Event, name: &str) -> Option<Datatype> {
    let datatypes = event.details.0.as_deref()?.datatypes.as_deref()?;
    let side = match name {
        "recvtype" => &datatypes.received,
        _ => &datatypes.sent,
    };
    side.first().copied()
}

/// Returns the name of a predefined reduction operator; `None` for others, and if the library's handles are addresses.
pub(crate) fn operation(event: &Event, word: u64) -> Option<&'static str> {
    match event.implementation {
        Implementation::Mpich if word >> 8 == 0x58_0000 => {
            let names = &MPICH_OPERATIONS;
            names.get((word & 0xff) as usize).copied()
        }
        Implementation::StandardAbi(_) => standard_abi::operation(word),
        Implementation::Mpich | Implementation::OpenMpi => None,
    }
}
