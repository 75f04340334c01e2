//! A guest without a kernel: flat 64-bit code over identity-mapped pages.

use std::sync::{LazyLock, Mutex, PoisonError};

use belljar_cpu::{
    CpuidEntry, CpuidTable, DescriptorTable, Exit, GuestRam, InstructionSet, Registers, Segment,
    SystemRegisters, Vcpu, guest_ram,
};
use belljar_exact::{
    CodeKey, CodePool, CodeShare, CyclesPerInstruction, ExactConfig, ExactVcpu, SealedCode, Timing,
};
use belljar_sim::{Random, Seed};
use iced_x86::IcedError;
use iced_x86::code_asm::CodeAssembler;
use vm_memory::{Bytes, GuestAddress};

pub const RAM_BYTES: usize = 4 << 20;
/// Distance at which [`Guest::map_all_far`] maps memory again: user code there is translated
/// relative to its page.
pub const BEYOND: u64 = 4 << 30;
pub const CODE: u64 = 0x10_0000;
pub const DATA: u64 = 0x20_0000;
pub const STACK: u64 = 0x30_0000;
/// A linear address far from everything else.
pub const FAR: u64 = 0x4000_0000_0000;
/// Handlers of the exceptions: `hlt` at `HANDLERS + 16 * vector`.
pub const HANDLERS: u64 = 0x8000;
const TABLES: u64 = 0x1000;
const PAGE_TABLES: u64 = 0x4000;
const GDT: u64 = 0x6000;
const IDT: u64 = 0x7000;

pub struct Guest {
    pub ram: GuestRam,
    pub vcpu: ExactVcpu,
    /// Page directories' entries for which [`map_page`](Self::map_page) made tables.
    tables: Vec<u64>,
}

fn segment(selector: u16, attributes: u16) -> Segment {
    Segment {
        selector,
        base: 0,
        limit: u32::MAX,
        attributes,
    }
}

/// The code that `build` assembles, for [`CODE`].
pub fn assemble(build: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) -> Vec<u8> {
    let mut asm = CodeAssembler::new(64).unwrap();
    build(&mut asm).unwrap();
    asm.assemble(CODE).unwrap()
}

/// True if guests share their translated code, so that some find it already hot.
pub fn is_pooled() -> bool {
    std::env::var_os("BELLJAR_POOL").is_some()
}

/// The storage of a guest's translated code: with `BELLJAR_POOL` in the environment, all guests of
/// the process share one pool. With the value `saved`, it is saved and restored for every eighth guest.
fn share() -> CodeShare {
    static POOL: LazyLock<Mutex<(CodePool, u32)>> = LazyLock::new(|| Mutex::new((pool(None), 0)));
    let share = CodeShare::default();
    let Some(how) = std::env::var_os("BELLJAR_POOL") else {
        return share;
    };
    let mut place = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let (present, guests) = &mut *place;
    *guests += 1;
    if how == "saved"
        && guests.is_multiple_of(8)
        && let Some(sealed) = present.sealed(&key())
    {
        *present = pool(Some(sealed));
    }
    share.pooled(present)
}

fn key() -> CodeKey {
    CodeKey::new([1; 32])
}

/// A pool for all guests, with `sealed` code.
fn pool(sealed: Option<Vec<u8>>) -> CodePool {
    let open = move || sealed.map(|sealed| SealedCode::open(sealed, &key()).unwrap());
    CodePool::with_room(128 << 20).beginning_with(open, "tests")
}

/// The answers of CPUID: only a local APIC.
fn cpuid() -> CpuidTable {
    const APIC: u32 = 1 << 9;
    let features = CpuidEntry {
        leaf: 1,
        subleaf: None,
        eax: 0,
        ebx: 0,
        ecx: 0,
        edx: APIC,
    };
    CpuidTable {
        entries: vec![features],
    }
}

impl Guest {
    /// A guest at privilege level 0 with `code` at [`CODE`], interrupts off.
    pub fn new(code: &[u8]) -> Self {
        Self::with_ratio(code, CyclesPerInstruction::default())
    }

    pub fn with_ratio(code: &[u8], ratio: CyclesPerInstruction) -> Self {
        Self::build(
            code,
            ratio,
            None,
            &InstructionSet::default(),
            RAM_BYTES,
            false,
        )
    }

    /// A guest whose processor has `set`, under the time model `timing`.
    pub fn with_timing(code: &[u8], timing: Timing, set: &InstructionSet) -> Self {
        let ratio = CyclesPerInstruction::default();
        Self::build(code, ratio, Some(timing), set, RAM_BYTES, false)
    }

    /// A guest whose processor has `set`, with all of its state enabled.
    pub fn with_set(set: &InstructionSet) -> Self {
        Self::with_ram(set, RAM_BYTES)
    }

    /// As [`with_set`](Self::with_set), with `ram_bytes` of memory; 4 MiB are mapped.
    pub fn with_ram(set: &InstructionSet, ram_bytes: usize) -> Self {
        Self::switched_on(set, ram_bytes, false)
    }

    /// As [`with_set`](Self::with_set), with the host's approximations and undefined flags.
    pub fn with_host_results(set: &InstructionSet) -> Self {
        Self::switched_on(set, RAM_BYTES, true)
    }

    fn switched_on(set: &InstructionSet, ram_bytes: usize, host_results: bool) -> Self {
        let states = set.state_components();
        // mov rax, cr4; or eax, 1 << 18; mov cr4, rax; mov eax, states; xor edx, edx;
        // xor ecx, ecx; xsetbv; out 0x80, al
        let mut code = vec![0x0f, 0x20, 0xe0, 0x0d, 0, 0, 4, 0, 0x0f, 0x22, 0xe0, 0xb8];
        code.extend_from_slice(&(states as u32).to_le_bytes());
        code.extend_from_slice(&[0x31, 0xd2, 0x31, 0xc9, 0x0f, 0x01, 0xd1]);
        if states == 0 {
            code.clear();
        }
        code.extend_from_slice(&[0xe6, 0x80]);
        let ratio = CyclesPerInstruction::default();
        let mut guest = Self::build(&code, ratio, None, set, ram_bytes, host_results);
        let exit = guest.run(100);
        assert!(matches!(exit, Exit::PioWrite { .. }), "{exit:?}");
        guest
    }

    fn build(
        code: &[u8],
        ratio: CyclesPerInstruction,
        timing: Option<Timing>,
        set: &InstructionSet,
        ram_bytes: usize,
        host_results: bool,
    ) -> Self {
        let ram = guest_ram(&[(0, ram_bytes)]).unwrap();
        write_tables(&ram);
        ram.write_slice(code, GuestAddress(CODE)).unwrap();
        let config = ExactConfig {
            ram: ram.clone(),
            cpuid: cpuid(),
            instruction_set: set.clone(),
            ratio,
            timing,
            random: Random::new(Seed(1), "test", 0),
            host_results,
        };
        let mut vcpu = ExactVcpu::sharing(config, &share()).unwrap();
        vcpu.set_system(&system());
        let mut registers = Registers {
            rip: CODE,
            rflags: 2,
            ..Registers::default()
        };
        registers.gpr[Registers::RSP] = STACK;
        vcpu.set_registers(&registers);
        Self {
            ram,
            vcpu,
            tables: Vec::new(),
        }
    }

    /// The guest in its present state, in another memory and on another processor.
    pub fn moved(&mut self) -> Self {
        let saved = Vcpu::save(&mut self.vcpu).unwrap();
        let mut other = Self::new(&[]);
        other.write(0, &self.read(0, RAM_BYTES));
        Vcpu::load(&mut other.vcpu, &saved).unwrap();
        other.tables.clone_from(&self.tables);
        other
    }

    /// Runs at most `instructions`.
    pub fn run(&mut self, instructions: u64) -> Exit {
        let until = self.vcpu.now() + instructions;
        self.vcpu.run(until).unwrap()
    }

    /// Runs until it halts, at most `step` cycles at a time.
    pub fn halt_by_steps(&mut self, step: u64) {
        loop {
            match self.run(step) {
                Exit::Deadline => {}
                Exit::Halt => return,
                other => panic!("{other:?}"),
            }
        }
    }

    /// Runs to a HLT and returns the vector of the exception in whose handler it is.
    pub fn run_to_halt(&mut self) -> Option<u8> {
        assert_eq!(self.run(1_000_000_000), Exit::Halt);
        let rip = self.vcpu.registers().rip;
        (HANDLERS..HANDLERS + 32 * 16)
            .contains(&rip)
            .then(|| ((rip - HANDLERS) / 16) as u8)
    }

    /// Maps `pages` pages at linear address `linear`, below 1 GiB, to `physical`.
    pub fn map(&self, linear: u64, physical: u64, pages: u64) {
        const TABLE: u64 = 0x9000;
        let directory = 0x3000 + (linear >> 21) * 8;
        self.ram
            .write_obj(TABLE | 7, GuestAddress(directory))
            .unwrap();
        for page in 0..pages {
            let entry = TABLE + ((linear >> 12) + page) % 512 * 8;
            self.ram
                .write_obj((physical + page * 0x1000) | 7, GuestAddress(entry))
                .unwrap();
        }
    }

    /// Maps the page at linear address `linear`, below 1 GiB, by table entry `entry`.
    pub fn map_page(&mut self, linear: u64, entry: u64) {
        const FIRST: u64 = 0x39_0000;
        let directory = 0x3000 + (linear >> 21) * 8;
        let number = self
            .tables
            .iter()
            .position(|&known| known == directory)
            .unwrap_or_else(|| {
                self.tables.push(directory);
                self.tables.len() - 1
            });
        let table = FIRST + number as u64 * 0x1000;
        let put = |at: u64, value: u64| self.ram.write_obj(value, GuestAddress(at)).unwrap();
        put(directory, table | 7);
        put(table + (linear >> 12) % 512 * 8, entry);
    }

    /// Maps everything below 1 GiB at a distance of [`BEYOND`] as well.
    pub fn map_all_far(&self) {
        let at = GuestAddress(0x2000 + (BEYOND >> 30) * 8);
        self.ram.write_obj(0x3000u64 | 7, at).unwrap();
    }

    /// Adds the segments of user mode, selectors 0x2b and 0x33.
    pub fn allow_user(&self) {
        let put = |at: u64, value: u64| self.ram.write_obj(value, GuestAddress(at)).unwrap();
        put(GDT + 0x28, 0x00cf_f300_0000_ffff);
        put(GDT + 0x30, 0x00af_fb00_0000_ffff);
    }

    /// Lets user code execute INT3.
    pub fn allow_breakpoints(&self) {
        let at = GuestAddress(IDT + 3 * 16 + 5);
        self.ram.write_obj(0xeeu8, at).unwrap();
    }

    /// Maps one user page at a linear address of the lower half beyond the first
    /// 512 GiB to `physical`.
    pub fn map_far(&self, linear: u64, physical: u64) {
        let put = |at: u64, value: u64| self.ram.write_obj(value, GuestAddress(at)).unwrap();
        put(TABLES + (linear >> 39 & 0x1ff) * 8, 0xa000 | 7);
        put(0xa000 + (linear >> 30 & 0x1ff) * 8, 0xb000 | 7);
        put(0xb000 + (linear >> 21 & 0x1ff) * 8, 0xc000 | 7);
        put(0xc000 + (linear >> 12 & 0x1ff) * 8, physical | 7);
    }

    /// Maps each of 512 linear pages of 2 MiB from `linear` on to the same page at `physical`;
    /// `linear` is a multiple of 1 GiB beyond the first 512.
    pub fn map_over_and_over(&self, linear: u64, physical: u64) {
        let put = |at: u64, value: u64| self.ram.write_obj(value, GuestAddress(at)).unwrap();
        put(TABLES + (linear >> 39 & 0x1ff) * 8, 0xa000 | 7);
        put(0xa000 + (linear >> 30 & 0x1ff) * 8, 0xb000 | 7);
        for entry in 0..512 {
            put(0xb000 + entry * 8, 0xc000 | 7);
            put(0xc000 + entry * 8, physical | 7);
        }
    }

    /// Makes `handler` handle `vector`, on a stack of its own.
    pub fn use_interrupt_stack(&mut self, vector: u64, handler: u64, stack: u64) {
        const TASK: u64 = 0xd000;
        let put = |at: u64, value: u64| self.ram.write_obj(value, GuestAddress(at)).unwrap();
        put(
            IDT + vector * 16,
            handler & 0xffff | 0x10 << 16 | 0x8e01 << 32 | (handler >> 16) << 48,
        );
        put(TASK + 0x24, stack);
        // No ports.
        self.ram
            .write_obj(0x68u16, GuestAddress(TASK + 0x66))
            .unwrap();
        let mut system = self.vcpu.system();
        system.segments[6] = Segment {
            selector: 0x28,
            base: TASK,
            limit: 0x67,
            attributes: 0x8b,
        };
        self.vcpu.set_system(&system);
    }

    /// Enters privilege level 3 at `rip`.
    pub fn enter_user(&mut self, rip: u64) {
        let mut system = self.vcpu.system();
        system.segments[1] = segment(0x33, 0xa0fb);
        system.segments[2] = segment(0x2b, 0xc0f3);
        self.vcpu.set_system(&system);
        let mut registers = self.vcpu.registers();
        registers.rip = rip;
        self.vcpu.set_registers(&registers);
    }

    pub fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.ram.read_slice(&mut data, GuestAddress(at)).unwrap();
        data
    }

    pub fn write(&self, at: u64, data: &[u8]) {
        self.ram.write_slice(data, GuestAddress(at)).unwrap();
    }
}

fn system() -> SystemRegisters {
    let mut system = SystemRegisters {
        cr0: 0x8005_0033,
        cr3: TABLES,
        cr4: 0x6b0,
        efer: 0xd01,
        gdt: DescriptorTable {
            base: GDT,
            limit: 0x3f,
        },
        idt: DescriptorTable {
            base: IDT,
            limit: 0xfff,
        },
        ..SystemRegisters::default()
    };
    for index in [0, 2, 3, 4, 5] {
        system.segments[index] = segment(0x18, 0xc093);
    }
    system.segments[1] = segment(0x10, 0xa09b);
    system
}

/// Maps the first 4 MiB to themselves in 4 KiB pages, except page 0x3ff; all are user pages. Writes
/// a GDT, and an IDT whose gates lead to HLTs.
fn write_tables(ram: &GuestRam) {
    let put = |at: u64, value: u64| ram.write_obj(value, GuestAddress(at)).unwrap();
    put(TABLES, 0x2000 | 7);
    put(0x2000, 0x3000 | 7);
    for table in 0..2u64 {
        put(0x3000 + table * 8, (PAGE_TABLES + table * 0x1000) | 7);
    }
    for page in 0..1023u64 {
        put(PAGE_TABLES + page * 8, (page << 12) | 7);
    }
    for (index, raw) in [0, 0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff]
        .into_iter()
        .enumerate()
    {
        put(GDT + index as u64 * 8, raw);
    }
    for vector in 0..32u64 {
        let handler = HANDLERS + vector * 16;
        put(
            IDT + vector * 16,
            handler & 0xffff | 0x10 << 16 | 0x8e00 << 32 | (handler >> 16) << 48,
        );
        put(IDT + vector * 16 + 8, 0);
        ram.write_obj(0xf4u8, GuestAddress(handler)).unwrap();
    }
}

/// A flat 32-bit code segment's selector, and a 16-bit one's with a 16-bit data segment.
pub const CODE_32: u16 = 0x30;
pub const CODE_16: u16 = 0x38;
pub const DATA_16: u16 = 0x40;
pub const USER_CODE_32: u16 = 0x4b;
pub const USER_DATA_32: u16 = 0x53;

impl Guest {
    /// Adds the descriptors of 16- and 32-bit segments to the table.
    pub fn add_legacy_segments(&mut self) {
        for (selector, raw) in [
            (CODE_32, 0x00cf_9b00_0000_ffffu64),
            (CODE_16, 0x0000_9b00_0000_ffff),
            (DATA_16, 0x0000_9300_0000_ffff),
            (USER_CODE_32, 0x00cf_fb00_0000_ffff),
            (USER_DATA_32, 0x00cf_f300_0000_ffff),
        ] {
            let at = GDT + u64::from(selector & !7);
            self.ram.write_obj(raw, GuestAddress(at)).unwrap();
        }
        let mut system = self.vcpu.system();
        system.gdt.limit = 0x5f;
        self.vcpu.set_system(&system);
    }

    /// A guest in protected mode without paging, in the state left by a multiboot loader, with
    /// `code` of 32 bits at [`CODE`].
    pub fn protected(code: &[u8]) -> Self {
        Self::new(code).into_protected()
    }

    /// The same for a guest that halts, with the host's undefined flags.
    pub fn protected_as_host() -> Self {
        let ratio = CyclesPerInstruction::default();
        let set = InstructionSet::default();
        Self::build(&[0xf4], ratio, None, &set, RAM_BYTES, true).into_protected()
    }

    fn into_protected(self) -> Self {
        let mut guest = self;
        guest.add_legacy_segments();
        let mut system = guest.vcpu.system();
        system.cr0 = 0x31;
        system.cr4 = 0;
        system.efer = 0;
        system.segments[1] = segment(CODE_32, 0xc09b);
        system.idt.limit = 0x7ff;
        for vector in 0..32u64 {
            let handler = HANDLERS + vector * 16;
            let gate = handler & 0xffff | u64::from(CODE_32) << 16 | 0x8e00 << 32;
            guest
                .ram
                .write_obj(gate, GuestAddress(IDT + vector * 8))
                .unwrap();
        }
        guest.vcpu.set_system(&system);
        guest
    }
}
