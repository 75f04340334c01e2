//! The properties of the nodes of each group.
//!
//! A plan has at least one kind of nodes, and each node has exactly one: kinds follow one another in the order
//! of nodes' numbers. Made with a plan; used by code for nodes that may differ.

use std::path::Path;

use belljar_cpu::InstructionSet;
use belljar_exact::{CyclesPerInstruction, Timing};
use belljar_sim::Frequency;

use super::Plan;
use super::error::PlanError;
use crate::scenario::{ImageTable, Nodes, Scenario, TimingTable};

/// Parts of a cycle per instruction that the time model can express.
const RATIO_PARTS: f64 = 1000.0;

/// From a scenario's noise to the detours of each node.
pub mod noise;
/// From a scenario's timing to the engine's time model.
pub(crate) mod time_model;

/// Nodes with equal properties.
#[derive(Clone, Debug)]
pub struct NodeKind {
    /// The group's name, or its number from 1; `None` without groups.
    pub group: Option<String>,
    /// The first of the nodes.
    pub first: u32,
    /// Their number.
    pub count: u32,
    /// The number of their image in the plan.
    pub image: usize,
    /// RAM of each in bytes.
    pub memory: u64,
    /// Processors of each.
    pub vcpus: u32,
    /// Their clock.
    pub clock: Frequency,
    /// The instruction set of the processors.
    pub instruction_set: InstructionSet,
    /// Cycles for each instruction.
    pub ratio: CyclesPerInstruction,
    /// The time model; either all kinds have one or none.
    pub timing: Option<Timing>,
    /// Ranks that launchers may start on each.
    pub ranks: u32,
}

impl Plan {
    /// The kinds of nodes, in the order of nodes' numbers; never empty.
    pub fn kinds(&self) -> &[NodeKind] {
        &self.kinds
    }

    /// The number of the kind of node `node`.
    pub(crate) fn kind_number(&self, node: u32) -> usize {
        let up_to = self.kinds.partition_point(|kind| kind.first <= node);
        up_to.saturating_sub(1)
    }

    /// The kind of node `node`.
    pub fn kind_of(&self, node: u32) -> &NodeKind {
        &self.kinds[self.kind_number(node)]
    }

    /// The clock of each node.
    pub fn clocks(&self) -> Vec<Frequency> {
        let clock = |node| self.kind_of(node).clock;
        (0..self.nodes).map(clock).collect()
    }

    /// True if any node has several processors.
    pub fn has_slices(&self) -> bool {
        self.kinds.iter().any(|kind| kind.vcpus > 1)
    }

    /// Bytes of RAM of `nodes`.
    pub fn memory_of(&self, nodes: impl IntoIterator<Item = u32>) -> u64 {
        let each = nodes.into_iter().map(|node| self.kind_of(node).memory);
        each.fold(0, u64::saturating_add)
    }

    /// Bytes of host memory that nodes with this RAM in bytes will probably use: clones share unwritten memory.
    pub fn likely_memory(&self, bytes: u64) -> u64 {
        if self.boot_each { bytes } else { bytes / 2 }
    }
}

/// The name of group number `number`, from 0.
pub(super) fn label(scenario: &Scenario, number: usize) -> Option<String> {
    let group = scenario.nodes.group.get(number)?;
    let name = group.name.clone().filter(|name| !name.is_empty());
    Some(name.unwrap_or_else(|| (number + 1).to_string()))
}

/// Adds the group to an error that concerns one, if there are any.
pub(super) fn within(scenario: &Scenario, number: usize, error: PlanError) -> PlanError {
    match label(scenario, number) {
        None => error,
        Some(group) => PlanError::Group {
            group,
            source: Box::new(error),
        },
    }
}

/// An image's tables without repetition, and for each kind of nodes the number of its image.
pub(super) fn image_tables(scenario: &Scenario) -> (Vec<&ImageTable>, Vec<usize>) {
    let groups = scenario.nodes.group.iter();
    let mut of_kinds: Vec<&ImageTable> = groups
        .map(|group| group.image.as_ref().unwrap_or(&scenario.image))
        .collect();
    if of_kinds.is_empty() {
        of_kinds.push(&scenario.image);
    }
    let (mut all, mut numbers): (Vec<&ImageTable>, _) = (Vec::new(), Vec::new());
    for table in of_kinds {
        let known = all.iter().position(|other| *other == table);
        numbers.push(known.unwrap_or(all.len()));
        if known.is_none() {
            all.push(table);
        }
    }
    (all, numbers)
}

/// All kinds of nodes of `scenario`, whose values were checked against their limits, and whose file is in `folder`.
pub(crate) fn resolve(scenario: &Scenario, folder: &Path) -> Result<Vec<NodeKind>, PlanError> {
    let all = scenario.nodes.kinds(scenario.workload.ranks_per_node);
    let is_timed = all.iter().any(|(nodes, _)| nodes.timing.is_some());
    let (_, images) = image_tables(scenario);
    let (mut kinds, mut first) = (Vec::new(), 0);
    for (number, (mut nodes, ranks)) in all.into_iter().enumerate() {
        if is_timed {
            // All nodes then have time accounts, or none.
            nodes.timing.get_or_insert_with(TimingTable::default);
        }
        let made = kind(&nodes, ranks, folder).map_err(|error| within(scenario, number, error))?;
        let count = nodes.count();
        kinds.push(NodeKind {
            group: label(scenario, number),
            first,
            image: images[number],
            ..made
        });
        first += count;
    }
    Ok(kinds)
}

fn kind(nodes: &Nodes, ranks: u32, folder: &Path) -> Result<NodeKind, PlanError> {
    let extensions = nodes.extensions.iter().map(String::as_str);
    Ok(NodeKind {
        group: None,
        first: 0,
        count: nodes.count(),
        image: 0,
        memory: nodes.memory.0,
        vcpus: nodes.vcpus,
        clock: nodes.clock.0,
        instruction_set: InstructionSet::new(nodes.level.0, extensions)?,
        ratio: cycles_per_instruction(nodes),
        timing: time_model::resolve(nodes, folder)?,
        ranks,
    })
}

fn cycles_per_instruction(nodes: &Nodes) -> CyclesPerInstruction {
    let (cycles, instructions) = ratio_parts(nodes.ratio());
    CyclesPerInstruction {
        cycles,
        instructions,
    }
}

/// Cycles per instruction as a fraction, as exactly as the engine counts.
pub fn ratio_parts(ratio: f64) -> (u32, u32) {
    ((ratio * RATIO_PARTS).round() as u32, RATIO_PARTS as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::limits;

    /// The kinds of a scenario with `more` in its `[nodes]`, or the error.
    fn of(more: &str) -> Result<Vec<NodeKind>, String> {
        let text = format!(
            "name = \"x\"\nimage = {{ recipe = \"r\" }}\nworkload = {{ command = \"\", ranks-per-node = 3 }}\n\
             [nodes]\nmemory = \"1 GiB\"\nclock = \"2 GHz\"\n{more}"
        );
        let scenario = Scenario::parse(Path::new("x.toml"), &text, &[]);
        let scenario = scenario.map_err(|error| error.to_string())?;
        limits::check(&scenario).map_err(|error| error.to_string())?;
        resolve(&scenario, Path::new(".")).map_err(|error| error.to_string())
    }

    #[test]
    fn groups_have_what_nodes_have_unless_they_say_otherwise() {
        let kinds = of("vcpus = 2\n[[nodes.group]]\ncount = 2\n\
                        [[nodes.group]]\nname = \"old\"\ncount = 3\nclock = \"1 GHz\"\nvcpus = 1\n\
                        memory = \"256 MiB\"\nlevel = \"x86-64-v1\"\ncycles-per-instruction = 1.5\n")
        .unwrap();
        let [new, old] = &kinds[..] else {
            panic!("{kinds:?}")
        };
        assert_eq!((new.first, new.count, new.vcpus, new.ranks), (0, 2, 2, 3));
        assert_eq!((old.first, old.count, old.vcpus, old.ranks), (2, 3, 1, 1));
        assert_eq!((new.memory, old.memory), (1 << 30, 256 << 20));
        assert_eq!((old.clock.as_hz(), old.ratio.cycles), (1_000_000_000, 1500));
        assert_eq!(new.clock.as_hz(), 2_000_000_000);
        assert_ne!(new.instruction_set, old.instruction_set);
        let names = [new, old].map(|kind| kind.group.as_deref());
        assert_eq!(names, [Some("1"), Some("old")]);
        let alone = of("count = 2\n").unwrap();
        assert_eq!((alone[0].count, alone[0].ranks), (2, 3));
        assert_eq!((alone.len(), alone[0].group.as_deref()), (1, None));
    }

    #[test]
    fn a_time_model_of_one_group_makes_all_account_for_their_time() {
        let kinds = of("cycles-per-instruction = 2\n[[nodes.group]]\ncount = 1\n\
                        [[nodes.group]]\ncount = 1\ntiming.caches = { l1d = { size = \"4 KiB\", ways = 1 }, memory-latency = 9 }\n");
        let timing = kinds.unwrap().remove(0).timing.unwrap();
        assert_eq!(timing.costs, belljar_exact::Costs::uniform(2000));
        assert!(timing.caches.is_none());
    }

    #[test]
    fn groups_that_cannot_be_are_refused_by_what_is_wrong() {
        let two = "[[nodes.group]]\ncount = 2\n";
        for (more, said) in [
            (String::new(), "nodes.count is left out"),
            ("count = 0\n".to_owned(), "nodes.count is 0"),
            (
                format!("count = 3\n{two}"),
                "nodes.count is 3; it must be the sum of the groups' counts, which is 2",
            ),
            (
                "[[nodes.group]]\ncount = 0\n".to_owned(),
                "[[nodes.group]] 1: count is 0",
            ),
            (
                format!("{two}[[nodes.group]]\nname = \"b\"\ncount = 5000\n"),
                "[[nodes.group]] b: count is 5000",
            ),
            (
                format!("[[nodes.group]]\ncount = 4096\n{two}"),
                "nodes.count is 4098",
            ),
            (
                format!("{two}clock = \"9 GHz\"\n"),
                "[[nodes.group]] 1: nodes.clock is 9000000000 Hz",
            ),
            (
                format!("{two}memory = \"1 MiB\"\n"),
                "[[nodes.group]] 1: nodes.memory is",
            ),
            (
                format!("{two}vcpus = 65\n"),
                "[[nodes.group]] 1: nodes.vcpus is 65",
            ),
            (
                format!("{two}ranks-per-node = 0\n"),
                "[[nodes.group]] 1: workload.ranks-per-node is 0",
            ),
            (
                format!("{two}name = \"\"\n"),
                "[[nodes.group]] 1: name is \"\"",
            ),
            (
                format!("{two}name = \"a\"\n{two}name = \"a\"\n"),
                "[[nodes.group]] a: name is \"a\"",
            ),
            (
                format!("{two}extensions = [\"abacus\"]\n"),
                "[[nodes.group]] 1: nodes.extensions:",
            ),
            (two.repeat(17), "nodes.group is 17 groups"),
        ] {
            let error = of(&more).unwrap_err();
            assert!(error.starts_with(said), "{more}: {error}");
        }
        let error = of(&format!("{two}weight = 3\n")).unwrap_err();
        assert!(error.contains("weight"), "{error}");
        let error = of("[[nodes.group]]\nname = \"a\"\n").unwrap_err();
        assert!(error.contains("count"), "{error}");
    }
}
