//! Saving and loading floating-point state with FXSAVE and the x87's own instructions. The pointers
//! to the last x87 instruction and its operand, and its opcode, always read as zero: the host's
//! contain its own addresses.

use belljar_translate::architecture::vector;
use iced_x86::{Instruction, Mnemonic};

use super::operand::check_segment;
use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::mmu::is_canonical;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::x87::{FxImage, ST_OFFSET, has_pending, load_x87, save_x87};

/// Approximate reciprocals.
mod approximate;
/// The x87's functions.
mod transcendental;
/// XSAVE and similar instructions.
mod xsave;

pub(super) const MXCSR_OFFSET: usize = 24;
pub(super) const XMM_OFFSET: usize = 160;
/// End of the used part of the legacy region.
pub(super) const LEGACY_END: usize = 416;
/// Bytes of the x87's registers in FNSAVE's format.
const REGISTERS: usize = 80;
/// Bytes of the whole of FXSAVE's image.
const FX_BYTES: u64 = 512;
/// Defined bits of MXCSR; MXCSR_MASK in the image.
pub(super) const MXCSR_MASK: u32 = 0xffff;

impl ExactVcpu {
    pub(super) fn fpu_instruction(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let at = self.linear(instruction);
        let size = instruction.memory_size().size();
        check_segment(instruction, at, 1)?;
        match instruction.mnemonic() {
            Mnemonic::Fxsave | Mnemonic::Fxsave64 => self.fxsave(at)?,
            Mnemonic::Fxrstor | Mnemonic::Fxrstor64 => self.fxrstor(at)?,
            Mnemonic::Fnstenv => self.fnstenv(at, size)?,
            Mnemonic::Fldenv => self.fldenv(at, size)?,
            Mnemonic::Fnsave => self.fnsave(at, size)?,
            _ => self.frstor(at, size)?,
        }
        Ok(Done::Next)
    }

    fn check_alignment(at: u64) -> Result<(), Fault> {
        if at.is_multiple_of(16) {
            Ok(())
        } else {
            Err(Fault::protection(0))
        }
    }

    /// The legacy region of an FXSAVE or XSAVE image, without its reserved bytes.
    pub(super) fn legacy_image(&self) -> FxImage {
        let mut image = FxImage::reset();
        save_x87(&mut image);
        image.0[MXCSR_OFFSET..MXCSR_OFFSET + 4]
            .copy_from_slice(&self.context.guest_mxcsr.to_le_bytes());
        image.0[28..32].copy_from_slice(&MXCSR_MASK.to_le_bytes());
        for (register, bytes) in self
            .context
            .vectors
            .iter()
            .zip(image.0[XMM_OFFSET..LEGACY_END].chunks_exact_mut(16))
        {
            bytes.copy_from_slice(&register.0[..16]);
        }
        image
    }

    /// Sets XMM0 to XMM15 from their part of an image.
    pub(super) fn set_xmm(&mut self, image: &[u8]) {
        for (register, bytes) in self
            .context
            .vectors
            .iter_mut()
            .zip(image.chunks_exact(16).take(16))
        {
            register.0[..16].copy_from_slice(bytes);
        }
    }

    /// Sets MXCSR, which has no reserved bits.
    pub(super) fn set_mxcsr(&mut self, value: u32) -> Result<(), Fault> {
        if value & !MXCSR_MASK != 0 {
            return Err(Fault::protection(0));
        }
        self.context.guest_mxcsr = value;
        Ok(())
    }

    /// LDMXCSR: hosts differ in the bits that they refuse.
    pub(super) fn load_mxcsr(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let value = self.read_operand(instruction, 0)? as u32;
        self.set_mxcsr(value)?;
        Ok(Done::Next)
    }

    /// The x87 in the state after any MMX instruction: top of stack zero, all registers valid, so
    /// that the image has the registers by their MMX numbers.
    pub(super) fn mmx_image(&self) -> Result<FxImage, Fault> {
        let mut before = FxImage::reset();
        save_x87(&mut before);
        if has_pending(&before) {
            return Err(Fault::plain(vector::X87));
        }
        let mut image = before.clone();
        image.0[ST_OFFSET..XMM_OFFSET].copy_from_slice(physical_registers(&before).as_flattened());
        image.0[3] &= !0x38;
        image.0[4] = 0xff;
        Ok(image)
    }

    fn fxsave(&mut self, at: u64) -> Result<(), Stop> {
        Self::check_alignment(at)?;
        check_canonical(at, FX_BYTES)?;
        let image = self.legacy_image();
        self.write_parts(at, &[(0, &image.0[..LEGACY_END])])
    }

    fn fxrstor(&mut self, at: u64) -> Result<(), Stop> {
        Self::check_alignment(at)?;
        check_canonical(at, FX_BYTES)?;
        let mut image = FxImage::reset();
        self.read_span(at, &mut image.0[..LEGACY_END])?;
        self.set_mxcsr(mxcsr_of(&image.0))?;
        self.set_xmm(&image.0[XMM_OFFSET..]);
        image.0[6..24].fill(0);
        load_x87(&image);
        Ok(())
    }

    /// The environment in protected format, of 14 or 28 bytes (SDM vol. 1, figures
    /// 8-9 and 8-10); instruction and operand pointers are zero.
    fn environment(image: &FxImage, size: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; size];
        let word = size / 7;
        bytes[..2].copy_from_slice(&image.0[..2]);
        bytes[word..word + 2].copy_from_slice(&image.0[2..4]);
        bytes[2 * word..2 * word + 2].copy_from_slice(&full_tags(image).to_le_bytes());
        if word == 4 {
            for reserved in [2, 6, 10, 26] {
                bytes[reserved..reserved + 2].fill(0xff);
            }
        }
        bytes
    }

    /// FNSTENV, which masks all exceptions at its end.
    fn fnstenv(&mut self, at: u64, size: usize) -> Result<(), Stop> {
        let mut image = FxImage::reset();
        save_x87(&mut image);
        self.write_parts(at, &[(0, &Self::environment(&image, size))])?;
        image.0[0] |= 0x3f;
        load_x87(&image);
        Ok(())
    }

    fn fldenv(&mut self, at: u64, size: usize) -> Result<(), Stop> {
        let mut image = Self::settled_x87()?;
        let mut bytes = [0; 28];
        self.read_span(at, &mut bytes[..size])?;
        set_environment(&mut image, &bytes[..size]);
        load_x87(&image);
        Ok(())
    }

    /// FNSAVE: the environment, then the eight registers in stack order, ten bytes each. It then
    /// resets the x87.
    fn fnsave(&mut self, at: u64, size: usize) -> Result<(), Stop> {
        let mut image = FxImage::reset();
        save_x87(&mut image);
        let mut bytes = Self::environment(&image, size - REGISTERS);
        for register in image.0[ST_OFFSET..XMM_OFFSET].chunks_exact(16) {
            bytes.extend_from_slice(&register[..10]);
        }
        self.write_parts(at, &[(0, &bytes)])?;
        // FNINIT marks the registers as empty and keeps their contents.
        let mut reset = FxImage::reset();
        reset.0[ST_OFFSET..XMM_OFFSET].copy_from_slice(physical_registers(&image).as_flattened());
        load_x87(&reset);
        Ok(())
    }

    fn frstor(&mut self, at: u64, size: usize) -> Result<(), Stop> {
        let mut image = Self::settled_x87()?;
        let mut bytes = [0u8; 108];
        self.read_span(at, &mut bytes[..size])?;
        let (environment, registers) = bytes[..size].split_at(size - REGISTERS);
        set_environment(&mut image, environment);
        for (from, to) in registers
            .chunks_exact(10)
            .zip(image.0[ST_OFFSET..XMM_OFFSET].chunks_exact_mut(16))
        {
            to[..10].copy_from_slice(from);
        }
        load_x87(&image);
        Ok(())
    }

    /// The x87's state, without a pending exception.
    fn settled_x87() -> Result<FxImage, Fault> {
        let mut image = FxImage::reset();
        save_x87(&mut image);
        if has_pending(&image) {
            return Err(Fault::plain(vector::X87));
        }
        Ok(image)
    }
}

/// #GP for a structure that extends beyond the canonical addresses, wherever it begins.
fn check_canonical(at: u64, bytes: u64) -> Result<(), Fault> {
    if is_canonical(at.wrapping_add(bytes - 1)) {
        Ok(())
    } else {
        Err(Fault::protection(0))
    }
}

/// MXCSR in an image.
pub(super) fn mxcsr_of(image: &[u8]) -> u32 {
    u32::from_le_bytes([image[24], image[25], image[26], image[27]])
}

/// The two-bit tags that FXSAVE abridges to one (SDM vol. 1, 10.5.1.2).
fn full_tags(image: &FxImage) -> u16 {
    let top = usize::from(image.0[3] >> 3 & 7);
    let mut tags = 0u16;
    for physical in 0..8 {
        let in_stack = (physical + 8 - top) % 8;
        let register = &image.0[32 + in_stack * 16..42 + in_stack * 16];
        let tag = if image.0[4] >> physical & 1 == 0 {
            3
        } else {
            tag_of(register)
        };
        tags |= tag << (physical * 2);
    }
    tags
}

/// 0 valid, 1 zero, 2 special.
fn tag_of(register: &[u8]) -> u16 {
    let exponent = u16::from_le_bytes([register[8], register[9]]) & 0x7fff;
    let mantissa = register[..8]
        .iter()
        .rev()
        .fold(0u64, |all, &byte| all << 8 | u64::from(byte));
    match (exponent, mantissa) {
        (0, 0) => 1,
        (0 | 0x7fff, _) => 2,
        (_, mantissa) if mantissa >> 63 == 0 => 2,
        _ => 0,
    }
}

fn set_environment(image: &mut FxImage, bytes: &[u8]) {
    let word = bytes.len() / 7;
    // Registers keep their positions when the top of the stack moves.
    let registers = physical_registers(image);
    image.0[0..2].copy_from_slice(&bytes[0..2]);
    image.0[2..4].copy_from_slice(&bytes[word..word + 2]);
    let tags = u16::from_le_bytes([bytes[2 * word], bytes[2 * word + 1]]);
    image.0[4] = (0..8).fold(0, |abridged, physical| {
        abridged | u8::from(tags >> (physical * 2) & 3 != 3) << physical
    });
    image.0[5..24].fill(0);
    let top = usize::from(image.0[3] >> 3 & 7);
    for (physical, register) in registers.iter().enumerate() {
        let to = ST_OFFSET + (physical + 8 - top) % 8 * 16;
        image.0[to..to + 16].copy_from_slice(register);
    }
}

fn physical_registers(image: &FxImage) -> [[u8; 16]; 8] {
    let top = usize::from(image.0[3] >> 3 & 7);
    std::array::from_fn(|physical| {
        let from = ST_OFFSET + (physical + 8 - top) % 8 * 16;
        std::array::from_fn(|at| image.0[from + at])
    })
}
