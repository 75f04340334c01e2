//! Detects the format of a file by its first bytes or its first words.
//!
//! Called by `import` for files without a named format.

use std::io::Read;
use std::path::Path;

use belljar_files::open_input;

use crate::builder::{ImportError, failed};
use crate::format::Format;
use crate::otf2::reader::anchor_in;

/// Bytes at the beginning of a file that are examined.
const LOOKED_AT: u64 = 64 << 10;

impl Format {
    /// Returns the format of the file or folder at `path`.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or if its format is unknown.
    pub fn of(path: &Path) -> Result<Self, ImportError> {
        if path.is_dir() {
            return match (anchor_in(path), path.join(crate::ti::reader::LIST).exists()) {
                (Some(_), _) => Ok(Self::Otf2),
                (None, true) => Ok(Self::Ti),
                (None, false) => Err(ImportError::Unknown {
                    path: path.to_owned(),
                }),
            };
        }
        let mut start = Vec::new();
        let file = open_input(path).map_err(failed(path))?;
        let read = file.take(LOOKED_AT).read_to_end(&mut start);
        read.map_err(failed(path))?;
        Self::by_content(&start, path).ok_or_else(|| ImportError::Unknown {
            path: path.to_owned(),
        })
    }

    fn by_content(start: &[u8], path: &Path) -> Option<Self> {
        if crate::otf2::reader::is_anchor(start) {
            return Some(Self::Otf2);
        }
        if crate::goal::reader::is_binary(start) {
            return Some(Self::Goal);
        }
        let text = String::from_utf8_lossy(start);
        if crate::goal::reader::is_text(&text) {
            return Some(Self::Goal);
        }
        let mut lines = text.lines().map(str::trim);
        let first = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
        let named = path.with_file_name(first.split_whitespace().next()?);
        (crate::ti::reader::is_action(first) || named.is_file()).then_some(Self::Ti)
    }
}
