//! Standalone scenarios: with copies of all their files.
//!
//! A standalone scenario names no file elsewhere except the image's recipe, so it runs the same from
//! another folder or host. Called by the commands that put a scenario into a run directory or a job's
//! folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::background::name_of;
use super::recorded::name_defaults;
use super::{FileSource, FilesError, Scenario, ScenarioError, TopologyKind, expand, overridden};

/// A movable scenario, with its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standalone {
    /// Its text. The image's recipe, which names further files, has its absolute path, or the name of a
    /// built-in one.
    pub text: String,
    /// Files next to it, and their names there.
    pub inputs: Vec<(PathBuf, String)>,
}

/// The folder next to a standalone scenario with its files.
const INPUTS: &str = "inputs";

impl Scenario {
    /// The files of a standalone scenario, by their names next to it.
    pub fn inputs(&self) -> Vec<String> {
        let files = self
            .workload
            .files
            .values()
            .filter_map(|source| match source {
                FileSource::Path(path) => Some(path.as_path()),
                FileSource::Text { .. } => None,
            });
        let graph = match &self.network.topology {
            TopologyKind::Graphml(file) => Some(file.as_path()),
            _ => None,
        };
        let tables = self.network.tables.as_deref();
        let jobs = self.background.iter().map(|it| it.run.as_path());
        let kinds = self.nodes.kinds(self.workload.ranks_per_node);
        let processors: Vec<PathBuf> = kinds
            .iter()
            .filter_map(|(nodes, _)| nodes.timing.as_ref()?.processor.as_ref())
            .filter(|name| is_file(name))
            .map(PathBuf::from)
            .collect();
        let named = files
            .chain(graph)
            .chain(tables)
            .chain(jobs)
            .chain(processors.iter().map(PathBuf::as_path))
            .filter_map(Path::to_str);
        named.map(str::to_owned).collect()
    }

    /// Makes a standalone copy of a scenario in `folder`, with `overrides` applied.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn standalone(
        path: &Path,
        text: &str,
        overrides: &[String],
        folder: &Path,
    ) -> Result<Standalone, ScenarioError> {
        let mut table = overridden(path, text, overrides)?;
        name_defaults(&mut table);
        let mut inputs = Vec::new();
        let mut take_in = |value: &mut toml::Value, name: String| {
            if let toml::Value::String(path) = value {
                inputs.push((folder.join(&*path), name.clone()));
                *path = name;
            }
        };
        place_images(&mut table, folder);
        if let Some(network) = table.get_mut("network") {
            let graph = network.get_mut("topology");
            if let Some(file) = graph.and_then(|topology| topology.get_mut("graphml")) {
                take_in(file, format!("{INPUTS}/network.graphml"));
            }
            if let Some(file) = network.get_mut("tables") {
                take_in(file, format!("{INPUTS}/network.tables"));
            }
        }
        for (name, processor) in processors(&mut table) {
            take_in(processor, name);
        }
        if let Some(toml::Value::Array(jobs)) = table.get_mut("background") {
            for (number, job) in jobs.iter_mut().enumerate() {
                let Some(job) = job.as_table_mut() else {
                    continue;
                };
                let Some(run) = job.get_mut("run") else {
                    continue;
                };
                let name = name_of(Path::new(run.as_str().unwrap_or_default()));
                take_in(run, job_name(number));
                job.entry("name").or_insert(toml::Value::String(name));
            }
        }
        let files = table
            .get_mut("workload")
            .and_then(|workload| workload.get_mut("files"));
        if let Some(toml::Value::Table(files)) = files {
            replace_together(files, folder)?;
            for (name, value) in files {
                take_in(value, format!("{INPUTS}/files/{name}"));
            }
        }
        let text = toml::to_string(&table).map_err(|error| ScenarioError::Parse {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Standalone { text, inputs })
    }
}

/// True for a processor that is a file, and not a built-in one.
fn is_file(processor: &str) -> bool {
    Path::new(processor).extension().is_some()
}

/// The files of processors of a scenario's time models, and their names next to a standalone scenario.
fn processors(table: &mut toml::Table) -> Vec<(String, &mut toml::Value)> {
    let Some(nodes) = table.get_mut("nodes").and_then(toml::Value::as_table_mut) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, value) in nodes {
        match (key.as_str(), value) {
            ("timing", timing) => found.push((format!("{INPUTS}/processor.toml"), timing)),
            ("group", toml::Value::Array(groups)) => {
                let timings = groups.iter_mut().map(|group| group.get_mut("timing"));
                let named = timings.enumerate().filter_map(|(number, timing)| {
                    Some((format!("{INPUTS}/processor-{number}.toml"), timing?))
                });
                found.extend(named);
            }
            _ => {}
        }
    }
    let processors = found.into_iter().filter_map(|(name, timing)| {
        let processor = timing.get_mut("processor")?;
        processor
            .as_str()
            .is_some_and(is_file)
            .then_some((name, processor))
    });
    processors.collect()
}

/// Makes the paths of all images' recipes absolute, except for built-in ones.
fn place_images(table: &mut toml::Table, folder: &Path) {
    let place = |holder: &mut toml::Value| {
        if let Some(toml::Value::String(recipe)) = holder.get_mut("recipe")
            && let Some(full) = belljar_images::place(folder, Path::new(&*recipe)).to_str()
        {
            *recipe = full.to_owned();
        }
    };
    table.get_mut("image").map(place);
    let groups = table.get_mut("nodes").and_then(|it| it.get_mut("group"));
    if let Some(toml::Value::Array(groups)) = groups {
        for image in groups.iter_mut().filter_map(|it| it.get_mut("image")) {
            place(image);
        }
    }
}

/// The name of a background job next to a standalone scenario.
pub fn job_name(number: usize) -> String {
    format!("{INPUTS}/background-{number}.job")
}

/// Replaces folders and patterns with single files.
fn replace_together(files: &mut toml::Table, folder: &Path) -> Result<(), FilesError> {
    let paths = files.iter().filter_map(|(name, value)| {
        let path = FileSource::Path(value.as_str()?.into());
        Some((name.clone(), path))
    });
    let paths: BTreeMap<String, FileSource> = paths.collect();
    let all = expand(&paths, folder)?;
    files.retain(|name, _| !paths.contains_key(name));
    for (name, source) in all {
        if let FileSource::Path(path) = source {
            let path = path.to_string_lossy().into_owned();
            files.insert(name, toml::Value::String(path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::tests::SMALL;

    #[test]
    fn a_standalone_text_says_the_same_from_anywhere() {
        let text = format!(
            "{SMALL}\n[workload.files]\nprogram = \"bin/program\"\nnote = {{ text = \"x\" }}\n"
        )
        .replace(
            "workload = { command = \"true\" }",
            "[workload]\ncommand = \"true\"",
        );
        let overrides = ["nodes.count=4".to_owned()];
        let path = Path::new("small.toml");
        let own = Scenario::standalone(path, &text, &overrides, Path::new("/where")).unwrap();
        let scenario = Scenario::parse(path, &own.text, &[]).unwrap();
        assert_eq!(scenario.nodes.count(), 4);
        assert_eq!(scenario.image.recipe, Path::new("/where/r.toml"));
        let files = &scenario.workload.files;
        assert_eq!(
            files["program"],
            FileSource::Path("inputs/files/program".into())
        );
        let inputs = [("/where/bin/program".into(), "inputs/files/program".into())];
        assert_eq!(own.inputs, inputs);
        assert_eq!(files["note"], FileSource::Text { text: "x".into() });
        let built_in = ["image.recipe=\"bookworm-mpich\"".to_owned()];
        let own = Scenario::standalone(path, &text, &built_in, Path::new("/where")).unwrap();
        let scenario = Scenario::parse(path, &own.text, &[]).unwrap();
        assert_eq!(scenario.image.recipe, Path::new("bookworm-mpich"));
    }
}
