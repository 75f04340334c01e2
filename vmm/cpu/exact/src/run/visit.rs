//! A visit to translated code, and the handling of its exits.
//!
//! The host's registers hold the guest's only within `enter_translated`; afterwards they are in the
//! context, with registers moved by a block restored before any use. `dispatch` calls `visit`; each
//! kind of exit stub has a handler, which may continue in the middle of the block.

use belljar_translate::architecture::{cr4, flag, vector};
use belljar_translate::context::{EXIT_LOOKUP, EXIT_SIGNAL};
use belljar_translate::guest::mode::{Mode, Pace};
use belljar_translate::host::allocation::Allocation;
use belljar_translate::host::exit_stub::{BlockId, ExitStubId, ExitStubKind};

use crate::code::relative::moved;
use crate::processor::enter::Trampoline;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::left::{Next, Uncovered};
use crate::run::turn::{DispatchState, PendingLink};

impl ExactVcpu {
    /// Visits translated code at `entry`, repeatedly while it only needs service in the middle of a
    /// block.
    pub(crate) fn visit(&mut self, entry: u64, mode: Mode, state: &mut DispatchState) -> Next {
        let mut at = entry;
        self.context.pushed_flags = self.state.flags & !(flag::RF | flag::VM);
        self.show_tsc();
        self.open_crossing(mode);
        loop {
            self.context.resume = at;
            self.statistics.visits += 1;
            enter_translated(self.trampoline);
            self.settle_crossing();
            let next = match self.context.exit_site {
                EXIT_LOOKUP => {
                    self.statistics.lookups += 1;
                    state.unknown = true;
                    self.state.rip = self.context.scratch[0];
                    Next::Boundary
                }
                EXIT_SIGNAL => self.host_fault(),
                site if self.is_last_stop(site) => {
                    let allocation = self.stops.uncovered.map(|stop| stop.allocation);
                    self.exchange(allocation.unwrap_or_default());
                    self.stop(state)
                }
                site => {
                    let allocation = self.allocation_at(site);
                    self.exchange(allocation);
                    let next = self.leave_site(site, state);
                    if let Next::Resume(_) = next {
                        self.exchange(allocation);
                    }
                    next
                }
            };
            match next {
                Next::Resume(address) => at = address,
                other => return other,
            }
        }
    }

    /// Lets translated code read the time-stamp counter itself, if that is permitted and if an
    /// instruction takes a cycle.
    fn show_tsc(&mut self) {
        let plain = self.accounting.is_none() && self.clock.counts_cycles();
        let open = plain && self.state.system.cr4 & cr4::TSD == 0;
        self.context.tsc_hidden = u64::from(!open);
        let ticks = self.clock.ticks.wrapping_add(self.budget.granted as u64);
        self.context.tsc_at_zero = self.clock.at(ticks).wrapping_add(self.clock.tsc_offset);
        self.context.tsc_aux = self.state.msrs.tsc_aux & 0xffff_ffff;
    }

    fn is_last_stop(&self, site: ExitStubId) -> bool {
        let is_this =
            |stop: &Uncovered| stop.site == site && stop.generation == self.store.generation();
        self.stops.uncovered.as_ref().is_some_and(is_this)
    }

    /// Handles a block that the budget does not cover.
    fn stop(&mut self, state: &mut DispatchState) -> Next {
        let Some(stop) = self.stops.uncovered else {
            return Next::Boundary;
        };
        self.state.rip = stop.rip.wrapping_add(self.origin_of(stop.relative));
        self.give(self.stop_charge(&stop));
        match stop.pace {
            Pace::Piece(power) => state.largest = power.saturating_sub(1),
            _ => {
                self.stops.uncovered_at = Some((self.state.rip, stop.dead_flags));
                state.slow |= stop.hot;
                state.rest |= !stop.hot;
            }
        }
        Next::Boundary
    }

    /// The places of guest registers at an exit stub. Jumps to other blocks have already restored
    /// them.
    fn allocation_at(&self, site: ExitStubId) -> Allocation {
        let site = self.store.site(site);
        match site.kind {
            ExitStubKind::Link { .. } => Allocation::default(),
            _ if !site.allocates => Allocation::default(),
            _ => self.store.block(site.block).allocation,
        }
    }

    /// Exchanges guest registers with the values that a block has in their places.
    fn exchange(&mut self, allocation: Allocation) {
        let context = &mut *self.context;
        if let Some([first, second]) = allocation.renamed {
            context.gpr.swap(14, usize::from(first));
            context.gpr.swap(15, usize::from(second));
        }
        let lent = allocation.lent;
        for (kept, &register) in context.lent.iter_mut().zip(lent.registers()) {
            std::mem::swap(kept, &mut context.gpr[usize::from(register)]);
        }
    }

    fn leave_site(&mut self, id: u32, state: &mut DispatchState) -> Next {
        let site = self.store.site(id);
        let (block, index, relative) = (site.block, site.index, site.relative);
        let origin = self.origin_of(relative);
        match &site.kind {
            ExitStubKind::Stop => {
                let (site, generation) = (id, self.store.generation());
                let (block, allocation) = (self.store.block(block), self.allocation_at(id));
                let mut uncovered = Uncovered::new(block, site, generation, allocation);
                uncovered.path_slot = block.heat.filter(|_| self.path_model().is_some());
                self.stops.uncovered = Some(uncovered);
                self.stop(state)
            }
            &ExitStubKind::Path { again } => self.meet_path(block, again),
            ExitStubKind::Apart => {
                self.refund(block, index);
                Next::Plain
            }
            ExitStubKind::FreeSpent => {
                self.guards.free_stubs = false;
                self.state.rip = self.rip_of_block(block);
                self.flush_translations();
                Next::Boundary
            }
            &ExitStubKind::Link {
                target,
                hole,
                stub,
                plain,
            } => {
                self.state.rip = target.wrapping_add(origin);
                let (from, generation) = (block, self.store.generation());
                state.link = Some(PendingLink {
                    from,
                    hole,
                    stub,
                    generation,
                    plain,
                    relative,
                });
                Next::Boundary
            }
            &ExitStubKind::Miss {
                size,
                write,
                form,
                resume,
                bounce,
            } => self.miss(block, index, (size, write, form), (resume, bounce)),
            &ExitStubKind::Commit { size, resume, call } => {
                self.commit(block, index, size, resume, call)
            }
            ExitStubKind::Hot => {
                self.state.rip = self.rip_of_block(block);
                self.ran_hot(block);
                Next::Boundary
            }
            &ExitStubKind::Group {
                span,
                write,
                resume,
            } => self.group_miss(block, index, span, write, resume),
            &ExitStubKind::Refilled(refill) => self.refilled(block, index, refill),
            ExitStubKind::Helper(instruction) => {
                let instruction = moved(instruction, origin);
                self.statistics.helpers += 1;
                self.help(block, index, &instruction)
            }
            &ExitStubKind::Fault { vector } => {
                self.refund(block, index);
                if vector == vector::INVALID_OPCODE {
                    self.note_unimplemented();
                }
                self.deliver(match vector {
                    vector::PROTECTION => Fault::protection(0),
                    vector => Fault::plain(vector),
                })
            }
        }
    }

    fn rip_of_block(&self, id: BlockId) -> u64 {
        self.store.block(id).rip_in(self.context.code_page)
    }

    fn host_fault(&mut self) -> Next {
        let pc = self.context.fault_pc;
        let found = self
            .store
            .block_at(pc)
            .and_then(|id| Some((id, self.store.block(id).instruction_at(pc)?)));
        let Some((block, index)) = found else {
            unreachable!("a host fault outside every block, at {pc:#x}");
        };
        self.exchange(self.store.block(block).allocation);
        self.refund(block, index);
        let fault = match self.context.fault_trap {
            0 => Fault::plain(vector::DIVIDE),
            6 => Fault::invalid_opcode(),
            16 => Fault::plain(vector::X87),
            17 => Fault::alignment(),
            19 if self.state.system.cr4 & cr4::OSXMMEXCPT == 0 => Fault::invalid_opcode(),
            19 => Fault::plain(vector::SIMD),
            _ => Fault::protection(0),
        };
        self.deliver(fault)
    }
}

#[allow(unsafe_code)]
fn enter_translated(trampoline: Trampoline) {
    // SAFETY: only called after `point_at`, which points GS at the
    // context, with a target in translated code and the signal stack in place; the
    // vCPU's construction checked that the host has the guest's registers.
    unsafe { trampoline.pass() };
}
