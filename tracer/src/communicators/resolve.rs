//! Puts the processes' histories together, communicator by communicator.

mod outcome;
mod pairs;

use std::collections::{BTreeMap, VecDeque};

use super::collect::History;
use super::groups::{self, GroupSource};
use super::topology::{Neighbors, Topology};
use super::{Members, ProcessKey, View};
use crate::object::{GroupMembers, Making, NewCommunicator, SELF, WORLD};

/// Rounds of trying again what depends on communicators that are resolved later.
const MAX_ROUNDS: u32 = 64;

/// Members written out in all: bounds the memory and time that a hostile trace takes.
const BUDGET: usize = 1 << 24;

/// A communicator as all of its members know it.
#[derive(Debug)]
struct Global {
    job: u32,
    members: Members,
    remote: Option<Members>,
    topology: Option<Topology>,
    /// Its members' processes and their own numbers of it, in the order of its ranks; the
    /// world's may have gaps where processes left no trace.
    local: Vec<(ProcessKey, u32)>,
    /// For an intercommunicator: the other side's, once known.
    other_side: Option<usize>,
}

/// What all members passed to one constructor, in the order of their ranks.
type Records<'a> = Vec<(ProcessKey, &'a NewCommunicator)>;

pub(super) struct Resolver<'a> {
    histories: &'a BTreeMap<ProcessKey, History>,
    /// Processes by job and world rank.
    ranks: BTreeMap<(u32, u32), ProcessKey>,
    globals: Vec<Global>,
    /// Indices in `globals` by process and its own number.
    known: BTreeMap<(ProcessKey, u32), usize>,
    /// Communicators, and how many constructors on them have been looked at.
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
                ranks.insert((*job, history.rank), *process);
            }
        }
        let mut resolver = Self {
            histories,
            ranks,
            globals: Vec::new(),
            known: BTreeMap::new(),
            queue: VecDeque::new(),
            budget: BUDGET,
        };
        for (job, size) in (0u32..).zip(sizes) {
            let processes = resolver.ranks.range((job, 0)..=(job, u32::MAX));
            let local = processes.map(|(_, process)| (*process, WORLD)).collect();
            resolver.add(Global {
                job,
                members: Members::World(*size),
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
            resolver.add(Global {
                job,
                members: [history.rank].into_iter().collect(),
                remote: None,
                topology: None,
                local: vec![(*process, SELF)],
                other_side: None,
            });
        }
        resolver
    }

    /// Resolves all that can be.
    pub(super) fn run(mut self) -> BTreeMap<(ProcessKey, u32), View> {
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
            // What was stuck may follow from what is known by now.
            stuck.retain(|(global, sequence)| !self.attempt(*global, *sequence));
            self.create_groups();
            if self.queue.is_empty() {
                break;
            }
        }
        self.views()
    }

    /// What the members of a communicator passed to the constructor that they called on
    /// it after `sequence` others. `None` unless all of them are known to have.
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

    /// Resolves what a constructor made. Returns false when something that it depends on is
    /// not known (yet).
    fn attempt(&mut self, global: usize, sequence: u32) -> bool {
        let Some(records) = self.records(global, sequence) else {
            return false;
        };
        if self.spend(records.len()).is_none() {
            return false;
        }
        let made = match records.first().map(|(_, record)| &record.how) {
            Some(Making::Intercomm { .. }) => self.intercomm(global, &records),
            Some(Making::Merge { .. }) => self.merge(global, sequence, &records),
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

    /// Adds a communicator, unless nobody is in it, or one of its members has another one of
    /// that number: a trace that says so contradicts itself, and could go round in circles.
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

    /// `MPI_Comm_create_group`s: called by the group's members only, so found by parent, members,
    /// tag, and how many there were before.
    fn create_groups(&mut self) {
        type Meeting = (usize, Vec<u32>, i32, u32);
        let mut meetings: BTreeMap<Meeting, Vec<(ProcessKey, u32)>> = BTreeMap::new();
        for (process, history) in self.histories {
            let mut before: BTreeMap<(usize, Vec<u32>, i32), u32> = BTreeMap::new();
            for new in &history.apart {
                let (Some(parent), Some(number), Making::CreateGroup { group, tag }) =
                    (new.parent, new.number, &new.how)
                else {
                    continue;
                };
                let members = group.and_then(|group| self.group(*process, group));
                let parent = self.known.get(&(*process, parent)).copied();
                let (Some(members), Some(parent)) = (members, parent) else {
                    continue;
                };
                // Kept twice below.
                if self.spend(2 * members.len()).is_none() {
                    return;
                }
                let count = before.entry((parent, members.clone(), *tag)).or_default();
                let meeting = (parent, members, *tag, *count);
                *count += 1;
                if !self.known.contains_key(&(*process, number)) {
                    meetings
                        .entry(meeting)
                        .or_default()
                        .push((*process, number));
                }
            }
        }
        for ((parent, members, _, _), present) in meetings {
            let job = self.globals[parent].job;
            if let Some(global) = self.gathered(job, members, &present) {
                self.add(global);
            }
        }
    }

    /// A communicator of these world ranks, if just their processes are present.
    fn gathered(
        &self,
        job: u32,
        members: Vec<u32>,
        present: &[(ProcessKey, u32)],
    ) -> Option<Global> {
        let numbers: BTreeMap<ProcessKey, u32> = present.iter().copied().collect();
        if members.is_empty() || numbers.len() != members.len() {
            return None;
        }
        let local = members
            .iter()
            .map(|rank| {
                let process = self.ranks.get(&(job, *rank))?;
                Some((*process, *numbers.get(process)?))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Global {
            job,
            members: members.into_iter().collect(),
            remote: None,
            topology: None,
            local,
            other_side: None,
        })
    }

    /// The world ranks of a process's group, in order.
    fn group(&mut self, process: ProcessKey, group: u32) -> Option<Vec<u32>> {
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

    fn views(mut self) -> BTreeMap<(ProcessKey, u32), View> {
        let mut views: BTreeMap<(ProcessKey, u32), View> = BTreeMap::new();
        for global in std::mem::take(&mut self.globals) {
            for (process, number) in &global.local {
                let Some(history) = self.histories.get(process) else {
                    continue;
                };
                let view = View {
                    members: global.members.clone(),
                    remote: global.remote.clone(),
                    rank: history.rank,
                    neighbors: None,
                };
                views.insert((*process, *number), view);
            }
            // In the order of ranks, where no member is missing.
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
    /// The neighbours of a communicator's member.
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

    fn communicator(&mut self, number: u32, remote: bool) -> Option<Vec<u32>> {
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
