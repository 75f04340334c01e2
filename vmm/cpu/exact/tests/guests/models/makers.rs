//! The permitted differences from the host's processor: each known kind is accepted on the maker's
//! processors and on no others, and similar differences are refused.

#[path = "makers/rows.rs"]
mod rows;

use belljar_exact_testing::machine::makers::{Maker, settle};
use belljar_exact_testing::machine::{
    CODE_AT, END, HALF, LAST, MEMORY_BYTES, Machine, Outcome, PAGE, Registers,
};
use iced_x86::{Decoder, Instruction, Register};
use rows::{AMD_ROWS, ROWS};

/// A difference of the host from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// CR2 differs.
    Place { ours: u64, theirs: u64 },
    /// The host raises #AC for a masked operand, the engine does not.
    Masked,
    /// The engine raises #AC, the host does not.
    Half,
    /// The host raises #GP, the engine #PF.
    Digest,
    /// The host sets these flags of MXCSR before the fault.
    Flags { fault: u8, flags: u32 },
    /// Both CR2 and flags.
    Both { ours: u64, theirs: u64, flags: u32 },
    /// The host raises #XM with this MXCSR, the engine this fault.
    Raised { fault: u8, mxcsr: u32 },
    /// The host changes the top of the x87's stack before the fault.
    Mmx { fault: u8 },
    /// The host keeps the exception for the next instruction, the engine raises this fault.
    Kept { fault: u8 },
    /// The same for an empty register.
    Empty { fault: u8 },
    /// The host raises #AC, and the engine this fault for a non-canonical address.
    Wild { fault: u8 },
    /// A page fault where the engine raises #AC.
    Paged,
    /// The host stores the first bytes before the fault.
    Tail,
    /// The engine raises this fault for a non-canonical address, and the host the page fault of an
    /// earlier part.
    Parts { fault: u8 },
}

const ABSENT: u64 = LAST + HALF;

fn bytes(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

/// The outcomes of both sides, with the equal parts filled in.
struct Sides {
    code: Vec<u8>,
    instruction: Instruction,
    start: Machine,
    found: Outcome,
    expected: Outcome,
}

fn outcome(machine: &Machine, vector: u8, rip: u64) -> Outcome {
    let page = vector == 14;
    Outcome {
        vector,
        rip,
        error: page.then_some(6),
        address: page.then_some(ABSENT),
        machine: machine.clone(),
    }
}

fn linear_of(difference: Difference, size: u64) -> u64 {
    match difference {
        Difference::Place { ours, theirs } | Difference::Both { ours, theirs, .. } => {
            (ours - 1).max((theirs + 1).saturating_sub(size))
        }
        Difference::Digest => ABSENT + 1,
        Difference::Tail => ABSENT - 3,
        Difference::Paged => ABSENT - 3,
        Difference::Wild { .. } => 0x7777_7777_7777_7777,
        Difference::Parts { .. } => 0x7fff_ffff_fff9,
        _ => LAST + 33,
    }
}

/// Sets the registers of the address, the index to zero.
fn aim(instruction: &Instruction, registers: &mut Registers, linear: u64) {
    let index = instruction.memory_index();
    if index != Register::None {
        registers.gpr[index.number()] = 0;
    }
    let base = linear.wrapping_sub(instruction.memory_displacement64());
    registers.gpr[instruction.memory_base().number()] = base;
}

fn sides(text: &str, difference: Difference) -> Sides {
    use Difference as D;
    let code = bytes(text);
    let instruction = Decoder::with_ip(64, &code, CODE_AT, 0).decode();
    let size = instruction.memory_size().size() as u64;
    let linear = linear_of(difference, size);
    let mut start = Machine {
        registers: Registers::default(),
        memory: (0..MEMORY_BYTES).map(|at| at as u8).collect(),
    };
    aim(&instruction, &mut start.registers, linear);
    start.registers.fx.0[2..5].copy_from_slice(&[0, 6 << 3, 0xc0]);
    for (at, byte) in start.registers.fx.0[32..160].iter_mut().enumerate() {
        *byte = if at % 16 < 10 { at as u8 } else { 0 };
    }
    start.registers.clean();
    let next = instruction.next_ip();
    let (ours, theirs) = match difference {
        D::Place { .. } | D::Both { .. } | D::Tail => ((14, CODE_AT), (14, CODE_AT)),
        D::Masked => ((END, next), (17, CODE_AT)),
        D::Half => ((17, CODE_AT), (END, next)),
        D::Digest => ((14, CODE_AT), (13, CODE_AT)),
        D::Flags { fault, .. } | D::Mmx { fault } => ((fault, CODE_AT), (fault, CODE_AT)),
        D::Raised { fault, .. } => ((fault, CODE_AT), (19, CODE_AT)),
        D::Kept { fault } | D::Empty { fault } => ((fault, CODE_AT), (END, next)),
        D::Wild { fault } => ((fault, CODE_AT), (17, CODE_AT)),
        D::Paged => ((17, CODE_AT), (14, CODE_AT)),
        D::Parts { fault } => ((fault, CODE_AT), (14, CODE_AT)),
    };
    let mut sides = Sides {
        found: outcome(&start, ours.0, ours.1),
        expected: outcome(&start, theirs.0, theirs.1),
        code,
        instruction,
        start,
    };
    sides.part(difference, linear);
    sides
}

impl Sides {
    /// Makes the sides differ.
    fn part(&mut self, difference: Difference, linear: u64) {
        use Difference as D;
        let host = &mut self.expected.machine;
        match difference {
            D::Place { ours, theirs } => self.set_places(ours, theirs),
            D::Both {
                ours,
                theirs,
                flags,
            } => {
                let mxcsr = host.registers.mxcsr() | flags;
                host.registers.set_mxcsr(mxcsr);
                self.set_places(ours, theirs);
            }
            D::Flags { flags, .. } => {
                let mxcsr = host.registers.mxcsr() | flags;
                host.registers.set_mxcsr(mxcsr);
            }
            D::Raised { mxcsr, .. } => {
                host.registers.set_mxcsr(mxcsr);
                self.found.machine.registers.set_mxcsr(mxcsr & !0x3f);
                self.start.registers.set_mxcsr(mxcsr & !0x3f);
            }
            D::Masked => self.found.machine.registers.vectors[3][0] ^= 1,
            D::Half if self.instruction.op0_register() == Register::None => {
                put(host, linear, 0xaa);
                host.registers.set_mxcsr(0x1fb0);
            }
            D::Half => {
                let number = self.instruction.op0_register().number();
                host.registers.vectors[number][0] ^= 1;
            }
            D::Digest | D::Wild { .. } | D::Paged => {}
            D::Mmx { .. } => rotate(&mut host.registers),
            D::Kept { .. } => {
                let fx = &mut host.registers.fx.0;
                for machine in [&mut self.start, &mut self.found.machine] {
                    machine.registers.fx.0[0] = 0x6b;
                }
                fx[0] = 0x6b;
                fx[2] |= 0x90;
                fx[3] |= 0x80;
            }
            D::Empty { .. } => {
                let fx = &mut host.registers.fx.0;
                for machine in [&mut self.start, &mut self.found.machine] {
                    machine.registers.fx.0[0] = 0x6a;
                }
                fx[0] = 0x6a;
                fx[2] |= 0xc1;
                fx[3] |= 0x80;
            }
            D::Tail => put(host, linear, 0xaa),
            D::Parts { .. } => self.expected.address = Some(linear),
        }
    }

    fn set_places(&mut self, ours: u64, theirs: u64) {
        self.found.address = Some(ours);
        self.expected.address = Some(theirs);
    }

    /// True if the difference is permitted for `maker`'s processors.
    fn are_settled(&self, maker: Maker) -> bool {
        let mut found = self.found.clone();
        settle(
            maker,
            &self.code,
            Some(&self.start),
            &mut found,
            &self.expected,
        );
        found.differences(&self.expected, 0).is_empty()
    }

    fn is_refused_by_all(&self) -> bool {
        let makers = [Maker::Intel, Maker::Amd, Maker::Other];
        makers.into_iter().all(|maker| !self.are_settled(maker))
    }
}

/// Changes the byte of memory at `place`.
fn put(machine: &mut Machine, place: u64, value: u8) {
    for (first, window) in machine.windows_mut() {
        if let Some(byte) = window.get_mut(place.wrapping_sub(first) as usize) {
            *byte ^= value;
        }
    }
}

/// Moves the top of the x87's stack from 6 to 0, with its registers.
fn rotate(registers: &mut Registers) {
    registers.fx.0[3] &= !0x38;
    registers.fx.0[32..160].rotate_right(6 * 16);
}

#[test]
fn what_was_seen_on_intels_processors_is_allowed_there_alone() {
    for &(text, difference) in ROWS {
        let sides = sides(text, difference);
        let name = format!("{} ({text}): {difference:?}", sides.instruction);
        assert!(sides.are_settled(Maker::Intel), "{name}");
        for maker in [Maker::Amd, Maker::Other] {
            assert!(!sides.are_settled(maker), "{name}, by {maker:?}");
        }
    }
}

#[test]
fn what_was_seen_on_amds_processors_is_allowed_there_alone() {
    for &(text, difference) in AMD_ROWS {
        let sides = sides(text, difference);
        let name = format!("{} ({text}): {difference:?}", sides.instruction);
        assert!(sides.are_settled(Maker::Amd), "{name}");
        for maker in [Maker::Intel, Maker::Other] {
            assert!(!sides.are_settled(maker), "{name}, by {maker:?}");
        }
        // A page fault at a non-canonical address, or outside the operand, is not such a
        // difference.
        for place in [0x7fff_ffff_fff8, 0x8000_0000_0000] {
            let mut other = self::sides(text, difference);
            other.expected.address = Some(place);
            assert!(other.is_refused_by_all(), "{name} at {place:x}");
        }
    }
}

#[test]
fn another_instruction_or_register_is_refused() {
    for &(text, difference) in ROWS.iter().chain(AMD_ROWS) {
        let mut other = sides(text, difference);
        other.expected.machine.registers.gpr[13] ^= 1;
        assert!(other.is_refused_by_all(), "{text}: a register");
        // mov [..], rax with the same ModRM forms has no such difference.
        let mut other = sides(text, difference);
        other.code = bytes("488903");
        assert!(other.is_refused_by_all(), "{text}: another instruction");
        let mut other = sides(text, difference);
        put(&mut other.expected.machine, LAST, 1);
        assert!(other.is_refused_by_all(), "{text}: other memory");
    }
}

#[test]
fn what_is_like_it_and_different_is_refused() {
    use Difference as D;
    for &(text, difference) in ROWS {
        let mut other = sides(text, difference);
        let host = &mut other.expected;
        match difference {
            // Beyond the operand, and on another page.
            D::Place { .. } | D::Both { .. } => host.address = Some(ABSENT + PAGE),
            D::Masked => host.machine.registers.vectors[5][0] ^= 1,
            D::Half => host.machine.registers.flags ^= 1,
            D::Digest => host.vector = 12,
            // A rounding mode is not a flag.
            D::Flags { .. } | D::Raised { .. } => {
                let mxcsr = host.machine.registers.mxcsr() ^ 0x2000;
                host.machine.registers.set_mxcsr(mxcsr);
            }
            D::Mmx { .. } => host.machine.registers.fx.0[32] ^= 1,
            // Masked in this case.
            D::Kept { .. } | D::Empty { .. } => {
                for machine in [
                    &mut other.start,
                    &mut other.found.machine,
                    &mut host.machine,
                ] {
                    machine.registers.fx.0[0] = 0x7f;
                }
            }
            D::Tail => host.address = Some(ABSENT + 1),
            D::Wild { .. } => host.vector = 16,
            // Outside the operand.
            D::Paged => host.address = Some(ABSENT + 8),
            D::Parts { .. } => host.address = Some(0x8000_0000_0000),
        }
        assert!(other.is_refused_by_all(), "{text}: {difference:?}");
    }
}

#[test]
fn flags_of_repetitions_that_fault_are_amds_alone() {
    for (text, allowed) in [
        ("f3a6", true),
        ("f248af", true),
        ("f266a7", true),
        // Without repetition, and without comparison.
        ("a6", false),
        ("f3a4", false),
        ("483b07", false),
    ] {
        let mut sides = sides(
            text,
            Difference::Flags {
                fault: 14,
                flags: 0,
            },
        );
        sides.expected.machine.registers.flags ^= 0x44;
        assert_eq!(sides.are_settled(Maker::Amd), allowed, "{text}");
        assert!(!sides.are_settled(Maker::Intel), "{text}");
        sides.expected.machine.registers.flags ^= 1 << 10;
        assert!(sides.is_refused_by_all(), "{text}");
    }
}

#[test]
fn flags_of_repetitions_that_a_step_ends_are_intels_alone() {
    for (text, allowed) in [
        ("66f2a6", true),
        ("f348af", true),
        ("a6", false),
        ("f3a4", false),
    ] {
        let mut sides = sides(text, Difference::Flags { fault: 1, flags: 0 });
        sides.found.machine.registers.flags ^= 0x44;
        assert_eq!(sides.are_settled(Maker::Intel), allowed, "{text}");
        assert!(!sides.are_settled(Maker::Amd), "{text}");
        // Not the flags from before either.
        sides.expected.machine.registers.flags ^= 1;
        assert!(sides.is_refused_by_all(), "{text}");
    }
}
