//! An event as a JSON object.
//!
//! Keys mean the same in every object, and missing values are omitted rather than null. Potentially huge lists are limited. Used by
//! [`write_event`](super::write_event).

use belljar_job::{Communicators, Members};
use belljar_mpi::Operation;
use belljar_trace::{
    Datatype, Details, Direction, Event, Fact, NewCommunicator, Peer, Status, TraceHeader,
    Transfer, TransferKind,
};
use serde_json::{Map, Value, json};

use super::words;

/// Most members of a communicator that an object lists; larger communicators are omitted.
const MAX_MEMBERS: u32 = 1 << 16;

/// Returns the object of an event. Times are in cycles of the node's processor (`entry`, `exit`) and in picoseconds (`entry_ps`,
/// `duration_ps`, which is the time inside). For an event that stands for several `calls`, these are the entry of the first, the exit of the
/// last, and the total time. The times in the shortest and the longest are added. Missing values are omitted.
pub(super) fn object(
    event: &Event,
    header: &TraceHeader,
    communicators: &Communicators,
) -> Map<String, Value> {
    let frequency = header.frequency(event.node);
    let entry = frequency.time_of(event.entry);
    let ps = |cycles| frequency.time_of(cycles).as_ps();
    let duration = event.exit.map(|exit| match event.calls() {
        1 => frequency.time_of(exit).since(entry).as_ps(),
        _ => ps(event.duration().unwrap_or(0)),
    });
    let several = event.durations().filter(|_| event.calls() > 1);
    let nothing = Details::default();
    let details = event.details.0.as_deref().unwrap_or(&nothing);
    let members = [
        ("function", json!(event.name())),
        ("node", json!(event.node)),
        ("vcpu", json!(event.vcpu)),
        ("process", json!(event.process)),
        ("thread", json!(event.thread)),
        ("job", json!(communicators.job((event.node, event.process)))),
        ("rank", json!(event.rank)),
        ("depth", json!(event.depth)),
        ("entry", json!(event.entry)),
        ("exit", json!(event.exit)),
        ("entry_ps", json!(entry.as_ps())),
        ("duration_ps", json!(duration)),
        ("calls", json!(several.map(|_| event.calls()))),
        ("shortest_ps", json!(several.map(|(least, _)| ps(least)))),
        ("longest_ps", json!(several.map(|(_, most)| ps(most)))),
        ("result", json!(event.result)),
        ("arguments", Value::Object(arguments(event))),
        ("bad", json!(bad(event))),
        (
            "communicator",
            json!(event.communicator.map(words::communicator)),
        ),
        ("transfers", transfers(event, communicators)),
        ("collectives", collectives(event, communicators)),
        ("started", json!(event.started)),
        ("completed", completed(event)),
        ("status", json!(event.status.map(status))),
        ("made", made(event, communicators)),
        ("bounds", json!(details.bounds)),
        ("window", json!(details.window)),
        ("group", json!(group(event, communicators))),
        ("partitioned", json!(details.partitioned)),
        ("persistent", json!(details.persistent)),
        ("over", json!(details.over.then_some(true))),
        (
            "target_datatype",
            json!(details.target_datatype.and_then(datatype)),
        ),
        ("send_displacements", json!(details.send_displacements)),
        (
            "receive_displacements",
            json!(details.receive_displacements),
        ),
    ];
    members
        .into_iter()
        .filter(|(_, value)| !is_empty(value))
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Returns the ranks with which a call begins an epoch on a window.
fn group(event: &Event, communicators: &Communicators) -> Option<Vec<u32>> {
    let group = event.details.0.as_ref()?.group?;
    let members = communicators.group((event.node, event.process), group)?;
    Some(members.iter().map(|member| member.rank).collect())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

fn arguments(event: &Event) -> Map<String, Value> {
    let parameters = event.description().parameters.iter();
    parameters
        .zip(&event.arguments)
        .enumerate()
        .map(|(index, (parameter, word))| {
            let text = event
                .texts
                .iter()
                .find(|text| usize::from(text.argument) == index);
            let value = match text {
                Some(text) => text.text.clone(),
                None => words::argument(event, index, parameter, *word),
            };
            (parameter.name.to_owned(), Value::String(value))
        })
        .collect()
}

fn bad(event: &Event) -> Option<&'static str> {
    let parameter = event
        .description()
        .parameters
        .get(usize::from(event.bad?))?;
    Some(parameter.name)
}

fn transfers(event: &Event, communicators: &Communicators) -> Value {
    let transfer = |transfer: &Transfer| {
        let process = (event.node, event.process);
        let (peer, tag) = matched(transfer, event.status);
        let world = transfer
            .communicator
            .and_then(|communicator| communicators.peer(process, communicator, peer));
        let (mode, access) = match transfer.kind {
            TransferKind::Message(mode) => (Some(mode), None),
            TransferKind::Access(access) => (None, Some(access)),
        };
        json!({
            "direction": transfer.direction,
            "mode": mode.filter(|_| transfer.direction == Direction::Send),
            "access": access,
            "phase": transfer.phase,
            "communicator": transfer.communicator.map(words::communicator),
            "peer": words::peer(peer),
            "peer_job": world.map(|member| member.job),
            "peer_world_rank": world.map(|member| member.rank),
            "tag": tag,
            "count": transfer.count,
            "datatype": datatype(transfer.datatype),
            "bytes": transfer.bytes,
            "exact": transfer.exact,
        })
    };
    event.transfers.iter().map(transfer).collect()
}

/// Returns the peer of a message and its tag: for a receive from any source or with any tag, from its status.
fn matched(transfer: &Transfer, status: Option<Status>) -> (Peer, Option<i32>) {
    let status = status.filter(|status| !status.cancelled);
    match status.filter(|_| transfer.direction == Direction::Receive) {
        Some(status) => {
            let any = transfer.peer == Peer::Any;
            let peer = if any { status.source } else { transfer.peer };
            (peer, transfer.tag.or(Some(status.tag)))
        }
        None => (transfer.peer, transfer.tag),
    }
}

fn datatype(datatype: Datatype) -> Option<String> {
    (datatype != Datatype::Unknown).then(|| words::datatype(datatype))
}

fn collectives(event: &Event, communicators: &Communicators) -> Value {
    let all = event.collectives.iter().map(|collective| {
        let (sent, received) = communicators.volume(event, collective);
        json!({
            "operation": collective.operation.map(Operation::name),
            "phase": collective.phase,
            "communicator": collective.communicator.map(words::communicator),
            "root": collective.root.map(words::peer),
            "sent": sent,
            "received": received,
        })
    });
    all.collect()
}

fn completed(event: &Event) -> Value {
    let all = event.completed.iter().map(|completion| {
        json!({
            "request": completion.request,
            "received": completion.received,
            "exact": completion.exact,
            "status": completion.status.map(status),
            "ending": completion.ending,
        })
    });
    all.collect()
}

fn status(status: Status) -> Value {
    json!({
        "source": words::peer(status.source),
        "tag": status.tag,
        "bytes": status.bytes,
        "cancelled": status.cancelled,
        "observed": status.observed,
    })
}

fn made(event: &Event, communicators: &Communicators) -> Value {
    match &event.fact {
        Some(Fact::Communicator(new)) => communicator(event, new, communicators),
        Some(Fact::Group { number, .. }) => json!({ "group": number }),
        Some(Fact::Datatype(it)) => json!({ "datatype": datatype(*it) }),
        Some(Fact::Launch(launch)) => json!({
            "job_name": launch.name,
            "job_size": launch.size,
        }),
        Some(Fact::Size { size, .. }) => json!({ "size": size }),
        Some(Fact::Rank { rank, .. }) => json!({ "rank": rank }),
        Some(Fact::Scheduled(call)) => json!({ "scheduled": {
            "processor": call.processor,
            "work_cycles": call.work,
            "after": call.after,
            "started": call.started,
            "complete": call.complete,
        } }),
        None => Value::Null,
    }
}

fn communicator(event: &Event, new: &NewCommunicator, communicators: &Communicators) -> Value {
    let process = (event.node, event.process);
    let own = communicators.job(process);
    let of = |number| listed(communicators.members(process, number));
    let members = new.number.and_then(of);
    let to = |number| listed(communicators.remote_members(process, number));
    let remote = new.number.and_then(to);
    let mut made = json!({
        "communicator": new.number.map(words::communicator),
        "members": members.as_ref().map(|(_, ranks)| ranks),
    });
    // Properties that few communicators have are only listed if they are informative.
    if let Some((jobs, _)) = members
        && jobs.iter().any(|job| Some(*job) != own)
    {
        made["member_jobs"] = json!(jobs);
    }
    if let Some((jobs, ranks)) = remote {
        made["remote_members"] = json!(ranks);
        made["remote_member_jobs"] = json!(jobs);
    }
    made
}

/// Returns jobs and ranks of members, unless there are too many.
fn listed(members: Option<&Members>) -> Option<(Vec<u32>, Vec<u32>)> {
    let members = members.filter(|members| members.len() <= MAX_MEMBERS)?;
    Some(members.iter().map(|it| (it.job, it.rank)).unzip())
}
