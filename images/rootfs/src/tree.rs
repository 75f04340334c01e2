//! A file system as a tree of names and nodes, without the bytes of its files.
//!
//! The root always exists; the parent of every entry is a directory of the tree; several names of one node
//! are hard links. Sources create trees, and the image writer reads them.

use std::collections::BTreeMap;

/// Limits on the number of names, on the length of a path and on its components.
pub(crate) const MOST_ENTRIES: usize = 1 << 22;
pub(crate) const LONGEST_PATH: usize = 4096;
pub(crate) const LONGEST_NAME: usize = 255;

/// An error of adding a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// A path leads out of the tree, or a component is longer than a file system allows.
    #[error("the path {path:?} cannot stand in a file system: {why}")]
    Path {
        /// The path.
        path: String,
        /// The reason.
        why: &'static str,
    },
    /// The tree would have too many names.
    #[error("the file system has more than {MOST_ENTRIES} files")]
    Entries,
}

/// A node's number in its tree, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// A file, a directory or another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNode {
    /// Its type.
    pub kind: NodeKind,
    /// The twelve bits of its mode: set-user-ID, set-group-ID, sticky, and permissions.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last change of its data, in seconds since 1970.
    pub mtime: u64,
    /// Extended attributes, by their whole names, such as `security.capability`.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Type of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeKind {
    /// A directory; its entries are in the tree's paths.
    Directory,
    /// A regular file of this size.
    File {
        /// Its size.
        size: u64,
    },
    /// A symbolic link, and its target.
    Link(Vec<u8>),
    /// A character device.
    Character {
        /// Major number of its driver.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A block device.
    Block {
        /// Major number of its driver.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// Names and nodes of a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileTree {
    /// Includes nodes that have lost all their names.
    nodes: Vec<FileNode>,
    /// By path, without a leading `/`; the root is the empty path.
    names: BTreeMap<Vec<u8>, NodeId>,
}

impl FileNode {
    /// A directory that belongs to root and is readable by all users.
    pub fn directory() -> Self {
        Self {
            kind: NodeKind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            mtime: 0,
            attributes: BTreeMap::new(),
        }
    }
}

impl Default for FileTree {
    fn default() -> Self {
        Self {
            nodes: vec![FileNode::directory()],
            names: BTreeMap::from([(Vec::new(), NodeId(0))]),
        }
    }
}

impl FileTree {
    /// The node at a path, links not followed.
    pub fn find(&self, path: &[u8]) -> Option<NodeId> {
        self.names.get(path).copied()
    }

    /// A node of this tree.
    ///
    /// # Panics
    /// When the node belongs to another tree.
    pub fn node(&self, id: NodeId) -> &FileNode {
        &self.nodes[id.0 as usize]
    }

    /// All paths: the root's first, and every other one after its parent's.
    pub fn paths(&self) -> impl Iterator<Item = (&[u8], NodeId)> {
        self.names.iter().map(|(path, id)| (&**path, *id))
    }

    /// The names in a directory and their nodes, in order of bytes.
    pub fn children<'a>(
        &'a self,
        folder: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], NodeId)> + 'a {
        let start = match folder {
            [] => Vec::new(),
            folder => [folder, b"/"].concat(),
        };
        let mut from = start.clone();
        std::iter::from_fn(move || {
            loop {
                let (path, id) = self.names.range(from.clone()..).next()?;
                let name = path
                    .get(start.len()..)
                    .filter(|_| path.starts_with(&start))?;
                match name.iter().position(|&byte| byte == b'/') {
                    // A folder that was visited before is skipped as a whole.
                    Some(slash) => {
                        from.clone_from(path);
                        from.truncate(start.len() + slash);
                        from.push(b'/' + 1);
                    }
                    None => {
                        from.clone_from(path);
                        from.push(0);
                        if !name.is_empty() {
                            return Some((name, *id));
                        }
                    }
                }
            }
        })
    }

    /// Puts a node at a path. It replaces the existing entry with all entries below, unless both are
    /// directories: then only the existing directory's mode, owner, time and attributes are replaced. Missing
    /// parent directories are created, and parents of other types are replaced by directories.
    ///
    /// # Errors
    /// When the path is not allowed in a tree.
    pub fn insert(&mut self, path: &[u8], node: FileNode) -> Result<NodeId, TreeError> {
        check(path)?;
        if let Some(id) = self.find(path) {
            let both = node.kind == NodeKind::Directory;
            if path.is_empty() || both && self.node(id).kind == NodeKind::Directory {
                if both {
                    self.nodes[id.0 as usize] = node;
                }
                return Ok(id);
            }
        }
        // Missing parents get their numbers first.
        self.make_parents(path)?;
        let id = NodeId(self.nodes.len() as u32);
        self.name(path, id)?;
        self.nodes.push(node);
        Ok(id)
    }

    /// Adds a name to a node, a hard link; an existing entry with this name is removed.
    ///
    /// # Errors
    /// When the path is not allowed in a tree.
    pub fn link(&mut self, path: &[u8], id: NodeId) -> Result<(), TreeError> {
        check(path)?;
        if path.is_empty() || self.node(id).kind == NodeKind::Directory {
            return Err(refused(path, "a directory has one name"));
        }
        self.name(path, id)
    }

    /// Removes the entry at a path, with all entries below; for the root, only the entries below.
    pub fn remove(&mut self, path: &[u8]) {
        self.clear(path);
        if !path.is_empty() {
            self.names.remove(path);
        }
    }

    /// Removes all entries below a path.
    pub fn clear(&mut self, path: &[u8]) {
        let below: Vec<Vec<u8>> = self.below(path).map(|(path, _)| path.to_vec()).collect();
        for path in below {
            self.names.remove(&path);
        }
    }

    fn name(&mut self, path: &[u8], id: NodeId) -> Result<(), TreeError> {
        self.make_parents(path)?;
        self.clear(path);
        let is_full = self.names.len() >= MOST_ENTRIES && !self.names.contains_key(path);
        if is_full || self.nodes.len() >= u32::MAX as usize {
            return Err(TreeError::Entries);
        }
        self.names.insert(path.to_vec(), id);
        Ok(())
    }

    fn make_parents(&mut self, path: &[u8]) -> Result<(), TreeError> {
        let Some(end) = path.iter().rposition(|&byte| byte == b'/') else {
            return Ok(());
        };
        let parent = &path[..end];
        let is_there = self
            .find(parent)
            .is_some_and(|id| self.node(id).kind == NodeKind::Directory);
        if !is_there {
            self.insert(parent, FileNode::directory())?;
        }
        Ok(())
    }

    /// All entries below a path, without the path itself.
    pub(crate) fn below<'a>(
        &'a self,
        path: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], NodeId)> + 'a {
        let mut first = path.to_vec();
        if !path.is_empty() {
            first.push(b'/');
        }
        let start = first.clone();
        self.names
            .range(first..)
            .take_while(move |(name, _)| name.starts_with(&start))
            .filter(|(name, _)| !name.is_empty())
            .map(|(name, id)| (&**name, *id))
    }
}

fn check(path: &[u8]) -> Result<(), TreeError> {
    if path.len() > LONGEST_PATH {
        return Err(refused(path, "it is too long"));
    }
    if path.is_empty() {
        return Ok(());
    }
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." | b".." => return Err(refused(path, "it has an empty part, `.` or `..`")),
            part if part.len() > LONGEST_NAME => return Err(refused(path, "a part is too long")),
            part if part.contains(&0) => return Err(refused(path, "it has a zero byte")),
            _ => {}
        }
    }
    Ok(())
}

fn refused(path: &[u8], why: &'static str) -> TreeError {
    let end = path.len().min(200);
    TreeError::Path {
        path: String::from_utf8_lossy(&path[..end]).into_owned(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(size: u64) -> FileNode {
        FileNode {
            kind: NodeKind::File { size },
            ..FileNode::directory()
        }
    }

    fn paths(tree: &FileTree) -> Vec<String> {
        let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        tree.paths().map(|(path, _)| text(path)).collect()
    }

    #[test]
    fn parents_are_made_and_come_first() {
        let mut tree = FileTree::default();
        tree.insert(b"usr/lib/x", file(1)).expect("good");
        tree.insert(b"usr-x", file(2)).expect("good");
        assert_eq!(paths(&tree), ["", "usr", "usr-x", "usr/lib", "usr/lib/x"]);
        let id = tree.find(b"usr/lib/x").expect("there");
        assert_eq!(tree.node(id), &file(1));
        let parent = tree.find(b"usr/lib").expect("there");
        assert_eq!(tree.node(parent), &FileNode::directory());
        let names = |folder: &[u8]| {
            tree.children(folder)
                .map(|(name, _)| name.to_vec())
                .collect()
        };
        let top: Vec<Vec<u8>> = names(b"");
        assert_eq!(top, [b"usr".to_vec(), b"usr-x".to_vec()]);
        let usr: Vec<Vec<u8>> = names(b"usr");
        assert_eq!(usr, [b"lib".to_vec()]);
    }

    #[test]
    fn a_node_is_found_where_it_was_put_whatever_parents_were_missing() {
        let mut tree = FileTree::default();
        let id = tree.insert(b"a/b/c", file(7)).expect("good");
        assert_eq!(tree.find(b"a/b/c"), Some(id));
        assert_eq!(tree.node(id), &file(7));
        let parent = tree.find(b"a/b").expect("there");
        assert_eq!(tree.node(parent), &FileNode::directory());
    }

    #[test]
    fn what_replaces_a_directory_takes_all_in_it_away() {
        let mut tree = FileTree::default();
        tree.insert(b"a/b", file(1)).expect("good");
        let other = FileNode {
            mode: 0o700,
            ..FileNode::directory()
        };
        tree.insert(b"a", other).expect("good");
        let id = tree.find(b"a").expect("there");
        assert_eq!((paths(&tree).len(), tree.node(id).mode), (3, 0o700));
        tree.insert(b"a", file(2)).expect("good");
        assert_eq!(paths(&tree), ["", "a"]);
        tree.insert(b"a/c", file(3)).expect("good");
        assert_eq!(paths(&tree), ["", "a", "a/c"]);
        tree.remove(b"");
        assert_eq!(paths(&tree), [""]);
    }

    #[test]
    fn links_share_a_node_and_directories_have_one_name() {
        let mut tree = FileTree::default();
        let one = tree.insert(b"one", file(1)).expect("good");
        tree.link(b"sub/two", one).expect("good");
        assert_eq!(tree.find(b"sub/two"), Some(one));
        let sub = tree.find(b"sub").expect("there");
        assert!(tree.link(b"other", sub).is_err());
        for path in [&b"a//b"[..], b"../x", b"/x", b"x/", b"x\0", &[b'x'; 300]] {
            assert!(tree.insert(path, file(1)).is_err(), "{path:?}");
        }
    }
}
