//! Data of collective operations that must be the same at all members, and their operators.
//!
//! Type signatures of a reduction's data, or of a block that each member sends or receives, are equal at all members
//! (MPI-4.0, 6.4 to 6.11). Called for each pair of members.

use belljar_job::Communicators;
use belljar_mpi::Operation as CollectiveOperation;
use belljar_trace::{Datatype, Event, Implementation, Peer, WORLD};

use super::{TurnContext, TurnPart};
use crate::check::finding::{FindingKind, Findings};
use crate::check::signature::{Signature, word};
use crate::dump::words;

/// Greatest distance of two predefined objects of Open MPI in a program, in bytes.
const OBJECTS_APART: i64 = 1 << 24;

/// Compares the data of two members.
pub(super) fn compare(
    first: &TurnPart,
    part: &TurnPart,
    context: &TurnContext<'_>,
    findings: &mut Findings,
) {
    let operation = part.collective.as_ref().and_then(|own| own.operation);
    let sides = (
        sides(first, operation, context.communicators),
        sides(part, operation, context.communicators),
    );
    let calls = [&first.call, &part.call];
    for one in sides.0.iter().flatten() {
        for other in sides.1.iter().flatten() {
            if let Some(difference) = one.difference(*other, context.types) {
                let [own, others] = [one, other].map(|side| words::datatype(side.data.datatype));
                let text = format!(
                    "{}: {own} at rank {}, and {others} at rank {}{difference}",
                    part.label, first.call.rank, part.call.rank
                );
                findings.add(FindingKind::DatatypeMismatch, &calls, text);
                return;
            }
            if !one.has_bytes_of(*other) {
                let (one, other) = (one.bytes.unwrap_or(0), other.bytes.unwrap_or(0));
                let text = format!(
                    "{}: {one} B at rank {}, and {other} B at rank {}",
                    part.label, first.call.rank, part.call.rank
                );
                findings.add(FindingKind::SizeMismatch, &calls, text);
                return;
            }
        }
    }
    let handle = match operation {
        Some(
            CollectiveOperation::Broadcast
            | CollectiveOperation::Reduce
            | CollectiveOperation::Allreduce
            | CollectiveOperation::Scan
            | CollectiveOperation::Exscan,
        ) => ("count", "datatype"),
        Some(CollectiveOperation::Allgather | CollectiveOperation::Alltoall) => {
            ("recvcount", "recvtype")
        }
        _ => return,
    };
    let mut counts = [&first.call, &part.call].into_iter();
    let has_data = counts.all(|call| word(call, handle.0).is_some_and(|count| count > 0));
    if has_data && anchors_differ(&first.call, &part.call, handle.1) {
        let text = format!("{}: ranks have different datatypes", part.label);
        findings.add(FindingKind::DatatypeMismatch, &calls, text);
    }
}

/// The data of a member that must be the same as at all others, as it sends and as it receives it.
fn sides(
    part: &TurnPart,
    operation: Option<CollectiveOperation>,
    communicators: &Communicators,
) -> [Option<Signature>; 2] {
    use CollectiveOperation as Kind;
    let call = &part.call;
    let process = (call.node, call.process);
    let root = part.collective.as_ref().and_then(|own| own.root);
    let own = communicators.rank(process, part.communicator);
    let is_root = matches!((root, own), (Some(Peer::Rank(root)), Some(own)) if root == own);
    let in_place =
        |buffer| word(call, buffer).is_some_and(|buffer| call.implementation.in_place(buffer));
    let sent = || Signature::of(call, "sendcount", "sendtype").filter(|_| !in_place("sendbuf"));
    let received = || Signature::of(call, "recvcount", "recvtype").filter(|_| !in_place("recvbuf"));
    match operation {
        Some(Kind::Broadcast | Kind::Reduce | Kind::Allreduce | Kind::Scan | Kind::Exscan) => {
            [Signature::of(call, "count", "datatype"), None]
        }
        Some(Kind::ReduceScatterBlock) => [Signature::of(call, "recvcount", "datatype"), None],
        Some(Kind::Allgather | Kind::Alltoall) => [sent(), received()],
        Some(Kind::Gather) => [sent(), is_root.then(received).flatten()],
        Some(Kind::Scatter) => [is_root.then(sent).flatten(), received()],
        // Their counts differ between members.
        Some(Kind::Gatherv | Kind::Allgatherv) => [sent().and_then(datatype_alone), None],
        Some(Kind::Scatterv) => [received().and_then(datatype_alone), None],
        _ => [None, None],
    }
}

/// The basic datatype of a member whose count differs from that of others; `None` without data, and for a derived datatype,
/// whose elements may differ between members.
fn datatype_alone(own: Signature) -> Option<Signature> {
    let is_basic = matches!(own.data.datatype, Datatype::Predefined(_));
    (own.bytes != Some(0) && is_basic).then_some(Signature { bytes: None, ..own })
}

/// Describes the operators of two members if both are predefined, and different.
pub(super) fn operators(first: &TurnPart, part: &TurnPart) -> Option<String> {
    let (one, other) = (&first.call, &part.call);
    if !differ(one, other, "op") {
        return None;
    }
    let named = |call: &Event| words::operation(call, word(call, "op")?);
    Some(match named(one).zip(named(other)) {
        Some((own, others)) => format!(
            "{own} at rank {}, and {others} at rank {}",
            one.rank, other.rank
        ),
        None => "ranks have different operators".to_owned(),
    })
}

/// True if two members name different predefined objects.
fn differ(one: &Event, other: &Event, name: &str) -> bool {
    let (Some(a), Some(b)) = (word(one, name), word(other, name)) else {
        return false;
    };
    match (one.implementation, other.implementation) {
        (Implementation::Mpich, Implementation::Mpich) => {
            // Built-in operators have 0x58 in their first byte.
            a != b && a >> 24 == 0x58 && b >> 24 == 0x58
        }
        (Implementation::StandardAbi(_), Implementation::StandardAbi(_)) => {
            a != b && a < 0x1000 && b < 0x1000
        }
        _ => anchors_differ(one, other, name),
    }
}

/// True if two ranks of one program with Open MPI name different predefined objects. Their addresses differ between processes;
/// the distance from `MPI_COMM_WORLD` does not.
fn anchors_differ(one: &Event, other: &Event, name: &str) -> bool {
    let distance = |call: &Event| {
        let is_known =
            call.implementation == Implementation::OpenMpi && call.communicator == Some(WORLD);
        let anchor = word(call, "comm").filter(|_| is_known)?;
        let distance = word(call, name)?.wrapping_sub(anchor).cast_signed();
        (distance.abs() < OBJECTS_APART).then_some((anchor & 0xfff, distance))
    };
    let (Some((anchor, one)), Some((other_anchor, other))) = (distance(one), distance(other))
    else {
        return false;
    };
    anchor == other_anchor && one != other
}
