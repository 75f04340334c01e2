//! The register window: negotiation, interrupts, resets, and drivers that violate the rules.
use super::super::driver::{ChainBuffer, Driver, RAM};
use super::super::net::tests::PLAIN;
use super::super::{Block, Console, Disk, Entropy, Net, NetLink, Offloads};
use super::*;
use belljar_sim::{Random, Seed};
use proptest::prelude::*;
use vm_memory::{Bytes, GuestAddress};

const STATUS: u64 = 0x70;
const NEEDS_RESET: u32 = VIRTIO_CONFIG_S_NEEDS_RESET;

#[test]
fn a_driver_finds_the_device_and_its_configuration() {
    let driver = Driver::new(Mmio::new(Net::new([2, 0, 0, 0, 0, 7], PLAIN)));
    assert_eq!(driver.read(0), 0x7472_6976);
    assert_eq!((driver.read(4), driver.read(8)), (2, 1));
    assert_eq!(driver.mmio.read(0x105, 1), 7);
    assert_eq!(driver.mmio.read(0x10a, 2), 1500);
    assert_eq!(driver.mmio.read(0x10c, 4), 10_000);
    assert_eq!(
        driver.mmio.read(0x110, 8),
        1,
        "reads past the end see zeros"
    );
    assert_eq!(
        driver.mmio.read(0x2, 2),
        0,
        "registers take whole words only"
    );
    assert_eq!(driver.mmio.read(u64::MAX, 4), 0);
}

#[test]
fn features_must_be_offered_and_modern() {
    let mut driver = Driver::new(Mmio::new(Console::new()));
    driver.write(0x70, 0xb);
    assert_eq!(driver.read(STATUS), 3, "without VERSION_1");
    driver.write(0x24, 1);
    driver.write(0x20, 3);
    driver.write(0x70, 0xb);
    assert_eq!(
        driver.read(STATUS),
        3,
        "with a feature that was not offered"
    );
    driver.write(0x20, 1);
    driver.write(0x70, 0xb);
    assert_eq!(driver.read(STATUS), 0xb);
}

#[test]
fn the_line_is_up_until_acknowledged() {
    let mut driver = Driver::start(Mmio::new(Console::new()));
    driver.submit(1, &[ChainBuffer::Data(b"x")]);
    assert!(driver.mmio.line());
    driver.write(0x64, 1);
    assert!(!driver.mmio.line());
    driver.suppress_interrupts(1);
    driver.submit(1, &[ChainBuffer::Data(b"y")]);
    assert!(!driver.mmio.line());
    assert_eq!(driver.mmio.device_mut().take_output(), b"xy");
}

#[test]
fn a_broken_chain_asks_for_a_reset_and_a_reset_heals() {
    type Break = fn(&Driver<Console>);
    let breaks: [(&str, Break); 6] = [
        ("a loop", |driver| {
            driver.descriptor(1, 0, 0x10_0000, 4, 1, 0)
        }),
        ("a next outside the table", |driver| {
            driver.descriptor(1, 0, 0x10_0000, 4, 1, 900)
        }),
        ("a buffer outside RAM", |driver| {
            driver.descriptor(1, 0, RAM as u64 - 2, 4, 0, 0)
        }),
        ("an address that wraps", |driver| {
            driver.descriptor(1, 0, u64::MAX - 1, 4, 0, 0)
        }),
        ("an empty buffer", |driver| {
            driver.descriptor(1, 0, 0x10_0000, 0, 0, 0)
        }),
        ("an endless indirect table", |driver| {
            driver.descriptor(1, 0, 0x20_0000, 0xf_fff0, 4, 0);
            for index in 0..0xffff_u64 {
                let entry = [0x10_0000, 0, 4u64 | 1 << 32 | (index + 1) << 48];
                let at = 0x20_0000 + index * 16;
                driver.ram.write_obj(entry[0], GuestAddress(at)).unwrap();
                driver
                    .ram
                    .write_obj(entry[2], GuestAddress(at + 8))
                    .unwrap();
            }
        }),
    ];
    for (name, corrupt) in breaks {
        let mut driver = Driver::start(Mmio::new(Console::new()));
        corrupt(&driver);
        driver.offer(1, 0);
        assert_ne!(driver.read(STATUS) & NEEDS_RESET, 0, "{name}");
        assert!(
            driver.mmio.line() && driver.mmio.complaint().is_some(),
            "{name}"
        );
        driver.descriptor(1, 0, 0x10_0000, 4, 0, 0);
        driver.offer(1, 0);
        assert_eq!(
            driver.take_used(1),
            None,
            "{name}: nothing moves before the reset"
        );
        driver.write(0x70, 0);
        assert_eq!(driver.read(STATUS), 0);
        assert!(!driver.mmio.line() && driver.mmio.complaint().is_none());
    }
}

#[test]
fn an_unsound_ring_is_refused() {
    for (size, base) in [
        (3, 0x1_0000),
        (512, 0x1_0000),
        (128, 0x1_0001),
        (128, RAM as u64 - 64),
        (0, 0x1_0000),
    ] {
        let mut driver = Driver::new(Mmio::new(Console::new()));
        driver.negotiate();
        driver.write(0x30, 1);
        driver.write(0x38, size);
        for register in [0x80, 0x90, 0xa0] {
            driver.write(register, base as u32);
        }
        driver.write(0x44, 1);
        assert_eq!(driver.read(0x44), 0, "size {size} at {base:#x}");
        assert_ne!(driver.read(STATUS) & NEEDS_RESET, 0);
    }
}

#[test]
fn an_available_index_far_ahead_is_refused() {
    let mut driver = Driver::start(Mmio::new(Console::new()));
    driver
        .ram
        .write_obj(5000u16, GuestAddress(0x2_4002))
        .unwrap();
    driver.write(0x50, 1);
    assert_ne!(driver.read(STATUS) & NEEDS_RESET, 0);
}

/// Random rings, descriptors and register writes against one device.
fn torture<D: Device>(device: D, noise: &[u8], writes: &[(u64, u32)]) {
    let mut driver = Driver::start(Mmio::new(device));
    for queue in 0..D::QUEUES.len() as u64 {
        // The descriptor table and the available ring of each queue.
        let table = 0x1_0000 * (queue + 1);
        driver.ram.write_slice(noise, GuestAddress(table)).unwrap();
        driver
            .ram
            .write_slice(noise, GuestAddress(table + 0x4000))
            .unwrap();
        driver
            .ram
            .write_obj(noise.len() as u16 % 200, GuestAddress(table + 0x4002))
            .unwrap();
        driver.write(0x50, queue as u32);
    }
    for (offset, value) in writes {
        driver.now += u64::from(*value);
        driver.write(offset & !3, *value);
        driver.mmio.advance(&driver.ram, driver.now).unwrap();
        driver.write(0x50, value % 3);
        driver.mmio.read(*offset, 4);
    }
}

/// Descriptors whose addresses and lengths mostly fall inside RAM, so that the
/// noise gets past the first checks.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let descriptor = (0u64..RAM as u64 * 2, 0u32..70_000, 0u16..8, 0u16..300);
    proptest::collection::vec(descriptor, 1..256).prop_map(|descriptors| {
        let mut bytes = Vec::new();
        for (addr, len, flags, next) in descriptors {
            bytes.extend_from_slice(&addr.to_le_bytes());
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(&flags.to_le_bytes());
            bytes.extend_from_slice(&next.to_le_bytes());
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn hostile_drivers_are_survived(
        noise in noise(),
        writes in proptest::collection::vec((0u64..0x108, any::<u32>()), 0..60),
    ) {
        torture(Console::new(), &noise, &writes);
        torture(Net::new([2; 6], PLAIN), &noise, &writes);
        let offloads = Some(Offloads { hold: 1000 });
        torture(Net::new([2; 6], NetLink { offloads, ..PLAIN }), &noise, &writes);
        torture(Entropy::new(Random::new(Seed(1), "test", 0)), &noise, &writes);
        torture(Block::new(Disk::from_bytes(vec![0; 65_536]).writable(), "disk", 100), &noise, &writes);
    }
}
