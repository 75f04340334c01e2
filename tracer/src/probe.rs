//! Calls that probes find, and processes that they see begin.
//!
//! A process is known from its first instruction on, which the dynamic loader's probe is at: the
//! environment that its launcher gave it stands on its stack. It becomes an MPI process with
//! its first call of an MPI library. Calls that a library makes of itself are its own
//! affair, and not recorded. Nothing is written to the guest. Whoever runs the node calls
//! [`probe`](NodeTracer::probe) and [`returned`](NodeTracer::returned).

use crate::calls::Space;
use crate::memory::{BadAddress, GuestMemory, Reader};
use crate::node::{MAX_PROCESSES, MagicRegisters, NodeTracer, RSP, SPACE_MASK};
use crate::targets::{Library, Place, Target};

/// Most arguments, and most variables of an environment, that are gone through.
const MOST_WORDS: u64 = 1 << 14;

/// Variables by which launchers tell a process its rank: MPICH's and its kin, Open MPI's, and
/// PMIx's.
const RANK_VARIABLES: [&str; 3] = ["PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"];

impl NodeTracer {
    /// Handles that a program came to probe number `probe` on processor `vcpu` at cycle `at`.
    /// `registers` are as they were before the instruction there.
    pub fn probe(
        &mut self,
        at: u64,
        vcpu: u32,
        probe: u32,
        registers: &MagicRegisters,
        memory: &mut dyn GuestMemory,
    ) {
        let targets = self.targets.clone();
        match targets.get(probe) {
            Some(Target::Start) => self.begin_process(registers, memory),
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
                self.ensure_process(at, library, base, registers, memory);
                self.begin_call(at, vcpu, function, registers, memory);
            }
            None => {}
        }
    }

    /// Handles that a program came, at cycle `at`, to an address to which a call was to return.
    /// It may have come there otherwise, or not for the first time.
    pub fn returned(&mut self, at: u64, registers: &MagicRegisters, memory: &dyn GuestMemory) {
        let space = registers.cr3 & SPACE_MASK;
        let slot = registers.gpr[RSP].wrapping_sub(8);
        let place = (registers.fs_base, slot);
        if let Some(call) = self.open.returned_to(space, place, registers.rip) {
            self.end_call(call, at, registers, memory);
        }
    }

    /// The call last entered cannot be seen to return.
    pub fn return_is_unseen(&mut self) {
        self.counters.warnings.unreturnable += 1;
    }

    /// A process begins in an address space: whatever was there is gone.
    fn begin_process(&mut self, registers: &MagicRegisters, memory: &dyn GuestMemory) {
        let space = registers.cr3 & SPACE_MASK;
        self.end_process(space);
        let rank = rank_in_environment(registers.gpr[RSP], Reader(memory));
        match rank.ok().flatten() {
            Some(rank) if self.launched.len() < MAX_PROCESSES => {
                self.launched.insert(space, Some(rank));
            }
            _ => {
                self.launched.remove(&space);
            }
        }
    }

    /// Makes the process in this address space known as an MPI process, if it is not.
    fn ensure_process(
        &mut self,
        at: u64,
        library: &Library,
        base: u64,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) {
        let space: Space = registers.cr3 & SPACE_MASK;
        if self.processes.contains_key(&space) {
            return;
        }
        let rank = self.launched.remove(&space).flatten();
        self.start_process(space, at, rank, library.implementation);
        let addresses = library.objects.iter().map(|place| match *place {
            Place::Missing => 0,
            // A program that is not moved has a base of zero.
            Place::At(value) => base.wrapping_add(value),
            Place::Slot(slot) => Reader(memory).u64(base.wrapping_add(slot)).unwrap_or(0),
        });
        if let Some(process) = self.processes.get_mut(&space) {
            process.learn_addresses(addresses);
        }
    }

    /// Whether a call is the library's own affair: made from its own code, or where a call
    /// of another function that was seen goes on by a jump.
    fn is_internal(
        &self,
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
        let place = (registers.fs_base, slot);
        let space = registers.cr3 & SPACE_MASK;
        let jumped = self.open.standing(space, place, target);
        library.code.contains(&target.wrapping_sub(base))
            || jumped.is_some_and(|call| call.event.function != function)
    }
}

/// The rank in the environment of a process that is at its first instruction, where its stack
/// is as the kernel made it (System V ABI, 3.4.1): the number of arguments, each argument's
/// address, zero, each variable's address, zero.
fn rank_in_environment(stack: u64, memory: Reader<'_>) -> Result<Option<u32>, BadAddress> {
    let arguments = memory.u64(stack)?.min(MOST_WORDS);
    let first = stack.wrapping_add(8 * (arguments + 2));
    for index in 0..MOST_WORDS {
        let entry = memory.u64(first.wrapping_add(8 * index))?;
        if entry == 0 {
            break;
        }
        let Ok(text) = memory.text(entry) else {
            continue;
        };
        let Some((name, value)) = text.split_once('=') else {
            continue;
        };
        if RANK_VARIABLES.contains(&name)
            && let Ok(rank) = value.parse()
        {
            return Ok(Some(rank));
        }
    }
    Ok(None)
}
