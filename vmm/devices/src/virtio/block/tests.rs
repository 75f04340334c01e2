//! The disk as a driver uses it: latency, limits, and invalid requests.
use super::super::driver::{ChainBuffer, Driver};
use super::super::{Mmio, RegisterWindow};
use super::*;
use std::io::Write;

const IN: u32 = 0;
const OUT: u32 = 1;

fn header(kind: u32, sector: u64) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&sector.to_le_bytes());
    bytes
}

fn pattern() -> Vec<u8> {
    (0..16_384u32).map(|index| (index / 7) as u8).collect()
}

fn driver(disk: Disk, latency: Cycles) -> Driver<Block> {
    Driver::start(Mmio::new(Block::new(disk, "node0-root", latency)))
}

fn status(driver: &Driver<Block>, room: usize) -> u8 {
    driver.written(room, 1)[0]
}

#[test]
fn reads_come_back_after_the_latency_in_order() {
    let mut driver = driver(Disk::from_bytes(pattern()), 50);
    driver.now = 1_000;
    assert_eq!(
        driver.submit(
            0,
            &[
                ChainBuffer::Data(&header(IN, 3)),
                ChainBuffer::Room(1024),
                ChainBuffer::Room(1)
            ]
        ),
        None
    );
    assert_eq!(driver.mmio.deadline(), Some(1_050));
    driver.mmio.advance(&driver.ram.clone(), 1_049).unwrap();
    assert_eq!(driver.take_used(0), None);
    driver.mmio.advance(&driver.ram.clone(), 1_050).unwrap();
    assert_eq!(driver.take_used(0), Some(1025));
    assert_eq!(driver.written(0, 1024), pattern()[1536..2560]);
    assert_eq!((status(&driver, 1), driver.mmio.deadline()), (0, None));
    assert!(driver.mmio.line());
}

#[test]
fn writes_stay_within_a_writable_disk() {
    let data = [0xabu8; 512];
    let request = |sector| header(OUT, sector);
    let mut writable = driver(Disk::from_bytes(pattern()).writable(), 0);
    writable.submit(
        0,
        &[
            ChainBuffer::Data(&request(1)),
            ChainBuffer::Data(&data),
            ChainBuffer::Room(1),
        ],
    );
    assert_eq!(status(&writable, 0), 0);
    writable.submit(
        0,
        &[
            ChainBuffer::Data(&header(IN, 1)),
            ChainBuffer::Room(512),
            ChainBuffer::Room(1),
        ],
    );
    assert_eq!(writable.written(0, 512), data);
    for sector in [32, u64::MAX, u64::MAX / 512] {
        writable.submit(
            0,
            &[
                ChainBuffer::Data(&request(sector)),
                ChainBuffer::Data(&data),
                ChainBuffer::Room(1),
            ],
        );
        assert_eq!(status(&writable, 0), 1, "sector {sector}");
    }
    writable.submit(
        0,
        &[
            ChainBuffer::Data(&request(0)),
            ChainBuffer::Data(&data[..100]),
            ChainBuffer::Room(1),
        ],
    );
    assert_eq!(status(&writable, 0), 1, "a part of a sector");
    let mut read_only = driver(Disk::from_bytes(pattern()), 0);
    read_only.submit(
        0,
        &[
            ChainBuffer::Data(&request(1)),
            ChainBuffer::Data(&data),
            ChainBuffer::Room(1),
        ],
    );
    assert_eq!(status(&read_only, 0), 1);
}

#[test]
fn identity_flush_and_unknown_requests() {
    let mut driver = driver(Disk::from_bytes(pattern()), 0);
    assert_eq!(
        driver.submit(
            0,
            &[
                ChainBuffer::Data(&header(8, 0)),
                ChainBuffer::Room(20),
                ChainBuffer::Room(1)
            ]
        ),
        Some(21)
    );
    assert_eq!(driver.written(0, 10), b"node0-root");
    assert_eq!(
        driver.submit(0, &[ChainBuffer::Data(&header(4, 0)), ChainBuffer::Room(1)]),
        Some(1)
    );
    assert_eq!(status(&driver, 0), 0);
    driver.submit(
        0,
        &[ChainBuffer::Data(&header(77, 0)), ChainBuffer::Room(1)],
    );
    assert_eq!(status(&driver, 0), 2);
}

#[test]
fn a_request_without_header_or_status_breaks_the_queue() {
    for parts in [
        &[ChainBuffer::Data(&[0; 15]), ChainBuffer::Room(1)][..],
        &[ChainBuffer::Data(&[0; 16])][..],
    ] {
        let mut driver = driver(Disk::from_bytes(pattern()), 0);
        assert_eq!(driver.submit(0, parts), None);
        assert!(matches!(
            driver.mmio.complaint(),
            Some(QueueError::Shape { .. })
        ));
    }
}

#[test]
fn chains_offered_again_while_under_way_are_bounded() {
    let mut driver = driver(Disk::from_bytes(pattern()), 1_000_000);
    driver.submit(
        0,
        &[
            ChainBuffer::Data(&header(IN, 0)),
            ChainBuffer::Room(512),
            ChainBuffer::Room(1),
        ],
    );
    for _ in 0..255 {
        driver.offer(0, 0);
    }
    assert!(driver.mmio.complaint().is_none());
    driver.offer(0, 0);
    assert_eq!(driver.mmio.complaint(), Some(&QueueError::Overrun));
}

#[test]
fn an_image_that_shrinks_is_the_host_s_fault() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&pattern()).unwrap();
    let mut driver = driver(Disk::open(file.path()).unwrap(), 10);
    file.as_file().set_len(512).unwrap();
    driver.submit(
        0,
        &[
            ChainBuffer::Data(&header(IN, 8)),
            ChainBuffer::Room(512),
            ChainBuffer::Room(1),
        ],
    );
    let ram = driver.ram.clone();
    assert!(driver.mmio.advance(&ram, 10).is_err());
}
