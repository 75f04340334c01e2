//! Host files, machine files, lists of hosts and rankfiles, as MPICH, Open MPI and batch systems write them.
//!
//! A host that is named several times has the slots of all its lines: a machine file names a host once for each slot.
//! Called by `belljar mpirun`, and by `replay`, `place` and `run` for files with the hosts of a network.

use super::RequestError;

/// Maximum number of slots of one host.
const MOST_SLOTS: u32 = 1024;

/// A host with its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSlots {
    /// Its name.
    pub name: String,
    /// Ranks that it may have.
    pub slots: u32,
    /// Its first line in a file, from 1.
    pub line: Option<usize>,
}

/// Returns the hosts of a host file, in the order of its lines, each line by itself.
///
/// # Errors
/// If a line is invalid, or the file has no host.
pub fn host_lines(text: &str) -> Result<Vec<HostSlots>, RequestError> {
    let mut hosts = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let host = host_line(line).ok_or_else(|| RequestError::HostFile {
            line: index + 1,
            text: line.to_owned(),
        })?;
        hosts.push(HostSlots {
            line: Some(index + 1),
            ..host
        });
    }
    match hosts.is_empty() {
        true => Err(RequestError::NoHosts),
        false => Ok(hosts),
    }
}

/// Returns the hosts of a host file, each once, in the order of their first lines.
///
/// # Errors
/// If a line is invalid, or the file has no host.
pub fn host_file(text: &str) -> Result<Vec<HostSlots>, RequestError> {
    merged(host_lines(text)?)
}

/// Returns the hosts of a list such as `a,b:2,a`, each once, in the order of their first names.
///
/// # Errors
/// If a name is invalid.
pub fn host_list(lists: &[String]) -> Result<Vec<HostSlots>, RequestError> {
    let mut hosts = Vec::new();
    for list in lists {
        for word in list.split(',').map(str::trim) {
            let host = named(word).ok_or_else(|| RequestError::Host(word.to_owned()))?;
            hosts.push(host);
        }
    }
    merged(hosts)
}

/// Adds up the slots of hosts with the same name.
fn merged(hosts: Vec<HostSlots>) -> Result<Vec<HostSlots>, RequestError> {
    let mut places = std::collections::BTreeMap::new();
    let mut all: Vec<HostSlots> = Vec::new();
    for host in hosts {
        let at = *places.entry(host.name.clone()).or_insert(all.len());
        match all.get_mut(at) {
            Some(known) => known.slots = known.slots.saturating_add(host.slots),
            None => all.push(host),
        }
    }
    match all.iter().find(|host| host.slots > MOST_SLOTS) {
        Some(host) => Err(RequestError::Slots {
            host: host.name.clone(),
            slots: host.slots,
        }),
        None => Ok(all),
    }
}

/// A line: `NAME`, `NAME:K`, `NAME slots=K max_slots=M`, with or without blanks around `=`.
fn host_line(line: &str) -> Option<HostSlots> {
    // One word for each assignment.
    let mut joined = line.to_owned();
    while let Some(at) = joined.find(" =").or_else(|| joined.find("\t=")) {
        joined.remove(at);
    }
    while let Some(at) = joined.find("= ").or_else(|| joined.find("=\t")) {
        joined.remove(at + 1);
    }
    let mut words = joined.split_whitespace();
    let mut host = named(words.next()?)?;
    for word in words {
        let (key, value) = word.split_once('=')?;
        match key {
            "slots" | "slot" | "cpus" | "cpu" | "count" => host.slots = number(value)?,
            "max_slots" | "max-slots" | "slots_max" | "slots-max" => {
                number(value)?;
            }
            // Access to the host, without a meaning on nodes.
            "user" | "username" | "user_name" | "user-name" | "port" | "ifname" => {}
            _ => return None,
        }
    }
    Some(host)
}

/// A host with the slots after its name, one without.
fn named(word: &str) -> Option<HostSlots> {
    let (name, slots) = match word.split_once(':') {
        Some((name, slots)) => (name, number(slots)?),
        None => (word, 1),
    };
    let name = name.rsplit_once('@').map_or(name, |(_, name)| name);
    let is_plain = !name.is_empty() && !name.contains(['=', ' ', '\t', '"', '^']);
    is_plain.then(|| HostSlots {
        name: name.to_owned(),
        slots,
        line: None,
    })
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|&number| number > 0)
}

/// Returns the host of each rank that a rankfile names (`rank 3=node1 slot=0`), by rank. A host may be `+nK`, host number K
/// of the run.
///
/// # Errors
/// If a line is invalid, or a rank is missing or named twice.
pub fn rank_file(text: &str) -> Result<Vec<String>, RequestError> {
    let mut ranks = std::collections::BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let known = rank_line(line).filter(|(rank, _)| !ranks.contains_key(rank));
        let (rank, host) = known.ok_or_else(|| RequestError::RankFile {
            line: index + 1,
            text: line.to_owned(),
        })?;
        ranks.insert(rank, host);
    }
    let absent = (0..).zip(ranks.keys()).find(|(rank, named)| rank != *named);
    match (absent, ranks.is_empty()) {
        (Some((rank, _)), _) => Err(RequestError::NoRank(rank)),
        (None, true) => Err(RequestError::NoRank(0)),
        (None, false) => Ok(ranks.into_values().collect()),
    }
}

fn rank_line(line: &str) -> Option<(u32, String)> {
    let (rank, place) = line.strip_prefix("rank")?.split_once('=')?;
    let mut words = place.split_whitespace();
    let host = words.next()?;
    let known = |word: &str| ["slot", "slots"].iter().any(|key| word.starts_with(key));
    // Processors of a node are ignored, as ranks are not bound to them.
    let rest: Vec<&str> = words.collect();
    let fits = rest.first().is_none_or(|word| known(word)) && !host.contains(['=', ':']);
    fits.then_some((rank.trim().parse().ok()?, host.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<(String, u32)>, RequestError> {
        let pair = |host: HostSlots| (host.name, host.slots);
        host_file(text).map(|hosts| hosts.into_iter().map(pair).collect())
    }

    fn pairs(expected: &[(&str, u32)]) -> Vec<(String, u32)> {
        let pair = |(name, slots): &(&str, u32)| ((*name).to_owned(), *slots);
        expected.iter().map(pair).collect()
    }

    #[test]
    fn host_files_of_both_implementations_are_read() {
        for (text, expected) in [
            (
                "# mine\na\nb # second\n\nc\n",
                &[("a", 1), ("b", 1), ("c", 1)][..],
            ),
            ("a:4\nb:4\n", &[("a", 4), ("b", 4)]),
            (
                "a slots=4 max_slots=8\r\nb slots=2\n",
                &[("a", 4), ("b", 2)],
            ),
            (
                "a slots = 2\nb\tslots =3  max-slots\t=\t4\n",
                &[("a", 2), ("b", 3)],
            ),
            ("me@a cpus=2\n", &[("a", 2)]),
        ] {
            assert_eq!(of(text), Ok(pairs(expected)), "{text:?}");
        }
        assert_eq!(of("\n# none\n"), Err(RequestError::NoHosts));
        for wrong in [
            "a:x",
            ":2",
            "a slots",
            "a slots=0",
            "a b",
            "a slots=",
            "= 2",
            "a =2",
            "a slots=2 = 3",
            "a slots=-1",
            "a:2:3",
            "a slots=99999999999",
            "^a",
        ] {
            assert!(
                matches!(of(wrong), Err(RequestError::HostFile { line: 1, .. })),
                "{wrong}: {:?}",
                of(wrong)
            );
        }
        assert!(matches!(
            of("a slots=2000"),
            Err(RequestError::Slots { slots: 2000, .. })
        ));
    }

    #[test]
    fn a_host_that_is_named_again_has_more_slots() {
        let twice = "r1n07\nr1n07\nr1n08\nr1n08\n";
        assert_eq!(of(twice), Ok(pairs(&[("r1n07", 2), ("r1n08", 2)])));
        assert_eq!(of("a\nb\na\n"), Ok(pairs(&[("a", 2), ("b", 1)])));
        assert_eq!(of("a:2\nb\na slots=3\n"), Ok(pairs(&[("a", 5), ("b", 1)])));
        let list = host_list(&["a,b:2".to_owned(), "a".to_owned()]).unwrap();
        let list: Vec<_> = list
            .into_iter()
            .map(|host| (host.name, host.slots))
            .collect();
        assert_eq!(list, pairs(&[("a", 2), ("b", 2)]));
        for wrong in ["a,,b", "", "a:0", "a:x"] {
            let error = host_list(&[wrong.to_owned()]);
            assert!(matches!(error, Err(RequestError::Host(_))), "{wrong}");
        }
    }

    #[test]
    fn rankfiles_name_a_host_for_each_rank() {
        let of = |text| rank_file(text);
        assert_eq!(
            of("rank 1=b slot=0\nrank 0 = a slot=1:0-2\n").unwrap(),
            ["a", "b"]
        );
        assert_eq!(of("rank 0=+n1 slot=*\n").unwrap(), ["+n1"]);
        assert_eq!(of("rank 1=a slot=0\n"), Err(RequestError::NoRank(0)));
        assert_eq!(of(""), Err(RequestError::NoRank(0)));
        for wrong in [
            "rank x=a",
            "0=a",
            "rank 0=",
            "rank 0=a b",
            "rank 0=a\nrank 0=b",
        ] {
            assert!(
                matches!(of(wrong), Err(RequestError::RankFile { .. })),
                "{wrong}"
            );
        }
    }
}
