//! The walk from frame to frame, up a stack.
//!
//! It begins at a function's entry, where the return address is on top of the stack, and the caller's registers are
//! unchanged. It continues by the unwind tables of each frame's file; without tables for an address, by the frame
//! pointer, if that leads into a file's code. Stack addresses only increase, so the walk ends. Rules of addresses are
//! cached, as programs call from the same ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::files::Files;
use crate::mappings::Mappings;
use crate::rules::{Memory, RBP, RSP, Registers, Rules};

/// Most addresses whose rules are cached; beyond that, the cache restarts.
const MOST_RULES: usize = 1 << 16;

/// Lowest return address: nothing is mapped below.
const LEAST_ADDRESS: u64 = 1 << 12;

/// An unwound frame, by its return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnwoundFrame {
    /// The number of the file with that code.
    pub file: Option<u32>,
    /// The return address relative to the file; without a file, as in the process.
    pub address: u64,
}

/// Walks stacks of processes that have code of some files.
#[derive(Debug)]
pub struct Unwinder {
    files: Arc<Files>,
    rules: BTreeMap<(u32, u64), Option<Arc<Rules>>>,
}

/// The position of the walk: the registers of a frame, and its address.
struct WalkPosition {
    registers: Registers,
    address: u64,
    /// True if the instruction there is the next to run, and not the one after a call.
    is_next: bool,
}

impl Unwinder {
    /// Creates an unwinder for code of `files`.
    pub fn new(files: Arc<Files>) -> Self {
        Self {
            files,
            rules: BTreeMap::new(),
        }
    }

    /// Returns the files.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Returns the frames of a thread at the first instruction of a function, beginning with the function's caller, at
    /// most `most`. `registers` are its general registers, by their numbers in instructions.
    pub fn frames(
        &mut self,
        registers: &[u64; 16],
        mappings: &mut Mappings,
        memory: &dyn Memory,
        most: usize,
    ) -> Vec<UnwoundFrame> {
        let place = called(registers, memory);
        self.walk(place, mappings, memory, most)
    }

    /// Returns the frames of a thread whose next instruction is at any address `rip`, beginning with that instruction's
    /// own frame, at most `most`. The first frame's address is the instruction's.
    pub fn frames_at(
        &mut self,
        rip: u64,
        registers: &[u64; 16],
        mappings: &mut Mappings,
        memory: &dyn Memory,
        most: usize,
    ) -> Vec<UnwoundFrame> {
        let place = WalkPosition {
            registers: *registers,
            address: rip,
            is_next: true,
        };
        self.walk(Some(place), mappings, memory, most)
    }

    fn walk(
        &mut self,
        mut place: Option<WalkPosition>,
        mappings: &mut Mappings,
        memory: &dyn Memory,
        most: usize,
    ) -> Vec<UnwoundFrame> {
        let mut frames = Vec::with_capacity(most);
        while let Some(at) = place
            && frames.len() < most
        {
            // A call may be the last instruction of its function.
            let within = at.address.wrapping_sub(u64::from(!at.is_next));
            let found = mappings.find(within, &self.files, memory);
            frames.push(UnwoundFrame {
                file: found.map(|(file, _)| file),
                address: match found {
                    Some((_, address)) => address.wrapping_add(u64::from(!at.is_next)),
                    None => at.address,
                },
            });
            if frames.len() == most {
                break;
            }
            place = self.leave(&at, found, mappings, memory);
        }
        frames
    }

    fn leave(
        &mut self,
        at: &WalkPosition,
        found: Option<(u32, u64)>,
        mappings: &mut Mappings,
        memory: &dyn Memory,
    ) -> Option<WalkPosition> {
        let rules = found.and_then(|(file, address)| self.rules(file, address));
        let before = at.registers[RSP];
        let place = match rules {
            Some(rules) => {
                let (registers, address) = rules.leave(&at.registers, memory)?;
                let is_next = rules.is_signal;
                WalkPosition {
                    registers,
                    address,
                    is_next,
                }
            }
            None => {
                let place = by_frame_pointer(&at.registers, memory)?;
                // The word there may be arbitrary: only an address after a call in a file is accepted.
                mappings.find(place.address.checked_sub(1)?, &self.files, memory)?;
                place
            }
        };
        let grows = place.registers[RSP] > before || place.is_next;
        (grows && place.address >= LEAST_ADDRESS).then_some(place)
    }

    fn rules(&mut self, file: u32, address: u64) -> Option<Arc<Rules>> {
        if let Some(rules) = self.rules.get(&(file, address)) {
            return rules.clone();
        }
        if self.rules.len() >= MOST_RULES {
            self.rules.clear();
        }
        let code = self.files.code(file);
        let rules = code.and_then(|code| code.rules(address)).map(Arc::new);
        self.rules.insert((file, address), rules.clone());
        rules
    }
}

/// Returns the caller of a function that a thread has just entered.
fn called(registers: &Registers, memory: &dyn Memory) -> Option<WalkPosition> {
    let address = memory.word(registers[RSP])?;
    let mut registers = *registers;
    registers[RSP] = registers[RSP].wrapping_add(8);
    Some(WalkPosition {
        registers,
        address,
        is_next: false,
    })
}

/// Returns the caller of a frame with its address in RBP, where the caller's RBP and the return address are.
fn by_frame_pointer(registers: &Registers, memory: &dyn Memory) -> Option<WalkPosition> {
    let frame = registers[RBP];
    if frame < registers[RSP] || !frame.is_multiple_of(8) {
        return None;
    }
    let mut caller = *registers;
    caller[RBP] = memory.word(frame)?;
    caller[RSP] = frame.checked_add(16)?;
    Some(WalkPosition {
        registers: caller,
        address: memory.word(frame.checked_add(8)?)?,
        is_next: false,
    })
}
