//! Stops that a node's owner requests: at probes, returns, breakpoints, watchpoints and watched buffers.
//!
//! The guest's behaviour and time are the same with and without them. Called by owners of nodes between runs, and by the
//! run loop after devices have acted.

use std::sync::Arc;

use belljar_cpu::{BufferAccess, Probed, Probes, WatchedBuffers, Watchpoint};
use vm_memory::{Address, GuestMemoryBackend, GuestMemoryRegion};

use crate::node::{Node, NodeStop};

impl Node {
    /// Stops the node with [`NodeStop::Probe`] when user code reaches one of `probes`. The guest's
    /// behaviour does not change. Returns false if the engine has no probes.
    pub fn set_probes(&mut self, probes: &Arc<Probes>) -> bool {
        let mut each = self.processors.iter_mut();
        each.all(|one| one.vcpu.set_probes(probes))
    }

    /// Stops the node with [`NodeStop::Return`] when user code reaches linear address `target`, the
    /// return address of the current processor's present call. Returns false if the engine has no
    /// such watches, or no free one.
    pub fn watch_return(&mut self, target: u64) -> bool {
        // Processors of a node share their code, and so its watches.
        self.current_mut().vcpu.watch_return(target)
    }

    /// Stops the node with [`NodeStop::Return`] before every instruction at one of these linear addresses, in all
    /// address spaces; they replace all earlier ones. The guest's behaviour does not change. Returns false if the
    /// engine has no breakpoints.
    pub fn set_breakpoints(&mut self, addresses: &[u64]) -> bool {
        self.current_mut().vcpu.set_breakpoints(addresses)
    }

    /// Removes all watches of return addresses.
    pub fn forget_returns(&mut self) {
        self.current_mut().vcpu.forget_returns();
    }

    /// The state of the current processor at the last probe stop, with the time account of all
    /// processors up to then, as in [`account`](Self::account).
    pub fn probed(&self) -> Option<Probed> {
        let mut probed = self.current().vcpu.probed()?;
        // The other processors stood still meanwhile.
        for (index, other) in self.processors.iter().enumerate() {
            if index != self.rotation.current {
                let both = probed.account.zip(other.vcpu.account());
                probed.account = both.map(|(sum, one)| sum + one);
            }
        }
        Some(probed)
    }

    /// The low halves of XMM0 to XMM7 of the processor whose turn it is.
    pub fn scalars(&self) -> [u64; 8] {
        self.current().vcpu.scalars()
    }

    /// Stops the node with [`NodeStop::Watchpoint`] after every instruction that accesses one of these ranges, and when a
    /// device writes to one; they replace all earlier ones. Returns false if the engine has no watchpoints.
    pub fn set_watchpoints(&mut self, points: &[Watchpoint]) -> bool {
        self.disturb();
        self.is_watched = !points.is_empty();
        for region in self.devices.ram.iter() {
            region.bitmap().region().record_writes(self.is_watched);
        }
        let mut each = self.processors.iter_mut();
        each.all(|one| one.vcpu.set_watchpoints(points))
    }

    /// Stops the node with [`NodeStop::Buffer`] after every instruction by which a process accesses one of its own buffers
    /// among these, except for exempt threads; they replace all earlier ones. Returns false if the engine has no watched
    /// buffers.
    pub fn set_watched_buffers(&mut self, buffers: &WatchedBuffers) -> bool {
        self.disturb();
        let mut each = self.processors.iter_mut();
        each.all(|one| one.vcpu.set_watched_buffers(buffers))
    }

    /// The access of the current processor at the last stop for a watched buffer.
    pub fn buffer_access(&self) -> Option<BufferAccess> {
        self.current().vcpu.buffer_access()
    }

    /// Finds a watchpoint among the bytes that devices have written since the last call.
    pub(in crate::node) fn see_devices(&mut self) {
        if !self.is_watched {
            return;
        }
        let regions = self.devices.ram.iter();
        let written: Vec<(u64, u64)> = regions
            .flat_map(|region| {
                let start = region.start_addr().raw_value();
                let written = region.bitmap().region().take_recorded();
                written
                    .into_iter()
                    .map(move |(offset, bytes)| (start + offset, bytes))
            })
            .collect();
        let vcpu = self.current_vcpu();
        let engine = &mut self.current_mut().vcpu;
        let mut found = written
            .into_iter()
            .filter_map(|(at, bytes)| engine.watchpoint_at(at, bytes));
        if let Some(number) = found.next() {
            self.seen = Some(NodeStop::Watchpoint {
                number,
                write: true,
                device: true,
                vcpu,
            });
        }
    }
}
