//! Kernels of all kinds up to their first instruction, and errors of contents that do not fit.
use super::*;
use crate::config::NodeConfig;
use belljar_cpu::guest_ram;
use belljar_sim::{Frequency, Seed};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MEMORY: u64 = 64 << 20;

fn config(kernel: KernelImage) -> NodeConfig {
    NodeConfig {
        index: 0,
        seed: Seed(1),
        memory: MEMORY,
        huge_pages: false,
        vcpus: 1,
        slice: belljar_sim::Span::from_us(10),
        frequency: Frequency::from_hz(2_600_000_000).unwrap(),
        instruction_set: belljar_cpu::InstructionSet::default(),
        kernel: Arc::new(kernel),
        initrd: None,
        command_line: String::new(),
        disks: Vec::new(),
        net: None,
        infiniband: None,
        date: 0,
        streams: 0,
        exit_device: false,
    }
}

fn read<const N: usize>(ram: &GuestRam, addr: u64) -> [u8; N] {
    let mut bytes = [0; N];
    ram.read_slice(&mut bytes, GuestAddress(addr)).unwrap();
    bytes
}

fn word(ram: &GuestRam, addr: u64) -> u32 {
    u32::from_le_bytes(read(ram, addr))
}

fn open(bytes: &[u8]) -> Result<KernelImage, KernelError> {
    KernelImage::from_bytes(Path::new("some/vmlinuz"), bytes)
}

fn ram(memory: u64) -> GuestRam {
    guest_ram(&ram_ranges(memory)).unwrap()
}

#[test]
fn a_bzimage_boots_the_elf_inside() {
    let elf = synthetic::elf(b"\xf4\xeb\xfd kernel", 0x1_0000);
    let image = open(&synthetic::bzimage(&decompress::tests::pack_lz4(&elf))).unwrap();
    let mut config = config(image);
    config.command_line = "root=/dev/vda quiet".into();
    config.initrd = Some(b"initial ram disk"[..].into());
    let ram = ram(MEMORY);
    let start = load(&config, &ram).unwrap();
    assert_eq!(start.registers.rip, synthetic::LOAD);
    assert_eq!(&read::<10>(&ram, synthetic::LOAD), b"\xf4\xeb\xfd kernel");
    let page = start.registers.gpr[Registers::RSI];
    assert_eq!(&read::<4>(&ram, page + 0x202), b"HdrS");
    assert_eq!(
        word(&ram, page + 0x206) & 0xffff,
        0x020f,
        "the bzImage's own header"
    );
    let line = read::<256>(&ram, u64::from(word(&ram, page + 0x228)));
    let line = line.split(|byte| *byte == 0).next().unwrap();
    assert!(line.starts_with(b"console=ttyS0 ") && line.ends_with(b" root=/dev/vda quiet"));
    let (addr, len) = (word(&ram, page + 0x218), word(&ram, page + 0x21c));
    assert_eq!((addr, len), ((MEMORY - 4096) as u32, 16));
    assert_eq!(&read::<16>(&ram, u64::from(addr)), b"initial ram disk");
    let rsdp = u64::from_le_bytes(read(&ram, page + 0x70));
    assert_eq!(&read::<8>(&ram, rsdp), b"RSD PTR ");
    assert_eq!(read::<1>(&ram, page + 0x1e8), [3]);
}

#[test]
fn a_plain_elf_boots_too() {
    let image = open(&synthetic::elf(&[0xf4], 0)).unwrap();
    let ram = ram(MEMORY);
    let start = load(&config(image), &ram).unwrap();
    assert_eq!(start.registers.rip, synthetic::LOAD);
    assert_eq!(start.system.efer, 0x500);
    assert_eq!(
        &read::<4>(&ram, start.registers.gpr[Registers::RSI] + 0x202),
        b"HdrS"
    );
}

#[test]
fn a_multiboot_kernel_finds_its_table() {
    let mut config = config(open(&synthetic::multiboot(0, &[])).unwrap());
    config.command_line = "smp 1".into();
    config.initrd = Some(b"module"[..].into());
    let ram = ram(MEMORY);
    let start = load(&config, &ram).unwrap();
    assert_eq!(start.registers.rip, synthetic::LOAD);
    assert_eq!(start.registers.gpr[Registers::RAX], 0x2bad_b002);
    assert_eq!((start.system.cr0, start.system.efer), (0x31, 0));
    let info = start.registers.gpr[Registers::RBX];
    let line = read::<32>(&ram, u64::from(word(&ram, info + 16)));
    assert!(line.starts_with(b"vmlinuz smp 1\0"), "{line:?}");
    assert_eq!(word(&ram, info + 20), 1, "one module");
    let module = u64::from(word(&ram, u64::from(word(&ram, info + 24))));
    assert_eq!(&read::<6>(&ram, module), b"module");
    let map = u64::from(word(&ram, info + 48));
    assert_eq!((word(&ram, map), word(&ram, map + 12)), (20, 0x9_fc00));
}

#[test]
fn a_pvh_note_decides_how_an_elf_is_entered() {
    let entry = synthetic::LOAD as u32 + 2;
    let config = config(open(&synthetic::elf_with_pvh(b"\x90\x90\xf4", entry)).unwrap());
    let ram = ram(MEMORY);
    let start = load(&config, &ram).unwrap();
    assert_eq!(start.registers.rip, u64::from(entry));
    assert_eq!((start.system.cr0, start.system.efer), (0x31, 0));
    let info = start.registers.gpr[Registers::RBX];
    assert_eq!(word(&ram, info), 0x336e_c578);
    let rsdp = u64::from(word(&ram, info + 32));
    assert_eq!(&read::<8>(&ram, rsdp), b"RSD PTR ");
}

#[test]
fn bad_kernels_are_named_with_their_cause() {
    let elf = synthetic::elf(&[0xf4], 0);
    let good = synthetic::bzimage(&decompress::tests::pack_lz4(&elf));
    let corrupted = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        bytes
    };
    let cases: [(Vec<u8>, &str); 10] = [
        (b"#!/bin/sh".to_vec(), "neither a bzImage nor an ELF"),
        (Vec::new(), "neither a bzImage nor an ELF"),
        (corrupted(0x207, 0x01), "older than 0x0208"),
        (corrupted(0x236, 0), "32-bit kernel"),
        (
            synthetic::elf32(&[0xf4], 0, 0x10_0000),
            "neither a multiboot header nor a PVH note",
        ),
        (synthetic::elf_with_pvh(&[0xf4], 7), "PVH entry is outside"),
        (synthetic::multiboot(4, &[]), "wants features 0x4"),
        (corrupted(0x24f, 0xff), "past the end"),
        (synthetic::bzimage(b"BZh9"), "none of LZ4"),
        (
            synthetic::bzimage(&decompress::tests::pack_lz4(b"no ELF at all")),
            "no 64-bit x86 ELF",
        ),
    ];
    for (bytes, cause) in cases {
        let error = open(&bytes).unwrap_err().to_string();
        assert!(
            error.contains("some/vmlinuz") && error.contains(cause),
            "{error}"
        );
    }
    let missing = KernelImage::open(Path::new("no/such/vmlinuz")).unwrap_err();
    assert!(missing.to_string().contains("no/such/vmlinuz"));
}

#[test]
fn what_does_not_fit_is_refused() {
    let load = |config: NodeConfig| {
        super::load(&config, &ram(MEMORY))
            .map(|_| ())
            .unwrap_err()
            .to_string()
    };
    let large = open(&synthetic::elf(&[0xf4], MEMORY)).unwrap();
    assert!(load(config(large)).contains("does not fit into memory"));
    let mut outside = synthetic::elf(&[0xf4], 0);
    outside[24..32].copy_from_slice(&0x200_0000u64.to_le_bytes());
    assert!(load(config(open(&outside).unwrap())).contains("outside its segments"));
    let mut with_initrd = config(open(&synthetic::elf(&[0xf4], 0)).unwrap());
    with_initrd.initrd = Some(vec![0; MEMORY as usize - (16 << 20)].into());
    assert!(load(with_initrd).contains("initrd"));
    let mut long = config(open(&synthetic::elf(&[0xf4], 0)).unwrap());
    long.command_line = "x".repeat(2048);
    assert!(load(long).contains("command line"));
}

/// The vmlinuz files of built guest images.
fn cached_kernels() -> Vec<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let images = cache.map(|cache| cache.join("belljar/images"));
    let dirs = images.and_then(|images| std::fs::read_dir(images).ok());
    let mut found: Vec<PathBuf> = dirs
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|image| std::fs::read_dir(image.path()).ok())
        .flat_map(|files| files.flatten().map(|file| file.path()))
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
        })
        .chain(std::env::var_os("BELLJAR_TEST_KERNEL").map(PathBuf::from))
        .collect();
    found.sort();
    found
}

#[test]
fn distribution_kernels_load_when_there_are_any() {
    for path in cached_kernels() {
        let image = KernelImage::open(&path).unwrap();
        assert!(image.unpacked_len() > 10 << 20);
        let mut config = config(image);
        config.memory = 256 << 20;
        let ram = ram(config.memory);
        let start = load(&config, &ram).unwrap();
        let text = 0x100_0000..0x120_0000;
        assert!(text.contains(&start.registers.rip), "{}", path.display());
        assert_ne!(read::<16>(&ram, start.registers.rip), [0; 16]);
    }
}
