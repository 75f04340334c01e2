//! Frames in and out: whole, in order, and counted if dropped.
use super::super::driver::{ChainBuffer, Driver};
use super::super::{Mmio, RegisterWindow};
use super::*;

/// Checksum and segmentation offloads.
mod offload;

/// A link of 10 Gb/s, without offloads.
pub(in super::super) const PLAIN: NetLink = NetLink {
    mtu: 1500,
    speed: 10_000,
    offloads: None,
};

fn started() -> Driver<Net> {
    Driver::start(Mmio::new(Net::new([2, 0, 0, 0, 0, 1], PLAIN)))
}

fn receive(driver: &mut Driver<Net>, frame: &[u8]) {
    let (ram, now) = (driver.ram.clone(), driver.now);
    driver
        .mmio
        .drive(&ram, |net, queues| {
            net.receive(frame.to_vec(), now, queues, &ram)
        })
        .unwrap();
}

#[test]
fn frames_leave_whole_and_stamped() {
    let mut driver = started();
    driver.now = 77;
    let frame = [5u8; 60];
    driver.submit(
        1,
        &[
            ChainBuffer::Data(&[0; 12]),
            ChainBuffer::Data(&frame[..20]),
            ChainBuffer::Data(&frame[20..]),
        ],
    );
    assert_eq!(
        driver.mmio.device_mut().take_frames(),
        [(77, frame.to_vec())]
    );
    for len in [12 + 13, 12 + 1519, 5] {
        driver.submit(1, &[ChainBuffer::Data(&vec![0; len])]);
    }
    let counters = driver.mmio.device().counters();
    assert_eq!((counters.sent, counters.malformed), (1, 3));
    assert!(driver.mmio.complaint().is_none());
}

#[test]
fn a_frame_waits_for_a_buffer() {
    let mut driver = started();
    receive(&mut driver, &[9; 100]);
    assert!(!driver.mmio.line());
    assert_eq!(
        driver.submit(0, &[ChainBuffer::Room(12), ChainBuffer::Room(1518)]),
        Some(112)
    );
    assert_eq!(driver.written(0, 12), PacketHeader::default().to_bytes(1));
    assert_eq!(driver.written(1, 100), [9; 100]);
    assert!(driver.mmio.line());
    assert_eq!(driver.mmio.device().counters().received, 1);
}

#[test]
fn what_does_not_fit_is_dropped_and_counted() {
    let mut driver = started();
    receive(&mut driver, &[1; 1519]);
    assert_eq!(driver.mmio.device().counters().dropped, 1);
    for _ in 0..BACKLOG + 3 {
        receive(&mut driver, &[1; 60]);
    }
    assert_eq!(driver.mmio.device().counters().dropped, 4);
    assert_eq!(
        driver.submit(0, &[ChainBuffer::Room(40)]),
        None,
        "too small a buffer stays the driver's"
    );
    assert_eq!(driver.mmio.device().counters().dropped, 4 + BACKLOG as u64);
}
