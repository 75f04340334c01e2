//! Magic stops: calls of the preloaded library at which a node stops, and their continuation.
//!
//! The owner of a node passes a stop to a tracer, or continues the call untraced; the guest stands still meanwhile.

use belljar_abi::{MAGIC_ADDRESS, TARGET, table_entry};
use belljar_cpu::Registers;

use super::Node;

impl Node {
    /// Ends a magic stop: the guest continues after the magic instruction with
    /// `target` in R11. Without a magic stop it does nothing.
    pub fn complete_magic(&mut self, target: u64) {
        if self.magic.take().is_some() {
            self.current_mut().vcpu.complete_magic(target);
        }
    }

    /// Continues an untraced call in the real function.
    pub fn pass_on_magic(&mut self) {
        let target = self.real_function(&self.registers());
        self.complete_magic(target);
    }

    /// The address at which an untraced call with these `registers` continues: the real function, from the library's
    /// table.
    pub fn real_function(&self, registers: &Registers) -> u64 {
        let operation = registers.gpr[Registers::R11];
        if registers.rip != MAGIC_ADDRESS {
            return operation;
        }
        let mut address = [0; 8];
        match self.read_virtual(table_entry(operation), &mut address) {
            Ok(()) => u64::from_le_bytes(address) & TARGET,
            Err(_) => 0,
        }
    }
}
