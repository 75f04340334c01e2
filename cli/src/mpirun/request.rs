//! Requests of the command line, in the syntax of MPICH's and Open MPI's `mpirun`.
//!
//! Reading uses only the words, and the text of host files. Called by `belljar mpirun`.

use std::path::{Path, PathBuf};

use belljar_cluster::scenario::quantity::{Bandwidth, Duration, QuantityError};

/// Errors in the words of a request.
mod error;
/// Host files, machine files, lists of hosts and rankfiles.
pub mod host_file;
/// Options of MPICH's and Open MPI's launchers.
pub mod options;
/// Placement of ranks on nodes.
pub mod placement;
/// Values of `--map-by` and `--rank-by`.
pub mod policy;

pub use error::RequestError;
use host_file::HostSlots;
use options::Meaning;
pub use placement::{Placement, RankMapping, SlotLayout};

/// A program with its ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramRequest {
    /// Their number; by default the slots left by other programs.
    pub ranks: Option<u32>,
    /// Its name or path as written.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables named for it, as `NAME` or `NAME=VALUE`.
    pub environment: Vec<String>,
    /// Variables named for all programs.
    pub shared: Vec<String>,
    /// Folder that it runs in, as written.
    pub folder: Option<String>,
    /// Options without effect, with reasons.
    pub ignored: Vec<String>,
}

impl ProgramRequest {
    /// A program without arguments.
    pub fn of(program: String) -> Self {
        Self {
            ranks: None,
            program,
            arguments: Vec::new(),
            environment: Vec::new(),
            shared: Vec::new(),
            folder: None,
            ignored: Vec::new(),
        }
    }

    /// Path on this host of a file that the program names, relative to the program's folder.
    pub fn path_here(&self, name: &str) -> PathBuf {
        match &self.folder {
            Some(folder) => Path::new(folder).join(name),
            None => PathBuf::from(name),
        }
    }
}

/// Reads programs separated by `:`; the first one has `ranks`.
///
/// # Errors
/// See [`RequestError`].
pub fn parts(words: &[String], ranks: Option<u32>) -> Result<Vec<ProgramRequest>, RequestError> {
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

fn part(words: &[String]) -> Result<ProgramRequest, RequestError> {
    let mut part = ProgramRequest::of(String::new());
    let mut words = words.iter();
    let mut last = ":".to_owned();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            part.program.clone_from(word);
            part.arguments = words.cloned().collect();
            return Ok(part);
        }
        last.clone_from(word);
        let known = if word == "-x" {
            Some(Meaning::OwnVariable)
        } else {
            options::meaning(word)
        };
        let meaning = known.ok_or_else(|| RequestError::Option(word.clone()))?;
        option(&mut part, word, meaning, &mut words)?;
    }
    Err(RequestError::NoProgram(last))
}

/// Reads an option of a program, with its words.
fn option(
    part: &mut ProgramRequest,
    word: &str,
    meaning: Meaning,
    words: &mut std::slice::Iter<'_, String>,
) -> Result<(), RequestError> {
    let late = || RequestError::Late(word.to_owned());
    let mut value = || words.next().cloned().unwrap_or_default();
    match meaning {
        Meaning::Spelling("-n") => {
            let text = value();
            let number = text.parse().ok().filter(|&number: &u32| number > 0);
            part.ranks = Some(number.ok_or(RequestError::Ranks(text))?);
        }
        Meaning::Spelling("--wdir") => part.folder = Some(value()),
        Meaning::OwnVariable if word == "-x" => part.environment.push(value()),
        Meaning::OwnVariable => part.environment.push(pair(&mut value)),
        Meaning::Variable => part.shared.push(pair(&mut value)),
        Meaning::List => {
            let names = value();
            part.environment.extend(names.split(',').map(str::to_owned));
        }
        Meaning::Parameter(start) => {
            let name = value();
            part.environment.push(format!("{start}{name}={}", value()));
        }
        Meaning::Ignored(count, why) => {
            let values: Vec<String> = (0..count).map(|_| value()).collect();
            part.ignored.push(ignored(word, &values, why));
        }
        Meaning::Refused(instead) => {
            let option = word.to_owned();
            return Err(RequestError::Refused { option, instead });
        }
        Meaning::Words(&["--allow-run-as-root"]) => {}
        Meaning::Spelling(_) | Meaning::Words(_) | Meaning::Files => return Err(late()),
    }
    Ok(())
}

/// A variable and its value, of one word with `=` or of two.
pub fn pair(value: &mut impl FnMut() -> String) -> String {
    let name = value();
    match name.contains('=') {
        true => name,
        false => format!("{name}={}", value()),
    }
}

/// The warning about an option without effect.
pub fn ignored(option: &str, values: &[String], why: &str) -> String {
    let words: Vec<&str> = std::iter::once(option)
        .chain(values.iter().map(String::as_str))
        .collect();
    format!("{} changes nothing: {why}", words.join(" "))
}

/// Options about nodes.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Their number.
    pub nodes: Option<u32>,
    /// Ranks on each node.
    pub ranks_per_node: Option<u32>,
    /// Hosts of a file or a list, each once.
    pub hosts: Option<Vec<HostSlots>>,
    /// The order of ranks.
    pub mapping: RankMapping,
    /// The host of each rank, of a rankfile.
    pub rank_hosts: Option<Vec<String>>,
}

impl Wishes {
    /// The slots of each node, if any option gives them.
    fn slots(&self) -> Option<Vec<u32>> {
        let each = self.mapping.per_node.or(self.ranks_per_node);
        if let Some(hosts) = &self.hosts {
            let slots = hosts.iter().map(|host| each.unwrap_or(host.slots));
            return Some(slots.collect());
        }
        let nodes = self.nodes?;
        Some(vec![each.unwrap_or(1); nodes as usize])
    }

    /// The node of each rank of a rankfile, and the slots of each node.
    fn listed(&self, names: &[String]) -> Result<(Vec<u32>, Vec<u32>), RequestError> {
        let mut hosts: Vec<&str> = match &self.hosts {
            Some(hosts) => hosts.iter().map(|host| host.name.as_str()).collect(),
            None => Vec::new(),
        };
        let known = self.slots();
        let mut list = Vec::new();
        for (rank, name) in (0..).zip(names) {
            let by_number = name
                .strip_prefix("+n")
                .and_then(|number| number.parse().ok());
            let by_name = hosts.iter().position(|host| *host == name);
            let room = known.as_ref().map_or(MOST_NODES as usize, Vec::len);
            let is_new = self.hosts.is_none() && by_number.is_none() && hosts.len() < room;
            let at = match by_number.or(by_name) {
                Some(at) if at < room => at,
                None if is_new => {
                    hosts.push(name);
                    hosts.len() - 1
                }
                _ => {
                    let host = name.clone();
                    return Err(RequestError::NoHost { rank, host });
                }
            };
            list.push(u32::try_from(at).unwrap_or(u32::MAX));
        }
        let nodes = list.iter().max().map_or(1, |most| most.saturating_add(1));
        Ok((list, known.unwrap_or_else(|| vec![1; nodes as usize])))
    }
}

/// Maximum number of nodes of a run.
const MOST_NODES: u32 = 4096;

/// The layout for `parts`, and the ranks of each.
///
/// # Errors
/// If the ranks do not fit, or their number is unknown.
pub fn layout(
    parts: &[ProgramRequest],
    wishes: &Wishes,
) -> Result<(SlotLayout, Vec<u32>), RequestError> {
    let listed = wishes.rank_hosts.as_ref().map(|names| wishes.listed(names));
    let listed = listed.transpose()?;
    let slots = wishes.slots();
    let sum = |slots: &Vec<u32>| {
        slots
            .iter()
            .fold(0, |sum: u32, more| sum.saturating_add(*more))
    };
    let ranks: Option<Vec<u32>> = match (parts, &listed, &slots) {
        ([alone], Some((list, _)), _) => Some(vec![alone.ranks.unwrap_or(list.len() as u32)]),
        // As Open MPI does: all slots.
        ([alone], None, Some(slots)) => Some(vec![alone.ranks.unwrap_or_else(|| sum(slots))]),
        _ => parts.iter().map(|part| part.ranks).collect(),
    };
    let ranks = ranks.ok_or(RequestError::HowMany)?;
    let all = sum(&ranks);
    // Of a list of hosts only the first are used, of a rankfile all.
    let listed = listed.map(|(mut list, slots)| {
        if wishes.mapping.sequential {
            list.truncate(all as usize);
        }
        (list, slots)
    });
    let layout = match listed {
        Some((list, _)) if list.len() as u64 != u64::from(all) => {
            let named = list.len() as u32;
            return Err(RequestError::RankCount { ranks: all, named });
        }
        Some((list, slots)) => placement::listed(&list, &slots)?,
        None => {
            let each = wishes
                .mapping
                .per_node
                .or(wishes.ranks_per_node)
                .unwrap_or(1);
            let least = || vec![each; all.div_ceil(each) as usize];
            placement::placed(all, &slots.unwrap_or_else(least), &wishes.mapping)?
        }
    };
    match parts.len() > 1 && layout.placement != Placement::Slots {
        true => Err(RequestError::OneProgram),
        false => Ok((layout, ranks)),
    }
}

/// Bandwidth and latency in either order; each may be absent.
///
/// # Errors
/// If a word is neither.
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
