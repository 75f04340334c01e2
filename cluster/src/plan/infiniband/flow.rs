//! Buffers and virtual lanes of the InfiniBand network.
//!
//! Each virtual lane's share of a buffer holds at least one packet of the largest size, since a packet leaves only with credits for all of
//! it. Called by [`InfinibandPlan::resolve`](super::InfinibandPlan::resolve).

use belljar_fabric::{Routes, Routing, Topology};
use belljar_lossless::{Flow, LONGEST_ON_LINK, lanes_needed};
use belljar_sim::Span;
use belljar_sim::figures::{counted, decimal};

use super::super::network::error::NetworkError;
use crate::plan::error::PlanError;
use crate::scenario::Infiniband;

/// Virtual lanes for data: InfiniBand has 16, of which the last is for management.
const MOST_LANES: u8 = 15;
/// The largest buffer of an input.
const LARGEST_BUFFER: u64 = 1 << 30;

/// Credits and lanes, and doubts about them for users.
///
/// # Errors
/// If a key is out of range, or the topology does not fit the routing.
pub(super) fn resolve(
    table: &Infiniband,
    topology: &Topology,
    routes: &Routes,
) -> Result<(Flow, Vec<String>), PlanError> {
    let needed = lanes_needed(topology, routes);
    let needed = needed.map_err(|error| PlanError::Infiniband(NetworkError::from(error)))?;
    let lanes = table
        .lanes
        .unwrap_or(needed.min(u32::from(MOST_LANES)) as u8);
    if !(1..=MOST_LANES).contains(&lanes) {
        return Err(PlanError::Range {
            key: "infiniband.lanes",
            value: lanes.to_string(),
            limits: "1 to 15, the virtual lanes that InfiniBand has for data",
        });
    }
    let flow = Flow {
        buffer: table.buffer.0 / u64::from(lanes),
        lanes,
        gap: table.adaptive_gap.0,
    };
    if routes.routing == Routing::Adaptive && lanes > 1 {
        return Err(PlanError::Range {
            key: "infiniband.lanes",
            value: lanes.to_string(),
            limits: "1 with adaptive routing",
        });
    }
    if table.buffer.0 > LARGEST_BUFFER || flow.buffer < LONGEST_ON_LINK {
        return Err(PlanError::Range {
            key: "infiniband.buffer",
            value: format!("{} for {lanes} virtual lanes", table.buffer),
            limits: "5 KiB for each virtual lane, which hold the largest packet, to 1 GiB in all",
        });
    }
    let circles = (needed > u32::from(lanes)).then(|| {
        format!("the InfiniBand network has {}, and its routes need {needed}: links can wait for each other in a circle, and then no packet of theirs arrives", counted(u64::from(lanes), "virtual lane"))
    });
    let warnings = circles.into_iter().chain(slow_link(topology, flow));
    Ok((flow, warnings.collect()))
}

/// A warning if credits of a link return too late for its full rate. A buffer's credits are back after two cables, the switch and the packet.
fn slow_link(topology: &Topology, flow: Flow) -> Option<String> {
    let switches = topology.switches().iter().map(|switch| switch.latency);
    let through = switches.max().unwrap_or(Span::ZERO);
    let share = |link: &belljar_fabric::Link| {
        let spec = link.spec;
        let packet = Span::of_transfer(LONGEST_ON_LINK, spec.bandwidth);
        let back = spec.latency + spec.latency + through + packet;
        let full = Span::of_transfer(flow.buffer, spec.bandwidth);
        full.as_ps() as f64 / back.as_ps().max(1) as f64
    };
    let (number, share) = (0..)
        .zip(topology.links().iter().map(share))
        .min_by(|one, other| one.1.total_cmp(&other.1))?;
    (share < 1.0).then(|| {
        format!(
            "credits of link {} return too late for its full rate: {} bytes of buffer for a virtual lane allow {} % of it; infiniband.buffer sets the buffer",
            topology.link_name(number),
            flow.buffer,
            decimal(share * 100.0, 0)
        )
    })
}

/// In words.
pub(super) fn words(flow: Flow) -> String {
    let lanes = counted(u64::from(flow.lanes), "virtual lane");
    format!("{lanes} with {} bytes of buffer each", flow.buffer)
}
