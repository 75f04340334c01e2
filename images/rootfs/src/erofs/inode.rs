//! Encoding of inodes and of the superblock.
//!
//! `struct erofs_inode_extended` and `struct erofs_super_block` of `fs/erofs/erofs_fs.h`.

use super::place::InodePosition;
use super::{BLOCK, INODE};
use crate::tree::{FileNode, NodeKind};

/// Offset of the superblock: `EROFS_SUPER_OFFSET`.
pub(super) const SUPERBLOCK: u64 = 1024;
const MAGIC: u32 = 0xe0f5_e1e2;
const BLOCK_BITS: u8 = 12;
/// The superblock has a checksum (`EROFS_FEATURE_COMPAT_SB_CHKSUM`), and times are of modification
/// (`EROFS_FEATURE_COMPAT_MTIME`).
const FEATURES: u32 = 1 | 2;
/// The same for all images, so that equal trees give equal bytes.
const UUID: [u8; 16] = [
    0xbe, 0x11, 0xa2, 0x00, 0x00, 0x00, 0x40, 0x00, 0x80, 0x00, 0, 0, 0, 0, 0, 1,
];
/// The checksum starts with all ones and is not inverted at the end: `erofs_superblock_csum_verify` of
/// `fs/erofs/super.c`. The crate `crc32fast` of other checksums has only the polynomial of IEEE 802.3.
const CASTAGNOLI: crc::Algorithm<u32> = crc::Algorithm {
    xorout: 0,
    ..crc::CRC_32_ISCSI
};

/// Limits on device numbers in 32 bits: `new_encode_dev` of `include/linux/kdev_t.h`.
const MOST_MAJOR: u32 = (1 << 12) - 1;
const MOST_MINOR: u32 = (1 << 20) - 1;

/// Encodes a node's inode; `attributes` is the size of its attributes in the unit of inodes.
pub(super) fn encode(
    node: &FileNode,
    place: &InodePosition,
    attributes: u16,
    index: u32,
) -> Vec<u8> {
    let layout = if place.is_packed() { 2 } else { 0 };
    let device = match node.kind {
        NodeKind::Character { major, minor } | NodeKind::Block { major, minor } => {
            device(major, minor)
        }
        _ => None,
    };
    let mut bytes = Vec::with_capacity(INODE as usize);
    bytes.extend((1u16 | layout << 1).to_le_bytes());
    bytes.extend(attributes.to_le_bytes());
    bytes.extend((kind(&node.kind) | node.mode & 0o7777).to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(place.size.to_le_bytes());
    bytes.extend(device.unwrap_or(place.blocks).to_le_bytes());
    bytes.extend(index.wrapping_add(1).to_le_bytes());
    bytes.extend(node.uid.to_le_bytes());
    bytes.extend(node.gid.to_le_bytes());
    bytes.extend(node.mtime.min(i64::MAX as u64).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(place.names.to_le_bytes());
    bytes.extend([0; 16]);
    bytes
}

/// Packs a device's number like `new_encode_dev`; `None` if it has too many bits.
pub(super) fn device(major: u32, minor: u32) -> Option<u32> {
    let fits = major <= MOST_MAJOR && minor <= MOST_MINOR;
    fits.then_some(minor & 0xff | major << 8 | (minor & !0xff) << 12)
}

/// The file type bits of a mode: `S_IFMT`.
fn kind(kind: &NodeKind) -> u16 {
    match kind {
        NodeKind::Fifo => 0o010_000,
        NodeKind::Character { .. } => 0o020_000,
        NodeKind::Directory => 0o040_000,
        NodeKind::Block { .. } => 0o060_000,
        NodeKind::File { .. } => 0o100_000,
        NodeKind::Link(_) => 0o120_000,
        NodeKind::Socket => 0o140_000,
    }
}

/// Encodes the superblock and zeros up to its block's end, with the checksum over both.
pub(super) fn superblock(root: u16, inodes: u64, blocks: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((BLOCK - SUPERBLOCK) as usize);
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(FEATURES.to_le_bytes());
    bytes.extend([BLOCK_BITS, 0]);
    bytes.extend(root.to_le_bytes());
    bytes.extend(inodes.to_le_bytes());
    // No build time, which only compact inodes need.
    bytes.extend([0; 12]);
    bytes.extend(blocks.to_le_bytes());
    // Inodes are numbered from the image's beginning, and no attributes are shared.
    bytes.extend([0; 8]);
    bytes.extend(UUID);
    bytes.resize((BLOCK - SUPERBLOCK) as usize, 0);
    let checksum = crc::Crc::<u32>::new(&CASTAGNOLI).checksum(&bytes);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_packed_as_linux_packs_them() {
        assert_eq!(device(1, 3), Some(0x103));
        assert_eq!(device(0xfff, 0xf_ffff), Some(0xffff_ffff));
        assert_eq!(device(8, 0x12345), Some(0x1230_0845));
        assert_eq!((device(0x1000, 0), device(0, 1 << 20)), (None, None));
    }
}
