//! Result files of a simulation: jobs, loads over time, links, snapshots.
//!
//! Tables are comma-separated values, times seconds, loads bits a second. Snapshots are GraphML, for networkx and Gephi. Called
//! by `simulate`.

use std::io::Write;

use anyhow::{Context, Result};
use belljar_fabric::{Direction, Endpoint, Topology};
use belljar_files::{Folder, OutputFile};
use belljar_networks::LinkLoad;
use belljar_simulate::{Job, JobMeasures, Simulated};

use super::SimulationRow;

/// The table of all combinations.
pub(super) fn table(
    folder: &Folder,
    name: &str,
    keys: &[String],
    rows: &[SimulationRow],
) -> Result<()> {
    let mut writer = open(folder, name)?;
    for (number, row) in rows.iter().enumerate() {
        let figures = serde_json::to_value(row.measures)?;
        let figures = figures.as_object().context("measures are no object")?;
        if number == 0 {
            let names = figures.keys().map(String::as_str);
            writer.write_record(keys.iter().map(String::as_str).chain(names))?;
        }
        let values = row.values.iter().map(|(_, value)| value.clone());
        writer.write_record(values.chain(figures.values().map(ToString::to_string)))?;
    }
    finish(writer)
}

/// Writes the results of a combination into a new folder.
pub(super) fn write(
    folder: &Folder,
    topology: &Topology,
    jobs: &[Job],
    simulated: &Simulated,
) -> Result<()> {
    of_jobs(folder, jobs, simulated)?;
    loads(folder, simulated)?;
    links(folder, topology, simulated)?;
    for (time, loads) in &simulated.snapshots {
        let name = format!("{:.3}s.graphml", *time as f64 / 1e9);
        snapshot(folder, &name, topology, loads)?;
    }
    Ok(())
}

/// Writes the bytes carried by links, at the level of messages.
pub(super) fn carried(folder: &Folder, links: &[LinkLoad]) -> Result<()> {
    let mut writer = open(folder, "carried.csv")?;
    writer.write_record(["link", "bytes", "busy_s", "dropped"])?;
    for load in links {
        writer.write_record([
            load.name.clone(),
            load.bytes.to_string(),
            seconds(load.busy.as_ps() / 1000),
            load.dropped.to_string(),
        ])?;
    }
    finish(writer)
}

fn open(folder: &Folder, name: &str) -> Result<csv::Writer<OutputFile>> {
    Ok(csv::Writer::from_writer(OutputFile::create_in(
        folder, name,
    )?))
}

/// Renames the finished table to its final name.
fn finish(writer: csv::Writer<OutputFile>) -> Result<()> {
    let file = writer.into_inner().map_err(|error| error.into_error())?;
    Ok(file.finish()?)
}

fn seconds(nanos: u64) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn of_jobs(folder: &Folder, jobs: &[Job], simulated: &Simulated) -> Result<()> {
    let mut writer = open(folder, "jobs.csv")?;
    writer.write_record([
        "job",
        "name",
        "ranks",
        "priority",
        "arrival_s",
        "start_s",
        "end_s",
        "wait_s",
        "slowdown",
        "bounded_slowdown",
        "hosts",
    ])?;
    for (number, (job, outcome)) in jobs.iter().zip(&simulated.jobs).enumerate() {
        let own = JobMeasures::of(simulated, number, jobs);
        let figure = |of: fn(JobMeasures) -> String| own.map_or_else(String::new, of);
        let hosts: Vec<String> = outcome.hosts.iter().map(ToString::to_string).collect();
        writer.write_record([
            number.to_string(),
            job.name.to_string(),
            job.ranks.to_string(),
            job.priority.to_string(),
            seconds(job.arrival),
            outcome.start.map_or_else(String::new, seconds),
            outcome.end.map_or_else(String::new, seconds),
            figure(|own| seconds(own.waited)),
            figure(|own| own.slowdown.to_string()),
            figure(|own| own.bounded.to_string()),
            hosts.join(" "),
        ])?;
    }
    finish(writer)
}

fn loads(folder: &Folder, simulated: &Simulated) -> Result<()> {
    let mut writer = open(folder, "loads.csv")?;
    writer.write_record(["time_s", "maximum_bps", "mean_bps", "variance"])?;
    for load in &simulated.loads {
        writer.write_record([
            seconds(load.time),
            load.maximum.to_string(),
            load.mean.to_string(),
            load.variance.to_string(),
        ])?;
    }
    finish(writer)
}

fn links(folder: &Folder, topology: &Topology, simulated: &Simulated) -> Result<()> {
    let mut writer = open(folder, "links.csv")?;
    writer.write_record([
        "link",
        "direction",
        "capacity_bps",
        "mean_bps",
        "maximum_bps",
    ])?;
    for (number, link) in (0..).zip(&simulated.links) {
        let direction = match number % 2 == Direction::Up.index() as u32 {
            true => "up",
            false => "down",
        };
        writer.write_record([
            topology.link_name(number / 2),
            direction.to_owned(),
            link.capacity.to_string(),
            link.mean.to_string(),
            link.maximum.to_string(),
        ])?;
    }
    finish(writer)
}

/// Writes the network and its links' loads, as GraphML (Brandes and others, 2013).
fn snapshot(folder: &Folder, name: &str, topology: &Topology, loads: &[u64]) -> Result<()> {
    let mut out = OutputFile::create_in(folder, name)?;
    writeln!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n\
         <key id=\"kind\" for=\"node\" attr.name=\"kind\" attr.type=\"string\"/>\n\
         <key id=\"load\" for=\"edge\" attr.name=\"load\" attr.type=\"long\"/>\n\
         <key id=\"capacity\" for=\"edge\" attr.name=\"capacity\" attr.type=\"long\"/>\n\
         <key id=\"share\" for=\"edge\" attr.name=\"share\" attr.type=\"double\"/>\n\
         <graph edgedefault=\"directed\">"
    )?;
    let hosts = (0..topology.hosts()).map(Endpoint::Host);
    let switches = (0..topology.switches().len() as u32).map(Endpoint::Switch);
    for place in hosts.chain(switches) {
        let kind = match place {
            Endpoint::Host(_) => "host",
            Endpoint::Switch(_) => "switch",
        };
        let name = escaped(&topology.place_name(place));
        writeln!(
            out,
            "<node id=\"{name}\"><data key=\"kind\">{kind}</data></node>"
        )?;
    }
    for (number, load) in loads.iter().enumerate() {
        let Some(link) = topology.links().get(number / 2) else {
            continue;
        };
        // A direction has the index of its destination's end.
        let to = link.ends[number % 2];
        let [from, to] =
            [link.ends[1 - number % 2], to].map(|end| escaped(&topology.place_name(end)));
        let capacity = link.spec.bandwidth;
        writeln!(
            out,
            "<edge source=\"{from}\" target=\"{to}\"><data key=\"load\">{load}</data><data key=\"capacity\">{capacity}</data><data key=\"share\">{}</data></edge>",
            *load as f64 / capacity.max(1) as f64
        )?;
    }
    writeln!(out, "</graph>\n</graphml>")?;
    Ok(out.finish()?)
}

fn escaped(name: &str) -> String {
    let escape = |letter: char| match letter {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        letter if letter.is_control() => String::new(),
        letter => letter.to_string(),
    };
    name.chars().map(escape).collect()
}
