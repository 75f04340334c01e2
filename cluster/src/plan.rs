//! A scenario resolved: every value known, every file found.
//!
//! Making a plan reads the file system but executes no part of the scenario. Its values have been checked:
//! later parts take them as they are. Called by all commands that run a scenario or check it, and by agents.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use belljar_fabric::{LinkId, Settings, Topology};
use belljar_images::Image;
use belljar_sim::{Span, Time};

use crate::plan::error::PlanError;
use crate::results::outputs::RequestedFiles;
use crate::scenario::engine::{Engine, EngineChoice, KvmOptions};
use crate::scenario::{Arp, BootKind, Nodes, Results, Scenario, Trace, TraceBy};
use crate::shared_folder;
use crate::slurm::{self, SlurmPlan};
use belljar_workload::GuestRoot;
use belljar_workload::large_files::LargeFiles;

/// A scenario's background jobs, resolved.
pub mod background;
/// Delays and failures at given times.
pub(crate) mod delays;
/// A plan in words.
mod describe;
/// Errors of a scenario's values.
pub mod error;
/// The files that a scenario names.
mod files;
/// The images of a run's nodes, and their properties.
pub mod images;
/// InfiniBand cards and their network.
pub mod infiniband;
/// The properties of the nodes of each group.
pub mod kinds;
/// Settings of MPI launchers on the nodes.
mod launchers;
/// Limits of values.
mod limits;
/// A scenario's network, resolved.
mod network;
/// Nodes of a run: their parts, disks, code and processors.
pub mod nodes;
/// Probes for MPI calls.
pub mod probes;
/// The image's secure shell server.
mod secure_shell;

use background::BackgroundPlan;
use delays::DelayPlan;
use files::read_files;
pub use images::ImagePlan;
use images::Makings;
use infiniband::InfinibandPlan;
pub use kinds::NodeKind;
use kinds::noise::{self, NoisePlan};
use network::NetworkPlan;
use network::card::CardKind;
pub use network::network_warnings;
use probes::own::{OwnProbe, System};
pub use secure_shell::SecureShell;

/// The shortest turn that a vCPU can have.
const SHORTEST_SLICE: Span = Span::from_ns(100);
/// All data of a run before its start.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the scenario.
    pub name: String,
    /// Description of the scenario.
    pub description: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// Engine that carries the nodes.
    pub engine: Engine,
    /// Options of the host's virtualisation, if it carries them.
    pub kvm: KvmOptions,
    /// The images, without repetition; each kind of nodes has the number of its image.
    pub images: Vec<ImagePlan>,
    /// Slurm, if nodes have it.
    pub slurm: Option<SlurmPlan>,
    /// Number of nodes.
    pub nodes: u32,
    /// Kinds of nodes, in the order of their numbers; see [`kinds`](Self::kinds).
    kinds: Vec<NodeKind>,
    /// Detours of their processors.
    noise: Vec<NoisePlan>,
    /// Delays and failures at given times.
    pub(crate) delays: DelayPlan,
    /// Time slice of each of several processors: the scenario's value, or as much of it as fits a round.
    pub slice: Span,
    /// Origin of approximate and undefined results.
    pub results: Results,
    /// The network.
    pub topology: Topology,
    /// Its settings.
    pub network: Settings,
    /// Its description in words.
    pub network_words: String,
    /// The nodes' network cards.
    card: CardKind,
    /// InfiniBand cards and their network, if nodes have them.
    pub infiniband: Option<InfinibandPlan>,
    /// Warnings about links and ports without traffic, each with a remedy.
    pub network_warnings: Vec<String>,
    /// Resolution of the nodes' hardware addresses.
    pub arp: Arp,
    /// Background jobs on the network.
    pub background: Vec<BackgroundPlan>,
    /// Links to record.
    pub pcap: Vec<LinkId>,
    /// The workload's script.
    pub command: String,
    /// The workload's files by name in its folder.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The files that nodes read from a disk.
    pub large_files: LargeFiles,
    /// The workload's programs in words, each with its libraries.
    pub programs: Vec<String>,
    /// True if every node boots instead of being cloned.
    pub boot_each: bool,
    /// The snapshots to clone, one for each kind of nodes; empty for the default ones.
    pub snapshots: Vec<PathBuf>,
    /// Virtual time limit of the run.
    pub limit: Time,
    /// True if a run in which no rank can proceed ends before its limit.
    pub stops_when_stuck: bool,
    /// True if all nodes have node 0's `/root`, over NFS.
    pub shared_folder: bool,
    /// Files that nodes return after the run.
    pub outputs: RequestedFiles,
    /// Trace settings.
    pub trace: Trace,
    /// Profile settings, if samples are taken.
    pub profile: Option<ProfilePlan>,
    /// The user's probes.
    pub probes: Vec<OwnProbe>,
    /// Virtual time between automatic checkpoints, if any.
    pub checkpoint_every: Option<Span>,
    /// True if automatic checkpoints begin with the first call of MPI.
    pub checkpoints_after_init: bool,
    /// Number of checkpoints that stay after the run, if any do.
    pub checkpoints_kept: Option<u32>,
}

/// Sampling of processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfilePlan {
    /// Virtual time between samples.
    pub every: Span,
    /// Most frames of a stack.
    pub frames: u8,
}

impl Plan {
    /// Resolves `scenario`, which was read from `path`.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn resolve(scenario: &Scenario, path: &Path) -> Result<Self, PlanError> {
        limits::check(scenario)?;
        Self::resolve_for(scenario, path, Self::images_of(scenario, path)?)
    }

    /// The images of `scenario`, which was read from `path`, without repetition, in the order of the nodes.
    ///
    /// # Errors
    /// If a recipe cannot be read or is not built.
    pub fn images_of(scenario: &Scenario, path: &Path) -> Result<Vec<Image>, PlanError> {
        images::find(scenario, path)
    }

    /// True if nodes have a disk of large files. The disk of Slurm follows it.
    pub(crate) fn has_disk_of_files(&self) -> bool {
        !self.large_files.is_empty() || self.slurm.is_some()
    }

    /// The images of nodes, followed by the image of Slurm if there is one.
    pub fn all_images(&self) -> impl Iterator<Item = &Image> {
        let slurm = self.slurm.iter().map(|slurm| &slurm.image);
        self.images.iter().map(|of| &of.image).chain(slurm)
    }

    /// The image of nodes of this kind.
    pub fn image_of_kind(&self, kind: &NodeKind) -> &ImagePlan {
        &self.images[kind.image]
    }

    /// True if the library is preloaded into the workload's programs.
    pub fn preloads_library(&self) -> bool {
        self.trace.means(self.engine) == Some(TraceBy::Library)
    }

    /// The method of recording calls; `None` if they are not recorded.
    pub fn traced_by(&self) -> Option<TraceBy> {
        self.trace.means(self.engine).filter(|_| self.trace.enabled)
    }

    /// True if calls are recorded by probes instead of the library.
    pub fn traces_by_probes(&self) -> bool {
        self.traced_by() == Some(TraceBy::Probes)
    }

    /// The same for given images, in the order of [`images_of`](Self::images_of).
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn resolve_for(
        scenario: &Scenario,
        path: &Path,
        images: Vec<Image>,
    ) -> Result<Self, PlanError> {
        limits::check(scenario)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let kinds = kinds::resolve(scenario, folder)?;
        let engine = engine(scenario)?;
        if engine == Engine::Exact {
            for kind in &kinds {
                belljar_exact::host_requirements(&kind.instruction_set)?;
            }
        }
        sees_calls(scenario, engine)?;
        let mut network = NetworkPlan::resolve(scenario, folder)?;
        let delays = DelayPlan::resolve(scenario, &kinds, engine)?;
        delays.affect(&network.topology, &mut network.settings)?;
        let (files, large_files) = read_files(&scenario.workload.files, folder)?;
        images::check_number(scenario, images.len())?;
        let (images, slurm_image) = images::apart(scenario, images);
        let roots = images.iter().map(GuestRoot::open);
        let roots = roots.collect::<Result<Vec<_>, _>>()?;
        let systems = images.iter().zip(&roots);
        let systems = systems.map(|(image, root)| System::new(root, &image.kernel));
        let probes = probes::own::resolve(scenario, engine, systems.collect(), &files)?;
        let makings = Makings {
            scenario,
            kinds: &kinds,
            files: &files,
            large_files: &large_files,
        };
        if let Some(root) = roots.first() {
            slurm::check_called(scenario, &files, root)?;
        }
        let slurm = images::slurm(scenario, slurm_image, &roots, &files)?;
        let shared_folder = shared_folder::resolve(scenario, &images)?;
        let (images, programs) = images::resolve(&makings, images, &roots)?;
        let infiniband = InfinibandPlan::resolve(scenario, folder, engine, &images)?;
        let lookahead = infiniband::lookahead(infiniband.as_ref(), &network.topology);
        Ok(Self {
            name: scenario.name.clone(),
            description: scenario.description.clone(),
            seed: scenario.seed,
            engine,
            kvm: scenario.kvm,
            images,
            slurm,
            nodes: scenario.nodes.count(),
            slice: slice(&scenario.nodes, engine, lookahead)?,
            network_warnings: infiniband::add_warnings(network.warnings()?, infiniband.as_ref()),
            results: scenario.nodes.results,
            topology: network.topology,
            network: network.settings,
            network_words: network.words,
            card: network.card,
            infiniband,
            arp: scenario.network.arp,
            background: background::resolve(scenario, folder)?,
            pcap: network.pcap,
            command: scenario.workload.command.clone(),
            noise: noise::resolve(scenario, &kinds, engine)?,
            delays,
            kinds,
            files,
            large_files,
            programs,
            boot_each: scenario.nodes.boot == BootKind::Each,
            snapshots: Vec::new(),
            limit: Time::ZERO + scenario.workload.limit.0,
            stops_when_stuck: scenario.workload.stop_when_stuck,
            shared_folder,
            outputs: RequestedFiles {
                shared_folder,
                patterns: scenario.workload.outputs.clone(),
                limit: scenario.workload.output_limit.0,
            },
            trace: scenario.trace.clone(),
            profile: profile(scenario, engine)?,
            probes,
            checkpoint_every: scenario.checkpoint.every.map(|every| every.0),
            checkpoints_after_init: scenario.checkpoint.after_init,
            checkpoints_kept: scenario.checkpoint.keep,
        })
    }
}

/// Refuses a scenario whose calls the engine cannot observe.
fn sees_calls(scenario: &Scenario, engine: Engine) -> Result<(), PlanError> {
    let trace = &scenario.trace;
    let Some(means) = trace.means(engine) else {
        return Err(PlanError::Range {
            key: "trace.by",
            value: format!(
                "{:?} with trace.library = {}",
                trace.by.map_or("", TraceBy::name),
                trace.library == Some(true)
            ),
            limits: "the same, or one of both keys left out",
        });
    };
    if engine == Engine::Kvm && trace.enabled && means == TraceBy::Probes {
        return Err(PlanError::Range {
            key: "trace.by",
            value: "\"probes\" with trace.enabled and engine \"kvm\"".to_owned(),
            limits: "\"library\" (or trace.library = true), as that engine has no probes",
        });
    }
    Ok(())
}

/// The sampling, if the engine can stop for it.
fn profile(scenario: &Scenario, engine: Engine) -> Result<Option<ProfilePlan>, PlanError> {
    let Some(every) = scenario.profile.every else {
        return Ok(None);
    };
    if engine != Engine::Exact {
        return Err(PlanError::Range {
            key: "profile.every",
            value: format!("given with engine \"{engine}\""),
            limits: "left out, as only engine \"exact\" stops at given times",
        });
    }
    Ok(Some(ProfilePlan {
        every: every.0,
        frames: scenario.profile.frames,
    }))
}

/// The engine, if it supports the scenario's time settings.
fn engine(scenario: &Scenario) -> Result<Engine, PlanError> {
    let kinds = scenario.nodes.kinds(1);
    let any = |is: fn(&Nodes) -> bool| kinds.iter().any(|(nodes, _)| is(nodes));
    let modelled = [
        (
            any(|nodes| {
                nodes
                    .timing
                    .as_ref()
                    .is_some_and(|timing| timing.processor.is_some())
            }),
            "nodes.timing.processor",
        ),
        (any(|nodes| nodes.timing.is_some()), "nodes.timing"),
        (
            any(|nodes| nodes.cycles_per_instruction.is_some()),
            "nodes.cycles-per-instruction",
        ),
    ];
    let key = modelled.into_iter().find_map(|(is, key)| is.then_some(key));
    match (scenario.engine, key) {
        (EngineChoice::Auto, Some(_)) => Ok(Engine::Exact),
        (EngineChoice::Kvm, Some(key)) => Err(PlanError::Range {
            key,
            value: "given".to_owned(),
            limits: "left out under engine = \"kvm\", whose time is the processor's own",
        }),
        (choice, _) => Ok(choice.resolve(scenario.kvm)),
    }
}

/// Nodes of several vCPUs are stopped only between slices, so that their execution does not depend on rounds.
/// Therefore no slice is longer than a round. A single node has no rounds.
fn slice(nodes: &Nodes, engine: Engine, lookahead: Span) -> Result<Span, PlanError> {
    let wanted = nodes.slice.map_or(engine.slice(), |slice| slice.0);
    let is_plain = |(kind, _): &(Nodes, u32)| kind.vcpus == 1;
    if nodes.count() == 1 || nodes.kinds(1).iter().all(is_plain) {
        return Ok(wanted);
    }
    let slice = wanted.min(lookahead);
    if slice < SHORTEST_SLICE {
        return Err(PlanError::Range {
            key: "network",
            value: format!("so fast that nodes of several vCPUs would take turns of {slice}"),
            limits: "100 ns at least from one node to another",
        });
    }
    Ok(slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_fit_between_nodes() {
        let under = |engine, nodes: &str, lookahead| {
            let text = format!(
                "name = \"x\"\nimage = {{ recipe = \"r\" }}\nworkload = {{ command = \"\" }}\n\
                 nodes = {{ memory = \"1 GiB\", clock = \"1 GHz\", {nodes} }}\n"
            );
            let scenario = Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap();
            let lookahead = Span::from_ns(lookahead);
            slice(&scenario.nodes, engine, lookahead).map_err(|error| error.to_string())
        };
        let of = |nodes, lookahead| under(Engine::Exact, nodes, lookahead);
        assert_eq!(of("count = 2, vcpus = 2", 2_434), Ok(Span::from_ns(2_434)));
        assert_eq!(of("count = 2, vcpus = 2", 9_000), Ok(Span::from_us(5)));
        assert_eq!(of("count = 1, vcpus = 2", 15), Ok(Span::from_us(5)));
        assert_eq!(of("count = 2", 15), Ok(Span::from_us(5)));
        let kvm = |nodes, lookahead| under(Engine::Kvm, nodes, lookahead);
        assert_eq!(kvm("count = 1, vcpus = 2", 15), Ok(Span::from_ms(1)));
        assert_eq!(kvm("count = 2, vcpus = 2", 9_000), Ok(Span::from_us(9)));
        let given = "count = 1, vcpus = 2, slice = \"7 us\"";
        assert_eq!(kvm(given, 15), Ok(Span::from_us(7)));
        let error = of("count = 2, vcpus = 2", 15).unwrap_err();
        assert!(
            error.contains("turns of") && error.contains("100 ns"),
            "{error}"
        );
    }
}
