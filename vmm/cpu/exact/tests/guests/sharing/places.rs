//! User code that is mapped at several addresses: one translation serves all of them, and each
//! mapping sees its own addresses.

use belljar_cpu::{Exit, Registers, Vcpu};
use belljar_exact_testing::bare;
use belljar_exact_testing::bare::{CODE, DATA, FAR, Guest, HANDLERS, STACK};
use iced_x86::code_asm::*;

/// The addresses of the code's pages: beyond 4 GiB, except for the last, where code is translated
/// with absolute addresses.
const PLACES: [u64; 4] = [FAR, FAR + 0x4_0000, FAR + 0x12_3000, 0x1400_0000];
const PAGES: u64 = 2;
/// Address of exceptions' frames.
const FRAMES: u64 = 0x38_0000;
const ROUNDS: u32 = 1500;
/// Offset of a four-byte instruction that extends into the second page.
const CROSSING: usize = 0xffe;
/// The program's initial run count.
const FIRST_DATUM: u64 = 40;
/// The word at an absolute address.
const WORD: u64 = 0x1122_3344_5566_7788;

/// The program, and offsets in it.
struct Program {
    bytes: Vec<u8>,
    data: u64,
    /// After the separate call, and after the loop's calls.
    behind_call: u64,
    behind_near: u64,
    behind_far: u64,
    /// The number of rounds in the code, and the one that the code changes.
    rounds: u64,
}

fn assembled(end: usize) -> (Vec<u8>, [u64; 5]) {
    let mut a = CodeAssembler::new(64).unwrap();
    let [mut alone, mut near, mut far, mut again, mut data] = [(); 5].map(|()| a.create_label());
    let [mut fixed, mut moving, mut adding] = [(); 3].map(|()| a.create_label());
    let [
        mut behind_call,
        mut behind_near,
        mut behind_far,
        mut changed,
        mut area,
        mut mxcsr,
    ] = [(); 6].map(|()| a.create_label());
    let mut build = |a: &mut CodeAssembler| {
        a.lea(rax, ptr(data))?;
        a.mov(rbx, qword_ptr(data))?;
        a.inc(qword_ptr(data))?;
        a.call(alone)?;
        a.set_label(&mut behind_call)?;
        // Changes the number in the instruction after the next.
        a.inc(dword_ptr(changed))?;
        a.nop()?;
        // mov esi, imm32
        a.db(&[0xbe])?;
        a.set_label(&mut changed)?;
        a.dd(&[0])?;
        // Addresses that are not, or not entirely, relative to the code, reached and left by jumps.
        a.jmp(fixed)?;
        a.set_label(&mut fixed)?;
        a.lea(r9d, ptr(data))?;
        a.lea(r10w, ptr(data))?;
        a.mov(rdi, qword_ptr(DATA))?;
        a.jmp(moving)?;
        a.set_label(&mut moving)?;
        a.xor(r15d, r15d)?;
        a.mov(ecx, ROUNDS)?;
        a.set_label(&mut adding)?;
        a.add(r15, qword_ptr(DATA))?;
        a.dec(ecx)?;
        a.jne(adding)?;
        // Executed in Rust.
        a.fxsave(ptr(area))?;
        a.mov(r14d, dword_ptr(mxcsr))?;
        a.xor(r8d, r8d)?;
        a.xor(r11d, r11d)?;
        a.xor(r12d, r12d)?;
        a.mov(ecx, ROUNDS)?;
        a.set_label(&mut again)?;
        a.add(r8, qword_ptr(data))?;
        a.call(near)?;
        a.set_label(&mut behind_near)?;
        a.call(far)?;
        a.set_label(&mut behind_far)?;
        a.dec(ecx)?;
        a.jne(again)?;
        a.hlt()?;
        a.set_label(&mut alone)?;
        a.mov(rdx, qword_ptr(rsp))?;
        a.ret()?;
        a.set_label(&mut near)?;
        a.add(r11, qword_ptr(rsp))?;
        a.ret()?;
        a.set_label(&mut data)?;
        a.dq(&[FIRST_DATUM])?;
        a.db(&vec![0x90; end])?;
        // Extends into the second page.
        a.set_label(&mut far)?;
        a.add(r12, qword_ptr(rsp))?;
        a.ret()?;
        a.db(&[0x90; 13])?;
        a.set_label(&mut area)?;
        a.dq(&[0; 3])?;
        a.set_label(&mut mxcsr)?;
        a.dq(&[0; 61])
    };
    build(&mut a).unwrap();
    let options = iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let result = a.assemble_options(0, options).unwrap();
    let labels = [&data, &behind_call, &behind_near, &behind_far, &far];
    let at = labels.map(|label| result.label_ip(label).unwrap());
    (result.inner.code_buffer, at)
}

fn program() -> Program {
    let (_, [.., far]) = assembled(0);
    let (bytes, [data, behind_call, behind_near, behind_far, far]) =
        assembled(CROSSING - far as usize);
    assert_eq!(far as usize, CROSSING);
    let mut fours = bytes.windows(4);
    let rounds = fours.rposition(|four| four == ROUNDS.to_le_bytes());
    Program {
        rounds: rounds.unwrap() as u64,
        bytes,
        data,
        behind_call,
        behind_near,
        behind_far,
    }
}

/// A guest with the program at all addresses, and the number of its runs.
struct Machine {
    guest: Guest,
    program: Program,
    runs: u64,
    rounds: u64,
}

impl Machine {
    fn new() -> Self {
        let program = program();
        let mut guest = Guest::new(&[]);
        guest.write(CODE, &program.bytes);
        guest.write(DATA, &WORD.to_le_bytes());
        for page in 0..PAGES {
            for place in PLACES {
                let (linear, physical) = (place + page * 0x1000, CODE + page * 0x1000);
                if place < 1 << 30 {
                    guest.map_page(linear, physical | 7);
                } else {
                    guest.map_far(linear, physical);
                }
            }
        }
        guest.allow_user();
        for vector in 0..32 {
            // OUT ends the run.
            guest.write(HANDLERS + vector * 16, &[0xe6, 0x80]);
            guest.use_interrupt_stack(vector, HANDLERS + vector * 16, FRAMES);
        }
        Self {
            guest,
            program,
            runs: 0,
            rounds: ROUNDS.into(),
        }
    }

    /// Runs the program at `place`, at most `step` instructions at a time, and checks all of its
    /// results.
    fn run(&mut self, place: u64, step: u64) {
        self.guest.enter_user(place);
        let mut registers = Registers {
            rip: place,
            rflags: 2,
            ..Registers::default()
        };
        registers.gpr[Registers::RSP] = STACK;
        self.guest.vcpu.set_registers(&registers);
        loop {
            match self.guest.run(step) {
                Exit::Deadline => {}
                Exit::PioWrite { .. } => break,
                other => panic!("{other:?} at {place:#x}"),
            }
        }
        let found = self.guest.vcpu.registers();
        let Program {
            data,
            behind_call,
            behind_near,
            behind_far,
            ..
        } = self.program;
        let datum = FIRST_DATUM + self.runs;
        self.runs += 1;
        let sum = |each: u64| each.wrapping_mul(self.rounds);
        let expected = [
            (0, place + data),
            (2, place + behind_call),
            (3, datum),
            (6, self.runs),
            (7, WORD),
            (8, sum(datum + 1)),
            (9, (place + data) & 0xffff_ffff),
            (10, (place + data) & 0xffff),
            (11, sum(place + behind_near)),
            (12, sum(place + behind_far)),
            (14, 0x1f80),
            (15, WORD.wrapping_mul(ROUNDS.into())),
        ];
        for (register, value) in expected {
            assert_eq!(
                found.gpr[register], value,
                "register {register} at {place:#x}, run {}: {:#x}",
                self.runs, found.gpr[register]
            );
        }
    }
}

#[test]
fn each_place_sees_its_own_addresses() {
    let mut machine = Machine::new();
    for step in [u64::MAX / 4, 7, 1] {
        for place in PLACES.into_iter().chain(PLACES) {
            machine.run(place, step);
        }
    }
}

#[test]
fn code_is_translated_once_for_all_places() {
    if bare::is_pooled() {
        // Code shared between nodes has absolute addresses.
        return;
    }
    let mut machine = Machine::new();
    let mut translated = || {
        machine.run(PLACES[0], u64::MAX / 4);
        machine.run(PLACES[0], u64::MAX / 4);
        let first = machine.guest.vcpu.statistics();
        machine.run(PLACES[1], u64::MAX / 4);
        let second = machine.guest.vcpu.statistics();
        (first, second)
    };
    let (first, second) = translated();
    let hot = second.promoted - first.promoted;
    assert!(
        first.promoted >= 2 && hot <= 1,
        "only the loop with a fixed address: {hot}"
    );
    // Self-modifying code, blocks across pages and fixed addresses are translated again.
    let anew = second.translated - first.translated;
    assert!(
        anew < 60,
        "{anew} instructions anew, {} before",
        first.translated
    );
}

#[test]
fn a_change_is_seen_at_all_places() {
    let mut machine = Machine::new();
    for rounds in [ROUNDS, 700, ROUNDS, 1] {
        let at = CODE + machine.program.rounds;
        machine.guest.write(at, &rounds.to_le_bytes());
        machine.rounds = rounds.into();
        for place in PLACES {
            machine.run(place, u64::MAX / 4);
        }
    }
}
