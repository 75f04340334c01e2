//! Accesses under a processor model with caches.
//!
//! Translated code accesses lines directly that the first level has marked as used; all others come here, in the
//! order of the program. The time of an access is counted from its instruction, whose ticks do not depend on stops.
//! `lines` calls `meet_line`.

use belljar_pipeline::memory::{LineAccess, MissMoment};
use belljar_translate::prices::timing::TICKS_PER_CYCLE;

use crate::memory::lines::{BlockSite, Touched};
use crate::processor::vcpu::ExactVcpu;

/// A load or store of translated code.
struct SiteAccess {
    /// Address of the instruction.
    address: u64,
    moment: MissMoment,
}

impl ExactVcpu {
    /// Accounts for an access to a line; returns its place in the first level, if there is a processor model that has
    /// its page.
    pub(crate) fn meet_line(&mut self, touched: &Touched) -> Option<usize> {
        let memory = self.accounting.as_ref()?.memory.as_ref()?;
        if !memory.models(touched.physical) {
            return None;
        }
        let site = touched
            .site
            .and_then(|site| self.site_access(site, touched.write));
        let access = LineAccess {
            linear: touched.linear,
            physical: touched.physical,
            page_bytes: self.addresses.large.bytes_at(touched.linear),
            site: site.as_ref().map(|site| site.address),
        };
        let moment = site.map_or_else(|| self.moment_outside(touched.write), |site| site.moment);
        let accounting = self.accounting.as_deref_mut()?;
        let memory = accounting.memory.as_mut()?;
        let (place, ticks) = memory.access(&access, &moment, &mut self.context.wide_lines);
        self.context.count -= ticks as i64;
        Some(place)
    }

    /// The place in the first level of a line that was just accessed, under a processor model.
    pub(crate) fn place_of(&self, physical: u64) -> Option<usize> {
        let memory = self.accounting.as_ref()?.memory.as_ref()?;
        memory.place(physical)
    }

    /// Accounts for a line of a string instruction, which only occupies paths.
    pub(crate) fn touch_string(&mut self, linear: u64, physical: u64) {
        let touched = Touched {
            linear,
            physical,
            write: true,
            site: None,
        };
        self.touch(touched, 1);
    }

    /// The circumstances of an access by an instruction of a block that runs.
    fn site_access(&self, site: BlockSite, write: bool) -> Option<SiteAccess> {
        let position = self.position_in(site.block, site.index)?;
        let paths = &self.path_model()?.paths;
        let edge = paths.edge(position.edge);
        let number = position.index;
        let (address, op) = paths.block(edge.block).instruction(number)?;
        let ahead = self.charge_from(site.block, site.index + 1);
        let moment = MissMoment {
            now: self.ticks_now().wrapping_sub(ahead.ticks as u64),
            retired: self.retired_now().wrapping_sub(ahead.instructions as u64),
            // Of an instruction that reads what it writes, the first check is that of a write.
            loads: !write || op.load.is_some() && op.load == op.store,
            recurrent: edge.recurrent.checked_shr(number.into()).unwrap_or(0) & 1 != 0,
            block: (edge.ticks.into(), edge.count.into()),
        };
        Some(SiteAccess { address, moment })
    }

    /// The circumstances of an access outside of translated code: between instructions.
    fn moment_outside(&self, write: bool) -> MissMoment {
        MissMoment {
            now: self.ticks_now(),
            retired: self.retired_now(),
            loads: !write,
            recurrent: false,
            block: (TICKS_PER_CYCLE.into(), 1),
        }
    }
}
