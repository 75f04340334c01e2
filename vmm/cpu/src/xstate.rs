//! The layout of an XSAVE area (Intel SDM, volume 1, chapter 13).
//!
//! The layout is the same for every guest and independent of the host's. The exact engine writes
//! areas in it, the kvm engine compares KVM's with it, and CPUID reports the sizes to guests.

/// A state component beyond x87 and SSE, which have fixed offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateComponent {
    /// Its bit in XCR0.
    pub number: u32,
    /// Its offset in the standard format.
    pub offset: usize,
    /// Its size in bytes.
    pub bytes: usize,
}

/// Bytes of the legacy region and the header, which are part of every area.
pub const XSAVE_HEADER_END: usize = 576;
/// Bytes of the largest area: all components in the standard format.
pub const XSAVE_BYTES: usize = 2688;

/// The upper halves of YMM0 to YMM15.
pub const COMPONENT_AVX: StateComponent = component(2, 576, 256);
/// K0 to K7.
pub const COMPONENT_OPMASK: StateComponent = component(5, 1088, 64);
/// The upper halves of ZMM0 to ZMM15.
pub const COMPONENT_ZMM_HIGH: StateComponent = component(6, 1152, 512);
/// ZMM16 to ZMM31.
pub const COMPONENT_HIGH_ZMM: StateComponent = component(7, 1664, 1024);

/// The components, in the order of the compacted format. They do not require alignment there, but
/// are all aligned.
pub const STATE_COMPONENTS: [StateComponent; 4] = [
    COMPONENT_AVX,
    COMPONENT_OPMASK,
    COMPONENT_ZMM_HIGH,
    COMPONENT_HIGH_ZMM,
];

const fn component(number: u32, offset: usize, bytes: usize) -> StateComponent {
    StateComponent {
        number,
        offset,
        bytes,
    }
}

fn chosen(components: u64) -> impl Iterator<Item = StateComponent> {
    STATE_COMPONENTS
        .into_iter()
        .filter(move |component| components >> component.number & 1 == 1)
}

/// Bytes of an area in the standard format with `components`.
pub fn standard_size(components: u64) -> usize {
    chosen(components)
        .map(|component| component.offset + component.bytes)
        .max()
        .unwrap_or(XSAVE_HEADER_END)
}

/// Bytes of an area in the compacted format with `components`.
pub fn compacted_size(components: u64) -> usize {
    XSAVE_HEADER_END
        + chosen(components)
            .map(|component| component.bytes)
            .sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_intels_processors() {
        assert_eq!(standard_size(0b11), 576);
        assert_eq!(standard_size(0b111), 832);
        assert_eq!(standard_size(0b1110_0111), XSAVE_BYTES);
        assert_eq!(compacted_size(0b1110_0111), 2432);
    }
}
