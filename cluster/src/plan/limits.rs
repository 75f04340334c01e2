//! Limits of a scenario's values, all in one place: `check`, `run`, `sweep` and `submit` refuse the
//! same ones, by the key, before any file is made.
//!
//! Combinations of values, such as a network's shape, are checked where they are resolved.

use std::collections::BTreeMap;

use belljar_sim::Span;
use belljar_trace::MOST_FRAMES;
use belljar_tracer::Selection;
use belljar_vmm::{MOST_VCPUS, check_clock, check_memory};

use super::SHORTEST_SLICE;
use crate::plan::error::PlanError;
use crate::plan::kinds::within;
use crate::scenario::{FileSource, HERE, NodeGroup, Nodes, Profile, Scenario, Trace};

/// Shortest interval of checkpoints or samples.
const SHORTEST_INTERVAL: Span = Span::from_us(1);
/// Most checkpoints that stay.
const MOST_CHECKPOINTS: u32 = 10_000;
/// Maximum number of nodes, from the layout of guests' addresses and of the run disk.
const MAX_NODES: u32 = 4096;
/// Maximum number of groups, as each boots a template, and longest name of a group.
const MOST_GROUPS: usize = 16;
const LONGEST_GROUP: usize = 64;
/// Maximum number of patterns of outputs, and longest one in bytes, as accepted by a node.
const MOST_PATTERNS: usize = 1000;
const LONGEST_PATTERN: usize = 4000;
/// Maximum number of ranks that launchers may start on a node.
const MOST_RANKS: u32 = 1024;
/// Longest component of a file's name in Linux, in bytes.
const LONGEST_NAME: usize = 255;

fn fail(key: &'static str, value: impl ToString, limits: &'static str) -> Result<(), PlanError> {
    let value = value.to_string();
    Err(PlanError::Range { key, value, limits })
}

/// Checks all values of `scenario` against their limits.
pub(super) fn check(scenario: &Scenario) -> Result<(), PlanError> {
    let name = &scenario.name;
    if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
        return fail(
            "name",
            format!("{name:?}"),
            "usable as the name of a folder",
        );
    }
    if let Some(every) = scenario.checkpoint.every
        && every.0 < SHORTEST_INTERVAL
    {
        return fail("checkpoint.every", every.0, "at least 1 us");
    }
    if let Some(keep) = scenario.checkpoint.keep
        && !(2..=MOST_CHECKPOINTS).contains(&keep)
    {
        return fail("checkpoint.keep", keep, "from 2 to 10000");
    }
    check_profile(&scenario.profile)?;
    check_count(&scenario.nodes)?;
    check_nodes(&scenario.nodes)?;
    check_ranks(scenario.workload.ranks_per_node)?;
    check_groups(scenario)?;
    check_environment(&scenario.workload.environment)?;
    check_names(&alone(&scenario.workload.files))?;
    check_outputs(&scenario.workload.outputs)?;
    check_trace(&scenario.trace)
}

fn check_profile(profile: &Profile) -> Result<(), PlanError> {
    if let Some(every) = profile.every
        && every.0 < SHORTEST_INTERVAL
    {
        return fail("profile.every", every.0, "at least 1 us");
    }
    if !(1..=MOST_FRAMES).contains(&profile.frames) {
        return fail("profile.frames", profile.frames, "from 1 to 64");
    }
    Ok(())
}

fn check_ranks(ranks: u32) -> Result<(), PlanError> {
    if !(1..=MOST_RANKS).contains(&ranks) {
        return fail("workload.ranks-per-node", ranks, "from 1 to 1024");
    }
    Ok(())
}

/// Checks the total number of `nodes`.
fn check_count(nodes: &Nodes) -> Result<(), PlanError> {
    const KEY: &str = "nodes.count";
    let Some(count) = nodes
        .count
        .or((!nodes.group.is_empty()).then(|| nodes.count()))
    else {
        let limits = "from 1 to 4096, or there must be a [[nodes.group]] with a count";
        return fail(KEY, "left out", limits);
    };
    let counts = nodes.group.iter().map(|group| group.count);
    let sum = counts.fold(0, u32::saturating_add);
    if !nodes.group.is_empty() && sum != count {
        return Err(PlanError::Sum { count, sum });
    }
    // An error about a single group names the group.
    let is_whole = nodes
        .group
        .iter()
        .all(|group| (1..=MAX_NODES).contains(&group.count));
    if is_whole && !(1..=MAX_NODES).contains(&count) {
        return fail(KEY, count, "from 1 to 4096");
    }
    Ok(())
}

/// Checks every group of nodes.
fn check_groups(scenario: &Scenario) -> Result<(), PlanError> {
    let groups = &scenario.nodes.group;
    if groups.len() > MOST_GROUPS {
        let value = format!("{} groups", groups.len());
        return fail("nodes.group", value, "at most 16");
    }
    let kinds = scenario.nodes.kinds(scenario.workload.ranks_per_node);
    for (number, (group, (nodes, ranks))) in groups.iter().zip(kinds).enumerate() {
        let before = groups[..number].iter();
        let names = before.filter_map(|other| other.name.as_deref());
        let checked = check_group(group, &nodes, names.collect());
        let checked = checked.and_then(|()| check_ranks(ranks));
        checked.map_err(|error| within(scenario, number, error))?;
    }
    Ok(())
}

fn check_group(group: &NodeGroup, nodes: &Nodes, others: Vec<&str>) -> Result<(), PlanError> {
    if !(1..=MAX_NODES).contains(&group.count) {
        return fail("count", group.count, "from 1 to 4096");
    }
    if let Some(name) = &group.name {
        let fits = (1..=LONGEST_GROUP).contains(&name.len()) && !name.contains(char::is_control);
        if !fits || others.contains(&name.as_str()) {
            let limits = "1 to 64 bytes without line breaks, and no other group's";
            return fail("name", format!("{name:?}"), limits);
        }
    }
    check_nodes(nodes)
}

fn check_nodes(nodes: &Nodes) -> Result<(), PlanError> {
    if !(1..=MOST_VCPUS).contains(&nodes.vcpus) {
        return fail("nodes.vcpus", nodes.vcpus, "from 1 to 64");
    }
    if check_memory(nodes.memory.0).is_err() {
        let value = format!("{} bytes", nodes.memory.0);
        let limits = "a multiple of 4096 bytes from 64 MiB to 512 GiB";
        return fail("nodes.memory", value, limits);
    }
    if check_clock(nodes.clock.0).is_err() {
        let value = format!("{} Hz", nodes.clock.0.as_hz());
        let limits = "a multiple of 1 kHz (2 kHz above 4.29 GHz) from 1 MHz to 8 GHz";
        return fail("nodes.clock", value, limits);
    }
    if let Some(slice) = nodes.slice
        && !(SHORTEST_SLICE..=Span::from_ms(1)).contains(&slice.0)
    {
        return fail("nodes.slice", slice.0, "from 100 ns to 1 ms");
    }
    if !(0.001..=1000.0).contains(&nodes.ratio()) {
        let key = "nodes.cycles-per-instruction";
        return fail(key, nodes.ratio(), "from 0.001 to 1000");
    }
    Ok(())
}

fn check_outputs(patterns: &[String]) -> Result<(), PlanError> {
    if patterns.len() > MOST_PATTERNS {
        return fail("workload.outputs", patterns.len(), "at most 1000 patterns");
    }
    let wrong = |pattern: &&String| {
        let mut parts = pattern.split('/');
        !(1..=LONGEST_PATTERN).contains(&pattern.len())
            || pattern.contains(char::is_control)
            || parts.any(|part| matches!(part, "." | ".."))
    };
    if let Some(pattern) = patterns.iter().find(wrong) {
        let limits =
            "paths of 1 to 4000 bytes in /root or from /, without `.`, `..` and line breaks";
        return fail("workload.outputs", format!("{pattern:?}"), limits);
    }
    Ok(())
}

fn check_environment(environment: &BTreeMap<String, String>) -> Result<(), PlanError> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = |name: &str| {
        !name.is_empty() && !name.as_bytes()[0].is_ascii_digit() && name.bytes().all(is_letter)
    };
    if let Some(name) = environment.keys().find(|name| !is_name(name)) {
        // Shells on nodes ignore other names, or fail at them.
        let limits = "names of letters, digits and `_` that do not begin with a digit";
        return fail("workload.environment", format!("{name:?}"), limits);
    }
    if let Some((name, _)) = environment.iter().find(|(_, value)| value.contains('\0')) {
        let limits = "values without zero bytes";
        return fail("workload.environment", format!("{name:?}"), limits);
    }
    Ok(())
}

/// `files` without entries called `.`, which stand for several files with names of their own: they are
/// checked after expansion.
fn alone(files: &BTreeMap<String, FileSource>) -> BTreeMap<String, FileSource> {
    let is_path = |source: &FileSource| matches!(source, FileSource::Path(_));
    let mut files = files.clone();
    files.retain(|name, source| name != HERE || !is_path(source));
    files
}

/// Checks that all files, each a single one, can have their names in the guest.
pub(super) fn check_names(files: &BTreeMap<String, FileSource>) -> Result<(), PlanError> {
    const KEY: &str = "workload.files";
    for name in files.keys() {
        let wrong = |part: &str| {
            matches!(part, "" | "." | "..") || part.len() > LONGEST_NAME || part.contains('\0')
        };
        if name.split('/').any(wrong) {
            let limits = "relative names without `.` and `..`, of parts of 1 to 255 bytes";
            return fail(KEY, format!("{name:?}"), limits);
        }
        let folders = name.match_indices('/').map(|(at, _)| &name[..at]);
        if let Some(file) = folders
            .into_iter()
            .find(|folder| files.contains_key(*folder))
        {
            let value = format!("{name:?} besides {file:?}");
            return fail(KEY, value, "files, none of which is another one's folder");
        }
    }
    Ok(())
}

fn check_trace(trace: &Trace) -> Result<(), PlanError> {
    if let (Some(from), Some(until)) = (trace.from, trace.until)
        && until.0 <= from.0
    {
        let value = format!("{} after trace.from = {}", until.0, from.0);
        return fail("trace.until", value, "later than trace.from");
    }
    if trace.frames > MOST_FRAMES {
        return fail("trace.frames", trace.frames.to_string(), "from 0 to 64");
    }
    let selection = Selection {
        functions: trace.functions.clone(),
        window: None,
        sampling: trace.sample.clone(),
        datatypes: trace.datatypes,
    };
    Ok(selection.check()?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The error of a scenario with `overrides`.
    fn said(overrides: &str) -> Result<(), String> {
        let text = "name = \"x\"\nimage = { recipe = \"r\" }\nworkload = { command = \"\" }\n\
                    nodes = { count = 2, memory = \"1 GiB\", clock = \"1 GHz\" }\n";
        let scenario = Scenario::parse(Path::new("x.toml"), text, &[overrides.to_owned()]);
        check(&scenario.unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn what_no_run_could_do_is_named_by_its_key() {
        for (overrides, key) in [
            ("nodes.memory=\"4097 B\"", "nodes.memory is 4097 bytes"),
            ("nodes.memory=\"1 MiB\"", "nodes.memory"),
            ("nodes.memory=\"900000 GiB\"", "nodes.memory"),
            ("nodes.clock=\"1 Hz\"", "nodes.clock is 1 Hz"),
            ("nodes.clock=\"999 GHz\"", "nodes.clock"),
            (
                "trace.functions=[\"MPI_Nope\"]",
                "trace: no MPI function matches `MPI_Nope`",
            ),
            ("trace.sample={MPI_Nope=5}", "trace: no MPI function"),
            ("workload.ranks-per-node=0", "workload.ranks-per-node is 0"),
            ("workload.ranks-per-node=2000", "workload.ranks-per-node"),
            (
                "trace.sample={MPI_Send=0}",
                "trace: the sampling of `MPI_Send` is 0",
            ),
            ("trace={from=\"2 s\",until=\"1 s\"}", "trace.until is"),
            ("trace.frames=65", "trace.frames is 65"),
            ("profile.every=\"999 ns\"", "profile.every is 999"),
            ("profile.frames=0", "profile.frames is 0"),
            ("profile.frames=65", "profile.frames is 65"),
            (
                "workload.files={\".\"={text=\"x\"}}",
                "workload.files is \".\"",
            ),
            ("workload.files={\"a/\"=\"/f\"}", "workload.files"),
            ("workload.files={\"a//b\"=\"/f\"}", "workload.files"),
            ("workload.files={\"/a\"=\"/f\"}", "workload.files"),
            ("workload.files={\"a/../b\"=\"/f\"}", "workload.files"),
            (
                "workload.files={\"a\"=\"/f\",\"a/b\"=\"/f\"}",
                "workload.files is \"a/b\" besides \"a\"",
            ),
            (
                "workload.environment={\"a=b\"=\"\"}",
                "workload.environment",
            ),
        ] {
            let error = said(overrides).unwrap_err();
            assert!(error.starts_with(key), "{overrides}: {error}");
        }
        assert_eq!(
            said("workload.files={\"a\"=\"/f\",\"ab/c\"=\"/f\"}"),
            Ok(())
        );
        assert_eq!(said("trace.functions=[\"MPI_I*\"]"), Ok(()));
    }
}
