//! Breakpoints and watchpoints of a connection, each of one process.
//!
//! The debugger sets and removes them between movements; the target learns all of them before each. Called for packets
//! `Z` and `z`.

use super::{Connection, INVALID, REFUSED};
use crate::fields::number;
use crate::target::{Breakpoint, Target, WatchedAccesses, WatchedRange};

/// Most breakpoints, and most watchpoints.
const MOST_BREAKPOINTS: usize = 4096;
const MOST_WATCHPOINTS: usize = 64;
/// Longest watched range in bytes.
const LONGEST_WATCHED: u64 = 1 << 16;

impl Connection {
    /// Sets or removes a breakpoint or a watchpoint of the process of the selected thread.
    pub(super) fn change_point(
        &mut self,
        text: &str,
        set: bool,
        target: &mut impl Target,
    ) -> String {
        // Conditions may follow.
        let text = text.split(';').next().unwrap_or_default();
        let fields: Vec<&str> = text.splitn(3, ',').collect();
        let [kind, address, length] = fields[..] else {
            return INVALID.to_owned();
        };
        let (Some(address), Some(length)) = (number(address), number(length)) else {
            return INVALID.to_owned();
        };
        let pid = self.thread(target).pid;
        let accesses = match kind {
            "0" | "1" => {
                let breakpoint = Breakpoint { pid, address };
                return change(&mut self.breakpoints, breakpoint, set, MOST_BREAKPOINTS);
            }
            "2" => WatchedAccesses::Stores,
            "3" => WatchedAccesses::Loads,
            "4" => WatchedAccesses::All,
            _ => return String::new(),
        };
        if !(1..=LONGEST_WATCHED).contains(&length) {
            return REFUSED.to_owned();
        }
        let range = WatchedRange {
            pid,
            address,
            length,
            accesses,
        };
        change(&mut self.watched, range, set, MOST_WATCHPOINTS)
    }
}

/// Sets or removes `point`; `most` may be set.
fn change<P: PartialEq>(points: &mut Vec<P>, point: P, set: bool, most: usize) -> String {
    points.retain(|other| *other != point);
    if set {
        if points.len() >= most {
            return REFUSED.to_owned();
        }
        points.push(point);
    }
    "OK".to_owned()
}
