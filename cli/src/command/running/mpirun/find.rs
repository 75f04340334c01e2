//! All that a request takes: nodes, programs, files and variables.
//!
//! Called by `belljar mpirun` before its scenario is made.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use belljar_cli::mpirun::choose::{ImageChoice, ProgramOrigin, RequestedPrograms, name_in_guest};
use belljar_cli::mpirun::compose::LIBRARIES;
use belljar_cli::mpirun::request::host_file::{host_file, host_lines, host_list, rank_file};
use belljar_cli::mpirun::request::policy::{map_by, rank_by};
use belljar_cli::mpirun::request::{self, ProgramRequest, RankMapping, Wishes};

use super::launch::{Ranks, command, name};
use super::{MpirunArguments, ResolvedRequest, add, image, take_in};

/// Resolves the nodes, programs, files and variables of a request.
pub(super) fn find(arguments: &MpirunArguments) -> Result<ResolvedRequest> {
    if let Some(why) = arguments.refused.first() {
        bail!("{why}");
    }
    let parts = parts(arguments)?;
    let wishes = wishes(arguments)?;
    let cpus_per_rank = arguments
        .cpus_per_rank
        .or(wishes.mapping.processors)
        .unwrap_or(1);
    let (layout, ranks) = request::layout(&parts, &wishes)?;
    let folders = parts.iter().map(guest_folder).collect::<Result<Vec<_>>>()?;
    let mut files = BTreeMap::new();
    for wish in &arguments.machine.file {
        take_in(wish, &mut files)?;
    }
    let of_image = folders
        .iter()
        .flatten()
        .filter(|folder| !is_brought(folder, &parts, &files));
    let of_image: Vec<String> = of_image.cloned().collect();
    let asked = RequestedPrograms {
        parts: &parts,
        files: &files,
        folders: &of_image,
        by_launcher: true,
    };
    let choice = image(&arguments.machine, asked)?;
    bring(&choice, &parts, &mut files)?;
    let vcpus = layout
        .processors
        .unwrap_or(layout.ranks_per_node)
        .saturating_mul(cpus_per_rank);
    if vcpus > 64 && cpus_per_rank > 1 {
        bail!(
            "{vcpus} processors of a node are more than 64: lower --cpus-per-rank, or the ranks of a node"
        );
    }
    let (shared, own) = environments(&parts)?;
    let ranks = Ranks {
        counts: &ranks,
        environments: &own,
        folders: &folders,
        placement: &layout.placement,
        is_tagged: arguments.tag_output,
    };
    let mut notes = choice.notices.clone();
    notes.extend(absent_files(&parts, &files));
    let ignored = parts.iter().flat_map(|part| part.ignored.iter().cloned());
    Ok(ResolvedRequest {
        made_by: "belljar mpirun",
        name: name(&choice, &parts, &files),
        command: command(&choice, &parts, &ranks)?,
        vcpus: vcpus.min(64),
        layout,
        memory: None,
        slurm: None,
        cpus_per_rank,
        environment: shared,
        notes,
        warnings: ignored.chain(choice.warnings.iter().cloned()).collect(),
        files,
        choice,
    })
}

/// The programs, the first one with the options of the command line.
fn parts(arguments: &MpirunArguments) -> Result<Vec<ProgramRequest>> {
    let mut parts = request::parts(&arguments.program, arguments.ranks)?;
    if let Some(first) = parts.first_mut() {
        first
            .environment
            .extend(arguments.environment.iter().cloned());
        first.shared.extend(arguments.genv.iter().cloned());
        first.folder.clone_from(&arguments.wdir);
        first.ignored.extend(arguments.ignored.iter().cloned());
    }
    Ok(parts)
}

/// Requests about nodes and the order of ranks.
fn wishes(arguments: &MpirunArguments) -> Result<Wishes> {
    let mut mapping = RankMapping {
        oversubscribe: arguments.oversubscribe,
        ..RankMapping::default()
    };
    if let Some(text) = &arguments.map_by {
        map_by(text, &mut mapping)?;
    }
    mapping.rank = arguments.rank_by.as_deref().map(rank_by).transpose()?;
    let read = |path: &Path, what: &str| {
        fs::read_to_string(path)
            .with_context(|| format!("cannot read the {what} {}", path.display()))
    };
    let hosts_text = arguments
        .hostfile
        .as_deref()
        .map(|path| read(path, "host file"))
        .transpose()?;
    let hosts = match &hosts_text {
        Some(text) => Some(host_file(text)?),
        None if arguments.host.is_empty() => None,
        None => Some(host_list(&arguments.host)?),
    };
    let rank_path = arguments
        .rankfile
        .clone()
        .or(mapping.rank_file.clone().map(PathBuf::from));
    let rank_hosts = match (&rank_path, &hosts_text) {
        (Some(path), _) => Some(rank_file(&read(path, "rankfile")?)?),
        (None, Some(text)) if mapping.sequential => Some(
            host_lines(text)?
                .into_iter()
                .map(|host| host.name)
                .collect(),
        ),
        (None, None) if mapping.sequential => {
            bail!("--map-by seq: name a file with a host for each rank by --hostfile")
        }
        (None, _) => None,
    };
    Ok(Wishes {
        nodes: arguments.nodes,
        ranks_per_node: arguments.ranks_per_node,
        hosts,
        mapping,
        rank_hosts,
    })
}

/// The folder of nodes that a program runs in: one below this folder is below `/root`, any other is the image's.
fn guest_folder(part: &ProgramRequest) -> Result<Option<String>> {
    let Some(folder) = &part.folder else {
        return Ok(None);
    };
    let here = env::current_dir()?;
    let path = Path::new(folder);
    let below = match path.strip_prefix(&here) {
        Ok(below) => below,
        Err(_) if path.is_absolute() => return Ok(Some(folder.clone())),
        Err(_) => path,
    };
    let leads_up = |part| matches!(part, Component::ParentDir);
    if below.components().any(leads_up) {
        bail!("--wdir {folder}: give a folder below this one, or an absolute path in the image");
    }
    let name = name_in_guest(below);
    Ok((!name.is_empty()).then(|| format!("/root/{name}")))
}

/// True if files of the run, or a program, are in this folder of nodes.
fn is_brought(folder: &str, parts: &[ProgramRequest], files: &BTreeMap<String, PathBuf>) -> bool {
    let programs = parts.iter().map(|part| part.path_here(&part.program));
    let programs = programs.filter(|path| path.is_file() && path.is_relative());
    let mut names = programs
        .map(|path| name_in_guest(&path))
        .chain(files.keys().cloned());
    let below = folder.strip_prefix("/root/").map(|name| format!("{name}/"));
    below.is_some_and(|start| names.any(|name| name.starts_with(&start)))
}

/// Adds programs, the scripts of interpreters, and libraries.
fn bring(
    choice: &ImageChoice,
    parts: &[ProgramRequest],
    files: &mut BTreeMap<String, PathBuf>,
) -> Result<()> {
    for (program, part) in choice.programs.iter().zip(parts) {
        match &program.source {
            ProgramOrigin::Host(path) => add(files, &program.name, path)?,
            // The script of an interpreter is a file here.
            ProgramOrigin::Image => {
                let script = part.arguments.iter().find(|word| !word.starts_with('-'));
                let path = script.map(|word| part.path_here(word));
                if let Some(path) = path.filter(|path| path.is_file() && !path.is_absolute()) {
                    add(files, &name_in_guest(&path), &path)?;
                }
            }
        }
    }
    for (name, path) in &choice.libraries {
        add(files, &format!("{LIBRARIES}/{name}"), path)?;
    }
    Ok(())
}

type Variables = BTreeMap<String, String>;

/// Variables of all ranks, and of each program alone. The variables of a single program are in the scenario,
/// too.
fn environments(parts: &[ProgramRequest]) -> Result<(Variables, Vec<Variables>)> {
    let mut shared = Variables::new();
    for part in parts {
        shared.extend(variables(&part.shared)?);
    }
    let own = parts.iter().map(|part| variables(&part.environment));
    let mut own = own.collect::<Result<Vec<_>>>()?;
    if let [alone] = &mut own[..] {
        shared.append(alone);
    }
    Ok((shared, own))
}

/// Returns the named variables with their values.
fn variables(wishes: &[String]) -> Result<Variables> {
    let pair = |wish: &String| match wish.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match env::var(wish) {
            Ok(value) => Ok((wish.clone(), value)),
            Err(_) => bail!("-x {wish}: it is not set here; write -x {wish}=VALUE"),
        },
    };
    wishes.iter().map(pair).collect()
}

/// Arguments that name files of this host, which nodes lack.
fn absent_files(parts: &[ProgramRequest], files: &BTreeMap<String, PathBuf>) -> Vec<String> {
    let words = parts
        .iter()
        .flat_map(|part| part.arguments.iter().map(|word| part.path_here(word)));
    let absent = words.filter(|path| path.is_file() && !files.contains_key(&name_in_guest(path)));
    absent
        .map(|path| {
            let word = path.display();
            format!("{word} is a file here, and nodes do not have it: add --file {word}")
        })
        .collect()
}
