//! Where makers of processors differ, and the engine has one choice on every host: what the
//! comparison then takes for the same, by the host's maker, by instruction, and by what
//! differs. `docs/makers.md` has the kinds and the reasons.

use iced_x86::{Decoder, EncodingKind, Instruction, Mnemonic as M, OpKind, Register};

use super::{ARITHMETIC, CODE_AT, END, Machine, Outcome, PAGE};

mod x87;

/// Who made a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    Amd,
    Intel,
    Other,
}

impl Maker {
    /// Of this host, by what CPUID says.
    pub(crate) fn of_host() -> Self {
        let leaf = std::arch::x86_64::__cpuid(0);
        let words = [leaf.ebx, leaf.edx, leaf.ecx];
        match words.map(u32::to_le_bytes).as_flattened() {
            b"AuthenticAMD" | b"HygonGenuine" => Self::Amd,
            b"GenuineIntel" => Self::Intel,
            _ => Self::Other,
        }
    }
}

/// Makes `found`, which the engine left, like `expected`, which a processor of `maker` left,
/// in what is listed here and in nothing else. `start` is what a single instruction began
/// with; without it, exceptions of alignment are compared as they are.
pub(crate) fn settle(
    maker: Maker,
    code: &[u8],
    start: Option<&Machine>,
    found: &mut Outcome,
    expected: &Outcome,
) {
    let place = if found.vector == END {
        expected.rip
    } else {
        found.rip
    };
    let Some(rest) = code.get(place.wrapping_sub(CODE_AT) as usize..) else {
        return;
    };
    let instruction = Decoder::with_ip(64, rest, place, 0).decode();
    let case = Case {
        linear: linear(&instruction, &expected.machine),
        bytes: instruction.memory_size().size() as u64,
        instruction,
        start,
        expected,
    };
    match maker {
        Maker::Amd => case.repeated_comparison(found),
        Maker::Intel => case.by_intel(found),
        Maker::Other => {}
    }
}

/// An instruction at which both sides may have come to differ.
struct Case<'a> {
    instruction: Instruction,
    /// Where its memory operand begins, and its bytes.
    linear: u64,
    bytes: u64,
    start: Option<&'a Machine>,
    expected: &'a Outcome,
}

fn is_fault(outcome: &Outcome) -> bool {
    matches!(outcome.vector, 12..=14 | 17)
}

/// Where a memory operand is. An instruction that faults leaves its registers as they were, and
/// of those that do not, none named here changes a general register.
fn linear(instruction: &Instruction, machine: &Machine) -> u64 {
    let gpr = &machine.registers.gpr;
    let part = |register: Register, scale: u64| match register {
        Register::None => 0,
        register => gpr[register.full_register().number()].wrapping_mul(scale),
    };
    part(instruction.memory_base(), 1)
        .wrapping_add(part(
            instruction.memory_index(),
            u64::from(instruction.memory_index_scale()),
        ))
        .wrapping_add(instruction.memory_displacement64())
}

impl Case<'_> {
    fn by_intel(&self, found: &mut Outcome) {
        if self.is_converted_half() {
            self.flags_of_conversion(found);
            self.unaligned_halves(found);
        }
        if self.is_masked_store() {
            self.place_of_fault(found);
        }
        self.unaligned_behind_mask(found);
        self.digest(found);
        self.store_from_mmx(found);
        self.store_from_x87(found);
        self.store_of_ten_bytes(found);
    }

    /// Both stopped at the instruction by a fault of the same kind.
    fn fault_alike(&self, found: &Outcome) -> bool {
        is_fault(found) && found.vector == self.expected.vector && found.rip == self.expected.rip
    }

    fn stores(&self) -> bool {
        self.instruction.op0_kind() == OpKind::Memory
    }

    fn is_masked_store(&self) -> bool {
        let moves = matches!(
            self.instruction.mnemonic(),
            M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq
        );
        self.stores() && (moves || self.instruction.op_mask() != Register::None)
    }

    /// REPE and REPNE CMPS and SCAS that fault: AMD's processors show the flags of the last
    /// comparison, Intel's and the engine those from before.
    fn repeated_comparison(&self, found: &mut Outcome) {
        let compares = matches!(
            self.instruction.mnemonic(),
            M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq | M::Scasb | M::Scasw | M::Scasd | M::Scasq
        );
        let repeats = self.instruction.has_rep_prefix() || self.instruction.has_repne_prefix();
        if compares && repeats && self.fault_alike(found) {
            let flags = &mut found.machine.registers.flags;
            *flags = *flags & !ARITHMETIC | self.expected.machine.registers.flags & ARITHMETIC;
        }
    }

    /// CR2 of masked, compressing and narrowing stores: some later byte of what the operand has
    /// in the same page.
    fn place_of_fault(&self, found: &mut Outcome) {
        let (Some(ours), Some(theirs)) = (found.address, self.expected.address) else {
            return;
        };
        let within = theirs.wrapping_sub(self.linear) < self.bytes && theirs > ours;
        if self.fault_alike(found) && within && ours / PAGE == theirs / PAGE {
            found.address = Some(theirs);
        }
    }

    /// #AC of the whole operand of an instruction with a mask; the engine looks at its elements.
    fn unaligned_behind_mask(&self, found: &mut Outcome) {
        let masked = self.instruction.op_mask() != Register::None
            && self.instruction.code().op_code().encoding() == EncodingKind::EVEX
            && !self.instruction.is_vsib();
        let odd = matches!(self.bytes, 2 | 4 | 8) && !self.linear.is_multiple_of(self.bytes);
        let ends = found.vector == END && found.rip == self.instruction.next_ip();
        if masked && odd && ends && self.expected.vector == 17 && self.is_unchanged(self.expected) {
            *found = self.expected.clone();
        }
    }

    fn is_converted_half(&self) -> bool {
        matches!(self.instruction.mnemonic(), M::Vcvtph2ps | M::Vcvtps2ph)
    }

    /// No #AC of VCVTPH2PS and VCVTPS2PH.
    fn unaligned_halves(&self, found: &mut Outcome) {
        let expected = self.expected;
        let odd = self.bytes == 8 && !self.linear.is_multiple_of(8);
        let ends = expected.vector == END && expected.rip == self.instruction.next_ip();
        if !(odd && ends && found.vector == 17 && self.is_unchanged(found)) {
            return;
        }
        // What it is to change, and nothing else.
        let mut changed = found.machine.clone();
        let after = &expected.machine;
        changed
            .registers
            .set_mxcsr(changed.registers.mxcsr() | after.registers.mxcsr() & EXCEPTIONS);
        if self.stores() {
            copy(&mut changed, after, self.linear, self.bytes);
        } else {
            let number = self.instruction.op0_register().number();
            changed.registers.vectors[number] = after.registers.vectors[number];
        }
        if changed == *after {
            *found = expected.clone();
        }
    }

    /// VCVTPS2PH to memory that faults: flags of MXCSR are set before, and what they raise
    /// comes before.
    fn flags_of_conversion(&self, found: &mut Outcome) {
        let (expected, ours) = (self.expected, found.machine.registers.mxcsr());
        let theirs = expected.machine.registers.mxcsr();
        let faults = matches!(found.vector, 12..=14) && found.rip == expected.rip;
        if !(self.stores() && faults && theirs & !EXCEPTIONS == ours & !EXCEPTIONS)
            || ours & !theirs != 0
        {
            return;
        }
        let raises = theirs & !(theirs >> 7) & EXCEPTIONS != 0;
        if expected.vector == found.vector {
            found.machine.registers.set_mxcsr(theirs);
        } else if expected.vector == 19 && raises {
            found.machine.registers.set_mxcsr(theirs);
            (found.vector, found.error, found.address) = (19, None, None);
        }
    }

    /// SHA on what is neither aligned nor there: #GP.
    fn digest(&self, found: &mut Outcome) {
        let digests = matches!(
            self.instruction.mnemonic(),
            M::Sha1rnds4
                | M::Sha1nexte
                | M::Sha1msg1
                | M::Sha1msg2
                | M::Sha256rnds2
                | M::Sha256msg1
                | M::Sha256msg2
        );
        let odd = self.bytes == 16 && !self.linear.is_multiple_of(16);
        let both = found.vector == 14 && self.expected.vector == 13;
        if digests && odd && both && found.rip == self.expected.rip {
            (found.vector, found.error, found.address) = (13, None, None);
        }
    }

    /// Whether `outcome` has what the instruction began with.
    fn is_unchanged(&self, outcome: &Outcome) -> bool {
        self.start.is_some_and(|start| {
            let mut start = start.clone();
            start.registers.clean();
            start == outcome.machine
        })
    }
}

/// The flags of MXCSR that tell of exceptions; the bits that mask them are 7 further.
const EXCEPTIONS: u32 = 0x3f;

/// Copies `bytes` bytes from `first` on, as far as windows hold them.
fn copy(into: &mut Machine, from: &Machine, first: u64, bytes: u64) {
    for ((place, into), (_, from)) in into.windows_mut().zip(from.windows()) {
        for (at, (into, from)) in into.iter_mut().zip(from).enumerate() {
            if (place + at as u64).wrapping_sub(first) < bytes {
                *into = *from;
            }
        }
    }
}
