//! Arbitrary code, in every mode and at both privilege levels.
//!
//! The engine must return from it, and stops must not affect the result: the same code runs in one
//! go and in pieces, with equal results.

use arbitrary::{Result, Unstructured};
use belljar_cpu::{Exit, Registers, StateItem, Vcpu};
use vm_memory::{Bytes, GuestAddress};

use crate::engine::machine::{
    self, ARENA, ARENA_PAGES, CODE, Handlers, Mode, RAM_BYTES, STACK, Setup, build, put,
};

/// Instructions of a run, and of a run in which code becomes hot.
const BUDGETS: [u64; 2] = [1500, 8000];
/// Limit on a run's exits of any kind.
const EXITS: usize = 200;
const INTERRUPT: u8 = 0x20;
const INTERRUPTS_ON: u64 = 1 << 9;

struct Case {
    setup: Setup,
    registers: Registers,
    /// Instructions between stops, if the run is in pieces.
    step: u64,
    window: bool,
    budget: u64,
    code: Vec<u8>,
}

/// The result of a run.
#[derive(PartialEq)]
struct End {
    exits: Vec<(u64, Exit)>,
    retired: u64,
    state: Vec<StateItem>,
    memory: Vec<u8>,
}

/// Runs the code that `data` describes, whole and in pieces.
pub(crate) fn target(data: &[u8]) {
    let Ok(case) = Case::read(Unstructured::new(data)) else {
        return;
    };
    let whole = play(&case, None);
    let pieces = play(&case, Some(case.step));
    assert_eq!(pieces.exits, whole.exits, "exits, in pieces and whole");
    assert_eq!(pieces.retired, whole.retired, "instructions");
    for (found, expected) in pieces.state.iter().zip(&whole.state) {
        assert_eq!(found, expected, "in pieces of {} and whole", case.step);
    }
    let mut bytes = pieces.memory.iter().zip(&whole.memory);
    let differs = bytes.position(|(found, expected)| found != expected);
    assert_eq!(differs, None, "memory, in pieces of {}", case.step);
}

impl Case {
    fn read(mut u: Unstructured<'_>) -> Result<Self> {
        let levels = machine::levels();
        let mode = Mode::ALL[usize::from(u.arbitrary::<u8>()?) % Mode::ALL.len()];
        let [options, level, code_page, step]: [u8; 4] = u.arbitrary()?;
        let mut pages = [0; ARENA_PAGES];
        u.fill_buffer(&mut pages)?;
        let setup = Setup {
            mode,
            user: options & 1 != 0 && !mode.is_segmented(),
            level: levels[usize::from(level) % levels.len()],
            handlers: match options >> 1 & 3 {
                0 => Handlers::Skip,
                1 => Handlers::None,
                2 => Handlers::Code,
                _ => Handlers::Halt,
            },
            pages,
            code_page,
            descriptor: u.arbitrary()?,
        };
        let registers = Self::registers(&mut u, mode, options)?;
        Ok(Self {
            setup,
            registers,
            step: 1 + u64::from(step % 64),
            window: options & 0x20 != 0,
            budget: BUDGETS[usize::from(options >> 6 & 1)],
            code: u.take_rest().to_vec(),
        })
    }

    /// Registers with mostly useful addresses: near the ends of pages, at code, at devices.
    fn registers(u: &mut Unstructured<'_>, mode: Mode, options: u8) -> Result<Registers> {
        let mut registers = Registers {
            rflags: 2 | u64::from(u.arbitrary::<u16>()? & 0x7ed5),
            ..Registers::default()
        };
        if options & 0x10 == 0 {
            // Single steps would prevent translation of blocks.
            registers.rflags &= !(1 << 8);
        }
        let base = if mode.is_segmented() { 0 } else { ARENA };
        for register in &mut registers.gpr {
            let choice = u.arbitrary::<u8>()?;
            let page = u64::from(choice & 15);
            *register = match choice >> 4 {
                0..=3 => base + page * 4096 + 4096 - u64::from(u.arbitrary::<u8>()? % 72),
                4..=6 => base + page * 4096 + u64::from(u.arbitrary::<u8>()?),
                7 => CODE + u64::from(u.arbitrary::<u8>()?),
                8 | 9 => page,
                10 => page.wrapping_neg(),
                11 => u.arbitrary()?,
                12 => 0xffff_ffff - page,
                13 => 1 << (page * 4),
                14 => 0xc000_0080 + page,
                _ => machine::DEVICE + page * 4096,
            };
        }
        if options & 8 == 0 {
            registers.gpr[Registers::RSP] = if base == 0 { 0xff00 } else { STACK };
        }
        registers.rip = match base {
            0 => 0,
            // User code here is translated relative to its page.
            _ if options & 0x80 != 0 && mode == Mode::Long => CODE + machine::FAR,
            _ => CODE,
        };
        Ok(registers)
    }
}

fn play(case: &Case, step: Option<u64>) -> End {
    let (ram, mut vcpu) = build(&case.setup);
    put(&ram, CODE, &case.code);
    vcpu.set_registers(&case.registers);
    let last = vcpu.retired() + case.budget;
    vcpu.stop_at(last);
    vcpu.request_interrupt_window(case.window);
    let mut exits = Vec::new();
    while exits.len() < EXITS {
        let until = step.map_or(u64::MAX / 2, |step| vcpu.now() + step);
        let exit = vcpu.run(until).expect("the host serves the engine");
        if exit == Exit::Deadline {
            if vcpu.retired() >= last {
                break;
            }
            continue;
        }
        exits.push((vcpu.retired(), exit));
        if !answer(&mut vcpu, &exit, exits.len()) {
            break;
        }
    }
    let mut memory = vec![0; RAM_BYTES];
    ram.read_slice(&mut memory, GuestAddress(0))
        .expect("all of it is there");
    End {
        exits,
        retired: vcpu.retired(),
        state: vcpu.state(),
        memory,
    }
}

/// Emulates the machine around the processor; true if it can continue.
fn answer(vcpu: &mut impl Vcpu, exit: &Exit, number: usize) -> bool {
    match *exit {
        Exit::PioRead { .. } | Exit::MmioRead { .. } => {
            vcpu.complete_read((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        Exit::MsrRead { index } if index & 1 == 0 => vcpu.complete_read(u64::from(index)),
        Exit::MsrRead { .. } => vcpu.refuse_msr(),
        Exit::MsrWrite { index, .. } if index & 1 != 0 => vcpu.refuse_msr(),
        Exit::InterruptWindow => {
            vcpu.request_interrupt_window(false);
            vcpu.interrupt(INTERRUPT);
        }
        Exit::Halt => {
            if vcpu.registers().rflags & INTERRUPTS_ON == 0 || !vcpu.interruptible() {
                return false;
            }
            vcpu.interrupt(INTERRUPT + (number as u8 & 7));
        }
        Exit::Magic { .. } => vcpu.complete_magic(CODE),
        Exit::Shutdown(_) => return false,
        _ => {}
    }
    true
}

/// Loops, strings, faults and self-modifying code, in every mode.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    const PROGRAMS: &[&[u8]] = &[
        // mov [rdi], eax; mov edx, [rdi + 2]; add edi, 4; dec ecx; jnz back
        &[
            0x89, 0x07, 0x8b, 0x57, 0x02, 0x83, 0xc7, 0x04, 0xff, 0xc9, 0x75, 0xf4,
        ],
        // mov [rdi], eax; add eax, [rsi]; dec ecx; jnz back; int3
        &[0x89, 0x07, 0x03, 0x06, 0xff, 0xc9, 0x75, 0xf8, 0xcc],
        // rep movsb; rep stosd; repne scasb; lodsw; hlt
        &[0xf3, 0xa4, 0xf3, 0xab, 0xf2, 0xae, 0x66, 0xad, 0xf4],
        // inc byte [rip - 7] (32-bit: absolute); jmp back
        &[0xfe, 0x05, 0xf9, 0xff, 0xff, 0xff, 0xeb, 0xf8],
        // push; pop; call; ret
        &[0x50, 0x5b, 0xe8, 0, 0, 0, 0, 0x58, 0x54, 0xc3],
        // in al, dx; out dx, eax; cpuid; rdtsc; pushf; popf
        &[0xec, 0xef, 0x0f, 0xa2, 0x0f, 0x31, 0x9c, 0x9d],
        // mov cr3, rax; mov rax, cr0; lgdt [rsi]; invlpg [rdi]; wrmsr; rdmsr
        &[
            0x0f, 0x22, 0xd8, 0x0f, 0x20, 0xc0, 0x0f, 0x01, 0x16, 0x0f, 0x01, 0x3f, 0x0f, 0x30,
            0x0f, 0x32,
        ],
        // mov ds, eax; lldt; retf; iret; far jump through memory
        &[0x8e, 0xd8, 0x0f, 0x00, 0xd0, 0xcb, 0xcf, 0xff, 0x2e],
        // movups; vaddps; fld; fstp; movntdq; maskmovdqu
        &[
            0x0f, 0x10, 0x06, 0xc5, 0xfc, 0x58, 0x06, 0xd9, 0x06, 0xdb, 0x3f, 0x66, 0x0f, 0xe7,
            0x07, 0x66, 0x0f, 0xf7, 0xc1,
        ],
        // div ecx; lock cmpxchg [rdi], ecx; bts [rdi], eax; xlat; leave; sti; hlt
        &[
            0xf7, 0xf1, 0xf0, 0x0f, 0xb1, 0x0f, 0x0f, 0xab, 0x07, 0xd7, 0xc9, 0xfb, 0xf4,
        ],
        // jmp rax; syscall; sysenter; int 0x21; ud2
        &[0xff, 0xe0, 0x0f, 0x05, 0x0f, 0x34, 0xcd, 0x21, 0x0f, 0x0b],
    ];
    let mut seeds = Vec::new();
    for (number, program) in PROGRAMS.iter().enumerate() {
        for mode in 0..Mode::ALL.len() as u8 {
            let hot = u8::from(number < 2) << 6;
            let options = ((number as u8).wrapping_mul(37) ^ mode) & 0x2f | hot;
            let mut seed = vec![mode, options, number as u8, 0, 7];
            seed.extend([0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 1, 0, 3, 0, 2]);
            seed.extend(0x00cf_9300_0000_ffffu64.to_le_bytes());
            seed.extend([0x46, 2]);
            for register in 0..16u8 {
                // RCX is a counter.
                let kinds = [0x00, if register == 1 { 0xd3 } else { 0x8f }, 0x41, 0xc2];
                let place = kinds[usize::from(register & 3)];
                seed.push(place + register / 4);
                if place >> 4 < 8 {
                    seed.push(register * 3);
                }
            }
            seed.extend_from_slice(program);
            if mode == 0 {
                // As a user program, at a far address.
                let mut far = seed.clone();
                far[1] |= 0x81;
                seeds.push(far);
            }
            seeds.push(seed);
        }
    }
    seeds
}
