//! A node's report at the end of a run, on any host.
//!
//! Made on the node's host and sent to the host with the run directory. Results of the scenario alone
//! are kept apart from figures about the host.

use std::collections::BTreeMap;

use belljar_tracer::NodeTracer;
use belljar_vmm::{HcaCounters, Node, PairCongestion};
use serde::{Deserialize, Serialize};

use crate::run::polls;
use crate::run::runner::Runner;

/// Congestion control of cards.
mod congestion;
/// Kills that met no process.
mod missed_kills;

pub use congestion::CongestionSummary;
pub use missed_kills::MissedKill;

/// Time of a node's processors by its use, in cycles of their clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSummary {
    /// Total time.
    pub cycles: u64,
    /// The core: the remaining time.
    pub core: u64,
    /// Caches after the first level.
    pub caches: u64,
    /// Memory.
    pub memory: u64,
    /// Time without an instruction.
    pub idle: u64,
}

impl TimeSummary {
    fn of(node: &Node) -> Option<Self> {
        let account = node.account()?;
        // Each processor has a clock.
        let cycles = node.now_cycles() * node.vcpus() as u64;
        let caches = account.caches + account.translation;
        let memory = account.memory + account.bandwidth;
        Some(Self {
            cycles,
            core: cycles.saturating_sub(caches + memory + account.idle),
            caches,
            memory,
            idle: account.idle,
        })
    }
}

/// Time of a node's processors under a processor model by its cause, in cycles: parts of the core's time, of caches' and
/// of memory's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorTime {
    /// Instructions, without mispredicted jumps.
    pub core: u64,
    /// Restarts of the core after mispredicted jumps.
    pub branch: u64,
    /// Translations of addresses.
    pub tlb: u64,
    /// Caches after the first level.
    pub caches: u64,
    /// Latency of memory.
    pub memory: u64,
    /// Lines that waited for other lines.
    pub bandwidth: u64,
    /// Time without an instruction.
    pub idle: u64,
}

impl ProcessorTime {
    fn of(node: &Node) -> Option<Self> {
        let account = node.account()?;
        let cycles = node.now_cycles() * node.vcpus() as u64;
        let elsewhere = account.caches + account.memory + account.translation + account.bandwidth;
        let core = cycles.saturating_sub(elsewhere + account.idle);
        account.processor.then_some(Self {
            core: core.saturating_sub(account.branch),
            branch: account.branch,
            tlb: account.translation,
            caches: account.caches,
            memory: account.memory,
            bandwidth: account.bandwidth,
            idle: account.idle,
        })
    }

    /// The causes and their cycles.
    pub fn parts(&self) -> [(&'static str, u64); 7] {
        [
            ("core", self.core),
            ("branch", self.branch),
            ("tlb", self.tlb),
            ("caches", self.caches),
            ("memory", self.memory),
            ("bandwidth", self.bandwidth),
            ("idle", self.idle),
        ]
    }
}

/// Events of a node's InfiniBand card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardSummary {
    /// Doorbells of sends.
    pub doorbells: u64,
    /// Completions.
    pub completions: u64,
    /// Packets sent to the network, and their bytes without the links' checksums.
    pub packets_sent: u64,
    /// See `packets_sent`.
    pub bytes_sent: u64,
    /// Packets received.
    pub packets_received: u64,
    /// Packets that no queue pair took: datagrams without a receive, or for a pair that does not exist.
    pub packets_dropped: u64,
    /// Requests of peers that found no receive, and were refused for a time.
    pub receiver_not_ready: u64,
    /// Steps back to a packet that was refused or not acknowledged.
    pub retries: u64,
    /// Acknowledgements that did not come in time.
    pub timeouts: u64,
    /// Congestion control, if queue pairs met congestion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<CongestionSummary>,
}

impl CardSummary {
    fn of(counters: HcaCounters, pairs: &[(u32, PairCongestion)]) -> Self {
        Self {
            doorbells: counters.doorbells,
            completions: counters.completions,
            packets_sent: counters.sent,
            bytes_sent: counters.sent_bytes,
            packets_received: counters.received,
            packets_dropped: counters.dropped,
            receiver_not_ready: counters.not_ready,
            retries: counters.retries,
            timeouts: counters.timeouts,
            congestion: CongestionSummary::of(pairs),
        }
    }
}

/// The effect of detours on a node's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoiseSummary {
    /// Detours of executing processors.
    pub detours: u64,
    /// Duration of these detours, in picoseconds, summed over all processors.
    pub stolen_ps: u64,
}

impl NoiseSummary {
    fn of(node: &Node) -> Option<Self> {
        let counts = node.noise()?;
        Some(Self {
            detours: counts.detours,
            stolen_ps: node.frequency().time_of(counts.stolen).as_ps(),
        })
    }
}

/// One node's results, as far as they depend on the scenario alone.
#[derive(Debug, Serialize)]
pub struct NodeSummary {
    /// Its number.
    pub node: u32,
    /// Its group, if there are groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Time at which its init finished, in picoseconds.
    pub ready_ps: Option<u64>,
    /// Retired instructions, without stubs.
    pub instructions: u64,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames that its network card dropped because the guest received them too slowly.
    pub frames_dropped: u64,
    /// Events of its InfiniBand card, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infiniband: Option<CardSummary>,
    /// Time by its use, with a time model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<TimeSummary>,
    /// Time by its cause, with a processor model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_time: Option<ProcessorTime>,
    /// The effect of detours, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseSummary>,
    /// Kills by the scenario that met no process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missed_kills: Vec<MissedKill>,
}

/// One node's results, and figures about the host that ran it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    node: u32,
    ready_ps: Option<u64>,
    instructions: u64,
    frames_sent: u64,
    frames_dropped: u64,
    card: Option<HcaCounters>,
    congestion: Vec<(u32, PairCongestion)>,
    time: Option<TimeSummary>,
    processor_time: Option<ProcessorTime>,
    noise: Option<NoiseSummary>,
    missed_kills: Vec<MissedKill>,
    warnings: Vec<String>,
    /// Instructions retired here, not before a clone's or a resumed run's start.
    pub(super) executed: u64,
    /// Host seconds of its execution.
    pub(super) seconds: f64,
    /// Calls by which its programs polled.
    polls: BTreeMap<String, u64>,
    /// Both after its init had finished.
    pub(super) worked: (u64, f64),
    /// Counters of its engine.
    pub(super) counters: BTreeMap<String, u64>,
}

impl NodeReport {
    pub(crate) fn of(runner: &Runner) -> Self {
        let counters = runner.engine_report().counters;
        let named = |(name, count): (&str, u64)| (name.to_owned(), count);
        let (worked, time) = runner.worked();
        Self {
            node: runner.index,
            ready_ps: runner.ready.map(|time| time.as_ps()),
            instructions: runner.node().retired(),
            frames_sent: runner.sent,
            frames_dropped: runner.node().net_counters().dropped,
            card: runner.node().card_counters(),
            congestion: runner.node().card_congestion(),
            time: TimeSummary::of(runner.node()),
            processor_time: ProcessorTime::of(runner.node()),
            noise: NoiseSummary::of(runner.node()),
            missed_kills: missed_kills::of(runner),
            warnings: warnings(runner),
            executed: runner.executed(),
            seconds: runner.host_time().as_secs_f64(),
            worked: (worked, time.as_secs_f64()),
            polls: runner
                .tracer()
                .map(|tracer| polls::of(tracer.counters()))
                .unwrap_or_default(),
            counters: counters.into_iter().map(named).collect(),
        }
    }

    /// Its number.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Warnings for users about the results.
    pub(super) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Frames that its network card dropped.
    pub(super) fn frames_dropped(&self) -> u64 {
        self.frames_dropped
    }

    /// Counters of its InfiniBand card, if it has one.
    pub(super) fn card(&self) -> Option<HcaCounters> {
        self.card
    }

    /// Figures of its card's congestion control, by the number of the queue pair.
    pub fn congestion(&self) -> &[(u32, PairCongestion)] {
        &self.congestion
    }

    pub(super) fn polls(&self) -> &BTreeMap<String, u64> {
        &self.polls
    }

    /// The results of a node of this `group` that depend on the scenario alone.
    pub(super) fn summary(&self, group: Option<String>) -> NodeSummary {
        NodeSummary {
            node: self.node,
            group,
            ready_ps: self.ready_ps,
            instructions: self.instructions,
            frames_sent: self.frames_sent,
            frames_dropped: self.frames_dropped,
            infiniband: self
                .card
                .map(|card| CardSummary::of(card, &self.congestion)),
            time: self.time,
            processor_time: self.processor_time,
            noise: self.noise,
            missed_kills: self.missed_kills.clone(),
        }
    }
}

/// Maximum number of programs in a node's warnings.
const MOST_PROGRAMS: usize = 8;

/// Programs whose calls, if any, were not observed.
fn hidden_programs(runner: &Runner) -> Vec<String> {
    let programs = runner
        .tracer()
        .map(NodeTracer::silent_programs)
        .unwrap_or_default();
    let named = programs.iter().take(MOST_PROGRAMS);
    let mut lines: Vec<String> = named
        .map(|(name, (rank, times))| {
            format!(
                "node {}: a launcher started {name} ({times} times, as rank {rank} for one), and no MPI call of that rank was seen; a program with MPI linked in must not be stripped of its symbols",
                runner.index
            )
        })
        .collect();
    if programs.len() > MOST_PROGRAMS {
        let more = programs.len() - MOST_PROGRAMS;
        lines.push(format!(
            "node {}: the same holds for {more} more programs",
            runner.index
        ));
    }
    lines
}

fn warnings(runner: &Runner) -> Vec<String> {
    let mut warnings = Vec::new();
    let report = runner.engine_report();
    for missing in &report.unimplemented {
        let bytes: String = missing
            .bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        warnings.push(format!(
            "node {}: an instruction at {:#x} is not implemented and raised #UD {} times: {bytes}",
            runner.index, missing.rip, missing.count
        ));
    }
    for stream in runner.logs.full() {
        warnings.push(format!(
            "node {} wrote more to its {} than is kept; see the end of its file",
            runner.index,
            stream.what()
        ));
    }
    if let Some(line) = &runner.out_of_memory {
        warnings.push(format!(
            "node {} ran out of memory; raise nodes.memory; its kernel says: {line}",
            runner.index
        ));
    }
    if let Some(line) = &runner.refused_memory {
        warnings.push(format!(
            "node {} refused memory to a program; raise nodes.memory if the program cannot handle that; its kernel says: {line}",
            runner.index
        ));
    }
    let told = report.warnings.iter();
    warnings.extend(told.map(|text| format!("node {}: {text}", runner.index)));
    if report.stubs_abused {
        warnings.push(format!(
            "node {}: the guest ran other code among the library's stubs, which count from then on",
            runner.index
        ));
    }
    warnings.extend(hidden_programs(runner));
    let missed = missed_kills::of(runner);
    warnings.extend(missed.iter().filter_map(|kill| kill.warning(runner.index)));
    for (slot, complaint) in runner.node().complaints() {
        warnings.push(format!(
            "node {}: virtio device {slot}: {complaint}",
            runner.index
        ));
    }
    warnings
}
