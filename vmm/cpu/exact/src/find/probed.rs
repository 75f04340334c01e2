//! Probes in translated code: a block ends before each address with a probe, and the processor checks for probes there.
//!
//! A page of users' code is compared with the pages of the set when it first runs; it is watched from then on, and compared again after
//! changes. Code at a probe, and at a return address of a traced call, is never linked, and never in a jump cache or a pool: it is always
//! reached through the dispatcher, which executes that one instruction separately. Probes in a kernel are linear addresses, which apply in
//! supervisor mode without a comparison of bytes. So the guest's behaviour and timing are the same with and without probes.
//!
//! Called by the dispatcher when it looks up the code at a RIP, and by the makers of traces.

use std::sync::Arc;

use belljar_cpu::{Access, Exit, MOST_RETURNS, PAGE_SIZE, Probed, Probes, Vcpu};
use belljar_translate::guest::decode::{Decoded, GuestBlock, MAX_BYTES, MAX_INSTRUCTIONS, decode};
use belljar_translate::guest::size::CodeSize;

use crate::processor::vcpu::ExactVcpu;

/// The probe and the watched address at a vCPU's RIP. One of them, or a breakpoint of another mapping of the page,
/// makes the instruction there run by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    /// The number of the probe, if there is one.
    pub(crate) probe: Option<u32>,
    /// True at a breakpoint, and at a return address that is not also a probe.
    pub(crate) watched: bool,
}

impl ExactVcpu {
    /// Ends runs at `probes` from now on.
    pub(crate) fn begin_probes(&mut self, probes: &Arc<Probes>) {
        self.with_code(|vcpu| {
            vcpu.flush_code();
            vcpu.store.probed.set = Some(probes.clone()).filter(|set| !set.is_empty());
        });
    }

    /// Ends runs at returns to `target`: a user address, or in the upper half a kernel address. Returns false if there are too many such
    /// addresses.
    pub(crate) fn begin_return(&mut self, target: u64) -> bool {
        self.with_code(|vcpu| {
            if vcpu.store.probed.returns.contains(&target) {
                return true;
            }
            if vcpu.store.probed.returns.len() >= MOST_RETURNS {
                return false;
            }
            vcpu.store.probed.returns.insert(target);
            // From now on the address is only reached through the dispatcher.
            if let Some(physical) = vcpu.translate(target, Access::Fetch) {
                vcpu.forget_code(physical, 1);
                vcpu.store.keep_own(physical);
            }
            true
        })
    }

    /// Ends runs before the instructions at these linear addresses from now on, in all address spaces; they replace
    /// earlier ones. Addresses in the upper half are of the kernel.
    pub(crate) fn begin_breakpoints(&mut self, addresses: &[u64]) {
        self.with_code(|vcpu| {
            vcpu.flush_code();
            vcpu.store.probed.breakpoints = addresses.iter().copied().collect();
        });
    }

    /// The probe or watched return address at `state.rip`, whose page is compared with the set if necessary. `None` also if no page is
    /// mapped: fetching the code reports that.
    pub(crate) fn hit_here(&mut self) -> Option<Hit> {
        if !self.store.probed.is_active() || self.state.code_size() != CodeSize::Long {
            return None;
        }
        let rip = self.state.rip;
        let is_user = self.state.is_user();
        if !is_user && (!is_upper(rip) || !self.store.probed.has_kernel()) {
            return None;
        }
        let physical = self.fetch_address(rip).ok()?;
        if is_user && self.memory.is_watched(physical) && self.store.probed.is_plain(physical) {
            let watched = self.is_watched_return(rip);
            return watched.then_some(Hit {
                probe: None,
                watched,
            });
        }
        match is_user {
            true => self.compare_page(physical),
            false => self.note_kernel_page(physical, rip & !(PAGE_SIZE - 1)),
        }
        self.note_breakpoints(physical, rip & !(PAGE_SIZE - 1));
        let probed = &self.store.probed;
        let probe = probed.probe_at(physical);
        let watched = match probe {
            Some(_) => probed.breakpoints.contains(&rip),
            None => self.is_watched_return(rip),
        };
        let is_place = watched || probed.is_place(physical);
        is_place.then_some(Hit { probe, watched })
    }

    /// Records the breakpoints in the page at linear address `page`, which is at `physical`.
    fn note_breakpoints(&mut self, physical: u64, page: u64) {
        let number = physical / PAGE_SIZE;
        let Some(places) = self.store.probed.with_breakpoints(number, page) else {
            return;
        };
        // Code of the page from before may run past the new places.
        let start = physical & !(PAGE_SIZE - 1);
        self.forget_code(start, PAGE_SIZE);
        self.watch_page(start);
        self.keep_page_apart(start);
        self.store.probed.set_places(number, places);
    }

    /// True if a call in the present mode, user or kernel, is to return to `rip`, or if a breakpoint is there.
    fn is_watched_return(&self, rip: u64) -> bool {
        let probed = &self.store.probed;
        is_upper(rip) != self.state.is_user()
            && (probed.returns.contains(&rip) || probed.breakpoints.contains(&rip))
    }

    /// Records the kernel's probes in its page at linear address `page`, which is at `physical`.
    fn note_kernel_page(&mut self, physical: u64, page: u64) {
        let Some(set) = self.store.probed.set.clone() else {
            return;
        };
        let places = set.kernel_places(page);
        let number = physical / PAGE_SIZE;
        let watched = self.memory.is_watched(physical);
        let known = self.store.probed.places(number);
        if places.is_empty() || watched && known.is_some_and(|known| *known == *places) {
            return;
        }
        if !watched {
            self.watch_page(physical);
        }
        self.keep_page_apart(physical);
        self.store.probed.set_places(number, places.into());
    }

    /// Excludes code of the page around `physical`, which contains probes, from the pool.
    fn keep_page_apart(&mut self, physical: u64) {
        // Other nodes' links in the pool may lead to its code.
        self.leave_shared(physical, true);
        self.store.keep_own(physical);
    }

    /// Finds the probes of the page around `physical`, unless it was compared already.
    fn compare_page(&mut self, physical: u64) {
        let number = physical / PAGE_SIZE;
        let watched = self.memory.is_watched(physical);
        if watched && self.store.probed.places(number).is_some() {
            return;
        }
        let Some(set) = self.store.probed.set.clone() else {
            return;
        };
        let page = physical & !(PAGE_SIZE - 1);
        let places = set.places_in(|at, into| self.memory.read(page + at as u64, into));
        if !watched {
            self.watch_page(physical);
        }
        if !places.is_empty() {
            self.keep_page_apart(physical);
        }
        self.store.probed.set_places(number, places.into());
    }

    /// The block at `rip` and `physical` of at most `limit` instructions, if it reaches a probe in its page, before which it ends. `bytes`
    /// are the bytes from `rip` on. If a probe's address is in the middle of an instruction, this path does not reach it.
    pub(crate) fn decode_to_probe(
        &self,
        rip: u64,
        physical: u64,
        bytes: &[u8],
        limit: usize,
    ) -> Option<GuestBlock> {
        let mut places = self.store.probed.bytes_to_next(physical);
        places.find_map(
            |left| match decode(rip, bytes.get(..left)?, limit, &self.features_now()) {
                Decoded::Block(block) => Some(block),
                // The place is in the first instruction; the next one may not be.
                Decoded::Crosses => None,
            },
        )
    }

    /// As [`decode_to_probe`](Self::decode_to_probe), for bytes in RAM.
    pub(crate) fn decode_to_probe_at(
        &self,
        rip: u64,
        physical: u64,
        limit: usize,
    ) -> Option<GuestBlock> {
        self.store.probed.bytes_to_next(physical).next()?;
        let mut bytes = [0; MAX_INSTRUCTIONS * MAX_BYTES];
        let in_page = (PAGE_SIZE - physical % PAGE_SIZE) as usize;
        let left = in_page.min(limit * MAX_BYTES);
        if !self.memory.read(physical, &mut bytes[..left]) {
            return None;
        }
        self.decode_to_probe(rip, physical, &bytes[..left], limit)
    }

    /// True if a trace must not continue at `rip`, at `physical` in the present page: there is a probe or a watched return address.
    pub(crate) fn is_probed(&self, physical: u64, rip: u64) -> bool {
        let probed = &self.store.probed;
        probed.is_active() && (probed.is_place(physical) || self.is_watched_return(rip))
    }

    /// The vCPU's state at a probe.
    pub(crate) fn probed_now(&self) -> Probed {
        Probed {
            registers: self.registers(),
            scalars: self.scalars_now(),
            account: self.account(),
            at: self.now(),
        }
    }

    /// The low halves of the first vector registers.
    pub(crate) fn scalars_now(&self) -> [u64; 8] {
        let mut scalars = [0; 8];
        for (scalar, vector) in scalars.iter_mut().zip(&self.context.vectors) {
            let mut low = [0; 8];
            low.copy_from_slice(&vector.0[..8]);
            *scalar = u64::from_le_bytes(low);
        }
        scalars
    }

    /// The exit of a vCPU at a watched return address, unless it has just returned from that exit.
    pub(crate) fn return_exit(&mut self, passing: Option<u64>) -> Option<Exit> {
        let rip = self.state.rip;
        if passing.is_some() {
            return None;
        }
        self.stops.passing = Some(rip);
        Some(Exit::Return { at: self.now() })
    }
}

/// True if an address is in the upper half of the address space, the kernel's.
fn is_upper(address: u64) -> bool {
    address >> 63 != 0
}
