//! Kernel files: a bzImage, an ELF file or a Multiboot file. A bzImage's ELF payload is unpacked on
//! the host; its own decompressor never runs. An ELF file is entered by its PVH note, or else as
//! Linux.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use belljar_cpu::GuestRam;
use linux_loader::loader::bootparam::setup_header;
use linux_loader::loader::{Elf, KernelLoader};
use vm_memory::{ByteValued, Bytes, GuestAddress};

use super::decompress::{self, DecompressError};
use super::elf::ElfFile;
use super::{layout, multiboot};

/// The largest kernel file; distributions' are near 10 MiB.
const MOST_FILE: u64 = 512 << 20;

const HEADER_OFFSET: usize = 0x1f1;
const HEADER_MAGIC: u32 = u32::from_le_bytes(*b"HdrS");
const BOOT_FLAG: u16 = 0xaa55;
const SECTOR: usize = 512;
/// The first boot protocol whose header locates the payload.
const PROTOCOL_WITH_PAYLOAD: u16 = 0x0208;
/// The first boot protocol whose `xloadflags` announce a 64-bit entry.
const PROTOCOL_WITH_FLAGS: u16 = 0x020c;
const FLAG_KERNEL_64: u16 = 1;
/// Limits for a kernel without a setup header, as in the protocol of Linux 6.1.
const PROTOCOL_OF_ELF: u16 = 0x020f;
const COMMAND_LINE_OF_ELF: u32 = 2047;
const INITRD_LIMIT_OF_ELF: u32 = 0x7fff_ffff;

/// Errors of reading a kernel file.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The file cannot be read.
    #[error("cannot read kernel {path}: {source}; check the path, or build the image first")]
    Read {
        /// The file.
        path: PathBuf,
        /// The host's reason.
        source: io::Error,
    },
    /// The file is no kernel.
    #[error(
        "{path} is not a kernel that can be started: {reason}; use a 64-bit bzImage (vmlinuz), an ELF file (vmlinux), or one with a multiboot header or PVH note"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// A description of the defect.
        reason: String,
    },
    /// The compressed kernel cannot be unpacked.
    #[error(
        "cannot unpack kernel {path}: {source}; the file may be damaged, fetch or build it again"
    )]
    Unpack {
        /// The file.
        path: PathBuf,
        /// The unpacking error.
        source: DecompressError,
    },
    /// The kernel does not fit.
    #[error(
        "kernel {path} does not fit into memory ending at {limit:#x}: {reason}; give the node more memory"
    )]
    Fit {
        /// The file.
        path: PathBuf,
        /// End of low memory.
        limit: u64,
        /// The part that does not fit.
        reason: String,
    },
}

/// A kernel, unpacked; any number of nodes share one.
#[derive(Clone)]
pub struct KernelImage {
    path: PathBuf,
    contents: Vec<u8>,
    plan: KernelLoad,
}

/// The way to load and enter a kernel.
#[derive(Clone)]
enum KernelLoad {
    /// In 64-bit mode, with a zero page.
    Linux(Box<setup_header>),
    /// In 32-bit mode.
    Flat {
        protocol: Protocol,
        plan: multiboot::LoadPlan,
    },
}

/// A kernel's entry protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The Linux boot protocol's 64-bit entry.
    Linux,
    /// Multiboot: 32-bit protected mode without paging.
    Multiboot,
    /// PVH: likewise.
    Pvh,
}

impl std::fmt::Debug for KernelImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelImage")
            .field("path", &self.path)
            .field("contents", &self.contents.len())
            .finish_non_exhaustive()
    }
}

/// A kernel loaded into memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loaded {
    /// Guest-physical address of its first instruction.
    pub(super) entry: u64,
    /// End of the memory that it uses before reading the memory map.
    pub(super) end: u64,
    pub(super) protocol: Protocol,
    pub(super) header: setup_header,
    /// End of the memory in which its initrd may lie.
    pub(super) initrd_limit: u64,
    /// The longest command line that it accepts, without the closing zero.
    pub(super) command_line_limit: usize,
}

impl KernelImage {
    /// Reads and unpacks the kernel at `path`.
    ///
    /// # Errors
    /// [`KernelError`], naming the file and the cause.
    pub fn open(path: &Path) -> Result<Self, KernelError> {
        let read = |source| KernelError::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(read)?;
        let mut bytes = Vec::new();
        file.take(MOST_FILE + 1)
            .read_to_end(&mut bytes)
            .map_err(read)?;
        if bytes.len() as u64 > MOST_FILE {
            return Err(format_error(path, "it has more than 512 MiB"));
        }
        Self::from_bytes(path, &bytes)
    }

    /// The unpacked contents; for a bzImage, the ELF file.
    pub fn contents(&self) -> &[u8] {
        &self.contents
    }

    /// Parses a kernel file's contents; `path` only names it in errors.
    ///
    /// # Errors
    /// [`KernelError`], naming the file and the cause.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, KernelError> {
        if let Some(header) = setup_header_of(bytes) {
            return Self::from_bzimage(path, header, bytes);
        }
        let (contents, plan) = if let Some(header) = multiboot::header_of(bytes) {
            let plan = multiboot::plan(bytes, header).map_err(|why| format_error(path, &why))?;
            let protocol = Protocol::Multiboot;
            (bytes, KernelLoad::Flat { protocol, plan })
        } else if bytes.starts_with(b"\x7fELF") {
            (bytes, plan_of_elf(path, bytes)?)
        } else {
            return Err(format_error(
                path,
                "it is neither a bzImage nor an ELF file, and has no multiboot header",
            ));
        };
        Ok(Self {
            path: path.to_owned(),
            contents: contents.to_vec(),
            plan,
        })
    }

    fn from_bzimage(path: &Path, header: setup_header, bytes: &[u8]) -> Result<Self, KernelError> {
        let packed = payload(path, &header, bytes)?;
        let contents = decompress::decompress(packed).map_err(|source| KernelError::Unpack {
            path: path.to_owned(),
            source,
        })?;
        if !is_elf64(&contents) {
            return Err(format_error(
                path,
                "what it contains is no 64-bit x86 ELF file",
            ));
        }
        Ok(Self {
            path: path.to_owned(),
            contents,
            plan: KernelLoad::Linux(Box::new(header)),
        })
    }

    /// The unpacked kernel's size in bytes.
    pub fn unpacked_len(&self) -> usize {
        self.contents.len()
    }

    /// The file's name without its folder.
    pub(super) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Loads the kernel at its own addresses.
    pub(super) fn load(&self, ram: &GuestRam, low_end: u64) -> Result<Loaded, KernelError> {
        match &self.plan {
            KernelLoad::Linux(header) => self.load_linux(header, ram, low_end),
            KernelLoad::Flat { protocol, plan } => self.load_flat(*protocol, plan, ram, low_end),
        }
    }

    fn load_linux(
        &self,
        header: &setup_header,
        ram: &GuestRam,
        low_end: u64,
    ) -> Result<Loaded, KernelError> {
        let start = Some(GuestAddress(layout::HIGH_MEMORY));
        let loaded = Elf::load(ram, None, &mut Cursor::new(&self.contents[..]), start)
            .map_err(|error| self.unfit(low_end, error.to_string()))?;
        let entry = loaded.kernel_load.0;
        let header = *header;
        let run_end = header
            .pref_address
            .saturating_add(u64::from(header.init_size));
        let end = loaded.kernel_end.max(run_end);
        if entry >= loaded.kernel_end {
            return Err(format_error(
                &self.path,
                "its entry point is outside its segments",
            ));
        }
        if end > low_end {
            return Err(self.unfit(low_end, format!("it needs memory up to {end:#x}")));
        }
        Ok(Loaded {
            entry,
            end,
            protocol: Protocol::Linux,
            header,
            initrd_limit: u64::from(header.initrd_addr_max).saturating_add(1),
            command_line_limit: header.cmdline_size as usize,
        })
    }

    /// Loads a kernel at its own addresses, unless they overlap the boot structures.
    fn load_flat(
        &self,
        protocol: Protocol,
        plan: &multiboot::LoadPlan,
        ram: &GuestRam,
        low_end: u64,
    ) -> Result<Loaded, KernelError> {
        if plan.end > low_end {
            let end = plan.end;
            return Err(self.unfit(low_end, format!("it needs memory up to {end:#x}")));
        }
        for (addr, range) in &plan.parts {
            if let Some(taken) = layout::taken(*addr, range.len() as u64) {
                let reason = format!("it wants to be loaded at {addr:#x}, where {taken}");
                return Err(format_error(&self.path, &reason));
            }
            ram.write_slice(&self.contents[range.clone()], GuestAddress(*addr))
                .map_err(|error| self.unfit(low_end, error.to_string()))?;
        }
        Ok(Loaded {
            entry: plan.entry,
            end: plan.end,
            protocol,
            header: header_of_elf(),
            initrd_limit: u64::MAX,
            command_line_limit: usize::MAX,
        })
    }

    fn unfit(&self, limit: u64, reason: String) -> KernelError {
        KernelError::Fit {
            path: self.path.clone(),
            limit,
            reason,
        }
    }
}

/// An ELF file is entered by its PVH note, or else as Linux.
fn plan_of_elf(path: &Path, bytes: &[u8]) -> Result<KernelLoad, KernelError> {
    let elf = ElfFile::parse(bytes).map_err(|why| format_error(path, &why))?;
    if let Some(entry) = elf.pvh_entry {
        if !elf.holds(entry) {
            return Err(format_error(path, "its PVH entry is outside its segments"));
        }
        let plan = multiboot::LoadPlan::of_elf(&elf, bytes, entry);
        let protocol = Protocol::Pvh;
        return Ok(KernelLoad::Flat { protocol, plan });
    }
    if !is_elf64(bytes) {
        return Err(format_error(
            path,
            "it is no 64-bit x86 ELF file and has neither a multiboot header nor a PVH note",
        ));
    }
    Ok(KernelLoad::Linux(Box::new(header_of_elf())))
}

/// The setup header of a bzImage; `None` for other files.
fn setup_header_of(bytes: &[u8]) -> Option<setup_header> {
    let mut header = setup_header::default();
    let size = size_of::<setup_header>();
    let raw = bytes.get(HEADER_OFFSET..HEADER_OFFSET + size)?;
    header.as_mut_slice().copy_from_slice(raw);
    (header.boot_flag == BOOT_FLAG && header.header == HEADER_MAGIC).then_some(header)
}

fn header_of_elf() -> setup_header {
    setup_header {
        version: PROTOCOL_OF_ELF,
        loadflags: 1,
        kernel_alignment: 0x20_0000,
        cmdline_size: COMMAND_LINE_OF_ELF,
        initrd_addr_max: INITRD_LIMIT_OF_ELF,
        ..Default::default()
    }
}

/// The compressed kernel inside a bzImage.
fn payload<'a>(
    path: &Path,
    header: &setup_header,
    bytes: &'a [u8],
) -> Result<&'a [u8], KernelError> {
    let (version, flags) = (header.version, header.xloadflags);
    if version < PROTOCOL_WITH_PAYLOAD {
        let reason = format!("its boot protocol {version:#06x} is older than 0x0208");
        return Err(format_error(path, &reason));
    }
    if version >= PROTOCOL_WITH_FLAGS && flags & FLAG_KERNEL_64 == 0 {
        return Err(format_error(path, "it is a 32-bit kernel"));
    }
    let sectors = if header.setup_sects == 0 {
        4
    } else {
        usize::from(header.setup_sects)
    };
    let start = (sectors + 1) * SECTOR;
    let start = start.checked_add(header.payload_offset as usize);
    let end = start.and_then(|start| start.checked_add(header.payload_length as usize));
    start
        .zip(end)
        .and_then(|(start, end)| bytes.get(start..end))
        .ok_or_else(|| format_error(path, "its compressed kernel goes past the end of the file"))
}

/// 64-bit, little-endian, x86-64.
fn is_elf64(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF\x02\x01") && bytes.get(18..20) == Some(&[0x3e, 0])
}

fn format_error(path: &Path, reason: &str) -> KernelError {
    KernelError::Format {
        path: path.to_owned(),
        reason: reason.to_owned(),
    }
}

/// Small kernels for tests: an ELF file with one segment, and a bzImage around one.
#[cfg(test)]
pub(crate) mod synthetic;
