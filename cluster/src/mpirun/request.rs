//! What is asked for on the command line, in the words of MPICH's and Open MPI's `mpirun`.
//!
//! Reading it looks at nothing but the words, and at the text of a host file. Called by
//! `belljar mpirun`.

use crate::scenario::quantity::{Bandwidth, Duration, QuantityError};

/// Why words are no request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nothing to run.
    #[error("there is no program after `{0}`; write for example: belljar mpirun -n 4 ./a.out")]
    NoProgram(String),
    /// An option that is none.
    #[error(
        "`{0}` is no option of belljar mpirun; belljar mpirun --help lists them, and after `:` stand -n N, -x NAME=VALUE and the program"
    )]
    Option(String),
    /// Not a number of ranks.
    #[error("`{0}` is no number of ranks; write a number from 1")]
    Ranks(String),
    /// Nobody says how many.
    #[error("how many ranks? write -n N, or --nodes N, or --hostfile FILE")]
    HowMany,
    /// More ranks than room.
    #[error(
        "{ranks} ranks are more than {nodes} nodes of {ranks_per_node} ranks each have room for: add --ranks-per-node {least}, or --nodes {wanted}"
    )]
    Room {
        /// Of all programs.
        ranks: u32,
        /// Nodes.
        nodes: u32,
        /// Ranks that each may have.
        ranks_per_node: u32,
        /// So many would do on these nodes.
        least: u32,
        /// So many nodes would do.
        wanted: u32,
    },
    /// A line of a host file.
    #[error("line {line} of the host file, `{text}`: write NAME, NAME slots=K or NAME:K")]
    HostFile {
        /// Its number, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A host file with nobody in it.
    #[error("the host file names no host; write a line for each node, such as: a slots=2")]
    NoHosts,
    /// Hosts that are not alike.
    #[error(
        "the host file gives {one} slots to one host and {other} to another; nodes are all alike: give all the same"
    )]
    Uneven {
        /// The one's.
        one: u32,
        /// Another's.
        other: u32,
    },
    /// A network that is none.
    #[error("--network {text}: {reason}; write BANDWIDTH,LATENCY, such as 100Gb/s,1us")]
    Network {
        /// What was written.
        text: String,
        /// What is wrong.
        reason: String,
    },
}

/// A program with its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// How many; what is left of all slots when absent.
    pub ranks: Option<u32>,
    /// Its name or path as written.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables named for it, as `NAME` or `NAME=VALUE`.
    pub environment: Vec<String>,
}

/// Reads programs that `:` stands between, the first of which has `ranks`.
///
/// # Errors
/// See [`RequestError`].
pub fn parts(words: &[String], ranks: Option<u32>) -> Result<Vec<Part>, RequestError> {
    let mut parts = Vec::new();
    for (index, words) in words.split(|word| word == ":").enumerate() {
        let mut part = part(words)?;
        if index == 0 {
            part.ranks = part.ranks.or(ranks);
        }
        parts.push(part);
    }
    Ok(parts)
}

fn part(words: &[String]) -> Result<Part, RequestError> {
    let mut part = Part {
        ranks: None,
        program: String::new(),
        arguments: Vec::new(),
        environment: Vec::new(),
    };
    let mut words = words.iter();
    let mut last = ":".to_owned();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().unwrap_or_default();
        match word.as_str() {
            "-n" | "-np" | "--np" | "-c" => {
                let text = value();
                let number = text.parse().ok().filter(|&number: &u32| number > 0);
                part.ranks = Some(number.ok_or(RequestError::Ranks(text))?);
            }
            "-x" => part.environment.push(value()),
            "-genv" | "-env" => {
                let name = value();
                part.environment.push(format!("{name}={}", value()));
            }
            "-mca" | "--mca" => {
                let name = value();
                let variable = format!("OMPI_MCA_{name}={}", value());
                part.environment.push(variable);
            }
            option if option.starts_with('-') => {
                return Err(RequestError::Option(option.to_owned()));
            }
            program => {
                part.program = program.to_owned();
                part.arguments = words.cloned().collect();
                return Ok(part);
            }
        }
        last.clone_from(word);
    }
    Err(RequestError::NoProgram(last))
}

/// Nodes and how many ranks each may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Nodes.
    pub nodes: u32,
    /// Ranks that each may have: its slots.
    pub ranks_per_node: u32,
}

/// What was said of nodes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    /// How many.
    pub nodes: Option<u32>,
    /// Ranks on each.
    pub ranks_per_node: Option<u32>,
    /// What a host file says of both.
    pub host_file: Option<Layout>,
}

/// The layout for `parts`, and the ranks of each.
///
/// # Errors
/// When there is no room, or nobody says how many.
pub fn layout(parts: &[Part], wishes: Wishes) -> Result<(Layout, Vec<u32>), RequestError> {
    let ranks_per_node = wishes
        .ranks_per_node
        .or(wishes.host_file.map(|file| file.ranks_per_node))
        .unwrap_or(1);
    let nodes = wishes.nodes.or(wishes.host_file.map(|file| file.nodes));
    let slots = nodes.map(|nodes| nodes.saturating_mul(ranks_per_node));
    let ranks: Option<Vec<u32>> = match (parts, slots) {
        // As Open MPI does: all slots.
        ([alone], Some(slots)) => Some(vec![alone.ranks.unwrap_or(slots)]),
        _ => parts.iter().map(|part| part.ranks).collect(),
    };
    let ranks = ranks.ok_or(RequestError::HowMany)?;
    let all = ranks
        .iter()
        .fold(0, |sum: u32, more| sum.saturating_add(*more));
    let least_nodes = all.div_ceil(ranks_per_node);
    let nodes = nodes.unwrap_or(least_nodes);
    if all > nodes.saturating_mul(ranks_per_node) {
        return Err(RequestError::Room {
            ranks: all,
            nodes,
            ranks_per_node,
            least: all.div_ceil(nodes),
            wanted: least_nodes,
        });
    }
    let layout = Layout {
        nodes,
        ranks_per_node,
    };
    Ok((layout, ranks))
}

/// What a host file says: as many nodes as lines, each with as many slots as it says.
///
/// # Errors
/// When a line is none, or hosts are not alike.
pub fn host_file(text: &str) -> Result<Layout, RequestError> {
    let mut slots: Vec<u32> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let count = host_slots(line).ok_or_else(|| RequestError::HostFile {
            line: index + 1,
            text: line.to_owned(),
        })?;
        slots.push(count);
    }
    let &first = slots.first().ok_or(RequestError::NoHosts)?;
    if let Some(&other) = slots.iter().find(|&&other| other != first) {
        return Err(RequestError::Uneven { one: first, other });
    }
    Ok(Layout {
        nodes: u32::try_from(slots.len()).unwrap_or(u32::MAX),
        ranks_per_node: first,
    })
}

fn host_slots(line: &str) -> Option<u32> {
    let mut words = line.split_whitespace();
    let host = words.next()?;
    let mut slots = match host.split_once(':') {
        Some((name, count)) if !name.is_empty() => count.parse().ok()?,
        Some(_) => return None,
        None => 1,
    };
    for word in words {
        match word.split_once('=')? {
            ("slots", count) => slots = count.parse().ok()?,
            ("max_slots" | "max-slots", _) => {}
            _ => return None,
        }
    }
    (slots > 0).then_some(slots)
}

/// Bandwidth and latency, in either order, each of which may be absent.
///
/// # Errors
/// When a word is neither.
pub fn network(text: &str) -> Result<(Option<Bandwidth>, Option<Duration>), RequestError> {
    let (mut bandwidth, mut latency) = (None, None);
    for word in text.split(',') {
        let is_bandwidth = word.contains('/');
        let read: Result<(), QuantityError> = if is_bandwidth {
            word.parse().map(|value| bandwidth = Some(value))
        } else {
            word.parse().map(|value| latency = Some(value))
        };
        read.map_err(|error| RequestError::Network {
            text: text.to_owned(),
            reason: error.to_string(),
        })?;
    }
    Ok((bandwidth, latency))
}

#[cfg(test)]
mod tests;
