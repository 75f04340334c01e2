//! The name of a run, and the command that starts its ranks.
//!
//! Called once the programs are found.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Result, bail};
use belljar_cli::mpirun::choose::{ImageChoice, ProgramOrigin};
use belljar_cli::mpirun::compose::shell_word;
use belljar_cli::mpirun::request::{Placement, ProgramRequest};
use belljar_workload::Mpi;

/// The first program's name; for an interpreter of the image, the name of its script.
pub(super) fn name(
    choice: &ImageChoice,
    parts: &[ProgramRequest],
    files: &BTreeMap<String, PathBuf>,
) -> String {
    let program = choice.programs.first().zip(parts.first());
    let name = program.map_or("", |(program, part)| {
        let mut scripts = part.arguments.iter();
        let script = scripts.find(|word| files.contains_key(*word));
        match (&program.source, script) {
            (ProgramOrigin::Image, Some(script)) => script,
            _ => &program.name,
        }
    });
    let last = name.rsplit('/').next().unwrap_or("");
    match last.trim_start_matches('.') {
        "" => "mpirun".to_owned(),
        name => name.to_owned(),
    }
}

/// Ranks of the programs, with variables and folders of each.
pub(super) struct Ranks<'a> {
    /// Their number.
    pub(super) counts: &'a [u32],
    /// Variables of each.
    pub(super) environments: &'a [BTreeMap<String, String>],
    /// Folders of nodes that they run in.
    pub(super) folders: &'a [Option<String>],
    /// Words to the launcher for their order.
    pub(super) placement: &'a Placement,
    /// True if each line of output begins with its rank.
    pub(super) is_tagged: bool,
}

/// Path on node 0 of the list of the ranks' nodes.
const SEQUENCE: &str = "/tmp/belljar-sequence";

/// Returns the command that starts the ranks.
///
/// # Errors
/// When the launcher has no words for their order.
pub(super) fn command(
    choice: &ImageChoice,
    parts: &[ProgramRequest],
    ranks: &Ranks<'_>,
) -> Result<String> {
    let parts = parts.iter().enumerate().zip(&choice.programs);
    let parts = parts.map(|((at, part), program)| {
        let mut words = local_words(choice, ranks, at);
        words.extend(["-n".to_owned(), ranks.counts[at].to_string()]);
        words.push(match (&program.source, &ranks.folders[at]) {
            (ProgramOrigin::Host(_), Some(_)) => format!("/root/{}", program.name),
            (ProgramOrigin::Host(_), None) => format!("./{}", program.name),
            (ProgramOrigin::Image, _) => program.name.clone(),
        });
        words.extend(part.arguments.iter().cloned());
        let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
        words.join(" ")
    });
    let parts: Vec<String> = parts.collect();
    let (before, words) = placed(choice, ranks.placement)?;
    let tagged = match (ranks.is_tagged, choice.launcher) {
        (false, _) => "",
        (true, "prterun") => " --output tag",
        (true, _) if choice.mpi == Mpi::Mpich => " -prepend-rank",
        (true, _) => " --tag-output",
    };
    Ok(format!(
        "{before}{}{tagged}{words} {}",
        choice.launcher,
        parts.join(" : ")
    ))
}

/// Options of one program: its folder and its variables.
fn local_words(choice: &ImageChoice, ranks: &Ranks<'_>, at: usize) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(folder) = &ranks.folders[at] {
        let option = if choice.mpi == Mpi::Mpich {
            "-wdir"
        } else {
            "--wdir"
        };
        words.extend([option.to_owned(), folder.clone()]);
    }
    for (name, value) in &ranks.environments[at] {
        match choice.mpi {
            Mpi::Mpich => words.extend(["-env".to_owned(), name.clone(), value.clone()]),
            Mpi::OpenMpi => words.extend(["-x".to_owned(), format!("{name}={value}")]),
        }
    }
    words
}

/// A line before the launcher, and its words, for an order of ranks.
fn placed(choice: &ImageChoice, placement: &Placement) -> Result<(String, String)> {
    let none = String::new;
    Ok(match (placement, choice.mpi) {
        (Placement::Slots, _) => (none(), none()),
        (Placement::Cyclic, Mpi::Mpich) => (none(), " -ppn 1".to_owned()),
        (Placement::Cyclic, Mpi::OpenMpi) => (none(), " --map-by node".to_owned()),
        (Placement::Listed(nodes), Mpi::OpenMpi) => {
            let names = nodes.iter().map(|node| format!("node{node}"));
            let names = names.collect::<Vec<_>>().join(" ");
            let before = format!("printf '%s\\n' {names} >{SEQUENCE}\n");
            (before, format!(" --map-by seq --hostfile {SEQUENCE}"))
        }
        (Placement::Listed(nodes), Mpi::Mpich) => match in_turn(nodes) {
            Some(hosts) => (none(), format!(" -hosts {hosts}")),
            None => bail!(
                "the order of ranks: MPICH's launcher supports only consecutive ranks on a node, or one rank to each node in turn; sort the file by hosts, or use Open MPI"
            ),
        },
    })
}

/// Hosts and their ranks in Hydra's form, if the ranks of each node are consecutive.
fn in_turn(nodes: &[u32]) -> Option<String> {
    let runs = nodes.chunk_by(|one, next| one == next);
    let runs: Vec<(u32, usize)> = runs.map(|run| (run[0], run.len())).collect();
    let mut seen: Vec<u32> = runs.iter().map(|(node, _)| *node).collect();
    seen.sort_unstable();
    seen.dedup();
    let hosts = runs
        .iter()
        .map(|(node, ranks)| format!("node{node}:{ranks}"));
    (seen.len() == runs.len()).then(|| hosts.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_in_another_order_are_named_once() {
        assert_eq!(in_turn(&[1, 1, 0]).as_deref(), Some("node1:2,node0:1"));
        assert_eq!(in_turn(&[1]).as_deref(), Some("node1:1"));
        assert_eq!(in_turn(&[1, 0, 1]), None);
    }
}
