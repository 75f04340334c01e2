//! Combines the processes' histories, communicator by communicator.
//!
//! A communicator is known only if all of its members are known to have called its constructor; otherwise it stays unknown.
//! Constructors that depend on others are retried in rounds, within a budget, since a trace may be hostile. Called by `collect`.

/// Communicators of groups: only the group's members call, so calls on the parent do not count them.
mod apart;
/// Connections of jobs: spawns (MPI-4.0, 11.8), and connections at a port (11.9).
mod jobs;
/// Constructors whose result follows from the arguments of the parent's members.
mod outcome;
/// Intercommunicators and communicators merged from them.
mod pairs;
/// Communicators made from an intercommunicator.
mod sides;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use belljar_trace::{GroupMembers, Making, NewCommunicator, SELF, WORLD};

use super::groups::{self, GroupSource};
use super::history::History;
use super::topology::{Neighbors, Topology};
use super::{CommunicatorView, Member, Members, ProcessKey};

/// Limit on rounds of retries for communicators that depend on others.
const MAX_ROUNDS: u32 = 64;

/// Limit on the total of listed members, for bounded memory and time with hostile traces.
const BUDGET: usize = 1 << 24;

/// A communicator in the view of all its members.
#[derive(Debug)]
struct Global {
    members: Members,
    remote: Option<Members>,
    topology: Option<Topology>,
    /// Its members' processes and their own numbers of it, in rank order; the world's may have gaps for processes without a
    /// trace.
    local: Vec<(ProcessKey, u32)>,
    /// For an intercommunicator: the other side's index, once known.
    other_side: Option<usize>,
}

/// The arguments of all members to one constructor, in rank order.
type Records<'a> = Vec<(ProcessKey, &'a NewCommunicator)>;

/// Each process's view of its communicators, and the groups with which it began epochs on windows, by its own numbers.
pub(super) type Resolved = (
    BTreeMap<(ProcessKey, u32), CommunicatorView>,
    BTreeMap<(ProcessKey, u32), Members>,
);

pub(super) struct Resolver<'a> {
    histories: &'a BTreeMap<ProcessKey, History>,
    /// Processes by job and rank.
    ranks: BTreeMap<Member, ProcessKey>,
    /// Jobs whose parent is known.
    spawned: BTreeSet<u32>,
    globals: Vec<Global>,
    /// Indices in `globals` by process and its own number.
    known: BTreeMap<(ProcessKey, u32), usize>,
    /// Communicators, and the number of constructors on them that were examined.
    queue: VecDeque<(usize, u32)>,
    budget: usize,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(
        histories: &'a BTreeMap<ProcessKey, History>,
        jobs: &'a BTreeMap<ProcessKey, u32>,
        sizes: &[u32],
    ) -> Self {
        let mut ranks = BTreeMap::new();
        for (process, job) in jobs {
            if let Some(history) = histories.get(process) {
                let (job, rank) = (*job, history.rank);
                ranks.insert(Member { job, rank }, *process);
            }
        }
        let mut resolver = Self {
            histories,
            ranks,
            spawned: BTreeSet::new(),
            globals: Vec::new(),
            known: BTreeMap::new(),
            queue: VecDeque::new(),
            budget: BUDGET,
        };
        for (job, size) in (0u32..).zip(sizes) {
            let processes = resolver.of_job(job);
            let local = processes.map(|process| (process, WORLD)).collect();
            resolver.add(Global {
                members: Members::World { job, size: *size },
                remote: None,
                topology: None,
                local,
                other_side: None,
            });
        }
        for (process, history) in histories {
            let Some(&job) = jobs.get(process) else {
                continue;
            };
            let rank = history.rank;
            resolver.add(Global {
                members: [Member { job, rank }].into_iter().collect(),
                remote: None,
                topology: None,
                local: vec![(*process, SELF)],
                other_side: None,
            });
        }
        resolver
    }

    /// The processes of a job, in rank order.
    fn of_job(&self, job: u32) -> impl Iterator<Item = ProcessKey> {
        let rank = |rank| Member { job, rank };
        let processes = self.ranks.range(rank(0)..=rank(u32::MAX));
        processes.map(|(_, process)| *process)
    }

    /// Resolves as many communicators as possible.
    pub(super) fn run(mut self) -> Resolved {
        let mut stuck = Vec::new();
        for _ in 0..MAX_ROUNDS {
            while let Some((global, sequence)) = self.queue.pop_front() {
                if self.records(global, sequence).is_none() {
                    continue;
                }
                self.queue.push_back((global, sequence.saturating_add(1)));
                if !self.attempt(global, sequence) {
                    stuck.push((global, sequence));
                }
            }
            // Postponed constructors may be resolvable now.
            stuck.retain(|(global, sequence)| !self.attempt(*global, *sequence));
            self.create_groups();
            self.intercomms_of_groups();
            if self.queue.is_empty() {
                break;
            }
        }
        let epochs = self.epochs();
        (self.views(), epochs)
    }

    /// The groups with which processes began epochs on windows.
    fn epochs(&mut self) -> BTreeMap<(ProcessKey, u32), Members> {
        let mut groups = BTreeMap::new();
        for (process, history) in self.histories {
            for group in &history.epochs {
                if let Some(members) = self.group(*process, *group) {
                    groups.insert((*process, *group), members.into_iter().collect());
                }
            }
        }
        groups
    }

    /// The arguments of a communicator's members to the constructor that they called on it after `sequence` others. `None` unless
    /// all of them are known to have called it.
    fn records(&self, global: usize, sequence: u32) -> Option<Records<'a>> {
        let global = self.globals.get(global)?;
        if global.local.len() != global.members.len() as usize {
            return None;
        }
        let record = |(process, number): &(ProcessKey, u32)| {
            let made = &self.histories.get(process)?.made;
            Some((*process, made.get(&(*number, sequence))?))
        };
        global.local.iter().map(record).collect()
    }

    /// Resolves the result of a constructor. Returns false if something that it depends on is not known (yet).
    fn attempt(&mut self, global: usize, sequence: u32) -> bool {
        let Some(records) = self.records(global, sequence) else {
            return false;
        };
        if self.spend(records.len()).is_none() {
            return false;
        }
        let merges = |record: &NewCommunicator| matches!(record.how, Making::Merge { .. });
        let has_sides = self.globals[global].remote.is_some();
        if has_sides
            && !records.first().is_some_and(|(_, record)| merges(record))
            && let Some(pairs) = self.of_sides(global, sequence, &records)
        {
            for (first, second) in pairs {
                self.add_sides(first, second);
            }
            return true;
        }
        let made = match records.first().map(|(_, record)| &record.how) {
            Some(Making::Intercomm { .. }) => self.intercomm(global, &records),
            Some(Making::Merge { .. }) => self.merge(global, sequence, &records),
            Some(Making::Spawn { .. }) => return self.spawn(global, &records),
            Some(Making::Meet { .. }) => return self.meet(global, &records),
            Some(_) => self.outcome(global, &records),
            None => None,
        };
        let Some(made) = made else {
            return false;
        };
        for new in made {
            self.add(new);
        }
        true
    }

    /// Adds both sides of an intercommunicator. The first has at least one member.
    fn add_sides(&mut self, mut first: Global, mut second: Global) {
        let next = self.globals.len();
        first.other_side = (!second.local.is_empty()).then_some(next + 1);
        second.other_side = Some(next);
        let locals = first.local.iter().chain(&second.local);
        let mut seen = BTreeSet::new();
        for key in locals {
            if self.known.contains_key(key) || !seen.insert(*key) {
                return;
            }
        }
        self.add(first);
        self.add(second);
    }

    /// Adds a communicator, unless it is empty or a member has another one with the same number: such a trace is contradictory,
    /// and could cause endless loops.
    fn add(&mut self, global: Global) {
        let taken = global.local.iter().any(|key| self.known.contains_key(key));
        if taken || global.local.is_empty() {
            return;
        }
        let index = self.globals.len();
        for (process, number) in &global.local {
            self.known.insert((*process, *number), index);
        }
        self.globals.push(global);
        self.queue.push_back((index, 0));
    }

    /// The members of a process's group, in order.
    fn group(&mut self, process: ProcessKey, group: u32) -> Option<Vec<Member>> {
        let mut source = ProcessGroups {
            resolver: self,
            process,
        };
        groups::members(&mut source, group)
    }

    fn spend(&mut self, work: usize) -> Option<()> {
        self.budget = self.budget.checked_sub(work.saturating_add(1))?;
        Some(())
    }

    fn views(mut self) -> BTreeMap<(ProcessKey, u32), CommunicatorView> {
        let mut views: BTreeMap<(ProcessKey, u32), CommunicatorView> = BTreeMap::new();
        for (index, global) in (0usize..).zip(std::mem::take(&mut self.globals)) {
            let identity = global.other_side.unwrap_or(index).min(index) as u32;
            for (process, number) in &global.local {
                let Some(history) = self.histories.get(process) else {
                    continue;
                };
                let view = CommunicatorView {
                    identity,
                    members: global.members.clone(),
                    remote: global.remote.clone(),
                    rank: history.rank,
                    neighbors: None,
                };
                views.insert((*process, *number), view);
            }
            // In rank order, if no member is missing.
            if global.local.len() == global.members.len() as usize {
                for (rank, key) in (0u32..).zip(&global.local) {
                    if let Some(view) = views.get_mut(key) {
                        view.rank = rank;
                        view.neighbors = self.neighbors(&global, rank);
                    }
                }
            }
        }
        views
    }
}

impl Resolver<'_> {
    /// The neighbours of a member of the communicator.
    fn neighbors(&mut self, global: &Global, rank: u32) -> Option<Neighbors> {
        let topology = global.topology.as_ref()?;
        self.spend(topology.work())?;
        topology.neighbors(rank)
    }
}

/// The groups of one process.
struct ProcessGroups<'r, 'a> {
    resolver: &'r mut Resolver<'a>,
    process: ProcessKey,
}

impl GroupSource for ProcessGroups<'_, '_> {
    fn group(&self, number: u32) -> Option<&GroupMembers> {
        self.resolver
            .histories
            .get(&self.process)?
            .groups
            .get(&number)
    }

    fn spend(&mut self, work: usize) -> Option<()> {
        self.resolver.spend(work)
    }

    fn communicator(&mut self, number: u32, remote: bool) -> Option<Vec<Member>> {
        let global = *self.resolver.known.get(&(self.process, number))?;
        let global = &self.resolver.globals[global];
        let members = if remote {
            global.remote.clone()?
        } else {
            global.members.clone()
        };
        self.spend(members.len() as usize)?;
        Some(members.iter().collect())
    }
}
