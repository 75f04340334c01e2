//! `belljar image`: builds, lists and verifies guest images.
//!
//! The cache gets an image only when its build is complete. Called by `main`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use belljar_images::{BuildProgress, CacheError, ImageError, LockUse, Recipe};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::command::arguments::JsonArguments;
use crate::command::output::say;

#[derive(Subcommand)]
pub(crate) enum ImageCommand {
    /// Build a recipe's image into the cache.
    Build(BuildArguments),
    /// List the built-in recipes and the state of their images.
    List(JsonArguments),
    /// Compare a built image with its digests.
    ///
    /// It reads the whole image from the disk; runs check only files that were written to since.
    Verify {
        /// Recipe file, or name of a built-in recipe.
        #[arg(default_value = "bookworm-mpich")]
        recipe: PathBuf,
    },
}

#[derive(Args)]
pub(crate) struct BuildArguments {
    /// Recipe file, or name of a built-in recipe.
    #[arg(default_value = "bookworm-mpich")]
    pub(crate) recipe: PathBuf,
    /// Refuse packages that differ from the recipe's lock.
    #[arg(long, conflicts_with = "keep_lock")]
    pub(crate) locked: bool,
    /// Keep the recipe's lock unchanged.
    ///
    /// The image's folder has its own lock.
    #[arg(long)]
    pub(crate) keep_lock: bool,
    /// Show the output of the build tools.
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// `belljar image`.
pub(crate) fn image(command: &ImageCommand) -> Result<ExitCode> {
    match command {
        ImageCommand::Build(arguments) => build(arguments),
        ImageCommand::List(arguments) => list(arguments.json),
        ImageCommand::Verify { recipe } => verify(recipe),
    }
}

fn build(arguments: &BuildArguments) -> Result<ExitCode> {
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
        BuildProgress::Step { number, of, what } => note!("[{number}/{of}] {what}"),
        BuildProgress::Detail(line) if verbose => note!("    {line}"),
        BuildProgress::Detail(_) => {}
        BuildProgress::Waiting => note!("waiting for another build of the same image"),
        BuildProgress::Note(note) => note!("note: {note}"),
    })?;
    say(image.dir.display())?;
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> Result<ExitCode> {
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

fn verify(recipe: &Path) -> Result<ExitCode> {
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
    let dir = image.dir.display();
    for (name, _, part) in image.parts() {
        say(format_args!("{}  {dir}/{name}", part.sha256))?;
    }
    Ok(ExitCode::SUCCESS)
}
