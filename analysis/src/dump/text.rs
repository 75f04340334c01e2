//! An event as a line of text.
//!
//! One event is one line, with texts of guests quoted. The text is for humans; programs should read JSON. Used by
//! [`write_event`](super::write_event).

use std::fmt::Write as _;

use belljar_job::{Communicators, Member, Members};
use belljar_sim::Time;
use belljar_trace::{
    Bounds, Datatype, Details, Direction, Ending, Event, Fact, GroupMembers, Phase, ScheduledCall,
    Status, TraceHeader, Transfer,
};

use super::frames::{self, SiteFrame};
use super::words;
use crate::table::{bytes, time};

/// Most members of a communicator that a line shows.
const MAX_MEMBERS: usize = 16;

/// Formats the line of an event.
pub(super) fn line(event: &Event, header: &TraceHeader, communicators: &Communicators) -> String {
    let frequency = header.frequency(event.node);
    let entry = frequency.time_of(event.entry);
    let mut line = format!(
        "{} rank {:<4} node {:<4} {:indent$}{}(",
        seconds(entry),
        rank(event, communicators),
        event.node,
        "",
        event.name(),
        indent = 2 * usize::from(event.depth.min(16)),
    );
    let parameters = event.description().parameters.iter();
    for (index, (parameter, word)) in parameters.zip(&event.arguments).enumerate() {
        let separator = if index > 0 { ", " } else { "" };
        let argument = words::argument(event, index, parameter, *word);
        add(
            &mut line,
            format_args!("{separator}{}={argument}", parameter.name),
        );
    }
    match (event.exit, event.result) {
        (None, _) => line.push_str(") did not return"),
        (Some(_), None) => line.push(')'),
        (Some(_), Some(0)) => line.push_str(") = MPI_SUCCESS"),
        (Some(_), Some(result)) => add(&mut line, format_args!(") = {result}")),
    }
    if let Some(exit) = event.exit {
        let left = frequency.time_of(exit);
        let calls = event.calls();
        if calls > 1 {
            let inside = frequency.time_of(event.duration().unwrap_or(0));
            let (inside, until) = (time(inside.as_ps()), seconds(left));
            let until = until.trim_start();
            add(
                &mut line,
                format_args!(" <{inside} in {calls} calls until {until}>"),
            );
        } else {
            let span = left.since(entry);
            add(&mut line, format_args!(" <{}>", time(span.as_ps())));
        }
    }
    remarks(&mut line, event, communicators);
    line
}

/// Formats a call site, the innermost function first.
pub(super) fn made_at(frames: &[SiteFrame]) -> String {
    let places: Vec<String> = frames.iter().flat_map(frames::lines).collect();
    match places.is_empty() {
        true => String::new(),
        false => format!(" [at {}]", places.join(" < ")),
    }
}

fn add(line: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = line.write_fmt(arguments);
}

/// Formats seconds with all digits, to the picosecond.
pub(super) fn seconds(time: Time) -> String {
    const PS: u64 = 1_000_000_000_000;
    let ps = time.as_ps();
    format!("{:>5}.{:012}", ps / PS, ps % PS)
}

fn rank(event: &Event, communicators: &Communicators) -> String {
    let job = communicators.job((event.node, event.process));
    match job.filter(|_| communicators.jobs() > 1) {
        Some(job) => format!("{job}.{}", event.rank),
        None => event.rank.to_string(),
    }
}

/// Appends the tracer's interpretation of the call.
fn remarks(line: &mut String, event: &Event, communicators: &Communicators) {
    for transfer in &event.transfers {
        message(line, event, transfer, communicators);
    }
    for collective in &event.collectives {
        let (sent, received) = communicators.volume(event, collective);
        let amount = |amount: Option<u64>| amount.map_or_else(|| "?".to_owned(), bytes);
        if (sent, received) != (Some(0), Some(0)) {
            add(
                line,
                format_args!(" [gives {}, gets {}]", amount(sent), amount(received)),
            );
        }
    }
    if let Some(details) = event.details.0.as_deref() {
        besides(line, details);
        epoch(line, event, details, communicators);
    }
    if let Some(found) = event.status {
        add(line, format_args!(" [{}]", status(found)));
    }
    for request in &event.started {
        add(line, format_args!(" [starts request#{request}]"));
    }
    for completion in &event.completed {
        add(
            line,
            format_args!(" [completes request#{}", completion.request),
        );
        match (completion.ending, completion.status) {
            (Ending::Error(error), _) => add(line, format_args!(": failed, {error}")),
            (_, Some(found)) => add(line, format_args!(": {}", status(found))),
            (_, None) => {}
        }
        if completion.ending == Ending::Untold {
            line.push_str(", perhaps failed");
        }
        line.push(']');
    }
    if let Some(fact) = &event.fact {
        told(line, event, fact, communicators);
    }
    if let Some(bad) = event.bad {
        let parameters = event.description().parameters;
        let name = parameters
            .get(usize::from(bad))
            .map_or("?", |parameter| parameter.name);
        add(line, format_args!(" [bad pointer: {name}]"));
    }
}

/// Appends the members with which an epoch on a window begins, and the partitioned requests of a call.
fn epoch(line: &mut String, event: &Event, details: &Details, communicators: &Communicators) {
    let members = details
        .group
        .and_then(|group| communicators.group((event.node, event.process), group));
    if let Some(members) = members {
        let first = members.iter().take(MAX_DISPLACEMENTS);
        let first: Vec<String> = first.map(|member| member.rank.to_string()).collect();
        let more = match members.len() as usize > MAX_DISPLACEMENTS {
            true => " ...",
            false => "",
        };
        add(
            line,
            format_args!(" [with ranks {}{more}]", first.join(" ")),
        );
    }
    for number in details.partitioned.iter().flatten() {
        add(line, format_args!(" [partitioned#{number}]"));
    }
}

/// Most displacements that a line shows.
const MAX_DISPLACEMENTS: usize = 16;

/// Appends windows, bounds and displacements.
fn besides(line: &mut String, details: &Details) {
    if let Some(window) = details.window {
        add(line, format_args!(" [window#{window}]"));
    }
    if let Some(datatype) = details.target_datatype {
        add(
            line,
            format_args!(" [target {}]", words::datatype(datatype)),
        );
    }
    if let Some(Bounds { lower, extent }) = details.bounds {
        add(line, format_args!(" [lb {lower}, extent {extent}]"));
    }
    let sides = [
        ("sends from", &details.send_displacements),
        ("receives at", &details.receive_displacements),
    ];
    for (verb, all) in sides.into_iter().filter(|(_, all)| !all.is_empty()) {
        let first = all.iter().take(MAX_DISPLACEMENTS);
        let first: Vec<String> = first.map(ToString::to_string).collect();
        let more = if all.len() > MAX_DISPLACEMENTS {
            " ..."
        } else {
            ""
        };
        add(line, format_args!(" [{verb} {}{more}]", first.join(" ")));
    }
}

fn message(line: &mut String, event: &Event, transfer: &Transfer, communicators: &Communicators) {
    let size = match (transfer.datatype, transfer.exact) {
        (Datatype::Unknown, false) => "?".to_owned(),
        (_, true) => bytes(transfer.bytes),
        (_, false) => format!("up to {}", bytes(transfer.bytes)),
    };
    let world = transfer.communicator.and_then(|communicator| {
        let process = (event.node, event.process);
        communicators.peer(process, communicator, transfer.peer)
    });
    let peer = match world {
        Some(member) => format!("rank {}", name(member, event, communicators)),
        None => words::peer(transfer.peer),
    };
    let verb = match (transfer.direction, transfer.phase) {
        (Direction::Send, Phase::Prepared) => "prepares to send",
        (Direction::Receive, Phase::Prepared) => "prepares to receive",
        (Direction::Send, _) => "sends",
        (Direction::Receive, _) => "receives",
    };
    let way = match transfer.direction {
        Direction::Send => "to",
        Direction::Receive => "from",
    };
    add(line, format_args!(" [{verb} {size} {way} {peer}]"));
}

/// Names a process relative to the caller.
fn name(member: Member, event: &Event, communicators: &Communicators) -> String {
    let own = communicators.job((event.node, event.process));
    if own == Some(member.job) {
        member.rank.to_string()
    } else {
        format!("{}.{}", member.job, member.rank)
    }
}

/// Formats the members of a communicator: `2: ranks 0 1`.
fn listed(members: &Members, event: &Event, communicators: &Communicators) -> String {
    let first = members.iter().take(MAX_MEMBERS);
    let ranks: Vec<String> = first.map(|it| name(it, event, communicators)).collect();
    let all = members.len() as usize <= MAX_MEMBERS;
    let more = if all { "" } else { " ..." };
    format!("{}: ranks {}{more}", members.len(), ranks.join(" "))
}

fn status(status: Status) -> String {
    let cancelled = if status.cancelled { ", cancelled" } else { "" };
    let observed = if status.observed { ", observed" } else { "" };
    format!(
        "{} from {} with tag {}{cancelled}{observed}",
        bytes(status.bytes),
        words::peer(status.source),
        status.tag
    )
}

fn told(line: &mut String, event: &Event, fact: &Fact, communicators: &Communicators) {
    match fact {
        Fact::Communicator(new) => match new.number {
            None => line.push_str(" [not a member]"),
            Some(number) => {
                let name = words::communicator(number);
                let process = (event.node, event.process);
                match communicators.members(process, number) {
                    Some(members) => {
                        let ranks = listed(members, event, communicators);
                        add(line, format_args!(" [makes {name} of {ranks}"));
                        if let Some(remote) = communicators.remote_members(process, number) {
                            let ranks = listed(remote, event, communicators);
                            add(line, format_args!(", to {ranks}"));
                        }
                        line.push(']');
                    }
                    None => add(line, format_args!(" [makes {name}]")),
                }
            }
        },
        Fact::Group { number, members } => {
            let of = match members {
                GroupMembers::Of(communicator) => {
                    format!(" of {}", words::communicator(*communicator))
                }
                _ => String::new(),
            };
            add(line, format_args!(" [makes group#{number}{of}]"));
        }
        Fact::Datatype(datatype) => {
            add(
                line,
                format_args!(" [makes {}]", words::datatype(*datatype)),
            );
        }
        Fact::Launch(launch) => {
            line.push_str(" [job");
            if let Some(name) = &launch.name {
                add(line, format_args!(" {name:?}"));
            }
            if let Some(size) = launch.size {
                add(line, format_args!(" of {size}"));
            }
            line.push(']');
        }
        Fact::Size { size, .. } => add(line, format_args!(" [size {size}]")),
        Fact::Rank { rank, .. } => add(line, format_args!(" [rank {rank}]")),
        Fact::Scheduled(call) => scheduled(line, call),
    }
}

/// Appends the conditions of a scheduled call, by the process's numbers of points.
fn scheduled(line: &mut String, call: &ScheduledCall) {
    let list = |points: &[u32]| {
        let points: Vec<String> = points.iter().map(u32::to_string).collect();
        points.join(", ")
    };
    add(
        line,
        format_args!(" [scheduled on processor {}", call.processor),
    );
    if call.work > 0 {
        add(line, format_args!(", {} cycles of work", call.work));
    }
    if !call.after.is_empty() {
        add(line, format_args!(", after {}", list(&call.after)));
    }
    if let Some(point) = call.started {
        add(line, format_args!(", begins {point}"));
    }
    if let Some(point) = call.complete {
        add(line, format_args!(", completes {point}"));
    }
    line.push(']');
}
