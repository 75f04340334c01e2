//! Handles a processor's exits: a free function over the devices, which needs no engine.
//!
//! A guest's exit is never an error: only the host can fail, and the error names the device. The
//! run loop performs the returned `ExitAction`.

use belljar_cpu::{Cycles, Exit};
use belljar_devices::{Moment, PowerEvent};
use serde::{Deserialize, Serialize};

use super::devices::Devices;
use super::{NodeError, NodeStop};

/// Registers that exist without a device: they read zero and ignore writes.
const INERT_MSRS: [u32; 6] = [
    0x17,  // IA32_PLATFORM_ID
    0x8b,  // IA32_BIOS_SIGN_ID, which kernels write before they read it
    0x179, // IA32_MCG_CAP: no machine-check banks
    0x17a, // IA32_MCG_STATUS
    0x17b, // IA32_MCG_CTL
    0x1d9, // IA32_DEBUGCTL
];

/// The run loop's action after an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitAction {
    /// Nothing: continue.
    Continue,
    /// Answer the read.
    Answer(u64),
    /// Raise a fault in the guest: the register does not exist.
    RefuseMsr,
    /// Copy the processor's task priority to the local APIC.
    TakeTaskPriority,
    /// Copy the local APIC's task priority to the processor.
    SetTaskPriority(u8),
    /// The processor halts.
    Halt,
    /// A magic call at this cycle.
    Magic(Cycles),
    /// User code reached the probe of this number.
    Probe(u32),
    /// User code reached a watched return address at this cycle.
    Return(Cycles),
    /// An instruction accessed the watchpoint of this number; it stored if true.
    Watchpoint(u32, bool),
    /// An instruction accessed a watched buffer.
    Buffer,
    /// The node has ended.
    End(NodeStop),
}

/// Exits of a processor since reset, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitCounts {
    /// The requested cycle was reached.
    pub deadlines: u64,
    /// `HLT`.
    pub halts: u64,
    /// `IN` and `OUT`.
    pub port_accesses: u64,
    /// Loads and stores outside RAM.
    pub mmio_accesses: u64,
    /// `RDMSR` and `WRMSR` of the local APIC and of registers that do not exist.
    pub msr_accesses: u64,
    /// Moves to CR8.
    pub task_priorities: u64,
    /// Interrupt windows.
    pub windows: u64,
    /// Magic calls.
    pub magic_calls: u64,
    /// Interrupts taken; not an exit.
    pub interrupts: u64,
}

impl ExitCounts {
    pub(super) fn count(&mut self, exit: &Exit) {
        let counter = match exit {
            Exit::Deadline => &mut self.deadlines,
            Exit::Halt => &mut self.halts,
            Exit::PioRead { .. } | Exit::PioWrite { .. } => &mut self.port_accesses,
            Exit::MmioRead { .. } | Exit::MmioWrite { .. } => &mut self.mmio_accesses,
            Exit::MsrRead { .. } | Exit::MsrWrite { .. } => &mut self.msr_accesses,
            Exit::TaskPriority => &mut self.task_priorities,
            Exit::InterruptWindow => &mut self.windows,
            Exit::Magic { .. } => &mut self.magic_calls,
            // Probes, return watches, watchpoints and watched buffers are invisible to the guest.
            Exit::Probe { .. }
            | Exit::Return { .. }
            | Exit::Watchpoint { .. }
            | Exit::Buffer
            | Exit::Shutdown(_) => return,
        };
        *counter += 1;
    }
}

/// Performs `exit` of the current processor on `devices`.
pub(super) fn handle(
    exit: &Exit,
    devices: &mut Devices,
    at: Moment,
) -> Result<ExitAction, NodeError> {
    Ok(match *exit {
        Exit::Deadline | Exit::InterruptWindow => ExitAction::Continue,
        Exit::Halt => ExitAction::Halt,
        Exit::PioRead { port, len } => ExitAction::Answer(devices.read_port(port, len, at)),
        Exit::PioWrite { port, len, data } => match devices.write_port(port, len, data, at) {
            Some(PowerEvent::Off) => ExitAction::End(NodeStop::PoweredOff),
            Some(PowerEvent::Reset) => ExitAction::End(NodeStop::Reset),
            Some(PowerEvent::Exit(value)) => ExitAction::End(NodeStop::Exited(value)),
            None => ExitAction::Continue,
        },
        Exit::MmioRead { addr, len } => ExitAction::Answer(devices.read_mmio(addr, len, at)),
        Exit::MmioWrite { addr, len, data } => {
            let class = devices.write_mmio(addr, len, data, at)?;
            class.map_or(ExitAction::Continue, ExitAction::SetTaskPriority)
        }
        Exit::MsrRead { index } => read_msr(index, devices, at),
        Exit::MsrWrite { index, value } => write_msr(index, value, devices, at),
        Exit::TaskPriority => ExitAction::TakeTaskPriority,
        Exit::Magic { at: cycle } => ExitAction::Magic(cycle),
        Exit::Probe { probe } => ExitAction::Probe(probe),
        Exit::Return { at: cycle } => ExitAction::Return(cycle),
        Exit::Watchpoint { number, write } => ExitAction::Watchpoint(number, write),
        Exit::Buffer => ExitAction::Buffer,
        Exit::Shutdown(cause) => ExitAction::End(NodeStop::Shutdown(cause)),
    })
}

fn read_msr(index: u32, devices: &mut Devices, at: Moment) -> ExitAction {
    if INERT_MSRS.contains(&index) {
        return ExitAction::Answer(0);
    }
    let local = devices.interrupts.local_mut(at.processor);
    match local.read_msr(index, at.now) {
        Ok(value) => ExitAction::Answer(value),
        Err(missing) => {
            devices.unknown_msrs.insert(missing.0);
            ExitAction::RefuseMsr
        }
    }
}

fn write_msr(index: u32, value: u64, devices: &mut Devices, at: Moment) -> ExitAction {
    if INERT_MSRS.contains(&index) {
        return ExitAction::Continue;
    }
    let local = devices.interrupts.local_mut(at.processor);
    match local.write_msr(index, value, at.now) {
        Ok(effect) => {
            let class = devices.interrupts.apply(effect, at);
            class.map_or(ExitAction::Continue, ExitAction::SetTaskPriority)
        }
        Err(missing) => {
            devices.unknown_msrs.insert(missing.0);
            ExitAction::RefuseMsr
        }
    }
}
