//! The machine on which code under test runs, natively and in a guest: registers,
//! and an arena of memory with pages of every kind, at the same linear addresses.

/// Comparison of results that the engine defines itself.
pub mod defined;
/// The machine in a guest of the engine.
pub mod guest;
/// Initial states of code.
pub mod inputs;
/// Differences between processors of several makers.
pub mod makers;
/// Results that the architecture leaves open.
pub mod open;

use std::fmt::Write;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// The memory that code under test may access.
pub const ARENA: u64 = 0x1000_0000;
/// The address of code under test.
pub const CODE_AT: u64 = 0x1200_0000;
/// The vector of code that ran to its end.
pub const END: u8 = 3;

/// Permissions of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    None,
    Read,
    Write,
}

/// The arena's pages.
pub const ARENA_PAGES: [Rights; 5] = [
    Rights::Write,
    Rights::Write,
    Rights::None,
    Rights::Read,
    Rights::None,
];

/// Half the bytes of a window.
pub const HALF: u64 = 256;
/// A window of random data on both sides of a boundary between pages.
pub const INNER: u64 = ARENA + PAGE - HALF;
/// A window that ends before an unmapped page.
pub const LAST: u64 = ARENA + 2 * PAGE - HALF;
/// The read-only page.
pub const CONSTANT: u64 = ARENA + 3 * PAGE;
/// Bytes of each window.
const WINDOWS: [(u64, usize); 2] = [(INNER, 2 * HALF as usize), (LAST, HALF as usize)];
pub const MEMORY_BYTES: usize = 3 * HALF as usize;

/// The arithmetic flags.
pub const ARITHMETIC: u64 = 0x8d5;
/// Flags visible to user code: these, DF and AC.
const VISIBLE_FLAGS: u64 = ARITHMETIC | 1 << 10 | 1 << 18;

pub fn host_has_wide() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

pub fn host_has_masks() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
        && std::arch::is_x86_feature_detected!("avx512bw")
}

/// The contents of the read-only page.
pub fn constant_page() -> Vec<u8> {
    (0..PAGE).map(|at| (at * 37 + at / 251) as u8).collect()
}

/// All registers, in the layout for native loads and saves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Registers {
    pub gpr: [u64; 16],
    pub flags: u64,
    pub host_rsp: u64,
    pub host_mxcsr: u32,
    pub masks: [u64; 8],
    pub fx: Fx,
    pub vectors: [[u8; 64]; 32],
}

/// An FXSAVE image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Fx(pub [u8; 512]);

impl Default for Registers {
    fn default() -> Self {
        let mut fx = Fx([0; 512]);
        fx.0[0..2].copy_from_slice(&0x37fu16.to_le_bytes());
        fx.0[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
        Self {
            gpr: [0; 16],
            flags: 2,
            host_rsp: 0,
            host_mxcsr: 0x1f80,
            masks: [0; 8],
            fx,
            vectors: [[0; 64]; 32],
        }
    }
}

impl Registers {
    pub fn mxcsr(&self) -> u32 {
        u32::from_le_bytes(self.fx.0[24..28].try_into().unwrap())
    }

    pub fn set_mxcsr(&mut self, value: u32) {
        self.fx.0[24..28].copy_from_slice(&value.to_le_bytes());
    }

    /// Clears registers that this host lacks, and copies XMM0 to XMM15 to the image for FXRSTOR.
    pub fn settle(&mut self) {
        if !host_has_masks() {
            let width = if host_has_wide() { 32 } else { 16 };
            let (low, high) = self.vectors.split_at_mut(16);
            low.iter_mut().for_each(|vector| vector[width..].fill(0));
            high.fill([0; 64]);
            self.masks.fill(0);
        }
        for number in 0..16 {
            let place = 160 + number * 16;
            let low: [u8; 16] = self.vectors[number][..16].try_into().unwrap();
            self.fx.0[place..place + 16].copy_from_slice(&low);
        }
    }

    /// Clears values outside the program's control: pointers of the x87, reserved fields, system
    /// flags.
    pub fn clean(&mut self) {
        if !host_has_wide() {
            for number in 0..16 {
                let place = 160 + number * 16;
                let low: [u8; 16] = self.fx.0[place..place + 16].try_into().unwrap();
                self.vectors[number][..16].copy_from_slice(&low);
            }
        }
        self.flags &= VISIBLE_FLAGS;
        self.host_rsp = 0;
        self.fx.0[5..24].fill(0);
        self.fx.0[28..32].fill(0);
        for register in 0..8 {
            self.fx.0[32 + register * 16 + 10..48 + register * 16].fill(0);
        }
        self.fx.0[160..].fill(0);
    }
}

/// Registers and the arena's windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    pub registers: Registers,
    pub memory: Vec<u8>,
}

impl Machine {
    pub fn windows(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let (inner, last) = self.memory.split_at(WINDOWS[0].1);
        [(WINDOWS[0].0, inner), (WINDOWS[1].0, last)].into_iter()
    }

    /// Clears `bytes` bytes from `first` on, as far as they are in windows.
    pub fn clear(&mut self, first: u64, bytes: u64) {
        for (place, window) in self.windows_mut() {
            for (at, byte) in window.iter_mut().enumerate() {
                if (place + at as u64).wrapping_sub(first) < bytes {
                    *byte = 0;
                }
            }
        }
    }

    pub fn windows_mut(&mut self) -> impl Iterator<Item = (u64, &mut [u8])> {
        let (inner, last) = self.memory.split_at_mut(WINDOWS[0].1);
        [(WINDOWS[0].0, inner), (WINDOWS[1].0, last)].into_iter()
    }
}

/// The end of code: place, exception, and final state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The exception, or [`END`].
    pub vector: u8,
    /// Address of the instruction that raised it.
    pub rip: u64,
    /// Error code of a page fault.
    pub error: Option<u64>,
    /// Address of a page fault.
    pub address: Option<u64>,
    pub machine: Machine,
}

impl Outcome {
    /// The differences from `other`, line by line; empty if equal. Each flag of `open` may be zero
    /// instead: the engine does so at a fault if later code overwrites the flag without reading it.
    pub fn differences(&self, other: &Self, open: u64) -> String {
        if self == other {
            return String::new();
        }
        let mut text = String::new();
        let mut differ = |name: &str, ours: String, theirs: String| {
            if ours != theirs {
                let _ = writeln!(text, "  {name}: {ours} and not {theirs}");
            }
        };
        differ(
            "vector",
            format!("{}", self.vector),
            format!("{}", other.vector),
        );
        differ(
            "rip",
            format!("{:#x}", self.rip),
            format!("{:#x}", other.rip),
        );
        differ(
            "error",
            format!("{:x?}", self.error),
            format!("{:x?}", other.error),
        );
        differ(
            "cr2",
            format!("{:x?}", self.address),
            format!("{:x?}", other.address),
        );
        let (ours, theirs) = (&self.machine.registers, &other.machine.registers);
        for number in 0..16 {
            let name = format!("gpr {number}");
            differ(
                &name,
                format!("{:#x}", ours.gpr[number]),
                format!("{:#x}", theirs.gpr[number]),
            );
        }
        let mask = !open | ours.flags;
        differ(
            "flags",
            format!("{:#x}", ours.flags & mask),
            format!("{:#x}", theirs.flags & mask),
        );
        differ(
            "mxcsr",
            format!("{:#x}", ours.mxcsr()),
            format!("{:#x}", theirs.mxcsr()),
        );
        for number in 0..8 {
            let name = format!("k{number}");
            differ(
                &name,
                format!("{:#x}", ours.masks[number]),
                format!("{:#x}", theirs.masks[number]),
            );
        }
        for number in 0..32 {
            let name = format!("vector {number}");
            differ(
                &name,
                hex(&ours.vectors[number]),
                hex(&theirs.vectors[number]),
            );
        }
        differ("x87", hex(&ours.fx.0[..160]), hex(&theirs.fx.0[..160]));
        for ((place, ours), (_, theirs)) in self.machine.windows().zip(other.machine.windows()) {
            for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                if ours != theirs {
                    let name = format!("memory {:#x}", place + at as u64);
                    differ(&name, format!("{ours:02x}"), format!("{theirs:02x}"));
                }
            }
        }
        text
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
