//! KVM's XSAVE area and the registers in it.
//!
//! `Extended` has vectors, masks and the x87 in the form of every engine's saved states, with zeros
//! for state that a guest lacks. Offsets are those of the standard format; `vcpu` refuses hosts
//! whose KVM has other ones, by `has_our_layout`. `saved` reads and writes areas with it.

use belljar_cpu::{
    COMPONENT_AVX, COMPONENT_HIGH_ZMM, COMPONENT_OPMASK, COMPONENT_ZMM_HIGH, CpuState,
    STATE_COMPONENTS, StateComponent,
};
use kvm_bindings::{CpuId, kvm_xsave};

const LEAF: u32 = 0xd;
const MXCSR: usize = 24;
const X87_REGISTERS: usize = 32;
const XMM: usize = 160;
const HEADER: usize = 512;
const AREA: usize = 4096;
/// x87 and SSE.
const LEGACY: u64 = 0b11;
const VECTOR: usize = 64;

/// True if KVM's offsets of the components in `wanted` are the ones of states and guests. AMD's
/// processors before AVX-512 omit components that only Intel's had.
pub(crate) fn has_our_layout(supported: &CpuId, wanted: u64) -> bool {
    STATE_COMPONENTS
        .iter()
        .filter(|component| wanted >> component.number & 1 == 1)
        .all(|component| {
            supported.as_slice().iter().any(|entry| {
                entry.function == LEAF
                    && entry.index == component.number
                    && entry.ebx as usize == component.offset
                    && entry.eax as usize == component.bytes
            })
        })
}

/// The vector registers, masks and x87 of a saved processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Extended {
    /// ZMM0 to ZMM31.
    pub vectors: Vec<u8>,
    pub masks: [u64; 8],
    pub mxcsr: u32,
    /// In FXSAVE's format up to byte 160, without MXCSR and the instruction pointers.
    pub x87: Vec<u8>,
}

impl Extended {
    /// Takes it from a saved state; `None` if the lengths are wrong.
    pub(crate) fn of(state: &CpuState) -> Option<Self> {
        (state.vectors.len() == 32 * VECTOR && state.x87.len() == XMM).then(|| Self {
            vectors: state.vectors.clone(),
            masks: state.masks,
            mxcsr: state.mxcsr,
            x87: state.x87.clone(),
        })
    }

    /// Reads the components in `wanted` from `area`.
    pub(crate) fn read(area: &kvm_xsave, wanted: u64) -> Self {
        let bytes = bytes_of(area);
        let header: [u8; 8] = std::array::from_fn(|at| bytes[HEADER + at]);
        let present = u64::from_le_bytes(header);
        let mut vectors = vec![0; 32 * VECTOR];
        let mut masks = [0; 8];
        let mut take = |component: StateComponent, part: &dyn Fn(usize) -> usize, each: usize| {
            if present & wanted >> component.number & 1 == 0 {
                return;
            }
            let from = &bytes[component.offset..component.offset + component.bytes];
            for (number, chunk) in from.chunks(each).enumerate() {
                vectors[part(number)..][..each].copy_from_slice(chunk);
            }
        };
        take(COMPONENT_AVX, &|number| number * VECTOR + 16, 16);
        take(COMPONENT_ZMM_HIGH, &|number| number * VECTOR + 32, 32);
        take(COMPONENT_HIGH_ZMM, &|number| (16 + number) * VECTOR, VECTOR);
        if present >> 1 & 1 == 1 {
            for (number, xmm) in bytes[XMM..XMM + 256].chunks(16).enumerate() {
                vectors[number * VECTOR..][..16].copy_from_slice(xmm);
            }
        }
        if present & wanted >> COMPONENT_OPMASK.number & 1 == 1 {
            let from = &bytes[COMPONENT_OPMASK.offset..][..COMPONENT_OPMASK.bytes];
            for (mask, word) in masks.iter_mut().zip(from.as_chunks::<8>().0) {
                *mask = u64::from_le_bytes(*word);
            }
        }
        let mut x87 = bytes[..XMM].to_vec();
        x87[6..X87_REGISTERS].fill(0);
        if present & 1 == 0 {
            x87.fill(0);
            x87[..2].copy_from_slice(&0x37f_u16.to_le_bytes());
        }
        let mxcsr: [u8; 4] = std::array::from_fn(|at| bytes[MXCSR + at]);
        Self {
            vectors,
            masks,
            mxcsr: u32::from_le_bytes(mxcsr),
            x87,
        }
    }

    /// The area with these values and the components in `wanted`.
    pub(crate) fn area(&self, wanted: u64) -> kvm_xsave {
        let mut bytes = vec![0; AREA];
        bytes[..XMM].copy_from_slice(&self.x87);
        bytes[MXCSR..MXCSR + 4].copy_from_slice(&self.mxcsr.to_le_bytes());
        let wanted = wanted | LEGACY;
        bytes[HEADER..HEADER + 8].copy_from_slice(&wanted.to_le_bytes());
        for (number, vector) in self.vectors.chunks(VECTOR).enumerate() {
            let mut put = |component: StateComponent, at: usize, part: &[u8]| {
                if wanted >> component.number & 1 == 1 {
                    bytes[component.offset + at..][..part.len()].copy_from_slice(part);
                }
            };
            if number < 16 {
                put(COMPONENT_AVX, number * 16, &vector[16..32]);
                put(COMPONENT_ZMM_HIGH, number * 32, &vector[32..]);
                bytes[XMM + number * 16..][..16].copy_from_slice(&vector[..16]);
            } else {
                put(COMPONENT_HIGH_ZMM, (number - 16) * VECTOR, vector);
            }
        }
        if wanted >> COMPONENT_OPMASK.number & 1 == 1 {
            for (number, mask) in self.masks.iter().enumerate() {
                bytes[COMPONENT_OPMASK.offset + number * 8..][..8]
                    .copy_from_slice(&mask.to_le_bytes());
            }
        }
        area_of(&bytes)
    }
}

fn bytes_of(area: &kvm_xsave) -> Vec<u8> {
    let words = area.region.iter();
    words.flat_map(|word| word.to_le_bytes()).collect()
}

fn area_of(bytes: &[u8]) -> kvm_xsave {
    let mut area = kvm_xsave::default();
    for (word, chunk) in area.region.iter_mut().zip(bytes.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*chunk);
    }
    area
}

#[cfg(test)]
mod tests {
    use super::*;
    use kvm_bindings::kvm_cpuid_entry2;

    fn numbered() -> Extended {
        let mut x87: Vec<u8> = (0..XMM).map(|at| at as u8).collect();
        x87[6..X87_REGISTERS].fill(0);
        Extended {
            vectors: (0..32 * VECTOR)
                .map(|at| (at * 7 + at / 256) as u8)
                .collect(),
            masks: std::array::from_fn(|at| at as u64 * 0x0101_0101),
            mxcsr: 0x1fa0,
            x87,
        }
    }

    #[test]
    fn registers_come_back_as_far_as_there_are_such() {
        let all = numbered();
        assert_eq!(Extended::read(&all.area(0b1110_0111), 0b1110_0111), all);
        let narrow = Extended::read(&all.area(0), 0);
        for number in 0..32 {
            let register = number * VECTOR..(number + 1) * VECTOR;
            let kept = if number < 16 { 16 } else { 0 };
            let (low, high) = narrow.vectors[register.clone()].split_at(kept);
            assert_eq!(low, &all.vectors[register][..kept]);
            assert!(high.iter().all(|&byte| byte == 0));
        }
        assert_eq!(narrow.masks, [0; 8]);
        assert_eq!((narrow.mxcsr, &narrow.x87), (all.mxcsr, &all.x87));
    }

    /// All exceptions of SSE unmasked and none raised, which is a valid setting.
    #[test]
    fn an_mxcsr_of_zero_is_a_value_like_others() {
        let mut all = numbered();
        all.mxcsr = 0;
        assert_eq!(Extended::read(&all.area(0b1110_0111), 0b1110_0111), all);
    }

    #[test]
    fn what_is_in_its_first_state_reads_so() {
        let mut area = numbered().area(0b111);
        area.region[HEADER / 4] = 0b010;
        let read = Extended::read(&area, 0b111);
        assert_eq!(read.x87[..2], 0x37f_u16.to_le_bytes());
        assert!(read.x87[2..].iter().all(|&byte| byte == 0));
        assert!(read.vectors[16..VECTOR].iter().all(|&byte| byte == 0));
        assert_eq!(read.vectors[..16], numbered().vectors[..16]);
    }

    #[test]
    fn another_layout_is_seen() {
        let entry = |component: StateComponent, offset: usize| kvm_cpuid_entry2 {
            function: LEAF,
            index: component.number,
            eax: component.bytes as u32,
            ebx: offset as u32,
            ..kvm_cpuid_entry2::default()
        };
        let listed = |offset| {
            let entries = [entry(COMPONENT_AVX, 576), entry(COMPONENT_OPMASK, offset)];
            CpuId::from_entries(&entries).unwrap()
        };
        assert!(has_our_layout(&listed(1088), 0b10_0111));
        assert!(!has_our_layout(&listed(832), 0b10_0111));
        assert!(has_our_layout(&listed(832), 0b111));
    }
}
