//! The other hosts of a run.
//!
//! Messages are handled between rounds only. Host 0 has the run directory: it writes the outputs and calls
//! of others' nodes, and announces the end of the run. A host that is lost ends the run. Called by the
//! coordinator.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::time::Duration;

use belljar_trace::{
    load_events, load_probes, load_summaries, save_events, save_probes, save_summaries,
};

use super::cut::Cuts;
use super::{Run, RunError};
use crate::hosts::{
    DirectoryData, Exchange, ExchangeError, Final, HEAD, HostMessage, NetworkKind, News,
};
use crate::results::run_directory::RunDirectory;
use crate::results::stream::Stream;
use crate::run::ending::Ending;
use crate::run::recorder::LeftOver;
use crate::run::report::NodeReport;
use crate::run::runner::{Lengths, named, write_lines};

/// Time limit of one wait for news, between checks for a stop.
const LISTENING: Duration = Duration::from_millis(20);
/// Silence of a host after which a warning appears; hosts send a sign of life every second.
const NOTABLE: Duration = Duration::from_secs(4);
/// Maximum number of waits without news, [`LISTENING`] each, for hosts' final messages.
const FAREWELL: u32 = 1_500;

/// The other hosts, and their data on this one.
pub(super) struct Others {
    pub(super) exchange: Exchange,
    /// Outputs of nodes on other hosts, on the host with the run directory.
    outputs: BTreeMap<(u32, Stream), BufWriter<File>>,
    /// For each host, the number of its nodes whose init has finished.
    ready: Vec<u32>,
    /// True for hosts with a warning about their silence.
    silent: Vec<bool>,
    /// Final data of other hosts.
    finals: Vec<Final>,
    /// Number of received messages.
    heard: u64,
    /// The ending caused by another host.
    broken: Option<Ending>,
    pub(super) cuts: Cuts,
}

impl Others {
    /// Starts with empty outputs of others' nodes or, in a resumed run, with the given `lengths`, on the
    /// host with the run directory.
    pub(super) fn begin(
        exchange: Exchange,
        nodes: u32,
        profiled: bool,
        directory: Option<&RunDirectory>,
        lengths: Option<&[Lengths]>,
        cuts: Cuts,
    ) -> Result<Self, RunError> {
        let own = exchange.own_nodes();
        let mut outputs = BTreeMap::new();
        let theirs = (0..nodes).filter(|node| own.binary_search(node).is_err());
        let theirs = theirs.flat_map(|node| Stream::ALL.map(|stream| (node, stream)));
        for (node, stream) in theirs.filter(|(_, stream)| stream.is_of(profiled)) {
            let (Some(directory), Some(file)) = (directory, stream.file(node)) else {
                continue;
            };
            let file = match lengths.map(|lengths| lengths[node as usize][stream.number()]) {
                Some(length) => directory.resume_file(&file, length)?,
                None => directory.file(&file)?,
            };
            outputs.insert((node, stream), file);
        }
        Ok(Self {
            outputs,
            ready: vec![0; exchange.partition().names().len()],
            silent: vec![false; exchange.partition().names().len()],
            finals: Vec::new(),
            heard: 0,
            broken: None,
            cuts,
            exchange,
        })
    }

    /// Warns of silent hosts, and of their return.
    fn look_after(&mut self) {
        for (host, silence) in self.exchange.silences() {
            let is_silent = silence > NOTABLE;
            let before = std::mem::replace(&mut self.silent[host as usize], is_silent);
            let name = self.exchange.partition().name(host);
            match (before, is_silent) {
                (false, true) => {
                    tracing::warn!("host {name} has been silent for {NOTABLE:?}; the run waits");
                }
                (true, false) => tracing::warn!("host {name} responds again"),
                _ => {}
            }
        }
    }

    fn lost(&mut self, host: u32, why: String) {
        let host = self.exchange.partition().name(host).to_owned();
        self.broken.get_or_insert(Ending::HostLost { host, why });
    }

    fn write(&mut self, node: u32, stream: Stream, bytes: &[u8]) -> Result<(), RunError> {
        match self.outputs.get_mut(&(node, stream)) {
            Some(file) => {
                let written = write_lines(file, bytes);
                written.map_err(|error| console(node, stream, error))
            }
            None => Ok(()),
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), RunError> {
        for (&(node, stream), file) in &mut self.outputs {
            let flushed = file.flush();
            flushed.map_err(|error| console(node, stream, error))?;
        }
        Ok(())
    }

    /// Nodes on other hosts whose init has finished.
    pub(super) fn ready(&self) -> u32 {
        self.ready.iter().sum()
    }
}

impl Run {
    /// Handles all received messages; waits for the first one if `waits` is set. Returns the ending if
    /// another host ends the run.
    pub(super) fn hear(&mut self, waits: bool) -> Result<Option<Ending>, RunError> {
        let mut patience = if waits { LISTENING } else { Duration::ZERO };
        loop {
            let Some(others) = &mut self.others else {
                return Ok(None);
            };
            let Some(news) = others.exchange.hear(patience)? else {
                let broken = others.broken.take();
                if broken.is_none() && !patience.is_zero() {
                    return self.note_silence();
                }
                return Ok(broken);
            };
            others.heard += 1;
            self.standstill.is_over(others.exchange.own() as usize);
            self.learn(news)?;
            patience = Duration::ZERO;
        }
    }

    fn learn(&mut self, news: News) -> Result<(), RunError> {
        let Some(others) = &mut self.others else {
            return Ok(());
        };
        match news {
            News::Progress(host, progress) => {
                self.standstill.got_on(host as usize);
                for send in progress.sends {
                    let (time, node, sequence) = (send.time, send.node, send.sequence);
                    match (send.network, &mut self.infiniband) {
                        (NetworkKind::Ethernet, _) => {
                            self.fabric.send(time, node, sequence, send.frame.into());
                        }
                        (NetworkKind::Infiniband, Some(network)) => {
                            network.send(time, node, sequence, send.frame);
                        }
                        // A host with another scenario; its nodes then wait for ever, which is reported.
                        (NetworkKind::Infiniband, None) => {}
                    }
                }
                for told in progress.nodes {
                    let remote = &mut others.exchange.remote;
                    if let Some(next) = remote.told(told.node, told.next, told.taken) {
                        self.bounds.set(told.node, next);
                    }
                }
                if let Some(cause) = progress.cause {
                    self.closing.learn(cause);
                }
            }
            News::Record(host, record) => self.take_record(host, record)?,
            News::Stop => {
                others.broken.get_or_insert(Ending::Interrupted);
            }
            News::Lost(host, why) => {
                if !others.exchange.is_head() && host != HEAD {
                    // The host with the run directory may not know it yet.
                    let missing = HostMessage::Missing(host, why.clone());
                    others.exchange.tell(HEAD, &missing)?;
                }
                others.lost(host, why);
            }
            News::Keep(order) => others.cuts.orders.push_back(order),
            News::Other(host, HostMessage::Waiting(who)) => {
                self.standstill.waits(host as usize, who)
            }
            News::Other(_, HostMessage::Outputs(word)) => {
                if let Some(collection) = &self.collection {
                    collection.pass(word);
                }
            }
            News::Other(_, HostMessage::Final(finals)) => others.finals.extend(finals),
            News::Other(
                host,
                part @ (HostMessage::Pages(..) | HostMessage::KeptNode(..) | HostMessage::Kept(_)),
            ) => self.take_part(host, part),
            // No other messages are valid in a started run.
            News::Other(host, _) => others.lost(host, "it sent an unexpected message".to_owned()),
        }
        Ok(())
    }

    fn take_record(&mut self, host: u32, record: DirectoryData) -> Result<(), RunError> {
        let Some(others) = &mut self.others else {
            return Ok(());
        };
        if !record.events.is_empty() {
            let events = load_events(&record.events).map_err(ExchangeError::Calls)?;
            self.recorder.accept(events);
        }
        if !record.probes.is_empty() {
            let (probes, _) = load_probes(&record.probes).map_err(ExchangeError::Calls)?;
            self.recorder.accept_probes(probes);
        }
        if let Some(ready) = others.ready.get_mut(host as usize) {
            *ready = record.ready;
        }
        for (node, stream, bytes) in record.outputs {
            others.write(node, stream, &bytes)?;
        }
        Ok(())
    }

    /// True if others receive so slowly that this host should pause.
    pub(super) fn is_congested(&self) -> bool {
        let others = self.others.as_ref();
        others.is_some_and(|others| others.exchange.is_congested())
    }

    /// The names of the hosts, if there are several.
    pub fn hosts(&self) -> Vec<String> {
        let others = self.others.as_ref();
        others.map_or_else(Vec::new, |others| {
            others.exchange.partition().names().to_vec()
        })
    }

    /// Reports to the host with the run directory that this one cannot continue.
    pub fn tell_failure(&self, why: &str) {
        if let Some(others) = &self.others {
            // If that fails, too, the closed connection shows it.
            let failed = HostMessage::Failed(why.to_owned());
            let _ = others.exchange.tell(HEAD, &failed);
        }
    }

    /// Lets others continue, and waits for news of one.
    pub(super) fn wait(&mut self) -> Result<Option<Ending>, RunError> {
        self.tell(true)?;
        let ending = self.hear(true)?;
        if let Some(others) = &mut self.others {
            others.look_after();
        }
        Ok(ending)
    }

    /// Sends the others this host's progress, if they can continue by it, or with `in_any_case`.
    pub(super) fn tell(&mut self, in_any_case: bool) -> Result<(), RunError> {
        let Some(others) = &mut self.others else {
            return Ok(());
        };
        let own = self.workers.numbers().map(|node| self.workers.next(node));
        let first = own.min().unwrap_or(belljar_sim::Time::MAX);
        if in_any_case || others.exchange.is_worth_telling(first) {
            let exchange = &mut others.exchange;
            exchange.publish(&self.workers, self.ready, &mut self.recorder, &self.closing)?;
        }
        Ok(())
    }

    /// Collects the reports of all nodes after the end of the run here. The host with the run directory
    /// receives the other hosts' reports; other hosts send theirs. Returns another ending if a host is lost
    /// meanwhile.
    pub(super) fn take_leave(
        &mut self,
        ending: Ending,
    ) -> Result<(Vec<LeftOver>, Ending), RunError> {
        let runners = self.workers.runners();
        let mut left: Vec<(NodeReport, LeftOver)> = runners
            .map(|runner| (NodeReport::of(&runner), LeftOver::of(&runner)))
            .collect();
        // The requests for files change the nodes' states.
        self.collect_files()?;
        let mut ending = ending;
        if let Some(others) = &mut self.others {
            let exchange = &mut others.exchange;
            if exchange.is_head() {
                if ending.is_broken_off() {
                    exchange.tell_all(&HostMessage::Stop)?;
                }
                ending = self.await_finals(ending)?;
            } else {
                exchange.relay(self.ready, &mut self.recorder)?;
                for (report, left) in &left {
                    exchange.tell(HEAD, &HostMessage::Final(vec![close(report, left)?]))?;
                }
                if ending == Ending::Interrupted {
                    // Not if that host itself ended the run.
                    let failed = HostMessage::Failed("it was stopped".to_owned());
                    exchange.tell(HEAD, &failed)?;
                }
            }
        }
        if let Some(others) = &mut self.others {
            others.exchange.tell_all(&HostMessage::Done)?;
            for of in others.finals.drain(..) {
                left.push(open(of)?);
            }
            left.sort_by_key(|(report, _)| report.node());
            others.flush()?;
        }
        let (reports, left) = left.into_iter().unzip();
        self.reports = reports;
        Ok((left, ending))
    }

    /// Waits for the final data of all others; the wait is limited if the run was interrupted.
    fn await_finals(&mut self, ending: Ending) -> Result<Ending, RunError> {
        let mut tries = if ending.is_broken_off() {
            FAREWELL
        } else {
            u32::MAX
        };
        let mut ending = ending;
        let all_done = |run: &Self| {
            let others = run.others.as_ref();
            others.is_none_or(|others| others.exchange.all_done())
        };
        let heard = |run: &Self| run.others.as_ref().map(|others| others.heard);
        while !all_done(self) && tries > 0 {
            let before = heard(self);
            if let Some(broken) = self.hear(true)?
                && !ending.is_broken_off()
            {
                ending = broken;
                tries = FAREWELL;
            }
            if heard(self) == before {
                tries -= 1;
            }
        }
        Ok(ending)
    }
}

fn console(node: u32, stream: Stream, error: io::Error) -> RunError {
    let source = named(stream, error);
    RunError::Console { node, source }
}

/// Encodes the final data of a node.
fn close(report: &NodeReport, left: &LeftOver) -> Result<Final, RunError> {
    let summary = left.summary.as_ref().map(std::slice::from_ref);
    let saved = || {
        Ok(Final {
            report: report.clone(),
            open: save_events(&left.open)?,
            summary: summary.map(save_summaries).transpose()?,
            probes: save_probes(&left.probes.0, left.probes.1)?,
        })
    };
    saved()
        .map_err(ExchangeError::Calls)
        .map_err(RunError::from)
}

/// Decodes the final data of a node.
fn open(of: Final) -> Result<(NodeReport, LeftOver), RunError> {
    let loaded = || {
        let summaries = of.summary.as_deref().map(load_summaries).transpose()?;
        Ok(LeftOver {
            open: load_events(&of.open)?,
            summary: summaries.and_then(|mut summaries| summaries.pop()),
            probes: load_probes(&of.probes)?,
        })
    };
    let left = loaded().map_err(ExchangeError::Calls)?;
    Ok((of.report, left))
}
