//! Page walks through arbitrary tables.
//!
//! Sixteen pages have tables from the input: they refer to each other, in circles, to data, and out
//! of RAM. A guest reads, writes and executes through them, and the result (the byte, the fault
//! with its error code and address, accessed and dirty bits) must equal the [second
//! walker's](reference).

/// An independent page walker, after the Intel SDM.
mod reference;
/// Page tables from the input.
mod tables;

use arbitrary::{Result, Unstructured};
use belljar_cpu::{
    Access, DescriptorTable, Exit, GuestRam, Level, Registers, Segment, SystemRegisters, Vcpu,
    guest_ram,
};
use belljar_exact::ExactVcpu;
use vm_memory::{Bytes, GuestAddress};

use crate::engine::machine::{put, vcpu};
use reference::{Fault, Paging, Walk};
pub(crate) use tables::seeds;
use tables::write_tables;

const RAM_BYTES: usize = 4 << 20;
/// The tables from the input.
const HOSTILE: u64 = 0x10_0000;
const HOSTILE_PAGES: u64 = 16;
/// Entries of a hostile table that addresses use.
const ENTRIES: u64 = 8;
/// The guest's own page tables, descriptors, handlers and code.
const CLEAN: u64 = 0x20_0000;
const GDT: u64 = CLEAN + 0x4000;
const IDT: u64 = CLEAN + 0x5000;
const TASK: u64 = CLEAN + 0x6000;
const HANDLERS: u64 = CLEAN + 0x7000;
const CODE: u64 = CLEAN + 0x8000;
const STACK: u64 = CLEAN + 0xa000;
const NOP: u8 = 0x90;
const ACCESSED: u64 = 1 << 5;
const ACCESSES: usize = 12;

/// The kind of paging, and the linear address at which the clean pages are seen.
const fn window(paging: Paging) -> u64 {
    match paging {
        Paging::Long => 0xffff_ff80_0000_0000,
        Paging::Pae => 0xffe0_0000,
        Paging::Legacy => 0xffc0_0000,
    }
}

struct Machine {
    ram: GuestRam,
    vcpu: ExactVcpu,
    walk: Walk,
    user: bool,
}

/// Writes the tables that `data` describes and walks them.
pub(crate) fn target(data: &[u8]) {
    let _ = go(&mut Unstructured::new(data));
}

fn go(u: &mut Unstructured<'_>) -> Result<()> {
    let options: u8 = u.arbitrary()?;
    let paging = match options & 3 {
        0 | 1 => Paging::Long,
        2 => Paging::Pae,
        _ => Paging::Legacy,
    };
    let walk = Walk {
        paging,
        root: HOSTILE,
        write_protect: options & 4 != 0,
        no_execute: options & 8 != 0,
        large_4m: options & 16 != 0,
    };
    let accesses = 1 + usize::from(u.arbitrary::<u8>()?) % ACCESSES;
    let accesses: Vec<[u8; 8]> = (0..accesses)
        .map(|_| u.arbitrary())
        .collect::<Result<_>>()?;
    let ram = guest_ram(&[(0, RAM_BYTES)]).expect("the host has 4 MiB");
    // As code, data are NOPs.
    put(&ram, HOSTILE, &vec![NOP; (HOSTILE_PAGES * 4096) as usize]);
    put(&ram, 0, &vec![NOP; 0x4000]);
    put(&ram, RAM_BYTES as u64 - 4096, &[NOP; 4096]);
    write_tables(&ram, paging, u)?;
    let mut machine = Machine::new(ram, walk);
    for access in accesses {
        machine.check(&access);
    }
    Ok(())
}

fn segment(selector: u16, attributes: u16) -> Segment {
    Segment {
        selector,
        base: 0,
        limit: u32::MAX,
        attributes,
    }
}

impl Machine {
    fn new(ram: GuestRam, walk: Walk) -> Self {
        let base = window(walk.paging);
        let word = |at: u64, value: u64| put(&ram, at, &value.to_le_bytes());
        let short = |at: u64, value: u64| put(&ram, at, &(value as u32).to_le_bytes());
        match walk.paging {
            Paging::Long => {
                word(HOSTILE + 511 * 8, (CLEAN + 0x1000) | ACCESSED | 7);
                word(CLEAN + 0x1000, (CLEAN + 0x2000) | 7);
                word(CLEAN + 0x2000, CLEAN | 0x87);
            }
            Paging::Pae => {
                word(HOSTILE + 3 * 8, (CLEAN + 0x1000) | 1);
                word(CLEAN + 0x1000 + 511 * 8, CLEAN | 0x87);
            }
            Paging::Legacy => {
                short(HOSTILE + 1023 * 4, (CLEAN + 0x1000) | ACCESSED | 7);
                for page in 0..16 {
                    short(CLEAN + 0x1000 + page * 4, (CLEAN + page * 4096) | 7);
                }
            }
        }
        let long = walk.paging == Paging::Long;
        let linear = |physical: u64| physical - CLEAN + base;
        let code = if long { 0x00af_9b00 } else { 0x00cf_9b00u64 };
        word(GDT + 0x10, code << 32 | 0xffff);
        word(GDT + 0x18, 0x00cf_9300_0000_ffff);
        for vector in 0..32u64 {
            let at = linear(HANDLERS + vector * 16);
            put(&ram, HANDLERS + vector * 16, &[0xe6, 0x80]);
            let gate = at & 0xffff | 0x10 << 16 | 0x8e00 << 32 | (at >> 16 & 0xffff) << 48;
            word(IDT + vector * if long { 16 } else { 8 }, gate);
            if long {
                word(IDT + vector * 16 + 8, at >> 32);
            }
        }
        if long {
            word(TASK + 4, linear(STACK));
        } else {
            word(TASK + 4, linear(STACK) | 0x18 << 32);
        }
        // mov al, [rdi], and mov [rdi], al.
        put(&ram, CODE, &[0x8a, 0x07]);
        put(&ram, CODE + 16, &[0x88, 0x07]);
        // This level has no more state than SSE and needs no code to enable it.
        let vcpu = vcpu(&ram, Level::V2);
        let mut machine = Self {
            ram,
            vcpu,
            walk,
            user: false,
        };
        machine.enter(false);
        machine
    }

    /// Sets the processor to a privilege level, which invalidates all translations.
    fn enter(&mut self, user: bool) {
        let walk = self.walk;
        let long = walk.paging == Paging::Long;
        let base = window(walk.paging) - CLEAN;
        let mut system = SystemRegisters {
            cr0: 0x8000_0033 | u64::from(walk.write_protect) << 16,
            cr3: walk.root,
            cr4: 0x600 | u64::from(walk.large_4m) << 4,
            efer: u64::from(walk.no_execute) << 11,
            gdt: DescriptorTable {
                base: GDT + base,
                limit: 0x3f,
            },
            idt: DescriptorTable {
                base: IDT + base,
                limit: 0xfff,
            },
            ..SystemRegisters::default()
        };
        let privilege = if user { 0x60 } else { 0 };
        let ring = if user { 3 } else { 0 };
        for number in [0, 2, 3, 4, 5] {
            system.segments[number] = segment(0x18 | ring, 0xc093 | privilege);
        }
        let code = if long { 0xa09b } else { 0xc09b };
        system.segments[1] = segment(0x10 | ring, code | privilege);
        system.segments[6] = Segment {
            base: TASK + base,
            limit: 0x67,
            ..segment(0x40, 0x8b)
        };
        if long {
            system.efer |= 0x501;
        }
        if walk.paging != Paging::Legacy {
            system.cr4 |= 1 << 5;
        }
        self.vcpu.set_system(&system);
        self.user = user;
    }

    /// The linear address of an access: an entry of each level, and a byte of the page.
    fn address(&self, bytes: &[u8; 8]) -> u64 {
        let slot = |number: usize| u64::from(bytes[number] & 7);
        // After the entries, whose bytes are not code.
        let offset = 0x800 + u64::from(bytes[1]) * 7;
        match self.walk.paging {
            Paging::Long => {
                let linear = slot(2) << 39 | slot(3) << 30 | slot(4) << 21 | slot(5) << 12 | offset;
                if bytes[6] == 0xff {
                    linear | 1 << 50
                } else {
                    linear
                }
            }
            Paging::Pae => (slot(2) % 3) << 30 | slot(3) << 21 | slot(4) << 12 | offset,
            Paging::Legacy => slot(2) << 22 | slot(3) << 12 | offset,
        }
    }

    fn check(&mut self, bytes: &[u8; 8]) {
        let linear = self.address(bytes);
        let access = match bytes[0] & 3 {
            0 | 1 => Access::Read,
            2 => Access::Write,
            _ => Access::Fetch,
        };
        let user = bytes[0] & 4 != 0;
        if user != self.user || bytes[0] & 8 != 0 {
            self.enter(user);
        }
        let expected = self.walk.go(&self.ram, linear, access, user);
        let found = self.vcpu.translate(linear, access);
        let reached = expected.as_ref().ok().map(|path| path.physical);
        assert_eq!(found, reached, "{linear:#x}");
        let path = match expected {
            Ok(path) => path,
            Err(fault) => return self.check_fault(linear, access, fault),
        };
        let there: Option<u8> = self.ram.read_obj(GuestAddress(path.physical)).ok();
        if access == Access::Fetch && there != Some(NOP) {
            // Anything may be executed there.
            return;
        }
        let physical = path.physical;
        path.mark(&self.ram, access == Access::Write);
        self.check_success(linear, access, physical);
    }

    fn check_success(&mut self, linear: u64, access: Access, physical: u64) {
        let tables = self.read_tables();
        let byte: Option<u8> = self.ram.read_obj(GuestAddress(physical)).ok();
        let exit = self.step(linear, access, byte.unwrap_or(0x5a));
        match byte {
            None if access == Access::Read => {
                assert!(
                    matches!(exit, Exit::MmioRead { addr, len: 1 } if addr == physical),
                    "{exit:?} and not a load from {physical:#x} through {linear:#x}"
                );
                self.vcpu.complete_read(0x77);
                self.vcpu.run(self.vcpu.now() + 1).expect("the host serves");
            }
            None => assert!(
                matches!(exit, Exit::MmioWrite { addr, len: 1, data: 0x5a } if addr == physical),
                "{exit:?} and not a store to {physical:#x} through {linear:#x}"
            ),
            Some(byte) => {
                assert_eq!(exit, Exit::Deadline, "{access:?} of {linear:#x}");
                let al = self.vcpu.registers().gpr[0] as u8;
                if access == Access::Read {
                    assert_eq!(al, byte, "{linear:#x}");
                }
            }
        }
        let found = self.read_tables();
        let differs = tables.iter().zip(&found).position(|(a, b)| a != b);
        assert_eq!(
            differs.map(|at| (at, tables[at], found[at])),
            None,
            "marks of {access:?} of {linear:#x}, {:?}",
            self.walk
        );
    }

    fn check_fault(&mut self, linear: u64, access: Access, fault: Fault) {
        let tables = self.read_tables();
        let exit = self.step(linear, access, 0);
        assert!(
            matches!(exit, Exit::PioWrite { .. }),
            "{exit:?} and not {fault:?}, {access:?} of {linear:#x}"
        );
        let registers = self.vcpu.registers();
        let base = window(self.walk.paging) - CLEAN;
        let vector = (registers.rip - HANDLERS - base) / 16;
        let error: u32 = self
            .ram
            .read_obj(GuestAddress(registers.gpr[Registers::RSP] - base))
            .expect("the handlers' stack is in RAM");
        let expected = match fault {
            Fault::Page(error) => (14, error),
            Fault::Protection => (13, 0),
        };
        assert_eq!((vector, error), expected, "{access:?} of {linear:#x}");
        if vector == 14 {
            assert_eq!(self.vcpu.system().cr2, linear);
        }
        assert!(
            tables == self.read_tables(),
            "a fault at {linear:#x} left marks"
        );
        // The handler took the processor to level 0.
        self.enter(false);
    }

    /// Executes one instruction: an access to `linear`, or the instruction at `linear`.
    fn step(&mut self, linear: u64, access: Access, value: u8) -> Exit {
        let base = window(self.walk.paging) - CLEAN;
        let mut registers = Registers {
            rip: match access {
                Access::Read => CODE + base,
                Access::Write => CODE + 16 + base,
                Access::Fetch => linear,
            },
            rflags: 2,
            ..Registers::default()
        };
        registers.gpr[Registers::RAX] = value.into();
        registers.gpr[Registers::RDI] = linear;
        registers.gpr[Registers::RSP] = STACK + base;
        self.vcpu.set_registers(&registers);
        self.vcpu
            .run(self.vcpu.now() + 1)
            .expect("the host serves the engine")
    }

    fn read_tables(&self) -> Vec<u8> {
        let mut bytes = vec![0; (HOSTILE_PAGES * 4096) as usize];
        self.ram
            .read_slice(&mut bytes, GuestAddress(HOSTILE))
            .expect("the tables are in RAM");
        bytes
    }
}
