//! A scenario's network resolved: its topology built, its links' troubles found.
//!
//! A key that belongs to another topology, a link that does not exist and a route that the topology lacks
//! are errors. Links' names are made only on demand, as a large network has many. Called by
//! `Plan::resolve`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use belljar_fabric::{
    Dragonfly, FatTree, ForwardingTables, GlobalWiring, HyperX, Impairment, LinkId, LinkSpec,
    Outage, Routing, Settings, SlimFly, Topology, Torus,
};
use belljar_sim::{Span, Time};
use wildmatch::WildMatch;

use super::background;
use crate::plan::network::card::CardKind;
use crate::plan::network::error::NetworkError;
use crate::plan::network::parts::parts;
use crate::scenario::{
    Arp, GlobalWiringName, LinkTable, Network, RoutingName, Scenario, TopologyKind,
};

/// Files that are read as far as a bound.
pub(super) mod bounded;
/// The nodes' network cards.
pub(super) mod card;
/// A network in words.
mod describe;
/// Errors of networks.
pub(super) mod error;
/// A topology from a GraphML file.
mod graph;
/// Networks without a run.
mod machine;
/// Properties of all links and switches.
pub(super) mod parts;
/// Links and ports without traffic.
mod warnings;

pub(super) use describe::describe;
pub use warnings::network_warnings;

/// Maximum number of names in an error.
const LISTED: usize = 12;
/// Bytes of an Ethernet header.
const ETHERNET_HEADER: usize = 14;

/// A resolved network.
pub(super) struct NetworkPlan {
    pub(super) topology: Topology,
    pub(super) settings: Settings,
    pub(super) pcap: Vec<LinkId>,
    pub(super) words: String,
    pub(super) card: CardKind,
}

impl NetworkPlan {
    /// Links and ports without traffic.
    pub(super) fn warnings(&self) -> Result<Vec<String>, NetworkError> {
        Ok(network_warnings(&self.topology, &self.settings)?)
    }

    pub(super) fn resolve(scenario: &Scenario, folder: &Path) -> Result<Self, NetworkError> {
        let network = &scenario.network;
        check_keys(network)?;
        let others = background::hosts(scenario, folder)?;
        let hosts = scenario.nodes.count().saturating_add(others);
        let mut topology = build(network, hosts, folder)?;
        if let Some(places) = &network.places {
            topology = topology.placed(places).map_err(NetworkError::Places)?;
        }
        check_statistics(network, &topology)?;
        let names = LinkNames::default();
        let settings = Settings {
            routing: network.routing(),
            tables: tables(network, &topology, folder)?,
            seed: scenario.seed,
            impairments: impairments(&topology, &names, &network.links)?,
            holds: Vec::new(),
            losses: Vec::new(),
            statistics: network.statistics.map(|length| length.0),
        };
        settings.check(&topology)?;
        let mut pcap = Vec::new();
        for name in &network.pcap {
            let pattern = if name == "all" { "*" } else { name };
            pcap.extend(names.find(&topology, "pcap", pattern)?);
        }
        pcap.sort_unstable();
        pcap.dedup();
        Ok(Self {
            words: words(network),
            card: CardKind::resolve(network)?,
            topology,
            settings,
            pcap,
        })
    }
}

/// Reads the user's forwarding tables, if the routing uses them.
fn tables(
    network: &Network,
    topology: &Topology,
    folder: &Path,
) -> Result<Option<Arc<ForwardingTables>>, NetworkError> {
    let routing = network.routing();
    let chosen = routing == Routing::Tables;
    let Some(file) = &network.tables else {
        return match chosen {
            true => Err(NetworkError::NoTables),
            false => Ok(None),
        };
    };
    if !chosen {
        return Err(NetworkError::TablesUnused(RoutingName(routing).to_string()));
    }
    let path = folder.join(file);
    let text = bounded::read(&path).map_err(|source| NetworkError::ReadTables {
        path: path.clone(),
        source,
    })?;
    let tables = ForwardingTables::parse(topology, &text)
        .map_err(|source| NetworkError::Tables { path, source })?;
    Ok(Some(Arc::new(tables)))
}

/// Links' names, made on first use.
#[derive(Default)]
struct LinkNames(std::cell::OnceCell<Vec<String>>);

impl LinkNames {
    /// The links whose names match `pattern`.
    fn find(
        &self,
        topology: &Topology,
        key: &'static str,
        pattern: &str,
    ) -> Result<Vec<LinkId>, NetworkError> {
        let links = 0..topology.links().len() as LinkId;
        let names = self
            .0
            .get_or_init(|| links.map(|link| topology.link_name(link)).collect());
        let matching = WildMatch::new(pattern);
        let found: Vec<LinkId> = (0..)
            .zip(names)
            .filter_map(|(link, name)| matching.matches(name).then_some(link))
            .collect();
        if found.is_empty() {
            let mut known = names[..names.len().min(LISTED)].join(", ");
            if names.len() > LISTED {
                let _ = write!(known, " and {} more", names.len() - LISTED);
            }
            let name = pattern.to_owned();
            return Err(NetworkError::NoLink { key, name, known });
        }
        Ok(found)
    }
}

/// Refuses keys of other topologies, as they would have no effect.
fn check_keys(network: &Network) -> Result<(), NetworkError> {
    use TopologyKind::{Dragonfly, FatTree, Graphml, HyperX, KAryNTree, SlimFly, Torus, Tree};
    let kind = &network.topology;
    let graph = matches!(kind, Graphml(_));
    let keys = [
        ("fanout", network.fanout.is_some(), *kind == Tree),
        ("ports", network.ports.is_some(), *kind == FatTree),
        ("children", network.children.is_some(), *kind == FatTree),
        ("parents", network.parents.is_some(), *kind == FatTree),
        ("arity", network.arity.is_some(), *kind == KAryNTree),
        ("levels", network.levels.is_some(), *kind == KAryNTree),
        ("order", network.order.is_some(), *kind == SlimFly),
        (
            "dimensions",
            network.dimensions.is_some(),
            matches!(kind, Torus | HyperX),
        ),
        (
            "hosts-per-switch",
            network.hosts_per_switch.is_some(),
            matches!(kind, Torus | HyperX | Dragonfly | SlimFly) || graph,
        ),
        (
            "switches-per-group",
            network.switches_per_group.is_some(),
            *kind == Dragonfly,
        ),
        (
            "global-links-per-switch",
            network.global_links_per_switch.is_some(),
            *kind == Dragonfly,
        ),
        ("groups", network.groups.is_some(), *kind == Dragonfly),
        (
            "global-wiring",
            network.global_wiring.is_some(),
            *kind == Dragonfly,
        ),
        (
            "global-bandwidth",
            network.global_bandwidth.is_some(),
            *kind == Dragonfly,
        ),
        (
            "global-latency",
            network.global_latency.is_some(),
            *kind == Dragonfly,
        ),
    ];
    match keys.iter().find(|(_, given, fits)| *given && !*fits) {
        Some(&(key, ..)) => Err(NetworkError::Foreign {
            key,
            topology: kind.to_string(),
        }),
        None => Ok(()),
    }
}

fn needed<T>(
    value: Option<T>,
    key: &'static str,
    example: &'static str,
    network: &Network,
) -> Result<T, NetworkError> {
    value.ok_or_else(|| NetworkError::Missing {
        key,
        topology: network.topology.to_string(),
        example,
    })
}

/// The topology of a network for this number of hosts, with the keys of its shape checked.
pub(super) fn build_shape(
    network: &Network,
    hosts: u32,
    folder: &Path,
) -> Result<Topology, NetworkError> {
    check_keys(network)?;
    build(network, hosts, folder)
}

fn build(network: &Network, hosts: u32, folder: &Path) -> Result<Topology, NetworkError> {
    let parts = parts(network);
    let per_switch = network.hosts_per_switch.unwrap_or(1);
    Ok(match &network.topology {
        TopologyKind::Star => Topology::star(hosts, parts.link, parts.switch)?,
        TopologyKind::Tree => {
            let fanout = network.fanout.unwrap_or(8);
            Topology::tree(hosts, fanout, parts.link, parts.uplink, parts.switch)?
        }
        TopologyKind::FatTree => fat_tree(network, hosts)?.build(hosts, &parts)?,
        TopologyKind::Torus => {
            let dimensions = network.dimensions.clone();
            let torus = Torus {
                dimensions: needed(dimensions, "dimensions", "[4, 4]", network)?,
                hosts_per_switch: per_switch,
            };
            torus.build(hosts, &parts)?
        }
        TopologyKind::Dragonfly => {
            let global = network.global_links_per_switch;
            let mut dragonfly = Dragonfly {
                switches_per_group: needed(
                    network.switches_per_group,
                    "switches-per-group",
                    "4",
                    network,
                )?,
                hosts_per_switch: per_switch,
                global_links_per_switch: needed(global, "global-links-per-switch", "2", network)?,
                groups: 0,
                wiring: match network.global_wiring() {
                    GlobalWiringName::AllPorts => GlobalWiring::AllPorts,
                    GlobalWiringName::OneLink => GlobalWiring::OneLink,
                },
                global_link: LinkSpec {
                    bandwidth: network
                        .global_bandwidth
                        .map_or(parts.uplink.bandwidth, |it| it.0),
                    latency: network
                        .global_latency
                        .map_or(parts.uplink.latency, |it| it.0),
                },
            };
            dragonfly.groups = network.groups.unwrap_or(dragonfly.groups_for(hosts));
            dragonfly.build(hosts, &parts)?
        }
        TopologyKind::KAryNTree => {
            let arity = needed(network.arity, "arity", "4", network)?;
            let levels = needed(network.levels, "levels", "2", network)?;
            FatTree::k_ary(arity, levels)?.build(hosts, &parts)?
        }
        TopologyKind::HyperX => {
            let dimensions = network.dimensions.clone();
            let hyperx = HyperX {
                dimensions: needed(dimensions, "dimensions", "[4, 4]", network)?,
                hosts_per_switch: per_switch,
            };
            hyperx.build(hosts, &parts)?
        }
        TopologyKind::SlimFly => {
            let slim_fly = SlimFly {
                order: needed(network.order, "order", "5", network)?,
                hosts_per_switch: per_switch,
            };
            slim_fly.build(hosts, &parts)?
        }
        TopologyKind::Graphml(file) => graph::build(&folder.join(file), network, hosts)?,
    })
}

fn fat_tree(network: &Network, hosts: u32) -> Result<FatTree, NetworkError> {
    Ok(match (network.ports, &network.children, &network.parents) {
        (None, None, None) => FatTree::for_hosts(hosts)?,
        (Some(ports), None, None) => FatTree::of_ports(ports)?,
        (Some(_), ..) => {
            return Err(NetworkError::Foreign {
                key: "ports",
                topology: "fat-tree with children and parents".into(),
            });
        }
        (None, children, parents) => FatTree {
            children: needed(children.clone(), "children", "[4, 4]", network)?,
            parents: needed(parents.clone(), "parents", "[1, 4]", network)?,
        },
    })
}

/// Bounds the statistics written for each frame.
fn check_statistics(network: &Network, topology: &Topology) -> Result<(), NetworkError> {
    let Some(length) = network.statistics.map(|length| length.0) else {
        return Ok(());
    };
    let frame = usize::from(network.mtu) + ETHERNET_HEADER;
    let links = topology.links().iter();
    let slowest = links.map(|link| link.spec.transmission(frame)).max();
    let least = Span::from_us(1).max(Span::from_ps(slowest.unwrap_or(Span::ZERO).as_ps() / 1000));
    if length < least || !length.as_ps().is_multiple_of(1000) {
        return Err(NetworkError::Statistics(length));
    }
    Ok(())
}

fn impairments(
    topology: &Topology,
    names: &LinkNames,
    tables: &[LinkTable],
) -> Result<Vec<(LinkId, Impairment)>, NetworkError> {
    let mut impaired: BTreeMap<LinkId, Impairment> = BTreeMap::new();
    for table in tables {
        let outage = outage(table)?;
        for link in names.find(topology, "link", &table.name)? {
            let impairment = impaired.entry(link).or_default();
            impairment.loss = table.loss.unwrap_or(impairment.loss);
            impairment.jitter = table.jitter.map_or(impairment.jitter, |jitter| jitter.0);
            impairment.outages.extend(outage);
        }
    }
    for (&link, impairment) in &mut impaired {
        impairment.outages.sort_by_key(|outage| outage.from);
        impairment
            .check()
            .map_err(|source| NetworkError::Impairment {
                name: topology.link_name(link),
                source,
            })?;
    }
    Ok(impaired.into_iter().collect())
}

fn outage(table: &LinkTable) -> Result<Option<Outage>, NetworkError> {
    match (table.fail_at, table.repair_at) {
        (Some(from), until) => Ok(Some(Outage {
            from: Time::ZERO + from.0,
            until: until.map_or(Time::MAX, |until| Time::ZERO + until.0),
        })),
        (None, Some(_)) => Err(NetworkError::Repair(table.name.clone())),
        (None, None) => Ok(None),
    }
}

fn words(network: &Network) -> String {
    let arp = match network.arp {
        Arp::Dynamic => "",
        Arp::Static => ", static ARP",
    };
    let routing = RoutingName(network.routing());
    let mtu = match network.mtu {
        1500 => String::new(),
        mtu => format!(", MTU {mtu}"),
    };
    let offload = if network.offload { ", TCP offload" } else { "" };
    format!("{}, routed {routing}{arp}{mtu}{offload}", network.topology)
}

#[cfg(test)]
mod tests;
