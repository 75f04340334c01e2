//! A single local APIC: priorities, modes, the timer, errors, and random accesses of a guest.
use super::*;
use proptest::prelude::*;

const SVR: u64 = 0xf0;
const TPR: u64 = 0x80;
const EOI: u64 = 0xb0;
const TIMER: u64 = 0x320;

fn enabled() -> LocalApic {
    let mut apic = LocalApic::new(0, true, 1);
    apic.write_page(SVR, 4, 0x1ff, 0);
    apic
}

fn x2apic() -> LocalApic {
    let mut apic = LocalApic::new(0, true, 1);
    apic.write_msr(0x1b, APIC_BASE | 0xd00, 0).unwrap();
    apic.write_msr(0x80f, 0x1ff, 0).unwrap();
    apic
}

/// Delivers an interrupt, unless the APIC refuses it.
fn deliver(apic: &mut LocalApic, vector: u8, level: bool) -> bool {
    let signal = Signal::Vector { vector, level };
    let takes = apic.takes(signal);
    if takes {
        apic.receive(signal);
    }
    takes
}

#[test]
fn vectors_are_served_by_priority_class() {
    let mut apic = enabled();
    assert!(deliver(&mut apic, 0x41, false) && deliver(&mut apic, 0x53, true));
    assert_eq!(apic.pending(), Some(0x53));
    apic.accept(0x53);
    assert_eq!(
        apic.pending(),
        None,
        "0x41 waits below the class in service"
    );
    assert!(deliver(&mut apic, 0x5f, false));
    assert_eq!(apic.pending(), None, "the same class waits too");
    assert_eq!(apic.write_page(EOI, 4, 0, 0), Effect::EndOfLevel(0x53));
    assert_eq!(apic.pending(), Some(0x5f));
    apic.accept(0x5f);
    assert_eq!(apic.write_page(EOI, 4, 0, 0), Effect::None);
    assert_eq!(apic.write_page(TPR, 4, 0x40, 0), Effect::TaskClass(4));
    assert_eq!(apic.pending(), None);
    apic.set_task_class(3);
    assert_eq!(apic.pending(), Some(0x41));
    assert_eq!(apic.read_page(0x80, 4, 0), 0x30);
}

#[test]
fn a_disabled_apic_refuses_and_masks() {
    let mut apic = LocalApic::new(0, true, 1);
    assert!(!deliver(&mut apic, 0x41, false));
    apic.write_page(TIMER, 4, 0x40, 0);
    assert_eq!(apic.read_page(TIMER, 4, 0), 0x1_0040);
    apic.write_page(SVR, 4, 0x1ff, 0);
    assert!(deliver(&mut apic, 0x41, false));
    assert!(!apic.is_destination(3, false) && apic.is_destination(0xff, false));
}

#[test]
fn the_deadline_timer_fires_once_at_its_cycle() {
    let mut apic = x2apic();
    apic.write_msr(0x6e0, 500, 10).unwrap();
    assert_eq!(apic.next_deadline(), None, "not in deadline mode yet");
    apic.write_msr(0x832, 0x4_00ec, 10).unwrap();
    apic.write_msr(0x6e0, 500, 10).unwrap();
    assert_eq!(apic.next_deadline(), Some(500));
    assert_eq!(apic.read_msr(0x6e0, 499), Ok(500));
    apic.advance(499);
    assert_eq!(apic.pending(), None);
    apic.advance(500);
    assert_eq!((apic.pending(), apic.next_deadline()), (Some(0xec), None));
    assert_eq!(apic.read_msr(0x6e0, 501), Ok(0));
    apic.accept(0xec);
    apic.write_msr(0x80b, 0, 502).unwrap();
    apic.write_msr(0x6e0, 400, 600).unwrap();
    assert_eq!(
        apic.pending(),
        Some(0xec),
        "a deadline in the past fires at once"
    );
}

#[test]
fn the_counter_divides_and_reloads() {
    let mut apic = enabled();
    apic.write_page(0x3e0, 4, 0b0011, 0);
    apic.write_page(TIMER, 4, 0x2_0050, 0);
    apic.write_page(0x380, 4, 100, 1_000);
    assert_eq!(apic.next_deadline(), Some(1_000 + 1_600));
    assert_eq!(apic.read_page(0x390, 4, 1_800), 50);
    apic.advance(2_600);
    assert_eq!(
        (apic.pending(), apic.next_deadline()),
        (Some(0x50), Some(4_200))
    );
    apic.advance(4_200 + 1_600 * 5 + 7);
    assert_eq!(apic.next_deadline(), Some(4_200 + 1_600 * 6));
    apic.write_page(0x380, 4, 0, 20_000);
    assert_eq!(apic.next_deadline(), None);
    apic.write_page(0x3e0, 4, 0b1011, 20_000);
    apic.write_page(0x380, 4, 7, 20_000);
    assert_eq!(apic.next_deadline(), Some(20_007));
}

#[test]
fn a_processor_interrupts_itself_by_a_register_of_its_own() {
    let mut apic = x2apic();
    apic.write_msr(0x83f, 0x71, 0).unwrap();
    assert_eq!(apic.pending(), Some(0x71));
}

#[test]
fn illegal_vectors_and_registers_latch_errors() {
    let mut apic = enabled();
    apic.write_page(0x370, 4, 0xfe, 0);
    apic.write_page(0x300, 4, 0x4_0003, 0);
    assert_eq!(apic.read_page(0x280, 4, 0), 0, "latched by a write only");
    apic.write_page(0x280, 4, 0, 0);
    assert_eq!(
        apic.read_page(0x280, 4, 0),
        u64::from(ESR_SEND_ILLEGAL_VECTOR)
    );
    assert_eq!(apic.pending(), Some(0xfe));
}

#[test]
fn x2apic_mode_is_entered_and_left_by_the_rules() {
    let mut apic = x2apic();
    assert!(!apic.is_memory_mapped());
    assert_eq!(apic.read_msr(0x80d, 0), Ok(1));
    assert_eq!(apic.read_msr(0x1b, 0), Ok(APIC_BASE | 0xd00));
    assert!(apic.write_msr(0x1b, APIC_BASE | 0x900, 0).is_err());
    assert!(apic.write_msr(0x1b, 0x1000 | 0xd00, 0).is_err());
    for bad in [0x80e_u32, 0x831, 0x80b, 0x83f, 0x8ff, 0x800] {
        assert_eq!(apic.read_msr(bad, 0), Err(NoSuchRegister(bad)));
    }
    assert!(apic.write_msr(0x80b, 1, 0).is_err());
    assert!(apic.write_msr(0x802, 1, 0).is_err());
    apic.write_msr(0x1b, APIC_BASE | 0x100, 0).unwrap();
    assert!(apic.read_msr(0x802, 0).is_err());
}

proptest! {
    /// For random writes of a guest, no access panics, a deadline is in the future after an
    /// advance, and no vector below 16 is ever delivered.
    #[test]
    fn any_sequence_of_accesses_is_survived(
        ops in proptest::collection::vec((any::<bool>(), 0u64..0x1100, 0u8..10, any::<u64>(), 0u64..1 << 40), 1..200),
        x2 in any::<bool>(),
    ) {
        let mut apic = if x2 { x2apic() } else { enabled() };
        let mut now = 0u64;
        for (write, offset, len, value, step) in ops {
            now = now.saturating_add(step);
            let msr = 0x800 + (offset as u32 & 0xff);
            match (x2, write) {
                (true, true) => drop(apic.write_msr(msr, value & 0xffff_ffff, now)),
                (true, false) => drop(apic.read_msr(msr, now)),
                (false, true) => drop(apic.write_page(offset & !0xf, len, value, now)),
                (false, false) => drop(apic.read_page(offset, len, now)),
            }
            apic.advance(now);
            prop_assert!(apic.next_deadline().is_none_or(|deadline| deadline > now));
            if let Some(vector) = apic.pending() {
                prop_assert!(vector >= 16);
                apic.accept(vector);
            }
        }
    }
}
