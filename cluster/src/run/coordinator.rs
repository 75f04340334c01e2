//! The run: rounds of virtual time in which nodes run in parallel.
//!
//! Within a round no action of a node can affect another one (see [`bounds`](crate::run::bounds)). Host threads only
//! determine which thread computes a node's turn, and rounds only determine the length of turns. All results are put
//! into the order of virtual time, and a run ends at a point of virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::host::memory::MemoryGuard;
use crate::host::sandbox::Sandbox;
use crate::hosts::{NetworkKind, Send};
use crate::observe::control::{Mailbox, Viewer};
use crate::observe::progress::{ProgressDisplay, Snapshot};
use crate::observe::watch::{NodeSample, Probe, STATE_FOLDER, StateLog, Watch};
use crate::plan::nodes::kept_code::KeptCode;
use crate::results::capture::Captures;
use crate::results::link_log::LinkLog;
use crate::results::run_directory::RunDirectory;
use crate::run::background::Backgrounds;
use crate::run::bounds::{Bounds, InTransit, Turn};
use crate::run::ending::Closing;
pub use crate::run::ending::Ending;
use crate::run::error::RunError;
use crate::run::recorder::Recorder;
use crate::run::report::NodeReport;
use crate::run::runner::{Runner, Word};
use crate::run::stuck::{StuckState, StuckWatch};
use crate::run::workers::Workers;
use belljar_fabric::Fabric;
use belljar_lossless::Lossless;
use belljar_replay::BackgroundFigures;
use belljar_sim::{Span, Time};

/// Requests of observers, handled between rounds.
mod attend;
/// Checkpoints of a run, taken between its rounds.
mod checkpoint;
/// The nodes' files, requested after the end of the run.
mod collect;
/// Checkpoints of a run on several hosts.
mod cut;
/// The other hosts of a run.
mod others;
/// Construction of a run: from the start, or from a checkpoint.
mod prepare;
/// A run restored from a checkpoint, before its directory changes.
mod restored;
/// Detection of runs in which no node advances.
mod standstill;
/// Turns of a run for a debugger.
mod steps;
/// Detection of jobs in which no rank can proceed.
mod stuck;

use checkpoint::Checkpointer;
pub use checkpoint::Checkpoints;
use collect::Collection;
use others::Others;
pub(crate) use prepare::instant::{Instant, Origin};
pub use prepare::{NodeParts, Setup};
use standstill::Standstill;
pub(crate) use steps::Advance;
pub use steps::OutputPiece;

/// Sleep of a run that only waits for input.
const NAP: Duration = Duration::from_millis(10);

/// A run in progress.
pub struct Run {
    workers: Workers,
    fabric: Fabric,
    /// The network of InfiniBand cards, if nodes have them.
    infiniband: Option<Lossless>,
    backgrounds: Backgrounds,
    captures: Captures,
    links: Option<LinkLog>,
    bounds: Bounds,
    turns: Vec<Turn>,
    recorder: Recorder,
    now: Time,
    /// Virtual time of its start here.
    begun_at: Time,
    /// The time that no node passes for a debugger's sake.
    hold: Time,
    closing: Closing,
    mailbox: Option<Arc<Mailbox>>,
    /// The other hosts, if any.
    others: Option<Others>,
    /// Virtual time from one checkpoint to the next.
    checkpoint_every: Option<Span>,
    /// Nodes here whose init has finished.
    ready: u32,
    /// The nodes' reports, after its end.
    reports: Vec<NodeReport>,
    checkpointer: Option<Checkpointer>,
    /// Files of the nodes, if any are requested.
    collection: Option<Collection>,
    viewer: Viewer,
    standstill: Standstill,
    stuck_watch: Option<StuckWatch>,
    /// Of a resumed run: the state of its watch until there is one.
    stuck_state: Option<StuckState>,
    memory: MemoryGuard,
    /// Number of input pieces typed into consoles, and length of their record.
    typed: u64,
    input: u64,
    /// Rounds so far.
    pub rounds: u64,
    /// The files of translated code.
    kept_code: KeptCode,
}

impl Run {
    /// Makes every node write hashes of its state into a file in `directory`, every `every` instructions and at the end.
    ///
    /// # Errors
    /// If the host refuses the files.
    pub fn log_states(&mut self, directory: &RunDirectory, every: u64) -> Result<(), RunError> {
        directory.folder(STATE_FOLDER)?;
        for mut runner in self.workers.runners() {
            let file = directory.file(&Runner::states_file(runner.index))?;
            runner.watch(Watch::Log(StateLog::new(every, file)));
        }
        Ok(())
    }

    /// Samples a node, and ends the run after the last sample.
    pub fn probe(&mut self, node: u32, probe: Probe) {
        if self.workers.holds(node) {
            self.workers.runner(node).watch(Watch::Probe(probe));
        }
    }

    /// The samples that [`probe`](Self::probe) requested of that node.
    pub fn take_samples(&mut self, node: u32) -> Vec<NodeSample> {
        if self.workers.holds(node) {
            self.workers.runner(node).take_samples()
        } else {
            Vec::new()
        }
    }

    /// Virtual time of its start here: zero, the time of its clones' snapshot, or the time of a checkpoint.
    pub fn begun_at(&self) -> Time {
        self.begun_at
    }

    /// Virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The nodes.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// The reports of all nodes, in order, after its end.
    pub fn reports(&self) -> &[NodeReport] {
        &self.reports
    }

    /// The network.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The network of InfiniBand cards, if nodes have them.
    pub fn infiniband(&self) -> Option<&Lossless> {
        self.infiniband.as_ref()
    }

    /// Figures of background jobs, in the scenario's order.
    pub fn background(&self) -> Vec<BackgroundFigures> {
        self.backgrounds.figures()
    }

    /// Host seconds for background jobs and their network, if there are any.
    pub fn background_seconds(&self) -> Option<f64> {
        self.backgrounds.seconds()
    }

    /// Writes the translated code of this run for later ones. After the results, which need the disk's space more.
    pub fn keep_code(&self) {
        self.kept_code.write();
    }

    /// Runs to the end, or until `stop` is set, in a thread confined by `sandbox`, and collects the requested files of
    /// the nodes.
    ///
    /// # Errors
    /// See [`RunError`]; the trace so far is kept.
    pub fn go_in(
        &mut self,
        sandbox: Option<&Sandbox>,
        stop: &AtomicBool,
        progress: &mut ProgressDisplay,
    ) -> Result<Ending, RunError> {
        let keeper = self.collection.as_mut().and_then(Collection::keeper);
        let (ending, kept) = thread::scope(|scope| {
            let keeping = keeper.map(|keeper| scope.spawn(|| keeper.keep()));
            let work = scope.spawn(|| {
                sandbox.map_or(Ok(()), Sandbox::enter)?;
                let ending = self.go(stop, progress);
                if let Some(collection) = &mut self.collection {
                    collection.close();
                }
                ending
            });
            let kept = keeping.map(|keeping| keeping.join());
            (work.join(), kept)
        });
        let ending = ending.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let kept = kept.map(|kept| kept.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        if let (Some(collection), Some(kept)) = (&mut self.collection, kept) {
            collection.outputs = kept?;
        }
        Ok(ending)
    }

    /// Runs to the end, or until `stop` is set.
    ///
    /// # Errors
    /// See [`RunError`]; the trace so far is kept.
    pub fn go(
        &mut self,
        stop: &AtomicBool,
        progress: &mut ProgressDisplay,
    ) -> Result<Ending, RunError> {
        let ending = loop {
            if stop.load(Ordering::Relaxed) {
                break Ending::Interrupted;
            }
            self.attend(stop)?;
            self.keep_if_due();
            if let Some(ending) = self.hear(false)? {
                break ending;
            }
            match self.round(stop)? {
                // Input may still come.
                Some(Ending::Deadlock) if self.is_attended() => thread::sleep(NAP),
                Some(ending) => break ending,
                None => {}
            }
            self.memory.look()?;
            if progress.is_due(self.rounds) {
                progress.show(&self.snapshot());
            }
        };
        self.finish(ending)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            now: self.now,
            nodes: self.bounds.nodes() as usize,
            ready: (self.ready + self.others.as_ref().map_or(0, Others::ready)) as usize,
            events: self.events(),
        }
    }

    /// MPI calls recorded.
    pub fn events(&self) -> u64 {
        self.recorder.events()
    }

    /// One round: the fabric advances as far as no frame can change it, then nodes run as far as no frame can reach
    /// them.
    fn round(&mut self, stop: &AtomicBool) -> Result<Option<Ending>, RunError> {
        let settled = self.bounds.settled(self.in_transit());
        if settled == Time::MAX && self.closing.is_open() {
            return Ok(Some(Ending::Deadlock));
        }
        self.look_for_quiet_ranks(settled);
        let cap = self.cap();
        if settled >= self.closing.cap() {
            self.now = self.closing.cap();
            return Ok(self.closing.pass(self.bounds.longest()));
        }
        if settled >= cap {
            if self.looks_for_stuck_ranks(cap) {
                return self.look_for_stuck_ranks(cap);
            }
            return self.cut(stop);
        }
        self.now = self.now.max(settled);
        self.advance_networks(settled)?;
        let transit = self.in_transit();
        // Messages of other hosts are received between rounds only.
        let open = self.others.is_none() && self.workers.goes_on();
        self.bounds.turns(transit, cap, open, &mut self.turns);
        if self.others.is_some() && self.is_congested() {
            return self.wait();
        }
        if self.others.is_some() && self.turns.is_empty() {
            return match self.bounds.settled(self.in_transit()) > settled {
                // The network advanced without nodes. Hosts that are ahead may be silent until this host has caught up.
                true => self.note_round(true),
                false => self.wait(),
            };
        }
        self.workers
            .round(&self.turns)
            .map_err(|(node, source)| RunError::Node { node, source })?;
        let moved = self.collect()?;
        self.rounds += 1;
        self.tell(false)?;
        self.note_round(moved)
    }

    /// The time at which all hosts of a run save their nodes.
    fn next_cut(&self) -> Time {
        let others = self.others.as_ref();
        others.map_or(Time::MAX, |others| others.cuts.next)
    }

    /// Times from which what is in transit moves on.
    fn in_transit(&self) -> InTransit {
        let packets = self.infiniband.as_ref().and_then(Lossless::next_time);
        InTransit {
            frames: self.fabric.next_for_nodes(),
            packets,
        }
    }

    /// Advances the networks as far as no node, of which none acts before `settled`, can change them.
    fn advance_networks(&mut self, settled: Time) -> Result<(), RunError> {
        self.advance_fabric(settled + self.fabric.hop(), settled)?;
        let hop = self.infiniband.as_ref().map(Lossless::hop);
        if let Some(hop) = hop {
            self.advance_infiniband(settled + hop);
        }
        Ok(())
    }

    /// Advances the network of InfiniBand cards up to `end`.
    fn advance_infiniband(&mut self, end: Time) {
        let end = end.min(self.closing.end_of_network()).min(self.next_cut());
        let network = self.infiniband.as_mut();
        for arrival in network.map_or_else(Vec::new, |network| network.advance(end)) {
            let (node, time) = (arrival.host, arrival.time);
            self.deliver(NetworkKind::Infiniband, node, time, || arrival.packet);
        }
    }

    /// Delivers a frame or packet to a node at `time`, or notes its arrival at a node of another host.
    fn deliver(
        &mut self,
        network: NetworkKind,
        node: u32,
        time: Time,
        data: impl FnOnce() -> Vec<u8>,
    ) {
        let exchange = self.others.as_mut().map(|others| &mut others.exchange);
        let next = if self.workers.holds(node) {
            self.workers.deliver(network, node, time, data());
            if let Some(exchange) = exchange {
                exchange.give(node, network);
            }
            Some(self.workers.next(node))
        } else {
            exchange.and_then(|exchange| exchange.remote.arrives(node, network, time))
        };
        if let Some(next) = next {
            self.bounds.set(node, next);
        }
    }

    /// Advances the network up to `end`. Hosts may still send from `settled` on, so loads of links after it are not
    /// written yet.
    fn advance_fabric(&mut self, end: Time, settled: Time) -> Result<(), RunError> {
        let end = end.min(self.closing.end_of_network()).min(self.next_cut());
        let mut deliveries = Vec::new();
        self.backgrounds
            .advance(&mut self.fabric, end, &mut deliveries);
        for delivery in deliveries {
            let (node, time) = (delivery.host, delivery.time);
            let frame = || delivery.frame.to_vec();
            self.deliver(NetworkKind::Ethernet, node, time, frame);
        }
        self.captures.write(self.fabric.take_captured(), settled)?;
        self.log_links(settled)
    }

    /// Writes the links' loads in the windows that ended before `settled`.
    fn log_links(&mut self, settled: Time) -> Result<(), RunError> {
        let Some(log) = &mut self.links else {
            return Ok(());
        };
        log.write(&mut self.fabric, settled)
            .map_err(RunError::Links)
    }

    /// Collects the frames, calls and outputs of nodes' turns. Returns true if any node advanced.
    fn collect(&mut self) -> Result<bool, RunError> {
        let mut moved = false;
        for turn in &self.turns {
            let next = self.workers.next(turn.node);
            moved |= next != self.bounds.next(turn.node);
            self.bounds.set(turn.node, next);
            if !self.workers.spoke(turn.node) {
                continue;
            }
            let mut runner = self.workers.runner(turn.node);
            for (time, frame) in runner.node_mut().take_frames() {
                moved = true;
                let sequence = runner.sent;
                runner.sent += 1;
                if let Some(others) = &mut self.others {
                    others.exchange.send(Send {
                        network: NetworkKind::Ethernet,
                        time,
                        node: turn.node,
                        sequence,
                        frame: frame.clone(),
                    });
                }
                self.fabric.send(time, turn.node, sequence, frame.into());
            }
            if let Some(network) = &mut self.infiniband {
                for (time, packet) in runner.node_mut().take_packets() {
                    moved = true;
                    let sequence = runner.sent_packets;
                    runner.sent_packets += 1;
                    if let Some(others) = &mut self.others {
                        others.exchange.send(Send {
                            network: NetworkKind::Infiniband,
                            time,
                            node: turn.node,
                            sequence,
                            frame: packet.clone(),
                        });
                    }
                    network.send(time, turn.node, sequence, packet);
                }
            }
            self.recorder.take(&mut runner);
            let words = runner
                .collect_output()
                .map_err(|source| RunError::Console {
                    node: turn.node,
                    source,
                })?;
            self.ready += words.iter().filter(|word| **word == Word::Ready).count() as u32;
            let is_news = self.closing.consider(&runner, &words);
            if let Some(others) = &mut self.others {
                others.exchange.write(turn.node, runner.take_relayed());
                if is_news {
                    others.exchange.tell_cause();
                }
            }
        }
        if self.recorder.is_full() {
            self.recorder.settle(self.bounds.first())?;
        }
        Ok(moved)
    }

    /// Brings all nodes and the network to one time, and writes the remaining records. Returns the final ending.
    fn finish(&mut self, ending: Ending) -> Result<Ending, RunError> {
        self.tell(true)?;
        let end = self.closing.end();
        if let Some(end) = end.filter(|_| !ending.is_broken_off()) {
            self.advance_fabric(end, end)?;
            self.advance_infiniband(end);
            for mut runner in self.workers.runners() {
                let node = runner.index;
                runner
                    .run_to(end)
                    .map_err(|source| RunError::Node { node, source })?;
            }
        }
        self.captures.finish()?;
        self.log_links(Time::MAX)?;
        for mut runner in self.workers.runners() {
            runner.finish().map_err(|source| RunError::Console {
                node: runner.index,
                source,
            })?;
            self.recorder.take(&mut runner);
            if let Some(others) = &mut self.others {
                others.exchange.write(runner.index, runner.take_relayed());
            }
        }
        let (left, ending) = self.take_leave(ending)?;
        self.recorder.finish(left, &ending)?;
        Ok(ending)
    }
}
