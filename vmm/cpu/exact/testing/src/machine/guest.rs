//! The guest's side of the machine.

use belljar_cpu::{Exit, InstructionSet, Registers, Vcpu};
use belljar_exact::VectorState;

use super::{ARENA, ARENA_PAGES, CODE_AT, END, Machine, Outcome, PAGE, Rights, constant_page};
use crate::bare::{BEYOND, CODE, DATA, Guest, HANDLERS};

/// Address of exceptions' frames.
const FRAMES: u64 = 0x38_0000;
/// Address of an IRETQ, and of its frame, which starts code under test.
const RETURN: u64 = 0x38_1000;
const RETURN_FRAME: u64 = 0x38_2000;
const USER_CODE: u64 = 0x33;
const USER_DATA: u64 = 0x2b;
const INTERRUPTS_ON: u64 = 1 << 9;
/// A limit on instructions, above any code under test.
const PATIENCE: u64 = 100_000;

/// A guest in which code runs in user mode until its end or an exception.
pub struct Engine {
    guest: Guest,
}

impl Engine {
    /// A guest with the engine's own approximations and undefined flags.
    pub fn new(set: &InstructionSet) -> Self {
        Self::of(Guest::with_set(set))
    }

    /// A guest with the host's.
    pub fn with_host_results(set: &InstructionSet) -> Self {
        Self::of(Guest::with_host_results(set))
    }

    fn of(mut guest: Guest) -> Self {
        for (number, rights) in ARENA_PAGES.into_iter().enumerate() {
            let number = number as u64;
            let physical = DATA + number * PAGE;
            match rights {
                Rights::None => {}
                Rights::Read => {
                    guest.write(physical, &constant_page());
                    guest.map_page(ARENA + number * PAGE, physical | 5);
                }
                Rights::Write => guest.map_page(ARENA + number * PAGE, physical | 7),
            }
        }
        guest.map_page(CODE_AT, CODE | 7);
        guest.map_page(CODE_AT + PAGE, (CODE + PAGE) | 7);
        guest.map_all_far();
        guest.allow_user();
        for vector in 0..32 {
            // OUT ends the run.
            guest.write(HANDLERS + vector * 16, &[0xe6, 0x80]);
            guest.use_interrupt_stack(vector, HANDLERS + vector * 16, FRAMES);
        }
        guest.allow_breakpoints();
        guest.write(RETURN, &[0x48, 0xcf]);
        Self { guest }
    }

    /// Loads `code` for [`run`](Self::run).
    pub fn load(&mut self, code: &[u8]) {
        self.guest.write(CODE, &[code, &[0xcc]].concat());
    }

    /// Runs the loaded code, stopping each `step` instructions; also returns the number of retired
    /// instructions.
    pub fn run(&mut self, machine: &Machine, step: u64) -> (Outcome, u64) {
        self.run_at(CODE_AT, machine, step)
    }

    /// The same for code mapped at distance [`BEYOND`], which must be position-independent.
    pub fn run_far(&mut self, machine: &Machine, step: u64) -> (Outcome, u64) {
        let (mut outcome, retired) = self.run_at(CODE_AT + BEYOND, machine, step);
        outcome.rip -= BEYOND;
        outcome.address = outcome.address.map(|address| {
            let near = address.wrapping_sub(BEYOND);
            if near < BEYOND { near } else { address }
        });
        (outcome, retired)
    }

    fn run_at(&mut self, place: u64, machine: &Machine, step: u64) -> (Outcome, u64) {
        for (place, bytes) in machine.windows() {
            self.guest.write(place - ARENA + DATA, bytes);
        }
        let registers = &machine.registers;
        let frame = [
            place,
            USER_CODE,
            registers.flags | INTERRUPTS_ON | 2,
            registers.gpr[4],
            USER_DATA,
        ];
        let bytes: Vec<u8> = frame.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.guest.write(RETURN_FRAME, &bytes);
        let mut start = Registers {
            gpr: registers.gpr,
            rip: RETURN,
            rflags: 2,
        };
        start.gpr[4] = RETURN_FRAME;
        let vcpu = &mut self.guest.vcpu;
        vcpu.set_registers(&start);
        vcpu.set_vectors(&VectorState {
            vectors: registers.vectors,
            masks: registers.masks,
            mxcsr: registers.mxcsr(),
        });
        vcpu.set_x87(registers.fx.0[..160].try_into().unwrap());
        let before = vcpu.retired();
        loop {
            match self.guest.run(step) {
                Exit::PioWrite { port: 0x80, .. } => break,
                Exit::Deadline => {}
                other => panic!("{other:?} at {:#x}", self.guest.vcpu.registers().rip),
            }
            assert!(
                self.guest.vcpu.retired() - before < PATIENCE,
                "the code does not end"
            );
        }
        let retired = self.guest.vcpu.retired() - before;
        (self.outcome(machine), retired)
    }

    fn outcome(&mut self, machine: &Machine) -> Outcome {
        let after = self.guest.vcpu.registers();
        // After the two bytes of OUT.
        let vector = ((after.rip - HANDLERS) / 16) as u8;
        let has_error = matches!(vector, 8 | 10..=14 | 17 | 21);
        let words = if has_error { 6 } else { 5 };
        let frame: Vec<u64> = self
            .guest
            .read(FRAMES - words * 8, words as usize * 8)
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let [rip, _, flags, rsp, _] = frame[frame.len() - 5..] else {
            unreachable!("five words of the frame");
        };
        let mut outcome = Outcome {
            vector,
            // The breakpoint at the end is reported with RIP after it.
            rip: if vector == END { rip - 1 } else { rip },
            error: (vector == 14).then(|| frame[0]),
            address: (vector == 14).then(|| self.guest.vcpu.system().cr2),
            machine: machine.clone(),
        };
        let registers = &mut outcome.machine.registers;
        registers.gpr = after.gpr;
        registers.gpr[4] = rsp;
        registers.flags = flags;
        let vectors = self.guest.vcpu.vectors();
        registers.vectors = vectors.vectors;
        registers.masks = vectors.masks;
        registers.set_mxcsr(vectors.mxcsr);
        registers.fx.0[..24].copy_from_slice(&self.guest.vcpu.x87()[..24]);
        registers.fx.0[32..160].copy_from_slice(&self.guest.vcpu.x87()[32..]);
        for (place, bytes) in outcome.machine.windows_mut() {
            bytes.copy_from_slice(&self.guest.read(place - ARENA + DATA, bytes.len()));
        }
        outcome.machine.registers.clean();
        outcome
    }
}
