//! The hosts of a scenario, before any of them is contacted.
//!
//! This host comes first, with or without nodes, and no host is in the list twice. Of a Slurm job's hosts
//! no more is used than was granted. Called by `muster` and by `belljar check`'s placement.

use std::collections::BTreeSet;
use std::thread;

use belljar_launch::{AllocatedHost, Allocation, AllocationError, JobId};

use super::placement::Capacity;
use crate::host::memory as host_memory;
use crate::scenario::{Hosts, LaunchKind};

/// Errors of the list of hosts.
#[derive(Debug, thiserror::Error)]
pub enum HostListError {
    /// Slurm's description of the job is invalid.
    #[error(transparent)]
    Allocation(#[from] AllocationError),
    /// The scenario's `hosts` are invalid.
    #[error("hosts: {0}")]
    Hosts(&'static str),
    /// A host is listed twice.
    #[error("hosts.list names {0} twice; name every host once")]
    Twice(String),
    /// Nodes are placed on a host, but there are no hosts.
    #[error(
        "hosts.place has {0}, and there are no hosts: name them by hosts.list or --hosts, run in a Slurm job, or take --launch alone"
    )]
    NoHosts(String),
}

/// Methods to start agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartMethod {
    /// As processes on this host.
    Local,
    /// By ssh.
    Ssh,
    /// As steps of this job.
    Slurm(JobId),
}

/// The hosts of a run, this one first.
#[derive(Debug)]
pub(super) struct HostList {
    way: StartMethod,
    /// This host first, with or without nodes.
    names: Vec<String>,
    takes_part: bool,
    /// Resources granted by Slurm.
    promised: Vec<AllocatedHost>,
}

impl HostList {
    /// The hosts that `hosts` requests; `None` if only this one is.
    pub(super) fn of(hosts: &Hosts) -> Result<Option<Self>, HostListError> {
        Self::with(hosts, Allocation::from_environment(), own_name())
    }

    fn with(
        hosts: &Hosts,
        allocation: Option<Result<Allocation, AllocationError>>,
        own: String,
    ) -> Result<Option<Self>, HostListError> {
        if let Some(twice) = twice(&hosts.list) {
            return Err(HostListError::Twice(twice.to_owned()));
        }
        let listed = |way| Self::new(way, hosts.list.clone(), own.clone());
        Ok(match (hosts.launch, allocation) {
            (LaunchKind::Alone, _) => None,
            (LaunchKind::Slurm, None) => {
                return Err(HostListError::Hosts(
                    "launch = \"slurm\" needs a job: run under salloc or sbatch, or use belljar submit",
                ));
            }
            (LaunchKind::Slurm, Some(allocation)) => Self::promised(allocation?, own),
            (LaunchKind::Auto, Some(allocation)) if hosts.list.is_empty() => {
                Self::promised(allocation?, own)
            }
            (LaunchKind::Auto, _) if hosts.list.is_empty() => {
                if let Some(host) = hosts.place.keys().next() {
                    return Err(HostListError::NoHosts(host.clone()));
                }
                None
            }
            (_, _) if hosts.list.is_empty() => {
                return Err(HostListError::Hosts("list names no host"));
            }
            (LaunchKind::Local, _) => listed(StartMethod::Local),
            (LaunchKind::Ssh | LaunchKind::Auto, _) => listed(StartMethod::Ssh),
        })
    }

    fn promised(allocation: Allocation, own: String) -> Option<Self> {
        let names = allocation.hosts.iter().map(|host| host.name.clone());
        let list = Self::new(StartMethod::Slurm(allocation.job), names.collect(), own)?;
        Some(Self {
            promised: allocation.hosts,
            ..list
        })
    }

    fn new(way: StartMethod, mut names: Vec<String>, own: String) -> Option<Self> {
        let is_this = |name: &String| {
            let host = host_part(name);
            host == own || host == "localhost" || own.split('.').next() == Some(host)
        };
        // With processes on this host, the first name is this process.
        let this = match way {
            StartMethod::Local => Some(0),
            _ => names.iter().position(is_this),
        };
        let first = this.map_or(own, |this| names.remove(this));
        if names.is_empty() && this.is_some() {
            return None;
        }
        names.insert(0, first);
        Some(Self {
            way,
            names,
            takes_part: this.is_some(),
            promised: Vec::new(),
        })
    }

    pub(super) fn way(&self) -> StartMethod {
        self.way
    }

    /// Their names; this host first, with or without nodes.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// True if this host runs nodes, too.
    pub(super) fn takes_part(&self) -> bool {
        self.takes_part
    }

    /// Addresses of agents: host names without ports.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &str> {
        let address = |name| match self.way {
            StartMethod::Local => "localhost",
            _ => host_part(name),
        };
        self.names.iter().map(move |name| address(name))
    }

    /// The usable part of a host's `capacity`: at most the job's grant, even if Slurm does not enforce it.
    pub(super) fn granted(&self, capacity: Capacity) -> Capacity {
        let mut promised = self.promised.iter();
        let Some(promised) = promised.find(|host| host.name == capacity.name) else {
            return capacity;
        };
        let memory = capacity.memory.into_iter().chain(promised.memory).min();
        Capacity {
            processors: capacity.processors.min(promised.cpus.max(1)),
            memory,
            ..capacity
        }
    }

    /// The expected capacities of the hosts that run nodes, and whether they are known without contacting
    /// the hosts. Unknown hosts are assumed to be equal.
    pub(super) fn expected(&self) -> (Vec<Capacity>, bool) {
        let known = self.way == StartMethod::Local || !self.promised.is_empty();
        let alike = |name: &String| Capacity {
            name: name.clone(),
            processors: u32::MAX,
            memory: None,
        };
        let one = |name: &String| match self.way {
            StartMethod::Local => own_capacity(name),
            _ => self.granted(alike(name)),
        };
        let first = usize::from(!self.takes_part);
        (self.names[first..].iter().map(one).collect(), known)
    }
}

/// `user@host:port` without user and port.
fn host_part(name: &str) -> &str {
    let host = name.rsplit_once('@').map_or(name, |(_, host)| host);
    host.split_once(':').map_or(host, |(host, _)| host)
}

/// The first name that is in the list twice.
fn twice(names: &[String]) -> Option<&str> {
    let mut seen = BTreeSet::new();
    let mut again = names.iter().filter(|name| !seen.insert(*name));
    again.next().map(String::as_str)
}

fn own_name() -> String {
    let name = nix::unistd::gethostname().ok();
    name.and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "this host".to_owned())
}

/// The capacity of this host.
pub(super) fn own_capacity(name: &str) -> Capacity {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    Capacity {
        name: name.to_owned(),
        processors: processors as u32,
        memory: host_memory::available(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    fn hosts(launch: LaunchKind, list: &[&str]) -> Hosts {
        Hosts {
            launch,
            list: names(list),
            ..Hosts::default()
        }
    }

    fn allocation() -> Allocation {
        let host = |name: &str, cpus, memory| AllocatedHost {
            name: name.to_owned(),
            cpus,
            memory,
        };
        Allocation {
            job: JobId { id: 7, array: None },
            hosts: vec![host("a", 2, None), host("b", 8, Some(1 << 30))],
        }
    }

    #[test]
    fn this_host_comes_first_and_alone_is_no_list() {
        let list = |list: &[&str]| {
            HostList::with(&hosts(LaunchKind::Ssh, list), None, "b.here".to_owned()).unwrap()
        };
        let apart = list(&["root@a:22", "c"]).unwrap();
        assert_eq!(apart.names(), names(&["b.here", "root@a:22", "c"]));
        assert!(!apart.takes_part());
        assert_eq!(apart.addresses().nth(1), Some("a"));
        let among = list(&["a", "b", "c"]).unwrap();
        assert_eq!(among.names(), names(&["b", "a", "c"]));
        assert!(among.takes_part());
        assert!(list(&["b"]).is_none());
        let empty = HostList::with(&hosts(LaunchKind::Ssh, &[]), None, String::new());
        assert!(matches!(empty, Err(HostListError::Hosts(_))));
    }

    #[test]
    fn a_host_is_named_once_and_places_need_hosts() {
        let of = |hosts: &Hosts| HostList::with(hosts, None, "own".to_owned());
        let twice = of(&hosts(LaunchKind::Local, &["a", "b", "a"])).unwrap_err();
        assert!(twice.to_string().contains("hosts.list names a twice"));
        let mut placed = hosts(LaunchKind::Auto, &[]);
        placed.place.insert("a".to_owned(), "0-3".to_owned());
        let refused = of(&placed).unwrap_err().to_string();
        assert!(refused.contains("hosts.place has a"), "{refused}");
        placed.launch = LaunchKind::Alone;
        assert!(of(&placed).unwrap().is_none());
    }

    #[test]
    fn a_job_limits_what_is_taken_of_its_hosts() {
        let auto = hosts(LaunchKind::Auto, &[]);
        let list = HostList::with(&auto, Some(Ok(allocation())), "a".to_owned());
        let list = list.unwrap().unwrap();
        let have = |name: &str| Capacity {
            name: name.to_owned(),
            processors: 4,
            memory: Some(4 << 30),
        };
        let granted = |name| list.granted(have(name));
        assert_eq!((granted("a").processors, granted("b").processors), (2, 4));
        assert_eq!(granted("a").memory, Some(4 << 30));
        assert_eq!(granted("b").memory, Some(1 << 30));
        assert_eq!(list.granted(have("c")), have("c"));
        let (expected, known) = list.expected();
        assert!(known);
        let processors: Vec<u32> = expected.iter().map(|host| host.processors).collect();
        assert_eq!(processors, [2, 8]);
    }
}
