//! From frame to frame, up a stack.
//!
//! Begins where a function was just called: its return address is on top of the stack, and its caller's registers are
//! as they were. Continues by the unwind tables of each frame's file; where a file has none for a place, by the frame
//! pointer, if that leads into a file's code. A stack only goes down as it is left, so it ends. Rules of places are
//! kept: programs call from the same ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::files::Files;
use crate::mappings::Mappings;
use crate::rules::{Memory, RBP, RSP, Registers, Rules};

/// Places whose rules are kept, at most; then they are worked out anew.
const MOST_RULES: usize = 1 << 16;

/// The least address that a frame returns to: nothing is mapped below.
const LEAST_ADDRESS: u64 = 1 << 12;

/// A frame: where it continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Frame {
    /// The number of the file whose code that is.
    pub file: Option<u32>,
    /// The return address as the file has it; as the process has it, without one.
    pub address: u64,
}

/// Goes up stacks of processes that have code of some files.
#[derive(Debug)]
pub struct Unwinder {
    files: Arc<Files>,
    rules: BTreeMap<(u32, u64), Option<Arc<Rules>>>,
}

/// Where the walk is: the registers of a frame, and where it continues.
struct Place {
    registers: Registers,
    address: u64,
    /// Whether the instruction there is the next to run and not the one after a call.
    is_next: bool,
}

impl Unwinder {
    /// For code of `files`.
    pub fn new(files: Arc<Files>) -> Self {
        Self {
            files,
            rules: BTreeMap::new(),
        }
    }

    /// The files.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The frames of a thread that is at the first instruction of a function, from the function's caller on, at
    /// most `most`. `registers` are its general ones, by their numbers in instructions.
    pub fn frames(
        &mut self,
        registers: &[u64; 16],
        mappings: &mut Mappings,
        memory: &dyn Memory,
        most: usize,
    ) -> Vec<Frame> {
        let place = called(registers, memory);
        self.walk(place, mappings, memory, most)
    }

    /// The frames of a thread whose next instruction is at `rip`, wherever that is, from that instruction's own
    /// on, at most `most`. The first one's address is that of the instruction.
    pub fn frames_at(
        &mut self,
        (rip, registers): (u64, &[u64; 16]),
        mappings: &mut Mappings,
        memory: &dyn Memory,
        most: usize,
    ) -> Vec<Frame> {
        let place = Place {
            registers: *registers,
            address: rip,
            is_next: true,
        };
        self.walk(Some(place), mappings, memory, most)
    }

    fn walk(
        &mut self,
        mut place: Option<Place>,
        mappings: &mut Mappings,
        memory: &dyn Memory,
        most: usize,
    ) -> Vec<Frame> {
        let mut frames = Vec::with_capacity(most);
        while let Some(at) = place
            && frames.len() < most
        {
            // A call may be the last instruction of its function.
            let within = at.address.wrapping_sub(u64::from(!at.is_next));
            let found = mappings.find(within, &self.files, memory);
            frames.push(Frame {
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
        at: &Place,
        found: Option<(u32, u64)>,
        mappings: &mut Mappings,
        memory: &dyn Memory,
    ) -> Option<Place> {
        let rules = found.and_then(|(file, address)| self.rules(file, address));
        let before = at.registers[RSP];
        let place = match rules {
            Some(rules) => {
                let (registers, address) = rules.leave(&at.registers, memory)?;
                let is_next = rules.is_signal;
                Place {
                    registers,
                    address,
                    is_next,
                }
            }
            None => {
                let place = by_frame_pointer(&at.registers, memory)?;
                // Any word may stand there: only what is after a call of some file's is believed.
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

/// Where the function returns that a thread has just entered.
fn called(registers: &Registers, memory: &dyn Memory) -> Option<Place> {
    let address = memory.word(registers[RSP])?;
    let mut registers = *registers;
    registers[RSP] = registers[RSP].wrapping_add(8);
    Some(Place {
        registers,
        address,
        is_next: false,
    })
}

/// The caller of a frame that has its address in RBP: there stand the caller's RBP and the return address.
fn by_frame_pointer(registers: &Registers, memory: &dyn Memory) -> Option<Place> {
    let frame = registers[RBP];
    if frame < registers[RSP] || !frame.is_multiple_of(8) {
        return None;
    }
    let mut caller = *registers;
    caller[RBP] = memory.word(frame)?;
    caller[RSP] = frame.checked_add(16)?;
    Some(Place {
        registers: caller,
        address: memory.word(frame.checked_add(8)?)?,
        is_next: false,
    })
}
