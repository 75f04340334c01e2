//! Priorities among several exceptions of an access: #GP for misalignment precedes #PF, and a
//! non-canonical address raises #SS if accessed through the stack segment (Intel SDM, volume 3,
//! table 7-2 and 6.15).

use belljar_translate::architecture::vector;
use belljar_translate::guest::analyse::names_mmx;
use belljar_translate::guest::analyse::operands::operand_access;
use belljar_translate::guest::decode::{MAX_BYTES, options};
use belljar_translate::guest::features::{Features, X87};
use iced_x86::{
    Code, Decoder, EncodingKind, Instruction, Mnemonic as M, OpAccess, OpKind, Register,
};

use crate::processor::mmu::is_canonical;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::x87::{FxImage, has_pending, save_x87};

impl ExactVcpu {
    /// The instruction at `state.rip`, as far as its bytes are readable, and the features for
    /// decoding it.
    pub(crate) fn present_instruction(&mut self) -> (Instruction, Features) {
        let rip = self.state.rip;
        let mut bytes = vec![0u8; MAX_BYTES];
        let at = self.state.code_address(rip);
        while !bytes.is_empty() && !self.read_ram(at, &mut bytes) {
            bytes.pop();
        }
        let features = self.features_now();
        let bits = features.size.bits();
        let instruction = Decoder::with_ip(bits, &bytes, rip, options(&features)).decode();
        (instruction, features)
    }

    /// True if the instruction at `state.rip` reads the memory that it writes, beyond keeping
    /// masked-out bytes.
    pub(super) fn reads_what_it_writes(&mut self) -> bool {
        let (instruction, _) = self.present_instruction();
        instruction.op_kinds().enumerate().any(|(number, kind)| {
            let access = operand_access(&instruction, number as u32);
            kind == OpKind::Memory
                && matches!(access, OpAccess::ReadWrite | OpAccess::ReadCondWrite)
        })
    }

    /// The exception of the instruction at `state.rip` for an access to the `bytes` bytes at
    /// `linear`, which raised `fault` without regard to the instruction.
    pub(super) fn refine(&mut self, linear: u64, bytes: usize, fault: Fault) -> Fault {
        let (instruction, _) = self.present_instruction();
        if waits_for_x87(&instruction) && has_pending_x87() {
            return Fault::plain(vector::X87);
        }
        let explicit = instruction.op_kinds().any(|kind| kind == OpKind::Memory);
        let rsp = self.context.gpr[4];
        let implicit = instruction.is_stack_instruction()
            && (!explicit || linear == rsp || linear == rsp.wrapping_sub(8));
        let stack = implicit || (explicit && instruction.memory_segment() == Register::SS);
        let beyond = if stack { Fault::stack() } else { fault };
        if !is_canonical(linear) {
            return beyond;
        }
        let misaligned = |bytes: u64| !linear.is_multiple_of(bytes);
        if !implicit && alignment(&instruction).is_some_and(misaligned) {
            return Fault::protection(0);
        }
        let last = linear.wrapping_add(bytes.max(1) as u64 - 1);
        if fault.vector == vector::PROTECTION && !is_canonical(last) {
            return beyond;
        }
        fault
    }
}

/// True if an instruction first raises pending exceptions of the x87.
pub(super) fn waits_for_x87(instruction: &Instruction) -> bool {
    let features = instruction.cpuid_features();
    let waits = X87.has_any(features) && !instruction.code().op_code().is_fpu_no_wait();
    waits || names_mmx(instruction)
}

/// True if the x87's status word has an unmasked exception.
pub(super) fn has_pending_x87() -> bool {
    let mut image = FxImage::reset();
    save_x87(&mut image);
    has_pending(&image)
}

/// The alignment that an instruction's memory operand requires, or else raises #GP.
fn alignment(instruction: &Instruction) -> Option<u64> {
    let size = instruction.memory_size().size() as u64;
    let aligned = match instruction.mnemonic() {
        M::Vmovaps | M::Vmovapd | M::Vmovdqa | M::Vmovdqa32 | M::Vmovdqa64 => true,
        M::Vmovntps | M::Vmovntpd | M::Vmovntdq | M::Vmovntdqa => true,
        M::Movups | M::Movupd | M::Movdqu | M::Lddqu => false,
        M::Pcmpestri | M::Pcmpestri64 | M::Pcmpestrm | M::Pcmpestrm64 => false,
        M::Pcmpistri | M::Pcmpistrm => false,
        // Hosts differ in the alignment for these; they raise their own faults.
        M::Sha1rnds4 | M::Sha1nexte | M::Sha1msg1 | M::Sha1msg2 => false,
        M::Sha256rnds2 | M::Sha256msg1 | M::Sha256msg2 => false,
        _ => {
            size == 16
                && instruction.code().op_code().encoding() == EncodingKind::Legacy
                && instruction.code() != Code::INVALID
        }
    };
    (aligned && size >= 16).then_some(size)
}

impl Fault {
    /// #SS with error code zero.
    pub(crate) const fn stack() -> Self {
        Self {
            vector: vector::STACK,
            error: Some(0),
            address: None,
        }
    }
}
