//! The nodes' network cards: frame size, speed and offloads.
//!
//! Each card has the speed of its node's link. `parts` makes nodes with it.

use std::ops::RangeInclusive;

use belljar_fabric::Mac;
use belljar_vmm::NetConfig;

use crate::plan::Plan;
use crate::plan::network::error::NetworkError;
use crate::scenario::Network;

/// Payloads of frames in bytes, from the size that IPv4 demands of every host (RFC 791, 3.1) to jumbo frames of common switches.
const MTUS: RangeInclusive<u16> = 576..=9216;

/// The part of a card that all nodes have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CardKind {
    /// Bytes that a frame carries after the Ethernet header.
    pub(crate) mtu: u16,
    /// True if the card does work for the guest's TCP.
    pub(crate) offload: bool,
}

impl CardKind {
    /// The cards that a scenario configures.
    pub(super) fn resolve(network: &Network) -> Result<Self, NetworkError> {
        match MTUS.contains(&network.mtu) {
            true => Ok(Self {
                mtu: network.mtu,
                offload: network.offload,
            }),
            false => Err(NetworkError::Mtu(network.mtu)),
        }
    }
}

impl Plan {
    /// The network card of node `index`.
    pub(crate) fn card(&self, index: u32) -> NetConfig {
        let link = &self.topology.links()[self.topology.link_of(index) as usize];
        NetConfig {
            mac: Mac::of_host(index).0,
            mtu: self.card.mtu,
            speed: megabits(link.spec.bandwidth),
            offload: self.card.offload,
        }
    }
}

/// Bits per second in Mb/s, as drivers give a link's speed; at least 1.
fn megabits(bandwidth: u64) -> u32 {
    u32::try_from(bandwidth / 1_000_000)
        .map_or(i32::MAX as u32, |speed| speed.clamp(1, i32::MAX as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_in_whole_megabits() {
        let speeds = [1, 1_999_999, 10_000_000, 100_000_000_000, u64::MAX];
        assert_eq!(speeds.map(megabits), [1, 1, 10, 100_000, i32::MAX as u32]);
    }
}
