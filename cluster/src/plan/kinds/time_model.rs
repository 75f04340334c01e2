//! From a scenario's `[nodes.timing]` to the engine's time model.
//!
//! An invalid time model is an error when the plan is made, never later; the host does not matter here.
//! Called by `plan`, and by `plan/describe.rs` for `belljar check`.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use belljar_exact::{
    CacheLevel, CacheModel, CostClass, Costs, LEVEL_NAMES, TICKS_PER_CYCLE, Timing,
};

use belljar_pipeline::processor::{MOST_SAMPLE, MemoryParameters, Processor};

use crate::plan::error::PlanError;
use crate::scenario::quantity::Bytes;
use crate::scenario::{CachesTable, FartherCache, Nodes, TimingTable};

/// The time model that a scenario's nodes have, if any.
///
/// A processor's file is in `folder`.
pub(crate) fn resolve(nodes: &Nodes, folder: &Path) -> Result<Option<Timing>, PlanError> {
    let Some(TimingTable {
        costs,
        processor,
        memory,
        memory_sample,
        caches,
    }) = &nodes.timing
    else {
        return Ok(None);
    };
    let processor = match processor {
        Some(name) => Some(modelled(nodes, name, folder)?),
        None => None,
    };
    let processor = sampled(processor, *memory_sample, memory.unwrap_or(true))?.map(Arc::new);
    let costs = match costs {
        None => Costs::uniform((nodes.ratio() * f64::from(TICKS_PER_CYCLE)).round() as u32),
        Some(given) => {
            if let Some(ratio) = nodes.cycles_per_instruction {
                return Err(PlanError::Range {
                    key: "nodes.cycles-per-instruction",
                    value: ratio.to_string(),
                    limits: "left out if nodes.timing.costs has the costs of instructions",
                });
            }
            let mut costs = Costs::default();
            for (class, &cycles) in given {
                costs.set(class, cycles)?;
            }
            costs
        }
    };
    if let (Some(given), None) = (memory, &processor) {
        return Err(PlanError::Range {
            key: "nodes.timing.memory",
            value: given.to_string(),
            limits: "left out without nodes.timing.processor, whose caches and memory it selects",
        });
    }
    let caches = caches.as_ref().map(cache_model).transpose()?;
    Ok(Some(Timing {
        costs,
        caches,
        has_memory: processor.is_some() && memory.unwrap_or(true),
        processor,
    }))
}

/// The processor with one page of `sample` modelled, if its memory is.
fn sampled(
    processor: Option<Processor>,
    sample: Option<u32>,
    has_memory: bool,
) -> Result<Option<Processor>, PlanError> {
    let Some(sample) = sample else {
        return Ok(processor);
    };
    let refused = |limits| PlanError::Range {
        key: "nodes.timing.memory-sample",
        value: sample.to_string(),
        limits,
    };
    if !(sample.is_power_of_two() && sample <= MOST_SAMPLE) {
        return Err(refused("1, 2, 4, 8 or 16"));
    }
    let Some(mut processor) = processor.filter(|_| has_memory) else {
        return Err(refused(
            "left out without nodes.timing.processor and its memory, of which it models a part",
        ));
    };
    processor.caches = processor.caches.sampled(sample);
    Ok(Some(processor))
}

/// The processor called `name`, which replaces all other costs of instructions.
fn modelled(nodes: &Nodes, name: &str, folder: &Path) -> Result<Processor, PlanError> {
    let refused = |key, value| PlanError::Range {
        key,
        value,
        limits: "left out if nodes.timing.processor has the costs of instructions",
    };
    if let Some(ratio) = nodes.cycles_per_instruction {
        return Err(refused("nodes.cycles-per-instruction", ratio.to_string()));
    }
    let timing = nodes.timing.as_ref();
    if timing.is_some_and(|timing| timing.costs.is_some()) {
        return Err(refused("nodes.timing.costs", "given".to_owned()));
    }
    if timing.is_some_and(|timing| timing.caches.is_some()) {
        return Err(PlanError::Range {
            key: "nodes.timing.caches",
            value: "given".to_owned(),
            limits: "left out if nodes.timing.processor has its own; nodes.timing.memory = false turns them off",
        });
    }
    let processor = Processor::load(name, folder)?;
    let level = nodes.level.0;
    if level as u32 + 1 > processor.level {
        return Err(PlanError::Range {
            key: "nodes.level",
            value: level.to_string(),
            limits: "at most the `level` in the file of nodes.timing.processor",
        });
    }
    Ok(processor)
}

fn cache_model(table: &CachesTable) -> Result<CacheModel, PlanError> {
    if table.l3.is_some() && table.l2.is_none() {
        return Err(PlanError::Range {
            key: "nodes.timing.caches.l3",
            value: "there without l2".into(),
            limits: "after a second level",
        });
    }
    let first = CacheLevel {
        bytes: table.l1d.size.0,
        ways: table.l1d.ways,
        latency: 0,
    };
    let level = |cache: FartherCache| CacheLevel {
        bytes: cache.size.0,
        ways: cache.ways,
        latency: cache.latency,
    };
    let farther = [table.l2, table.l3].into_iter().flatten().map(level);
    let model = CacheModel {
        levels: [first].into_iter().chain(farther).collect(),
        memory: table.memory_latency,
    };
    model.check()?;
    Ok(model)
}

/// Lines of `belljar check`.
pub(crate) fn describe(timing: &Timing) -> String {
    let mut text = String::new();
    if let Some(processor) = &timing.processor {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "processor  {}, {}",
            processor.identity(),
            processor.measured.as_deref().unwrap_or("not measured")
        );
        if timing.has_memory {
            describe_memory(&processor.caches, &mut text);
        } else {
            describe_caches(timing, &mut text);
        }
        return text;
    }
    let cycles = |ticks: u32| f64::from(ticks) / f64::from(TICKS_PER_CYCLE);
    for (number, classes) in CostClass::ALL.chunks(4).enumerate() {
        let costs = classes
            .iter()
            .map(|&class| format!("{} {}", class.name(), cycles(timing.costs.ticks(class))));
        let head = if number == 0 { "costs" } else { "" };
        let costs: Vec<String> = costs.collect();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{head:<10} {}", costs.join(", "));
    }
    describe_caches(timing, &mut text);
    text
}

/// The caches and the memory of a processor.
fn describe_memory(memory: &MemoryParameters, text: &mut String) {
    let levels = memory.levels.iter().zip(["l1d", "l2", "l3", "l4"]);
    for (number, (level, name)) in levels.enumerate() {
        let head = if number == 0 { "caches" } else { "" };
        let bytes = level.bytes * u64::from(memory.sample);
        let (size, ways, latency) = (Bytes(bytes), level.ways, level.cost.latency);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{head:<10} {name} {size} in {ways} ways, {latency} cycles"
        );
    }
    let _ = writeln!(text, "{:<10} memory {} cycles", "", memory.beyond.latency);
    if memory.sample > 1 {
        let _ = writeln!(text, "sample     one page of {} is modelled", memory.sample);
    }
}

fn describe_caches(timing: &Timing, text: &mut String) {
    let Some(model) = &timing.caches else {
        let _ = writeln!(text, "caches     not modelled");
        return;
    };
    for ((level, name), number) in model.levels.iter().zip(LEVEL_NAMES).zip(0..) {
        let head = if number == 0 { "caches" } else { "" };
        let size = Bytes(level.bytes);
        let _ = writeln!(
            text,
            "{head:<10} {name} {size} in {} ways, {} cycles",
            level.ways, level.latency
        );
    }
    let _ = writeln!(text, "{:<10} memory {} cycles", "", model.memory);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::Scenario;

    fn timing(more: &str) -> Result<Option<Timing>, String> {
        let text = format!(
            "name = \"t\"\nimage = {{ recipe = \"r\" }}\nworkload = {{ command = \"true\" }}\n\
             [nodes]\ncount = 1\nmemory = \"256 MiB\"\nclock = \"2 GHz\"\n{more}"
        );
        let scenario = Scenario::parse(Path::new("t.toml"), &text, &[]);
        let scenario = scenario.map_err(|error| error.to_string())?;
        resolve(&scenario.nodes, Path::new("no/such/folder")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_time_model_is_what_the_scenario_says() {
        assert_eq!(timing(""), Ok(None));
        let uniform = timing("cycles-per-instruction = 1.5\ntiming = {}")
            .unwrap()
            .unwrap();
        assert_eq!(uniform.costs, Costs::uniform(1500));
        let model = timing(
            "timing.costs = { divide = 26, integer = 0.25 }\n\
             timing.caches = { l1d = { size = \"48 KiB\", ways = 12 }, memory-latency = 200 }",
        );
        let model = model.unwrap().unwrap();
        assert_eq!(model.costs.ticks(CostClass::Divide), 26_000);
        assert_eq!(model.costs.ticks(CostClass::Integer), 250);
        assert_eq!(
            model.costs.ticks(CostClass::Multiply),
            CostClass::Multiply.default_ticks()
        );
        let text = describe(&model);
        assert!(
            text.contains("divide 26,") && text.contains("integer 0.25"),
            "{text}"
        );
        assert!(
            text.contains("l1d 48 KiB in 12 ways") && text.contains("memory 200"),
            "{text}"
        );
    }

    #[test]
    fn a_processor_has_the_costs_of_instructions() {
        let model = timing("timing.processor = \"zen5\"").unwrap().unwrap();
        assert_eq!(model.processor.as_ref().unwrap().name, "zen5");
        let text = describe(&model);
        assert!(text.starts_with("processor  zen5 ("), "{text}");
        assert!(text.contains("l1d 48 KiB in 12 ways"), "{text}");
        assert!(!text.contains("divide"), "{text}");
        let core = timing("timing = { processor = \"zen5\", memory = false }")
            .unwrap()
            .unwrap();
        assert!(model.has_memory && !core.has_memory);
        assert!(describe(&core).contains("caches     not modelled"));
    }

    #[test]
    fn a_processor_that_was_never_measured_has_a_warning() {
        let model = timing("timing.processor = \"zen3\"").unwrap().unwrap();
        assert!(describe(&model).contains("), not measured"));
        let warnings = model.warnings();
        assert!(warnings[0].contains("nobody measured the processor file zen3"));
        let refused = timing("level = \"x86-64-v4\"\ntiming.processor = \"zen3\"").unwrap_err();
        assert!(refused.contains("nodes.level is x86-64-v4"), "{refused}");
    }

    #[test]
    fn a_sample_of_pages_has_smaller_caches_and_a_warning() {
        let model = timing("timing = { processor = \"zen5\", memory-sample = 8 }")
            .unwrap()
            .unwrap();
        let caches = &model.processor.as_ref().unwrap().caches;
        let sizes: Vec<u64> = caches
            .levels
            .iter()
            .map(|level| level.bytes >> 10)
            .collect();
        assert_eq!(sizes, [6, 128, 1024, 2048]);
        assert_eq!(
            (caches.translations.first, caches.translations.second),
            (12, 512)
        );
        let text = describe(&model);
        assert!(text.contains("l1d 48 KiB in 12 ways"), "{text}");
        assert!(text.contains("one page of 8 is modelled"), "{text}");
        let warnings = model.warnings();
        assert!(warnings[0].contains("memory-sample = 8"), "{warnings:?}");
        assert!(text.contains("), one page of 8,"), "{text}");
        let all = timing("timing = { processor = \"zen5\", memory-sample = 1 }");
        let all = all.unwrap().unwrap();
        assert!(all.warnings().is_empty());
        assert_eq!(all, timing("timing.processor = \"zen5\"").unwrap().unwrap());
    }

    #[test]
    fn a_processor_of_a_lower_level_than_the_guest_is_refused() {
        let path = std::env::temp_dir().join(format!("belljar-{}.toml", std::process::id()));
        let text = belljar_pipeline::processor::BUILT_IN[0].1;
        std::fs::write(&path, text.replace("\nlevel = 4", "\nlevel = 3")).unwrap();
        let with =
            |level: &str| timing(&format!("level = \"{level}\"\ntiming.processor = {path:?}"));
        let refused = with("x86-64-v4").unwrap_err();
        let model = with("x86-64-v3");
        std::fs::remove_file(&path).unwrap();
        assert!(refused.contains("nodes.level is x86-64-v4"), "{refused}");
        assert_eq!(model.unwrap().unwrap().processor.as_ref().unwrap().level, 3);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (more, named) in [
            ("timing.costs = { float = 1 }", "`float`"),
            ("timing.costs = { divide = 0.0001 }", "divide"),
            (
                "cycles-per-instruction = 2\ntiming.costs = {}",
                "cycles-per-instruction",
            ),
            (
                "timing.caches = { l1d = { size = \"48 KiB\", ways = 8 }, memory-latency = 9 }",
                "l1d",
            ),
            (
                "timing.caches = { l1d = { size = \"48 KiB\", ways = 12 } }",
                "memory-latency",
            ),
            ("timing.caches = { memory-latency = 9 }", "l1d"),
            (
                "timing = { processor = \"zen5\", costs = { divide = 9 } }",
                "nodes.timing.costs",
            ),
            (
                "cycles-per-instruction = 2\ntiming.processor = \"zen5\"",
                "nodes.cycles-per-instruction",
            ),
            (
                "timing = { processor = \"zen5\", caches = { l1d = { size = \"4 KiB\", ways = 1 }, memory-latency = 9 } }",
                "nodes.timing.caches",
            ),
            ("timing = { memory = true }", "nodes.timing.memory"),
            (
                "timing = { memory-sample = 8 }",
                "nodes.timing.memory-sample",
            ),
            (
                "timing = { processor = \"zen5\", memory-sample = 3 }",
                "nodes.timing.memory-sample is 3",
            ),
            (
                "timing = { processor = \"zen5\", memory-sample = 32 }",
                "1, 2, 4, 8 or 16",
            ),
            (
                "timing = { processor = \"zen5\", memory = false, memory-sample = 8 }",
                "nodes.timing.memory-sample",
            ),
            ("timing.processor = \"zen9\"", "`zen9`"),
            ("timing.processor = \"mine.toml\"", "mine.toml"),
            (
                "timing.caches = { l1d = { size = \"4 KiB\", ways = 1 }, memory-latency = 9, \
                 l3 = { size = \"4 KiB\", ways = 1, latency = 3 } }",
                "l3",
            ),
        ] {
            let error = timing(more).unwrap_err();
            assert!(error.contains(named), "{more}: {error}");
        }
    }
}
