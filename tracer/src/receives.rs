//! Receives as MPI libraries post and complete them, with their matched messages.
//!
//! A program that passes `MPI_STATUS_IGNORE` leaves the match to its library. MPICH over UCX posts each receive by a function of UCX
//! and learns the match in a callback. Open MPI's ob1 keeps the match in the request, whose address is the handle. Both are observed:
//! the posting by a probe, the callback by a watched address, the request in memory when its call returns. A match is recorded only
//! if it agrees with the program's arguments. Guests are untrusted, and all tables are bounded. Used by `probe` and `process`.

/// Requests of Open MPI's ob1.
pub(crate) mod ob1;
/// Receives that a process's library posted.
pub(crate) mod posted;
/// A receive as a library posts it.
mod posting;
/// Receives by UCX.
mod ucx;

use crate::guest::memory::Reader;
use crate::guest::registers::{ARGUMENT_REGISTERS, MagicRegisters, RSP};
use crate::interception::targets::ReceiveHook;
use crate::node::NodeTracer;
use belljar_trace::MpiLibrary;

impl NodeTracer {
    /// Handles the arrival of a library at `hook`: notes the receive in the MPI call in progress.
    pub(crate) fn post_receive(
        &mut self,
        hook: ReceiveHook,
        registers: &MagicRegisters,
        memory: Reader<'_>,
    ) {
        let space = registers.space();
        let Some(process) = self.processes.get_mut(&space) else {
            return;
        };
        let argument = |number: usize| registers.gpr[ARGUMENT_REGISTERS[number]];
        let posting = match (process.implementation().library(), hook) {
            (MpiLibrary::Mpich, ReceiveHook::UcxReceive) => {
                ucx::posting(argument(5), Some((argument(3), argument(4))), memory)
            }
            (MpiLibrary::Mpich, ReceiveHook::UcxReceiveProbed) => {
                ucx::posting(argument(4), None, memory)
            }
            (MpiLibrary::OpenMpi, ReceiveHook::Ob1Start) => Some(ob1::started(argument(0))),
            (MpiLibrary::OpenMpi, ReceiveHook::Ob1ReceiveProbed) => {
                ob1::probed(argument(3), memory).ok()
            }
            _ => None,
        };
        let Some(posting) = posting else {
            return;
        };
        if let Some(callback) = posting.callback
            && process.receives.learn_callback(callback)
        {
            self.to_watch.push(callback);
        }
        let receive = process.receives.post(posting.request, posting.asked);
        if posting.is_own {
            let place = (registers.fs_base, registers.gpr[RSP]);
            self.open.note_receive(space, place, receive);
        }
    }

    /// Handles the arrival of a process at a watched address: notes the match if it is a callback of its library.
    pub(crate) fn match_receive(&mut self, registers: &MagicRegisters, memory: Reader<'_>) {
        let Some(process) = self.processes.get_mut(&registers.space()) else {
            return;
        };
        if !process.receives.is_callback(registers.rip) {
            return;
        }
        let argument = |number: usize| registers.gpr[ARGUMENT_REGISTERS[number]];
        let message = ucx::message(argument(1), argument(2), memory);
        process.receives.match_message(argument(3), message);
    }
}

#[cfg(test)]
mod tests;
