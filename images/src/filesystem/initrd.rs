//! The initramfs: a file tree as an uncompressed cpio archive of the kind Linux unpacks.
//!
//! The format is "newc", as in the kernel's `Documentation/driver-api/early-userspace/buffer-format.rst`:
//! a header of 13 fields of 8 hexadecimal digits, the name with its final NUL, the data, each padded
//! to 4 bytes, and a last entry named `TRAILER!!!`.

use crate::filesystem::contents::{Item, TreeContents};

const FOLDER: u32 = 0o040_755;
const PLAIN: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;
const CHARACTER_DEVICE: u32 = 0o020_600;

/// `/dev/console`: the kernel opens it for init before init could make it.
const CONSOLE: (&str, u32, u32) = ("dev/console", 5, 1);

/// An error of writing an initramfs.
#[derive(Debug, thiserror::Error)]
pub enum InitrdError {
    /// A file is larger than the format allows.
    #[error(
        "{path} has {size} bytes, more than the 4 GiB a file in an initramfs may have; leave it out"
    )]
    TooLarge {
        /// Path inside the initramfs.
        path: String,
        /// Its size in bytes.
        size: u64,
    },
    /// A file can't be read.
    #[error("cannot read what is to be {path} in the initramfs: {source}; build again")]
    Read {
        /// Path inside the initramfs.
        path: String,
        /// System error.
        source: std::io::Error,
    },
}

/// The archive's bytes. Times, owners and inode numbers are the same for the same tree.
pub(crate) fn archive(contents: &TreeContents) -> Result<Vec<u8>, InitrdError> {
    let mut archive = CpioArchive {
        bytes: Vec::new(),
        inode: 0,
    };
    for (path, item) in contents.items() {
        let name = path.trim_start_matches('/');
        match item {
            Item::Directory => archive.entry(name, FOLDER, &[], (0, 0)),
            Item::Link(target) => archive.entry(name, LINK, target.as_bytes(), (0, 0)),
            Item::File {
                data, executable, ..
            } => {
                let mode = if *executable { PROGRAM } else { PLAIN };
                let too_large = data.size() > u64::from(u32::MAX);
                if too_large {
                    return Err(InitrdError::TooLarge {
                        path: name.to_owned(),
                        size: data.size(),
                    });
                }
                let mut bytes = Vec::new();
                data.copy_to(&mut bytes)
                    .map_err(|source| InitrdError::Read {
                        path: name.to_owned(),
                        source,
                    })?;
                archive.entry(name, mode, &bytes, (0, 0))
            }
        }?;
    }
    let (name, major, minor) = CONSOLE;
    archive.entry(name, CHARACTER_DEVICE, &[], (major, minor))?;
    archive.inode = 0;
    archive.entry("TRAILER!!!", 0, &[], (0, 0))?;
    Ok(archive.bytes)
}

struct CpioArchive {
    bytes: Vec<u8>,
    inode: u32,
}

impl CpioArchive {
    fn entry(
        &mut self,
        name: &str,
        mode: u32,
        data: &[u8],
        device: (u32, u32),
    ) -> Result<(), InitrdError> {
        let large = || InitrdError::TooLarge {
            path: name.to_owned(),
            size: data.len() as u64,
        };
        let size = u32::try_from(data.len()).map_err(|_| large())?;
        let name_size = u32::try_from(name.len() + 1).map_err(|_| large())?;
        let links = if mode & 0o170_000 == 0o040_000 { 2 } else { 1 };
        let (major, minor) = device;
        let fields = [
            self.inode, mode, 0, 0, links, 0, size, 0, 0, major, minor, name_size, 0,
        ];
        self.inode += 1;
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystem::data::Data;

    fn tree() -> TreeContents {
        let mut contents = TreeContents::default();
        let file = Item::ours(Data::Bytes(b"#!x\n!".to_vec()), true);
        contents.insert("/init", file).expect("inserts");
        contents.insert("/dev", Item::Directory).expect("inserts");
        contents
            .insert("/bin/sh", Item::Link("busybox".to_owned()))
            .expect("inserts");
        contents
    }

    #[test]
    fn entries_follow_the_format() {
        let bytes = archive(&tree()).expect("writes");
        assert_eq!(bytes.len() % 4, 0);
        let mut at = 0;
        let mut names = Vec::new();
        let mut seen = Vec::new();
        while at < bytes.len() {
            assert_eq!(&bytes[at..at + 6], b"070701");
            let field = |number: usize| {
                let from = at + 6 + 8 * number;
                let text = std::str::from_utf8(&bytes[from..from + 8]).expect("digits");
                usize::from_str_radix(text, 16).expect("a number")
            };
            let name_end = at + 110 + field(11);
            let name = std::str::from_utf8(&bytes[at + 110..name_end - 1]).expect("a name");
            assert_eq!(bytes[name_end - 1], 0);
            let data = name_end.next_multiple_of(4);
            names.push(name.to_owned());
            seen.push((field(1), bytes[data..data + field(6)].to_vec()));
            at = (data + field(6)).next_multiple_of(4);
        }
        assert_eq!(
            names,
            ["bin", "bin/sh", "dev", "init", "dev/console", "TRAILER!!!"]
        );
        assert_eq!(seen[1], (0o120_777, b"busybox".to_vec()));
        assert_eq!(seen[3], (0o100_755, b"#!x\n!".to_vec()));
    }

    #[test]
    fn the_same_tree_gives_the_same_bytes() {
        assert_eq!(
            archive(&tree()).expect("writes"),
            archive(&tree()).expect("writes")
        );
    }
}
