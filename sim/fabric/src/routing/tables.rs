//! The user's forwarding tables: for each switch, the link to each host.
//!
//! The text has one entry per line: the switch, the host, and the link, by name; `*` means all hosts, or all switches at the ends of the link. The last entry
//! for a switch and a host applies. Text after a `#` is a comment. A host's own switch needs no entry for it. Valid tables lead from every host to every other,
//! without loops. Parsed for a plan; used by the router.

use std::collections::BTreeMap;

use crate::topology::{Endpoint, LinkId, Topology};

/// Limit on entries: switches times hosts.
const MOST_ENTRIES: usize = 1 << 26;

/// No entry.
const NONE: LinkId = LinkId::MAX;

/// An error in tables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A line is not an entry.
    #[error(
        "line {line}: {reason}; an entry is a switch, a host and a link, such as switch0 host3 switch0-switch2"
    )]
    Line {
        /// Line number, from 1.
        line: usize,
        /// The problem.
        reason: String,
    },
    /// Frames would not arrive.
    #[error("frames from {from} to {to} do not arrive: {reason}")]
    Lost {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
        /// The cause.
        reason: String,
    },
    /// There are too many switches and hosts.
    #[error("{0} switches times hosts are more than tables are read for, {MOST_ENTRIES}")]
    TooMany(usize),
}

/// For each switch, the link to each host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardingTables {
    hosts: usize,
    /// By switch, then by host.
    links: Box<[LinkId]>,
}

impl ForwardingTables {
    /// Parses tables for a topology.
    ///
    /// # Errors
    /// When a line has an unknown name, or frames between two hosts would not arrive.
    pub fn parse(topology: &Topology, text: &str) -> Result<Self, TableError> {
        let (hosts, switches) = (topology.hosts() as usize, topology.switches().len());
        let entries = hosts.saturating_mul(switches);
        if entries > MOST_ENTRIES {
            return Err(TableError::TooMany(entries));
        }
        let mut tables = Self {
            hosts,
            links: vec![NONE; entries].into(),
        };
        let names = ElementNames::of(topology);
        for (line, text) in (1..).zip(text.lines()) {
            let entry = text.split('#').next().unwrap_or_default();
            let words: Vec<&str> = entry.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            tables
                .enter(&names, topology, &words)
                .map_err(|reason| TableError::Line { line, reason })?;
        }
        tables.check(topology)?;
        Ok(tables)
    }

    fn enter(
        &mut self,
        names: &ElementNames,
        topology: &Topology,
        words: &[&str],
    ) -> Result<(), String> {
        let [switch, host, link] = *words else {
            return Err(format!("it has {} words", words.len()));
        };
        let link = *names
            .links
            .get(link)
            .ok_or_else(|| format!("there is no link {link}"))?;
        let at: Vec<u32> = topology.links()[link as usize]
            .ends
            .into_iter()
            .filter_map(|end| match end {
                Endpoint::Switch(number) => Some(number),
                Endpoint::Host(_) => None,
            })
            .collect();
        let switches = match switch {
            "*" => at,
            name => {
                let number = *names
                    .switches
                    .get(name)
                    .ok_or_else(|| format!("there is no switch {name}"))?;
                if !at.contains(&number) {
                    return Err(format!("{name} has no link {}", words[2]));
                }
                vec![number]
            }
        };
        let hosts = match host {
            "*" => 0..topology.hosts(),
            name => {
                let number = *names
                    .hosts
                    .get(name)
                    .ok_or_else(|| format!("there is no host {name}"))?;
                number..number + 1
            }
        };
        for switch in switches {
            for host in hosts.clone() {
                self.links[switch as usize * self.hosts + host as usize] = link;
            }
        }
        Ok(())
    }

    /// The link from a switch to a host at another switch; `None` without an entry.
    pub(super) fn towards(&self, switch: u32, host: u32) -> Option<LinkId> {
        let link = *self
            .links
            .get(switch as usize * self.hosts + host as usize)?;
        (link != NONE).then_some(link)
    }

    /// Checks that frames from every host to every other one arrive.
    fn check(&self, topology: &Topology) -> Result<(), TableError> {
        // By destination: switches from which frames arrive.
        let mut arrives = vec![u32::MAX; topology.switches().len()];
        for to in 0..topology.hosts() {
            arrives[topology.switch_of(to) as usize] = to;
            for from in 0..topology.hosts() {
                self.follow(topology, from, to, &mut arrives)?;
            }
        }
        Ok(())
    }

    /// Follows frames from one host to another, up to a switch that is known to be correct for it.
    fn follow(
        &self,
        topology: &Topology,
        from: u32,
        to: u32,
        arrives: &mut [u32],
    ) -> Result<(), TableError> {
        let lost = |reason| TableError::Lost {
            from: topology.place_name(Endpoint::Host(from)),
            to: topology.place_name(Endpoint::Host(to)),
            reason,
        };
        let name = |switch: u32| topology.place_name(Endpoint::Switch(switch));
        let mut way = Vec::new();
        let mut switch = topology.switch_of(from);
        while arrives[switch as usize] != to {
            way.push(switch);
            if way.len() > arrives.len() {
                let circle: Vec<String> = way.iter().rev().take(4).map(|it| name(*it)).collect();
                return Err(lost(format!(
                    "they go in circles, over {}",
                    circle.join(", ")
                )));
            }
            let Some(link) = self.towards(switch, to) else {
                return Err(lost(format!("{} has no entry", name(switch))));
            };
            let here = Endpoint::Switch(switch);
            match topology.links()[link as usize].other_end(here) {
                Endpoint::Switch(next) => switch = next,
                Endpoint::Host(_) => {
                    let link = topology.link_name(link);
                    return Err(lost(format!("{} sends them over {link}", name(switch))));
                }
            }
        }
        for switch in way {
            arrives[switch as usize] = to;
        }
        Ok(())
    }
}

/// Numbers by names.
struct ElementNames {
    hosts: BTreeMap<String, u32>,
    switches: BTreeMap<String, u32>,
    links: BTreeMap<String, LinkId>,
}

impl ElementNames {
    fn of(topology: &Topology) -> Self {
        let hosts =
            (0..topology.hosts()).map(|host| (topology.place_name(Endpoint::Host(host)), host));
        let switches = 0..topology.switches().len() as u32;
        let links = 0..topology.links().len() as LinkId;
        Self {
            hosts: hosts.collect(),
            switches: switches
                .map(|switch| (topology.place_name(Endpoint::Switch(switch)), switch))
                .collect(),
            links: links.map(|link| (topology.link_name(link), link)).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
