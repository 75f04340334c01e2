//! Construction of a run's nodes.
//!
//! Differences between nodes follow from their index and the scenario's seed. A template is independent of
//! the differences between nodes and between runs. Called to prepare a run and to make its snapshot.

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
use crate::plan::nodes::code::code_files;
use crate::plan::nodes::kept_code::KeptCode;
use crate::plan::nodes::processors::Makers;
use crate::plan::nodes::run_disk;
use crate::plan::probes::RunProbes;
use belljar_workload::large_files::LargeFilesError;

/// Date of virtual time zero: 2024-01-01, 00:00 UTC.
pub(crate) const START_DATE: u64 = 1_704_067_200;
pub(crate) const DISK_LATENCY: Span = Span::from_us(20);

/// The nodes' network, for init; node 0's address in it is on the run disk.
const NETWORK: &str = "10.77.0.0/16";
/// The seed of the template; each clone continues with its own seed.
const TEMPLATE_SEED: Seed = Seed(0);
/// Bytes of an archive without files, and of an unused disk of large files.
const EMPTY_ARCHIVE: usize = 1024;

/// Errors of making nodes.
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
    /// The engine cannot work on this host.
    #[error(transparent)]
    Engine(#[from] CpuError),
    /// The programs of the image's root file system cannot be read.
    #[error(transparent)]
    Root(#[from] ErofsError),
    /// The disk of large files cannot be made.
    #[error(transparent)]
    LargeFiles(#[from] LargeFilesError),
    /// The run disk cannot be made.
    #[error("cannot pack the workload's files: {0}")]
    RunDisk(io::Error),
}

/// Shared parts of nodes.
pub(crate) struct SharedParts {
    /// Shared parts of the nodes of each image.
    images: Vec<ImageParts>,
    makers: Makers,
    /// True if booted nodes use huge pages.
    huge_pages: bool,
    /// `None` without large files, or if only the template is made.
    large_files: Option<Disk>,
    /// The disk of Slurm, if nodes have it.
    slurm: Option<Disk>,
    /// Hashes of the disks that differ between runs.
    pub(crate) disk_hashes: DiskHashes,
}

/// Shared parts of the nodes of an image.
pub(crate) struct ImageParts {
    kernel: Arc<KernelImage>,
    initrd: Arc<[u8]>,
    root: Disk,
    run_disk: Disk,
    /// Probes for calls, unless the preloaded library reports them.
    pub(crate) probes: Option<RunProbes>,
    /// Code for unwinding stacks, if frames are recorded.
    pub(crate) code: Option<Arc<Files>>,
}

/// XXH3 of the contents of the disks that a run brings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskHashes {
    /// Of the run disk; with several images, a hash of the hashes of their run disks.
    pub(crate) run: u64,
    /// Of the disk of large files, if there is one.
    pub(crate) large_files: Option<u128>,
}

impl SharedParts {
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

    /// The same without large files, which the template does not need.
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

    /// The files of translated code, for the end of the run.
    pub(crate) fn kept_code(&self) -> KeptCode {
        self.makers.kept_code()
    }

    /// The shared parts of node `index` of `plan`.
    pub(crate) fn of_node(&self, plan: &Plan, index: u32) -> &ImageParts {
        &self.images[plan.kind_of(index).image]
    }

    /// Builds node `index` for booting.
    pub(crate) fn node(&self, plan: &Plan, index: u32) -> Result<Node, NodeError> {
        let seed = Seed(plan.seed);
        let words = identity_words(plan, index);
        let kind = plan.kind_number(index);
        let mut config = self.config(plan, kind, index, seed, self.own_disks(plan, kind), &words);
        config.huge_pages = self.huge_pages;
        Node::new(&config, self.makers.node(plan, kind, index, seed))
    }

    /// Builds the template for clones of kind number `kind`, for booting. It is independent of the
    /// differences between such nodes or runs.
    pub(crate) fn template(&self, plan: &Plan, kind: usize) -> Result<Node, NodeError> {
        let empty = Disk::from_bytes(vec![0; EMPTY_ARCHIVE]);
        let disks = RunDisks {
            large_files: plan.has_disk_of_files().then(|| empty.clone()),
            run: empty,
        };
        let words = "belljar.identity=console";
        let mut config = self.config(plan, kind, 0, TEMPLATE_SEED, disks, words);
        config.net = Some(template_card());
        Node::new(&config, self.makers.template(plan, kind, TEMPLATE_SEED))
    }

    /// Makes node `index` as a clone from `snapshot` of its kind's template. It has no identity before
    /// [`tell_identity`](Self::tell_identity).
    pub(crate) fn clone_of(
        &self,
        snapshot: &Snapshot,
        plan: &Plan,
        index: u32,
    ) -> Result<Node, NodeError> {
        let (seed, kind) = (Seed(plan.seed), plan.kind_number(index));
        let config = self.config(plan, kind, index, seed, self.own_disks(plan, kind), "");
        let maker = self.makers.node(plan, kind, index, seed);
        Node::clone_of(snapshot, &config, maker)
    }

    /// Sends the clone `node` its identity, node `index`, at `time`. Each of its starts, counted by `start`, has other random numbers.
    pub(crate) fn tell_identity(
        &self,
        plan: &Plan,
        (index, start): (u32, u32),
        node: &mut Node,
        time: Time,
    ) {
        let seed = Seed(plan.seed);
        let mut own = [0; 32];
        let stream = u64::from(start) << 32 | u64::from(index);
        Random::new(seed, "guest", stream).fill(&mut own);
        let own: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
        let words = identity_words(plan, index);
        let line = format!("{words} belljar.seed={own}\n");
        node.write_control(time, line.into_bytes());
    }

    /// Makes node `index` with `ram` and the other saved `state`.
    pub(crate) fn restored(
        &self,
        plan: &Plan,
        index: u32,
        ram: GuestRam,
        state: &[u8],
    ) -> Result<Node, NodeError> {
        let (seed, kind) = (Seed(plan.seed), plan.kind_number(index));
        let config = self.config(plan, kind, index, seed, self.own_disks(plan, kind), "");
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
        kind: usize,
        index: u32,
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
        // Always the fourth disk: scripts and snapshots rely on it.
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
            infiniband: plan.infiniband.as_ref().map(|it| it.card(index)),
            date: START_DATE,
            streams: 2,
            exit_device: false,
        }
    }
}

/// The network card of the template, whose driver is unbound before the snapshot.
fn template_card() -> NetConfig {
    NetConfig {
        mac: Mac::of_host(0).0,
        mtu: 1500,
        speed: 10_000,
        offload: false,
    }
}

impl ImageParts {
    /// For image number `number`, with the hash of its run disk.
    fn load(plan: &Plan, number: usize) -> Result<(Self, u64), PartsError> {
        let of = &plan.images[number];
        let image = &of.image;
        let initrd = std::fs::read(&image.initrd).map_err(|source| PartsError::Initrd {
            path: image.initrd.clone(),
            source,
        })?;
        let run_disk = run_disk::build(plan, of).map_err(PartsError::RunDisk)?;
        let hash = XxHash3_64::oneshot(&run_disk);
        let kernel = Arc::new(KernelImage::open(&image.kernel)?);
        let probes = RunProbes::of(plan, number, &kernel)?;
        let parts = Self {
            kernel,
            initrd: initrd.into(),
            root: Disk::open(&image.root)?,
            probes,
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

/// Words about the identity of node `index` for init.
fn identity_words(plan: &Plan, index: u32) -> String {
    let nodes = plan.nodes;
    format!("belljar.node={index} belljar.nodes={nodes} belljar.net={NETWORK}")
}
