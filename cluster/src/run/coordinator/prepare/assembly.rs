//! Assembly of a run from prepared nodes.
//!
//! Files, threads and the network exist before the first round. Called by `prepare`.

use belljar_fabric::Distances;
use belljar_lossless::Lossless;
use belljar_sim::Time;
use belljar_vmm::KeptPages;

use super::super::checkpoint::{PageKeeper, due_behind};
use super::super::collect::Collection;
use super::super::cut::Cuts;
use super::super::standstill::Standstill;
use super::super::{Checkpointer, Checkpoints, Others, Run, RunError};
use super::{Begun, SPARE_FILES, Setup};
use crate::host::memory::MemoryGuard;
use crate::host::sandbox::Sandbox;
use crate::hosts::Exchange;
use crate::observe::control::Viewer;
use crate::plan::Plan;
use crate::results::outputs;
use crate::results::run_directory::RunDirectory;
use crate::run::bounds::Bounds;
use crate::run::workers::Workers;

/// The bounds at `now` of a run whose nodes here are those of `workers`.
fn bounds(plan: &Plan, cards: Option<&Lossless>, now: Time, workers: &Workers) -> Bounds {
    let distances = Distances::new(&plan.topology);
    let mut bounds = match cards {
        Some(network) => Bounds::of_two(&distances, &network.distances(), plan.nodes),
        None => Bounds::new(distances, plan.nodes),
    };
    for node in 0..plan.nodes {
        if workers.holds(node) {
            bounds.set(node, workers.next(node));
        } else {
            bounds.set(node, now);
            bounds.leave(node);
        }
    }
    bounds
}

impl Setup<'_> {
    /// The nodes that this host runs.
    pub(in super::super) fn own_nodes(&self) -> Vec<u32> {
        match &self.exchange {
            Some(exchange) => exchange.own_nodes(),
            None => (0..self.plan.nodes).collect(),
        }
    }

    /// Allows an open console file for each node; if the host's limit is lower, opening one fails with an error.
    pub(super) fn allow_files(&self) {
        let _ = rlimit::increase_nofile_limit(u64::from(self.plan.nodes) + SPARE_FILES);
    }

    /// The request for the nodes' files at the end, with an empty folder for them.
    pub(super) fn collection(&self) -> Result<Option<Collection>, RunError> {
        let wanted = &self.plan.outputs;
        if wanted.patterns.is_empty() {
            return Ok(None);
        }
        let folder = self.directory.map(|it| it.new_folder(outputs::FOLDER));
        let folder = folder.transpose()?;
        Ok(Some(Collection::new(wanted.clone(), folder)))
    }

    pub(super) fn assemble(
        self,
        begun: Begun,
        checkpointer: impl FnOnce(Checkpoints, &RunDirectory) -> Checkpointer,
    ) -> Result<Run, RunError> {
        let plan = self.plan;
        begun.kept_code.report();
        let collection = self.collection()?;
        let kept = self.checkpoints.zip(self.directory);
        let mut checkpointer = kept.map(|(kept, directory)| checkpointer(kept, directory));
        let own = plan.memory_of(begun.runners.iter().map(|runner| runner.index));
        let memory = MemoryGuard::new(begun.runners.len(), own);
        if let Some(doubts) = memory.doubts(plan.likely_memory(own)) {
            tracing::warn!("{doubts}");
        }
        let mut pages = begun.pages;
        pages.resize(begun.runners.len(), KeptPages::default());
        // It opens files, as the guard above does.
        let mut pages = self.exchange.as_ref().map(|_| PageKeeper::new(pages));
        // Before any thread has a filter of its own, which would prevent it.
        self.sandbox.map_or(Ok(()), Sandbox::close_process)?;
        let workers = Workers::new(begun.runners, self.threads, plan.engine, self.sandbox)?;
        let network = begun.infiniband.as_ref();
        let bounds = bounds(plan, network, begun.now, &workers);
        if let Some(checkpointer) = &mut checkpointer {
            let nodes = &mut checkpointer.pages.nodes;
            nodes.resize(workers.len(), KeptPages::default());
            checkpointer.begin_at(begun.first);
        }
        let begin = |mut exchange: Exchange| {
            exchange.begin(plan.nodes, bounds.distances(), begun.now);
            // Outputs of the boot, also of nodes that sleep for long.
            for mut runner in workers.runners() {
                exchange.write(runner.index, runner.take_relayed());
            }
            let cuts = Cuts {
                next: begun
                    .closing
                    .reachable(due_behind(begun.first, plan.checkpoint_every)),
                pages: pages.take(),
                ..Cuts::default()
            };
            let lengths = begun.lengths.as_deref();
            let profiled = plan.profile.is_some();
            Others::begin(
                exchange,
                plan.nodes,
                profiled,
                self.directory,
                lengths,
                cuts,
            )
        };
        Ok(Run {
            checkpoint_every: plan.checkpoint_every,
            others: self.exchange.map(begin).transpose()?,
            ready: begun.ready,
            reports: Vec::new(),
            workers,
            fabric: begun.fabric,
            infiniband: begun.infiniband,
            backgrounds: begun.backgrounds,
            captures: begun.captures,
            links: begun.links,
            bounds,
            turns: Vec::new(),
            recorder: begun.recorder,
            now: begun.now,
            begun_at: begun.first,
            hold: Time::MAX,
            closing: begun.closing,
            mailbox: None,
            checkpointer,
            collection,
            standstill: Standstill::default(),
            stuck_watch: None,
            stuck_state: begun.stuck,
            memory,
            viewer: Viewer::default(),
            typed: begun.typed,
            input: begun.input,
            rounds: begun.rounds,
            kept_code: begun.kept_code,
        })
    }
}
