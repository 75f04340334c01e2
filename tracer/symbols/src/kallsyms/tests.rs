//! Tables of both generations of kernels, and bytes that are not tables.

use proptest::prelude::*;

use super::*;

const BASE: u64 = 0xffff_ffff_8100_0000;

/// The position and the meaning of offsets.
#[derive(Clone, Copy)]
struct Layout {
    is_before: bool,
    has_absolute: bool,
    seqs: bool,
}

const OLD: Layout = Layout {
    is_before: true,
    has_absolute: true,
    seqs: false,
};

const NEW: Layout = Layout {
    is_before: false,
    has_absolute: false,
    seqs: true,
};

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

/// Returns the token with this number: `do_` for one, letters and digits for themselves.
fn token(number: u8) -> Vec<u8> {
    match number {
        1 => b"do_".to_vec(),
        b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'_' => vec![number],
        _ => Vec::new(),
    }
}

/// Returns symbol number `index`: its offset, kind and name; every tenth is data, the last ones have long names.
fn symbol(index: u32) -> (u32, u8, String) {
    let kind = if index % 10 == 9 { b'D' } else { b't' };
    let long = if index >= 590 {
        "x".repeat(200)
    } else {
        String::new()
    };
    (index * 16, kind, format!("do_{index}{long}"))
}

/// A kernel of 600 symbols with other data before and after its table.
fn kernel(layout: Layout) -> Vec<u8> {
    let (mut names, mut markers, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..600 {
        let (offset, kind, name) = symbol(index);
        if index % 256 == 0 {
            markers.extend_from_slice(&(names.len() as u32).to_le_bytes());
        }
        let mut tokens = vec![kind, 1];
        tokens.extend_from_slice(&name.as_bytes()[3..]);
        match tokens.len() {
            short @ 0..128 => names.push(short as u8),
            long => names.extend([(long % 128 + 128) as u8, (long / 128) as u8]),
        }
        names.extend_from_slice(&tokens);
        let offset = if layout.has_absolute { !offset } else { offset };
        offsets.extend_from_slice(&offset.to_le_bytes());
    }
    for part in [&mut names, &mut markers, &mut offsets] {
        pad(part);
    }
    let base = BASE.to_le_bytes();
    // Digits outside of a table.
    let mut kernel = b"\x7fELF0123\x000\x001\x002\x003\x004\x005\x006\x007\x008\x009\0".to_vec();
    pad(&mut kernel);
    if layout.is_before {
        kernel.extend([&offsets[..], &base].concat());
    }
    kernel.extend(600_u64.to_le_bytes());
    kernel.extend([&names[..], &markers].concat());
    if layout.seqs {
        kernel.extend(vec![0xaa; 3 * 600]);
        pad(&mut kernel);
    }
    let (start, mut index) = (kernel.len(), Vec::new());
    for number in 0..=255 {
        index.extend_from_slice(&((kernel.len() - start) as u16).to_le_bytes());
        kernel.extend(token(number));
        kernel.push(0);
    }
    pad(&mut kernel);
    kernel.extend(index);
    if !layout.is_before {
        kernel.extend([&offsets[..], &base].concat());
    }
    kernel.extend([0x90; 100]);
    kernel
}

#[test]
fn functions_are_found_in_tables_of_both_generations() {
    for layout in [OLD, NEW] {
        let symbols = KernelSymbols::of(&kernel(layout)).expect("a table");
        assert_eq!(symbols.functions().count(), 540);
        assert_eq!(symbols.addresses("do_3"), [BASE + 48]);
        assert_eq!(symbols.function(BASE + 48), Some("do_3"));
        assert_eq!(symbols.function(BASE + 63), Some("do_3"));
        assert_eq!(symbols.function(BASE + 64), Some("do_4"));
        assert_eq!(symbols.function(BASE - 1), None);
        // Data symbols have no code, nor do addresses before them.
        assert_eq!(symbols.function(BASE + 9 * 16), None);
        let (.., long) = symbol(595);
        assert_eq!(symbols.function(BASE + 595 * 16 + 1), Some(&*long));
    }
}

#[test]
fn what_is_no_table_names_nothing() {
    assert_eq!(KernelSymbols::of(b"\x7fELF"), None);
    let whole = kernel(OLD);
    // The markers, the index, and the base are damaged in turn.
    for at in [whole.len() - 102, whole.len() - 100 - 512] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert!(KernelSymbols::of(&damaged).is_none(), "at {at}");
    }
    assert!(KernelSymbols::of(&whole[..whole.len() - 200]).is_none());
}

proptest! {
    #[test]
    fn damage_is_no_end(at in 0_usize..20_000, byte in any::<u8>(), new in any::<bool>()) {
        let mut kernel = kernel(if new { NEW } else { OLD });
        let length = kernel.len();
        kernel[at % length] = byte;
        let _ = KernelSymbols::of(&kernel);
        let _ = KernelSymbols::of(&kernel[..at % length]);
    }
}
