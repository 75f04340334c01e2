//! A processor's architectural state as a list of named values, for comparison.
//!
//! Names and order are the same in every run of an engine, so that two lists can be compared item
//! by item. Nodes hash the list, and `belljar bisect` shows where two lists differ.

use crate::registers::{Registers, Segment, SystemRegisters};

/// One register or field of a processor's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateItem {
    /// Its name as in the manuals, in lower case.
    pub name: String,
    /// Its value, least significant byte first.
    pub bytes: Vec<u8>,
}

impl StateItem {
    /// A value of up to 64 bits.
    pub fn word(name: impl Into<String>, value: u64) -> Self {
        Self::bytes(name, &value.to_le_bytes())
    }

    /// A value of any length.
    pub fn bytes(name: impl Into<String>, bytes: &[u8]) -> Self {
        Self {
            name: name.into(),
            bytes: bytes.to_vec(),
        }
    }

    /// The value in hexadecimal, most significant digit first, without leading zeros.
    pub fn hex(&self) -> String {
        let digits: String = self
            .bytes
            .iter()
            .rev()
            .map(|b| format!("{b:02x}"))
            .collect();
        match digits.trim_start_matches('0') {
            "" => "0".to_owned(),
            digits => digits.to_owned(),
        }
    }
}

const GENERAL: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
const SEGMENTS: [&str; 8] = ["es", "cs", "ss", "ds", "fs", "gs", "tr", "ldtr"];

/// The registers that every engine reports, in a fixed order.
pub fn register_items(registers: &Registers, system: &SystemRegisters) -> Vec<StateItem> {
    let mut items = vec![
        StateItem::word("rip", registers.rip),
        StateItem::word("rflags", registers.rflags),
    ];
    let general = GENERAL.iter().zip(registers.gpr);
    items.extend(general.map(|(&name, value)| StateItem::word(name, value)));
    for (name, segment) in SEGMENTS.iter().zip(&system.segments) {
        items.extend(segment_items(name, segment));
    }
    for (name, table) in [("gdtr", system.gdt), ("idtr", system.idt)] {
        items.push(StateItem::word(format!("{name}.base"), table.base));
        items.push(StateItem::word(format!("{name}.limit"), table.limit.into()));
    }
    for (name, value) in [
        ("cr0", system.cr0),
        ("cr2", system.cr2),
        ("cr3", system.cr3),
        ("cr4", system.cr4),
        ("efer", system.efer),
    ] {
        items.push(StateItem::word(name, value));
    }
    items
}

fn segment_items(name: &str, segment: &Segment) -> [StateItem; 4] {
    [
        StateItem::word(name, segment.selector.into()),
        StateItem::word(format!("{name}.base"), segment.base),
        StateItem::word(format!("{name}.limit"), segment.limit.into()),
        StateItem::word(format!("{name}.attributes"), segment.attributes.into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_has_a_name_of_its_own_and_shows_in_its_place() {
        let mut registers = Registers::default();
        let mut system = SystemRegisters::default();
        let before = register_items(&registers, &system);
        let mut names: Vec<&str> = before.iter().map(|item| item.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), before.len());
        registers.gpr[Registers::R11] = 0xab_0000;
        system.segments[5].base = 1;
        system.cr2 = 2;
        let after = register_items(&registers, &system);
        let changed: Vec<(&str, String)> = after
            .iter()
            .zip(&before)
            .filter(|(after, before)| after != before)
            .map(|(after, _)| (after.name.as_str(), after.hex()))
            .collect();
        let expected = [("r11", "ab0000"), ("gs.base", "1"), ("cr2", "2")];
        assert_eq!(changed, expected.map(|(name, hex)| (name, hex.to_owned())));
    }
}
