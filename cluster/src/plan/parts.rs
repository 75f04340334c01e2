//! What the nodes of a run are made of.
//!
//! What nodes differ in follows from their index and the scenario's seed. A template knows nothing of what
//! nodes or runs differ in. Called where a run is prepared and where its snapshot is made.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_cpu::{CpuError, GuestRam};
use belljar_devices::virtio::{Disk, DiskError};
use belljar_fabric::Mac;
use belljar_images::ErofsError;
use belljar_sim::{Random, Seed, Span, Time};
use belljar_unwind::Files;
use belljar_vmm::{
    DiskConfig, KernelError, KernelImage, NetConfig, Node, NodeConfig, NodeError, Snapshot,
};
use twox_hash::XxHash3_64;

use crate::host::memory as host_memory;
use crate::plan::Plan;
use crate::plan::code::code_files;
use crate::plan::probes::RunProbes;
use crate::plan::processors::Makers;
use crate::plan::run_disk;
use belljar_workload::large_files::LargeFilesError;

/// Date of virtual time zero: 2024-01-01, 00:00 UTC.
pub(crate) const START_DATE: u64 = 1_704_067_200;
pub(crate) const DISK_LATENCY: Span = Span::from_us(20);

/// The nodes' network, as init is told it; node 0's address in it is the run disk's.
const NETWORK: &str = "10.77.0.0/16";
/// The seed of what all clones share; each continues with its own.
const TEMPLATE_SEED: Seed = Seed(0);
/// Bytes of an archive without files, and of the disk of large files where nobody mounts it.
const EMPTY_ARCHIVE: usize = 1024;

/// Why nodes cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// The kernel is not usable.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An image file is not usable.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The initial RAM disk cannot be read.
    #[error("cannot read {path}: {source}; build the image again with: belljar image build")]
    Initrd {
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The engine has nothing to work with.
    #[error(transparent)]
    Engine(#[from] CpuError),
    /// The programs of the image's root file system can't be read.
    #[error(transparent)]
    Root(#[from] ErofsError),
    /// The disk of large files cannot be made.
    #[error(transparent)]
    LargeFiles(#[from] LargeFilesError),
    /// The run disk cannot be made.
    #[error("cannot pack the workload's files: {0}")]
    RunDisk(io::Error),
}

/// What nodes share.
pub(crate) struct Parts {
    /// What those of each image share.
    images: Vec<ImageParts>,
    makers: Makers,
    /// Whether nodes that boot take their memory in huge pages.
    huge_pages: bool,
    /// None where there are none, or only the node to be cloned is made.
    large_files: Option<Disk>,
    /// The disk of Slurm, if nodes have it.
    slurm: Option<Disk>,
    /// Of what runs differ in.
    pub(crate) disk_hashes: DiskHashes,
}

/// What all nodes of an image share.
pub(crate) struct ImageParts {
    kernel: Arc<KernelImage>,
    initrd: Arc<[u8]>,
    root: Disk,
    run_disk: Disk,
    /// By what calls are seen, if not by the preloaded library.
    pub(crate) probes: Option<RunProbes>,
    /// By what stacks of calls are unwound, where frames are recorded.
    pub(crate) code: Option<Arc<Files>>,
}

/// XXH3 of what is on the disks that a run brings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskHashes {
    /// On the run disk; where nodes have several images, of the hashes of theirs.
    pub(crate) run: u64,
    /// On the disk of large files, if there is one.
    pub(crate) large_files: Option<u128>,
}

impl Parts {
    /// Reads the image, packs the run disk and writes the disk of large files.
    pub(crate) fn load(plan: &Plan) -> Result<Self, PartsError> {
        let mut parts = Self::of_template(plan)?;
        if plan.has_disk_of_files() {
            let large = plan.large_files.disk()?;
            parts.large_files = Some(large.disk);
            parts.disk_hashes.large_files = Some(large.hash);
        }
        Ok(parts)
    }

    /// The same without large files, which the node to be cloned does not need.
    pub(crate) fn of_template(plan: &Plan) -> Result<Self, PartsError> {
        let (mut images, mut hashes) = (Vec::new(), Vec::new());
        for number in 0..plan.images.len() {
            let (parts, hash) = ImageParts::load(plan, number)?;
            images.push(parts);
            hashes.push(hash);
        }
        let run = match hashes[..] {
            [one] => one,
            _ => XxHash3_64::oneshot(
                &hashes
                    .iter()
                    .flat_map(|it| it.to_le_bytes())
                    .collect::<Vec<u8>>(),
            ),
        };
        Ok(Self {
            images,
            makers: Makers::open(plan)?,
            huge_pages: host_memory::is_plenty_for(plan.memory_of(0..plan.nodes)),
            large_files: None,
            slurm: plan
                .slurm
                .as_ref()
                .map(|own| Disk::open(&own.image.root))
                .transpose()?,
            disk_hashes: DiskHashes {
                run,
                large_files: None,
            },
        })
    }

    /// What node `index` of `plan` shares with those of its image.
    pub(crate) fn of_node(&self, plan: &Plan, index: u32) -> &ImageParts {
        &self.images[plan.kind_of(index).image]
    }

    /// Builds node `index`, to be booted.
    pub(crate) fn node(&self, plan: &Plan, index: u32) -> Result<Node, NodeError> {
        let seed = Seed(plan.seed);
        let words = identity_words(plan, index);
        let kind = plan.kind_number(index);
        let mut config = self.config(
            plan,
            (kind, index),
            seed,
            self.own_disks(plan, kind),
            &words,
        );
        config.huge_pages = self.huge_pages;
        Node::new(&config, self.makers.node(plan, kind, index, seed))
    }

    /// Builds the node that clones of kind number `kind` are made of, to be booted: it knows nothing of what
    /// such nodes or runs differ in.
    pub(crate) fn template(&self, plan: &Plan, kind: usize) -> Result<Node, NodeError> {
        let empty = Disk::from_bytes(vec![0; EMPTY_ARCHIVE]);
        let disks = RunDisks {
            large_files: plan.has_disk_of_files().then(|| empty.clone()),
            run: empty,
        };
        let words = "belljar.identity=console";
        let mut config = self.config(plan, (kind, 0), TEMPLATE_SEED, disks, words);
        config.net = Some(template_card());
        Node::new(&config, self.makers.node(plan, kind, 0, TEMPLATE_SEED))
    }

    /// Node `index` as a clone of its kind's template's `snapshot`. It does not know who it is before it is
    /// [told](Self::tell_identity).
    pub(crate) fn clone_of(
        &self,
        snapshot: &Snapshot,
        plan: &Plan,
        index: u32,
    ) -> Result<Node, NodeError> {
        let (seed, kind) = (Seed(plan.seed), plan.kind_number(index));
        let config = self.config(plan, (kind, index), seed, self.own_disks(plan, kind), "");
        let maker = self.makers.node(plan, kind, index, seed);
        Node::clone_of(snapshot, &config, maker)
    }

    /// Tells the clone `node` at `time` that it is node `index`.
    pub(crate) fn tell_identity(&self, plan: &Plan, index: u32, node: &mut Node, time: Time) {
        let seed = Seed(plan.seed);
        let mut own = [0; 32];
        Random::new(seed, "guest", u64::from(index)).fill(&mut own);
        let own: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
        let words = identity_words(plan, index);
        let line = format!("{words} belljar.seed={own}\n");
        node.write_control(time, line.into_bytes());
    }

    /// Node `index` that continues with `ram` and the other `state` that it was saved with.
    pub(crate) fn restored(
        &self,
        plan: &Plan,
        index: u32,
        ram: GuestRam,
        state: &[u8],
    ) -> Result<Node, NodeError> {
        let (seed, kind) = (Seed(plan.seed), plan.kind_number(index));
        let config = self.config(plan, (kind, index), seed, self.own_disks(plan, kind), "");
        let maker = self.makers.node(plan, kind, index, seed);
        Node::restore(&config, ram, state, maker)
    }

    fn own_disks(&self, plan: &Plan, kind: usize) -> RunDisks {
        let image = plan.kinds()[kind].image;
        RunDisks {
            run: self.images[image].run_disk.clone(),
            large_files: self.large_files.clone(),
        }
    }

    fn config(
        &self,
        plan: &Plan,
        (kind, index): (usize, u32),
        seed: Seed,
        own: RunDisks,
        words: &str,
    ) -> NodeConfig {
        let kind = &plan.kinds()[kind];
        let (image, append) = (&self.images[kind.image], &plan.image_of_kind(kind).append);
        let disk = |disk: Disk, name: &str| DiskConfig {
            disk,
            name: name.to_owned(),
            latency: DISK_LATENCY,
        };
        let mut disks = vec![disk(image.root.clone(), "root"), disk(own.run, "run")];
        disks.extend(own.large_files.map(|large| disk(large, "files")));
        // Always the fourth, which scripts and snapshots rely on.
        disks.extend(self.slurm.clone().map(|slurm| disk(slurm, "slurm")));
        NodeConfig {
            index: u64::from(index),
            seed,
            memory: kind.memory,
            huge_pages: false,
            vcpus: kind.vcpus,
            slice: plan.slice,
            frequency: kind.clock,
            instruction_set: kind.instruction_set.clone(),
            kernel: image.kernel.clone(),
            initrd: Some(image.initrd.clone()),
            command_line: format!("{words} {}", append).trim_end().to_owned(),
            disks,
            net: Some(plan.card(index)),
            date: START_DATE,
            streams: 2,
            exit_device: false,
        }
    }
}

/// The network card of the node that clones are made of: its driver lets go of it before the snapshot.
fn template_card() -> NetConfig {
    NetConfig {
        mac: Mac::of_host(0).0,
        mtu: 1500,
        speed: 10_000,
        offload: false,
    }
}

impl ImageParts {
    /// Of image number `number`, and the hash of the run disk that it is given.
    fn load(plan: &Plan, number: usize) -> Result<(Self, u64), PartsError> {
        let of = &plan.images[number];
        let image = &of.image;
        let initrd = std::fs::read(&image.initrd).map_err(|source| PartsError::Initrd {
            path: image.initrd.clone(),
            source,
        })?;
        let run_disk = run_disk::build(plan, of).map_err(PartsError::RunDisk)?;
        let hash = XxHash3_64::oneshot(&run_disk);
        let parts = Self {
            kernel: Arc::new(KernelImage::open(&image.kernel)?),
            initrd: initrd.into(),
            root: Disk::open(&image.root)?,
            probes: RunProbes::of(plan, number)?,
            code: code_files(plan, image)?,
            run_disk: Disk::from_bytes(run_disk),
        };
        Ok((parts, hash))
    }
}

/// The disks that a run brings.
struct RunDisks {
    run: Disk,
    large_files: Option<Disk>,
}

/// What init must know of node `index`.
fn identity_words(plan: &Plan, index: u32) -> String {
    let nodes = plan.nodes;
    format!("belljar.node={index} belljar.nodes={nodes} belljar.net={NETWORK}")
}
