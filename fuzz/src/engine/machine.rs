//! A small machine for hostile code: 1 MiB of RAM, tables for every mode, and pages of every kind.
//!
//! The machine's own tables and handlers belong to the supervisor; two machines differ only in their
//! setup. Built by the targets `code` and `walk`.

use belljar_cpu::{
    CpuidTable, DescriptorTable, Exit, GuestRam, InstructionSet, Level, Registers, Segment,
    SystemRegisters, Vcpu, guest_ram,
};
use belljar_exact::{CyclesPerInstruction, ExactConfig, ExactVcpu, host_requirements};
use belljar_sim::{Random, Seed};
use vm_memory::{Bytes, GuestAddress};

pub(crate) const RAM_BYTES: usize = 1 << 20;
const TABLES: u64 = 0x1000;
const PAGE_TABLE: u64 = 0x4000;
const DIRECTORY_32: u64 = 0x5000;
const TABLE_32: u64 = 0x6000;
const GDT: u64 = 0x7000;
const IDT: u64 = 0x8000;
const IDT_32: u64 = 0x9000;
const TASK: u64 = 0xa000;
pub(crate) const HANDLERS: u64 = 0xb000;
const HANDLER_STACK: u64 = 0xe000;
/// Start of code.
pub(crate) const CODE: u64 = 0x1_0000;
/// Pages of the requested kinds.
pub(crate) const ARENA: u64 = 0x2_0000;
pub(crate) const ARENA_PAGES: usize = 16;
/// Offset of a second mapping of all memory in 64-bit mode.
pub(crate) const FAR: u64 = 4 << 30;
pub(crate) const STACK: u64 = 0x3_8000;
/// An address without RAM, for devices.
pub(crate) const DEVICE: u64 = 0xd000_0000;

/// Descriptors from selector 8 on.
const DESCRIPTORS: [u64; 13] = [
    0,
    0x00af_9b00_0000_ffff,
    0x00cf_9300_0000_ffff,
    0x00cf_9b00_0000_ffff,
    0x00cf_f300_0000_ffff,
    0x00af_fb00_0000_ffff,
    0x00cf_fb00_0000_ffff,
    0x0000_8900_a000_0067,
    0,
    0x0000_8900_a000_0067,
    0x0001_9b01_0000_ffff,
    0x0002_9302_0000_ffff,
    0,
];
/// The selector of a descriptor from the input.
const HOSTILE: u64 = 0x68;

/// Execution mode of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Long,
    Compatibility,
    Flat32,
    Paged32,
    Protected16,
    Real,
}

impl Mode {
    pub(crate) const ALL: [Self; 6] = [
        Self::Long,
        Self::Compatibility,
        Self::Flat32,
        Self::Paged32,
        Self::Protected16,
        Self::Real,
    ];

    fn is_long(self) -> bool {
        matches!(self, Self::Long | Self::Compatibility)
    }

    /// True if segment bases are significant.
    pub(crate) fn is_segmented(self) -> bool {
        matches!(self, Self::Protected16 | Self::Real)
    }
}

/// Kind of exception handlers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handlers {
    /// The handler continues one byte further.
    Skip,
    /// There are no handlers: the processor shuts down.
    None,
    /// The code under test is the handler.
    Code,
    /// The handler halts.
    Halt,
}

/// Properties of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) mode: Mode,
    pub(crate) user: bool,
    pub(crate) level: Level,
    pub(crate) handlers: Handlers,
    /// Kinds of the arena's pages, and of the page that holds code.
    pub(crate) pages: [u8; ARENA_PAGES],
    pub(crate) code_page: u8,
    /// The descriptor of selector 0x68.
    pub(crate) descriptor: u64,
}

/// The levels that this host supports, lowest first.
pub(crate) fn levels() -> Vec<Level> {
    let all = [Level::V2, Level::V3, Level::V4];
    let has = |level: &Level| host_requirements(&InstructionSet::from(*level)).is_ok();
    all.into_iter().filter(has).collect()
}

/// A vCPU of `level` with all of its state components enabled, at privilege level 0 of long mode.
pub(crate) fn vcpu(ram: &GuestRam, level: Level) -> ExactVcpu {
    let set = InstructionSet::from(level);
    let states = set.state_components();
    let mut vcpu = ExactVcpu::new(ExactConfig {
        ram: ram.clone(),
        cpuid: CpuidTable::default(),
        instruction_set: set,
        ratio: CyclesPerInstruction::default(),
        timing: None,
        random: Random::new(Seed(1), "fuzz", 0),
        host_results: false,
    })
    .expect("the host has what the level needs");
    if states != 0 {
        // mov eax, states; xor edx, edx; xor ecx, ecx; xsetbv; out 0x80, al
        let mut code = vec![0xb8];
        code.extend_from_slice(&(states as u32).to_le_bytes());
        code.extend_from_slice(&[0x31, 0xd2, 0x31, 0xc9, 0x0f, 0x01, 0xd1, 0xe6, 0x80]);
        put(ram, CODE, &code);
        vcpu.set_system(&system(Mode::Long, false));
        vcpu.set_registers(&Registers {
            rip: CODE,
            rflags: 2,
            ..Registers::default()
        });
        let exit = vcpu.run(100).expect("the host serves the engine");
        assert!(matches!(exit, Exit::PioWrite { .. }), "{exit:?}");
        put(ram, CODE, &vec![0; code.len()]);
    }
    vcpu
}

pub(crate) fn put(ram: &GuestRam, at: u64, bytes: &[u8]) {
    ram.write_slice(bytes, GuestAddress(at))
        .expect("the machine's own tables are in RAM");
}

fn put_word(ram: &GuestRam, at: u64, value: u64) {
    put(ram, at, &value.to_le_bytes());
}

/// A machine before its first instruction.
pub(crate) fn build(setup: &Setup) -> (GuestRam, ExactVcpu) {
    let ram = guest_ram(&[(0, RAM_BYTES)]).expect("the host has a MiB");
    write_descriptors(&ram, setup);
    write_handlers(&ram, setup);
    write_pages(&ram, &normal());
    let mut vcpu = vcpu(&ram, setup.level);
    write_pages(&ram, setup);
    let mut system = system(setup.mode, setup.user);
    if setup.handlers == Handlers::None {
        system.idt.limit = 0;
    }
    vcpu.set_system(&system);
    (ram, vcpu)
}

/// Pages that [`vcpu`] needs.
fn normal() -> Setup {
    Setup {
        mode: Mode::Long,
        user: false,
        level: Level::V2,
        handlers: Handlers::None,
        pages: [0; ARENA_PAGES],
        code_page: 0,
        descriptor: 0,
    }
}

fn segment(selector: u16, base: u64, limit: u32, attributes: u16) -> Segment {
    Segment {
        selector,
        base,
        limit,
        attributes,
    }
}

fn system(mode: Mode, user: bool) -> SystemRegisters {
    let mut system = SystemRegisters {
        cr0: 0x8005_0033,
        cr3: TABLES,
        cr4: 0x4_06b0,
        efer: 0xd01,
        gdt: DescriptorTable {
            base: GDT,
            limit: 0x6f,
        },
        idt: DescriptorTable {
            base: IDT,
            limit: 0xfff,
        },
        ..SystemRegisters::default()
    };
    let (data, privilege) = if user { (0x2b, 0x60) } else { (0x18, 0) };
    for number in [0, 2, 3, 4, 5] {
        system.segments[number] = segment(data, 0, u32::MAX, 0xc093 | privilege);
    }
    let code = match (mode, user) {
        (Mode::Long, false) => (0x10, 0xa09b),
        (Mode::Long, true) => (0x33, 0xa0fb),
        (_, false) => (0x20, 0xc09b),
        (_, true) => (0x3b, 0xc0fb),
    };
    system.segments[1] = segment(code.0, 0, u32::MAX, code.1);
    system.segments[6] = segment(0x40, TASK, 0x67, 0x8b);
    if !mode.is_long() {
        system.cr0 &= !(1 << 31);
        system.cr4 = 0x610;
        system.efer = 0;
        system.idt = DescriptorTable {
            base: IDT_32,
            limit: 0x7ff,
        };
        system.segments[6] = segment(0x50, TASK + 0x800, 0x67, 0x8b);
    }
    match mode {
        Mode::Paged32 => {
            system.cr0 |= 1 << 31;
            system.cr3 = DIRECTORY_32;
        }
        Mode::Protected16 | Mode::Real => segment_by_segment(&mut system, mode),
        _ => {}
    }
    system
}

/// Segments of 64 KiB: code at [`CODE`], all others at [`ARENA`].
fn segment_by_segment(system: &mut SystemRegisters, mode: Mode) {
    let real = mode == Mode::Real;
    let select = |base: u64, selector| if real { (base >> 4) as u16 } else { selector };
    for number in [0, 2, 3, 4, 5] {
        system.segments[number] = segment(select(ARENA, 0x60), ARENA, 0xffff, 0x93);
    }
    system.segments[1] = segment(select(CODE, 0x58), CODE, 0xffff, 0x9b);
    if real {
        system.cr0 = 0x10;
        system.idt = DescriptorTable {
            base: 0,
            limit: 0x3ff,
        };
    }
}

fn write_descriptors(ram: &GuestRam, setup: &Setup) {
    for (number, &raw) in DESCRIPTORS.iter().enumerate() {
        put_word(ram, GDT + number as u64 * 8 + 8, raw);
    }
    put_word(ram, GDT + 0x50, 0x0000_8900_a800_0067);
    put_word(ram, GDT + HOSTILE, setup.descriptor);
    // Level-0 stacks: one in a 64-bit task segment, and one in a 32-bit one.
    put_word(ram, TASK + 4, HANDLER_STACK);
    put_word(ram, TASK + 0x804, HANDLER_STACK | 0x18 << 32);
}

/// Handlers that continue after the faulting byte, by mode, without and with an error code.
fn skipping(mode: Mode) -> [&'static [u8]; 2] {
    match mode {
        // (add rsp, 8;) inc qword [rsp]; iretq
        Mode::Long | Mode::Compatibility => [
            &[0x48, 0xff, 0x04, 0x24, 0x48, 0xcf],
            &[0x48, 0x83, 0xc4, 0x08, 0x48, 0xff, 0x04, 0x24, 0x48, 0xcf],
        ],
        // push bp; mov bp, sp; inc word [bp + 2]; pop bp; iret
        Mode::Real => [&[0x55, 0x89, 0xe5, 0xff, 0x46, 0x02, 0x5d, 0xcf]; 2],
        // (add esp, 4;) inc dword [esp]; iretd
        _ => [
            &[0xff, 0x04, 0x24, 0xcf],
            &[0x83, 0xc4, 0x04, 0xff, 0x04, 0x24, 0xcf],
        ],
    }
}

fn write_handlers(ram: &GuestRam, setup: &Setup) {
    let skip = skipping(setup.mode);
    for vector in 0..64u64 {
        let has_error = matches!(vector, 8 | 10..=14 | 17 | 21);
        let mut at = HANDLERS + vector * 16;
        match setup.handlers {
            Handlers::Skip => put(ram, at, skip[usize::from(has_error)]),
            Handlers::Code if setup.mode != Mode::Real => at = CODE,
            _ => put(ram, at, &[0xf4]),
        }
        let kind = if matches!(vector, 3 | 4) {
            0xee00
        } else {
            0x8e00
        };
        let gate = |selector: u64| at & 0xffff | selector << 16 | kind << 32 | (at >> 16) << 48;
        put_word(ram, IDT + vector * 16, gate(0x10));
        put_word(ram, IDT_32 + vector * 8, gate(0x20));
        put(ram, vector * 4, &(at as u32).to_le_bytes());
    }
}

/// Page-table entry bits.
const USABLE: u64 = 7;
const NO_EXECUTE: u64 = 1 << 63;

/// A page table entry of a kind for the page at `at`.
fn entry(kind: u8, at: u64) -> u64 {
    match kind % 8 {
        1 => at | 5,
        2 => 0,
        3 => (DEVICE + at) | USABLE,
        4 => CODE | USABLE,
        5 => at | 3,
        6 => at | USABLE | NO_EXECUTE,
        7 => at | USABLE | 1 << 51,
        _ => at | USABLE,
    }
}

/// Identity-maps all of RAM; the machine's own tables belong to the supervisor.
fn write_pages(ram: &GuestRam, setup: &Setup) {
    for (at, next) in [(TABLES, 0x2000), (0x2000, 0x3000), (0x3000, PAGE_TABLE)] {
        put_word(ram, at, next | USABLE);
    }
    put_word(ram, 0x2000 + (FAR >> 30) * 8, 0x3000 | 7);
    put(ram, DIRECTORY_32, &(TABLE_32 as u32 | 7).to_le_bytes());
    for page in 0..RAM_BYTES as u64 / 4096 {
        let at = page * 4096;
        let value = match at {
            CODE => entry(setup.code_page, at),
            ARENA..0x3_0000 => entry(setup.pages[(page % 16) as usize], at),
            0..CODE => at | 3,
            _ => at | USABLE,
        };
        put_word(ram, PAGE_TABLE + page * 8, value);
        // Addresses above 32 bits are not present there.
        let short = if value >> 32 == 0 { value as u32 } else { 0 };
        put(ram, TABLE_32 + page * 4, &short.to_le_bytes());
    }
}
