//! Code after the block: exits, and rarely executed paths.
//!
//! It comes last so that hot code is contiguous. Exits in the middle of a block refund the
//! unexecuted instructions, and restore the flags if they are saved. `emit` calls `emit_cold` once
//! per block.

use super::deferred::Deferred;
use super::flow::{JumpPlace, PredictedJump};
use super::{Emitter, FoldedHistory, Links};
use crate::context::at;
use crate::host::asm::{Hole, RCX, S0, S1};
use crate::host::cache::CELL_BYTES;
use crate::host::exit_stub::{CheckForm, ExitStub, ExitStubId, ExitStubKind, Refill};

/// Code placed after the block, out of the hot path.
pub(super) struct Cold {
    pub(super) hole: Hole,
    pub(super) kind: ColdKind,
    pub(super) index: u16,
    /// The pending change of RSP there.
    pub(super) deferred: Deferred,
    /// True if the flags are saved there.
    pub(super) flags_kept: bool,
    /// Jumps of the trace that are not in the history there.
    pub(super) folded: FoldedHistory,
    /// True if it belongs to rounds that were counted together.
    pub(super) in_guarded_loop: bool,
}

/// The kind of such code.
pub(super) enum ColdKind {
    /// Leaves through an exit stub; with `restore`, restores RCX first.
    Leave { kind: ExitStubKind, restore: bool },
    /// A TLB miss; `body` is the hot code from the access to its end.
    Miss {
        size: u16,
        write: bool,
        form: CheckForm,
        resume: u32,
        body: (u32, u32),
        restore: bool,
    },
    /// A jump to another block; linking patches `hole`.
    Link { target: u64 },
    /// A jump out of the middle of a run, which refunds the unexecuted instructions.
    SideExit { target: u64 },
    /// The same under a processor model, where it is the conditional jump at `rip`.
    PathExit { rip: u64, taken: bool, target: u64 },
    /// A mispredicted return in the middle of a trace; the target is in S0.
    WrongReturn,
    /// Not code: constants that are added to the halves of XMM31.
    Pair { ticks: i32, instructions: i32 },
    /// A return to another address than predicted; the target is in S0.
    SideReturn,
    /// An entry with another context than the slot's; `resume` is after the check, `again` before it.
    Path { slot: u32, resume: u32, again: u64 },
    /// A counter that did not expect a conditional jump's direction with certainty.
    Train { jump: PredictedJump, resume: u32 },
    /// A group's slot that does not cover its addresses; `resume` is after the check.
    Group { group: usize, resume: u32 },
}

/// The exit stubs of the block being emitted.
struct ExitStubs {
    block: u32,
    first: ExitStubId,
    list: Vec<ExitStub>,
}

/// A TLB miss and its data.
struct Miss {
    size: u16,
    write: bool,
    form: CheckForm,
    resume: u32,
    body: (u32, u32),
}

impl Emitter {
    /// Emits all deferred code; returns the block's exit stubs.
    pub(super) fn emit_cold(&mut self, block: u32, first: ExitStubId) -> Vec<ExitStub> {
        let mut sites = ExitStubs {
            block,
            first,
            list: Vec::with_capacity(self.cold.len()),
        };
        // Deferred code may defer more. The two lists are swapped, to reuse their memory.
        let mut now = std::mem::take(&mut self.settled);
        while !self.cold.is_empty() {
            std::mem::swap(&mut now, &mut self.cold);
            for cold in now.drain(..) {
                self.index = cold.index;
                self.deferred = cold.deferred;
                self.flags_kept = cold.flags_kept;
                self.folded = cold.folded;
                self.asm.land(cold.hole);
                self.emit_one(cold, &mut sites);
            }
        }
        self.settled = now;
        sites.list
    }

    fn emit_one(&mut self, cold: Cold, sites: &mut ExitStubs) {
        match cold.kind {
            ColdKind::Leave { kind, restore } => {
                self.restore(restore);
                self.leave(kind, sites);
            }
            ColdKind::Link { target } => self.link_stub(cold.hole, target, false, sites),
            ColdKind::SideExit { target } => {
                self.give_back(cold.index + 1);
                self.leave_guarded_loop(cold.in_guarded_loop);
                self.jump_to_guest(target);
            }
            ColdKind::PathExit { rip, taken, target } => {
                self.leave_segment(false);
                self.settle_history();
                self.predict_jump(PredictedJump {
                    rip,
                    taken,
                    place: JumpPlace::BehindTrace,
                });
                self.jump_to_guest(target);
            }
            ColdKind::SideReturn => {
                self.asm.mov(RCX, S1);
                if usize::from(self.index) + 1 < self.rips.len() {
                    self.leave_segment(false);
                }
                self.give_back(cold.index + 1);
                self.leave_guarded_loop(cold.in_guarded_loop);
                self.jump_cached();
            }
            ColdKind::WrongReturn => {
                self.asm.load(RCX, at::BORROWED);
                self.leave_segment(true);
                self.count_misprediction(S1);
                self.jump_cached();
            }
            ColdKind::Pair {
                ticks,
                instructions,
            } => {
                self.asm.bytes(&i64::from(ticks).to_le_bytes());
                self.asm.bytes(&i64::from(instructions).to_le_bytes());
            }
            ColdKind::Path {
                slot,
                resume,
                again,
            } => {
                for missed in self.other_path(slot, resume) {
                    self.asm.land(missed);
                }
                self.leave(ExitStubKind::Path { again }, sites);
            }
            ColdKind::Train { jump, resume } => self.train(jump, resume),
            ColdKind::Group { group, resume } => {
                self.cold_check(group, resume, cold.in_guarded_loop, sites);
            }
            ColdKind::Miss {
                size,
                write,
                form,
                resume,
                body,
                restore,
            } => {
                self.restore(restore);
                let miss = Miss {
                    size,
                    write,
                    form,
                    resume,
                    body,
                };
                self.cold_miss(&miss, sites);
            }
        }
    }

    fn restore(&mut self, restore: bool) {
        if restore {
            self.asm.load(RCX, at::BORROWED);
        }
    }

    fn leave(&mut self, kind: ExitStubKind, sites: &mut ExitStubs) {
        let site = sites.first + sites.list.len() as u32;
        self.asm.store_imm32(at::EXIT_SITE, site);
        self.asm.jump_to(if self.flags_kept {
            self.shared.leave_kept
        } else {
            self.shared.leave
        });
        sites.list.push(ExitStub {
            block: sites.block,
            allocates: !self.allocation.is_usual(),
            relative: self.mode.relative,
            index: self.index,
            kind,
        });
    }

    fn link_stub(&mut self, hole: Hole, target: u64, plain: bool, sites: &mut ExitStubs) {
        let mut hole = self.asm.address_of(self.asm.hole_offset(hole));
        if let Links::Cells(first) = self.links {
            hole = first + (self.cells.len() * CELL_BYTES) as u64;
            self.asm.jump_through(hole);
            self.cells.push(self.asm.here());
        }
        let stub = self.asm.here();
        let kind = ExitStubKind::Link {
            target,
            hole,
            stub,
            plain,
        };
        self.leave(kind, sites);
    }

    fn leave_guarded_loop(&mut self, in_guarded_loop: bool) {
        if in_guarded_loop {
            self.give_guarded_loop();
        }
    }

    fn cold_check(
        &mut self,
        group: usize,
        resume: u32,
        in_guarded_loop: bool,
        sites: &mut ExitStubs,
    ) {
        let exits = if self.plan.groups[group].scattered {
            self.cold_scattered(group, resume)
        } else {
            self.cold_group(group, resume)
        };
        self.asm.land(exits.crosses);
        if self.path_slot.is_some() {
            self.leave(ExitStubKind::Apart, sites);
        } else {
            self.continue_plainly(in_guarded_loop, sites);
        }
        for hole in exits.missed {
            self.asm.land(hole);
        }
        self.low_address(group, S0);
        let described = &self.plan.groups[group];
        let kind = ExitStubKind::Group {
            span: described.span(),
            write: described.write,
            resume: self.asm.address_of(exits.probe),
        };
        self.leave(kind, sites);
        let Some(refilled) = exits.refilled else {
            return;
        };
        self.asm.land(refilled);
        self.low_address(group, S0);
        let described = &self.plan.groups[group];
        let refill = Refill {
            slot: self.slot(group),
            span: described.span(),
            write: described.write,
        };
        self.leave(ExitStubKind::Refilled(refill), sites);
    }

    /// Continues with plain code at the present instruction.
    fn continue_plainly(&mut self, in_guarded_loop: bool, sites: &mut ExitStubs) {
        let missed_kept = self.flags_kept;
        self.end_kept_flags();
        self.give_back(self.index);
        self.leave_guarded_loop(in_guarded_loop);
        self.release();
        let hole = self.asm.jump();
        self.asm.land(hole);
        let target = self.rips[self.index as usize];
        self.link_stub(hole, target, true, sites);
        self.flags_kept = missed_kept;
    }

    fn cold_miss(&mut self, miss: &Miss, sites: &mut ExitStubs) {
        let resume = self.asm.address_of(miss.resume);
        let bounce = if miss.write {
            self.asm.here() + LEAVE_BYTES
        } else {
            resume
        };
        let kind = ExitStubKind::Miss {
            size: miss.size,
            write: miss.write,
            form: miss.form,
            resume,
            bounce,
        };
        self.leave(kind, sites);
        if miss.write {
            debug_assert_eq!(self.asm.here(), bounce);
            self.host_map.push((self.asm.offset(), self.index));
            let (start, end) = miss.body;
            self.asm.repeat(start, end);
            let kind = ExitStubKind::Commit {
                size: miss.size,
                resume: self.asm.address_of(end),
                call: self.calls[self.index as usize],
            };
            self.leave(kind, sites);
        }
    }
}

/// Bytes of the code of an exit stub.
const LEAVE_BYTES: u64 = 12 + 5;
