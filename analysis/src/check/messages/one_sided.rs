//! Data of accesses to windows: datatypes at the origin and at the target.
//!
//! Both have the same type signature, and the destination has room for the data of the source (MPI-4.0, 12.3). Called for each
//! fact.

use std::rc::Rc;

use belljar_job::{Fact, Operation, Origin};
use belljar_trace::{Datatype, Direction, Event};

use crate::check::buffers::target_data;
use crate::check::finding::{FindingKind, Findings};
use crate::check::signature::types::{Comparison, TypeTable, TypedData, difference};
use crate::dump::words;

/// Compares the origin's data of an access that a fact begins with the target's.
pub(super) fn take(call: &Rc<Event>, fact: &Fact, types: &TypeTable, findings: &mut Findings) {
    let Fact::Begun {
        origin: Origin::Transfer(index),
        what: Operation::Access { .. },
        ..
    } = fact
    else {
        return;
    };
    let Some(transfer) = call.transfers.get(*index) else {
        return;
    };
    let target = target_data(call, transfer);
    let own = TypedData {
        datatype: transfer.datatype,
        count: transfer.count,
        ..target
    };
    let bytes = |data: TypedData| match data.datatype {
        Datatype::Unknown => None,
        datatype => datatype.size()?.checked_mul(data.count),
    };
    let Some((own_bytes, target_bytes)) = bytes(own).zip(bytes(target)) else {
        return;
    };
    let is_fetch = transfer.direction == Direction::Receive;
    let (source, destination) = match is_fetch {
        true => (target_bytes, own_bytes),
        false => (own_bytes, target_bytes),
    };
    if source == 0 || destination == 0 {
        return;
    }
    if let Comparison::Differ(at) = types.compare(own, target) {
        let (one, other) = (
            words::datatype(own.datatype),
            words::datatype(target.datatype),
        );
        let text = format!(
            "{}: {one} at the origin, and {other} at the target{}",
            call.name(),
            difference(at)
        );
        findings.add(FindingKind::DatatypeMismatch, &[call], text);
    }
    if source > destination {
        let text = format!(
            "{}: {source} B do not fit into {destination} B",
            call.name()
        );
        findings.add(FindingKind::Truncation, &[call], text);
    }
}
