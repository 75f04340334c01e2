//! The layout of guest-physical memory.
//!
//! Boot structures do not overlap, and devices lie in the hole of RAM below 4 GiB. `boot` and its submodules write
//! to these addresses, the node's buses map devices to them, and nodes allocate RAM by `ram_ranges`.

/// Global descriptor table.
pub(super) const GDT: u64 = 0x500;
/// `struct boot_params`, one page.
pub(super) const ZERO_PAGE: u64 = 0x7000;
/// The initial stack pointer of the kernel.
pub(super) const STACK: u64 = 0x8ff0;
/// Six pages of page tables.
pub(super) const PAGE_TABLES: u64 = 0x9000;
/// The kernel's command line.
pub(super) const COMMAND_LINE: u64 = 0x2_0000;
/// Its largest size, the closing zero included.
pub(super) const COMMAND_LINE_SIZE: usize = 0x1_0000;
/// End of the RAM that PCs have below their adapter area.
pub(super) const CONVENTIONAL_END: u64 = 0x9_fc00;
/// ACPI tables, in the area that kernels search for the RSDP.
pub(super) const ACPI: u64 = 0xe_0000;
/// Start of RAM above the adapter area; kernels are loaded here or higher.
pub(super) const HIGH_MEMORY: u64 = 0x10_0000;

/// Areas of the first MiB that a kernel without page tables must not be loaded over.
const TAKEN: [(std::ops::Range<u64>, &str); 4] = [
    (0..0x600, "the descriptor table is"),
    (ZERO_PAGE..ZERO_PAGE + 0x1000, "the boot information is"),
    (
        COMMAND_LINE..COMMAND_LINE + COMMAND_LINE_SIZE as u64,
        "the command line is",
    ),
    (CONVENTIONAL_END..HIGH_MEMORY, "there is no RAM for kernels"),
];

/// The boot structure that overlaps `bytes` bytes at `addr`.
pub(super) fn taken(addr: u64, bytes: u64) -> Option<&'static str> {
    let end = addr.saturating_add(bytes);
    let hit = TAKEN
        .iter()
        .find(|(range, _)| addr < range.end && end > range.start);
    hit.map(|(_, what)| *what)
}

/// End of RAM below the hole; further RAM continues at [`ABOVE_HOLE`].
const HOLE: u64 = 3 << 30;
const ABOVE_HOLE: u64 = 4 << 30;

/// First of the consecutive virtio-mmio windows.
pub(crate) const VIRTIO_BASE: u64 = 0xd000_0000;
/// The largest number of virtio devices of a node.
pub(crate) const MAX_SLOTS: usize = PINS.len();
/// IO-APIC pins of virtio devices, by slot: those above the 16 of ISA, then two unused ones of ISA.
const PINS: [usize; 10] = [16, 17, 18, 19, 20, 21, 22, 23, 10, 11];

/// The IO-APIC pin of the virtio device in `slot`.
pub(crate) fn slot_pin(slot: usize) -> usize {
    PINS[slot]
}

/// The end of RAM below the hole.
pub(super) fn low_end(memory: u64) -> u64 {
    memory.min(HOLE)
}

/// RAM as `(start, bytes)`.
pub(crate) fn ram_ranges(memory: u64) -> Vec<(u64, usize)> {
    let low = low_end(memory);
    let mut ranges = vec![(0, low as usize)];
    if memory > low {
        ranges.push((ABOVE_HOLE, (memory - low) as usize));
    }
    ranges
}
