//! Differences between makers of processors, where the engine has one choice on every host. They count as equal in comparisons, by the host's maker,
//! by instruction, and by difference. `docs/makers.md` has the kinds and the reasons.

use iced_x86::{Decoder, EncodingKind, Instruction, Mnemonic as M, OpKind, Register};

use super::{ARITHMETIC, CODE_AT, END, Machine, Outcome, PAGE};

mod x87;

/// The maker of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    Amd,
    Intel,
    Other,
}

impl Maker {
    /// This host's maker, from CPUID.
    pub fn of_host() -> Self {
        let leaf = std::arch::x86_64::__cpuid(0);
        let words = [leaf.ebx, leaf.edx, leaf.ecx];
        match words.map(u32::to_le_bytes).as_flattened() {
            b"AuthenticAMD" | b"HygonGenuine" => Self::Amd,
            b"GenuineIntel" => Self::Intel,
            _ => Self::Other,
        }
    }
}

/// Replaces values of `found`, the engine's outcome, by the ones of `expected`, a processor's of `maker`, for the listed differences only. `start` is
/// the initial state of a single instruction; without it, alignment exceptions are compared unchanged.
pub fn settle(
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
        Maker::Amd => case.by_amd(found),
        Maker::Intel => case.by_intel(found),
        Maker::Other => {}
    }
}

/// An instruction with possibly different outcomes.
struct Case<'a> {
    instruction: Instruction,
    /// The beginning of its memory operand, and its size.
    linear: u64,
    bytes: u64,
    start: Option<&'a Machine>,
    expected: &'a Outcome,
}

fn canonical(at: u64) -> bool {
    (at as i64) << 16 >> 16 == at as i64
}

fn is_fault(outcome: &Outcome) -> bool {
    matches!(outcome.vector, 12..=14 | 17)
}

/// The address of a memory operand. A faulting instruction leaves its registers unchanged, and the other ones named here change no general register.
fn linear(instruction: &Instruction, machine: &Machine) -> u64 {
    let gpr = &machine.registers.gpr;
    let part = |register: Register, scale: u64| match register {
        // A vector of indices has several addresses, but no rule here concerns such instructions.
        Register::None => 0,
        register if register.is_vector_register() => 0,
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
        // The later rules use the resulting fault.
        self.alignment_first(found);
        if self.is_converted_half() {
            self.paged_halves(found);
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
        self.trapped_comparison(found);
    }

    fn by_amd(&self, found: &mut Outcome) {
        self.repeated_comparison(found);
        self.store_in_parts(found);
    }

    /// Stores of 512 bits and compressing stores that begin in canonical addresses and end beyond: processors that store them in parts (Zen 4) access
    /// the page of the first part before they check that a later one is canonical.
    fn store_in_parts(&self, found: &mut Outcome) {
        let parts = self.bytes == 64
            || matches!(
                self.instruction.mnemonic(),
                M::Vcompressps
                    | M::Vcompresspd
                    | M::Vpcompressb
                    | M::Vpcompressw
                    | M::Vpcompressd
                    | M::Vpcompressq
            );
        let last = self.linear.wrapping_add(self.bytes.saturating_sub(1));
        let wild = canonical(self.linear) && !canonical(last);
        let expected = self.expected;
        let both = matches!(found.vector, 12 | 13) && expected.vector == 14;
        let there = expected
            .address
            .is_some_and(|at| canonical(at) && at.wrapping_sub(self.linear) < self.bytes);
        if self.stores() && parts && wild && both && there && found.rip == expected.rip {
            (found.vector, found.error, found.address) = (14, expected.error, expected.address);
        }
    }

    /// True if both outcomes are faults of the same kind at the instruction.
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

    /// REPE and REPNE CMPS and SCAS that fault: AMD's processors have the flags of the last comparison, Intel's and the engine the flags from before.
    fn repeated_comparison(&self, found: &mut Outcome) {
        if self.is_repeated_comparison() && self.fault_alike(found) {
            self.take_arithmetic(found);
        }
    }

    /// The same instructions, ended by a single step before their last repetition: Intel's processors have the flags from before, AMD's and the engine
    /// the flags of the last comparison.
    fn trapped_comparison(&self, found: &mut Outcome) {
        let expected = self.expected;
        let trapped = (found.vector, expected.vector) == (1, 1)
            && found.rip == expected.rip
            && expected.rip == self.instruction.ip();
        let before = |start: &Machine| {
            (start.registers.flags ^ expected.machine.registers.flags) & ARITHMETIC == 0
        };
        if self.is_repeated_comparison() && trapped && self.start.is_some_and(before) {
            self.take_arithmetic(found);
        }
    }

    fn is_repeated_comparison(&self) -> bool {
        let compares = matches!(
            self.instruction.mnemonic(),
            M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq | M::Scasb | M::Scasw | M::Scasd | M::Scasq
        );
        compares && (self.instruction.has_rep_prefix() || self.instruction.has_repne_prefix())
    }

    /// Takes the host's arithmetic flags.
    fn take_arithmetic(&self, found: &mut Outcome) {
        let flags = &mut found.machine.registers.flags;
        *flags = *flags & !ARITHMETIC | self.expected.machine.registers.flags & ARITHMETIC;
    }

    /// Operands that are neither aligned nor canonical: #AC precedes #GP and #SS.
    fn alignment_first(&self, found: &mut Outcome) {
        let first = self.linear.wrapping_add(self.to_word_of_bit());
        let last = first.wrapping_add(self.bytes.saturating_sub(1));
        let wild = !canonical(first) || !canonical(last);
        let both = matches!(found.vector, 12 | 13) && self.expected.vector == 17;
        if wild && both && found.rip == self.expected.rip {
            (found.vector, found.error, found.address) = (17, self.expected.error, None);
        }
    }

    /// Offset from the operand's address to the word with the bit, for BT and similar instructions with a register offset.
    fn to_word_of_bit(&self) -> u64 {
        let strings = matches!(
            self.instruction.mnemonic(),
            M::Bt | M::Bts | M::Btr | M::Btc
        );
        if !strings || self.instruction.op1_kind() != OpKind::Register {
            return 0;
        }
        let gpr = &self.expected.machine.registers.gpr;
        let bit = gpr[self.instruction.op1_register().full_register().number()];
        let bits = 8 * self.bytes.max(2);
        let unused = 64 - bits.min(64) as u32;
        let bit = (bit << unused) as i64 >> unused;
        (bit.div_euclid(bits as i64) * (bits / 8) as i64) as u64
    }

    /// CR2 of masked, compressing and narrowing stores: a later byte of the operand in the same page.
    fn place_of_fault(&self, found: &mut Outcome) {
        let (Some(ours), Some(theirs)) = (found.address, self.expected.address) else {
            return;
        };
        let within = theirs.wrapping_sub(self.linear) < self.bytes && theirs > ours;
        if self.fault_alike(found) && within && ours / PAGE == theirs / PAGE {
            found.address = Some(theirs);
        }
    }

    /// #AC for the whole operand of an instruction with a mask; the engine checks its elements.
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

    /// VCVTPH2PS and VCVTPS2PH do not raise #AC.
    fn unaligned_halves(&self, found: &mut Outcome) {
        let expected = self.expected;
        let odd = self.bytes == 8 && !self.linear.is_multiple_of(8);
        let ends = expected.vector == END && expected.rip == self.instruction.next_ip();
        if !(odd && ends && found.vector == 17 && self.is_unchanged(found)) {
            return;
        }
        // The instruction's own changes, and no others.
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

    /// VCVTPH2PS and VCVTPS2PH that fault: #AC does not take precedence.
    fn paged_halves(&self, found: &mut Outcome) {
        let expected = self.expected;
        let odd = self.bytes == 8 && !self.linear.is_multiple_of(8);
        let page = expected
            .address
            .is_some_and(|at| at.wrapping_sub(self.linear) < self.bytes);
        let both = found.vector == 17 && expected.vector == 14;
        if odd && page && both && found.rip == expected.rip {
            (found.vector, found.error, found.address) = (14, expected.error, expected.address);
        }
    }

    /// VCVTPS2PH to memory that faults: flags of MXCSR are set first, and their exceptions take precedence.
    fn flags_of_conversion(&self, found: &mut Outcome) {
        let (expected, ours) = (self.expected, found.machine.registers.mxcsr());
        let theirs = expected.machine.registers.mxcsr();
        // The processor has no #AC where the engine raises it; see `unaligned_halves`.
        let faults = matches!(found.vector, 12..=14) || found.vector == 17 && expected.vector == 19;
        let faults = faults && found.rip == expected.rip;
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

    /// SHA with an operand that is misaligned and unmapped or non-canonical: #GP.
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
        let both = matches!(found.vector, 12 | 14) && self.expected.vector == 13;
        if digests && odd && both && found.rip == self.expected.rip {
            (found.vector, found.error, found.address) = (13, None, None);
        }
    }

    /// True if `outcome` has the instruction's initial state.
    fn is_unchanged(&self, outcome: &Outcome) -> bool {
        self.start.is_some_and(|start| {
            let mut start = start.clone();
            start.registers.clean();
            start == outcome.machine
        })
    }
}

/// The exception flags of MXCSR; their mask bits are 7 positions higher.
const EXCEPTIONS: u32 = 0x3f;

/// Copies `bytes` bytes from `first` on, as far as they are in windows.
fn copy(into: &mut Machine, from: &Machine, first: u64, bytes: u64) {
    for ((place, into), (_, from)) in into.windows_mut().zip(from.windows()) {
        for (at, (into, from)) in into.iter_mut().zip(from).enumerate() {
            if (place + at as u64).wrapping_sub(first) < bytes {
                *into = *from;
            }
        }
    }
}
