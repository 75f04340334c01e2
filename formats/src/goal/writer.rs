//! GOAL schedules in the format of LogGOPSim and ATLAHS: as text, and in the binary form that `txt2bin` creates from it.
//!
//! Collective operations are the messages that the MPI library sends for them. Work is in nanoseconds; the reader determines the
//! duration of calls. A rank's schedule is created and written before the next one's. Used by `belljar trace export`.

/// Operations and their prerequisites.
mod schedule;

use std::io::{self, Seek, SeekFrom, Write};

use crate::messages::{Message, Messages};
use schedule::{RankOperation, Schedule};

/// The first bytes of the binary form.
const MAGIC: u64 = 4223;
/// Bytes before the table of ranks: the magic, ranks, and the numbers of the last processor and of the last card.
const HEAD: u64 = 8 + 4 + 1 + 1;
/// Offsets in the file count from the end of the magic.
const ORIGIN: u64 = 8;

/// Writes a schedule as text.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write_goal(messages: &Messages<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "num_ranks {}", messages.ranks())?;
    for rank in 0..messages.ranks() {
        let schedule = Schedule::of(messages, rank);
        writeln!(out, "\nrank {rank} {{")?;
        let mut edges = schedule.edges.iter().peekable();
        for (number, kind) in (0u32..).zip(&schedule.operations) {
            match kind {
                RankOperation::Send(Message { to, tag, bytes, .. }) => {
                    writeln!(out, "l{number}: send {bytes}b to {to} tag {tag}")?;
                }
                RankOperation::Receive(Message {
                    from, tag, bytes, ..
                }) => writeln!(out, "l{number}: recv {bytes}b from {from} tag {tag}")?,
                RankOperation::Work(units) => writeln!(out, "l{number}: calc {units}")?,
            }
            while let Some(edge) = edges.next_if(|edge| edge.later == number) {
                let word = if edge.started {
                    "irequires"
                } else {
                    "requires"
                };
                writeln!(out, "l{number} {word} l{}", edge.earlier)?;
            }
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}

/// Writes a schedule in the binary form.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write_goal_binary<W: Write + Seek>(messages: &Messages<'_>, out: &mut W) -> io::Result<()> {
    let ranks = messages.ranks();
    out.write_all(&MAGIC.to_le_bytes())?;
    out.write_all(&ranks.to_le_bytes())?;
    out.write_all(&[0, 0])?;
    let mut places: Vec<(u64, u64)> = vec![(0, 0); ranks as usize];
    write_places(&places, out)?;
    let mut at = HEAD + 16 * u64::from(ranks);
    for (rank, place) in (0..ranks).zip(&mut places) {
        let bytes = encoded(&Schedule::of(messages, rank));
        out.write_all(&bytes)?;
        let end = at + bytes.len() as u64;
        *place = (at - ORIGIN, end - ORIGIN);
        at = end;
    }
    out.seek(SeekFrom::Start(HEAD))?;
    write_places(&places, out)?;
    out.seek(SeekFrom::End(0))?;
    Ok(())
}

/// Writes the table of ranks: begin and end of each.
fn write_places(places: &[(u64, u64)], out: &mut dyn Write) -> io::Result<()> {
    places.iter().try_for_each(|(start, end)| {
        out.write_all(&start.to_le_bytes())?;
        out.write_all(&end.to_le_bytes())
    })
}

/// The followers of an operation.
#[derive(Clone, Debug, Default)]
struct Followers {
    complete: Vec<u32>,
    started: Vec<u32>,
    /// The number of operations that it waits for.
    needs: u32,
}

/// Encodes a rank's schedule: the operations without prerequisites, all operations, and the followers of each.
fn encoded(schedule: &Schedule) -> Vec<u8> {
    let mut waiting = vec![Followers::default(); schedule.operations.len()];
    for edge in &schedule.edges {
        waiting[edge.later as usize].needs += 1;
        let earlier = &mut waiting[edge.earlier as usize];
        match edge.started {
            true => earlier.started.push(edge.later),
            false => earlier.complete.push(edge.later),
        }
    }
    let mut out = Vec::new();
    let mut word = |value: u32| out.extend_from_slice(&value.to_le_bytes());
    let roots = (0u32..).zip(&waiting).filter(|(_, it)| it.needs == 0);
    let roots: Vec<u32> = roots.map(|(number, _)| number).collect();
    word(waiting.len() as u32);
    word(roots.len() as u32);
    roots.into_iter().for_each(&mut word);
    let mut listed = 0;
    for (kind, waiting) in schedule.operations.iter().zip(&waiting) {
        operation(kind, waiting, &mut listed, &mut out);
    }
    for waiting in &waiting {
        for later in waiting.complete.iter().chain(&waiting.started) {
            out.extend_from_slice(&later.to_le_bytes());
        }
    }
    out
}

/// Encodes an operation of a rank, after `listed` followers of earlier ones.
fn operation(kind: &RankOperation, waiting: &Followers, listed: &mut u32, out: &mut Vec<u8>) {
    let (code, peer, size, tag) = match *kind {
        RankOperation::Send(of) => (1, of.to, of.bytes, of.tag),
        RankOperation::Receive(of) => (2, of.from, of.bytes, of.tag),
        RankOperation::Work(units) => (3, 0, units, 0),
    };
    out.extend_from_slice(&waiting.needs.to_le_bytes());
    out.push(code);
    out.extend_from_slice(&peer.to_le_bytes());
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(&tag.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    for list in [&waiting.complete, &waiting.started] {
        let length = list.len() as u32;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&listed.to_le_bytes());
        *listed += length;
    }
}

#[cfg(test)]
mod tests;
