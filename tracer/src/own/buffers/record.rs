//! Records of accesses to memory that operations own.
//!
//! They are records of the run's probe for this purpose, with the words of [`BUFFER_ACCESS`](belljar_trace::BUFFER_ACCESS).

use belljar_trace::{BUFFER_ACCESS, Frame, ProbeRecord, ProbeValue, Site};

use super::operations::{BufferRole, OwnedRange, Until};
use super::{StoppedAccess, TABLES};
use crate::calls::Space;
use crate::guest::memory::GuestMemory;
use crate::guest::registers::MagicRegisters;
use crate::node::NodeTracer;

impl NodeTracer {
    /// Records the first access of an instruction to a range of operation number `index` of its process.
    pub(super) fn record_access(
        &mut self,
        (at, vcpu, probe): (u64, u32, u32),
        index: usize,
        range: OwnedRange,
        access: StoppedAccess,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) {
        let space = registers.cr3 & TABLES;
        // The first frame's address is after the start of its instruction, as a return address is after its call.
        let mut place = *registers;
        place.rip = access.instruction;
        let site = self.sites.find_at(&place, memory);
        if self.is_library_code(space, access.instruction, &site) {
            return;
        }
        let thread = self
            .processes
            .get(&space)
            .and_then(|process| process.thread_of(registers.fs_base));
        let mut record = self.own_record_at(at, vcpu, probe, registers, site);
        let Some(own) = self.buffers.by_space.get_mut(&space) else {
            return;
        };
        let Some(operation) = own.operations.get(index) else {
            return;
        };
        let window = match operation.until {
            Until::Window(window) | Until::Attached(window) | Until::Access { window, .. } => {
                Some(window)
            }
            Until::Request { .. } => None,
        };
        record.arguments = words([
            u64::from(role_number(range.role)),
            operation.call.0,
            u64::from(operation.call.1),
            u64::from(thread.unwrap_or(u32::MAX)),
            access.linear,
            access.bytes,
            u64::from(access.write),
            access.instruction,
            u64::from(window.unwrap_or(u32::MAX)),
            // Displacements in a window of attached memory are addresses.
            match operation.until {
                Until::Attached(_) => 0,
                _ => range.start,
            },
        ]);
        match (operation.until, window) {
            (Until::Window(_) | Until::Attached(_), Some(window)) => {
                own.windows.begin(window, &access, record)
            }
            _ => self.own.records.0.push(record),
        }
    }

    /// True if an instruction is in the code of its process's MPI library, or was called from there: a thread of the library's own.
    fn is_library_code(&self, space: Space, instruction: u64, site: &Site) -> bool {
        let process = self.processes.get(&space);
        let Some((file, base)) = process.and_then(|process| process.library) else {
            return false;
        };
        let number = file as usize;
        let library = self.targets.find_library(number);
        let Some((library, path)) = library.zip(self.targets.name(number)) else {
            return false;
        };
        let code = &library.code;
        let is_in_library = |frame: &Frame| {
            let mut file = frame.file.iter();
            code.contains(&frame.address) && file.any(|file| file.path == path)
        };
        let frames = site.0.iter().flat_map(|stack| &stack.0);
        code.contains(&instruction.wrapping_sub(base)) || frames.into_iter().any(is_in_library)
    }

    /// Records that buffers of a process are not watched, because there are too many.
    pub(super) fn record_crowd(&mut self, space: Space, at: u64, vcpu: u32) {
        let Some(probe) = self.buffer_probe() else {
            return;
        };
        let registers = MagicRegisters {
            cr3: space,
            ..MagicRegisters::default()
        };
        let mut record = self.own_record_at(at, vcpu, probe, &registers, Default::default());
        let mut arguments = [0; BUFFER_ACCESS.len()];
        arguments[0] = NOT_WATCHED;
        record.arguments = words(arguments);
        self.own.records.0.push(record);
    }
}

/// The role in records of buffers that are not watched.
const NOT_WATCHED: u64 = 5;

fn role_number(role: BufferRole) -> u8 {
    match role {
        BufferRole::Send => 0,
        BufferRole::Receive => 1,
        BufferRole::Origin => 2,
        BufferRole::Result => 3,
        BufferRole::Window => 4,
    }
}

fn words(arguments: [u64; BUFFER_ACCESS.len()]) -> Vec<ProbeValue> {
    arguments.map(ProbeValue::Word).to_vec()
}

/// Finishes a record of a window's memory with the range that was accessed, at cycle `at`.
pub(super) fn with_range(
    mut record: ProbeRecord,
    (start, end): (u64, u64),
    at: u64,
) -> ProbeRecord {
    record.known = at;
    record.arguments[4] = ProbeValue::Word(start);
    record.arguments[5] = ProbeValue::Word(end - start);
    record
}
