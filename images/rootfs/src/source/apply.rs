//! Applies one layer's entries to the tree of the layers below.
//!
//! A path is resolved inside the tree as the kernel would inside the root: symbolic links are followed,
//! except for the last component. The host's file system is not involved.

use std::collections::{BTreeSet, VecDeque};

use tar::EntryType;

use super::SourceError;
use super::entries::EntryMetadata;
use super::error::{Budget, shown};
use crate::{FileNode, FileTree, NodeId, NodeKind};

/// Limit on links on the way to an entry, as in Linux.
const MOST_LINKS: usize = 40;
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const META: &[u8] = b".wh..wh.";

/// A layer that is being applied.
pub(super) struct Layer<'a> {
    pub(super) tree: &'a mut FileTree,
    pub(super) budget: &'a mut Budget,
    /// The layer's name for errors.
    pub(super) place: &'a str,
    /// True if names that begin with `.wh.` remove entries of lower layers, as in container images.
    pub(super) has_whiteouts: bool,
    /// Paths that this layer added, which its whiteouts spare, and paths that those removed.
    put: BTreeSet<Vec<u8>>,
    hidden: BTreeSet<Vec<u8>>,
}

impl<'a> Layer<'a> {
    pub(super) fn new(
        tree: &'a mut FileTree,
        budget: &'a mut Budget,
        place: &'a str,
        has_whiteouts: bool,
    ) -> Self {
        Self {
            tree,
            budget,
            place,
            has_whiteouts,
            put: BTreeSet::new(),
            hidden: BTreeSet::new(),
        }
    }

    /// Applies an entry; returns the node if the entry is a file, whose data follow.
    ///
    /// # Errors
    /// When it leads out of the root, links to a missing entry, or exceeds a limit.
    pub(super) fn apply(&mut self, entry: EntryMetadata) -> Result<Option<NodeId>, SourceError> {
        let place = format!("{} in {}", shown(&entry.path), self.place);
        let strings = entry
            .attributes
            .iter()
            .map(|(name, value)| name.len() + value.len() + 100);
        let strings = entry.path.len() * 2 + entry.link.len() + strings.sum::<usize>();
        self.budget.entry(&place, strings)?;
        let path = self.resolved(&place, &entry.path)?;
        let start = path
            .iter()
            .rposition(|&byte| byte == b'/')
            .map_or(0, |slash| slash + 1);
        if self.has_whiteouts && path[start..].starts_with(WHITEOUT) {
            self.whiteout(&place, &path, start)?;
            return Ok(None);
        }
        if entry.kind.is_hard_link() {
            let target = self.resolved(&place, &entry.link)?;
            let Some(id) = self.tree.find(&target) else {
                let why = format!(
                    "it is a hard link to {}, which isn't there",
                    shown(&entry.link)
                );
                return Err(SourceError::damaged(place, why));
            };
            let linked = self.tree.link(&path, id);
            linked.map_err(|error| SourceError::tree(place, error))?;
            self.put.insert(path);
            return Ok(None);
        }
        if path.is_empty() && !entry.kind.is_dir() {
            return Err(SourceError::damaged(
                place,
                "it stands for the root, which is a directory",
            ));
        }
        let node = node(&place, entry)?;
        let is_file = matches!(node.kind, NodeKind::File { .. });
        if let NodeKind::File { size } = node.kind {
            self.budget.file(&place, size)?;
        }
        let id = self.tree.insert(&path, node);
        let id = id.map_err(|error| SourceError::tree(place, error))?;
        self.put.insert(path);
        Ok(is_file.then_some(id))
    }

    fn whiteout(&mut self, place: &str, path: &[u8], start: usize) -> Result<(), SourceError> {
        let name = &path[start..];
        let folder = &path[..start.saturating_sub(1)];
        if name == OPAQUE {
            return self.hide(place, folder, false);
        }
        if name.starts_with(META) {
            // AUFS's own metadata.
            return Ok(());
        }
        let hidden = &name[WHITEOUT.len()..];
        if hidden.is_empty() || hidden == b"." || hidden == b".." {
            return Err(SourceError::damaged(place, "it takes nothing away"));
        }
        let hidden = [&path[..start], hidden].concat();
        self.hide(place, &hidden, true)
    }

    /// Removes the entries of lower layers at a path or below it.
    fn hide(&mut self, place: &str, path: &[u8], with_itself: bool) -> Result<(), SourceError> {
        let mut key = path.to_vec();
        key.push(if with_itself { b'.' } else { b'/' });
        // Once per layer suffices; repeating it would let a hostile layer cost much time.
        if !self.hidden.insert(key) {
            return Ok(());
        }
        let mut gone: Vec<Vec<u8>> = Vec::new();
        for (path, _) in self.tree.below(path) {
            // Nested hidden folders would be traversed once for each of their parents.
            self.budget.look_up(place, path.len())?;
            if !self.is_put(path) {
                gone.push(path.to_vec());
            }
        }
        for path in gone {
            self.tree.remove(&path);
        }
        if with_itself && !self.is_put(path) {
            self.tree.remove(path);
        }
        Ok(())
    }

    /// True if this layer added the path or an entry below it.
    fn is_put(&self, path: &[u8]) -> bool {
        let below = [path, b"/"].concat();
        let next = self.put.range(below.clone()..).next();
        self.put.contains(path) || next.is_some_and(|next| next.starts_with(&below))
    }

    /// Resolves a path, following the links before its last component.
    fn resolved(&mut self, place: &str, path: &[u8]) -> Result<Vec<u8>, SourceError> {
        let wrong = |why: &str| Err(SourceError::damaged(place, why));
        let mut parts: VecDeque<Vec<u8>> = VecDeque::new();
        for part in path.split(|&byte| byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => return wrong("its path has `..`"),
                part => parts.push_back(part.to_vec()),
            }
        }
        let mut at: Vec<u8> = Vec::new();
        let mut links = 0;
        while let Some(part) = parts.pop_front() {
            if part == b".." {
                at.truncate(at.iter().rposition(|&byte| byte == b'/').unwrap_or(0));
                continue;
            }
            let parent = at.len();
            if !at.is_empty() {
                at.push(b'/');
            }
            at.extend_from_slice(&part);
            self.budget.look_up(place, at.len())?;
            if parts.is_empty() {
                break;
            }
            let Some(id) = self.tree.find(&at) else {
                // The tree will create this directory.
                self.budget.entry(place, at.len() * 2)?;
                continue;
            };
            if let NodeKind::Link(target) = &self.tree.node(id).kind {
                links += 1;
                if links > MOST_LINKS {
                    return wrong("its path goes through too many symbolic links");
                }
                at.truncate(if target.starts_with(b"/") { 0 } else { parent });
                let target = target.split(|&byte| byte == b'/');
                let target = target.filter(|part| !matches!(*part, b"" | b"."));
                for part in target.rev() {
                    parts.push_front(part.to_vec());
                }
            }
        }
        Ok(at)
    }
}

fn node(place: &str, entry: EntryMetadata) -> Result<FileNode, SourceError> {
    let (major, minor) = entry.device;
    let kind = match entry.kind {
        EntryType::Regular | EntryType::Continuous => NodeKind::File { size: entry.size },
        EntryType::Directory => NodeKind::Directory,
        EntryType::Symlink if entry.link.is_empty() || entry.link.len() > 4095 => {
            return Err(SourceError::damaged(
                place,
                "it is a symbolic link to nothing or too far",
            ));
        }
        EntryType::Symlink => NodeKind::Link(entry.link),
        EntryType::Char => NodeKind::Character { major, minor },
        EntryType::Block => NodeKind::Block { major, minor },
        EntryType::Fifo => NodeKind::Fifo,
        other => {
            let what = format!(
                "is an entry of the type {:?}, which is not read",
                other.as_byte() as char
            );
            return Err(SourceError::unsupported(place, what));
        }
    };
    Ok(FileNode {
        kind,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        mtime: entry.mtime,
        attributes: entry.attributes,
    })
}
