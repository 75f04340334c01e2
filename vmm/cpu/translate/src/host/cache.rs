//! Memory for translated code: one anonymous file mapped twice, once to write
//! and once to execute, so that no mapping is ever both.
//!
//! Code is appended until all of it is dropped; meanwhile only the `rel32`s and cells that link
//! jumps are written, and writes outside the bytes in use are refused. A node's store and a pool
//! have one `CodeMemory` each.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::{io, ptr};

use belljar_cpu::CpuError;

/// Generous bound on the size of the largest block: a trace of accesses, each its own group.
pub const BLOCK_ROOM: usize = 192 << 10;
/// The largest amount of translated code in bytes. If it is full, all code is discarded.
pub const CACHE_BYTES: usize = 64 << 20;
/// Bytes of a cell.
pub const CELL_BYTES: usize = 8;
/// Bytes of a host page.
const HOST_PAGE: usize = 4096;

/// A write window and an execute window on the same memory. It may end with cells: words from which
/// translated code loads jump targets.
#[derive(Debug)]
pub struct CodeMemory {
    write: *mut u8,
    execute: *mut u8,
    /// Bytes of each window.
    size: usize,
    used: usize,
    /// Number of usable bytes.
    limit: usize,
}

// SAFETY: this value owns the mappings, which are not tied to a thread.
unsafe impl Send for CodeMemory {}

impl CodeMemory {
    /// Maps the cache, and uses at most `limit` bytes of it.
    pub fn new(limit: usize) -> Result<Self, CpuError> {
        Self::map(CACHE_BYTES, limit.min(CACHE_BYTES))
    }

    /// Maps memory for `code` bytes of code and `cells` cells.
    pub fn with_cells(code: usize, cells: usize) -> Result<Self, CpuError> {
        let code = code.next_multiple_of(HOST_PAGE);
        let cells = (cells * CELL_BYTES).next_multiple_of(HOST_PAGE);
        Self::map(code + cells, code)
    }

    fn map(size: usize, limit: usize) -> Result<Self, CpuError> {
        let failed = |action| move |source| CpuError::Host { action, source };
        let file = memory_file(size).map_err(failed("make the code cache"))?;
        let map = |protection| map(&file, size, protection).map_err(failed("map the code cache"));
        Ok(Self {
            write: map(libc::PROT_READ | libc::PROT_WRITE)?,
            execute: map(libc::PROT_READ | libc::PROT_EXEC)?,
            size,
            used: 0,
            limit,
        })
    }

    /// Host addresses at which code executes.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.execute as u64..self.execute as u64 + self.size as u64
    }

    /// Host address at which translated code reads cell `number`.
    pub fn cell(&self, number: usize) -> u64 {
        self.execute as u64 + (self.limit + number * CELL_BYTES) as u64
    }

    /// Stores `target` in the cell at host address `at`. Another thread's translated code reads the
    /// old value or the new one.
    pub fn set_cell(&mut self, at: u64, target: u64) {
        let offset = (at - self.execute as u64) as usize;
        assert!(
            offset >= self.limit
                && offset + CELL_BYTES <= self.size
                && offset.is_multiple_of(CELL_BYTES),
            "no cell stands there"
        );
        // SAFETY: the aligned word lies inside the write mapping, as just checked, and this
        // function does all of the program's writes there.
        let cell = unsafe { AtomicU64::from_ptr(self.write.add(offset).cast()) };
        cell.store(target, Ordering::Release);
    }

    /// Host address of the next block.
    pub fn next(&self) -> u64 {
        self.execute as u64 + self.used as u64
    }

    /// True if `bytes` more fit.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.used + bytes <= self.limit
    }

    /// Places code at [`next`](Self::next).
    ///
    /// # Panics
    /// If it does not fit; see [`has_room`](Self::has_room).
    pub fn place(&mut self, code: &[u8]) {
        assert!(self.has_room(code.len()), "the code cache has no room");
        // SAFETY: `used + len` was just checked against the mapping's size.
        unsafe { ptr::copy_nonoverlapping(code.as_ptr(), self.write.add(self.used), code.len()) };
        self.used = (self.used + code.len()).next_multiple_of(16).min(self.size);
    }

    /// Drops everything after the first `keep` bytes.
    pub fn truncate(&mut self, keep: usize) {
        self.used = keep.min(self.used);
    }

    /// Releases the host memory after the bytes in use.
    pub fn release(&mut self) {
        let keep = self.used.next_multiple_of(HOST_PAGE);
        // SAFETY: the range lies within the write mapping, without any code in use. If the host
        // refuses, it keeps the memory, which does no harm.
        unsafe {
            let from = self.write.add(keep).cast();
            libc::madvise(from, self.size - keep, libc::MADV_REMOVE);
        }
    }

    /// Number of usable bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Number of bytes in use.
    pub fn used(&self) -> usize {
        self.used
    }

    /// The target of the `rel32` at host address `at`.
    pub fn target(&self, at: u64) -> u64 {
        let offset = (at - self.execute as u64) as usize;
        assert!(offset + 4 <= self.used, "a jump outside the code cache");
        // SAFETY: the four bytes lie inside the mapping, as just checked.
        let rel = unsafe { self.write.add(offset).cast::<i32>().read_unaligned() };
        (at + 4).wrapping_add_signed(i64::from(rel))
    }

    /// The word at host address `at`, through which code jumps; it may be a cell.
    pub fn word(&self, at: u64) -> u64 {
        let offset = (at - self.execute as u64) as usize;
        assert!(offset + 8 <= self.size, "a word outside the code cache");
        // SAFETY: the eight bytes lie inside the mapping, as just checked.
        unsafe { self.write.add(offset).cast::<u64>().read_unaligned() }
    }

    /// A copy of the bytes in use.
    pub fn bytes(&self) -> Vec<u8> {
        // SAFETY: the bytes in use lie inside the mapping, and only this value writes to it.
        unsafe { std::slice::from_raw_parts(self.write, self.used) }.to_vec()
    }

    /// Stores `target` in the word at host address `at`. No thread may be executing this code memory.
    pub fn set_word(&mut self, at: u64, target: u64) {
        let offset = (at - self.execute as u64) as usize;
        assert!(offset + 8 <= self.used, "a word outside the code cache");
        // SAFETY: the eight bytes lie inside the mapping, as just checked.
        unsafe { self.write.add(offset).cast::<u64>().write_unaligned(target) };
    }

    /// Redirects the `rel32` at host address `at` to `target`.
    pub fn patch(&mut self, at: u64, target: u64) {
        let offset = (at - self.execute as u64) as usize;
        assert!(offset + 4 <= self.used, "a patch outside the code cache");
        let rel = target.wrapping_sub(at + 4) as i32;
        // SAFETY: the four bytes lie inside the mapping, as just checked.
        unsafe { self.write.add(offset).cast::<i32>().write_unaligned(rel) };
    }
}

/// Bytes of freed tables since the allocator was last trimmed.
static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);
/// Number of freed bytes that justifies trimming, which scans all free memory.
const WORTH_ASKING: usize = 256 << 20;

/// Records that the tables of `code` bytes of code were freed. The allocator keeps freed memory in
/// pieces; from time to time it is asked to return whole pages to the host.
pub fn give_up(code: usize) {
    let bytes = 3 * code;
    if GIVEN_UP.fetch_add(bytes, Ordering::Relaxed) + bytes < WORTH_ASKING {
        return;
    }
    GIVEN_UP.store(0, Ordering::Relaxed);
    #[cfg(target_env = "gnu")]
    // SAFETY: it may be called by any thread at any time, and only accesses free memory.
    unsafe {
        libc::malloc_trim(0);
    }
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: both mappings were made by `new` with this length and are not borrowed beyond
        // this value.
        unsafe {
            libc::munmap(self.write.cast(), self.size);
            libc::munmap(self.execute.cast(), self.size);
        }
    }
}

fn memory_file(size: usize) -> io::Result<OwnedFd> {
    // SAFETY: the name is a NUL-terminated literal; the result is checked before use.
    let fd = unsafe { libc::memfd_create(c"belljar-code".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just opened and has no other owner.
    let file = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: a plain system call on an open descriptor.
    if unsafe { libc::ftruncate(file.as_raw_fd(), size as libc::off_t) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

fn map(file: &OwnedFd, size: usize, protection: i32) -> io::Result<*mut u8> {
    // SAFETY: a fresh shared mapping of a file of this size, at an address chosen by the kernel.
    let at = unsafe {
        libc::mmap(
            ptr::null_mut(),
            size,
            protection,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(at.cast())
}
