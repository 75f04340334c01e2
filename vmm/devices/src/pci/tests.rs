use super::*;
use proptest::prelude::*;

const CARD: Header = Header {
    vendor: 0x15b3,
    device: 0x1003,
    revision: 1,
    class: 0x02_80_00,
    subsystem: (0x15b3, 0x0050),
};

fn bus() -> PciBus {
    let mut card = ConfigSpace::new(&CARD);
    let bar = |number, size, prefetchable| Bar {
        number,
        size,
        prefetchable,
    };
    card.add_bar(bar(0, 1 << 20, false), 0xe000_0000);
    card.add_bar(bar(2, 8 << 20, true), 0xe080_0000);
    card.add_express(3, 16);
    card.add_msix(128, 0, 0x7c000, 0x7d000);
    PciBus::new(vec![host_bridge(), card])
}

fn read(bus: &mut PciBus, device: u32, register: u32) -> u32 {
    bus.write_port(PCI_ADDRESS_PORT, 4, 1 << 31 | device << 11 | register);
    bus.read_port(PCI_DATA_PORT, 4).unwrap()
}

fn write(bus: &mut PciBus, device: u32, register: u32, value: u32) {
    bus.write_port(PCI_ADDRESS_PORT, 4, 1 << 31 | device << 11 | register);
    assert!(bus.write_port(PCI_DATA_PORT, 4, value));
}

#[test]
fn functions_are_found_and_absent_ones_read_as_ones() {
    let mut bus = bus();
    assert_eq!(read(&mut bus, 0, 0), 0x0008_1b36);
    assert_eq!(read(&mut bus, 0, 8) >> 8, 0x06_0000);
    assert_eq!(read(&mut bus, 1, 0), 0x1003_15b3);
    assert_eq!(read(&mut bus, 1, 8), 0x0280_0001);
    assert_eq!(read(&mut bus, 2, 0), u32::MAX);
    bus.write_port(PCI_ADDRESS_PORT, 4, 1 << 31 | 1 << 11 | 1 << 8);
    assert_eq!(
        bus.read_port(PCI_DATA_PORT, 4),
        Some(u32::MAX),
        "function 1"
    );
    bus.write_port(PCI_ADDRESS_PORT, 4, 1 << 11);
    assert_eq!(bus.read_port(PCI_DATA_PORT, 4), Some(u32::MAX), "disabled");
    assert_eq!(bus.read_port(PCI_ADDRESS_PORT, 1), None);
    assert_eq!(bus.read_port(PCI_DATA_PORT + 3, 2), None);
    bus.write_port(PCI_ADDRESS_PORT, 4, 1 << 31 | 1 << 11);
    assert_eq!(bus.read_port(PCI_DATA_PORT + 2, 2), Some(0x1003));
}

#[test]
fn regions_are_sized_moved_and_decoded_only_if_enabled() {
    let mut bus = bus();
    assert_eq!(bus.region(0xe000_0010), None);
    write(&mut bus, 1, 4, 0xffff_0006);
    assert_eq!(read(&mut bus, 1, 4), 0x0010_0006);
    let region = |bar, offset| {
        Some(Region {
            device: 1,
            bar,
            offset,
        })
    };
    assert_eq!(bus.region(0xe000_0010), region(0, 0x10));
    assert_eq!(bus.region(0xe010_0000), None);
    assert_eq!(bus.region(0xe0ff_fff8), region(2, 0x7f_fff8));
    for (register, size) in [(0x10, 0xfff0_0004), (0x18, 0xff80_000c)] {
        write(&mut bus, 1, register, u32::MAX);
        write(&mut bus, 1, register + 4, u32::MAX);
        assert_eq!(read(&mut bus, 1, register), size);
        assert_eq!(read(&mut bus, 1, register + 4), u32::MAX);
    }
    write(&mut bus, 1, 0x10, 0xe400_0000);
    write(&mut bus, 1, 0x14, 0);
    assert_eq!(bus.region(0xe400_0004), region(0, 4));
    assert_eq!(bus.region(0xe000_0010), None);
}

#[test]
fn capabilities_form_a_list_and_state_the_link() {
    let mut bus = bus();
    assert_eq!(read(&mut bus, 1, 0x34), 0x40);
    let express = read(&mut bus, 1, 0x40);
    assert_eq!((express & 0xff, express >> 16 & 0xf), (0x10, 2));
    assert_eq!(read(&mut bus, 1, 0x4c) & 0x3ff, 3 | 16 << 4);
    assert_eq!(read(&mut bus, 1, 0x50) >> 16, 3 | 16 << 4);
    let next = express >> 8 & 0xff;
    let msix = read(&mut bus, 1, next);
    assert_eq!((msix & 0xff, msix >> 8 & 0xff, msix >> 16), (0x11, 0, 127));
    assert_eq!(read(&mut bus, 1, next + 4), 0x7c000);
    write(&mut bus, 1, next, 0xffff_ffff);
    assert_eq!(read(&mut bus, 1, next) >> 16, 0xc000 | 127);
    assert_eq!(bus.function(1).unwrap().msix_control(), (true, true));
}

#[test]
fn a_masked_message_is_sent_once_after_it_is_unmasked() {
    let mut table = MsiX::new(4);
    table.write(16, 8, 0xfee0_1000);
    table.write(24, 4, 0x41);
    table.request(1);
    table.request(9);
    assert_eq!(table.take(true, false), []);
    assert_eq!(table.read_pending(0, 8), 2);
    table.write(28, 4, 0);
    assert_eq!(table.take(true, true), []);
    assert_eq!(table.take(false, false), []);
    let sent = Message {
        address: 0xfee0_1000,
        data: 0x41,
    };
    assert_eq!(table.take(true, false), [sent]);
    assert_eq!(table.take(true, false), []);
    assert_eq!(table.read(16, 8), 0xfee0_1000);
    assert_eq!(table.read(28, 4), 0);
    assert_eq!(table.read(64, 4), 0);
}

proptest! {
    #[test]
    fn any_access_is_survived(
        accesses in proptest::collection::vec((any::<u16>(), 0_u8..9, any::<u32>(), any::<u64>()), 1..200)
    ) {
        let mut bus = bus();
        let mut table = MsiX::new(4);
        for (port, len, data, addr) in accesses {
            let port = PCI_ADDRESS_PORT + port % 8;
            if data % 3 == 0 {
                bus.write_port(PCI_ADDRESS_PORT, 4, data | 1 << 31);
            }
            if let Some(value) = bus.read_port(port, len) {
                let _ = value;
                prop_assert!(bus.write_port(port, len, data));
            }
            bus.region(addr);
            table.write(addr % 128, len, addr);
            table.read(addr % 128, len);
            table.read_pending(addr % 64, len);
            table.request(port);
            table.take(true, data % 2 == 0);
        }
        let other = self::bus();
        prop_assert!(other.is_like(&bus) && bus.is_like(&other));
    }
}
