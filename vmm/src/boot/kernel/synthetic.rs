//! Small kernels for tests: an ELF file with one segment, and a bzImage around one.

use super::{HEADER_OFFSET, SECTOR};

/// The segment's load address and entry point.
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

/// As [`elf`], but 32-bit and loaded at `load`.
pub(crate) fn elf32(code: &[u8], bss: u32, load: u32) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let mut put = |value: u32, size: usize| bytes.extend_from_slice(&value.to_le_bytes()[..size]);
    let header = [
        (2, 2),
        (3, 2),
        (1, 4),
        (load, 4),
        (52, 4),
        (0, 4),
        (0, 4),
        (52, 2),
        (32, 2),
        (1, 2),
        (40, 2),
        (0, 2),
        (0, 2),
    ];
    let len = code.len() as u32;
    let segment = [1, 84, load, load, len, len + bss, 7, 0x1000].map(|field| (field, 4));
    for (value, size) in header.into_iter().chain(segment) {
        put(value, size);
    }
    bytes.extend_from_slice(code);
    bytes
}

/// As [`elf`], with a note after its code that names `entry` as its PVH entry.
pub(crate) fn elf_with_pvh(code: &[u8], entry: u32) -> Vec<u8> {
    let note: Vec<u8> = [4u32, 4, 18, u32::from_le_bytes(*b"Xen\0"), entry]
        .into_iter()
        .flat_map(u32::to_le_bytes)
        .collect();
    let mut bytes = elf(code, 0);
    // The second program header goes between the first and the code.
    bytes[56] = 2;
    let shifted = 120 + 56u64;
    bytes[72..80].copy_from_slice(&shifted.to_le_bytes());
    let len = note.len() as u64;
    let offset = shifted + code.len() as u64;
    let fields = [4 | 4 << 32, offset, 0, 0, len, len, 4];
    let header: Vec<u8> = fields.into_iter().flat_map(u64::to_le_bytes).collect();
    bytes.splice(120..120, header);
    bytes.extend(note);
    bytes
}

/// A 32-bit ELF file with a multiboot header, whose entry is the header itself.
pub(crate) fn multiboot(flags: u32, fields: &[u32]) -> Vec<u8> {
    const MAGIC: u32 = 0x1bad_b002;
    let header = [MAGIC, flags, 0u32.wrapping_sub(MAGIC).wrapping_sub(flags)];
    let code: Vec<u8> = header
        .iter()
        .chain(fields)
        .flat_map(|word| word.to_le_bytes())
        .chain([0xf4; 16])
        .collect();
    elf32(&code, 0, LOAD as u32)
}
