//! Big-endian fields in bytes that the card shares with its driver.
//!
//! Offsets are constants of layouts, or are checked by the caller; fields beyond the end read as zero and are not written.

/// The byte at `at`.
pub(crate) fn u8_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or_default()
}

/// The 16 bits at `at`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    array_at(bytes, at).map_or(0, u16::from_be_bytes)
}

/// The 32 bits at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    array_at(bytes, at).map_or(0, u32::from_be_bytes)
}

/// The 64 bits at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    array_at(bytes, at).map_or(0, u64::from_be_bytes)
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Writes `value` at `at`.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}
