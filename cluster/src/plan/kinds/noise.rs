//! From a scenario's `[[nodes.noise]]` to the detours of each node's processors.
//!
//! Invalid detours are an error when the plan is made. Called by `plan`, and at the start of
//! nodes.

use std::fmt;

use belljar_sim::figures::counted;
use belljar_sim::{Distribution, Span};
use belljar_vmm::NoiseSource;

use super::NodeKind;
use crate::plan::Plan;
use crate::plan::error::PlanError;
use crate::scenario::engine::Engine;
use crate::scenario::{LengthDistribution, NoiseTable, Scenario, Spacing};

/// Maximum number of tables: their numbers seed separate random streams.
const MOST_TABLES: usize = 16;
const SHORTEST_PERIOD: Span = Span::from_us(1);
const LONGEST_PERIOD: Span = Span::from_ms(3_600_000);
const SHAPE: f64 = 2.0;

/// Detours of some nodes.
#[derive(Clone, Debug)]
pub struct NoisePlan {
    /// Their times and lengths.
    source: NoiseSource,
    /// True for each node with them.
    of_node: Vec<bool>,
}

impl Plan {
    /// The detours of node `node`.
    pub(crate) fn noise_of(&self, node: u32) -> Vec<NoiseSource> {
        let has = |noise: &&NoisePlan| noise.of_node.get(node as usize) == Some(&true);
        let sources = self.noise.iter().filter(has);
        sources.map(|noise| noise.source.clone()).collect()
    }

    /// All detours in words, if there are any.
    pub(crate) fn describe_noise(&self) -> Option<String> {
        let each: Vec<String> = self.noise.iter().map(NoisePlan::to_string).collect();
        (!each.is_empty()).then(|| each.join("; "))
    }
}

impl fmt::Display for NoisePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = &self.source;
        let lengths: Vec<String> = source.lengths.iter().map(Span::to_string).collect();
        let spread = |distribution| match distribution {
            Distribution::Fixed => String::new(),
            Distribution::Exponential => " (exponential)".to_owned(),
            Distribution::Uniform => " (uniform)".to_owned(),
            Distribution::Pareto(shape) => format!(" (Pareto, shape {shape})"),
        };
        let nodes = self.of_node.iter().filter(|has| **has).count();
        write!(
            f,
            "{}{} each {}{} on {nodes} of {}",
            lengths.join(" or "),
            spread(source.distribution),
            source.period,
            spread(source.spacing),
            counted(self.of_node.len() as u64, "node")
        )?;
        f.write_str(if source.is_synchronised {
            ", synchronised"
        } else {
            ""
        })
    }
}

/// The detours of `scenario` for nodes of these `kinds`.
pub(in crate::plan) fn resolve(
    scenario: &Scenario,
    kinds: &[NodeKind],
    engine: Engine,
) -> Result<Vec<NoisePlan>, PlanError> {
    let tables = &scenario.nodes.noise;
    if tables.len() > MOST_TABLES {
        return fail(
            "nodes.noise",
            format!("{} tables", tables.len()),
            "at most 16",
        );
    }
    if engine == Engine::Kvm && !tables.is_empty() {
        let limits = "left out under engine \"kvm\", as only engine \"exact\" stops at given times";
        return fail("nodes.noise", "given", limits);
    }
    let each = (0..).zip(tables);
    let each = each.map(|(number, table)| {
        Ok(NoisePlan {
            source: source(table, number)?,
            of_node: nodes(table, scenario.nodes.count(), kinds)?,
        })
    });
    each.collect()
}

fn fail<T>(key: &'static str, value: impl ToString, limits: &'static str) -> Result<T, PlanError> {
    let value = value.to_string();
    Err(PlanError::Range { key, value, limits })
}

fn source(table: &NoiseTable, number: u8) -> Result<NoiseSource, PlanError> {
    let period = table.period.0;
    if !(SHORTEST_PERIOD..=LONGEST_PERIOD).contains(&period) {
        return fail("nodes.noise.period", period, "from 1 us to 1 h");
    }
    let given = table.length.iter().chain(&table.lengths);
    let lengths: Vec<Span> = given.map(|length| length.0).collect();
    if lengths.is_empty() || (table.length.is_some() && lengths.len() > 1) {
        let value = if lengths.is_empty() {
            "left out"
        } else {
            "given with lengths"
        };
        return fail(
            "nodes.noise.length",
            value,
            "given, or nodes.noise.lengths instead",
        );
    }
    if lengths.len() > 1000 {
        return fail("nodes.noise.lengths", lengths.len(), "at most 1000 lengths");
    }
    // A processor needs some time for execution.
    if let Some(length) = lengths
        .iter()
        .find(|length| **length >= period || **length == Span::ZERO)
    {
        return fail(
            "nodes.noise.length",
            length,
            "above zero and below the period",
        );
    }
    Ok(NoiseSource {
        period,
        spacing: match table.spacing {
            Spacing::Periodic => Distribution::Fixed,
            Spacing::Exponential => Distribution::Exponential,
            Spacing::Uniform => Distribution::Uniform,
        },
        lengths,
        distribution: distribution(table)?,
        is_synchronised: table.synchronised,
        number,
    })
}

fn distribution(table: &NoiseTable) -> Result<Distribution, PlanError> {
    const KEY: &str = "nodes.noise.shape";
    let made = match table.distribution {
        LengthDistribution::Fixed => Distribution::Fixed,
        LengthDistribution::Exponential => Distribution::Exponential,
        LengthDistribution::Uniform => Distribution::Uniform,
        LengthDistribution::Pareto => Distribution::Pareto(table.shape.unwrap_or(SHAPE)),
    };
    match (made, table.shape) {
        (Distribution::Pareto(shape), _) if !made.is_sound() => {
            fail(KEY, shape, "from 1.01 to 1000")
        }
        (Distribution::Pareto(_), _) | (_, None) => Ok(made),
        (_, Some(shape)) => fail(
            KEY,
            shape,
            "left out unless nodes.noise.distribution is \"pareto\"",
        ),
    }
}

/// True for each of `count` nodes that `table` selects.
fn nodes(table: &NoiseTable, count: u32, kinds: &[NodeKind]) -> Result<Vec<bool>, PlanError> {
    let mut of_node = vec![table.nodes.is_none(); count as usize];
    for range in table.nodes.iter().flat_map(|list| list.split(',')) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.trim().parse::<usize>().ok();
        let range = number(first).zip(number(last));
        let range = range.and_then(|(first, last)| of_node.get_mut(first..=last));
        match range {
            Some(range) if !range.is_empty() => range.fill(true),
            _ => {
                let value = format!("{:?}", table.nodes.as_deref().unwrap_or_default());
                return fail(
                    "nodes.noise.nodes",
                    value,
                    "existing nodes, such as \"0-3,7\"",
                );
            }
        }
    }
    let Some(group) = &table.group else {
        return Ok(of_node);
    };
    let Some(kind) = kinds.iter().find(|kind| kind.group.as_ref() == Some(group)) else {
        let limits = "a group's name, or its number if it has none";
        return fail("nodes.noise.group", format!("{group:?}"), limits);
    };
    for (node, has) in (0..).zip(&mut of_node) {
        *has &= (kind.first..kind.first + kind.count).contains(&node);
    }
    if !of_node.contains(&true) {
        let limits = "a group that has some of nodes.noise.nodes";
        return fail("nodes.noise.group", format!("{group:?}"), limits);
    }
    Ok(of_node)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::kinds;

    /// The detours of five nodes with this table; the last two nodes are `old`.
    fn of(table: &str, engine: Engine) -> Result<Vec<NoisePlan>, String> {
        let text = format!(
            "name = \"x\"\nimage = {{ recipe = \"r\" }}\nworkload = {{ command = \"\" }}\n\
             [nodes]\nmemory = \"1 GiB\"\nclock = \"2 GHz\"\n[[nodes.group]]\ncount = 3\n\
             [[nodes.group]]\nname = \"old\"\ncount = 2\n{table}"
        );
        let scenario = Scenario::parse(Path::new("x.toml"), &text, &[]);
        let scenario = scenario.map_err(|error| error.to_string())?;
        let kinds = kinds::resolve(&scenario, Path::new(".")).map_err(|error| error.to_string())?;
        resolve(&scenario, &kinds, engine).map_err(|error| error.to_string())
    }

    fn exact(keys: &str) -> Result<Vec<NoisePlan>, String> {
        of(&format!("[[nodes.noise]]\n{keys}\n"), Engine::Exact)
    }

    #[test]
    fn detours_are_of_the_nodes_that_are_named() {
        let nodes = |more: &str| {
            let plan = exact(&format!("period = \"1 ms\"\nlength = \"10 us\"\n{more}"));
            plan.map(|plan| {
                plan[0]
                    .of_node
                    .iter()
                    .map(|has| u8::from(*has))
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(nodes(""), Ok(vec![1, 1, 1, 1, 1]));
        assert_eq!(nodes("nodes = \"0, 2-3\""), Ok(vec![1, 0, 1, 1, 0]));
        assert_eq!(nodes("group = \"old\""), Ok(vec![0, 0, 0, 1, 1]));
        assert_eq!(
            nodes("group = \"1\"\nnodes = \"1-4\""),
            Ok(vec![0, 1, 1, 0, 0])
        );
        for more in [
            "nodes = \"5\"",
            "nodes = \"3-1\"",
            "nodes = \"\"",
            "nodes = \"a\"",
        ] {
            let error = nodes(more).unwrap_err();
            assert!(error.starts_with("nodes.noise.nodes is"), "{more}: {error}");
        }
        for more in ["group = \"new\"", "group = \"old\"\nnodes = \"0\""] {
            let error = nodes(more).unwrap_err();
            assert!(error.starts_with("nodes.noise.group is"), "{more}: {error}");
        }
    }

    #[test]
    fn detours_are_told_as_the_scenario_says_them() {
        let plan = exact(
            "period = \"1 ms\"\nspacing = \"exponential\"\nlengths = [\"10 us\", \"20 us\"]\n\
             distribution = \"pareto\"\nsynchronised = true\nnodes = \"1\"",
        );
        let told = plan.unwrap()[0].to_string();
        let words = [
            "10.00 us or 20.00 us (Pareto, shape 2)",
            "(exponential)",
            "on 1 of 5 nodes, synchronised",
        ];
        assert!(words.iter().all(|words| told.contains(words)), "{told}");
    }

    #[test]
    fn detours_that_cannot_be_are_refused_by_the_key() {
        for (keys, key) in [
            (
                "period = \"999 ns\"\nlength = \"1 ns\"",
                "nodes.noise.period is",
            ),
            ("period = \"1 ms\"", "nodes.noise.length is left out"),
            (
                "period = \"1 ms\"\nlength = \"1 ms\"",
                "nodes.noise.length is",
            ),
            (
                "period = \"1 ms\"\nlength = \"0 us\"",
                "nodes.noise.length is",
            ),
            (
                "period = \"1 ms\"\nlength = \"1 us\"\nlengths = [\"1 us\"]",
                "nodes.noise.length is given",
            ),
            (
                "period = \"1 ms\"\nlength = \"1 us\"\nshape = 3.0",
                "nodes.noise.shape is 3",
            ),
            (
                "period = \"1 ms\"\nlength = \"1 us\"\nshape = 1.0\ndistribution = \"pareto\"",
                "nodes.noise.shape is 1",
            ),
        ] {
            let error = exact(keys).unwrap_err();
            assert!(error.starts_with(key), "{keys}: {error}");
        }
        let table = "[[nodes.noise]]\nperiod = \"1 ms\"\nlength = \"1 us\"\n";
        assert_eq!(of(table, Engine::Exact).unwrap().len(), 1);
        let error = of(table, Engine::Kvm).unwrap_err();
        assert!(error.contains("engine \"kvm\""), "{error}");
        let error = of(&table.repeat(17), Engine::Exact).unwrap_err();
        assert!(error.contains("17 tables"), "{error}");
    }
}
