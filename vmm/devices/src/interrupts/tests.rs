//! Interrupts from pins and between processors, through IO-APIC and local APICs together.
use super::*;
use crate::apic::StartSignal;

const ICR_LOW: u64 = 0x300;
const ICR_HIGH: u64 = 0x310;
const FIRST: Moment = Moment {
    processor: 0,
    now: 0,
};

/// Controllers whose local APICs are enabled as xAPICs.
fn enabled(processors: u32) -> InterruptController {
    let mut all = InterruptController::new(processors, 1);
    for local in &mut all.locals {
        local.write_page(0xf0, 4, 0x1ff, 0);
    }
    all
}

fn x2apics(processors: u32) -> InterruptController {
    let mut all = InterruptController::new(processors, 1);
    for local in &mut all.locals {
        local.write_msr(0x1b, 0xfee0_0d00, 0).unwrap();
        local.write_msr(0x80f, 0x1ff, 0).unwrap();
    }
    all
}

/// Writes the command register, and performs the effect.
fn command(all: &mut InterruptController, at: Moment, destination: u32, low: u32) {
    let local = all.local_mut(at.processor);
    local.write_page(ICR_HIGH, 4, u64::from(destination) << 24, at.now);
    let effect = local.write_page(ICR_LOW, 4, u64::from(low), at.now);
    all.apply(effect, at);
}

/// The pending vector of each processor at `now`.
fn pending(all: &mut InterruptController, now: Cycles) -> Vec<Option<u8>> {
    let look = |local: &mut LocalApic| {
        local.advance(now);
        local.pending()
    };
    all.locals.iter_mut().map(look).collect()
}

#[test]
fn a_level_line_interrupts_until_it_is_served() {
    let mut both = InterruptController::new(1, 1);
    both.io.write(0, 0x10 + 2 * 5);
    both.io.write(0x10, 0x8045);
    both.set_line(5, true, FIRST);
    let end = |both: &mut InterruptController| {
        let effect = both.local_mut(0).write_page(0xb0, 4, 0, 0);
        both.apply(effect, FIRST);
    };
    assert_eq!(both.local(0).pending(), None, "the local APIC is still off");
    let effect = both.local_mut(0).write_page(0xf0, 4, 0x1ff, 0);
    both.apply(effect, FIRST);
    assert_eq!(both.local(0).pending(), Some(0x45));
    both.local_mut(0).accept(0x45);
    end(&mut both);
    assert_eq!(both.local(0).pending(), Some(0x45), "the line is still up");
    both.local_mut(0).accept(0x45);
    both.set_line(5, false, FIRST);
    end(&mut both);
    assert_eq!(both.local(0).pending(), None);
}

#[test]
fn a_line_interrupts_the_processor_that_its_entry_names() {
    let mut all = enabled(4);
    all.io.write(0, 0x10 + 2 * 5);
    all.io.write(0x10, 0x8045);
    all.io.write(0, 0x11 + 2 * 5);
    all.io.write(0x10, 2 << 24);
    all.set_line(
        5,
        true,
        Moment {
            processor: 1,
            now: 70,
        },
    );
    assert_eq!(pending(&mut all, 69), [None; 4]);
    assert_eq!(pending(&mut all, 70), [None, None, Some(0x45), None]);
    all.local_mut(2).accept(0x45);
    let effect = all.local_mut(2).write_page(0xb0, 4, 0, 80);
    let third = Moment {
        processor: 2,
        now: 80,
    };
    all.apply(effect, third);
    assert_eq!(all.local(2).pending(), Some(0x45), "the line is still up");
}

#[test]
fn a_level_that_arrives_at_a_processor_switched_off_asks_on() {
    let mut all = enabled(2);
    all.io.write(0, 0x10 + 2 * 5);
    all.io.write(0x10, 0x8045);
    let second = |now| Moment { processor: 1, now };
    all.set_line(5, true, second(7));
    all.local_mut(0).write_page(0xf0, 4, 0xff, 3);
    let first = |now| Moment { processor: 0, now };
    all.advance(first(7));
    assert_eq!(all.local(0).pending(), None);
    let effect = all.local_mut(0).write_page(0xf0, 4, 0x1ff, 9);
    all.apply(effect, first(9));
    assert_eq!(all.local(0).pending(), Some(0x45));
}

#[test]
fn shorthands_and_ids_choose_who_is_interrupted() {
    let at = Moment {
        processor: 1,
        now: 10,
    };
    for (destination, low, expected) in [
        (2, 0x61, 0b0100),
        (0, 0x4_0061, 0b0010),
        (0, 0x8_0061, 0b1111),
        (0, 0xc_0061, 0b1101),
        (0xff, 0x61, 0b1111),
        (9, 0x61, 0),
    ] {
        let mut all = enabled(4);
        command(&mut all, at, destination, low);
        let own = all.local(1).pending().is_some();
        assert_eq!(own, expected >> 1 & 1 == 1, "one's own comes at once");
        let seen: Vec<Option<u8>> = (0..4)
            .map(|bit| (expected >> bit & 1 == 1).then_some(0x61))
            .collect();
        assert_eq!(pending(&mut all, 10), seen, "{destination:#x} {low:#x}");
    }
}

#[test]
fn logical_destinations_are_masks_flat_and_by_cluster() {
    let mut all = enabled(3);
    for (processor, mask) in [(0, 1), (1, 2), (2, 4)] {
        let local = all.local_mut(processor);
        local.write_page(0xd0, 4, mask << 24, 0);
    }
    command(&mut all, FIRST, 0b101, 0x861);
    assert_eq!(pending(&mut all, 0), [Some(0x61), None, Some(0x61)]);
    let mut all = x2apics(20);
    let effect = all.local_mut(0).write_msr(0x830, 0x1_000a_0000_0861, 0);
    all.apply(effect.unwrap(), FIRST);
    let taken = |seen: Vec<Option<u8>>| -> Vec<usize> {
        (0..seen.len()).filter(|&one| seen[one].is_some()).collect()
    };
    assert_eq!(taken(pending(&mut all, 0)), [17, 19]);
}

#[test]
fn the_least_busy_takes_an_interrupt_of_lowest_priority() {
    let mut all = enabled(4);
    all.local_mut(0).set_task_class(3);
    all.local_mut(1).set_task_class(2);
    all.local_mut(2).set_task_class(2);
    all.local_mut(3).write_page(0xf0, 4, 0xff, 0);
    command(&mut all, FIRST, 0xff, 0x171);
    assert_eq!(pending(&mut all, 0), [None, Some(0x71), None, None]);
}

#[test]
fn processors_are_reset_and_started_in_order() {
    let mut all = InterruptController::new(2, 1);
    let at = |now| Moment { processor: 0, now };
    command(&mut all, at(5), 1, 0xc500);
    command(&mut all, at(6), 1, 0x8500);
    command(&mut all, at(9), 1, 0x0699);
    let local = all.local_mut(1);
    local.advance(8);
    assert_eq!(local.take_start(), Some(StartSignal::Init));
    assert_eq!(local.take_start(), None);
    assert!(local.expects_messages());
    local.advance(9);
    assert_eq!(local.take_start(), Some(StartSignal::StartUp(0x99)));
    command(&mut all, at(20), 1, 0xc_0400);
    let local = all.local_mut(1);
    local.advance(20);
    assert!(local.has_nmi(), "even before software switches it on");
    assert!(!all.local(0).has_nmi());
}

#[test]
fn a_processor_interrupts_itself_by_shorthand_and_by_id() {
    let mut all = enabled(1);
    command(&mut all, FIRST, 0, 0x4_0061);
    command(&mut all, FIRST, 0, 0x62);
    command(&mut all, FIRST, 5, 0x63);
    assert_eq!(all.local(0).pending(), Some(0x62));
    // NMI to all other processors, then to the sender.
    command(&mut all, FIRST, 0, 0xc_0400);
    assert!(!all.local(0).has_nmi());
    command(&mut all, FIRST, 0, 0x4_0400);
    assert!(all.local(0).has_nmi());
    all.local_mut(0).accept_nmi();
    assert!(!all.local(0).has_nmi());
    assert_eq!(all.undeliverable(), 0);
    command(&mut all, FIRST, 0, 0x4_0200);
    assert_eq!(all.undeliverable(), 1);
}
