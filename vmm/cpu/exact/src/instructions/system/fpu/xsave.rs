//! XSAVE and similar instructions (Intel SDM, volume 1, chapter 13).
//!
//! A state component is in use if, and only if, it is not in its initial state: processors may
//! report otherwise, but all differently. XSAVEOPT saves all components in use, even if they were
//! saved before.

use belljar_cpu::{
    COMPONENT_AVX, COMPONENT_HIGH_ZMM, COMPONENT_OPMASK, COMPONENT_ZMM_HIGH, Feature, Registers,
    STATE_COMPONENTS, StateComponent, XSAVE_BYTES, XSAVE_HEADER_END, compacted_size, standard_size,
};
use belljar_translate::architecture::{cr4, xcr0};
use iced_x86::{Instruction, Mnemonic as M};

use super::{LEGACY_END, MXCSR_OFFSET, XMM_OFFSET, mxcsr_of};
use crate::instructions::done::Done;
use crate::instructions::system::span::Part;
use crate::memory::access::Stop;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::x87::{FxImage, ST_OFFSET, load_x87};

const HEADER: usize = 512;
const HEADER_BYTES: usize = 64;
const COMPACTED: u64 = 1 << 63;
const MXCSR_RESET: u32 = 0x1f80;
const LEAF_FEATURES: u32 = 1;
const LEAF_STATE: u32 = 0xd;
const OSXSAVE: u32 = 1 << 27;

impl ExactVcpu {
    /// Fills in the CPUID bits that depend on control registers.
    pub(crate) fn show_xsave(&self, leaf: u32, subleaf: u32, answer: &mut [u32; 4]) {
        match (leaf, subleaf) {
            (LEAF_FEATURES, _) if self.state.system.cr4 & cr4::OSXSAVE != 0 => answer[2] |= OSXSAVE,
            (LEAF_STATE, 0) if answer[0] != 0 => {
                answer[1] = standard_size(self.state.xcr0) as u32;
            }
            (LEAF_STATE, 1) if answer[0] != 0 => {
                answer[1] = compacted_size(self.state.xcr0) as u32;
            }
            _ => {}
        }
    }

    pub(crate) fn xgetbv(&mut self, _: &Instruction) -> Result<Done, Stop> {
        if self.context.gpr[Registers::RCX] as u32 != 0 {
            return Err(Fault::protection(0).into());
        }
        self.context.gpr[Registers::RAX] = self.state.xcr0 & 0xffff_ffff;
        self.context.gpr[Registers::RDX] = self.state.xcr0 >> 32;
        Ok(Done::Next)
    }

    pub(crate) fn xsetbv(&mut self, _: &Instruction) -> Result<Done, Stop> {
        self.require_supervisor()?;
        let gpr = &self.context.gpr;
        let index = gpr[Registers::RCX] as u32;
        let value = gpr[Registers::RAX] & 0xffff_ffff | gpr[Registers::RDX] << 32;
        let wide = value & xcr0::AVX512;
        let valid = index == 0
            && value & !self.identity.instruction_set.state_components() == 0
            && value & xcr0::X87 != 0
            && (value & xcr0::AVX == 0 || value & xcr0::SSE != 0)
            && (wide == 0 || (wide == xcr0::AVX512 && value & xcr0::AVX != 0));
        if !valid {
            return Err(Fault::protection(0).into());
        }
        self.state.xcr0 = value;
        self.settle_features();
        Ok(Done::Next)
    }

    /// The components that an instruction requests: EDX:EAX under XCR0.
    fn requested(&self) -> u64 {
        let gpr = &self.context.gpr;
        let mask = gpr[Registers::RAX] & 0xffff_ffff | gpr[Registers::RDX] << 32;
        mask & self.state.xcr0
    }

    fn aligned_area(&self, instruction: &Instruction) -> Result<u64, Fault> {
        let at = self.linear(instruction);
        if at.is_multiple_of(64) {
            Ok(at)
        } else {
            Err(Fault::protection(0))
        }
    }

    /// XSAVE, XSAVEOPT, XSAVEC.
    pub(crate) fn xsave_instruction(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let at = self.aligned_area(instruction)?;
        let image = self.legacy_image();
        let requested = self.requested();
        let in_use = self.components_in_use(&image) & requested;
        match instruction.mnemonic() {
            M::Xsavec | M::Xsavec64 => self.xsavec(at, &image, requested, in_use)?,
            M::Xsave | M::Xsave64 => self.xsave(at, &image, requested, requested, in_use)?,
            _ => self.xsave(at, &image, requested, in_use, in_use)?,
        }
        Ok(Done::Next)
    }

    /// Writes components `saved` in the standard format.
    fn xsave(
        &mut self,
        at: u64,
        image: &FxImage,
        requested: u64,
        saved: u64,
        in_use: u64,
    ) -> Result<(), Stop> {
        let mut old = [0; 8];
        self.read_span(at.wrapping_add(HEADER as u64), &mut old)?;
        let present = u64::from_le_bytes(old) & !requested | in_use;
        let present = present.to_le_bytes();
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(9);
        if saved & xcr0::X87 != 0 {
            parts.push((0, &image.0[..MXCSR_OFFSET]));
        }
        if requested & (xcr0::SSE | xcr0::AVX) != 0 {
            parts.push((MXCSR_OFFSET, &image.0[MXCSR_OFFSET..ST_OFFSET]));
        }
        if saved & xcr0::X87 != 0 {
            parts.push((ST_OFFSET, &image.0[ST_OFFSET..XMM_OFFSET]));
        }
        if saved & xcr0::SSE != 0 {
            parts.push((XMM_OFFSET, &image.0[XMM_OFFSET..LEGACY_END]));
        }
        parts.push((HEADER, &present));
        let extended = self.extended_state(saved);
        parts.extend(
            extended
                .iter()
                .map(|(component, bytes)| (component.offset, &bytes[..])),
        );
        self.write_parts(at, &parts)
    }

    /// Writes the components of `requested` that are in use in the compacted format.
    fn xsavec(
        &mut self,
        at: u64,
        image: &FxImage,
        requested: u64,
        in_use: u64,
    ) -> Result<(), Stop> {
        let mut saved = in_use;
        if self.context.guest_mxcsr != MXCSR_RESET {
            saved |= requested & xcr0::SSE;
        }
        let mut header = [0; 16];
        header[..8].copy_from_slice(&saved.to_le_bytes());
        header[8..].copy_from_slice(&(requested | COMPACTED).to_le_bytes());
        let mut parts: Vec<Part<'_>> = Vec::with_capacity(9);
        if saved & xcr0::X87 != 0 {
            parts.push((0, &image.0[..MXCSR_OFFSET]));
        }
        if saved & xcr0::SSE != 0 {
            parts.push((MXCSR_OFFSET, &image.0[MXCSR_OFFSET..ST_OFFSET]));
        }
        if saved & xcr0::X87 != 0 {
            parts.push((ST_OFFSET, &image.0[ST_OFFSET..XMM_OFFSET]));
        }
        if saved & xcr0::SSE != 0 {
            parts.push((XMM_OFFSET, &image.0[XMM_OFFSET..LEGACY_END]));
        }
        parts.push((HEADER, &header));
        let extended = self.extended_state(saved);
        parts.extend(extended.iter().map(|(component, bytes)| {
            let below = requested & ((1 << component.number) - 1);
            (compacted_size(below), &bytes[..])
        }));
        self.write_parts(at, &parts)
    }

    pub(crate) fn xrstor(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let at = self.aligned_area(instruction)?;
        let mut area = [0; XSAVE_BYTES];
        self.read_span(at, &mut area[..XSAVE_HEADER_END])?;
        let (present, format) = self.checked_header(&area[HEADER..HEADER + HEADER_BYTES])?;
        let requested = self.requested();
        let loaded = requested & present;
        let compacted = format & COMPACTED != 0;
        let has_mxcsr = if compacted {
            loaded & xcr0::SSE != 0
        } else {
            requested & (xcr0::SSE | xcr0::AVX) != 0
        };
        for component in STATE_COMPONENTS {
            if loaded >> component.number & 1 == 1 {
                let offset = if compacted {
                    compacted_size(format & ((1 << component.number) - 1))
                } else {
                    component.offset
                };
                let place = component.offset..component.offset + component.bytes;
                self.read_span(at.wrapping_add(offset as u64), &mut area[place])?;
            }
        }
        if has_mxcsr {
            self.set_mxcsr(mxcsr_of(&area))?;
        } else if compacted && requested & xcr0::SSE != 0 {
            self.context.guest_mxcsr = MXCSR_RESET;
        }
        self.load_components(&area, requested, loaded);
        Ok(Done::Next)
    }

    /// XSTATE_BV and XCOMP_BV of a header that XRSTOR accepts.
    fn checked_header(&self, header: &[u8]) -> Result<(u64, u64), Fault> {
        let word = |at: usize| {
            header[at..at + 8]
                .iter()
                .rev()
                .fold(0, |all, &byte| all << 8 | u64::from(byte))
        };
        let (present, format) = (word(0), word(8));
        let is_zero = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
        let valid = if format & COMPACTED != 0 {
            self.identity.instruction_set.has(Feature::Xsavec)
                && format & !COMPACTED & !self.state.xcr0 == 0
                && present & !format == 0
                && is_zero(&header[16..])
        } else {
            present & !self.state.xcr0 == 0 && is_zero(&header[8..24])
        };
        if valid {
            Ok((present, format))
        } else {
            Err(Fault::protection(0))
        }
    }

    /// Loads `loaded` of `requested` from an area in the standard format, and sets the others to
    /// their initial state.
    fn load_components(&mut self, area: &[u8; XSAVE_BYTES], requested: u64, loaded: u64) {
        if requested & xcr0::X87 != 0 {
            let mut image = FxImage::reset();
            if loaded & xcr0::X87 != 0 {
                image.0[..6].copy_from_slice(&area[..6]);
                image.0[ST_OFFSET..XMM_OFFSET].copy_from_slice(&area[ST_OFFSET..XMM_OFFSET]);
            }
            load_x87(&image);
        }
        if requested & xcr0::SSE != 0 {
            if loaded & xcr0::SSE != 0 {
                self.set_xmm(&area[XMM_OFFSET..LEGACY_END]);
            } else {
                self.set_xmm(&[0; LEGACY_END - XMM_OFFSET]);
            }
        }
        for component in STATE_COMPONENTS {
            if requested >> component.number & 1 == 1 {
                let bytes = &area[component.offset..component.offset + component.bytes];
                if loaded >> component.number & 1 == 1 {
                    self.set_component(component, bytes);
                } else {
                    self.set_component(component, &vec![0; component.bytes]);
                }
            }
        }
    }

    /// XINUSE, of all components.
    fn components_in_use(&self, image: &FxImage) -> u64 {
        let initial = FxImage::reset();
        let mut in_use = 0;
        if image.0[..MXCSR_OFFSET] != initial.0[..MXCSR_OFFSET]
            || image.0[ST_OFFSET..XMM_OFFSET] != initial.0[ST_OFFSET..XMM_OFFSET]
        {
            in_use |= xcr0::X87;
        }
        if image.0[XMM_OFFSET..LEGACY_END]
            .iter()
            .any(|&byte| byte != 0)
        {
            in_use |= xcr0::SSE;
        }
        let all = self.state.xcr0;
        for (component, bytes) in self.extended_state(all) {
            if bytes.iter().any(|&byte| byte != 0) {
                in_use |= 1 << component.number;
            }
        }
        in_use
    }

    /// The bytes of each of `components` beyond SSE.
    fn extended_state(&self, components: u64) -> Vec<(StateComponent, Vec<u8>)> {
        STATE_COMPONENTS
            .into_iter()
            .filter(|component| components >> component.number & 1 == 1)
            .map(|component| (component, self.component(component)))
            .collect()
    }

    fn component(&self, component: StateComponent) -> Vec<u8> {
        if component == COMPONENT_OPMASK {
            let masks = self.context.masks.iter();
            return masks.flat_map(|mask| mask.to_le_bytes()).collect();
        }
        let (registers, bytes) = vector_part(component);
        self.context.vectors[registers]
            .iter()
            .flat_map(|vector| vector.0[bytes.clone()].iter().copied())
            .collect()
    }

    fn set_component(&mut self, component: StateComponent, from: &[u8]) {
        if component == COMPONENT_OPMASK {
            for (mask, from) in self.context.masks.iter_mut().zip(from.chunks_exact(8)) {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(from);
                *mask = u64::from_le_bytes(bytes);
            }
            return;
        }
        let (registers, bytes) = vector_part(component);
        let vectors = self.context.vectors[registers].iter_mut();
        for (vector, from) in vectors.zip(from.chunks_exact(bytes.len())) {
            vector.0[bytes.clone()].copy_from_slice(from);
        }
    }
}

/// The vector registers, and the bytes of them, in a component.
fn vector_part(component: StateComponent) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    match component {
        COMPONENT_AVX => (0..16, 16..32),
        COMPONENT_ZMM_HIGH => (0..16, 32..64),
        COMPONENT_HIGH_ZMM => (16..32, 0..64),
        _ => unreachable!("component {} holds no vectors", component.number),
    }
}
