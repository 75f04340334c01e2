//! Calls found by probes, and starts of processes.
//!
//! A process is known from its first instruction on, at the probe of the dynamic loader; the environment from its launcher is on its
//! stack. It becomes an MPI process with its first call of an MPI library. Calls that a library makes internally are not recorded.
//! Nothing is written to the guest. The runner of the node calls `probe` and `returned`.

use std::collections::{BTreeMap, BTreeSet};

use belljar_mpi::FUNCTIONS;
use belljar_trace::{Implementation, Launch, MpiLibrary};

use crate::calls::Space;
use crate::guest::memory::{GuestMemory, Reader};
use crate::guest::registers::{ARGUMENT_REGISTERS, MAX_PROCESSES, MagicRegisters, RSP};
use crate::interception::component::{Mapped, object_at};
use crate::interception::targets::{Library, ObjectLocation, Target};
use crate::launch::{self, Launched};
use crate::node::NodeTracer;

/// The status of a process that SIGKILL ended.
const SIGKILL: u32 = 9;

impl NodeTracer {
    /// Handles the arrival at probe number `probe` on processor `vcpu` at cycle `at`. `registers` are as they were before the
    /// instruction there.
    pub fn probe(
        &mut self,
        at: u64,
        vcpu: u32,
        probe: u32,
        registers: &MagicRegisters,
        memory: &mut dyn GuestMemory,
    ) {
        let targets = self.targets.clone();
        let own = targets.own(probe);
        if !own.is_empty() {
            // If the return address has a probe as well, an engine reports only the probe.
            self.returned(at, registers, memory);
        }
        self.come_to(targets.get(probe), at, vcpu, registers, memory);
        for probe in own {
            self.begin_own(at, vcpu, *probe, registers, memory);
        }
    }

    /// Handles the arrival at a target that every run has.
    fn come_to(
        &mut self,
        target: Option<Target>,
        at: u64,
        vcpu: u32,
        registers: &MagicRegisters,
        memory: &mut dyn GuestMemory,
    ) {
        let targets = self.targets.clone();
        match target {
            Some(Target::Start) => {
                self.begin_process(at, registers, memory);
                self.begin_own_task(at, registers, memory);
            }
            Some(Target::Call {
                file,
                function,
                value,
            }) => {
                let library = targets.library(file);
                let base = registers.rip.wrapping_sub(value);
                if self.is_internal(function, library, base, registers, memory) {
                    return;
                }
                *self.counters.calls.entry(function).or_default() += 1;
                self.ensure_process(at, file, library, base, registers, memory);
                self.begin_call(at, vcpu, function, registers, memory);
            }
            Some(Target::Receive(hook)) => self.post_receive(hook, registers, Reader(memory)),
            Some(Target::ProcessEnd) => self.note_end(registers),
            Some(Target::Own) | None => {}
        }
    }

    /// Handles the arrival, at cycle `at`, at an address to which a call was to return. The program may have reached it in another way,
    /// or not for the first time.
    pub fn returned(&mut self, at: u64, registers: &MagicRegisters, memory: &dyn GuestMemory) {
        let space = registers.space();
        let slot = registers.gpr[RSP].wrapping_sub(8);
        let place = (registers.fs_base, slot);
        if let Some(call) = self.open.returned_to(space, place, registers.rip) {
            self.end_call(call, at, registers, memory);
        }
        self.match_receive(registers, Reader(memory));
        self.end_own(at, registers, memory);
    }

    /// Records that the return of the latest call cannot be observed.
    pub fn return_is_unseen(&mut self) {
        self.counters.warnings.unreturnable += 1;
    }

    /// Starts a process in an address space, and ends the previous one there.
    fn begin_process(&mut self, at: u64, registers: &MagicRegisters, memory: &dyn GuestMemory) {
        let space = registers.space();
        self.end_process(space, at);
        let before = self.launched.remove(&space);
        self.note_silent(before);
        let launched = launch::launched(registers.gpr[RSP], Reader(memory));
        if let Ok(Some(launched)) = launched
            && self.launched.len() < MAX_PROCESSES
        {
            self.launched.insert(space, launched);
        }
    }

    /// Notes the status with which the process in this address space ends. The kernel ends its other threads by the same function, as if by
    /// SIGKILL.
    fn note_end(&mut self, registers: &MagicRegisters) {
        let status = registers.gpr[ARGUMENT_REGISTERS[0]] as u32;
        if let Some(process) = self.processes.get_mut(&registers.space()) {
            match process.end {
                Some(_) if status == SIGKILL => {}
                _ => process.end = Some(status),
            }
        }
    }

    /// Notes that a launched process ended, or may have, without an observed call.
    fn note_silent(&mut self, launched: Option<Launched>) {
        let Some(launched) = launched else {
            return;
        };
        let key = (launched.program, launched.rank);
        if self.silent.len() < MAX_PROCESSES || self.silent.contains_key(&key) {
            *self.silent.entry(key).or_default() += 1;
        }
    }

    /// Returns the launched programs without an observed call of their ranks on this node, with one of their ranks each and their
    /// number. If they call MPI, their calls are hidden.
    pub fn silent_programs(&self) -> BTreeMap<String, (u32, u64)> {
        let seen: BTreeSet<u32> = self.known.iter().map(|process| process.rank).collect();
        let ended = self
            .silent
            .iter()
            .map(|((name, rank), count)| (name, *rank, *count));
        let running = self.launched.values();
        let running = running.map(|launched| (&launched.program, launched.rank, 1));
        let mut programs = BTreeMap::new();
        for (name, rank, count) in ended.chain(running) {
            if !seen.contains(&rank) {
                programs.entry(name.clone()).or_insert((rank, 0)).1 += count;
            }
        }
        programs
    }

    /// Registers the process in this address space as an MPI process, if it is not yet.
    fn ensure_process(
        &mut self,
        at: u64,
        file: usize,
        library: &Library,
        base: u64,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) {
        let space = registers.space();
        if self.processes.contains_key(&space) {
            return;
        }
        let launched = self.launched.remove(&space);
        let rank = launched.as_ref().map(|launched| launched.rank);
        self.start_process(space, at, rank, library.implementation);
        let unread = &mut self.counters.warnings.unread_objects;
        let addresses = library.objects.iter().map(|place| match *place {
            ObjectLocation::Missing => 0,
            // A program that is not relocated has a base of zero.
            ObjectLocation::At(value) => base.wrapping_add(value),
            ObjectLocation::Slot(slot) => {
                let address = Reader(memory).u64(base.wrapping_add(slot));
                *unread += u64::from(address.is_err());
                address.unwrap_or(0)
            }
        });
        if let Some(process) = self.processes.get_mut(&space) {
            if library.implementation == Implementation::OpenMpi {
                process.learn_addresses(addresses);
            }
            process.library = Some((file as u32, base));
            match launched.map(|launched| launched.launch) {
                // MPICH queries Hydra for the job's name when it initializes.
                Some(launch) if launch.name.is_none() => process.hold_launch(launch),
                Some(launch) => process.learn_launch(launch),
                None => {}
            }
        }
    }

    /// Takes the launcher's job of the process in this address space, which has initialized MPI, unless an event has it.
    pub(crate) fn take_unnamed_launch(
        &mut self,
        space: Space,
        memory: &dyn GuestMemory,
    ) -> Option<Launch> {
        let process = self.processes.get_mut(&space)?;
        let mut launch = process.unnamed.take()?;
        let (file, base) = process.library?;
        let library = self.targets.find_library(file as usize)?;
        let known = self.job_names.get(&file).copied();
        if let Some((slot, name)) = launch::hydra_name(library, base, known, memory) {
            self.job_names.insert(file, slot);
            launch.name = Some(name);
        }
        Some(launch)
    }

    /// True if a part of Open MPI outside of the library itself calls `function`, which returns to `target`. Such parts are a component
    /// within another call, and a binding for Fortran, which converts handles.
    pub(crate) fn is_of_part(
        &mut self,
        function: u16,
        registers: &MagicRegisters,
        target: u64,
        memory: &dyn GuestMemory,
    ) -> bool {
        let (space, slot) = (registers.space(), registers.gpr[RSP]);
        if turns_handles(function) && self.is_of_binding(space, target, memory) {
            return true;
        }
        let within = self.open.depth(space, registers.fs_base, slot) > 0;
        within && object_at(target, Reader(memory)).is_some_and(|object| object.is_component())
    }

    /// True if `target` is in a binding for Fortran. The memory range of a binding in a process is searched only once, as each Fortran
    /// call uses it several times.
    fn is_of_binding(&mut self, space: Space, target: u64, memory: &dyn GuestMemory) -> bool {
        if let Some(piece) = self.bindings.get(&space)
            && piece.contains(&target)
        {
            return true;
        }
        let object = object_at(target, Reader(memory)).filter(Mapped::is_binding);
        let Some(object) = object else {
            return false;
        };
        if self.bindings.len() >= MAX_PROCESSES {
            self.bindings.clear();
        }
        self.bindings.insert(space, object.piece);
        true
    }

    /// True if a call of `function`, which returns to `target`, is a jump out of an observed call of another function. Before such a
    /// jump a function restores its caller's registers; a program that calls again through a pointer, after an exception left the first
    /// call, has other values.
    pub(crate) fn is_jump(&self, function: u16, registers: &MagicRegisters, target: u64) -> bool {
        let place = (registers.fs_base, registers.gpr[RSP]);
        let standing = self.open.standing(registers.space(), place, target);
        standing
            .is_some_and(|call| call.event.function != function && call.kept == registers.kept())
    }

    /// True if `target` is in the library that the process called first. A library of the standard ABI may call another one.
    fn is_of_first_library(&self, space: Space, target: u64) -> bool {
        let process = self.processes.get(&space);
        let Some((file, base)) = process.and_then(|process| process.library) else {
            return false;
        };
        let library = self.targets.find_library(file as usize);
        library.is_some_and(|library| library.code.contains(&target.wrapping_sub(base)))
    }

    /// True if a call is internal to the library: made from its code, or by a jump out of another call.
    fn is_internal(
        &mut self,
        function: u16,
        library: &Library,
        base: u64,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) -> bool {
        let slot = registers.gpr[RSP];
        let Ok(target) = Reader(memory).u64(slot) else {
            return false;
        };
        let own = library.code.contains(&target.wrapping_sub(base))
            || self.is_of_first_library(registers.space(), target)
            || self.is_jump(function, registers, target);
        let components = library.implementation.library() == MpiLibrary::OpenMpi;
        own || components && self.is_of_part(function, registers, target, memory)
    }
}

/// True for a function that converts handles between languages.
fn turns_handles(function: u16) -> bool {
    let function = FUNCTIONS.get(usize::from(function));
    function.is_some_and(|function| {
        let name = function.name;
        name.ends_with("_f2c") || name.ends_with("_c2f")
    })
}
