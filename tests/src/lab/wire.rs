//! A wire with a delay: a TUN device on each host of a lab, and a thread that forwards packets
//! between them with the delay. It replaces `netem` on kernels without it.
//!
//! Each packet takes two more context switches than on the lab's links, so a wire is slower
//! than requested by tens of microseconds. Measure with [`round_trip`] if this matters.
//!
//! The wire works by host time.
#![allow(clippy::disallowed_methods)]

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use tun_rs::{DeviceBuilder, SyncDevice};

use super::host::Host;

/// The device's name on each host.
const DEVICE: &str = "wire0";
/// Longest packet of the devices.
const LONGEST: usize = 1500;
/// Longest sleep of the thread between checks for the end of the wire.
const IDLE: Duration = Duration::from_millis(50);
/// Time limit of an echo.
const LOST: Duration = Duration::from_secs(5);

/// Carries packets between hosts while it lives.
#[derive(Debug)]
pub struct Wire {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Makes a wire between all `hosts`.
    pub(super) fn lay(hosts: &[&Host], late: Duration) -> io::Result<Self> {
        let ends: Vec<End> = hosts
            .iter()
            .map(|host| End::open(host))
            .collect::<io::Result<_>>()?;
        // Routes follow once all devices exist.
        for host in hosts {
            route(host, hosts)?;
        }
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let thread = thread::Builder::new()
            .name("wire".to_owned())
            .spawn(move || {
                // Without it, sleeps are 50 us too long; the kernel may refuse.
                let _ = set_timerslack(1);
                Packets::new(ends, late).carry(&seen);
            })?;
        Ok(Self {
            over,
            thread: Some(thread),
        })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // The devices and their routes are removed with their last user.
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("the wire broke");
        }
    }
}

/// Routes packets for other hosts through the device.
fn route(host: &Host, hosts: &[&Host]) -> io::Result<()> {
    let others = hosts.iter().filter(|other| other.name() != host.name());
    let script: String = others
        .map(|other| {
            let (to, from) = (other.address(), host.address());
            format!("ip route add {to}/32 dev {DEVICE} src {from} || exit 1\n")
        })
        .collect();
    let ran = host.run(&script);
    match ran.code {
        Some(0) => Ok(()),
        _ => Err(io::Error::other(format!(
            "no route over {DEVICE}: {}",
            ran.stderr
        ))),
    }
}

/// A host's end of the wire.
struct End {
    address: Ipv4Addr,
    device: SyncDevice,
}

impl End {
    fn open(host: &Host) -> io::Result<Self> {
        let device = host.in_network(|| {
            let device = DeviceBuilder::new()
                .name(DEVICE)
                .enable(true)
                .build_sync()?;
            device.set_nonblocking(true)?;
            Ok(device)
        })?;
        Ok(Self {
            address: host.address(),
            device,
        })
    }
}

/// The packets on the wire.
struct Packets {
    ends: Vec<End>,
    late: Duration,
    /// Packets with their times of delivery, in order.
    held: VecDeque<(Instant, Vec<u8>)>,
}

impl Packets {
    fn new(ends: Vec<End>, late: Duration) -> Self {
        Self {
            ends,
            late,
            held: VecDeque::new(),
        }
    }

    fn carry(&mut self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            self.take_in();
            self.let_go();
            let left = self.held.front().map_or(IDLE, |(due, _)| {
                due.saturating_duration_since(Instant::now())
            });
            let readable = |end| PollFd::new(fd(end), PollFlags::POLLIN);
            let mut watched: Vec<PollFd<'_>> = self.ends.iter().map(readable).collect();
            // Every wake-up checks all devices.
            let _ = ppoll(&mut watched, Some(TimeSpec::from_duration(left)), None);
        }
    }

    fn take_in(&mut self) {
        let mut packet = [0; LONGEST];
        for end in &self.ends {
            while let Ok(length) = end.device.recv(&mut packet) {
                let due = Instant::now() + self.late;
                self.held.push_back((due, packet[..length].to_vec()));
            }
        }
    }

    fn let_go(&mut self) {
        while let Some((_, packet)) = self.held.pop_front_if(|(due, _)| *due <= Instant::now()) {
            let to = destination(&packet);
            let end = self.ends.iter().find(|end| Some(end.address) == to);
            // A packet without a receiver, or for a host that has ended, is lost, as on any
            // wire.
            let _ = end.map(|end| end.device.send(&packet));
        }
    }
}

fn fd(end: &End) -> BorrowedFd<'_> {
    end.device.as_fd()
}

/// The destination of an IPv4 packet (RFC 791, section 3.1).
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    const VERSION: u8 = 4;
    let is_ipv4 = packet.first()? >> 4 == VERSION;
    let bytes: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    is_ipv4.then(|| bytes.into())
}

/// Host time between the sending of a datagram and the arrival of its echo: the median of
/// `times`.
///
/// # Errors
/// If the hosts cannot reach each other.
///
/// # Panics
/// If `times` is zero.
pub fn round_trip(from: &Host, to: &Host, times: usize) -> io::Result<Duration> {
    let near = socket(from)?;
    let far = socket(to)?;
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    let mut laps = thread::scope(|scope| {
        let echo = scope.spawn(move || bounce(&far, times));
        let laps: io::Result<Vec<Duration>> = (0..times).map(|_| lap(&near)).collect();
        echo.join().expect("the echo does not panic")?;
        laps
    })?;
    laps.sort();
    Ok(laps[times / 2])
}

fn socket(host: &Host) -> io::Result<UdpSocket> {
    let socket = host.in_network(|| UdpSocket::bind((host.address(), 0)))?;
    socket.set_read_timeout(Some(LOST))?;
    Ok(socket)
}

fn lap(near: &UdpSocket) -> io::Result<Duration> {
    let start = Instant::now();
    near.send(&[0; 64])?;
    near.recv(&mut [0; 64])?;
    Ok(start.elapsed())
}

fn bounce(far: &UdpSocket, times: usize) -> io::Result<()> {
    for _ in 0..times {
        let mut datagram = [0; 64];
        let length = far.recv(&mut datagram)?;
        far.send(&datagram[..length])?;
    }
    Ok(())
}
