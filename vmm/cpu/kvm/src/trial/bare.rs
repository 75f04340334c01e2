//! A machine without a kernel, for testing the engine: flat 64-bit code over identity-mapped pages,
//! and a page of the traced library for user code.
//!
//! `calibrate`, `probe` and the tests make their guests with it. Memory is 2 MiB, all
//! identity-mapped, and the processor begins at `CODE` with interrupts off; no part of a node is
//! needed.

use std::sync::Arc;

use belljar_abi::{FACT_ADDRESS, MAGIC_ADDRESS, STUB_BASE};
use belljar_cpu::{
    CpuError, CpuidEntry, CpuidTable, DescriptorTable, InstructionSet, Registers, Segment,
    SegmentRegister, SystemRegisters, Vcpu, guest_ram,
};
use vm_memory::{Bytes, GuestAddress};

use crate::host::Host;
use crate::host::machine::{Machine, failed};
use crate::host::means::Means;
use crate::vcpu::clock::TransitionCosts;
use crate::vcpu::{KvmConfig, KvmVcpu};

const RAM_BYTES: usize = 2 << 20;
const PML4: u64 = 0x1000;
const POINTERS: u64 = 0x2000;
const DIRECTORY: u64 = 0x3000;
const STUB_POINTERS: u64 = 0x4000;
const STUB_DIRECTORY: u64 = 0x5000;
const STUB_TABLE: u64 = 0x6000;
const STUB_FRAME: u64 = 0x7000;
pub(crate) const GDT: u64 = 0x8000;
pub(crate) const IDT: u64 = 0x9000;
pub(crate) const TASK: u64 = 0xa000;
/// Address of the code.
pub(crate) const CODE: u64 = 0x1_0000;
/// End of the kernel's stack, also used by interrupts from user code.
pub(crate) const STACK: u64 = 0x2_0000;
/// End of the user's stack.
pub(crate) const USER_STACK: u64 = 0x2_8000;
/// A page of scratch memory.
pub(crate) const DATA: u64 = 0x2_8000;

pub(crate) const KERNEL_CODE: u16 = 0x08;
pub(crate) const KERNEL_DATA: u16 = 0x10;
pub(crate) const TASK_SELECTOR: u16 = 0x28;
/// GDT: null, kernel code and data, user data and code in the order that SYSRET requires, then the
/// task's two halves.
const DESCRIPTORS: [u64; 7] = [
    0,
    0x00af_9b00_0000_ffff,
    0x00cf_9300_0000_ffff,
    0x00cf_f300_0000_ffff,
    0x00af_fb00_0000_ffff,
    0x0000_8900_a000_0067,
    0,
];
const PRESENT_WRITABLE_USER: u64 = 7;
const LARGE: u64 = 1 << 7;

const CR0: u64 = 0x8005_0033;
/// PAE, OSFXSR, OSXMMEXCPT.
const CR4: u64 = 1 << 5 | 1 << 9 | 1 << 10;
const EFER_LONG: u64 = 1 << 8 | 1 << 10;

/// The machine's only processor, at the beginning of `code`.
///
/// # Errors
/// If the host refuses it.
pub(crate) fn processor(
    host: &Arc<Host>,
    code: &[u8],
    means: Means,
    costs: TransitionCosts,
) -> Result<KvmVcpu, CpuError> {
    let ram = guest_ram(&[(0, RAM_BYTES)]).map_err(|error| CpuError::Host {
        action: "allocate memory to try the engine with",
        source: std::io::Error::other(error),
    })?;
    let put = |at: u64, bytes: &[u8]| {
        ram.write_slice(bytes, GuestAddress(at))
            .map_err(|_| CpuError::Internal("a trial program is too long".to_owned()))
    };
    for (at, entry) in page_tables() {
        put(at, &entry.to_le_bytes())?;
    }
    for (at, word) in (0..).zip(DESCRIPTORS) {
        put(GDT + at * 8, &word.to_le_bytes())?;
    }
    // RSP0 of the task.
    put(TASK + 4, &STACK.to_le_bytes())?;
    // The magic instruction, and jmp r11 or ret.
    let stub = |address: u64| STUB_FRAME + (address - STUB_BASE);
    let [first, second] = means.breakpoints.magic();
    put(stub(MAGIC_ADDRESS), &[first, second, 0x41, 0xff, 0xe3])?;
    put(stub(FACT_ADDRESS), &[first, second, 0xc3])?;
    put(CODE, code)?;
    let machine = Arc::new(Machine::new(host, ram)?);
    let config = KvmConfig {
        machine,
        index: 0,
        cpuid: cpuid(),
        instruction_set: InstructionSet::from(belljar_cpu::Level::V1),
        means,
    };
    let mut vcpu = KvmVcpu::with_costs(config, costs)?;
    vcpu.put_system(&system())?;
    let mut registers = Registers {
        rip: CODE,
        rflags: 2,
        ..Registers::default()
    };
    registers.gpr[Registers::RSP] = STACK;
    vcpu.set_registers(&registers);
    vcpu.fd
        .get_regs()
        .map_err(failed("read registers"))
        .map(|_| vcpu)
}

/// Long mode, SYSCALL, NX, the APIC, the TSC, SSE2, and the detection leaf.
fn cpuid() -> CpuidTable {
    let entry = |leaf, eax, ebx, ecx, edx| CpuidEntry {
        leaf,
        subleaf: None,
        eax,
        ebx,
        ecx,
        edx,
    };
    let signature = |at: usize| {
        let bytes = &belljar_abi::SIGNATURE[at..at + 4];
        bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u32::from(*byte))
    };
    CpuidTable {
        entries: vec![
            entry(0, 1, 0x756e_6547, 0x6c65_746e, 0x4965_6e69),
            entry(1, 0x6f6, 0, 1 << 21 | 1 << 24 | 1 << 31, 0x0781_abff),
            entry(
                belljar_abi::DETECT_LEAF,
                belljar_abi::ABI_VERSION,
                signature(0),
                signature(4),
                signature(8),
            ),
            entry(0x8000_0000, 0x8000_0008, 0, 0, 0),
            entry(0x8000_0001, 0, 0, 0, 1 << 11 | 1 << 20 | 1 << 29),
            entry(0x8000_0008, 0x3028, 0, 0, 0),
        ],
    }
}

/// Addresses and values of the tables' entries.
fn page_tables() -> Vec<(u64, u64)> {
    let index = |level: u32| STUB_BASE >> (12 + 9 * level) & 0x1ff;
    let link = |table: u64, index: u64, to: u64| (table + index * 8, to | PRESENT_WRITABLE_USER);
    let mut entries = vec![
        link(PML4, 0, POINTERS),
        link(POINTERS, 0, DIRECTORY),
        link(DIRECTORY, 0, LARGE),
        link(PML4, index(3), STUB_POINTERS),
        link(STUB_POINTERS, index(2), STUB_DIRECTORY),
        link(STUB_DIRECTORY, index(1), STUB_TABLE),
        link(STUB_TABLE, index(0), STUB_FRAME),
    ];
    // The registers of the local APIC lie near the end of the fourth GiB.
    entries.push(link(POINTERS, 3, 0xb000));
    entries.push(link(0xb000, 0x1f7, 0xfee0_0000 | LARGE));
    entries
}

fn system() -> SystemRegisters {
    let segment = |selector, attributes| Segment {
        selector,
        base: 0,
        limit: u32::MAX,
        attributes,
    };
    let mut segments = [segment(KERNEL_DATA, 0xc093); 8];
    segments[SegmentRegister::Cs as usize] = segment(KERNEL_CODE, 0xa09b);
    segments[SegmentRegister::Tr as usize] = Segment {
        selector: TASK_SELECTOR,
        base: TASK,
        limit: 0x67,
        attributes: 0x8b,
    };
    segments[SegmentRegister::Ldt as usize] = Segment::default();
    SystemRegisters {
        segments,
        gdt: DescriptorTable {
            base: GDT,
            limit: (DESCRIPTORS.len() * 8 - 1) as u16,
        },
        idt: DescriptorTable {
            base: IDT,
            limit: 0xfff,
        },
        cr0: CR0,
        cr2: 0,
        cr3: PML4,
        cr4: CR4,
        efer: EFER_LONG,
    }
}

#[cfg(test)]
mod tests;
