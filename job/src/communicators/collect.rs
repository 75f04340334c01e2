//! Collects the events about communicators, process by process.
//!
//! Each process's events come in trace order, selected or not. `Resolver` combines the histories once all
//! events are known. Called by analyses in a first pass over the trace.

use std::collections::{BTreeMap, BTreeSet};

use belljar_trace::{Event, Fact, Launch, TraceHeader, WORLD};

use super::history::History;
use super::resolve::Resolver;
use super::{Communicators, Member, ProcessKey};

/// Collects the events about communicators, and then [`resolve`](Self::resolve)s them.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    histories: BTreeMap<ProcessKey, History>,
}

impl Collector {
    /// Creates an empty collector.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records an event, selected or not. Each process's events come in trace order.
    pub fn observe(&mut self, event: &Event, header: &TraceHeader) {
        use belljar_trace::Making;
        let start = header.frequency(event.node).time_of(event.entry);
        let history = self
            .histories
            .entry((event.node, event.process))
            .or_insert_with(|| History {
                start,
                ..History::default()
            });
        history.rank = event.rank;
        history.start = history.start.min(start);
        if let Some(details) = &event.details.0 {
            history.epochs.extend(details.group);
        }
        match &event.fact {
            Some(Fact::Communicator(new)) => {
                match &new.how {
                    Making::Intercomm { .. } => history.intercomms.push(new.clone()),
                    Making::Spawn { .. } | Making::Meet { .. } => {
                        let exit = event.exit.unwrap_or(event.entry);
                        let end = header.frequency(event.node).time_of(exit);
                        history.meetings.push((new.clone(), [start, end]));
                    }
                    Making::Parent => history.parent = Some(new.number),
                    _ => {}
                }
                match (new.parent, &new.how) {
                    (Some(_), Making::CreateGroup { .. } | Making::IntercommGroups { .. }) => {
                        history.apart.push(new.clone())
                    }
                    (Some(parent), _) => {
                        history.made.insert((parent, new.sequence), new.clone());
                    }
                    (None, _) => {}
                }
            }
            Some(Fact::Group { number, members }) => {
                history.groups.insert(*number, members.clone());
            }
            Some(Fact::Launch(launch)) => {
                history.world_size = history.world_size.max(launch.size.unwrap_or(0));
                history.launch = launch.clone();
            }
            Some(Fact::Rank { communicator, rank }) => {
                history.ranks.insert(*communicator, *rank);
            }
            Some(Fact::Size { communicator, size }) if *communicator == WORLD => {
                history.world_size = *size;
                history.is_singleton = *size == 1 && history.launch.size > Some(1);
            }
            _ => {}
        }
    }

    /// True if the members of communicators do not depend on times: all processes are of one job, which meets no others.
    pub(super) fn is_timeless(&self) -> bool {
        let mut histories = self.histories.values();
        histories.all(|history| history.meetings.is_empty())
            && self.jobs().values().all(|job| *job == 0)
    }

    /// Resolves the members of all communicators.
    pub fn resolve(self) -> Communicators {
        let jobs = self.jobs();
        let mut sizes = Vec::new();
        for (process, history) in &self.histories {
            let Some(&job) = jobs.get(process) else {
                continue;
            };
            if sizes.len() <= job as usize {
                sizes.resize(job as usize + 1, 0);
            }
            let size = &mut sizes[job as usize];
            // A rank implies a minimum size; the size that MPI returned to the program may be larger.
            *size = (*size)
                .max(history.rank.saturating_add(1))
                .max(history.world_size);
        }
        let (views, groups) = Resolver::new(&self.histories, &jobs, &sizes).run();
        let places = self.histories.iter().filter_map(|(process, history)| {
            let (job, rank) = (*jobs.get(process)?, history.rank);
            Some((Member { job, rank }, process.0))
        });
        let nodes = places.collect();
        let singletons = self.histories.values().filter(|it| it.is_singleton);
        let singletons = singletons.count() as u64;
        Communicators {
            views,
            jobs,
            sizes,
            nodes,
            groups,
            singletons,
        }
    }

    /// Numbers the jobs in the order of their starts. Processes with the same launch belong to one job;
    /// if a launcher does not name its jobs, the `n`th process with a given rank belongs to the `n`th job
    /// of this size that has such a rank. Sizes that MPI returned distinguish jobs if all such processes
    /// asked for it.
    fn jobs(&self) -> BTreeMap<ProcessKey, u32> {
        let mut order: Vec<_> = self.histories.iter().collect();
        order.sort_by_key(|(process, history)| (history.start, **process));
        let sizeless: BTreeSet<&Launch> = self
            .histories
            .values()
            .filter(|history| history.launch.name.is_some() || history.world_size == 0)
            .map(|history| &history.launch)
            .collect();
        let mut seen: BTreeMap<(&Launch, u32, u32), u32> = BTreeMap::new();
        let mut numbers: BTreeMap<(&Launch, u32, u32), u32> = BTreeMap::new();
        let mut jobs = BTreeMap::new();
        for (process, history) in order {
            let launch = &history.launch;
            let size = match sizeless.contains(launch) {
                true => 0,
                false => history.world_size,
            };
            let turn = seen.entry((launch, size, history.rank)).or_default();
            let next = numbers.len() as u32;
            let job = numbers.entry((launch, size, *turn)).or_insert(next);
            jobs.insert(*process, *job);
            *turn += 1;
        }
        jobs
    }
}
