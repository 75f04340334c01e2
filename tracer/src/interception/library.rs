//! Calls through the preloaded library, whose stubs execute a magic instruction.
//!
//! The library introduces a process at its first call of MPI. A stub has its operation in R11, and continues at the
//! returned address, taken from the table in the guest. Of the functions that a call passes through, only the entry
//! into the MPI library is recorded. If returns are not watched, the return address on the stack is replaced
//! (`replaced`), and the call returns through a stub of the library. The runner of the node calls `magic`.

use belljar_abi::{
    FACT_LEAF, IMPLEMENTATION_ABI_MPICH, IMPLEMENTATION_ABI_OPEN_MPI, IMPLEMENTATION_ABI_UNKNOWN,
    IMPLEMENTATION_OPEN_MPI, MAGIC_ADDRESS, OP_RETURN, PASSED_BY, TARGET, UNRESOLVED, fact,
    function_of, table_entry,
};
use belljar_trace::{Implementation, MpiLibrary};

use crate::calls::Returned;
use crate::guest::memory::{GuestMemory, Reader};
use crate::guest::registers::{MagicRegisters, R11, RAX, RBX, RDI, RSI, RSP};
use crate::interception::replaced;
use crate::launch;
use crate::node::NodeTracer;

impl NodeTracer {
    /// Handles a magic exit of `vcpu` at cycle `at`. Returns the value for R11, at which the guest continues. Writes to
    /// the guest only return addresses on its stacks and in the library's table of them. A hostile guest can only harm
    /// itself.
    pub fn magic(
        &mut self,
        at: u64,
        vcpu: u32,
        registers: &MagicRegisters,
        memory: &mut dyn GuestMemory,
    ) -> u64 {
        let r11 = registers.gpr[R11];
        if registers.rip != MAGIC_ADDRESS {
            self.fact(at, registers, memory);
            return r11;
        }
        if r11 == OP_RETURN {
            return self.leave(at, registers, memory);
        }
        match function_of(r11) {
            Some(function) => self.enter(at, vcpu, function, registers, memory),
            None => {
                self.counters.warnings.unknown_magic += 1;
                // Not a user address: the guest faults by its own doing.
                0
            }
        }
    }

    /// Handles a fact about its process that the preloaded library reports.
    fn fact(&mut self, at: u64, registers: &MagicRegisters, memory: &dyn GuestMemory) {
        let (first, second) = (registers.gpr[RDI], registers.gpr[RSI]);
        let space = registers.space();
        if registers.gpr[RAX] as u32 != FACT_LEAF {
            self.counters.warnings.unknown_magic += 1;
            return;
        }
        match registers.gpr[RBX] as u32 {
            fact::PROCESS => {
                let implementation = implementation(second);
                self.start_process(space, at, u32::try_from(first).ok(), implementation);
            }
            fact::OPEN_MPI_OBJECTS => {
                let process = self.processes.get_mut(&space);
                let learned = process.is_some_and(|process| {
                    process.learn_objects(first, second, Reader(memory)).is_ok()
                });
                if !learned {
                    self.counters.warnings.bad_pointers += 1;
                }
            }
            fact::ENVIRONMENT => {
                let launch = launch::told(first, Reader(memory));
                match (self.processes.get_mut(&space), launch) {
                    (Some(process), Ok(launch)) => process.learn_launch(launch),
                    _ => self.counters.warnings.bad_pointers += 1,
                }
            }
            fact::LIBRARY => {
                if let Some(process) = self.processes.get_mut(&space) {
                    process.code = first..second;
                }
            }
            _ => self.counters.warnings.unknown_magic += 1,
        }
    }

    fn enter(
        &mut self,
        at: u64,
        vcpu: u32,
        function: u16,
        registers: &MagicRegisters,
        memory: &mut dyn GuestMemory,
    ) -> u64 {
        let entry = table_entry(registers.gpr[R11]);
        let word = Reader(memory).u64(entry).unwrap_or(0);
        let target = word & TARGET;
        if word & (UNRESOLVED | PASSED_BY) != 0 || self.is_own_call(function, registers, memory) {
            return target;
        }
        if let Some(detour) = self.detour(registers, memory) {
            return detour;
        }
        *self.counters.calls.entry(function).or_default() += 1;
        if target == 0 {
            self.counters.warnings.missing_functions += 1;
            return 0;
        }
        let space = registers.space();
        if self.processes.contains_key(&space) {
            self.begin_call(at, vcpu, function, registers, memory);
        } else {
            self.counters.warnings.unknown_processes += 1;
        }
        target
    }

    /// Returns the address through which a call must pass before its return address can be replaced. It passes only
    /// once, since the table is then present, or never will be.
    fn detour(&mut self, registers: &MagicRegisters, memory: &mut dyn GuestMemory) -> Option<u64> {
        let stack = registers.gpr[RSP].wrapping_add(8);
        let call = Some((registers.space(), stack));
        if self.watches_returns || self.detoured.take() == call {
            return None;
        }
        let detour = replaced::detour(registers.gpr[R11], stack, memory)?;
        self.detoured = call;
        Some(detour)
    }

    /// True if the MPI library itself made a call, or jumped to this function at the end of the one in progress.
    fn is_own_call(
        &mut self,
        function: u16,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) -> bool {
        let process = self.processes.get(&registers.space());
        let caller = Reader(memory).u64(registers.gpr[RSP]);
        let (Some(process), Ok(caller)) = (process, caller) else {
            return false;
        };
        let place = (registers.fs_base, registers.gpr[RSP]);
        if !self.watches_returns
            && caller == replaced::replacement(memory)
            && self.open.stands(registers.space(), place)
        {
            return true;
        }
        let components = process.implementation().library() == MpiLibrary::OpenMpi;
        process.code.contains(&caller)
            || self.watches_returns && self.is_jump(function, registers, caller)
            || components && self.is_of_part(function, registers, caller, memory)
    }

    fn leave(&mut self, at: u64, registers: &MagicRegisters, memory: &mut dyn GuestMemory) -> u64 {
        let space = registers.space();
        let slot = registers.gpr[RSP].wrapping_sub(8);
        let described = replaced::forget(registers.gpr[RSP], memory);
        let call = match self.open.returned(space, registers.fs_base, slot) {
            Some(Returned::Own(call)) => call,
            Some(Returned::Inherited(return_address)) => return return_address,
            None => {
                self.counters.warnings.unknown_returns += 1;
                // The call was dropped, or the guest jumped here by itself: there may be no address to continue at.
                return described.unwrap_or(0);
            }
        };
        let return_address = call.return_address;
        self.end_call(*call, at, registers, memory);
        return_address
    }
}

/// Returns the implementation with this number in the library's protocol.
fn implementation(number: u64) -> Implementation {
    match number {
        IMPLEMENTATION_OPEN_MPI => Implementation::OpenMpi,
        IMPLEMENTATION_ABI_MPICH => Implementation::StandardAbi(MpiLibrary::Mpich),
        IMPLEMENTATION_ABI_OPEN_MPI => Implementation::StandardAbi(MpiLibrary::OpenMpi),
        IMPLEMENTATION_ABI_UNKNOWN => Implementation::StandardAbi(MpiLibrary::Unknown),
        _ => Implementation::Mpich,
    }
}
