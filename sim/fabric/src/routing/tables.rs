//! Tables of the user's: which link each switch sends frames to each host over.
//!
//! A text, a line for an entry: the switch, the host, and the link, by their names; `*` stands for all hosts, or all switches that the link is at. Of several
//! entries for a switch and a host the last holds. What is after a `#` is a remark. A host's own switch needs no entry for it. Tables that exist lead from every
//! host to every other, without going in circles. Read for a plan; the router asks them.

use std::collections::BTreeMap;

use crate::topology::{Endpoint, LinkId, Topology};

/// Most entries: switches times hosts.
const MOST_ENTRIES: usize = 1 << 26;

/// Where no entry is.
const NONE: LinkId = LinkId::MAX;

/// Why tables cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A line is no entry.
    #[error(
        "line {line}: {reason}; an entry is a switch, a host and a link, such as switch0 host3 switch0-switch2"
    )]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// Frames would not arrive.
    #[error("frames from {from} to {to} do not arrive: {reason}")]
    Lost {
        /// The sender.
        from: String,
        /// The receiver.
        to: String,
        /// What happens to them.
        reason: String,
    },
    /// There are too many switches and hosts.
    #[error("{0} switches times hosts are more than tables are read for, {MOST_ENTRIES}")]
    TooMany(usize),
}

/// Which link each switch sends frames to each host over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardingTables {
    hosts: usize,
    /// By switch, then by host.
    links: Box<[LinkId]>,
}

impl ForwardingTables {
    /// Reads tables for a topology.
    ///
    /// # Errors
    /// When a line names what is not there, or frames between two hosts would not arrive.
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
        let names = Names::of(topology);
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

    fn enter(&mut self, names: &Names, topology: &Topology, words: &[&str]) -> Result<(), String> {
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

    /// The link over which a switch sends frames to a host that is at another switch; `None` where nothing is said.
    pub(super) fn towards(&self, switch: u32, host: u32) -> Option<LinkId> {
        let link = *self
            .links
            .get(switch as usize * self.hosts + host as usize)?;
        (link != NONE).then_some(link)
    }

    /// Sees that frames arrive, from every host to every other.
    fn check(&self, topology: &Topology) -> Result<(), TableError> {
        // By destination: switches from which frames arrive.
        let mut arrives = vec![u32::MAX; topology.switches().len()];
        for to in 0..topology.hosts() {
            arrives[topology.switch_of(to) as usize] = to;
            for from in 0..topology.hosts() {
                self.follow(topology, (from, to), &mut arrives)?;
            }
        }
        Ok(())
    }

    /// Follows frames from one host to another as far as a switch that is known to be right for it.
    fn follow(
        &self,
        topology: &Topology,
        (from, to): (u32, u32),
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
struct Names {
    hosts: BTreeMap<String, u32>,
    switches: BTreeMap<String, u32>,
    links: BTreeMap<String, LinkId>,
}

impl Names {
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
