//! Kernel files of any content: opened, loaded, and run for a while with all devices.
//!
//! Virtual time bounds each run, and for any file the node stops with an error or continues to the
//! bound. Other targets create their small nodes with [`config`](boot::config), too. Called by name
//! from `lib.rs`.

use std::path::Path;
use std::sync::Arc;

use arbitrary::Unstructured;
use belljar_cpu::{CpuError, InstructionSet, Level, Vcpu};
use belljar_devices::virtio::Disk;
use belljar_exact::{CyclesPerInstruction, ExactConfig, ExactVcpu};
use belljar_sim::{Frequency, Random, Seed, Span, Time};
use belljar_vmm::{DiskConfig, KernelImage, NetConfig, Node, NodeConfig, NodeStop, VcpuParts};

pub(crate) const MEMORY: u64 = 64 << 20;
/// A cycle is a nanosecond.
const HERTZ: u64 = 1_000_000_000;
/// Virtual microseconds for a kernel's run.
const RUN: u64 = 8;

/// Boots the content of `data` after its first byte, which selects the header before the payload of a
/// compressed kernel.
pub(crate) fn target(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else {
        return;
    };
    let bytes = match kind & 3 {
        0 | 1 => bytes.to_vec(),
        2 => bzimage(bytes, bytes.len() as u32),
        _ => compressed(bytes),
    };
    let Ok(kernel) = KernelImage::from_bytes(Path::new("kernel"), &bytes) else {
        return;
    };
    let config = config(kernel);
    let Ok(mut node) = Node::new(&config, engine) else {
        return;
    };
    let mut u = Unstructured::new(&data[data.len() / 2..]);
    node.write_console(at(3), b"a line\n".to_vec());
    node.write_control(
        at(4),
        u.arbitrary::<[u8; 16]>().unwrap_or_default().to_vec(),
    );
    node.deliver_frame(at(5), vec![0xff; 64]);
    // A stub's call continues after it, at the address in the guest's registers.
    for _ in 0..100 {
        match node
            .run_until(at(RUN))
            .expect("a guest cannot make the host fail")
        {
            NodeStop::Magic { .. } => node.complete_magic(0),
            _ => break,
        }
    }
    node.take_frames();
    node.take_console();
}

/// A processor of a node.
pub(crate) fn engine(parts: VcpuParts) -> Result<Box<dyn Vcpu + Send>, CpuError> {
    Ok(Box::new(ExactVcpu::new(ExactConfig {
        ram: parts.ram,
        cpuid: parts.cpuid,
        instruction_set: parts.instruction_set,
        ratio: CyclesPerInstruction::default(),
        timing: None,
        random: Random::new(Seed(1), "fuzz", 0),
        host_results: false,
    })?))
}

pub(crate) fn at(microseconds: u64) -> Time {
    Time::ZERO + Span::from_us(microseconds)
}

/// A small node with a device of each kind.
pub(crate) fn config(kernel: KernelImage) -> NodeConfig {
    NodeConfig {
        index: 0,
        seed: Seed(1),
        memory: MEMORY,
        huge_pages: false,
        vcpus: 1,
        slice: belljar_sim::Span::from_us(10),
        frequency: Frequency::from_hz(HERTZ).expect("it is not zero"),
        instruction_set: InstructionSet::from(Level::V2),
        kernel: Arc::new(kernel),
        initrd: Some(b"initial ram disk"[..].into()),
        command_line: "quiet".to_owned(),
        disks: vec![DiskConfig {
            disk: Disk::from_bytes(vec![7; 8192]).writable(),
            name: "disk".to_owned(),
            latency: Span::from_us(1),
        }],
        infiniband: None,
        net: Some(NetConfig {
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            speed: 10_000,
            offload: false,
        }),
        date: 1_704_067_200,
        streams: 0,
        exit_device: true,
    }
}

/// A bzImage around `payload`, with the payload length `length` in its header.
fn bzimage(payload: &[u8], length: u32) -> Vec<u8> {
    let mut bytes = vec![0; 1040];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0x1f1, &[1]);
    put(0x1fe, &0xaa55u16.to_le_bytes());
    put(0x202, b"HdrS");
    put(0x206, &0x020fu16.to_le_bytes());
    put(0x211, &[1]);
    put(0x22c, &0x7fff_ffffu32.to_le_bytes());
    put(0x236, &1u16.to_le_bytes());
    put(0x238, &2047u32.to_le_bytes());
    put(0x248, &16u32.to_le_bytes());
    put(0x24c, &length.to_le_bytes());
    put(0x258, &LOAD.to_le_bytes());
    put(0x260, &0x20_0000u32.to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A bzImage with compressed `elf`, and the compressed kernel's size at its end, as Linux's build
/// writes it.
fn compressed(elf: &[u8]) -> Vec<u8> {
    let Ok(mut packed) = zstd::bulk::compress(elf, 1) else {
        return Vec::new();
    };
    packed.extend((elf.len() as u32).to_le_bytes());
    bzimage(&packed, packed.len() as u32)
}

const LOAD: u64 = 0x100_0000;

/// An ELF file of 64 bits with a segment of `code`, and a PVH note when there is an entry.
pub(crate) fn elf(code: &[u8], pvh: Option<u32>) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let mut put = |value: u64, size: usize| bytes.extend_from_slice(&value.to_le_bytes()[..size]);
    let headers = if pvh.is_some() { 2 } else { 1 };
    let start = 64 + 56 * headers;
    for (value, size) in [
        (2, 2),
        (0x3e, 2),
        (1, 4),
        (LOAD, 8),
        (64, 8),
        (0, 8),
        (0, 4),
    ] {
        put(value, size);
    }
    for value in [64, 56, headers, 64, 0, 0] {
        put(value, 2);
    }
    let length = code.len() as u64;
    put(1 | 7 << 32, 8);
    for value in [
        start,
        0xffff_ffff_8100_0000,
        LOAD,
        length,
        length + 4096,
        4096,
    ] {
        put(value, 8);
    }
    if pvh.is_some() {
        put(4 | 4 << 32, 8);
        for value in [start + length, 0, 0, 20, 20, 4] {
            put(value, 8);
        }
    }
    bytes.extend_from_slice(code);
    if let Some(entry) = pvh {
        for word in [4, 4, 18, u32::from_le_bytes(*b"Xen\0"), entry] {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes
}

/// A 32-bit ELF file whose code begins with a multiboot header.
fn multiboot(flags: u32, code: &[u8]) -> Vec<u8> {
    const MAGIC: u32 = 0x1bad_b002;
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let length = 12 + 20 + code.len() as u32;
    let load = LOAD as u32;
    bytes.extend([2, 0, 3, 0]);
    for word in [1, load + 32, 52, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    for half in [52u16, 32, 1, 40, 0, 0] {
        bytes.extend(half.to_le_bytes());
    }
    for word in [1, 84, load, load, length, length + 64, 7, 4096] {
        bytes.extend(word.to_le_bytes());
    }
    let sum = 0u32.wrapping_sub(MAGIC).wrapping_sub(flags);
    for word in [MAGIC, flags, sum, load, load, load + length, 0, load + 32] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend_from_slice(code);
    bytes
}

/// Kernels of every kind that touch devices.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // mov edx, 0x3f8; mov al, 'A'; out dx, al; in al, dx; mov ebx, 0xfeb00000;
    // mov eax, [rbx]; mov [rbx + 0x70], eax; mov ecx, 0x6e0; rdmsr; wrmsr; hlt
    let code: &[u8] = &[
        0xba, 0xf8, 0x03, 0, 0, 0xb0, 0x41, 0xee, 0xec, 0xbb, 0, 0, 0xb0, 0xfe, 0x8b, 0x03, 0x89,
        0x43, 0x70, 0xb9, 0xe0, 0x06, 0, 0, 0x0f, 0x32, 0x0f, 0x30, 0xf4,
    ];
    let plain = elf(code, None);
    let files = [
        (0, plain.clone()),
        (3, plain),
        (0, elf(code, Some(LOAD as u32))),
        (0, multiboot(0, code)),
        (0, multiboot(0x1_0003, code)),
        (2, vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0, 1, 0, 0, 9, 0, 0, 0]),
        (
            2,
            b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x04\0\x43\xbe\xb7\xe8\x01\0\0\0".to_vec(),
        ),
        (2, b"\xfd7zXZ\0\0\x01\x69\x22\xde\x36".to_vec()),
        (2, b"\x02\x21\x4c\x18\x05\0\0\0\x40abcd\x04\0\0\0".to_vec()),
        (0, bzimage(&[0; 64], 64)),
    ];
    files
        .into_iter()
        .map(|(kind, bytes)| [vec![kind], bytes].concat())
        .collect()
}
