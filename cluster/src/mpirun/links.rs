//! The symbolic links of an image's root file system.
//!
//! [`root_files`](belljar_images::root_files) lists regular files; which names lead to them, a
//! guest sees by its links, such as `libmpich.so.12` to the file of its full version. Layout as
//! there, after `fs/erofs/erofs_fs.h` of Linux 6.1. Every number is checked before it is used, and
//! what is listed is bounded, so that a damaged image gives an error and nothing worse. Called by
//! [`GuestRoot`](super::GuestRoot).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const SUPERBLOCK: u64 = 1024;
const MAGIC: u32 = 0xe0f5_e1e2;
/// Bytes of a directory entry.
const ENTRY: usize = 12;
/// Largest directory that is read, longest link, deepest path, most entries.
const MOST_DIRECTORY: u64 = 16 << 20;
const LONGEST_LINK: u64 = 4096;
const MOST_DEPTH: usize = 64;
const MOST_ENTRIES: usize = 1 << 20;
const DIRECTORY: u16 = 0o040_000;
const LINK: u16 = 0o120_000;
const KIND: u16 = 0o170_000;
/// Kinds of directory entries (`EROFS_FT_DIR`, `EROFS_FT_SYMLINK`).
const ENTRY_DIRECTORY: u8 = 2;
const ENTRY_LINK: u8 = 7;

/// Where the links of the image at `path` lead, by their paths from `/`.
///
/// # Errors
/// When it can't be read, is no EROFS image, or is damaged.
pub(super) fn root_links(path: &Path) -> io::Result<BTreeMap<String, String>> {
    let tree = Tree::open(File::open(path)?)?;
    let mut links = BTreeMap::new();
    let mut seen = 0;
    let mut open = vec![(tree.root, String::new(), 0)];
    while let Some((number, folder, depth)) = open.pop() {
        let bytes = tree.content(number, DIRECTORY, MOST_DIRECTORY)?;
        for block in bytes.chunks(tree.block as usize) {
            for (number, kind, name) in entries(block)? {
                let path = format!("{folder}/{name}");
                seen += 1;
                if depth > MOST_DEPTH || seen > MOST_ENTRIES {
                    return Err(damaged("too many files, or too deep"));
                }
                match kind {
                    ENTRY_DIRECTORY => open.push((number, path, depth + 1)),
                    ENTRY_LINK => {
                        let target = tree.content(number, LINK, LONGEST_LINK)?;
                        links.insert(path, String::from_utf8_lossy(&target).into_owned());
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(links)
}

struct Tree {
    file: File,
    block: u64,
    inodes: u64,
    root: u64,
}

impl Tree {
    fn open(file: File) -> io::Result<Self> {
        let mut head = [0; 128];
        file.read_exact_at(&mut head, SUPERBLOCK)?;
        let bits = head[12];
        if word(&head, 0) != MAGIC || !(9..=16).contains(&bits) {
            return Err(damaged("no EROFS superblock"));
        }
        Ok(Self {
            file,
            block: 1 << bits,
            inodes: u64::from(word(&head, 40)) << bits,
            root: half(&head, 14).into(),
        })
    }

    /// All that is in inode `number`, which is of `kind` and has at most `most` bytes.
    fn content(&self, number: u64, kind: u16, most: u64) -> io::Result<Vec<u8>> {
        let at = number
            .checked_mul(32)
            .and_then(|offset| self.inodes.checked_add(offset))
            .ok_or_else(|| damaged("an inode beyond all bounds"))?;
        let mut head = [0; 32];
        self.file.read_exact_at(&mut head, at)?;
        let format = half(&head, 0);
        let size = u64::from(word(&head, 8));
        if half(&head, 4) & KIND != kind || size > most {
            return Err(damaged("a directory or link that is none"));
        }
        let attributes = match u64::from(half(&head, 2)) {
            0 => 0,
            count => 12 + 4 * (count - 1),
        };
        // The longer form of an inode has 64 bytes.
        let after = at + if format & 1 == 0 { 32 } else { 64 } + attributes;
        let blocks = u64::from(word(&head, 16)) * self.block;
        let whole = match format >> 1 & 7 {
            0 => size,
            2 => size - size % self.block,
            _ => return Err(damaged("a compressed or chunked directory")),
        };
        let mut bytes = vec![0; size as usize];
        let (first, rest) = bytes.split_at_mut(whole as usize);
        self.file.read_exact_at(first, blocks)?;
        self.file.read_exact_at(rest, after)?;
        Ok(bytes)
    }
}

/// Inode numbers, kinds and names in one block of a directory, without itself and its parent.
fn entries(block: &[u8]) -> io::Result<Vec<(u64, u8, String)>> {
    let bad = || damaged("a directory entry out of its block");
    let first = usize::from(half(block.get(..ENTRY).ok_or_else(bad)?, 8));
    let count = first / ENTRY;
    let heads = block.get(..count * ENTRY).ok_or_else(bad)?;
    let start = |index: usize| usize::from(half(heads, index * ENTRY + 8));
    let mut found = Vec::new();
    for index in 0..count {
        let end = match index + 1 < count {
            true => start(index + 1),
            false => block.len(),
        };
        let name = block.get(start(index)..end).ok_or_else(bad)?;
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        if matches!(name, b"" | b"." | b"..") {
            continue;
        }
        let at = index * ENTRY;
        let number = u64::from(word(heads, at)) | u64::from(word(heads, at + 4)) << 32;
        let name = String::from_utf8_lossy(name).into_owned();
        found.push((number, heads[at + 10], name));
    }
    Ok(found)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from(half(bytes, at)) | u32::from(half(bytes, at + 2)) << 16
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
#[allow(clippy::print_stderr)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn links_are_read_as_they_were_made_and_damage_is_harmless() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("usr/lib/deep")).unwrap();
        let mut expected = BTreeMap::new();
        for number in 0..300 {
            let target = format!("../{}", "x".repeat(number % 90 + 1));
            let path = format!("/usr/lib/deep/link{number}");
            symlink(&target, tree.join(&path[1..])).unwrap();
            expected.insert(path, target);
        }
        fs::write(tree.join("usr/file"), "no link").unwrap();
        symlink("usr/lib", tree.join("lib")).unwrap();
        expected.insert("/lib".to_owned(), "usr/lib".to_owned());
        let image = folder.path().join("image");
        let mut mkfs = Command::new("mkfs.erofs");
        let made = mkfs
            .args(["--quiet", "-x-1"])
            .args([&image, &tree])
            .output();
        if !made.is_ok_and(|output| output.status.success()) {
            eprintln!("SKIPPED: mkfs.erofs is not installed (apt install erofs-utils)");
            return;
        }
        assert_eq!(root_links(&image).unwrap(), expected);
        let whole = fs::read(&image).unwrap();
        let copy = folder.path().join("copy");
        let mut refused = 0;
        for at in (1024..whole.len()).step_by(97) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x81;
            fs::write(&copy, &bytes).unwrap();
            refused += usize::from(root_links(&copy).is_err());
        }
        assert!(refused > 0, "nothing was found to be damaged");
    }
}
