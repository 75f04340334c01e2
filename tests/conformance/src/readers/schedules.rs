//! Sends and receives of TI and GOAL, in the order of each rank.
//!
//! Both formats are written from the same program, so that they have its matching. Called by the comparison of a
//! trace.

use std::collections::BTreeMap;

use belljar_formats::Messages;
use belljar_formats::goal::write_goal;
use belljar_formats::ti::{Amounts, write_rank};
use belljar_program::Program;

use super::{Difference, Differences};
use crate::truth::Truth;

/// A side of a message: the peer, and the bytes.
type Side = (u32, u64);

/// Bytes of messages of the program's own leave this remainder.
const OWN: (u64, u64) = (16, 7);

/// Sends and receives of a rank.
#[derive(Debug, Default)]
struct Sides {
    sends: Vec<Side>,
    receives: Vec<Side>,
}

pub(super) fn check(truth: &Truth, program: &Program) -> Vec<Difference> {
    let mut ti = Differences::new("ti");
    let messages = Messages::new(program, true);
    let mut balance = Balance::default();
    for rank in 0..messages.ranks() {
        let mut text = Vec::new();
        let amounts = Amounts {
            flops_per_second: 1e9,
        };
        let written = write_rank(&messages, rank, amounts, &mut text);
        ti.unless(written.is_ok(), || format!("rank {rank} cannot be written"));
        for line in String::from_utf8_lossy(&text).lines() {
            balance.add(rank, line);
        }
        let found = ti_sides(&String::from_utf8_lossy(&text));
        compare(truth, program, rank, found, &mut ti);
    }
    balance.check(&mut ti);
    let mut goal = Differences::new("goal");
    let mut text = Vec::new();
    let written = write_goal(&Messages::new(program, false), &mut text);
    goal.unless(written.is_ok(), || {
        "the schedule cannot be written".to_owned()
    });
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut balance = Balance::default();
    for (rank, own) in (0..).zip(text.split("\nrank ").skip(1)) {
        compare(truth, program, rank, goal_sides(own), &mut goal);
        for line in own.lines() {
            balance.add(rank, line);
        }
    }
    balance.check(&mut goal);
    ti.all.extend(goal.all);
    ti.all
}

impl Sides {
    fn add(&mut self, sends: bool, side: Side) {
        if side.1 % OWN.0 != OWN.1 {
            return;
        }
        match sends {
            true => self.sends.push(side),
            false => self.receives.push(side),
        }
    }
}

/// Messages by sender, receiver and tag: sends less receives.
#[derive(Debug, Default)]
struct Balance(BTreeMap<(u32, u32, u64), i64>);

impl Balance {
    /// Counts a line's message, if it is one with a tag.
    fn add(&mut self, rank: u32, line: &str) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (action, peer, tag) = match words[..] {
            [_, action, peer, tag, _] if !line.contains("requires") => (action, peer, tag),
            [_, action, _, _, peer, _, tag, ..] => (action, peer, tag),
            _ => return,
        };
        let (Ok(peer), Ok(tag)) = (peer.parse(), tag.parse()) else {
            return;
        };
        match action {
            "send" | "isend" => *self.0.entry((rank, peer, tag)).or_default() += 1,
            "recv" | "irecv" => *self.0.entry((peer, rank, tag)).or_default() -= 1,
            _ => {}
        }
    }

    /// Every message has both sides, without which a replay would never end.
    fn check(&self, differences: &mut Differences) {
        for ((from, to, tag), count) in &self.0 {
            differences.unless(*count == 0, || {
                format!("{count} messages from {from} to {to} with tag {tag} have one side")
            });
        }
    }
}

/// Lines such as `0 isend 1 5 23`: rank, action, peer, tag, bytes.
fn ti_sides(text: &str) -> Sides {
    let mut sides = Sides::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if let [
            _,
            action @ ("send" | "isend" | "recv" | "irecv"),
            peer,
            _,
            bytes,
        ] = words[..]
            && let (Ok(peer), Ok(bytes)) = (peer.parse(), bytes.parse())
        {
            sides.add(action.ends_with("send"), (peer, bytes));
        }
    }
    sides
}

/// Lines such as `l3: send 23b to 1 tag 5`.
fn goal_sides(text: &str) -> Sides {
    let mut sides = Sides::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if let [_, action @ ("send" | "recv"), bytes, _, peer, ..] = words[..]
            && let (Ok(peer), Ok(bytes)) = (peer.parse(), bytes.trim_end_matches('b').parse())
        {
            sides.add(action == "send", (peer, bytes));
        }
    }
    sides
}

fn compare(
    truth: &Truth,
    program: &Program,
    rank: u32,
    found: Sides,
    differences: &mut Differences,
) {
    let mut expected = Sides::default();
    let mut optional = Sides::default();
    let mut several = false;
    let mut calls: Vec<_> = truth
        .begun
        .iter()
        .filter(|(key, _)| key.0 == rank)
        .collect();
    calls.sort_by_key(|(key, _)| key.2);
    for (key, operations) in calls {
        several |= key.1 > 0;
        for operation in operations {
            let (send, sends) = match truth.is_send(*operation) {
                true => (Some(operation), true),
                false => (truth.sends.get(operation), false),
            };
            let Some(send) = send else { continue };
            let receive = truth
                .pairs()
                .find(|(own, _)| own == send)
                .map(|(_, receive)| receive);
            let Some(receive) = receive else { continue };
            let peer = if sends {
                truth.rank(receive)
            } else {
                truth.rank(*send)
            };
            // Both formats leave out messages of a rank to itself.
            if peer == rank {
                continue;
            }
            let side = (peer, truth.bytes(*send));
            expected.add(sends, side);
            if truth.is_open(*send) {
                optional.add(sends, side);
            }
        }
    }
    let lists = [
        ("sends", expected.sends, found.sends, optional.sends),
        (
            "receives",
            expected.receives,
            found.receives,
            optional.receives,
        ),
    ];
    for (what, mut expected, mut found, optional) in lists {
        // The program counts guessed matches, which are of messages that the trace leaves open.
        if program.unknown.guessed > 0 {
            expected.retain(|side| !optional.contains(side));
            found.retain(|side| !optional.contains(side));
        }
        // The formats have a single order for all threads of a rank, which differs from the order of each
        // thread.
        if several {
            expected.sort_unstable();
            found.sort_unstable();
        }
        let fits = is_subsequence(&found, &expected, &optional);
        differences.unless(fits, || {
            format!("rank {rank} {what} {found:?} instead of {expected:?}")
        });
    }
}

/// True if `found` is `expected` without some of `optional`.
fn is_subsequence(found: &[Side], expected: &[Side], optional: &[Side]) -> bool {
    let mut found = found.iter().peekable();
    for side in expected {
        if found.next_if_eq(&side).is_none() && !optional.contains(side) {
            return false;
        }
    }
    found.next().is_none()
}
