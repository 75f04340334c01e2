//! Picks the image that fits some programs: their MPI, glibc, interpreters and libraries.
//!
//! Each image is tried as the nodes would see it; an unsuitable image has a reason. Among
//! suitable images, one made for that MPI comes first (`bookworm-mpich` and similar), then one
//! with most of the libraries, then the smallest. Called by `belljar mpirun`.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Component, Path, PathBuf};

use belljar_images::{Image, Recipe};

use super::request::ProgramRequest;
use belljar_workload::host_loader::read_binary;
use belljar_workload::library::{Closure, Object};
use belljar_workload::{GuestRoot, HostLoader, Mpi, ProgramError};

/// One image, tried with the programs of a request.
mod trial;

use trial::Trial;

/// Reason why no image can run the programs.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// A program cannot run on the given image.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// No such file.
    #[error(
        "there is no file {0} to run; give a program of the image by its name alone, or by its absolute path"
    )]
    NoSuch(String),
    /// A name that no image has.
    #[error(
        "no program `{0}` is in the image{1}; for a file of this machine write its path, such as ./{0}"
    )]
    Unknown(String, String),
    /// Not a program.
    #[error("{0} is neither an ELF program nor a script with a first line such as #!/bin/sh")]
    NoProgram(PathBuf),
    /// The programs belong to several implementations.
    #[error(
        "the programs are linked to both MPICH and Open MPI; one launcher can start programs of only one"
    )]
    Several,
    /// A folder to run in.
    #[error(
        "--wdir: nodes have no folder {0} (image {1}); bring files into a folder below this one with --file, or leave --wdir out"
    )]
    Folder(String, String),
    /// No MPI to launch ranks.
    #[error("the image {0} has no MPI whose launcher could start ranks")]
    NoMpi(String),
    /// No suitable image, with the reason of the best one.
    #[error("no image can run this; the most suitable one: {nearest}{unbuilt}")]
    None {
        /// The reason of the best image.
        nearest: String,
        /// Recipes whose images are not built yet, as text.
        unbuilt: String,
    },
    /// No recipes.
    #[error("there is no folder images/ with recipes here or above; name one with --image RECIPE")]
    NoRecipes,
}

impl ChoiceError {
    /// The rank of an image with this reason, to find the most suitable one.
    fn nearness(&self) -> u8 {
        match self {
            Self::Folder(..) => 5,
            Self::Program(ProgramError::Missing { .. }) => 4,
            Self::Program(ProgramError::Version { .. }) => 3,
            Self::Program(ProgramError::Interpreter { .. }) => 2,
            Self::Program(_) => 1,
            _ => 0,
        }
    }

    /// True if the reason applies to every image.
    fn is_everywhere(&self) -> bool {
        matches!(
            self,
            Self::NoProgram(_)
                | Self::Several
                | Self::NoSuch(_)
                | Self::Program(ProgramError::Machine { .. } | ProgramError::Mixed { .. })
        )
    }
}

/// Origin of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramOrigin {
    /// A file of this host, which the run brings.
    Host(PathBuf),
    /// A program of the image.
    Image,
}

/// A program for the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchedProgram {
    /// Its origin.
    pub source: ProgramOrigin,
    /// Its name in the folder `/root`, or its name in the image.
    pub name: String,
}

/// An image and launcher for some programs.
#[derive(Clone, Debug)]
pub struct ImageChoice {
    /// The recipe.
    pub recipe: PathBuf,
    /// Its image.
    pub image: Image,
    /// The MPI that starts them; under Slurm any one if they need none.
    pub mpi: Mpi,
    /// The name of the launcher.
    pub launcher: &'static str,
    /// The programs, in order.
    pub programs: Vec<LaunchedProgram>,
    /// Libraries of this host that the run brings, by name.
    pub libraries: BTreeMap<String, PathBuf>,
    /// The programs in words.
    pub lines: Vec<String>,
    /// Remarks, such as the choice between two programs of one name.
    pub notices: Vec<String>,
    /// Libraries that differ between nodes and this host.
    pub warnings: Vec<String>,
    /// Modules that scripts import and the image lacks.
    lacking: usize,
}

/// Programs to run, and files to bring for them.
#[derive(Clone, Copy, Debug)]
pub struct RequestedPrograms<'a> {
    /// The programs.
    pub parts: &'a [ProgramRequest],
    /// Files that the run brings, by name.
    pub files: &'a BTreeMap<String, PathBuf>,
    /// Folders of the image that programs run in.
    pub folders: &'a [String],
    /// True if a launcher of the image's MPI starts them, false if Slurm does.
    pub by_launcher: bool,
}

/// The launcher of Slurm.
const SLURM_LAUNCHER: &str = "srun";

/// The paths of available recipes. They are the recipes of the nearest folder `images`, searched
/// upward from this folder, then from this program's. Built-in recipes follow if their names are
/// not among them.
pub fn recipes() -> Vec<PathBuf> {
    let here = env::current_dir().ok();
    let program = env::current_exe().ok();
    let starts = [here, program].into_iter().flatten();
    let folders = starts.flat_map(|start| {
        let above: Vec<PathBuf> = start
            .ancestors()
            .map(|above| above.join("images"))
            .collect();
        above
    });
    let mut listed = folders.map(|folder| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths
            .retain(|path| path.extension() == Some("toml".as_ref()) && Recipe::load(path).is_ok());
        paths.sort();
        paths
    });
    let mut recipes = listed.find(|paths| !paths.is_empty()).unwrap_or_default();
    let names = belljar_images::built_in_recipes().map(|(name, _)| name);
    let is_new = |name: &&str| {
        let mut stems = recipes.iter().filter_map(|path| path.file_stem());
        !stems.any(|stem| stem == *name)
    };
    let built_in: Vec<PathBuf> = names.filter(is_new).map(PathBuf::from).collect();
    recipes.extend(built_in);
    recipes
}

/// Selects one of `recipes`; recipes without a built image are left out.
///
/// # Errors
/// The reasons of all images if none fits.
pub fn choose(
    recipes: &[PathBuf],
    asked: RequestedPrograms<'_>,
    host: &HostLoader,
) -> Result<ImageChoice, ChoiceError> {
    let mut best: Option<((usize, bool, usize, u64), ImageChoice)> = None;
    let mut nearest: Option<ChoiceError> = None;
    let mut unbuilt = Vec::new();
    let linked = linked(asked, host)?;
    for path in recipes {
        let Ok(recipe) = Recipe::load(path) else {
            continue;
        };
        let Ok(Some(image)) = belljar_images::locate(&recipe) else {
            let has_it = |mpi: Mpi| mpi.is_in(recipe.packages());
            let fits = match linked {
                Some(mpi) => has_it(mpi),
                None => Mpi::ALL.into_iter().any(has_it),
            };
            unbuilt.extend(fits.then(|| path.display().to_string()));
            continue;
        };
        match try_image(path, recipe.name(), image, asked, host) {
            Ok(choice) => {
                let is_named = recipe
                    .name()
                    .ends_with(&format!("-{}", choice.mpi.short_name()));
                let size = choice.image.manifest.root.size;
                let rank = (choice.lacking, !is_named, choice.libraries.len(), size);
                if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                    best = Some((rank, choice));
                }
            }
            // Base images of containers cannot run programs themselves.
            Err(ChoiceError::Program(ProgramError::NoShell(_))) => {}
            Err(error) if error.is_everywhere() => return Err(error),
            Err(error) => {
                let least = nearest.as_ref().map(ChoiceError::nearness);
                if least.is_none_or(|least| error.nearness() > least) {
                    nearest = Some(error);
                }
            }
        }
    }
    match (best, nearest) {
        (Some((_, choice)), _) => Ok(choice),
        (None, Some(ChoiceError::Unknown(name, _))) => {
            Err(ChoiceError::Unknown(name, "s that are built".to_owned()))
        }
        (None, nearest) => Err(none(nearest, &unbuilt)),
    }
}

fn none(nearest: Option<ChoiceError>, unbuilt: &[String]) -> ChoiceError {
    // Recipes for users' own programs, if there are any.
    let is_general = |path: &&String| {
        let name = path.trim_end_matches(".toml");
        ["-mpich", "-openmpi"].iter().any(|end| name.ends_with(end))
    };
    let general: Vec<&String> = unbuilt.iter().filter(is_general).collect();
    let named = match general.is_empty() {
        true => unbuilt.iter().collect(),
        false => general,
    };
    let named: Vec<&str> = named.into_iter().map(String::as_str).collect();
    let hint = format!("belljar image build {}", named.join(" or "));
    match (nearest, named.is_empty()) {
        (None, true) => ChoiceError::NoRecipes,
        (None, false) => ChoiceError::None {
            nearest: "none is built yet".to_owned(),
            unbuilt: format!("; build one with: {hint}"),
        },
        (Some(reason), is_all) => ChoiceError::None {
            nearest: reason.to_string(),
            unbuilt: match is_all {
                true => String::new(),
                false => format!("; one that is not built may do: {hint}"),
            },
        },
    }
}

/// Tries the image of the recipe at `recipe`, with the name `name`.
///
/// # Errors
/// The reason why it cannot run the programs.
pub fn try_image(
    recipe: &Path,
    name: &str,
    image: Image,
    asked: RequestedPrograms<'_>,
    host: &HostLoader,
) -> Result<ImageChoice, ChoiceError> {
    linked(asked, host)?;
    let root = GuestRoot::open(&image)?;
    let mut trial = Trial::new(&root, name, host);
    if !root.has_shell() {
        return Err(ProgramError::NoShell(name.to_owned()).into());
    }
    let programs = asked.parts.iter().map(|part| trial.program(part));
    let programs = programs.collect::<Result<Vec<_>, _>>()?;
    for (name, path) in asked.files {
        trial.file(name, path)?;
    }
    if let Some(folder) = asked.folders.iter().find(|folder| !root.has_folder(folder)) {
        return Err(ChoiceError::Folder(folder.clone(), name.to_owned()));
    }
    let (mpi, launcher) = match trial.launched_by() {
        Err(ChoiceError::NoMpi(_)) if !asked.by_launcher => (Mpi::Mpich, SLURM_LAUNCHER),
        Err(error) => return Err(error),
        Ok(mpi) if !asked.by_launcher => (mpi, SLURM_LAUNCHER),
        Ok(mpi) => {
            let launcher = root.launcher(mpi);
            (
                mpi,
                launcher.ok_or_else(|| ChoiceError::NoMpi(name.to_owned()))?,
            )
        }
    };
    let (libraries, mut lines) = (trial.libraries, trial.lines);
    let (mut notices, mut warnings) = (trial.notices, trial.warnings);
    // Several programs may be the same file.
    for words in [&mut lines, &mut notices, &mut warnings] {
        words.dedup();
    }
    Ok(ImageChoice {
        recipe: recipe.to_owned(),
        launcher,
        mpi,
        programs,
        libraries,
        lines,
        notices,
        warnings,
        lacking: trial.lacking,
        image,
    })
}

/// The MPI that this host's programs are linked to, as they would be loaded here.
///
/// # Errors
/// If they are linked to several.
fn linked(asked: RequestedPrograms<'_>, host: &HostLoader) -> Result<Option<Mpi>, ChoiceError> {
    let mut all = Vec::new();
    for part in asked.parts {
        let path = part.path_here(&part.program);
        let Some(binary) = read_binary(&path) else {
            continue;
        };
        let folder = fs::canonicalize(&path).unwrap_or(path);
        let folder = folder.parent().unwrap_or(Path::new("/"));
        let program = Object::new(&part.program, folder, binary);
        let closure = Closure::of(program, &mut |object, library| host.find(object, library));
        // A program linked to both is refused later.
        if closure.mpi.len() == 1 {
            all.extend(closure.mpi.into_keys());
        }
    }
    all.sort();
    all.dedup();
    match all[..] {
        [] => Ok(None),
        [mpi] => Ok(Some(mpi)),
        _ => Err(ChoiceError::Several),
    }
}

/// The name of a file in `/root`: a path below this folder stays as it is, any other becomes its
/// last component.
pub fn name_in_guest(path: &Path) -> String {
    let leads_down = path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    let parts: Vec<String> = parts.collect();
    match leads_down {
        true => parts.join("/"),
        false => parts.last().cloned().unwrap_or_default(),
    }
}
