//! Calls that return, jump to others, are jumped over, and are too many.

use std::sync::Arc;

use belljar_trace::{Probe, ProbeAt, ProbeRecord, ProbeValue, ValueKind};

use super::*;
use crate::interception::targets::{Target, Targets};
use crate::scripted::{Pages, STACK};
use crate::selection::Selection;

const BACK: u64 = 0x40_1000;

/// A guest with two of the user's probes, `f(int, double)` and `g`, at locations with those numbers.
struct Guest {
    tracer: NodeTracer,
    memory: Pages,
    registers: MagicRegisters,
    clock: u64,
}

impl Guest {
    fn new() -> Self {
        let probe = |name: &str, arguments: &[ValueKind]| Probe {
            name: name.to_owned(),
            file: "p".to_owned(),
            at: ProbeAt::Call,
            arguments: arguments.to_vec(),
            result: Some(ValueKind::Signed(4)),
            purpose: ProbePurpose::User,
        };
        let f = probe("f", &[ValueKind::Signed(4), ValueKind::Double]);
        let mut tracer = NodeTracer::new(0, &Selection::default());
        tracer.set_targets(Arc::new(Targets::with_own(vec![Target::Own; 2])));
        tracer.set_own_probes([f, probe("g", &[])].into());
        tracer.watch_returns();
        let mut memory = Pages::default();
        memory.map(STACK - 0x4000, 0x8000);
        let mut registers = MagicRegisters {
            cr3: 0x1000,
            fs_base: 0x7000,
            ..MagicRegisters::default()
        };
        registers.gpr[RSP] = STACK - 0x100;
        Self {
            tracer,
            memory,
            registers,
            clock: 100,
        }
    }

    /// Calls function number `probe` from the instruction before `back`.
    fn call(&mut self, probe: u32, back: u64) {
        self.registers.gpr[RSP] -= 8;
        let slot = self.registers.gpr[RSP];
        self.memory.write(slot, &back.to_le_bytes()).unwrap();
        self.jump(probe);
        assert_eq!(self.tracer.take_return_to_watch(), Some(back));
    }

    /// Reaches it by a jump.
    fn jump(&mut self, probe: u32) {
        self.clock += 10;
        let (tracer, registers) = (&mut self.tracer, &self.registers);
        tracer.probe(self.clock, 0, probe, registers, &mut self.memory);
    }

    fn come_back(&mut self, back: u64) -> Vec<ProbeRecord> {
        self.clock += 10;
        self.registers.gpr[RSP] += 8;
        self.registers.rip = back;
        self.tracer
            .returned(self.clock, &self.registers, &self.memory);
        self.tracer.take_probe_records()
    }
}

/// Returns probe, entry, exit and depth.
fn told(records: &[ProbeRecord]) -> Vec<(u32, u64, Option<u64>, u16)> {
    let told = records.iter();
    told.map(|it| (it.probe, it.entry, it.exit, it.depth))
        .collect()
}

#[test]
fn calls_are_told_when_they_return_with_what_they_were_given() {
    let mut guest = Guest::new();
    guest.registers.gpr[7] = 0xdead_beef_ffff_fffe;
    guest.registers.scalars[0] = 1.5_f64.to_bits();
    guest.call(0, BACK);
    guest.call(0, BACK + 8);
    guest.registers.gpr[RAX] = 7;
    let inner = guest.come_back(BACK + 8);
    assert_eq!(told(&inner), [(0, 120, Some(130), 1)]);
    let outer = guest.come_back(BACK);
    assert_eq!(told(&outer), [(0, 110, Some(140), 0)]);
    let [number, weight] = [ValueKind::Signed(4), ValueKind::Double];
    assert_eq!(outer[0].arguments[0].in_words(number), "-2");
    assert_eq!(outer[0].arguments[1].in_words(weight), "1.5");
    assert_eq!(outer[0].result, Some(ProbeValue::Word(7)));
    // Reaching the address in another way is not a return.
    assert!(guest.come_back(BACK).is_empty());
}

#[test]
fn a_call_that_ends_by_a_jump_to_another_returns_with_it() {
    let mut guest = Guest::new();
    guest.call(0, BACK);
    guest.jump(1);
    assert_eq!(
        told(&guest.come_back(BACK)),
        [(1, 120, Some(130), 0), (0, 110, Some(130), 0)]
    );
}

#[test]
fn calls_that_are_jumped_over_are_told_as_such() {
    let mut guest = Guest::new();
    guest.call(1, BACK);
    guest.call(0, BACK + 8);
    // A jump to the call instruction of the first one, which calls it again.
    guest.registers.gpr[RSP] += 16;
    guest.call(1, BACK);
    let left = guest.tracer.take_probe_records();
    assert_eq!(told(&left), [(1, 110, None, 0)]);
    assert_eq!(left[0].known, 130);
    assert_eq!(told(&guest.come_back(BACK)), [(1, 130, Some(140), 0)]);
    let (open, end) = guest.tracer.probes_left(500);
    assert_eq!(told(&open), [(0, 120, None, 1)]);
    assert_eq!((open[0].known, end.unfollowed), (500, 0));
}

/// In a kernel, one thread sleeps in a call that another one makes and returns from meanwhile; the address space
/// changes in between.
#[test]
fn calls_in_a_kernel_are_told_apart_by_their_stacks() {
    const TEXT: u64 = 0xffff_ffff_8120_0000;
    let mut guest = Guest::new();
    guest.registers.rip = TEXT;
    let (sleeper, other) = (STACK - 0x100, STACK - 0x4100);
    guest.memory.map(STACK - 0x8000, 0x4000);
    guest.registers.gpr[RSP] = sleeper;
    guest.call(0, TEXT + 0x100);
    guest.registers.cr3 = 0x2000;
    guest.registers.gpr[RSP] = other;
    guest.registers.rip = TEXT;
    guest.call(0, TEXT + 0x100);
    let first = guest.come_back(TEXT + 0x100);
    assert_eq!(told(&first), [(0, 120, Some(130), 0)]);
    guest.registers.cr3 = 0x3000;
    guest.registers.gpr[RSP] = sleeper - 8;
    let second = guest.come_back(TEXT + 0x100);
    assert_eq!(told(&second), [(0, 110, Some(140), 0)]);
    let threads = [second[0].thread, first[0].thread];
    let tasks = [second[0].task, first[0].task];
    assert_eq!((threads, tasks), ([0, 1], [0, 1]));
}
