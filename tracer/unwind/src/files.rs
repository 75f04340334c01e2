//! The files that contain code, of the image and of the workload, identified by their first pages.
//!
//! A first page has an ELF file's headers and, in most files, the build ID; a process maps it unchanged. The rest of a file
//! is read when the file is first seen in a process. One [`Files`] serves all nodes of a host: its answers do not depend on
//! the order of requests.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use twox_hash::XxHash3_128;

use crate::PAGE;
use crate::code::Code;

/// The first bytes of an ELF file (little endian, 64 bits).
pub(crate) const MAGIC: [u8; 6] = *b"\x7fELF\x02\x01";

/// Most known files.
const MOST_FILES: usize = 1 << 20;

type Load = Box<dyn Fn() -> Option<Code> + Send + Sync>;

struct File {
    path: String,
    load: Load,
    code: OnceLock<Option<Code>>,
}

/// Files, by number in the order in which they were added.
#[derive(Default)]
pub struct Files {
    files: Vec<File>,
    by_page: BTreeMap<u128, u32>,
}

impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Files")
            .field("count", &self.files.len())
            .finish()
    }
}

impl Files {
    /// Adds the file at `path`, with `start` as its first page (or all of a shorter file); `load` reads its code when needed.
    /// Files that are not ELF files are ignored; of files with equal first pages, the first one counts.
    pub fn add(
        &mut self,
        path: &str,
        start: &[u8],
        load: impl Fn() -> Option<Code> + Send + Sync + 'static,
    ) {
        if !start.starts_with(&MAGIC) || self.files.len() >= MOST_FILES {
            return;
        }
        let mut page = [0; PAGE];
        let length = start.len().min(PAGE);
        page[..length].copy_from_slice(&start[..length]);
        let number = self.files.len() as u32;
        self.by_page.entry(key(&page)).or_insert(number);
        self.files.push(File {
            path: path.to_owned(),
            load: Box::new(load),
            code: OnceLock::new(),
        });
    }

    /// Returns the number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True if there are no files.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the path of a file.
    pub fn path(&self, number: u32) -> Option<&str> {
        Some(&self.files.get(number as usize)?.path)
    }

    /// Returns the code of a file, if it could be read.
    pub fn code(&self, number: u32) -> Option<&Code> {
        let file = self.files.get(number as usize)?;
        file.code.get_or_init(|| (file.load)()).as_ref()
    }

    /// Returns the file that begins with this page.
    pub(crate) fn beginning_with(&self, page: &[u8; PAGE]) -> Option<u32> {
        self.by_page.get(&key(page)).copied()
    }
}

fn key(page: &[u8; PAGE]) -> u128 {
    XxHash3_128::oneshot(page)
}
