//! What the nodes of a run are made of.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use belljar_devices::virtio::{Disk, DiskError};
use belljar_exact::{CodeShare, ExactConfig, ExactVcpu};
use belljar_fabric::Mac;
use belljar_sim::{Random, Seed, Span};
use belljar_vmm::{DiskConfig, KernelError, KernelImage, NetConfig, Node, NodeConfig, NodeError};

use crate::plan::Plan;
use crate::run_disk;

/// Date of virtual time zero: 2024-01-01, 00:00 UTC.
pub(crate) const START_DATE: u64 = 1_704_067_200;
pub(crate) const DISK_LATENCY: Span = Span::from_us(20);
pub(crate) const MTU: u16 = 1500;

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
    /// The run disk cannot be made.
    #[error("cannot pack the workload's files: {0}")]
    RunDisk(io::Error),
}

/// What all nodes share.
pub(crate) struct Parts {
    kernel: Arc<KernelImage>,
    initrd: Arc<[u8]>,
    root: Disk,
    run_disk: Disk,
}

impl Parts {
    /// Reads the image and packs the run disk.
    pub(crate) fn load(plan: &Plan) -> Result<Self, PartsError> {
        let initrd = std::fs::read(&plan.image.initrd).map_err(|source| PartsError::Initrd {
            path: plan.image.initrd.clone(),
            source,
        })?;
        Ok(Self {
            kernel: Arc::new(KernelImage::open(&plan.image.kernel)?),
            initrd: initrd.into(),
            root: Disk::open(&plan.image.root)?,
            run_disk: Disk::from_bytes(run_disk::build(plan).map_err(PartsError::RunDisk)?),
        })
    }

    /// Builds node `index`.
    pub(crate) fn node(&self, plan: &Plan, index: u32) -> Result<Node, NodeError> {
        let disk = |disk: &Disk, name: &str| DiskConfig {
            disk: disk.clone(),
            name: name.to_owned(),
            latency: DISK_LATENCY,
        };
        let command_line = format!(
            "belljar.node={index} belljar.nodes={} belljar.net=10.77.0.0/16 {}",
            plan.nodes, plan.append
        );
        let config = NodeConfig {
            index: u64::from(index),
            seed: Seed(plan.seed),
            memory: plan.memory,
            vcpus: plan.vcpus,
            slice: plan.slice,
            frequency: plan.clock,
            instruction_set: plan.instruction_set.clone(),
            kernel: self.kernel.clone(),
            initrd: Some(self.initrd.clone()),
            command_line: command_line.trim_end().to_owned(),
            disks: vec![disk(&self.root, "root"), disk(&self.run_disk, "run")],
            net: Some(NetConfig {
                mac: Mac::of_host(index).0,
                mtu: MTU,
            }),
            date: START_DATE,
            exit_device: false,
        };
        let share = CodeShare::default();
        Node::new(&config, |parts| {
            let stream = VcpuParts::random_stream(parts.index, u64::from(index));
            let random = Random::new(Seed(plan.seed), belljar_exact::RANDOM_STREAM, stream);
            let config = ExactConfig {
                ram: parts.ram,
                cpuid: parts.cpuid,
                instruction_set: parts.instruction_set,
                ratio: plan.ratio,
                timing: plan.timing.clone(),
                random,
            };
            Ok(Box::new(ExactVcpu::sharing(config, &share)?))
        })
    }
}
