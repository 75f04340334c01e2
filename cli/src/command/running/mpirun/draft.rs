//! The scenario of a request.
//!
//! It contains each choice of `belljar mpirun` with a remark, so that it reproduces the run. Called by the
//! command once program, image and layout are found.

use std::env;

use anyhow::Result;
use belljar_cli::mpirun::compose::{Draft, LIBRARIES, key_text, quoted};
use belljar_cli::mpirun::request;
use belljar_cluster::scenario::Slurm;
use belljar_cluster::scenario::quantity::{Bandwidth, Bytes};
use belljar_workload::large_files::large_size;
use clap::ValueEnum;

use super::{MachineArguments, ResolvedRequest};

/// The minimum memory of a node, and the memory added for each rank, in MiB.
const LEAST_MEMORY: u64 = 512;
const MEMORY_OF_RANK: u64 = 256;
const MIB: u64 = 1 << 20;

/// The scenario for `request`, without the values of `--set`.
pub(super) fn draft(arguments: &MachineArguments, request: &ResolvedRequest) -> Result<Draft> {
    let mut draft = Draft::default();
    draft.files.clone_from(&request.files);
    draft.remarks.push(format!(
        "Made by {}. docs/scenario.md has all keys.",
        request.made_by
    ));
    for line in &request.choice.lines {
        draft.remarks.push(line.clone());
    }
    draft.section("", &[]);
    draft.entry("name", quoted(&request.name), "of the run directory");
    draft.entry(
        "seed",
        arguments.seed.unwrap_or(1),
        "all randomness comes from it",
    );
    let engine = arguments
        .engine
        .and_then(|engine| engine.to_possible_value());
    if let Some(engine) = engine {
        draft.entry("engine", quoted(engine.get_name()), "engine of the nodes");
    }
    draft.section("image", &[]);
    let recipe = belljar_images::place(&env::current_dir()?, &request.choice.recipe);
    let has = match request.slurm {
        Some(_) => String::new(),
        None => format!("has {}", request.choice.mpi),
    };
    draft.entry("recipe", quoted(&recipe.to_string_lossy()), &has);
    nodes(arguments, request, &mut draft)?;
    network(arguments, &mut draft)?;
    workload(arguments, request, &mut draft);
    if let Some(own) = &request.slurm {
        slurm(own, &mut draft);
    }
    Ok(draft)
}

fn nodes(arguments: &MachineArguments, request: &ResolvedRequest, draft: &mut Draft) -> Result<()> {
    draft.section("nodes", &[]);
    let groups = request.layout.groups();
    if groups.is_empty() {
        draft.entry("count", request.layout.nodes, "");
    }
    let memory = arguments.memory.or(request.memory);
    let memory = memory.unwrap_or_else(|| memory_of(request));
    draft.entry("memory", quoted(&memory.to_string()), "of each");
    let vcpus = arguments.vcpus.unwrap_or(request.vcpus);
    draft.entry("vcpus", vcpus, "processors of each");
    draft.entry("clock", quoted("2.6 GHz"), "");
    if let Some(name) = &arguments.processor {
        let is_file = name.ends_with(".toml");
        let name = match is_file {
            true => std::path::absolute(name)?.to_string_lossy().into_owned(),
            false => name.clone(),
        };
        draft.section("nodes.timing", &[]);
        draft.entry("processor", quoted(&name), "whose time instructions take");
    }
    for (count, slots) in groups {
        draft.section("[nodes.group]", &[]);
        draft.entry("count", count, "");
        let processors = slots.min(request.layout.processors.unwrap_or(slots));
        let processors = processors.saturating_mul(request.cpus_per_rank).min(64);
        let processors = arguments.vcpus.unwrap_or(processors);
        draft.entry("vcpus", processors, "processors of each");
        draft.entry("ranks-per-node", slots, "slots in the launcher's host file");
    }
    Ok(())
}

/// Memory for the ranks of a node and for its files. Files count twice: the copy on the run disk, and the
/// copy that the program finds. Large files stay on their disk.
fn memory_of(request: &ResolvedRequest) -> Bytes {
    let sizes = request.files.values();
    let sizes = sizes.filter_map(|path| match large_size(path) {
        Ok(None) => Some(std::fs::metadata(path).ok()?.len()),
        _ => None,
    });
    let files = 2 * sizes.sum::<u64>();
    let ranks = MEMORY_OF_RANK * u64::from(request.layout.ranks_per_node);
    let mib = LEAST_MEMORY.max(ranks) + files.div_ceil(MIB).next_multiple_of(64);
    Bytes(mib * MIB)
}

fn network(arguments: &MachineArguments, draft: &mut Draft) -> Result<()> {
    let (bandwidth, latency) = match &arguments.network {
        Some(text) => request::network(text)?,
        None => (None, None),
    };
    draft.section("network", &[]);
    match arguments.topology.as_deref() {
        Some(file) if file.contains('.') || file.contains('/') => {
            let path = std::path::absolute(file)?;
            let value = format!("{{ graphml = {} }}", quoted(&path.to_string_lossy()));
            draft.entry("topology", value, "");
        }
        shape => draft.entry("topology", quoted(shape.unwrap_or("star")), "its shape"),
    }
    let bandwidth = bandwidth.unwrap_or(Bandwidth(10_000_000_000));
    draft.entry(
        "bandwidth",
        quoted(&bandwidth.to_string()),
        "of each node's link",
    );
    let latency = latency.map_or_else(|| "1 us".to_owned(), |latency| exact(latency.0.as_ps()));
    draft.entry("latency", quoted(&latency), "");
    if let Some(speed) = &arguments.infiniband {
        draft.section("infiniband", &[]);
        draft.entry(
            "speed",
            quoted(&speed.to_uppercase()),
            "of the nodes' cards, which messages use",
        );
    }
    Ok(())
}

/// A time in the largest unit that it is a whole number of.
fn exact(ps: u64) -> String {
    let units = [
        ("s", 1_000_000_000_000),
        ("ms", 1_000_000_000),
        ("us", 1_000_000),
        ("ns", 1_000),
    ];
    let whole = units
        .into_iter()
        .find(|(_, size)| ps > 0 && ps.is_multiple_of(*size));
    whole.map_or_else(
        || format!("{ps} ps"),
        |(unit, size)| format!("{} {unit}", ps / size),
    )
}

fn slurm(own: &Slurm, draft: &mut Draft) {
    let list = |names: &[String]| {
        let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        format!("[{}]", names.join(", "))
    };
    draft.section("slurm", &["Debian's Slurm on all nodes."]);
    let remark = "all nodes are in each";
    draft.entry("partitions", list(&own.partitions), remark);
    if !own.features.is_empty() {
        draft.entry("features", list(&own.features), "of every node");
    }
    if !own.licenses.is_empty() {
        draft.entry("licenses", list(&own.licenses), "");
    }
}

fn workload(arguments: &MachineArguments, request: &ResolvedRequest, draft: &mut Draft) {
    draft.section("workload", &[]);
    draft.entry(
        "command",
        quoted(&request.command),
        "a shell script on node 0",
    );
    let remark = "slots in the launcher's host file";
    draft.entry("ranks-per-node", request.layout.ranks_per_node, remark);
    if let Some(limit) = arguments.limit {
        draft.entry("limit", quoted(&exact(limit.0.as_ps())), "of virtual time");
    }
    if !arguments.output.is_empty() {
        let patterns: Vec<String> = arguments.output.iter().map(|one| quoted(one)).collect();
        let list = format!("[{}]", patterns.join(", "));
        draft.entry("outputs", list, "into files/nodeN of the run directory");
    }
    let mut environment = request.environment.clone();
    if !request.choice.libraries.is_empty() {
        let folder = format!("/root/{LIBRARIES}");
        let path = environment.entry("LD_LIBRARY_PATH".to_owned()).or_default();
        *path = match path.as_str() {
            "" => folder,
            more => format!("{folder}:{more}"),
        };
    }
    if !environment.is_empty() {
        draft.section("workload.environment", &["Of all ranks."]);
    }
    for (name, value) in environment {
        draft.entry(&key_text(&name), quoted(&value), "");
    }
}
