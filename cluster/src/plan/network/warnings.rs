//! Links and ports of a network without traffic, and ignored attributes of its file.
//!
//! They are no errors, but the network differs from the one that its parts suggest. Printed by the commands that check, run,
//! replay and simulate.

use belljar_fabric::{GlobalPorts, LinkUsage, Routing, RoutingError, Settings, Topology};

use crate::scenario::RoutingName;

/// In a survey of some routes alone, a smaller part of the links than this is no evidence.
const IDLE_SHARE: u32 = 8;
/// Attributes that a warning lists at most.
const LISTED: usize = 8;

/// Describes links that no route uses, global ports without a link, each with a remedy, and ignored attributes of a GraphML file.
///
/// # Errors
/// If the topology does not fit the routing.
pub fn network_warnings(
    topology: &Topology,
    settings: &Settings,
) -> Result<Vec<String>, RoutingError> {
    let usage = LinkUsage::of(topology, &settings.routes())?;
    let mut warnings = Vec::new();
    warnings.extend(idle(topology, settings.routing, usage));
    warnings.extend(costly(topology, usage));
    warnings.extend(topology.global_ports().and_then(ports));
    warnings.extend(unread(topology.unread_attributes()));
    Ok(warnings)
}

/// Links that the routing leaves out.
fn idle(topology: &Topology, routing: Routing, usage: LinkUsage) -> Option<String> {
    let [followed, all] = usage.followed;
    let is_part = followed < all;
    // Routes outside of the sample may use a few more links.
    let least = if is_part { usage.links / IDLE_SHARE } else { 1 };
    if usage.idle < least.max(1) {
        return None;
    }
    let part = match is_part {
        true => format!(" on the routes to {followed} of {all} switches with nodes"),
        false => String::new(),
    };
    let half = match usage.half_idle {
        0 => String::new(),
        some => format!(", and {some} more in one direction"),
    };
    let advice = match (routing, topology.has_levels()) {
        (Routing::Tables, _) => "give them entries in network.tables",
        (Routing::Shortest, true) => "set network.routing = \"d-mod-k\", which uses them",
        _ => "set network.routing = \"ecmp\", which uses them",
    };
    Some(format!(
        "{} of {} links between switches{} carry nothing{part} under network.routing = \"{}\"{half}; {advice}",
        usage.idle,
        usage.links,
        example(topology, usage),
        RoutingName(routing),
    ))
}

/// Links that cheaper paths avoid.
fn costly(topology: &Topology, usage: LinkUsage) -> Option<String> {
    (usage.costly > 0).then(|| {
        let example = match usage.idle {
            0 => example(topology, usage),
            _ => String::new(),
        };
        format!(
            "{} of {} links between switches{example} cost more than another way between their ends, so they carry nothing while \
             all links work; lower their cost to use them",
            usage.costly, usage.links
        )
    })
}

/// Attributes of a GraphML file that are ignored.
fn unread(attributes: &[String]) -> Option<String> {
    let listed = attributes.iter().take(LISTED).map(String::as_str);
    let listed = listed.collect::<Vec<_>>().join(", ");
    let more = match attributes.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!attributes.is_empty()).then(|| {
        format!(
            "attributes of the GraphML file are ignored: {listed}{more}; a link may have bandwidth, latency, queue and cost, a switch \
             latency and queue, and a node kind"
        )
    })
}

fn example(topology: &Topology, usage: LinkUsage) -> String {
    let name = |link| format!(", such as {},", topology.link_name(link));
    usage.example.map_or_else(String::new, name)
}

/// Global ports of a dragonfly without a link.
fn ports(ports: GlobalPorts) -> Option<String> {
    let GlobalPorts {
        per_group,
        linked,
        groups,
    } = ports;
    let unused = per_group.saturating_sub(linked);
    if unused == 0 {
        return None;
    }
    let others = groups.saturating_sub(1);
    let why = match others {
        0 => "there is one group".to_owned(),
        some if linked == some => "each two groups are joined by 1 link".to_owned(),
        some => format!("each two groups are joined by {} links", linked / some),
    };
    // The next number of groups that uses all ports.
    let fitting = (others.max(1)..=per_group).find(|others| per_group.is_multiple_of(*others));
    let advice = match fitting {
        Some(fitting) if fitting == others => "network.global-wiring = \"all-ports\"".to_owned(),
        Some(fitting) => format!("network.groups = {}", fitting + 1),
        None => "fewer network.groups".to_owned(),
    };
    Some(format!(
        "{unused} of the {per_group} global ports of each group have no link, as {why}; {advice} uses all ports"
    ))
}
