//! Layout of an image: a function of the tree alone.
//!
//! An inode, its attributes and its inline data are in one block, as Linux requires of inline data. They are placed by
//! best fit, so few bytes are lost between them. Only attributes larger than a block span several, and then no inline
//! data follow. The root's inode is the first, since the superblock has 16 bits for its number.

use std::collections::BTreeMap;

use super::directory::{self, DirectoryEntry};
use super::place::InodePosition;
use super::{BLOCK, INODE, SLOT, attributes, inode};
use crate::tree::{FileNode, FileTree, NodeId, NodeKind};

/// Longest target of a link: `PATH_MAX` with its zero byte.
const LONGEST_LINK: usize = 4095;

/// Positions of all nodes.
#[derive(Debug)]
pub(super) struct ErofsLayout<'a> {
    pub(super) entries: Vec<DirectoryEntry<'a>>,
    /// Indexed by node number.
    pub(super) places: Vec<InodePosition>,
    /// Blocks of the image.
    pub(super) blocks: u32,
}

/// Reason that a tree has no layout.
#[derive(Debug)]
pub(super) enum Unfit {
    /// A node can't be encoded.
    Node(NodeId, String),
    /// The number of blocks exceeds 32 bits.
    Size,
    /// A name has no parent directory.
    Tree,
}

impl<'a> ErofsLayout<'a> {
    pub(super) fn new(tree: &'a FileTree) -> Result<Self, Unfit> {
        let entries = directory::entries(tree).ok_or(Unfit::Tree)?;
        let mut places = count_names(&entries);
        let mut room = Room::default();
        let mut data = 0u64;
        for (_, id) in tree.paths() {
            let place = &mut places[id.0 as usize];
            if place.inode > 0 {
                continue;
            }
            let node = tree.node(id);
            place.size = size(node, || directory::of_folder(&entries, id.0))
                .map_err(|why| Unfit::Node(id, why))?;
            let length = attributes::length(&node.attributes)
                .map_err(|unfit| Unfit::Node(id, attribute(&unfit)))?;
            place.attributes = length as u32;
            let fixed = INODE + length;
            let tail = place.size % BLOCK;
            if fixed + tail <= BLOCK {
                place.packed = tail as u16;
            }
            place.inode = room.take(fixed + u64::from(place.packed));
            let blocks = place.in_blocks().div_ceil(BLOCK);
            if blocks > 0 {
                place.blocks = u32::try_from(data).map_err(|_| Unfit::Size)?;
                data += blocks;
            }
        }
        let blocks = data.checked_add(room.next).ok_or(Unfit::Size)?;
        let blocks = u32::try_from(blocks).map_err(|_| Unfit::Size)?;
        for place in &mut places {
            if place.in_blocks() > 0 {
                place.blocks += room.next as u32;
            }
        }
        Ok(Self {
            entries,
            places,
            blocks,
        })
    }

    /// The position of a node that has names.
    pub(super) fn place(&self, id: NodeId) -> Option<&InodePosition> {
        let place = self.places.get(id.0 as usize)?;
        (place.inode > 0).then_some(place)
    }
}

/// Creates a place for each node, with only the count of its names set. A directory has two names, its parent's entry
/// and its own `.`, and the `..` of each of its subdirectories; the root's own `..` counts for its missing parent
/// entry.
fn count_names(entries: &[DirectoryEntry<'_>]) -> Vec<InodePosition> {
    let most = entries.iter().map(|entry| entry.node).max().unwrap_or(0);
    let mut places = vec![InodePosition::default(); most as usize + 1];
    for entry in entries {
        places[entry.node as usize].names += 1;
    }
    places
}

/// Size of a node in bytes, or the reason that it can't be encoded.
fn size<'e, 'a: 'e>(
    node: &FileNode,
    entries: impl FnOnce() -> &'e [DirectoryEntry<'a>],
) -> Result<u64, String> {
    match &node.kind {
        NodeKind::Directory => Ok(directory::size(entries())),
        NodeKind::File { size } => Ok(*size),
        NodeKind::Link(text) => match text.len() {
            0 => Err("the link leads nowhere".to_owned()),
            length if length > LONGEST_LINK => Err(format!(
                "the link's text has {length} bytes, more than {LONGEST_LINK}"
            )),
            _ if text.contains(&0) => Err("the link's text has a zero byte".to_owned()),
            length => Ok(length as u64),
        },
        NodeKind::Character { major, minor } | NodeKind::Block { major, minor } => {
            match inode::device(*major, *minor) {
                Some(_) => Ok(0),
                None => Err(format!(
                    "Linux has no device {major}:{minor}, only up to 4095:1048575"
                )),
            }
        }
        NodeKind::Fifo | NodeKind::Socket => Ok(0),
    }
}

fn attribute(unfit: &attributes::Unfit<'_>) -> String {
    let end = unfit.name.len().min(255);
    let name = String::from_utf8_lossy(&unfit.name[..end]);
    format!("its attribute {name:?} does not fit: {}", unfit.why)
}

/// Free space for inodes and inline data, from the second block on.
#[derive(Debug)]
struct Room {
    /// The first unused block.
    next: u64,
    /// Blocks by the number of free bytes at their ends.
    left: BTreeMap<u64, Vec<u64>>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            next: 1,
            left: BTreeMap::new(),
        }
    }
}

impl Room {
    /// Allocates `length` bytes: in the best-fitting block, or in new ones.
    fn take(&mut self, length: u64) -> u64 {
        let length = length.next_multiple_of(SLOT);
        let found = self.left.range(length..).next().map(|(&left, _)| left);
        let fit = found.and_then(|left| {
            let blocks = self.left.get_mut(&left)?;
            let block = blocks.pop()?;
            if blocks.is_empty() {
                self.left.remove(&left);
            }
            Some((block, left))
        });
        let (block, left) = fit.unwrap_or_else(|| {
            let blocks = length.div_ceil(BLOCK);
            self.next += blocks;
            (self.next - 1, blocks * BLOCK)
        });
        let rest = left - length;
        if rest >= INODE {
            self.left.entry(rest).or_default().push(block);
        }
        // The free bytes are at the block's end.
        (block + 1) * BLOCK - left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_little_is_lost() {
        let mut room = Room::default();
        let mut taken = Vec::new();
        let mut state = 1u64;
        for _ in 0..5000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let length = match state >> 33 {
                value if value % 100 == 0 => 4097 + value % 20_000,
                value => 64 + value % 4033,
            };
            let at = room.take(length);
            assert!(at % SLOT == 0 && at >= BLOCK);
            assert!(length > BLOCK || at / BLOCK == (at + length - 1) / BLOCK);
            taken.push((at, length));
        }
        taken.sort_unstable();
        let apart = |pair: &[(u64, u64)]| pair[0].0 + pair[0].1 <= pair[1].0;
        assert!(taken.windows(2).all(apart));
        let used: u64 = taken.iter().map(|(_, length)| length).sum();
        assert!(
            used * 100 > room.next * BLOCK * 85,
            "{used} of {}",
            room.next * BLOCK
        );
    }
}
