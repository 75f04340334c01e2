//! Loads a kernel file and sets a processor to the kernel's first instruction.
//!
//! The kernel's kind selects the entry: the Linux 64-bit protocol, PVH or Multiboot. Contents that
//! do not fit into memory are an error that names them, and a kernel file cannot write outside
//! guest RAM. `Node::new` calls `load` once, for the first processor.

/// ACPI tables of a hardware-reduced machine.
mod acpi;
/// Compressed kernels, distinguished by magic.
mod decompress;
/// ELF files of either class: segments and the PVH entry point.
mod elf;
/// The processor's state at a kernel's entry.
mod entry;
/// Kernel files: a bzImage or an ELF file.
pub(crate) mod kernel;
/// The layout of guest-physical memory.
pub(crate) mod layout;
/// Kernels after the Multiboot specification, version 0.6.96.
mod multiboot;
/// The PVH convention: a 32-bit entry, given by a note of the ELF file.
mod pvh;
/// `struct boot_params`, the zero page.
mod zero_page;

use belljar_cpu::{GuestRam, Registers, SystemRegisters};
use vm_memory::{Bytes, GuestAddress};

use crate::config::NodeConfig;
use kernel::Protocol;

pub use decompress::DecompressError;
#[cfg(test)]
pub(crate) use kernel::synthetic;
pub use kernel::{KernelError, KernelImage};
pub(crate) use layout::{MAX_SLOTS, VIRTIO_BASE, ram_ranges, slot_pin};

/// The command line that every guest gets: the console, only the TSC as clock, no waiting for
/// absent hardware, and a reset on panic. Nodes with a PCI bus get it without [`NO_PCI`].
pub const DEFAULT_COMMAND_LINE: &str = "console=ttyS0 panic=-1 reboot=acpi tsc=reliable \
     mitigations=off random.trust_cpu=on pci=off nokaslr";

/// The word of the command line of nodes without a PCI bus.
const NO_PCI: &str = "pci=off ";

/// Errors of loading a kernel.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The kernel does not fit or is invalid.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// The initial RAM disk does not fit.
    #[error(
        "an initrd of {len} bytes does not fit between the kernel's end at {kernel_end:#x} and {limit:#x}; give the node more memory"
    )]
    Initrd {
        /// Its length in bytes.
        len: usize,
        /// End of the kernel in guest-physical memory.
        kernel_end: u64,
        /// End of low memory.
        limit: u64,
    },
    /// The command line is too long for the kernel, or contains a zero byte.
    #[error(
        "the kernel's command line has {len} bytes, and this kernel takes {limit} without zeros; shorten it"
    )]
    CommandLine {
        /// Its length in bytes.
        len: usize,
        /// The longest that the kernel accepts.
        limit: usize,
    },
    /// A structure does not fit into memory.
    #[error("cannot place the {what} at {addr:#x}: {source}; give the node more memory")]
    Place {
        /// Name of the structure.
        what: &'static str,
        /// Its guest-physical address.
        addr: u64,
        /// The memory's error.
        source: vm_memory::GuestMemoryError,
    },
}

/// The processor's initial state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) registers: Registers,
    pub(crate) system: SystemRegisters,
}

/// Loads the kernel, initrd and command line of `config` into `ram`.
pub(crate) fn load(config: &NodeConfig, ram: &GuestRam) -> Result<Start, BootError> {
    let low_end = layout::low_end(config.memory);
    let loaded = config.kernel.load(ram, low_end)?;
    let initrd = match &config.initrd {
        Some(bytes) => Some(place_initrd(ram, bytes, &loaded, low_end)?),
        None => None,
    };
    let command_line = command_line(config, &loaded)?;
    place(ram, "command line", layout::COMMAND_LINE, &command_line)?;
    let has_pci = config.infiniband.is_some();
    let tables = acpi::tables(config.vcpus, config.virtio_devices(), has_pci);
    place(ram, "ACPI tables", layout::ACPI, &tables.bytes)?;
    let map = zero_page::memory_map(config.memory);
    let page = match loaded.protocol {
        Protocol::Linux => zero_page::build(&map, &loaded, initrd, tables.rsdp),
        Protocol::Multiboot => multiboot::information(layout::ZERO_PAGE, &map, initrd),
        Protocol::Pvh => pvh::start_info(layout::ZERO_PAGE, &map, initrd, tables.rsdp),
    };
    place(ram, "zero page", layout::ZERO_PAGE, &page)?;
    place(ram, "descriptor table", layout::GDT, &entry::gdt())?;
    if loaded.protocol != Protocol::Linux {
        return Ok(Start {
            registers: entry::flat_registers(loaded.entry, loaded.protocol),
            system: entry::flat_system(),
        });
    }
    place(
        ram,
        "page tables",
        layout::PAGE_TABLES,
        &entry::page_tables(),
    )?;
    Ok(Start {
        registers: entry::registers(loaded.entry),
        system: entry::system(),
    })
}

fn place(ram: &GuestRam, what: &'static str, addr: u64, bytes: &[u8]) -> Result<(), BootError> {
    ram.write_slice(bytes, GuestAddress(addr))
        .map_err(|source| BootError::Place { what, addr, source })
}

/// Puts the initrd as high as the kernel allows. Returns its address and length.
fn place_initrd(
    ram: &GuestRam,
    bytes: &[u8],
    kernel: &kernel::Loaded,
    low_end: u64,
) -> Result<(u64, u64), BootError> {
    let limit = low_end.min(kernel.initrd_limit);
    let addr = limit
        .checked_sub(bytes.len() as u64)
        .map(|addr| addr & !0xfff);
    let Some(addr) = addr.filter(|addr| *addr >= kernel.end) else {
        let kernel_end = kernel.end;
        let len = bytes.len();
        return Err(BootError::Initrd {
            len,
            kernel_end,
            limit,
        });
    };
    place(ram, "initrd", addr, bytes)?;
    Ok((addr, bytes.len() as u64))
}

fn command_line(config: &NodeConfig, kernel: &kernel::Loaded) -> Result<Vec<u8>, BootError> {
    // A Multiboot command line begins with the kernel's name.
    let mut line = match kernel.protocol {
        Protocol::Linux | Protocol::Pvh => match config.infiniband {
            Some(_) => DEFAULT_COMMAND_LINE.replace(NO_PCI, ""),
            None => DEFAULT_COMMAND_LINE.to_owned(),
        },
        Protocol::Multiboot => config.kernel.name(),
    };
    if !config.command_line.is_empty() {
        line.push(' ');
        line.push_str(&config.command_line);
    }
    let limit = kernel.command_line_limit.min(layout::COMMAND_LINE_SIZE - 1);
    if line.len() > limit || line.contains('\0') {
        return Err(BootError::CommandLine {
            len: line.len(),
            limit,
        });
    }
    let mut bytes = line.into_bytes();
    bytes.push(0);
    Ok(bytes)
}

#[cfg(test)]
mod tests;
