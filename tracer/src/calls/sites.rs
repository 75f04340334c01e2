//! Call sites, for runs that record frames.
//!
//! They are found when the call is entered, from registers and memory, by `Unwinder`; the guest is not involved. Each
//! stack is kept once, as programs call repeatedly from the same places. Used by `node`.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_trace::{CallStack, CodeFile, Frame, MOST_FRAMES, Site};
use belljar_unwind::{Files, Mappings, Memory, Unwinder};

use crate::calls::Space;
use crate::guest::memory::GuestMemory;
use crate::guest::registers::{MAX_PROCESSES, MagicRegisters};

/// Most stacks that are kept; beyond that, the cache restarts.
const MOST_STACKS: usize = 1 << 16;

/// A process's memory for the unwinder.
struct View<'a>(&'a dyn GuestMemory);

impl Memory for View<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.0.read(address, into).is_ok()
    }
}

/// The call sites of a node.
#[derive(Debug, Default)]
pub(crate) struct CallSites {
    unwinder: Option<(Unwinder, usize)>,
    /// The known mappings of processes; part of the tracer's state.
    pub(crate) mappings: BTreeMap<Space, Mappings>,
    stacks: BTreeMap<Vec<belljar_unwind::UnwoundFrame>, Arc<CallStack>>,
    files: BTreeMap<u32, Arc<CodeFile>>,
}

impl CallSites {
    /// Enables call sites, of at most `frames` frames, in code of `files`.
    pub(crate) fn begin(&mut self, frames: u8, files: Arc<Files>) {
        let frames = usize::from(frames.min(MOST_FRAMES));
        self.unwinder = (frames > 0).then(|| (Unwinder::new(files), frames));
    }

    /// Forgets the process in an address space.
    pub(crate) fn end_process(&mut self, space: Space) {
        self.mappings.remove(&space);
    }

    /// Returns the site of a call that is entered; none if the run does not record sites.
    pub(crate) fn find(&mut self, registers: &MagicRegisters, memory: &dyn GuestMemory) -> Site {
        self.site(registers, memory, false)
    }

    /// Returns the site of the instruction at RIP. The first frame's address is one after the instruction's, because frames of
    /// calls have addresses after the call.
    pub(crate) fn find_at(&mut self, registers: &MagicRegisters, memory: &dyn GuestMemory) -> Site {
        self.site(registers, memory, true)
    }

    fn site(&mut self, registers: &MagicRegisters, memory: &dyn GuestMemory, inside: bool) -> Site {
        let Some((unwinder, most)) = &mut self.unwinder else {
            return Site(None);
        };
        let space = registers.space();
        if self.mappings.len() >= MAX_PROCESSES && !self.mappings.contains_key(&space) {
            self.mappings.clear();
        }
        let mappings = self.mappings.entry(space).or_default();
        let (view, rip) = (View(memory), registers.rip);
        let frames = match inside {
            true => unwinder.frames_at(rip, &registers.gpr, mappings, &view, *most),
            false => unwinder.frames(&registers.gpr, mappings, &view, *most),
        };
        let frames: Vec<_> = (0..)
            .zip(frames)
            .map(|(number, frame)| belljar_unwind::UnwoundFrame {
                address: frame.address.wrapping_add(u64::from(inside && number == 0)),
                ..frame
            })
            .collect();
        if frames.is_empty() {
            return Site(None);
        }
        if let Some(stack) = self.stacks.get(&frames) {
            return Site(Some(stack.clone()));
        }
        if self.stacks.len() >= MOST_STACKS {
            self.stacks.clear();
        }
        let known = &mut self.files;
        let told = frames.iter().map(|frame| Frame {
            address: frame.address,
            file: frame.file.map(|number| {
                let file = || code_file(number, unwinder.files());
                known.entry(number).or_insert_with(file).clone()
            }),
        });
        let stack = Arc::new(CallStack(told.collect()));
        self.stacks.insert(frames, stack.clone());
        Site(Some(stack))
    }
}

fn code_file(number: u32, files: &Files) -> Arc<CodeFile> {
    let code = files.code(number);
    Arc::new(CodeFile {
        path: files.path(number).unwrap_or_default().to_owned(),
        build_id: code.map_or_else(Vec::new, |code| code.build_id().to_vec()),
    })
}
