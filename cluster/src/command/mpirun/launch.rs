//! What `belljar mpirun` calls a run, and the command that starts its ranks.
//!
//! Called once the programs are found.

use std::collections::BTreeMap;
use std::path::PathBuf;

use belljar_cluster::mpirun::choose::{Choice, Source};
use belljar_cluster::mpirun::compose::shell_word;
use belljar_cluster::mpirun::request::Part;

/// The first program's name; of one that the image has, that of the script that it runs.
pub(super) fn name(choice: &Choice, parts: &[Part], files: &BTreeMap<String, PathBuf>) -> String {
    let program = choice.programs.first().zip(parts.first());
    let name = program.map_or("", |(program, part)| {
        let mut scripts = part.arguments.iter();
        let script = scripts.find(|word| files.contains_key(*word));
        match (&program.source, script) {
            (Source::Image, Some(script)) => script,
            _ => &program.name,
        }
    });
    let last = name.rsplit('/').next().unwrap_or("");
    match last.trim_start_matches('.') {
        "" => "mpirun".to_owned(),
        name => name.to_owned(),
    }
}

/// What starts the ranks.
pub(super) fn command(choice: &Choice, parts: &[Part], ranks: &[u32]) -> String {
    let parts = parts.iter().zip(ranks).zip(&choice.programs);
    let parts = parts.map(|((part, ranks), program)| {
        let name = match program.source {
            Source::Host(_) => format!("./{}", program.name),
            Source::Image => program.name.clone(),
        };
        let words = std::iter::once(&name).chain(&part.arguments);
        let words: Vec<String> = words.map(|word| shell_word(word)).collect();
        format!("-n {ranks} {}", words.join(" "))
    });
    let parts: Vec<String> = parts.collect();
    format!("{} {}", choice.launcher, parts.join(" : "))
}
