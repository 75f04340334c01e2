//! Flags that a trace keeps over the checks at its beginning.
//!
//! Checks of groups change flags, so they stand where flags are dead. A trace may have no such
//! place: one of loads, stores and a call that never names a flag. If many of its accesses
//! could be checked together at its beginning, the flags wait in the context meanwhile.

use super::Emitter;
use crate::asm::{RAX, S1};
use crate::context::at;
use crate::decode::GuestInstruction;
use crate::groups::{Plan, Scattered, plan};

/// Accesses that must be checked in groups for it to be worth keeping flags.
const WORTH: usize = 2;

impl Emitter {
    /// Plans the checks of `run`, before whose instructions flags are `dead` or not.
    pub(super) fn plan_checks(
        &mut self,
        run: &[GuestInstruction],
        dead: &[bool],
        scattered: Scattered<'_>,
    ) {
        self.plan = plan(run, dead, scattered);
        if dead[0] {
            return;
        }
        let mut kept = dead.to_vec();
        kept[0] = true;
        let other = plan(run, &kept, scattered);
        if grouped(&other) >= grouped(&self.plan) + WORTH {
            self.plan = other;
            self.keeps_flags = true;
        }
    }

    /// Puts the arithmetic flags away, if they are to be kept. Takes S1.
    pub(super) fn keep_flags(&mut self) {
        if !self.keeps_flags {
            return;
        }
        self.asm.mov(S1, RAX);
        self.asm.bytes(&LAHF);
        self.asm.bytes(&SETO_AL);
        self.asm.store(at::KEPT_FLAGS, RAX);
        self.asm.mov(RAX, S1);
        self.flags_kept = true;
    }

    /// Behind the checks at a trace's beginning.
    pub(super) fn end_kept_flags(&mut self) {
        if self.flags_kept {
            self.take_kept_flags();
            self.flags_kept = false;
        }
    }

    /// Gives the flags that were put away back. Takes S1.
    pub(super) fn take_kept_flags(&mut self) {
        self.asm.spoil();
        self.asm.mov(S1, RAX);
        self.asm.load(RAX, at::KEPT_FLAGS);
        // The sum overflows if AL is one; SAHF leaves OF alone.
        self.asm.bytes(&ADD_AL_127);
        self.asm.bytes(&SAHF);
        self.asm.mov(RAX, S1);
    }
}

fn grouped(plan: &Plan) -> usize {
    plan.uses.iter().flatten().count()
}

const LAHF: [u8; 1] = [0x9f];
const SAHF: [u8; 1] = [0x9e];
const SETO_AL: [u8; 3] = [0x0f, 0x90, 0xc0];
const ADD_AL_127: [u8; 2] = [0x04, 0x7f];
