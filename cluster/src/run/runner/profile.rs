//! Samples of a node's processors, for its profile.
//!
//! The node is stopped meanwhile and continues by itself, unchanged. In the kernel, the stack is the one of the process that it
//! runs for, as far as Linux keeps that process's registers at the top of the kernel's stack. Called by the runner's loop.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_cpu::SegmentRegister;
use belljar_profile::{CodeFile, Head, Pending, Sample, SampleFrame, Writer};
use belljar_unwind::{Files, Mappings, Memory, Unwinder};
use belljar_vmm::{Node, Sampling};
use serde::{Deserialize, Serialize};

use super::{KeepError, Runner};
use crate::plan::ProfilePlan;

/// Maximum number of address spaces with remembered mappings; beyond it they are read again.
const MOST_SPACES: usize = 1 << 12;
/// The page-table root in CR3.
const SPACE_MASK: u64 = 0x000f_ffff_ffff_f000;
/// The selectors of a 64-bit process's code and data in Linux.
const USER_CODE: u64 = 0x33;
const USER_DATA: u64 = 0x2b;
/// Size of a kernel's stack in Linux, and its alignment.
const KERNEL_STACK: u64 = 16 << 10;
/// Sizes of the space after a process's registers there, in bytes: zero, or the one for FRED.
const PADDINGS: [u64; 2] = [0, 16];
/// Registers of a process there (`struct pt_regs`): R15 to R12, RBP, RBX, R11 to R8, RAX, RCX, RDX, RSI, RDI, the call's number,
/// RIP, CS, RFLAGS, RSP, SS.
const SAVED_WORDS: usize = 21;
/// Index of each general register among the first of them, by its number in instructions.
const SAVED: [usize; 15] = [15, 14, 13, 12, 5, 3, 11, 10, 9, 8, 0, 1, 2, 6, 7];
const RSP: usize = 4;

/// RIP, and the general registers by their numbers in instructions.
type Place = (u64, [u64; 16]);

/// Takes samples of a node.
pub(super) struct Profiler {
    unwinder: Unwinder,
    most: usize,
    /// Mappings, by address space.
    mappings: BTreeMap<u64, Mappings>,
    files: BTreeMap<u32, CodeFile>,
    pub(super) writer: Writer,
}

/// The saved state of a profiler, with the state of its node's sampling.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProfilerState {
    pending: Pending,
    mappings: BTreeMap<u64, Mappings>,
    sampling: Option<Sampling>,
}

/// The node's memory, for the unwinder.
struct UnwinderMemory<'a>(&'a Node);

impl Memory for UnwinderMemory<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        self.0.read_virtual(address, into).is_ok()
    }
}

impl Runner {
    /// Starts sampling of the node by `plan`, with stacks in code of `files`; returns the profile's first bytes.
    pub(crate) fn begin_profile(&mut self, plan: ProfilePlan, files: Arc<Files>) -> Vec<u8> {
        self.node.sample_every(plan.every);
        let head = Head {
            node: self.index,
            vcpus: self.node.vcpus() as u32,
            every: plan.every.as_ps(),
            first: self.node.sampling().map_or(0, Sampling::first),
        };
        let mut profiler = Profiler::new(plan, files, Writer::new(&head));
        let bytes = profiler.writer.take();
        self.profiler = Some(profiler);
        bytes
    }

    /// The same, from the [saved](Self::save_profile) state of another runner.
    ///
    /// # Errors
    /// If the state cannot belong to this node.
    pub(crate) fn resume_profile(
        &mut self,
        plan: ProfilePlan,
        files: Arc<Files>,
        saved: ProfilerState,
    ) -> Result<(), KeepError> {
        let mut profiler = Profiler::new(plan, files, Writer::resume(saved.pending));
        let is_sound = saved.mappings.values().all(Mappings::is_sound);
        profiler.mappings = saved.mappings;
        self.profiler = Some(profiler);
        if !self.node.resume_sampling(saved.sampling) || !is_sound {
            return Err(KeepError::Profile { node: self.index });
        }
        Ok(())
    }

    /// Saves the state of the profile, if there is one.
    pub(super) fn save_profile(&mut self) -> Option<ProfilerState> {
        let profiler = self.profiler.as_ref()?;
        Some(ProfilerState {
            pending: profiler.writer.save(),
            mappings: profiler.mappings.clone(),
            sampling: self.node.sampling().cloned(),
        })
    }

    /// Forgets the mappings of all processes, which have ended.
    pub(super) fn forget_mappings(&mut self) {
        if let Some(profiler) = &mut self.profiler {
            profiler.mappings.clear();
        }
    }

    /// Ends sampling; returns the profile's last bytes, if there is one.
    pub(super) fn end_profile(&mut self) -> Option<Vec<u8>> {
        let next = self.node.next_sample().unwrap_or(0);
        self.node.resume_sampling(None);
        let mut profiler = self.profiler.take()?;
        profiler.writer.finish(next);
        Some(profiler.writer.take())
    }

    /// Handles the arrival of the node's processor at points of the profile.
    pub(super) fn sample(&mut self, number: u64, count: u64, vcpu: u32) {
        let Some(profiler) = &mut self.profiler else {
            return;
        };
        let system = self.node.system();
        let registers = self.node.registers();
        let code = system.segments[SegmentRegister::Cs as usize];
        let is_user = code.selector & 3 == 3;
        let is_64_bit = code.attributes >> 13 & 1 == 1;
        let memory = UnwinderMemory(&self.node);
        let place = match (is_user, is_64_bit) {
            (true, true) => Some((registers.rip, registers.gpr)),
            (false, true) => interrupted(&memory, registers.gpr[RSP]),
            _ => None,
        };
        let space = system.cr3 & SPACE_MASK;
        let stack = place.map(|place| profiler.stack(space, &place, &memory));
        let tracer = self.tracer.as_ref();
        let sample = Sample {
            number,
            count,
            vcpu,
            space,
            rank: tracer.and_then(|tracer| tracer.rank_in(system.cr3)),
            kernel: (!is_user).then_some(registers.rip),
            stack: 0,
        };
        profiler.writer.add(sample, stack.unwrap_or_default());
    }
}

impl Profiler {
    fn new(plan: ProfilePlan, files: Arc<Files>, writer: Writer) -> Self {
        Self {
            unwinder: Unwinder::new(files),
            most: usize::from(plan.frames),
            mappings: BTreeMap::new(),
            files: BTreeMap::new(),
            writer,
        }
    }

    /// The stack of the process in `space`, from the innermost frame outward.
    fn stack(
        &mut self,
        space: u64,
        place: &Place,
        memory: &UnwinderMemory<'_>,
    ) -> Vec<SampleFrame> {
        if self.mappings.len() >= MOST_SPACES && !self.mappings.contains_key(&space) {
            self.mappings.clear();
        }
        let mappings = self.mappings.entry(space).or_default();
        mappings.recheck(self.unwinder.files(), memory);
        let (rip, gpr) = place;
        let frames = self
            .unwinder
            .frames_at(*rip, gpr, mappings, memory, self.most);
        let mut stack = Vec::with_capacity(frames.len());
        for (depth, frame) in frames.into_iter().enumerate() {
            // A call precedes its return address.
            let back = u64::from(depth > 0);
            stack.push(SampleFrame {
                file: frame.file.map(|file| self.file(file)),
                address: frame.address.saturating_sub(back),
            });
        }
        stack
    }

    /// The profile's number of an unwinder's file.
    fn file(&mut self, number: u32) -> u32 {
        let files = self.unwinder.files();
        let file = self.files.entry(number).or_insert_with(|| CodeFile {
            path: files.path(number).unwrap_or_default().to_owned(),
            build_id: files
                .code(number)
                .map_or_else(Vec::new, |code| code.build_id().to_vec()),
        });
        self.writer.file(file)
    }
}

/// The place of the process that the kernel runs for, by the kernel's stack pointer; `None` if it runs for none.
fn interrupted(memory: &UnwinderMemory<'_>, stack: u64) -> Option<Place> {
    let top = (stack & !(KERNEL_STACK - 1)).checked_add(KERNEL_STACK)?;
    // The top of an interrupt's stack has the pointer of the interrupted one.
    let before = || {
        let stack = memory.word(top.checked_sub(8)?)?;
        let top = (stack & !(KERNEL_STACK - 1)).checked_add(KERNEL_STACK)?;
        saved_registers(memory, stack, top)
    };
    saved_registers(memory, stack, top).or_else(before)
}

fn saved_registers(memory: &UnwinderMemory<'_>, stack: u64, top: u64) -> Option<Place> {
    PADDINGS.into_iter().find_map(|padding| {
        let from = top.checked_sub(padding + 8 * SAVED_WORDS as u64)?;
        let mut bytes = [0; 8 * SAVED_WORDS];
        if stack > from || !memory.read(from, &mut bytes) {
            return None;
        }
        let mut words = [0; SAVED_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().ok()?);
        }
        let [.., rip, code, _, rsp, data] = words;
        let is_user = |address: u64| address < 1 << 47;
        if code != USER_CODE || data != USER_DATA || !is_user(rip) || !is_user(rsp) {
            return None;
        }
        let mut gpr = [0; 16];
        for (register, word) in SAVED.into_iter().zip(words) {
            gpr[register] = word;
        }
        gpr[RSP] = rsp;
        Some((rip, gpr))
    })
}
