//! Calls at the user's probes: any function of any program, besides MPI's.
//!
//! A call is entered at its probe and, if its return is wanted, open until its thread reaches its return address with its stack as it
//! was. A jump over a return leaves a call open. It is given up when another call takes its place, when there are too many such calls,
//! when its process ends, or at the end. All tables are bounded, and calls that are not followed are counted. A kernel's calls are
//! distinguished by their kernel stacks, independent of the address space: a stack belongs to a thread, or to interrupts on one
//! processor. Nothing is written to the guest. Used by `node` and `probe`.

/// Accesses of programs to memory that operations of MPI own.
pub(crate) mod buffers;
/// Messages that libraries send.
mod messages;
/// Open calls.
mod open;

use std::collections::BTreeSet;
use std::sync::Arc;

use belljar_trace::{
    MOST_PROBE_TEXT, Probe, ProbeAt, ProbePurpose, ProbeRecord, ProbeValue, ProbesEnd, Site,
    ValueKind,
};

use crate::calls::Space;
use crate::guest::memory::{GuestMemory, Reader};
use crate::guest::registers::{ARGUMENT_REGISTERS, MagicRegisters, RAX, RSP};
use crate::node::NodeTracer;

pub(crate) use open::OwnProbes;
use open::{CallPosition, KERNEL};

/// Size and alignment of a kernel stack, in bytes (`THREAD_SIZE` and `IRQ_STACK_SIZE` of Linux for x86-64).
const KERNEL_STACK: u64 = 16 << 10;

/// Vector registers that carry arguments (System V ABI, 3.2.3).
const SCALARS: usize = 8;

/// Returns the address space and place of a call whose return address is at `slot` of its stack.
fn place(registers: &MagicRegisters, slot: u64) -> (Space, CallPosition) {
    // Kernels are in the upper half of the address space.
    match registers.rip >> 63 {
        0 => (registers.space(), (registers.fs_base, slot)),
        _ => (KERNEL, (slot & !(KERNEL_STACK - 1), slot)),
    }
}

impl NodeTracer {
    /// Records the calls of the user's `probes`, whose locations are among the targets by their numbers here.
    pub fn set_own_probes(&mut self, probes: Arc<[Probe]>) {
        self.own.keep_those_of(&probes);
        self.probes = probes;
    }

    /// Returns the addresses to watch: return addresses of open calls, and callbacks of libraries.
    pub fn open_returns(&self) -> BTreeSet<u64> {
        let calls = self.open.all().map(|call| call.return_address);
        let processes = self.processes.values();
        let callbacks = processes.flat_map(|process| process.receives.callbacks());
        calls.chain(self.own.returns()).chain(callbacks).collect()
    }

    /// Takes the records of the user's probes since the last call, in the order of their completion.
    pub fn take_probe_records(&mut self) -> Vec<ProbeRecord> {
        std::mem::take(&mut self.own.records.0)
    }

    /// Returns the open calls and the counters of the user's probes at the end of a run, with the node's clock at cycle `end`.
    pub fn probes_left(&self, end: u64) -> (Vec<ProbeRecord>, ProbesEnd) {
        let mut records = self.own.left_open(end);
        records.extend(self.buffers_left(end));
        (records, self.own.end)
    }

    /// Starts a process: keeps its program's name, if there are user's probes.
    pub(crate) fn begin_own_task(
        &mut self,
        at: u64,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) {
        if self.probes.is_empty() {
            return;
        }
        // The first argument is above their number (System V ABI, 3.4.1).
        let name = registers.gpr[RSP].wrapping_add(8);
        let name = Reader(memory).u64(name);
        let name = name.and_then(|at| Reader(memory).text(at)).ok();
        self.own.begin_task(registers.space(), at, name);
    }

    /// Handles the arrival at probe number `number` of the user.
    pub(crate) fn begin_own(
        &mut self,
        at: u64,
        vcpu: u32,
        number: u32,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) {
        let probes = self.probes.clone();
        let Some(probe) = probes.get(number as usize) else {
            return;
        };
        // Processes exchange the names used in messages when they start, so those calls are always followed.
        if probe.purpose.is_recorded() && !self.selection.is_within(at) {
            return;
        }
        let mut record = self.own_record(at, vcpu, number, registers, memory);
        if probe.purpose != ProbePurpose::User {
            return self.begin_message(probe, record, registers, memory);
        }
        if probe.at != ProbeAt::Return {
            record.arguments = arguments(&probe.arguments, registers, Reader(memory));
        }
        self.begin_record(probe.at, record, registers, memory);
    }

    /// Handles the arrival at a probe for messages.
    fn begin_message(
        &mut self,
        probe: &Probe,
        record: ProbeRecord,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) {
        let memory_of = Reader(memory);
        let told = self
            .own
            .endpoints
            .arguments(probe.purpose, registers, memory_of);
        for arguments in told {
            let record = ProbeRecord {
                arguments,
                ..record.clone()
            };
            self.begin_record(probe.at, record, registers, memory);
        }
    }

    /// Begins a record, and ends it if it is of an entry only.
    fn begin_record(
        &mut self,
        when: ProbeAt,
        record: ProbeRecord,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) {
        let slot = registers.gpr[RSP];
        let target = Reader(memory).u64(slot);
        match (when, target) {
            (ProbeAt::Entry, _) => self.own.records.0.push(record),
            (_, Ok(target)) => {
                let (space, place) = place(registers, slot);
                if self.own.enter(space, place, target, record) {
                    self.to_watch.push(target);
                }
            }
            (_, Err(_)) => {
                self.own.end.unfollowed += 1;
                self.own.records.0.push(record);
            }
        }
    }

    fn own_record(
        &mut self,
        at: u64,
        vcpu: u32,
        probe: u32,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) -> ProbeRecord {
        let site = match place(registers, registers.gpr[RSP]).0 {
            KERNEL => Site::default(),
            _ => self.sites.find(registers, memory),
        };
        self.own_record_at(at, vcpu, probe, registers, site)
    }

    /// Returns a record at a site, without values.
    pub(crate) fn own_record_at(
        &mut self,
        at: u64,
        vcpu: u32,
        probe: u32,
        registers: &MagicRegisters,
        site: Site,
    ) -> ProbeRecord {
        let space = registers.space();
        let (stacks, place) = place(registers, registers.gpr[RSP]);
        let process = self.processes.get(&space);
        let launched = self.launched.get(&space).map(|launched| launched.rank);
        let caller = self.own.come_to(space, stacks, place, at);
        let user = stacks != KERNEL;
        let within = user.then(|| self.open.outermost(space, place)).flatten();
        ProbeRecord {
            probe,
            node: self.node,
            vcpu,
            task: caller.task,
            process: process.map(|process| process.number),
            thread: caller.thread,
            rank: process.map(|process| process.rank()).or(launched),
            program: caller.program,
            depth: caller.depth,
            entry: at,
            exit: None,
            known: at,
            arguments: Vec::new(),
            result: None,
            within,
            site,
        }
    }

    /// Handles the arrival at a return address.
    pub(crate) fn end_own(
        &mut self,
        at: u64,
        registers: &MagicRegisters,
        memory: &dyn GuestMemory,
    ) {
        let slot = registers.gpr[RSP].wrapping_sub(8);
        let (space, place) = place(registers, slot);
        let returned = self.own.take_returned(space, place, registers.rip);
        for mut record in returned {
            let probe = self.probes.get(record.probe as usize);
            let purpose = probe.map_or(ProbePurpose::User, |probe| probe.purpose);
            let result = probe.and_then(|probe| probe.result);
            record.exit = Some(at);
            record.known = at;
            let names = &mut self.own.endpoints;
            if !names.learn(purpose, &mut record, registers, Reader(memory)) {
                continue;
            }
            record.result = result.map(|kind| {
                let word = match kind.is_scalar() {
                    true => registers.scalars[0],
                    false => registers.gpr[RAX],
                };
                value(kind, word, Reader(memory))
            });
            self.own.records.0.push(record);
        }
    }
}

/// Reads arguments of these kinds: from registers, and once these are exhausted, from the stack (System V ABI, 3.2.3).
fn arguments(
    kinds: &[ValueKind],
    registers: &MagicRegisters,
    memory: Reader<'_>,
) -> Vec<ProbeValue> {
    let mut words = ARGUMENT_REGISTERS
        .iter()
        .map(|register| registers.gpr[*register]);
    let mut scalars = registers.scalars.iter().take(SCALARS).copied();
    // Skips the return address.
    let mut stacked = 0_u64;
    let mut read = |kind: &ValueKind| {
        let word = match kind.is_scalar() {
            true => scalars.next(),
            false => words.next(),
        };
        let word = word.or_else(|| {
            stacked += 8;
            memory.u64(registers.gpr[RSP].checked_add(stacked)?).ok()
        });
        word.map_or(ProbeValue::Missing, |word| value(*kind, word, memory))
    };
    kinds.iter().map(&mut read).collect()
}

fn value(kind: ValueKind, word: u64, memory: Reader<'_>) -> ProbeValue {
    if kind != ValueKind::Text {
        return ProbeValue::Word(kind.clean(word));
    }
    match memory.text(word) {
        Ok(mut text) => {
            let end = (0..=MOST_PROBE_TEXT.min(text.len())).rev();
            let end = end.into_iter().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
            ProbeValue::Text(text)
        }
        Err(_) => ProbeValue::Unreadable(word),
    }
}

#[cfg(test)]
mod tests;
