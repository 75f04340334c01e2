//! Passes a node's MPI calls to its tracer: at probes, at watched return addresses, and at the
//! preloaded library's magic instruction.
//!
//! The node is stopped meanwhile, and then continues by itself. Called by the runner's loop.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_cpu::{
    BufferRanges, Registers, SegmentRegister, TimeAccount, WatchKind, WatchedBuffer,
};
use belljar_trace::Account;
use belljar_tracer::{GuestMemory, MagicRegisters, RangeToWatch, StoppedAccess};
use belljar_vmm::Node;

use super::Runner;
use crate::plan::Plan;
use crate::plan::nodes::parts::SharedParts;
use crate::plan::probes::RunProbes;
use crate::scenario::engine::Engine;

/// The node's memory, for the tracer.
struct TracerMemory<'a>(&'a mut Node);

impl GuestMemory for TracerMemory<'_> {
    fn read(&self, linear: u64, into: &mut [u8]) -> Result<(), belljar_tracer::BadAddress> {
        self.0
            .read_virtual(linear, into)
            .map_err(|bad| belljar_tracer::BadAddress(bad.0))
    }

    fn write(&mut self, linear: u64, from: &[u8]) -> Result<(), belljar_tracer::BadAddress> {
        self.0
            .write_virtual(linear, from)
            .map_err(|bad| belljar_tracer::BadAddress(bad.0))
    }
}

impl Runner {
    /// Observes the node's calls from now on, by the method of the run's engine.
    pub(crate) fn begin_calls(&mut self, plan: &Plan, parts: &SharedParts) {
        self.kills = plan.kills_of(self.index);
        let parts = parts.of_node(plan, self.index);
        if let (Some(tracer), Some(code)) = (&mut self.tracer, &parts.code) {
            tracer.record_frames(plan.trace.frames, code.clone());
        }
        match &parts.probes {
            Some(probes) => self.begin_probes(probes),
            None if plan.engine == Engine::Exact => self.begin_returns(),
            None => {}
        }
    }

    /// Observes returns of calls at their return addresses from now on, without changes of the
    /// guest's stacks. For engines with this ability.
    fn begin_returns(&mut self) {
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        tracer.watch_returns();
        // Calls that were open at a checkpoint.
        for target in tracer.open_returns() {
            self.node.watch_return(target);
        }
    }

    /// Observes the node's calls by `probes` from now on.
    fn begin_probes(&mut self, probes: &RunProbes) {
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        self.node.set_probes(&probes.probes);
        tracer.set_targets(probes.targets.clone());
        tracer.set_own_probes(probes.own.clone());
        tracer.renew_buffers();
        self.begin_returns();
        self.watch_buffers();
    }

    /// The tracer's view of a processor with these registers.
    fn seen(&self, registers: &Registers, time: Option<TimeAccount>) -> MagicRegisters {
        let system = self.node.system();
        MagicRegisters {
            scalars: [0; 8],
            gpr: registers.gpr,
            rip: registers.rip,
            cr3: system.cr3,
            fs_base: system.segments[SegmentRegister::Fs as usize].base,
            account: time.map(account),
        }
    }

    /// Handles a program's arrival at a probe.
    pub(super) fn probe(&mut self, probe: u32, vcpu: u32) {
        let Some(state) = self.node.probed() else {
            return;
        };
        let registers = MagicRegisters {
            scalars: state.scalars,
            ..self.seen(&state.registers, state.account)
        };
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        let memory = &mut TracerMemory(&mut self.node);
        tracer.probe(state.at, vcpu, probe, &registers, memory);
        self.watch_return();
        self.watch_buffers();
    }

    /// Handles a program's arrival at a return address.
    pub(super) fn returned(&mut self, at: u64) {
        let registers = MagicRegisters {
            scalars: self.node.scalars(),
            ..self.seen(&self.node.registers(), self.node.account())
        };
        if let Some(tracer) = &mut self.tracer {
            tracer.returned(at, &registers, &TracerMemory(&mut self.node));
        }
        self.watch_buffers();
    }

    /// Watches the buffers of operations that the tracer names, if they have changed.
    pub(super) fn watch_buffers(&mut self) {
        let Some(changed) = self
            .tracer
            .as_mut()
            .and_then(|it| it.take_buffers_to_watch())
        else {
            return;
        };
        if let Some(spaces) = changed.spaces {
            let spaces = spaces.into_iter();
            let spaces = spaces.map(|(space, ranges)| (space, buffer_ranges(ranges)));
            self.breaks.buffers.spaces = Arc::new(spaces.collect::<BTreeMap<_, _>>());
        }
        self.breaks.buffers.exempt = changed.exempt;
        self.node.set_watched_buffers(&self.breaks.buffers);
    }

    /// Handles an access by a program to a watched buffer.
    pub(super) fn buffer_accessed(&mut self, at: u64, vcpu: u32) {
        let code = self.node.system().segments[SegmentRegister::Cs as usize];
        // A fault within the instruction has entered the kernel, and the instruction runs again.
        let is_user = code.selector & 3 == 3;
        let Some(access) = self.node.buffer_access().filter(|_| is_user) else {
            return;
        };
        let access = StoppedAccess {
            instruction: access.instruction,
            linear: access.linear,
            bytes: access.bytes,
            write: access.write,
        };
        let registers = self.seen(&self.node.registers(), None);
        if let Some(tracer) = &mut self.tracer {
            let memory = &TracerMemory(&mut self.node);
            tracer.buffer_accessed(at, vcpu, access, &registers, memory);
        }
        self.watch_buffers();
    }

    /// Watches the return of the call that the tracer has just taken.
    fn watch_return(&mut self) {
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        while let Some(target) = tracer.take_return_to_watch() {
            if self.node.watch_return(target) {
                continue;
            }
            // Returned calls leave watched addresses; open calls are few.
            self.node.forget_returns();
            for open in tracer.open_returns() {
                self.node.watch_return(open);
            }
            if !self.node.watch_return(target) {
                tracer.return_is_unseen();
            }
        }
    }

    pub(super) fn magic(&mut self, at: u64, vcpu: u32) {
        let registers = self.node.registers();
        let magic = self.seen(&registers, self.node.account());
        let target = match &mut self.tracer {
            Some(tracer) => tracer.magic(at, vcpu, &magic, &mut TracerMemory(&mut self.node)),
            None => self.node.real_function(&registers),
        };
        self.watch_return();
        self.node.complete_magic(target);
    }
}

/// The watched buffers of an address space.
fn buffer_ranges(ranges: Vec<RangeToWatch>) -> BufferRanges {
    let buffers = ranges.into_iter().map(|(start, end, loads)| WatchedBuffer {
        start,
        end,
        kind: match loads {
            true => WatchKind::Access,
            false => WatchKind::Write,
        },
    });
    BufferRanges::new(buffers.collect())
}

/// A node's time account, for the tracer.
fn account(time: TimeAccount) -> Account {
    Account {
        instructions: time.instructions,
        caches: time.caches + time.translation,
        memory: time.memory + time.bandwidth,
        idle: time.idle,
    }
}
