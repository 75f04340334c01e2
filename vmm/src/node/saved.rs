//! A node's state apart from its RAM, saved and taken over.
//!
//! A restored node does what the saved one would have done. A state is hostile when it is loaded:
//! what is not that of such a node is an error. Checkpoints call `save` and `restore`, templates
//! `write_snapshot` and `clone_of`.

use belljar_cpu::{Cycles, GuestRam, Vcpu};
use belljar_sim::{Seed, check, decode, encode};
use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use super::devices::DevicesState;
use super::noise::Noise;
use super::processor::ProcessorState;
use super::{ExitCounts, Node, NodeError, NodeStop, VcpuParts};
use crate::config::NodeConfig;
use crate::snapshot::{Identity, Snapshot, SnapshotError};

/// All of a node but its RAM and what it is made from.
#[derive(Serialize, Deserialize)]
struct NodeState {
    processors: Vec<ProcessorState>,
    /// Whose turn it is, and when the slice ends.
    rotation: (usize, Cycles),
    devices: DevicesState,
    arrivals: Arrivals,
    counts: ExitCounts,
    magic: Option<Cycles>,
    ended: Option<NodeStop>,
    noise: Option<Noise>,
}

impl Node {
    /// The node's state without its RAM, to be [restored](Self::restore) with what RAM
    /// holds now. Its processors forget what they hold of page tables, so that this node
    /// continues as the restored one does.
    ///
    /// # Errors
    /// When there is more of it than can be saved.
    pub fn save(&mut self) -> Result<Vec<u8>, NodeError> {
        let processors: Result<_, NodeError> =
            self.processors.iter_mut().map(|one| one.save()).collect();
        let bytes = encode(&NodeState {
            processors: processors?,
            rotation: (self.rotation.current, self.rotation.end),
            devices: self.devices.save(),
            arrivals: self.arrivals.clone(),
            counts: self.counts,
            magic: self.magic,
            ended: self.ended,
            noise: self.save_noise(),
        })?;
        check::<NodeState>(&bytes)?;
        Ok(bytes)
    }

    /// A node that continues where another one, of the same configuration, was
    /// [saved](Self::save); `ram` holds what that one's held. What its disks hold and the
    /// network card's address are those of `config`: they may differ where no driver
    /// had taken notice of them yet.
    ///
    /// # Errors
    /// [`NodeError`] when the state is not that of such a node, or the host refuses the
    /// engine.
    pub fn restore<F>(
        config: &NodeConfig,
        ram: GuestRam,
        state: &[u8],
        engine: F,
    ) -> Result<Self, NodeError>
    where
        F: FnMut(VcpuParts) -> Result<Box<dyn Vcpu + Send>, belljar_cpu::CpuError>,
    {
        config.check()?;
        let mut node = Self::of_parts(config, ram, engine)?;
        let state: NodeState = decode(state)?;
        let (current, end) = state.rotation;
        if state.processors.len() != node.processors.len() || current >= node.processors.len() {
            let found = state.processors.len();
            return Err(NodeError::State(format!("it has {found} processors")));
        }
        for (processor, saved) in node.processors.iter_mut().zip(state.processors) {
            processor.load(saved)?;
        }
        let (clocks, noise) = (node.clocks(), state.noise.as_ref());
        if noise.is_some_and(|noise| !noise.is_sound(&clocks, node.frequency)) {
            return Err(NodeError::State("its detours cannot be drawn".to_owned()));
        }
        let other = || NodeError::State("its devices are others".to_owned());
        node.devices.load(state.devices).ok_or_else(other)?;
        node.rotation.current = current;
        node.rotation.end = end;
        node.arrivals = state.arrivals;
        node.counts = state.counts;
        node.magic = state.magic;
        node.ended = state.ended;
        node.noise = state.noise;
        Ok(node)
    }

    /// A clone of the node in `snapshot` that draws random numbers of its own.
    ///
    /// # Errors
    /// As for [`restore`](Self::restore), and when the host cannot map the snapshot.
    pub fn clone_of<F>(
        snapshot: &Snapshot,
        config: &NodeConfig,
        engine: F,
    ) -> Result<Self, NodeError>
    where
        F: FnMut(VcpuParts) -> Result<Box<dyn Vcpu + Send>, belljar_cpu::CpuError>,
    {
        let mut node = Self::restore(config, snapshot.ram()?, snapshot.state(), engine)?;
        node.reseed(config.seed, config.index);
        Ok(node)
    }

    fn reseed(&mut self, seed: Seed, index: u64) {
        self.devices.reseed(seed, index);
        for (number, processor) in (0..).zip(&mut self.processors) {
            let stream = VcpuParts::random_stream(number, index);
            processor.vcpu.reseed(seed, stream);
        }
    }

    /// Writes the node, as it is now, to the file of a snapshot. `boot_log` is what it
    /// wrote to its console so far.
    ///
    /// # Errors
    /// When there is too much of it, or the host refuses the file.
    pub fn write_snapshot(
        &mut self,
        path: &std::path::Path,
        identity: &Identity,
        boot_log: &[u8],
    ) -> Result<(), NodeError> {
        let state = self.save()?;
        let done: Result<(), SnapshotError> =
            Snapshot::write(path, identity, &state, boot_log, &self.devices.ram);
        Ok(done?)
    }
}
