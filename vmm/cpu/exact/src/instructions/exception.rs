//! Delivery of exceptions and interrupts to the guest (Intel SDM vol. 3, 6.14).
//!
//! A handler is entered with its frame pushed and all checks passed, or a fault in the delivery is
//! delivered in turn, up to a double fault and shutdown. `dispatch`, `access` and `system` deliver
//! faults with it, `interface` interrupts.

use belljar_cpu::{Exit, SegmentRegister, ShutdownCause};
use belljar_translate::architecture::{flag, vector};

use crate::instructions::system::CodeDescriptor;
use crate::memory::access::Stop;
use crate::processor::state::{Entered, Fault};
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::left::Next;

/// Exceptions and interrupts outside long mode.
mod legacy;

/// A 64-bit interrupt or trap gate.
struct Gate {
    selector: u16,
    offset: u64,
    stack: u8,
    kind: u8,
    level: u8,
    present: bool,
}

/// Number of consecutive exceptions without an instruction in between, after which each counts as
/// an instruction.
const DELIVERY_STREAK: u32 = 64;

const INTERRUPT_GATE: u8 = 14;
const TRAP_GATE: u8 = 15;

/// Error-code bit: the fault occurred during the delivery of an event.
const EXTERNAL: u32 = 1;
/// Error-code bit: the index is in the IDT.
const IN_IDT: u32 = 2;

/// The kind of event that a handler is entered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    /// An exception; the instruction runs again afterwards if it `restarts`.
    Exception {
        /// True if RF is set in the saved flags.
        restarts: bool,
    },
    /// An external interrupt, or INT1.
    Interrupt,
    /// INT n, INT3 and INTO, which check the gate's privilege level.
    Software,
}

impl EventSource {
    /// The error-code bit for faults during the delivery.
    fn external_bit(self) -> u32 {
        match self {
            Self::Software => 0,
            _ => EXTERNAL,
        }
    }
}

impl ExactVcpu {
    /// Delivers `fault` at `state.rip`.
    pub(crate) fn deliver(&mut self, fault: Fault) -> Next {
        self.settle_flags();
        self.charge_delivery();
        let first = fault.vector;
        let rip = self.state.rip;
        let mut current = fault;
        loop {
            if let Some(address) = current.address {
                self.state.system.cr2 = address;
            }
            if current.vector == vector::DEBUG {
                self.enter_debug();
            }
            match self.enter_handler(
                current.vector,
                current.error,
                EventSource::Exception {
                    restarts: current.is_restartable(),
                },
            ) {
                Ok(()) => return Next::Boundary,
                Err(_) if current.vector == vector::DOUBLE_FAULT => {
                    let cause = ShutdownCause::TripleFault { vector: first, rip };
                    return Next::Exit(Exit::Shutdown(cause));
                }
                Err(second) if makes_double_fault(current.vector, second.vector) => {
                    current = Fault {
                        vector: vector::DOUBLE_FAULT,
                        error: Some(0),
                        address: None,
                    };
                }
                Err(second) => current = second,
            }
        }
    }

    /// Exceptions take no time, unless a guest does nothing else: handlers that fault at their
    /// first instruction would otherwise stop the clock forever.
    fn charge_delivery(&mut self) {
        self.statistics.deliveries += 1;
        let retired = self.retired_now();
        if retired != self.guards.delivered_at {
            self.guards.delivered_at = retired;
            self.guards.delivery_streak = 0;
            return;
        }
        self.guards.delivery_streak += 1;
        if self.guards.delivery_streak > DELIVERY_STREAK {
            let charge = self.charge_of_event();
            self.take(charge);
            self.guards.delivered_at = self.retired_now();
        }
    }

    /// Delivers external interrupt `number`.
    pub(crate) fn deliver_interrupt(&mut self, number: u8) {
        self.settle_flags();
        if let Err(fault) = self.enter_handler(number, None, EventSource::Interrupt) {
            // An error here is delivered as a fault; if even that fails, the next run ends with the
            // shutdown.
            if let Next::Exit(Exit::Shutdown(cause)) = self.deliver(fault) {
                self.stops.shutdown = Some(cause);
            }
        }
    }

    /// INT n, INT3: checks the gate's privilege level; the handler returns to the next instruction.
    pub(crate) fn software_interrupt(&mut self, number: u8, next_rip: u64) -> Result<(), Fault> {
        self.enter_for(number, next_rip, EventSource::Software)?;
        self.state.entered = Entered::Interrupt;
        Ok(())
    }

    /// INT1: the debug exception, without a check of the gate's privilege level; the handler
    /// returns to the next instruction.
    pub(crate) fn debug_interrupt(&mut self, next_rip: u64) -> Result<(), Fault> {
        self.enter_for(vector::DEBUG, next_rip, EventSource::Interrupt)?;
        self.enter_debug();
        self.state.entered = Entered::Debug;
        Ok(())
    }

    fn enter_for(&mut self, number: u8, next_rip: u64, source: EventSource) -> Result<(), Fault> {
        let rip = std::mem::replace(&mut self.state.rip, next_rip);
        self.enter_handler(number, None, source).inspect_err(|_| {
            self.state.rip = rip;
        })
    }

    fn gate(&mut self, number: u8, source: EventSource) -> Result<Gate, Fault> {
        let idt = self.state.idt();
        let external = source.external_bit();
        let refuse = |vector| Fault {
            vector,
            error: Some(u32::from(number) << 3 | IN_IDT | external),
            address: None,
        };
        let at = u64::from(number) * 16;
        if at + 15 > u64::from(idt.limit) {
            return Err(refuse(vector::PROTECTION));
        }
        let mut bytes = [0u8; 16];
        self.system_read(idt.base.wrapping_add(at), &mut bytes)?;
        let gate = parse_gate(&bytes);
        let is_gate = gate.kind == INTERRUPT_GATE || gate.kind == TRAP_GATE;
        if !is_gate || (source == EventSource::Software && gate.level < self.state.privilege()) {
            return Err(refuse(vector::PROTECTION));
        }
        if !gate.present {
            return Err(refuse(vector::NOT_PRESENT));
        }
        Ok(gate)
    }

    fn enter_handler(
        &mut self,
        number: u8,
        error: Option<u32>,
        source: EventSource,
    ) -> Result<(), Fault> {
        self.restart_path();
        if !self.state.is_long_active() {
            return self.enter_legacy_handler(number, error, source);
        }
        let gate = self.gate(number, source)?;
        let code = self.gate_code(gate.selector)?;
        if !code.is_long() {
            return Err(Fault::protection(u32::from(gate.selector) & !3));
        }
        let level = if code.is_conforming() {
            self.state.privilege()
        } else {
            code.own_level()
        };
        let changes = level < self.state.privilege();
        let old_rsp = self.context.gpr[4];
        let stack = if gate.stack != 0 {
            self.task_stack(0x24 + 8 * (u64::from(gate.stack) - 1))?
        } else if changes {
            self.task_stack(4 + 8 * u64::from(level))?
        } else {
            old_rsp
        };
        let mut rflags = self.rflags();
        if source == (EventSource::Exception { restarts: true }) {
            rflags |= flag::RF;
        }
        let frame = [
            self.state.rip,
            u64::from(self.state.segment(SegmentRegister::Cs).selector),
            rflags,
            old_rsp,
            u64::from(self.state.segment(SegmentRegister::Ss).selector),
        ];
        let rsp = self.push_frame(stack & !15, &frame, error)?;
        self.context.gpr[4] = rsp;
        self.state.rip = gate.offset;
        self.set_code_segment(gate.selector & !3 | u16::from(level), &code);
        if changes {
            self.set_null_stack(level);
        }
        self.state.flags &= !(flag::TF | flag::NT | flag::RF);
        if gate.kind == INTERRUPT_GATE {
            self.context.interrupt_flag = 0;
        }
        self.state.shadow = false;
        Ok(())
    }

    /// The code segment of a gate: at this level or an inner one.
    fn gate_code(&mut self, selector: u16) -> Result<CodeDescriptor, Fault> {
        let code = self.load_code_descriptor(selector)?;
        if code.own_level() > self.state.privilege() {
            return Err(Fault::protection(u32::from(selector) & !3));
        }
        Ok(code)
    }

    fn push_frame(
        &mut self,
        stack: u64,
        frame: &[u64; 5],
        error: Option<u32>,
    ) -> Result<u64, Fault> {
        let mut bytes = Vec::with_capacity(48);
        if let Some(error) = error {
            bytes.extend_from_slice(&u64::from(error).to_le_bytes());
        }
        for value in frame {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        let rsp = stack.wrapping_sub(bytes.len() as u64);
        self.system_write(rsp, &bytes)?;
        Ok(rsp)
    }

    /// A stack pointer of the 64-bit task-state segment.
    fn task_stack(&mut self, offset: u64) -> Result<u64, Fault> {
        let task = *self.state.segment(SegmentRegister::Tr);
        if offset + 7 > u64::from(task.limit) {
            return Err(Fault {
                vector: vector::INVALID_TASK,
                error: Some(u32::from(task.selector) & !3),
                address: None,
            });
        }
        let mut bytes = [0; 8];
        self.system_read(task.base.wrapping_add(offset), &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads with supervisor privileges. Tables in device registers read as ones: guests do not
    /// place them there on purpose.
    pub(crate) fn system_read(&mut self, linear: u64, into: &mut [u8]) -> Result<(), Fault> {
        match self.read_linear(linear, into, false) {
            Ok(()) => Ok(()),
            Err(Stop::Fault(fault)) => Err(fault),
            Err(Stop::Ask(_)) => {
                into.fill(0xff);
                Ok(())
            }
        }
    }

    /// Writes with supervisor privileges; writes outside RAM are discarded.
    pub(crate) fn system_write(&mut self, linear: u64, data: &[u8]) -> Result<(), Fault> {
        let waiting = self.pending.stores.len();
        self.write_linear(linear, data, false)?;
        self.pending.stores.truncate(waiting);
        Ok(())
    }
}

fn parse_gate(bytes: &[u8; 16]) -> Gate {
    let word = |at: usize| u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let high = u64::from(u32::from_le_bytes([
        bytes[8], bytes[9], bytes[10], bytes[11],
    ]));
    Gate {
        selector: word(2) as u16,
        offset: word(0) | word(6) << 16 | high << 32,
        stack: bytes[4] & 7,
        kind: bytes[5] & 15,
        level: bytes[5] >> 5 & 3,
        present: bytes[5] & 0x80 != 0,
    }
}

/// Table 6-5 of the SDM: true for combinations of contributory exceptions and page faults that make
/// a double fault.
fn makes_double_fault(first: u8, second: u8) -> bool {
    let contributory = |vector: u8| matches!(vector, 0 | 10..=13);
    (contributory(first) && contributory(second))
        || (first == vector::PAGE && (contributory(second) || second == vector::PAGE))
}
