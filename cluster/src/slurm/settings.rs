//! Files of Slurm's configuration, as the run disk has them.
//!
//! Called by [`run_disk`](crate::plan::nodes::run_disk). Keys are those of slurm.conf(5) and cgroup.conf(5) of Slurm 22.05.

use super::{SETTINGS, SlurmPlan};
use crate::plan::NodeKind;

const MIB: u64 = 1 << 20;

/// The key by which munge authenticates messages between the daemons of a run; no other host reaches them.
const MUNGE_KEY: &[u8] = b"This key joins the munge daemons of one run. It is no secret, as nobody but the nodes of the run can reach them, and they trust it.";

/// The files by name, and whether each is executable; `command` is the workload's script.
pub(crate) fn files(
    plan: &SlurmPlan,
    kinds: &[NodeKind],
    command: &str,
) -> Vec<(&'static str, bool, Vec<u8>)> {
    vec![
        ("start", true, include_bytes!("start.sh").to_vec()),
        ("submit", true, include_bytes!("submit.sh").to_vec()),
        ("begin", true, include_bytes!("task.sh").to_vec()),
        ("end", true, include_bytes!("task.sh").to_vec()),
        ("command", true, command.as_bytes().to_vec()),
        ("slurm.conf", false, slurm_conf(plan, kinds).into_bytes()),
        ("cgroup.conf", false, CGROUP_CONF.as_bytes().to_vec()),
        ("munge.key", false, MUNGE_KEY.to_vec()),
    ]
}

/// Nodes have no hierarchy of control groups; slurmd starts with this plugin if no setting requires one.
const CGROUP_CONF: &str = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n";

/// Slurm's own settings.
fn slurm_conf(plan: &SlurmPlan, kinds: &[NodeKind]) -> String {
    let mut text = include_str!("slurm.conf").to_owned();
    text.push_str(&format!("MpiDefault={}\n", plan.mpi));
    // Tasks are bound to cores if each has one.
    let is_crowded = kinds.iter().any(|kind| kind.ranks > kind.vcpus);
    let binding = if is_crowded { "none" } else { "affinity" };
    text.push_str(&format!("TaskPlugin=task/{binding}\n"));
    if kinds.iter().map(|kind| kind.count).sum::<u32>() > 1 {
        text.push_str(&format!(
            "TaskProlog={SETTINGS}/begin\nTaskEpilog={SETTINGS}/end\n"
        ));
    }
    if !plan.licenses.is_empty() {
        text.push_str(&format!("Licenses={}\n", plan.licenses.join(",")));
    }
    text.push_str(&node_lines(kinds, &plan.features));
    for (number, name) in plan.partitions.iter().enumerate() {
        let default = if number == 0 { " Default=YES" } else { "" };
        text.push_str(&format!(
            "PartitionName={name} Nodes=ALL{default} MaxTime=INFINITE State=UP\n"
        ));
    }
    text
}

/// A line for the nodes of each kind. A node has as many cores as processors, or as tasks if these are more.
fn node_lines(kinds: &[NodeKind], features: &[String]) -> String {
    let features = match features {
        [] => String::new(),
        names => format!(" Feature={}", names.join(",")),
    };
    let line = |kind: &NodeKind| {
        format!(
            "NodeName={} CPUs={cores} Boards=1 SocketsPerBoard=1 CoresPerSocket={cores} ThreadsPerCore=1 RealMemory={}{features} State=UNKNOWN\n",
            names(kind),
            kind.memory / MIB,
            cores = kind.vcpus.max(kind.ranks)
        )
    };
    kinds.iter().map(line).collect()
}

/// The names of the nodes of a kind, as Slurm writes them.
fn names(kind: &NodeKind) -> String {
    match kind.count {
        1 => format!("node{}", kind.first),
        count => format!("node[{}-{}]", kind.first, kind.first + count - 1),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::kinds;
    use crate::scenario::Scenario;

    #[test]
    fn nodes_of_slurm_are_those_of_the_scenario() {
        let text = "name = \"x\"\nimage = { recipe = \"r\" }\nworkload = { command = \"\" }\nnodes = { memory = \"1 GiB\", clock = \"1 GHz\", \
                    group = [{ count = 3, vcpus = 4 }, { count = 1, memory = \"2 GiB\" }] }\n";
        let scenario = Scenario::parse(Path::new("x.toml"), text, &[]).unwrap();
        let lines = node_lines(
            &kinds::resolve(&scenario, Path::new(".")).unwrap(),
            &["ib".to_owned()],
        );
        let core = |names: &str, cores: u32, memory: u32| {
            format!(
                "NodeName={names} CPUs={cores} Boards=1 SocketsPerBoard=1 CoresPerSocket={cores} ThreadsPerCore=1 RealMemory={memory} Feature=ib State=UNKNOWN\n"
            )
        };
        assert_eq!(lines, core("node[0-2]", 4, 1024) + &core("node3", 1, 2048));
    }
}
