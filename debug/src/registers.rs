//! Registers of threads: from the processor of a running thread, or from the kernel stack of a waiting one.
//!
//! They are the registers of user code, also while a thread is in its kernel. Called by the session's target, and by
//! steps, which need to know whether a thread runs.

use belljar_cpu::{SegmentRegister, StateItem};
use belljar_gdb::{Registers, ThreadId};
use belljar_linux::{Thread, UserRegisters};
use belljar_vmm::Node;

use crate::processes::NodeProcess;
use crate::session::Session;

/// Bits of CR3 with the address of the page tables.
const TABLES: u64 = 0x000f_ffff_ffff_f000;
/// Selectors of user code and data in Linux.
const USER: [u16; 2] = [0x33, 0x2b];

/// A thread that executes user code on a processor at the present position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveThread {
    pub(crate) vcpu: u32,
    pub(crate) rip: u64,
    /// True if it is this processor's turn.
    pub(crate) has_turn: bool,
}

impl Session {
    /// The processor that executes user code of a thread; `None` if it waits, or is in its kernel.
    pub(crate) fn live(&self, process: &NodeProcess, thread: &Thread) -> Option<LiveThread> {
        self.with_kernel(process.node, |kernel, node| {
            let vcpus = 0..node.vcpus() as u32;
            let mut own = vcpus.filter(|vcpu| kernel.current(*vcpu) == Some(thread.task));
            let vcpu = own.next()?;
            let (registers, system) = (node.registers_of(vcpu)?, node.system_of(vcpu)?);
            let code = system.segments[SegmentRegister::Cs as usize].selector;
            let is_user = code & 3 == 3 && system.cr3 & TABLES == process.process.tables;
            is_user.then_some(LiveThread {
                vcpu,
                rip: registers.rip,
                has_turn: node.current_vcpu() == vcpu,
            })
        })
    }

    /// The registers of a thread's user code.
    pub(crate) fn registers_of(&mut self, id: ThreadId) -> Option<Registers> {
        if let Some(kernel) = self.kernel_thread(id) {
            return self.kernel_registers(kernel);
        }
        let (process, thread) = self.find(id)?;
        self.settle_for(process.node).ok()?;
        if let Some(live) = self.live(&process, &thread) {
            return self.with_kernel(process.node, |_, node| of_processor(node, live.vcpu));
        }
        self.with_kernel(process.node, |kernel, node| {
            let saved = kernel.saved(&thread)?;
            let vcpus = 0..node.vcpus() as u32;
            let on = vcpus
                .into_iter()
                .find(|it| kernel.current(*it) == Some(thread.task));
            let vectors = match on {
                Some(vcpu) => fxsave(&node.state_of(vcpu)),
                None => kernel.saved_vectors(&thread).map(|it| Box::new(it.0)),
            };
            let mut registers = of_saved(&saved, vectors);
            if let Some(system) = on.and_then(|vcpu| node.system_of(vcpu)) {
                // The kernel saves it when the thread stops running.
                registers.bases[0] = system.segments[SegmentRegister::Fs as usize].base;
            }
            Some(registers)
        })
    }
}

fn of_saved(saved: &UserRegisters, vectors: Option<Box<[u8; 512]>>) -> Registers {
    Registers {
        general: saved.general,
        rip: saved.rip,
        flags: saved.flags,
        selectors: [saved.code, saved.stack, 0, 0, 0, 0],
        bases: [saved.fs_base, saved.gs_base],
        system_call: saved.system_call,
        vectors,
    }
}

pub(crate) fn of_processor(node: &Node, vcpu: u32) -> Option<Registers> {
    let (registers, system) = (node.registers_of(vcpu)?, node.system_of(vcpu)?);
    let base = |register: SegmentRegister| system.segments[register as usize].base;
    Some(Registers {
        general: registers.gpr,
        rip: registers.rip,
        flags: registers.rflags,
        selectors: [USER[0], USER[1], 0, 0, 0, 0],
        bases: [base(SegmentRegister::Fs), base(SegmentRegister::Gs)],
        system_call: u64::MAX,
        vectors: fxsave(&node.state_of(vcpu)),
    })
}

/// x87 and SSE registers in the format of FXSAVE.
fn fxsave(items: &[StateItem]) -> Option<Box<[u8; 512]>> {
    let mut area = Box::new([0; 512]);
    let mut put = |at: usize, name: &str, bytes: usize| {
        let item = items.iter().find(|item| item.name.ends_with(name))?;
        area[at..at + bytes].copy_from_slice(item.bytes.get(..bytes)?);
        Some(())
    };
    put(0, "x87.control", 2)?;
    put(2, "x87.status", 2)?;
    put(4, "x87.tags", 1)?;
    put(24, "mxcsr", 4)?;
    for number in 0..8 {
        put(32 + 16 * number, &format!("st{number}"), 10)?;
    }
    for number in 0..16 {
        put(160 + 16 * number, &format!("zmm{number}"), 16)?;
    }
    Some(area)
}
