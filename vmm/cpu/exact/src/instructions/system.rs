//! Instructions that are executed in Rust.
//!
//! `visit` calls `help` at the exit stub of such an instruction, whose cost was charged at the
//! block's entry. A handler executes it completely, or returns an exception or an exit to the
//! caller, after which the instruction runs again. Only gathers, scatters and long string
//! instructions may then be partly executed, as their registers show. `table` has the handlers.

use belljar_abi::{FACT_LEAF, MAGIC_ADDRESS};
use belljar_cpu::{Exit, Registers, Unimplemented};
use belljar_translate::architecture::{cr4, flag, vector};
use belljar_translate::context::FREE_INSTRUCTIONS;
use belljar_translate::defined::reciprocal;
use belljar_translate::guest::analyse::helper::{helper_of, is_defined};
use belljar_translate::host::exit_stub::BlockId;
use iced_x86::{Instruction, Mnemonic as M};

use crate::instructions::apart::{keeps_reset, uses_x87};
use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::devices::Answer;
use crate::processor::vcpu::left::Next;

/// Bit strings in memory, and double shifts by more than their length.
mod bits;
/// The guest's breakpoints in DR0 to DR3.
mod breakpoints;
/// Control and debug registers, cache and TLB control.
mod control;
/// Reads and writes of debug registers.
mod debug;
/// Control transfers that change privilege or code segment.
mod flow;
/// FXSAVE, XSAVE and similar instructions, and the x87's functions.
mod fpu;
/// Gathers and scatters, lane by lane.
mod gather;
/// Instructions that exist only in 16- and 32-bit code.
mod legacy;
/// Model-specific registers that belong to the processor itself.
mod msr;
/// Operands of instructions that are executed in Rust.
mod operand;
/// Permissions for I/O ports.
mod ports;
/// Structures of many bytes in guest memory, which may cross pages.
mod span;
/// String instructions, with and without REP.
mod string;
/// The function of every helper of the translator.
mod table;

pub(crate) use flow::CodeDescriptor;

/// Number of distinct encodings that are recorded as not implemented.
const MAX_UNIMPLEMENTED: usize = 64;
/// Number of magic calls without a counted instruction in between, after which stubs are counted.
const MAGIC_STREAK: u32 = 64;

impl ExactVcpu {
    /// Executes `instruction`, number `index` of `block`.
    pub(crate) fn help(&mut self, block: BlockId, index: u16, instruction: &Instruction) -> Next {
        let (position, charge) = (self.position_in(block, index), self.charge_of(block, index));
        self.refund(block, index);
        let joins = self.is_apart() && uses_x87(instruction) && !keeps_reset(instruction);
        if joins {
            self.join_x87();
            if self.handler(instruction).is_none() {
                return Next::Joined;
            }
        }
        let next_rip = instruction.next_ip();
        self.pending.replies.begin();
        self.context.x87_used = 1;
        let result = self.carry_out(instruction);
        if joins {
            self.part_x87();
        }
        // The instruction may have changed page mappings.
        self.settle_lines();
        if !matches!(result, Err(Stop::Ask(_))) {
            self.pending.replies.clear();
        }
        match result {
            Ok(done) => {
                if !matches!(done, Done::Again(_)) {
                    self.take(charge);
                }
                match done {
                    Done::Next => {
                        self.state.rip = next_rip;
                        self.pass_helper(position);
                    }
                    Done::Jumped => self.pass_helper(position),
                    Done::Part => {}
                    Done::Exit(exit) => {
                        self.state.rip = next_rip;
                        self.pass_helper(position);
                        return Next::Exit(exit);
                    }
                    Done::PartExit(exit) | Done::Again(exit) => return Next::Exit(exit),
                }
                self.pending.stores.pop().map_or(Next::Boundary, Next::Exit)
            }
            Err(Stop::Fault(fault)) => {
                if fault.vector == vector::INVALID_OPCODE {
                    self.note_unimplemented();
                }
                match self.deliver(fault) {
                    // The lanes of a scatter that were stored remain stored.
                    Next::Boundary => self.pending.stores.pop().map_or(Next::Boundary, Next::Exit),
                    other => other,
                }
            }
            Err(Stop::Ask(exit)) => {
                self.pending.stores.clear();
                Next::Exit(exit)
            }
        }
    }

    /// The handler for `instruction`.
    fn handler(&self, instruction: &Instruction) -> Option<table::Handler> {
        helper_of(instruction)
            .filter(|_| !(self.identity.features.host_results && is_defined(instruction)))
            .map(table::handler)
    }

    fn carry_out(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        match self.handler(instruction) {
            Some(carry_out) => carry_out(self, instruction),
            None if self.is_apart() && keeps_reset(instruction) => self.on_reset_x87(instruction),
            None => match reciprocal::which(instruction) {
                Some(approximation) => {
                    self.approximate(instruction, approximation);
                    Ok(Done::Next)
                }
                None => Err(Fault::invalid_opcode().into()),
            },
        }
    }

    /// Records an encoding that raised #UD, except for intentional ones.
    pub(crate) fn note_unimplemented(&mut self) {
        let rip = self.state.rip;
        let mut bytes = vec![0u8; 15];
        let linear = self.state.code_address(rip);
        while !bytes.is_empty() && !self.read_ram(linear, &mut bytes) {
            bytes.pop();
        }
        let undefined = matches!(bytes.get(..2), Some([0x0f, 0x0b | 0xb9 | 0xff]));
        if undefined {
            return;
        }
        if let Some(known) = self
            .unimplemented
            .iter_mut()
            .find(|known| known.bytes == bytes)
        {
            known.count += 1;
        } else if self.unimplemented.len() < MAX_UNIMPLEMENTED {
            self.unimplemented.push(Unimplemented {
                rip,
                bytes,
                count: 1,
            });
        }
    }

    pub(crate) fn require_supervisor(&self) -> Result<(), Fault> {
        if self.state.privilege() == 0 {
            Ok(())
        } else {
            Err(Fault::protection(0))
        }
    }

    fn flag_control(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        match instruction.mnemonic() {
            M::Cld => self.state.flags &= !flag::DF,
            M::Std => self.state.flags |= flag::DF,
            M::Cli => {
                self.require_io_level()?;
                self.context.interrupt_flag = 0;
            }
            M::Sti => {
                self.require_io_level()?;
                self.state.shadow = self.context.interrupt_flag == 0;
                self.context.interrupt_flag = flag::IF;
            }
            M::Hlt => {
                self.require_supervisor()?;
                self.state.halted = true;
                return Ok(Done::Exit(Exit::Halt));
            }
            M::Pushf | M::Pushfd | M::Pushfq => {
                let value = self.rflags() & !(flag::RF | flag::VM);
                self.push(value, width(instruction))?;
            }
            M::Popf | M::Popfd | M::Popfq => {
                let value = self.peek(0, width(instruction))?;
                self.drop_stack(width(instruction) as u64);
                self.pop_flags(value, width(instruction));
            }

            _ => return Err(Fault::invalid_opcode().into()),
        }
        Ok(Done::Next)
    }

    pub(crate) fn require_io_level(&self) -> Result<(), Fault> {
        let level = (self.state.flags & flag::IOPL) >> 12;
        if u64::from(self.state.privilege()) <= level {
            Ok(())
        } else {
            Err(Fault::protection(0))
        }
    }

    /// Sets the flags that POPF may set at this privilege level.
    pub(crate) fn pop_flags(&mut self, value: u64, width: usize) {
        let level = self.state.privilege();
        let mut changeable = flag::SYSTEM;
        if level > 0 {
            changeable &= !flag::IOPL;
        }
        if self.require_io_level().is_err() {
            changeable &= !flag::IF;
        }
        if width == 2 {
            changeable &= 0xffff;
        }
        self.context.flags = value & belljar_translate::context::ARITHMETIC;
        let old = self.state.flags | self.context.interrupt_flag;
        self.set_system_flags(old & !changeable | value & changeable);
    }

    fn cpuid(&mut self, _: &Instruction) -> Result<Done, Stop> {
        let gpr = &self.context.gpr;
        let (leaf, subleaf) = (gpr[Registers::RAX] as u32, gpr[Registers::RCX] as u32);
        let user = self.state.is_user();
        if user && (self.state.rip == MAGIC_ADDRESS || leaf == FACT_LEAF) {
            return Ok(Done::Again(self.magic()));
        }
        let mut answer = self.identity.cpuid.answer(leaf, subleaf);
        self.show_xsave(leaf, subleaf, &mut answer);
        self.show_apic(leaf, &mut answer);
        let places = [
            Registers::RAX,
            Registers::RBX,
            Registers::RCX,
            Registers::RDX,
        ];
        for (value, place) in answer.into_iter().zip(places) {
            self.context.gpr[place] = u64::from(value);
        }
        Ok(Done::Next)
    }

    /// Handles a magic call. Each gets a fresh allowance of uncounted instructions, unless the
    /// guest makes magic calls only.
    fn magic(&mut self) -> Exit {
        let retired = self.retired_now();
        if retired == self.guards.magic_at {
            self.guards.magic_streak += 1;
        } else {
            self.guards.magic_streak = 0;
            self.guards.magic_at = retired;
        }
        if self.guards.magic_streak > MAGIC_STREAK && self.guards.free_stubs {
            self.guards.free_stubs = false;
            self.flush_translations();
        }
        self.context.free = FREE_INSTRUCTIONS;
        Exit::Magic {
            at: self.clock.at(self.ticks_now()),
        }
    }

    fn rdtsc(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        if self.state.system.cr4 & cr4::TSD != 0 {
            self.require_supervisor()?;
        }
        let tsc = self.tsc();
        self.context.gpr[Registers::RAX] = tsc & 0xffff_ffff;
        self.context.gpr[Registers::RDX] = tsc >> 32;
        if instruction.mnemonic() == M::Rdtscp {
            self.context.gpr[Registers::RCX] = self.state.msrs.tsc_aux & 0xffff_ffff;
        }
        Ok(Done::Next)
    }

    /// The guest's time-stamp counter.
    pub(crate) fn tsc(&self) -> u64 {
        self.clock
            .at(self.ticks_now())
            .wrapping_add(self.clock.tsc_offset)
    }

    fn rdrand(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let value = self.random.next_u64();
        self.write_operand(instruction, 0, value)?;
        self.context.flags = 1;
        Ok(Done::Next)
    }

    fn port(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let is_in = instruction.mnemonic() == M::In;
        let (data, port) = if is_in { (0, 1) } else { (1, 0) };
        let port = self.read_operand(instruction, port)? as u16;
        let len = instruction.op_register(data).size() as u8;
        self.require_ports(port, len)?;
        if !is_in {
            let data = self.read_operand(instruction, data)? as u32;
            return Ok(Done::Exit(Exit::PioWrite { port, len, data }));
        }
        match self.take_answer() {
            Answer::Value(value) => {
                self.write_operand(instruction, data, value)?;
                Ok(Done::Next)
            }
            _ => Ok(Done::Again(Exit::PioRead { port, len })),
        }
    }
}

/// Operand width in bytes of a stack instruction.
fn width(instruction: &Instruction) -> usize {
    instruction.stack_pointer_increment().unsigned_abs() as usize
}
