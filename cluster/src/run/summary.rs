//! The summary of a run.
//!
//! `summary.json` is the same for equal scenarios. `host.json` has all figures that depend on the host.
//! A few lines are printed. Made by the commands that run a scenario, once the run has ended.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use belljar_exact::Timing;
use belljar_fabric::{Fabric, LinkStatistics};
use belljar_sim::figures::{counted as number_of, counted_as, decimal};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use serde::Serialize;

use crate::observe::control::INPUT_FILE;
use crate::plan::Plan;
use crate::results::infiniband;
use crate::results::outputs::{self, NodeOutputs};
use crate::run::checkpoint::Report;
use crate::run::coordinator::{Ending, Run};
use crate::run::polls;
use crate::run::recorder::selection;
use crate::run::report::{CongestionSummary, NodeReport, NodeSummary, NoiseSummary, ProcessorTime};
use crate::scenario::engine::Engine;
use crate::scenario::{Polls, TraceBy};
use crate::shared_folder;

/// Results of a run, as far as they depend on the scenario alone.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed.
    pub seed: u64,
    /// Its ending, in words.
    pub ending: String,
    /// The workload's exit code, if it ended.
    pub exit_code: Option<i32>,
    /// Virtual time at the end, in picoseconds.
    pub virtual_time_ps: u64,
    /// MPI calls recorded.
    pub mpi_calls: u64,
    /// Method of tracing calls; absent if none were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traced_by: Option<TraceBy>,
    /// Modelled processors, with hashes of their files; absent if no node has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub processors: Vec<String>,
    /// The nodes.
    pub nodes: Vec<NodeSummary>,
    /// Loads of links.
    pub links: Vec<LinkSummary>,
    /// Losses of chosen frames, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chosen_losses: Vec<ChosenLossSummary>,
    /// Figures of background jobs, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<BackgroundSummary>,
    /// The nodes' files, if any are requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<NodeOutputs>,
    /// Warnings about the results.
    pub warnings: Vec<String>,
}

/// One link.
#[derive(Debug, Serialize)]
pub struct LinkSummary {
    /// Its name.
    pub link: String,
    /// In the direction away from the host.
    pub up: LinkStatistics,
    /// In the direction towards it.
    pub down: LinkStatistics,
}

/// Figures of background jobs.
mod background;
/// Losses of chosen frames.
mod chosen_losses;
/// Errors of virtual time.
mod clock;

pub use background::BackgroundSummary;
pub use chosen_losses::ChosenLossSummary;
pub use clock::ClockSummary;

/// Figures about this host.
#[derive(Debug, Serialize)]
pub struct HostSummary {
    /// Host seconds.
    pub seconds: f64,
    /// Host seconds until all nodes were made, included above.
    pub prepared: f64,
    /// Processor seconds of this host, of all threads together.
    pub processor_seconds: f64,
    /// Virtual time that passed here, without the time before clones' snapshots or checkpoints, over
    /// host time.
    pub speed: f64,
    /// Million guest instructions per host second, all nodes together.
    pub mips: f64,
    /// Million guest instructions per second of host time of cores that ran nodes, without boot.
    pub core_mips: f64,
    /// For each node, per host second that it ran.
    pub node_mips: Vec<f64>,
    /// For each node, the counters of its engine.
    pub engines: Vec<BTreeMap<String, u64>>,
    /// Errors of virtual time, under engine kvm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockSummary>,
    /// Host seconds for background jobs and their network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background: Option<f64>,
    /// Number of rounds.
    pub rounds: u64,
    /// The hosts' names, if there were several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Threads of this host.
    pub threads: usize,
    /// Finished checkpoints.
    pub checkpoints: Vec<Report>,
}

impl Summary {
    /// Collects the results of `run`, which has ended.
    pub fn of(plan: &Plan, run: &Run, ending: &Ending) -> Self {
        let group = |report: &NodeReport| plan.kind_of(report.node()).group.clone();
        let nodes = run.reports().iter();
        let nodes = nodes.map(|report| report.summary(group(report)));
        let topology = run.fabric().topology();
        let links = run
            .fabric()
            .statistics()
            .into_iter()
            .zip(0..)
            .map(|([up, down], link)| LinkSummary {
                link: topology.link_name(link),
                up,
                down,
            });
        Self {
            scenario: plan.name.clone(),
            seed: plan.seed,
            ending: ending.to_string(),
            exit_code: match ending {
                Ending::Workload(code) => Some(*code),
                _ => None,
            },
            virtual_time_ps: run.now().as_ps(),
            mpi_calls: run.events(),
            traced_by: plan.traced_by(),
            processors: modelled_processors(plan),
            nodes: nodes.collect(),
            links: links.collect(),
            chosen_losses: chosen_losses::summaries(run.fabric()),
            background: plan
                .background
                .iter()
                .zip(&run.background())
                .map(|(plan, figures)| BackgroundSummary::of(plan, figures))
                .collect(),
            outputs: run.outputs().to_vec(),
            warnings: warnings(plan, run),
        }
    }
}

/// Warnings for users about the results.
fn warnings(plan: &Plan, run: &Run) -> Vec<String> {
    let of_nodes = run.reports().iter().flat_map(NodeReport::warnings);
    let mut warnings: Vec<String> = of_nodes.cloned().collect();
    warnings.extend(plan.network_warnings.iter().cloned());
    warnings.extend(model_warnings(plan));
    if plan.slurm.is_some() && plan.nodes > 1 {
        let images = plan.images.iter().map(|of| &of.image);
        warnings.extend(shared_folder::warning(images));
    }
    let at_cards = run.reports().iter().map(NodeReport::frames_dropped).sum();
    warnings.extend(lost_frames(run.fabric(), at_cards));
    warnings.extend(plan.delays.late(run.now()));
    warnings.extend(chosen_losses::warnings(run.fabric(), run.now()));
    warnings.extend(lost_packets(run));
    let jobs = plan.background.iter().zip(run.background());
    warnings.extend(jobs.filter_map(|(plan, figures)| background::warning(plan, &figures)));
    let polls = run.reports().iter().map(NodeReport::polls);
    warnings.extend(polls::told(
        polls,
        &selection(plan, 0),
        plan.trace.polls == Polls::Folded,
    ));
    warnings.extend(outputs::warnings(run.outputs()));
    if run.typed() > 0 {
        warnings.push(format!(
            "{} typed into consoles, see {INPUT_FILE}: a run without input differs",
            counted_as(run.typed(), "piece of input was", "pieces of input were")
        ));
    }
    warnings
}

/// Warnings about packets of InfiniBand that did not arrive, or not at once.
fn lost_packets(run: &Run) -> impl Iterator<Item = String> {
    let cards = run.reports().iter().filter_map(NodeReport::card);
    let sum = cards.fold([0; 3], |sum, card| {
        let of = [card.dropped, card.not_ready, card.timeouts];
        std::array::from_fn(|place: usize| sum[place] + of[place])
    });
    let unroutable = run.infiniband().map_or(0, |network| network.unroutable());
    let mut cards = run.reports().iter().filter_map(NodeReport::card);
    let is_unused = run.infiniband().is_some() && cards.all(|card| card.doorbells == 0);
    let circle = run.infiniband().and_then(infiniband::circle);
    let unused = is_unused.then(|| {
        "no program used the InfiniBand cards: check that the image has their libraries (ibverbs-providers), as bookworm-infiniband has; messages took Ethernet".to_owned()
    });
    let fates = [
        (
            sum[0],
            "packets were dropped by InfiniBand cards, as no queue pair took them, see packets_dropped",
        ),
        (
            sum[1],
            "requests found no receive at their InfiniBand card and were tried again, see receiver_not_ready",
        ),
        (
            sum[2],
            "acknowledgements of InfiniBand cards did not come in time, see timeouts",
        ),
        (
            unroutable,
            "packets were for local identifiers that no InfiniBand card has",
        ),
    ];
    let some = fates.into_iter().filter(|(count, _)| *count > 0);
    let counted = some.map(|(count, fate)| format!("{count} {fate}"));
    unused.into_iter().chain(circle).chain(counted)
}

/// Warnings about frames that did not arrive.
fn lost_frames(fabric: &Fabric, at_cards: u64) -> impl Iterator<Item = String> {
    let statistics = fabric.statistics();
    let sum =
        |count: fn(&LinkStatistics) -> u64| statistics.iter().flatten().map(count).sum::<u64>();
    let fates = [
        (
            sum(|link| link.drops),
            "frames were dropped at full switch queues",
        ),
        (
            sum(|link| link.lost).saturating_sub(chosen_losses::lost(fabric)),
            "frames were lost on links with losses",
        ),
        (
            sum(|link| link.failed),
            "frames were lost on links that failed",
        ),
        (
            fabric.unroutable(),
            "frames had no way left to their destination",
        ),
        (
            at_cards,
            "frames were dropped by network cards, whose nodes did not take them in time, see frames_dropped",
        ),
    ];
    let some = fates.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, fate)| format!("{count} {fate}"))
}

/// The line about InfiniBand cards; empty without them.
fn of_cards(nodes: &[NodeSummary]) -> String {
    let cards = || nodes.iter().filter_map(|node| node.infiniband);
    if cards().next().is_none() {
        return String::new();
    }
    let packets = cards().map(|card| card.packets_sent).sum();
    let bytes = cards().map(|card| card.bytes_sent).sum();
    let doorbells = cards().map(|card| card.doorbells).sum();
    format!(
        "infiniband: {}, {}, {}\n{}",
        number_of(packets, "packet"),
        belljar_sim::figures::bytes(bytes),
        number_of(doorbells, "doorbell"),
        of_congestion(cards().filter_map(|card| card.congestion))
    )
}

/// The line about congestion control; empty if no queue pair met congestion.
fn of_congestion(cards: impl Iterator<Item = CongestionSummary>) -> String {
    let sum = cards.reduce(|sum, card| CongestionSummary {
        marked: sum.marked.saturating_add(card.marked),
        notifications_sent: sum.notifications_sent + card.notifications_sent,
        notifications_received: sum.notifications_received + card.notifications_received,
        delay_ps: sum.delay_ps.saturating_add(card.delay_ps),
    });
    let Some(sum) = sum else {
        return String::new();
    };
    format!(
        "congestion control: {} marked, {}, {} ms of delays of queue pairs\n",
        number_of(sum.marked, "packet"),
        number_of(sum.notifications_received, "notification"),
        decimal(sum.delay_ps as f64 / 1e9, 3)
    )
}

/// The lines that end a run on the terminal.
pub fn render(summary: &Summary, host: &HostSummary, directory: &Path) -> String {
    let mut text = String::new();
    let virtual_time = summary.virtual_time_ps as f64 / 1e12;
    let instructions: u64 = summary.nodes.iter().map(|node| node.instructions).sum();
    let frames: u64 = summary.nodes.iter().map(|node| node.frames_sent).sum();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}: {}", summary.scenario, summary.ending);
    let _ = writeln!(
        text,
        "{} s of virtual time on {}{} in {} s: {} x real time",
        decimal(virtual_time, 6),
        number_of(summary.nodes.len() as u64, "node"),
        of_groups(&summary.nodes),
        decimal(host.seconds, 1),
        decimal(host.speed, 3)
    );
    let _ = writeln!(
        text,
        "{instructions} instructions, {} recorded, {}, {}",
        number_of(summary.mpi_calls, "MPI call"),
        number_of(frames, "frame"),
        number_of(host.rounds, "round")
    );
    text.push_str(&of_cards(&summary.nodes));
    text.push_str(&of_noise(&summary.nodes));
    let _ = match &host.clock {
        None => writeln!(
            text,
            "speed: {} million instructions per second and core, boot apart; of all nodes {} per second; each: {}",
            decimal(host.core_mips, 0),
            decimal(host.mips, 0),
            node_speeds(&host.node_mips)
        ),
        Some(clock) => writeln!(text, "{clock}"),
    };
    if let Some(longest) = host
        .checkpoints
        .iter()
        .map(|one| one.pause)
        .reduce(f64::max)
    {
        let count = host.checkpoints.len();
        let _ = writeln!(
            text,
            "{}, each with a pause of {} ms at most",
            number_of(count as u64, "checkpoint"),
            decimal(longest * 1e3, 0)
        );
    }
    if !summary.outputs.is_empty() {
        let sum = |count: fn(&NodeOutputs) -> u64| summary.outputs.iter().map(count).sum::<u64>();
        let (files, bytes): (u64, u64) = (sum(|it| it.files), sum(|it| it.bytes));
        let folder = directory.join(outputs::FOLDER);
        let folder = folder.display();
        let _ = writeln!(
            text,
            "{}, {}, in {folder}",
            number_of(files, "output file"),
            number_of(bytes, "byte")
        );
    }
    if !summary.processors.is_empty() {
        let _ = writeln!(text, "processor: {}", summary.processors.join(", "));
        text.push_str(&of_processor_time(&summary.nodes));
    }
    text.push_str(&background::render(&summary.background));
    for warning in &summary.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    let _ = writeln!(text, "run directory: {}", directory.display());
    text
}

/// Warnings about the time models of a plan.
fn model_warnings(plan: &Plan) -> Vec<String> {
    let timings = plan.kinds().iter().filter_map(|kind| kind.timing.as_ref());
    let mut all: Vec<String> = timings.flat_map(Timing::warnings).collect();
    all.dedup();
    all
}

/// The processors that the nodes' time models have, each once.
pub(super) fn modelled_processors(plan: &Plan) -> Vec<String> {
    let timings = plan.kinds().iter().filter_map(|kind| kind.timing.as_ref());
    let processors = timings.filter_map(|timing| timing.processor.as_ref());
    let mut named: Vec<String> = processors.map(|processor| processor.identity()).collect();
    named.sort();
    named.dedup();
    named
}

/// The time of all nodes with a processor model by its cause, in percent.
fn of_processor_time(nodes: &[NodeSummary]) -> String {
    let times: Vec<ProcessorTime> = nodes
        .iter()
        .filter_map(|node| node.processor_time)
        .collect();
    let mut sums = ProcessorTime::default().parts();
    for (name, cycles) in times.iter().flat_map(ProcessorTime::parts) {
        for sum in sums.iter_mut().filter(|sum| sum.0 == name) {
            sum.1 += cycles;
        }
    }
    let all: u64 = sums.iter().map(|sum| sum.1).sum();
    let share = |cycles: u64| decimal(cycles as f64 * 100.0 / all.max(1) as f64, 1);
    let parts = sums.map(|(name, cycles)| format!("{name} {} %", share(cycles)));
    format!("processor time: {}\n", parts.join(", "))
}

/// The effect of detours on nodes' processors, if there are any.
fn of_noise(nodes: &[NodeSummary]) -> String {
    let noise: Vec<NoiseSummary> = nodes.iter().filter_map(|node| node.noise).collect();
    if noise.is_empty() {
        return String::new();
    }
    let detours: u64 = noise.iter().map(|of| of.detours).sum();
    let stolen = || noise.iter().map(|of| of.stolen_ps as f64 / 1e9);
    format!(
        "noise: {} on {} took {} ms of each on average, {} ms at most\n",
        number_of(detours, "detour"),
        number_of(noise.len() as u64, "node"),
        decimal(stolen().sum::<f64>() / noise.len() as f64, 3),
        decimal(stolen().fold(0.0, f64::max), 3)
    )
}

/// The number of nodes of each group, if there are groups.
fn of_groups(nodes: &[NodeSummary]) -> String {
    let groups = nodes.chunk_by(|one, next| one.group == next.group);
    let told =
        groups.filter_map(|nodes| Some(format!("{} {}", nodes.len(), nodes[0].group.as_ref()?)));
    let told: Vec<String> = told.collect();
    match told.is_empty() {
        true => String::new(),
        false => format!(" ({})", told.join(", ")),
    }
}

/// The speed of each running node in million instructions per second; for many nodes, the slowest and
/// the fastest.
fn node_speeds(mips: &[f64]) -> String {
    const FEW: usize = 8;
    if mips.len() <= FEW {
        let each: Vec<String> = mips.iter().map(|mips| decimal(*mips, 0)).collect();
        each.join(", ")
    } else {
        let low = mips.iter().copied().fold(f64::INFINITY, f64::min);
        let high = mips.iter().copied().fold(0.0, f64::max);
        format!("{} to {}", decimal(low, 0), decimal(high, 0))
    }
}

impl HostSummary {
    /// Figures for a run with the results `summary`; `took` has the durations of making the nodes, and
    /// of the whole run.
    pub fn of(
        plan: &Plan,
        summary: &Summary,
        run: &Run,
        took: [Duration; 2],
        threads: usize,
    ) -> Self {
        let reports = || run.reports().iter();
        let [prepared, elapsed] = took;
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let executed: u64 = reports().map(|report| report.executed).sum();
        let mips = |executed: u64, seconds: f64| executed as f64 / 1e6 / seconds.max(1e-9);
        let worked = reports().fold((0, 0.0), |(sum, time), report| {
            (sum + report.worked.0, time + report.worked.1)
        });
        let passed = summary
            .virtual_time_ps
            .saturating_sub(run.begun_at().as_ps());
        Self {
            seconds,
            prepared: prepared.as_secs_f64(),
            processor_seconds: processor_seconds(),
            speed: passed as f64 / 1e12 / seconds,
            mips: mips(executed, seconds),
            core_mips: mips(worked.0, worked.1),
            node_mips: reports()
                .map(|report| mips(report.executed, report.seconds))
                .collect(),
            engines: reports().map(|report| report.counters.clone()).collect(),
            clock: (plan.engine == Engine::Kvm).then(|| ClockSummary::of(run.reports())),
            background: run.background_seconds(),
            rounds: run.rounds,
            hosts: run.hosts(),
            threads,
            checkpoints: Vec::new(),
        }
    }
}

/// Processor time of this process; zero if the host does not report it.
pub fn processor_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF);
    usage.map_or(0.0, |usage| {
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}
