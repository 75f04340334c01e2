//! A scripted guest process for tests: memory in pages, and calls as the stubs make them.
//!
//! The tracer is saved and restored between calls, so tests of all kinds check that no state is lost. Compiled for the
//! tests of this crate and, with the feature `scripted`, of crates that read events.

/// Processes that have introduced themselves to a tracer.
mod introduction;

use std::collections::{BTreeMap, BTreeSet};

use belljar_abi::{
    FACT_LEAF, MAGIC_ADDRESS, OP_RETURN, RESOLVERS_OFFSET, RETURN_OFFSET, STUB_BASE, table_entry,
};
use belljar_trace::{Event, Implementation, MpiLibrary};

use crate::guest::memory::{BadAddress, GuestMemory};
use crate::guest::registers::MagicRegisters;
use crate::node::NodeTracer;
use crate::selection::Selection;

const PAGE: u64 = 4096;
/// The end of its stack.
pub const STACK: u64 = 0x7fff_0000_0000;
/// The beginning of its heap.
pub const HEAP: u64 = 0x5555_0000_0000;
/// The address of Open MPI's objects, 512 bytes apart.
const OBJECTS: u64 = 0x7f00_0000_0000;
/// The address of the MPI library's functions, 16 bytes apart.
pub const LIBRARY: u64 = 0x7f11_0000_0000;
/// The preloaded library's return address.
pub const RETURNED: u64 = 0x7f44_0000_0001;
/// The address of the preloaded library's search for functions.
pub const RESOLVERS: u64 = 0x7f44_0000_1000;
/// The address in the program to which calls return.
pub const PROGRAM: u64 = 0x0040_1000;

/// Memory in pages; unmapped pages cannot be read, and some not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages(BTreeMap<u64, Vec<u8>>, BTreeSet<u64>);

impl Pages {
    /// Makes `length` bytes at `from` readable and writable, in whole pages of zeros.
    pub fn map(&mut self, from: u64, length: u64) {
        for page in from / PAGE..=(from + length - 1) / PAGE {
            self.0.entry(page).or_insert_with(|| vec![0; PAGE as usize]);
        }
    }

    /// Allows or forbids writes to the page of `address`.
    pub fn allow_writes(&mut self, address: u64, allowed: bool) {
        if allowed {
            self.1.remove(&(address / PAGE));
        } else {
            self.1.insert(address / PAGE);
        }
    }

    /// Unmaps the page of `address`.
    pub fn unmap(&mut self, address: u64) {
        self.0.remove(&(address / PAGE));
    }

    fn byte(&self, at: u64) -> Result<u8, BadAddress> {
        let page = self.0.get(&(at / PAGE)).ok_or(BadAddress(at))?;
        Ok(page[(at % PAGE) as usize])
    }
}

impl GuestMemory for Pages {
    fn read(&self, linear: u64, into: &mut [u8]) -> Result<(), BadAddress> {
        for (offset, byte) in (0u64..).zip(into) {
            let at = linear.checked_add(offset).ok_or(BadAddress(linear))?;
            *byte = self.byte(at)?;
        }
        Ok(())
    }

    fn write(&mut self, linear: u64, from: &[u8]) -> Result<(), BadAddress> {
        for (offset, byte) in (0u64..).zip(from) {
            let at = linear.checked_add(offset).ok_or(BadAddress(linear))?;
            if self.1.contains(&(at / PAGE)) {
                return Err(BadAddress(at));
            }
            let page = self.0.get_mut(&(at / PAGE)).ok_or(BadAddress(at))?;
            page[(at % PAGE) as usize] = *byte;
        }
        Ok(())
    }
}

/// A process under test.
#[derive(Clone, Debug)]
pub struct Guest {
    /// Its memory.
    pub memory: Pages,
    /// Its page tables' address, which identifies the process.
    pub cr3: u64,
    /// Its thread pointer (FS base).
    pub thread: u64,
    /// The node's clock, in cycles.
    pub clock: u64,
    /// Its stack pointer.
    pub stack: u64,
    implementation: Implementation,
    heap: u64,
}

impl Guest {
    /// Creates a process of `rank`, not yet introduced to a tracer.
    pub fn new(implementation: Implementation, rank: u64) -> Self {
        let mut memory = Pages::default();
        memory.map(STACK - 0x10000, 0x10000);
        memory.map(HEAP, 0x40000);
        memory.map(STUB_BASE, belljar_abi::STUB_LENGTH);
        for operation in 0..belljar_abi::OPERATIONS as u64 {
            let function = LIBRARY + 16 * operation;
            memory
                .write(table_entry(operation), &function.to_le_bytes())
                .unwrap();
        }
        for (offset, address) in [(RETURN_OFFSET, RETURNED), (RESOLVERS_OFFSET, RESOLVERS)] {
            memory
                .write(STUB_BASE + offset, &address.to_le_bytes())
                .unwrap();
        }
        Self {
            memory,
            cr3: 0x1000_0000 + rank * 0x10_0000,
            thread: 0x7f22_0000_0000,
            clock: 1000,
            stack: STACK - 0x100,
            implementation,
            heap: HEAP,
        }
    }

    /// Reports a fact of the process to `tracer`, as the preloaded library does.
    pub fn tell(&mut self, tracer: &mut NodeTracer, number: u32, first: u64, second: u64) {
        let mut registers = self.registers();
        registers.rip = 0x7f33_0000_0000;
        registers.gpr[0] = FACT_LEAF.into();
        registers.gpr[3] = number.into();
        registers.gpr[7] = first;
        registers.gpr[6] = second;
        registers.gpr[11] = 0x1234;
        let target = tracer.magic(self.clock, 0, &registers, &mut self.memory);
        assert_eq!(target, 0x1234);
    }

    fn registers(&self) -> MagicRegisters {
        let mut registers = MagicRegisters {
            rip: MAGIC_ADDRESS,
            // A PCID, as Linux uses them, which must not matter.
            cr3: self.cr3 | (self.clock % 6),
            fs_base: self.thread,
            ..MagicRegisters::default()
        };
        registers.gpr[4] = self.stack;
        registers
    }

    /// Allocates bytes on the heap.
    pub fn room(&mut self, bytes: u64) -> u64 {
        let at = self.heap;
        self.heap += bytes.next_multiple_of(8);
        at
    }

    /// Puts 32-bit integers on the heap, and returns their address.
    pub fn ints(&mut self, values: &[i32]) -> u64 {
        let at = self.room(4 * values.len() as u64);
        self.put_ints(at, values);
        at
    }

    /// Puts 64-bit words on the heap, and returns their address.
    pub fn words(&mut self, values: &[u64]) -> u64 {
        let at = self.room(8 * values.len() as u64);
        self.put_words(at, values);
        at
    }

    /// Puts a text with its zero byte on the heap.
    pub fn text(&mut self, text: &str) -> u64 {
        let at = self.room(text.len() as u64 + 1);
        self.memory.write(at, text.as_bytes()).unwrap();
        at
    }

    /// Puts an environment of these variables on the heap, and returns its address.
    pub fn environment(&mut self, variables: &[&str]) -> u64 {
        let mut pointers: Vec<u64> = Vec::new();
        for variable in variables {
            pointers.push(self.text(variable));
        }
        pointers.push(0);
        self.words(&pointers)
    }

    /// Writes 32-bit integers.
    pub fn put_ints(&mut self, at: u64, values: &[i32]) {
        for (index, value) in (0u64..).zip(values) {
            self.memory
                .write(at + 4 * index, &value.to_le_bytes())
                .unwrap();
        }
    }

    /// Writes 64-bit words.
    pub fn put_words(&mut self, at: u64, values: &[u64]) {
        for (index, value) in (0u64..).zip(values) {
            self.memory
                .write(at + 8 * index, &value.to_le_bytes())
                .unwrap();
        }
    }

    /// Puts handles on the heap, as wide as the implementation's.
    pub fn handles(&mut self, values: &[u64]) -> u64 {
        match self.implementation {
            Implementation::Mpich => {
                let values: Vec<i32> = values.iter().map(|value| *value as i32).collect();
                self.ints(&values)
            }
            Implementation::OpenMpi | Implementation::StandardAbi(_) => self.words(values),
        }
    }

    /// Overwrites a handle.
    pub fn put_handle(&mut self, at: u64, value: u64) {
        let width = usize::from(self.implementation.handle_width());
        self.memory
            .write(at, &value.to_le_bytes()[..width])
            .unwrap();
    }

    /// Writes a status.
    pub fn put_status(&mut self, at: u64, source: i32, tag: i32, bytes: u64) {
        let (low, high) = (bytes as i32, (bytes >> 32) as i32);
        match self.implementation {
            Implementation::Mpich => self.put_ints(at, &[low, high << 1, source, tag, 0]),
            Implementation::OpenMpi => self.put_ints(at, &[source, tag, 0, 0, low, high]),
            Implementation::StandardAbi(MpiLibrary::OpenMpi) => {
                self.put_ints(at, &[source, tag, 0, 0, low, high, 0, 0]);
            }
            Implementation::StandardAbi(_) => {
                self.put_ints(at, &[source, tag, 0, low, high << 1, 0, 0, 0]);
            }
        }
    }

    /// Writes the `MPI_ERROR` of a status.
    pub fn put_status_error(&mut self, at: u64, error: i32) {
        let offset = match self.implementation {
            Implementation::Mpich => 16,
            Implementation::OpenMpi | Implementation::StandardAbi(_) => 8,
        };
        self.put_ints(at + offset, &[error]);
    }

    /// Enters a function, as the program's `call` and the stub do. Returns the address of the return address.
    pub fn enter(&mut self, tracer: &mut NodeTracer, name: &str, arguments: &[u64]) -> u64 {
        let operation = belljar_mpi::number(name).unwrap_or_else(|| panic!("{name}"));
        let (target, slot) = self.enter_operation(tracer, operation.into(), arguments, PROGRAM);
        assert_eq!(target, LIBRARY + 16 * u64::from(operation));
        slot
    }

    /// Enters an operation from `caller`. Returns the address at which it continues, and the address of the return
    /// address.
    pub fn enter_operation(
        &mut self,
        tracer: &mut NodeTracer,
        operation: u64,
        arguments: &[u64],
        caller: u64,
    ) -> (u64, u64) {
        let stacked = arguments.get(6..).unwrap_or_default();
        self.stack -= 8 * stacked.len() as u64;
        for (index, word) in (0u64..).zip(stacked) {
            let at = self.stack + 8 * index;
            self.memory.write(at, &word.to_le_bytes()).unwrap();
        }
        self.stack -= 8;
        let slot = self.stack;
        self.memory.write(slot, &caller.to_le_bytes()).unwrap();
        let mut registers = self.registers();
        for (register, word) in [7, 6, 2, 1, 8, 9].into_iter().zip(arguments) {
            registers.gpr[register] = *word;
        }
        registers.gpr[11] = operation;
        self.clock += 10;
        let target = tracer.magic(self.clock, 0, &registers, &mut self.memory);
        (target, slot)
    }

    /// True if the return address at `slot` leads to the library.
    pub fn is_intercepted(&self, slot: u64) -> bool {
        let mut word = [0; 8];
        self.memory.read(slot, &mut word).unwrap();
        u64::from_le_bytes(word) == RETURNED
    }

    /// Returns from the function whose return address is at `slot`. Returns the address reached.
    pub fn leave(&mut self, tracer: &mut NodeTracer, slot: u64, result: i32) -> u64 {
        self.stack = slot + 8;
        self.clock += 100;
        if !self.is_intercepted(slot) {
            return PROGRAM;
        }
        let mut registers = self.registers();
        registers.gpr[0] = 0xdead_0000_0000_0000 | u64::from(result.cast_unsigned());
        registers.gpr[11] = OP_RETURN;
        tracer.magic(self.clock, 0, &registers, &mut self.memory)
    }

    /// Makes a whole call; `body` acts as the function.
    pub fn call_with(
        &mut self,
        tracer: &mut NodeTracer,
        name: &str,
        arguments: &[u64],
        body: impl FnOnce(&mut Self, &mut NodeTracer),
    ) {
        let before = self.stack;
        let slot = self.enter(tracer, name, arguments);
        body(self, tracer);
        *tracer = tracer.reborn();
        let target = self.leave(tracer, slot, 0);
        assert_eq!(target, PROGRAM, "{name} returned elsewhere");
        self.stack = before;
    }

    /// Makes a whole call that returns the error `result`.
    pub fn fail_with(
        &mut self,
        tracer: &mut NodeTracer,
        name: &str,
        arguments: &[u64],
        result: i32,
        body: impl FnOnce(&mut Self),
    ) {
        let before = self.stack;
        let slot = self.enter(tracer, name, arguments);
        body(self);
        self.leave(tracer, slot, result);
        self.stack = before;
    }

    /// Makes a whole call of a function without relevant effects.
    pub fn call(&mut self, tracer: &mut NodeTracer, name: &str, arguments: &[u64]) {
        self.call_with(tracer, name, arguments, |_, _| {});
    }

    /// Makes a call with an output of one handle at its last argument. Returns the call's event.
    pub fn make(
        &mut self,
        tracer: &mut NodeTracer,
        name: &str,
        arguments: &[u64],
        handle: u64,
    ) -> Event {
        let out = self.handles(&[0]);
        let mut arguments = arguments.to_vec();
        arguments.push(out);
        self.call_with(tracer, name, &arguments, |guest, _| {
            guest.put_handle(out, handle);
        });
        tracer.take_events().pop().unwrap()
    }
}

impl NodeTracer {
    /// Returns a saved and restored copy, which behaves the same.
    pub fn reborn(&self) -> Self {
        let saved = self.save().unwrap();
        let mut reborn = Self::restore(0, &Selection::default(), &saved).unwrap();
        assert_eq!(reborn.save().unwrap(), saved);
        reborn.node = self.node;
        reborn.selection = self.selection.clone();
        reborn.probes = self.probes.clone();
        reborn
    }
}

/// Returns an `int` argument as registers carry it, with garbage in the upper half.
pub fn int(value: i32) -> u64 {
    0xabcd_0123_0000_0000 | u64::from(value.cast_unsigned())
}
