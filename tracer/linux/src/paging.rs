//! Linear addresses of a guest: page tables with four or five levels, as the processor reads them.
//!
//! Source: Intel's manual, volume 3, "Paging". Permissions are not checked, because a debugger
//! reads every mapped page.

const PAGE: u64 = 4096;
const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
pub(crate) const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// A guest's RAM.
pub trait PhysicalMemory {
    /// Reads RAM at a guest-physical address; returns false if the range is not all RAM.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;
}

/// An address space: page tables in a guest's RAM.
#[derive(Clone, Copy)]
pub struct Space<'m> {
    memory: &'m dyn PhysicalMemory,
    /// Physical address of the topmost table.
    pub(crate) root: u64,
    levels: u32,
}

impl<'m> Space<'m> {
    /// The space whose topmost table is at physical address `root`, the value of CR3; `five` for tables of five
    /// levels.
    pub fn new(memory: &'m dyn PhysicalMemory, root: u64, five: bool) -> Self {
        Self {
            memory,
            root: root & ADDRESS,
            levels: if five { 5 } else { 4 },
        }
    }

    /// The physical address of a linear one; `None` if it is not mapped.
    pub fn physical(&self, linear: u64) -> Option<u64> {
        let mut table = self.root;
        for level in (0..self.levels).rev() {
            let index = linear >> (12 + 9 * level) & 511;
            let mut entry = [0; 8];
            if !self.memory.read(table + 8 * index, &mut entry) {
                return None;
            }
            let entry = u64::from_le_bytes(entry);
            if entry & PRESENT == 0 {
                return None;
            }
            let size = PAGE << (9 * level);
            if level == 0 || entry & LARGE != 0 && level <= 2 {
                return Some(entry & ADDRESS & !(size - 1) | linear & (size - 1));
            }
            table = entry & ADDRESS;
        }
        None
    }

    /// Reads as many bytes from `linear` on as are mapped; returns their number.
    pub fn read_some(&self, linear: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        while done < into.len() {
            let Some(at) = linear.checked_add(done as u64) else {
                break;
            };
            let count = ((PAGE - at % PAGE) as usize).min(into.len() - done);
            let part = &mut into[done..done + count];
            let read = self
                .physical(at)
                .is_some_and(|at| self.memory.read(at, part));
            if !read {
                break;
            }
            done += count;
        }
        done
    }

    /// Reads bytes; `None` if not all are mapped.
    pub fn read(&self, linear: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        (self.read_some(linear, &mut bytes) == length).then_some(bytes)
    }

    /// Reads a 64-bit number.
    pub fn word(&self, linear: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (self.read_some(linear, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
    }

    /// Reads a 32-bit number.
    pub fn half(&self, linear: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        (self.read_some(linear, &mut bytes) == 4).then(|| u32::from_le_bytes(bytes))
    }

    /// Reads a text that ends with a zero, of at most `most` bytes.
    pub fn text(&self, linear: u64, most: usize) -> Option<String> {
        let mut bytes = vec![0; most];
        let read = self.read_some(linear, &mut bytes);
        let end = bytes[..read].iter().position(|byte| *byte == 0);
        let end = end.or_else(|| (read == most).then_some(most))?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ram(Vec<u8>);

    impl PhysicalMemory for Ram {
        fn read(&self, address: u64, into: &mut [u8]) -> bool {
            let start = usize::try_from(address).unwrap_or(usize::MAX);
            let from = self.0.get(start..).and_then(|rest| rest.get(..into.len()));
            from.map(|from| into.copy_from_slice(from)).is_some()
        }
    }

    #[test]
    fn small_and_large_pages_are_followed() {
        let mut ram = Ram(vec![0; 0x9000]);
        let mut set = |at: u64, value: u64| {
            let at = at as usize;
            ram.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        // 0x40_0000_1000 → 0x8000 by four levels; 0x40_0020_0000 → 2 MiB page at 0.
        set(0x1000, 0x2001);
        set(0x2000 + 8 * 256, 0x3001);
        set(0x3000, 0x4001);
        set(0x4000 + 8, 0x8001);
        set(0x3000 + 8, 0x81);
        ram.0[0x8010] = 42;
        let space = Space::new(&ram, 0x1fff & !0xfff | 0x018, false);
        assert_eq!(space.physical(0x40_0000_1010), Some(0x8010));
        assert_eq!(space.physical(0x40_0020_3456), Some(0x3456));
        assert_eq!(space.physical(0x40_0000_0000), None);
        assert_eq!(space.physical(0x41_0000_0000), None);
        assert_eq!(space.read(0x40_0000_1010, 1), Some(vec![42]));
        assert_eq!(
            space.word(0x40_0000_1ffc),
            None,
            "the next page is not mapped"
        );
        assert_eq!(space.half(0x40_0000_1ffc), Some(0));
    }
}
