//! The nonzero pages of RAM.
//!
//! Pages of zeros are holes in the file and are neither written nor read; a hash covers all others.
//! `snapshot` writes, copies and checks files with these functions, and does not trust a file's table
//! of runs before `look` has verified it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use belljar_cpu::{GuestRam, PAGE_SIZE};
use nix::errno::Errno;
use nix::unistd::{Whence, lseek64};
use twox_hash::XxHash3_128;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};

/// Runs of nonzero pages, counted over all ranges: the first page and the length.
pub(super) type Runs = Vec<(u64, u64)>;

/// Bytes that are processed at once, a multiple of a page.
const CHUNK: usize = 1 << 20;
const PAGE: usize = PAGE_SIZE as usize;

/// Calls `each` with every nonzero page and its offset over all ranges.
fn each_page<E>(
    ram: &GuestRam,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut buffer = vec![0; CHUNK];
    let mut before = 0;
    for region in ram.iter() {
        let start = region.start_addr().0;
        for offset in (0..region.len()).step_by(CHUNK) {
            let bytes = &mut buffer[..(region.len() - offset).min(CHUNK as u64) as usize];
            // The chunk lies in the region, so that the read reaches every byte.
            let _ = ram.read_slice(bytes, GuestAddress(start + offset));
            for (index, page) in bytes.chunks(PAGE).enumerate() {
                if !is_zero(page) {
                    each(before + offset + (index * PAGE) as u64, page)?;
                }
            }
        }
        before += region.len();
    }
    Ok(())
}

fn is_zero(page: &[u8]) -> bool {
    let (words, rest) = page.as_chunks::<64>();
    words.iter().all(|word| *word == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

/// The runs of nonzero pages, and a hash of their bytes.
pub(super) fn survey(ram: &GuestRam) -> (Runs, u128) {
    let mut runs: Runs = Vec::new();
    let mut hash = XxHash3_128::new();
    let done = each_page(ram, |offset, page| {
        hash.write(page);
        let number = offset / PAGE_SIZE;
        match runs.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => runs.push((number, 1)),
        }
        Ok::<(), std::convert::Infallible>(())
    });
    let Ok(()) = done;
    (runs, hash.finish_128())
}

/// Writes RAM to `file` from `at` on, leaving holes for pages of zeros.
pub(super) fn write(ram: &GuestRam, file: &File, at: u64) -> io::Result<()> {
    let total: u64 = ram.iter().map(GuestMemoryRegion::len).sum();
    file.set_len(at + total)?;
    each_page(ram, |offset, page| file.write_all_at(page, at + offset))
}

/// Copies a file to an empty one. Its RAM begins at `at` and has `total` bytes, with nonzero pages in
/// `runs`.
pub(super) fn copy(from: &File, to: &File, at: u64, total: u64, runs: &Runs) -> io::Result<()> {
    to.set_len(at + total)?;
    let header = (0, at);
    let runs = runs
        .iter()
        .map(|(first, count)| (at + first * PAGE_SIZE, count * PAGE_SIZE));
    let mut buffer = vec![0; CHUNK];
    for (start, length) in std::iter::once(header).chain(runs) {
        for offset in (start..start + length).step_by(CHUNK) {
            let bytes = &mut buffer[..(start + length - offset).min(CHUNK as u64) as usize];
            from.read_exact_at(bytes, offset)?;
            to.write_all_at(bytes, offset)?;
        }
    }
    Ok(())
}

/// The result of reading a file's pages.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PageContents {
    /// The hash of the pages in `runs`; all others are zero.
    Hash(u128),
    /// The runs do not fit such a file.
    Impossible,
    /// There are nonzero bytes outside the runs.
    Filled,
}

/// Verifies every byte of a file after its header, which ends at `header`. RAM has `total` bytes from
/// `at` on, with nonzero pages in `runs`. Bytes outside holes are read once.
pub(super) fn look(
    file: &File,
    header: u64,
    at: u64,
    total: u64,
    runs: &Runs,
) -> io::Result<PageContents> {
    let mut hash = XxHash3_128::new();
    let mut buffer = vec![0; CHUNK];
    let mut looked = header;
    for &(first, count) in runs {
        let end = first
            .checked_add(count)
            .and_then(|end| end.checked_mul(PAGE_SIZE))
            .filter(|end| *end <= total);
        let Some(end) = end.filter(|_| at + first * PAGE_SIZE >= looked) else {
            return Ok(PageContents::Impossible);
        };
        let start = at + first * PAGE_SIZE;
        if !is_empty(file, looked, start, &mut buffer)? {
            return Ok(PageContents::Filled);
        }
        looked = at + end;
        each_chunk(file, start, looked, &mut buffer, |bytes| {
            hash.write(bytes);
            true
        })?;
    }
    if !is_empty(file, looked, at + total, &mut buffer)? {
        return Ok(PageContents::Filled);
    }
    Ok(PageContents::Hash(hash.finish_128()))
}

/// True if all bytes from `start` to `end` are zero. Holes need no reading.
fn is_empty(file: &File, start: u64, end: u64, buffer: &mut [u8]) -> io::Result<bool> {
    let mut offset = start;
    while offset < end {
        let data = seek(file, offset, Whence::SeekData)?;
        let Some(data) = data.filter(|data| *data < end) else {
            return Ok(true);
        };
        let hole = seek(file, data, Whence::SeekHole)?.unwrap_or(end).min(end);
        if !each_chunk(file, data, hole, buffer, is_zero)? {
            return Ok(false);
        }
        // Always advance, even if the file system misreports a hole.
        offset = hole.max(offset + 1);
    }
    Ok(true)
}

/// The offset of the next data or hole at or after `offset`; `None` if there is none.
fn seek(file: &File, offset: u64, whence: Whence) -> io::Result<Option<u64>> {
    let from = i64::try_from(offset).map_err(io::Error::other)?;
    match lseek64(file, from, whence) {
        Ok(found) => Ok(u64::try_from(found).ok().filter(|found| *found >= offset)),
        Err(Errno::ENXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Calls `each` with the bytes from `start` to `end` in pieces, as long as it returns true; returns
/// true if it always did.
fn each_chunk(
    file: &File,
    start: u64,
    end: u64,
    buffer: &mut [u8],
    mut each: impl FnMut(&[u8]) -> bool,
) -> io::Result<bool> {
    let mut offset = start;
    while offset < end {
        let bytes = &mut buffer[..(end - offset).min(CHUNK as u64) as usize];
        file.read_exact_at(bytes, offset)?;
        if !each(bytes) {
            return Ok(false);
        }
        offset += bytes.len() as u64;
    }
    Ok(true)
}
