//! Programs of any content: unwinding, and symbol lookup.
//!
//! The file is mapped in a process whose stack returns into it, and is at all paths of a guest, so that its debug
//! links lead to itself. Called by name from `lib.rs`.

use std::sync::Arc;

use belljar_symbols::{FileSource, KernelSymbols, Symbols};
use belljar_unwind::{Code, Files, Mappings, Memory, PAGE, Unwinder};

/// Address of the file's mapping.
const BASE: u64 = 0x5555_0000_0000;

/// A process with only the file, which contains its stack, too.
struct Process(Vec<u8>);

impl Memory for Process {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let start = address
            .checked_sub(BASE)
            .and_then(|it| usize::try_from(it).ok());
        let bytes = start.and_then(|start| self.0.get(start..start.checked_add(into.len())?));
        bytes.is_some_and(|bytes| {
            into.copy_from_slice(bytes);
            true
        })
    }
}

/// A guest whose files are all equal.
struct Same<'a>(&'a [u8]);

impl FileSource for Same<'_> {
    fn find(&self, _: &str, fits: &mut dyn FnMut(&[u8]) -> bool) -> Option<Vec<u8>> {
        fits(self.0).then(|| self.0.to_vec())
    }
}

/// Unwinds a stack in the file, and looks up symbols in it.
pub(crate) fn target(data: &[u8]) {
    let mut memory = data.to_vec();
    memory.resize(memory.len().next_multiple_of(PAGE) + PAGE, 0);
    let mut files = Files::default();
    let own = data.to_vec();
    files.add("/bin/it", &data[..data.len().min(PAGE)], move || {
        Code::parse(&own[..])
    });
    let mut unwinder = Unwinder::new(Arc::new(files));
    let process = Process(memory);
    for stack in [0x40, 0x80, 0x400] {
        let registers = [BASE + stack; 16];
        let mut mappings = Mappings::default();
        let frames = unwinder.frames(&registers, &mut mappings, &process, 16);
        assert!(frames.len() <= 16 && mappings.is_sound());
    }
    if let Some(symbols) = KernelSymbols::of(data) {
        let named = symbols
            .functions()
            .next()
            .and_then(|(at, _)| symbols.function(at));
        assert!(symbols.functions().next().is_none() || named.is_some());
    }
    let source = Same(data);
    let mut symbols = Symbols::new(&source);
    for address in [0, 0x1000, 0x1010, u64::MAX] {
        assert!(!symbols.places("/bin/it", &[], address).is_empty());
    }
}

/// A file with headers, a segment and unwind tables, and a stack that leads into it.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut file = vec![0; 0x2000];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    put(0x10, &[3, 0, 62, 0, 1]);
    put(0x20, &0x40u64.to_le_bytes());
    put(0x34, &[64, 0, 56, 0, 2, 0, 64, 0]);
    for (at, kind, start, length) in [(0x40, 1u32, 0u64, 0x2000u64), (0x78, 0x6474_e550, 0x500, 8)]
    {
        put(at, &kind.to_le_bytes());
        put(at + 4, &[5]);
        for (field, value) in [(8, start), (16, start), (32, length), (40, length)] {
            put(at + field, &value.to_le_bytes());
        }
    }
    put(0x400, &(BASE + 0x1010).to_le_bytes());
    put(0x408, &(BASE + 0x1020).to_le_bytes());
    put(0x500, &[1, 0x1b, 0xff, 0xff]);
    put(0x504, &(0x600i32 - 0x504).to_le_bytes());
    // A rule for all code, then for a function at 0x1000.
    put(0x600, &[20, 0, 0, 0, 0, 0, 0, 0, 1]);
    put(0x609, b"zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01");
    put(0x618, &[16, 0, 0, 0, 28, 0, 0, 0]);
    put(0x620, &(0x1000i32 - 0x620).to_le_bytes());
    put(0x624, &[0, 1, 0, 0]);
    vec![file]
}
