//! Failures of nodes, from `[[nodes.fail]]`.
//!
//! A node without power is away and its link is down. If it starts again, a clone of the boot's snapshot takes its place, so its later
//! absences are those of another node. Part of `delays`.

use belljar_fabric::Outage;
use belljar_sim::{Span, Time};
use belljar_vmm::Absence;

use super::{DelayPlan, NEVER, fail, interval, vcpus_of};
use crate::plan::error::PlanError;
use crate::plan::{NodeKind, Plan};
use crate::scenario::{BootKind, NodeFailure, Scenario};

/// The command to a node's init that ends a rank.
const KILL: &str = "kill";

/// The kind of a failure, with its length and rank, if given.
type Failure = (NodeFailure, Option<Span>, Option<u32>);

/// A time without power, after which the node starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PowerLoss {
    /// Its begin.
    pub(crate) at: Time,
    /// The node's start.
    pub(crate) until: Time,
}

impl Plan {
    /// The begin of the time without power of node `node` at `now`, if it has none.
    pub fn dead_since(&self, node: u32, now: Time) -> Option<Time> {
        let losses = self.restarts_of(node).into_iter();
        let died = self.delays.absences.iter();
        let died = died.filter(|(of, absence)| *of == node && absence.until == NEVER);
        let died = died.map(|(_, absence)| absence.at..NEVER);
        let mut all = losses.map(|loss| loss.at..loss.until).chain(died);
        all.find(|time| time.contains(&now)).map(|time| time.start)
    }

    /// The times without power of node `node` after which it starts again, in order.
    pub(crate) fn restarts_of(&self, node: u32) -> Vec<PowerLoss> {
        let own = self.delays.restarts.iter();
        let own = own.filter(|(of, _)| *of == node);
        let mut own: Vec<PowerLoss> = own.map(|(_, loss)| *loss).collect();
        own.sort_unstable();
        own
    }

    /// The detours at given times of node `node` after it has started again `restarted` times.
    pub(crate) fn absences_of(&self, node: u32, restarted: usize) -> Vec<Absence> {
        let own = self.delays.absences.iter();
        let own = own.filter(|(of, _)| *of == node);
        let own: Vec<Absence> = own.map(|(_, absence)| *absence).collect();
        absences_after(&own, &self.restarts_of(node), restarted)
    }
}

/// The absences of a node after `restarted` of its `losses` of power, from all of the scenario. It is away until it starts, and from the next
/// loss on for good.
pub(super) fn absences_after(
    own: &[Absence],
    losses: &[PowerLoss],
    restarted: usize,
) -> Vec<Absence> {
    let begin = restarted.checked_sub(1).and_then(|last| losses.get(last));
    let begin = begin.map_or(Time::ZERO, |loss| loss.until);
    let end = losses.get(restarted).map_or(NEVER, |loss| loss.at);
    let own = own.iter().filter_map(|absence| {
        let (at, until) = (absence.at, absence.until);
        if until == begin && begin > Time::ZERO {
            return Some(Absence {
                at: Time::ZERO,
                ..*absence
            });
        }
        let until = if at == end { NEVER } else { until };
        (at >= begin && at <= end).then_some(Absence { until, ..*absence })
    });
    own.collect()
}

/// Refuses a restart that cannot be carried out.
pub(super) fn can_restart(scenario: &Scenario, node: u32) -> Result<(), PlanError> {
    const KEY: &str = "nodes.fail.kind";
    const VALUE: &str = "restart";
    if node == 0 {
        let limits =
            "of another node than 0, whose end is the end of the run; use \"die\" or \"pause\"";
        return fail(KEY, VALUE, limits);
    }
    if scenario.nodes.boot == BootKind::Each {
        let limits = "left out with nodes.boot = \"each\": the node starts from the snapshot of its boot; use nodes.boot = \"clone\"";
        return fail(KEY, VALUE, limits);
    }
    if scenario.infiniband.is_some() {
        let limits = "left out with the table infiniband: the links of these cards have no failures; use \"pause\" or \"kill\"";
        return fail(KEY, VALUE, limits);
    }
    Ok(())
}

impl DelayPlan {
    pub(super) fn fail(
        &mut self,
        node: u32,
        kinds: &[NodeKind],
        at: Span,
        (kind, length, rank): Failure,
    ) -> Result<(), PlanError> {
        const KEYS: [&str; 2] = ["nodes.fail.at", "nodes.fail.for"];
        if kind == NodeFailure::Kill {
            return self.kill(node, at, length, rank);
        }
        if let Some(rank) = rank {
            let limits = "left out unless kind = \"kill\"";
            return fail("nodes.fail.rank", rank, limits);
        }
        let (at, until) = match (kind, length) {
            (NodeFailure::Die, Some(length)) => {
                return fail(
                    KEYS[1],
                    length,
                    "left out for a node that dies; use kind = \"pause\"",
                );
            }
            (NodeFailure::Pause, None) => {
                return fail(KEYS[1], "left out", "given for kind = \"pause\"");
            }
            (NodeFailure::Restart, None) => {
                let limits = "given for kind = \"restart\": the time without power";
                return fail(KEYS[1], "left out", limits);
            }
            (_, None) => (interval(KEYS, at, Span::from_ps(1))?.0, NEVER),
            (_, Some(length)) => interval(KEYS, at, length)?,
        };
        if kind != NodeFailure::Link {
            let own = 0..vcpus_of(kinds, node);
            self.take_away(node, own, at, until);
        }
        if kind == NodeFailure::Restart {
            self.restarts.push((node, PowerLoss { at, until }));
        }
        if kind != NodeFailure::Pause {
            let until = if until == NEVER { Time::MAX } else { until };
            self.outages.push((node, Outage { from: at, until }));
        }
        let end = if until == NEVER {
            String::new()
        } else {
            format!(" to {until}")
        };
        self.note(at, format!("node {node}: {kind:?} from {at}{end}"));
        Ok(())
    }

    /// Has the node's init end a rank's process, or those of all ranks.
    fn kill(
        &mut self,
        node: u32,
        at: Span,
        length: Option<Span>,
        rank: Option<u32>,
    ) -> Result<(), PlanError> {
        if let Some(length) = length {
            let limits = "left out for a rank that is killed";
            return fail("nodes.fail.for", length, limits);
        }
        let keys = ["nodes.fail.at", "nodes.fail.for"];
        let at = interval(keys, at, Span::from_ps(1))?.0;
        let whom = rank.map_or("all".to_owned(), |rank| rank.to_string());
        self.note(
            at,
            format!("node {node}: ranks ({whom}) are killed at {at}"),
        );
        self.commands.push((node, (at, format!("{KILL} {whom}"))));
        self.kills.push((node, (at, rank)));
        Ok(())
    }
}
