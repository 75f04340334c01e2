//! vCPUs that share their translated code and their memory, run by turns.
//!
//! Writes of one vCPU to code must take effect on all; code translated for one, under its control
//! registers, must not be run by another under different ones. Translation must be invisible: turns
//! are executed as a whole and instruction by instruction, with the same results.

use belljar_cpu::{CpuidTable, Exit, GuestRam, InstructionSet, Registers, Vcpu};
use belljar_exact::{CodeShare, Costs, CyclesPerInstruction, ExactConfig, ExactVcpu, Timing};
use belljar_exact_testing::bare::{CODE, DATA, Guest, HANDLERS, STACK};
use belljar_pipeline::processor::Processor;
use belljar_sim::{Random, Seed};
use iced_x86::code_asm::*;
use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress};

struct Team {
    ram: GuestRam,
    vcpus: Vec<ExactVcpu>,
}

impl Team {
    /// `count` vCPUs at the beginning of `code`, with their numbers in RDI.
    fn new(code: &[u8], count: u64) -> Self {
        Self::with_timing(code, count, None)
    }

    fn with_timing(code: &[u8], count: u64, timing: Option<&Timing>) -> Self {
        let Guest { ram, vcpu, .. } = Guest::new(code);
        let share = CodeShare::default();
        let vcpus = (0..count).map(|number| {
            let config = ExactConfig {
                ram: ram.clone(),
                cpuid: CpuidTable::default(),
                instruction_set: InstructionSet::default(),
                ratio: CyclesPerInstruction::default(),
                timing: timing.cloned(),
                random: Random::new(Seed(1), "test", number),
                host_results: false,
            };
            let mut one = ExactVcpu::sharing(config, &share).unwrap();
            one.set_system(&vcpu.system());
            let mut registers = vcpu.registers();
            registers.gpr[Registers::RDI] = number;
            registers.gpr[Registers::RSP] = STACK - number * 0x1000;
            one.set_registers(&registers);
            one
        });
        Self {
            vcpus: vcpus.collect(),
            ram,
        }
    }

    /// Runs a turn of `length` instructions: at once, or in pieces of `step`.
    fn turn(&mut self, number: usize, length: u64, step: u64) -> Exit {
        let vcpu = &mut self.vcpus[number];
        let end = vcpu.now() + length;
        loop {
            let until = end.min(vcpu.now() + step);
            let exit = vcpu.run(until).unwrap();
            if exit != Exit::Deadline || vcpu.now() == end {
                return exit;
            }
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.ram.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        self.ram.read_slice(&mut data, GuestAddress(at)).unwrap();
        data
    }
}

/// The address of the function that is called and written to, on a separate page.
const FUNCTION: u64 = CODE + 0x1000;

/// A loop that calls a function, adds its result to memory of the vCPU's own, increments a shared
/// counter with a lock, and sometimes writes into the function. Before the first call, all vCPUs
/// write to the function's page, which contains no known code then.
fn rewriting(rounds: u32) -> Vec<u8> {
    let mut a = CodeAssembler::new(64).unwrap();
    let (mut warm, mut again, mut skip) = (a.create_label(), a.create_label(), a.create_label());
    a.mov(rsi, FUNCTION).unwrap();
    a.mov(rbx, DATA).unwrap();
    a.mov(ecx, 600).unwrap();
    a.set_label(&mut warm).unwrap();
    a.mov(qword_ptr(rsi + rdi * 8 + 0x800), rcx).unwrap();
    a.dec(ecx).unwrap();
    a.jne(warm).unwrap();
    a.mov(ecx, rounds).unwrap();
    a.set_label(&mut again).unwrap();
    a.call(rsi).unwrap();
    a.add(qword_ptr(rbx + rdi * 8), rax).unwrap();
    a.lock().inc(qword_ptr(rbx + 0x100)).unwrap();
    a.mov(rdx, qword_ptr(rbx + 0x100)).unwrap();
    a.lea(r8, ptr(rdx + rdi * 8)).unwrap();
    a.test(r8d, 0x7f).unwrap();
    a.jne(skip).unwrap();
    // The operand of MOV in the function.
    a.lock().add(dword_ptr(rsi + 1), edx).unwrap();
    a.set_label(&mut skip).unwrap();
    a.dec(ecx).unwrap();
    a.jne(again).unwrap();
    a.hlt().unwrap();
    a.assemble(CODE).unwrap()
}

/// The results of turns of these lengths, run in pieces of `step`.
fn outcome(turns: &[u64], step: u64) -> (Vec<Registers>, Vec<u8>, Vec<u8>, u64) {
    let mut team = Team::new(&rewriting(3_000), 3);
    // mov eax, 5; ret
    team.write(FUNCTION, &[0xb8, 5, 0, 0, 0, 0xc3]);
    for (index, &length) in turns.iter().cycle().take(4_000).enumerate() {
        team.turn(index % 3, length, step);
    }
    let registers = team.vcpus.iter().map(Vcpu::registers).collect();
    let modified = team.vcpus.iter().map(|one| one.statistics().modified);
    let modified = modified.sum();
    (
        registers,
        team.read(DATA, 0x108),
        team.read(FUNCTION, 6),
        modified,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn code_that_one_writes_is_what_all_run(
        turns in proptest::collection::vec(1u64..900, 1..20),
    ) {
        let whole = outcome(&turns, u64::MAX >> 1);
        prop_assert!(whole.3 > 0, "no code was written");
        let single = outcome(&turns, 1);
        prop_assert_eq!((&whole.0, &whole.1, &whole.2), (&single.0, &single.1, &single.2));
    }
}

/// The same bytes, run by a vCPU whose system has enabled SSE and by one whose system has not.
#[test]
fn what_one_may_not_run_another_may() {
    let mut a = CodeAssembler::new(64).unwrap();
    let mut again = a.create_label();
    a.set_label(&mut again).unwrap();
    a.inc(rax).unwrap();
    a.paddd(xmm1, xmm2).unwrap();
    a.jmp(again).unwrap();
    let mut team = Team::new(&a.assemble(CODE).unwrap(), 2);
    let mut system = team.vcpus[1].system();
    system.cr4 &= !(1 << 9);
    team.vcpus[1].set_system(&system);
    for turn in 1..=40u64 {
        assert_eq!(team.turn(0, 3 * 500, u64::MAX >> 1), Exit::Deadline);
        assert_eq!(team.vcpus[0].registers().gpr[Registers::RAX], turn * 500);
        assert_eq!(team.turn(1, 1_000, u64::MAX >> 1), Exit::Halt);
        let mut registers = team.vcpus[1].registers();
        assert_eq!(registers.rip, HANDLERS + 6 * 16 + 1, "#UD's handler");
        assert_eq!(registers.gpr[Registers::RAX], turn);
        registers.rip = CODE;
        registers.gpr[Registers::RSP] = STACK - 0x1000;
        // The reason of the wake-up from HLT.
        team.vcpus[1].init();
        team.vcpus[1].set_system(&system);
        team.vcpus[1].set_registers(&registers);
    }
    let flushes: u64 = team.vcpus.iter().map(|one| one.statistics().flushes).sum();
    assert_eq!(flushes, 0, "both find their code again");
}

/// Registers have their reset values, but the clock continues, and registers for time measurement
/// keep their values.
#[test]
fn an_init_leaves_what_it_must() {
    let mut a = CodeAssembler::new(64).unwrap();
    // A value into IA32_TSC_AUX, debug registers, then a byte for real mode.
    a.mov(ecx, 0xc000_0103u32).unwrap();
    a.mov(eax, 77).unwrap();
    a.xor(edx, edx).unwrap();
    a.wrmsr().unwrap();
    a.mov(rax, 0x1234u64).unwrap();
    a.mov(dr0, rax).unwrap();
    a.hlt().unwrap();
    let mut team = Team::new(&a.assemble(CODE).unwrap(), 1);
    assert_eq!(team.turn(0, 100, u64::MAX >> 1), Exit::Halt);
    // For real mode: mov al, 5; out 0x80, al.
    team.write(0x3000, &[0xb0, 5, 0xe6, 0x80]);
    let vcpu = &mut team.vcpus[0];
    let item = |vcpu: &ExactVcpu, name: &str| {
        let items = vcpu.state();
        let found = items.iter().find(|item| item.name == name);
        found.unwrap_or_else(|| panic!("no {name}")).hex()
    };
    assert_eq!(item(vcpu, "dr0"), "1234");
    let before = (vcpu.now(), vcpu.retired());
    vcpu.init();
    assert_eq!((vcpu.now(), vcpu.retired()), before);
    assert_eq!(
        (item(vcpu, "dr0"), item(vcpu, "tsc_aux")),
        ("0".into(), "4d".into())
    );
    assert_eq!(vcpu.system().cr0, 0x6000_0010);
    assert_eq!(vcpu.registers(), Registers::initial(0));
    // Started in page 3.
    let mut system = vcpu.system();
    system.segments[1].selector = 0x300;
    system.segments[1].base = 0x3000;
    vcpu.set_system(&system);
    vcpu.set_registers(&Registers {
        rip: 0,
        ..vcpu.registers()
    });
    let exit = team.turn(0, 100, u64::MAX >> 1);
    assert_eq!(
        exit,
        Exit::PioWrite {
            port: 0x80,
            len: 1,
            data: 5
        }
    );
}

/// The x87 of a vCPU that never used it stays unchanged, while another one fills its own.
#[test]
fn nobody_sees_the_others_x87() {
    let mut a = CodeAssembler::new(64).unwrap();
    let (mut fill, mut again, mut still) = (a.create_label(), a.create_label(), a.create_label());
    a.test(rdi, rdi).unwrap();
    a.je(still).unwrap();
    a.mov(dword_ptr(DATA as i32), 0x27f).unwrap();
    a.fldcw(word_ptr(DATA as i32)).unwrap();
    a.mov(ecx, 8).unwrap();
    a.set_label(&mut fill).unwrap();
    a.fldpi().unwrap();
    a.loop_(fill).unwrap();
    a.set_label(&mut again).unwrap();
    a.jmp(again).unwrap();
    a.set_label(&mut still).unwrap();
    a.fxsave(ptr(DATA + 0x200)).unwrap();
    a.jmp(still).unwrap();
    let mut team = Team::new(&a.assemble(CODE).unwrap(), 2);
    for turn in 1..=20u64 {
        for number in [1, 0] {
            assert_eq!(team.turn(number, 100 * turn, 7), Exit::Deadline);
        }
        let image = team.read(DATA + 0x200, 160);
        // Control, status, tags; then the registers.
        assert_eq!(image[..5], [0x7f, 3, 0, 0, 0], "turn {turn}");
        assert_eq!(image[32..], [0; 128], "turn {turn}");
        let other = team.vcpus[1].x87();
        assert_eq!((other[..2].to_vec(), other[4]), (vec![0x7f, 2], 0xff));
        assert!(
            other[32..].chunks(16).all(|one| one[9] == 0x40),
            "pi in each"
        );
    }
}

/// A processor without prefetchers, whose third level of 256 KiB is shared by `cores`.
fn sharing_caches(cores: u32) -> Timing {
    let mut processor = Processor::built_in("zen5").unwrap();
    let caches = &mut processor.caches;
    caches.levels.truncate(3);
    for (level, kib) in caches.levels.iter_mut().zip([48, 64, 256]) {
        level.bytes = kib << 10;
    }
    caches.levels[2].cores = Some(cores);
    (caches.prefetch.lines, caches.prefetch.strides) = (0, 0);
    Timing {
        costs: Costs::default(),
        caches: None,
        processor: Some(processor.into()),
        has_memory: true,
    }
}

/// Reads 192 KiB again and again, each vCPU from its own start on.
fn own_reading() -> Vec<u8> {
    let mut a = CodeAssembler::new(64).unwrap();
    let (mut again, mut next) = (a.create_label(), a.create_label());
    a.imul_3(rdi, rdi, 192 << 10).unwrap();
    a.add(rdi, DATA as i32).unwrap();
    a.set_label(&mut again).unwrap();
    a.lea(rsi, ptr(rdi)).unwrap();
    a.mov(ecx, (192 << 10) / 64).unwrap();
    a.set_label(&mut next).unwrap();
    a.mov(rax, qword_ptr(rsi)).unwrap();
    a.add(rsi, 64).unwrap();
    a.dec(ecx).unwrap();
    a.jne(next).unwrap();
    a.jmp(again).unwrap();
    a.assemble(CODE).unwrap()
}

/// Cycles for which each vCPU waits for data from memory in the last quarter of a run by turns of a slice, and the states at the end. The vCPUs
/// are moved to others in the middle if `moves`.
fn read_by_turns(count: u64, cores: u32, step: u64, moves: bool) -> (Vec<u64>, Vec<Vec<u8>>) {
    const TURNS: usize = 400;
    let timing = sharing_caches(cores);
    let code = own_reading();
    let mut team = Team::with_timing(&code, count, Some(&timing));
    let memory = |team: &Team| -> Vec<u64> {
        let accounts = team.vcpus.iter().map(|one| one.account().unwrap());
        accounts.map(|one| one.memory).collect()
    };
    let mut before = Vec::new();
    for turn in 0..TURNS {
        if turn == TURNS * 3 / 4 {
            before = memory(&team);
            if moves {
                let saved: Vec<_> = team
                    .vcpus
                    .iter_mut()
                    .map(|one| one.save().unwrap())
                    .collect();
                let ram = team.read(0, belljar_exact_testing::bare::RAM_BYTES);
                team = Team::with_timing(&code, count, Some(&timing));
                team.write(0, &ram);
                for (one, saved) in team.vcpus.iter_mut().zip(&saved) {
                    one.load(saved).unwrap();
                }
            }
        }
        for number in 0..count as usize {
            let until = (turn as u64 + 1) * 20_000;
            while team.vcpus[number].now() < until {
                let next = until.min(team.vcpus[number].now() + step);
                assert_eq!(team.vcpus[number].run(next).unwrap(), Exit::Deadline);
            }
        }
    }
    let after = memory(&team).into_iter();
    let spent = after.zip(before).map(|(after, before)| after - before);
    let spent = spent.collect();
    let states = team.vcpus.iter_mut().map(|one| one.save().unwrap().engine);
    (spent, states.collect())
}

/// 192 KiB fit into 256 KiB; those of two vCPUs fit only into one for each.
#[test]
fn vcpus_share_a_cache_by_turns() {
    let (alone, _) = read_by_turns(1, 2, u64::MAX >> 1, false);
    assert_eq!(alone, [0], "one fits");
    let (apart, _) = read_by_turns(2, 1, u64::MAX >> 1, false);
    assert_eq!(apart, [0, 0], "each has its own");
    let (together, states) = read_by_turns(2, 2, u64::MAX >> 1, false);
    for spent in &together {
        // A line takes 20 cycles on its path, so a window of 448 instructions 2240: 2 million cycles have 893 windows,
        // each of which waits for at least 620 cycles less the 200 that it hides.
        assert!(*spent > 890 * 420, "{together:?}");
    }
    assert_eq!(
        read_by_turns(2, 2, 777, false),
        (together.clone(), states.clone()),
        "stops"
    );
    assert_eq!(
        read_by_turns(2, 2, 5000, true),
        (together, states),
        "checkpoints"
    );
}
