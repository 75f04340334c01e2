//! The pages of RAM that are worth keeping.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use belljar_cpu::{GuestRam, PAGE_SIZE};
use twox_hash::XxHash3_128;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryRegion};

/// Pages that are not zero, counted over all ranges: the first and how many.
pub(super) type Runs = Vec<(u64, u64)>;

/// Bytes that are looked at together, a multiple of a page.
const CHUNK: usize = 1 << 20;
const PAGE: usize = PAGE_SIZE as usize;

/// Calls `each` with every page that is not zero, and its offset over all ranges.
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

/// The pages that are not zero, and the hash of them all.
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

/// Copies a file whose RAM begins at `at` and has `total` bytes, of which `runs` are not
/// zero, to an empty one.
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

/// The hash of the pages `runs` of the `total` bytes from `at` on; `None` when they are
/// not all there.
pub(super) fn hash_file(file: &File, at: u64, total: u64, runs: &Runs) -> io::Result<Option<u128>> {
    let mut hash = XxHash3_128::new();
    let mut buffer = vec![0; CHUNK];
    for &(first, count) in runs {
        let end = first
            .checked_add(count)
            .and_then(|end| end.checked_mul(PAGE_SIZE));
        let Some(end) = end.filter(|end| *end <= total) else {
            return Ok(None);
        };
        let mut offset = first * PAGE_SIZE;
        while offset < end {
            let bytes = &mut buffer[..(end - offset).min(CHUNK as u64) as usize];
            file.read_exact_at(bytes, at + offset)?;
            hash.write(bytes);
            offset += bytes.len() as u64;
        }
    }
    Ok(Some(hash.finish_128()))
}
