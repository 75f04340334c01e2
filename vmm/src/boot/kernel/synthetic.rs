//! Small kernels for tests: an ELF file with one segment, and a bzImage around one.

use super::{HEADER_OFFSET, SECTOR};

/// Where the segment is loaded, and its entry point.
pub(crate) const LOAD: u64 = 0x100_0000;

/// An ELF file that loads `code` at [`LOAD`] with `bss` more bytes of memory.
pub(crate) fn elf(code: &[u8], bss: u64) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let mut put = |value: u64, size: usize| bytes.extend_from_slice(&value.to_le_bytes()[..size]);
    let header = [
        (2, 2),
        (0x3e, 2),
        (1, 4),
        (LOAD, 8),
        (64, 8),
        (0, 8),
        (0, 4),
        (64, 2),
        (56, 2),
        (1, 2),
        (64, 2),
        (0, 2),
        (0, 2),
    ];
    let len = code.len() as u64;
    let segment = [
        (1, 4),
        (7, 4),
        (120, 8),
        (0xffff_ffff_8100_0000, 8),
        (LOAD, 8),
        (len, 8),
        (len + bss, 8),
        (0x1000, 8),
    ];
    for (value, size) in header.into_iter().chain(segment) {
        put(value, size);
    }
    bytes.extend_from_slice(code);
    bytes
}

/// A bzImage of protocol 2.15 whose compressed kernel is `payload`.
pub(crate) fn bzimage(payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 2 * SECTOR];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(HEADER_OFFSET, &[1]);
    put(0x1fe, &0xaa55u16.to_le_bytes());
    put(0x202, b"HdrS");
    put(0x206, &0x020fu16.to_le_bytes());
    put(0x211, &[1]);
    put(0x22c, &0x7fff_ffffu32.to_le_bytes());
    put(0x236, &1u16.to_le_bytes());
    put(0x238, &2047u32.to_le_bytes());
    // The payload follows 16 bytes of setup code.
    put(0x248, &16u32.to_le_bytes());
    put(0x24c, &(payload.len() as u32).to_le_bytes());
    put(0x258, &LOAD.to_le_bytes());
    put(0x260, &0x20_0000u32.to_le_bytes());
    bytes.resize(2 * SECTOR + 16, 0x90);
    bytes.extend_from_slice(payload);
    bytes
}
