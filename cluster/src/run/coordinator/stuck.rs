//! Looks for jobs in which no rank can proceed, between two rounds in which all nodes stand at one time.
//!
//! The cheap conditions come first; guests' kernels and the calls so far are read only if these hold. The coordinator calls it at the
//! times of the watch.

use std::fs::File;

use belljar_sim::Time;
use belljar_trace::LostProcess;

use super::{Run, RunError};
use crate::results::infiniband;
use crate::run::ending::Ending;
use crate::run::recorder::LeftOver;
use crate::run::stuck::{StuckWatch, WaitingThreads};

impl Run {
    /// Looks for jobs in which no rank can proceed, and ends the run if there are only such. Runs on several hosts are not watched.
    pub fn watch_for_stuck_ranks(&mut self, mut watch: StuckWatch) {
        if self.others.is_none() {
            if let Some(state) = self.stuck_state.take() {
                watch.load(state);
            }
            self.stuck_watch = Some(watch);
        }
    }

    /// MPI processes that have ended, after the run. Empty if its ranks were not watched.
    pub fn lost_processes(&mut self) -> Vec<LostProcess> {
        let Some(mut watch) = self.stuck_watch.take() else {
            return Vec::new();
        };
        let (_, lost) = self.waits(&mut watch);
        self.stuck_watch = Some(watch);
        lost
    }

    /// True if the time `cap`, which no node passes, is that of a look.
    pub(super) fn looks_for_stuck_ranks(&self, cap: Time) -> bool {
        let watch = self.stuck_watch.as_ref();
        watch.is_some_and(|watch| watch.hold() == cap)
    }

    /// If the time of a look is over by `settled`, decides whether all nodes stand at the time of the next one. Nodes may be ahead, but
    /// the decision depends on calls before the look alone, unless later ones make it void.
    pub(super) fn look_for_quiet_ranks(&mut self, settled: Time) {
        let is_due = |watch: &StuckWatch| watch.next() <= settled && watch.hold() == Time::MAX;
        if !self.stuck_watch.as_ref().is_some_and(is_due) {
            return;
        }
        let Some(mut watch) = self.stuck_watch.take() else {
            return;
        };
        let look = StuckWatch::last_look(settled);
        let is_quiet = watch.is_quiet(look, self.last_change()) && self.are_ranks_inside();
        // Nodes are ahead by a frame's shortest way at most.
        let latest = self.latest().max(look);
        watch.go_on(latest, is_quiet, &self.closing);
        self.stuck_watch = Some(watch);
    }

    /// The time at which an MPI call last began or ended.
    fn last_change(&self) -> Time {
        let times = self.workers.runners().filter_map(|runner| {
            let changed = runner.tracer()?.changed();
            Some(runner.node().frequency().time_of(changed))
        });
        times.max().unwrap_or(Time::ZERO)
    }

    /// Looks for jobs in which no rank can proceed, when all nodes have reached `at`.
    pub(super) fn look_for_stuck_ranks(&mut self, at: Time) -> Result<Option<Ending>, RunError> {
        self.advance_fabric(at, at)?;
        self.advance_infiniband(at);
        self.now = at;
        let Some(mut watch) = self.stuck_watch.take() else {
            return Ok(None);
        };
        let verdict = match self.deadlock_of_network(&mut watch, at) {
            Some(verdict) => Ok(Some(verdict)),
            None => self.stuck_ranks(&mut watch, at),
        };
        let is_quiet = watch.is_quiet(at, self.last_change());
        watch.go_on(at, is_quiet, &self.closing);
        self.stuck_watch = Some(watch);
        Ok(verdict?.map(|verdict| {
            self.closing.end_at(at);
            Ending::Stuck(verdict)
        }))
    }

    /// The verdict, if no call begins or ends and links of the InfiniBand network wait for each other.
    fn deadlock_of_network(&self, watch: &mut StuckWatch, at: Time) -> Option<String> {
        let is_quiet = watch.is_quiet(at, self.last_change());
        let network = self.infiniband.as_ref().filter(|_| is_quiet)?;
        infiniband::circle(network)
    }

    /// The verdict, if no rank can proceed and nothing can wake one.
    fn stuck_ranks(
        &mut self,
        watch: &mut StuckWatch,
        at: Time,
    ) -> Result<Option<String>, RunError> {
        if !watch.is_quiet(at, self.last_change()) || self.may_be_woken(watch, at) {
            return Ok(None);
        }
        if !self.are_ranks_inside() {
            watch.is_still(None);
            return Ok(None);
        }
        let (threads, lost) = self.waits(watch);
        if !watch.is_still(threads) {
            return Ok(None);
        }
        let copy = self.copy_of_calls(watch)?;
        Ok(copy.and_then(|copy| watch.judge(copy, at, &lost)))
    }

    /// All calls so far; `None` if there are too many.
    fn copy_of_calls(&mut self, watch: &mut StuckWatch) -> Result<Option<File>, RunError> {
        let open: Vec<_> = self.workers.runners().map(|it| LeftOver::of(&it)).collect();
        match watch.take_files() {
            Some((trace, copy)) => self.recorder.copy(trace, copy, open),
            None => Ok(None),
        }
    }

    /// The messages that wait, and the calls of all ranks, as text; the reason if they are unknown.
    pub(super) fn queues(&mut self) -> Result<String, String> {
        let unknown = "this run has no whole trace, is on several hosts, or its engine is kvm";
        let mut watch = self.stuck_watch.take().ok_or(unknown)?;
        let (_, lost) = self.waits(&mut watch);
        let copy = self.copy_of_calls(&mut watch);
        let now = self.latest();
        let queues = match copy {
            Ok(Some(copy)) => watch.queues(copy, now, &lost),
            Ok(None) => Err("the trace has more than 1 GiB".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        self.stuck_watch = Some(watch);
        queues
    }

    /// True if something outside of the nodes' processes may wake one: frames, packets and timers of cards, a lost frame that is sent
    /// again, delays of the scenario, a user at a console.
    fn may_be_woken(&self, watch: &StuckWatch, at: Time) -> bool {
        let losses = self.fabric.statistics();
        let mut losses = losses.iter().flatten();
        let transit = self.in_transit();
        let mut nodes = self.workers.runners();
        self.fabric.next_time().is_some()
            || transit.packets.is_some()
            || nodes.any(|runner| runner.node().has_card_events())
            || losses.any(|link| link.drops + link.lost + link.failed > 0)
            || watch.has_delays(at)
            || self.typed > 0
            || self.is_attended()
    }

    /// True if there are MPI processes, and each is inside a call that does not start MPI, or has ended MPI.
    fn are_ranks_inside(&self) -> bool {
        let mut any = false;
        for runner in self.workers.runners() {
            let Some(tracer) = runner.tracer() else {
                continue;
            };
            if !tracer.follows_all() {
                return false;
            }
            let processes = tracer.active_processes();
            any |= processes.iter().any(|process| !process.inside.is_empty());
            if processes.iter().any(|process| process.starts) {
                return false;
            }
        }
        any
    }

    /// Threads besides those in calls, unless one may act by itself; and MPI processes that have ended.
    fn waits(&self, watch: &mut StuckWatch) -> (Option<WaitingThreads>, Vec<LostProcess>) {
        let (mut threads, mut lost) = (Some(Vec::new()), Vec::new());
        for runner in self.workers.runners() {
            let node = runner.index;
            let tracer = runner.tracer();
            let active = tracer.map_or_else(Vec::new, |tracer| tracer.active_processes());
            let own = watch.kernels().waits(node, runner.node(), &active);
            threads = threads.zip(own.threads).map(|(mut threads, own)| {
                threads.extend(own);
                threads
            });
            lost.extend(own.lost);
            let gone = tracer
                .into_iter()
                .flat_map(|tracer| tracer.gone_processes());
            lost.extend(gone.map(|(process, status)| LostProcess {
                node,
                process,
                status,
            }));
        }
        lost.sort_unstable();
        (threads, lost)
    }
}
