//! The subcommands: from parsed arguments to the library, and from its results to the terminal.
//!
//! What is a result goes to standard output, all else to standard error. Errors are `anyhow` here, and
//! typed in the library. Called by `main`, which parses the arguments. The short subcommands are in this
//! file.

/// `belljar agent`: a host's part in a run that another host started.
pub(crate) mod agent;
/// Runs that scenarios play in the background.
mod background;
/// `belljar sbatch-script`: a batch script of Slurm's on nodes, as it is.
pub(crate) mod batch;
/// `belljar bisect`: prints the first instruction at which two runs differ.
pub(crate) mod bisect;
/// `belljar boot`: arguments to a plan of one node, its end to an exit code.
pub(crate) mod boot;
/// `belljar cache`: entries of the user's cache.
pub(crate) mod cache;
/// How a run ends for the one who started it.
mod conclusion;
/// `belljar watch` and `belljar console`.
pub(crate) mod look;
/// `belljar completions` and `belljar man`.
pub(crate) mod manual;
/// `belljar model`: models of programs, and runs that never were.
pub(crate) mod model;
/// `belljar mpirun`: a program of the user's own on nodes, without a scenario.
pub(crate) mod mpirun;
/// `belljar new`: a scenario to start from.
pub(crate) mod new;
/// Results on standard output.
mod output;
/// `belljar profile`: what processors were doing.
pub(crate) mod profile;
/// `belljar replay`: a traced job on another network.
pub(crate) mod replay;
/// `belljar report`: what is known of a run, as a page.
pub(crate) mod report;
/// `belljar run`, `belljar resume` and `belljar checkpoint`.
pub(crate) mod run;
/// `belljar runs`: an index of run directories.
pub(crate) mod runs;
/// `belljar simulate`: many jobs on one interconnect.
pub(crate) mod simulate;
/// `belljar submit`, and what it shares with `belljar sweep`.
pub(crate) mod submit;
/// `belljar sweep`: runs of one scenario with all combinations of some values, and their table.
pub(crate) mod sweep;
/// The user's terminal: notes, warnings, progress, colours and Ctrl-C.
pub(crate) mod terminal;
/// `belljar trace`, and the table that ends a run.
pub(crate) mod trace;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_cluster::doctor as examination;
use belljar_cluster::host::memory as host_memory;
use belljar_cluster::host::sandbox::Sandbox;
use belljar_cluster::hosts::Preview;
use belljar_cluster::plan::Plan;
use belljar_cluster::plan::run_disk;
use belljar_cluster::plan::template;
use belljar_cluster::scenario::engine::Engine;
use belljar_cluster::scenario::{Scenario, Standalone, schema};
use belljar_files::{read_input_text, write_file};
use belljar_images::{CacheError, ImageError, LockUse, Progress, Recipe};
use serde_json::json;

use crate::{BuildArguments, CheckArguments, ScenarioArguments, SchemaOf, SnapshotArguments};
pub(crate) use output::fit_for_terminal;
use output::{print, say};

/// A scenario, and what it takes to run it again.
fn read_scenario(arguments: &ScenarioArguments, more: &[String]) -> Result<(Scenario, Standalone)> {
    let path = &arguments.scenario;
    let text = read_input_text(path)
        .with_context(|| format!("cannot read the scenario {}", path.display()))?;
    let mut overrides = arguments.set.clone();
    overrides.extend(arguments.nodes.map(|nodes| format!("nodes.count={nodes}")));
    overrides.extend_from_slice(more);
    let full = std::path::absolute(path)?;
    let folder = full.parent().unwrap_or(Path::new("/"));
    let mut scenario = Scenario::parse(path, &text, &overrides)?;
    let mut own = Scenario::standalone(path, &text, &overrides, folder)?;
    background::prepare(&mut scenario, &mut own, folder)?;
    Ok((scenario, own))
}

/// A command's own exit code for that of what it ran.
fn exit_code(code: i32) -> ExitCode {
    match u8::try_from(code) {
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    }
}

/// `belljar check`.
pub(crate) fn check(arguments: &CheckArguments) -> Result<ExitCode> {
    let (scenario, _) = read_scenario(&arguments.scenario, &[])?;
    let plan = Plan::resolve(&scenario, &arguments.scenario.scenario)?;
    say(&plan)?;
    let hosts = run::with_arguments(scenario.hosts.clone(), &arguments.hosts)?;
    match Preview::new(&plan, &hosts)? {
        Some(preview) => say(preview)?,
        None => {
            say("hosts      this one alone")?;
            say(format!("memory     {}", {
                let memory = plan.memory_of(0..plan.nodes);
                host_memory::preview(plan.nodes, memory, plan.likely_memory(memory))
            }))?;
        }
    }
    if let Some(path) = &arguments.run_disk {
        let disk = run_disk::build(&plan, &plan.images[plan.kind_of(0).image])
            .context("cannot pack the workload's files")?;
        write_file(path, disk)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `belljar doctor`.
pub(crate) fn doctor(json: bool) -> Result<ExitCode> {
    let findings = examination::examine();
    match json {
        true => say(serde_json::to_string_pretty(&findings)?)?,
        false => print(examination::render(&findings))?,
    }
    let usable = findings
        .iter()
        .any(|finding| finding.good && finding.subject.starts_with("engine"));
    Ok(if usable {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `belljar schema`.
pub(crate) fn schema(of: SchemaOf) -> Result<ExitCode> {
    let schema = match of {
        SchemaOf::Scenario => schema::schema(),
        SchemaOf::Mix => schema::mix_schema(),
    };
    say(serde_json::to_string_pretty(&schema)?)?;
    Ok(ExitCode::SUCCESS)
}

/// `belljar snapshot`.
pub(crate) fn snapshot(arguments: &SnapshotArguments) -> Result<ExitCode> {
    let (scenario, _) = read_scenario(&arguments.scenario, &[])?;
    let plan = Plan::resolve(&scenario, &arguments.scenario.scenario)?;
    let several = plan.kinds().len() > 1;
    if arguments.out.is_some() && several {
        bail!(
            "a snapshot is of nodes that are alike; leave out --out, so that each group has its own"
        );
    }
    let sandbox = sandbox(arguments.no_sandbox, plan.engine)?;
    for (number, kind) in plan.kinds().iter().enumerate() {
        let path = match &arguments.out {
            Some(path) => path.clone(),
            None => template::path_of(&plan, kind)?,
        };
        template::write(&plan, number, sandbox.as_ref(), &path)?;
        say(path.display())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The sandbox for threads that run guests, unless it is not wanted.
fn sandbox(unwanted: bool, engine: Engine) -> Result<Option<Sandbox>> {
    if unwanted {
        return Ok(None);
    }
    let sandbox = Sandbox::new()?;
    Ok(Some(match engine {
        Engine::Exact => sandbox,
        Engine::Kvm => sandbox.with_kvm()?,
    }))
}

/// `belljar image build`.
pub(crate) fn build_image(arguments: &BuildArguments) -> Result<ExitCode> {
    let verbose = arguments.verbose;
    let missing = belljar_images::missing_tools();
    if !missing.is_empty() {
        let packages: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
        bail!(
            "images need tools that are not installed; apt install {}",
            packages.join(" ")
        );
    }
    let recipe = Recipe::load(&arguments.recipe)?;
    let locks = match (arguments.locked, arguments.keep_lock) {
        (true, _) => LockUse::Locked,
        (false, true) => LockUse::Keep,
        (false, false) => LockUse::Write,
    };
    let image = belljar_images::build(&recipe, locks, &mut |news| match news {
        Progress::Step { number, of, what } => note!("[{number}/{of}] {what}"),
        Progress::Detail(line) if verbose => note!("    {line}"),
        Progress::Detail(_) => {}
        Progress::Waiting => note!("waiting for another build of the same image"),
        Progress::Note(note) => note!("note: {note}"),
    })?;
    say(image.dir.display())?;
    Ok(ExitCode::SUCCESS)
}

/// `belljar image list`.
pub(crate) fn list_images(json: bool) -> Result<ExitCode> {
    let mut images = Vec::new();
    for (name, words) in belljar_images::built_in_recipes() {
        let recipe = Recipe::load(Path::new(name))?;
        let state = match belljar_images::locate(&recipe) {
            Ok(Some(_)) => "built",
            Ok(None) => "not built",
            Err(ImageError::Cache(CacheError::Image(_))) => "damaged",
            Err(error) => return Err(error.into()),
        };
        match json {
            true => images.push(json!({ "recipe": name, "state": state, "words": words })),
            false => say(format_args!("{name:<24} {state:<10} {words}"))?,
        }
    }
    if json {
        say(serde_json::to_string_pretty(&images)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `belljar image verify`.
pub(crate) fn verify_image(recipe: &Path) -> Result<ExitCode> {
    let again = format!("with: belljar image build {}", recipe.display());
    let image = match belljar_images::verify(&Recipe::load(recipe)?) {
        Err(error @ ImageError::Cache(CacheError::Image(_))) => {
            bail!("{error}; build the image again {again}")
        }
        image => image?,
    };
    let Some(image) = image else {
        bail!(
            "the image of {} is not built yet; build it {again}",
            recipe.display()
        );
    };
    let (dir, of) = (image.dir.display(), &image.manifest);
    for (path, part) in [
        (&image.kernel, &of.kernel),
        (&image.initrd, &of.initrd),
        (&image.root, &of.root),
    ] {
        let name = path.file_name().unwrap_or_default().display();
        say(format_args!("{}  {dir}/{name}", part.sha256))?;
    }
    Ok(ExitCode::SUCCESS)
}
