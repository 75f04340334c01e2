//! Encoding of directories as blocks of names.
//!
//! A block has its entries, 12 bytes each (inode, offset of the name, type), and then their names. Entries are in
//! ascending order of their names' bytes, including `.` and `..`, for Linux's binary search: `struct erofs_dirent` of
//! `fs/erofs/erofs_fs.h`. All blocks but the last are padded with zeros; the last one ends with its last name.

use super::BLOCK;
use crate::tree::{FileNode, FileTree, NodeKind};

const ENTRY: usize = 12;

/// A name in a directory; ordered by directory and then by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DirectoryEntry<'a> {
    /// Number of the directory's node.
    pub(super) folder: u32,
    pub(super) name: &'a [u8],
    /// Number of the named node.
    pub(super) node: u32,
}

/// All names in the directories of a tree, in order; `None` if a name has no parent directory.
pub(super) fn entries(tree: &FileTree) -> Option<Vec<DirectoryEntry<'_>>> {
    let mut entries = Vec::new();
    // Successive paths mostly have the same directory.
    let mut last: (&[u8], u32) = (b"", tree.find(b"")?.0);
    for (path, id) in tree.paths() {
        let (parent, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&path[..0], path),
        };
        if last.0 != parent {
            last = (parent, tree.find(parent)?.0);
        }
        let folder = last.1;
        if !path.is_empty() {
            let node = id.0;
            entries.push(DirectoryEntry { folder, name, node });
        }
        if tree.node(id).kind == NodeKind::Directory {
            for (name, node) in [(&b"."[..], id.0), (b"..", folder)] {
                let folder = id.0;
                entries.push(DirectoryEntry { folder, name, node });
            }
        }
    }
    entries.sort_unstable();
    Some(entries)
}

/// The entries of one directory.
pub(super) fn of_folder<'e, 'a>(
    entries: &'e [DirectoryEntry<'a>],
    folder: u32,
) -> &'e [DirectoryEntry<'a>] {
    let start = entries.partition_point(|entry| entry.folder < folder);
    let end = entries.partition_point(|entry| entry.folder <= folder);
    &entries[start..end]
}

/// Groups a directory's entries by block.
pub(super) fn blocks<'e, 'a>(
    mut entries: &'e [DirectoryEntry<'a>],
) -> impl Iterator<Item = &'e [DirectoryEntry<'a>]> {
    std::iter::from_fn(move || {
        let (mut used, mut count) = (0, 0);
        for entry in entries {
            used += ENTRY + entry.name.len();
            if used > BLOCK as usize && count > 0 {
                break;
            }
            count += 1;
        }
        let (block, rest) = entries.split_at(count);
        entries = rest;
        (count > 0).then_some(block)
    })
}

/// Size of a directory in bytes.
pub(super) fn size(entries: &[DirectoryEntry<'_>]) -> u64 {
    let used = |block: &[DirectoryEntry<'_>]| -> usize {
        let each = block.iter().map(|entry| ENTRY + entry.name.len());
        each.sum()
    };
    let sum = blocks(entries).fold((0, 0), |(whole, last), block| {
        (whole + if last > 0 { BLOCK } else { 0 }, used(block) as u64)
    });
    sum.0 + sum.1
}

/// Encodes one block; `number` returns the inode number of a node.
pub(super) fn encode(
    tree: &FileTree,
    block: &[DirectoryEntry<'_>],
    number: impl Fn(u32) -> u64,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BLOCK as usize);
    let mut start = ENTRY * block.len();
    for entry in block {
        let id = crate::tree::NodeId(entry.node);
        bytes.extend(number(entry.node).to_le_bytes());
        bytes.extend((start as u16).to_le_bytes());
        bytes.extend([kind(tree.node(id)), 0]);
        start += entry.name.len();
    }
    for entry in block {
        bytes.extend(entry.name);
    }
    bytes
}

/// A node's type in directories: `FT_*` of `include/linux/fs_types.h`.
fn kind(node: &FileNode) -> u8 {
    match node.kind {
        NodeKind::File { .. } => 1,
        NodeKind::Directory => 2,
        NodeKind::Character { .. } => 3,
        NodeKind::Block { .. } => 4,
        NodeKind::Fifo => 5,
        NodeKind::Socket => 6,
        NodeKind::Link(_) => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_order_with_the_two_dots_among_them() {
        let mut tree = FileTree::default();
        for name in [&b"a"[..], b"-", b".-", b".a", b"...", b"a/b"] {
            tree.insert(name, FileNode::directory()).expect("good");
        }
        let entries = entries(&tree).expect("whole");
        let names: Vec<&[u8]> = of_folder(&entries, 0).iter().map(|e| e.name).collect();
        assert_eq!(names, [&b"-"[..], b".", b".-", b"..", b"...", b".a", b"a"]);
        let a = tree.find(b"a").expect("there").0;
        let inside: Vec<u32> = of_folder(&entries, a).iter().map(|e| e.node).collect();
        assert_eq!(inside, [a, 0, tree.find(b"a/b").expect("there").0]);
    }

    #[test]
    fn blocks_hold_what_fits() {
        let names: Vec<Vec<u8>> = (0..2000u32)
            .map(|index| vec![b'x'; (index % 255 + 1) as usize])
            .collect();
        let entry = |name: &'_ [u8]| -> usize { ENTRY + name.len() };
        let folder = 0;
        let all: Vec<DirectoryEntry<'_>> = names
            .iter()
            .map(|name| DirectoryEntry {
                folder,
                name,
                node: 0,
            })
            .collect();
        let sizes: Vec<usize> = blocks(&all)
            .map(|block| block.iter().map(|e| entry(e.name)).sum())
            .collect();
        assert!(sizes.iter().all(|&size| size <= 4096 && size > 0));
        let last = *sizes.last().expect("some");
        assert_eq!(size(&all), (sizes.len() as u64 - 1) * BLOCK + last as u64);
        assert_eq!(blocks(&all).map(<[_]>::len).sum::<usize>(), 2000);
    }
}
