//! Saving and restoring a node's state, apart from its RAM.
//!
//! A restored node continues exactly as the saved one would have. A loaded state is untrusted: if
//! it does not fit such a node, loading is an error. Checkpoints call `save` and `restore`,
//! templates `write_snapshot` and `clone_of`.

use belljar_cpu::{Cycles, GuestRam, Vcpu};
use belljar_sim::{Seed, check, decode, encode};
use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use super::devices::DevicesState;
use super::noise::Noise;
use super::processor::ProcessorState;
use super::succession::EarlierCounters;
use super::{ExitCounts, Node, NodeError, NodeStop, VcpuParts};
use crate::config::NodeConfig;
use crate::snapshot::{Identity, Snapshot, SnapshotError};

/// The state of a node without its RAM and its configuration.
#[derive(Serialize, Deserialize)]
struct NodeState {
    processors: Vec<ProcessorState>,
    /// The current processor, and the end of the slice.
    rotation: (usize, Cycles),
    devices: DevicesState,
    arrivals: Arrivals,
    counts: ExitCounts,
    magic: Option<Cycles>,
    ended: Option<NodeStop>,
    noise: Option<Noise>,
    /// Commands of earlier cycles were delivered.
    commands_from: Cycles,
    earlier: EarlierCounters,
}

impl Node {
    /// The node's state without its RAM, to be [restored](Self::restore) with the present contents
    /// of RAM. The processors drop cached page-table entries, so that this node continues as the
    /// restored one does.
    ///
    /// # Errors
    /// If the state exceeds the size limit.
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
            commands_from: self.commands.due_from,
            earlier: self.earlier.clone(),
        })?;
        check::<NodeState>(&bytes)?;
        Ok(bytes)
    }

    /// A node that continues at the state [saved](Self::save) by another one of the same
    /// configuration; `ram` has that node's contents. The disks' contents and the network card's
    /// address are those in `config`: they may differ from the saved node's, if no driver has used
    /// the devices yet.
    ///
    /// # Errors
    /// [`NodeError`] if the state does not fit such a node, or the host refuses the engine.
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
        node.commands.due_from = state.commands_from;
        node.earlier = state.earlier;
        Ok(node)
    }

    /// A clone of the node in `snapshot`, with a random stream of its own.
    ///
    /// # Errors
    /// As for [`restore`](Self::restore), and if the host cannot map the snapshot.
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

    /// Writes the node's present state to a snapshot file. `boot_log` is its console output so far.
    ///
    /// # Errors
    /// If the state is too large, or the file cannot be written.
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
