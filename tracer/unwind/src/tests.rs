//! Stacks of processes with synthetic files, and with this program's own file.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use crate::rules::{RBP, RSP};
use crate::{Code, Files, Mappings, Memory, PAGE, Unwinder, UnwoundFrame};

/// The addresses of the synthetic file's mapping, and of its stack.
const BASE: u64 = 0x5555_0000_0000;
const STACK: u64 = 0x7ffd_0000_0000;

/// Pages by their addresses.
#[derive(Clone, Default)]
struct Pages(BTreeMap<u64, Vec<u8>>);

impl Memory for Pages {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let page = address - address % PAGE as u64;
        let from = (address - page) as usize;
        let bytes = self.0.get(&page);
        let bytes = bytes.and_then(|page| page.get(from..from + into.len()));
        bytes.is_some_and(|bytes| {
            into.copy_from_slice(bytes);
            true
        })
    }
}

impl Pages {
    fn put(&mut self, address: u64, bytes: &[u8]) {
        for (at, byte) in (address..).zip(bytes) {
            let page = at - at % PAGE as u64;
            let page = self.0.entry(page).or_insert_with(|| vec![0; PAGE]);
            page[(at % PAGE as u64) as usize] = *byte;
        }
    }

    fn put_words(&mut self, address: u64, words: &[u64]) {
        for (index, word) in words.iter().enumerate() {
            self.put(address + 8 * index as u64, &word.to_le_bytes());
        }
    }
}

/// Unwind tables at address 0x4000: address, length and instructions of each function.
fn tables(functions: &[(u64, u32, &[u8])]) -> Vec<u8> {
    // The frame is RSP plus 8, and the return address is below it.
    let mut cie = vec![0, 0, 0, 0, 1];
    cie.extend(b"zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08\x90\x01");
    let mut all = Vec::new();
    let mut add = |record: &[u8]| {
        let mut record = record.to_vec();
        record.resize(record.len().next_multiple_of(4), 0);
        all.extend((record.len() as u32).to_le_bytes());
        all.extend(record);
        all.len()
    };
    let mut at = add(&cie);
    for (address, length, instructions) in functions {
        let mut record = (at as u32 + 4).to_le_bytes().to_vec();
        record.extend((*address as i32 - (0x4000 + at as i32 + 8)).to_le_bytes());
        record.extend(length.to_le_bytes());
        record.push(0);
        record.extend(*instructions);
        at = add(&record);
    }
    all.extend([0; 4]);
    all
}

/// An ELF file with code at 0x1000 to 0x2000 and these tables, without sections.
fn elf(tables: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 0x5000];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    put(0x10, &[3, 0, 62, 0, 1]);
    put(0x20, &0x40u64.to_le_bytes());
    put(0x34, &[64, 0, 56, 0, 4, 0, 64, 0]);
    let segments: [(u32, u32, u64, u64); 4] = [
        (1, 4, 0, 0x1000),
        (1, 5, 0x1000, 0x1000),
        (1, 4, 0x3000, 0x2000),
        (0x6474_e550, 4, 0x3000, 8),
    ];
    for (index, (kind, flags, start, length)) in segments.into_iter().enumerate() {
        let at = 0x40 + 56 * index;
        put(at, &kind.to_le_bytes());
        put(at + 4, &flags.to_le_bytes());
        for (field, value) in [(8, start), (16, start), (32, length), (40, length)] {
            put(at + field, &value.to_le_bytes());
        }
    }
    // Version 1; a relative pointer to the tables; no search table.
    put(0x3000, &[1, 0x1b, 0xff, 0xff]);
    put(0x3004, &(0x4000i32 - 0x3004).to_le_bytes());
    put(0x4000, tables);
    file
}

/// An unwinder for this file, which is mapped at [`BASE`].
fn unwinder(file: &[u8]) -> (Unwinder, Pages) {
    let mut files = Files::default();
    let own = file.to_vec();
    files.add("/bin/made-up", &file[..PAGE], move || Code::parse(&own[..]));
    let mut memory = Pages::default();
    memory.put(BASE, &file[..PAGE]);
    (Unwinder::new(Arc::new(files)), memory)
}

fn found(unwinder: &mut Unwinder, memory: &Pages, registers: &[u64; 16]) -> Vec<UnwoundFrame> {
    let mut mappings = Mappings::default();
    let frames = unwinder.frames(registers, &mut mappings, memory, 8);
    assert!(mappings.is_sound());
    // The result does not depend on earlier look-ups.
    let again = unwinder.frames(registers, &mut mappings, memory, 8);
    assert_eq!(frames, again);
    frames
}

fn at(rsp: u64, rbp: u64) -> [u64; 16] {
    let mut registers = [0; 16];
    (registers[RSP], registers[RBP]) = (rsp, rbp);
    registers
}

fn places(addresses: &[u64]) -> Vec<UnwoundFrame> {
    let frame = |address: &u64| UnwoundFrame {
        file: (*address < BASE).then_some(0),
        address: *address,
    };
    addresses.iter().map(frame).collect()
}

#[test]
fn frames_are_left_by_tables() {
    // The first has pushed RBX and 16 bytes; the second has its frame in RBP, which it pushed; the third has an
    // expression for the return address: RSP plus 24.
    let first = [0x42, 0x0e, 16, 0x83, 2, 0x42, 0x0e, 32];
    let second = [0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6];
    let third = [0x0f, 2, 0x77, 24];
    let file = elf(&tables(&[
        (0x1000, 0x100, &first),
        (0x1100, 0x100, &second),
        (0x1200, 0x100, &third),
        (0x1300, 0x100, &[0x07, 16]),
    ]));
    let (mut unwinder, mut memory) = unwinder(&file);
    let code = unwinder.files().code(0).unwrap();
    assert_eq!(code.all_functions().count(), 4);
    assert!(code.build_id().is_empty());
    memory.put_words(
        STACK,
        &[
            BASE + 0x1050, // to the first function
            1,
            2,
            99,            // RBX
            BASE + 0x1180, // to the second
            3,
            4,
            5,
            STACK + 0x100, // its caller's RBP
            BASE + 0x1240, // to the third
            6,
            7,
            BASE + 0x1310, // to the last, which nothing called
        ],
    );
    let frames = found(&mut unwinder, &memory, &at(STACK, STACK + 8 * 8));
    assert_eq!(frames, places(&[0x1050, 0x1180, 0x1240, 0x1310]));
    // Limited by the requested number.
    let registers = at(STACK, STACK + 8 * 8);
    let two = unwinder.frames(&registers, &mut Mappings::default(), &memory, 2);
    assert_eq!(two, frames[..2]);
    // Unmapped memory ends the walk.
    memory.0.remove(&STACK);
    assert_eq!(found(&mut unwinder, &memory, &at(STACK, 0)), []);
}

#[test]
fn a_call_at_the_end_of_a_function_is_of_that_function() {
    // The next function has a larger frame.
    let file = elf(&tables(&[
        (0x1000, 0x10, &[]),
        (0x1010, 0x10, &[0x0e, 64]),
        (0x1100, 0x10, &[]),
    ]));
    let (mut unwinder, mut memory) = unwinder(&file);
    memory.put_words(STACK, &[BASE + 0x1010, BASE + 0x1105, 0]);
    let frames = found(&mut unwinder, &memory, &at(STACK, 0));
    assert_eq!(frames, places(&[0x1010, 0x1105]));
}

#[test]
fn without_tables_frame_pointers_lead_on() {
    let file = elf(&tables(&[(0x1200, 0x100, &[])]));
    let (mut unwinder, mut memory) = unwinder(&file);
    let frame = STACK + 64;
    memory.put_words(STACK, &[BASE + 0x1050]);
    memory.put_words(frame, &[STACK + 128, BASE + 0x1110]);
    memory.put_words(STACK + 128, &[0, 0x1234_5678]);
    let frames = found(&mut unwinder, &memory, &at(STACK, frame));
    assert_eq!(frames, places(&[0x1050, 0x1110]), "and the last is no code");
    // An invalid frame address ends the walk.
    for wrong in [0, STACK - 64, frame + 1, u64::MAX, u64::MAX - 7] {
        let frames = found(&mut unwinder, &memory, &at(STACK, wrong));
        assert_eq!(frames, places(&[0x1050]), "{wrong:#x}");
    }
}

#[test]
fn code_of_no_file_has_its_address() {
    let (mut unwinder, mut memory) = unwinder(&elf(&tables(&[])));
    let nowhere = 0x7f00_1234_5678;
    memory.put_words(STACK, &[nowhere]);
    let frames = found(&mut unwinder, &memory, &at(STACK, 0));
    assert_eq!(frames, places(&[nowhere]));
    // Data of the file is not code either.
    memory.put_words(STACK, &[BASE + 0x3010]);
    let frames = found(&mut unwinder, &memory, &at(STACK, 0));
    assert_eq!(frames[0].file, None);
}

#[test]
fn stacks_that_lead_round_end() {
    // The frame address equals RSP: the stack never shrinks.
    let file = elf(&tables(&[(0x1000, 0x100, &[0x0e, 0, 0x90, 0])]));
    let (mut unwinder, mut memory) = unwinder(&file);
    memory.put_words(STACK, &[BASE + 0x1010, BASE + 0x1010]);
    let frames = found(&mut unwinder, &memory, &at(STACK, 0));
    assert_eq!(frames, places(&[0x1010]));
}

#[test]
fn a_real_file_has_real_tables() {
    let path = std::env::current_exe().unwrap();
    let file = std::fs::read(&path).unwrap();
    let (mut unwinder, mut memory) = unwinder(&file);
    let code = unwinder.files().code(0).unwrap();
    let bias = code.bias(BASE).unwrap();
    // At its first instruction every function's return address is on top of the stack.
    let plain = code.all_functions().filter(|(start, _)| {
        let rules = code.rules(*start);
        rules.is_some_and(|rules| rules.leave(&at(STACK, 0), &Whatever).is_some())
    });
    let starts: Vec<u64> = plain.map(|(start, _)| start).collect();
    assert!(starts.len() > 1000, "{}", starts.len());
    let starts: Vec<u64> = starts.into_iter().step_by(100).take(8).collect();
    let words: Vec<u64> = starts.iter().map(|start| start + 1 + bias).collect();
    memory.put_words(STACK, &words);
    let frames = found(&mut unwinder, &memory, &at(STACK, 0));
    let expected: Vec<u64> = starts.iter().map(|start| start + 1).collect();
    assert_eq!(frames, places(&expected));
}

/// Memory that is mapped everywhere.
struct Whatever;

impl Memory for Whatever {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        into.fill(address as u8);
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn hostile_tables_lead_nowhere_else(
        instructions in prop::collection::vec(any::<u8>(), 0..40),
        damages in prop::collection::vec((0..0x300usize, any::<u8>()), 0..6),
        words in prop::collection::vec(prop_oneof![0..0x2000u64, any::<u64>()], 8),
    ) {
        let expression = [&[0x0f, instructions.len() as u8], &instructions[..]].concat();
        let mut file = elf(&tables(&[
            (0x1000, 0x100, &instructions),
            (0x1100, 0x100, &expression),
            (0x1200, 0xe00, &[0x0e, 16]),
        ]));
        for (at, byte) in damages {
            // Headers, and tables.
            let at = if at < 0x120 { at } else { at + 0x4000 - 0x120 };
            file[at] = byte;
        }
        let (mut unwinder, mut memory) = unwinder(&file);
        let words: Vec<u64> = words.iter().map(|word| match word {
            small @ 0..0x2000 => BASE + small,
            other => *other,
        }).collect();
        memory.put_words(STACK, &words);
        let frames = found(&mut unwinder, &memory, &at(STACK, words[7]));
        prop_assert!(frames.len() <= 8);
        if let Some(code) = unwinder.files().code(0) {
            for address in [0, 0x1000, 0x1110, 0x1fff, u64::MAX] {
                let rules = code.rules(address);
                let _ = rules.map(|rules| rules.leave(&[u64::MAX; 16], &Whatever));
            }
        }
    }
}

#[test]
fn what_is_not_mapped_any_more_is_forgotten() {
    let file = elf(&tables(&[(0x1000, 0x100, &[])]));
    let (mut unwinder, mut memory) = unwinder(&file);
    memory.put_words(STACK, &[0]);
    let mut registers = [0; 16];
    registers[RSP] = STACK;
    let mut mappings = Mappings::default();
    let mut at = |mappings: &mut Mappings, memory: &Pages| {
        unwinder.frames_at(BASE + 0x1010, &registers, mappings, memory, 8)
    };
    let frame = |file, address| vec![UnwoundFrame { file, address }];
    assert_eq!(at(&mut mappings, &memory), frame(Some(0), 0x1010));
    // Another program takes over the address space.
    memory.put(BASE, &[0; PAGE]);
    assert_eq!(at(&mut mappings, &memory), frame(Some(0), 0x1010));
    let (other, _) = self::unwinder(&file);
    mappings.recheck(other.files(), &memory);
    assert_eq!(at(&mut mappings, &memory), frame(None, BASE + 0x1010));
}
