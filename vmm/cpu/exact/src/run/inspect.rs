//! The vCPU's state as named values: all state that can become visible to a guest.
//!
//! Values follow only from the guest's execution, not from translation, so two runs of a scenario
//! have the same. `Vcpu::state` returns them for hashing and comparing nodes.

use belljar_cpu::{StateItem, Vcpu, register_items};
use belljar_sim::encode;

use crate::processor::accounting::memory::MemoryModel;

use crate::processor::vcpu::ExactVcpu;

impl ExactVcpu {
    /// Registers, vectors, x87, MSRs and conditions that block interrupts.
    pub(crate) fn state_items(&self) -> Vec<StateItem> {
        let mut items = register_items(&self.registers(), &self.system());
        self.add_vectors(&mut items);
        self.add_model_specific(&mut items);
        self.add_timing(&mut items);
        items
    }

    /// The state of a processor model that determines later times.
    fn add_timing(&self, items: &mut Vec<StateItem>) {
        let Some((path, predictor)) = self.saved_path() else {
            return;
        };
        // Numbers, strings and lists can always be encoded.
        let encoded = [encode(&path), encode(&predictor)].map(Result::unwrap_or_default);
        for (name, bytes) in ["timing.path", "timing.predictor"].iter().zip(&encoded) {
            items.push(StateItem::bytes((*name).to_owned(), bytes));
        }
        let memory = self.accounting.as_ref().and_then(|l| l.memory.as_ref());
        let words = memory.map(MemoryModel::words).into_iter().flatten();
        for (name, word) in ["timing.misses", "timing.window", "timing.bus"]
            .into_iter()
            .zip(words)
        {
            items.push(StateItem::word(name, word));
        }
    }

    fn add_vectors(&self, items: &mut Vec<StateItem>) {
        let state = self.vectors();
        for (number, vector) in state.vectors.iter().enumerate() {
            items.push(StateItem::bytes(format!("zmm{number}"), vector));
        }
        for (number, &mask) in state.masks.iter().enumerate() {
            items.push(StateItem::word(format!("k{number}"), mask));
        }
        items.push(StateItem::word("mxcsr", state.mxcsr.into()));
        let x87 = self.x87();
        items.push(StateItem::bytes("x87.control", &x87[..2]));
        items.push(StateItem::bytes("x87.status", &x87[2..4]));
        items.push(StateItem::bytes("x87.tags", &x87[4..5]));
        for number in 0..8 {
            let register = &x87[32 + number * 16..][..10];
            items.push(StateItem::bytes(format!("st{number}"), register));
        }
    }

    fn add_model_specific(&self, items: &mut Vec<StateItem>) {
        let msrs = &self.state.msrs;
        let single = [
            ("xcr0", self.state.xcr0),
            ("cr8", self.state.cr8),
            ("star", msrs.star),
            ("lstar", msrs.lstar),
            ("cstar", msrs.cstar),
            ("sfmask", msrs.sfmask),
            ("kernel_gs_base", self.context.kernel_gs_base),
            ("tsc_aux", msrs.tsc_aux),
            ("pat", msrs.pat),
            ("misc_enable", msrs.misc_enable),
            ("mtrr_def_type", msrs.mtrr_default),
            ("tsc_offset", self.clock.tsc_offset),
            ("halted", self.state.halted.into()),
            ("shadow", self.state.shadow.into()),
            ("in_nmi", self.state.in_nmi.into()),
        ];
        items.extend(single.map(|(name, value)| StateItem::word(name, value)));
        for (name, values) in [
            ("dr", &self.state.debug[..]),
            ("sysenter", &msrs.sysenter),
            ("mtrr_fixed", &msrs.mtrr_fixed),
            ("mtrr_variable", &msrs.mtrr_variable),
        ] {
            for (number, &value) in values.iter().enumerate() {
                items.push(StateItem::word(format!("{name}{number}"), value));
            }
        }
    }
}
