//! The disk by which a run hands its nodes the workload: a tar archive, the same
//! on every node and byte for byte the same in every run.

use std::io;
use std::net::Ipv4Addr;

use belljar_fabric::Mac;

use crate::plan::Plan;
use crate::scenario::Arp;

/// Node 0's address; the others' follow.
pub(crate) const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// The host file in the form of Open MPI; `hosts` is in that of MPICH.
pub(crate) const OPEN_MPI_HOSTS: &str = "hosts.openmpi";

/// The archive for `plan`, padded to whole disk sectors.
///
/// # Errors
/// When a name is longer than an archive can hold.
pub fn build(plan: &Plan) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    add(
        &mut archive,
        "command",
        0o755,
        script(&plan.command).as_bytes(),
    )?;
    add(&mut archive, "env", 0o644, environment(plan).as_bytes())?;
    let hosts = host_file(plan, ":");
    add(&mut archive, "hosts", 0o644, hosts.as_bytes())?;
    if !plan.open_mpi.is_empty() {
        let hosts = host_file(plan, " slots=");
        add(&mut archive, OPEN_MPI_HOSTS, 0o644, hosts.as_bytes())?;
    }
    add(&mut archive, "names", 0o644, names(plan.nodes).as_bytes())?;
    if plan.arp == Arp::Static {
        let lines = neighbours(plan.nodes);
        add(&mut archive, "neighbours", 0o644, lines.as_bytes())?;
    }
    if plan.preloads_library() {
        add(
            &mut archive,
            "preload.so",
            0o755,
            belljar_guest_lib::PRELOAD,
        )?;
    }
    for (name, content) in &plan.files {
        add(&mut archive, &format!("files/{name}"), 0o755, content)?;
    }
    archive.into_inner()
}

fn add(
    archive: &mut tar::Builder<Vec<u8>>,
    name: &str,
    mode: u32,
    content: &[u8],
) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_entry_type(tar::EntryType::Regular);
    archive.append_data(&mut header, name, content)
}

/// A command that is no script already becomes one, of the shell's.
fn script(command: &str) -> String {
    if command.starts_with("#!") {
        command.to_owned()
    } else {
        format!("#!/bin/sh\n{command}\n")
    }
}

/// The workload's environment; what the scenario says comes after what Open MPI needs, and holds.
fn environment(plan: &Plan) -> String {
    let mut lines = format!("BELLJAR_NODES={}\n", plan.nodes);
    let own = &plan.environment;
    let preset = plan.open_mpi.iter();
    let preset = preset.filter(|(name, _)| !own.contains_key(*name));
    for (name, value) in preset.chain(own) {
        lines.push_str(&format!("{name}={}\n", value.replace('\n', " ")));
    }
    lines
}

/// For each node a line of `/etc/hosts`; guests would take long to write thousands.
fn names(nodes: u32) -> String {
    let mut lines = "127.0.0.1 localhost\n".to_owned();
    for node in 0..nodes {
        lines.push_str(&format!("{} node{node}\n", address(node)));
    }
    lines
}

/// For each node a line of its addresses, the network's and the network card's.
fn neighbours(nodes: u32) -> String {
    let line = |node| format!("{} {}\n", address(node), Mac::of_host(node));
    (0..nodes).map(line).collect()
}

fn address(node: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(FIRST_ADDRESS) + node)
}

/// For each node a line of how many ranks it may have, `slots` between name and number.
fn host_file(plan: &Plan, slots: &str) -> String {
    let ranks = plan.ranks_per_node;
    let line = |node| format!("node{node}{slots}{ranks}\n");
    (0..plan.nodes).map(line).collect()
}
