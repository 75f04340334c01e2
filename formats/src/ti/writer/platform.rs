//! The network, and the hosts of ranks.
//!
//! A platform file of SimGrid has hosts, switches and links like the network of a run; routes are the shortest ones. A switch's latency
//! is assigned to the links on its sides. It has no queues, losses or frames. Used by `belljar trace export`.

use std::io::{self, Write};

use belljar_fabric::{Endpoint, Topology};

/// The network and hosts of a job.
#[derive(Clone, Copy, Debug)]
pub struct Layout<'a> {
    /// The network.
    pub topology: &'a Topology,
    /// Floating-point operations of a processor per second.
    pub flops_per_second: f64,
    /// The host of each rank in the network.
    pub hosts: &'a [u32],
}

/// Returns the name of an endpoint, as a value in XML.
fn name(place: Endpoint, topology: &Topology) -> String {
    let name = match place {
        Endpoint::Host(host) => format!("node{host}"),
        Endpoint::Switch(_) => topology.place_name(place),
    };
    let harmless = |it: char| it.is_alphanumeric() || "-_.:".contains(it);
    name.chars()
        .map(|it| if harmless(it) { it } else { '_' })
        .collect()
}

/// Writes the network as a platform file.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write_platform(layout: &Layout<'_>, out: &mut dyn Write) -> io::Result<()> {
    let topology = layout.topology;
    writeln!(
        out,
        "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n\
         <platform version=\"4.1\">\n  <zone id=\"network\" routing=\"Dijkstra\">"
    )?;
    for host in 0..topology.hosts() {
        writeln!(
            out,
            "    <host id=\"node{host}\" speed=\"{}f\"/>",
            layout.flops_per_second
        )?;
    }
    for switch in 0..topology.switches().len() as u32 {
        let name = name(Endpoint::Switch(switch), topology);
        writeln!(out, "    <router id=\"{name}\"/>")?;
    }
    let switch = |place: Endpoint| match place {
        Endpoint::Switch(number) => topology.switches()[number as usize].latency.as_ps(),
        Endpoint::Host(_) => 0,
    };
    for (number, link) in topology.links().iter().enumerate() {
        let [near, far] = link.ends;
        let latency = link.spec.latency.as_ps() as f64 + (switch(near) + switch(far)) as f64 / 2.0;
        writeln!(
            out,
            "    <link id=\"link{number}\" bandwidth=\"{}Bps\" latency=\"{}us\" sharing_policy=\"SPLITDUPLEX\"/>",
            link.spec.bandwidth as f64 / 8.0,
            latency / 1e6
        )?;
    }
    for (number, link) in topology.links().iter().enumerate() {
        let [near, far] = link.ends.map(|place| name(place, topology));
        writeln!(
            out,
            "    <route src=\"{near}\" dst=\"{far}\"><link_ctn id=\"link{number}\" direction=\"UP\"/></route>"
        )?;
    }
    writeln!(out, "  </zone>\n</platform>")
}

/// Writes the host of each rank, one a line.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write_hosts(layout: &Layout<'_>, out: &mut dyn Write) -> io::Result<()> {
    for host in layout.hosts {
        writeln!(out, "node{host}")?;
    }
    Ok(())
}
