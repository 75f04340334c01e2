//! From a scenario's `[[network.hold]]`, `[[network.lose]]`, `[[nodes.detour]]` and `[[nodes.fail]]` to holds and losses of frames, detours and outages.
//!
//! Nodes, times and overlaps are checked when the plan is made. A run may continue from a checkpoint with other delays, as long as
//! those that began before it are the same. Called by `plan`, at the start of nodes, and by the check of a checkpoint.

use std::ops::Range;

use belljar_fabric::{FrameLoss, Hold, Impairment, Outage, Settings, Topology};
use belljar_sim::{Span, Time};
use belljar_vmm::Absence;

use super::{NodeKind, Plan};
use crate::plan::error::PlanError;
use crate::scenario::engine::Engine;
use crate::scenario::{DetourTable, HoldTable, NodeFailure, Scenario};

/// Failures of nodes.
mod failures;
/// Losses of chosen frames.
mod losses;

pub(crate) use failures::PowerLoss;
pub(crate) use losses::loss_words;

/// Most tables of one kind.
const MOST_TABLES: usize = 10_000;
/// The end of a detour of a processor that never returns: beyond all limits of runs.
const NEVER: Time = Time::from_ps(1 << 62);

/// A delay or a failure of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delay {
    /// Virtual time of its start.
    pub(crate) at: Time,
    /// All of its values, in words.
    pub(crate) words: String,
}

/// Delays and failures of a run at given times.
#[derive(Clone, Debug, Default)]
pub(crate) struct DelayPlan {
    /// By node.
    absences: Vec<(u32, Absence)>,
    /// Frames that wait.
    holds: Vec<Hold>,
    /// Frames that are lost.
    losses: Vec<FrameLoss>,
    /// Ranks that are killed, by node: times, and the rank, or all.
    kills: Vec<(u32, (Time, Option<u32>))>,
    /// Lines for the init of nodes, by node.
    commands: Vec<(u32, (Time, String))>,
    /// Outages of nodes' links.
    outages: Vec<(u32, Outage)>,
    /// Times without power after which nodes start again, by node.
    restarts: Vec<(u32, PowerLoss)>,
    /// All of them, by start.
    pub(crate) all: Vec<Delay>,
}

impl Plan {
    /// The lines for the init of node `node`.
    pub(crate) fn commands_of(&self, node: u32) -> Vec<(Time, String)> {
        let own = self.delays.commands.iter();
        let own = own.filter(|(of, _)| *of == node);
        own.map(|(_, command)| command.clone()).collect()
    }

    /// The kills of ranks on node `node`: times, and the rank, or all.
    pub(crate) fn kills_of(&self, node: u32) -> Vec<(Time, Option<u32>)> {
        let own = self.delays.kills.iter();
        let own = own.filter(|(of, _)| *of == node);
        own.map(|(_, kill)| *kill).collect()
    }
}

impl DelayPlan {
    /// The time from which on no delay and no failure changes the run; `Time::MAX` if a node or a link never returns.
    pub(crate) fn end(&self) -> Time {
        let absences = self.absences.iter().map(|(_, absence)| absence.until);
        let outages = self.outages.iter().map(|(_, outage)| outage.until);
        let holds = self.holds.iter().map(|hold| hold.until);
        let commands = self.commands.iter().map(|(_, (at, _))| *at);
        let losses = self.losses.iter().map(|loss| losses::begin(loss.start));
        absences
            .chain(losses)
            .chain(outages)
            .chain(holds)
            .chain(commands)
            .max()
            .unwrap_or(Time::ZERO)
    }

    /// Warnings about delays and failures that begin after the end of a run, at `end`.
    pub(crate) fn late(&self, end: Time) -> impl Iterator<Item = String> {
        let late = self.all.iter().filter(move |delay| delay.at > end);
        late.map(|delay| {
            format!(
                "{}: this is after the end of the run, without effect",
                delay.words
            )
        })
    }

    /// Resolves the tables of `scenario`, whose nodes are of `kinds`.
    pub(super) fn resolve(
        scenario: &Scenario,
        kinds: &[NodeKind],
        engine: Engine,
    ) -> Result<Self, PlanError> {
        let mut plan = Self::default();
        let nodes = scenario.nodes.count();
        check_number("network.hold", scenario.network.holds.len())?;
        for table in &scenario.network.holds {
            plan.hold(table, nodes)?;
        }
        check_number("network.lose", scenario.network.losses.len())?;
        for table in &scenario.network.losses {
            plan.lose(table, nodes)?;
        }
        let detours = &scenario.nodes.detour;
        check_number("nodes.detour", detours.len())?;
        check_number("nodes.fail", scenario.nodes.fail.len())?;
        if engine == Engine::Kvm && !(detours.is_empty() && scenario.nodes.fail.is_empty()) {
            let limits =
                "left out under engine \"kvm\", as only engine \"exact\" stops at given times";
            return fail("nodes.detour or nodes.fail", "given", limits);
        }
        for table in detours {
            plan.detour(table, kinds, nodes)?;
        }
        for table in &scenario.nodes.fail {
            node_exists("nodes.fail.node", table.node, nodes)?;
            if table.kind == NodeFailure::Restart {
                failures::can_restart(scenario, table.node)?;
            }
            let length = table.length.map(|length| length.0);
            let failure = (table.kind, length, table.rank);
            plan.fail(table.node, kinds, table.at.0, failure)?;
        }
        plan.check_overlaps()?;
        plan.all
            .sort_by(|one, other| (one.at, &one.words).cmp(&(other.at, &other.words)));
        Ok(plan)
    }

    fn hold(&mut self, table: &HoldTable, nodes: u32) -> Result<(), PlanError> {
        let keys = ["network.hold.from", "network.hold.to"];
        pair_exists(keys, table.from, table.to, nodes)?;
        let (at, until) = interval(
            ["network.hold.at", "network.hold.for"],
            table.at.0,
            table.length.0,
        )?;
        let (from, to) = (table.from, table.to);
        self.holds.push(Hold {
            from,
            to,
            at,
            until,
        });
        self.note(
            at,
            format!("frames from node {from} to node {to} wait from {at} to {until}"),
        );
        Ok(())
    }

    fn detour(
        &mut self,
        table: &DetourTable,
        kinds: &[NodeKind],
        nodes: u32,
    ) -> Result<(), PlanError> {
        let node = table.node;
        node_exists("nodes.detour.node", node, nodes)?;
        let vcpus = vcpus_of(kinds, node);
        if table.processor.is_some_and(|processor| processor >= vcpus) {
            let value = table.processor.unwrap_or_default();
            return fail(
                "nodes.detour.processor",
                value,
                "the number of a processor of the node, from 0",
            );
        }
        let (at, until) = interval(
            ["nodes.detour.at", "nodes.detour.for"],
            table.at.0,
            table.length.0,
        )?;
        let own = table
            .processor
            .map_or(0..vcpus, |processor| processor..processor + 1);
        self.note(
            at,
            format!("processors {own:?} of node {node} are away from {at} to {until}"),
        );
        self.take_away(node, own, at, until);
        Ok(())
    }

    /// Takes these processors of a node away from `at` to `until`.
    fn take_away(&mut self, node: u32, processors: Range<u32>, at: Time, until: Time) {
        let absences = processors.map(|processor| Absence {
            processor,
            at,
            until,
        });
        self.absences
            .extend(absences.map(|absence| (node, absence)));
    }

    fn note(&mut self, at: Time, words: String) {
        self.all.push(Delay { at, words });
    }

    /// Refuses delays of the same frames, or of the same processor, that overlap.
    fn check_overlaps(&self) -> Result<(), PlanError> {
        let mut holds = self.holds.clone();
        holds.sort_unstable();
        let pair = holds.windows(2).find(|pair| {
            (pair[0].from, pair[0].to) == (pair[1].from, pair[1].to) && pair[1].at < pair[0].until
        });
        if let Some(pair) = pair {
            let limits = "after the end of the hold of the same nodes before it";
            return fail("network.hold.at", pair[1].at, limits);
        }
        let mut absences = self.absences.clone();
        absences.sort_unstable();
        let pair = absences.windows(2).find(|pair| {
            let of = |at: usize| (pair[at].0, pair[at].1.processor);
            of(0) == of(1) && pair[1].1.at < pair[0].1.until
        });
        match pair {
            Some(pair) => {
                let limits =
                    "after the end of the detour or failure of the same processor before it";
                fail("nodes.detour.at or nodes.fail.at", pair[1].1.at, limits)
            }
            None => Ok(()),
        }
    }

    /// Adds the holds and losses of frames and the outages of nodes' links to a network's settings.
    pub(super) fn affect(
        &self,
        topology: &Topology,
        settings: &mut Settings,
    ) -> Result<(), PlanError> {
        settings.holds.clone_from(&self.holds);
        settings.losses.clone_from(&self.losses);
        let impairments = &mut settings.impairments;
        for (node, outage) in &self.outages {
            let link = topology.link_of(*node);
            let place = impairments.iter().position(|(of, _)| *of == link);
            let place = place.unwrap_or_else(|| {
                impairments.push((link, Impairment::default()));
                impairments.len() - 1
            });
            let outages = &mut impairments[place].1.outages;
            outages.push(*outage);
            outages.sort_by_key(|outage| outage.from);
            if impairments[place].1.check().is_err() {
                let limits = "at a time at which the node's link works";
                return fail("nodes.fail.at", outage.from, limits);
            }
        }
        Ok(())
    }
}

fn fail<T>(key: &'static str, value: impl ToString, limits: &'static str) -> Result<T, PlanError> {
    let value = value.to_string();
    Err(PlanError::Range { key, value, limits })
}

fn check_number(key: &'static str, tables: usize) -> Result<(), PlanError> {
    match tables > MOST_TABLES {
        true => fail(key, format!("{tables} tables"), "at most 10000"),
        false => Ok(()),
    }
}

fn node_exists(key: &'static str, node: u32, nodes: u32) -> Result<(), PlanError> {
    match node < nodes {
        true => Ok(()),
        false => fail(key, node, "the number of a node, from 0"),
    }
}

/// Checks the sending and the receiving node of frames.
fn pair_exists(keys: [&'static str; 2], from: u32, to: u32, nodes: u32) -> Result<(), PlanError> {
    node_exists(keys[0], from, nodes)?;
    node_exists(keys[1], to, nodes)?;
    match from == to {
        true => fail(keys[1], to, "another node than the sending one"),
        false => Ok(()),
    }
}

/// Start and end of a delay.
fn interval(keys: [&'static str; 2], at: Span, length: Span) -> Result<(Time, Time), PlanError> {
    let latest = NEVER.as_ps() / 2;
    if at.as_ps() > latest {
        return fail(keys[0], at, "at most 26 days");
    }
    if length == Span::ZERO || length.as_ps() > latest {
        return fail(keys[1], length, "above zero, at most 26 days");
    }
    let at = Time::ZERO + at;
    Ok((at, at + length))
}

fn vcpus_of(kinds: &[NodeKind], node: u32) -> u32 {
    let own = kinds.iter().rfind(|kind| kind.first <= node);
    own.map_or(0, |kind| kind.vcpus)
}

#[cfg(test)]
mod tests;
