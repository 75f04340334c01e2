//! The disk that brings the workload to the nodes.
//!
//! A tar archive, the same on every node of an image and byte for byte the same in every run of a plan: it has no
//! host's date, user or order in it. Called by [`SharedParts`](crate::plan::nodes::parts); the image's init unpacks it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::net::Ipv4Addr;
use std::path::Path;

use belljar_fabric::Mac;

use crate::plan::infiniband::drivers;
use crate::plan::{ImagePlan, Plan};
use crate::scenario::Arp;
use crate::scripts::COMMANDS;
use crate::shared_folder;
use crate::slurm;

/// Node 0's address; the others' follow.
pub(crate) const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// The host file in Open MPI's form; `hosts` has MPICH's.
pub(crate) const OPEN_MPI_HOSTS: &str = "hosts.openmpi";

/// Folder of the run disk with drivers of InfiniBand cards; the image's init loads them.
const DRIVERS_FOLDER: &str = "infiniband";

/// Folder on nodes of the libraries of an older glibc.
pub(crate) const FORMER_PARTS_FOLDER: &str = "/run/belljar/glibc";

/// The archive for nodes of `plan` with `image`, padded to whole disk sectors.
///
/// # Errors
/// If a name is too long for an archive.
pub fn build(plan: &Plan, image: &ImagePlan) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let (command, variables) = (script(&plan.command), exports(&image.environment));
    let share = match plan.shared_folder {
        true => shared_folder::CALL,
        false => "",
    };
    let first = |next: &str| format!("#!/bin/sh\n{variables}{share}exec {next}\n");
    add_parts_of_image(&mut archive, plan, image)?;
    if let Some(own) = &plan.slurm {
        let start = first(&format!("{}/start", slurm::SETTINGS));
        add(&mut archive, "command", 0o755, start.as_bytes())?;
        for (name, is_program, content) in slurm::files(own, plan.kinds(), &command) {
            let mode = if is_program { 0o755 } else { 0o644 };
            add(
                &mut archive,
                &format!("{}/{name}", slurm::FOLDER),
                mode,
                &content,
            )?;
        }
    } else if variables.is_empty() && share.is_empty() {
        add(&mut archive, "command", 0o755, command.as_bytes())?;
    } else {
        let start = first("/run/belljar/workload");
        add(&mut archive, "command", 0o755, start.as_bytes())?;
        add(&mut archive, "workload", 0o755, command.as_bytes())?;
    }
    let environment = environment(plan.nodes, &image.launchers, &image.environment);
    add(&mut archive, "env", 0o644, environment.as_bytes())?;
    let ranks = |node| plan.kind_of(node).ranks;
    let hosts = |slots| host_file((0..plan.nodes).map(ranks), slots);
    add(&mut archive, "hosts", 0o644, hosts(":").as_bytes())?;
    if !image.launchers.is_empty() {
        let hosts = hosts(" slots=");
        add(&mut archive, OPEN_MPI_HOSTS, 0o644, hosts.as_bytes())?;
    }
    let has_ipoib = plan.infiniband.as_ref().is_some_and(|cards| cards.ipoib);
    let names = names(plan.nodes, has_ipoib);
    add(&mut archive, "names", 0o644, names.as_bytes())?;
    for (name, script) in COMMANDS {
        if image.commands.contains(&name) {
            add(
                &mut archive,
                &format!("bin/{name}"),
                0o755,
                script.as_bytes(),
            )?;
        }
    }
    for name in &image.former_parts {
        let part = belljar_guest_lib::FORMER_PART;
        add(&mut archive, &format!("glibc/{name}"), 0o755, part)?;
    }
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
    if let Some(secure_shell) = &image.secure_shell {
        for (name, mode, text) in secure_shell.files()? {
            add(&mut archive, &name, mode, text.as_bytes())?;
        }
    }
    for (name, content) in &plan.files {
        add(&mut archive, &format!("files/{name}"), 0o755, content)?;
    }
    archive.into_inner()
}

/// Adds the image's kernel modules that the plan needs.
fn add_parts_of_image(
    archive: &mut tar::Builder<Vec<u8>>,
    plan: &Plan,
    image: &ImagePlan,
) -> io::Result<()> {
    if plan.shared_folder {
        add_shared_folder(archive, image)?;
    }
    let cards = plan.infiniband.as_ref();
    let Some((cards, drivers)) = cards.zip(image.image.infiniband.as_deref()) else {
        return Ok(());
    };
    for (name, content) in drivers::files(drivers, cards.ipoib)? {
        let name = format!("{DRIVERS_FOLDER}/{name}");
        add(archive, &name, 0o644, &content)?;
    }
    Ok(())
}

/// Adds NFS's modules and the script that loads them.
fn add_shared_folder(archive: &mut tar::Builder<Vec<u8>>, image: &ImagePlan) -> io::Result<()> {
    let script = format!("{}/start", shared_folder::FOLDER);
    add(archive, &script, 0o755, shared_folder::START.as_bytes())?;
    add_modules(archive, image.image.nfs.as_deref(), shared_folder::FOLDER)
}

/// Adds the files of an image's archive of kernel modules, in a folder.
fn add_modules(
    archive: &mut tar::Builder<Vec<u8>>,
    modules: Option<&Path>,
    folder: &str,
) -> io::Result<()> {
    let Some(modules) = modules else {
        return Ok(());
    };
    let mut modules = tar::Archive::new(File::open(modules)?);
    for entry in modules.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.display().to_string();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        let name = format!("{folder}/{name}");
        add(archive, &name, 0o644, &content)?;
    }
    Ok(())
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

/// A command that is no script becomes a shell script.
fn script(command: &str) -> String {
    if command.starts_with("#!") {
        command.to_owned()
    } else {
        format!("#!/bin/sh\n{command}\n")
    }
}

/// The workload's environment: the launchers' variables, overridden by the scenario's `own`.
fn environment(
    nodes: u32,
    launchers: &BTreeMap<String, String>,
    own: &BTreeMap<String, String>,
) -> String {
    let mut lines = format!("BELLJAR_NODES={nodes}\n");
    let preset = launchers.iter();
    let preset = preset.filter(|(name, _)| !own.contains_key(*name));
    let of_one_line = |(_, value): &(&String, &String)| !value.contains('\n');
    for (name, value) in preset.chain(own).filter(of_one_line) {
        lines.push_str(&format!("{name}={value}\n"));
    }
    lines
}

/// Shell lines for variables with values of several lines, which init does not read.
fn exports(environment: &BTreeMap<String, String>) -> String {
    let several = environment.iter().filter(|(_, value)| value.contains('\n'));
    let line = |(name, value): (&String, &String)| {
        format!("export {name}='{}'\n", value.replace('\'', "'\\''"))
    };
    several.map(line).collect()
}

/// For each node a line of `/etc/hosts`, and one of its interface of IP over InfiniBand; guests would take long to generate thousands.
fn names(nodes: u32, has_ipoib: bool) -> String {
    let mut lines = "127.0.0.1 localhost\n".to_owned();
    for node in 0..nodes {
        lines.push_str(&format!("{} node{node}\n", address(node)));
    }
    for node in (0..nodes).filter(|_| has_ipoib) {
        lines.push_str(&format!("{} node{node}-ib0\n", drivers::address(node)));
    }
    lines
}

/// For each node a line of its network and hardware addresses.
fn neighbours(nodes: u32) -> String {
    let line = |node| format!("{} {}\n", address(node), Mac::of_host(node));
    (0..nodes).map(line).collect()
}

fn address(node: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(FIRST_ADDRESS) + node)
}

/// For each node a line with its number of ranks, `slots` between name and number.
fn host_file(ranks: impl Iterator<Item = u32>, slots: &str) -> String {
    let line = |(node, ranks)| format!("node{node}{slots}{ranks}\n");
    (0_u32..).zip(ranks).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scenario_sets_holds() {
        let of = |pairs: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            pairs.iter().map(pair).collect()
        };
        let preset = of(&[("OMPI_MCA_btl", "tcp,self"), ("OMPI_MCA_pml", "ob1")]);
        let own = of(&[("A", "it's\n2"), ("OMPI_MCA_btl", "self")]);
        assert_eq!(
            environment(3, &preset, &own),
            "BELLJAR_NODES=3\nOMPI_MCA_pml=ob1\nOMPI_MCA_btl=self\n"
        );
        assert_eq!(exports(&own), "export A='it'\\''s\n2'\n");
        assert_eq!(exports(&preset), "");
    }

    #[test]
    fn host_files_have_slots() {
        assert_eq!(host_file([1, 1].into_iter(), ":"), "node0:1\nnode1:1\n");
        let hosts = host_file([4, 1].into_iter(), " slots=");
        assert_eq!(hosts, "node0 slots=4\nnode1 slots=1\n");
    }
}
