//! Conversion of actions to calls.
//!
//! The operands of actions are read as by SimGrid 3.32 and 4.1. Reductions work on their data, which is time after the call. Used for each line.

use belljar_trace::{Amount, Direction, Event, Phase, Share, Who};

use super::rank::RankReader;
use super::words::{DOUBLE, Words};

/// Actions without a separate call.
const OTHERS: [&str; 12] = [
    "init",
    "finalize",
    "comm_size",
    "comm_split",
    "comm_dup",
    "compute",
    "sleep",
    "location",
    "send",
    "isend",
    "recv",
    "irecv",
];
/// Actions that wait, and collective operations.
const MORE: [&str; 20] = [
    "test",
    "wait",
    "waitall",
    "sendrecv",
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "scan",
    "exscan",
    "alltoall",
    "alltoallv",
    "gather",
    "scatter",
    "allgather",
    "gatherv",
    "allgatherv",
    "scatterv",
    "reducescatter",
    "iprobe",
];

/// True for actions whose words SimGrid's replay ignores; SimGrid itself writes some.
pub(super) fn ignores_words(action: &str) -> bool {
    let without_effect = ["comm_size", "comm_split", "comm_dup", "location", "iprobe"];
    without_effect.contains(&action) || matches!(action, "init" | "finalize" | "waitall")
}

/// True for a known action, by its name in lower case.
pub(super) fn is_known(action: &str) -> bool {
    OTHERS.contains(&action) || MORE.contains(&action)
}

/// Executes an action, which is a call, time, or nothing.
pub(super) fn carry_out(
    rank: &mut RankReader<'_>,
    action: &str,
    words: &mut Words<'_>,
) -> Result<Option<Event>, String> {
    match action {
        "init" => {
            if words.left() > 0 {
                rank.element = DOUBLE;
            }
            Ok(Some(rank.call("MPI_Init")))
        }
        "finalize" => Ok(Some(rank.call("MPI_Finalize"))),
        "compute" => {
            rank.work(words.work()?);
            Ok(None)
        }
        "sleep" => {
            rank.sleep(words.work()?);
            Ok(None)
        }
        // These have no effect in SimGrid's replay either.
        "comm_size" | "comm_split" | "comm_dup" | "location" | "iprobe" => Ok(None),
        "send" | "isend" | "recv" | "irecv" => message(rank, action, words).map(Some),
        "wait" | "test" => {
            let (from, to, tag) = (words.count()?, words.count()?, words.signed()?);
            let rank_of = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
            let tag = i32::try_from(tag).map_err(|_| format!("{tag} is no tag"))?;
            let key = (rank_of(from), rank_of(to), tag.max(-1));
            match action {
                "wait" => rank.wait(key),
                _ => rank.test(key).map(Some),
            }
        }
        "waitall" => rank.wait_for_all(),
        "sendrecv" => both(rank, words).map(Some),
        _ => collective(rank, action, words).map(Some),
    }
}

fn message(
    rank: &mut RankReader<'_>,
    action: &str,
    words: &mut Words<'_>,
) -> Result<Event, String> {
    let (peer, tag, count) = (words.signed()?, words.signed()?, words.count()?);
    let bytes = count.saturating_mul(words.datatype()?);
    let message = rank.message(peer, tag, bytes)?;
    let (name, direction, begins) = match action {
        "send" => ("MPI_Send", Direction::Send, false),
        "isend" => ("MPI_Isend", Direction::Send, true),
        "recv" => ("MPI_Recv", Direction::Receive, false),
        _ => ("MPI_Irecv", Direction::Receive, true),
    };
    let mut event = rank.call(name);
    if begins {
        rank.begin(&mut event, direction, message)?;
        return Ok(event);
    }
    if direction == Direction::Receive && matches!(message.peer, belljar_trace::Peer::Rank(_)) {
        event.status = message.status();
    }
    event
        .transfers
        .push(message.transfer(direction, Phase::Done));
    Ok(event)
}

/// Reads `sendRecv SENT TO RECEIVED FROM SENT-TYPE RECEIVED-TYPE`, with tag 0.
fn both(rank: &RankReader<'_>, words: &mut Words<'_>) -> Result<Event, String> {
    let (sent, to) = (words.count()?, words.signed()?);
    let (received, from) = (words.count()?, words.signed()?);
    let (sent_type, received_type) = (words.datatype()?, words.datatype()?);
    let mut event = rank.call("MPI_Sendrecv");
    let out = rank.message(to, 0, sent.saturating_mul(sent_type))?;
    let back = rank.message(from, 0, received.saturating_mul(received_type))?;
    event.transfers = vec![
        out.transfer(Direction::Send, Phase::Done),
        back.transfer(Direction::Receive, Phase::Done),
    ];
    event.status = back.status();
    Ok(event)
}

/// The amounts of a collective action, and its root.
struct Told {
    name: &'static str,
    root: Option<u32>,
    amounts: (Amount, Amount),
    work: f64,
}

fn collective(
    rank: &mut RankReader<'_>,
    action: &str,
    words: &mut Words<'_>,
) -> Result<Event, String> {
    let told = match action {
        "barrier" => Told {
            name: "MPI_Barrier",
            root: None,
            amounts: (Amount::NOTHING, Amount::NOTHING),
            work: 0.0,
        },
        "bcast" | "reduce" | "allreduce" | "scan" | "exscan" => reduction(action, words)?,
        "alltoall" | "allgather" | "gather" | "scatter" => blocks(action, words)?,
        "alltoallv" => pieces_of_both(words, rank.ranks)?,
        "gatherv" | "allgatherv" | "scatterv" | "reducescatter" => {
            pieces(action, words, rank.own(), rank.ranks)?
        }
        other => {
            return Err(format!(
                "{other:?} is no action of SimGrid's replay that is known"
            ));
        }
    };
    if let Some(root) = told.root.filter(|root| *root >= rank.ranks) {
        return Err(format!("there is no rank {root}"));
    }
    let event = rank.collective(told.name, told.root, told.amounts.0, told.amounts.1);
    rank.work(told.work);
    Ok(event)
}

fn root(words: &mut Words<'_>) -> Result<u32, String> {
    match words.left() {
        0 => Ok(0),
        _ => u32::try_from(words.count()?).map_err(|_| "there is no such root".to_owned()),
    }
}

fn whole(count: u64, element: u64) -> Amount {
    Amount::whole(Some(count.saturating_mul(element)))
}

/// Reads `bcast N [ROOT [TYPE]]`, `reduce N WORK [ROOT [TYPE]]`, `allreduce N WORK [TYPE]` and similar actions.
fn reduction(action: &str, words: &mut Words<'_>) -> Result<Told, String> {
    let count = words.count()?;
    let work = match action {
        "bcast" => 0.0,
        _ => words.work()?,
    };
    let root = match action {
        "bcast" | "reduce" => Some(root(words)?),
        _ => None,
    };
    let data = whole(count, words.datatype()?);
    let (name, amounts) = match action {
        "bcast" => (
            "MPI_Bcast",
            (data.clone().only(Who::Root), data.only(Who::Others)),
        ),
        "reduce" => ("MPI_Reduce", (data.clone(), data.only(Who::Root))),
        "allreduce" => ("MPI_Allreduce", (data.clone(), data)),
        "scan" => ("MPI_Scan", (data.clone(), data)),
        _ => ("MPI_Exscan", (data.clone(), data)),
    };
    Ok(Told {
        name,
        root,
        amounts,
        work,
    })
}

/// Reads `alltoall SENT RECEIVED [TYPE TYPE]`, `gather SENT RECEIVED ROOT [TYPE TYPE]` and similar actions.
fn blocks(action: &str, words: &mut Words<'_>) -> Result<Told, String> {
    let (sent, received) = (words.count()?, words.count()?);
    let root = match action {
        "gather" | "scatter" => Some(root(words)?),
        _ => None,
    };
    let sent = whole(sent, words.datatype()?);
    let received = whole(received, words.datatype()?);
    let (name, amounts) = match action {
        "alltoall" => (
            "MPI_Alltoall",
            (sent.each(Share::Members), received.each(Share::Members)),
        ),
        "allgather" => ("MPI_Allgather", (sent, received.each(Share::Members))),
        "gather" => (
            "MPI_Gather",
            (sent, received.each(Share::Members).only(Who::Root)),
        ),
        _ => (
            "MPI_Scatter",
            (sent.each(Share::Members).only(Who::Root), received),
        ),
    };
    Ok(Told {
        name,
        root,
        amounts,
        work: 0.0,
    })
}

/// Returns pieces of this many elements.
fn parts(counts: Vec<u64>, element: u64) -> Amount {
    let pieces: Vec<u64> = counts
        .into_iter()
        .map(|count| count.saturating_mul(element))
        .collect();
    let sum = pieces.iter().copied().fold(0, u64::saturating_add);
    Amount {
        bytes: Some(sum),
        pieces,
        share: Share::Whole,
        who: Who::Everyone,
    }
}

/// Reads `alltoallv SENT-BUFFER SENT... RECEIVED-BUFFER RECEIVED... [TYPE TYPE]`.
fn pieces_of_both(words: &mut Words<'_>, ranks: u32) -> Result<Told, String> {
    words.count()?;
    let sent = words.counts(ranks)?;
    words.count()?;
    let received = words.counts(ranks)?;
    let (sent_type, received_type) = (words.datatype()?, words.datatype()?);
    Ok(Told {
        name: "MPI_Alltoallv",
        root: None,
        amounts: (parts(sent, sent_type), parts(received, received_type)),
        work: 0.0,
    })
}

/// Reads `gatherv SENT RECEIVED... ROOT [TYPE TYPE]`, `scatterv SENT... RECEIVED ROOT [TYPE TYPE]`, `allgatherv SENT RECEIVED... [TYPE TYPE]`,
/// `reducescatter RECEIVED... WORK [TYPE]`.
fn pieces(action: &str, words: &mut Words<'_>, own: u32, ranks: u32) -> Result<Told, String> {
    if action == "reducescatter" {
        let counts = words.counts(ranks)?;
        let work = words.work()?;
        let element = words.datatype()?;
        let share = counts.get(own as usize).copied().unwrap_or(0);
        return Ok(Told {
            name: "MPI_Reduce_scatter",
            root: None,
            amounts: (parts(counts, element), whole(share, element)),
            work,
        });
    }
    let scatters = action == "scatterv";
    let (one, all) = match scatters {
        true => {
            let all = words.counts(ranks)?;
            (words.count()?, all)
        }
        false => (words.count()?, words.counts(ranks)?),
    };
    let root = match action {
        "allgatherv" => None,
        _ => Some(root(words)?),
    };
    let (sent_type, received_type) = (words.datatype()?, words.datatype()?);
    let (name, amounts) = match action {
        "allgatherv" => (
            "MPI_Allgatherv",
            (whole(one, sent_type), parts(all, received_type)),
        ),
        "gatherv" => (
            "MPI_Gatherv",
            (
                whole(one, sent_type),
                parts(all, received_type).only(Who::Root),
            ),
        ),
        _ => (
            "MPI_Scatterv",
            (
                parts(all, sent_type).only(Who::Root),
                whole(one, received_type),
            ),
        ),
    };
    Ok(Told {
        name,
        root,
        amounts,
        work: 0.0,
    })
}
