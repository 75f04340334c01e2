//! Configurations of nodes.
//!
//! `check` enforces every limit, and a node is only built from a configuration that passes. Nodes with equal configurations behave the
//! same. `belljar-cluster` fills it in from a plan and validates single values beforehand with `check_memory` and `check_clock`.

use std::sync::Arc;

use belljar_cpu::InstructionSet;
use belljar_devices::virtio::{Disk, NetLink, Offloads};
use belljar_hca::HcaConfig;
use belljar_sim::{Frequency, Seed, Span, Time};

use crate::boot::kernel::KernelImage;
use crate::boot::layout::MAX_SLOTS;

const MIB: u64 = 1 << 20;
/// The least memory with which a distribution's kernel boots.
const LEAST_MEMORY: u64 = 64 * MIB;
/// The largest memory: the guest's 40 physical address bits fit it with a wide margin.
const MOST_MEMORY: u64 = 512 << 30;
const PAGE: u64 = 4096;
/// The largest number of vCPUs of a node.
pub const MOST_VCPUS: u32 = 64;
/// The shortest and the longest slice.
const SLICES: std::ops::RangeInclusive<Span> = Span::from_ns(100)..=Span::from_ms(1);

/// A disk of a node.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    /// Its contents.
    pub disk: Disk,
    /// Its serial number, shown in the guest as `/sys/block/vdX/serial`; at most 20 bytes count.
    pub name: String,
    /// Time from a request's notification to its completion.
    pub latency: Span,
}

/// A node's network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetConfig {
    /// Its address.
    pub mac: [u8; 6],
    /// The largest payload of a frame in bytes.
    pub mtu: u16,
    /// Speed of its link in Mb/s.
    pub speed: u32,
    /// True if the card computes checksums, cuts packets of the guest into frames and joins received frames.
    pub offload: bool,
}

impl NetConfig {
    /// The longest time for which a card waits for a packet's next frame, in the range of the interrupt moderation of 10 Gb/s cards.
    const LONGEST_HOLD: Span = Span::from_us(4);
    /// Frames of other streams that may come in between.
    const OTHERS: u64 = 8;
    /// Bytes of a frame besides its payload: 14 of header, 4 of checksum, 20 of preamble and gap (IEEE 802.3).
    const OVERHEAD: u64 = 38;

    /// Time for which a card with offloads waits for the next frame of a packet: the time of eight full frames, at most 4 us. Zero on
    /// links so slow that not even two frames arrive in that time.
    fn hold(&self) -> Span {
        let bits = (u64::from(self.mtu) + Self::OVERHEAD) * 8;
        let frame = bits * 1_000_000 / u64::from(self.speed.max(1));
        let longest = Self::LONGEST_HOLD.as_ps();
        match 2 * frame > longest {
            true => Span::default(),
            false => Span::from_ps((frame * Self::OTHERS).min(longest)),
        }
    }

    /// The card's link at clock rate `frequency`.
    pub(crate) fn link(&self, frequency: Frequency) -> NetLink {
        NetLink {
            mtu: self.mtu,
            speed: self.speed,
            offloads: self.offload.then(|| Offloads {
                hold: frequency.cycle_at(Time::ZERO + self.hold()),
            }),
        }
    }
}

/// A node's InfiniBand card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfinibandConfig {
    /// Its identity and delays.
    pub card: HcaConfig,
    /// The generation of the card's PCI Express link, from 1 to 5, and its lanes.
    pub link: (u8, u8),
}

/// The configuration of a node. Nodes with equal configurations behave the same.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The node's number in its cluster, which selects its random streams.
    pub index: u64,
    /// The scenario's seed.
    pub seed: Seed,
    /// RAM in bytes, a multiple of 4096.
    pub memory: u64,
    /// True if RAM of a node that is not a clone uses the host's huge pages, where available: this is faster, but touching a page takes
    /// 2 MiB. Results do not depend on it.
    pub huge_pages: bool,
    /// Processors, all alike, from 1 to [`MOST_VCPUS`].
    pub vcpus: u32,
    /// The length of a processor's slice, from 100 ns to 1 ms, if there are several. A single processor has no slices.
    pub slice: Span,
    /// The processors' clock, a multiple of 1 kHz (of 2 kHz from 4.29 GHz on).
    pub frequency: Frequency,
    /// The processors' instruction set.
    pub instruction_set: InstructionSet,
    /// The kernel.
    pub kernel: Arc<KernelImage>,
    /// The initial RAM disk.
    pub initrd: Option<Arc<[u8]>>,
    /// Appended to [`DEFAULT_COMMAND_LINE`](crate::DEFAULT_COMMAND_LINE).
    pub command_line: String,
    /// Disks, in the order of `/dev/vda`, `/dev/vdb`, ...
    pub disks: Vec<DiskConfig>,
    /// The network card.
    pub net: Option<NetConfig>,
    /// The InfiniBand card. A node with one has a PCI bus.
    pub infiniband: Option<InfinibandConfig>,
    /// The date at virtual time zero: seconds since 1970-01-01, UTC.
    pub date: u64,
    /// Number of write-only consoles of the guest, from `hvc1` on.
    pub streams: usize,
    /// True if there is a [`TestDevice`](belljar_devices::TestDevice), by which the guest ends the node with a status.
    pub exit_device: bool,
}

/// Errors of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Memory is outside the limits.
    #[error(
        "a node cannot have {0} bytes of memory; give it a multiple of 4096 from 64 MiB to 512 GiB"
    )]
    Memory(u64),
    /// The number of processors is zero or too large.
    #[error("a node cannot have {0} vCPUs; give it 1 to {MOST_VCPUS}")]
    Vcpus(u32),
    /// Slices are too short to be efficient or too long to be fair.
    #[error("vCPUs cannot take turns of {0}; use 100 ns to 1 ms")]
    Slice(Span),
    /// A clock rate that CPUID cannot express exactly.
    #[error(
        "a node's clock cannot be {0} Hz; use a multiple of 1 kHz (2 kHz above 4.29 GHz) from 1 MHz to 8 GHz"
    )]
    Frequency(u64),
    /// Too many devices.
    #[error(
        "a node has room for {MAX_SLOTS} virtio devices, and {0} are configured; remove some disks"
    )]
    Devices(usize),
    /// The network card's configuration is invalid.
    #[error("a node's MAC address must be unicast and its MTU from 68 to 9216 bytes, not {0}")]
    Net(String),
}

/// Checks that a node can have `memory` bytes of RAM.
///
/// # Errors
/// [`ConfigError::Memory`].
pub fn check_memory(memory: u64) -> Result<(), ConfigError> {
    let fits = (LEAST_MEMORY..=MOST_MEMORY).contains(&memory) && memory.is_multiple_of(PAGE);
    fits.then_some(()).ok_or(ConfigError::Memory(memory))
}

/// Checks that a node's processors can have a clock of this `frequency`.
///
/// # Errors
/// [`ConfigError::Frequency`].
pub fn check_clock(frequency: Frequency) -> Result<(), ConfigError> {
    let hz = frequency.as_hz();
    let unit = 1_000 * crate::cpuid::crystal_divider(frequency);
    let fits = (1_000_000..=8_000_000_000).contains(&hz) && hz.is_multiple_of(unit);
    fits.then_some(()).ok_or(ConfigError::Frequency(hz))
}

impl NodeConfig {
    /// Checks every limit.
    ///
    /// # Errors
    /// [`ConfigError`], naming the value and the limit.
    pub fn check(&self) -> Result<(), ConfigError> {
        check_memory(self.memory)?;
        if !(1..=MOST_VCPUS).contains(&self.vcpus) {
            return Err(ConfigError::Vcpus(self.vcpus));
        }
        if !SLICES.contains(&self.slice) {
            return Err(ConfigError::Slice(self.slice));
        }
        check_clock(self.frequency)?;
        let devices = self.virtio_devices();
        if devices > MAX_SLOTS {
            return Err(ConfigError::Devices(devices));
        }
        if let Some(net) = self.net
            && (net.mac[0] & 1 == 1 || !(68..=9216).contains(&net.mtu))
        {
            return Err(ConfigError::Net(format!(
                "{:02x?} and {}",
                net.mac, net.mtu
            )));
        }
        Ok(())
    }

    /// Number of `hvc` consoles; the control console always exists.
    pub(crate) fn consoles(&self) -> usize {
        1 + self.streams
    }

    /// Number of virtio devices, including the entropy source.
    pub(crate) fn virtio_devices(&self) -> usize {
        self.disks.len() + usize::from(self.net.is_some()) + 1 + self.consoles()
    }

    /// Cycles in `span`, rounded up.
    pub(crate) fn cycles(&self, span: Span) -> u64 {
        self.frequency.cycle_at(Time::ZERO + span)
    }
}
